"""One function over batches: every row once, in order, few batches in hand, exact sums."""

import threading

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.kernel.people import KeptSource
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.sources.base import Pass
from dpinfer.kernel.sums import sum_batches


def map_batches(source, names, function, **options):
    return source.pieces(Pass(names, function, **options))


SOURCE = open_source(pd.DataFrame({"x": np.arange(1000.0), "y": 1.0}))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("most", [1, 7, 999, 1000, 5000])
def test_every_row_is_in_one_batch_in_order(threads, most):
    parts = list(
        map_batches(SOURCE, ["x"], lambda cells, batch: (batch, cells["x"].tolist()), threads=threads, most=most)
    )
    assert [cell for _, cells in parts for cell in cells] == list(range(1000))
    assert all(batch.rows == len(cells) <= most and batch.start == cells[0] for batch, cells in parts)


def test_no_rows_give_no_batch():
    empty = open_source(pd.DataFrame({"x": np.zeros(0)}))
    assert list(map_batches(empty, ["x"], lambda _, batch: batch)) == []
    assert sum_batches(empty, ["x"], lambda *_: np.zeros(2), size=2, largest=1) == [0, 0]


def test_batches_of_people_are_whole():
    frame = pd.DataFrame({"id": np.repeat(np.arange(50), 3), "x": 0.5})
    schema = dpi.Schema(x=dpi.Real(0, 1)).with_people("id", 3)
    source = KeptSource(open_source(frame), schema)
    batches = list(source.batches(["x"], 10))
    assert sum(batch.rows for batch in batches) == 150
    assert all(batch.rows == len(batch.read()["x"]) == 9 for batch in batches[:-1])


@pytest.mark.parametrize("threads", [1, 2])
def test_sums_are_exact_python_integers_up_to_the_bound(threads):
    """Every batch is at its bound, and the total is beyond 64 bits."""
    for largest in (1, 2**38, 2**53, 2**62):
        found = sum_batches(
            SOURCE,
            ["x"],
            lambda _, batch, largest=largest: np.array([largest, -largest, batch.rows]),
            size=3,
            largest=largest,
            threads=threads,
            most=10,
        )
        assert found == [100 * largest, -100 * largest, 1000]
        assert {type(one) for one in found} == {int}


def test_only_a_few_batches_are_in_hand():
    """A source may be larger than memory: what is taken from it waits for what is summed."""
    taken, done = [], []

    class Watched(type(SOURCE)):
        def batches(self, names, most):
            for batch in super().batches(names, most):
                taken.append(batch.start)
                assert len(taken) - len(done) <= 2 * 4 + 1
                yield batch

    watched = Watched({"x": np.arange(1000.0)}, 1000)
    done.extend(map_batches(watched, ["x"], lambda _, batch: batch.start, threads=2, most=10))
    assert done == taken == list(range(0, 1000, 10))


@pytest.mark.parametrize("threads", [1, 2])
def test_what_a_function_raises_is_raised_and_threads_end(threads):
    before = threading.active_count()

    def fail(_, batch):
        raise ZeroDivisionError(batch.rows)

    with pytest.raises(ZeroDivisionError, match="10"):
        sum_batches(SOURCE, ["x"], fail, size=1, largest=1, threads=threads, most=10)
    assert threading.active_count() == before

"""Dask: the release of the same rows in memory, whoever computes, whatever fails, and no cell in what is said."""

import logging
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import DataError, MeasurementFailedError, SourceFailedError
from dpinfer.kernel.sampling import PrivateDraws, SimulatedDraws
from dpinfer.kernel.sources import Pass, open_source
from dpinfer.kernel.sources.engines import Result
from tests.conftest import in_turn
from tests.engines.asked import (
    HOMES,
    ONE_EACH,
    PEOPLE,
    SECRET,
    KillInPass,
    KillOnce,
    has_secret_weights,
    private_mean,
    questions_served,
    released,
    typed,
    weighed_rows,
)
from tests.engines.launching import stderr_to
from tests.goldens.frame import SCHEMA, frame

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
pytest.importorskip("distributed")

FAILS = 2.5e-7
"""Probability that a test of weights fails by chance, on each side."""


def in_dask(rows, partitions):
    """Store rows as they are: by default Dask turns objects into texts."""
    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_pandas(rows, npartitions=partitions, sort=False)


def shuffled(rows):
    return rows.sample(frac=1, random_state=5).reset_index(drop=True)


@pytest.fixture(scope="module")
def served():
    return questions_served(HOMES, frame())


@pytest.mark.parametrize("partitions", [1, 3, 16])
def test_threads_release_what_pandas_does(served, partitions):
    """Of the questions one run asks a third of each number of partitions, in turn."""
    rows = in_dask(frame(), partitions)
    assert len(served) >= 100
    asked = [one for one in served if in_turn(f"{one[0]} {partitions}", 3)]
    assert len(asked) >= 20
    for question, expected in asked:
        assert released(question, rows) == expected, question


def test_people_with_several_rows():
    served = questions_served(PEOPLE[::2], frame())
    rows = in_dask(shuffled(frame()), 16)
    assert len(served) >= 20
    for question, expected in served:
        if question.ask.function != "sample_aggregate":  # labels are drawn in the order of people
            assert released(question, rows) == expected, question


@pytest.mark.parametrize("partitions", [1, 3, 16])
def test_processes_release_what_pandas_does(client, partitions):
    rows = in_dask(frame(), partitions)
    for question, expected in questions_served(ONE_EACH[partitions % 3 :: 3], frame()):
        assert released(question, rows) == expected, question


@pytest.mark.parametrize(
    "made",
    [
        lambda rows: rows.persist(),
        lambda rows: rows.shuffle("kids"),
        lambda rows: rows.repartition(npartitions=2),
        lambda rows: dd.concat([rows.partitions[2], rows.partitions[:2]]),
        lambda rows: rows.map_partitions(lambda part: part, meta=rows._meta),
    ],
    ids=["persisted", "shuffled", "repartitioned", "joined", "mapped"],
)
@pytest.mark.parametrize("processes", [False, True])
def test_frames_that_are_computed(made, processes, request):
    if processes:
        request.getfixturevalue("client")
    rows = made(in_dask(typed(), 3))  # between processes Dask does not shuffle objects of several types
    for question in ONE_EACH[:2] + PEOPLE[:2]:
        assert released(question, rows) == released(question, frame()), question


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("count", [0, 1])
def test_few_rows_and_empty_partitions(count, partitions):
    few = frame().iloc[:count]
    rows = dd.concat([in_dask(frame().iloc[:0], 1)] * (partitions - 1) + [in_dask(few, 1)])
    for question in ONE_EACH[:4] + PEOPLE[:2]:
        assert released(question, rows) == released(question, few), question


def test_parquet_is_read_column_by_column(tmp_path):
    plain = frame()[["age", "educ", "kids"]]
    plain.to_parquet(tmp_path / "rows.parquet", row_group_size=50)
    rows = dd.read_parquet(tmp_path / "rows.parquet", split_row_groups=1)
    schema = dpi.Schema({name: SCHEMA[name] for name in plain})
    found = [
        dpi.mean("age", dpi.PublicData(one, schema, rng=np.random.default_rng(1))).measure(dpi.ZCDP(1)).to_json()
        for one in (plain, rows)
    ]
    assert rows.npartitions > 1
    assert found[0] == found[1]
    source = open_source(rows)
    read = list(source.pieces(Pass(("age",), lambda cells, _: sorted(cells))))
    assert read == [["age"]] * rows.npartitions


# Randomness


def test_secret_weights_are_independent_between_partitions():
    """Partitions are alike, and draws that were shared would give three times the variance. False alarms: 5e-7."""
    part = pd.DataFrame({"kids": np.ones(64)})
    found = weighed_rows(open_source(in_dask(pd.concat([part] * 3), 3)), PrivateDraws(), 400)
    ratio = found.var(ddof=1) / (found.mean() ** 2 / 192)
    low, high = stats.chi2(399).ppf([FAILS, 1 - FAILS]) / 399
    assert low < ratio * (1 + 1e-6) < high * 1.1  # the mean is of 400 sums, each of 192 weights: off by 2%


def test_coupled_secrets_give_equal_sums(client):
    found = [weighed_rows(open_source(in_dask(frame(), 3)), SimulatedDraws(np.random.default_rng(4)), 50)]
    with dask.config.set(scheduler="threads"):
        found.append(weighed_rows(open_source(in_dask(frame(), 3)), SimulatedDraws(np.random.default_rng(4)), 50))
    assert np.array_equal(*found)


def test_a_pass_is_never_answered_by_an_earlier_one(client):
    source = open_source(in_dask(frame(), 3))
    first, second = (weighed_rows(source, PrivateDraws(), 50) for _ in range(2))
    assert not np.array_equal(first, second)  # 50 equal sums of 300 weights: far below 1e-6


# Failures


@pytest.mark.parametrize("place", ["before the pass", "in the pass"])
def test_a_killed_worker_gives_the_same_release(client, tmp_path, dask_log, place):
    kill = KillOnce(tmp_path)
    rows = in_dask(frame(), 6)
    with stderr_to(dask_log):  # the worker that is started in its place prints there, too
        if place == "in the pass":
            counted = list(open_source(rows).pieces(Pass(("age",), KillInPass(kill), sum)))
            assert sum(counted) == len(frame())
        else:
            killing = rows.map_partitions(kill, meta=rows._meta)
            question = ONE_EACH[0]
            assert released(question, killing) == released(question, frame())
        client.wait_for_workers(2)
    assert kill.killed


def failing(part):
    if len(part):
        raise ValueError(f"could not read {SECRET}")
    return part


@pytest.mark.parametrize("processes", [False, True])
def test_a_failure_tells_of_no_cell(processes, request, dask_log, caplog, capfd):
    if processes:
        request.getfixturevalue("client")
        before = dask_log.stat().st_size
    rows = in_dask(frame(), 3)
    bad = rows.map_partitions(failing, meta=rows._meta)
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1))
    with caplog.at_level(logging.DEBUG), pytest.raises(MeasurementFailedError) as caught:
        private_mean(bad, ledger).fit(dpi.ZCDP(0.25))
    assert ledger.spent == dpi.ZCDP(0.25)
    error = caught.value
    assert "charged" in str(error)
    assert "Dask" in str(error)
    told = [repr(error), str(error), caplog.text, *capfd.readouterr()]
    assert error.__cause__ is None
    assert error.__context__ is None
    if processes:
        told.append(dask_log.read_bytes()[before:].decode())
        assert "Compute Failed" in told[-1]  # Dask says that a task failed, and no more
    assert not any(SECRET in one for one in told)


def test_what_a_pass_fails_with_is_not_told(client, dask_log, capfd):
    before = dask_log.stat().st_size

    def fail(cells, part):
        raise ValueError(SECRET)

    with pytest.raises(SourceFailedError) as caught:
        list(open_source(in_dask(frame(), 3)).pieces(Pass(("age",), fail, sum)))
    assert caught.value.__context__ is None
    assert SECRET not in str(caught.value) + "".join(capfd.readouterr()) + dask_log.read_text()[before:]


@pytest.mark.parametrize(
    "changed",
    [
        lambda found: found[:-1],
        lambda found: [*found, found[0]],
        lambda found: [*found[:-1], Result((9,), *found[-1:])],
        lambda found: [Result((0, 0, 1, 2), 300, ())],
    ],
    ids=["missing", "twice", "unknown", "twice in one"],
)
def test_partitions_are_complete_and_single(changed, monkeypatch):
    source = open_source(in_dask(frame(), 3))
    whole = type(source).results

    def wrong(self, one, packed):
        partitions, results = whole(self, one, packed)
        return partitions, iter(changed(list(results)))

    assert sum(source.pieces(Pass(("age",), lambda _, part: part.rows))) == len(frame())
    monkeypatch.setattr(type(source), "results", wrong)
    with pytest.raises((SourceFailedError, TypeError)):
        list(source.pieces(Pass(("age",), lambda _, part: part.rows)))


def test_rows_that_change_between_passes(tmp_path):
    part = frame()[["age", "educ"]]
    part.to_parquet(tmp_path / "rows.parquet")

    def read(_):
        return pd.read_parquet(tmp_path / "rows.parquet")

    rows = dd.from_map(read, [0], meta=part.iloc[:0])
    counted = Pass(("age",), lambda _, part: part.rows)
    with open_source(rows).opened() as source:
        assert list(source.pieces(counted)) == [len(part)]
        part.iloc[:7].to_parquet(tmp_path / "rows.parquet")
        with pytest.raises(SourceFailedError, match="other rows"):
            list(source.pieces(counted))


# What is refused before the charge


def test_public_weights_are_refused_by_name():
    data = dpi.PublicData(in_dask(frame(), 3), SCHEMA, rng=np.random.default_rng(1), neighbors="replace_one")
    with pytest.raises(DataError, match="public weights"):
        dpi.bootstrap("age", data=data, weights="public").measure(dpi.ZCDP(0.1))


def test_workers_without_the_package(client, monkeypatch):
    source = open_source(in_dask(frame(), 3))
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1))
    monkeypatch.setattr(type(source), "versions", lambda self: [("0.0.0", (3, 11))])
    with pytest.raises(DataError, match="install the same there"):
        private_mean(in_dask(frame(), 3), ledger).fit(dpi.ZCDP(0.25))
    assert ledger.spent == dpi.ZCDP(0)


def test_repeated_names():
    rows = in_dask(frame(), 2)
    with pytest.raises(DataError, match="several columns named 'age'"):
        dpi.PublicData(dd.concat([rows, rows[["age"]]], axis=1), SCHEMA, rng=np.random.default_rng(1))


# Frames larger than memory


def test_what_waits_does_not_grow_with_the_partitions():
    """Pieces that cannot be joined are taken a few partitions at a time."""
    made = []

    def part(place):
        made.append(place)
        return pd.DataFrame({"age": np.arange(3.0) + place})

    rows = dd.from_map(part, range(200), meta=pd.DataFrame({"age": [0.0]}))
    pieces = open_source(rows).pieces(Pass(("age",), partial(_first)))
    assert [next(pieces) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert len(made) < 40
    assert list(pieces) == list(range(5, 200))


def _first(cells, _):
    return int(cells["age"][0])


def test_only_what_is_asked_is_loaded():
    """Dask is loaded by those alone who use it."""
    import subprocess
    import sys

    told = "import sys, dpinfer; print([name for name in ('dask', 'distributed', 'pyspark') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_mark_is_left_by_a_kill(tmp_path):
    assert not KillOnce(tmp_path).killed
    Path(tmp_path / "killed").touch()
    assert KillOnce(tmp_path)(3) == 3


def test_questions_of_secret_weights_are_left_to_their_own_tests(served):
    assert {question.ask.function for question in HOMES if has_secret_weights(question)} == {"bootstrap"}

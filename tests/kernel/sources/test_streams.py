"""Streams: read once or again, the same rows in every pass, few of them in memory; and what is refused by name."""

import threading
import traceback

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.errors import DataError, MeasurementFailedError, UnknownColumnError
from dpinfer.kernel.people import KeptSource
from dpinfer.kernel.sources import Pass, open_source
from dpinfer.kernel.sums import sum_batches

SCHEMA = dpi.Schema(x=dpi.Real(0, 10), g=dpi.Category(["a", "b"]))
PRICE = dpi.ZCDP(1)
TABLE = pa.table({"x": np.linspace(0, 10, 100), "g": ["a", "b"] * 50, "id": np.arange(100) // 3, "z": [None] * 100})


class Exported:
    """Anything with the protocol of Arrow streams; notes how often it is asked."""

    def __init__(self, tables):
        self.tables, self.asked = list(tables), 0

    def __arrow_c_stream__(self, requested_schema=None):
        table = self.tables[min(self.asked, len(self.tables) - 1)]
        self.asked += 1
        return table.__arrow_c_stream__(requested_schema)


def guarded(source, price=PRICE, **options):
    return dpi.PrivateData(source, SCHEMA, dpi.Ledger.in_memory(price), **options)


def test_a_stream_is_asked_for_once_when_it_is_opened_and_once_a_pass():
    source = Exported([TABLE])
    data = guarded(source)
    assert source.asked == 1
    dpi.mean("x", data).measure(dpi.ZCDP(0.5))
    assert source.asked == 2
    dpi.ols("x ~ C(g)", data).measure(dpi.ZCDP(0.5))
    assert source.asked > 4


def test_a_stream_that_gives_other_rows_in_another_pass_ends_the_run():
    data = guarded(Exported([TABLE, TABLE, TABLE.slice(1)]))
    with pytest.raises(MeasurementFailedError, match="the source gave other rows in another pass") as caught:
        dpi.ols("x ~ C(g)", data).measure(PRICE)
    assert data.ledger.spent == PRICE
    assert len(caught.value.partial.stages) == 1


def test_a_reader_serves_one_question_of_one_stage():
    reader = TABLE.to_reader(max_chunksize=7)
    data = guarded(reader)
    with pytest.raises(DataError, match=r"takes \d passes over the rows, and a stream can be read once"):
        dpi.ols("x ~ C(g)", data).measure(PRICE)
    assert data.ledger.charges().empty
    dpi.mean("x", data).measure(dpi.ZCDP(0.5))
    with pytest.raises(DataError, match="this stream can be read once, and was"):
        dpi.mean("x", data).measure(dpi.ZCDP(0.5))
    assert len(data.ledger.charges()) == 1


def test_a_reader_that_two_threads_ask_at_once_is_charged_once(monkeypatch):
    """The second waits until the first has read it, and is refused before its charge."""
    data = guarded(TABLE.to_reader(max_chunksize=7))
    charging, go, account = threading.Event(), threading.Event(), type(data.ledger.account)
    charge, outcomes = account.charge, []

    def slow(*args, **options):
        charging.set()
        assert go.wait(30)
        return charge(*args, **options)

    monkeypatch.setattr(account, "charge", slow)

    def ask():
        try:
            outcomes.append(dpi.mean("x", data).measure(dpi.ZCDP(0.1)))
        except DataError as error:
            outcomes.append(error)

    first, second = (threading.Thread(target=ask) for _ in range(2))
    first.start()
    assert charging.wait(30)
    second.start()
    second.join(0.5)
    assert second.is_alive()
    go.set()
    for thread in (first, second):
        thread.join(30)
    assert [type(one) for one in outcomes] == [dpi.Release, DataError]
    assert len(data.ledger.charges()) == 1


def test_a_reader_of_people_serves_questions_of_several_stages():
    data = guarded(TABLE.to_reader(max_chunksize=7), id="id", max_rows=3)
    release = dpi.ols("x ~ C(g)", data).measure(PRICE)
    assert len(release.stages) > 2


def test_a_reader_does_not_tell_its_number_of_rows():
    ledger = dpi.Ledger.in_memory(PRICE, neighbors="replace_one")
    data = dpi.PrivateData(TABLE.to_reader(), SCHEMA, ledger)
    with pytest.raises(DataError, match="does not tell its number of rows, which is public under replace_one"):
        dpi.mean("x", data).measure(PRICE)
    assert ledger.charges().empty


def test_only_asked_columns_are_read():
    asked = []

    class Lazy(Exported):
        pass

    frame = pl.from_arrow(TABLE).lazy().map_batches(lambda part: asked.append(part.columns) or part)
    source = open_source(frame.select("x", "g"))
    assert source.columns == ("x", "g")
    connection = duckdb.connect()
    connection.register("rows", TABLE)
    relation = open_source(connection.sql("select x, g, error(id::varchar) as broken from rows"))
    assert sum(relation.pieces(Pass(("x",), lambda cells, part: part.rows, sum))) == 100


def test_a_query_that_fails_on_a_cell_says_nothing_of_it(capfd, caplog):
    connection = duckdb.connect()
    connection.register("rows", pa.table({"x": ["1", "SECRET", "3"], "g": ["a", "b", "a"]}))
    data = guarded((connection, "select x::double as x, g from rows"))
    with pytest.raises(MeasurementFailedError) as caught:
        dpi.mean("x", data).measure(PRICE)
    told = "".join(traceback.format_exception(caught.value)) + caplog.text + "".join(capfd.readouterr())
    assert "SECRET" not in told
    assert caught.value.__context__ is caught.value.__cause__ is None
    assert data.ledger.spent == PRICE


@pytest.mark.parametrize(
    ("source", "match"),
    [
        (lambda: (duckdb.connect(), "select nothing from nowhere"), r"DuckDB refuses the query \(CatalogException\)"),
        (lambda: ("file.db", "select 1"), r"expected \(DuckDB connection, query\)"),
        (lambda: pa.array([1.0]), "expected a pandas, Polars, Dask or Spark DataFrame"),
        (lambda: pa.table([[1], [2]], names=["x", "x"]).to_reader(), "several columns named 'x'"),
    ],
)
def test_what_is_no_source_is_refused_by_name(source, match):
    with pytest.raises(DataError, match=match):
        guarded(source())


def test_columns_have_to_exist():
    with pytest.raises(UnknownColumnError, match="'g' is not in the data; it has: x"):
        guarded(TABLE.select(["x"]).to_reader())


def test_few_batches_are_in_hand():
    """What is taken from a stream waits for what is summed."""
    taken, done = [], []
    lock = threading.Lock()

    def batches():
        for batch in TABLE.to_batches(max_chunksize=5):
            taken.append(1)
            with lock:
                assert len(taken) - len(done) <= 2 * 4 + 2
            yield batch

    reader = pa.RecordBatchReader.from_batches(TABLE.schema, batches())
    done.extend(open_source(reader).pieces(Pass(("x",), lambda cells, part: part.rows, threads=2)))
    assert sum(done) == 100


def test_rows_of_public_data_come_back_whatever_they_are_in(tmp_path):
    TABLE.to_pandas().to_csv(tmp_path / "rows.csv", index=False)
    for source in (TABLE, Exported([TABLE]), pl.from_arrow(TABLE).lazy(), tmp_path / "rows.csv"):
        found = dpi.PublicData(source, SCHEMA, rng=np.random.default_rng(0)).frame()
        pd.testing.assert_series_equal(found["x"].astype(float), pd.Series(np.linspace(0, 10, 100), name="x"))
        assert found["g"].tolist() == ["a", "b"] * 50


# Draws under secret weights and labels


def test_every_row_gets_one_label_and_a_person_one(monkeypatch, tmp_path):
    """Labels are drawn here, once for each row or person, whatever the rows come in."""
    from dpinfer.kernel import blocks

    drawn, dealt = [], []
    scatter = blocks.Spill.scatter

    class Noted(blocks.Spill):
        def scatter(self, buckets, rows):
            dealt.append(rows)
            scatter(self, buckets, rows)

    monkeypatch.setattr(blocks, "Spill", Noted)
    labels = dpi.kernel.sampling.SimulatedDraws.labels
    monkeypatch.setattr(
        dpi.kernel.sampling.SimulatedDraws, "labels", lambda self, size, k: drawn.append(size) or labels(self, size, k)
    )
    for options, units in (({}, 100), ({"id": "id", "max_rows": 3}, 34)):
        drawn.clear()
        dealt.clear()
        data = dpi.PublicData(Exported([TABLE]), SCHEMA, rng=np.random.default_rng(0), **options)
        dpi.sample_aggregate("x ~ 1", data, model=smf.ols, blocks=8, bounds={"Intercept": (0, 10)}).measure(PRICE)
        assert sum(drawn) == units
        rows = np.concatenate(dealt)
        assert len(rows) == 100
        x = rows[:, 1]
        np.testing.assert_allclose(np.sort(x), np.linspace(0, 10, 100))
        if options:
            person = np.rint(x * 99 / 10).astype(int) // 3
            assert all(len(np.unique(rows[person == one, 0])) == 1 for one in range(34))


def test_secret_weights_from_a_stream_follow_their_law():
    """Each row counts twice or not at all, by a coin of its own: 4,000 replicates of ten rows, read in many batches.

    The mean of a sum is that of the rows, its variance the sum of squares; six standard errors of either.
    """
    x = np.linspace(0, 10, 10)
    table = pa.table({"x": x, "g": ["a"] * 10})
    from dpinfer.kernel.sampling import PrivateDraws
    from dpinfer.kernel.sums import replicate_sums

    asked = dpi.bootstrap("x", weights="double_or_nothing", replicates=4000)
    rows = asked.measurement(dpi.GDP(1), schema=SCHEMA).stages[0].rows
    with open_source(table.to_reader(max_chunksize=3)).opened() as source:
        sums = np.array(replicate_sums(rows, source, PrivateDraws()), dtype=float).reshape(4000, -1)
    unit = rows.units[0]
    counts = sums[:, 0] / unit
    assert abs(counts.mean() - 10) < 6 * np.sqrt(10 / 4000)
    assert abs(counts.var() - 10) < 6 * 10 * np.sqrt(2 / 4000)
    assert set(np.unique(counts)) <= set(range(0, 21, 2))


def test_rows_of_a_block_of_people_that_an_engine_groups_are_in_an_order_that_partitions_do_not_change():
    """How many partitions there are, which a row may change, is not seen in what is fitted."""
    dd = pytest.importorskip("dask.dataframe")
    seen = {}
    frame = TABLE.select(["x", "g", "id"]).to_pandas()

    def first(block):
        seen[parts].append(tuple(block["x"]))
        return [float(block["x"].iloc[0]) if len(block) else 0.0]

    for parts in (1, 4, 7):
        seen[parts] = []
        source = dd.from_pandas(frame.sample(frac=1, random_state=parts), npartitions=parts, sort=False)
        data = dpi.PublicData(source, SCHEMA, rng=np.random.default_rng(0), id="id", max_rows=3)
        dpi.sample_aggregate(["x"], data, model=first, blocks=8, bounds={"x": (0, 10)}).measure(PRICE)
    for blocks in seen.values():
        assert blocks
        assert all(list(one) == sorted(one) for one in blocks)


# One function over batches: every row once, in order, few batches in hand, exact sums


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

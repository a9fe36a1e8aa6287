"""What one row could have told before the charge, and what is lost by a question that cannot be answered: nothing."""

import threading
import traceback

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.errors import DataError
from dpinfer.kernel import blocks, people
from dpinfer.kernel.sources import open_source

SCHEMA = dpi.Schema(x=dpi.Real(0, 10), g=dpi.Category(["a", "b"]))
PRICE = dpi.ZCDP(1)
ODD = pa.table({"x": ["1", "SECRET", "3"], "g": ["a", "b", "a"]})
TABLE = pa.table({"x": np.linspace(0, 10, 500), "g": ["a", "b"] * 250, "id": np.arange(500) // 3})


def guarded(source, neighbors="add_remove", **options):
    return dpi.PrivateData(source, SCHEMA, dpi.Ledger.in_memory(PRICE, neighbors=neighbors), **options)


def _odd_query():
    connection = duckdb.connect()
    connection.register("rows", ODD)
    return connection, "select x::double as x, g from rows"


def _odd_frame():
    return pl.from_arrow(ODD).lazy().with_columns(pl.col("x").cast(pl.Float64))


@pytest.mark.parametrize("make", [_odd_query, _odd_frame])
def test_counting_reads_no_cell(make):
    assert guarded(make(), "replace_one").nobs == 3


def _odd_filter():
    connection, _ = _odd_query()
    return connection, "select x::double as x, g from rows where x::double > 0"


@pytest.mark.parametrize("make", [_odd_filter, lambda: _odd_frame().filter(pl.col("x") > 0)])
def test_rows_that_cannot_be_counted_are_refused_with_no_word_of_a_cell(make):
    data = guarded(make(), "replace_one")
    for ask in (lambda: data.nobs, lambda: repr(data), lambda: dpi.mean("x", data).measure(PRICE)):
        with pytest.raises(DataError, match="the rows cannot be counted") as caught:
            ask()
        assert caught.value.__context__ is caught.value.__cause__ is None
        assert "SECRET" not in "".join(traceback.format_exception(caught.value))
    assert data.ledger.charges().empty


def test_a_reader_is_kept_where_blocks_wait_for_a_count():
    reader = TABLE.to_reader()
    data = guarded(reader)
    with pytest.raises(DataError, match="takes 2 passes over the rows"):
        dpi.sample_aggregate("x ~ 1", data, model=smf.ols, bounds={"Intercept": (0, 10)}).measure(PRICE)
    assert data.ledger.charges().empty
    assert reader.read_all().num_rows == 500


@pytest.mark.parametrize(
    ("ask", "options"),
    [
        (lambda data: dpi.mean("x", data), {"id": "id", "max_rows": 2}),
        (lambda data: dpi.median("x", data), {}),
        (lambda data: dpi.sample_aggregate("x ~ 1", data, model=smf.ols, blocks=8, bounds={"Intercept": (0, 10)}), {}),
    ],
    ids=["people", "places", "blocks"],
)
def test_rows_that_cannot_wait_on_disk_are_refused_before_the_charge(ask, options, monkeypatch):
    def full(**_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(people, "TemporaryFile", full)
    data = guarded(pl.from_arrow(TABLE).lazy(), **options)
    with pytest.raises(DataError, match=r"the system refuses them \(Too many open files\)"):
        ask(data).measure(PRICE)
    assert data.ledger.charges().empty
    monkeypatch.undo()
    ask(data).measure(PRICE)


def test_nothing_else_needs_the_disk(monkeypatch):
    monkeypatch.setattr(people, "TemporaryFile", None)
    dpi.mean("x", guarded(TABLE.to_reader())).measure(PRICE)
    dpi.mean("x", guarded(TABLE, id="id", max_rows=2)).measure(PRICE)


@pytest.mark.parametrize("kind", ["csv", "json", "filtered", "union"])
def test_datasets_whose_types_are_guessed_from_rows_are_refused(kind, tmp_path):
    """One cell turns a column of dates into texts: a thousand other rows would be read otherwise."""
    json = kind == "json"
    path = tmp_path / "rows.txt"
    path.write_text('{"g": "2020-01-01"}\n' * 5 if json else "g\n" + "2020-01-01\n" * 5)
    found = pads.dataset(path, format="json" if json else "csv")
    found = found.filter(pads.field("g") == pads.field("g")) if kind == "filtered" else found
    found = pads.dataset([found]) if kind == "union" else found
    with pytest.raises(DataError, match="one row would change how others are read"):
        open_source(found)


def test_a_long_cell_in_the_first_row_of_a_csv_file_is_a_cell(tmp_path):
    (tmp_path / "rows.csv").write_text("x,g\n1," + "a" * 200_000 + "\n2,b\n")
    assert sum(part.rows for part in open_source(tmp_path / "rows.csv").batches(["x"], 9)) == 2
    dpi.mean("x", guarded(tmp_path / "rows.csv")).measure(PRICE)


def test_chosen_row_groups_are_counted_and_no_others(tmp_path):
    pq.write_table(TABLE, tmp_path / "rows.parquet", row_group_size=50)
    whole = pads.dataset(tmp_path / "rows.parquet")
    part = next(whole.get_fragments()).subset(row_group_ids=[0, 3])
    source = open_source(pads.FileSystemDataset([part], whole.schema, whole.format, whole.filesystem))
    assert source.count() == sum(one.rows for one in source.batches(["x"], 99)) == 100


def test_two_fits_at_once_share_a_connection():
    """A connection drops the stream of one query when it is asked another: passes take turns."""
    connection = duckdb.connect()
    connection.sql("create table rows as select (i % 11)::double as x, 'a' as g from range(1000000) t(i)")
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(100))
    given = (connection, "select * from rows"), connection.sql("select * from rows")
    found, asked = [], [dpi.PrivateData(source, SCHEMA, ledger) for source in given]

    def ask(data):
        found.extend(dpi.count(data).measure(dpi.ZCDP(1)).kind for _ in range(3))

    threads = [threading.Thread(target=ask, args=(data,)) for data in asked]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(found) == 6


def test_the_order_in_which_rows_come_makes_no_difference_to_a_block(monkeypatch):
    """The fits of blocks are functions of what is in them: with labels by content, order shows nowhere."""
    size = TABLE.num_rows
    shuffled = TABLE.take(np.random.default_rng(0).permutation(size))
    seen = {}

    def fitted(rows, part, *, private):
        seen["parts"] = [part(2 * block, 2 * block + 2) for block in range(rows.count)]
        return np.zeros((rows.count, 3 if rows.halves else 1, rows.size))

    monkeypatch.setattr(blocks, "_fitted", fitted)
    parts = []
    for table in (TABLE, shuffled):
        labels = (np.rint(table["x"].to_numpy() * (size - 1) / 10).astype(np.intp) * 7) % 16
        monkeypatch.setattr(dpi.kernel.sampling.SimulatedDraws, "labels", lambda *_, labels=labels: labels)
        data = dpi.PublicData(table.to_reader(), SCHEMA, rng=np.random.default_rng(0))
        dpi.sample_aggregate("x ~ 1", data, model=smf.ols, blocks=8, bounds={"Intercept": (0, 10)}).measure(PRICE)
        parts.append(seen["parts"])
    assert sum(len(one["x"]) for one in parts[0]) == size
    for one, other in zip(*parts, strict=True):
        np.testing.assert_array_equal(one["x"], other["x"])

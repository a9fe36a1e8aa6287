"""Files: what a cell means is settled cell by cell, and files that change end a run, with no word of a row."""

import os
import traceback
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

import dpinfer as dpi
from dpinfer.errors import DataError, MeasurementFailedError, UnknownColumnError
from dpinfer.kernel.people import person_codes
from dpinfer.kernel.sources import open_source

SCHEMA = dpi.Schema(x=dpi.Real(0, 10), g=dpi.Category(["a", "b", "7"]))
PRICE = dpi.ZCDP(1)


def read(source, name):
    """All cells of a column, as the schema reads them."""
    found = open_source(source)
    found.find([name])
    parts = [SCHEMA[name].meaning(part.read()[name]) for part in found.batches([name], 3)]
    return np.concatenate([np.zeros(0), *parts])


def write(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


def test_types_that_differ_between_files_are_settled_cell_by_cell(tmp_path):
    write(tmp_path / "1.parquet", x=pa.array([1, 2], pa.int32()), g=pa.array(["a", "b"]))
    write(tmp_path / "2.parquet", x=pa.array(["3", "oops"]), g=pa.array([7, None]))
    write(tmp_path / "3.parquet", x=pa.array([Decimal("4.5"), None], pa.decimal128(9, 2)), g=pa.array(["a", "a"]))
    write(tmp_path / "4.parquet", x=pa.array([5.5, np.nan], pa.float32()), g=pa.array(["b", ""], pa.large_string()))
    write(tmp_path / "5.parquet", g=pa.array(["b"]).dictionary_encode())
    expected = [1, 2, 3, np.inf, 4.5, np.nan, 5.5, np.nan, np.nan]
    np.testing.assert_array_equal(read(tmp_path, "x"), expected)
    np.testing.assert_array_equal(read(tmp_path, "g"), [0, 1, 2, np.nan, 0, 0, 1, np.nan, 1])
    np.testing.assert_array_equal(read(pads.dataset(tmp_path), "x"), expected)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
def test_texts_of_every_type_are_read_alike(kind, tmp_path):
    cells = pa.array(["a", None, "b", "oops", "7"] * 5)
    cells = cells.dictionary_encode() if pa.types.is_dictionary(kind) else cells.cast(kind)
    try:
        write(tmp_path / "one.parquet", g=cells)
    except pa.ArrowNotImplementedError:
        pytest.skip(f"pyarrow {pa.__version__} writes no {kind}")
    np.testing.assert_array_equal(read(tmp_path / "one.parquet", "g"), [0, np.nan, 1, np.inf, 2] * 5)


@pytest.mark.parametrize("value", [2**53 + 1, -(2**63), 2**62 - 1])
def test_ids_beside_missing_ones_keep_their_digits(value, tmp_path):
    path = write(tmp_path / "k.parquet", k=pa.array([value, None, value + 1, value]))
    codes, _ = person_codes(next(iter(open_source(path).batches(["k"], 9))).read()["k"])
    assert codes[1] == -1
    assert codes[0] == codes[3] != codes[2]


def test_a_column_that_the_first_file_lacks_is_found_in_others(tmp_path):
    write(tmp_path / "1.parquet", g=["a"])
    write(tmp_path / "2.parquet", x=[1.5], g=["b"])
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "1.csv").write_text("g\na\n")
    (tmp_path / "csv" / "2.csv").write_text("x,g\n1.5,b\n")
    for source in (tmp_path / "*.parquet", tmp_path / "csv"):
        dpi.PublicData(str(source), SCHEMA, rng=np.random.default_rng(0))
        np.testing.assert_array_equal(read(str(source), "x"), [np.nan, 1.5])
        with pytest.raises(UnknownColumnError, match="'other' is not in the data"):
            dpi.PublicData(str(source), dpi.Schema(other=dpi.Boolean()), rng=np.random.default_rng(0))


def test_folders_tell_the_values_of_columns(tmp_path):
    for text, x in (("a", 1.0), ("b", 2.0), ("7", 3.0)):
        (tmp_path / f"g={text}").mkdir()
        write(tmp_path / f"g={text}" / "part.parquet", x=[x, x])
    (tmp_path / "_SUCCESS").write_text("")
    np.testing.assert_array_equal(read(tmp_path, "g"), [2, 2, 0, 0, 1, 1])
    np.testing.assert_array_equal(read(tmp_path, "x"), [3, 3, 1, 1, 2, 2])


def test_names_with_dots_and_blanks(tmp_path):
    names = ["hours.per.week", "a b", 'say "x"', "ö"]
    path = write(tmp_path / "one.parquet", **{name: [1.0, 2.0] for name in names})
    (tmp_path / "one.csv").write_text('hours.per.week,a b,"say ""x""",ö\n1,1,1,1\n2,2,2,2\n', encoding="utf-8")
    for source in (path, tmp_path / "one.csv"):
        for name in names:
            cells = [part.read()[name] for part in open_source(source).batches([name], 9)]
            np.testing.assert_array_equal(np.concatenate([SCHEMA["x"].meaning(one) for one in cells]), [1, 2])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"x,g\n", []),
        (b"x,g", []),
        (b"x,g\n\n\n", []),
        (b"\xef\xbb\xbfx,g\r\n1,a\r\n,b\r\n", [1, np.nan]),
        (b'x,g\n"1","a\nb"\n 2 ,b\nNA,a\nnan,a\n', [1, 2, np.inf, np.inf]),
        (b"x,g\n1,a\n2\n3,a,a\n4,b\n", [1, 4]),
        (b"x,g\n1,\xff\n\xff,a\n1e400,a\ntrue,a\n", [1, np.inf, np.inf, 1]),
    ],
    ids=["header", "no end of line", "blank lines", "mark and returns", "quotes", "short and long lines", "bytes"],
)
def test_csv_cells_are_texts_whatever_the_others_are(text, expected, tmp_path):
    (tmp_path / "one.csv").write_bytes(text)
    np.testing.assert_array_equal(read(tmp_path / "one.csv", "x"), expected)


def test_compressed_csv(tmp_path):
    pd.DataFrame({"x": [1.5, 2.5], "g": ["a", "b"]}).to_csv(tmp_path / "one.csv.gz", index=False)
    np.testing.assert_array_equal(read(tmp_path / "one.csv.gz", "x"), [1.5, 2.5])


def test_a_file_without_rows_is_a_file(tmp_path):
    write(tmp_path / "1.parquet", x=pa.array([], pa.float64()), g=pa.array([], pa.string()))
    assert len(read(tmp_path, "x")) == 0
    data = dpi.PublicData(tmp_path, SCHEMA, rng=np.random.default_rng(0))
    assert dpi.mean("x", data).measure(PRICE).to_json()
    write(tmp_path / "2.parquet", x=[4.0], g=["a"])
    np.testing.assert_array_equal(read(tmp_path, "x"), [4])


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda path: path / "nothing", "found no file"),
        (lambda path: path / "*.parquet", "found no file"),
        (lambda path: path, "found no file"),
        (lambda path: (path / "x.txt").write_text("x") and path / "x.txt", "found others, expected Parquet files"),
        (lambda path: (path / "x.parquet").write_text("SECRET") and path, r"the first file cannot be read \(ArrowInv"),
    ],
    ids=["no path", "no match", "empty folder", "another kind", "damaged"],
)
def test_paths_of_nothing_are_refused_before_a_ledger_is_touched(make, match, tmp_path):
    ledger = dpi.Ledger.in_memory(PRICE)
    with pytest.raises(DataError, match=match) as caught:
        dpi.PrivateData(make(tmp_path), SCHEMA, ledger)
    assert "SECRET" not in "".join(traceback.format_exception(caught.value))


def test_two_kinds_of_files_are_refused(tmp_path):
    write(tmp_path / "1.parquet", x=[1.0], g=["a"])
    (tmp_path / "2.csv").write_text("x,g\n1,a\n")
    with pytest.raises(DataError, match="found others, expected Parquet files"):
        open_source(tmp_path)


# Files that change


def _data(tmp_path, price=PRICE):
    for place in range(3):
        write(tmp_path / f"{place}.parquet", x=np.linspace(0, 10, 50), g=["a", "b"] * 25)
    return dpi.PrivateData(tmp_path, SCHEMA, dpi.Ledger.in_memory(price), version="1")


@pytest.mark.parametrize("how", ["changed", "gone"])
def test_files_that_changed_since_they_were_opened_are_refused_before_the_charge(how, tmp_path):
    data = _data(tmp_path)
    if how == "gone":
        (tmp_path / "1.parquet").unlink()
    else:
        write(tmp_path / "1.parquet", x=[1.0], g=["a"])
    with pytest.raises(DataError, match="a file has changed or is gone since the data were opened"):
        dpi.mean("x", data).measure(PRICE)
    assert data.ledger.charges().empty


@pytest.mark.parametrize("how", ["changed", "gone", "damaged"])
@pytest.mark.parametrize("when", [1, 2])
def test_files_that_change_between_rounds_end_the_run_after_the_charge(how, when, tmp_path, monkeypatch, capfd, caplog):
    """Between two passes a file is written anew, removed, or damaged in place with the time it had."""
    import dpinfer.kernel.run as running

    data, passes, sums = _data(tmp_path), [], running.exact_sums
    path = tmp_path / "1.parquet"

    def meddle(rows, source):
        passes.append(1)
        if len(passes) == when:
            if how == "gone":
                path.unlink()
            elif how == "changed":
                write(path, x=[1.0], g=["a"])
            else:
                before = path.stat()
                path.write_bytes(b"PAR1SECRET" + path.read_bytes()[10:-30] + b"SECRET" * 5)
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        return sums(rows, source)

    monkeypatch.setattr(running, "exact_sums", meddle)
    with pytest.raises(MeasurementFailedError) as caught:
        dpi.ols("x ~ C(g)", data).measure(PRICE)
    assert "a file of the source changed or disappeared" in str(caught.value)
    assert caught.value.reason == "a file of the source changed or disappeared"
    assert len(caught.value.partial.stages) == when - 1
    assert data.ledger.spent == PRICE
    told = "".join(traceback.format_exception(caught.value)) + caplog.text + "".join(capfd.readouterr())
    assert "SECRET" not in told
    assert ".parquet" not in told


def test_opening_many_files_reads_one_of_them(tmp_path, monkeypatch):
    """Row counts and statistics of files are not looked at, and neither are the files."""
    for place in range(20):
        write(tmp_path / f"{place:02}.parquet", x=[1.0], g=["a"])
    for place in range(1, 20):
        (tmp_path / f"{place:02}.parquet").write_text("not read")
    data = dpi.PrivateData(tmp_path, SCHEMA, dpi.Ledger.in_memory(PRICE))
    assert repr(data).endswith("number of rows: confidential)")
    assert data.nobs is None


def test_the_number_of_rows_is_told_where_it_is_public(tmp_path):
    _data(tmp_path)
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "one.csv").write_text("x,g\n1,a\n2,b\n")
    for source, rows in ((str(tmp_path / "*.parquet"), 150), (tmp_path / "text", 2)):
        ledger = dpi.Ledger.in_memory(PRICE, neighbors="replace_one")
        assert dpi.PrivateData(source, SCHEMA, ledger).nobs == rows


def test_nothing_is_left_on_disk(tmp_path, monkeypatch):
    """Rows of people, blocks and places of quantiles wait in files that have no name."""
    frame = pd.DataFrame({"x": np.linspace(0, 10, 90), "g": "a", "id": np.arange(90) // 3})
    frame.to_parquet(tmp_path / "one.parquet")
    waiting = tmp_path / "waiting"
    waiting.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(waiting))
    rng = np.random.default_rng(0)
    data = dpi.PublicData(tmp_path / "one.parquet", SCHEMA, rng=rng, id="id", max_rows=2)
    for asked in (dpi.mean("x", data), dpi.median("x", data)):
        asked.measure(PRICE)
        assert list(waiting.iterdir()) == []

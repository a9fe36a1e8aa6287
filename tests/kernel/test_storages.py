"""The same cells in every storage are the same values and the same people, and nothing that a cell holds raises.

Warnings are errors in all tests.
"""

import datetime
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpinfer as dpi
from dpinfer.kernel.people import person_codes
from dpinfer.kernel.sources import open_source
from dpinfer.schema import Boolean, Category, Integer, Real

COLUMNS = [
    Real(0, 10, missing=1, impossible=2),
    Integer(0, 10, missing=1, impossible=2),
    Boolean(missing=False, impossible=True),
    Category(["b", 3, 2.5, True, "missing", "impossible"], missing="missing", impossible="impossible"),
]
INDICES = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
DAY = datetime.date(2020, 1, 1)
NOON = datetime.datetime(2020, 1, 1, 12)


def objects(cells):
    array = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        array[place] = cell
    return array


def meaning(frame, step=None):
    """What every kind of column makes of the cells, and whose they are, by the first row of each person."""
    source = open_source(frame)
    slices = source.slices(step or source.rows)
    parts = [source.read(["x"], start, stop)["x"] for start, stop in slices]
    values = [np.concatenate([column.coerce(cells) for cells in parts]).tolist() for column in COLUMNS]
    codes = person_codes(source.read(["x"], 0, source.rows)["x"])[0].tolist()
    return values, [-1 if code < 0 else codes.index(code) for code in codes]


# Storages


def pieces(array):
    """An Arrow array as it is, and in chunks and slices of all sorts."""
    one_each = [array.slice(place, 1) for place in range(len(array))]
    longer = pa.concat_arrays([array, array])
    return {
        "whole": pa.chunked_array([array]),
        "chunks": pa.chunked_array(one_each),
        "empty chunks": pa.chunked_array([array.slice(0, 0), *one_each[:1], array.slice(0, 0), array.slice(1)]),
        "slice": pa.chunked_array([longer.slice(len(array) - 1)]).slice(1),
    }


def as_dictionary(cells, kind, index, *, nulls):
    """One value of a dictionary for each cell; missing cells by their code, or in the dictionary."""
    values = [cell for cell in cells if nulls or cell is not None]
    places = iter(range(len(values)))
    codes = [next(places) if nulls or cell is not None else None for cell in cells]
    return pa.DictionaryArray.from_arrays(pa.array(codes, index), pa.array(values, kind))


def arrow_storages(cells, kind):
    """Return an Arrow type plain, in dictionaries of every index type, in runs and in unions."""
    array = pa.array(cells, kind)
    found = {"plain": array}
    found |= {f"codes {index}": as_dictionary(cells, kind, index, nulls=False) for index in INDICES}
    found["nulls among values"] = as_dictionary(cells, kind, pa.int8(), nulls=True)
    found["runs"] = pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(cells) + 1), pa.int32()), array)
    codes, other = pa.array([0] * len(cells), pa.int8()), pa.array([7] * len(cells))
    found["sparse union"] = pa.UnionArray.from_sparse(codes, [array, other])
    found["dense union"] = pa.UnionArray.from_dense(codes, pa.array(range(len(cells)), pa.int32()), [array, other])
    for name, one in found.items():
        ways = {"whole": pa.chunked_array([one])} if "union" in name else pieces(one)
        if name.startswith("codes") and name != "codes int8":
            ways = {"chunks": ways["chunks"]}
        for how, chunked in ways.items():
            yield f"{kind} {name} {how}", pa.table({"x": chunked})
        series = pd.Series(pd.arrays.ArrowExtensionArray(chunked))
        yield f"pandas {kind} {name} {how}", pd.DataFrame({"x": series})


def sparse(cells):
    yield "sparse objects", pd.DataFrame({"x": pd.arrays.SparseArray(objects(cells))})


def pandas_storages(cells, dtypes):
    for dtype in dtypes:
        yield f"pandas {dtype}", pd.DataFrame({"x": pd.Series(cells, dtype=dtype)})


def polars_storages(cells, dtypes):
    for dtype in dtypes:
        series = pl.Series("x", cells, dtype=dtype, strict=False)
        yield f"polars {dtype}", pl.DataFrame({"x": series})
        yield f"polars {dtype} chunks", pl.concat([pl.DataFrame({"x": series[:1]}), pl.DataFrame({"x": series[1:]})])


def general(cells):
    """Return storages that hold anything."""
    yield "objects", pd.DataFrame({"x": objects(cells)})
    yield "categories of objects", pd.DataFrame({"x": pd.Categorical(objects(cells))})
    yield from polars_storages(cells, [pl.Object])


SIGNED = ["i1", "i2", "i4", "i8", ">i4"]
UNSIGNED = ["u1", "u2", "u4", "u8"]
FLOATS = ["f2", "f4", "f8", ">f8", "g"]
COMPLEX = ["c8", "c16", "G"]
ARROW_WHOLE = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
ARROW_REAL = [pa.float16(), pa.float32(), pa.float64()]
ARROW_DECIMAL = [pa.decimal32(5, 1), pa.decimal64(9, 2), pa.decimal128(9, 2), pa.decimal256(50, 4)]
ARROW_TEXT = [pa.string(), pa.large_string(), pa.string_view()]
POLARS_WHOLE = [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128, pl.UInt8, pl.UInt64]
POLARS_REAL = [pl.Float32, pl.Float64, pl.Decimal(9, 2)]
NULLABLE_WHOLE = ["Int8", "Int64", "UInt8", "UInt64", "Float32", "Float64"]


def whole_numbers():
    cells = [3, 0, 1, 3, 7]
    dtypes = [*SIGNED, *UNSIGNED, *FLOATS, *COMPLEX, *NULLABLE_WHOLE, pd.SparseDtype("i8"), pd.SparseDtype("c16")]
    yield from general(cells)
    yield from general([3 + 0j, 0.0, np.complex64(1), Decimal("3.0"), np.longdouble(7)])
    yield from pandas_storages(cells, [*dtypes, "category", pd.CategoricalDtype(np.array([7.0, 3, 1, 0, -1]))])
    yield from pandas_storages(cells, [pd.CategoricalDtype(np.array([7 + 0j, 3, 1, 0]))])
    yield from polars_storages(cells, [*POLARS_WHOLE, *POLARS_REAL])
    for kind in [*ARROW_WHOLE, *ARROW_REAL, *ARROW_DECIMAL]:
        yield from arrow_storages([np.float16(cell) for cell in cells] if kind == pa.float16() else cells, kind)


def numbers_with_missing():
    cells = [2.5, None, 3, 2.5, None, 8]
    yield from general(cells)
    yield from general([Decimal("2.50"), complex("nan"), 3 + 0j, np.float16(2.5), Decimal("NaN"), np.uint8(8)])
    yield from sparse(["2.5", None, "3", "2.5", None, "8"])
    yield from general(["2.5", pd.NA, "3", " 2.50", pd.NaT, "8.0"])
    floats = [np.nan if cell is None else cell for cell in cells]
    yield from pandas_storages(floats, [*FLOATS, *COMPLEX, pd.SparseDtype("f8"), pd.SparseDtype("c16"), "category"])
    yield from pandas_storages(cells, ["Float32", "Float64"])
    yield from polars_storages(cells, POLARS_REAL)
    for kind in [*ARROW_REAL, *ARROW_DECIMAL]:
        halves = [None if cell is None else np.float16(cell) for cell in cells]
        decimals = [None if cell is None else Decimal(str(cell)) for cell in cells]
        given = halves if kind == pa.float16() else decimals if pa.types.is_decimal(kind) else cells
        yield from arrow_storages(given, kind)


def whole_numbers_with_missing():
    cells = [3, None, 0, 3, None]
    yield from general(cells)
    yield from pandas_storages(cells, [*NULLABLE_WHOLE, "category"])
    yield from polars_storages(cells, POLARS_WHOLE)
    for kind in ARROW_WHOLE:
        yield from arrow_storages(cells, kind)


def truth_values():
    cells = [True, None, False, True]
    yield from general(cells)
    yield from pandas_storages(cells, ["boolean", "category", "string", "str"])
    yield from polars_storages(cells, [pl.Boolean])
    yield from arrow_storages(cells, pa.bool_())
    eight = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0, 1], pa.int8()))
    yield "bool8", pa.table({"x": eight})


def texts():
    cells = ["b", "3", None, "zzz", "b", "", "true", "2.5"]
    yield from general(cells)
    yield from sparse(cells)
    yield from general([np.str_("b"), *cells[1:]])
    yield from pandas_storages(
        cells, ["string", "str", pd.StringDtype("python"), pd.StringDtype("pyarrow"), "category"]
    )
    yield from pandas_storages(objects([np.str_("b"), *cells[1:]]), [pd.StringDtype("python")])
    yield from pandas_storages(
        cells, [pd.CategoricalDtype(pd.Index(["2.5", "true", "", "zzz", "3", "b"], "string[pyarrow]"))]
    )
    yield from polars_storages(cells, [pl.String, pl.Categorical, pl.Enum(["b", "3", "zzz", "", "true", "2.5"])])
    for kind in ARROW_TEXT:
        yield from arrow_storages(cells, kind)
    yield "json", pa.table({"x": pa.array(cells, pa.json_())})


def large_whole_numbers():
    cells = [2**63, 2**63 + 1, None, 2**64 - 1, 2**63]
    yield from general(cells)
    yield from general([None if cell is None else str(cell) for cell in cells])
    yield from pandas_storages(cells, ["UInt64"])
    yield from polars_storages(cells, [pl.UInt64, pl.Int128])
    yield from arrow_storages(cells, pa.uint64())
    yield from arrow_storages([None if cell is None else Decimal(cell) for cell in cells], pa.decimal128(20, 0))


def byte_strings():
    cells = [b"3", None, b"\xff", b"3"]
    yield from general(cells)
    yield from polars_storages(cells, [pl.Binary])
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1)):
        yield from arrow_storages([b"3", None, b"\xff", b"3"], kind)


def unique_ids():
    cells = [uuid.UUID(int=1), None, uuid.UUID(int=2), uuid.UUID(int=1)]
    yield from general(cells)
    yield "uuid", pa.table({"x": pa.array(cells, pa.uuid())})
    yield (
        "uuid, chunks",
        pa.table({"x": pa.chunked_array([pa.array(cells[:1], pa.uuid()), pa.array(cells[1:], pa.uuid())])}),
    )


def nothing():
    cells = [None, None, None]
    yield from general(cells)
    yield from pandas_storages(cells, ["f8", "Int64", "boolean", "string", "category", "M8[ns]", "m8[ns]", "period[Y]"])
    yield from polars_storages(cells, [pl.Null, pl.Int8, pl.String, pl.List(pl.Int8), pl.Date])
    for kind in (pa.null(), pa.int8(), pa.string(), pa.list_(pa.int8()), pa.date32(), pa.binary()):
        yield from arrow_storages(cells, kind)


def no_values():
    """Return dates, times, spans, lists and structures: impossible, and nobody's ids."""
    yield from general([DAY, None])
    yield from general([pd.Timestamp(NOON, tz="UTC"), pd.NaT])
    yield from general([pd.Period("2020"), pd.NaT])
    yield from general([np.datetime64("2020-01-01"), None])
    yield from general([1j, None])
    yield from general([np.inf, np.nan])
    yield "lists", pd.DataFrame({"x": objects([[3], None])})
    yield "complex", pd.DataFrame({"x": [2j, np.nan]})
    stamps = pd.to_datetime([NOON, None])
    yield "datetime64", pd.DataFrame({"x": stamps})
    yield "datetime64, zone", pd.DataFrame({"x": stamps.tz_localize("UTC")})
    yield "dates as categories", pd.DataFrame({"x": pd.Categorical(stamps)})
    yield "timedelta64", pd.DataFrame({"x": pd.to_timedelta([1, None])})
    yield "period", pd.DataFrame({"x": pd.array(["2020", None], "period[Y]")})
    yield "period in arrow", pa.table(pd.DataFrame({"x": pd.array(["2020", None], "period[Y]")}))
    yield "interval", pd.DataFrame({"x": pd.arrays.IntervalArray.from_tuples([(0, 1), None])})
    yield "intervals as categories", pd.DataFrame({"x": pd.Categorical.from_codes([0, -1], pd.interval_range(0, 1))})
    yield from polars_storages([DAY, None], [pl.Date])
    yield from polars_storages([NOON, None], [pl.Datetime("us", "Europe/Paris")])
    yield from polars_storages([[3], None], [pl.List(pl.Int8), pl.Array(pl.Int8, 1)])
    yield from polars_storages([{"a": 3}, None], [pl.Struct({"a": pl.Int8})])
    yield from polars_storages([datetime.time(1), None], [pl.Time])
    kinds = [pa.date32(), pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.timestamp("us", "No/Where")]
    kinds += [pa.time32("s"), pa.time64("ns"), pa.duration("ns"), pa.duration("s")]
    for kind in kinds:
        yield from arrow_storages([3, None], kind)
    yield from arrow_storages([86_400_000, None], pa.date64())
    yield from arrow_storages([10**15, None], pa.timestamp("s"))
    yield from arrow_storages([[3], None], pa.list_(pa.int8()))
    yield from arrow_storages([[3], None], pa.large_list(pa.int8()))
    yield from arrow_storages([{"a": 3}, None], pa.struct({"a": pa.int8()}))
    yield from arrow_storages([[(1, 2)], None], pa.map_(pa.int8(), pa.int8()))
    yield from arrow_storages([(1, 2, 3), None], pa.month_day_nano_interval())


@pytest.mark.slow
@pytest.mark.parametrize(
    "storages",
    [
        whole_numbers,
        numbers_with_missing,
        whole_numbers_with_missing,
        truth_values,
        texts,
        large_whole_numbers,
        byte_strings,
        unique_ids,
        nothing,
        no_values,
    ],
)
def test_a_cell_means_the_same_in_every_storage(storages):
    named = list(storages())
    expected = meaning(named[0][1])
    assert len(named) > 5
    for name, frame in named:
        assert meaning(frame) == expected, name
        assert meaning(frame, step=2) == expected, name
    if storages is no_values:
        assert expected == ([[2, 1], [2, 1], [1, 0], [5, 4]], [-1, -1])


def test_one_complex_cell_leaves_other_cells_what_they_are():
    cells = [1.0, 2.5, np.nan, 0.0]
    before = meaning(pd.DataFrame({"x": cells}))
    for more in ([*cells, 1j], objects([*cells, 1j]), pd.array([*cells, 1j], dtype=object)):
        values, people = meaning(pd.DataFrame({"x": more}))
        assert [column[:4] for column in values] == before[0]
        assert people == [*before[1], -1]


# Chunks that differ


def codes_of(values, kind=None, index=None):
    indices = pa.array(range(len(values)), index or pa.int8())
    return pa.DictionaryArray.from_arrays(indices, pa.array(values, kind))


def encoded(*cells):
    return pa.array(cells).dictionary_encode(null_encoding="encode")


def broken_text():
    offsets = pa.py_buffer(np.array([0, 2], dtype=np.int32).tobytes())
    return pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff\xfe")])


UNEQUAL = {
    "null among the values": [encoded("1", None), encoded("2", "3")],
    "more values than codes": [codes_of([str(k) for k in range(start, start + 100)]) for start in (0, 100)],
    "more lists than codes": [codes_of([[k] for k in range(start, start + 100)]) for start in (0, 100)],
    "lists": [codes_of([[1], [2]]), codes_of([[3]])],
    "structures": [codes_of([{"a": 1}]), codes_of([{"a": 2}])],
    "decimals": [codes_of([Decimal("1.5")], pa.decimal128(5, 1)), codes_of([Decimal("2.5")], pa.decimal128(5, 1))],
    "broken text": [codes_of(["1"]), pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), broken_text())],
    "codes outside": [
        codes_of(["1"]),
        pa.DictionaryArray.from_arrays(pa.array([0, 5, -3], pa.int8()), pa.array(["2"]), safe=False),
    ],
    "dictionaries of dictionaries": [
        pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), codes_of([text])) for text in ("1", "2")
    ],
}


@pytest.mark.parametrize("kind", UNEQUAL)
@pytest.mark.parametrize("library", ["arrow", "pandas"])
def test_chunks_that_differ_are_read_as_they_are_alone(kind, library):
    def frame_of(column):
        table = pa.table({"x": column})
        return table if library == "arrow" else pd.DataFrame({"x": pd.Series(pd.arrays.ArrowExtensionArray(column))})

    chunks = UNEQUAL[kind]
    together = meaning(frame_of(pa.chunked_array(chunks)))
    alone = [meaning(frame_of(pa.chunked_array([chunk])))[0] for chunk in chunks]
    assert together[0] == [sum(parts, []) for parts in zip(*alone, strict=True)]  # noqa: RUF017
    assert meaning(frame_of(pa.chunked_array(chunks)), step=1) == together


@pytest.mark.parametrize("kind", UNEQUAL)
@pytest.mark.parametrize("role", ["column", "id"])
def test_nothing_raises_after_the_charge(kind, role):
    column = pa.chunked_array(UNEQUAL[kind])
    table = pa.table({"x": column, "y": np.ones(len(column))})
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(10.0))
    if role == "id":
        data = dpi.PrivateData(table, dpi.Schema(y=Real(0, 2)), ledger, id="x", max_rows=2)
        released = dpi.total("y", data).fit(dpi.ZCDP(1.0))
    else:
        data = dpi.PrivateData(table, dpi.Schema(x=Real(0, 1000, missing=0, impossible=0)), ledger)
        released = dpi.total("x", data).fit(dpi.ZCDP(1.0))
    assert np.isfinite(np.asarray(released.params)).all()


def test_a_pandas_frame_inside_narwhals_is_read_by_pandas():
    """Arrow would refuse a column of mixed objects, and print one of them."""
    import narwhals
    import narwhals.stable.v1

    frame = pd.DataFrame({"x": objects(["secret", 2.5, None])})
    for library in (narwhals, narwhals.stable.v1):
        assert meaning(library.from_native(frame)) == meaning(frame)


def test_of_a_large_dictionary_only_what_is_used_is_read():
    values = [str(k) for k in range(1000)]
    for frame in (
        pd.DataFrame({"x": pd.Categorical.from_codes([999, -1, 3], values)}),
        pa.table({"x": pa.DictionaryArray.from_arrays(pa.array([999, None, 3]), pa.array(values))}),
    ):
        cells = open_source(frame).read(["x"], 0, 3)["x"]
        assert sorted(cells.values) == ["3", "999"]
        assert meaning(frame) == meaning(pd.DataFrame({"x": objects(["999", None, "3"])}))


@pytest.mark.parametrize("ask", ["histogram", "cdf", "quantile", "chisquare", "marginals"])
def test_codes_of_missing_cells_are_missing_in_every_storage_of_whole_numbers(ask):
    """One blank cell makes floats of a column: what the other cells mean must not change with it."""
    schema = dpi.Schema(x=Integer(0, 120, missing_codes=[-9, 77, 999]), flag=Boolean())
    cells = np.array([40] * 50 + [-9] * 300 + [77] * 200 + [999] * 100)
    edges = [0, 60, 120]
    questions = {
        "histogram": {"column": "x", "bins": edges},
        "cdf": {"column": "x", "resolution": 64},
        "quantile": {"column": "x", "q": 0.5, "method": "tree", "resolution": 64},
        "chisquare": {"column": "x", "bins": edges, "p0": [0.5, 0.5]},
        "marginals": {"workload": [["x"]], "bins": {"x": edges}},
    }
    found = []
    for kept in (cells, cells.astype(float), cells.astype(object), cells.astype(str)):
        frame = pd.DataFrame({"x": kept, "flag": True})
        question = getattr(dpi, ask)(data=dpi.PublicData(frame, schema, rng=np.random.default_rng(1)), **questions[ask])
        found.append(question.measure(dpi.ZCDP(1.0)).values)
    assert found[0] == found[1] == found[2] == found[3]

"""Columns: declarations, and what every odd cell becomes in every storage."""

import datetime
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.errors import SchemaError
from dpinfer.schema import Boolean, Category, Coded, Integer, Real, column_from_dict
from tests.schema.test_codes import COLUMNS as CODED_COLUMNS

NAN, INF = math.nan, math.inf


class Hostile:
    """An object of which every method raises."""

    def _fail(self, *_):
        raise RuntimeError("a cell must not be asked")

    __eq__ = __float__ = __int__ = __index__ = __bool__ = __str__ = __repr__ = __len__ = __iter__ = _fail
    __array__ = __lt__ = __gt__ = _fail
    __hash__ = _fail  # type: ignore[assignment]

    @property
    def __class__(self):
        raise RuntimeError("a cell must not be asked")


class LyingFloat(float):
    """A float whose conversion raises."""

    def __float__(self):
        raise RuntimeError("a cell must not be asked")


class ComplexOfAUser(complex):
    """A complex number with methods of its own."""


MISSING_CELLS = [None, NAN, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT", "ns"), np.timedelta64("NaT", "ns")]
MISSING_CELLS += [complex("nan"), complex(NAN, 1), complex(1, NAN), Decimal("NaN"), Decimal("sNaN"), "", "  \t"]
IMPOSSIBLE_CELLS = [INF, -INF, 10**400, -(10**400), 1 + 2j, np.complex64(1 + 1j), complex(INF, 0), complex(INF, 1)]
IMPOSSIBLE_CELLS += [ComplexOfAUser(1), Decimal("Infinity"), Decimal("1e400"), Fraction(1, 2), b"1", [1], {}, (1,)]
IMPOSSIBLE_CELLS += [Hostile(), object(), np.array([1.0]), datetime.date(2020, 1, 1), pd.Timestamp("2020-01-01")]
IMPOSSIBLE_CELLS += [np.datetime64("2020-01-01"), np.timedelta64(1, "D"), datetime.timedelta(1)]
IMPOSSIBLE_CELLS += ["one", "1,5", "1_000", "٣", "inf", "1e999", "0x10", "nan"]
COLUMNS = [Real(0, 10), Integer(0, 10), Boolean(), Category(["a", "b", 3, 2.5, True])]


def objects(*cells):
    array = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):
        array[i] = cell
    return array


def storages(cell):
    """The cell in every storage that can hold it."""
    found = [objects(cell), objects(cell, "x")[:1], Coded(np.array([0], dtype=np.int8), [cell])]
    if type(cell) in (bool, int, float, str, complex) and not (type(cell) is int and abs(cell) > 2**63):
        found.append(np.array([cell]))
    if issubclass(type(cell), np.complexfloating):
        found.append(np.array([cell]))
    if type(cell) is complex:
        found.append(np.array([cell, 1j], dtype=np.clongdouble)[:1])
    if type(cell) is float:
        found += [np.array([cell, 1.0, cell])[::2][:1], np.array([cell], dtype=">f8"), np.array([cell], np.longdouble)]
    if type(cell) is int and abs(cell) < 100:
        found += [np.array([cell], dtype=t) for t in ("i1", "i8", "f4", "f8", "f2")]
        found += [np.array([cell], dtype="u2")] if cell >= 0 else []
    return found


@pytest.mark.parametrize("column", COLUMNS, ids=repr)
def test_missing_and_impossible_cells_are_dropped_or_replaced(column, capsys):
    constants = {"real": (1.5, 2.5), "integer": (1, 2), "boolean": (False, True), "category": ("b", 3)}[column.kind]
    coded = (1.0, 2.0) if column.kind == "category" else tuple(map(float, constants))
    declared = {**column.to_dict(), "missing": constants[0], "impossible": constants[1]}
    replacing = column_from_dict(declared)
    for cells, wanted in ((MISSING_CELLS, coded[0]), (IMPOSSIBLE_CELLS, coded[1])):
        for cell in cells:
            for raw in storages(cell):
                assert not np.isfinite(column.coerce(raw)).any()
                assert replacing.coerce(raw).tolist() == [wanted]
    assert capsys.readouterr() == ("", "")


REAL = [(3, 3.0), ("3.5", 3.5), (" -3.5e1 ", -35.0), (".5", 0.5), (True, 1.0), ("False", 0.0), (99.0, 99.0)]
REAL += [(np.float32(0.1), float(np.float32(0.1))), (2**60 + 1, float(2**60)), (3.5 + 0j, 3.5), (np.complex64(1), 1.0)]
REAL += [(np.clongdouble(2), 2.0), (Decimal("3.5"), 3.5), (Decimal("1e-400"), 0.0)]
INTEGER = [(Decimal("3.00"), 3.0), (Decimal("3.5"), NAN), (3 + 0j, 3.0), (3.0, 3.0), ("3.0", 3.0), (3.5, NAN)]
INTEGER += [("3.5", NAN), (-7, -7.0), (True, 1.0)]
BOOLEAN = [(Decimal(1), 1.0), (1 + 0j, 1.0), (True, 1.0), (0, 0.0), (1.0, 1.0), ("TRUE", 1.0), ("0.0", 0.0), (2, NAN)]
BOOLEAN += [(0.5, NAN), ("yes", NAN)]
NUMBERED = [(2, 1.0), (2.0, 1.0), ("2", 1.0), ("2.0", 1.0), (np.int8(2), 1.0), (True, NAN), (Decimal("2.0"), 1.0)]
MEANINGS = [
    (Real(0, 10), REAL),
    (Integer(0, 10), INTEGER),
    (Boolean(), BOOLEAN),
    (Category(["a", "b"]), [("b", 1.0), (" b", NAN), (1, NAN)]),
    (Category([1, 2]), [*NUMBERED, (2 + 0j, 1.0)]),
    (Category(["1", "2"]), [(2.0, 1.0)]),
    (Category(["01", "1"]), [("01", 0.0), (1, 1.0)]),
    (Category(["01", "001"]), [(1, NAN)]),
    (Category(["01", "02"]), [(2, 1.0)]),
    (Category([0.5, 1e22]), [("0.5", 0.0), (10**22, 1.0)]),
    (Category([True, False]), [(False, 1.0), ("false", 1.0), ("False", 1.0), (0, NAN)]),
    (Category(["drop", "keep"]), [("drop", 0.0)]),
]


@pytest.mark.parametrize(("column", "meanings"), MEANINGS, ids=[repr(column) for column, _ in MEANINGS])
def test_a_cell_means_the_same_in_every_storage(column, meanings):
    for cell, value in meanings:
        for raw in storages(cell):
            np.testing.assert_array_equal(column.coerce(raw), [value], err_msg=repr(cell))


@pytest.mark.parametrize("column", COLUMNS, ids=repr)
def test_a_hostile_float_is_read_by_its_value(column):
    np.testing.assert_array_equal(column.coerce(objects(LyingFloat(1.0))), column.coerce(objects(1.0)))


CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-12, 12),
    st.integers(),
    st.floats(),
    st.floats(-12, 12).map(lambda x: round(x, 1)),
    st.sampled_from(["a", "b", "", "true", "1", "1.0", "0", "x", "-3", "2.5"]),
)


@given(st.lists(CELLS, min_size=1, max_size=8), st.sampled_from(COLUMNS))
def test_a_cell_depends_on_itself_alone(cells, column):
    alone = np.concatenate([column.coerce(pd.Series([cell]).to_numpy()) for cell in cells])
    alone[~np.isfinite(alone)] = NAN
    categorical = pd.factorize(objects(*cells), use_na_sentinel=True)
    together = [objects(*cells), pd.Series(cells, dtype=object).to_numpy(), Coded(np.arange(len(cells)), cells)]
    if len({type(cell) for cell in cells}) == 1:
        together.append(Coded(categorical[0], list(categorical[1])))
    for raw in together:
        values = column.coerce(raw)
        assert values.dtype == np.float64
        values = np.where(np.isfinite(values), values, NAN)
        np.testing.assert_array_equal(values, alone)


CODED = [*CODED_COLUMNS, Real(0, 9, missing_codes=["1", "NA"])]


@given(st.lists(st.integers(-10, 12) | st.none(), min_size=1, max_size=8), st.sampled_from([*COLUMNS, *CODED]))
def test_numbers_read_alike_as_objects_floats_texts_and_codes(cells, column):
    reference = column.coerce(objects(*cells))
    floats = np.array([NAN if cell is None else cell for cell in cells], dtype=np.float64)
    texts = np.array(["" if cell is None else str(cell) for cell in cells])
    csv_texts = pd.Series([None if cell is None else f"{cell}.0" for cell in cells], dtype="str").to_numpy(object)
    categorical = pd.Categorical(cells)
    for raw in (
        floats,
        floats.astype(np.float32),
        texts,
        csv_texts,
        Coded(categorical.codes, list(categorical.categories)),
    ):
        np.testing.assert_array_equal(column.coerce(raw), reference)


def test_codes_outside_the_values_are_missing():
    column = Category(["a", "b"], missing="b")
    codes = np.array([0, -1, 7, 1], dtype=np.int16)
    assert column.coerce(Coded(codes, ["a", "z"])).tolist()[:3] == [0.0, 1.0, 1.0]
    assert np.isnan(column.coerce(Coded(codes, ["a", "z"]))[3])
    assert column.coerce(Coded(np.array([], dtype=np.uint64), [])).shape == (0,)


@pytest.mark.parametrize("dtype", ["M8[ns]", "m8[s]", "S3", "V2", "c16", "O", "U1", "?", "f8"])
@pytest.mark.parametrize("column", COLUMNS, ids=repr)
def test_empty_and_odd_dtypes(column, dtype):
    assert column.coerce(np.empty(0, dtype=dtype)).shape == (0,)
    values = column.coerce(np.zeros(2, dtype=dtype))
    assert values.shape == (2,)
    assert values.dtype == np.float64


def test_plain_floats_are_not_copied():
    values = np.arange(10.0)[::2]
    assert Real(0, 1).coerce(values) is values
    assert Real(0, 1, missing=0).coerce(values) is not values


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Real(1, 0), ["upper=0", "above lower=1"]),
        (lambda: Real(1, 1), ["upper=1"]),
        (lambda: Real(0, INF), ["upper=inf", "finite"]),
        (lambda: Real(NAN, 1), ["lower=nan"]),
        (lambda: Real("0", 1), ["lower='0'"]),
        (lambda: Real(False, 1), ["lower=False"]),
        (lambda: Real(0, 10**400), ["upper=", "finite"]),
        (lambda: Real(-1e308, 1e308), ["difference"]),
        (lambda: Real(0, 1, missing=2), ["missing=2", "[0, 1]", "drop"]),
        (lambda: Real(0, 1, impossible="zero"), ["impossible='zero'"]),
        (lambda: Real(0, 1, missing=None), ["missing=None"]),
        (lambda: Integer(0, 1.5), ["upper=1.5", "whole"]),
        (lambda: Integer(0, 2**60), ["2**53"]),
        (lambda: Integer(0, 5, missing=1.5), ["missing=1.5", "whole"]),
        (lambda: Boolean(missing=1), ["missing=1", "True or False"]),
        (lambda: Category([]), ["at least two"]),
        (lambda: Category(["a"]), ["at least two"]),
        (lambda: Category("ab"), ["levels='ab'", "ordered collection"]),
        (lambda: Category({"a", "b"}), ["ordered collection"]),
        (lambda: Category(5), ["ordered collection"]),
        (lambda: Category(["a", None]), ["levels=None"]),
        (lambda: Category(["a", " "]), ["levels=' '"]),
        (lambda: Category(["a", NAN]), ["levels=nan"]),
        (lambda: Category(["a", "a"]), ["spelled differently"]),
        (lambda: Category([1, "1"]), ["spelled differently"]),
        (lambda: Category([1, 1.0]), ["spelled differently"]),
        (lambda: Category(["a", "b"], missing="c"), ["missing='c'", "'a', 'b'"]),
        (lambda: column_from_dict({"kind": "text"}), ["kind='text'"]),
        (lambda: column_from_dict({"kind": "real", "lower": 0}), ["incomplete"]),
        (lambda: column_from_dict({"kind": "boolean", "lower": 0}), ["incomplete"]),
    ],
)
def test_wrong_declarations_say_what_is_right(make, words):
    with pytest.raises(SchemaError) as caught:
        make()
    assert all(word in str(caught.value) for word in words)


def test_policies_are_constants_of_the_column():
    assert Category([1, 2], missing="2").missing == 2
    assert Category(["drop", "keep"], missing="drop").may_drop
    assert np.isnan(Category(["drop", "keep"], missing="drop").coerce(objects(None)))[0]
    assert Integer(0, 5, missing=3.0).missing == 3
    assert not Real(0, 1, missing=0, impossible=1).may_drop
    assert Real(0, 1, missing=0).may_drop


def test_equality_tells_types_of_levels_apart():
    assert Real(0, 1) == Real(0.0, np.float64(1))
    assert Real(0, 1) != Integer(0, 1)
    assert Category([1, 0]) != Category([True, False])
    assert Category([1, 0]) != Category(["1", "0"])
    assert len({Boolean(), Boolean(), Boolean(missing=True)}) == 2
    assert Boolean() != "boolean"


FURTHER = [Real(-1e300, 1e-300, missing=-0.1), Category([1, 2.5, "x", False], impossible=False)]


@pytest.mark.parametrize("column", [*COLUMNS, *CODED, *FURTHER], ids=repr)
def test_round_trips(column):
    said = column_from_dict({**column.to_dict(), "label": "Income, yearly", "unit": "EUR", "source": "codebook, p. 7"})
    assert (said.label, said.unit, said.source) == ("Income, yearly", "EUR", "codebook, p. 7")
    assert said != column
    for one in (column, said):
        assert column_from_dict(one.to_dict()) == one
        assert pickle.loads(pickle.dumps(one)) == one
        assert eval(repr(one), {type(one).__name__: getattr(dpi, type(one).__name__)}) == one
    with pytest.raises(AttributeError):
        column.missing = 1


def test_repr_is_what_one_writes():
    assert repr(Real(0, 1, missing=0)) == "Real(0.0, 1.0, missing=0.0)"
    assert repr(Category(["a", 2])) == "Category(['a', 2])"


@pytest.mark.parametrize("column", [*COLUMNS, Integer(-(2**53), 2**53), Real(-8e307, 8e307)], ids=repr)
def test_samples_are_possible_and_cover_the_column(column):
    values = column.coerce(column.sample(2000, np.random.default_rng(5)))
    assert np.isfinite(values).all()
    if column.kind == "category":
        assert set(values) == set(range(len(column.levels)))
    elif column.kind == "boolean":
        assert set(values) == {0.0, 1.0}
    else:
        assert column.lower <= values.min() < values.max() <= column.upper
        # mean of 2,000 uniforms: 6 standard errors, a false alarm in 5e8
        middle = np.mean(values / column.width) - column.lower / column.width
        assert abs(middle - 0.5) < 6 * math.sqrt(1 / 12 / 2000) * 1.1


def test_levels():
    assert Integer(2, 4).level_texts == ("2", "3", "4")
    assert Integer(2, 4).level_index(np.array([2.0, 4.0])).tolist() == [0, 2]
    assert Boolean().level_texts == ("False", "True")
    assert Integer(0, 1000).level_texts == Real(0, 1).level_texts == ()
    assert Category(["a", 2.0, True]).level_texts == ("a", "2", "True")
    assert Category(["a", 2.0]).find(2) == 1
    assert Category(["a", 2.0]).find("z") is None

"""Storage types decide nothing, unless somebody says that they were declared before the rows came."""

import datetime as dt
import io
import logging
import warnings
from contextlib import redirect_stderr, redirect_stdout
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpinfer as dpi
from dpinfer.errors import OptionError, SchemaError, UnknownColumnError

BOOK = dpi.Schema(
    smokes=dpi.Boolean(true=1, false=2, missing_codes=[9]),
    sex=dpi.Category(["female", "male"]),
    born=dpi.Date("1900-01-01", "2024-12-31"),
    income=dpi.Real(0, 1e6),
)
DDL = {"smokes": "SMALLINT", "sex": "VARCHAR(6)", "born": "DATE", "income": "NUMERIC(12, 2)"}


def ledger():
    return dpi.Ledger.in_memory(dpi.ZCDP(1.0))


def frame(*, born=None, smokes=1, sex="male", income=Decimal("1.50")):
    when = dt.date(1990, 1, 1) if born is None else born
    cells = {
        "smokes": [2, smokes],
        "sex": ["female", sex],
        "born": [dt.date(1980, 1, 1), when],
        "income": [None, income],
    }
    return pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in cells.items()})


def test_a_codebook_goes_with_itself_and_with_its_database():
    assert BOOK.check(BOOK)
    assert BOOK.check(DDL)
    assert str(BOOK.check(DDL)) == "schema and declared types go together"
    assert dpi.PrivateData(frame(), BOOK, ledger(), types=DDL).schema == BOOK


@pytest.mark.parametrize(
    ("name", "column", "in_book", "in_ddl"),
    [
        ("smokes", dpi.Boolean(), "2 would be impossible for Boolean", None),
        ("sex", dpi.Category(["femal", "male"]), "'femal' is not in the codebook", None),
        ("sex", dpi.Category(["female", "other"]), "'male' would be impossible for Category", None),
        ("sex", dpi.Boolean(), "'female', 'male' would be impossible", 'declare Boolean(true="Yes", false="No")'),
        ("born", dpi.Real(0, 100), "declare Date(first, last)", "declare Date(first, last)"),
        ("born", dpi.Category(["a", "b"]), "declare Date(first, last)", "declare Date(first, last)"),
        ("smokes", dpi.Boolean(true=1, false=2), "declare missing_codes=[9]", None),
        ("smokes", dpi.Boolean(true="Yes", false="No"), "2, 1 would be impossible", "which never are 'No', 'Yes'"),
        ("sex", dpi.Real(0, 1), "'female', 'male' would be impossible for Real", "declare Category([levels])"),
        ("income", dpi.Date("2024-01-01", "2025-01-01"), "is declared as numbers, and Date reads dates", "Date reads"),
    ],
)
def test_faults_are_found_before_anything_is_paid(name, column, in_book, in_ddl):
    schema = BOOK.replace({name: column}) if "missing_codes" not in in_book else dpi.Schema({**BOOK, name: column})
    account = ledger()
    for types, words in ((BOOK, in_book), (DDL, in_ddl)):
        found = schema.check(types)
        assert bool(found) == (words is None)
        if words is not None:
            assert [one.column for one in found.mismatches] == [name] * len(found.mismatches)
            assert any(words in str(one) for one in found.mismatches)
            with pytest.raises(SchemaError) as caught:
                dpi.PrivateData(frame(), schema, account, types=types)
            assert str(caught.value) == str(found)
    assert account.spent == dpi.Ledger.in_memory(dpi.ZCDP(1.0)).spent


STORED = pa.table(
    {
        "smokes": pa.array([1, 2], pa.int8()),
        "sex": ["female", "male"],
        "born": pa.array([dt.date(1990, 1, 1)] * 2),
        "income": pa.array([Decimal("1.50")] * 2, pa.decimal128(12, 2)),
    }
)


@pytest.mark.parametrize("source", [STORED, pl.from_arrow(STORED), STORED.to_pandas(types_mapper=pd.ArrowDtype)])
def test_types_of_the_source_count_where_they_are_declared(source):
    dpi.PrivateData(source, BOOK, ledger(), types="declared")
    wrong = BOOK.replace(born=dpi.Real(0, 1))
    dpi.PrivateData(source, wrong, ledger())
    with pytest.raises(SchemaError, match=r"born: is declared as dates, which are impossible for Real; declare Date"):
        dpi.PrivateData(source, wrong, ledger(), types="declared")


@pytest.mark.parametrize("types", ["stored", 3, STORED.to_pandas(), STORED.to_pandas().dtypes, [("a", "INT")]])
def test_types_that_are_none(types):
    with pytest.raises(OptionError, match="types="):
        dpi.PrivateData(STORED, BOOK, ledger(), types=types)


def test_a_column_without_a_declared_type_is_named():
    found = BOOK.check({name: DDL[name] for name in ("sex", "born", "income")})
    assert str(found.mismatches[0]) == "smokes: is not among the declared types; they are of 'sex', 'born', 'income'"
    with pytest.raises(UnknownColumnError):
        dpi.PrivateData(STORED.drop_columns(["sex"]), BOOK, ledger(), types=DDL)


ROWS = 3000
FAULTS = {
    "codes 1 and 2 of truth values": (dpi.Boolean(), dpi.Boolean(true=1, false=2), [1, 2], 0.5),
    "a misspelt level": (dpi.Category(["femal", "male"]), dpi.Category(["female", "male"]), ["female", "male"], 0.5),
    "dates as numbers": (
        dpi.Real(0, 100),
        dpi.Date("2020-01-01", "2024-12-31"),
        [dt.date(2021, 1, 1), dt.date(2022, 1, 1)],
        0.0,
    ),
    "a code of missing cells as a number": (dpi.Real(0, 100), dpi.Real(0, 100, missing_codes=[-9]), [-9, 50], 1.0),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_costs_rows_without_a_word_and_the_codebook_tells_it_for_free(fault):
    """Noise has a standard deviation below 0.1 rows here: 1 is ten of them."""
    wrong, right, cells, part = FAULTS[fault]
    frame = pd.DataFrame({"x": pd.Series(cells * (ROWS // 2), dtype=object)})
    kept = []
    for column in (wrong, right):
        rows = dpi.PublicData(frame, dpi.Schema(x=column), rng=np.random.default_rng(1))
        question = dpi.table("x", rows) if column.level_texts else dpi.histogram("x", rows, bins=4)
        kept.append(float(question.fit(dpi.ZCDP(1e3)).params.sum()))
    expected = ROWS / 2 if fault.startswith("a code of missing") else ROWS
    np.testing.assert_allclose(kept, [part * ROWS, expected], atol=1)
    assert not dpi.Schema(x=wrong).check(dpi.Schema(x=right))
    assert dpi.Schema(x=right).check(dpi.Schema(x=right))


def test_a_column_of_sql_numerics_keeps_its_rows_and_goes_with_its_type():
    cells = [Decimal("10.50"), Decimal("99.00")] * (ROWS // 2)
    schema = dpi.Schema(x=dpi.Real(0, 100))
    for frame in (pd.DataFrame({"x": cells}), pa.table({"x": pa.array(cells, pa.decimal128(9, 2))})):
        rows = dpi.PublicData(frame, schema, rng=np.random.default_rng(1))
        assert dpi.histogram("x", rows, bins=4).fit(dpi.ZCDP(1e3)).params.sum() == pytest.approx(ROWS, abs=1)
    assert schema.check({"x": "NUMERIC(9, 2)"})
    assert schema.check({"x": pa.decimal128(9, 2)})


# Frames that differ in one cell

ODD = [
    {"smokes": "many"},
    {"smokes": 2**70},
    {"smokes": 1.5},
    {"sex": 7},
    {"sex": "mael"},
    {"born": 20_000},
    {"born": "yesterday"},
    {"born": dt.datetime(1, 1, 1)},
    {"income": "a lot"},
    {"income": Decimal("1e400")},
    {"income": dt.date(2024, 1, 1)},
    {"income": 1j},
]


def told(rows, schema, types):
    """All that construction, a price and a failed question tell of rows."""
    out, log = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught, redirect_stdout(out), redirect_stderr(out):
            warnings.simplefilter("always")
            try:
                data = dpi.PrivateData(rows, schema, ledger(), types=types)
                said = [repr(data), dpi.mean("income", data).explain(dpi.ZCDP(0.1)).__str__()]
            except Exception as error:
                said = [type(error).__name__, str(error), repr(vars(error))]
    finally:
        logging.getLogger().removeHandler(handler)
    return said, out.getvalue(), log.getvalue(), [str(one.message) for one in caught]


@pytest.mark.parametrize("cells", ODD, ids=str)
@pytest.mark.parametrize("types", [None, DDL, BOOK], ids=["nothing", "ddl", "book"])
def test_frames_that_differ_in_one_cell_are_told_alike(cells, types):
    """The odd cell changes the storage; nothing may show it, whether the schema is right or not."""
    plain, odd = frame().infer_objects(), frame(**cells).infer_objects()
    frames = [plain, odd, frame(**cells)]
    for schema in (BOOK, dpi.Schema({**BOOK, "born": dpi.Real(0, 1)}), dpi.Schema({**BOOK, "smokes": dpi.Boolean()})):
        told_of = [told(rows, schema, types) for rows in frames]
        assert told_of[0] == told_of[1] == told_of[2]


def test_the_attack_would_see_types_that_were_inferred():
    """With the types of the storage called declared, the same two frames are told apart: so it is said by the user."""
    schema = dpi.Schema(smokes=dpi.Boolean())
    plain = pd.DataFrame({"smokes": pd.Series([1, 0])})
    odd = pd.DataFrame({"smokes": pd.Series(["1", "x"], dtype="str")})
    answers = []
    for rows in (plain, odd):
        try:
            answers.append(repr(dpi.PrivateData(rows, schema, ledger(), types="declared")))
        except SchemaError as error:
            answers.append(str(error))
    assert answers[0] != answers[1]


def test_objects_tell_nothing():
    rows = frame()
    assert set(map(str, rows.dtypes)) == {"object"}
    dpi.PrivateData(rows, dpi.Schema({**BOOK, "born": dpi.Real(0, 1)}), ledger(), types="declared")
    assert np.isfinite(dpi.count(dpi.PrivateData(rows, BOOK, ledger())).fit(dpi.ZCDP(0.5)).params).all()

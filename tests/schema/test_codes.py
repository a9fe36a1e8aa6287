"""Codes, missing codes, dates and the words of a column: what their cells mean, in every storage."""

import datetime as dt
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.errors import OptionError, SchemaError
from dpinfer.kernel.people import KeptSource
from dpinfer.kernel.sources import open_source
from dpinfer.schema import Boolean, Category, Coded, Date, Integer, Real, column_from_dict

NAN = np.nan

COLUMNS = [
    Real(0, 100, missing_codes=[-9, "NA", 99.5]),
    Real(0, 100, missing=5, impossible=7, missing_codes=[5]),
    Integer(0, 9, missing_codes=[9, "."]),
    Boolean(missing_codes=[8, "unknown"]),
    Boolean(true=1, false=2, missing_codes=[9]),
    Boolean(true=["Yes", "Y"], false="No", missing=False, impossible=True),
    Category(["female", "male"], codes=[1, 2], missing_codes=[-1, "none"]),
    Category(["a", "b"], missing_codes=["NA"], impossible="b"),
    Date("2024-01-01", "2024-12-31", missing_codes=["9999-12-31", 0]),
    Date("2024-01-01", dt.datetime(2024, 1, 2, 12), missing="2024-01-02", impossible=dt.date(2024, 1, 1)),
]


def cells_of(*cells):
    found = np.empty(len(cells), dtype=object)
    found[:] = cells
    return found


@pytest.mark.parametrize(
    ("column", "cells", "values"),
    [
        (COLUMNS[0], [-9, "-9", "-9.0", "NA", " NA ", 99.5, "99.5", 99, Decimal(-9), "na"], [NAN] * 7 + [99, NAN, NAN]),
        (COLUMNS[1], [5, "5", None, "x", 3], [5, 5, 5, 7, 3]),
        (COLUMNS[2], [9, "9", ".", 8, 8.5, "09"], [NAN, NAN, NAN, 8, NAN, NAN]),
        (COLUMNS[3], [8, "unknown", True, 0, "1", 9], [NAN, NAN, 1, 0, 1, NAN]),
        (COLUMNS[4], [1, 2, "1", "2.0", 2.0, 9, 0, True, None], [1, 0, 1, 0, 0, NAN, NAN, NAN, NAN]),
        (COLUMNS[5], ["Yes", "Y", "No", "no", None, 1, True], [1, 1, 0, 1, 0, 1, 1]),
        (COLUMNS[6], [1, "2", "male", "female", -1, "none", 3, None], [0, 1, 1, 0, NAN, NAN, NAN, NAN]),
        (COLUMNS[7], ["a", "NA", "c", None], [0, NAN, 1, NAN]),
        (COLUMNS[8], ["2024-01-02", "9999-12-31", 0, 3, "02.01.2024", "2024-13-01"], [1] + [NAN] * 5),
        (COLUMNS[9], [None, "x", 5, "2024-01-02T12:00:00"], [1, 0, 0, 1.5]),
    ],
)
def test_cells_mean_what_is_declared(column, cells, values):
    for raw in (cells_of(*cells), Coded(np.arange(len(cells)), cells)):
        found = column.coerce(raw)
        np.testing.assert_array_equal(np.where(np.isfinite(found), found, NAN), values)


@pytest.mark.parametrize("column", COLUMNS, ids=repr)
def test_a_constant_policy_never_drops_a_row(column):
    """Else the number of rows would be released as public, where rows are dropped for it."""
    odd = [None, NAN, "", "x", -9, 5, 9, 8, 0, 99, "NA", np.inf, 1j, b"1", object(), dt.date(1, 1, 1)]
    odd += [np.datetime64("NaT", "s")]
    found = column.coerce(cells_of(*odd))
    assert column.may_drop or np.isfinite(found).all()


@pytest.mark.parametrize("column", COLUMNS, ids=repr)
def test_samples_are_cells_of_the_column(column):
    raw = column.sample(500, np.random.default_rng(3))
    values = replace_policies(column).coerce(raw)
    coded = np.isnan(values)  # of 500 whole numbers 10 are expected
    assert 0 < coded.sum() < 40 if column.kind == "integer" and column.missing_codes else not coded.any()
    values = values[~coded]
    np.testing.assert_allclose(replace_policies(column).coerce(column.cells(values)), values, atol=1e-9)


def replace_policies(column):
    return column_from_dict({**column.to_dict(), "missing": "drop", "impossible": "drop"})


def test_without_codes_a_declaration_is_written_as_ever():
    assert Boolean().to_dict() == {"kind": "boolean", "missing": "drop", "impossible": "drop"}
    assert Real(0, 1, missing_codes=["1", 2.0, "01", "2.50"]).missing_codes == (1, 2, "01", "2.50")
    assert set(Category(["a", "b"]).to_dict()) == {"kind", "levels", "missing", "impossible"}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Boolean(true=1), "false=None .* as true= is given"),
        (lambda: Boolean(true=1, false="1"), "stand for one truth value"),
        (lambda: Boolean(true=1, false=2, missing_codes=[2]), "stand for one truth value"),
        (lambda: Boolean(true=True, false=False), "true=<list> .* finite numbers"),
        (lambda: Boolean(true=[], false=2), "at least one code"),
        (lambda: Category(["a", "b"], codes=[1]), "a code for each of the 2 levels"),
        (lambda: Category([1, 2], codes=[2, 1]), "stand for one level"),
        (lambda: Category(["a", "b"], missing_codes=["b"]), "missing_codes=.* stand for one level"),
        (lambda: Real(0, 1, missing_codes="NA"), "missing_codes='NA'"),
        (lambda: Real(0, 1, missing_codes=[1, "1"]), "spelled differently"),
        (lambda: Real(0, 1, missing_codes=[None]), "spelled differently"),
        (lambda: Integer(0, 1, missing_codes=[0, 1]), "leave a number"),
        (lambda: Real(0, 1, label="two\nlines"), "one line"),
        (lambda: Real(0, 1, unit=3), "one line"),
        (lambda: Date("2024-01-01", "2024-01-01"), "after first"),
        (lambda: Date("1.1.2024", "2024-01-01"), "first='1.1.2024'"),
        (lambda: Date("2024-01-01", 5), "last=5"),
        (lambda: Date("2024-01-01", "2024-02-01", missing="2025-01-01"), "a date in"),
    ],
)
def test_wrong_declarations_say_what_is_right(make, words):
    with pytest.raises(SchemaError, match=words):
        make()


# Levels of a type


def test_levels_of_a_type_need_a_public_source_which_releases_record():
    kinds = [pd.CategoricalDtype(["low", "high"]), pl.Enum(["low", "high"])]
    for kind in kinds:
        column = Category.from_dtype(kind, source="questionnaire, question 7")
        assert column.levels == ("low", "high")
        for source in ("", None, " "):
            with pytest.raises(SchemaError, match="source"):
                Category.from_dtype(kind, source=source)
        with pytest.raises(TypeError):
            Category.from_dtype(kind)
    frame = pd.DataFrame({"x": ["low", "high", "low"]})
    released = dpi.table("x", dpi.PublicData(frame, dpi.Schema(x=column), rng=np.random.default_rng(1))).measure(
        dpi.ZCDP(1.0)
    )
    assert "questionnaire, question 7" in released.to_json()
    assert dpi.Release.from_json(released.to_json()).schema["x"].source == "questionnaire, question 7"


@pytest.mark.parametrize("levels", [["zanzibar"], [None, "zanzibar"], [dt.date(1987, 6, 5), dt.date(1987, 6, 7)]])
def test_levels_of_a_type_are_in_no_message(levels):
    kind = pd.CategoricalDtype([one for one in levels if one is not None])
    with pytest.raises(SchemaError) as caught:
        Category.from_dtype(kind, source="a book")
    assert "zanzibar" not in str(caught.value)
    assert "1987" not in str(caught.value)
    assert caught.value.__context__ is None
    for other in (pd.CategoricalDtype(), pl.Categorical(), pa.dictionary(pa.int8(), pa.string()), "zanzibar"):
        with pytest.raises(SchemaError, match="dtype=<"):
            Category.from_dtype(other, source="a book")


# Dates

MOMENTS = [dt.datetime(2024, 1, 2, 12), None, dt.datetime(2023, 1, 1), dt.datetime(2024, 3, 1, 0, 0, 0, 250_000)]
DAYS = [1.5, NAN, -365.0, 60 + 0.25 / 86_400]


def storages_of_moments():
    utc = [None if one is None else one.replace(tzinfo=dt.UTC) for one in MOMENTS]
    paris = [None if one is None else one.astimezone(ZoneInfo("Europe/Paris")) for one in utc]
    yield pd.DataFrame({"x": cells_of(*MOMENTS)})
    yield pd.DataFrame({"x": cells_of(*paris)})
    yield pd.DataFrame({"x": cells_of(*["" if one is None else one.isoformat() for one in utc])})
    yield pd.DataFrame({"x": pd.Categorical(MOMENTS)})
    for unit in ("ms", "us", "ns"):
        moments = pd.Series(pd.to_datetime(MOMENTS).as_unit(unit))
        yield pd.DataFrame({"x": moments})
        yield pd.DataFrame({"x": moments.astype(object)})
        yield pd.DataFrame({"x": moments.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")})
        array = pa.array(MOMENTS, pa.timestamp(unit))
        yield pa.table({"x": array})
        yield pa.table({"x": array.cast(pa.timestamp(unit, "Europe/Paris"))})
        yield pa.table({"x": array.dictionary_encode()})
        yield pa.table({"x": pa.chunked_array([array[:1], array[1:]])})
        yield pd.DataFrame({"x": pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([array])))})
        yield pl.DataFrame({"x": pl.Series(MOMENTS, dtype=pl.Datetime(unit))})


def test_a_moment_is_the_same_number_of_days_in_every_storage():
    column = Date("2024-01-01", "2024-12-31")
    frames = list(storages_of_moments())
    assert len(frames) == 31
    for frame in frames:
        cells = open_source(frame).read(["x"], 0, 4)["x"]
        np.testing.assert_array_equal(column.coerce(cells), column.coerce(frames[0]["x"].to_numpy()))
        np.testing.assert_allclose(column.coerce(cells), DAYS, rtol=0, atol=1e-11)
        for other in (Real(0, 1, missing=0.0, impossible=1.0), Integer(0, 1, missing=0, impossible=1)):
            np.testing.assert_array_equal(other.coerce(cells), [other.coerce(cells)[0], 0, other.coerce(cells)[0], 1])


def test_days_are_the_same_as_dates_everywhere():
    column = Date("2024-01-01", "2024-12-31")
    days = [dt.date(2024, 1, 3), None, dt.date(1, 1, 1)]
    expected = [2.0, NAN, (dt.date(1, 1, 1) - dt.date(2024, 1, 1)).days]
    tables = [pa.table({"x": pa.array(days, kind)}) for kind in (pa.date32(), pa.date64())]
    for frame in [*tables, pl.DataFrame({"x": days}), pd.DataFrame({"x": cells_of(*days)})]:
        np.testing.assert_array_equal(column.coerce(open_source(frame).read(["x"], 0, 3)["x"]), expected)


def test_a_moment_beyond_the_calendar_is_impossible_and_not_missing():
    first = pa.array([np.iinfo(np.int64).min, None, 0], pa.timestamp("us"))
    for array in (first, first.dictionary_encode()):
        cells = open_source(pa.table({"x": array})).read(["x"], 0, 3)["x"]
        found = Date("1960-01-01", "2024-12-31", missing="2000-01-01", impossible="1960-01-02").coerce(cells)
        assert found[0] == 1.0
        assert found[1] == (dt.date(2000, 1, 1) - dt.date(1960, 1, 1)).days


class Zone(dt.tzinfo):
    """A zone whose code must not run over rows."""

    def utcoffset(self, _):
        raise RuntimeError("a cell must not be asked")

    dst = tzname = utcoffset


def test_nobodys_own_zone_runs():
    cells = cells_of(dt.datetime(2024, 1, 2, tzinfo=Zone()), "2024-01-02")
    assert np.isinf(Date("2024-01-01", "2024-12-31").meaning(cells)[0])


def test_dates_are_measured_and_predicted_from():
    schema = dpi.Schema(when=Date("2024-01-01", "2024-12-31"), smokes=Boolean(true="Yes", false="No"), y=Real(0, 10))
    rng = np.random.default_rng(2)
    frame = schema.sample(4000, rng)
    frame["y"] = 2 + 0.01 * schema["when"].coerce(frame["when"].to_numpy()) + 3 * (frame["smokes"] == "Yes")
    data = dpi.PublicData(frame, schema, rng=rng)
    # Privacy noise alone at a price that makes it small; no chance of a false alarm worth naming.
    for method in ("gram", "newton"):
        fitted = dpi.ols("y ~ when + smokes", data, method=method).fit(dpi.ZCDP(1e4))
        np.testing.assert_allclose(fitted.params, [2, 0.01, 3], atol=0.05)
        points = pd.DataFrame({"when": ["2024-01-11", "2024-01-01"], "smokes": ["Yes", "No"]})
        np.testing.assert_allclose(fitted.predict(points), [5.1, 2.0], atol=0.05)
    mean = dpi.mean("when", data).fit(dpi.ZCDP(1e4))
    np.testing.assert_allclose(mean.params, schema["when"].coerce(frame["when"].to_numpy()).mean(), atol=0.05)


def test_blocks_see_dates_and_codes_as_numbers():
    import statsmodels.api as sm

    schema = dpi.Schema(when=Date("2024-01-01", "2024-01-11"), smokes=Boolean(true="Yes", false="No"), y=Real(0, 10))
    rng = np.random.default_rng(2)
    frame = schema.sample(2000, rng)
    frame["y"] = 2 + 0.1 * schema["when"].coerce(frame["when"].to_numpy()) + 3 * (frame["smokes"] == "Yes")
    data = dpi.PublicData(frame, schema, rng=rng)
    question = dpi.sample_aggregate("y ~ when + smokes", data, model=sm.OLS, blocks=20, bounds=(-9, 9), n_jobs=1)
    # The fit of every block is exact, and noise at this price has a standard deviation below 0.01.
    np.testing.assert_allclose(question.fit(dpi.ZCDP(1e6)).params, [2, 0.1, 3], atol=0.1)


def test_rows_of_people_are_chosen_by_what_codes_mean():
    """Cells that are spelled otherwise are the same contents, so the same rows of a person are kept."""
    schema = dpi.Schema(x=Boolean(true=1, false=2, missing_codes=[9]), y=Real(0, 9)).with_people("id", 2)
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"id": np.arange(600) // 6, "x": rng.choice([1, 2, 9], 600), "y": rng.integers(0, 9, 600)})
    texts = frame.assign(x=frame["x"].map({1: "1", 2: "2.0", 9: ""}))
    kept = [KeptSource(open_source(rows), schema) for rows in (frame, texts)]
    cells = [schema["x"].coerce(one.read(["x"], 0, one.rows)["x"]) for one in kept]
    assert kept[0].rows == 200
    np.testing.assert_array_equal(*cells)


# Decimals


@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**62), 2**62)), min_size=1, max_size=6),
    st.integers(0, 12),
    st.sampled_from([pa.decimal128, pa.decimal256]),
)
def test_decimals_of_arrow_are_the_nearest_floats(numbers, scale, kind):
    cells = [None if one is None else Decimal(one).scaleb(-scale) for one in numbers]
    array = pa.array([None, *cells], kind(38, scale))[1:]
    found = Real(0, 1).coerce(open_source(pa.table({"x": array})).read(["x"], 0, len(cells))["x"])
    np.testing.assert_array_equal(found, [NAN if one is None else float(one) for one in cells])


def test_a_column_of_sql_numerics_is_measured():
    cells = [Decimal("1234.50"), Decimal("3.10"), None] * 400
    for frame in (pd.DataFrame({"x": cells}), pa.table({"x": pa.array(cells, pa.decimal128(12, 2))})):
        data = dpi.PublicData(frame, dpi.Schema(x=Real(0, 2000)), rng=np.random.default_rng(1))
        released = dpi.mean("x", data).fit(dpi.ZCDP(1e4))
        np.testing.assert_allclose(released.params, (1234.5 + 3.1) / 2, atol=1)


# Schemas


def test_columns_are_replaced_and_keep_their_words():
    schema = dpi.Schema(income=Real(0, 10, label="Income", unit="EUR", missing_codes=[-9]), age=Integer(0, 99))
    changed = schema.replace(income=dpi.Real(0, 3e5))
    assert changed["income"] == Real(0, 3e5, label="Income", unit="EUR", missing_codes=[-9])
    assert list(changed) == ["income", "age"]
    assert schema.replace({"age": Integer(1, 9)}, income=Real(0, 1, unit="USD"))["income"].unit == "USD"
    with pytest.raises(SchemaError, match="'incom' is not in the schema"):
        schema.replace(incom=Real(0, 1))
    with pytest.raises(SchemaError, match="is not a column"):
        schema.replace(income=3)
    assert schema.with_people("id", 3).replace(age=Integer(0, 9)).people.id == "id"


def test_the_table_of_a_schema_shows_codes():
    lines = repr(dpi.Schema(x=Real(0, 9, missing_codes=[-9, "NA"]), b=Boolean(true=1, false=2))).splitlines()
    assert "missing: drop (also -9, 'NA')" in lines[1]
    assert "False: 2, True: 1" in lines[2]
    assert lines[1].index("impossible") == lines[2].index("impossible")


def test_schemas_are_put_together():
    left, right = dpi.Schema(a=Real(0, 1), b=Boolean()), dpi.Schema(b=Boolean(), c=Integer(0, 1))
    assert list(left | right) == ["a", "b", "c"]
    assert left | {"c": Integer(0, 1)} == left | right
    assert (left.with_people("id", 2) | right).people == (left | right.with_people("id", 2)).people
    with pytest.raises(SchemaError, match=r"schema\.replace\(b=\.\.\.\)"):
        left | dpi.Schema(b=Boolean(missing=True))
    with pytest.raises(SchemaError, match="by different columns"):
        left.with_people("id", 2) | right.with_people("id", 3)
    with pytest.raises(SchemaError, match="'c' identifies people"):
        left.with_people("c", 2) | right
    with pytest.raises(TypeError):
        left | 3


@pytest.mark.parametrize(
    "text",
    [
        "columns: [",
        "columns: &a [*a]",
        "columns:\n- {name: x, kind: boolean, kind: real}",
        "columns:\n- {name: x, kind: !!python/name:os.system }",
        "columns:\n- {? [1, 2] : 3}",
        "3",
        "",
    ],
)
def test_yaml_that_is_no_schema(text):
    with pytest.raises(SchemaError):
        dpi.Schema.from_yaml(text)
    with pytest.raises(SchemaError, match="not YAML"):
        dpi.Schema.from_yaml(3)


def test_yaml_reads_words_and_dates_as_they_stand():
    text = (
        "columns:\n- {name: x, kind: boolean, true: Yes, false: No}\n- {name: c, kind: category, levels: [No, off, 01]}"
    )
    schema = dpi.Schema.from_yaml(text + "\n- {name: d, kind: date, first: 2024-01-01, last: 2024-03-01}")
    assert schema["x"] == Boolean(true="Yes", false="No")
    assert schema["c"].levels == ("No", "off", "01")
    assert schema["d"] == Date("2024-01-01", "2024-03-01")


def test_a_blank_is_named():
    text = "columns:\n- {name: income, kind: real, lower: 0, upper: }"
    with pytest.raises(SchemaError, match="'income' leaves upper blank"):
        dpi.Schema.from_yaml(text)
    with pytest.raises(SchemaError, match="'income': Real: upper='x'"):
        dpi.Schema.from_yaml(text.replace("upper: ", "upper: x"))


def test_options_of_a_check():
    with pytest.raises(OptionError, match=r"types\['x'\]='nonsense'"):
        dpi.Schema(x=Real(0, 1)).check({"x": "nonsense"})

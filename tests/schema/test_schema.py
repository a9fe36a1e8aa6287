"""The schema as a mapping, as text and as a source of simulated rows."""

import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest

from dpinfer.errors import OptionError, SchemaError, UnknownColumnError
from dpinfer.schema import Boolean, Category, Integer, Real, Schema

SCHEMA = Schema(
    {"hours.per.week": Integer(1, 99), "a b": Real(0, 1, missing=0.25)},
    age=Real(0, 100),
    married=Boolean(impossible=False),
    race=Category(["a", 1, 2.5, True, "1e3"], missing=True),
)


def test_mapping():
    assert list(SCHEMA) == ["hours.per.week", "a b", "age", "married", "race"]
    assert len(SCHEMA) == 5
    assert "age" in SCHEMA
    assert "foo" not in SCHEMA
    assert 3 not in SCHEMA
    assert SCHEMA["age"] == Real(0, 100)
    assert SCHEMA.get("foo") is None
    assert dict(SCHEMA.items())["married"] == Boolean(impossible=False)
    with pytest.raises(UnknownColumnError, match=r"'foo' is not in the schema; it has: hours\.per\.week, a b, age"):
        SCHEMA["foo"]


def test_equality_ignores_order():
    assert Schema(a=Boolean(), b=Real(0, 1)) == Schema(b=Real(0, 1), a=Boolean())
    assert hash(Schema(a=Boolean(), b=Real(0, 1))) == hash(Schema(b=Real(0, 1), a=Boolean()))
    assert Schema(a=Boolean()) != Schema(a=Boolean(missing=True))
    assert Schema(a=Boolean()) != {"a": Boolean()}


def test_is_immutable_and_copies():
    with pytest.raises(AttributeError, match="cannot be changed"):
        SCHEMA.age = Real(0, 1)
    with pytest.raises(AttributeError, match="cannot be changed"):
        del SCHEMA._columns
    for other in (copy.deepcopy(SCHEMA), pickle.loads(pickle.dumps(SCHEMA))):
        assert other == SCHEMA
        assert list(other) == list(SCHEMA)


def test_rows_in_the_place_of_names_are_refused_by_their_type():
    schema = Schema(y=Category(["a", "b"]))
    for rows in (pd.Series(["secret", "a"]), np.array(["secret"]), pd.DataFrame({"secret": [1]})):
        with pytest.raises(OptionError, match="names") as raised:
            schema.select(rows)
        assert "secret" not in str(raised.value)
    assert list(schema.select(pd.Index(["y"]))) == ["y"]


def test_select():
    assert list(SCHEMA.select(["race", "age"])) == ["race", "age"]
    with pytest.raises(UnknownColumnError):
        SCHEMA.select(["foo"])
    with pytest.raises(OptionError, match=r"\['age'\]"):
        SCHEMA.select("age")


def test_json_is_lossless():
    back = Schema.from_json(SCHEMA.to_json())
    assert back == SCHEMA
    assert list(back) == list(SCHEMA)
    assert [type(level) for level in back["race"].levels] == [str, int, float, bool, str]
    assert Schema.from_dict(json.loads(json.dumps(SCHEMA.to_dict(), sort_keys=True))) == SCHEMA
    assert list(Schema.from_dict(json.loads(json.dumps(SCHEMA.to_dict(), sort_keys=True)))) == list(SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"columns": {}}',
        '{"columns": []}',
        '{"columns": [{"kind": "boolean"}]}',
        '{"columns": [{"name": "a", "kind": "boolean", "lower": 1}]}',
        '{"columns": [{"name": 3, "kind": "boolean"}]}',
        '{"columns": [{"name": "a", "kind": "boolean"}, {"name": "a", "kind": "boolean"}]}',
    ],
)
def test_json_that_is_no_schema(text):
    with pytest.raises(SchemaError):
        Schema.from_json(text)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Schema, "at least one column"),
        (lambda: Schema({}), "at least one column"),
        (lambda: Schema(age=(0, 100)), "write age=Real"),
        (lambda: Schema(age=Real), "write age=Real"),
        (lambda: Schema([("age", Real(0, 1))]), "not a mapping"),
        (lambda: Schema({3: Boolean()}), "the name <int>"),
        (lambda: Schema({" ": Boolean()}), "the name ' '"),
        (lambda: Schema({"a`b": Boolean()}), "backticks"),
        (lambda: Schema({"a": Boolean()}, a=Boolean()), "twice"),
    ],
)
def test_wrong_schemas_say_what_is_right(make, words):
    with pytest.raises(SchemaError, match=words):
        make()


def test_sample():
    frame = SCHEMA.sample(300, np.random.default_rng(1))
    assert isinstance(frame, pd.DataFrame)
    assert frame.shape == (300, 5)
    assert list(frame) == list(SCHEMA)
    assert frame["married"].dtype == bool
    assert frame["hours.per.week"].dtype == np.int64
    for name, column in SCHEMA.items():
        assert np.isfinite(column.coerce(frame[name].to_numpy())).all()
    pd.testing.assert_frame_equal(frame, SCHEMA.sample(300, np.random.default_rng(1)))
    assert SCHEMA.sample(0, np.random.default_rng(1)).shape == (0, 5)


def test_sample_needs_a_generator_and_a_size():
    with pytest.raises(OptionError, match="default_rng"):
        SCHEMA.sample(3, 1)
    for n in (-1, 2.5, "3"):
        with pytest.raises(OptionError, match="whole number"):
            SCHEMA.sample(n, np.random.default_rng(1))


def test_repr_is_a_table():
    lines = repr(Schema(age=Real(0, 100), r=Category(list("abcdefgh"), missing="b"))).splitlines()
    assert lines[0] == "Schema of 2 columns"
    assert lines[1].split() == ["age", "Real", "[0,", "100]", "missing:", "drop", "impossible:", "drop"]
    assert "... (8 levels)" in lines[2]
    assert lines[1].index("missing") == lines[2].index("missing")

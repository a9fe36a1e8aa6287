"""The guard around rows: what it shows, and what it refuses."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import DataError, OptionError, UnknownColumnError
from tests.linear import gram_ols

SCHEMA = dpi.Schema(x=dpi.Real(0, 1), y=dpi.Real(0, 1))
FRAME = pd.DataFrame({"x": [0.123456789, 0.2], "y": [0.987654321, 0.1], "name": ["Ada", "Bob"]})


def private(neighbors="add_remove"):
    return dpi.PrivateData(FRAME, SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(1), neighbors=neighbors))


def public():
    return dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(0))


@pytest.mark.parametrize("make", [private, public])
@pytest.mark.parametrize("carry", [pickle.dumps, copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"])
def test_data_are_neither_pickled_nor_copied(make, carry):
    data = make()
    for holder in (data, [data], gram_ols("y ~ x", data), dpi.gram(["x", "y"], data)):
        if carry is copy.copy and holder is not data:
            continue
        with pytest.raises(DataError, match="would carry the rows away"):
            carry(holder)


@pytest.mark.parametrize("make", [private, public])
def test_nothing_printed_holds_a_cell(make):
    data = make()
    model = gram_ols("y ~ x", data)
    for text in (repr(data), str(data), repr(model), str(model), f"{data}", model.explain(dpi.ZCDP(0.1))):
        for cell in ("0.123456789", "0.987654321", "Ada"):
            assert cell not in text


@pytest.mark.parametrize("make", [private, public])
def test_what_the_data_are_and_who_is_protected_cannot_be_changed(make):
    data, other = make(), dpi.Ledger.in_memory(dpi.ZCDP(100), neighbors="replace_one")
    wider = dpi.Schema(x=dpi.Real(0, 0.01), y=dpi.Real(0, 0.01))
    changes = {"ledger": other, "neighbors": "replace_one", "schema": wider, "rng": np.random.default_rng(1), "nobs": 3}
    for name, value in (changes | {"budget": dpi.ZCDP(9)}).items():
        with pytest.raises(AttributeError):
            setattr(data, name, value)
        with pytest.raises(AttributeError):
            delattr(data, name)
    assert data.neighbors == "add_remove"
    assert data.schema == SCHEMA
    assert not hasattr(data, "__dict__")


def test_the_relation_is_that_of_the_ledger():
    for neighbors in ("add_remove", "replace_one"):
        data = private(neighbors)
        assert data.neighbors == data.ledger.neighbors == neighbors
        assert dpi.mean("x", data).measure(dpi.ZCDP(0.1)).neighbors == neighbors
    for change in ("neighbors", "dataset", "budget", "currency"):
        with pytest.raises(AttributeError):
            setattr(data.ledger, change, "add_remove")
    measured = dpi.mean("x").measurement(dpi.ZCDP(0.1), schema=SCHEMA, neighbors="add_remove")
    spent = data.ledger.spent
    assert data.neighbors == "replace_one" != measured.neighbors
    with pytest.raises(
        dpi.errors.OptionError, match=r"procedure.*a question"
    ):  # a plan for another relation is no procedure, and nothing runs it
        data.run(measured, dpi.ZCDP(0.1))
    assert data.ledger.spent == spent


def test_the_guard_is_not_subclassed():
    with pytest.raises(TypeError, match="is not subclassed"):
        type("Wider", (dpi.PrivateData,), {"neighbors": "replace_one"})


def test_the_number_of_rows_is_shown_only_where_it_is_public():
    assert private().nobs is None
    assert "confidential" in repr(private())
    assert private("replace_one").nobs == 2
    assert "2 (public)" in repr(private("replace_one"))


def test_results_and_releases_carry_no_rows():
    results = gram_ols("y ~ x", private()).fit(dpi.ZCDP(0.5))
    for carried in (pickle.dumps(results), results.release.to_json().encode(), pickle.dumps(results.release)):
        assert b"Ada" not in carried
        assert np.float64(0.123456789).tobytes() not in carried
        assert b"0.123456789" not in carried


def test_declared_columns_have_to_exist():
    schema = dpi.Schema(x=dpi.Real(0, 1), z=dpi.Real(0, 1))
    for make in (
        lambda: dpi.PrivateData(FRAME, schema, dpi.Ledger.in_memory(dpi.ZCDP(1))),
        lambda: dpi.PublicData(FRAME, schema, rng=np.random.default_rng(0)),
    ):
        with pytest.raises(UnknownColumnError, match="'z' is not in the data; it has: x, y, name"):
            make()


@pytest.mark.parametrize("source", [None, [1, 2], {"x": [1]}, np.ones(3)])
def test_sources_of_unknown_type(source):
    with pytest.raises(DataError, match="expected a pandas, Polars, Dask or Spark DataFrame"):
        dpi.PrivateData(source, SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(1)))


def test_arguments_of_wrong_type():
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1))
    with pytest.raises(OptionError, match="schema=<dict>"):
        dpi.PrivateData(FRAME, {"x": dpi.Real(0, 1)}, ledger)
    for wrong in (dpi.ZCDP(1), None, "study.db"):
        with pytest.raises(OptionError, match="ledger"):
            dpi.PrivateData(FRAME, SCHEMA, wrong)
    for wrong in (None, 1, np.random):
        with pytest.raises(OptionError, match="rng"):
            dpi.PublicData(FRAME, SCHEMA, rng=wrong)
    with pytest.raises(OptionError, match=r"neighbors='both'.*'add_remove', 'replace_one'"):
        dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(0), neighbors="both")
    with pytest.raises(TypeError):
        dpi.PrivateData(FRAME, SCHEMA, ledger, rng=np.random.default_rng(0))


def test_public_data_with_one_seed_give_one_release():
    releases = [gram_ols("y ~ x", public()).measure(dpi.ZCDP(0.1)) for _ in range(2)]
    assert releases[0] == releases[1]


def test_a_fit_leaves_the_frame_alone():
    before = FRAME.copy(deep=True)
    for make in (private, public):
        gram_ols("y ~ x + exp(x)", make(), where="x > 0.1", row_norm=1.1).fit(dpi.ZCDP(0.5))
    pd.testing.assert_frame_equal(FRAME, before)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_other_rows_with_the_plans_of_these_release_what_they_release_alone(neighbors):
    frames = [SCHEMA.sample(size, np.random.default_rng(size)) for size in (200, 300, 300)]
    data, found, alone = None, [], []
    for seed, frame in enumerate(frames):
        own = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(seed), neighbors=neighbors)
        data = own if data is None else data.with_rows(frame, np.random.default_rng(seed))
        other = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(seed), neighbors=neighbors)
        for price in (dpi.ZCDP(1), dpi.GDP(1)):
            for ask in (lambda rows: dpi.ols("y ~ x", rows, method="newton"), lambda rows: dpi.mean("y", rows)):
                found.append(ask(data).measure(price).to_json())
                alone.append(ask(other).measure(price).to_json())
    assert found == alone

"""Densities end to end: only released numbers depend on rows; what is right without noise; explanations."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dpinfer as dpi
from dpinfer.distributions.density import Density, density
from dpinfer.errors import InferenceError, OptionError, SchemaError
from dpinfer.privacy.units import NEIGHBORS

SCHEMA = dpi.Schema(x=dpi.Real(0, 10), k=dpi.Integer(0, 30), full=dpi.Real(0, 10, missing=5, impossible=5))
QUIET = dpi.PureDP(200.0)
"""A price at which a count of whole rows has no noise but with probability e^-170 or so."""


def frame_of(rows=3000, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.beta(2, 5, rows) * 10
    return pd.DataFrame({"x": x, "k": rng.binomial(30, 0.3, rows), "full": x})


FRAMES = {
    "NaN": lambda: frame_of().mask(lambda f: f > 8),
    "everything missing": lambda: frame_of(50) * np.nan,
    "infinity": lambda: frame_of(50) * np.inf,
    "text": lambda: frame_of(50).astype(object).assign(x="oops", k="3", full="1.5"),
    "objects": lambda: frame_of(50).astype(object).assign(x=None, k=pd.Timestamp("2020-01-01"), full=object()),
    "no rows": lambda: frame_of(0),
    "one row": lambda: frame_of(1),
    "one bin": lambda: frame_of().assign(x=2.0, k=7, full=2.0),
    "clamped": lambda: frame_of().assign(x=1e300, k=-4, full=-1e300),
    "polars": lambda: pl.from_pandas(frame_of(80)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("column", list(SCHEMA))
@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_rows_change_nothing_but_the_released_numbers(name, column, neighbors):
    for price in (dpi.ZCDP(0.5), dpi.PureDP(0.3)):
        for bins in ("auto", 6):
            ledger = dpi.Ledger.in_memory(price, neighbors=neighbors)
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                question = density(column, dpi.PrivateData(FRAMES[name](), SCHEMA, ledger), bins=bins)
                results = question.fit(price)
                assert str(results.summary())
            assert not warned
            assert ledger.spent == price
            expected = question.measurement(price)
            release = results.release
            assert release.cost == expected.cost
            assert release.question == expected.question
            for stage, planned in zip(release.stages, expected.stages, strict=True):
                # A replaced row moves two bins, but one where there are no others: noise knows the number of bins.
                least = [planned.law.scales[0] / (1 if len(stage.names) > 1 else 2), planned.law.scales[0]]
                assert least[0] * (1 - 1e-9) <= min(stage.law.scales) <= max(stage.law.scales) <= least[1]
                assert set(stage.settings) == set(planned.stage.settings)
            table = results.frame()
            numbers = table.drop(columns="hidden").to_numpy()
            assert np.isfinite(numbers).all()
            assert ((table["[0.025"] <= table["0.975]"]) & (table["[0.025"] >= 0)).all()
            np.testing.assert_allclose(table["projected"] @ (table["upper"] - table["lower"]), 1.0)


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("column", ["x", "full"])
def test_without_noise_it_is_the_histogram_of_numpy(neighbors, column):
    frame = frame_of()
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(3), neighbors=neighbors)
    for bins in (8, [1.0, 1.5, 4, 9.25]):
        results = density(column, data, bins=bins).fit(QUIET)
        expected, edges = np.histogram(frame[column], bins if bins != 8 else np.linspace(0, 10, 9), density=True)
        np.testing.assert_allclose(results.edges, edges)
        np.testing.assert_allclose(results.frame()["density"], expected, rtol=1e-12)
    results = density(column, data).fit(QUIET)
    expected, _ = np.histogram(frame[column], results.edges, density=True)
    np.testing.assert_allclose(results.frame()["density"], expected, rtol=1e-12)
    assert 5 <= results.bins <= 60
    assert results.nobs == 3000
    assert results.nobs_is_public == (neighbors == "replace_one" and column == "full")


def test_whole_numbers_are_counted_by_whole_numbers():
    frame = frame_of()
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(3))
    results = density("k", data, bins=31).fit(QUIET)
    shares = np.bincount(frame["k"], minlength=31) / 3000
    np.testing.assert_allclose(results.frame()["density"], shares)
    np.testing.assert_allclose(results.density(np.arange(31)), shares)
    coarse = density("k", data, bins=[0, 10, 20, 30]).fit(QUIET)
    np.testing.assert_allclose(coarse.density([0, 9, 10, 30]) * [10, 10, 10, 11], [
        shares[:10].sum(), shares[:10].sum(), shares[10:20].sum(), shares[20:].sum()
    ])  # fmt: skip


def test_where_and_edges_leave_rows_out():
    frame = frame_of()
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(3), neighbors="replace_one")
    results = density("full", data, bins=[2, 3, 5], where="k > 9").fit(QUIET)
    kept = frame.loc[(frame["k"] > 9) & frame["full"].between(2, 5), "full"]
    np.testing.assert_allclose(results.frame()["density"], np.histogram(kept, [2, 3, 5], density=True)[0])
    assert results.nobs == len(kept)
    assert not results.nobs_is_public


def test_one_bin_of_a_public_number_of_rows_tells_nothing():
    with pytest.raises(OptionError):
        density("full", bins=1).measurement(dpi.ZCDP(0.1), schema=SCHEMA, neighbors="replace_one")
    found = density("x", bins=1).measurement(dpi.ZCDP(0.1), schema=SCHEMA, neighbors="replace_one")
    assert len(found.law.scales) == 1


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("bins", ["auto", 12])
def test_explanations_come_before_anything_is_spent(neighbors, bins):
    ledger = dpi.Ledger.in_memory(dpi.PureDP(1.0), neighbors=neighbors)
    question = density("full", dpi.PrivateData(frame_of(50), SCHEMA, ledger), bins=bins)
    told = question.explain(dpi.PureDP(0.5))
    assert "density of full" in told
    assert "0.5-DP" in told
    assert "standard deviation of the noise" in told
    assert ("the number of rows" in told.splitlines()[-2]) == (bins == "auto" and neighbors == "add_remove")
    assert ledger.spent == dpi.PureDP(0.0)


def test_a_release_answers_its_own_question_alone():
    data = dpi.PublicData(frame_of(), SCHEMA, rng=np.random.default_rng(3))
    release = density("x", data).measure(dpi.ZCDP(0.1))
    assert density("x", release).infer().bins == release.infer().bins
    assert density("x", target="data").infer(release).target == "data"
    for other in (density("k"), density("x", bins=7), density("x", where="k > 3")):
        with pytest.raises(InferenceError):
            other.infer(release)
    with pytest.raises(InferenceError):
        density("x").infer(dpi.gram(["x"], data).measure(dpi.ZCDP(0.1)))


def test_questions_are_refused():
    with pytest.raises(OptionError, match="column"):
        density("")
    with pytest.raises(OptionError, match="column"):
        Density(column=3)
    with pytest.raises(OptionError, match="target"):
        density("x", target="rows")
    with pytest.raises(SchemaError):
        density("b").measurement(dpi.ZCDP(0.1), schema=dpi.Schema(b=dpi.Boolean()))

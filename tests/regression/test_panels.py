"""Regressions within people: the estimators of panel data, their rows, and what they refuse."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.datasets import grunfeld

import dpinfer as dpi
from dpinfer.errors import FormulaError, NotProvedError, OptionError, UnknownColumnError
from dpinfer.kernel.rows.features import Features, Within
from dpinfer.kernel.rows.products import GramSum
from dpinfer.schema.basis import basis_of
from dpinfer.schema.grid import UNIT

FREE = dpi.ZCDP(1e11)
FIRMS = grunfeld.load_pandas().data
SCHEMA = dpi.Schema(
    invest=dpi.Real(0, 1500), value=dpi.Real(0, 7000), capital=dpi.Real(0, 2500), year=dpi.Integer(1935, 1954)
)
PEOPLE = dpi.Schema(x=dpi.Real(-1, 1), y=dpi.Real(-1, 1), t=dpi.Integer(0, 9)).with_people("who", 6)


def public(frame=FIRMS, **options):
    given = {"id": "firm", "max_rows": 20, "rng": np.random.default_rng(1), **options}
    return dpi.PublicData(frame, SCHEMA, **given)


def clustered(y, x, firm):
    """Slopes of statsmodels without a constant, and the deviations that clusters give without small-sample factors."""
    found = sm.OLS(y, x).fit(cov_type="cluster", cov_kwds={"groups": firm, "use_correction": False})
    return found.params, found.bse


def within(frame, columns):
    return frame[columns] - frame.groupby("firm")[columns].transform("mean")


def test_entity_effects_are_the_within_estimator():
    centred = within(FIRMS, ["invest", "value", "capital"])
    params, errors = clustered(centred["invest"], centred[["value", "capital"]], FIRMS["firm"].factorize()[0])
    results = dpi.ols("invest ~ value + EntityEffects + capital", public()).fit(FREE)
    assert list(results.params.index) == ["value", "capital"]
    np.testing.assert_allclose(results.params, params, rtol=2e-3)
    np.testing.assert_allclose(results.bse, errors, rtol=0.1)  # of ten firms


def test_periods_beside_people_are_two_way_effects():
    dummies = pd.get_dummies(FIRMS[["firm", "year"]].astype(str), drop_first=True, dtype=float)
    long = sm.OLS(FIRMS["invest"], sm.add_constant(pd.concat([FIRMS[["value", "capital"]], dummies], axis=1))).fit()
    results = dpi.ols("invest ~ value + capital + C(year) + EntityEffects", public()).fit(FREE)
    np.testing.assert_allclose(results.params[:2], long.params[["value", "capital"]], rtol=5e-3)


def test_first_differences_follow_time_and_not_the_order_of_rows():
    ordered = FIRMS.sort_values(["firm", "year"])
    changes = ordered.groupby("firm")[["invest", "value", "capital"]].diff().dropna()
    params, errors = clustered(
        changes["invest"], changes[["value", "capital"]], ordered.loc[changes.index, "firm"].factorize()[0]
    )
    for frame in (FIRMS, FIRMS.sample(frac=1, random_state=3)):
        results = dpi.first_difference("invest ~ value + capital", public(frame), time="year").fit(FREE)
        np.testing.assert_allclose(results.params, params, rtol=2e-3)
        np.testing.assert_allclose(results.bse, errors, rtol=0.1)


def rows_of(frame, within):
    features = Features(basis_of(("x", "y"), PEOPLE), within=within)
    assert features.columns == (("t", "x", "y") if within.order else ("x", "y"))
    cells = {name: frame[name].to_numpy() for name in ("x", "y", "t")}
    return features.encode(cells, persons=frame["who"].to_numpy())[0]


def people(rng, count=40):
    size = rng.integers(1, 7, count)
    frame = pd.DataFrame({"who": np.repeat(np.arange(count), size)})
    frame["x"], frame["y"] = rng.uniform(-1.5, 1.5, (2, len(frame)))
    frame["t"] = rng.integers(0, 10, len(frame)).astype(float)
    frame.loc[rng.random(len(frame)) < 0.2, "x"] = np.nan
    return frame


@pytest.mark.parametrize("kind", [Within(), Within("t")])
def test_rows_are_what_pandas_makes_of_a_persons_rows_and_of_nothing_else(kind):
    frame = people(np.random.default_rng(5))
    found = rows_of(frame, kind)
    kept = frame.dropna().assign(**{one: np.rint(frame[one].clip(-1, 1) * UNIT) for one in ("x", "y")})
    if kind.order is None:
        expected = (kept[["x", "y"]] - kept.groupby("who")[["x", "y"]].transform("mean")) / 2
    else:
        kept = kept.sort_values(["who", "t", "x", "y"])
        expected = kept.groupby("who")[["x", "y"]].diff().dropna() / 2
    counted = found[:, found[0] != 0]
    assert counted.shape[1] == len(expected)
    np.testing.assert_array_equal(found[0, frame.index.isin(expected.index)], UNIT)
    np.testing.assert_allclose(found[1:, expected.sort_index().index].T, expected.sort_index(), atol=0.5)
    assert (np.abs(found) <= UNIT).all()
    assert not found[:, ~frame.index.isin(expected.index)].any()
    one = frame[frame["who"] == 7].reset_index(drop=True)  # alone, a person's rows are what they are among others
    np.testing.assert_array_equal(rows_of(one, kind), found[:, frame["who"] == 7])


@pytest.mark.parametrize("kind", [Within(), Within("t")])
def test_rows_that_change_places_are_summed_alike(kind):
    frame = people(np.random.default_rng(6))
    mixed = frame.sample(frac=1, random_state=1).sort_values("who", kind="stable")
    first, second = (rows_of(one.reset_index(drop=True), kind) for one in (frame, mixed))
    assert sorted(map(tuple, first.T)) == sorted(map(tuple, second.T))


def test_one_row_of_everyone_tells_nothing():
    frame = FIRMS.groupby("firm").head(1)
    for question in (
        dpi.ols("invest ~ value + EntityEffects", public(frame)),
        dpi.first_difference("invest ~ value", public(frame), time="year"),
    ):
        results = question.fit(dpi.ZCDP(1))
        assert results.flags
        assert np.isfinite(results.params).all()


@pytest.mark.parametrize(
    ("formula", "error", "told"),
    [
        ("invest ~ value * EntityEffects", FormulaError, "no term of its own"),
        ("invest ~ value + EntityEffects + EntityEffects", FormulaError, "no term of its own"),
        ("invest ~ EntityEffects", FormulaError, "no regressors"),
        ("invest ~ 0 + value + EntityEffects", FormulaError, "leaves out the constant"),
        ("invest ~ value*(C(year) + EntityEffects + I(capital))", FormulaError, "no term of its own"),
        ("invest ~ I((value) + EntityEffects + (capital))", FormulaError, "no term of its own"),
        ("invest ~ value + FirstDifference()", FormulaError, "no column of numbers"),
        ("invest ~ value + FirstDifference(month)", UnknownColumnError, "month"),
    ],
)
def test_a_formula_that_cannot_be_read_is_refused_before_a_charge(formula, error, told):
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1))
    data = dpi.PrivateData(FIRMS, SCHEMA, ledger, id="firm", max_rows=20)
    with pytest.raises(error, match=told):
        dpi.ols(formula, data).fit(dpi.ZCDP(0.1))
    assert ledger.charges().empty


def test_data_without_people_and_models_that_keep_their_effects_are_refused():
    with pytest.raises(FormulaError, match="people with several rows"):
        dpi.ols("invest ~ value + EntityEffects", public(id=None, max_rows=None)).fit(FREE)
    with pytest.raises(FormulaError, match="people with several rows"):
        dpi.first_difference("invest ~ value", public(max_rows=1), time="year").fit(FREE)
    with pytest.raises(NotProvedError, match="poisson"):
        dpi.poisson("invest ~ value + EntityEffects", public()).fit(FREE)
    with pytest.raises(NotProvedError, match="weights="):
        dpi.ols("invest ~ value + EntityEffects", public(), weights="capital").fit(FREE)
    with pytest.raises(OptionError, match="only iterations"):
        dpi.ols("invest ~ value + EntityEffects", public(), method="gram")
    with pytest.raises(OptionError, match="orders a person"):
        dpi.first_difference("invest ~ value", public(), time=1935)


def test_other_sums_do_not_compare_rows():
    features = Features(basis_of(("x", "y"), PEOPLE), within=Within())
    with pytest.raises(NotProvedError, match="within people"):
        GramSum(features).check()
    with pytest.raises(NotProvedError, match="within people"):
        Features(basis_of(("x",), dpi.Schema(x=dpi.Real(0, 1))), within=Within()).check(within=True)


def test_a_release_is_read_again():
    data = dpi.PrivateData(FIRMS, SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(9)), id="firm", max_rows=20)
    results = dpi.first_difference("invest ~ value", data, time="year").fit(dpi.ZCDP(5))
    stored = dpi.Release.from_json(results.release.to_json())
    again = dpi.first_difference("invest ~ value", stored, time="year").infer()
    pd.testing.assert_series_equal(again.params, results.params)
    assert "previous row, ordered by year" in " ".join(str(again.summary()).split())


def test_wages_are_those_of_linearmodels():
    from linearmodels import FirstDifferenceOLS, PanelOLS
    from linearmodels.datasets import wage_panel

    rows = wage_panel.load()
    schema = dpi.Schema(lwage=dpi.Real(-4, 5), union=dpi.Boolean(), married=dpi.Boolean(), year=dpi.Integer(1980, 1987))
    data = dpi.PublicData(rows, schema, rng=np.random.default_rng(1), id="nr", max_rows=8)
    panel = rows.set_index(["nr", "year"])
    given = {"cov_type": "clustered", "cluster_entity": True, "debiased": False}
    theirs = PanelOLS.from_formula("lwage ~ union + married + EntityEffects", panel).fit(**given)
    ours = dpi.ols("lwage ~ union + married + EntityEffects", data).fit(FREE)
    np.testing.assert_allclose(ours.params, theirs.params, rtol=1e-3)
    np.testing.assert_allclose(ours.bse, theirs.std_errors, rtol=1e-2)
    theirs = FirstDifferenceOLS.from_formula("lwage ~ union + married", panel).fit(**given)
    ours = dpi.first_difference("lwage ~ union + married", data, time="year").fit(FREE)
    np.testing.assert_allclose(ours.params, theirs.params, rtol=1e-3)
    np.testing.assert_allclose(ours.bse, theirs.std_errors, rtol=1e-2)

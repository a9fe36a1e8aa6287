"""Regressions by iterations of few rows, where noise shows rows that cannot be."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression.design import columns_of
from dpinfer.regression.question import Newton
from validation.regression.newton_draws import Drawer


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize("method", ["auto", "score"])
def test_tests_that_noise_dominates_keep_their_size(method):
    """Other coefficients are then anywhere: where they are estimated tells nothing (18% to 31% were rejected, of 5)."""
    names = ["age", "yrs_married", "religious", "rate_marriage"]
    rows = sm.datasets.fair.load_pandas().data[names]
    truth = sm.OLS(rows["rate_marriage"], sm.add_constant(rows[names[:3]])).fit().params.to_numpy()
    schema = dpi.Schema(
        age=dpi.Real(17, 42), yrs_married=dpi.Real(0, 25), religious=dpi.Integer(1, 4), rate_marriage=dpi.Integer(1, 5)
    )
    asked = Newton(formula="rate_marriage ~ age + yrs_married + religious")
    question = Drawer(asked, Context(schema, "add_remove", dpi.PureDP(1)))
    rng, rejected, covered, replicates = np.random.default_rng(31), np.zeros(4), np.zeros(4), 200
    for _ in range(replicates):
        drawn = rows.iloc[rng.integers(0, len(rows), 1000)]
        found = question.estimate({name: drawn[name].to_numpy() for name in names}, rng, method)
        pvalues = found.contrast_pvalues(np.eye(4), truth)
        rejected += pvalues < 0.05
        if method == "score":  # intervals end where p-values are .05: see test_engine.py
            covered += pvalues >= 0.05
            continue
        ends = found.intervals(np.eye(4), 0.05)
        covered += (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    assert (rejected <= stats.binom.isf(1e-6 / 4, replicates, 0.07)).all()  # 7%: Laplace noise has heavier tails
    assert (covered >= stats.binom.ppf(1e-6 / 4, replicates, 0.95)).all()


@pytest.mark.parametrize("target", ["population", "data"])
@pytest.mark.parametrize(("rho", "flagged"), [(0.5, 0), (0.0005, 10)])
def test_terms_whose_intervals_are_mostly_noise_are_named(rho, flagged, target):
    names = ["age", "yrs_married", "rate_marriage"]
    rows = sm.datasets.fair.load_pandas().data[names]
    schema = dpi.Schema(age=dpi.Real(17, 42), yrs_married=dpi.Real(0, 25), rate_marriage=dpi.Integer(1, 5))
    named = 0
    for seed in range(10):
        data = dpi.PublicData(rows, schema, rng=np.random.default_rng(seed))
        question = dpi.ols("rate_marriage ~ age + yrs_married", data, method="newton", target=target)
        flags = question.fit(dpi.ZCDP(rho)).flags
        named += any("privacy noise dominates Intercept, age, yrs_married" in flag for flag in flags)
        assert flagged or not any("dominates" in flag for flag in flags)
    assert named == flagged


LEVELS = dpi.Schema(x=dpi.Real(-50, 50), k=dpi.Integer(1, 4), z=dpi.Integer(0, 5), y=dpi.Integer(0, 5))


@pytest.mark.parametrize(
    ("formula", "ranges", "declared"),
    [
        ("y ~ x + C(k)", {"k": (1.0, 3.4), "x": (-1.0, 1.0)}, {"k"}),
        ("y ~ x + C(k)", {"k": (1.6, 4.0), "x": (-1.0, 1.0)}, {"k"}),  # the reference level
        ("y ~ I(z > 3) + C(k)", {"k": (1.0, 4.0), "z": (0.0, 3.4)}, {"z"}),
        ("y ~ I(z > 3) + C(k)", {"k": (1.0, 4.0), "z": (3.6, 5.0)}, {"z"}),
        ("I(y > 2) ~ x + z", {"y": (3.0, 5.0), "z": (1.0, 2.0), "x": (0.0, 1.0)}, {"y"}),
        ("y ~ x + I(x**2) + I(x**3)", {"x": (48.0, 48.1), "y": (1.0, 2.0)}, set()),
    ],
)
def test_a_range_that_leaves_no_row_to_a_level_is_not_taken(formula, ranges, declared):
    """Coordinates of levels that no public row had were 10^20 long, and what was made of them no number."""
    columns = columns_of(LEVELS, formula, None, None, None, None, None)
    found = columns.scaled(ranges)
    kept = columns.scaled({name: one for name, one in ranges.items() if name not in declared})
    np.testing.assert_array_equal(found.transform, kept.transform)
    assert (found.shift, found.unit) == (kept.shift, kept.unit)
    assert np.abs(found.transform).max() < 1e12
    if declared:
        assert np.abs(found.transform @ columns.public_rows({})[:-1]).max() < 200
        assert found.unit > 0.1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("function", ["ols", "rlm", "quantreg"])
@pytest.mark.parametrize("formula", ["x ~ C(k)", "x ~ I(z > 3) + C(k)"])
def test_no_noise_takes_a_level_from_a_start(function, formula):
    """With these draws noise gives some column a range without one of its levels, in each of the six cases."""
    for seed in range(10):
        rng = np.random.default_rng([21, seed])
        rows = pd.DataFrame({name: rng.integers(1, 4, 20) for name in LEVELS})
        data = dpi.PublicData(rows, LEVELS, rng=rng)
        results = getattr(dpi, function)(formula, data).fit(dpi.PureDP(0.1))
        assert not np.isnan(results.conf_int()).any(axis=None)


@pytest.mark.parametrize(
    ("question", "price", "told"),
    [
        (dpi.ols("x ~ z"), dpi.PureDP(1), True),
        (dpi.ols("x ~ z"), dpi.ZCDP(0.1), False),
        (dpi.ols("x ~ z", weights="y"), dpi.PureDP(1), False),  # which cross-products do not take
        (dpi.rlm("x ~ z"), dpi.PureDP(1), False),
    ],
)
def test_cross_products_are_named_where_they_serve_and_rounds_may_not(question, price, told):
    assert ('method="gram"' in question.explain(price, schema=LEVELS)) is told


@pytest.mark.parametrize("size", [60, 60_000])
def test_a_table_names_cross_products_where_rounds_left_terms_open(size):
    """With 60 rows noise is some hundred times what a slope could be, with 60,000 and this price nothing."""
    rng = np.random.default_rng(5)
    rows = pd.DataFrame({name: rng.integers(0, 6, size).clip(1, 4) for name in LEVELS})
    results = dpi.ols("x ~ z", dpi.PublicData(rows, LEVELS, rng=rng)).fit(dpi.PureDP(0.5 if size == 60 else 20))
    assert (np.ptp(results.conf_int(), axis=1) > 100).any() == (size == 60)
    assert ('method="gram"' in results.summary().as_text()) == (size == 60)

"""What the oracle of a study knows: the population's own sampling variance, whatever the model says of it."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.procedures.procedure import Procedure
from dpinfer.regression.linear import OLS
from dpinfer.studies.simulation import Spread, chosen_spread, spread_of_replicates

SCHEMA = dpi.Schema(x=dpi.Real(0, 1), y=dpi.Real(-1, 2))
CLEAR = dpi.ZCDP(100.0)
GRAM = dpi.ols("y ~ x", method="gram")


def cut(rng, n):
    return np.clip(rng.normal(size=n), -2.5, 2.5)


def equal(rng, n):
    x = rng.beta(1, 5, n)
    return {"x": x, "y": 0.5 * x + 0.05 * cut(rng, n)}


def unequal(rng, n):
    x = rng.beta(1, 5, n)
    return {"x": x, "y": 0.5 * x + 0.4 * x**2 * cut(rng, n)}


def bent(rng, n):
    x = rng.beta(1, 5, n)
    return {"x": x, "y": x**3 + 0.01 * cut(rng, n)}


def clustered(rng, n):
    of = rng.integers(0, 40, n)
    x = 0.5 * rng.beta(1, 5, 40)[of] + 0.5 * rng.beta(1, 5, n)
    return {"x": x, "y": 0.5 * x + 0.05 * cut(rng, 40)[of] + 0.02 * cut(rng, n)}


def study(generate, procedure=GRAM, **changes):
    options = {"schema": SCHEMA, "truth": {"x": 0.5}, "n": 2000, "privacy": CLEAR, "replicates": 500, "seed": 2}
    return dpi.coverage_study(generate, procedure, progress=False, **{**options, **changes})


def slope(generate, **changes):
    return study(generate, **changes).cells.set_index("term").loc["x"]


# On the cross-products of every design the interval is that of errors that spread equally, and its width over that of
# an oracle with the same formula was 1.00.


@pytest.mark.parametrize(("generate", "truth"), [(unequal, {"x": 0.5}), (bent, None), (clustered, {"x": 0.5})])
def test_where_intervals_fail_the_oracle_shows_it(generate, truth):
    """False alarm: coverage is 5 standard errors from what widths imply with probability 6e-7, and the ratio's are 4%.

    Where the noise is little and estimates are normal, intervals of r times the oracle's width cover 2 Phi(1.96 r) - 1.
    """
    cell = slope(generate, truth=truth)
    ratio = cell["width / oracle"]
    assert cell["coverage"] < 0.85
    assert ratio < 0.85
    implied = 2 * stats.norm.cdf(stats.norm.isf(0.025) * ratio) - 1
    assert abs(cell["coverage"] - implied) < 5 * np.sqrt(implied * (1 - implied) / 500) + 0.02


def test_where_the_model_is_right_the_oracle_is_its_formula():
    """Within 1%: the variance of a cut normal over n times that of Beta(1, 5), and 32,768 groups of rows (0.4%)."""
    found = study(equal, contrasts={"at one": {"Intercept": 1.0, "x": 1.0}}, truth={"x": 0.5, "at one": 0.5})
    cells = found.cells.set_index("term")
    of_errors = 0.05**2 * np.var(cut(np.random.default_rng(1), 4_000_000))
    half = stats.norm.isf(0.025) * np.sqrt(of_errors / (2000 * stats.beta(1, 5).var()))
    ordinary = cells["width"] / cells["width / ordinary"] / 2
    assert ordinary["x"] == pytest.approx(half, rel=0.02)
    centre = stats.beta(1, 5).mean()
    at_one = np.sqrt(of_errors * (1 + (1 - centre) ** 2 / stats.beta(1, 5).var()) / 2000)
    assert ordinary["at one"] == pytest.approx(stats.norm.isf(0.025) * at_one, rel=0.02)
    assert cells["width / oracle"].between(0.98, 1.05).all()
    assert (cells["MCSE of width / oracle"] < 0.01).all()


def test_none_is_the_population_s_own_truth():
    """A straight line through x^3: its best approximation, within five standard errors of 500 data sets."""
    x = np.random.default_rng(3).beta(1, 5, 4_000_000)
    best = np.cov(x, x**3)[0, 1] / np.var(x)
    found = study(bent, truth=None)
    cell = found.cells.set_index("term").loc["x"]
    assert abs(cell["truth"] - best) < 5 * cell["empirical SE"] / np.sqrt(500)
    assert found.check(rerun=False)["verdict"].str.contains("coverage below").all()
    assert found.plot_zip("x").get_xlabel()


def test_a_table_that_is_the_same_in_all_data_sets_has_no_sampling_variance():
    schema = dpi.Schema(g=dpi.Category(["a", "b"]))

    def fixed(rng, n):
        return {"g": np.array(["a", "b"], dtype=object)[(np.arange(n) % 4 == 0).astype(int)]}

    found = dpi.coverage_study(
        fixed,
        dpi.linear_queries("g", queries={"gap": [1, -1]}),
        schema=schema,
        truth={"gap": 200.0},
        n=400,
        privacy=dpi.ZCDP(0.1),
        replicates=200,
        seed=1,
        progress=False,
    )
    assert found.cells["width / oracle"].iloc[0] == pytest.approx(1.0)


def heavy(rng, n):
    return {"x": np.minimum(rng.gamma(0.3, 1.0, n), 10.0)}


@pytest.mark.parametrize(
    ("procedure", "least", "most"),
    [(dpi.mean("x"), 0.97, 1.03), (dpi.variance("x"), 0.9, 1.1), (dpi.expfam("x", family="normal"), 0.3, 0.8)],
)
def test_descriptions_know_their_population(procedure, least, most):
    """The spread of a gamma column, whose kurtosis is 23: a normal family's own formula is far too small for it."""
    schema = dpi.Schema(x=dpi.Real(0, 10))
    found = dpi.coverage_study(
        heavy, procedure, schema=schema, truth=None, n=3000, privacy=CLEAR, replicates=400, seed=4, progress=False
    )
    last = found.cells.iloc[-1]
    assert least < last["width / oracle"] < most
    implied = 2 * stats.norm.cdf(stats.norm.isf(0.025) * last["width / oracle"]) - 1
    assert abs(last["coverage"] - implied) < 5 * np.sqrt(0.25 / 400)
    empirical = last["empirical SE"] * stats.norm.isf(0.025)
    assert last["width"] / last["width / oracle"] / 2 == pytest.approx(empirical, rel=0.15)


def test_a_procedure_without_an_oracle_of_its_own_has_one(monkeypatch):
    options = {"privacy": dpi.ZCDP(0.5), "n": 1000, "replicates": 100}
    own = study(equal, **options).cells
    monkeypatch.delattr(OLS, "oracle")
    general = study(equal, **options).cells
    np.testing.assert_allclose(general["width / oracle"], own["width / oracle"], rtol=1e-3)
    assert general["kappa"].isna().all()


@pytest.mark.parametrize("generate", [equal, unequal])
def test_fits_one_by_one_are_compared_to_their_own_spread_without_noise(generate):
    """Least squares by iterations has robust errors: widths are the oracle's, within 4 standard errors of 13%."""
    cell = slope(generate, procedure=dpi.ols("y ~ x"), n=1000, replicates=30, truth=None, privacy=dpi.ZCDP(5.0))
    assert abs(cell["width / oracle"] - 1) < 4 * 0.13 + 0.05
    assert 0.03 < cell["MCSE of width / oracle"] < 0.25
    assert np.isnan(cell["kappa"])
    assert cell["coverage"] > 0.75


@dataclasses.dataclass(frozen=True, eq=False)
class Own(Procedure):
    """A user's procedure whose results say nothing of noise."""

    def stage(self, place, context, released):
        raise NotImplementedError

    def text(self, schema):
        raise NotImplementedError

    def fit(self, privacy):
        return _Told(float(np.mean(self.source._source.read(["x"], 0, 50)["x"])))


class _Told:
    flags = ()

    def __init__(self, value):
        self.params, self.bse, self.pvalues = (pd.Series({"x": one}) for one in (value, 1.0, 0.5))

    def conf_int(self, alpha):
        return pd.DataFrame([[-1.0, 2.0]], index=["x"])


def test_what_says_nothing_of_its_noise_has_no_oracle():
    cell = slope(equal, procedure=Own(), replicates=30, n=50)
    assert np.isnan(cell["width / oracle"])
    assert cell["coverage"] == 1.0


def test_the_replicates_decide_where_rows_do_not_tell():
    rows = Spread(np.array([1.0, 1.0, np.nan, 1.0, 1.0, 1.0]), np.full(6, 0.01))
    own = Spread(np.array([1.05, 2.0, 3.0, 0.0, np.nan, 1e6]), np.array([0.02, 0.05, 0.05, 0.0, np.nan, 0.9]))
    np.testing.assert_array_equal(chosen_spread(rows, own).variance, [1.0, 2.0, 3.0, 0.0, 1.0, 1.0])
    assert chosen_spread(None, own) is own


def test_the_error_of_a_spread_is_right():
    """Over 400 repeats of 200 normals the variances are spread as stated, within 15% (four standard errors)."""
    rng = np.random.default_rng(6)
    found = spread_of_replicates(rng.normal(size=(200, 400)))
    assert np.std(found.variance) == pytest.approx(np.sqrt(np.mean((found.error * found.variance) ** 2)), rel=0.15)
    assert np.isnan(spread_of_replicates(np.zeros((5, 2))).variance).all()

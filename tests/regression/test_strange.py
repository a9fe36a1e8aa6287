"""Strange rows, prices and bounds, each of which once broke a fit; see `validation/regression/strangest.py`."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

import dpinfer as dpi
from dpinfer.regression.clipping import Lengths, length_cuts
from dpinfer.regression.inference import _squared_tail
from validation.regression.strangest import MODELS, STORAGES, Strange, drawn, outcome

pytestmark = pytest.mark.filterwarnings("error")


def public(frame, schema, seed, **people):
    return dpi.PublicData(frame, schema, rng=np.random.default_rng(seed), **people)


def sound(results):
    ends = results.conf_int().to_numpy()
    assert np.isfinite(results.params).all()
    assert (ends[:, 0] <= ends[:, 1]).all()
    assert not np.isnan(results.pvalues).any()
    assert "nan" not in results.summary().as_text()


@pytest.mark.parametrize("price", [dpi.PureDP(500), dpi.GDP(1000)], ids=str)
@pytest.mark.parametrize("size", [0, 1, 10])
def test_degrees_of_freedom_where_products_of_scores_have_no_noise_to_speak_of(size, price):
    """Variances of 10^160 over a noise of 10^-150 overflowed when they were squared."""
    schema = dpi.Schema(x=dpi.Real(0, 1e-9), y=dpi.Real(-1e6, 1e6), c=dpi.Integer(0, 10_000_000))
    frame = pd.DataFrame({"x": np.zeros(size), "y": np.zeros(size), "c": np.zeros(size, dtype=int)})
    sound(dpi.ols("y ~ x", public(frame, schema, 1)).fit(price))
    sound(dpi.poisson("c ~ x", public(frame, schema, 1)).fit(price))


@pytest.mark.parametrize("target", ["population", "data"])
def test_variances_beside_a_direction_without_rows_are_not_negative(target):
    """No row had n = 3: the variance of its coefficient, 10^20 times as large, took that of the constant below 0."""
    schema = dpi.Schema(n=dpi.Integer(0, 10), p=dpi.Real(5, 6))
    frame = pd.DataFrame({"n": np.zeros(600, dtype=int), "p": np.random.default_rng(1).choice([5.0, 6.0], 600)})
    family = sm.families.Gamma(sm.families.links.Log())
    for seed in range(20):
        asked = dpi.glm("p ~ I(n == 3)", public(frame, schema, seed), family=family, target=target)
        sound(asked.fit(dpi.GDP(3000)))


@pytest.mark.parametrize("model", ["cloglog", "probit"])
@pytest.mark.parametrize("happened", [True, False])
def test_average_effects_where_one_response_alone_is_there(model, happened):
    """Beyond the ends of its table the weight of a complementary log-log Hessian was divided by 10^-300."""
    schema = dpi.Schema(x=dpi.Real(-1e6, 1e6), e=dpi.Boolean())
    for size in (2, 20):
        frame = pd.DataFrame({"x": np.linspace(-1e6, 1e6, size), "e": np.full(size, happened)})
        for seed in range(5):
            data = public(frame, schema, seed)
            link = sm.families.links.CLogLog() if model == "cloglog" else sm.families.links.Probit()
            results = dpi.glm("e ~ x", data, family=sm.families.Binomial(link)).fit(dpi.PureDP(20))
            effects = results.get_margeff()
            assert np.isfinite(effects.margeff).all()
            assert not np.isnan(effects.conf_int()).any()


@pytest.mark.parametrize("right", ["0 + minimum(x, 0) + u", "minimum(x, 0) * u", "0 + x + I(x**2)"])
@pytest.mark.parametrize("function", [dpi.ols, dpi.rlm, dpi.quantreg])
def test_values_that_lie_in_a_corner_of_their_bounds(function, right):
    """In the range that was found a column was 0 but for rounding, and its coordinates too long to be held."""
    schema = dpi.Schema(x=dpi.Real(-1e12, 1e12), u=dpi.Real(0, 1e6), y=dpi.Real(-5, 5))
    frame = pd.DataFrame({"x": np.full(20, 1e12), "u": np.zeros(20), "y": np.zeros(20)})
    for seed in range(3):
        sound(function(f"y ~ {right}", public(frame, schema, seed)).fit(dpi.GDP(1000)))


@pytest.mark.parametrize("size", [0, 7])
def test_iterations_without_rows_and_without_noise(size):
    """Each iteration stretched the coordinates of the last a thousandfold, until no frame could hold them."""
    schema = dpi.Schema(u=dpi.Real(0, 5), c=dpi.Integer(0, 10))
    frame = pd.DataFrame({"u": np.linspace(0, 5, size), "c": np.zeros(size, dtype=int), "id": np.arange(size)})
    for seed in range(8):
        data = public(frame, schema, seed, id="id", max_rows=2)
        sound(dpi.poisson("c ~ I(u / 1000000)", data).fit(dpi.PureDP(3000)))


@pytest.mark.parametrize("price", [dpi.ApproxDP(20, 1e-9), dpi.ApproxDP(28, 1e-4)], ids=str)
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_noise_that_no_grid_serves_is_refused_before_the_charge(price, neighbors):
    """What later stages ask for follows from released numbers: there such noise failed after the charge."""
    schema = dpi.Schema(x=dpi.Real(-1, 1), c=dpi.Integer(0, 100))
    ledger = dpi.Ledger.in_memory(price, neighbors=neighbors, currency="basic")
    data = dpi.PrivateData(schema.sample(100, np.random.default_rng(1)), schema, ledger)
    with pytest.raises(dpi.errors.PrivacyUnitError, match="smaller epsilon, or GDP or ZCDP"):
        dpi.poisson("c ~ x", data).fit(price)
    assert len(ledger.charges()) == 0
    assert dpi.poisson("c ~ x").explain(dpi.ApproxDP(12, 1e-9), schema=schema)


@pytest.mark.parametrize("model", ["quantreg", "poisson", "ols"])
def test_noise_that_is_too_large_for_later_stages_is_refused_before_the_charge(model):
    schema = dpi.Schema(x=dpi.Real(-1, 1), c=dpi.Integer(0, 100))
    served = charged = 0
    for epsilon in 10.0 ** np.arange(-5, -2.5, 0.1):
        ledger = dpi.Ledger.in_memory(dpi.PureDP(float(epsilon)), neighbors="replace_one")
        data = dpi.PrivateData(schema.sample(20, np.random.default_rng(1)), schema, ledger)
        try:
            getattr(dpi, model)("c ~ x", data).measure(dpi.PureDP(float(epsilon)))
            served += 1
        except dpi.errors.PrivacyUnitError:
            charged += len(ledger.charges())
    assert 5 < served < 23
    assert charged == 0


def test_a_score_interval_ends_where_its_search_does():
    """Twice the last step lay beyond the farthest value tried, and there the statistic was small again."""
    found = outcome(drawn(20261120, 6878))
    assert (found["outcome"], found["said"]) == ("fitted", "")


@pytest.mark.parametrize("shift", [50.0, 99.0, 101.0, 1e4, 1e9, 1e15])
@pytest.mark.parametrize("count", [1, 2, 6])
def test_tails_of_statistics_whose_bias_is_large(count, shift):
    """The series of a noncentral distribution overflowed, or had no end that one could wait for."""
    for freedom in (50.0, 1e8):
        unit = shift * freedom / (freedom - count + 1)
        found = [_squared_tail(share * unit, count, freedom, shift) for share in (0.0, 1e-12, 0.25, 1.0, 4.0, 1e3)]
        assert found[0] == pytest.approx(1)
        assert found[3] == pytest.approx(0.5, abs=0.2)
        assert found[4] < 0.01
        assert (np.diff(found) <= 1e-9).all()
    if shift < 1e5:
        near = stats.ncx2.sf(shift + 3 * np.sqrt(shift), count, shift)
        assert _squared_tail(shift + 3 * np.sqrt(shift), count, 1e8, shift) == pytest.approx(near, abs=1e-2)


def test_counts_of_lengths_that_no_unit_has_are_noise():
    """Laplace noise of 22 counts is now and then beyond four deviations: scores were clipped at 30 times any length."""
    cuts = length_cuts(1.0)
    counts = np.zeros(len(cuts) + 1)
    counts[:6] = 500.0
    plain = Lengths.read(counts, cuts, 3.0, 20.0)
    counts[-3:] = 40.0
    spiked = Lengths.read(counts, cuts, 3.0, 20.0)
    assert spiked.edge == plain.edge < 20.0
    assert Lengths.read(counts, cuts, 3.0).edge == cuts[-1]
    assert spiked.clip(4, 0.1, 0.1, final=True).length < 40.0


def test_random_fits_end_in_numbers_or_are_refused_from_public_facts():
    found = [outcome(drawn(2, place)) for place in range(40)]
    assert [one for one in found if one["outcome"] == "failed"] == []
    assert sum(one["outcome"] == "fitted" for one in found) > 20
    assert {one["data"] for one in found} == {"public", "private"}


def test_a_fit_is_drawn_from_its_place_alone():
    first, again = drawn(2, 5), drawn(2, 5)
    pd.testing.assert_frame_equal(first.frame, again.frame)
    assert (first.formula, first.options, first.privacy) == (again.formula, again.options, again.privacy)
    others = [drawn(2, place) for place in range(60)]
    assert {one.model for one in others} == set(MODELS)
    assert {one.storage for one in others} == set(STORAGES)


def test_an_error_of_some_rows_alone_is_a_failure(monkeypatch):
    asked, before, refused = drawn(2, 5), Strange.asked_of, []

    def refuse_once(self, data):
        if not refused:
            refused.append(data)
            raise dpi.errors.OptionError("rows", "these", "others")
        return before(self, data)

    monkeypatch.setattr(Strange, "asked_of", refuse_once)
    found = outcome(asked)
    assert (found["outcome"], found["kind"]) == ("failed", "refused for these rows alone")

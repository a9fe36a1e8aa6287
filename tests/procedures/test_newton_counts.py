"""Regressions of counts and positive numbers by noisy Newton rounds."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from dpinfer.numerics.count_laws import Gamma, NegativeBinomial, Poisson, Proportional
from dpinfer.procedures.newton_count_bins import cut_at, end_of, halves, most_rows, octaves, radius_at, reach_of
from dpinfer.procedures.newton_count_steps import count_cut_of
from dpinfer.procedures.newton_counts import CountCut, CountModel
from dpinfer.procedures.newton_estimates import estimates_of
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import FormulaError
from dpinfer.kernel.rows.rounds import RoundSum, whole_numbers
from dpinfer.kernel.stage import Context
from dpinfer.regression.question import Newton
from validation.regression.newton_draws import Drawer, Drawn

SCHEMA = dpi.Schema(x=dpi.Real(-1, 1), g=dpi.Boolean(), y=dpi.Integer(0, 60), p=dpi.Real(0, 400), e=dpi.Real(0.5, 4))
HUGE = dpi.ZCDP(1e9)


def rows_of(n: int = 6000, seed: int = 1, exposed: bool = False) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, g, e = rng.uniform(-1, 1, n), rng.random(n) < 0.3, rng.uniform(0.5, 4, n)
    mean = np.exp(0.4 + 0.7 * x - 0.5 * g) * (e if exposed else 1.0)
    return {"x": x, "g": g, "e": e, "y": np.minimum(rng.poisson(mean), 60.0), "p": mean * rng.gamma(4, 0.25, n)}


def drawer(question: Newton, privacy: object = HUGE, neighbors: str = "add_remove") -> Drawer:
    return Drawer(question, Context(SCHEMA, neighbors, privacy))


@pytest.mark.parametrize(
    ("model", "family", "response"),
    [
        ("poisson", sm.families.Poisson(), "y"),
        ("negativebinomial", sm.families.NegativeBinomial(alpha=0.5), "y"),
        ("gamma", sm.families.Gamma(sm.families.links.Log()), "p"),
    ],
)
@pytest.mark.parametrize("offset", [False, True])
def test_without_noise_it_is_the_quasi_likelihood(model: str, family: object, response: str, offset: bool) -> None:
    """At a huge price residuals are cut far out, and estimates are those of statsmodels but for what is cut."""
    cells = rows_of(exposed=offset)
    question = Newton(
        formula=f"{response} ~ x + g",
        model=model,
        parameter=0.5 if model == "negativebinomial" else None,
        exposure="e" if offset else None,
    )
    found = drawer(question).estimate(cells, np.random.default_rng(1))
    design = np.column_stack([np.ones(len(cells["x"])), cells["x"], cells["g"]]).astype(float)
    right = sm.GLM(cells[response], design, family=family, offset=np.log(cells["e"]) if offset else None)
    right = right.fit(cov_type="HC1")
    assert np.abs(found.params - right.params).max() < 0.2 * right.bse.max()
    errors = np.sqrt(np.diag(found.cov_sampling + found.cov_noise))
    assert errors == pytest.approx(right.bse, rel=0.1)


def test_an_offset_and_an_exposure_are_the_same() -> None:
    cells = rows_of(exposed=True)
    one = drawer(Newton(formula="y ~ x", model="poisson", exposure="e")).estimate(cells, np.random.default_rng(1))
    two = drawer(Newton(formula="y ~ x", model="poisson", offset="log(e)")).estimate(cells, np.random.default_rng(1))
    assert one.params == pytest.approx(two.params)


def test_what_cannot_be_bounded_is_refused_by_name() -> None:
    schema = dpi.Schema(x=dpi.Real(-1, 1), y=dpi.Real(-1, 5), e=dpi.Real(0, 2), z=dpi.Integer(0, 4))

    def refuse(match: str, **options: object) -> None:
        with pytest.raises(FormulaError, match=match):
            Newton(**{"formula": "z ~ x", "model": "poisson", **options}).check(schema, "add_remove")

    refuse("y.*negative", formula="y ~ x")
    refuse("e.*positive", exposure="e")
    refuse("log", offset="log(e)")


@pytest.mark.parametrize("privacy", [dpi.ZCDP(0.5), dpi.GDP(1.0), dpi.PureDP(2.0), dpi.ApproxDP(1.0, 1e-6)])
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_every_price_and_relation(privacy: object, neighbors: str) -> None:
    found = drawer(Newton(formula="y ~ x + g", model="poisson"), privacy, neighbors)
    estimates = found.estimate(rows_of(), np.random.default_rng(2))
    assert np.isfinite(estimates.params).all()
    assert np.abs(estimates.params - [0.4, 0.7, -0.5]).max() < 1.0


@pytest.mark.parametrize("model", ["poisson", "negativebinomial", "gamma"])
@pytest.mark.parametrize("formula", ["{} ~ x + g", "{} ~ 0 + x", "{} ~ 1"])
def test_no_noise_breaks_it(model: str, formula: str) -> None:
    """Any numbers in place of a release give estimates without NaN, and intervals."""
    rng = np.random.default_rng(3)
    question = Newton(formula=formula.format("p" if model == "gamma" else "y"), model=model)
    for rho, n in ((1e-4, 50), (0.5, 1), (0.5, 3), (1e-9, 500)):
        asked = drawer(question, dpi.ZCDP(rho))
        for _ in range(4):
            found = asked.estimate({name: one[:n] for name, one in rows_of(500).items()}, rng)
            _whole(found)
    asked = drawer(question, dpi.ZCDP(0.5))
    for scale in (1e-3, 1.0, 1e6):
        released: list[Drawn] = []
        for place in range(len(asked.plan.kinds)):
            stage = asked.plan.stage(place, tuple(released))
            size = len(stage.measure.rows.names)
            released.append(Drawn(scale * rng.standard_cauchy(size), np.ones(size), dict(stage.settings)))
        made = estimates_of(asked.plan, dict(zip(asked.plan.kinds, released, strict=True)))
        _whole(made)
        assert made.names == found.names


def _whole(found: object) -> None:
    width = len(found.params)
    assert np.isfinite(found.params).all()
    assert not np.isnan(found.intervals(np.eye(width), 0.05)).any()
    pvalues = found.contrast_pvalues(np.eye(width), np.zeros(width))
    assert ((pvalues >= 0) & (pvalues <= 1)).all()


@pytest.mark.parametrize("privacy", [dpi.ZCDP(0.5), dpi.PureDP(2.0)])
@pytest.mark.parametrize("model", ["poisson", "negativebinomial", "gamma"])
def test_no_row_pays_more_than_one(privacy: object, model: str) -> None:
    """Rows of all kinds, those at the ends of their bounds included, are kept in every round."""
    rng = np.random.default_rng(4)
    asked = drawer(Newton(formula=("p" if model == "gamma" else "y") + " ~ x + g", model=model), privacy)
    stages = asked.stages(rows_of(), np.random.default_rng(5))
    cells = {
        "x": rng.choice([-1, 1, 0.0, 0.3], 4000),
        "g": rng.random(4000) < 0.5,
        "e": np.ones(4000),
        "y": np.rint(60 * rng.random(4000) ** 4),
        "p": 400 * rng.random(4000) ** 6,
    }
    released = tuple(stages.values())
    for place in range(len(released)):
        rows = asked.plan.stage(place, released[:place]).measure.rows
        if not isinstance(rows, RoundSum):
            continue
        encoded, _ = rows.frame.features.encode({name: cells[name] for name in rows.frame.features.columns})
        kept = rows.integers(encoded)
        looked = rows.frame.look(encoded)
        for term, whole in zip(rows.terms, kept, strict=True):
            if term.kind != "outer":
                assert np.array_equal(whole, whole_numbers(term, looked))


def test_moments_of_cut_residuals() -> None:
    means = np.array([0.05, 0.7, 3.0, 20.0])
    counts = np.arange(4000)
    for law in (Poisson(), NegativeBinomial(0.8), Proportional(3.0), Proportional(2.0, 0.5)):
        deviation = np.sqrt(law.variance(means))
        found, product = law.cut(means, -1.3 * deviation, 2.1 * deviation, 1.0)
        for place, mean in enumerate(means):
            variance = float(law.variance(means[place : place + 1])[0])
            if isinstance(law, Poisson):
                chances = stats.poisson.pmf(counts, mean)
            else:
                chances = stats.nbinom.pmf(counts, mean**2 / (variance - mean), mean / variance)
            cut = np.clip(counts - mean, -1.3 * np.sqrt(variance), 2.1 * np.sqrt(variance))
            assert found[place] == pytest.approx(float(cut @ chances), abs=1e-8)
            assert product[place] == pytest.approx(float((cut * (counts - mean)) @ chances), rel=1e-6)
            squared = law.cut_square(means, -1.3 * deviation, 2.1 * deviation, 1.0)
            assert squared[place] == pytest.approx(float(cut**2 @ chances), rel=1e-6)
    spread, draws = 0.7, stats.gamma(1 / 0.49, scale=0.49 * 3.0)
    found, product = Gamma().cut(np.array([3.0]), np.array([-1.5]), np.array([2.5]), spread)
    assert found[0] == pytest.approx(draws.expect(lambda y: np.clip(y - 3, -1.5, 2.5)), abs=1e-6)
    assert product[0] == pytest.approx(draws.expect(lambda y: np.clip(y - 3, -1.5, 2.5) * (y - 3)), rel=1e-5)


def test_prices_add_up_to_one() -> None:
    model = CountModel.named("poisson", None)
    for last in (False, True):
        terms = model.terms(CountCut(2.0, 5.0), last=last)
        assert sum(term.price for term in terms) == pytest.approx(1.0)
        assert all(
            float(np.abs(term.curve.values).max()) <= 1.0 for term in terms if term.of != "linear" and term.curve
        )


def test_through_the_kernel() -> None:
    """What is asked publicly is what the drawer simulates."""
    frame = pd.DataFrame(rows_of(3000))
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(1))
    results = dpi.poisson("y ~ x + g", data).fit(dpi.ZCDP(1.0))
    assert np.abs(results.params - [0.4, 0.7, -0.5]).max() < 0.6
    assert "Poisson" in str(results.summary())


def test_a_dispersion_that_is_too_large_is_flagged() -> None:
    schema = dpi.Schema(x=dpi.Real(-1, 1), n=dpi.Integer(0, 60))
    rng = np.random.default_rng(1)
    frame = schema.sample(3000, rng)
    frame["n"] = np.minimum(rng.poisson(np.exp(0.3 + 0.5 * frame["x"])), 60)
    found = []
    for family in (sm.families.Poisson(), sm.families.NegativeBinomial(alpha=5.0)):
        data = dpi.PublicData(frame, schema, rng=np.random.default_rng(2))
        flags = dpi.glm("n ~ x", data, family=family).fit(dpi.ZCDP(1.0)).flags
        found.append(any("spread less than their law" in one for one in flags))
    assert found == [False, True]


def test_the_spread_and_the_centre_that_were_seen_reach_the_terms() -> None:
    """Expectations of cut residuals are those of laws that spread as the settings of the round say."""
    rng = np.random.default_rng(6)
    cells = rows_of(20_000)
    cells["y"] = np.minimum(rng.poisson(rng.gamma(np.exp(0.4 + 0.7 * cells["x"]) / 3, 3.0)), 60.0)
    asked = drawer(Newton(formula="y ~ x", model="poisson"), dpi.ZCDP(50.0))
    stages = asked.stages(cells, rng)
    for kind, last in (("first", False), ("second", True)):
        settings = stages[kind].settings
        cut = count_cut_of(settings)
        assert 1.7 < cut.spread < 3.0  # counts have 4 times the variance of a Poisson law, and half octaves are wide
        assert cut.least <= cut.spread <= cut.most
        assert abs(cut.centre - 0.4) < 0.2
        assert cut.width == pytest.approx(0.7 / np.sqrt(3), rel=0.2)
        score = asked.plan.model.terms(cut, last=last)[0]
        centre, _ = asked.plan.model.expected(cut)
        taken = np.asarray(score.center(np.log(asked.plan.model.means)))
        assert taken * (cut.low + np.abs(centre).max()) == pytest.approx(centre, rel=1e-6, abs=1e-9)
        for change in ({"spread": 1.0}, {"centre": cut.centre + 2.0}):
            other, _ = asked.plan.model.expected(replace(cut, **change))
            assert np.abs(other - centre).max() > 1e-3


@pytest.mark.parametrize("rows", [0, 3])
def test_a_near_empty_level_is_not_determined(rows: int) -> None:
    schema = dpi.Schema(x=dpi.Real(-1, 1), g=dpi.Category(["a", "b", "c"]), y=dpi.Integer(0, 60))
    rng = np.random.default_rng(7)
    levels = rng.integers(0, 2, 5000)
    levels[:rows] = 2
    x = rng.uniform(-1, 1, 5000)
    cells = {"x": x, "g": np.array(["a", "b", "c"])[levels], "y": np.minimum(rng.poisson(np.exp(0.3 + x)), 60.0)}
    asked = Drawer(Newton(formula="y ~ x + C(g)", model="poisson"), Context(schema, "add_remove", dpi.ZCDP(0.5)))
    found = asked.estimate(cells, rng)
    ends = found.intervals(np.eye(4), 0.05)
    empty = np.array([name == "C(g)[T.c]" for name in found.names])
    assert np.isinf(ends[empty]).all()
    assert np.isfinite(ends[~empty]).all()
    assert "C(g)[T.c]" in found.flags[0]


def test_few_rows_far_out_cannot_blow_up_a_step() -> None:
    """One row of 70 has a binary regressor: a Newton step from a noisy start would move its mean by a factor of 100."""
    rng = np.random.default_rng(8)
    asked = drawer(Newton(formula="y ~ x + g", model="poisson"), dpi.ZCDP(0.5))
    for _ in range(20):
        cells = rows_of(10_000)
        cells["g"] = rng.random(10_000) < 0.015
        cells["y"] = np.minimum(
            rng.poisson(rng.gamma(np.exp(0.9 + 0.5 * cells["x"] + 0.2 * cells["g"]) / 5, 5.0)), 60.0
        )
        found = asked.estimate(cells, rng)
        errors = np.sqrt(np.diag(found.cov_sampling + found.cov_noise))
        assert (np.abs(found.params - [0.9, 0.5, 0.2]) < 5 * errors).all()


def test_where_rows_and_residuals_are_cut() -> None:
    cuts = octaves(4)
    sizes = np.where(cuts < 10, 500.0, np.where(cuts < 100, 10.0, 0.0))
    edge = end_of(sizes, cuts, 1.0)
    assert edge is not None
    assert 100 <= edge < 150
    assert 10 <= most_rows(sizes, cuts, edge, 5000.0) <= edge
    assert end_of(np.zeros(5), cuts[:5], 1.0) is None
    folded = np.where(halves() < 8, 100.0, 0.0)
    near = cut_at(folded, 8.0, 1.0, 1e4, 100.0, 0.0, np.zeros_like)
    assert near == pytest.approx(16.0)  # noise is nothing: as far as twice what was seen
    few = [cut_at(folded, 8.0, 2.5, 1e4, precise, 1.0, np.zeros_like) for precise in (1.0, 3.0, 10.0)]
    assert few == sorted(few)
    assert few[0] == pytest.approx(2.5)
    assert radius_at(4.0, 8.0, 2.5, 100.0, 1.0) == pytest.approx(8.0)
    assert radius_at(4.0, 8.0, 2.5, 1.0, 0.0) == pytest.approx(4.0)
    assert reach_of(np.array([900.0, 100.0]), 0.01) == 1.0
    assert reach_of(np.array([900.0, 100.0]), 100.0) == pytest.approx(3.0)


def test_prices_that_show_too_little_are_flagged() -> None:
    asked = drawer(Newton(formula="y ~ x + g", model="poisson"), dpi.ZCDP(0.01))
    found = asked.estimate(rows_of(1000), np.random.default_rng(9))
    assert any("hardly seen" in one and "x" in one for one in found.flags)
    rich = drawer(Newton(formula="y ~ x + g", model="poisson"), dpi.ZCDP(5.0))
    assert rich.estimate(rows_of(6000), np.random.default_rng(9)).flags == ()

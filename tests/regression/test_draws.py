"""The studies of regressions by iterations draw what the kernel releases: the same sums, noise of the same scale."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import statsmodels.api as sm

import dpinfer as dpi
from dpinfer.kernel.price import amounts
from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.stage import Context
from validation.regression.newton_draws import Drawer, encoded

SCHEMA = dpi.Schema(
    x=dpi.Real(0, 50), y=dpi.Boolean(), g=dpi.Category(["a", "b", "c"]), k=dpi.Real(-20, 20), m=dpi.Integer(0, 40)
)
QUESTIONS = {
    "ols": dpi.ols("k ~ x + g"),
    "logit": dpi.logit("y ~ x + g"),
    "ranged": dpi.probit("y ~ x", ranges=True),
    "margins": dpi.logit("y ~ x + g", margins=True),
    "equal spread": dpi.ols("k ~ x", cov_type="nonrobust"),
    "huber": dpi.rlm("k ~ x"),
    "quantile": dpi.quantreg("k ~ x", q=0.25),
}


def rows(size: int = 2000):
    rng = np.random.default_rng(3)
    frame = SCHEMA.sample(size, rng)
    frame["k"] = np.clip(0.1 * frame["x"] - 2 + rng.standard_t(3, size), -20, 20)
    frame["y"] = rng.random(size) < 1 / (1 + np.exp(2 - frame["x"] / 12))
    return frame


SETTINGS = list(product(("add_remove", "replace_one"), (dpi.ZCDP(0.1), dpi.PureDP(2.0), dpi.GDP(1.0))))
TURNS = [(name, *SETTINGS[(place + turn) % 6]) for place, name in enumerate(QUESTIONS) for turn in (0, 2)]


@pytest.mark.parametrize(("name", "neighbors", "price"), TURNS)
def test_a_study_draws_what_the_kernel_releases(name, price, neighbors):
    frame = rows()
    far = []
    for seed in range(6):
        data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(seed), neighbors=neighbors)
        question = QUESTIONS[name]
        release = question.bind(data).measure(price)
        drawer = Drawer(question, Context(SCHEMA, neighbors, price, data.nobs, public=True))
        cells = {column: frame[column].to_numpy() for column in frame}
        prices = amounts(price, drawer.slots)
        for place, stage in enumerate(release.stages):
            asked = question.stage(place, drawer.context, release.stages[:place])
            assert asked.settings == stage.settings
            counted, weights = asked.measure.rows, asked.measure.weights or (1.0,) * len(asked.measure.rows.parts)
            summed = drawer._exact(counted, encoded(counted.frame.features, cells))
            scales = drawer._scales(counted, np.array(weights), prices[place])
            laplace = isinstance(price, dpi.PureDP)
            variances = np.array(stage.noise_variances)
            if laplace:  # that of whole steps is a sixth of a step less than that of real numbers
                variances += np.array(stage.steps) ** 2 / 6
            np.testing.assert_allclose(scales**2 * (2 if laplace else 1), variances, rtol=1e-3)
            far.append((stage.array - summed) / np.sqrt(stage.noise_variances))
    distances = np.concatenate(far)
    assert np.abs(distances).max() < (12 if isinstance(price, dpi.PureDP) else 6.5)
    assert abs(distances.std() - 1) < 0.2


@pytest.mark.parametrize(
    "question", [dpi.ols("k ~ x + g"), dpi.logit("y ~ x"), dpi.ols("k ~ x + EntityEffects"), dpi.rlm("k ~ x")], ids=str
)
def test_rows_of_people_are_summed_as_the_kernel_sums_them(question):
    frame, rng = rows(9000), np.random.default_rng(8)
    owned = np.repeat(np.arange(9000), rng.integers(1, 7, 9000))[:9000]
    cells = {name: frame[name].to_numpy() for name in frame}
    drawer = Drawer(question, Context(SCHEMA.with_people("who", 6), "add_remove", dpi.ZCDP(2.0)))
    released = tuple(drawer.stages(cells, rng, owned).values())
    for place in range(len(released)):
        asked = question.stage(place, drawer.context, released[:place]).measure.rows
        mine = drawer._exact(asked, encoded(asked.frame.features, cells, owned), owned)
        theirs = asked.finish(asked.add(Batch(cells, len(frame), persons=owned))[0].tolist())
        np.testing.assert_allclose(mine * asked.units, np.array(theirs, dtype=float), rtol=1e-12)
        assert np.abs(mine).max() > 100


BOUNDED = {
    "ols": dpi.ols("p ~ x + g"),
    "logit": dpi.logit("y ~ x + g"),
    "probit": dpi.probit("y ~ x + g"),
    "cloglog": dpi.glm("y ~ x + g", family=sm.families.Binomial(sm.families.links.CLogLog())),
    "poisson": dpi.poisson("m ~ x + g", offset="k"),
    "negative binomial": dpi.glm("m ~ x + g", family=sm.families.NegativeBinomial(alpha=0.5)),
    "gamma": dpi.glm("p ~ x + g", family=sm.families.Gamma(sm.families.links.Log())),
}


def looks(drawer, frame, rng):
    """Yield, of four runs, each stage that looks at lengths: kind, stage, start, coordinates, and what rows become."""
    for _ in range(4):
        stages = drawer.stages(frame, rng)
        start = drawer.plan.begun(stages["start"])
        for kind in {"counts", "recounts", "second"} & stages.keys():
            settings = stages[kind].settings
            whiten = np.array(settings["whiten"])
            rows, _ = drawer.plan._at(start, np.array(settings["point"]), whiten)
            yield kind, stages[kind], start, whiten, rows, rows.look(encoded(rows.features, frame))


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("price", [dpi.ZCDP(0.02), dpi.PureDP(1.0)])
def test_no_score_and_no_row_is_longer_than_public_facts_allow(name, price):
    """Rows at the corners of the bounds, at points that noise has led far away: what is allowed is nearly reached."""
    rng, schema = np.random.default_rng(5), dpi.Schema({**SCHEMA, "p": dpi.Real(0.5, 9)})
    size = 3000
    frame = {
        "x": rng.choice([0.0, 50.0], size), "g": rng.choice([*"abc"], size), "k": rng.choice([-1.0, 1.0], size),
        "y": rng.random(size) < 0.5, "m": rng.choice([0, 1, 40], size), "p": rng.choice([0.5, 9.0], size),
    }  # fmt: skip
    drawer, nearest = Drawer(BOUNDED[name], Context(schema, "add_remove", price)), 0.0
    plan = drawer.plan
    for kind, stage, start, whiten, _, seen in looks(drawer, frame, rng):
        lengths = np.linalg.norm(seen.z, 1 if plan.norm == "l1" else 2, axis=0)
        scores = lengths * np.abs(seen.residual)
        squares = (lengths * (1.0 if seen.lift is None else seen.lift)) ** 2
        if kind == "second":
            longest, largest = (one(stage, start, whiten) for one in (plan._largest_score, plan._largest_size))
            nearest = max(nearest, scores.max() / longest)
        else:
            longest = plan.lengths(stage, start).farthest
            largest = plan.sizes(stage, start).farthest if plan.norm == "l2" else np.inf
        assert scores.max() <= longest * (1 + 1e-5)
        assert squares.max() <= largest * (1 + 1e-5)
    assert nearest > 0.05


@pytest.mark.parametrize("question", [dpi.mnlogit("z ~ x + g"), dpi.ordered("z ~ x + g")], ids=["mnlogit", "ordered"])
@pytest.mark.parametrize("price", [dpi.ZCDP(0.02), dpi.PureDP(1.0)])
def test_no_score_and_no_hessian_of_levels_is_larger_than_public_facts_allow(question, price):
    schema = dpi.Schema(x=dpi.Real(-4, 4), g=dpi.Category([*"uv"]), z=dpi.Category([*"pqrs"]))
    rng, drawer = np.random.default_rng(5), Drawer(question, Context(schema, "add_remove", price))
    frame = {"x": rng.choice([-4.0, 4.0], 3000), "g": rng.choice([*"uv"], 3000), "z": rng.choice([*"pqrs"], 3000)}
    plan, nearest = drawer.plan, np.zeros(2)
    for _, stage, start, whiten, rows, seen in looks(drawer, frame, rng):
        scores = np.linalg.norm(rows.once(seen).z, 1 if plan.norm == "l1" else 2, axis=0)
        allowed = [one(stage, start, whiten) for one in (plan._largest_score, plan._largest_size)]
        nearest = np.maximum(nearest, [scores.max() / allowed[0], seen.size.max() / allowed[1]])
    assert (nearest <= 1 + 1e-5).all()
    assert (nearest > 0.05).all()

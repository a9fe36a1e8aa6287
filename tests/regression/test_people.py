"""Regressions by Newton rounds where people have several rows: clustered by person, without a factor of their rows."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.regression.question import Newton
from validation.regression.newton_draws import Drawer

MOST = 4
VAST = dpi.ZCDP(1e9)
SCHEMAS = {
    "ols": dpi.Schema(x=dpi.Real(-1, 1), u=dpi.Real(-1, 1), y=dpi.Real(-8, 8)),
    "logit": dpi.Schema(x=dpi.Real(-1, 1), u=dpi.Real(-1, 1), y=dpi.Boolean()),
}
FORMULA = "y ~ x + u"


def people(kind, size=600, seed=1):
    """Rows of people, of whom each has 1 to 4, with a random intercept, in any order."""
    rng = np.random.default_rng(seed)
    owned = np.repeat(np.arange(size), rng.integers(1, MOST + 1, size))
    n = len(owned)
    x, u = rng.uniform(-1, 1, n), rng.uniform(-1, 1, size)[owned]
    eta = 0.3 + 0.8 * x - 0.6 * u + 0.7 * rng.normal(size=size)[owned]
    y = eta + 0.7 * rng.normal(size=n) if kind == "ols" else rng.random(n) < 1 / (1 + np.exp(-eta))
    return pd.DataFrame({"x": x, "u": u, "y": y, "id": owned}).sample(frac=1, random_state=2)


def asked(kind, frame, neighbors="add_remove", seed=3, **options):
    rng = np.random.default_rng(seed)
    data = dpi.PublicData(frame, SCHEMAS[kind], rng=rng, id="id", max_rows=MOST, neighbors=neighbors)
    return getattr(dpi, kind)(FORMULA, data, **options)


def clustered(kind, frame):
    whole = frame.assign(y=frame["y"].astype(float))
    fitted = smf.ols(FORMULA, whole) if kind == "ols" else smf.glm(FORMULA, whole, family=sm.families.Binomial())
    return fitted.fit(cov_type="cluster", cov_kwds={"groups": whole["id"]})


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("kind", SCHEMAS)
def test_with_a_vast_budget_it_is_the_fit_clustered_by_person(kind, neighbors):
    frame = people(kind)
    private, plain = asked(kind, frame, neighbors).fit(VAST), clustered(kind, frame)
    np.testing.assert_allclose((private.params - plain.params) / plain.bse, 0, atol=5e-3)
    # people over people less coefficients, where statsmodels has people over people less one
    small = np.sqrt(600 / 597 * 599 / 600 * (len(frame) - 3) / (len(frame) - 1))
    np.testing.assert_allclose(private.bse / plain.bse, small, rtol=2e-3)
    assert private.nobs == pytest.approx(len(frame), abs=0.1)
    assert any("clustered by person" in note for note in private.notes)
    assert not any("were cut" in flag for flag in private.flags)


@pytest.mark.parametrize("kind", SCHEMAS)
def test_rows_that_are_repeated_add_no_precision(kind):
    once = people(kind).drop_duplicates("id")
    four = pd.concat([once] * MOST)
    narrow, wide = asked(kind, once).fit(VAST), asked(kind, four).fit(VAST)
    np.testing.assert_allclose(wide.params, narrow.params, atol=1e-3)
    np.testing.assert_allclose(wide.bse, narrow.bse, rtol=5e-3)


@pytest.mark.parametrize("price", [dpi.ZCDP(0.5), dpi.PureDP(1.0)], ids=str)
@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_person_of_the_most_rows_pays_no_more_than_one(kind, price):
    frame = people(kind, 50).sort_values("id")
    cells = {name: frame[name].to_numpy() for name in ("x", "u", "y")}
    drawer = Drawer(
        Newton(formula=FORMULA, model=kind), Context(SCHEMAS[kind].with_people("id", MOST), "add_remove", price)
    )
    stages = drawer.stages(cells, np.random.default_rng(1), frame["id"].to_numpy())
    asked = drawer.question.stage(len(stages) - 1, drawer.context, tuple(stages.values())[:-1]).measure.rows
    power = 1 if isinstance(price, dpi.PureDP) else 2
    paid = 0.0
    for term in asked.terms:
        length = MOST if term.cut is None else term.cut ** (2 if term.kind == "outer" else 1)
        if term.kind == "matrix" and power == 1:
            length *= asked.frame.ratio  # to which products of a row are shortened
        paid += term.price * length**power
    assert paid <= 1 + 1e-9

"""Regressions of counts and positive numbers by noisy Newton rounds."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import dpinfer as dpi
from dpinfer.errors import FormulaError
from dpinfer.kernel.stage import Context
from dpinfer.regression.question import Newton
from validation.regression.newton_draws import Drawer

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


def test_through_the_kernel() -> None:
    """What is asked publicly is what the drawer simulates."""
    frame = pd.DataFrame(rows_of(3000))
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(1))
    results = dpi.poisson("y ~ x + g", data).fit(dpi.ZCDP(1.0))
    assert np.abs(results.params - [0.4, 0.7, -0.5]).max() < 0.6
    assert "Poisson" in str(results.summary())


@pytest.mark.parametrize("rows", [0, 3])
def test_a_near_empty_level_has_a_long_interval_and_a_flag(rows: int) -> None:
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
    assert np.ptp(ends[empty]) > 20 * np.ptp(ends[~empty], axis=1).max()
    assert np.isfinite(ends[~empty]).all()
    assert "C(g)[T.c]" in found.flags[0]
    by_score = found.with_method("score").intervals(np.eye(4), 0.05)
    assert np.isinf(by_score[empty]).all()

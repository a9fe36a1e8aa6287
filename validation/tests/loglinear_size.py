"""Size of tests of log-linear models of noisy tables: sparse cells, loud noise; and power beside the ordinary tests."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from scipy import stats

import dpinfer as dpi
from dpinfer.privacy import NEIGHBORS
from dpinfer.tables.loglinear_inference import nested
from validation.common.leaves import DRAWS, LEVELS, rejections, size_rules
from validation.common.outputs import lines, scatter
from validation.common.study import Drawn, Study
from validation.tests.loglinear_designs import EVEN, PEAK, RARE, THREE, Design

LOUD, QUIET, PURE = dpi.ZCDP(0.005), dpi.ZCDP(0.5), dpi.PureDP(1.0)
SETTINGS = ((100, QUIET), (100, PURE), (1000, QUIET), (1000, LOUD), (1000, PURE), (10_000, LOUD))
SHARES = {"even": EVEN, "rare levels": RARE, "one large cell": PEAK}
TESTS = {
    "independence": ("a + b + c", None),
    "one interaction": ("a + b + c", "a * b + c"),
    "conditional independence": ("a + b + c + a:c", "a + b + c + a:c + b:c"),
    "no interaction of three": ("a * b + b * c + a * c", None),
}
EFFECTS = (0.0, 0.15, 0.3, 0.45, 0.6)


def test_of(name: str, shares: np.ndarray, n: int, price: Any, neighbors: str, counts: np.ndarray, seed: Any) -> tuple:
    """The test, and noisy tables (R, d)."""
    small, large = TESTS[name]
    design = Design(name, THREE, shares, small)
    cells = design.cells(n, price, neighbors, counts, seed)
    model, values, _ = design.model(cells)
    larger = None if large is None else design.model(cells, large)[0].design
    return nested(model.design, larger, model.noise, model.nobs), values


def draw(cell: tuple[str, str, int, Any, str], rng: np.random.Generator, replicates: int) -> Drawn:
    """Rejections at both levels where the hypothesis holds, and whether noise hides a fitted count."""
    test, population, n, price, neighbors = cell
    counts = rng.multinomial(n, SHARES[population], size=replicates)
    model, values = test_of(test, SHARES[population], n, price, neighbors, counts, int(rng.integers(2**31)))
    return {"rejected": rejections(model, values, rng), "hidden": model.hidden(values)}


def summary(_: tuple, drawn: Drawn) -> dict:
    """Sizes at both levels."""
    rates = zip(LEVELS, drawn["rejected"].mean(axis=0), strict=True)
    return {**{f"size at {level:g}": rate for level, rate in rates}, "hidden": drawn["hidden"].mean()}


def draw_power(cell: tuple[float, int, Any], rng: np.random.Generator, replicates: int) -> Drawn:
    """Rejections where the first two factors depend on each other, and those of Pearson's test of exact counts."""
    effect, n, price = cell
    table = RARE.reshape(THREE).copy()
    table[1, 1:] *= np.exp(effect)
    shares = (table / table.sum()).ravel()
    counts = rng.multinomial(n, shares, size=replicates)
    model, values = test_of("one interaction", shares, n, price, "add_remove", counts, int(rng.integers(2**31)))
    margin = counts.reshape(-1, *THREE).sum(axis=3)
    expected = margin.sum(axis=2)[:, :, None] * margin.sum(axis=1)[:, None, :] / n
    with np.errstate(invalid="ignore", divide="ignore"):
        pearson = np.nansum((margin - expected) ** 2 / expected, axis=(1, 2))
    return {"power": rejections(model, values, rng)[:, 0], "without privacy": pearson > stats.chi2.isf(0.05, 2)}


def cells() -> list[tuple[str, str, int, Any, str]]:
    """Every test, population and setting, relations in turns."""
    grid = enumerate(product(TESTS, SHARES, SETTINGS))
    return [(*one, *setting, NEIGHBORS[(place + place // 6) % 2]) for place, (*one, setting) in grid]


STUDY = (
    Study(
        "loglinear_size", cells, draw, summary,
        size_rules("largest size at {level:g}: tests of log-linear models",
                   "four tests, three populations, n 100 to 10,000, three budgets, both relations"),
        axes=lambda cell: {"test": cell[0], "population": cell[1], "n": cell[2], "price": str(cell[3]),
                           "neighbors": cell[4]},
        figure=scatter("n", {f"size at {level:g}": level for level in LEVELS}, "test"),
        notes=(f"{DRAWS} draws behind each p-value; `hidden` is the share of tables in which a fitted count is small "
               f"or "
               "hidden by noise, so that three fits are tried.",),
    ),
    Study("loglinear_power", [*product(EFFECTS, (2000,), (dpi.ZCDP(0.05), dpi.ZCDP(0.005)))], draw_power, quick=10,
          axes=lambda cell: {"log odds ratio": cell[0], "n": cell[1], "price": str(cell[2])},
          figure=lambda table: lines(table, "price", "log odds ratio", {"power": "o-", "without privacy": "k--"}),
          notes=("Two factors of three, with rare levels.",)),
)  # fmt: skip

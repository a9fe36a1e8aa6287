"""Power of the chi-squared tests on noisy counts, and what earlier statistics lose against the projected one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from scipy import stats

import dpinfer as dpi
from dpinfer.statistics.noise import CountNoise
from dpinfer.tables.chi_squared_inference import STATISTICS, GoodnessOfFit, Independence
from validation.common.leaves import noise_at
from validation.common.outputs import Options, lines
from validation.common.rules import Claim
from validation.common.study import Drawn, Study

LEVEL = 0.05
KNOWN_FROM = 10_000
"""Replicates that the known powers are taken to come from: they have a Monte Carlo error too."""
NULL_DRAWS = 5
"""Draws under the hypothesis for every replicate under the alternative."""
CURVE = (500, 1000, 2000, 5000, 10_000, 20_000, 40_000)

EVEN = np.full(4, 0.25)
ZIGZAG = 0.01 * np.array([1.0, -1.0, -1.0, 1.0])
STEEP = np.array([0.9, 0.05, 0.03, 0.02])
TAIL = np.array([0.6, 0.25, 0.1, 0.04, 0.01])
MANY = np.concatenate([np.full(5, 0.1), np.full(45, 0.5 / 45)])
SPREAD = np.concatenate([0.008 * np.array([1.0, -1.0, 1.0, -1.0, 0.0]), np.zeros(45)])


@dataclass(frozen=True)
class Point:
    """One known power: what is tested, where, and the value that is known or required."""

    name: str
    null: np.ndarray
    shift: np.ndarray
    n: int
    rho: float
    kind: str
    known: float
    independence: bool = False


POINTS = (
    *(
        Point("goodness of fit, uniform d = 4", EVEN, ZIGZAG, n, 0.00125, "projected", known)
        for n, known in ((1000, 0.075), (5000, 0.434), (10_000, 0.846))
    ),
    Point("goodness of fit, (.9, .05, .03, .02), largest +.01", STEEP, np.array([0.01, *[-0.01 / 3] * 3]), 10_000,
          0.005, "projected", 0.771),
    Point("goodness of fit, (.6, .25, .1, .04, .01), smallest two +-.005", TAIL,
          np.array([0, 0, 0, 0.005, -0.005]), 10_000, 0.005, "pearson", 0.899),
    Point("independence, uniform 2x2", EVEN, ZIGZAG, 1000, 0.005, "projected", 0.151, True),
    Point("independence, uniform 2x2", EVEN, ZIGZAG, 5000, 0.00125, "projected", 0.609, True),
)  # fmt: skip


def model_of(point: Point, kind: str) -> GoodnessOfFit | Independence:
    """The test that a point is about."""
    noise = noise_at(dpi.ZCDP(point.rho), "replace_one")
    return Independence((2, 2), noise, point.n, kind) if point.independence else GoodnessOfFit(
        point.null, noise, point.n, kind
    )  # fmt: skip


def tables(n: int, cells: np.ndarray, noise: CountNoise, size: int, rng: np.random.Generator) -> np.ndarray:
    """Noisy counts (size, d)."""
    return rng.multinomial(n, cells, size=size) + noise.rvs((size, cells.size), rng)


def draw(point: Point, rng: np.random.Generator, replicates: int) -> Drawn:
    """Statistics under the hypothesis and under the alternative, and p-values of the test on the rows."""
    noise = noise_at(dpi.ZCDP(point.rho), "replace_one")
    null = tables(point.n, point.null, noise, NULL_DRAWS * replicates, rng)
    moved = tables(point.n, point.null + point.shift, noise, replicates, rng)
    exact = rng.multinomial(point.n, point.null + point.shift, size=replicates).astype(float)
    found = {"ordinary": _ordinary(point, exact)}
    for kind in STATISTICS:
        statistic = model_of(point, kind).statistic
        found[kind] = np.column_stack([statistic(moved), statistic(null).reshape(replicates, -1)])
    return found


def beyond(found: np.ndarray) -> np.ndarray:
    """Whether statistics under the alternative, the first column, are above the quantile of the others."""
    return found[:, 0] > np.quantile(found[:, 1:], 1 - LEVEL)


def summary(point: Point, drawn: Drawn) -> dict:
    """Power with the null simulated, with its limit, and of both statistics."""
    model = model_of(point, "projected")
    limit, count = stats.chi2.isf(LEVEL, model.dof), len(drawn["ordinary"])
    length = noncentrality(point, noise_at(dpi.ZCDP(point.rho), "replace_one"))
    return {
        "projected": beyond(drawn["projected"]).mean(),
        "projected, asymptotic": np.mean(drawn["projected"][:, 0] > limit),
        "pearson": beyond(drawn["pearson"]).mean(),
        "without privacy": np.mean(drawn["ordinary"] <= LEVEL),
        "limit": stats.ncx2.sf(limit, model.dof, length), "known": point.known, "of": point.kind,
        "error": np.sqrt(point.known * (1 - point.known) * (1.2 / count + 1 / KNOWN_FROM)),
    }  # fmt: skip


def noncentrality(point: Point, noise: CountNoise) -> float:
    """Of the projected statistic's chi-squared limit: the length of the shift that the margins leave."""
    size, d = point.n, point.null.size
    cov = size * (np.diag(point.null) - np.outer(point.null, point.null)) + noise.variance * np.eye(d)
    moved = size * (point.shift - point.shift.mean())
    if point.independence:
        table = moved.reshape(2, 2)
        moved = (table - table.mean(axis=0) - table.mean(axis=1)[:, None] + table.mean()).ravel()
    return float(moved @ np.linalg.solve(cov, moved))


def _ordinary(point: Point, counts: np.ndarray) -> np.ndarray:
    if not point.independence:
        expected = point.n * point.null
        return stats.chi2.sf(((counts - expected) ** 2 / expected).sum(axis=1), point.null.size - 1)
    table = counts.reshape(-1, 2, 2)
    expected = table.sum(axis=2, keepdims=True) * table.sum(axis=1, keepdims=True) / point.n
    return stats.chi2.sf(((table - expected) ** 2 / expected).sum(axis=(1, 2)), 1)


LOSSES = (
    ("uniform, d = 4", EVEN, ZIGZAG, 0.00125),
    ("(.9, .05, .03, .02), largest +.01", STEEP, np.array([0.01, *[-0.01 / 3] * 3]), 0.005),
    ("d = 50, half in 5 cells, these +-.008", MANY, SPREAD, 0.005),
    ("(.6, .25, .1, .04, .01), smallest two +-.005", TAIL, np.array([0, 0, 0, 0.005, -0.005]), 0.005),
)


def draw_losses(cell: tuple[tuple, int], rng: np.random.Generator, replicates: int) -> Drawn:
    """Three statistics under the hypothesis and under the alternative."""
    (_, cells, shift, rho), n = cell
    noise = noise_at(dpi.ZCDP(rho), "replace_one")
    whole = np.linalg.inv(n * (np.diag(cells) - np.outer(cells, cells)) + noise.variance * np.eye(cells.size))
    statistics = {
        "projected": GoodnessOfFit(cells, noise, n).statistic,
        "Pearson, simulated null": GoodnessOfFit(cells, noise, n, "pearson").statistic,
        "unprojected": lambda values: np.einsum("ri,ij,rj->r", values - n * cells, whole, values - n * cells),
    }
    null = tables(n, cells, noise, NULL_DRAWS * replicates, rng)
    moved = tables(n, cells + shift, noise, replicates, rng)
    return {name: np.column_stack([of(moved), of(null).reshape(replicates, -1)]) for name, of in statistics.items()}


def lost(_: tuple, drawn: Drawn) -> list[dict]:
    """Power of each statistic, and what it loses against the projected one."""
    powers = {name: float(beyond(found).mean()) for name, found in drawn.items()}
    return [{"statistic": name, "power": power, "lost against projected": powers["projected"] - power}
            for name, power in powers.items()]  # fmt: skip


def claims(table: pd.DataFrame, _: Options) -> list[Claim]:
    """Judge every known power."""
    return [
        Claim(f"power at .05 of the {row['of']} statistic; {row['known']:g} known",
              f"{row['design']}, n = {row['n']:,}, rho = {row['rho']:g}", f"{row[row['of']]:.4f}",
              row[row["of"]] >= row["known"] - 3 * row["error"], error=f"{row['error']:.4f}")
        for row in table.to_dict("records")
    ]  # fmt: skip


STUDY = (
    Study("chisquare_power", POINTS, draw, summary, also=claims, quick=7,
          axes=lambda point: {"design": point.name, "n": point.n, "rho": point.rho},
          notes=(f"Level {LEVEL:g}, replace_one with public n; the null's quantile from {NULL_DRAWS} times as many "
                 f"draws. "
                 "`error` is the Monte Carlo standard error of the difference to the known value, itself taken to be "
                 f"from {KNOWN_FROM:,} replicates; `limit` is the power of the projected statistic from its noncentral "
                 f"limit.",)),
    Study("chisquare_power_lost", [*product(LOSSES, CURVE)], draw_losses, lost, by=("statistic",),
          axes=lambda cell: {"design": cell[0][0], "rho": cell[0][3], "n": cell[1]},
          figure=lambda table: lines(table, "design", "n", {"power": "k-", "lost against projected": "o-"},
                                     color="statistic", log=True),
          notes=("Power at level .05 of three statistics with simulated nulls: unprojected weighs all d directions by "
                 "the full covariance, the noisy total among them. A negative loss is a gain over the projected "
                 "statistic.",)),
)  # fmt: skip

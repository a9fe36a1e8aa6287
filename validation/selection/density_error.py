"""Histogram densities: error of chosen bins over that of the best ones, rate of convergence, coverage of intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import integrate, stats

import dpinfer as dpi
from dpinfer.distributions.bins import DensityEstimates, density_intervals, projected
from dpinfer.distributions.density import CELLS, WIDTHS, BinGrid, density
from dpinfer.kernel.price import PricedStage
from validation.common.outputs import Options, lines, write_table
from validation.common.rules import Claim, Rule
from validation.common.stages import release_of
from validation.common.study import Drawn, Study

Array = NDArray[np.float64]


SCHEMA = dpi.Schema(x=dpi.Real(0, 1))
SIZES = (1_000, 10_000, 100_000, 1_000_000)
PRICES = (dpi.PureDP(1.0), dpi.ZCDP(0.005), dpi.ZCDP(0.5))
LAPLACE = (dpi.PureDP(0.1), dpi.PureDP(1.0))
LEVEL = 0.05
REFUTED = 3.72
"""Monte Carlo errors beyond which a claim is refuted at level 1e-4."""

FALLING = "epsilon = n^(-1/3)"
GRID = sorted({*range(1, 101), *np.rint(np.geomspace(100, 3840, 125)).astype(int).tolist()})
"""Fixed numbers of bins: all up to 100, then steps of 3%."""

EXACT = "steps at tenths"
"""The design that some few equal bins hold exactly."""

CANDIDATES = [CELLS // width for width in WIDTHS if CELLS % width == 0]
"""Numbers of bins that may be chosen."""

CHOSEN_ROWS = (1_000, 100_000)


@dataclass(frozen=True)
class Design:
    """A density on [0, 1] by its distribution function."""

    name: str
    cdf: Callable[[Array], Array]
    square: float

    def shares(self, bins: int) -> Array:
        """Probabilities of equal bins."""
        return np.diff(self.cdf(np.linspace(0.0, 1.0, bins + 1)))

    def error(self, bins: int, n: int, noise: float) -> float:
        """Expected integrated squared error of the histogram whose counts have noise of this variance.

        To first order in the noise of the number of rows, by which counts are divided.
        """
        p = self.shares(bins)
        sampling = n * (p * (1 - p)).sum()
        spread = noise * (bins - 2 + bins * (p**2).sum())
        return float(self.square - bins * (p**2).sum() + bins * (sampling + spread) / n**2)

    def best(self, n: int, noise: float) -> tuple[int, float]:
        """Return the best fixed number of bins, and its error."""
        errors = {bins: self.error(bins, n, noise) for bins in GRID}
        bins = min(errors, key=lambda k: errors[k])
        return bins, errors[bins]


def _mixture(x: Array) -> Array:
    parts = [stats.norm.cdf(x, centre, 0.08) for centre in (0.3, 0.7)]
    ends = [stats.norm.cdf([0.0, 1.0], centre, 0.08) for centre in (0.3, 0.7)]
    low, high = 0.5 * (ends[0] + ends[1])
    return (0.5 * (parts[0] + parts[1]) - low) / (high - low)


def _mixture_square() -> float:
    low, high = 0.5 * sum(stats.norm.cdf([0.0, 1.0], centre, 0.08) for centre in (0.3, 0.7))
    return float(
        integrate.quad(lambda x: (0.5 * sum(stats.norm.pdf(x, c, 0.08) for c in (0.3, 0.7)) / (high - low)) ** 2, 0, 1)[
            0
        ]
    )


def _steps(name: str, edges: tuple[float, ...], shares: tuple[float, ...]) -> Design:
    cut, mass = np.array(edges), np.array(shares)
    heights = mass / np.diff(cut)
    return Design(name, partial(np.interp, xp=cut, fp=np.cumsum([0.0, *mass])), float((heights * mass).sum()))


@dataclass(frozen=True)
class Cell:
    """A design, a number of rows, a price, and the path of prices that it is on or which bins are looked at."""

    design: Design
    n: int
    price: dpi.PureDP | dpi.ZCDP
    path: str


POINTS = (0.02, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.98)
DESIGNS = (
    Design("beta(2, 5)", stats.beta(2, 5).cdf, float(integrate.quad(lambda x: stats.beta.pdf(x, 2, 5) ** 2, 0, 1)[0])),
    Design("bimodal", _mixture, _mixture_square()),
    _steps("steps anywhere", (0.0, 0.1812, 0.4567, 0.7193, 1.0), (0.1, 0.5, 0.3, 0.1)),
    _steps(EXACT, (0.0, 0.2, 0.5, 0.6, 1.0), (0.1, 0.45, 0.25, 0.2)),
)


def count_noise(price: dpi.PureDP | dpi.ZCDP) -> float:
    """Noise variance of a count at the whole price."""
    measured = density("x", bins=10).measurement(price, schema=SCHEMA, neighbors="add_remove")
    return float(measured.law.variances[0]) * measured.steps[0] ** 2


@cache
def asked_of(price: Any) -> tuple[Any, BinGrid]:
    """What is measured at a price, and what bins may be."""
    return density("x").measurement(price, schema=SCHEMA, neighbors="add_remove"), BinGrid(SCHEMA, "x")


def chosen_bins(cell: Cell, rng: np.random.Generator) -> tuple[int, DensityEstimates]:
    """Draw rows, and release them by the mechanism itself: bins, and their density."""
    measured, grid = asked_of(cell.price)
    last, rows = measured.stages[-1], rng.multinomial(cell.n, cell.design.shares(CELLS))
    noise = float(last.law.variances[0]) * last.steps[0] ** 2
    counted = release_of(density("x"), measured, partial(_in_bins, rows), rng).stages[-1]
    noisy, wide = counted.array, int(counted.settings["width"])
    width = grid.merged_width(noisy, wide, nobs=float(noisy.sum()), noise=noise)
    bins = CELLS // width
    parts, edges = np.full(bins, width // wide), np.linspace(0, 1, bins + 1)
    return bins, DensityEstimates(noisy.reshape(1, bins, -1).sum(axis=2), edges, noise, last.law.family == "laplace",
                                  merged=parts)  # fmt: skip


def _in_bins(rows: NDArray[np.int64], priced: PricedStage) -> list[int]:
    """Count rows of cells in the bins of a stage."""
    return [int(one) for one in rows.reshape(len(priced.names), -1).sum(axis=1)]


def draw(cell: Cell, rng: np.random.Generator, replicates: int) -> Drawn:
    """Numbers of chosen bins, and errors of the density in them and of the projected one."""
    rows = []
    for _ in range(replicates):
        bins, found = chosen_bins(cell, rng)
        p = cell.design.shares(bins)
        errors = [float((cell.design.square - 2 * f @ p + (f**2).sum(axis=1) / bins)[0])
                  for f in (found.density, projected(found.density, found.widths))]  # fmt: skip
        rows.append((bins, *errors))
    return {"found": np.array(rows)}


def summary(cell: Cell, drawn: Drawn) -> dict:
    """Compare the error of chosen bins with that of the best fixed number at the same price."""
    (bins, raw, moved), noise = drawn["found"].T, count_noise(cell.price)
    best, least = cell.design.best(cell.n, noise)
    public, without = cell.design.best(cell.n, 0.0)
    ratio, error = raw.mean() / least, raw.std() / np.sqrt(len(raw)) / least
    among = raw.mean() / min(cell.design.error(k, cell.n, noise) for k in CANDIDATES)
    return {
        "best bins": best, "median bins": int(np.median(bins)), "error": raw.mean(), "error of the best": least,
        "ratio": ratio, "error of ratio": error, "ratio to the candidates": among,
        "error of ratio to the candidates": error * among / ratio, "ratio error": error, "projected": moved.mean(),
        "best bins without noise": public, "error without noise": without,
    }  # fmt: skip


def paths() -> list[tuple[str, list[tuple[int, dpi.PureDP | dpi.ZCDP]]]]:
    """Fixed prices, and the smallest epsilon for which the rate is claimed: n^(-1/3)."""
    fixed = [(str(price), [(n, price) for n in SIZES]) for price in PRICES]
    falling = [(n, dpi.PureDP(float(f"{n ** (-1 / 3):.6g}"))) for n in SIZES]
    return [*fixed, (FALLING, falling)]


def slopes(table: pd.DataFrame) -> pd.DataFrame:
    """Fit rates over all sizes of every design and path."""
    rows = []
    for (design, path), part in table.groupby(["design", "path"], sort=False):
        x = np.log(part["n"].to_numpy(dtype=float))
        x -= x.mean()
        fitted = {
            name: float(x @ np.log(part[column]) / (x @ x)) if len(part) > 1 else np.nan
            for name, column in (
                ("chosen bins", "error"),
                ("best bins", "error of the best"),
                ("without noise", "error without noise"),
            )
        }
        error = np.sqrt((x**2 * (part["ratio error"] / part["ratio"]) ** 2).sum()) / max(x @ x, 1e-300)
        rows.append({"design": design, "path": path, **fitted, "its error": float(error)})
    return pd.DataFrame(rows)


def draw_coverage(cell: Cell, rng: np.random.Generator, replicates: int) -> Drawn:
    """Whether intervals hold: of every bin in the best fixed number, or at `POINTS` of the bins chosen around them."""
    if cell.path == "chosen":
        held = []
        for _ in range(replicates):
            bins, found = chosen_bins(cell, rng)
            place = (np.array(POINTS) * bins).astype(int)
            held.append(covers(density_intervals(found, LEVEL)[0, place], cell.design.shares(bins)[place] * bins))
        return {"held": np.array(held)}
    bins = cell.design.best(cell.n, count_noise(cell.price))[0]
    measured = density("x", bins=bins).measurement(cell.price, schema=SCHEMA, neighbors="add_remove")
    p, step = cell.design.shares(bins), np.asarray(measured.steps)
    counts = rng.multinomial(cell.n, p, size=replicates) + measured.law.rvs(replicates, rng) * step
    noise = float(measured.law.variances[0]) * step[0] ** 2
    found = DensityEstimates(counts, np.linspace(0, 1, bins + 1), noise, measured.law.family == "laplace")
    return {"held": covers(density_intervals(found, LEVEL), p * bins)}


def covers(ends: Array, truth: Array) -> NDArray[np.bool_]:
    """Whether intervals (..., 2) hold densities."""
    return (ends[..., 0] <= truth) & (truth <= ends[..., 1])


def coverage(_: Cell, drawn: Drawn) -> dict:
    """The bin that is covered least, and the mean."""
    found = drawn["held"].mean(axis=0)
    return {"intervals": len(found), "least coverage": found.min(), "mean coverage": found.mean()}


def errors_of() -> list[Cell]:
    """Every design, path and size."""
    return [Cell(design, n, price, path) for design in DESIGNS for path, cells in paths() for n, price in cells]


def covered() -> list[Cell]:
    """Best fixed numbers of bins everywhere; chosen ones of smooth designs with Laplace noise."""
    fixed = [Cell(*one, "best fixed") for one in product(DESIGNS, SIZES, PRICES)]
    fixed += [Cell(*one, LAPLACE[0], "best fixed") for one in product(DESIGNS, SIZES[:1])]
    return fixed + [Cell(*one, "chosen") for one in product(DESIGNS[:2], CHOSEN_ROWS, LAPLACE)]


def clear(table: pd.DataFrame) -> pd.Series:
    """Cells in which noise at most doubles the error of the best bins."""
    return table["error of the best"] <= 2 * table["error without noise"]


SMOOTH = [design.name for design in DESIGNS[:2]]


def judged(what: str, column: str, *designs: str, large: bool = False) -> Rule:
    """Return a rule of the errors of chosen bins in some designs; of many rows at large prices alone."""

    def where(table: pd.DataFrame) -> pd.Series:
        quiet = (table["path"] != str(PRICES[1])) & (table["n"] >= CHOSEN_ROWS[1])
        return table["design"].isin(designs) & clear(table) & (table["path"] != FALLING) & (quiet | (not large))

    return Rule(f"error of chosen bins at most 1.25 times that of {what}", column, "value", 1.25, where=where)


def rate_claims(table: pd.DataFrame, options: Options) -> list[Claim]:
    """Exact for best bins; for chosen ones not refuted."""
    rates = slopes(table)
    told = ("Slopes of log error on log n, over n = 1e3, 1e4, 1e5, 1e6. At the fixed budgets noise fades as n grows, "
            "so that errors fall faster than without noise; at epsilon = n^(-1/3) noise and sampling keep their "
            f"proportion where bins have a bias. {EXACT.capitalize()} have none in ten bins: noise then fades there "
            "too.")  # fmt: skip
    write_table(rates, "density_error_slopes", options, [told])
    falling, bent = rates["path"] == FALLING, rates["design"] != EXACT
    smooth = rates["design"].isin(SMOOTH)
    best, chosen = rates["best bins"] - rates["without noise"], rates["chosen bins"] - rates["without noise"]
    near = chosen - REFUTED * rates["its error"]
    cases = (
        ("within .05 of that without noise, best bins, epsilon = n^(-1/3)", "designs", falling & bent, best.abs(),
         best.abs()),
        ("at most .05 above that without noise, best bins, every budget", "paths", best.notna(), best, best),
        ("within .05 of that without noise, chosen bins, smooth, epsilon = n^(-1/3)", "paths", falling & smooth,
         chosen.abs(),
         chosen.abs() - REFUTED * rates["its error"]),
        ("at most .05 above that without noise, chosen bins, fixed budgets", "paths", ~falling, chosen, near),
    )  # fmt: skip
    return [
        Claim(f"slope {what}", f"{which.sum()} {kind}", f"{gap[which].max():.3f}", not (least[which] > 0.05).any(),
              error="" if least is gap else f"{rates.loc[gap[which].idxmax(), 'its error']:.3f}")
        for what, kind, which, gap, least in cases if gap[which].notna().any()
    ]  # fmt: skip


STUDY = (
    Study(
        "density_error", errors_of, draw, summary,
        (
            judged("the best fixed number: smooth, noise at most doubles its error", "ratio", *SMOOTH),
            judged("the best fixed number: steps at tenths, n >= 1e5, PureDP(1) and ZCDP(.5)", "ratio", EXACT,
                   large=True),
            judged("the best candidate: steps anywhere, n >= 1e5, PureDP(1) and ZCDP(.5)", "ratio to the candidates",
                   "steps anywhere", large=True),
        ),
        axes=lambda cell: {"design": cell.design.name, "path": cell.path, "privacy": str(cell.price), "n": cell.n},
        early=False, most=250, quick=20, also=rate_claims,
        figure=lambda table: lines(table, "design", "n", {"error": "o-", "error of the best": ":"}, color="path",
                                   log=True),
        notes=("Every release is by the mechanism itself. The best is the least exact expected error of a fixed number "
               "of bins (every one up to 100, then steps of 3%) at the whole budget, that of the candidates the least "
               "among the numbers that may be chosen. Samples have a fixed size n, which is confidential "
               "(add_remove).",),
    ),
    Study(
        "density_error_coverage", covered, draw_coverage, coverage,
        (Rule("least pointwise coverage of 95% intervals, {part} bins", "least coverage", split="bins",
              quantities="intervals"),),
        axes=lambda cell: {"bins": cell.path, "design": cell.design.name, "privacy": str(cell.price), "n": cell.n},
        notes=("Coverage of 95% intervals for the mean density in a bin, of each bin in the best fixed number, or of "
               f"the bins chosen around {len(POINTS)} points.",),
    ),
)  # fmt: skip

"""Histogram densities: error of chosen bins over that of the best ones, rate of convergence, coverage of intervals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from matplotlib.figure import Figure
from scipy import integrate, stats

import dpinfer as dpi
from dpinfer.inference.density import DensityEstimates, density_intervals, projected
from dpinfer.mechanisms.density import noisy_stages
from dpinfer.models.density import density
from dpinfer.schema.density_rows import CELLS
from validation.common import Claim, Options, options, write_figure, write_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dpinfer.release import Measurement

    Array = NDArray[np.float64]

SCHEMA = dpi.Schema(x=dpi.Real(0, 1))
SIZES = (1_000, 10_000, 100_000, 1_000_000)
PRICES = (dpi.PureDP(0.1), dpi.PureDP(1.0), dpi.ZCDP(0.005), dpi.ZCDP(0.5))
LEVEL, LEAST = 0.05, 1e-4
GRID = sorted({*range(1, 101), *np.rint(np.geomspace(100, 3840, 125)).astype(int).tolist()})
"""Fixed numbers of bins: all up to 100, then steps of 3%."""

CHOSEN_ROWS = (1_000, 100_000)
AUTO_PART = 0.1
"""Share of the replicates of coverage that the errors of chosen bins get."""


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


DESIGNS = (
    Design("beta(2, 5)", stats.beta(2, 5).cdf, float(integrate.quad(lambda x: stats.beta.pdf(x, 2, 5) ** 2, 0, 1)[0])),
    Design("bimodal", _mixture, _mixture_square()),
    _steps("steps anywhere", (0.0, 0.1812, 0.4567, 0.7193, 1.0), (0.1, 0.5, 0.3, 0.1)),
    _steps("steps at tenths", (0.0, 0.2, 0.5, 0.6, 1.0), (0.1, 0.45, 0.25, 0.2)),
)


def count_noise(price: dpi.PureDP | dpi.ZCDP) -> float:
    """Noise variance of a count at the whole price."""
    measured = density("x", bins=10).measurement(price, schema=SCHEMA, neighbors="add_remove")
    return float(measured.law.variances[0]) * measured.steps[0] ** 2


@dataclass(frozen=True)
class Drawn:
    """Releases in bins that were chosen: numbers of bins (R,), noisy counts of each, noise variance of a count."""

    bins: NDArray[np.intp]
    counts: list[Array]
    noise: float
    laplace: bool


def draw_chosen(design: Design, n: int, price: dpi.PureDP | dpi.ZCDP, replicates: int, seed: list[int]) -> Drawn:
    """Draw rows, and release them by the mechanism itself."""
    rng = np.random.default_rng(seed)
    measured: Measurement = density("x").measurement(price, schema=SCHEMA, neighbors="add_remove")
    step, cells = measured.steps[0], design.shares(CELLS)
    bins, counts = [], []
    for _ in range(replicates):
        rows = rng.multinomial(n, cells).tolist()
        found = noisy_stages(measured, rows, [int(one) for one in measured.law.rvs(1, rng)[0]], None)
        bins.append(CELLS // found.width)
        counts.append(np.array(found.counts[-bins[-1] :], dtype=np.float64) * step)
    noise = float(measured.law.variances[-1]) * step**2
    return Drawn(np.array(bins), counts, noise, measured.law.family == "laplace")


def estimates_of(drawn: Drawn, bins: int) -> DensityEstimates:
    """Estimates of all releases with so many bins."""
    counts = np.stack([one for one in drawn.counts if len(one) == bins])
    return DensityEstimates(counts, np.full(bins, 1 / bins), drawn.noise, drawn.laplace)


def error_cell(design: Design, n: int, price: dpi.PureDP | dpi.ZCDP, path: str, replicates: int, seed: int) -> dict:
    """Compare the error of chosen bins with that of the best fixed number at the same price."""
    drawn = draw_chosen(design, n, price, replicates, [seed, n, round(1e6 * next(iter(_values(price))))])
    raw, moved = [], []
    for bins in np.unique(drawn.bins):
        found, p = estimates_of(drawn, int(bins)), design.shares(int(bins))
        for errors, f in ((raw, found.density), (moved, projected(found.density, found.widths))):
            errors.extend((design.square - 2 * f @ p + (f**2).sum(axis=1) / bins).tolist())
    best, least = design.best(n, count_noise(price))
    public, without = design.best(n, 0.0)
    mean = float(np.mean(raw))
    return {
        "design": design.name,
        "path": path,
        "privacy": str(price),
        "n": n,
        "best bins": best,
        "median bins": int(np.median(drawn.bins)),
        "error": mean,
        "error of the best": least,
        "ratio": mean / least,
        "ratio error": float(np.std(raw) / np.sqrt(len(raw))) / least,
        "projected": float(np.mean(moved)),
        "best bins without noise": public,
        "error without noise": without,
    }


def _values(price: dpi.PureDP | dpi.ZCDP) -> tuple[float, ...]:
    return (price.epsilon,) if isinstance(price, dpi.PureDP) else (price.rho,)


def paths() -> list[tuple[str, list[tuple[int, dpi.PureDP | dpi.ZCDP]]]]:
    """Fixed prices, and the smallest epsilon for which the rate is claimed: n^(-1/3)."""
    fixed = [(str(price), [(n, price) for n in SIZES]) for price in PRICES]
    falling = [(n, dpi.PureDP(float(f"{n ** (-1 / 3):.6g}"))) for n in SIZES]
    return [*fixed, ("epsilon = n^(-1/3)", falling)]


def slope(sizes: Array, errors: Array) -> float:
    """Slope of the logarithm of the error on that of the number of rows."""
    return float(np.polyfit(np.log(sizes.astype(float)), np.log(errors), 1)[0])


def slopes(table: pd.DataFrame) -> pd.DataFrame:
    """Fit rates over all sizes of every design and path."""
    return pd.DataFrame(
        [
            {
                "design": design,
                "path": path,
                "chosen bins": slope(part["n"], part["error"]),
                "best bins": slope(part["n"], part["error of the best"]),
                "without noise": slope(part["n"], part["error without noise"]),
            }
            for (design, path), part in table.groupby(["design", "path"], sort=False)
        ]
    )


def fixed_coverage(design: Design, n: int, price: dpi.PureDP | dpi.ZCDP, replicates: int, seed: list[int]) -> Array:
    """Coverage of the interval of every bin (k,), in the best fixed number of bins."""
    rng = np.random.default_rng(seed)
    bins = design.best(n, count_noise(price))[0]
    measured = density("x", bins=bins).measurement(price, schema=SCHEMA, neighbors="add_remove")
    p, step = design.shares(bins), np.asarray(measured.steps)
    covered = np.zeros(bins)
    for start in range(0, replicates, 2_500):
        size = min(2_500, replicates - start)
        counts = rng.multinomial(n, p, size=size) + measured.law.rvs(size, rng) * step
        noise = float(measured.law.variances[0]) * step[0] ** 2
        found = DensityEstimates(counts, np.full(bins, 1 / bins), noise, measured.law.family == "laplace")
        ends = density_intervals(found, LEVEL)
        covered += ((ends[..., 0] <= p * bins) & (p * bins <= ends[..., 1])).sum(axis=0)
    return covered / replicates


POINTS = (0.02, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.98)


def chosen_coverage(design: Design, n: int, price: dpi.PureDP | dpi.ZCDP, replicates: int, seed: list[int]) -> Array:
    """Coverage at `POINTS` of the interval of the bin that was chosen around each, for the mean density in it."""
    drawn = draw_chosen(design, n, price, replicates, seed)
    covered = np.zeros(len(POINTS))
    for bins in np.unique(drawn.bins):
        ends = density_intervals(estimates_of(drawn, int(bins)), LEVEL)
        place = (np.array(POINTS) * bins).astype(int)
        truth = design.shares(int(bins))[place] * bins
        covered += ((ends[:, place, 0] <= truth) & (truth <= ends[:, place, 1])).sum(axis=0)
    return covered / replicates


def coverage_cell(
    how: str, design: Design, n: int, price: dpi.PureDP | dpi.ZCDP, replicates: int, seed: int
) -> list[dict]:
    """Judge one cell: the bins that fail get one rerun at ten times the replicates."""
    measure = fixed_coverage if how == "best fixed" else chosen_coverage
    least = least_coverage(replicates)
    key = [seed, n, DESIGNS.index(design), PRICES.index(price)]
    first = measure(design, n, price, replicates, key)
    kept = first
    rows = [_covered("first", how, design, n, price, first, replicates)]
    if (first < least).any():
        again = measure(design, n, price, 10 * replicates, [*key, 1])
        kept = np.where(first < least, again, first)
        rows.append(_covered("rerun", how, design, n, price, again[first < least], 10 * replicates))
    held = bool((kept >= least).all())
    return [{**row, "held": held} for row in rows]


def _covered(
    run: str, how: str, design: Design, n: int, price: dpi.PureDP | dpi.ZCDP, covered: Array, replicates: int
) -> dict:
    return {
        "bins": how,
        "design": design.name,
        "privacy": str(price),
        "n": n,
        "intervals": len(covered),
        "least coverage": float(covered.min()),
        "mean coverage": float(covered.mean()),
        "replicates": replicates,
        "run": run,
    }


def least_coverage(replicates: int) -> float:
    """Coverage below which 95% is refuted at level 1e-4."""
    return float(stats.binom.ppf(LEAST, replicates, 1 - LEVEL)) / replicates


def figure_of(table: pd.DataFrame) -> Figure:
    """Error against the number of rows, and its ratio to that of the best bins."""
    figure = Figure(figsize=(11.5, 6.4), layout="constrained")
    panels = figure.subplots(2, len(DESIGNS), sharex=True, sharey="row")
    colors = dict(zip(table["path"].unique(), ("C3", "C0", "C1", "C2", "C4"), strict=False))
    for place, design in enumerate(DESIGNS):
        mine = table[table["design"] == design.name]
        above, below = panels[:, place]
        for path, part in mine.groupby("path", sort=False):
            above.loglog(part["n"], part["error"], "o-", ms=4, color=colors[path], label=path)
            above.loglog(part["n"], part["error of the best"], ":", color=colors[path])
            below.semilogx(part["n"], part["ratio"], "o-", ms=4, color=colors[path])
        first = mine[mine["path"] == mine["path"].iloc[0]]
        above.loglog(first["n"], first["error without noise"], "k--", lw=1, label="best bins, no noise")
        above.set_title(design.name, fontsize="medium")
        below.axhline(1.25, color="firebrick", lw=0.8, ls="--")
        below.set(xlabel="rows", yscale="log")
    panels[0, 0].set_ylabel("integrated squared error\n(dotted: best fixed bins)")
    panels[1, 0].set_ylabel("error over that of the best bins")
    panels[0, -1].legend(fontsize=7, frameon=False)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Simulate, write tables and figure, and state the claims."""
    parallel = Parallel(n_jobs=arguments.jobs)
    part = max(int(arguments.replicates * AUTO_PART), 20)
    table = pd.DataFrame(
        parallel(
            delayed(error_cell)(design, n, price, path, part, arguments.seed)
            for design in DESIGNS
            for path, cells in paths()
            for n, price in cells
        )
    )
    rates = slopes(table)
    fixed = [("best fixed", design, n, price) for design in DESIGNS for price in PRICES for n in SIZES]
    chosen = [("chosen", design, n, price) for design in DESIGNS[:2] for price in PRICES[:2] for n in CHOSEN_ROWS]
    found = parallel(delayed(coverage_cell)(*cell, arguments.replicates, arguments.seed) for cell in [*fixed, *chosen])
    coverage = pd.DataFrame([row for rows in found for row in rows])
    _write(table, rates, coverage, arguments, part)
    return _claims(table, rates, coverage, arguments)


def _write(
    table: pd.DataFrame, rates: pd.DataFrame, coverage: pd.DataFrame, arguments: Options, replicates: int
) -> None:
    notes = [
        f"{replicates:,} replicates a cell, each released by the mechanism itself. The best is the least exact "
        "expected error of a fixed number of bins (every one up to 100, then steps of 3%) at the whole price; a row is in a "
        "sample of fixed size n, which is confidential (add_remove)."
    ]
    write_table(table, "density_error", arguments, notes)
    told = ["Slopes of log error on log n, over n = 1e3, 1e4, 1e5, 1e6."]
    write_table(rates, "density_error_slopes", arguments, told)
    least = least_coverage(arguments.replicates)
    judged = [
        f"Coverage of 95% intervals for the mean density in a bin, of each bin in the best fixed number, or of the "
        f"bins chosen around {len(POINTS)} points; at least {least:.4f}. Bins that fail are run again at ten times the "
        "replicates."
    ]
    write_table(coverage, "density_error_coverage", arguments, judged)
    write_figure(figure_of(table), "density_error", arguments)


def _claims(table: pd.DataFrame, rates: pd.DataFrame, coverage: pd.DataFrame, arguments: Options) -> list[Claim]:
    claims = []
    smooth = [design.name for design in DESIGNS[:2]]
    for kind, mine in (("smooth", table["design"].isin(smooth)), ("steps", ~table["design"].isin(smooth))):
        for path, cells in table[mine].groupby("path", sort=False):
            worst = cells.loc[cells["ratio"].idxmax()]
            claims.append(
                Claim(
                    f"error of chosen bins at most 1.25 times that of the best fixed number: {kind}, {path}",
                    f"{len(cells)} cells; worst {worst['design']}, n = {worst['n']:,}",
                    "",
                    f"{worst['ratio']:.2f}",
                    f"{worst['ratio error']:.2f}",
                    worst["ratio"] <= 1.25,
                )
            )
    at_edge = rates[rates["path"] == "epsilon = n^(-1/3)"]
    away = (at_edge["best bins"] - at_edge["without noise"]).abs().max()
    claims.append(
        Claim("slope within .05 of that without noise, best bins, epsilon = n^(-1/3)", f"{len(at_edge)} designs", "",
              f"{away:.3f}", "", away <= 0.05)
    )  # fmt: skip
    slower = (rates["best bins"] - rates["without noise"]).max()
    claims.append(
        Claim("slope at most .05 above that without noise, best bins, every price", f"{len(rates)} paths", "",
              f"{slower:.3f}", "", slower <= 0.05)
    )  # fmt: skip
    for what, chosen in (("within .05 of", at_edge), ("at most .05 above", rates)):
        gap = chosen["chosen bins"] - chosen["without noise"]
        value = float(gap.abs().max() if what.startswith("within") else gap.max())
        claims.append(Claim(f"slope {what} that without noise, chosen bins", f"{len(chosen)} paths", "",
                            f"{value:.3f}", "", value <= 0.05))  # fmt: skip
    last = coverage.drop_duplicates(["bins", "design", "privacy", "n"], keep="last")
    error = float(np.sqrt(LEVEL * (1 - LEVEL) / arguments.replicates))
    for how, cells in last.groupby("bins", sort=False):
        claims.append(Claim(f"least pointwise coverage of 95% intervals, {how} bins",
                            f"{int(cells['intervals'].sum()):,} intervals", "", f"{cells['least coverage'].min():.4f}",
                            f"{error:.4f}", bool(cells["held"].all())))  # fmt: skip
    return claims


if __name__ == "__main__":
    for claim in run(options("density_error", __doc__, replicates=5000)):
        print("held  " if claim.held else "FAILED", claim.what, claim.design, claim.ours, claim.error)

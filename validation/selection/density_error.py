"""Histogram densities: error of chosen bins over that of the best ones, rate of convergence, coverage of intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import integrate, stats

import dpinfer as dpi
from dpinfer.distributions.bins import DensityEstimates, density_intervals, projected
from dpinfer.distributions.density import CELLS, WIDTHS, BinGrid, density
from dpinfer.kernel.price import PricedStage
from validation.common.cells import kept_all
from validation.common.claims import RULES, Claim, least_coverage
from validation.common.outputs import Options, new_figure, write_figure, write_table
from validation.common.stages import release_of

Array = NDArray[np.float64]


SCHEMA = dpi.Schema(x=dpi.Real(0, 1))
SIZES = (1_000, 10_000, 100_000, 1_000_000)
PRICES = (dpi.PureDP(0.1), dpi.PureDP(1.0), dpi.ZCDP(0.005), dpi.ZCDP(0.5))
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
    _steps(EXACT, (0.0, 0.2, 0.5, 0.6, 1.0), (0.1, 0.45, 0.25, 0.2)),
)


def count_noise(price: dpi.PureDP | dpi.ZCDP) -> float:
    """Noise variance of a count at the whole price."""
    measured = density("x", bins=10).measurement(price, schema=SCHEMA, neighbors="add_remove")
    return float(measured.law.variances[0]) * measured.steps[0] ** 2


@dataclass(frozen=True)
class Drawn:
    """Releases in bins that were chosen: of each how many bins it has, and how many measured ones each holds."""

    bins: NDArray[np.intp]
    merged: NDArray[np.intp]
    counts: list[Array]
    noise: float
    laplace: bool

    def groups(self) -> Iterator[tuple[int, DensityEstimates]]:
        """Releases with the same bins together."""
        for bins, merged in np.unique(np.column_stack([self.bins, self.merged]), axis=0).tolist():
            mine = np.flatnonzero((self.bins == bins) & (self.merged == merged))
            counts = np.stack([self.counts[place] for place in mine])
            edges, parts = np.linspace(0, 1, bins + 1), np.full(bins, merged)
            yield bins, DensityEstimates(counts, edges, self.noise, self.laplace, merged=parts)


def draw_chosen(design: Design, n: int, price: dpi.PureDP | dpi.ZCDP, replicates: int, seed: list[int]) -> Drawn:
    """Draw rows, and release them by the mechanism itself."""
    rng = np.random.default_rng(seed)
    asked, grid, cells = density("x"), BinGrid(SCHEMA, "x"), design.shares(CELLS)
    measured = asked.measurement(price, schema=SCHEMA, neighbors="add_remove")
    last = measured.stages[-1]
    noise = float(last.law.variances[0]) * last.steps[0] ** 2
    bins, merged, counts = [], [], []
    for _ in range(replicates):
        rows = rng.multinomial(n, cells)
        release = release_of(asked, measured, partial(_in_bins, rows), rng)
        counted = release.stages[-1]
        noisy, wide = counted.array, int(counted.settings["width"])
        width = grid.merged_width(noisy, wide, nobs=float(noisy.sum()), noise=noise)
        bins.append(CELLS // width)
        merged.append(width // wide)
        counts.append(noisy.reshape(bins[-1], -1).sum(axis=1))
    return Drawn(np.array(bins), np.array(merged), counts, noise, last.law.family == "laplace")


def _in_bins(rows: NDArray[np.int64], priced: PricedStage) -> list[int]:
    """Count rows of cells in the bins of a stage."""
    return [int(one) for one in rows.reshape(len(priced.names), -1).sum(axis=1)]


def error_cell(design: Design, n: int, price: dpi.PureDP | dpi.ZCDP, path: str, replicates: int, seed: int) -> dict:
    """Compare the error of chosen bins with that of the best fixed number at the same price."""
    drawn = draw_chosen(design, n, price, replicates, [seed, n, round(1e6 * next(iter(_values(price))))])
    raw, moved = [], []
    for bins, found in drawn.groups():
        p = design.shares(bins)
        for errors, f in ((raw, found.density), (moved, projected(found.density, found.widths))):
            errors.extend((design.square - 2 * f @ p + (f**2).sum(axis=1) / bins).tolist())
    noise = count_noise(price)
    best, least = design.best(n, noise)
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
        "ratio to the candidates": mean / min(design.error(k, n, noise) for k in CANDIDATES),
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
    return [*fixed, (FALLING, falling)]


def slope(sizes: Array, errors: Array) -> float:
    """Slope of the logarithm of the error on that of the number of rows."""
    return float(np.polyfit(np.log(sizes.astype(float)), np.log(errors), 1)[0])


def slope_error(sizes: Array, relative: Array) -> float:
    """Monte Carlo error of a slope, from relative errors of the errors."""
    x = np.log(sizes.astype(float)) - np.log(sizes.astype(float)).mean()
    return float(np.sqrt((x**2 * relative**2).sum()) / (x**2).sum())


def slopes(table: pd.DataFrame) -> pd.DataFrame:
    """Fit rates over all sizes of every design and path."""
    return pd.DataFrame(
        [
            {
                "design": design,
                "path": path,
                "chosen bins": slope(part["n"], part["error"]),
                "its error": slope_error(part["n"].to_numpy(), (part["ratio error"] / part["ratio"]).to_numpy()),
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
        found = DensityEstimates(counts, np.linspace(0, 1, bins + 1), noise, measured.law.family == "laplace")
        ends = density_intervals(found, LEVEL)
        covered += ((ends[..., 0] <= p * bins) & (p * bins <= ends[..., 1])).sum(axis=0)
    return covered / replicates


POINTS = (0.02, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.98)


def chosen_coverage(design: Design, n: int, price: dpi.PureDP | dpi.ZCDP, replicates: int, seed: list[int]) -> Array:
    """Coverage at `POINTS` of the interval of the bin that was chosen around each, for the mean density in it."""
    drawn = draw_chosen(design, n, price, replicates, seed)
    covered = np.zeros(len(POINTS))
    for bins, found in drawn.groups():
        ends = density_intervals(found, LEVEL)
        place = (np.array(POINTS) * bins).astype(int)
        truth = design.shares(bins)[place] * bins
        covered += ((ends[:, place, 0] <= truth) & (truth <= ends[:, place, 1])).sum(axis=0)
    return covered / replicates


def coverage_cell(
    how: str, design: Design, n: int, price: dpi.PureDP | dpi.ZCDP, replicates: int, seed: int
) -> list[dict]:
    """Judge one cell: the bins that fail get one rerun at ten times the replicates."""
    measure = fixed_coverage if how == "best fixed" else chosen_coverage
    least = RULES.least_coverage(replicates, 1 - LEVEL)
    key = [seed, n, [one.name for one in DESIGNS].index(design.name), PRICES.index(price)]
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


def figure_of(table: pd.DataFrame) -> Figure:
    """Error against the number of rows, and its ratio to that of the best bins."""
    figure, panels = new_figure(11.5, 6.4, 2, len(DESIGNS), sharex=True, sharey="row")
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
    part = max(int(arguments.replicates * AUTO_PART), 20)
    asked = [(design, n, price, path) for design in DESIGNS for path, cells in paths() for n, price in cells]
    errors = {f"error-{place}": partial(error_cell, *cell, part, arguments.seed) for place, cell in enumerate(asked)}
    table = pd.DataFrame(kept_all("density_error", errors, arguments))
    rates = slopes(table)
    fixed = [("best fixed", design, n, price) for design in DESIGNS for price in PRICES for n in SIZES]
    chosen = [("chosen", design, n, price) for design in DESIGNS[:2] for price in PRICES[:2] for n in CHOSEN_ROWS]
    coverages = {
        str(place): partial(coverage_cell, *cell, arguments.replicates, arguments.seed)
        for place, cell in enumerate([*fixed, *chosen])
    }
    found = kept_all("density_error", coverages, arguments)
    coverage = pd.DataFrame([row for rows in found for row in rows])
    _write(table, rates, coverage, arguments, part)
    return _claims(table, rates, coverage)


def _write(
    table: pd.DataFrame, rates: pd.DataFrame, coverage: pd.DataFrame, arguments: Options, replicates: int
) -> None:
    notes = [
        f"{replicates:,} replicates a cell, each released by the mechanism itself. The best is the least exact "
        "expected error of a fixed number of bins (every one up to 100, then steps of 3%) at the whole price, that of "
        "the candidates the least among the numbers that may be chosen. Samples have a fixed size n, which is "
        "confidential (add_remove)."
    ]
    above = table[(table["ratio"] > 1.25) & clear(table)]
    notes.append(
        f"Noise at most doubles the error of the best bins in {int(clear(table).sum())} of {len(table)} cells; in "
        f"{len(above)} of these that of the chosen ones is more than 1.25 times as large, and in "
        f"{int((table['ratio'] > 1.25).sum()) - len(above)} of the others: there the first stage tells little, and the "
        "number of bins is near that of a normal density of the same roughness."
    )
    write_table(table, "density_error", arguments, notes)
    told = [
        "Slopes of log error on log n, over n = 1e3, 1e4, 1e5, 1e6. At the fixed prices noise fades as n grows, so "
        "that errors fall faster than without noise; at epsilon = n^(-1/3) noise and sampling keep their proportion "
        f"where bins have a bias. {EXACT.capitalize()} have none in ten bins: noise then fades there too."
    ]
    write_table(rates, "density_error_slopes", arguments, told)
    least = RULES.least_coverage(arguments.replicates, 1 - LEVEL)
    judged = [
        f"Coverage of 95% intervals for the mean density in a bin, of each bin in the best fixed number, or of the "
        f"bins chosen around {len(POINTS)} points; at least {least:.4f}. Bins that fail are run again at ten times the "
        "replicates."
    ]
    write_table(coverage, "density_error_coverage", arguments, judged)
    write_figure(figure_of(table), "density_error", arguments)


def _claims(table: pd.DataFrame, rates: pd.DataFrame, coverage: pd.DataFrame) -> list[Claim]:
    return [*_error_claims(table), *_rate_claims(rates), *_coverage_claims(coverage)]


def clear(table: pd.DataFrame) -> pd.Series:
    """Cells in which noise at most doubles the error of the best bins."""
    return table["error of the best"] <= 2 * table["error without noise"]


def _error_claims(table: pd.DataFrame) -> list[Claim]:
    """Not refuted: the ratio less 3.7 of its errors is at most 1.25."""
    claims = []
    seen = clear(table)
    smooth = table["design"].isin([design.name for design in DESIGNS[:2]])
    exact = table["design"] == EXACT
    private = ~table["path"].isin([str(PRICES[0]), str(PRICES[2])]) & (table["n"] >= CHOSEN_ROWS[1])
    cases = (
        ("the best fixed number: smooth, noise at most doubles its error", smooth & seen, "ratio"),
        ("the best fixed number: steps at tenths, n >= 1e5, PureDP(1) and ZCDP(.5)", exact & seen & private, "ratio"),
        ("the best candidate: steps anywhere, n >= 1e5, PureDP(1) and ZCDP(.5)",
         ~smooth & ~exact & seen & private, "ratio to the candidates"),
    )  # fmt: skip
    for what, mine, name in cases:
        cells = table[mine & (table["path"] != FALLING)]
        error = cells["ratio error"] * cells[name] / cells["ratio"]
        refuted = cells[name] - REFUTED * error > 1.25
        worst = cells.loc[cells[name].idxmax()]
        claims.append(
            Claim(f"error of chosen bins at most 1.25 times that of {what}",
                  f"{len(cells)} cells; worst {worst['design']}, {worst['path']}, n = {worst['n']:,}",
                  f"{worst[name]:.2f}", not refuted.any(), error=f"{error.loc[cells[name].idxmax()]:.2f}")
        )  # fmt: skip
    return claims


def _rate_claims(rates: pd.DataFrame) -> list[Claim]:
    """Exact for best bins; for chosen ones not refuted."""
    biased = rates[(rates["path"] == FALLING) & (rates["design"] != EXACT)]
    smooth = biased[biased["design"].isin([design.name for design in DESIGNS[:2]])]
    fixed = rates[rates["path"] != FALLING]
    away = (biased["best bins"] - biased["without noise"]).abs().max()
    slower = (rates["best bins"] - rates["without noise"]).max()
    claims = [
        Claim("slope within .05 of that without noise, best bins, epsilon = n^(-1/3)", f"{len(biased)} designs",
              f"{away:.3f}", away <= 0.05),
        Claim("slope at most .05 above that without noise, best bins, every price", f"{len(rates)} paths",
              f"{slower:.3f}", slower <= 0.05),
    ]  # fmt: skip
    apart = (smooth["chosen bins"] - smooth["without noise"]).abs()
    behind = fixed["chosen bins"] - fixed["without noise"]
    for what, gap, error in (
        ("within .05 of that without noise, chosen bins, smooth, epsilon = n^(-1/3)", apart, smooth["its error"]),
        ("at most .05 above that without noise, chosen bins, fixed prices", behind, fixed["its error"]),
    ):
        held = not (gap - REFUTED * error > 0.05).any()
        claims.append(Claim(f"slope {what}", f"{len(gap)} paths", f"{gap.max():.3f}", held,
                            error=f"{error.loc[gap.idxmax()]:.3f}"))  # fmt: skip
    return claims


def _coverage_claims(coverage: pd.DataFrame) -> list[Claim]:
    return [
        least_coverage(
            f"least pointwise coverage of 95% intervals, {how} bins",
            cells,
            "least coverage",
            by=["design", "privacy", "n"],
            level=1 - LEVEL,
            quantities="intervals",
            design=f"{int(cells.loc[cells['run'] == 'first', 'intervals'].sum()):,} intervals",
        )
        for how, cells in coverage.groupby("bins", sort=False)
    ]

"""The exact interval of one proportion: coverage and mean width by summation over the law of the released count.

Nothing is simulated. The released count is a binomial count with discrete Laplace noise at scale 1 / epsilon plus one
stored uniform; where each end of the interval crosses the true proportion is found from the interval itself.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats
from scipy.optimize import elementwise
from tqdm import tqdm

from dpinfer.descriptions.binomial_inference import binomial_interval, binomial_pvalue
from dpinfer.statistics.noise import noisy_binomial_cdf, noisy_binomial_sf
from validation.common.outputs import Options, new_figure, write_table
from validation.common.rules import Claim
from validation.common.tulap_law import released, tulap_cdf

SIZES = (10, 30, 100, 1000)
PROPORTIONS = (0.01, 0.05, 0.2, 0.5)
EPSILONS = (0.1, 0.5, 1.0, 5.0)
LEVEL = 0.95
HEADLINE = (100, 0.2, 1.0)
POWER = ((30, 0.8, 0.9, 0.5, 0.175), (30, 0.8, 0.9, 1.0, 0.304), (30, 0.8, 0.9, 2.0, 0.402))
CELLS_OF_LAW = 16_000


def crossings(n: np.ndarray, theta: np.ndarray, scale: float, side: int) -> np.ndarray:
    """Return the count where an end of the interval crosses theta, on the side where theta is not covered.

    Infinite where no count has an interval that misses theta on that side.
    """

    def distance(z: np.ndarray, n: np.ndarray, theta: np.ndarray) -> np.ndarray:
        return binomial_interval(z, n, **released(scale), alpha=1 - LEVEL)[..., side] - theta

    low, high = np.full(n.shape, -60.0 * (scale + 1)), n + 60.0 * (scale + 1)
    found = elementwise.find_root(distance, (low, high), args=(n, theta))
    if side == 1:
        return np.where(distance(low, n, theta) < 0, found.bracket[0], -np.inf)
    return np.where(distance(high, n, theta) > 0, found.bracket[1], np.inf)


def exact_probability(z: float, n: int, theta: float, scale: float) -> float:
    """P(Z <= z) by the definition: the sum over all counts of the binomial law times the Tulap law."""
    x = np.arange(n + 1)
    return float(stats.binom.pmf(x, n, theta) @ tulap_cdf(z - x, scale))


def coverages(epsilon: float, sizes: tuple[int, ...], proportions: tuple[float, ...]) -> pd.DataFrame:
    """Exact coverage at every size and proportion at one price."""
    n, theta = (np.ravel(axis).astype(float) for axis in np.meshgrid(sizes, proportions, indexing="ij"))
    scale = 1 / epsilon
    below, above = (crossings(n, theta, scale, side) for side in (1, 0))
    covered = [
        exact_probability(b, int(size), p, scale) - exact_probability(a, int(size), p, scale)
        for a, b, size, p in zip(below, above, n, theta, strict=True)
    ]
    return pd.DataFrame({"n": n.astype(int), "theta": theta, "epsilon": epsilon, "coverage": covered})


def widths(n: int, epsilon: float) -> pd.DataFrame:
    """Mean width at one size and price, and the share of intervals that are not usable.

    Both ends rise with the count, so over each small stretch of counts the width is at most the upper end
    at its right less the lower end at its left: summed with exact probabilities this bounds the mean.
    """
    scale = 1 / epsilon
    edges = np.linspace(-0.5 - 20 * scale, n + 0.5 + 20 * scale, CELLS_OF_LAW + 1)
    ends = binomial_interval(edges, n, **released(scale), alpha=1 - LEVEL)
    bad = ~np.all(np.isfinite(ends), axis=1) | (ends[:, 0] >= ends[:, 1]) | (ends[:, 0] < 0) | (ends[:, 1] > 1)
    width = ends[:, 1] - ends[:, 0]
    middle = 0.5 * (width[1:] + width[:-1])
    most = ends[1:, 1] - ends[:-1, 0]
    rows = []
    for theta in PROPORTIONS:
        below = noisy_binomial_cdf(edges, n, theta, **released(scale))
        share = np.diff(below)
        left = float(below[0] + noisy_binomial_sf(edges[-1], n, theta, **released(scale)))
        rows.append(
            {
                "n": n,
                "theta": theta,
                "epsilon": epsilon,
                "mean width": float(share @ middle) + left,
                "at most": float(share @ most) + left,
                "ideal": float(min(1.0, ideal_width(n, theta, scale))),
                "failures": int(bad.sum()),
            }
        )
    return pd.DataFrame(rows)


def ideal_width(n: int, theta: float, scale: float) -> float:
    """Width of the normal interval that knows the true variance of count and noise."""
    noise = 0.5 / np.sinh(0.5 / scale) ** 2 + 1 / 12
    return float(2 * stats.norm.isf(0.5 * (1 - LEVEL)) * np.sqrt(n * theta * (1 - theta) + noise) / n)


def power(n: int, null: float, truth: float, epsilon: float) -> float:
    """Power of the one-sided test of level .05, at the count where its p-value crosses .05."""
    scale = 1 / epsilon

    def excess(z: np.ndarray) -> np.ndarray:
        return binomial_pvalue(z, n, null, **released(scale), alternative="greater") - 0.05

    found = elementwise.find_root(excess, (np.array([0.0]), np.array([n + 60.0 * scale])))
    return 1 - exact_probability(float(found.x[0]), n, truth, scale)


def draw(table: pd.DataFrame) -> Figure:
    """Coverage against theta at one size, and mean width against the price."""
    figure, (left, right) = new_figure(9, 4, 1, 2)
    colours = dict(zip(SIZES, ("#b3cde3", "#6497b1", "#03396c", "#f18f01"), strict=True))
    marks = dict(zip(PROPORTIONS, "osD^", strict=True))
    for (n, theta), cells in table.groupby(["n", "theta"]):
        style = {"color": colours[n], "marker": marks[theta], "lw": 1, "ms": 4}
        label = f"n = {n}" if theta == PROPORTIONS[-1] else None
        right.semilogx(cells["epsilon"], cells["mean width"], label=label, **style)
    for epsilon in EPSILONS:
        curve = coverages(epsilon, (HEADLINE[0],), tuple(np.linspace(0.002, 0.998, 84)))
        left.plot(curve["theta"], curve["coverage"], lw=1.2, label=f"epsilon = {epsilon:g}")
    left.axhline(LEVEL, color="grey", lw=0.8, ls=":")
    left.set(xlabel="theta", ylabel=f"exact coverage, n = {HEADLINE[0]}", ylim=(0.94, 1.003))
    left.legend(frameon=False, fontsize=8)
    right.set(xlabel="epsilon", ylabel="mean width", yscale="log")
    right.legend(frameon=False, fontsize=8)
    figure.suptitle(
        "Exact 95% interval of one proportion (right, circle to triangle: theta = .01, .05, .2, .5)", fontsize=10
    )
    return figure


def run(arguments: Options) -> list[Claim]:
    """Sum coverage and width in every cell; write the table and the figure."""
    covered = pd.concat([coverages(epsilon, SIZES, PROPORTIONS) for epsilon in tqdm(EPSILONS, desc="coverage")])
    cells = [(n, epsilon) for n in SIZES for epsilon in EPSILONS]
    table = pd.concat([widths(n, epsilon) for n, epsilon in tqdm(cells, desc="widths")])
    table = covered.merge(table, on=["n", "theta", "epsilon"]).sort_values(["n", "theta", "epsilon"])
    powers = [(power(*design[:4]), design) for design in POWER]
    notes = [
        "Exact coverage and mean width of the 95% interval, by summation over counts and over the law of the noise: "
        "replicates and seed play no part. `at most` bounds the mean width from above, whatever the width does "
        f"between the {CELLS_OF_LAW:,} counts at which it was evaluated; `ideal` is the normal interval that knows "
        "the variance of the count and of the noise, at most 1 (it need not cover at small n theta). Coverage above "
        ".95 is where theta is so near 0 or 1 that the end on that side is held at the one of a noisy count of 0 or "
        "n: an interval that followed the noise further would shrink to nothing.",
        "Power of the one-sided test at .05: "
        + "; ".join(f"n = {d[0]}, {d[1]} against {d[2]}, eps = {d[3]:g}: {found:.4f}" for found, d in powers)
        + ".",
    ]
    write_table(table, "proportion_exact", arguments, notes, draw(table))
    n, theta, epsilon = HEADLINE
    headline = table[(table["n"] == n) & (table["theta"] == theta) & (table["epsilon"] == epsilon)].iloc[0]
    least, failures = float(table["coverage"].min()), int(table["failures"].sum())
    grid = "n 10 to 1000, theta .01 to .5, eps .1 to 5"
    distance = max(abs(found - design[4]) for found, design in powers)
    return [
        Claim("least exact coverage, proportion, 95%", grid, f"{least:.7f}", least >= LEVEL, error="exact"),
        Claim("intervals that are empty, NaN or outside [0, 1]", grid, f"{failures}", failures == 0, error="exact"),
        Claim(
            "coverage and mean width, proportion, 95%; width at most .164",
            "n = 100, theta = .2, eps = 1",
            f"{headline['coverage']:.5f} / {headline['mean width']:.4f}",
            headline["at most"] <= 0.164 and headline["coverage"] >= LEVEL,
            error="exact",
        ),
        Claim(
            "power of the one-sided test, .8 against .9, level .05; known .175, .304, .402",
            "n = 30, eps = .5, 1, 2",
            ", ".join(f"{found:.4f}" for found, _ in powers),
            distance <= 0.0006,
            error="exact",
        ),
    ]

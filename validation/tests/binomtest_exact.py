"""The exact binomial test: power, size and coverage by summation over the law of the released count.

Nothing is simulated. The released count is a binomial count with Tulap or discrete Gaussian noise. Where its test
begins to reject, and where its interval begins to miss a proportion, is searched on the lattice of the count with the
test and the interval themselves; probabilities are then summed over all counts without the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats
from tqdm import tqdm

import dpinfer as dpi
from dpinfer.descriptions.binomial import binomtest
from dpinfer.descriptions.binomial_inference import binomial_interval, binomial_power, binomial_pvalue
from dpinfer.release import NoiseLaw
from dpinfer.release.laws import TULAP_GRID
from dpinfer.statistics.nulls import Alternative
from validation.common.outputs import Options, new_figure, write_table
from validation.common.rules import Claim
from validation.descriptions.proportion_exact import LEVEL, PROPORTIONS, SIZES, exact_probability

PRICES = (dpi.PureDP(0.1), dpi.PureDP(1.0), dpi.ZCDP(0.005), dpi.ZCDP(0.05), dpi.ZCDP(0.5))
POWERS = (
    (30, 0.8, 0.9, 0.5, 0.175),
    (30, 0.8, 0.9, 1.0, 0.304),
    (30, 0.8, 0.9, 2.0, 0.402),
    (128, 0.9, 0.95, 1.0, 0.596),
    (256, 0.9, 0.95, 1.0, 0.898),
)
ALTERNATIVES: tuple[Alternative, ...] = ("two-sided", "greater", "less")
SCHEMA = dpi.Schema(s=dpi.Boolean(missing=False, impossible=False))
FIGURE = (100, 0.8, dpi.PureDP(0.2), dpi.PureDP(1.0), dpi.ZCDP(0.01), dpi.ZCDP(0.5))
"""Size, tested proportion and prices of the power curves."""


@dataclass(frozen=True)
class Noise:
    """Noise that a price brings to the count of `binomtest`."""

    law: NoiseLaw
    step: float

    @classmethod
    def at(cls, price: dpi.PureDP | dpi.ZCDP) -> Noise:
        measured = binomtest("s").measurement(price, schema=SCHEMA, neighbors="replace_one")
        return cls(measured.law, measured.steps[0])

    @property
    def reach(self) -> float:
        """Counts beyond which no noise is met."""
        return 60 * (self.law.scales[0] * self.step + 1)

    def probability(self, z: float, n: int, theta: float) -> float:
        """P(Z <= z) for a z on the lattice, by the definition: a sum over all counts."""
        if not np.isfinite(z):
            return float(z > 0)
        if self.law.family == "tulap":
            return exact_probability(z + self.step, n, theta, self.law.scales[0] / TULAP_GRID)
        x = np.arange(n + 1)
        # At 2^24 steps and more, summing the lattice is the midpoint rule, exact to 1e-16.
        noise = stats.norm.cdf(((z - x) / self.step + 0.5) / self.law.scales[0])
        return float(stats.binom.pmf(x, n, theta) @ noise)


def last(holds: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the largest whole number above low, at most high, at which a condition still holds; low if none."""
    low, high = low.copy(), high.copy()
    while np.any(low < high):
        middle = np.ceil(0.5 * (low + high))
        held = holds(middle)
        low, high = np.where(held, middle, low), np.where(held, high, middle - 1)
    return low


def outside(
    noise: Noise, n: np.ndarray, theta: np.ndarray, misses: Callable[[np.ndarray, int], np.ndarray]
) -> np.ndarray:
    """Return the exact probability of counts that a rule rejects: it must reject beyond two thresholds.

    ``misses(z, side)`` says whether z is rejected on the side 1 (too low) or 0 (too high).
    """
    step = noise.step
    ends = np.floor((-noise.reach) / step) + np.zeros_like(n), np.ceil((n + noise.reach) / step)
    low = last(lambda k: misses(k * step, 1), ends[0], ends[1])
    high = last(lambda k: ~misses(k * step, 0), ends[0], ends[1])
    return np.array(
        [
            (noise.probability(a * step, int(size), p) if a > start else 0.0)
            + (1 - noise.probability(b * step, int(size), p) if b < end else 0.0)
            for a, b, size, p, start, end in zip(low, high, n, theta, *ends, strict=True)
        ]
    )


def cells() -> tuple[np.ndarray, np.ndarray]:
    """Every size with every proportion."""
    n, theta = (np.ravel(axis).astype(float) for axis in np.meshgrid(SIZES, PROPORTIONS, indexing="ij"))
    return n, theta


def coverages(noise: Noise, n: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Exact coverage of the two-sided interval."""

    def misses(z: np.ndarray, side: int) -> np.ndarray:
        ends = binomial_interval(z, n, noise.law, step=noise.step, alpha=1 - LEVEL)
        return ends[:, 1] < theta if side else ends[:, 0] > theta

    return 1 - outside(noise, n, theta, misses)


def sizes(noise: Noise, n: np.ndarray, theta: np.ndarray, alternative: str) -> np.ndarray:
    """Exact size of the test at .05."""

    def misses(z: np.ndarray, side: int) -> np.ndarray:
        found = binomial_pvalue(z, n, theta, noise.law, step=noise.step, alternative=alternative) <= 0.05
        if alternative == "two-sided":
            return found & ((z < n * theta) if side else (z > n * theta))
        return found & (alternative == ("less" if side else "greater"))

    return outside(noise, n, theta, misses)


def classical_power(n: int, null: float, truth: float) -> float:
    """Power of scipy's one-sided test on the count itself."""
    k = np.arange(n + 1)
    rejected = [stats.binomtest(int(i), n, null, alternative="greater").pvalue <= 0.05 for i in k]
    return float(stats.binom.pmf(k, n, truth) @ rejected)


def power(noise: Noise, n: int, null: float, truth: float) -> float:
    """Power of the one-sided private test."""
    return binomial_power(n, null, truth, noise.law, step=noise.step, alternative="greater")


def draw(curves: pd.DataFrame, table: pd.DataFrame) -> Figure:
    """Power against the true proportion, and coverage in every cell."""
    figure, (left, right) = new_figure(10, 4.2, 1, 2)
    colours = ("black", "#b3cde3", "#03396c", "#fdc086", "#f18f01")
    for colour, (name, curve) in zip(colours, curves.groupby("test", sort=False), strict=True):
        dashed = "--" if name == curves["test"].iloc[0] else "-"
        left.plot(curve["truth"], curve["power"], dashed, color=colour, lw=1.4, label=name)
    left.axhline(0.05, color="grey", lw=0.8, ls=":")
    left.set(xlabel="true proportion", ylabel="exact power", ylim=(0, 1.02))
    left.set_title(f"power of the one-sided test of {FIGURE[1]} at level .05, n = {FIGURE[0]}", fontsize=9)
    left.legend(frameon=False, fontsize=8)
    marks = ("o", "s", "D", "^", "v")
    for shift, mark, colour, (name, cell) in zip(
        np.linspace(-0.32, 0.32, len(marks)),
        marks,
        ("#6497b1", "#03396c", "#fdc086", "#f18f01", "#7a3e00"),
        table.groupby("price", sort=False),
        strict=True,
    ):
        right.plot(np.arange(len(cell)) + shift, cell["coverage"], mark, color=colour, ms=4, label=name)
    first = table[table["price"] == table["price"].iloc[0]]
    right.axhline(LEVEL, color="grey", lw=0.8, ls=":")
    right.set_xticks(range(len(first)), [f"{theta:g}" for theta in first["theta"]], fontsize=7)
    for place, n in enumerate(SIZES):
        right.text(4 * place + 1.5, 1.003, f"n = {n}", ha="center", fontsize=8)
        if place:
            right.axvline(4 * place - 0.5, color="lightgrey", lw=0.8)
    right.set(xlabel="proportion", ylabel="exact coverage", ylim=(0.942, 1.006))
    right.set_title("coverage of the two-sided 95% interval", fontsize=9)
    right.legend(frameon=False, fontsize=7, loc="upper right", bbox_to_anchor=(1.0, 0.9))
    return figure


def run(arguments: Options) -> list[Claim]:
    """Sum power, size and coverage; write the table and the figure."""
    powers = [(power(Noise.at(dpi.PureDP(d[3])), *d[:3]), classical_power(*d[:3]), d) for d in POWERS]
    n, theta = cells()
    parts = []
    for price in tqdm(PRICES, desc="coverage and size"):
        noise = Noise.at(price)
        found = {f"size, {a}": sizes(noise, n, theta, a) for a in ALTERNATIVES}
        covered = coverages(noise, n, theta)
        parts.append(
            pd.DataFrame({"price": str(price), "n": n.astype(int), "theta": theta, "coverage": covered, **found})
        )
    table = pd.concat(parts, ignore_index=True)
    size, null, *prices = FIGURE
    truths = np.linspace(null, 1.0, 21)
    rows = [("scipy, not private", t, classical_power(size, null, t)) for t in truths]
    rows += [(str(price), t, power(Noise.at(price), size, null, t)) for price in tqdm(prices) for t in truths]
    said = "; ".join(
        f"n = {d[0]}, {d[1]} against {d[2]}, eps = {d[3]:g}: {ours:.4f} (not private {free:.4f})"
        for ours, free, d in powers
    )
    notes = [
        "Exact coverage of the two-sided 95% interval and exact size of the tests at .05, by summation over all counts "
        "and over the law of the noise: replicates and seed play no part. PureDP brings Tulap noise, ZCDP discrete "
        "Gaussian noise; rows are public in number (replace_one). Coverage above .95, and size below .05 where it is "
        "two-sided, are where a noisy count beyond 0 or n is held at that end.",
        f"Power of the one-sided test at .05: {said}. The test that is not private is scipy's, whose size is below .05 "
        "because the count is a whole number; the noise makes up for that, and the private test can have more power.",
    ]
    write_table(
        table, "binomtest_exact", arguments, notes, draw(pd.DataFrame(rows, columns=["test", "truth", "power"]), table)
    )
    distance = max(abs(ours - design[4]) for ours, _, design in powers)
    grid = "n 10 to 1000, theta .01 to .5; PureDP .1, 1; ZCDP .005, .05, .5"
    least, largest = float(table["coverage"].min()), float(table.filter(like="size").to_numpy().max())
    return [
        Claim(
            "power of the one-sided test, level .05; known .175, .304, .402, .596, .898",
            "n = 30, .8 against .9, eps = .5, 1, 2; n = 128, 256, .9 against .95, eps = 1",
            ", ".join(f"{ours:.4f}" for ours, _, _ in powers),
            distance <= 0.0006,
            error="exact",
        ),
        Claim("least exact coverage, binomial test, 95%", grid, f"{least:.9f}", least >= LEVEL - 1e-12, error="exact"),
        Claim("largest exact size, binomial test, .05", grid, f"{largest:.9f}", largest <= 0.05 + 1e-12, error="exact"),
    ]

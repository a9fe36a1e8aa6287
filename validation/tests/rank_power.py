"""Power of rank tests from noisy counts, beside the ordinary tests and beside noise on the statistic itself.

Couch, Kazan, Shi, Bray & Groce (2019) add Laplace noise to the statistic of ranks. Under replace_one with n public, for
a total epsilon:

- Mann & Whitney: the smaller group's size m is released with noise of scale 1/e1 and lowered by log(1/(2 delta))/e1 to
  m*, which is too large with probability delta; U, the smaller of both, moves by at most n - m*, and gets noise of
  scale (n - m*)/e2; e1 = .65 epsilon.
- Kruskal & Wallis: the sum of absolute distances of mean ranks replaces that of squares, and moves by at most 8.
- Wilcoxon: the sum of signed ranks, zeros ranked, moves by at most 2 n.

Their critical values are simulated here with the sizes of the groups known, to their advantage.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise, product

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import dpinfer as dpi
from dpinfer.distributions.rank_statistics import GroupRanks, RankAssociation, SignedRanks
from dpinfer.distributions.ranks import best_leaves, best_sides
from validation.common.cells import kept_all
from validation.common.claims import Claim, least_coverage
from validation.common.leaves import DRAWS, beyond_of, noise_at, normal_shares
from validation.common.outputs import Options, new_figure, write_figure, write_table

LEVEL = 0.05
SIZES = (50, 100, 200, 400, 800, 1600)
EPSILONS = (0.1, 1.0)
DELTA = 1e-6
SHARE = 0.65
EFFECT, SPREAD = 0.5, 0.1
"""Shift of the last group, in standard deviations; standard deviation of the values within bounds [0, 1]."""

TESTS = {"mannwhitneyu": 2, "kruskal": 3, "wilcoxon": 1}
FEW = 5
"""Replicates behind a coverage over those behind a power."""

COVERED = ((200, dpi.ZCDP(0.5)), (1000, dpi.ZCDP(0.05)), (1000, dpi.PureDP(1.0)), (20_000, dpi.GDP(0.1)))
SHIFTS = (0.0, 1.0)


def values_of(test: str, n: int, shift: float, size: int, rng: np.random.Generator) -> np.ndarray:
    """Values (size, n), group after group of equal sizes, the last one shifted; of pairs their differences."""
    drawn = rng.normal(0.5, SPREAD, (size, n))
    if test == "wilcoxon":
        return drawn - 0.5 + shift * SPREAD
    drawn[:, n - n // TESTS[test] :] += shift * SPREAD
    return drawn


def bounds_of(test: str, n: int) -> np.ndarray:
    """Where groups end."""
    groups = TESTS[test]
    return np.array([k * (n - n // groups) // max(groups - 1, 1) for k in range(groups)] + [n])


def plain_statistic(test: str, values: np.ndarray) -> np.ndarray:
    """U less its mean, the absolute H, or the sum of signed ranks, of values without ties."""
    n = values.shape[1]
    if test == "wilcoxon":
        ranks = np.abs(values).argsort(axis=1).argsort(axis=1) + 1
        return np.abs((np.sign(values) * ranks).sum(axis=1))
    ranks, ends = values.argsort(axis=1).argsort(axis=1) + 1, bounds_of(test, n)
    means = np.stack([ranks[:, a:b].mean(axis=1) for a, b in pairwise(ends)], axis=1)
    if test == "mannwhitneyu":
        first = ends[1]
        return np.abs(ranks[:, :first].sum(axis=1) - first * (first + 1) / 2 - first * (n - first) / 2)
    each = np.abs(means - (n + 1) / 2) @ np.diff(ends)
    return (n - 1) * each / np.abs(np.arange(1, n + 1) - (n + 1) / 2).sum()


def peer_statistic(test: str, values: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """The same with their noise; large values speak against the hypothesis."""
    n, plain = values.shape[1], plain_statistic(test, values)
    if test == "mannwhitneyu":
        small = n // 2
        size = small + rng.laplace(0, 1 / (SHARE * epsilon), len(values))
        bound = np.clip(np.floor(size - np.log(1 / (2 * DELTA)) / (SHARE * epsilon)), 0, n)
        return plain + rng.laplace(size=len(values)) * (n - bound) / ((1 - SHARE) * epsilon)
    return plain + rng.laplace(0, (8.0 if test == "kruskal" else 2.0 * n) / epsilon, len(values))


def counted(test: str, values: np.ndarray, leaves: int) -> np.ndarray:
    """Counts of leaves (size, cells)."""
    if test == "wilcoxon":
        sides = max((leaves - 1) // 2, 1)
        width = 0.5 / (2 * sides + 1)
        cells = np.clip(np.rint(values / (2 * width)), -sides, sides).astype(int) + sides
        groups, leaves = np.zeros(values.shape, dtype=int), 2 * sides + 1
    else:
        cells = np.clip((values * leaves).astype(int), 0, leaves - 1)
        groups = np.searchsorted(bounds_of(test, values.shape[1])[1:], np.arange(values.shape[1]), side="right")
        groups = np.broadcast_to(groups, values.shape)
    width = TESTS[test] * leaves
    flat = np.arange(len(values))[:, None] * width + groups * leaves + cells
    return np.bincount(flat.ravel(), minlength=len(values) * width).reshape(len(values), width).astype(float)


def power_of(test: str, n: int, epsilon: float, replicates: int, seed: int) -> dict:
    """Powers at .05 of our test under PureDP, of theirs, and of the test without privacy, by the same simulation."""
    rng = np.random.default_rng(seed)
    noise = noise_at(dpi.PureDP(epsilon), "replace_one")
    leaves = best_leaves(noise.variance)
    found: dict = {"test": test, "n": n, "epsilon": epsilon, "leaves": leaves}
    null, shifted = (values_of(test, n, shift, replicates, rng) for shift in (0.0, EFFECT))
    counts = counted(test, shifted, leaves)
    model = SignedRanks(noise, n) if test == "wilcoxon" else GroupRanks(noise, shape=(TESTS[test], leaves))
    beyond = beyond_of(model, counts + noise.rvs(counts.shape, rng), rng)
    found["counts"] = float(((1 + beyond) / (DRAWS + 1) <= LEVEL + 1e-12).mean())
    private = partial(peer_statistic, test, epsilon=epsilon, rng=rng)
    for name, statistic in (("noise on the statistic", private), ("no privacy", partial(plain_statistic, test))):
        critical = np.quantile(statistic(values=null), 1 - LEVEL)
        found[name] = float((statistic(values=shifted) > critical).mean())
    return found | {"replicates": replicates}


def covers(n: int, price: object, shift: float, replicates: int, seed: int) -> list[dict]:
    """Coverage of 95% intervals of the three effect sizes."""
    rng, noise = np.random.default_rng(seed), noise_at(price, "add_remove")
    leaves, sides = best_leaves(noise.variance), best_sides(noise.variance)
    p, q = normal_shares(leaves, 0.5 + shift * SPREAD, SPREAD), normal_shares(leaves, 0.5, SPREAD)
    middle = np.cumsum(q) - q / 2
    half = max(leaves // 2, 2)
    line = normal_shares(2 * half + 1, 0.5 + 0.5 * shift * SPREAD, SPREAD)
    above, under = line[half + 1 :], line[half - 1 :: -1]
    ranks = np.cumsum(above + under) - (above + under) / 2
    x = (np.arange(sides) + 0.5) / sides - 0.5
    grid = np.exp(-(x[:, None] ** 2 + x**2 - shift * x[:, None] * x) / (2 * 2 * SPREAD**2))
    grid /= grid.sum()
    a, b = (np.cumsum(one) - one / 2 - 0.5 for one in (grid.sum(axis=1), grid.sum(axis=0)))
    root = np.sqrt((grid.sum(axis=1) @ a**2) * (grid.sum(axis=0) @ b**2))
    cases = {
        "P(first > second)": (GroupRanks(noise, shape=(2, leaves)), p @ middle, (p, q)),
        "rank-biserial": (
            SignedRanks(noise), ranks @ (above - under) / (0.5 * (above + under).sum() ** 2), (line,)
        ),
        "Spearman": (RankAssociation(noise, shape=(sides, sides)), a @ grid @ b / root, (grid.ravel(),)),
    }  # fmt: skip
    rows = []
    for name, (model, truth, laws) in cases.items():
        drawn = np.concatenate([rng.multinomial(n // len(laws), law, size=replicates) for law in laws], axis=1)
        found = model.effect(drawn + noise.rvs(drawn.shape, rng), 0.05)  # type: ignore[attr-defined]
        inside = (found.lower <= truth) & (truth <= found.upper)
        row = {"effect": name, "n": n, "price": str(price), "shift": shift, "truth": float(truth)}
        row |= {"coverage": float(inside.mean()), "width": float((found.upper - found.lower).mean())}
        rows.append(row | {"replicates": replicates})
    return rows


def figure_of(table: pd.DataFrame) -> Figure:
    """Power by number of rows."""
    figure, panels = new_figure(10, 5.4, 2, 3, sharex=True, sharey=True)
    colours = {"counts": "#03396c", "noise on the statistic": "#f18f01", "no privacy": "black"}
    for (epsilon, test), axes in zip(product(EPSILONS, TESTS), panels.ravel(), strict=True):
        some = table[(table["test"] == test) & (table["epsilon"] == epsilon)]
        for name, colour in colours.items():
            axes.plot(some["n"], some[name], "o-", ms=3, color=colour, label=name)
        axes.set(xscale="log", ylim=(0, 1.03))
        axes.set_title(f"{test}, epsilon = {epsilon:g}", fontsize=9)
    for axes in panels[1]:
        axes.set_xticks(SIZES, [str(n) for n in SIZES])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("rows")
    panels[0, 0].set_ylabel("power at .05")
    panels[1, 0].set_ylabel("power at .05")
    panels[0, 0].legend(fontsize=8, frameon=False)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Measure powers and coverage, write tables and the figure."""
    cells = list(product(EPSILONS, TESTS, SIZES))
    parts = {
        f"power-{place}": partial(power_of, test, n, epsilon, arguments.replicates, arguments.seed + place)
        for place, (epsilon, test, n) in enumerate(cells)
    }
    table = pd.DataFrame(kept_all("rank_power", parts, arguments))
    asked = [(n, price, shift) for (n, price), shift in product(COVERED, SHIFTS)]
    covering = {
        f"coverage-{place}": partial(covers, *one, FEW * arguments.replicates, arguments.seed + 1000 + place)
        for place, one in enumerate(asked)
    }
    effects = pd.DataFrame([row for part in kept_all("rank_power", covering, arguments) for row in part])
    write_table(table, "rank_power", arguments, [
        f"Groups of equal sizes, the last shifted by {EFFECT:g} standard deviations; PureDP, replace_one, n public. "
        f"Noise on the statistic: Couch et al. (2019), delta {DELTA:g} for the first test; its critical values, and "
        "those without privacy, are quantiles of as many draws under the hypothesis.",
    ])  # fmt: skip
    write_table(effects, "rank_effects", arguments, ["95% intervals, add_remove."])
    write_figure(figure_of(table), "rank_power", arguments)
    return [
        least_coverage(
            "least coverage of 95% intervals of rank effects",
            effects,
            by=["effect", "n", "price", "shift"],
            held=None,
            design="n 200 to 20,000, normal values",
        )
    ]

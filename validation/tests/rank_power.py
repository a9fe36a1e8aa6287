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

from itertools import pairwise, product

import numpy as np

import dpinfer as dpi
from dpinfer.distributions.rank_statistics import GroupRanks, RankAssociation, SignedRanks
from dpinfer.distributions.ranks import best_leaves, best_sides
from validation.common.leaves import DRAWS, beyond_of, noise_at, normal_shares
from validation.common.outputs import lines
from validation.common.rules import Rule
from validation.common.study import Drawn, Study

LEVEL = 0.05
SIZES = (50, 100, 200, 400, 800, 1600)
EPSILONS = (0.1, 1.0)
DELTA = 1e-6
SHARE = 0.65
EFFECT, SPREAD = 0.5, 0.1
"""Shift of the last group, in standard deviations; standard deviation of the values within bounds [0, 1]."""

TESTS = {"mannwhitneyu": 2, "kruskal": 3, "wilcoxon": 1}
POWERS = ("counts", "noise on the statistic", "no privacy")

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


def draw(cell: tuple[float, str, int], rng: np.random.Generator, replicates: int) -> Drawn:
    """P-values of our test under PureDP; statistics of theirs, and without privacy, shifted and not."""
    epsilon, test, n = cell
    noise = noise_at(dpi.PureDP(epsilon), "replace_one")
    leaves = best_leaves(noise.variance)
    null, shifted = (values_of(test, n, shift, replicates, rng) for shift in (0.0, EFFECT))
    counts = counted(test, shifted, leaves)
    model = SignedRanks(noise, n) if test == "wilcoxon" else GroupRanks(noise, shape=(TESTS[test], leaves))
    beyond = beyond_of(model, counts + noise.rvs(counts.shape, rng), rng)
    theirs = [peer_statistic(test, values, epsilon, rng) for values in (null, shifted)]
    plain = [plain_statistic(test, values) for values in (null, shifted)]
    return {"counts": (1 + beyond) / (DRAWS + 1), "noise on the statistic": np.stack(theirs, axis=1),
            "no privacy": np.stack(plain, axis=1)}  # fmt: skip


def summary(_: tuple, drawn: Drawn) -> dict:
    """Powers at .05; critical values are quantiles under the hypothesis."""
    others = {name: float((found[:, 1] > np.quantile(found[:, 0], 1 - LEVEL)).mean())
              for name, found in drawn.items() if name != "counts"}  # fmt: skip
    return {"counts": float((drawn["counts"] <= LEVEL + 1e-12).mean()), **others}


def draw_effects(cell: tuple, rng: np.random.Generator, replicates: int) -> Drawn:
    """Ends of 95% intervals of the three effect sizes, and their truths."""
    (n, price), shift = cell
    noise = noise_at(price, "add_remove")
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
    ends = {}
    for name, (model, truth, laws) in cases.items():
        drawn = np.concatenate([rng.multinomial(n // len(laws), law, size=replicates) for law in laws], axis=1)
        found = model.effect(drawn + noise.rvs(drawn.shape, rng), 0.05)  # type: ignore[attr-defined]
        ends[name] = np.column_stack([found.lower, found.upper, np.full(replicates, float(truth))])
    return ends


def effects(_: tuple, drawn: Drawn) -> list[dict]:
    """A row for each effect size."""
    return [
        {"effect": name, "truth": truth[0], "coverage": float(((lower <= truth) & (truth <= upper)).mean()),
         "width": float((upper - lower).mean())}
        for name, (lower, upper, truth) in ((name, found.T) for name, found in drawn.items())
    ]  # fmt: skip


STUDY = (
    Study(
        "rank_power", [*product(EPSILONS, TESTS, SIZES)], draw, summary, most=1000, quick=12,
        axes=lambda cell: {"test": cell[1], "n": cell[2], "epsilon": cell[0],
                           "leaves": best_leaves(noise_at(dpi.PureDP(cell[0]), "replace_one").variance)},
        figure=lambda table: lines(table, ["test", "epsilon"], "n", dict.fromkeys(POWERS, "o-"), log=True,
                                   ylabel="power at .05"),
        notes=(f"Groups of equal sizes, the last shifted by {EFFECT:g} standard deviations; PureDP, replace_one, n "
               f"public. Noise on the statistic: Couch et al. (2019), delta {DELTA:g} for the first test; its "
               f"critical values, and "
               "those without privacy, are quantiles of as many draws under the hypothesis.",),
    ),
    Study(
        "rank_effects", [*product(COVERED, SHIFTS)], draw_effects, effects,
        (Rule("least coverage of 95% intervals of rank effects", "coverage", design="n 200 to 20,000, normal values"),),
        axes=lambda cell: {"n": cell[0][0], "price": str(cell[0][1]), "shift": cell[1]}, by=("effect",),
        notes=("95% intervals, add_remove.",),
    ),
)  # fmt: skip

"""Size of the rank and distribution tests on noisy counts of leaves: few rows, ties, heavy tails, unequal groups."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import dpinfer as dpi
from dpinfer.distributions.rank_statistics import (
    GivenDistribution,
    GroupRanks,
    RankAssociation,
    SignedRanks,
    TwoDistributions,
)
from dpinfer.distributions.ranks import best_leaves, best_sides
from validation.common.cells import measured_again
from validation.common.claims import FAMILYWISE, Claim, largest_allowed, largest_size
from validation.common.leaves import DRAWS, LAWS, beyond_of, noise_at, shares_of
from validation.common.outputs import Options, limits, new_figure, write_table

Model = GroupRanks | TwoDistributions | SignedRanks | GivenDistribution | RankAssociation

SIZES = (50, 1000, 100_000)
PRICES = (dpi.PureDP(0.1), dpi.ZCDP(0.5), dpi.GDP(0.1), dpi.PureDP(1.0), dpi.ZCDP(0.005), dpi.GDP(1.0))
"""In turns: the loud prices of all three measures, and the quiet ones."""

NEIGHBORS = ("add_remove", "replace_one")
ALPHAS = (0.05, 0.01)

CELL = ["test", "rows", "values", "price", "neighbors"]
_BATCH = 1000


@dataclass(frozen=True)
class Design:
    """One cell of the grid; ``sizes`` are those of the groups, or the one number of rows."""

    test: str
    sizes: tuple[int, ...]
    law: str
    price: object
    neighbors: str
    alternative: str = "two-sided"

    @property
    def leaves(self) -> int:
        """Leaves that the price asks for; of Spearman's test in each column."""
        variance = noise_at(self.price, self.neighbors).variance
        return best_sides(variance) if self.test == "spearmanr" else best_leaves(variance)

    @property
    def shares(self) -> np.ndarray:
        """Shares of the cells of one group under the hypothesis."""
        if self.test == "wilcoxon":
            half = shares_of(self.law, max(self.leaves // 2, 2))
            middle = np.array([half.mean()])
            return np.concatenate([half[::-1], middle, half]) / (2 + middle)
        one = shares_of(self.law, self.leaves)
        return np.outer(one, one).ravel() if self.test == "spearmanr" else one

    def model(self) -> Model:
        """The test; the number of rows is public under replace_one."""
        noise = noise_at(self.price, self.neighbors)
        public = sum(self.sizes) if self.neighbors == "replace_one" else None
        if self.test in ("mannwhitneyu", "kruskal"):
            return GroupRanks(noise, alternative=self.alternative, shape=(len(self.sizes), self.leaves))  # type: ignore[arg-type]
        if self.test == "ks_2samp":
            return TwoDistributions(noise, shape=(2, self.leaves))
        if self.test == "wilcoxon":
            return SignedRanks(noise, public)
        if self.test == "ks_1samp":
            return GivenDistribution(noise, public, shares=self.shares)
        return RankAssociation(noise, public, shape=(self.leaves, self.leaves))


def _groups(n: int, test: str, ratio: int) -> tuple[int, ...]:
    small = max(round(n / (1 + ratio)), 1)
    if test == "kruskal":
        return (small // 2 + 1, n // 4, n // 4, n - 2 * (n // 4) - small // 2 - 1)
    return (small, n - small)


def grid() -> list[Design]:
    """Every design: each at the three loud or the three quiet prices, both relations in turns."""
    asked = [(test, n, law, ratio) for test in ("mannwhitneyu",) for n, law, ratio in product(SIZES, LAWS, (1, 20))]
    for place, (n, law) in enumerate(product(SIZES, LAWS)):
        asked += [(test, n, law, (1, 20)[place % 2]) for test in ("kruskal", "ks_2samp")]
        asked += [(test, n, law, 0) for test in ("wilcoxon", "ks_1samp", "spearmanr")]
    found = []
    for place, (test, n, law, ratio) in enumerate(asked):
        sizes = (n,) if ratio == 0 else _groups(n, test, ratio)
        for turn, price in enumerate(PRICES[(place // 3) % 2 :: 2]):
            side = "greater" if test == "mannwhitneyu" and (place + turn) % 2 else "two-sided"
            found.append(Design(test, sizes, law, price, NEIGHBORS[(place + turn) % 2], side))
    return found


def measure(design: Design, replicates: int, seed: int, run: str) -> list[dict]:
    """A row per level."""
    rng, model = np.random.default_rng(seed), design.model()
    beyond = []
    for start in range(0, replicates, _BATCH):
        size = min(_BATCH, replicates - start)
        counts = rng.multinomial(design.sizes, design.shares, size=(size, len(design.sizes))).reshape(size, -1)
        beyond.append(beyond_of(model, counts + model.noise.rvs(counts.shape, rng), rng))
    pvalues = (1 + np.concatenate(beyond)) / (DRAWS + 1)
    named = {
        "test": design.test,
        "rows": " ".join(map(str, design.sizes)),
        "values": design.law,
        "price": str(design.price),
        "neighbors": design.neighbors,
        "alternative": design.alternative,
        "leaves": design.leaves,
    }
    return [
        named | {"level": level, "size": float((pvalues <= level + 1e-12).mean()), "replicates": replicates, "run": run}
        for level in ALPHAS
    ]


def figure_of(table: pd.DataFrame, allowed: float) -> Figure:
    """Size at .05 of every cell, by test and number of rows."""
    first = table[(table["run"] == "first") & (table["level"] == ALPHAS[0])]
    figure, axes = new_figure(9.5, 4)
    rng = np.random.default_rng(0)
    tests = list(first["test"].unique())
    rows = first["rows"].map(lambda text: sum(map(int, text.split())))
    for offset, (n, colour) in enumerate(zip(SIZES, ("#f18f01", "#6497b1", "#03396c"), strict=True)):
        some = first[rows == n]
        place = some["test"].map(tests.index) + 0.25 * (offset - 1) + rng.uniform(-0.08, 0.08, len(some))
        axes.plot(place, some["size"], "o", ms=3.5, alpha=0.7, color=colour, label=f"{n:,} rows")
    limits(axes, ALPHAS[0], allowed, "largest allowed")
    axes.set_xticks(range(len(tests)), tests)
    axes.set_ylabel("size at level .05")
    axes.legend(fontsize=8, frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.12))
    return figure


def run(arguments: Options) -> list[Claim]:
    """Measure the grid, rerun what fails, write table and figure."""

    def allowed(level: float, tests: int) -> float:
        return largest_allowed(level, arguments.replicates, tests)

    table, tests, failed = measured_again(
        "rank_sizes", grid(), measure, lambda row, tests: row["size"] > allowed(row["level"], tests), arguments,
        every=19,
    )  # fmt: skip
    notes = [
        f"{tests} sizes, {DRAWS} simulated releases behind each p-value. Largest size allowed: "
        + ", ".join(f"{allowed(level, tests):.4f} at {level:g}" for level in ALPHAS)
        + f" (Bonferroni: an exact test is flagged anywhere with probability {FAMILYWISE:g} at most). Designs that "
        f"failed at first and were run again at ten times the replicates: {failed}.",
        "Leaves are those that the price asks for. n is public under replace_one, sizes of groups never are.",
    ]
    write_table(table, "rank_sizes", arguments, notes, figure_of(table, allowed(ALPHAS[0], tests)))
    return [
        largest_size(
            f"largest size at {level:g}: {test}",
            group[group["level"] == level],
            "size",
            by=CELL,
            level=level,
            held="held",
            design="n 50 to 100,000, groups up to 1 to 20, ties, heavy tails",
        )
        for test, group in table.groupby("test", sort=False)
        for level in ALPHAS
    ]

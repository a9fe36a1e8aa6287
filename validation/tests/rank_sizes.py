"""Size of the rank and distribution tests on noisy counts of leaves: few rows, ties, heavy tails, unequal groups."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

import dpinfer as dpi
from dpinfer.distributions.rank_statistics import (
    GivenDistribution,
    GroupRanks,
    RankAssociation,
    SignedRanks,
    TwoDistributions,
)
from dpinfer.distributions.ranks import best_leaves, best_sides
from validation.common.leaves import (
    DRAWS,
    LAWS,
    LEVELS,
    REAL,
    beyond_of,
    noise_at,
    rows_by_level,
    shares_of,
    size_rules,
)
from validation.common.outputs import scatter
from validation.common.study import Drawn, Study

Model = GroupRanks | TwoDistributions | SignedRanks | GivenDistribution | RankAssociation

SIZES = (50, 1000, 100_000)
PRICES = (dpi.PureDP(0.1), dpi.ZCDP(0.005), dpi.ZCDP(0.5), dpi.PureDP(1.0))
"""In turns: the two with much noise, and the two with little. A GDP(mu) has the noise of a ZCDP(mu^2/2)."""

NEIGHBORS = ("add_remove", "replace_one")


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
    """Every design: each at the prices with much noise or at those with little, both relations in turns."""
    asked = [(test, n, law, ratio) for test in ("mannwhitneyu",) for n, law, ratio in product(SIZES, LAWS, (1, 20))]
    for place, (n, law) in enumerate(product(SIZES, LAWS)):
        asked += [(test, n, law, (1, 20)[place % 2]) for test in ("kruskal", "ks_2samp")]
        asked += [(test, n, law, 0) for test in ("wilcoxon", "ks_1samp", "spearmanr")]
    asked += [
        (test, n, law, 1)
        for test in ("mannwhitneyu", "kruskal", "ks_2samp")
        for n, law in zip(SIZES[:2] * 2, REAL, strict=True)
    ]
    asked += [(test, 1000, law, 0) for test in ("wilcoxon", "ks_1samp", "spearmanr") for law in REAL[:2]]
    found = []
    for place, (test, n, law, ratio) in enumerate(asked):
        sizes = (n,) if ratio == 0 else _groups(n, test, ratio)
        for turn, price in enumerate(PRICES[2 * ((place // 3) % 2) :][:2]):
            side = "greater" if test == "mannwhitneyu" and (place + turn) % 2 else "two-sided"
            found.append(Design(test, sizes, law, price, NEIGHBORS[(place + turn) % 2], side))
    return found


def draw(design: Design, rng: np.random.Generator, replicates: int) -> Drawn:
    """P-values (replicates,)."""
    model = design.model()
    counts = rng.multinomial(design.sizes, design.shares, size=(replicates, len(design.sizes))).reshape(replicates, -1)
    return {"p": (1 + beyond_of(model, counts + model.noise.rvs(counts.shape, rng), rng)) / (DRAWS + 1)}


STUDY = Study(
    "rank_sizes", grid, draw, lambda _, drawn: rows_by_level(drawn["p"]),
    size_rules("largest size at {level:g}: {{part}}", "n 50 to 100,000, groups up to 1 to 20, ties, heavy tails",
               split="test", long=True),
    axes=lambda design: {"test": design.test, "rows": " ".join(map(str, design.sizes)), "values": design.law,
                         "price": str(design.price), "neighbors": design.neighbors,
                         "alternative": design.alternative, "leaves": design.leaves},
    quick=8, figure=lambda table: scatter("test", {"size": LEVELS[0]}, "values")(table[table["level"] == LEVELS[0]]),
    notes=(f"{DRAWS} simulated releases behind each p-value. Leaves are those that the budget asks for. n is public "
           f"under "
           "replace_one, sizes of groups never are.",),
)  # fmt: skip

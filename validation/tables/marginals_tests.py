"""Size of chi-squared tests that a release of marginals answers, with the noise that its cells have."""

from __future__ import annotations

from itertools import product

import numpy as np

from dpinfer.statistics.nulls import batch_pvalues
from dpinfer.tables.chi_squared_inference import CountModel, GoodnessOfFit, Independence
from dpinfer.tables.marginal_inference import TableNoise
from validation.common.outputs import scatter
from validation.common.rules import Rule
from validation.common.study import Drawn, Study
from validation.tables.marginal_designs import PRICES, RELATIONS, Population, Releases, named, releases_of

DRAWS, SIZES, LEVEL = 199, (100, 1000, 20_000), 0.05
_ALL = (("a", "b"), ("a", "c"), ("b", "c"))


def populations() -> list[Population]:
    """Tables in which the first two columns are independent, and the third depends on both."""
    found = []
    shares = {
        "even, 2 x 3": (np.full(2, 0.5), np.full(3, 1 / 3)),
        "uneven, 3 x 4": (np.array([0.7, 0.25, 0.05]), np.array([0.6, 0.3, 0.08, 0.02])),
        "rare, 2 x 5": (np.array([0.99, 0.01]), np.array([0.9, 0.06, 0.03, 0.009, 0.001])),
        "many, 8 x 8": (np.full(8, 1 / 8), np.full(8, 1 / 8)),
    }
    for name, (a, b) in shares.items():
        third = np.linspace(0.1, 0.9, a.size * b.size).reshape(a.size, b.size)
        cells = (a[:, None] * b)[..., None] * np.stack([third, 1 - third], axis=-1)
        found.append(Population(name, cells, _ALL))
    return found


def noise_of(drawn: Releases, subset: tuple[int, ...]) -> TableNoise:
    """Return the noise of the cells of one column or two, as `MarginalTables.noise` does."""
    return TableNoise(drawn.found, subset, drawn.found.sources(subset))


def models(drawn: Releases) -> dict[str, tuple[CountModel, np.ndarray]]:
    """Return the tests with the counts that they are of."""
    shape = drawn.population.shape
    both, one = (0, 1), (1,)
    shares = drawn.population.cells.sum(axis=(0, 2))
    found: dict[str, tuple[CountModel, np.ndarray]] = {}
    for kind in ("projected", "pearson"):
        pair = Independence((shape[0], shape[1]), noise_of(drawn, both), drawn.nobs, kind)
        found[f"independence, {kind}"] = pair, drawn.found.table(both)
        single = GoodnessOfFit(shares, noise_of(drawn, one), drawn.nobs, kind)
        found[f"goodness of fit, {kind}"] = single, drawn.found.table(one)
    return found


def designs() -> list[tuple[Population, str, str, str, int]]:
    """Return every population at two prices, both relations and all sizes; Laplace and Gaussian noise take turns."""
    every = list(product(populations(), PRICES, RELATIONS, SIZES))
    found = []
    for place, (population, amount, neighbors, n) in enumerate(every):
        found.append((population, amount, ("pure", "zcdp")[(place + place // 3 + place // 12) % 2], neighbors, n))
    return found


def draw(design: tuple[Population, str, str, str, int], rng: np.random.Generator, replicates: int) -> Drawn:
    """Return p-values of each test."""
    population, amount, measure, neighbors, n = design
    drawn = releases_of(population, PRICES[amount][measure], neighbors, n, replicates, rng)
    return {test: batch_pvalues(model, values, draws=DRAWS, rng=rng) for test, (model, values) in models(drawn).items()}


STUDY = Study(
    "marginals_tests", designs, draw,
    lambda _, drawn: [{"test": test, "size": (pvalues <= LEVEL).mean()} for test, pvalues in drawn.items()],
    (Rule("largest size at .05 of chi-squared tests from marginals", "size", "size", LEVEL,
          design="4 tables, n 100 to 20,000"),),
    axes=named, by=("test",), figure=scatter("n", {"size": LEVEL}, ["test", "amount"]),
    notes=(f"{DRAWS} simulated tables behind each p-value. A test may be conservative: uneven margins, few rows, and "
           f"much "
           "noise.",),
)  # fmt: skip

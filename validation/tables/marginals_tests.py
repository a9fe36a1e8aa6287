"""Size of chi-squared tests that a release of marginals answers, with the noise that its cells have."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dpinfer.statistics.noise import Components
from dpinfer.statistics.nulls import batch_pvalues
from dpinfer.tables.chi_squared_inference import CountModel, GoodnessOfFit, Independence
from dpinfer.tables.marginal_inference import TableNoise
from validation.common.cells import measured_again
from validation.common.claims import RULES, Claim, largest_size
from validation.common.outputs import Options, limits, new_figure, write_table
from validation.tables.marginal_designs import PRICES, RELATIONS, Population, Releases, releases_of

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
    parts = drawn.found.components(subset)
    rows, columns = (parts[(one,)] for one in subset) if len(subset) == 2 else (parts[subset],) * 2
    shape = tuple(drawn.population.shape[i] for i in subset)
    return TableNoise(shape, Components(parts[()], rows, columns, parts[subset]), drawn.found.sources(subset))


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


def measure(
    design: tuple[Population, str, str, str, int], replicates: int, seed: int, run: str
) -> list[dict[str, Any]]:
    """Return the size of each test in a design."""
    population, amount, measure_name, neighbors, n = design
    rng = np.random.default_rng([seed, n])
    drawn = releases_of(population, PRICES[amount][measure_name], neighbors, n, replicates, rng)
    rows = []
    for test, (model, values) in models(drawn).items():
        pvalues = batch_pvalues(model, values, draws=DRAWS, rng=rng)
        rows.append(
            {
                "test": test,
                "design": population.name,
                "amount": amount,
                "measure": measure_name,
                "neighbors": neighbors,
                "n": n,
                "size": float((pvalues <= LEVEL).mean()),
                "replicates": replicates,
                "run": run,
            }
        )
    return rows


def designs() -> list[tuple[Population, str, str, str, int]]:
    """Return every population at two prices, both relations and all sizes; Laplace and Gaussian noise take turns."""
    every = list(product(populations(), PRICES, RELATIONS, SIZES))
    found = []
    for place, (population, amount, neighbors, n) in enumerate(every):
        found.append((population, amount, ("pure", "zcdp")[(place + place // 3 + place // 12) % 2], neighbors, n))
    return found


def figure_of(table: pd.DataFrame, allowed: float) -> Figure:
    """Size of every test by the number of rows."""
    names = list(dict.fromkeys(table["test"]))
    figure, panels = new_figure(10, 3.4, 1, len(names), sharey=True)
    rng = np.random.default_rng(0)
    first = table[table["run"] == "first"]
    for axes, test in zip(panels, names, strict=True):
        for offset, (amount, colour) in enumerate(zip(PRICES, ("#f18f01", "#03396c"), strict=True)):
            some = first[(first["test"] == test) & (first["amount"] == amount)]
            place = np.log10(some["n"]) + 0.3 * (offset - 0.5) + rng.uniform(-0.1, 0.1, len(some))
            axes.plot(place, some["size"], "o", ms=3, alpha=0.6, color=colour, label=f"{amount} budget")
        limits(axes, LEVEL, allowed, "largest allowed")
        axes.set(title=test, xlabel="rows", xticks=np.log10(SIZES), xticklabels=[f"{n:,}" for n in SIZES])
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("size at level .05")
    panels[1].legend(fontsize=8, frameon=False, loc="lower left")
    return figure


BY = ["test", "design", "amount", "measure", "neighbors", "n"]


def run(arguments: Options) -> list[Claim]:
    """Measure the grid, rerun what fails, write table and figure."""

    def largest(count: int) -> float:
        return RULES.largest_size(arguments.replicates, 1 - LEVEL, count)

    table, count, failed = measured_again(
        "marginals_tests", designs(), measure, lambda row, count: row["size"] > largest(count), arguments, every=13
    )
    allowed = largest(count)
    notes = [
        f"{count} sizes, {DRAWS} simulated tables behind each p-value; {failed} designs were rerun. At most "
        f"{allowed:.4f} is allowed (Bonferroni). A test may be conservative: uneven margins, few rows, and much noise.",
    ]
    write_table(table, "marginals_tests", arguments, notes, figure_of(table, allowed))
    claim = largest_size(
        "largest size at .05 of chi-squared tests from marginals", table, "size", by=BY, level=LEVEL, held="held",
        design="4 tables, n 100 to 20,000",
    )  # fmt: skip
    return [claim]

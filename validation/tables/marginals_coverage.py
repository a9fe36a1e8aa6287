"""Coverage of intervals of cells, margins, shares and ratios from releases of marginals, over designs that hurt."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dpinfer.statistics.moment_inference import intervals
from dpinfer.statistics.tails import critical_value
from dpinfer.tables.marginal_inference import count_estimates, share_estimates, subsets_of
from validation.common.cells import measured_again
from validation.common.claims import RULES, Claim, largest_width, least_coverage
from validation.common.outputs import Options, new_figure, write_table
from validation.tables.marginal_designs import PRICES, RELATIONS, Population, Releases, populations, releases_of

SIZES = (60, 1000, 20_000)
QUANTITIES = ("cells of the rows", "cells", "margins", "shares", "shares by group", "ratios")
_QUICK, _AT_ONCE = 500, 2500
_KAPPA = 3.0
"""Noise standard deviations that half a denominator has to reach for the width of its shares to be judged."""


def designs() -> list[tuple[Population, str, str, str, int]]:
    """Return every population at two prices, both relations and all sizes; and some of them with Laplace noise.

    The three measures with Gaussian noise take turns. Intervals with Laplace noise take a hundred times as long.
    """
    every = list(product(populations(), PRICES, RELATIONS, SIZES))
    found = []
    for place, (population, amount, neighbors, n) in enumerate(every):
        found.append((population, amount, ("zcdp", "gdp", "approx")[(place + place // 12) % 3], neighbors, n))
    laplace = [(one, "little" if place % 2 else "much") for place, one in enumerate(populations()[:2])]
    for place, (population, amount) in enumerate(laplace):
        found.append((population, amount, "pure", RELATIONS[place // 2 % 2], SIZES[1]))
    return found


def measure(design: tuple[Population, str, str, str, int], replicates: int, seed: int, run: str) -> list[dict]:
    """Return the worst cell of each quantity of a design."""
    population, amount, measure_name, neighbors, n = design
    named = {"design": population.name, "amount": amount, "measure": measure_name, "neighbors": neighbors, "n": n}
    sums: dict[str, dict[int, np.ndarray]] = {}
    rounds = -(-replicates // _AT_ONCE)
    for place in range(rounds):  # each of equal size
        rng = np.random.default_rng([seed, n, place])
        privacy = PRICES[amount][measure_name]
        drawn = releases_of(population, privacy, neighbors, n, replicates // rounds, rng)
        for order, (quantity, found) in enumerate(_quantities(drawn)):
            known = sums.setdefault(quantity, {})
            known[order] = known.get(order, np.zeros_like(found)) + found / rounds
    parts = {quantity: list(known.values()) for quantity, known in sums.items()}
    rows = []
    for quantity, arrays in parts.items():
        every = np.concatenate(arrays)
        place = int(every[:, 0].argmin())
        judged = every[np.isfinite(every[:, 1])]
        rows.append(
            {
                **named,
                "quantity": quantity,
                "estimates": len(every),
                "coverage": every[place, 0],
                "mean coverage": every[:, 0].mean(),
                "width / oracle": judged[:, 1].max() if len(judged) else np.nan,
                "flagged": every[place, 2],
                "replicates": replicates,
                "run": run,
            }
        )
    return rows


def _quantities(drawn: Releases) -> Iterator[tuple[str, np.ndarray]]:
    """Coverage, width over the oracle's and share flagged of every estimate (k, 3), by quantity."""
    names = "abcdefgh"
    workload = [tuple(sorted(names.index(one) for one in marginal)) for marginal in drawn.population.workload]
    for subset in subsets_of(workload)[1:]:
        quantity = "cells" if subset in workload else "margins"
        for population in (False, True):
            told = "cells of the rows" if not population and quantity == "cells" else quantity
            yield told, _counts(drawn, subset, population=population)
        yield "shares", _shares(drawn, subset, _within_all(drawn, subset))
        if len(subset) > 1:
            yield "shares by group", _shares(drawn, subset, _within_groups(drawn, subset))
        yield "ratios", _shares(drawn, subset, _pairs(drawn, subset))


def _counts(drawn: Releases, subset: tuple[int, ...], *, population: bool) -> np.ndarray:
    found = count_estimates(drawn.found, subset, population=population, nobs=drawn.nobs)
    ends = intervals(found, 0.05)[:, :, 0]
    expected = drawn.expected(subset)
    truth = np.broadcast_to(expected, ends.shape[:2]) if population else drawn.true(subset)
    sampling = np.zeros(len(expected))
    if population:
        sampling = expected if drawn.nobs is None else expected * (1 - expected / drawn.n)
    noise = drawn.found.cell_variance(subset)
    shares = (
        None if found.shares is None else (found.mixing[0, :, 0] ** 2 * found.variances) / (noise + sampling)[:, None]
    )
    half = critical_value(0.05, None, shares) * np.sqrt(noise + sampling)
    ordinary = expected > 3 * half  # an interval that is cut at 0 is short, and a mean of few rows is skewed
    return _told(ends, truth, np.where(ordinary, half, np.nan), found.edge[:, :, 0])


def _shares(drawn: Releases, subset: tuple[int, ...], places: np.ndarray) -> np.ndarray:
    found = share_estimates(drawn.found, subset, places, population=True)
    ends = intervals(found, 0.05)
    ends = ends.reshape(len(ends), -1, 2)
    expected = np.einsum("c,gqc->gq", drawn.expected(subset), places)
    bottom, top = expected[:, :1], expected[:, 1:]
    truth = np.where(bottom > 0, top / np.maximum(bottom, 1e-300), np.nan)
    slope = places[:, 1:] - np.nan_to_num(truth)[..., None] * places[:, :1]
    noise = np.einsum("gqc,cd,gqd->gq", slope, drawn.found.covariance(subset), slope)
    sampling = np.nan_to_num(truth * (1 - truth)) * bottom
    half = np.sqrt(np.maximum(noise, 0.0) + sampling) / np.maximum(bottom, 1e-300)
    size = np.einsum("gc,cd,gd->g", places[:, 0], drawn.found.covariance(subset), places[:, 0])[:, None]
    size = np.sqrt(np.maximum(size, 0.0))  # of a public number of rows it is 0, but for rounding
    far = (bottom > 2 * _KAPPA * size) & (top > 25) & (bottom - top > 25) & (drawn.found.law.family == "gaussian")
    half = np.where(far, critical_value(0.05) * half, np.nan)
    determined = np.broadcast_to(bottom > 0, truth.shape).ravel()
    few = np.repeat(found.few, truth.shape[1], axis=1)
    told = _told(ends, np.broadcast_to(truth.ravel(), ends.shape[:2]), half.ravel(), few)
    return told[determined]  # a share of nothing is no number


def _told(ends: np.ndarray, truth: np.ndarray, half: np.ndarray, flagged: np.ndarray) -> np.ndarray:
    slack = 1e-9 * np.maximum(np.abs(truth), 1.0)
    covered = (ends[..., 0] <= truth + slack) & (truth <= ends[..., 1] + slack)
    width = (ends[..., 1] - ends[..., 0]).mean(axis=0) / (2 * half)
    return np.stack([covered.mean(axis=0), width, flagged.mean(axis=0)], axis=-1)


def _within_all(drawn: Releases, subset: tuple[int, ...]) -> np.ndarray:
    cells = drawn.found.cells(subset)
    return np.vstack([np.ones(cells), np.eye(cells)])[None]


def _within_groups(drawn: Releases, subset: tuple[int, ...]) -> np.ndarray:
    levels = drawn.population.shape[subset[-1]]
    groups = drawn.found.cells(subset) // levels
    each = np.vstack([np.ones(levels), np.eye(levels)])
    return np.einsum("gh,ql->gqhl", np.eye(groups), each).reshape(groups, levels + 1, -1)


def _pairs(drawn: Releases, subset: tuple[int, ...]) -> np.ndarray:
    """Return two neighbouring cells along the last column: a/b is p/(1 - p) of the share p = a/(a + b)."""
    cells = drawn.found.cells(subset)
    first, second = np.eye(cells)[0], np.eye(cells)[1]
    return np.stack([first + second, first])[None]


def figure_of(table: pd.DataFrame) -> Figure:
    """Least coverage of every quantity by the number of rows."""
    figure, panels = new_figure(10, 3.6, 1, len(QUANTITIES), sharey=True)
    rng = np.random.default_rng(0)
    first = table[table["run"] == "first"]
    for axes, quantity in zip(panels, QUANTITIES, strict=True):
        for offset, (amount, colour) in enumerate(zip(PRICES, ("#f18f01", "#03396c"), strict=True)):
            some = first[(first["quantity"] == quantity) & (first["amount"] == amount)]
            place = np.log10(some["n"]) + 0.3 * (offset - 0.5) + rng.uniform(-0.1, 0.1, len(some))
            axes.plot(place, some["coverage"], "o", ms=2.5, alpha=0.5, color=colour, label=f"{amount} budget")
        axes.axhline(0.95, color="black", lw=0.8)
        axes.axhline(RULES.least_coverage(int(first["replicates"].iloc[0]), 0.95), color="firebrick", lw=0.8, ls="--")
        axes.set(title=quantity, xlabel="rows", xticks=np.log10(SIZES), xticklabels=[f"{n:,}" for n in SIZES])
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("least coverage among cells")
    panels[0].legend(frameon=False, fontsize=8, loc="upper right")
    return figure


BY = ["design", "amount", "measure", "neighbors", "n", "quantity"]


def run(arguments: Options) -> list[Claim]:
    """Measure the grid, rerun what fails, write table and figure."""
    least = RULES.least_coverage(arguments.replicates, 0.95)
    table, _, failed = measured_again(
        "marginals_coverage", designs(), measure, lambda row, _: row["coverage"] < least, arguments, every=23
    )
    notes = [
        "Each row is the estimate of its quantity that is covered least. Truth is the count of the rows, or what the "
        f"population expects. At least {least:.4f} is asked for. Designs rerun at ten times the replicates: "
        f"{failed}.",
        "Width is the largest mean width over that of an interval that knows the population and the law of the noise, "
        "among counts of three half widths or more, and shares of 25 rows or more whose denominator is six standard "
        "deviations of its noise or more, with Gaussian noise.",
        "A share whose denominator has no row in the population is no number, and is left out.",
    ]
    write_table(table, "marginals_coverage", arguments, notes, figure_of(table))
    what = "designs x prices x relations x rows"
    claims = [
        least_coverage(
            f"least coverage of 95% intervals from marginals: {quantity}", part, by=BY, quantities="estimates",
            design=what,
        )
        for quantity, part in table.groupby("quantity", sort=False)
    ]  # fmt: skip
    return [*claims, largest_width("mean width of intervals from marginals over the oracle's", table, by=BY)]

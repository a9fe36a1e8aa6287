"""Coverage and width of the other terms of a regression on a factor with a near-empty level."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from tqdm import tqdm

import dpinfer as dpi
from dpinfer.studies.populations import truncated_normal
from validation.common.cells import kept
from validation.common.claims import RULES, Claim, largest_width, least_coverage
from validation.common.outputs import Options, limits, new_figure, write_table

CELL = ["rows of the level", "its mean", "rho"]
N, SIGMA, SLOPE = 5000, 0.2, 0.2
LEVELS = tuple(range(1, 9))
MEANS = np.array([0.0, 0.1, -0.1, 0.05, -0.05, 0.1, -0.1])
FORMULA = "y ~ x + C(g)"
ROWS = (0, 1, 5, 20, 50, 100)
CAPS = {0: 1.6, 1: 1.6, 5: 1.6, 20: 1.4, 100: 1.05}
PRICES = (0.05, 0.1, 0.5)
TRUTH = {
    "Intercept": 0.0,
    "x": SLOPE,
    **{f"C(g)[T.{level}]": mean for level, mean in zip(LEVELS[1:-1], MEANS[1:], strict=True)},
}
WIDEST = 1.0
"""The response is declared from minus this to this."""


@dataclass(frozen=True)
class Rows:
    """Seven common levels of a factor, and an eighth with few rows.

    Attributes
    ----------
    few : int
        Rows of the eighth level.
    extreme : bool
        Whether its mean is near the end of the declared range of the response, or 0.
    declared : bool
        Whether it is a level of the factor; otherwise its rows are of the other levels.
    """

    few: int
    extreme: bool
    declared: bool = True

    @property
    def schema(self) -> dpi.Schema:
        levels = LEVELS if self.declared else LEVELS[:-1]
        return dpi.Schema(x=dpi.Real(-1, 1), g=dpi.Category(levels), y=dpi.Real(-WIDEST, WIDEST))

    def __call__(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Draw n rows; errors in an extreme level are small, so that no bound clips."""
        g = rng.integers(0, len(MEANS), n)
        x, error = rng.uniform(-1.0, 1.0, n), SIGMA * truncated_normal(rng, n)
        mean, spread = MEANS[g], np.ones(n)
        if self.declared and self.few:
            chosen = np.arange(n) < self.few
            g = np.where(chosen, len(MEANS), g)
            mean = np.where(chosen, 0.75 if self.extreme else 0.0, mean)
            spread = np.where(chosen & self.extreme, 0.1, spread)
        return {"x": x, "g": g + 1, "y": mean + SLOPE * x + spread * error}


def study(rows: Rows, price: float, replicates: int, seed: int, jobs: int) -> pd.DataFrame:
    """Return the cells of one design, by term."""
    found = dpi.coverage_study(
        rows,
        dpi.ols(FORMULA, method="gram"),
        schema=rows.schema,
        truth=TRUTH,
        n=N,
        privacy=dpi.ZCDP(price),
        replicates=replicates,
        seed=seed,
        n_jobs=jobs,
        progress=False,
    )
    return found.cells.set_index("term")


def judge(rows: Rows, price: float, without: pd.DataFrame, arguments: Options, seed: int) -> list[dict]:
    """Compare one design with that without the level; where coverage fails, run it at ten times the replicates."""
    least = RULES.least_coverage(arguments.replicates, 0.95)
    out = []
    for run, factor, plus in (("first", 1, 0), ("rerun", RULES.rerun_factor, RULES.rerun_seed)):
        replicates = factor * arguments.replicates
        found = study(rows, price, replicates, seed + plus, arguments.jobs)
        others = list(TRUTH)
        ratio = (found["width"] / without["width"])[others]
        row = {
            "rows of the level": rows.few,
            "its mean": "extreme" if rows.extreme else "middle",
            "rho": price,
            "coverage": found["coverage"][others].min(),
            "mean coverage": found["coverage"][others].mean(),
            "without the level": without["coverage"].min(),
            "width / without": ratio.max(),
            "unbounded": found["unbounded"][others].max(),
            "level not determined": found["unbounded"][f"C(g)[T.{LEVELS[-1]}]"],
            "cap": np.nan if rows.extreme else CAPS.get(rows.few, np.nan),
            "replicates": replicates,
            "run": run,
        }
        covered = row["coverage"] >= least
        row["held"] = bool(covered and row["unbounded"] == 0 and not row["width / without"] > row["cap"])
        out.append(row)
        if covered:
            break
    return out


def figure_of(table: pd.DataFrame) -> Figure:
    """Coverage and width against the rows of the level."""
    figure, (left, right) = new_figure(10, 4.2, 1, 2)
    first = table[table["run"] == "first"]
    places = {rows: place for place, rows in enumerate(ROWS)}
    for (price, mean), group in first.groupby(["rho", "its mean"], sort=False):
        at = group["rows of the level"].map(places)
        style = {"marker": "o" if mean == "middle" else "^", "ms": 4.5, "alpha": 0.8}
        left.plot(at, group["coverage"], label=f"rho {price:g}, {mean}", **style)
        right.plot(at, group["width / without"], label=f"rho {price:g}, {mean}", **style)
    least = RULES.least_coverage(int(first["replicates"].iloc[0]), 0.95)
    limits(left, 0.95, least, "least allowed")
    left.set(
        ylim=(min(0.92, least - 0.01), 1.005), ylabel="coverage of 95% intervals", title="Worst of the other terms"
    )
    caps = pd.Series(CAPS)
    right.plot(caps.index.map(places), caps, "_", color="firebrick", ms=16, label="cap of middle")
    right.set(ylabel="mean width / that without the level", title="Widest of the other terms")
    for axes in (left, right):
        axes.set_xticks(list(places.values()), [str(rows) for rows in places])
        axes.set_xlabel(f"rows of the level, of {N:,}")
        axes.legend(fontsize=7.5, frameon=False)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Run every cell, judge it, write the table and the figure."""
    cells = [(Rows(few, extreme), price) for price in PRICES for extreme in (False, True) for few in ROWS]
    without = {
        price: study(
            Rows(0, extreme=False, declared=False), price, arguments.replicates, arguments.seed, arguments.jobs
        )
        for price in PRICES
    }
    found = [
        row
        for index, (rows, price) in enumerate(tqdm(cells, desc="studies"))
        for row in kept(
            "rare_levels",
            index,
            arguments,
            partial(judge, rows, price, without[price], arguments, arguments.seed + 100 * (index + 1)),
        )
    ]
    table = pd.DataFrame(found)
    first = table["run"] == "first"
    notes = [
        f"Cells: {int(first.sum())}; failed at first: {int((first & ~table['held']).sum())}; failed again at ten times "
        f"the replicates: {int((~first & ~table['held']).sum())}.",
        f"Rules: coverage of every other term at least {RULES.least_coverage(arguments.replicates, 0.95):.4f}; all of "
        "their intervals bounded; mean width over that of the same regression without the level at most "
        + ", ".join(f"{cap:g} ({rows} rows)" for rows, cap in CAPS.items())
        + ". The level has seven others beside it; its own interval is left out. An extreme level has its mean near "
        "the end of the declared range: what it adds to the width is reported, and has no cap, for its coefficient "
        "multiplies the noise whether it is near-empty or not.",
    ]
    write_table(table, "rare_levels", arguments, notes, figure_of(table))
    return [
        least_coverage(
            "least coverage of 95% intervals of the terms beside a near-empty level",
            table,
            by=CELL,
            design=f"a level of {ROWS[0]}-{ROWS[-1]} rows of {N:,}, rho {PRICES[0]:g}-{PRICES[-1]:g}",
        ),
        largest_width(
            "largest mean width beside a near-empty level over that without the level",
            table[table["cap"].notna()],
            "width / without",
            by=CELL,
            cap="cap",
        ),
    ]

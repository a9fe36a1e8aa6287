"""Least squares by rounds where noise dominates: coverage, and sizes of tests of one coefficient and of all slopes."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression.question import Newton
from validation.common.cells import measured
from validation.common.claims import RULES, Claim, largest_size, least_coverage
from validation.common.outputs import Options, new_figure, write_table
from validation.peers.peer_designs import Design, designs
from validation.regression.newton_draws import Drawer

CELL = ["data", "n", "price", "neighbors"]
DESIGNS = {one.data: one for one in designs() if one.task == "ols" and one.data in ("fair", "simulated")}
PRICES = {
    "epsilon = 0.1": dpi.PureDP(0.1),
    "epsilon = 1": dpi.PureDP(1.0),
    "rho = 0.002": dpi.ZCDP(0.002),
    "rho = 0.02": dpi.ZCDP(0.02),
}


@dataclass(frozen=True)
class Cell:
    """Rows drawn from a population, and at what price they are asked."""

    data: str
    n: int
    price: str
    neighbors: str = "add_remove"

    @property
    def design(self) -> Design:
        """Where rows come from."""
        return DESIGNS[self.data]

    def context(self) -> Context:
        """The schema, the relation, the price, and n where it is public."""
        nobs = self.n if self.neighbors == "replace_one" else None
        return Context(self.design.schema(self.neighbors), self.neighbors, PRICES[self.price], nobs=nobs)


def cells() -> list[Cell]:
    """The grid, and the other relation on part of it."""
    main = [Cell(data, n, price) for data in DESIGNS for n in (1000, 10_000) for price in PRICES]
    return main + [
        Cell(data, 1000, price, "replace_one") for data in DESIGNS for price in ("epsilon = 1", "rho = 0.02")
    ]


def measure(cell: Cell, place: int, replicates: int, seed: int) -> dict:
    """Draw, fit, and compare with the population's own line."""
    design, rng = cell.design, np.random.default_rng([seed, place])
    drawer = Drawer(Newton(formula=design.formula, model="ols"), cell.context())
    rows = design.population
    whole = np.column_stack([np.ones(len(rows)), rows[:, :-1]])
    truth = np.linalg.lstsq(whole, rows[:, -1], rcond=None)[0]
    eye, covered, bounded, rejected, joint, by_score = np.eye(len(truth)), [], [], [], [], []
    for _ in range(replicates):
        drawn = rows[rng.integers(0, len(rows), cell.n)]
        found = drawer.estimate(dict(zip(design.names, drawn.T, strict=True)), rng)
        low, high = found.intervals(eye, 0.05).T
        covered.append((low <= truth) & (truth <= high))
        bounded.append(np.isfinite(high - low))
        rejected.append(found.contrast_pvalues(eye, truth) < 0.05)
        joint.append(found.wald(eye[1:], truth[1:])[2] < 0.05)
        by_score.append(found.method == "score")
    return {
        **asdict(cell),
        "coverage": float(np.mean(covered, axis=0).min()),
        "size": float(np.mean(rejected, axis=0).max()),
        "joint size": float(np.mean(joint)),
        "bounded": float(np.mean(bounded, axis=0).min()),
        "by score": float(np.mean(by_score)),
        "coefficients": len(truth),
        "replicates": replicates,
    }


def figure_of(table: pd.DataFrame, replicates: int) -> Figure:
    """Coverage, and sizes of tests, of every cell."""
    figure, (left, right) = new_figure(9, 3.6, 1, 2, sharey=True)
    rows = np.arange(len(table))
    names = [f"{one.data}, {one.n:,}, {one.price}, {one.neighbors}" for one in table.itertuples()]
    left.plot(table["coverage"], rows, "o", ms=4)
    left.axvline(RULES.least_coverage(replicates, 0.95), color="firebrick", lw=0.8, ls="--")
    left.set(title="Coverage of 95% intervals, worst", yticks=rows, xlim=(0.88, 1.002))
    left.set_yticklabels(names, fontsize=6)
    right.plot(table["size"], rows, "o", ms=4, label="one coefficient, worst")
    right.plot(table["joint size"], rows, "s", ms=4, mfc="none", label="all slopes")
    right.axvline(0.05, color="grey", lw=0.8)
    right.set(title="True hypotheses rejected at .05", xlim=(0, 0.15))
    right.legend(fontsize=7, frameon=False)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Run every cell, judge it, write the table and the figure."""
    table = measured("newton_weak", cells(), measure, arguments)
    notes = [
        "Rows are drawn with replacement from a population whose own least squares line is the truth. Noise dominates "
        "nearly all of these fits. Coverage and size: of the worst coefficient; joint size: of the test of all slopes.",
    ]
    write_table(table, "newton_weak", arguments, notes, figure_of(table, arguments.replicates))
    where = f"{len(DESIGNS)} populations, n 1,000 and 10,000, epsilon .1 and 1, rho .002 and .02"
    by = {"by": CELL, "design": where}
    return [
        least_coverage(
            "least coverage of 95% intervals of a coefficient, least squares by rounds where noise dominates",
            table, held=None, quantities="coefficients", **by,
        ),
        largest_size("size at .05 of tests of a coefficient, least squares by rounds where noise dominates",
                     table, "size", level=0.05, **by),
        largest_size("size at .05 of the joint test of slopes, least squares by rounds where noise dominates",
                     table, "joint size", level=0.05, **by),
    ]  # fmt: skip

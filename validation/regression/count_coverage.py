"""Coverage and width of private intervals of count regressions, for counts that spread as their law says, and more."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from tqdm import tqdm

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.procedures.newton import Newton
from validation.common.outputs import Claim, Options, write_figure, write_table
from validation.regression.newton_draws import Drawer

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOPES = np.array([0.4, -0.3, 0.5])
LEAST, WIDEST = 0.9376, 1.15


@dataclass(frozen=True)
class Cell:
    """Counts of one law, at a size, a mean and a price."""

    law: str
    model: str
    n: int
    mean: float
    rho: float
    neighbors: str = "add_remove"

    @property
    def name(self) -> str:
        return f"{self.law}-{self.model}-{self.n}-{self.mean:g}-{self.rho:g}-{self.neighbors}"

    def rows(self, rng: np.random.Generator, truth: np.ndarray) -> dict[str, np.ndarray]:
        """Draw one data set."""
        x = regressors(rng, self.n)
        mean = np.exp(truth[0] + truth[1:] @ x)
        if self.law == "poisson":
            y = rng.poisson(mean)
        elif self.law == "six times the mean":
            y = rng.poisson(rng.gamma(mean / 5, 5.0))
        elif self.law == "gamma heterogeneity":
            y = rng.poisson(mean * rng.gamma(1.0, 1.0, self.n))
        else:
            y = rng.poisson(mean / 0.6) * (rng.random(self.n) < 0.6)
        return {**{f"x{j + 1}": x[j] for j in range(3)}, "y": np.minimum(y, self.most).astype(float)}

    @property
    def most(self) -> int:
        """Declared bound of the response."""
        return int(100 * self.mean) + 20


def regressors(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw three regressors of about unit variance: normal, two points, skewed."""
    normal = np.clip(rng.normal(0, 1, n), -2.86, 2.86)
    return np.stack([normal, 2.0 * (rng.random(n) < 0.4) - 1, (2 * rng.beta(2, 5, n) - 1) / 0.32])


def truth_of(cell: Cell) -> np.ndarray:
    """Coefficients with which the mean response is that of the cell."""
    x = regressors(np.random.default_rng(0), 400_000)
    return np.concatenate([[np.log(cell.mean / np.exp(SLOPES @ x).mean())], SLOPES])


def cells() -> Iterator[Cell]:
    """List all of them."""
    for law, model in (
        ("poisson", "poisson"),
        ("six times the mean", "poisson"),
        ("gamma heterogeneity", "poisson"),
        ("gamma heterogeneity", "negativebinomial"),
        ("zero inflation", "poisson"),
    ):
        for n, mean in ((300, 1.0), (1000, 2.0), (10_000, 1.0), (10_000, 0.1)):
            for rho in (0.1, 0.5):
                yield Cell(law, model, n, mean, rho)
    yield Cell("poisson", "poisson", 10_000, 1.0, 0.5, "replace_one")


def study(cell: Cell, replicates: int, seed: int) -> dict[str, float | str]:
    """Return coverage and width of a cell."""
    rng, truth = np.random.default_rng([seed, *cell.name.encode()]), truth_of(cell)
    schema = dpi.Schema(x1=dpi.Real(-3, 3), x2=dpi.Real(-1, 1), x3=dpi.Real(-3.2, 3.2), y=dpi.Integer(0, cell.most))
    parameter = 1.0 if cell.model == "negativebinomial" else None
    question = Newton(formula="y ~ x1 + x2 + x3", model=cell.model, parameter=parameter, ranges=False)
    drawer = Drawer(question, Context(schema, cell.neighbors, dpi.ZCDP(cell.rho)))
    errors, widths, covered, clear = [], [], [], []
    for _ in range(replicates):
        found = drawer.estimate(cell.rows(rng, truth), rng)
        ends = found.intervals(np.eye(4), 0.05)
        errors.append(found.params - truth)
        widths.append(ends[:, 1] - ends[:, 0])
        covered.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        clear.append(not found.fit.flagged)
    kept = np.array(clear)
    if kept.sum() < 2:
        return {"cell": cell.name, "flagged": 1.0}
    shares = np.array(covered)[kept].mean(axis=0)
    ratio = np.median(np.array(widths)[kept], axis=0) / (2 * 1.96 * np.array(errors)[kept].std(axis=0))
    return {
        "cell": cell.name,
        "slopes": float(shares[1:].min()),
        "intercept": float(shares[0]),
        "width / oracle": float(ratio[1:].max()),
        "flagged": float(1 - kept.mean()),
        "replicates": float(replicates),
    }


def run(arguments: Options) -> list[Claim]:
    """Run every cell that is not yet stored, and write the table and the figure."""
    store = Path(arguments.out) / "count_coverage.jsonl"
    store.parent.mkdir(parents=True, exist_ok=True)
    lines = store.read_text().splitlines() if store.exists() else []
    done = {(one["cell"], one.get("asked")): one for one in map(json.loads, lines)}
    key = [arguments.replicates, arguments.seed]
    for cell in tqdm(list(cells()), desc="cells"):
        if (cell.name, str(key)) not in done:
            found = {**study(cell, arguments.replicates, arguments.seed), "asked": str(key)}
            done[cell.name, str(key)] = found
            with store.open("a") as file:
                file.write(json.dumps(found) + "\n")
    table = pd.DataFrame([done[cell.name, str(key)] for cell in cells()]).drop(columns="asked")
    error = 3.7 * np.sqrt(0.95 * 0.05 / arguments.replicates)
    table["held"] = (table["slopes"] >= min(LEAST, 0.95 - error)) & (table["width / oracle"] <= WIDEST + error)
    notes = [
        "The oracle knows the standard deviation of the estimator itself, over all replicates that are not flagged."
    ]
    write_table(table, "count_coverage", arguments, notes)
    write_figure(figure_of(table), "count_coverage", arguments)
    return [
        Claim(
            "least coverage of 95% intervals of a slope of counts, unflagged",
            f"{len(table)} cells",
            "",
            f"{table['slopes'].min():.4f}",
            f"{error / 3.7:.4f}",
            bool(table["held"].all()),
        )
    ]


def figure_of(table: pd.DataFrame) -> Figure:
    """Draw coverage by cell."""
    figure = Figure(figsize=(8, 6), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(table))
    axes.plot(table["slopes"], places, "o", label="worst slope")
    axes.plot(table["intercept"], places, "s", label="intercept")
    axes.axvline(0.95, color="black", lw=0.8)
    axes.axvline(LEAST, color="firebrick", lw=0.8, ls="--")
    axes.set(yticks=places, yticklabels=table["cell"], xlabel="coverage of 95% intervals, unflagged")
    axes.legend(frameon=False)
    return figure


def _read() -> Options:
    parser = argparse.ArgumentParser(prog="python -m validation.regression.count_coverage", description=__doc__)
    parser.add_argument("--full", action="store_true", help="5,000 replicates a cell")
    parser.add_argument("--replicates", type=int, default=10, help="replicates a cell (default %(default)s)")
    parser.add_argument("--seed", type=int, default=20261120, help="seed of the simulation (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("short"), help="directory of the outputs")
    read = parser.parse_args()
    replicates = 5000 if read.full else read.replicates
    return Options(replicates, read.seed, 1, read.out, "python -m validation.regression.count_coverage --full")


if __name__ == "__main__":
    run(_read())

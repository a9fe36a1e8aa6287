"""What a coverage study found."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from statsmodels.iolib.table import SimpleTable

from dpinfer.display.report import Report, Reported, Table, count
from dpinfer.studies import plots
from dpinfer.studies.measures import Replicates, performance
from dpinfer.studies.oracle import study_oracles
from dpinfer.studies.rules import Rules
from dpinfer.studies.running import run_design

if TYPE_CHECKING:
    import os

    from matplotlib.axes import Axes

    from dpinfer.studies.design import Design, Task
    from dpinfer.studies.oracle import StudyOracle

__all__ = ["StudyResults"]

_SHOWN = ("bias", "empirical SE", "relative error of model SE (%)", "coverage", "MCSE of coverage", "width",
          "width / oracle", "width / baseline", "unbounded", "not determined", "coverage where determined",
          "rejection", "flagged", "failures", "kappa")  # fmt: skip


class StudyResults(Reported):
    """Replicates and measures of a coverage study; made by `dpinfer.coverage_study`.

    Attributes
    ----------
    design : Design
    complete : bool
        Whether every block was run.
    """

    def __init__(self, design: Design, blocks: list[tuple[Task, pa.Table]]) -> None:
        self.design = design
        self.complete = len(blocks) == len(design.tasks)
        self._blocks = blocks

    @cached_property
    def table(self) -> pa.Table:
        """All replicates as an Arrow table."""
        return pa.concat_tables([block.replace_schema_metadata(None) for _, block in self._blocks])

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row per replicate, price and coefficient."""
        frame: pd.DataFrame = self.table.to_pandas()
        frame.insert(0, "n", np.array(self.design.n)[frame.pop("size").to_numpy()])
        prices = np.array([str(price) for price in self.design.privacy], dtype=object)
        frame.insert(1, "privacy", prices[frame.pop("price").to_numpy()])
        return frame

    @cached_property
    def cells(self) -> pd.DataFrame:
        """A row per cell (n, price, coefficient) with every measure and its Monte Carlo standard error."""
        rows = []
        for key, group in self.frame.groupby(["n", "privacy", "term"], sort=False):
            n, privacy, term = cast("tuple[int, str, str]", key)
            truth = self.truth(term, n)
            values = _replicates(group)
            row = {"n": n, "privacy": privacy, "term": term, "truth": truth}
            row |= performance(values, truth, level=self.design.level)
            row |= self._beside(group, row, n, privacy, term)
            rows.append(row)
        return pd.DataFrame(rows)

    def truth(self, term: str, n: int) -> float:
        """Return the true value of a coefficient at a number of rows: the given one, or the population's own."""
        if self.design.truth is not None:
            return float(self.design.truth.get(term, np.nan))
        known = next((one for (rows, _), one in self._oracles.items() if rows == n and term in one.names), None)
        return float("nan") if known is None else float(known.center[known.names.index(term)])

    def _beside(self, group: pd.DataFrame, row: dict[str, Any], n: int, privacy: str, term: str) -> dict[str, float]:
        """Widths against the oracle and the baseline."""
        out: dict[str, float] = {}
        oracle = self._oracles.get((n, privacy))
        if oracle is not None:
            out |= oracle.beside(row, term)
        if "baseline lower" in group:
            lower, upper = group["baseline lower"], group["baseline upper"]
            truth = row["truth"]
            out |= {
                "width / baseline": row["width"] / float((upper - lower).mean()),
                "baseline coverage": float(((lower <= truth) & (truth <= upper)).mean()),
                "baseline empirical SE": float(group["baseline estimate"].std()),
            }
        return out

    @cached_property
    def _oracles(self) -> dict[tuple[int, str], StudyOracle]:
        found: dict[tuple[int, str], StudyOracle] = {}
        for size, n in enumerate(self.design.n):
            blocks = [block for task, block in self._blocks if task.size == size]
            if blocks:
                known = study_oracles(self.design, size, blocks)
                found |= {(n, str(price)): one for price, one in zip(self.design.privacy, known, strict=True)}
        return found

    def __repr__(self) -> str:
        state = "" if self.complete else " (interrupted)"
        return (
            f"<StudyResults{state}: {len(self.design.n)} sizes x {len(self.design.privacy)} prices, "
            f"{self.design.replicates:,} replicates of {self.design.procedure!r}>"
        )

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write all replicates to a Parquet file; equal studies give equal bytes."""
        pq.write_table(self.table, path)

    def failures(self) -> pd.DataFrame:
        """Count the messages of replicates that failed."""
        once = self.frame.drop_duplicates(["n", "privacy", "replicate"])
        failed = once[once["failure"] != ""]
        return failed.groupby(["n", "privacy", "failure"]).size().rename("replicates").reset_index()

    def summary(self) -> pd.DataFrame:
        """Return the measures most looked at, a row per cell."""
        shown = [name for name in _SHOWN if name in self.cells]
        return self.cells.set_index(["n", "privacy", "term"])[shown]

    def check(self, rules: Rules | None = None, *, rerun: bool = True, n_jobs: int = 1) -> pd.DataFrame:
        """Judge every cell whose truth is known.

        Parameters
        ----------
        rules : Rules, optional
        rerun : bool
            Whether a cell that fails is run once more, at ``rules.rerun_factor`` times the replicates with the
            seed ``rules.rerun_seed`` further on, and judged by the same threshold. Both runs are in the table.
        n_jobs : int

        Returns
        -------
        DataFrame
            The cells with "run" ("first" or "rerun"), "verdict" and "held".
        """
        rules = rules or Rules()
        nulls = int((self.cells["truth"] == 0).sum())
        least = rules.least_coverage(self.design.replicates, self.design.level)
        most = rules.largest_size(self.design.replicates, self.design.level, nulls)
        judged = self._judged(rules, least, most, "first", self.design.replicates)
        if not rerun:
            return judged
        failed = judged.loc[~judged["held"], ["n", "privacy"]].drop_duplicates()
        again = [self._again(rules, n, privacy, least, most, n_jobs) for n, privacy in failed.itertuples(index=False)]
        keys = set(zip(judged["n"], judged["privacy"], judged["term"], judged["held"], strict=True))
        kept = [
            part[[(n, p, t, False) in keys for n, p, t in zip(part["n"], part["privacy"], part["term"], strict=True)]]
            for part in again
        ]
        return pd.concat([judged, *kept], ignore_index=True)

    def _judged(self, rules: Rules, least: float, most: float, run: str, replicates: int) -> pd.DataFrame:
        cells: pd.DataFrame = self.cells[np.isfinite(self.cells["truth"])].copy()
        cells["run"] = run
        level = self.design.level
        cells["verdict"] = [
            rules.verdict(cell, level=level, least=least, most=most, replicates=replicates)
            for cell in cells.to_dict("records")
        ]
        cells["held"] = cells["verdict"] == "holds"
        return cells

    def _again(self, rules: Rules, n: int, privacy: str, least: float, most: float, n_jobs: int) -> pd.DataFrame:
        design = replace(
            self.design,
            n=(n,),
            privacy=tuple(price for price in self.design.privacy if str(price) == privacy),
            replicates=rules.rerun_factor * self.design.replicates,
            seed=self.design.seed + rules.rerun_seed,
            baseline=None,
        )
        again = StudyResults(design, run_design(design, n_jobs=n_jobs))
        return again._judged(rules, least, most, "rerun", self.design.replicates)

    def _report(self) -> Report:
        design, failed = self.design, self.failures()
        facts = (
            ("question", str(design.procedure)),
            ("replicates", f"{count(design.replicates)}{'' if self.complete else ' (interrupted)'}"),
            ("level of intervals", f"{design.level:g}"),
            ("neighbours", design.neighbors),
        )
        tables = [Table.of(self.summary())]
        if len(failed):
            tables.append(Table.of(failed, index=False, caption="Replicates that failed"))
        return Report("Coverage study", facts, tuple(tables))

    def to_latex(self) -> str:
        """Return the summary as LaTeX."""
        flat = self.summary().reset_index()
        cells = [[f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row] for row in flat.to_numpy()]
        return str(SimpleTable(cells, headers=[name.replace("%", r"\%") for name in flat.columns]).as_latex_tabular())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Coverage of every cell with Monte Carlo bands; see `plot_coverage`."""
        return self.plot_coverage(ax=ax)

    def plot_coverage(self, *, ax: Axes | None = None) -> Axes:
        """Coverage of every cell with Monte Carlo bands; see `dpinfer.studies.plots.coverage_plot`."""
        return plots.coverage_plot(self, ax=ax)

    def plot_nested_loop(self, measure: str = "coverage", *, ax: Axes | None = None) -> Axes:
        """One measure over all cells as a nested-loop plot."""
        return plots.nested_loop_plot(self, measure, ax=ax)

    def plot_zip(self, term: str, *, n: int | None = None, privacy: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the intervals of one cell, ranked by how far they are from the truth."""
        return plots.zip_plot(self, term, n=n, privacy=privacy, ax=ax)

    def plot_pvalues(self, term: str, *, ax: Axes | None = None) -> Axes:
        """Quantiles of the p-values of one coefficient against the uniform."""
        return plots.pvalue_plot(self, term, ax=ax)


def _replicates(group: pd.DataFrame) -> Replicates:
    numbers = {
        name: group[name].to_numpy(dtype=np.float64) for name in ("estimate", "error", "lower", "upper", "pvalue")
    }
    failed = (group["failure"] != "").to_numpy() | np.isnan(numbers["lower"]) | np.isnan(numbers["upper"])
    return Replicates(**numbers, flagged=group["flagged"].to_numpy(dtype=bool), failed=failed)

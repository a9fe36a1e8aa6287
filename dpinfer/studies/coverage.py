"""Coverage studies: coverage, width, the effect of the noise, and the rules by which cells are judged.

Measures and their Monte Carlo standard errors follow Morris, White & Crowther (2019), table 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import stats
from statsmodels.iolib.table import SimpleTable

from dpinfer.checks import is_list
from dpinfer.display.progress import check_progress
from dpinfer.display.report import Report, Reported, Table, count
from dpinfer.errors import DataError, DPInferError, OptionError, names_of
from dpinfer.results.drawing import FAINT, MARKED, SMALL, given_or_new, ink, legend, restrain, titled
from dpinfer.studies.simulation import Design, Task, draw_columns, run_block, run_design, study_oracles

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes

    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.procedures.procedure import Procedure
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array, Mask
    from dpinfer.studies.simulation import StudyOracle

__all__ = ["Rules", "StudyResults", "coverage_study", "performance"]

_SHOWN = ("bias", "empirical SE", "relative error of model SE (%)", "coverage", "MCSE of coverage", "width",
          "width / oracle", "width / baseline", "unbounded", "not determined", "coverage where determined",
          "rejection", "flagged", "failures", "kappa")  # fmt: skip


def coverage_study(
    generate: Callable[[np.random.Generator, int], Any],
    procedure: Procedure,
    *,
    schema: Schema,
    truth: Mapping[str, float] | None,
    n: int | Sequence[int],
    privacy: Privacy | Sequence[Privacy],
    neighbors: Neighbors = "add_remove",
    replicates: int = 2000,
    level: float = 0.95,
    seed: int = 0,
    n_jobs: int = 1,
    progress: bool | None = True,
    checkpoint: str | os.PathLike[str] | None = None,
    baseline: Callable[[Any], Any] | None = None,
    contrasts: Mapping[str, Mapping[str, float]] | None = None,
) -> StudyResults:
    """Simulate the coverage of a procedure's intervals, its standard errors and its tests.

    Parameters
    ----------
    generate : callable
        ``generate(rng, n)`` draws one data set: a dict of arrays of length n (fast) or a DataFrame.
    procedure : Procedure
        A question that is not bound to data, or any object with ``bind(data)`` and ``fit(privacy)`` whose results have
        ``params``, ``bse``, ``pvalues`` and ``conf_int``. If it has ``estimate``, the study is vectorised.
    schema : Schema
    truth : mapping of str to float, or None
        True values of coefficients, by name; other coefficients are reported without coverage. For a misspecified model
        the true values are the pseudo-true parameters. None takes them from the study itself: the noiseless estimates
        from the expected sums of all data sets or, if data sets are fitted one by one, the mean of the noiseless
        estimates, which hides their small-sample bias. Either has a Monte Carlo error of one standard error over the
        square root of the number of replicates. With an empty mapping nothing is compared, and if data sets are fitted
        one by one no noiseless estimates are computed.
    n : int or sequence of int
        Numbers of rows.
    privacy : Privacy or sequence of Privacy
        Privacy parameters; all of them are studied on the same data.
    neighbors : {"add_remove", "replace_one"}
    replicates : int
    level : float
        Nominal coverage.
    seed : int
        The results depend on it and on the design, not on ``n_jobs``.
    n_jobs : int
        Number of worker processes, run by joblib with the active backend.
    progress : bool or None
        Whether to show a progress bar; None takes the setting of `dpinfer.show_progress`.
    checkpoint : path-like, optional
        A directory that stores every block as Parquet, so that an interrupted study can be resumed.
    baseline : callable, optional
        A non-private fit of the same data: ``baseline(frame)`` returns results of statsmodels.
    contrasts : mapping of name to weights by coefficient, optional
        Further quantities to study like coefficients, such as ``{"x - z": {"x": 1, "z": -1}}``.

    Returns
    -------
    StudyResults
        Of the completed blocks, if interrupted from the keyboard.

    Raises
    ------
    OptionError
        If an option is invalid, ``truth`` names an unknown coefficient, or ``checkpoint`` holds another design.
    DataError
        If the first draw of ``generate`` fails or returns the wrong columns. Later failures are counted.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> from dpinfer.studies import population
    >>> one = population("one uniform")
    >>> study = dpi.coverage_study(
    ...     one.generate, dpi.ols(one.formula, method="gram"), schema=one.schema, truth=one.truth, n=500,
    ...     privacy=dpi.ZCDP(0.5), replicates=200, seed=1, progress=False,
    ... )
    >>> cells = study.cells.set_index("term")
    >>> bool(0.88 < cells.loc["x0", "coverage"] <= 1)
    True
    """
    check_progress(progress)

    def listed(value: Any) -> tuple[Any, ...]:
        return tuple(value) if is_list(value) else (value,)

    known = None if truth is None else dict(truth)
    more = dict(contrasts or {})
    sizes, prices, numbers = listed(n), listed(privacy), (replicates, level, seed)
    design = Design(generate, procedure, schema, known, sizes, prices, neighbors, *numbers, baseline, more)
    _rehearse(design)
    folder = None if checkpoint is None else Path(checkpoint)
    return StudyResults(design, run_design(design, n_jobs=n_jobs, progress=progress, folder=folder))


def _rehearse(design: Design) -> None:
    """Draw and fit once at the smallest size, so that an invalid design fails at once."""
    rng = np.random.default_rng(np.random.SeedSequence(design.seed, spawn_key=(2**31,)))
    try:
        draw_columns(design, rng, min(design.n))
    except DPInferError:
        raise
    except Exception as error:
        raise DataError(f"generate failed at n = {min(design.n)}: {type(error).__name__}: {error}") from error
    least = replace(design, n=(min(design.n),), privacy=design.privacy[:1], replicates=1)
    trial = run_block(least, Task(0, 0, 1))
    if trial.column("failure")[0].as_py() and not design.estimates_many:
        return
    known = trial.column("term").to_pylist()
    unknown = [name for name in design.truth or () if name not in known]
    if unknown:
        raise OptionError("truth", names_of(unknown), f"names among {', '.join(known)}")


class StudyResults(Reported):
    """Replicates and performance measures of a coverage study, as `dpinfer.coverage_study` returns them.

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
        """All replicates as a table, a row per replicate, privacy parameters and coefficient."""
        frame: pd.DataFrame = self.table.to_pandas()
        frame.insert(0, "n", np.array(self.design.n)[frame.pop("size").to_numpy()])
        prices = np.array([str(price) for price in self.design.privacy], dtype=object)
        frame.insert(1, "privacy", prices[frame.pop("price").to_numpy()])
        return frame

    @cached_property
    def cells(self) -> pd.DataFrame:
        """Every measure and its Monte Carlo standard error, a row per cell (n, privacy, coefficient)."""
        rows = []
        for key, group in self.frame.groupby(["n", "privacy", "term"], sort=False):
            n, privacy, term = cast("tuple[int, str, str]", key)
            failed = (group["failure"] != "") | group["lower"].isna() | group["upper"].isna()
            truth, oracle = self.truth(term, n), self._oracles.get((n, privacy))
            row: dict[str, Any] = {"n": n, "privacy": privacy, "term": term, "truth": truth}
            row |= performance(group.assign(failed=failed), truth, level=self.design.level)
            if oracle is not None:
                row |= oracle.compared(row, term)
            if "baseline lower" in group:
                lower, upper = group["baseline lower"], group["baseline upper"]
                row["width / baseline"] = row["width"] / float((upper - lower).mean())
                row["baseline coverage"] = float(((lower <= truth) & (truth <= upper)).mean())
                row["baseline empirical SE"] = float(group["baseline estimate"].std())
            rows.append(row)
        return pd.DataFrame(rows)

    def truth(self, term: str, n: int) -> float:
        """Return the true value of a coefficient at a number of rows, as given or from the population."""
        if self.design.truth is not None:
            return float(self.design.truth.get(term, np.nan))
        known = next((one for (rows, _), one in self._oracles.items() if rows == n and term in one.names), None)
        return float("nan") if known is None else float(known.center[known.names.index(term)])

    @cached_property
    def _oracles(self) -> dict[tuple[int, str], StudyOracle]:
        """Oracles by number of rows and privacy parameters."""
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
            f"<StudyResults{state}: {len(self.design.n)} sizes x {len(self.design.privacy)} privacy parameters, "
            f"{self.design.replicates:,} replicates of {self.design.procedure!r}>"
        )

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write all replicates to a Parquet file; equal studies give identical files."""
        pq.write_table(self.table, path)

    def failures(self) -> pd.DataFrame:
        """Count the failed replicates by error message."""
        once = self.frame.drop_duplicates(["n", "privacy", "replicate"])
        failed = once[once["failure"] != ""]
        return failed.groupby(["n", "privacy", "failure"]).size().rename("replicates").reset_index()

    def summary(self) -> pd.DataFrame:
        """Return the main measures, a row per cell."""
        shown = [name for name in _SHOWN if name in self.cells]
        return self.cells.set_index(["n", "privacy", "term"])[shown]

    def check(self, rules: Rules | None = None, *, rerun: bool = True, n_jobs: int = 1) -> pd.DataFrame:
        """Judge every cell whose true value is known.

        Parameters
        ----------
        rules : Rules, optional
        rerun : bool
            Whether to rerun a cell that fails, with ``rules.rerun_factor`` times the replicates and
            ``rules.rerun_seed`` added to the seed. The rerun is judged by the same threshold, and the table holds both
            runs.
        n_jobs : int

        Returns
        -------
        DataFrame
            The cells with "run" ("first" or "rerun"), "verdict" and "held".
        """
        rules = rules or Rules()
        design = self.design
        nulls = int((self.cells["truth"] == 0).sum())
        least = rules.least_coverage(design.replicates, design.level)
        most = rules.largest_size(design.replicates, design.level, nulls)

        def judged(study: StudyResults, run: str) -> pd.DataFrame:
            cells: pd.DataFrame = study.cells[np.isfinite(study.cells["truth"])].copy()
            cells["run"] = run
            cells["verdict"] = [
                rules.verdict(cell, level=design.level, least=least, most=most, replicates=design.replicates)
                for cell in cells.to_dict("records")
            ]
            cells["held"] = cells["verdict"] == "holds"
            return cells

        parts = [judged(self, "first")]
        broken = parts[0].loc[~parts[0]["held"], ["n", "privacy", "term"]] if rerun else parts[0].iloc[:0]
        for (n, privacy), group in broken.groupby(["n", "privacy"], sort=False):
            prices = tuple(price for price in design.privacy if str(price) == privacy)
            many, seed = rules.rerun_factor * design.replicates, design.seed + rules.rerun_seed
            cell: Any = {"n": (n,), "privacy": prices, "replicates": many, "seed": seed, "baseline": None}
            again = replace(design, **cell)
            part = judged(StudyResults(again, run_design(again, n_jobs=n_jobs)), "rerun")
            parts.append(part[part["term"].isin(group["term"])])
        return pd.concat(parts, ignore_index=True) if rerun else parts[0]

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

    # Figures

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the coverage of every cell with Monte Carlo bands; see `plot_coverage`."""
        return self.plot_coverage(ax=ax)

    def plot_coverage(self, *, ax: Axes | None = None) -> Axes:
        """Plot the coverage of every cell with 95% Monte Carlo bands, and the least coverage allowed."""
        cells, level = self.cells[np.isfinite(self.cells["coverage"])], self.design.level
        labels = [f"{row.term}   n = {row.n:,}   {row.privacy}" for row in cells.itertuples()]
        axes = given_or_new(ax, 7.0, 1.2 + 0.22 * len(cells))
        place = np.arange(len(cells))[::-1]
        band = 1.96 * cells["MCSE of coverage"]
        axes.errorbar(cells["coverage"], place, xerr=band, fmt="o", ms=4, lw=1.2, color="C0")
        axes.axvline(level, color=ink(), lw=0.8)
        axes.axvline(Rules().least_coverage(self.design.replicates, level), color=MARKED, lw=1.0, ls="--")
        axes.set(xlabel=f"coverage of {level:.0%} intervals", yticks=place, yticklabels=labels)
        axes.tick_params(axis="y", labelsize=SMALL)
        restrain(axes)
        return axes

    def plot_nested_loop(self, measure: str = "coverage", *, ax: Axes | None = None) -> Axes:
        """Plot one measure as a step line per coefficient, with privacy nested within number of rows.

        ``measure`` is a column of ``cells``. A nested loop plot: Ruecker & Schwarzer (2014).
        """
        cells = self.cells
        if measure not in cells:
            raise OptionError("measure", measure, sorted(cells.columns))
        axes = given_or_new(ax, 8.0, 4.2)
        order = cells[["n", "privacy"]].drop_duplicates().reset_index(drop=True)
        edges = np.arange(len(order) + 1) - 0.5
        for term, group in cells.groupby("term", sort=False):
            values = order.merge(group, on=["n", "privacy"], how="left")[measure]
            axes.stairs(values, edges, baseline=None, lw=1.6, label=str(term))
        if measure == "coverage":
            axes.axhline(self.design.level, color=ink(), lw=0.8)
        for index in range(1, len(order)):
            if order["n"][index] != order["n"][index - 1]:
                axes.axvline(index - 0.5, color=FAINT, lw=0.6, ls=":")
        labels = [f"n = {n:,}\n{privacy}" for n, privacy in order.itertuples(index=False)]
        axes.set(xticks=np.arange(len(order)), xticklabels=labels, ylabel=measure)
        axes.tick_params(axis="x", labelsize="x-small", rotation=45 if len(order) > 4 else 0)
        restrain(axes)
        legend(axes)
        return axes

    def plot_zip(self, term: str, *, n: int | None = None, privacy: str | None = None, ax: Axes | None = None) -> Axes:
        """Plot the intervals of one cell, by default the first, ranked by the distance of the truth.

        Distance is in standard errors. Intervals that miss the truth have the second colour of the theme; the dashed
        line is the nominal level. A zip plot: Morris, White & Crowther (2019).
        """
        known, level = self.design.truth, self.design.level
        if known is not None and term not in known:
            raise OptionError("term", term, sorted(known))
        frame = self._of_term(term)
        n = self.design.n[0] if n is None else n
        truth = self.truth(term, n)
        chosen = str(self.design.privacy[0]) if privacy is None else str(privacy)
        cell = frame[(frame["n"] == n) & (frame["privacy"] == chosen) & (frame["failure"] == "")]
        if cell.empty:
            raise OptionError("n, privacy", (n, chosen), "a cell of the study")
        away = np.abs(cell["estimate"] - truth) / cell["error"]
        rank = 100 * away.rank(method="first").to_numpy() / len(cell)
        misses = ((cell["lower"] > truth) | (cell["upper"] < truth)).to_numpy()
        finite = np.concatenate([cell["lower"], cell["upper"]])
        finite = finite[np.isfinite(finite)]
        edge = (np.quantile(finite, 0.001), np.quantile(finite, 0.999)) if finite.size else (truth - 1, truth + 1)
        low, high = np.clip(cell["lower"], *edge), np.clip(cell["upper"], *edge)
        axes = given_or_new(ax, 5.0, 5.5)
        axes.hlines(rank, low, high, colors=[MARKED if miss else "C0" for miss in misses], lw=0.5)
        axes.axvline(truth, color=ink(), lw=0.8)
        axes.axhline(100 * level, color=ink(), lw=0.8, ls="--")
        axes.set(xlabel=f"{term}: {level:.0%} intervals", ylabel="rank of the distance from the truth (%)")
        titled(axes, f"n = {n:,}, {chosen}")
        restrain(axes)
        return axes

    def plot_pvalues(self, term: str, *, ax: Axes | None = None) -> Axes:
        """Plot quantiles of the p-values against the uniform distribution, with a pointwise 95% band.

        The p-values test that a coefficient is zero, and are uniform if that is true.
        """
        axes = given_or_new(ax, 4.8, 4.8)
        size = self.design.replicates
        rank = np.arange(1, size + 1)
        for (n, privacy), cell in self._of_term(term).groupby(["n", "privacy"], sort=False):
            values = np.sort(cell["pvalue"].fillna(1.0).to_numpy())
            axes.plot(np.arange(1, len(values) + 1) / (len(values) + 1), values, lw=1.4, label=f"n = {n:,}, {privacy}")
        low, high = stats.beta.ppf([[0.025], [0.975]], rank, size + 1 - rank)
        axes.fill_between(rank / (size + 1), low, high, color=FAINT, alpha=0.25, lw=0)
        axes.plot([0, 1], [0, 1], color=ink(), lw=0.8)
        axes.set(xlabel="uniform quantile", ylabel=f"p-value of {term} = 0", xlim=(0, 1), ylim=(0, 1))
        restrain(axes)
        legend(axes)
        return axes

    def _of_term(self, term: str) -> pd.DataFrame:
        terms = self.frame["term"]
        if term not in set(terms):
            raise OptionError("term", term, sorted(set(terms)))
        return self.frame[terms == term]


_DETERMINED = "coverage where determined"
_WITH_ERRORS = (
    "bias", "empirical SE", "mean squared error", "model SE", "relative error of model SE (%)", "width",
    "bias-eliminated coverage",
)  # fmt: skip
_MOMENTS = (*_WITH_ERRORS, *(f"MCSE of {name}" for name in _WITH_ERRORS), "unbounded")


def performance(cell: Any, truth: float, *, level: float) -> dict[str, float]:
    """Compute the performance measures of one coefficient in one cell.

    Parameters
    ----------
    cell : DataFrame, or mapping of str to ndarray (R,)
        For every replicate "estimate", "error", "lower", "upper" and "pvalue" (of zero), NaN if it failed, and whether
        it was "flagged" or "failed". An estimate that is NaN in a replicate that did not fail is not identified; it has
        an interval.
    truth : float
        NaN if it is unknown; measures that need it are then NaN.
    level : float
        Nominal coverage.

    Returns
    -------
    dict of str to float
        Each measure under its name, and its Monte Carlo standard error under "MCSE of" that name. Coverage and
        rejection are shares of *all* replicates: a failed one covers nothing and rejects nothing. The interval of an
        estimate that is not identified is included; "coverage where determined" excludes it, as bias and standard
        errors do.
    """
    numbers = (np.asarray(cell[name], dtype=np.float64) for name in ("estimate", "error", "lower", "upper", "pvalue"))
    estimate, error, lower, upper, pvalue = numbers
    flagged, failed = (np.asarray(cell[name], dtype=bool) for name in ("flagged", "failed"))
    done = ~failed
    total, count = len(done), int(done.sum())
    known = done & np.isfinite(estimate)
    covered = done & (lower <= truth) & (truth <= upper)
    true = bool(np.isfinite(truth))
    tested = not count or not np.isnan(pvalue[done]).all()
    out = {"replicates": float(total), "failures": float(total - count)}
    out |= _share("flagged", flagged & done, total)
    out |= _share("not determined", done & ~known, total)
    out |= _share(_DETERMINED, covered & known, int(known.sum()), known=true and bool(known.any()))
    out |= _share("coverage", covered, total, known=true)
    out |= _share("rejection", done & (pvalue <= 1 - level), total, known=tested)
    if count >= 2 and known.sum() >= 2:
        centre = float(np.mean(estimate[known]))
        around = done & (lower <= centre) & (centre <= upper)
        out |= _share("bias-eliminated coverage", around, total)
        out |= _moments(estimate[known], error[known], truth)
    if count >= 2:
        width = upper[done] - lower[done]
        bounded = width[np.isfinite(width)]
        out["width"] = float(np.mean(bounded)) if bounded.size else np.inf
        several = bounded.size > 1
        out["MCSE of width"] = float(np.std(bounded, ddof=1) / np.sqrt(bounded.size)) if several else np.nan
        out["unbounded"] = float((width.size - bounded.size) / total)
    return out | {name: np.nan for name in _MOMENTS if name not in out}


def _moments(estimate: Array, error: Array, truth: float) -> dict[str, float]:
    count = estimate.size
    empirical = float(np.std(estimate, ddof=1))
    squares = (estimate - truth) ** 2
    mean_variance = float(np.mean(error**2))
    model = float(np.sqrt(mean_variance))
    spread = float(np.var(error**2, ddof=1)) / (4 * count * mean_variance**2) if mean_variance > 0 else np.nan
    ratio = model / empirical if empirical > 0 else np.nan
    return {
        "bias": float(np.mean(estimate) - truth),
        "MCSE of bias": empirical / np.sqrt(count),
        "empirical SE": empirical,
        "MCSE of empirical SE": empirical / np.sqrt(2 * (count - 1)),
        "mean squared error": float(np.mean(squares)),
        "MCSE of mean squared error": float(np.std(squares, ddof=1) / np.sqrt(count)),
        "model SE": model,
        "MCSE of model SE": model * float(np.sqrt(spread)),
        "relative error of model SE (%)": 100 * (ratio - 1),
        "MCSE of relative error of model SE (%)": 100 * ratio * float(np.sqrt(spread + 1 / (2 * (count - 1)))),
    }


def _share(name: str, marked: Mask, total: int, *, known: bool = True) -> dict[str, float]:
    """Share of the marked among a total, with its Monte Carlo error; NaN if unknown."""
    share = float(marked.sum()) / total if known else np.nan
    return {name: share, f"MCSE of {name}": float(np.sqrt(share * (1 - share) / total)) if known else np.nan}


@dataclass(frozen=True)
class Rules:
    """Rules by which a cell of a study passes or fails.

    Attributes
    ----------
    alarm : float
        Probability that an exact interval fails the coverage rule in one cell.
    size_alarm : float
        Probability that exact tests fail the size rule anywhere in a study; all cells whose true value is zero share it
        (Bonferroni).
    width_cap : float
        Largest ratio of the mean width to the oracle's, if noise does not dominate.
    unbounded_cap : float
        Largest share of unbounded intervals, if noise does not dominate.
    kappa : float
        Below this signal-to-noise ratio, computed from the population, a cell is noise-dominated and only its coverage
        is judged.
    rerun_factor : int
        A cell that fails is rerun with this multiple of the replicates.
    rerun_seed : int
        Added to the seed for the rerun, fixed in advance.

    Examples
    --------
    >>> round(Rules().least_coverage(5000, 0.95), 4)
    0.9376
    """

    alarm: float = 5e-5
    size_alarm: float = 1e-3
    width_cap: float = 1.10
    unbounded_cap: float = 0.001
    kappa: float = 3.0
    rerun_factor: int = 10
    rerun_seed: int = 1

    def least_coverage(self, replicates: int, level: float) -> float:
        """Return the coverage below which an exact interval falls with probability ``alarm`` at most."""
        return float(stats.binom.ppf(self.alarm, replicates, level)) / replicates

    def largest_size(self, replicates: int, level: float, nulls: int) -> float:
        """Return the size that exact tests exceed, in ``nulls`` cells, with probability at most ``size_alarm``."""
        return float(stats.binom.isf(self.size_alarm / max(nulls, 1), replicates, 1 - level)) / replicates

    def verdict(
        self,
        cell: Mapping[Any, Any],
        *,
        level: float,
        least: float | None = None,
        most: float | None = None,
        replicates: int | None = None,
    ) -> str:
        """Return "holds", or the rules that the cell breaks.

        Parameters
        ----------
        cell : mapping
            Measures of one coefficient of one cell.
        level : float
        least : float, optional
            Threshold of coverage; by default that for the cell's own number of replicates.
        most : float, optional
            Threshold of the rejection rate if the true value is zero; by default that for this cell alone.
        replicates : int, optional
            Number of replicates, by default the cell's own. Multiplied by the share in which the quantity is
            identified, it sets the threshold of coverage among these.
        """
        if not np.isfinite(cell["coverage"]):
            return "no truth"
        floor = self.least_coverage(int(cell["replicates"]), level) if least is None else least
        broken = []
        if cell["coverage"] < floor:
            broken.append(f"coverage below {floor:.4f}")
        missing = cell.get("not determined", 0.0)
        if 0 < missing < 1:
            total = cell["replicates"] if replicates is None else replicates
            known = self.least_coverage(max(round((1 - missing) * total), 1), level)
            if cell["coverage where determined"] < known:
                broken.append(f"coverage where determined below {known:.4f}")
        if cell["truth"] == 0:
            ceiling = self.largest_size(int(cell["replicates"]), level, 1) if most is None else most
            if cell["rejection"] > ceiling:
                broken.append(f"size above {ceiling:.4f}")
        ratio, kappa = cell.get("width / oracle", np.nan), cell.get("kappa", np.nan)
        if np.isfinite(kappa) and kappa >= self.kappa:
            if ratio > self.width_cap:
                broken.append(f"width above {self.width_cap:g} times the oracle's")
            if cell["unbounded"] > self.unbounded_cap:
                broken.append(f"more than {self.unbounded_cap:.1%} unbounded")
        return "; ".join(broken) or "holds"

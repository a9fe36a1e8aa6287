"""Results as tables of texts, and their warnings as notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.results.printing import without_parts
from dpinfer.tour.report import Block, Note, Table

if TYPE_CHECKING:
    from dpinfer.results import PrivateResults, TestResults
    from dpinfer.results.margins import MarginalEffects
    from dpinfer.results.side_by_side import SummaryTable

__all__ = [
    "compared_frame",
    "described_frame",
    "format_number",
    "format_pvalue",
    "margins_table",
    "regression_frame",
    "regression_table",
    "scalar",
    "warning_notes",
]

_WRITTEN = {"noise share": "{:.1%}".format, "count": "{:,.0f}".format}


def regression_frame(results: PrivateResults) -> pd.DataFrame:
    """Return the table of a private regression, its numbers written for reading.

    A row a term: estimate, standard error and its parts, statistic, p-value, interval, share of noise.
    """
    frame = results.summary_frame()
    statistic, pvalue, lower, upper = frame.columns[4:8]
    shown = {
        "estimate": frame["coef"].map(format_number),
        "std err": frame["std err"].map(format_number),
        "from sampling": frame["std err (sampling)"].map(format_number),
        "from noise": frame["std err (noise)"].map(format_number),
        statistic: frame[statistic].map("{:.2f}".format),
        pvalue: frame[pvalue].map(format_pvalue),
        lower: frame[lower].map(format_number),
        upper: frame[upper].map(format_number),
        "noise share": frame["noise share"].map("{:.0%}".format),
    }
    return frame.iloc[:, :0].assign(**shown)


def described_frame(results: PrivateResults) -> pd.DataFrame:
    """Return estimates and intervals of a description as texts."""
    frame = results.summary_frame()
    shown = without_parts(frame)
    shown.index = pd.Index(list(results.params.index))
    for name in shown.columns:
        write = _WRITTEN.get(name, format_number)
        shown[name] = [write(value) for value in shown[name]]
    return shown


def compared_frame(table: SummaryTable) -> pd.DataFrame:
    """Return results side by side, every term named once: its standard error stands below without a label."""
    shown = table.frame.droplevel(1)
    return shown.set_axis(shown.index.where(~shown.index.duplicated(), ""))


def warning_notes(results: PrivateResults | TestResults) -> list[Block]:
    """Return what results warn of, a note for each."""
    return [Note("Warning", f"{flag[:1].upper()}{flag[1:]}.") for flag in results.flags]


def format_number(value: float) -> str:
    """Write a number with four decimals, or with four digits where it is large; infinity as such."""
    if not np.isfinite(value) or abs(value) >= 1000:
        return f"{value:.4g}"
    return f"{value:.4f}"


def format_pvalue(value: float) -> str:
    """Write a p-value with three decimals, or say that it is smaller than they show."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def regression_table(results: PrivateResults, caption: str, *, rows: bool = True) -> Table:
    """Return the table of a regression with the notes of its summary."""
    summary = results.summary()
    notes = (*([f"Rows: {results.nobs:,.0f}, as released."] if rows else []), *summary.notes)
    return Table(regression_frame(results), caption, str(summary), notes)


def margins_table(margins: MarginalEffects) -> pd.DataFrame:
    """Return marginal effects as texts."""
    frame: pd.DataFrame = margins.summary_frame()
    writes = {name: format_pvalue if str(name).startswith("P>") else format_number for name in frame}
    return frame.assign(**{str(name): frame[name].map(write) for name, write in writes.items()})


def scalar(value: Any) -> float:
    """Return the one number of an array."""
    return float(np.squeeze(value))

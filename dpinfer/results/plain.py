"""Results of procedures that bring nothing of their own: estimates with intervals, and the table of them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import pandas as pd

from dpinfer.display.report import number
from dpinfer.results.drawing import IntervalFigure, PlottedIntervals
from dpinfer.results.printing import Exported, cell_table, interval_labels, summary_of
from dpinfer.results.wording import column_labels, column_notes, guarantee, guarantee_facts, title_guarantee

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.inference.batch import BatchEstimates
    from dpinfer.release import Release
    from dpinfer.results.printing import PrivateSummary

__all__ = ["Estimates"]


class Estimates(PlottedIntervals, Exported):
    """Estimates from one release, with statsmodels' names.

    Parameters
    ----------
    estimate : callable
        ``estimate(alpha)`` returns `BatchEstimates` of one release.
    release : Release

    Attributes
    ----------
    release : Release
    flags : tuple of str
        Warnings.
    """

    def __init__(self, estimate: Callable[[float], BatchEstimates], release: Release) -> None:
        self._estimate, self.release = estimate, release

    @cached_property
    def _found(self) -> BatchEstimates:
        return self._estimate(0.05)

    def _series(self, values: object) -> pd.Series[float]:
        return pd.Series(values, index=list(self._found.names))

    @property
    def params(self) -> pd.Series[float]:
        """Estimates by name."""
        return self._series(self._found.params[0])

    @property
    def bse(self) -> pd.Series[float]:
        """Standard errors, privacy noise included."""
        return self._series(self._found.bse[0])

    @property
    def pvalues(self) -> pd.Series[float]:
        """P-values of zero."""
        return self._series(self._found.pvalues[0])

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings of the inference."""
        return ("the inference is flagged as unreliable",) if bool(self._found.flagged[0]) else ()

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return intervals of level ``1 - alpha``: a row for each estimate, columns 0 and 1."""
        found = self._estimate(alpha)
        return pd.DataFrame(found.intervals[0], index=list(found.names))

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the one table behind `summary`."""
        ends, (lower, upper) = self.conf_int(alpha), interval_labels(alpha)
        return pd.DataFrame(
            {
                "coef": self.params,
                "std err": self.bse,
                "P>|z|": self.pvalues,
                lower: ends[0],
                upper: ends[1],
            }
        )

    def summary(self, alpha: float = 0.05) -> PrivateSummary:
        """Return the table as text, HTML, LaTeX or markdown, with the guarantee."""
        frame = self.summary_frame(alpha)
        cells = [[number(value) for value in row] for row in frame.to_numpy()]
        table = cell_table(cells, list(frame.columns), column_labels(self.release, self.params.index))
        title = str(self.release.question["text"])
        notes = [guarantee(self.release), *column_notes(self.release)]
        return summary_of(title, guarantee_facts(self.release), [], table, notes, self.flags)

    def _interval_figure(self, alpha: float) -> IntervalFigure:
        ends = self.conf_int(alpha)
        frame = pd.DataFrame({"estimate": self.params, "lower": ends[0], "upper": ends[1]})
        frame.index = pd.Index(column_labels(self.release, frame.index))
        title = f"{self.release.question['text']}: {title_guarantee(self.release)}"
        return IntervalFigure(frame, "estimate", title)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self._found.names)}>"

"""Results of procedures that bring nothing of their own: estimates with intervals, and the table of them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import pandas as pd
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import SimpleTable

from dpinfer.results.printing import interval_labels
from dpinfer.results.wording import guarantee

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.inference.batch import BatchEstimates
    from dpinfer.release import Release

__all__ = ["Estimates"]


class Estimates:
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

    def summary(self, alpha: float = 0.05) -> Summary:
        """Return the table as text, HTML or LaTeX, with the guarantee."""
        frame = self.summary_frame(alpha)
        rows = [[f"{value:.4g}" for value in row] for row in frame.to_numpy()]
        found = Summary()
        title = str(self.release.question["text"])
        found.tables.append(SimpleTable(rows, headers=list(frame.columns), stubs=list(frame.index), title=title))
        found.add_extra_txt([guarantee(self.release), *self.flags])
        return found

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self._found.names)}>"

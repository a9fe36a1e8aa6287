"""Results of the exact binomial test of one noisy count."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import pandas as pd

from dpinfer.errors import OptionError
from dpinfer.inference.testing.binomial import binomial_interval, noisy_binomial_estimate
from dpinfer.release import NoiseLaw
from dpinfer.results.drawing import draw_intervals
from dpinfer.results.style import MARKED, legend
from dpinfer.results.testing.base import TestResults
from dpinfer.results.wording import column_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpinfer.inference.tulap import Alternative, ProportionEstimate

__all__ = ["NOISES", "BinomTestResults", "ProportionInterval", "count_flags"]

NOISES = {"tulap": "Tulap", "gaussian": "discrete Gaussian"}
"""Names of noise laws that a test of a proportion reads."""


class ProportionInterval(NamedTuple):
    """An interval for a proportion.

    Attributes
    ----------
    low, high : float
        Ends, in [0, 1].
    """

    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class BinomTestResults(TestResults):
    """An exact test of one proportion, with scipy's members: statistic, pvalue, k, n, proportion_ci.

    Attributes
    ----------
    column : str
        The Boolean column or the condition.
    k : float
        The noisy count.
    n : int
        The public number of rows.
    p : float
        The tested proportion.
    law : NoiseLaw
        Noise of the count.
    step : float
        Size of a step of the law in counts.
    """

    column: str = ""
    k: float = 0.0
    n: int = 0
    p: float = 0.5
    law: NoiseLaw = field(default_factory=lambda: NoiseLaw("gaussian", (0.0,)), repr=False)
    step: float = 1.0

    @cached_property
    def _estimate(self) -> ProportionEstimate:
        return noisy_binomial_estimate(self.k, self.n, self.law, step=self.step)

    @property
    def proportion_estimate(self) -> float:
        """The noisy count over n, brought into [0, 1]; 1/2 where n is 0."""
        return float(self._estimate.proportion)

    @property
    def bse(self) -> float:
        """Standard error of the estimate, from sampling and noise."""
        return float(self._estimate.standard_error)

    @property
    def bse_noise(self) -> float:
        """Standard error of the estimate from privacy noise alone."""
        return float(np.sqrt(self._estimate.noise_variance))

    def proportion_ci(self, confidence_level: float = 0.95) -> ProportionInterval:
        """Exact interval of the proportion, by inversion of this test with its alternative.

        Parameters
        ----------
        confidence_level : float
            Between 0 and 1.

        Returns
        -------
        ProportionInterval
            With ``.low`` and ``.high``; for "greater" ``high`` is 1, for "less" ``low`` is 0. It covers with at least
            its level at every n and proportion. See `dpinfer.inference.testing.binomial.binomial_interval`.

        Raises
        ------
        OptionError
            If the level is not between 0 and 1.
        """
        if not (isinstance(confidence_level, int | float | np.number) and 0 < confidence_level < 1):
            raise OptionError("confidence_level", confidence_level, "a number between 0 and 1")
        return self._interval(1 - float(confidence_level))

    def _interval(self, alpha: float) -> ProportionInterval:
        alternative = cast("Alternative", self.alternative)
        ends = binomial_interval(self.k, self.n, self.law, step=self.step, alpha=alpha, alternative=alternative)
        return ProportionInterval(float(ends[0]), float(ends[1]))

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05) -> Axes:
        """Draw the proportion with its exact interval, and the tested one as a line.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        alpha : float
            One minus the confidence of the intervals.

        Returns
        -------
        matplotlib.axes.Axes
        """
        row = self.frame(alpha).iloc[0]
        ends = row.iloc[-2:].to_numpy(dtype=float)
        (name,) = column_labels(self.release, [self.column])
        frame = pd.DataFrame({"estimate": row["proportion"], "lower": ends[0], "upper": ends[1]}, index=[name])
        label, title = f"proportion of {name}", f"{self.hypothesis}, p-value {self._pvalue_text()}"
        ax = draw_intervals(frame, ax, alpha=alpha, color=None, legend=False, zero=False, label=label, title=title)
        ax.axvline(self.p, color=MARKED, lw=2, label=f"tested: {self.p:g}")
        low, high = ax.get_xlim()
        ax.set_xlim(min(low, self.p - 0.05 * (high - low)), max(high, self.p + 0.05 * (high - low)))
        ax.set_ylim(0.9, -0.5)
        legend(ax, loc="lower center", ncols=3)
        return ax

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the count, the estimate and its interval as one row.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the interval.

        Returns
        -------
        DataFrame
            Indexed by the column; the interval is one-sided where the alternative is.
        """
        if not 0 < alpha < 1:
            raise OptionError("alpha", alpha, "a number between 0 and 1")
        share = alpha / 2 if self.alternative == "two-sided" else alpha
        low, high = self._interval(alpha)
        cells = {
            "noisy count": self.k,
            "n": self.n,
            "proportion": self.proportion_estimate,
            "null p": self.p,
            "std err": self.bse,
            "std err (noise)": self.bse_noise,
            f"[{'0' if self.alternative == 'less' else f'{share:.4g}'}": low,
            f"{'1' if self.alternative == 'greater' else f'{1 - share:.4g}'}]": high,
        }
        return pd.DataFrame([cells], index=pd.Index([self.column]))


def count_flags(n: int, *, clipped: bool) -> tuple[str, ...]:
    """Warn of no rows, and of a noisy count that was ``clipped``: moved to 0 or the number of rows ``n``."""
    if n == 0:
        return ("there are no rows: the release says nothing about the proportion",)
    if clipped:
        return ("the noisy count is outside 0 and the number of rows: the estimate was moved to the edge",)
    return ()

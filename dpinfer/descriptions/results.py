"""Results of t tests, F tests and binomial tests on noisy sums."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pandas as pd

from dpinfer.descriptions.binomial_inference import binomial_estimate, binomial_interval
from dpinfer.descriptions.mean_test_inference import spread_pvalues
from dpinfer.errors import InferenceError, OptionError
from dpinfer.release import NoiseLaw
from dpinfer.results.drawing import MARKED, draw_intervals, interval_frame, legend
from dpinfer.results.printing import column_labels
from dpinfer.results.testing import TestResults, check_alpha

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpinfer.descriptions.binomial_inference import ProportionEstimate
    from dpinfer.descriptions.mean_test_inference import GroupMeans
    from dpinfer.results.descriptions import DescriptionResults
    from dpinfer.statistics.arrays import Array
    from dpinfer.statistics.nulls import Alternative

_FEW_ROWS = 30.0
"""Rows of a group below which its sum rests on values that are close to normal."""

_RARE = 10.0
"""Rows at the other bound that would give a mean, below which it is far from normal."""

UNEQUAL = 0.002
"""P-value of equal variances below which they are said to differ; of clean releases at most 1% have one."""


class ConfidenceInterval(NamedTuple):
    """Endpoints of an interval, named as in scipy.

    Attributes
    ----------
    low, high : float
    """

    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class MeanTestResults(TestResults):
    """A test of means on noisy sums; unpacks into statistic and p-value.

    Attributes
    ----------
    test : {"ttest_1samp", "ttest_ind", "ttest_rel", "f_oneway"}
    means : DescriptionResults
        The means from the same release, with their own intervals.
    place : int
        Position of the tested column among them.
    groups : int
    dof_resid : float
        Residual degrees of freedom from noisy counts: rows less groups, or Satterthwaite's number for Welch's
        two-sample test. ``dof`` is the same for a t test, and the number of groups less one for an analysis of
        variance.
    """

    test: str = field(kw_only=True)
    means: DescriptionResults = field(kw_only=True, repr=False)
    place: int = field(kw_only=True, default=0)
    groups: int = field(kw_only=True, default=1)
    dof_resid: float = field(kw_only=True, default=np.inf)

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the group means.

        Parameters
        ----------
        alpha : float
            One minus the confidence level of the intervals.

        Returns
        -------
        DataFrame
            A row per group; columns "count" (noisy number of rows), "mean", "std err", "std err (sampling)", "std err
            (noise)", and the endpoints of the interval.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
        """
        shown = self.means.summary_frame(alpha).drop(columns="noise share")
        shown.insert(0, "count", shown.pop("count"))
        width = len(shown) // self.groups
        return shown.iloc[self.place :: width]

    def confidence_interval(self, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return the interval for the mean, or for the first group's mean minus the second's.

        Parameters
        ----------
        confidence_level : float

        Returns
        -------
        ConfidenceInterval
            With ``low`` and ``high``; for a one-sided test the other endpoint is infinite, as in scipy.

        Raises
        ------
        InferenceError
            For an analysis of variance, which has no single difference; ``frame`` has the means.
        OptionError
            If the level is not strictly between 0 and 1 (between 0.5 and 1 for a one-sided test).

        Notes
        -----
        The interval inverts the score test of the group means, each with its own variance, not the simulated test. Near
        the nominal level the two may disagree.
        """
        if self.test == "f_oneway":
            raise InferenceError("an analysis of variance has no single difference; .frame() gives the means")
        one_sided = self.alternative != "two-sided"
        least = 0.5 if one_sided else 0.0
        if not least < confidence_level < 1:
            raise OptionError("confidence_level", confidence_level, f"a number between {least:g} and 1")
        alpha = (2 if one_sided else 1) * (1 - confidence_level)
        low, high = self._contrast().conf_int(check_alpha(alpha))[0]
        return ConfidenceInterval(
            -np.inf if self.alternative == "less" else float(low),
            np.inf if self.alternative == "greater" else float(high),
        )

    @property
    def estimate(self) -> float:
        """The mean, or the first group's mean minus the second's; NaN for an analysis of variance."""
        if self.test == "f_oneway":
            return float("nan")
        return float(np.ravel(self._contrast().effect)[0])

    def plot_null(self, ax: Axes | None = None, *, color: str = "C0") -> Axes:
        """Plot the simulated null distribution and the observed statistic; see `TestResults.plot_null`."""
        axes = super().plot_null(ax, color=color)
        if self.test == "f_oneway":
            axes.set_xlabel(f"{self.groups - 1} F" if self.groups > 2 else "F")
        else:
            axes.set_xlabel({"two-sided": "squared t", "greater": "t", "less": "-t"}[self.alternative])
        return axes

    def _contrast(self) -> Any:
        row = np.zeros((self.groups, len(self.means.params) // self.groups))
        row[0, self.place] = 1.0
        if self.groups == 2:
            row[1, self.place] = -1.0
        return self.means.t_test(row.reshape(1, -1))


def mean_flags(model: GroupMeans, values: Array, means: DescriptionResults) -> tuple[str, ...]:
    """Return the warnings of a test of means.

    Parameters
    ----------
    model : GroupMeans
    values : ndarray (1, 3 G)
        Noisy sums of the groups.
    means : DescriptionResults

    Returns
    -------
    tuple of str
    """
    found = model.estimates(values)
    flags = list(means.flags)
    if found.hidden.any():
        flags.append(
            "the variance of the values cannot be distinguished from privacy noise; it is set to the size of this "
            "noise, and the test is conservative"
        )
    if model.groups > 1 and model.equal_var and (spread_pvalues(model, values) < UNEQUAL).any():
        flags.append(
            "the variances of the groups differ by more than sampling error and privacy noise explain, so a pooled "
            "variance gives an invalid p-value: use equal_var=False, the default, with a variance for every group"
        )
    rare = found.rows * (1 - np.abs(np.clip(found.first / np.maximum(found.rows, 1.0), -1, 1))) / 2
    spread = found.within > 0.5 * found.rows * (1 - found.mean[..., None] ** 2)
    if ((rare < _RARE) & spread & ~found.hidden).any():
        flags.append(
            "nearly all values of a group are at one bound and the others far from it: with data this skewed, an "
            "ordinary t test exceeds its level, and so does this one; for a binary outcome, test the proportion"
        )
    if (found.rows < _FEW_ROWS).any():
        flags.append(
            f"a group has fewer than {_FEW_ROWS:.0f} rows by the noisy counts: as in an ordinary t test, the p-value "
            "assumes approximately normal values"
        )
    return tuple(flags)


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
        The proportion under the null hypothesis.
    law : NoiseLaw
        Distribution of the noise of the count.
    step : float
        Step of that distribution, in counts.
    """

    column: str = ""
    k: float = 0.0
    n: int = 0
    p: float = 0.5
    law: NoiseLaw = field(default_factory=lambda: NoiseLaw("gaussian", (0.0,)), repr=False)
    step: float = 1.0

    @cached_property
    def _estimate(self) -> ProportionEstimate:
        return binomial_estimate(self.k, self.n, self.law, step=self.step)

    @property
    def proportion_estimate(self) -> float:
        """The noisy count over n, clipped to [0, 1]; 1/2 if n is 0."""
        return float(self._estimate.proportion)

    @property
    def bse(self) -> float:
        """Standard error of the estimate, from sampling and noise."""
        return float(self._estimate.standard_error)

    @property
    def bse_noise(self) -> float:
        """Standard error of the estimate from privacy noise alone."""
        return float(np.sqrt(self._estimate.noise_variance))

    def proportion_ci(self, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return the exact interval for the proportion, by inverting this test with its alternative.

        Parameters
        ----------
        confidence_level : float
            Between 0 and 1.

        Returns
        -------
        ConfidenceInterval
            With ``.low`` and ``.high``; for "greater" ``high`` is 1, for "less" ``low`` is 0. Its coverage is at least
            nominal for every n and proportion. See `dpinfer.descriptions.binomial_inference.binomial_interval`.

        Raises
        ------
        OptionError
            If the level is not between 0 and 1.
        """
        alpha = 1 - check_alpha(confidence_level, "confidence_level")
        alternative = cast("Alternative", self.alternative)
        ends = binomial_interval(self.k, self.n, self.law, step=self.step, alpha=alpha, alternative=alternative)
        return ConfidenceInterval(float(ends[0]), float(ends[1]))

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05) -> Axes:
        """Plot the proportion with its exact interval, and the tested proportion as a line.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes for the plot; a new figure by default.
        alpha : float
            One minus the confidence level of the intervals.

        Returns
        -------
        matplotlib.axes.Axes
        """
        low, high = self.proportion_ci(1 - check_alpha(alpha))
        (name,) = column_labels(self.release, [self.column])
        frame = interval_frame(pd.Series(self.proportion_estimate, [name]), np.array([[low, high]]))
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
            One minus the confidence level of the interval.

        Returns
        -------
        DataFrame
            Indexed by the column; the interval is one-sided where the alternative is.
        """
        low, high = self.proportion_ci(1 - check_alpha(alpha))
        share = alpha / 2 if self.alternative == "two-sided" else alpha
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

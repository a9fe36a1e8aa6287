"""Results of tests of means on noisy sums."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpinfer.errors import InferenceError, OptionError
from dpinfer.inference.testing.spreads import spread_pvalues
from dpinfer.results.contrasts import check_alpha
from dpinfer.results.testing.base import TestResults

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dpinfer.inference.testing.groups import GroupMeans
    from dpinfer.results.descriptions import DescriptionResults

    Array = NDArray[np.float64]

__all__ = ["UNEQUAL", "ConfidenceInterval", "MeanTestResults", "mean_flags"]

_FEW_ROWS = 30.0
"""Rows of a group below which its sum rests on values that are close to normal."""

_RARE = 10.0
"""Rows at the other bound that would give a mean, below which it is far from normal."""


UNEQUAL = 0.002
"""P-value of equal variances below which they are said to differ; of clean releases at most 1% have one."""


class ConfidenceInterval(NamedTuple):
    """Ends of an interval, named as in scipy."""

    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class MeanTestResults(TestResults):
    """A test of means on noisy sums; unpacks into statistic and p-value.

    Attributes
    ----------
    test : {"ttest_1samp", "ttest_ind", "ttest_rel", "f_oneway"}
    means : DescriptionResults
        The means that the same release gives, with intervals of their own.
    place : int
        Which of their columns is tested.
    groups : int
    dof_resid : float
        Rows less groups (of Welch's two-sample test Satterthwaite's number), from noisy counts. ``dof`` is the same
        for a t test, and the number of groups less one for an analysis of variance.
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
            One minus the confidence of the intervals.

        Returns
        -------
        DataFrame
            A row per group; columns "count" (noisy number of rows), "mean", "std err", "std err (sampling)",
            "std err (noise)", and the ends of the interval.

        Raises
        ------
        OptionError
            Where ``alpha`` is not strictly between 0 and 1.
        """
        shown = self.means.summary_frame(alpha).drop(columns="noise share")
        shown.insert(0, "count", shown.pop("count"))
        width = len(shown) // self.groups
        return shown.iloc[self.place :: width]

    def confidence_interval(self, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return the interval for the mean, or for the first group's mean less the second's.

        Parameters
        ----------
        confidence_level : float

        Returns
        -------
        ConfidenceInterval
            With ``low`` and ``high``; of a one-sided test the other end is infinite, as in scipy.

        Raises
        ------
        InferenceError
            Of an analysis of variance, which has no single difference; ``frame`` has the means.
        OptionError
            Where the level is not strictly between 0 and 1 (between 0.5 and 1 for a one-sided test).

        Notes
        -----
        It inverts the score test of the means' own results, each group with its own variance, and not the simulated
        test: near the level the two may differ.
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
        """The mean, or the first group's mean less the second's; NaN of an analysis of variance."""
        if self.test == "f_oneway":
            return float("nan")
        return float(np.ravel(self._contrast().effect)[0])

    def plot_null(self, ax: Axes | None = None, *, color: str = "C0") -> Axes:
        """Draw the simulated null distribution and the observed statistic; see `TestResults.plot_null`."""
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
    """Say what a reader of a test of means should be warned of.

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
            "the variance of the values is not told from privacy noise; it is taken as large as this noise, and the "
            "test is conservative"
        )
    if model.groups > 1 and model.equal_var and (spread_pvalues(model, values) < UNEQUAL).any():
        flags.append(
            "the variances of the groups differ by more than sampling and privacy noise explain, and one variance for "
            "all gives a wrong p-value: equal_var=False, the default, has a variance for every group"
        )
    rare = found.rows * (1 - np.abs(np.clip(found.first / np.maximum(found.rows, 1.0), -1, 1))) / 2
    spread = found.within > 0.5 * found.rows * (1 - found.mean[..., None] ** 2)
    if ((rare < _RARE) & spread & ~found.hidden).any():
        flags.append(
            "nearly all values of a group are at one bound and the others far from it: sums so skewed make an ordinary "
            "t test exceed its level, and this one too; for a yes or no, test the proportion"
        )
    if (found.rows < _FEW_ROWS).any():
        flags.append(
            f"a group has fewer than {_FEW_ROWS:.0f} rows by the noisy counts: as for the ordinary test, the p-value "
            "rests on values that are close to normal"
        )
    return tuple(flags)

"""Results of experiments: the effect, means by arm, and the balance of covariates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.results.base import PrivateResults
from dpinfer.results.drawing import draw_intervals
from dpinfer.results.printing import column_labels, interval_labels
from dpinfer.results.testing import check_alpha

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

    from dpinfer.experiments.inference import EffectInference
    from dpinfer.release.release import AnyRelease
    from dpinfer.results.descriptions import DescriptionResults


class ExperimentResults(PrivateResults):
    """The effect of a treatment, with all members of `PrivateResults` for the one parameter "effect".

    Parameters
    ----------
    inference, release
        As in `PrivateResults`.
    means : DescriptionResults
        Means of outcome and covariates by arm and stratum.
    compared : mapping of str to (EffectInference, float)
        For each covariate, the difference in its means and its standard deviation within arms.
    **labels
        As in `PrivateResults`.

    Attributes
    ----------
    means : DescriptionResults
        Means of outcome and covariates by arm and stratum, with numbers of rows.
    """

    def __init__(
        self,
        inference: EffectInference,
        release: AnyRelease,
        *,
        means: DescriptionResults,
        compared: Mapping[str, tuple[EffectInference, float]],
        **labels: Any,
    ) -> None:
        super().__init__(inference, release, **labels)
        self.means, self._compared = means, dict(compared)

    def __repr__(self) -> str:
        return f"<ExperimentResults: {self.model_name} of {self.response}>"

    def arms(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return unadjusted means of the outcome and numbers of rows, by arm and stratum.

        Parameters
        ----------
        alpha : float
            One minus the confidence level of the intervals.

        Returns
        -------
        DataFrame
            A row for each arm and stratum; columns "mean", standard errors, interval, "noise share" and "count", the
            noisy number of rows.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
        """
        frame = self.means.summary_frame(alpha)
        if "quantity" not in frame.index.names:
            return frame
        mine = frame.index.get_level_values("quantity") == self.response
        return frame[mine].droplevel("quantity")

    def balance(self, alpha: float = 0.05) -> pd.DataFrame:
        """Compare covariates between the arms, within strata if there are any.

        Parameters
        ----------
        alpha : float
            One minus the confidence level of the intervals.

        Returns
        -------
        DataFrame
            A row for each covariate: "difference" in means (treated minus control), "std err", its interval and
            "P>|t|"; "standardised", the difference over the root mean square of the standard deviations in the arms,
            with "lower" and "upper" endpoints. Where noise hides rows or standard deviations, the interval of the
            difference contains all possible values, the standardised difference is NaN, and its interval is unbounded.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.

        Notes
        -----
        The standard deviation is treated as known, since its error matters little for small differences. There is no
        adjustment for multiple comparisons: about one covariate in twenty differs by chance.
        """
        rows, one = [], np.eye(1)
        for found, spread in self._compared.values():
            value, ends = found.params[0], found.intervals(one, check_alpha(alpha))[0]
            error, known = np.sqrt(found.cov_sampling + found.cov_noise).item(), np.isfinite(found.params[0] / spread)
            scaled = (value / spread, *(ends / spread)) if known else (np.nan, -np.inf, np.inf)
            rows.append((value, error, *ends, found.contrast_pvalues(one, np.zeros(1))[0], *scaled))
        names = ["difference", "std err", *interval_labels(alpha), "P>|t|", "standardised", "lower", "upper"]
        return pd.DataFrame(rows, index=pd.Index(list(self._compared)), columns=names)

    def plot_balance(self, ax: Axes | None = None, *, alpha: float = 0.05, color: str | None = None) -> Axes:
        """Plot standardised differences of the covariates with intervals.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
        alpha : float
        color : str, optional

        Returns
        -------
        matplotlib.axes.Axes
        """
        found = self.balance(alpha).rename(columns={"standardised": "estimate"})[["estimate", "lower", "upper"]]
        found.index = pd.Index(column_labels(self.release, found.index))
        label, title = "standardised difference between arms", self._plot_title()
        return draw_intervals(found, ax, alpha=alpha, color=color, legend=False, zero=True, label=label, title=title)

"""Marginal effects with standard errors, tests, tables and plots, as statsmodels' ``get_margeff`` returns them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.errors import OptionError
from dpinfer.results.contrasts import check_alpha
from dpinfer.results.drawing import draw_intervals
from dpinfer.results.printing import Exported, PrivateSummary, cell_table, figure, interval_labels, summary_of
from dpinfer.results.summary import method_notes, statistic_labels
from dpinfer.results.wording import (
    charge_notes,
    column_labels,
    column_notes,
    guarantee,
    guarantee_facts,
    title_guarantee,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dpinfer.results.estimates import PrivateEstimates

    Array = NDArray[np.float64]

__all__ = ["MARGIN_LABELS", "MarginalEffects"]

MARGIN_LABELS = {"dydx": "dy/dx", "eyex": "d(lny)/d(lnx)", "dyex": "dy/d(lnx)", "eydx": "d(lny)/dx"}
"""What tables call the effects of each method, as in statsmodels."""


class MarginalEffects(Exported):
    """Marginal effects of a generalized linear model, from released numbers and public points.

    Parameters
    ----------
    results : PrivateEstimates
        The results that they are effects of.
    names : sequence of str, length k
        What they are effects of.
    margeff : ndarray (k,), or (m, k) for ``at="all"``
        The effects.
    gradients : ndarray (k, p), optional
        Their derivatives by the coefficients; not with ``at="all"``.
    margeff_se : ndarray (k,), optional
        Standard errors, where they count more than the coefficients' errors.
    margeff_cov : ndarray (k, k), optional
        The same for the covariance.
    at, method : str
        As in ``GLMResults.get_margeff``.
    notes : sequence of str
        Sentences to print below the table.

    Attributes
    ----------
    results, names, margeff
        As given.
    margeff_se : ndarray (k,)
        Standard errors by the delta method, sampling and privacy noise counted.
    margeff_options : dict
        ``method`` and ``at``.

    Raises
    ------
    OptionError
        From everything but ``margeff`` with ``at="all"``, as in statsmodels.

    Notes
    -----
    With effect g, its derivative d by the coefficients b, and their interval [l, u] for the combination d'b, the
    interval is [g + l - d'b, g + u - d'b]. Under Wald inference that is the delta method. Under others it takes over
    the method's length and its infinite ends. P-values are those of the same combination.
    """

    def __init__(
        self,
        results: PrivateEstimates,
        names: tuple[str, ...],
        margeff: Array,
        gradients: Array | None,
        *,
        margeff_se: Array | None = None,
        margeff_cov: Array | None = None,
        at: str = "overall",
        method: str = "dydx",
        notes: tuple[str, ...] = (),
    ) -> None:
        self.results, self.names, self.margeff = results, names, margeff
        self._gradients, self._given_se, self._given_cov = gradients, margeff_se, margeff_cov
        self.margeff_options = {"method": method, "at": at}
        self.notes = notes

    def __repr__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in self.margeff_options.items())
        return f"<MarginalEffects: {options}; {', '.join(self.names)}>"

    @property
    def gradients(self) -> Array:
        """Derivatives (k, p) of the effects by the coefficients."""
        if self._gradients is None:
            raise OptionError("at", "all", "another value: effects at every point have no summary, read margeff")
        return self._gradients

    @cached_property
    def _combined_se(self) -> Array:
        """Standard errors (k,) of the combinations of coefficients that the gradients are."""
        covariance = self.results.inference.cov_sampling + self.results.inference.cov_noise
        variances = np.einsum("kp,pq,kq->k", self.gradients, covariance, self.gradients)
        return np.asarray(np.sqrt(np.maximum(variances, 0.0)))

    @property
    def margeff_se(self) -> Array:
        """Standard errors (k,)."""
        return self._combined_se if self._given_se is None else self._given_se

    @property
    def margeff_cov(self) -> Array:
        """Covariance (k, k) of the effects; AttributeError where that of a released average is not known."""
        if self._given_cov is not None:
            return self._given_cov
        if self._given_se is not None:
            raise AttributeError(
                "margeff_cov: the covariance of the released average with the coefficients is not known"
            )
        covariance = self.results.inference.cov_sampling + self.results.inference.cov_noise
        return np.asarray(self.gradients @ covariance @ self.gradients.T)

    @property
    def tvalues(self) -> Array:
        """Effects over standard errors (k,); zero where an effect is exactly zero."""
        return _ratio(self.margeff, self.margeff_se)

    @cached_property
    def _moving(self) -> NDArray[np.bool_]:
        """Effects (k,) that depend on the coefficients at all."""
        return self._combined_se > 0

    @property
    def _stretch(self) -> Array:
        """Standard errors over those of the combinations, for effects that depend on the coefficients."""
        return np.asarray(self.margeff_se[self._moving] / self._combined_se[self._moving])

    @property
    def pvalues(self) -> Array:
        """Two-sided p-values (k,) of no effect, from the one inference."""
        moving, inference = self._moving, self.results.inference
        found = 2.0 * stats.norm.sf(np.abs(self.tvalues))
        if moving.any():
            combined = self.gradients[moving]
            values = combined @ inference.params - self.margeff[moving] / self._stretch
            found[moving] = inference.contrast_pvalues(combined, values)
        return np.asarray(found)

    def conf_int(self, alpha: float = 0.05) -> Array:
        """Return confidence intervals.

        Parameters
        ----------
        alpha : float
            One minus the confidence, for each effect by itself.

        Returns
        -------
        ndarray (k, 2)
            Lower and upper ends; an end may be infinite.

        Raises
        ------
        OptionError
            Where ``alpha`` is not strictly between 0 and 1.
        """
        moving, inference = self._moving, self.results.inference
        half = stats.norm.isf(check_alpha(alpha) / 2) * self.margeff_se
        found = np.column_stack([self.margeff - half, self.margeff + half])
        if moving.any():
            combined = self.gradients[moving]
            arms = inference.intervals(combined, alpha) - (combined @ inference.params)[:, None]
            found[moving] = self.margeff[moving][:, None] + arms * self._stretch[:, None]
        return found

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the table of effects.

        Parameters
        ----------
        alpha : float
            One minus the confidence.

        Returns
        -------
        DataFrame (k, 6)
            statsmodels' columns: the effect ("dy/dx"), "Std. Err.", "z", "Pr(>|z|)" ("t" and "Pr(>|t|)" where that is
            the reference), "Conf. Int. Low" and "Cont. Int. Hi.".

        Raises
        ------
        OptionError
            Where ``alpha`` is not strictly between 0 and 1.
        """
        letter = "t" if self.results.use_t else "z"
        ends = self.conf_int(alpha)
        columns = {
            MARGIN_LABELS[self.margeff_options["method"]]: self.margeff,
            "Std. Err.": self.margeff_se,
            letter: self.tvalues,
            f"Pr(>|{letter}|)": self.pvalues,
            "Conf. Int. Low": ends[:, 0],
            "Cont. Int. Hi.": ends[:, 1],
        }
        return pd.DataFrame(columns, index=list(self.names))

    def summary(self, alpha: float = 0.05) -> PrivateSummary:
        """Return the table with header, guarantee and warnings.

        Parameters
        ----------
        alpha : float
            One minus the confidence.

        Returns
        -------
        PrivateSummary
            A statsmodels ``Summary``; see ``PrivateResults.summary``.

        Raises
        ------
        OptionError
            Where ``alpha`` is not strictly between 0 and 1.
        """
        results, frame = self.results, self.summary_frame(alpha)
        lower, upper = interval_labels(alpha)
        headers = [frame.columns[0], "std err", *statistic_labels(results), lower, upper]
        cells = []
        for effect, error, ratio, pvalue, low, high in frame.to_numpy():
            cells.append(
                [figure(effect, 4), *map(figure, (error, ratio)), f"{pvalue:#6.3f}", figure(low), figure(high)]
            )
        stubs = column_labels(results.release, self.names)
        table = cell_table(cells, headers, stubs, ["%s", "%s", "%8s", "%s", "%11s", "%11s"])
        left = [("Dep. Variable:", results.response), *guarantee_facts(results.release)]
        right = [("Method:", self.margeff_options["method"]), ("At:", self.margeff_options["at"])]
        right.append(("Inference:", results.inference.method))
        ends = frame.iloc[:, -2:].to_numpy(dtype=np.float64)
        notes = [guarantee(results.release), *self.notes, *method_notes(results, ends)]
        notes += [*column_notes(results.release), *charge_notes(results.release)]
        title = f"{results.model_name} Marginal Effects"
        return summary_of(title, left, right, table, notes, results.flags)

    def plot(
        self, ax: Axes | None = None, *, alpha: float = 0.05, color: str | None = None, legend: bool = True
    ) -> Axes:
        """Plot effects with intervals, the sampling part told apart from the noise part.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        alpha : float
            One minus the confidence.
        color : str, optional
            Colour of estimates and intervals.
        legend : bool
            Whether to draw a legend.

        Returns
        -------
        matplotlib.axes.Axes
            The axes. An infinite end is drawn to the edge, with an arrow head.

        Raises
        ------
        OptionError
            Where ``alpha`` is not strictly between 0 and 1, or ``ax`` is no axes.
        """
        ends = self.conf_int(alpha)
        variances = np.einsum("kp,pq,kq->k", self.gradients, self.results.inference.cov_sampling, self.gradients)
        share = np.minimum(_ratio(np.sqrt(np.maximum(variances, 0.0)), self._combined_se), 1.0)
        fallback = stats.norm.isf(alpha / 2) * share * self.margeff_se
        bounded = np.isfinite(ends)
        arms = np.abs(np.where(bounded, ends, self.margeff[:, None]) - self.margeff[:, None]) * share[:, None]
        arms = np.where(bounded, arms, fallback[:, None])
        columns = {
            "estimate": self.margeff,
            "lower": ends[:, 0],
            "upper": ends[:, 1],
            "sampling_lower": self.margeff - arms[:, 0],
            "sampling_upper": self.margeff + arms[:, 1],
        }
        label = f"{MARGIN_LABELS[self.margeff_options['method']]} ({self.results.inference.method} inference)"
        (response,) = column_labels(self.results.release, [self.results.response])
        title = f"{response}: {title_guarantee(self.results.release)}"
        frame = pd.DataFrame(columns, index=column_labels(self.results.release, self.names))
        return draw_intervals(frame, ax, alpha=alpha, color=color, legend=legend, zero=True, label=label, title=title)


def _ratio(part: Array, whole: Array) -> Array:
    """Divide; 0/0 is 0, and anything else over 0 is infinite."""
    with np.errstate(all="ignore"):
        found = np.asarray(part / whole)
    return np.where(np.isnan(found), 0.0, found)

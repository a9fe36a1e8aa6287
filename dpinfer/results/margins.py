"""Effects of columns on the mean at public points, with tables and plots.

Mean functions and effects of columns with their derivatives; marginal effects as in statsmodels' ``get_margeff``;
predictions, comparisons and slopes in the layout of the package marginaleffects; and means along one column.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.genmod.families import links

from dpinfer.errors import OptionError
from dpinfer.results import printing
from dpinfer.results.drawing import draw_intervals, interval_frame
from dpinfer.results.estimates import method_notes, statistic_labels
from dpinfer.results.testing import check_alpha
from dpinfer.results.tidy import tidy_frame
from dpinfer.schema.columns import Boolean, Integer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dpinfer.results.estimates import PrivateEstimates
    from dpinfer.schema.formula import FormulaDesign
    from dpinfer.statistics.arrays import Array


_FARTHEST = 300.0
"""Linear predictors are cut here for derivatives, so that their products stay finite."""

_SMALLEST, _STEEPEST = 1e-300, 1e100


@dataclass(frozen=True, slots=True)
class Curve:
    """A function of the linear predictor with its first two derivatives, each from (...) to (...)."""

    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    curvature: Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class MeanFunction:
    """The mean as a function of the linear predictor.

    Attributes
    ----------
    link : statsmodels link
    """

    link: Any

    @property
    def is_identity(self) -> bool:
        """Whether the mean is the linear predictor."""
        return isinstance(self.link, links.Identity)

    @property
    def is_log(self) -> bool:
        """Whether the mean is the exponential of the linear predictor."""
        return type(self.link) is links.Log

    @property
    def is_logit(self) -> bool:
        """Whether the mean is the logistic function."""
        return type(self.link) is links.Logit

    def mean(self, predictor: Array) -> Array:
        """Return means at linear predictors (...), which may be infinite."""
        given = np.asarray(predictor, dtype=np.float64)
        with np.errstate(all="ignore"):
            if type(self.link) is links.CLogLog:
                return np.asarray(-np.expm1(-np.exp(given)))  # keeps the digits of small means
            return np.asarray(self.link.inverse(given), dtype=np.float64)

    def near(self, predictor: Array) -> Array:
        """Return finite means, with linear predictors clipped to -300 to 300."""
        return self.mean(_cut(predictor))

    def slope(self, predictor: Array) -> Array:
        """Return derivatives of the mean (...)."""
        with np.errstate(all="ignore"):
            found = np.asarray(self.link.inverse_deriv(_cut(predictor)), dtype=np.float64)
        return np.where(np.isnan(found), 0.0, found)

    def curvature(self, predictor: Array) -> Array:
        """Return second derivatives of the mean (...)."""
        near, slope = _cut(predictor), self.slope(predictor)
        if self.is_log:
            return slope
        if self.is_logit:
            return slope * (1.0 - 2.0 * self.mean(near))
        if type(self.link) is links.CLogLog:
            return slope * (1.0 - np.exp(near))
        with np.errstate(all="ignore"):
            found = np.asarray(self.link.inverse_deriv2(near), dtype=np.float64)
        return np.where(np.isfinite(found), found, 0.0)

    def log_mean(self, predictor: Array) -> Array:
        """Return logarithms of means (...)."""
        return np.log(np.maximum(self.near(predictor), _SMALLEST))

    def log_slope(self, predictor: Array) -> Array:
        """Return derivatives of the logarithm of the mean (...)."""
        return np.minimum(self.slope(predictor) / np.maximum(self.near(predictor), _SMALLEST), _STEEPEST)

    def log_curvature(self, predictor: Array) -> Array:
        """Return second derivatives of the logarithm of the mean (...)."""
        curved = self.curvature(predictor) / np.maximum(self.near(predictor), _SMALLEST)
        curved = np.clip(curved, -(_STEEPEST**2), _STEEPEST**2)
        return curved - self.log_slope(predictor) ** 2

    def curve(self, *, logarithm: bool) -> Curve:
        """Return the mean, or its logarithm, with derivatives."""
        if logarithm:
            return Curve(self.log_mean, self.log_slope, self.log_curvature)
        return Curve(self.near, self.slope, self.curvature)


def _cut(predictor: Array) -> Array:
    return np.clip(np.asarray(predictor, dtype=np.float64), -_FARTHEST, _FARTHEST)


_STEP = 6e-6
"""Relative step of a central difference: the cube root of the precision of a float."""

_JUMP = 1e3


@dataclass(frozen=True, slots=True)
class Points:
    """Public points: the design (m, p), and any given columns of the schema as numbers (m,)."""

    rows: Array
    numbers: Mapping[str, Array] | None = None


@dataclass(frozen=True, slots=True)
class Slope:
    """Effect of a unit of a continuous column: its direction in the design (m, p), and its values (m,)."""

    name: str
    direction: Array
    place: Array

    def evaluate(self, points: Points, params: Array, curve: Curve, *, relative: bool) -> tuple[Array, Array]:
        """Return effects (m,) and their derivatives (m, p), for a relative change if ``relative``."""
        predictor = points.rows @ params
        moved, scale = self.direction @ params, self.place if relative else np.ones(len(points.rows))
        slope, curvature = curve.slope(predictor), curve.curvature(predictor)
        gradient = (curvature * moved)[:, None] * points.rows + slope[:, None] * self.direction
        return slope * moved * scale, gradient * scale[:, None]


@dataclass(frozen=True, slots=True)
class Difference:
    """Effect of moving from one design (m, p) to another, divided by ``divisor`` units."""

    name: str
    lower: Array
    upper: Array
    divisor: float = 1.0

    def evaluate(self, points: Points, params: Array, curve: Curve, *, relative: bool) -> tuple[Array, Array]:  # noqa: ARG002
        """Return effects (m,) and their derivatives (m, p)."""
        low, high = self.lower @ params, self.upper @ params
        gradient = curve.slope(high)[:, None] * self.upper - curve.slope(low)[:, None] * self.lower
        return (curve.value(high) - curve.value(low)) / self.divisor, gradient / self.divisor


Effect = Slope | Difference


def column_effects(
    rows: Array, values: Mapping[str, Array], design: FormulaDesign, name: str, *, dummy: bool, change: str = ""
) -> list[Effect]:
    """List the effects of one column of the schema, through all terms that read it.

    Parameters
    ----------
    rows : ndarray (m, p)
        The design at the points.
    values : mapping of str to ndarray (m,)
        Columns of the schema at the points, as numbers.
    design : FormulaDesign
    name : str
        The column.
    dummy : bool
        Whether a truth value changes from false to true; otherwise its slope is used.
    change : {"", "count", "unit"}
        For numbers: "" gives slopes; "count", for whole numbers from 0, half the difference between one more and one
        less; "unit" a change by 1, centred at the point.
    """
    size, declared = len(rows), design.schema[name]

    def at_value(value: Array | float) -> Array:
        return design.rows({**values, name: np.broadcast_to(np.asarray(value, dtype=np.float64), (size,))}, size)

    if is_factor(design, name):
        reference, lower = reference_level(design, name), float(getattr(declared, "lower", 0.0))
        first = at_value(lower + reference)
        return [
            Difference(level_name(design, name, level), first, at_value(lower + level))
            for level in range(len(declared.level_texts))
            if level != reference
        ]
    if dummy and isinstance(declared, Boolean):
        return [Difference(name, at_value(0.0), at_value(1.0))]
    here = values[name]
    if change == "unit":
        return [Difference(name, at_value(here - 0.5), at_value(here + 0.5))]
    if change == "count" and isinstance(declared, Integer) and declared.lower >= 0:
        return [Difference(name, at_value(here - 1.0), at_value(here + 1.0), 2.0)]
    step = _STEP * np.maximum(np.abs(here), min(1.0, float(getattr(declared, "width", 1.0))))
    return [Slope(name, _derivative(at_value, here, step), here)]


def is_factor(design: FormulaDesign, name: str) -> bool:
    """Whether a column of the schema enters by levels."""
    return name in design.coded or design.schema[name].kind == "category"


def contrasts_of(design: FormulaDesign, name: str) -> list[str]:
    """Return the contrasts of a factor in the order of `column_effects`: "b - a" for level b and reference a."""
    texts, reference = design.schema[name].level_texts, reference_level(design, name)
    return [f"{text} - {texts[reference]}" for level, text in enumerate(texts) if level != reference]


def _derivative(rows: Callable[[Array], Array], here: Array, step: Array) -> Array:
    """Differentiate a design (m, p) with respect to one column; at a jump, from the side without it."""
    low, middle, high = rows(here - step), rows(here), rows(here + step)
    before, after = (middle - low) / step[:, None], (high - middle) / step[:, None]
    size = np.abs(middle) / np.maximum(np.abs(here), 1.0)[:, None]
    smaller = np.where(np.abs(before) <= np.abs(after), before, after)
    jumps = np.maximum(np.abs(before), np.abs(after)) > _JUMP * (np.abs(smaller) + size)
    return np.asarray(np.where(jumps, smaller, (high - low) / (2.0 * step)[:, None]))


def reference_level(design: FormulaDesign, variable: str) -> int:
    """Return the level whose weights are all zero if there is one, else the first."""
    weights = [w for column in design.columns for name, w in column.codings if name == variable]
    unused = [level for level, column in enumerate(zip(*weights, strict=True)) if not any(column)]
    return unused[0] if unused else 0


def level_name(design: FormulaDesign, variable: str, level: int) -> str:
    """Return the name of a level's coefficient, if it has one."""
    texts = design.schema[variable].level_texts
    indicator = tuple(float(one == level) for one in range(len(texts)))
    for column in design.columns:
        if column.codings == ((variable, indicator),) and column.expression.constant == 1.0:
            return column.name
    return f"{variable}[T.{texts[level]}]"


MARGIN_LABELS = {"dydx": "dy/dx", "eyex": "d(lny)/d(lnx)", "dyex": "dy/d(lnx)", "eydx": "d(lny)/dx"}
"""What tables call the effects of each method, as in statsmodels."""


class MarginalEffects(printing.Exported):
    """Marginal effects of a generalized linear model, from released numbers and public points.

    Parameters
    ----------
    results : PrivateEstimates
        The results behind the effects.
    names : sequence of str, length k
        Names of the effects.
    margeff : ndarray (k,), or (m, k) for ``at="all"``
        The effects.
    gradients : ndarray (k, p), optional
        Their derivatives with respect to the coefficients; not with ``at="all"``.
    margeff_se : ndarray (k,), optional
        Standard errors, if they include more than the coefficients' errors.
    margeff_cov : ndarray (k, k), optional
        The corresponding covariance.
    at, method : str
        As in ``GLMResults.get_margeff``.
    notes : sequence of str
        Sentences to print below the table.

    Attributes
    ----------
    results, names, margeff
        As given.
    margeff_se : ndarray (k,)
        Standard errors by the delta method, including sampling and privacy noise.
    margeff_options : dict
        ``method`` and ``at``.

    Raises
    ------
    OptionError
        From everything except ``margeff`` if ``at="all"``, as in statsmodels.

    Notes
    -----
    For an effect g with derivative d with respect to the coefficients b, and the interval [l, u] of the combination
    d'b, the interval is [g + l - d'b, g + u - d'b]. With Wald inference this is the delta method. With other methods it
    keeps their length and infinite ends. P-values are those of the same combination.
    """

    _estimated_as = "margeff"

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
        """Derivatives (k, p) of the effects with respect to the coefficients."""
        if self._gradients is None:
            raise OptionError("at", "all", "another value: effects at every point have no summary, read margeff")
        return self._gradients

    @cached_property
    def _combined_se(self) -> Array:
        """Standard errors (k,) of the combinations of coefficients given by the gradients."""
        covariance = self.results.inference.cov_sampling + self.results.inference.cov_noise
        variances = np.einsum("kp,pq,kq->k", self.gradients, covariance, self.gradients)
        return np.asarray(np.sqrt(np.maximum(variances, 0.0)))

    @property
    def margeff_se(self) -> Array:
        """Standard errors (k,)."""
        return self._combined_se if self._given_se is None else self._given_se

    @property
    def margeff_cov(self) -> Array:
        """Covariance (k, k) of the effects; AttributeError if that of a released average is unknown."""
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
        """Effects divided by standard errors (k,); zero if an effect is exactly zero."""
        return _ratio(self.margeff, self.margeff_se)

    @cached_property
    def _moving(self) -> NDArray[np.bool_]:
        """Effects (k,) that depend on the coefficients."""
        return self._combined_se > 0

    @property
    def _stretch(self) -> Array:
        """Standard errors over those of the combinations, for effects that depend on the coefficients."""
        return np.asarray(self.margeff_se[self._moving] / self._combined_se[self._moving])

    @property
    def pvalues(self) -> Array:
        """Two-sided p-values (k,) of no effect, from the inference."""
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
            One minus the confidence level, for each effect separately.

        Returns
        -------
        ndarray (k, 2)
            Lower and upper ends; an end may be infinite.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
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
            statsmodels' columns: the effect ("dy/dx"), "Std. Err.", "z", "Pr(>|z|)" ("t" and "Pr(>|t|)" for a t
            reference), "Conf. Int. Low" and "Cont. Int. Hi.".

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
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

    def to_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return one row per effect with the columns of R's ``broom::tidy``; see ``PrivateResults.to_frame``.

        Parameters
        ----------
        alpha : float
            One minus the confidence.

        Returns
        -------
        DataFrame (k, 7)
            "term", "estimate", "std.error", "statistic", "p.value", "conf.low" and "conf.high".

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
        """
        return tidy_frame(self.names, self.margeff, self.margeff_se, self.pvalues, self.conf_int(alpha))

    def summary(self, alpha: float = 0.05) -> printing.PrivateSummary:
        """Return the table of effects with header, guarantee and warnings.

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
            If ``alpha`` is not strictly between 0 and 1.
        """
        results, frame = self.results, self.summary_frame(alpha)
        ends = frame.iloc[:, -2:].to_numpy(dtype=np.float64)
        frame.columns = [frame.columns[0], "std err", *statistic_labels(results), *printing.interval_labels(alpha)]
        table = printing.coefficient_table(frame, printing.column_labels(results.release, self.names))
        left = [("Dep. Variable:", results.response), *printing.guarantee_facts(results.release)]
        right = [("Method:", self.margeff_options["method"]), ("At:", self.margeff_options["at"])]
        right.append(("Inference:", results.inference.method))
        notes = [printing.guarantee_note(results.release), *self.notes, *method_notes(results, ends)]
        notes += printing.column_notes(results.release)
        title = f"{results.model_name} Marginal Effects"
        return printing.summary_of(title, left, right, table, notes, results.flags)

    def plot(
        self, ax: Axes | None = None, *, alpha: float = 0.05, color: str | None = None, legend: bool = True
    ) -> Axes:
        """Plot effects with intervals, distinguishing the sampling part from the noise part.

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
            The axes. An infinite end extends to the edge, with an arrow head.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1, or ``ax`` is not an Axes.
        """
        ends = self.conf_int(alpha)
        variances = np.einsum("kp,pq,kq->k", self.gradients, self.results.inference.cov_sampling, self.gradients)
        share = np.minimum(_ratio(np.sqrt(np.maximum(variances, 0.0)), self._combined_se), 1.0)
        effects = pd.Series(self.margeff, index=printing.column_labels(self.results.release, self.names))
        frame = interval_frame(effects, ends, share, stats.norm.isf(alpha / 2) * share * self.margeff_se)
        label = f"{MARGIN_LABELS[self.margeff_options['method']]} ({self.results.inference.method} inference)"
        title = self.results._plot_title()
        return draw_intervals(frame, ax, alpha=alpha, color=color, legend=legend, zero=True, label=label, title=title)


def _ratio(part: Array, whole: Array) -> Array:
    """Divide; 0/0 is 0, and anything else over 0 is infinite."""
    with np.errstate(all="ignore"):
        found = np.asarray(part / whole)
    return np.where(np.isnan(found), 0.0, found)

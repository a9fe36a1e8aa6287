"""Effects of columns on the mean at public points, with their tables and plots.

Mean functions and effects of columns with their derivatives; marginal effects as statsmodels' ``get_margeff`` returns
them; predictions, comparisons and slopes in frames laid out as those of marginaleffects; and means along one column.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.genmod.families import links
from statsmodels.genmod.families.links import Identity

from dpinfer.errors import OptionError, UnknownColumnError, type_of
from dpinfer.results import printing
from dpinfer.results.drawing import SMALL, draw_intervals, given_or_new, grouped, interval_frame, restrain, titled
from dpinfer.results.estimates import method_notes, statistic_labels
from dpinfer.results.prediction import public_frame
from dpinfer.results.testing import check_alpha
from dpinfer.schema.columns import Boolean, Category, Integer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dpinfer.results.estimates import PrivateEstimates
    from dpinfer.schema.columns import Column
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
        """Return finite means, linear predictors cut at 300 on both sides."""
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
    """Public points: the design (m, p), and where they were given by columns of the schema these as numbers (m,)."""

    rows: Array
    numbers: Mapping[str, Array] | None = None


@dataclass(frozen=True, slots=True)
class Slope:
    """Effect of a unit of something continuous: its direction in the design (m, p), and where it is (m,)."""

    name: str
    direction: Array
    place: Array

    def evaluate(self, points: Points, params: Array, curve: Curve, *, relative: bool) -> tuple[Array, Array]:
        """Return effects (m,) and their derivatives (m, p); of a relative change where ``relative``."""
        predictor = points.rows @ params
        moved, scale = self.direction @ params, self.place if relative else np.ones(len(points.rows))
        slope, curvature = curve.slope(predictor), curve.curvature(predictor)
        gradient = (curvature * moved)[:, None] * points.rows + slope[:, None] * self.direction
        return slope * moved * scale, gradient * scale[:, None]


@dataclass(frozen=True, slots=True)
class Difference:
    """Effect of going from one design (m, p) to another, over ``divisor`` units."""

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
        Whether a truth value goes from false to true; else its slope is taken.
    change : {"", "count", "unit"}
        Of numbers: slopes; half the difference of one more and one less, of whole numbers from 0 on; a change by 1,
        half of it on each side.
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
    """Return what `column_effects` compares of a factor, in its order: "b - a" for level b with the reference a."""
    texts, reference = design.schema[name].level_texts, reference_level(design, name)
    return [f"{text} - {texts[reference]}" for level, text in enumerate(texts) if level != reference]


def _derivative(rows: Callable[[Array], Array], here: Array, step: Array) -> Array:
    """Differentiate a design (m, p) by one column; at a jump from the side without it."""
    low, middle, high = rows(here - step), rows(here), rows(here + step)
    before, after = (middle - low) / step[:, None], (high - middle) / step[:, None]
    size = np.abs(middle) / np.maximum(np.abs(here), 1.0)[:, None]
    smaller = np.where(np.abs(before) <= np.abs(after), before, after)
    jumps = np.maximum(np.abs(before), np.abs(after)) > _JUMP * (np.abs(smaller) + size)
    return np.asarray(np.where(jumps, smaller, (high - low) / (2.0 * step)[:, None]))


def reference_level(design: FormulaDesign, variable: str) -> int:
    """Return the level whose weights are all zero where there is one, else the first."""
    weights = [w for column in design.columns for name, w in column.codings if name == variable]
    unused = [level for level, column in enumerate(zip(*weights, strict=True)) if not any(column)]
    return unused[0] if unused else 0


def level_name(design: FormulaDesign, variable: str, level: int) -> str:
    """Return the name of the coefficient of a level where it has one."""
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

    def summary(self, alpha: float = 0.05) -> printing.PrivateSummary:
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
        ends = frame.iloc[:, -2:].to_numpy(dtype=np.float64)
        frame.columns = [frame.columns[0], "std err", *statistic_labels(results), *printing.interval_labels(alpha)]
        table = printing.coefficient_table(frame, printing.column_labels(results.release, self.names))
        left = [("Dep. Variable:", results.response), *printing.guarantee_facts(results.release)]
        right = [("Method:", self.margeff_options["method"]), ("At:", self.margeff_options["at"])]
        right.append(("Inference:", results.inference.method))
        notes = [printing.guarantee(results.release), *self.notes, *method_notes(results, ends)]
        notes += [*printing.column_notes(results.release), *printing.charge_notes(results.release)]
        title = f"{results.model_name} Marginal Effects"
        return printing.summary_of(title, left, right, table, notes, results.flags)

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


_POINTS = 101


def _grid(column: Column) -> Sequence[Any]:
    """Return the levels of a column, or points evenly over its declared bounds."""
    if isinstance(column, Category):
        return column.levels
    if column.kind == "boolean":
        return (False, True)
    lower, upper = float(getattr(column, "lower", 0.0)), float(getattr(column, "upper", 1.0))
    if isinstance(column, Integer) and upper - lower < _POINTS:
        return [float(k) for k in range(int(lower), int(upper) + 1)]
    return [float(value) for value in np.linspace(lower, upper, _POINTS)]


class PublicGrids:
    """What `marginaleffects` computes of a model, at points that are public; a part of `PrivateResults`.

    That package takes the rows of a fit: its averages, its steps and its levels are theirs. Here the points are given,
    the covariance counts privacy noise, and p-values and intervals are those of the results' one inference.
    """

    _design: FormulaDesign | None
    _inverse_link: Callable[[Array], Array] | None

    @property
    def _curve(self) -> Curve:
        """The mean as a function of the linear predictor."""
        if self._inverse_link is not None:
            raise OptionError("variables", None, "results whose mean has a known derivative: predictions() needs none")
        return MeanFunction(Identity()).curve(logarithm=False)

    def predictions(self, newdata: object, *, conf_level: float = 0.95) -> pd.DataFrame:
        """Return predicted means at public points, with errors, tests and intervals.

        Parameters
        ----------
        newdata : DataFrame or dict
            Public points, as ``exog`` of `get_prediction`.
        conf_level : float
            The confidence, of each mean by itself.

        Returns
        -------
        DataFrame (m, ...)
            "rowid", "estimate", "std_error", "statistic", "p_value", "s_value", "conf_low", "conf_high",
            then the points. With a link there are no "statistic", "p_value" and "s_value", for the hypothesis of a zero
            mean lies at infinity, and the interval is that of the linear predictor put through the inverse link.

        Raises
        ------
        UnknownColumnError, OptionError, FormulaError
            As `get_prediction`; where ``conf_level`` is not strictly between 0 and 1.
        """
        results: Any = self
        alpha, points = 1.0 - check_alpha(conf_level, "conf_level"), _points(newdata)
        found = results.get_prediction(points)
        frame = found.summary_frame(alpha)
        columns = {"estimate": frame["mean"], "std_error": frame.get("mean_se", np.nan)}
        if found.inverse_link is None and not found._added.any():
            ratio = frame["mean"] / frame["mean_se"]
            pvalues = results.inference.contrast_pvalues(found.rows, np.zeros(len(found.rows)))
            columns |= {"statistic": ratio, "p_value": pvalues, "s_value": _surprise(pvalues)}
        columns |= {"conf_low": frame["mean_ci_lower"], "conf_high": frame["mean_ci_upper"]}
        return _laid_out(pd.DataFrame(columns, index=points.index), points)

    def comparisons(
        self, newdata: object, variables: str | Sequence[str] | None = None, *, conf_level: float = 0.95
    ) -> pd.DataFrame:
        """Return differences of predicted means, for a change of one column, at public points.

        Parameters
        ----------
        newdata : DataFrame or dict
            Public points, by all columns that the formula reads.
        variables : str or sequence of str, optional
            Columns that change; by default all that the formula reads.
        conf_level : float
            The confidence, of each difference by itself.

        Returns
        -------
        DataFrame
            A row for each change and point: "rowid", "term", "contrast", "estimate", "std_error", "statistic",
            "p_value", "s_value", "conf_low", "conf_high", and the points. Numbers change by one, half of it on each
            side (``"+1"``), truth values from false to true, factors from their reference level to each other.

        Raises
        ------
        UnknownColumnError, OptionError, FormulaError
            As `predictions`; where there is no formula, or it does not read a column.
        """
        return self._effects(newdata, variables, 1.0 - check_alpha(conf_level, "conf_level"), "unit", "+1")

    def slopes(
        self, newdata: object, variables: str | Sequence[str] | None = None, *, conf_level: float = 0.95
    ) -> pd.DataFrame:
        """Return slopes of the mean along columns, at public points; of factors and truth values `comparisons`.

        Parameters
        ----------
        newdata, variables, conf_level
            As in `comparisons`.

        Returns
        -------
        DataFrame
            As `comparisons`; the contrast of numbers is ``"dY/dX"``.

        Raises
        ------
        UnknownColumnError, OptionError, FormulaError
            As `comparisons`.
        """
        return self._effects(newdata, variables, 1.0 - check_alpha(conf_level, "conf_level"), "", "dY/dX")

    def margins_frame(
        self, term: str, at: object = None, *, grid: Sequence[object] | None = None, alpha: float = 0.05
    ) -> pd.DataFrame:
        """Return what ``plot_margins`` draws: predicted means along one column of the schema.

        Parameters
        ----------
        term : str
            A column that the formula reads.
        at : dict or DataFrame, optional
            Public values of all other columns that it reads; several values make several curves.
        grid : sequence, optional
            Public values of ``term``; by default its levels, or points evenly over its declared bounds.
        alpha : float
            One minus the confidence.

        Returns
        -------
        DataFrame
            A row for each curve and point: "curve" (0, 1, ...), the columns that the formula reads, and those of
            ``get_prediction(...).summary_frame(alpha)``.

        Raises
        ------
        UnknownColumnError
            Where the formula does not read ``term``, or ``at`` lacks a column.
        OptionError
            Where there is no formula, or a value is no number or declared level.
        FormulaError
            Where a term is not defined at a point.
        """
        check_alpha(alpha)
        design = self._design
        if design is None:
            raise OptionError("term", term, "a column of a formula, and these results have none")
        if term not in design.variables:
            raise UnknownColumnError(term, design.variables, "the formula")
        names = [name for name in design.variables if name != term]
        others = public_frame({} if at is None else at, "at")
        if others is None:
            raise OptionError("at", type_of(at), f"a dict or a DataFrame with public values of {', '.join(names)}")
        for name in names:
            if name not in others.columns:
                raise UnknownColumnError(name, others.columns, "at")
        values = pd.Series(list(_grid(design.schema[term]) if grid is None else grid), name=term)
        if not len(values) or not len(others):
            raise OptionError("grid" if len(others) else "at", [], "at least one point")
        points = others[names].merge(values.to_frame(), how="cross")
        points.index = pd.RangeIndex(len(points))
        results: Any = self
        predicted = results.get_prediction(points).summary_frame(alpha)
        points["curve"] = np.repeat(np.arange(len(others)), len(values))
        return points[["curve", *design.variables]].join(predicted)

    def plot_margins(
        self,
        term: str,
        at: object = None,
        ax: Axes | None = None,
        *,
        grid: Sequence[object] | None = None,
        alpha: float = 0.05,
        color: str | None = None,
        legend: bool = True,
    ) -> Axes:
        """Plot the predicted mean along one column, the others at public values, with a pointwise band.

        Parameters
        ----------
        term, at, grid, alpha
            As in ``margins_frame``.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        color : str, optional
            Colour of a single curve.
        legend : bool
            Whether to draw a legend where there are several curves.

        Returns
        -------
        matplotlib.axes.Axes
            The axes. An infinite end is drawn to the edge.

        Raises
        ------
        UnknownColumnError, OptionError, FormulaError
            As ``margins_frame``.
        """
        frame = self.margins_frame(term, at, grid=grid, alpha=alpha)
        results: Any = self
        design = self._design
        assert design is not None
        ax = given_or_new(ax, 6.4, 4.2)
        curves = [curve for _, curve in frame.groupby("curve", sort=True)]
        varying = [name for name in design.variables if name != term and len(set(map(str, frame[name]))) > 1]
        discrete = design.schema[term].kind in ("category", "boolean")
        ends = frame[["mean", "mean_ci_lower", "mean_ci_upper"]].to_numpy(dtype=np.float64)
        finite = ends[np.isfinite(ends)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        margin = 0.06 * (high - low) or 1.0
        for place, curve in enumerate(curves):
            label = ", ".join(f"{design.schema.caption(name)} = {curve[name].iloc[0]}" for name in varying)
            shade = color if color and len(curves) == 1 else f"C{place}"
            below, above = (curve[end].clip(low - margin, high + margin) for end in ("mean_ci_lower", "mean_ci_upper"))
            if discrete:
                places = np.arange(len(curve)) + 0.12 * (place - (len(curves) - 1) / 2)
                ax.vlines(places, below, above, color=shade, linewidth=1.4)
                ax.plot(places, curve["mean"], "o", color=shade, markersize=5, label=label)
                ax.set_xticks(np.arange(len(curve)), [str(value) for value in curve[term]])
            else:
                ax.fill_between(
                    curve[term].to_numpy(dtype=np.float64), below, above, color=shade, alpha=0.25, linewidth=0
                )
                ax.plot(curve[term].to_numpy(dtype=np.float64), curve["mean"], color=shade, label=label)
        ax.set_ylim(low - margin, high + margin)
        ax.set_xlabel(design.schema.caption(term))
        ax.set_ylabel(
            f"mean of {design.schema.caption(results.response)},\npointwise {100 * (1 - alpha):.4g}% intervals"
        )
        titled(ax, f"{design.schema.caption(results.response)}: {printing.title_guarantee(results.release)}")
        restrain(ax)
        grouped(ax.yaxis, *([] if discrete else [ax.xaxis]))
        if legend and varying:
            ax.legend(frameon=False, fontsize=SMALL)
        return ax

    def _effects(self, newdata: object, variables: object, alpha: float, change: str, label: str) -> pd.DataFrame:
        results: Any = self
        design = self._design
        if design is None:
            raise OptionError("variables", variables, "results of a formula: these have none to tell what changes")
        points = _points(newdata)
        values = design.read(points)
        at, params, curve = Points(design.rows(values, len(points)), values), results.inference.params, self._curve
        found = []
        for name in _named(variables, design):
            effects = column_effects(at.rows, values, design, name, dummy=True, change=change)
            factor, truth = is_factor(design, name), isinstance(design.schema[name], Boolean)
            contrasts = contrasts_of(design, name) if factor else ["True - False" if truth else label]
            for contrast, effect in zip(contrasts, effects, strict=True):
                changes = MarginalEffects(results, (), *effect.evaluate(at, params, curve, relative=False))
                found.append(_laid_out(_tested(changes, name, contrast, alpha, points.index), points))
        return pd.concat(found, ignore_index=True)


def _tested(changes: MarginalEffects, name: str, contrast: str, alpha: float, index: pd.Index) -> pd.DataFrame:
    """Return the columns of changes (m,) of one kind, one a point."""
    ends = changes.conf_int(alpha)
    columns = {
        "term": name,
        "contrast": contrast,
        "estimate": changes.margeff,
        "std_error": changes.margeff_se,
        "statistic": changes.tvalues,
        "p_value": changes.pvalues,
        "s_value": _surprise(changes.pvalues),
        "conf_low": ends[:, 0],
        "conf_high": ends[:, 1],
    }
    return pd.DataFrame(columns, index=index)


def _surprise(pvalues: Array) -> Array:
    """Return p-values in bits, -log2 p; infinite where a p-value is zero."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log2(pvalues))


def _laid_out(numbers: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Put the number of the point before the numbers, and the points after them."""
    taken = [name for name in points.columns if name in numbers.columns or name == "rowid"]
    if taken:
        raise OptionError("newdata", ", ".join(map(str, taken)), "columns that are not called as the results are")
    numbers.insert(0, "rowid", np.arange(len(points)))
    return numbers.join(points).reset_index(drop=True)


def _points(newdata: object) -> pd.DataFrame:
    to_pandas = getattr(newdata, "to_pandas", None)  # of Polars and Arrow
    frame = public_frame(newdata if to_pandas is None else to_pandas(), "newdata")
    if frame is None or frame.empty:
        raise OptionError("newdata", type_of(newdata), "public points: a DataFrame, or a dict of columns")
    return frame.reset_index(drop=True)


def _named(variables: object, design: FormulaDesign) -> Sequence[str]:
    """Return the columns that change."""
    if variables is None:
        return design.variables
    names = [variables] if isinstance(variables, str) else variables
    if not isinstance(names, list | tuple) or not names:
        raise OptionError("variables", type_of(variables), "columns that the formula reads, by name")
    for name in names:
        if name not in design.variables:
            raise UnknownColumnError(name, design.variables, "the formula")
    return list(names)

"""Results of generalized linear models: predictions, ratios and marginal effects."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from dpinfer.errors import MissingFromReleaseError, OptionError, UnknownColumnError
from dpinfer.results.base import PrivateResults
from dpinfer.results.margins import (
    MARGIN_LABELS,
    Difference,
    MarginalEffects,
    MeanFunction,
    Points,
    Slope,
    column_effects,
    level_name,
    reference_level,
)
from dpinfer.results.prediction import CONSTANTS, MeanPrediction, design_rows, public_points
from dpinfer.results.printing import interval_labels
from dpinfer.results.testing import check_alpha
from dpinfer.schema.columns import Integer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from dpinfer.regression.inference import AverageChange, AverageSlope
    from dpinfer.release.release import AnyRelease
    from dpinfer.results.margins import Curve, Effect
    from dpinfer.schema.formula import FormulaDesign
    from dpinfer.statistics.inference import Inference

    Array = NDArray[np.float64]

__all__ = ["Change", "GLMResults", "lone_changes"]

_AT = ("overall", "mean", "median", "zero", "all")


_DIFFERENCE = "a difference of means"
"""Why an average effect is not a coefficient times one average."""


class GLMResults(PrivateResults):
    """Coefficients of a generalized linear model, with predicted means, ratios and marginal effects.

    All members of `PrivateResults` are available too.

    Parameters
    ----------
    inference, release, model_name, response, notes, design
        As in `PrivateResults`.
    link : statsmodels link
        Such as ``sm.families.links.Logit()``; it defines the mean and its derivatives.
    counts : bool
        Whether the response is a count, so that exponentiated coefficients are rate ratios.
    average_slope : AverageSlope, optional
        For average marginal effects; by default ``inference.average_slope``, if there is one.
    average_changes : sequence of AverageChange
        For average effects of 0/1 terms, factors and integers.

    Raises
    ------
    InferenceError
        As in `PrivateResults`.
    """

    def __init__(
        self,
        inference: Inference,
        release: AnyRelease,
        *,
        link: Any,
        model_name: str = "Private GLM",
        response: str = "y",
        notes: Sequence[str] = (),
        design: FormulaDesign | None = None,
        counts: bool = False,
        average_slope: AverageSlope | None = None,
        average_changes: Sequence[AverageChange] = (),
    ) -> None:
        self._mean, self._counts, self._average_slope = MeanFunction(link), counts, average_slope
        self._average_changes = tuple(average_changes)
        super().__init__(
            inference,
            release,
            model_name=model_name,
            response=response,
            notes=notes,
            inverse_link=None if self._mean.is_identity else self._mean.mean,
            design=design,
        )

    def __repr__(self) -> str:
        return super().__repr__().replace("<PrivateResults", f"<{type(self).__name__}", 1)

    @property
    def link(self) -> Any:
        """The link, a statsmodels object."""
        return self._mean.link

    @property
    def _curve(self) -> Curve:
        return self._mean.curve(logarithm=False)

    # Predictions

    def get_prediction(
        self, exog: object, *, offset: ArrayLike | None = None, exposure: ArrayLike | None = None
    ) -> MeanPrediction:
        """Return predicted means at public design points, with standard errors and intervals.

        Parameters
        ----------
        exog : DataFrame, dict or array (m, p)
            As in ``PrivateResults.get_prediction``.
        offset : float or array (m,), optional
            Added to the linear predictor; 0 by default, whatever the offset of the rows.
        exposure : float or array (m,), optional
            Positive; its logarithm is added to the linear predictor.

        Returns
        -------
        MeanPrediction
            ``predicted_mean``, ``se_mean``, ``conf_int(alpha)``, ``summary_frame(alpha)``. Intervals are those of the
            linear predictor, transformed by the inverse link.

        Raises
        ------
        UnknownColumnError, OptionError, FormulaError
            As in ``PrivateResults.get_prediction``; also if ``offset`` or ``exposure`` is invalid.
        """
        rows, index = design_rows(exog, self._inference.names, self._design)
        added = _numbers("offset", offset, len(rows), 0.0) + np.log(_numbers("exposure", exposure, len(rows), 1.0))
        slope = None if self._inverse_link is None else self._mean.slope
        return MeanPrediction(self._inference, rows, index, self._inverse_link, slope, added)

    def predict(
        self,
        exog: object,
        *,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        which: Literal["mean", "linear"] = "mean",
    ) -> pd.Series:
        """Return predicted means, or linear predictors, at public design points.

        Parameters
        ----------
        exog, offset, exposure
            As in ``get_prediction``.
        which : {"mean", "linear"}
            What to return.

        Returns
        -------
        Series (m,)
            With the row labels of ``exog``.

        Raises
        ------
        UnknownColumnError, OptionError, FormulaError
            As in ``get_prediction``.
        """
        if which not in ("mean", "linear"):
            raise OptionError("which", which, ("mean", "linear"))
        found = self.get_prediction(exog, offset=offset, exposure=exposure)
        return found.predicted_mean if which == "mean" else found.linear_predictor

    # Ratios

    def exponentiated(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return exponentiated coefficients: odds ratios for a logit, rate ratios for counts with a log link.

        Parameters
        ----------
        alpha : float
            One minus the confidence level.

        Returns
        -------
        DataFrame (p, 3)
            Column "odds ratio", "rate ratio" or else "exp(coef)", and the endpoints of the interval: those of the
            coefficient, exponentiated, 0 or infinite if it is unbounded.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
        """
        rate = self._mean.is_log and self._counts
        label = "odds ratio" if self._mean.is_logit else "rate ratio" if rate else "exp(coef)"
        lower, upper = interval_labels(check_alpha(alpha))
        ends = self.conf_int(alpha)
        columns = {label: self.params, lower: ends[0], upper: ends[1]}
        with np.errstate(over="ignore"):
            return pd.DataFrame({name: np.exp(values) for name, values in columns.items()})

    # Marginal effects

    def get_margeff(
        self,
        at: str = "overall",
        method: str = "dydx",
        atexog: object = None,
        dummy: bool = False,
        count: bool = False,
        *,
        terms: Sequence[str] | None = None,
    ) -> MarginalEffects:
        """Return marginal effects on the mean, with standard errors by the delta method.

        Parameters
        ----------
        at : {"overall", "mean", "median", "zero", "all"}
            As in statsmodels: effects averaged over points, at the mean or the median of the design, at a design of
            zeros, or at every point. Without ``atexog`` the points are the confidential rows, for which only "overall"
            can have been released; "zero" needs no points.
        method : {"dydx", "eyex", "dyex", "eydx"}
            Derivative of the mean ("dy") or its logarithm ("ey") with respect to a term ("dx") or its logarithm ("ex").
        atexog : DataFrame, dict or array (m, p), optional
            Public points that replace the rows, as in ``predict``: the columns of the formula.
        dummy : bool
            Whether 0/1 terms change from 0 to 1, and factors from their reference level to each other level. False, as
            in statsmodels, takes the derivative with respect to every column.
        count : bool
            Whether nonnegative integers change by one: half the difference between one more and one less.
        terms : sequence of str, optional
            Names of the effects; all by default.

        Returns
        -------
        MarginalEffects
            ``margeff``, ``margeff_se``, ``conf_int(alpha)``, ``pvalues``, ``tvalues``, ``summary()``,
            ``summary_frame(alpha)``, ``plot()``.

        Raises
        ------
        MissingFromReleaseError
            If a required average over rows was not released. The message names the effects.
        UnknownColumnError, FormulaError
            As in ``predict``; also if a name in ``terms`` does not exist.
        OptionError
            If an option has an invalid value, or is incompatible with the others.

        Notes
        -----
        Effects are those of the terms, as in statsmodels, except for columns in several terms: ``age`` with ``age +
        I(age**2)`` has one effect through both. With ``dummy=True`` the levels of a factor are mutually exclusive,
        whereas statsmodels changes one column at a time.

        The average effect of a continuous term is its coefficient times the average slope of the mean, which binary and
        Poisson regressions always release. Differences of means, and slopes of other models, are released only with
        ``margins=True``. As in statsmodels, standard errors treat the rows' regressors as fixed.
        """
        _check_margins(at, method, dummy=dummy, count=count)
        if atexog is None and at != "zero":
            return self._average_effects(at, method, terms, dummy=dummy, count=count)
        points = self._points(at, atexog)
        names = self._inference.names
        if method.startswith("ey") and not (self._mean.near(points.rows @ self._inference.params) > 0).all():
            raise OptionError("method", method, "'dydx' or 'dyex': a predicted mean is not positive at the points")
        effects = _chosen(effects_at(points, names, self._design, dummy=dummy, count=count), terms)
        curve, params = self._mean.curve(logarithm=method.startswith("ey")), np.asarray(self._inference.params)
        found = [one.evaluate(points, params, curve, relative=method.endswith("ex")) for one in effects]
        values = np.column_stack([value for value, _ in found])
        labels = tuple(one.name for one in effects)
        notes = ("Effects are at public points.", *self._on_factors(dummy=dummy))
        if at == "all":
            return MarginalEffects(self, labels, values, None, at=at, method=method, notes=notes)
        gradients = np.stack([gradient.mean(axis=0) for _, gradient in found])
        return MarginalEffects(self, labels, values.mean(axis=0), gradients, at=at, method=method, notes=notes)

    def _points(self, at: str, atexog: object) -> Points:
        """Read the points, and replace them by their mean, median or zero if requested."""
        names = self._inference.names
        if at == "zero":
            return Points(np.array([[float(name in CONSTANTS) for name in names]]))
        rows, values = public_points(atexog, names, self._design)
        if at in ("overall", "all"):
            return Points(rows, values)
        return Points(np.atleast_2d((np.mean if at == "mean" else np.median)(rows, axis=0)))

    def _average_effects(
        self, at: str, method: str, terms: Sequence[str] | None, *, dummy: bool, count: bool
    ) -> MarginalEffects:
        """Return averages over the rows, from the released average slope."""
        if at != "overall":
            raise OptionError("at", at, "'overall' or 'zero' without atexog=: the rows' regressors were not released")
        names = self._inference.names
        simple = {name: place for place, name in enumerate(names) if name not in CONSTANTS}
        other: dict[str, str] = {}
        if self._design is not None:
            simple, other = lone_terms(self._design, dummy=dummy, count=count)
        elif dummy or count:
            raise OptionError("dummy" if dummy else "count", True, "False: these results have no formula to tell")
        changes = self._released_changes(method, other)
        other = {name: reason for name, reason in other.items() if name not in {one.term for one in changes.values()}}
        wanted = [*simple, *changes, *other] if terms is None else list(terms)
        if not wanted:
            raise OptionError("terms", terms, "at least one effect, of a term that is not constant")
        for name in wanted:
            if name not in simple and name not in changes and name not in other:
                raise UnknownColumnError(name, [*simple, *changes, *other], "the effects")
        _refuse_missing({name: other[name] for name in wanted if name in other})
        slope = self._released_slope(method) if any(name in simple for name in wanted) else (0.0, 0.0, None)
        notes = ("Averages over the rows, with regressors treated as fixed.", *self._on_factors(dummy=dummy))
        averages = self._averages(wanted, simple, changes, *slope)
        return MarginalEffects(self, tuple(wanted), at=at, method=method, notes=notes, **averages)

    def _averages(
        self,
        wanted: Sequence[str],
        simple: Mapping[str, int],
        changes: Mapping[str, AverageChange],
        value: float,
        variance: float,
        covariance: Array | None,
    ) -> dict[str, Any]:
        """Return effects of changes, and of slopes with the common average ``value``, with derivatives and errors."""
        params = np.asarray(self._inference.params)
        total = np.asarray(self._inference.cov_sampling + self._inference.cov_noise)
        places = [simple.get(name, 0) for name in wanted]
        sloping = np.array([name in simple for name in wanted])
        along = params[places] * sloping
        effects, gradients = value * along, value * np.eye(len(params))[places] * sloping[:, None]
        noise = np.zeros(len(wanted))
        for place in np.flatnonzero(~sloping).tolist():
            change = changes[wanted[place]]
            effects[place], gradients[place], noise[place] = change.value, change.gradient, change.variance
        spread = gradients @ total @ gradients.T + np.diag(noise)
        if covariance is None and along.any():
            errors = np.sqrt(np.diag(spread)) + np.abs(along) * np.sqrt(variance)
            return {"margeff": effects, "gradients": gradients, "margeff_se": errors}
        moved = np.zeros(len(wanted)) if covariance is None else gradients @ np.asarray(covariance, dtype=np.float64)
        mixed = np.outer(along, moved)
        spread = spread + variance * np.outer(along, along) + mixed + mixed.T
        errors = np.sqrt(np.maximum(np.diag(spread), 0.0))
        return {"margeff": effects, "gradients": gradients, "margeff_se": errors, "margeff_cov": spread}

    def _released_changes(self, method: str, other: Mapping[str, str]) -> dict[str, AverageChange]:
        """Return the released average changes of terms among ``other``, by name of the effect."""
        if method != "dydx":
            return {}
        return {one.name: one for one in self._average_changes if one.term in other}

    def _on_factors(self, *, dummy: bool) -> tuple[str, ...]:
        """Describe the treatment of 0/1 terms and factors, if there are any."""
        columns = () if self._design is None else self._design.columns
        discrete = any(one.codings or (one.expression.boolean and one.expression.columns) for one in columns)
        if dummy or not discrete:
            return ()
        return ("Dummy variables are treated as continuous, as in statsmodels; dummy=True takes differences.",)

    def _released_slope(self, method: str) -> tuple[float, float, Array | None]:
        """Return the factor of a coefficient: 1 if the link allows, or the released average slope."""
        nothing = np.zeros(len(self._inference.names))
        if (self._mean.is_identity and method == "dydx") or (self._mean.is_log and method == "eydx"):
            return 1.0, 0.0, nothing
        found = self._average_slope or getattr(self._inference, "average_slope", None)
        if method != "dydx" or found is None:
            raise MissingFromReleaseError(
                f"the average of {MARGIN_LABELS[method]} over rows was not released; "
                "use atexog= for effects at public points"
            )
        value, variance, covariance = found
        return float(value), max(float(variance), 0.0), covariance


def _refuse_missing(reasons: Mapping[str, str]) -> None:
    """Refuse effects without a released sum; one can be released only for differences."""
    if not reasons:
        return
    missing = ", ".join(f"{name} ({reason})" for name, reason in reasons.items())
    needed = f"average marginal effects of {missing} need a sum over rows that was not released; "
    others = "use atexog= for effects at public points, or terms= to omit them"
    if any(reason == _DIFFERENCE for reason in reasons.values()):
        raise MissingFromReleaseError(f"{needed}fit with margins=True to release it, {others}")
    raise MissingFromReleaseError(f"{needed}margins=True does not cover slopes that vary with other columns: {others}")


def _check_margins(at: str, method: str, *, dummy: bool, count: bool) -> None:
    if at not in _AT:
        raise OptionError("at", at, _AT)
    if method not in MARGIN_LABELS:
        raise OptionError("method", method, tuple(MARGIN_LABELS))
    if (dummy or count) and method in ("dyex", "eyex"):
        raise OptionError("method", method, "'dydx' or 'eydx' with dummy=True or count=True")
    if (dummy or count) and at in ("median", "zero"):
        raise OptionError("at", at, "'overall', 'mean' or 'all' with dummy=True or count=True")


def _chosen(effects: list[Effect], terms: Sequence[str] | None) -> list[Effect]:
    by_name = {one.name: one for one in effects}
    for name in terms or []:
        if name not in by_name:
            raise UnknownColumnError(name, by_name, "the effects")
    chosen = effects if terms is None else [by_name[name] for name in terms]
    if not chosen:
        raise OptionError("terms", terms, "at least one effect, of a term that is not constant")
    return chosen


def _numbers(option: str, given: ArrayLike | None, size: int, default: float) -> Array:
    """Read an offset or an exposure as (m,)."""
    found = None
    with suppress(TypeError, ValueError):
        found = np.broadcast_to(np.asarray(default if given is None else given, dtype=np.float64), (size,))
    if found is None or not np.isfinite(found).all() or (option == "exposure" and not (found > 0).all()):
        sign = "positive " if option == "exposure" else ""
        raise OptionError(option, given, f"a finite {sign}number, or {size} of them")
    return found


def effects_at(
    points: Points, names: Sequence[str], design: FormulaDesign | None, *, dummy: bool = False, count: bool = False
) -> list[Effect]:
    """List the effects at public points, in the order of the design.

    A term with separate columns has an effect for each column, as in statsmodels. A column of the schema in several
    terms, as ``age`` and ``I(age**2)``, has one effect through all of them.

    Raises
    ------
    OptionError
        If an effect through several terms is requested at a design not given by columns of the schema, or discrete
        changes without a formula.
    """
    if design is None:
        if dummy or count:
            raise OptionError("dummy" if dummy else "count", True, "False: these results have no formula to tell")
        return [_column_slope(points, j, name) for j, name in enumerate(names) if name not in CONSTANTS]
    found: list[Effect] = []
    for group in _groups(design):
        if len(group) > 1 or _crossed(design, design.terms[group[0]]):
            found.extend(_joint_effects(points, design, group, dummy=dummy, count=count))
            continue
        for place in design.terms[group[0]]:
            kind = _discrete(design, place, dummy=dummy, count=count)
            if kind == "factor":
                found.extend(_level_differences(points, design, design.terms[group[0]]))
                break
            found.append(_column_effect(points, design, place, kind))
    return found


def lone_terms(design: FormulaDesign, *, dummy: bool, count: bool) -> tuple[dict[str, int], dict[str, str]]:
    """Separate effects that are a coefficient times one average, by position, from others, with the reason."""
    simple: dict[str, int] = {}
    other: dict[str, str] = {}
    for group in _groups(design):
        if len(group) > 1 or _crossed(design, design.terms[group[0]]):
            other |= dict.fromkeys(_variables(design, group), "in several columns of the design")
            continue
        for place in design.terms[group[0]]:
            kind = _discrete(design, place, dummy=dummy, count=count)
            if kind:
                other[group[0] if kind == "factor" else design.names[place]] = _DIFFERENCE
            else:
                simple[design.names[place]] = place
    return simple, other


@dataclass(frozen=True, slots=True)
class Change:
    """A discrete change of a separate term: columns at ``places`` become ``lower`` (p,) and ``upper`` (p,).

    For columns of integers, ``lower`` and ``upper`` are added instead.
    """

    name: str
    term: str
    kind: str
    places: tuple[int, ...]
    lower: Array
    upper: Array
    divisor: float = 1.0


def lone_changes(design: FormulaDesign) -> list[Change]:
    """List the discrete changes of terms that share no columns with others."""
    found: list[Change] = []
    eye = np.eye(len(design.names))
    zero = np.zeros(len(design.names))
    for group in _groups(design):
        places = tuple(design.terms[group[0]])
        if len(group) > 1 or _crossed(design, places):
            continue
        for place in places:
            name, kind = design.names[place], _discrete(design, place, dummy=True, count=True)
            if kind == "factor":
                found.extend(_level_changes(design, group[0], places))
                break
            if kind == "dummy":
                found.append(Change(name, name, kind, (place,), zero, eye[place]))
            elif kind == "count":
                found.append(Change(name, name, kind, (), -eye[place], eye[place], 2.0))
    return found


def _level_changes(design: FormulaDesign, term: str, places: tuple[int, ...]) -> list[Change]:
    variable = design.columns[places[0]].codings[0][0]
    coding = np.zeros((len(design.names), len(design.columns[places[0]].codings[0][1])))
    coding[list(places)] = [design.columns[place].codings[0][1] for place in places]
    first = reference_level(design, variable)
    return [
        Change(level_name(design, variable, one), term, "factor", places, coding[:, first], coding[:, one])
        for one in range(coding.shape[1])
        if one != first
    ]


def _groups(design: FormulaDesign) -> list[list[str]]:
    """Terms that share columns of the schema, directly or through other terms."""
    groups: list[tuple[set[str], list[str]]] = []
    for term, places in design.terms.items():
        read = {name for place in places for name in design.columns[place].columns}
        if not read:
            continue
        touched = [group for group in groups if group[0] & read]
        joined = (read.union(*(group[0] for group in touched)), [*(t for group in touched for t in group[1]), term])
        at = groups.index(touched[0]) if touched else len(groups)
        groups = [group for group in groups if group not in touched]
        groups.insert(at, joined)
    return [terms for _, terms in groups]


def _crossed(design: FormulaDesign, places: Sequence[int]) -> bool:
    """Whether a term is an interaction with a factor."""
    codings = [design.columns[place].codings for place in places]
    return any(len(one) > 1 for one in codings) or any(
        one and design.columns[place].expression.constant != 1.0 for place, one in zip(places, codings, strict=True)
    )


def _variables(design: FormulaDesign, group: Sequence[str]) -> list[str]:
    read = {name for term in group for place in design.terms[term] for name in design.columns[place].columns}
    return [name for name in design.variables if name in read]


def _discrete(design: FormulaDesign, place: int, *, dummy: bool, count: bool) -> str:
    """Return the type of change of a separate term: "dummy", "count", "factor", or "" for a continuous change."""
    column = design.columns[place]
    if column.codings:
        return "factor" if dummy else ""
    if column.expression.boolean:
        return "dummy" if dummy else ""
    declared = design.schema.get(column.expression.columns[0]) if len(column.expression.columns) == 1 else None
    bare = column.expression.node.operation == "column"
    return "count" if count and bare and isinstance(declared, Integer) and declared.lower >= 0 else ""


def _column_slope(points: Points, place: int, name: str) -> Slope:
    direction = np.zeros_like(points.rows)
    direction[:, place] = 1.0
    return Slope(name, direction, points.rows[:, place])


def _column_effect(points: Points, design: FormulaDesign, place: int, kind: str) -> Effect:
    name = design.names[place]
    if not kind:
        return _column_slope(points, place, name)
    lower, upper = points.rows.copy(), points.rows.copy()
    lower[:, place] = points.rows[:, place] - 1.0 if kind == "count" else 0.0
    upper[:, place] = points.rows[:, place] + 1.0 if kind == "count" else 1.0
    return Difference(name, lower, upper, 2.0 if kind == "count" else 1.0)


def _level_differences(points: Points, design: FormulaDesign, places: Sequence[int]) -> list[Difference]:
    """List the changes of a factor from its reference level to each other level."""
    variable = design.columns[places[0]].codings[0][0]
    coding = np.array([design.columns[place].codings[0][1] for place in places])
    reference = reference_level(design, variable)

    def at_level(level: int) -> Array:
        rows = points.rows.copy()
        rows[:, list(places)] = coding[:, level]
        return rows

    levels = [level for level in range(coding.shape[1]) if level != reference]
    return [Difference(level_name(design, variable, one), at_level(reference), at_level(one)) for one in levels]


def _joint_effects(
    points: Points, design: FormulaDesign, group: Sequence[str], *, dummy: bool, count: bool
) -> list[Effect]:
    """Effects of columns of the schema through all terms that contain them."""
    variables = _variables(design, group)
    values = points.numbers
    if values is None:
        raise OptionError(
            "atexog",
            None,
            f"columns of the schema: the effect of {', '.join(variables)} goes through {', '.join(group)}",
        )
    return [
        effect
        for name in variables
        for effect in column_effects(points.rows, values, design, name, dummy=dummy, change="count" if count else "")
    ]

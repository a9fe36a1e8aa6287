"""Predictions, comparisons and slopes at public points, in frames laid out as those of marginaleffects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from statsmodels.genmod.families.links import Identity

from dpinfer.errors import OptionError, UnknownColumnError, type_of
from dpinfer.results.contrasts import check_alpha
from dpinfer.results.effects import Points, column_effects, contrasts_of, is_factor
from dpinfer.results.links import MeanFunction
from dpinfer.results.margins import MarginalEffects
from dpinfer.results.prediction import public_frame
from dpinfer.schema.columns import Boolean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dpinfer.results.links import Curve
    from dpinfer.schema.formula import FormulaDesign

    Array = NDArray[np.float64]

__all__ = ["PublicGrids"]


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

"""Predictions at public design points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dpinfer.display.report import Report, Table
from dpinfer.errors import OptionError, UnknownColumnError, kind_of, type_of
from dpinfer.results.drawing import IntervalFigure, PlottedIntervals, interval_frame
from dpinfer.results.printing import Shown, label_texts
from dpinfer.results.testing import check_alpha, standard_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpinfer.schema.formula import FormulaDesign
    from dpinfer.statistics.arrays import Array
    from dpinfer.statistics.inference import Inference


CONSTANTS = ("Intercept", "const", "1")
"""Names under which a column of ones is known."""


def design_rows(exog: object, names: Sequence[str], design: FormulaDesign | None = None) -> tuple[Array, pd.Index]:
    """Read public design points.

    Parameters
    ----------
    exog : DataFrame, dict, or array (m, p) or (p,)
        Columns of the design by parameter name (a column of ones may be omitted, other columns are ignored); or columns
        of the schema, if there is a formula and a parameter has no column of its name; or an array with the columns in
        the order of the parameters.
    names : sequence of str, length p
        The parameter names.
    design : FormulaDesign, optional
        The formula's design.

    Returns
    -------
    rows : ndarray (m, p)
        The design.
    index : pandas.Index, length m
        Labels of the rows.

    Raises
    ------
    UnknownColumnError
        If a parameter, or a column that the formula reads, is missing.
    OptionError
        If the columns are not numbers or levels, or an array has the wrong number of columns.
    FormulaError
        If a term of the formula is undefined at a point.

    Examples
    --------
    >>> rows, _ = design_rows({"age": [30, 40]}, ["Intercept", "age"])
    >>> rows.tolist()
    [[1.0, 30.0], [1.0, 40.0]]
    """
    rows, _ = public_points(exog, names, design)
    frame = public_frame(exog)
    return rows, pd.RangeIndex(len(rows)) if frame is None else frame.index


def public_points(
    exog: object, names: Sequence[str], design: FormulaDesign | None = None
) -> tuple[Array, dict[str, Array] | None]:
    """Read public design points as ``design_rows`` does.

    Returns
    -------
    rows : ndarray (m, p)
        The design.
    values : dict of str to ndarray (m,), or None
        Columns of the schema as numbers, if all of them were given.

    Raises
    ------
    UnknownColumnError, OptionError, FormulaError
        As ``design_rows``.
    """
    frame = public_frame(exog)
    named = frame is not None and all(name in frame.columns or name in CONSTANTS for name in names)
    if frame is not None and design is not None and (not named or design.holds_cells(frame)):
        values = design.read(frame)
        return design.rows(values, len(frame)), values
    try:
        if frame is not None:
            columns = [_column(frame, name) for name in names]
            return _finite(np.column_stack(columns)), None
        rows = np.asarray(exog, dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, UnknownColumnError | OptionError):
            raise
        rows = None
    if rows is None:  # outside of the handler, whose exception quotes what is no number
        raise OptionError("exog", type_of(exog), "columns of numbers")
    if rows.ndim == 1:
        rows = rows[:, None] if len(names) == 1 else rows[None, :]
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise OptionError("exog", kind_of(rows), f"an array (m, {len(names)}): {', '.join(names)}")
    return _finite(rows), None


def _finite(rows: Array) -> Array:
    if not np.isfinite(rows).all():
        raise OptionError("exog", type_of(rows), "finite numbers")
    return rows


def public_frame(exog: object, option: str = "exog") -> pd.DataFrame | None:
    """Return named columns as a frame; None for unnamed ones."""
    if isinstance(exog, Mapping):
        scalars = all(np.ndim(column) == 0 for column in exog.values())
        sizes = {len(column) for column in exog.values() if np.ndim(column)}
        if len(sizes) > 1:
            raise OptionError(option, type_of(exog), "columns of one length")
        return pd.DataFrame(dict(exog), index=[0] if scalars else None)
    return exog if isinstance(exog, pd.DataFrame) else None


def _column(frame: pd.DataFrame, name: str) -> Array:
    if name in frame.columns:
        return frame[name].to_numpy(dtype=np.float64)
    if name in CONSTANTS:
        return np.ones(len(frame))
    raise UnknownColumnError(name, frame.columns, "exog")


@dataclass(frozen=True, slots=True)
class MeanPrediction(PlottedIntervals, Shown):
    """Predicted means at public design points, with intervals from the inference.

    Parameters
    ----------
    inference : Inference
        The inference behind the results.
    rows : ndarray (m, p)
        The design points.
    index : pandas.Index, length m
        Their labels.
    inverse_link : callable, optional
        A monotone function from the linear predictor to the mean; the identity if None.
    slope : callable, optional
        The derivative of ``inverse_link``, for standard errors of the means.
    offset : ndarray (m,), optional
        Public numbers to add to the linear predictor.
    """

    inference: Inference
    rows: Array
    index: pd.Index
    inverse_link: Callable[[Array], Array] | None = None
    slope: Callable[[Array], Array] | None = None
    offset: Array | None = None

    @property
    def _added(self) -> Array:
        return np.zeros(len(self.rows)) if self.offset is None else self.offset

    @property
    def linear_predictor(self) -> pd.Series:
        """Series (m,): design times parameters, plus the offset."""
        return pd.Series(self.rows @ self.inference.params + self._added, index=self.index)

    @property
    def predicted_mean(self) -> pd.Series:
        """Series (m,): the mean, in units of the response."""
        linear = self.linear_predictor
        if self.inverse_link is None:
            return linear
        return pd.Series(self.inverse_link(linear.to_numpy(dtype=np.float64)), index=linear.index)

    @property
    def se_linear(self) -> pd.Series:
        """Series (m,): standard errors of the linear predictor, including sampling and noise."""
        return pd.Series(standard_errors(self.inference, self.rows), index=self.index)

    @property
    def se_mean(self) -> pd.Series:
        """Series (m,): standard errors of the means, by the delta method; AttributeError without a derivative."""
        if self.inverse_link is None:
            return self.se_linear
        if self.slope is None:
            raise AttributeError("se_mean: the derivative of the inverse link is not known here")
        return self.se_linear * self.slope(self.linear_predictor.to_numpy(dtype=np.float64))

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return intervals for the means.

        Parameters
        ----------
        alpha : float
            One minus the confidence level, for each mean separately.

        Returns
        -------
        DataFrame (m, 2)
            Lower and upper ends: those of the linear predictor, transformed by the inverse link.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
        """
        ends = self.inference.intervals(self.rows, check_alpha(alpha)) + self._added[:, None]
        if self.inverse_link is not None:
            ends = np.sort(self.inverse_link(ends), axis=1)
        return pd.DataFrame(ends, index=self.index)

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return a table of predictions and intervals.

        Parameters
        ----------
        alpha : float
            One minus the confidence.

        Returns
        -------
        DataFrame
            Columns ``mean``, ``mean_se`` (if the link is the identity, or its derivative is known), ``mean_ci_lower``
            and ``mean_ci_upper``, one row per design point.
        """
        frame = pd.DataFrame({"mean": self.predicted_mean})
        if self.inverse_link is None or self.slope is not None:
            frame["mean_se"] = self.se_mean
        return frame.join(self.conf_int(alpha).set_axis(["mean_ci_lower", "mean_ci_upper"], axis=1))

    def _interval_figure(self, alpha: float) -> IntervalFigure:
        frame = interval_frame(pd.Series(self.predicted_mean), self.conf_int(alpha)).set_axis(label_texts(self.index))
        return IntervalFigure(frame, "predicted mean", "Predictions at public points")

    def _report(self) -> Report:
        notes = ("95% intervals of each mean by itself, sampling and privacy noise counted.",)
        return Report("Predictions at public points", (), (Table.of(self.summary_frame()),), notes)

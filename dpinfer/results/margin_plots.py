"""Predicted means along one column, the others at public values: the table and its plot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from dpinfer.errors import OptionError, UnknownColumnError, type_of
from dpinfer.results.contrasts import check_alpha
from dpinfer.results.style import SMALL, given_or_new, grouped, restrain, titled
from dpinfer.results.wording import title_guarantee
from dpinfer.schema.columns import Category, Integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from dpinfer.release.release import Release
    from dpinfer.schema.columns import Column
    from dpinfer.schema.formula import FormulaDesign

__all__ = ["margins_frame", "plot_margins"]

_POINTS = 101


class Predicting(Protocol):
    """What is asked of results: predicted means, what is predicted, and what was released."""

    @property
    def response(self) -> str:
        """Name of the response."""

    @property
    def release(self) -> Release:
        """The release."""

    def get_prediction(self, exog: pd.DataFrame) -> Any:
        """Return predicted means with intervals."""


def margins_frame(
    results: Predicting,
    design: FormulaDesign | None,
    term: str,
    at: object = None,
    *,
    grid: Sequence[object] | None = None,
    alpha: float = 0.05,
) -> pd.DataFrame:
    """Return predicted means; parameters, returns and errors as ``PrivateResults.margins_frame``."""
    check_alpha(alpha)
    if design is None:
        raise OptionError("term", term, "a column of a formula, and these results have none")
    if term not in design.variables:
        raise UnknownColumnError(term, design.variables, "the formula")
    others = _others(design, term, at)
    values = pd.Series(list(_grid(design.schema[term]) if grid is None else grid), name=term)
    if not len(values) or not len(others):
        raise OptionError("grid" if len(others) else "at", [], "at least one point")
    points = others.merge(values.to_frame(), how="cross")
    points.index = pd.RangeIndex(len(points))
    predicted = results.get_prediction(points).summary_frame(alpha)
    points["curve"] = np.repeat(np.arange(len(others)), len(values))
    return points[["curve", *design.variables]].join(predicted)


def _others(design: FormulaDesign, term: str, at: object) -> pd.DataFrame:
    """Read the public values of the other columns, a row for each curve."""
    names = [name for name in design.variables if name != term]
    if isinstance(at, Mapping):
        scalars = all(np.ndim(column) == 0 for column in at.values())
        at = pd.DataFrame(dict(at), index=[0] if scalars else None)
    frame = pd.DataFrame(index=[0]) if at is None else at
    if not isinstance(frame, pd.DataFrame):
        raise OptionError("at", type_of(at), f"a dict or a DataFrame with public values of {', '.join(names)}")
    for name in names:
        if name not in frame.columns:
            raise UnknownColumnError(name, frame.columns, "at")
    return frame[names]


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


def plot_margins(
    results: Predicting,
    design: FormulaDesign | None,
    term: str,
    at: object = None,
    ax: Axes | None = None,
    *,
    grid: Sequence[object] | None = None,
    alpha: float = 0.05,
    color: str | None = None,
    legend: bool = True,
) -> Axes:
    """Draw ``margins_frame``; parameters, returns and errors as ``PrivateResults.plot_margins``."""
    frame = margins_frame(results, design, term, at, grid=grid, alpha=alpha)
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
            ax.fill_between(curve[term].to_numpy(dtype=np.float64), below, above, color=shade, alpha=0.25, linewidth=0)
            ax.plot(curve[term].to_numpy(dtype=np.float64), curve["mean"], color=shade, label=label)
    ax.set_ylim(low - margin, high + margin)
    ax.set_xlabel(design.schema.caption(term))
    ax.set_ylabel(f"mean of {design.schema.caption(results.response)},\npointwise {100 * (1 - alpha):.4g}% intervals")
    titled(ax, f"{design.schema.caption(results.response)}: {title_guarantee(results.release)}")
    restrain(ax)
    grouped(ax.yaxis, *([] if discrete else [ax.xaxis]))
    if legend and varying:
        ax.legend(frameon=False, fontsize=SMALL)
    return ax

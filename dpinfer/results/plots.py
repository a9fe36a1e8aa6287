"""Plots of regression results, each thin over a table that the user can get too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.errors import UnknownColumnError
from dpinfer.results.contrasts import check_alpha
from dpinfer.results.drawing import draw_intervals
from dpinfer.results.prediction import CONSTANTS
from dpinfer.results.wording import column_labels, title_guarantee

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dpinfer.results.estimates import PrivateEstimates

    Array = NDArray[np.float64]

__all__ = ["coefficient_frame", "plot_coefficients"]


def coefficient_frame(results: PrivateEstimates, alpha: float = 0.05) -> pd.DataFrame:
    """Return estimates, intervals, and the part of each interval that sampling accounts for.

    Parameters
    ----------
    results : PrivateEstimates
        The results.
    alpha : float
        One minus the confidence.

    Returns
    -------
    DataFrame (p, 5)
        Columns "estimate", "lower", "upper", "sampling_lower", "sampling_upper", by term.

    Raises
    ------
    OptionError
        Where ``alpha`` is not strictly between 0 and 1.

    Notes
    -----
    Each arm of an interval is shortened by the square root of the sampling share of the variance. For a Wald
    interval that is exactly the interval without privacy noise; for another method it is a drawing. An
    infinite arm has the normal quantile times the sampling standard error as its sampling part.
    """
    ends = results.conf_int(check_alpha(alpha))
    estimate = results.params.to_numpy()
    sampling = results.bse_sampling.to_numpy()
    ratio = sampling / results.bse.to_numpy()
    fallback = stats.norm.isf(alpha / 2) * sampling
    arms = {}
    for name, sign, end in (("sampling_lower", -1.0, ends[0]), ("sampling_upper", 1.0, ends[1])):
        arm = np.maximum(sign * (end.to_numpy() - estimate), 0.0)
        bounded = np.isfinite(arm)
        arms[name] = estimate + sign * np.where(bounded, np.where(bounded, arm, 0.0) * ratio, fallback)
    columns = {"estimate": estimate, "lower": ends[0], "upper": ends[1], **arms}
    return pd.DataFrame(columns, index=results.params.index)


def plot_coefficients(
    results: PrivateEstimates,
    ax: Axes | None = None,
    *,
    alpha: float = 0.05,
    terms: Sequence[str] | None = None,
    color: str | None = None,
    legend: bool = True,
    zero: bool = True,
) -> Axes:
    """Draw ``coefficient_frame``; parameters, returns and errors as ``PrivateResults.plot_coefficients``.

    ``zero`` says whether zero is marked, and always within the axis.
    """
    frame = _selected(coefficient_frame(results, alpha), terms)
    frame.index = pd.Index(column_labels(results.release, frame.index))
    (response,) = column_labels(results.release, [results.response])
    title = f"{response}: {title_guarantee(results.release)}"
    label = f"coefficient ({results.inference.method} inference)"
    return draw_intervals(frame, ax, alpha=alpha, color=color, legend=legend, zero=zero, label=label, title=title)


def _selected(frame: pd.DataFrame, terms: Sequence[str] | None) -> pd.DataFrame:
    if terms is None:
        slopes = [name for name in frame.index if name not in CONSTANTS]
        return frame.loc[slopes or list(frame.index)]
    for name in terms:
        if name not in frame.index:
            raise UnknownColumnError(name, frame.index, "the coefficients")
    return frame.loc[list(terms)]

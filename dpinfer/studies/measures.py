"""Performance of an estimator over replicates, each measure with its Monte Carlo standard error.

Measures and errors follow Morris, White & Crowther (2019), table 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpinfer.statistics.arrays import Array, Mask

__all__ = ["Replicates", "performance"]


@dataclass(frozen=True, slots=True)
class Replicates:
    """What the replicates of one cell gave for one coefficient; NaN where a replicate failed.

    An estimate that is NaN in a replicate that did not fail is not determined; it has an interval.

    Attributes
    ----------
    estimate, error, lower, upper, pvalue : ndarray (R,)
        Point estimate, standard error, ends of the interval, p-value of zero.
    flagged, failed : ndarray of bool (R,)
    """

    estimate: Array
    error: Array
    lower: Array
    upper: Array
    pvalue: Array
    flagged: Mask
    failed: Mask


def performance(replicates: Replicates, truth: float, *, level: float) -> dict[str, float]:
    """Measure one coefficient of one cell.

    Parameters
    ----------
    replicates : Replicates
    truth : float
        NaN where it is not known: measures that need it are then NaN.
    level : float
        Nominal coverage.

    Returns
    -------
    dict of str to float
        Each measure under its name, and its Monte Carlo standard error under "MCSE of" that name.
        Coverage and rejection are shares of *all* replicates: a failed one covers nothing and rejects nothing.
        An interval of what is not determined counts as it is; "coverage where determined" leaves it out, as bias and
        standard errors do.
    """
    done = ~replicates.failed
    total, count = len(done), int(done.sum())
    known = done & np.isfinite(replicates.estimate)
    estimate = replicates.estimate[known]
    out: dict[str, float] = {"replicates": float(total), "failures": float(total - count)}
    out |= _shares("flagged", replicates.flagged & done, total)
    covered = done & (replicates.lower <= truth) & (truth <= replicates.upper)
    out |= _shares("not determined", done & ~known, total)
    out |= _among(_DETERMINED, covered, known) if np.isfinite(truth) else _unknown(_DETERMINED)
    rejected = done & (replicates.pvalue <= 1 - level)
    out |= _shares("coverage", covered, total) if np.isfinite(truth) else _unknown("coverage")
    untested = bool(np.isnan(replicates.pvalue[done]).all())
    out |= _unknown("rejection") if untested and count else _shares("rejection", rejected, total)
    if count < 2:
        return out | dict.fromkeys(_MOMENTS, np.nan)
    if estimate.size < 2:
        return out | dict.fromkeys(_MOMENTS, np.nan) | _widths(replicates.upper[done] - replicates.lower[done], total)
    centre = float(np.mean(estimate))
    around = done & (replicates.lower <= centre) & (centre <= replicates.upper)
    out |= _shares("bias-eliminated coverage", around, total)
    out |= _moments(estimate, replicates.error[known], truth)
    return out | _widths(replicates.upper[done] - replicates.lower[done], total)


_DETERMINED = "coverage where determined"
_WITH_ERRORS = (
    "bias",
    "empirical SE",
    "mean squared error",
    "model SE",
    "relative error of model SE (%)",
    "width",
    "bias-eliminated coverage",
)
_MOMENTS = (*_WITH_ERRORS, *(f"MCSE of {name}" for name in _WITH_ERRORS), "unbounded")


def _moments(estimate: Array, error: Array, truth: float) -> dict[str, float]:
    count = estimate.size
    empirical = float(np.std(estimate, ddof=1))
    squares = (estimate - truth) ** 2
    mean_variance = float(np.mean(error**2))
    model = float(np.sqrt(mean_variance))
    spread = float(np.var(error**2, ddof=1)) / (4 * count * mean_variance**2) if mean_variance > 0 else np.nan
    ratio = model / empirical if empirical > 0 else np.nan
    return {
        "bias": float(np.mean(estimate) - truth),
        "MCSE of bias": empirical / np.sqrt(count),
        "empirical SE": empirical,
        "MCSE of empirical SE": empirical / np.sqrt(2 * (count - 1)),
        "mean squared error": float(np.mean(squares)),
        "MCSE of mean squared error": float(np.std(squares, ddof=1) / np.sqrt(count)),
        "model SE": model,
        "MCSE of model SE": model * float(np.sqrt(spread)),
        "relative error of model SE (%)": 100 * (ratio - 1),
        "MCSE of relative error of model SE (%)": 100 * ratio * float(np.sqrt(spread + 1 / (2 * (count - 1)))),
    }


def _widths(width: Array, total: int) -> dict[str, float]:
    bounded = width[np.isfinite(width)]
    mean = float(np.mean(bounded)) if bounded.size else np.inf
    error = float(np.std(bounded, ddof=1) / np.sqrt(bounded.size)) if bounded.size > 1 else np.nan
    return {"width": mean, "MCSE of width": error, "unbounded": float((width.size - bounded.size) / total)}


def _shares(name: str, marked: Mask, total: int) -> dict[str, float]:
    share = float(marked.sum()) / total
    return {name: share, f"MCSE of {name}": float(np.sqrt(share * (1 - share) / total))}


def _among(name: str, marked: Mask, known: Mask) -> dict[str, float]:
    """Share of the marked among the known; NaN where there is none."""
    return _shares(name, marked & known, int(known.sum())) if known.any() else _unknown(name)


def _unknown(name: str) -> dict[str, float]:
    return {name: np.nan, f"MCSE of {name}": np.nan}

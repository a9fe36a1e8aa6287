"""Performance of an estimator over replicates, with Monte Carlo standard errors, and the rules that judge it.

Measures and errors follow Morris, White & Crowther (2019), table 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.statistics.arrays import Array, Mask

__all__ = ["Replicates", "Rules", "performance"]

_DETERMINED = "coverage where determined"
_WITH_ERRORS = (
    "bias", "empirical SE", "mean squared error", "model SE", "relative error of model SE (%)", "width",
    "bias-eliminated coverage",
)  # fmt: skip
_MOMENTS = (*_WITH_ERRORS, *(f"MCSE of {name}" for name in _WITH_ERRORS), "unbounded")


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
    covered = done & (replicates.lower <= truth) & (truth <= replicates.upper)
    true = bool(np.isfinite(truth))
    tested = not count or not np.isnan(replicates.pvalue[done]).all()
    out = {"replicates": float(total), "failures": float(total - count)}
    out |= _share("flagged", replicates.flagged & done, total)
    out |= _share("not determined", done & ~known, total)
    out |= _share(_DETERMINED, covered & known, int(known.sum()), known=true and bool(known.any()))
    out |= _share("coverage", covered, total, known=true)
    out |= _share("rejection", done & (replicates.pvalue <= 1 - level), total, known=tested)
    if count >= 2 and estimate.size >= 2:
        centre = float(np.mean(estimate))
        around = done & (replicates.lower <= centre) & (centre <= replicates.upper)
        out |= _share("bias-eliminated coverage", around, total)
        out |= _moments(estimate, replicates.error[known], truth)
    if count >= 2:
        width = replicates.upper[done] - replicates.lower[done]
        bounded = width[np.isfinite(width)]
        out["width"] = float(np.mean(bounded)) if bounded.size else np.inf
        several = bounded.size > 1
        out["MCSE of width"] = float(np.std(bounded, ddof=1) / np.sqrt(bounded.size)) if several else np.nan
        out["unbounded"] = float((width.size - bounded.size) / total)
    return out | {name: np.nan for name in _MOMENTS if name not in out}


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


def _share(name: str, marked: Mask, total: int, *, known: bool = True) -> dict[str, float]:
    """Share of the marked among a total, with its error; NaN where it is not known."""
    share = float(marked.sum()) / total if known else np.nan
    return {name: share, f"MCSE of {name}": float(np.sqrt(share * (1 - share) / total)) if known else np.nan}


@dataclass(frozen=True)
class Rules:
    """When a cell of a study holds.

    Attributes
    ----------
    alarm : float
        Probability that an exact interval fails the coverage rule in one cell.
    size_alarm : float
        Probability that exact tests fail the size rule anywhere in a study: it is shared by all cells whose true
        value is zero (Bonferroni).
    width_cap : float
        Largest mean width over that of the oracle, where noise does not dominate.
    unbounded_cap : float
        Largest share of unbounded intervals there.
    kappa : float
        Below this ratio of signal to noise, computed from the population, a cell counts as noise-dominated:
        only coverage is judged.
    rerun_factor : int
        A cell that fails is run once more at so many times the replicates.
    rerun_seed : int
        Added to the seed for that, fixed in advance.

    Examples
    --------
    >>> round(Rules().least_coverage(5000, 0.95), 4)
    0.9376
    """

    alarm: float = 5e-5
    size_alarm: float = 1e-3
    width_cap: float = 1.10
    unbounded_cap: float = 0.001
    kappa: float = 3.0
    rerun_factor: int = 10
    rerun_seed: int = 1

    def least_coverage(self, replicates: int, level: float) -> float:
        """Return the least coverage that an exact interval stays above, but for probability ``alarm``."""
        return float(stats.binom.ppf(self.alarm, replicates, level)) / replicates

    def largest_size(self, replicates: int, level: float, nulls: int) -> float:
        """Return the largest share of rejections of a true zero that exact tests stay below, over ``nulls`` cells."""
        return float(stats.binom.isf(self.size_alarm / max(nulls, 1), replicates, 1 - level)) / replicates

    def verdict(
        self,
        cell: Mapping[Any, Any],
        *,
        level: float,
        least: float | None = None,
        most: float | None = None,
        replicates: int | None = None,
    ) -> str:
        """Return "holds", or what the cell breaks.

        Parameters
        ----------
        cell : mapping
            Measures of one coefficient of one cell.
        level : float
        least : float, optional
            Threshold of coverage; by default that of the cell's own number of replicates.
        most : float, optional
            Threshold of the share of rejections where the true value is zero; by default that of this cell alone.
        replicates : int, optional
            Replicates whose threshold judges the coverage among those that determine the quantity, times the share
            of these; by default the cell's own.
        """
        if not np.isfinite(cell["coverage"]):
            return "no truth"
        floor = self.least_coverage(int(cell["replicates"]), level) if least is None else least
        broken = []
        if cell["coverage"] < floor:
            broken.append(f"coverage below {floor:.4f}")
        missing = cell.get("not determined", 0.0)
        if 0 < missing < 1:
            total = cell["replicates"] if replicates is None else replicates
            known = self.least_coverage(max(round((1 - missing) * total), 1), level)
            if cell["coverage where determined"] < known:
                broken.append(f"coverage where determined below {known:.4f}")
        if cell["truth"] == 0:
            ceiling = self.largest_size(int(cell["replicates"]), level, 1) if most is None else most
            if cell["rejection"] > ceiling:
                broken.append(f"size above {ceiling:.4f}")
        ratio, kappa = cell.get("width / oracle", np.nan), cell.get("kappa", np.nan)
        if np.isfinite(kappa) and kappa >= self.kappa:
            if ratio > self.width_cap:
                broken.append(f"width above {self.width_cap:g} times the oracle's")
            if cell["unbounded"] > self.unbounded_cap:
                broken.append(f"more than {self.unbounded_cap:.1%} unbounded")
        return "; ".join(broken) or "holds"

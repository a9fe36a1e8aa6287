"""Lower bounds on privacy loss from counts of an event: thresholds of one half of the runs, tested on the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import special, stats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.studies.auditing.stated import Kind

    Array = NDArray[np.float64]

__all__ = ["Event", "chosen_event", "trade_off", "upper_share"]

_CHOSEN_AT = 1e-8
"""Level at which thresholds are compared on the first half: at larger ones those far out, met a few times, win by luck.

Of 4,000 normal draws at mu = 1 a thousandth of bounds is below .42 at 1e-5 and below .56 at 1e-8; medians are alike."""

_THRESHOLDS = 200
_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Event:
    """An event, how often it was met on each of two neighbours, and in how many runs.

    Attributes
    ----------
    threshold : float
        The event is a log likelihood ratio above it.
    met, of : int
        Of the runs on the first data set.
    other_met, other_of : int
        Of those on its neighbour.
    """

    threshold: float
    met: int
    of: int
    other_met: int
    other_of: int

    def lower(self, kind: Kind, level: float) -> float:
        """Lower bound on mu or epsilon that is wrong with probability at most ``level``.

        Each of the two error rates of the test that the event makes has a Clopper-Pearson bound at half the level.
        """
        power_missed = upper_share(self.of - self.met, self.of, level / 2)
        false_alarm = upper_share(self.other_met, self.other_of, level / 2)
        return float(_bound(kind, np.array([false_alarm]), np.array([power_missed]))[0])


def upper_share(met: Any, of: int, level: float) -> Array:
    """Clopper & Pearson (1934): a share is below this but for probability ``level``."""
    found = stats.beta.isf(level, np.asarray(met) + 1, of - np.asarray(met))
    return np.asarray(np.where(np.asarray(met) >= of, 1.0, found))


def _bound(kind: Kind, false_alarm: Array, missed: Array) -> Array:
    """Least mu, or epsilon, at which two error rates can be so small (Dong, Roth & Su 2022; Kairouz et al. 2015)."""
    if kind == "mu":
        found = -special.ndtri(false_alarm) - special.ndtri(missed)
    else:
        with np.errstate(divide="ignore"):
            one = np.log(np.maximum(1 - missed, 1e-300)) - np.log(false_alarm)
            other = np.log(np.maximum(1 - false_alarm, 1e-300)) - np.log(missed)
        found = np.maximum(one, other)
    return np.asarray(np.maximum(np.nan_to_num(found, nan=0.0, neginf=0.0), 0.0))


def chosen_event(first: Array, other: Array, kind: Kind) -> Event:
    """Choose a threshold on the first halves of log likelihood ratios (R,) of two neighbours, and count on the second.

    ``first`` tend to be larger than ``other``.
    """
    first, other = _coarse(first), _coarse(other)
    half, other_half = len(first) // 2, len(other) // 2
    seen, rest = np.sort(first[:half]), np.sort(other[:other_half])
    cuts = np.unique(np.quantile(np.concatenate([seen, rest]), np.linspace(0, 1, _THRESHOLDS)))
    cuts = np.concatenate([cuts, 0.5 * (cuts[1:] + cuts[:-1])])
    missed = upper_share(np.searchsorted(seen, cuts, side="right"), half, _CHOSEN_AT)
    alarm = upper_share(other_half - np.searchsorted(rest, cuts, side="right"), other_half, _CHOSEN_AT)
    cut = float(cuts[int(np.argmax(_bound(kind, alarm, missed)))])
    tested, others = first[half:], other[other_half:]
    return Event(cut, int((tested > cut).sum()), len(tested), int((others > cut).sum()), len(others))


def _coarse(ratios: Array) -> Array:
    """Round log likelihood ratios, so that the last bits of equal ones are equal, too."""
    return np.round(ratios, _DIGITS)


def trade_off(first: Array, other: Array, kind: Kind, level: float) -> pd.DataFrame:
    """Error rates of all thresholds, beside the least that a stated mu or epsilon allows: 100 points.

    With columns "false alarm", "missed" and "missed, stated".
    """
    first, other = _coarse(first), _coarse(other)
    values = np.concatenate([first, other])
    cuts = np.quantile(values, np.linspace(0, 1, 100))
    alarm = np.array([(other > cut).mean() for cut in cuts])
    missed = np.array([(first <= cut).mean() for cut in cuts])
    if kind == "mu":
        least = special.ndtr(-special.ndtri(alarm) - level)
    else:
        least = np.maximum.reduce([np.zeros_like(alarm), 1 - np.exp(level) * alarm, np.exp(-level) * (1 - alarm)])
    return pd.DataFrame({"false alarm": alarm, "missed": missed, "missed, stated": least})

"""One budget for several questions: shares that make the largest relative width, or a weighted sum, least."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import optimize

from dpinfer.display.report import Report, Reported, Table, count
from dpinfer.errors import DPInferError, OptionError, type_of
from dpinfer.results.style import given_or_new, legend, restrain
from dpinfer.studies.power_search import four_digits_down
from dpinfer.studies.power_truth import is_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from dpinfer.privacy.units import Privacy
    from dpinfer.statistics.arrays import Array
    from dpinfer.studies.planning.forecasts import Outlook

__all__ = ["NOTHING", "SharedPlan", "share_budget"]

NOTHING = 1e-3
"""Share of a width at the whole budget below which sampling counts as no part of it."""

_LEAST, _POINTS = 1e-3, 9
"""Least share that a question may get, and points at which its relative width is looked at."""


@dataclass(frozen=True, eq=False, repr=False)
class SharedPlan(Reported):
    """How several questions share a budget; made by `plan`.

    Attributes
    ----------
    frame : DataFrame
        A row for each question: "share" of what composes, "privacy" (its price), "relative" (the largest width of its
        terms over that without noise; of what has no sampling error, such as a count of these rows, over that at the
        whole budget), "widest" (that term).
    prices : tuple of Privacy
        In the order of the questions; together they are within the budget.
    n : int
    budget : Privacy
    population : str
    """

    frame: pd.DataFrame = field(repr=False)
    prices: tuple[Privacy, ...]
    n: int
    budget: Privacy
    population: str
    _curves: tuple[tuple[Array, Array], ...] = field(repr=False)

    def summary_frame(self) -> pd.DataFrame:
        """Return the table, a copy."""
        return self.frame.copy()

    def _report(self) -> Report:
        budget = f"{self.budget}: {self.budget.describe()}"
        facts = (("budget", budget), ("rows", count(self.n)), ("population", self.population))
        return Report("Plan: nothing is charged yet", facts, (Table.of(self.frame),))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the relative width of each question against its share; points are the plan.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        matplotlib.axes.Axes
        """
        ax = given_or_new(ax, 6, 4)
        places = zip(self._curves, self.frame.index, self.frame["share"], self.frame["relative"], strict=True)
        for number, ((shares, ratios), name, share, ratio) in enumerate(places):
            ax.plot(shares, ratios, "-", color=f"C{number}", label=str(name))
            ax.plot([share], [ratio], "o", ms=6, color=f"C{number}")
        ax.set(xscale="log", yscale="log", xlabel=f"share of {self.budget}", ylabel="width over that without noise")
        restrain(ax)
        legend(ax)
        return ax


def share_budget(
    outlooks: Sequence[Outlook],
    texts: Sequence[str],
    n: int,
    budget: Privacy,
    weights: Any,
    about: str,
) -> SharedPlan:
    """Share a budget among questions.

    Raises
    ------
    OptionError
        If weights are no positive numbers, one for each question, or a question has no width.
    """
    listed = _read_weights(weights, len(outlooks))
    usual = [_usual(outlook, n, budget) for outlook in outlooks]
    curves = [_curve(one, n, budget, text, own) for one, text, own in zip(outlooks, texts, usual, strict=True)]
    functions = [_interpolated(shares, ratios) for shares, ratios in curves]
    if len(outlooks) == 1:
        shares = np.ones(1)
    else:
        shares = _least_largest(functions) if listed is None else _least_sum(functions, listed)
    shares = np.array([four_digits_down(float(share)) for share in shares])
    prices = tuple(budget * float(share) if share < 1 else budget for share in shares)
    found = [_relative(one, n, price, own) for one, price, own in zip(outlooks, prices, usual, strict=True)]
    frame = pd.DataFrame(
        {
            "share": shares,
            "privacy": [str(price) for price in prices],
            "relative": [ratio for ratio, _ in found],
            "widest": [term for _, term in found],
        },
        index=pd.Index(texts, name="question"),
    )
    return SharedPlan(frame, prices, n, budget, about, tuple(curves))


def _read_weights(weights: Any, count: int) -> Array | None:
    if weights is None:
        return None
    right = f"{count} numbers above 0, one for each question"
    if isinstance(weights, str) or not hasattr(weights, "__len__") or len(weights) != count:
        raise OptionError("weights", type_of(weights), right)
    if not all(is_number(one) and one > 0 for one in weights):
        raise OptionError("weights", type_of(weights), right)
    return np.array(list(weights), dtype=np.float64)


def _usual(outlook: Outlook, n: int, budget: Privacy) -> Array:
    """Widths without noise (p,); of what has no sampling error, such as a count of these rows, at the whole budget."""
    alone, whole = outlook.alone(n).width(), outlook.at(n, budget).width()
    return np.asarray(np.where(alone > NOTHING * whole, alone, whole))


def _relative(outlook: Outlook, n: int, price: Privacy, usual: Array) -> tuple[float, str]:
    """Return the largest relative width, and its term."""
    found = outlook.at(n, price)
    with np.errstate(all="ignore"):
        ratios = found.width() / usual
    place = int(np.argmax(np.where(np.isnan(ratios), -np.inf, ratios)))
    return float(ratios[place]), found.names[place]


def _curve(outlook: Outlook, n: int, budget: Privacy, text: str, usual: Array) -> tuple[Array, Array]:
    """Relative widths at some shares of the budget; shares that cannot be measured are left out."""
    shares, ratios = [], []
    for share in np.geomspace(_LEAST, 1.0, _POINTS):
        try:
            ratio, _ = _relative(outlook, n, budget * float(share) if share < 1 else budget, usual)
        except DPInferError:
            continue
        if np.isfinite(ratio):
            shares.append(float(share))
            ratios.append(max(ratio, 1 + 1e-9))
    if len(shares) < 2:
        raise OptionError("procedure", text, "questions with intervals that are bounded at shares of the budget")
    return np.array(shares), np.minimum.accumulate(np.array(ratios))


def _interpolated(shares: Array, ratios: Array) -> Callable[[Any], Any]:
    """Squared relative width less 1, which is in proportion to the noise, is followed on the logarithm."""
    at, excess = np.log(shares), np.log(ratios**2 - 1)

    def function(share: Any) -> Any:
        inside = np.interp(np.log(share), at, excess)
        below = (excess[1] - excess[0]) / (at[1] - at[0]) * np.minimum(np.log(share) - at[0], 0.0)
        return np.sqrt(1 + np.exp(np.minimum(inside + below, 600.0)))

    return function


def _least_largest(functions: Sequence[Callable[[Any], Any]]) -> Array:
    """Shares at which all relative widths are the same."""

    def needed(ratio: float) -> Array:
        found = []
        for one in functions:
            if one(_LEAST * 1e-3) <= ratio:
                found.append(_LEAST * 1e-3)
            elif one(1.0) >= ratio:
                found.append(1.0)
            else:
                root = optimize.brentq(lambda x, one=one: one(np.exp(x)) - ratio, np.log(_LEAST * 1e-3), 0.0)
                found.append(float(np.exp(root)))
        return np.array(found)

    low, high = max(float(one(1.0)) for one in functions), max(float(one(1 / len(functions))) for one in functions)
    root = optimize.brentq(lambda x: needed(float(np.exp(x))).sum() - 1, np.log(low), np.log(max(high, low) * 1.0001))
    shares = needed(float(np.exp(root)))
    return np.asarray(shares / max(shares.sum(), 1.0))


def _least_sum(functions: Sequence[Callable[[Any], Any]], weights: Array) -> Array:
    """Shares at which the weighted sum of relative widths is least."""
    count = len(functions)

    def total(free: Array) -> float:
        shares = _softmax(free)
        return float(sum(weight * one(share) for weight, one, share in zip(weights, functions, shares, strict=True)))

    found = optimize.minimize(total, np.zeros(count), method="Nelder-Mead",
                              options={"xatol": 1e-4, "fatol": 1e-8, "maxiter": 4000})  # fmt: skip
    return _softmax(found.x)


def _softmax(free: Array) -> Array:
    moved = np.exp(free - free.max())
    return np.asarray(moved / moved.sum())

"""The figures of the tour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

    from dpinfer.privacy import ZCDP, Ledger
    from dpinfer.results import DescriptionResults, PrivateResults
    from dpinfer.studies import Plan

__all__ = [
    "account_figure",
    "budget_figure",
    "coefficient_figure",
    "comparison_figure",
    "described_figure",
    "drawn_figure",
    "planned_figure",
]

_FIRST, _OTHER, _REST = "C0", "C4", "C4"


def _axes(height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6.8, height), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.06))
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def coefficient_figure(results: PrivateResults) -> Figure:
    """Draw the slopes of a regression; see ``PrivateResults.plot_coefficients``."""
    figure, axes = _axes(1.4 + 0.42 * (len(results.params) - 1))
    results.plot_coefficients(ax=axes)
    return figure


def described_figure(results: DescriptionResults) -> Figure:
    """Draw descriptions by group; see ``DescriptionResults.plot``."""
    figure, axes = _axes(1.6 + 0.42 * len(results.params))
    results.plot(ax=axes)
    return figure


def drawn_figure(draw: Callable[[Axes], object], height: float) -> Figure:
    """Draw a plot of the library in a figure of its own."""
    figure, axes = _axes(height)
    draw(axes)
    return figure


def planned_figure(plan: Plan) -> Figure:
    """Draw widths and powers of a plan; see ``Plan.plot``."""
    figure = Figure(figsize=(6.8, 5.2), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.06))
    plan.plot(axes=figure.subplots(2, 2))
    return figure


def comparison_figure(results: PrivateResults, ordinary: Any) -> Figure:
    """Draw both fits' intervals of the slopes, one above the other."""
    terms = [name for name in results.params.index if name != "Intercept"]
    figure, axes = _axes(1.6 + 0.5 * len(terms))
    fits = ((results, "private, noise counted", -0.14, _FIRST), (ordinary, "ordinary", 0.14, _OTHER))
    ends = np.array([fit.conf_int().loc[terms].to_numpy(dtype=np.float64) for fit, *_ in fits])
    estimates = [fit.params[terms].to_numpy(dtype=np.float64) for fit, *_ in fits]
    finite = np.concatenate([ends[np.isfinite(ends)], *estimates, [0.0]])
    low, high = finite.min() - 0.06 * np.ptp(finite), finite.max() + 0.06 * np.ptp(finite)
    for (_, label, shift, color), (left, right), estimate in zip(fits, ends.transpose(0, 2, 1), estimates, strict=True):
        place = np.arange(len(terms)) + shift
        axes.hlines(place, np.maximum(left, low), np.minimum(right, high), color=color, linewidth=2.2)
        axes.plot(estimate, place, "o", color=color, label=label)
        axes.plot(np.full(np.isinf(left).sum(), low), place[np.isinf(left)], "<", color=color, clip_on=False)
        axes.plot(np.full(np.isinf(right).sum(), high), place[np.isinf(right)], ">", color=color, clip_on=False)
    axes.axvline(0.0, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
    axes.set(xlim=(low, high), ylim=(len(terms) - 0.5, -0.5), xlabel="coefficient, 95% interval")
    axes.set_yticks(np.arange(len(terms)), terms)
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    return figure


def budget_figure(results: PrivateResults, price: ZCDP) -> Figure:
    """Draw each slope's standard error against the price."""
    figure, axes = _axes(3.6)
    prices = price.rho * np.geomspace(0.1, 10.0, 60)
    ratio = (results.bse_noise / results.bse_sampling).drop("Intercept").sort_values(ascending=False)
    for number, (name, noise) in enumerate(ratio.items()):
        style = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))[number % 5]
        axes.plot(prices, np.sqrt(1 + noise**2 * price.rho / prices), label=str(name), linestyle=style)
    axes.axvline(price.rho, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
    axes.set(xscale="log", xlabel="price: rho of zCDP", ylabel="std err / std err without noise")
    axes.legend(frameon=False)
    return figure


def account_figure(ledger: Ledger) -> Figure:
    """Draw the budget as one bar, a part for each charge and one for the rest."""
    figure, axes = _axes(1.9)
    edge = axes.get_facecolor()
    amounts = ledger.charges()["amount"].to_numpy()
    starts = np.concatenate([[0.0], np.cumsum(amounts)])
    for number, (start, amount) in enumerate(zip(starts, amounts, strict=False), 1):
        label = f"charge {number}: {amount:.4g}"
        shade = 1 - 0.75 * (number - 1) / len(amounts)
        axes.barh(0, amount, left=start, color=_FIRST, alpha=shade, edgecolor=edge, label=label)
    rest = float(ledger.remaining.composable[0])
    axes.barh(0, rest, left=starts[-1], color=_REST, alpha=0.35, edgecolor=edge, label=f"remaining: {rest:.4g}")
    axes.set(yticks=[], xlim=(0, starts[-1] + rest), xlabel=f"{ledger.currency} of zCDP")
    axes.spines["left"].set_visible(False)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure

"""What the tour shows beside results: figures, and tables that no result has. Expressions of `tour.md` call these."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from dpinfer.display.report import Report
from dpinfer.errors import BudgetExceededError
from dpinfer.privacy.units import GDP
from dpinfer.reporting.page import Block, printed, tables
from dpinfer.reporting.summary_table import SummaryTable, summary_table
from dpinfer.schema.schema import schema_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

    from dpinfer.privacy import ZCDP, Ledger
    from dpinfer.procedures.procedure import Procedure
    from dpinfer.results import PrivateResults
    from dpinfer.studies import Plan

__all__ = ["SHOWING"]

_FIRST, _OTHER = "C0", "C4"


def scalar(value: Any) -> float:
    """Return the one number of an array."""
    return float(np.squeeze(value))


def rounded_up(price: GDP) -> GDP:
    """Round a price to four digits, never toward more privacy."""
    return GDP(float(Context(prec=4, rounding=ROUND_CEILING).plus(Decimal(price.mu))))


# Tables


def ledger_table(ledger: Ledger) -> Block:
    """Return what a ledger says before the first question."""
    facts = {
        "data": ledger.dataset,
        "budget": ledger.budget.describe(),
        "neighbours": f"{ledger.neighbors}: one row more or less",
        "spent": str(ledger.spent),
        "remaining": str(ledger.remaining),
    }
    width = max(map(len, facts))
    listed = "\n".join(f"{name:{width}}  {fact}" for name, fact in facts.items())
    return tables(Report("The ledger before the first question", tuple(facts.items())), listed)


def charges_table(charges: pd.DataFrame) -> pd.DataFrame:
    """Return charges by their number, as texts."""
    made = {
        "time (UTC)": charges["time"].dt.strftime("%Y-%m-%d %H:%M:%S"),
        "what": charges["description"],
        "price": charges["price"].map(str),
        "id": charges["id"].str[:8],
    }
    return pd.DataFrame(made).set_axis(range(1, len(charges) + 1))


def refusal(question: Procedure, price: ZCDP) -> str:
    """Ask for more than is left, and return in one line what comes back."""
    try:
        question.measure(price)
    except BudgetExceededError as error:
        return f"{type(error).__name__}: {error}"
    return "granted"


def beside(private: PrivateResults, *ordinary: Any) -> SummaryTable:
    """Return private results beside ordinary ones, of which a second one is by person."""
    names = ["private", "ordinary", "ordinary, by person"]
    return summary_table([private, *ordinary], names=names[: 1 + len(ordinary)])


def tests_table(second: PrivateResults, again: PrivateResults) -> pd.DataFrame:
    """Return tests of single coefficients, and of two together."""
    single, joint = second.t_test("religious = 0"), again.wald_test("age = 0, yrs_married = 0")
    rows = {"religious = 0": (second.response, "t", single.tvalue, single.pvalue)}
    for name in ("age", "yrs_married"):
        rows[f"{name} = 0"] = (again.response, "t", again.tvalues[name], again.pvalues[name])
    rows["age = 0, yrs_married = 0"] = (again.response, "F", joint.fvalue, joint.pvalue)
    shown = {
        hypothesis: (response, kind, scalar(value), scalar(p))
        for hypothesis, (response, kind, value, p) in rows.items()
    }
    columns = ["response", "kind", "statistic", "p-value"]
    return pd.DataFrame.from_dict(shown, orient="index", columns=columns)


# Figures


def _axes(height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6.8, height), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.06))
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def drawn(draw: Callable[..., object], height: float) -> Figure:
    """Draw a plot of the library in a figure of its own."""
    figure, axes = _axes(height)
    draw(ax=axes)
    return figure


def coefficients(results: PrivateResults) -> Figure:
    """Draw the slopes of a regression; see ``PrivateResults.plot_coefficients``."""
    return drawn(results.plot_coefficients, 1.4 + 0.42 * (len(results.params) - 1))


def planned(plan: Plan) -> Figure:
    """Draw widths and powers of a plan; see ``Plan.plot``."""
    figure = Figure(figsize=(6.8, 5.2), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.06))
    plan.plot(axes=figure.subplots(2, 2))
    return figure


def comparison(results: PrivateResults, ordinary: Any) -> Figure:
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


def other_prices(results: PrivateResults, price: ZCDP) -> Figure:
    """Draw each slope's standard error against the price."""
    figure, axes = _axes(3.6)
    prices = price.rho * np.geomspace(0.1, 10.0, 60)
    ratio = (results.bse_noise / results.bse_sampling).drop("Intercept").sort_values(ascending=False)
    for number, (name, noise) in enumerate(ratio.items()):
        style = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))[number % 5]
        axes.plot(prices, np.sqrt(1 + noise**2 * price.rho / prices), label=str(name), linestyle=style)
    axes.axvline(price.rho, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
    axes.set(xscale="log", xlabel="privacy budget: rho of zCDP", ylabel="std err / std err without noise")
    axes.legend(frameon=False)
    return figure


def account(ledger: Ledger) -> Figure:
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
    axes.barh(0, rest, left=starts[-1], color=_OTHER, alpha=0.35, edgecolor=edge, label=f"remaining: {rest:.4g}")
    axes.set(yticks=[], xlim=(0, starts[-1] + rest), xlabel=f"{ledger.currency} of zCDP")
    axes.spines["left"].set_visible(False)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


SHOWING = {
    one.__name__: one
    for one in (account, beside, charges_table, coefficients, comparison, drawn, ledger_table, other_prices, partial,
                planned, printed, refusal, rounded_up, scalar, schema_report, tables, tests_table)
}  # fmt: skip
"""What expressions of the tour may call, by name."""

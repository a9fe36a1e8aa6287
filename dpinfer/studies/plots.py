"""Figures of coverage studies, thin over the frames of a study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy import stats

from dpinfer.errors import OptionError
from dpinfer.results.style import FAINT, MARKED, SMALL, given_or_new, ink, legend, restrain, titled
from dpinfer.studies.rules import Rules

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from dpinfer.studies.design import Design

__all__ = ["coverage_plot", "nested_loop_plot", "pvalue_plot", "zip_plot"]


class Study(Protocol):
    """What figures read of the results of a study."""

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each replicate and term."""
        ...

    @property
    def cells(self) -> pd.DataFrame:
        """A row for each cell and term."""
        ...

    @property
    def design(self) -> Design:
        """What was asked."""
        ...

    def truth(self, term: str, n: int) -> float:
        """Return the true value at a number of rows."""
        ...


def _term(study: Study, term: str) -> pd.DataFrame:
    frame = study.frame
    if term not in set(frame["term"]):
        raise OptionError("term", term, sorted(set(frame["term"])))
    return frame[frame["term"] == term]


def coverage_plot(study: Study, *, ax: Axes | None = None) -> Axes:
    """Coverage of every cell with 95% Monte Carlo bands, and the least coverage that the rules allow."""
    cells = study.cells[np.isfinite(study.cells["coverage"])]
    labels = [f"{row.term}   n = {row.n:,}   {row.privacy}" for row in cells.itertuples()]
    axes = given_or_new(ax, 7.0, 1.2 + 0.22 * len(cells))
    place = np.arange(len(cells))[::-1]
    band = 1.96 * cells["MCSE of coverage"]
    axes.errorbar(cells["coverage"], place, xerr=band, fmt="o", ms=4, lw=1.2, color="C0")
    axes.axvline(study.design.level, color=ink(), lw=0.8)
    least = Rules().least_coverage(study.design.replicates, study.design.level)
    axes.axvline(least, color=MARKED, lw=1.0, ls="--")
    axes.set(xlabel=f"coverage of {study.design.level:.0%} intervals", yticks=place, yticklabels=labels)
    axes.tick_params(axis="y", labelsize=SMALL)
    restrain(axes)
    return axes


def nested_loop_plot(study: Study, measure: str = "coverage", *, ax: Axes | None = None) -> Axes:
    """One measure as a step line for each coefficient over the nested factors: price within number of rows.

    ``measure`` is a column of ``study.cells``. Ruecker & Schwarzer (2014).
    """
    cells = study.cells
    if measure not in cells:
        raise OptionError("measure", measure, sorted(cells.columns))
    axes = given_or_new(ax, 8.0, 4.2)
    order = cells[["n", "privacy"]].drop_duplicates().reset_index(drop=True)
    edges = np.arange(len(order) + 1) - 0.5
    for term, group in cells.groupby("term", sort=False):
        values = order.merge(group, on=["n", "privacy"], how="left")[measure]
        axes.stairs(values, edges, baseline=None, lw=1.6, label=str(term))
    if measure == "coverage":
        axes.axhline(study.design.level, color=ink(), lw=0.8)
    for index in range(1, len(order)):
        if order["n"][index] != order["n"][index - 1]:
            axes.axvline(index - 0.5, color=FAINT, lw=0.6, ls=":")
    labels = [f"n = {n:,}\n{privacy}" for n, privacy in order.itertuples(index=False)]
    axes.set(xticks=np.arange(len(order)), xticklabels=labels, ylabel=measure)
    axes.tick_params(axis="x", labelsize="x-small", rotation=45 if len(order) > 4 else 0)
    restrain(axes)
    legend(axes)
    return axes


def zip_plot(
    study: Study, term: str, *, n: int | None = None, privacy: str | None = None, ax: Axes | None = None
) -> Axes:
    """Intervals of one cell (by default the first), ranked by the distance of the truth in standard errors.

    Morris, White & Crowther (2019). Intervals that miss the truth have the second colour of the theme; the dashed line
    is the nominal level.
    """
    known = study.design.truth
    if known is not None and term not in known:
        raise OptionError("term", term, sorted(known))
    frame = _term(study, term)
    chosen_n = study.design.n[0] if n is None else n
    truth = study.truth(term, chosen_n)
    chosen = str(study.design.privacy[0]) if privacy is None else str(privacy)
    cell = frame[(frame["n"] == chosen_n) & (frame["privacy"] == chosen) & (frame["failure"] == "")]
    if cell.empty:
        raise OptionError("n, privacy", (chosen_n, chosen), "a cell of the study")
    away = np.abs(cell["estimate"] - truth) / cell["error"]
    rank = 100 * away.rank(method="first").to_numpy() / len(cell)
    misses = ((cell["lower"] > truth) | (cell["upper"] < truth)).to_numpy()
    finite = np.concatenate([cell["lower"], cell["upper"]])
    finite = finite[np.isfinite(finite)]
    edge = (np.quantile(finite, 0.001), np.quantile(finite, 0.999)) if finite.size else (truth - 1, truth + 1)
    low, high = np.clip(cell["lower"], *edge), np.clip(cell["upper"], *edge)
    axes = given_or_new(ax, 5.0, 5.5)
    axes.hlines(rank, low, high, colors=[MARKED if miss else "C0" for miss in misses], lw=0.5)
    axes.axvline(truth, color=ink(), lw=0.8)
    axes.axhline(100 * study.design.level, color=ink(), lw=0.8, ls="--")
    axes.set(xlabel=f"{term}: {study.design.level:.0%} intervals", ylabel="rank of the distance from the truth (%)")
    titled(axes, f"n = {chosen_n:,}, {chosen}")
    restrain(axes)
    return axes


def pvalue_plot(study: Study, term: str, *, ax: Axes | None = None) -> Axes:
    """Quantiles of p-values against the uniform, with a band that holds 95% of exact ones at every point.

    The p-values of a coefficient test zero, and are uniform where that is true.
    """
    axes = given_or_new(ax, 4.8, 4.8)
    count = study.design.replicates
    rank = np.arange(1, count + 1)
    for (n, privacy), cell in _term(study, term).groupby(["n", "privacy"], sort=False):
        values = np.sort(cell["pvalue"].fillna(1.0).to_numpy())
        axes.plot(np.arange(1, len(values) + 1) / (len(values) + 1), values, lw=1.4, label=f"n = {n:,}, {privacy}")
    low, high = stats.beta.ppf([[0.025], [0.975]], rank, count + 1 - rank)
    axes.fill_between(rank / (count + 1), low, high, color=FAINT, alpha=0.25, lw=0)
    axes.plot([0, 1], [0, 1], color=ink(), lw=0.8)
    axes.set(xlabel="uniform quantile", ylabel=f"p-value of {term} = 0", xlim=(0, 1), ylim=(0, 1))
    restrain(axes)
    legend(axes)
    return axes

"""People with several dependent rows: coverage and width by person, beside what independent rows would claim."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import dpinfer as dpi
from dpinfer.privacy import NEIGHBORS
from dpinfer.studies import truncation
from validation.common.outputs import Options, new_figure, write_table
from validation.common.rules import Claim, Rule
from validation.common.simulated import RULES
from validation.common.study import Drawn, Study, mean_ratio
from validation.people import people_bootstrap as slopes
from validation.people.people_checks import checks
from validation.people.people_designs import DESIGNS, KEPT, ROWS, draw, sums_of
from validation.people.people_inference import (
    QUESTIONS,
    ends_of,
    known,
    measured,
    noisy,
    people_of,
    truths_of_data,
)

SIZES, PRICES = (200, 2000), (dpi.ZCDP(0.1), dpi.PureDP(1.0))
TOGETHER = 200_000
"""Rows drawn at once."""

ALIKE, RELATED = DESIGNS[2].name, DESIGNS[3].name
PARTS = (
    "lower",
    "upper",
    "naive lower",
    "naive upper",
    "truth",
    "half",
    "kappa",
    "noise",
    "sampling",
    "flagged",
    "uncut",
)

Cell = tuple[int, int, str]
"""Place of the design, people, question."""


def draw_cell(cell: Cell, rng: np.random.Generator, replicates: int) -> Drawn:
    """Intervals of every term, max_rows, relation and price (R, 11), what an oracle knows beside them."""
    place, n, name = cell
    people, found = people_of(place, replicates), {}
    together = max(1, TOGETHER // (n * max(KEPT)))
    sizes = [min(together, replicates - start) for start in range(0, replicates, together)]
    sets = [draw(DESIGNS[place], rng, n, size) for size in sizes]
    for most in KEPT:
        sums = np.concatenate([sums_of(measured(name, most).rows, one, most) for one in sets])
        for neighbors, price in (*product(NEIGHBORS[:1], PRICES), (NEIGHBORS[1], PRICES[0])):
            measurement = measured(name, most, neighbors, price)
            oracle = known(name, most, n, measurement, people)
            alone = oracle.alone if most > 1 and price == PRICES[0] else None
            ends, naive, flagged = ends_of(name, measurement, noisy(measurement, sums, rng), alone)
            naive = naive if price == PRICES[0] else np.full_like(ends, np.nan)
            truth = np.broadcast_to(oracle.truth, (replicates, len(oracle.names)))
            if QUESTIONS[name].target == "data":
                truth = truths_of_data(name, measurement, sums)
            for index, term in enumerate(oracle.names):
                beside = [oracle.half[index], oracle.kappa, oracle.noise[index], oracle.sampling[index]]
                found[f"{most}|{neighbors}|{price}|{term}"] = np.column_stack([
                    ends[:, index], naive[:, index], truth[:, index], np.tile(beside, (replicates, 1)), flagged,
                    np.full(replicates, people.uncut),
                ])  # fmt: skip
    return found


def covers(lower: np.ndarray, upper: np.ndarray, truth: np.ndarray) -> float:
    """Share of intervals that hold the truth; missing where there are none."""
    return np.nan if np.isnan(lower).all() else float(((lower <= truth) & (truth <= upper)).mean())


def summary(cell: Cell, drawn: Drawn) -> list[dict[str, Any]]:
    """Coverage and mean width of intervals, and of those that take rows as independent."""
    rows = []
    for key, values in drawn.items():
        one = dict(zip(PARTS, values.T, strict=True))
        ratio, error = mean_ratio(one["upper"] - one["lower"], 2 * one["half"].mean())
        kappa, (most, neighbors, price, term) = one["kappa"].mean(), key.split("|")
        rows.append({
            "quantity": cell[2], "term": term, "max_rows": int(most), "neighbors": neighbors, "price": price,
            "coverage": covers(one["lower"], one["upper"], one["truth"]), "width / oracle": float(ratio),
            "error of width / oracle": float(error),
            "unbounded": float(1 - np.isfinite(one["upper"] - one["lower"]).mean()),
            "coverage if independent": covers(one["naive lower"], one["naive upper"], one["truth"]),
            "covers the uncut mean": covers(one["lower"], one["upper"], one["uncut"]) if cell[2] == "mean" else np.nan,
            "truth": float(one["truth"].mean()), "kappa": kappa, "noise s.d.": one["noise"].mean(),
            "sampling s.d.": one["sampling"].mean(), "flagged": float(one["flagged"].mean()),
            "uncut": one["uncut"].mean(),
            "clear": bool(np.isfinite(kappa) and kappa >= RULES.kappa and cell[2] != "slope"),
            "cap": RULES.unbounded_cap,
        })  # fmt: skip
    return rows


def kept_table(table: pd.DataFrame) -> pd.DataFrame:
    """What each max_rows keeps, what it moves and what noise it brings: the mean at the first price, largest n."""
    declared = truncation(ROWS, KEPT).frame
    means = table[(table["quantity"] == "mean") & (table["n"] == table["n"].max()) & (table["price"] == str(PRICES[0]))]
    means = means[means["neighbors"] == "add_remove"].reset_index(drop=True)
    share = declared.loc[means["max_rows"]].reset_index(drop=True)
    bias, total = means["truth"] - means["uncut"], np.hypot(means["sampling s.d."], means["noise s.d."])
    return pd.DataFrame({
        "design": means["design"], "max_rows": means["max_rows"], "rows kept": share["rows kept"],
        "people cut": share["people cut"], "relative noise of a sum": share["relative noise"],
        "mean of kept rows": means["truth"], "uncut mean": means["uncut"], "bias": bias,
        "bias, share of the mean": bias / means["uncut"], "n": means["n"], "sampling s.d.": means["sampling s.d."],
        "noise s.d.": means["noise s.d."], "total s.d.": total, "error, uncut": np.hypot(total, bias),
        "coverage": means["coverage"], "covers the uncut mean": means["covers the uncut mean"],
    })  # fmt: skip


def claims(table: pd.DataFrame, options: Options) -> list[Claim]:
    """What shows beside coverage and width: what is kept, what independence would claim, and that sums are right."""
    kept, found = kept_table(table), []
    write_table(
        kept, "people_coverage_kept", options, ["The mean at the first budget, add_remove, at the largest size."]
    )
    related = kept[kept["design"] == RELATED]
    if len(related):
        moved = ", ".join(f"{one:+.1%}" for one in related["bias, share of the mean"])
        found.append(Claim("mean of kept rows against that of all, where people with high values have more rows",
                           f"max_rows = {', '.join(map(str, KEPT))}; {related['uncut mean'].iloc[0]:.3f} in all", moved,
                           (related["bias"] < 0).all()))  # fmt: skip
    ols = table[table["quantity"] == "slope"]
    if len(ols):
        low, high = ols["width / oracle"].min(), ols["width / oracle"].max()
        found.append(Claim("mean width of ols over the oracle's: people, sampling variance times max_rows",
                           f"{len(ols)} cells",
                           f"{low:.2f}-{high:.2f}; coverage at least {ols['coverage'].min():.4f}",
                           ols["held"].all()))  # fmt: skip
    worst = table[(table["design"] == ALIKE) & (table["max_rows"] == max(KEPT)) & (table["n"] == max(SIZES))]
    worst = worst[worst["quantity"] != "total of the data"].dropna(subset="coverage if independent")
    if len(worst):
        naive, right = worst["coverage if independent"], worst["coverage"]
        found.append(Claim("coverage of the same releases if rows were taken as independent",
                           f"rows of a person alike, max_rows = {max(KEPT)}, n = 2,000",
                           f"{naive.min():.3f}-{naive.max():.3f}; by person {right.min():.3f}-{right.max():.3f}",
                           naive.min() < 0.9))  # fmt: skip
    agreed = checks(options)
    found.append(Claim("sums and intervals of the study of people are the library's",
                       f"{agreed.sums:,} sums, {agreed.intervals:,} intervals",
                       "equal" if agreed.equal else "different",
                       agreed.equal and abs(agreed.chosen) < 4))  # fmt: skip
    return found


def figure_of(table: pd.DataFrame) -> Figure:
    """Coverage with and without people, widths, and noise against bias."""
    figure, (coverage, width, cost) = new_figure(13, 4.2, 1, 3)
    for place, (quantity, part) in enumerate(table.groupby("quantity", sort=False)):
        at = part["max_rows"] + 0.12 * (place - 2.5)
        coverage.plot(at, part["coverage"], "osD^vP"[place], ms=3.5, color=f"C{place}", label=quantity)
        if quantity != "total of the data":
            coverage.plot(at, part["coverage if independent"], "x", ms=3.5, color=f"C{place}", alpha=0.6)
        width.plot(at, part["width / oracle"], "osD^vP"[place], ms=3.5, color=f"C{place}")
    coverage.axhline(0.95, color="black", lw=0.8)
    coverage.set(xlabel="max_rows", ylabel="coverage of 95% intervals (crosses: if rows were independent)", xticks=KEPT)
    coverage.legend(frameon=False, fontsize=7)
    width.axhline(RULES.width_cap, color="firebrick", lw=0.8, ls="--")
    width.set(xlabel="max_rows", ylabel="mean width over the oracle's", xticks=KEPT, yscale="log")
    kept = kept_table(table)
    for label, style in (("sampling s.d.", "s--"), ("noise s.d.", "o-")):
        cost.plot(kept["max_rows"], kept[label], style, ms=4, label=label)
    cost.plot(kept["max_rows"], kept["bias"].abs(), "^", ms=4, label="|mean of kept rows - mean of all|")
    cost.set(xlabel="max_rows", xticks=KEPT, ylabel="of the mean of spending", yscale="log")
    cost.legend(frameon=False, fontsize=7)
    return figure


STUDY = (
    Study(
        "people_coverage", [*product(range(len(DESIGNS)), SIZES, QUESTIONS)], draw_cell, summary,
        (
            Rule("least coverage of 95% intervals: people with several dependent rows", "coverage"),
            Rule("largest mean width over the oracle's where kappa is at least 3: means and proportions by person",
                 "width / oracle", "width", RULES.width_cap, where=lambda table: table["clear"].astype(bool)),
            Rule("", "unbounded", "size", "cap", where=lambda table: table["clear"].astype(bool)),
        ),
        axes=lambda cell: {"design": DESIGNS[cell[0]].name, "n": cell[1]},
        by=("quantity", "term", "max_rows", "neighbors", "price"), also=claims, figure=figure_of,
        notes=(
            "What is estimated: a person with N rows counts with min(N, max_rows) of them, chosen by a public hash. A "
            "mean is that of these rows over people, E[sum of kept rows] / E[number of kept rows], and so is a "
            "proportion; a slope is that of the kept rows; a total is that of the kept rows of so many people on "
            "average. Where numbers of rows are related to values, this is not the mean of all rows ('uncut'). "
            "Truths and sampling "
            "variances by person are from a million people a design, with a seed of their own; the slope is .5 "
            "whatever is kept.",
            "'coverage if independent' is what the same releases would give if rows were taken as independent, at the "
            "first price: slopes with the sampling variance of independent rows, the others with that variance known.",
            "Of a person with more rows the first ones stand for those that the hash keeps.",
        ),
    ),
    Study(
        "people_coverage_slopes", [*product(range(len(DESIGNS)), SIZES)], slopes.draw_slopes, slopes.summary,
        (
            Rule("least coverage of the bootstrap's slope by person, and of ols at the same budget",
                 "bootstrap coverage",
                 design=f"24 cells, {slopes.PRICE}"),
            Rule("", "ols coverage"),
        ),
        axes=lambda cell: {"design": DESIGNS[cell[0]].name, "n": cell[1]}, by=("max_rows",), most=1000,
        notes=(f"Slopes at {slopes.PRICE} under add_remove, the bootstrap with 50 replicates and least squares of the "
               f"same rows. "
               "Mean widths are over data sets where both are bounded. 'design effect' is the true sampling variance "
               "over that of independent rows; the intervals of least squares take it to be max_rows. Oracles know "
               "the true one, and the noise.",),
    ),
)  # fmt: skip

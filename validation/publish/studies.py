"""Measured sections on coverage, width and error of regressions, descriptions, families, blocks, bootstraps, people."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from dpinfer.studies import Rules
from validation.common.pages import (
    Column,
    first_run,
    grouped,
    output,
    picture,
    ranged,
    replicates,
    section,
    table,
    text,
)
from validation.entry.newcomer import SCRIPT
from validation.planning.plan_accuracy import MET, POWER, SLOW, WIDTH, judged
from validation.planning.plan_real import PILOT, PRICE, ROWS
from validation.publish import speed
from validation.regression import naive_regression

ABSENT = "no such cell"
KAPPA = Rules().kappa
METHODS = {"rounds": "Newton iterations", "gram": "`gram`", "blocks": "`sample_aggregate`", "bootstrap": "`bootstrap`",
           "diffprivlib": "diffprivlib"}  # fmt: skip
ASKED = {"mean": "mean", "gamma": "gamma family", "ols, gram": "`ols`, cross-products",
         "ols, iterations": "`ols`, iterations"}  # fmt: skip

_SHORT = 0.05
"""Coverage below that without privacy by more is named."""


def clear(group: pd.DataFrame, style: str = ".3f", absent: str = ABSENT) -> str:
    """Return the largest width over the oracle's where the signal outweighs the noise."""
    found = group[group["kappa"].fillna(np.inf) >= KAPPA]["width / oracle"].dropna()
    return format(found.max(), style) if len(found) else absent


# Regression, descriptions, families


@section("README", "naive")
def naive() -> str:
    """Coverage of both readings of the same noisy cross-products, at the price that the figure shows."""
    found, at = output("naive_regression"), naive_regression.SHOWN_AT
    found = found[(found["price"] == f"ZCDP({at:g})") & (found["term"] == "educ")].set_index("reading")
    covered, replicates = found["coverage"], found["replicates"].iloc[0]
    return (
        f"A regression on {naive_regression.ROWS:,} real rows, from the same noisy cross-products at ZCDP({at:g}): 95% "
        f"intervals by the usual formulas cover the slope in {covered['naive']:.0%} of {replicates:,} replicates, "
        f"those of dpinfer in {covered['dpinfer']:.0%} (`python -m validation --only naive_regression`)."
    )


def _by_budget(summary: pd.DataFrame) -> str:
    """Return coverage, width and error of slopes on real data, by price and rows."""
    every = summary[(summary["kind"] == "all") & (summary["neighbors"] == "add_remove")]
    return table(
        pd.concat([rows for _, rows in every.groupby("privacy", sort=False)]),
        {
            "budget": "{privacy}",
            "rows": "{n:,}",
            "coverage": "{coverage:.3f}",
            "without privacy": "{non-private:.3f}",
            "width": "{median width ratio:.3g}",
            "RMSE": "{median RMSE ratio:.3g}",
            "unbounded intervals": "{unbounded:.1%}",
        },
    )


def _short(cells: pd.DataFrame) -> str:
    """Return the regressions with cells in which a slope is covered less often than without privacy, and the worst."""
    drawn = cells[cells["mode"] == "drawn"].assign(short=lambda rows: rows["non-private"] - rows["coverage"])
    short = drawn[drawn["short"] > _SHORT].sort_values("short", ascending=False)
    told = f"Cells in which a slope is covered less often than without privacy by more than {_SHORT:g}"
    if short.empty:
        return f"{told}: none of {len(drawn)}."
    worst = short.groupby("regression", sort=False).first().reset_index()
    worst["cells"] = worst["regression"].map(short["regression"].value_counts())
    of = drawn["regression"].value_counts()
    shown: dict[str, Column] = {
        "regression": "{regression}",
        "cells": lambda row: f"{row['cells']} of {of[row['regression']]}",
        "worst": "{least covered}, {privacy}, {n:,} rows",
        "coverage": "{coverage:.3f}",
        "without privacy": "{non-private:.3f}",
        "flagged": "{flagged:.0%}",
    }
    return text(f"{told}:", table(worst, shown))


@section("regression", "real")
@section("paper", "real")
def real() -> str:
    """Coverage, width and error of slopes on real data, by price and rows, and where intervals are short."""
    summary = output("real_data_summary")
    return text(
        f"{summary['regressions'].max()} regressions on real data sets as populations, up to "
        f"{summary['replicates'].max():,} replicates (`python -m validation --only real_data`). "
        "Coverage of slopes by 95% intervals, unbounded ones included; width and root mean squared error (RMSE) "
        "over those of the robust fit without privacy, medians over slopes:",
        _by_budget(summary),
        _short(output("real_data_cells")),
    )


@section("regression", "unseen")
def unseen() -> str:
    """The same on data sets that the engine was not built with."""
    summary = output("unseen_summary")
    return text(
        f"{summary['regressions'].max()} regressions on data sets that the engine was not built with "
        f"(`python -m validation --only unseen`), up to {summary['replicates'].max():,} replicates:",
        _by_budget(summary),
        _short(output("unseen_cells")),
    )


@section("regression", "coverage")
def regression() -> str:
    """Coverage and width by kind of design, for the page on regression."""
    coverage = output("ols_coverage")
    first = first_run(coverage).sort_values(["regressors", "slopes"], kind="stable")
    first = first.assign(unit=first["price"].str.replace(r"\(.*", "", regex=True))
    columns: dict[str, Column] = {
        "regressors": "{regressors}",
        "slopes": "{slopes}",
        "unit": "{unit}",
        "cells": "{cells}",
        "least coverage": "{least coverage:.4f}",
        "least for the contrast": "{least contrast coverage:.4f}",
        "largest width / oracle, kappa at least 3": clear,
        "cells with kappa below 3": lambda group: int((group["kappa"] < KAPPA).sum()),
    }
    by = ["regressors", "slopes", "unit"]
    return text(
        grouped(first.sort_values(by, kind="stable"), by, columns),
        f"{replicates(coverage)} of each cell.",
    )


@section("regression", "peers")
def peers() -> str:
    """Errors of private fits over those of the ordinary one."""
    columns: dict[str, Column] = {"data": "{data}", "model": "`{model}`", "budget": "{price}"} | {
        head: (lambda row, one=one: "-" if pd.isna(row[one]) else f"{row[one]:.3g}") for one, head in METHODS.items()
    }
    return text(
        "Root mean squared error of slopes over that of the fit without privacy, at equal budgets (`python -m "
        "validation --only newton_peers`; replicates, versions and designs are in "
        "`validation/output/newton_peers.md`). mu is that of Gaussian differential privacy.",
        table(output("newton_peers"), columns),
        picture("Errors of slopes by five private methods over those of ordinary fits", "newton_peers"),
    )


@section("instruments", "instruments")
def instruments() -> str:
    """Coverage and sizes by design, and what real rows leave open by number of rows and price."""
    found = output("iv_coverage")
    by_population: dict[str, Column] = {
        "population": "{design}",
        "cells": "{cells}",
        "Anderson-Rubin": "{least coverage:.3f}",
        "exogenous coefficients": "{least coverage, others:.3f}",
        "Wald": "{least Wald coverage:.3f}",
        "Wald without noise": "{least Wald coverage without noise:.3f}",
        "size of the Anderson-Rubin test": "{most size:.3f}",
        "of the Sargan test": "{most size of Sargan:.3f}",
        "empty sets": "{most empty:.1%}",
    }
    by_price: dict[str, Column] = {
        "population": "{design}",
        "rows": "{n:,}",
        "budget": "{price}",
        "first-stage F": "{F:.3g}",
        "unbounded": "{unbounded:.1%}",
        "unbounded without noise": "{unbounded without noise:.1%}",
        "width": "{width ratio:.2f}",
    }
    real = found[~found["design"].str.startswith("F = ")]
    exact = real.assign(price=real["price"].str.replace(r"rho=|epsilon=", "", regex=True))
    return text(
        "Rows are drawn from populations: simulated ones with k instruments whose first-stage F is as stated at each "
        "number of rows, and real ones, whose response is moved by the little on which several instruments disagree. "
        f"{found['replicates'].min():,} to {found['replicates'].max():,} replicates of each cell; 1,000, 5,000 and "
        f"50,000 rows, ZCDP(0.5), ZCDP(0.05) and PureDP(1); {found['held'].sum()} of {len(found)} cells held by the "
        "rule of [does your interval cover?](guide/does-your-interval-cover.md). Least coverage of 95% intervals, "
        "largest size at .05 of the test of the true coefficient and of Sargan's (`python -m validation --only "
        "iv_coverage`):",
        grouped(found, "design", by_population),
        "What is left open on real rows. F has the noise counted; width is the median of bounded intervals over those "
        "of the Anderson-Rubin test on the same rows without noise.",
        table(exact, by_price),
        picture("Coverage of Anderson-Rubin and Wald intervals by first-stage F", "iv_coverage"),
    )


def by_design(name: str) -> Callable[[], str]:
    """Return what shows coverage and width by design, from a table of judged cells."""

    def body() -> str:
        found, last = output(name), output(name, ["design", "bounds", "neighbors", "n", "privacy", "term"])
        last["clear"] = last["kappa"].fillna(np.inf) >= KAPPA
        declared = last["bounds"] == "as declared"
        last["shown"] = last["design"].where(declared, last["design"] + ", " + last["bounds"] + " bounds")
        last["below"] = last["flagged"].where(~last["clear"])
        last["above"] = last["flagged"].where(last["clear"])
        columns: dict[str, Column] = {
            "design": "{shown}",
            "cells": "{cells}",
            "least coverage": "{least coverage:.4f}",
            "of them with kappa at least 3": "{total clear}",
            "their largest width / oracle": clear,
            "flagged, kappa below 3": "{mean below:.0%}",
            "flagged, at least 3": "{mean above:.0%}",
        }
        return text(
            grouped(last, ["design", "bounds"], columns),
            f"{len(last)} cells and quantities, {replicates(found)} of each, made by "
            f"`python -m validation --only {name}`; not held: {int((~last['held']).sum())}.",
        )

    return body


section("descriptions", "descriptions")(by_design("descriptions_coverage"))
section("exponential-families", "families")(by_design("expfam_coverage"))


@section("descriptions", "proportions")
def proportions() -> str:
    """Exact coverage and mean width of the exact interval, a row per number of rows and proportion."""
    found = output("proportion_exact").sort_values(["n", "theta"], kind="stable")
    columns: dict[str, Column] = {"n": "{n}", "theta": "{theta:g}"}
    for price in sorted(found["epsilon"].unique()):

        def shown(group: pd.DataFrame, price: float = price) -> str:
            one = group[group["epsilon"] == price].iloc[0]
            return f"{one['coverage']:.4f} / {one['mean width']:.3f}"

        columns[f"eps = {price:g}"] = shown
    return text(
        grouped(found, ["n", "theta"], columns),
        "Exact coverage / mean width of 95% intervals; `python -m validation --only proportion_exact`.",
    )


@section("exponential-families", "published")
def published() -> str:
    """Ours beside the best published intervals."""
    found = output("expfam_published")
    found = found[~found["design"].str.contains("90%")]
    known = found["published"].str.split("/").str[-1].str.replace("width", "").astype(float)
    columns = {
        "design": "{design}",
        "n": "{n:,}",
        "parameter": "{parameter}",
        "coverage": "{coverage:.4f}",
        "mean width": "{width:.3f}",
        "best published (coverage / width)": "{published}",
        "narrower by": "{gain:.1%}",
    }
    return text(
        table(found.assign(gain=1 - found["width"] / known), columns),
        "All under replace_one with a public n; `python -m validation --only expfam_published`.",
    )


# Blocks, bootstraps, people


@section("sample-aggregate", "aggregate")
def aggregate() -> str:
    """Error, coverage and width of sample-and-aggregate, a row per design and price, and the figures."""
    found, timed = output("aggregate_coverage"), speed.ratios("resampled")
    found["ratio"] = found["RMSE"] / found["without noise"]
    found["model"] = found["design"] + np.where(found["correction"] == "half_blocks", "", ", **not corrected**")
    found["bounded"] = np.where(found["aggregator"] == "winsorized", "place and spread", "the region alone")
    columns: dict[str, Column] = {
        "model": "{model}",
        "n": "{n:,}",
        "blocks": "{blocks}",
        "budget": "`{price}`",
        "blocks bounded by": "{bounded}",
        "RMSE over that of blocks without noise": "{least ratio:.2f}-{most ratio:.2f}",
        "least coverage": "{least coverage:.4f}",
        "mean width / oracle, signal at least 3": lambda group: clear(
            group.fillna({"kappa": -1}), absent="no such parameter"
        ),
        "flagged": "{most flagged:.0%}",
    }
    return text(
        grouped(found, ["design", "n", "blocks", "price", "aggregator", "correction"], columns),
        f"{replicates(found)}; `python -m validation --only aggregate_coverage`, which "
        f"judges the "
        "corrected ones; every parameter is in `validation/output/aggregate_coverage.csv`.",
        picture("Coverage and error of sample-and-aggregate", "aggregate_coverage"),
        "Bias of a block against its rows, plain and corrected (`python -m validation --only aggregate_bias`):",
        picture("Bias of a block's estimate of order 1/m, and of order 1/m squared when corrected", "aggregate_bias"),
        "Smith's (2008) theorem: the estimator is efficient where epsilon n^(1/4) grows without bound. Mean "
        "squared error over the Cramer-Rao bound, with the square root of n blocks and with as many as bias allows "
        "(`python -m validation --only aggregate_efficiency`):",
        picture("Mean squared error over the Cramer-Rao bound as n grows and epsilon shrinks", "aggregate_efficiency"),
        f"Time of the fits of 500 blocks and their halves ({speed.COMMAND}):",
        speed.times(timed[~timed["work"].str.contains("bootstrap")]),
    )


@section("bootstrap", "bootstrap")
def bootstrap() -> str:
    """Exact cost, the source's intervals and ours, coverage by design, and the direct release beside it."""
    cost, extra, source = (output(f"bootstrap_{one}") for one in ("cost", "cost_noise", "source"))
    timed = speed.ratios("resampled", "memory")
    added = extra[(extra["mu"] == 1) & (extra["replicates"] == 200)].iloc[0]
    last = output("bootstrap_coverage", ["design", "n", "replicates B", "price"])
    costs = dict(
        zip(
            ("mu", "B", "claimed epsilon", "asymptotic, 2 - 2/e", "exact", "ledger mu"),
            (f"{{{name}:{how}}}" for name, how in zip(cost, ("g", ".0f", *[".3f"] * 3, ".4f"), strict=True)),
            strict=True,
        )
    )
    intervals = {
        "interval": "{interval}",
        "coverage there": "{coverage:.4f}",
        "stated": "{stated:.3f}",
        "mean width over the conservative one's": "{of the conservative one's:.3f}",
    }
    cells: dict[str, Column] = {
        "design": "{design}",
        "n": "{n:,}",
        "B": "{replicates B}",
        "budget": "`{price}`",
        "level": "{level:g}",
        "runs": "{runs:,}",
        "coverage": lambda row: f"{row['coverage']:.4f}{'' if row['held'] else ', **not held**'}",
        "mean width / oracle": "{width / oracle:.3f}",
        "sampling / noise of one": "{sampling / noise:.2f}",
        "flagged": "{flagged:.0%}",
        "`ols` covers": "{gram covers:.3f}",
    }
    beside = {
        "estimate": "{estimate}",
        "n": "{n:,}",
        "error over that of the direct release": "{RMSE ratio:.2f}",
        "width over it": "{width ratio:.2f}",
    }
    return text(
        "Epsilon at delta = 1e-6 of B replicates with root-B times the noise of one release of mu, double or "
        "nothing (`python -m validation --only bootstrap_cost`, which also checks the composed delta by simulation "
        "and attacks the weights). The noise that the true price adds at mu = 1, B = 200: "
        f"{added['alone']:.2%} in standard deviation alone, {added['ledger entry']:.2%} as a ledger entry.",
        table(cost, costs),
        picture("Exact, claimed and asymptotic epsilon against the number of replicates", "bootstrap_cost"),
        "The setting of Brawner and Honaker's figures 6 to 9, on ages from a beta distribution with standard "
        f"deviation 17.58 (`python -m validation --only bootstrap_source`, {int(source['replicates'].max()):,} "
        "replicates; their releases are not private at the stated cost):",
        table(source[source["run"] == "all"], intervals),
        picture("Figures 6 to 9 of the source redrawn, with the default interval", "bootstrap_source"),
        "Coverage of the default interval, end to end (`python -m validation --only bootstrap_coverage`, up to "
        f"{int(last['runs'].max()):,} replicates a design; the same for one number by quadrature in the figure). "
        "`ols`, which takes errors to spread equally, is fitted to the same rows at the same budget:",
        table(last, cells),
        picture("Coverage and width of the bootstrap's intervals, and direct releases", "bootstrap_coverage"),
        "The same estimate by the direct release at the same budget (mu = 1, B = 200):",
        table(output("bootstrap_coverage_direct"), beside),
        f"Time and memory for a million rows ({speed.COMMAND}):",
        speed.times(timed[timed["work"].str.contains("bootstrap")]),
    )


_BESIDE = {
    "covered": "{coverage:.3f}",
    "without privacy": "{without privacy:.3f}",
    "width / without privacy": "{width / without privacy:.2f}",
    "unbounded": "{unbounded:.1%}",
    "RMSE / without privacy": "{RMSE / without privacy:.2f}",
}
"""Columns of slopes beside those without privacy."""


@section("regression", "clusters")
def clusters() -> str:
    """Coverage, width and error of slopes clustered by public groups."""
    found = output("clusters")
    columns = {
        "population": "{population}, `{model}`",
        "n": "{n:,}",
        "groups": "{groups}",
        "budget": "`{price}`, {neighbors}",
        **_BESIDE,
    }
    return text(
        f"The worse of two slopes; {ranged(found['replicates'], ',')} replicates (`python -m validation --only "
        "clusters`). Without privacy means clustered, too, with t of one degree of freedom less than groups.",
        table(found, columns),
    )


@section("panels", "panels")
def panels() -> str:
    """Coverage, width and error within people, by population, estimator, size and price."""
    found = output("panels")
    columns = {
        "population": "{population}",
        "within": "{within}",
        "n": "{n:,}",
        "budget": "`{price}`, {neighbors}",
        **_BESIDE,
        "named as noise": "{named:.0%}",
    }
    return text(
        f"The worse of two slopes; {ranged(found['replicates'], ',')} replicates, judged by the rule of all tables. "
        "Infinite widths are medians of intervals that noise leaves unbounded.",
        table(found, columns),
        picture("Coverage and width of slopes within people, by the number of rows", "panels"),
    )


@section("panels", "absorbed")
def absorbed() -> str:
    """Coverage, width and error beside absorbed levels; and what absorbing and dummies cost."""
    found, cost = output("absorbed"), output("absorbed_cost")
    columns = {
        "population": "{population}",
        "n": "{n:,}",
        "budget": "`{price}`, {neighbors}",
        **_BESIDE,
        "levels named": "{levels named:.0%}",
    }
    beside = {
        "levels": "{levels}",
        "way": "{way}",
        "numbers released": "{sums:,}",
        "seconds": "{seconds:g}",
        "width / without privacy": "{width / without privacy:.2f}",
    }
    return text(
        f"The worst slope; {ranged(found['replicates'], ',')} replicates, judged by the rule of all tables. Without "
        "privacy is the dummies' fit with nonrobust errors; levels named is the share of fits that name a level with "
        "few rows.",
        table(found, columns),
        "Beside the dummies' fit from cross-products (simulated levels, n = 50,000, `ZCDP(0.5)`; the slope of x; one "
        "release a line, `python -m validation --full --only absorbed_cost`; inf is an unbounded interval):",
        table(cost, beside),
        picture("Coverage and width of slopes beside absorbed levels, by the number of rows", "absorbed"),
    )


@section("people", "people")
def people() -> str:
    """What is kept, what it moves, and coverage and width by person, by quantity; slopes beside the bootstrap."""
    kept = output("people_coverage_kept")
    found = output("people_coverage", ["design", "term", "quantity", "max_rows", "n", "neighbors", "price"])
    slopes = output("people_coverage_slopes", ["design", "max_rows", "n"])
    found["covers"] = found.get("covers", found.get("held", True))
    keeps = {
        "rows of a person": "{design}",
        "max_rows": "{max_rows}",
        "rows kept": "{rows kept:.0%}",
        "mean of kept rows": "{mean of kept rows:.3f}",
        "of all rows": "{uncut mean:.3f}",
        "sampling / noise s.d.": "{both}",
        "covered": "{coverage:.4f}",
        "mean of all rows covered": "{covers the uncut mean:.4f}",
    }

    def marked(price: str) -> Column:
        def least(group: pd.DataFrame) -> str:
            mine = group[group["price"] == price]
            short = mine[~mine["covers"]]
            return f"{mine['coverage'].min():.4f}" if short.empty else f"**{short['coverage'].min():.4f}**"

        return least

    naively = (found["max_rows"] > 1) & (found["quantity"] != "total of the data")
    cells: dict[str, Column] = {
        "quantity": "{quantity}",
        "max_rows": "{max_rows}",
        "n": "{n:,}",
        "cells": "{cells}",
        **{f"least coverage, `{price}`": marked(price) for price in dict.fromkeys(found["price"])},
        "least if rows were independent": lambda group: (
            f"{group['coverage if independent'].min():.4f}" if naively[group.index[0]] else ""
        ),
        "mean width / oracle": lambda group: f"{group['width / oracle'].min():.2f}-{group['width / oracle'].max():.2f}",
        "unbounded": "{most unbounded:.1%}",
        "flagged": "{most flagged:.0%}",
    }
    beside = {
        "rows of a person": "{design}",
        "max_rows": "{max_rows}",
        "n": "{n:,}",
        "design effect": "{design effect:.2f}",
        "`ols` covers": "{ols coverage:.3f}",
        "if rows were independent": "{ols coverage if independent:.3f}",
        "its width / oracle": "{ols width / oracle:.2f}",
        "`bootstrap` covers": "{bootstrap coverage:.3f}",
        "its width / oracle ": "{bootstrap width / oracle:.2f}",
        "over that of `ols`": "{bootstrap width / ols:.2f}",
    }
    counts = found.groupby("price", sort=False)["replicates"].min()
    said = "; ".join(
        f"`{price}`: {number:,} replicates, least coverage allowed {Rules().least_coverage(number, 0.95):.4f}"
        for price, number in counts.items()
    )
    one = int(slopes["replicates"].min())
    kept["both"] = [f"{a:.4f} / {b:.4f}" for a, b in zip(kept["sampling s.d."], kept["noise s.d."], strict=True)]
    return text(
        "People have 1 to 5 rows, 3% of them 50; latent values of a person's rows have the correlation named. A "
        "mean of kept rows is E[their sum] / E[their number] over people who count with min(N, max_rows) of their "
        f"N rows. `{counts.index[0]}`, add_remove, n = {int(kept['n'].max()):,} people:",
        table(kept, keeps),
        f"All cells: four designs, both relations, two budgets ({said}); "
        "`python -m validation --only people_coverage`. What the same releases would cover if rows were taken as "
        "independent is of the first budget. In bold: short of what is allowed, in "
        f"{int((~found['covers']).sum())} of {len(found)} cells:",
        grouped(found, ["quantity", "max_rows", "n"], cells),
        f"Slopes by least squares, whose sampling variance is multiplied by max_rows, and by the bootstrap with 50 "
        f"replicates on the same rows at mu = 2, add_remove: {one:,} replicates, least coverage allowed "
        f"{Rules().least_coverage(one, 0.95):.3f}. The design effect is the true sampling variance over that of "
        "independent rows:",
        table(slopes, beside).replace("oracle  |", "oracle |", 1),
        picture("Coverage, width, noise and bias by the number of rows that are kept", "people_coverage"),
    )


# First looks, codebooks, planning


def _points(share: float) -> str:
    return "lost" if share >= 1 else f"{100 * share:.2g}"


@section("entry", "noise")
def noise() -> str:
    """Margins of counts and of shares, predicted and measured."""
    found = output("quality_noise")
    found = found[found["columns"] == 20]
    columns: dict[str, Column] = {
        "budget, 20 columns": "{price}",
        "margin of a count, rows": "{margin of a count:,.0f}",
        "measured": "{mean measured:,.0f}",
    }
    for n in sorted(found["n"].unique()):

        def shown(group: pd.DataFrame, n: int = n) -> str:
            one = group[group["n"] == n].iloc[0]
            return f"{_points(one['margin of a share'])} ({_points(one['measured share'])})"

        columns[f"of a share, n = {n:,}"] = shown
    return text(
        grouped(found, "price", columns, rule="---"),
        "Margins of shares are in percentage points. Measured are .95 quantiles of the sizes of errors, of shares in "
        "brackets.",
        picture("Margins of shares against the number of rows", "quality_noise"),
    )


@section("entry", "first_minutes")
def first_minutes() -> str:
    """The script of a newcomer, and the time that it took from an empty environment."""
    row = output("newcomer").iloc[0]
    return text(
        f"```python\n{SCRIPT.rstrip()}\n```",
        f"{row['lines']} lines. From an empty environment: {row['install']:.0f} seconds to install, "
        f"{row['first table']:.0f} to the table. Run again, it prints the same and pays nothing. "
        "`python -m validation --only newcomer`, once.",
    )


def _bounds() -> pd.DataFrame:
    found = output("bounds_coverage", dtype={"margin": str})
    keys, known = ["asked", "law", "n"], found["determined"].clip(lower=1).astype(int)
    declared = found[found["margin"] == "declared"].set_index(keys)["width"].replace(np.inf, np.nan)
    ratio = found["width"].to_numpy() / declared.reindex(pd.MultiIndex.from_frame(found[keys])).to_numpy()
    found["width / declared"] = found.get("width / declared", pd.Series(ratio))
    for name, counts in (("least", found["replicates"].astype(int)), ("least determined", known)):
        found[name] = [Rules().least_coverage(count, 0.95) for count in counts]
    return found


def _cell(one: pd.Series) -> str:
    def bold(column: str, least: str) -> str:
        return f"{one[column]:.3f}" if one[column] >= one[least] else f"**{one[column]:.3f}**"

    found, lost = bold("coverage", "least"), one["not determined"]
    if lost in (0, 1):
        return f"{found} ({lost:.1%})" if lost else found
    return f"{found} ({lost:.1%}; {bold('coverage where determined', 'least determined')})"


@section("entry", "coverage")
def coverage() -> str:
    """Coverage within found bounds, beside declared ones."""
    found = _bounds()
    own = found[found["margin"] == "1"]
    columns: dict[str, Column] = {"asked": lambda group: ASKED[group["asked"].iloc[0]], "data": "{law}"}
    for n in sorted(found["n"].unique()):

        def shown(group: pd.DataFrame, n: int = n) -> str:
            mine = group[group["n"] == n]
            return _cell(mine.iloc[0]) if len(mine) else ""

        columns[f"n = {n:,}"] = shown

    def ratio(group: pd.DataFrame) -> str:
        found = group["width / declared"].replace(np.inf, np.nan).dropna()
        return f"{found.min():.2f} to {found.max():.2f}" if len(found) else ""

    declared = found[(found["margin"] == "declared") & ~found["held"]]
    among = "; ".join(
        f"{ASKED[one['asked']]}, {one['law']}, n = {one['n']:,}: {_cell(one)}" for _, one in declared.iterrows()
    )
    return text(
        grouped(own, ["asked", "law"], columns | {"width over that of declared bounds": ratio}, rule="---"),
        f"{int(own['replicates'].max()):,} replicates a cell; at least {own['least'].max():.4f} is asked for. An "
        "interval that is not determined is the "
        "whole line, and counts as covering. Where there are any, brackets hold their share, and then coverage among "
        "the intervals that are determined. Of this, too, an exact interval's least is asked for, at as many "
        f"replicates as are determined. {int((~own['held']).sum())} of {len(own)} cells have less of one or the "
        f"other (bold).{f' With declared bounds: {among}.' if among else ''}",
        picture("Coverage within bounds that were found", "bounds_coverage"),
    )


@section("entry", "margins")
def margins() -> str:
    """Coverage of means by margin."""
    found = _bounds()

    def named(group: pd.DataFrame) -> str:
        margin = group["margin"].iloc[0]
        return "declared bounds" if margin == "declared" else f"{margin} octave{'' if margin == '1' else 's'}"

    def where(group: pd.DataFrame) -> str:
        worst = group.loc[group["coverage"].idxmin()]
        return f"{worst['law']}, n = {worst['n']:,}"

    columns: dict[str, Column] = {
        "margin": named,
        "least coverage": "{least coverage:.3f}",
        "where": where,
        "width over that of declared bounds, mean": lambda group: f"{group['width / declared'].mean():.2f}",
    }
    return grouped(found[found["asked"] == "mean"], "margin", columns, rule="---")


@section("codebooks", "faults")
def faults() -> str:
    """What wrong declarations cost in rows, beside those of the codebook."""
    found = output("declarations")
    heads = ("wrong declaration", "rows kept", "as in the codebook", "`schema.check` tells it")
    shown = [f"{{{name}{'' if place in (0, 3) else ':.1%'}}}" for place, name in enumerate(found)]
    return text(
        table(found, dict(zip(heads, shown, strict=True)), rule="---"),
        picture("Rows kept under each declaration", "declarations"),
    )


@section("planning", "planning")
def planning() -> str:
    """Largest errors of widths, powers and solutions by family, and times."""
    found = output("plan_accuracy")
    errors = judged(found)
    beyond = {name: int((errors[name].abs() > errors[f"{name} allowed"]).sum()) for name in ("width", "power", "met")}

    def largest(name: str) -> Column:
        def shown(group: pd.DataFrame) -> str:
            known = errors.loc[group.index, name].abs().dropna()
            return "" if known.empty else f"{known.max():.4f}"

        return shown

    def seconds(group: pd.DataFrame) -> str:
        most = group["seconds"].max()
        return f"{most:.0f}, with a progress bar" if group["family"].iloc[0] in SLOW else f"{most:.1f}"

    columns: dict[str, Column] = {
        "question": "{family}",
        "designs": "{cells}",
        "largest error of the width": largest("width"),
        "of the power": largest("power"),
        "distance from the target": largest("met"),
        "seconds of processor time, at most": seconds,
    }
    return text(
        f"{len(found)} designs with {int(found['replicates'].max()):,} replicates each "
        f"({int(found['replicates'].min()):,} of regressions by iterations and medians), by `python -m "
        "validation --only plan_accuracy`: the predicted median width over the one that `coverage_study` "
        "measures, less one; the predicted power less the measured one; and the width (of tests the power) that is "
        "measured at the solved budget or number of rows, over the target, less one.",
        grouped(found, "family", columns),
        f"Asked for: {WIDTH:g}, {POWER:g} and {MET:g}, besides three Monte Carlo errors of what is measured. "
        f"Beyond that: {beyond['width']} widths, {beyond['power']} powers, {beyond['met']} solutions.",
        picture(
            "Errors of predicted widths and powers, and distances of solutions from their targets", "plan_accuracy"
        ),
    )


@section("planning", "real_rows")
def real_rows() -> str:
    """Errors of planned widths on real rows, a row for each question, by what the plan was made from."""
    found = output("plan_real")
    pilots = {"all rows": "all rows", "few rows": f"{PILOT:,} rows", "release": f"a release of {PILOT:,} rows"}
    columns: dict[str, Column] = {"question": "{question}"} | {
        f"planned from {told}": (lambda group, pilot=pilot: f"{100 * group.set_index('pilot')['error'][pilot]:+.1f}%")
        for pilot, told in pilots.items()
    }
    return text(
        grouped(found, "question", columns),
        f"RAND health insurance experiment, n = {ROWS:,}, {PRICE}: the planned median width of the worst term over "
        f"the measured one, less one, by {int(found['replicates'].max()):,} replicates. "
        "`python -m validation --only plan_real`.",
    )

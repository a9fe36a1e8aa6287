"""Measured sections on choosing, quantiles, distribution functions and densities."""

from __future__ import annotations

import pandas as pd

from validation.common.pages import Column, grouped, output, picture, ranged, replicates, section, table, text
from validation.publish import speed

KEYS = ["population", "bounds", "method", "ends", "n", "price", "neighbors", "q"]


@section("selection", "selection")
def selection() -> str:
    """Errors of both mechanisms, theorem 6, and attacks on the sampler."""
    tests, lost, bounds, attacks = (output(f"selection_laws{one}") for one in ("", "_error", "_theorem", "_attack"))
    errors = {
        "candidates": "{candidates}",
        "other scores": "{scores}",
        "`PureDP`: permute-and-flip over exponential": "{least ratio:.3f}-{largest ratio:.4f}",
        "`ZCDP`, `GDP`: exponential over permute-and-flip, at most":
            "{exponential over permute-and-flip, Gaussian price:.4f}",
    }  # fmt: skip
    theorem = {
        "mechanism": "{mechanism}",
        "candidates": "{candidates}",
        "t": "{t:g}",
        "theorem 6": "{theorem 6:.2f}",
        "`accuracy`": "{accuracy(sharp):.2f}",
        "least that can hold": "{least possible:.2f}",
        "e^(-t)": "{exp(-t):.2g}",
        "worst tail of theorem 6": "{worst tail, theorem 6:.2g}",
        "of `accuracy`": "{worst tail, sharp:.2g}",
    }
    attacked = {
        "attacked": "{mechanism}",
        "noise": "{noise:g}",
        "exact": "{log ratio, exact:.3f}",
        "lower bound": "{lower bound:.3f}",
    }
    return text(
        "Expected error, exactly, over gaps of .02 to 40 noise scales (`python -m validation --only selection_laws`):",
        table(lost, errors),
        "The bound of lecture notes on what a choice may lack from the best score, 4 (ln d + t)/ε for scores that "
        "a row moves by one, at ε = 1; `accuracy`, and the least bound that can hold; and the exact probability of "
        "missing by more for the worst scores, which are one best candidate and all others just so far below:",
        table(bounds[bounds["t"] >= 3], theorem),
        picture("Noise against mechanism, errors, theorem 6, attacks", "selection_laws"),
        f"The sampler against exact probabilities: least chi-squared p-value of {len(tests)} vectors of scores, "
        f"{int(tests['draws'].max()):,} draws each, {tests['p-value'].min():.2g}. Attacks with neighbours that "
        f"change most, {int(attacks['draws'].max()):,} draws: lower bounds on ε where 1 is stated, by the share of "
        "the right noise.",
        table(attacks, attacked),
        f"A million rows ({speed.COMMAND}): `most_frequent` takes "
        f"{speed.value('most frequent number', 'numpy.bincount'):.0f} times as long as `numpy.bincount`, of labels "
        f"{speed.value('most frequent label', 'numpy.bincount'):.0f} times.",
    )


@section("quantiles", "quantiles")
def quantiles() -> str:
    """Errors, 99 quantiles for the price of one, coverage and width, the band."""
    error, cover = output("quantile_error"), output("quantile_coverage")
    timed = speed.ratios("descriptions")
    prices = dict.fromkeys(error["price"])

    def size(group: pd.DataFrame, method: str, price: str | None = None) -> str:
        some = group[(group["method"] == method) & group["price"].isin([price] if price else group["price"])]
        return f"{some['median'].iloc[0]:.2f}"

    medians: dict[str, Column] = {
        "column": "{population}",
        "bounds": "{bounds}",
        "n": "{n:,}",
        "sample's": lambda group: size(group, "sample quantile"),
        **{
            f"`{price}`: chosen / tree": (
                lambda group, price=price: f"{size(group, 'exponential', price)} / {size(group, 'tree', price)}"
            )
            for price in prices
        },
    }
    many = {"column": "{population}", "n": "{n:,}", "budget": "`{price}`"} | {
        one: f"{{{one}:.1f}}" for one in ("one tree", "99 trees", "99 choices")
    }
    last = cover.drop_duplicates(KEYS, keep="last").copy()
    quiet = last["width / oracle"].notna() & ~(last["sampling / noise sd"] < 1)
    last["any"] = last["width / oracle"].where(quiet)
    last["narrow"] = last["any"].where(last["leaf / oracle"] <= 0.05)
    covered = {
        "column": "{population}",
        "bounds": "{bounds}",
        "ends": "{ends}",
        "cells": "{cells}",
        "least coverage": "{least coverage:.4f}",
        "largest width, leaves at most 1/20 of the oracle's": "{most narrow:.3f}",
        "any leaves": "{most any:.2f}",
        "flagged": "{range flagged:.0%}",
    }
    band = {
        "column": "{population}",
        "n": "{n:,}",
        "budget": "`{price}`",
        "coverage": "{coverage:.4f}",
        "half width": "{half width:.4f}",
        "without privacy": "{DKW:.4f}",
    }
    return text(
        "Error of the median over the standard deviation of the sample median; of a discrete column, of its rank "
        "(`python -m validation --only quantile_error`):",
        grouped(error, ["population", "bounds", "n"], medians),
        picture("Error of private medians against the number of rows, and of 99 quantiles", "quantile_error"),
        "Error in rank, in rows, of the quantiles .01, .02, ..., .99 from one tree, and by 99 releases at 1/99 of "
        "the price each:",
        table(output("quantile_error_many"), many),
        f"Coverage of 95% intervals for quantiles from .01 to .99; 100 to 100,000 rows, four budgets, "
        f"{replicates(cover)} of each cell, flagged "
        "intervals included (`python -m validation --only quantile_coverage`). Mean widths over those of an oracle "
        "who knows the distribution and both variances: where the noise in the rank varies no more than sampling.",
        grouped(last, ["population", "bounds", "ends"], covered),
        picture("Coverage by population, and width over the oracle's", "quantile_coverage"),
        "The 95% band for the whole function (`python -m validation --only cdf_band`), its half width beside that "
        "of Dvoretzky, Kiefer and Wolfowitz without privacy:",
        table(output("cdf_band", ["population", "n"]), band),
        picture("Coverage and width of the band", "cdf_band"),
        f"A million rows ({speed.COMMAND}). Drawing exact noise takes the same time for any number of rows:",
        speed.times(timed[timed["work"].isin(["median", "three quantiles"])]),
    )


@section("quantiles", "split")
def split() -> str:
    """Errors of the choice and widths of the interval, by share of the price; the library's share in bold."""
    found = output("quantile_split")

    def cell(group: pd.DataFrame, share: float) -> str:
        one = group[group["share"] == share].iloc[0]
        shown = f"{one['error']:.3g}" + (f" ({one['half width']:.3g})" if share < 1 else "")
        return f"**{shown}**" if one["taken"] else shown

    columns: dict[str, Column] = {
        "neighbours": lambda group: group["neighbors"].iloc[0].replace("_", " "),
        "budget": "`{price}`",
        "n": "{n:,}",
        **{f"{one:g}": (lambda group, one=one: cell(group, one)) for one in sorted(found["share"].unique())},
    }
    return text(
        "Error of a chosen median over that of the sample median, by the share of the price that the choice has (the "
        "middle one of nine populations, bounds tight to a thousand times too wide), and in brackets the half width of "
        "the interval over that without privacy. Bold: what the library does "
        "(`python -m validation --only quantile_split`).",
        grouped(found, ["neighbors", "price", "n"], columns),
        picture("Error against width, by the share of the choice", "quantile_split"),
    )


@section("selection", "thresholds")
def thresholds() -> str:
    """Distances from which answers are right, what was measured there, and those of noisy counts."""
    columns = {
        "queries": "{queries:,}",
        "answers": "{answers}",
        "neighbours": "`{neighbors}`",
        "one answer is right from": "{clear from:,}",
        "wrong there": "{wrong there:.3f}",
        "all are right from": "{all clear from:,}",
        "any wrong there": "{any wrong there:.3f}",
        "noisy counts: one": "{counts clear from:,}",
        "noisy counts: all": "{counts all clear from:,}",
    }
    return text(
        "Distances in rows from which answers are right with 95% at `PureDP(1)`, and the share of runs in which "
        "they were wrong at that distance. Noisy counts: all k counts released with discrete Laplace noise of "
        "scale k/ε, since a row may meet every condition (`python -m validation --only threshold_error`):",
        table(output("threshold_error"), columns),
        picture("Share of wrong answers by distance from the threshold", "threshold_error"),
    )


@section("quantiles", "good-instances")
def good_instances() -> str:
    """Errors of smooth sensitivity over those of choices by rank; ranges; centres."""
    medians: dict[str, Column] = {
        "population": "{shape}",
        "budget": "`{price}`",
        "rows off, choice": lambda group: ranged(group["choice: rank"], ".1f"),
        "rows off, smooth": lambda group: ranged(group["smooth: rank"], ",.0f"),
        "error of the value, smooth over choice": "{range value, times:.2f}",
    }
    ranges = {"population": "{shape}", "n": "{n:,}"} | {
        head: f"{{{one}:.2f}}"
        for head, one in (("two choices",) * 2, ("one choice of the range", "one choice"), ("from a tree", "tree"))
    }
    names = ("smooth trimmed mean", "chosen median", "mean, found bounds", "rlm")
    centres = {"population": "{population}", "bounds": "{bounds}", "n": "{n:,}"} | {
        one: f"{{{one}:.2f}}" for one in names
    }
    return text(
        "Medians of 101, 1,001 and 10,001 rows within tight bounds and bounds a thousand times too wide: least and "
        "largest of the six (`python -m validation --only good_instances`). Smooth: the best of a grid of laws and "
        "constants for each cell, as if that choice were free.",
        grouped(output("good_instances"), ["shape", "price"], medians),
        picture("Error of noise scaled to smooth sensitivity over that of the choice", "good_instances"),
        "The range between the quartiles at `PureDP(1)`: root mean squared error over that of the sample's range.",
        table(output("good_instances_ranges"), ranges),
        "A centre at `PureDP(1)`: median absolute error over that of the 10% trimmed mean without privacy.",
        table(output("good_instances_centres"), centres),
    )


@section("density", "density")
def density() -> str:
    """Error of chosen bins, rates, and coverage."""
    coverage = output("density_error_coverage")
    compared = {
        "density": "{design}",
        "budget": "`{path}`",
        "n": "{n:,}",
        "best number of bins": "{best bins}",
        "chosen (median)": "{median bins}",
        "error of the best": "{error of the best:.3g}",
        "of the chosen over it": "{ratio:.2f} ({ratio error:.2f})",
        "over the best candidate's": "{ratio to the candidates:.2f}",
    }
    fitted = {
        "density": "{design}",
        "budget": "`{path}`",
        "without noise": "{without noise:.3f}",
        "best bins": "{best bins:.3f}",
        "chosen bins (Monte Carlo error)": "{chosen bins:.3f} ({its error:.3f})",
    }
    covered = {
        "bins": "{bins}",
        "density": "{design}",
        "cells": "{cells}",
        "intervals": "{total intervals:,}",
        "least coverage of a bin": "{least least coverage:.4f}",
        "mean coverage": "{range mean coverage:.4f}",
    }
    return text(
        "Expected integrated squared error of chosen bins over that of the best fixed number at the whole budget "
        "(Monte Carlo error), by `python -m validation --only density_error`:",
        table(output("density_error"), compared),
        "Slopes of log error on log n, from n = 1,000 to 1,000,000:",
        table(output("density_error_slopes"), fitted),
        f"Coverage of pointwise 95% intervals, {replicates(coverage)} of each cell:",
        grouped(output("density_error_coverage", ["bins", "design", "privacy", "n"]), ["bins", "design"], covered),
        picture("Error of chosen and of best bins against the number of rows", "density_error"),
    )

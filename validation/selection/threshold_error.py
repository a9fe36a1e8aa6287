"""Answers to thresholds: how often they are wrong by distance, beside a release of all counts at the same price."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

import dpinfer as dpi
from dpinfer.kernel.price import PricedStage
from dpinfer.kernel.run import noisy_answers
from dpinfer.kernel.sampling import SimulatedDraws
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.release.laws import ABOVE, BELOW
from dpinfer.selection.results import pair_tail
from validation.common.claims import Claim
from validation.common.outputs import Options, write_figure, write_table

PRICE = dpi.PureDP(1.0)
DESIGNS = [(k, c, relation) for k, c, relation in product((2, 10, 100, 1000), (1, 5), NEIGHBORS) if c <= k]
"""Queries, answers and relations. A row may meet all conditions: so all k counts together cost k times one."""

CURVES = (10, 100)
BETA = 0.05
CHANCE = 1e-6
"""Probability that a right rate is judged to be too high."""


def stage_of(k: int, answers: int, neighbors: str) -> PricedStage:
    """Price the comparison of k counts with a threshold of 0."""
    schema = dpi.Schema({f"q{place}": dpi.Boolean(missing=False, impossible=False) for place in range(k)})
    question = dpi.above_threshold(list(schema), threshold=0, answers=answers)
    return question.measurement(PRICE, schema=schema, neighbors=neighbors).stages[0]  # type: ignore[arg-type]


def distances(stage: PricedStage, k: int) -> tuple[float, float]:
    """Distances from which one answer, and all k, are right with 95% probability by the formula."""
    from dpinfer.selection.results import clear_distance  # noqa: PLC0415  (the results' own)

    return clear_distance(stage.law, stage.steps[0], BETA), clear_distance(stage.law, stage.steps[0], BETA / k)


def count_tail(least: int, scale: float) -> float:
    """Probability that discrete Laplace noise is at least a whole number above 0."""
    return float(np.exp(-least / scale) / (1 + np.exp(-1 / scale)))


def count_distance(scale: float, beta: float) -> int:
    """Distance from which a noisy count is on the right side with a probability of 1 - beta."""
    return max(int(np.ceil(-scale * np.log(beta * (1 + np.exp(-1 / scale))))), 1)


def wrong_first(stage: PricedStage, distance: int, draws: SimulatedDraws, runs: int) -> float:
    """Share of wrong answers to a first query that lies so far below its threshold."""
    sums = [-distance] + [0] * (stage.rows.entries - 1)
    return sum(noisy_answers(stage, sums, draws)[0] != BELOW for _ in range(runs)) / runs


def wrong_any(stage: PricedStage, distance: int, answers: int, draws: SimulatedDraws, runs: int) -> float:
    """Share of runs with a wrong answer, where the last queries, as many as are answered, are above."""
    k = stage.rows.entries
    sums = [-distance] * (k - answers) + [distance] * answers
    right = [BELOW] * (k - answers) + [ABOVE] * answers
    return sum(noisy_answers(stage, sums, draws) != right for _ in range(runs)) / runs


def table_of(arguments: Options) -> pd.DataFrame:
    """Distances by design, and the measured errors at them."""
    draws, rows = SimulatedDraws(np.random.default_rng(arguments.seed)), []
    for k, answers, relation in DESIGNS:
        stage = stage_of(k, answers, relation)
        one, joint = distances(stage, k)
        scale = k / PRICE.epsilon
        rows.append(
            [
                *(k, answers, relation, stage.law.shared, stage.law.scales[0], int(one)),
                wrong_first(stage, int(one), draws, arguments.replicates),
                int(joint),
                wrong_any(stage, int(joint), answers, draws, arguments.replicates),
                count_distance(scale, BETA),
                count_distance(scale, 1 - (1 - BETA) ** (1 / k)),
            ]
        )
    columns = ["queries", "answers", "neighbors", "threshold scale", "query scale", "clear from", "wrong there",
               "all clear from", "any wrong there", "counts clear from", "counts all clear from"]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def curves(arguments: Options) -> pd.DataFrame:
    """Error rate of an answer by distance: measured, by the formula, and of noisy counts."""
    draws, rows = SimulatedDraws(np.random.default_rng(arguments.seed + 1)), []
    for k in CURVES:
        stage = stage_of(k, 1, "add_remove")
        for distance in (1, 2, 4, 6, 8, 10, 15, 25, 50, 100, 200, 400):
            formula = pair_tail(distance, stage.law.shared, stage.law.scales[0])
            counts = count_tail(distance, k / PRICE.epsilon)
            rows.append([k, distance, wrong_first(stage, distance, draws, arguments.replicates), formula, counts])
    return pd.DataFrame(rows, columns=["queries", "distance", "measured", "formula", "noisy counts"])


def draw(found: pd.DataFrame, arguments: Options) -> None:
    """Error rates by distance for few and for many queries."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    for axes, (k, part) in zip(figure.subplots(1, len(CURVES), sharey=True), found.groupby("queries"), strict=True):
        axes.plot(part["distance"], part["noisy counts"], color="#ee6677", label="all counts with Laplace noise")
        axes.plot(part["distance"], part["formula"], color="#4477aa", label="above_threshold, formula")
        axes.plot(part["distance"], part["measured"], "o", color="#4477aa", ms=4, label="above_threshold, measured")
        axes.axhline(BETA, color="0.6", lw=0.8)
        axes.set(title=f"{k} queries, {PRICE}", xlabel="distance from the threshold, rows", xscale="log", yscale="log")
        axes.set_ylim(1e-3, 0.6)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("wrong answers")
    figure.axes[0].legend(frameon=False, fontsize="small", loc="lower left")
    write_figure(figure, "threshold_error", arguments)


def run(arguments: Options) -> list[Claim]:
    """Measure, write tables and the figure."""
    table, found = table_of(arguments), curves(arguments)
    notes = [
        f"{PRICE}; a row may meet all conditions. At the distances of the formula at most {BETA:.0%} may be wrong. "
        "Any wrong: the last queries, as many as are answered, are above, all others below. Counts: discrete Laplace "
        "noise of scale k / epsilon on each, compared with the threshold, exactly."
    ]
    write_table(table, "threshold_error", arguments, notes)
    write_table(found, "threshold_error_curve", arguments, ["One answer, add_remove."])
    draw(found, arguments)
    runs, design = arguments.replicates, f"2-1,000 queries, 1 or 5 answers, both relations, {PRICE}"
    limit = float(stats.binom.isf(CHANCE, runs, BETA)) / runs
    error = f"{np.sqrt(BETA * (1 - BETA) / runs):.4f}"
    one, joint = float(table["wrong there"].max()), float(table["any wrong there"].max())
    apart = (found["measured"] - found["formula"]).abs() / np.sqrt(found["formula"] * (1 - found["formula"]) / runs)
    noisy = found[found["formula"] * runs > 20]
    many = table[(table["queries"] == 1000) & (table["answers"] == 1)]
    gain = float((many["counts all clear from"] / many["all clear from"]).min())
    far = float(apart[noisy.index].max())
    known = {"cells": len(table), "replicates": runs}
    return [
        Claim("largest share of wrong answers at the distance from which 95% are said to be right", design,
              f"{one:.4f}", one <= limit, error=error, **known),
        Claim("largest share of runs with any wrong answer at the joint distance", design, f"{joint:.4f}",
              joint <= limit, error=error, **known),
        Claim("largest distance between measured and exact shares of wrong answers, in standard errors",
              "10 and 100 queries", f"{far:.1f}", far < 6, cells=len(noisy), replicates=runs),
        Claim("distance from which all of 1,000 answers are right: noisy counts over thresholds",
              f"one answer, {PRICE}", f"{gain:.0f}", gain > 10),
    ]  # fmt: skip

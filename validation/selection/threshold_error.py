"""Answers to thresholds: how often they are wrong by distance, beside a release of all counts at the same price."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.kernel.price import PricedStage
from dpinfer.kernel.run import noisy_answers
from dpinfer.kernel.sampling import SimulatedDraws
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.release.laws import ABOVE, BELOW
from dpinfer.selection.results import pair_tail
from validation.common.outputs import Options
from validation.common.rules import Claim, Rule
from validation.common.study import Drawn, Study

PRICE = dpi.PureDP(1.0)
DESIGNS = [(k, c, relation) for k, c, relation in product((2, 10, 100, 1000), (1, 5), NEIGHBORS) if c <= k]
"""Queries, answers and relations. A row may meet all conditions: so all k counts together cost k times one."""

CURVES = (10, 100)
BETA = 0.05


@cache
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


def draw(cell: tuple[int, int, str], rng: np.random.Generator, runs: int) -> Drawn:
    """Whether a first query so far below its threshold is answered wrongly, and whether any of all is."""
    k, answers, _ = cell
    stage, draws = stage_of(*cell), SimulatedDraws(rng)
    one, joint = (int(distance) for distance in distances(stage, k))
    alone = [-one] + [0] * (k - 1)
    sums = [-joint] * (k - answers) + [joint] * answers  # the last queries, as many as are answered, are above
    right = [BELOW] * (k - answers) + [ABOVE] * answers
    return {"wrong there": np.array([noisy_answers(stage, alone, draws)[0] != BELOW for _ in range(runs)]),
            "any wrong there": np.array([noisy_answers(stage, sums, draws) != right for _ in range(runs)])}  # fmt: skip


def summary(cell: tuple[int, int, str], drawn: Drawn) -> dict:
    """Distances, shares of wrong answers at them, and the distances of noisy counts."""
    k, stage = cell[0], stage_of(*cell)
    (one, joint), scale = distances(stage, k), k / PRICE.epsilon
    return {
        "threshold scale": stage.law.shared, "query scale": stage.law.scales[0], "clear from": int(one),
        "wrong there": drawn["wrong there"].mean(), "all clear from": int(joint),
        "any wrong there": drawn["any wrong there"].mean(), "counts clear from": count_distance(scale, BETA),
        "counts all clear from": count_distance(scale, 1 - (1 - BETA) ** (1 / k)),
    }  # fmt: skip


def gain(table: pd.DataFrame, _: Options) -> list[Claim]:
    """State what noisy counts ask for in place of thresholds."""
    many = table[(table["queries"] == 1000) & (table["answers"] == 1)]
    times = float((many["counts all clear from"] / many["all clear from"]).min())
    what = "distance from which all of 1,000 answers are right: noisy counts over thresholds"
    return [Claim(what, f"one answer, {PRICE}", f"{times:.0f}", times > 10)] if len(many) else []


def draw_curve(cell: tuple[int, int], rng: np.random.Generator, runs: int) -> Drawn:
    """Whether a first query so far below its threshold is answered wrongly."""
    k, distance = cell
    stage, draws = stage_of(k, 1, "add_remove"), SimulatedDraws(rng)
    sums = [-distance] + [0] * (k - 1)
    return {"wrong": np.array([noisy_answers(stage, sums, draws)[0] != BELOW for _ in range(runs)])}


def curve(cell: tuple[int, int], drawn: Drawn) -> dict:
    """The share of wrong answers: measured, by the formula, and of noisy counts."""
    (k, distance), count = cell, len(drawn["wrong"])
    stage = stage_of(k, 1, "add_remove")
    formula = pair_tail(distance, stage.law.shared, stage.law.scales[0])
    apart = abs(drawn["wrong"].mean() - formula) / np.sqrt(formula * (1 - formula) / count)
    return {"measured": drawn["wrong"].mean(), "formula": formula,
            "noisy counts": count_tail(distance, k / PRICE.epsilon),
            "apart": apart if formula * count > 20 else np.nan}  # fmt: skip


def apart(table: pd.DataFrame, _: Options) -> list[Claim]:
    """State how far measured and exact shares are apart."""
    far = float(table["apart"].max())
    return [Claim("largest distance between measured and exact shares of wrong answers, in standard errors",
                  "10 and 100 queries", f"{far:.1f}", not far >= 6, cells=int(table["apart"].notna().sum()),
                  replicates=int(table["replicates"].max()))]  # fmt: skip


TOLD = f"2-1,000 queries, 1 or 5 answers, both relations, {PRICE}"
STUDY = (
    Study(
        "threshold_error", DESIGNS, draw, summary,
        (
            Rule("largest share of wrong answers at the distance from which 95% are said to be right", "wrong there",
                 "share",
                 BETA, design=TOLD),
            Rule("largest share of runs with any wrong answer at the joint distance", "any wrong there", "share", BETA,
                 design=TOLD),
        ),
        axes=lambda cell: dict(zip(("queries", "answers", "neighbors"), cell, strict=True)), also=gain,
        notes=(f"{PRICE}; a row may meet all conditions. At the distances of the formula at most {BETA:.0%} may be "
               f"wrong. "
               "Any wrong: the last queries, as many as are answered, are above, all others below. Counts: discrete "
               "Laplace noise of scale k / epsilon on each, compared with the threshold, exactly.",),
    ),
    Study(
        "threshold_error_curve", [*product(CURVES, (1, 2, 4, 6, 8, 10, 15, 25, 50, 100, 200, 400))], draw_curve, curve,
        axes=lambda cell: dict(zip(("queries", "distance"), cell, strict=True)), also=apart, quick=8,
        notes=("One answer, add_remove.",),
    ),
)  # fmt: skip

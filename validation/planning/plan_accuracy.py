"""Predicted median width and power, solved prices and numbers of rows, beside what studies measure."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import dpinfer as dpi
from validation.common.outputs import Options, scatter
from validation.common.rules import Claim
from validation.common.study import Drawn, Study
from validation.planning.plan_designs import DESIGNS, PlanDesign, draw, schema

WIDTH, POWER, MET, SECONDS = 0.03, 0.02, 0.05, 2.0
"""What is asked: of the predicted width, of power, of the target at the solved price or n, and of time."""

ALLOWANCE = 3.0
"""Monte Carlo standard errors of what is measured that are allowed for besides."""

SLOW = ("least squares, iterations", "logit, iterations", "median")
"""Families whose data sets are fitted one by one: a progress bar, and no limit of time."""

ABOVE, CLOSER, LIKELY = 1.15, 0.8, 0.8
"""Target of a solved price, over sampling alone; of solved rows, over the predicted width; power of a test."""

SLOW_SHARE = 2
"""Those families have so many times fewer replicates, and claims of their own."""


def one_of_each() -> list[PlanDesign]:
    """Return a design of each family with a closed form."""
    return list({design.family: design for design in reversed(DESIGNS) if design.family not in SLOW}.values())


CLOSED = "least squares from cross-products, means, shares, chi-squared tests"
ONE_BY_ONE = "regressions by iterations, medians"


@cache
def solution(design: PlanDesign) -> tuple[dict[str, Any], Any]:
    """Plan a design twice: what it gives, and the answer for another target."""
    effect = {} if np.isnan(design.effect) else {"power": {design.term: (design.effect, LIKELY)}}
    predicted = planned(design, n=design.n, privacy=design.privacy, **effect)
    term, target = design.term or "test", {"power": LIKELY}
    row: dict[str, Any] = {"predicted width": width_of(predicted, term), "target": LIKELY,
                           "predicted power": float(predicted.power[term]) if effect or not design.term
                           else np.nan}  # fmt: skip
    if design.term:
        alone = float(predicted.frame.loc[term, "without noise"])
        row["target"] = ABOVE * alone if design.solved == "privacy" else CLOSER * row["predicted width"]
        target = {"width": {term: row["target"]}}
    given = {"n": design.n} if design.solved == "privacy" else {"privacy": design.privacy}
    unit = {"unit": type(design.privacy)} if design.solved == "privacy" else {}
    before = time.process_time()
    answer = planned(design, **given, **target, **unit)
    return {**row, "seconds": time.process_time() - before}, answer


def planned(design: PlanDesign, **asked: Any) -> dpi.studies.Plan:
    """Plan a design."""
    return dpi.plan(design.asked, schema=schema(), neighbors=design.neighbors, pilot=draw, progress=False, **asked)


def width_of(answer: dpi.studies.Plan, term: str) -> float:
    """The width of a term; of a test there is none."""
    return float(answer.width.get(term, np.nan))


def draw_plan(design: PlanDesign, rng: np.random.Generator, replicates: int) -> Drawn:
    """Widths and p-values (R, 2) at what is given, and at the answer; slow families have fewer."""
    count, (_, answer) = replicates // (SLOW_SHARE if design.family in SLOW else 1), solution(design)
    found = {}
    for name, n, price in (("known", design.n, design.privacy), ("reached", answer.n, answer.privacy)):
        values = np.full((replicates, 2), np.nan)
        values[:count] = measured(design, n, price, count, int(rng.integers(2**31)))
        found[name] = values
    return found


def measured(design: PlanDesign, n: int, price: Any, replicates: int, seed: int) -> np.ndarray:
    """Widths and p-values of zero (R, 2); a chi-squared test has no width."""
    if not design.term:
        rng, found = np.random.default_rng(seed), []
        for _ in range(replicates):
            data = dpi.PublicData(pd.DataFrame(draw(rng, n)), schema(), rng=rng, neighbors=design.neighbors)
            found.append((np.nan, float(design.asked.bind(data).fit(price).pvalue)))
        return np.array(found)
    frame = dpi.coverage_study(
        draw, design.asked, schema=schema(), truth={}, n=n, privacy=price, neighbors=design.neighbors,
        replicates=replicates, seed=seed, progress=False,
    ).frame  # fmt: skip
    own = frame[frame["term"] == design.term]
    return np.column_stack([(own["upper"] - own["lower"]).fillna(np.inf), own["pvalue"].fillna(1.0)])


def summary(design: PlanDesign, drawn: Drawn) -> dict[str, Any]:
    """What was predicted, and what is measured."""
    (told, answer), row = solution(design), {}
    for name, values in drawn.items():
        done = values[~np.isnan(values[:, 1])]
        low, middle, high = np.quantile(done[:, 0], [0.25, 0.5, 0.75]) if design.term else [np.nan] * 3
        spread = 1.2533 * (high - low) / 1.349 / np.sqrt(len(done))
        row[name] = (float(middle), float(spread), float((done[:, 1] <= 0.05).mean()), len(done))
    (width, error, power, count), (at, off, likely, _) = row["known"], row["reached"]
    return {
        "measured width": width, "width error": error, "measured power": power, "of each": count, **told,
        "solved": design.solved, "answer": f"{answer.n:,}" if design.solved == "n" else str(answer.privacy),
        "reached": at if design.term else likely, "reached error": off if design.term else power_error(likely, count),
    }  # fmt: skip


def power_error(power: float, replicates: int) -> float:
    """Monte Carlo error of a share."""
    return float(np.sqrt(max(power * (1 - power), 1 / replicates) / replicates))


def judged(table: pd.DataFrame) -> pd.DataFrame:
    """Relative error of widths, error of powers, relative error at the solution, and what is allowed of each."""
    errors = [
        power_error(power, count)
        for power, count in zip(table["measured power"], table.get("of each", table["replicates"]), strict=True)
    ]
    return pd.DataFrame(
        {
            "width": table["predicted width"] / table["measured width"] - 1,
            "width allowed": WIDTH + ALLOWANCE * table["width error"] / table["measured width"],
            "power": table["predicted power"] - table["measured power"],
            "power allowed": POWER + ALLOWANCE * np.array(errors),
            "met": table["reached"] / table["target"] - 1,
            "met allowed": MET + ALLOWANCE * table["reached error"] / table["target"],
        }
    )


def claims(table: pd.DataFrame, _: Options) -> list[Claim]:
    """Judge widths, powers, solutions and times."""
    slow = table["family"].isin(SLOW)
    named = table["family"] + table["n"].map(", n = {:,}, ".format) + table["privacy"] + ", " + table["neighbors"]
    out = []
    for part, what in ((table[~slow], CLOSED), (table[slow], ONE_BY_ONE)):
        out += _held(part, named, what) if len(part) else []
    quick = table[~slow]["seconds"]
    return [*out, Claim("largest time of a plan with a closed form, seconds", "budget or n", f"{quick.max():.2f}",
                        quick.max() <= SECONDS, kind="time", threshold=f"at most {SECONDS:g}", cells=len(quick),
                        failed=int((quick > SECONDS).sum()))]  # fmt: skip


def _held(table: pd.DataFrame, named: pd.Series, what_of: str) -> list[Claim]:
    """Judge designs that have as many replicates each."""
    found = judged(table)
    replicates = table["of each"].max()
    told = {
        "width": ("largest error of a predicted median width, relative", WIDTH),
        "power": ("largest error of a predicted power", POWER),
        "met": ("largest distance of what is reached at a solved budget or n from the target, relative", MET),
    }
    out = []
    for name, (what, asked) in told.items():
        away = found[name].abs().dropna()
        most = found.loc[away.index, f"{name} allowed"]
        worst = int(away.idxmax())
        error = (found.loc[worst, f"{name} allowed"] - asked) / ALLOWANCE
        claim = Claim(what, what_of, f"{away[worst]:.4f}", (away <= most).all(), error=f"{error:.4f}",
                      threshold=f"at most {asked:g}, and {ALLOWANCE:g} Monte Carlo errors", worst=named[worst],
                      cells=len(away), failed=int((away > most).sum()), replicates=int(replicates))  # fmt: skip
        out.append(claim)
    return out


STUDY = Study(
    "plan_accuracy", DESIGNS, draw_plan, summary, most=1000, also=claims,
    axes=lambda design: {"family": design.family, "n": design.n, "privacy": str(design.privacy),
                         "neighbors": design.neighbors},
    quick=lambda design: design in one_of_each(),
    figure=lambda table: scatter("family", {"width": 0.0, "power": 0.0, "met": 0.0}, "solved")(
        pd.concat([table[["family", "solved"]], judged(table)], axis=1)),
    notes=("Widths are medians, of 95% intervals. Power is of the two-sided test of zero at the true value, left out "
           "where every such test rejects; of chi-squared tests that of the test. The target of a solved budget is a "
           "width 1.15 times that of sampling alone, of solved rows .8 times the predicted one, of a test a power of "
           f".8. Seconds are of processor time. {SLOW[0]}, {SLOW[1]} and {SLOW[2]}: half of the replicates.",),
)  # fmt: skip

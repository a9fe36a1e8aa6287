"""Sixty designs: predicted median width and power, solved prices and numbers of rows, beside what studies measure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import dpinfer as dpi
from validation.common.cells import measured
from validation.common.claims import Claim
from validation.common.outputs import Options, write_figure, write_table
from validation.planning.plan_designs import DESIGNS, PlanDesign, draw, schema

WIDTH, POWER, MET, SECONDS = 0.03, 0.02, 0.05, 2.0
"""What is asked: of the predicted width, of power, of the target at the solved price or n, and of time."""

ALLOWANCE = 3.0
"""Monte Carlo standard errors of what is measured that are allowed for besides."""

SLOW = ("least squares, rounds", "logit, rounds", "median")
"""Families whose data sets are fitted one by one: a progress bar, and no limit of time."""

ABOVE, CLOSER, LIKELY = 1.15, 0.8, 0.8
"""Target of a solved price, over sampling alone; of solved rows, over the predicted width; power of a test."""

SLOW_SHARE = 2
"""Those families have so many times fewer replicates, and claims of their own."""

ENOUGH = 100
"""Replicates from which all designs are studied; fewer study one of each family that is not slow."""

CLOSED = "least squares from cross-products, means, shares, chi-squared tests"
ONE_BY_ONE = "regressions by rounds, medians"


def run(arguments: Options) -> list[Claim]:
    """Predict, measure, compare."""
    designs = DESIGNS if arguments.replicates >= ENOUGH else one_of_each()
    table = measured("plan_accuracy", designs, compared, arguments)
    write_table(table, "plan_accuracy", arguments, notes())
    write_figure(figure(table), "plan_accuracy", arguments)
    return claims(table, designs)


def one_of_each() -> list[PlanDesign]:
    """Return a design of each family with a closed form."""
    first = {design.family: design for design in reversed(DESIGNS) if design.family not in SLOW}
    return list(first.values())


def compared(design: PlanDesign, place: int, replicates: int, seed: int) -> dict[str, Any]:
    """Plan one design twice, for what it gives and for another target, and measure both."""
    if design.family in SLOW:
        replicates //= SLOW_SHARE
    effect = {} if np.isnan(design.effect) else {"power": {design.term: (design.effect, LIKELY)}}
    predicted = planned(design, n=design.n, privacy=design.privacy, **effect)
    known = study(design, design.n, design.privacy, replicates, seed + place)
    row: dict[str, Any] = {"family": design.family, "n": design.n, "privacy": str(design.privacy),
                           "neighbors": design.neighbors, "replicates": replicates}  # fmt: skip
    term = design.term or "test"
    row |= {
        "predicted width": width_of(predicted, term),
        "measured width": known["width"],
        "width error": known["error"],
        "predicted power": float(predicted.power[term]) if effect or not design.term else np.nan,
        "measured power": known["power"],
    }
    target: dict[str, Any] = {"power": LIKELY}
    if design.term:
        alone = float(predicted.frame.loc[term, "without noise"])
        aim = ABOVE * alone if design.solved == "privacy" else CLOSER * row["predicted width"]
        target = {"width": {term: aim}}
    given = {"n": design.n} if design.solved == "privacy" else {"privacy": design.privacy}
    unit = {"unit": type(design.privacy)} if design.solved == "privacy" else {}
    before = time.process_time()
    answer = planned(design, **given, **target, **unit)
    row["seconds"] = time.process_time() - before
    reached = study(design, answer.n, answer.privacy, replicates, seed + place + len(DESIGNS))
    row |= {
        "solved": design.solved,
        "target": aim if design.term else LIKELY,
        "answer": f"{answer.n:,}" if design.solved == "n" else str(answer.privacy),
        "reached": reached["width"] if design.term else reached["power"],
        "reached error": reached["error"] if design.term else power_error(reached["power"], replicates),
    }
    return row


def planned(design: PlanDesign, **asked: Any) -> dpi.studies.Plan:
    """Plan a design."""
    return dpi.plan(design.asked, schema=schema(), neighbors=design.neighbors, pilot=draw, progress=False, **asked)


def width_of(answer: dpi.studies.Plan, term: str) -> float:
    """The width of a term; of a test there is none."""
    return float(answer.width.get(term, np.nan))


def study(design: PlanDesign, n: int, price: Any, replicates: int, seed: int) -> dict[str, float]:
    """Median width with its Monte Carlo error, and share of tests of zero that reject."""
    if not design.term:
        pvalues = tests(design, n, price, replicates, seed)
        return {"width": np.nan, "error": np.nan, "power": float(np.mean(pvalues <= 0.05))}
    found = dpi.coverage_study(
        draw, design.asked, schema=schema(), truth={}, n=n, privacy=price, neighbors=design.neighbors,
        replicates=replicates, seed=seed, progress=False,
    ).frame  # fmt: skip
    own = found[found["term"] == design.term]
    widths = (own["upper"] - own["lower"]).fillna(np.inf).to_numpy()
    low, middle, high = np.quantile(widths, [0.25, 0.5, 0.75])
    spread = 1.2533 * (high - low) / 1.349 / np.sqrt(len(widths))
    return {"width": float(middle), "error": float(spread), "power": float((own["pvalue"] <= 0.05).mean())}


def tests(design: PlanDesign, n: int, price: Any, replicates: int, seed: int) -> np.ndarray:
    """P-values of a test, from rows."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(replicates):
        data = dpi.PublicData(pd.DataFrame(draw(rng, n)), schema(), rng=rng, neighbors=design.neighbors)
        found.append(float(design.asked.bind(data).fit(price).pvalue))
    return np.array(found)


def power_error(power: float, replicates: int) -> float:
    """Monte Carlo error of a share."""
    return float(np.sqrt(max(power * (1 - power), 1 / replicates) / replicates))


def judged(table: pd.DataFrame) -> pd.DataFrame:
    """Relative error of widths, error of powers, relative error at the solution, and what is allowed of each."""
    errors = [
        power_error(power, count) for power, count in zip(table["measured power"], table["replicates"], strict=True)
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


def claims(table: pd.DataFrame, designs: Sequence[PlanDesign]) -> list[Claim]:
    """Judge widths, powers, solutions and times."""
    named = pd.Series([design.name for design in designs], index=table.index)
    slow = table["family"].isin(SLOW)
    out = [*_held(table[~slow], named, CLOSED), *(_held(table[slow], named, ONE_BY_ONE) if slow.any() else [])]
    quick = table[~slow]["seconds"]
    timed = Claim("largest time of a plan with a closed form, seconds", "price or n solved", f"{quick.max():.2f}",
                  quick.max() <= SECONDS, kind="time", threshold=f"at most {SECONDS:g}", cells=len(quick),
                  failed=int((quick > SECONDS).sum()))  # fmt: skip
    return [*out, timed]


def _held(table: pd.DataFrame, named: pd.Series, what_of: str) -> list[Claim]:
    """Judge designs that have as many replicates each."""
    found = judged(table)
    (replicates,) = table["replicates"].unique()
    told = {
        "width": ("largest error of a predicted median width, relative", WIDTH),
        "power": ("largest error of a predicted power", POWER),
        "met": ("largest distance of what is reached at a solved price or n from the target, relative", MET),
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


def notes() -> list[str]:
    """Say what columns are."""
    return [
        "Widths are medians, of 95% intervals. Power is of the two-sided test of zero at the true value, left out "
        "where every such test rejects; of chi-squared tests that of the test. The target of a solved price is a width "
        "1.15 times that of sampling alone, of solved rows .8 times the predicted one, of a test a power of .8. "
        f"Seconds are of processor time. {SLOW[0]}, {SLOW[1]} and {SLOW[2]}: half of the replicates.",
    ]


def figure(table: pd.DataFrame) -> Figure:
    """Errors of widths, powers and solutions, by family."""
    found = judged(table)
    drawn = Figure(figsize=(11, 3.6), layout="constrained")
    limits = {"width": WIDTH, "power": POWER, "met": MET}
    titles = {"width": "predicted over measured width - 1", "power": "predicted - measured power",
              "met": "reached over target - 1"}  # fmt: skip
    families = list(dict.fromkeys(table["family"]))
    for ax, (name, limit) in zip(drawn.subplots(1, 3, sharey=True), limits.items(), strict=True):
        places = table["family"].map(families.index)
        ax.axvspan(-limit, limit, color="0.93")
        ax.plot(found[name], places, "o", ms=4)
        ax.axvline(0, color="grey", lw=0.7)
        ax.set(title=titles[name], yticks=range(len(families)), yticklabels=families)
        ax.title.set_fontsize(9)
        ax.invert_yaxis()
        ax.spines[["top", "right"]].set_visible(False)
    return drawn

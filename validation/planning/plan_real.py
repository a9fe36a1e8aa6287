"""Plans on real rows, the RAND health insurance experiment: from all rows, from few, and from a pilot release."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm

import dpinfer as dpi
from validation.common.cells import measured
from validation.common.claims import Claim
from validation.common.outputs import Options, write_table
from validation.planning.plan_accuracy import ALLOWANCE, WIDTH

ROWS, PILOT, PRICE = 6_000, 1_500, dpi.ZCDP(0.2)
"""Rows planned for; rows of a small pilot, and of a pilot release; the price."""

QUESTIONS: dict[str, Any] = {
    "mean of visits by health": dpi.mean("mdvis", by="hlthg"),
    "visits, cross-products": dpi.ols("mdvis ~ lncoins + disea", method="gram"),
    "visits, rounds": dpi.ols("mdvis ~ lncoins + disea"),
    "share in fair health": dpi.proportion("hlthf", by="idp"),
    "individual deductible, logit": dpi.logit("idp ~ lncoins + disea"),
    "visits, Poisson": dpi.poisson("mdvis ~ lncoins + disea"),
}
PILOTS = ("all rows", "few rows", "release")
CELLS = [(question, pilot) for question in QUESTIONS for pilot in PILOTS]

ENOUGH = 100
"""Replicates from which all questions are asked; fewer ask those with closed forms."""

QUICK = ("mean of visits by health", "visits, cross-products", "share in fair health")


@cache
def population() -> pd.DataFrame:
    """Visits to doctors, coinsurance, diseases and health (20,190 rows)."""
    rows = sm.datasets.randhie.load_pandas().data[["mdvis", "lncoins", "disea", "idp", "hlthg", "hlthf"]]
    return rows.astype({"idp": bool, "hlthg": bool, "hlthf": bool})


def schema() -> dpi.Schema:
    """Bounds that a codebook could state."""
    return dpi.Schema(
        mdvis=dpi.Integer(0, 80), lncoins=dpi.Real(0, 5), disea=dpi.Real(0, 60),
        idp=dpi.Boolean(), hlthg=dpi.Boolean(), hlthf=dpi.Boolean(),
    )  # fmt: skip


def draw(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Draw rows with replacement."""
    rows = population()
    return rows.iloc[rng.integers(0, len(rows), n)].reset_index(drop=True)


@cache
def widths(name: str, replicates: int, seed: int) -> tuple[pd.Series, pd.Series]:
    """Median widths by term, and their Monte Carlo errors."""
    found = dpi.coverage_study(
        draw, QUESTIONS[name], schema=schema(), truth={}, n=ROWS, privacy=PRICE, replicates=replicates, seed=seed,
        progress=False,
    ).frame  # fmt: skip
    by_term = (found["upper"] - found["lower"]).fillna(np.inf).groupby(found["term"], sort=False)
    low, middle, high = (by_term.quantile(one) for one in (0.25, 0.5, 0.75))
    return middle, 1.2533 * (high - low) / 1.349 / np.sqrt(replicates)


def measure(cell: tuple[str, str], place: int, replicates: int, seed: int) -> dict[str, Any]:
    """Plan from a pilot, and measure the widths that all rows give."""
    name, pilot = cell
    question = QUESTIONS[name]
    known = population() if pilot == "all rows" else population().sample(PILOT, random_state=seed, ignore_index=True)
    if pilot == "release":
        rows = dpi.PublicData(known, schema(), rng=np.random.default_rng(seed + place))
        known = question.bind(rows).fit(PRICE).release
    answer = dpi.plan(question, schema=schema(), n=ROWS, privacy=PRICE, pilot=known, progress=False)
    middle, spread = widths(name, replicates, seed)
    away = pd.Series(answer.width)[middle.index] / middle - 1
    worst = str((away.abs() - ALLOWANCE * spread / middle).idxmax())
    return {
        "question": name,
        "pilot": pilot,
        "terms": len(middle),
        "worst term": worst,
        "planned width": float(answer.width[worst]),
        "measured width": float(middle[worst]),
        "error": float(away[worst]),
        "Monte Carlo error": float(spread[worst] / middle[worst]),
        "replicates": replicates,
    }


def run(arguments: Options) -> list[Claim]:
    """Plan and measure, and write the table."""
    cells = [one for one in CELLS if arguments.replicates >= ENOUGH or one[0] in QUICK]
    table = measured("plan_real", cells, measure, arguments)
    notes = [
        f"n = {ROWS:,}, {PRICE}. Pilots: all {len(population()):,} rows, {PILOT:,} of them, or a release of these at "
        "the same price. Errors are relative, of the median width, and of the worst term."
    ]
    write_table(table, "plan_real", arguments, notes)
    return claims(table)


def claims(table: pd.DataFrame) -> list[Claim]:
    """Judge plans from all rows; those from a small pilot carry its sampling error, and are shown."""
    known = table[table["pilot"] == "all rows"]
    above = known["error"].abs() - ALLOWANCE * known["Monte Carlo error"]
    worst = known.loc[above.idxmax()]
    return [
        Claim(
            "largest error of a planned median width on real rows, relative",
            "RAND health insurance experiment",
            f"{abs(worst['error']):.4f}",
            (above <= WIDTH).all(),
            error=f"{worst['Monte Carlo error']:.4f}",
            threshold=f"at most {WIDTH:g}, and {ALLOWANCE:g} Monte Carlo errors",
            worst=str(worst["question"]),
            cells=len(known),
            failed=int((above > WIDTH).sum()),
            replicates=int(known["replicates"].iloc[0]),
        )
    ]

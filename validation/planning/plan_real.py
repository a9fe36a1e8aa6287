"""Plans on real rows, the RAND health insurance experiment: from all rows, from few, and from a pilot release."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm

import dpinfer as dpi
from validation.common.outputs import Options
from validation.common.rules import SEED, Claim
from validation.common.study import Drawn, Study
from validation.planning.plan_accuracy import ALLOWANCE, WIDTH

ROWS, PILOT, PRICE = 6_000, 1_500, dpi.ZCDP(0.2)
"""Rows planned for; rows of a small pilot, and of a pilot release; the price."""

QUESTIONS: dict[str, Any] = {
    "mean of visits by health": dpi.mean("mdvis", by="hlthg"),
    "visits, cross-products": dpi.ols("mdvis ~ lncoins + disea", method="gram"),
    "visits, iterations": dpi.ols("mdvis ~ lncoins + disea"),
    "share in fair health": dpi.proportion("hlthf", by="idp"),
    "individual deductible, logit": dpi.logit("idp ~ lncoins + disea"),
    "visits, Poisson": dpi.poisson("mdvis ~ lncoins + disea"),
}
PILOTS = ("all rows", "few rows", "release")

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
def planned(name: str, pilot: str) -> pd.Series:
    """Plan from a pilot: widths by term."""
    question = QUESTIONS[name]
    known = population() if pilot == "all rows" else population().sample(PILOT, random_state=SEED, ignore_index=True)
    if pilot == "release":
        known = question.bind(dpi.PublicData(known, schema(), rng=np.random.default_rng(SEED))).fit(PRICE).release
    return pd.Series(dpi.plan(question, schema=schema(), n=ROWS, privacy=PRICE, pilot=known, progress=False).width)


def draw_widths(name: str, rng: np.random.Generator, replicates: int) -> Drawn:
    """Widths of every term."""
    found = dpi.coverage_study(
        draw, QUESTIONS[name], schema=schema(), truth={}, n=ROWS, privacy=PRICE, replicates=replicates,
        seed=int(rng.integers(2**31)), progress=False,
    ).frame  # fmt: skip
    width = (found["upper"] - found["lower"]).fillna(np.inf)
    return {str(term): one.to_numpy() for term, one in width.groupby(found["term"], sort=False)}


def summary(name: str, drawn: Drawn) -> list[dict[str, Any]]:
    """A row for each pilot: the term whose width is furthest off, beyond Monte Carlo error."""
    low, middle, high = pd.DataFrame(drawn).quantile([0.25, 0.5, 0.75]).to_numpy()
    spread, rows = 1.2533 * (high - low) / 1.349 / np.sqrt(len(next(iter(drawn.values())))), []
    for pilot in PILOTS:
        width = planned(name, pilot)[list(drawn)].to_numpy()
        away = width / middle - 1
        worst = int((np.abs(away) - ALLOWANCE * spread / middle).argmax())
        rows.append({"pilot": pilot, "terms": len(middle), "worst term": list(drawn)[worst],
                     "planned width": width[worst],
                     "measured width": middle[worst], "error": away[worst],
                     "Monte Carlo error": spread[worst] / middle[worst]})  # fmt: skip
    return rows


def claims(table: pd.DataFrame, _: Options) -> list[Claim]:
    """Judge plans from all rows; those from a small pilot carry its sampling error, and are shown."""
    known = table[table["pilot"] == "all rows"]
    above = known["error"].abs() - ALLOWANCE * known["Monte Carlo error"]
    worst = known.loc[above.idxmax()]
    return [Claim("largest error of a planned median width on real rows, relative", "RAND health insurance experiment",
                  f"{abs(worst['error']):.4f}", (above <= WIDTH).all(), error=f"{worst['Monte Carlo error']:.4f}",
                  threshold=f"at most {WIDTH:g}, and {ALLOWANCE:g} Monte Carlo errors", worst=str(worst["question"]),
                  cells=len(known), failed=int((above > WIDTH).sum()),
                  replicates=int(known["replicates"].iloc[0]))]  # fmt: skip


STUDY = Study(
    "plan_real", [*QUESTIONS], draw_widths, summary, by=("pilot",), most=400, also=claims,
    axes=lambda name: {"question": name},
    quick=lambda name: name in QUICK,
    notes=(f"n = {ROWS:,}, {PRICE}. Pilots: all rows, {PILOT:,} of them, or a release of these at the same budget. "
           f"Errors are "
           "relative, of the median width, and of the worst term.",),
)  # fmt: skip

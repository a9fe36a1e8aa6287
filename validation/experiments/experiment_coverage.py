"""Coverage and width of effects of treatments, and sizes of tests of balance, in simulated and in real trials.

A population is a list of rows with weights: each unit is in both arms, so that treatment is independent of all that it
does not change, and the effect is known. A data set of n rows is a multinomial draw of these rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import dpinfer as dpi
from dpinfer.experiments.inference import EffectInference, effects
from dpinfer.statistics.inference import Released
from validation.common.outputs import Options, scatter
from validation.common.real import rows_of
from validation.common.rules import Claim, Rule
from validation.common.study import Drawn, Study, mean_ratio, rmse_ratio

PRICES = (dpi.ZCDP(0.5), dpi.ZCDP(0.05), dpi.PureDP(1.0))
SIZES = (200, 1_000, 5_000, 50_000)
UNITS = 4_000
"""Units of a simulated population."""

CLEAR = 10.0
"""Standard deviations of its noise that every cell's number of rows has to reach where widths are compared."""

PLENTY = 100
"""Rows that a cell has to have for that."""

NUMBERS = {"y": dpi.Real(-8, 10), "a": dpi.Real(-4, 4), "b": dpi.Real(-4, 4), "c": dpi.Boolean()}
TRIAL = dpi.Schema(**NUMBERS, t=dpi.Boolean(), s=dpi.Boolean())
TRUTHS = dpi.Schema(**NUMBERS | {"y": dpi.Boolean()}, t=dpi.Boolean(), s=dpi.Boolean())
JOBS = dpi.Schema(y=dpi.Real(0, 61), a=dpi.Real(16, 56), b=dpi.Real(0, 18), c=dpi.Boolean(), t=dpi.Boolean(),
                  s=dpi.Boolean())  # fmt: skip
"""Earnings of 1978 in thousands of dollars, age, years of school, unemployed in 1975; married."""

SHARES = {"equal arms": 0.5, "one fifth treated": 0.2, "unequal variances": 0.05, "skewed": 0.2, "truth values": 0.1,
          "strata": 0.3, "jtrain2": 0.42, "jtrain2, raw": 0.42, "jtrain3, raw, in strata": 0.07}  # fmt: skip
"""Populations, with the share of the treated in them."""


@dataclass(frozen=True)
class Cell:
    """A population, its number of rows, a price and a relation."""

    design: str
    n: int
    price: Any
    neighbors: str

    @property
    def questions(self) -> dict[str, Any]:
        """What is asked, by name: real rows as they are know no effect that is adjusted for covariates."""
        strata = {"strata": "s"} if "strata" in self.design else {}
        found = {"difference": dpi.experiment("y", "t", **strata)}
        if "raw" not in self.design:
            found["adjusted"] = dpi.experiment("y", "t", covariates=["a", "b", "c"], **strata)
        return found


def cells() -> list[Cell]:
    """Every population, size and price, the relations in turns."""
    return [Cell(design, n, price, ("add_remove", "replace_one")[place % 2])
            for place, (design, n, price) in enumerate(product(SHARES, SIZES, PRICES))]  # fmt: skip


@dataclass(frozen=True)
class Population:
    """Rows with weights, and the effect."""

    schema: dpi.Schema
    rows: pd.DataFrame
    weights: np.ndarray
    effect: float


@cache
def population(design: str) -> Population:
    """Return a population."""
    share, schema = SHARES[design], JOBS if "jtrain" in design else TRUTHS if design == "truth values" else TRIAL
    if "raw" in design:
        return _raw(design, schema)
    units, control, treated = _real(schema) if design == "jtrain2" else _simulated(design)
    chance = np.where(units["s"], 0.6, 0.2) if design == "strata" else np.full(len(units), share)
    arms = [units.assign(y=y, t=arm) for y, arm in ((control, False), (treated, True))]
    weights = np.concatenate([1 - chance, chance]) / len(units)
    return Population(schema, pd.concat(arms, ignore_index=True), weights, float(np.mean(treated) - np.mean(control)))


def _simulated(design: str) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Units, with both of their outcomes."""
    rng = np.random.default_rng([*design.encode()])
    a, b, c = rng.normal(size=UNITS).clip(-4, 4), rng.normal(size=UNITS).clip(-4, 4), rng.random(UNITS) < 0.3
    units = pd.DataFrame({"a": a, "b": b, "c": c, "s": rng.random(UNITS) < 0.4})
    error, mean = rng.normal(size=UNITS), 0.6 * a + 0.4 * b - 0.5 * c
    control, treated = mean + error, mean + error + 0.3 * (1 + a)
    if design == "unequal variances":
        control, treated = mean + 0.5 * error, mean + 0.3 + (0.5 + np.abs(a)) * error + 0.5 * b**2
    elif design == "skewed":
        control = np.exp(0.4 * mean + 0.7 * error) - 2
        treated = control + 0.3 * (control + 2)
    elif design == "truth values":
        luck, base = rng.random(UNITS), 0.15 + 0.1 * np.tanh(mean)
        control, treated = luck < base, luck < base + 0.1
    elif design == "strata":
        control, treated = control + 2.0 * units["s"], treated + 3.0 * units["s"]
    if design == "truth values":
        return units, control, treated
    return units, *(np.clip(one, *TRIAL["y"].limits) for one in (control, treated))


def _columns(rows: pd.DataFrame) -> pd.DataFrame:
    """Name the columns of the training data as the schema does."""
    truths = {"c": rows["unem75"] == 1, "s": rows["married"] == 1, "t": rows["train"] == 1}
    numbers = {"a": rows["age"].astype(float), "b": rows["educ"].astype(float), "y": rows["re78"].clip(0, 61)}
    return pd.DataFrame(numbers | truths)


def _real(schema: dpi.Schema) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Take the controls of the trial as units; training would add 1,500 dollars and a tenth of what they earn."""
    units = _columns(rows_of("jtrain2"))
    units = units[~units["t"]].reset_index(drop=True)
    return units, units["y"].to_numpy(), np.clip(units["y"] * 1.1 + 1.5, *schema["y"].limits).to_numpy()


def _raw(design: str, schema: dpi.Schema) -> Population:
    """Take real rows as they are: the effect is the difference in their means, within strata if there are any."""
    rows = _columns(rows_of(design.split(",", maxsplit=1)[0]))
    strata = rows["s"] if "strata" in design else pd.Series(data=False, index=rows.index)
    apart = rows.groupby([strata, "t"])["y"].mean().unstack()  # noqa: PD010
    effect = float(((apart[True] - apart[False]) * strata.value_counts(normalize=True)).sum())
    return Population(schema, rows, np.full(len(rows), 1 / len(rows)), effect)


@dataclass(frozen=True)
class Summed:
    """The rows of a population as a question sums them: cell by cell whole numbers, and what is measured."""

    measured: Any
    plan: Any
    cells: np.ndarray
    numbers: np.ndarray

    @classmethod
    def of(cls, cell: Cell, question: Any) -> Summed:
        """Encode the rows as the kernel does."""
        found = population(cell.design)
        measured = question.measurement(cell.price, schema=found.schema, neighbors=cell.neighbors)
        raw = {name: found.rows[name].to_numpy() for name in measured.rows.columns}
        places, numbers = measured.rows.encode(raw, len(found.rows))
        return cls(measured, question.plan(found.schema), places, np.asarray(numbers).T)

    def sums(self, counts: np.ndarray) -> np.ndarray:
        """Sums (R, m) in units of the features of data sets that have each row so many times (R, rows)."""
        parts = [counts[:, self.cells == one] @ self.numbers[self.cells == one] for one in range(self.plan.rows.size)]
        return np.concatenate(parts, axis=1) / self.measured.rows.units

    def effects(self, values: np.ndarray, place: int, *, adjust: bool, quiet: bool = False) -> EffectInference:
        """Infer from sums as the library does; without noise if ``quiet``."""
        released = Released.of_study(self.measured, values)
        steps = released.steps * (1e-9 if quiet else 1.0)
        sums = self.plan.moment_sums(values, released.law, steps)
        return effects(sums, float(self.plan.scaled[1][place]), place=place, adjust=adjust)


def draw(cell: Cell, rng: np.random.Generator, replicates: int) -> Drawn:
    """Ends and estimates by question, with noise and without, and p-values of balance."""
    counts = rng.multinomial(cell.n, population(cell.design).weights, replicates).astype(float)
    drawn = {}
    for name, question in cell.questions.items():
        summed = Summed.of(cell, question)
        exact = summed.sums(counts)
        noise = summed.measured.law.rvs(replicates, rng) * np.asarray(summed.measured.steps)
        found = summed.effects(exact + noise, 0, adjust=name == "adjusted")
        plain = summed.effects(exact, 0, adjust=name == "adjusted", quiet=True)
        drawn |= {f"{name} ends": found.batch(0.05).intervals[:, 0], f"{name} value": found.value,
                  f"{name} known": ~found.few.any(axis=1), f"{name} flagged": found.flagged,
                  f"{name} plain": plain.value, f"{name} plain ends": plain.batch(0.05).intervals[:, 0]}  # fmt: skip
        if name == "adjusted":
            tests = [summed.effects(exact + noise, place, adjust=False) for place in (1, 2, 3)]
            drawn["balance"] = np.stack([one.batch(0.05).pvalues[:, 0] for one in tests], axis=1)
    return drawn


def summary(cell: Cell, drawn: Drawn) -> list[dict]:
    """A row for each question."""
    truth, rows = population(cell.design).effect, []
    for name, question in cell.questions.items():
        low, high = drawn[f"{name} ends"].T
        held, known = (low <= truth) & (truth <= high), drawn[f"{name} known"]
        plain, value = drawn[f"{name} plain ends"], drawn[f"{name} value"]
        found = oracle(cell, question, adjust=name == "adjusted")
        ratio, error = mean_ratio(high - low, found["width"])
        compared = found["clear"] >= CLEAR and found["rows"] >= PLENTY and not found["hidden"]
        rmse, _ = rmse_ratio(value - truth, drawn[f"{name} plain"] - truth)
        row = {
            "method": name, "coverage": held.mean(), "determined": known.mean(),
            "flagged": drawn[f"{name} flagged"].mean(), "width": np.median(high - low),
            "width / oracle": ratio if compared else np.nan, "error of width / oracle": error,
            "width / without privacy": np.median(high - low) / np.median(plain[:, 1] - plain[:, 0]),
            "rmse / without privacy": rmse, "bias / sd": (value.mean() - truth) / value.std(),
            "coverage without privacy": ((plain[:, 0] <= truth) & (truth <= plain[:, 1])).mean(),
            "rows / noise": found["clear"],
        }  # fmt: skip
        if name == "adjusted":
            row["width / difference"] = row["width"] / rows[0]["width"]
            row["size of balance"] = (drawn["balance"] <= 0.05).mean(axis=0).max()
        rows.append(row)
    return rows


def oracle(cell: Cell, question: Any, *, adjust: bool) -> dict[str, float]:
    """Width of an interval that knows both variances; rows of the least cell, also over their noise; hidden slopes."""
    found = Summed.of(cell, question)
    expected = found.sums(cell.n * population(cell.design).weights[None])
    inference = found.effects(expected, 0, adjust=adjust)
    counts = found.plan.moment_sums(expected, found.measured.law, np.asarray(found.measured.steps))
    size, noise = float(counts.values[0, :, 0].min()), float(np.sqrt(counts.noise[0, 0]))  # noqa: PD011
    (_, upper), *_ = (one[0] for one in inference.batch(0.05).intervals)
    error = float(np.sqrt(inference.sampling + inference.noise)[0])
    critical = stats.norm.isf(0.025) if inference.shares is None else (upper - inference.value[0]) / error
    return {"width": 2 * critical * error, "clear": size / noise, "rows": size, "hidden": bool(inference.hidden[0])}


def same(_: pd.DataFrame, options: Options) -> list[Claim]:
    """State that the direct path is the library's, from rows to release to results."""
    rng, differing, total = np.random.default_rng(options.seed), 0, 0
    for design, price in product(("strata", "jtrain2"), PRICES):
        cell, found = Cell(design, 1_000, price, "add_remove"), population(design)
        rows = found.rows.iloc[rng.choice(len(found.rows), 1_000, p=found.weights)]
        for name, question in cell.questions.items():
            results = question.bind(dpi.PublicData(rows, found.schema, rng=rng)).fit(price)
            ours = Summed.of(cell, question).effects(results.release.array[None], 0, adjust=name == "adjusted")
            differing += int(
                (np.abs(ours.intervals(np.eye(1), 0.05)[0] - results.conf_int().loc["effect"]) > 1e-9).sum()
            )
            total += 2
    shown = f"{total} ends"
    return [Claim("ends of effects that differ from the library's", shown, str(differing), held=differing == 0)]


STUDY = Study(
    "experiment_coverage", cells, draw, summary,
    (
        Rule("least coverage of 95% intervals of effects: {part}", "coverage", split="method",
             design="6 simulated and 3 real populations, 5% to 50% treated"),
        Rule("largest size of tests of balance at .05", "size of balance", "size", 0.05, quantities=3),
        Rule("largest mean width of intervals of effects over the oracle's: {part}", "width / oracle", "width", 1.1,
             split="method"),
    ),
    axes=lambda cell: {"design": cell.design, "n": cell.n, "price": str(cell.price), "neighbors": cell.neighbors},
    by=("method",), also=same, quick=lambda cell: cell.n == 1_000 and cell.design in ("strata", "jtrain2"),
    figure=scatter("rows / noise", {"coverage": 0.95, "width / without privacy": 1.0}, ["design", "method"],
                   label="rows of the smallest cell / standard deviation of their noise"),
    notes=(
        "Each unit of a population is in both arms, so that the effect is known; those called raw are real rows as "
        "they are, whose effect is the difference in their means (within strata). jtrain2: the 260 controls of the "
        "National Supported Work trial; jtrain3: 185 trained men and 2,490 of a survey.",
        f"Widths are compared where every cell has {PLENTY} rows, {CLEAR:g} standard deviations of their noise, and "
        "noise leaves the larger part of the slopes. Rows are encoded as the kernel does; sums and noise are drawn.",
    ),
)  # fmt: skip

"""Slopes of people with several dependent rows: the bootstrap by person beside least squares at the same price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import dpinfer as dpi
from dpinfer.regression.gram_inference import batch_linear, linear_oracle
from dpinfer.resampling.bootstrap import unstable
from dpinfer.resampling.inference import ReplicateSums
from dpinfer.statistics.inference import Released
from validation.common.cells import measured
from validation.common.claims import RULES
from validation.common.outputs import Options
from validation.people.people_designs import COLUMNS, DESIGNS, KEPT, SLOPE, draw, products_by_person
from validation.people.people_inference import equal_spread

FORMULA, PRICE, SHARE = "score ~ x", dpi.GDP(2.0), 0.2
"""What is fitted, its price, and the share of the replicates that are asked for: one at a time, inference is slow."""

BOOTSTRAP, OLS = dpi.bootstrap(FORMULA, replicates=50), dpi.ols(FORMULA, method="gram")
SERIAL = 100


@cache
def template(most: int) -> tuple[Any, Any, Any, Any]:
    """Measurement of the bootstrap, its inference and question from any release, and measurement of least squares."""
    schema = COLUMNS.with_people("person", most)
    asked = {"schema": schema, "neighbors": "add_remove"}
    measurement = BOOTSTRAP.measurement(PRICE, **asked)
    rng = np.random.default_rng(0)
    frame = draw(DESIGNS[0], rng, 500, 1).frame(0, most)
    data = dpi.PublicData(frame, COLUMNS, rng=rng, id="person", max_rows=most)
    inference = BOOTSTRAP.infer(data.run(BOOTSTRAP, PRICE)).inference
    return measurement, inference, BOOTSTRAP.plan(schema), OLS.measurement(PRICE, **asked)


def inferred(most: int, values: np.ndarray) -> Any:
    """Infer from one bootstrap release (B d,), as the library does, without reading its question anew."""
    measurement, pattern, question, _ = template(most)
    width = measurement.rows.width
    noise = (measurement.law.variances * np.asarray(measurement.steps) ** 2)[-width:]
    sums = ReplicateSums(values.reshape(-1, width), np.diag(noise))
    return replace(pattern, sums=sums, nobs=float(sums.mean[0]), unstable=unstable(sums, question, question))


def bootstrap_values(measurement: Any, products: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Release products of people (d, n) under weights by person, with noise, as numbers (B d,)."""
    twice = 2.0 * rng.integers(0, 2, (measurement.rows.replicates, products.shape[1]))
    sums = (twice @ products.T).ravel() * measurement.multiplier
    return (sums + measurement.law.rvs(1, rng)[0]) * np.asarray(measurement.steps)


def portion(place: int, n: int, seeds: range, seed: int) -> np.ndarray:
    """Estimates, ends and more of data sets: (sets, max_rows, numbers)."""
    found = []
    for number in seeds:
        rng = np.random.default_rng([seed, 4, place, n, number])
        drawn = draw(DESIGNS[place], rng, n, 1)
        row = []
        for most in KEPT:
            measurement, _, _, direct = template(most)
            products = products_by_person(measurement.rows, drawn, most)[:, 0]
            inference = inferred(most, bootstrap_values(measurement, products, rng))
            lower, upper = inference.intervals(np.eye(2), 0.05)[1]
            slope = inference.gradient[1]
            noise = slope @ inference.sums.noise @ slope
            released = (products.sum(axis=1) + direct.law.rvs(1, rng)[0]) * np.asarray(direct.steps)
            row.append([lower, upper, noise, float(bool(inference.flags)), *released])
        found.append(row)
    return np.array(found)


def judge(place: int, n: int, most: int, found: np.ndarray, people: Any) -> dict[str, Any]:
    """Coverage and width of both, of the same data sets at the same price, each over its own oracle."""
    lower, upper, noise, flagged = found[:, :4].T
    direct = template(most)[3]
    problem, names = OLS._posed(Released.of_study(direct, found[:, 4:]))
    design, response = problem.design, problem.response
    wide, narrow = (
        batch_linear(replace(problem, rows_per_unit=units), found[:, 4:], names, alpha=0.05).intervals[:, 1]
        for units in (most, 1)
    )
    sums, normal = n * people.sums["slope", most, True], float(stats.norm.isf(0.025))
    variance = people.slope[most] / n
    noise_only = (linear_oracle(problem, sums, names, sampling=np.zeros(2), alpha=0.05).halfwidth[1] / normal) ** 2
    own = variance + (float(np.median(noise)) + variance) / BOOTSTRAP.replicates
    both = np.stack([upper - lower, wide[:, 1] - wide[:, 0]])
    unbounded = ~np.isfinite(both)
    widths = both[:, ~unbounded.any(axis=0)].mean(axis=1)
    ols_own = variance + noise_only
    return {
        "design": DESIGNS[place].name, "max_rows": most, "n": n,
        "bootstrap coverage": _covers(lower, upper), "bootstrap width / oracle": widths[0] / (2 * normal * own**0.5),
        "bootstrap unbounded": float(unbounded[0].mean()), "flagged": float(flagged.mean()),
        "ols coverage": _covers(*wide.T), "ols width / oracle": widths[1] / (2 * normal * ols_own**0.5),
        "ols unbounded": float(unbounded[1].mean()),
        "ols coverage if independent": _covers(*narrow.T), "bootstrap width / ols": widths[0] / widths[1],
        "design effect": variance / equal_spread(sums, design, response)[1],
        "sampling / noise": variance / float(np.median(noise)),
    }  # fmt: skip


def _covers(lower: np.ndarray, upper: np.ndarray) -> float:
    return float(((lower <= SLOPE) & (upper >= SLOPE)).mean())


def measure(unit: tuple[int, int, Any], _: int, replicates: int, seed: int) -> dict[str, list[dict[str, Any]]]:
    """Measure a design at one size for every max_rows; what fails is run again at ten times the replicates."""
    place, n, people = unit
    first = max(int(SHARE * replicates), 4)
    least = RULES.least_coverage(first, 0.95)
    rows: list[dict[str, Any]] = []
    wanted = list(KEPT)
    for again in (False, True):
        count = first * (RULES.rerun_factor if again else 1)
        found = portion(place, n, range(count), seed + (RULES.rerun_seed if again else 0))
        judged = [judge(place, n, most, found[:, KEPT.index(most)], people) for most in wanted]
        for row in judged:
            row["held"] = min(row["bootstrap coverage"], row["ols coverage"]) >= least
            row.update({"replicates": count, "run": "rerun" if again else "first"})
        rows += judged
        wanted = [row["max_rows"] for row in judged if not row["held"]]
        if not wanted or first < RULES.rerun_factor * SERIAL:
            break
    return {"rows": rows}


def slopes(people: Sequence[Any], arguments: Options, sizes: Sequence[int]) -> pd.DataFrame:
    """Every design, size and max_rows; a design whose coverage fails is run again at ten times the replicates."""
    units = [(place, n, people[place]) for place in range(len(DESIGNS)) for n in sizes]
    parts = measured("people_coverage_slopes", units, measure, arguments)
    return pd.DataFrame([row for rows in parts["rows"] for row in rows])

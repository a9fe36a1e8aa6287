"""Slopes of people with several dependent rows: the bootstrap by person beside least squares at the same price."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from scipy import stats

import dpinfer as dpi
from dpinfer.regression.gram_inference import batch_linear, linear_oracle
from dpinfer.resampling.bootstrap import unstable
from dpinfer.resampling.inference import ReplicateSums
from dpinfer.statistics.inference import Released
from validation.common.study import Drawn
from validation.people.people_designs import COLUMNS, DESIGNS, KEPT, SLOPE, draw, products_by_person
from validation.people.people_inference import Population, equal_spread, people_of

FORMULA, PRICE = "score ~ x", dpi.GDP(2.0)
"""What is fitted, and its price."""

BOOTSTRAP, OLS = dpi.bootstrap(FORMULA, replicates=50), dpi.ols(FORMULA, method="gram")


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


def draw_slopes(cell: tuple[int, int], rng: np.random.Generator, replicates: int) -> Drawn:
    """Ends, noise, flags and sums of least squares of data sets, by max_rows."""
    (place, n), found = cell, {str(most): [] for most in KEPT}
    for _ in range(replicates):
        drawn = draw(DESIGNS[place], rng, n, 1)
        for most in KEPT:
            measurement, _, _, direct = template(most)
            products = products_by_person(measurement.rows, drawn, most)[:, 0]
            inference = inferred(most, bootstrap_values(measurement, products, rng))
            lower, upper = inference.intervals(np.eye(2), 0.05)[1]
            slope = inference.gradient[1]
            noise = slope @ inference.sums.noise @ slope
            released = (products.sum(axis=1) + direct.law.rvs(1, rng)[0]) * np.asarray(direct.steps)
            found[str(most)].append([lower, upper, noise, float(bool(inference.flags)), *released])
    return {most: np.array(rows) for most, rows in found.items()}


def summary(cell: tuple[int, int], drawn: Drawn) -> list[dict[str, Any]]:
    """Coverage and width of both, for every max_rows."""
    people = people_of(cell[0], len(drawn[str(KEPT[0])]))
    return [_measures(cell[1], most, drawn[str(most)], people) for most in KEPT]


def _measures(n: int, most: int, found: np.ndarray, people: Population) -> dict[str, Any]:
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
        "max_rows": most,
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

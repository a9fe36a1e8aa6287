"""Questions about people with several dependent rows: what is true of them, and inference from many releases."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy import stats

import dpinfer as dpi
from dpinfer.procedures.cell_sums import describe
from dpinfer.regression.gram_inference import batch_linear, linear_oracle
from dpinfer.statistics.arrays import symmetric
from dpinfer.statistics.inference import Released
from dpinfer.statistics.moment_inference import intervals
from validation.common.rules import LOOKS
from validation.people.people_designs import COLUMNS, DESIGNS, KEPT, SLOPE, draw, slope_variance, sums_of

QUESTIONS: dict[str, Any] = {
    "mean": dpi.mean("spending"),
    "mean by place": dpi.mean("spending", by="place"),
    "proportion": dpi.proportion("spending > 3"),
    "total": dpi.total("spending", target="population"),
    "total of the data": dpi.total("spending"),
    "slope": dpi.ols("score ~ x", method="gram"),
}


@dataclass(frozen=True)
class Population:
    """What one person adds on average to every sum.

    Attributes
    ----------
    sums : dict
        By question, max_rows and whether people are the unit: (m,).
    slope : dict
        By max_rows: n times the sampling variance of the slope, by person.
    uncut : float
        Mean spending where every row of every person counts.
    """

    sums: dict[tuple[str, int, bool], np.ndarray]
    slope: dict[int, float]
    uncut: float


@cache
def measured(name: str, most: int | None, neighbors: str = "add_remove", price: Any = None) -> Any:
    """Measurement of a question, of people with at most so many rows, or of rows."""
    schema = COLUMNS if most is None else COLUMNS.with_people("person", most)
    return QUESTIONS[name].measurement(price or dpi.ZCDP(0.1), schema=schema, neighbors=neighbors)


@cache
def population(place: int, sets: int) -> Population:
    """Average over people drawn with a seed of their own."""
    rng, people, found, values, first = np.random.default_rng([20261122, place]), 0, {}, [], np.zeros(2)
    kept: dict[int, list[np.ndarray]] = {most: [] for most in KEPT}
    for _ in range(0, sets, 10):
        drawn = draw(DESIGNS[place], rng, 2000, 10)
        people += int((drawn.numbers > 0).sum())
        clamped = np.minimum(drawn.cells["spending"], 8.0).mean(
            axis=-1
        )  # no row of a person differs from others in law
        first += [float((drawn.numbers * clamped).sum()), float(drawn.numbers.sum())]
        for name in QUESTIONS:
            for most in KEPT:
                for by_person in (True, False):
                    rows = measured(name, most if by_person else None).rows
                    added = sums_of(rows, drawn, most).sum(axis=0) / getattr(rows, "unit", 2.0**38)
                    found[name, most, by_person] = found.get((name, most, by_person), 0.0) + added
        for most in KEPT:
            kept[most].append(slope_variance(drawn, most))
    values = {most: np.sum(parts, axis=0) / people for most, parts in kept.items()}
    return Population(
        {key: total / people for key, total in found.items()},
        {most: _of_slope(parts) for most, parts in values.items()},
        float(first[0] / first[1]),
    )


def people_of(place: int, replicates: int) -> Population:
    """Return what is true of the people of a design; a quick run averages over fewer of them."""
    return population(place, 500 if replicates >= LOOKS[0] else 40)


def _of_slope(parts: np.ndarray) -> float:
    """N times the variance of a slope from moments of a person's sums of rows, x, x^2, errors and x errors."""
    count, x, squares, both, cross, errors = parts
    center = x / count
    meat = both - 2 * center * cross + center**2 * errors
    return float(meat / (squares - center**2 * count) ** 2)


# Inference from many releases


def noisy(measurement: Any, sums: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Add noise to whole sums (R, m)."""
    return (sums * measurement.multiplier + measurement.law.rvs(len(sums), rng)) * np.asarray(measurement.steps)


def told(name: str, measurement: Any, values: np.ndarray, schema: dpi.Schema) -> tuple[Any, Any]:
    """Describe releases of a question about means, totals or proportions."""
    question = QUESTIONS[name]
    return describe(question.plan(schema), Released.of_study(measurement, values), target=question.target)


def ends_of(name: str, measurement: Any, values: np.ndarray, alone: np.ndarray | None) -> tuple[np.ndarray, ...]:
    """Ends of 95% intervals (R, q, 2), the same if rows were independent (variances ``alone``), and flags (R,)."""
    schema = measurement.rows.schema
    if name == "slope":
        many = Released.of_study(measurement, values)
        found = QUESTIONS[name].estimate(many)
        naive = found.intervals
        if alone is not None:
            problem, names = QUESTIONS[name]._posed(many)
            naive = batch_linear(replace(problem, rows_per_unit=1), values, names, alpha=0.05).intervals
        return found.intervals[:, 1:], naive[:, 1:], found.flagged
    estimates, described = told(name, measurement, values, schema)
    ends = intervals(estimates, 0.05)
    naive = ends
    if alone is not None:
        sampling = np.broadcast_to((alone / described.factor**2)[..., None], estimates.sampling.shape)
        known = replace(estimates, sampling=sampling, df=np.full_like(estimates.df, np.inf), line=None)
        naive = intervals(known, 0.05)
    scaled = [described.shift[:, None] + described.factor[:, None] * part for part in (ends, naive)]
    shape = (len(values), -1, 2)
    return scaled[0].reshape(shape), scaled[1].reshape(shape), estimates.flagged


def truths_of_data(name: str, measurement: Any, sums: np.ndarray) -> np.ndarray:
    """What the rows themselves give (R, q), from sums without noise (R, m)."""
    estimates, described = told(name, measurement, sums / measurement.rows.unit, measurement.rows.schema)
    return np.asarray(described.shift + described.factor * estimates.value).reshape(len(sums), -1)


@dataclass(frozen=True)
class Known:
    """What an oracle knows of a cell: truths, half widths, kappa, variances of independent rows, noise and sampling."""

    names: tuple[str, ...]
    truth: np.ndarray
    half: np.ndarray
    kappa: float
    alone: np.ndarray
    noise: np.ndarray
    sampling: np.ndarray


def equal_spread(sums: np.ndarray, design: np.ndarray, response: np.ndarray) -> np.ndarray:
    """Sampling variances of least squares if rows were independent and errors spread equally, from expected sums."""
    gram = symmetric(sums, design.shape[1])
    inverse = np.linalg.inv(design @ gram @ design.T)
    residual = response - (inverse @ (design @ gram @ response)) @ design
    return float(residual @ gram @ residual) / gram[0, 0] * np.diag(inverse)


def known(name: str, most: int, n: int, measurement: Any, people: Population) -> Known:
    """Work out what an oracle knows, from the population."""
    sums = n * people.sums[name, most, True]
    normal = float(stats.norm.isf(0.025))
    if name == "slope":
        problem, names = QUESTIONS[name]._posed(Released.of_study(measurement, sums[None]))
        alone, true = equal_spread(sums, problem.design, problem.response)[1], people.slope[most] / n
        oracle = linear_oracle(problem, sums, names, sampling=np.array([np.nan, true]), alpha=0.05)
        normal_noise = linear_oracle(problem, sums, names, sampling=np.zeros(2), alpha=0.05).halfwidth[1] / normal
        return Known(("x",), np.array([SLOPE]), oracle.halfwidth[1:], oracle.kappa, np.array([[alone]]),
                     np.array([normal_noise]), np.sqrt([true]))  # fmt: skip
    estimates, described = told(name, measurement, sums[None], measurement.rows.schema)
    by_row = told(name, measured(name, None), n * people.sums[name, most, False][None], COLUMNS)
    alone = np.diagonal(by_row[0].sampling[0], axis1=-2, axis2=-1) * by_row[1].factor ** 2
    truth = (described.shift + described.factor * estimates.value[0]).ravel()
    noise, sampling = (
        (described.factor * np.sqrt(np.diagonal(part[0], axis1=-2, axis2=-1))).ravel()
        for part in (estimates.noise, estimates.sampling)
    )
    # Sums by person hold the products of their totals: of means and totals this is the sandwich, clustered by person.
    oracle = QUESTIONS[name].oracle(Released.of_study(measurement, sums[None]), sampling=sampling**2)
    return Known(described.names, truth, oracle.halfwidth, oracle.kappa, alone, noise, sampling)

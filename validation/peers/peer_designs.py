"""Real rows drawn with replacement, and simulated ones: the population is finite, so the truth is known exactly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import statsmodels.api as sm
from scipy import special, stats

import dpinfer as dpi

SIMULATED = 100_000
"""Rows of a simulated population."""


@dataclass(frozen=True)
class Column:
    """A column and its public bounds; a factor has levels, and codes from 0."""

    name: str
    lower: float
    upper: float
    levels: int = 0
    integer: bool = False

    def declared(self, neighbors: str) -> Any:
        """Its place in the schema; under replace_one with constants, so that the number of rows is public."""
        whole = self.integer or self.levels
        middle = round((self.lower + self.upper) / 2) if whole else (self.lower + self.upper) / 2
        constants = {"missing": middle, "impossible": middle} if neighbors == "replace_one" else {}
        if whole:
            return dpi.Integer(int(self.lower), int(self.upper), **constants)
        return dpi.Real(self.lower, self.upper, **constants)


@dataclass(frozen=True, eq=False)
class Design:
    """Rows, and what is asked of them.

    Attributes
    ----------
    task : str
        "mean", "median", "histogram", "independence", "ols" or "logit".
    data : str
    columns : tuple of Column
        The response last.
    population : array (N, k)
    independent : bool
        Whether columns are drawn apart, so that independence is true.
    """

    task: str
    data: str
    columns: tuple[Column, ...]
    population: np.ndarray
    independent: bool = False

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    @property
    def formula(self) -> str:
        """Of a regression."""
        return f"{self.names[-1]} ~ {' + '.join(self.names[:-1])}"

    @property
    def levels(self) -> tuple[int, ...]:
        """Of a table; empty where there is none."""
        return tuple(column.levels for column in self.columns if column.levels)

    @property
    def truth(self) -> np.ndarray:
        """Answer (q,) of the population; NaN for a test."""
        return self.plain(self.population)

    def schema(self, neighbors: str) -> dpi.Schema:
        """Public metadata."""
        return dpi.Schema({column.name: column.declared(neighbors) for column in self.columns})

    def counts(self, rows: np.ndarray) -> np.ndarray:
        """Cells of the table, flat."""
        codes = np.ravel_multi_index(tuple(rows.astype(int).T), self.levels)
        return np.bincount(codes, minlength=int(np.prod(self.levels))).astype(float)

    def plain(self, rows: np.ndarray) -> np.ndarray:
        """Answer (q,) without privacy."""
        if self.task == "independence":
            return np.array([np.nan])
        if self.task == "histogram":
            return self.counts(rows) / len(rows)
        if self.task in ("mean", "median"):
            return np.array([getattr(np, self.task)(rows[:, 0])])
        x = np.column_stack([np.ones(len(rows)), rows[:, :-1]])
        if self.task == "ols":
            return np.linalg.lstsq(x, rows[:, -1], rcond=None)[0][1:]
        return logit_slopes(x, rows[:, -1])


def logit_slopes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Slopes of maximum likelihood, by Newton's method."""
    found = np.zeros(x.shape[1])
    for _ in range(50):
        mean = special.expit(x @ found)
        step = np.linalg.solve((x * (mean * (1 - mean))[:, None]).T @ x, x.T @ (y - mean))
        found = found + np.clip(step, -5, 5)
        if np.abs(step).max() < 1e-10:
            break
    return found[1:]


def chi2_pvalue(counts: np.ndarray, levels: tuple[int, ...]) -> float:
    """The textbook's p-value of a table; negative counts are zero, empty lines are left out; 1 where none is left."""
    table = np.maximum(counts, 0).reshape(levels)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    return 1.0 if min(table.shape, default=0) < 2 else float(stats.chi2_contingency(table, correction=False).pvalue)


@cache
def designs() -> tuple[Design, ...]:
    """Every design of the benchmark."""
    fair = sm.datasets.fair.load_pandas().data
    fair = fair.assign(affair=(fair["affairs"] > 0).astype(float))
    anes = sm.datasets.anes96.load_pandas().data
    randhie = sm.datasets.randhie.load_pandas().data
    rng = np.random.default_rng(7)
    x = np.clip(rng.normal(size=(SIMULATED, 4)), -4, 4)
    slopes = np.array([0.6, -0.4, 0.2, 0.0])
    normal = np.clip(0.5 + x @ slopes + rng.normal(size=SIMULATED), -12, 12)
    binary = (rng.random(SIMULATED) < special.expit(-0.5 + x @ slopes)).astype(float)
    income = np.clip(rng.lognormal(3.4, 0.6, SIMULATED), 0, 500)
    regressors = tuple(Column(f"x{place}", -4, 4) for place in range(4))
    ages = (Column("age", 17, 42), Column("yrs_married", 0, 25), Column("religious", 1, 4, integer=True))
    rating = Column("rate_marriage", 1, 5, integer=True)

    def codes(frame: Any, *names: str) -> np.ndarray:
        return np.column_stack([np.unique(frame[name], return_inverse=True)[1] for name in names]).astype(float)

    def factors(**levels: int) -> tuple[Column, ...]:
        return tuple(Column(name, 0, count - 1, count) for name, count in levels.items())

    small = (factors(religious=4, affair=2), codes(fair, "religious", "affair"))
    large = (factors(occupation=6, rate_marriage=5), codes(fair, "occupation", "rate_marriage"))
    return (
        Design("mean", "fair: age", (Column("age", 17, 42),), fair[["age"]].to_numpy()),
        Design("mean", "randhie: visits", (Column("mdvis", 0, 80),), randhie[["mdvis"]].to_numpy(dtype=float)),
        Design("median", "anes96: age", (Column("age", 18, 100, integer=True),), anes[["age"]].to_numpy()),
        Design("median", "simulated: lognormal", (Column("income", 0, 500),), income[:, None]),
        Design("histogram", "fair: occupation", factors(occupation=6), codes(fair, "occupation")),
        Design("histogram", "anes96: educ", factors(educ=7), codes(anes, "educ")),
        Design("independence", "fair: religious, affair", *small),
        Design("independence", "fair: religious, affair, made independent", *small, independent=True),
        Design("independence", "fair: occupation, rating, made independent", *large, independent=True),
        Design("ols", "fair", (*ages, rating), fair[[column.name for column in (*ages, rating)]].to_numpy()),
        Design("ols", "simulated", (*regressors, Column("y", -12, 12)), np.column_stack([x, normal])),
        Design("ols", "simulated: one regressor", (regressors[0], Column("y", -12, 12)),
               np.column_stack([x[:, 0], np.clip(0.5 + 0.6 * x[:, 0] + normal - x @ slopes - 0.5, -12, 12)])),
        Design("logit", "fair", (rating, *ages, Column("affair", 0, 1, integer=True)),
               fair[[column.name for column in (rating, *ages)] + ["affair"]].to_numpy()),
        Design("logit", "anes96", (Column("age", 18, 100), Column("educ", 1, 7, integer=True),
                                   Column("income", 1, 24, integer=True), Column("vote", 0, 1, integer=True)),
               anes[["age", "educ", "income", "vote"]].to_numpy()),
        Design("logit", "simulated", (*regressors, Column("y", 0, 1, integer=True)), np.column_stack([x, binary])),
    )  # fmt: skip

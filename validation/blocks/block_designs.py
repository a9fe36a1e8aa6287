"""Populations whose models are fitted to blocks, for the scripts on sample-and-aggregate."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.kernel.measurement import Measurement
from dpinfer.kernel.rows.blocks import block_values
from dpinfer.release import Release
from dpinfer.resampling.models import firth, newton
from validation.blocks.stacked_fits import stacked_firth, stacked_median, stacked_multinomial, stacked_newton
from validation.common import stages
from validation.common.real import RealRows


@dataclass(frozen=True)
class Population:
    """One model and its rows.

    Attributes
    ----------
    name : str
    names : tuple of str
        Parameters, intercept first.
    truth : ndarray (p,)
    draw : callable
        ``draw(rng, n)`` returns response (n,) and regressors (n, p).
    fit : callable
        ``fit(y, x)`` returns the parameters (p,), as the library's own fit of a block.
    model, formula, options
        As the user asks.
    schema : Schema
    bounds : object
    reduced : bool
        Whether blocks are fitted by Firth's penalised likelihood where bias is to be corrected.
    stacked : callable
        ``stacked(y, x, starts, stops)`` fits many slices of rows at once (k, p): the same estimates as those of
        ``fit``, NaN where steps do not settle.
    """

    name: str
    names: tuple[str, ...]
    truth: np.ndarray
    draw: Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
    fit: Callable[[np.ndarray, np.ndarray], np.ndarray]
    model: Any
    formula: str
    schema: dpi.Schema
    bounds: Any
    stacked: Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    options: tuple[tuple[str, Any], ...] = ()
    reduced: bool = False


def uniform(rng: np.random.Generator, n: int, slopes: int, *, alike: float = 0.0) -> np.ndarray:
    """An intercept and uniform columns on [-1, 1]; with ``alike`` each is mostly the first one."""
    columns = rng.uniform(-1, 1, (n, slopes))
    if alike:
        columns[:, 1:] = np.clip(columns[:, :1] + (1 - alike) * columns[:, 1:], -1, 1)
    return np.column_stack([np.ones(n), columns])


def logit(name: str, beta: tuple[float, ...], *, alike: float = 0.0, radius: float = 4.0) -> Population:
    """A logit with uniform regressors."""
    truth = np.array(beta)

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        x = uniform(rng, n, len(beta) - 1, alike=alike)
        return (rng.random(n) < 1 / (1 + np.exp(-x @ truth))).astype(float), x

    return Population(
        name, ("Intercept", *_slopes(beta)), truth, draw, lambda y, x: _newton(sm.Logit, y, x), smf.logit,
        "y ~ " + " + ".join(_slopes(beta)), _schema(beta, y=dpi.Boolean()), dpi.Ball(radius),
        partial(stacked_newton, sm.Logit), reduced=True,
    )  # fmt: skip


def real(name: str, model: Any, fitted: type, radius: float) -> Population:
    """A logit or Poisson regression of the first column of a real data set on the others; the truth is of all rows."""
    source = RealRows.of(name)
    response, *regressors = source.columns

    def of(rows: Any) -> tuple[np.ndarray, np.ndarray]:
        y = np.asarray(rows[response], dtype=float)
        return y, np.column_stack([np.ones(len(y)), *(np.asarray(rows[one], dtype=float) for one in regressors)])

    return Population(
        f"{fitted.__name__.lower()}, {source.data}", ("Intercept", *regressors),
        np.asarray(fitted(*of(source.frame)).fit(disp=0).params), lambda rng, n: of(source(rng, n)),
        lambda y, x: _newton(fitted, y, x), model, f"{response} ~ {' + '.join(regressors)}",
        source.schema("add_remove"), dpi.Ball(radius), partial(stacked_newton, fitted), reduced=fitted is sm.Logit,
    )  # fmt: skip


def poisson() -> Population:
    """Skewed counts."""
    truth = np.array([0.2, 0.7, -0.6])

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        x = uniform(rng, n, 2)
        return rng.poisson(np.exp(x @ truth)).astype(float), x

    return Population(
        "poisson", ("Intercept", "x0", "x1"), truth, draw, lambda y, x: _newton(sm.Poisson, y, x), smf.poisson,
        "y ~ x0 + x1", _schema(truth, y=dpi.Integer(0, 100)), (-3, 3), partial(stacked_newton, sm.Poisson),
    )  # fmt: skip


def median() -> Population:
    """Median regression with skewed errors whose spread grows with a regressor."""
    truth = np.array([1.0, 2.0, -1.0])

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        x = uniform(rng, n, 2)
        error = (rng.exponential(size=n) - np.log(2)) * (1 + 0.5 * x[:, 1])
        return x @ truth + error, x

    def fit(y: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.asarray(sm.QuantReg(y, x).fit(q=0.5).params)

    return Population(
        "median regression", ("Intercept", "x0", "x1"), truth, draw, fit, smf.quantreg, "y ~ x0 + x1",
        _schema(truth, y=dpi.Real(-10, 40)), (-5, 5), stacked_median,
        (("fit_options", {"q": 0.5}),),
    )  # fmt: skip


def multinomial() -> Population:
    """Three outcomes and two regressors: six parameters."""
    truth = np.array([0.3, 0.8, -0.4, -0.2, -0.5, 0.6])

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        x = uniform(rng, n, 2)
        weight = np.exp(np.column_stack([np.zeros(n), x @ truth[:3], x @ truth[3:]]))
        chance = np.cumsum(weight, axis=1) / weight.sum(axis=1, keepdims=True)
        return (rng.random(n)[:, None] > chance).sum(axis=1).astype(float), x

    def fit(y: np.ndarray, x: np.ndarray) -> np.ndarray:
        if len(np.unique(y)) < 3:
            return np.full(6, np.nan)
        return np.ravel(sm.MNLogit(y, x).fit(disp=0, skip_hessian=True).params, order="F")

    names = tuple(f"{level}: {term}" for level in ("b", "c") for term in ("Intercept", "x0", "x1"))
    return Population(
        "multinomial logit", names, truth, draw, fit, smf.mnlogit, "y ~ x0 + x1",
        _schema(range(3), y=dpi.Category(["a", "b", "c"])), dpi.Ball(4), stacked_multinomial,
    )  # fmt: skip


def _slopes(beta: Any) -> list[str]:
    return [f"x{place}" for place in range(len(beta) - 1)]


def _schema(beta: Any, **response: Any) -> dpi.Schema:
    return dpi.Schema(**{name: dpi.Real(-1, 1) for name in _slopes(beta)}, **response)


def _newton(model: type, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The library's steps; NaN where they do not converge."""
    found = newton(model, y, x)
    return np.full(x.shape[1], np.nan) if found is None else found


POPULATIONS = (
    logit("logit, 4 slopes", (0.3, 0.8, -0.5, 0.4, -1.0)),
    logit("logit, collinear", (0.3, 0.8, -0.5), alike=0.8),
    logit("logit, 6% successes", (-3.0, 0.8, -0.5), radius=6.0),
    poisson(),
    median(),
    multinomial(),
    real("fair: had_affair, rate_marriage, yrs_married, religious", smf.logit, sm.Logit, 6.0),
    real("anes96: vote, PID, selfLR", smf.logit, sm.Logit, 10.0),
    real("randhie: mdvis, lncoins, physlm, lpi", smf.poisson, sm.Poisson, 4.0),
)
"""The last three are of real rows."""


class BlockFits(NamedTuple):
    """Fits of k blocks of the same rows.

    Attributes
    ----------
    corrected : ndarray (k, 3, p)
        Of a block and its halves, as they are fitted where bias is to be corrected.
    plain : ndarray (k, 1, p)
        Of a block, by the model's own fit.
    """

    corrected: np.ndarray
    plain: np.ndarray


def fit_blocks(population: Population, rng: np.random.Generator, n: int, blocks: int) -> BlockFits:
    """Draw rows, deal them into blocks and halves, and fit each."""
    y, x = population.draw(rng, n)
    labels = rng.integers(0, 2 * blocks, n)
    order = np.argsort(labels, kind="stable")
    y, x = y[order], x[order]
    ends = np.searchsorted(labels[order], np.arange(2 * blocks + 1))
    found = np.empty((blocks, 3, len(population.truth)))
    parts = ((0, 2), (0, 1), (1, 2))
    starts = np.arange(0, 2 * blocks, 2)
    for part, (first, last) in enumerate(parts):
        found[:, part] = population.stacked(y, x, ends[starts + first], ends[starts + last])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for block, part in np.argwhere(np.isnan(found).any(axis=2)):
            first, last = parts[part]
            found[block, part] = _fitted(population, y, x, slice(ends[2 * block + first], ends[2 * block + last]))
    plain = found[:, :1].copy()
    if population.reduced:
        totals = np.concatenate([[0.0], np.cumsum(y)])
        for part, (first, last) in enumerate(parts):
            begin, end = ends[starts + first], ends[starts + last]
            successes = totals[end] - totals[begin]
            sparse = np.minimum(successes, end - begin - successes) < found.shape[2]
            none = np.isnan(found[:, part]).any(axis=1) | (sparse & (part > 0))
            found[:, part] = np.where(none[:, None], np.nan, stacked_firth(y, x, begin, end))
    return BlockFits(found, plain)


def _fitted(population: Population, y: np.ndarray, x: np.ndarray, rows: slice) -> np.ndarray:
    """Fit some rows as the library does; NaN where it fails."""
    try:
        return population.fit(y[rows], x[rows])
    except Exception:
        return np.full(len(population.truth), np.nan)


def apart(population: Population, rng: np.random.Generator, n: int, blocks: int) -> float:
    """Largest difference between blocks fitted at once and one by one, over a parameter's spread between blocks."""
    y, x = population.draw(rng, n)
    ends = np.linspace(0, n, blocks + 1).astype(int)
    at_once = population.stacked(y, x, ends[:-1], ends[1:])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = np.array([_fitted(population, y, x, slice(*one)) for one in pairwise(ends)])
    found = float(np.nanmax(np.abs(at_once - alone) / np.nanstd(alone, axis=0)))
    if population.reduced:
        reduced = [firth(y[first:last], x[first:last]) for first, last in pairwise(ends)]
        alone = np.array([np.full(x.shape[1], np.nan) if one is None else one for one in reduced])
        far = np.abs(stacked_firth(y, x, ends[:-1], ends[1:]) - alone) / np.nanstd(alone, axis=0)
        found = max(found, float(np.nanmax(far)))
    return found


def release_of(question: Any, measured: Measurement, fits: BlockFits, rng: np.random.Generator) -> Release:
    """Add noise to fitted blocks, as the kernel does."""
    blocks = question.units(measured.context)
    values = block_values(fits.corrected if blocks.halves else fits.plain, blocks.region)
    return stages.release_of(question, measured, lambda priced: priced.rows.add(values)[0].tolist(), rng)

"""Populations whose models are fitted to blocks, for the scripts on sample-and-aggregate."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.kernel.rows.blocks import block_values
from dpinfer.procedures.block_estimators import newton
from validation.common import stages

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.release import Release


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
    share : float
        Of the replicates that are asked for.
    newton : type or None
        The model, where all blocks can be fitted by Newton steps at once.
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
    options: tuple[tuple[str, Any], ...] = ()
    share: float = 1.0
    newton: type | None = None


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
        "y ~ " + " + ".join(_slopes(beta)), _schema(beta, y=dpi.Boolean()), dpi.Ball(radius), newton=sm.Logit,
    )  # fmt: skip


def poisson() -> Population:
    """Skewed counts."""
    truth = np.array([0.2, 0.7, -0.6])

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        x = uniform(rng, n, 2)
        return rng.poisson(np.exp(x @ truth)).astype(float), x

    return Population(
        "poisson", ("Intercept", "x0", "x1"), truth, draw, lambda y, x: _newton(sm.Poisson, y, x), smf.poisson,
        "y ~ x0 + x1", _schema(truth, y=dpi.Integer(0, 100)), (-3, 3), newton=sm.Poisson,
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
        _schema(truth, y=dpi.Real(-10, 40)), (-5, 5), (("fit_options", {"q": 0.5}),), 0.06,
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
        _schema(range(3), y=dpi.Category(["a", "b", "c"])), dpi.Ball(4), (), 0.06,
    )  # fmt: skip


def _slopes(beta: Any) -> list[str]:
    return [f"x{place}" for place in range(len(beta) - 1)]


def _schema(beta: Any, **response: Any) -> dpi.Schema:
    return dpi.Schema(**{name: dpi.Real(-1, 1) for name in _slopes(beta)}, **response)


def _newton(model: type, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The library's steps; where they do not converge what it does then: statsmodels."""
    found = newton(model, y, x)
    return np.asarray(model(y, x).fit(disp=0).params) if found is None else found


POPULATIONS = (
    logit("logit, 4 slopes", (0.3, 0.8, -0.5, 0.4, -1.0)),
    logit("logit, collinear", (0.3, 0.8, -0.5), alike=0.8),
    logit("logit, 6% successes", (-3.0, 0.8, -0.5), radius=6.0),
    poisson(),
    median(),
    multinomial(),
)


def fit_blocks(population: Population, rng: np.random.Generator, n: int, blocks: int) -> np.ndarray:
    """Draw rows, deal them into blocks and halves, and fit each: (k, 3, p)."""
    y, x = population.draw(rng, n)
    labels = rng.integers(0, 2 * blocks, n)
    order = np.argsort(labels, kind="stable")
    y, x = y[order], x[order]
    ends = np.searchsorted(labels[order], np.arange(2 * blocks + 1))
    found = np.empty((blocks, 3, len(population.truth)))
    parts = ((0, 2), (0, 1), (1, 2))
    if population.newton is not None:
        starts = np.arange(0, 2 * blocks, 2)
        for part, (first, last) in enumerate(parts):
            found[:, part] = stacked_newton(population.newton, y, x, ends[starts + first], ends[starts + last])
    else:
        found[:] = np.nan
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for block in range(blocks):
            for part, (first, last) in enumerate(parts):
                if np.isfinite(found[block, part]).all():
                    continue
                mine = slice(ends[2 * block + first], ends[2 * block + last])
                try:
                    found[block, part] = population.fit(y[mine], x[mine])
                except Exception:
                    found[block, part] = np.nan
    return found


def stacked_newton(model: type, y: np.ndarray, x: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Fit a logit or a Poisson regression to many slices of rows at once (k, p); NaN where steps do not settle.

    The same estimates as those of `dpinfer.procedures.block_estimators.newton` one by one, which fits what is left.
    """
    sizes, width = stops - starts, x.shape[1]
    place = np.arange(sizes.max())
    used = place < sizes[:, None]
    rows = np.minimum(starts[:, None] + place, len(y) - 1)
    table, answer = x[rows] * used[..., None], y[rows] * used
    params = np.zeros((len(starts), width))
    if model is sm.Poisson:
        params[:, 0] = np.log(np.maximum(answer.sum(axis=1), 0.5) / np.maximum(sizes, 1))
    left = np.arange(len(starts))
    found = np.full((len(starts), width), np.nan)
    for _ in range(30):
        if not left.size:
            break
        part, kept = table[left], used[left]
        eta = (part @ params[left][..., None])[..., 0]
        with np.errstate(all="ignore"):
            mean = np.exp(eta) if model is sm.Poisson else 1 / (1 + np.exp(-eta))
        weight = (mean if model is sm.Poisson else mean * (1 - mean)) * kept
        information = np.swapaxes(part * weight[..., None], 1, 2) @ part
        with np.errstate(all="ignore"):
            good = np.isfinite(information).all(axis=(1, 2)) & (np.abs(eta).max(axis=1) < 30)
        scale = np.sqrt(np.maximum(np.diagonal(information, axis1=1, axis2=2), 1e-300))
        scaled = np.where(good[:, None, None], information / (scale[:, :, None] * scale[:, None, :]), np.eye(width))
        good &= np.linalg.eigvalsh(scaled)[:, 0] > 1e-6
        left, information = left[good], information[good]
        residual = ((answer[left] - mean[good]) * kept[good])[..., None]
        step = np.linalg.solve(information, np.swapaxes(part[good], 1, 2) @ residual)[..., 0]
        params[left] += step
        done = np.abs(step).max(axis=1) <= 1e-10 * np.maximum(np.abs(params[left]).max(axis=1), 1.0)
        found[left[done]] = params[left[done]]
        left = left[~done]
    return found


def release_of(question: Any, measured: Measurement, fits: np.ndarray, rng: np.random.Generator) -> Release:
    """Add noise to fitted blocks, as the kernel does."""
    blocks = question.units(measured.context)
    values = block_values(fits if blocks.halves else fits[:, :1], blocks.region)
    return stages.release_of(question, measured, lambda priced: priced.rows.add(values)[0].tolist(), rng)

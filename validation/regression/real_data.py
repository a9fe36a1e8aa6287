"""Is regression true on real data? Coverage, width, error and sizes of tests, with real data sets as populations.

Rows of a data set are drawn with replacement, so that the truth is the fit of all its rows: statsmodels' estimate
without privacy. Each private fit stands beside the robust fit of the same rows without privacy.

Huber's and quantile regressions of `dpinfer` have truths of their own, near those of statsmodels: Huber's scale is
estimated otherwise, and the check function is smoothed. They are judged against statsmodels' all the same.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple

import formulaic
import numpy as np
import pandas as pd
import statsmodels.api as sm
from matplotlib.figure import Figure
from scipy import special, stats

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression.results import GLMResults
from dpinfer.results.base import PrivateResults
from validation.common.outputs import Options, write_table
from validation.common.rules import Claim, Rule
from validation.common.study import Drawn, Study, rmse_ratio
from validation.regression.newton_draws import Drawer, encoded
from validation.regression.real_populations import POPULATIONS, SEEN, Population

BELOW, FAR_BELOW = 0.015, 0.05
"""How far coverage may fall below that of the non-private interval, and how far where no flag names the coefficient."""

MOST_COVERAGE, LIGHT_NOISE = 0.99, 0.5
"""Largest coverage where the median noise share is below the second number."""

UNBOUNDED = {250.0: 0.01, 50.0: 0.05}
"""Largest share of unbounded intervals under zCDP, by the least n rho from which it holds."""

PURE, PURE_N, PURE_COEFFICIENTS, PURE_UNBOUNDED, PURE_WIDTH = "PureDP(1)", 2000, 6, 0.10, 4.0
"""Largest share of unbounded intervals, and largest median width ratio, with at most so many coefficients."""

WIDTHS = {("ZCDP(0.5)", 2000): (1.35, 2.3), ("ZCDP(0.05)", 5000): (1.7, 3.0)}
ERRORS = {("ZCDP(0.5)", 2000): (1.3, 2.2), ("ZCDP(0.05)", 5000): (1.6, 3.0)}
"""Width and RMSE over those without privacy: the largest median over the slopes of all cells, and the worst slope."""

WORST_ERROR = 5.0
"""Largest RMSE ratio of replicates whose interval is bounded."""

ALPHA, SIZE_ABOVE = 0.05, 0.015
"""Level of tests; how far the size of one may lie above that of the test without privacy, or the level."""

SIZES = (1000, 2000, 5000, 20_000)
PRICES = {"ZCDP(0.5)": dpi.ZCDP(0.5), "ZCDP(0.05)": dpi.ZCDP(0.05), PURE: dpi.PureDP(1)}
SHUFFLED_SIZES, SHUFFLED_PRICES = (1000, 5000), ("ZCDP(0.5)", "ZCDP(0.05)")
EVERY = 3
"""One regression in so many is asked under replace_one, too, and one with its regressors shuffled."""

QUICK_CELLS = (
    ("fair affair", 2000, False),
    ("fair affair, logit", 2000, False),
    ("fair affair, logit", 1000, True),
    ("fair children, poisson", 2000, False),
    ("randhie visits, short", 5000, False),
    ("randhie visits, linear", 5000, False),
)  # fmt: skip
"""Of a quick run: regression, n, and whether shuffled."""

FEWEST, WIDEST = 50, 50.0
"""Replicates from which coverage among some is judged; widest ratio of the figure."""

NORMAL = float(stats.norm.isf(ALPHA / 2))


# --- the fits without privacy ---------------------------------------------------------------------------------------


class Ordinary(NamedTuple):
    """Estimates (k,) without privacy and their robust covariance (k, k); NaN where there is no estimate."""

    params: np.ndarray
    cov: np.ndarray

    def intervals(self, rows: np.ndarray) -> np.ndarray:
        """Intervals (m, 2) of linear combinations (m, k)."""
        centre = rows @ self.params
        half = NORMAL * np.sqrt(np.einsum("ij,jk,ik->i", rows, self.cov, rows))
        return np.stack([centre - half, centre + half], axis=1)

    def wald(self, rows: np.ndarray, values: np.ndarray) -> float:
        """P-value of the joint Wald test."""
        if not np.isfinite(self.cov).all():
            return np.nan
        distance = rows @ self.params - values
        return float(stats.chi2.sf(distance @ np.linalg.solve(rows @ self.cov @ rows.T, distance), len(rows)))


def score_logit(y: np.ndarray, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the derivative of the log-likelihood by the linear predictor, and minus the second one."""
    mean = special.expit(eta)
    return y - mean, mean * (1 - mean)


def score_probit(y: np.ndarray, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    sign = 2 * y - 1
    score = sign * np.exp(-0.5 * eta**2 - special.log_ndtr(sign * eta)) / np.sqrt(2 * np.pi)
    return score, score * (score + eta)


def score_poisson(y: np.ndarray, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = np.exp(eta)
    return y - mean, mean


def score_gamma(y: np.ndarray, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    share = y * np.exp(-eta)
    return share - 1, share


def score_negative_binomial(y: np.ndarray, eta: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    mean = np.exp(eta)
    return (y - mean) / (1 + alpha * mean), mean * (1 + alpha * y) / (1 + alpha * mean) ** 2


def score_quantile(y: np.ndarray, eta: np.ndarray, q: float, width: float) -> tuple[np.ndarray, np.ndarray]:
    away = (y - eta) / width
    return q - special.ndtr(-away), np.exp(-0.5 * away**2) / (np.sqrt(2 * np.pi) * width)


def score_huber(y: np.ndarray, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Huber's, by the scale of the residuals as statsmodels has it: the median of their size."""
    scale = np.median(np.abs(y - eta)) / stats.norm.ppf(0.75)
    away = (y - eta) / scale
    return scale * np.clip(away, -1.345, 1.345), (np.abs(away) <= 1.345).astype(float)


def solved(x: np.ndarray, y: np.ndarray, start: np.ndarray, score: Callable, reach: float = 3.0) -> Ordinary:
    """Solve the score equations by Newton's method, with the sandwich covariance of HC1.

    ``reach`` bounds the change of linear predictors in one step.
    """
    n, k = x.shape
    params, cov = start, np.full((k, k), np.nan)
    for _ in range(50):
        slopes, curves = score(y, x @ params)
        hessian = (x * curves[:, None]).T @ x
        try:
            move = np.linalg.solve(hessian, x.T @ slopes)
        except np.linalg.LinAlgError:
            return Ordinary(cov[0], cov)
        change = float(np.abs(x @ move).max())
        params = params + move * min(1.0, reach / max(change, 1e-300))
        if change < 1e-6 * reach:
            bread = np.linalg.inv(hessian)
            scored = x * slopes[:, None]
            return Ordinary(params, bread @ (scored.T @ scored) @ bread * n / (n - k))
    return Ordinary(cov[0], cov)


def quantile_fit(x: np.ndarray, y: np.ndarray, start: np.ndarray, q: float) -> Ordinary:
    """Quantile regression by a check function smoothed ever less; the covariance is that of the widest smoothing."""
    spread = float(np.subtract(*np.quantile(y - x @ start, [0.75, 0.25]))) / 1.349
    width = spread * ((np.log(len(y)) + x.shape[1]) / len(y)) ** 0.4
    wide = solved(x, y, start, partial(score_quantile, q=q, width=width), reach=3 * spread)
    narrow = solved(x, y, wide.params, partial(score_quantile, q=q, width=width / 4), reach=width)
    return Ordinary(narrow.params if np.isfinite(narrow.params).all() else wide.params, wide.cov)


def least_squares(x: np.ndarray, y: np.ndarray) -> Ordinary:
    """Least squares with HC1."""
    n, k = x.shape
    try:
        bread = np.linalg.inv(x.T @ x)
    except np.linalg.LinAlgError:
        return Ordinary(np.full(k, np.nan), np.full((k, k), np.nan))
    params = bread @ (x.T @ y)
    scored = x * (y - x @ params)[:, None]
    return Ordinary(params, bread @ (scored.T @ scored) @ bread * n / (n - k))


MEANS: dict[str, Callable] = {"logit": special.expit, "probit": special.ndtr, "poisson": np.exp}
"""Means by the linear predictor, of models whose predictions and average effects are looked at."""


def slopes_of(model: str, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and second derivative of the mean by the linear predictor."""
    if model == "poisson":
        return np.exp(eta), np.exp(eta)
    if model == "probit":
        density = np.exp(-0.5 * eta**2) / np.sqrt(2 * np.pi)
        return density, -eta * density
    mean = special.expit(eta)
    return mean * (1 - mean), mean * (1 - mean) * (1 - 2 * mean)


# --- a population, ready to be drawn from ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Prepared:
    """A population as arrays, with the truth.

    Attributes
    ----------
    population : Population
    cells : dict of arrays (N,)
    x : array (N, k)
        The design.
    y : array (N,)
    names : list of str
        Of the coefficients.
    truth : array (k,)
        Statsmodels' fit of all rows.
    level : array (k,)
        The coefficients of a design whose regressors say nothing: those of the constant alone.
    points : DataFrame, or None
        Two public points, where the model has predictions to be looked at: the medians, and the third quartiles.
    at : array (2, k)
        Their design.
    """

    population: Population
    cells: dict[str, np.ndarray]
    x: np.ndarray
    y: np.ndarray
    names: list[str]
    truth: np.ndarray
    level: np.ndarray
    points: pd.DataFrame | None
    at: np.ndarray

    @property
    def simple(self) -> bool:
        """Whether no column takes part in several terms and there is no factor, so that effects are a slope's."""
        return self.points is not None and not re.search(r"[*(:]", self.population.formula)

    def ordinary(self, x: np.ndarray, y: np.ndarray, start: np.ndarray) -> Ordinary:
        """Fit rows without privacy."""
        model, given = self.population.model, self.population.options
        if model == "ols":
            scale = np.abs(self.x).max(axis=0)
            found = least_squares(x / scale, y)
            return Ordinary(found.params / scale, found.cov / np.outer(scale, scale))
        scale = np.abs(self.x).max(axis=0)
        if model == "quantreg":
            found = quantile_fit(x / scale, y, start * scale, given["q"])
        else:
            reach = 3.0 if model != "rlm" else float(np.ptp(self.y))
            found = solved(x / scale, y, start * scale, self._score(), reach)
        return Ordinary(found.params / scale, found.cov / np.outer(scale, scale))

    def _score(self) -> Callable:
        family = self.population.options.get("family")
        if isinstance(family, sm.families.NegativeBinomial):
            return partial(score_negative_binomial, alpha=family.alpha)
        if isinstance(family, sm.families.Gamma):
            return score_gamma
        return {"logit": score_logit, "probit": score_probit, "poisson": score_poisson, "rlm": score_huber}[
            self.population.model
        ]


def as_numbers(frame: pd.DataFrame, population: Population) -> pd.DataFrame:
    """Return columns as a formula without privacy takes them: truth values as numbers, levels in declared order."""
    columns = {}
    for name, declared in population.schema.items():
        if name in frame:
            factor = isinstance(declared, dpi.Category)
            columns[name] = (
                pd.Categorical(frame[name], categories=declared.levels) if factor else frame[name].astype(float)
            )
    return pd.DataFrame(columns)


@cache
def prepared(name: str) -> Prepared:
    """Prepare a population."""
    population = POPULATIONS[name]
    frame = population.frame
    spec = formulaic.model_matrix(population.formula, as_numbers(frame, population))
    x, y = np.asarray(spec.rhs, dtype=float), np.asarray(spec.lhs, dtype=float).ravel()
    points, at = None, np.zeros((0, x.shape[1]))
    if population.model in MEANS:
        regressors = [column for column in population.columns if column != population.response]
        points = pd.DataFrame(
            {
                column: frame[column].quantile([0.5, 0.75]).to_numpy()
                if frame[column].dtype == float
                else [frame[column].mode()[0]] * 2
                for column in regressors
            }
        )
        at = np.asarray(spec.rhs.model_spec.get_model_matrix(as_numbers(points, population)), dtype=float)
    params = truth_of(population, x, y)
    level = np.zeros(x.shape[1])
    level[0] = truth_of(population, np.ones((len(y), 1)), y)[0]
    cells = {column: frame[column].to_numpy() for column in population.columns}
    return Prepared(population, cells, x, y, [*spec.rhs.columns], params, level, points, at)


def truth_of(population: Population, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return statsmodels' estimates of all rows."""
    scale = np.abs(x).max(axis=0)
    if population.model == "quantreg":
        found = sm.QuantReg(y, x / scale).fit(q=population.options["q"], max_iter=5000, p_tol=1e-8)
    elif population.model == "rlm":
        found = sm.RLM(y, x / scale).fit(maxiter=500, tol=1e-10)
    elif population.model in ("logit", "probit"):
        model = {"logit": sm.Logit, "probit": sm.Probit}[population.model]
        found = model(y, x / scale).fit(disp=0, maxiter=100, method="newton", tol=1e-12)
    elif population.model == "ols":
        found = sm.OLS(y, x / scale).fit()
    else:
        family = population.options.get("family", sm.families.Poisson())
        found = sm.GLM(y, x / scale, family=family).fit(maxiter=200, tol=1e-14)
    return np.asarray(found.params) / scale


# --- one cell -------------------------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """What is drawn and asked."""

    name: str
    n: int
    privacy: Any
    neighbors: str
    shuffled: bool

    @property
    def price(self) -> str:
        """The privacy parameters in short."""
        amount = self.privacy.rho if isinstance(self.privacy, dpi.ZCDP) else self.privacy.epsilon
        return f"{type(self.privacy).__name__}({float(amount):g})"


def draw(cell: Cell, rng: np.random.Generator, replicates: int) -> Drawn:
    """Draw and fit; of a replicate that fails, nothing is known.

    Where a cell is ``shuffled``, regressors are drawn apart from the response, so that all slopes are zero.
    """
    base = prepared(cell.name)
    asked, found = Asked.of(base, cell), []
    for _ in range(replicates):
        of_x = rng.integers(len(base.y), size=cell.n)
        of_y = rng.integers(len(base.y), size=cell.n) if cell.shuffled else of_x
        try:
            found.append(replicate(base, cell, asked, of_x, of_y, rng))
        except (dpi.errors.DPInferError, np.linalg.LinAlgError, FloatingPointError) as error:
            found.append(None)
            print(f"{cell}: {type(error).__name__}: {error}", file=sys.stderr)
    known = [one for one in found if one is not None]
    if not known:
        raise RuntimeError(f"{cell}: all replicates fail")
    blank = {name: np.full_like(np.asarray(one, dtype=float), np.nan) for name, one in known[0].items()}
    stacked = {name: np.array([np.asarray((one or blank)[name], dtype=float) for one in found]) for name in blank}
    return {**stacked, "failed": np.array([one is None for one in found])}


@dataclass(frozen=True, eq=False)
class Asked:
    """A question at its price, with every row of the population as its features; rows are drawn by their places.

    What the kernel does for one release is left out; `tests/regression/test_draws.py` compares both ways.
    """

    drawer: Drawer
    encoded: dict[int, np.ndarray]
    release: Any

    @classmethod
    def of(cls, base: Prepared, cell: Cell) -> Asked:
        """Ask the question of a cell."""
        population = base.population
        nobs = cell.n if cell.neighbors == "replace_one" else None
        rows = pd.DataFrame({name: values[: cell.n] for name, values in base.cells.items()})
        data = dpi.PublicData(
            rows,
            population.schema,
            rng=np.random.default_rng(1),
            neighbors=cell.neighbors,  # type: ignore[arg-type]
        )
        context = Context(population.schema, cell.neighbors, cell.privacy, nobs=nobs, public=True)  # type: ignore[arg-type]
        question = population.asked(data).resolve(context)
        return cls(Drawer(question, context), {}, question.fit(cell.privacy).release)

    def features(self, base: Prepared, of_x: np.ndarray, of_y: np.ndarray) -> Callable[[Any], np.ndarray]:
        """Return how stages find the features of drawn rows."""

        def found(features: Any) -> np.ndarray:
            if of_x is not of_y:
                response = base.population.response
                cells = {name: base.cells[name][of_y if name == response else of_x] for name in features.columns}
                return encoded(features, cells)
            if id(features) not in self.encoded:
                self.encoded[id(features)] = encoded(features, base.cells)
            return self.encoded[id(features)][:, of_x]

        return found

    def fit(self, features: Callable[[Any], np.ndarray], noise: np.random.Generator) -> PrivateResults:
        """Fit one data set."""
        estimated = self.drawer.estimate(features, noise)
        model = self.drawer.plan.model
        if model.response is None:
            return PrivateResults(estimated, self.release, model_name="", response="", notes=())
        return GLMResults(
            estimated, self.release, link=model.link(), counts=model.kind == "log", design=self.drawer.design
        )


def replicate(
    base: Prepared, cell: Cell, asked: Asked, of_x: np.ndarray, of_y: np.ndarray, noise: np.random.Generator
) -> dict[str, np.ndarray]:
    """Fit one data set with and without privacy; arrays by quantity: coefficients, effects, predictions."""
    truth = base.level if cell.shuffled else base.truth
    fit = asked.fit(asked.features(base, of_x, of_y), noise)
    estimated = fit._inference
    x, y = base.x[of_x], base.y[of_y]
    plain = base.ordinary(x, y, truth)
    k = len(truth)
    every = np.eye(k)
    named = named_by(estimated.flags, base.names)
    ends, plain_ends = estimated.intervals(every, ALPHA), plain.intervals(every)
    parts = [
        {
            "truth": truth,
            "estimate": estimated.params,
            "ends": ends,
            "plain": plain.params,
            "plain ends": plain_ends,
            "named": named,
        }
    ]
    if base.points is not None:
        parts += [*public_points(base, cell, fit, plain, x, truth, named)]
    found = {field: np.concatenate([part[field] for part in parts]) for field in parts[0]}
    deviation = (plain.params - truth) / np.sqrt(np.diag(plain.cov))
    found |= {
        "p": estimated.contrast_pvalues(every, truth),
        "plain p": 2 * stats.norm.sf(np.abs(deviation)),
        "noise": np.diag(estimated.cov_noise) / np.diag(estimated.cov_noise + estimated.cov_sampling),
        "any": np.array(bool(estimated.flags)),
        "joint": np.array(estimated.wald(every[1:], truth[1:])[2]),
        "plain joint": np.array(plain.wald(every[1:], truth[1:])),
    }
    if cell.shuffled:
        by_score = estimated.with_method("score")
        found["score p"] = by_score.contrast_pvalues(every, truth)
        found["score joint"] = np.array(by_score.wald(every[1:], truth[1:])[2])
    return found


def public_points(
    base: Prepared, cell: Cell, fit: Any, plain: Ordinary, x: np.ndarray, truth: np.ndarray, named: np.ndarray
) -> list[dict[str, np.ndarray]]:
    """Predictions at two points and, where effects are a slope's, average effects over the rows, taken as fixed."""
    model = base.population.model
    mean, predicted = MEANS[model], fit.get_prediction(base.points)
    at = base.at
    found = [
        {
            "truth": mean(at @ truth),
            "estimate": np.asarray(predicted.predicted_mean, dtype=float),
            "ends": np.asarray(predicted.conf_int(alpha=ALPHA), dtype=float),
            "plain": mean(at @ plain.params),
            "plain ends": mean(plain.intervals(at)),
            "named": np.full(2, named.any()),
        }
    ]
    if base.simple and not cell.shuffled and base.population.kind != "count":  # whose averages need sums of their own
        effects = fit.get_margeff()
        first, second = slopes_of(model, x @ plain.params)
        slopes = plain.params[1:]
        gradient = np.eye(len(truth))[1:] * first.mean() + np.outer(slopes, x.T @ second / len(x))
        half = NORMAL * np.sqrt(np.einsum("ij,jk,ik->i", gradient, plain.cov, gradient))
        centre = slopes * first.mean()
        found.append(
            {
                "truth": truth[1:] * slopes_of(model, x @ truth)[0].mean(),
                "estimate": np.asarray(effects.margeff, dtype=float),
                "ends": np.asarray(effects.conf_int(alpha=ALPHA), dtype=float),
                "plain": centre,
                "plain ends": np.stack([centre - half, centre + half], axis=1),
                "named": named[1:],
            }
        )
    return found


def named_by(flags: Sequence[str], names: Sequence[str]) -> np.ndarray:
    """Whether a flag names each coefficient: as a word of its own, in a list or alone."""
    text = " | ".join(flags)
    return np.array([bool(re.search(rf"(?<![^\s'\"]){re.escape(name)}(?=[,;.:'\"]?(\s|$))", text)) for name in names])


def summary(cell: Cell, drawn: Drawn) -> list[dict]:
    """Return a row for each quantity."""
    base, failed = prepared(cell.name), drawn["failed"]
    found = {name: values[~failed] for name, values in drawn.items() if name != "failed"}
    k = len(base.truth)
    labels = [("intercept" if place == 0 else "slope", name) for place, name in enumerate(base.names)]
    others = found["truth"].shape[1] - k
    labels += [("prediction", one) for one in ("at medians", "at third quartiles")][: others and 2]
    labels += [("effect", name) for name in base.names[1:]] if others > 2 else []
    fixed = {
        "regression": cell.name,
        "kind": base.population.kind,
        "model": base.population.model,
        "mode": "shuffled" if cell.shuffled else "drawn",
        "neighbors": cell.neighbors,
        "n": cell.n,
        "privacy": cell.price,
        "n rho": cell.n * float(cell.privacy.rho) if isinstance(cell.privacy, dpi.ZCDP) else np.nan,
        "coefficients": k,
    }
    counted = {"any flag": found["any"].mean(), "failures": int(failed.sum())}
    rows = []
    for place, (quantity, term) in enumerate(labels):
        one = {
            field: values[:, place] for field, values in found.items() if values.ndim > 1 and place < values.shape[1]
        }
        rows.append({**fixed, "quantity": quantity, "term": term, **measured_of(one), **counted})
    joint = {"size": rejected(found["joint"]), "non-private size": rejected(found["plain joint"])}
    joint["score size"] = rejected(found["score joint"]) if cell.shuffled else np.nan
    return [asked_of(row) for row in [*rows, {**fixed, "quantity": "joint", "term": "all slopes", **joint, **counted}]]


def asked_of(row: dict) -> dict:
    """Add what is asked of a row beside the fit without privacy."""
    plain, unflagged = (row.get(f"non-private coverage{one}", np.nan) for one in ("", " unflagged"))
    return {
        **row, "least coverage": np.clip(plain - BELOW, 0, 1), "least unflagged": np.clip(unflagged - FAR_BELOW, 0, 1),
        "most size": max(np.nan_to_num(row.get("non-private size", np.nan)), ALPHA) + SIZE_ABOVE,
    }  # fmt: skip


def rejected(pvalues: np.ndarray) -> float:
    """Share of tests that reject, of those that there are."""
    known = pvalues[np.isfinite(pvalues)]
    return float((known < ALPHA).mean()) if len(known) else np.nan


def measured_of(one: dict[str, np.ndarray]) -> dict[str, float]:
    """Measures of one quantity; intervals without an end cover on that side, as do those that are missing."""
    truth = one["truth"]
    exists = np.isfinite(one["plain"]) & np.isfinite(one["plain ends"]).all(axis=1)
    covers = ~((one["ends"][:, 0] > truth) | (one["ends"][:, 1] < truth))
    plain_covers = ~((one["plain ends"][:, 0] > truth) | (one["plain ends"][:, 1] < truth))
    width, plain_width = (np.ptp(one[field], axis=1) for field in ("ends", "plain ends"))
    bounded = np.isfinite(width)
    error, plain_error = one["estimate"] - truth, one["plain"] - truth
    silent = one["named"] < 0.5

    def share(which: np.ndarray, among: np.ndarray) -> float:
        return float(which[among].mean()) if among.any() else np.nan

    def ratio(name: str, among: np.ndarray) -> dict[str, float]:
        among = among & exists & np.isfinite(error)
        if among.sum() < 2:
            return {name: np.nan, f"error of {name}": np.nan}
        return dict(
            zip((name, f"error of {name}"), map(float, rmse_ratio(error[among], plain_error[among])), strict=True)
        )

    typical = float(np.median(plain_width[exists])) / (2 * NORMAL) if exists.any() else np.nan
    relative = np.where(bounded, width, np.inf)[exists] / plain_width[exists]
    return {
        "truth": float(np.mean(truth)),
        "unflagged fits": int(silent.sum()) if silent.sum() >= FEWEST else 0,
        "coverage": float(covers.mean()),
        "non-private coverage": share(plain_covers, exists),
        "coverage where bounded": share(covers, bounded),
        "unbounded": float(1 - bounded.mean()),
        "flagged": float(one["named"].mean()),
        "coverage unflagged": share(covers, silent),
        "non-private coverage unflagged": share(plain_covers, silent & exists),
        "width ratio": float(np.median(relative)) if exists.any() else np.nan,
        "error of width ratio": 1.25 * float(np.std(relative[np.isfinite(relative)])) / np.sqrt(max(exists.sum(), 1)),
        **ratio("RMSE ratio", np.ones_like(bounded)),
        **ratio("RMSE ratio where bounded", bounded),
        "largest error": float(np.nanmax(np.abs(error))) / typical if np.isfinite(error).any() else np.nan,
        "noise share": float(np.nanmedian(one["noise"])) if "noise" in one else np.nan,
        "size": rejected(one["p"]) if "p" in one else np.nan,
        "non-private size": rejected(one["plain p"]) if "p" in one else np.nan,
        "score size": rejected(one["score p"]) if "score p" in one else np.nan,
    }


# --- what is asked for ----------------------------------------------------------------------------------------------


def at(quantity: str | list[str], mode: str = "drawn", **asked: Any) -> Callable[[pd.DataFrame], pd.Series]:
    """Return what finds rows of a quantity and a mode: at a price and n, of enough n rho, or otherwise as asked."""

    def where(table: pd.DataFrame) -> pd.Series:
        found = table["quantity"].isin([quantity] if isinstance(quantity, str) else quantity) & (table["mode"] == mode)
        for name, value in asked.items():
            column = table[name.replace("_", " ")]
            found &= value(column) if callable(value) else column == value
        return found

    return where


SLOPES = at("slope")
PURE_SLOPES = at("slope", privacy=PURE, n=PURE_N, coefficients=lambda k: k <= PURE_COEFFICIENTS)
PURE_TOLD = f"of slopes on real data, {PURE}, n = {PURE_N:,}, at most {PURE_COEFFICIENTS} coefficients"
RULES = (
    Rule("coverage of 95% intervals of slopes on real data, beside the non-private ones", "coverage",
         limit="least coverage",
         where=SLOPES),
    Rule("coverage of slopes on real data where the noise share is below .5, at most .99 and two Monte Carlo errors",
         "coverage",
         "share", MOST_COVERAGE, where=at("slope", noise_share=lambda share: share < LIGHT_NOISE)),
    Rule("coverage of slopes on real data where no flag names them, beside the non-private ones less .05",
         "coverage unflagged",
         limit="least unflagged", count="unflagged fits",
         where=at("slope", unflagged_fits=lambda count: count >= FEWEST)),
    Rule("coverage of 95% intervals of average effects and predictions on real data, beside the non-private ones",
         "coverage",
         limit="least coverage", where=at(["effect", "prediction"])),
    *(Rule(f"share of unbounded intervals of slopes on real data where n rho is at least {least:g}", "unbounded",
           "share", most,
           where=at("slope", n_rho=lambda information, least=least: information >= least)) for least,
           most in UNBOUNDED.items()),
    Rule(f"share of unbounded intervals {PURE_TOLD}", "unbounded", "share", PURE_UNBOUNDED, where=PURE_SLOPES),
    Rule(f"median width over the non-private one {PURE_TOLD}", "width ratio", "value", PURE_WIDTH, where=PURE_SLOPES),
    *(Rule(f"worst {name} over the non-private one of slopes on real data, {price}, n = {n:,}", f"{name} ratio",
           "value", worst, where=at("slope", privacy=price, n=n))
      for name, asked in (("width", WIDTHS), ("RMSE", ERRORS))
      for (price, n), (_, worst) in asked.items()),
    Rule("RMSE over the non-private one of slopes on real data where the interval is bounded",
         "RMSE ratio where bounded", "value",
         WORST_ERROR, where=at("slope", unbounded=lambda share: share < 0.95)),
    *(Rule(f"size at .05 of {what}", column, "size", "most size", where=at(quantity, mode))
      for what, quantity, mode, column in (
          ("t tests of the truth, slopes on real data", "slope", "drawn", "size"),
          ("joint Wald tests of the truth, slopes on real data", "joint", "drawn", "size"),
          ("t tests of shuffled regressors", "slope", "shuffled", "size"),
          ("joint Wald tests of shuffled regressors", "joint", "shuffled", "size"),
          ("score tests of shuffled regressors", "slope", "shuffled", "score size"),
          ("joint score tests of shuffled regressors", "joint", "shuffled", "score size"),
      )),
)  # fmt: skip


def claims(table: pd.DataFrame, options: Options) -> list[Claim]:
    """Judge medians over all slopes, and write the summary, and a row for each cell."""
    write_table(summary_of(table), "real_data_summary", options, ["Rows by cell are in real_data_cells.csv."])
    write_table(cells_of(table), "real_data_cells", options, ["Rows by coefficient: run the script."])
    found = []
    for name, asked in (("width", WIDTHS), ("RMSE", ERRORS)):
        for (price, n), (typical, _) in asked.items():
            rows = table[at("slope", privacy=price, n=n)(table)]
            if len(rows):
                middle = float(rows[f"{name} ratio"].median())
                design = f"{rows['regression'].nunique()} regressions on real data, {len(rows)} slopes"
                what = f"median {name} over the non-private one of slopes on real data, {price}, n = {n:,}"
                found.append(Claim(what, design, f"{middle:.3g}", middle <= typical, threshold=f"at most {typical:g}"))
    return found


# --- the grid, the summary and the figure ---------------------------------------------------------------------------


def cells() -> list[Cell]:
    """Every regression at all sizes and prices; some under replace_one, too, and some with regressors shuffled."""
    sized = [*product(SIZES, PRICES.values())]
    grid = [Cell(name, n, price, "add_remove", False) for name, (n, price) in product(SEEN, sized)]
    for place, name in enumerate(SEEN):
        if place % EVERY == 1:
            grid += [Cell(name, n, price, "replace_one", False) for n, price in sized]
        if place % EVERY == 0:
            grid += [
                Cell(name, n, PRICES[price], "add_remove", True)
                for n, price in product(SHUFFLED_SIZES, SHUFFLED_PRICES)
            ]
    return grid


def summary_of(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each kind of model, and one for all, by neighbours, price and number of rows."""
    slopes = table[(table["mode"] == "drawn") & (table["quantity"] == "slope")]
    every = pd.concat([slopes, slopes.assign(kind="all")])
    rows = []
    for (kind, neighbors, privacy, n), group in every.groupby(["kind", "neighbors", "privacy", "n"], sort=False):
        rows.append(
            {
                "kind": kind,
                "neighbors": neighbors,
                "privacy": privacy,
                "n": n,
                "regressions": group["regression"].nunique(),
                "slopes": len(group),
                "coverage": group["coverage"].mean(),
                "least coverage": group["coverage"].min(),
                "non-private": group["non-private coverage"].mean(),
                "least non-private": group["non-private coverage"].min(),
                "unbounded": group["unbounded"].mean(),
                "flagged": group["flagged"].mean(),
                "median width ratio": group["width ratio"].median(),
                "worst width ratio": group["width ratio"].max(),
                "median RMSE ratio": group["RMSE ratio"].median(),
                "worst RMSE ratio": group["RMSE ratio"].max(),
                "median noise share": group["noise share"].median(),
                "replicates": group["replicates"].max(),
            }
        )
    return pd.DataFrame(rows)


def cells_of(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each cell: its slope that is covered least, beside the fit without privacy, and the worst."""
    rows = []
    named = ["regression", "kind", "mode", "neighbors", "n", "privacy"]
    for names, group in table.groupby(named, sort=False):
        slopes = group[group["quantity"] == "slope"]
        joint = group[group["quantity"] == "joint"].iloc[0]
        least = slopes.loc[(slopes["coverage"] - slopes["non-private coverage"]).idxmin()]
        rows.append(
            {
                **dict(zip(named, names, strict=True)),
                "slopes": len(slopes),
                "least covered": least["term"],
                "coverage": least["coverage"],
                "non-private": least["non-private coverage"],
                "flagged": least["flagged"],
                "unbounded": slopes["unbounded"].mean(),
                "median width ratio": slopes["width ratio"].median(),
                "worst width ratio": slopes["width ratio"].max(),
                "median RMSE ratio": slopes["RMSE ratio"].median(),
                "worst RMSE ratio": slopes["RMSE ratio"].max(),
                "largest size": slopes["size"].max(),
                "joint size": joint["size"],
                "score size": joint["score size"],
                "replicates": joint["replicates"],
                "held": bool(group["held"].all()),
            }
        )
    return pd.DataFrame(rows)


def figure_of(table: pd.DataFrame) -> Figure:
    """Coverage against the non-private one, and width ratios against the number of rows, for each price."""
    slopes = table[(table["mode"] == "drawn") & (table["quantity"] == "slope")]
    prices = [price for price in PRICES if (slopes["privacy"] == price).any()]
    kinds = [kind for kind in ("linear", "probability", "binary", "count", "robust") if (slopes["kind"] == kind).any()]
    figure = Figure(figsize=(3.7 * max(len(prices), 2), 7), layout="constrained")
    axes = figure.subplots(2, len(prices), squeeze=False, sharey="row")
    least = float(min(slopes["coverage"].min(), slopes["non-private coverage"].min(), 0.9)) - 0.01
    for place, price in enumerate(prices):
        above, below = axes[:, place]
        of_price = slopes[slopes["privacy"] == price]
        for kind, colour in zip(kinds, ("C0", "C1", "C2", "C3", "0.25"), strict=False):
            group = of_price[of_price["kind"] == kind]
            above.plot(group["non-private coverage"], group["coverage"], "o", ms=2.5, alpha=0.5, color=colour, mew=0)
            widths = group.assign(width=group["width ratio"].clip(upper=WIDEST)).groupby("n")["width"]
            below.plot(widths.median(), "o-", ms=3, color=colour, label=kind)
            low, high = widths.quantile(0.1), widths.quantile(0.9)
            below.fill_between(low.index, low, high, color=colour, alpha=0.12, lw=0)
        above.plot([least, 1], [least, 1], color="black", lw=0.8)
        above.plot([least, 1], [least - BELOW, 1 - BELOW], color="firebrick", lw=0.8, ls="--")
        above.set(title=price, xlabel="coverage of non-private intervals", xlim=(least, 1.005), ylim=(least, 1.005))
        below.axhline(1, color="black", lw=0.8)
        below.set(xscale="log", yscale="log", xlabel="n", ylim=(None, 1.1 * WIDEST))
    axes[0, 0].set_ylabel("coverage of private 95% intervals")
    axes[1, 0].set_ylabel(f"width / non-private width (median, 10-90%)\nunbounded or wider: {WIDEST:g}")
    axes[1, 0].legend(fontsize=8, frameon=False)
    return figure


STUDY = Study(
    "real_data", cells, draw, summary, RULES, axes=lambda _: {}, most=1000, also=claims, figure=figure_of,
    by=("regression", "mode", "neighbors", "n", "privacy", "quantity", "term"),
    quick=lambda cell: (cell.name, cell.n, cell.shuffled) in QUICK_CELLS and cell.price == "ZCDP(0.5)",
    notes=(
        f"{len(SEEN)} regressions on data sets of statsmodels and others. Rows are drawn with replacement; the "
        f"truth is "
        "statsmodels' fit of all rows. Unbounded intervals count as covering.",
        "Huber's and quantile regressions are judged by the truth of statsmodels, though ours estimates the scale "
        "otherwise and smooths the check function. The non-private quantile regression is smoothed, too, but less.",
    ),
)  # fmt: skip

"""Errors of private regressions at equal price: by rounds, from a Gram, blocks, a bootstrap, and diffprivlib."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import special

import dpinfer as dpi
from validation.common.outputs import Options, scatter
from validation.common.rules import Claim
from validation.common.study import Drawn, Study

PRICES = {
    "epsilon = 1": dpi.PureDP(1.0),
    "epsilon = 4": dpi.PureDP(4.0),
    "mu = 0.5": dpi.GDP(0.5),
    "mu = 1": dpi.GDP(1.0),
}
METHODS = ("rounds", "gram", "blocks", "bootstrap", "diffprivlib")
SIMULATED, SLOPES = 10_000, np.array([0.6, -0.4, 0.2, 0.0])
LARGEST = 8.0
"""Blocks look for slopes of a logit within this over half the range of the regressor, and for the constant."""


@dataclass(frozen=True, eq=False)
class Design:
    """A population, its schema, and the formula of a regression with numeric regressors."""

    name: str
    model: str
    formula: str
    schema: dpi.Schema

    @property
    def regressors(self) -> list[str]:
        """Names of the regressors."""
        return self.formula.split(" ~ ")[1].split(" + ")

    @property
    def response(self) -> str:
        """Name of the response."""
        return self.formula.split(" ~ ")[0]

    def rows(self, rng: np.random.Generator) -> pd.DataFrame:
        """Draw rows; of a real data set return all."""
        if self.name == "fair":
            return self._real
        x = np.clip(rng.normal(size=(SIMULATED, len(SLOPES))), -4, 4)
        frame = pd.DataFrame(x, columns=self.regressors)
        if self.model == "ols":
            return frame.assign(y=np.clip(0.5 + x @ SLOPES + rng.normal(size=SIMULATED), -12, 12))
        return frame.assign(y=(rng.random(SIMULATED) < special.expit(-0.5 + x @ SLOPES)).astype(float))

    @property
    def limits(self) -> np.ndarray:
        """Declared bounds of the regressors (p, 2)."""
        return np.array([(self.schema[name].lower, self.schema[name].upper) for name in self.regressors], dtype=float)

    @property
    def coefficients(self) -> dict[str, tuple[float, float]]:
        """Where blocks look for coefficients: a regressor moves a mean by no more than its range."""
        halves = (self.limits[:, 1] - self.limits[:, 0]) / 2
        declared = self.schema[self.response]
        most = float(declared.upper - declared.lower) / 2 if self.model == "ols" else LARGEST
        largest = {"Intercept": LARGEST, **dict(zip(self.regressors, most / halves, strict=True))}
        return {name: (-float(one), float(one)) for name, one in largest.items()}

    @cached_property
    def _real(self) -> pd.DataFrame:
        frame = sm.datasets.fair.load_pandas().data
        return frame.assign(affair=(frame["affairs"] > 0).astype(float))

    def ordinary(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Slopes of the fit that is not private, and their robust standard errors."""
        fitted = getattr(smf, self.model)(self.formula, frame)
        found = fitted.fit(cov_type="HC1") if self.model == "ols" else fitted.fit(disp=0, cov_type="HC1")
        return found.params[self.regressors].to_numpy(), found.bse[self.regressors].to_numpy()


@cache
def designs() -> list[Design]:
    """A real data set and a simulated one, for both models."""
    fair = {
        "affair": dpi.Integer(0, 1),
        "rate_marriage": dpi.Integer(1, 5),
        "age": dpi.Real(17, 42),
        "yrs_married": dpi.Real(0, 25),
        "religious": dpi.Integer(1, 4),
    }
    real = dpi.Schema(fair)
    columns = {f"x{place}": dpi.Real(-4, 4) for place in range(len(SLOPES))}
    right = " + ".join(columns)
    return [
        Design("fair", "ols", "rate_marriage ~ age + yrs_married + religious", real),
        Design("fair", "logit", "affair ~ rate_marriage + age + yrs_married + religious", real),
        Design("simulated", "ols", f"y ~ {right}", dpi.Schema({**columns, "y": dpi.Real(-12, 12)})),
        Design("simulated", "logit", f"y ~ {right}", dpi.Schema({**columns, "y": dpi.Integer(0, 1)})),
    ]


def fitted(design: Design, method: str, price: Any, frame: pd.DataFrame, seed: int) -> np.ndarray | None:
    """Slopes by a method at a price; None where it does not serve the model or the price."""
    rng = np.random.default_rng(seed)
    if method == "diffprivlib":
        return _diffprivlib(design, price, frame, seed) if isinstance(price, dpi.PureDP) else None
    if (method == "gram" and design.model != "ols") or (method == "bootstrap" and design.model != "ols"):
        return None
    if method == "bootstrap" and isinstance(price, dpi.PureDP):
        return None
    ask: dict[str, Callable[[Any], dpi.Procedure]] = {
        "rounds": lambda data: getattr(dpi, design.model)(design.formula, data),
        "gram": lambda data: dpi.ols(design.formula, data, method="gram"),
        "blocks": lambda data: dpi.sample_aggregate(
            design.formula,
            data,
            model=sm.OLS if design.model == "ols" else sm.Logit,
            bounds=design.coefficients,
            nobs=len(frame),
            fit_options=None if design.model == "ols" else {"disp": 0},
            n_jobs=1,
        ),
        "bootstrap": lambda data: dpi.bootstrap(design.formula, data),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        params = ask[method](dpi.PublicData(frame, design.schema, rng=rng)).fit(price).params
    return np.array([params[name] for name in design.regressors])


def has_diffprivlib() -> bool:
    """Whether diffprivlib is installed: it is no dependency."""
    return importlib.util.find_spec("diffprivlib") is not None


def _diffprivlib(design: Design, price: dpi.PureDP, frame: pd.DataFrame, seed: int) -> np.ndarray | None:
    """Fit by diffprivlib, regressors scaled to [-1, 1] by their declared bounds."""
    if not has_diffprivlib():
        return None
    from diffprivlib.models import LinearRegression, LogisticRegression  # noqa: PLC0415

    limits = design.limits
    middle, half = limits.mean(axis=1), (limits[:, 1] - limits[:, 0]) / 2
    x, ones = (frame[design.regressors].to_numpy() - middle) / half, np.ones(len(half))
    response, epsilon = frame[design.response].to_numpy(), float(price.epsilon)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if design.model == "ols":
            declared = design.schema[design.response]
            ends = (float(declared.lower), float(declared.upper))
            model = LinearRegression(epsilon=epsilon, bounds_X=(-ones, ones), bounds_y=ends, random_state=seed)
        else:
            model = LogisticRegression(epsilon=epsilon, data_norm=float(np.sqrt(len(half))), random_state=seed)
        return np.ravel(model.fit(x, response).coef_) / half


def draw(cell: tuple[int, str], rng: np.random.Generator, replicates: int) -> Drawn:
    """Squared errors of slopes, of every method and of the fit that is not private.

    Of a real data set the rows stay, and the error of the ordinary fit is its robust standard error.
    """
    (place, price), found = cell, {name: [] for name in ("plain", *METHODS)}
    design = designs()[place]
    for _ in range(replicates):
        frame, seed = design.rows(rng), int(rng.integers(2**31))
        plain, errors = design.ordinary(frame)
        found["plain"].append(errors**2 if design.name == "fair" else (plain - SLOPES) ** 2)
        for method in METHODS:
            served = fitted(design, method, PRICES[price], frame, seed)
            truth = plain if design.name == "fair" else SLOPES
            found[method].append(np.full(len(truth), np.nan) if served is None else (served - truth) ** 2)
    return {name: np.array(rows) for name, rows in found.items()}


def summary(cell: tuple[int, str], drawn: Drawn) -> dict:
    """Root mean squared errors over that of the fit that is not private, squares averaged over slopes."""
    own = 1.0 if designs()[cell[0]].name == "fair" else 0.0
    return {
        method: float(np.sqrt(np.mean(drawn[method].mean(axis=0) / drawn["plain"].mean(axis=0) + own)))
        for method in METHODS
    }


def claims(table: pd.DataFrame, _: Options) -> list[Claim]:
    """State the least ratio of each other method to iterations."""
    slack, found = 1 - 2 / np.sqrt(table["replicates"].max()), []
    made = f"{table['data'].nunique()} data sets, least squares and logit, {len(PRICES)} prices"
    for method in ("blocks", "bootstrap", "diffprivlib"):
        ratio = (table[method] / table["rounds"]).dropna()
        if len(ratio):
            what = f"least error of slopes over that by iterations at equal budget: {method}"
            found.append(Claim(what, f"{len(ratio)} cells: {made}", f"{ratio.min():.2f}", ratio.min() >= slack))
    return found


STUDY = Study(
    "newton_peers", [*product(range(4), PRICES)], draw, summary, most=40, also=claims,
    axes=lambda cell: {"data": designs()[cell[0]].name, "model": designs()[cell[0]].model, "price": cell[1]},
    figure=scatter("price", dict.fromkeys(METHODS, 1.0), ["data", "model"]),
    notes=(
        "Root mean squared error of slopes over that of the fit that is not private, squares averaged over slopes. "
        f"fair: rows that stay, whose ordinary fit has its robust standard errors; simulated: {SIMULATED:,} rows drawn "
        f"anew, "
        "normal regressors within bounds of 4.",
        "Empty cells: a Gram and the bootstrap serve no logit, the bootstrap no pure DP, and diffprivlib no other; "
        "it is left out where it is not installed.",
        "Blocks look for a slope where the regressor moves the mean by no more than its range, or 16 on the scale "
        "of a logit.",
    ),
)  # fmt: skip

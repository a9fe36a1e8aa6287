"""Errors of private regressions at equal price: by rounds, from a Gram, blocks, a bootstrap, and diffprivlib."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from matplotlib.figure import Figure
from scipy import special

import dpinfer as dpi
from validation.common.study import kept_all
from validation.common.rules import Claim
from validation.common.outputs import Options, new_figure, write_table

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


def measure(design: Design, method: str, price: Any, replicates: int, seed: int) -> float:
    """Root mean squared error of slopes over that of the fit that is not private, averaged over slopes in squares.

    Of a real data set the rows stay, and the error of the ordinary fit is its robust standard error.
    """
    squares = []
    for place in range(replicates):
        frame = design.rows(np.random.default_rng([seed, place]))
        found = fitted(design, method, price, frame, seed + place)
        if found is None:
            return float("nan")
        plain, errors = design.ordinary(frame)
        apart = found - (plain if design.name == "fair" else SLOPES)
        squares.append((apart**2, errors**2 if design.name == "fair" else (plain - SLOPES) ** 2))
    private, ordinary = np.mean(squares, axis=0)
    shares = private / ordinary + (1.0 if design.name == "fair" else 0.0)
    return float(np.sqrt(np.mean(shares)))


def ratios(arguments: Options) -> pd.DataFrame:
    """Return a row for each design and price, with the ratio of each method."""
    methods = [method for method in METHODS if method != "diffprivlib" or has_diffprivlib()]
    cells = list(product(designs(), PRICES))
    parts = {
        f"{design.name}-{design.model}-{price.replace(' ', '')}-{method}": partial(
            measure, design, method, PRICES[price], arguments.replicates, arguments.seed
        )
        for (design, price), method in product(cells, methods)
    }
    found = np.reshape(kept_all("newton_peers", parts, arguments), (len(cells), len(methods)))
    rows = [{"data": design.name, "model": design.model, "price": price} for design, price in cells]
    return pd.concat([pd.DataFrame(rows), pd.DataFrame(found, columns=methods)], axis=1)


def figure_of(table: pd.DataFrame) -> Figure:
    """Ratios of every method, cell by cell."""
    figure, axes = new_figure(9, 4.6)
    labels = [f"{one.data}, {one.model}, {one.price}" for one in table.itertuples()]
    for method in METHODS:
        if method in table:
            axes.plot(table[method], np.arange(len(table)), "o", ms=6, alpha=0.8, label=method)
    axes.axvline(1, color="black", lw=0.8)
    axes.set_yticks(np.arange(len(table)), labels, fontsize=8)
    axes.set(xscale="log", xlabel="RMSE of slopes / RMSE of the fit that is not private")
    axes.invert_yaxis()
    axes.legend(fontsize=8, frameon=False)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Measure, write the table and the figure."""
    table = ratios(arguments)
    notes = [
        "Root mean squared error of slopes over that of the fit that is not private, squares averaged over slopes. "
        f"fair: {len(designs()[0].rows(np.random.default_rng(0))):,} rows that stay, whose ordinary fit has its robust "
        f"standard errors; simulated: {SIMULATED:,} rows drawn anew, normal regressors within bounds of 4.",
        "Empty cells: a Gram and the bootstrap serve no logit, the bootstrap no pure price, and diffprivlib no other.",
        "Blocks look for a slope where the regressor moves the mean by no more than its range, or 16 on the scale "
        "of a logit.",
    ]
    if not has_diffprivlib():
        notes.append("diffprivlib is not installed: its column is left out.")
    write_table(table, "newton_peers", arguments, notes, figure_of(table))
    slack = 1 - 2 / np.sqrt(arguments.replicates)
    made = f"{table['data'].nunique()} data sets, least squares and logit, {len(PRICES)} prices"
    claims = []
    for method in ("blocks", "bootstrap", "diffprivlib"):
        if method in table:
            ratio = table[method] / table["rounds"]
            told = f"least error of slopes over that by rounds at equal price: {method}"
            least = float(ratio.min())
            claims.append(Claim(told, f"{int(ratio.notna().sum())} cells: {made}", f"{least:.2f}", least >= slack))
    return claims

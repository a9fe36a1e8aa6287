"""Coverage and width of private intervals of quantile and Huber regressions by noisy Newton rounds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import statsmodels.api as sm
from scipy import stats

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression.question import Newton
from validation.common.outputs import scatter
from validation.common.rules import Claim, Rule
from validation.common.study import Drawn, Study
from validation.regression.newton_draws import Drawer, covers, replicates

SLOPES = np.array([0.0, 0.8, -0.5, 0.6])
BOUND = 12.0
WIDTH_CAP, SMALL_NOISE = 1.15, 0.1
LAWS = {
    "normal": stats.norm(),
    "t3": stats.t(3),
    "exponential": stats.expon(-1),
    "heteroscedastic": stats.norm(),
}
PRICES = {
    "rho = 0.05": dpi.ZCDP(0.05),
    "rho = 0.5": dpi.ZCDP(0.5),
    "mu = 1": dpi.GDP(1.0),
    "epsilon = 2": dpi.PureDP(2.0),
    "epsilon = 2, delta = 1e-6": dpi.ApproxDP(2.0, 1e-6),
}


@dataclass(frozen=True)
class Cell:
    """A model ("huber", or a quantile q), a law of errors, a number of rows, a price; y = .8 a - .5 b + .6 c + error.

    a is normal with standard deviation .35, b is -1 or 1, c is skewed (Beta(2, 5)). Heteroscedastic errors are
    (1 + a/2) times normal ones. The bounds of y cut fewer than one t3 error in a thousand.
    """

    model: str
    errors: str
    n: int
    price: str
    neighbors: str = "add_remove"

    @property
    def question(self) -> Newton:
        """The question that is asked."""
        if self.model == "huber":
            return Newton(formula="y ~ a + b + c", model="huber")
        return Newton(formula="y ~ a + b + c", model="quantile", parameter=float(self.model))

    def context(self) -> Context:
        """The schema, the relation, the price, and n where it is public."""
        policy = {} if self.neighbors == "add_remove" else {"missing": 0.0, "impossible": 0.0}
        columns = {name: dpi.Real(-1, 1, **policy) for name in "abc"}
        schema = dpi.Schema({**columns, "y": dpi.Real(-BOUND, BOUND, **policy)})
        nobs = self.n if self.neighbors == "replace_one" else None
        return Context(schema, self.neighbors, PRICES[self.price], nobs=nobs)

    def rows(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw regressors with the constant (n, 4), and the response."""
        x = design(rng, self.n)
        error = LAWS[self.errors].rvs(size=self.n, random_state=rng)
        spread = 1 + 0.5 * x[:, 1] if self.errors == "heteroscedastic" else 1.0
        return x, x @ SLOPES + spread * error

    @property
    def truth(self) -> np.ndarray:
        """The conditional quantile, or Huber's estimand."""
        if self.model == "huber":
            return SLOPES + huber_of(self.errors) * np.eye(4)[0]
        moved = float(LAWS[self.errors].ppf(float(self.model)))
        return SLOPES + moved * np.array([1.0, 0.5 if self.errors == "heteroscedastic" else 0.0, 0.0, 0.0])

    @property
    def oracle(self) -> np.ndarray:
        """Standard errors without noise: of quantiles the sandwich with the true density, of Huber's the sandwich."""
        return oracle_of(self.model, self.errors) / np.sqrt(self.n)


def design(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw the constant and three regressors (n, 4)."""
    a = np.clip(rng.normal(0, 0.35, n), -1, 1)
    return np.column_stack([np.ones(n), a, np.where(rng.random(n) < 0.4, 1.0, -1.0), 2 * rng.beta(2, 5, n) - 1])


@cache
def huber_of(errors: str) -> float:
    """Huber's centre of a law, residuals cut at 1.345 times their median absolute deviation about it."""
    points = LAWS[errors].ppf((np.arange(200_000) + 0.5) / 200_000)
    return float(sm.RLM(points, np.ones(len(points))).fit(maxiter=200, tol=1e-10).params[0])


@cache
def oracle_of(model: str, errors: str) -> np.ndarray:
    """Standard errors times the root of n."""
    x = design(np.random.default_rng(5), 400_000)
    spread = 1 + 0.5 * x[:, 1] if errors == "heteroscedastic" else np.ones(len(x))
    law = LAWS[errors]
    if model == "huber":
        centre = huber_of(errors)
        noise = spread * law.rvs(size=len(x), random_state=np.random.default_rng(6)) - centre
        cut = 1.345 * float(np.median(np.abs(noise))) / float(stats.norm.ppf(0.75))
        score, slope = np.clip(noise, -cut, cut), (np.abs(noise) <= cut).astype(float)
    else:
        q = float(model)
        score = np.full(len(x), np.sqrt(q * (1 - q)))
        slope = float(law.pdf(law.ppf(q))) / spread
    inverse = np.linalg.inv((x * slope[:, None]).T @ x / len(x))
    meat = (x * (score**2)[:, None]).T @ x / len(x)
    return np.asarray(np.sqrt(np.diag(inverse @ meat @ inverse)))


def cells() -> list[Cell]:
    """The grid, and other units and the other relation on part of it.

    The upper tail of a symmetric law repeats the lower one, and 10,000 rows at the larger price repeat what 2,000 show.
    """
    main = [
        Cell(model, errors, n, price)
        for model in ("0.1", "0.5", "0.9", "huber")
        for errors in (("exponential", "heteroscedastic") if model == "0.9" else LAWS)
        for n, price in ((2000, "rho = 0.05"), (2000, "rho = 0.5"), (10_000, "rho = 0.05"))
    ]
    others = [
        Cell(model, errors, 5000, price, neighbors)
        for model in ("0.1", "0.5", "huber")
        for errors in (("normal",) if model == "0.5" else ("exponential",))
        for price, neighbors in (*((one, "add_remove") for one in list(PRICES)[2:]), ("rho = 0.5", "replace_one"))
    ]
    return main + others


def data(cell: Cell, rng: np.random.Generator) -> tuple[dict, dict]:
    """Draw one data set as columns."""
    x, y = cell.rows(rng)
    return {"a": x[:, 1], "b": x[:, 2], "c": x[:, 3], "y": np.clip(y, -BOUND, BOUND)}, {}


def draw(cell: Cell, rng: np.random.Generator, count: int) -> Drawn:
    """Draw and fit."""

    def more(fit: Any) -> dict:
        noise = np.diag(fit.cov_noise)
        return {"share": (noise / (noise + np.diag(fit.cov_sampling))).max(), "flags": bool(fit.flags)}

    return replicates(Drawer(cell.question, cell.context()), partial(data, cell), cell.truth, rng, count, more=more)


def summary(cell: Cell, drawn: Drawn) -> dict:
    """Compare to the truth and to the oracle; unbounded intervals are left out of the median width."""
    covered, width = covers(drawn["ends"], cell.truth).mean(axis=0), np.ptp(drawn["ends"], axis=-1)
    widths = np.where(np.isfinite(width), width, np.nan) / (2 * stats.norm.ppf(0.975) * cell.oracle)
    bias = np.median(drawn["error"], axis=0) / cell.oracle
    wide = np.nanmedian(widths, axis=0) if np.isfinite(widths).any() else np.full(4, np.inf)
    share = float(np.median(drawn["share"]))
    return {
        "kind": "Huber" if cell.model == "huber" else "quantile", "intercept": covered[0],
        "worst slope": covered[1:].min(),
        "worst": covered.min(), "width / oracle": float(wide.max()),
        "error of width / oracle": 1.25 * float(np.nanstd(widths[:, np.argmax(wide)])) / np.sqrt(len(widths)),
        "bias / oracle": float(bias[np.argmax(np.abs(bias))]), "noise share": share,
        "unbounded": float(np.isnan(widths).any(axis=1).mean()), "flagged": float(drawn["flags"].mean()),
    }  # fmt: skip


def equality() -> float:
    """Largest difference to statsmodels' `RLM` in its standard errors, at a price that leaves no noise (normal, t3)."""
    found = []
    for errors in ("normal", "t3"):
        cell = Cell("huber", errors, 5000, "rho = 0.5")
        context = Context(cell.context().schema, "add_remove", dpi.ZCDP(1e8))
        rng = np.random.default_rng(1)
        x, y = cell.rows(rng)
        y = np.clip(y, -BOUND, BOUND)
        fit = Drawer(cell.question, context).estimate({"a": x[:, 1], "b": x[:, 2], "c": x[:, 3], "y": y}, rng)
        theirs = sm.RLM(y, x, M=sm.robust.norms.HuberT()).fit()
        found.append(float(np.abs((fit.params - theirs.params) / theirs.bse).max()))
    return max(found)


def equality_claim(*_: Any) -> list[Claim]:
    """State the distance to statsmodels."""
    apart = equality()
    return [Claim("largest difference to statsmodels' RLM, in standard errors, without noise",
                  "normal and t3 errors, n = 5,000, rho = 1e8", f"{apart:.4f}", apart < 0.02)]  # fmt: skip


STUDY = Study(
    "robust_coverage", cells, draw, summary,
    (
        Rule("least coverage of 95% intervals, {part} regression", "worst", split="kind", quantities=4,
             design="54 cells: n 2,000-10,000, four laws of errors, four units, both relations"),
        Rule("largest median width over the oracle's where noise is small, {part} regression", "width / oracle",
             "width",
             WIDTH_CAP, split="kind", where=lambda table: table["noise share"] <= SMALL_NOISE),
    ),
    figure=scatter("noise share", {"worst": 0.95, "width / oracle": WIDTH_CAP}, ["kind", "errors"], log=False),
    also=equality_claim,
    notes=(f"Coverage of the intercept and of every slope; where noise is at most {SMALL_NOISE:.0%} of the variance, "
           f"median width at most {WIDTH_CAP:g} times the oracle's, who knows the true density at the quantile and "
           f"has no noise.",),
)  # fmt: skip

"""Coverage and width of private least squares by noisy Newton rounds, right models and wrong ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
from scipy import stats

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression.question import Newton
from validation.common.outputs import scatter
from validation.common.rules import Rule
from validation.common.study import Drawn, Study, mean_ratio, rmse_ratio
from validation.regression.newton_draws import Drawer, covers, replicates

SLACK = 0.81
"""Times the root of the replicates: what chance leaves of all that is marked, at level 1e-4 and a share of 5%."""

MOST_MARKED, CLEAR = 0.05, 1000.0
OF_INTERCEPT = 0.0076
"""Intercepts may cover so much less than slopes: .93 where .9376 is asked for."""

SLOPES = np.array([0.2, 0.8, -0.5, 0.6])
KINDS = ("normal", "spread", "quadratic", "shares", "t3", "exponential", "lognormal", "lognormal by x", "lognormal x")
WRONG = ("exponential x squared", "lognormal x beyond its bound")
"""Models that are wrong because of few rows far out: shown, not claimed."""

FAR = float(np.exp(stats.norm.ppf(0.995)))
"""Bound of a lognormal regressor, which one row of 200 is beyond."""

PRICES = {"rho = 0.05": dpi.ZCDP(0.05), "rho = 0.1": dpi.ZCDP(0.1), "rho = 0.5": dpi.ZCDP(0.5)}
OTHERS = {"GDP(1)": dpi.GDP(1.0), "PureDP(4)": dpi.PureDP(4.0), "ApproxDP(2, 1e-6)": dpi.ApproxDP(2.0, 1e-6)}


@dataclass(frozen=True)
class Cell:
    """One way to draw data, and how it is asked of."""

    kind: str
    n: int
    price: str
    neighbors: str = "add_remove"

    @property
    def bound(self) -> float:
        """Declared bound of the response."""
        return 10.0 if self.kind in ("normal", "spread", "quadratic", "shares") else 80.0

    def context(self) -> Context:
        """The schema, the relation, the price, and n where it is public."""
        policy = {} if self.neighbors == "add_remove" else {"missing": 0.0, "impossible": 0.0}
        columns = {name: dpi.Real(-1, 1, **policy) for name in "abc"}
        schema = dpi.Schema({**columns, "y": dpi.Real(-self.bound, self.bound, **policy)})
        nobs = self.n if self.neighbors == "replace_one" else None
        return Context(schema, self.neighbors, {**PRICES, **OTHERS}[self.price], nobs=nobs)

    def _first(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw the first regressor within its bounds, and what it adds to a response that is not linear in it."""
        if self.kind == "exponential x squared":
            x = rng.exponential(size=n)
            return np.clip(x / 4 - 1, -1, 1), np.minimum(x, 8) ** 2
        if self.kind in ("lognormal x", "lognormal x beyond its bound"):
            x = rng.lognormal(size=n)
            kept = np.minimum(x, FAR)
            return kept * 2 / FAR - 1, 0.5 * (kept if self.kind == "lognormal x" else x)
        a = np.clip(rng.normal(0, 0.35, n), -1, 1)
        return a, SLOPES[1] * a

    def rows(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw regressors with the constant (n, 4), and the response."""
        a, whole = self._first(rng, n)
        x = np.column_stack([np.ones(n), a, np.where(rng.random(n) < 0.4, 1.0, -1.0), 2 * rng.beta(2, 5, n) - 1])
        if self.kind in (*WRONG, "lognormal x"):
            return x, np.clip(x @ SLOPES - SLOPES[1] * a + whole + rng.normal(size=n), -self.bound, self.bound)
        if self.kind == "shares":  # a linear probability model, a tenth of the rows treated
            x[:, 2] = np.where(rng.random(n) < 0.1, 1.0, -1.0)
            return x, (rng.random(n) < 1 / (1 + np.exp(1 - x @ SLOPES))).astype(float)
        skewed = np.exp(rng.normal(size=n)) - np.exp(0.5)
        error = {
            "normal": lambda: rng.normal(size=n),
            "spread": lambda: (0.2 + np.abs(a)) * rng.normal(size=n),
            "quadratic": lambda: 0.5 * rng.normal(size=n) + 3 * a**2,
            "t3": lambda: rng.standard_t(3, n),
            "exponential": lambda: rng.exponential(size=n) - 1,
            "lognormal": lambda: skewed,
            "lognormal by x": lambda: (1 + 0.8 * a) * skewed,
        }[self.kind]()
        return x, np.clip(x @ SLOPES + error, -self.bound, self.bound)


@cache
def population(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of the population, and standard errors of least squares times the root of n: the sandwich."""
    drawn = [Cell(kind, 0, "").rows(np.random.default_rng([9, part]), 400_000) for part in range(8)]
    inverse = np.linalg.inv(np.sum([x.T @ x for x, _ in drawn], axis=0))
    truth = inverse @ np.sum([x.T @ y for x, y in drawn], axis=0)
    scores = [x * (y - x @ truth)[:, None] for x, y in drawn]
    meat = np.sum([one.T @ one for one in scores], axis=0)
    return truth, np.sqrt(np.diag(inverse @ meat @ inverse) * sum(len(y) for _, y in drawn))


def cells() -> list[Cell]:
    """The grid, and other units and the other relation on part of it."""
    sizes, ends = (500, 2000, 10_000, 50_000), ("rho = 0.05", "rho = 0.5")
    main = [Cell(*one) for one in (*product(KINDS, sizes, ends), *product(WRONG, sizes, PRICES))]
    others = [Cell(kind, 10_000, price) for kind in ("normal", "lognormal") for price in OTHERS]
    return main + others + [Cell("normal", 10_000, "rho = 0.5", "replace_one")]


def draw(cell: Cell, rng: np.random.Generator, count: int) -> Drawn:
    """Draw and fit; what is flagged or not determined is marked."""

    def rows(rng: np.random.Generator) -> tuple[dict, dict]:
        x, y = cell.rows(rng, cell.n)
        ordinary = np.linalg.lstsq(x, y, rcond=None)[0] - population(cell.kind)[0]
        return {"a": x[:, 1], "b": x[:, 2], "c": x[:, 3], "y": y}, {"ordinary": ordinary}

    drawer = Drawer(Newton(formula="y ~ a + b + c", model="ols"), cell.context())
    return replicates(drawer, rows, population(cell.kind)[0], rng, count,
                      more=lambda fit: {"noted": fit.fit.flagged or bool(fit.notes)})  # fmt: skip


def summary(cell: Cell, drawn: Drawn) -> dict:
    """Compare with the population; widths are those of finite intervals."""
    truth, oracle = population(cell.kind)
    ends, width = drawn["ends"], np.ptp(drawn["ends"], axis=-1)
    covered, left = covers(ends, truth), ~(drawn["noted"][:, None] | ~np.isfinite(width))
    mean, _ = mean_ratio(width, 2 * stats.norm.ppf(0.975) * oracle / np.sqrt(cell.n))
    unmarked = [covered[left[:, j], j].mean() for j in (1, 2, 3) if left[:, j].any()]
    ratio, _ = rmse_ratio(drawn["error"], drawn["ordinary"])
    marked = float((~left).mean(axis=0).max())
    # Where all is marked nothing is judged; the intercept may cover less.
    judged = marked < 1 - SLACK / np.sqrt(len(ends))
    clear = cell.n * float(getattr(PRICES.get(cell.price), "rho", 0.0)) >= CLEAR
    return {
        "intercept": float(covered[:, 0].mean()), "worst slope": float(covered[:, 1:].mean(axis=0).min()),
        "unmarked slope": float(min(unmarked, default=np.nan)), "width / oracle": float(np.nanmax([*mean[1:], -1])),
        "intercept width": float(mean[0]), "RMSE / ordinary": float(ratio[1:].max()), "marked": marked,
        "not determined": float((~np.isfinite(width)).mean(axis=0).max()), "wrong": cell.kind in WRONG,
        "judged slope": float(covered[:, 1:].mean(axis=0).min()) if judged else np.nan,
        "judged intercept": float(covered[:, 0].mean()) if judged else np.nan,
        "judged marks": marked if clear and cell.kind not in WRONG else np.nan,
    }  # fmt: skip


def claimed(which: str, *, wrong: bool) -> tuple[Rule, ...]:
    """Return what is asked of right models, or of wrong ones."""

    def where(table: pd.DataFrame) -> pd.Series:
        return table["wrong"] == wrong

    return (
        Rule(f"least coverage of 95% intervals of a slope, least squares by iterations: {which}", "judged slope",
             quantities=3,
             where=where, design=f"n 500-50,000, rho .05-.5, {2 if wrong else 9} designs"),
        Rule("", "judged intercept", limit=0.95 - OF_INTERCEPT, where=where),
        Rule("", "judged marks", "share", MOST_MARKED, where=where),
    )  # fmt: skip


STUDY = Study(
    "newton_ols", cells, draw, summary,
    (*claimed("right models", wrong=False), *claimed("wrong models with rows far out", wrong=True)),
    figure=lambda table: scatter(
        lambda rows: rows["n"] * rows["price"].map({name: float(one.rho) for name, one in PRICES.items()}),
        {"worst slope": 0.95, "width / oracle": 1.1}, "kind", label="n rho",
    )(table[table["price"].isin(PRICES)]),
    notes=(
        f"Slopes cover unless all fits are flagged, intercepts {OF_INTERCEPT:g} less; where n rho is at least "
        f"{CLEAR:g}, a term is flagged or not determined in at most {MOST_MARKED:.0%} of fits. Nothing is claimed "
        f"for wrong models with "
        "rows far out: few rows decide, and noise hides them. Widths, of finite intervals, are over those of the "
        "population's sandwich, without a cap.",
    ),
)  # fmt: skip

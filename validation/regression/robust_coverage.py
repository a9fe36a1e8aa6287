"""Coverage and width of private intervals of quantile and Huber regressions by noisy Newton rounds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache

import numpy as np
import pandas as pd
import statsmodels.api as sm
from matplotlib.figure import Figure
from scipy import stats

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression.question import Newton
from validation.common.cells import measured
from validation.common.claims import RULES, Claim, largest_width, least_coverage
from validation.common.outputs import Options, limits, new_figure, write_table
from validation.regression.newton_draws import Drawer

CELL = ["model", "errors", "n", "price", "neighbors"]
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
COLORS = {"normal": "C0", "t3": "C1", "exponential": "C2", "heteroscedastic": "C3"}


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
    """The grid, and other units and the other relation on part of it."""
    main = [
        Cell(model, errors, n, price)
        for model in ("0.1", "0.5", "0.9", "huber")
        for errors in LAWS
        for n in (2000, 10_000)
        for price in ("rho = 0.05", "rho = 0.5")
    ]
    others = [
        Cell(model, errors, 5000, price, neighbors)
        for model in ("0.1", "0.5", "huber")
        for errors in ("normal", "exponential")
        for price, neighbors in (*((one, "add_remove") for one in list(PRICES)[2:]), ("rho = 0.5", "replace_one"))
    ]
    return main + others


def measure(cell: Cell, place: int, replicates: int, seed: int) -> dict:
    """Draw, fit, and compare to the truth and to the oracle; unbounded intervals are left out of the mean width."""
    drawer = Drawer(cell.question, cell.context())
    rng = np.random.default_rng([seed, place])
    truth, oracle = cell.truth, cell.oracle
    ends, errors, shares, flagged = [], [], [], []
    for _ in range(replicates):
        x, y = cell.rows(rng)
        fit = drawer.estimate({"a": x[:, 1], "b": x[:, 2], "c": x[:, 3], "y": np.clip(y, -BOUND, BOUND)}, rng)
        ends.append(fit.intervals(np.eye(4), 0.05))
        errors.append(fit.params - truth)
        noise = np.diag(fit.cov_noise)
        shares.append(float((noise / (noise + np.diag(fit.cov_sampling))).max()))
        flagged.append(bool(fit.flags))
    low, high = np.array(ends)[..., 0], np.array(ends)[..., 1]
    covered = ((low <= truth) & (truth <= high)).mean(axis=0)
    widths = np.where(np.isfinite(high - low), high - low, np.nan) / (2 * stats.norm.ppf(0.975) * oracle)
    return {
        **asdict(cell),
        "intercept": float(covered[0]),
        "worst slope": float(covered[1:].min()),
        "width / oracle": float(np.nanmedian(widths, axis=0).max()) if np.isfinite(widths).any() else float("inf"),
        "bias / oracle": float(
            (np.median(errors, axis=0) / oracle)[np.argmax(np.abs(np.median(errors, axis=0) / oracle))]
        ),
        "noise share": float(np.median(shares)),
        "unbounded": float(np.isnan(widths).any(axis=1).mean()),
        "flagged": float(np.mean(flagged)),
        "replicates": replicates,
    }


def widest(replicates: int) -> float:
    """Largest median width over the oracle's that is allowed; few replicates leave it uncertain by a few percent."""
    return WIDTH_CAP if replicates >= 1000 else WIDTH_CAP + 0.3 / np.sqrt(replicates)


def judged(table: pd.DataFrame, least: float) -> pd.DataFrame:
    """Say which cells hold: coverage everywhere, width where noise is small."""
    cap = widest(int(table["replicates"].iloc[0]))
    right = table[["intercept", "worst slope"]].min(axis=1) >= least
    narrow = (table["width / oracle"] <= cap) | (table["noise share"] > SMALL_NOISE)
    return table.assign(covers=right, narrow=narrow)


def figure_of(table: pd.DataFrame, least: float) -> Figure:
    """Coverage and width against the share of noise."""
    figure, (left, right) = new_figure(10, 4.2, 1, 2)
    for errors, group in table.groupby("errors"):
        for is_huber, part in group.groupby(group["model"] == "huber"):
            style = {
                "marker": "s" if is_huber else "o",
                "ls": "",
                "ms": 4.5,
                "alpha": 0.75,
                "color": COLORS[str(errors)],
            }
            worst = part[["intercept", "worst slope"]].min(axis=1)
            left.plot(part["noise share"], worst, label=f"{errors}{', Huber' if is_huber else ''}", **style)
            right.plot(part["noise share"], part["width / oracle"], **style)
    limits(left, 0.95, least, "least allowed")
    left.set(xlabel="share of noise in the variance", ylabel="coverage of 95% intervals, worst coefficient")
    left.legend(fontsize=7, frameon=False)
    right.axhline(WIDTH_CAP, color="firebrick", lw=0.8, ls="--")
    right.axvline(SMALL_NOISE, color="grey", lw=0.8, ls=":")
    right.set(xlabel="share of noise in the variance", ylabel="median width / oracle", ylim=(0.8, 3))
    return figure


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


def run(arguments: Options) -> list[Claim]:
    """Run every cell, judge it, write the table and the figure."""
    least = RULES.least_coverage(arguments.replicates, 0.95)
    table = judged(measured("robust_coverage", cells(), measure, arguments), least)
    notes = [
        f"Cells: {len(table)}; too little coverage: {int((~table['covers']).sum())}; too wide: "
        f"{int((~table['narrow']).sum())}.",
        f"Rules: coverage of the intercept and of every slope at least {least:.4f}; where noise is at most "
        f"{SMALL_NOISE:.0%} of the variance, median width at most {widest(arguments.replicates):.3g} times the "
        "oracle's. The oracle knows the true density at the quantile and has no noise.",
    ]
    write_table(table, "robust_coverage", arguments, notes, figure_of(table, least))
    return _claims(table)


def _claims(table: pd.DataFrame) -> list[Claim]:
    claims = []
    for name, part in (("quantile", table[table["model"] != "huber"]), ("Huber", table[table["model"] == "huber"])):
        design_ = f"{len(part)} cells: n 2,000-10,000, four laws of errors, four units, both relations"
        claims.append(
            least_coverage(
                f"least coverage of 95% intervals, {name} regression",
                part.assign(coverage=part[["intercept", "worst slope"]].min(axis=1)),
                by=CELL,
                held="covers",
                quantities=3,
                design=design_,
            )
        )
        claims.append(
            largest_width(
                f"largest median width over the oracle's where noise is small, {name} regression",
                part[part["noise share"] <= SMALL_NOISE],
                by=CELL,
                cap=widest(int(table["replicates"].iloc[0])),
            )
        )
    apart = equality()
    claims.append(
        Claim(
            "largest difference to statsmodels' RLM, in standard errors, without noise",
            "normal and t3 errors, n = 5,000, rho = 1e8",
            f"{apart:.4f}",
            apart < 0.02,
        )
    )
    return claims

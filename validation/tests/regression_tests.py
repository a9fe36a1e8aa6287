"""Size and power of simulated-null F tests of private regressions, beside the limiting test and the ordinary one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

import dpinfer as dpi
from dpinfer.kernel.measurement import Measurement
from dpinfer.privacy import Privacy
from dpinfer.regression.gram import GramFit, GramProblem, fit_gram
from dpinfer.regression.gram_inference import LinearRestrictions, gram_values, joint_loadings, score_joint
from dpinfer.statistics.tails import joint_pvalue
from validation.common.cells import kept_all
from validation.common.claims import Claim, largest_size
from validation.common.leaves import DRAWS, LEVELS, rejections
from validation.common.outputs import Options, limits, new_figure, write_figure, write_table

Array = NDArray[np.float64]


SIZES = (100, 1000, 10_000)
PRICES = (dpi.ZCDP(0.005), dpi.ZCDP(0.05), dpi.ZCDP(0.5), dpi.PureDP(1.0))
CLEAR = (dpi.ZCDP(5.0), dpi.ZCDP(20.0))
"""Prices at which the noise of the error variance of 100 rows is about as large as it: run with these alone."""

FALSE_ALARM = 1e-4
EFFECTS = (0.0, 0.05, 0.1, 0.15, 0.2)
TOGETHER = 2_000_000


@dataclass(frozen=True)
class Kind:
    """One way to draw data: regressors in [-1, 1], normal errors cut at 3 standard deviations, no bound clips.

    The tested slopes are zero (or ``effect`` each), the others alternate in sign and have size ``others / slopes``.
    Regressors are uniform, or collinear (correlation .997), or use a tenth of their bounds (loose). The bounds of the
    response fit, or are ``wide`` times that.
    """

    regressors: str
    slopes: int
    tested: int
    neighbors: str
    others: float = 0.5
    sigma: float = 0.3
    wide: float = 1.0
    effect: float = 0.0

    @property
    def name(self) -> str:
        return self.regressors + ("" if self.wide == 1 else ", wide response")

    @property
    def beta(self) -> Array:
        beta = self.others / self.slopes * np.where(np.arange(self.slopes) % 2, -1.0, 1.0)
        beta[: self.tested] = self.effect
        return beta

    @property
    def reach(self) -> float:
        return 0.1 if self.regressors == "loose" else 1.0

    @property
    def bound(self) -> float:
        """Declared bound of the response; without the effect, so that power is compared at one measurement."""
        return self.wide * (self.others + self.tested * max(EFFECTS) + 3 * self.sigma)

    def draw(self, rng: np.random.Generator, n: int, count: int) -> Array:
        """Sums of z z' of ``count`` data sets of n rows (count, d, d), z = (1, regressors, scaled response)."""
        width, together = self.slopes + 2, max(TOGETHER // n, 1)
        sums = np.empty((count, width, width))
        for start in range(0, count, together):
            size = min(together, count - start)
            x = rng.uniform(-1.0, 1.0, (size, n, self.slopes))
            if self.regressors == "collinear":
                x = 0.95 * rng.uniform(-1.0, 1.0, (size, n, 1)) + 0.05 * x
            x *= self.reach
            y = x @ self.beta + self.sigma * np.clip(rng.standard_normal((size, n)), -3.0, 3.0)
            rows = np.concatenate([np.ones((size, n, 1)), x, y[..., None] / self.bound], axis=2)
            sums[start : start + size] = np.swapaxes(rows, 1, 2) @ rows
        return sums

    def model(self, price: Privacy) -> tuple[LinearRestrictions, Measurement]:
        """The test, and the measurement that it reads."""
        policy = {} if self.neighbors == "add_remove" else {"missing": 0.0, "impossible": 0.0}
        names = [f"x{place}" for place in range(self.slopes)]
        columns = {name: dpi.Real(-1.0, 1.0, **policy) for name in names}
        schema = dpi.Schema({**columns, "y": dpi.Real(-self.bound, self.bound, **policy)})
        measured = dpi.ols("y ~ " + " + ".join(names), method="gram").measurement(
            price, schema=schema, neighbors=self.neighbors
        )
        steps, width = np.asarray(measured.steps), self.slopes + 2
        variances = symmetric(measured.law.variances * steps**2, width)
        response = np.eye(width)[-1] * self.bound
        problem = GramProblem(variances, np.eye(width)[:-1], response, measured.law.family == "laplace")
        tested = np.eye(self.slopes + 1)[1 : self.tested + 1]
        return LinearRestrictions(problem, tested, np.zeros(self.tested), measured.law, steps), measured


KINDS = (
    Kind("uniform", 3, 2, "add_remove"),
    Kind("uniform", 3, 2, "replace_one", wide=5.0),
    Kind("loose", 5, 5, "add_remove"),
    Kind("collinear", 5, 5, "replace_one"),
)


def symmetric(triangles: Array, width: int) -> Array:
    """Matrices (..., d, d) of upper triangles (..., m)."""
    upper = np.triu_indices(width)
    full = np.zeros((*triangles.shape[:-1], width, width))
    full[..., upper[0], upper[1]] = full[..., upper[1], upper[0]] = triangles
    return full


def cell(kind: Kind, n: int, price: Privacy, sums: Array, rng: np.random.Generator) -> dict:
    """Shares of rejections by the simulated null and by the limiting distribution, one release for each data set."""
    model, measured = kind.model(price)
    noise = measured.law.rvs(len(sums), rng) * np.asarray(measured.steps)
    gram = sums + symmetric(noise, sums.shape[-1])
    fit = fit_gram(model.problem, gram, gram[:, 0, 0])
    statistic, df = score_joint(fit, model.restrictions, model.targets[None])
    limiting = limiting_pvalues(fit, model, statistic, df)
    rejected = rejections(model, gram_values(gram, gram[:, 0, 0]), rng, 4000)
    row = {
        "regressors": kind.name,
        "slopes": kind.slopes,
        "tested": kind.tested,
        "neighbors": kind.neighbors,
        "n": n,
        "price": str(price),
        "kappa": float(np.median(fit.kappa)),
    }
    for place, level in enumerate(LEVELS):
        row[f"size at {level:g}"] = float(rejected[:, place].mean())
    for level in LEVELS:
        row[f"limiting at {level:g}"] = float((limiting <= level).mean())
    return {**row, "replicates": len(sums)}


def limiting_pvalues(fit: GramFit, model: LinearRestrictions, statistic: Array, df: Array) -> Array:
    """P-values (R,) of `wald_test` without simulation: F, or Laplace noise by its own law."""
    count, loadings = float(model.dof), joint_loadings(fit, model.restrictions)
    if loadings is None:
        return np.asarray(stats.f.sf(statistic / count, count, df))
    return np.array(
        [joint_pvalue(float(s), count, float(d), one) for s, d, one in zip(statistic, df, loadings, strict=True)]
    )


def sizes(kind: Kind, n: int, replicates: int, seed: int) -> list[dict]:
    """Every price on the same data sets."""
    rng = np.random.default_rng([seed, n, KINDS.index(kind)])
    sums = kind.draw(rng, n, replicates)
    prices = (*PRICES, *CLEAR) if n == SIZES[0] else PRICES
    return [cell(kind, n, price, sums, rng) for price in prices]


def power(effect: float, n: int, replicates: int, seed: int) -> list[dict]:
    """Power of the joint test of two slopes of three, beside the ordinary F test on the rows."""
    kind = Kind("uniform", 3, 2, "add_remove", effect=effect)
    rng = np.random.default_rng([seed, n, round(1000 * effect)])
    sums = kind.draw(rng, n, replicates)
    rows = []
    for price in PRICES[1:]:
        found = cell(kind, n, price, sums, rng)
        model, _ = kind.model(price)
        exact = fit_gram(GramProblem(0 * model.problem.noise, *model_columns(model)), sums, sums[:, 0, 0])
        statistic, df = score_joint(exact, model.restrictions, model.targets[None])
        ordinary = float((stats.f.sf(statistic / 2, 2, df) <= LEVELS[0]).mean())
        rows.append(
            {
                "n": n,
                "slope": effect,
                "price": str(price),
                "simulated null": found["size at 0.05"],
                "limiting": found["limiting at 0.05"],
                "ordinary F test": ordinary,
                "replicates": replicates,
            }
        )
    return rows


def model_columns(model: LinearRestrictions) -> tuple[Array, Array]:
    """Regressors and response of a regression."""
    return model.problem.design, model.problem.response


def largest(replicates: int, level: float, tests: int) -> float:
    """Share of rejections that a test of a true hypothesis exceeds with probability `FALSE_ALARM` over all tests."""
    return float(stats.binom.isf(FALSE_ALARM / tests, replicates, level)) / replicates


def figure_of(table: pd.DataFrame, powers: pd.DataFrame, bound: float) -> Figure:
    """Size against kappa, and power against the slopes."""
    figure, (left, right) = new_figure(10.5, 4.3, 1, 2)
    left.plot(table["kappa"], table["limiting at 0.05"], "x", color="#f18f01", ms=5, label="limiting distribution")
    left.plot(table["kappa"], table["size at 0.05"], "o", color="#03396c", ms=4, label="simulated null")
    limits(left, 0.05, bound, "most allowed")
    left.set(xscale="symlog", xlabel="kappa (median)", ylabel="share rejected at .05")
    left.set_title("True hypotheses: 2 or 5 restrictions")
    largest_n = powers["n"].max()
    for color, (price, group) in zip(
        ("#03396c", "#6497b1", "#f18f01"), powers[powers["n"] == largest_n].groupby("price", sort=False), strict=True
    ):
        right.plot(group["slope"], group["simulated null"], "o-", ms=4, lw=1.2, color=color, label=str(price))
    group = powers[(powers["n"] == largest_n) & (powers["price"] == powers["price"].iloc[0])]
    right.plot(group["slope"], group["ordinary F test"], "k--", lw=1, label="ordinary F test on the rows")
    right.axhline(0.05, color="black", lw=0.6)
    right.set(xlabel="two tested slopes", ylabel="power at .05", ylim=(0, 1.02), title=f"n = {largest_n:,}")
    for axes in (left, right):
        axes.legend(fontsize=8, frameon=False)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Run the grid and the power study, write tables and the figure."""
    asked = {
        f"size-{place}-{n}": partial(sizes, kind, n, arguments.replicates, arguments.seed)
        for place, kind in enumerate(KINDS)
        for n in SIZES
    }
    table = pd.DataFrame([row for part in kept_all("regression_tests", asked, arguments) for row in part])
    fewer = max(arguments.replicates // 4, 50)
    effects = {f"power-{effect:g}": partial(power, effect, 1000, fewer, arguments.seed) for effect in EFFECTS}
    powers = pd.DataFrame([row for part in kept_all("regression_tests", effects, arguments) for row in part])
    bounds = {level: largest(arguments.replicates, level, len(LEVELS) * len(table)) for level in LEVELS}
    notes = [
        f"Simulated null of {DRAWS} draws. A true hypothesis may be rejected in at most "
        + " and ".join(f"{bound:.4f} (at {level:g})" for level, bound in bounds.items())
        + f" of the releases: false alarm {FALSE_ALARM:g} over all cells and levels together.",
        "The limiting test refers the same score statistic to F, and counts Laplace noise by its own law.",
    ]
    write_table(table, "regression_tests", arguments, notes)
    write_table(powers, "regression_tests_power", arguments, [])
    write_figure(figure_of(table, powers, bounds[LEVELS[0]]), "regression_tests", arguments)
    prices = len(PRICES) + len(CLEAR)
    design = f"{len(table)} cells: n 100-10,000, 2 and 5 restrictions, {len(KINDS)} designs, {prices} prices"
    return [
        largest_size(
            f"largest size at {level:g} of the joint F test with simulated null (limiting distribution: "
            f"{table[f'limiting at {level:g}'].max():.3f})",
            table,
            f"size at {level:g}",
            by=["regressors", "slopes", "tested", "neighbors", "n", "price"],
            level=level,
            design=design,
        )
        for level in LEVELS
    ]

"""Size and power of simulated-null F tests of private regressions, beside the limiting test and the ordinary one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import dpinfer as dpi
from dpinfer.kernel.measurement import Measurement
from dpinfer.privacy import Privacy
from dpinfer.regression.gram import GramFit, GramProblem, fit_gram
from dpinfer.regression.gram_inference import LinearRestrictions, gram_values, joint_loadings, score_joint
from dpinfer.statistics.tails import joint_pvalue
from validation.common.leaves import DRAWS, LEVELS, rejections, size_rules
from validation.common.outputs import lines, scatter
from validation.common.study import Drawn, Study

Array = NDArray[np.float64]


SIZES = (100, 1000, 10_000)
PRICES = (dpi.ZCDP(0.005), dpi.ZCDP(0.05), dpi.ZCDP(0.5), dpi.PureDP(1.0))
CLEAR = (dpi.ZCDP(5.0), dpi.ZCDP(20.0))
"""Prices at which the noise of the error variance of 100 rows is about as large as it: run with these alone."""

POWER_ROWS = 1000
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


def tested(kind: Kind, price: Privacy, sums: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Rejections (R, 2) by the simulated null, p-values by the limiting distribution, and kappa."""
    model, measured = kind.model(price)
    noise = measured.law.rvs(len(sums), rng) * np.asarray(measured.steps)
    gram = sums + symmetric(noise, sums.shape[-1])
    fit = fit_gram(model.problem, gram, gram[:, 0, 0])
    statistic, df = score_joint(fit, model.restrictions, model.targets[None])
    limiting = limiting_pvalues(fit, model, statistic, df)
    return rejections(model, gram_values(gram, gram[:, 0, 0]), rng), limiting, fit.kappa


def limiting_pvalues(fit: GramFit, model: LinearRestrictions, statistic: Array, df: Array) -> Array:
    """P-values (R,) of `wald_test` without simulation: F, or Laplace noise by its own law."""
    count, loadings = float(model.dof), joint_loadings(fit, model.restrictions)
    if loadings is None:
        return np.asarray(stats.f.sf(statistic / count, count, df))
    return np.array(
        [joint_pvalue(float(s), count, float(d), one) for s, d, one in zip(statistic, df, loadings, strict=True)]
    )


def draw(cell: tuple[Kind, int], rng: np.random.Generator, replicates: int) -> Drawn:
    """Every price on the same data sets: rejections at both levels, limiting p-values, and kappa."""
    kind, n = cell
    sums = kind.draw(rng, n, replicates)
    prices = (*PRICES, *CLEAR) if n == SIZES[0] else PRICES
    return {str(price): np.column_stack(tested(kind, price, sums, rng)) for price in prices}


def summary(_: tuple[Kind, int], drawn: Drawn) -> list[dict]:
    """Shares of rejections by the simulated null and by the limiting distribution."""
    return [
        {"price": price, "kappa": float(np.median(found[:, 3])),
         **{f"size at {level:g}": float(found[:, place].mean()) for place, level in enumerate(LEVELS)},
         **{f"limiting at {level:g}": float((found[:, 2] <= level).mean()) for level in LEVELS}}
        for price, found in drawn.items()
    ]  # fmt: skip


def draw_power(effect: float, rng: np.random.Generator, replicates: int) -> Drawn:
    """The joint test of two slopes of three at every price, beside the ordinary F test on the rows."""
    kind = Kind("uniform", 3, 2, "add_remove", effect=effect)
    sums, found = kind.draw(rng, POWER_ROWS, replicates), {}
    for price in PRICES[1:]:
        rejected, limiting, _ = tested(kind, price, sums, rng)
        problem = kind.model(price)[0]
        exact = fit_gram(GramProblem(0 * problem.problem.noise, problem.problem.design, problem.problem.response), sums,
                         sums[:, 0, 0])  # fmt: skip
        statistic, df = score_joint(exact, problem.restrictions, problem.targets[None])
        ordinary = stats.f.sf(statistic / 2, 2, df) <= LEVELS[0]
        found[str(price)] = np.column_stack([rejected[:, 0], limiting <= LEVELS[0], ordinary])
    return found


def powers(_: float, drawn: Drawn) -> list[dict]:
    """A row for each price."""
    names = ("simulated null", "limiting", "ordinary F test")
    return [{"price": price, **dict(zip(names, found.mean(axis=0), strict=True))} for price, found in drawn.items()]


STUDY = (
    Study(
        "regression_tests", [(kind, n) for kind in KINDS for n in SIZES], draw, summary,
        size_rules("largest size at {level:g} of the joint F test with simulated null",
                   "56 cells: n 100-10,000, 2 and 5 restrictions, 4 designs, 6 budgets"),
        axes=lambda cell: {"regressors": cell[0].name, "slopes": cell[0].slopes, "tested": cell[0].tested,
                           "neighbors": cell[0].neighbors, "n": cell[1]},
        by=("price",),
        figure=scatter("kappa", {f"size at {LEVELS[0]:g}": LEVELS[0],
                                               f"limiting at {LEVELS[0]:g}": LEVELS[0]},
                                     "regressors"),
        notes=(f"Simulated null of {DRAWS} draws. The limiting test refers the same score statistic to F, and counts "
               "Laplace noise by its own law.",),
    ),
    Study("regression_tests_power", EFFECTS, draw_power, powers, by=("price",), most=1250,
          axes=lambda effect: {"n": POWER_ROWS, "slope": effect},
          figure=lambda table: lines(table, "price", "slope", {"simulated null": "o-", "ordinary F test": "k--"})),
)  # fmt: skip

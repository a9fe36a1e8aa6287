"""Coverage and width of private OLS intervals, and size and power of the slope test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

import dpinfer as dpi
from dpinfer.privacy import NEIGHBORS
from dpinfer.studies.populations import truncated_normal
from validation.common import simulated
from validation.common.outputs import Options, scatter
from validation.common.rules import Claim, Rule
from validation.common.simulated import RULES, Case
from validation.common.study import Drawn, Study

SIGMA, CUT = 0.2, 2.5
CLUSTERS = 40
STRAINED = ("equal spread", "spread with x", "bent mean", "clusters")
ALARM = float(stats.norm.isf(1e-4))


@dataclass(frozen=True)
class Kind:
    """One way to draw data: slopes alternate in sign, errors are normal cut at 2.5 standard deviations.

    Regressors are uniform; or skewed (Beta(1, 5)), loose (using a tenth of their bounds), collinear (correlation
    .99), or rare (true for 2% of the rows). No bound clips.
    """

    regressors: str
    slopes: int

    @property
    def bounds(self) -> tuple[float, float]:
        """Declared bounds of every regressor."""
        return (0.0, 1.0) if self.regressors in ("skewed", "rare") else (-1.0, 1.0)

    @property
    def reach(self) -> float:
        """Share of their bounds that regressors use; slopes are larger where it is small."""
        return 0.1 if self.regressors == "loose" else 1.0

    @property
    def beta(self) -> np.ndarray:
        return 0.5 / self.reach / self.slopes * np.where(np.arange(self.slopes) % 2, -1.0, 1.0)

    @property
    def names(self) -> list[str]:
        return [f"x{j}" for j in range(self.slopes)]

    @property
    def contrasts(self) -> dict[str, dict[str, float]]:
        """The first two slopes compared, or the line at x = 1."""
        if self.slopes == 1:
            return {"Intercept + x0": {"Intercept": 1.0, "x0": 1.0}}
        return {"x0 - x1": {"x0": 1.0, "x1": -1.0}}

    @property
    def truth(self) -> dict[str, float]:
        known = {"Intercept": 0.0, **dict(zip(self.names, self.beta.tolist(), strict=True))}
        weighted = {name: sum(w * known[term] for term, w in row.items()) for name, row in self.contrasts.items()}
        return {name: value for name, value in {**known, **weighted}.items() if name != "Intercept"}

    def schema(self, neighbors: str) -> dpi.Schema:
        """Bounds that do not clip; under replace_one missing values have declared constants, so that n is public."""
        ends = self.reach * np.array(self.bounds)
        lower = float(sum(min(b * ends) for b in self.beta) - CUT * SIGMA)
        upper = float(sum(max(b * ends) for b in self.beta) + CUT * SIGMA)
        policy = {} if neighbors == "add_remove" else {"missing": 0.0, "impossible": 0.0}
        columns = {name: dpi.Real(*self.bounds, **policy) for name in self.names}
        return dpi.Schema({**columns, "y": dpi.Real(lower, upper, **policy)})

    def __call__(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Draw n rows."""
        shape = (self.slopes, n)
        if self.regressors == "skewed":
            x = rng.beta(1.0, 5.0, shape)
        elif self.regressors == "rare":
            x = (rng.uniform(size=shape) < 0.02).astype(float)
        else:
            x = self.reach * rng.uniform(-1.0, 1.0, shape)
        if self.regressors == "collinear":
            x = 0.9 * rng.uniform(-1.0, 1.0, n) + 0.1 * x
        y = self.beta @ x + SIGMA * truncated_normal(rng, n)
        return {**dict(zip(self.names, x, strict=True)), "y": y}


def cases() -> list[Case]:
    """The grid: the main one, other units on its uniform part, and designs chosen to hurt."""
    zcdp = tuple(dpi.ZCDP(rho) for rho in (0.02, 0.1, 1.0))
    others = (dpi.PureDP(2.0), dpi.ApproxDP(1.0, 1e-6), dpi.GDP(1.0))
    grid = [
        (Kind(regressors, slopes), (200, 1000, 10000), zcdp + (others if regressors == "uniform" else ()))
        for slopes in (1, 5)
        for regressors in ("uniform", "skewed")
    ]
    grid += [(Kind(*one), (1000, 10000), zcdp[1:]) for one in (("loose", 1), ("collinear", 5), ("rare", 2))]
    return [
        Case(kind.regressors, "", kind, dpi.ols("y ~ " + " + ".join(kind.names), method="gram"), kind.truth,
             kind.schema,
             n, prices, neighbors, contrasts=kind.contrasts)
        for kind, sizes, prices in grid for neighbors in NEIGHBORS for n in sizes
    ]  # fmt: skip


def summary(case: Case, drawn: Drawn) -> list[dict]:
    """A row for each price: the worst slope, and the contrast."""
    found = []
    for price, group in pd.DataFrame(simulated.rows(case, drawn)).groupby("privacy", sort=False):
        slope = group["term"].isin(case.generate.names)
        widest = group.loc[group["width / oracle"].fillna(-1).idxmax()]
        found.append({
            "price": price, "kappa": group["kappa"].iloc[0], "coverage": group.loc[slope, "coverage"].min(),
            "contrast coverage": group.loc[~slope, "coverage"].min(), "worst": group["coverage"].min(),
            "width / oracle": widest["width / oracle"], "error of width / oracle": widest["error of width / oracle"],
            "width / ordinary": group.loc[slope, "width / ordinary"].mean(), "unbounded": group["unbounded"].max(),
            "flagged": group["flagged"].iloc[0], "unbounded cap": RULES.unbounded_cap,
        })  # fmt: skip
    return found


@dataclass(frozen=True)
class SlopeTest:
    """The published slope test: X ~ N(.5, 1), Y = -.5 + b X + N(0, .5), both clamped to [-2, 2]."""

    b: float

    def __call__(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Draw n rows."""
        x = rng.normal(0.5, 1.0, n)
        return {"x": x, "y": -0.5 + self.b * x + rng.normal(0.0, 0.5, n)}


def published(b: float, n: int) -> Case:
    """Return the published test of a zero slope at level .05 under GDP(1), replace_one."""
    schema = dpi.Schema({name: dpi.Real(-2, 2, missing=0.0, impossible=0.0) for name in ("x", "y")})
    truth = {"x": b} if b == 0 else {"x": 0.4}
    return Case("slope test", "", SlopeTest(b), dpi.ols("y ~ x", method="gram"), truth, lambda _: schema, n,
                (dpi.GDP(1.0),), "replace_one", extra={"b": b})  # fmt: skip


def claims_of_tests(table: pd.DataFrame, _: Options) -> list[Claim]:
    """State what the slope tests show: sizes in .042-.058, power at least .99."""
    found = []
    for row in table.to_dict("records"):
        what = "size of the slope test at .05" if row["b"] == 0 else "power of the slope test at .05"
        shape = f"X ~ N(.5, 1), sd .5, clamp 2, GDP(1), replace_one, n = {row['n']:,}, b = {row['b']:g}"
        error = max(np.sqrt(row["rejection"] * (1 - row["rejection"]) / row["replicates"]), 1e-4)
        low, high = row["rejection"] - ALARM * error, row["rejection"] + ALARM * error
        held = (low <= 0.058 and high >= 0.042) if row["b"] == 0 else high >= 0.99
        known = ".107 (Monte Carlo F test)" if row["b"] == 0 else ".967"
        found.append(Claim(what, shape, f"{row['rejection']:.4f}", held, published=known, error=f"{error:.4f}"))
    return found


@dataclass(frozen=True)
class Strained:
    """Rows for which the standard errors of cross-products, those of errors that spread equally, are wrong or right.

    Errors spread equally; or more where x is large; or the mean is bent, so that the line is its best approximation;
    or rows come in 40 clusters that share a part of x and of the error.
    """

    kind: str

    def __call__(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Draw n rows; x is Beta(1, 5), and no bound clips."""
        x, error = rng.beta(1.0, 5.0, n), truncated_normal(rng, n)
        if self.kind == "spread with x":
            return {"x": x, "y": 0.5 * x + 0.4 * x**2 * error}
        if self.kind == "bent mean":
            return {"x": x, "y": x**3 + 0.01 * error}
        if self.kind == "clusters":
            of = rng.integers(0, CLUSTERS, n)
            x = 0.5 * rng.beta(1.0, 5.0, CLUSTERS)[of] + 0.5 * x
            return {"x": x, "y": 0.5 * x + 0.05 * truncated_normal(rng, CLUSTERS)[of] + 0.02 * error}
        return {"x": x, "y": 0.5 * x + 0.05 * error}


def strained() -> list[Case]:
    """Noise is small: widths over the oracle's say where standard errors are wrong."""
    schema = dpi.Schema(x=dpi.Real(0, 1), y=dpi.Real(-1, 2))
    return [
        Case(
            kind, "", Strained(kind), dpi.ols("y ~ x", method="gram"), None, lambda _: schema, 2000, (dpi.ZCDP(100.0),)
        )
        for kind in STRAINED
    ]


def implied(case: Case, drawn: Drawn) -> list[dict]:
    """Coverage beside what the width over the oracle's implies: the oracle knows the population."""
    row = next(one for one in simulated.rows(case, drawn) if one["term"] == "x")
    ratio, normal, count = row["width / oracle"], stats.norm.isf(0.025), len(next(iter(drawn.values())))
    told = 2 * stats.norm.cdf(normal * ratio) - 1
    slope = 2 * normal * stats.norm.pdf(normal * ratio)
    return [{"width / oracle": ratio, "coverage": row["coverage"], "coverage that the width implies": told,
             "away": (row["coverage"] - told) / np.hypot(np.sqrt(told * (1 - told) / count),
                                                         slope * row["error of width / oracle"])}]  # fmt: skip


def oracle_claims(table: pd.DataFrame, _: Options) -> list[Claim]:
    """The width implies the coverage, right or wrong as the intervals are."""
    worst = table.loc[table["away"].abs().idxmax()]
    apart = worst["coverage"] - worst["coverage that the width implies"]
    return [
        Claim("coverage less what the width over the oracle's implies",
              f"{len(table)} designs, n = 2,000, rho = 100: errors spread equally or not, a bent mean, clusters",
              f"{apart:.4f}", (table["away"].abs() <= ALARM).all(), error=f"{abs(apart / worst['away']):.4f}")
    ]  # fmt: skip


STUDY = (
    Study(
        "ols_coverage", cases, simulated.draw, summary,
        (
            Rule("least coverage of 95% intervals of a slope or contrast, from cross-products", "worst", quantities=4,
                 design="n 200-10,000, 1-5 slopes, five kinds of regressors, both relations, four units"),
            Rule("", "unbounded", "size", "unbounded cap", where=simulated.clear),
            Rule("largest mean width over the oracle's where kappa is at least 3: regression from cross-products",
                 "width / oracle", "width", RULES.width_cap, where=simulated.clear),
        ),
        axes=lambda case: {"n": case.n, "slopes": case.generate.slopes, "regressors": case.name,
                           "neighbors": case.neighbors},
        by=("price",), figure=scatter("kappa", {"worst": 0.95, "width / oracle": RULES.width_cap},
                                      ["regressors", "slopes"]),
        notes=("Coverage is that of the worst slope.",),
    ),
    Study("ols_slope_test", [published(0.0, 200), published(0.0, 5000), published(0.4, 200)], simulated.draw,
          simulated.rows, axes=lambda case: {"n": case.n, "b": case.extra["b"]}, also=claims_of_tests),
    Study("ols_oracle", strained, simulated.draw, implied, axes=lambda case: {"errors": case.name}, also=oracle_claims,
          notes=("Intervals of r times the oracle's width cover 2 Phi(1.96 r) - 1, as far as estimates are normal: "
                 "where the standard errors of a design are wrong, the width over the oracle's says so.",)),
)  # fmt: skip

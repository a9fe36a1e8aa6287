"""Coverage and width of private OLS intervals, and size and power of the slope test."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats
from tqdm import tqdm

import dpinfer as dpi
from dpinfer.studies.populations import truncated_normal
from validation.common.cells import kept
from validation.common.claims import RULES, Claim, largest_width, least_coverage
from validation.common.outputs import Options, limits, new_figure, options, write_table

SIGMA, CUT = 0.2, 2.5
CLUSTERS = 40
STRAINED = ("equal spread", "spread with x", "bent mean", "clusters")
ALARM = float(stats.norm.isf(1e-4))
CELL = ["n", "slopes", "regressors", "neighbors", "price"]
MARKERS = {"uniform": "o", "skewed": "s", "loose": "^", "collinear": "v", "rare": "D"}


@dataclass(frozen=True)
class Kind:
    """One way to draw data: slopes alternate in sign, errors are normal cut at 2.5 standard deviations.

    Regressors are uniform; or skewed (Beta(1, 5)), loose (using a tenth of their bounds), collinear (correlation
    .99), or rare (true for 2% of the rows). No bound clips.
    """

    regressors: str
    slopes: int
    sizes: tuple[int, ...]
    prices: tuple[dpi.privacy.Privacy, ...]

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


def kinds() -> list[Kind]:
    """The grid: the main one, other units on its uniform part, and designs chosen to hurt."""
    zcdp = tuple(dpi.ZCDP(rho) for rho in (0.02, 0.1, 1.0))
    others = (dpi.PureDP(2.0), dpi.ApproxDP(1.0, 1e-6), dpi.GDP(1.0))
    main = [
        Kind(regressors, slopes, (200, 1000, 10000), zcdp + (others if regressors == "uniform" else ()))
        for slopes in (1, 5)
        for regressors in ("uniform", "skewed")
    ]
    hurting = [Kind(*one, (1000, 10000), zcdp[1:]) for one in (("loose", 1), ("collinear", 5), ("rare", 2))]
    return main + hurting


def judge(kind: Kind, neighbors: str, replicates: int, seed: int, jobs: int) -> pd.DataFrame:
    """Study one kind under one relation; a row per number of rows, price and run, with the worst slope."""
    study = dpi.coverage_study(
        kind,
        dpi.ols("y ~ " + " + ".join(kind.names), method="gram"),
        schema=kind.schema(neighbors),
        truth=kind.truth,
        contrasts=kind.contrasts,
        n=kind.sizes,
        privacy=kind.prices,
        neighbors=neighbors,
        replicates=replicates,
        seed=seed,
        n_jobs=jobs,
        progress=False,
    )
    judged = study.check(RULES, n_jobs=jobs)
    rows = []
    for (n, price, run), cell in judged.groupby(["n", "privacy", "run"], sort=False):
        slope = cell[cell["term"].isin(kind.names)]
        contrast = cell[~cell["term"].isin(kind.names)]
        rows.append(
            {
                "n": n,
                "slopes": kind.slopes,
                "regressors": kind.regressors,
                "neighbors": neighbors,
                "price": price,
                "kappa": cell["kappa"].iloc[0],
                "coverage": slope["coverage"].min(),
                "contrast coverage": contrast["coverage"].min(),
                "width / oracle": cell["width / oracle"].max(),
                "width / ordinary": slope["width / ordinary"].mean(),
                "unbounded": cell["unbounded"].max(),
                "flagged": cell["flagged"].iloc[0],
                "replicates": int(cell["replicates"].iloc[0]),
                "run": run,
                "held": bool(cell["held"].all()),
            }
        )
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class SlopeTest:
    """The published slope test: X ~ N(.5, 1), Y = -.5 + b X + N(0, .5), both clamped to [-2, 2]."""

    b: float

    def __call__(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Draw n rows."""
        x = rng.normal(0.5, 1.0, n)
        return {"x": x, "y": -0.5 + self.b * x + rng.normal(0.0, 0.5, n)}


def slope_test(n: int, b: float, replicates: int, seed: int, jobs: int) -> dict:
    """Share of rejections of a zero slope at level .05 under GDP(1), replace_one."""
    schema = dpi.Schema({name: dpi.Real(-2, 2, missing=0.0, impossible=0.0) for name in ("x", "y")})
    study = dpi.coverage_study(
        SlopeTest(b),
        dpi.ols("y ~ x", method="gram"),
        schema=schema,
        truth={"x": b} if b == 0 else {},
        n=n,
        privacy=dpi.GDP(1.0),
        neighbors="replace_one",
        replicates=replicates,
        seed=seed,
        n_jobs=jobs,
        progress=False,
    )
    cell = study.cells.set_index("term").loc["x"]
    return {
        "n": n,
        "b": b,
        "rejected": cell["rejection"],
        "Monte Carlo error": cell["MCSE of rejection"],
        "replicates": replicates,
    }


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


def oracle_of(kind: str, replicates: int, seed: int, jobs: int) -> dict:
    """Width over the oracle's, and coverage beside what that width implies, where noise is small."""
    study = dpi.coverage_study(
        Strained(kind),
        dpi.ols("y ~ x", method="gram"),
        schema=dpi.Schema(x=dpi.Real(0, 1), y=dpi.Real(-1, 2)),
        truth=None,
        n=2000,
        privacy=dpi.ZCDP(100.0),
        replicates=replicates,
        seed=seed,
        n_jobs=jobs,
        progress=False,
    )
    cell = study.cells.set_index("term").loc["x"]
    ratio, error = cell["width / oracle"], cell["MCSE of width / oracle"]
    normal = stats.norm.isf(0.025)
    implied = 2 * stats.norm.cdf(normal * ratio) - 1
    slope = 2 * normal * stats.norm.pdf(normal * ratio)
    allowed = ALARM * float(np.hypot(np.sqrt(implied * (1 - implied) / replicates), slope * error))
    return {
        "errors": kind,
        "width / oracle": ratio,
        "MCSE of width / oracle": error,
        "coverage": cell["coverage"],
        "coverage that the width implies": implied,
        "allowed difference": allowed,
        "replicates": replicates,
        "held": bool(abs(cell["coverage"] - implied) <= allowed),
    }


def figure_of(table: pd.DataFrame) -> Figure:
    """Coverage and width against kappa."""
    figure, (left, right) = new_figure(10, 4.2, 1, 2)
    first = table[table["run"] == "first"]
    for (regressors, slopes), group in first.groupby(["regressors", "slopes"]):
        marker = MARKERS[str(regressors)]
        label = f"{regressors}, {slopes} slope{'s' if slopes > 1 else ''}"
        left.plot(group["kappa"], group["coverage"], marker, ms=4.5, alpha=0.75, label=label)
        wide = group[group["kappa"] >= 1]
        right.plot(wide["kappa"], wide["width / oracle"], marker, ms=4.5, alpha=0.75, label=label)
    least = RULES.least_coverage(int(first["replicates"].iloc[0]), 0.95)
    limits(left, 0.95, least, "least allowed")
    left.set(xscale="log", xlabel="kappa (signal over noise of the design)", ylim=(min(0.92, least - 0.01), 1.005))
    left.set_ylabel("coverage of 95% intervals")
    left.set_title("Worst slope of every cell")
    right.axhline(RULES.width_cap, color="firebrick", lw=0.8, ls="--", label="cap where kappa is at least 3")
    right.axvline(RULES.kappa, color="grey", lw=0.8, ls=":")
    right.set(xscale="log", xlabel="kappa", ylabel="mean width / oracle width", ylim=(0.95, 1.7))
    right.set_title("Bounded intervals against the oracle")
    for axes in (left, right):
        axes.legend(fontsize=7.5, frameon=False)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Run every cell, judge it, write the table and the figure."""
    cells = [(kind, neighbors) for kind in kinds() for neighbors in ("add_remove", "replace_one")]
    parts = [
        kept(
            "ols_coverage",
            index,
            arguments,
            partial(judge, *cell, arguments.replicates, arguments.seed + 100 * index, arguments.jobs),
        )
        for index, cell in enumerate(tqdm(cells, desc="studies"))
    ]
    table = pd.concat(parts, ignore_index=True)
    first = table["run"] == "first"
    notes = [
        f"Cells: {int(first.sum())}; failed at first: {int((first & ~table['held']).sum())}; failed again at ten times "
        f"the replicates: {int((~first & ~table['held']).sum())}.",
        "Rules: coverage of every slope and of the contrast at least "
        f"{RULES.least_coverage(arguments.replicates, 0.95):.4f}; where kappa is at least {RULES.kappa:g}, mean width "
        f"at most {RULES.width_cap:g} times the oracle's and at most {RULES.unbounded_cap:.1%} of intervals unbounded. "
        "Coverage is that of the worst slope.",
    ]
    write_table(table, "ols_coverage", arguments, notes, figure_of(table))
    tests = pd.DataFrame(
        [slope_test(n, 0.0, 4 * arguments.replicates, arguments.seed, arguments.jobs) for n in (200, 5000)]
        + [slope_test(200, 0.4, arguments.replicates, arguments.seed, arguments.jobs)]
    )
    error = stats.norm.isf(1e-4)
    tests["required"] = ["size in .042-.058", "size in .042-.058", "power at least .99"]
    tests["published"] = [".107 (Monte Carlo F test)", ".107 (Monte Carlo F test)", ".967"]
    low, high = (
        tests["rejected"] - error * tests["Monte Carlo error"],
        tests["rejected"] + error * tests["Monte Carlo error"],
    )
    tests["held"] = [bool(low[i] <= 0.058 and high[i] >= 0.042) for i in (0, 1)] + [bool(high[2] >= 0.99)]
    write_table(tests, "ols_slope_test", arguments, [])
    known = pd.DataFrame([oracle_of(one, arguments.replicates, arguments.seed, arguments.jobs) for one in STRAINED])
    shown = [
        "Intervals of r times the oracle's width cover 2 Phi(1.96 r) - 1, as far as estimates are normal: where the "
        "standard errors of a design are wrong, the width over the oracle's says so."
    ]
    write_table(known, "ols_oracle", arguments, shown)
    return [*_claims(table, tests), *_of_oracle(known)]


def _of_oracle(known: pd.DataFrame) -> list[Claim]:
    """The oracle knows the population: its width implies the coverage, right or wrong as the intervals are."""
    away = (known["coverage"] - known["coverage that the width implies"]).abs()
    worst = known.loc[(away / known["allowed difference"]).idxmax()]
    return [
        Claim(
            "coverage less what the width over the oracle's implies",
            f"{len(known)} designs, n = 2,000, rho = 100: errors spread equally or not, a bent mean, clusters",
            f"{worst['coverage'] - worst['coverage that the width implies']:.4f}",
            known["held"].all(),
            error=f"{worst['allowed difference'] / ALARM:.4f}",
        )
    ]


def _claims(table: pd.DataFrame, tests: pd.DataFrame) -> list[Claim]:
    claims = [
        least_coverage(
            "least coverage of 95% intervals of a slope or contrast, from cross-products",
            table.assign(coverage=table[["coverage", "contrast coverage"]].min(axis=1)),
            by=CELL,
            quantities=4,
            design="n 200-10,000, 1-5 slopes, five kinds of regressors, both relations, four units",
        ),
        largest_width(
            "largest mean width over the oracle's where kappa is at least 3: regression from cross-products",
            table[table["kappa"] >= RULES.kappa],
            by=CELL,
        ),
    ]
    for row in tests.itertuples():
        what = "size of the slope test at .05" if row.b == 0 else "power of the slope test at .05"
        shape = f"X ~ N(.5, 1), sd .5, clamp 2, GDP(1), replace_one, n = {row.n:,}, b = {row.b:g}"
        claims.append(
            Claim(what, shape, f"{row.rejected:.4f}", row.held, published=row.published, error=f"{row[4]:.4f}")
        )
    return claims


if __name__ == "__main__":
    run(options("regression.ols_coverage", __doc__.splitlines()[0], replicates=5000))

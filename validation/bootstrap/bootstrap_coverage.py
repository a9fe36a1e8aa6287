"""The bootstrap of noisy sums: coverage and width, exactly and end to end, and what a direct release would do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy import integrate, stats

import dpinfer as dpi
from dpinfer.resampling.inference import PROBABILITIES, ReplicateSums, Variances, mixture_isf
from validation.common.outputs import Options, lines, scatter, write_table
from validation.common.real import RealRows
from validation.common.rules import Claim, Rule
from validation.common.study import Drawn, Study, mean_ratio

Columns = dict[str, np.ndarray]
SERIAL = 100


# An estimate of one number: exact, by quadrature

RATIOS = tuple(np.geomspace(0.001, 16, 25).tolist())
SIZES = (20, 50, 200, 1000)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(400)
LIKELY, MASS = 0.5 * (_NODES + 1), 0.5 * _WEIGHTS
"""Probabilities at which the observed variance is taken, and their weights."""


def scalar(size: int, ratio: float) -> tuple[float, float]:
    """Coverage of the default 95% interval, and its mean width over the oracle's.

    Releases are normal with the noise variance 1 and the sampling variance ``ratio``, of which only the sum between
    releases is seen.
    """
    df = size - 1
    observed = (1 + ratio) * stats.chi2.ppf(LIKELY, df) / df
    sums = ReplicateSums(np.zeros((size, 1)), np.eye(1))
    ones = np.ones(len(observed))
    known = Variances(observed, ones, ones / size, sums, population=True)
    half = mixture_isf(0.05, known.at(PROBABILITIES)[1])
    true = np.sqrt(ratio + (1 + ratio) / size)
    coverage = 1 - 2 * stats.norm.sf(half / true) @ MASS
    return float(coverage), float(half @ MASS / (stats.norm.isf(0.025) * true))


def exact() -> pd.DataFrame:
    """The scalar model over numbers of replicates and ratios of sampling to noise variance."""
    return pd.DataFrame(
        [
            {"replicates": size, "sampling / noise": ratio, "coverage": found[0], "width / oracle": found[1]}
            for size in SIZES
            for ratio in RATIOS
            if (found := scalar(size, ratio))
        ]
    )


# End to end


@dataclass(frozen=True)
class Design:
    """One question about one population.

    Attributes
    ----------
    name : str
    asked : Bootstrap
    price : Privacy
    n : int
    draw : callable
        ``draw(rng, n)`` returns columns (n,).
    truth : float
        NaN where it is the data's own value.
    schema : Schema
    place : int
        Of the estimate among those that are asked for.
    neighbors : str
    level : float
    rival : callable, optional
        Makes the procedure that is fitted to the same rows at the same price.
    """

    name: str
    asked: Any
    price: Any
    n: int
    draw: Callable[[np.random.Generator, int], Columns]
    truth: float
    schema: dpi.Schema
    place: int = 0
    neighbors: str = "add_remove"
    level: float = 0.95
    rival: Any = None


def real(lower: float, upper: float) -> dpi.Real:
    """A column in which every row counts."""
    return dpi.Real(lower, upper, missing=lower, impossible=lower)


def normal(rng: np.random.Generator, n: int) -> Columns:
    """Wang, Cheng & Awan's population: N(.5, 1), clamped to [0, 1]; its mean is .5."""
    return {"x": np.clip(rng.normal(0.5, 1, n), 0, 1)}


def skewed(rng: np.random.Generator, n: int) -> Columns:
    """Clamped lognormal."""
    return {"x": np.minimum(np.exp(0.8 * rng.standard_normal(n)), 8.0)}


def even(rng: np.random.Generator, n: int) -> Columns:
    return {"x": rng.random(n)}


def beta(rng: np.random.Generator, n: int) -> Columns:
    return {"x": rng.beta(2, 8, n)}


def related(rng: np.random.Generator, n: int) -> Columns:
    """Two columns with correlation .9."""
    x, other = rng.uniform(-1, 1, (2, n))
    return {"x": x, "y": 0.9 * x + np.sqrt(0.19) * other}


def incomes(rng: np.random.Generator, n: int) -> Columns:
    """Income is proportional to age but for a factor with mean 1."""
    age = 100 * rng.beta(2.5, 4, n)
    return {"age": age, "income": age * rng.uniform(0.5, 1.5, n)}


def spreading(rng: np.random.Generator, n: int) -> Columns:
    """Errors that grow with a skewed regressor; the slope is .5."""
    x = rng.beta(1, 3, n)
    return {"x": x, "y": x * rng.random(n)}


def counted(rng: np.random.Generator, n: int) -> Columns:
    """As many rows as a Poisson variable says: of totals, the number of rows varies too."""
    return {"x": rng.beta(2, 8, rng.poisson(n))}


def alike(rng: np.random.Generator, n: int) -> Columns:
    """Equal spread everywhere; the slope is .5."""
    x = rng.random(n)
    return {"x": x, "y": 0.5 * x + 0.5 * rng.random(n)}


SKEWED = float(integrate.quad(lambda q: min(np.exp(0.8 * stats.norm.ppf(q)), 8.0), 0, 1, limit=500)[0])
UNIT = dpi.Schema(x=real(0, 1))
PAIR = dpi.Schema(x=real(0, 1), y=real(0, 1))
BOTH = dpi.Schema(x=real(-1, 1), y=real(-1.5, 1.5))
LONG_TAIL, PEOPLE = dpi.Schema(x=real(0, 8)), dpi.Schema(age=real(0, 100), income=real(0, 150))
STD = float(stats.beta(2, 8).std())


def mean(replicates: int, **extra: Any) -> Any:
    """The bootstrap of a mean."""
    return dpi.bootstrap("x", replicates=replicates, **extra)


def real_designs() -> tuple[Design, ...]:
    """Means, a share, a deviation, a ratio, a correlation and a slope of real columns, drawn with replacement."""
    affairs, visits, ages = (RealRows.of(one) for one in ("fair: affairs", "randhie: mdvis", "anes96: age"))
    spending, food = RealRows.of("ccard: AVGEXP, INCOME"), RealRows.of("engel: income, foodexp")
    income, spent = food.values("income"), food.values("foodexp")
    asked = (
        (affairs, 20_000, 2.0, dpi.bootstrap("affairs", replicates=50), affairs.values().mean()),
        (visits, 2000, 1.0, dpi.bootstrap("mdvis <= 0", statistic="proportion", replicates=50),
         (visits.values() <= 0).mean()),
        (ages, 2000, 2.0, dpi.bootstrap("age", statistic="std", replicates=50), ages.values().std()),
        (spending, 2000, 2.0,
         dpi.bootstrap(["AVGEXP", "INCOME"], statistic="AVGEXP / INCOME", replicates=50),
         spending.values("AVGEXP").mean() / spending.values("INCOME").mean()),
        (food, 40_000, 4.0, dpi.bootstrap(["income", "foodexp"], statistic="corr", replicates=50),
         food.products()["corr(income, foodexp)"]),
        (food, 20_000, 4.0, dpi.bootstrap("foodexp ~ income", replicates=50), np.polyfit(income, spent, 1)[0]),
    )  # fmt: skip
    slope = len(asked) - 1
    return tuple(
        Design(f"{'slope' if place == slope else one.statistic}, {rows.name}", one, dpi.GDP(mu), n, rows, float(truth),
               rows.schema("replace_one"), place=int(place == slope))
        for place, (rows, n, mu, one, truth) in enumerate(asked)
    )  # fmt: skip


PUBLISHED = {0: (0.962, 0.0203), 1: (0.901, 0.0145), 2: (0.896, 0.0139)}
WIDEST = {0: 0.0180, 1: 0.0146, 2: 0.0143}
"""Of the first three designs: coverage and width by deconvolution (Wang, Cheng & Awan), and the width to be kept."""

FORMULA = "y ~ x"
DESIGNS = (
    Design("mean, N(.5, 1) clamped", mean(20), dpi.GDP(0.1), 10_000, normal, 0.5, UNIT, level=0.9),
    Design("mean, N(.5, 1) clamped", mean(180), dpi.GDP(0.3), 10_000, normal, 0.5, UNIT, level=0.9),
    Design("mean, N(.5, 1) clamped", mean(2000), dpi.GDP(1.0), 10_000, normal, 0.5, UNIT, level=0.9),
    Design("mean, skewed", mean(50), dpi.GDP(1.0), 300, skewed, SKEWED, LONG_TAIL),
    Design("mean, skewed", mean(50), dpi.GDP(4.0), 300, skewed, SKEWED, LONG_TAIL),
    Design("mean, skewed", mean(20), dpi.GDP(0.3), 300, skewed, SKEWED, LONG_TAIL),
    Design("mean, skewed, Poisson weights", mean(50, weights="poisson"), dpi.ApproxDP(3.0, 1e-6), 1000, skewed, SKEWED,
           LONG_TAIL),
    Design("proportion of 2%", dpi.bootstrap("x <= 0.02", statistic="proportion", replicates=50), dpi.GDP(1.0), 2000,
           even, 0.02, UNIT),
    Design("proportion of 2%", dpi.bootstrap("x <= 0.02", statistic="proportion", replicates=100), dpi.GDP(2.0), 20_000,
           even, 0.02, UNIT),
    Design("standard deviation", dpi.bootstrap("x", statistic="std", replicates=50), dpi.GDP(2.0), 2000, beta, STD,
           UNIT),
    Design("standard deviation", dpi.bootstrap("x", statistic="std", replicates=50), dpi.GDP(4.0), 10_000, beta, STD,
           UNIT),
    Design("correlation of .9", dpi.bootstrap(["x", "y"], statistic="corr", replicates=50), dpi.GDP(2.0), 2000, related,
           0.9, BOTH),
    Design("correlation of .9", dpi.bootstrap(["x", "y"], statistic="corr", replicates=50), dpi.GDP(4.0), 100_000,
           related, 0.9, BOTH),
    Design("ratio of means", dpi.bootstrap(["income", "age"], statistic="income / age", replicates=50), dpi.GDP(1.0),
           2000, incomes, 1.0, PEOPLE),
    Design("slope, spread grows with x", dpi.bootstrap(FORMULA, replicates=50), dpi.GDP(2.0), 5000, spreading, 0.5,
           PAIR, place=1, rival=partial(dpi.ols, method="gram")),
    Design("slope, spread grows with x", dpi.bootstrap(FORMULA, replicates=50), dpi.GDP(4.0), 20_000, spreading, 0.5,
           PAIR, place=1, rival=partial(dpi.ols, method="gram")),
    Design("total, rows vary too", dpi.bootstrap("x", statistic="total", replicates=50), dpi.GDP(1.0), 2000, counted,
           400.0, UNIT),
    Design("mean of the data themselves", mean(50, target="data"), dpi.GDP(1.0), 500, beta, np.nan, UNIT),
    Design("mean, public weights", mean(50, weights="public"), dpi.ZCDP(0.5), 1000, beta, 0.2, UNIT,
           neighbors="replace_one"),
    Design("mean, public weights", mean(20, weights="public"), dpi.ZCDP(0.02), 1000, beta, 0.2, UNIT,
           neighbors="replace_one"),
    Design("correlation of .9, public weights",
           dpi.bootstrap(["x", "y"], statistic="corr", replicates=50, weights="public"), dpi.GDP(2.0), 2000, related,
           0.9, BOTH, neighbors="replace_one"),
    Design("mean, paired weights", mean(50, weights="paired"), dpi.ZCDP(0.5), 1000, beta, 0.2, UNIT),
    Design("mean, skewed, paired weights", mean(50, weights="paired"), dpi.ZCDP(8.0), 300, skewed, SKEWED, LONG_TAIL),
    Design("ratio of means, paired weights",
           dpi.bootstrap(["income", "age"], statistic="income / age", replicates=50, weights="paired"), dpi.ZCDP(0.5),
           2000, incomes, 1.0, PEOPLE),
    Design("slope, spread grows with x, paired weights", dpi.bootstrap(FORMULA, replicates=50, weights="paired"),
           dpi.ZCDP(2.0), 5000, spreading, 0.5, PAIR, place=1, rival=partial(dpi.ols, method="gram")),
    *real_designs(),
)  # fmt: skip


def release(design: Design, asked: Any, columns: Columns, rng: np.random.Generator) -> Any:
    """Run the kernel with simulated noise and weights."""
    data = dpi.PublicData(pd.DataFrame(columns), design.schema, rng=rng, neighbors=design.neighbors)
    return data.run(asked, design.price)


def draw(place: int, rng: np.random.Generator, count: int) -> Drawn:
    """Truth, estimate, ends, estimate without noise, noise of one release, flagged, rival's ends: (R, 9)."""
    design = DESIGNS[place]
    measured = design.asked.measurement(design.price, schema=design.schema, neighbors=design.neighbors)
    beside = None if design.rival is None else design.rival(FORMULA)
    found = []
    for _ in range(count):
        columns = design.draw(rng, design.n)
        inference = release(design, design.asked, columns, rng).infer().inference
        lower, upper = inference.intervals(np.eye(len(inference.names)), 1 - design.level)[design.place]
        sums = measured.rows.encode(columns).sum(axis=1) / measured.rows.unit
        plain = inference.statistic(sums[None])[0, design.place]
        slope = inference.gradient[design.place]
        rival = (np.nan, np.nan)
        if beside is not None:
            rival = release(design, beside, columns, rng).infer().conf_int(alpha=1 - design.level).iloc[design.place]
        found.append((plain if np.isnan(design.truth) else design.truth, inference.params[design.place], lower, upper,
                      plain,
                      slope @ inference.sums.noise @ slope, float(bool(inference.flags)), *rival))  # fmt: skip
    return {"found": np.array(found)}


def summary(place: int, drawn: Drawn) -> dict[str, Any]:
    """Coverage, error and width, against an oracle that knows the variances."""
    design, rows = DESIGNS[place], drawn["found"]
    truth, estimate, lower, upper, without, noise, flagged, low, high = rows.T
    size, public = design.asked.replicates, design.asked.weights in ("public", "paired")
    own, sampling, one = design.asked.target == "data", float(without.var()), float(np.median(noise))
    total = (0.0 if own else sampling) + (one + (0.0 if public else sampling)) / size
    oracle = 2 * float(stats.norm.isf((1 - design.level) / 2)) * np.sqrt(total)
    ratio, error = mean_ratio(upper - lower, oracle)
    return {
        "level": design.level, "truth": float(truth.mean()),
        "bias / standard error": float((estimate - truth).mean() / np.sqrt(total)),
        "coverage": float(((lower <= truth) & (truth <= upper)).mean()), "width": float(ratio * oracle),
        "error of width": float(error * oracle), "width / oracle": float(ratio),
        "error of width / oracle": float(np.hypot(error, ratio / np.sqrt(2 * len(rows)))),
        "sampling / noise": sampling / one,
        "flagged": float(flagged.mean()), "unbounded": float(1 - np.isfinite(upper - lower).mean()),
        "gram covers": np.nan if design.rival is None else float(((low <= truth) & (truth <= high)).mean()),
        "runs": len(rows), "clear": not own and sampling >= one, "widest": WIDEST.get(place, np.nan), "cap": 0.001,
    }  # fmt: skip


# Against a direct release at the same price

ROWS, DIRECT = (1_000, 10_000, 100_000), 200
DIRECTLY = ("mean", "slope")


def draw_direct(cell: tuple[str, int], rng: np.random.Generator, count: int) -> Drawn:
    """Errors and widths (R, 4): bootstrap, then direct."""
    what, n = cell
    pair, which = (dpi.bootstrap("y", replicates=DIRECT), dpi.mean("y")), 0
    if what == "slope":
        pair, which = (dpi.bootstrap(FORMULA, replicates=DIRECT), dpi.ols(FORMULA, method="gram")), 1
    found = []
    for _ in range(count):
        data, row = dpi.PublicData(pd.DataFrame(alike(rng, n)), PAIR, rng=rng), []
        for one in pair:
            results = data.run(one, dpi.GDP(1.0)).infer()
            ends = np.asarray(results.conf_int(alpha=0.05))[which]
            row += [np.asarray(results.params)[which] - 0.5, ends[1] - ends[0]]
        found.append(row)
    return {"found": np.array(found)}


def beside(_: tuple[str, int], drawn: Drawn) -> dict:
    """Ratios of error and of width, bootstrap over direct release; both are bounded."""
    found = drawn["found"][np.isfinite(drawn["found"]).all(axis=1)]
    error, width = np.sqrt((found[:, [0, 2]] ** 2).mean(axis=0)), found[:, [1, 3]].mean(axis=0)
    return {"RMSE, bootstrap": error[0], "RMSE, direct": error[1], "RMSE ratio": error[0] / error[1],
            "width, bootstrap": width[0], "width, direct": width[1], "width ratio": width[0] / width[1],
            "bounded": len(found)}  # fmt: skip


def rival_claims(table: pd.DataFrame, _: Options) -> list[Claim]:
    """State what the bootstrap costs beside a direct release."""
    found = []
    for what, part in table.groupby("estimate", sort=False):
        error, width = (", ".join(f"{one:.2f}" for one in part[f"{name} ratio"]) for name in ("RMSE", "width"))
        sizes = ", ".join(f"{n:,}" for n in part["n"])
        found.append(Claim(f"error, and width, of the bootstrap over a direct release: {what}",
                           f"mu = 1, B = {DIRECT}, n = {sizes}", f"{error}; {width}", True))  # fmt: skip
    return found


def claims(table: pd.DataFrame, options: Options) -> list[Claim]:
    """What was published, and what is exact."""
    scalars = exact()
    write_table(scalars, "bootstrap_coverage_exact", options, ["By quadrature; 95% intervals, the default."],
                lines(scalars, "replicates", "sampling / noise", {"coverage": "-", "width / oracle": "--"},
                      log=True))  # fmt: skip
    least = float(scalars.loc[scalars["replicates"] == 50, "coverage"].min())
    found = [Claim("least exact coverage of the bootstrap's default 95% interval", "one number, B = 50, any ratio",
                   f"{least:.4f}", least >= 0.94)]  # fmt: skip
    for row in table[table["widest"].notna()].to_dict("records"):
        covers, wide = next(PUBLISHED[one] for one, most in WIDEST.items() if most == row["widest"])
        design = f"{row['design']}, n = 10,000, {row['price']}, B = {row['replicates B']}"
        said = "deconvolution; Wang, Cheng & Awan"
        found += [
            Claim("coverage of the bootstrap's 90% interval", design, f"{row['coverage']:.4f}", row["held"],
                  kind="coverage",
                  published=f"{covers:.3f} ({said})", replicates=row["runs"], threshold="at least 0.9"),
            Claim("mean width of the bootstrap's 90% interval", design, f"{row['width']:.4f}",
                  row["width"] <= row["widest"] + 3 * row["error of width"], published=f"{wide:.4f} ({said})",
                  threshold=f"at most {row['widest']:.4f}", replicates=row["runs"]),
        ]  # fmt: skip
    uneven = table.dropna(subset="gram covers")
    if len(uneven) and uneven["runs"].iloc[0] >= SERIAL:  # fewer do not tell them apart
        one = uneven.iloc[0]
        found.append(Claim("coverage of ols on cross-products and of the bootstrap, spread growing with x",
                           f"n = {one['n']:,}, {one['price']}, 95%", f"{one['gram covers']:.3f}, {one['coverage']:.3f}",
                           one["gram covers"] < one["coverage"]))  # fmt: skip
    return found


STUDY = (
    Study(
        "bootstrap_coverage", range(len(DESIGNS)), draw, summary,
        (
            Rule("", "coverage", limit="level", where=lambda table: table["level"] < 0.95),
            Rule("least coverage of the bootstrap's 95% intervals, end to end", "coverage", limit="level",
                 where=lambda table: table["level"] == 0.95),
            Rule("", "unbounded", "size", "cap", where=lambda table: table["clear"].astype(bool)),
            Rule("largest mean width over the oracle's where sampling outweighs noise: bootstrap", "width / oracle",
                 "width",
                 1.1, where=lambda table: table["clear"].astype(bool) & (table["level"] == 0.95)),
        ),
        axes=lambda place: {"design": DESIGNS[place].name, "n": DESIGNS[place].n,
                            "replicates B": DESIGNS[place].asked.replicates, "price": str(DESIGNS[place].price)},
        figure=scatter("sampling / noise", {"coverage": 0.95, "width / oracle": 1.1}, "design"), also=claims,
        notes=("The kernel runs end to end, with simulated noise. Oracle: knows the sampling variance and the noise. "
               "Widths count where the sampling variance is at least the noise variance of one release. Least "
               "squares on cross-products (same rows, same price) takes errors to spread equally.",),
    ),
    Study("bootstrap_coverage_direct", [*product(DIRECTLY, ROWS)], draw_direct, beside, most=500, quick=3,
          axes=lambda cell: {"estimate": cell[0], "n": cell[1]}, also=rival_claims,
          notes=(f"mu = 1, B = {DIRECT}, the same rows; unbounded intervals of either are left out of both.",)),
)  # fmt: skip

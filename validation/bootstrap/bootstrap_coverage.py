"""The bootstrap of noisy sums: coverage and width, exactly and end to end, and what a direct release would do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from matplotlib.figure import Figure
from scipy import integrate, stats

import dpinfer as dpi
from dpinfer.resampling.inference import PROBABILITIES, ReplicateSums, Variances, mixture_isf
from validation.common.cells import kept
from validation.common.claims import RULES, Claim, largest_width, least_coverage
from validation.common.outputs import Options, new_figure, write_figure, write_table

Columns = dict[str, np.ndarray]
CELL = ["design", "n", "replicates B", "price"]
CHUNK, SERIAL, ENOUGH, AGAIN = 20, 100, 500, 5000
"""Replicates of one task; below which there is one process; from which widths are judged, failures rerun."""


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
)  # fmt: skip


def release(design: Design, asked: Any, columns: Columns, rng: np.random.Generator) -> Any:
    """Run the kernel with simulated noise and weights."""
    data = dpi.PublicData(pd.DataFrame(columns), design.schema, rng=rng, neighbors=design.neighbors)
    return data.run(asked, design.price)


def replicate(place: int, seeds: range, seed: int) -> np.ndarray:
    """Run replicates: truth, estimate, ends, estimate without noise, noise of one release, flagged, rival's ends."""
    design = DESIGNS[place]
    measured = design.asked.measurement(design.price, schema=design.schema, neighbors=design.neighbors)
    beside = None if design.rival is None else design.rival(FORMULA)
    found = []
    for number in seeds:
        rng = np.random.default_rng([seed, place, number])
        columns = design.draw(rng, design.n)
        results = release(design, design.asked, columns, rng).infer()
        inference = results.inference
        contrasts = np.eye(len(inference.names))
        lower, upper = inference.intervals(contrasts, 1 - design.level)[design.place]
        sums = measured.rows.encode(columns).sum(axis=1) / measured.rows.unit
        plain = inference.statistic(sums[None])[0, design.place]
        slope = inference.gradient[design.place]
        truth = plain if np.isnan(design.truth) else design.truth
        rival = (np.nan, np.nan)
        if beside is not None:
            rival = release(design, beside, columns, rng).infer().conf_int(alpha=1 - design.level).iloc[design.place]
        found.append((truth, inference.params[design.place], lower, upper, plain, slope @ inference.sums.noise @ slope,
                      float(bool(inference.flags)), *rival))  # fmt: skip
    return np.array(found)


def judge(place: int, rows: np.ndarray, run: str, least: float) -> dict[str, Any]:
    """Coverage, which must reach ``least``, error and width, against an oracle that knows the variances."""
    design, count = DESIGNS[place], len(rows)
    truth, estimate, lower, upper, without, noise, flagged, low, high = rows.T
    size, public = design.asked.replicates, design.asked.weights in ("public", "paired")
    own = design.asked.target == "data"
    sampling, one = float(without.var()), float(np.median(noise))
    total = (0.0 if own else sampling) + (one + (0.0 if public else sampling)) / size
    bounded = np.isfinite(upper - lower)
    width = float((upper - lower)[bounded].mean())
    oracle = 2 * float(stats.norm.isf((1 - design.level) / 2)) * np.sqrt(total)
    coverage = float(((lower <= truth) & (truth <= upper)).mean())
    clear = count >= ENOUGH and not own and sampling >= one  # fewer do not tell how wide an oracle would be
    narrow = not clear or (width / oracle <= RULES.width_cap and 1 - bounded.mean() <= RULES.unbounded_cap)
    return {
        "place": place,
        "design": design.name,
        "n": design.n,
        "replicates B": size,
        "price": str(design.price),
        "level": design.level,
        "truth": float(truth.mean()),
        "bias / standard error": float((estimate - truth).mean() / np.sqrt(total)),
        "coverage": coverage,
        "width": width,
        "width / oracle": float(width / oracle),
        "sampling / noise": sampling / one,
        "flagged": float(flagged.mean()),
        "unbounded": float(1 - bounded.mean()),
        "gram covers": np.nan if design.rival is None else float(((low <= truth) & (truth <= high)).mean()),
        "runs": count,
        "run": run,
        "clear": clear,
        "held": bool(coverage >= least and narrow),
    }


def study(place: int, arguments: Options, *, again: bool) -> dict[str, Any]:
    """Run one design; again at ten times the replicates and judged by the same threshold."""
    design = DESIGNS[place]
    first = max(arguments.replicates, 4)
    count, seed = (first * RULES.rerun_factor, arguments.seed + RULES.rerun_seed) if again else (first, arguments.seed)
    parts = [range(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
    jobs = 1 if arguments.replicates < SERIAL else arguments.jobs
    found = Parallel(n_jobs=jobs)(delayed(replicate)(place, seeds, seed) for seeds in parts)
    least = RULES.least_coverage(first, design.level)
    row = judge(place, np.concatenate(list(found)), "rerun" if again else "first", least)
    print(f"{row['design']}, {row['price']}: {count:,} runs, coverage {row['coverage']:.4f}", flush=True)
    return row


# Against a direct release at the same price

ROWS, DIRECT = (1_000, 10_000, 100_000), 200
DIRECTLY = ("mean", "slope")


def direct(what: str, n: int, seeds: range, seed: int) -> np.ndarray:
    """Errors and widths (R, 4): bootstrap, then direct."""
    price, schema = dpi.GDP(1.0), PAIR
    pair = (dpi.bootstrap("y", replicates=DIRECT), dpi.mean("y"))
    draw, truth, which = alike, 0.5, 0
    if what == "slope":
        pair, which = (dpi.bootstrap(FORMULA, replicates=DIRECT), dpi.ols(FORMULA, method="gram")), 1
    found = []
    for number in seeds:
        rng = np.random.default_rng([seed, n, DIRECTLY.index(what), number])
        data = dpi.PublicData(pd.DataFrame(draw(rng, n)), schema, rng=rng)
        row = []
        for one in pair:
            results = data.run(one, price).infer()
            ends = np.asarray(results.conf_int(alpha=0.05))[which]
            row += [np.asarray(results.params)[which] - truth, ends[1] - ends[0]]
        found.append(row)
    return np.array(found)


def beside(arguments: Options) -> pd.DataFrame:
    """Ratios of error and of width, bootstrap over direct release."""
    count = max(arguments.replicates // 10, 4)
    parts = [range(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
    jobs = 1 if arguments.replicates < SERIAL else arguments.jobs
    rows = []
    for what in DIRECTLY:
        for n in ROWS if arguments.replicates >= SERIAL else ROWS[:-1]:
            runs = Parallel(n_jobs=jobs)(delayed(direct)(what, n, seeds, arguments.seed) for seeds in parts)
            found = np.concatenate(list(runs))
            found = found[np.isfinite(found).all(axis=1)]
            error = np.sqrt((found[:, [0, 2]] ** 2).mean(axis=0))
            width = found[:, [1, 3]].mean(axis=0)
            rows.append({"estimate": what, "n": n, "RMSE, bootstrap": error[0], "RMSE, direct": error[1],
                         "RMSE ratio": error[0] / error[1], "width, bootstrap": width[0], "width, direct": width[1],
                         "width ratio": width[0] / width[1], "bounded": len(found), "runs": count})  # fmt: skip
    return pd.DataFrame(rows)


def figure_of(scalars: pd.DataFrame, table: pd.DataFrame, rivals: pd.DataFrame) -> Figure:
    """Exact coverage and width, coverage end to end, and ratios to direct releases."""
    figure, ((coverage, width), (whole, ratio)) = new_figure(11, 8, 2, 2)
    for size, part in scalars.groupby("replicates"):
        coverage.plot(part["sampling / noise"], part["coverage"], label=f"B = {size}")
        width.plot(part["sampling / noise"], part["width / oracle"], label=f"B = {size}")
    coverage.axhline(0.95, color="black", lw=0.8)
    width.axhline(1, color="black", lw=0.8)
    said = "sampling variance / noise variance of one release"
    coverage.set(xscale="log", xlabel=said, ylabel="coverage of 95% intervals, exact", title="one number")
    width.set(xscale="log", xlabel=said, ylabel="mean width over the oracle's, exact", title="one number")
    coverage.legend(frameon=False, fontsize=8)
    for place, (name, part) in enumerate(table.groupby("design", sort=False)):
        mark = "osD^v<>pP*Xhd"[place % 13]
        whole.plot(part["sampling / noise"], part["coverage"] - part["level"], mark, color=f"C{place % 10}", ms=5,
                   label=name)  # fmt: skip
    beside = table.dropna(subset="gram covers")
    whole.plot(beside["sampling / noise"], beside["gram covers"] - beside["level"], "x", color="black",
               label="slope, ols on cross-products")  # fmt: skip
    whole.axhline(0, color="black", lw=0.8)
    whole.set(xscale="log", xlabel=said, ylabel="coverage less its level", title="end to end")
    whole.legend(frameon=False, fontsize=6.5, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    for place, (what, part) in enumerate(rivals.groupby("estimate", sort=False)):
        ratio.plot(part["n"], part["RMSE ratio"], "o-", color=f"C{place}", label=f"{what}: error")
        ratio.plot(part["n"], part["width ratio"], "s--", color=f"C{place}", label=f"{what}: width of 95% intervals")
    ratio.axhline(1, color="black", lw=0.8)
    ratio.set(xscale="log", xlabel="rows", ylabel="bootstrap over direct release", title="the same price, mu = 1")
    ratio.legend(frameon=False, fontsize=8)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Compute the scalar model, study every design, rerun those that fail, compare with direct releases."""
    scalars = exact()
    write_table(scalars, "bootstrap_coverage_exact", arguments, ["By quadrature; 95% intervals, the default."])
    rows = []
    for place in range(len(DESIGNS)):
        rows.append(kept("bootstrap_coverage", place, arguments, partial(study, place, arguments, again=False)))
        if not rows[-1]["held"] and arguments.replicates >= AGAIN:
            again = partial(study, place, arguments, again=True)
            rows.append(kept("bootstrap_coverage", f"{place}-again", arguments, again))
    table = pd.DataFrame(rows)
    last = table.drop_duplicates("place", keep="last")
    notes = [
        f"Designs: {len(last)}; failed at first: {int((~table[table['run'] == 'first']['held']).sum())}; failed again: "
        f"{int((~table[table['run'] == 'rerun']['held']).sum())}. The kernel runs end to end, with simulated noise.",
        "Oracle: knows the sampling variance and the noise. Widths count where the sampling variance is at least the "
        "noise variance of one release. Least squares on cross-products (same rows, same price) takes errors to spread "
        "equally.",
    ]
    write_table(table.drop(columns=["place", "clear"]), "bootstrap_coverage", arguments, notes)
    rivals = beside(arguments)
    notes = [f"mu = 1, B = {DIRECT}, the same rows; unbounded intervals of either are left out of both."]
    write_table(rivals, "bootstrap_coverage_direct", arguments, notes)
    write_figure(figure_of(scalars, last, rivals), "bootstrap_coverage", arguments)
    return claims(scalars, table, rivals)


def claims(scalars: pd.DataFrame, table: pd.DataFrame, rivals: pd.DataFrame) -> list[Claim]:
    """What the tables show."""
    last = table.drop_duplicates("place", keep="last")
    fifty = scalars[scalars["replicates"] == 50]
    least = float(fifty["coverage"].min())
    found = [Claim("least exact coverage of the bootstrap's default 95% interval", "one number, B = 50, any ratio",
                   f"{least:.4f}", least >= 0.94)]  # fmt: skip
    runs = table.rename(columns={"runs": "replicates"})
    for place, (covers, wide) in PUBLISHED.items():
        part = runs[runs["place"] == place]
        row = part.iloc[-1]
        design = f"{row['design']}, n = 10,000, {row['price']}, B = {row['replicates B']}"
        said = "deconvolution; Wang, Cheng & Awan"
        found += [
            least_coverage("coverage of the bootstrap's 90% interval", part, by=CELL, level=0.9, held=None,
                           design=design, published=f"{covers:.3f} ({said})"),
            Claim("mean width of the bootstrap's 90% interval", design, f"{row['width']:.4f}",
                  row["width"] <= WIDEST[place], published=f"{wide:.4f} ({said})",
                  threshold=f"at most {WIDEST[place]:.4f}", replicates=int(row["replicates"])),
        ]  # fmt: skip
    rest = runs[runs["level"] == 0.95]
    found += [
        least_coverage("least coverage of the bootstrap's 95% intervals, end to end", rest, by=CELL),
        largest_width("largest mean width over the oracle's where sampling outweighs noise: bootstrap",
                      rest[rest["clear"]], by=CELL),
    ]  # fmt: skip
    uneven = last.dropna(subset="gram covers").iloc[0]
    if uneven["runs"] >= SERIAL:  # fewer do not tell them apart
        found.append(Claim("coverage of ols on cross-products and of the bootstrap, spread growing with x",
                           f"n = {uneven['n']:,}, {uneven['price']}, 95%",
                           f"{uneven['gram covers']:.3f}, {uneven['coverage']:.3f}",
                           uneven["gram covers"] < uneven["coverage"]))  # fmt: skip
    for what, part in rivals.groupby("estimate", sort=False):
        error, width = (", ".join(f"{one:.2f}" for one in part[f"{name} ratio"]) for name in ("RMSE", "width"))
        found.append(Claim(f"error, and width, of the bootstrap over a direct release: {what}",
                           f"mu = 1, B = {DIRECT}, n = " + ", ".join(f"{n:,}" for n in part["n"]),
                           f"{error}; {width}", part["width ratio"].iloc[-1] <= RULES.width_cap))  # fmt: skip
    return found

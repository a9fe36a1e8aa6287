"""Times of the library over those of other packages for the same work, timed in turn; and what of them is noise.

A row of the table is work of ours and of a peer. Every action of a group is timed once a round, after a rest, and the
ratio of neighbours in time is taken within a round: medians of these are judged. Ledger, noise and inference are in all
times of questions; ``noise`` and ``ledger`` are their shares. ``memory passes`` is our time over that in which
`numpy.add` moves as many bytes as the columns have, timed in the same rounds: less than about one is not to be had.
"""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import statsmodels.api as sm
import statsmodels.formula.api as smf
from linearmodels.iv import IV2SLS
from scipy import special, stats

import dpinfer as dpi
from dpinfer.distributions import rank_statistics as ranks
from dpinfer.kernel.sampling import PrivateDraws, private_noise
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.sums import exact_sums
from dpinfer.privacy.store import Account
from dpinfer.regression.question import Newton
from dpinfer.release import NoiseLaw
from dpinfer.release.laws import Family
from dpinfer.resampling.models import newton
from dpinfer.statistics.nulls import simulate
from dpinfer.studies import population
from dpinfer.tables.chi_squared_inference import GoodnessOfFit, Independence
from validation.blocks.block_designs import POPULATIONS
from validation.common.leaves import noise_at
from validation.common.outputs import Options, write_table
from validation.common.rules import SEED, Claim
from validation.common.study import kept
from validation.common.timing import REST, Action, Took, bars, in_turns, peak_memory, took
from validation.engines import many_rows
from validation.regression.newton_draws import Drawer
from validation.regression.newton_ols import Cell
from validation.tables.marginal_designs import TEN_COLUMNS, WORKLOADS, ten_columns

ROWS, QUICK_ROWS, FULL = 1_000_000, 100_000, 5
"""Rows of a full and of a quick run, and the rounds from which on a run is full."""

MOST = 240.0
"""Seconds of rounds for a group, about."""

PRICE, LARGE = dpi.GDP(0.5), dpi.GDP(1e6)
PASS = 4_000_000
"""Numbers in each of the three arrays of `numpy.add`."""


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes
    ----------
    work, peer : str
    ours : callable
    theirs : tuple of callable
        Of several the fastest, by its median, is the peer; without one our own time is judged.
    asked, aim : float
        Largest value, or least where there are so many a second.
    unit : {"times", "ms", "ns", "a second"}
        Of the value: times as long as the peer, by the clock, or our own time, by the clock in ms, else of processors.
    count : int
        Cells, draws or fits of a call.
    reads : int
        Bytes of the columns.
    design : str
    """

    work: str
    peer: str
    ours: Action
    theirs: tuple[Action, ...] = ()
    asked: float = np.nan
    aim: float = np.nan
    unit: str = "times"
    count: int = 1
    reads: int = 0
    design: str = ""


# Rows in memory, and questions on them

REGRESSORS = tuple(f"x{place}" for place in range(10))
NAMES = (*REGRESSORS, "y", "b", "k", "g", "h", "s")
_LEVELS = {"g": "abcd", "h": "uvw", "s": "mf"}


def frame(n: int, names: Sequence[str], seed: int = 1) -> pd.DataFrame:
    """Return regressors x0, x1, ..., a response y, one b that is 0 or 1, whole numbers k and factors g, h, s."""
    rng = np.random.default_rng(seed)
    made: dict[str, Any] = {name: rng.uniform(-1, 1, n) for name in names if name.startswith("x")}
    mean = sum(made.values(), np.zeros(n)) / max(len(made), 1)
    made["y"] = np.clip(mean + 0.3 * rng.normal(size=n), -3, 3)
    made["b"] = (rng.random(n) < special.expit(3 * mean)).astype(float)
    made["k"] = rng.integers(0, 20, n)
    for name, levels in _LEVELS.items():
        made[name] = pd.Categorical.from_codes(rng.integers(0, len(levels), n, dtype=np.int8), [*levels])
    return pd.DataFrame({name: made[name] for name in names})


def private(rows: Any, names: Sequence[str] = NAMES) -> dpi.PrivateData:
    """Return rows as confidential, with a budget for many fits."""
    declared: dict[str, Any] = {"y": dpi.Real(-3, 3), "b": dpi.Integer(0, 1), "k": dpi.Integer(0, 19)}
    declared |= {name: dpi.Category([*levels]) for name, levels in _LEVELS.items()}
    schema = dpi.Schema({name: declared.get(name, dpi.Real(-1, 1)) for name in names})
    return dpi.PrivateData(rows, schema, dpi.Ledger.in_memory(LARGE))


def asks(question: Any) -> Action:
    """Return what measures and infers."""
    return partial(question.fit, PRICE)


def bound(rows: Any, names: Sequence[str], *asked: str) -> dict[str, Action]:
    """Return what asks questions of rows, by their names; regressions have all regressors."""
    data, right = private(rows, names), " + ".join(name for name in names if name.startswith("x"))
    every: dict[str, Callable[[], Any]] = {
        "mean": lambda: dpi.mean("y", data),
        "group mean": lambda: dpi.mean("y", data, by="g"),
        "median": lambda: dpi.median("y", data),
        "table": lambda: dpi.table(["g", "h"], data),
        "OLS from cross-products": lambda: dpi.ols(f"y ~ {right}", data, method="gram"),
        "OLS by iterations": lambda: dpi.ols(f"y ~ {right}", data),
        "logit": lambda: dpi.logit(f"b ~ {right}", data),
        "bootstrap": lambda: dpi.bootstrap("y", data, replicates=200),
    }
    return {name: asks(every[name]()) for name in asked}


# Groups of rows


def regressions(n: int, _: ExitStack) -> list[Row]:
    """Ten regressors, up to standard errors."""
    rows = frame(n, NAMES)
    asked = bound(rows, NAMES, "OLS by iterations", "OLS from cross-products", "logit")
    iterated, crossed, logit = ((lambda fit=fit: fit().bse) for fit in asked.values())
    x, y, b = sm.add_constant(rows[[*REGRESSORS]].to_numpy()), rows["y"].to_numpy(), rows["b"].to_numpy()
    robust, ordinary = ((lambda kind=kind: sm.OLS(y, x).fit(cov_type=kind).bse,) for kind in ("HC1", "nonrobust"))
    return [
        Row("OLS by iterations", "statsmodels HC1", iterated, robust, 1, 0.5, reads=88 * n),
        Row("OLS from cross-products", "statsmodels", crossed, ordinary, 0.08, 0.05, reads=88 * n),
        Row("OLS from cross-products", "X'X alone", crossed, (lambda: x.T @ x,), 2, 1.8, reads=88 * n),
        Row("logit", "statsmodels", logit, (lambda: sm.Logit(b, x).fit(disp=0).bse,), 0.5, 0.25, reads=88 * n),
    ]


def descriptions(n: int, _: ExitStack) -> list[Row]:
    """One number, or few."""
    rows, of, three = frame(n, NAMES), 8 * n, ["x0", "x1", "x2"]
    data, y, k = private(rows), rows["y"], rows["k"].to_numpy()
    sort, count = partial(np.sort, y.to_numpy()), partial(np.bincount, k, minlength=20)
    grouped = rows.groupby("g", observed=True)["y"]
    return [
        Row("mean", "", asks(dpi.mean("y", data)), (), 18, 15, "ms", reads=of),
        Row("group mean", "pandas groupby", asks(dpi.mean("y", data, by="g")), (grouped.mean,), 3, 2, reads=of + n),
        Row("variance", "pandas", asks(dpi.variance("y", data)), (y.var,), 6, 4, reads=of),
        Row("correlations of three", "pandas", asks(dpi.corr(three, data)), (rows[three].corr,), 6, 4, reads=3 * of),
        Row("median", "numpy.sort", asks(dpi.median("y", data)), (sort,), 8, 5, reads=of),
        Row("three quantiles", "numpy.sort", asks(dpi.quantile("y", data, q=[0.1, 0.5, 0.9])), (sort,), reads=of),
        Row("most frequent number", "numpy.bincount", asks(dpi.most_frequent("k", data)), (count,), 300, reads=of),
        Row("most frequent label", "numpy.bincount", asks(dpi.most_frequent("g", data)), (count,), reads=n),
    ]  # fmt: skip


def counts(n: int, _: ExitStack) -> list[Row]:
    """Tables, tests of ranks, and histograms of ten times the rows."""
    rows, m, bins, rng = frame(n, NAMES), 10 * n, 1000, np.random.default_rng(1)
    data, crossed = private(rows), (partial(pd.crosstab, rows["g"], rows["h"]),)
    four, two = ([group.array for _, group in rows.groupby(by, observed=True)["y"]] for by in "gs")
    many = pd.DataFrame({"whole": rng.integers(0, bins, m), "real": rng.random(m)})
    schema = dpi.Schema(whole=dpi.Integer(0, bins - 1), real=dpi.Real(0, 1))
    wide, of = (
        dpi.PrivateData(many, schema, dpi.Ledger.in_memory(LARGE)),
        {"reads": 8 * m, "design": f"n = {m:,}, 1,000 bins"},
    )
    integers = dpi.histogram("whole", wide, bins=[*range(bins - 1), bins - 1.5, bins - 1])
    sums = partial(exact_sums, integers.measurement(PRICE).rows, open_source(many))
    bare = (partial(np.bincount, many["whole"].to_numpy(), minlength=bins),)
    reals = (partial(np.histogram, many["real"].to_numpy(), bins, (0.0, 1.0)),)
    return [
        Row("table of two factors", "pandas.crosstab", asks(dpi.table(["g", "h"], data)), crossed, 0.8, 0.5,
            reads=2 * n),
        Row("chi-squared test of two factors", "pandas.crosstab", asks(dpi.chi2_contingency("g", "h", data)), crossed,
            0.8, 0.5, reads=2 * n),
        Row("kruskal", "scipy", asks(dpi.kruskal("y", "g", data)), (partial(stats.kruskal, *four),), 2, 1, reads=9 * n),
        Row("mannwhitneyu", "scipy", asks(dpi.mannwhitneyu("y", "s", data)), (partial(stats.mannwhitneyu, *two),), 2, 1,
            reads=9 * n),
        Row("counts of a histogram of integers", "numpy.bincount", sums, bare, 3, **of),
        Row("histogram of integers", "numpy.bincount", asks(integers), bare, 5, **of),
        Row("histogram of reals", "numpy.histogram", asks(dpi.histogram("real", wide, bins=bins)), reals, **of),
    ]  # fmt: skip


def fixed(n: int, stack: ExitStack) -> list[Row]:
    """What few rows take, and noise and the ledger alone."""
    names, schema, price, m = ("x0", "x1", "x2", "y"), private(frame(9, NAMES)).schema, dpi.ZCDP(0.5), n // 10
    public = dpi.PublicData(frame(2000, names), schema.select([*names]), rng=np.random.default_rng(1))
    ols, simulated = (dpi.ols("y ~ x0 + x1 + x2", one) for one in (private(frame(5000, names), names), public))
    cost = dpi.mean("y").measurement(PRICE, schema=schema, neighbors="add_remove").cost
    file = Path(stack.enter_context(TemporaryDirectory())) / "ledger.db"
    ledgers = {"memory": dpi.Ledger.in_memory(LARGE), "a file": dpi.Ledger(file, dataset="speed", budget=LARGE)}
    laws: tuple[Family, ...] = ("gaussian", "laplace")
    few, cell = bound(frame(1000, ["y"]), ["y"], "mean")["mean"], Cell("normal", 2000, "rho = 0.5")
    drawer = Drawer(Newton(formula="y ~ a + b + c", model="ols"), cell.context())

    def replicate() -> None:
        x, y = cell.rows(public.rng, cell.n)
        drawn = dict(zip(("a", "b", "c", "y"), (*x.T[1:], y), strict=True))
        drawer.estimate(drawn, public.rng).intervals(np.eye(4), 0.05)

    simulation = "four coefficients, n = 2,000"
    return [
        Row("mean of few rows", "", few, (), 6, 3, "ms", design="n = 1,000"),
        Row("OLS by iterations of few rows", "", lambda: ols.fit(price).bse, (), 60, 30, "ms",
            design="four coefficients, n = 5,000"),
        Row("simulated OLS by iterations", "", lambda: simulated.fit(price).conf_int(), (), 100, 200, "a second",
            design=simulation),
        Row("OLS by iterations in a loop of the validation", "", replicate, unit="a second", design=simulation),
        *(Row(f"exact {law} noise alone", "", partial(private_noise, NoiseLaw(law, (1e3,) * m)), unit="a second",
              count=m, design=f"{m:,} draws") for law in laws),
        *(Row(f"charge to a ledger in {where}", "", partial(ledger.charge, cost, "speed"), unit="ms", design="a charge")
          for where, ledger in ledgers.items()),
    ]  # fmt: skip


def imports(_: int, __: ExitStack) -> list[Row]:
    """Processor time of imports in fresh interpreters; names of dpinfer load what they need at their first use."""

    def imported(statement: str) -> Took:
        code = f"import time; start = time.process_time(); {statement}; print(time.process_time() - start)"
        said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        return Took(float(said), float(said))

    used = "import dpinfer; dpinfer.PrivateData, dpinfer.ols"
    ours, names, theirs = (partial(imported, one) for one in ("import dpinfer", used, "import statsmodels.api"))
    return [
        Row("import dpinfer", "import statsmodels.api", ours, (theirs,), design="fresh interpreters"),
        Row(
            "import dpinfer and ols", "import statsmodels.api", names, (theirs,), 1.05, 0.8, design="fresh interpreters"
        ),
    ]


def studies(n: int, _: ExitStack) -> list[Row]:
    """Coverage studies of regressions from cross-products, five regressors."""
    one, rows, many = population("uniform"), 1000, n // 100
    few, design = many // 20, f"OLS from cross-products, n = {rows:,}, {many:,} replicates"

    def draw(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        x = rng.uniform(-1.0, 1.0, (5, n))
        return dict(zip(one.schema, [*x, np.array([0.1, -0.1, 0.1, -0.1, 0.1]) @ x + 0.2 * rng.normal(size=n)]))  # noqa: B905

    def bare(rng: np.random.Generator) -> None:
        ones = np.ones(rows)
        for _ in range(many):
            x = np.column_stack([ones, *[*draw(rng, rows).values()][:5]])
            x.T @ x

    def loop(rng: np.random.Generator) -> Took:
        fit = took(lambda: [smf.ols(one.formula, pd.DataFrame(draw(rng, rows))).fit().conf_int() for _ in range(few)])
        return Took(fit.clock * many / few, fit.processor * many / few)

    asked = {"schema": one.schema, "truth": one.truth, "n": rows, "privacy": dpi.ZCDP(1.0), "seed": 1}
    study = partial(dpi.coverage_study, draw, dpi.ols(one.formula, method="gram"), replicates=many, **asked)
    alone, two = (partial(study, n_jobs=jobs, progress=False) for jobs in (1, 2))
    peers = [(partial(action, np.random.default_rng(1)),) for action in (bare, loop)]
    return [
        Row("coverage study", "bare loop in numpy, drawing and X'X alone", alone, peers[0], 2, 1.3, design=design),
        Row("coverage study", "loop of smf.ols(...).fit()", alone, peers[1], 0.2, design=design),
        Row("coverage study in two processes", "in one process", two, (alone,), 1 / 1.7, design=design),
    ]


def resampled(n: int, _: ExitStack) -> list[Row]:
    """Bootstraps over one mean of the same column, and fits of blocks over the same fits without the library."""
    column, group, size, m = private(frame(n, ["y"]), ["y"]), POPULATIONS[0], 2000, n if n == ROWS else 20_000
    once = (partial(dpi.mean("y", column).measure, PRICE),)
    y, x = group.draw(np.random.default_rng(SEED), m)
    rows = pd.DataFrame({f"x{place}": x[:, place + 1] for place in range(4)} | {"y": y.astype(int)})
    held = dpi.PrivateData(rows, group.schema, dpi.Ledger.in_memory(LARGE))
    asked = {"model": smf.logit, "blocks": m // size, "bounds": group.bounds, "n_jobs": 1}
    own, apart = (dpi.sample_aggregate(group.formula, held, **asked, **extra)
                  for extra in ({}, {"fit_options": {"method": "newton"}}))  # fmt: skip  # statsmodels itself is called

    def each(fit: Callable[[slice], Any]) -> None:
        for first in range(0, m, size):
            for low, high in ((0, size), (0, size // 2), (size // 2, size)):
                fit(slice(first + low, first + high))

    bare = (partial(each, lambda mine: smf.logit(group.formula, rows[mine]).fit(disp=0)),)
    arrays = (partial(each, lambda mine: sm.Logit(y[mine], x[mine]).fit(disp=0)),)
    steps = partial(each, lambda mine: newton(sm.Logit, y[mine], x[mine]))
    design, formula = f"logit, {m // size} blocks, n = {m:,}", "the same fits bare, by formula"
    return [
        *(Row(f"bootstrap of a mean, B = {count}, {weights} weights", "mean of the column",
              partial(dpi.bootstrap("y", column, replicates=count, weights=weights).measure, PRICE), once, asked)
          for count, weights, asked in ((200, "double_or_nothing", 60), (20, "double_or_nothing", np.nan),
                                        (200, "poisson", np.nan))),
        Row("sample_aggregate by statsmodels", formula, partial(apart.measure, PRICE), bare, 1.5, design=design),
        Row("sample_aggregate", formula, partial(own.measure, PRICE), bare, 1.5, design=design),
        Row("own steps block by block", "statsmodels from arrays", steps, arrays, 0.5, design=design),
    ]  # fmt: skip


def nulls(n: int, _: ExitStack) -> list[Row]:
    """Simulated nulls over their multinomials alone."""
    draws, members, leaves, rng = 100_000 if n == ROWS else 1_000, 10_000, 100, np.random.default_rng(1)
    found: list[Row] = []

    def add(name: str, model: Any, noise: Any, groups: int, cells: int, most: float) -> None:
        shares, sizes = np.full(cells, 1 / cells), np.full(groups, members // groups)
        values = (sizes[:, None] * shares).ravel() + noise.rvs((groups * cells,), rng)
        bare = partial(rng.multinomial, sizes, shares, size=(draws, groups))
        ours = partial(simulate, model, values, draws=draws)
        found.append(Row(f"null of {name}", "its multinomials", ours, (bare,), most, design=f"{draws:,} draws"))

    for neighbors, public in (("replace_one", members), ("add_remove", None)):
        noise = noise_at(dpi.ZCDP(0.005), neighbors)
        add(f"goodness of fit, {neighbors}", GoodnessOfFit(np.full(10, 0.1), noise, public), noise, 1, 10, 1.5)
        add(f"independence, 3x4, {neighbors}", Independence((3, 4), noise, public), noise, 1, 12, 10)
    for price in (dpi.ZCDP(0.02), dpi.PureDP(1.0)):
        noise, even = noise_at(price, "add_remove"), np.full(leaves, 1 / leaves)
        add(f"mannwhitneyu, {price}", ranks.GroupRanks(noise, shape=(2, leaves)), noise, 2, leaves, 5)
        add(f"kruskal, {price}", ranks.GroupRanks(noise, shape=(4, leaves)), noise, 4, leaves, 5)
        add(f"ks_2samp, {price}", ranks.TwoDistributions(noise, shape=(2, leaves)), noise, 2, leaves, 5)
        add(f"wilcoxon, {price}", ranks.SignedRanks(noise), noise, 1, leaves + 1, 5)
        add(f"ks_1samp, {price}", ranks.GivenDistribution(noise, shares=even), noise, 1, leaves, 5)
        add(f"spearmanr, {price}", ranks.RankAssociation(noise, shape=(10, 10)), noise, 1, leaves, 5)
    return found


def cells(n: int, _: ExitStack) -> list[Row]:
    """Cells of decimals and dates by how they are stored, and floats that have codes of missing cells."""
    m, number, day = n // 2, dpi.Real(0, 1e4), dpi.Date("1990-01-01", "2030-12-31")
    decimals, moments = [Decimal(one) / 100 for one in range(m)], np.datetime64("2000-01-01", "s") + np.arange(m)
    dates = [dt.date(2000, 1, 1) + dt.timedelta(one % 5000) for one in range(m)]
    storages: dict[str, tuple[Any, Any]] = {
        "floats with missing codes": (dpi.Real(0, 1e4, missing_codes=[-9, -8]), np.arange(m) / 100),
        "decimals of Arrow": (number, pa.table({"x": pa.array(decimals, pa.decimal128(12, 2))})),
        "decimals as objects": (number, pd.Series(decimals, dtype=object)),
        "times of pandas": (day, moments.astype("M8[ns]")),
        "times of Arrow": (day, pa.table({"x": pa.array(moments)})),
        "dates as objects": (day, pd.Series(dates, dtype=object)),
        "times as texts": (day, pd.Series(np.datetime_as_string(moments)).astype("str")),
    }

    def reading(column: Any, held: Any) -> Action:
        source = open_source(held if isinstance(held, pa.Table) else pd.DataFrame({"x": held}))
        return lambda: column.coerce(source.read(["x"], 0, m)["x"])

    read, arrow = {name: reading(*one) for name, one in storages.items()}, "decimals of Arrow"
    design = f"{m:,} cells"
    return [
        *(Row(f"reading {name}", "", one, (), 100 if name == arrow else np.nan, unit="ns", count=m, design=design)
          for name, one in read.items()),
        Row(f"reading {arrow}", "decimals as objects", read[arrow], (read["decimals as objects"],), 0.2, design=design),
    ]  # fmt: skip


def scanned(folder: Path, columns: Sequence[str]) -> tuple[Action, ...]:
    """Return bare scans of columns, with buffers and without."""
    scan = partial(many_rows.bare_scan, folder, columns=columns)
    return partial(scan, pre_buffer=True), partial(scan, pre_buffer=False)


def parquet(n: int, stack: ExitStack) -> list[Row]:
    """Ten files of Parquet, beside bare scans and DuckDB."""
    folder = stack.enter_context(many_rows.rows_on_disk([n] * 10, SEED))
    duck, files, design = duckdb.connect(), f"'{folder}/*.parquet'", f"{10 * n:,} rows of Parquet in ten files"
    queries = f"select median(x1) from {files}", f"select g, h, count(*) from {files} group by g, h"
    median, table = ((lambda query=query: duck.sql(query).fetchall(),) for query in queries)
    asked = {name: many_rows.asked(name, folder) for name in ("Gram", "median", "table", "logit")}
    scans, both, scan = scanned(folder, many_rows.COLUMNS), scanned(folder, ["g", "h"]), "the faster bare scan"
    return [
        Row("Gram of ten columns", scan, asked["Gram"], scans, 2.5, design=design),
        Row("median", "DuckDB median", asked["median"], median, 8, design=design),
        Row("table of two factors", "DuckDB group by", asked["table"], table, 2, design=design),
        Row("table of two factors", f"{scan} of both", asked["table"], both, 1.2, 1, design=design),
        Row("logit on five columns", scan, asked["logit"], scans, 8, design=design),
    ]


def marginals(n: int, stack: ExitStack) -> list[Row]:
    """Marginals of ten columns, beside bare scans of the columns that they need."""
    folder = stack.enter_context(many_rows.rows_on_disk([n] * 10, SEED, ten_columns))
    data = dpi.PrivateData(folder, TEN_COLUMNS, dpi.Ledger.in_memory(LARGE))
    return [
        Row(name, "the faster bare scan of their columns", partial(dpi.marginals(asked, data).measure, PRICE),
            scanned(folder, [*asked.columns]), most, design=f"{10 * n:,} rows of Parquet in ten files")
        for (name, asked), most in zip(WORKLOADS.items(), (6, np.nan, np.nan), strict=True)
    ]  # fmt: skip


def topics(n: int, _: ExitStack) -> list[Row]:
    """Panels, instruments, surveys, survival, experiments and choices, up to their tables."""
    rng = np.random.default_rng(SEED)
    person, site, stratum = np.arange(n) // 5, rng.integers(0, 200, n), rng.integers(0, 4, n)
    z, ability = rng.uniform(-1, 1, n), rng.normal(size=n)
    x = np.clip(0.5 * z + 0.2 * ability, -2, 2)
    y = np.clip(x + 0.3 * ability + 0.3 * rng.normal(size=n), -4, 4)
    levels = np.digitize(x + rng.logistic(size=n), [-1.0, 1.0])
    rows = pd.DataFrame({
        "person": person, "stratum": pd.Categorical.from_codes(stratum, [*"abcd"]),
        "site": pd.Categorical.from_codes(site, [f"s{one}" for one in range(200)]), "weight": rng.uniform(1, 5, n),
        "x": x, "y": y, "z": z, "arm": rng.random(n) < 0.5, "level": pd.Categorical.from_codes(levels, [*"abc"]),
        "time": rng.integers(1, 13, n), "event": rng.random(n) < 0.5,
    })  # fmt: skip
    schema = dpi.Schema(
        stratum=dpi.Category([*"abcd"]), site=dpi.Category([*rows["site"].cat.categories]),
        weight=dpi.Real(1, 5), x=dpi.Real(-2, 2), y=dpi.Real(-4, 4), z=dpi.Real(-1, 1), arm=dpi.Boolean(),
        level=dpi.Category([*"abc"]), time=dpi.Integer(0, 12), event=dpi.Boolean(),
    )  # fmt: skip
    single = dpi.PrivateData(rows[[*schema]], schema, dpi.Ledger.in_memory(LARGE))
    panel = dpi.PrivateData(
        rows[["person", "x", "y"]], dpi.Schema(x=schema["x"], y=schema["y"]), dpi.Ledger.in_memory(LARGE),
        id="person", max_rows=5,
    )  # fmt: skip
    grouped, ones = rows[["x", "y"]].groupby(person), np.ones(n)
    by_site = rows[["x", "y"]].groupby(site)

    def demeaned(groups: Any) -> Any:
        within = rows[["x", "y"]] - groups.transform("mean")
        return sm.OLS(within["y"].to_numpy(), within["x"].to_numpy()).fit(cov_type="HC1").bse

    def two_stages() -> Any:
        return IV2SLS(y, pd.DataFrame({"one": ones}), x, z).fit(cov_type="robust").std_errors

    def adjusted() -> Any:
        arm = rows["arm"].to_numpy(dtype=float)
        return sm.OLS(y, np.column_stack([ones, arm, x - x.mean(), arm * (x - x.mean())])).fit(cov_type="HC1").bse

    def multinomial() -> Any:
        return sm.MNLogit(levels, np.column_stack([ones, x])).fit(disp=0).bse

    def curve() -> Any:
        return sm.SurvfuncRight(rows["time"], rows["event"]).surv_prob_se

    design = dpi.SurveyDesign("site", weights="weight", strata="stratum")
    survival = dpi.survival("time", "event", single, times=range(1, 13), censoring="middle")
    return [
        Row("person effects", "demeaned by pandas, statsmodels HC1", asks(dpi.ols("y ~ x + EntityEffects", panel)),
            (partial(demeaned, grouped),)),
        Row("200 levels absorbed", "demeaned by pandas, statsmodels HC1", asks(dpi.ols("y ~ x", single, absorb="site")),
            (partial(demeaned, by_site),)),
        Row("clustered by 200 groups", "",
            asks(dpi.ols("y ~ x", single, cov_type="cluster", groups="site")), unit="ms"),
        Row("instrument", "linearmodels IV2SLS", asks(dpi.iv("y ~ 1 + [x ~ z]", single)), (two_stages,)),
        Row("survey mean, 800 units", "", asks(design.mean("y", single)), unit="ms"),
        Row("survival", "statsmodels SurvfuncRight", asks(survival), (curve,)),
        Row("experiment, adjusted", "statsmodels HC1", asks(dpi.experiment("y", "arm", single, covariates=["x"])),
            (adjusted,)),
        Row("doubly robust effect", "",
            asks(dpi.experiment("y", "arm", single, covariates=["x"], method="aipw")), unit="ms"),
        Row("mnlogit of three levels", "statsmodels MNLogit", asks(dpi.mnlogit("level ~ x", single)), (multinomial,)),
        Row("ordered logit of three levels", "", asks(dpi.ordered("level ~ x", single)), unit="ms"),
    ]  # fmt: skip


GROUPS = (
    regressions, descriptions, counts, fixed, imports, studies, resampled, nulls, cells, parquet, marginals, topics,
)  # fmt: skip

_BEFORE = """from validation.speed.ratios import bound, frame
few, many = (bound(frame(n, {1}), {1}, {0!r})[{0!r}] for n in (2000, {2}))
few()"""
"""A small question loads what is needed."""


# The loop


def measured(make: Callable[[int, ExitStack], list[Row]], options: Options) -> pd.DataFrame:
    """Time a group in turn: a row for each of its own, seconds being medians."""
    full, spent, parts = options.replicates >= FULL, Counter[str](), dict[Action, list[np.ndarray]]()
    n, added = ROWS if full else QUICK_ROWS, [np.ones(PASS), np.ones(PASS), np.empty(PASS)]

    def watched(part: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            found = method(*given, **named)
            spent[part] += time.perf_counter() - began
            return found

        return call

    def noted(action: Action) -> Any:
        spent.clear()
        found = watched("whole", action)()
        shares = np.array([spent["noise"] + spent["place"], spent["charge"]]) / spent["whole"]
        parts.setdefault(action, []).append(shares)
        return found

    with ExitStack() as stack:
        rows = make(n, stack)
        for owner, name in ((PrivateDraws, "noise"), (PrivateDraws, "place"), (Account, "charge")):
            stack.enter_context(mock.patch.object(owner, name, watched(name, getattr(owner, name))))
        actions = dict.fromkeys(action for row in rows for action in (row.ours, *row.theirs))
        works = {str(id(action)): partial(noted, action) for action in actions}
        works["pass"] = lambda: np.add(*added[:2], out=added[2])
        seconds = in_turns(works, options.replicates, rest=REST if full else 0.0, most=MOST)
    found = []
    for row in rows:
        ours = seconds[str(id(row.ours))]
        theirs = min((seconds[str(id(one))] for one in row.theirs), key=lambda one: np.median(one[:, 0]), default=None)
        noise, ledger = (part or np.nan for part in np.median(parts[row.ours], axis=0))
        clock, worked = np.median(ours, axis=0)
        if row.unit == "times":
            value = np.median(ours / theirs, axis=0)
        else:
            each = np.array([clock, worked]) / row.count
            value = 1 / each if row.unit == "a second" else {"ms": 1e3, "ns": 1e9}[row.unit] * each
        passes = ours[:, 0] / seconds["pass"][:, 0] * 24 * PASS / row.reads if row.reads else np.nan
        judged, of_processors = value[int(row.unit in ("ns", "a second"))], value[1] if row.theirs else np.nan
        found.append({
            "group": make.__name__, "work": row.work, "peer": row.peer, "design": row.design or f"n = {n:,}",
            "unit": row.unit, "value": judged, "by processor time": of_processors, "asked": row.asked, "aim": row.aim,
            "seconds": clock, "processor seconds": worked, "noise": noise, "ledger": ledger, "rounds": len(ours),
            "their seconds": np.nan if theirs is None else np.median(theirs[:, 0]), "memory passes": np.median(passes),
        })  # fmt: skip
    return pd.DataFrame(found)


def memory(options: Options) -> pd.DataFrame:
    """Return the most memory in MB that questions take beyond their columns, each in a process of its own."""
    asked = [("median", 60, 40), ("OLS from cross-products", 60, np.nan), ("OLS by iterations", 80, np.nan),
             ("logit", 80, np.nan), ("bootstrap", 200, np.nan)]  # fmt: skip
    found = []
    for name, most, aim in asked:
        n = (40 if name == "median" else 1) * (ROWS if options.replicates >= FULL else QUICK_ROWS)
        names = ("y",) if name in ("median", "bootstrap") else (*REGRESSORS, "y", "b")
        value = peak_memory(_BEFORE.format(name, names, n), "many()")
        found.append({"group": "memory", "work": f"memory of {name} beyond the columns", "peer": "", "unit": "MB",
                      "design": f"n = {n:,}", "value": value, "asked": most, "aim": aim, "rounds": 1})  # fmt: skip
    return pd.DataFrame(found)


def run(options: Options) -> list[Claim]:
    """Time every group, write the table and the figure, and judge."""
    load = many_rows.load()
    parts = {make.__name__: partial(measured, make, options) for make in GROUPS} | {"memory": partial(memory, options)}
    table = pd.concat([kept("ratios", name, options, part) for name, part in parts.items()], ignore_index=True)
    asked = table[table["asked"].notna()]
    least = asked["unit"] == "a second"
    over = np.where(least, asked["asked"] / asked["value"], asked["value"] / asked["asked"])
    named = asked["work"] + (" / " + asked["peer"]).where(asked["peer"] != "", ", " + asked["unit"])
    notes = [
        f"Medians of ratios within a round, at most {options.replicates} rounds; each action after a rest, short ones "
        "several times. Value: by the clock, but imports, cells, draws and simulated fits by processor time. Noise, "
        "ledger: shares of our time. Memory passes: our time over that of numpy.add for as many bytes as columns have.",
        f"Load (threads of the whole machine that wanted to run) before {load:.1f}, after {many_rows.load():.1f}.",
    ]
    figure = bars(dict(zip(named, over, strict=True)), "share of what is asked", 1.0)
    write_table(table, "ratios", options, notes, figure)
    return [
        Claim(name, row.design, ours=f"{row.value:.3g}", held=ratio <= 1, kind="time",
              threshold=f"at {'least' if row.unit == 'a second' else 'most'} {row.asked:.3g}"
              + ("" if np.isnan(row.aim) else f", aim {row.aim:g}"))
        for row, name, ratio in zip(asked.itertuples(), named, over, strict=True)
    ]  # fmt: skip

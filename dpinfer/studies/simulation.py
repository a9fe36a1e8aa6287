"""The design of a coverage study, its replicates, and its oracle.

It draws, measures and infers block by block. The oracle's intervals know the true sampling variance and the
distribution of the noise.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dpinfer._version import __version__
from dpinfer.checks import is_number, is_whole, require
from dpinfer.display.progress import LOG, watched
from dpinfer.errors import DataError, OptionError
from dpinfer.kernel.data import PublicData
from dpinfer.kernel.measurement import Measurement, price_procedure
from dpinfer.kernel.rows.base import CHUNK_ROWS, Batch
from dpinfer.kernel.sources import open_table
from dpinfer.kernel.stage import Context
from dpinfer.privacy.units import NEIGHBORS, ZCDP, Neighbors, Privacy
from dpinfer.schema.cells import Coded
from dpinfer.schema.schema import Schema
from dpinfer.statistics.inference import Oracle, Released, contrast_rows, variance_of
from dpinfer.writing import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from dpinfer.kernel.rows.base import RowSum
    from dpinfer.statistics.arrays import Array, Mask

    Fit = tuple[tuple[str, ...], Array, bool, Array]

__all__ = [
    "BLOCK", "HARDLY", "HARDLY_NOISY", "Design", "Spread", "StudyOracle", "Task", "cells_at", "chosen_spread",
    "columns_of", "draw_columns", "fitted", "group_sums", "noiseless_estimates", "noisy", "read_results",
    "run_block", "run_design", "spread_of_replicates", "spread_of_rows", "study_oracles",
]  # fmt: skip

COLUMNS = 2
"""Version of the columns that blocks are stored with."""

BLOCK = 250
"""Replicates that are drawn from one stream; the same whatever the number of workers."""

HARDLY_NOISY = ZCDP(1e9)
"""The price of estimates that count as without noise, where data are fitted one by one."""

HARDLY = 1e-6
"""Scale of the noise, relative to that of the price, of estimates from sums that count as without noise."""

_NUMBERS = ("estimate", "error", "lower", "upper", "pvalue")
_WITHOUT = ("without noise", "noise error")
_BASELINE = ("baseline estimate", "baseline error", "baseline lower", "baseline upper")


@dataclass(frozen=True)
class Task:
    """A block of replicates at one number of rows, by its index in the design, for all privacy parameters."""

    size: int
    block: int
    replicates: int


@dataclass(frozen=True, eq=False)
class Design:
    """Everything that determines the results of a study.

    Attributes
    ----------
    generate : callable
        ``generate(rng, n)`` returns a dict of arrays of length n, or a DataFrame.
    procedure : Procedure, or anything with ``bind(data)`` and ``fit(price)``
    schema : Schema
    truth : mapping of str to float, or None
    n : tuple of int
    privacy : tuple of Privacy
    neighbors : {"add_remove", "replace_one"}
    replicates : int
    level : float
    seed : int
    baseline : callable, optional
        Maps the same data, as a DataFrame, to fitted results of statsmodels.
    contrasts : mapping of name to weights by coefficient
        Further quantities to study like coefficients.
    """

    generate: Callable[[np.random.Generator, int], Any]
    procedure: Any
    schema: Schema
    truth: Mapping[str, float] | None
    n: tuple[int, ...]
    privacy: tuple[Privacy, ...]
    neighbors: Neighbors
    replicates: int
    level: float
    seed: int
    baseline: Callable[[Any], Any] | None = None
    contrasts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        bound = hasattr(self.procedure, "fit") and hasattr(self.procedure, "bind")
        sizes = bool(self.n) and all(is_whole(size) and size > 0 for size in self.n)
        prices = bool(self.privacy) and all(isinstance(price, Privacy) for price in self.privacy)
        weights = all(isinstance(one, Mapping) for one in self.contrasts.values())
        for name, right, expected in (
            ("generate", callable(self.generate), "a function of (rng, n) that returns columns"),
            ("procedure", bound, 'a procedure such as dpinfer.ols("y ~ x")'),
            ("schema", isinstance(self.schema, Schema), "a Schema"),
            ("n", sizes, "one or more positive whole numbers of rows"),
            ("privacy", prices, "one or more privacy parameters such as ZCDP(0.1)"),
            ("neighbors", self.neighbors in NEIGHBORS, NEIGHBORS),
            ("replicates", is_whole(self.replicates) and self.replicates > 0, "a positive whole number"),
            ("level", is_number(self.level) and 0 < self.level < 1, "a number between 0 and 1, such as 0.95"),
            ("seed", is_whole(self.seed) and self.seed >= 0, "a whole number, not negative"),
            ("contrasts", weights, 'such as {"x - z": {"x": 1, "z": -1}}'),
            ("baseline", self.baseline is None or callable(self.baseline), "a function of a DataFrame, or None"),
        ):
            require(right, name, getattr(self, name), expected)

    @property
    def estimates_many(self) -> bool:
        """Whether the procedure infers from many releases at once; an object with only bind and fit does not."""
        return bool(getattr(self.procedure, "estimates_many", False))

    def measured(self, price: Privacy, n: int) -> Measurement:
        """Return the measurement of n rows with given privacy parameters, for every block of replicates."""
        public = n if self.neighbors == "replace_one" and self.schema.people is None else None
        context = Context(self.schema, self.neighbors, price, public, public=True)
        if context not in self._measured:
            self._measured[context] = price_procedure(self.procedure.resolve(context), context)
        return self._measured[context]

    @cached_property
    def _measured(self) -> dict[Context, Measurement]:
        return {}

    @property
    def tasks(self) -> list[Task]:
        """All blocks, in order."""
        starts = range(0, self.replicates, BLOCK)
        return [
            Task(size, start // BLOCK, min(BLOCK, self.replicates - start))
            for size, start in product(range(len(self.n)), starts)
        ]

    def stream(self, task: Task, purpose: int) -> np.random.Generator:
        """Return the random stream of a block: 0 for the data, 1 + i for the noise of privacy parameters i."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(task.size, task.block, purpose)))

    def fingerprint(self) -> str:
        """Return the design as one line of JSON with a digest of its functions' code, to identify it."""
        design = {one.name: getattr(self, one.name) for one in fields(self)} | {
            "generate": _digest(self.generate),
            "procedure": repr(self.procedure),
            "schema": self.schema.to_dict(),
            "truth": None if self.truth is None else {str(one): float(value) for one, value in self.truth.items()},
            "privacy": [price.to_dict() for price in self.privacy],
            "contrasts": {name: dict(weights) for name, weights in self.contrasts.items()},
            "baseline": None if self.baseline is None else _digest(self.baseline),
        }
        return json.dumps({**design, "block": BLOCK, "columns": COLUMNS, "version": __version__}, sort_keys=True)


def _digest(function: Callable[..., Any]) -> str:
    """Identify a function by its name, code and data, so that functions of one name can differ."""
    code = getattr(function, "__code__", None)
    if code is None:
        return f"{type(function).__module__}.{type(function).__qualname__}: {function!r}"
    parts = (code.co_code, repr(code.co_names), repr([c for c in code.co_consts if not hasattr(c, "co_code")]))
    digest = hashlib.sha256(repr((parts, repr(function.__defaults__))).encode()).hexdigest()[:16]
    return f"{function.__qualname__}: {digest}"


# Data sets


def columns_of(drawn: Any) -> Mapping[str, Any] | None:
    """Read a DataFrame or a mapping of arrays by column; None if it is neither."""
    if isinstance(drawn, pd.DataFrame):
        source = open_table(drawn)
        drawn = source.read(source.columns, 0, source.rows)
    if not hasattr(drawn, "keys"):
        return None
    return {name: cells if isinstance(cells, Coded) else np.asarray(cells) for name, cells in drawn.items()}


def draw_columns(design: Design, rng: np.random.Generator, n: int) -> Mapping[str, Any]:
    """Draw one data set and check its shape.

    Raises
    ------
    DataError
        If ``generate`` does not return n values for each declared column.
    """
    drawn = design.generate(rng, n)
    columns = columns_of(drawn)
    if columns is None:
        raise DataError(f"generate returned a {type(drawn).__name__}: expected a dict of arrays or a DataFrame")
    missing = [name for name in design.schema if name not in columns]
    if missing:
        raise DataError(f"generate did not return the columns {', '.join(missing)}; it returned {', '.join(columns)}")
    for name in design.schema:
        if len(columns[name]) != n:
            raise DataError(f"generate returned {len(columns[name])} values for {name!r}: expected n = {n}")
    return columns


def cells_at(cells: Any, places: Any) -> Any:
    """Return some cells of a column."""
    return Coded(cells.codes[places], cells.values) if isinstance(cells, Coded) else cells[places]


# Estimates from sums


def group_sums(rows: RowSum, cells: Mapping[str, Any], count: int, each: int) -> Array:
    """Return integer sums (count, m) of data sets, or groups, of ``each`` consecutive rows."""
    together, sums = max(1, CHUNK_ROWS // each), np.zeros((count, rows.entries))
    for first in range(0, count, together):
        last = min(first + together, count)
        for start in range(first * each, last * each, CHUNK_ROWS):  # several groups are one chunk
            stop = min(start + CHUNK_ROWS, last * each)
            part = {name: cells_at(cells[name], slice(start, stop)) for name in rows.columns}
            sums[first:last] += rows.add(Batch(part, stop - start, sets=last - first))
    return sums


def noisy(measurement: Measurement, sums: Array, rng: np.random.Generator | None, *, share: float = 1.0) -> Released:
    """Add simulated noise to integer sums (R, m) of R releases.

    The noise has a ``share`` of its usual scale; without a generator there is no noise.
    """
    law = replace(measurement.law, scales=tuple(share * one for one in measurement.law.scales))
    noise = 0.0 if rng is None else law.rvs(len(sums), rng)
    values = (sums * measurement.multiplier + noise) * np.asarray(measurement.steps)
    return replace(Released.of_study(measurement, values), law=law)


def noiseless_estimates(
    design: Design, measurement: Measurement, sums: Array, rng: np.random.Generator | None = None
) -> Array:
    """Estimates (R, q) from integer sums (R, m) without noise, or with very little if there is a generator.

    A little noise keeps equations from few rows solvable. Estimates that do not exist are NaN.
    """
    procedure = design.procedure
    with suppress(AttributeError, OptionError):
        procedure = procedure.with_options({"inference": "wald"})  # the same estimates, sooner
    released = noisy(measurement, sums, rng, share=HARDLY)
    with np.errstate(all="ignore"):
        found: Array = procedure.estimate(released, alpha=1 - design.level, contrasts=design.contrasts or None).params
    return found


# Estimates from fits


def simulated(design: Design, frame: pd.DataFrame, rng: np.random.Generator, like: PublicData | None) -> PublicData:
    """Return a data set that reuses the plans of an earlier one."""
    if like is None:
        return PublicData(frame, design.schema, rng=rng, neighbors=design.neighbors)
    return like.with_rows(frame, rng)


def fitted(design: Design, data: PublicData, price: Privacy) -> Fit:
    """Bind, fit and read the results, as a user would; see `read_results`."""
    return read_results(design.procedure.bind(data).fit(price), design)


def read_results(results: Any, design: Design) -> Fit:
    """Return names, numbers (5, p), whether there is a warning, and standard errors from noise (p,).

    Standard errors from noise are NaN if the results lack them.
    """

    def numbers(estimate: Any, error: Any, ends: Any, pvalue: Any) -> Array:
        return np.stack([np.ravel(estimate), np.ravel(error), *np.asarray(ends).T, np.ravel(pvalue)])

    names = tuple(str(name) for name in results.params.index)
    alpha = 1 - design.level
    found = numbers(results.params, results.bse, results.conf_int(alpha=alpha), results.pvalues)
    wanted = contrast_rows(names, design.contrasts)
    if design.contrasts:
        test = results.t_test(wanted[len(names) :])
        found = np.hstack([found, numbers(test.effect, test.sd, test.conf_int(alpha=alpha), test.pvalue)])
    try:
        noise = np.asarray(results.cov_noise, dtype=np.float64)
        variances = np.append(np.diag(noise), variance_of(wanted[len(noise) :], noise))
    except Exception:
        variances = np.full(len(wanted), np.nan)
    errors = np.sqrt(np.maximum(variances, 0.0))
    return (*names, *design.contrasts), found, bool(getattr(results, "flags", ())), errors


# Blocks of replicates


def run_block(design: Design, task: Task) -> pa.Table:
    """Run a block of replicates: a row per replicate, privacy parameters and coefficient.

    If the procedure has sums, the table's metadata "sums" hold their noiseless total and the number of data sets.
    """
    if design.estimates_many and design.schema.people is None:
        return _run_by_sums(design, task)
    return _run_by_fits(design, task)


def _run_by_sums(design: Design, task: Task) -> pa.Table:
    """Draw, map and sum each data set, then add noise and infer for all at once."""
    n, count = design.n[task.size], task.replicates
    measurements = [design.measured(price, n) for price in design.privacy]
    rows = measurements[0].rows
    sums, together = np.zeros((count, rows.entries)), max(1, CHUNK_ROWS // n)
    failures, baselines = [""] * count, [None] * count
    waiting: dict[int, Mapping[str, Any]] = {}

    room: dict[str, Any] = {}

    def joined(name: str, parts: list[Any]) -> Any:
        """Join the cells of a column in reused memory: new pages cost more than sums."""
        size, kind = sum(map(len, parts)), np.result_type(*parts)
        if name not in room or (len(room[name]), room[name].dtype) != (size, kind):
            room[name] = np.empty(size, kind)
        return np.concatenate(parts, out=room[name])

    def add() -> None:
        """Add the sums of pending data sets, mapped in one call if their cells are arrays."""
        coded = any(isinstance(columns[name], Coded) for columns in waiting.values() for name in rows.columns)
        for places in [[place] for place in waiting] if coded or len(waiting) == 1 else [list(waiting)]:
            cells = waiting[places[0]]
            if len(places) > 1:
                cells = {name: joined(name, [one[name] for one in waiting.values()]) for name in rows.columns}
            sums[places] = group_sums(rows, cells, len(places), n)
        waiting.clear()

    for place, columns in _data_sets(design, task, failures, baselines):
        waiting[place] = columns
        if len(waiting) == together:
            add()
    if waiting:
        add()
    sums = rows.finish_sets(sums)
    done = np.array([not failure for failure in failures])
    without: Any = np.nan
    with suppress(np.linalg.LinAlgError):
        stream = design.stream(task, 1 + len(design.privacy))
        without = noiseless_estimates(design, measurements[0], sums[done], stream)
    found = []
    for price, measurement in enumerate(measurements):
        released = noisy(measurement, sums, design.stream(task, 1 + price))
        released = replace(released, values=released.values[done])  # noqa: PD011
        estimated = design.procedure.estimate(released, alpha=1 - design.level, contrasts=design.contrasts or None)
        numbers = np.full((7, count, len(estimated.names)), np.nan)
        numbers[:5, done] = estimated.params, estimated.bse, *np.moveaxis(estimated.intervals, -1, 0), estimated.pvalues
        numbers[5, done] = without
        flagged = np.zeros(count, dtype=bool)
        flagged[done] = estimated.flagged
        found.append((estimated.names, numbers, flagged, failures))
    stored = {"total": (sums[done].sum(axis=0) / rows.units).tolist(), "count": int(done.sum())}
    return _packed(design, task, found, baselines, stored)


def _run_by_fits(design: Design, task: Task) -> pa.Table:
    """Bind, fit and read the results of every replicate, as a user would."""
    count, prices = task.replicates, range(len(design.privacy))
    _, *noises, hardly = (design.stream(task, purpose) for purpose in range(2 + len(design.privacy)))
    fits: list[list[Fit | None]] = [[None] * count for _ in prices]
    without: list[Fit | None] = [None] * count
    not_drawn, baselines = [""] * count, [None] * count
    not_fitted = [[""] * count for _ in prices]
    compared = design.truth is None or len(design.truth) > 0
    data: PublicData | None = None
    for index, columns in _data_sets(design, task, not_drawn, baselines):
        frame = pd.DataFrame(columns)
        for price in prices:
            try:
                data = simulated(design, frame, noises[price], data)
                fits[price][index] = fitted(design, data, design.privacy[price])
            except Exception as error:
                not_fitted[price][index] = f"{type(error).__name__}: {error}"
        if compared and any(one is not None and np.isfinite(one[3]).all() for one in (fit[index] for fit in fits)):
            with suppress(Exception):  # a price that is not served
                without[index] = fitted(design, simulated(design, frame, hardly, data), HARDLY_NOISY)
    found = []
    for price in prices:
        failures = [one or other for one, other in zip(not_drawn, not_fitted[price], strict=True)]
        names = next((one[0] for one in fits[price] if one is not None), tuple(design.truth or ()))
        numbers = np.full((7, count, len(names)), np.nan)
        flagged = np.zeros(count, dtype=bool)
        for index, (one, known) in enumerate(zip(fits[price], without, strict=True)):
            if known is not None and known[0] == names:
                numbers[5, index] = known[1][0]
            if one is not None and one[0] == names:
                _, numbers[:5, index], flagged[index], numbers[6, index] = one
            elif one is not None:
                failures[index] = f"DataError: coefficients {one[0]} differ from {names}"
        found.append((names, numbers, flagged, failures))
    return _packed(design, task, found, baselines, None)


def _data_sets(
    design: Design, task: Task, failures: list[str], baselines: list[Any]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Draw the data sets of a block with their positions, fit the baseline, and note failed draws."""
    rng = design.stream(task, 0)
    for place in range(task.replicates):
        try:
            columns = draw_columns(design, rng, design.n[task.size])
        except Exception as error:
            failures[place] = f"{type(error).__name__}: {error}"
            continue
        if design.baseline is not None:
            with suppress(Exception):
                results = design.baseline(pd.DataFrame(dict(columns)))
                ends = results.conf_int(alpha=1 - design.level)
                baselines[place] = {
                    str(name): (results.params[name], results.bse[name], *ends.loc[name].iloc[:2])
                    for name in ends.index
                }
        yield place, columns


def _packed(
    design: Design,
    task: Task,
    found: list[tuple[tuple[str, ...], Array, Mask, list[str]]],
    baselines: list[Any],
    sums: Any,
) -> pa.Table:
    """Return a row per privacy parameters, replicate and coefficient, with the sums as metadata.

    For each privacy parameter ``found`` has names (p), numbers (7, R, p), warnings (R,) and failure messages (R).
    """
    parts = []
    for price, (names, numbers, flagged, failures) in enumerate(found):
        count, width = len(flagged), len(names)
        columns = {
            "size": np.full(count * width, task.size, dtype=np.int32),
            "price": np.full(count * width, price, dtype=np.int32),
            "replicate": np.repeat(np.arange(count, dtype=np.int64) + task.block * BLOCK, width),
            "term": np.tile(np.array(names, dtype=object), count),
            **{name: values.ravel() for name, values in zip(_NUMBERS, numbers[:5], strict=True)},
            "flagged": np.repeat(flagged, width),
            "failure": np.repeat(np.array(failures, dtype=object), width),
            **{name: values.ravel() for name, values in zip(_WITHOUT, numbers[5:], strict=True)},
        }
        if design.baseline is not None:
            rows = [(one or {}).get(name, (np.nan,) * 4) for one in baselines for name in names]
            columns |= dict(zip(_BASELINE, np.array(rows, dtype=np.float64).reshape(-1, 4).T, strict=True))
        parts.append(pd.DataFrame(columns))
    packed = pa.Table.from_pandas(pd.concat(parts, ignore_index=True), preserve_index=False, nthreads=1)
    return packed.replace_schema_metadata({"sums": json.dumps(sums)})


# Running, in turn or in parallel


def run_design(
    design: Design, *, n_jobs: int = 1, progress: bool | None = False, folder: Path | None = None
) -> list[tuple[Task, pa.Table]]:
    """Run the blocks of a design in order, reading completed ones from a checkpoint folder.

    Raises
    ------
    OptionError
        If the folder holds the blocks of another design.
    """
    done: dict[Task, pa.Table] = {}
    paths: dict[Task, Path] = {}
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        known, mine = folder / "design.json", design.fingerprint()
        if not known.exists():
            write_whole(known, mine.encode())
        elif known.read_text(encoding="utf-8") != mine:
            right = "an empty directory: this one holds the blocks of another design"
            raise OptionError("checkpoint", str(folder), right)
        paths = {task: folder / f"n{task.size}-block{task.block:05d}.parquet" for task in design.tasks}
        done = {task: pq.read_table(path) for task, path in paths.items() if path.exists()}
    pending = [task for task in design.tasks if task not in done]
    run: Any = (_task_and_block(design, task) for task in pending)
    if n_jobs != 1:
        from joblib import Parallel, delayed  # noqa: PLC0415  (imported when first needed)

        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        run = parallel(delayed(_task_and_block)(design, task) for task in pending)
    try:
        for task, table in watched(run, "blocks", total=len(design.tasks), done=len(done), progress=progress):
            done[task] = table
            LOG.info("study: %d of %d blocks done", len(done), len(design.tasks))
            if paths:
                sink = pa.BufferOutputStream()
                pq.write_table(table, sink)
                write_whole(paths[task], sink.getvalue().to_pybytes())
    except KeyboardInterrupt:
        if not done:
            raise
    return [(task, done[task]) for task in design.tasks if task in done]


def _task_and_block(design: Design, task: Task) -> tuple[Task, pa.Table]:
    return task, run_block(design, task)


_GROUPS = (2**12, 2**16)
"""Least and most groups of rows from which a spread is estimated; in between 16 for every replicate."""

_TOGETHER = 16
"""Rows of a group, about."""

_APART = 5.0
"""Standard errors between two estimates of a variance from which rows do not count as independent."""

_KNOWN = 0.5
"""Relative standard error from which the variance of replicates counts as not known."""

_STEP = 1e-3
"""Step of a derivative, in standard deviations of a sum."""

_FEWEST = 20
"""Replicates from which their own spread counts as known."""

_AT_ONCE = 2**10
"""Groups that are looked at together, at least."""

_LARGEST = 2**23
"""Entries of a derivative, above which the replicates' own spread is taken."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Sampling variances of estimates without noise.

    Attributes
    ----------
    variance : ndarray (q,)
        NaN if unknown.
    error : ndarray (q,)
        Its relative Monte Carlo standard error.
    """

    variance: Array
    error: Array

    @classmethod
    def of_moments(cls, count: int, moments: Array, factor: float) -> Spread:
        """Return the variance, times a factor, from the sums of powers 1, 2 and 4 of the deviations."""
        if count == 0:
            return cls(*np.full((2, moments.shape[1]), np.nan))
        mean, second, fourth = moments / count
        variance = np.maximum(second - mean**2, 0.0)
        with np.errstate(all="ignore"):
            kurtosis = np.where(variance > 0, fourth / np.maximum(variance, 1e-300) ** 2, 1.0)
        return cls(factor * variance, np.sqrt(np.maximum(kurtosis - 1.0, 0.0) / count))


def _moments(away: Array) -> Array:
    """Return sums of powers 1, 2 and 4 (3, q) of deviations (k, q) from about their mean."""
    return np.stack([away.sum(axis=0), (away**2).sum(axis=0), (away**4).sum(axis=0)])


def chosen_spread(rows: Spread | None, replicates: Spread) -> Spread:
    """Choose between the row-based spread and that of the replicates.

    The row-based spread is more precise, and valid if rows are independent and identically distributed. If the two
    differ by more than `_APART` standard errors, rows are not, and the replicates' own spread is used. For independent
    rows and normal estimates that has probability 6e-7 per quantity. A spread that rests on a few replicates, and so is
    hardly known, is disregarded.
    """
    if rows is None:
        return replicates
    with np.errstate(all="ignore"):
        distance = np.abs(replicates.variance - rows.variance)
        error = np.hypot(replicates.error, rows.error) * rows.variance
        apart = (distance > _APART * error) & (distance > 1e-9 * rows.variance)
        own = np.isnan(rows.variance) | (apart & (replicates.error < _KNOWN))
    return Spread(np.where(own, replicates.variance, rows.variance), np.where(own, replicates.error, rows.error))


def spread_of_replicates(estimates: Array) -> Spread:
    """Spread of the noiseless estimates (R, q) of a study's data sets; failed ones are NaN."""
    done = estimates[np.isfinite(estimates).all(axis=1)]
    if len(done) < _FEWEST:
        return Spread(*np.full((2, estimates.shape[1]), np.nan))
    return Spread.of_moments(len(done), _moments(done - done.mean(axis=0)), len(done) / (len(done) - 1))


def spread_of_rows(design: Design, size: int, expected: Array) -> tuple[Spread, Array] | None:
    """Spread from the influence of rows: n J' V J, the sandwich variance.

    V is the covariance of the sums of one row, and J the derivative of the noiseless estimates with respect to the
    sums, at their expectation. Rows are a public sample of the population, with a seed derived from the study's. They
    are summed in groups of about 16, whose distribution is closer to normal.

    Parameters
    ----------
    design : Design
    size : int
        Index into the numbers of rows.
    expected : ndarray (m,)
        Expected noiseless integer sums.

    Returns
    -------
    tuple of Spread and ndarray (m, q), or None
        With J in units of the released features; None if there are too many sums, rows cannot be drawn, or the sums
        give no estimate.
    """
    n = design.n[size]
    measured = design.measured(design.privacy[0], n)
    units = measured.rows.units
    each = n // max(1, n // _TOGETHER)
    try:
        center = noiseless_estimates(design, measured, expected[None])[0]
    except np.linalg.LinAlgError:  # what no row tells of
        return None
    if expected.size * center.size > _LARGEST:
        return None
    slope: Array | None = None
    count, moments = 0, np.zeros((3, center.size))
    for sums in _sums_of_groups(design, size, measured, each):
        away = sums - expected * (each / n)
        if slope is None:
            usual = np.sqrt(n) * units  # of sums that are the same in all data sets, as their number of rows
            spread = away.std(axis=0) * np.sqrt(n / each)
            slope = _slope(design, measured, expected, np.where(spread > 0, spread, usual))
        away = away @ slope
        count, moments = count + len(away), moments + _moments(away)
    return None if slope is None else (Spread.of_moments(count, moments, n / each), slope * units[:, None])


def _sums_of_groups(design: Design, size: int, measured: Measurement, each: int) -> Iterator[Array]:
    """Yield integer sums (k, m) of groups of ``each`` rows, until there are enough."""
    n, rows = design.n[size], measured.rows
    groups = max(1, n // _TOGETHER)
    wanted = int(np.clip(_TOGETHER * design.replicates, *_GROUPS))
    rng = np.random.default_rng(np.random.SeedSequence(design.seed, spawn_key=(2**31, 1 + size)))
    found: list[Array] = []
    for left in reversed(range(-(-wanted // groups))):
        try:
            columns = draw_columns(design, rng, n)
        except Exception:  # counted where the study itself draws
            continue
        whole = {name: cells_at(columns[name], slice(groups * each)) for name in rows.columns}
        found.append(group_sums(rows, whole, groups, each))
        if not left or sum(map(len, found)) >= _AT_ONCE:
            yield rows.finish_sets(np.concatenate(found))
            found = []


def _slope(design: Design, measured: Measurement, expected: Array, spread: Array) -> Array:
    """Return the derivative of the estimates with respect to the sums (m, q), by central differences."""
    steps, together, parts = _STEP * spread, max(1, 2**18 // expected.size), []
    for start in range(0, expected.size, together):
        places = np.arange(start, min(start + together, expected.size))
        moved = np.zeros((len(places), expected.size))
        moved[np.arange(len(places)), places] = steps[places]
        ends = noiseless_estimates(design, measured, np.concatenate([expected + moved, expected - moved]))
        parts.append((ends[: len(moved)] - ends[len(moved) :]) / (2 * steps[places, None]))
    return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class StudyOracle:
    """Oracle half widths at one number of rows and privacy parameters, by name.

    Attributes
    ----------
    names : tuple of str, length q
    oracle : Oracle
    spread : Spread
        The sampling variances behind it.
    center : ndarray (q,)
        The estimands in the population, pseudo-true if the model is misspecified: noiseless estimates from the expected
        sums, or their mean if data sets were fitted one by one.
    """

    names: tuple[str, ...]
    oracle: Oracle
    spread: Spread
    center: Array

    def compared(self, row: Mapping[str, Any], term: str) -> dict[str, float]:
        """Return a cell's mean width over the oracle's, its Monte Carlo error, that over ordinary, and kappa."""
        place = self.names.index(term)
        half, ordinary = float(self.oracle.halfwidth[place]), float(self.oracle.ordinary[place])
        ratio = row["width"] / (2 * half) if half > 0 else np.nan
        # The half width moves with the variance of the sampling by half its share.
        own = 0.5 * (ordinary / half) ** 2 * float(self.spread.error[place]) if half > 0 else np.nan
        return {
            "width / oracle": ratio,
            "MCSE of width / oracle": float(ratio * np.hypot(row["MCSE of width"] / row["width"], own)),
            "width / ordinary": row["width"] / max(2 * ordinary, 1e-300),
            "kappa": self.oracle.kappa,
        }


def study_oracles(design: Design, size: int, blocks: Sequence[pa.Table]) -> list[StudyOracle]:
    """Return the oracle for each privacy parameter.

    For fits one by one the noise variance is the median of their estimates of it. For releases of sums the oracle is
    the procedure's own, or uses the derivative of its estimates with respect to the sums.

    Parameters
    ----------
    design : Design
    size : int
        Index into the numbers of rows.
    blocks : sequence of Table
        The replicates at that number of rows; only if they are complete does the oracle use `spread_of_rows`.
    """
    table = pa.concat_tables([block.replace_schema_metadata(None) for block in blocks])
    names = tuple(dict.fromkeys(table.column("term").to_pylist()))

    def by_term(price: int, column: str) -> Array:
        """Return a column for one privacy parameter (R, q)."""
        frame = table.select(["price", "replicate", "term", column]).to_pandas()
        wide = frame[frame["price"] == price].pivot(index="replicate", columns="term", values=column)  # noqa: PD010
        return np.asarray(wide[list(names)].to_numpy(dtype=np.float64))

    alpha, unknown = 1 - design.level, np.full(len(names), np.nan)
    known = by_term(0, "without noise")
    spread = spread_of_replicates(known)
    stored = [json.loads(block.schema.metadata[b"sums"]) for block in blocks]
    count = 0 if None in stored else sum(one["count"] for one in stored)
    if not count:
        done = known[np.isfinite(known).all(axis=1)]
        center = np.asarray(done.mean(axis=0)) if len(done) else unknown
        oracles = []
        for place in range(len(design.privacy)):
            errors, noise = by_term(place, "noise error"), unknown.copy()
            stated = np.isfinite(errors).any(axis=0)
            noise[stated] = np.nanmedian(errors[:, stated], axis=0) ** 2
            oracles.append(Oracle.of(noise, spread.variance, np.nan, alpha=alpha))
        return [StudyOracle(names, one, spread, center) for one in oracles]
    expected = np.asarray(np.sum([one["total"] for one in stored], axis=0) / count)
    first = design.measured(design.privacy[0], design.n[size])
    complete = len(blocks) == sum(task.size == size for task in design.tasks)
    by_rows = spread_of_rows(design, size, expected * first.rows.units) if complete else None
    spread = chosen_spread(None if by_rows is None else by_rows[0], spread)
    try:
        center = noiseless_estimates(design, first, (expected * first.rows.units)[None])[0]
    except np.linalg.LinAlgError:
        center = unknown
    oracles = []
    for price in design.privacy:
        released = Released.of_study(design.measured(price, design.n[size]), expected[None])
        if hasattr(design.procedure, "oracle"):
            contrasts = design.contrasts or None
            own = design.procedure.oracle(released, sampling=spread.variance, alpha=alpha, contrasts=contrasts)
            oracles.append(own)
        else:
            noise = unknown if by_rows is None else released.noise_variances @ by_rows[1] ** 2
            oracles.append(Oracle.of(noise, spread.variance, np.nan, alpha=alpha))
    return [StudyOracle(names, one, spread, center) for one in oracles]

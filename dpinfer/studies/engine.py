"""Running one block of replicates."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dpinfer.errors import DataError, OptionError
from dpinfer.inference.contrasts import contrast_rows, variance_of
from dpinfer.inference.released import Released
from dpinfer.kernel.data import PublicData
from dpinfer.kernel.rows.base import CHUNK_ROWS, Batch
from dpinfer.kernel.sources import open_table
from dpinfer.privacy.units import ZCDP
from dpinfer.release.laws import NoiseLaw
from dpinfer.schema.cells import Coded
from dpinfer.studies.design import BLOCK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.rows.base import RowSum
    from dpinfer.numerics.arrays import Array, Mask
    from dpinfer.studies.design import Design, Task

    Columns = Mapping[str, Any]

__all__ = [
    "ALL_BUT_FREE",
    "draw_columns",
    "hardly_noisy",
    "noisy",
    "quiet_estimates",
    "read_results",
    "run_block",
]

_NUMBERS = ("estimate", "error", "lower", "upper", "pvalue")
_WITHOUT = ("without noise", "noise error")

_QUIET = 1e-6
"""Scale of the noise, relative to that of the price, of estimates that count as without noise."""

ALL_BUT_FREE = ZCDP(1e9)
"""The price of the same where data are fitted one by one."""

_BASELINE = ("baseline estimate", "baseline error", "baseline lower", "baseline upper")


def draw_columns(design: Design, rng: np.random.Generator, n: int) -> Columns:
    """Draw one data set and check its shape.

    Raises
    ------
    DataError
        If ``generate`` returns something else than n values for each declared column.
    """
    drawn = design.generate(rng, n)
    if isinstance(drawn, pd.DataFrame):
        source = open_table(drawn)
        drawn = source.read(source.columns, 0, source.rows)
    if not hasattr(drawn, "keys"):
        raise DataError(f"generate returned a {type(drawn).__name__}: expected a dict of arrays or a DataFrame")
    missing = [name for name in design.schema if name not in drawn]
    if missing:
        raise DataError(f"generate did not return the columns {', '.join(missing)}; it returned {', '.join(drawn)}")
    columns = {name: values if isinstance(values, Coded) else np.asarray(values) for name, values in drawn.items()}
    for name in design.schema:
        if len(columns[name]) != n:
            raise DataError(f"generate returned {len(columns[name])} values for {name!r}: expected n = {n}")
    return columns


def run_block(design: Design, task: Task) -> pa.Table:
    """Run a block of replicates at every price: a row per replicate, price and coefficient.

    The metadata "sums" of the table hold, where the procedure has them, the total of the noise-free sums and the
    number of data sets in it.
    """
    if design.estimates_many and design.schema.people is None:
        return _vectorised(design, task)
    return _ordinary(design, task)


def _vectorised(design: Design, task: Task) -> pa.Table:
    """Draw, map and sum each data set; add noise and infer for all at once."""
    n = design.n[task.size]
    measurements = [design.measured(price, n) for price in design.privacy]
    rows = measurements[0].rows
    sums = np.zeros((task.replicates, rows.entries))
    failures = [""] * task.replicates
    baselines: list[Any] = [None] * task.replicates
    rng = design.stream(task, 0)
    waiting: list[tuple[int, Columns]] = []
    together = max(1, CHUNK_ROWS // n)
    for index in range(task.replicates):
        try:
            columns = draw_columns(design, rng, n)
        except Exception as error:
            failures[index] = f"{type(error).__name__}: {error}"
            continue
        baselines[index] = _baseline(design, columns)
        waiting.append((index, columns))
        if len(waiting) == together:
            _add_sums(rows, waiting, n, sums)
            waiting = []
    if waiting:
        _add_sums(rows, waiting, n, sums)
    sums = rows.finish_sets(sums)
    done = np.array([not failure for failure in failures])
    parts = [
        _infer_all(design, task, price, measurement, sums, done, failures)
        for price, measurement in enumerate(measurements)
    ]
    quiet = np.full((task.replicates, len(parts[0]) // task.replicates), np.nan)
    with suppress(np.linalg.LinAlgError):
        quiet[done] = quiet_estimates(design, measurements[0], sums[done], design.stream(task, 1 + len(design.privacy)))
    for part in parts:
        part["without noise"], part["noise error"] = quiet.ravel(), np.nan
    table = pd.concat(parts, ignore_index=True)
    return _pack(design, table, baselines, (sums[done].sum(axis=0) / rows.units, int(done.sum())))


def _add_sums(rows: RowSum, drawn: list[tuple[int, Columns]], n: int, sums: Array) -> None:
    """Add the sums of several data sets, mapped in one call, to the rows of ``sums`` at their indices."""
    names = rows.columns
    if any(isinstance(columns[name], Coded) for _, columns in drawn for name in names) and len(drawn) > 1:
        for one in drawn:
            _add_sums(rows, [one], n, sums)
        return
    single = len(drawn) == 1
    raw = {
        name: drawn[0][1][name] if single else np.concatenate([columns[name] for _, columns in drawn]) for name in names
    }
    for start in range(0, n if single else 1, CHUNK_ROWS):
        part = {name: _slice(cells, start, start + CHUNK_ROWS) for name, cells in raw.items()} if single else raw
        size = min(CHUNK_ROWS, n - start) if single else n
        added = rows.add(Batch(part, size * len(drawn), sets=len(drawn)))
        sums[[index for index, _ in drawn]] += added


def _slice(cells: Any, start: int, stop: int) -> Any:
    return Coded(cells.codes[start:stop], cells.values) if isinstance(cells, Coded) else cells[start:stop]


def _infer_all(
    design: Design,
    task: Task,
    price: int,
    measurement: Measurement,
    sums: Array,
    done: Mask,
    failures: list[str],
) -> pd.DataFrame:
    released = noisy(measurement, sums, design.stream(task, 1 + price))
    released = replace(released, values=released.values[done])  # noqa: PD011
    found = design.procedure.estimate(released, alpha=1 - design.level, contrasts=design.contrasts or None)
    numbers = np.full((len(_NUMBERS), len(sums), len(found.names)), np.nan)
    numbers[:, done] = found.params, found.bse, *np.moveaxis(found.intervals, -1, 0), found.pvalues
    flagged = np.zeros(len(sums), dtype=bool)
    flagged[done] = found.flagged
    return _tidy(task, price, found.names, numbers, flagged, failures)


def noisy(measurement: Measurement, sums: Array, rng: np.random.Generator) -> Released:
    """Add simulated noise to sums of whole numbers (R, m): R releases."""
    noise = measurement.law.rvs(len(sums), rng)
    return Released.of_study(measurement, (sums * measurement.multiplier + noise) * np.asarray(measurement.steps))


def hardly_noisy(measurement: Measurement, sums: Array, rng: np.random.Generator | None) -> Released:
    """Return R releases of sums (R, m) whose noise is as good as none; with no generator there is none at all."""
    law = NoiseLaw(measurement.law.family, tuple(_QUIET * one for one in measurement.law.scales), measurement.law.draws)
    noise = 0.0 if rng is None else law.rvs(len(sums), rng)
    values = (sums * measurement.multiplier + noise) * np.asarray(measurement.steps)
    return replace(Released.of_study(measurement, values), law=law)


def quiet_estimates(
    design: Design, measurement: Measurement, sums: Array, rng: np.random.Generator | None = None
) -> Array:
    """Estimates (R, q) from sums (R, m), in whole numbers, without noise; with hardly any if there is a generator.

    Hardly any noise keeps solvable what sums of few rows would not be. Estimates are NaN where there are none.
    """
    asked = design.procedure
    with suppress(AttributeError, OptionError):
        asked = asked.with_options({"inference": "wald"})  # the same estimates, sooner
    released = hardly_noisy(measurement, sums, rng)
    with np.errstate(all="ignore"):
        found: Array = asked.estimate(released, alpha=1 - design.level, contrasts=design.contrasts or None).params
    return found


def _tidy(
    task: Task,
    price: int,
    names: tuple[str, ...],
    numbers: Array,
    flagged: Mask,
    failures: list[str],
) -> pd.DataFrame:
    """Return a row per replicate and coefficient, from numbers (5, R, p)."""
    count, width = len(flagged), len(names)
    first = task.block * BLOCK
    return pd.DataFrame(
        {
            "size": np.full(count * width, task.size, dtype=np.int32),
            "price": np.full(count * width, price, dtype=np.int32),
            "replicate": np.repeat(np.arange(first, first + count, dtype=np.int64), width),
            "term": np.tile(np.array(names, dtype=object), count),
            **{name: values.ravel() for name, values in zip(_NUMBERS, numbers, strict=True)},
            "flagged": np.repeat(flagged, width),
            "failure": np.repeat(np.array(failures, dtype=object), width),
        }
    )


def _ordinary(design: Design, task: Task) -> pa.Table:
    """Bind, fit and read the results of every replicate, as a user would."""
    n = design.n[task.size]
    rng = design.stream(task, 0)
    noises = [design.stream(task, 1 + price) for price in range(len(design.privacy))]
    baselines: list[Any] = [None] * task.replicates
    fitted: list[list[Any]] = [[None] * task.replicates for _ in design.privacy]
    quiet: list[Any] = [None] * task.replicates
    hardly = design.stream(task, 1 + len(design.privacy))
    failures: list[list[str]] = [[""] * task.replicates for _ in design.privacy]
    compared = design.truth is None or len(design.truth) > 0
    for index in range(task.replicates):
        try:
            frame = pd.DataFrame(draw_columns(design, rng, n))
        except Exception as error:
            for listed in failures:
                listed[index] = f"{type(error).__name__}: {error}"
            continue
        baselines[index] = _baseline(design, frame)
        for price, noise in enumerate(noises):
            try:
                data = PublicData(frame, design.schema, rng=noise, neighbors=design.neighbors)
                fitted[price][index] = read_results(design.procedure.bind(data).fit(design.privacy[price]), design)
            except Exception as error:
                failures[price][index] = f"{type(error).__name__}: {error}"
        if compared and any(one[index] is not None and np.isfinite(one[index][3]).all() for one in fitted):
            quiet[index] = _quiet_fit(design, frame, hardly)
    parts = [
        _collect(design, task, price, results, listed, quiet)
        for price, (results, listed) in enumerate(zip(fitted, failures, strict=True))
    ]
    return _pack(design, pd.concat(parts, ignore_index=True), baselines, None)


def _quiet_fit(design: Design, frame: pd.DataFrame, rng: np.random.Generator) -> tuple[tuple[str, ...], Array] | None:
    """Estimates by name at a price that leaves hardly any noise; None where it is not served."""
    try:
        data = PublicData(frame, design.schema, rng=rng, neighbors=design.neighbors)
        names, numbers, _, _ = read_results(design.procedure.bind(data).fit(ALL_BUT_FREE), design)
    except Exception:
        return None
    return names, numbers[0]


def read_results(results: Any, design: Design) -> tuple[tuple[str, ...], Array, bool, Array]:
    """Return the names, numbers (5, p), whether there is a warning, and standard errors from noise (p,)."""
    names = tuple(str(name) for name in results.params.index)
    alpha = 1 - design.level
    numbers = _numbers(results.params, results.bse, results.conf_int(alpha=alpha), results.pvalues)
    wanted = contrast_rows(names, design.contrasts)
    if design.contrasts:
        test = results.t_test(wanted[len(names) :])
        numbers = np.hstack([numbers, _numbers(test.effect, test.sd, test.conf_int(alpha=alpha), test.pvalue)])
    return (*names, *design.contrasts), numbers, bool(getattr(results, "flags", ())), _noise_errors(results, wanted)


def _noise_errors(results: Any, wanted: Array) -> Array:
    """Read standard errors from noise of coefficients and contrasts (q,); NaN where results do not tell."""
    try:
        noise = np.asarray(results.cov_noise, dtype=np.float64)
        variances = np.append(np.diag(noise), variance_of(wanted[len(noise) :], noise))
    except Exception:
        return np.full(len(wanted), np.nan)
    return np.sqrt(np.maximum(variances, 0.0))


def _numbers(estimate: Any, error: Any, ends: Any, pvalue: Any) -> Array:
    return np.stack([np.ravel(estimate), np.ravel(error), *np.asarray(ends).T, np.ravel(pvalue)])


def _collect(
    design: Design, task: Task, price: int, results: list[Any], failures: list[str], quiet: list[Any]
) -> pd.DataFrame:
    names = next((one[0] for one in results if one is not None), tuple(design.truth or ()))
    numbers = np.full((len(_NUMBERS), len(results), len(names)), np.nan)
    without = np.full((len(_WITHOUT), len(results), len(names)), np.nan)
    flagged = np.zeros(len(results), dtype=bool)
    for index, (one, known) in enumerate(zip(results, quiet, strict=True)):
        if known is not None and known[0] == names:
            without[0, index] = known[1]
        if one is not None and one[0] == names:
            _, numbers[:, index], flagged[index], without[1, index] = one
        elif one is not None:
            failures[index] = f"DataError: coefficients {one[0]} differ from {names}"
    table = _tidy(task, price, names, numbers, flagged, failures)
    return table.assign(**{name: values.ravel() for name, values in zip(_WITHOUT, without, strict=True)})


def _baseline(design: Design, columns: Columns | pd.DataFrame) -> Any:
    if design.baseline is None:
        return None
    try:
        results = design.baseline(columns if isinstance(columns, pd.DataFrame) else pd.DataFrame(dict(columns)))
        ends = results.conf_int(alpha=1 - design.level)
    except Exception:
        return None
    return {
        str(name): (results.params[name], results.bse[name], ends.loc[name].iloc[0], ends.loc[name].iloc[1])
        for name in results.params.index
    }


def _pack(design: Design, table: pd.DataFrame, baselines: list[Any], sums: tuple[Array, int] | None) -> pa.Table:
    """Return the table with the baseline's columns, and the sums as metadata."""
    if design.baseline is not None:
        nothing = (np.nan,) * 4
        first = int(table["replicate"].iloc[0])
        rows = [
            (baselines[replicate - first] or {}).get(term, nothing)
            for replicate, term in zip(table["replicate"], table["term"], strict=True)
        ]
        for name, values in zip(_BASELINE, np.array(rows, dtype=np.float64).T, strict=True):
            table[name] = values
    packed = pa.Table.from_pandas(table, preserve_index=False)
    stored = None if sums is None else {"total": sums[0].tolist(), "count": sums[1]}
    return packed.replace_schema_metadata({"sums": json.dumps(stored)})

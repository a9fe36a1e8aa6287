"""Populations that a study is planned for: the schema's uniform one, public rows, a function, or a release."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.errors import DataError, DPInferError, OptionError, UnknownColumnError, type_of
from dpinfer.kernel.data import PublicData, plain_cells
from dpinfer.kernel.rows.base import CHUNK_ROWS, Batch
from dpinfer.kernel.sources import open_table
from dpinfer.release import Release
from dpinfer.schema.cells import Coded, distinct_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.rows.base import RowSum
    from dpinfer.numerics.arrays import Array
    from dpinfer.schema.schema import Schema

__all__ = ["Pilot", "Rows", "Told", "read_pilot"]

_POOL, _GROUPS, _TOGETHER = 2**18, 2**12, 2**6
"""Public rows that stand for a population, and the groups and their rows that data sets are put together from."""

_ENTRIES = 2**23
"""Most numbers in the sums of all groups."""

_NORMAL_FROM = 16.0
"""Times that a group is drawn on average from which that number is drawn as normal."""

_RIGHT = "a Release, PublicData, a frame of public rows, a function generate(rng, n), or None"


class Pilot(ABC):
    """What is known of a population before it is measured."""

    about: str
    """In words, for the answer."""

    @abstractmethod
    def sums(self, measured: Measurement, n: int, count: int, rng: np.random.Generator) -> Array:
        """Return sums of whole numbers, without noise, of data sets of n rows (count, m)."""

    @abstractmethod
    def expected(self, measured: Measurement, n: int) -> Array:
        """Return the expected sums of n rows (m,)."""

    @property
    def sampled(self) -> bool:
        """Whether data sets differ from each other, as samples do."""
        return True


class Rows(Pilot):
    """A population that rows are drawn from.

    Parameters
    ----------
    generate : callable
        ``generate(rng, n)`` draws n rows: a dict of arrays, or a DataFrame.
    schema : Schema
    about : str
    given : mapping of str to cells, optional
        All rows there are, where the population is a list of rows.
    """

    def __init__(
        self,
        generate: Callable[[np.random.Generator, int], Any],
        schema: Schema,
        about: str,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self.generate, self.schema, self.about, self._given = generate, schema, about, given
        self._summed: dict[Any, tuple[Array, int, Array]] = {}

    @cached_property
    def pool(self) -> Mapping[str, Any]:
        """Many public rows, by column."""
        rows = self._given
        if rows is None:
            rows = _drawn(self.generate, np.random.default_rng([2**31, 17]), _POOL, self.schema)
        return {name: _coded(rows[name]) for name in self.schema}

    def sums(self, measured: Measurement, n: int, count: int, rng: np.random.Generator) -> Array:
        """Put data sets together from the sums of groups of rows, drawn with replacement, and of the rows left over."""
        groups, each, rows = self._groups(measured.rows)
        whole, rest = divmod(n, each)
        found = _redrawn(groups, whole, count, rng)
        if rest:
            found = found + _redrawn(rows, rest, count, rng)
        return np.asarray(measured.rows.finish_sets(found))

    def expected(self, measured: Measurement, n: int) -> Array:
        """Return the expected sums of n rows, in whole numbers without noise (m,)."""
        groups, each, _ = self._groups(measured.rows)
        return np.asarray(measured.rows.finish_sets(groups.mean(axis=0)[None])[0] * (n / each))

    def _groups(self, rows: RowSum) -> tuple[Array, int, Array]:
        """Return sums of groups (G, k), how many rows each has, and sums of single rows."""
        key = type(rows), rows.names, rows.units.tobytes()
        if key not in self._summed:
            size = len(next(iter(self.pool.values())))
            most = max(64, min(_GROUPS, _ENTRIES // rows.entries))
            each = 1 if size <= 2 * most else min(_TOGETHER, size // most)
            order = np.random.default_rng(5).permutation(size)
            groups = _mapped(rows, self.pool, order[: size // each * each], each)
            single = groups if each == 1 else _mapped(rows, self.pool, order[:most], 1)
            self._summed[key] = groups, each, single
        return self._summed[key]


@dataclass(frozen=True, eq=False)
class Told(Pilot):
    """A population that a release tells of: its noisy sums, per row.

    Attributes
    ----------
    release : Release
    nobs : float
        Rows behind it, as released or public.
    about : str
    """

    release: Release
    nobs: float
    about: str

    @property
    def sampled(self) -> bool:
        """A release holds no rows to sample."""
        return False

    def holds(self, measured: Measurement) -> bool:
        """Whether the release has the sums that are measured."""
        return self.release.names == measured.names and len(self.release.stages) == 1 == len(measured.stages)

    def sums(self, measured: Measurement, n: int, count: int, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Return the same sums for all data sets."""
        return np.tile(self.expected(measured, n), (count, 1))

    def expected(self, measured: Measurement, n: int) -> Array:
        """Scale the sums of the release to n rows."""
        whole = self.release.array / (np.asarray(measured.steps) * measured.multiplier)
        return np.asarray(whole * (n / self.nobs))


def read_pilot(pilot: Any, schema: Schema, asked: Any) -> Pilot:
    """Read what was given as a pilot, for a question of these columns.

    Raises
    ------
    OptionError
        If it is nothing of the kind, or a release that does not tell its number of rows.
    UnknownColumnError
        If it lacks a declared column.
    """
    if pilot is None:
        if schema.people is not None:
            raise OptionError("pilot", None, "public rows of people, or a function that draws them with their id")
        return Rows(lambda rng, n: schema.sample(n, rng), schema, "uniform over the schema, columns independent")
    if isinstance(pilot, Release):
        return Told(pilot, _rows_of(pilot, asked), "as a pilot release tells, its noise included")
    if isinstance(pilot, PublicData):
        return _of_frame(pilot.frame(), schema, "public rows, drawn with replacement")
    if callable(pilot) and not hasattr(pilot, "columns"):
        _drawn(pilot, np.random.default_rng(0), 10, schema)
        return Rows(pilot, schema, f"drawn by {getattr(pilot, '__name__', type(pilot).__name__)}")
    try:
        source = open_table(pilot)
        frame = pd.DataFrame(pilot) if isinstance(pilot, pd.DataFrame) else _as_frame(source)
    except DataError:
        raise OptionError("pilot", type_of(pilot), _RIGHT) from None
    return _of_frame(frame, schema, "public rows, drawn with replacement")


def _as_frame(source: Any) -> pd.DataFrame:
    cells = source.read(source.columns, 0, source.rows)
    return pd.DataFrame({name: plain_cells(values) for name, values in cells.items()})


def _of_frame(frame: pd.DataFrame, schema: Schema, about: str) -> Rows:
    names = _needed(schema)
    for name in names:
        if name not in frame.columns:
            raise UnknownColumnError(name, map(str, frame.columns), "the pilot")
    if len(frame) < 2:
        raise OptionError("pilot", type_of(frame), "two or more public rows")
    frame = frame[list(names)]
    draw = _by_row(frame) if schema.people is None else _by_person(frame, schema.people.id)
    source = open_table(frame)
    return Rows(draw, schema, f"{len(frame):,} {about}", source.read(tuple(schema), 0, len(frame)))


def _needed(schema: Schema) -> tuple[str, ...]:
    return (*schema, *(() if schema.people is None else (schema.people.id,)))


def _by_row(frame: pd.DataFrame) -> Callable[[np.random.Generator, int], pd.DataFrame]:
    return lambda rng, n: frame.iloc[rng.integers(0, len(frame), n)].reset_index(drop=True)


def _by_person(frame: pd.DataFrame, person: str) -> Callable[[np.random.Generator, int], pd.DataFrame]:
    """Draw people with replacement, each with all rows and an id of their own, until there are n rows."""
    parts = [np.asarray(one) for one in frame.groupby(person, sort=False).indices.values()]

    def draw(rng: np.random.Generator, n: int) -> pd.DataFrame:
        places: list[NDArray[Any]] = []
        owners: list[NDArray[Any]] = []
        total = 0
        while total < n:
            part = parts[int(rng.integers(len(parts)))]
            owners.append(np.full(len(part), len(places)))
            places.append(part)
            total += len(part)
        drawn = frame.iloc[np.concatenate(places)[:n]].reset_index(drop=True)
        return drawn.assign(**{person: np.concatenate(owners)[:n]})

    return draw


def _drawn(generate: Any, rng: np.random.Generator, n: int, schema: Schema) -> Mapping[str, Any]:
    """Draw rows by a user's function, and check that the columns are there."""
    try:
        drawn = generate(rng, n)
    except DPInferError:
        raise
    except Exception as error:
        raise DataError(f"pilot failed at n = {n}: {type(error).__name__}: {error}") from error
    if isinstance(drawn, pd.DataFrame):
        source = open_table(drawn)
        drawn = source.read(source.columns, 0, source.rows)
    if not hasattr(drawn, "keys"):
        raise OptionError("pilot", type_of(drawn), "a function that returns a dict of arrays or a DataFrame")
    for name in _needed(schema):
        if name not in drawn:
            raise UnknownColumnError(name, drawn, "the pilot")
    found = {name: values if isinstance(values, Coded) else np.asarray(values) for name, values in drawn.items()}
    wrong = [name for name in _needed(schema) if len(found[name]) != n]
    if wrong:
        raise DataError(f"pilot returned {len(found[wrong[0]])} values for {wrong[0]!r}: expected n = {n}")
    return found


def _mapped(rows: RowSum, pool: Mapping[str, Any], order: NDArray[Any], each: int) -> Array:
    """Return sums of groups of ``each`` rows in this order (len(order) / each, k)."""
    together = max(1, CHUNK_ROWS // each)
    parts = []
    for start in range(0, len(order), together * each):
        places = order[start : start + together * each]
        cells = {name: _taken(pool[name], places) for name in rows.columns}
        parts.append(rows.add(Batch(cells, len(places), sets=len(places) // each)))
    return np.concatenate(parts).astype(np.float64)


def _coded(cells: Any) -> Any:
    """Return texts as codes, which are read once and not at every draw."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "U":
        values, codes = np.unique(cells, return_inverse=True)
        return Coded(codes, values.tolist())
    if isinstance(cells, np.ndarray) and cells.dtype == object and all(type(one) is str for one in cells):
        return distinct_texts(cells)
    return cells


def _taken(cells: Any, places: NDArray[Any]) -> Any:
    return Coded(cells.codes[places], cells.values) if isinstance(cells, Coded) else cells[places]


def _redrawn(groups: Array, draws: int, count: int, rng: np.random.Generator) -> Array:
    """Return sums of ``draws`` groups that are drawn with replacement, ``count`` times (count, k)."""
    size, found = len(groups), np.empty((count, groups.shape[1]))
    together = max(1, 2**22 // max(size, min(draws, int(_NORMAL_FROM * size))))
    for start in range(0, count, together):
        some = min(together, count - start)
        found[start : start + some] = _weights(size, draws, some, rng) @ groups
    return found


def _weights(size: int, draws: int, count: int, rng: np.random.Generator) -> Array:
    """How often each of some groups is drawn (count, size)."""
    usual = draws / size
    if usual < _NORMAL_FROM:
        places = rng.integers(0, size, (count, draws)) + size * np.arange(count)[:, None]
        return np.bincount(places.ravel(), minlength=count * size).reshape(count, size).astype(np.float64)
    away = rng.standard_normal((count, size))
    return np.asarray(usual + np.sqrt(usual) * (away - away.mean(axis=1, keepdims=True)))


def _rows_of(release: Release, asked: Any) -> float:
    """Rows behind a release, as it tells them."""
    if release.nobs is not None:
        return float(release.nobs)
    told = next(_told_rows(release, asked), None)
    if told is None or not told > 1:
        raise OptionError("pilot", type_of(release), "a release that tells its number of rows, public or noisy")
    return told


def _told_rows(release: Release, asked: Any) -> Iterator[float]:
    for infer in (release.infer, partial(asked.infer, release)):
        try:
            value = float(infer().nobs)
        except (AttributeError, TypeError, DPInferError):
            continue
        if np.isfinite(value):
            yield value

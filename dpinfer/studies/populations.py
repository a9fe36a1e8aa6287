"""Populations: named ones with known true values, and pilots of a study: public rows or a release."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.errors import DataError, DPInferError, OptionError, UnknownColumnError, type_of
from dpinfer.kernel.data import PublicData, plain_cells
from dpinfer.kernel.sources import open_table
from dpinfer.release import Release
from dpinfer.schema import Real, Schema
from dpinfer.schema.cells import Coded, distinct_texts
from dpinfer.studies.simulation import cells_at, columns_of, group_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.rows.base import RowSum
    from dpinfer.statistics.arrays import Array, Places

__all__ = ["POPULATIONS", "Pilot", "Population", "ReleasePilot", "RowPilot", "population", "read_pilot"]

_CUT = 2.5


@dataclass(frozen=True)
class Population:
    """A population to draw rows from, with public bounds and its true coefficients.

    Attributes
    ----------
    name : str
    schema : Schema
        Bounds that no value exceeds.
    generate : callable
        ``generate(rng, n)`` returns a dict of arrays.
    truth : mapping of str to float
        Coefficients of ``formula``; for a single column its mean, as "Intercept".
    formula : str
        The regression, or ``"column ~ 1"``.
    about : str
        A description in one sentence.
    """

    name: str
    schema: Schema
    generate: Callable[[np.random.Generator, int], dict[str, Array]]
    truth: Mapping[str, float]
    formula: str
    about: str


def truncated_normal(rng: np.random.Generator, size: int | tuple[int, ...]) -> Array:
    """Draw standard normals truncated at 2.5 standard deviations."""
    draws = rng.normal(size=size)
    far = np.abs(draws) > _CUT
    while far.any():
        draws[far] = rng.normal(size=int(far.sum()))
        far = np.abs(draws) > _CUT
    return draws


@dataclass(frozen=True)
class _Regression:
    """Draws regressors of a kind, and a response with normal errors truncated at 2.5 standard deviations."""

    regressors: str
    slopes: tuple[float, ...]
    sigma: float = 0.2

    def __call__(self, rng: np.random.Generator, n: int) -> dict[str, Array]:
        shape = (len(self.slopes), n)
        x = rng.beta(1.0, 5.0, shape) if self.regressors == "skewed" else rng.uniform(-1.0, 1.0, shape)
        if self.regressors == "collinear":
            x = 0.9 * rng.uniform(-1.0, 1.0, n) + 0.1 * x
        y = np.asarray(self.slopes) @ x + self.sigma * truncated_normal(rng, n)
        return {**{f"x{j}": x[j] for j in range(len(self.slopes))}, "y": y}

    def population(self, name: str, about: str) -> Population:
        ends = np.array([0.0, 1.0]) if self.regressors == "skewed" else np.array([-1.0, 1.0])
        spread = _CUT * self.sigma
        lower = sum(min(slope * ends) for slope in self.slopes) - spread
        upper = sum(max(slope * ends) for slope in self.slopes) + spread
        columns = {f"x{j}": Real(float(ends[0]), 1.0) for j in range(len(self.slopes))}
        truth = {"Intercept": 0.0, **{f"x{j}": slope for j, slope in enumerate(self.slopes)}}
        formula = "y ~ " + " + ".join(f"x{j}" for j in range(len(self.slopes)))
        schema = Schema({**columns, "y": Real(float(lower), float(upper))})
        return Population(name, schema, self, truth, formula, about)


def _draw_age(rng: np.random.Generator, n: int) -> dict[str, Array]:
    """Beta on the unit interval with mean .43 and standard deviation .1758, times 100."""
    mean, variance = 0.43, 0.1758**2
    total = mean * (1 - mean) / variance - 1
    return {"age": 100 * rng.beta(mean * total, (1 - mean) * total, n)}


def _draw_income(rng: np.random.Generator, n: int) -> dict[str, Array]:
    return {"income": 200_000 * rng.beta(1.2, 6.8, n)}


_ALTERNATING = (0.1, -0.1, 0.1, -0.1, 0.1)

POPULATIONS = {
    one.name: one
    for one in (
        Population("age", Schema(age=Real(0, 100)), _draw_age, {"Intercept": 43.0}, "age ~ 1",
                   "Ages on 0-100 with mean 43 and standard deviation 17.58."),
        Population("income", Schema(income=Real(0, 200_000)), _draw_income, {"Intercept": 30_000.0}, "income ~ 1",
                   "Right-skewed incomes on 0-200,000 with mean 30,000."),
        _Regression("uniform", _ALTERNATING).population("uniform", "Five independent uniform regressors."),
        _Regression("skewed", _ALTERNATING).population("skewed", "Five right-skewed regressors, Beta(1, 5)."),
        _Regression("collinear", _ALTERNATING).population("collinear", "Five regressors with correlation .99."),
        _Regression("uniform", (0.5,)).population("one uniform", "One uniform regressor."),
    )
}  # fmt: skip
"""The named populations."""


def population(name: str) -> Population:
    """Return a named population.

    Parameters
    ----------
    name : {"age", "income", "uniform", "skewed", "collinear", "one uniform"}

    Returns
    -------
    Population

    Raises
    ------
    OptionError
        If there is no population of that name.

    Examples
    --------
    >>> import numpy as np
    >>> ages = population("age").generate(np.random.default_rng(1), 200_000)["age"]
    >>> round(float(ages.std()), 1)
    17.6
    """
    if name not in POPULATIONS:
        raise OptionError("name", name, POPULATIONS)
    return POPULATIONS[name]


# What is known of a population before it is measured

_POOL, _GROUPS, _TOGETHER = 2**18, 2**12, 2**6
"""Public rows that stand for a population, and the groups and their rows that data sets are put together from."""

_ENTRIES = 2**23
"""Most numbers in the sums of all groups."""

_NORMAL_FROM = 16.0
"""Times that a group is drawn on average from which that number is drawn as normal."""


@dataclass(frozen=True, eq=False)
class RowPilot:
    """A population from which rows are drawn.

    Attributes
    ----------
    generate : callable
        ``generate(rng, n)`` draws n rows: a dict of arrays, or a DataFrame.
    schema : Schema
    about : str
        A description, for the answer.
    given : mapping of str to cells, optional
        All its rows, if the population is a list of rows.
    """

    generate: Callable[[np.random.Generator, int], Any]
    schema: Schema
    about: str
    given: Mapping[str, Any] | None = None
    sampled = True
    """Data sets differ from each other, as samples do."""

    _summed: dict[Any, tuple[Array, int, Array]] = field(default_factory=dict)

    @cached_property
    def pool(self) -> Mapping[str, Any]:
        """Many public rows, by column; texts are coded once, not at every draw."""
        rows = self.given
        if rows is None:
            rows = _drawn(self.generate, np.random.default_rng([2**31, 17]), _POOL, self.schema)

        def coded(cells: Any) -> Any:
            if isinstance(cells, np.ndarray) and cells.dtype.kind == "U":
                values, codes = np.unique(cells, return_inverse=True)
                return Coded(codes, values.tolist())
            texts = isinstance(cells, np.ndarray) and cells.dtype == object and all(type(one) is str for one in cells)
            return distinct_texts(cells) if texts else cells

        return {name: coded(rows[name]) for name in self.schema}

    def sums(self, measured: Measurement, n: int, count: int, rng: np.random.Generator) -> Array:
        """Return noiseless integer sums of data sets of n rows (count, m).

        They add up the sums of groups of rows, drawn with replacement, and of the remaining rows.
        """
        groups, each, rows = self._groups(measured.rows)
        whole, rest = divmod(n, each)
        found = _redrawn(groups, whole, count, rng)
        if rest:
            found = found + _redrawn(rows, rest, count, rng)
        return np.asarray(measured.rows.finish_sets(found))

    def expected(self, measured: Measurement, n: int) -> Array:
        """Return the expected noiseless integer sums of n rows (m,)."""
        groups, each, _ = self._groups(measured.rows)
        return np.asarray(measured.rows.finish_sets(groups.mean(axis=0)[None])[0] * (n / each))

    def _groups(self, rows: RowSum) -> tuple[Array, int, Array]:
        """Return sums of groups (G, k), the rows per group, and sums of single rows."""
        key = type(rows), rows.names, rows.units.tobytes()
        if key not in self._summed:
            size = len(next(iter(self.pool.values())))
            most = max(64, min(_GROUPS, _ENTRIES // rows.entries))
            each = 1 if size <= 2 * most else min(_TOGETHER, size // most)
            order = np.random.default_rng(5).permutation(size)
            groups = self._mapped(rows, order[: size // each * each], each)
            self._summed[key] = groups, each, groups if each == 1 else self._mapped(rows, order[:most], 1)
        return self._summed[key]

    def _mapped(self, rows: RowSum, order: Places, each: int) -> Array:
        """Return sums of groups of ``each`` rows of the pool in this order (len(order) / each, k)."""
        cells = {name: cells_at(self.pool[name], order) for name in rows.columns}
        return group_sums(rows, cells, len(order) // each, each)


def _redrawn(groups: Array, draws: int, count: int, rng: np.random.Generator) -> Array:
    """Return sums of ``draws`` groups drawn with replacement, ``count`` times (count, k)."""
    size, usual, found = len(groups), draws / len(groups), np.empty((count, groups.shape[1]))
    together = max(1, 2**22 // max(size, min(draws, int(_NORMAL_FROM * size))))
    for start in range(0, count, together):
        some = min(together, count - start)
        if usual < _NORMAL_FROM:
            places = rng.integers(0, size, (some, draws)) + size * np.arange(some)[:, None]
            times = np.bincount(places.ravel(), minlength=some * size).reshape(some, size).astype(np.float64)
        else:
            away = rng.standard_normal((some, size))
            times = usual + np.sqrt(usual) * (away - away.mean(axis=1, keepdims=True))
        found[start : start + some] = times @ groups
    return found


@dataclass(frozen=True, eq=False)
class ReleasePilot:
    """A population described by the noisy sums of a release, per row.

    Attributes
    ----------
    release : Release
    nobs : float
        Number of rows behind it, as released or public.
    about : str
    """

    release: Release
    nobs: float
    about: str = "from a pilot release, including its noise"
    sampled = False
    """A release holds no rows to sample."""

    def holds(self, measured: Measurement) -> bool:
        """Whether the release holds the sums that are measured."""
        return self.release.names == measured.names and len(self.release.stages) == 1 == len(measured.stages)

    def sums(self, measured: Measurement, n: int, count: int, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Return the same sums for all data sets."""
        return np.tile(self.expected(measured, n), (count, 1))

    def expected(self, measured: Measurement, n: int) -> Array:
        """Scale the sums of the release to n rows."""
        whole = self.release.array / (np.asarray(measured.steps) * measured.multiplier)
        return np.asarray(whole * (n / self.nobs))


Pilot = RowPilot | ReleasePilot


def read_pilot(pilot: Any, schema: Schema, question: Any) -> Pilot:
    """Read the argument ``pilot``, for a question of these columns.

    Raises
    ------
    OptionError
        If it is not a pilot, or is a release without a number of rows.
    UnknownColumnError
        If it lacks a declared column.
    """
    if pilot is None:
        if schema.people is not None:
            raise OptionError("pilot", None, "public rows of people, or a function that draws them with their id")
        about = "uniform over the schema, columns independent"
        return RowPilot(lambda rng, n: schema.sample(n, rng), schema, about)
    if isinstance(pilot, Release):
        return ReleasePilot(pilot, _rows_behind(pilot, question))
    if callable(pilot) and not hasattr(pilot, "columns") and not isinstance(pilot, PublicData):
        _drawn(pilot, np.random.default_rng(0), 10, schema)
        return RowPilot(pilot, schema, f"drawn by {getattr(pilot, '__name__', type(pilot).__name__)}")
    try:
        frame = pilot.frame() if isinstance(pilot, PublicData) else pilot
        source = open_table(frame)
        if not isinstance(frame, pd.DataFrame):
            cells = source.read(source.columns, 0, source.rows)
            frame = pd.DataFrame({name: plain_cells(values) for name, values in cells.items()})
    except DataError:
        right = "a Release, PublicData, a frame of public rows, a function generate(rng, n), or None"
        raise OptionError("pilot", type_of(pilot), right) from None
    names = _columns_needed(schema)
    for name in names:
        if name not in frame.columns:
            raise UnknownColumnError(name, map(str, frame.columns), "the pilot")
    if len(frame) < 2:
        raise OptionError("pilot", type_of(frame), "two or more public rows")
    frame = frame[names]
    rows = open_table(frame).read(tuple(schema), 0, len(frame))
    return RowPilot(_resampling(frame, schema), schema, f"{len(frame):,} public rows, drawn with replacement", rows)


def _rows_behind(release: Release, question: Any) -> float:
    """Return the number of rows behind a release, from it, its own results or those of a question."""
    if release.nobs is not None:
        return float(release.nobs)
    for infer in (release.infer, partial(question.infer, release)):
        with suppress(AttributeError, TypeError, DPInferError):
            nobs = float(infer().nobs)
            if np.isfinite(nobs):
                if nobs > 1:
                    return nobs
                break
    raise OptionError("pilot", type_of(release), "a release with a public or noisy number of rows")


def _columns_needed(schema: Schema) -> list[str]:
    return [*schema, *(() if schema.people is None else (schema.people.id,))]


def _resampling(frame: pd.DataFrame, schema: Schema) -> Callable[[np.random.Generator, int], pd.DataFrame]:
    """Draw n rows with replacement; people are drawn with all their rows and get new ids."""
    if schema.people is None:
        return lambda rng, n: frame.iloc[rng.integers(0, len(frame), n)].reset_index(drop=True)
    person = schema.people.id
    parts = [np.asarray(one) for one in frame.groupby(person, sort=False).indices.values()]

    def draw(rng: np.random.Generator, n: int) -> pd.DataFrame:
        places: list[Any] = []
        total = 0
        while total < n:
            places.append(parts[int(rng.integers(len(parts)))])
            total += len(places[-1])
        owners = np.repeat(np.arange(len(places)), [len(one) for one in places])
        drawn = frame.iloc[np.concatenate(places)[:n]].reset_index(drop=True)
        return drawn.assign(**{person: owners[:n]})

    return draw


def _drawn(generate: Any, rng: np.random.Generator, n: int, schema: Schema) -> Mapping[str, Any]:
    """Draw rows by a user's function, and check that the columns are there."""
    try:
        drawn = generate(rng, n)
    except DPInferError:
        raise
    except Exception as error:
        raise DataError(f"pilot failed at n = {n}: {type(error).__name__}: {error}") from error
    columns = columns_of(drawn)
    if columns is None:
        raise OptionError("pilot", type_of(drawn), "a function that returns a dict of arrays or a DataFrame")
    for name in _columns_needed(schema):
        if name not in columns:
            raise UnknownColumnError(name, columns, "the pilot")
        if len(columns[name]) != n:
            raise DataError(f"pilot returned {len(columns[name])} values for {name!r}: expected n = {n}")
    return columns

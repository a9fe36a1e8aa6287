"""What a population is said to be: read from the user, and drawn from for the power of a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import pandas as pd

from dpinfer.descriptions.mean_test_inference import GroupMeans
from dpinfer.errors import OptionError
from dpinfer.inference.noise import CountNoise
from dpinfer.release import NoiseLaw
from dpinfer.tables.chi_squared_inference import GoodnessOfFit, Homogeneity, Independence

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dpinfer.descriptions.mean_tests import MeanComparison
    from dpinfer.inference.nulls import NullModel
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.rows.cells import CellSum
    from dpinfer.numerics.arrays import Array
    from dpinfer.privacy.units import Privacy
    from dpinfer.schema.schema import Schema
    from dpinfer.tables.chi_squared import ChiSquare

__all__ = [
    "NO_NOISE",
    "CountTruth",
    "MeanTruth",
    "Truth",
    "is_number",
    "is_whole",
    "read_cells",
    "read_moments",
    "read_share",
]

NO_NOISE = NoiseLaw("gaussian", (0.0,))
"""Law of the counts of the ordinary test."""

_SUM = 1e-8
_PARTS = ("share", "mean", "sd")


class Truth(Protocol):
    """Sums that a test sees in samples of a given population; a price of None stands for the ordinary test."""

    @property
    def least(self) -> int:
        """Smallest number of rows."""

    def model(self, n: int, price: Privacy | None) -> NullModel:
        """Give the hypothesis and the statistic."""

    def expected(self, n: int) -> Array:
        """Give the expected sums, without noise (m,)."""

    def draw(self, n: int, model: Any, size: int, rng: np.random.Generator) -> Array:
        """Draw releases (size, m), sampling and noise alike."""


@dataclass(frozen=True, eq=False)
class CountTruth:
    """Counts in the cells of a table."""

    test: ChiSquare
    cells: Array
    planned: Callable[[Privacy], Measurement]
    schema: Schema
    least: int = 1

    @property
    def _axes(self) -> tuple[Any, ...]:
        axes, fixed = self.test.plan(self.schema).cells, self.test.fixed
        return axes if fixed is None or axes[0].name == fixed else axes[::-1]

    def _sizes(self, n: int) -> NDArray[np.int64]:
        """Sizes of the samples where they are fixed by design (r,)."""
        public = self.test.sample_sizes(self._axes[0])
        shares = self.cells.sum(axis=1) if public is None else public / public.sum()
        ends = np.rint(np.concatenate([[0.0], np.cumsum(shares)]) * n)
        return np.asarray(np.maximum(np.diff(ends), 1.0), dtype=np.int64)

    def model(self, n: int, price: Privacy | None) -> NullModel:
        """See `Truth.model`."""
        asked, axes, noise, known, kind = self.test, self._axes, CountNoise(NO_NOISE), True, "pearson"
        if price is not None:
            measured, kind = self.planned(price), asked.statistic
            noise = CountNoise(
                NoiseLaw(measured.law.family, measured.law.scales[:1], measured.law.draws), measured.steps[0]
            )
            known = measured.neighbors == "replace_one" and cast("CellSum", measured.rows).keeps_every_row
        public = n if known else None
        if len(axes) == 1:
            return GoodnessOfFit(asked.probabilities(axes[0]), noise, public, kind)
        shape = cast("tuple[int, int]", self.cells.shape)
        if asked.fixed is None:
            return Independence(shape, noise, public, kind)
        known = price is None or asked.sizes is not None
        return Homogeneity(shape, noise, self._sizes(n).astype(np.float64) if known else None, kind)

    def expected(self, n: int) -> Array:
        """See `Truth.expected`."""
        if self.test.fixed is None:
            return n * self.cells.ravel()
        return np.asarray((self._sizes(n)[:, None] * self._conditional).ravel())

    @property
    def _conditional(self) -> Array:
        return np.asarray(self.cells / self.cells.sum(axis=1, keepdims=True))

    def draw(self, n: int, model: Any, size: int, rng: np.random.Generator) -> Array:
        """See `Truth.draw`."""
        if self.test.fixed is None:
            counts = rng.multinomial(n, self.cells.ravel(), size=size)
        else:
            sizes = np.broadcast_to(self._sizes(n), (size, len(self.cells)))
            counts = rng.multinomial(sizes, self._conditional).reshape(size, -1)
        return np.asarray(counts + model.noise.rvs(counts.shape, rng))


@dataclass(frozen=True, eq=False)
class MeanTruth:
    """Sums of 1, u and u^2 in groups, u being the column scaled to [-1, 1]."""

    test: MeanComparison
    shares: Array
    means: Array
    spreads: Array
    planned: Callable[[Privacy], Measurement]
    schema: Schema

    @property
    def least(self) -> int:
        """See `Truth.least`."""
        return 2 * self.shares.size

    def model(self, n: int, price: Privacy | None) -> GroupMeans:  # noqa: ARG002  (of a protocol)
        """See `Truth.model`."""
        asked, question = self.test, self.test.plan(self.schema)
        if price is None:
            given = None if asked.grouped else asked.scaled_mean(question)
            plain = np.eye(3), np.zeros(3), 0
            return GroupMeans(*plain, self.shares.size, given, asked.equal_var, asked.alternative)
        measured = self.planned(price)
        nothing, steps = np.zeros((1, len(measured.names))), np.asarray(measured.steps)
        return asked.model(question, nothing, law=measured.law, steps=steps)[0]

    def expected(self, n: int) -> Array:
        """See `Truth.expected`."""
        rows = n * self.shares
        return np.stack([rows, rows * self.means, rows * (self.means**2 + self.spreads**2)], axis=-1).ravel()

    def draw(self, n: int, model: Any, size: int, rng: np.random.Generator) -> Array:
        """See `Truth.draw`."""
        rows = rng.multinomial(n, self.shares, size=size).astype(np.float64)
        first = rows * self.means + self.spreads * np.sqrt(rows) * rng.standard_normal(rows.shape)
        within = 2 * self.spreads**2 * rng.standard_gamma(np.maximum(rows - 1, 0.0) / 2)
        second = within + first**2 / np.maximum(rows, 1.0)
        drawn = np.stack([rows, first, second], axis=-1) + model.noise(rows.shape, rng)
        return np.asarray(drawn.reshape(size, -1))


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, and no truth value."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return number and bool(np.isfinite(value))


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number, and no truth value."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def read_share(truth: Any) -> None:
    """Refuse what is no proportion.

    Raises
    ------
    OptionError
    """
    if not (is_number(truth) and 0 <= truth <= 1):
        raise OptionError("truth", truth, "a number in [0, 1]: the proportion of the population")


def read_cells(truth: Any, test: ChiSquare, schema: Schema) -> Array:
    """Read probabilities of the cells, the axis that is fixed first; (d,) or (r, c)."""
    axes = test.plan(schema).cells
    labels = [list(axis.labels) for axis in axes]
    told = " by ".join(f"{axis.name!r} ({', '.join(map(str, axis.labels))})" for axis in axes)
    right = f"probabilities of {told}, not negative, that add up to 1"
    try:
        cells = np.asarray(_by_label(truth, labels, [axis.name for axis in axes]), dtype=np.float64)
    except (TypeError, ValueError, KeyError):
        cells = np.zeros(0)  # of a wrong shape: refused below, outside of a handler whose exception quotes the truth
    fits = cells.shape == tuple(map(len, labels)) and bool(np.isfinite(cells).all()) and bool((cells >= 0).all())
    if not fits:
        raise OptionError("truth", truth, right)
    if abs(float(cells.sum()) - 1) > _SUM:
        raise OptionError("truth", truth, f"{right}, not to {'more' if cells.sum() > 1 else 'less'}")
    if test.fixed == axes[-1].name:
        cells = cells.T
    if test.fixed is not None and not (cells.sum(axis=1) > 0).all():
        raise OptionError("truth", truth, f"a positive share of every sample of {test.fixed!r}")
    return np.asarray(cells / cells.sum())


def _by_label(truth: Any, labels: list[list[Any]], names: list[str]) -> Any:
    """Arrange a Series, DataFrame or mapping by labels; anything else is returned as it is.

    Raises
    ------
    KeyError
        If a label is missing or unknown.
    """
    if isinstance(truth, pd.DataFrame):
        truth = {(i, j): value for i, row in zip(truth.index, truth.to_numpy(), strict=True)
                 for j, value in zip(truth.columns, row, strict=True)} if truth.index.is_unique else {}  # fmt: skip
    elif isinstance(truth, pd.Series):
        if len(names) > 1 and list(truth.index.names) == names[::-1]:
            truth = truth.swaplevel()
        truth = dict(zip(truth.index, truth, strict=True)) if truth.index.is_unique else {}
    if not isinstance(truth, Mapping):
        return truth
    keys = list(product(*labels)) if len(labels) > 1 else labels[0]
    if len(truth) != len(keys):
        raise KeyError(len(truth))
    return np.reshape([truth[key] for key in keys], [len(one) for one in labels])


def read_moments(truth: Any, test: MeanComparison, schema: Schema) -> tuple[Array, Array, Array]:
    """Read shares, means and standard deviations of the groups, scaled to [-1, 1]; (G,) each."""
    question, asked = test.plan(schema), test
    if asked.grouped:
        labels = question.cells[0].labels
        right = (
            f'a DataFrame with the columns "share", "mean" and "sd" and a row for each level of {asked.by!r}: '
            f"{', '.join(map(str, labels))}; or a mapping from level to (share, mean, sd)"
        )
    else:
        right = '{"mean": ..., "sd": ...} of ' + question.expressions[0].text
    try:
        parts = np.asarray(_moments(truth, labels if asked.grouped else None), dtype=np.float64)
    except (TypeError, ValueError, KeyError, AttributeError):
        parts = np.zeros(0)
    if parts.shape[1:] != (3,) or not np.isfinite(parts).all():
        raise OptionError("truth", truth, right)
    shares, means, spreads = parts.T
    if not (shares > 0).all() or abs(float(shares.sum()) - 1) > _SUM:
        raise OptionError("truth", truth, "positive shares that add up to 1")
    lower, upper = question.expressions[0].lower, question.expressions[0].upper
    most = np.sqrt(np.maximum((upper - means) * (means - lower), 0.0))
    if not ((lower <= means) & (means <= upper) & (spreads > 0) & (spreads <= most * (1 + _SUM))).all():
        bounds = f"[{lower:g}, {upper:g}] of {question.expressions[0].text}"
        raise OptionError(
            "truth", truth, f"means within the bounds {bounds}, and positive sd that values there can have"
        )
    center, half = question.scaled
    return shares / shares.sum(), (means - center[0]) / half[0], spreads / half[0]


def _moments(truth: Any, labels: tuple[Any, ...] | None) -> list[list[Any]]:
    """Rows of share, mean and sd.

    Raises
    ------
    KeyError, TypeError
        If a part or a level is missing or unknown.
    """
    if labels is None:
        if set(truth.keys()) != set(_PARTS[1:]):
            raise KeyError(list(truth))
        return [[1.0, truth["mean"], truth["sd"]]]
    if isinstance(truth, pd.DataFrame):
        if set(truth.columns) != set(_PARTS) or not truth.index.is_unique:
            raise KeyError(list(truth.columns))
        truth = dict(zip(truth.index, truth[list(_PARTS)].to_numpy().tolist(), strict=True))
    if set(truth) != set(labels):
        raise KeyError(list(truth))
    rows = (truth[label] for label in labels)
    return [[row[part] for part in _PARTS] if isinstance(row, Mapping) else list(row) for row in rows]

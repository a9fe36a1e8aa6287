"""Counts of rows by what a round sees of them: sizes, residuals and coordinates, in bins and in trees of bins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import NotProvedError, OptionError
from dpinfer.kernel.rows.base import Batch, RowSum
from dpinfer.kernel.rows.round_frame import Looked, RoundFrame
from dpinfer.privacy.exact import binary, sqrt_above
from dpinfer.privacy.sensitivity import joint_sensitivity

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.privacy.units import Neighbors
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["Bins", "RoundCounts"]

_OF = ("size", "residual", "difference", "linear", "coordinate", "label")

_MOST_PLACES = 512
_MOST_BINS = 2**14
_MOST_COUNTS = 2**20


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of one number of a row: between ``cuts`` (B - 1,), and below and above all of them.

    With several ``levels`` neighbouring bins are also counted by pairs, by fours and so on; then B is divisible by the
    largest of these. ``place`` says which, if it is a coordinate or a label that is binned.
    """

    name: str
    of: str
    cuts: Array
    levels: int = 1
    place: int = 0

    @property
    def size(self) -> int:
        """Number B of bins."""
        return len(self.cuts) + 1

    @property
    def widths(self) -> tuple[int, ...]:
        """How many bins are counted together on each level, from the coarsest to single bins."""
        return tuple(2**level for level in reversed(range(self.levels)))

    def check(self, frame: RoundFrame) -> None:
        """Refuse what are no bins."""
        if type(self.name) is not str or not self.name:
            raise OptionError("name", type(self.name).__name__, "the name of what is binned")
        if self.of not in _OF:
            raise OptionError("of", self.of, _OF)
        right = type(self.cuts) is np.ndarray and self.cuts.dtype == np.float64 and self.cuts.ndim == 1
        right = right and self.cuts.size < _MOST_BINS and bool(np.isfinite(self.cuts).all())
        if not (right and bool((np.diff(self.cuts) > 0).all())):
            raise OptionError("cuts", type(self.cuts).__name__, f"up to {_MOST_BINS - 1:,} increasing numbers")
        whole = type(self.levels) is int and 1 <= self.levels <= _MOST_BINS.bit_length()
        if not whole or self.size % 2 ** (self.levels - 1):
            raise OptionError("levels", self.levels, f"levels of which each halves {self.size:,} bins")
        places = frame.labels if self.of == "label" else frame.size
        if type(self.place) is not int or not 0 <= self.place < places:
            raise OptionError("place", self.place, f"a whole number below {places}")

    def found(self, looked: Looked) -> NDArray[np.intp]:
        """Return the bin of each row (m,)."""
        several = {"coordinate": looked.z, "label": looked.labels}
        number = several[self.of][self.place] if self.of in several else getattr(looked, self.of)
        found: NDArray[np.intp] = np.searchsorted(self.cuts, number, side="right")
        return found


@dataclass(frozen=True, eq=False)
class RoundCounts(RowSum):
    """Counts rows in one bin of each place, and in the groups of bins that it belongs to, one on each level.

    Rows that are dropped are in none.
    """

    frame: RoundFrame
    places: tuple[Bins, ...]

    @property
    def schema(self) -> Schema:
        """The schema of the columns."""
        return self.frame.features.schema

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        return self.frame.features.columns

    @property
    def keeps_every_row(self) -> bool:
        """Whether declared policies make it impossible that a row is in no bin."""
        return self.frame.features.keeps_every_row

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each count is: place by place, from the coarsest level to the bins."""
        return tuple(
            f"{one.name}: {f'{width} bins from' if width > 1 else 'bin'} {start + 1}"
            for one in self.places
            for width in one.widths
            for start in range(0, one.size, width)
        )

    @property
    def units(self) -> Array:
        """The number 1 in each integer sum (m,)."""
        return np.ones(len(self.names))

    def check(self) -> None:
        """Refuse a frame or bins that are none, and more counts than can be held."""
        if type(self.frame) is not RoundFrame:
            raise OptionError("frame", type(self.frame).__name__, "a RoundFrame")
        self.frame.check()
        places = self.places if type(self.places) is tuple else ()
        if not 1 <= len(places) <= _MOST_PLACES or not all(type(one) is Bins for one in places):
            raise OptionError("places", type(self.places).__name__, f"bins of 1 to {_MOST_PLACES} numbers")
        for one in places:
            one.check(self.frame)
        if len({one.name for one in places}) < len(places):
            raise OptionError("places", [one.name for one in places], "different names")
        if sum(self._sizes) > _MOST_COUNTS:
            raise OptionError("places", f"{sum(self._sizes):,} counts", f"at most {_MOST_COUNTS:,}")

    # Bounds

    @property
    def parts(self) -> tuple[str, ...]:
        """Each place is a part."""
        return tuple(one.name for one in self.places)

    @property
    def part_of(self) -> NDArray[np.intp]:
        """Which place each count belongs to (m,)."""
        return np.repeat(np.arange(len(self.places)), self._sizes)

    def change(self, weights: Array, neighbors: Neighbors, norm: Norm) -> Fraction:
        """Bound on the change of all counts, each over its noise."""
        parts = self.part_changes(neighbors, norm)
        return joint_sensitivity(list(zip(parts, weights.tolist(), strict=True)), norm=norm)

    def part_changes(self, neighbors: Neighbors, norm: Norm) -> tuple[Fraction, ...]:
        """Bound on the change of each place: a row is in one count of each level, and a replaced row in two or none."""
        if self.schema.people is not None:
            raise NotProvedError("RoundCounts is proved for rows as the unit of privacy: people are not served")
        moved = [one.levels * (1 if neighbors == "add_remove" else 2) for one in self.places]
        return tuple(binary(one if norm == "l1" else sqrt_above(binary(one), binary)) for one in moved)

    @property
    def _sizes(self) -> list[int]:
        """How many counts each place has."""
        return [sum(one.size // width for width in one.widths) for one in self.places]

    # Integers

    @property
    def entries(self) -> int:
        """Number of bins of all places."""
        return sum(one.size for one in self.places)

    @property
    def most_added(self) -> int:
        """Bound on the counts of a batch."""
        return 2**15

    def add(self, batch: Batch) -> Ints:
        """Count rows by bin (sets, entries); see `RowSum.add`."""
        rows, _ = self.frame.features.encode(batch.cells)
        each = batch.size // batch.sets
        return np.stack([self._counted(rows[:, start * each : (start + 1) * each]) for start in range(batch.sets)])

    def _counted(self, rows: Array) -> Ints:
        looked = self.frame.look(rows)
        kept = looked.weight > 0
        counts = [np.bincount(one.found(looked)[kept], minlength=one.size) for one in self.places]
        return np.concatenate(counts).astype(np.int64)

    def finish(self, totals: list[int]) -> list[int]:
        """Return the counts of all levels from those of the bins."""
        found: list[int] = self._levels(np.array([totals], dtype=object))[0].tolist()
        return found

    def finish_sets(self, totals: Array) -> Array:
        """Return the same for many data sets (R, entries)."""
        found: Array = self._levels(totals)
        return found

    def _levels(self, totals: NDArray[Any]) -> NDArray[Any]:
        ends = np.cumsum([one.size for one in self.places])
        parts = zip(self.places, np.split(totals, ends[:-1], axis=1), strict=True)
        levels = [part.reshape(len(part), -1, width).sum(axis=2) for one, part in parts for width in one.widths]
        return np.concatenate(levels, axis=1)

"""Counts of rows by what a round sees of them: sizes, residuals and coordinates, in bins and in trees of bins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.kernel.rows.base import Batch, RowSum
from dpinfer.kernel.rows.interpolants import LARGEST
from dpinfer.kernel.rows.round_frame import Looked, RoundFrame
from dpinfer.kernel.rows.rounds import BLOCK_ROWS, Term, by_person, lengths, owners, pieces, vectors
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

_OF = ("size", "residual", "difference", "linear", "coordinate", "label", "person")

_MOST_PLACES = 512
_MOST_BINS = 2**14
_MOST_COUNTS = 2**20

_STEPS, _FARTHEST = 2.0**12, 2.0**37
"""Parts of 1 in which lengths of people's vectors are measured, and the most parts of a coordinate of a row."""

_FEW = 8
"""Among fewer cuts a search is as fast as anything."""


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of one number of a row: between ``cuts`` (B - 1,), and below and above all of them.

    With several ``levels`` neighbouring bins are also counted by pairs, by fours and so on; then B is divisible by the
    largest of these. With ``halved`` only the first half of each group is counted within it, for the level above tells
    the other. ``place`` says which, if it is a coordinate or a label that is binned. Of a "person" it is the length, in
    the norm of the frame, of what all their rows add to a vector that is cut, the ``term``, before it is cut.
    """

    name: str
    of: str
    cuts: Array
    levels: int = 1
    place: int = 0
    term: Term | None = None
    halved: bool = False

    @property
    def size(self) -> int:
        """Number B of bins."""
        return len(self.cuts) + 1

    @property
    def widths(self) -> tuple[int, ...]:
        """How many bins are counted together on each level, from the coarsest to single bins."""
        return tuple(2**level for level in reversed(range(self.levels)))

    @property
    def groups(self) -> tuple[range, ...]:
        """First bins of the groups that are counted, for each of these widths."""
        every = [range(0, self.size, width) for width in self.widths]
        return (every[0], *(one[::2] if self.halved else one for one in every[1:]))

    def check(self, frame: RoundFrame) -> None:
        """Refuse what are no bins."""
        if type(self.name) is not str or not self.name:
            raise OptionError("name", type(self.name).__name__, "the name of what is binned")
        if self.of not in _OF:
            raise OptionError("of", self.of, _OF)
        right = type(self.cuts) is np.ndarray and self.cuts.dtype == np.float64 and self.cuts.ndim == 1
        right = right and self.cuts.size < _MOST_BINS and bool((np.abs(self.cuts) <= LARGEST).all())
        if not (right and bool((np.diff(self.cuts) > 0).all())):
            raise OptionError("cuts", type(self.cuts).__name__, f"up to {_MOST_BINS - 1:,} increasing numbers")
        whole = type(self.levels) is int and 1 <= self.levels <= _MOST_BINS.bit_length()
        if not whole or self.size % 2 ** (self.levels - 1):
            raise OptionError("levels", self.levels, f"levels of which each halves {self.size:,} bins")
        if type(self.halved) is not bool:
            raise OptionError("halved", self.halved, "True or False")
        places = frame.labels if self.of == "label" else frame.size
        if type(self.place) is not int or not 0 <= self.place < places:
            raise OptionError("place", self.place, f"a whole number below {places}")
        if self.term is not None:
            if type(self.term) is not Term:
                raise OptionError("term", type(self.term).__name__, "a Term")
            self.term.check()
        if (self.of == "person") != (self.term is not None and self.term.cut is not None):
            raise OptionError("term", self.of, "a vector that is cut for people, and None for anything else")

    def counts(self, looked: Looked, owned: Ints | None, norm: Norm) -> Ints:
        """Count the rows (m,), or the people of whom ``owned`` (m,) says which each row is of, in each bin (B,).

        Without ``owned`` each row is another person's.
        """
        kept = looked.weight > 0
        if self.term is not None:
            steps = np.rint(np.clip(vectors(self.term, looked) * _STEPS, -_FARTHEST, _FARTHEST))  # sums are exact
            number = lengths(steps if owned is None else by_person(steps, owned), norm) / _STEPS
            kept = kept if owned is None else np.bincount(owned, kept) > 0
        elif self.of in ("coordinate", "label"):
            number = (looked.z if self.of == "coordinate" else looked.labels)[self.place]
        else:
            number = getattr(looked, self.of)
        found = np.where(kept, self.bins(number), self.size)
        return np.bincount(found, minlength=self.size + 1)[:-1].astype(np.int64)

    def bins(self, numbers: Array) -> NDArray[np.intp]:
        """Return how many cuts each number (m,) is not below.

        No number is in a higher cell of an even grid than one above it. So only cuts in its own cell need a look; with
        several of them in one cell there is a search.
        """
        if self._grid is None:
            found: NDArray[np.intp] = np.searchsorted(self.cuts, numbers, side="right")
            return found
        below, only = self._grid
        cell = self._cell(numbers)
        found = below[cell]
        found += numbers >= only.take(cell)
        return found

    def _cell(self, numbers: Array) -> NDArray[np.intp]:
        steps = 2 * len(self.cuts)
        place: Array = (numbers - self.cuts[0]) * (steps / (self.cuts[-1] - self.cuts[0]))
        np.fmin(np.fmax(place, 0.0, out=place), steps, out=place)
        return place.astype(np.intp)

    @cached_property
    def _grid(self) -> tuple[NDArray[np.intp], Array] | None:
        """Of each cell how many cuts are in lower ones, and its own cut, or infinity; None if one has several."""
        if len(self.cuts) < _FEW or not self.cuts[-1] - self.cuts[0] > 1 / LARGEST:
            return None
        cells = self._cell(self.cuts)
        if not (np.diff(cells) > 0).all():
            return None
        only = np.full(2 * len(self.cuts) + 1, np.inf)
        only[cells] = self.cuts
        return np.searchsorted(cells, np.arange(len(only))), only


@lru_cache(maxsize=256)
def _count_names(place: str, width: int, starts: range) -> tuple[str, ...]:
    return tuple(f"{place}: {f'{width} bins from' if width > 1 else 'bin'} {start + 1}" for start in starts)


@dataclass(frozen=True, eq=False)
class RoundCounts(RowSum):
    """Counts rows in one bin of each place, and in the groups of bins that it belongs to, one on each level.

    Rows that are dropped are in none, and a group may be left out.
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
            name
            for one in self.places
            for width, starts in zip(one.widths, one.groups, strict=True)
            for name in _count_names(one.name, width, starts)
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
        """Bound on the change of each place: a row is in one count of each level, and a replaced row in two or none.

        Rows of a person count one by one, unless it is the person who is in a bin.
        """
        moved = [one.levels * (1 if neighbors == "add_remove" else 2) for one in self.places]
        rows = [1 if one.of == "person" else self.schema.rows_per_unit for one in self.places]
        bounds = (binary(one if norm == "l1" else sqrt_above(binary(one), binary)) for one in moved)
        return tuple(many * one for many, one in zip(rows, bounds, strict=True))

    @property
    def _sizes(self) -> list[int]:
        """How many counts each place has."""
        return [sum(len(starts) for starts in one.groups) for one in self.places]

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
        people = self.schema.rows_per_unit > 1 and any(one.of == "person" for one in self.places)
        found = np.zeros((batch.sets, self.entries), dtype=np.int64)
        for place, mine in pieces(batch, batch.size if people else BLOCK_ROWS):
            looked, owned = self.frame.look(rows[:, mine]), owners(batch, mine) if people else None
            found[place] += np.concatenate([one.counts(looked, owned, self.frame.norm) for one in self.places])
        return found

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
        levels = [
            part.reshape(len(part), -1, width).sum(axis=2)[:, :: starts.step // width]
            for one, part in parts
            for width, starts in zip(one.widths, one.groups, strict=True)
        ]
        return np.concatenate(levels, axis=1)

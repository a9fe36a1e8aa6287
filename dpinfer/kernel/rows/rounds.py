"""Sums of one round of Newton's method: scores, Hessians and their kin, in one set that every row is forced into."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import frexp
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import NotProvedError, OptionError
from dpinfer.kernel.rows.base import Batch, RowSum
from dpinfer.kernel.rows.interpolants import LARGEST
from dpinfer.kernel.rows.products import HALF
from dpinfer.kernel.rows.round_frame import MOST_COORDINATES, RoundFrame, check_table, columns_at_once
from dpinfer.privacy.exact import binary, sqrt_above
from dpinfer.schema.grid import GRID_BITS, UNIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dpinfer.kernel.rows.interpolants import Interpolant
    from dpinfer.kernel.rows.round_frame import Looked
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.privacy.units import Neighbors
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["BLOCK_ROWS", "SLACK", "RoundSum", "Term", "by_person", "lengths", "owners", "pieces", "vectors"]

SLACK = Fraction(1, 2**12)
"""What a row may pay above 1: more than rounding to the grid adds to the price of one that pays 1."""

_KEPT = float((1 + SLACK) * (1 - Fraction(1, 2**40)))
"""What a row that is kept may pay in floating point, whose errors are below 2^-42 of it: S then holds exactly."""

_KINDS = ("vector", "matrix", "outer", "number", "mass")
_SQUARED = ("matrix", "outer")
_CUT = ("vector", "outer")
_OF = ("residual", "difference", "linear", "label")

_MOST_TERMS = 64
_MOST_SUMS = 2**20

BLOCK_ROWS = 2**13
"""Rows that are mapped at once."""

_FARTHEST = 2.0**37
"""Steps of a coordinate of a row's vector that is cut, at most: those of a person are added up exactly."""

_LONGEST = 2**15
"""So many sizes of rows, of at most 2^38 in each coordinate, add up to at most 2^53."""


@dataclass(frozen=True, eq=False)
class Term:
    """One of the quantities that a round adds up, and the price c of its size in the set that rows are forced into.

    ``u`` below is ``curve`` of the residual, of the difference, of the linear predictor or of the label at ``place``,
    as ``of`` says; without a curve it is that number itself. With v the weight of a row, it adds

    - "vector": ``v lift (u - center) z``, with ``center`` a function of the linear predictor, or 0;
    - "matrix": ``v u z z'``, with negative u cut to 0;
    - "outer": the products of a vector with itself;
    - "number": ``w^power u``, w the survey weight alone; "mass": the same, with negative u cut to 0.

    With a ``cut`` a vector, and an outer product, is about the unit: what all rows of a unit add to the vector
    ``w (u - center) z``, of which only the survey weight w is taken, is shortened to this length in the norm of the
    frame. Then lengths of rows need no bound of their own; ``weighed``, rows have their weights v nevertheless.
    """

    name: str
    kind: str
    price: float
    curve: Interpolant | None = None
    of: str = "residual"
    center: Interpolant | None = None
    power: int = 1
    place: int = 0
    cut: float | None = None
    weighed: bool = False

    def check(self) -> None:
        """Refuse a term that is none."""
        if type(self.name) is not str or not self.name:
            raise OptionError("name", type(self.name).__name__, "the name of what is summed")
        if self.kind not in _KINDS:
            raise OptionError("kind", self.kind, _KINDS)
        if self.of not in _OF:
            raise OptionError("of", self.of, _OF)
        if type(self.price) is not float or not 1 / LARGEST <= self.price <= LARGEST:
            raise OptionError("price", self.price, f"a positive number of at most {LARGEST:g}")
        if type(self.power) is not int or not 0 <= self.power <= 2:
            raise OptionError("power", self.power, "0, 1 or 2")
        if type(self.place) is not int or not 0 <= self.place < MOST_COORDINATES:
            raise OptionError("place", self.place, f"a whole number below {MOST_COORDINATES}")
        self._check_cut()
        if self.kind not in _CUT and self.center is not None:
            raise OptionError("center", self.kind, "None: it is taken from vectors")
        for table in (self.curve, self.center):
            if table is not None:
                check_table(table)

    def _check_cut(self) -> None:
        if self.cut is not None and self.kind not in _CUT:
            raise OptionError("cut", self.kind, "None: only vectors are shortened")
        if self.cut is not None and (type(self.cut) is not float or not 1 / UNIT <= self.cut <= _LONGEST):
            raise OptionError("cut", self.cut, f"a length of at most {_LONGEST:,}, or None")
        if type(self.weighed) is not bool or (self.weighed and self.cut is None):
            raise OptionError("weighed", self.weighed, "True or False, and False without a cut")


@dataclass(frozen=True, eq=False)
class RoundSum(RowSum):
    """Sums of what each row adds to one round: vectors, matrices and numbers, of which the sizes pay prices.

    A row whose sizes pay more than 1, and a slack, for all terms together adds nothing. The prices, tables and maps are
    public and may be any: of the right ones no row pays more, see `docs/kernel.md`. Where a term has a ``cut``, a
    person pays for what all their rows add up to.
    """

    frame: RoundFrame
    terms: tuple[Term, ...]

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
        """Whether declared policies make a zero row impossible."""
        return self.frame.features.keeps_every_row

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each sum is."""
        rows, columns = self._upper
        labels: list[str] = []
        for term in self.terms:
            if term.kind in _SQUARED:
                labels += [f"{term.name} {i + 1} * {j + 1}" for i, j in zip(rows, columns, strict=True)]
            else:
                labels += [f"{term.name} {i + 1}" for i in range(self._width(term))]
        return tuple(labels)

    @property
    def units(self) -> Array:
        """The number 1 in each integer sum (m,)."""
        return np.repeat([self._unit(place) ** (2 if one.kind in _SQUARED else 1)
                          for place, one in enumerate(self.terms)], self._sizes)  # fmt: skip

    def check(self) -> None:
        """Refuse a frame or terms that are none, and more sums than can be held."""
        if type(self.frame) is not RoundFrame:
            raise OptionError("frame", type(self.frame).__name__, "a RoundFrame")
        self.frame.check()
        terms = self.terms if type(self.terms) is tuple else ()
        if not 1 <= len(terms) <= _MOST_TERMS or not all(type(one) is Term for one in terms):
            raise OptionError("terms", type(self.terms).__name__, f"1 to {_MOST_TERMS} terms")
        for term in terms:
            term.check()
        places = [term.place for term in terms if term.of == "label"]
        if max(places, default=-1) >= self.frame.labels:
            raise OptionError("place", max(places), f"a place among {self.frame.labels} labels")
        if len({term.name for term in terms}) < len(terms):
            raise OptionError("terms", [term.name for term in terms], "different names")
        if sum(self._sizes) > _MOST_SUMS:
            raise OptionError("terms", f"{sum(self._sizes):,} sums", f"at most {_MOST_SUMS:,}")
        if self._whole_units and self.schema.rows_per_unit * self.frame.size > _LONGEST:
            raise NotProvedError(f"cut= is proved for people of at most {_LONGEST // self.frame.size:,} rows")

    # Bounds

    @property
    def parts(self) -> tuple[str, ...]:
        """Each term is a part."""
        return tuple(term.name for term in self.terms)

    @property
    def part_of(self) -> NDArray[np.intp]:
        """Which term each sum belongs to (m,)."""
        return np.repeat(np.arange(len(self.terms)), self._sizes)

    def pattern(self, norm: Norm) -> Array:
        """Noise is in proportion to the number 1; off the diagonal less under Gaussian noise, as in `GramSum`."""
        rows, columns = self._upper
        within = np.where(rows == columns, 1.0, HALF) if norm == "l2" else np.ones(len(rows))
        each = [within if one.kind in _SQUARED else np.ones(self._width(one)) for one in self.terms]
        return np.concatenate(each) * self.units

    def usual_weights(self, neighbors: Neighbors, norm: Norm) -> Array:
        """Weights at which every term pays for the whole bound: none of them can have less noise at another's cost."""
        found = [float(_factor(one, neighbors, norm) / Fraction(one.price)) for one in self.terms]
        return np.sqrt(found) if norm == "l2" else np.array(found)

    def change(self, weights: Array, neighbors: Neighbors, norm: Norm) -> Fraction:
        """Bound on the change of all sums, each over its noise, for rows in the set: see `docs/kernel.md`.

        Rows of a person count one by one, unless people are in the set as a whole. Noise of another norm than the set's
        is not proved.
        """
        if norm != self.frame.norm:
            raise NotProvedError(f"rows are in a set of norm {self.frame.norm}: {norm} noise is not proved")
        rows = 1 if self._whole_units else self.schema.rows_per_unit
        power = 2 if norm == "l2" else 1
        shares = [
            _factor(term, neighbors, norm) / (Fraction(term.price) * Fraction(weight) ** power)
            for term, weight in zip(self.terms, weights.tolist(), strict=True)
        ]
        bound = (1 + SLACK) * max(shares)
        return rows * (bound if norm == "l1" else binary(sqrt_above(bound, binary)))

    @cached_property
    def _upper(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        rows, columns = np.triu_indices(self.frame.size)
        return rows, columns

    @property
    def _sizes(self) -> list[int]:
        """How many sums each term has."""
        size = self.frame.size
        return [size * (size + 1) // 2 if one.kind in _SQUARED else self._width(one) for one in self.terms]

    def _width(self, term: Term) -> int:
        """How many integers each row has for a term."""
        return 1 if term.kind in ("number", "mass") else self.frame.size

    def _unit(self, place: int) -> float:
        """Return the number 1 in the whole numbers of a term: a power of two, at which a cut is below 2^19."""
        cut = self.terms[place].cut
        return float(UNIT) if cut is None else float(np.ldexp(1.0, GRID_BITS - frexp(cut)[1]))

    @property
    def _whole_units(self) -> bool:
        """Whether it is the unit as a whole that is forced into the set, not each of its rows."""
        return any(term.cut is not None for term in self.terms)

    # Integers

    def add(self, batch: Batch) -> Ints:
        """Sum what units add (sets, m); see `RowSum.add`.

        Whole numbers are at most 2^19, so that sums of products over a batch of 2^15 rows are exact in float64.
        """
        rows, _ = self.frame.features.encode(batch.cells)
        found = np.zeros((batch.sets, self.entries), dtype=np.int64)
        people = self._whole_units and self.schema.rows_per_unit > 1
        for place, mine in pieces(batch, batch.size if people else BLOCK_ROWS):
            found[place] += self._summed(self.integers(rows[:, mine], owners(batch, mine) if people else None))
        return found

    def integers(self, rows: Array, owned: Ints | None = None) -> list[Array]:
        """Map integer features (d, m) to the whole numbers of each term (k, m), forced into the set.

        A matrix has the vector q of its sum of q q'. Whatever does not fit becomes zero, for all terms of a unit. Where
        ``owned`` (m,) says whose each row is, from 0, units are people, and terms with a cut have one vector for each.
        """
        looked, norm = self.frame.look(rows), self.frame.norm
        found: list[Array] = []
        paid = np.zeros(rows.shape[1] if owned is None else int(owned.max(initial=-1)) + 1)
        for place, term in enumerate(self.terms):
            if term.cut is None:
                whole, mine = whole_numbers(term, looked), owned
            else:
                unit, mine = self._unit(place), None
                steps = np.rint(np.clip(vectors(term, looked) * unit, -_FARTHEST, _FARTHEST))  # sums are exact
                whole = shortened(steps if owned is None else by_person(steps, owned), term.cut * unit, norm)
            found.append(whole)
            paid += term.price * _size(term, whole, norm, self._unit(place), mine)
        dropped = ~(paid <= _KEPT)
        for one, term in zip(found, self.terms, strict=True):
            np.copyto(one, 0.0, where=dropped if owned is None or term.cut is not None else dropped[owned])
        return found

    def _summed(self, integers: list[Array]) -> Ints:
        """Sum over rows; np.dot, unlike the operator @, lets other threads run meanwhile."""
        sums = [
            _products(one)[self._upper] if term.kind in _SQUARED else one.sum(axis=1)
            for term, one in zip(self.terms, integers, strict=True)
        ]
        return np.concatenate(sums).astype(np.int64)


def _products(whole: Array) -> Array:
    """Sum the products of whole numbers (k, m) over rows: exact in any order."""
    found = np.zeros((len(whole), len(whole)))
    for mine in columns_at_once(found.size, whole.shape[1]):
        rows = whole[:, mine]
        found += np.dot(rows, rows.T)
    return found


def _factor(term: Term, neighbors: Neighbors, norm: Norm) -> int:
    """Return by how much a pair of rows may be farther apart than one row is from nothing, squared for Euclidean norms.

    Matrices and masses of two rows have no negative inner product.
    """
    if neighbors == "add_remove":
        return 1
    return 4 if norm == "l2" and term.kind in ("vector", "number") else 2


def _amounts(term: Term, looked: Looked) -> Array:
    """Return u - center (m,) of rows."""
    number: Array = looked.labels[term.place] if term.of == "label" else getattr(looked, term.of)
    amount = number.copy() if term.curve is None else term.curve(number)
    if term.center is not None:
        amount -= term.center(looked.linear)
    return amount


def vectors(term: Term, looked: Looked) -> Array:
    """Return what rows add to a vector that is cut (k, m): a function of each row alone, to the last bit."""
    amount = _amounts(term, looked)
    weight = looked.weight if term.weighed else looked.mass
    np.copyto(amount, 0.0, where=weight == 0.0)
    amount *= weight
    return looked.z * amount


def shortened(steps: Array, cut: float, norm: Norm) -> Array:
    """Shorten vectors of whole steps (k, m) to a length, and round them to whole steps again."""
    return _rounded(steps * np.minimum(cut / np.maximum(lengths(steps, norm), 1.0), 1.0))


def whole_numbers(term: Term, looked: Looked) -> Array:
    """Return the whole numbers (k, m) of a term without a cut, in [-UNIT, UNIT]."""
    amount = _amounts(term, looked)
    if term.kind in ("matrix", "mass"):
        np.maximum(amount, 0.0, out=amount)
    if term.kind in ("number", "mass"):
        for _ in range(term.power):
            amount *= looked.mass
        np.copyto(amount, 0.0, where=looked.weight == 0.0)
        return _rounded(amount[None] * UNIT)
    if term.kind == "matrix":
        amount *= looked.weight
        return _rounded(looked.z * (np.sqrt(amount) * UNIT))
    amount *= looked.weight * UNIT
    return _rounded(looked.z * (amount if looked.lift is None else amount * looked.lift))


def _rounded(exact: Array) -> Array:
    """Round to whole numbers in [-UNIT, UNIT], in place; NaN stays, at a size that nobody can pay."""
    np.clip(exact, -UNIT, UNIT, out=exact)
    return np.rint(exact, out=exact)


def _size(term: Term, whole: Array, norm: Norm, unit: float, owned: Ints | None) -> Array:
    """Return the size (n,) that a term's price is for, in units of 1.

    Of people whose rows are given it is the size of what these add up to; of a sum of products, what theirs add up to.
    """
    people = owned if term.kind in _SQUARED else None
    if owned is not None and people is None:
        whole = by_person(whole, owned)
        squared = _squares(whole)
    else:
        squared = np.einsum("km,km->m", whole, whole)  # below 2^53: exact in any order
    squared /= unit**2
    if norm == "l1":
        absolute: Array = np.abs(whole).sum(axis=0) / unit
        size = (absolute * absolute + squared) / 2 if term.kind in _SQUARED else absolute
        return size if people is None else np.bincount(people, size).astype(np.float64)
    if people is not None:
        squared = np.bincount(people, squared).astype(np.float64)
    return squared * squared if term.kind in _SQUARED else squared


def _squares(whole: Array) -> Array:
    """Sum squares of columns, coordinate after coordinate."""
    found = np.zeros(whole.shape[1])
    for one in whole:
        found += one * one
    return found


def lengths(whole: Array, norm: Norm = "l2") -> Array:
    """Return the length (m,) of each column (k, m), coordinate after coordinate: there is one order of addition."""
    if norm == "l2":
        return np.sqrt(_squares(whole))
    found = np.zeros(whole.shape[1])
    for one in whole:
        found += np.abs(one)
    return found


def by_person(whole: Array, owned: Ints) -> Array:
    """Sum the whole numbers of rows (k, m) over each person's (k, n), exactly."""
    return np.stack([np.bincount(owned, one) for one in whole])


def owners(batch: Batch, mine: slice) -> Ints:
    """Return whose each of some rows is (m,), 0, 1, ...: all rows of a person are there, or each is another's."""
    if batch.persons is None:
        return np.arange(mine.stop - mine.start)
    found: Ints = np.unique(batch.persons[mine], return_inverse=True)[1]
    return found


def pieces(batch: Batch, most: int) -> Iterator[tuple[int, slice]]:
    """Yield slices of at most so many rows of each data set of a batch."""
    each = batch.size // batch.sets
    for place in range(batch.sets):
        for start in range(place * each, (place + 1) * each, most):
            yield place, slice(start, min(start + most, (place + 1) * each))

"""Bounded features on an integer grid: what rows are mapped to before anything is summed.

A feature block is a bounded numeric expression, or an expression times the codes of one or more categorical columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.privacy.sensitivity import RowBounds
from dpinfer.schema.nodes import Expression, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]
    Places = NDArray[np.intp]

GRID_BITS = 19
"""Features are multiples of ``2**-GRID_BITS`` in [-1, 1]."""

UNIT = 2**GRID_BITS
"""The number 1 on the grid."""


@lru_cache(maxsize=4)
def upper_triangle(width: int) -> tuple[Places, Places]:
    """Return the places of the upper triangle of a square matrix, row by row: of bytes, which nobody can write to."""
    row, column = (np.frombuffer(one.tobytes(), dtype=np.intp) for one in np.triu_indices(width))
    return row, column


_FEW, _MANY = 8, 2**13
"""Among fewer cuts, or for fewer numbers, a search is as fast as anything."""


class Cuts:
    """Increasing numbers (k,): `at_or_below` says how many of them each of other numbers is not below."""

    def __init__(self, values: Array) -> None:
        self._values = values

    @cached_property
    def _cells(self) -> Callable[[Array], Places] | None:
        """What puts numbers into cells, no number into a higher one than a number above it; None where none serves.

        `_only` is then the one cut in each cell, and `_below` how many cuts are in lower ones.
        """
        values = self._values
        if len(values) < _FEW:
            return None
        with np.errstate(all="ignore"):
            scale = float(2 * len(values) / (values[-1] - values[0]))
            about = (partial(self._octaves, about=values[place]) for place in (len(values) // 2, 0))
            for cells in (partial(self._even, scale=scale), *about) if np.isfinite(scale) else ():
                held = cells(values)
                if (np.diff(held) > 0).all():
                    self._only = np.full(held[-1] + 1, np.inf)
                    self._only[held] = values
                    self._below = np.searchsorted(held, np.arange(held[-1] + 1))
                    return cells
        return None

    def at_or_below(self, numbers: Array) -> Places:
        """Count the cuts at or below each number (m,), all of them finite: a whole number from 0 to k.

        Only the cut in a number's own cell needs a look; where one cell has several cuts there is a search.
        """
        if len(numbers) < _MANY or self._cells is None:
            found: Places = self._values.searchsorted(numbers, side="right")
            return found
        with np.errstate(all="ignore"):  # what overflows is in an outer cell
            cell = self._cells(numbers)
        found = self._below.take(cell, mode="clip")
        found += numbers >= self._only.take(cell, mode="clip")
        return found

    def _even(self, numbers: Array, scale: float) -> Places:
        """Cells of equal width from the first cut to the last: each step to them keeps the order."""
        place: Array = numbers - self._values[0]
        place *= scale
        np.clip(place, 0.0, 2.0 * len(self._values), out=place)
        return place.astype(np.intp)

    def _octaves(self, numbers: Array, about: float) -> Places:
        """Half octaves to both sides of a number: sign, exponent and first bit of the difference from it.

        A difference is rounded, and the leading bits of a float, those of a negative one reversed, are cut off: neither
        puts a number before one that is not below it.
        """
        low, high = _leading(self._values[[0, -1]] - about).tolist()
        place = _leading(numbers - about)
        np.clip(place, low, high, out=place)
        place -= low
        return place


def _leading(numbers: Array) -> Places:
    """Return sign, exponent and first bit of each number, which is overwritten, as one whole number in their order."""
    numbers += 0.0  # the zeros are one number
    bits = numbers.view(np.int64)
    bits ^= (bits >> 63) & np.int64(2**63 - 1)
    bits >>= 51
    return bits


@dataclass(frozen=True, eq=False)
class Block:
    """Features that share a numeric part and a set of factors.

    The numeric part, the constant 1 for pure factors and the intercept, enters as ``(value - center) / half``, in [-1,
    1]. ``codes`` hold a row of features for each combination of levels, of which ``shape`` tells the numbers;
    ``[[UNIT]]`` without factors.
    """

    expression: Expression
    factors: tuple[str, ...]
    center: float
    half: float
    codes: NDArray[np.int64]
    shape: tuple[int, ...]

    @cached_property
    def width(self) -> int:
        """Number of features."""
        return int(self.codes.shape[1])

    @cached_property
    def constant(self) -> bool:
        """Whether the numeric part is the constant 1."""
        return self.expression.constant is not None

    @cached_property
    def clamps(self) -> bool:
        """Whether to cut the scaled number at -1 and 1 is to clamp it to its bounds: not where zero is kept."""
        ends = np.rint((np.array([self.expression.lower, self.expression.upper]) - self.center) * (UNIT / self.half))
        return not self.factors and bool(ends[0] <= -UNIT and ends[1] >= UNIT)

    @cached_property
    def squared(self) -> int:
        """Bound on the squared norm of the block's integer features."""
        return int(np.square(self.codes).sum(axis=1).max())  # at most 2^38 each: exact

    @cached_property
    def absolute(self) -> int:
        """Bound on the sum of absolute values of the block's integer features."""
        return int(np.abs(self.codes).sum(axis=1).max())

    @property
    def products(self) -> frozenset[int] | None:
        """Inner products that two rows at the ends of their range can have; None where not enumerated."""
        if not self.factors:
            whole = UNIT * UNIT
            return frozenset({whole} if self.constant else {whole, -whole})
        if not self.constant or self.codes.shape[0] > 64:
            return None
        table = self.codes.astype(object)
        return frozenset(int(entry) for entry in (table @ table.T).ravel())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the features."""
        label = ":".join(([] if self.constant else [self.expression.text]) + list(self.factors)) or "1"
        return (label,) if self.width == 1 else tuple(f"{label}[{index}]" for index in range(1, self.width + 1))

    def encode(self, values: Mapping[str, Array], levels: Mapping[str, NDArray[np.intp]], out: Array) -> None:
        """Write the block's integer features of a batch, whole numbers in [-UNIT, UNIT], to ``out`` (width, m).

        Values are coerced and clamped. Rounding a multiple ``u c`` of a whole number c, with ``abs(u) <= 1``, never
        exceeds ``abs(c)``: the norm of the block's row is at most that of its code.
        """
        if self.factors:
            index = np.ravel_multi_index([levels[name] for name in self.factors], self.shape)
            np.take(self.codes.T.astype(np.float64), index, axis=1, out=out, mode="clip")
            if not self.constant:
                part = self.expression.evaluate(values) - self.center
                part /= self.half
                np.fmin(np.fmax(part, -1.0, out=part), 1.0, out=part)  # NaN, too, comes to lie in the box
                np.multiply(out, part, out=out)
                np.rint(out, out=out)
            return
        if self.constant:
            out[0] = UNIT
            return
        self.to_grid(self.expression.evaluate(values), out[0])

    def to_grid(self, value: Array, out: Array) -> None:
        """Scale, clamp and round the numeric part: ``out`` (m,) receives whole numbers in [-UNIT, UNIT]."""
        moved = np.subtract(value, self.center, out=out) if self.center else value
        np.multiply(moved, UNIT / self.half, out=out)
        np.fmin(np.fmax(out, -float(UNIT), out=out), float(UNIT), out=out)  # NaN, too, comes to lie in the box
        np.rint(out, out=out)


@dataclass(frozen=True, eq=False)
class Curve:
    """Features that share columns, in a box for each piece of the range of their column; one box if there are several.

    The k features at ``places`` have ``lower`` and ``upper`` (k, P) on the pieces between ``edges`` (P + 1,), whole
    steps of the grid in units of the scaled features.
    """

    column: str | None
    places: tuple[int, ...]
    edges: Array
    lower: Array
    upper: Array

    @property
    def binds(self) -> bool:
        """Whether it is a smaller set than what every feature is clipped to in any case."""
        return bool((self.lower > -1).any() or (self.upper < 1).any())

    @cached_property
    def _inner(self) -> Cuts:
        return Cuts(self.edges[1:-1])

    def force(self, values: Mapping[str, Array], rows: Array) -> None:
        """Clip the features of each row, in place, to the box of the piece that the row's value is in.

        Values are clamped to the bounds of the column: what was beyond them is in an outer piece.
        """
        piece = np.zeros(1, dtype=np.intp) if self.column is None else self._inner.at_or_below(values[self.column])
        end = np.empty(len(piece))
        # Pieces are places of the tables, so that nothing wraps: the mode is the quickest.
        for place, low, high in zip(self.places, self.lower * UNIT, self.upper * UNIT, strict=True):
            np.maximum(rows[place], low.take(piece, out=end, mode="wrap"), out=rows[place])
            np.minimum(rows[place], high.take(piece, out=end, mode="wrap"), out=rows[place])


@dataclass(frozen=True, eq=False)
class Basis:
    """The features measured together, the constant 1 first; and boxes along curves for groups of numeric ones."""

    schema: Schema
    blocks: tuple[Block, ...]
    curves: tuple[Curve, ...] = ()

    @cached_property
    def width(self) -> int:
        """Number of features d."""
        return sum(block.width for block in self.blocks)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(name for block in self.blocks for name in block.names)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Columns of the schema that the features read, sorted."""
        used = {name for block in self.blocks for name in (*block.expression.columns, *block.factors)}
        return tuple(sorted(used))

    @cached_property
    def factors(self) -> tuple[str, ...]:
        """Columns used as factors, sorted."""
        return tuple(sorted({name for block in self.blocks for name in block.factors}))

    @cached_property
    def bounds(self) -> RowBounds:
        """Bounds on an integer row of features."""
        return RowBounds(
            squared=sum(block.squared for block in self.blocks),
            absolute=sum(block.absolute for block in self.blocks),
            least_product=self._least_product(),
            box=self.width if all(block.width == 1 for block in self.blocks) else 0,
            side=UNIT,
        )

    def _least_product(self) -> int:
        """Smallest ``abs(z'w)`` over pairs of extreme rows, 0 where it is not enumerated.

        The squared Frobenius norm of ``z z' - w w'`` is convex in every single numeric feature of z or w
        when the constant feature is there, so it is largest where all of them are -1 or 1.
        """
        sums = {0}
        for block in self.blocks:
            choices = block.products
            if choices is None or len(sums) * len(choices) > 100_000:
                return 0
            sums = {total + choice for total in sums for choice in choices}
        return min(abs(total) for total in sums)


def groups_of(blocks: Sequence[Block]) -> list[tuple[int, ...]]:
    """Places of the features that are connected by shared columns."""
    groups: list[tuple[set[str], list[int]]] = []
    for place, block in enumerate(blocks):
        columns, members = set(block.expression.columns), [place]
        for other in [one for one in groups if one[0] & columns]:
            columns |= other[0]
            members = [*other[1], *members]
            groups.remove(other)
        groups.append((columns, members))
    return [tuple(members) for _, members in groups]


def widened(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Bounds after features are rounded to the grid and clipped to [-1, 1]: the next whole steps outward.

    To round a number to the nearest whole step never takes it past a whole step that bounds it. A bound that is 0
    stays 0: a feature that is never above (or below) 0 is none after scaling and rounding either.
    """
    slack = 1e-6  # of a grid step: scaling here and in `Block.to_grid` differs by less than 1e-9 of one
    low = np.where(lower == 0, 0.0, np.floor(lower * UNIT - slack) / UNIT)
    high = np.where(upper == 0, 0.0, np.ceil(upper * UNIT + slack) / UNIT)
    return np.clip(low, -1.0, 1.0), np.clip(high, -1.0, 1.0)


def constant_basis(schema: Schema) -> Basis:
    """Return the constant 1 alone, for rows that are only counted."""
    one = Expression("1", (), 1.0, 1.0, True, {(): 1.0}, frozenset(), Node("constant", value=1.0))
    return Basis(schema, (Block(one, (), 0.0, 1.0, np.array([[UNIT]], dtype=np.int64), ()),))

"""Cross-products of integer features, which regressions are read from; and the bootstrap's sums under weights."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from dpinfer.errors import NotProvedError, OptionError
from dpinfer.kernel.rows.base import CHUNK_ROWS, Array, Batch, Cells, Flags, Ints, Places
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features, FeatureSum
from dpinfer.privacy.sensitivity import Norm, RowBounds, gram_sensitivity
from dpinfer.schema.grid import UNIT, upper_triangle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.privacy.units import Neighbors


HALF = float(np.sqrt(0.5))
"""Noise of an off-diagonal product over that of a diagonal one; this float is above the true root, the safe side."""

_scratch = threading.local()


def upper_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return what the products in an upper triangle are called."""
    return tuple(f"{names[i]} * {names[j]}" for i, j in zip(*upper_triangle(len(names)), strict=True))


def upper_pattern(width: int, norm: Norm) -> Array:
    """Noise of the products: off the diagonal less under Gaussian noise, for they count twice in the Frobenius norm."""
    row, column = upper_triangle(width)
    return np.where(row == column, 1.0, HALF) if norm == "l2" else np.ones(len(row))


@dataclass(frozen=True, eq=False)
class GramSum(FeatureSum):
    """The upper triangle, row by row, of the sum of z z' over rows; and on request the number of clamped rows.

    The constant is the first feature. With ``split`` X'X, X'y and y'y are parts of their own, y being the last.
    """

    features: Features
    split: bool = False

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each sum is."""
        return (*upper_names(self.features.basis.names), *(["clamped rows"] if self.features.count_clamped else []))

    @property
    def units(self) -> Array:
        """The number 1 in each integer sum (m,)."""
        return np.full(len(self.names), float(UNIT) ** 2)

    # Bounds

    @property
    def parts(self) -> tuple[str, ...]:
        """Parts that can have shares of the price."""
        pieces = ("X'X", "X'y", "y'y") if self.split else ("products",)
        return (*pieces, *(["clamped rows"] if self.features.count_clamped else []))

    @property
    def part_of(self) -> Places:
        """Which part each sum is in (m,)."""
        row, column = upper_triangle(self.features.basis.width)
        last = self.features.basis.width - 1
        piece = np.where(column == last, np.where(row == last, 2, 1), 0) if self.split else np.zeros_like(row)
        return np.append(piece, np.full(int(self.features.count_clamped), len(self.parts) - 1))

    def pattern(self, norm: Norm) -> Array:
        """Off the diagonal products have less noise under Gaussian noise: they count twice in the Frobenius norm."""
        return np.append(upper_pattern(self.features.basis.width, norm), [1.0] * self.features.count_clamped)

    def public(self, neighbors: Neighbors) -> Flags:
        """Under replace_one the number of rows is public, where no row can be zero."""
        found = np.zeros(len(self.names), dtype=bool)
        found[0] = neighbors == "replace_one" and self.keeps_every_row
        return found

    def part_changes(self, neighbors: Neighbors, norm: Norm) -> tuple[Fraction, ...]:
        """Bound on the change of each part alone: see `gram_sensitivity` and `docs/kernel.md`.

        A split is proved for one numeric response measured last: y is one feature in [-UNIT, UNIT].
        """
        bounds = self.features.bounds
        marks = [Fraction(bounds.rows * UNIT * UNIT)] if self.features.count_clamped else []
        if not self.split:
            return (gram_sensitivity(bounds, neighbors=neighbors, norm=norm), *marks)
        response = self.features.basis.blocks[-1]
        if response.factors or response.width != 1:
            raise NotProvedError("split= is proved for one numeric response measured last")
        less, box = UNIT * UNIT, max(bounds.box - 1, 0)
        regressors = RowBounds(bounds.squared - less, bounds.absolute - UNIT, box=box, side=UNIT, rows=bounds.rows)
        products = gram_sensitivity(regressors, neighbors=neighbors, norm=norm)
        twice = 1 if neighbors == "add_remove" else 2
        cross = Fraction(twice * regressors.absolute * UNIT)
        if norm == "l2":
            cross = Fraction(isqrt(2 * twice**2 * regressors.squared * UNIT * UNIT) + 1)
        return products, bounds.rows * cross, Fraction(bounds.rows * UNIT * UNIT), *marks

    # Integers

    def add(self, batch: Batch) -> Ints:
        """Sum the products (sets, m); see `RowSum.add`.

        Entries of a row are whole numbers of at most 2^19, so that each partial sum of the product of at most 2^15 rows
        is a whole number of at most 2^53, exact in float64 in any order of addition.
        """
        width, each = self.features.basis.width, batch.size // batch.sets
        room, upper = width * max(batch.size, CHUNK_ROWS), upper_triangle(width)
        if getattr(_scratch, "size", 0) < room:  # kept by each thread: new memory would cost more than the product
            _scratch.rows, _scratch.size = np.empty(room), room
        buffer: Array = _scratch.rows[: width * batch.size].reshape(width, batch.size)
        found = np.zeros((batch.sets, len(self.names)), dtype=np.int64)
        try:
            encoded, clamped = self.features.encode(batch.cells, buffer)
            for place in range(batch.sets):
                mine = slice(place * each, (place + 1) * each)
                # np.dot, unlike the operator @, lets other threads run meanwhile.
                found[place, : len(upper[0])] = np.dot(encoded[:, mine], encoded[:, mine].T)[upper]
                if self.features.count_clamped:
                    found[place, -1] = int(clamped[mine].sum()) * UNIT * UNIT
        finally:
            buffer.fill(0.0)  # the thread keeps the room, and no row in it
        return found


Resampling = Literal["double_or_nothing", "poisson", "public", "paired"]


@dataclass(frozen=True, eq=False)
class ReplicateSum(FeatureSum):
    """Maps each row to integer features, or to the upper triangle of their products, which B sums weigh anew.

    A row counts in a sum secretly 0 or 2 times; secretly as a cut Poisson; or 2 times in one and 0 times in the other
    of each pair of sums: "public" by position and ``seed``, "paired" in secret.
    """

    features: Features
    products: bool
    replicates: int
    weights: Resampling
    seed: int = 0

    @cached_property
    def width(self) -> int:
        """Number d of integers that a row becomes."""
        own = self.features.basis.width
        return own * (own + 1) // 2 if self.products else own

    @property
    def unit(self) -> int:
        """The number 1 in the integer sums."""
        return int(UNIT * UNIT) if self.products else UNIT

    @property
    def in_pairs(self) -> bool:
        """Whether a row counts in one sum of each pair: squares of its weights then add up to twice the replicates."""
        return self.weights in ("public", "paired")

    @property
    def units(self) -> Array:
        """The number 1 in each integer sum (B d,)."""
        return np.full(self.replicates * self.width, float(self.unit))

    # Bounds

    def check(self) -> None:
        """Refuse what is no number of sums, or no law of weights."""
        (self.features.check if self.products else self.features.check_plain)()
        if type(self.replicates) is not int or self.replicates < 1 or (self.in_pairs and self.replicates % 2):
            raise OptionError("replicates", self.replicates, "a positive whole number, even where weights are in pairs")
        if self.weights not in get_args(Resampling):
            raise OptionError("weights", self.weights, get_args(Resampling))

    @cached_property
    def _plain(self) -> CellSum:
        return CellSum(self.features)

    def pattern(self, norm: Norm) -> Array:  # noqa: ARG002  (Gaussian noise only)
        """Noise of each sum relative to the others (B d,): off-diagonal products have less."""
        one = upper_pattern(self.features.basis.width, "l2") if self.products else np.ones(self.width)
        return np.tile(one, self.replicates)

    def public(self, neighbors: Neighbors) -> Flags:
        """Under replace_one the sums of the constant hold the public number of rows, where no row can be zero."""
        found = np.zeros((self.replicates, self.width), dtype=bool)
        found[:, 0] = neighbors == "replace_one" and self.keeps_every_row
        return found.ravel()

    def change(self, weights: Array, neighbors: Neighbors, norm: Norm) -> Fraction:  # noqa: ARG002  (one part)
        """Bound on what one unit adds to the sums at weight 1, or by which replacing it moves them, in L2."""
        if norm != "l2":
            raise NotProvedError("sums under random weights are proved for Gaussian noise")
        if self.products:
            return gram_sensitivity(self.features.bounds, neighbors=neighbors, norm="l2")
        plain = self._plain  # whose unit is 1 where nothing but rows is counted; here it is that of the grid
        return plain.change(np.ones(self.width), neighbors, "l2") * (self.unit // plain.unit)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What each of the d integers is."""
        names = self.features.basis.names
        return upper_names(names) if self.products else names

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each sum is, replicate by replicate."""
        return tuple(f"{label} | replicate {b}" for b in range(1, self.replicates + 1) for label in self.labels)

    def encode(self, raw: Mapping[str, Cells]) -> Array:
        """Map a batch of m rows to whole numbers (d, m), zero for rows that do not count."""
        curves = () if self.products else self._plain.boxes.binding
        rows = self.features.encode(raw, curves=curves)[0]
        if not self.products:
            return rows
        first, second = upper_triangle(len(rows))
        products: Array = rows[first] * rows[second]
        return products

    def add(self, batch: Batch) -> Ints:
        """Sum under weights of 1: what one replicate is without resampling."""
        added: Ints = self.encode(batch.cells).sum(axis=1)[None].astype(np.int64)
        return added

"""The sums of the bootstrap: one integer vector a row, summed B times under random weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from dpinfer.errors import NotProvedError, OptionError
from dpinfer.kernel.rows.base import Batch, RowSum
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.products import HALF
from dpinfer.privacy.sensitivity import gram_sensitivity
from dpinfer.schema.grid import UNIT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from numpy.typing import NDArray

    from dpinfer.kernel.rows.features import Features
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.privacy.units import Neighbors
    from dpinfer.schema.cells import Coded
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["ReplicateSum", "Resampling"]

Resampling = Literal["double_or_nothing", "poisson", "public", "paired"]


@dataclass(frozen=True, eq=False)
class ReplicateSum(RowSum):
    """Maps each row to integer features, or to the upper triangle of their products, which B sums weigh anew.

    A row counts in a sum secretly 0 or 2 times; secretly as a cut Poisson; or 2 times in one and 0 times in the other
    of each pair of sums: "public" by position and ``seed``, "paired" in secret.
    """

    features: Features
    products: bool
    replicates: int
    weights: Resampling
    seed: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        return self.features.columns

    @property
    def schema(self) -> Schema:
        """The schema of the columns."""
        return self.features.schema

    @property
    def keeps_every_row(self) -> bool:
        """Whether declared policies make a zero row impossible."""
        return self.features.keeps_every_row

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
        if type(self.replicates) is not int or self.replicates < 1 or (self.in_pairs and self.replicates % 2):
            raise OptionError("replicates", self.replicates, "a positive whole number, even where weights are in pairs")
        if self.weights not in get_args(Resampling):
            raise OptionError("weights", self.weights, get_args(Resampling))

    @cached_property
    def _plain(self) -> CellSum:
        return CellSum(self.features)

    def pattern(self, norm: Norm) -> Array:  # noqa: ARG002  (Gaussian noise only)
        """Noise of each sum relative to the others (B d,): off-diagonal products have less."""
        one = np.ones(self.width)
        if self.products:
            first, second = np.triu_indices(self.features.basis.width)
            one = np.where(first == second, 1.0, HALF)
        return np.tile(one, self.replicates)

    def public(self, neighbors: Neighbors) -> NDArray[np.bool_]:
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
        if not self.products:
            return names
        return tuple(f"{names[i]} * {names[j]}" for i, j in zip(*np.triu_indices(len(names)), strict=True))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each sum is, replicate by replicate."""
        return tuple(f"{label} | replicate {b}" for b in range(1, self.replicates + 1) for label in self.labels)

    def encode(self, raw: Mapping[str, NDArray[Any] | Coded]) -> Array:
        """Map a batch of m rows to whole numbers (d, m), zero for rows that do not count."""
        curves = () if self.products else self._plain.boxes.binding
        rows = self.features.encode(raw, curves=curves)[0]
        if not self.products:
            return rows
        first, second = np.triu_indices(len(rows))
        result: Array = rows[first] * rows[second]
        return result

    def add(self, batch: Batch) -> Ints:
        """Sum under weights of 1: what one replicate is without resampling."""
        added: Ints = self.encode(batch.cells).sum(axis=1)[None].astype(np.int64)
        return added

"""The row function of the bootstrap: one integer vector a row, summed B times under random weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpinfer.schema.basis import UNIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpinfer.schema.cells import Coded
    from dpinfer.schema.rows import RowFunction
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["ReplicateRows", "Resampling"]

Resampling = Literal["double_or_nothing", "poisson", "public"]


@dataclass(frozen=True, eq=False)
class ReplicateRows:
    """Maps each row to integer features, or to their products, which B sums weigh anew.

    Attributes
    ----------
    features : RowFunction
        The constant first.
    products : bool
        Whether the upper triangle of the features' cross-products is summed, rather than the features.
    replicates : int
        Number B of sums.
    weights : {"double_or_nothing", "poisson", "public"}
        How often a row counts in a sum: secretly 0 or 2 times; secretly as a cut Poisson; or, publicly and by
        position, 2 times in one and 0 times in the other of each pair of sums.
    seed : int
        Of public weights.
    """

    features: RowFunction
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
        rows = self.features.encode(raw)[0]
        if not self.products:
            return rows
        first, second = np.triu_indices(len(rows))
        result: Array = rows[first] * rows[second]
        return result

"""Sums over people: what the rows of each person in a cell add up to, and its products."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.reach import Reach, feature_box
from dpinfer.schema.grid import UNIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpinfer.kernel.rows.base import Batch
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.schema.cells import Coded

    Array = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["PersonSum"]

_MARGIN = 1 + 1e-9
"""More than the rounding errors of sums of up to a million terms."""


@dataclass(frozen=True, eq=False)
class PersonSum(CellSum):
    """Sums the features of each person's rows in a cell, and the products of these sums, over people.

    A person with n of at most m rows in a cell counts there as one row of weight w = n/m with the mean u of the
    features of these rows: what is summed is w u, and for standard errors all products (w u_i) (w u_j). All weights of
    a person add up to at most 1.
    """

    @property
    def most(self) -> int:
        """Rows m that a person has at most."""
        return self.schema.rows_per_unit

    @property
    def _linear(self) -> int:
        """Number of features that are summed, without their products."""
        return self.features.basis.width - (not self.counted)

    @property
    def _pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        first, second = np.triu_indices(self._linear)
        return first, second

    @property
    def width(self) -> int:
        """Number of sums in every cell: of features, then of products."""
        return self._linear + len(self._pairs[0])

    @property
    def unit(self) -> int:
        """The number 1 in the integer sums: a person with all rows at the bound."""
        return int(UNIT * self.most)

    @property
    def summed(self) -> tuple[str, ...]:
        """What is summed in every cell."""
        names = super().summed
        products = (f"({names[i]}) * ({names[j]}) by person" for i, j in zip(*self._pairs, strict=True))
        return (*(f"{name} by person" for name in names), *products)

    def add(self, batch: Batch) -> Ints:
        """Sum over the people of a batch of whole people (sets, G d); see `RowSum.add`."""
        if batch.persons is None:  # each row a person's only one
            return super().add(batch)
        cells, summed = self.encode_people(batch.cells, batch.persons)
        totals = [np.bincount(cells, weights=one, minlength=self.size) for one in summed]
        return np.stack(totals, axis=1).ravel()[None].astype(np.int64)

    @property
    def most_added(self) -> int:
        """Bound on the sums of a batch: a person's sums are at most m 2^19, those of 2^15 rows below 2^46."""
        return 2**46

    def encode_people(
        self, raw: Mapping[str, NDArray[Any] | Coded], persons: NDArray[np.int64]
    ) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Map a batch of the rows of whole people, of which ``persons`` says whose each is.

        The sums (width, q) are those of each person in each cell where they have rows, with products cut toward zero.
        """
        placed, rows = CellSum.encode(self, raw, len(persons))
        assert rows is not None
        inside = placed < self.size
        keys, where = np.unique(persons[inside] * self.size + placed[inside], return_inverse=True)
        linear = np.stack([np.bincount(where, row[inside], minlength=len(keys)) for row in rows]).astype(np.int64)
        return (keys % self.size).astype(np.intp), self._with_products(linear)

    def encode(self, raw: Mapping[str, NDArray[Any] | Coded], count: int) -> tuple[NDArray[np.intp], Array | None]:
        """Map a batch as if each row were all that a person has; see `CellSum.encode`."""
        placed, rows = CellSum.encode(self, raw, count)
        assert rows is not None
        return placed, self._with_products(rows.astype(np.int64)).astype(np.float64)

    def _with_products(self, linear: NDArray[np.int64]) -> NDArray[np.int64]:
        first, second = self._pairs
        both = linear[first] * linear[second]
        return np.concatenate([linear, np.sign(both) * (np.abs(both) // self.unit)])

    @cached_property
    def _box(self) -> tuple[Array, Array]:
        """Lower and upper bound of each feature (d,), and of all the boxes that a row's features are forced into."""
        low, high = feature_box(self.features.basis)
        for curve in self.boxes.curves:
            places = list(curve.places)
            low[places] = np.minimum(low[places], curve.lower.min(axis=1))
            high[places] = np.maximum(high[places], curve.upper.max(axis=1))
        return low, high

    def _reach(self, weights: Array, norm: Norm) -> tuple[Reach, int]:
        """Bound a person's sums in one cell, and how far they are from another's there, each sum over its weight.

        Of a person with weight w the sums lie in w A, A the box of features (the first of them 1) and products. Weights
        add up to at most 1 over cells, so that the stacked sums lie in the convex hull of A in one cell and of zero:
        see `docs/people.md`.
        """
        low, high = self._box
        low, high = low[not self.counted :], high[not self.counted :]
        first, second = self._pairs
        ends = np.stack([low[first] * low[second], low[first] * high[second], high[first] * low[second],
                         high[first] * high[second]])  # fmt: skip
        least = np.where(first == second, 0.0, np.minimum(ends.min(axis=0), 0.0))
        lower, upper = np.concatenate([low, least]), np.concatenate([high, np.maximum(ends.max(axis=0), 0.0)])
        scale, power = np.asarray(weights, dtype=np.float64), 2 if norm == "l2" else 1
        longest = ((np.maximum(np.abs(lower), np.abs(upper)) / scale) ** power).sum() ** (1 / power)
        farthest = (((upper - lower) / scale) ** power).sum() ** (1 / power)
        return Reach(float(longest * _MARGIN), float(farthest * _MARGIN)), 1

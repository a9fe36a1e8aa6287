"""What every row sum is: a public question about rows, with the bound that the same code forces on every unit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpinfer.errors import NotProvedError, OptionError, type_of
from dpinfer.privacy.sensitivity import Norm, joint_sensitivity
from dpinfer.schema.cells import Coded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from dpinfer.privacy.units import Neighbors
    from dpinfer.schema.schema import Schema

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Places = NDArray[np.intp]
Flags = NDArray[np.bool_]
Cells = NDArray[Any] | Coded


CHUNK_ROWS = 32_768
"""Rows mapped at once, where a row sum says no more."""

_LARGEST_WEIGHT = 1e100
"""Relative noise is at most this, and at least its inverse."""


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """Some rows, as the kernel hands them to a row sum.

    ``sets`` data sets of equal size stand one after the other, more than one in simulation only. Where ``persons`` says
    whose each row is, a batch holds all rows of each of its people.
    """

    cells: Mapping[str, Cells]
    size: int
    sets: int = 1
    persons: Ints | None = None


@dataclass(frozen=True, eq=False, slots=True)
class BoundedSum:
    """A row sum with its price: the noise scales may be ``scale * weights`` for ``bound / scale`` as a price allows.

    ``bound`` is on the norm of the change of the integer sums between neighbours, each over its weight, and what
    ``rows`` forces every unit into is the set that it is about. No neighbour moves a ``public`` coordinate: only these
    carry no noise.
    """

    rows: RowSum
    bound: Fraction
    weights: Array
    public: Flags


class RowSum(ABC):
    """Bounded integer vectors, one for each unit, that are added up: one of the kernel's own closed set of types.

    A row sum is a frozen value of public settings. Its `add` maps rows to integers and *forces* every unit's
    contribution into a set S, without a branch on rows; its `change` bounds how far neighbours can be apart, from S.
    Sums of at most `batch_rows` rows stay below 2^53 in absolute value, so that no addition rounds them.
    """

    if TYPE_CHECKING:  # fields, or properties, of the row sums

        @property
        def schema(self) -> Schema:
            """The schema of the columns, with the people where they are the unit of protection."""

        @property
        def names(self) -> tuple[str, ...]:
            """What each of the m released sums is."""

        @property
        def columns(self) -> tuple[str, ...]:
            """Columns of the data that are read, sorted."""

        @property
        def keeps_every_row(self) -> bool:
            """Whether declared policies make it impossible that a row adds nothing."""

    @property
    def light(self) -> bool:
        """Whether several threads would wait for the interpreter more than they work."""
        return False

    @property
    def batch_rows(self) -> int:
        """Most rows of a batch: the cross-products of so many integer rows are exact in float64."""
        return CHUNK_ROWS

    def check(self) -> None:  # noqa: B027  (some are right whatever they hold)
        """Refuse, before the price, what would not keep the bound."""

    @property
    def units(self) -> Array:
        """The number 1 in each integer sum (m,)."""
        return np.ones(len(self.names))

    @property
    def priced_by(self) -> tuple[Any, ...] | None:
        """All that a price depends on, beside the type and what is declared of units; None where that is not told."""
        return None

    @property
    def parts(self) -> tuple[str, ...]:
        """Parts that can be given more or less noise than others; every coordinate is in one."""
        return ("sums",)

    @property
    def part_of(self) -> Places:
        """Which part each coordinate is in (m,)."""
        return np.zeros(len(self.names), dtype=np.intp)

    def pattern(self, norm: Norm) -> Array:  # noqa: ARG002
        """Noise of each coordinate relative to others of its part (m,), fixed by the row sum."""
        return np.ones(len(self.names))

    def usual_weights(self, neighbors: Neighbors, norm: Norm) -> Array:  # noqa: ARG002
        """Noise of each part relative to the others where no other is asked for."""
        return np.ones(len(self.parts))

    def change(self, weights: Array, neighbors: Neighbors, norm: Norm) -> Fraction:
        """Bound on the change of the integer sums between neighbours, each over its pattern and its part's weight."""
        return joint_sensitivity(
            list(zip(self.part_changes(neighbors, norm), weights.tolist(), strict=True)), norm=norm
        )

    def part_changes(self, neighbors: Neighbors, norm: Norm) -> tuple[Fraction, ...]:
        """Bound on the change of each part alone, each coordinate over its pattern.

        Raises `NotProvedError` if the parts of this row sum are priced jointly only. A row sum says this, or `change`.
        """
        if len(self.parts) > 1:
            raise NotProvedError(f"shares of the price are not proved for {type(self).__name__}: give weights")
        return (self.change(np.ones(1), neighbors, norm),)

    def public(self, neighbors: Neighbors) -> Flags:  # noqa: ARG002
        """Coordinates that no neighbour moves (m,)."""
        return np.zeros(len(self.names), dtype=bool)

    @property
    def entries(self) -> int:
        """Number k of integers that `add` gives."""
        return len(self.names)

    @abstractmethod
    def add(self, batch: Batch) -> Ints:
        """Map a batch to integers, force each unit's into the set that is priced, and add them up (sets, entries)."""

    def finish_sets(self, totals: Any) -> Any:
        """Turn added-up integers of data sets (R, k) into sums (R, m), by a linear map; by default they are the sums.

        Integers of Python stay exact; in simulation floats are faster.
        """
        return totals

    def finish(self, totals: list[int]) -> list[int]:
        """Turn added-up integers (k,) into the m exact sums."""
        found: list[int] = self.finish_sets(np.array([totals], dtype=object))[0].tolist()
        return found

    def bounded(
        self,
        neighbors: Neighbors,
        norm: Norm,
        *,
        weights: Sequence[float] | None = None,
        shares: Sequence[float] | None = None,
    ) -> BoundedSum:
        """Price what is forced; "l2" is for Gaussian noise, "l1" for Laplace.

        Each part has the noise of its weight relative to the others, by default its usual one; or the weight that its
        share of the price asks for, shares adding up to at most 1.
        """
        count = len(self.parts)
        given = {"weights": weights, "shares": shares}
        asked = {name: _positive(name, one, count) for name, one in given.items() if one is not None}
        relative = np.ones(count)
        if count > 1:  # a part is measured against others: alone its weight would be noise that nobody pays for
            relative = asked["weights"] if "weights" in asked else self.usual_weights(neighbors, norm)
            if "shares" in asked:  # noise in proportion to bound / share (L1) or bound / sqrt(share) (L2); the first 1
                if float(asked["shares"].sum()) > 1 + 1e-12:
                    right = "shares of the price that add up to at most 1"
                    raise OptionError("shares", float(asked["shares"].sum()), right)
                bounds = self.part_changes(neighbors, norm)
                noise = np.array([float(bound / bounds[0]) for bound in bounds])
                noise /= asked["shares"] if norm == "l1" else np.sqrt(asked["shares"])
                relative = _positive("shares", (noise / noise[0]).tolist(), count)
        spread, pattern = relative[self.part_of], self.pattern(norm)
        product = spread * pattern
        exact = (spread == 1) | (pattern == 1)  # else rounded up: a weight below the one divided by is not paid for
        return BoundedSum(
            rows=self,
            bound=self.change(relative, neighbors, norm),
            weights=np.where(exact, product, np.nextafter(product, np.inf)),
            public=self.public(neighbors),
        )


def _positive(name: str, given: Sequence[float], count: int) -> Array:
    """Read weights or shares; refuse what could take noise away."""
    try:
        found = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.zeros(0)
    # Squares of what is divided by a weight neither overflow nor lose digits.
    if found.shape != (count,) or not ((found >= 1 / _LARGEST_WEIGHT) & (found <= _LARGEST_WEIGHT)).all():
        raise OptionError(name, type_of(given), f"{count} positive finite numbers of at most {_LARGEST_WEIGHT:g}")
    return found

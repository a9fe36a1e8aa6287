"""Axes of a table: public partitions of rows into cells, and what each does to a row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpinfer.checks import require
from dpinfer.errors import SchemaError
from dpinfer.schema.columns import Integer
from dpinfer.schema.grid import Cuts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpinfer.schema.nodes import Expression
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

_TABLE_LIMIT = 2**20
"""Whole numbers within bounds up to which the bin of each is looked up."""


@dataclass(frozen=True, eq=False)
class Axis(ABC):
    """A public partition of rows by the value of one column or condition."""

    kind: ClassVar[str] = "column"
    """What its name is: a column, or the text of a condition or of a mirrored expression."""

    schema: Schema
    name: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return (self.name,)

    @property
    @abstractmethod
    def labels(self) -> tuple[Any, ...]:
        """Label of every part, in order."""

    @property
    def size(self) -> int:
        """Number of parts."""
        return len(self.labels)

    @abstractmethod
    def place(self, values: Mapping[str, Array]) -> NDArray[np.intp]:
        """Part of each row (m,), from clamped finite columns; -1 where the row is in none."""

    @property
    def covers(self) -> bool:
        """Whether every clamped value is in some part."""
        return True

    @property
    def lookup(self) -> NDArray[np.intp] | None:
        """Part of each whole number from the lower to the upper bound of its column; None where it is not looked up."""
        return None

    @property
    def cuts(self) -> tuple[float, ...]:
        """Values of its column at which the part changes; none where the parts are no intervals of it."""
        return getattr(self, "edges", ()) if self.kind == "column" else ()

    def in_words(self, place: int) -> str:
        """Return what is true of the rows in a part."""
        return str(self.labels[place])

    def to_dict(self) -> dict[str, Any]:
        """Return the axis as a JSON-ready mapping."""
        edges = getattr(self, "edges", None)
        return {self.kind: self.name} if edges is None else {self.kind: self.name, "edges": list(edges)}


@dataclass(frozen=True, eq=False)
class LevelsAxis(Axis):
    """The levels of a column: a Category, a Boolean, or an Integer of at most a hundred values."""

    def __post_init__(self) -> None:
        if not self.schema[self.name].level_texts:
            raise SchemaError(
                f"{self.name!r} has no levels: groups and tables need a Category, a Boolean or an Integer of at most a "
                "hundred values; a histogram and the chi-squared tests cut a numeric column into bins="
            )

    @property
    def labels(self) -> tuple[Any, ...]:
        """The levels."""
        return self.schema[self.name].level_values

    def place(self, values: Mapping[str, Array]) -> NDArray[np.intp]:
        """See `Axis.place`."""
        return self.schema[self.name].level_index(values[self.name])


@dataclass(frozen=True, eq=False)
class ExpressionAxis(Axis):
    """Parts of an expression of columns."""

    expression: Expression

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return self.expression.columns

    def in_words(self, place: int) -> str:
        """See `Axis.in_words`."""
        return f"{self.name}={self.labels[place]}"


@dataclass(frozen=True, eq=False)
class ConditionAxis(ExpressionAxis):
    """Whether a condition such as ``"age >= 18"`` holds."""

    kind: ClassVar[str] = "condition"

    @property
    def labels(self) -> tuple[Any, ...]:
        """False and True."""
        return (False, True)

    def place(self, values: Mapping[str, Array]) -> NDArray[np.intp]:
        """See `Axis.place`."""
        return (self.expression.evaluate(values) > 0.5).astype(np.intp)


@dataclass(frozen=True, eq=False)
class BinsAxis(Axis):
    """Bins of a numeric column: each holds its lower edge, the last its upper edge too, as in numpy.

    Values are clamped to the declared bounds first; values outside the edges are in no bin.
    """

    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        column = self.schema[self.name]
        if not hasattr(column, "lower"):
            raise SchemaError(f"{self.name!r} is not numeric: bins need a Real or an Integer")
        lower, upper = column.limits
        expected = f"two or more increasing edges within the bounds [{lower:g}, {upper:g}] of {self.name!r}"
        right = _increasing(self.edges) and lower <= self.edges[0] and self.edges[-1] <= upper
        require(right, "bins", self.edges, expected)

    @property
    def cuts(self) -> tuple[float, ...]:
        """See `Axis.cuts`."""
        return self.edges

    def to_dict(self) -> dict[str, Any]:
        """See `Axis.to_dict`."""
        return {"column": self.name, "edges": list(self.edges)}

    @property
    def labels(self) -> tuple[Any, ...]:
        """The bins as text, as pandas writes intervals."""
        ends = [")"] * (self.size - 1) + ["]"]
        bins = zip(self.edges[:-1], self.edges[1:], ends, strict=True)
        return tuple(f"[{low:.10g}, {high:.10g}{end}" for low, high, end in bins)

    @property
    def size(self) -> int:
        """Number of bins: without their labels, which take time to write."""
        return len(self.edges) - 1

    @property
    def covers(self) -> bool:
        """Whether the edges span the bounds."""
        lower, upper = self.schema[self.name].limits
        return self.edges[0] <= lower and self.edges[-1] >= upper

    def place(self, values: Mapping[str, Array]) -> NDArray[np.intp]:
        """See `Axis.place`."""
        return self._places(values[self.name])

    @cached_property
    def _inner(self) -> Cuts:
        return Cuts(np.array(self.edges[1:-1], dtype=np.float64))

    def _places(self, values: Array) -> NDArray[np.intp]:
        place = self._inner.at_or_below(values)
        if not self.covers:
            np.copyto(place, -1, where=(values < self.edges[0]) | (values > self.edges[-1]))
        return place

    @cached_property
    def lookup(self) -> NDArray[np.intp] | None:
        """Bin of each whole number from the lower to the upper bound; None where it is not looked up.

        Nor where some numbers stand for missing cells: what a cell means must not depend on its storage.
        """
        column = self.schema[self.name]
        if not isinstance(column, Integer) or column.missing_codes or column.width >= _TABLE_LIMIT:
            return None
        return self._places(column.lower + np.arange(column.width + 1))


@dataclass(frozen=True, eq=False)
class MirroredAxis(ExpressionAxis):
    """Bins of an expression that mirror each other about zero: a value and its negative are as far from the middle.

    The middle bin holds values closer to zero than the first edge. A bin on either side holds the edge nearer to zero,
    the outermost its other edge too; values beyond it are in no bin.
    """

    kind: ClassVar[str] = "mirrored"

    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        right = _increasing(self.edges) and self.edges[0] > 0
        require(right, "bins", self.edges, "two or more increasing edges above zero")

    @property
    def labels(self) -> tuple[Any, ...]:
        """The bins as text, as pandas writes intervals."""
        pairs = list(zip(self.edges[:-1], self.edges[1:], strict=True))
        last = len(pairs) - 1
        above = [f"[{a:.10g}, {b:.10g}{']' if k == last else ')'}" for k, (a, b) in enumerate(pairs)]
        under = [f"{'[' if k == last else '('}{-b:.10g}, {-a:.10g}]" for k, (a, b) in enumerate(pairs)]
        return (*under[::-1], f"({-self.edges[0]:.10g}, {self.edges[0]:.10g})", *above)

    @property
    def covers(self) -> bool:
        """Whether the outermost edges span the bounds of the expression."""
        return max(-self.expression.lower, self.expression.upper) <= self.edges[-1]

    def place(self, values: Mapping[str, Array]) -> NDArray[np.intp]:
        """See `Axis.place`."""
        found = self.expression.evaluate(values)
        edges = np.asarray(self.edges, dtype=np.float64)
        far, sides = np.abs(found), edges.size - 1
        away = np.minimum(np.searchsorted(edges, far, side="right"), sides).astype(np.intp)
        place = np.where(found < 0, sides - away, sides + away)
        return np.where(far <= edges[-1], place, -1)


def _increasing(given: tuple[float, ...]) -> bool:
    edges = np.asarray(given, dtype=np.float64)
    return bool(edges.ndim == 1 and edges.size > 1 and np.isfinite(edges).all() and (np.diff(edges) > 0).all())

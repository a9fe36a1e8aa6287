"""A compiled expression: the tree that is evaluated, its columns and its bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.schema import nodes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpinfer.schema.nodes import Node
    from dpinfer.schema.polynomials import Monomial

__all__ = ["Expression"]


@dataclass(frozen=True)
class Expression:
    """A bounded elementwise function of a row's cells, for any row within the schema's bounds.

    ``text`` is canonical: the normal form of the syntax tree, written out. ``lower`` and ``upper`` are rounded outward.
    ``boolean`` says whether the value is only ever 0 or 1. In ``polynomial``, the canonical expansion, a monomial is a
    sorted tuple of (leaf, power) pairs, ``()`` for the constant; a leaf is a column's name or the text of a
    subexpression that is no polynomial, and those in ``boolean_leaves`` only take 0 and 1. Two expressions with equal
    polynomials are the same function. ``node`` is the tree that is evaluated.
    """

    text: str
    columns: tuple[str, ...]
    lower: float
    upper: float
    boolean: bool
    polynomial: Mapping[Monomial, float] = field(compare=False, repr=False)
    boolean_leaves: frozenset[str] = field(compare=False, repr=False)
    node: Node = field(compare=False, repr=False)

    @property
    def constant(self) -> float | None:
        """The value, if no column is read."""
        return self.node.value if self.node.operation == "constant" else None

    def evaluate(self, values: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Evaluate on coerced and clamped columns (m,), all finite; categories as indices.

        A value is the same wherever in the arrays its row stands. A constant takes its length from any of the columns
        given, and is of length 1 if there are none. A bare column may come back as the array given: do not write to it.
        """
        result = nodes.evaluate(self.node, values)
        if result.ndim:
            return result
        rows = next((len(column) for column in values.values()), 1)
        return np.full(rows, float(result))

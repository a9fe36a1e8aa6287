"""Trees of elementwise operations, and their evaluation on columns.

A tree is plain data, so it can be pickled, hashed and sent to another process; no text is ever evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Monomial = tuple[tuple[str, int], ...]
    Polynomial = dict[Monomial, float]


@dataclass(frozen=True, slots=True)
class Node:
    """One operation: a constant, a column, a level of a column, or a function of other nodes.

    ``value`` is the constant, the level's index, or the exponent of a "power".
    """

    operation: str
    arguments: tuple[Node, ...] = ()
    name: str = ""
    value: float = 0.0


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "**": np.power,
    "negative": np.negative,
    "and": np.multiply,
    "or": np.maximum,
    "not": lambda a: np.subtract(1.0, a),
    "==": lambda a, b: np.equal(a, b).astype(np.float64),
    "!=": lambda a, b: np.not_equal(a, b).astype(np.float64),
    "<": lambda a, b: np.less(a, b).astype(np.float64),
    "<=": lambda a, b: np.less_equal(a, b).astype(np.float64),
    ">": lambda a, b: np.greater(a, b).astype(np.float64),
    ">=": lambda a, b: np.greater_equal(a, b).astype(np.float64),
}

_OF_NUMPY = ("log", "log1p", "log2", "log10", "exp", "expm1", "sqrt", "abs", "minimum", "maximum")
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in _OF_NUMPY},
    "clip": lambda x, a, b: np.minimum(np.maximum(x, a), b),
}
_OPERATIONS |= FUNCTIONS

ARGUMENTS = (
    dict.fromkeys(("constant", "column", "level"), 0)
    | dict.fromkeys(("power", "negative", "not", "log", "log1p", "log2", "log10", "exp", "expm1", "sqrt", "abs"), 1)
    | dict.fromkeys(("+", "-", "*", "/", "**", "and", "or", "==", "!=", "<", "<=", ">", ">="), 2)
    | {"minimum": 2, "maximum": 2, "clip": 3}
)
"""How many arguments each operation takes: one more would be where numpy writes its result."""


def evaluate(node: Node, values: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """Evaluate a tree on coerced and clamped columns, row by row; without dimensions where no column is read.

    Whole powers are repeated multiplications and the rest is elementwise on contiguous arrays, so that a row's value
    does not depend on where in the arrays the row stands.
    """
    with np.errstate(all="ignore"):
        return np.asarray(_evaluate(node, values), dtype=np.float64)


def _evaluate(node: Node, values: Mapping[str, NDArray[np.float64]]) -> Any:
    if node.operation == "constant":
        return np.float64(node.value)
    if node.operation == "column":
        return np.ascontiguousarray(values[node.name], dtype=np.float64)
    if node.operation == "level":
        return (np.ascontiguousarray(values[node.name]) == node.value).astype(np.float64)
    arguments = [_evaluate(argument, values) for argument in node.arguments]
    if node.operation != "power":
        return _OPERATIONS[node.operation](*arguments)
    # The same multiplications, in the same order, bound the result in dpinfer.schema.intervals.
    base, digits = arguments[0], f"{int(node.value):b}"
    result = base if digits[0] == "1" else np.ones_like(base)
    for digit in digits[1:]:
        result = result * result
        if digit == "1":
            result *= base
    return result


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
        result = evaluate(self.node, values)
        if result.ndim:
            return result
        rows = next((len(column) for column in values.values()), 1)
        return np.full(rows, float(result))

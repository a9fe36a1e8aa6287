"""Bounds of a tree of operations from the bounds of its columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.schema import intervals
from dpinfer.schema.intervals import Interval
from dpinfer.schema.nodes import FUNCTIONS, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["function_interval", "real_power", "tree_bounds"]

_FLOOR = {"exp": 0.0, "expm1": -1.0, "sqrt": 0.0}

_TRUTHS = frozenset({"and", "or", "not", "==", "!=", "<", "<=", ">", ">=", "level"})

_EVERYTHING = Interval(-math.inf, math.inf)

_ARITHMETIC: dict[str, Callable[..., Interval]] = {
    "+": intervals.add,
    "-": intervals.subtract,
    "*": intervals.multiply,
    "/": intervals.divide,
    "negative": intervals.negate,
    "**": lambda base, exponent: real_power(base, exponent.lower),
}


def tree_bounds(node: Node, columns: Mapping[str, Interval]) -> Interval:
    """Bound the value of a tree, as it is evaluated: outward, and the whole line where it has no bounds."""
    try:
        found = _bounds(node, columns)
    except (ArithmeticError, LookupError, TypeError, ValueError):  # a divisor that can be 0, a tree that is none
        return _EVERYTHING
    return found if found.finite else _EVERYTHING


def _bounds(node: Node, columns: Mapping[str, Interval]) -> Interval:
    if node.operation == "constant":
        return Interval(float(node.value), float(node.value))
    if node.operation == "column":
        return columns.get(node.name, _EVERYTHING)
    if node.operation in _TRUTHS:
        return Interval(0.0, 1.0)
    parts = [_bounds(part, columns) for part in node.arguments]
    if node.operation == "power":
        return intervals.power(parts[0], int(node.value))
    if node.operation in _ARITHMETIC:
        return _ARITHMETIC[node.operation](*parts)
    return function_interval(node.operation, parts)


def real_power(base: Interval, exponent: float) -> Interval:
    """Bound a base of at least 0 to a power that is not whole."""
    return intervals.monotone(lambda x: float(np.power(x, exponent)), base, floor=0.0)


def function_interval(name: str, arguments: Sequence[Interval]) -> Interval:
    """Bound an allowed function where it is defined."""
    if name == "abs":
        return intervals.absolute(arguments[0])
    if name in ("minimum", "maximum"):
        return (intervals.minimum if name == "minimum" else intervals.maximum)(*arguments)
    if name == "clip":
        return intervals.minimum(intervals.maximum(arguments[0], arguments[1]), arguments[2])
    return intervals.monotone(FUNCTIONS[name], arguments[0], floor=_FLOOR.get(name, -np.inf))

"""Trees of elementwise operations: their evaluation on columns, and their bounds by interval arithmetic.

A tree is plain data, so it can be pickled, hashed and sent to another process; no text is ever evaluated.

Bounds are rounded outward. Sums, products and quotients of bounds are computed exactly, as fractions, and rounded down
for the lower and up for the upper bound, so a bound that is a float stays what it is. Rounding to nearest is monotone,
so the bounds hold for the values as numpy computes them too. For logarithms and the like, which are not correctly
rounded, the bounds are widened by more than numpy's error.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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


_ULPS = 8  # numpy's vectorised functions are within 4 units in the last place


@dataclass(frozen=True, slots=True)
class Interval:
    """All numbers from `lower` to `upper`, both included.

    Examples
    --------
    >>> 0 in Interval(-1.0, 2.0)
    True
    """

    lower: float
    upper: float

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and self.lower <= value <= self.upper

    @property
    def finite(self) -> bool:
        """Whether both ends are finite."""
        return math.isfinite(self.lower) and math.isfinite(self.upper)


def _up(exact: Fraction) -> float:
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.nextafter(math.inf, 0.0)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def _down(exact: Fraction) -> float:
    return 0.0 - _up(-exact)


def _corners(operation: Callable[[Fraction, Fraction], Fraction], a: Interval, b: Interval) -> Interval:
    """Bounds of an operation that is largest and smallest at the ends of its arguments."""
    corners = [operation(Fraction(x), Fraction(y)) for x, y in product((a.lower, a.upper), (b.lower, b.upper))]
    return Interval(_down(min(corners)), _up(max(corners)))


def _quotient(a: Interval, b: Interval) -> Interval:
    if 0 in b:
        raise ZeroDivisionError("the divisor can be 0")
    return _corners(operator.truediv, a, b)


def _negative(a: Interval) -> Interval:
    return Interval(0.0 - a.upper, 0.0 - a.lower)


def _raise(base: NDArray[np.float64], exponent: int) -> NDArray[np.float64]:
    """Raise by repeated multiplication, so that a row's value does not depend on where in the array it stands."""
    result = np.ones_like(base)
    for digit in f"{exponent:b}":
        result = result * result
        if digit == "1":
            result = result * base
    return result


def _raised(base: float, exponent: int, rounded: Callable[[Fraction], float]) -> float:
    # The multiplications of `_raise`, each rounded one way, so that no rounding of them can pass the bound.
    result = 1.0
    for digit in f"{exponent:b}":
        result = rounded(Fraction(result) ** 2)
        if digit == "1" and math.isfinite(result):
            result = rounded(Fraction(result) * Fraction(base))
        if not math.isfinite(result):
            return result
    return result


def _power(a: Interval, exponent: int) -> Interval:
    """Bounds of x ** k for x in `a` and a whole number k >= 0, as evaluated by repeated multiplication."""
    if a.lower >= 0:
        return Interval(_raised(a.lower, exponent, _down), _raised(a.upper, exponent, _up))
    if exponent % 2 == 0:
        if a.upper <= 0:
            return _power(_negative(a), exponent)
        return Interval(0.0 if exponent else 1.0, _raised(max(-a.lower, a.upper), exponent, _up))
    upper = _raised(a.upper, exponent, _up) if a.upper >= 0 else -_raised(-a.upper, exponent, _down)
    return Interval(-_raised(-a.lower, exponent, _up), upper)


def _absolute(a: Interval) -> Interval:
    largest, smallest = (choose(abs(a.lower), abs(a.upper)) for choose in (max, min))
    return Interval(0.0 if 0 in a else smallest, largest)


def _each(choose: Callable[[float, float], float], a: Interval, b: Interval) -> Interval:
    """Bounds of the smaller or the larger of two values."""
    return Interval(choose(a.lower, b.lower), choose(a.upper, b.upper))


def _monotone(function: Callable[[float], float], a: Interval, *, floor: float = -math.inf) -> Interval:
    """Bounds of an elementary function that rises, or falls, over all of `a`, and never goes below ``floor``.

    They are widened by 8 units in the last place at each end, except that an end that is exactly 0, as log(1) is,
    stays; infinite where the function overflows.
    """
    with np.errstate(all="ignore"):
        lower, upper = sorted(float(function(end)) for end in (a.lower, a.upper))
    for _ in range(_ULPS):
        lower = math.nextafter(lower, -math.inf) if lower else 0.0
        upper = math.nextafter(upper, math.inf) if upper or floor == 0.0 else 0.0
    return Interval(max(lower, floor), upper)


def _truth(operation: Callable[..., Any], arity: int = 2) -> Operation:
    """Make an operation that yields 0 and 1 alone."""
    return Operation(lambda *given: operation(*given).astype(np.float64), arity, lambda *_: Interval(0.0, 1.0))


def _rising(function: Callable[..., Any], floor: float = -math.inf) -> Operation:
    """Make an elementary function that rises, and never goes below ``floor``."""
    return Operation(function, 1, partial(_monotone, function, floor=floor))


@dataclass(frozen=True, slots=True)
class Operation:
    """How arguments, elementwise on arrays, become a value; how many they are; and what their bounds say of the value.

    A "power" gets its exponent after them.
    """

    evaluate: Callable[..., Any]
    arity: int
    bounds: Callable[..., Interval]


_FUNCTIONS: dict[str, Operation] = {
    **{name: _rising(getattr(np, name)) for name in ("log", "log1p", "log2", "log10")},
    **{name: _rising(getattr(np, name), floor) for name, floor in (("exp", 0.0), ("expm1", -1.0), ("sqrt", 0.0))},
    "abs": Operation(np.abs, 1, _absolute),
    "minimum": Operation(np.minimum, 2, partial(_each, min)),
    "maximum": Operation(np.maximum, 2, partial(_each, max)),
    "clip": Operation(
        lambda x, a, b: np.minimum(np.maximum(x, a), b), 3, lambda x, a, b: _each(min, _each(max, x, a), b)
    ),
}

FUNCTIONS = tuple(_FUNCTIONS)
"""Names of the functions that an expression may call."""

OPERATIONS: dict[str, Operation] = {
    "+": Operation(np.add, 2, partial(_corners, operator.add)),
    "-": Operation(np.subtract, 2, partial(_corners, operator.sub)),
    "*": Operation(np.multiply, 2, partial(_corners, operator.mul)),
    "/": Operation(np.divide, 2, _quotient),
    "negative": Operation(np.negative, 1, _negative),
    "power": Operation(_raise, 1, _power),
    # A base of at least 0 has a power that rises or falls.
    "**": Operation(np.power, 2, lambda a, b: _monotone(lambda x: float(np.power(x, b.lower)), a, floor=0.0)),
    "and": _truth(np.multiply),
    "or": _truth(np.maximum),
    "not": _truth(lambda a: np.subtract(1.0, a), 1),
    "==": _truth(np.equal),
    "!=": _truth(np.not_equal),
    "<": _truth(np.less),
    "<=": _truth(np.less_equal),
    ">": _truth(np.greater),
    ">=": _truth(np.greater_equal),
    **_FUNCTIONS,
}

ARGUMENTS = dict.fromkeys(("constant", "column", "level"), 0) | {name: one.arity for name, one in OPERATIONS.items()}
"""How many arguments each operation takes: one more would be where numpy writes its result."""


def _exponent(node: Node) -> tuple[int, ...]:
    return (int(node.value),) if node.operation == "power" else ()


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
    return OPERATIONS[node.operation].evaluate(*arguments, *_exponent(node))


def operation_bounds(node: Node, parts: Sequence[Interval]) -> Interval:
    """Bound the value of an operation by the bounds of its arguments, where it is defined.

    `ZeroDivisionError` if a divisor can be 0; infinite where it overflows.
    """
    return (
        Interval(0.0, 1.0) if node.operation == "level" else OPERATIONS[node.operation].bounds(*parts, *_exponent(node))
    )


def tree_bounds(node: Node, columns: Mapping[str, Interval]) -> Interval:
    """Bound the value of a tree, as it is evaluated: outward, and the whole line where it has no bounds."""
    everything = Interval(-math.inf, math.inf)

    def bounds(one: Node) -> Interval:
        if one.operation == "constant":
            return Interval(float(one.value), float(one.value))
        if one.operation == "column":
            return columns.get(one.name, everything)
        return operation_bounds(one, [bounds(part) for part in one.arguments])

    try:
        found = bounds(node)
    except (ArithmeticError, LookupError, TypeError, ValueError):  # a divisor that can be 0, a tree that is none
        return everything
    return found if found.finite else everything


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
    def bounds(self) -> Interval:
        """The interval of the values."""
        return Interval(self.lower, self.upper)

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

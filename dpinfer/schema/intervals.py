"""Interval arithmetic, rounded outward: bounds of an expression from the bounds of its columns.

Sums, products and quotients of bounds are computed exactly, as fractions, and rounded down for the lower and
up for the upper bound, so a bound that is a float stays what it is. Rounding to nearest is monotone, so the
bounds hold for the values as numpy computes them too. For logarithms and the like, which are not correctly
rounded, the bounds are widened by more than numpy's error.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.schema.nodes import FUNCTIONS, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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


def _raised(base: float, exponent: int, rounded: Callable[[Fraction], float]) -> float:
    # The multiplications of the evaluation (dpinfer.schema.nodes), each rounded one way, so that no
    # rounding of the evaluation can pass the bound.
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


_FLOOR = {"exp": 0.0, "expm1": -1.0, "sqrt": 0.0}
_TRUTHS = frozenset({"and", "or", "not", "==", "!=", "<", "<=", ">", ">=", "level"})
_EVERYTHING = Interval(-math.inf, math.inf)
_EXACT: dict[str, Callable[..., Interval]] = {
    "+": partial(_corners, operator.add),
    "-": partial(_corners, operator.sub),
    "*": partial(_corners, operator.mul),
    "/": _quotient,
    "negative": _negative,
    "abs": _absolute,
    "minimum": partial(_each, min),
    "maximum": partial(_each, max),
    "clip": lambda x, a, b: _each(min, _each(max, x, a), b),
}


def operation_bounds(node: Node, parts: Sequence[Interval]) -> Interval:
    """Bound the value of an operation by the bounds of its arguments, where it is defined.

    `ZeroDivisionError` if a divisor can be 0; infinite where it overflows.
    """
    if node.operation in _TRUTHS:
        return Interval(0.0, 1.0)
    if node.operation in _EXACT:
        return _EXACT[node.operation](*parts)
    if node.operation == "power":
        return _power(parts[0], int(node.value))
    if node.operation == "**":  # of a base of at least 0
        return _monotone(lambda x: float(np.power(x, parts[1].lower)), parts[0], floor=0.0)
    return _monotone(FUNCTIONS[node.operation], parts[0], floor=_FLOOR.get(node.operation, -math.inf))


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
    return operation_bounds(node, [_bounds(part, columns) for part in node.arguments])


def never_holds(condition: Node, columns: Mapping[str, Interval]) -> bool:
    """Whether a condition is seen to hold for no values within bounds; of what is not seen it is False."""
    return _truth(condition, columns).upper <= 0


def _truth(node: Node, columns: Mapping[str, Interval]) -> Interval:
    """Bound a truth value, part by part: columns that stand in two parts are taken to be any in each."""
    if node.operation in _PARTS:
        return _PARTS[node.operation](*(_truth(part, columns) for part in node.arguments))
    if node.operation not in _COMPARED:
        return Interval(0.0, 1.0)
    a, b = (tree_bounds(part, columns) for part in node.arguments)
    sure, never = _COMPARED[node.operation](a, b)
    return Interval(float(sure), float(not never))


_PARTS: dict[str, Callable[..., Interval]] = {
    "not": lambda a: Interval(1 - a.upper, 1 - a.lower),
    "or": partial(_each, max),
    **dict.fromkeys(("and", "*"), partial(_each, min)),
}


def _apart(a: Interval, b: Interval) -> bool:
    return a.upper < b.lower or b.upper < a.lower


def _same(a: Interval, b: Interval) -> bool:
    return a.lower == a.upper == b.lower == b.upper


_COMPARED: dict[str, Callable[[Interval, Interval], tuple[bool, bool]]] = {
    "<": lambda a, b: (a.upper < b.lower, a.lower >= b.upper),
    "<=": lambda a, b: (a.upper <= b.lower, a.lower > b.upper),
    ">": lambda a, b: (a.lower > b.upper, a.upper <= b.lower),
    ">=": lambda a, b: (a.lower >= b.upper, a.upper < b.lower),
    "==": lambda a, b: (_same(a, b), _apart(a, b)),
    "!=": lambda a, b: (_apart(a, b), _same(a, b)),
}
"""Whether a comparison of values within bounds always holds, and whether it never does."""

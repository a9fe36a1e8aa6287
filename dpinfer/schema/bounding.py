"""Bounds of quotients, powers and elementary functions, or why there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpinfer.errors import FormulaError
from dpinfer.schema import intervals
from dpinfer.schema.cells import number_text
from dpinfer.schema.intervals import Interval
from dpinfer.schema.tree_bounds import function_interval, real_power

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.schema.expression import Expression

__all__ = ["function_bounds", "interval_of", "quotient_bounds", "real_power_bounds"]

_OPEN_DOMAIN = {"log": 0.0, "log2": 0.0, "log10": 0.0, "log1p": -1.0}


def interval_of(expression: Expression) -> Interval:
    """Return the bounds of an expression."""
    return Interval(expression.lower, expression.upper)


def quotient_bounds(text: str, numerator: Interval, divisor: Expression) -> Interval:
    """Bounds of a quotient.

    Raises
    ------
    FormulaError
        If the divisor can be 0.
    """
    if divisor.constant == 0:
        raise FormulaError(text, "divides by 0")
    try:
        return intervals.divide(numerator, interval_of(divisor))
    except ZeroDivisionError:
        raise FormulaError(
            text,
            f"the divisor {divisor.text} can be 0: it lies in [{divisor.lower:.6g}, {divisor.upper:.6g}]",
            f"declare bounds that exclude 0, or divide by maximum({divisor.text}, 1)",
        ) from None


def real_power_bounds(text: str, base: Expression, exponent: float) -> Interval:
    """Bounds of a base to a power that is not whole.

    Raises
    ------
    FormulaError
        If the base can be negative, or 0 with a negative exponent.
    """
    if base.lower < 0 or (exponent < 0 and base.lower == 0):
        sign = "negative" if exponent > 0 else "0 or negative"
        raise FormulaError(
            text,
            f"the base {base.text} can be {sign}: it lies in [{base.lower:.6g}, {base.upper:.6g}]",
            "declare a positive lower bound, or use a whole exponent of at least 0",
        )
    return real_power(interval_of(base), exponent)


def function_bounds(name: str, text: str, arguments: Sequence[Expression]) -> Interval:
    """Bounds of an allowed function.

    Raises
    ------
    FormulaError
        If the function is not defined, or not bounded, where its argument lies.
    """
    a = arguments[0]
    if name in _OPEN_DOMAIN and a.lower <= _OPEN_DOMAIN[name]:
        raise _unbounded_logarithm(name, text, a)
    if name == "sqrt" and a.lower < 0:
        raise FormulaError(
            text,
            f"sqrt is not defined at {a.text} < 0",
            f"write sqrt(maximum({a.text}, 0)) or declare a lower bound of at least 0",
        )
    return function_interval(name, [interval_of(argument) for argument in arguments])


def _unbounded_logarithm(name: str, text: str, a: Expression) -> FormulaError:
    edge = _OPEN_DOMAIN[name]
    plain = "log" if name == "log1p" else name
    shifted = f"{plain}({number_text(1.0 - a.lower)} + {a.text})"
    bound = "a positive lower bound" if edge == 0 else "a lower bound above -1"
    return FormulaError(
        text,
        f"{name} is unbounded at {a.text} <= {number_text(edge)}",
        f"write {shifted} or declare {bound}",
    )

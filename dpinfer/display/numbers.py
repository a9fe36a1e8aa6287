"""Numbers as people read them: one formatter of counts, and one of all that tables show."""

from __future__ import annotations

import math
from numbers import Integral, Real

__all__ = ["cell", "count", "number"]

_GROUPED, _LARGEST = 1e4, 1e10
"""From where digits are grouped in thousands, and from where a number is written with an exponent."""


def count(value: float) -> str:
    """Write a number of rows, draws or the like: whole, its digits grouped."""
    return f"{value:,.0f}" if math.isfinite(value) else str(float(value))


def number(value: float, digits: int = 4) -> str:
    """Write a number to some digits; from 10,000 on its whole part is written out and grouped.

    Examples
    --------
    >>> number(12345.678), number(0.000123456), number(-1e6), number(2.0)
    ('12,346', '0.0001235', '-1,000,000', '2')
    """
    value = float(value) + 0.0  # -0.0 becomes 0.0
    if math.isfinite(value) and _GROUPED <= abs(round(value)) < _LARGEST:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def cell(value: object, digits: int = 4) -> str:
    """Write a cell of a table: truth as yes or no, what is missing as nothing, numbers as `number`, others as text."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, Real) and math.isnan(value):
        return ""
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}" if abs(int(value)) >= _GROUPED else str(int(value))
    return number(float(value), digits) if isinstance(value, Real) else str(value)

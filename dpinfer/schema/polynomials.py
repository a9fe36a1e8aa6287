"""Polynomials in leaves: the canonical form by which two expressions are seen to be the same.

A polynomial maps monomials to coefficients. A monomial is a sorted tuple of (leaf, power) pairs, the empty
tuple for the constant. A leaf is the name of a column, or the text of an expression that is no polynomial.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Monomial", "Polynomial", "add", "constant", "divide", "leaf", "multiply", "raised", "scale"]

Monomial = tuple[tuple[str, int], ...]
Polynomial = dict[Monomial, float]

_MOST_TERMS = 256
_LARGEST_EXPANDED_POWER = 64


def constant(value: float) -> Polynomial:
    """Make the polynomial of a constant; zero has no terms."""
    return {(): value} if value else {}


def leaf(text: str) -> Polynomial:
    """Make the polynomial of one leaf."""
    return {((text, 1),): 1.0}


def scale(p: Mapping[Monomial, float], factor: float) -> Polynomial:
    """Multiply a polynomial by a number."""
    return {m: c * factor for m, c in p.items() if c * factor}


def divide(p: Mapping[Monomial, float], divisor: float) -> Polynomial:
    """Divide a polynomial by a number other than 0."""
    return {m: c / divisor for m, c in p.items()}


def add(p: Mapping[Monomial, float], q: Mapping[Monomial, float]) -> Polynomial:
    """Add two polynomials; terms that cancel are left out."""
    total = dict(p)
    for monomial, coefficient in q.items():
        total[monomial] = total.get(monomial, 0.0) + coefficient
    return {m: c for m, c in total.items() if c}


def _times(m: Monomial, n: Monomial, boolean: frozenset[str]) -> Monomial:
    powers = dict(m)
    for name, power in n:
        powers[name] = powers.get(name, 0) + power
    return tuple(sorted((name, 1 if name in boolean else power) for name, power in powers.items()))


def multiply(p: Mapping[Monomial, float], q: Mapping[Monomial, float], *, boolean: frozenset[str]) -> Polynomial | None:
    """Multiply two polynomials.

    Parameters
    ----------
    p, q : mapping of monomial to float
        The factors.
    boolean : frozenset of str
        Leaves that only take 0 and 1, whose powers are reduced to 1.

    Returns
    -------
    dict or None
        None if the expansion has more than 256 terms, or a coefficient that is not finite.
    """
    if len(p) * len(q) > 16 * _MOST_TERMS:
        return None
    total: Polynomial = {}
    for m, a in p.items():
        for n, b in q.items():
            monomial = _times(m, n, boolean)
            total[monomial] = total.get(monomial, 0.0) + a * b
    usable = len(total) <= _MOST_TERMS and all(math.isfinite(c) for c in total.values())
    return {m: c for m, c in total.items() if c} if usable else None


def raised(p: Mapping[Monomial, float], power: int, *, boolean: frozenset[str]) -> Polynomial | None:
    """Raise a polynomial to a whole power; None if the expansion is too large (see `multiply`)."""
    if len(p) == 1 and set(p.values()) == {1.0}:
        (monomial,) = p
        powers = tuple((name, 1 if name in boolean else k * power) for name, k in monomial)
        return {powers if power else (): 1.0}
    if power > _LARGEST_EXPANDED_POWER:
        return None
    result: Polynomial | None = constant(1.0)
    for _ in range(power):
        result = None if result is None else multiply(result, p, boolean=boolean)
    return result

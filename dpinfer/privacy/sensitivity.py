"""How far one unit moves a sum: exact bounds, in whole numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, Literal

from dpinfer.errors import OptionError
from dpinfer.privacy.exact import binary, sqrt_above
from dpinfer.privacy.units import NEIGHBORS, Neighbors

if TYPE_CHECKING:
    from collections.abc import Sequence

Norm = Literal["l2", "l1"]


@dataclass(frozen=True, slots=True)
class RowBounds:
    """Bounds on the integer row z that a row of the data becomes: on its squared norm and its sum of absolute values.

    ``least_product`` is a lower bound on ``abs(z'w)`` over pairs of rows z, w at which ``abs(z)^4 + abs(w)^4 - 2
    (z'w)^2`` is largest; 0 where none is proved. Where every entry of z lies in [-side, side] and the first of a row
    that is not zero is ``side``, ``box`` is the number of entries; else 0. One unit has at most ``rows`` rows, each of
    which may also be the zero row.
    """

    squared: int
    absolute: int
    least_product: int = 0
    box: int = 0
    side: int = 0
    rows: int = 1


def gram_sensitivity(bounds: RowBounds, *, neighbors: Neighbors, norm: Norm) -> Fraction:
    """Bound on the change of the upper triangle of ``sum z z'`` between neighbours; never below the true supremum.

    "l2" is the Euclidean norm with off-diagonal entries counted twice in the square (each divided by a weight of 1/sqrt
    2), which is the Frobenius norm of the matrix; "l1" the sum of absolute values. Frobenius norms: ``norm(z z') =
    abs(z)^2`` and ``norm(z z' - w w')^2 = abs(z)^4 + abs(w)^4 - 2 (z'w)^2``. One of the two rows may count as zero
    (dropped, or excluded by a condition); the change is then ``abs(z)^2``. The upper triangle of ``z z'`` has L1 norm
    ``(abs1(z)^2 + abs(z)^2) / 2``; two rows add at most twice that. In a box less: see `docs/kernel.md`. All of this is
    for one row; a unit of m rows, those that it lacks counted as zero rows, moves the sum by at most m times that, by
    the triangle inequality: see `docs/people.md`.
    """
    if neighbors not in NEIGHBORS:
        raise OptionError("neighbors", neighbors, NEIGHBORS)
    one = Fraction(bounds.absolute**2 + bounds.squared, 2) if norm == "l1" else Fraction(bounds.squared)
    if neighbors == "add_remove":
        return bounds.rows * one
    if norm == "l2":
        pair = _root_above(2 * bounds.squared**2 - 2 * bounds.least_product**2)
        return bounds.rows * max(Fraction(pair), one)
    if not bounds.box:
        return bounds.rows * 2 * one
    # Two rows of a box share their first entry. Off the diagonal the L1 change is convex in every single entry, so
    # largest at corners, where two entries whose signs agree differently contribute 2 and others nothing; on the
    # diagonal every entry but the first contributes at most 1.
    pairs = (bounds.box // 2) * ((bounds.box + 1) // 2)
    within = Fraction((2 * pairs + bounds.box - 1) * bounds.side**2)
    return bounds.rows * min(2 * one, max(one, within))


def norm_above(total: Fraction | int, norm: Norm) -> Fraction:
    """Return the norm of changes of which absolute values (L1) or squares (L2) add up to a total; a root rounded up."""
    return Fraction(total) if norm == "l1" else binary(sqrt_above(Fraction(total), binary))


def joint_sensitivity(parts: Sequence[tuple[Fraction, float]], *, norm: Norm) -> Fraction:
    """Bound for several sums measured together: of each its own bound, and the weight that divides it."""
    scaled = [(bound / Fraction(weight), count) for (bound, weight), count in Counter(parts).items()]  # mostly alike
    if len(parts) == 1 or norm == "l1":
        return sum((one * count for one, count in scaled), Fraction(0))
    grid = 2**40
    return Fraction(_root_above(sum((one**2 * count for one, count in scaled), Fraction(0)) * grid**2), grid)


def _root_above(value: int | Fraction) -> int:
    """Return the smallest whole number whose square is at least ``value``."""
    whole = -(-value.numerator // value.denominator)
    root = isqrt(whole)
    return root if root * root == whole else root + 1

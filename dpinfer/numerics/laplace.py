"""The sum of two discrete Laplace variables: how far noise of a threshold and of a number moves them apart."""

from __future__ import annotations

import math

__all__ = ["pair_quantile", "pair_tail"]


def pair_tail(least: int, first: float, second: float) -> float:
    """Probability that X + Y is at least a whole number above 0, for independent discrete Laplace X and Y.

    Parameters
    ----------
    least : int
        At least 1.
    first, second : float
        Scales: equal, or clearly different. P(X = k) is proportional to ``exp(-abs(k) / first)``.

    Notes
    -----
    With p = exp(-1/first) and r = exp(-1/second) partial fractions of the generating functions give
    ``((1-r)^2 p^(m+1) / (1+p) - (1-p)^2 r^(m+1) / (1+r)) / ((p-r) (1-pr))``; and for p = r
    ``(1-p) / (1+p)^2 p^m (m + (1+p^2) / (1-p^2) + p / (1-p))``.

    Examples
    --------
    >>> round(pair_tail(1, 1.0, 2.0), 6), round(pair_tail(1, 2.0, 2.0), 6)
    (0.410902, 0.435097)
    """
    p, r = math.exp(-1 / first), math.exp(-1 / second)
    up, down = -math.expm1(-1 / first), -math.expm1(-1 / second)  # 1 - p and 1 - r
    if math.isclose(first, second, rel_tol=1e-9):
        return up / (1 + p) ** 2 * p**least * (least + (1 + p * p) / (up * (1 + p)) + p / up)
    apart = r * math.expm1(1 / second - 1 / first)  # p - r
    both = -math.expm1(-1 / first - 1 / second)
    return (down**2 * p ** (least + 1) / (1 + p) - up**2 * r ** (least + 1) / (1 + r)) / (apart * both)


def pair_quantile(tail: float, first: float, second: float) -> int:
    """Smallest whole number m, at least 1, with ``pair_tail(m, first, second) <= tail``; ``tail`` is in (0, 1)."""
    low, high = 0, 1
    while pair_tail(high, first, second) > tail:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if pair_tail(middle, first, second) > tail else (low, middle)
    return high

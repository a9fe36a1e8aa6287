"""Exact integer noise, many draws at once: the discrete Gaussian and the discrete Laplace distribution.

Notes
-----
Both give an integer y a probability in proportion to exp(-h(|y|)), with h(y) = y^2/(2 s^2) or y/s for a scale s
(Canonne, Kamath & Steinke 2020). Let t > s be an integer, K geometric with P(K >= k) = e^-k, V uniform on 0, ...,
t - 1, and a sign fair: y = +-(K t + V), where -0 is refused, has a probability in proportion to exp(-floor(|y|/t)). It
is accepted with probability exp(-a), where a = h(|y|) - K + c >= 0 and c = max over k of k - h(k t): 0 for Laplace
noise, and max(0, 1 - t^2/(2 s^2)) for Gaussian noise, since t > s. Accepted integers have the distribution exactly.

What is compared with exp(-a), and with e^-k for K, is a uniform U of unlimited precision, of which 64 bits are drawn.
Floating point decides where U lies farther from the threshold than a margin, which is more than thirty times what
rounding moves; else exact arithmetic does, with more bits of the same U where it needs them. No probability is
rounded. That the result does not depend on the margin is tested.

Bits come from the operating system, for every call anew. None is kept, which a fork or a snapshot might repeat.
"""

from __future__ import annotations

import os
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LARGEST_SCALE", "exact_noise"]

LARGEST_SCALE = 2.0**56
"""Scales above this would meet the ends of 64-bit integers."""

MARGIN = 2.0**-40
"""Distance from a threshold within which exact arithmetic decides. An exponent b after K steps has an error of at most
about 4 (K + b) 2^-53, and exp and the 64 bits add less than 2^-50: a threshold moves by less than 2^-45 for K up to 45,
and K is larger with a probability of e^-46, when 2^-44 is not reached before K is 128."""

_BLOCK = 2**16
"""Draws at a time, which bounds the memory."""

_TRIES = 16
"""Proposals at once for each of few draws, of which the first accepted counts."""


def exact_noise(scales: NDArray[np.float64], gaussian: bool, margin: float = MARGIN) -> list[int]:
    """Draw noise with each of the scales (m,), at most `LARGEST_SCALE`; 0 where a scale is 0."""
    found = np.zeros(len(scales), dtype=np.int64)
    for start in range(0, len(scales), _BLOCK):
        left = start + np.flatnonzero(scales[start : start + _BLOCK])
        while left.size:
            tries = _TRIES if left.size <= _BLOCK // _TRIES else 1
            drawn, accepted = (
                one.reshape(tries, -1) for one in _propose(np.tile(scales[left], tries), gaussian, margin)
            )
            first, done = accepted.argmax(axis=0), accepted.any(axis=0)
            found[left[done]] = drawn[first, np.arange(left.size)][done]
            left = left[~done]
    return [int(value) for value in found.tolist()]


def _propose(scales: NDArray[np.float64], gaussian: bool, margin: float) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Propose an integer y for each scale s, and say whether it is accepted."""
    first, second, third = np.frombuffer(os.urandom(24 * len(scales)), dtype=np.uint64).reshape(3, -1)
    width = np.maximum(np.floor(scales) + 1, np.nextafter(scales, np.inf))  # t, which a float holds exactly
    bits = np.frexp(np.nextafter(width, 0))[1].astype(np.uint64)  # the length of t - 1, at most 57
    within = (second & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)
    negative = second >> np.uint64(63) == 1
    steps, whole = _geometric(first, margin), width.astype(np.int64)
    drawn = steps * whole + within
    accepted = (within < whole) & ~(negative & (drawn == 0))

    edge = width / scales
    far = steps * edge + within / scales
    exponents = far**2 / 2 - steps + np.maximum(0.0, 1 - edge**2 / 2) if gaussian else far - steps
    with np.errstate(under="ignore"):
        above = np.exp(-exponents) - third * 2.0**-64
    for place in np.flatnonzero(accepted & (np.abs(above) < margin)):
        scale = Fraction(float(scales[place]))
        exponent = int(drawn[place]) / scale
        if gaussian:
            exponent = exponent**2 / 2 + max(Fraction(0), 1 - (int(whole[place]) / scale) ** 2 / 2)
        above[place] = 1.0 if _Uniform(int(third[place])).below(exponent - int(steps[place])) else -1.0
    return np.where(negative, -drawn, drawn), accepted & (above > 0)


def _geometric(words: NDArray[np.uint64], margin: float) -> NDArray[np.int64]:
    """Return for each word, the first bits of a uniform U, the largest k with U < e^-k."""
    with np.errstate(divide="ignore", invalid="ignore"):
        depths = -np.log(words * 2.0**-64)  # infinite for the word 0
        clear = np.abs(depths - np.rint(depths)) > margin + 2.0**-60 * np.exp(np.minimum(depths, 45.0))
    found = np.where(clear, np.floor(depths), 0.0).astype(np.int64)
    for place in np.flatnonzero(~clear):
        uniform, k = _Uniform(int(words[place])), 0
        while uniform.below(Fraction(k + 1)):
            k += 1
        found[place] = k
    return found


class _Uniform:
    """A uniform number between 0 and 1 of unlimited precision, of which 64 bits are known at first."""

    def __init__(self, word: int) -> None:
        self._word, self._length = word, 64

    def below(self, exponent: Fraction) -> bool:
        """Whether it is below exp(-exponent), for an exponent of at least 0."""
        while True:
            digits = self._length // 3 + 30
            context = Context(
                prec=digits, rounding=ROUND_HALF_EVEN, Emin=-999_999, Emax=999_999, clamp=0, traps=[InvalidOperation]
            )  # none of what the caller has set
            with localcontext(context):  # in which exp is rounded correctly
                quotient = Decimal(exponent.numerator) / Decimal(exponent.denominator)
                threshold = Fraction((-quotient).exp())
            off = threshold * (exponent + 2) / 10 ** (digits - 1)
            if Fraction(self._word + 1, 2**self._length) <= threshold - off or not exponent:
                return True
            if Fraction(self._word, 2**self._length) >= threshold + off:
                return False
            self._word = self._word << 64 | int.from_bytes(os.urandom(8))
            self._length += 64

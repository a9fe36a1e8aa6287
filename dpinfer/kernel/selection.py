"""Choosing the largest noisy score, and comparing noisy scores with a threshold; of the scores nothing else is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpinfer.release.laws import ABOVE, BELOW, NOT_REACHED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.privacy.accounting import ChoiceLaw

__all__ = ["answered", "private_choice"]

_LOWEST = 2**62
"""Scores so far below the largest are as good as lost; nearer ones fit into 64 bits once it is taken off."""


def private_choice(scores: Sequence[int], law: ChoiceLaw, scale: float) -> int:
    """Draw the place of the largest noisy score; the scale of the noise is in steps of the scores.

    OpenDP compares scores with continuous noise that it draws digit by digit, as many as the comparison needs: the
    probabilities are exact, and there are no ties. The largest score is taken off first and what lies 2^62 steps below
    is raised to that, so that scores fit into 64 bits: the first changes no difference between scores, the second makes
    the range of a change no larger.
    """
    from opendp import prelude as opendp  # noqa: PLC0415  (imported when first needed: it is slow to load)

    opendp.enable_features("contrib")
    measure = opendp.zero_concentrated_divergence() if law == "gumbel" else opendp.max_divergence()
    domain = opendp.vector_domain(opendp.atom_domain(T="i64"))
    mechanism = opendp.m.make_noisy_max(domain, opendp.linf_distance(T="i64"), measure, scale=scale)
    top = max(scores)
    return int(mechanism([max(score - top, -_LOWEST) for score in scores]))


def answered(
    sums: Sequence[int], thresholds: Sequence[int], answers: int, shared: int, noise: Sequence[int]
) -> list[int]:
    """Say which noisy sums are at least their noisy thresholds, in turn, until so many are; all in whole numbers.

    ``shared`` is the noise of all thresholds, a single draw. It is not drawn anew after an answer.
    """
    found, left = [], answers
    for total, threshold, own in zip(sums, thresholds, noise, strict=True):
        above = total + own >= threshold + shared
        found.append(NOT_REACHED if left == 0 else ABOVE if above else BELOW)
        left -= found[-1] == ABOVE
    return found

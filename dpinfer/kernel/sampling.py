"""Who draws: exact samplers and the operating system for confidential rows, seeded generators in simulation."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import LedgerError, PrivacyUnitError
from dpinfer.kernel.noise import LARGEST_SCALE, exact_noise
from dpinfer.privacy.accounting import ChoiceLaw, too_little_noise
from dpinfer.privacy.units import GDP, Privacy
from dpinfer.release.laws import CHOICES, TULAP_GRID, Family, NoiseLaw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Bytes = Callable[[int, int], bytes]


LEAST_SCALES: dict[Family, float] = {
    "gaussian": 2.0**-4,
    "laplace": 2.0**-8,
    "tulap": 2.0**-8 * TULAP_GRID,
    "gumbel": 2.0**-256,
    "exponential": 2.0**-256,
    "above": 2.0**-8,
}
"""Below these noise is 0 but for a chance of about e^-128 or e^-256, and its variance soon vanishes in a float. A
choice has no variance: it is served as good as exact, as long as its cost is a float in every currency."""


def room(law: NoiseLaw) -> float:
    """Return the least noise of a law over the least that is served; below 1 it is refused."""
    least = min((scale for scale in {*law.scales, law.shared} if scale > 0), default=LARGEST_SCALE)
    return least / LEAST_SCALES[law.family]


def check_scales(law: NoiseLaw, price: Privacy | None = None) -> None:
    """Refuse noise that the sampler cannot draw exactly, or that inference could not tell from none.

    The price is that which brought it, for the message.
    """
    if room(law) < 1:
        curved = law.family in CHOICES and isinstance(price, GDP)  # the noise of a choice is not in proportion to mu
        raise too_little_noise(None if curved else price, room(law))
    largest = max((*law.scales, law.shared))
    if largest > LARGEST_SCALE:
        raise PrivacyUnitError(
            f"this privacy budget needs noise of scale {largest:.3g} grid steps; at most {LARGEST_SCALE:.3g} can be "
            "drawn exactly: use a larger budget"
        )


def private_noise(law: NoiseLaw) -> list[int]:
    """Draw noise for a release of confidential data.

    Its distribution is exact, and its bits are the operating system's; see `dpinfer.kernel.noise`.
    """
    check_scales(law)
    if law.family == "tulap":
        whole = NoiseLaw("laplace", tuple(scale / TULAP_GRID for scale in law.scales))
        return [
            draw * TULAP_GRID + (secrets.randbelow(TULAP_GRID) - TULAP_GRID // 2) * (scale > 0)
            for draw, scale in zip(private_noise(whole), law.scales, strict=True)
        ]
    scales = np.array(law.scales, dtype=np.float64)
    drawn = exact_noise(scales, law.family == "gaussian")
    for _ in range(law.draws - 1):
        drawn = [one + other for one, other in zip(drawn, exact_noise(scales, gaussian=False), strict=True)]
    return drawn


_LOWEST = 2**62
"""Scores so far below the largest are as good as lost; nearer ones fit into 64 bits once it is taken off."""


def private_choice(scores: Sequence[int], law: ChoiceLaw, scale: float) -> int:
    """Draw the place of the largest noisy score; the scale of the noise is in steps of the scores.

    OpenDP compares scores with continuous noise that it draws digit by digit, as many as the comparison needs: the
    probabilities are exact, and there are no ties. The largest score is taken off first and what lies 2^62 steps below
    is raised to that, so that scores fit into 64 bits: the first changes no difference between scores, the second makes
    the range of a change no larger.
    """
    from opendp import prelude as opendp  # noqa: PLC0415  (slow to load: first in the rehearsal, before the charge)

    opendp.enable_features("contrib")
    measure = opendp.zero_concentrated_divergence() if law == "gumbel" else opendp.max_divergence()
    domain = opendp.vector_domain(opendp.atom_domain(T="i64"))
    mechanism = opendp.m.make_noisy_max(domain, opendp.linf_distance(T="i64"), measure, scale=scale)
    top = max(scores)
    return int(mechanism([max(score - top, -_LOWEST) for score in scores]))


class PrivateDraws:
    """Every random choice of a run on confidential rows. No seed, no buffer that a fork could duplicate, nothing kept.

    A copy of the process that was made after the charge has paid for nothing: it draws nothing.
    """

    private = True

    def __init__(self) -> None:
        self._process = os.getpid()

    def _check(self) -> None:
        if os.getpid() != self._process:
            raise LedgerError("this process was forked after the charge, which pays for one release only")

    def noise(self, law: NoiseLaw) -> list[int]:
        """Draw noise exactly; see `private_noise`."""
        self._check()
        return private_noise(law)

    def place(self, scores: Sequence[int], law: ChoiceLaw, scale: float) -> int:
        """Draw the place of the largest noisy score exactly; see `private_choice`."""
        self._check()
        return private_choice(scores, law, scale)

    def labels(self, size: int, labels: int) -> NDArray[np.intp]:
        """Draw labels from the operating system's generator, alike in probability to within 2^-40."""
        self._check()
        drawn = np.frombuffer(secrets.token_bytes(8 * size), dtype=np.uint64)
        return (drawn % np.uint64(labels)).astype(np.intp)

    def bytes(self) -> Bytes:
        """Return the operating system's generator, which hands out no byte twice whatever forks or restores."""
        self._check()
        return lambda _, size: os.urandom(size)


def seeded_bytes(seed: int) -> Bytes:
    """Return bytes that anybody can draw again: those of public weights, and of simulations."""
    return lambda start, size: np.random.Generator(np.random.Philox(key=[seed, start])).bytes(size)


class SimulatedDraws:
    """The same choices, seeded, which protect nobody.

    Parameters
    ----------
    rng : numpy.random.Generator
    """

    private = False

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def noise(self, law: NoiseLaw) -> list[int]:
        """Draw noise with numpy."""
        return simulated_noise(law, self._rng)

    def place(self, scores: Sequence[int], law: ChoiceLaw, scale: float) -> int:
        """Draw the place of the largest noisy score with numpy."""
        return simulated_choice(scores, law, scale, self._rng)

    def labels(self, size: int, labels: int) -> NDArray[np.intp]:
        """Draw labels with numpy."""
        return self._rng.integers(0, labels, size)

    def bytes(self) -> Bytes:
        """Return seeded bytes, placed by the number of the first unit."""
        return seeded_bytes(int(self._rng.integers(2**63)))


Draws = PrivateDraws | SimulatedDraws
"""Who draws noise, the place of the largest score, labels, and the bytes behind random weights."""


def simulated_noise(law: NoiseLaw, rng: np.random.Generator) -> list[int]:
    """Draw noise for simulation with numpy; it protects nobody."""
    return [int(value) for value in law.rvs(1, rng)[0]]


def simulated_choice(scores: Sequence[int], law: ChoiceLaw, scale: float, rng: np.random.Generator) -> int:
    """Draw the same for simulation with numpy; it protects nobody."""
    top = max(scores)
    gaps = np.array([float(score - top) for score in scores])
    noise = rng.gumbel(size=gaps.size) if law == "gumbel" else rng.exponential(size=gaps.size)
    return int(np.argmax(gaps / scale + noise))

"""Integer noise for confidential data, from exact samplers."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from dpinfer.errors import PrivacyUnitError
from dpinfer.privacy.accounting import too_little_noise
from dpinfer.privacy.units import GDP
from dpinfer.release.laws import CHOICES, TULAP_GRID, NoiseLaw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.privacy.units import Privacy
    from dpinfer.release.laws import Family

__all__ = ["LARGEST_SCALE", "LEAST_SCALES", "check_scales", "private_noise", "room"]

LARGEST_SCALE = 2.0**56
"""Scales above this would meet the ends of the sampler's 64-bit integers."""


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
    least = min((scale for scale in (*law.scales, law.shared) if scale > 0), default=LARGEST_SCALE)
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
            f"the price asks for noise of scale {largest:.3g} grid steps; at most {LARGEST_SCALE:.3g} can be drawn "
            "exactly: ask for a larger share of the budget"
        )


def private_noise(law: NoiseLaw) -> list[int]:
    """Draw noise for a release of confidential data.

    OpenDP's samplers are exact (Canonne, Kamath & Steinke 2020). Their bits come from the cryptographic generator that
    OpenDP carries, which the operating system seeds and which seeds itself anew in a forked process; a restored
    snapshot of a virtual machine may repeat it.
    """
    check_scales(law)
    if law.family == "tulap":
        whole = NoiseLaw("laplace", tuple(scale / TULAP_GRID for scale in law.scales))
        return [
            draw * TULAP_GRID + (secrets.randbelow(TULAP_GRID) - TULAP_GRID // 2) * (scale > 0)
            for draw, scale in zip(private_noise(whole), law.scales, strict=True)
        ]
    drawn = [0] * len(law.scales)
    for _ in range(law.draws):
        drawn = [total + one for total, one in zip(drawn, _draw(law), strict=True)]
    return drawn


def _draw(law: NoiseLaw) -> list[int]:
    places: dict[float, list[int]] = {}
    for place, scale in enumerate(law.scales):
        places.setdefault(scale, []).append(place)
    drawn = [0] * len(law.scales)
    for scale, where in places.items():
        if scale > 0:
            for place, value in zip(where, _sample(law.family, scale, len(where)), strict=True):
                drawn[place] = value
    return drawn


def _sample(family: Family, scale: float, size: int) -> Sequence[int]:
    from opendp import prelude as opendp  # noqa: PLC0415  (imported when first needed: it is slow to load)

    opendp.enable_features("contrib")
    domain = opendp.vector_domain(opendp.atom_domain(T="i64"), size=size)
    if family == "gaussian":
        mechanism = opendp.m.make_gaussian(domain, opendp.l2_distance(T="f64"), scale=scale)
    else:
        mechanism = opendp.m.make_laplace(domain, opendp.l1_distance(T="f64"), scale=scale)
    return [int(value) for value in mechanism([0] * size)]

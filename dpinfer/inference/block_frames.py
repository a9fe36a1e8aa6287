"""Where block estimates are winsorised: read from noisy histograms of their scale and place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from dpinfer.errors import OptionError
from dpinfer.numerics.peaks import fit_location, fit_scale

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.numerics.arrays import Array, Mask
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.schema.region import Region

__all__ = ["Frame", "Scales", "bins_of", "find_frame", "find_scales", "limit", "whole_frame"]

LOCATED = {"l2": 4.0, "l1": 7.0}
"""Signal of a histogram, in standard deviations of Gaussian or Laplace noise, from which its peak is believed."""

_FILLED = 0.85
"""Share of the unit ball that parameters without a peak may take up."""

_UPPER = 1.64
"""Standard errors by which an estimated scale is raised: a winsorising ball too large costs less than one too small."""

_BEYOND = 0.005
"""Largest share of the blocks that winsorising is to move where they are normal."""

_MOST_BINS = 256


@dataclass(frozen=True, slots=True)
class Frame:
    """Where block estimates are winsorised: v = (t - center) / half, moved into the unit ball.

    Attributes
    ----------
    center, half : ndarray (p,)
    located : ndarray of bool (p,)
        Whether centre and width were found in the noisy histograms; else they are those of the declared region.
    """

    center: Array
    half: Array
    located: Mask

    def to_dict(self) -> dict[str, Any]:
        """Return the frame as a JSON-ready mapping."""
        return {"center": self.center.tolist(), "half": self.half.tolist(), "located": self.located.tolist()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], size: int) -> Frame:
        """Read what `to_dict` wrote.

        Raises
        ------
        KeyError, TypeError, ValueError
            If it is damaged.
        """
        try:
            center, half = (np.array(stored[name], dtype=np.float64) for name in ("center", "half"))
        except OverflowError:
            raise ValueError("the frame of the block estimates is damaged") from None
        located = stored["located"]
        right = center.shape == half.shape == (size,) and (np.abs(center) <= 1e100).all() and (half <= 1e100).all()
        if not (
            right and (half >= 1e-100).all() and len(located) == size and all(type(one) is bool for one in located)
        ):
            raise ValueError("the frame of the block estimates is damaged")
        return cls(center, half, np.array(located, dtype=bool))


@dataclass(frozen=True, slots=True)
class Scales:
    """Scale of each group of parameters, fitted to a noisy histogram.

    Attributes
    ----------
    scale, error, signal : ndarray (g,)
        The scale, the error of its logarithm, and the height of the peak in standard deviations of the noise.
    """

    scale: Array
    error: Array
    signal: Array


def find_scales(region: Region, counts: Array, noise: float) -> Scales:
    """Fit the scale of each group to counts of spreads by octave (g octaves,), ``noise`` their standard deviation."""
    listed = zip(counts.reshape(len(region.radii), -1), region.radii, region.places, strict=True)
    found = [
        fit_scale(mine, width=2 * radius, dof=max(1.0, len(places) / 2), noise=noise) for mine, radius, places in listed
    ]
    scale, error, signal = np.array(found).T
    return Scales(scale, error, signal)


def bins_of(region: Region, scales: Scales) -> tuple[int, ...]:
    """How many bins, about as wide as its scale, each parameter's declared interval is cut into."""
    level = np.floor(np.log2(2 * region.radius / scales.scale[region.group]))
    return tuple(2 ** int(one) for one in np.clip(level, 1, np.log2(_MOST_BINS)))


def find_frame(region: Region, counts: Array, noise: float, scales: Scales, *, norm: Norm, radius: float) -> Frame:
    """Fit the centre of each parameter and say where its block estimates are winsorised.

    Parameters
    ----------
    region : Region
    counts : ndarray (m,)
        Noisy counts of estimates in the bins of `bins_of`, parameter by parameter.
    noise : float
        Their standard deviation.
    scales : Scales
    norm : {"l2", "l1"}
    radius : float
        Of the winsorising ball, in units of the scale.
    """
    size, bins = len(region.names), bins_of(region, scales)
    scale, uncertain, signal = (part[region.group] for part in (scales.scale, scales.error, scales.signal))
    center, half = np.zeros(size), np.zeros(size)
    located = signal >= LOCATED[norm]
    for place, mine in enumerate(np.split(counts, np.cumsum(bins)[:-1])):
        if not located[place]:
            continue
        ends = region.center[place] + np.linspace(-region.radius[place], region.radius[place], bins[place] + 1)
        center[place], error, peak = fit_location(mine, ends=ends, scale=float(scale[place]), noise=noise)
        located[place] &= peak >= LOCATED[norm]
        wide = scale[place] * np.exp(_UPPER * min(float(uncertain[place]), 1.0))
        half[place] = radius * np.hypot(wide, min(error, float(scale[place])))
        if bins[place] == _MOST_BINS and ends[1] - ends[0] > scale[place]:
            half[place] += ends[1] - ends[0]
    for places in region.places:  # a group is located as a whole
        located[list(places)] = located[list(places)].all()
    whole = whole_frame(region, norm).half / (_FILLED if located.any() else 1.0)
    return Frame(np.where(located, center, region.center), np.where(located, np.minimum(half, whole), whole), located)


def whole_frame(region: Region, norm: Norm) -> Frame:
    """Return the frame of the declared region itself, which holds every value."""
    sizes = np.array([len(places) for places in region.places])[region.group]
    room = np.sqrt(len(region.places)) if norm == "l2" else len(region.places) * np.sqrt(sizes)
    return Frame(region.center, region.radius * room, np.zeros(len(region.names), dtype=bool))


def limit(blocks: int, size: int, norm: Norm) -> float:
    """Norm of a standard normal vector that about one block in all exceeds, or one in two hundred; for "l1" a bound."""
    if blocks < 2 or size < 1:
        raise OptionError("blocks", blocks, "at least 2")
    length = float(np.sqrt(stats.chi2.isf(min(1.0 / blocks, _BEYOND), size)))
    return length if norm == "l2" else length * float(np.sqrt(size))

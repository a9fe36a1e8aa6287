"""The estimates of blocks of rows, as bounded integers: what sample-and-aggregate sums."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import stats

from dpinfer.errors import OptionError
from dpinfer.numerics.peaks import fit_location, fit_scale, octave
from dpinfer.privacy.exact import binary, sqrt_above

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.schema.expressions import Expression
    from dpinfer.schema.region import Region
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["BINS", "BLOCK_UNIT", "OCTAVES", "BlockRows", "BlockValues", "Frame", "block_values"]

BLOCK_UNIT = 2**12
"""Integer steps in the radius of the ball into which the block estimates are moved."""

OCTAVES = 20
"""Bins of the histogram of scales, each half as wide as the one before."""

BINS = 256
"""Bins of the histogram of locations of one parameter, at most."""

LOCATED = {"l2": 4.0, "l1": 7.0}
"""Signal of a histogram, in standard deviations of Gaussian or Laplace noise, from which its peak is believed."""

_FILLED = 0.85
"""Share of the unit ball that parameters without a peak may take up."""

_UPPER = 1.64
"""Standard errors by which an estimated scale is raised: a winsorising ball too large costs less than one too small."""

_BEYOND = 0.005
"""Largest share of the blocks that winsorising is to move where they are normal."""

_LAPLACE_PRODUCTS = 3
"""Under Laplace noise, scale of the noise of products over that of sums, in units of the ball."""


@dataclass(frozen=True, eq=False)
class BlockValues:
    """What the fits of the blocks gave, moved into the declared region.

    Attributes
    ----------
    estimates : ndarray (k, p)
    spreads : ndarray (h, g)
        Scale of each group of parameters, seen in one block or in a pair; NaN where it could not be had.
    failed, outside : ndarray of bool (k,)
        Blocks without an estimate; blocks whose estimate was outside of the region.
    """

    estimates: Array
    spreads: Array
    failed: NDArray[np.bool_]
    outside: NDArray[np.bool_]


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
    located: NDArray[np.bool_]

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


def block_values(fits: Array, region: Region) -> BlockValues:
    """Turn the fits of blocks, and of their halves, into values of blocks.

    Parameters
    ----------
    fits : ndarray (k, f, p)
        f = 3: of a block and of its two halves, for 2 t - (t_A + t_B)/2. f = 1: of the block alone.
    region : Region

    Returns
    -------
    BlockValues

    Notes
    -----
    Each value depends on the fits of one block only (each spread, with f = 1, on two). A block without a finite fit
    is the centre of the region. One is not corrected if a half has no finite fit, or one outside of the region:
    moved into it, such a fit would not cancel the bias but add one of its own.
    """
    known: NDArray[np.bool_] = np.asarray(np.isfinite(fits).all(axis=-1))
    clipped = region.clip(fits)
    raw = clipped[:, 0]
    unmoved = np.isclose(clipped, np.where(known[..., None], fits, 0.0), rtol=1e-9, atol=0.0)
    inside: NDArray[np.bool_] = np.asarray(known & unmoved.all(axis=-1))
    if fits.shape[1] == 3:
        halved = inside[:, 1] & inside[:, 2]
        raw = np.where(halved[:, None], 2 * raw - (clipped[:, 1] + clipped[:, 2]) / 2, raw)
        apart, usable = (clipped[:, 1] - clipped[:, 2]) / 2, np.asarray(known.all(axis=1))
    else:
        pairs = len(fits) // 2
        first, second = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
        apart, usable = (raw[first] - raw[second]) / np.sqrt(2.0), known[first, 0] & known[second, 0]
    spreads = [np.sqrt((apart[:, list(places)] ** 2).mean(axis=1)) for places in region.places]
    return BlockValues(
        estimates=np.where(known[:, :1], region.clip(raw), region.center),
        spreads=np.where(usable[:, None], np.stack(spreads, axis=1), np.nan),
        failed=~known[:, 0],
        outside=known[:, 0] & ~inside[:, 0],
    )


@dataclass(frozen=True, eq=False)
class BlockRows:
    """How rows become estimates of blocks, and these become integers; public.

    Attributes
    ----------
    schema : Schema
        Columns that are read, with their bounds.
    region : Region
    blocks : int
        Number k of blocks.
    estimator : callable, optional
        ``estimator(frame) -> array_like (p,)``, on the rows of a block or of half a block; not needed to infer.
    halves : bool
        Whether half-blocks are fitted as well, to take off the bias of order 1/m.
    winsorized : bool
        Whether centre and width are found in noisy histograms first; else they are those of the region.
    norm : {"l2", "l1"}
        In which the winsorised estimates are bounded: "l2" for Gaussian noise, "l1" for Laplace.
    where : Expression, optional
        Rows at which it is 0 are left out.
    trusted : bool
        Whether the estimator is the library's own code; any other runs on confidential rows in processes of its own.
    workers : int, optional
        Number of these; -1 for all cores, the default. Public rows are fitted in this process unless it says more.
    stretch : float
        Radius of the winsorising ball over what block estimates that are about normal need.
    progress : bool
    """

    schema: Schema
    region: Region
    blocks: int
    estimator: Callable[[pd.DataFrame], Any] | None = None
    halves: bool = True
    winsorized: bool = True
    norm: Norm = "l2"
    where: Expression | None = None
    trusted: bool = False
    workers: int | None = None
    stretch: float = 1.0
    progress: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        return tuple(sorted(self.schema))

    @property
    def size(self) -> int:
        """Number p of parameters."""
        return len(self.region.names)

    @property
    def groups(self) -> int:
        """Number of groups of parameters."""
        return len(self.region.places)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each sum is: counts of scales, counts of locations, sums, products, and two counts of blocks."""
        names = self.region.names
        found: list[str] = []
        if self.winsorized:
            groups = ["+".join(names[j] for j in places) for places in self.region.places]
            found += [f"scale of {group}: octave {b}" for group in groups for b in range(OCTAVES)]
            found += [f"location of {name}: bin {b}" for name in names for b in range(BINS)]
        upper = zip(*np.triu_indices(self.size), strict=True)
        return (*found, *names, *(f"{names[i]} x {names[j]}" for i, j in upper), "failed blocks", "moved blocks")

    @cached_property
    def parts(self) -> dict[str, slice]:
        """Where the sums of each kind are: "scale", "location", "sum", "product", "count"."""
        sizes = {
            "scale": OCTAVES * self.groups if self.winsorized else 0,
            "location": BINS * self.size if self.winsorized else 0,
            "sum": self.size,
            "product": self.size * (self.size + 1) // 2,
            "count": 2,
        }
        ends = np.cumsum([0, *sizes.values()]).tolist()
        return {name: slice(start, stop) for name, start, stop in zip(sizes, ends[:-1], ends[1:], strict=True)}

    @cached_property
    def units(self) -> Array:
        """Integer steps in one unit of each sum (m,): 1 for counts."""
        found = np.ones(len(self.names))
        found[self.parts["sum"]] = BLOCK_UNIT
        found[self.parts["product"]] = BLOCK_UNIT**2
        return found

    # Bounds

    @property
    def reach(self) -> int:
        """Bound on the norm of an integer row."""
        slack = (Fraction(sqrt_above(Fraction(self.size), binary)) if self.norm == "l2" else Fraction(self.size)) / 2
        return BLOCK_UNIT - (-slack.numerator // slack.denominator)

    @cached_property
    def weights(self) -> Array:
        """Noise of each sum (m,) relative to the others of its kind; of products relative to sums.

        Under Gaussian noise that of a product off the diagonal is 1/sqrt 2, rounded up: it counts twice in the
        Frobenius norm.
        """
        found = np.ones(len(self.names))
        upper = np.triu_indices(self.size)
        if self.norm == "l2":
            off = float(np.nextafter(self.reach / np.sqrt(2.0), np.inf))
            found[self.parts["product"]] = np.where(upper[0] == upper[1], float(self.reach), off)
        else:
            found[self.parts["product"]] = float(_LAPLACE_PRODUCTS * self.reach)
        return found

    @cached_property
    def sensitivities(self) -> dict[str, Fraction]:
        """Bound on the change of each kind of sums when one block changes, in integer steps.

        Notes
        -----
        A histogram: the block, or pair, leaves one bin and enters another. Sums and products together: let q be
        the integer row, abs(q) <= Q, and z = (Q/sqrt 2, q). The Frobenius norm of z z' - w w' is at most
        sqrt 2 (3/2) Q^2, and its square is Q^2 abs(q - r)^2 + norm(q q' - r r')^2: so with products, over Q, the
        change has norm at most sqrt(9/2) Q. L1: sums 2 Q, products of the upper triangle 2 Q^2. A single parameter:
        with a = abs(q - r)/Q and abs(q + r)/Q <= 2 - a, both a^2 (1 + (2 - a)^2) and a (1 + (2 - a)/3) grow with a, to
        4 and 2 at a = 2: products cost nothing.
        """
        reach = Fraction(self.reach)
        if self.norm == "l2":
            scale, location, counts = (_root(Fraction(2 * n)) for n in (self.groups, self.size, 1))
            total = _root(Fraction(9, 2) * reach**2) if self.size > 1 else 2 * reach
        else:
            scale, location, counts = Fraction(2 * self.groups), Fraction(2 * self.size), Fraction(2)
            total = 2 * reach * (1 + Fraction(1, _LAPLACE_PRODUCTS) if self.size > 1 else 1)
        histograms = {"scale": scale, "location": location} if self.winsorized else {}
        return {**histograms, "sum": total, "count": counts}

    # Integers

    def scale_counts(self, values: BlockValues) -> NDArray[np.int64]:
        """Count spreads by octave, group by group."""
        counts = np.zeros((self.groups, OCTAVES), dtype=np.int64)
        for group, radius in enumerate(self.region.radii):
            spreads = values.spreads[:, group]
            bins = octave(spreads[np.isfinite(spreads)], 2 * radius, OCTAVES)
            counts[group] = np.bincount(bins, minlength=OCTAVES)
        return counts.ravel()

    def location_counts(self, values: BlockValues, scales: Array) -> NDArray[np.int64]:
        """Count estimates by bins about as wide as the scale, parameter by parameter; failed blocks are in none."""
        counts = np.zeros((self.size, BINS), dtype=np.int64)
        for place in range(self.size):
            ends = self.ends(place, scales)
            bins = np.searchsorted(ends[1:-1], values.estimates[~values.failed, place], side="right")
            counts[place] = np.bincount(bins, minlength=BINS)
        return counts.ravel()

    def ends(self, place: int, scales: Array) -> Array:
        """Return the ends of the bins of a parameter, evenly spaced over its declared interval."""
        radius = self.region.radius[place]
        level = np.floor(np.log2(2 * radius / scales[self.region.group[place]]))
        bins = 2 ** int(np.clip(level, 1, np.log2(BINS)))
        return np.asarray(self.region.center[place] + np.linspace(-radius, radius, bins + 1))

    def sums(self, values: BlockValues, frame: Frame) -> NDArray[np.int64]:
        """Sum winsorised estimates, their products, and the counts of failed and of moved blocks.

        A failed block counts as the centre of the frame, so that it draws the mean to where other blocks are.
        """
        v = (values.estimates - frame.center) / frame.half
        v = np.where(np.isfinite(v) & ~values.failed[:, None], v, 0.0)
        length = np.sqrt((v**2).sum(axis=1)) if self.norm == "l2" else np.abs(v).sum(axis=1)
        whole = np.rint(v / np.maximum(length, 1.0)[:, None] * BLOCK_UNIT).astype(np.int64)
        size = (whole**2).sum(axis=1) if self.norm == "l2" else np.abs(whole).sum(axis=1)
        whole[size > (self.reach**2 if self.norm == "l2" else self.reach)] = 0
        products = (whole.T @ whole)[np.triu_indices(self.size)]
        moved = ~values.failed & (values.outside | (length > 1.0))
        return np.concatenate([whole.sum(axis=0), products, [values.failed.sum(), moved.sum()]])

    # Reading noisy counts

    def scales(self, counts: Array, noise: float) -> tuple[Array, Array, Array]:
        """Fit the scale of each group: scale, error of its logarithm, signal, each (g,)."""
        found = [
            fit_scale(mine, width=2 * radius, dof=max(1.0, len(places) / 2), noise=noise)
            for mine, radius, places in zip(
                counts.reshape(self.groups, OCTAVES), self.region.radii, self.region.places, strict=True
            )
        ]
        scale, error, signal = np.array(found).T
        return scale, error, signal

    def frame(self, counts: Array, noise: float, scales: tuple[Array, Array, Array]) -> Frame:
        """Fit the centre of each parameter and say where its block estimates are winsorised.

        Parameters
        ----------
        counts : ndarray (p 256,)
            Noisy counts of locations.
        noise : float
            Their standard deviation.
        scales
            As `scales` returned.
        """
        scale, uncertain, signal = (part[self.region.group] for part in scales)
        center, half = np.zeros(self.size), np.zeros(self.size)
        located = signal >= LOCATED[self.norm]
        radius = self.stretch * limit(self.blocks, self.size, self.norm)
        for place, mine in enumerate(counts.reshape(self.size, BINS)):
            ends = self.ends(place, scales[0])
            center[place], error, peak = fit_location(
                mine[: len(ends) - 1], ends=ends, scale=float(scale[place]), noise=noise
            )
            located[place] &= peak >= LOCATED[self.norm]
            wide = scale[place] * np.exp(_UPPER * min(float(uncertain[place]), 1.0))
            half[place] = radius * np.hypot(wide, min(error, float(scale[place])))
            if len(ends) == BINS + 1 and ends[1] - ends[0] > scale[place]:
                half[place] += ends[1] - ends[0]
        for places in self.region.places:  # a group is located as a whole
            located[list(places)] = located[list(places)].all()
        whole = self.whole.half / (_FILLED if located.any() else 1.0)
        return Frame(
            np.where(located, center, self.region.center), np.where(located, np.minimum(half, whole), whole), located
        )

    @cached_property
    def whole(self) -> Frame:
        """The frame of the declared region itself, which holds every value."""
        sizes = np.array([len(places) for places in self.region.places])[self.region.group]
        room = np.sqrt(self.groups) if self.norm == "l2" else self.groups * np.sqrt(sizes)
        return Frame(self.region.center, self.region.radius * room, np.zeros(self.size, dtype=bool))


def limit(blocks: int, size: int, norm: Literal["l2", "l1"]) -> float:
    """Norm of a standard normal vector that about one block in all exceeds, or one in two hundred; for "l1" a bound."""
    if blocks < 2 or size < 1:
        raise OptionError("blocks", blocks, "at least 2")
    length = float(np.sqrt(stats.chi2.isf(min(1.0 / blocks, _BEYOND), size)))
    return length if norm == "l2" else length * float(np.sqrt(size))


def _root(squared: Fraction) -> Fraction:
    return Fraction(sqrt_above(squared, binary))

"""Sums over the estimates of secret blocks of rows: histograms of their scale and place, and winsorised moments."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np

from dpinfer.errors import NotProvedError, OptionError, type_of
from dpinfer.kernel.rows.base import Array, Flags, Ints, Places, RowSum
from dpinfer.privacy.sensitivity import Norm, norm_above
from dpinfer.schema.region import Region

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from dpinfer.privacy.units import Neighbors
    from dpinfer.schema.nodes import Expression
    from dpinfer.schema.schema import Schema


BLOCK_UNIT = 2**12
"""Integer steps in the radius of the ball into which the block estimates are moved."""

OCTAVES = 20
"""Bins of the histogram of scales, each half as wide as the one before."""

BINS = 256
"""Bins of the histogram of locations of one parameter, at most."""

MOST_BLOCKS = 2**20
"""Blocks that rows can be dealt into: sums over so many are far below the largest integer."""

_LAPLACE_PRODUCTS = 3
"""Under Laplace noise, scale of the noise of products over that of sums, in units of the ball."""


class OwnEstimator:
    """What marks the library's own estimators, which see confidential rows in this process; nobody else's can be."""

    def __init_subclass__(cls) -> None:
        if cls.__module__.partition(".")[0] != __name__.partition(".")[0]:
            raise TypeError("OwnEstimator is for the library's own code: any other runs in a process of its own")

    @property
    def of_halves(self) -> OwnEstimator:
        """What is fitted to half a block."""
        return self


@dataclass(frozen=True, eq=False)
class Blocks:
    """Secret blocks as the unit that is summed: how rows are dealt into ``count`` of them, and what is fitted to each.

    A ``count`` of None waits for what is released before the first sum over blocks: the procedure is asked for it then.
    ``estimator(frame)`` returns p numbers on the rows of a block, or of half a block where ``halves`` asks for these
    too, to take off the bias of order 1/m; every estimate is moved into the ``region``. Where ``most`` is given, of
    each half of a block at most half as many rows are fitted, drawn at random. Of ``workers`` -1 stands for all cores,
    the default. Public rows are fitted in this process unless it says more.
    """

    schema: Schema
    region: Region
    count: int | None
    estimator: Callable[[pd.DataFrame], Any]
    halves: bool = True
    where: Expression | None = None
    most: int | None = None
    workers: int | None = None
    progress: bool = False

    def check(self) -> None:
        """Refuse a region, numbers of blocks or of rows that are none."""
        check_region(self.region)
        if self.count is not None:
            check_count(self.count)
        if self.most is not None and not (type(self.most) is int and self.most >= 2):
            raise OptionError("most", type_of(self.most), "a whole number of rows of a block, 2 or more, or None")

    @property
    def trusted(self) -> bool:
        """Whether the estimator is the library's own code; any other runs on confidential rows in other processes."""
        return issubclass(type(self.estimator), OwnEstimator)  # not what an object says that it is

    @property
    def half_estimator(self) -> Callable[[pd.DataFrame], Any]:
        """What is fitted to half a block: the library's own estimators may ask more of it than of a whole one."""
        return self.estimator.of_halves if self.trusted else self.estimator  # type: ignore[attr-defined]

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        return tuple(sorted(self.schema))

    @property
    def most_of_half(self) -> int | None:
        """Rows of half a block that are fitted at most."""
        return None if self.most is None else self.most // 2

    @property
    def size(self) -> int:
        """Number p of parameters."""
        return len(self.region.names)


def check_count(count: object) -> None:
    """Refuse what is no number of blocks."""
    if type(count) is not int or not 1 <= count <= MOST_BLOCKS:
        raise OptionError("count", type_of(count), f"a whole number of blocks from 1 to {MOST_BLOCKS:,}")


def check_region(region: object) -> None:
    """Refuse what is no region."""
    if type(region) is not Region:
        raise OptionError("region", type_of(region), "a Region")
    try:
        Region.from_dict(region.to_dict())
    except (KeyError, TypeError, ValueError):
        raise OptionError("region", type_of(region), "balls of positive radius around a finite centre") from None


@dataclass(frozen=True, eq=False)
class BlockValues:
    """What the fits of k blocks gave, moved into the declared region.

    ``spreads`` (h, g) are the scales of the g groups of parameters, each seen in one block or in a pair; NaN where one
    could not be had. ``failed`` marks blocks without an estimate, ``outside`` those whose estimate was outside of the
    region.
    """

    estimates: Array
    spreads: Array
    failed: Flags
    outside: Flags


def block_values(fits: Array, region: Region) -> BlockValues:
    """Turn the fits of blocks, and of their halves, into values of blocks.

    ``fits`` (k, f, p) hold with f = 3 a block and its two halves, for 2 t - (t_A + t_B)/2, and with f = 1 the block
    alone. Each value depends on the fits of one block only (each spread, with f = 1, on two). A block without a finite
    fit is the centre of the region. One is not corrected if a half has no finite fit, or one outside of the region:
    moved into it, such a fit would not cancel the bias but add one of its own.
    """
    known: Flags = np.asarray(np.isfinite(fits).all(axis=-1))
    clipped = region.clip(fits)
    raw = clipped[:, 0]
    unmoved = np.isclose(clipped, np.where(known[..., None], fits, 0.0), rtol=1e-9, atol=0.0)
    inside: Flags = np.asarray(known & unmoved.all(axis=-1))
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
class BlockSum(RowSum):
    """A sum over blocks. A neighbour changes the estimate of one block, from anywhere to anywhere in the region."""

    schema: Schema
    region: Region

    keeps_every_row = False  # a block may count in no bin

    def check(self) -> None:
        """Refuse what is no region."""
        check_region(self.region)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        return tuple(sorted(self.schema))

    @property
    def size(self) -> int:
        """Number p of parameters."""
        return len(self.region.names)

    @property
    def _histograms(self) -> int:
        return self.size

    def part_changes(self, neighbors: Neighbors, norm: Norm) -> tuple[Fraction, ...]:  # noqa: ARG002
        """Bound on the change of all counts: in each histogram a block, or pair, leaves one bin and enters another."""
        return (norm_above(2 * self._histograms, norm),)


@dataclass(frozen=True, eq=False)
class OctaveCounts(BlockSum):
    """Counts the spread of each group of parameters, seen in a block or a pair of blocks, by octaves."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each count is."""
        names = self.region.names
        groups = ["+".join(names[j] for j in places) for places in self.region.places]
        return tuple(f"scale of {group}: octave {b}" for group in groups for b in range(OCTAVES))

    @property
    def _histograms(self) -> int:
        return len(self.region.places)

    def add(self, batch: BlockValues) -> Ints:  # type: ignore[override]
        """Count spreads by octave, group by group (1, m)."""
        counts = np.zeros((len(self.region.places), OCTAVES), dtype=np.int64)
        for group, radius in enumerate(self.region.radii):
            spreads = batch.spreads[:, group]
            bins = octave(spreads[np.isfinite(spreads)], 2 * radius, OCTAVES)
            counts[group] = np.bincount(bins, minlength=OCTAVES)
        return counts.reshape(1, -1)


@dataclass(frozen=True, eq=False)
class PlaceCounts(BlockSum):
    """Counts the estimates of each parameter in even bins over its declared interval; failed blocks are in none."""

    bins: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.bins) != self.size or not all(type(one) is int and 1 <= one <= BINS for one in self.bins):
            raise OptionError("bins", len(self.bins), f"whole numbers from 1 to {BINS}, one for each parameter")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each count is."""
        listed = zip(self.region.names, self.bins, strict=True)
        return tuple(f"location of {name}: bin {b}" for name, bins in listed for b in range(bins))

    def ends(self, place: int) -> Array:
        """Return the ends of the bins of a parameter."""
        radius = self.region.radius[place]
        return np.asarray(self.region.center[place] + np.linspace(-radius, radius, self.bins[place] + 1))

    def add(self, batch: BlockValues) -> Ints:  # type: ignore[override]
        """Count estimates by bin, parameter by parameter (1, m)."""
        known = batch.estimates[~batch.failed]
        counts = [
            np.bincount(np.searchsorted(self.ends(j)[1:-1], known[:, j], side="right"), minlength=self.bins[j])
            for j in range(self.size)
        ]
        return np.concatenate(counts).astype(np.int64)[None]


@dataclass(frozen=True, eq=False)
class BlockMoments(BlockSum):
    """Sums and products of block estimates, moved into a ball; and the numbers of failed and of moved blocks.

    An estimate t is v = (t - center) / half, moved into the unit ball of the norm ("l2" for Gaussian noise, "l1" for
    Laplace) and put on a grid. A failed block counts as the centre, so that it draws the mean to where other blocks
    are.
    """

    center: tuple[float, ...] = ()
    half: tuple[float, ...] = ()
    norm: Norm = "l2"

    def __post_init__(self) -> None:
        right = len(self.center) == len(self.half) == self.size and all(one > 0 for one in self.half)
        if not (right and np.isfinite(self.center).all() and np.isfinite(self.half).all()):
            raise OptionError("half", type_of(self.half), f"{self.size} centres and positive half widths")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each sum is: estimates, their products, and two counts of blocks."""
        names = self.region.names
        upper = zip(*np.triu_indices(self.size), strict=True)
        return (*names, *(f"{names[i]} x {names[j]}" for i, j in upper), "failed blocks", "moved blocks")

    @property
    def _products(self) -> int:
        return self.size * (self.size + 1) // 2

    @property
    def units(self) -> Array:
        """The number 1 in each integer sum (m,): of products that of the ball squared."""
        return np.repeat([float(BLOCK_UNIT), float(BLOCK_UNIT) ** 2, 1.0], [self.size, self._products, 2])

    @property
    def parts(self) -> tuple[str, ...]:
        """Sums with their products, and counts."""
        return ("sums", "counts")

    @property
    def part_of(self) -> Places:
        """Which part each sum is in (m,)."""
        return np.repeat([0, 1], [self.size + self._products, 2])

    @property
    def reach(self) -> int:
        """Bound on the norm of an integer vector: the ball, and what rounding adds."""
        slack = norm_above(self.size, self.norm) / 2
        return BLOCK_UNIT - (-slack.numerator // slack.denominator)

    def pattern(self, norm: Norm) -> Array:
        """Noise of products over that of sums (m,).

        Under Gaussian noise that of a product off the diagonal is 1/sqrt 2, rounded up: it counts twice in the
        Frobenius norm.
        """
        found = np.ones(len(self.names))
        products = slice(self.size, self.size + self._products)
        row, column = np.triu_indices(self.size)
        if norm == "l2":
            off = float(np.nextafter(self.reach / np.sqrt(2.0), np.inf))
            found[products] = np.where(row == column, float(self.reach), off)
        else:
            found[products] = float(_LAPLACE_PRODUCTS * self.reach)
        return found

    def part_changes(self, neighbors: Neighbors, norm: Norm) -> tuple[Fraction, ...]:  # noqa: ARG002
        """Bound on the change of sums with products, and of counts, when one block changes, in integer steps.

        Let q be the integer vector, abs(q) <= Q, and z = (Q/sqrt 2, q). The Frobenius norm of z z' - w w' is at most
        sqrt 2 (3/2) Q^2, and its square is Q^2 abs(q - r)^2 + norm(q q' - r r')^2: so with products, over Q, the change
        has norm at most sqrt(9/2) Q. L1: sums 2 Q, products of the upper triangle 2 Q^2. A single parameter: with a =
        abs(q - r)/Q and abs(q + r)/Q <= 2 - a, both a^2 (1 + (2 - a)^2) and a (1 + (2 - a)/3) grow with a, to 4 and 2
        at a = 2: products cost nothing. Of the two counts a block changes each by at most 1; it is in one of them at
        most. Noise of another norm than the ball's is not proved.
        """
        if norm != self.norm:
            raise NotProvedError(f"block estimates are in a ball of norm {self.norm}: {norm} noise is not proved")
        reach = Fraction(self.reach)
        if norm == "l2":
            return norm_above(Fraction(9, 2) * reach**2, norm) if self.size > 1 else 2 * reach, norm_above(2, norm)
        return 2 * reach * (1 + Fraction(1, _LAPLACE_PRODUCTS) if self.size > 1 else 1), Fraction(2)

    def add(self, batch: BlockValues) -> Ints:  # type: ignore[override]
        """Sum moved estimates, their products, and the counts (1, m)."""
        with np.errstate(all="ignore"):
            v = (batch.estimates - np.asarray(self.center)) / np.asarray(self.half)
            v = np.where(np.isfinite(v) & ~batch.failed[:, None], v, 0.0)
            length = np.sqrt((v**2).sum(axis=1)) if self.norm == "l2" else np.abs(v).sum(axis=1)
            whole = np.rint(v / np.maximum(length, 1.0)[:, None] * BLOCK_UNIT).astype(np.int64)
        size = (whole**2).sum(axis=1) if self.norm == "l2" else np.abs(whole).sum(axis=1)
        whole[size > (self.reach**2 if self.norm == "l2" else self.reach)] = 0
        products = (whole.T @ whole)[np.triu_indices(self.size)]
        moved = ~batch.failed & (batch.outside | (length > 1.0))
        return np.concatenate([whole.sum(axis=0), products, [batch.failed.sum(), moved.sum()]])[None].astype(np.int64)


def octave(values: Array, width: float, count: int) -> Places:
    """Bin of positive values on a binary logarithmic scale: bin b holds ``width 2^-(b+1) < x <= width 2^-b``.

    Values above ``width`` are in the first bin, values below all others in the last.
    """
    with np.errstate(all="ignore"):
        found = np.floor(-np.log2(np.maximum(values, 0.0) / width))
    bins: Places = np.clip(np.nan_to_num(found, nan=count - 1), 0, count - 1).astype(np.intp)
    return bins


def packed(estimator: Callable[[Any], Any]) -> bytes:
    """Return what is sent to another process; `OptionError` for what cannot be sent."""
    try:
        return bytes(cloudpickle.dumps(estimator))
    except Exception as error:
        raise OptionError(
            "model",
            called(estimator),
            "a function that can be sent to another process (it, or a variable it uses, cannot be pickled: "
            f"{type(error).__name__}); create locks, connections and open files within the function",
        ) from error


def called(estimator: Callable[[Any], Any]) -> str:
    """Return what errors call a model: as the user does."""
    return str(getattr(estimator, "__name__", type(estimator).__name__))

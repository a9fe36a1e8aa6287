"""Secret blocks of rows: their number, the winsorising of their estimates, the stages and the expected error."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy import stats

from dpinfer.errors import OptionError
from dpinfer.kernel.price import amounts, price_stage
from dpinfer.kernel.rows.blocks import BINS, MOST_BLOCKS, OCTAVES, BlockMoments, BlockValues, OctaveCounts, PlaceCounts
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.stage import Context, Slot, Stage, Sum
from dpinfer.privacy.units import Privacy, PureDP
from dpinfer.procedures.options import kept_where
from dpinfer.procedures.procedure import first_error, sizes_shown
from dpinfer.release.release import decode
from dpinfer.schema.grid import constant_basis

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.release import StageRelease
    from dpinfer.schema.region import Region
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array, Mask


FEWEST, MOST = 8, MOST_BLOCKS
"""Range of the number of blocks."""

COUNT_SHARE = ROWS_SHARE = Fraction(1, 50)
"""Shares of the budget for the counts of failed and winsorised blocks, and for a noisy count of rows, where that
decides how many blocks there are."""

_SIGNAL, _ENOUGH = {"l2": 10.0, "l1": 14.0}, {"l2": 5.0, "l1": 9.0}
"""Signal that histograms are to have, and the least with which blocks are winsorised, by norm of the noise."""

_CAP, _FLOOR = 0.4, 0.02
"""Bounds on the budget share of histograms, together and each."""

_LITTLE, _WIDEST = 0.25, 3.0
"""Privacy noise over sampling error up to which the winsorising ball is widened, and by how much at most."""

_HEIGHTS = 0.25, 0.28
"""Sums of squared shares of the bins of scale and of place, for estimates that are about normal."""

_SMALL = 0.6
"""Share of `block_size` below which results warn of small blocks."""

LOCATED = {"l2": 4.0, "l1": 7.0}
"""Signal of a histogram, in standard deviations of Gaussian or Laplace noise, from which its peak is believed."""

_FILLED = 0.85
"""Share of the unit ball that parameters without a peak may take up."""

_UPPER = 1.64
"""Standard errors by which an estimated scale is raised: a winsorising ball too large costs less than one too small."""

_BEYOND = 0.005
"""Largest share of the blocks that winsorising is to move where they are normal."""

_MOST_BINS = 256

_DRAWS = 300
"""Simulated releases: a probability of 0.3 is known to 0.026."""

_MOST = 4096
"""Largest number of simulated blocks; of more, a sample is simulated with equally small noise."""

_WIDE = 16.0
"""Radius of the region over the spread between blocks, in the simulation."""

_RATIOS = (4.0, 16.0, 64.0)
"""The same, for which `explain` reports the expected error."""


# The number of blocks


def block_size(nobs: float, size: int, *, halves: bool) -> float:
    """Rows that a block should have, so that the remaining bias is a fraction of the standard error.

    Bias over standard error goes as m^-2 n^(1/2) with the correction by half-blocks, as m^-1 n^(1/2) without; the
    constants leave about a quarter in a logit with slopes up to 1 (`validation/blocks/aggregate_coverage.py`).
    """
    wanted = 4 * size**0.75 * nobs**0.25 if halves else 3 * np.sqrt(size * nobs)
    return float(max(wanted, 20 * (size + 1)))


def small_blocks(
    nobs: float | None, blocks: int, size: int, *, halves: bool, doubt: float = 0.0, most: int | None = None
) -> tuple[str, ...]:
    """Warn if blocks of a known number of rows are much smaller than `block_size` advises.

    ``doubt`` bounds the error of a noisy number. At most ``most`` rows of a block are fitted.
    """
    if nobs is None:
        return ()
    largest = np.inf if most is None else float(most * blocks)
    upper, nobs = min(max(nobs + doubt, 1.0), largest), min(nobs, largest)
    if upper / blocks >= _SMALL * block_size(upper, size, halves=halves):
        return ()
    held, wanted = max(nobs, 0.0) / blocks, block_size(max(nobs, 1.0), size, halves=halves)
    return (
        f"a block holds about {held:,.0f} rows for {size} parameter{'s' if size > 1 else ''}: the bias of its "
        f"estimates, which averaging over blocks does not remove, may not be small (about {wanted:,.0f} rows are "
        "recommended)",
    )


def number_of_blocks(
    blocks: int | Literal["auto"],
    nobs: float | None,
    size: int,
    *,
    counted: bool,
    halves: bool,
    most: int | None = None,
) -> int | Literal["auto"]:
    """Return the requested number of blocks, or one that suits a number of rows.

    If none is known it is "auto", provided that rows can be ``counted`` since their number is not public. At most
    ``most`` rows of a block are fitted.

    Raises
    ------
    OptionError
        If blocks would be too small for the parameters, or no public number of rows is known.
    """
    least = 4 * (size + 1) if halves else 2 * (size + 1)
    if most is not None and most < least:
        raise OptionError("max_block_rows", most, f"at least {least} rows for {size} parameters, or None")
    if nobs is None and (isinstance(blocks, int) or counted):
        return blocks
    if nobs is None:
        right = "a number of blocks, nobs= or data: the number of rows is public under replace_one"
    elif isinstance(blocks, int):
        if nobs / blocks >= least:
            return blocks
        right = f"at most {max(int(nobs / least), 0):,}: blocks of at least {least} rows for {size} parameters"
    else:
        wanted = block_size(nobs, size, halves=halves)
        if nobs / wanted >= FEWEST:
            return int(min(nobs / wanted, MOST))
        right = f"more rows: {nobs:,.0f} are too few for {size} parameters (about {FEWEST * wanted:,.0f} needed)"
    raise OptionError("blocks", blocks, right)


# Where block estimates are winsorised


@dataclass(frozen=True, slots=True)
class Frame:
    """The winsorising region of block estimates: v = (t - center) / half, projected onto the unit ball.

    Attributes
    ----------
    center, half : ndarray (p,)
    located : ndarray of bool (p,)
        Whether centre and width come from the noisy histograms; otherwise they are those of the declared region.
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
        center, half = (decode(name, stored[name], np.ndarray) for name in ("center", "half"))
        located = decode("located", stored["located"], tuple[bool, ...])
        right = center.shape == half.shape == (size,) == (len(located),)
        if not (right and ((np.abs(center) <= 1e100) & (half >= 1e-100) & (half <= 1e100)).all()):
            raise ValueError("the frame of the block estimates is damaged")
        return cls(center, half, np.array(located, dtype=bool))


def find_scales(region: Region, counts: Array, noise: float) -> Array:
    """Fit the scale of each group to counts of spreads by octave (g octaves,), with noise deviation ``noise``.

    Returns scales, errors of their logarithms, and heights of the peaks in standard deviations of the noise (3, g).

    A spread has as many degrees of freedom as there are parameters if these vary alike, and one if a single parameter
    has all the variation; the best fit decides. The scale returned is that of parameters that vary alike and whose
    norm is exceeded by as few blocks, so that a ball in its units holds as many whichever it is.
    """
    groups = zip(counts.reshape(len(region.radii), -1), region.radii, region.places, strict=True)
    found = []
    for one, radius, places in groups:
        size, fits = len(places), []
        for dof in sorted({1.0, max(1.0, size / 2), float(size)}):
            scale, error, signal = fit_scale(one, width=2 * radius, dof=dof, noise=noise)
            longer = np.sqrt(size / dof * stats.chi2.isf(_BEYOND, dof) / stats.chi2.isf(_BEYOND, size))
            fits.append((scale * float(longer), error, signal))
        found.append(max(fits, key=lambda fit: fit[2]))
    return np.array(found).T


def bins_of(region: Region, scales: Array) -> tuple[int, ...]:
    """Return the number of bins, about as wide as its scale, in each parameter's declared interval."""
    level = np.floor(np.log2(2 * region.radius / scales[0, region.group]))
    return tuple(2 ** int(one) for one in np.clip(level, 1, np.log2(_MOST_BINS)))


def find_frame(region: Region, counts: Array, noise: float, scales: Array, *, norm: Norm, radius: float) -> Frame:
    """Fit the centre of each parameter and return the winsorising region of its block estimates.

    Parameters
    ----------
    region : Region
    counts : ndarray (m,)
        Noisy counts of estimates in the bins of `bins_of`, parameter by parameter.
    noise : float
        Their standard deviation.
    scales : ndarray (3, g)
        As `find_scales` returns them.
    norm : {"l2", "l1"}
    radius : float
        Of the winsorising ball, in units of the scale.
    """
    size, bins = len(region.names), bins_of(region, scales)
    scale, uncertain, signal = scales[:, region.group]
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
    """Return the frame of the whole declared region."""
    sizes = np.array([len(places) for places in region.places])[region.group]
    room = np.sqrt(len(region.places)) if norm == "l2" else len(region.places) * np.sqrt(sizes)
    return Frame(region.center, region.radius * room, np.zeros(len(region.names), dtype=bool))


def limit(blocks: int, size: int, norm: Norm) -> float:
    """Norm that about one block in all, or one in two hundred, of standard normal vectors exceeds; a bound for "l1"."""
    length = float(np.sqrt(stats.chi2.isf(min(1.0 / blocks, _BEYOND), size)))
    return length if norm == "l2" else length * float(np.sqrt(size))


# Stages


class BlockShares(NamedTuple):
    """Shares of the budget.

    Attributes
    ----------
    octaves, places : Fraction
        For the histograms of scale and location; 0 if blocks are bounded by the region alone.
    rows : Fraction
        For a noisy count of rows; 0 if the number of blocks is known in advance.
    moments : Fraction
        For sums, products and the counts of failed and of winsorised blocks: the rest of the budget.
    """

    octaves: Fraction
    places: Fraction
    rows: Fraction

    @property
    def moments(self) -> Fraction:
        """See the class."""
        return 1 - self.rows - self.octaves - self.places


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """The sums over blocks under given privacy parameters, and their stages.

    Attributes
    ----------
    schema : Schema
        The columns used.
    region : Region
    count : int or None
        Number k of blocks; None if it is chosen from a noisy count of rows.
    halves : bool
        Whether half-blocks are fitted as well.
    winsorized : bool
        Whether to locate block estimates, if the budget suffices.
    context : Context
        What is public about the run.
    where : str, optional
        A condition on the rows.
    given : BlockShares, optional
        Shares of the budget, if they were fixed before the number of blocks was known.
    """

    schema: Schema
    region: Region
    count: int | None
    halves: bool
    winsorized: bool
    context: Context
    where: str | None = None
    given: BlockShares | None = None

    @property
    def size(self) -> int:
        """Number p of parameters."""
        return len(self.region.names)

    @property
    def norm(self) -> Norm:
        """Norm of the winsorising ball: that of the noise."""
        return "l1" if isinstance(self.context.privacy, PureDP) else "l2"

    @cached_property
    def shares(self) -> BlockShares:
        """Shares of the budget: none for histograms that noise would hide at any reasonable share.

        Notes
        -----
        A peak of estimates spread over about one bin has signal k h^(1/2) / s, where h is the sum of squared shares of
        the bins and s the noise of a count. This is known before anything is measured. If k is not, histograms get the
        largest share: few blocks need it, and it costs many blocks little.
        """
        if self.given is not None:
            return self.given
        nothing = Fraction(0)
        rows, signal = nothing if self.count else ROWS_SHARE, _SIGNAL[self.norm]
        if not self.winsorized:
            return BlockShares(nothing, nothing, rows)
        wanted, count = [], self.count or FEWEST
        histograms = self.octaves, PlaceCounts(self.schema, self.region, (BINS,) * self.size)
        pairs = count if self.halves else count // 2  # of blocks, whose spreads are counted
        for histogram, height, counted in zip(histograms, _HEIGHTS, (pairs, count), strict=True):
            ratio = signal * self.noise(Stage(Sum(histogram)), self.context.privacy) / (counted * np.sqrt(height))
            wanted.append(max(ratio if self.norm == "l1" else ratio**2, _FLOOR))
        spared = _CAP / sum(wanted)
        if self.count is not None:
            spared = min(1.0, spared)
            if signal * (spared if self.norm == "l1" else np.sqrt(spared)) < _ENOUGH[self.norm]:
                return BlockShares(nothing, nothing, rows)
        octaves, places = (Fraction(share * spared).limit_denominator(10**6) for share in wanted)
        return BlockShares(octaves, places, rows)

    @property
    def octaves(self) -> OctaveCounts:
        """Counts of the scales of block estimates."""
        return OctaveCounts(self.schema, self.region)

    def noise(self, stage: Stage, amount: Privacy) -> float:
        """Return the standard deviation of the noise of a stage's first sum, in its units."""
        return first_error(price_stage(stage, amount, self.context))

    @property
    def located(self) -> bool:
        """Whether block estimates are located, rather than bounded by the region alone."""
        return self.shares.places > 0

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Small shares for a count of rows and histograms of scale and place, the rest for sums over the blocks."""
        size, shares = self.size, self.shares
        moments = size + size * (size + 1) // 2 + 2
        first = (Slot(shares.rows, 1),) if shares.rows else ()
        if not self.located:
            return (*first, Slot(shares.moments, moments, adaptive=bool(first)))
        octaves = Slot(shares.octaves, len(self.region.places) * OCTAVES)
        places = Slot(shares.places, size * BINS, adaptive=True)
        return (*first, octaves, places, Slot(shares.moments, moments, adaptive=True))

    @cached_property
    def radius(self) -> float:
        """Radius of the winsorising ball, in units of the spread between blocks.

        It is wider than normal estimates need as long as that costs little, so that skewed ones are not truncated.
        """
        noise = self.noise(self.moments(), amounts(self.context.privacy, self.slots)[-1])
        needed = limit(self.known, self.size, self.norm)
        ratio = noise / self.known * needed * np.sqrt(self.known)
        wide = _LITTLE / ratio if ratio > 0 else _WIDEST  # no noise: a price that is refused when stages are known
        return float(np.clip(wide, 1.0, _WIDEST)) * needed

    def stage(self, place: int, released: tuple[StageRelease, ...]) -> Stage:
        """Ask for the scale of block estimates, then their location, then sums of winsorised estimates.

        If the number of blocks is not known in advance, ask for the number of rows first.
        """
        if self.count is None and place == 0:
            return self.counting
        if self.located and place == (self.count is None):  # the same whatever was counted
            return Stage(Sum(self.octaves))
        if self.count is None:
            return self.settled(released).stage(place - 1, released[1:])
        if not self.located:
            return self.moments()
        noise = [float(np.sqrt(one.noise_variances[0])) for one in released]
        scales = find_scales(self.region, released[0].array, noise[0])
        if place == 1:
            return Stage(Sum(PlaceCounts(self.schema, self.region, bins_of(self.region, scales))))
        counts = released[1].array
        return self.moments(find_frame(self.region, counts, noise[1], scales, norm=self.norm, radius=self.radius))

    def moments(self, frame: Frame | None = None) -> Stage:
        """Ask for sums of block estimates that are winsorised in a frame, by default that of the declared region."""
        frame = whole_frame(self.region, self.norm) if frame is None else frame
        center, half = tuple(frame.center.tolist()), tuple(frame.half.tolist())
        rows = BlockMoments(self.schema, self.region, center, half, self.norm)
        counts = float(COUNT_SHARE / self.shares.moments)
        blocks = {} if self.given is None else {"blocks": self.known}
        return Stage(Sum(rows, shares=(1 - counts, counts)), settings={**frame.to_dict(), **blocks})

    @property
    def known(self) -> int:
        """The number of blocks, if it does not depend on a count of rows."""
        assert self.count is not None
        return self.count

    @property
    def counting(self) -> Stage:
        """Ask for the number of rows that are assigned to blocks."""
        return Stage(Sum(CellSum(Features(constant_basis(self.schema), kept_where(self.where, self.schema)))))

    def settled(self, released: tuple[StageRelease, ...]) -> BlockPlan:
        """Return the plan with its number of blocks, which may follow from a noisy count of rows."""
        return self.over(float(released[0].array[0])) if self.count is None else self

    def over(self, nobs: float) -> BlockPlan:
        """Return the plan for any noisy number of rows, with the shares that were fixed before."""
        rows = max(nobs, 1.0)
        count = int(np.clip(rows / block_size(rows, self.size, halves=self.halves), FEWEST, MOST))
        return replace(self, count=count, given=self.shares)


# What is to be expected


class Forecast(NamedTuple):
    """Expected errors of p coefficients, over simulated releases.

    Attributes
    ----------
    missed : ndarray of bool (R, p)
        Whether a coefficient was not located.
    noise : ndarray (R, p)
        Standard deviation of the privacy noise of an estimate over its sampling error, with the region 2 `_WIDE`
        spreads between blocks wide.
    error : ndarray (R, p)
        Error of the estimate from sampling, noise and winsorising, over its sampling error; for the same region.
    """

    missed: Mask
    noise: Array
    error: Array

    def expected_error(self, ratio: float) -> float:
        """Root mean square error of all estimates over their sampling error, the region 2 ``ratio`` spreads wide."""
        lost = 1 + (self.noise * ratio / _WIDE) ** 2
        return float(np.sqrt(np.where(self.missed, lost, self.error**2).mean()))


def forecast(plan: BlockPlan, *, draws: int = _DRAWS) -> Forecast:
    """Simulate the release of a located plan with a known number of blocks, with a public seed.

    Block estimates are normal, independent, and of one spread in each group of parameters; their centre is anywhere in
    the inner half of the region. The true values are unknown: this is only an expectation.
    """
    rng, count = np.random.default_rng(0), min(plan.known, _MOST)
    region = replace(plan.region, radii=(1.0,) * len(plan.region.radii), center=np.zeros(plan.size))  # any is like it
    scale = region.radius / _WIDE
    prices = amounts(plan.context.privacy, plan.slots)[-3:]
    octaves = OctaveCounts(plan.schema, region)
    histograms = octaves, PlaceCounts(plan.schema, region, (BINS,) * plan.size)
    counted = [plan.noise(Stage(Sum(histograms[k])), prices[k]) * count / plan.known for k in (0, 1)]
    of_mean = plan.noise(plan.moments(), prices[2]) / np.sqrt(plan.known)
    inner = region.radius / np.sqrt(np.array([len(places) for places in region.places])[region.group])
    groups, nowhere = [list(places) for places in region.places], np.zeros(count, dtype=bool)
    missed, noise, error = np.empty((3, draws, plan.size))
    for draw in range(draws):
        center = inner * rng.uniform(-0.5, 0.5, plan.size)
        estimates = center + scale * rng.normal(size=(count, plan.size))
        apart = scale * rng.normal(size=(count if plan.halves else count // 2, plan.size))
        spreads = np.stack([np.sqrt((apart[:, mine] ** 2).mean(axis=1)) for mine in groups], axis=1)
        values = BlockValues(estimates, spreads, nowhere, nowhere)
        spread = octaves.add(values)[0] + _drawn(rng, plan, counted[0], len(octaves.names))
        scales = find_scales(region, spread, counted[0])
        rows = PlaceCounts(plan.schema, region, bins_of(region, scales))
        places = rows.add(values)[0] + _drawn(rng, plan, counted[1], sum(rows.bins))
        frame = find_frame(region, places, counted[1], scales, norm=plan.norm, radius=plan.radius)
        v = (estimates - frame.center) / frame.half
        length = np.sqrt((v**2).sum(axis=1)) if plan.norm == "l2" else np.abs(v).sum(axis=1)
        mean = frame.center + frame.half * (v / np.maximum(length, 1.0)[:, None]).mean(axis=0)
        missed[draw], noise[draw] = ~frame.located, of_mean * frame.half / scale
        error[draw] = (mean - center) / scale * np.sqrt(count) + noise[draw] * _drawn(rng, plan, 1.0, plan.size)
    return Forecast(missed == 1, noise, error)


def _drawn(rng: np.random.Generator, plan: BlockPlan, deviation: float, size: int) -> Array:
    return rng.normal(0, deviation, size) if plan.norm == "l2" else rng.laplace(0, deviation / np.sqrt(2), size)


def forecast_lines(plan: BlockPlan) -> list[str]:
    """Describe the expected errors, for several numbers of rows if the number of blocks depends on a count."""
    if plan.count is None:
        lines = [
            f"blocks       chosen from a noisy count of rows ({float(plan.shares.rows):.3g} of the privacy budget)"
        ]
        for size in sizes_shown(None):
            sized = plan.over(size)
            lines += [f"n = {size:,}: {sized.count:,} blocks", *forecast_lines(sized)]
        return lines
    noise = plan.noise(plan.moments(), amounts(plan.context.privacy, plan.slots)[-1])
    errors = whole_frame(plan.region, plan.norm).half * noise / plan.count
    listed = ", ".join(f"{name} {error:.4g}" for name, error in zip(plan.region.names, errors.tolist(), strict=True))
    if not plan.located:
        first = "this privacy budget is too small to locate the block estimates: only the region bounds them"
        return [*([first] if plan.winsorized else []), f"standard error from privacy noise: {listed}"]
    expected = forecast(plan)
    found, each = ~expected.missed, float(expected.missed.mean())
    alike = " and equally spread in a group" if len(plan.region.places) < plan.size else ""
    any_missed = _share(float(expected.missed.any(axis=1).mean()))
    several = f", any of the {plan.size} with {any_missed}" if plan.size > 1 else ""
    lines = [
        f"locating     a coefficient is not located with probability {_share(each)}{several}, if block "
        f"estimates are approximately normal{alike}; only the region then bounds it"
    ]
    if each > 0:
        lines.append(f"standard error from privacy noise of one that is not located: {listed}")
    located = ""
    if each < 1:
        low, high = np.quantile(expected.noise[found], (0.05, 0.95))
        lines.append(
            f"privacy noise of an estimate: {low:.2g} to {high:.2g} times its sampling error where it is located, "
            "depending on how precisely the spread between blocks is estimated"
        )
        located = f"{np.sqrt((expected.error[found] ** 2).mean()):.2g} where it is located; "
    overall = ", ".join(f"{expected.expected_error(ratio):.2g}" for ratio in _RATIOS)
    widths = ", ".join(f"{2 * ratio:.0f}" for ratio in _RATIOS)
    lines.append(
        f"expected total error relative to the sampling error: {located}over all releases {overall} where the region "
        f"is {widths} between-block standard deviations wide"
    )
    return lines


def _share(probability: float) -> str:
    if 0.01 <= probability <= 0.99:
        return f"{probability:.2f}"
    return "less than 0.01" if probability < 0.5 else "above 0.99"


_PER_OCTAVE = 8
"""Scales that are tried in each octave."""

_PER_BIN = 8
"""Locations that are tried in each bin."""


def fit_scale(counts: Array, *, width: float, dof: float, noise: float) -> tuple[float, float, float]:
    """Fit the scale of a sample to its noisy counts in octaves.

    Parameters
    ----------
    counts : ndarray (b,)
        Noisy counts in the bins of `octave`.
    width : float
        Upper end of the first bin.
    dof : float
        The sample is modelled as ``scale sqrt(chi2_dof / dof)``.
    noise : float
        Standard deviation of the noise of a count.

    Returns
    -------
    scale, error, signal : float
        The scale at which the shape correlates best with the counts; the standard error of its logarithm; and
        the correlation in standard deviations of its noise.
    """
    tried, shapes = _octaves(len(counts), width, dof)
    return _best(counts, shapes, tried, np.log(tried), noise)


@lru_cache(maxsize=64)
def _octaves(bins: int, width: float, dof: float) -> tuple[Array, Array]:
    """Return the candidate scales, and the shares of the octaves at each; cached for many histograms."""
    tried = width * 2.0 ** -(np.arange((bins - 1) * _PER_OCTAVE) / _PER_OCTAVE)
    ends = width * 2.0 ** -np.arange(bins)
    reached = stats.chi2.cdf(dof * (ends / tried[:, None]) ** 2, dof)
    reached[:, 0] = 1.0
    return tried, reached - np.hstack([reached[:, 1:], np.zeros((len(tried), 1))])


def fit_location(counts: Array, *, ends: Array, scale: float, noise: float) -> tuple[float, float, float]:
    """Fit the centre of a normal sample of known scale to its noisy counts.

    Parameters
    ----------
    counts : ndarray (b,)
    ends : ndarray (b + 1,)
        Ends of the bins, evenly spaced; the outer bins include everything beyond.
    scale : float
    noise : float
        Standard deviation of the noise of a count.

    Returns
    -------
    location, error, signal : float
        As in `fit_scale`.
    """
    tried, shapes = _places(ends.tobytes(), scale)
    found, error, signal = _best(counts, shapes, tried, tried, noise)
    width = float(ends[1] - ends[0])
    return found, float(np.hypot(error, width / 2)) if width > 2 * scale else error, signal


@lru_cache(maxsize=16)
def _places(ends: bytes, scale: float) -> tuple[Array, Array]:
    """Return the candidate locations, and the shares of the bins at each; cached for many histograms."""
    listed = np.frombuffer(ends)
    tried = np.linspace(listed[0], listed[-1], (len(listed) - 1) * _PER_BIN + 1)
    reached = stats.norm.cdf((listed - tried[:, None]) / scale)
    reached[:, 0], reached[:, -1] = 0.0, 1.0
    return tried, np.diff(reached, axis=1)


def _best(counts: Array, shapes: Array, tried: Array, moved: Array, noise: float) -> tuple[float, float, float]:
    lengths = np.sqrt((shapes**2).sum(axis=1))
    match = shapes @ counts / lengths
    place = int(np.argmax(match))
    low, high = max(place - 1, 0), min(place + 1, len(tried) - 1)
    slope = (shapes[high] - shapes[low]) / (moved[high] - moved[low] or 1.0)
    slope = slope - shapes[place] * (slope @ shapes[place]) / lengths[place] ** 2  # its height is not known either
    height = max(float(match[place]) / lengths[place], 0.0)
    steepness = height * float(np.sqrt(slope @ slope))
    error = noise / steepness if steepness > 0 else np.inf
    return float(tried[place]), float(error), float(match[place]) / noise if noise > 0 else np.inf

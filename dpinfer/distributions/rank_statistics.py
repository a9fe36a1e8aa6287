"""Rank and distribution tests on noisy counts of leaves, with their nulls and effect sizes.

A rank test compares means of midranks. Let p be the shares of the leaves, equal in all groups under the null
hypothesis, s their midranks and v the noise variance of a count. Leaves have scores y (`centred_scores`) of mean ``sum
p y = 0``, and a group of n rows has the sum ``S = sum y (X + Z)``, with mean zero and variance

    V = n sum p y^2 + v sum y^2.

Without noise y = s, and the statistics are those of Mann & Whitney, Kruskal & Wallis, Wilcoxon and Spearman with their
corrections for ties. Shares are fitted to the noisy counts under the null hypothesis. The null distribution is
simulated at the fit, with counts and noise, and each draw is refitted.

Kolmogorov & Smirnov's tests cumulate differences of counts from the lowest leaf. The noise of empty leaves would
cumulate too, so leaves are weighted by `shrinkage`, also in the numbers of rows, so that the sums end at zero:

    T_k = sum_{j <= k} h_j d_j,    d_j = N_2 X_1j - N_1 X_2j,    N_g = sum_j h_j X_gj.

The statistic is the largest T_k over the root of ``sum h^2 Var(d)``. Without noise it is the distance of the
distribution functions times the root of n, or of ``n1 n2 / (n1 + n2)``.

Effect sizes are population quantities, with intervals from influence functions. The estimates are functions of noisy
counts X + Z. Their sampling variance uses nonnegative shares fitted to the counts, and their noise variance is v times
the sum of the squared derivatives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from scipy import stats

from dpinfer.errors import InferenceError
from dpinfer.statistics.noise import LEAST, CountNoise
from dpinfer.statistics.nulls import Alternative, Candidate

if TYPE_CHECKING:
    from dpinfer.statistics.arrays import Array, Mask, Places

    Fit = tuple[Array, Array]
    """Numbers of rows (R, G), and shares of the leaves (R, m) that groups have in common."""


ZEROS = ("wilcox", "pratt")
"""What becomes of differences of zero: they have no rank, or the lowest ranks and no sign."""

AWAY = 2.0
"""Standard deviations of their noise by which sizes are raised in the simulated null."""

HIDING = 2.0
"""Standard deviations of noise that a size has to reach; a smaller one is compatible with no rows."""

_ROUNDS = 2

_ELSEWHERE = 0.1
"""Share of the rows that a weighted leaf is taken to hold, over all, beyond the given distribution."""

_LEAST_SPREAD = 1e-6
"""Variance that midranks are taken to have at least; 1/12 where there are no ties."""

_TINY = 1e-300
_BLOCK = 64_000
_GRID = np.linspace(0.0, 1.0, 501)


# Scores of leaves, along the last axis; leading dimensions are free


def nearest_shares(counts: Array, total: Array | float) -> Array:
    """Nonnegative shares (..., m) with sum 1, nearest to noisy counts (..., m) of ``total`` (...) rows.

    Nearest in Euclidean distance: a constant is subtracted from every count, and negative results are set to zero.
    """
    size = np.asarray(total)[..., None]
    ordered = -np.sort(-counts, axis=-1)
    excess = np.cumsum(ordered, axis=-1)
    excess -= size
    excess /= np.arange(1, counts.shape[-1] + 1)
    held = np.maximum((ordered > excess).sum(axis=-1, keepdims=True), 1)
    found: Array = np.maximum(counts - np.take_along_axis(excess, held - 1, axis=-1), 0.0)
    found /= size
    return found


def below(shares: Array) -> Array:
    """Share of the rows below each leaf, plus half of those in it (..., m)."""
    return np.asarray(np.cumsum(shares, axis=-1) - 0.5 * shares)


def _above(shares: Array) -> Array:
    """Share of the rows above each leaf, plus half of those in it (..., m)."""
    return np.asarray(shares[..., ::-1].cumsum(axis=-1)[..., ::-1] - 0.5 * shares)


def shrinkage(shares: Array, noise: Array | float) -> Array:
    """Weight of each leaf (..., m): ``p / (p + noise)``, with noise (...) its variance over rows, in shares."""
    level = np.asarray(noise)[..., None]
    return np.asarray(np.where(level > 0, shares / np.maximum(shares + level, _TINY), 1.0))


def centred_scores(shares: Array, weights: Array) -> Array:
    """Midranks as shares, less their weighted mean c (..., m).

    Among scores y with ``sum p y = 0``, which are insensitive to errors in the number of rows, ``y = w (s - c)`` is the
    most powerful against a shift, with s the midranks and w the weights of `shrinkage`.
    """
    scores, each = below(shares) - 0.5, shares * weights
    return np.asarray(scores - (_sum(each, scores) / np.maximum(each.sum(axis=-1), _TINY))[..., None])


def _sum(*factors: Array) -> Array:
    """Add up products over the leaves (...)."""
    return np.asarray(np.einsum(",".join(["...k"] * len(factors)) + "->...", *factors))


def _spread(shares: Array, scores: Array) -> Array:
    """Variance of scores under shares (...)."""
    return np.asarray(np.maximum(_sum(shares, scores**2) - _sum(shares, scores) ** 2, 0.0))


# What tests have in common


class LeafEffect(NamedTuple):
    """Effect sizes of R releases, each (R,), with standard errors, those from noise alone, and intervals."""

    estimate: Array
    error: Array
    noise_error: Array
    lower: Array
    upper: Array


@dataclass(frozen=True, eq=False)
class LeafTest(ABC):
    """A hypothesis on noisy counts of leaves; implements `NullModel`.

    Attributes
    ----------
    noise : CountNoise
    nobs : int or None
        The public number of rows, if any, for tests of one sample.
    alternative : {"two-sided", "less", "greater"}
    has_sign : bool
        Whether the statistic has a sign, positive for "greater".
    effect_name, least_effect : str, float
        Of the effect size, which is at most 1.
    """

    noise: CountNoise
    nobs: int | None = None
    alternative: Alternative = "two-sided"

    has_sign: ClassVar[bool] = True
    effect_name: ClassVar[str] = ""
    least_effect: ClassVar[float] = -1.0

    @abstractmethod
    def fit(self, values: Array) -> Fit:
        """Fit the hypothesis to releases (R, m)."""

    @abstractmethod
    def _standardised(self, values: Array) -> Array:
        """Statistics (N,) of releases (N, m)."""

    @abstractmethod
    def classical(self, values: Array) -> tuple[str, float]:
        """Name of scipy's statistic, and its value for noisy counts (1, m)."""

    def effect(self, values: Array, alpha: float) -> LeafEffect:  # noqa: ARG002  (of subclasses)
        """Effect sizes of releases (R, m), with intervals of level ``1 - alpha``.

        Raises
        ------
        InferenceError
            For a test without an effect size.
        """
        raise InferenceError(
            "effect sizes are for two groups, signed ranks or two columns; for other tests use frame()"
        )

    def signed(self, values: Array) -> Array:
        """Standardised statistics (...), positive for evidence of "greater"; by blocks that fit the cache."""
        flat = values.reshape(-1, values.shape[-1])
        found, size = np.empty(len(flat)), max(_BLOCK // flat.shape[1], 1)
        for start in range(0, len(flat), size):
            found[start : start + size] = self._standardised(flat[start : start + size])
        return found.reshape(values.shape[:-1])

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`."""
        found = self.signed(values)
        return self._towards(found) if self.has_sign else found

    def _towards(self, signed: Array) -> Array:
        """Evidence towards the alternative."""
        return {"two-sided": np.abs(signed), "greater": signed, "less": -signed}[self.alternative]

    def draw(self, fitted: Fit, size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`."""
        rows, shares = np.maximum(np.rint(fitted[0]), 1.0).astype(np.int64), fitted[1]
        counts = rng.multinomial(rows[:, None, :], shares[:, None, None], size=(len(rows), size, rows.shape[1]))
        flat = counts.reshape(len(rows), size, -1)
        return np.asarray(flat + self.noise.rvs(flat.shape, rng))

    # Of one sample

    def _size(self, values: Array) -> tuple[Array, Array, float]:
        """Numbers of rows (R,) of releases (R, m), at least one; the same raised to its noise; and that noise."""
        if self.nobs is not None:
            size = np.full(len(values), max(float(self.nobs), LEAST))
            return size, size, 0.0
        size = np.maximum(values @ np.ones(values.shape[1]), LEAST)
        error = float(np.sqrt(self.noise.variance * values.shape[1]))
        return size, np.maximum(size, error), error

    def _wald(self, estimate: Array, each: Array, values: Array, size: Array, hidden: Mask, alpha: float) -> LeafEffect:
        """Interval from a row's influence ``each`` (R, m) on an estimate in [-1, 1]; [-1, 1] if hidden by noise."""
        shares = nearest_shares(values, size)
        each = np.clip(each, -1e100, 1e100)  # beyond, noise hides the number of rows
        noise = self.noise.variance * ((each - _sum(shares, each)[:, None]) ** 2).sum(axis=1) / size**2
        error = np.sqrt(_spread(shares, each) / size + noise)
        reach = np.where(hidden, np.inf, stats.norm.isf(alpha / 2) * error)
        lower, upper = np.maximum(estimate - reach, -1.0), np.minimum(estimate + reach, 1.0)
        return LeafEffect(estimate, error, np.sqrt(noise), lower, upper)


@dataclass(frozen=True, eq=False)
class Judged(LeafTest):
    """A hypothesis that is not tested where noise hides the rows: the p-value of such a release is 1.

    Simulated releases are not screened, so that those that happen to hide the rows do not inflate the size.
    """

    judged: bool = True

    @abstractmethod
    def hidden(self, values: Array) -> Mask:
        """Whether noise hides the rows of releases (R, m): (R,)."""

    def candidates(self, values: Array) -> list[Candidate]:
        """Fits to releases (R, m), those that are not tested apart; see `SeveralFits`."""
        hidden, tested = self.hidden(values), replace(self, judged=False)
        parts: Any = ((self, np.flatnonzero(hidden)), (tested, np.flatnonzero(~hidden)))
        return [Candidate(model, where, self.fit(values[where])) for model, where in parts if where.size]

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`; NaN where noise hides the rows."""
        found = super().statistic(values)
        if not self.judged:
            return found
        return np.where(self.hidden(values.reshape(-1, values.shape[-1])).reshape(found.shape), np.nan, found)


@dataclass(frozen=True, eq=False)
class Distance(LeafTest):
    """A test by the largest distance of two distribution functions."""

    has_sign = False
    samples: ClassVar[int] = 2

    @abstractmethod
    def path(self, values: Array) -> Array:
        """Weighted difference of both functions up to each leaf (R, m), standardised."""

    def where(self, values: Array) -> Places:
        """Leaf of the largest difference (R,)."""
        return np.asarray(self._towards(self.path(values)).argmax(axis=1))

    def _standardised(self, values: Array) -> Array:
        return np.asarray(self._towards(self.path(values)).max(axis=1))

    def classical(self, values: Array) -> tuple[str, float]:
        """D, where the standardised distance is largest."""
        first, second, *_ = self.functions(values)
        return "D statistic", float(self._towards(first - second)[int(self.where(values)[0])])

    def functions(self, values: Array) -> tuple[Array, Array, Array, Array]:
        """Two distribution functions at the ends of the leaves, and standard errors of their difference, each (m,).

        The second error is that from noise alone; ``values`` are from one release (1, cells).
        """
        table = values.reshape(self.samples, -1)
        sizes = np.maximum(table.sum(axis=1) if self.nobs is None else float(self.nobs), 1.0).reshape(-1, 1)
        found, leaves = np.cumsum(table, axis=1) / sizes, table.shape[1]
        part = np.clip(found, 0.0, 1.0)
        noisy = np.arange(1, leaves + 1) * (1 - 2 * part) + leaves * part**2
        noise = (self.noise.variance * np.maximum(noisy, 0.0) / sizes**2).sum(axis=0)
        sampling = (part * (1 - part) / sizes).sum(axis=0)
        return found[0], found[-1], np.sqrt(sampling + noise), np.sqrt(noise)


# Several groups


class CommonShares(NamedTuple):
    """Sizes of groups and the shares of leaves that they have in common, fitted to R releases.

    Attributes
    ----------
    sizes, error : ndarray (R, G), (R,)
        Numbers of rows, and the standard deviation of the noise in each. None is below one row, or below its noise.
    shares : ndarray (R, m)
        Not negative, of sum 1.
    weights : ndarray (R, m)
        See `shrinkage`.
    plain, counts : ndarray (R, G, m)
        Weighted counts, and the same corrected by Stein's identity for the bias from weights with the same noise.
    """

    sizes: Array
    error: Array
    shares: Array
    weights: Array
    plain: Array
    counts: Array


@dataclass(frozen=True, eq=False)
class Groups(LeafTest):
    """Groups with one distribution.

    Attributes
    ----------
    shape : (int, int)
        Groups by leaves.
    """

    shape: tuple[int, int] = field(kw_only=True)

    def common(self, values: Array) -> CommonShares:
        """Fit releases (R, G m): sizes from weighted totals, shares by least squares with weights for the noise.

        These weights make the shares uncorrelated with the contrasts between groups. Sizes are at least their own
        noise, so that all groups hidden by noise have equal weight.
        """
        (groups, leaves), variance = self.shape, self.noise.variance
        table = values.reshape(-1, *self.shape)

        def weighed(sizes: Array, shares: Array, each: Array) -> CommonShares:
            """Compute leaf weights and sizes; ``each`` (R, G, m) are the parts of the counts in the shares."""
            # What noise adds to the variance of the contrasts between groups, in shares.
            parts = (1 / sizes).sum(axis=1) - groups / sizes.sum(axis=1)
            weights = shrinkage(shares, variance * np.maximum(parts, 0.0) / (groups - 1))
            plain = counts = weights[:, None] * table
            if variance > 0:
                slope = np.where(shares > 0, weights * (1 - weights) / np.maximum(shares, _TINY), 0.0)
                counts = plain - variance * each * slope[:, None]
            seen = np.maximum(_sum(shares, weights), _TINY)
            error = np.sqrt(variance * _sum(weights, weights)) / seen
            sizes = np.maximum(counts @ np.ones(leaves) / seen[:, None], np.maximum(error, LEAST)[:, None])
            return CommonShares(sizes, error, shares, weights, plain, counts)

        sizes = np.maximum(table @ np.ones(leaves), max(float(np.sqrt(variance * leaves)), LEAST))
        shares = nearest_shares(table.sum(axis=1), np.maximum(table.sum(axis=(1, 2)), LEAST))
        found = weighed(sizes, shares, (1 / sizes.sum(axis=1))[:, None, None])
        for _ in range(_ROUNDS if variance > 0 else 0):
            each = found.sizes[..., None] / (found.sizes[..., None] * found.shares[:, None] + variance)
            each /= (each * found.sizes[..., None]).sum(axis=1, keepdims=True)
            found = weighed(found.sizes, nearest_shares((each * table).sum(axis=1), 1.0), each)
        return found

    def fit(self, values: Array) -> Fit:
        """Sizes (R, G), raised where noise hides them, as statistics of small groups vary less; and shares (R, m)."""
        found = self.common(values)
        return found.sizes + AWAY * found.error[:, None], found.shares


@dataclass(frozen=True, eq=False)
class GroupRanks(Groups):
    """Groups by ranks: Mann & Whitney's test of two, Kruskal & Wallis's of several.

    "greater": the first of two groups has the larger values. The effect size of two is the probability that a value of
    the first is above one of the second, ties counting half.
    """

    effect_name = "P(first > second) + P(equal)/2"
    least_effect = 0.0

    @property
    def has_sign(self) -> bool:  # type: ignore[override]
        """Whether there are two groups."""
        return self.shape[0] == 2

    def sums(self, values: Array) -> tuple[Array, Array, Array]:
        """Return sums of scores of each group, those of ones, and the variances of the first, (R, G) each."""
        found = self.common(values)
        scores = centred_scores(found.shares, found.weights)
        sums, rows = np.einsum("ngk,nk->ng", found.counts, scores), found.counts @ np.ones(scores.shape[1])
        whole, total = rows.sum(axis=1), found.sizes.sum(axis=1)
        mean = np.clip(sums.sum(axis=1) / np.where(np.abs(whole) > _TINY, whole, _TINY), -1.0, 1.0)
        square = (found.weights * (scores - mean[:, None])) ** 2
        spread = _sum(found.shares, square) * total / np.maximum(total - 1, LEAST)
        across = self.noise.variance * square.sum(axis=1)
        return sums, rows, np.maximum(found.sizes * spread[:, None] + across[:, None], _TINY)

    def _standardised(self, values: Array) -> Array:
        """Return the standardised difference of two groups, or H of several: least ``sum (S - c N)^2 / V`` over c."""
        sums, rows, variance = self.sums(values)
        if self.has_sign:
            top = sums[:, 0] * rows[:, 1] - sums[:, 1] * rows[:, 0]
            bottom = variance[:, 0] * rows[:, 1] ** 2 + variance[:, 1] * rows[:, 0] ** 2
            return np.asarray(top / np.sqrt(np.maximum(bottom, _TINY)))
        through = (sums * rows / variance).sum(axis=1) ** 2 / np.maximum((rows**2 / variance).sum(axis=1), _TINY)
        return np.asarray(np.maximum((sums**2 / variance).sum(axis=1) - through, 0.0))

    def candidates(self, values: Array) -> list[Candidate]:
        """Fits to releases (R, G m); see `SeveralFits`.

        Under Laplace noise, a leaf that looks filled because of one large draw differs between groups by as much.
        Simulations in which such leaves are filled miss this, so leaves hidden by noise are also tried empty.
        """
        (sizes, shares), every = self.fit(values), np.arange(len(values))
        fits = [Candidate(self, every, (sizes, shares))]
        if self.noise.variance > 0 and not self.noise.is_normal:
            rows = shares * self.common(values).sizes.sum(axis=1)[:, None]
            seen = rows >= HIDING * np.sqrt(self.shape[0] * self.noise.variance)
            clear = np.where(seen | (shares == shares.max(axis=1, keepdims=True)), shares, 0.0)
            fits.append(Candidate(self, every, (sizes, clear / clear.sum(axis=1, keepdims=True))))
        return fits

    def classical(self, values: Array) -> tuple[str, float]:
        """U of the first group, or H."""
        if not self.has_sign:
            return "H statistic", float(self.statistic(values)[0])
        first, second = values.reshape(2, -1)
        return "U statistic", float(first @ below(second))

    def effect(self, values: Array, alpha: float) -> LeafEffect:
        """Effect sizes of two groups.

        The interval contains each probability t at which ``U - t N1 N2`` is within its error (Fieller): all of [0, 1]
        if noise hides a group.
        """
        if not self.has_sign:
            return super().effect(values, alpha)
        table, v = values.reshape(-1, *self.shape), self.noise.variance
        first, second = table[:, 0], table[:, 1]
        top, totals = _sum(first, below(second)), table.sum(axis=2)
        sizes = np.maximum(totals, max(np.sqrt(v * table.shape[2]), LEAST))
        p, q = (nearest_shares(table[:, g], sizes[:, g]) for g in (0, 1))
        freed = sizes**2 / np.maximum(sizes - 1, LEAST)
        sampling = freed[:, 0] * _spread(p, sizes[:, 1, None] * below(q))
        sampling = sampling + freed[:, 1] * _spread(q, sizes[:, 0, None] * (1 - below(p)))
        # Both raw totals of pairs carry noise of their own, so that their squares count the noise times noise twice.
        noisy = np.zeros((len(table), len(_GRID)))
        pairs = (below(second), totals[:, 1]), (first.sum(axis=1, keepdims=True) - below(first), totals[:, 0])
        for raw, total in pairs:
            centres = total[:, None] * _GRID
            noisy += (raw**2).sum(axis=1)[:, None] - 2 * centres * raw.sum(axis=1)[:, None]
            noisy += raw.shape[1] * centres**2
        noisy *= v
        product = totals[:, 0] * totals[:, 1]
        apart = (top[:, None] - _GRID * product[:, None]) ** 2
        within = apart <= stats.norm.isf(alpha / 2) ** 2 * (sampling[:, None] + noisy)
        estimate = np.where(product > 0, np.clip(top / np.where(product > 0, product, np.inf), 0.0, 1.0), 0.5)
        some, half, last = within.any(axis=1), 0.5 * (_GRID[1] - _GRID[0]), len(_GRID) - 1
        low = np.where(some, _GRID[within.argmax(axis=1)] - half, estimate)
        high = np.where(some, _GRID[last - within[:, ::-1].argmax(axis=1)] + half, estimate)
        noise = noisy[np.arange(len(table)), np.rint(estimate * last).astype(np.intp)]
        scale = np.maximum(np.prod(sizes, axis=1), 1.0)
        lower, upper = np.clip(np.minimum(low, estimate), 0.0, 1.0), np.clip(np.maximum(high, estimate), 0.0, 1.0)
        return LeafEffect(estimate, np.sqrt(sampling + noise) / scale, np.sqrt(noise) / scale, lower, upper)

    def mean_ranks(self, values: Array) -> tuple[Array, Array, Array]:
        """Mean midrank of each group among all rows, as a share, and its standard errors, each (R, G)."""
        table, variance = values.reshape(-1, *self.shape), self.noise.variance
        totals = table.sum(axis=2)
        sizes = np.maximum(totals, max(float(np.sqrt(variance * table.shape[2])), LEAST))
        ranks = below(nearest_shares(table.sum(axis=1), np.maximum(totals.sum(axis=1), LEAST)))[:, None]
        mean = np.clip(_sum(table, ranks) / sizes, 0.0, 1.0)
        noise = variance * ((ranks - mean[..., None]) ** 2).sum(axis=-1) / sizes**2
        return mean, np.sqrt(_spread(nearest_shares(table, sizes), ranks) / sizes + noise), np.sqrt(noise)


@dataclass(frozen=True, eq=False)
class TwoDistributions(Groups, Judged, Distance):
    """Two groups by the distance of their distribution functions.

    "greater": the distribution function of the first group is above that of the second somewhere.
    """

    def hidden(self, values: Array) -> Mask:
        """Whether noise hides the rows of a group in releases (R, 2 m): (R,)."""
        found = self.common(values)
        return np.asarray((found.sizes < HIDING * found.error[:, None]).any(axis=1))

    def path(self, values: Array) -> Array:
        """Weighted difference of both groups up to each leaf (R, m), standardised."""
        found, variance = self.common(values), self.noise.variance
        rows = found.plain @ np.ones(self.shape[1])
        (n1, n2), (r1, r2) = found.sizes.T[:, :, None], rows.T[:, :, None]
        spread = (n1 * r2**2 + n2 * r1**2) * found.shares + variance * (r1**2 + r2**2)
        scale = np.maximum(_sum(found.weights**2, spread), _TINY)
        path = np.cumsum(r2 * found.plain[:, 0] - r1 * found.plain[:, 1], axis=1)
        return np.asarray(path / np.sqrt(scale)[:, None])


# One sample


@dataclass(frozen=True, eq=False)
class SignedRanks(LeafTest):
    """Values symmetric about zero, by Wilcoxon's signed ranks, from counts (..., 2 K + 1).

    Leaves K + k and K - k hold values of the same size and of opposite signs; leaf K holds zeros. The effect size is
    the share of the signed ranks above zero minus that below, omitting zeros.

    Attributes
    ----------
    zeros : {"wilcox", "pratt"}
    """

    zeros: str = "wilcox"
    effect_name = "Rank-biserial correlation"

    def _folded(self, values: Array) -> tuple[Array, Array, Array, Array]:
        """Return counts by size, zeros first (R, K + 1); above minus below zero (R, K); rows (R,); shares by size."""
        half = values.shape[1] // 2
        above, under = values[:, half + 1 :], values[:, :half][:, ::-1]
        counts = np.concatenate([values[:, half, None], above + under], axis=1)
        size, raised, _ = self._size(values)
        return counts, above - under, raised, nearest_shares(counts, size)

    def _standardised(self, values: Array) -> Array:
        _, apart, size, shares = self._folded(values)
        used, variance = shares[:, 1:], 2 * self.noise.variance
        ranks = below(used) + (0.5 / size)[:, None] + (shares[:, :1] if self.zeros == "pratt" else 0.0)
        scores = ranks * shrinkage(used, variance / size)
        square = scores**2
        spread = size * _sum(used, square) + variance * square.sum(axis=1)
        return np.asarray(_sum(scores, apart) / np.sqrt(np.maximum(spread, _TINY)))

    def fit(self, values: Array) -> Fit:
        """Numbers of rows (R, 1), and symmetric shares (R, 2 K + 1)."""
        _, _, size, shares = self._folded(values)
        half = 0.5 * shares[:, 1:]
        found = np.concatenate([half[:, ::-1], shares[:, :1], half], axis=1)
        return (size + AWAY * self._size(values)[2])[:, None], found

    def classical(self, values: Array) -> tuple[str, float]:
        """Sum of the ranks above zero, or the smaller of both sums, as scipy reports it."""
        counts, apart, size, shares = self._folded(values)
        ranks = size[:, None] * (below(shares[:, 1:]) + (shares[:, :1] if self.zeros == "pratt" else 0.0)) + 0.5
        above, under = (float(_sum(ranks, 0.5 * (counts[:, 1:] + one))[0]) for one in (apart, -apart))
        return "W statistic", min(above, under) if self.alternative == "two-sided" else above

    def effect(self, values: Array, alpha: float) -> LeafEffect:
        """Rank-biserial correlations."""
        _, apart, size, shares = self._folded(values)
        used = shares[:, 1:]
        ranks, total = below(used), used.sum(axis=1)
        bottom = np.maximum(0.5 * total**2, _TINY)
        estimate = np.clip(_sum(ranks, apart) / size / bottom, -1.0, 1.0)
        ahead = _above(apart / size[:, None]) - (estimate * total)[:, None]
        above, under = ((ahead + one) / bottom[:, None] for one in (ranks, -ranks))
        each = np.concatenate([under[:, ::-1], np.zeros((len(values), 1)), above], axis=1)
        return self._wald(estimate, each, values, size, size < HIDING * self._size(values)[2], alpha)


@dataclass(frozen=True, eq=False)
class GivenDistribution(Distance):
    """One column with given shares of leaves, by the distance of distribution functions.

    "greater": the distribution function of the column is above the given one somewhere.

    Attributes
    ----------
    shares : ndarray (m,)
        Not negative, of sum 1.
    """

    shares: Array = field(kw_only=True)

    samples = 1

    def _weighed(self, values: Array) -> tuple[Array, Array, Array, Array]:
        """Return weights (R, m), private only through sizes; weighted rows, sizes, and their noise (R,)."""
        _, size, _ = self._size(values)
        variance, leaves = self.noise.variance, len(self.shares)
        weights = shrinkage((1 - _ELSEWHERE) * self.shares + _ELSEWHERE / leaves, variance / size)
        seen = np.maximum(weights @ self.shares, _TINY)
        rows, error = _sum(values, weights) / seen, np.sqrt(variance * (weights**2).sum(axis=1)) / seen
        if self.nobs is not None:
            return weights, rows, size, np.zeros(len(values))
        return weights, rows, np.maximum(rows, np.maximum(error, LEAST)), error

    def functions(self, values: Array) -> tuple[Array, Array, Array, Array]:
        """Return the distribution function of the column, and the given one."""
        first, _, error, noise = super().functions(values)
        return first, np.cumsum(self.shares), error, noise

    def fit(self, values: Array) -> Fit:
        """Numbers of rows (R, 1), and the given shares."""
        _, _, size, error = self._weighed(values)
        return (size + AWAY * error)[:, None], np.broadcast_to(self.shares, (len(values), len(self.shares)))

    def path(self, values: Array) -> Array:
        """Weighted difference of the column from the given shares up to each leaf (R, m), standardised."""
        weights, rows, size, _ = self._weighed(values)
        scale = _sum(weights**2, size[:, None] * self.shares + self.noise.variance)
        path = np.cumsum(weights * (values - rows[:, None] * self.shares), axis=1)
        return np.asarray(path / np.sqrt(np.maximum(scale, _TINY))[:, None])


class FittedMargins(NamedTuple):
    """Two independent columns fitted to R grids.

    Attributes
    ----------
    size, error : ndarray (R,)
        Number of rows, and the standard deviation of the noise in it: 0 where it is public.
    shares : pair of ndarray (R, r), (R, c)
        Of the leaves of both columns.
    rows, columns : pairs of ndarray (R, r), (R, c)
        Weighted scores, and weights.
    forms : ndarray (R, 2, 2)
        The grid between scores and weights of both, corrected for the bias from their common noise.
    hidden : ndarray of bool (R,)
        Whether noise hides the rows, or the spread of one of the columns.
    """

    size: Array
    error: Array
    shares: list[Array]
    rows: list[Array]
    columns: list[Array]
    forms: Array
    hidden: Mask


@dataclass(frozen=True, eq=False)
class RankAssociation(Judged):
    """Two independent columns, by Spearman's rank correlation, from grids (..., r c).

    Attributes
    ----------
    shape : (int, int)
    """

    shape: tuple[int, int] = field(kw_only=True)

    effect_name = "Spearman's correlation"

    def hidden(self, values: Array) -> Mask:
        """Whether noise hides the rows, or the spread of one of the columns, in releases (R, r c): (R,)."""
        return self.margins(values).hidden

    def margins(self, values: Array) -> FittedMargins:
        """Fit grids (R, r c) by the product of their margins."""
        table, variance = values.reshape(-1, *self.shape), self.noise.variance
        size, raised, _ = self._size(values)
        each, across = (table.sum(axis=2), table.sum(axis=1)), self.shape[::-1]
        hidden = np.zeros(len(table), dtype=bool)
        shares, weighted, steep = [], [], []
        for margin, added in zip(each, across, strict=True):
            p = nearest_shares(margin, size)
            w = shrinkage(p, variance * added / raised)
            scores = centred_scores(p, w)
            slope = np.where(p > 0, w * (1 - w) / np.maximum(p, _TINY), 0.0) * (variance / raised)[:, None]
            shares.append(p)
            weighted.append([w * scores, w])
            steep.append([slope * scores, slope])
            if variance > 0:  # the counts may all be in one leaf, for all that noise lets one see
                others = margin.shape[1] - 1
                length = (_sum(margin, margin) - margin.max(axis=1) ** 2) / (variance * added)
                hidden |= length < others + HIDING * np.sqrt(2 * others)
        (rows, columns), forms = weighted, np.empty((len(table), 2, 2))
        for i, row in enumerate(rows):
            summed = np.einsum("nij,ni->nj", table, row)
            for j, column in enumerate(columns):
                bias = steep[0][i].sum(axis=1) * column.sum(axis=1) + row.sum(axis=1) * steep[1][j].sum(axis=1)
                forms[:, i, j] = _sum(summed, column) - bias
        blur = np.zeros(len(table))
        if self.nobs is None:
            seen = np.maximum(_sum(shares[0], rows[1]) * _sum(shares[1], columns[1]), _TINY)
            blur = np.sqrt(variance * (rows[1] ** 2).sum(axis=1) * (columns[1] ** 2).sum(axis=1)) / seen
            size = np.maximum(forms[:, 1, 1] / seen, np.maximum(blur, LEAST))
        return FittedMargins(size, blur, shares, rows, columns, forms, hidden | (size < HIDING * blur))

    def _standardised(self, values: Array) -> Array:
        """Covariances of the scores."""
        found, variance = self.margins(values), self.noise.variance
        (a, b), (c, whole) = found.forms.transpose(1, 2, 0)
        rows, columns = ([(one**2).sum(axis=1) for one in parts] for parts in (found.rows, found.columns))
        spread = _sum(found.shares[0], found.rows[0] ** 2) * _sum(found.shares[1], found.columns[0] ** 2)
        sampling = found.size**2 / np.maximum(found.size - 1, LEAST) * spread
        noisy = whole**2 * rows[0] * columns[0] + b**2 * rows[1] * columns[0]
        noisy += c**2 * rows[0] * columns[1] + a**2 * rows[1] * columns[1]
        bottom = whole**2 * sampling + variance * noisy
        return np.asarray((a * whole - b * c) / np.sqrt(np.maximum(bottom, _TINY)))

    def fit(self, values: Array) -> Fit:
        """Numbers of rows (R, 1), and shares of the cells (R, r c)."""
        found = self.margins(values)
        p, q = found.shares
        return (found.size + AWAY * found.error)[:, None], (p[:, :, None] * q[:, None]).reshape(len(p), -1)

    def classical(self, values: Array) -> tuple[str, float]:
        """Spearman's correlation."""
        return "Rank correlation", float(self.effect(values, 0.05).estimate[0])

    def effect(self, values: Array, alpha: float) -> LeafEffect:
        """Rank correlations, with midranks and the correction for ties."""
        table, (size, *_) = values.reshape(-1, *self.shape), self._size(values)
        p, q = (nearest_shares(table.sum(axis=axis), size) for axis in (2, 1))
        a, b = below(p) - 0.5, below(q) - 0.5
        first, second = np.maximum(_spread(p, a), _LEAST_SPREAD), np.maximum(_spread(q, b), _LEAST_SPREAD)
        joint, root = table / size[:, None, None], np.sqrt(first * second)
        estimate = np.clip(np.einsum("nij,ni,nj->n", joint, a, b) / root, -1.0, 1.0)
        slope = a[:, :, None] * b[:, None] + _above(np.einsum("nij,nj->ni", joint, b))[:, :, None]
        slope = slope + _above(np.einsum("nij,ni->nj", joint, a))[:, None]
        own = [-0.25 * s**2 / c[:, None] for s, c in ((p, first), (q, second))]
        each = slope / root[:, None, None] - 0.5 * estimate[:, None, None] * (own[0][:, :, None] + own[1][:, None])
        return self._wald(estimate, each.reshape(len(table), -1), values, size, self.hidden(values), alpha)

"""Chi-squared tests of noisy counts: statistics and their null, residuals, and effect sizes.

With X the counts, Z independent noise of variance v and m the counts expected under the null hypothesis, ``X + Z - m``
has covariance ``diag(m) - m m'/n + v I``. With a public number of rows n, the noisy total carries no information about
the null hypothesis: residuals r are projected on vectors that add up to zero, where the squared length in the metric of
their covariance is, in closed form (Kifer & Rogers 2017),

    r' W r = sum r^2/D + v (sum r/D)^2 / sum(m/D),    D = m + v.

If n is private, m is known up to its length, which is fitted in the same metric: the direction m drops out, and with it
the second term. Unknown margins are fitted in the same metric: T is the distance to the nearest product of margins
(`nearest_product`).

The null distribution is simulated at that product. Margins hidden by noise may be much smaller than they look, and the
statistic then varies more. If there are any, the statistic is the projected one without a known n, which is least
sensitive to them. It is simulated at that product and at a peak, where hidden margins are one row, or all but the
largest of an axis of which half are hidden; the larger p-value is used.

Tables are arrays (r, c, N): cells first, so that sums over cells run along rows of memory.

The effect sizes, Cramer's V and Cohen's w, are squared lengths ``q = g(x)`` of shares, free of the scale of the counts
x. With L and H the gradient and the Hessian of g, and e what sampling and noise add to the counts, ``g + L'e + e'He/2``
has the bias ``tr(H S)/2`` and the variance ``L'S L + tr(H S H S)/2`` and terms of third and fourth cumulants. Because g
is free of scale, multinomial counts have the same moments as independent Poisson ones: S is diag(counts) plus the
noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from scipy import special

from dpinfer.statistics.arrays import Array, Mask, inverse_form
from dpinfer.statistics.inference import joint_level
from dpinfer.statistics.noise import LEAST, CountNoise
from dpinfer.statistics.nulls import Candidate
from dpinfer.statistics.numerical import bisected
from dpinfer.statistics.tails import widened

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dpinfer.tables.loglinear_fit import CellNoise
    from dpinfer.tables.marginal_inference import TableNoise

    Effect = Callable[[Array], tuple[Array, Array]]
    """A squared effect of counts, and its gradient."""
    Fit = tuple[NDArray[np.int64], Array]
    """Numbers of rows of each sample (R, g), and shares of its cells (R, k), the same in all samples."""
    Margins = tuple[Array, Array]
    NullParts = tuple[Array, Array, Array]
    """Expected counts, and variances of observed less expected from sampling and noise; real or complex (..., d)."""
    Noise: TypeAlias = CountNoise | TableNoise


STATISTICS = ("projected", "pearson")

_CLEAR = 2.0
"""Standard errors that a margin has to reach; a smaller one is compatible with a single row."""

_ITERATIONS = 6
_BLOCK = 16_000
_TINY = 1e-200
_DERIVATIVE_STEP = 1e-20
_HALF_ROW = 0.5

_CLEAR_EFFECT = 2.5
"""Noise standard deviations that every margin has to reach for an interval of Cramer's V."""

_FLOOR = 1e-3
_HALVINGS = 22
_LARGE = 40.0


def _sum(values: Array) -> Array:
    """Sum along the last axis, which is short: a product with ones is faster."""
    return np.asarray(values @ np.ones(values.shape[-1]))


def _whole(size: Array) -> NDArray[np.int64]:
    return np.maximum(np.rint(size), 1.0).astype(np.int64)


def _raised(x: Array) -> Array:
    """Return real or complex numbers, those with a real part below one row replaced by it."""
    return np.where(np.real(x) < LEAST, LEAST, x)


class CountTest:
    """Base of tests of counts: simulated releases are multinomial counts plus noise."""

    noise: Noise | CellNoise

    def draw(self, fitted: Fit, size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`."""
        rows, shares = fitted
        counts = rng.multinomial(rows[:, None], shares[:, None, None], size=(len(rows), size, rows.shape[1]))
        flat = counts.reshape(len(rows), size, -1)
        return np.asarray(flat + self.noise.rvs(flat.shape, rng))


@dataclass(frozen=True, eq=False)
class GoodnessOfFit(CountTest):
    """Counts of d levels against given probabilities; implements `NullModel`.

    Attributes
    ----------
    probabilities : ndarray (d,)
        Positive, of sum 1.
    noise : CountNoise or TableNoise
    nobs : int or None
        The number of rows where it is public.
    kind : {"projected", "pearson"}
    """

    probabilities: Array
    noise: Noise
    nobs: int | None = None
    kind: str = "projected"

    @property
    def dof(self) -> int:
        """Degrees of freedom."""
        return self.probabilities.size - 1

    def _rows(self, values: Array) -> Array:
        """Return the number of rows (...): public, or fitted to the counts and at least 1."""
        if self.nobs is not None:
            return np.broadcast_to(float(self.nobs), values.shape[:-1])
        total = np.maximum(_sum(values), LEAST)
        if self.kind == "pearson":
            return total
        weights = self.probabilities / (total[..., None] * self.probabilities + self.noise.components.both)
        return np.maximum(_sum(values * weights) / (weights @ self.probabilities), LEAST)

    def expected(self, values: Array) -> Array:
        """Return the counts expected under the null hypothesis (..., d)."""
        return np.asarray(self._rows(values)[..., None] * self.probabilities)

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`."""
        p, variance = self.probabilities, self.noise.components.both
        if self.kind == "pearson":
            expected = self.expected(values)
            return _sum((values - expected) ** 2 / expected)
        expected = np.maximum(_sum(values), LEAST)[..., None] * p if self.nobs is None else self.nobs * p
        residual, inverse = values - expected, 1.0 / (expected + variance)
        if self.nobs is not None:
            residual -= (_sum(residual) / p.size)[..., None]
        weighted = residual * inverse
        length = np.einsum("...i,...i->...", residual, weighted)
        if self.nobs is None:
            return np.asarray(np.maximum(length - (weighted @ p) ** 2 / (inverse @ p**2), 0.0))
        return np.asarray(length + variance / float(expected @ inverse) * _sum(weighted) ** 2)

    def fit(self, values: Array) -> Fit:
        """See `NullModel.fit`."""
        return _whole(self._rows(values))[:, None], np.broadcast_to(self.probabilities, values.shape)

    def null_parts(self, x: Array) -> NullParts:
        """Return the parts, smooth in the counts; a private number of rows is a weighted sum of these."""
        p = self.probabilities
        if self.nobs is not None:
            total = np.full(x.shape, float(self.nobs))
            return total * p, total * p * (1 - p), np.full(x.shape, self.noise.variance)
        total = _raised(x.sum(axis=-1, keepdims=True))
        weights = np.ones(p.size) if self.kind == "pearson" else p / (total * p + self.noise.components.both)
        weights = weights / (weights * p).sum(axis=-1, keepdims=True)
        total = _raised((x * weights).sum(axis=-1, keepdims=True))
        sampling = total * p * (1 - 2 * p * weights + p * (p * weights**2).sum(axis=-1, keepdims=True))
        return total * p, sampling, self.noise.components.after_size(p, np.broadcast_to(weights, x.shape))


class _TwoWay(CountTest, ABC):
    """Base of tests of an r by c table."""

    shape: tuple[int, int]
    noise: Noise
    kind: str
    nobs: int | None

    @property
    def dof(self) -> int:
        """Degrees of freedom."""
        return (self.shape[0] - 1) * (self.shape[1] - 1)

    @abstractmethod
    def _fitted(self, found: Product, rows: Array, columns: Array) -> Fit:
        """Return the arguments of `draw`, for margins (r, N) and (c, N)."""

    def _margins(self, table: Array) -> Margins:
        """Margins (r, N) and (c, N) whose product is the expectation of tables (r, c, N)."""
        return margins_of(table, self.nobs)

    def _nearest(self, table: Array) -> Product:
        """Fit the margins of tables (r, c, N)."""
        return nearest_product(table, self.noise.components.both, self.nobs)

    def _projected(self, table: Array) -> Array:
        """Projected statistics (N,) of tables (r, c, N)."""
        return self._nearest(table).length

    def _tables(self, values: Array) -> Array:
        """Tables (..., r c) as (r, c, N)."""
        return np.ascontiguousarray(values.reshape(-1, values.shape[-1]).T).reshape(*self.shape, -1)

    def expected(self, values: Array) -> Array:
        """Return the counts expected under the null hypothesis (..., r c)."""
        rows, columns = self._margins(self._tables(values))
        return np.asarray((rows[:, None] * columns).reshape(values.shape[-1], -1).T.reshape(values.shape))

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`; by blocks that fit the cache."""
        flat = values.reshape(-1, values.shape[-1])
        found, size = np.empty(len(flat)), max(_BLOCK // flat.shape[1], 500)
        for start in range(0, len(flat), size):
            table = self._tables(flat[start : start + size])
            if self.kind == "projected":
                found[start : start + size] = self._projected(table)
            else:
                rows, columns = self._margins(table)
                expected = rows[:, None] * columns
                found[start : start + size] = ((table - expected) ** 2 / expected).sum(axis=(0, 1))
        return found.reshape(values.shape[:-1])

    def fit(self, values: Array) -> Fit:
        """See `NullModel.fit`."""
        found = self._nearest(self._tables(values))
        return self._fitted(found, *_open_margins(found)[0])

    def hidden(self, values: Array) -> Mask:
        """Whether noise hides a margin of tables (R, r c): (R,)."""
        return _open_margins(self._nearest(self._tables(values)))[1]

    def candidates(self, values: Array) -> list[Candidate]:
        """Fits that the data cannot distinguish; see `dpinfer.statistics.nulls.SeveralFits`."""
        nearest = self._nearest(self._tables(values))
        floored, hidden, peaked = _open_margins(nearest)
        usual, peak = (self._fitted(nearest, *margins) for margins in (floored, peaked))
        # Where margins are hidden, the statistic that varies least with them: projected, free of the number of rows.
        steadier = replace(cast("Any", self), kind="projected", **({} if self.nobs is None else {"nobs": None}))
        tried = ((self, ~hidden, usual), (steadier, hidden, usual), (steadier, hidden, peak))
        return [
            Candidate(model, np.flatnonzero(which), tuple(part[which] for part in fit))
            for model, which, fit in tried
            if which.any()
        ]

    def _product_parts(self, x: Array, by_row: Array, total: Array, *, rows_known: bool, size_known: bool) -> NullParts:
        """Return the parts of the product of margins of tables (..., r c).

        ``by_row`` (..., r) are the counts of their rows and ``total`` (...) the number of all, public or not.
        """
        table = x.reshape(*x.shape[:-1], *self.shape)
        missing = (total - table.sum(axis=(-2, -1))) / self.shape[1]
        by_column = _raised(table.sum(axis=-2) + missing[..., None])
        a = (by_row / by_row.sum(axis=-1, keepdims=True))[..., :, None]
        b = (by_column / by_column.sum(axis=-1, keepdims=True))[..., None, :]
        noisy = self.noise.components.after_product(a, b, size_known=size_known, rows_known=rows_known)
        expected = total[..., None, None] * a * b
        return expected.reshape(x.shape), (expected * (1 - a) * (1 - b)).reshape(x.shape), noisy.reshape(x.shape)


@dataclass(frozen=True, eq=False)
class Independence(_TwoWay):
    """Counts of an r by c table against the product of its margins; implements `NullModel`.

    Attributes
    ----------
    shape : (int, int)
    noise : CountNoise or TableNoise
    nobs : int or None
        The number of rows where it is public.
    kind : {"projected", "pearson"}
    """

    shape: tuple[int, int]
    noise: Noise
    nobs: int | None = None
    kind: str = "projected"

    def _fitted(self, found: Product, rows: Array, columns: Array) -> Fit:
        """Numbers of rows (N, 1), and probabilities of the cells (N, r c)."""
        cells = (rows / rows.sum(axis=0))[:, None] * (columns / columns.sum(axis=0))
        return _whole(found.rows.sum(axis=0))[:, None], cells.reshape(-1, cells.shape[-1]).T

    def null_parts(self, x: Array) -> NullParts:
        """Return the parts, smooth in the counts."""
        size = x.sum(axis=-1)
        total = _raised(size) if self.nobs is None else np.full(size.shape, self.nobs)
        by_row = x.reshape(*x.shape[:-1], *self.shape).sum(axis=-1) + ((total - size) / self.shape[0])[..., None]
        return self._product_parts(x, _raised(by_row), total, rows_known=False, size_known=self.nobs is not None)


@dataclass(frozen=True, eq=False)
class Homogeneity(_TwoWay):
    """Counts in r samples of fixed sizes, against one distribution of c levels; implements `NullModel`.

    Attributes
    ----------
    shape : (int, int)
        Samples by levels.
    noise : CountNoise or TableNoise
    sizes : ndarray (r,) or None
        The sizes of the samples if they are public.
    kind : {"projected", "pearson"}
    """

    shape: tuple[int, int]
    noise: Noise
    sizes: Array | None = None
    kind: str = "projected"

    nobs = None

    def _margins(self, table: Array) -> Margins:
        """Sizes of samples (r, N) and common shares (c, N), none below one row."""
        totals = table.sum(axis=1)
        sizes = np.maximum(totals, LEAST) if self.sizes is None else np.repeat(self.sizes[:, None], table.shape[-1], 1)
        common = np.maximum(table.sum(axis=0) + (sizes - totals).sum(axis=0) / self.shape[1], LEAST)
        return sizes, common / common.sum(axis=0)

    def _projected(self, table: Array) -> Array:
        """Squared length of residuals given public sizes, less the part explained by a change of the common shares."""
        if self.sizes is None:
            return super()._projected(table)
        sizes, common = self._margins(table)
        expected = sizes[:, None] * common
        residual = table - expected
        residual = residual - residual.mean(axis=1, keepdims=True)
        inverse = 1.0 / (expected + self.noise.components.both)
        weighted = residual * inverse
        through, across = self.noise.components.both / (expected * inverse).sum(axis=1), weighted.sum(axis=1)
        length = ((residual * weighted).sum(axis=1) + through * across**2).sum(axis=0)
        pull = sizes[:, None] * (inverse[:, :-1] - inverse[:, -1:])
        slope = (sizes[:, None] * (weighted[:, :-1] - weighted[:, -1:])).sum(axis=0)
        slope += ((through * across)[:, None] * pull).sum(axis=0)
        own = (sizes[:, None] ** 2 * inverse).sum(axis=0)
        matrix = np.einsum("rn,rin,rjn->ijn", through, pull, pull) + own[-1]
        levels = np.arange(self.shape[1] - 1)
        matrix[levels, levels] += own[:-1]
        return np.asarray(np.maximum(length - inverse_form(matrix, slope), 0.0))

    def _nearest(self, table: Array) -> Product:
        found = super()._nearest(table)
        if self.sizes is None:
            return found
        sizes, common = self._margins(table)
        error = self.noise.components.margin(self.shape[1], self.shape[0], axis=1, known=False) ** 0.5
        return Product(sizes, common, np.zeros(sizes.shape), np.full(common.shape, error), found.length)

    def _fitted(self, found: Product, rows: Array, columns: Array) -> Fit:  # noqa: ARG002
        """Sizes (N, r), and shares of the levels (N, c)."""
        return _whole(rows.T), np.asarray((columns / columns.sum(axis=0)).T)

    def null_parts(self, x: Array) -> NullParts:
        """Return the parts, smooth in the counts."""
        table, known = x.reshape(*x.shape[:-1], *self.shape), self.sizes is not None
        by_row = _raised(table.sum(axis=-1)) if self.sizes is None else np.broadcast_to(self.sizes, table.shape[:-1])
        return self._product_parts(x, by_row, by_row.sum(axis=-1), rows_known=known, size_known=known)


@dataclass(frozen=True, eq=False)
class Product:
    """Expected counts ``rows * columns`` and the distance of a table from them.

    Attributes
    ----------
    rows : ndarray (r, N)
        Not negative; their sum is the number of rows of the table.
    columns : ndarray (c, N)
        Nonnegative shares with sum 1.
    row_error, column_error : ndarray (r, N), (c, N)
        Standard errors of both in rows of the table, given the other margin.
    length : ndarray (N,)
        Squared distance, weighted by the inverse covariance of sampling and noise.
    """

    rows: Array
    columns: Array
    row_error: Array
    column_error: Array
    length: Array


def _open_margins(found: Product) -> tuple[Margins, Mask, Margins]:
    """Return margins in rows (r, N) and (c, N), at least one; whether noise hides any (N,); and their peaked version.

    At the peak hidden margins are as small as one row, never the largest of an axis. If noise hides half of the others
    or more, all others are: one level may have nearly all rows.
    """
    rows = np.maximum(found.rows, LEAST)
    columns = np.maximum(found.columns * np.maximum(found.rows.sum(axis=0), LEAST), LEAST)
    below = rows < _CLEAR * found.row_error, columns < _CLEAR * found.column_error
    peaked = []
    for margin, small in zip((rows, columns), below, strict=True):
        others = np.arange(len(margin))[:, None] != margin.argmax(axis=0)
        half = 2 * (others & small).sum(axis=0) >= len(margin) - 1
        peaked.append(np.where(others & (small | half), LEAST, margin))
    return (rows, columns), below[0].any(axis=0) | below[1].any(axis=0), (peaked[0], peaked[1])


def margins_of(table: Array, nobs: int | None) -> Margins:
    """Row counts (r, N) and column shares (c, N) from noisy margins of at least one row before scaling."""
    total = table.sum(axis=(0, 1))
    size = np.maximum(total, LEAST) if nobs is None else np.full(total.shape, float(nobs))
    rows, columns = (np.maximum(table.sum(axis=1 - k) + (size - total) / table.shape[k], LEAST) for k in (0, 1))
    return size * rows / rows.sum(axis=0), columns / columns.sum(axis=0)


def nearest_product(table: Array, variance: float, nobs: int | None) -> Product:
    """Find the product of margins at the least weighted distance from noisy tables.

    Weights are fixed at the noisy margins. Rows and columns are then fitted in turn, each exactly given the other, and
    kept nonnegative.

    Parameters
    ----------
    table : ndarray (r, c, N)
    variance : float
        Of the noise of a cell.
    nobs : int or None
        The number of rows where it is public: tables and products then add up to it.

    Returns
    -------
    Product

    Notes
    -----
    With ``w = 1 / (expected + variance)`` and residuals r the distance is ``sum w r^2`` where n is private, and
    ``sum w r^2 + h (sum w r)^2``, ``h = variance / sum(w expected)``, over residuals of sum zero where it is public.
    """
    rows, columns = margins_of(table, nobs)
    expected = rows[:, None] * columns
    weight = 1.0 / (expected + variance)
    if nobs is not None:
        table = table + (nobs - table.sum(axis=(0, 1))) / (table.shape[0] * table.shape[1])
        through = variance / (weight * expected).sum(axis=(0, 1))
        level = (weight * table).sum(axis=(0, 1))
    weighted = weight * table
    for _ in range(_ITERATIONS):
        for axis in (1, 0):
            other = columns[None] if axis == 1 else rows[:, None]
            curve = np.maximum((weight * other**2).sum(axis=axis), _TINY)
            slope = (weighted * other).sum(axis=axis)
            if nobs is None:
                fitted = np.maximum(slope / curve, 0.0)
            else:
                pull = (weight * other).sum(axis=axis)
                fitted = _constrained(curve, slope, pull, through, level, float(nobs) if axis == 1 else 1.0)
            if axis == 1:
                rows = fitted
            else:
                total = np.maximum(fitted.sum(axis=0), _TINY)
                rows, columns = rows * (total if nobs is None else 1.0), fitted / total
    residual = table - rows[:, None] * columns
    length = (weight * residual**2).sum(axis=(0, 1))
    if nobs is not None:
        length += through * (weight * residual).sum(axis=(0, 1)) ** 2
    size = np.maximum(rows.sum(axis=0), LEAST)
    row_error = 1.0 / np.sqrt(np.maximum((weight * columns**2).sum(axis=1), _TINY))
    column_error = size / np.sqrt(np.maximum((weight * rows[:, None] ** 2).sum(axis=0), _TINY))
    return Product(rows, columns, row_error, column_error, length)


def _constrained(curve: Array, slope: Array, pull: Array, through: Array, level: Array, total: float) -> Array:
    """Least ``sum curve t^2 - 2 slope t + through (level - pull t)^2`` over t of a given sum; then none negative."""
    inverse = 1.0 / curve
    ones, pulls = inverse.sum(axis=0), (pull * inverse).sum(axis=0)
    free = total - (slope * inverse).sum(axis=0)
    gap = level - (slope * pull * inverse).sum(axis=0) - free * pulls / ones
    across = gap / (1.0 + through * ((pull**2 * inverse).sum(axis=0) - pulls**2 / ones))
    shift = (free - through * across * pulls) / ones
    fitted = np.maximum((slope + through * across * pull + shift) * inverse, 0.0)
    sums = fitted.sum(axis=0)
    return np.asarray(np.where(sums > 0, fitted * (total / np.where(sums > 0, sums, 1.0)), total / len(fitted)))


CountModel = GoodnessOfFit | Independence | Homogeneity


# Residuals


@dataclass(frozen=True, eq=False)
class ResidualTable:
    """Contribution of every cell to the evidence against a null hypothesis; every array is (..., d).

    Attributes
    ----------
    expected, difference : ndarray
        Counts expected under the null hypothesis, and noisy minus expected counts, in rows.
    sampling_error, noise_error, standard_error : ndarray
        Standard error of the difference under the null hypothesis: from sampling, from noise, and both, in rows.
    standardised : ndarray
        ``difference / standard_error``: approximately standard normal under the null hypothesis.
    lower, upper : ndarray
        Interval for the population's standardised residual: its difference over the same null standard error.
    """

    expected: Array
    difference: Array
    sampling_error: Array
    noise_error: Array
    standard_error: Array
    standardised: Array
    lower: Array
    upper: Array


def residual_table(
    model: CountModel, values: Array, *, alpha: float = 0.05, simultaneous: bool = False
) -> ResidualTable:
    """Residuals of noisy counts under a null hypothesis, standardised by sampling and noise.

    Parameters
    ----------
    model : GoodnessOfFit, Independence or Homogeneity
        The hypothesis, with the noise and the public sizes.
    values : ndarray (..., d)
        Noisy counts.
    alpha : float
        One minus the confidence level of the intervals, between 0 and 1.
    simultaneous : bool
        Whether the confidence level is simultaneous; for one table (d,).

    Returns
    -------
    ResidualTable

    Notes
    -----
    Without noise the standardised residual is the adjusted residual of Haberman (1973). The interval uses the
    covariance of the counts from the noisy shares, clipped at 0, not from the null hypothesis. As in Wilson's interval
    the variance of a cell grows with the tested count; half a row is added on both sides, because counts are integers.
    Laplace noise widens it by its kurtosis (Cornish-Fisher).

    References
    ----------
    Haberman (1973), The analysis of residuals in cross-classified tables, Biometrics 29.
    """
    values = np.asarray(values, dtype=float)
    expected, sampling, noisy = (np.real(part) for part in model.null_parts(values))
    error = np.sqrt(sampling + noisy)
    moved = values[..., None, :] + 1j * _DERIVATIVE_STEP * np.eye(values.shape[-1])
    moved_expected, moved_sampling, moved_noisy = model.null_parts(moved)
    ratio = (moved - moved_expected) / np.sqrt(moved_sampling + moved_noisy)
    slope = np.imag(ratio) / _DERIVATIVE_STEP  # (..., count moved, residual)
    samples, sizes = _samples(model, values)
    shares = samples / np.maximum(samples.sum(axis=-1, keepdims=True), 1e-300)
    slopes = slope.reshape(*samples.shape, slope.shape[-1])
    mean = np.einsum("...gk,...gkf->...gf", shares, slopes)
    square = np.einsum("...gk,...gkf->...gf", shares, slopes**2)
    spread = (sizes[..., None] * np.maximum(square - mean**2, 0.0)).sum(axis=-2) + model.noise.quadratic(slope)
    level = alpha
    if simultaneous:
        products = np.einsum("gk,gkf,gkh->gfh", shares, slopes, slopes)
        together = np.einsum("g,gfh->fh", sizes, products - mean[:, :, None] * mean[:, None, :])
        level = joint_level(together + model.noise.variance * slope.T @ slope, alpha)
    reach = widened(level, model.noise.fourth_cumulant * (slope**4).sum(axis=-2) / np.maximum(spread, 1e-100) ** 2)
    standardised = (values - expected) / error
    own = np.diagonal(slope, axis1=-2, axis2=-1)
    shift = 0.5 * reach**2 * own**2 * error
    half = np.sqrt(shift**2 + reach**2 * spread) + _HALF_ROW * np.abs(own)
    ends = standardised + shift - half, standardised + shift + half
    return ResidualTable(expected, values - expected, np.sqrt(sampling), np.sqrt(noisy), error, standardised, *ends)


def _samples(model: CountModel, values: Array) -> tuple[Array, Array]:
    """Return the counts of each sample (..., g, k), none below 0, and the sizes of the samples (..., g)."""
    if isinstance(model, Homogeneity):
        counts, known = values.reshape(*values.shape[:-1], *model.shape), model.sizes
    else:
        counts, known = values[..., None, :], None if model.nobs is None else np.array(float(model.nobs))
    sizes = np.maximum(counts.sum(axis=-1), LEAST) if known is None else known
    return np.maximum(counts, 0.0), np.broadcast_to(sizes, counts.shape[:-1])


# Effect sizes


@dataclass(frozen=True, eq=False)
class EffectSize:
    """An effect size with its interval; every array is (...).

    Attributes
    ----------
    estimate : ndarray
        Corrected for the bias from sampling and noise, at least 0.
    lower, upper : ndarray
        Endpoints of the interval; the lower one is 0 if the table is compatible with no effect at ``alpha / 2``.
    resolved : ndarray of bool
        False if the interval is the whole range, because the noise hides the denominator of the measure.
    largest : float
        The largest value that the measure can take.
    """

    estimate: Array
    lower: Array
    upper: Array
    resolved: Mask
    largest: float


def cramers_v(
    values: Array, shape: tuple[int, int], *, noise: Noise, nobs: int | None = None, alpha: float = 0.05
) -> EffectSize:
    """Estimate Cramer's V of the population behind a noisy table, with an interval.

    Parameters
    ----------
    values : ndarray (..., r c)
        Noisy counts.
    shape : (int, int)
        Levels of the rows and of the columns, two or more each.
    noise : CountNoise or TableNoise
    nobs : int or None
        The number of rows where it is public.
    alpha : float
        One minus the confidence level of the interval, between 0 and 1.

    Returns
    -------
    EffectSize

    Notes
    -----
    ``V^2 = phi^2 / min(r - 1, c - 1)`` with ``phi^2 = sum (p_ij - p_i p_j)^2 / (p_i p_j)``. The noisy phi^2 has a
    scaled noncentral chi-squared distribution, with the mean and variance of the second-order expansion at each tested
    phi, interpolated linearly in phi^2 between independence and the released table. The variance is estimated, so the
    endpoints use a quantile of Student's t distribution instead of the normal; its degrees of freedom are a quarter of
    Satterthwaite's, which also allows for the terms of third order. If a noisy margin is below 2.5 standard deviations
    of its noise, the interval is [0, 1].
    """
    table = _of_size(values, nobs).reshape(*values.shape[:-1], *shape)
    margins, clear = [], np.ones(values.shape[:-1], dtype=bool)
    for place, (levels, added) in enumerate((shape, shape[::-1])):
        margin = table.sum(axis=-1 - place)
        spread = np.sqrt(noise.components.margin(levels, added, axis=place, known=nobs is not None))
        clear &= (margin > np.maximum(_CLEAR_EFFECT * spread, LEAST)).all(axis=-1)
        margin = np.maximum(margin, LEAST)
        margins.append(margin / margin.sum(axis=-1, keepdims=True))
    size = np.maximum(table.sum(axis=(-2, -1)), LEAST)[..., None]
    null = size * (margins[0][..., :, None] * margins[1][..., None, :]).reshape(values.shape)
    return _effect_size(
        table.reshape(values.shape), null, lambda at: _phi_squared(at, shape), noise, nobs, clear,
        scale=float(min(shape) - 1), largest=1.0, alpha=alpha,
    )  # fmt: skip


def cohens_w(
    values: Array, probabilities: Array, *, noise: Noise, nobs: int | None = None, alpha: float = 0.05
) -> EffectSize:
    """Estimate Cohen's w of the population behind noisy counts, with an interval.

    Parameters
    ----------
    values : ndarray (..., d)
        Noisy counts.
    probabilities : ndarray (d,)
        Of the hypothesis; positive, of sum 1.
    noise, nobs, alpha
        As in `cramers_v`.

    Returns
    -------
    EffectSize

    Notes
    -----
    ``w^2 = sum (p - p0)^2 / p0``, at most ``1 / min(p0) - 1``; the interval is computed as in `cramers_v`. If the noisy
    number of rows is below 2.5 standard deviations of its noise, the interval is the whole range.
    """
    counts = _of_size(values, nobs)
    total = counts.sum(axis=-1)
    spread = 0.0 if nobs is not None else np.sqrt(noise.components.common * values.shape[-1])
    null = np.maximum(total, LEAST)[..., None] * probabilities
    clear = np.asarray(total > max(_CLEAR_EFFECT * spread, LEAST))
    return _effect_size(
        counts, null, lambda at: _w_squared(at, probabilities), noise, nobs, clear,
        scale=1.0, largest=float(np.sqrt(1 / probabilities.min() - 1)), alpha=alpha,
    )  # fmt: skip


def _of_size(values: Array, nobs: int | None) -> Array:
    """Noisy counts, adjusted to add up to a public number of rows."""
    if nobs is None:
        return np.asarray(values, dtype=float)
    return np.asarray(values + (nobs - values.sum(axis=-1, keepdims=True)) / values.shape[-1])


def _phi_squared(counts: Array, shape: tuple[int, int]) -> tuple[Array, Array]:
    """phi^2 (...) of counts (..., r c), real or complex, with positive margins, and its gradient (..., d)."""
    x = counts.reshape(*counts.shape[:-1], *shape)
    row, column = x.sum(axis=-1)[..., :, None], x.sum(axis=-2)[..., None, :]
    u = x / (row * column)
    across, down = (x**2 / column).sum(axis=-1, keepdims=True), (x**2 / row).sum(axis=-2, keepdims=True)
    return (x * u).sum(axis=(-2, -1)) - 1, (2 * u - across / row**2 - down / column**2).reshape(counts.shape)


def _w_squared(counts: Array, p: Array) -> tuple[Array, Array]:
    """w^2 (...) of counts (..., d), real or complex, and its gradient (..., d)."""
    total, u = counts.sum(axis=-1, keepdims=True), counts / p
    square = (counts * u).sum(axis=-1, keepdims=True)
    return (square / total**2)[..., 0] - 1, 2 * u / total**2 - 2 * square / total**3


def _derivatives(effect: Effect, counts: Array) -> tuple[Array, Array, Array]:
    """Return a squared effect (...), its gradient (..., d), and its Hessian (..., d, d) by complex steps: exact."""
    _, moved = effect(counts[..., None, :] + 1j * _DERIVATIVE_STEP * np.eye(counts.shape[-1]))
    return *effect(counts), np.imag(moved) / _DERIVATIVE_STEP


def _moments(effect: Effect, counts: Array, noise: Noise, nobs: int | None) -> tuple[Array, Array, Array, Array]:
    """Squared effect at counts (..., d), bias and variance (...) of its expansion, and the variance of that variance.

    The last excludes the part due to the squared effect itself.
    """
    (squared, slope, hessian), known = _derivatives(effect, counts), nobs is not None
    own = np.diagonal(hessian, axis1=-2, axis2=-1)
    product = hessian * counts[..., None, :] + noise.times(hessian, known=known)
    bias = 0.5 * np.diagonal(product, axis1=-2, axis2=-1).sum(axis=-1)
    linear = (slope * (slope * counts + noise.times(slope, known=known))).sum(axis=-1)
    square = 0.5 * np.einsum("...ij,...ji->...", product, product)
    third = (slope * own * counts).sum(axis=-1)
    fourth = 0.25 * (own**2 * (counts + noise.fourth_cumulant)).sum(axis=-1)
    spread = slope * counts + noise.times(slope, known=False)
    change = slope**2 + 2 * np.einsum("...ij,...j->...i", hessian, spread)
    own_share = (change * spread).sum(axis=-1) ** 2 / np.maximum((slope * spread).sum(axis=-1), 1e-300)
    unsure = np.maximum((change**2 * (counts + noise.variance)).sum(axis=-1) - own_share, 0.0)
    return squared, bias, np.maximum(linear + square + fourth + third, 0.5 * (linear + square)), unsure


def _effect_size(
    counts: Array, null: Array, effect: Effect, noise: Noise, nobs: int | None, clear: Mask,
    *, scale: float, largest: float, alpha: float,
) -> EffectSize:  # fmt: skip
    """Estimate and interval from the moments under the null hypothesis and at the released table."""
    residual = counts - null
    found = (residual**2 / null).sum(axis=-1) / null.sum(axis=-1)
    _, bias, variance, _ = _moments(effect, null, noise, nobs)
    bias, variance = np.maximum(bias, 1e-12), np.maximum(variance, 1e-24)
    freedom = 2 * bias**2 / variance
    goal = np.maximum(found, bias + 2 * np.sqrt(variance))
    times = np.where(clear, np.sqrt(goal / np.maximum(found, 1e-300)), 0.0)[..., None]
    away = np.maximum(null + times * residual, _FLOOR * null)
    away *= (null.sum(axis=-1) / away.sum(axis=-1))[..., None]
    squared, away_bias, away_variance, unsure = _moments(effect, away, noise, nobs)
    place = np.maximum(squared, 1e-9)
    rise = np.maximum((away_variance - variance) / place, (away_variance - 3 * variance) / (goal - bias))
    least = 0.5 * np.minimum(variance, away_variance)
    student = 0.5 / np.clip(unsure / np.maximum(away_variance, 1e-24) ** 2, 1e-6, 0.25)
    tail = special.ndtr(special.stdtrit(student, alpha / 2))

    def law(size: Array) -> tuple[Array, Array]:
        mean = size + bias + (away_bias - bias) * np.minimum(size / place, 1.0)
        return mean, np.maximum(variance + rise * size, least)

    most = scale * largest**2
    first = np.clip(found - bias, 0.0, most)
    estimate = np.clip(found - (law(first)[0] - first), 0.0, most)
    lower = _solve(lambda e: 1 - _below(found, e, *law(e), freedom), tail, most, found.shape)
    upper = _solve(lambda e: -_below(np.maximum(found, bias), e, *law(e), freedom), -tail, most, found.shape)
    ends = [np.sqrt(end / scale) for end in (estimate, lower, np.maximum(upper, estimate))]
    lower, upper = np.where(clear, ends[1], 0.0), np.where(clear, ends[2], largest)
    return EffectSize(ends[0], lower, upper, clear, largest)


def _below(found: Array, effect: Array, mean: Array, variance: Array, freedom: Array) -> Array:
    """P(Q <= found) where Q, of given mean and variance, is a shifted multiple of noncentral chi-squared."""
    multiple = 2 * variance / (4 * effect + np.sqrt(16 * effect**2 + 8 * freedom * variance))
    away = effect / multiple
    x = np.maximum((found - mean) / multiple + freedom + away, 0.0)
    total, spread = freedom + away, freedom + 2 * away  # normal approximation of Sankaran (1963)
    power = 1 - 2 / 3 * total * (freedom + 3 * away) / spread**2
    ratio = spread / total**2
    bend = (power - 1) * (1 - 3 * power)
    centre = 1 + power * ratio * (power - 1 - 0.5 * (2 - power) * bend * ratio)
    result = np.asarray(
        special.ndtr(((x / total) ** power - centre) / (power * np.sqrt(2 * ratio) * (1 + 0.5 * bend * ratio)))
    )
    few = away < _LARGE
    result[few] = special.chndtr(x[few], freedom[few], away[few])
    return np.asarray(result)


def _solve(function: Callable[[Array], Array], goal: Array, most: float, shape: tuple[int, ...]) -> Array:
    """Point in [0, most] at which an increasing function of the squared effect reaches a goal, by bisection."""
    low, high = np.zeros(shape), np.full(shape, np.sqrt(most))
    low = np.where(function(high**2) < goal, high, low)
    high = np.where(function(np.zeros(shape)) >= goal, 0.0, high)
    low, high = bisected(lambda middle: ~(function(middle**2) >= goal), low, high, rounds=_HALVINGS)
    return np.asarray((0.5 * (low + high)) ** 2)

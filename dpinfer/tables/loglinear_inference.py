"""Inference on the coefficients of log-linear models: score and Wald intervals and tests, and tests of a model.

The null hypothesis ``c'b = q`` is tested by the fit under it: ``X'(y - mu) = l c``, l the multiplier. At that fit let
``J = X'diag(mu)X`` and S be the covariance of ``X'y``; then ``l c'J^-1 c`` has variance ``c'J^-1 S J^-1 c``. As l moves
from 0, q moves away from the estimate, and the fits form a path; the interval ends where the ratio reaches the critical
value. If the path leaves the interior of the cone first, the interval is unbounded on that side.

A model is tested against a larger one, or against none. With m the counts fitted under the hypothesis, r the noisy
counts less m and D = diag(m) + V, V the variances of the noise, the score statistic is the part of ``r'D^-1 r`` that
the columns of the larger model explain beyond those of the smaller one, where each column moves the means by ``diag(m)
x``. Without a larger model it is the whole remainder. The second fit is not needed and need not exist.

Fits of these tests use a ridge: half a standard deviation of the noise on the spread of the logarithms of means. They
then exist for every table, and the ridge moves them less than the noise does. The null distribution draws counts and
noise from the fit, and refits. If a fitted count is small, or hidden by noise, the statistic depends on its size: the
null distribution is also drawn from a flatter fit, with a much larger ridge, and from a more peaked one, with almost no
ridge, and the largest of the three p-values is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

from dpinfer.statistics.inference import BatchEstimates, Inference, Oracle, contrast_rows
from dpinfer.statistics.nulls import Candidate
from dpinfer.statistics.tails import joint_pvalue, widened, widened_pvalue
from dpinfer.tables import loglinear_fit as fits
from dpinfer.tables.chi_squared_inference import CountTest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.statistics.arrays import Array, Mask
    from dpinfer.tables.chi_squared_inference import Fit
    from dpinfer.tables.loglinear_fit import CellNoise, LogLinearFit, LogLinearModel

    Point = tuple[Array, ...]


METHODS = ("auto", "score", "wald")

_SMALL = 5.0
"""Rows that a fitted count has to reach."""

_NAMED = 8
_ITERATIONS = 80
_SOLVED = 1e-6
_STEP = 2.0
_BEYOND = 25.0
"""Logarithm of a ratio beyond which an endpoint is treated as infinite."""

_TOGETHER = 2_000_000

_LEAST = 0.5
"""Smallest value used for a mean that columns move."""

_RIDGES = (0.5, 4.0, 0.1)
"""Standard deviations of noise in the ridge: of the fit, and of those that are tried where counts are hidden."""

_LEAST_RIDGE = 0.1
"""What is added to that standard deviation."""

_CLEAR = 2.0
"""Standard deviations of noise that a fitted count has to reach, too; one that does not is hidden."""

_BLOCK = 200_000
_SPANNED = 1e-8


@dataclass(frozen=True, eq=False)
class LogLinearInference(Inference):
    """Coefficients of a log-linear model of one noisy table.

    Attributes
    ----------
    model : LogLinearModel
    values : ndarray (d,)
        Noisy counts.
    """

    model: LogLinearModel
    values: Array

    methods = METHODS

    @cached_property
    def found(self) -> fits.Reduced:
        """The fit to the cells for which one exists."""
        return fits.reduced(self.model, self.values)

    @cached_property
    def determined(self) -> Mask:
        """Which coefficients are identified (p,)."""
        return self.found.determined(np.eye(len(self.names)))

    @property
    def fit(self) -> LogLinearFit | None:
        """The fit to the included cells; None where there is none."""
        return self.found.fit

    @property
    def means(self) -> Array:
        """Fitted counts (d,); NaN in omitted cells."""
        means = np.full(len(self.values), np.nan)
        if self.fit is not None:
            means[self.found.included] = self.fit.means[0]
        return means

    @cached_property
    def _estimated(self) -> tuple[Array, ...]:
        return self.combinations(np.eye(len(self.names)))

    @property
    def params(self) -> Array:
        """Coefficients (p,); NaN where not identified."""
        return self._estimated[0]

    @property
    def cov_sampling(self) -> Array:
        """Covariance from sampling (p, p)."""
        return self._estimated[1]

    @property
    def cov_noise(self) -> Array:
        """Covariance from privacy noise (p, p)."""
        return self._estimated[2]

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, computed from released numbers only."""
        found = []
        lost = [name for name, known in zip(self.names, self.determined, strict=True) if not known]
        if lost:
            listed = "every coefficient" if len(lost) == len(self.names) else ", ".join(lost[:_NAMED])
            listed += f" and {len(lost) - _NAMED} more" if _NAMED < len(lost) < len(self.names) else ""
            left = int((~self.found.included).sum())
            found.append(
                f"not determined: {listed}; by noise or by chance, {left} of {self.values.size} cells are empty, and "
                "the other coefficients are fitted without them"
            )
        spread = np.sqrt(self.model.noise.of_counts)
        few = int((self.means[self.found.included] < np.maximum(_SMALL, spread[self.found.included])).sum())
        if few:
            found.append(
                f"{few} of {self.values.size} fitted counts are below 5 or below their noise (standard deviation "
                f"{spread.max():.4g}): use the intervals, not the standard errors"
            )
        return tuple(found)

    def combinations(self, rows: Array) -> tuple[Array, ...]:
        """Return estimates (k,) of combinations (k, p), and covariances (k, k) from sampling, noise and both.

        NaN where not identified.
        """
        center, covariances = np.full(len(rows), np.nan), np.full((3, len(rows), len(rows)), np.nan)
        known = self.found.determined(rows)
        if self.fit is not None:
            turned = rows[known] @ self.found.directions
            center[known] = self.fit.params[0] @ turned.T
            for place, part in enumerate((*self.fit.covariance, np.add(*self.fit.covariance))):
                covariances[place][np.ix_(known, known)] = turned @ part[0] @ turned.T
        return center, *covariances

    # Intervals and tests

    def _ends(self, rows: Array, alpha: float) -> Array:
        return _intervals(self.model, self.values[None], self.found, rows, alpha, self.method)

    def _tails(self, rows: Array, values: Array) -> Array:
        return np.array([self._joint(row[None], value[None])[1] for row, value in zip(rows, values, strict=True)])

    def _joint(self, rows: Array, values: Array) -> tuple[float, float]:
        squares, pvalues = _joint_test(self.model, self.values[None], self.found, rows, values, self.method)
        return float(squares[0]), float(pvalues[0])


# R tables (R, d) that are fitted to the same cells


def _combinations(fit: LogLinearFit, rows: Array) -> tuple[Array, Array, Array]:
    """Return combinations of coefficients (R, k), their standard errors, and the excess kurtosis of their errors."""
    variance = np.einsum("kp,rpq,kq->rk", rows, np.add(*fit.covariance), rows)
    kurtosis = np.zeros_like(variance)
    if not fit.model.noise.is_normal:
        kurtosis = fit.model.noise.fourth_cumulant(rows @ fit.influence) / variance**2
    return np.asarray(fit.params @ rows.T), np.sqrt(variance), kurtosis


def _intervals(
    model: LogLinearModel, values: Array, part: fits.Reduced, rows: Array, alpha: float, method: str
) -> Array:
    """Intervals (R, k, 2) of combinations of coefficients (k, p)."""
    ends, known = np.tile([-np.inf, np.inf], (len(values), len(rows), 1)), part.determined(rows)
    if part.fit is not None and known.any():
        turned = rows[known] @ part.directions
        if method == "score":
            ends[:, known] = score_intervals(part.fit, turned, alpha)
        else:
            center, error, kurtosis = _combinations(part.fit, turned)
            half = widened(alpha, kurtosis) * error
            ends[:, known] = np.stack([center - half, center + half], axis=-1)
    for place in np.flatnonzero(~known) if method == "score" else ():
        ends[:, place] = one_sided(model, values, rows[place], alpha)
    return ends


def _joint_test(
    model: LogLinearModel, values: Array, part: fits.Reduced, rows: Array, targets: Array, method: str
) -> tuple[Array, Array]:
    """Squared distances (R,) of combinations (k, p) from values (k,), and p-values; 0 and 1 where there is no fit."""
    known = part.fit is not None and bool(part.determined(rows).all())
    if part.fit is not None and known:
        model, values, rows = part.fit.model, part.fit.values, rows @ part.directions
    if method == "score":
        test = score_test(model, values, rows, targets)
        return test.distance**2, test.pvalue
    if part.fit is None or not known:
        return np.zeros(len(values)), np.ones(len(values))
    center, error, kurtosis = _combinations(part.fit, rows)
    if len(rows) == 1:
        distance = (center - targets) / error
        return distance[:, 0] ** 2, widened_pvalue(distance, kurtosis)[:, 0]
    total = rows @ np.add(*part.fit.covariance) @ rows.T
    squares = (np.linalg.solve(np.linalg.cholesky(total), (center - targets)[..., None]) ** 2).sum(axis=(1, 2))
    return squares, _joint_pvalues(model, squares, total, rows @ part.fit.influence)


def _joint_pvalues(model: LogLinearModel, squares: Array, covariance: Array, weights: Array) -> Array:
    """P-values (R,) of squared lengths of sums of counts, of covariance (R, k, k) and with weights (R, k, d)."""
    found, normal = [], model.noise.is_normal
    for square, one, weight in zip(squares.tolist(), covariance, weights, strict=True):
        loads = None if normal else model.noise.laplace(np.linalg.solve(np.linalg.cholesky(one), weight))
        found.append(joint_pvalue(square, len(one), loadings=loads))
    return np.array(found)


def batch_loglinear(
    model: LogLinearModel,
    values: Array,
    *,
    names: tuple[str, ...],
    alpha: float,
    method: str = "score",
    contrasts: Mapping[str, Mapping[str, float]] | None = None,
) -> BatchEstimates:
    """Infer from R tables of noisy counts (R, d); equal to `LogLinearInference` one by one."""
    method = "score" if method == "auto" else method
    wanted, fit = contrast_rows(names, contrasts), fits.fit_loglinear(model, values)
    size = (len(values), len(wanted))
    params, bse, pvalues, intervals = np.full(size, np.nan), np.full(size, np.nan), np.ones(size), np.empty((*size, 2))
    parts = [(np.flatnonzero(fit.exists), fits.Reduced(np.ones(values.shape[1], bool), np.eye(len(names)), fit.fitted))]
    groups: dict[bytes, list[int]] = {}
    for place in np.flatnonzero(~fit.exists).tolist():
        groups.setdefault(fits.estimable_cells(model, values[place], lost=True).tobytes(), []).append(place)
    for mask, listed in groups.items():
        parts.append((np.array(listed), fits.reduced_fits(model, values[listed], np.frombuffer(mask, dtype=bool))))
    for places, part in parts:
        if not places.size:
            continue
        known = part.determined(wanted)
        if part.fit is not None:
            here = np.ix_(places, known)
            params[here], bse[here], _ = _combinations(part.fit, wanted[known] @ part.directions)
        intervals[places] = _intervals(model, values[places], part, wanted, alpha, method)
        tests = [_joint_test(model, values[places], part, row[None], np.zeros(1), method) for row in wanted]
        pvalues[places] = np.stack([pvalue for _, pvalue in tests], axis=1)
    return BatchEstimates((*names, *(contrasts or {})), params, bse, pvalues, intervals, ~fit.exists)


def loglinear_oracle(
    model: LogLinearModel,
    expected: Array,
    *,
    sampling: Array,
    alpha: float,
    names: tuple[str, ...],
    contrasts: Mapping[str, Mapping[str, float]] | None = None,
) -> Oracle:
    """Return the width of an interval that knew the population and the noise distribution.

    ``expected`` (d,) are the expected counts and ``sampling`` (q,) the true sampling variances. kappa is the smallest
    fitted mean over its own standard error.
    """
    wanted = contrast_rows(names, contrasts)
    fit = fits.fit_loglinear(replace(model, robust=False), expected[None])
    weights = wanted @ fit.influence[0]
    noise = model.noise.variance(weights)
    cells = model.design @ np.add(*fit.covariance)[0] @ model.design.T
    kappa = float(1.0 / np.sqrt(np.diag(cells).max()))
    total = noise + sampling
    kurtosis = model.noise.fourth_cumulant(weights) / total**2
    normal = float(stats.norm.isf(alpha / 2)) * np.sqrt(sampling)
    return Oracle(widened(alpha, kurtosis) * np.sqrt(total), normal, kappa)


# Score intervals and tests, for many tables at once


def score_intervals(fit: LogLinearFit, contrasts: Array, alpha: float) -> Array:
    """Score intervals (R, k, 2) of combinations ``contrasts`` (k, p) of coefficients, from fits that exist."""
    model, (count, d), k = fit.model, fit.values.shape, len(contrasts)
    rows = contrasts @ model.basis[1]
    ends = np.empty((count * k, 2))
    size = max(_TOGETHER // (2 * (d + model.design.shape[1] ** 2)), 1)
    for begin in range(0, len(ends), size):
        pairs = np.repeat(np.arange(begin, min(begin + size, len(ends))), 2)
        table, place = np.divmod(pairs, k)
        start = fit.coordinates[table], np.zeros(len(pairs)), fit.values[table]
        sides = np.tile([1.0, -1.0], len(pairs) // 2)  # a larger multiplier is a smaller combination
        ends[begin : begin + size] = _follow(model, start, rows[place], sides, alpha).reshape(-1, 2)
    return ends.reshape(count, k, 2)


def _follow(model: LogLinearModel, start: Point, rows: Array, sides: Array, alpha: float) -> Array:
    """Follow paths to the critical value on their sides; the combinations there (N,), infinite if there is none."""
    columns = model.basis[0]
    coordinates, multiplier, values = start
    origin = np.einsum("np,np->n", rows, coordinates)
    ends, alive = np.where(sides > 0, -np.inf, np.inf), np.arange(len(sides))
    for _ in range(_ITERATIONS):
        c, side = rows[alive], sides[alive]
        means = np.exp(np.minimum(coordinates @ columns.T, fits.FAR))
        slack = values @ columns - multiplier[:, None] * c - means @ columns
        both = fits.solved(fits.information(columns, means), np.stack([slack, c], axis=-1))
        weights = both[..., 1] @ columns.T
        deviation, kurtosis = _spread(model, values, means, weights)
        target = side * (widened(alpha, kurtosis) * deviation) / np.einsum("np,np->n", c, both[..., 1])
        away = target - multiplier
        tangent = np.abs(weights).max(axis=1)
        move = np.clip(away, -_STEP / tangent, _STEP / tangent)
        step = both[..., 0] - both[..., 1] * move[:, None]
        reach = np.abs(step @ columns.T).max(axis=1)
        size = fits.damping(reach)
        coordinates, multiplier = coordinates + size[:, None] * step, multiplier + size * move
        combination = np.einsum("np,np->n", c, coordinates)
        done = (reach < _SOLVED) & (np.abs(away) <= _SOLVED * np.maximum(np.abs(target), 1e-12))
        ends[alive[done]] = combination[done]
        going = np.isfinite(combination) & np.isfinite(multiplier) & ~done
        going &= np.abs(combination - origin[alive]) < _BEYOND
        alive, coordinates, multiplier, values = (one[going] for one in (alive, coordinates, multiplier, values))
        if not alive.size:
            break
    return ends


def _spread(model: LogLinearModel, values: Array, means: Array, weights: Array) -> tuple[Array, Array]:
    """Return standard deviation and excess kurtosis (N,) of sums of counts with weights (N, d)."""
    variance = model.noise.variance(weights)
    if model.population:
        sampling = fits.sampling_variance(model, values, means, (weights**2)[:, None, :])[:, 0]
        if model.nobs is not None:
            sampling = np.maximum(sampling - np.einsum("nd,nd->n", weights, means) ** 2 / model.nobs, 0.0)
        variance = variance + sampling
    variance = np.maximum(variance, 1e-300)
    if model.noise.is_normal:
        return np.sqrt(variance), np.zeros(len(variance))
    return np.sqrt(variance), model.noise.fourth_cumulant(weights) / variance**2


class ScoreTest(NamedTuple):
    """Score tests of R tables.

    Attributes
    ----------
    exists : ndarray of bool (R,)
        Whether there is a fit under the null hypothesis; if not, there is no evidence against it.
    distance : ndarray (R,)
        Signed, in standard deviations, for one restriction; the root of the squared length for several.
    pvalue : ndarray (R,)
    point : (ndarray (R, p), ndarray (R,), ndarray (R, d))
        Starting points of paths to the interval's endpoints: coordinates, multipliers, counts.
    """

    exists: Mask
    distance: Array
    pvalue: Array
    point: Point


def score_test(model: LogLinearModel, values: Array, restrictions: Array, targets: Array) -> ScoreTest:
    """Test ``restrictions @ b = targets``, independent rows (k, p), in R tables (R, d).

    The reference distribution for several restrictions is chi-squared, or its analogue with Laplace variables.
    """
    columns, back = model.basis
    rows = restrictions @ back
    free = np.linalg.svd(rows)[2][len(rows) :].T
    fixed = np.linalg.lstsq(rows, targets, rcond=None)[0]
    offset = np.broadcast_to(columns @ fixed, values.shape)
    guess = (fits.first_guess(columns, values, fits.guess_floor(model)) - fixed) @ free
    found, means, exists = fits.newton(columns @ free, values @ columns @ free, start=guess, offset=offset)
    coordinates = fixed + found @ free.T
    distance, pvalue, multiplier = np.zeros(len(values)), np.ones(len(values)), np.zeros(len(values))
    if exists.any():  # where there is no fit the numbers mean nothing, and need not have a covariance
        distance[exists], pvalue[exists], multiplier[exists] = _tested(model, values[exists], means[exists], rows)
    return ScoreTest(exists, distance, pvalue, (coordinates, multiplier, values))


def _tested(model: LogLinearModel, values: Array, means: Array, rows: Array) -> tuple[Array, Array, Array]:
    """Return distances, p-values and multipliers (R,) at fits under restrictions, rows (k, p) of the basis."""
    columns = model.basis[0]
    slack = (values - means) @ columns
    sides = np.concatenate([slack[:, None], np.broadcast_to(rows, (len(slack), *rows.shape))], axis=1)
    both = fits.solved(fits.information(columns, means), np.swapaxes(sides, 1, 2))
    shift = np.einsum("kp,np->nk", rows, both[..., 0])
    weights = np.swapaxes(both[..., 1:], 1, 2) @ columns.T
    if len(rows) == 1:
        deviation, kurtosis = _spread(model, values, means, weights[:, 0])
        distance = shift[:, 0] / deviation
        return distance, widened_pvalue(distance, kurtosis), shift[:, 0] / np.einsum("p,np->n", rows[0], both[..., 1])
    covariance = model.noise.covariance(weights)
    if model.population:
        covariance = covariance + fits.sampling_covariance(model, values, means, weights)
    covariance = fits.not_singular(model, covariance, covariance)
    scaled = np.linalg.solve(covariance, shift[..., None])[..., 0]
    distance = np.sqrt(np.maximum(np.einsum("nk,nk->n", shift, scaled), 0.0))
    return distance, _joint_pvalues(model, distance**2, covariance, weights), np.zeros(len(values))


def one_sided(model: LogLinearModel, values: Array, contrast: Array, alpha: float) -> Array:
    """Score intervals (R, 2) of a combination (p,) that tables (R, d) do not identify, unbounded on at least one side.

    The whole line if there is no fit under a value of the combination either.
    """
    ends = np.tile([-np.inf, np.inf], (len(values), 1))
    start = score_test(model, values, contrast[None], np.zeros(1))
    good = np.flatnonzero(start.exists)
    if good.size:
        pairs = np.repeat(good, 2)
        rows = np.broadcast_to(contrast @ model.basis[1], (2 * good.size, len(contrast)))
        sides = np.tile([1.0, -1.0], good.size)
        ends[good] = _follow(model, tuple(one[pairs] for one in start.point), rows, sides, alpha).reshape(-1, 2)
    return ends


# Tests of a model


def ridge_fit(columns: Array, values: Array, noise: CellNoise, strength: float = _RIDGES[0]) -> Array:
    """Fitted counts (R, d) of the model with orthonormal columns (d, p), using the ridge of the tests."""
    spread = float(np.sqrt(noise.of_counts.mean()))
    centred = columns - columns.mean(axis=0)
    penalty = centred.T @ centred / len(columns)
    start = fits.first_guess(columns, values, max(1.0, spread))
    ridge = strength * (spread + _LEAST_RIDGE)
    return fits.newton(columns, values @ columns, start=start, ridge=ridge, penalty=penalty)[1]


@dataclass(frozen=True, eq=False)
class NestedLogLinear(CountTest):
    """The null hypothesis of a log-linear model, against a larger one or none; a `NullModel` with `SeveralFits`.

    Attributes
    ----------
    smaller : ndarray (d, p)
        Orthonormal columns of the hypothesis.
    more : ndarray (d, q)
        Orthonormal columns that the larger model adds, orthogonal to these; d - p of them without one.
    noise : CellNoise
    nobs : int or None
        The number of rows if it is public.
    """

    smaller: Array
    more: Array
    noise: CellNoise
    nobs: int | None = None

    @property
    def dof(self) -> int:
        """Degrees of freedom."""
        return int(self.more.shape[1])

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`."""
        flat, larger = values.reshape(-1, values.shape[-1]), np.hstack([self.smaller, self.more])
        found, size = np.empty(len(flat)), max(_BLOCK // larger.size, 50)
        for start in range(0, len(flat), size):
            part = flat[start : start + size]
            means = np.maximum(self.expected(part), _LEAST)
            inverse = 1.0 / (means + self.noise.of_counts)
            weighted = (part - means) * inverse
            if larger.shape[1] == len(larger):
                whole = np.einsum("rd,rd->r", weighted, part - means)
            else:
                whole = _explained(larger, means, inverse, weighted)
            rest = whole - _explained(self.smaller, means, inverse, weighted)
            found[start : start + size] = np.maximum(rest, 0.0)
        return np.asarray(found.reshape(values.shape[:-1]))

    def expected(self, values: Array) -> Array:
        """Return the counts (R, d) expected under the null hypothesis."""
        return ridge_fit(self.smaller, values, self.noise)

    def hidden(self, values: Array) -> Mask:
        """Whether a fitted count of tables (R, d) is small, or hidden by noise (R,)."""
        least = np.maximum(_SMALL, _CLEAR * np.sqrt(self.noise.of_counts))
        return np.asarray((self.expected(values) < least).any(axis=1))

    def fit(self, values: Array, strength: float = _RIDGES[0]) -> Fit:
        """Numbers of rows (R, 1), and probabilities of the cells (R, d)."""
        means = ridge_fit(self.smaller, values, self.noise, strength)
        totals = means.sum(axis=1)
        rows = np.rint(totals) if self.nobs is None else np.full(len(means), float(self.nobs))
        return np.maximum(rows, 1.0).astype(np.int64)[:, None], means / totals[:, None]

    def candidates(self, values: Array) -> list[Candidate]:
        """See `SeveralFits.candidates`."""
        hidden = np.flatnonzero(self.hidden(values))
        tried = [(_RIDGES[0], np.arange(len(values))), *((one, hidden) for one in _RIDGES[1:] if hidden.size)]
        return [Candidate(self, where, self.fit(values[where], strength)) for strength, where in tried]


def _explained(columns: Array, means: Array, inverse: Array, weighted: Array) -> Array:
    """Squared length of weighted residuals in the span of ``diag(m) X``."""
    curve, slope = fits.information(columns, means**2 * inverse), (weighted * means) @ columns
    return np.asarray(np.einsum("rp,rp->r", slope, np.linalg.solve(curve, slope[..., None])[..., 0]))


def nested(smaller: Array, larger: Array | None, noise: CellNoise, nobs: float | None) -> NestedLogLinear | None:
    """Return the test of a design (d, p) against a larger one or none; None if that does not span it."""
    columns = np.linalg.qr(smaller)[0]
    other = np.eye(len(columns)) if larger is None else np.linalg.qr(larger)[0]
    rest = other - columns @ (columns.T @ other)
    if np.abs(columns - other @ (other.T @ columns)).max() > _SPANNED:
        return None
    vectors, sizes, _ = np.linalg.svd(rest, full_matrices=False)
    return NestedLogLinear(columns, vectors[:, sizes > _SPANNED], noise, None if nobs is None else int(nobs))

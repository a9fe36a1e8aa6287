"""Inference of linear regression from noisy cross-products: the score method, simulation, joint tests, many releases.

The score method gives tests and intervals that stay valid where noise is large. The parametric bootstrap draws releases
from the fitted model: errors are normal given the regressors, privacy noise is drawn by its own law, and the whole
estimator is run again on every draw.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dpinfer.display.progress import watch
from dpinfer.errors import InferenceError
from dpinfer.regression.gram import (
    KAPPA_RELIABLE,
    GramFit,
    GramProblem,
    Score,
    covariance,
    fit_gram,
    laplace_parts,
    laplace_shares,
    noise_action,
)
from dpinfer.regression.near_empty import Ridge, ridges
from dpinfer.results.printing import refuse_dependent_rows
from dpinfer.statistics import inference
from dpinfer.statistics.arrays import noise_level, symmetric
from dpinfer.statistics.nulls import Restricted
from dpinfer.statistics.numerical import inverted
from dpinfer.statistics.tails import critical_value, joint_pvalue, pvalue_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpinfer.regression.near_empty import LevelColumns
    from dpinfer.release.laws import NoiseLaw
    from dpinfer.release.release import Release
    from dpinfer.statistics.arrays import Array, Mask, Places

METHODS = ("auto", "wald", "score", "simulated")

_ROUNDS = 3
_CONTRACTS, _CONTRACTIONS = 4.0, 14
_BATCH = 500

_STEADY = 2.0
"""Standard errors of its privacy noise below which an error variance is not taken to be."""


def score_statistic(score: Score, values: Array) -> Array:
    """Signed root (R, k) of the score statistic of ``contrasts @ params = values``: distance over standard error."""
    distance = score.centre - values
    return np.asarray(distance / np.sqrt(score.variance_at(distance)))


def score_pvalue(fit: GramFit, contrasts: Array, values: Array) -> Array:
    """Two-sided p-values (R, k) of ``contrasts @ params = values``; Laplace noise enters by its own law."""
    score = Score(fit, contrasts)
    return pvalue_of(np.abs(score_statistic(score, values)), score.df, score.shares)


def score_interval(fit: GramFit, contrasts: Array, alpha: float) -> Array:
    """Intervals of level ``1 - alpha`` by inversion of the score statistic, (R, k, 2); may be infinite.

    The set of values that are not rejected may be an interval, a line, or the outside of an interval
    (Fieller 1954); what is returned is the smallest interval that holds all of it. Where the design is well
    identified the ends are found by a contraction; elsewhere, and where that does not settle, by a scan.
    """
    ends = np.empty((len(fit.kappa), len(contrasts), 2))
    settled = np.zeros(len(fit.kappa), dtype=bool)
    clear = np.flatnonzero(fit.kappa >= _CONTRACTS)
    if clear.size:
        ends[clear], settled[clear] = _contracted_ends(taken(fit, clear), contrasts, alpha)
    rest = np.flatnonzero(~settled)
    if rest.size:
        ends[rest] = _scanned_ends(taken(fit, rest), contrasts, alpha)
    return ends


def taken(fit: GramFit, index: Places) -> GramFit:
    """Return some of the replicates."""
    if len(index) == len(fit.kappa):
        return fit
    arrays = ("inverse", "floored", "plain", "params", "scale", "kappa", "df_resid", "rsquared")
    return replace(fit, **{name: getattr(fit, name)[index] for name in arrays})


def _contracted_ends(fit: GramFit, contrasts: Array, alpha: float) -> tuple[Array, Mask]:
    """Iterate ``end = centre -+ critical * error(end)``: ends (R, k, 2), and which replicates settled (R,)."""
    score = Score(fit, contrasts)
    critical = critical_value(alpha, score.df, score.shares)
    settled = np.ones(len(fit.kappa), dtype=bool)
    ends = []
    for sign in (-1.0, 1.0):
        acted, half = score.acted, critical * np.sqrt(score.variance)
        for _ in range(_CONTRACTIONS):
            acted, variance = score.on_the_way(acted, -sign * critical**2 / half)
            step, half = np.abs(critical * np.sqrt(variance) - half), critical * np.sqrt(variance)
            close = np.all(step <= 1e-9 * half, axis=1)
            if close.all():
                break
        settled &= close
        ends.append(score.centre + sign * half)
    return np.stack(ends, axis=-1), settled


def _scanned_ends(fit: GramFit, contrasts: Array, alpha: float) -> Array:
    """Find the ends of the intervals (R, k, 2) by a scan from outside in."""
    score = Score(fit, contrasts)
    critical = critical_value(alpha, score.df, score.shares)

    def inside(away: Array) -> Mask:
        return np.abs(score_statistic(score, score.centre + away)) <= critical

    return inverted(inside, score.centre, np.sqrt(score.variance))


def score_joint(fit: GramFit, contrasts: Array, values: Array) -> tuple[Array, Array]:
    """Score statistic (R,) of k linearly independent restrictions at once, and degrees of freedom (R,).

    The statistic is about chi-squared with k degrees of freedom under the restrictions. The degrees of freedom are the
    fewest among the restrictions, for the denominator of an F reference.
    """
    score = Score(fit, contrasts)
    distance, beta = score.centre - values, fit.plain
    for step in range(_ROUNDS + 1):
        acted, _ = score.action(np.broadcast_to(beta[:, None, :], score.weights.shape))
        spread = np.einsum("rki,rli->rkl", score.weights, acted)
        solved = np.linalg.solve(spread, distance[..., None])[..., 0]
        if step < _ROUNDS:
            shift = np.einsum("rk,rki,rij->rj", solved, acted, fit.inverse)
            beta = fit.plain - score.fraction[:, 0] * shift
    return np.einsum("rk,rk->r", distance, solved), score.df.min(axis=1)


def joint_loadings(fit: GramFit, contrasts: Array) -> Array | None:
    """Return the loadings (R, k, m) of contrasts on Laplace draws at the estimate; None where the noise is normal.

    See `dpinfer.statistics.tails.joint_pvalue`.
    """
    if not fit.problem.laplace:
        return None
    score = Score(fit, contrasts)
    parts = laplace_parts(fit.problem, score.residual(fit.plain[:, None]), score.on_features)
    spread = np.einsum("rki,rli->rkl", score.weights, score.acted)
    return np.asarray(np.linalg.solve(np.linalg.cholesky(0.5 * (spread + np.swapaxes(spread, 1, 2))), parts))


def simulate_pivots(
    fit: GramFit, nobs: float, law: NoiseLaw, steps: Array, replicates: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draw releases from the fitted model and return how far their estimates fall from the truth.

    Given the regressors, ``X'e`` is normal with covariance ``s2 X'X`` and independent of the residual sum of
    squares, ``s2`` times chi-squared; to these exact draws the noise of the release is added by its own law,
    and the whole estimator is run again.

    Parameters
    ----------
    fit : GramFit
        The fit of the release (R = 1), with cross-products floored at the noise level.
    nobs : float
    law : NoiseLaw
        Law of the released upper triangle (further coordinates are ignored).
    steps : ndarray (m,)
        Size of an integer step of each coordinate.
    replicates : int
    rng : numpy.random.Generator

    Returns
    -------
    deviations : ndarray (B, p)
        Estimate minus truth.
    errors : ndarray (B, p, p)
        Covariance estimate of each replicate.
    """
    steps = np.asarray(steps)
    deviations, covariances = [], []
    with watch("simulated releases", total=replicates, unit=" releases") as counted:
        for start in range(0, replicates, _BATCH):
            size = min(_BATCH, replicates - start)
            sums = draw_sums(fit, fit.params, size, rng)[0]
            sums += draw_noise(law, steps, sums.shape[-1], size, rng)
            again = fit_gram(fit.problem, sums, np.full(size, nobs))
            deviations.append(again.params - fit.params)
            covariances.append(sum(covariance(again)))
            counted(size)
    return np.concatenate(deviations), np.concatenate(covariances)


def draw_sums(fit: GramFit, params: Array, size: int, rng: np.random.Generator) -> Array:
    """Draw sums of z z' (R, size, d, d) from the models of R fits, given their regressors and without privacy noise.

    Cross-products (floored) and error variances of the models are those of the fits; the coefficients are ``params``
    (R, p). The sums are right in every combination of features that the regression reads.
    """
    cross = fit.floored
    beta = params @ fit.mix
    error = np.zeros((len(cross), size, cross.shape[-1]))
    drawn = rng.normal(size=error.shape)
    if fit.problem.population:
        error = np.sqrt(fit.sampling_scale)[:, None, None] * (drawn @ np.swapaxes(np.linalg.cholesky(cross), 1, 2))
    return _assemble(fit, beta, error, _residual(fit, error, rng))


def _residual(fit: GramFit, error: Array, rng: np.random.Generator) -> Array:
    """Sum of squared errors e'e given X'e: the part in the span of X, and chi-squared outside it, (R, size)."""
    df = np.maximum(fit.df_resid, 1.0)[:, None]
    units = np.maximum(fit.df_units, 1.0)[:, None]
    if not fit.problem.population:
        return np.broadcast_to(fit.scale[:, None] * df, error.shape[:2])
    inside = ((error @ np.linalg.inv(fit.floored)) * error).sum(axis=-1)
    outside = rng.chisquare(units, size=error.shape[:2]) * (df / units)
    return np.asarray(inside + fit.scale[:, None] * outside)


def _assemble(fit: GramFit, beta: Array, error: Array, squares: Array) -> Array:
    """Return sums over the features that have these cross-products of regressors and response, (R, size, d, d).

    The features are completed by the pseudo-inverse of (rows; response): only their combinations in the
    regression are ever read again.
    """
    cross = fit.floored
    frame = np.vstack([fit.rows, fit.problem.response])
    fitted = np.einsum("rij,rj->ri", cross, beta)
    moment = fitted[:, None, :] + error
    total = (fitted * beta).sum(axis=1)[:, None] + 2 * np.einsum("rbi,ri->rb", error, beta) + squares
    width = frame.shape[0]
    wanted = np.zeros((*squares.shape, width, width))
    wanted[..., :-1, :-1] = cross[:, None]
    wanted[..., :-1, -1] = wanted[..., -1, :-1] = moment
    wanted[..., -1, -1] = total
    back = np.linalg.pinv(frame)
    return back @ wanted @ back.T


def draw_noise(law: NoiseLaw, steps: Array, width: int, size: int, rng: np.random.Generator) -> Array:
    """Draw the noise of a released upper triangle, as symmetric matrices (size, width, width)."""
    count = width * (width + 1) // 2
    return symmetric(law.rvs(size, rng)[:, :count] * steps[:count], width)


def release_matrices(release: Release, width: int) -> tuple[Array, Array]:
    """Noisy sums of z z' and the variances of their noise, each (d, d).

    Parameters
    ----------
    release : Release
        Holding the upper triangle of d features, row by row.
    width : int
        The number of features d.

    Raises
    ------
    InferenceError
        If the release holds too few sums.
    """
    count = width * (width + 1) // 2
    if len(release.values) < count:
        raise InferenceError(f"the release holds {len(release.values)} sums, {count} are needed for {width} features")
    return symmetric(release.array, width), symmetric(release.noise_variances, width)


@dataclass(frozen=True, eq=False)
class LinearInference(inference.Inference):
    """Least squares on noisy cross-products.

    Attributes
    ----------
    fit : GramFit
        Its first coefficients are the parameters.
    ridge : Ridge or None
        Where some levels are near-empty: the ridge on them that is in ``fit``. The method is then "score".
    release : Release
        The one that was fitted; None of R.
    size : float
        The count of rows that the inference divides by.
    """

    fit: GramFit
    ridge: Ridge | None = None
    release: Any = None
    size: float = np.nan

    methods: ClassVar[tuple[str, ...]] = METHODS
    cov_type = "nonrobust"

    @cached_property
    def _covariances(self) -> tuple[Array, Array]:
        count = len(self.names)
        return covariance(self.fit, count) if self.ridge is None else self.ridge.covariance(count)

    @property
    def params(self) -> Array:
        """Point estimates (p,)."""
        return np.asarray(self.fit.params[0, : len(self.names)])

    @property
    def cov_sampling(self) -> Array:
        """Covariance from sampling (p, p)."""
        return np.asarray(self._covariances[0][0])

    @property
    def cov_noise(self) -> Array:
        """Covariance from privacy noise (p, p)."""
        return np.asarray(self._covariances[1][0])

    @property
    def df_resid(self) -> float:
        """Residual degrees of freedom; infinite where only the noise counts."""
        return float(self.fit.df_units[0]) if self.fit.problem.population else np.inf

    @property
    def _residual_is_positive(self) -> bool:
        return bool(self.fit.rsquared[0] < 1)

    @property
    def scale(self) -> float | None:
        """Error variance; None where its noisy estimate is not positive."""
        return float(self.fit.scale[0]) if self._residual_is_positive else None

    @property
    def rsquared(self) -> float | None:
        """Coefficient of determination, at least 0; None where the noisy error variance is not positive."""
        return float(self.fit.rsquared[0]) if self._residual_is_positive else None

    @property
    def kappa(self) -> float:
        """Smallest eigenvalue of the scaled cross-products over the noise level, near-empty levels left out."""
        return float(self.fit.kappa[0] if self.ridge is None else self.ridge.rest[0])

    @property
    def flagged(self) -> Mask:
        """Whether a release carries a warning (R,)."""
        return (self.fit.kappa < KAPPA_RELIABLE) | (self.fit.rsquared >= 1) | (self.ridge is not None)

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, from released numbers only."""
        found = [] if self.ridge is None else [self.ridge.warning]
        if self.kappa < 1:
            found.append(
                f"privacy noise dominates: the smallest eigenvalue of the noisy cross-products is {self.kappa:.2g} "
                "times the noise level and was raised to it; read the intervals, not the estimates"
            )
        elif self.kappa < KAPPA_RELIABLE:
            found.append(
                f"privacy noise dominates some linear combination of coefficients: eigenvalue {self.kappa:.2g} times "
                f"the noise level, below {KAPPA_RELIABLE:g}; estimates are biased toward zero and intervals may be "
                "wide or unbounded"
            )
        if self.release.nobs is None and self.size <= len(self.names) + 1:
            found.append("the noisy number of rows is not larger than the number of coefficients")
        if not self._residual_is_positive:
            found.append("the noisy error variance is not positive: it and R-squared are not identified")
        return (*found, *self.notes)

    def with_method(self, method: str) -> Self:
        """Return the same estimates under another inference method; beside near-empty levels there is one.

        Raises
        ------
        OptionError
            If there is no such method.
        """
        chosen = super().with_method(method)
        return chosen if self.ridge is None else replace(chosen, method="score")

    @cached_property
    def _drawn(self) -> tuple[Array, Array]:
        rng = np.random.default_rng(self.seed)
        steps = np.asarray(self.release.steps)
        return simulate_pivots(self.fit, self.size, self.release.law, steps, self.replicates, rng)

    def _linear(self, rows: Array) -> inference.Contrasts:
        fit = self.fit
        error = np.sqrt(inference.variance_of(rows, np.add(*self._covariances)))
        return inference.Contrasts(
            fit.params[:, : len(self.names)] @ rows.T,
            error,
            fit.df_units[:, None] if fit.problem.population else np.inf,
        )

    def _pivots(self, rows: Array) -> Array:
        """See `Inference`."""
        deviations, covariances = self._drawn
        errors = np.sqrt(np.einsum("kp,bpq,kq->bk", rows, covariances, rows))
        return np.asarray(np.abs(deviations @ rows.T) / errors)

    def _ends(self, rows: Array, alpha: float) -> Array:
        """See `Inference`."""
        if self.ridge is not None:
            return self.ridge.intervals(rows, alpha)
        return score_interval(self.fit, rows, alpha) if self.method == "score" else super()._ends(rows, alpha)

    def _tails(self, rows: Array, values: Array) -> Array:
        """See `Inference`."""
        if self.ridge is not None:
            return self.ridge.pvalues(rows, values[None])
        return score_pvalue(self.fit, rows, values[None]) if self.method == "score" else super()._tails(rows, values)

    def _joint(self, rows: Array, values: Array) -> tuple[float, float]:
        """See `Inference`."""
        if self.ridge is not None:
            return self.ridge.joint(rows, values)
        count = len(rows)
        if self.method == "score":
            statistics, df = score_joint(self.fit, rows, values[None])
            loadings = joint_loadings(self.fit, rows)
            own = None if loadings is None else loadings[0]
            return float(statistics[0]), joint_pvalue(float(statistics[0]), count, float(df[0]), own)
        statistic = float(
            inference.wald_lengths(rows @ self.params - values, rows @ (self.cov_sampling + self.cov_noise) @ rows.T)
        )
        if self.method == "wald":
            return statistic, joint_pvalue(statistic, count, self.df_resid)
        deviations, covariances = self._drawn
        drawn = inference.wald_lengths(deviations @ rows.T, rows @ covariances @ rows.T)
        return statistic, float(inference.simulated_pvalue(drawn, statistic))

    def restricted(self, restrictions: Array, targets: Array) -> Restricted:
        """Return ``restrictions @ params = targets`` as `simulate` tests it.

        Raises
        ------
        NotProvedError
            If a person may have several rows.
        """
        problem, release = self.fit.problem, self.release
        if problem.population:
            told = 'null="asymptotic" counts rows of a person as alike'
            refuse_dependent_rows(release.schema, 'null="simulated"', told)
        model = LinearRestrictions(problem, restrictions, targets, release.law, np.asarray(release.steps))
        values = gram_values(release_matrices(release, problem.design.shape[1])[0], np.asarray(self.size))
        raised = problem.population and self.fit.scale[0] < scale_error(self.fit)[0]
        return Restricted(model, values, bool(raised))


def gram_problem(
    law: NoiseLaw,
    steps: Sequence[float] | Array,
    design: Array,
    response: Array,
    *,
    population: bool = True,
    rows_per_unit: int = 1,
) -> GramProblem:
    """Pose a linear regression on released cross-products, of which one release has this noise law and these steps.

    Parameters
    ----------
    law : NoiseLaw
    steps : sequence of float, length m
    design : ndarray (p, d)
        Regressors as combinations of the released features.
    response : ndarray (d,)
        The dependent variable as a combination of the released features.
    population : bool
        Whether the population is estimated; of the data themselves only the noise counts as error.
    rows_per_unit : int
        Rows of one independent unit at most: the sampling covariance is multiplied by it.
    """
    noise = symmetric(law.variances * np.asarray(steps) ** 2, design.shape[1])
    return GramProblem(noise, design, response, law.family == "laplace", population, rows_per_unit)


def _fitted(
    problem: GramProblem, gram: Array, names: tuple[str, ...], levels: LevelColumns | None
) -> list[tuple[Places, LinearInference]]:
    """Fit releases (R, d, d): together all that have the same near-empty levels, with their places."""
    nobs = gram[:, 0, 0]
    target = "population" if problem.population else "data"
    plain = LinearInference(names, fit_gram(problem, gram, nobs), target=target)
    rare = [] if levels is None else list(ridges(plain.fit, gram, nobs, levels))
    found = [(places, replace(plain, fit=ridge.fit, ridge=ridge)) for places, ridge in rare]
    left = np.setdiff1d(np.arange(len(gram)), [place for places, _ in rare for place in places])
    return [*found, (left, replace(plain, fit=taken(plain.fit, left)))] if left.size else found


def linear_inference(
    release: Release,
    problem: GramProblem,
    names: tuple[str, ...],
    *,
    method: str = "auto",
    weighted: bool = False,
    levels: LevelColumns | None = None,
    **options: Any,
) -> LinearInference:
    """Infer a linear regression from a release of cross-products.

    Parameters
    ----------
    release : Release
    problem : GramProblem
    names : tuple of str, length p
    method : {"auto", "wald", "score", "simulated"}
        ``"auto"`` is the score method.
    weighted : bool
        Whether rows were down-weighted by a norm bound, so that the first sum is not the number of rows.
    levels : LevelColumns, optional
        Columns of single levels: a ridge goes to those that are near-empty.
    **options
        Replicates and seed for ``"simulated"``, and notes.

    Returns
    -------
    LinearInference

    Raises
    ------
    OptionError
        If an argument has an invalid value.
    """
    sums, _ = release_matrices(release, problem.design.shape[1])
    ((_, found),) = _fitted(problem, sums[None], names, levels)
    size, public = float(sums[0, 0]), release.nobs is not None
    found = replace(
        found,
        release=release,
        nobs=(float(release.nobs or 0) if public else None) if weighted else size,
        nobs_is_public=public if weighted else release.law.scales[0] == 0.0,
        size=size,
        **options,
    )
    return found.with_method(method)


def batch_linear(
    problem: GramProblem,
    values: Array,
    names: tuple[str, ...],
    *,
    alpha: float,
    method: str = "auto",
    contrasts: Mapping[str, Mapping[str, float]] | None = None,
    levels: LevelColumns | None = None,
) -> inference.BatchEstimates:
    """Infer a linear regression from many releases of cross-products; equal to `linear_inference` one by one.

    Parameters
    ----------
    problem, names, levels
        As in `linear_inference`.
    values : ndarray (R, m)
        Noisy upper triangles, in units of the scaled features.
    alpha : float
        Intervals have level ``1 - alpha``.
    method : {"auto", "score", "wald"}
    contrasts : mapping of name to weights by coefficient, optional
        Further quantities to infer, after the coefficients.
    """
    parts = _fitted(problem, symmetric(values, problem.design.shape[1]), names, levels)
    order = np.argsort(np.concatenate([places for places, _ in parts]))
    found = [part.with_method(method).batch(alpha, contrasts) for _, part in parts]
    arrays = ("params", "bse", "pvalues", "intervals", "flagged")
    joined = {name: np.concatenate([getattr(one, name) for one in found])[order] for name in arrays}
    return inference.BatchEstimates(found[0].names, **joined)


def linear_oracle(
    problem: GramProblem,
    sums: Array,
    names: tuple[str, ...],
    *,
    sampling: Array,
    alpha: float,
    contrasts: Mapping[str, Mapping[str, float]] | None = None,
) -> inference.Oracle:
    """Say what an oracle's interval would be, and how far noise dominates the design; arguments as `batch_linear`.

    ``sums`` (m,) is the expected noise-free upper triangle, in units of the scaled features, and ``sampling`` (q,) the
    true sampling variance of every coefficient and contrast.
    """
    design, response, gram = problem.design, problem.response, symmetric(sums, problem.design.shape[1])
    inverse = np.asarray(np.linalg.inv(design @ gram @ design.T), dtype=np.float64)
    residual = response - (inverse @ (design @ gram @ response)) @ design
    on_features = inference.contrast_rows(names, contrasts) @ inverse @ design
    noise = np.einsum("pd,pd->p", on_features, noise_action(problem, residual, on_features))
    laplace = laplace_shares(problem, residual, on_features, np.ones(len(noise))) if problem.laplace else None
    rows = np.linalg.qr(design.T)[0].T
    level = noise_level(problem.noise, rows)
    kappa = float(np.linalg.eigvalsh(rows @ gram @ rows.T)[0] / max(level, 1e-300))
    return inference.Oracle.of(noise, sampling, kappa, alpha=alpha, laplace=laplace)


@dataclass(frozen=True, slots=True)
class RestrictedFit:
    """R regressions that meet the restrictions.

    Attributes
    ----------
    fit : GramFit
        Unrestricted; regressors and error variance of the hypothesis are its own, see `LinearRestrictions`.
    params : ndarray (R, p)
        Coefficients that meet the restrictions.
    nobs : ndarray (R,)
        Number of rows, as released.
    """

    fit: GramFit
    params: Array
    nobs: Array


def gram_values(gram: Array, nobs: Array) -> Array:
    """Put numbers of rows (...) beside sums of z z' (..., d, d), as `LinearRestrictions` reads them, (..., 1 + d d)."""
    flat = gram.reshape(*gram.shape[:-2], gram.shape[-1] ** 2)
    return np.concatenate([np.asarray(nobs)[..., None], flat], axis=-1)


def scale_error(fit: GramFit) -> Array:
    """Return the standard error (R,) that privacy noise gives the error variances of R fits.

    The noise of the sum of squared residuals is ``a'E a`` for the residual a on the features, of variance
    ``sum_i a_i^4 N_ii + 4 sum_{i<j} a_i^2 a_j^2 N_ij``.
    """
    squared = (fit.problem.response - fit.params @ fit.problem.design) ** 2
    variance = 2 * ((squared @ fit.problem.noise) * squared).sum(axis=1) - squared**2 @ np.diag(fit.problem.noise)
    return np.asarray(np.sqrt(variance) / fit.df_resid)


@dataclass(frozen=True, eq=False)
class LinearRestrictions:
    """``restrictions @ beta = targets`` in a regression on noisy cross-products; implements `NullModel`.

    The values of a release are its number of rows and the sums of z z', see `gram_values`.

    Attributes
    ----------
    problem : GramProblem
        Its ``population`` says whether beta is that of the population or of the data; for the data only the noise is
        random.
    restrictions : ndarray (k, p)
        Linearly independent.
    targets : ndarray (k,)
    law : NoiseLaw
        Of the released upper triangle of the sums (further coordinates are ignored).
    steps : ndarray (m,)
        Size of an integer step of each coordinate.

    Raises
    ------
    InferenceError
        If the restrictions are linearly dependent.

    Notes
    -----
    The error variance s2 enters as ``sqrt(s2^2 + (2 e)^2)``, e the standard error that privacy noise gives it, in the
    release and in every draw alike. A statistic that divides by an s2 made small by noise is large by accident, and a
    null distribution simulated from that s2 would not show it. Where e is small the statistic is that of `score_joint`.

    The hypothesis nearest to an estimate b of covariance V (sampling and noise) is
    ``b - V R' (R V R')^-1 (R b - q)``. Given the regressors, ``X'e`` is normal with covariance ``s2 X'X`` and
    independent of the residual sum of squares, ``s2`` times chi-squared.
    """

    problem: GramProblem
    restrictions: Array
    targets: Array
    law: NoiseLaw
    steps: Array

    def __post_init__(self) -> None:
        inference.independent(self.restrictions, self.targets)

    @property
    def dof(self) -> int:
        """Number of restrictions."""
        return len(self.restrictions)

    def _refit(self, values: Array) -> GramFit:
        """Fits of R releases (R, m)."""
        width = self.problem.design.shape[1]
        fit = fit_gram(self.problem, values[:, 1:].reshape(-1, width, width), values[:, 0])
        return replace(fit, scale=np.hypot(fit.scale, _STEADY * scale_error(fit)))

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`: about chi-squared with `dof` degrees of freedom where noise is small."""
        flat = values.reshape(-1, values.shape[-1])
        found = np.full(len(flat), np.nan)
        usable = np.flatnonzero(np.isfinite(flat).all(axis=1))
        if usable.size:
            found[usable] = self._statistics(flat[usable])
        return np.where(np.isfinite(found), found, np.nan).reshape(values.shape[:-1])

    def _statistics(self, values: Array) -> Array:
        """Statistics (R,), NaN where the equations of a release cannot be solved."""
        try:
            with np.errstate(all="ignore"):
                return score_joint(self._refit(values), self.restrictions, self.targets[None])[0]
        except np.linalg.LinAlgError:
            if len(values) == 1:
                return np.full(1, np.nan)
            middle = len(values) // 2
            return np.concatenate([self._statistics(values[:middle]), self._statistics(values[middle:])])

    def fit(self, values: Array) -> RestrictedFit:
        """Fit the hypothesis to R releases (R, m)."""
        fit = self._refit(values)
        total = np.add(*covariance(fit))
        crossed = total @ self.restrictions.T
        spread = self.restrictions @ crossed
        distance = fit.params @ self.restrictions.T - self.targets
        solved = np.linalg.pinv(spread, hermitian=True) @ distance[..., None]
        return RestrictedFit(fit, fit.params - (crossed @ solved)[..., 0], values[:, 0])

    def draw(self, fitted: RestrictedFit, size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`: (R, size, 1 + d d)."""
        sums = draw_sums(fitted.fit, fitted.params, size, rng)
        noise = draw_noise(self.law, self.steps, sums.shape[-1], len(sums) * size, rng).reshape(sums.shape)
        sums += noise
        return gram_values(sums, fitted.nobs[:, None] + noise[..., 0, 0])

"""Cross-products of columns: what is measured, the noise to be expected, and least squares from noisy sums.

What estimates is a function of arrays, vectorised over replicates: the leading axis ``R`` of the arrays of a `GramFit`
is 1 for one release and the number of simulated releases in a study.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import betaincinv

from dpinfer.checks import of_type
from dpinfer.errors import FormulaError, NotProvedError, OptionError
from dpinfer.kernel.plan import sample_batch
from dpinfer.kernel.rows.features import Features, RowClip
from dpinfer.kernel.rows.products import GramSum
from dpinfer.kernel.stage import Stage, Sum
from dpinfer.schema.basis import build_basis, represent
from dpinfer.schema.columns import Real
from dpinfer.schema.expressions import compile_expression
from dpinfer.schema.formula import CompiledFormula, DesignColumn, compile_terms, two_sided
from dpinfer.schema.grid import UNIT, Basis
from dpinfer.statistics.arrays import floats, noise_level

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.rows.base import Batch
    from dpinfer.schema.nodes import Expression
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array

KAPPA_RELIABLE = 3.0
"""Below this ratio of the smallest eigenvalue to the noise, a fit is called noise-dominated."""

ASSUMED = (
    "Standard errors are nonrobust: they assume a linear model with homoskedastic errors. Robust ones cannot be "
    "computed from cross-products."
)

_TINY = 1e-9

_ROWS = 4096

_MANY = 1e12
"""Rows beside which noise is small."""


@dataclass(frozen=True, eq=False)
class GramDesign:
    """The columns of regressions, compiled against a schema: what is measured, and how coefficients are read from it.

    Attributes
    ----------
    schema : Schema
    formula : str, optional
        The regression, if one was asked for.
    terms : tuple of str
        The columns, if a Gram was asked for.
    where : str, optional
    row_norm : float, optional
    norm : str
    clamped_share : float
        Above 0, clamped rows are counted.
    """

    schema: Schema
    formula: str | None = None
    terms: tuple[str, ...] = ()
    where: str | None = None
    row_norm: float | None = None
    norm: str = "l2"
    clamped_share: float = 0.0

    @cached_property
    def compiled(self) -> CompiledFormula:
        """The columns asked for."""
        if self.formula is None:
            return compile_terms(self.terms, self.schema)
        return two_sided(self.formula, self.schema)

    @cached_property
    def columns(self) -> tuple[DesignColumn, ...]:
        """Regressors, then the response if there is one."""
        response = self.compiled.response
        return self.compiled.design if response is None else (*self.compiled.design, response)

    @cached_property
    def basis(self) -> Basis:
        """The features measured."""
        return build_basis(self.columns, self.schema)

    @cached_property
    def design(self) -> np.ndarray:
        """Regressors, then response, as combinations of the features (p + 1, d)."""
        return represent(self.basis, self.columns)

    @cached_property
    def condition(self) -> Expression | None:
        """The compiled ``where``."""
        if self.where is None:
            return None
        of_type(str, "where", self.where, 'a condition such as "age >= 18", or None')
        condition = compile_expression(self.where, self.schema)
        if not condition.boolean:
            raise FormulaError(self.where, "is not a condition", 'write a comparison, such as "age >= 18"')
        return condition

    @cached_property
    def rows(self) -> Features:
        """The row function."""
        clip = None
        if self.row_norm is not None:
            clip = RowClip(self.row_norm, self.norm)  # type: ignore[arg-type]
        return Features(self.basis, self.condition, clip, self.clamped_share > 0)

    def check(self) -> None:
        """Compile everything, and so refuse what cannot be served before anything is measured."""
        rows = self.rows
        if self.formula is not None:
            represent(rows.basis, self.columns)
        if self.row_norm is not None:
            self.response_is_last()

    @property
    def has_plain_response(self) -> bool:
        """Whether the response is one numeric feature of its own."""
        response, last = self.compiled.response, self.basis.blocks[-1]
        return not (response is None or last.factors or last.expression.text != response.expression.text)

    def response_is_last(self) -> None:
        """Refuse a bound on regressors, or a split price, where the response is not one numeric feature of its own.

        Raises
        ------
        NotProvedError
        """
        if not self.has_plain_response:
            raise NotProvedError("row_norm= and split= are proved for a response that is a numeric feature of its own")

    def stage(self, split: tuple[float, float, float] | None = None) -> Stage:
        """Ask for the cross-products, priced jointly unless ``split`` gives shares of the price for X'X, X'y and y'y.

        Raises
        ------
        OptionError
            If the shares are no shares.
        """
        self.check()
        if split is not None:
            self.response_is_last()
        rows = GramSum(self.rows, split=split is not None)
        pieces = (1.0,) if split is None else _check_split(split)
        clamped = self.clamped_share
        if len(rows.parts) == 1:
            return Stage(Sum(rows))
        counted = [clamped] if clamped > 0 else []
        return Stage(Sum(rows, shares=(*(share * (1 - clamped) for share in pieces), *counted)))


def _check_split(split: tuple[float, float, float]) -> tuple[float, float, float]:
    """Return the shares of X'X, X'y and y'y as floats; refuse what is not three positive shares of one."""
    shares = floats(split)
    if shares is None or len(shares) != 3 or not (min(shares) > 0 and abs(sum(shares) - 1) <= 1e-9):
        raise OptionError("split", split, "three positive shares for X'X, X'y and y'y that sum to 1")
    return shares[0], shares[1], shares[2]


@dataclass(frozen=True, slots=True)
class GramProblem:
    """A regression posed on noisy cross-products of d measured features z.

    Attributes
    ----------
    noise : ndarray (d, d)
        Variance of the noise of each entry of the (symmetric) noisy sum of z z'.
    design : ndarray (p, d)
        The regressors are ``design @ z``; full row rank.
    response : ndarray (d,)
        The dependent variable is ``response @ z``.
    laplace : bool
        Whether the noise is Laplace (else Gaussian).
    population : bool
        Whether the target is the population; otherwise only the noise counts as error.
    rows_per_unit : int
        Rows of one independent unit at most: the sampling covariance is multiplied by it.
    """

    noise: Array
    design: Array
    response: Array
    laplace: bool = False
    population: bool = True
    rows_per_unit: int = 1


@dataclass(frozen=True, slots=True)
class GramFit:
    """Estimates of a `GramProblem`, in coordinates with ``design = mix @ rows``, orthonormal ``rows``.

    Attributes
    ----------
    problem : GramProblem
    rows : ndarray (p, d)
        Orthonormal rows spanning the design.
    mix : ndarray (p, p)
        ``design = mix @ rows``; a contrast c of the coefficients is ``solve(mix, c)`` here.
    inverse : ndarray (R, p, p)
        Inverse of the noisy cross-products of the rotated regressors (they may be indefinite).
    floored : ndarray (R, p, p)
        The same cross-products with eigenvalues floored at the noise level.
    plain : ndarray (R, p)
        Solution of the noisy normal equations, rotated.
    params : ndarray (R, p)
        Coefficients of the design: the plain solution, or the floored one where the smallest
        eigenvalue is below the noise level.
    scale : ndarray (R,)
        Error variance, kept between zero and the noisy mean square of the response.
    kappa : ndarray (R,)
        Smallest eigenvalue over the noise level ``2 sqrt(v p)``.
    df_resid : ndarray (R,)
    rsquared : ndarray (R,)
    """

    problem: GramProblem
    rows: Array
    mix: Array
    inverse: Array
    floored: Array
    plain: Array
    params: Array
    scale: Array
    kappa: Array
    df_resid: Array
    rsquared: Array

    @property
    def sampling_scale(self) -> Array:
        """What the inverse cross-products are multiplied by for the sampling covariance (R,)."""
        return np.asarray(self.scale * self.df_resid / self.df_units)

    @property
    def df_units(self) -> Array:
        """Residual degrees of freedom of independent units, of which there may be fewer than rows (R,)."""
        if self.problem.rows_per_unit == 1:
            return self.df_resid
        size = self.df_resid + self.rows.shape[0]
        return np.asarray(np.maximum(size / self.problem.rows_per_unit - self.rows.shape[0], 1.0))


def noise_action(problem: GramProblem, residual: Array, weight: Array) -> Array:
    """Covariance of ``E @ residual`` applied to ``weight``, for the symmetric noise E; both (..., d).

    Entry i of ``E @ a`` has variance ``sum_j N_ij a_j^2``, and entries i != k have covariance
    ``N_ik a_i a_k``, since the two triangles of E are one draw.
    """
    diagonal = np.diag(problem.noise)
    cross = (residual * weight) @ problem.noise - residual * weight * diagonal
    return weight * ((residual**2) @ problem.noise) + residual * cross


def laplace_shares(problem: GramProblem, residual: Array, on_features: Array, variance: Array) -> Array:
    """Share of the variance of each contrast carried by each Laplace draw, (..., m), of which no other entry has noise.

    The noise is that of the cross-products of ``residual`` (..., d) with the features, which the contrast weights by
    ``on_features`` (..., d); ``variance`` (...) is the total variance of the contrast.
    """
    return laplace_parts(problem, residual, on_features) ** 2 / variance[..., None]


def laplace_parts(problem: GramProblem, residual: Array, on_features: Array) -> Array:
    """Return what Laplace draws of variance 1 add to contrasts, (..., m); see `laplace_shares`."""
    drawn = np.nonzero(np.triu(problem.noise))
    row, column = drawn
    both = on_features[..., row] * residual[..., column] + on_features[..., column] * residual[..., row]
    return np.asarray(np.where(row == column, 0.5, 1.0) * both * np.sqrt(problem.noise[drawn]))


def fit_gram(problem: GramProblem, gram: Array, nobs: Array, penalty: tuple[Array, Array] | None = None) -> GramFit:
    """Solve the noisy normal equations of R releases.

    ``gram`` (R, d, d) holds noisy sums of z z', the first feature the constant 1; ``nobs`` (R,) is public or released.
    ``penalty`` is added to the normal equations of the rotated regressors: a matrix (R, p, p), and a vector (R, p) for
    their right side.
    """
    orthonormal, upper = np.linalg.qr(problem.design.T)
    rows, mix = orthonormal.T, upper.T
    cross = rows @ gram @ rows.T
    onto = gram @ problem.response
    moment, total = onto @ rows.T, onto @ problem.response
    first = gram[:, 0, :] @ problem.response
    size = np.maximum(nobs, rows.shape[0] + 1.0)
    spread = float(np.sqrt(problem.response**2 @ problem.noise @ problem.response**2))
    solved, towards = (cross, moment) if penalty is None else (cross + penalty[0], moment + penalty[1])
    eigenvalues, vectors = np.linalg.eigh(solved)
    level = noise_level(problem.noise, rows)
    floor = np.maximum(level, _TINY * np.abs(eigenvalues).max(axis=1))[:, None]
    kept = np.maximum(eigenvalues, floor)
    safe = np.where(np.abs(eigenvalues) < _TINY * floor, _TINY * floor, eigenvalues)
    back = np.swapaxes(vectors, 1, 2)
    inverse, floored = (vectors / safe[:, None, :]) @ back, (vectors * kept[:, None, :]) @ back
    plain = (inverse @ towards[..., None])[..., 0]
    stable = (vectors @ ((back @ towards[..., None])[..., 0] / kept)[..., None])[..., 0]
    rotated = np.where(eigenvalues[:, :1] >= floor, plain, stable)
    df_resid = size - rows.shape[0]
    fitted = 2 * np.einsum("ri,ri->r", rotated, moment) - np.einsum("ri,rij,rj->r", rotated, cross, rotated)
    residual = total - fitted
    cap = np.maximum(np.maximum(total, spread), 1e-300)
    centred = np.maximum(total - first**2 / size, _TINY * cap)
    return GramFit(
        problem=problem,
        rows=rows,
        mix=mix,
        inverse=inverse,
        floored=floored,
        plain=plain,
        params=np.linalg.solve(mix.T, rotated.T).T,
        scale=np.clip(residual / df_resid, _TINY * cap / size, cap / size),
        kappa=eigenvalues[:, 0] / max(level, 1e-300),
        df_resid=df_resid,
        rsquared=np.clip(1 - residual / centred, 0, 1),
    )


def covariance(fit: GramFit, count: int | None = None) -> tuple[Array, Array]:
    """Return sampling and noise covariance of the first ``count`` coefficients at the estimate; by default of all.

    Inverses are those of the floored cross-products, so that both parts are positive semidefinite.
    """
    bread = np.linalg.solve(fit.mix.T, np.linalg.inv(fit.floored))[:, :count]
    sampling = fit.sampling_scale[:, None, None] * np.einsum("rij,rjk,rlk->ril", bread, fit.floored, bread)
    residual = fit.problem.response - fit.params @ fit.problem.design
    weights = bread @ fit.rows
    acted = noise_action(fit.problem, residual[:, None, :], weights)
    noise = np.einsum("rid,rjd->rij", weights, acted)
    if not fit.problem.population:
        sampling = np.zeros_like(sampling)
    return sampling, 0.5 * (noise + np.swapaxes(noise, 1, 2))


_ROUNDS, _NORMAL_DF = 3, 1e9

_LEAST, _SLOPE = 0.6, 0.4 / 3
"""How far toward the tested value the variance is evaluated: from 1 at kappa 1 or less to .6 at kappa 4 or more."""


class Score:
    """How the score moves each contrast, ``c' S^-1 g`` for a contrast c, and its variance.

    Attributes
    ----------
    fit : GramFit
    centre : ndarray (R, k)
        Value of each contrast at the solution of the noisy normal equations.
    weights : ndarray (R, k, p)
        ``S^-1 c``, rotated.
    on_features : ndarray (R, k, d)
        The same on the measured features.
    fraction : ndarray (R, 1, 1)
        Where between the estimate (0) and the tested value (1) the variance is evaluated.
    acted : ndarray (R, k, p)
        ``V w`` at the estimate.
    variance : ndarray (R, k)
        ``w' V w`` there.
    """

    def __init__(self, fit: GramFit, contrasts: Array) -> None:
        rotated = np.linalg.solve(fit.mix, contrasts.T).T
        self.fit, self.centre = fit, fit.plain @ rotated.T
        self.weights = np.einsum("rij,kj->rki", fit.inverse, rotated)
        self.on_features = self.weights @ fit.rows
        self.fraction = np.clip(1.0 - _SLOPE * (fit.kappa - 1.0), _LEAST, 1.0)[:, None, None]

    def residual(self, beta: Array) -> Array:
        """Residual on the features (R, k, d) at rotated coefficients (R, k, p)."""
        return np.asarray(self.fit.problem.response - beta @ self.fit.rows)

    def action(self, beta: Array) -> tuple[Array, Array]:
        """Covariance V of the score at rotated coefficients (R, k, p): ``V w`` (R, k, p) and ``w' V w`` (R, k)."""
        fit = self.fit
        acted = noise_action(fit.problem, self.residual(beta), self.on_features) @ fit.rows.T
        if fit.problem.population:
            acted = acted + fit.sampling_scale[:, None, None] * (self.weights @ fit.floored)
        return acted, np.einsum("rki,rki->rk", self.weights, acted)

    @cached_property
    def _here(self) -> tuple[Array, Array]:
        return self.action(self.plain)

    @property
    def plain(self) -> Array:
        """The estimate, for each contrast (R, k, p)."""
        return np.broadcast_to(self.fit.plain[:, None, :], self.weights.shape)

    @property
    def acted(self) -> Array:
        """See the class."""
        return self._here[0]

    @property
    def variance(self) -> Array:
        """See the class."""
        return self._here[1]

    @cached_property
    def df(self) -> Array:
        """Degrees of freedom of the variance at the estimate (R, k), after Satterthwaite."""
        fit = self.fit
        if not fit.problem.population:
            return np.full(self.variance.shape, _NORMAL_DF)
        sampling = fit.sampling_scale[:, None] * np.einsum("rki,rki->rk", self.weights, self.weights @ fit.floored)
        ratio = np.minimum(self.variance / np.maximum(sampling, 1e-300), 1e5)
        return np.asarray(np.minimum(fit.df_units[:, None] * ratio**2, _NORMAL_DF))

    @cached_property
    def shares(self) -> Array | None:
        """Laplace shares of the variance at the estimate, see `laplace_shares`; None where the noise is normal."""
        if not self.fit.problem.laplace:
            return None
        return laplace_shares(self.fit.problem, self.residual(self.plain), self.on_features, self.variance)

    def on_the_way(self, acted: Array, multiple: Array) -> tuple[Array, Array]:
        """``V w`` and ``w' V w`` on the way to the restricted minimum, which is ``V w`` times ``multiple`` away."""
        return self.action(self.plain - self.fraction * ((acted @ self.fit.inverse) * multiple[..., None]))

    def variance_at(self, distance: Array) -> Array:
        """Variance (R, k) of contrasts that are tested at signed distances (R, k) from the estimates.

        With ``g(b) = S_xy - S_xx b`` and ``V(b)`` its covariance, the minimum of ``g' V^-1 g`` over all b
        that meet the restriction is ``(c'b^ - value)^2 / (c' S^-1 V S^-1 c)`` for fixed V, where b^ solves
        ``g = 0``. V is evaluated on the way from b^ to the restricted minimum, which a few rounds find: all the
        way where noise dominates, .6 of the way where the design is well identified.
        """
        acted, variance = self.acted, self.variance
        for _ in range(_ROUNDS):
            acted, variance = self.on_the_way(acted, distance / variance)
        return variance


def expected_noise(question: GramDesign, measurement: Measurement, sizes: Sequence[int]) -> pd.DataFrame:
    """Compute the standard error that privacy noise alone would give each coefficient: a column per number of rows.

    The rows are taken to be spread evenly and independently over the declared bounds, which is public.
    """
    problem, moments = _problem(question, measurement, sample_batch(question.schema, _ROWS))
    errors = {}
    for size in sizes:
        fit = fit_gram(problem, size * moments[None], np.array([float(size)]))
        errors[f"n = {size:,}"] = np.sqrt(np.diag(covariance(fit)[1][0]))
    return pd.DataFrame(errors, index=[column.name for column in question.compiled.design])


def expected_ratios(question: GramDesign, measurement: Measurement, sizes: Sequence[int]) -> list[float]:
    """Return mean standard errors of slopes with noise over those without, by number of rows, for rows as above."""
    sampling, noise = coefficient_errors(question, measurement, sample_batch(question.schema, _ROWS))
    slopes = [place for place, one in enumerate(question.compiled.design) if one.name != "Intercept"] or [0]
    alone = float(np.sqrt(sampling[slopes]).mean())
    return [float(np.sqrt(sampling + noise / size)[slopes].mean()) / alone for size in sizes]


def coefficient_errors(question: GramDesign, measurement: Measurement, batch: Batch) -> tuple[Array, Array]:
    """Return n times the sampling variance and n^2 times the noise variance of each coefficient, for many rows.

    Rows are like those of a batch; the sampling variance is that which a fit reports.
    """
    problem, moments = _problem(question, measurement, batch)
    fit = fit_gram(problem, _MANY * moments[None], _MANY * moments[:1, 0])
    sampling, noise = covariance(fit)
    return _MANY * np.diag(sampling[0]), _MANY**2 * np.diag(noise[0])


def _problem(question: GramDesign, measurement: Measurement, batch: Batch) -> tuple[GramProblem, Array]:
    """Return the regression with its noise, and mean cross-products of a batch (d, d)."""
    width = question.basis.width
    upper = np.triu_indices(width)
    totals = GramSum(question.rows).add(batch)[0]
    sums = totals[: len(upper[0])] / UNIT**2 / batch.size
    moments, noise = np.zeros((width, width)), np.zeros((width, width))
    moments[upper], noise[upper] = (
        sums,
        (measurement.law.variances * np.asarray(measurement.steps) ** 2)[: len(sums)],
    )
    moments += np.triu(moments, 1).T
    noise += np.triu(noise, 1).T
    rows = question.schema.rows_per_unit
    return GramProblem(noise, question.design[:-1], question.design[-1], rows_per_unit=rows), moments


_KEPT = 0.8
"""Share of rows spread evenly over their bounds that a suggested bound leaves as they are."""

_WORTH = 0.97
"""Noise, in shares of that without a bound, that a suggested bound reaches in every population."""


def _between(a: float, b: float) -> Callable[[Array, Array], Array]:
    """Return the quantile function of a beta law: from even places, and a common one, to places between bounds."""
    return lambda even, common: np.asarray(betaincinv(a, b, even))  # noqa: ARG005


_POPULATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "evenly": lambda even, common: even,  # noqa: ARG005
    "about the middle": _between(4.0, 4.0),
    "toward the bounds": _between(0.5, 0.5),
    "near one bound": _between(1.0, 4.0),
    "together": lambda even, common: 0.8 * common + 0.2 * even,
}
"""How the numbers of a row lie between their bounds; in all but the last one independently of each other."""


@dataclass(frozen=True, slots=True)
class RowNormEffect:
    """What a bound on the norm of regressors' rows would do in public populations.

    Attributes
    ----------
    bound : float
    norm : str
    frame : DataFrame
        A row for each population: "weigh less", the share of rows beyond the bound; "noise error" and "sampling error",
        standard errors of slopes in shares of those without a bound.
    rows : float
        Number of rows up to which standard errors get smaller, the response being spread evenly like the regressors and
        independent of them. With errors that are smaller it is larger.
    """

    bound: float
    norm: str
    frame: pd.DataFrame
    rows: float

    @property
    def pays(self) -> bool:
        """Whether noise falls in every population."""
        return bool(self.frame["noise error"].max() <= _WORTH)

    def describe(self, *, given: bool) -> str:
        """Say so in words; ``given`` where the bound is asked for and no suggestion."""
        told = f"row_norm={self.bound:g}" + ("" if self.norm == "l2" else f', norm="{self.norm}"')
        if not given and not self.pays:
            return f"row_norm     none is suggested: by the public bounds, {told} does not always reduce noise"
        until = "at any number of rows"
        if math.isfinite(self.rows):
            most = float(f"{self.rows:.2g}")
            until = f"up to about {most:,.0f} rows, or more if errors use little of the response's range"
        table = self.frame.to_string(formatters={"weigh less": "{:.0%}".format}, float_format="{:.2f}".format)
        return (
            f"row_norm     {told} is {'asked for' if given else 'suggested, from public bounds alone'}: "
            f"it narrows intervals {until}.\n"
            "Standard errors of slopes relative to those without it, for several distributions of the columns:\n"
            f"{table}\n"
            "Rows beyond it are downweighted, by their regressors only. If the model is linear, coefficients are the\n"
            "same; if it is misspecified, estimates are of the weighted least-squares projection."
        )


def suggested_row_norm(question: GramDesign, norm: str) -> float | None:
    """Return a bound that most rows keep if they are spread evenly over their bounds, rounded up to two decimals.

    None where a condition leaves none of them.
    """
    sizes = _norms(question, norm, sample_batch(question.schema, _ROWS))
    return math.ceil(100 * float(np.quantile(sizes, _KEPT)) - 1e-6) / 100 if sizes.size else None


def row_norm_effect(
    question: GramDesign, plain: Measurement, bounded: Measurement, bound: float, norm: str
) -> RowNormEffect:
    """Compare a question without a bound with the same under one, each priced alike."""
    question = replace(question, row_norm=None, norm="l2")
    clipped = replace(question, row_norm=bound, norm=norm)
    slopes = [place for place, one in enumerate(question.compiled.design) if one.name != "Intercept"] or [0]
    found, most = {}, math.inf
    for name, batch in _batches(question.schema).items():
        before, after = (
            coefficient_errors(one, measured, batch) for one, measured in ((question, plain), (clipped, bounded))
        )
        sampling, noise = (new[slopes] / old[slopes] for new, old in zip(after, before, strict=True))
        found[name] = {
            "weigh less": float((_norms(question, norm, batch) > bound).mean()),
            "noise error": math.sqrt(noise.mean()),
            "sampling error": math.sqrt(sampling.mean()),
        }
        if name == "evenly":
            grown, saved = before[0][slopes] * (sampling - 1), before[1][slopes] * (1 - noise)
            most = float(np.min(np.where(grown > 1e-9 * before[0][slopes], saved / np.maximum(grown, 1e-300), np.inf)))
    return RowNormEffect(bound, norm, pd.DataFrame(found).T, max(most, 0.0))


def _batches(schema: Schema) -> dict[str, Batch]:
    """Rows whose numbers lie in several ways between their bounds; levels and truth values are even in all."""
    even = sample_batch(schema, _ROWS)
    common = np.random.default_rng(1).random(_ROWS)
    found = {}
    for name, places in _POPULATIONS.items():
        cells = dict(even.cells)
        for column in schema:
            declared = schema[column]
            if not isinstance(declared, Real):
                continue
            lower, upper = declared.limits
            at = (declared.coerce(even.cells[column]) - lower) / (upper - lower)
            cells[column] = declared.cells(lower + (upper - lower) * places(at, common))
        found[name] = replace(even, cells=cells)
    return found


def _norms(question: GramDesign, norm: str, batch: Batch) -> Array:
    """Norms of the scaled regressors of the rows that count."""
    rows = question.rows if question.row_norm is None else replace(question, row_norm=None).rows
    regressors = rows.encode(batch.cells)[0][:-1] / UNIT
    sizes = np.abs(regressors).sum(axis=0) if norm == "l1" else np.sqrt((regressors**2).sum(axis=0))
    return np.asarray(sizes[sizes > 0])

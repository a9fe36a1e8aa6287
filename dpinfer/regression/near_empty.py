"""Levels with next to no rows: a ridge on their own columns, and the most that it can move the other coefficients.

A level whose noisy number of rows is within a few edges of the noise has a coefficient that the release does not
determine. Left alone it makes the normal equations near singular, and every interval of the table infinite. Here its
diagonal is raised to where noise does not matter; what that can move is bounded by the declared range of the response.

Columns of a design that are zero outside of one level of a factor are found from the formula and the schema.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import MissingFromReleaseError
from dpinfer.regression.gram import Score, covariance, fit_gram, laplace_parts, laplace_shares, noise_action
from dpinfer.schema.basis import represent
from dpinfer.schema.expressions import constant_expression
from dpinfer.schema.formula import DesignColumn
from dpinfer.statistics.arrays import noise_level
from dpinfer.statistics.numerical import inverted
from dpinfer.statistics.tails import biased_pvalue, joint_pvalue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dpinfer.regression.gram import GramFit, GramProblem
    from dpinfer.schema.grid import Basis
    from dpinfer.schema.nodes import Expression
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array, Mask, Places

NEAR_EMPTY, RAISED = 1.0, 3.0
"""Noise edges below which a level's column is near-empty, and those to which its diagonal is raised.

From one edge on the score method determines the other coefficients by itself. At three it is reliable.
"""

_REST = 1.0
"""Smallest eigenvalue without the near-empty columns, over the noise level, from which they are the cause."""

_TOLERANCE = 1e-8
_LEAST_OWN = 0.5
"""How little of its own coefficient a functional may hold: below, the number of rows is too noisy to tell means."""

_SPANNED = 1e-7

Cell = tuple[tuple[str, int], ...]
"""A level of each of some factors, by its index."""


@dataclass(frozen=True, slots=True)
class LevelColumns:
    """Columns of a design's span that are zero outside of one level (or one cell of levels); all public.

    Attributes
    ----------
    names : tuple of str, length K
        What each is called in a warning.
    features : ndarray (K, d)
        Each as a combination of the released features.
    columns : ndarray (K, p)
        Each as a combination of the design.
    groups : ndarray of int (K,)
        The same for the levels of one factor: one of a group may be near-empty where another is clearly there.
    targets, bounds : ndarray (K,)
        Middle and half width of the range of its functional.
    functional : callable
        Maps the place of a column to a matrix (p, d). Times the means of the features it is a combination of the
        coefficients whose value lies in that range: the mean response of the level, or its change with a regressor.
    """

    names: tuple[str, ...]
    features: Array
    columns: Array
    groups: Places
    targets: Array
    bounds: Array
    functional: Callable[[int], Array]


@dataclass(frozen=True, eq=False)
class Ridge:
    """Fits of R releases that share their k near-empty columns.

    Attributes
    ----------
    fit : GramFit
        With the ridge in the normal equations.
    names : tuple of str, length k
    columns : ndarray (k, p)
        The near-empty columns as combinations of the design; a contrast that weighs one is not determined.
    functionals : ndarray (R, k, p)
        Their own coefficients c, rotated: ``c_l`` of column m is 1 for l = m, else 0.
    targets, bounds : ndarray (R, k)
        Each coefficient is within so much of its target.
    strength : ndarray (R, k)
        The ridge lambda.
    rest : ndarray (R,)
        Smallest eigenvalue without the columns, over the noise level.
    """

    fit: GramFit
    names: tuple[str, ...]
    columns: Array
    functionals: Array
    targets: Array
    bounds: Array
    strength: Array
    rest: Array

    @cached_property
    def _rotated(self) -> Array:
        return np.asarray(self.columns @ self.fit.mix)

    def determined(self, contrasts: Array) -> Mask:
        """Say which contrasts (k, p) weigh no near-empty column."""
        weighed = np.abs(contrasts @ self.columns.T)
        size = np.abs(contrasts) @ np.abs(self.columns).T
        return np.asarray((weighed <= _TOLERANCE * np.maximum(size, 1e-300)).all(axis=1))

    @property
    def warning(self) -> str:
        """Name what is not determined."""
        return (
            f"not determined: {', '.join(self.names)}; the noisy number of rows is too close to zero. Coefficients and "
            "tests that depend on it have unbounded intervals and p-values of 1; all others use the score method, and "
            "are valid for every value that it may have"
        )

    def base(self, beta: Array) -> Array:
        """Rotated coefficients (R, ..., p) with those of the near-empty columns at their targets."""
        own = np.einsum("rlp,r...p->r...l", self.functionals, beta)
        targets = self.targets.reshape(len(own), *(1,) * (own.ndim - 2), -1)
        return np.asarray(beta - (own - targets) @ self._rotated)

    def covariance(self, count: int | None = None) -> tuple[Array, Array]:
        """Return what `covariance` does; the second counts the worst of the near-empty levels.

        It adds, for every near-empty column, the noise that its coefficient multiplies at the end of its range, and
        the outer product of the largest bias.
        """
        fit = self.fit
        sampling, noise = covariance(fit, count)
        weights = np.linalg.solve(fit.mix.T, np.linalg.inv(fit.floored))[:, :count]
        on_features = weights @ fit.rows
        for place, row in enumerate(self._rotated @ fit.rows):
            moved = np.einsum("rid,rjd->rij", on_features, noise_action(fit.problem, row, on_features))
            bias = (self.strength * self.bounds)[:, place, None] * np.einsum(
                "rip,rp->ri", weights, self.functionals[:, place]
            )
            noise = noise + self.bounds[:, place, None, None] ** 2 * moved + bias[:, :, None] * bias[:, None, :]
        return sampling, 0.5 * (noise + np.swapaxes(noise, 1, 2))

    def intervals(self, contrasts: Array, alpha: float) -> Array:
        """Intervals (R, k, 2) of contrasts (k, p) of the coefficients; infinite where one is not determined."""
        ends = np.full((len(self.strength), len(contrasts), 2), [-np.inf, np.inf])
        known = self.determined(contrasts)
        if known.any():
            ends[:, known] = _Score(self, contrasts[known]).intervals(alpha)
        return ends

    def pvalues(self, contrasts: Array, values: Array) -> Array:
        """Two-sided p-values (R, k) of ``contrasts @ params = values``; 1 where a contrast is not determined."""
        found = np.ones((len(self.strength), len(contrasts)))
        known = self.determined(contrasts)
        if known.any():
            score = _Score(self, contrasts[known])
            found[:, known] = score.tails(score.centre - np.broadcast_to(values, found.shape)[:, known])
        return found

    def joint(self, restrictions: Array, values: Array) -> tuple[float, float]:
        """Statistic and p-value of several restrictions of one release; 0 and 1 where one is not determined.

        The reference is noncentral F, its noncentrality that of the largest bias. Laplace noise enters by its own law.
        The variance is an upper bound for all values of the near-empty coefficients at once.
        """
        if not self.determined(restrictions).all():
            return 0.0, 1.0
        score = _Score(self, restrictions)
        if len(restrictions) == 1:
            distance = score.centre - values
            return float(distance[0, 0] ** 2 / score.variance[0, 0]), float(score.tails(distance)[0, 0])
        spread = score.joint_variance()
        distance = (score.centre - values)[0]
        statistic = float(distance @ np.linalg.solve(spread, distance))
        moved = np.einsum("kp,lp->lk", score.weights[0], self.functionals[0])
        lengths = np.sqrt(np.einsum("lk,lk->l", moved, np.linalg.solve(spread, moved.T).T))
        bias = float((self.strength * self.bounds)[0] @ lengths)
        count, df = len(restrictions), float(score.df[0].min())
        loadings = score.joint_loadings(spread)
        return statistic, joint_pvalue(statistic, count, df, loadings, noncentrality=bias**2)


class _Score(Score):
    """Tests of contrasts (k, p): distance over a standard error at the worst near-empty coefficients."""

    def __init__(self, ridge: Ridge, contrasts: Array) -> None:
        super().__init__(ridge.fit, contrasts)
        self._ridge, self._bounds, self._own = ridge, ridge.bounds, ridge._rotated @ self.fit.rows
        moved = np.einsum("rki,rli->rkl", self.weights, ridge.functionals)
        self.bias = (np.abs(moved) @ (ridge.strength * ridge.bounds)[..., None])[..., 0]
        self._crossed = noise_action(self.fit.problem, self.on_features[:, :, None, :], self._own)
        among = np.abs(self._crossed @ self._own.T)
        self._extra = np.einsum("rl,rklm,rm->rk", ridge.bounds, among, ridge.bounds)

    def residual(self, beta: Array) -> Array:
        """See `Score`: with near-empty coefficients at their targets."""
        return super().residual(self._ridge.base(beta))

    def action(self, beta: Array) -> tuple[Array, Array]:
        """See `Score`: with the largest ``w' V w``."""
        acted, variance = super().action(beta)
        crossed = np.abs(np.einsum("rkld,rkd->rkl", self._crossed, self.residual(beta)))
        worst = variance + 2 * np.einsum("rkl,rl->rk", crossed, self._bounds) + self._extra
        return acted * (worst / np.maximum(variance, 1e-300))[..., None], worst

    @cached_property
    def shares(self) -> Array | None:
        """See `Score`: where near-empty coefficients are at the ends that add to the variance."""
        if not self.fit.problem.laplace:
            return None
        residual = self.residual(self.plain)
        side = np.where(np.einsum("rkld,rkd->rkl", self._crossed, residual) < 0, -1.0, 1.0)
        corner = residual + (side * self._bounds[:, None, :]) @ self._own
        shares = laplace_shares(self.fit.problem, corner, self.on_features, self.variance)
        return np.asarray(shares / np.maximum(shares.sum(axis=-1, keepdims=True), 1.0))

    def tails(self, distance: Array) -> Array:
        """P-values (R, k) of values that the estimates exceed by so much."""
        error = np.sqrt(self.variance_at(distance))
        return biased_pvalue(np.abs(distance) / error, self.bias / error, self.df, self.shares)

    def intervals(self, alpha: float) -> Array:
        """All values that are not rejected, (R, k, 2)."""
        scale = np.sqrt(self.variance) + self.bias
        return inverted(lambda away: self.tails(-away) >= alpha, self.centre, scale)

    def joint_variance(self) -> Array:
        """Upper bound (k, k) of the covariance of one release, whatever the near-empty coefficients are.

        With shares s of sum 1, ``(sum x_i)(sum x_i)'`` is at most ``sum x_i x_i' / s_i``.
        """
        fit, on_features, residual = self.fit, self.on_features[0], self.residual(self.plain)[0]
        parts = [noise_action(fit.problem, residual[:1], on_features)]
        parts += [
            bound**2 * noise_action(fit.problem, own, on_features)
            for bound, own in zip(self._bounds[0], self._own, strict=True)
        ]
        spreads = [on_features @ part.T for part in parts]
        sizes = np.sqrt([max(float(np.trace(spread)), 0.0) for spread in spreads])
        shares = np.maximum(sizes / max(sizes.sum(), 1e-300), 1e-12)
        total = sum(spread / share for spread, share in zip(spreads, shares, strict=True) if spread.any())
        if fit.problem.population:
            total = total + fit.sampling_scale[0] * self.weights[0] @ fit.floored[0] @ self.weights[0].T
        return np.asarray(0.5 * (total + total.T))

    def joint_loadings(self, spread: Array) -> Array | None:
        """Return the loadings (k, m) on Laplace draws, near-empty coefficients at their targets; see `joint_pvalue`.

        ``spread`` is `joint_variance`: what these draws leave of it counts as normal.
        """
        if not self.fit.problem.laplace:
            return None
        parts = laplace_parts(self.fit.problem, self.residual(self.plain)[0], self.on_features[0])
        return np.asarray(np.linalg.solve(np.linalg.cholesky(spread), parts))


def ridges(fit: GramFit, gram: Array, nobs: Array, levels: LevelColumns) -> Iterator[tuple[Places, Ridge]]:
    """Find near-empty columns from released numbers, and refit with a ridge on them.

    Yields, for every set of near-empty columns that occurs, the places of its releases and their `Ridge`. Left out are
    releases without such columns, and those where noise dominates the other columns, or every level of a factor.
    """
    counts = np.einsum("kd,rde,ke->rk", levels.features, gram, levels.features)
    edges = noise_level(fit.problem.noise, fit.rows) * (levels.features**2).sum(axis=1)
    together = (levels.groups[:, None] == levels.groups).astype(float)
    rare = (counts < NEAR_EMPTY * edges) & ((counts >= RAISED * edges) @ together > 0)
    for pattern in np.unique(rare, axis=0):
        chosen = _independent(levels, pattern)
        places = np.flatnonzero((rare == pattern).all(axis=1))
        if not chosen.size:
            continue
        kept, found = ridged(fit.problem, gram[places], nobs[places], levels, chosen, (RAISED * edges - counts)[places])
        if kept.any():
            yield places[kept], found


def _independent(levels: LevelColumns, pattern: Mask) -> Places:
    """Near-empty columns, without those that are combinations of others."""
    chosen: list[int] = []
    basis = np.zeros((0, levels.features.shape[1]))
    for place in np.flatnonzero(pattern):
        row = levels.features[place]
        left = row - (row @ basis.T) @ basis
        left = left - (left @ basis.T) @ basis
        if np.linalg.norm(left) > 1e-6 * np.linalg.norm(row):
            chosen.append(int(place))
            basis = np.vstack([basis, left / np.linalg.norm(left)])
    return np.asarray(chosen, dtype=np.intp)


def ridged(
    problem: GramProblem, gram: Array, nobs: Array, levels: LevelColumns, chosen: Places, missing: Array
) -> tuple[Mask, Ridge]:
    """Fit releases with a ridge on the chosen columns; say which are determined without those columns."""
    plain = fit_gram(problem, gram, nobs)
    columns = levels.columns[chosen]
    rest = _without(plain, gram, columns @ plain.mix)
    means = gram[:, 0, :] / np.maximum(gram[:, 0, 0], 1.0)[:, None]
    raw = np.stack([means @ levels.functional(int(place)).T for place in chosen], axis=1)
    own = raw @ columns.T
    kept = (rest >= _REST) & (np.linalg.svd(own, compute_uv=False)[:, -1] >= _LEAST_OWN)
    raw, own, gram, nobs = raw[kept], own[kept], gram[kept], nobs[kept]
    back: Array = np.linalg.inv(own).astype(np.float64)
    rotated: Array = np.linalg.solve(plain.mix, np.swapaxes(back @ raw, 1, 2)).astype(np.float64)
    functionals = np.ascontiguousarray(np.swapaxes(rotated, 1, 2))
    targets, bounds = back @ levels.targets[chosen], np.abs(back) @ levels.bounds[chosen]
    strength = np.maximum(missing[kept][:, chosen], 0.0)
    added = np.einsum("rl,rli,rlj->rij", strength, functionals, functionals)
    towards = np.einsum("rl,rl,rli->ri", strength, targets, functionals)
    fit = fit_gram(problem, gram, nobs, (added, towards))
    names = tuple(levels.names[place] for place in chosen)
    return kept, Ridge(fit, names, columns, functionals, targets, bounds, strength, rest[kept])


def _without(fit: GramFit, gram: Array, rotated: Array) -> Array:
    """Smallest eigenvalue (R,) of the cross-products without columns (k, p), over the noise level."""
    count, width = rotated.shape
    if count >= width:
        return np.zeros(len(gram))
    complement = np.linalg.svd(rotated)[2][count:] @ fit.rows
    level = noise_level(fit.problem.noise, complement)
    return np.asarray(np.linalg.eigvalsh(complement @ gram @ complement.T)[:, 0] / max(level, 1e-300))


def level_columns(
    design: Sequence[DesignColumn], response: DesignColumn, basis: Basis, weights: Array
) -> LevelColumns | None:
    """Return the columns of single levels in the span of a design; None if it has no factors.

    Parameters
    ----------
    design : sequence of DesignColumn, length p
    response : DesignColumn
    basis : Basis
        The features that were measured.
    weights : ndarray (p, d)
        The design as combinations of the features.

    Notes
    -----
    For every numeric expression the largest sets of factors that it is crossed with are taken, and every cell of
    their levels. The constant gives the indicator of a cell; its functional is the mean response if all rows were in
    that cell, which lies in the declared range of the response. Another expression is scaled to -1 and 1 where the
    design holds the indicator too; half of the change of the response from one end of its bounds to the other is at
    most half the range.
    """
    if not any(column.codings for column in design):
        return None
    schema = basis.schema
    middle, half = 0.5 * (response.expression.lower + response.expression.upper), _half(response.expression)
    spanned = [
        (expression, cell, *found)
        for expression, cell in _cells(design, schema)
        if (found := _in_span(expression, cell, basis, weights)) is not None
    ]
    if not spanned:
        return None
    expressions, cells, features, columns, scales = zip(*spanned, strict=True)
    constant = [expression.constant is not None for expression in expressions]
    groups = [(one.text, *(name for name, _ in cell)) for one, cell in zip(expressions, cells, strict=True)]
    bounds = [
        half if fixed else half * scale / _half(one)
        for fixed, one, scale in zip(constant, expressions, scales, strict=True)
    ]

    def functional(place: int) -> Array:
        if constant[place]:
            return _moved(design, cells[place], basis)
        slope = scales[place] * _slope(design, expressions[place], cells[place])
        return np.outer(slope, np.eye(weights.shape[1])[0])

    return LevelColumns(
        names=tuple(_label(one, cell, schema) for one, cell in zip(expressions, cells, strict=True)),
        features=np.array(features),
        columns=np.array(columns),
        groups=np.array([groups.index(group) for group in groups]),
        targets=np.where(constant, middle, 0.0),
        bounds=np.array(bounds),
        functional=functional,
    )


def _half(expression: Expression) -> float:
    return 0.5 * (expression.upper - expression.lower)


def _cells(design: Sequence[DesignColumn], schema: Schema) -> Iterator[tuple[Expression, Cell]]:
    """Every expression with every cell of the largest sets of factors that it is crossed with."""
    crossed: dict[str, tuple[Expression, set[tuple[str, ...]]]] = {}
    for column in design:
        factors = tuple(sorted(name for name, _ in column.codings))
        if factors:
            crossed.setdefault(column.expression.text, (column.expression, set()))[1].add(factors)
    for expression, sets in crossed.values():
        for factors in sorted(sets):
            if any(set(factors) < set(other) for other in sets):
                continue
            for levels in product(*(range(len(schema[name].level_texts)) for name in factors)):
                yield expression, tuple(zip(factors, levels, strict=True))


def _in_span(expression: Expression, cell: Cell, basis: Basis, weights: Array) -> tuple[Array, Array, float] | None:
    """Write a cell's column over features and over the design, with what one unit of the expression is divided by."""
    schema = basis.schema
    codings = tuple(
        (name, tuple(float(index == level) for index in range(len(schema[name].level_texts)))) for name, level in cell
    )
    column = DesignColumn("", "", expression, codings)
    try:
        feature = represent(basis, [column], independent=False)[0]
        if expression.constant is not None:
            return _over_design(feature, weights, 1.0)
        one = represent(basis, [replace(column, expression=constant_expression(1.0))], independent=False)[0]
    except MissingFromReleaseError:
        return None
    half, middle = _half(expression), 0.5 * (expression.lower + expression.upper)
    centred = _over_design((feature - middle * one) / half, weights, half)
    widest = max(abs(expression.lower), abs(expression.upper))
    return centred or _over_design(feature / widest, weights, widest)


def _over_design(feature: Array, weights: Array, scale: float) -> tuple[Array, Array, float] | None:
    sizes = np.linalg.norm(weights, axis=1)
    own = np.linalg.lstsq((weights / sizes[:, None]).T, feature, rcond=None)[0] / sizes
    if np.abs(own @ weights - feature).max() > _SPANNED * np.abs(feature).max():
        return None
    own[np.abs(own) * sizes < _SPANNED * (np.abs(own) * sizes).max()] = 0.0
    return feature, own, scale


def _slope(design: Sequence[DesignColumn], expression: Expression, cell: Cell) -> Array:
    """Combine the coefficients (p,) to the change of the mean with an expression in a cell."""
    chosen = dict(cell)
    found = np.zeros(len(design))
    for place, column in enumerate(design):
        if column.expression.text == expression.text:
            found[place] = math.prod(
                level[chosen[name]] if name in chosen else math.fsum(level) / len(level)
                for name, level in column.codings
            )
    return found


def _moved(design: Sequence[DesignColumn], cell: Cell, basis: Basis) -> Array:
    """Write the design of rows that are all in one cell as combinations of the features (p, d)."""
    chosen = dict(cell)
    factors = [math.prod(level[chosen[name]] for name, level in column.codings if name in chosen) for column in design]
    left = [
        replace(column, codings=tuple(coding for coding in column.codings if coding[0] not in chosen))
        for column in design
    ]
    return np.asarray(np.array(factors)[:, None] * represent(basis, left, independent=False))


def _label(expression: Expression, cell: Cell, schema: Schema) -> str:
    where = " and ".join(f"{name} = {schema[name].level_texts[level]}" for name, level in cell)
    return where if expression.constant is not None else f"{expression.text} where {where}"

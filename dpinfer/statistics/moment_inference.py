"""One inference over quantities that were estimated in the cells of a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.statistics import inference
from dpinfer.statistics.arrays import root_of
from dpinfer.statistics.noise import NoiseSums
from dpinfer.statistics.numerical import inverted
from dpinfer.statistics.tails import critical_value, joint_pvalue, pvalue_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpinfer.release.laws import NoiseLaw
    from dpinfer.statistics.arrays import Array, Mask
    from dpinfer.statistics.moments import Estimates


METHODS = ("auto", "score", "wald", "simulated")

MOST_SHARES = 24
"""Laplace variables of a combination that enter by their own law; the rest, the smallest, as normal."""


@dataclass(frozen=True, eq=False)
class MomentInference(inference.Inference):
    """Estimates in the cells of a table.

    Attributes
    ----------
    estimates : Estimates
        Of one release (R = 1); of more only `batch` serves.
    shift, factor : ndarray (q,)
        From scaled units to those of the columns: shift + factor value.
    law, steps : NoiseLaw, ndarray (m,)
        Of the release, for "simulated".
    labels : tuple of str, length G
        What cells are called, for warnings.
    """

    estimates: Estimates
    shift: Array
    factor: Array
    law: NoiseLaw | None = None
    steps: Array | None = None
    labels: tuple[str, ...] = ()

    methods = METHODS

    @property
    def params(self) -> Array:
        """Point estimates (p,); NaN where the release does not determine one."""
        return np.where(self.estimates.missing[0].ravel(), np.nan, self._value)

    @property
    def _value(self) -> Array:
        return np.asarray((self.shift + self.factor * self.estimates.value[0]).ravel())

    @property
    def cov_sampling(self) -> Array:
        """Covariance from sampling (p, p)."""
        return self._blocks(self.estimates.sampling[0], self.estimates.missing[0].ravel())

    @property
    def cov_noise(self) -> Array:
        """Covariance from privacy noise (p, p)."""
        return self._blocks(self.estimates.noise[0], self.estimates.missing[0].ravel())

    @cached_property
    def _covariance(self) -> Array:
        return self._blocks(self.estimates.sampling[0]) + self._blocks(self.estimates.noise[0])

    def _blocks(self, parts: Array, missing: Mask | None = None) -> Array:
        """Return the covariance (p, p) of cells (G, q, q) in the columns' units; NaN where it is missing."""
        cells, width = parts.shape[0], parts.shape[1]
        full = np.zeros((cells, width, cells, width))
        full[np.arange(cells), :, np.arange(cells), :] = parts * np.outer(self.factor, self.factor)
        square = full.reshape(cells * width, cells * width)
        return square if missing is None else np.where(missing[:, None] | missing, np.nan, square)

    @property
    def flagged(self) -> Mask:
        """Whether a release carries any warning (R,)."""
        return self.estimates.flagged

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, from released numbers only."""
        found, few = [], self.estimates.few[0]
        if few.any():
            which = f"{few.sum()} of {few.size} groups" if self.labels[0] else "the data"
            listed = f": {_first_five(self.labels, few)}" if self.labels[0] else ""
            found.append(
                f"privacy noise is so large that {which} may be empty{listed}; read the interval, not the estimate"
            )
        if self.estimates.missing.any():
            found.append("not determined: every parameter; the intervals cover the whole parameter space")
        edge, blurred = self.estimates.edge[0] & ~few[:, None], self.estimates.blurred[0]
        if edge.any():
            listed = _first_five(self.names, edge)
            found.append(f"noise moved an estimate to or near the boundary of the parameter space: {listed}")
        if blurred.any():
            listed = _first_five(self.names, blurred)
            found.append(f"the estimated sampling variance is mostly privacy noise, so the interval is wide: {listed}")
        return (*found, *self.notes)

    # Intervals and tests

    def _ends(self, rows: Array, alpha: float) -> Array:
        """See `Inference`; a single estimate has the interval of its cell, within what is possible."""
        ends, places = super()._ends(rows, alpha), inference.single(rows)
        own = np.flatnonzero(places >= 0)
        if self.method == "simulated":
            possible = self._scaled(np.stack(self.estimates.range, axis=-1))[0, places[own]]
            ends[own] = np.clip(ends[own], possible[:, :1], possible[:, 1:])
        elif own.size:
            ends[own] = self._scaled(intervals(self.estimates, alpha, method=self.method))[0, places[own]]
        return ends

    def _tails(self, rows: Array, values: Array) -> Array:
        """See `Inference`; a single estimate has the p-value of its cell."""
        found = super()._tails(rows, values)
        for row, place in enumerate(inference.single(rows)) if self.method != "simulated" else ():
            if place >= 0:
                column = place % len(self.factor)
                tested = (values[row] - self.shift[column]) / self.factor[column]
                found[row] = pvalues(self.estimates, tested, method=self.method)[0].ravel()[place]
        return found

    def _joint(self, rows: Array, values: Array) -> tuple[float, float]:
        """See `Inference`."""
        distance, total = rows @ self._value - values, rows @ self._covariance @ rows.T
        statistic, loadings = float(inference.wald_lengths(distance, total)), None
        if self.estimates.laplace:
            covariance = rows @ (self.cov_sampling + self.cov_noise) @ rows.T
            loadings = np.linalg.solve(np.linalg.cholesky(covariance), self._laplace_parts(rows))
        return statistic, joint_pvalue(statistic, len(rows), self._linear(rows).least_df, loadings)

    def batch(
        self, alpha: float, contrasts: Mapping[str, Mapping[str, float]] | None = None
    ) -> inference.BatchEstimates:
        """Infer all cells of R releases at once.

        Raises
        ------
        OptionError
            If contrasts are asked for: linear combinations are not offered here.
        """
        if contrasts:
            raise OptionError("contrasts", list(contrasts), "none: groups and columns are studied one by one")
        found, count = self.estimates, len(self.estimates.value)
        zero = (0.0 - self.shift) / self.factor
        return inference.BatchEstimates(
            names=self.names,
            params=np.where(found.missing, np.nan, self.shift + self.factor * found.value).reshape(count, -1),
            bse=np.where(found.missing, np.nan, self.factor * np.sqrt(found.variance)).reshape(count, -1),
            pvalues=pvalues(found, zero, method=self.method).reshape(count, -1),
            intervals=self._scaled(intervals(found, alpha, method=self.method)),
            flagged=self.flagged,
        )

    def oracle(self, sampling: Array, alpha: float) -> inference.Oracle:
        """Say how wide an interval would be that knew the population and the law of the noise.

        The estimates are those of expected noise-free sums (R = 1), and ``sampling`` (q,) is their true sampling
        variance; kappa is the smallest size of a cell over the standard deviation of its noise, and of second moments
        the `Estimates.signal`.
        """
        found, units = self.estimates, self.factor**2
        noise = (units * np.diagonal(found.noise, axis1=-2, axis2=-1)).ravel()
        total = (units * found.variance).reshape(-1, 1)
        laplace = None if found.shares is None else found.shares.reshape(noise.size, -1) * total
        bottom = 0.0 if found.denominator is None else float(found.denominator[0, 0, 0, 2])
        kappa = float(found.size.min() / np.sqrt(bottom)) if bottom > 0 else np.inf
        if found.signal is not None:
            kappa = float(found.signal.min())
        return inference.Oracle.of(noise, sampling, kappa, alpha=alpha, laplace=laplace)

    def _scaled(self, ends: Array) -> Array:
        """Return intervals of scaled quantities (R, G, q, 2) in the units of the columns (R, p, 2)."""
        return np.asarray(self.shift[:, None] + self.factor[:, None] * ends).reshape(len(ends), -1, 2)

    def _linear(self, contrasts: Array) -> inference.Contrasts:
        """Return linear combinations (k,), with a reference of their own; see `_pivots` where it is simulated."""
        variance = np.maximum(inference.variance_of(contrasts, self._covariance), 0.0)
        own = self.factor**2 * self.estimates.variance[0]
        share = contrasts**2 * own.ravel() / np.maximum(variance, 1e-300)[:, None]
        df = np.clip(1.0 / np.maximum((share**2 / self.estimates.df[0].ravel()).sum(axis=1), 1e-9), 1.0, 1e9)
        shares = None
        if self.estimates.laplace:
            shares = self._laplace_parts(contrasts) ** 2 / np.maximum(variance, 1e-300)[:, None]
            shares = -np.sort(-shares, axis=1)[:, :MOST_SHARES]
            shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
        return inference.Contrasts(contrasts @ self._value, np.sqrt(variance), df, shares, self._noise_sums(contrasts))

    def _noise_sums(self, contrasts: Array) -> NoiseSums | None:
        """Return linear combinations (k,) of what noise alone moves; None where sampling does, too."""
        alone, shape = self.estimates.alone, self.estimates.value.shape
        if alone is None:
            return None
        moved = np.broadcast_to(alone.factors, (1, *shape[1:], len(alone.variables)))[0]
        return NoiseSums(self._moved(contrasts, moved), alone.variables * shape[1])

    def _moved(self, contrasts: Array, mixing: Array) -> Array:
        """Return what moves linear combinations (k, G m), from what moves the scaled estimates (G, q, m)."""
        weights = contrasts.reshape(-1, *mixing.shape[:2])
        found = np.einsum("kgq,gqm->kgm", weights, self.factor[:, None] * mixing)
        return np.asarray(found.reshape(len(contrasts), -1))

    def _laplace_parts(self, contrasts: Array) -> Array:
        """Return what each Laplace variable, standardised, adds to linear combinations (k, m)."""
        mixing = self.estimates.mixing[0]
        return self._moved(contrasts, mixing) * np.sqrt(np.tile(self.estimates.variances, len(mixing)))

    # Simulation

    @cached_property
    def _drawn(self) -> tuple[Array, Array]:
        """Deviations (B, p) and variances (B, p) of simulated releases.

        The noise comes from its own law and moves estimate and estimated variance together; sampling is taken to
        be normal, its variance chi-squared.
        """
        rng, found = np.random.default_rng(self.seed), self.estimates
        cells, width = found.value.shape[1:]
        measured = found.mixing.shape[-1]
        assert self.law is not None
        assert self.steps is not None
        noise = self.law.rvs(self.replicates, rng) * self.steps
        noise = noise.reshape(self.replicates, cells, -1)[..., :measured]
        moved = np.einsum("gqm,bgm->bgq", found.mixing[0], noise)
        drawn = np.einsum("gqs,bgs->bgq", root_of(found.sampling[0]), rng.normal(size=(self.replicates, cells, width)))
        sampling = np.diagonal(found.sampling[0], axis1=-2, axis2=-1)
        rows = found.size[0][:, None] / found.rows_per_unit if found.rows is None else found.rows[0]
        rows = np.maximum(rows - 1, 1.0)
        chi = rng.chisquare(np.broadcast_to(rows, sampling.shape), size=(self.replicates, *sampling.shape)) / rows
        spread = np.einsum("gqm,bgm->bgq", found.spread[0], noise)
        known = np.diagonal(found.noise[0], axis1=-2, axis2=-1)
        variance = np.maximum(sampling * chi + spread, 0.0) + known
        return (
            ((moved + drawn) * self.factor).reshape(self.replicates, -1),
            (variance * self.factor**2).reshape(self.replicates, -1),
        )

    def _pivots(self, rows: Array) -> Array:
        """Absolute studentised deviations (B, k)."""
        deviations, variances = self._drawn
        total = inference.variance_of(rows, self._covariance)
        ratio = (variances @ (rows**2).T) / (rows**2 @ np.diag(self._covariance))
        return np.asarray(np.abs(deviations @ rows.T) / np.sqrt(total * ratio))


def _first_five(names: Sequence[str], which: Mask) -> str:
    places = np.flatnonzero(which)
    return "; ".join(names[place] for place in places[:5]) + (", ..." if places.size > 5 else "")


def intervals(estimates: Estimates, alpha: float, *, method: str = "score") -> Array:
    """Intervals of level ``1 - alpha`` (R, G, q, 2) within what is possible.

    Parameters
    ----------
    estimates : Estimates
    alpha : float
    method : {"score", "wald"}
        "score" holds every value that is not rejected when its variance is evaluated there (for a ratio that is
        Fieller's interval), "wald" is symmetric.
    """
    df = estimates.df if method == "wald" else estimates.score_df
    critical, error = critical_value(alpha, df, estimates.shares), np.sqrt(estimates.variance)
    lower, upper = estimates.range
    if estimates.alone is not None or method == "wald":
        half = critical * error
        half = half if estimates.alone is None else estimates.alone.reach(alpha, half)
        ends = np.stack([estimates.value - half, estimates.value + half], axis=-1)
    else:

        def inside(away: Array) -> Mask:
            tested = np.clip(estimates.value + away, lower, upper)
            return np.abs(tested - estimates.value) <= critical * np.sqrt(estimates.variance_at(tested))

        ends = inverted(inside, estimates.value, np.maximum(error, 1e-300))
    possible = np.stack([lower, upper], axis=-1)
    ends = np.where(estimates.missing[..., None], possible, ends)
    return np.stack([np.maximum(ends[..., 0], lower), np.minimum(ends[..., 1], upper)], axis=-1)


def pvalues(estimates: Estimates, tested: Array | float, *, method: str = "score") -> Array:
    """Two-sided p-values (R, G, q) of given values; a value beyond what is possible is tested at its edge."""
    point = np.clip(np.broadcast_to(tested, estimates.value.shape), estimates.lower, estimates.upper)
    variance, df = estimates.variance, estimates.df
    if method != "wald":
        variance, df = estimates.variance_at(point), estimates.score_df
    statistic = np.abs(estimates.value - point) / np.sqrt(np.maximum(variance, 1e-300))
    found = pvalue_of(statistic, df, estimates.shares)
    return found if estimates.alone is None else estimates.alone.tails(np.abs(estimates.value - point), found)

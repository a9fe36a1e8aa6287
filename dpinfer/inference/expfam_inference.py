"""An exponential family inferred from one release of clamped sufficient statistics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpinfer.errors import InferenceError
from dpinfer.inference.base import BaseInference, check_simulation
from dpinfer.inference.contrasts import Contrasts, rows_of, simulated_pvalue
from dpinfer.inference.expfam import KAPPA_RELIABLE, ClampedProblem, FamilyFit, estimate, sum_noise
from dpinfer.inference.expfam_batch import simulate_releases
from dpinfer.inference.expfam_intervals import (
    contrast_errors,
    from_ends,
    linked,
    linked_errors,
    score_interval,
    score_pvalue,
    wald_interval,
    wald_pvalue,
)
from dpinfer.inference.restrictions import independent, wald_lengths
from dpinfer.release.laws import StageRelease

if TYPE_CHECKING:
    from dpinfer.release.release import Release
    from dpinfer.statistics.arrays import Array, Mask

__all__ = ["FamilyInference", "family_inference"]

_STEP = 1e-5


@dataclass(frozen=True, eq=False)
class FamilyInference(BaseInference):
    """Parameters of an exponential family; implements `dpinfer.inference.base.Inference`.

    A single parameter is inferred by the method on the scale of its link; any other combination of the
    parameters by the delta method, with a normal reference ("simulated": with simulated pivots).
    A value at or beyond the end of a parameter's space, such as a standard deviation of 0, is tested as the end of
    a wide range inside the space: its p-value tells whether the sums exclude everything near that end.
    Where no law agrees with the noisy sums, releases drawn from the closest one say nothing about the others:
    "simulated" then gives the score interval and p-value of a single parameter.
    A parameter that the release does not determine is NaN in the estimates and their covariance. It has the score
    interval and p-value; combinations of it with others have the whole line, and 1.

    Attributes
    ----------
    release : Release
    fit : FamilyFit
        Of one release.
    method : {"wald", "score", "simulated"}
    replicates, seed : int
        Number of simulated releases and their public seed, for "simulated".
    notes : tuple of str
        Further warnings, from other parts of the release.
    """

    release: Release
    fit: FamilyFit
    method: str
    replicates: int
    seed: int
    notes: tuple[str, ...] = ()

    methods = ("auto", "wald", "score", "simulated")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.fit.problem.family.names

    @property
    def params(self) -> Array:
        """Point estimates (p,); NaN where the release does not determine one."""
        return np.where(self._missing, np.nan, self.fit.params[0])

    @property
    def _missing(self) -> Mask:
        return np.asarray(self.fit.missing[0])

    def _on_parameters(self, cov: Array) -> Array:
        slope = np.where(self._missing, np.nan, self.fit.slope[0])
        return np.asarray(cov * np.outer(slope, slope))

    @property
    def cov_sampling(self) -> Array:
        """Covariance from sampling (p, p), by the delta method."""
        return self._on_parameters(self.fit.cov_sampling[0])

    @property
    def cov_noise(self) -> Array:
        """Covariance from privacy noise (p, p), by the delta method."""
        return self._on_parameters(self.fit.cov_noise[0])

    @property
    def nobs(self) -> float | None:
        """The number of rows, as released or public."""
        return float(self.fit.count[0])

    @property
    def nobs_is_public(self) -> bool:
        """Whether `nobs` is exact and public."""
        return self.fit.noise.count_variance == 0

    @property
    def target(self) -> str:
        """What is estimated: the population or the data themselves."""
        return "population" if self.fit.noise.population else "data"

    @property
    def kappa(self) -> float:
        """How far the parameters stand out of the noise; see `dpinfer.inference.expfam.signal`."""
        return float(self.fit.kappa[0])

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, from released numbers only."""
        found = []
        if self._missing.any():
            listed = ", ".join(name for name, missing in zip(self.names, self._missing, strict=True) if missing)
            found.append(
                f"not determined: {listed}; laws far apart agree with the noisy sums, and the intervals hold them"
            )
        if self.fit.edge[0]:
            found.append(
                f"no {self.fit.problem.family.name} law inside the parameter space agrees with the noisy sums: the "
                "estimate is the closest law at its edge; read the intervals, not the estimates"
            )
        if self.kappa < KAPPA_RELIABLE:
            found.append(
                f"privacy noise dominates some parameter: its signal is {self.kappa:.2g} times the noise, below "
                f"{KAPPA_RELIABLE:g}; intervals may be wide or infinite"
            )
        if self.fit.count[0] <= 3 * np.sqrt(self.fit.noise.count_variance):
            found.append("the noisy number of rows is not larger than three standard deviations of its noise")
        return (*found, *self.notes)

    def natural(self) -> tuple[tuple[str, ...], Array, Array]:
        """Natural parameters of the family.

        Returns
        -------
        names : tuple of str, length p
        values : ndarray (p,)
        cov : ndarray (p, p)
            Sampling and noise together, by the delta method.

        Raises
        ------
        InferenceError
            If the family does not say what they are.
        """
        family, eta = self.fit.problem.family, self.fit.eta
        values = family.natural(self.fit.params)[0]
        up = family.natural(self.fit.problem.from_link(eta + _STEP * np.eye(eta.shape[1])))
        down = family.natural(self.fit.problem.from_link(eta - _STEP * np.eye(eta.shape[1])))
        slope = (up - down).T / (2 * _STEP)
        known = np.where((slope != 0) @ self._missing, np.nan, 1.0)
        return family.natural_names, known * values, np.outer(known, known) * (slope @ self.fit.cov[0] @ slope.T)

    @cached_property
    def _drawn(self) -> FamilyFit:
        rng = np.random.default_rng(self.seed)
        return simulate_releases(self.fit, self.release.law, self.release.steps, self.replicates, rng)

    def _pivots(self, contrast: Array) -> tuple[Array, float, float, int | None]:
        """Return simulated pivots (B,), estimate and standard error, and the parameter if it is on its link's scale."""
        drawn, index = self._drawn, _single(contrast)
        if index is None:
            own, errors = self._normal(contrast), contrast_errors(drawn, contrast[None])[:, 0]
            return (drawn.params @ contrast - own.center) / errors, float(own.center), float(own.error), None
        at, error = float(self.fit.eta[0, index]), float(linked_errors(self.fit, index)[0])
        return (drawn.eta[:, index] - at) / linked_errors(drawn, index), at, error, index

    def _simulated(self, contrast: Array, alpha: float) -> Array:
        pivots, at, error, index = self._pivots(contrast)
        rank = int(np.floor(alpha / 2 * (self.replicates + 1)))
        ordered = np.sort(pivots)
        low, high = (ordered[rank - 1], ordered[-rank]) if rank >= 1 else (-np.inf, np.inf)
        ends = np.array([[at - high * error, at - low * error]])
        return np.asarray(ends[0] if index is None else from_ends(self.fit, index, ends)[0] * contrast[index])

    def intervals(self, contrasts: Array, alpha: float) -> Array:
        """Intervals of level ``1 - alpha`` for each row of ``contrasts`` (k, p), as (k, 2); may be infinite."""
        rows = rows_of(contrasts)
        return np.stack([np.sort(self._interval(row, alpha)) for row in rows])

    def _draws(self, index: int | None) -> bool:
        """Whether simulated pivots serve: not for a single parameter at the edge or where noise dominates."""
        unclear = bool(self.fit.edge[0] | self._missing.any()) or self.kappa < KAPPA_RELIABLE
        return self.method == "simulated" and not (index is not None and unclear)

    def _interval(self, contrast: Array, alpha: float) -> Array:
        index = _single(contrast)
        if self._unknown(contrast, index):
            return np.array([-np.inf, np.inf])
        if self._draws(index):
            return self._simulated(contrast, alpha)
        if index is not None:
            method = wald_interval if self.method == "wald" else score_interval
            return np.asarray(method(self.fit, index, alpha)[0] * contrast[index])
        return self._normal(contrast).intervals(alpha)

    def _unknown(self, contrast: Array, index: int | None) -> bool:
        """Whether several parameters are combined, and one of them is not determined."""
        return index is None and bool(self._missing[contrast != 0].any())

    def _normal(self, contrast: Array) -> Contrasts:
        """Return one combination, with a normal reference."""
        return Contrasts(contrast @ self.fit.params[0], contrast_errors(self.fit, contrast[None])[0, 0])

    def contrast_pvalues(self, contrasts: Array, values: Array) -> Array:
        """Two-sided p-values (k,) of ``contrasts @ params = values``."""
        rows = rows_of(contrasts)
        wanted = np.broadcast_to(np.asarray(values, dtype=np.float64), (len(rows),))
        return np.array([self._pvalue(row, value) for row, value in zip(rows, wanted, strict=True)])

    def _pvalue(self, contrast: Array, value: float) -> float:
        index = _single(contrast)
        if self._unknown(contrast, index):
            return 1.0
        tested = np.array([value if index is None else value / contrast[index]])
        if self._draws(index):
            pivots, at, error, _ = self._pivots(contrast)
            statistic = (at - (tested if index is None else linked(self.fit, index, tested))[0]) / error
            tail = min(int((pivots >= statistic).sum()), int((pivots <= statistic).sum()))
            return min(1.0, 2 * (1 + tail) / (self.replicates + 1))
        if index is not None:
            method = wald_pvalue if self.method == "wald" else score_pvalue
            return float(method(self.fit, index, tested)[0])
        return float(self._normal(contrast).pvalues(value))

    def wald(self, restrictions: Array, values: Array) -> tuple[float, float, float]:
        """Joint test of ``restrictions @ params = values``: statistic (chi-squared), degrees of freedom, p-value.

        Restrictions of a parameter that is not determined are never rejected.
        """
        rows, wanted, count = independent(restrictions, values)
        if (rows != 0)[:, self._missing].any():
            return 0.0, count, 1.0
        known = ~self._missing
        total = rows[:, known] @ (self.cov_sampling + self.cov_noise)[np.ix_(known, known)] @ rows[:, known].T
        statistic = float(wald_lengths((rows @ self.fit.params[0] - wanted)[None], total[None])[0])
        if self.method != "simulated":
            return statistic, count, float(stats.chi2.sf(statistic, count))
        drawn = self._drawn
        moved = (drawn.params - self.fit.params) @ rows.T
        weights = rows[None] * drawn.slope[:, None, :]
        spread = weights @ drawn.cov @ np.swapaxes(weights, 1, 2)
        return statistic, count, float(simulated_pvalue(wald_lengths(moved, spread), statistic))


def _single(contrast: Array) -> int | None:
    """Return the one parameter that a row of weights reads, if it is only one."""
    read = np.flatnonzero(contrast)
    return int(read[0]) if len(read) == 1 else None


def family_inference(
    release: Release,
    *,
    problem: ClampedProblem,
    method: str = "auto",
    target: str = "population",
    replicates: int = 999,
    seed: int = 0,
    rows_per_unit: int = 1,
    notes: tuple[str, ...] = (),
) -> FamilyInference:
    """Infer a family from a release of the count and the sums of its scaled statistics.

    Parameters
    ----------
    release : Release
        Its first value is the number of rows (with noise of scale 0 where that is public), the next k are
        the sums of the features of ``problem``; what follows is not read.
    problem : ClampedProblem
    method : {"auto", "wald", "score", "simulated"}
        ``"auto"`` is the score method.
    target : {"population", "data"}
        What is estimated; for ``"data"`` only the noise counts as error.
    replicates, seed : int
        For ``"simulated"``.
    rows_per_unit : int
        Rows of one independent unit at most: the sampling covariance is multiplied by it.
    notes : tuple of str
        Further warnings to carry.

    Returns
    -------
    FamilyInference

    Raises
    ------
    OptionError
        If an option has no such value.
    InferenceError
        If the release holds too few sums.
    """
    check_simulation(target, replicates)
    width = 1 + len(problem.expressions)
    if len(release.values) < width:
        raise InferenceError(f"the release holds {len(release.values)} sums, the family needs {width}")
    law = replace(release.law, scales=release.law.scales[:width])
    stage = StageRelease(release.names[:width], release.values[:width], release.steps[:width], law)
    used = replace(release, stages=(stage,))
    noise = sum_noise(law, used.steps, population=target == "population", rows_per_unit=rows_per_unit)
    values = used.array[None]
    fit = estimate(problem, noise, values[:, 1:], values[:, 0])
    return FamilyInference(used, fit, "score", replicates, seed, notes).with_method(method)

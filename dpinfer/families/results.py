"""An exponential family inferred from one release: its inference, and the results that show it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.families.estimation import KAPPA_RELIABLE, FamilyFit, simulated
from dpinfer.families.inference import in_units, intervals, located, on_scale, pvalues
from dpinfer.results.descriptions import DescriptionResults
from dpinfer.statistics.inference import BaseInference, Contrasts, independent, rows_of, simulated_pvalue, wald_lengths

if TYPE_CHECKING:
    from dpinfer.release.release import Release
    from dpinfer.statistics.arrays import Array, Mask, Places

__all__ = ["FamilyInference", "FamilyResults", "family_inference"]

_STEP = 1e-5


@dataclass(frozen=True, eq=False)
class FamilyInference(BaseInference):
    """Parameters of an exponential family; implements `dpinfer.statistics.inference.Inference`.

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
    names, params, cov_sampling, cov_noise, nobs, nobs_is_public, target, flags
        As in `dpinfer.statistics.inference.Inference`; covariances by the delta method.
    """

    release: Release
    fit: FamilyFit
    method: str
    replicates: int
    seed: int
    names: tuple[str, ...]
    params: Array
    cov_sampling: Array
    cov_noise: Array
    nobs: float
    nobs_is_public: bool
    target: str
    flags: tuple[str, ...]

    methods = ("auto", "wald", "score", "simulated")

    @cached_property
    def _drawn(self) -> FamilyFit:
        rng = np.random.default_rng(self.seed)
        return simulated(self.fit, self.release.law, self.release.steps, self.replicates, rng)

    def _read(self, contrasts: Array) -> tuple[Array, Places, Mask]:
        """Rows of weights (k, p), the one parameter that each reads or -1, and which rows have simulated pivots.

        Pivots serve no combination with a parameter that is not determined, and no single parameter at the edge or
        where noise dominates.
        """
        rows = rows_of(contrasts)
        single = np.where((rows != 0).sum(axis=1) == 1, (rows != 0).argmax(axis=1), -1)
        unclear = self.fit.edge[0] | self.fit.missing[0].any() | (self.fit.kappa[0] < KAPPA_RELIABLE)
        serve = np.where(single >= 0, not unclear, ~(rows != 0)[:, self.fit.missing[0]].any(axis=1))
        return rows, single, serve & (self.method == "simulated")

    def _pivots(self, rows: Array, single: Places) -> tuple[Contrasts, Array]:
        """Return combinations on the scales of `located`, and simulated pivots (B, k) of them."""
        own, drawn = (located(fit, rows, single) for fit in (self.fit, self._drawn))
        return own, (drawn.center - own.center) / drawn.error

    def intervals(self, contrasts: Array, alpha: float) -> Array:
        """Intervals of level ``1 - alpha`` for each row of ``contrasts`` (k, p), as (k, 2); may be infinite."""
        rows, single, drawn = self._read(contrasts)
        found: Array = intervals(self.fit, rows, np.where(drawn, -1, single), alpha, self.method)[0]
        if drawn.any():
            own, pivots = self._pivots(rows[drawn], single[drawn])
            rank, ordered = int(np.floor(alpha / 2 * (self.replicates + 1))), np.sort(pivots, axis=0)
            outer = ordered[[-rank, rank - 1]] if rank >= 1 else np.full((2, pivots.shape[1]), [[np.inf], [-np.inf]])
            ends = np.stack([own.center - one * own.error for one in outer], axis=2)
            found[drawn] = in_units(self.fit, rows[drawn], single[drawn], ends)[0]
        return found

    def contrast_pvalues(self, contrasts: Array, values: Array) -> Array:
        """Two-sided p-values (k,) of ``contrasts @ params = values``."""
        rows, single, drawn = self._read(contrasts)
        wanted = np.broadcast_to(np.asarray(values, dtype=np.float64), (len(rows),))
        found: Array = pvalues(self.fit, rows, np.where(drawn, -1, single), wanted, self.method)[0]
        if drawn.any():
            own, pivots = self._pivots(rows[drawn], single[drawn])
            tested = on_scale(self.fit, rows[drawn], single[drawn], wanted[drawn])
            statistic = (own.center - tested) / own.error
            tail = np.minimum((pivots >= statistic).sum(axis=0), (pivots <= statistic).sum(axis=0))
            found[drawn] = np.minimum(1.0, 2 * (1 + tail) / (self.replicates + 1))
        return found

    def wald(self, restrictions: Array, values: Array) -> tuple[float, float, float]:
        """Joint test of ``restrictions @ params = values``: statistic (chi-squared), degrees of freedom, p-value.

        Restrictions of a parameter that is not determined are never rejected.
        """
        rows, wanted, count = independent(restrictions, values)
        if (rows != 0)[:, self.fit.missing[0]].any():
            return 0.0, count, 1.0

        def lengths(fit: FamilyFit, values: Array) -> Array:
            weights = rows[None] * fit.slope[:, None, :]
            return wald_lengths(fit.params @ rows.T - values, weights @ fit.cov @ np.swapaxes(weights, 1, 2))

        statistic = float(lengths(self.fit, wanted)[0])
        if self.method != "simulated":
            return statistic, count, float(stats.chi2.sf(statistic, count))
        return statistic, count, float(simulated_pvalue(lengths(self._drawn, self.fit.params @ rows.T), statistic))


def family_inference(
    release: Release, fit: FamilyFit, method: str, replicates: int, seed: int, notes: tuple[str, ...] = ()
) -> FamilyInference:
    """Return what one release says of a family, with warnings from released numbers and further ones, ``notes``."""
    family, noise, missing, kappa = fit.problem.family, fit.noise, fit.missing[0], float(fit.kappa[0])
    slope = np.where(missing, np.nan, fit.slope[0])
    listed = ", ".join(np.array(family.names)[missing])
    warnings = {
        f"not determined: {listed}; laws far apart agree with the noisy sums, and the intervals hold them": listed,
        f"no {family.name} law inside the parameter space agrees with the noisy sums: the "
        "estimate is the closest law at its edge; read the intervals, not the estimates": fit.edge[0],
        f"privacy noise dominates some parameter: its signal is {kappa:.2g} times the noise, below "
        f"{KAPPA_RELIABLE:g}; intervals may be wide or infinite": kappa < KAPPA_RELIABLE,
        "the noisy number of rows is not larger than three standard deviations of its noise": fit.few[0],
    }
    params = np.where(missing, np.nan, fit.params[0])
    sampling, noisy = (one[0] * np.outer(slope, slope) for one in (fit.cov_sampling, fit.cov_noise))
    count, public = float(fit.count[0]), noise.count_variance == 0
    target = "population" if noise.population else "data"
    flags = (*(text for text, holds in warnings.items() if holds), *notes)
    found = FamilyInference(
        release, fit, "score", replicates, seed, family.names, params, sampling, noisy, count, public, target, flags
    )
    return found.with_method(method)


class FamilyResults(DescriptionResults):
    """Parameters of an exponential family, in usual and natural form."""

    def natural_params(self) -> pd.DataFrame:
        """Return the natural parameters with standard errors by the delta method.

        Returns
        -------
        DataFrame
            Columns "estimate" and "std err" (sampling and noise), a row per natural parameter.

        Raises
        ------
        InferenceError
            If the family does not say what they are.
        """
        inference = self._inference
        assert isinstance(inference, FamilyInference)
        fit, family, steps = inference.fit, inference.fit.problem.family, _STEP * np.eye(len(inference.names))
        up, down = (family.natural(fit.problem.from_link(fit.eta + one)) for one in (steps, -steps))
        slope = (up - down).T / (2 * _STEP)
        error = np.sqrt(np.maximum(np.diag(slope @ fit.cov[0] @ slope.T), 0.0))
        frame = pd.DataFrame({"estimate": family.natural(fit.params)[0], "std err": error}, list(family.natural_names))
        frame.loc[(slope != 0) @ fit.missing[0]] = np.nan
        return frame

"""Monte Carlo p-values of statistics of a release: one engine for every test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

import numpy as np

from dpinfer.display.progress import watch
from dpinfer.errors import OptionError

if TYPE_CHECKING:
    from dpinfer.statistics.arrays import Array, Mask, Places


Draws = Literal["adaptive"] | int

Alternative = Literal["two-sided", "less", "greater"]
ALTERNATIVES: tuple[str, ...] = get_args(Alternative)

ENOUGH = 1000
"""Draws beyond the observed statistic at which an adaptive simulation stops: the p-value is then known to 3.2%."""

MOST_DRAWS = 100_000
"""Draws at which it stops in any case."""

_FEWEST = 99
_STORED = 10_000
_FIRST, _CELLS = 2_500, 100_000
_TIE = 1e-9


class NullModel(Protocol):
    """A hypothesis on the population behind a release of m noisy sums.

    Leading dimensions are free, so that one call serves one release or many.
    """

    def statistic(self, values: Array) -> Array:
        """Evidence against the hypothesis, the larger the more; (..., m) to (...). NaN where it cannot be computed."""

    def fit(self, values: Array) -> Any:
        """Fit the hypothesis to R releases (R, m)."""

    def draw(self, fitted: Any, size: int, rng: np.random.Generator) -> Array:
        """Draw releases (R, size, m) from fitted hypotheses, sampling and privacy noise alike."""


class Restricted(NamedTuple):
    """Restrictions on the coefficients of a release, as `simulate` tests them.

    Attributes
    ----------
    model : NullModel
    values : ndarray (m,)
        Of the release.
    raised : bool
        Whether an error variance below the standard error of its own noise was raised.
    """

    model: NullModel
    values: Array
    raised: bool


class Candidate(NamedTuple):
    """A fit of the hypothesis to some of R releases.

    Attributes
    ----------
    model : NullModel
        What computes the statistic and draws.
    where : ndarray of int (k,)
        The releases.
    fitted : object
        As `NullModel.draw` takes it, for these.
    """

    model: NullModel
    where: Places
    fitted: Any


@runtime_checkable
class HidingModel(NullModel, Protocol):
    """A hypothesis that leaves open what noise may hide; the fit is then moved to where the level holds."""

    def hidden(self, values: Array) -> Mask:
        """Whether noise hides it in R releases (R, m): (R,)."""


@runtime_checkable
class SeveralFits(Protocol):
    """A hypothesis that releases may leave so open that several fits have to be tried: the largest p-value counts."""

    def candidates(self, values: Array) -> list[Candidate]:
        """Fit the hypothesis to R releases (R, m); every release has one fit at least."""


def candidates(model: NullModel, values: Array) -> list[Candidate]:
    """All fits of a hypothesis that have to be tried for R releases (R, m)."""
    if isinstance(model, SeveralFits):
        return model.candidates(values)
    return [Candidate(model, np.arange(len(values)), model.fit(values))]


@dataclass(frozen=True, eq=False)
class NullDistribution:
    """A statistic beside its simulated distribution under the hypothesis.

    Attributes
    ----------
    statistic : float
        Observed.
    pvalue : float
        ``(1 + exceeding) / (draws + 1)``; 1 where the observed statistic is infinite or could not be computed.
    error : float
        Monte Carlo standard error of the p-value.
    draws, exceeding, failed : int
        Draws counted; how many of them were at least as large as the observed statistic; how many of these because
        their statistic could not be computed.
    seed : int
        The public seed.
    sample : ndarray (at most 10,000,)
        The first simulated statistics.
    """

    statistic: float
    pvalue: float
    error: float
    draws: int
    exceeding: int
    failed: int
    seed: int
    sample: Array


def check_draws(draws: object, seed: object) -> None:
    """Refuse a number of draws, or a seed, that is none.

    Raises
    ------
    OptionError
    """
    if draws != "adaptive" and not (type(draws) is int and _FEWEST <= draws <= 10_000_000):
        raise OptionError("draws", draws, f'"adaptive", or a whole number from {_FEWEST} to 10,000,000')
    if not (type(seed) is int and seed >= 0):
        raise OptionError("seed", seed, "a whole number, not negative: it is public and draws no privacy noise")


def simulate(model: NullModel, values: Array, *, draws: Draws = "adaptive", seed: int = 0) -> NullDistribution:
    """Simulate the null distribution of a statistic and return its Monte Carlo p-value.

    Parameters
    ----------
    model : NullModel
    values : ndarray (m,)
        The noisy sums of one release.
    draws : "adaptive" or int
        "adaptive" stops at the draw that is the `ENOUGH`-th to reach the observed statistic, and at `MOST_DRAWS`.
    seed : int
        Public; draws no privacy noise.

    Returns
    -------
    NullDistribution

    Raises
    ------
    OptionError
        If ``draws`` or ``seed`` has no such value.

    Notes
    -----
    Where the hypothesis is simple, ``P(p <= a) <= a`` for every a, with either kind of draws: stopping at the h-th
    exceedance and counting the draws before it gives ``h / L`` of Besag & Clifford (1991). Draws whose statistic
    cannot be computed count as exceeding, that is against rejection.

    References
    ----------
    Besag & Clifford (1991), Sequential Monte Carlo p-values, Biometrika 78.
    """
    check_draws(draws, seed)
    observed = float(model.statistic(values[None])[0])
    if not np.isfinite(observed):
        return NullDistribution(observed, 1.0, 0.0, 0, 0, 0, seed, np.empty(0))
    tried = [_simulate(one, values, draws, seed) for one in candidates(model, values[None])]
    return max(tried, key=lambda found: found.pvalue)


def _simulate(candidate: Candidate, values: Array, draws: Draws, seed: int) -> NullDistribution:
    model, rng = candidate.model, np.random.default_rng(seed)
    observed = float(model.statistic(values[None])[0])
    most = MOST_DRAWS if draws == "adaptive" else int(draws)
    largest = max(_CELLS // max(values.size, 1), 100)
    size = min(_FIRST, largest)
    sample: list[Array] = []
    done = exceeding = failed = 0
    with watch("null simulation", total=most, unit=" draws") as counted:
        while done < most:
            size = min(size, most - done)
            drawn = model.statistic(model.draw(candidate.fitted, size, rng))[0]
            counted(size)
            beyond = _reaches(drawn, observed)
            sample.append(drawn)
            if draws == "adaptive" and exceeding + int(beyond.sum()) >= ENOUGH:
                last = int(np.flatnonzero(beyond)[ENOUGH - exceeding - 1])
                drawn, beyond = drawn[:last], beyond[:last]
                most = done + last
            done, exceeding = done + len(drawn), exceeding + int(beyond.sum())
            failed += int(np.isnan(drawn).sum())
            size = min(2 * size, largest)
    pvalue = (1 + exceeding) / (done + 1)
    error = float(np.sqrt(pvalue * (1 - pvalue) / max(done, 1)))
    return NullDistribution(observed, pvalue, error, done, exceeding, failed, seed, np.concatenate(sample)[:_STORED])


def batch_pvalues(model: NullModel, values: Array, *, draws: int, rng: np.random.Generator) -> Array:
    """Monte Carlo p-values of R releases (R, m), with the same number of draws for each; for studies."""
    found = np.empty(len(values))
    size = max(_CELLS // (draws * values.shape[-1]), 1)
    for start in range(0, len(values), size):
        some = values[start : start + size]
        largest = np.zeros(len(some))
        for one in candidates(model, some):
            observed = one.model.statistic(some[one.where])
            drawn = one.model.statistic(one.model.draw(one.fitted, draws, rng))
            known = np.isfinite(observed)
            exceeding = _reaches(drawn, np.where(known, observed, 0.0)[:, None]).sum(axis=1)
            pvalues = np.where(known, (1 + exceeding) / (draws + 1), 1.0)
            largest[one.where] = np.maximum(largest[one.where], pvalues)
        found[start : start + size] = largest
    return found


def _reaches(drawn: Array, observed: Array | float) -> Mask:
    """Whether statistics are at least as large, ties included; one that could not be computed is."""
    return np.asarray(~(drawn < observed - _TIE * np.maximum(np.abs(observed), 1.0)))

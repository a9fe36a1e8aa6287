"""What cutting residuals took from a least-squares fit, given back from what was released of the rows beyond."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special, stats

if TYPE_CHECKING:
    from dpinfer.inference.newton_terms import Released
    from dpinfer.numerics.arrays import Array

__all__ = ["Beyond", "BeyondOfPeople", "Tail", "TailCounts", "folded_quantile", "folded_tail"]

_INDEX = 2.5
"""Index of the Pareto tail beyond what is seen: near that of lognormal errors from three standard deviations on."""

_CHANCE = 7.8
"""What noise alone makes of the three squared numbers that tell of a skewed tail, in one of twenty cases."""

_CHANCE_BEYOND = 4.0
"""The same of the two that are of rows beyond the cut, in one of seven cases."""

_UNEVEN = 0.5
"""Excesses may be larger by this share where more rows are beyond the cut."""

_LEANING = (1.4, 2.2)
"""Mean distance along the regressors, in standard deviations, of rows beyond the cut: usual with unequal spread, and
what only a wrong model makes."""


@dataclass(frozen=True, eq=False, slots=True)
class Tail:
    """What is added to a fit.

    Attributes
    ----------
    move : ndarray (p,)
        Added to the coefficients.
    sampling, noise : ndarray (p, p)
        Added to their covariance.
    biases : ndarray (k, p)
        The bias of a contrast is at most the sum of the sizes of its products with these.
    """

    move: Array
    sampling: Array
    noise: Array
    biases: Array

    @classmethod
    def none(cls, width: int) -> Tail:
        """Nothing."""
        zero = np.zeros((width, width))
        return cls(np.zeros(width), zero, zero, np.zeros((0, width)))

    @classmethod
    def of_intercept(cls, width: int, variance: float, bias: float) -> Tail:
        """Return a variance and the largest bias of the first coefficient alone."""
        first = np.eye(width)[0]
        zero = np.zeros((width, width))
        return cls(np.zeros(width), variance * np.outer(first, first), zero, bias * first[None])

    def bias(self, contrasts: Array) -> Array:
        """Bound on the bias of contrasts (k, p), as (k,)."""
        return np.asarray(np.abs(contrasts @ self.biases.T).sum(axis=1))


class TailCounts(NamedTuple):
    """What counts tell of rows with residuals beyond the cuts.

    Attributes
    ----------
    rows, hidden : float
        Noisy number of rows beyond the first cut, none farther than any was seen, and the standard deviation of its
        noise.
    farther : float
        Number of rows beyond the second, less what noise may have added.
    skewed : float
        Difference of near residuals to both sides, squared, over what chance makes of it.
    """

    rows: float
    farther: float
    skewed: float
    hidden: float


@dataclass(frozen=True, eq=False, slots=True)
class Beyond:
    """What a round released of rows whose residual is beyond the cut; residuals in units of the score.

    Attributes
    ----------
    side : ndarray (p,)
        Sum of v u sign(r), in the coordinates of the coefficients.
    spread : ndarray (p, p)
        Covariance of the noise of ``side``.
    sides, excess, square : Released
        Sums of v sign(r), of v sign(r) (min(abs(r), high) - low) and of v^2 (min(abs(r), high)^2 - low^2).
    counts : TailCounts
        Of rows beyond ``low`` and beyond ``high``.
    low, high : float
    seen_beyond : bool
        Whether rows were seen beyond ``low``; if not, their excess is guessed from fewer of them.
    """

    side: Array
    spread: Array
    sides: Released
    excess: Released
    square: Released
    counts: TailCounts
    low: float
    high: float
    seen_beyond: bool = True

    def tail(self, inverse: Array, hessian: Array, meat: Array, constant: Array | None, size: float) -> Tail:
        """Return what to add to a fit with an inverse Hessian and a meat (p, p).

        ``constant`` (p,) are the weights of the coordinates whose sum is 1 in every row. Without them nothing is given
        back.

        Notes
        -----
        A row beyond the cut takes ``low`` to the score, and lacks its excess. The excess of all of them goes to the
        intercept; slopes get the mean excess times what the numbers beyond the cut differ by along the regressors.
        Beyond ``high`` excesses are not seen: at a Pareto tail of index 5/2 there is ``lost`` times as much as between
        the cuts, at a light one nothing. Half of that is added, as far as the excess is clear of its noise.
        """
        if constant is None:
            return Tail.none(len(inverse))
        excess, sides = float(self.excess.value[0]), float(self.sides.value[0])
        lost = 1.0 / ((self.high / self.low) ** (_INDEX - 1.0) - 1.0)
        clear = excess**2 / (excess**2 + self.excess.scale**2)
        steep = clear * (3.0 - 2.0 * clear)  # the derivative of clear * excess by excess
        inside = max(float(constant @ hessian @ constant), 0.1 * size)
        level = constant / inside
        whole = excess * (1.0 + 0.5 * lost * clear)

        least = sides**2 + self.sides.scale**2
        mean = float(np.clip(excess * sides / least, 0.0, 2 * (self.high - self.low)))
        beyond = (excess / self.excess.scale) ** 2 + (sides / self.sides.scale) ** 2
        seen = beyond + self.counts.skewed
        apart = inverse - np.outer(level, constant)  # how far numbers beyond the cut differ along the regressors
        differ = apart @ self.side
        beside = self.side - hessian @ level * float(constant @ self.side)
        spread = self.spread + hessian * (max(self.counts.rows, 1.0) / size)
        uneven = float(beside @ np.linalg.solve(spread, beside))
        one_sided = self._one_sided(uneven, len(differ) - 1)
        kept = (1.0 - min(_CHANCE / seen, 1.0) ** 2) * (1.0 - min(_CHANCE_BEYOND / beyond, 1.0) ** 2)
        steeper = _UNEVEN * (1.0 if self.seen_beyond else 2.0)
        factor = kept * (1.0 + 0.5 * lost)
        error = (self.excess.scale**2 + (mean * self.sides.scale) ** 2) / least
        slopes = factor * mean * differ
        unsure = mean * (0.5 * lost + steeper + 1.0 - kept) * seen / (seen + _CHANCE)
        unsure += (1.0 - kept) * one_sided * self.low / 2.0
        partial = np.abs(differ) / np.sqrt(np.maximum(np.diag(inverse), 1e-300))
        unsure = max(unsure, self._misfit(uneven, float(partial[1:].max(initial=0.0)) * np.sqrt(size), len(differ) - 1))

        # To slopes a row beyond adds low and the mean excess, to the intercept low and all of its own.
        square = max(float(self.square.value[0]), 0.0)
        total = max(float(constant @ meat @ constant), 1e-300)
        added = min(square, ((self.low + factor * mean) ** 2 - self.low**2) * max(self.counts.rows, 0.0)) / total
        outer = np.outer(level, level)
        grown = (1.0 + 0.5 * lost * steep) ** 2
        sampling = added * (inverse @ meat @ inverse.T) + max(grown * square - added * total, 0.0) * outer
        noise = (factor * mean) ** 2 * apart @ self.spread @ apart.T
        noise += factor**2 * error * np.outer(differ, differ) + grown * self.excess.scale**2 * outer
        missed = max(lost * abs(excess) * (1.0 - 0.5 * clear), self.counts.farther * self.high / 2)
        biases = np.stack([unsure * differ, level * missed])
        return Tail(level * whole + slopes, sampling, noise, biases)

    def _misfit(self, uneven: float, distance: float, width: int) -> float:
        """Return the excess by which rows beyond the cut may differ where the model is wrong.

        They do if they lie farther along a regressor than unequal spread takes them: ``distance`` is the sum of how far
        in standard deviations, and ``uneven`` is chi-squared with ``width`` degrees of freedom if they lie nowhere.
        """
        least, most = _LEANING
        leaning = distance / max(self.counts.rows + self.counts.hidden, 1.0)
        mean = max(float(self.square.value[0]), 0.0) + self.square.scale
        excess = 2.0 * float(np.sqrt(self.low**2 + mean / self._rows) - self.low)
        clear = self._sure(uneven, width)
        return min(excess, self.high) * clear * float(np.clip((leaning - least) / (most - least), 0.0, 1.0))

    @property
    def _rows(self) -> float:
        """How many rows the excess beyond the cut is shared by."""
        return max(self.counts.rows, 1.0)

    def _one_sided(self, uneven: float, width: int) -> float:
        """Return the share of ``uneven`` that is no chance."""
        return max(1.0 - width / max(uneven, 1e-300), 0.0)

    def _sure(self, uneven: float, width: int) -> float:
        """Return how sure it is that rows beyond the cut lean to a side; they do not in nine of ten cases of chance."""
        return _sureness(uneven, width, 0.1)


class BeyondOfPeople(Beyond):
    """The same where scores are added up by person.

    The cut is then far, and noise as many times larger as a person may have rows: what chance makes of rows that nobody
    saw would be a multiple of a standard error. They lean where chance does so in one of a hundred cases, and as many
    are there as noise may hide.
    """

    __slots__ = ()

    @property
    def _rows(self) -> float:
        return max(self.counts.rows, 0.0) + max(self.counts.hidden, 1.0)

    def _one_sided(self, uneven: float, width: int) -> float:
        return self._sure(uneven, width)

    def _sure(self, uneven: float, width: int) -> float:
        return _sureness(uneven, width, 0.01)


def _sureness(uneven: float, width: int, chance: float) -> float:
    """Return 0 for what chance does as often as so, 1 for what it does a tenth as often."""
    usual, clear = stats.chi2.isf([chance, chance / 10], max(width, 1))
    return float(np.clip((uneven - usual) / (clear - usual), 0.0, 1.0))


def folded_quantile(alpha: float, bias: Array) -> Array:
    """Return the 1 - alpha quantile of the size of a normal variable of variance 1 with these means (k,)."""
    # Far from zero one side is all there is, and quantiles of noncentral chi-squared laws lose digits.
    near = np.sqrt(special.chndtrix(1 - alpha, 1.0, np.minimum(bias, 10.0) ** 2))
    return np.asarray(np.where(bias > 10.0, bias + stats.norm.isf(alpha), near))


def folded_tail(distance: Array, bias: Array) -> Array:
    """Return the probability that the size of a normal variable of variance 1 with mean ``bias`` is larger (k,)."""
    return np.asarray(stats.norm.sf(distance - bias) + stats.norm.cdf(-distance - bias))

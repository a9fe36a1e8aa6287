"""The stages of a doubly robust effect: sums by arm, two noisy Newton iterations of the propensity, influence values.

With covariates x, regressions m1 and m0 of the outcome within arms, and a logit e of the treatment D, the effect is the
mean of

    phi = m1(x) - m0(x) + D (y - m1(x)) / e(x) - (1 - D) (y - m0(x)) / (1 - e(x))

(Robins, Rotnitzky & Zhao 1994). *Sums* by arm give m1 and m0, coordinates z in which covariates have mean 0 and
variance 1, and a first point of the logit. The *first* iteration leads to another, and counts rows near the ends of the
propensity. The *second* releases score and Hessian there, and the derivatives G of the mean of phi by the parameters of
all three nuisances. The *last* releases sums of influence values and of their squares, at nuisances h and with
corrections ``c'(score of a row)``, c being G over the Hessian: errors of the nuisances, noise included, then enter by
their products alone, whether or not a model is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special, stats

from dpinfer.errors import PrivacyUnitError
from dpinfer.experiments.inference import shrunk_inverses
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.iterations import EffectFrame, Interpolant, RoundFrame, RoundSum, Term
from dpinfer.kernel.stage import Slot, Stage, Sum
from dpinfer.privacy.accounting import gaussian_amount, least_scale
from dpinfer.privacy.units import ApproxDP, PureDP
from dpinfer.procedures.options import compiled_where
from dpinfer.regression.design import framed
from dpinfer.regression.iterations import split_terms
from dpinfer.schema.basis import basis_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.kernel.stage import Context
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.procedures.cell_sums import SumPlan
    from dpinfer.release.laws import StageRelease
    from dpinfer.statistics.arrays import Array

SHARES = {"sums": Fraction(30, 100), "first": Fraction(10, 100), "second": Fraction(20, 100), "last": Fraction(40, 100)}
"""Shares of the budget."""

_FIRST = {"score": 0.45, "hessian": 0.40}
_SECOND = {"score": 0.40, "hessian": 0.15, "propensity": 0.15, "treated": 0.10, "control": 0.10, "trimmed": 0.10}
_LAST = {"sum": 0.75, "square": 0.25}
"""Prices of terms, each of size 1 at most: together they pay 1. Counts near the ends share what the first leaves."""

_CANDIDATES = (0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)
"""Trims of which the best is taken, none below the public one."""

_FINEST_GRID, _MOST_NOISE = 2.0**33, 2.0**17.9
"""Noise of other terms is 2^22 times a grid's, and drawn to 2^56; of products, bounded by 1, in steps of 2^-38."""

_RATIO = 0.6
_FARTHEST, _LONGEST, _STEEPEST, _MOST = 3.0, 3.0, 2.0, 20.0
"""Standard deviation of the linear predictor of the first point, of a step, and of outcomes' regressions, at most; and
length of corrections."""

_LEAST_SHARE = 0.002
_NODES = 2**14
_LOGIT_END = 30.0
_EDGE = 1.5
"""Eigenvalues of the covariates' variance are raised to so many times what noise may make of them."""

_SIZES, _FAR = 6.0, 4.0
"""Sizes of derivatives at which rows are clipped, and standard deviations within which regressions are taken to lie."""

_CLEAR = 2.0
"""Standard deviations of noise at which eigenvalues of covariates' products are halved: slopes need not be short."""


def _tabled(values: Array, low: float, high: float) -> Interpolant:
    return Interpolant(low, high, values, float(values[0]), float(values[-1]))


def _line(end: float) -> Interpolant:
    """Return t / end, clipped to [-1, 1]."""
    return _tabled(np.array([-1.0, 1.0]), -end, end)


_GRID = np.linspace(-_LOGIT_END, _LOGIT_END, _NODES + 1)
_MEAN = _tabled(special.expit(_GRID), -_LOGIT_END, _LOGIT_END)
_WEIGHT = _tabled(4 * special.expit(_GRID) * special.expit(-_GRID), -_LOGIT_END, _LOGIT_END)


def _beyond(trim: float) -> Interpolant:
    """Return 1 where the propensity is below the trim, or above 1 less it."""
    end = float(special.logit(1 - trim))
    return Interpolant(-end, end, np.zeros(2), 1.0, 1.0)


def _odds(trim: float) -> Interpolant:
    """Return exp(-t) where the propensity is within the trim, and its ends beyond."""
    end = float(special.logit(1 - trim))
    return _tabled(np.exp(-np.linspace(-end, end, _NODES + 1)), -end, end)


@dataclass(frozen=True, eq=False)
class Arms:
    """Estimates from the sums by arm, in coordinates z (q = k + 1 entries, constant first); outcome in [-1, 1].

    Attributes
    ----------
    size, noise : ndarray (2,)
        Rows of each arm, control first, as released; and the deviation of its noise.
    transform : ndarray (q, q)
        ``z = transform @ (1, x)``, x scaled to [-1, 1].
    cross : ndarray (2, q, q)
        Mean over all rows of z z' in each arm.
    outcome : ndarray (2, q)
        Coefficients of the outcome.
    error, lost : ndarray (2,)
        Root mean squares over all rows: of the noise in the regressions, and at most of their error where noise hides
        slopes.
    spread, largest : float
        Approximate standard deviation of the outcome within arms; and including its noise.
    point : ndarray (q,)
        Of the logit.
    """

    size: Array
    noise: Array
    transform: Array
    cross: Array
    outcome: Array
    error: Array
    lost: Array
    spread: float
    largest: float
    point: Array

    @property
    def rows(self) -> float:
        """Number of rows."""
        return float(self.size.sum())


@dataclass(frozen=True, eq=False)
class Iteration:
    """What an iteration of the logit released, in coordinates z.

    Attributes
    ----------
    point, step : ndarray (q,)
        Its point, and the step to the next one.
    inverse : ndarray (q, q)
        Of the Hessian of the mean log likelihood.
    error, left : float
        Root mean squares over rows: of the noise in the linear predictor after the step, and at most of its distance
        from that at the maximum of the likelihood.
    terms : mapping of str to (ndarray, float)
        Means over rows of the other released terms, and the standard deviation of the noise.
    """

    point: Array
    step: Array
    inverse: Array
    error: float
    left: float
    terms: dict[str, tuple[Array, float]]

    @property
    def next(self) -> Array:
        """The next point (q,)."""
        return self.point + self.step


@dataclass(frozen=True, eq=False)
class Corrected:
    """Corrections of influence values for nuisance errors, and the remaining error, in scaled units.

    Attributes
    ----------
    corrections : ndarray (3, q)
        For the regressions of treated and controls, and for the logit.
    variance : float
        Of the products of independent noise in two nuisances, or in a nuisance and a correction.
    bias : float
        Bound on the remaining error other than noise, and on the effect of trimming.
    """

    corrections: Array
    variance: float
    bias: float


@dataclass(frozen=True, eq=False)
class Plan:
    """Stages of one question.

    Attributes
    ----------
    sums : SumPlan
        Means of outcome and covariates by arm.
    treated : str
        The treatment as an expression, 1 if treated.
    trim : float
    context : Context
    """

    sums: SumPlan
    treated: str
    trim: float
    context: Context

    @property
    def norm(self) -> Norm:
        """Norm of the sensitivity."""
        return "l1" if isinstance(self.context.privacy, PureDP) else "l2"

    @property
    def width(self) -> int:
        """Number q of coordinates."""
        return len(self.sums.columns)

    @cached_property
    def features(self) -> Features:
        """Outcome, covariates and treatment, each scaled to [-1, 1]."""
        schema = self.context.schema
        return Features(basis_of((*self.sums.columns, self.treated), schema), compiled_where(self.sums.where, schema))

    def slots(self) -> tuple[Slot, ...]:
        """Return each stage's share of the budget."""
        products = self.width * (self.width + 1) // 2
        most = (len(self.sums.rows.names), products + self.width + len(_CANDIDATES), products + 4 * self.width + 1, 2)
        self._refuse_noise(sum(most))
        return tuple(Slot(share, most[i], adaptive=i > 0) for i, share in enumerate(SHARES.values()))

    def _refuse_noise(self, coordinates: int) -> None:
        """Refuse privacy parameters whose noise later stages could not draw exactly; nothing is charged yet."""
        privacy = self.context.privacy
        if isinstance(privacy, ApproxDP) and least_scale(privacy, coordinates) > _FINEST_GRID:
            raise PrivacyUnitError(
                f"{privacy}: epsilon is too large for this delta: no grid is fine enough for an iteration; use a "
                "smaller epsilon, or GDP or ZCDP"
            )
        for stage, prices in (("first", _FIRST), ("second", _SECOND)):
            price, share = prices["hessian"], float(SHARES[stage])
            if isinstance(privacy, PureDP):
                noise = np.sqrt(2) / (float(privacy.epsilon) * share * price)
            else:
                amount = gaussian_amount(privacy)
                spent = np.sqrt(2 * amount.rho * share) if hasattr(amount, "rho") else amount.mu * np.sqrt(share)
                noise = 1 / (spent * np.sqrt(price))
            if noise * (1 if self.context.neighbors == "add_remove" else 2) > _MOST_NOISE:
                raise PrivacyUnitError(f"{privacy} needs more noise than can be drawn: use a larger privacy budget")

    # Sums by arm

    def arms(self, stage: StageRelease) -> Arms:
        """Read the sums by arm."""
        sums = self.sums.moment_sums(stage.array[None], stage.law, np.asarray(stage.steps))
        first = [sums.monomial(column) for column in range(sums.columns)]
        table = np.array([[sums.monomial(i, j) for j in range(sums.columns)] for i in range(sums.columns)])
        values, noise, count = sums.values[0], sums.noise, sums.monomial()
        error, of_sum, own = (float(np.sqrt(noise[i, i])) for i in (count, first[0], table[0, -1]))
        size = np.maximum(values[:, count], max(2 * error, 2.0))
        total, products = values[:, first], values[:, table]
        rows = float(size.sum())
        # Coordinates
        mean = np.clip(total[:, 1:].sum(axis=0) / rows, -1.0, 1.0)
        spread = products[:, 1:, 1:].sum(axis=0) / rows - np.outer(mean, mean)
        length, axes = np.linalg.eigh(spread)
        covariates = self.width - 1
        least = max(_EDGE * own * np.sqrt(2 * covariates) / rows, 1e-9)
        roots = np.maximum(length, least) ** -0.5
        transform = np.eye(self.width)
        transform[1:, 1:] = (axes * roots) @ axes.T
        transform[1:, 0] = -transform[1:, 1:] @ mean
        # Moments about the arms' means, the outcome first
        turn = np.eye(self.width)
        turn[1:, 1:] = transform[1:, 1:]
        centres = np.clip(total / size[:, None], -1.0, 1.0)
        central = turn @ (products - size[:, None, None] * centres[:, :, None] * centres[:, None, :]) @ turn.T
        within, cross = central[:, 1:, 1:], central[:, 0, 1:]
        stretch = float((roots**2).mean())
        inverse, part = shrunk_inverses(within, (own * stretch) ** 2, _CLEAR)
        common, known = shrunk_inverses(within.sum(axis=0), 2 * (own * stretch) ** 2, _CLEAR)
        pooled = common @ cross.sum(axis=0)
        slopes = pooled + np.einsum("aij,aj->ai", inverse, cross - within @ pooled)
        slopes *= np.minimum(1.0, _STEEPEST / np.maximum(np.linalg.norm(slopes, axis=1, keepdims=True), 1e-300))
        middles = (centres[:, 1:] - mean) @ transform[1:, 1:].T
        outcome = np.column_stack([centres[:, 0] - (slopes * middles).sum(axis=1), slopes])
        variance, blurred = float(central[:, 0, 0].sum() / rows), own * np.sqrt(2) / rows
        deviation = float(np.sqrt(np.clip(max(variance, 0.0) + blurred, 1e-12, 1.0)))
        entry = own**2 * stretch * (1 + stretch * (slopes**2).sum(axis=1))
        noisy = np.einsum("aij,aij->a", inverse, inverse) * entry
        sizes = np.linalg.norm(pooled), np.linalg.norm(slopes - pooled, axis=1) + np.sqrt(noisy)
        lost = sum(np.minimum(size * (1 / np.maximum(left, 1e-9) - 1), deviation)
                   for size, left in zip(sizes, (known.min(), part.min(axis=1)), strict=True))  # fmt: skip
        small = np.sqrt((of_sum / size) ** 2 * (1 + (slopes**2).sum(axis=1) * stretch))
        # The logit: covariates that are normal in both arms
        share = np.clip(size[1] / rows, _LEAST_SHARE, 1 - _LEAST_SHARE)
        apart = middles[1] - middles[0]
        along = apart / max(1 - share * (1 - share) * float(apart @ apart), 0.2)
        along = along * min(1.0, _FARTHEST / max(float(np.linalg.norm(along)), 1e-300))
        start = float(np.clip(special.logit(share) - along @ middles.mean(axis=0), -_LOGIT_END, _LOGIT_END))
        means = np.column_stack([np.ones(2), middles])
        held = size[:, None, None] * means[:, :, None] * means[:, None, :]
        held[:, 1:, 1:] += within
        return Arms(
            values[:, count], np.full(2, error), transform, held / rows, outcome,
            np.sqrt(noisy + small**2), lost, float(np.sqrt(np.clip(variance, 1e-6, 1.0))), deviation,
            np.append(start, along),
        )  # fmt: skip

    # Iterations

    def _frame(self, arms: Arms, point: Array, radius: float, trim: float | None, corrections: Array) -> RoundFrame:
        """Return the frame of an iteration, or with a ``trim`` that of influence values."""
        whole = np.zeros((self.width, self.features.basis.width))
        whole[:, [0, *range(2, self.width + 1)]] = arms.transform
        outcome, treated = np.eye(whole.shape[1])[[1, -1]]
        options: dict[str, Any] = {"norm": self.norm, "ratio": _RATIO if self.norm == "l1" else 1.0}
        if trim is None:
            arm = 0.5 * (np.eye(whole.shape[1])[0] + treated)
            return framed(self.features, np.vstack([whole / radius, point @ whole, arm]), _MEAN, **options)
        labels = [treated, arms.outcome[1] @ whole, arms.outcome[0] @ whole, *(corrections @ whole)]
        maps = np.vstack([whole / radius, point @ whole, outcome, *labels])
        return framed(
            self.features, maps, _MEAN, _odds(trim), kind=EffectFrame, labels=6, cap=1 / trim, **options
        )  # fmt: skip

    def _radius(self, arms: Arms, stage: StageRelease) -> float:
        """Return the length beyond which rows are downweighted; it is longer if there is little noise."""
        usual = 1.5 * self.width if self.norm == "l1" else 2.5 * np.sqrt(self.width)
        longest = float(np.abs(arms.transform).sum(axis=1).max() * self.width)
        noise = max(float(np.sqrt(stage.noise_variances[0])), 1e-9) / max(arms.rows, 1.0)
        return float(min(usual * max(1.0, np.sqrt(1e-4 / noise)), max(longest, usual)))

    def trims(self) -> tuple[float, ...]:
        """Trims whose rows are counted."""
        return (*(one for one in _CANDIDATES if one > self.trim), self.trim)

    def _first_terms(self) -> tuple[Term, ...]:
        ends, left = self.trims(), 1 - sum(_FIRST.values())
        return (
            Term("score", "vector", _FIRST["score"], of="difference"),
            Term("hessian", "matrix", _FIRST["hessian"] / self._per, _WEIGHT, of="linear"),
            *(Term(f"beyond {one:g}", "mass", left / len(ends), _beyond(one), of="linear") for one in ends),
        )

    @property
    def _per(self) -> float:
        return _RATIO if self.norm == "l1" else 1.0

    @staticmethod
    def _units(arms: Arms, trim: float) -> tuple[float, float]:
        """Return the clipping bounds for the derivatives of rows by logit and regressions: several times their size."""
        share = float(np.clip(arms.size.min() / max(arms.rows, 1.0), _LEAST_SHARE, 0.5))
        return min(2 / trim, _SIZES * arms.spread / share), min(1 / trim, _SIZES / share)

    def _second_terms(self, trim: float, units: tuple[float, float]) -> tuple[Term, ...]:
        price, (slope, weight) = _SECOND, units
        return (
            Term("score", "vector", price["score"], of="difference"),
            Term("hessian", "matrix", price["hessian"] / self._per, _WEIGHT, of="linear"),
            Term("propensity", "vector", price["propensity"], _line(slope), of="label", place=0),
            Term("treated", "vector", price["treated"], _line(weight), of="label", place=1),
            Term("control", "vector", price["control"], _line(weight), of="label", place=2),
            Term("trimmed", "mass", price["trimmed"], _beyond(trim), of="linear"),
        )

    @staticmethod
    def _last_terms(bound: float) -> tuple[Term, ...]:
        square = _tabled(np.linspace(-1.0, 1.0, _NODES + 1) ** 2, -bound, bound)
        return (
            Term("sum", "number", _LAST["sum"], _line(bound)),
            Term("square", "mass", _LAST["square"], square),
        )

    def stage(self, place: int, released: Sequence[StageRelease]) -> Stage:
        """Ask for the sums by arm, an iteration, or influence values."""
        if place == 0:
            weights = self.sums.noise_weights(pure=self.norm == "l1")
            return Stage(Sum(self.sums.rows, weights=tuple(weights)))
        arms, none = self.arms(released[0]), np.zeros((3, self.width))
        if place == 1:
            radius = self._radius(arms, released[0])
            settings: dict[str, Any] = {"point": arms.point.tolist(), "radius": radius}
            return self._asked(self._frame(arms, arms.point, radius, None, none), self._first_terms(), settings)
        first = self.iteration(arms, released[1], self._first_terms())
        if place == 2:
            radius, trim = float(released[1].settings["radius"]), self.chosen_trim(arms, first)
            units = self._units(arms, trim)
            settings = {"point": first.next.tolist(), "radius": radius, "trim": trim, "units": [*units]}
            terms = self._second_terms(trim, units)
            return self._asked(self._frame(arms, first.next, radius, trim, none), terms, settings)
        trim = float(released[2].settings["trim"])
        second, found = self.corrected(arms, released[2])
        bound = self._bound(arms, trim, found.corrections)
        settings = {"point": second.next.tolist(), "corrections": found.corrections.tolist(), "bound": bound}
        frame = self._frame(arms, second.next, float(released[2].settings["radius"]), trim, found.corrections)
        return self._asked(frame, self._last_terms(bound), settings)

    def _asked(self, frame: RoundFrame, terms: tuple[Term, ...], settings: dict[str, Any]) -> Stage:
        rows = RoundSum(frame, terms)
        weights = rows.usual_weights(self.context.neighbors, self.norm)
        return Stage(Sum(rows, weights=tuple(weights.tolist())), settings=settings)

    @staticmethod
    def _bound(arms: Arms, trim: float, corrections: Array) -> float:
        """Return a bound that influence values exceed only for rows that are outliers in every part.

        A weight of 1 / trim times the largest residual from regressions within so many standard deviations of their
        mean, and the other parts within as many.
        """

        def reach(size: Array) -> float:
            return float(abs(size[0]) + _FAR * np.linalg.norm(size[1:]))

        largest = min(1 + max(map(reach, arms.outcome)), 2.0)
        return largest / trim + min(reach(arms.outcome[1] - arms.outcome[0]), 2.0) + min(reach(corrections[2]), 1.0)

    def iteration(self, arms: Arms, stage: StageRelease, terms: Sequence[Term]) -> Iteration:
        """Read an iteration of the logit.

        A Hessian that noise hides is shrunk towards that of a propensity that does not depend on the covariates.
        """
        point, radius = np.array(stage.settings["point"]), float(stage.settings["radius"])
        found, rows = split_terms(stage, terms, self.width), max(arms.rows, 1.0)
        means = {name: (value / rows, noise / rows) for name, (value, noise) in found.items()}
        score, of_score = (one * radius for one in means["score"])
        hessian, of_hessian = (one * radius**2 / 4 for one in means["hessian"])
        average = float(special.expit(point[0]) * special.expit(-point[0]))
        error = float(of_hessian) * np.sqrt(self.width)
        clear = (0.3 * average) ** 2 / ((0.3 * average) ** 2 + error**2)
        values, vectors = np.linalg.eigh(clear * hessian + (1 - clear) * average * np.eye(self.width))
        inverse = (vectors / np.maximum(values, 0.1 * average)) @ vectors.T
        step = inverse @ score
        length = float(np.linalg.norm(step))
        step = step * min(1.0, _LONGEST / max(length, 1e-300))
        off = clear * error / average + 0.3 * (1 - clear)
        left = (min(off, 1.0) + 0.5 * length) * length * (len(terms) == len(_SECOND)) * 0.5
        noisy = float(of_score) * np.linalg.norm(inverse)
        return Iteration(point, step, inverse, float(noisy), float(left), means)

    def chosen_trim(self, arms: Arms, first: Iteration) -> float:
        """Return the trim that makes the interval shortest: less noise, and more rows that are trimmed."""
        ends = self.trims()
        rows, counts = max(arms.rows, 1.0), [first.terms[f"beyond {one:g}"] for one in ends]
        price = (1 - sum(_FIRST.values())) / len(ends)
        spent = float(SHARES["first"]) * price / float(SHARES["last"])
        power = 1.0 if self.norm == "l1" else 0.5
        of_sum, of_square = (counts[0][1] * (spent / _LAST[one]) ** power for one in ("sum", "square"))
        share = np.clip(arms.size / rows, _LEAST_SHARE, 1)
        usual = arms.spread**2 * float((1 / share).sum()) / rows
        lengths = []
        for one, (value, noise) in zip(ends, counts, strict=True):
            bound = self._bound(arms, one, np.zeros((3, self.width)))
            of_variance = bound**2 * of_square / rows
            total = (bound * of_sum) ** 2 + max(usual, of_variance)
            critical = stats.t.isf(0.025, np.clip(2 * (total / max(of_variance, 1e-300)) ** 2, 2.0, 1e9))
            lengths.append(critical * np.sqrt(total) + (max(float(value[0]), 0.0) + noise) * arms.largest)
        return ends[int(np.argmin(lengths))]

    def corrected(self, arms: Arms, stage: StageRelease) -> tuple[Iteration, Corrected]:
        """Read the second iteration, and compute the corrections and the remaining nuisance error.

        Derivatives are shrunk by the share of noise in their squared length. With errors a of the logit and b of a
        regression, in root mean square over rows, the second derivative of the mean of phi by both is at most 1 in
        coordinates z, so that it moves by ``a b``; an error of a derivative moves it by that times the error of its
        nuisance. Where both are noise of different stages, of q coordinates, the product has mean 0 and a variance of
        about ``a^2 b^2 / q``; twice this is used, since noise differs between them. Where a propensity is trimmed, only
        the outcome's regression remains, assumed to be wrong by a standard deviation of the outcome.
        """
        radius, trim = float(stage.settings["radius"]), float(stage.settings["trim"])
        units = float(stage.settings["units"][0]), float(stage.settings["units"][1])
        second = self.iteration(arms, stage, self._second_terms(trim, units))
        share = np.maximum(arms.size / max(arms.rows, 1.0), _LEAST_SHARE)

        def read(name: str, unit: float) -> tuple[Array, float]:
            value, noise = second.terms[name]
            value, level = value * radius * unit, float(noise) * radius * unit * np.sqrt(self.width)
            length = float(np.linalg.norm(value))
            return value * max(0.0, 1 - (level / max(length, 1e-300)) ** 2), level

        found, (slope, level) = [], read("propensity", units[0])
        length, error, left = float(np.linalg.norm(slope)), second.error, second.left
        level = min(level, arms.largest)
        lost, step = float(np.linalg.norm(arms.lost)), float(np.linalg.norm(second.step))
        variance = error**2 * (float(arms.error @ arms.error) + level**2)
        bias = error * lost + left * (float(np.linalg.norm(arms.error)) + lost + level)
        bias += (length * step + 0.5 * length * error) * error
        for arm, name in ((1, "treated"), (0, "control")):
            derivative, level = read(name, units[1])
            values, vectors = np.linalg.eigh(arms.cross[arm])
            found.append(vectors @ ((vectors.T @ derivative) / np.maximum(values, 0.1 * share[arm])))
            variance += (min(level, 1.0) * float(arms.error[arm])) ** 2
            bias += min(level, 1.0) * float(arms.lost[arm])
        beyond, noise = second.terms["trimmed"]
        bias += (max(float(beyond[0]), 0.0) + float(noise)) * arms.largest
        found.append(second.inverse @ slope)
        corrections = np.stack(found)
        corrections *= np.minimum(1.0, _MOST / np.maximum(np.linalg.norm(corrections, axis=1, keepdims=True), 1e-300))
        return second, Corrected(corrections, 2 * variance / self.width, bias)

    def last(self, stage: StageRelease) -> dict[str, tuple[float, float]]:
        """Read the sums of influence values and of their squares, with the deviations of their noise."""
        bound = float(stage.settings["bound"])
        found = split_terms(stage, self._last_terms(bound), self.width)
        return {name: (float(value[0]) * unit, float(noise) * unit)
                for (name, (value, noise)), unit in zip(found.items(), (bound, bound**2), strict=True)}  # fmt: skip

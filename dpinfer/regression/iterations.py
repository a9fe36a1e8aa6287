"""The stages of a regression by noisy Newton iterations, each built from what earlier ones released.

One way for every model. *Centres* and *spreads* of numeric columns put public rows where most values lie, and the
regressors are made orthonormal on these. The *start* releases a weighted Gram matrix of them, and their products with
the response, clipped. At the start, *counts* of the lengths of scores say where to clip them in the *first* iteration,
which releases a score and a Hessian. At the point that it leads to, lengths are counted again, and the *second*
iteration releases score, Hessian and the products of scores: the estimate is one step from its point, and its interval
counts noise, and what clipping may have taken (`dpinfer.regression.clipping`).

Every stage measures rows in coordinates ``z = W'u`` that the last Hessian makes even, u being the coordinates of the
start. Whatever is chosen here is a function of released numbers and public facts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from scipy import optimize

from dpinfer.errors import PrivacyUnitError
from dpinfer.kernel.rows.iterations import Bins, Interpolant, RoundCounts, RoundSum, Term
from dpinfer.kernel.stage import Slot, Stage, Sum
from dpinfer.privacy.accounting import gaussian_amount, least_scale
from dpinfer.privacy.units import ApproxDP, PureDP
from dpinfer.regression.clipping import LOST, Lengths, length_cuts
from dpinfer.regression.design import LARGEST_SUM
from dpinfer.regression.models import ResidualLaw, Tables, constant, intercept_for, residual_cuts, tabled
from dpinfer.statistics.arrays import symmetric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.kernel.rows.iterations import RoundFrame
    from dpinfer.kernel.stage import Context
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.regression.design import Columns
    from dpinfer.regression.models import Curves, Model
    from dpinfer.release.laws import StageRelease
    from dpinfer.statistics.arrays import Array

__all__ = ["Iteration", "Plan", "Start", "floored", "read_once", "split_terms"]

_SHARES = {
    "l2": {
        "centres": Fraction(15, 1000),
        "spreads": Fraction(25, 1000),
        "start": Fraction(7, 100),
        "counts": Fraction(3, 100),
        "first": Fraction(18, 100),
        "recounts": Fraction(16, 100),
        "second": Fraction(52, 100),
    },
    "l1": {
        "centres": Fraction(14, 100),
        "start": Fraction(26, 100),
        "recounts": Fraction(7, 100),
        "second": Fraction(55, 100),
    },
}
"""Shares of the price. Under Laplace noise a first iteration costs more than its point is worth where the Hessian is
the same everywhere."""

_ONCE = {
    "centres": Fraction(13, 100),
    "start": Fraction(48, 100),
    "recounts": Fraction(7, 100),
}
"""Shares where the Gram matrix of the start, under Laplace noise, is the Hessian, too."""

_EARLY = {
    "start": Fraction(15, 100),
    "counts": Fraction(5, 100),
    "first": Fraction(20, 100),
}
"""Shares under Laplace noise where a first iteration is worth its price: where the Hessian depends on the point."""

_CURVED: dict[tuple[str, str], dict[str, Fraction]] = {
    ("l2", "log"): {"first": Fraction(10, 100), "again": Fraction(16, 100)},
    ("l2", "binary"): {"first": Fraction(7, 100), "again": Fraction(11, 100)},
    ("l1", "log"): _EARLY,
    ("l1", "binary"): _EARLY,
}
"""Shares, by the norm and the kind of the model, where one more iteration leads to the point of the last."""

_START = {"l2": {"score": 0.47, "gram": 0.50, "rows": 0.03}, "l1": {"score": 0.40, "gram": 0.55, "rows": 0.05}}
_START_ONCE = {"score": 0.20, "gram": 0.77, "rows": 0.03}
_FIRST = {"score": 0.60, "hessian": 0.40}
_LAST_ONCE = {"score": 0.8, "meat": 0.2}
_LACKS = (0.25, 0.95)
"""Under Laplace noise no count tells what a Hessian lacks of the rows that it shortens. They are taken to add to it,
in any direction, twice this part at most where sums of absolute values are cut at .95 of the number of coordinates,
and less beyond as if lengths had the tail of a t distribution with three degrees of freedom."""

_LENGTHS_TRIED = (0.75, 2.0, 22)
"""Cuts of these sums over the number of coordinates: the least, the largest, and how many."""

_OF_SLOPES = 0.03
"""Price of the sum of the weights of a Hessian, which average slopes of a binary response need, out of the score's."""
_SECOND = {
    "l2": {"score": 0.70, "hessian": 0.24, "meat": 0.06},
    "l1": {"score": 0.42, "hessian": 0.50, "meat": 0.08},
}
"""Prices of the terms of an iteration, each of which has a size of at most 1 in every unit: together they pay 1."""

_GROUPED = {
    "once": {"score": 0.60, "meat": 0.40},
    "l2": {"score": 0.45, "hessian": 0.15, "meat": 0.40},
    "l1": {"score": 0.30, "hessian": 0.36, "meat": 0.34},
}
"""The same where scores are summed by group: of few groups each has the noise of all."""

_CENTRES, _OCTAVES = {"l2": 32, "l1": 24}, 16
"""Bins between the bounds of a column, and octaves around its centre."""

_SEEN = 2.5
_CLEARLY, _MOSTLY, _NARROW = 4.0, 0.8, 1 / 600
"""From how many standard deviations of noise an octave is seen, which part of the rows is nearly all, and which
variance of a column, over the squared width of the fullest octave, is little: a fiftieth of what may lie within it."""

_START_LENGTH = 2.2
_AWAY = {"linear": 0.1, "binary": 0.2, "choice": 0.2, "log": 0.3, "huber": 0.1, "quantile": 0.3}
_NEARER = 0.3
"""Distance of the first point from the estimate where there is no noise, in each coordinate, and a later one's part."""

_FLOOR, _OF_NOISE = 0.02, 1.5
"""Least eigenvalue of the Gram matrix of a start for n = 1, and in units of its noise."""

_LONGEST = {"linear": 3.0, "binary": 2.0, "choice": 2.0, "log": 1.0, "huber": 3.0, "quantile": 3.0}
"""Standard deviation of the linear predictor by which an iteration moves it at most, in the unit of the response."""

_START_SPREAD = {"binary": 2.0, "log": 1.0}
_WEIGHED = (0.3, 0.7)
"""Weights of the Hessians of both iterations where they are of one matrix."""

_USUAL = 4.0
"""Length at which scores are clipped, over the root of the number of coordinates, if they spread as normal ones."""

_FINEST = 0.3
"""First length that is counted, over the root of the number of coordinates, for residuals of variance 1."""

_LONGEST_SCORE = 2.0**14

_FINEST_GRID = 2.0**33
"""Least noise in steps of a grid, times rows of a person: that of other terms is 2^22 times it, and drawn to 2^56."""

_MOST_NOISE = 2.0**17.9
"""Noise of a sum of products that is bounded by 1, in steps of 2^-38, is drawn to 2^56."""


def floored(matrix: Array, least: float) -> Array:
    """Return a symmetric matrix with eigenvalues of at least ``least``."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return np.asarray((vectors * np.maximum(values, least)) @ vectors.T)


def split_terms(stage: StageRelease, terms: Sequence[Term], width: int) -> dict[str, tuple[Array, float]]:
    """Read the terms of a stage in ``width`` coordinates by name: values, and the noise of the first one."""
    found, start = {}, 0
    values, variances = stage.array, stage.noise_variances
    for term in terms:
        square = term.kind in ("matrix", "outer")
        size = width * (width + 1) // 2 if square else width * term.parted if term.kind == "vector" else 1
        part = values[start : start + size]
        found[term.name] = (symmetric(part, width) if square else part, float(np.sqrt(variances[start])))
        start += size
    return found


def _whitening(matrix: Array) -> Array:
    """Return the symmetric inverse root of a positive definite matrix."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return np.asarray((vectors * values**-0.5) @ vectors.T)


@dataclass(frozen=True, eq=False)
class Start:
    """What the start released, in k coordinates u.

    Attributes
    ----------
    transform : ndarray (k, p)
        ``u = transform @ regressors``.
    shift, unit : float
        The response is measured less the first, over the second.
    size : float
        Sum of the weights of rows, or their number; no less than noise allows.
    rows : tuple of float
        Number of rows as released, and the deviation of its noise.
    second : ndarray (k, k)
        Weighted mean of u u', with eigenvalues clear of noise.
    point : ndarray (k,)
    weight : float
        Mean weight of the Hessian there.
    largest : float
        A size that no response exceeds as it is measured.
    noise : float
        Standard deviation of the noise of a coordinate of the point, about.
    gram : tuple of (ndarray (k, k), float, float)
        Weighted sum of u u' as released, the noise of its diagonal, and the length from which rows have less weight.
    """

    transform: Array
    shift: float
    unit: float
    size: float
    rows: tuple[float, float]
    second: Array
    point: Array
    weight: float
    largest: float
    noise: float
    gram: tuple[Array, float, float]

    def length(self, step: Array) -> float:
        """Return the standard deviation of the linear predictor by which a step (k,) moves it, at most."""
        return float(np.sqrt(step @ self.second @ step))

    @property
    def usual(self) -> Array:
        """Second moments (k, k), where noise hides them no larger than those of public rows."""
        gram, noise, _ = self.gram
        edge = _OF_NOISE * noise * float(np.sqrt(len(gram))) / self.size
        return floored(gram / self.size, float(np.clip(edge, _FLOOR, 1.0)))

    @property
    def least(self) -> Array:
        """Second moments (k, k) as small as they can be: u may spread less than is clear of noise, or ever taken."""
        gram, noise, _ = self.gram
        return floored(gram / self.size - _OF_NOISE * noise * np.sqrt(len(gram)) / self.size * np.eye(len(gram)), 0.0)


@dataclass(frozen=True, eq=False)
class Iteration:
    """What an iteration released, in its coordinates ``z = W'u``.

    Attributes
    ----------
    point : ndarray (k,)
        In coordinates u.
    whiten : ndarray (k, k)
        W.
    score : ndarray (k,)
    hessian : ndarray (k, k)
        In coordinates u.
    score_noise, hessian_noise : float
        Standard deviations of an entry of the score, and of the Hessian's diagonal in coordinates z.
    missed : float
        Bound on what eigenvalues of the Hessian lack in coordinates z.
    """

    point: Array
    whiten: Array
    score: Array
    hessian: Array
    score_noise: float
    hessian_noise: float
    missed: float

    @property
    def back(self) -> Array:
        """Inverse of W': scores and Hessians in coordinates z become those in coordinates u."""
        return np.asarray(np.linalg.inv(self.whiten).T)


_Found = TypeVar("_Found")

_KEPT = 256
"""Readings that a plan keeps: those of a rehearsal and a run."""


def read_once(method: Callable[..., _Found]) -> Callable[..., _Found]:
    """Keep what a method of a plan finds in the same released stages: each stage, and inference, ask for it again."""

    def mark(given: Any) -> Any:
        parts = given.values() if isinstance(given, Mapping) else given if isinstance(given, tuple) else (given,)
        return tuple(one if isinstance(one, str | int) else id(one) for one in parts)

    @wraps(method)
    def found(self: Plan, *given: Any) -> _Found:
        key = (method.__name__, *map(mark, given))
        known = self.kept.get(key)
        if known is None:
            known = given, method(self, *given)  # with what was given, whose identity is then no other's
            if len(self.kept) >= _KEPT:
                self.kept.clear()
            self.kept[key] = known
        return known[1]

    return found


@dataclass(frozen=True, eq=False)
class Plan:
    """Stages of one regression.

    Attributes
    ----------
    columns : Columns
    model : Model
    parameter : float
        Of the model.
    context : Context
    scales : bool
        Whether centres and spreads are measured.
    robust : bool
        Whether products of scores are, or the sum of squared residuals in their place.
    """

    columns: Columns
    model: Model
    parameter: float
    context: Context
    scales: bool = True
    robust: bool = True
    kept: dict[Any, tuple[Any, Any]] = field(default_factory=dict, init=False, repr=False)

    # Shares of the price

    @cached_property
    def norm(self) -> Norm:
        """What the noise is for."""
        return "l1" if isinstance(self.context.privacy, PureDP) else "l2"

    @property
    def once(self) -> bool:
        """Whether the Gram matrix of the start is the only Hessian: under Laplace noise two are half as precise."""
        return self.norm == "l1" and self.model.kind == "linear"

    @property
    def groups(self) -> int:
        """Number of groups in which scores are summed."""
        return self.columns.levels

    @property
    def _begin_prices(self) -> dict[str, float]:
        return _START_ONCE if self.once else _START[self.norm]

    @property
    def _last_prices(self) -> dict[str, float]:
        prices = _LAST_ONCE if self.once else _SECOND[self.norm]
        if self.groups:
            prices = _GROUPED["once" if self.once else self.norm]
        if self.model.kind != "binary":
            return prices
        return {**prices, "score": prices["score"] - _OF_SLOPES, "slopes": _OF_SLOPES}

    @cached_property
    def _shares(self) -> dict[str, Fraction]:
        """Shares of the price of the stages that the model has; the rest is the last one's."""
        found = dict(_SHARES[self.norm])
        if self.once:
            found |= _ONCE
        found |= _CURVED.get((self.norm, self.model.kind), {})
        if self.norm == "l1" and self.model.bounded:
            found["counts"] = Fraction(5, 100)
        return found

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """What each stage is."""
        asked = dict(self._shares)
        measured = self.scales and self.columns.measured
        order = ("centres", "spreads", "start", "counts", "first", "again", "recounts", "second")
        return tuple(one for one in order if one in asked and (measured or one not in ("centres", "spreads")))

    def share(self, kind: str) -> Fraction:
        """Share of the price of a stage; what no stage takes goes to the last."""
        return self._rest if kind == "second" else self._shares[kind]

    @cached_property
    def _rest(self) -> Fraction:
        return Fraction(1 - sum(self._shares[one] for one in self.kinds[:-1]))

    def slots(self) -> tuple[Slot, ...]:
        """Return what each stage may take of the price; `PrivacyUnitError` where noise could not be drawn exactly."""
        p, measured = self.width, len(self.columns.measured)
        products = p * (p + 1) // 2
        most = {
            "centres": measured * _CENTRES[self.norm],
            "spreads": measured * (2 * _OCTAVES + 2),
            "start": self._begun_with,
            "counts": max(len(length_cuts(1.0)), len(residual_cuts())) + len(length_cuts(1.0)) + 2,
            "first": products + p,
            "again": products + p,
            "recounts": 2 * len(length_cuts(1.0)) + 2,
            "second": products + (self.groups * p or products) + p + (self.model.kind == "binary"),
        }
        self._refuse_noise(sum(most[kind] for kind in self.kinds))
        return tuple(Slot(self.share(kind), most[kind], adaptive=place > 0) for place, kind in enumerate(self.kinds))

    @property
    def width(self) -> int:
        """Number of coefficients."""
        return len(self.columns.names)

    @property
    def _begun_with(self) -> int:
        """Numbers that the start releases, at most."""
        return self.width * (self.width + 1) // 2 + self.width + 2

    def _refuse_noise(self, coordinates: int) -> None:
        """Refuse prices whose noise could not be drawn exactly, whatever clips later stages choose."""
        privacy, rows = self.context.privacy, self.context.schema.rows_per_unit
        if isinstance(privacy, ApproxDP) and least_scale(privacy, coordinates) * rows > _FINEST_GRID:
            raise PrivacyUnitError(
                f"{privacy}: epsilon is too large for this delta: no grid is fine enough for an iteration; use a "
                "smaller epsilon, or GDP or ZCDP"
            )
        priced = {"start": self._begin_prices, "first": _FIRST, "again": _FIRST, "second": self._last_prices}
        largest = max(
            self._noise(kind, priced[kind], term) * (1 if term == "meat" else rows)
            for kind in priced
            if kind in self.kinds
            for term in ("gram", "hessian", "meat")
            if term in priced[kind]
        )
        if largest > _MOST_NOISE:
            raise PrivacyUnitError(f"{privacy} needs more noise than can be drawn: use a larger privacy budget")

    @read_once
    def stage(self, place: int, released: tuple[StageRelease, ...]) -> Stage:
        """Return one stage."""
        build = {
            "centres": self._centres,
            "spreads": self._spreads,
            "start": self._start,
            "counts": self._counts,
            "first": self._iterate,
            "again": self._iterate,
            "recounts": self._counts,
            "second": self._iterate,
        }
        return build[self.kinds[place]](dict(zip(self.kinds, released, strict=False)))

    def precision(self, share: float) -> float:
        """Return 1 over the standard deviation of the noise of a sum that is bounded by 1, at a share of the price."""
        privacy = self.context.privacy
        if isinstance(privacy, PureDP):
            found = float(privacy.epsilon) * share / np.sqrt(2.0)
        else:
            amount = gaussian_amount(privacy)
            found = float(np.sqrt(2 * amount.rho * share) if hasattr(amount, "rho") else amount.mu * np.sqrt(share))
        return float(found / (1.0 if self.context.neighbors == "add_remove" else 2.0))

    def _noise(self, kind: str, prices: Mapping[str, float], term: str) -> float:
        """Noise of a term of a stage, for units of size 1; that of matrices is less where units are replaced."""
        share = float(self.share(kind))
        found = (
            1
            / self.precision(share * prices[term] if self.norm == "l1" else share)
            / (1.0 if self.norm == "l1" else np.sqrt(prices[term]))
        )
        if self.norm == "l2" and self.context.neighbors == "replace_one" and term in ("hessian", "gram", "meat"):
            found /= np.sqrt(2.0)
        return float(found)

    @property
    def public_size(self) -> int | None:
        """Number of rows where it is public."""
        return self.context.nobs if self.columns.features.keeps_every_row else None

    def expected_ratio(self, size: int) -> float:
        """Guess standard errors with noise over those without, where scores spread as normal ones do."""
        noise = self._noise("second", self._last_prices, "score")
        length = _USUAL * np.sqrt(self.width) * (np.sqrt(self.width) if self.norm == "l1" else 1)
        return float(np.sqrt(1 + (length * noise) ** 2 / size))

    # Scales

    def _centres(self, before: Mapping[str, StageRelease]) -> Stage:  # noqa: ARG002
        bins = _CENTRES[self.norm]
        cuts = np.linspace(-1, 1, bins + 1)[1:-1]
        places = [Bins(name, "coordinate", cuts, place=place) for place, name in enumerate(self.columns.measured)]
        frame = self.columns.placed if self.norm == "l2" else self.columns.boxed
        return Stage(Sum(RoundCounts(frame, tuple(places))))

    def _middles(self, stage: StageRelease) -> Array:
        """Return the median of each column on the scale of its bounds, from noisy counts."""
        counts = stage.array.reshape(len(self.columns.measured), -1)
        below = np.cumsum(counts, axis=1)
        half = below[:, -1] / 2
        place = (below > half[:, None]).argmax(axis=1)
        own = np.take_along_axis(counts, place[:, None], 1)[:, 0]
        before = np.take_along_axis(below, place[:, None], 1)[:, 0] - own
        part = np.clip((half - before) / np.maximum(own, 1e-9), 0.0, 1.0)
        return np.asarray(-1 + (place + part) * (2 / counts.shape[1]))

    def _spreads(self, before: Mapping[str, StageRelease]) -> Stage:
        octaves = 2.0 ** -np.arange(_OCTAVES - 1)
        steps = np.concatenate([-octaves, [0.0], octaves[::-1]])
        middles = self._middles(before["centres"])
        about = middles if self.columns.within is None else np.zeros(len(middles))  # distances within people
        places = [
            Bins(name, "coordinate", middle + steps, place=place)
            for place, (name, middle) in enumerate(zip(self.columns.measured, about, strict=True))
        ]
        return Stage(Sum(RoundCounts(self.columns.boxed, tuple(places))), settings={"middles": middles.tolist()})

    def _scales(self, before: Mapping[str, StageRelease]) -> tuple[Array, Array]:
        """Return centre and spread of each column on the scale of its bounds; bounds alone where none is measured."""
        if self.norm == "l1" and "centres" in before:
            return self._unimodal(before["centres"])
        if "spreads" not in before:
            return np.zeros(len(self.columns.measured)), np.full(len(self.columns.measured), 3**-0.5)
        stage, levels = before["spreads"], _OCTAVES
        counts = stage.array.reshape(len(self.columns.measured), 2, levels)
        rows = counts[:, 0] + counts[:, 1, ::-1]  # from the farthest octave to the centre
        noise = float(np.sqrt(2 * stage.noise_variances[0]))
        sizes = 0.72 * 2.0 ** -(np.arange(levels) - 1.0)
        sizes[0] = 1.2
        rows = np.where(rows > _SEEN * noise, rows, 0.0)
        total = rows.sum(axis=1)
        found = np.sqrt((rows @ sizes**2) / np.maximum(total, 1e-9))
        return np.array(stage.settings["middles"]), np.where(total > 0, np.maximum(found, 2.0**-levels), 3**-0.5)

    def narrow(self, before: Mapping[str, StageRelease]) -> bool:
        """Whether counts leave open how narrow a column is: they tell that nearly all rows are in one octave.

        Under Laplace noise they tell as much of columns whose tails they hide, and nothing is made of it.
        """
        if "spreads" not in before:
            return False
        stage, size = before["spreads"], self.begun(before["start"]).size
        least = _CLEARLY * float(np.sqrt(stage.noise_variances[0]))
        octaves = 2.0 ** -np.arange(-1, _OCTAVES)
        ends = np.concatenate([-octaves[:-1], [0.0], octaves[-2::-1]])
        middles, widths = 0.5 * (ends[1:] + ends[:-1]), np.diff(ends)
        for row in stage.array.reshape(len(self.columns.measured), -1):
            fullest = int(row.argmax())
            others = np.delete(np.where(row > least, row, 0.0), fullest)
            seen = float(others @ (np.delete(middles, fullest) - middles[fullest]) ** 2)
            if row[fullest] > _MOSTLY * size and seen < _NARROW * size * widths[fullest] ** 2:
                return True
        return False

    def _unimodal(self, stage: StageRelease) -> tuple[Array, Array]:
        """Return centre and spread of each column, of counts made to rise up to the median and to fall beyond it."""
        counts = stage.array.reshape(len(self.columns.measured), -1)
        middles, bins = self._middles(stage), counts.shape[1]
        at = -1 + (np.arange(bins) + 0.5) * (2 / bins)
        spreads = []
        for row, middle in zip(counts, middles, strict=True):
            mode = int(np.clip((middle + 1) * bins / 2, 0, bins - 1))
            rising = optimize.isotonic_regression(row[: mode + 1]).x[:-1]
            falling = optimize.isotonic_regression(row[mode:], increasing=False).x[1:]
            fitted = np.maximum(np.concatenate([rising, [row[mode]], falling]), 0.0)
            square = fitted @ (at - middle) ** 2 / max(float(fitted.sum()), 1e-9)
            spreads.append(np.sqrt(square + (2 / bins) ** 2 / 12) if fitted.sum() > 0 else 3**-0.5)
        return middles, np.array(spreads)

    def _response_scale(self, centres: Array, spreads: Array) -> tuple[float, float]:
        """Return what is taken off the response, and the unit in which it is measured."""
        expression = self.columns.response.expression
        if self.model.kind == "binary":
            return 0.0, 1.0
        if len(self.columns.measured) == len(self.columns.spread_out):  # 0 or 1, as a number
            return (0.5, 0.5) if self.model.kind != "log" else (0.0, 1.0)
        half, middle = (expression.upper - expression.lower) / 2, (expression.upper + expression.lower) / 2
        centre, spread = middle + centres[-1] * half, max(spreads[-1] * half, 1e-9 * half, 1e-150)
        if self.model.kind == "log":
            return 0.0, float(max(np.hypot(spread, centre), 1e-9 * half))
        return (float(centre) if self.columns.intercept else 0.0), float(spread)

    # Start

    def _start_terms(self) -> tuple[Term, ...]:
        """Terms of the start; with survey weights "rows" is what these add up to, and "nobs" counts rows."""
        prices, cut = self._begin_prices, self._clipped
        low = 0.5 - cut if self.model.kind == "binary" else -cut
        terms = [
            Term("score", "vector", prices["score"], Interpolant(low, low + 2 * cut, np.array([-1.0, 1.0]), -1.0, 1.0)),
            Term("gram", "matrix", prices["gram"] / self._ratio, constant(1.0)),
            Term("rows", "mass", prices["rows"], constant(1.0), power=0),
        ]
        if self.columns.weight is None:
            return tuple(terms)
        half = prices["rows"] / 2
        return *terms[:2], Term("rows", "mass", half, constant(1.0)), Term("nobs", "mass", half, constant(1.0), power=0)

    @property
    def _ratio(self) -> float:
        """Bound on the triangle of products over the squared bound on lengths: of absolute sums under Laplace noise."""
        return min(1.0, 0.5 + 1.0 / len(self.columns.names)) if self.norm == "l1" else 1.0

    def _start(self, before: Mapping[str, StageRelease]) -> Stage:
        centres, spreads = self._scales(before)
        scaled = self.columns.scaled(self.columns.ranges(centres, spreads) if "centres" in before else {})
        width = len(self.columns.names)
        longest = self.columns.longest(scaled.transform, self.norm) / float(np.sqrt(self._ratio))
        radius = _START_LENGTH * float(np.sqrt(width)) if self.norm == "l2" else self._shortened(before, longest)
        shift, unit = self._response_scale(centres, spreads)
        settings = {
            "transform": scaled.transform.tolist(),
            "radius": radius,
            "shift": shift,
            "unit": unit,
            "offset": scaled.offset,
        }
        frame = self._framed(scaled.transform / radius, np.zeros(width), (shift, unit), Tables(), offset=False)
        return _summed(RoundSum(frame, self._start_terms()), self, settings)

    def _shortened(self, before: Mapping[str, StageRelease], longest: float) -> float:
        """Return the sum of absolute values to which the start shortens rows under Laplace noise.

        What the Gram matrix lacks, and its noise, multiply the distance of the start's point from the estimate; and the
        interval is longer by what the matrix may lack. No row is longer than ``longest``.
        """
        width = self.width
        lengths = np.geomspace(*_LENGTHS_TRIED) * width
        if self.public_size is not None:
            size = float(self.public_size)
        elif "centres" in before:
            size = float(before["centres"].array.sum()) / len(self.columns.measured)
        else:
            return float(lengths[0])
        size = max(size, 2.0 * width)
        prices, people, lacks = self._begin_prices, self.context.schema.rows_per_unit, _lacks(lengths, longest, width)
        blur = people * lengths**2 * self._ratio * self._noise("start", prices, "gram") * np.sqrt(2.0 * width)
        apart = people * lengths * self._clipped * self._noise("start", prices, "score") / size
        moved = np.hypot(apart, _AWAY[self.model.kind]) * np.hypot(lacks * size, blur)
        half = np.hypot(np.sqrt(size), moved) * (1 + lacks) / np.maximum(1 - LOST * blur / size, 0.05)
        return float(lengths[int(np.argmin(half))])

    @property
    def _clipped(self) -> float:
        """Where the start clips a response, as it is measured: one that is 0 or 1 nowhere."""
        if len(self.columns.measured) == len(self.columns.spread_out):
            return 0.5 if self.model.kind == "binary" else 1.0
        return 3.0 if self.norm == "l2" or self.model.kind == "log" else 2.0

    def _framed(
        self,
        coordinates: Array,
        point: Array,
        response: tuple[float, float],
        tables: Tables,
        *,
        offset: bool = True,
        grouped: bool = False,
    ) -> RoundFrame:
        """Return a frame of coordinates and a linear predictor of the regressors; logarithmic ones in the unit."""
        options: dict[str, Any] = {"norm": "l1", "ratio": self._ratio} if self.norm == "l1" else {}
        moved = self._moved(response[1]) if offset else 0.0
        return self.columns.frame(
            coordinates,
            point,
            response,
            tables.mean,
            tables.factor,
            tables.root,
            moved=moved,
            with_offset=offset,
            grouped=grouped,
            **options,
        )

    def _moved(self, unit: float) -> float:
        """Return what the unit of the response adds to linear predictors."""
        return -float(np.log(unit)) if self.model.kind == "log" else 0.0

    @read_once
    def begun(self, stage: StageRelease) -> Start:
        """Read what the start released, and find the first point."""
        settings, width = stage.settings, len(self.columns.names)
        terms = split_terms(stage, self._start_terms(), width)
        radius, transform = float(settings["radius"]), np.array(settings["transform"])
        shift, unit = float(settings["shift"]), float(settings["unit"])
        rows, noise = float(terms["rows"][0][0]), terms["rows"][1]
        public = self.public_size if self.columns.weight is None else None
        size = max(rows if public is None else float(public), 2.0 * width, 4.0 * noise)
        gram, gram_noise = terms["gram"][0] * radius**2, terms["gram"][1] * radius**2
        flat = np.sqrt(2.0) if self.norm == "l1" else 1.0
        edge = gram_noise * flat * np.sqrt(width) / size
        second = floored(gram / size, max(_OF_NOISE * edge, _FLOOR))
        score = terms["score"][0] * (radius * self._clipped / size)
        point, weight = self._first_point(second, score, float(settings.get("offset", 0.0)), unit)
        counted, error = terms.get("nobs", terms["rows"])
        number = (float(self.public_size), 0.0) if self.public_size is not None else (float(counted[0]), error)
        number = (max(number[0], 2.0 * width, 4.0 * number[1]), number[1])
        expression = self.columns.response.expression
        largest = max(abs(expression.lower - shift), abs(expression.upper - shift)) / unit
        blur = terms["score"][1] * radius * self._clipped / size
        released = (gram, gram_noise * flat, radius)
        return Start(transform, shift, unit, size, number, second, point, weight, largest, blur, released)

    def _first_point(self, second: Array, score: Array, offset: float, unit: float) -> tuple[Array, float]:
        """Return the start's coefficients: of a clipped linear regression, scaled to the slope of the mean."""
        slope = np.linalg.solve(second, score)
        slope = slope * min(1.0, self._clipped / max(float(np.sqrt(slope @ second @ slope)), 1e-300))
        if self.model.kind not in ("binary", "log"):
            return np.asarray(slope), 1.0
        response, intercept = self.model.response, self.columns.intercept
        assert response is not None
        average = float(score[0] / second[0, 0]) if intercept else 0.0
        if self.model.kind == "binary":
            average = float(np.clip(0.5 + average, 0.02, 0.98))
            centre = float(intercept_for(response, average, 0.0))
            steep = max(float(response.slope(np.array(centre))), 1e-3)
        else:
            average = max(average, 0.02) if intercept else 1.0
            centre, steep = float(np.log(average)), average
        found = slope / steep
        if intercept:
            found[0] = 0.0
        spread = float(found @ second @ found)
        found *= min(1.0, _START_SPREAD[self.model.kind] / max(np.sqrt(spread), 1e-300))
        if intercept:
            found[0] = centre - float(found @ second[0]) / float(second[0, 0])
            if self.model.kind == "log":
                found[0] += np.log(unit) - offset - 0.5 * min(spread, 1.0)
        weight = float(self.model.weight(np.array(centre), self.parameter, unit)) if intercept else 0.25
        return np.asarray(found), max(weight, 1e-3)

    # Counts

    @read_once
    def _position(self, before: Mapping[str, StageRelease]) -> tuple[Start, Array, Array, float]:
        """Return the start, the point of the next iteration, its coordinates W, and about the variance of residuals."""
        start = self.begun(before["start"])
        if "first" not in before:
            point = start.point.copy()
            if "counts" in before and self.model.bounded:
                point[0] += float(self._residuals(before, start)[1]) if self.columns.intercept else 0.0
            counts = self.model.name in ("poisson", "negativebinomial")
            spread = min(1.0, 1.0 / start.unit) if counts else 1.0
            return start, point, _whitening(start.second * start.weight), spread
        kind = "again" if "again" in before else "first"
        found = self.iteration(before[kind], kind)
        whiten, lost = found.whiten, self.hessian_floor([found])
        white = whiten.T @ found.hessian @ whiten
        values, vectors = np.linalg.eigh(0.5 * (white + white.T))
        values = np.maximum(values, max(lost, 1e-6 * start.size))
        step = vectors @ ((vectors.T @ found.score) / values)
        step *= min(1.0, _LONGEST[self.model.kind] / max(start.length(whiten @ step), 1e-300))
        whitened = whiten @ (vectors / np.sqrt(values / start.size)) @ vectors.T
        return start, found.point + whiten @ step, whitened, float(before[kind].settings["spread"])

    def _finest(self, width: int, spread: float) -> float:
        """First of the lengths of scores that are counted."""
        along = np.sqrt(width) * (1.0 if self.norm == "l2" else 0.8 * np.sqrt(width))
        return float(_FINEST * along * np.sqrt(spread))

    def _shortest(self, start: Start, whiten: Array) -> float:
        """Return the least unit in which whole numbers hold coordinates z, which noise alone may stretch."""
        largest = np.abs(whiten.T @ start.transform @ self.columns.maps[:-1]).sum(axis=1).max()
        return float(largest / (0.5 * LARGEST_SUM))

    def _counts(self, before: Mapping[str, StageRelease]) -> Stage:
        start, point, whiten, spread = self._position(before)
        width = len(point)
        settings: dict[str, Any] = {"point": point.tolist(), "whiten": whiten.tolist()}
        early = "counts" not in before and self.model.bounded
        if self.model.bounded and not early:
            settings |= self._tuned(before, start)
        finest = self._finest(width, 1.0)
        first = max(finest if early else self._finest(width, spread), self._shortest(start, whiten))
        smallest = float(np.sqrt(width))  # the root mean square of lengths where coordinates are even
        settings |= {"finest": first, "smallest": smallest}
        frame, _ = self._at(start, point, whiten / first)
        curves = None if early else self.curves(settings)
        score = Term("score", "vector", 1.0, None if curves is None else curves.score, cut=_LONGEST_SCORE)
        bins = Bins("residual", "residual", residual_cuts())
        if not early:
            bins = Bins("length", "person", length_cuts(1.0), term=score)
        if self.norm == "l1":
            return Stage(Sum(RoundCounts(frame, (bins,))), settings=settings)
        sizes = Bins("size", "size", length_cuts((smallest / first) ** 2))
        return Stage(Sum(RoundCounts(frame, (bins, sizes)), weights=(1.0, 2.0)), settings=settings)

    def _at(self, start: Start, point: Array, whiten: Array, *, grouped: bool = False) -> tuple[RoundFrame, Tables]:
        """Return a frame of coordinates z, and the functions of the linear predictor in it."""
        tables = self.model.tables(start.largest, self.parameter, start.unit)
        to, response = (whiten.T @ start.transform, start.transform.T @ point), (start.shift, start.unit)
        return self._framed(*to, response, tables, grouped=grouped), tables

    def _residuals(self, before: Mapping[str, StageRelease], start: Start) -> tuple[dict[str, float], float]:
        """Return where a bounded psi is cut, from counts of residuals, and by how much the intercept moves."""
        stage = before["counts"]
        noise = float(np.sqrt(stage.noise_variances[0]))
        law = ResidualLaw.of(stage.array[: len(residual_cuts()) + 1], residual_cuts(), noise)
        if self.model.kind == "huber":
            found, move = law.huber(self.parameter, noise, start.size)
        else:
            width = len(start.point)
            noise_of = self._noise("second", self._last_prices, "hessian")
            steady = 1.2 * width * np.sqrt(width / 2) * noise_of
            found, move = law.smoothing(self.parameter, steady / start.size, start.size, width)
        largest = 2 * start.largest + 1.0
        return {**found, "cut": min(found["cut"], largest)}, float(np.clip(move, -largest, largest))

    def _tuned(self, before: Mapping[str, StageRelease], start: Start) -> dict[str, float]:
        return self._residuals(before, start)[0] if self.model.bounded else {}

    def curves(self, settings: Mapping[str, Any]) -> Curves | None:
        """Return the functions of the residual that an iteration of these settings asked for."""
        return self.model.curves({"peak": 1.0, **settings}, self.parameter) if self.model.bounded else None

    # Iterations

    def _iterate(self, before: Mapping[str, StageRelease]) -> Stage:
        kind = next(one for one in ("first", "again", "second") if one in self.kinds and one not in before)
        last = kind == "second"
        start, point, whiten, _ = self._position(before)
        width = len(point)
        prices = self._last_prices if last else _FIRST
        settings: dict[str, Any] = {"point": point.tolist(), "whiten": whiten.tolist(), **self._tuned(before, start)}
        counted = before.get("recounts", before.get("counts"))
        assert counted is not None
        scaled = (self.curves(settings) or _ONE).size
        if self.model.bounded and not last:
            settings |= self.model.careful(settings)
            settings |= {"clip": 2.5 * float(np.sqrt(width)), "spread": 1.0}
        else:
            clip = self.lengths(counted, start).clip(
                width,
                self._noise(kind, prices, "score"),
                0.0 if self.groups else self._noise("second", self._last_prices, "meat"),
                final=last,
            )
            settings |= {
                "clip": clip.length,
                "meat_clip": clip.meat,
                "excess": clip.excess * scaled,
                "lost": clip.lost * scaled**2,
                "spread": float(np.clip(clip.second / (width * start.size), 1e-9, 1e9)),
            }
        if self.norm == "l1":
            radius = float(settings["clip"]) if self.once else start.gram[2]
            lacks = self._lacking(counted, start, np.eye(width) if self.once else whiten)
            missed = lacks * start.size * settings.get("inside", 1.0)
            settings["lacks"] = lacks
        else:
            sizes = self.sizes(counted, start)
            reach = float(np.sqrt(start.size)) if self.model.bounded and not last else clip.half
            radius, missed = self._radius(before, kind, sizes, reach, settings.get("inside", 1.0))
        radius = max(radius, self._shortest(start, whiten))
        settings |= {"radius": radius, "missed": missed * (self.curves(settings) or _ONE).factor}
        frame, tables = self._at(start, point, whiten / radius, grouped=last and self.groups > 0)
        return _summed(RoundSum(frame, self._terms(settings, tables, last=last)), self, settings)

    def _radius(
        self, before: Mapping[str, StageRelease], kind: str, sizes: Lengths, other: float, inside: float
    ) -> tuple[float, float]:
        """Return the length of rows up to which a Hessian weighs them in full, and what its eigenvalues lose at most.

        Both what it leaves out and its noise multiply the step from the point, whose length is guessed from the noise
        of the score that led there.
        """
        start = self.begun(before["start"])
        width, distance = len(start.point), self.drift(before, start)
        early = not any(one in before for one in ("first", "again"))
        distance = float(np.hypot(distance, _AWAY[self.model.kind] * (1.0 if early else _NEARER)))
        prices = self._last_prices if kind == "second" else _FIRST
        people = self.context.schema.rows_per_unit
        noise = people * self._noise(kind, prices, "hessian")
        return sizes.radius(noise, width, start.size * inside, distance, other)

    def _lacking(self, counted: StageRelease, start: Start, whiten: Array) -> float:
        """Return the part by which a Hessian in coordinates W'u is raised under Laplace noise: see `_lacks`."""
        longest = float(np.sqrt(self._largest_size(counted, start, whiten)))
        return float(_lacks(start.gram[2], longest, len(whiten)))

    def drift(self, before: Mapping[str, StageRelease], start: Start) -> float:
        """Noise of a coordinate of the point of the last iteration, or of the next one if it is not released."""
        earlier = [one for one in ("first", "again") if one in before]
        if earlier:
            return self.iteration(before[earlier[-1]], earlier[-1]).score_noise / start.size
        return start.noise / float(np.sqrt(start.weight))

    def lengths(self, stage: StageRelease, start: Start) -> Lengths:
        """Read counts of lengths of scores, in the units of psi over its size."""
        cuts = length_cuts(float(stage.settings["finest"]))
        largest = self._largest_score(stage, start, np.array(stage.settings["whiten"]))
        noise = float(np.sqrt(stage.noise_variances[0]))
        return Lengths.read(stage.array[: len(cuts) + 1], cuts, noise, largest, norm=self.norm)

    def _largest_score(self, stage: StageRelease, start: Start, whiten: Array) -> float:
        """Return a length that no score exceeds."""
        largest = self.context.schema.rows_per_unit * self.columns.longest(whiten.T @ start.transform, self.norm)
        if self.model.kind == "linear":
            point = start.transform.T @ np.array(stage.settings["point"])
            return largest * self.columns.largest_residual(point, (start.shift, start.unit))
        return largest if self.model.bounded else largest * self._extremes(stage, start)[0]

    def _extremes(self, stage: StageRelease, start: Start) -> tuple[float, float]:
        """Return sizes that no residual, and no root of a weight, exceeds at the point of a stage."""
        point = start.transform.T @ np.array(stage.settings["point"])
        ends = self.columns.predictors(point, self._moved(start.unit))
        return self.model.largest(ends, start.largest, self.parameter, start.unit)

    def sizes(self, stage: StageRelease, start: Start) -> Lengths:
        """Read counts of lengths of rows, as a Hessian weighs them."""
        cuts = length_cuts(float(stage.settings["smallest"]) ** 2)
        counts, noise = stage.array[-len(cuts) - 1 :], float(np.sqrt(stage.noise_variances[-1]))
        largest = self._largest_size(stage, start, np.array(stage.settings["whiten"]))
        return Lengths.read(counts, cuts, noise, largest)

    def _largest_size(self, stage: StageRelease, start: Start, whiten: Array) -> float:
        """Return a squared length that no row exceeds."""
        largest = self.columns.longest(whiten.T @ start.transform, self.norm) / float(np.sqrt(self._ratio))
        return (largest if self.model.response is None else largest * self._extremes(stage, start)[1]) ** 2

    def _terms(self, settings: Mapping[str, Any], tables: Tables | None = None, *, last: bool) -> tuple[Term, ...]:
        """Terms of an iteration; what a Hessian weighs by is needed to ask for it, not to read it."""
        prices = self._last_prices if last else _FIRST
        radius, people = float(settings["radius"]), self.context.schema.rows_per_unit
        curves, power = self.curves(settings), 2 if self.norm == "l2" else 1
        cut = float(np.clip(float(settings["clip"]) / radius, 2.0**-18, _LONGEST_SCORE))
        per = people**power * self._ratio
        weight = constant(1.0) if tables is None or tables.weight is None else tables.weight
        weight, of = (curves.hessian, "residual") if curves else (weight, "linear")
        score = None if curves is None else curves.score
        found = [Term("score", "vector", prices["score"] / cut**power, score, cut=cut, weighed=not last)]
        if not self.once:
            found.append(Term("hessian", "matrix", prices["hessian"] / per, weight, of=of))
        if not last:
            return tuple(found)
        meat = float(np.clip(float(settings["meat_clip"]) / radius, 2.0**-18, cut))
        if self.model.kind == "binary":
            steep = None if tables is None else tables.weight
            times = 0 if self.columns.weight is None else 1
            mean = _over(steep, self.steepest)
            found.append(Term("slopes", "mass", prices["slopes"] / people**power, mean, of="linear", power=times))
        if self.groups:
            found.append(Term("meat", "vector", prices["meat"] / cut**power, score, cut=cut, groups=self.groups))
        elif self.robust:
            found.append(Term("meat", "outer", prices["meat"] / meat ** (2 * power), score, cut=meat))
        else:
            end = self._widest(settings)
            square = tabled(lambda one: (one / end) ** 2, -end, end, 1024)
            found.append(Term("square", "mass", prices["meat"] / people**power, square, power=0))
        return tuple(found)

    @read_once
    def _sums(self, stage: StageRelease, kind: str) -> dict[str, tuple[Array, float]]:
        """Read the terms of an iteration; see `split_terms`."""
        terms = self._terms(stage.settings, last=kind == "second")
        return split_terms(stage, terms, len(stage.settings["point"]))

    @property
    def steepest(self) -> float:
        """Largest weight of a Hessian of a binary response."""
        weight = self.model.tables(1.0, self.parameter, 1.0).weight
        assert weight is not None
        return float(weight.values.max())

    def slopes(self, stage: StageRelease) -> tuple[float, float] | None:
        """Return the sum of the Hessian's weights over all rows at the last point, and its noise, of a binary model."""
        if self.model.kind != "binary":
            return None
        value, noise = self._sums(stage, "second")["slopes"]
        return float(value[0]) * self.steepest, noise * self.steepest

    def iterations(self, stages: Mapping[str, StageRelease]) -> list[Iteration]:
        """Read all iterations; where the Hessian is the Gram matrix of the start, that is one, too."""
        found = [self.iteration(stages[kind], kind) for kind in ("first", "again", "second") if kind in stages]
        if not self.once:
            return found
        start, settings = self.begun(stages["start"]), stages["second"].settings
        unit, none, raised = np.eye(self.width), np.zeros(self.width), 1 + float(settings["lacks"])
        gram, noise, _ = start.gram
        known = Iteration(start.point, unit, none, raised * gram, 0.0, raised * noise, 0.0)
        even = Iteration(start.point, _whitening(start.second), none, 0.0 * gram, 0.0, 0.0, float(settings["missed"]))
        return [known, even, *found]

    def _widest(self, settings: Mapping[str, Any]) -> float:
        """Residual beyond which squares are cut, where errors are taken as equally spread."""
        return float(max(1.5 * float(settings["meat_clip"]) / np.sqrt(len(settings["point"])), 1e-6))

    @read_once
    def iteration(self, stage: StageRelease, kind: str) -> Iteration:
        """Read an iteration."""
        settings = stage.settings
        point, whiten = np.array(settings["point"]), np.array(settings["whiten"])
        terms = self._sums(stage, kind)
        radius = float(settings["radius"])
        curves = self.curves(settings) or _ONE
        back = np.linalg.inv(whiten).T
        scored = (terms["score"][0] * radius * curves.size, terms["score"][1] * radius * curves.size)
        if self.once:
            return Iteration(point, whiten, scored[0], np.zeros((len(point), len(point))), scored[1], 0.0, 0.0)
        unit = radius**2 * curves.factor * (1 + float(settings.get("lacks", 0.0)))
        flat = np.sqrt(2.0) if self.norm == "l1" else 1.0
        hessian = back @ terms["hessian"][0] @ back.T * unit
        noise = float(terms["hessian"][1]) * unit * flat
        return Iteration(point, whiten, scored[0], hessian, scored[1], noise, float(settings["missed"]))

    def products(self, stage: StageRelease) -> tuple[Array, float]:
        """Return the products of scores in coordinates z, or the sum of squared residuals; and their noise."""
        settings, terms = stage.settings, self._sums(stage, "second")
        if not self.robust:
            end = self._widest(settings)
            return terms["square"][0] * end**2, terms["square"][1] * end**2
        factor = float(settings["radius"]) ** 2 * (self.curves(settings) or _ONE).size ** 2
        values, noise = terms["meat"]
        if self.groups:
            values, noise = _between(values.reshape(self.groups, -1), noise, flat=self.norm == "l1")
        return values * factor, noise * factor

    def weighed(self, iterations: Sequence[Iteration]) -> tuple[float, ...]:
        """Weights of the Hessians: of both where they are of one matrix, else of the last, or of the only one."""
        if self.once:
            return 1.0, 1.0, 0.0
        if len(iterations) == 2 and not self.model.curved and not self.model.bounded:
            return _WEIGHED
        return (*(0.0 for _ in iterations[:-1]), 1.0)

    def hessian_floor(self, iterations: Sequence[Iteration]) -> float:
        """Least eigenvalue of a Hessian that is no noise, in the coordinates of the last iteration."""
        whiten = iterations[-1].whiten
        width = len(whiten)
        square = 0.0
        for weight, one in zip(self.weighed(iterations), iterations, strict=True):
            mapped = float(((whiten.T @ one.back) ** 2).sum()) / width
            square += (weight * one.hessian_noise * mapped) ** 2
        return float(LOST * np.sqrt(square * width))


def _between(scores: Array, noise: float, *, flat: bool) -> tuple[Array, float]:
    """Return products of the scores of groups (G, k), less their noise, times G/(G - 1); and their own noise.

    Scores are taken from their mean, for the point of an iteration is not the estimate: of all scores none is left
    there. Squares of noise vary by 2 noise^4, of Laplace noise by 5 noise^4; products with a score s by 4 s^2 noise^2.
    """
    groups, width = scores.shape
    away = scores - scores.mean(axis=0)
    small = groups / (groups - 1)
    found = (away.T @ away) * small - groups * noise**2 * np.eye(width)
    largest = max(float(np.linalg.eigvalsh(found)[-1]), 0.0)
    return found, small * float(np.sqrt((5 if flat else 2) * groups * noise**4 + 4 * largest * noise**2))


def _lacks(lengths: Any, longest: float, width: int) -> Any:
    """Return the part by which a Hessian is raised under Laplace noise, and by which it may still be off.

    Long rows add a positive matrix: from nothing to twice this part of it, of which the middle is taken. It falls as
    the second moment beyond a length of a tail of index 3 does, and is nothing where no row is so long.
    """
    most, least = _LACKS
    return np.where(np.asarray(lengths) < longest, most * least * width / np.asarray(lengths), 0.0)


def _over(table: Interpolant | None, largest: float) -> Interpolant:
    """Return a function over its largest value."""
    if table is None:
        return constant(1.0)
    return replace(table, values=table.values / largest, below=table.below / largest, above=table.above / largest)


class _One:
    size = factor = 1.0


_ONE = _One()


def _summed(rows: RoundSum, plan: Plan, settings: dict[str, Any]) -> Stage:
    weights = rows.usual_weights(plan.context.neighbors, plan.norm)
    return Stage(Sum(rows, weights=tuple(weights.tolist())), settings=settings)

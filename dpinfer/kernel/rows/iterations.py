"""Sums and counts of noisy Newton iterations: scores, Hessians and their kin, in a set that rows are forced into."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import frexp
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.checks import require
from dpinfer.errors import NotProvedError
from dpinfer.kernel.rows.base import CHUNK_ROWS, Array, Batch, Ints, Places
from dpinfer.kernel.rows.features import NORMS, Features, FeatureSum
from dpinfer.kernel.rows.products import upper_pattern
from dpinfer.privacy.sensitivity import Norm, norm_above
from dpinfer.schema.grid import GRID_BITS, UNIT, Cuts, upper_triangle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dpinfer.kernel.rows.base import Array, Batch, Ints, Places
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.privacy.units import Neighbors


# What a row is mapped to

LARGEST = 1e30
"""Numbers of a table are at most this: products of several of them are finite."""

MOST_STEPS = 2**16


@dataclass(frozen=True, eq=False)
class Interpolant:
    """A function that is linear between nodes, spaced evenly from ``low`` to ``high``, and constant outside of them.

    ``values`` (T + 1,) are those at the nodes; ``below`` and ``above`` may differ from the values at the ends, where
    the function then jumps. Rows meet no other functions: an exponential may differ in its last bit with the place of a
    number in memory, while every operation here is one of the IEEE standard on each number alone.
    """

    low: float
    high: float
    values: Array
    below: float
    above: float

    def check(self) -> None:
        """Refuse what is no table of finite numbers."""
        right = all(type(one) is float and abs(one) <= LARGEST for one in (self.low, self.high, self.below, self.above))
        right = right and self.high - self.low >= 1 / LARGEST
        right = right and type(self.values) is np.ndarray and self.values.dtype == np.float64
        right = right and self.values.ndim == 1 and 2 <= self.values.size <= MOST_STEPS + 1
        right = right and bool((np.abs(self.values) <= LARGEST).all())
        wanted = f"2 to {MOST_STEPS + 1:,} numbers of at most {LARGEST:g}, from a lower to a higher end"
        require(right, "table", type(self.values).__name__, wanted)

    @cached_property
    def _rises(self) -> Array:
        return np.append(np.diff(self.values), 0.0)

    def __call__(self, numbers: Array) -> Array:
        """Return the function of each number (m,)."""
        steps = self.values.size - 1
        place = np.fmin(np.fmax(numbers, self.low), self.high)
        place -= self.low
        place *= steps / (self.high - self.low)
        whole = np.floor(place)
        node = whole.astype(np.intp)
        place -= whole
        place *= self._rises.take(node, mode="clip")
        place += self.values.take(node, mode="clip")
        if self.below != self.values[0]:
            np.copyto(place, self.below, where=numbers < self.low)
        if self.above != self.values[-1]:
            np.copyto(place, self.above, where=numbers > self.high)
        return place


MOST_COORDINATES = 512

_ROW_SUM = 2**34
"""With features of at most 2^19 every partial sum of a map is a whole number of at most 2^53, exact in float64."""

_MOST_BITS = 64

_SMALL = 2**18
"""A linear algebra library that multiplies this many numbers does so in the thread that calls it.

Its own threads wait in a loop, and keep those that map other batches from their cores.
"""


@dataclass(frozen=True, eq=False, slots=True)
class Looked:
    """What a frame makes of m rows.

    ``z`` (q, m) are coordinates, of all the others there is one for each row (m,): ``linear`` is the linear predictor,
    ``difference`` the response less its mean, ``residual`` that over its standard deviation, ``lift`` what z is
    multiplied by in scores, ``size`` what the survey weight is divided by where it is above 1, and ``weight`` the
    result, 0 of a row that is dropped. ``mass`` is the survey weight alone, or 1, and 0 of a row that is dropped.
    ``labels`` (k, m) are numbers of a row that no weight depends on.
    """

    z: Array
    linear: Array
    difference: Array
    residual: Array
    lift: Array | None
    size: Array
    weight: Array
    mass: Array
    labels: Array


@dataclass(frozen=True, eq=False)
class RoundFrame:
    """Maps integer rows to coordinates z, the linear predictor and a weighted residual, by public numbers.

    ``maps`` (q + 2 + k, d) are whole numbers, row j in steps of ``2^-bits[j]``. Times the features of a row they give
    its q coordinates, its linear predictor, its response, if ``weighted`` its survey weight w, which is cut to [0, 1],
    and ``labels`` more numbers. ``mean``, ``inverse_sd`` and ``lift`` are functions of the linear predictor; left out
    they are 0, 1 and 1. The weight v of a row keeps ``v |u|^2 <= 1`` for ``u = lift z``: it is the smaller of w, or 1,
    and 1 over ``|u|^2``. With the norm "l1" it is the smallest of w, 1 over the absolute sum of u, and ``ratio`` over
    that of the upper triangle of u u'.
    """

    features: Features
    maps: Ints
    bits: tuple[int, ...]
    mean: Interpolant | None = None
    inverse_sd: Interpolant | None = None
    lift: Interpolant | None = None
    norm: Norm = "l2"
    ratio: float = 1.0
    weighted: bool = False
    labels: int = 0

    @property
    def size(self) -> int:
        """Number q of coordinates."""
        return len(self.maps) - 2 - self.weighted - self.labels

    def check(self) -> None:
        """Refuse maps whose products with a row would be rounded, and what is no frame."""
        features, maps, bits = self.features, self.maps, self.bits
        right = type(features) is Features and features.clip is None and not features.count_clamped
        require(right, "features", type(features).__name__, "Features without row_norm= and marks")
        features.check(within=True)
        require(type(self.weighted) is bool, "weighted", type(self.weighted).__name__, "True or False")
        right = type(self.labels) is int and 0 <= self.labels <= MOST_COORDINATES
        require(right, "labels", self.labels, f"a whole number to {MOST_COORDINATES}")
        right = type(maps) is np.ndarray and maps.dtype == np.int64 and maps.ndim == 2
        right = right and 1 <= self.size <= MOST_COORDINATES and maps.shape[1] == features.basis.width
        right = right and bool(((maps >= -_ROW_SUM) & (maps <= _ROW_SUM)).all())  # whose sizes then do not overflow
        right = right and bool((np.abs(maps).sum(axis=1) <= _ROW_SUM).all())
        wanted = f"rows of whole numbers whose sizes add up to at most {_ROW_SUM}"
        require(right, "maps", type(maps).__name__, wanted)
        right = type(bits) is tuple and len(bits) == len(maps)
        right = right and all(type(one) is int and 0 <= one <= _MOST_BITS for one in bits)
        require(right, "bits", type(bits).__name__, f"whole numbers to {_MOST_BITS}, one for each map")
        require(self.norm in NORMS, "norm", self.norm, NORMS)
        right = type(self.ratio) is float and 1 / LARGEST <= self.ratio <= LARGEST
        require(right, "ratio", self.ratio, "a positive number")
        for table in (self.mean, self.inverse_sd, self.lift):
            if table is not None:
                table.check()

    @cached_property
    def _exact(self) -> Array:
        """The maps (q + 2 + k, d) of integer features: whole numbers times powers of two."""
        steps = np.ldexp(1.0, -(np.array(self.bits) + GRID_BITS))
        exact: Array = self.maps.astype(np.float64) * steps[:, None]
        return exact

    @property
    def images(self) -> int:
        """How many columns `look` makes of a row."""
        return 1

    def owners(self, count: int, owned: Ints | None) -> Ints | None:  # noqa: ARG002
        """Return whose each column of `look` is, of ``count`` rows of which ``owned`` (m,) says whose they are."""
        return owned

    def once(self, looked: Looked) -> Looked:
        """Return what is looked at of rows, one column for each."""
        return looked

    def _mapped(self, rows: Array) -> Array:
        mapped = np.empty((len(self._exact), rows.shape[1]))
        for mine in _columns_at_once(self._exact.size, rows.shape[1]):
            # Whole steps, at most 2^53 of them, in whatever order they are added.
            mapped[:, mine] = np.dot(self._exact, rows[:, mine])
        return mapped

    def look(self, rows: Array) -> Looked:
        """Map integer rows (d, m); a function of each row alone, to the last bit."""
        mapped = self._mapped(rows)
        z, (linear, response), others = np.split(mapped, [self.size, self.size + 2])
        difference = response if self.mean is None else response - self.mean(linear)
        residual = difference if self.inverse_sd is None else difference * self.inverse_sd(linear)
        lift = None if self.lift is None else self.lift(linear)
        size = self._size(z, lift)
        mass = np.ones(len(size))
        if self.weighted:
            np.fmin(np.fmax(others[0], 0.0), 1.0, out=mass)
            size *= mass
        np.copyto(mass, 0.0, where=rows[0] == 0.0)
        weight = mass / np.maximum(size, 1.0)
        return Looked(z, linear, difference, residual, lift, size, weight, mass, others[self.weighted :])

    def _size(self, z: Array, lift: Array | None) -> Array:
        """Measure rows (m,), coordinate after coordinate: numbers that are not whole have one order of addition."""
        squared = _added(np.square, z)
        if self.norm == "l2":
            return squared if lift is None else squared * (lift * lift)
        absolute = _added(np.abs, z)
        products = (absolute * absolute + squared) * (0.5 / self.ratio)
        if lift is not None:
            absolute, products = absolute * lift, products * (lift * lift)
        largest: Array = np.maximum(absolute, products)
        return largest


def _added(function: Callable[[Array], Array], numbers: Array) -> Array:
    """Add up what a function gives of columns (k, m), coordinate after coordinate."""
    found = np.zeros(numbers.shape[1])
    for one in numbers:
        found += function(one)
    return found


def _columns_at_once(size: int, columns: int) -> Iterator[slice]:
    """Yield slices of columns, of which each is multiplied by a matrix of so many numbers."""
    step = max(_SMALL // size, 1)
    for start in range(0, columns, step):
        yield slice(start, start + step)


_LEAST_CHANCE = 1e-16

MOST_LEVELS = 64


@dataclass(frozen=True, eq=False)
class ChoiceFrame(RoundFrame):
    """Maps integer rows to score and Hessian of a response of several levels, by J ``predictors`` that are linear.

    ``maps`` (J q + J + 1, d) give the q coordinates that each predictor has, one predictor after the other; then the J
    linear predictors eta; then the level of the response, 0 to J. Without ``density`` levels are choices: level k has a
    chance in proportion to ``mean(eta_k)``, the exponential of numbers up to 0, and of level 0 eta is 0. With it they
    are in order: P(level < j) is ``mean(eta_j)``, and ``density`` and ``steepness`` are its derivatives. With g and -H
    the derivatives of the log chance by the predictors, a row has the score sum_j g_j z_j and the Hessian
    sum_ij H_ij z_i z_j', a sum of squares r r' of J + 1 vectors, or of two where levels are in order.

    `look` makes one column of the score, of residual 1, and one of each r, of linear predictor 1; the others are 0.
    Rows have the weight 1 over the Frobenius norm of their Hessian, if that is above 1; with the norm "l1" over what
    bounds its upper triangle, by ``ratio``.
    """

    predictors: int = 1
    density: Interpolant | None = None
    steepness: Interpolant | None = None

    @property
    def size(self) -> int:
        """Number q of coordinates."""
        return (len(self.maps) - 1) // self.predictors - 1

    @property
    def images(self) -> int:
        """How many columns `look` makes of a row."""
        return self.predictors + 2 if self.density is None else 3

    def check(self) -> None:
        """Refuse what is no frame; see `RoundFrame.check`."""
        right = type(self.predictors) is int and 1 <= self.predictors < MOST_LEVELS
        require(right, "predictors", self.predictors, f"a whole number below {MOST_LEVELS}")
        super().check()
        right = len(self.maps) == self.predictors * (self.size + 1) + 1 and not self.weighted and not self.labels
        right = right and self.mean is not None and self.inverse_sd is None and self.lift is None
        require(right, "maps", len(self.maps), "coordinates and a predictor for each level but one, and the level")
        right = (self.density is None) == (self.steepness is None)
        require(right, "steepness", type(self.steepness).__name__, "a table where density has one")
        for table in (self.density, self.steepness):
            if table is not None:
                table.check()

    def owners(self, count: int, owned: Ints | None) -> Ints:
        """Return whose each column of `look` is: of each row there are several."""
        return np.tile(np.arange(count) if owned is None else owned, self.images)

    def once(self, looked: Looked) -> Looked:
        """Return the columns of scores."""
        of = slice(len(looked.size) // self.images)
        mine = looked.linear[of], looked.difference[of], looked.residual[of]
        return Looked(
            looked.z[:, of], *mine, None, looked.size[of], looked.weight[of], looked.mass[of], looked.labels[:, of]
        )

    def look(self, rows: Array) -> Looked:
        """Map integer rows (d, m); a function of each row alone, to the last bit."""
        mapped, count = self._mapped(rows), rows.shape[1]
        along = mapped[: self.predictors * self.size].reshape(self.predictors, self.size, count)
        eta, level = mapped[len(mapped) - self.predictors - 1 : -1], np.rint(mapped[-1])
        images = self._choices(along, eta, level) if self.density is None else self._in_order(along, eta, level)
        size = self._hessian_size(images[1:])
        mass = np.where(rows[0] == 0.0, 0.0, 1.0)
        of_score = np.repeat([1.0, 0.0], [count, count * (self.images - 1)])
        size, mass, weight = (np.tile(one, self.images) for one in (size, mass, mass / np.maximum(size, 1.0)))
        z = np.concatenate(images, axis=1)
        return Looked(z, 1.0 - of_score, of_score, of_score, None, size, weight, mass, np.zeros((0, z.shape[1])))

    def _choices(self, along: Array, eta: Array, level: Array) -> list[Array]:
        """Return score and roots (q, m) of choices: e_k - p for the level k, and for each by the root of p_k."""
        assert self.mean is not None
        top = np.zeros(len(level))
        for one in eta:
            np.maximum(top, one, out=top)
        chances = [self.mean(-top), *(self.mean(one - top) for one in eta)]
        total = chances[0].copy()
        for one in chances[1:]:
            total += one
        middle = np.zeros(along.shape[1:])
        for one, chance in zip(along, chances[1:], strict=True):
            middle += one * (chance / total)
        found = [np.zeros(along.shape[1:])]
        for place, chance in enumerate(chances):
            apart = along[place - 1] - middle if place else -middle
            found[0] += apart * (level == place)
            found.append(apart * np.sqrt(chance / total))
        return found

    def _in_order(self, along: Array, eta: Array, level: Array) -> list[Array]:
        """Return score and roots (q, m) of levels in order, with the predictors above and below that of the row."""
        assert self.mean is not None
        assert self.density is not None
        assert self.steepness is not None
        upper, lower = np.full(len(level), LARGEST), np.full(len(level), -LARGEST)
        above, below = np.zeros(along.shape[1:]), np.zeros(along.shape[1:])
        for place, (one, linear) in enumerate(zip(along, eta, strict=True)):
            cut = np.fmin(np.fmax(linear, self.mean.low), self.mean.high)
            np.copyto(upper, cut, where=level == place)
            np.copyto(lower, cut, where=level == place + 1)
            above += one * (level == place)
            below += one * (level == place + 1)
        turned = upper + lower > 0.0  # the tail that keeps digits
        chance = self.mean(np.where(turned, -lower, upper)) - self.mean(np.where(turned, -upper, lower))
        chance = np.maximum(chance, _LEAST_CHANCE)
        up, down = self.density(upper) / chance, -self.density(lower) / chance
        first = np.sqrt(np.maximum(up * up - self.steepness(upper) / chance, 0.0))
        both = up * down / np.maximum(first, _LEAST_CHANCE)
        last = np.maximum(down * down + self.steepness(lower) / chance - both * both, 0.0)
        return [above * up + below * down, above * first + below * both, below * np.sqrt(last)]

    def _hessian_size(self, roots: list[Array]) -> Array:
        """Measure the Hessians (m,) of which these (q, m) are roots, coordinate after coordinate."""
        found = np.zeros(roots[0].shape[1])
        if self.norm == "l1":
            for one in roots:
                absolute = _added(np.abs, one)
                found += (absolute * absolute + _added(np.square, one)) * (0.5 / self.ratio)
            return found
        for place, one in enumerate(roots):
            for other in roots[: place + 1]:
                inner = np.zeros(len(found))
                for mine, theirs in zip(one, other, strict=True):
                    inner += mine * theirs
                found += inner * inner * (1.0 if other is one else 2.0)
        return np.sqrt(found)


_EFFECT_LABELS = 6
_WIDEST = 2.0
"""Residuals and differences between arms, of an outcome in [-1, 1], are clipped to this."""


@dataclass(frozen=True, eq=False)
class EffectFrame(RoundFrame):
    """Maps integer rows to what they add to a doubly robust effect of a treatment.

    ``maps`` (q + 8, d) give q coordinates, the linear predictor eta of the propensity, the outcome y in [-1, 1], the
    arm s (1 if treated, -1 if not), the outcome's regressions m1 and m0, and the corrections a1, a0 and g for the
    errors of the nuisances. ``mean`` is the propensity of eta. ``inverse_sd`` is exp(-t), constant beyond the ends of
    its table, which are where eta is trimmed. With r = y - m of the row's own arm and w = 1 + exp(-s eta), a row has
    the influence value

        m1 - m0 + (s w + a) r + g (D - mean(eta)),

    m1 - m0 and r clipped to 2, the weight of r to ``cap``, and g to 1.

    `look` returns this as the residual, ``D - mean(eta)`` as the difference, and six labels: the derivative by eta of
    s w r, 1 - D w and -(1 - (1 - D) w), then r, s w + a and m1 - m0.
    """

    cap: float = 1.0

    def check(self) -> None:
        """Refuse what is no frame; see `RoundFrame.check`."""
        super().check()
        right = self.labels == _EFFECT_LABELS and not self.weighted and self.lift is None
        right = right and self.mean is not None and self.inverse_sd is not None
        require(right, "labels", self.labels, f"{_EFFECT_LABELS}, and tables of the mean and of exp(-t)")
        right = type(self.cap) is float and 1.0 <= self.cap <= LARGEST
        require(right, "cap", self.cap, "a number of at least 1")

    def look(self, rows: Array) -> Looked:
        """Map integer rows (d, m); a function of each row alone, to the last bit."""
        assert self.mean is not None
        assert self.inverse_sd is not None
        mapped = self._mapped(rows)
        z, (eta, outcome), (arm, first, second, one, other, slope) = np.split(mapped, [self.size, self.size + 2])
        treated = arm > 0.0
        sign = np.where(treated, 1.0, -1.0)
        left = np.clip(outcome - np.where(treated, first, second), -_WIDEST, _WIDEST)
        odds, away = self.inverse_sd(sign * eta), treated - self.mean(eta)
        weight = np.clip(sign * (1.0 + odds) + np.where(treated, one, other), -self.cap, self.cap)
        apart = np.clip(first - second, -_WIDEST, _WIDEST)
        value = apart + weight * left + np.clip(slope, -1.0, 1.0) * away
        kept = (eta >= self.inverse_sd.low) & (eta <= self.inverse_sd.high)
        derivatives = (
            np.where(kept, -left * odds, 0.0),
            1.0 - np.where(treated, 1.0 + odds, 0.0),
            np.where(treated, 0.0, 1.0 + odds) - 1.0,
        )
        size = self._size(z, None)
        mass = np.where(rows[0] == 0.0, 0.0, 1.0)
        labels = np.stack([*derivatives, left, weight, apart])
        return Looked(z, eta, away, value, None, size, mass / np.maximum(size, 1.0), mass, labels)


# Sums

SLACK = Fraction(1, 2**12)
"""What a row may pay above 1: more than rounding to the grid adds to the price of one that pays 1."""

_KEPT = float((1 + SLACK) * (1 - Fraction(1, 2**40)))
"""What a row that is kept may pay in floating point, whose errors are below 2^-42 of it: S then holds exactly."""

_KINDS = ("vector", "matrix", "outer", "number", "mass")
_SQUARED = ("matrix", "outer")
_CUT = ("vector", "outer")
_OF = ("residual", "difference", "linear", "label")

_MOST_TERMS = 64
_MOST_SUMS = 2**20

BLOCK = 2**19
"""Numbers of the rows that are mapped at once, about: with fewer, threads wait for the interpreter more than they work;
with more, what is made of them fills the memory."""

MOST_GROUPS = 2**12

_FARTHEST = 2.0**37
"""Steps of a coordinate of a row's vector that is cut, at most: those of a person are added up exactly."""

_LONGEST = 2**15
"""So many sizes of rows, of at most 2^38 in each coordinate, add up to at most 2^53."""


@dataclass(frozen=True, eq=False)
class Term:
    """One of the quantities that a round adds up, and the price c of its size in the set that rows are forced into.

    ``u`` below is ``curve`` of the residual, of the difference, of the linear predictor or of the label at ``place``,
    as ``of`` says; without a curve it is that number itself. With v the weight of a row, it adds

    - "vector": ``v lift (u - center) z``, with ``center`` a function of the linear predictor, or 0;
    - "matrix": ``v u z z'``, with negative u cut to 0;
    - "outer": the products of a vector with itself;
    - "number": ``w^power u``, w the survey weight alone; "mass": the same, with negative u cut to 0.

    With a ``cut`` a vector, and an outer product, is about the unit: what all rows of a unit add to the vector
    ``w (u - center) z``, of which only the survey weight w is taken, is shortened to this length in the norm of the
    frame. Then lengths of rows need no bound of their own; ``weighed``, rows have their weights v nevertheless.

    A vector with ``groups`` is added up in each of so many groups: the label at ``place``, rounded, is that of a row.
    """

    name: str
    kind: str
    price: float
    curve: Interpolant | None = None
    of: str = "residual"
    center: Interpolant | None = None
    power: int = 1
    place: int = 0
    cut: float | None = None
    weighed: bool = False
    groups: int = 0

    @property
    def parted(self) -> int:
        """In how many groups it is added up."""
        return max(self.groups, 1)

    def check(self, frame: RoundFrame) -> None:
        """Refuse a term that is none."""
        named = type(self.name) is str and bool(self.name)
        require(named, "name", type(self.name).__name__, "the name of what is summed")
        require(self.kind in _KINDS, "kind", self.kind, _KINDS)
        require(self.of in _OF, "of", self.of, _OF)
        right = type(self.price) is float and 1 / LARGEST <= self.price <= LARGEST
        require(right, "price", self.price, f"a positive number of at most {LARGEST:g}")
        require(type(self.power) is int and 0 <= self.power <= 2, "power", self.power, "0, 1 or 2")
        right = type(self.place) is int and 0 <= self.place < MOST_COORDINATES
        require(right, "place", self.place, f"a whole number below {MOST_COORDINATES}")
        right = (
            type(self.groups) is int and 0 <= self.groups <= MOST_GROUPS and (self.kind == "vector" or not self.groups)
        )
        require(right, "groups", self.groups, f"up to {MOST_GROUPS:,} groups, of a vector")
        one_row = frame.features.schema.rows_per_unit == 1 or not self.groups
        require(one_row, "groups", self.groups, "0 where people have several rows, which may be in several groups")
        require(not self.groups or self.of != "label", "of", self.of, "no label where the label is the group's")
        right = (self.of != "label" and not self.groups) or self.place < frame.labels
        require(right, "place", self.place, f"a place among {frame.labels} labels")
        if self.cut is not None:
            require(self.kind in _CUT, "cut", self.kind, "None: only vectors are shortened")
            right = type(self.cut) is float and 1 / UNIT <= self.cut <= _LONGEST
            require(right, "cut", self.cut, f"a length of at most {_LONGEST:,}, or None")
        right = type(self.weighed) is bool and not (self.weighed and self.cut is None)
        require(right, "weighed", self.weighed, "True or False, and False without a cut")
        right = self.kind in _CUT or self.center is None
        require(right, "center", self.kind, "None: it is taken from vectors")
        for table in (self.curve, self.center):
            if table is not None:
                table.check()


@dataclass(frozen=True, eq=False)
class _FrameSum(FeatureSum):
    """What is added up of the rows that a frame maps: terms, or bins, each of which is a part of its own."""

    frame: RoundFrame

    if TYPE_CHECKING:

        @property
        def _listed(self) -> tuple[Term, ...] | tuple[Bins, ...]:
            """The terms, or the bins."""

        @property
        def _sizes(self) -> list[int]:
            """How many sums each of them has."""

        @property
        def _whole_units(self) -> bool:
            """Whether rows of a person are added up before anything else is done with them."""

    @property
    def features(self) -> Features:
        """What rows are mapped to first."""
        return self.frame.features

    @property
    def parts(self) -> tuple[str, ...]:
        """Each term, or place that is binned, is a part."""
        return tuple(one.name for one in self._listed)

    @property
    def part_of(self) -> Places:
        """Which part each sum belongs to (m,)."""
        return np.repeat(np.arange(len(self._listed)), self._sizes)

    def _check_listed(self, name: str, kind: type, most: int, wanted: str) -> None:
        """Refuse a frame that is none, and terms or bins that are none, or too many."""
        right = type(self.frame) in (RoundFrame, ChoiceFrame, EffectFrame)
        require(right, "frame", type(self.frame).__name__, "a RoundFrame, a ChoiceFrame or an EffectFrame")
        self.frame.check()
        listed: Any = self._listed
        right = type(listed) is tuple and 1 <= len(listed) <= most and all(type(one) is kind for one in listed)
        require(right, name, type(listed).__name__, wanted)
        for one in listed:
            one.check(self.frame)
        names = [one.name for one in listed]
        require(len({*names}) == len(names), name, names, "different names")
        require(sum(self._sizes) <= _MOST_SUMS, name, f"{sum(self._sizes):,} sums", f"at most {_MOST_SUMS:,}")
        if self.schema.rows_per_unit > self.batch_rows:
            raise NotProvedError(f"these sums are proved for people of at most {self.batch_rows:,} rows")

    @property
    def batch_rows(self) -> int:
        """Most rows of a batch: so many that the products of all their columns are exact in float64."""
        return CHUNK_ROWS // self.frame.images

    def add(self, batch: Batch) -> Ints:
        """Sum what units add (sets, entries); see `RowSum.add`."""
        rows, _ = self.features.encode(batch.cells, persons=batch.persons)
        people = self._whole_units and self.schema.rows_per_unit > 1
        each, found = batch.size // batch.sets, np.zeros((batch.sets, self.entries), dtype=np.int64)
        most = batch.size if people else min(max(BLOCK // self.features.basis.width, 1), self.batch_rows)
        for place in range(batch.sets):
            for start in range(place * each, (place + 1) * each, most):
                mine = slice(start, min(start + most, (place + 1) * each))
                found[place] += self.summed(rows[:, mine], _owners(batch, mine) if people else None)
        return found

    @abstractmethod
    def summed(self, rows: Array, owned: Ints | None) -> Ints:
        """Sum what integer features (d, m) add (entries,); ``owned`` (m,) says whose rows these are."""


@dataclass(frozen=True, eq=False)
class RoundSum(_FrameSum):
    """Sums of what each row adds to one round: vectors, matrices and numbers, of which the sizes pay prices.

    A row whose sizes pay more than 1, and a slack, for all terms together adds nothing. The prices, tables and maps are
    public and may be any: of the right ones no row pays more, see `docs/kernel.md`. Where a term has a ``cut``, a
    person pays for what all their rows add up to.
    """

    terms: tuple[Term, ...]

    @property
    def _listed(self) -> tuple[Term, ...]:
        return self.terms

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each sum is."""
        rows, columns = self._upper
        labels: list[str] = []
        for term in self.terms:
            if term.kind in _SQUARED:
                labels += [f"{term.name} {i + 1} * {j + 1}" for i, j in zip(rows, columns, strict=True)]
            elif term.groups:
                labels += [f"{term.name} {i + 1} | group {g + 1}" for g in range(term.groups)
                           for i in range(self.frame.size)]  # fmt: skip
            else:
                labels += [f"{term.name} {i + 1}" for i in range(self._width(term))]
        return tuple(labels)

    @property
    def units(self) -> Array:
        """The number 1 in each integer sum (m,)."""
        return np.repeat([self._unit(place) ** (2 if one.kind in _SQUARED else 1)
                          for place, one in enumerate(self.terms)], self._sizes)  # fmt: skip

    def check(self) -> None:
        """Refuse a frame or terms that are none, and more sums than can be held."""
        self._check_listed("terms", Term, _MOST_TERMS, f"1 to {_MOST_TERMS} terms")
        if self._whole_units and self.schema.rows_per_unit * self.frame.size > _LONGEST:
            size, rows = self.frame.size, _LONGEST // self.frame.size
            raise NotProvedError(
                f"the privacy proof for people covers at most {_LONGEST:,} rows times coefficients, and here a person "
                f"may have {self.schema.rows_per_unit:,} rows, with {size:,} coefficients: keep at most {rows:,} rows "
                "of a person (max_rows), or fit fewer terms or outcomes"
            )

    # Bounds

    @property
    def priced_by(self) -> tuple[Any, ...]:
        """Size and norm of the frame, and of each term what names, units, sizes and bounds are made of."""
        terms = ((one.name, one.kind, one.price, one.cut, one.groups) for one in self.terms)
        return self.frame.size, self.frame.norm, *terms

    def pattern(self, norm: Norm) -> Array:
        """Noise is in proportion to the number 1; off the diagonal less under Gaussian noise, as in `GramSum`."""
        within = upper_pattern(self.frame.size, norm)
        each = [within if one.kind in _SQUARED else np.ones(self._width(one)) for one in self.terms]
        return np.concatenate(each) * self.units

    def usual_weights(self, neighbors: Neighbors, norm: Norm) -> Array:
        """Weights at which every term pays for the whole bound: none of them can have less noise at another's cost."""
        found = [_factor(one, neighbors, norm) / one.price for one in self.terms]
        return np.sqrt(found) if norm == "l2" else np.array(found)

    def change(self, weights: Array, neighbors: Neighbors, norm: Norm) -> Fraction:
        """Bound on the change of all sums, each over its noise, for rows in the set: see `docs/kernel.md`.

        Rows of a person count one by one, unless people are in the set as a whole. Noise of another norm than the set's
        is not proved.
        """
        if norm != self.frame.norm:
            raise NotProvedError(f"rows are in a set of norm {self.frame.norm}: {norm} noise is not proved")
        rows = 1 if self._whole_units else self.schema.rows_per_unit
        power = 2 if norm == "l2" else 1
        shares = [
            _factor(term, neighbors, norm) / (Fraction(term.price) * Fraction(weight) ** power)
            for term, weight in zip(self.terms, weights.tolist(), strict=True)
        ]
        return rows * norm_above((1 + SLACK) * max(shares), norm)

    @property
    def _upper(self) -> tuple[Places, Places]:
        return upper_triangle(self.frame.size)

    @cached_property
    def _sizes(self) -> list[int]:
        """How many sums each term has."""
        size = self.frame.size
        return [size * (size + 1) // 2 if one.kind in _SQUARED else self._width(one) for one in self.terms]

    def _width(self, term: Term) -> int:
        """How many sums a term has that are no products."""
        return 1 if term.kind in ("number", "mass") else self.frame.size * term.parted

    def _unit(self, place: int) -> float:
        """Return the number 1 in the whole numbers of a term: a power of two, at which a cut is below 2^19."""
        cut = self.terms[place].cut
        return float(UNIT) if cut is None else float(np.ldexp(1.0, GRID_BITS - frexp(cut)[1]))

    @property
    def _whole_units(self) -> bool:
        """Whether it is the unit as a whole that is forced into the set, not each of its rows."""
        return any(term.cut is not None for term in self.terms)

    # Integers

    def summed(self, rows: Array, owned: Ints | None = None) -> Ints:
        """Sum the whole numbers of each term over units, or their products: exact in any order.

        Whole numbers are at most 2^19, so that sums of products of 2^15 columns are exact in float64.
        """
        sums: list[Array] = []
        looked = self.frame.look(rows)
        for whole, term in zip(self.integers(rows, owned, looked), self.terms, strict=True):
            if term.groups:
                group = np.rint(np.fmin(np.fmax(looked.labels[term.place], 0.0), term.groups - 1.0)).astype(np.intp)
                parted = [np.bincount(group, one, term.groups) for one in whole]
                sums.append(np.stack(parted, axis=1, dtype=np.float64).ravel())
                continue
            if term.kind not in _SQUARED:
                sums.append(whole.sum(axis=1))
                continue
            products = np.zeros((len(whole), len(whole)))
            for some in _columns_at_once(products.size, whole.shape[1]):
                part = np.ascontiguousarray(whole[:, some])  # of which the library makes half of the products
                products += np.dot(part, part.T)  # unlike the operator @, it lets other threads run meanwhile
            sums.append(products[self._upper])
        return np.concatenate(sums).astype(np.int64)

    def integers(self, rows: Array, owned: Ints | None = None, looked: Looked | None = None) -> list[Array]:
        """Map integer features (d, m) to the whole numbers of each term (k, m), forced into the set.

        A matrix has the vector q of its sum of q q'. Whatever does not fit becomes zero, for all terms of a unit. Where
        ``owned`` (m,) says whose each row is, from 0, units are people, and terms with a cut have one vector for each.
        """
        looked, norm = looked or self.frame.look(rows), self.frame.norm
        units, owned = owned, self.frame.owners(rows.shape[1], owned)
        found: list[Array] = []
        paid = np.zeros(rows.shape[1] if owned is None else int(owned.max(initial=-1)) + 1)
        for place, term in enumerate(self.terms):
            if term.cut is None:
                whole, mine = _whole_numbers(term, looked), owned
            else:
                unit, mine = self._unit(place), None
                steps = _steps(term, looked, unit, owned)
                steps *= np.minimum(term.cut * unit / np.maximum(_lengths(steps, norm), 1.0), 1.0)
                whole = _rounded(steps)
            found.append(whole)
            if term.kind == "matrix" and self.frame.images > 1 and norm == "l2":
                paid += term.price * _joint_size(whole, self.frame.images, units)
            else:
                paid += term.price * _size(term, whole, norm, self._unit(place), mine)
        dropped = ~(paid <= _KEPT)
        for one, term in zip(found, self.terms, strict=True):
            np.copyto(one, 0.0, where=dropped if owned is None or term.cut is not None else dropped[owned])
        return found


def _factor(term: Term, neighbors: Neighbors, norm: Norm) -> int:
    """Return by how much a pair of rows may be farther apart than one row is from nothing, squared for Euclidean norms.

    Matrices and masses of two rows have no negative inner product.
    """
    if neighbors == "add_remove":
        return 1
    return 4 if norm == "l2" and term.kind in ("vector", "number") else 2


def _amounts(term: Term, looked: Looked) -> Array:
    """Return u - center (m,) of rows."""
    number: Array = looked.labels[term.place] if term.of == "label" else getattr(looked, term.of)
    amount = number.copy() if term.curve is None else term.curve(number)
    if term.center is not None:
        amount -= term.center(looked.linear)
    return amount


def _steps(term: Term, looked: Looked, unit: float, owned: Ints | None) -> Array:
    """Return what units add to a vector before it is cut (k, n), in whole steps, of which sums are exact.

    Of a row it is a function of that row alone, to the last bit; of a person the sum of what their rows add.
    """
    amount = _amounts(term, looked)
    weight = looked.weight if term.weighed else looked.mass
    np.copyto(amount, 0.0, where=weight == 0.0)
    amount *= weight
    steps = _rounded(looked.z * (amount * unit), _FARTHEST)
    return steps if owned is None else _by_person(steps, owned)


def _whole_numbers(term: Term, looked: Looked) -> Array:
    """Return the whole numbers (k, m) of a term without a cut, in [-UNIT, UNIT]."""
    amount = _amounts(term, looked)
    if term.kind in ("matrix", "mass"):
        np.maximum(amount, 0.0, out=amount)
    if term.kind in ("number", "mass"):
        for _ in range(term.power):
            amount *= looked.mass
        np.copyto(amount, 0.0, where=looked.weight == 0.0)
        return _rounded(amount[None] * UNIT)
    if term.kind == "matrix":
        amount *= looked.weight
        return _rounded(looked.z * (np.sqrt(amount) * UNIT))
    amount *= looked.weight * UNIT
    return _rounded(looked.z * (amount if looked.lift is None else amount * looked.lift))


def _rounded(exact: Array, most: float = UNIT) -> Array:
    """Round to whole numbers in [-most, most], in place; NaN stays, at a size that nobody can pay."""
    np.clip(exact, -most, most, out=exact)
    return np.rint(exact, out=exact)


def _size(term: Term, whole: Array, norm: Norm, unit: float, owned: Ints | None) -> Array:
    """Return the size (n,) that a term's price is for, in units of 1.

    Of people whose rows are given it is the size of what these add up to; of a sum of products, what theirs add up to.
    """
    people = owned if term.kind in _SQUARED else None
    if owned is None or people is not None:
        squared: Array = np.einsum("km,km->m", whole, whole)  # at most 2^38 in each coordinate: exact in any order
    else:
        whole = _by_person(whole, owned)
        squared = _added(np.square, whole)
    squared /= unit**2
    if norm == "l1":
        absolute: Array = np.abs(whole).sum(axis=0) / unit
        size = (absolute * absolute + squared) / 2 if term.kind in _SQUARED else absolute
        return size if people is None else _of_people(size, people)
    if people is not None:
        squared = _of_people(squared, people)
    return squared * squared if term.kind in _SQUARED else squared


def _joint_size(whole: Array, images: int, owned: Ints | None) -> Array:
    """Return the squared size (n,) of matrices of which each row has several roots (k, images m).

    Of a person it is that of the sum of the rows' sizes, which that of the sum of their matrices does not exceed. Sizes
    of rows are rounded up to whole numbers of the products, by more than what floating point makes of them.
    """
    roots = whole.reshape(len(whole), images, -1)
    inner = np.einsum("kam,kbm->abm", roots, roots)  # whole numbers of at most 2^53: exact in any order
    size = np.sqrt(_added(np.square, inner.reshape(-1, inner.shape[2]))) * (1 + 2.0**-40)
    size = np.ceil(size, out=size) / float(UNIT) ** 2
    if owned is not None:
        size = _of_people(size, owned)
    return size * size


def _of_people(size: Array, owned: Ints) -> Array:
    """Add up sizes (m,), whole numbers of products, for each person (n,): exact in any order below 2^53 of them.

    From there on they are infinite: no sum that reaches so far comes back below it.
    """
    found = np.bincount(owned, size)
    return np.where(found < _LONGEST, found, np.inf)


def _lengths(whole: Array, norm: Norm) -> Array:
    """Return the length (m,) of each column (k, m)."""
    return np.sqrt(_added(np.square, whole)) if norm == "l2" else _added(np.abs, whole)


def _by_person(whole: Array, owned: Ints) -> Array:
    """Sum the whole numbers of rows (k, m) over each person's (k, n), exactly."""
    return np.stack([np.bincount(owned, one) for one in whole])


def _owners(batch: Batch, mine: slice) -> Ints:
    """Return whose each of some rows is (m,), 0, 1, ...: all rows of a person are there, or each is another's."""
    if batch.persons is None:
        return np.arange(mine.stop - mine.start)
    found: Ints = np.unique(batch.persons[mine], return_inverse=True)[1]
    return found


_BINNED = ("size", "residual", "difference", "linear", "coordinate", "label", "person")

_MOST_PLACES = 512
_MOST_BINS = 2**14

_STEPS = 2.0**12
"""Parts of 1 in which lengths of people's vectors are measured."""


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of one number of a row: between ``cuts`` (B - 1,), and below and above all of them.

    With several ``levels`` neighbouring bins are also counted by pairs, by fours and so on; then B is divisible by the
    largest of these. With ``halved`` only the first half of each group is counted within it, for the level above tells
    the other. ``place`` says which, if it is a coordinate or a label that is binned. Of a "person" it is the length, in
    the norm of the frame, of what all their rows add to a vector that is cut, the ``term``, before it is cut.
    """

    name: str
    of: str
    cuts: Array
    levels: int = 1
    place: int = 0
    term: Term | None = None
    halved: bool = False

    @property
    def size(self) -> int:
        """Number B of bins."""
        return len(self.cuts) + 1

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """How many bins are counted together on each level, from the coarsest to single bins."""
        return tuple(2**level for level in reversed(range(self.levels)))

    @cached_property
    def groups(self) -> tuple[range, ...]:
        """First bins of the groups that are counted, for each of these widths."""
        every = [range(0, self.size, width) for width in self.widths]
        return (every[0], *(one[::2] if self.halved else one for one in every[1:]))

    def check(self, frame: RoundFrame) -> None:
        """Refuse what are no bins."""
        named = type(self.name) is str and bool(self.name)
        require(named, "name", type(self.name).__name__, "the name of what is binned")
        require(self.of in _BINNED, "of", self.of, _BINNED)
        right = type(self.cuts) is np.ndarray and self.cuts.dtype == np.float64 and self.cuts.ndim == 1
        right = right and self.cuts.size < _MOST_BINS and bool((self.cuts[1:] > self.cuts[:-1]).all())
        right = right and all(abs(end) <= LARGEST for end in (*self.cuts[:1], *self.cuts[-1:]))
        require(right, "cuts", type(self.cuts).__name__, f"up to {_MOST_BINS - 1:,} increasing numbers")
        right = type(self.levels) is int and 1 <= self.levels <= _MOST_BINS.bit_length()
        right = right and not self.size % 2 ** (self.levels - 1)
        require(right, "levels", self.levels, f"levels of which each halves {self.size:,} bins")
        require(type(self.halved) is bool, "halved", self.halved, "True or False")
        places = frame.labels if self.of == "label" else frame.size
        right = type(self.place) is int and 0 <= self.place < places
        require(right, "place", self.place, f"a whole number below {places}")
        if self.term is not None:
            require(type(self.term) is Term, "term", type(self.term).__name__, "a Term")
            self.term.check(frame)
        right = (self.of == "person") == (self.term is not None and self.term.cut is not None)
        require(right, "term", self.of, "a vector that is cut for people, and None for anything else")

    def counts(self, looked: Looked, owned: Ints | None, norm: Norm) -> Ints:
        """Count the rows (m,), or the people of whom ``owned`` (m,) says which each row is of, in each bin (B,).

        Without ``owned`` each row is another person's.
        """
        kept = looked.weight > 0
        if self.term is not None:
            number = _lengths(_steps(self.term, looked, _STEPS, owned), norm) / _STEPS
            kept = kept if owned is None else np.bincount(owned, kept) > 0
        elif self.of in ("coordinate", "label"):
            number = (looked.z if self.of == "coordinate" else looked.labels)[self.place]
        else:
            number = getattr(looked, self.of)
        found = self.between.at_or_below(number)
        np.copyto(found, self.size, where=~kept)
        return np.bincount(found, minlength=self.size + 1)[:-1].astype(np.int64)

    @cached_property
    def between(self) -> Cuts:
        """The cuts, as what finds the bin of a number."""
        return Cuts(self.cuts)


@lru_cache(maxsize=256)
def _count_names(place: str, width: int, starts: range) -> tuple[str, ...]:
    return tuple(f"{place}: {f'{width} bins from' if width > 1 else 'bin'} {start + 1}" for start in starts)


@dataclass(frozen=True, eq=False)
class RoundCounts(_FrameSum):
    """Counts rows in one bin of each place, and in the groups of bins that it belongs to, one on each level.

    Rows that are dropped are in none, and a group may be left out.
    """

    places: tuple[Bins, ...]

    @property
    def _listed(self) -> tuple[Bins, ...]:
        return self.places

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each count is: place by place, from the coarsest level to the bins."""
        return tuple(
            name
            for one in self.places
            for width, starts in zip(one.widths, one.groups, strict=True)
            for name in _count_names(one.name, width, starts)
        )

    def check(self) -> None:
        """Refuse a frame or bins that are none, and more counts than can be held."""
        self._check_listed("places", Bins, _MOST_PLACES, f"bins of 1 to {_MOST_PLACES} numbers")

    # Bounds

    @property
    def priced_by(self) -> tuple[Any, ...]:
        """Of each place what names, their number and bounds are made of."""
        return tuple((one.name, one.of, one.size, one.levels, one.halved) for one in self.places)

    def part_changes(self, neighbors: Neighbors, norm: Norm) -> tuple[Fraction, ...]:
        """Bound on the change of each place: a row is in one count of each level, and a replaced row in two or none.

        Rows of a person count one by one, unless it is the person who is in a bin.
        """
        moved = [one.levels * (1 if neighbors == "add_remove" else 2) for one in self.places]
        each = self.schema.rows_per_unit
        rows = [1 if one.of == "person" else each for one in self.places]
        bounds = {one: norm_above(one, norm) for one in {*moved}}
        return tuple(many * bounds[one] for many, one in zip(rows, moved, strict=True))

    @cached_property
    def _sizes(self) -> list[int]:
        """How many counts each place has."""
        return [sum(len(starts) for starts in one.groups) for one in self.places]

    # Integers

    @property
    def entries(self) -> int:
        """Number of bins of all places."""
        return sum(one.size for one in self.places)

    @property
    def _whole_units(self) -> bool:
        return any(one.of == "person" for one in self.places)

    def summed(self, rows: Array, owned: Ints | None = None) -> Ints:
        """Count the rows, or people, in each bin."""
        looked, owned = self.frame.look(rows), self.frame.owners(rows.shape[1], owned)
        once = self.frame.once(looked)  # a row is counted once, and by the length of all that it adds
        norm = self.frame.norm
        return np.concatenate([one.counts(once if one.term is None else looked, owned, norm) for one in self.places])

    def finish_sets(self, totals: Any) -> Any:
        """Return the counts of all levels from those of the bins (R, entries)."""
        ends = np.cumsum([one.size for one in self.places])
        parts = zip(self.places, np.split(totals, ends[:-1], axis=1), strict=True)
        levels = [
            part.reshape(len(part), -1, width).sum(axis=2)[:, :: starts.step // width]
            for one, part in parts
            for width, starts in zip(one.widths, one.groups, strict=True)
        ]
        return np.concatenate(levels, axis=1)

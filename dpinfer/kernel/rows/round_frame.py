"""What a round of Newton's method sees of a row: coordinates, linear predictor, residual and weight."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.kernel.rows.features import NORMS, Features
from dpinfer.kernel.rows.interpolants import LARGEST, Interpolant
from dpinfer.schema.grid import GRID_BITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dpinfer.privacy.sensitivity import Norm

    Array = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["MOST_COORDINATES", "Looked", "RoundFrame", "columns_at_once"]

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
        features = self.features
        if type(features) is not Features or features.clip is not None or features.count_clamped:
            raise OptionError("features", type(features).__name__, "Features without row_norm= and marks")
        if type(self.weighted) is not bool:
            raise OptionError("weighted", type(self.weighted).__name__, "True or False")
        if type(self.labels) is not int or not 0 <= self.labels <= MOST_COORDINATES:
            raise OptionError("labels", self.labels, f"a whole number to {MOST_COORDINATES}")
        right = type(self.maps) is np.ndarray and self.maps.dtype == np.int64 and self.maps.ndim == 2
        right = right and 1 <= self.size <= MOST_COORDINATES and self.maps.shape[1] == features.basis.width
        right = right and bool(((self.maps >= -_ROW_SUM) & (self.maps <= _ROW_SUM)).all())
        if not (right and bool((np.abs(self.maps).sum(axis=1) <= _ROW_SUM).all())):
            raise OptionError(
                "maps", type(self.maps).__name__, f"rows of whole numbers whose sizes add up to at most {_ROW_SUM}"
            )
        right = type(self.bits) is tuple and len(self.bits) == len(self.maps)
        if not (right and all(type(one) is int and 0 <= one <= _MOST_BITS for one in self.bits)):
            raise OptionError("bits", type(self.bits).__name__, f"whole numbers to {_MOST_BITS}, one for each map")
        if self.norm not in NORMS:
            raise OptionError("norm", self.norm, NORMS)
        if type(self.ratio) is not float or not 1 / LARGEST <= self.ratio <= LARGEST:
            raise OptionError("ratio", self.ratio, "a positive number")
        for table in (self.mean, self.inverse_sd, self.lift):
            if table is not None:
                check_table(table)

    @cached_property
    def _exact(self) -> Array:
        """The maps (q + 2 + k, d) of integer features: whole numbers times powers of two."""
        steps = np.ldexp(1.0, -(np.array(self.bits) + GRID_BITS))
        exact: Array = self.maps.astype(np.float64) * steps[:, None]
        return exact

    def look(self, rows: Array) -> Looked:
        """Map integer rows (d, m); a function of each row alone, to the last bit."""
        mapped = np.empty((len(self._exact), rows.shape[1]))
        for mine in columns_at_once(self._exact.size, rows.shape[1]):
            # Whole steps, at most 2^53 of them, in whatever order they are added.
            mapped[:, mine] = np.dot(self._exact, rows[:, mine])
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
        squared, absolute = np.zeros(z.shape[1]), np.zeros(z.shape[1])
        for one in z:
            squared += one * one
            if self.norm == "l1":
                absolute += np.abs(one)
        if self.norm == "l1":
            products = (absolute * absolute + squared) * (0.5 / self.ratio)
            if lift is not None:
                absolute, products = absolute * lift, products * (lift * lift)
            largest: Array = np.maximum(absolute, products)
            return largest
        return squared if lift is None else squared * (lift * lift)


def columns_at_once(size: int, columns: int) -> Iterator[slice]:
    """Yield slices of columns, of which each is multiplied by a matrix of so many numbers."""
    step = max(_SMALL // size, 1)
    for start in range(0, columns, step):
        yield slice(start, start + step)


def check_table(table: object) -> None:
    """Refuse what is no table."""
    if type(table) is not Interpolant:
        raise OptionError("table", type(table).__name__, "an Interpolant")
    table.check()

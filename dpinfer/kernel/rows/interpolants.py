"""Public functions of one number as tables: what links, residuals and their weights are read from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import OptionError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["LARGEST", "MOST_STEPS", "Interpolant"]

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
        numbers = (self.low, self.high, self.below, self.above)
        right = all(type(one) is float and abs(one) <= LARGEST for one in numbers)
        right = right and self.high - self.low >= 1 / LARGEST
        right = right and type(self.values) is np.ndarray and self.values.dtype == np.float64
        right = right and self.values.ndim == 1 and 2 <= self.values.size <= MOST_STEPS + 1
        if not (right and bool((np.abs(self.values) <= LARGEST).all())):
            raise OptionError(
                "table",
                type(self.values).__name__,
                f"2 to {MOST_STEPS + 1:,} numbers of at most {LARGEST:g}, from a lower to a higher end",
            )

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

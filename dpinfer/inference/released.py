"""Releases of one question from many data sets: what inference is a function of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.stage import Context
    from dpinfer.release.laws import NoiseLaw
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["Released"]


@dataclass(frozen=True, eq=False, slots=True)
class Released:
    """R releases of one question at one price; R = 1 is a user's, R = thousands a study's.

    Attributes
    ----------
    measured : Measurement
        What was measured, with the noise that it got.
    values : ndarray (R, m)
        Noisy sums of every release, in units of the scaled features.
    """

    measured: Measurement
    values: Array

    @property
    def law(self) -> NoiseLaw:
        """Noise of every sum."""
        return self.measured.law

    @property
    def steps(self) -> Array:
        """Size of one integer step of every sum (m,)."""
        return np.asarray(self.measured.steps)

    @property
    def rows(self) -> Any:
        """The row sum that was measured."""
        return self.measured.rows

    @property
    def context(self) -> Context:
        """What is public about the run."""
        return self.measured.context

    @property
    def schema(self) -> Schema:
        """The public schema, with the people where they are the unit of protection."""
        return self.measured.context.schema

    @property
    def nobs(self) -> int | None:
        """The number of rows of each data set where it is public."""
        return self.measured.context.nobs

"""Releases of one question from many data sets: what inference is a function of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.stage import Context
    from dpinfer.release import NoiseLaw, Release
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array

__all__ = ["Released"]


@dataclass(frozen=True, eq=False, slots=True)
class Released:
    """R releases of one question at one price; R = 1 is a user's, R = thousands a study's.

    Attributes
    ----------
    context : Context
        What is public about the run.
    rows : RowSum
        What was summed.
    names : tuple of str, length m
        What each sum is.
    law : NoiseLaw
        Noise of every sum.
    steps : ndarray (m,)
        Size of one integer step of every sum.
    values : ndarray (R, m)
        Noisy sums of every release, in units of the scaled features.
    """

    context: Context
    rows: Any
    names: tuple[str, ...]
    law: NoiseLaw
    steps: Array
    values: Array

    @classmethod
    def of_study(cls, measured: Measurement, values: Array) -> Released:
        """Return the releases of a study's data sets: ``values`` (R, m)."""
        steps = np.asarray(measured.steps)
        return cls(measured.context, measured.rows, measured.names, measured.law, steps, values)

    @classmethod
    def of_release(cls, release: Release, context: Context, rows: Any) -> Released:
        """Return one release."""
        return cls(context, rows, release.names, release.law, np.asarray(release.steps), release.array[None])

    @property
    def noise_variances(self) -> Array:
        """Variance of the noise of every sum (m,), in units of the scaled features."""
        return self.law.variances * self.steps**2

    @property
    def schema(self) -> Schema:
        """The public schema, with the people where they are the unit of protection."""
        return self.context.schema

    @property
    def nobs(self) -> int | None:
        """The number of rows of each data set where it is public."""
        return self.context.nobs

"""Noise to be expected before a measurement is bought."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dpinfer.inference.gram import GramProblem, covariance, fit_gram
from dpinfer.kernel.rehearsal import sample_batch
from dpinfer.kernel.rows.products import GramSum
from dpinfer.schema.basis import UNIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.priced_stage import PricedStage
    from dpinfer.kernel.rows.base import Batch
    from dpinfer.numerics.arrays import Array
    from dpinfer.procedures.gram_design import GramDesign

__all__ = ["coefficient_errors", "expected_noise", "first_error", "sizes_shown"]

_ROWS = 4096

_MANY = 1e12
"""Rows beside which noise is small."""


def sizes_shown(nobs: int | None) -> tuple[int, ...]:
    """Return numbers of rows to show noise for: the public one, or several."""
    return (1_000, 10_000, 100_000) if nobs is None else (nobs,)


def first_error(priced: Measurement | PricedStage) -> float:
    """Return the standard deviation of the noise of the first sum that is released."""
    return float(np.sqrt(priced.law.variances[0])) * priced.steps[0]


def expected_noise(question: GramDesign, measurement: Measurement, sizes: Sequence[int]) -> pd.DataFrame:
    """Compute the standard error that privacy noise alone would give each coefficient: a column per number of rows.

    The rows are taken to be spread evenly and independently over the declared bounds, which is public.
    """
    problem, moments = _problem(question, measurement, sample_batch(question.schema, _ROWS))
    errors = {}
    for size in sizes:
        fit = fit_gram(problem, size * moments[None], np.array([float(size)]))
        errors[f"n = {size:,}"] = np.sqrt(np.diag(covariance(fit)[1][0]))
    return pd.DataFrame(errors, index=[column.name for column in question.compiled.design])


def coefficient_errors(question: GramDesign, measurement: Measurement, batch: Batch) -> tuple[Array, Array]:
    """Return n times the sampling variance and n^2 times the noise variance of each coefficient, for many rows.

    Rows are like those of a batch; the sampling variance is that which a fit reports.
    """
    problem, moments = _problem(question, measurement, batch)
    fit = fit_gram(problem, _MANY * moments[None], _MANY * moments[:1, 0])
    sampling, noise = covariance(fit)
    return _MANY * np.diag(sampling[0]), _MANY**2 * np.diag(noise[0])


def _problem(question: GramDesign, measurement: Measurement, batch: Batch) -> tuple[GramProblem, Array]:
    """Return the regression with its noise, and mean cross-products of a batch (d, d)."""
    width = question.basis.width
    upper = np.triu_indices(width)
    totals = GramSum(question.rows).add(batch)[0]
    sums = totals[: len(upper[0])] / UNIT**2 / batch.size
    moments, noise = np.zeros((width, width)), np.zeros((width, width))
    moments[upper], noise[upper] = (
        sums,
        (measurement.law.variances * np.asarray(measurement.steps) ** 2)[: len(sums)],
    )
    moments += np.triu(moments, 1).T
    noise += np.triu(noise, 1).T
    rows = question.schema.rows_per_unit
    return GramProblem(noise, question.design[:-1], question.design[-1], rows_per_unit=rows), moments

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
    from dpinfer.procedures.gram_design import GramDesign

__all__ = ["expected_noise", "first_error", "sizes_shown"]

_ROWS = 4096


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
    width = question.basis.width
    upper = np.triu_indices(width)
    totals = GramSum(question.rows).add(sample_batch(question.schema, _ROWS))[0]
    sums = totals[: len(upper[0])] / UNIT**2 / _ROWS
    moments, noise = np.zeros((width, width)), np.zeros((width, width))
    moments[upper], noise[upper] = (
        sums,
        (measurement.law.variances * np.asarray(measurement.steps) ** 2)[: len(sums)],
    )
    moments += np.triu(moments, 1).T
    noise += np.triu(noise, 1).T
    problem = GramProblem(noise, question.design[:-1], question.design[-1], population=False)
    errors = {}
    for size in sizes:
        fit = fit_gram(problem, size * moments[None], np.array([float(size)]))
        errors[f"n = {size:,}"] = np.sqrt(np.diag(covariance(fit)[1][0]))
    return pd.DataFrame(errors, index=[column.name for column in question.compiled.design])

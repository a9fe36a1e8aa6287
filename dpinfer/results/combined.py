"""Results of several combined releases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.inference.combination import SUSPICIOUS, Consistency, ConsistencyTest
from dpinfer.results.descriptions import DescriptionResults

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.inference.base import Inference
    from dpinfer.release.release import AnyRelease

__all__ = ["CombinedResults"]


class CombinedResults(DescriptionResults):
    """Estimates from several releases, each weighted by its precision.

    Everything that `DescriptionResults` have, and whether the releases agree.

    Parameters
    ----------
    inference, release, **options
        As in `DescriptionResults`.
    consistency : Consistency
        Measured and fitted values.
    labels : sequence of (int, str)
        Release and quantity of each measured value.
    """

    def __init__(
        self,
        inference: Inference,
        release: AnyRelease,
        *,
        consistency: Consistency,
        labels: Sequence[tuple[int, str]],
        **options: Any,
    ) -> None:
        super().__init__(inference, release, **options)
        self._consistency, self._measured = consistency, tuple(labels)

    def _labels(self) -> dict[str, Any]:
        return {**super()._labels(), "consistency": self._consistency, "labels": self._measured}

    def consistency_test(self) -> ConsistencyTest:
        """Test whether the releases may describe the same data.

        Returns
        -------
        ConsistencyTest
            Statistic (the sum of squared standardised residuals), degrees of freedom, p-value and method: with normal
            noise chi-squared, otherwise simulated from the laws of the noise with a public seed.
        """
        return self._consistency.test

    def measured_frame(self) -> pd.DataFrame:
        """Return what was measured beside what was fitted.

        Returns
        -------
        DataFrame
            A row per measured quantity, labelled by release (from 1) and quantity; columns "measured", "std err" of
            its own noise, "fitted", and "residual" in standard deviations.
        """
        found = self._consistency
        return pd.DataFrame(
            {
                "measured": found.measured,
                "std err": np.sqrt(found.noise.variances),
                "fitted": found.fitted,
                "residual": found.residuals,
            },
            index=pd.MultiIndex.from_tuples(self._measured, names=["release", "quantity"]),
        )

    @property
    def flags(self) -> tuple[str, ...]:
        """Sentences that warn the reader; among them, that the releases contradict each other."""
        test = self.consistency_test()
        if test.pvalue >= SUSPICIOUS:
            return super().flags
        return (
            *super().flags,
            f"the releases contradict each other by more than their noise explains (p = {test.pvalue:.2g}): they may "
            "not describe the same data",
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences printed below the tables, besides those on the guarantee."""
        test = self.consistency_test()
        if test.df == 0:
            return (*self._notes, "Every measurement is needed: there is nothing to test their agreement with.")
        told = f"{test.method}: {test.statistic:.4g} on {test.df} degrees of freedom, p = {test.pvalue:.3g}"
        return (*self._notes, f"Agreement of the releases ({told}).")

"""Results of a bootstrap: estimates with errors from replicates."""

from __future__ import annotations

import pandas as pd

from dpinfer.inference.bootstrap import BootstrapInference
from dpinfer.results.base import PrivateResults
from dpinfer.results.descriptions import DescriptionResults

__all__ = ["BootstrapDescription", "BootstrapResults"]


class BootstrapResults(PrivateResults):
    """Coefficients with errors from replicates. Everything that `PrivateResults` has is here too.

    ``with_inference`` takes "fiducial" (the default), "unbiased", "conservative" and "most_conservative".
    """

    @property
    def _bootstrap(self) -> BootstrapInference:
        inference = self.inference
        assert isinstance(inference, BootstrapInference)
        return inference

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences printed below the tables, besides those on the guarantee."""
        method, found = self.inference.method, self._notes
        if method == "conservative":
            found = (*found, f"It takes off too much noise with probability {self._bootstrap.conservative:g}.")
        if method in ("unbiased", "conservative", "most_conservative"):
            found = (*found, "This interval of Brawner & Honaker (2018) leaves out part of the error.")
        return found

    @property
    def replicates(self) -> pd.DataFrame:
        """DataFrame (B, p): the noisy estimate of every replicate, linearised at their mean."""
        found = pd.DataFrame(self._bootstrap.replicated, columns=list(self.inference.names))
        found.index.name = "replicate"
        return found

    @property
    def population_std(self) -> pd.Series:
        """Series (p,): the root of the number of rows times the sampling variance.

        Of a mean it is the standard deviation of the column in the population (Brawner & Honaker 2018, section 7.2).
        """
        return self._series(self._bootstrap.population_std)


class BootstrapDescription(BootstrapResults, DescriptionResults):
    """Means, totals, variances and the like with errors from replicates; see `BootstrapResults`."""

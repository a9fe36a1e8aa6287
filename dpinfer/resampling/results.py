"""Results of sample-and-aggregate, and of a bootstrap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import pandas as pd
from scipy import special

from dpinfer.errors import NotProvedError
from dpinfer.results.base import PrivateResults
from dpinfer.results.descriptions import DescriptionResults

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.resampling.inference import BootstrapInference
    from dpinfer.results.prediction import MeanPrediction
    from dpinfer.statistics.arrays import Array


INVERSE_LINKS: dict[str, Callable[[Array], Array] | None] = {
    "identity": None,
    "logit": special.expit,
    "probit": special.ndtr,
    "log": np.exp,
}
"""By link, for models whose parameters are the coefficients of one linear predictor."""


class AggregateResults(PrivateResults):
    """Parameters of a model by sample-and-aggregate.

    Parameters
    ----------
    *args, **options
        As `PrivateResults`, without ``inverse_link``.
    link : str or None
        A key of `INVERSE_LINKS`; None where the parameters are not the coefficients of one linear predictor.
    """

    def __init__(self, *args: Any, link: str | None, **options: Any) -> None:
        super().__init__(*args, **{**options, "inverse_link": INVERSE_LINKS[link or "identity"]})
        self._link = link

    def with_inference(self, method: str) -> Self:
        """Return the same estimates under another method of inference; see `PrivateResults.with_inference`."""
        return self._inferred(method)

    def get_prediction(self, exog: object) -> MeanPrediction:
        """Return predicted means at public design points; see `PrivateResults.get_prediction`.

        Raises
        ------
        NotProvedError
            Where the parameters are not the coefficients of one linear predictor.
        """
        if self._link is None:
            raise NotProvedError(
                f"predictions of {self._model_name} are not offered: its parameters are not the coefficients of one "
                "linear predictor"
            )
        return super().get_prediction(exog)


class BootstrapResults(PrivateResults):
    """Coefficients with errors from replicates. Everything that `PrivateResults` has is here too.

    ``with_inference`` takes "fiducial" (the default), "unbiased", "conservative" and "most_conservative".
    """

    @property
    def _bootstrap(self) -> BootstrapInference:
        return cast("BootstrapInference", self.inference)

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
        return found.rename_axis(index="replicate")

    @property
    def population_std(self) -> pd.Series:
        """Series (p,): the root of the number of rows times the sampling variance.

        Of a mean it is the standard deviation of the column in the population (Brawner & Honaker 2018, section 7.2).
        """
        return self._series(self._bootstrap.population_std)


class BootstrapDescription(BootstrapResults, DescriptionResults):
    """Means, totals, variances and the like with errors from replicates; see `BootstrapResults`."""

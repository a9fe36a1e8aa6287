"""Results of sample-and-aggregate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import special

from dpinfer.errors import NotProvedError
from dpinfer.results.base import PrivateResults

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dpinfer.results.prediction import MeanPrediction

    Array = NDArray[np.float64]

__all__ = ["INVERSE_LINKS", "AggregateResults"]

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

    def _labels(self) -> dict[str, Any]:
        labels = super()._labels()
        labels["link"] = self._link
        return labels

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

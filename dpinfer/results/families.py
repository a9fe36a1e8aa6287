"""Results of exponential families."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dpinfer.inference.expfam_inference import FamilyInference
from dpinfer.results.descriptions import DescriptionResults

__all__ = ["FamilyResults"]


class FamilyResults(DescriptionResults):
    """Parameters of an exponential family, in usual and natural form."""

    def natural_params(self) -> pd.DataFrame:
        """Return the natural parameters with standard errors by the delta method.

        Returns
        -------
        DataFrame
            Columns "estimate" and "std err" (sampling and noise), a row per natural parameter.

        Raises
        ------
        InferenceError
            If the family does not say what they are.
        """
        inference = self._inference
        assert isinstance(inference, FamilyInference)
        names, values, covariance = inference.natural()
        error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        return pd.DataFrame({"estimate": values, "std err": error}, index=list(names))

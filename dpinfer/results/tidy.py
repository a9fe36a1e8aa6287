"""Results as plain frames with the columns of R's broom, for other packages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.results.printing import short_guarantee
from dpinfer.results.testing import check_alpha

if TYPE_CHECKING:
    from collections.abc import Sequence


class Tidied:
    """Results with estimates and facts as frames with broom's columns."""

    def to_frame(self: Any, alpha: float = 0.05) -> pd.DataFrame:
        """Return one row per term, with the columns of R's ``broom::tidy``.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.

        Returns
        -------
        DataFrame
            "term", "estimate", "std.error" (including privacy noise), "statistic" (estimate over standard error),
            "p.value" (of zero, by the method of the inference), "conf.low", "conf.high"; and, if known, "noise.share",
            the share of the variance due to privacy noise, and "bias.bound", an upper bound on the clipping bias of the
            estimate, which the interval includes.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.

        Examples
        --------
        >>> import numpy as np
        >>> import dpinfer as dpi
        >>> schema = dpi.Schema(age=dpi.Real(0, 100))
        >>> rng = np.random.default_rng(1)
        >>> results = dpi.mean("age", dpi.PublicData(schema.sample(100, rng), schema, rng=rng)).fit(dpi.ZCDP(1))
        >>> list(results.to_frame())[:5]
        ['term', 'estimate', 'std.error', 'statistic', 'p.value']
        """
        inference = getattr(self, "inference", None)
        extra = {} if inference is None else {"noise.share": self.noise_share}
        bound = getattr(inference, "bias_bound", None)
        extra |= {} if bound is None else {"bias.bound": bound}
        ends = self.conf_int(check_alpha(alpha))
        return tidy_frame(list(self.params.index), self.params, self.bse, self.pvalues, ends, **extra)

    def glance(self: Any) -> pd.DataFrame:
        """Return one row of facts about the results, with the column names of R's ``broom::glance``.

        Returns
        -------
        DataFrame (1, ...)
            For results of one inference "model", "response", "nobs" (NaN if not released), "nobs.public", "df.residual"
            (infinite for a normal reference), "r.squared" and "adj.r.squared" if they exist, "inference" and "target";
            for all results "privacy", "neighbours", "unit" and "warnings" (their number).
        """
        facts = {
            "privacy": short_guarantee(self.release),
            "neighbours": str(self.release.neighbors),
            "unit": str(self.release.unit),
            "warnings": len(self.flags),
        }
        inference = getattr(self, "inference", None)
        if inference is None:
            return pd.DataFrame([facts])
        fitted = {
            "model": self.model_name,
            "response": self.response,
            "nobs": np.nan if inference.nobs is None else float(inference.nobs),
            "nobs.public": bool(inference.nobs_is_public),
            "df.residual": float(inference.df_resid),
        }
        squares = {"r.squared": "rsquared", "adj.r.squared": "rsquared_adj"}
        fitted |= {name: float(getattr(self, ours)) for name, ours in squares.items() if hasattr(self, ours)}
        return pd.DataFrame([{**fitted, "inference": inference.method, "target": inference.target, **facts}])


def tidy_frame(
    terms: Sequence[object], estimates: object, errors: object, pvalues: object, ends: object, **extra: object
) -> pd.DataFrame:
    """Lay out estimates (k,), standard errors (k,), p-values (k,), interval ends (k, 2), and further columns (k,)."""
    estimate, error, pvalue, limits = (
        np.array(values, dtype=np.float64) for values in (estimates, errors, pvalues, ends)
    )
    with np.errstate(divide="ignore", invalid="ignore"):  # an effect that is zero for certain has no error
        statistic = np.where((estimate == 0) & (error == 0), 0.0, estimate / error)
    columns = {
        "term": list(map(str, terms)),
        "estimate": estimate,
        "std.error": error,
        "statistic": statistic,
        "p.value": pvalue,
        "conf.low": limits[:, 0],
        "conf.high": limits[:, 1],
    }
    return pd.DataFrame(columns | {name: np.array(values, dtype=np.float64) for name, values in extra.items()})

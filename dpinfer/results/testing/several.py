"""Several tests at once, as post-processing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd
from statsmodels.stats import multitest

from dpinfer.errors import OptionError
from dpinfer.results.contrasts import check_alpha
from dpinfer.results.testing.base import TestResults

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["METHODS", "multipletests"]

METHODS = (
    "bonferroni",
    "sidak",
    "holm-sidak",
    "holm",
    "simes-hochberg",
    "hommel",
    "fdr_bh",
    "fdr_by",
    "fdr_tsbh",
    "fdr_tsbky",
)
"""Corrections of `statsmodels.stats.multitest.multipletests`."""


def multipletests(
    tests: Mapping[str, TestResults] | Iterable[TestResults], alpha: float = 0.05, method: str = "holm"
) -> pd.DataFrame:
    """Correct the p-values of several tests for their number, by statsmodels' function of this name.

    Tests from one release share its noise, so their p-values depend on each other: "bonferroni" and "holm" allow for
    any dependence, and so does "fdr_by" for the false discovery rate.

    Parameters
    ----------
    tests : mapping of str to TestResults, or iterable of TestResults
        Tests from one release or from several.
    alpha : float
        Error rate of the whole family.
    method : str
        A method of `statsmodels.stats.multitest.multipletests`.

    Returns
    -------
    DataFrame
        A row per test: "statistic", "df", "pvalue", "pvalue error" (Monte Carlo standard error), "corrected", "reject".

    Raises
    ------
    OptionError
        If there are no tests, something is none, or there is no such method.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(a=dpi.Boolean(), b=dpi.Category(["x", "y", "z"]))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(2000, rng), schema, rng=rng)
    >>> table = dpi.table(["a", "b"], data).measure(dpi.ZCDP(0.1))
    >>> tests = [dpi.chisquare("b", table).infer(), dpi.chi2_contingency("a", "b", table).infer()]
    >>> dpi.multipletests(tests)["reject"].tolist()
    [False, False]
    """
    named = dict(tests) if isinstance(tests, Mapping) else {}
    if not isinstance(tests, Mapping):
        for one in tests:
            name = one.hypothesis if isinstance(one, TestResults) else str(one)
            named[name if name not in named else f"{name} ({len(named) + 1})"] = one
    wrong = [one for one in named.values() if not isinstance(one, TestResults)]
    if wrong or not named:
        raise OptionError("tests", tests, "one or more results of tests")
    if method not in METHODS:
        raise OptionError("method", method, METHODS)
    pvalues = [one.pvalue for one in named.values()]
    reject, corrected, *_ = multitest.multipletests(pvalues, check_alpha(alpha), method)
    return pd.DataFrame(
        {
            "statistic": [one.statistic for one in named.values()],
            "df": [one.dof for one in named.values()],
            "pvalue": pvalues,
            "pvalue error": [one.pvalue_error for one in named.values()],
            "corrected": corrected,
            "reject": reject,
        },
        index=list(named),
    )

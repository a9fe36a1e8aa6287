"""Multiple testing: corrected p-values of several tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from statsmodels.stats import multitest

from dpinfer.errors import NotProvedError, OptionError, kind_of
from dpinfer.results.estimates import PrivateEstimates
from dpinfer.results.printing import label_texts
from dpinfer.results.testing import CoefficientTest, JointTest, TestResults, check_alpha

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


METHODS = ("holm", "bonferroni", "fdr_by")
"""Corrections that hold however the p-values depend on each other."""

UNPROVED = ("sidak", "holm-sidak", "simes-hochberg", "hommel", "fdr_bh", "fdr_tsbh", "fdr_tsbky", "fdr_gbs")
"""Corrections of statsmodels that are proved for independent p-values, or for some kinds of dependence."""

_PVALUES = (
    "pvalue",
    "p-value",
    "pvalues",
    "P>|t|",
    "P>|z|",
    "P (score)",
    "P (simulated)",
    "P (exact)",
    "P (anderson-rubin)",
)


class _Row(NamedTuple):
    """One hypothesis."""

    pvalue: float
    statistic: float = np.nan
    df: float | None = None
    error: float = 0.0


def multipletests(tests: Any, alpha: float = 0.05, method: str = "holm") -> pd.DataFrame:
    """Correct the p-values of several tests for multiplicity, with statsmodels' function of this name.

    Tests from one release share its noise, and tests on the same rows share their sampling error, so their p-values are
    dependent. The function offers corrections that are valid under any dependence: "holm" and "bonferroni" control the
    familywise error rate, "fdr_by" the false discovery rate.

    Parameters
    ----------
    tests : mapping of str to tests, iterable of tests, results, DataFrame or Series
        Tests from one or several releases: test results, results of ``t_test``, ``wald_test`` or ``f_test``, or
        estimation results, whose coefficients are all tested. A frame has a column "pvalue" or one of a summary, such
        as "P>|z|"; a Series holds p-values.
    alpha : float
        Error rate for the whole family.
    method : {"holm", "bonferroni", "fdr_by"}

    Returns
    -------
    DataFrame
        A row per test: "statistic", "df", "pvalue", "pvalue error" (Monte Carlo standard error), "corrected", "reject".
        A NaN p-value, of a quantity that is not identified, is treated as 1.

    Raises
    ------
    OptionError
        If there are no tests, an element is not a test, or the method is unknown.
    NotProvedError
        If the method is proved only for independent p-values, such as "sidak" and "fdr_bh".

    References
    ----------
    Holm (1979), A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6;
    Benjamini & Yekutieli (2001), The control of the false discovery rate under dependency, Annals of Statistics 29.

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
    if isinstance(method, str) and method in UNPROVED:
        raise NotProvedError(
            f"method={method!r} is proved for p-values that are independent, or depend in certain ways, and "
            "tests of one release share its noise; 'holm' (any false rejection) and 'fdr_by' (their share) hold for "
            "any dependence"
        )
    if method not in METHODS:
        raise OptionError("method", method, METHODS)
    rows = dict(_named(tests))
    if not rows:
        raise OptionError("tests", kind_of(tests), _RIGHT)
    pvalues = np.array([row.pvalue for row in rows.values()])
    known = np.where(np.isnan(pvalues), 1.0, pvalues)
    if not ((known >= 0) & (known <= 1)).all():
        raise OptionError("tests", kind_of(tests), "p-values between 0 and 1")
    reject, corrected, *_ = multitest.multipletests(known, check_alpha(alpha), method)
    return pd.DataFrame(
        {
            "statistic": [row.statistic for row in rows.values()],
            "df": [row.df for row in rows.values()],
            "pvalue": pvalues,
            "pvalue error": [row.error for row in rows.values()],
            "corrected": corrected,
            "reject": reject,
        },
        index=list(rows),
    )


_RIGHT = "one or more results of tests, results of estimates, or a frame with a column 'pvalue'"


def _named(tests: Any) -> Iterator[tuple[str, _Row]]:
    """Yield the hypotheses, each with a unique name."""
    seen: dict[str, int] = {}
    for name, row in _hypotheses(tests):
        seen[name] = seen.get(name, 0) + 1
        yield (name if seen[name] == 1 else f"{name} ({seen[name]})"), row


def _hypotheses(tests: Any) -> Iterable[tuple[str, _Row]]:
    if isinstance(tests, pd.DataFrame | pd.Series):
        return _of_frame(tests)
    if isinstance(tests, TestResults | PrivateEstimates | CoefficientTest | JointTest):
        return _of_one("", tests)
    if isinstance(tests, Mapping):
        return [row for name, one in tests.items() for row in _of_one(str(name), one)]
    if isinstance(tests, str) or not hasattr(tests, "__iter__"):
        raise OptionError("tests", kind_of(tests), _RIGHT)
    return [row for one in tests for row in _of_one("", one)]


def _of_frame(frame: pd.DataFrame | pd.Series) -> list[tuple[str, _Row]]:
    found: pd.Series[Any]
    if isinstance(frame, pd.Series):
        found = frame
    else:
        column = next((name for name in _PVALUES if name in frame.columns), None)
        if column is None:
            listed = ", ".join(map(str, frame.columns))
            raise OptionError("tests", f"columns {listed}", f"one of {', '.join(_PVALUES)}")
        found = frame[column]
    values = pd.to_numeric(found, errors="coerce")
    return [(label, _Row(float(value))) for label, value in zip(label_texts(found.index), values, strict=True)]


def _of_one(name: str, one: Any) -> list[tuple[str, _Row]]:
    """Hypotheses of one result; if there are several, their names start with that of the result."""
    if isinstance(one, TestResults):
        return [(name or one.hypothesis, _Row(one.pvalue, one.statistic, one.dof, one.pvalue_error))]
    if isinstance(one, PrivateEstimates):
        rows = zip(one.params.index, one.pvalues, one.tvalues, strict=True)
        return [(f"{name}: {term}" if name else str(term), _Row(float(p), float(t))) for term, p, t in rows]
    if isinstance(one, JointTest):
        df = float(one.df_num) if getattr(one, "df_num", None) else float(np.ravel(one.df_denom)[0])
        return [(name or "joint test", _Row(float(one.pvalue), float(np.ravel(one.statistic)[0]), df))]
    if isinstance(one, CoefficientTest):
        pvalues, statistics = np.ravel(one.pvalue), np.ravel(one.statistic)
        labels = [f"c{place}" for place in range(len(pvalues))]
        if name:
            labels = [name] if len(labels) == 1 else [f"{name}: {label}" for label in labels]
        return [(label, _Row(float(p), float(t))) for label, p, t in zip(labels, pvalues, statistics, strict=True)]
    raise OptionError("tests", kind_of(one), _RIGHT)

"""Several tests at once: of the terms of a formula, of pairs of levels, and corrected for their number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from statsmodels.stats import multitest
from statsmodels.stats.contrast import MultiCompResult, WaldTestResults

from dpinfer.errors import NotProvedError, OptionError, kind_of
from dpinfer.results.estimates import PrivateEstimates
from dpinfer.results.testing import CoefficientTest, JointTest, TestResults, check_alpha, linear_constraints

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dpinfer.schema.formula import FormulaDesign
    from dpinfer.statistics.arrays import Array

__all__ = ["METHODS", "UNPROVED", "multipletests", "pairwise_tests", "term_tests"]

METHODS = ("holm", "bonferroni", "fdr_by")
"""Corrections that hold however the p-values depend on each other."""

UNPROVED = ("sidak", "holm-sidak", "simes-hochberg", "hommel", "fdr_bh", "fdr_tsbh", "fdr_tsbky", "fdr_gbs")
"""Corrections of statsmodels that are proved for independent p-values, or for some kinds of dependence."""

_PVALUES = ("pvalue", "p-value", "pvalues", "P>|t|", "P>|z|", "P (score)", "P (simulated)", "P (exact)")


class _Row(NamedTuple):
    """One hypothesis."""

    pvalue: float
    statistic: float = np.nan
    df: float | None = None
    error: float = 0.0


def multipletests(tests: Any, alpha: float = 0.05, method: str = "holm") -> pd.DataFrame:
    """Correct the p-values of several tests for their number, by statsmodels' function of this name.

    Tests from one release share its noise, and tests on the same rows their sampling, so that p-values depend on each
    other. Offered are the corrections that hold for any dependence: of the probability of one false rejection "holm"
    and "bonferroni", of the share of false ones among rejections (false discovery rate) "fdr_by".

    Parameters
    ----------
    tests : mapping of str to tests, iterable of tests, results, DataFrame or Series
        Tests from one release or from several: results of tests, of ``t_test``, ``wald_test`` or ``f_test``, or results
        of estimates, of which every coefficient is tested. A frame has a column "pvalue" or one of a summary, such as
        "P>|z|"; a Series holds p-values.
    alpha : float
        Error rate of the whole family.
    method : {"holm", "bonferroni", "fdr_by"}

    Returns
    -------
    DataFrame
        A row per test: "statistic", "df", "pvalue", "pvalue error" (Monte Carlo standard error), "corrected", "reject".
        A p-value that is NaN, of what is not determined, counts as 1.

    Raises
    ------
    OptionError
        If there are no tests, something is none, or there is no such method.
    NotProvedError
        If the method is proved for independent p-values only, as "sidak" and "fdr_bh".

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
    """Go through the hypotheses, each with a name of its own."""
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
    return [(_text(label), _Row(float(value))) for label, value in zip(found.index, values, strict=True)]


def _text(label: object) -> str:
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def _of_one(name: str, one: Any) -> list[tuple[str, _Row]]:
    """Hypotheses of one result, the name of the result before those of several."""
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


def term_tests(
    results: PrivateEstimates,
    design: FormulaDesign | None,
    *,
    skip_single: bool = False,
    extra_constraints: Sequence[tuple[str, object]] | None = None,
    combine_terms: Sequence[str] | None = None,
    scalar: bool = True,
) -> WaldTestResults:
    """Test every term of the formula; parameters, returns and errors as ``PrivateResults.wald_test_terms``."""
    names = results.inference.names
    places = {name: (place,) for place, name in enumerate(names)} if design is None else design.terms
    identity = np.eye(len(names))
    tested: list[tuple[str, Array, Array]] = []
    for term, columns in places.items():
        if len(columns) > 1 or not skip_single:
            tested.append((term, identity[list(columns)], np.zeros(len(columns))))
    for part in [combine_terms] if isinstance(combine_terms, str) else combine_terms or []:
        joined = [place for term, columns in places.items() if part in term for place in columns]
        if not joined:
            raise OptionError("combine_terms", part, f"a part of the name of a term: {', '.join(places)}")
        tested.append((part, identity[joined], np.zeros(len(joined))))
    for label, constraint in extra_constraints or []:
        tested.append((label, *linear_constraints(constraint, names)))
    found = [results.wald_test((matrix, values), scalar=scalar) for _, matrix, values in tested]
    use_f = bool(results.use_t)
    table = pd.DataFrame(
        {
            "statistic": [one.statistic for one in found],
            "pvalue": [float(one.pvalue) for one in found],
            "df_constraint": [int(one.df_num if use_f else one.df_denom) for one in found],
        },
        index=[label for label, _, _ in tested],
    )
    if use_f:
        table["df_denom"] = [float(one.df_denom) for one in found]
    return WaldTestResults(None, "F" if use_f else "chi2", None, table=table)


def pairwise_tests(
    results: PrivateEstimates,
    design: FormulaDesign | None,
    term_name: str,
    *,
    method: str | Sequence[str] = "hs",
    alpha: float = 0.05,
    factor_labels: Sequence[str] | None = None,
) -> MultiCompResult:
    """Compare all levels of a factor; parameters, returns and errors as ``PrivateResults.t_test_pairwise``."""
    check_alpha(alpha)
    methods = [method] if isinstance(method, str) else list(method)
    for one in methods:
        if multitest.multitest_alias.get(one, "lfdr") == "lfdr":  # listed by statsmodels, and not served
            raise OptionError("method", one, METHODS)
    coding, places, levels = _factor(design, term_name)
    if factor_labels is not None:
        if len(factor_labels) != len(levels):
            raise OptionError("factor_labels", factor_labels, f"{len(levels)} labels")
        levels = tuple(map(str, factor_labels))
    first, second = np.triu_indices(len(levels), 1)
    contrasts = np.zeros((len(first), len(results.inference.names)))
    contrasts[:, list(places)] = coding[second] - coding[first]
    labels = [f"{levels[j]}-{levels[i]}" for i, j in zip(first, second, strict=True)]
    test = results.t_test(contrasts)
    frame = test.summary_frame(xname=labels)
    for one in methods:
        with np.errstate(divide="ignore"):  # of a p-value of 1
            rejected, adjusted, *_ = multitest.multipletests(np.atleast_1d(test.pvalue), method=one, alpha=alpha)
        frame[f"pvalue-{one}"], frame[f"reject-{one}"] = adjusted, rejected
    return MultiCompResult(frame, contrasts, term_name, labels, coding)


def _factor(design: FormulaDesign | None, term_name: str) -> tuple[Array, tuple[int, ...], tuple[str, ...]]:
    """Return the coding (levels, columns) of a term that is one factor, its columns, and its levels."""
    factors: dict[str, tuple[Any, ...]] = {}
    for term, places in ({} if design is None else design.terms).items():
        assert design is not None
        columns = [design.columns[place] for place in places]
        involved = {name for column in columns for name, _ in column.codings}
        if len(involved) == 1 and all(column.codings and column.expression.constant == 1.0 for column in columns):
            coding = np.array([column.codings[0][1] for column in columns], dtype=np.float64).T
            factors[term] = (coding, places, design.schema[involved.pop()].level_texts)
    if term_name not in factors:
        known = ", ".join(factors) or "there is none here"
        raise OptionError("term_name", term_name, f"a term that is one factor, without interactions: {known}")
    coding, places, levels = factors[term_name]
    return coding, places, levels

"""Tests of the terms of a formula, in statsmodels' layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from statsmodels.stats.contrast import MultiCompResult, WaldTestResults
from statsmodels.stats.multitest import multipletests, multitest_alias

from dpinfer.errors import OptionError
from dpinfer.results.contrasts import check_alpha, linear_constraints
from dpinfer.results.testing.several import METHODS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpinfer.results.estimates import PrivateEstimates
    from dpinfer.schema.formula import FormulaDesign

    Array = NDArray[np.float64]

__all__ = ["pairwise_tests", "term_tests"]


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
        if multitest_alias.get(one, "lfdr") == "lfdr":  # listed by statsmodels, and not served
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
            rejected, adjusted, *_ = multipletests(np.atleast_1d(test.pvalue), method=one, alpha=alpha)
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

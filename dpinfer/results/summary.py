"""Summaries of estimates; every format comes from ``summary_frame``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from statsmodels.iolib.summary2 import Summary as Summary2

from dpinfer.errors import OptionError
from dpinfer.results.contrasts import check_alpha
from dpinfer.results.printing import PrivateSummary, cell_table, figure, interval_labels, summary_of, without_parts
from dpinfer.results.wording import (
    charge_notes,
    column_labels,
    column_notes,
    format_nobs,
    guarantee,
    guarantee_facts,
    measured_in,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpinfer.results.estimates import PrivateEstimates
    from dpinfer.results.printing import Facts

__all__ = [
    "build_summary",
    "build_summary2",
    "explain",
    "header_facts",
    "method_notes",
    "statistic_labels",
    "summary_frame",
]

_TARGETS = {
    "population": "Intervals and tests are about the population: sampling and privacy noise both count.",
    "data": "Intervals and tests are about these data, not a wider population: only privacy noise counts.",
}
_METHODS = {
    "wald": "",
    "score": (
        "P-values and intervals invert the score test, which stays valid where privacy noise is large. "
        "The {letter} column is coef / std err, and does not determine them."
    ),
    "simulated": (
        "P-values and intervals come from simulating the whole procedure, noise and clamping included. "
        "The {letter} column is coef / std err, and does not determine them."
    ),
    "fiducial": (
        "P-values and intervals count what is not known of the variance between replicates. "
        "The {letter} column is coef / std err, and does not determine them."
    ),
    "exact": (
        "P-values and intervals come from the exact distribution. "
        "The {letter} column is coef / std err, and does not determine them."
    ),
}


def statistic_labels(results: PrivateEstimates) -> tuple[str, str]:
    """Return what the columns of statistic and p-value are called: statsmodels' names where they are true."""
    letter = "t" if results.use_t else "z"
    method = results.inference.method
    return letter, f"P>|{letter}|" if method == "wald" else f"P ({method})"


def summary_frame(results: PrivateEstimates, alpha: float = 0.05) -> pd.DataFrame:
    """Return the one table behind every format.

    Parameters
    ----------
    results : PrivateEstimates
        The results.
    alpha : float
        One minus the confidence of the intervals.

    Returns
    -------
    DataFrame
        As ``PrivateResults.summary_frame`` describes.

    Raises
    ------
    OptionError
        Where ``alpha`` is not strictly between 0 and 1.
    """
    ends = results.conf_int(check_alpha(alpha))
    statistic, pvalue = statistic_labels(results)
    lower, upper = interval_labels(alpha)
    bound = getattr(results.inference, "bias_bound", None)
    return pd.DataFrame(
        {
            "coef": results.params,
            "std err": results.bse,
            "std err (sampling)": results.bse_sampling,
            "std err (noise)": results.bse_noise,
            statistic: results.tvalues,
            pvalue: results.pvalues,
            lower: ends[0],
            upper: ends[1],
            "noise share": results.noise_share,
            **({} if bound is None else {"bias bound": bound}),
        }
    )


def _cells(frame: pd.DataFrame) -> list[list[str]]:
    """Write a coefficient frame as statsmodels writes numbers; noise shares as percentages."""
    rows = []
    for values in without_parts(frame).to_numpy(dtype=np.float64):
        coef, *middle, pvalue, lower, upper, share = values
        numbers = [figure(coef, 4), *(figure(value) for value in middle), f"{pvalue:#6.3f}"]
        rows.append([*numbers, figure(lower), figure(upper), f"{share:.1%}"])
    return rows


def header_facts(results: PrivateEstimates, response: str) -> tuple[Facts, Facts]:
    """Return the label-value pairs of the left and the right half of the header."""
    inference = results.inference
    reference = ("Df Residuals:", f"{inference.df_resid:.6g}") if results.use_t else ("Reference:", "normal")
    rsquared = "" if inference.rsquared is None else f"{inference.rsquared:.3f}"
    scale = "" if inference.scale is None else f"{inference.scale:.5g}"
    unit = measured_in(results.release, response)
    covariance = getattr(inference, "cov_type", "") if inference.target == "population" else ""
    left = [
        ("Model:", results.model_name),
        ("Dep. Variable:", response),
        *([("Unit:", unit)] if unit else []),
        *guarantee_facts(results.release),
        ("Inference:", inference.method),
    ]
    right = [
        ("No. Observations:", format_nobs(inference)),
        reference,
        ("Df Model:", f"{results.df_model:.0f}"),
        *([("R-squared:", rsquared)] if rsquared else []),
        *([("Scale:", scale)] if scale else []),
        *([("Covariance Type:", covariance)] if covariance else []),
    ]
    return left, right


def _renamed(results: PrivateEstimates, xname: Sequence[str] | None, alpha: float) -> pd.DataFrame:
    frame = summary_frame(results, alpha)
    if xname is None:
        return frame
    if len(xname) != len(frame):
        raise OptionError("xname", list(xname), f"{len(frame)} names")
    return frame.set_axis(list(xname), axis=0)


def build_summary(
    results: PrivateEstimates,
    *,
    yname: str | None = None,
    xname: Sequence[str] | None = None,
    title: str | None = None,
    alpha: float = 0.05,
) -> PrivateSummary:
    """Build the summary; parameters, returns and errors as ``PrivateResults.summary``."""
    frame = _renamed(results, xname, alpha)
    title = title or f"{results.model_name} Results"
    left, right = header_facts(results, yname or results.response)
    headers = list(without_parts(frame).columns)
    stubs = list(xname) if xname is not None else column_labels(results.release, frame.index)
    table = cell_table(_cells(frame), headers, stubs, ["%s", "%s", "%8s", "%s", "%11s", "%11s", "%s"])
    return summary_of(title, left, right, table, explain(results, frame), results.flags)


def build_summary2(
    results: PrivateEstimates,
    *,
    yname: str | None = None,
    xname: Sequence[str] | None = None,
    title: str | None = None,
    alpha: float = 0.05,
    float_format: str = "%.4f",
) -> Summary2:
    """Build the second layout; parameters, returns and errors as ``PrivateResults.summary2``."""
    frame = _renamed(results, xname, alpha)
    left, right = header_facts(results, yname or results.response)
    table = Summary2()
    table.add_dict(dict(left) | dict(right))
    table.add_df(without_parts(frame), float_format=float_format)
    table.settings[0]["float_format"] = float_format  # statsmodels takes the first table's for all
    table.add_title(title or f"Results: {results.model_name}")
    for note in [*explain(results, frame), *(f"Warning: {warning}" for warning in results.flags)]:
        table.add_text(note)
    return table


def method_notes(results: PrivateEstimates, ends: NDArray[np.float64]) -> list[str]:
    """Say where p-values and intervals (k, 2) come from, and what an infinite end means."""
    method = _METHODS.get(results.inference.method, "").format(letter="t" if results.use_t else "z")
    infinite = "" if np.isfinite(ends).all() else "An infinite end means that the release does not bound that side."
    return [note for note in (method, infinite) if note]


def explain(results: PrivateEstimates, frame: pd.DataFrame, *, tested: bool = True) -> list[str]:
    """Return the notes below a table.

    Parameters
    ----------
    results : PrivateEstimates
        The results.
    frame : DataFrame
        Their ``summary_frame``.
    tested : bool
        Whether the table has test statistics, whose method it then names.

    Returns
    -------
    list of str
        Guarantee and charge; how to read the table: target, noise share, method, infinite ends; the results' own.
    """
    inference, release = results.inference, results.release
    ends = frame.iloc[:, -3:-1].to_numpy(dtype=np.float64)
    reading = [
        _TARGETS.get(inference.target, f"Target: {inference.target}."),
        "Noise share is the part of a coefficient's variance that is privacy noise.",
        *(note for note in method_notes(results, ends) if tested or "coef / std err" not in note),
    ]
    notes = [" ".join([guarantee(release), *charge_notes(release)]), " ".join(reading)]
    return [*notes, *column_notes(release), *results.notes]

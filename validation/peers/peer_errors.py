"""What answers to the same data sets are worth: errors, coverage, width, size."""

from __future__ import annotations

from typing import Any

import numpy as np

from validation.peers.drivers.served import rows_of
from validation.peers.peer_designs import Design, chi2_pvalue

LEVEL = 0.05
WIDE = 1.959964


class Plain:
    """The fits without privacy of the data sets of a cell.

    Attributes
    ----------
    found : array (R, q)
    truth : array (q,)
    spread : array (q,)
        Root mean squared error.
    counts : array (R, m)
        Of a table; empty where there is none.
    rejects : float
        Share of textbook tests that reject.
    """

    def __init__(self, design: Design, n: int, replicates: int, seed: int) -> None:
        sets = [rows_of(design.population, n, seed, one, design.independent) for one in range(replicates)]
        self.truth = design.truth
        self.found = np.array([design.plain(rows) for rows in sets])
        self.spread = np.sqrt(np.mean((self.found - self.truth) ** 2, axis=0))
        self.counts = np.array([design.counts(rows) if design.levels else [] for rows in sets])
        tested = design.task == "independence"
        pvalues = [chi2_pvalue(one, design.levels) for one in self.counts] if tested else [np.nan]
        self.rejects = float(np.mean(np.array(pvalues) <= LEVEL)) if tested else np.nan


def plain_of(design: Design, n: int, replicates: int, seed: int) -> Plain:
    """Fit every data set of a cell without privacy."""
    return Plain(design, n, replicates, seed)


def judged(design: Design, plain: Plain, answers: list[dict[str, Any]]) -> dict[str, float]:
    """Judge the answers of one method to the data sets of one cell.

    Returns
    -------
    dict
        "rmse" and "typical", the root mean squared and the median absolute error, over the root mean squared error of
        the fit without privacy (squares, or medians, over quantities); "plain typical" and "zero", what it would be of
        that fit and of telling zero; "noise", the median distance from that fit in
        the same unit; "coverage" and "least" over quantities of intervals that are told; "told" and "bounded", shares
        of intervals; "width", the median over that of the fit without privacy, intervals without end included;
        "data coverage" of the data's own counts; "rejects"; "failed", a share.
    """
    worked = [place for place, one in enumerate(answers) if "failed" not in one]
    if not worked:
        raise ValueError(f"no answer: {answers[0]['failed']}")
    failed = 1 - len(worked) / len(answers)
    kept = [answers[place] for place in worked]
    if design.task == "independence":
        return {"rejects": float(np.mean([pvalue(design, one) <= LEVEL for one in kept])), "failed": failed}
    if design.task == "histogram":
        kept = [shares(one) for one in kept]
    estimates = np.array([one["estimate"] for one in kept])
    apart = np.abs(estimates - plain.truth) / plain.spread
    found = {
        "rmse": float(np.sqrt(np.mean(apart**2))),
        "typical": float(np.median(apart)),
        "plain typical": float(np.median(np.abs(plain.found[worked] - plain.truth) / plain.spread)),
        "zero": float(np.median(np.abs(plain.truth) / plain.spread)),
        "noise": float(np.median(np.abs(estimates - plain.found[worked]) / plain.spread)),
        "failed": failed,
    }
    if "lower" in kept[0]:
        found |= _intervals(np.array([[one["lower"], one["upper"]] for one in kept]), plain)
    if "count_lower" in kept[0]:
        lower, upper = (np.array([one[f"count_{end}"] for one in kept]) for end in ("lower", "upper"))
        counts = plain.counts[worked]
        found["data coverage"] = float(np.mean((lower <= counts) & (counts <= upper)))
        found["data width"] = float(np.mean(upper - lower))
    return found


def _intervals(ends: np.ndarray, plain: Plain) -> dict[str, float]:
    """Judge (R, 2, q) ends."""
    lower, upper = ends[:, 0], ends[:, 1]
    told = ~(np.isnan(lower) | np.isnan(upper))
    covers = np.where(told, (lower <= plain.truth) & (plain.truth <= upper), np.nan)
    widths = np.where(told, upper - lower, np.inf) / (2 * WIDE * plain.spread)
    return {
        "coverage": float(np.nanmean(covers)) if told.any() else np.nan,
        "least": float(np.nanmin(np.nanmean(covers, axis=0))) if told.any(axis=0).all() else np.nan,
        "told": float(told.mean()),
        "bounded": float(np.isfinite(widths).mean()),
        "width": float(np.median(widths)),
    }


def pvalue(design: Design, answer: dict[str, Any]) -> float:
    """Ours, or the textbook's of noisy counts."""
    return answer["pvalue"] if "pvalue" in answer else chi2_pvalue(np.array(answer["counts"]), design.levels)


def shares(answer: dict[str, Any]) -> dict[str, Any]:
    """Complete noisy counts by shares, the textbook's interval of them, and what the package claims of its noise."""
    if "estimate" in answer:
        return answer
    noisy = np.array(answer["counts"])
    counts = np.maximum(noisy, 0)
    total = max(counts.sum(), 1.0)
    found = counts / total
    half = WIDE * np.sqrt(found * (1 - found) / total)
    told = {**answer, "estimate": found, "lower": found - half, "upper": found + half}
    if "accuracy" in answer:
        told |= {"count_lower": noisy - answer["accuracy"], "count_upper": noisy + answer["accuracy"]}
    return told

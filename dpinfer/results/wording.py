"""The sentences that results print: guarantee, rows, target, method."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from dpinfer.inference.base import Inference
    from dpinfer.results.protocols import ReleaseLike
    from dpinfer.results.regression import PrivateResults

__all__ = ["charge_notes", "explain", "format_count", "format_nobs", "guarantee", "short_guarantee"]

_NEIGHBORS = {
    "add_remove": "data sets are neighbours when one unit is added or removed (add_remove)",
    "replace_one": "data sets are neighbours when one unit is replaced by another (replace_one)",
}
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


def charge_notes(release: ReleaseLike) -> list[str]:
    """Name the charges of a release in the ledger: one sentence, or none for a simulated release."""
    if not release.charge_ids:
        return []
    return [f"Ledger charge{'s' if len(release.charge_ids) > 1 else ''}: {', '.join(release.charge_ids)}."]


def short_guarantee(release: ReleaseLike) -> str:
    """Return the price in short form, or say that there is no guarantee.

    Parameters
    ----------
    release : ReleaseLike
        The release.

    Returns
    -------
    str
        The price that was asked for (of a cost without ``price``, the cost), or "none (public data)".
    """
    if release.public:
        return "none (public data)"
    return str(getattr(release.cost, "price", release.cost))


def format_nobs(inference: Inference) -> str:
    """Return the number of rows and where it comes from.

    Parameters
    ----------
    inference : Inference
        The inference.

    Returns
    -------
    str
        Such as "1,234 (noisy)", "1,234 (public)" or "not released".
    """
    return format_count(inference.nobs, public=inference.nobs_is_public)


def format_count(nobs: float | None, *, public: bool) -> str:
    """Return a number of rows and whether it is public or noisy."""
    if nobs is None:
        return "not released"
    return f"{nobs:,.0f} ({'public' if public else 'noisy'})"


def guarantee(release: ReleaseLike) -> str:
    """Return the whole guarantee as one sentence, or that there is none."""
    neighbors = _NEIGHBORS.get(release.neighbors, f"neighbours: {release.neighbors}")
    unit = getattr(release, "unit", "one row")
    if unit != "one row":
        neighbors += f"; a unit is {unit} (further rows of a person were left out, and estimates are about those kept)"
    if release.public:
        return (
            "Simulated from public data with the noise of "
            f"{release.cost.describe()}: this is not a private release; {neighbors}."
        )
    return f"Guarantee: {release.cost.describe()}; {neighbors}."


def explain(results: PrivateResults, frame: pd.DataFrame) -> list[str]:
    """Return the notes below a table.

    Parameters
    ----------
    results : PrivateResults
        The results.
    frame : DataFrame
        Their ``summary_frame``.

    Returns
    -------
    list of str
        Sentences: guarantee, target, noise share, method, infinite ends, ledger charge, the results' own.
    """
    inference, release = results.inference, results.release
    ends = frame.iloc[:, -3:-1].to_numpy(dtype=np.float64)
    notes = [
        guarantee(release),
        _TARGETS.get(inference.target, f"Target: {inference.target}."),
        "Noise share is the part of a coefficient's variance that is privacy noise.",
        _METHODS.get(inference.method, "").format(letter="t" if results.use_t else "z"),
        "" if np.isfinite(ends).all() else "An infinite end means that the release does not bound that side.",
        *charge_notes(release),
        *results.notes,
    ]
    return [note for note in notes if note]

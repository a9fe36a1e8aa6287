"""A bound on the norm of regressors' rows, suggested from public quantities alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import betaincinv

from dpinfer.kernel.rehearsal import sample_batch
from dpinfer.procedures.expected import coefficient_errors
from dpinfer.schema.clamping import limits_of
from dpinfer.schema.columns import Real
from dpinfer.schema.grid import UNIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.rows.base import Batch
    from dpinfer.procedures.gram_design import GramDesign
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["RowNormEffect", "row_norm_effect", "suggested_row_norm"]

_ROWS = 4096

_KEPT = 0.8
"""Share of rows spread evenly over their bounds that a suggested bound leaves as they are."""

_WORTH = 0.97
"""Noise, in shares of that without a bound, that a suggested bound reaches in every population."""


def _between(a: float, b: float) -> Callable[[Array, Array], Array]:
    """Return the quantile function of a beta law: from even places, and a common one, to places between bounds."""
    return lambda even, common: np.asarray(betaincinv(a, b, even))  # noqa: ARG005


_POPULATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "evenly": lambda even, common: even,  # noqa: ARG005
    "about the middle": _between(4.0, 4.0),
    "toward the bounds": _between(0.5, 0.5),
    "near one bound": _between(1.0, 4.0),
    "together": lambda even, common: 0.8 * common + 0.2 * even,
}
"""How the numbers of a row lie between their bounds; in all but the last one independently of each other."""


@dataclass(frozen=True, slots=True)
class RowNormEffect:
    """What a bound on the norm of regressors' rows would do in public populations.

    Attributes
    ----------
    bound : float
    norm : str
    frame : DataFrame
        A row for each population: "weigh less", the share of rows beyond the bound; "noise error" and "sampling error",
        standard errors of slopes in shares of those without a bound.
    rows : float
        Number of rows up to which standard errors get smaller, the response being spread evenly like the regressors and
        independent of them. With errors that are smaller it is larger.
    """

    bound: float
    norm: str
    frame: pd.DataFrame
    rows: float

    @property
    def pays(self) -> bool:
        """Whether noise falls in every population."""
        return bool(self.frame["noise error"].max() <= _WORTH)

    def describe(self, *, given: bool) -> str:
        """Say so in words; ``given`` where the bound is asked for and no suggestion."""
        told = f"row_norm={self.bound:g}" + ("" if self.norm == "l2" else f', norm="{self.norm}"')
        if not given and not self.pays:
            return f"row_norm     none is suggested: from public bounds alone {told} would not save noise everywhere"
        until = "at any number of rows"
        if math.isfinite(self.rows):
            until = (
                f"up to about {_two_digits(self.rows)} rows, or more where errors use little of the response's range"
            )
        table = self.frame.to_string(formatters={"weigh less": "{:.0%}".format}, float_format="{:.2f}".format)
        return (
            f"row_norm     {told} is {'asked for' if given else 'suggested, from public bounds alone'}: "
            f"it narrows intervals {until}.\n"
            "Errors of slopes, in shares of those without it, where the numbers of a row lie between their bounds so:\n"
            f"{table}\n"
            "Rows beyond it weigh less, by their regressors alone. Coefficients of a linear model stay as they are;\n"
            "where the mean is not linear, they and their intervals are of the line that fits rows under these weights."
        )


def suggested_row_norm(question: GramDesign, norm: str) -> float | None:
    """Return a bound that most rows keep if they are spread evenly over their bounds, rounded up to two decimals.

    None where a condition leaves none of them.
    """
    sizes = _norms(question, norm, sample_batch(question.schema, _ROWS))
    return math.ceil(100 * float(np.quantile(sizes, _KEPT)) - 1e-6) / 100 if sizes.size else None


def row_norm_effect(
    question: GramDesign, plain: Measurement, bounded: Measurement, bound: float, norm: str
) -> RowNormEffect:
    """Compare a question without a bound with the same under one, each priced alike."""
    question = replace(question, row_norm=None, norm="l2")
    clipped = replace(question, row_norm=bound, norm=norm)
    slopes = [place for place, one in enumerate(question.compiled.design) if one.name != "Intercept"] or [0]
    found, most = {}, math.inf
    for name, batch in _batches(question.schema).items():
        before, after = (
            coefficient_errors(one, measured, batch) for one, measured in ((question, plain), (clipped, bounded))
        )
        sampling, noise = (new[slopes] / old[slopes] for new, old in zip(after, before, strict=True))
        found[name] = {
            "weigh less": float((_norms(question, norm, batch) > bound).mean()),
            "noise error": math.sqrt(noise.mean()),
            "sampling error": math.sqrt(sampling.mean()),
        }
        if name == "evenly":
            grown, saved = before[0][slopes] * (sampling - 1), before[1][slopes] * (1 - noise)
            most = float(np.min(np.where(grown > 1e-9 * before[0][slopes], saved / np.maximum(grown, 1e-300), np.inf)))
    return RowNormEffect(bound, norm, pd.DataFrame(found).T, max(most, 0.0))


def _batches(schema: Schema) -> dict[str, Batch]:
    """Rows whose numbers lie in several ways between their bounds; levels and truth values are even in all."""
    even = sample_batch(schema, _ROWS)
    common = np.random.default_rng(1).random(_ROWS)
    found = {}
    for name, places in _POPULATIONS.items():
        cells = dict(even.cells)
        for column in schema:
            declared = schema[column]
            if not isinstance(declared, Real):
                continue
            lower, upper = limits_of(declared)
            at = (declared.coerce(even.cells[column]) - lower) / (upper - lower)
            cells[column] = declared.cells(lower + (upper - lower) * places(at, common))
        found[name] = replace(even, cells=cells)
    return found


def _norms(question: GramDesign, norm: str, batch: Batch) -> Array:
    """Norms of the scaled regressors of the rows that count."""
    rows = question.rows if question.row_norm is None else replace(question, row_norm=None).rows
    regressors = rows.encode(batch.cells)[0][:-1] / UNIT
    sizes = np.abs(regressors).sum(axis=0) if norm == "l1" else np.sqrt((regressors**2).sum(axis=0))
    return np.asarray(sizes[sizes > 0])


def _two_digits(number: float) -> str:
    return f"{float(f'{number:.2g}'):,.0f}"

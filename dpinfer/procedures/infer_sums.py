"""Results from one release of sums in cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.errors import InferenceError
from dpinfer.inference.moment_inference import MomentInference
from dpinfer.inference.released import Released
from dpinfer.procedures.conditions import where_notes
from dpinfer.procedures.described import describe
from dpinfer.procedures.stored import context_of
from dpinfer.procedures.sum_plan import MOMENTS
from dpinfer.results.descriptions import DescriptionResults, ProportionResults, TableResults
from dpinfer.results.people import alike_flags, separate_flags

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dpinfer.inference.moments import Estimates
    from dpinfer.procedures.described import Described
    from dpinfer.procedures.sum_plan import SumPlan
    from dpinfer.release import Release
    from dpinfer.results.descriptions import CountedTable

    Array = NDArray[np.float64]

__all__ = ["infer_sums"]

_TITLES = {
    "cov": "covariance",
    "corr": "correlation",
    "multinormal": "multivariate normal",
    **dict.fromkeys(("table", "histogram"), "count"),
}


def infer_sums(
    release: Release,
    plan: SumPlan,
    *,
    columns: Sequence[str] | None = None,
    target: str | None = None,
    inference: str = "auto",
    replicates: int = 999,
    seed: int = 0,
    table: CountedTable | None = None,
    estimated: Callable[[Released], tuple[Estimates, Described]] | None = None,
) -> DescriptionResults:
    """Infer what a plan asks for from a release of its sums.

    The kind of the plan says whether counts or shares of a table are asked for. ``columns`` are the axes of the table
    that are kept. ``table`` answers further questions. ``estimated`` estimates what `describe` does not.

    Raises
    ------
    InferenceError
        If the release holds no sums for sampling errors, and they are needed.
    MissingFromReleaseError
        If a column is not in the table.
    """
    chosen = plan.target if target is None else target
    normal = plan.kind == "multinormal"  # whose sampling errors follow from the model
    if chosen == "population" and plan.target == "data" and plan.kind in MOMENTS and not normal:
        raise InferenceError(
            'the release was measured with target="data": it holds no sums for sampling errors; measure with '
            'target="population"'
        )
    released = Released.of_release(release, context_of(release), plan.rows)
    if estimated is None:
        estimates, described = describe(plan, released, target=chosen, columns=columns)
    else:
        estimates, described = estimated(released)
    title = _TITLES.get(plan.kind, plan.kind)
    sizes = None
    if title not in ("total", "count") and not normal:
        rows = estimates.size[0] * _rows_of_one(plan)
        sizes = pd.Series(np.repeat(rows, len(described.quantities)), index=described.index)
    exact = release.nobs is not None and plan.rows.keeps_every_row
    found = MomentInference(
        estimates=estimates,
        names=described.names,
        shift=described.shift,
        factor=described.factor,
        nobs=float(release.nobs) if exact and release.nobs is not None else _rows(plan, release.array),
        nobs_is_public=exact,
        method="score" if inference == "auto" else inference,
        target=chosen,
        law=release.law,
        steps=released.steps,
        replicates=replicates,
        seed=seed,
        labels=described.labels,
        notes=_flags(plan, chosen, estimates.size.shape[1]),
    )
    shown: dict[str, Any] = {
        "model_name": f"Private {title}",
        "response": _response(plan, columns),
        "notes": _notes(plan),
        "quantity": "estimate" if normal else title,
        "index": described.index,
        "sizes": sizes,
    }
    if title == "count":
        return TableResults(found, release, table=table, **shown)
    return (ProportionResults if title == "proportion" else DescriptionResults)(found, release, **shown)


def _response(plan: SumPlan, columns: Sequence[str] | None) -> str:
    if plan.kind in MOMENTS:
        return ", ".join(expression.text for expression in plan.expressions)
    names = [axis.name for axis in plan.cells] if columns is None else list(columns)
    if plan.kind == "proportion":
        return names[-1]
    return " x ".join(names) or "rows"


def _rows(plan: SumPlan, array: Array) -> float | None:
    """Noisy number of rows in all cells, where it is released."""
    if not plan.rows.counted:
        return None
    return float(array.reshape(plan.rows.size, -1)[:, 0].sum()) * _rows_of_one(plan)


def _rows_of_one(plan: SumPlan) -> int:
    """Rows that the number 1 in the sums stands for."""
    return plan.schema.rows_per_unit if plan.by_person else 1


def _flags(plan: SumPlan, target: str, groups: int) -> tuple[str, ...]:
    return (
        *(() if plan.by_person else alike_flags(plan.schema, target)),
        *separate_flags(plan.schema, groups, target),
    )


def _notes(plan: SumPlan) -> tuple[str, ...]:
    notes = where_notes(plan.where)
    if plan.weights:
        notes.append(f"Rows are weighted by {plan.weights}.")
    if plan.kind == "multinormal":
        notes.append(
            f"The statistics are of clamped values ({plan.clamping}), and so is their expectation under the model."
        )
    elif plan.kind in MOMENTS:
        notes.append(
            f"Values are clamped to their declared bounds ({plan.clamping}): what is estimated is that of clamped "
            "values."
        )
    return tuple(notes)

"""Noisy counts of the cells of some factors, with the law of their noise, from whatever was released."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import MissingFromReleaseError, ReleaseFormatError
from dpinfer.inference.cell_noise import CellNoise
from dpinfer.inference.combination import CombinedNoise, added_noise
from dpinfer.inference.linear_noise import LinearNoise
from dpinfer.inference.loglinear import LogLinearModel
from dpinfer.inference.testing.count_noise import CountNoise
from dpinfer.procedures.described import counts_of_table
from dpinfer.procedures.joint_table import NOWHERE
from dpinfer.release import NoiseLaw
from dpinfer.schema.cell_design import CellTable, check_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpinfer.procedures.marginal_tables import MarginalTables
    from dpinfer.procedures.sum_plan import SumPlan
    from dpinfer.results.combined import CombinedResults

    Array = NDArray[np.float64]

__all__ = [
    "NoisyCells",
    "cells_of_combined",
    "cells_of_marginals",
    "cells_of_table",
    "count_noise",
    "factors_of_combined",
]


@dataclass(frozen=True, eq=False)
class NoisyCells:
    """Noisy counts of R tables of the same cells.

    Attributes
    ----------
    table : CellTable
        The factors and their levels.
    values : ndarray (R, d)
    noise : CellNoise
    nobs : int or None
        The number of rows in all cells, where it is public and not 0.
    """

    table: CellTable
    values: Array
    noise: CellNoise
    nobs: int | None

    def model(
        self, design: Array, kept: NDArray[np.bool_], *, population: bool, robust: bool
    ) -> tuple[LogLinearModel, Array]:
        """Return the model of the cells kept (d,), and their counts, moved to add up to a public number of rows."""
        values, noise = self.values[:, kept], self.noise.of_cells(kept)
        if self.nobs is not None:
            values = values + (self.nobs - values.sum(axis=1, keepdims=True)) / values.shape[1]
            noise = noise.centred()
        nobs = None if self.nobs is None else float(self.nobs)
        return LogLinearModel(design, noise, nobs, population, robust), values


def count_noise(law: NoiseLaw, steps: Sequence[float], together: int) -> CountNoise:
    """Noise of counts, each the sum of ``together`` released ones.

    Raises
    ------
    ReleaseFormatError
    """
    scale = law.scales[0]
    if scale <= 0 or len(set(law.scales)) > 1:
        raise ReleaseFormatError("the release is damaged: counts of a table carry noise of one scale")
    if law.family not in ("gaussian", "laplace") or len(set(steps)) > 1:
        raise ReleaseFormatError(
            "the release is damaged: counts of a table carry noise of one law, in steps of one size"
        )
    return CountNoise(NoiseLaw(law.family, (scale,), law.draws), steps[0], together)


def cells_of_table(
    plan: SumPlan, values: Array, law: NoiseLaw, steps: Sequence[float], names: Sequence[str] | None, nobs: int | None
) -> NoisyCells:
    """Return the cells of some axes of released tables (R, m), by default of all.

    ``nobs`` is the number of rows where it is public.

    Raises
    ------
    MissingFromReleaseError, ReleaseFormatError
    """
    axes, counts = counts_of_table(plan, values, names)
    table = CellTable(tuple(axis.name for axis in axes), tuple(axis.labels for axis in axes))
    noise = CellNoise(count_noise(law, steps, counts.shape[-1]), table.size)
    return NoisyCells(table, counts.sum(axis=-1), noise, (nobs if plan.rows.keeps_every_row else None) or None)


def cells_of_marginals(tables: MarginalTables, names: Sequence[str]) -> NoisyCells:
    """Return the cells of some columns that one marginal holds, with the noise that they share.

    The noise variables are those that were drawn: contrasts, or sums of counts.

    Raises
    ------
    MissingFromReleaseError
        If no marginal holds them together.
    OptionError
        If the cells are too many for a model.
    """
    try:
        axes = tables.axes(names)
    except MissingFromReleaseError as error:
        listed = ", ".join(repr(name) for name in names)
        raise MissingFromReleaseError(
            f"{error}. A log-linear model is not made up from several marginals: dpi.table([{listed}]), or a marginal "
            "of all these factors, would serve"
        ) from error
    table = CellTable(tuple(axis.name for axis in axes), tuple(axis.labels for axis in axes))
    check_size(table.size, 1)
    sources = tables.found.sources(tables.subset(names))
    law = CombinedNoise(tuple(added_noise(one.law, one.steps, one.together) for one in sources))
    noise = CellNoise(law, table.size, np.hstack([one.basis for one in sources]))
    return NoisyCells(table, tables.unbiased(names)[None], noise, tables.nobs or None)


def factors_of_combined(combined: CombinedResults) -> tuple[str, ...]:
    """Return the factors of the joint table of combined releases.

    Raises
    ------
    MissingFromReleaseError
        If the releases do not determine its cells.
    """
    if not isinstance(combined.inference, LinearNoise) or combined.quantity != "count" or not combined.index.names[0]:
        raise MissingFromReleaseError("the combined releases do not determine the cells of one table of counts")
    return tuple(str(name) for name in combined.index.names)


def cells_of_combined(combined: CombinedResults, names: Sequence[str]) -> NoisyCells:
    """Return the cells of some of the `factors_of_combined`."""
    found, chosen = combined.inference, list(names)
    assert isinstance(found, LinearNoise)  # `factors_of_combined` refuses others
    labels = tuple(
        tuple(one for one in dict.fromkeys(combined.index.get_level_values(name)) if one != NOWHERE) for name in chosen
    )
    table = CellTable(tuple(chosen), labels)
    places = {cell: place for place, cell in enumerate(_cells_of(labels))}
    joining = np.zeros((table.size, len(combined.index)))
    rows = zip(*(combined.index.get_level_values(name) for name in chosen), strict=True)
    for column, cell in enumerate(rows):
        if cell in places:  # rows without a value in a column are in no cell of it
            joining[places[cell], column] = 1.0
    whole = found.nobs_is_public and bool(joining.any(axis=0).all())
    nobs = round(found.nobs) if whole and found.nobs is not None else None
    noise = CellNoise(found.noise, table.size, joining @ found.mixing)
    return NoisyCells(table, (joining @ found.params)[None], noise, nobs or None)


def _cells_of(labels: Sequence[Sequence[object]]) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = [()]
    for some in labels:
        found = [(*cell, label) for cell in found for label in some]
    return found

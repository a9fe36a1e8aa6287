"""Tables without negative cells that agree with each other, for display."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.marginals import parts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.inference.marginals import CenteredMargins, Subset
    from dpinfer.numerics.arrays import Array

__all__ = ["nonnegative"]

_ROUNDS, _CLOSE = 2_000, 1e-3


def nonnegative(found: CenteredMargins, workload: Sequence[Subset]) -> CenteredMargins:
    """Move marginals of one release to near ones without negative cells, of the same noisy total.

    Each marginal in turn is moved to the nearest table of not negative cells with the total, and all marginals that
    share a margin with it move along, until no cell is below a thousandth of a row under zero.
    """
    centered = {part: table.copy() for part, table in found.centered.items()}
    total = max(float(centered[()][0, 0]), 0.0)
    centered[()] = np.array([[total]])
    moved = replace(found, centered=centered)
    for _ in range(_ROUNDS):
        worst = 0.0
        for subset in workload:
            table = moved.table(subset)[0]
            worst = min(worst, float(table.min()))
            if table.min() < 0:
                _add(centered, _simplex(table, total) - table, subset, found.shape)
        if worst > -_CLOSE:
            break
    return moved


def _add(centered: dict[Subset, Array], change: Array, subset: Subset, shape: tuple[int, ...]) -> None:
    """Add a change of the cells of a marginal to all centred margins that it holds."""
    table = change.reshape([shape[i] for i in subset])
    for part in parts_of(subset)[1:]:
        margin = table.sum(axis=tuple(place for place, i in enumerate(subset) if i not in part))
        for axis in range(margin.ndim):
            margin = margin - margin.mean(axis=axis, keepdims=True)
        centered[part] += margin.ravel()


def _simplex(table: Array, total: float) -> Array:
    """Nearest table of not negative cells with a given sum."""
    ordered = np.sort(table)[::-1]
    excess = np.cumsum(ordered) - total
    count = np.arange(1, table.size + 1)
    last = int(np.flatnonzero(ordered * count - excess >= 0)[-1])
    return np.asarray(np.maximum(table - excess[last] / count[last], 0.0))

"""Levels of factors that too few rows have, and what is left of a regression by rounds without them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import MissingFromReleaseError
from dpinfer.schema.columns import Category
from dpinfer.schema.level_maps import level_indicators

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array
    from dpinfer.procedures.newton_columns import NewtonColumns

__all__ = ["Kept", "levels_of", "without_levels"]

_ALIKE = 1e-6
"""Columns that are this close to a combination of others, of size 1, are one."""


@dataclass(frozen=True, eq=False)
class Kept:
    """What is left of a regression without the rows of some levels.

    Attributes
    ----------
    skipped : tuple of (str, int)
        Columns and places of levels.
    basis : ndarray (p, k)
        Its transpose times the coordinates u of the start are k others, the first of them 1 where there is an
        intercept, in which all regressors are linear in the rows that are kept.
    unknown : ndarray (m, p)
        Combinations of the regressors that are 0 in all rows that are kept, each of size 1.
    """

    skipped: tuple[tuple[str, int], ...]
    basis: Array
    unknown: Array

    @classmethod
    def all(cls, width: int) -> Kept:
        """Nothing is left out."""
        return cls((), np.eye(width), np.zeros((0, width)))


def levels_of(columns: NewtonColumns) -> dict[str, Array]:
    """Return for each factor the numbers (L, p) that make the indicators of its levels of the regressors.

    A factor whose levels are no combinations of the regressors, as it is met in interactions alone, is left out.
    """
    found = {}
    regressors = columns.maps[:-1]
    for name in columns.compiled.columns:
        if not isinstance(columns.schema[name], Category):
            continue
        try:
            indicators = level_indicators(columns.basis, name)
        except MissingFromReleaseError:
            continue
        weights: Array = np.asarray(np.linalg.lstsq(regressors.T, indicators.T, rcond=None)[0].T, dtype=np.float64)
        if np.abs(weights @ regressors - indicators).max() < _ALIKE:
            found[name] = weights
    return found


def without_levels(columns: NewtonColumns, transform: Array, rows: Array, skipped: tuple[tuple[str, int], ...]) -> Kept:
    """Return what is left without some levels; ``rows`` (p, m) are regressors of public rows with every level."""
    if not skipped:
        return Kept.all(len(transform))
    levels = levels_of(columns)
    gone = np.zeros(rows.shape[1], dtype=bool)
    for name, place in skipped:
        gone |= levels[name][place] @ rows > 0.5
    found = transform @ rows[:, ~gone]
    vectors, sizes, _ = np.linalg.svd(found / np.sqrt(max(found.shape[1], 1)), full_matrices=True)
    sizes = np.concatenate([sizes, np.zeros(len(vectors) - len(sizes))])
    there = sizes > _ALIKE * max(float(sizes.max()), 1e-300)
    unknown = vectors[:, ~there].T @ transform
    basis = vectors[:, there]
    if columns.intercept:  # the first coordinate stays the number 1
        first = basis @ basis[0]
        apart = basis - np.outer(first, first @ basis) / float(first @ first)
        basis = np.column_stack([first, np.linalg.svd(apart)[0][:, : basis.shape[1] - 1]])
    return Kept(skipped, basis, unknown / np.abs(unknown).max(axis=1, keepdims=True))

"""Estimates of means, totals, variances, covariances, correlations, shares and counts from many releases of sums."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dpinfer.errors import MissingFromReleaseError, named
from dpinfer.inference.moment_estimates import correlations, covariances, means, proportions, totals, variances
from dpinfer.inference.moments import Estimates, MomentSums
from dpinfer.inference.noise_sums import NoiseSums, variables_of
from dpinfer.procedures.sum_plan import TABLES, SumPlan
from dpinfer.release.laws import NORMAL_DRAWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpinfer.inference.released import Released
    from dpinfer.schema.axes import Axis

    Array = NDArray[np.float64]

__all__ = ["MOST_ESTIMATES", "Described", "counts_of_table", "describe", "levels_shown"]


MOST_ESTIMATES = 4000
"""Estimates that results may hold with all their covariances."""


class Described:
    """What a plan asks for, as numbers that any release of it shares.

    Attributes
    ----------
    names : tuple of str, length p
    shift, factor : ndarray (q,)
        From scaled units to the columns' own.
    index : Index
        Labels of the parameters.
    """

    def __init__(self, plan: SumPlan, quantities: Sequence[str], axes: Sequence[Axis]) -> None:
        self.quantities = tuple(quantities)
        self.labels = _cell_labels(axes)
        self.names = tuple(
            f"{quantity}[{label}]" if label else quantity for label in self.labels for quantity in self.quantities
        )
        self.shift, self.factor = _units(plan, len(self.quantities))
        self.index = _index(axes, self.quantities)


def describe(
    plan: SumPlan, released: Released, *, target: str, columns: Sequence[str] | None = None
) -> tuple[Estimates, Described]:
    """Estimate what a plan asks for from R releases of its sums.

    A table is summed over all axes but ``columns``, by default over none.

    Raises
    ------
    MissingFromReleaseError
        If the table has no such axis.
    """
    population = target == "population"
    public = released.nobs if released.nobs is not None and plan.rows.keeps_every_row else None
    if plan.kind in TABLES:
        return _describe_counts(plan, released, columns, public, population=population)
    sums = plan.moment_sums(released.values, released.law, released.steps)
    if plan.kind == "total":
        least = 0.0 if all(expression.lower >= 0 for expression in plan.expressions) else -np.inf
        found = totals(sums, population=population, nobs=public, lower=least, counts=False)
    else:
        found = _ESTIMATES[plan.kind](sums, population=population)
    return found, Described(plan, plan.quantities, plan.cells)


_ESTIMATES = {
    "mean": means,
    "variance": variances,
    "cov": covariances,
    "corr": correlations,
}


def _describe_counts(
    plan: SumPlan, released: Released, columns: Sequence[str] | None, public: int | None, *, population: bool
) -> tuple[Estimates, Described]:
    """Estimate counts, or shares of the levels of the last axis."""
    axes, counts = counts_of_table(plan, released.values, columns)
    law, most, together = released.law, plan.schema.rows_per_unit, counts.shape[-1]
    laplace = law.family == "laplace" and law.draws < NORMAL_DRAWS
    noise = released.noise_variances[: together * (len(axes[-1].labels) if axes else 1)]
    if plan.kind == "proportion":
        sums = replace(_level_sums(counts, noise, axes[-1], public, laplace=laplace), rows_per_unit=most)
        return proportions(sums, population=population), Described(plan, levels_shown(axes[-1]), axes[:-1])
    counted, ones = counts.sum(axis=-1, keepdims=True), np.ones((1, together))
    sums = MomentSums(((0,),), counted, ones, noise[:together], laplace, rows_per_unit=most)
    found = totals(sums, population=population, nobs=public, lower=0.0, counts=True)
    if not population:
        factors = found.mixing[:1, :1] * released.steps[:together]
        found = replace(found, alone=NoiseSums(factors, variables_of(law)[:together]))
    return found, Described(plan, ["count"], axes)


def _units(plan: SumPlan, width: int) -> tuple[Array, Array]:
    """Shift and factor of each quantity, from scaled units to those of the columns."""
    center, half = plan.scaled
    if plan.kind == "mean":
        return center, half
    shift, factor = np.zeros(width), np.ones(width)
    if plan.kind == "multinormal":
        shift[: len(center)] = center
        factor[: 2 * len(half)] = np.tile(half, 2)
    elif plan.by_person:  # people are summed as parts of one with all rows
        factor = np.full(width, float(plan.schema.rows_per_unit))
    elif plan.kind == "variance":
        factor = half**2
    elif plan.kind == "cov":
        first, second = np.triu_indices(len(half))
        factor = half[first] * half[second]
    return shift, factor


def counts_of_table(plan: SumPlan, values: Array, columns: Sequence[str] | None) -> tuple[tuple[Axis, ...], Array]:
    """Arrange counts by the cells of some axes, in the order named (R, G, k): k released counts make up one.

    Raises
    ------
    MissingFromReleaseError
        If the table has no such axis.
    """
    axes = plan.cells
    names = [axis.name for axis in axes]
    chosen = names if columns is None else list(columns)
    unknown = [column for column in chosen if column not in names]
    if unknown or len(set(chosen)) < len(chosen):
        told = ", ".join(map(named, unknown or chosen))
        raise MissingFromReleaseError(f"the table has no {told}; it is of {', '.join(names) or 'rows'}, each once")
    keep = [names.index(column) for column in chosen]
    rest = [place for place in range(len(names)) if place not in keep]
    table = values.reshape(len(values), *plan.rows.shape).transpose(0, *(place + 1 for place in (*keep, *rest)))
    cells = int(np.prod([len(axes[place].labels) for place in keep], dtype=np.int64))
    return tuple(axes[place] for place in keep), table.reshape(len(values), cells, -1)


def levels_shown(axis: Axis) -> list[str]:
    """Names of the shares of an axis: of two truth values only that of True."""
    if axis.labels == (False, True):
        return [axis.name]
    return [f"{axis.name}={label}" for label in axis.labels]


def _level_sums(counts: Array, noise: Array, axis: Axis, public: int | None, *, laplace: bool) -> MomentSums:
    """Write counts of levels (the last axis kept) as sums of indicators, and their total.

    Where the number of rows is public and there is one group, the counts are moved to add up to it: their
    noisy total then tells something about the noise.
    """
    levels, truth, together = len(axis.labels), axis.labels == (False, True), counts.shape[-1]
    grouped = counts.reshape(len(counts), -1, levels * together)
    known = public is not None and grouped.shape[1] == 1
    top, bottom = np.eye(levels), np.ones((1, levels))
    if known:
        top, bottom = top - 1.0 / levels, np.zeros((1, levels))
    mixing = np.kron(np.vstack([bottom, top[1:] if truth else top]), np.ones((1, together))).astype(np.float64)
    sums = grouped @ mixing.T
    if known:
        sums += np.array([float(public or 0), *[float(public or 0) / levels] * (len(mixing) - 1)])
    width = len(mixing) - 1
    exponents = [(0,) * (width + 1), *(tuple(int(i == j) for j in range(width + 1)) for i in range(width))]
    return MomentSums(tuple(exponents), sums, mixing, noise, laplace)


def _cell_labels(axes: Sequence[Axis]) -> tuple[str, ...]:
    found = [""]
    for axis in axes:
        found = [
            f"{one}, {axis.name}={label}" if one else f"{axis.name}={label}" for one in found for label in axis.labels
        ]
    return tuple(found)


def _index(axes: Sequence[Axis], quantities: Sequence[str]) -> pd.Index:
    """Labels of the parameters: groups, with the quantity first where there are several or no groups."""
    levels = [list(axis.labels) for axis in axes]
    names = [axis.name for axis in axes]
    if not axes:
        return pd.Index(list(quantities))
    if len(quantities) > 1:
        return pd.MultiIndex.from_product([*levels, list(quantities)], names=[*names, "quantity"])
    return pd.MultiIndex.from_product(levels, names=names) if len(axes) > 1 else pd.Index(levels[0], name=names[0])

"""Results for quantiles, read from a noisy distribution by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.errors import OptionError
from dpinfer.inference.quantiles import QuantileInference
from dpinfer.results.descriptions import DescriptionResults

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.inference.distribution import Tree
    from dpinfer.release import Release

    Array = NDArray[np.float64]

__all__ = ["Distribution", "quantile_results", "read_probabilities"]


@dataclass(frozen=True, eq=False)
class Distribution:
    """The noisy distribution of a column by group, with the names that tables use.

    Attributes
    ----------
    column : str
    trees : tuple of Tree
        Consistent counts, one tree for each group.
    leaves : int
        Leaves of each tree.
    step : float
        Whole numbers in one leaf; 0 for a Real column.
    groups : tuple of str
        Columns or conditions that define the groups.
    labels : tuple of tuple
        Label of each group: one value for each of ``groups``.
    rows_per_unit : int
        Rows that one unit of protection may have.
    nobs_is_public : bool
    where : str or None
        Condition on the rows.
    """

    column: str
    trees: tuple[Tree, ...]
    leaves: int
    step: float
    groups: tuple[str, ...]
    labels: tuple[tuple[Any, ...], ...]
    rows_per_unit: int
    nobs_is_public: bool
    where: str | None = None

    @property
    def names(self) -> list[str]:
        """What each group is called; an empty text where there are no groups."""
        return [
            ", ".join(f"{group}={one}" for group, one in zip(self.groups, label, strict=True)) for label in self.labels
        ]


def quantile_results(
    distribution: Distribution,
    release: Release,
    probabilities: tuple[float, ...],
    *,
    selected: Array | None = None,
    inference: str = "auto",
    target: str = "population",
    continuous: bool = False,
) -> DescriptionResults:
    """Infer quantiles from a distribution.

    Parameters
    ----------
    distribution : Distribution
    release : Release
        Where it comes from.
    probabilities : tuple of float, length k
    selected : ndarray (groups, k), optional
        Quantiles that the exponential mechanism chose.
    inference, target, continuous
        As in `dpinfer.quantile`.

    Returns
    -------
    DescriptionResults
    """
    index, names = _index(distribution, probabilities)
    found = QuantileInference(
        distribution.trees,
        np.array(probabilities),
        names,
        step=distribution.step,
        selected=selected,
        method="score" if inference == "auto" else inference,
        target=target,
        dependence=distribution.rows_per_unit,
        continuous=continuous,
        nobs_is_public=distribution.nobs_is_public,
    )
    notes = [f"Rows: {distribution.where}."] if distribution.where else []
    if selected is not None:
        notes.append("Quantiles were chosen by the exponential mechanism, intervals come from a noisy tree of counts.")
    return DescriptionResults(
        found,
        release,
        model_name="Private quantiles",
        response=distribution.column,
        notes=notes,
        quantity="quantile",
        index=index,
        sizes=pd.Series(np.repeat([tree.total for tree in distribution.trees], len(probabilities))),
    )


def read_probabilities(q: object) -> tuple[float, ...]:
    """Read probabilities: one number or several.

    Raises
    ------
    OptionError
        If there is none, one twice, or one is no number in [0, 1].
    """
    right = "a probability from 0 to 1, or a list of different ones"
    listed = list(q) if isinstance(q, Sequence | np.ndarray | pd.Series) and not isinstance(q, str) else [q]
    numbers = [isinstance(p, int | float | np.integer | np.floating) and not isinstance(p, bool) for p in listed]
    if not listed or not all(numbers) or not all(0 <= p <= 1 for p in listed):  # type: ignore[operator]
        raise OptionError("q", q, right)
    found = tuple(float(p) for p in listed)  # type: ignore[arg-type]
    if len(set(found)) < len(found):
        raise OptionError("q", q, right)
    return found


def _index(distribution: Distribution, probabilities: tuple[float, ...]) -> tuple[pd.Index, tuple[str, ...]]:
    """Label every quantile, and name it."""
    names, keys = [], []
    for label, said in zip(distribution.labels, distribution.names, strict=True):
        for p in probabilities:
            names.append(f"{p:g}[{said}]" if said else f"{p:g}")
            keys.append((*label, p))
    if not distribution.groups:
        return pd.Index([key[0] for key in keys], name="q"), tuple(names)
    return pd.MultiIndex.from_tuples(keys, names=[*distribution.groups, "q"]), tuple(names)

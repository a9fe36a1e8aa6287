"""Quantiles and distribution functions: the public question, and results from its releases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.errors import DPInferError, InferenceError, OptionError, ReleaseFormatError
from dpinfer.inference.distribution import Tree, fit_tree
from dpinfer.inference.quantiles import METHODS, TARGETS, QuantileInference
from dpinfer.kernel.rows.tree import MOST_LEAVES, PointRows, TreeSum
from dpinfer.release import Release, register_inference
from dpinfer.results.descriptions import DescriptionResults
from dpinfer.procedures.sum_plan import refuse_damaged
from dpinfer.schema.axes import axis_from_dict, compile_condition
from dpinfer.schema.columns import Integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["RANKS", "DistributionQuestion", "infer_quantiles", "read_probabilities", "trees_of"]

RANKS = 2**20
"""Probabilities are rounded to multiples of one over this where a quantile is chosen."""


_LEAST_VARIANCE = 1e-12
"""Of noise that is there: at a huge price it may vanish in floating point."""


@dataclass(frozen=True, eq=False)
class DistributionQuestion:
    """Whose distribution is asked for, and which of its quantiles.

    Attributes
    ----------
    schema : Schema
    column : str
    leaves : int
        Leaves of the tree, a power of two.
    axes : tuple of mapping
        Groups, as `Axis.to_dict` writes them.
    where : str, optional
    probabilities : tuple of float
        Of the quantiles that are asked for; empty for the distribution function.
    chosen : bool
        Whether quantiles are chosen by the exponential mechanism.
    options : mapping
        Default options of the inference.
    """

    schema: Schema
    column: str
    leaves: int
    axes: tuple[Mapping[str, Any], ...] = ()
    where: str | None = None
    probabilities: tuple[float, ...] = ()
    chosen: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def tree(self) -> TreeSum:
        """The row function of the tree.

        Raises
        ------
        OptionError, SchemaError, FormulaError, UnknownColumnError
            If the column or the groups cannot be served from the schema.
        """
        right = f"a power of two from 2 to {MOST_LEAVES:,}"
        if type(self.leaves) is not int or not 2 <= self.leaves <= MOST_LEAVES or self.leaves & (self.leaves - 1):
            raise OptionError("resolution", self.leaves, right)
        groups = tuple(axis_from_dict(axis, self.schema) for axis in self.axes)
        condition = None if self.where is None else compile_condition(self.where, self.schema)
        found = TreeSum(self.schema, self.column, self.leaves, groups, condition)
        found.check()
        return found

    @property
    def points(self) -> PointRows:
        """The grid that quantiles are chosen on."""
        return PointRows(self.tree)

    @property
    def exact(self) -> tuple[Fraction, ...]:
        """The probabilities as they are measured."""
        return tuple(Fraction(round(p * RANKS), RANKS) for p in self.probabilities)

    @property
    def text(self) -> str:
        """The question in one line."""
        shown = [f"{p:g}" for p in self.probabilities[:5]] + (["..."] if len(self.probabilities) > 5 else [])
        said = f"quantile {', '.join(shown)} of" if self.probabilities else "cdf of"
        groups = [axis.name for axis in self.tree.groups]
        said += f" {self.column}" + (f" by {', '.join(groups)}" if groups else "")
        return said + (f", where {self.where}" if self.where else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the question as a JSON-ready mapping."""
        return {
            "text": self.text,
            "asked": "quantile" if self.probabilities else "cdf",
            "column": self.column,
            "leaves": self.leaves,
            "axes": [dict(axis.to_dict()) for axis in self.tree.groups],
            "where": self.where,
            "probabilities": list(self.probabilities),
            "options": dict(self.options),
            "schema": self.schema.select([name for name in self.schema if name in self.tree.columns]).to_dict(),
        }

    @classmethod
    def from_release(cls, release: Release) -> DistributionQuestion:
        """Read the question of a release.

        Raises
        ------
        ReleaseFormatError
            If the question does not fit the sums that the release holds.
        """
        asked = release.question
        try:
            _check_asked(asked)
            question = cls(
                release.schema,
                asked["column"],
                asked["leaves"],
                tuple(asked["axes"]),
                asked["where"],
                tuple(float(p) for p in asked["probabilities"]),
                bool(release.choices),
                asked["options"],
            )
            names = question.tree.names
            _check_choices(release, question)
        except (KeyError, TypeError, ValueError, DPInferError) as error:
            raise ReleaseFormatError(f"the question of the release is damaged: {error}") from error
        if release.names != names or not _right_noise(release, question.tree):
            raise ReleaseFormatError("the sums of the release are not those that its question asks for")
        return question


def _check_asked(asked: Mapping[str, Any]) -> None:
    axes, probabilities = asked["axes"], asked["probabilities"]
    options = asked["options"]
    right = {
        "column": isinstance(asked["column"], str),
        "leaves": type(asked["leaves"]) is int,
        "axes": isinstance(axes, list | tuple) and all(isinstance(axis, Mapping) for axis in axes),
        "where": isinstance(asked["where"], str | None),
        "probabilities": isinstance(probabilities, list | tuple)
        and all(type(p) in (int, float) and 0 <= p <= 1 for p in probabilities),
        "options": isinstance(options, Mapping) and all(isinstance(value, str | bool) for value in options.values()),
    }
    refuse_damaged(right)


def _check_choices(release: Release, question: DistributionQuestion) -> None:
    points = question.points.points
    if len(release.choices) > 1:
        raise ReleaseFormatError("points are chosen once")
    for stage in release.choices:
        right = len(stage.values) == question.tree.size * len(question.probabilities) and stage.law.family == "gumbel"
        if not right or not all(0 <= one < points for one in stage.values):  # noqa: PD011
            raise ReleaseFormatError("the chosen points are none of the grid")


def _right_noise(release: Release, tree: TreeSum) -> bool:
    """Whether noise and steps are those of a tree: the same within a level, and none at a public root alone."""
    scales = np.asarray(release.law.scales).reshape(tree.size, tree.width)
    public = bool(tree.public(release.neighbors)[0])
    noisy = scales[:, 1:] if public else scales
    return bool(
        release.law.family in ("gaussian", "laplace")
        and len(set(release.steps)) == 1
        and (noisy > 0).all()
        and (noisy == noisy[0, -1]).all()
        and (not public or scales[0, 0] == 0)
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


def trees_of(release: Release, question: DistributionQuestion) -> tuple[Tree, ...]:
    """Make the counts of a release consistent: a tree for each group."""
    rows = question.tree
    counts = release.array.reshape(rows.size, rows.width)
    tiny = np.where(np.asarray(release.law.scales) > 0, _LEAST_VARIANCE, 0.0)
    variances = np.maximum(release.noise_variances, tiny).reshape(rows.size, rows.width)
    by_level = np.array([2**level - 1 for level in range(rows.depth + 1)])
    return tuple(
        fit_tree(counts[group], variances[group][by_level], np.asarray(rows.edges)) for group in range(rows.size)
    )


@register_inference("quantile")
def infer_quantiles(
    release: Release,
    *,
    q: object = None,
    inference: str | None = None,
    target: str | None = None,
    continuous: bool | None = None,
) -> DescriptionResults:
    """Infer quantiles from a release that holds a distribution function.

    Parameters
    ----------
    release : Release
    q : float or sequence of float, optional
        Probabilities; by default those that the release was asked for.
    inference : {"auto", "score", "wald"}, optional
    target : {"population", "data"}, optional
    continuous : bool, optional
        Whether no value of a Real column is taken by several rows; see `quantile`.

    Returns
    -------
    DescriptionResults

    Raises
    ------
    InferenceError
        If the release holds something else, or no probabilities are given.
    OptionError
        If an option has no such value.
    ReleaseFormatError
        If the release is damaged.
    """
    if release.kind != "cdf":
        raise InferenceError(f"a release of kind {release.kind!r} holds no distribution function")
    question = DistributionQuestion.from_release(release)
    method = inference or str(question.options.get("inference", "auto"))
    target = target or str(question.options.get("target", "population"))
    if method not in METHODS:
        raise OptionError("inference", method, METHODS)
    if target not in TARGETS:
        raise OptionError("target", target, TARGETS)
    if continuous not in (None, True, False):
        raise OptionError("continuous", continuous, "True or False")
    probabilities = question.probabilities if q is None else read_probabilities(q)
    if not probabilities:
        raise InferenceError("the release holds a distribution function: say which quantiles, with q=")
    rows, selected = question.tree, None
    if question.chosen and probabilities == question.probabilities:
        points = [question.points.value(point) for point in release.choices[0].values]  # noqa: PD011
        selected = np.array(points).reshape(rows.size, len(probabilities))
    index, names = _labels(question, probabilities)
    trees = trees_of(release, question)
    found = QuantileInference(
        trees,
        np.array(probabilities),
        names,
        step=whole_step(question),
        selected=selected,
        method="score" if method == "auto" else method,
        target=target,
        dependence=question.schema.rows_per_unit,
        continuous=bool(question.options.get("continuous", False)) if continuous is None else continuous,
        nobs_is_public=bool(rows.public(release.neighbors)[0]),
    )
    notes = [f"Rows: {question.where}."] if question.where else []
    if selected is not None:
        notes.append("Quantiles were chosen by the exponential mechanism, intervals come from a noisy tree of counts.")
    sizes = np.repeat([tree.total for tree in trees], len(probabilities))
    return DescriptionResults(
        found,
        release,
        model_name="Private quantiles",
        response=question.column,
        notes=notes,
        quantity="quantile",
        index=index,
        sizes=pd.Series(sizes),
    )


def whole_step(question: DistributionQuestion) -> float:
    """Whole numbers in one leaf; 0 for a Real."""
    column = question.schema[question.column]
    if not isinstance(column, Integer):
        return 0.0
    return float(-(-(column.width + 1) // question.leaves))


def _labels(question: DistributionQuestion, probabilities: Sequence[float]) -> tuple[pd.Index, tuple[str, ...]]:
    groups = question.tree.groups
    names, keys = [], []
    for label in question.tree.labels:
        said = ", ".join(f"{axis.name}={one}" for axis, one in zip(groups, label, strict=True))
        for p in probabilities:
            names.append(f"{p:g}[{said}]" if said else f"{p:g}")
            keys.append((*label, p))
    if not groups:
        return pd.Index([key[0] for key in keys], name="q"), tuple(names)
    return pd.MultiIndex.from_tuples(keys, names=[*(axis.name for axis in groups), "q"]), tuple(names)

"""From releases of sums in cells to results: means, totals, variances, covariances, correlations, shares, counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.errors import InferenceError, MissingFromReleaseError, OptionError
from dpinfer.inference.moment_estimates import correlations, covariances, means, proportions, totals, variances
from dpinfer.inference.moment_inference import METHODS, TARGETS, MomentInference
from dpinfer.inference.moments import Estimates, MomentSums
from dpinfer.release import Release, register_inference
from dpinfer.release.laws import NORMAL_DRAWS
from dpinfer.results.descriptions import DescriptionResults
from dpinfer.results.people import alike_flags, separate_flags
from dpinfer.procedures.sum_plan import MOMENTS, TABLES, SumPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpinfer.release import NoiseLaw
    from dpinfer.schema.axes import Axis

    Array = NDArray[np.float64]

__all__ = [
    "Described",
    "ProportionResults",
    "TableResults",
    "counts_of_table",
    "describe",
    "infer_description",
    "infer_proportions",
    "infer_table",
]


class Described:
    """What a question asks for, as numbers that any release of it shares.

    Attributes
    ----------
    names : tuple of str, length p
    shift, factor : ndarray (q,)
        From scaled units to the columns' own.
    index : Index
        Labels of the parameters.
    """

    def __init__(self, question: SumPlan, quantities: Sequence[str], axes: Sequence[Axis]) -> None:
        self.question, self.quantities = question, tuple(quantities)
        self.labels = _cell_labels(axes)
        self.names = tuple(
            f"{quantity}[{label}]" if label else quantity for label in self.labels for quantity in self.quantities
        )
        self.shift, self.factor = _units(question, len(self.quantities))
        self.index = _index(axes, self.quantities)


def describe(  # noqa: PLR0911  (a return for each kind)
    question: SumPlan,
    values: Array,
    *,
    law: NoiseLaw,
    steps: Array,
    nobs: int | None,
    target: str,
    columns: Sequence[str] | None = None,
) -> tuple[Estimates, Described]:
    """Estimate what a question asks for from R releases.

    Parameters
    ----------
    question : SumPlan
    values : ndarray (R, m)
        Noisy sums, in units of the scaled features.
    law : NoiseLaw
    steps : ndarray (m,)
    nobs : int or None
        The number of rows where it is public.
    target : {"population", "data"}
    columns : sequence of str, optional
        Of a table: the axes that are kept, the others being summed over; all of them by default.

    Returns
    -------
    Estimates, Described
    """
    population = target == "population"
    public = nobs if nobs is not None and question.rows.keeps_every_row else None
    most = question.schema.rows_per_unit
    if question.kind in TABLES:
        axes, counts = counts_of_table(question, values, columns)
        noise = (law.variances * steps**2)[: counts.shape[-1] * (len(axes[-1].labels) if axes else 1)]
        single = law.family == "laplace" and law.draws < NORMAL_DRAWS
        if question.kind == "proportion":
            sums = _level_sums(counts, noise, axes[-1], public, laplace=single)
            sums = replace(sums, rows_per_unit=most)
            named = _levels_shown(axes[-1])
            return proportions(sums, population=population), Described(question, named, axes[:-1])
        together = counts.shape[-1]
        counted, ones = counts.sum(axis=-1, keepdims=True), np.ones((1, together))
        sums = MomentSums(((0,),), counted, ones, noise[:together], single, rows_per_unit=most)
        found = totals(sums, population=population, nobs=public, lower=0.0, counts=True)
        return found, Described(question, ["count"], axes)
    sums = question.moment_sums(values, law, steps)
    texts = [expression.text for expression in question.expressions]
    if question.kind == "mean":
        return means(sums, population=population), Described(question, texts, question.cells)
    if question.kind == "variance":
        return variances(sums, population=population), Described(question, texts, question.cells)
    if question.kind == "total":
        least = 0.0 if all(expression.lower >= 0 for expression in question.expressions) else -np.inf
        found = totals(sums, population=population, nobs=public, lower=least, counts=False)
        return found, Described(question, texts, question.cells)
    pairs = [(i, j) for i in range(len(texts)) for j in range(i, len(texts))]
    if question.kind == "cov":
        named = [f"cov({texts[i]}, {texts[j]})" for i, j in pairs]
        return covariances(sums, population=population), Described(question, named, question.cells)
    named = [f"corr({texts[i]}, {texts[j]})" for i, j in pairs if i < j]
    return correlations(sums, population=population), Described(question, named, question.cells)


def _units(question: SumPlan, width: int) -> tuple[Array, Array]:
    center, half = question.scaled
    if question.kind == "mean":
        return center, half
    if question.by_person:  # people are summed as parts of one with all rows
        return np.zeros(width), np.full(width, float(question.schema.rows_per_unit))
    if question.kind == "variance":
        return np.zeros(width), half**2
    if question.kind == "cov":
        pairs = [half[i] * half[j] for i in range(len(half)) for j in range(i, len(half))]
        return np.zeros(width), np.array(pairs)
    return np.zeros(width), np.ones(width)


def counts_of_table(question: SumPlan, values: Array, columns: Sequence[str] | None) -> tuple[tuple[Axis, ...], Array]:
    """Arrange counts by the cells of some axes, in the order named (R, G, k): k released counts make up one.

    Raises
    ------
    MissingFromReleaseError
        If the table has no such axis.
    """
    axes = question.cells
    names = [axis.name for axis in axes]
    chosen = names if columns is None else list(columns)
    unknown = [column for column in chosen if column not in names]
    if unknown or len(set(chosen)) < len(chosen):
        told = ", ".join(map(repr, unknown or chosen))
        raise MissingFromReleaseError(f"the table has no {told}; it is of {', '.join(names) or 'rows'}, each once")
    keep = [names.index(column) for column in chosen]
    rest = [place for place in range(len(names)) if place not in keep]
    table = values.reshape(len(values), *question.rows.shape).transpose(0, *(place + 1 for place in (*keep, *rest)))
    cells = int(np.prod([len(axes[place].labels) for place in keep], dtype=np.int64))
    return tuple(axes[place] for place in keep), table.reshape(len(values), cells, -1)


def _levels_shown(axis: Axis) -> list[str]:
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


_TITLES = {
    "mean": "mean",
    "variance": "variance",
    "cov": "covariance",
    "corr": "correlation",
    "total": "total",
    "proportion": "proportion",
    "count": "count",
    "table": "count",
    "histogram": "count",
}


def infer_description(
    release: Release,
    *,
    inference: str | None = None,
    target: str | None = None,
    replicates: int | None = None,
    seed: int | None = None,
) -> DescriptionResults:
    """Infer what a release of sums in cells was made for.

    Parameters
    ----------
    release : Release
    inference : {"auto", "score", "wald", "simulated"}, optional
    target : {"population", "data"}, optional
        By default that of the question.
    replicates, seed : int, optional
        For ``inference="simulated"``.

    Returns
    -------
    DescriptionResults

    Raises
    ------
    InferenceError
        If the release holds something else, or sums that do not give what is asked for.
    OptionError
        If an option has no such value.
    """
    question = SumPlan.from_release(release)
    return _results(release, question, None, inference=inference, target=target, replicates=replicates, seed=seed)


def infer_table(release: Release, columns: Sequence[str], **options: Any) -> TableResults:
    """Infer the counts of some columns of a table, summed over the others; options as `infer_description`.

    Raises
    ------
    MissingFromReleaseError
        If a column is not in the table.
    InferenceError
        If the release is no table.
    """
    question = _of_table(release, "table")
    found = _results(release, question, columns, **options)
    assert isinstance(found, TableResults)
    return found


def infer_proportions(release: Release, column: str, by: Sequence[str] = (), **options: Any) -> DescriptionResults:
    """Infer the shares of the levels of a column of a table, in groups of other columns of it.

    Raises
    ------
    MissingFromReleaseError
        If a column is not in the table.
    InferenceError
        If the release is no table.
    """
    return _results(release, _of_table(release, "proportion"), [*by, column], **options)


def _of_table(release: Release, kind: str) -> SumPlan:
    if release.kind not in TABLES:
        raise InferenceError(f"a release of kind {release.kind!r} holds no table of counts")
    question = SumPlan.from_release(release)
    target = "population" if kind == "proportion" else question.target
    return replace(question, kind=kind, target=target)


def _results(release: Release, question: SumPlan, columns: Sequence[str] | None, **given: Any) -> DescriptionResults:
    options = {**question.options, **{name: value for name, value in given.items() if value is not None}}
    target = options.get("target", question.target)
    method = options.get("inference", "auto")
    if target not in TARGETS:
        raise OptionError("target", target, TARGETS)
    if method not in METHODS:
        raise OptionError("inference", method, METHODS)
    if target == "population" and question.target == "data" and question.kind in MOMENTS:
        raise InferenceError(
            'the release was measured with target="data": it holds no sums for sampling errors; measure with '
            'target="population"'
        )
    steps = np.asarray(release.steps)
    estimates, described = describe(
        question,
        release.array[None],
        law=release.law,
        steps=steps,
        nobs=release.nobs,
        target=target,
        columns=columns,
    )
    sizes = None
    if question.kind not in ("total", "count", "table", "histogram"):
        rows = estimates.size[0] * _rows_of_one(question)
        sizes = pd.Series(np.repeat(rows, len(described.quantities)), index=described.index)
    exact = release.nobs is not None and question.rows.keeps_every_row
    nobs = float(release.nobs) if exact and release.nobs is not None else _rows(question, release.array)
    found = MomentInference(
        estimates=estimates,
        names=described.names,
        shift=described.shift,
        factor=described.factor,
        nobs=nobs,
        nobs_is_public=exact,
        method="score" if method == "auto" else method,
        target=target,
        law=release.law,
        steps=steps,
        replicates=int(options.get("replicates", 999)),
        seed=int(options.get("seed", 0)),
        labels=described.labels,
        notes=_flags(question, target, estimates.size.shape[1]),
    )
    title = _TITLES[question.kind]
    kinds = {"proportion": ProportionResults, **dict.fromkeys(("count", "table", "histogram"), TableResults)}
    return kinds.get(question.kind, DescriptionResults)(
        found,
        release,
        model_name=f"Private {title}",
        response=_response(question, columns),
        notes=_notes(question),
        quantity=title,
        index=described.index,
        sizes=sizes,
    )


def _response(question: SumPlan, columns: Sequence[str] | None) -> str:
    if question.kind in MOMENTS:
        return ", ".join(expression.text for expression in question.expressions)
    names = [axis.name for axis in question.cells] if columns is None else list(columns)
    if question.kind == "proportion":
        return names[-1]
    return " x ".join(names) or "rows"


def _rows(question: SumPlan, array: Array) -> float | None:
    """Noisy number of rows in all cells, where it is released."""
    if not question.rows.counted:
        return None
    return float(array.reshape(question.rows.size, -1)[:, 0].sum()) * _rows_of_one(question)


def _rows_of_one(question: SumPlan) -> int:
    """Rows that the number 1 in the sums stands for."""
    return question.schema.rows_per_unit if question.by_person else 1


def _flags(question: SumPlan, target: str, groups: int) -> tuple[str, ...]:
    schema = question.schema
    return (
        *(() if question.by_person else alike_flags(schema, target)),
        *separate_flags(schema, groups, target),
    )


def _notes(question: SumPlan) -> tuple[str, ...]:
    notes = [f"Rows: {question.where}."] if question.where else []
    if question.weights:
        notes.append(f"Rows are weighted by {question.weights}.")
    if question.kind in MOMENTS:
        bounds = ", ".join(f"{e.text} to [{e.lower:.6g}, {e.upper:.6g}]" for e in question.expressions)
        notes.append(
            f"Values are clamped to their declared bounds ({bounds}): what is estimated is that of clamped values."
        )
    return tuple(notes)


class ProportionResults(DescriptionResults):
    """Shares of levels; of one categorical column also as the natural parameters of its family."""

    def natural_params(self) -> pd.DataFrame:
        """Return log odds: of truth, or of each level against the first; by the delta method.

        Returns
        -------
        DataFrame
            Columns "estimate" and "std err" (sampling and noise).

        Raises
        ------
        InferenceError
            In groups, or where a share was moved to 0 or 1: its log odds are then infinite.
        """
        shares = self.params.to_numpy()
        total = self._inference.cov_sampling + self._inference.cov_noise
        if self.index.nlevels > 1 or (len(shares) == 1 and self.index.name is not None):
            raise InferenceError("natural parameters are offered for one column without groups")
        if not ((shares > 0) & (shares < 1)).all():
            raise InferenceError("a share was moved to 0 or 1: its log odds are infinite")
        if len(shares) == 1:
            values, slope = np.log(shares / (1 - shares)), np.array([[1 / (shares[0] * (1 - shares[0]))]])
            names = [f"log odds of {self.params.index[0]}"]
        else:
            values = np.log(shares[1:] / shares[0])
            slope = np.column_stack([np.full(len(values), -1 / shares[0]), np.diag(1 / shares[1:])])
            names = [f"log odds of {name} against {self.params.index[0]}" for name in self.params.index[1:]]
        error = np.sqrt(np.diag(slope @ total @ slope.T))
        return pd.DataFrame({"estimate": values, "std err": error}, index=names)


class TableResults(DescriptionResults):
    """Noisy counts of a table, which serve margins and shares too."""

    def frame(self) -> pd.DataFrame | pd.Series:
        """Return the noisy counts as a table: the last column across, the others down."""
        estimates = self.estimates
        return estimates.unstack(sort=False) if estimates.index.nlevels > 1 else estimates  # noqa: PD010  (of a Series)

    def margin(self, *columns: str) -> TableResults:
        """Return the counts of some of the table's columns, summed over the others; free of cost.

        Raises
        ------
        MissingFromReleaseError
            If a column is not in the table.
        """
        return infer_table(self._measured, columns, **self._chosen)

    def proportions(self, column: str, by: Sequence[str] = ()) -> DescriptionResults:
        """Return the shares of the levels of a column, in groups of others; free of cost.

        Raises
        ------
        MissingFromReleaseError
            If a column is not in the table.
        """
        return infer_proportions(self._measured, column, tuple(by), inference=self._inference.method)

    @property
    def _measured(self) -> Release:
        assert isinstance(self._release, Release)
        return self._release

    @property
    def _chosen(self) -> dict[str, Any]:
        return {"inference": self._inference.method, "target": self._inference.target}


for _kind in (*(kind for kind in MOMENTS if kind != "multinormal"), *TABLES):
    register_inference(_kind)(infer_description)

"""Combination of several releases about the same data by generalised least squares.

Counts are combined over the joint table of all their columns: every measured quantity is a sum over its cells.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd

from dpinfer.checks import is_list, of_type, require
from dpinfer.errors import DPInferError, InferenceError, ReleaseFormatError, type_of
from dpinfer.procedures.cell_sums import MOMENTS, TABLES, MeasuredCounts, SumsQuestion, count_names
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import where_notes
from dpinfer.procedures.procedure import read_question
from dpinfer.release import NoiseLaw, Release
from dpinfer.release.laws import StageRelease
from dpinfer.release.release import CombinedRelease, SeveralCosts
from dpinfer.release.request import Request
from dpinfer.results.descriptions import CombinedResults
from dpinfer.schema.columns import Integer
from dpinfer.schema.schema import Schema
from dpinfer.statistics.combination import (
    METHODS,
    CombinedNoise,
    Consistency,
    LinearNoise,
    least_squares,
    weighted_means,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from dpinfer.procedures.cell_sums import SumPlan
    from dpinfer.results.descriptions import DescriptionResults
    from dpinfer.schema.axes import Axis
    from dpinfer.statistics.arrays import Array
    from dpinfer.statistics.combination import LeastSquares


COUNTED = (*TABLES, "linear", "binomial")
"""Kinds of releases that measure sums of counts."""

NOWHERE = "(none)"
"""Label of rows that are in no part of an axis."""

_MOST_CELLS = 2**12
_MOST_VALUES = 2**16


@dataclass(frozen=True, eq=False)
class _Part:
    """A common refinement of axes that partition rows by the same column.

    Attributes
    ----------
    name : str
    labels : tuple
    places : dict of axis key to ndarray of int (atoms,)
        Index of each atom in each axis; -1 if it is in no part.
    """

    name: str
    labels: tuple[Any, ...]
    places: dict[str, NDArray[np.intp]]


class JointTable:
    """The cells whose sums several releases of counts measure.

    Parameters
    ----------
    schema : Schema
        All columns of all releases.
    measured : sequence of MeasuredCounts

    Attributes
    ----------
    parts : tuple
        One for each axis, or the common refinement of all axes that read only one and the same column. Rows that may be
        in no part of an axis, such as those with a missing value, have their own label.
    touched : ndarray of int (G,)
        Cells of the product of all parts that at least one release counts.

    Raises
    ------
    InferenceError
        If there are too many cells.
    """

    def __init__(self, schema: Schema, measured: Sequence[MeasuredCounts]) -> None:
        self.measured = tuple(measured)
        axes = {_key(axis): axis for one in measured for axis in one.axes}
        self.parts = tuple(_refined(group, schema) for group in _grouped(axes.values(), schema))
        self.shape = tuple(len(part.labels) for part in self.parts)
        if prod(self.shape) > _MOST_CELLS:
            sizes = " x ".join(f"{len(part.labels)} of {part.name}" for part in self.parts)
            raise InferenceError(
                f"the releases are combined over the joint table of all their columns, of {prod(self.shape):,} cells "
                f"({sizes}); at most {_MOST_CELLS:,} are possible: combine fewer releases, or coarser ones"
            )
        counted = np.zeros(prod(self.shape), dtype=bool)
        for one in measured:
            counted |= self._places(one) >= 0
        self.touched = np.flatnonzero(counted)

    def _places(self, one: MeasuredCounts) -> NDArray[np.intp]:
        """Cell of one release's table for each cell of the product of parts; -1 if none."""
        index = np.zeros(self.shape, dtype=np.intp)
        inside = np.ones(self.shape, dtype=bool)
        for axis in one.axes:
            key = _key(axis)
            which = next(place for place, part in enumerate(self.parts) if key in part.places)
            line = [1] * len(self.shape)
            line[which] = -1
            place = self.parts[which].places[key].reshape(line)
            index = index * len(axis.labels) + place
            inside &= place >= 0
        return np.where(inside, index, -1).ravel()

    @cached_property
    def designs(self) -> tuple[Array, ...]:
        """Each release's measured quantities as sums of the touched cells, (m, G)."""
        found = []
        for one in self.measured:
            places = self._places(one)[self.touched]
            if one.weights is None:
                design = (places == np.arange(len(one.names))[:, None]).astype(np.float64)
            else:
                design = np.where(places >= 0, one.weights[:, places], 0.0)
            found.append(design)
        return tuple(found)

    @property
    def cells(self) -> list[tuple[Any, ...]]:
        """Labels of the touched cells."""
        places = np.unravel_index(self.touched, self.shape) if self.shape else ()
        return [
            tuple(part.labels[place] for part, place in zip(self.parts, row, strict=True))
            for row in (zip(*(axis.tolist() for axis in places), strict=True) if self.shape else [()])
        ]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the touched cells."""
        named = [part.name for part in self.parts]
        found = [", ".join(f"{name}={label}" for name, label in zip(named, cell, strict=True)) for cell in self.cells]
        return count_names(found)


def _key(axis: Axis) -> str:
    return json.dumps(axis.to_dict(), sort_keys=True)


def _grouped(axes: Iterable[Axis], schema: Schema) -> list[list[Axis]]:
    """Group axes that are functions of one column whose values can be enumerated."""
    groups: dict[str, list[Axis]] = {}
    for axis in axes:
        simple = len(axis.columns) == 1 and (bool(axis.cuts) or _finite(axis.columns[0], schema))
        groups.setdefault(axis.columns[0] if simple else _key(axis), []).append(axis)
    return list(groups.values())


def _finite(name: str, schema: Schema) -> bool:
    column = schema[name]
    return bool(column.level_texts) or (isinstance(column, Integer) and column.width < _MOST_VALUES)


def _refined(axes: list[Axis], schema: Schema) -> _Part:
    """Refine axes of one group: an atom for each combination of parts that occurs for a value."""
    drops = any(schema[name].may_drop for axis in axes for name in axis.columns)
    if len(axes) == 1:
        (axis,) = axes
        nowhere = drops or not axis.covers
        places = np.append(np.arange(len(axis.labels)), [-1] * nowhere)
        return _Part(axis.name, (*axis.labels, *([NOWHERE] * nowhere)), {_key(axis): places})
    values = _representatives(axes, schema)
    combined = np.stack([axis.place({axis.columns[0]: values}) for axis in axes])
    if drops:
        combined = np.column_stack([combined, np.full(len(axes), -1)])
    _, first = np.unique(combined, axis=1, return_index=True)
    atoms = combined[:, np.sort(first)]
    lost = (atoms < 0).all(axis=0)
    atoms = np.column_stack([atoms[:, ~lost], atoms[:, lost]])
    finest = _finest(atoms)
    name = axes[0].columns[0] if finest is None else axes[finest].name
    used = axes if finest is None else [axes[finest]]
    rows = atoms if finest is None else atoms[[finest]]
    labels = tuple(_atom_label(used, atom) for atom in rows.T.tolist())
    return _Part(name, labels, {_key(axis): place for axis, place in zip(axes, atoms, strict=True)})


def _representatives(axes: list[Axis], schema: Schema) -> Array:
    """Values of a column that cover every possible combination of parts."""
    (name,) = axes[0].columns
    lower, upper = schema[name].limits
    if _finite(name, schema):
        return np.arange(lower, upper + 1)
    edges = np.unique([lower, upper, *(cut for axis in axes for cut in axis.cuts)])
    return np.sort(np.concatenate([edges, 0.5 * edges[:-1] + 0.5 * edges[1:]]))


def _finest(atoms: NDArray[np.intp]) -> int | None:
    """Return the axis that distinguishes all atoms, if there is one."""
    for place, row in enumerate(atoms):
        if len(set(row.tolist())) == len(row):
            return place
    return None


def _atom_label(axes: list[Axis], atom: list[int]) -> Any:
    inside = [(axis, place) for axis, place in zip(axes, atom, strict=True) if place >= 0]
    if not inside:
        return NOWHERE
    if len(axes) == 1:
        return inside[0][0].labels[inside[0][1]]
    return " & ".join(axis.in_words(place) for axis, place in inside)


Read = TypeVar("Read")

_FINE = 2.0**30
"""Noise scale of combined sums, in steps of the grid that they are put on."""

_HEAVY = 0.3
"""Excess kurtosis, that of an average of ten Laplace draws, above which combined noise does not count as normal."""

_KNOWN = 1e-9
"""A fitted quantity whose error is below this share of its own measurement's is known exactly."""


@suggests
def combine(releases: Sequence[Release], inference: str = "auto") -> CombinedResults:
    """Combine releases about the same data, at no privacy cost and without reading a row.

    Parameters
    ----------
    releases : sequence of Release
        Either counts of any kind (`count`, `table`, `histogram`, `proportion`, `linear_queries`) of any columns, or
        several releases of one question of another kind (`mean`, `total`, `variance`, `cov`, `corr`).
    inference : str
        For counts "auto" or "wald": intervals use the exact distribution of the noise. Otherwise as for the question.

    Returns
    -------
    CombinedResults
        For counts, estimates of the cells of the joint table of all columns if the releases identify them; otherwise of
        all measured quantities, labelled by release and quantity. They have the full covariance, so that ``t_test`` is
        valid.

    Raises
    ------
    OptionError
        If ``releases`` are not releases, or ``inference`` is invalid.
    InferenceError
        If releases differ in data set or its version, neighbours, declared columns, ``where``, number of rows or
        privacy; if one is given twice; if their kinds cannot be combined; or if their joint table is too large (more
        than 4,096 cells).
    ReleaseFormatError
        If a release is damaged.

    Notes
    -----
    For measurements y = A x + e of unknown cells x with known independent noise e, generalised least squares gives the
    best linear unbiased estimate; with one cell it is inverse-variance weighting. Estimates stay unbiased, so that of a
    small count may be negative. A public number of rows (replace_one, every row in some cell) is an exact constraint.
    Columns that releases bin differently are refined. Rows that may be in no part of an axis form their own cells,
    labelled "(none)": a table of g and h excludes rows without h, which a table of g counts, unless the schema declares
    constants for missing and impossible values of h.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(
    ...     g=dpi.Category(["a", "b"], missing="a", impossible="a"), h=dpi.Boolean(missing=False, impossible=False)
    ... )
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(2000, rng), schema, rng=rng)
    >>> joint = dpi.table(["g", "h"], data).measure(dpi.ZCDP(0.1))
    >>> margin = dpi.table("g", data).measure(dpi.ZCDP(0.4))
    >>> both = dpi.combine([joint, margin])
    >>> bool((both.bse < joint.infer().bse.iloc[0]).all()), both.consistency_test().df
    (True, 2)
    """
    require(is_list(releases) and len(releases), "releases", type_of(releases), "a list of one or more releases")
    right = "releases, from .measure(privacy) or read_release(path)"
    given = tuple(of_type(Release, "releases", one, right, hidden=True) for one in releases)
    _check_together(given)
    schema = _joint_schema(given)
    if given[0].kind in MOMENTS:
        return _combine_sums(given, inference)
    require(inference in METHODS, "inference", inference, METHODS)
    return _combine_counts(given, schema)


# What may be combined


def _check_together(releases: tuple[Release, ...]) -> None:
    """Refuse releases that cannot be combined.

    Raises
    ------
    InferenceError
    """
    kinds = [release.kind for release in releases]
    for place, kind in enumerate(kinds, 1):
        if kind not in (*COUNTED, *MOMENTS):
            known = ", ".join((*COUNTED, *MOMENTS))
            raise InferenceError(f"release {place} is of kind {kind!r}, which cannot be combined; these can: {known}")
    if any(kind in MOMENTS for kind in kinds) and len(set(kinds)) > 1:
        raise InferenceError(
            f"releases of kinds {', '.join(dict.fromkeys(kinds))} cannot be combined: counts combine with counts, and "
            "other kinds with releases of the same question"
        )
    asked = _each(releases, lambda release: Request.of_release(release).conditions)
    for what in (one for one in asked[0] if one != "price"):
        _check_same(what, [one[what] for one in asked])
    _check_same("public number of rows", [release.nobs for release in releases])
    charges: dict[object, int] = {}
    for place, release in enumerate(releases, 1):
        for charge in release.charge_ids or (id(release),):
            if charge in charges:
                told = f" (charge {charge})" if release.charge_ids else ""
                raise InferenceError(
                    f"releases {charges[charge]} and {place} are the same one{told}: its noise is not independent of "
                    "itself"
                )
            charges[charge] = place


def _check_same(what: str, found: Sequence[object]) -> None:
    for place, one in enumerate(found[1:], 2):
        if one != found[0]:
            raise InferenceError(
                f"releases 1 and {place} differ in their {what}: {found[0]!r} and {one!r}; only releases about the "
                "same rows, with the same protection, can be combined"
            )


def _joint_schema(releases: tuple[Release, ...]) -> Schema:
    """Return all columns of all releases.

    Raises
    ------
    InferenceError
        If two declare one differently.
    """
    columns: dict[str, tuple[int, Any]] = {}
    for place, schema in enumerate(_each(releases, lambda release: release.schema), 1):
        for name, column in schema.items():
            first, known = columns.setdefault(name, (place, column))
            if known != column:
                raise InferenceError(
                    f"releases {first} and {place} declare the column {name!r} differently: {known} and {column}"
                )
    people = releases[0].schema.people
    found = Schema({name: column for name, (_, column) in columns.items()})
    return found if people is None else found.with_people(people.id, people.max_rows)


def _each(releases: tuple[Release, ...], read: Callable[[Release], Read]) -> list[Read]:
    """Apply a reader to each release; refuse one that is damaged.

    Raises
    ------
    ReleaseFormatError
    """
    found = []
    for place, release in enumerate(releases, 1):
        try:
            found.append(read(release))
        except ReleaseFormatError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, DPInferError) as error:
            raise ReleaseFormatError(f"the question of release {place} is damaged: {error}") from error
    return found


# Counts


def _combine_counts(releases: tuple[Release, ...], schema: Schema) -> CombinedResults:
    measured: list[MeasuredCounts] = _each(releases, lambda release: _held(release, "counts"))
    _check_same("where", [one.where for one in measured])
    noise = CombinedNoise(tuple((release.law, np.asarray(release.steps)) for release in releases))
    if not (noise.variances > 0).all():
        raise InferenceError("a release of counts has no noise, so there is nothing to combine")
    joint = JointTable(schema, measured)
    public = next((r.nobs for r, one in zip(releases, measured, strict=True) if one.every_row), None)
    total = None if public is None else float(public)
    if total is not None and joint.touched.size < 2:
        raise InferenceError("all that was measured follows from the public number of rows")
    design = np.vstack(joint.designs)
    values = np.concatenate([release.array for release in releases])
    fit = least_squares(values, design, noise.variances, total=total)
    labels = [(place, name) for place, one in enumerate(measured, 1) for name in one.names]
    notes = _notes(releases, measured)
    if total is not None:
        notes.append(f"The counts are fitted to the public number of rows, {total:,.0f}.")
    names, index, chosen, more = _parameters(joint, fit, design, noise, labels)
    found = LinearNoise(
        names,
        chosen @ fit.estimate if chosen is not None else fit.estimate,
        chosen @ fit.mixing if chosen is not None else fit.mixing,
        noise,
        nobs=float(fit.estimate.sum()) if fit.full else total,
        nobs_is_public=total is not None,
        dependent=len(names) > fit.free,
    )
    return CombinedResults(
        found,
        _together(releases),
        consistency=Consistency(values, design @ fit.estimate, fit.basis, noise),
        labels=labels,
        model_name=f"{len(releases)} combined releases",
        response=" x ".join(part.name for part in joint.parts) or "rows",
        notes=[*notes, *more],
        quantity="count" if fit.full else "estimate",
        index=index,
    )


def _held(release: Release, what: str) -> Any:
    """Return the counts or sums that a release holds."""
    asked = read_question(release)
    found = asked.counted() if what == "counts" else asked.summed()
    if found is None:
        lacking = "does not count rows" if what == "counts" else "holds no sums"
        raise ReleaseFormatError(f"a release of kind {release.kind!r} that {lacking} is damaged")
    return found


def _parameters(
    joint: JointTable, fit: LeastSquares, design: Array, noise: CombinedNoise, labels: list[tuple[int, str]]
) -> tuple[tuple[str, ...], pd.Index, Array | None, list[str]]:
    """Return names, labels and rows of the parameters (None for the cells themselves), and notes."""
    if fit.full:
        named = [part.name for part in joint.parts]
        cells = joint.cells
        index = pd.Index(["count"])
        if len(named) == 1:
            index = pd.Index([cell[0] for cell in cells], name=named[0])
        elif named:
            index = pd.MultiIndex.from_tuples(cells, names=named)
        return joint.names, index, None, []
    first: dict[bytes, int] = {}
    for place, row in enumerate(design):
        first.setdefault(row.tobytes(), place)
    error = np.sqrt(((design @ fit.mixing) ** 2 * noise.variances).sum(axis=1) / noise.variances)
    kept = [place for place in first.values() if error[place] > _KNOWN]
    notes = [
        "The releases do not determine every cell of the joint table: the quantities that were measured are shown."
    ]
    known = [place for place in first.values() if error[place] <= _KNOWN]
    notes += [f"Known exactly: {', '.join(labels[place][1] for place in known)}."] if known else []
    shown = [labels[place] for place in kept]
    index = pd.MultiIndex.from_tuples(shown, names=["release", "quantity"])
    return tuple(f"{release}: {name}" for release, name in shown), index, design[kept], notes


def _notes(releases: tuple[Release, ...], measured: Sequence[MeasuredCounts] | None = None) -> list[str]:
    texts = [str(release.question["text"]) for release in releases]
    listed = [
        f"{place}: {text} ({release.cost.price})"
        for place, (text, release) in enumerate(zip(texts, releases, strict=True), 1)
    ]
    return [f"Releases: {'; '.join(listed)}.", *(where_notes(measured[0].where) if measured else [])]


def _together(releases: tuple[Release, ...]) -> CombinedRelease:
    first, *others = [release.cost for release in releases]
    cost: Any = first
    if all(type(other.price) is type(first.price) for other in others):
        for other in others:
            cost = cost + other
    else:
        cost = SeveralCosts((first, *others))
    charges = tuple(charge for release in releases for charge in release.charge_ids)
    one = releases[0]
    return CombinedRelease(cost, one.neighbors, charges, one.public, one.unit, releases=releases)


# Other sums


def _combine_sums(releases: tuple[Release, ...], inference: str) -> CombinedResults:
    """Average the sums of one question's releases by inverse variances, and infer as from one release."""
    plans: list[SumPlan] = _each(releases, lambda release: _held(release, "sums"))
    _check_same("where", [plan.where for plan in plans])
    for place, plan in enumerate(plans[1:], 2):
        if (plan.about, plan.target) != (plans[0].about, plans[0].target):
            raise InferenceError(
                f"releases 1 and {place} ask different questions: {plans[0].text} and {plan.text}; other than counts, "
                "only releases of exactly the same question are combined"
            )
    merged, consistency, noisy = _merged(releases)
    names = [name for name, kept in zip(releases[0].names, noisy, strict=True) if kept]
    asked = read_question(merged)
    assert isinstance(asked, SumsQuestion)
    if not hasattr(asked.described, "inference"):
        raise InferenceError(f"releases of {asked.procedure} cannot be combined: use one release with the whole budget")
    found: DescriptionResults = asked.described.with_options({"inference": inference}).infer(merged)
    return CombinedResults(
        found.inference,
        _together(releases),
        consistency=consistency,
        labels=[(place, name) for place in range(1, len(releases) + 1) for name in names],
        model_name=f"{found.model_name} ({len(releases)} combined releases)",
        response=found.response,
        notes=[*found.notes, *_notes(releases)],
        quantity=found.quantity,
        index=found.index,
        sizes=found.sizes,
    )


def _merged(releases: tuple[Release, ...]) -> tuple[Release, Consistency, NDArray[np.bool_]]:
    """Return the merged release, the consistency of its noisy sums, and their names."""
    values = np.stack([release.array for release in releases])
    variances = np.stack([release.noise_variances for release in releases])
    noisy: NDArray[np.bool_] = np.asarray((variances > 0).all(axis=0))
    public = values[:, ~noisy]
    if (public != public[0]).any() or (variances[:, ~noisy] > 0).any():
        raise InferenceError("the releases differ in sums that are public: they do not describe the same rows")
    estimate, variance, basis = weighted_means(values[:, noisy], variances[:, noisy])
    parts = []
    for release in releases:
        law = NoiseLaw(release.law.family, tuple(np.asarray(release.law.scales)[noisy].tolist()), release.law.draws)
        parts.append((law, np.asarray(release.steps)[noisy]))
    noise = CombinedNoise(tuple(parts))
    consistency = Consistency(values[:, noisy].ravel(), np.tile(estimate, len(releases)), basis, noise)
    if len(releases) == 1:
        return releases[0], consistency, noisy
    excess = np.array([3 / release.law.draws if release.law.family == "laplace" else 0.0 for release in releases])
    shares = variance / variances[:, noisy]
    heavy = float((shares**2 * excess[:, None]).sum(axis=0).max()) > _HEAVY * (1 + 1e-9)
    steps = np.array(releases[0].steps)
    steps[noisy] = np.sqrt(variance) / _FINE
    scales = np.zeros(len(steps))
    scales[noisy] = _FINE / np.sqrt(2.0) if heavy else _FINE
    whole = list(releases[0].values)
    for place, value in zip(np.flatnonzero(noisy).tolist(), estimate.tolist(), strict=True):
        whole[place] = round(value / float(steps[place]))
    law = NoiseLaw("laplace" if heavy else "gaussian", tuple(scales.tolist()))
    merged = replace(releases[0], stages=(StageRelease(releases[0].names, tuple(whole), tuple(steps.tolist()), law),))
    return merged, consistency, noisy

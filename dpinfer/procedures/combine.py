"""Several releases about the same data, combined by generalised least squares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd

from dpinfer.errors import DPInferError, InferenceError, OptionError, ReleaseFormatError, type_of
from dpinfer.inference.combination import CombinedNoise, Consistency, least_squares, weighted_means
from dpinfer.inference.linear_noise import METHODS, LinearNoise
from dpinfer.procedures.cell_sums import MOMENTS, SumsQuestion
from dpinfer.procedures.conditions import where_notes
from dpinfer.procedures.joint_table import COUNTED, JointTable
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.stored import read_question
from dpinfer.release import NoiseLaw, Release
from dpinfer.release.laws import StageRelease
from dpinfer.release.release import CombinedRelease, SeveralCosts
from dpinfer.results.combined import CombinedResults
from dpinfer.schema.schema import Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.inference.combination import LeastSquares
    from dpinfer.procedures.cell_sums import MeasuredCounts, SumPlan
    from dpinfer.results.descriptions import DescriptionResults

    Array = NDArray[np.float64]

__all__ = ["combine"]

Read = TypeVar("Read")

_FINE = 2.0**30
"""Noise scale of combined sums, in steps of the grid that they are put on."""

_HEAVY = 0.3
"""Excess kurtosis, that of an average of ten Laplace draws, above which combined noise does not count as normal."""

_KNOWN = 1e-9
"""A fitted quantity whose error is below this share of its own measurement's is known exactly."""


@suggests
def combine(releases: Sequence[Release], inference: str = "auto") -> CombinedResults:
    """Combine releases about the same data: free, and without any row.

    Parameters
    ----------
    releases : sequence of Release
        Either counts of any kind (`count`, `table`, `histogram`, `proportion`, `linear_queries`) of any columns; or
        the same question of another kind (`mean`, `total`, `variance`, `cov`, `corr`) released several times.
    inference : str
        For counts "auto" or "wald": intervals come from the exact law of the noise. Otherwise as for the question.

    Returns
    -------
    CombinedResults
        For counts of the cells of the joint table of all columns, if the releases determine them; otherwise of all
        measured quantities, labelled by release and quantity. With the full covariance, so that ``t_test`` holds.

    Raises
    ------
    OptionError
        If these are no releases, or ``inference`` has no such value.
    InferenceError
        If releases differ in data set or its version, neighbours, declared columns, ``where``, number of rows or
        privacy; if one is given twice; if their kinds cannot be combined; or if their joint table is too large (4,096
        cells).
    ReleaseFormatError
        If a release is damaged.

    Notes
    -----
    Measurements y = A x + e of unknown cells x, with known independent noise e, give by generalised least squares the
    linear unbiased estimate of least variance; inverse-variance weighting is the case of one cell. Estimates are kept
    unbiased: one of a small count may be negative. A public number of rows (replace_one, every row in some cell) is an
    exact constraint. Columns that several releases cut differently are refined. Rows that may be in no part of an axis
    are cells of their own, labelled "(none)": a table of g and h leaves out rows without h, which a table of g
    counts, unless the schema declares constants for missing and impossible values of h.

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
    if isinstance(releases, Release) or not isinstance(releases, Sequence) or not releases:
        raise OptionError("releases", type_of(releases), "a list of one or more releases")
    for one in releases:
        if not isinstance(one, Release):
            raise OptionError("releases", type_of(one), "releases, from .measure(privacy) or read_release(path)")
    given = tuple(releases)
    _check_together(given)
    schema = _joint_schema(given)
    if given[0].kind in MOMENTS:
        return _combine_sums(given, inference)
    if inference not in METHODS:
        raise OptionError("inference", inference, METHODS)
    return _combine_counts(given, schema)


# What may be combined


def _check_together(releases: tuple[Release, ...]) -> None:
    """Refuse releases that do not belong together.

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
    _check_same("privacy", ["public" if release.public else "private" for release in releases])
    _check_same("data set", [release.dataset for release in releases])
    _check_same("version of the data", [release.dataset_version for release in releases])
    _check_same("neighbours", [release.neighbors for release in releases])
    _check_same("unit of protection", [_unit_of(schema) for schema in _each(releases, _schema_of)])
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


def _unit_of(schema: Schema) -> str:
    return schema.unit if schema.people is None else f"{schema.unit}, told apart by {schema.people.id}"


def _check_same(what: str, found: Sequence[object]) -> None:
    for place, one in enumerate(found[1:], 2):
        if one != found[0]:
            raise InferenceError(
                f"releases 1 and {place} differ in their {what}: {found[0]!r} and {one!r}; only releases about the "
                "same rows, protected alike, can be combined"
            )


def _joint_schema(releases: tuple[Release, ...]) -> Schema:
    """Return all columns of all releases.

    Raises
    ------
    InferenceError
        If two declare one differently.
    """
    columns: dict[str, tuple[int, Any]] = {}
    for place, schema in enumerate(_each(releases, _schema_of), 1):
        for name, column in schema.items():
            first, known = columns.setdefault(name, (place, column))
            if known != column:
                raise InferenceError(
                    f"releases {first} and {place} declare the column {name!r} differently: {known} and {column}"
                )
    people = releases[0].schema.people
    found = Schema({name: column for name, (_, column) in columns.items()})
    return found if people is None else found.with_people(people.id, people.max_rows)


def _schema_of(release: Release) -> Schema:
    return release.schema


def _each(releases: tuple[Release, ...], read: Callable[[Release], Read]) -> list[Read]:
    """Read something from each release; refuse one that is damaged.

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
    measured = _each(releases, _counted)
    _check_same("where", [one.where for one in measured])
    noise = CombinedNoise(tuple((release.law, np.asarray(release.steps)) for release in releases))
    if not (noise.variances > 0).all():
        raise InferenceError("a release of counts carries no noise, so that there is nothing to combine")
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


def _counted(release: Release) -> MeasuredCounts:
    """Return what counts a release holds."""
    found = read_question(release).counted()
    if found is None:
        raise ReleaseFormatError(f"a release of kind {release.kind!r} that does not count rows is damaged")
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
        "The releases do not determine every cell of the joint table: what is shown are the quantities that were "
        "measured."
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
    """Average the sums of releases of one question by inverse variances, and infer as from one release."""
    plans = _each(releases, _summed)
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


def _summed(release: Release) -> SumPlan:
    """Return what sums a release holds."""
    found = read_question(release).summed()
    if found is None:
        raise ReleaseFormatError(f"a release of kind {release.kind!r} that holds no sums is damaged")
    return found


def _merged(releases: tuple[Release, ...]) -> tuple[Release, Consistency, NDArray[np.bool_]]:
    """Return the merged release, how the releases agree on its noisy sums, and which these are."""
    values = np.stack([release.array for release in releases])
    variances = np.stack([release.noise_variances for release in releases])
    noisy: NDArray[np.bool_] = np.asarray((variances > 0).all(axis=0))
    public = values[:, ~noisy]
    if (public != public[0]).any() or (variances[:, ~noisy] > 0).any():
        raise InferenceError("the releases differ in sums that are public: they do not describe the same rows")
    estimate, variance, basis = weighted_means(values[:, noisy], variances[:, noisy])
    noise = CombinedNoise(tuple(_noisy_part(release, noisy) for release in releases))
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


def _noisy_part(release: Release, noisy: NDArray[np.bool_]) -> tuple[NoiseLaw, Array]:
    scales = tuple(np.asarray(release.law.scales)[noisy].tolist())
    return NoiseLaw(release.law.family, scales, release.law.draws), np.asarray(release.steps)[noisy]

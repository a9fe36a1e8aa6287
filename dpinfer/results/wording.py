"""The sentences that results print: guarantee, rows, charges."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dpinfer.display.report import count
from dpinfer.release.release import Release

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dpinfer.inference.base import Inference
    from dpinfer.release.release import AnyRelease
    from dpinfer.results.printing import Facts

__all__ = [
    "charge_notes",
    "column_caption",
    "column_labels",
    "column_notes",
    "format_count",
    "format_nobs",
    "guarantee",
    "guarantee_facts",
    "measured_in",
    "short_guarantee",
    "title_guarantee",
]

_WORD = re.compile(r"(?<![\w.])[^\W\d]\w*(?![\w.(])")
_FACTOR = re.compile(r"\bC\((\w+)[^()\[\]]*\)\[T\.([^\[\]]*)\]|\b(\w+)\[T\.([^\[\]]*)\]")
_LEVELS = re.compile(r"(?<=[=\[])[^\[\],=]*(?=[\],]|$)")
"""A name in a term, but for that of a function; a level of a factor; one in the name of a coefficient or a group."""

_NEIGHBORS = {
    "add_remove": "data sets are neighbours when one unit is added or removed (add_remove)",
    "replace_one": "data sets are neighbours when one unit is replaced by another (replace_one)",
}


def measured_in(release: AnyRelease, name: str) -> str:
    """Return the unit of measurement of a column; empty where none is declared."""
    schema = release.schema if isinstance(release, Release) else {}
    return schema[name].measured_in if name in schema else ""


def column_caption(release: AnyRelease, name: str) -> str:
    """Return what a column is called on axes and in tables: its label, if it has one, with its unit."""
    schema = release.schema if isinstance(release, Release) else {}
    return schema[name].caption(name) if name in schema else name


def column_labels(release: AnyRelease, names: Iterable[object]) -> list[str]:
    """Return what coefficients and estimates are called in tables: names, with the labels of columns in their place.

    Where no column has a label or a unit, that is the names as they are.
    """
    schema = release.schema if isinstance(release, Release) else {}
    told = {name: (one.label or name, one.caption(name)) for name, one in schema.items() if one.caption(name) != name}
    return [_labelled(str(name), told) for name in names]


def _labelled(name: str, told: Mapping[str, tuple[str, str]]) -> str:
    """Write labels for names of columns: with the unit where a column is all there is, else without."""
    if not told:
        return name
    if name in told:
        return told[name][1]
    name = _FACTOR.sub(lambda found: f"{found[1] or found[3]}[{found[2] or found[4]}]" if
                       (found[1] or found[3]) in told else found.group(), name)  # fmt: skip
    levels, found, start = _LEVELS.finditer(name), [], 0
    for level in levels:  # what is in brackets after a factor is the name of a level
        found += [_columns(name[start : level.start()], told), level.group()]
        start = level.end()
    return "".join([*found, _columns(name[start:], told)])


def _columns(text: str, told: Mapping[str, tuple[str, str]]) -> str:
    return _WORD.sub(lambda found: told.get(found.group(), (found.group(),))[0], text)


def column_notes(release: AnyRelease) -> list[str]:
    """Say what columns are, where they have a label or a unit, and what an earlier release says of their quality."""
    if not isinstance(release, Release):
        return []
    told = [f"{name} is {one.caption(name)}" for name, one in release.schema.items() if one.caption(name) != name]
    said = [f"Columns: {'; '.join(told)}."] if told else []
    return [*said, *(f"Data quality, as released before: {note}" for note in release.notes)]


def charge_notes(release: AnyRelease) -> list[str]:
    """Name the charges of a release in the ledger: one sentence, or none for a simulated release."""
    if not release.charge_ids:
        return []
    return [f"Ledger charge{'s' if len(release.charge_ids) > 1 else ''}: {', '.join(release.charge_ids)}."]


def short_guarantee(release: AnyRelease) -> str:
    """Return the price in short form, or say that there is no guarantee.

    Parameters
    ----------
    release : Release or CombinedRelease
        The release.

    Returns
    -------
    str
        The price that was asked for, or "none (public data)".
    """
    return "none (public data)" if release.public else str(release.cost.price)


def title_guarantee(release: AnyRelease) -> str:
    """Return the price, or that there is no privacy, as a title says it after what is shown."""
    return "public data, no privacy" if release.public else str(release.cost.price)


def guarantee_facts(release: AnyRelease) -> Facts:
    """Return the lines of a header on price and neighbours."""
    return [("Guarantee:", short_guarantee(release)), ("Neighbours:", str(release.neighbors))]


def format_nobs(inference: Inference) -> str:
    """Return the number of rows and where it comes from.

    Parameters
    ----------
    inference : Inference
        The inference.

    Returns
    -------
    str
        Such as "1,234 (noisy)", "1,234 (public)" or "not released".
    """
    return format_count(inference.nobs, public=inference.nobs_is_public)


def format_count(nobs: float | None, *, public: bool) -> str:
    """Return a number of rows and whether it is public or noisy."""
    if nobs is None:
        return "not released"
    return f"{count(nobs)} ({'public' if public else 'noisy'})"


def guarantee(release: AnyRelease) -> str:
    """Return the whole guarantee as one sentence, or that there is none."""
    neighbors = _NEIGHBORS[release.neighbors]
    if release.unit != "one row":
        neighbors += (
            f"; a unit is {release.unit} (further rows of a person were left out, and estimates are about those kept)"
        )
    if release.public:
        return (
            "Simulated from public data with the noise of "
            f"{release.cost.describe()}: this is not a private release; {neighbors}."
        )
    return f"Guarantee: {release.cost.describe()}; {neighbors}."

"""What is given to a report: results under headings, with the releases behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
import pandas as pd

from dpinfer.display.report import Report, Table
from dpinfer.errors import OptionError, type_of
from dpinfer.release.release import Release, release_report
from dpinfer.reporting.blocks import Picture, Reportable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpinfer.release.release import AnyRelease

__all__ = ["KINDS", "Entry", "read_entries", "whole_releases"]

KINDS = "results of dpinfer, releases, tables of results side by side, plans or studies"
"""What a report takes."""

_CORRECTED = ["statistic", "df", "pvalue", "pvalue error", "corrected", "reject"]


@dataclass(frozen=True, eq=False)
class Entry:
    """One result of a page.

    Attributes
    ----------
    heading : str
    given : object
        The result.
    report : Report
        What is shown of it.
    releases : tuple of Release or CombinedRelease
        What it was made from; empty where that is not known.
    """

    heading: str
    given: object
    report: Report
    releases: tuple[AnyRelease, ...]

    @cached_property
    def picture(self) -> Picture | None:
        """Its own figure, if it has one."""
        plot = None if isinstance(self.given, pd.DataFrame) else getattr(self.given, "plot", None)
        if plot is None:
            return None

        def draw() -> Figure:
            first = np.ravel(np.asarray(plot(), dtype=object))[0]
            figure: Figure = first.get_figure(root=True)
            return figure

        return Picture("", draw, f"{self.heading}: the numbers of the table, drawn.")


def read_entries(results: object) -> list[Entry]:
    """Read what was given.

    Raises
    ------
    OptionError
        If it is nothing, or something that is no result of dpinfer.
    """
    given: list[tuple[str, object]]
    several = isinstance(results, Sequence | Mapping) and not isinstance(results, str)
    if isinstance(results, Mapping):
        given = list(results.items())
        wrong = [name for name, _ in given if not (isinstance(name, str) and name.strip())]
        if wrong:
            raise OptionError("results", type_of(wrong[0]), "a mapping whose keys are headings")
    elif several:
        given = [("", one) for one in cast("Sequence[object]", results)]
    else:
        given = [("", results)]
    if not given:
        raise OptionError("results", results, f"one or more {KINDS}")
    entries = [
        _entry(name, one, f"results[{repr(name) if name else place}]" if several else "results")
        for place, (name, one) in enumerate(given)
    ]
    return _distinct(entries)


def _entry(name: str, one: object, place: str) -> Entry:
    if isinstance(one, Release):
        inferred = one.infer()
        one = inferred if isinstance(inferred, Reportable) else one
    if isinstance(one, pd.DataFrame) and list(one.columns) == _CORRECTED:
        table = Table.of(one)
        return Entry(name or "Several tests", one, Report("P-values corrected for their number", (), (table,)), ())
    if isinstance(one, Reportable):
        report, releases = one._report(), _behind(one)
    else:
        release = one if isinstance(one, Release) else getattr(one, "release", None)  # a Gram answers questions alone
        if not isinstance(release, Release):
            raise OptionError(place, type_of(one), _advice(one))
        report, releases = release_report(release), (release,)
    return Entry(name or _heading(one, report), one, report, releases)


def _advice(one: object) -> str:
    if isinstance(one, pd.DataFrame | pd.Series):
        return f"{KINDS}: a frame may hold confidential rows, so give the results that it was made from"
    if hasattr(one, "params") and hasattr(one, "model"):
        return (
            f"{KINDS}: ordinary results carry no guarantee; where the rows are public, dpi.summary_table puts them "
            "beside private ones"
        )
    return KINDS


def _behind(one: object) -> tuple[AnyRelease, ...]:
    several = getattr(one, "releases", None)
    if isinstance(several, tuple):
        return several
    release = getattr(one, "release", None) or getattr(getattr(one, "results", None), "release", None)
    return () if release is None else (release,)


def whole_releases(entries: Sequence[Entry]) -> list[Release]:
    """Return the distinct releases behind all entries, those of combinations among them."""
    found: list[Release] = []
    for entry in entries:
        for release in entry.releases:
            for one in (release,) if isinstance(release, Release) else release.releases:
                if one not in found:
                    found.append(one)
    return found


def _heading(one: object, report: Report) -> str:
    response = getattr(one, "response", "")
    title = report.title.removesuffix(" Results")
    return f"{title}: {response}" if isinstance(response, str) and response and response not in title else title


def _distinct(entries: list[Entry]) -> list[Entry]:
    """Give headings that repeat a number."""
    counts, seen, found = Counter(entry.heading for entry in entries), Counter[str](), []
    for entry in entries:
        seen[entry.heading] += 1
        heading = f"{entry.heading} ({seen[entry.heading]})" if counts[entry.heading] > 1 else entry.heading
        found.append(Entry(heading, entry.given, entry.report, entry.releases))
    return found

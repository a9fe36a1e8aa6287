"""The page to publish with a paper: `report`."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import pandas as pd

import dpinfer._version as version
from dpinfer.checks import is_list, is_text, items_of, of_type, require
from dpinfer.display.report import Report, Reported, Table, count, listed
from dpinfer.errors import OptionError, type_of
from dpinfer.privacy.ledger import Ledger, ledger_facts
from dpinfer.release.release import Release, release_report
from dpinfer.reporting.methods import methods_paragraphs, totals, unprotected
from dpinfer.reporting.page import (
    Block,
    Entry,
    Picture,
    Reportable,
    Section,
    data_uri,
    listing,
    note,
    page_html,
    paragraph,
    tables,
)
from dpinfer.results.citing import Citations
from dpinfer.results.printing import title_guarantee
from dpinfer.schema.schema import schema_report
from dpinfer.writing import check_writable, checked_target, write_whole

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from dpinfer.release.release import AnyRelease
    from dpinfer.schema.schema import Schema

    Blocks = list[Block | Picture]

__all__ = ["Entry", "report"]

_KINDS = "results of dpinfer, releases, tables of results side by side, plans or studies"
"""What a report takes."""

_CORRECTED = ["statistic", "df", "pvalue", "pvalue error", "corrected", "reject"]
_LONG = 200_000
"""Bytes from which the file of a release is compressed."""


def report(
    results: object | Sequence[object] | Mapping[str, object],
    path: str | os.PathLike[str],
    *,
    title: str = "Results under differential privacy",
    authors: str | Sequence[str] = (),
    abstract: str = "",
    ledger: Ledger | Sequence[Ledger] | None = None,
    audit: object | Sequence[object] | None = None,
    availability: str | None = None,
) -> Path:
    """Write results as one HTML page to publish with a paper.

    The page needs no other file and no network. It is readable on a phone, in light and dark mode, and in print. It
    holds every table and figure, the privacy guarantee and its meaning, the public schema, a methods section with
    references, the ledger and audits if given, a statement on data availability, and the releases themselves as files
    to save. Readers can infer from these without the rows.

    Parameters
    ----------
    results : result, sequence, or mapping of str to result
        Results to show, in this order: results of any question, tests, `Release` (inferred again, at no privacy cost),
        tables of `summary_table`, tables of `multipletests`, plans, studies. Keys of a mapping are headings.
    path : path-like
        A file that ends in ``.html``. An existing file is replaced atomically.
    title : str
        The title of the page.
    authors : str or sequence of str
        Authors of the page.
    abstract : str
        Paragraphs, separated by empty lines, at the start of the page.
    ledger : Ledger or sequence of Ledger, optional
        The ledger that the releases were charged to; the page shows its budget, all charges and the remaining budget.
    audit : Audit or sequence of Audit, optional
        Results of `audit`.
    availability : str, optional
        A statement on data availability; the default states that the rows are confidential, and what the attached
        releases hold.

    Returns
    -------
    pathlib.Path
        The path of the file.

    Raises
    ------
    OptionError
        If an element is not a result (such as an ordinary fit or a frame of rows), the ledger has none of the charges,
        or an option is invalid. Nothing is written then.
    OSError
        If the file cannot be written.

    Notes
    -----
    The page is a function of releases, the ledger and public settings. It is post-processing, with no privacy cost, and
    reveals nothing beyond the releases. No row is read. No guarantee covers what you write in ``title``, ``abstract``
    and ``availability``: do not describe rows there.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), married=dpi.Boolean())
    >>> ledger = dpi.Ledger.in_memory(dpi.ZCDP(1), dataset="survey")
    >>> data = dpi.PrivateData(schema.sample(2000, np.random.default_rng(1)), schema, ledger)
    >>> means = dpi.mean("age", data, by="married").fit(dpi.ZCDP(0.1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = dpi.report({"Mean age": means}, f"{folder}/study.html", title="A survey", ledger=ledger)
    ...     page.name, "Mean age" in page.read_text(encoding="utf-8")
    ('study.html', True)
    """
    target = checked_target(path, ".html", ".htm")
    for name, text in (("title", title), ("abstract", abstract), ("availability", availability)):
        if not isinstance(text, str) and not (name == "availability" and text is None):
            raise OptionError(name, type_of(text), "a text")
    if not title.strip():
        raise OptionError("title", title, "a text that is not empty")
    people = items_of(authors)
    named = isinstance(authors, Sequence) and all(map(is_text, people))
    require(named, "authors", type_of(authors), "a name, or a list of names")
    entries = _read_entries(results)
    releases = _whole_releases(entries)
    ledgers, audits = _several(ledger), _several(audit)
    charged = {charge for release in releases for charge in release.charge_ids}
    for one in ledgers:
        of_type(Ledger, "ledger", one, "a Ledger, or a list of them", hidden=True)
        if charged and not charged & set(one.charges()["id"]):
            right = "the ledger that these results were charged to; it has none of them"
            raise OptionError("ledger", one.dataset, right)
    for one in audits:
        if not (isinstance(one, Reported) and hasattr(one, "passed")):
            raise OptionError("audit", type_of(one), "what audit returns, or a list of that")
    check_writable(target)
    attached = [_Attached(one, place) for place, one in enumerate(releases, 1)]
    cite = Citations()
    schemas = _schemas(releases)
    methods = methods_paragraphs(entries, releases, schemas, cite)
    sections = [
        Section("Privacy loss, and what it means", _glance(entries, releases)),
        *(Section(entry.heading, _result(entry, attached)) for entry in entries),
        Section("Public settings", _settings(schemas)),
        Section("Methods", [paragraph(one) for one in methods]),
        Section("Ledger", [block for one in ledgers for block in _ledger(one, charged)]),
        Section("Audit", [block for one in audits for block in _audit(one)]),
        Section("Data availability", _availability(availability, entries, attached)),
        Section("References", [listing(cite.listed)]),
    ]
    lead = [listed(people)] if people else []
    page = page_html(
        title,
        [paragraph(one) for one in (*lead, *abstract.split("\n\n")) if one.strip()],
        [section for section in sections if section.blocks],
        f"Made by dpinfer {version.__version__}; no row was read to make this page.",
    )
    write_whole(target, page.encode("utf-8"))
    return target


# What is given


def _several(given: object) -> list[Any]:
    if given is None:
        return []
    return list(given) if is_list(given) else [given]


def _read_entries(results: object) -> list[Entry]:
    """Read results under their headings, numbering repeated headings."""
    if isinstance(results, Mapping):
        wrong = [name for name in results if not is_text(name)]
        if wrong:
            raise OptionError("results", type_of(wrong[0]), "a mapping whose keys are headings")
        entries = [_entry(name, one, f"results[{name!r}]") for name, one in results.items()]
    elif is_list(results):
        entries = [_entry("", one, f"results[{place}]") for place, one in enumerate(results)]
    else:
        entries = [_entry("", results, "results")]
    if not entries:
        raise OptionError("results", results, f"one or more {_KINDS}")
    counts, seen = Counter(entry.heading for entry in entries), Counter[str]()
    for place, entry in enumerate(entries):
        seen[entry.heading] += 1
        if counts[entry.heading] > 1:
            entries[place] = replace(entry, heading=f"{entry.heading} ({seen[entry.heading]})")
    return entries


def _entry(name: str, one: object, place: str) -> Entry:
    if isinstance(one, Release):
        inferred = one.infer()
        one = inferred if isinstance(inferred, Reportable) else one
    if isinstance(one, pd.DataFrame) and list(one.columns) == _CORRECTED:
        report = Report("P-values corrected for their number", (), (Table.of(one),))
        return Entry(name or "Several tests", one, report, ())
    releases: tuple[AnyRelease, ...]
    if isinstance(one, Reportable):
        report, several = one._report(), getattr(one, "releases", None)
        single = getattr(one, "release", None) or getattr(getattr(one, "results", None), "release", None)
        releases = several if isinstance(several, tuple) else () if single is None else (single,)
    else:
        release = one if isinstance(one, Release) else getattr(one, "release", None)  # a Gram answers questions alone
        if not isinstance(release, Release):
            right = _KINDS
            if isinstance(one, pd.DataFrame | pd.Series):
                right += ": a frame may hold confidential rows, so give the results that it was made from"
            elif hasattr(one, "params") and hasattr(one, "model"):
                right += ": ordinary results carry no guarantee; where the rows are public, dpi.summary_table puts "
                right += "them beside private ones"
            raise OptionError(place, type_of(one), right)
        report, releases = release_report(release), (release,)
    response, title = getattr(one, "response", ""), report.title.removesuffix(" Results")
    if isinstance(response, str) and response and response not in title:
        title = f"{title}: {response}"
    return Entry(name or title, one, report, releases)


def _whole_releases(entries: Sequence[Entry]) -> list[Release]:
    """Return the distinct releases behind all entries, including those of combinations."""
    found: list[Release] = []
    for release in (one for entry in entries for one in entry.releases):
        for one in (release,) if isinstance(release, Release) else release.releases:
            if one not in found:
                found.append(one)
    return found


def _schemas(releases: Sequence[Release]) -> list[Schema]:
    """Join the schemas of releases that agree, column by column."""
    found: list[Schema] = []
    for release in releases:
        new = release.schema
        for place, old in enumerate(found):
            if old.people == new.people and all(old[name] == new[name] for name in new if name in old):
                found[place] = old | new
                break
        else:
            found.append(new)
    return found


@dataclass(frozen=True, eq=False)
class _Attached:
    """A release embedded in the page as a file that a reader can save without a script, and its number."""

    release: Release
    place: int

    @cached_property
    def content(self) -> bytes:
        """The content of the file: JSON, compressed if it is long."""
        plain = self.release.to_json().encode("utf-8")
        return plain if len(plain) < _LONG else gzip.compress(plain, mtime=0)

    @property
    def name(self) -> str:
        """Name of the file."""
        question = str(self.release.question.get("procedure", self.release.kind))
        ending = ".json" if self.content[:1] == b"{" else ".json.gz"
        return f"release-{self.place}-{re.sub(r'[^a-z0-9]+', '-', question.lower()).strip('-')}{ending}"


# Sections


def _glance(entries: Sequence[Entry], releases: Sequence[Release]) -> Blocks:
    """Summarize questions and privacy costs, in a table for each data set."""
    blocks: Blocks = []
    for total in totals([one for entry in entries for one in entry.releases]):
        facts = (
            ("Protected", total.unit),
            ("Neighbours", f"two data sets of which {total.relation} ({total.neighbors})"),
            ("Releases", count(total.count)),
            ("Total privacy loss", total.words.removesuffix(".")),
            *([("What it means", total.power)] if total.power else []),
            ("Not counted", "other releases about these data: their privacy loss comes on top"),
        )
        blocks.append(tables(Report("Data set" if total.dataset is None else f"Data set {total.dataset}", facts)))
    warnings = unprotected(entries)
    if any(release.public for release in releases):
        warnings.append(
            "Results marked as made from public data are simulations: their noise is not secret, and they carry no "
            "guarantee."
        )
    return blocks + [note("No privacy", sentence) for sentence in warnings]


def _result(entry: Entry, attached: Sequence[_Attached]) -> Blocks:
    blocks: Blocks = [tables(entry.report)]
    if entry.picture is not None:
        blocks.append(entry.picture)
    behind = _whole_releases([entry])
    files = [f'<a href="#release-{one.place}">{escape(one.name)}</a>' for one in attached if one.release in behind]
    return [*blocks, Block(f'<p class="source">Made from {listed(files)}.</p>')] if files else blocks


def _settings(schemas: Sequence[Schema]) -> Blocks:
    if not schemas:
        return []
    text = (
        "These are declared as public. The guarantee does not cover them, and assumes that they were not taken from "
        "the rows."
    )
    return [paragraph(text), *(tables(schema_report(one, "Declared columns")) for one in schemas)]


def _ledger(ledger: Ledger, charged: set[str]) -> Blocks:
    """Return budget, spent and remaining, and every charge, marked if its release is on the page."""
    charges = ledger.charges()[["id", "time", "description", "price"]].itertuples(index=False)
    rows = [
        (str(place), f"{time:%Y-%m-%d %H:%M}", text, str(price), "yes" if id in charged else "no", id[:8])
        for place, (id, time, text, price) in enumerate(charges, 1)
    ]
    table = Table(("charge", "time (UTC)", "for", "price", "on this page", "id"), tuple(rows), frozenset({2, 4}))
    facts = (*ledger_facts(ledger)[1:], ("guarantee", f"all charges together: {ledger.spent.describe()}"))
    others = any(row[4] == "no" for row in rows)
    text = (
        "Every charge was written to the ledger before its noise was drawn; a charge beyond the budget is refused. "
        f"{'The table includes releases that are not on this page. ' if others else ''}The ledger does not know "
        "what was released without it."
    )
    return [paragraph(text), tables(Report("Ledger", facts, (table,) if rows else ()))]


def _audit(audit: Any) -> Blocks:
    return [tables(audit._report()), Picture("", lambda: audit.plot().figure, "Errors of tests between neighbours.")]


def _availability(availability: str | None, entries: Sequence[Entry], attached: Sequence[_Attached]) -> Blocks:
    """State the availability of rows and releases, and attach the releases."""
    text = availability
    if not text:
        private = [one for one in attached if not one.release.public]
        names = dict.fromkeys(one.release.dataset for one in private if one.release.dataset)
        held = "held as confidential, and are not on this page" if private or not attached else "declared as public"
        text = f"{f'The rows of {listed(names)}' if names else 'The rows'} are {held}."
        if attached:
            many = "The release below holds" if len(attached) == 1 else f"The {len(attached)} releases below hold"
            lost = [entry.heading for entry in entries if entry.releases and not _whole_releases([entry])]
            text += (
                f" {many} every noisy number that these results were computed from, with the distribution of "
                "its noise, the question and the public schema. They suffice to infer again, with other methods and "
                "for other questions that they answer, without the rows and at no further privacy cost: save a file, "
                f'then `dpinfer.read_release("{attached[0].name}").infer()`.'
            )
            text += f" The releases behind {listed(lost)} are not attached." if lost else ""
    files = ""
    for one in attached:
        size = sum(len(stage.values) for stage in one.release.stages)
        holds = f"{count(size)} {'number' if size == 1 else 'numbers'}"
        text_of = f"{one.release.question['text']}; {holds}, {title_guarantee(one.release)}"
        kind = "application/gzip" if one.name.endswith(".gz") else "application/json"
        files += (
            f'<li id="release-{one.place}"><a download="{escape(one.name)}" href="{data_uri(kind, one.content)}">'
            f"{escape(one.name)}</a> ({len(one.content) / 1000:,.1f} kB): {escape(text_of)}</li>\n"
        )
    blocks: Blocks = [paragraph(one) for one in text.split("\n\n") if one.strip()]
    return [*blocks, Block(f'<ul class="files">{files}</ul>')] if attached else blocks

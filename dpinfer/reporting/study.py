"""The page that is published beside a paper: `report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dpinfer._version as version
from dpinfer.display.report import Reported, listed
from dpinfer.errors import OptionError, type_of
from dpinfer.privacy.ledger import Ledger
from dpinfer.reporting.accounts import glance, ledger_blocks
from dpinfer.reporting.attached import Attached, AttachedRelease, Source
from dpinfer.reporting.blocks import Listed, Picture, Section, Tables, Text
from dpinfer.reporting.methods import methods_paragraphs
from dpinfer.reporting.page import page_html
from dpinfer.reporting.reading import read_entries, whole_releases
from dpinfer.reporting.references import Citations
from dpinfer.schema.schema import schema_report
from dpinfer.writing import check_writable, write_whole

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from dpinfer.release.release import Release
    from dpinfer.reporting.blocks import Block
    from dpinfer.reporting.reading import Entry
    from dpinfer.schema.schema import Schema

__all__ = ["report"]

_SUFFIXES = (".html", ".htm")


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
    """Write results as one HTML page to publish beside a paper: tables, figures, guarantee, methods and releases.

    The page needs no other file and no network, is readable on a phone, in light and dark, and prints. It holds every
    table and figure, what was paid and what that means, the public schema, a methods section with its references, the
    ledger and audits where they are given, a statement on the availability of data, and the releases themselves as
    files to save: a reader infers from them without the rows.

    Parameters
    ----------
    results : result, sequence, or mapping of str to result
        What to show, in this order: results of any question, tests, `Release` (inferred again, free), tables of
        `summary_table`, what `multipletests` returns, plans, studies. Keys of a mapping are headings.
    path : path-like
        A file that ends in ``.html``. It is replaced where it exists, whole or not at all.
    title : str
        The title of the page.
    authors : str or sequence of str
        Who answers for it.
    abstract : str
        Paragraphs, separated by empty lines, before everything else.
    ledger : Ledger or sequence of Ledger, optional
        The ledger that the releases were charged to: shows budget, every charge, and what remains.
    audit : Audit or sequence of Audit, optional
        What `audit` found.
    availability : str, optional
        Another statement on the availability of data; by default one that says that rows are held as confidential,
        and what the attached releases hold.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    OptionError
        If something given is no result (an ordinary fit or a frame of rows among them), the ledger has none of the
        charges, or an option has no such value. Nothing is written then.
    OSError
        If nothing can be written there.

    Notes
    -----
    The page is a function of releases, of the ledger and of public settings: post-processing, which costs nothing
    and can reveal nothing that the releases do not. No row is read. What you write into ``title``, ``abstract`` and
    ``availability`` is not covered by any guarantee: do not describe rows there.

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
    target = _checked_path(path)
    for name, text in (("title", title), ("abstract", abstract), ("availability", availability)):
        if not isinstance(text, str) and not (name == "availability" and text is None):
            raise OptionError(name, type_of(text), "a text")
    if not title.strip():
        raise OptionError("title", title, "a text that is not empty")
    people = _checked_authors(authors)
    entries = read_entries(results)
    releases = whole_releases(entries)
    ledgers = _checked_ledgers(ledger, releases)
    audits = _checked_audits(audit)
    check_writable(target)
    attached = [AttachedRelease(one, place) for place, one in enumerate(releases, 1)]
    cite = Citations()
    schemas = _schemas(releases)
    methods = [Text(one) for one in methods_paragraphs(entries, attached, schemas, cite)]
    sections = [
        Section("What was paid, and what it means", glance(entries, releases)),
        *(Section(entry.heading, _result(entry, attached)) for entry in entries),
        Section("Public settings", _settings(schemas)),
        Section("Methods", methods),
        Section("Ledger", [block for one in ledgers for block in ledger_blocks(one, releases)]),
        Section("Audit", [block for one in audits for block in _audit(one)]),
        Section("Data availability", _availability(availability, entries, attached)),
        Section("References", [Listed(cite.listed)]),
    ]
    lead = [Text(listed(people))] if people else []
    lead += [Text(one) for one in abstract.split("\n\n") if one.strip()]
    footer = f"Made by dpinfer {version.__version__}; no row was read to make this page."
    page = page_html(title, lead, [section for section in sections if section.blocks], footer)
    write_whole(target, page.encode("utf-8"))
    return target


# What is given


def _checked_path(path: object) -> Path:
    if not isinstance(path, str) and not hasattr(path, "__fspath__"):
        raise OptionError("path", type_of(path), "the path of a file that ends in .html")
    target = Path(path)
    if target.suffix.lower() not in _SUFFIXES:
        raise OptionError("path", str(target), "the path of a file that ends in .html")
    if target.is_dir():
        raise OptionError("path", str(target), "a file; this is a folder")
    if not target.parent.is_dir():
        raise OptionError("path", str(target), f"a file in a folder that exists; {target.parent} does not")
    return target


def _checked_authors(authors: object) -> list[str]:
    given = [authors] if isinstance(authors, str) else authors
    if not isinstance(given, Sequence) or not all(isinstance(one, str) and one.strip() for one in given):
        raise OptionError("authors", type_of(authors), "a name, or a list of names")
    return list(given)


def _checked_ledgers(ledger: object, releases: Sequence[Release]) -> list[Ledger]:
    given = _several(ledger)
    charged = {charge for release in releases for charge in release.charge_ids}
    for one in given:
        if not isinstance(one, Ledger):
            raise OptionError("ledger", type_of(one), "a Ledger, or a list of them")
        if charged and not charged & set(one.charges()["id"]):
            raise OptionError(
                "ledger", one.dataset, "the ledger that these results were charged to; it has none of them"
            )
    return given


def _checked_audits(audit: object) -> list[Any]:
    given = _several(audit)
    for one in given:
        if not (isinstance(one, Reported) and hasattr(one, "passed")):
            raise OptionError("audit", type_of(one), "what audit returns, or a list of that")
    return given


def _several(given: object) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]


# Sections


def _result(entry: Entry, attached: Sequence[AttachedRelease]) -> list[Block]:
    blocks: list[Block] = [Tables(entry.report)]
    if entry.picture is not None:
        blocks.append(entry.picture)
    behind = whole_releases([entry])
    sources = [one for one in attached if one.release in behind]
    return [*blocks, Source(sources)] if sources else blocks


def _audit(audit: Any) -> list[Block]:
    return [Tables(audit._report()), Picture("", lambda: audit.plot().figure, "Errors of tests between neighbours.")]


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


def _settings(schemas: Sequence[Schema]) -> list[Block]:
    if not schemas:
        return []
    told = Text(
        "These are declared as public. The guarantee does not cover them, and assumes that they were not taken from "
        "the rows."
    )
    return [told, *(Tables(schema_report(one, "Declared columns")) for one in schemas)]


def _availability(
    availability: str | None, entries: Sequence[Entry], attached: Sequence[AttachedRelease]
) -> list[Block]:
    told = availability or _statement(entries, attached)
    blocks: list[Block] = [Text(one) for one in told.split("\n\n") if one.strip()]
    return [*blocks, Attached(attached)] if attached else blocks


def _statement(entries: Sequence[Entry], attached: Sequence[AttachedRelease]) -> str:
    private = [one for one in attached if not one.release.public]
    names = list(dict.fromkeys(one.release.dataset for one in private if one.release.dataset))
    rows = f"The rows of {listed(names)}" if names else "The rows"
    held = private or not attached
    begun = f"{rows} are {'held as confidential, and are not on this page' if held else 'declared as public'}."
    if not attached:
        return begun
    one = attached[0].name
    many = "The release below holds" if len(attached) == 1 else f"The {len(attached)} releases below hold"
    lost = [entry.heading for entry in entries if entry.releases and not whole_releases([entry])]
    missing = f" Not attached is what is behind {listed(lost)}." if lost else ""
    return (
        f"{begun} {many} every noisy number that these results were computed from, with the law of its noise, the "
        "question and the public schema. They suffice to infer again, with other methods and for other questions "
        "that they answer, without the rows and at no further privacy cost: save a file, then "
        f'`dpinfer.read_release("{one}").infer()`.{missing}'
    )

"""Releases inside a page: each a file that a reader saves, without a script."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

from dpinfer.display.report import count, listed
from dpinfer.reporting.blocks import data_uri
from dpinfer.results.wording import title_guarantee

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.release.release import Release

__all__ = ["Attached", "AttachedRelease", "Source"]

_LONG = 200_000
"""Bytes from which a file is compressed."""


@dataclass(frozen=True, eq=False)
class AttachedRelease:
    """A release, and its place on the page, from 1."""

    release: Release
    place: int

    @cached_property
    def content(self) -> bytes:
        """What the file holds: JSON, compressed where it is long."""
        plain = self.release.to_json().encode("utf-8")
        return plain if len(plain) < _LONG else gzip.compress(plain, mtime=0)

    @property
    def name(self) -> str:
        """Name of the file."""
        asked = str(self.release.question.get("procedure", self.release.kind))
        ending = ".json" if self.content[:1] == b"{" else ".json.gz"
        return f"release-{self.place}-{re.sub(r'[^a-z0-9]+', '-', asked.lower()).strip('-')}{ending}"

    @property
    def text(self) -> str:
        """What was asked, and how many numbers were released at what price."""
        one = self.release
        size = sum(len(stage.values) for stage in one.stages)
        noisy = "number" if size == 1 else "numbers"
        return f"{one.question['text']}; {count(size)} {noisy}, {title_guarantee(one)}"


@dataclass(frozen=True)
class Source:
    """From which releases of the page a result was made."""

    releases: Sequence[AttachedRelease]

    def as_text(self) -> str:
        """Return the names of their files."""
        return f"Made from {listed(one.name for one in self.releases)}."

    def as_html(self) -> str:
        """Return a ``p`` element with links to the files."""
        return f'<p class="source">Made from {listed(map(_link, self.releases))}.</p>'


@dataclass(frozen=True)
class Attached:
    """The releases of a page as a list of files to save."""

    releases: Sequence[AttachedRelease]

    def as_text(self) -> str:
        """Return names and what they hold."""
        return "\n".join(f"- {one.name}: {one.text}" for one in self.releases)

    def as_html(self) -> str:
        """Return an ``ul`` element with a link for each, which holds the file itself."""
        return f'<ul class="files">{"".join(map(_item, self.releases))}</ul>'


def _link(one: AttachedRelease) -> str:
    return f'<a href="#release-{one.place}">{escape(one.name)}</a>'


def _item(one: AttachedRelease) -> str:
    size = f"{len(one.content) / 1000:,.1f} kB"
    kind = "application/gzip" if one.name.endswith(".gz") else "application/json"
    return (
        f'<li id="release-{one.place}"><a download="{escape(one.name)}" '
        f'href="{data_uri(kind, one.content)}">{escape(one.name)}</a> ({size}): {escape(one.text)}</li>\n'
    )

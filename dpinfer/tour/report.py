"""A report made of sections: text for a terminal, and one HTML page."""

from __future__ import annotations

import base64
import io
import re
import textwrap
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

from dpinfer.tour.page_style import STYLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.figure import Figure

__all__ = [
    "MARKER",
    "PAGE",
    "Block",
    "Code",
    "Note",
    "Picture",
    "Section",
    "Table",
    "Text",
    "page_html",
    "section_text",
]

PAGE = "report.html"
"""Name of the page; a folder that holds one with the marker below is an earlier report."""

MARKER = '<meta name="generator" content="dpinfer report">'
_WIDTH = 92
_FOLD = 98
_DPI = 160


@dataclass(frozen=True)
class Text:
    """A paragraph, its line breaks free; what stands between backticks is set as code."""

    text: str

    def as_text(self) -> str:
        """Return the paragraph, wrapped."""
        return textwrap.fill(_flowing(self.text), _WIDTH)

    def as_html(self) -> str:
        """Return a ``p`` element."""
        return f"<p>{_inline(self.text)}</p>"


@dataclass(frozen=True)
class Note:
    """A paragraph that must not be overlooked, set in a box under a word or two, such as "Warning"."""

    label: str
    text: str

    def as_text(self) -> str:
        """Return the paragraph, wrapped, with a bar on its left."""
        text = _flowing(f"{self.label}: {self.text}")
        return textwrap.fill(text, _WIDTH, initial_indent="| ", subsequent_indent="| ")

    def as_html(self) -> str:
        """Return an ``aside`` element."""
        return f'<aside class="note"><strong>{escape(self.label)}.</strong> {_inline(self.text)}</aside>'


@dataclass(frozen=True)
class Code:
    """Text whose lines are kept: what a program prints, or a script.

    The scripts of all sections of a report run, one after the other.
    """

    text: str
    python: bool = False

    def as_text(self) -> str:
        """Return the lines, indented; a script with the prompts of Python."""
        if not self.python:
            return textwrap.indent(_folded(self.text), "    ")
        lines = self.text.splitlines()
        return "\n".join(f"{'...' if line[:1] in (' ', ')') else '>>>'} {line}" for line in lines if line)

    def as_html(self) -> str:
        """Return a ``pre`` element."""
        kind, shown = ("python", self.text) if self.python else ("output", _folded(self.text))
        return f'<pre class="{kind}">{escape(shown)}</pre>'


@dataclass(frozen=True, eq=False)
class Table:
    """A table of texts, its rows labelled by the index.

    Attributes
    ----------
    frame : DataFrame
        What the page shows: cells as they are to be read.
    caption : str
    text : str, optional
        What a terminal shows instead.
    notes : sequence of str
        Sentences below the table of the page.
    """

    frame: pd.DataFrame
    caption: str
    text: str | None = None
    notes: Sequence[str] = ()

    def as_text(self) -> str:
        """Return the caption and the table."""
        shown = self.frame.to_string() if self.text is None else self.text.strip("\n")
        return f"{textwrap.fill(self.caption, _WIDTH)}\n{textwrap.indent(shown, '  ')}"

    def as_html(self) -> str:
        """Return a ``figure`` element that scrolls sideways where the screen is narrow."""
        names = [self.frame.index.name or "", *self.frame.columns]
        head = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in names) if any(names) else ""
        rows = []
        for label, cells in zip(self.frame.index, self.frame.to_numpy(dtype=object), strict=True):
            shown = "".join(f"<td{_alignment(str(cell))}>{escape(str(cell))}</td>" for cell in cells)
            rows.append(f'<tr><th scope="row">{escape(str(label))}</th>{shown}</tr>')
        notes = "".join(f"<li>{_inline(note)}</li>" for note in self.notes)
        return "\n".join(
            [
                f'<figure class="table"><figcaption>{_inline(self.caption)}</figcaption>',
                f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>',
                *rows,
                f"</tbody></table></div>{f'<ul>{notes}</ul>' if notes else ''}</figure>",
            ]
        )


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure, kept as a PNG file of this name and inside the page."""

    name: str
    figure: Figure
    caption: str

    @cached_property
    def png(self) -> bytes:
        """The picture, drawn once."""
        buffer = io.BytesIO()
        self.figure.savefig(buffer, format="png", dpi=_DPI, facecolor="white")
        return buffer.getvalue()

    def as_text(self) -> str:
        """Return where the picture is and what it shows."""
        text = _flowing(f"Figure {self.name}: {self.caption}")
        return textwrap.fill(text, _WIDTH, subsequent_indent="  ")

    def as_html(self) -> str:
        """Return a ``figure`` element that holds the picture itself."""
        width, height = (round(size * 100) for size in self.figure.get_size_inches())
        data = base64.b64encode(self.png).decode("ascii")
        return (
            f'<figure><img width="{width}" height="{height}" alt="{escape(_flowing(self.caption))}" '
            f'src="data:image/png;base64,{data}">'
            f"<figcaption>{_inline(self.caption)} (<code>{escape(self.name)}</code>)</figcaption></figure>"
        )


Block = Text | Note | Code | Table | Picture


@dataclass(frozen=True)
class Section:
    """A chapter of a report: a title, and blocks in the order of reading."""

    title: str
    blocks: Sequence[Block]


def section_text(section: Section) -> str:
    """Return the blocks of a section as text for a terminal, without its title."""
    return "\n\n".join(block.as_text() for block in section.blocks)


def page_html(title: str, lead: Sequence[Block], sections: Sequence[Section], footer: str) -> str:
    """Return a report as one HTML page that needs no other file.

    Its style and its pictures are inside; it is readable on a phone and on paper. ``lead`` stands before the
    table of contents, ``footer`` at the end.
    """
    contents = "".join(f'<li><a href="#chapter-{i}">{escape(s.title)}</a></li>' for i, s in enumerate(sections, 1))
    chapters = [
        f'<section id="chapter-{i}">\n<h2>{i}. {escape(s.title)}</h2>\n{_blocks(s.blocks)}\n</section>'
        for i, s in enumerate(sections, 1)
    ]
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"{MARKER}\n<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>",
            f"<header>\n<h1>{escape(title)}</h1>\n{_blocks(lead)}\n</header>",
            f'<nav aria-label="Contents"><ol>{contents}</ol></nav>',
            *chapters,
            f"<footer>{_inline(footer)}</footer>\n</main>\n</body>\n</html>\n",
        ]
    )


def _flowing(text: str) -> str:
    return " ".join(text.split())


def _folded(text: str) -> str:
    """Break long lines of two columns; what follows starts below the second one."""
    return "\n".join(map(_folded_line, text.splitlines()))


def _folded_line(line: str) -> str:
    label = re.match(r"\S+ {2,}", line)
    if label is None or len(line) <= _FOLD:
        return line
    return textwrap.fill(line, _FOLD, subsequent_indent=" " * len(label[0]))


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(_flowing(text)))


def _alignment(cell: str) -> str:
    return "" if re.fullmatch(r"[-+(]?\s*(inf|[<>]?\s*[\d.,]+(e[-+]?\d+)?)[%)]?|", cell) else ' class="words"'


def _blocks(blocks: Sequence[Block]) -> str:
    return "\n".join(block.as_html() for block in blocks)

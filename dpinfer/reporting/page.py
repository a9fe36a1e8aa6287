"""Self-contained HTML pages and their parts: paragraphs, tables and pictures, also for terminals.

A page is readable on a phone, on light and dark backgrounds, and on paper. Its style is `page.css`.
"""

from __future__ import annotations

import base64
import io
import re
import textwrap
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pandas as pd

from dpinfer.display.report import Report, Table, style_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure

    from dpinfer.release.release import AnyRelease

__all__ = [
    "MARKER", "Block", "Entry", "Picture", "Reportable", "Section", "data_uri", "framed", "listing", "note",
    "page_html", "paragraph", "printed", "results", "script", "section_text", "tables",
]  # fmt: skip

MARKER = '<meta name="generator" content="dpinfer report">'
"""By which a page is known as one of these."""

_WIDTH, _DPI, _COLORS = 92, 144, 64

_THEMES = {
    "light": ("#1c2430", "#ffffff", ("#1f5f99", "#c4661f", "#2e8540", "#8b5fb0", "#8a8f98")),
    "dark": ("#dde3ea", "#151a21", ("#6cb0ea", "#f0a35e", "#6cc58a", "#c3a1e6", "#9aa3ad")),
}
"""Colours of figures: ink, ground, cycle; the grounds are those of the page."""


@runtime_checkable
class Reportable(Protocol):
    """An object that is shown as facts, tables and notes."""

    def _report(self) -> Report: ...


@dataclass(frozen=True)
class Block:
    """A part of a section: escaped HTML, and its text for a terminal."""

    html: str
    text: str = ""


def paragraph(text: str) -> Block:
    """Return a paragraph with free line breaks; text between backticks is set as code."""
    return Block(f"<p>{inline(text)}</p>", textwrap.fill(_flowing(text), _WIDTH))


def note(label: str, text: str) -> Block:
    """Return a boxed paragraph under a short heading, such as "Warning"."""
    html = f'<aside class="note"><strong>{escape(label)}.</strong> {inline(text)}</aside>'
    return Block(html, textwrap.fill(_flowing(f"{label}: {text}"), _WIDTH, initial_indent="| ", subsequent_indent="| "))


def listing(items: Sequence[str]) -> Block:
    """Return a list of sentences."""
    lines = [textwrap.fill(f"- {_flowing(one)}", _WIDTH, subsequent_indent="  ") for one in items]
    return Block(f"<ul>{''.join(f'<li>{inline(one)}</li>' for one in items)}</ul>", "\n".join(lines))


def printed(text: str) -> Block:
    """Return the output of a program, with its lines kept, and folded if too long."""
    return Block(f'<pre class="output">{escape(text)}</pre>', textwrap.indent(text, "    "))


def script(text: str) -> Block:
    """Return a script, shown on a terminal with Python's prompts."""
    lines = [f"{'...' if line[:1] in (' ', ')') else '>>>'} {line}" for line in text.splitlines() if line]
    return Block(f'<pre class="python">{escape(text)}</pre>', "\n".join(lines))


def tables(report: Report, text: str | None = None) -> Block:
    """Return facts, tables, notes and warnings, with their text for a terminal; the page holds the style."""
    told = (report.text(_WIDTH) if text is None else text).strip("\n")
    return Block(report.html(styled=False), textwrap.indent(told, "  "))


def results(shown: Reportable, title: str = "") -> Block:
    """Return an object's notebook view, under another title if one is given, and its printed text."""
    summary, report = getattr(shown, "summary", None), shown._report()
    text = str(shown if summary is None else summary()).strip("\n")
    return tables(replace(report, title=title) if title else report, f"{title}\n{text}" if title else text)


def framed(frame: pd.DataFrame, caption: str) -> Block:
    """Return a frame with rows labelled by the index."""
    return tables(Report("", (), (Table.of(frame, caption=caption),)))


class _Drawn(NamedTuple):
    """A picture, its size in page pixels, and the text of its titles and axes."""

    png: bytes
    width: int
    height: int
    words: str


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure for light and for dark backgrounds, embedded in the page.

    Attributes
    ----------
    name : str
        Name of the file in a folder; empty if there is none.
    draw : callable
        Returns a figure in the active matplotlib colours.
    caption : str
    """

    name: str
    draw: Callable[[], Figure]
    caption: str

    @cached_property
    def png(self) -> bytes:
        """The picture on a light background, drawn once."""
        return self._light.png

    @cached_property
    def _light(self) -> _Drawn:
        return self._drawn("light")

    def _drawn(self, theme: str) -> _Drawn:
        """Return the picture with a reduced palette."""
        from cycler import cycler  # noqa: PLC0415  (imported when first needed: matplotlib is slow to load)
        from matplotlib import pyplot as plt  # noqa: PLC0415  (as above)
        from PIL import Image  # noqa: PLC0415  (as above)

        ink, ground, cycle = _THEMES[theme]
        inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color", "ytick.color")
        colors = dict.fromkeys((*inked, "hatch.color"), ink)
        colors |= dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), ground)
        style = {**colors, "axes.prop_cycle": cycler(color=cycle), "legend.frameon": False}
        buffer = io.BytesIO()
        with plt.style.context(["default", style]):
            figure = self.draw()
            try:
                figure.savefig(buffer, format="png", dpi=_DPI)
                width, height = (round(size * 100) for size in figure.get_size_inches())
                words = []  # what is written at the axes, for those who do not see the figure
                for axes in figure.axes:
                    parts = {"": axes.get_title(), "horizontal: ": axes.get_xlabel(), "vertical: ": axes.get_ylabel()}
                    words.append(", ".join(f"{what}{text}" for what, text in parts.items() if text))
            finally:
                plt.close(figure)
        whole = Image.open(buffer).convert("RGB")
        few = whole.quantize(_COLORS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        corner, palette = few.getpixel((0, 0)), few.getpalette()
        assert isinstance(corner, int)
        assert palette is not None
        palette[3 * corner : 3 * corner + 3] = whole.getpixel((0, 0))  # the ground as it is
        few.putpalette(palette)
        buffer = io.BytesIO()
        few.save(buffer, format="png", optimize=True)
        return _Drawn(buffer.getvalue(), width, height, "; ".join(filter(None, dict.fromkeys(words))))

    @property
    def text(self) -> str:
        """The location of the picture and its contents."""
        return textwrap.fill(_flowing(f"Figure {self.name}: {self.caption}"), _WIDTH, subsequent_indent="  ")

    @property
    def html(self) -> str:
        """A ``figure`` element with the embedded picture for both backgrounds."""
        light, dark = self._light, self._drawn("dark")
        alt = escape(_flowing(f"{self.caption} {light.words}"))
        named = f" (<code>{escape(self.name)}</code>)" if self.name else ""
        return (
            '<figure><picture><source media="screen and (prefers-color-scheme: dark)" '
            f'srcset="{data_uri("image/png", dark.png)}"><img width="{light.width}" height="{light.height}" '
            f'alt="{alt}" src="{data_uri("image/png", light.png)}"></picture>'
            f"<figcaption>{inline(self.caption)}{named}</figcaption></figure>"
        )


@dataclass(frozen=True, eq=False)
class Entry:
    """One result of a page.

    Attributes
    ----------
    heading : str
    given : object
        The result.
    report : Report
        The report that shows it.
    releases : tuple of Release or CombinedRelease
        The releases behind it; empty if unknown.
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


@dataclass(frozen=True)
class Section:
    """A section of a page: a title, and blocks in reading order."""

    title: str
    blocks: Sequence[Block | Picture]


def section_text(section: Section) -> str:
    """Return the blocks of a section as terminal text, without its title."""
    return "\n\n".join(block.text for block in section.blocks)


def data_uri(kind: str, content: bytes) -> str:
    """Return embedded content as a data URI."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def inline(text: str) -> str:
    """Return an escaped text, with text between backticks set as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(_flowing(text)))


def _flowing(text: str) -> str:
    return " ".join(text.split())


def page_html(title: str, lead: Sequence[Block], sections: Sequence[Section], footer: str) -> str:
    """Return a page.

    Its style and pictures are embedded. ``lead`` precedes the table of contents, and ``footer`` ends the page.
    """
    contents = "".join(f'<li><a href="#section-{i}">{escape(s.title)}</a></li>' for i, s in enumerate(sections, 1))
    parts = "\n".join(
        f'<section id="section-{i}" aria-labelledby="heading-{i}">\n<h2 id="heading-{i}">{i}. {escape(s.title)}</h2>\n'
        f"{_html(s.blocks)}\n</section>"
        for i, s in enumerate(sections, 1)
    )
    opening = _html(lead)
    style = files("dpinfer.reporting").joinpath("page.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"{MARKER}\n<title>{escape(title)}</title>",
            f"{style_of(opening + parts)}\n<style>\n{style}</style>\n</head>\n<body>\n<main>",
            f"<header>\n<h1>{escape(title)}</h1>\n{opening}\n</header>",
            f'<nav aria-label="Contents"><ol>{contents}</ol></nav>',
            parts,
            f"<footer>{inline(footer)}</footer>\n</main>\n</body>\n</html>\n",
        ]
    )


def _html(blocks: Sequence[Block | Picture]) -> str:
    return "\n".join(block.html for block in blocks)

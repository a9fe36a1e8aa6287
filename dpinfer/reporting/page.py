"""Pages of HTML that need no other file, and what they are made of: paragraphs, tables, pictures, for terminals too.

A page is readable on a phone, on light and dark ground, and on paper. Its style is `page.css`.
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
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import pandas as pd

from dpinfer.display.report import Report, Table, style_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure

    from dpinfer.release.release import AnyRelease

__all__ = [
    "MARKER",
    "Block",
    "Code",
    "Entry",
    "Html",
    "Listed",
    "Note",
    "Picture",
    "Reportable",
    "Section",
    "Tables",
    "Text",
    "data_uri",
    "page_html",
    "section_text",
]

MARKER = '<meta name="generator" content="dpinfer report">'
"""By which a page is known as one of these."""

_WIDTH, _DPI, _COLORS = 92, 144, 64

_THEMES = {
    "light": ("#1c2430", "#ffffff", ("#1f5f99", "#c4661f", "#2e8540", "#8b5fb0", "#8a8f98")),
    "dark": ("#dde3ea", "#151a21", ("#6cb0ea", "#f0a35e", "#6cc58a", "#c3a1e6", "#9aa3ad")),
}
"""Colours of figures: ink, ground, cycle; the grounds are those of the page."""


class Block(Protocol):
    """A part of a section."""

    def as_text(self) -> str:
        """Return it as text for a terminal."""

    def as_html(self) -> str:
        """Return it as HTML, with everything escaped."""


@runtime_checkable
class Reportable(Protocol):
    """What shows as facts, tables and notes."""

    def _report(self) -> Report: ...


@dataclass(frozen=True)
class Text:
    """A paragraph, its line breaks free; what stands between backticks is set as code."""

    text: str

    def as_text(self) -> str:
        """Return the paragraph, wrapped."""
        return textwrap.fill(_flowing(self.text), _WIDTH)

    def as_html(self) -> str:
        """Return a ``p`` element."""
        return f"<p>{inline(self.text)}</p>"


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
        return f'<aside class="note"><strong>{escape(self.label)}.</strong> {inline(self.text)}</aside>'


@dataclass(frozen=True)
class Listed:
    """Sentences one below the other."""

    items: Sequence[str]

    def as_text(self) -> str:
        """Return the sentences, each wrapped."""
        return "\n".join(textwrap.fill(f"- {_flowing(one)}", _WIDTH, subsequent_indent="  ") for one in self.items)

    def as_html(self) -> str:
        """Return an ``ul`` element."""
        return f"<ul>{''.join(f'<li>{inline(one)}</li>' for one in self.items)}</ul>"


@dataclass(frozen=True)
class Code:
    """Text whose lines are kept, and folded where they are too long: what a program prints, or a script.

    The scripts of all sections of the tour run, one after the other.
    """

    text: str
    python: bool = False

    def as_text(self) -> str:
        """Return the lines, indented; a script with the prompts of Python."""
        if not self.python:
            return textwrap.indent(self.text, "    ")
        lines = self.text.splitlines()
        return "\n".join(f"{'...' if line[:1] in (' ', ')') else '>>>'} {line}" for line in lines if line)

    def as_html(self) -> str:
        """Return a ``pre`` element."""
        return f'<pre class="{"python" if self.python else "output"}">{escape(self.text)}</pre>'


@dataclass(frozen=True)
class Html:
    """HTML that is whole already, and what a terminal shows instead."""

    html: str
    text: str = ""

    def as_text(self) -> str:
        """Return what a terminal shows."""
        return self.text

    def as_html(self) -> str:
        """Return the HTML."""
        return self.html


@dataclass(frozen=True)
class Tables:
    """Facts, tables, notes and warnings.

    Attributes
    ----------
    report : Report
        What the page shows.
    text : str, optional
        What a terminal shows instead.
    """

    report: Report
    text: str | None = None

    @classmethod
    def of(cls, shown: Reportable, title: str = "") -> Self:
        """Take what a notebook shows of something, under another title if one is given, and what it prints."""
        summary, report = getattr(shown, "summary", None), shown._report()
        printed = str(shown if summary is None else summary()).strip("\n")
        return cls(replace(report, title=title) if title else report, f"{title}\n{printed}" if title else printed)

    @classmethod
    def framed(cls, frame: pd.DataFrame, caption: str) -> Self:
        """Take a frame, its rows labelled by the index."""
        return cls(Report("", (), (Table.of(frame, caption=caption),)))

    def as_text(self) -> str:
        """Return what a terminal shows."""
        return textwrap.indent((self.report.text(_WIDTH) if self.text is None else self.text).strip("\n"), "  ")

    def as_html(self) -> str:
        """Return what the page shows; the page holds the style."""
        return self.report.html(styled=False)


class _Drawn(NamedTuple):
    """A picture, its size in pixels of a page, and what its titles and axes say."""

    png: bytes
    width: int
    height: int
    words: str


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure, drawn for light and for dark ground, and kept inside the page.

    Attributes
    ----------
    name : str
        Of the file that a folder keeps; empty where there is none.
    draw : callable
        Returns a figure, in the colours of matplotlib that are in force.
    caption : str
    """

    name: str
    draw: Callable[[], Figure]
    caption: str

    @cached_property
    def png(self) -> bytes:
        """The picture on light ground, drawn once."""
        return self._light.png

    @cached_property
    def _light(self) -> _Drawn:
        return self._drawn("light")

    def _drawn(self, theme: str) -> _Drawn:
        """Return the picture in a few colours."""
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

    def as_text(self) -> str:
        """Return where the picture is and what it shows."""
        text = _flowing(f"Figure {self.name}: {self.caption}")
        return textwrap.fill(text, _WIDTH, subsequent_indent="  ")

    def as_html(self) -> str:
        """Return a ``figure`` element that holds the picture itself, for either ground."""
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


@dataclass(frozen=True)
class Section:
    """A section of a page: a title, and blocks in the order of reading."""

    title: str
    blocks: Sequence[Block]


def section_text(section: Section) -> str:
    """Return the blocks of a section as text for a terminal, without its title."""
    return "\n\n".join(block.as_text() for block in section.blocks)


def data_uri(kind: str, content: bytes) -> str:
    """Return content that a page holds itself."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def inline(text: str) -> str:
    """Return a text with everything escaped, and what stands between backticks set as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(_flowing(text)))


def _flowing(text: str) -> str:
    return " ".join(text.split())


def page_html(title: str, lead: Sequence[Block], sections: Sequence[Section], footer: str) -> str:
    """Return a page.

    Its style and its pictures are inside. ``lead`` stands before the table of contents, ``footer`` at the end.
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


def _html(blocks: Sequence[Block]) -> str:
    return "\n".join(block.as_html() for block in blocks)

"""A report made of sections: as text for a terminal, as one HTML page, and as a folder that appears whole."""

from __future__ import annotations

import base64
import io
import re
import secrets
import shutil
import textwrap
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd
    from matplotlib.figure import Figure

    from dpinfer.results import PrivateResults

__all__ = [
    "PAGE",
    "Block",
    "Code",
    "Note",
    "Picture",
    "Section",
    "Table",
    "Text",
    "format_number",
    "format_pvalue",
    "page_html",
    "regression_frame",
    "section_text",
    "staged_folder",
]

PAGE = "report.html"
"""Name of the page; a folder that holds one with the marker below is an earlier report."""

_MARKER = '<meta name="generator" content="dpinfer report">'
_WIDTH = 92
_DPI = 160


@dataclass(frozen=True)
class Text:
    """A paragraph; what stands between backticks is set as code.

    Attributes
    ----------
    text : str
    """

    text: str

    def as_text(self) -> str:
        """Return the paragraph, wrapped."""
        return textwrap.fill(self.text, _WIDTH)

    def as_html(self) -> str:
        """Return a ``p`` element."""
        return f"<p>{_inline(self.text)}</p>"


@dataclass(frozen=True)
class Note:
    """A paragraph that must not be overlooked, set in a box.

    Attributes
    ----------
    label : str
        A word or two, such as "Warning".
    text : str
    """

    label: str
    text: str

    def as_text(self) -> str:
        """Return the paragraph, wrapped, with a bar on its left."""
        return textwrap.fill(
            f"{self.label}: {self.text}", _WIDTH, initial_indent="| ", subsequent_indent="| "
        )

    def as_html(self) -> str:
        """Return an ``aside`` element."""
        return f'<aside class="note"><strong>{escape(self.label)}.</strong> {_inline(self.text)}</aside>'


@dataclass(frozen=True)
class Code:
    """Text whose lines are kept: a script, or what a program prints.

    Attributes
    ----------
    text : str
    python : bool
        Whether it is a script. The scripts of all sections, one after the other, run.
    """

    text: str
    python: bool = False

    def as_text(self) -> str:
        """Return the lines, indented; a script with the prompt of Python."""
        return textwrap.indent(self.text, ">>> " if self.python else "    ")

    def as_html(self) -> str:
        """Return a ``pre`` element."""
        return f'<pre class="{"python" if self.python else "output"}">{escape(self.text)}</pre>'


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
        head = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in ["", *self.frame.columns])
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
    """A figure, kept as a PNG file and inside the page.

    Attributes
    ----------
    name : str
        Name of the file.
    figure : matplotlib.figure.Figure
    caption : str
    """

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
        return textwrap.fill(f"Figure {self.name}: {self.caption}", _WIDTH, subsequent_indent="  ")

    def as_html(self) -> str:
        """Return a ``figure`` element that holds the picture itself."""
        width, height = (round(size * 100) for size in self.figure.get_size_inches())
        data = base64.b64encode(self.png).decode("ascii")
        return (
            f'<figure><img width="{width}" height="{height}" alt="{escape(self.caption)}" '
            f'src="data:image/png;base64,{data}">'
            f"<figcaption>{_inline(self.caption)} (<code>{escape(self.name)}</code>)</figcaption></figure>"
        )


Block = Text | Note | Code | Table | Picture


@dataclass(frozen=True)
class Section:
    """A chapter of a report.

    Attributes
    ----------
    title : str
    blocks : sequence of Text, Note, Code, Table or Picture
        In the order of reading.
    """

    title: str
    blocks: Sequence[Block]


def section_text(section: Section) -> str:
    """Return the blocks of a section as text for a terminal, without its title."""
    return "\n\n".join(block.as_text() for block in section.blocks)


def page_html(title: str, lead: Sequence[Block], sections: Sequence[Section], footer: str) -> str:
    """Return a report as one HTML page that needs no other file.

    Parameters
    ----------
    title : str
    lead : sequence of blocks
        What stands before the contents.
    sections : sequence of Section
    footer : str
        A last line.

    Returns
    -------
    str
        With its style and its pictures inside; readable on a phone and on paper.
    """
    contents = "".join(
        f'<li><a href="#chapter-{i}">{escape(s.title)}</a></li>' for i, s in enumerate(sections, 1)
    )
    chapters = [
        f'<section id="chapter-{i}">\n<h2>{i}. {escape(section.title)}</h2>\n{_blocks(section.blocks)}\n</section>'
        for i, section in enumerate(sections, 1)
    ]
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"{_MARKER}\n<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>",
            f"<header>\n<h1>{escape(title)}</h1>\n{_blocks(lead)}\n</header>",
            f'<nav aria-label="Contents"><ol>{contents}</ol></nav>',
            *chapters,
            f"<footer>{_inline(footer)}</footer>\n</main>\n</body>\n</html>\n",
        ]
    )


def regression_frame(results: PrivateResults) -> pd.DataFrame:
    """Return the table of a private regression, its numbers written for reading.

    Parameters
    ----------
    results : PrivateResults

    Returns
    -------
    DataFrame of str
        A row a term: estimate, the two parts of the standard error and the whole, p-value, interval and share
        of noise.
    """
    frame = results.summary_frame()
    pvalue, lower, upper = frame.columns[5:8]
    shown = {
        "estimate": frame["coef"].map(format_number),
        "std err": frame["std err"].map(format_number),
        "from sampling": frame["std err (sampling)"].map(format_number),
        "from noise": frame["std err (noise)"].map(format_number),
        pvalue: frame[pvalue].map(format_pvalue),
        lower: frame[lower].map(format_number),
        upper: frame[upper].map(format_number),
        "noise share": frame["noise share"].map("{:.0%}".format),
    }
    return frame.iloc[:, :0].assign(**shown)


def format_number(value: float) -> str:
    """Write a number with four decimals, or with four digits where it is large; infinity as such."""
    if not np.isfinite(value) or abs(value) >= 1000:
        return f"{value:.4g}"
    return f"{value:.4f}"


def format_pvalue(value: float) -> str:
    """Write a p-value with three decimals, or say that it is smaller than they show."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


@contextmanager
def staged_folder(target: Path) -> Iterator[Path]:
    """Give a folder to work in, and turn it into the target when all went well.

    Parameters
    ----------
    target : Path
        A folder that does not exist yet, is empty, or holds an earlier report; files of the same names are
        then replaced.

    Yields
    ------
    Path
        An empty folder on the same disk. It is removed after an error, and the target is as it was.

    Raises
    ------
    OptionError
        If the target is something else.
    OSError
        If nothing can be written there.
    """
    exists = _check_target(target)
    staging = (target if exists else target.parent) / f".{target.name}-{secrets.token_hex(4)}"
    staging.mkdir()
    try:
        yield staging
        if exists:
            for made in sorted(staging.iterdir(), key=lambda path: path.name == PAGE):
                made.replace(target / made.name)
        else:
            staging.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _check_target(target: Path) -> bool:
    """Return whether the target exists; refuse one whose files are not a report's."""
    if not target.parent.is_dir():
        raise OptionError("out", str(target), f"a folder inside one that exists; {target.parent} does not")
    if not target.exists():
        return False
    if not target.is_dir():
        raise OptionError("out", str(target), "a folder; this is a file")
    if any(not path.name.startswith(".") for path in target.iterdir()):
        page = target / PAGE
        if not page.is_file() or _MARKER not in page.read_text(encoding="utf-8", errors="replace"):
            raise OptionError("out", str(target), "a new or an empty folder, or that of an earlier report")
    return True


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _alignment(cell: str) -> str:
    return "" if re.fullmatch(r"[-+(]?\s*(inf|[<>]?\s*[\d.,]+(e[-+]?\d+)?)[%)]?|", cell) else ' class="words"'


def _blocks(blocks: Sequence[Block]) -> str:
    return "\n".join(block.as_html() for block in blocks)


_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #f4f5f7; color: #1c2430; -webkit-text-size-adjust: 100%;
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 52rem; margin: 0 auto; padding: 1.5rem 2.2rem 3rem; background: #fff; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: .8rem 0 1rem; }
h2 { font-size: 1.35rem; line-height: 1.3; margin: 2.6rem 0 .8rem; padding-top: .9rem; border-top: 2px solid #1f4e79; }
p { margin: .8rem 0; }
a { color: #1f4e79; }
nav { background: #eef3f8; border-radius: 6px; padding: .7rem 1rem; margin: 1.4rem 0; }
nav ol { margin: 0; padding-left: 1.4rem; }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
code { font-size: .9em; background: #eef1f4; border-radius: 3px; padding: 0 .25em; }
pre { font-size: .82rem; line-height: 1.45; overflow-x: auto; padding: .8rem 1rem; margin: 1rem 0;
  background: #f4f6f8; border-left: 3px solid #b9c4d0; border-radius: 0 4px 4px 0; }
pre.python { border-left-color: #1f4e79; }
figure { margin: 1.5rem 0; break-inside: avoid; }
figure img { display: block; width: 100%; max-width: 44rem; height: auto; margin: 0 auto; }
figcaption { font-size: .9rem; color: #4a5563; margin: .5rem 0; }
figure.table figcaption { font-weight: 600; color: #1c2430; }
figure.table ul { font-size: .85rem; color: #4a5563; padding-left: 1.2rem; margin: .5rem 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; min-width: 60%; }
th, td { padding: .32rem .7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #e1e5ea; }
thead th { border-bottom: 2px solid #8593a3; font-weight: 600; }
tbody th { font-weight: 500; }
th:first-child, td.words { text-align: left; }
td.words { white-space: normal; }
aside.note { border: 1px solid #d9b44a; border-left-width: 5px; background: #fdf8e7; border-radius: 4px;
  padding: .7rem 1rem; margin: 1.2rem 0; break-inside: avoid; }
footer { margin-top: 3rem; padding-top: .8rem; border-top: 1px solid #e1e5ea; font-size: .85rem; color: #4a5563; }
@media (max-width: 40rem) {
  main { padding: .8rem 1rem 2rem; }
  h1 { font-size: 1.5rem; }
  th, td { padding: .3rem .45rem; }
}
@media print {
  body { background: #fff; font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  nav { display: none; }
  h2 { break-after: avoid; }
  pre { white-space: pre-wrap; break-inside: avoid; }
  .wide { overflow: visible; }
  table { font-size: 8.5pt; }
  thead { display: table-header-group; }
}
"""

"""A report made of sections and figures: text for a terminal, one HTML page, a folder that appears whole."""

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
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from dpinfer.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from dpinfer.privacy import ZCDP, Ledger
    from dpinfer.results import DescriptionResults, PrivateResults

__all__ = [
    "PAGE",
    "Block",
    "Code",
    "Note",
    "Picture",
    "Section",
    "Table",
    "Text",
    "account_figure",
    "budget_figure",
    "coefficient_figure",
    "comparison_figure",
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
_BLUE, _GREY, _PALE = "#1f5f99", "#8a8f98", "#e3e6ea"


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
            return textwrap.indent(self.text, "    ")
        lines = self.text.splitlines()
        return "\n".join(f"{'...' if line[:1] in (' ', ')') else '>>>'} {line}" for line in lines if line)

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
        names = ["", *self.frame.columns]
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
            f"{_MARKER}\n<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>",
            f"<header>\n<h1>{escape(title)}</h1>\n{_blocks(lead)}\n</header>",
            f'<nav aria-label="Contents"><ol>{contents}</ol></nav>',
            *chapters,
            f"<footer>{_inline(footer)}</footer>\n</main>\n</body>\n</html>\n",
        ]
    )


def regression_frame(results: PrivateResults) -> pd.DataFrame:
    """Return the table of a private regression, its numbers written for reading.

    A row a term: estimate, standard error and its parts, statistic, p-value, interval, share of noise.
    """
    frame = results.summary_frame()
    statistic, pvalue, lower, upper = frame.columns[4:8]
    shown = {
        "estimate": frame["coef"].map(format_number),
        "std err": frame["std err"].map(format_number),
        "from sampling": frame["std err (sampling)"].map(format_number),
        "from noise": frame["std err (noise)"].map(format_number),
        statistic: frame[statistic].map("{:.2f}".format),
        pvalue: frame[pvalue].map(format_pvalue),
        lower: frame[lower].map(format_number),
        upper: frame[upper].map(format_number),
        "noise share": frame["noise share"].map("{:.0%}".format),
    }
    return frame.iloc[:, :0].assign(**shown)


def described_frame(results: PrivateResults) -> pd.DataFrame:
    """Return estimates and intervals of a description as texts."""
    frame = results.summary_frame()
    shown = frame.drop(columns=["std err (sampling)", "std err (noise)"])
    shown.index = pd.Index(list(results.params.index))
    for name in shown.columns:
        style = "{:.1%}" if name == "noise share" else "{:,.0f}" if name == "count" else "{:.4g}"
        shown[name] = [style.format(value) for value in shown[name]]
    return shown


def warning_notes(results: PrivateResults) -> list[Block]:
    """Return what results warn of, a note for each."""
    return [Note("Warning", f"{flag[:1].upper()}{flag[1:]}.") for flag in results.flags]


def format_number(value: float) -> str:
    """Write a number with four decimals, or with four digits where it is large; infinity as such."""
    if not np.isfinite(value) or abs(value) >= 1000:
        return f"{value:.4g}"
    return f"{value:.4f}"


def format_pvalue(value: float) -> str:
    """Write a p-value with three decimals, or say that it is smaller than they show."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _axes(height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6.8, height), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.06))
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def coefficient_figure(results: PrivateResults) -> Figure:
    """Draw the slopes of a regression; see ``PrivateResults.plot_coefficients``."""
    figure, axes = _axes(1.4 + 0.42 * (len(results.params) - 1))
    results.plot_coefficients(ax=axes, color=_BLUE)
    return figure


def described_figure(results: DescriptionResults) -> Figure:
    """Draw descriptions by group; see ``DescriptionResults.plot``."""
    figure, axes = _axes(1.6 + 0.42 * len(results.params))
    results.plot(ax=axes, color=_BLUE)
    return figure


def drawn_figure(draw: Callable[[Axes], object], height: float) -> Figure:
    """Draw a plot of the library in a figure of its own."""
    figure, axes = _axes(height)
    draw(axes)
    return figure


def comparison_figure(results: PrivateResults, ordinary: Any) -> Figure:
    """Draw both fits' intervals of the slopes, one above the other."""
    terms = [name for name in results.params.index if name != "Intercept"]
    figure, axes = _axes(1.6 + 0.5 * len(terms))
    fits = ((results, "private, noise counted", -0.14, _BLUE), (ordinary, "ordinary", 0.14, _GREY))
    ends = np.array([fit.conf_int().loc[terms].to_numpy(dtype=np.float64) for fit, *_ in fits])
    estimates = [fit.params[terms].to_numpy(dtype=np.float64) for fit, *_ in fits]
    finite = np.concatenate([ends[np.isfinite(ends)], *estimates, [0.0]])
    low, high = finite.min() - 0.06 * np.ptp(finite), finite.max() + 0.06 * np.ptp(finite)
    for (_, label, shift, color), (left, right), estimate in zip(fits, ends.transpose(0, 2, 1), estimates, strict=True):
        place = np.arange(len(terms)) + shift
        axes.hlines(place, np.maximum(left, low), np.minimum(right, high), color=color, linewidth=2.2)
        axes.plot(estimate, place, "o", color=color, label=label)
        axes.plot(np.full(np.isinf(left).sum(), low), place[np.isinf(left)], "<", color=color, clip_on=False)
        axes.plot(np.full(np.isinf(right).sum(), high), place[np.isinf(right)], ">", color=color, clip_on=False)
    axes.axvline(0.0, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
    axes.set(xlim=(low, high), ylim=(len(terms) - 0.5, -0.5), xlabel="coefficient, 95% interval")
    axes.set_yticks(np.arange(len(terms)), terms)
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    return figure


def budget_figure(results: PrivateResults, price: ZCDP) -> Figure:
    """Draw each slope's standard error against the price."""
    figure, axes = _axes(3.6)
    prices = price.rho * np.geomspace(0.1, 10.0, 60)
    ratio = (results.bse_noise / results.bse_sampling).drop("Intercept").sort_values(ascending=False)
    for number, (name, noise) in enumerate(ratio.items()):
        style = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))[number % 5]
        axes.plot(prices, np.sqrt(1 + noise**2 * price.rho / prices), label=str(name), linestyle=style)
    axes.axvline(price.rho, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
    axes.set(xscale="log", xlabel="price: rho of zCDP", ylabel="std err / std err without noise")
    axes.legend(frameon=False)
    return figure


def account_figure(ledger: Ledger) -> Figure:
    """Draw the budget as one bar, a part for each charge and one for the rest."""
    figure, axes = _axes(1.9)
    amounts = ledger.charges()["amount"].to_numpy()
    starts = np.concatenate([[0.0], np.cumsum(amounts)])
    for number, (start, amount) in enumerate(zip(starts, amounts, strict=False), 1):
        label = f"charge {number}: {amount:.4g}"
        axes.barh(0, amount, left=start, color=_BLUE, alpha=1 / number, edgecolor="white", label=label)
    rest = float(ledger.remaining.composable[0])
    axes.barh(0, rest, left=starts[-1], color=_PALE, edgecolor="white", label=f"remaining: {rest:.4g}")
    axes.set(yticks=[], xlim=(0, starts[-1] + rest), xlabel=f"{ledger.currency} of zCDP")
    axes.spines["left"].set_visible(False)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


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


def _flowing(text: str) -> str:
    return " ".join(text.split())


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(_flowing(text)))


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
h2 { font-size: 1.35rem; line-height: 1.3; margin: 2.6rem 0 .8rem; padding-top: .9rem;
  border-top: 2px solid #1f4e79; }
p { margin: .8rem 0; }
nav { background: #eef3f8; border-radius: 6px; padding: .7rem 1rem; margin: 1.4rem 0; }
nav ol { margin: 0; padding-left: 1.4rem; }
nav a { color: #1f4e79; }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
code { font-size: .9em; background: #eef1f4; border-radius: 3px; padding: 0 .25em; overflow-wrap: anywhere; }
pre { font-size: .82rem; line-height: 1.45; overflow-x: auto; padding: .8rem 1rem; margin: 1rem 0;
  background: #f4f6f8; border-left: 3px solid #b9c4d0; border-radius: 0 4px 4px 0; }
pre.python { border-left-color: #1f4e79; }
figure { margin: 1.5rem 0; break-inside: avoid; }
figure img { display: block; width: 100%; max-width: 44rem; height: auto; margin: 0 auto; }
figcaption { font-size: .9rem; color: #4a5563; margin: .5rem 0; }
.table figcaption { font-weight: 600; color: #1c2430; }
.table ul { font-size: .85rem; color: #4a5563; padding-left: 1.2rem; margin: .5rem 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; min-width: 60%; }
th, td { padding: .32rem .7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #e1e5ea; }
thead th { border-bottom: 2px solid #8593a3; }
tbody th { font-weight: 500; }
th:first-child, td.words { text-align: left; }
td.words { white-space: normal; }
.note { border: 1px solid #d9b44a; border-left-width: 5px; background: #fdf8e7; border-radius: 4px;
  padding: .7rem 1rem; margin: 1.2rem 0; break-inside: avoid; }
footer { margin-top: 3rem; padding-top: .8rem; border-top: 1px solid #e1e5ea; font-size: .85rem; }
@media (max-width: 40rem) { main { padding: .8rem 1rem 2rem; } h1 { font-size: 1.5rem; }
  th, td { padding: .3rem .45rem; } }
@media print { body { background: #fff; font-size: 10.5pt; } main { max-width: none; padding: 0; }
  nav { display: none; } h2 { break-after: avoid; } pre { white-space: pre-wrap; break-inside: avoid; }
  .wide { overflow: visible; } table { font-size: 8.5pt; } }
"""

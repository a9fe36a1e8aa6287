"""A table of several results, as text, HTML, LaTeX and markdown."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from statsmodels.iolib.table import SimpleTable

from dpinfer.results.printing import HTML, LATEX_TEXT, escape_markdown, table_width

if TYPE_CHECKING:
    import pandas as pd

    Block = tuple[str, list[list[str]]]

__all__ = ["SummaryTable", "one_line"]

_NAME_WIDTH, _TERM_WIDTH, _FACT_WIDTH, _NOTE_WIDTH = 20, 36, 24, 72
_LATEX = {"replacements": {}, "header": "%s", "stub": "%s", "data_aligns": "r", "header_align": "r"}
_TEXT = {"table_dec_below": "=", "header_align": "r", "colsep": "  "}


@dataclass(frozen=True, eq=False, repr=False)
class SummaryTable:
    """Results side by side, in the formats that statsmodels' summaries have.

    It holds text only: not the results and, of ordinary ones, no row.

    Parameters
    ----------
    title : str
        The title.
    frame : DataFrame of str
        The table as shown, a column per result. Index levels "term" and "line": two lines a term, "coef" and "std err"
        (or "conf_int"), then one line a fact, such as ("N", "").
    notes : tuple of str
        Sentences below the table: how to read it, every guarantee, and what all cost together.
    warnings : tuple of str
        Sentences that warn the reader.
    """

    title: str
    frame: pd.DataFrame
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return f"<SummaryTable: {self.title}, {self.frame.shape[1]} columns>"

    def _repr_html_(self) -> str:
        """Show as HTML in a notebook."""
        return self.as_html()

    def _names(self) -> list[str]:
        return [str(name) for name in self.frame.columns]

    def _blocks(self) -> tuple[list[Block], list[Block]]:
        """Return terms and facts: a label, and the lines of each column."""
        terms: list[Block] = []
        facts: list[Block] = []
        for (label, line), *cells in self.frame.itertuples(name=None):
            if line in {"", "coef"}:
                (facts if line == "" else terms).append((one_line(label), [[cell] for cell in cells]))
            else:
                for lines, cell in zip(terms[-1][1], cells, strict=True):
                    lines.append(cell)
        return terms, facts

    def _sentences(self) -> list[tuple[str, str]]:
        """Return notes and warnings, each with its mark."""
        marked = [(f"[{number}] ", note) for number, note in enumerate(self.notes, 1)]
        return marked + [("Warning: ", warning) for warning in self.warnings]

    def _table(self, escapes: dict[int, str]) -> SimpleTable:
        """Build the table with nothing wrapped."""
        above, below = (
            [[cell.translate(escapes) for cell in row] for block in blocks for row in _rows(block)]
            for blocks in self._blocks()
        )
        return _ruled([name.translate(escapes) for name in self._names()], above, below)

    def as_text(self) -> str:
        """Return the table as text: ruled and aligned, long names and notes wrapped."""
        terms, facts = self._blocks()
        wrapped = [(label, [textwrap.wrap(cell, _FACT_WIDTH) for (cell,) in cells]) for label, cells in facts]
        above, below = ([row for block in blocks for row in _rows(block)] for blocks in (_padded(terms), wrapped))
        heads = [textwrap.wrap(name, _NAME_WIDTH) for name in self._names()]
        height = max(map(len, heads))
        table = _ruled(["\n" * (height - len(lines)) + "\n".join(lines) for lines in heads], above, below)
        width = table_width(table)
        title = [line.center(width).rstrip() for line in textwrap.wrap(self.title, width)]
        wide = max(width, _NOTE_WIDTH)
        notes = [
            textwrap.fill(mark + text, wide, subsequent_indent=" " * len(mark)) for mark, text in self._sentences()
        ]
        return "\n".join([*title, table.as_text(), "Notes:", *notes])

    def as_html(self) -> str:
        """Return the table as HTML, with names and notes escaped; MathJax leaves it alone."""
        table = self._table(HTML)
        table.title = self.title.translate(HTML)
        notes = [(mark + text).translate(HTML) for mark, text in self._sentences()]
        body = "<br/>\n".join([f"{table.as_html()}\n<br/>Notes:", *notes])
        return f'<div class="tex2jax_ignore mathjax_ignore">\n{body}\n</div>'

    def as_latex(self) -> str:
        """Return the table as LaTeX, with names and notes escaped; it needs the booktabs package."""
        lines = self._table(LATEX_TEXT).as_latex_tabular().split("\n")
        lines = ["{}" + line if line[:1] in {"[", "*"} else line for line in lines]  # no argument of the \\ before
        notes = [(mark + text).translate(LATEX_TEXT) for mark, text in self._sentences()]
        title, tabular = self.title.translate(LATEX_TEXT), "\n".join(lines)
        return f"\\textbf{{{title}}}\n\n{tabular}\n\n" + " \\newline\n".join(["Notes:", *notes])

    def as_markdown(self) -> str:
        """Return the table as markdown, with names and notes escaped."""
        rows = [["", *self._names()], *(row for blocks in self._blocks() for block in blocks for row in _rows(block))]
        lines = ["| " + " | ".join(map(_marked, row)) + " |" for row in rows]
        lines.insert(1, "| :--- |" + " ---: |" * self.frame.shape[1])
        notes = [f"- {_marked(mark + text)}" for mark, text in self._sentences()]
        return "\n".join([f"**{_marked(self.title)}**", "", *lines, "", "Notes:", "", *notes]) + "\n"


def one_line(text: object) -> str:
    """Return a text without its line breaks."""
    return " ".join(str(text).split())


def _marked(text: str) -> str:
    return escape_markdown(text).replace("$", "\\$").replace("&", "\\&")


def _rows(block: Block) -> list[list[str]]:
    """Return the lines of a block, its label on the first ones."""
    label, cells = block
    return [list(row) for row in zip_longest(label.split("\n"), *cells, fillvalue="")]


def _padded(terms: list[Block]) -> list[Block]:
    """Wrap labels, and pad cells so that last digits stand below each other when aligned right."""
    longest = max(_tail(line) for _, cells in terms for lines in cells for line in lines)
    return [
        (
            "\n".join(textwrap.wrap(label, _TERM_WIDTH)),
            [[line + " " * (longest - _tail(line)) for line in lines] for lines in cells],
        )
        for label, cells in terms
    ]


def _tail(cell: str) -> int:
    """Count what follows the last digit."""
    return len(cell) - len(cell.rstrip("*)]"))


def _ruled(headers: list[str], above: list[list[str]], below: list[list[str]]) -> SimpleTable:
    """Build a table of rows that begin with their label, with a rule between the two parts."""
    rows = [*above, *below]
    cells, stubs = [row[1:] for row in rows], [row[0] for row in rows]
    table = SimpleTable(cells, headers=headers, stubs=stubs, txt_fmt=dict(_TEXT), ltx_fmt=dict(_LATEX))
    table[len(table) - len(below) - 1].dec_below = "header_dec_below"
    return table

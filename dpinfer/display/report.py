"""Tables with a title, facts, notes and warnings, and numbers in them: the one form behind text and HTML."""

from __future__ import annotations

import math
import textwrap
from abc import ABC, abstractmethod
from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from numbers import Integral, Real
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

_GROUPED, _LARGEST = 1e4, 1e10
"""From where digits are grouped in thousands, and from where a number is written with an exponent."""


def count(value: float) -> str:
    """Write a number of rows, draws or the like: whole, its digits grouped."""
    return f"{value:,.0f}" if math.isfinite(value) else str(float(value))


def number(value: float, digits: int = 4) -> str:
    """Write a number to some digits; from 10,000 on its whole part is written out and grouped.

    Examples
    --------
    >>> number(12345.678), number(0.000123456), number(-1e6), number(2.0)
    ('12,346', '0.0001235', '-1,000,000', '2')
    """
    value = float(value) + 0.0  # -0.0 becomes 0.0
    if math.isfinite(value) and _GROUPED <= abs(round(value)) < _LARGEST:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def cell(value: object) -> str:
    """Write a cell of a table: truth as yes or no, what is missing as nothing, numbers as `number`, others as text."""
    if (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, Real) and math.isnan(value))
    ):
        return ""
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}" if abs(int(value)) >= _GROUPED else str(int(value))
    return number(float(value)) if isinstance(value, Real) else str(value)


_WIDTHS = (14, 18, 22, 26, 30, 35, 40, 46, 53, 61, 70, 82)
"""Widths in em at which tables fold."""

_DIGIT, _GAP, _WRAPPED, _PAIR = 0.6, 0.9, 16, 9.0
"""Width in em of a character and of the gap between columns; characters below which words are not broken; least width
in em of a folded cell with its head."""

_PLAIN = """
div.dpinfer{color:inherit;background:transparent;container-type:inline-size;width:100%;overflow-x:auto;line-height:1.4;
font-variant-numeric:tabular-nums}
div.dpinfer table{border-collapse:collapse;border:0;margin:0 0 .7em;color:inherit;background:transparent;width:auto}
div.dpinfer caption{caption-side:top;text-align:left;font-weight:600;color:inherit;padding:.2em 0 .35em;width:0}
div.dpinfer caption>div{width:max-content;max-width:min(44em,100cqw)}
div.dpinfer tbody tr:nth-child(n){background:transparent}
div.dpinfer tr>th,div.dpinfer tr>td{padding:.15em .9em .15em 0;border:0;color:inherit;background:transparent;
text-align:right;vertical-align:top;font-weight:normal;white-space:nowrap;max-width:none}
div.dpinfer tr>:last-child{padding-right:0}
div.dpinfer thead>tr>*{font-weight:600;white-space:normal;border-bottom:1px solid rgba(127,127,127,.7);
vertical-align:bottom}
div.dpinfer tbody.ruled>tr:first-child>*{border-top:1px solid rgba(127,127,127,.35)}
div.dpinfer table.body{border-bottom:1px solid rgba(127,127,127,.7)}
div.dpinfer tr>th:first-child,div.dpinfer tbody>tr>th,div.dpinfer tr>.words{text-align:left}
div.dpinfer tbody>tr>th,div.dpinfer tr>td.words{white-space:normal;max-width:44em;overflow-wrap:break-word}
div.dpinfer table.facts th{opacity:.75;white-space:nowrap}
div.dpinfer .notes{font-size:.9em;opacity:.85;max-width:62em;margin:.2em 0;padding-left:1.6em;overflow-wrap:anywhere}
div.dpinfer .warning{border-left:3px solid #d9822b;padding-left:.6em;margin:.3em 0;max-width:62em}
@container (max-width:38em){
div.dpinfer table.facts,div.dpinfer table.facts>tbody,div.dpinfer table.facts>caption{display:block;width:auto}
div.dpinfer table.facts>caption>div{width:auto}
div.dpinfer table.facts tr{display:grid;grid-template-columns:8.5em 1fr}
div.dpinfer table.facts tr>*{white-space:normal;overflow-wrap:anywhere;min-width:0}}
"""

_FOLDED = """
TABLE,TABLE>tbody,TABLE>caption{display:block;width:auto}
TABLE>caption>div{width:auto}
TABLE>thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
TABLE>tbody>tr{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,var(--pair)),1fr));
gap:.05em 1.4em;padding:.35em 0;
border-bottom:1px solid rgba(127,127,127,.25)}
TABLE>tbody>tr>*{display:flex;justify-content:space-between;gap:.6em;padding:0;min-width:0;white-space:normal}
TABLE>tbody>tr>th{grid-column:1/-1;font-weight:600;overflow-wrap:anywhere}
TABLE>tbody>tr>td:empty{display:none}
TABLE>tbody.ruled>tr:first-child>*{border-top:0}
TABLE>tbody>tr>td.words{grid-column:1/-1;justify-content:flex-start;overflow-wrap:anywhere}
TABLE>tbody>tr>td[data-label]::before{content:attr(data-label);opacity:.75;text-align:left}
TABLE>tbody>tr>td.words::before{flex:0 0 8em}
"""


def style_of(html: str | None = None) -> str:
    """Return the style of all tables, or what of it the tables of some HTML need.

    Every colour is that of the page, or a grey that is legible on light and on dark ones. A table that does not fit in
    the room it has folds: each row becomes a block, with the head of its column before each cell.
    """
    used = [width for width in _WIDTHS if html is None or f'fold-{width}"' in html]
    folds = (f"@container (max-width:{width}em){{{_FOLDED.replace('TABLE', f'div.dpinfer table.fold-{width}')}}}"
             for width in used)  # fmt: skip
    return f"<style>{_PLAIN}{''.join(folds)}</style>"


def folding(columns: Sequence[tuple[str, Sequence[str], bool]]) -> tuple[str, str]:
    """Return the class of a table, and the room that a head and a cell side by side need where it is folded.

    Each column is its head, its cells, and whether its cells may be wrapped.
    """
    rooms = [
        max([_longest_word(head), *((_longest_word(cell) if words else len(cell)) for cell in cells)])
        for head, cells, words in columns
    ]
    needed = sum(_GAP + _DIGIT * room for room in rooms)
    width = next((width for width in _WIDTHS if width >= needed), _WIDTHS[-1])
    pairs = [len(head) + max(map(len, cells), default=0) for head, cells, words in columns[1:] if not words]
    return f"fold-{width}", f"{max(_GAP + _DIGIT * max(pairs, default=0), _PAIR):.3g}em"


def _longest_word(text: str) -> int:
    return max(min(len(text), _WRAPPED), *map(len, [*textwrap.wrap(text, 1, break_long_words=False), ""]))


_FEW_FACTS, _SHORT = 5, 40
"""Facts that stand in one column; more stand in two, if all are of so few characters."""


@dataclass(frozen=True, slots=True)
class Table:
    """Cells that are texts already.

    Attributes
    ----------
    columns : tuple of str
        Heads; the first is that of the names of rows, and may be empty.
    rows : tuple of tuple of str
        The first cell of each is the name of the row.
    words : frozenset of int
        Places of columns that hold words, which are aligned left.
    rule : int
        Row below which a rule stands; 0 for none.
    caption : str
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[int] = frozenset()
    rule: int = 0
    caption: str = ""

    @classmethod
    def of(cls, frame: pd.DataFrame, *, index: bool = True, caption: str = "") -> Self:
        """Take the cells of a frame, with its index as names of rows."""
        columns = tuple(map(str, frame.columns))
        if index:
            columns = (*("" if name is None else str(name) for name in frame.index.names), *columns)
        levels = [frame.index.get_level_values(place) for place in range(frame.index.nlevels if index else 0)]
        rows = list(zip(*levels, *(frame.iloc[:, place] for place in range(frame.shape[1])), strict=True))
        words = frozenset(
            place for place in range(1, len(columns)) if rows and all(isinstance(row[place], str) for row in rows)
        )
        return cls(columns, tuple(tuple(map(cell, row)) for row in rows), words, 0, caption)

    def text(self, width: int | None = None) -> str:
        """Return the table as aligned text; columns of words are wrapped to a width where that is given."""
        wide = [max(map(len, (head, *cells))) for head, cells in self._by_column()]
        if width is not None:
            longest = max([0, *self.words], key=lambda place: wide[place])
            others = sum(wide) - wide[longest] + 2 * (len(wide) - 1)
            wide[longest] = min(wide[longest], max(width - others, 20))
        shown = (self.columns, *self.rows) if any(self.columns) else self.rows
        lines = [line for row in shown for line in self._lines(row, wide)]
        return "\n".join([self.caption, *lines] if self.caption else lines)

    def _by_column(self) -> list[tuple[str, list[str]]]:
        return [(head, [row[place] for row in self.rows]) for place, head in enumerate(self.columns)]

    def _lines(self, row: Sequence[str], wide: Sequence[int]) -> list[str]:
        parts = [textwrap.wrap(one, size) or [""] for one, size in zip(row, wide, strict=True)]
        found = []
        for cells in zip_longest(*parts, fillvalue=""):
            aligned = [
                one.ljust(size) if place in {0, *self.words} else one.rjust(size)
                for place, (one, size) in enumerate(zip(cells, wide, strict=True))
            ]
            found.append("  ".join(aligned).rstrip())
        return found

    def html(self, caption: str = "") -> str:
        """Return the table as HTML, with everything escaped."""
        heads = "".join(self._cell("th", place, name, ' scope="col"') for place, name in enumerate(self.columns))
        head = f"<thead><tr>{heads}</tr></thead>" if any(self.columns) else ""
        text = caption or self.caption
        named = _caption(text) if text else ""
        split = self.rule or len(self.rows)
        parts = [f"<tbody>{self._rows(self.rows[:split])}</tbody>"]
        if self.rows[split:]:
            parts.append(f'<tbody class="ruled">{self._rows(self.rows[split:])}</tbody>')
        columns = [(head, cells, place in {0, *self.words}) for place, (head, cells) in enumerate(self._by_column())]
        fold, pair = folding(columns)
        return f'<table class="body {fold}" style="--pair:{pair}">{named}{head}{"".join(parts)}</table>'

    def _rows(self, rows: Sequence[Sequence[str]]) -> str:
        found = []
        for first, *others in rows:
            name = f'<th scope="row">{escape(first)}</th>' if first else "<td></td>"
            cells = ""
            for place, one in enumerate(others, 1):  # a cell of a folded table tells its column by its label
                label = f' data-label="{escape(self.columns[place])}"' if self.columns[place] else ""
                cells += self._cell("td", place, one, label)
            found.append(f"<tr>{name}{cells}</tr>")
        return "\n".join(found)

    def _cell(self, tag: str, place: int, text: str, more: str = "") -> str:
        if not text:
            return "<td></td>"
        kind = ' class="words"' if place in self.words else ""
        return f"<{tag}{more}{kind}>{escape(text)}</{tag}>"


@dataclass(frozen=True, slots=True)
class Report:
    """A title, facts, tables, notes and warnings.

    Attributes
    ----------
    title : str
    facts : tuple of (str, str)
        Labels and what they say.
    tables : tuple of Table
    notes, warnings : tuple of str
        Sentences below the tables.
    numbered : bool
        Whether notes have numbers.
    """

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    numbered: bool = False

    def text(self, width: int | None = None) -> str:
        """Return it as text, wrapped to a width where that is given."""
        wide = max((len(label) for label, _ in self.facts), default=0) + 1
        facts = [_wrapped(f"{label:<{wide}} {text}", width, wide + 1) for label, text in self.facts]
        parts = [[self.title, *facts], *([table.text(width)] for table in self.tables)]
        notes = [_wrapped(f"- {one}", width, 2) for one in self.notes]
        parts.append(notes + [_wrapped(f"Warning: {one}", width, 9) for one in self.warnings])
        return "\n\n".join("\n".join(lines) for lines in parts if lines)

    def html(self, *, styled: bool = True) -> str:
        """Return it as HTML: with everything escaped, the colours of the page around it, and its own style if asked."""
        captions = [self.title] + [""] * len(self.tables)
        facts = self._facts(captions.pop(0)) if self.facts else ""
        if not facts and not self.tables:
            facts = f"<p><b>{escape(self.title)}</b></p>"
        tables = "\n".join(table.html(text) for table, text in zip(self.tables, captions, strict=False))
        kind = "ol" if self.numbered else "ul"
        items = "".join(f"<li>{escape(one)}</li>\n" for one in self.notes)
        notes = f'<{kind} class="notes">{items}</{kind}>' if items else ""
        warned = "".join(f'<p class="warning">Warning: {escape(one)}</p>\n' for one in self.warnings)
        inner = f"{facts}\n{tables}\n{warned}{notes}"
        style = f"{style_of(inner)}\n" if styled else ""
        return f'<div class="dpinfer tex2jax_ignore mathjax_ignore">\n{style}{inner}</div>'

    def _facts(self, caption: str) -> str:
        shown = list(self.facts)
        alone = len(shown) <= _FEW_FACTS or any(len(text) > _SHORT for _, text in shown)
        half = len(shown) if alone else -(-len(shown) // 2)
        rows = [[shown[place] for place in (row, row + half) if place < len(shown)] for row in range(half)]
        cells = (
            "".join(f'<th scope="row">{escape(label)}</th><td class="words">{escape(text)}</td>' for label, text in row)
            for row in rows
        )
        lines = "\n".join(f"<tr>{one}</tr>" for one in cells)
        return f'<table class="facts">{_caption(caption)}<tbody>{lines}</tbody></table>'


def listed(words: Iterable[str]) -> str:
    """Join words as prose does."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _caption(text: str) -> str:
    """Return a caption, which is as wide as it needs to be, however narrow its table is."""
    return f"<caption><div>{escape(text)}</div></caption>"


def _wrapped(line: str, width: int | None, indent: int) -> str:
    return line if width is None else textwrap.fill(line, width, subsequent_indent=" " * indent)


class Reported(ABC):
    """What prints as a report, and shows as one in a notebook."""

    __slots__ = ()

    @abstractmethod
    def _report(self) -> Report:
        """Return what is shown."""

    def to_html(self) -> str:
        """Return what is shown as HTML: with everything escaped, and the colours of the page around it."""
        return self._report().html()

    _repr_html_ = to_html

    def __repr__(self) -> str:
        return self._report().text()

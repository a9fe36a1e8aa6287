"""How tables look in HTML, and below which width of the page around them they fold."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["folding", "style_of"]

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
    needed = sum(_GAP + _DIGIT * _room(head, cells, words) for head, cells, words in columns)
    width = next((width for width in _WIDTHS if width >= needed), _WIDTHS[-1])
    pairs = [len(head) + max(map(len, cells), default=0) for head, cells, words in columns[1:] if not words]
    return f"fold-{width}", f"{max(_GAP + _DIGIT * max(pairs, default=0), _PAIR):.3g}em"


def _room(head: str, cells: Sequence[str], words: bool) -> int:
    """Return the number of characters that a column needs."""
    own = max((_longest_word(cell) if words else len(cell) for cell in cells), default=0)
    return max(own, _longest_word(head))


def _longest_word(text: str) -> int:
    return max(min(len(text), _WRAPPED), *map(len, [*textwrap.wrap(text, 1, break_long_words=False), ""]))

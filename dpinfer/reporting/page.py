"""A page of HTML that needs no other file: readable on a phone, on light and dark ground, and on paper."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dpinfer.display.report import style_of
from dpinfer.reporting.blocks import inline
from dpinfer.reporting.page_style import STYLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.reporting.blocks import Block, Section

__all__ = ["MARKER", "page_html"]

MARKER = '<meta name="generator" content="dpinfer report">'
"""By which a page is known as one of these."""


def page_html(title: str, lead: Sequence[Block], sections: Sequence[Section], footer: str) -> str:
    """Return a page.

    Its style and its pictures are inside. ``lead`` stands before the table of contents, ``footer`` at the end.
    """
    contents = "".join(f'<li><a href="#section-{i}">{escape(s.title)}</a></li>' for i, s in enumerate(sections, 1))
    parts = "\n".join(
        f'<section id="section-{i}" aria-labelledby="heading-{i}">\n<h2 id="heading-{i}">{i}. {escape(s.title)}</h2>\n'
        f"{_blocks(s.blocks)}\n</section>"
        for i, s in enumerate(sections, 1)
    )
    opening = _blocks(lead)
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"{MARKER}\n<title>{escape(title)}</title>",
            f"{style_of(opening + parts)}\n<style>{STYLE}</style>\n</head>\n<body>\n<main>",
            f"<header>\n<h1>{escape(title)}</h1>\n{opening}\n</header>",
            f'<nav aria-label="Contents"><ol>{contents}</ol></nav>',
            parts,
            f"<footer>{inline(footer)}</footer>\n</main>\n</body>\n</html>\n",
        ]
    )


def _blocks(blocks: Sequence[Block]) -> str:
    return "\n".join(block.as_html() for block in blocks)

"""Formulas become MathML when the site is built: browsers draw it, with no script, font or network."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

_ACCENTED = re.compile(
    r"<munderover>\s*(<mi[^>]*>[^<]*</mi>)\s*(<(\w+)[^>]*>.*?</\3>)\s*(<mo[^>]*>[^<]</mo>)\s*</munderover>", re.DOTALL
)

_APPLIED = re.compile(r"<mo>&ApplyFunction;</mo>(?!\s*<mo[^>]*>[(\[])")


def _drawn(formula: str, *, block: bool = False) -> str:
    """Return MathML with indices beside accented letters, where docutils has them below, and a space after a log."""
    beside = r'<msub><mover accent="true">\1\4</mover>\2</msub>'
    drawn = _ACCENTED.sub(beside, tex2mathml(formula, as_block=block))
    return _APPLIED.sub('<mspace width="0.1667em"></mspace>', drawn)


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(_drawn(node.astext()))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="formula">{_drawn(node.astext().strip(), block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Offer ``html_math_renderer = "mathml"``."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

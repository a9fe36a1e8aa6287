"""Printed outputs: sentences wrap where there is no room, tables keep their lines and scroll in their own box."""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

ROOMS = {"wraps-narrow": 44, "wraps": 108}
"""Characters in a line that a telephone has room for, and a page beside its bars."""
_RULE = re.compile(r"^[=-]{20,}$|^\S.*\S {3,}\S.* {3,}\S.*$", re.MULTILINE)


def _mark(app: Sphinx, document: nodes.document, here: str) -> None:  # noqa: ARG001
    for block in document.findall(nodes.literal_block):
        widest = max((len(found.group()) for found in _RULE.finditer(block.astext())), default=0)
        if "output" in block["classes"]:
            block["classes"] += [name for name, room in ROOMS.items() if widest <= room] or ["wide"]


def setup(app: Sphinx) -> dict[str, Any]:
    """Mark what may wrap."""
    app.connect("doctree-resolved", _mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

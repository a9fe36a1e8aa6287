"""Names lead to their pages: `docs/tests.md` in a docstring, and ``dpi.ols`` in the text of any page."""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

_CALL = re.compile(r"dpi\.(\w+)\b")


def _pages(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:  # noqa: ARG001
    lines[:] = [re.sub(r"`+docs/([\w/-]+)\.md`+", r":doc:`/\1`", line) for line in lines]


def _functions(app: Sphinx, document: nodes.document, here: str) -> None:
    """Make of code that begins with ``dpi.NAME`` a link, but in titles and links."""
    for code in list(document.findall(nodes.literal)):
        found = _CALL.match(code.astext())
        page = f"api/dpinfer.{found.group(1)}" if found else None
        if page in app.env.all_docs and not isinstance(code.parent, nodes.title | nodes.reference | nodes.inline):
            target = app.builder.get_relative_uri(here, page)
            code.replace_self(nodes.reference("", "", code.deepcopy(), refuri=target, internal=True))


def setup(app: Sphinx) -> dict[str, Any]:
    """Read docstrings before they are parsed, and pages when all are read."""
    app.connect("autodoc-process-docstring", _pages)
    app.connect("doctree-resolved", _functions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

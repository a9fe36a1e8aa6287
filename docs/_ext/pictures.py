"""Cards with a picture of the page that they link to, and galleries of the figures of all pages.

A list marked ``{.cards}`` gets beside each link the first figure of the page that it leads to. ``{gallery} drawn``
shows the figures that code on the pages drew when they were executed, ``{gallery} measured`` those of `validation/`. So
the site has no picture of its own, and none can be out of date.
"""

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders import Builder
from sphinx.util.docutils import SphinxDirective

FOLDERS = {"drawn": "jupyter_execute/", "measured": "validation/output/"}


class Place(nodes.General, nodes.Element):
    """Where a gallery is put once all pages are read."""


class Gallery(SphinxDirective):
    """Figures of all pages, in the order of the contents."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Leave a place."""
        return [Place(folder=FOLDERS[self.arguments[0]])]


def _pages(builder: Builder, page: str, seen: set[str]) -> Iterator[str]:
    """Yield the pages below a page, in the order of the contents."""
    for child in builder.env.toctree_includes.get(page, ()):
        if child not in seen:
            seen.add(child)
            yield child
            yield from _pages(builder, child, seen)


def _figures(builder: Builder, page: str, folder: str) -> list[nodes.image]:
    return [image for image in builder.env.get_doctree(page).findall(nodes.image) if folder in image["uri"]]


def _thumbnail(image: nodes.image, target: str, words: str) -> nodes.reference:
    copy = nodes.image(uri=image["uri"], candidates=image.get("candidates", {"*": image["uri"]}), alt=words)
    return nodes.reference("", "", copy, refuri=target, internal=True, classes=["thumbnail"])


def _cell(builder: Builder, here: str, page: str, image: nodes.image) -> nodes.list_item:
    """Put a figure above the name of the page that it is on and of its section."""
    section = image.parent
    while not isinstance(section, nodes.section):
        section = section.parent
    title = section.next_node(nodes.title).astext()
    target = f"{builder.get_relative_uri(here, page)}#{section['ids'][0]}"
    link = nodes.reference("", title, refuri=target, internal=True)
    name = builder.env.titles[page].astext()
    words = nodes.paragraph("", "", link, *([nodes.Text(f", {name}")] if name != title else []))
    alt = image.get("alt", "")
    thumbnail = _thumbnail(image, target, alt if " " in alt else title)
    return nodes.list_item("", nodes.paragraph("", "", thumbnail), words)


def _fill(app: Sphinx, document: nodes.document, here: str) -> None:
    builder = app.builder
    pages = [app.config.root_doc, *_pages(builder, app.config.root_doc, {app.config.root_doc})]
    for place in list(document.findall(Place)):
        cells = [
            _cell(builder, here, page, image)
            for page in pages
            if page not in (here, app.config.root_doc)
            for image in _figures(builder, page, place["folder"])
        ]
        place.replace_self(nodes.bullet_list("", *cells, classes=["cards", "gallery"]))
    linked = {builder.get_relative_uri(here, page): page for page in pages} if builder.format == "html" else {}
    for cards in document.findall(nodes.bullet_list):
        for item in cards.children if cards["classes"] == ["cards"] else ():
            link = next(iter(item.findall(nodes.reference)))
            page = linked.get(link.get("refuri"))
            figures = (_figures(builder, page, folder) for folder in FOLDERS.values() if page)
            if first := next(filter(None, figures), None):
                item.insert(0, nodes.paragraph("", "", _thumbnail(first[0], link["refuri"], link.astext())))


def setup(app: Sphinx) -> dict[str, Any]:
    """Fill cards and galleries when all pages are read."""
    app.add_node(Place)
    app.add_directive("gallery", Gallery)
    app.connect("doctree-resolved", _fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

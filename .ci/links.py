"""Checks a built site, with no network: ``python .ci/links.py FOLDER``.

Every link and every picture leads to a file of the site, every fragment to a place on its page, links to other hosts
are well formed, no page loads anything from another host, no formula is left as it was typed, and a page whose
examples ran shows what came out.
"""

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
VERBATIM = {"script", "style", "pre", "code"}


@dataclass
class Page(HTMLParser):
    """What a page of the site links to, loads and says; examples, and outputs of examples."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=lambda: {"", "top"})
    formulas: int = 0
    examples: int = 0
    outputs: int = 0
    _verbatim: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag names, links to and loads."""
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        classes = given.get("class", "").split()
        self.examples += "cell_input" in classes
        self.outputs += "cell_output" in classes
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if LOADED.get(tag) in given and given.get("rel") not in {"index", "search", "next", "prev", "canonical"}:
            self.loads.append(given[LOADED[tag]])
        self._verbatim += tag in VERBATIM

    def handle_endtag(self, tag: str) -> None:
        """Leave what is shown as it was typed."""
        self._verbatim -= tag in VERBATIM

    def handle_data(self, data: str) -> None:
        """Count raw formulas."""
        self.formulas += "$$" in data and not self._verbatim


def problems(site: Path) -> list[str]:
    """Say what is wrong with the pages of a folder."""
    files = (path for path in sorted(site.rglob("*.html")) if "_static" not in path.relative_to(site).parts)
    pages = {path.resolve(): Page() for path in files}
    for path, page in pages.items():
        page.feed(path.read_text(encoding="utf-8"))
    found = [] if pages else [f"{site} has no page"]
    for path, page in pages.items():
        said = [f"shows {page.formulas} formulas as they were typed"] if page.formulas else []
        said += ["shows what came out of none of its examples"] if page.examples and not page.outputs else []
        said += [f"loads {target}" for target in page.loads if urlsplit(target).netloc]
        local = [target for target in page.loads if not urlsplit(target).netloc]
        said += [wrong for target in page.links + local if (wrong := _link(path, target, pages))]
        found += [f"{path.relative_to(site.resolve())} {each}" for each in said]
    return found


def _link(path: Path, target: str, pages: dict[Path, Page]) -> str:
    parts = urlsplit(target)
    if parts.scheme in {"data", "mailto"}:
        return ""
    if parts.scheme or parts.netloc:
        well = parts.scheme in {"http", "https"} and "." in parts.netloc and " " not in target
        return "" if well else f"links to {target}, which is no address"
    file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not file.is_file():
        return f"links to {target}, which is not there"
    if file in pages and unquote(parts.fragment) not in pages[file].anchors:
        return f"links to {target}, and there is no such place on the page"
    return ""


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]))
    print("\n".join([*wrong, f"{len(wrong)} faults in the pages of {sys.argv[1]}"]))
    sys.exit(bool(wrong))

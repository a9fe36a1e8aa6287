"""Parts of pages that scripts write, between two marks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Block", "picture"]


@dataclass(frozen=True)
class Block:
    """What stands on a page between two marks."""

    page: Path
    start: str
    end: str

    def read(self) -> str:
        """Return it."""
        return self.page.read_text(encoding="utf-8").split(self.start)[1].split(self.end)[0].strip()

    def write(self, text: str) -> None:
        """Put another text in its place."""
        before, rest = self.page.read_text(encoding="utf-8").split(self.start)
        after = rest.split(self.end)[1]
        self.page.write_text(f"{before}{self.start}\n\n{text}\n\n{self.end}{after}", encoding="utf-8")


def picture(words: str, name: str) -> str:
    """Return a figure of the committed outputs, for a page of the docs."""
    return f"![{words}](../validation/output/{name}.png)"

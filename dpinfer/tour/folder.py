"""The folder of a report, which appears whole or not at all."""

from __future__ import annotations

import secrets
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dpinfer.errors import OptionError
from dpinfer.reporting.page import MARKER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["PAGE", "staged_folder"]

PAGE = "report.html"
"""Name of the page; a folder that holds one with the marker of pages is an earlier report."""


@contextmanager
def staged_folder(target: Path) -> Iterator[Path]:
    """Give a folder to work in, and turn it into the target when all went well.

    Parameters
    ----------
    target : Path
        A folder that does not exist yet, is empty, or holds an earlier report; files of the same names are
        then replaced.

    Yields
    ------
    Path
        An empty folder on the same disk. It is removed after an error, and the target is as it was.

    Raises
    ------
    OptionError
        If the target is something else.
    OSError
        If nothing can be written there.
    """
    exists = _check_target(target)
    staging = (target if exists else target.parent) / f".{target.name}-{secrets.token_hex(4)}"
    staging.mkdir()
    try:
        yield staging
        if exists:
            for made in sorted(staging.iterdir(), key=lambda path: path.name == PAGE):
                made.replace(target / made.name)
        else:
            staging.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _check_target(target: Path) -> bool:
    """Return whether the target exists; refuse one whose files are not a report's."""
    if not target.parent.is_dir():
        raise OptionError("out", str(target), f"a folder inside one that exists; {target.parent} does not")
    if not target.exists():
        return False
    if not target.is_dir():
        raise OptionError("out", str(target), "a folder; this is a file")
    if any(not path.name.startswith(".") for path in target.iterdir()):
        page = target / PAGE
        if not page.is_file() or MARKER not in page.read_text(encoding="utf-8", errors="replace"):
            raise OptionError("out", str(target), "a new or an empty folder, or that of an earlier report")
    return True

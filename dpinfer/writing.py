"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from dpinfer.errors import OptionError, type_of

__all__ = ["check_writable", "checked_target", "sync_folder", "write_whole"]


def check_writable(path: str | os.PathLike[str]) -> None:
    """Make the temporary file of `write_whole` and remove it; `OSError` where that fails."""
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
    os.close(handle)
    Path(temporary).unlink()


def checked_target(path: object, *endings: str) -> Path:
    """Return where a file of one of these endings is to be written; `OptionError` where none can be."""
    right = f"the path of a file that ends in {endings[0]}"
    if not isinstance(path, (str, os.PathLike)):
        raise OptionError("path", type_of(path), right)
    target = Path(path)
    if target.suffix.lower() not in endings:
        raise OptionError("path", str(target), right)
    if target.is_dir():
        raise OptionError("path", str(target), "a file; this is a folder")
    if not target.parent.is_dir():
        raise OptionError("path", str(target), f"a file in a folder that exists; {target.parent} does not")
    return target


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on disk, where the system can do that."""
    with suppress(OSError):  # a folder cannot be synchronised everywhere
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def write_whole(path: str | os.PathLike[str], content: bytes, *, anew: bool = False) -> None:
    """Write a file, whole or not at all; one that is there is replaced, or refused where it is to be ``anew``.

    Raises
    ------
    OSError
        If nothing can be written there.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(target.parent))
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        if anew:
            target.hardlink_to(temporary)
        else:
            Path(temporary).replace(target)
        sync_folder(target.parent)
    finally:
        Path(temporary).unlink(missing_ok=True)

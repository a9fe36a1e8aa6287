"""Files that are written whole or not at all, and commands that end with one line where they fail."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dpinfer.errors import DPInferError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["check_writable", "exit_code", "sync_folder", "write_whole"]


def check_writable(path: str | os.PathLike[str]) -> None:
    """Make the temporary file of `write_whole` and remove it; `OSError` where that fails."""
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
    os.close(handle)
    Path(temporary).unlink()


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


def exit_code(run: Callable[[], None], failing: str) -> int:
    """Run a command, and return its exit code: 0, or 2 after an error, of which one line is printed.

    Parameters
    ----------
    run : callable
    failing : str
        What could not be done where files cannot be read or written.
    """
    try:
        run()
    except DPInferError as error:
        message = " ".join(str(error).split())
    except OSError as error:
        message = f"{failing}: {error.strerror or error}"
    else:
        return 0
    sys.stderr.write(f"dpinfer: error: {message}\n")
    return 2

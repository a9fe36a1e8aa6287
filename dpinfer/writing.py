"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

__all__ = ["write_whole"]


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
    finally:
        Path(temporary).unlink(missing_ok=True)

"""Arrays that wait on disk: in files without a name, which only this process can read and which end with it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dpinfer.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

__all__ = ["BUCKETS", "Spill", "check_disk"]

BUCKETS = 256
"""Files that rows are spread over; what one of them holds has to fit into memory."""


def check_disk(files: int) -> None:
    """Refuse, before a charge, to spill rows where so many files cannot be open at once.

    Raises
    ------
    DataError
        If the folder for temporary files takes none, or the process may not open so many more.
    """
    try:
        with Spill(files, np.uint64, 1) as spill:
            if files:
                spill.append(0, np.zeros((1, 1)))
    except OSError as error:
        found = type(error).__name__ if error.errno is None else os.strerror(error.errno)
    else:
        return
    raise DataError(
        f"source: rows that are not in memory wait on disk for this question, in {files} files that are open at once, "
        f"and the system refuses them ({found}): expected a folder for temporary files (TMPDIR) that can be written "
        f"to, and a limit on open files (ulimit -n) of {2 * files} or more"
    )


_BUFFER = 2**16
"""Bytes of a file that wait in memory."""


class Spill:
    """Rows of an array of some width, in buckets.

    Files are made in the folder for temporary files, which ``TMPDIR`` names, and have no name from the start where the
    system knows such.
    """

    def __init__(self, buckets: int, dtype: DTypeLike, width: int) -> None:
        self._dtype, self._width = np.dtype(dtype), width
        self._stack = ExitStack()
        enter = self._stack.enter_context
        try:
            self._files = [enter(TemporaryFile(prefix="dpinfer-", buffering=_BUFFER)) for _ in range(buckets)]  # noqa: SIM115
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def append(self, bucket: int, rows: NDArray[Any]) -> None:
        """Write rows (k, width) behind those of a bucket."""
        self._files[bucket].write(np.ascontiguousarray(rows, dtype=self._dtype).data)

    def scatter(self, buckets: NDArray[np.intp], rows: NDArray[Any]) -> None:
        """Write each row (k, width) behind those of its bucket (k,), in their order."""
        order = np.argsort(buckets.astype(np.uint16), kind="stable")
        ends = np.cumsum(np.bincount(buckets, minlength=len(self._files)))
        rows = rows[order]
        for bucket in np.unique(buckets).tolist():
            self.append(bucket, rows[ends[bucket - 1] if bucket else 0 : ends[bucket]])

    def read(self, bucket: int, *, writable: bool = False) -> NDArray[Any]:
        """Return the rows of a bucket (n, width), as memory that the file stands behind."""
        file = self._files[bucket]
        file.flush()
        rows = os.fstat(file.fileno()).st_size // (self._dtype.itemsize * self._width)
        if not rows:
            return np.empty((0, self._width), dtype=self._dtype)
        return np.asarray(np.memmap(file, dtype=self._dtype, mode="r+" if writable else "r", shape=(rows, self._width)))

    def clear(self, bucket: int) -> None:
        """Forget the rows of a bucket."""
        self._files[bucket].seek(0)
        self._files[bucket].truncate()

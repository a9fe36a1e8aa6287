"""A release in a file of its own: reserved before the price is paid, and written after the draw.

Beside ``income.json`` stands ``income.json.reserved`` from before the charge until the release is written. Who holds
its lock is measuring. It names the id that the charge will have, so that the ledger alone says whether the price was
paid: there is no instant at which the two could disagree.
"""

from __future__ import annotations

import errno
import json
import logging
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpinfer.checks import require
from dpinfer.errors import OptionError, ReleaseFormatError, ReleaseNotSavedError, ReleaseVersionError, type_of
from dpinfer.privacy.ledger import read_releases_with
from dpinfer.release.release import MAGIC, Release
from dpinfer.release.request import Request
from dpinfer.writing import check_writable, sync_folder, write_whole

try:
    import fcntl
except ImportError:  # a system without file locks of this kind
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator

_SUFFIX = ".reserved"
_RESERVED = "dpinfer reservation"
_VERSION = 1
_NOTE = (
    "A release is being measured, or was charged and lost. If it was charged, the ledger lists the charge. "
    "Delete this file to measure and spend again."
)

_LOG = logging.getLogger("dpinfer")

read_releases_with(Release.from_json)

_locked_files: set[int] = set()
"""Locked files of this process. A process that is forked from it lets go of them: it may live on when this one dies."""


def _close_after_fork() -> None:
    for handle in _locked_files:
        with suppress(OSError):
            os.close(handle)
    _locked_files.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_after_fork)


@dataclass(frozen=True)
class Reservation:
    """What is known of a payment before it is made: the ledger, the id of the charge, and what is asked."""

    ledger: str
    charge_id: str
    request: Request

    def to_json(self) -> str:
        """Return it as JSON text."""
        stored: dict[str, Any] = {"format": _RESERVED, "version": _VERSION, "note": _NOTE}
        stored |= {"ledger": self.ledger, "charge_id": self.charge_id, "asked": json.loads(self.request.to_json())}
        return json.dumps(stored, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Reservation:
        """Read what `to_json` wrote; `ReleaseFormatError` if it is something else."""
        try:
            stored = json.loads(text)
            right = stored["format"] == _RESERVED and stored["version"] == _VERSION
            ledger, charge_id, request = stored["ledger"], stored["charge_id"], json.dumps(stored["asked"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ReleaseFormatError("not a reservation") from None
        if not right or not isinstance(ledger, str) or not isinstance(charge_id, str):
            raise ReleaseFormatError("not a reservation, or one of a newer version")
        return cls(ledger, charge_id, Request.from_json(request))


class ReservedFile:
    """The file of a reservation, while its lock is held."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path, self._handle = path, handle

    def read(self) -> Reservation | None:
        """Return what an earlier run left, or None if nothing.

        Raises
        ------
        ReleaseFormatError
            If the file is no reservation.
        """
        try:
            written = os.pread(self._handle, 2**26, 0)
            if not written:
                return None
            return Reservation.from_json(written.decode("utf-8"))
        except (OSError, UnicodeDecodeError, ReleaseFormatError) as error:
            raise ReleaseFormatError(
                f"{os.fspath(self.path)!r} stands where a reservation belongs ({_reason(error)}). No budget was spent. "
                "If ledger.charges() lists no charge whose release is missing, delete the file"
            ) from None

    def write(self, reservation: Reservation) -> None:
        """Have a reservation on disk, in place of what was there.

        Raises
        ------
        OSError
        """
        content = reservation.to_json().encode("utf-8")
        os.ftruncate(self._handle, 0)
        if os.pwrite(self._handle, content, 0) != len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        os.fsync(self._handle)
        sync_folder(self.path.parent)

    def remove(self) -> None:
        """Remove the reservation; one that cannot be removed is found beside the release, and means nothing."""
        with suppress(OSError):
            self.path.unlink()


class SavedRelease:
    """A file that a release is read from if it is there, and written to if it is not.

    Parameters
    ----------
    path : path-like

    Raises
    ------
    OptionError
        If it is no file name, or its folder does not exist.
    """

    def __init__(self, path: object) -> None:
        if not isinstance(path, str | os.PathLike) or path == "":
            given = path if isinstance(path, str) else type_of(path)
            raise OptionError("save", given, 'the name of a file, such as "income.json"')
        try:
            self.path = Path(os.fspath(path)).expanduser().resolve()
            taken = not self.path.is_file() and os.path.lexists(self.path)  # a link that is left leads to itself
        except (OSError, ValueError, RuntimeError, TypeError) as error:
            raise OptionError("save", str(path), f"the name of a file: {error}") from None
        right = "the name of a file: there is something else of this name"
        require(self.path.name and not taken, "save", str(path), right)
        require(self.path.parent.is_dir(), "save", str(path), "the name of a file in a folder that exists")
        self.sidecar = self.path.with_name(self.path.name + _SUFFIX)

    def __str__(self) -> str:
        return repr(str(self.path))

    def read(self) -> Release | None:
        """Return the release that is there, or None if the file is not.

        Raises
        ------
        ReleaseFormatError
            If the file is there and is no release, or is damaged.
        ReleaseVersionError
            If a newer dpinfer wrote it.
        """
        try:
            text = self.path.read_bytes().decode("utf-8", errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ReleaseFormatError(f"{self} cannot be read; no budget was spent: {_reason(error)}") from None
        try:
            return Release.from_json(text)
        except (ReleaseFormatError, ReleaseVersionError) as error:
            said = str(error) if MAGIC in text else "it is something else"  # which may hold rows
            raise type(error)(
                f"{self} is not a readable release; no budget was spent: {said}. Save under another name, or "
                "move the file away"
            ) from None

    @contextmanager
    def reserved(self) -> Iterator[ReservedFile]:
        """Hold the lock of the reservation: waits for whoever has it. Without a release it stays, if it was written.

        Raises
        ------
        OptionError
            If the folder cannot be written, or its files cannot be locked.
        """
        handle = self._locked()
        file = ReservedFile(self.sidecar, handle)
        _locked_files.add(handle)
        try:
            yield file
        finally:
            if handle in _locked_files:  # else this is a forked process, which has let go of it
                if os.fstat(handle).st_size == 0:
                    file.remove()
                _locked_files.discard(handle)
                os.close(handle)

    def write(self, release: Release) -> None:
        """Write a release that was paid for, whole or not at all.

        Raises
        ------
        ReleaseNotSavedError
            Whatever fails: it carries the release.
        """
        try:
            write_whole(self.path, release.to_json().encode("utf-8"))
        except BaseException as error:  # an interrupt, too, would lose what was paid for
            raise ReleaseNotSavedError(str(self), _reason(error), release) from None

    def _locked(self) -> int:
        if fcntl is None:
            raise OptionError("save", str(self.path), "a system with POSIX file locks; without: release.save(path)")
        logged = False
        while True:
            handle = None
            try:
                check_writable(self.path)
                handle = os.open(self.sidecar, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:  # another process has it
                    with suppress(Exception):  # a handler that fails must not keep anybody from measuring
                        if not logged:
                            _LOG.info("waiting for another process that measures what goes to %r", self.path.name)
                    logged = True
                    fcntl.flock(handle, fcntl.LOCK_EX)
                if self._is_sidecar(handle):
                    return handle
                os.close(handle)  # it was removed while this process waited: its release is there, or nothing was paid
            except BaseException as error:
                if handle is not None:
                    os.close(handle)
                if not isinstance(error, OSError):
                    raise
                raise OptionError(
                    "save", str(self.path), f"a file in a folder that can be written and locked ({_reason(error)})"
                ) from None

    def _is_sidecar(self, handle: int) -> bool:
        """Whether an open file is still that of the reservation: not one that was removed meanwhile."""
        try:
            return os.path.samestat(os.fstat(handle), self.sidecar.stat())
        except FileNotFoundError:
            return False

    def tidy(self) -> None:
        """Remove a reservation that stands beside the release that it was for, if nobody holds it."""
        if fcntl is None or not self.sidecar.exists():
            return
        with suppress(OSError):
            handle = os.open(self.sidecar, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_sidecar(handle) and self.path.exists():
                    self.sidecar.unlink()
            finally:
                os.close(handle)


def _reason(error: BaseException) -> str:
    """Say why something failed without the contents of a file."""
    said = str(error) if isinstance(error, ReleaseFormatError) else getattr(error, "strerror", None)
    return said or type(error).__name__

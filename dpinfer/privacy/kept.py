"""Releases that a ledger keeps: what each charge was asked and what was released for it, as texts in its file.

What is asked is written with the charge, in one transaction, and the release after the draw. So a charge whose release
is missing was paid and is lost, or is being measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpinfer.errors import LedgerError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from dpinfer.privacy.store import Store

__all__ = [
    "KeptRelease",
    "LedgerMovedError",
    "as_release",
    "book",
    "keeps",
    "kept_count",
    "read_kept",
    "read_releases_with",
    "start_keeping",
    "store_release",
]

_CREATE = """CREATE TABLE IF NOT EXISTS kept (number INTEGER PRIMARY KEY AUTOINCREMENT,
    charge TEXT NOT NULL UNIQUE, asked TEXT NOT NULL, release TEXT)"""


class LedgerMovedError(LedgerError):
    """Another process was charged since the kept releases were read: they are to be read again; nothing was charged."""


@dataclass(frozen=True, slots=True)
class KeptRelease:
    """One charge of a ledger that keeps releases: its id, what was asked, and the release, as JSON texts.

    ``release`` is None where it was paid for and not stored.
    """

    charge: str
    asked: str
    release: str | None


_readers: list[Callable[[str], Any]] = []


def read_releases_with(reader: Callable[[str], Any]) -> None:
    """Set what makes a release of its text; for the layer of releases, which is above this one."""
    _readers[:] = [reader]


def as_release(text: str) -> Any:
    """Return the release that a text is of."""
    return _readers[0](text)


def start_keeping(connection: sqlite3.Connection) -> None:
    """Have a ledger keep releases from now on, in a write transaction."""
    connection.execute(_CREATE)


def keeps(connection: sqlite3.Connection) -> bool:
    """Whether a ledger keeps releases."""
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'kept'").fetchone()
    return found is not None


def kept_count(connection: sqlite3.Connection) -> int:
    """Return how many charges were made since the ledger keeps releases."""
    found: int = connection.execute("SELECT count(*) FROM kept").fetchone()[0]
    return found


def book(connection: sqlite3.Connection, charge: str, asked: str) -> None:
    """Write what a charge was asked, in the transaction of the charge."""
    connection.execute("INSERT INTO kept (charge, asked) VALUES (?, ?)", (charge, asked))


def store_release(store: Store, charge: str, release: str) -> None:
    """Store what was released for a charge; `LedgerError` if it cannot be written."""
    with store.transaction(write=True) as connection:
        connection.execute("UPDATE kept SET release = ? WHERE charge = ?", (release, charge))


def read_kept(connection: sqlite3.Connection, name: str) -> list[KeptRelease]:
    """Read all that a ledger keeps, the oldest first; `LedgerError` if a field is damaged."""
    if not keeps(connection):
        return []
    rows = connection.execute("SELECT charge, asked, release FROM kept ORDER BY number").fetchall()
    for charge, asked, release in rows:
        if not (isinstance(charge, str) and isinstance(asked, str) and isinstance(release, str | None)):
            raise LedgerError(f"{name} is damaged: a release that it keeps is not what was written")
    return [KeptRelease(*row) for row in rows]

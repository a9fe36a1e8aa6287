"""Where a ledger is kept: one SQLite file, or one SQLite database in memory.

Everything is written in immediate transactions that are on disk before they return. A file is opened anew for
every operation, so that threads, forked processes and pickled ledgers share nothing but the file.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from abc import ABC, abstractmethod
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from dpinfer.errors import LedgerError, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

__all__ = [
    "ROWS",
    "Charge",
    "FileStore",
    "Header",
    "MemoryStore",
    "Store",
    "add_charge",
    "create_or_read",
    "keep_unit",
    "read_charges",
    "read_entries",
    "read_header",
]

BUSY_SECONDS = 60.0
"""How long an operation waits for other processes that are writing."""

ROWS = "rows"
"""The unit where every row is protected by itself."""

_APPLICATION_ID = 0x6470_696E  # "dpin"
_VERSION = 1

_CREATE = (
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_VERSION}",
    """CREATE TABLE header (only INTEGER PRIMARY KEY CHECK (only = 1), identifier TEXT NOT NULL,
       dataset TEXT NOT NULL, budget TEXT NOT NULL, neighbors TEXT NOT NULL, currency TEXT NOT NULL)""",
    """CREATE TABLE charge (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
       time TEXT NOT NULL, description TEXT NOT NULL, cost TEXT NOT NULL,
       amount TEXT NOT NULL, reserve TEXT NOT NULL)""",
)


class Header(NamedTuple):
    """What a ledger is for, as it is stored: all text, the budget as JSON."""

    identifier: str
    dataset: str
    budget: str
    neighbors: str
    currency: str


@dataclass(frozen=True, slots=True)
class Charge:
    """One charge as it is stored.

    Parameters
    ----------
    id : str
        Unique.
    time : str
        UTC, ISO 8601.
    description : str
        What was measured; public.
    cost : str
        The `Cost` as JSON.
    amount, reserve : Fraction
        What was added up, in the currency of the ledger.
    """

    id: str
    time: str
    description: str
    cost: str
    amount: Fraction
    reserve: Fraction


class Store(ABC):
    """A place for the header and the charges of one ledger."""

    @abstractmethod
    def transaction(self, *, write: bool, create: bool = False) -> AbstractContextManager[sqlite3.Connection]:
        """Open a transaction; it is committed at the end of the block, or rolled back by an error in it.

        Parameters
        ----------
        write : bool
            Whether to take the write lock at once, so that what is read stays true until the end.
        create : bool
            Whether a new store may be made where there is none.

        Raises
        ------
        LedgerError
            If the store cannot be used.
        """


class FileStore(Store):
    """A ledger in a file, opened anew for every transaction.

    Parameters
    ----------
    path : str or os.PathLike
        The file. Its folder must exist.

    Raises
    ------
    LedgerError
        If the path cannot be a ledger.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, str | os.PathLike) or str(path) in {"", ":memory:"}:
            raise LedgerError(
                f"{shown(path)} is no file name; for a ledger without a file use Ledger.in_memory(budget)"
            )
        self.path = Path(path).expanduser().resolve()
        if self.path.is_dir():
            raise LedgerError(f"{self.path} is a directory, not a ledger file")
        if not self.path.parent.is_dir():
            raise LedgerError(f"the folder of {self.path} does not exist")

    def __str__(self) -> str:
        return str(self.path)

    @contextmanager
    def transaction(self, *, write: bool, create: bool = False) -> Iterator[sqlite3.Connection]:
        """Open a transaction on a fresh connection; see `Store.transaction`."""
        if not create and not self.path.is_file():
            raise LedgerError(f"there is no ledger at {self.path}")
        uri = f"{self.path.as_uri()}?mode={'rwc' if create else 'rw'}"
        try:
            connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        except sqlite3.Error as error:
            _refuse(str(self), error)
        with closing(connection), _transaction(connection, str(self), write=write):
            yield connection


class MemoryStore(Store):
    """A ledger in the memory of one process: one connection, used by one thread at a time."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)

    def __str__(self) -> str:
        return "the ledger in memory"

    @contextmanager
    def transaction(self, *, write: bool, create: bool = False) -> Iterator[sqlite3.Connection]:
        """Open a transaction; see `Store.transaction`. Refuses in any process but the one that made it."""
        del create
        if os.getpid() != self._process:
            raise LedgerError(
                "a ledger in memory cannot be used in another process: each copy would spend the "
                "whole budget; use a ledger file"
            )
        with self._lock, _transaction(self._connection, str(self), write=write):
            yield self._connection

    def __del__(self) -> None:
        self._connection.close()


@contextmanager
def _transaction(connection: sqlite3.Connection, name: str, *, write: bool) -> Iterator[None]:
    """Begin; commit to disk at the end, roll back on any error."""
    try:
        connection.execute("PRAGMA synchronous = EXTRA")  # FULL, and the folder entry of the journal too
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        yield
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        _refuse(name, error)
    finally:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")


def _refuse(name: str, error: sqlite3.Error) -> NoReturn:
    text = str(error)
    if "not a database" in text or "malformed" in text:
        raise LedgerError(f"{name} is not a ledger, or is damaged") from error
    if "locked" in text or "busy" in text:
        raise LedgerError(f"{name} was kept busy by others for more than {BUSY_SECONDS:g} s") from error
    raise LedgerError(f"{name} cannot be used: {text}") from error


def create_or_read(connection: sqlite3.Connection, name: str, header: Header) -> Header:
    """Write the header of a new ledger, or read that of an existing one.

    Parameters
    ----------
    connection : sqlite3.Connection
        Inside a write transaction.
    name : str
        Of the store, for messages.
    header : Header
        For a new ledger.

    Returns
    -------
    Header
        What the ledger holds now.

    Raises
    ------
    LedgerError
        If there is something that is no ledger.
    """
    marks = [_pragma(connection, "application_id"), _pragma(connection, "user_version")]
    if marks == [0, 0] and not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        for statement in _CREATE:
            connection.execute(statement)
        connection.execute("INSERT INTO header VALUES (1, ?, ?, ?, ?, ?)", header)
    return read_header(connection, name)


def read_header(connection: sqlite3.Connection, name: str) -> Header:
    """Read the header of a ledger.

    Parameters
    ----------
    connection : sqlite3.Connection
        Inside a transaction.
    name : str
        Of the store, for messages.

    Returns
    -------
    Header

    Raises
    ------
    LedgerError
        If it is no ledger, or one of a newer version.
    """
    if _pragma(connection, "application_id") != _APPLICATION_ID:
        raise LedgerError(f"{name} is not a ledger")
    version = _pragma(connection, "user_version")
    if version != _VERSION:
        raise LedgerError(f"{name} is a ledger of version {version}; this dpinfer reads version {_VERSION}")
    row = connection.execute("SELECT identifier, dataset, budget, neighbors, currency FROM header").fetchone()
    if row is None:
        raise LedgerError(f"{name} is not a ledger, or is damaged")
    return Header(*row)


def read_charges(connection: sqlite3.Connection) -> list[Charge]:
    """Read all charges in the order in which they were made.

    Parameters
    ----------
    connection : sqlite3.Connection
        Inside a transaction.

    Returns
    -------
    list of Charge
    """
    rows = connection.execute(
        "SELECT id, time, description, cost, amount, reserve FROM charge ORDER BY number"
    ).fetchall()
    return [
        Charge(identifier, time, description, cost, Fraction(amount), Fraction(reserve))
        for identifier, time, description, cost, amount, reserve in rows
    ]


def read_entries(connection: sqlite3.Connection) -> list[tuple[Fraction, Fraction]]:
    """Read the amount and the reserve of every charge.

    Parameters
    ----------
    connection : sqlite3.Connection
        Inside a transaction.

    Returns
    -------
    list of (Fraction, Fraction)
    """
    rows = connection.execute("SELECT amount, reserve FROM charge").fetchall()
    return [(Fraction(amount), Fraction(reserve)) for amount, reserve in rows]


def keep_unit(connection: sqlite3.Connection, unit: str) -> str:
    """Say whom the charges of a ledger protect; the first charge that says so decides.

    Parameters
    ----------
    connection : sqlite3.Connection
        Inside a write transaction.
    unit : str
        Whom this charge protects.

    Returns
    -------
    str
        Whom the ledger's charges protect: those of an older ledger, which does not say, rows.
    """
    connection.execute(
        "CREATE TABLE IF NOT EXISTS unit (only INTEGER PRIMARY KEY CHECK (only = 1), name TEXT NOT NULL)"
    )
    held = connection.execute("SELECT name FROM unit").fetchone()
    if held is None:
        older = connection.execute("SELECT 1 FROM charge").fetchone()
        held = (ROWS if older else unit,)
        connection.execute("INSERT INTO unit VALUES (1, ?)", held)
    return str(held[0])


def add_charge(connection: sqlite3.Connection, charge: Charge) -> None:
    """Store one charge.

    Parameters
    ----------
    connection : sqlite3.Connection
        Inside a write transaction.
    charge : Charge
        With a new id.
    """
    connection.execute(
        "INSERT INTO charge (id, time, description, cost, amount, reserve) VALUES (?, ?, ?, ?, ?, ?)",
        (charge.id, charge.time, charge.description, charge.cost, str(charge.amount), str(charge.reserve)),
    )


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value

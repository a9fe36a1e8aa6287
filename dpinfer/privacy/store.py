"""Where a ledger is kept: one SQLite file, or one SQLite database in memory.

Everything is written in immediate transactions that are on disk before they return. A file is opened anew for
every operation, so that threads, forked processes and pickled ledgers share nothing but the file. A new file appears
whole or not at all, with a marker beside it: one that is empty or gone later is then not taken for a new one.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import uuid
import weakref
from abc import ABC, abstractmethod
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeVar

from dpinfer.errors import LedgerError, shown
from dpinfer.privacy.cost import Cost
from dpinfer.privacy.exact import fraction_of
from dpinfer.writing import sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from fractions import Fraction

__all__ = [
    "ROWS",
    "Charge",
    "FileStore",
    "Header",
    "MemoryStore",
    "Store",
    "add_charge",
    "keep_unit",
    "read_charges",
    "read_header",
]

T = TypeVar("T")

BUSY_SECONDS = 60.0
"""How long an operation waits for other processes that are writing."""

_UNTOLD_SECONDS = 1.0
"""After how long that is logged."""

_LOG = logging.getLogger("dpinfer")

ROWS = "rows"
"""The unit where every row is protected by itself."""

_APPLICATION_ID = 0x6470_696E  # "dpin"
_VERSION = 1

_MARKER = ".marker"
_MARKED = (
    "A dpinfer ledger was made beside this file, under the same name without {marker}. If that is missing or\n"
    "empty, restore it from a backup: it knows what was spent. Delete this file only if nothing was ever released.\n"
)

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
    """One charge as it is stored, with its time in UTC and ISO 8601, and its cost in every proved currency.

    ``amount`` and ``reserve`` are what was added up, in the currency of the ledger.
    """

    id: str
    time: str
    description: str
    cost: Cost
    amount: Fraction
    reserve: Fraction


class Store(ABC):
    """A place for the header and the charges of one ledger."""

    @abstractmethod
    def make(self, header: Header) -> bool:
        """Make a new ledger where there is none; return whether it was made."""

    @abstractmethod
    def transaction(self, *, write: bool) -> AbstractContextManager[sqlite3.Connection]:
        """Open a transaction; it is committed at the end of the block, or rolled back by an error in it.

        With ``write`` it takes the write lock at once, so that what is read stays true until the end. `LedgerError` if
        the store cannot be used.
        """


class FileStore(Store):
    """A ledger in a file, opened anew for every transaction; its folder must exist."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, str | os.PathLike) or str(path) in {"", ":memory:"}:
            raise LedgerError(
                f"{shown(path)} is no file name; for a ledger without a file use Ledger.in_memory(budget)"
            )
        self.path = Path(path).expanduser().resolve()
        self.marker = self.path.with_name(self.path.name + _MARKER)
        if self.path.is_dir():
            raise LedgerError(f"{self.path} is a directory, not a ledger file")
        if not self.path.parent.is_dir():
            raise LedgerError(f"the folder of {self.path} does not exist")

    def __str__(self) -> str:
        return str(self.path)

    def make(self, header: Header) -> bool:
        """Make the file, whole or not at all; False if it is there already.

        `LedgerError` if a ledger was here and is gone, or the folder cannot hold one.
        """
        # What a ledger leaves beside it is looked for first: it comes into being after the file itself.
        traces = [trace for trace in self._traces() if trace.exists()]
        if self.path.exists():
            return False
        if traces:
            raise LedgerError(
                f"the ledger {self.path} is gone: {traces[0].name} shows that it was there; restore it from a backup, "
                f"for a new one would grant the whole budget again (if nothing was ever released, delete {traces[0]})"
            )
        part = self.path.with_name(f"{self.path.name}.{uuid.uuid4().hex}.part")
        try:
            with _connected(part, "rwc") as connection, _transaction(connection, str(part), write=True):
                _write_header(connection, header)
            os.link(part, self.path)  # atomic, and refused where another process was faster
            self.mark()
        except FileExistsError:
            return False
        except OSError as error:
            raise LedgerError(f"no ledger can be made at {self.path}: {error.strerror}") from error
        finally:
            part.unlink(missing_ok=True)
        return True

    def mark(self) -> None:
        """Write the marker if it is not there, before anything is charged."""
        if self.marker.exists():
            return
        with self.marker.open("w", encoding="utf-8") as file:
            file.write(_MARKED.format(marker=_MARKER))
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self.path.parent)

    def _traces(self) -> tuple[Path, ...]:
        return self.marker, self.path.with_name(self.path.name + "-journal")

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        """Open a transaction on a fresh connection; see `Store.transaction`."""
        if not self.path.is_file():
            raise LedgerError(f"there is no ledger at {self.path}")
        if self.path.stat().st_size == 0:
            raise LedgerError(
                f"{self.path} is not a ledger: it is empty. If it was one, restore it from a backup, for a new one "
                "would grant the whole budget again; if it never was, delete the file"
            )
        with _connected(self.path, "rw") as connection, _transaction(connection, str(self), write=write):
            yield connection


class MemoryStore(Store):
    """A ledger in the memory of one process: one connection, used by one thread at a time."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        # It holds the connection, so that in a reference cycle, too, this is closed before it is collected.
        weakref.finalize(self, self._connection.close)

    def __str__(self) -> str:
        return "the ledger in memory"

    def make(self, header: Header) -> bool:
        """Make the ledger; there is none yet."""
        with self.transaction(write=True) as connection:
            _write_header(connection, header)
        return True

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        """Open a transaction; see `Store.transaction`. Refuses in any process but the one that made it."""
        if os.getpid() != self._process:
            raise LedgerError(
                "a ledger in memory cannot be used in another process: each copy would spend the "
                "whole budget; use a ledger file"
            )
        with self._lock, _transaction(self._connection, str(self), write=write):
            yield self._connection


@contextmanager
def _connected(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    try:
        uri = f"{path.as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    except sqlite3.Error as error:
        _refuse(str(path), error)
    with closing(connection):
        yield connection


@contextmanager
def _transaction(connection: sqlite3.Connection, name: str, *, write: bool) -> Iterator[None]:
    """Begin; commit to disk at the end, roll back on any error."""
    try:
        connection.execute("PRAGMA synchronous = EXTRA")  # FULL, and the folder entry of the journal too
        connection.execute("PRAGMA fullfsync = ON")
        if write:
            _begin_writing(connection, name)
        else:
            connection.execute("BEGIN")
        yield
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        _refuse(name, error)
    finally:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")


def _begin_writing(connection: sqlite3.Connection, name: str) -> None:
    """Take the write lock; a wait for other processes that lasts is logged."""
    try:
        _wait_at_most(connection, min(_UNTOLD_SECONDS, BUSY_SECONDS))
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if not _is_busy(error):
            raise
        with suppress(Exception):  # a handler that fails must not keep anybody from charging
            _LOG.info("waiting for other processes that write to the ledger %r", Path(name).name)
        _wait_at_most(connection, BUSY_SECONDS)
        connection.execute("BEGIN IMMEDIATE")
    _wait_at_most(connection, BUSY_SECONDS)


def _wait_at_most(connection: sqlite3.Connection, seconds: float) -> None:
    connection.execute(f"PRAGMA busy_timeout = {round(1000 * seconds)}")


def _is_busy(error: sqlite3.Error) -> bool:
    return any(word in str(error) for word in ("locked", "busy"))


def _refuse(name: str, error: sqlite3.Error) -> NoReturn:
    text = str(error)
    if "not a database" in text or "malformed" in text:
        raise LedgerError(f"{name} is not a ledger, or is damaged") from error
    if _is_busy(error):
        raise LedgerError(f"{name} was kept busy by others for more than {BUSY_SECONDS:g} s") from error
    raise LedgerError(f"{name} cannot be used: {text}") from error


def _write_header(connection: sqlite3.Connection, header: Header) -> None:
    for statement in _CREATE:
        connection.execute(statement)
    connection.execute("INSERT INTO header VALUES (1, ?, ?, ?, ?, ?)", header)


def read_header(connection: sqlite3.Connection, name: str) -> Header:
    """Read the header of a ledger within a transaction; `LedgerError` if it is none, or of a newer version."""
    if _pragma(connection, "application_id") != _APPLICATION_ID:
        raise LedgerError(f"{name} is not a ledger")
    version = _pragma(connection, "user_version")
    if version != _VERSION:
        raise LedgerError(f"{name} is a ledger of version {version}; this dpinfer reads version {_VERSION}")
    row = connection.execute("SELECT identifier, dataset, budget, neighbors, currency FROM header").fetchone()
    if row is None or not all(isinstance(field, str) for field in row):
        raise LedgerError(f"{name} is not a ledger, or is damaged")
    return Header(*row)


def read_charges(connection: sqlite3.Connection, name: str) -> list[Charge]:
    """Read all charges in the order in which they were made, within a transaction.

    `LedgerError` if one is missing, or has a field that is not what was written.
    """
    rows = connection.execute("SELECT number, id, time, description, cost, amount, reserve FROM charge ORDER BY number")
    stored = rows.fetchall()
    made = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'charge'").fetchone() or (0,)
    if [row[0] for row in stored] != list(range(1, made[0] + 1)):
        raise LedgerError(f"{name} is damaged: of {made[0]} charges that were made it holds {len(stored)}")
    return [_charge(name, *row) for row in stored]


# Many charges are alike, and all are read for every new one: what a text means is worked out once.
_cost = lru_cache(2**14)(Cost.from_json)
_fraction = lru_cache(2**14)(fraction_of)


def _charge(name: str, number: int, *stored: object) -> Charge:
    fields = dict(zip(("id", "time", "description", "cost", "amount", "reserve"), stored, strict=True))

    def read(field: str, reader: Callable[[str], T]) -> T:
        text = fields[field]
        try:
            if isinstance(text, str) and text:
                return reader(text)
        except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError):
            pass
        raise LedgerError(f"{name} is damaged: charge {number} has a {field} that is not what was written")

    return Charge(
        read("id", str),
        read("time", _time),
        read("description", str),
        read("cost", _cost),
        read("amount", _fraction),
        read("reserve", _fraction),
    )


def _time(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError(text)
    return text


def keep_unit(connection: sqlite3.Connection, unit: str) -> str:
    """Say whom the charges of a ledger protect; the first charge that says so decides, in a write transaction.

    Those of an older ledger, which does not say, protect rows.
    """
    connection.execute(
        "CREATE TABLE IF NOT EXISTS unit (only INTEGER PRIMARY KEY CHECK (only = 1), name TEXT NOT NULL)"
    )
    held = connection.execute("SELECT name FROM unit").fetchone()
    if held is None:
        older = connection.execute("SELECT 1 FROM charge").fetchone()
        held = (ROWS if older else unit,)
        connection.execute("INSERT INTO unit VALUES (1, ?)", held)
    if not isinstance(held[0], str):
        raise LedgerError(f"the ledger is damaged: whom it protects is {held[0]!r}")
    return held[0]


def add_charge(connection: sqlite3.Connection, charge: Charge) -> None:
    """Store one charge, with a new id, in a write transaction."""
    connection.execute(
        "INSERT INTO charge (id, time, description, cost, amount, reserve) VALUES (?, ?, ?, ?, ?, ?)",
        (charge.id, charge.time, charge.description, charge.cost.to_json(), str(charge.amount), str(charge.reserve)),
    )


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value

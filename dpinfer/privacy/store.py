"""Where a ledger is kept, and the one way to charge it: one SQLite file, or one SQLite database in memory.

Everything is written in immediate transactions that are on disk before they return. A file is opened anew for
every operation, so that threads, forked processes and pickled ledgers share nothing but the file. A new file appears
whole or not at all, with a marker beside it: one that is empty or gone later is then not taken for a new one.

A ledger that stores releases writes what is asked with the charge, in one transaction, and the release after the draw,
both as texts. So a charge whose release is missing was paid and is lost, or is being measured.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
import uuid
import weakref
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

from dpinfer.checks import are_texts, named, of_type
from dpinfer.errors import (
    BudgetExceededError,
    DPInferError,
    LedgerError,
    LedgerMismatchError,
    OptionError,
    shown,
    type_of,
)
from dpinfer.privacy.accounting import Cost
from dpinfer.privacy.exact import fraction_of
from dpinfer.privacy.filters import Entry, Filter, filter_for
from dpinfer.privacy.units import NEIGHBORS, Neighbors, privacy_from_dict
from dpinfer.writing import sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from fractions import Fraction

BUSY_SECONDS = 60.0
"""How long an operation waits for other processes that are writing."""

_LOGGED_AFTER_SECONDS = 1.0
"""After how long that is logged."""

_LOG = logging.getLogger("dpinfer")  # prices and questions of charges: public, and the same for all rows

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


_CREATE_KEPT = """CREATE TABLE IF NOT EXISTS kept (number INTEGER PRIMARY KEY AUTOINCREMENT,
    charge TEXT NOT NULL UNIQUE, asked TEXT NOT NULL, release TEXT)"""
_CREATE_UNIT = "CREATE TABLE IF NOT EXISTS unit (only INTEGER PRIMARY KEY CHECK (only = 1), name TEXT NOT NULL)"


class LedgerMovedError(LedgerError):
    """Another process was charged since the kept releases were read: they are to be read again; nothing was charged."""


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


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """One charge of a ledger that keeps releases: its id, what was asked, and the release, as JSON texts.

    ``release`` is None where it was paid for and not stored.
    """

    charge: str
    request: str
    release: str | None


class FileStore:
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
        journal = self.path.with_name(self.path.name + "-journal")
        traces = [trace for trace in (self.marker, journal) if trace.exists()]
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

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        """Open a transaction on a fresh connection; the end of the block commits it, an error in it rolls it back.

        With ``write`` it takes the write lock at once, so that what is read stays true until the end. `LedgerError` if
        the store cannot be used.
        """
        if not self.path.is_file():
            raise LedgerError(f"there is no ledger at {self.path}")
        if self.path.stat().st_size == 0:
            raise LedgerError(
                f"{self.path} is not a ledger: it is empty. If it was one, restore it from a backup, for a new one "
                "would grant the whole budget again; if it never was, delete the file"
            )
        with _connected(self.path, "rw") as connection, _transaction(connection, str(self), write=write):
            yield connection


class MemoryStore:
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
        """Open a transaction; see `FileStore.transaction`. Refuses in any process but the one that made it."""
        if os.getpid() != self._process:
            raise LedgerError(
                "a ledger in memory cannot be used in another process: each copy would spend the "
                "whole budget; use a ledger file"
            )
        with self._lock, _transaction(self._connection, str(self), write=write):
            yield self._connection


Store = FileStore | MemoryStore
"""A place for the header and the charges of one ledger."""


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
    connection.execute(f"PRAGMA busy_timeout = {round(1000 * min(_LOGGED_AFTER_SECONDS, BUSY_SECONDS))}")
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if not _is_busy(error):
            raise
        with suppress(Exception):  # a handler that fails must not keep anybody from charging
            _LOG.info("waiting for other processes that write to the ledger %r", Path(name).name)
    connection.execute(f"PRAGMA busy_timeout = {round(1000 * BUSY_SECONDS)}")
    if not connection.in_transaction:
        connection.execute("BEGIN IMMEDIATE")


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
    application, version = (
        connection.execute(f"PRAGMA {of}").fetchone()[0] for of in ("application_id", "user_version")
    )
    if application != _APPLICATION_ID:
        raise LedgerError(f"{name} is not a ledger")
    if version != _VERSION:
        raise LedgerError(f"{name} is a ledger of version {version}; this dpinfer reads version {_VERSION}")
    row = connection.execute("SELECT identifier, dataset, budget, neighbors, currency FROM header").fetchone()
    if row is None or not are_texts(row):
        raise LedgerError(f"{name} is not a ledger, or is damaged")
    return Header(*row)


# All charges are read for every new one: what a text means is worked out once.
_cost = lru_cache(2**14)(Cost.from_json)


class _FieldError(Exception):
    """A field of a charge, by its name, is not what was written."""


@lru_cache(2**14)  # which keeps what is read, and no error
def _charge(*stored: object) -> Charge:
    """Read a charge as it is stored."""
    readers: tuple[Callable[[str], Any], ...] = (str, _time, str, _cost, fraction_of, fraction_of)
    found = []
    for field, reader, text in zip(Charge.__slots__, readers, stored, strict=True):
        if not (isinstance(text, str) and text):
            raise _FieldError(field)
        try:
            found.append(reader(text))
        except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError):
            raise _FieldError(field) from None
    return Charge(*found)


def _time(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError(text)
    return text


def _keep_unit(connection: sqlite3.Connection, unit: str) -> str:
    """Say whom the charges of a ledger protect; the first charge that says so decides, in a write transaction.

    Those of an older ledger, which does not say, protect rows.
    """
    connection.execute(_CREATE_UNIT)
    protected = connection.execute("SELECT name FROM unit").fetchone()
    if protected is None:
        older = connection.execute("SELECT 1 FROM charge").fetchone()
        protected = (ROWS if older else unit,)
        connection.execute("INSERT INTO unit VALUES (1, ?)", protected)
    if not isinstance(protected[0], str):
        raise LedgerError(f"the ledger is damaged: whom it protects is {protected[0]!r}")
    return protected[0]


class Account:
    """What a ledger keeps, and the only way to charge it; `dpinfer.privacy.ledger.Ledger` is its face."""

    __slots__ = ("filter", "header", "store")
    filter: Filter
    header: Header
    store: Store

    def __init__(self, store: Store, header: Header) -> None:
        if type(store) not in (FileStore, MemoryStore):  # not a subclass, which might keep nothing
            raise OptionError("store", type_of(store), "a FileStore or a MemoryStore")
        if header.neighbors not in NEIGHBORS:
            raise LedgerError(f"{store} is damaged: its neighbors are {header.neighbors!r}")
        try:
            budget = privacy_from_dict(json.loads(header.budget))
        except (ValueError, TypeError, AttributeError, DPInferError):
            raise LedgerError(f"{store} is damaged: its budget is no amount of privacy") from None
        try:
            rule = filter_for(budget, header.currency)
        except OptionError:
            raise LedgerError(f"{store} is damaged: its currency {header.currency!r} is none of {budget}") from None
        for name, value in (("store", store), ("header", header), ("filter", rule)):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("an account cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("an account cannot be changed")

    @property
    def neighbors(self) -> Neighbors:
        """The neighbouring relation of every charge."""
        return cast("Neighbors", self.header.neighbors)

    def charge(
        self,
        cost: Cost,
        description: str,
        *,
        unit: str | None,
        asked: Callable[[], str] | None = None,
        identifier: str | None = None,
        seen: int | None = None,
    ) -> str:
        """Check that a cost fits, store it, and return the id of the charge, which is on disk then.

        Nothing is stored where it does not fit, has no guarantee in the currency, or protects another unit than the
        charges before; see `dpinfer.privacy.ledger.Ledger.charge`. A ledger that keeps releases stores what was
        ``asked`` with the charge. ``identifier`` is an id of one's own, which no charge has; where ``seen`` is not how
        many kept releases there are, the charge is refused (`LedgerMovedError`).
        """
        entry = self.entry(cost)
        named("a text that says what is measured").check("description", description)
        identifier = uuid.uuid4().hex if identifier is None else identifier
        with self.store.transaction(write=True) as connection:
            self.check(connection, cost, entry)
            if unit is not None and (protected := _keep_unit(connection, unit)) != unit:
                raise LedgerMismatchError(
                    f"the charges of {self.store} protect {protected}, and these data {unit}: their costs do not "
                    "compose; use the same id= for all, or a separate ledger for rows that are not in the other"
                )
            time = datetime.now(UTC).isoformat(timespec="microseconds")
            if seen is not None and connection.execute("SELECT count(*) FROM kept").fetchone()[0] != seen:
                raise LedgerMovedError(f"{self.store} was charged by another process meanwhile; nothing was charged")
            connection.execute(
                "INSERT INTO charge (id, time, description, cost, amount, reserve) VALUES (?, ?, ?, ?, ?, ?)",
                (identifier, time, description, cost.to_json(), str(entry.amount), str(entry.reserve)),
            )
            if asked is not None and _keeps(connection):
                connection.execute("INSERT INTO kept (charge, asked) VALUES (?, ?)", (identifier, asked()))
        with suppress(Exception):  # a handler that fails must not lose what is paid for
            _LOG.info("charged %s to %r for %s", cost.price, self.header.dataset, description)
        return identifier

    @property
    def keeps(self) -> bool:
        """Whether the ledger keeps releases."""
        with self.store.transaction(write=False) as connection:
            return _keeps(connection)

    def start_keeping(self) -> None:
        """Have the ledger keep releases from now on."""
        if not self.keeps:
            with self.store.transaction(write=True) as connection:
                connection.execute(_CREATE_KEPT)

    def keep(self, identifier: str, release: str) -> None:
        """Store what was released for a charge; `LedgerError` if it cannot be written."""
        with self.store.transaction(write=True) as connection:
            connection.execute("UPDATE kept SET release = ? WHERE charge = ?", (release, identifier))

    def kept(self) -> list[StoredRelease]:
        """Return all that the ledger keeps, the oldest first; `LedgerError` if it is another, or damaged."""
        with self.store.transaction(write=False) as connection:
            self.total(connection)
            if not _keeps(connection):
                return []
            rows = connection.execute("SELECT charge, asked, release FROM kept ORDER BY number").fetchall()
        for charge, request, release in rows:
            if not (isinstance(charge, str) and isinstance(request, str) and isinstance(release, str | None)):
                raise LedgerError(f"{self.store} is damaged: a release that it keeps is not what was written")
        return [StoredRelease(*row) for row in rows]

    def entry(self, cost: Cost) -> Entry:
        """Return what a cost uses up."""
        of_type(Cost, "cost", cost, "the Cost of a mechanism")
        return self.filter.entry(cost)

    def check(self, connection: sqlite3.Connection, cost: Cost, entry: Entry) -> None:
        """Raise unless the entry fits, within the caller's transaction."""
        total, _ = self.total(connection)
        reason = self.filter.excess(total, entry)
        if reason is not None:
            raise BudgetExceededError(cost.price, self.filter.remaining(total), reason)

    def total(self, connection: sqlite3.Connection) -> tuple[Entry, list[Charge]]:
        """Read the charges in the order in which they were made, and return their sum and themselves.

        `LedgerError` if one is missing, or has a field that is not what was written.
        """
        if read_header(connection, str(self.store)) != self.header:
            raise LedgerMismatchError(f"{self.store} has been replaced by another ledger since it was opened")
        rows = connection.execute(
            "SELECT number, id, time, description, cost, amount, reserve FROM charge ORDER BY number"
        ).fetchall()
        (made,) = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'charge'").fetchone() or (0,)
        if [row[0] for row in rows] != list(range(1, made + 1)):
            raise LedgerError(f"{self.store} is damaged: of {made} charges that were made it holds {len(rows)}")
        charges: list[Charge] = []
        alike = dict[tuple[str, ...], list[int]]()  # of charges of the same cost, which are compared and added at once
        for number, (_, *stored) in enumerate(rows, 1):
            try:
                charges.append(_charge(*stored))
            except _FieldError as wrong:
                raise LedgerError(
                    f"{self.store} is damaged: charge {number} has a {wrong} that is not what was written"
                ) from None
            alike.setdefault(tuple(stored[3:]), []).append(number)
        firsts = ((charges[of[0] - 1], of) for of in alike.values())
        total = self.filter.total((of, one.cost, Entry(one.amount, one.reserve)) for one, of in firsts)
        return total, charges


def _keeps(connection: sqlite3.Connection) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'kept'").fetchone()
    return found is not None


def found_header(store: FileStore) -> Header:
    """Return the header of a ledger file, and see to its marker before anything is charged."""
    with store.transaction(write=False) as connection:
        header = read_header(connection, str(store))
    with suppress(OSError):  # in a folder that takes no file nothing can be charged either
        store.mark()
    return header

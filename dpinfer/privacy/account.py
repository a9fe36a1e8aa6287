"""The account of a ledger: the one way to spend a privacy budget."""

from __future__ import annotations

import json
import logging
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from dpinfer.errors import BudgetExceededError, DPInferError, LedgerError, LedgerMismatchError, OptionError, type_of
from dpinfer.privacy.cost import Cost
from dpinfer.privacy.filters import Entry, Filter, filter_for
from dpinfer.privacy.kept import LedgerMovedError, book, keeps, kept_count, store_release
from dpinfer.privacy.store import (
    Charge,
    FileStore,
    Header,
    MemoryStore,
    Store,
    add_charge,
    keep_unit,
    read_charges,
    read_header,
)
from dpinfer.privacy.units import NEIGHBORS, Neighbors, privacy_from_dict

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

__all__ = ["Account", "filter_of", "found_header"]

_LOG = logging.getLogger("dpinfer")  # prices and questions of charges: public, and the same for all rows


class Account:
    """What a ledger keeps, and the only way to charge it; `dpinfer.privacy.ledger.Ledger` is its face."""

    __slots__ = ("filter", "header", "store")
    filter: Filter
    header: Header
    store: Store

    def __init__(self, store: Store, header: Header) -> None:
        if type(store) not in (FileStore, MemoryStore):  # not a subclass, which might keep nothing
            raise OptionError("store", type_of(store), "a FileStore or a MemoryStore")
        for name, value in (("store", store), ("header", header), ("filter", filter_of(store, header))):
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
        if not isinstance(description, str) or not description:
            raise OptionError("description", description, "a text that says what is measured")
        identifier = uuid.uuid4().hex if identifier is None else identifier
        with self.store.transaction(write=True) as connection:
            self.check(connection, cost, entry)
            if unit is not None and (held := keep_unit(connection, unit)) != unit:
                raise LedgerMismatchError(
                    f"the charges of {self.store} protect {held}, and these data {unit}: what they cost does not add "
                    "up; use the same id= for all, or a ledger of their own for rows that are not in the other"
                )
            time = datetime.now(UTC).isoformat(timespec="microseconds")
            if seen is not None and kept_count(connection) != seen:
                raise LedgerMovedError(f"{self.store} was charged by another process meanwhile; nothing was charged")
            add_charge(connection, Charge(identifier, time, description, cost, entry.amount, entry.reserve))
            if asked is not None and keeps(connection):
                book(connection, identifier, asked())
        with suppress(Exception):  # a handler that fails must not lose what is paid for
            _LOG.info("charged %s to %r for %s", cost.price, self.header.dataset, description)
        return identifier

    @property
    def keeps(self) -> bool:
        """Whether the ledger keeps releases."""
        with self.store.transaction(write=False) as connection:
            return keeps(connection)

    def keep(self, identifier: str, release: str) -> None:
        """Store what was released for a charge."""
        store_release(self.store, identifier, release)

    def entry(self, cost: Cost) -> Entry:
        """Return what a cost uses up."""
        if not isinstance(cost, Cost):
            raise OptionError("cost", cost, "the Cost of a mechanism")
        return self.filter.entry(cost)

    def check(self, connection: sqlite3.Connection, cost: Cost, entry: Entry) -> None:
        """Raise unless the entry fits, within the caller's transaction."""
        total, _ = self.total(connection)
        reason = self.filter.excess(total, entry)
        if reason is not None:
            raise BudgetExceededError(cost.price, self.filter.remaining(total), reason)

    def total(self, connection: sqlite3.Connection) -> tuple[Entry, list[Charge]]:
        """Read the charges, check them, and return their sum and themselves."""
        if read_header(connection, str(self.store)) != self.header:
            raise LedgerMismatchError(f"{self.store} has been replaced by another ledger since it was opened")
        made = read_charges(connection, str(self.store))
        return self.filter.total((charge.cost, Entry(charge.amount, charge.reserve)) for charge in made), made


def filter_of(store: Store, header: Header) -> Filter:
    """Return the filter that a header asks for; `LedgerError` if a field of it is damaged."""
    if header.neighbors not in NEIGHBORS:
        raise LedgerError(f"{store} is damaged: its neighbors are {header.neighbors!r}")
    try:
        budget = privacy_from_dict(json.loads(header.budget))
    except (ValueError, TypeError, AttributeError, DPInferError):
        raise LedgerError(f"{store} is damaged: its budget is no amount of privacy") from None
    try:
        return filter_for(budget, header.currency)
    except OptionError:
        raise LedgerError(f"{store} is damaged: its currency {header.currency!r} is none of {budget}") from None


def found_header(store: FileStore) -> Header:
    """Return the header of a ledger file, and see to its marker before anything is charged."""
    with store.transaction(write=False) as connection:
        header = read_header(connection, str(store))
    with suppress(OSError):  # in a folder that takes no file nothing can be charged either
        store.mark()
    return header

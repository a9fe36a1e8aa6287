"""What describes a ledger: checked, written as text, and compared with what a file holds."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

from dpinfer.errors import LedgerMismatchError, OptionError
from dpinfer.privacy.account import filter_of
from dpinfer.privacy.filters import filter_for
from dpinfer.privacy.store import Header
from dpinfer.privacy.units import NEIGHBORS, Neighbors, Privacy

if TYPE_CHECKING:
    from dpinfer.privacy.store import Store

__all__ = ["check_keep", "check_same", "described"]


def check_keep(keep: object) -> None:
    """Refuse a ``keep`` that is no truth value."""
    if not isinstance(keep, bool):
        raise OptionError("keep", keep, "True or False")


def described(dataset: str, budget: Privacy, neighbors: Neighbors, currency: str | None) -> Header:
    """Check what describes a ledger, and write it as text."""
    if not isinstance(dataset, str) or not dataset:
        raise OptionError("dataset", dataset, "a name for the confidential data")
    if type(neighbors) is not str or neighbors not in NEIGHBORS:
        raise OptionError("neighbors", neighbors, NEIGHBORS)
    chosen = filter_for(budget, currency).currency
    return Header(uuid.uuid4().hex, dataset, json.dumps(budget.to_dict()), neighbors, chosen)


def check_same(store: Store, found: Header, asked: Header) -> None:
    """Refuse the ledger of another study."""
    if found[1:] == asked[1:]:
        return
    told = zip(_PROPERTIES, _readable(store, found), _readable(store, asked), strict=True)
    differing = [f"its {name} is {there}, not {here}" for name, there, here in told if there != here]
    raise LedgerMismatchError(f"{store} belongs to another study: {'; '.join(differing)}")


_PROPERTIES = Header._fields[1:]


def _readable(store: Store, header: Header) -> tuple[str, ...]:
    """Return the properties that two ledgers of one study share, for a message."""
    return repr(header.dataset), str(filter_of(store, header).budget), header.neighbors, header.currency

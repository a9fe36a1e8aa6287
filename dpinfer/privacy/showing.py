"""Ledgers and prices as a notebook shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpinfer.display.numbers import count
from dpinfer.display.report import Report, Table
from dpinfer.errors import LedgerError

if TYPE_CHECKING:
    from dpinfer.privacy.ledger import Ledger
    from dpinfer.privacy.units import Privacy

__all__ = ["ledger_facts", "ledger_report", "price_report"]

_SHOWN = 20
"""Charges that are shown: the last ones."""


def ledger_facts(ledger: Ledger) -> tuple[tuple[str, str], ...]:
    """Return what is kept and spent; where the file cannot be read, why."""
    where = "in memory" if ledger.path is None else str(ledger.path)
    try:
        spent, remaining, made = str(ledger.spent), str(ledger.remaining), len(ledger.charges())
    except LedgerError as error:
        return (("ledger", where), ("cannot be read", str(error)))
    return (
        ("ledger", where),
        ("dataset", ledger.dataset),
        ("relation", f"{ledger.neighbors}, counted in {ledger.currency}"),
        ("budget", str(ledger.budget)),
        ("spent", f"{spent} in {count(made)} charge{'' if made == 1 else 's'}"),
        ("remaining", remaining),
    )


def ledger_report(ledger: Ledger) -> Report:
    """Return budget, spent, remaining, and the last charges."""
    facts = ledger_facts(ledger)
    if len(facts) == 2:
        return Report("Ledger", facts)
    made = ledger.charges()
    rows = [
        (f"{time:%Y-%m-%d %H:%M}", text, str(price))
        for time, text, price in made[["time", "description", "price"]].tail(_SHOWN).itertuples(index=False)
    ]
    left = len(made) - len(rows)
    notes = (f"{count(left)} earlier charges are in charges().",) if left else ()
    table = Table(("charged (UTC)", "for", "price"), tuple(rows), frozenset({1, 2}))
    return Report("Ledger", facts, (table,) if rows else (), notes)


def price_report(price: Privacy) -> Report:
    """Return a price and what it implies."""
    return Report(str(price), (("guarantees", price.describe()),))

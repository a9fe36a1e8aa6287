"""What a page says of price and budget: at a glance, and from the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpinfer.display.report import Report, Table, count
from dpinfer.privacy.ledger import ledger_facts
from dpinfer.reporting.blocks import Note, Tables, Text
from dpinfer.reporting.methods import NEIGHBOURS, power_sentence, unprotected
from dpinfer.results.total_cost import totals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.privacy.ledger import Ledger
    from dpinfer.release.release import Release
    from dpinfer.reporting.blocks import Block
    from dpinfer.reporting.reading import Entry
    from dpinfer.results.total_cost import Total

__all__ = ["glance", "ledger_blocks"]


def glance(entries: Sequence[Entry], releases: Sequence[Release]) -> list[Block]:
    """Say at a glance what was asked and paid, a table for each data set."""
    blocks: list[Block] = [
        Tables(_facts(total)) for total in totals([one for entry in entries for one in entry.releases])
    ]
    told = unprotected(entries)
    if any(release.public for release in releases):
        told.append(
            "Results marked as made from public data are simulations: their noise is not secret, and they carry no "
            "guarantee."
        )
    return blocks + [Note("No privacy", sentence) for sentence in told]


def _facts(total: Total) -> Report:
    one = "one row" if total.unit == "one row" else "one person"
    name = "Data set" if total.dataset is None else f"Data set {total.dataset}"
    meaning = power_sentence(total)
    facts = (
        ("Protected", one if total.unit == "one row" else total.unit),
        ("Neighbours", f"two data sets of which {NEIGHBOURS[total.neighbors].format(one=one)} ({total.neighbors})"),
        ("Releases", count(total.count)),
        ("Paid in all", total.words.removesuffix(".")),
        *([("What it means", meaning)] if meaning else []),
        ("Not counted", "what else was released about these data: its price comes on top"),
    )
    return Report(name, facts)


def ledger_blocks(ledger: Ledger, releases: Sequence[Release]) -> list[Block]:
    """Return budget, spent and remaining, and every charge, marked where its release is on the page."""
    made = ledger.charges()
    shown = {charge for release in releases for charge in release.charge_ids}
    rows = [
        (str(place), f"{time:%Y-%m-%d %H:%M}", text, str(price), "yes" if id in shown else "no", id[:8])
        for place, (id, time, text, price) in enumerate(
            made[["id", "time", "description", "price"]].itertuples(index=False), 1
        )
    ]
    heads = ("charge", "time (UTC)", "for", "price", "on this page", "id")
    table = Table(heads, tuple(rows), frozenset({2, 4}))
    facts = (*ledger_facts(ledger)[1:], ("guarantee", f"all charges together: {ledger.spent.describe()}"))
    others = sum(row[4] == "no" for row in rows)
    told = (
        "Every charge was written to the ledger before its noise was drawn; a charge beyond the budget is refused. "
        f"{'What is not on this page counts, too. ' if others else ''}The ledger does not know what was released "
        "without it."
    )
    return [Text(told), Tables(Report("Ledger", facts, (table,) if rows else ()))]

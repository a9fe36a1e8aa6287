"""Schemas, and data of a schema, as a notebook shows them: what is public, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpinfer.display.report import Report, Table
from dpinfer.privacy.ledger import ledger_facts

if TYPE_CHECKING:
    from dpinfer.privacy.ledger import Ledger
    from dpinfer.schema.schema import Schema

__all__ = ["rows_report", "schema_report"]


def schema_report(schema: Schema, title: str = "", facts: tuple[tuple[str, str], ...] = ()) -> Report:
    """Return a row for each column: kind, values, what becomes of missing and impossible cells, label and unit."""
    rows = []
    for name, column in schema.items():
        codes = ", ".join(map(repr, column.missing_codes))
        missing = f"{column.missing} (also {codes})" if codes else str(column.missing)
        told = (type(column).__name__, column.describe(), missing, str(column.impossible))
        rows.append((name, *told, column.label or "", column.measured_in))
    heads = ("column", "kind", "values", "missing", "impossible", "label", "unit")
    kept = [place for place in range(len(heads)) if place < 5 or any(row[place] for row in rows)]
    cells = tuple(tuple(row[place] for place in kept) for row in rows)
    table = Table(tuple(heads[place] for place in kept), cells, frozenset(range(1, len(kept))))
    people = schema.people
    unit = () if people is None else (("unit", f"{people.unit}, told apart by {people.id!r}"),)
    several = "" if len(schema) == 1 else "s"
    return Report(title or f"Schema of {len(schema)} column{several}", (*facts, *unit), (table,))


def rows_report(kind: str, schema: Schema, neighbors: str, ledger: Ledger | None) -> Report:
    """Return what is public of data: the schema, the relation, the ledger; no row, and not how many there are."""
    told = (("rows", "confidential"),) if ledger is not None else (("rows", "public"),)
    kept = () if ledger is None else ledger_facts(ledger)
    return schema_report(schema, kind, (*told, ("neighbours", neighbors), *kept))

"""All chapters of the tour, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpinfer.tour.account import account_chapter
from dpinfer.tour.beginning import ledger_chapter, price_chapter, quality_chapter, schema_chapter
from dpinfer.tour.descriptions import description_chapter, test_chapter
from dpinfer.tour.engines import engines_chapter
from dpinfer.tour.models import blocks_chapter, bootstrap_chapter
from dpinfer.tour.people import people_chapter, shape_chapter
from dpinfer.tour.planning import plan_chapter
from dpinfer.tour.regressions import gram_chapter, logit_chapter, regression_chapter
from dpinfer.tour.tables import tables_chapter

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.reporting.page import Block
    from dpinfer.tour.session import Tour

__all__ = ["CHAPTERS"]

CHAPTERS: tuple[tuple[str, Callable[[Tour], list[Block]]], ...] = (
    ("The public schema", schema_chapter),
    ("The budget and its ledger", ledger_chapter),
    ("What becomes of the cells", quality_chapter),
    ("A plan before the next charge", plan_chapter),
    ("The price of a question", price_chapter),
    ("A first private regression", regression_chapter),
    ("Odds and probabilities", logit_chapter),
    ("One purchase, many regressions", gram_chapter),
    ("Means, tables and families", description_chapter),
    ("Tests that keep their level", test_chapter),
    ("Many tables, odds and ranks", tables_chapter),
    ("Any model, block by block", blocks_chapter),
    ("People with several rows", people_chapter),
    ("Choices, quantiles and a density", shape_chapter),
    ("Rows that are not in memory", engines_chapter),
    ("Replicates at their true price", bootstrap_chapter),
    ("What the ledger says", account_chapter),
)
"""Title and content of every chapter, in order; a further capability adds a line here."""

"""Releases as a notebook shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpinfer.display.numbers import count
from dpinfer.display.report import Report, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.release.release import Release

__all__ = ["release_report"]

_NAMED = 5
"""Names of released numbers that are shown for each stage."""


def release_report(release: Release) -> Report:
    """Return what was asked, what it cost, and what each stage released."""
    facts = [("question", str(release.question.get("text", release.kind))), ("price", str(release.cost.price))]
    facts += [("guarantee", "none (public data)" if release.public else release.cost.describe())]
    facts += [("neighbours", f"{release.neighbors}, of {release.unit}")]
    facts += [("data set", release.dataset)] if release.dataset else []
    facts += [("ledger charges", ", ".join(release.charge_ids))] if release.charge_ids else []
    rows = [
        (
            str(place),
            count(len(one.values)),
            one.law.family,
            _listed(one.names),
        )
        for place, one in enumerate(release.stages, 1)
    ]
    table = Table(("stage", "numbers", "noise", "names"), tuple(rows), frozenset({2, 3}))
    return Report(f"Release: {release.kind}", tuple(facts), (table,))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")

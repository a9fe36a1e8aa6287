"""What several releases cost together: each paid for once, summed where a sum has a proof."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from dpinfer.errors import PrivacyUnitError
from dpinfer.privacy.cost import Cost
from dpinfer.privacy.exact import float_above
from dpinfer.privacy.units import ZCDP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpinfer.privacy.units import Privacy
    from dpinfer.release.combined import AnyRelease, SeveralCosts

__all__ = ["Total", "charges_of", "total_notes", "totals"]


@dataclass(frozen=True, slots=True)
class _Bill:
    """What some charges cost together."""

    charges: frozenset[str]
    cost: Cost | SeveralCosts


def charges_of(release: AnyRelease) -> frozenset[str]:
    """Return the ledger's charges for a release; of one without, its identity."""
    return frozenset(release.charge_ids or (f"object {id(release)}",))


def _bills(release: AnyRelease) -> list[_Bill]:
    """Return what was paid for a release: where the parts of a combination are known, one bill each."""
    costs = release.cost.parts
    if len(release.charge_ids) == len(costs) > 1:
        return [_Bill(frozenset({charge}), cost) for charge, cost in zip(release.charge_ids, costs, strict=True)]
    return [_Bill(charges_of(release), release.cost)]


@dataclass(frozen=True, slots=True)
class Total:
    """What releases about the same rows cost together.

    Attributes
    ----------
    dataset : str or None
    neighbors, unit : str
    count : int
        Releases, each paid for once.
    costs : tuple of Cost
        Sums, one for each unit of price.
    exact : bool
        Whether nothing is counted twice; otherwise these are upper bounds.
    """

    dataset: str | None
    neighbors: str
    unit: str
    count: int
    costs: tuple[Cost, ...]
    exact: bool

    @property
    def cost(self) -> Cost | None:
        """The one sum; as zCDP where there are several units and all have it; None where there is none."""
        if len(self.costs) == 1:
            return self.costs[0]
        known = [cost.rho for cost in self.costs if cost.rho is not None]
        if len(known) < len(self.costs):
            return None
        rho = reduce(add, known)
        return Cost(ZCDP(float_above(rho)), rho=rho)

    @property
    def relation(self) -> str:
        """The neighbouring relation, and the unit of protection where it is not a row."""
        return self.neighbors if self.unit == "one row" else f"{self.neighbors}, {self.unit}"

    @property
    def words(self) -> str:
        """The cost in words."""
        most = "" if self.exact else "at most "
        if len(self.costs) == 1:
            return f"{most}{self.costs[0].describe()}."
        told = f"prices in different units have no single sum. They are {most}"
        told += "; and ".join(cost.describe() for cost in self.costs) + "."
        if self.cost is None:
            return told
        return f"{told} Each is zCDP too, and as such all are {most}{self.cost.price.describe()}."


def totals(given: Iterable[AnyRelease]) -> list[Total]:
    """Sum the costs of distinct releases of confidential rows, by data set, neighbouring relation and unit."""
    releases = [release for release in given if not release.public]
    owners = {charge: name for one in releases if (name := one.dataset) is not None for charge in charges_of(one)}
    groups: dict[tuple[str | None, str, str], list[_Bill]] = {}
    for release in releases:
        known = [owners[charge] for charge in sorted(charges_of(release)) if charge in owners]
        name = release.dataset or (known[0] if known else None)
        groups.setdefault((name, release.neighbors, release.unit), []).extend(_bills(release))
    found = []
    for (name, neighbors, unit), bills in groups.items():
        distinct, exact = _paid_once(bills)
        count = len(frozenset[str]().union(*(bill.charges for bill in distinct)))
        costs = _summed([cost for bill in distinct for cost in bill.cost.parts])
        found.append(Total(name, neighbors, unit, count, tuple(costs), exact))
    return found


def total_notes(releases: Iterable[AnyRelease]) -> list[str]:
    """Say what distinct releases cost together, and what is not summed."""
    found = totals(releases)
    if not found:
        return []
    notes = [_told(total) for total in found]
    datasets = {total.dataset for total in found}
    if len(datasets) < len(found):
        told = "" if all(total.unit == "one row" for total in found) else " or units"
        notes.append(f"Costs under different neighbours{told} are not summed.")
    if len(datasets) > 1:
        notes.append("Different data sets have a total each; for a person who is in several of them these add.")
    return [*notes, "The ledger also counts releases that are not shown here."]


def _told(total: Total) -> str:
    """Say what some releases about the same rows cost together."""
    where = "a data set that the releases do not name" if total.dataset is None else f"data set {total.dataset!r}"
    many = f"{total.count} release{'s' if total.count > 1 else ''}"
    return f"Total spent by these results on {where} ({total.relation}), {many}: {total.words}"


def _paid_once(bills: list[_Bill]) -> tuple[list[_Bill], bool]:
    """Return bills that cover every charge, and whether none of them covers one twice."""
    tried = []
    for sign in (1, -1):  # the parts of a combination before it, and it before its parts
        kept: list[_Bill] = []
        paid: set[str] = set()
        exact = True
        for bill in sorted(bills, key=lambda one: sign * len(one.charges)):
            if not bill.charges <= paid:
                exact = exact and not bill.charges & paid
                kept.append(bill)
                paid |= bill.charges
        tried.append((kept, exact))
    return next((found for found in tried if found[1]), tried[-1])


def _summed(costs: list[Cost]) -> list[Cost]:
    """Add costs whose prices are of one unit."""
    units: dict[type[Privacy], list[Cost]] = {}
    for cost in costs:
        units.setdefault(type(cost.price), []).append(cost)
    found: list[Cost] = []
    for same in units.values():
        try:
            found.append(reduce(add, same))
        except PrivacyUnitError:  # such as a delta above one
            found += same
    return found

"""What several releases cost together: each paid for once, summed where a sum has a proof."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from dpinfer.errors import PrivacyUnitError
from dpinfer.privacy.exact import float_above
from dpinfer.privacy.units import ZCDP

if TYPE_CHECKING:
    from dpinfer.privacy.cost import Cost
    from dpinfer.privacy.units import Privacy
    from dpinfer.release.combined import AnyRelease, SeveralCosts
    from dpinfer.results.estimates import PrivateEstimates

__all__ = ["charges_of", "total_notes"]


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


def total_notes(private: list[tuple[str, PrivateEstimates]]) -> list[str]:
    """Sum the costs of distinct releases, by data set, neighbouring relation and unit of protection."""
    releases = [result.release for _, result in private if not result.release.public]
    if not releases:
        return []
    owners = {charge: name for one in releases if (name := one.dataset) is not None for charge in charges_of(one)}
    groups: dict[tuple[str | None, str], list[_Bill]] = {}
    for release in releases:
        known = [owners[charge] for charge in sorted(charges_of(release)) if charge in owners]
        name = release.dataset or (known[0] if known else None)
        relation = release.neighbors if release.unit == "one row" else f"{release.neighbors}, {release.unit}"
        groups.setdefault((name, relation), []).extend(_bills(release))
    notes = [_total(name, relation, bills) for (name, relation), bills in groups.items()]
    datasets = {name for name, _ in groups}
    if len(datasets) < len(groups):
        told = "" if all(one.unit == "one row" for one in releases) else " or units"
        notes.append(f"Costs under different neighbours{told} are not summed.")
    if len(datasets) > 1:
        notes.append("Different data sets have a total each; for a person who is in several of them these add.")
    return [*notes, "The ledger also counts releases that are not shown here."]


def _total(dataset: str | None, neighbors: str, bills: list[_Bill]) -> str:
    """Say what some releases about the same rows cost together."""
    distinct, exact = _paid_once(bills)
    count = len(frozenset[str]().union(*(bill.charges for bill in distinct)))
    where = "a data set that the releases do not name" if dataset is None else f"data set {dataset!r}"
    begun = f"Total spent by these results on {where} ({neighbors}), {count} release{'s' if count > 1 else ''}: "
    sums = _summed([cost for bill in distinct for cost in bill.cost.parts])
    most = "" if exact else "at most "
    if len(sums) == 1:
        return f"{begun}{most}{sums[0].describe()}."
    told = f"{begun}prices in different units have no single sum. They are {most}"
    told += "; and ".join(cost.describe() for cost in sums) + "."
    known = [cost.rho for cost in sums if cost.rho is not None]
    if len(known) < len(sums):
        return told
    together = ZCDP(float_above(reduce(add, known))).describe()
    return f"{told} Each is zCDP too, and as such all are {most}{together}."


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

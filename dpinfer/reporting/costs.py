"""What several releases cost together: each paid for once, summed where a sum has a proof."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from dpinfer.errors import PrivacyUnitError
from dpinfer.privacy.accounting import Cost
from dpinfer.privacy.exact import float_above
from dpinfer.privacy.units import ZCDP

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpinfer.privacy.units import Privacy
    from dpinfer.release.release import AnyRelease

    _Bill = tuple[frozenset[str], Sequence[Cost]]
    """Charges, and what they cost together."""

__all__ = ["Total", "charges_of", "total_notes", "totals"]


def charges_of(release: AnyRelease) -> frozenset[str]:
    """Return the ledger's charges for a release; of one without, its identity."""
    return frozenset(release.charge_ids or (f"object {id(release)}",))


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
    def words(self) -> str:
        """The cost in words."""
        most = "" if self.exact else "at most "
        if len(self.costs) == 1:
            return f"{most}{self.costs[0].describe()}."
        words = f"prices in different units have no single sum. They are {most}"
        words += "; and ".join(cost.describe() for cost in self.costs) + "."
        if self.cost is None:
            return words
        return f"{words} Each is zCDP too, and as such all are {most}{self.cost.price.describe()}."


def totals(given: Iterable[AnyRelease]) -> list[Total]:
    """Sum the costs of distinct releases of confidential rows, by data set, neighbouring relation and unit."""
    releases = [release for release in given if not release.public]
    owners = {charge: name for one in releases if (name := one.dataset) is not None for charge in charges_of(one)}
    groups: dict[tuple[str | None, str, str], list[_Bill]] = {}
    for release in releases:
        charges, costs = charges_of(release), release.cost.parts
        known = [owners[charge] for charge in sorted(charges) if charge in owners]
        key = (release.dataset or (known[0] if known else None), release.neighbors, release.unit)
        bills: list[_Bill] = [(charges, costs)]
        if len(release.charge_ids) == len(costs) > 1:  # a combination whose parts are known: one bill each
            bills = [(frozenset({one}), (cost,)) for one, cost in zip(release.charge_ids, costs, strict=True)]
        groups.setdefault(key, []).extend(bills)
    found = []
    for (name, neighbors, unit), bills in groups.items():
        distinct, exact = _paid_once(bills)
        units: dict[type[Privacy], list[Cost]] = {}
        for cost in (cost for _, costs in distinct for cost in costs):
            units.setdefault(type(cost.price), []).append(cost)
        sums: list[Cost] = []
        for same in units.values():
            try:
                sums.append(reduce(add, same))
            except PrivacyUnitError:  # such as a delta above one
                sums += same
        count = len(frozenset[str]().union(*(charges for charges, _ in distinct)))
        found.append(Total(name, neighbors, unit, count, tuple(sums), exact))
    return found


def total_notes(releases: Iterable[AnyRelease]) -> list[str]:
    """Say what distinct releases cost together, and what is not summed."""
    found = totals(releases)
    if not found:
        return []
    notes = []
    for total in found:
        where = "a data set that the releases do not name" if total.dataset is None else f"data set {total.dataset!r}"
        relation = total.neighbors if total.unit == "one row" else f"{total.neighbors}, {total.unit}"
        many = f"{total.count} release{'s' if total.count > 1 else ''}"
        notes.append(f"Total spent by these results on {where} ({relation}), {many}: {total.words}")
    datasets = {total.dataset for total in found}
    if len(datasets) < len(found):
        units = "" if all(total.unit == "one row" for total in found) else " or units"
        notes.append(f"Costs under different neighbours{units} are not summed.")
    if len(datasets) > 1:
        notes.append("Different data sets have a total each; for a person who is in several of them these add.")
    return [*notes, "The ledger also counts releases that are not shown here."]


def _paid_once(bills: list[_Bill]) -> tuple[list[_Bill], bool]:
    """Return bills that cover every charge, and whether none of them covers one twice."""
    for sign in (1, -1):  # the parts of a combination before it, and it before its parts
        chosen: list[_Bill] = []
        paid: set[str] = set()
        exact = True
        for charges, costs in sorted(bills, key=lambda one: sign * len(one[0])):
            if not charges <= paid:
                exact = exact and not charges & paid
                chosen.append((charges, costs))
                paid |= charges
        if exact:
            break
    return chosen, exact

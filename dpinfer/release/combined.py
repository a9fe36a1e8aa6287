"""Several releases that are read as one: what they cost together, and what they were charged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpinfer.release.release import Release

if TYPE_CHECKING:
    from dpinfer.privacy.cost import Cost
    from dpinfer.privacy.units import Neighbors

__all__ = ["AnyRelease", "CombinedRelease", "SeveralCosts"]


@dataclass(frozen=True, slots=True)
class SeveralCosts:
    """Prices in different units, which have no sum.

    Attributes
    ----------
    parts : tuple of Cost
    """

    parts: tuple[Cost, ...]

    @property
    def price(self) -> str:
        """Every price that was asked for."""
        return " and ".join(str(cost.price) for cost in self.parts)

    def describe(self) -> str:
        """Return every guarantee."""
        return "; and ".join(cost.describe() for cost in self.parts)


@dataclass(frozen=True, slots=True)
class CombinedRelease:
    """What results print of several releases.

    Attributes
    ----------
    cost : Cost or SeveralCosts
        The sum of all costs, where their units agree.
    neighbors : {"add_remove", "replace_one"}
    charge_ids : tuple of str
        All charges, in the order of the releases.
    public : bool
    unit : str
        The unit of protection in words.
    dataset : str or None
        What the ledger calls the data, where that is known.
    releases : tuple of Release
        The releases, where they are known.
    """

    cost: Cost | SeveralCosts
    neighbors: Neighbors
    charge_ids: tuple[str, ...]
    public: bool
    unit: str = "one row"
    dataset: str | None = None
    releases: tuple[Release, ...] = ()


AnyRelease = Release | CombinedRelease
"""What results are made from."""

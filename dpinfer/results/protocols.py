"""What results need to know of a release: enough to print its guarantee, and nothing more."""

from __future__ import annotations

from typing import Protocol

__all__ = ["CostLike", "ReleaseLike"]


class CostLike(Protocol):
    """What a release cost.

    Its short form, say ``ZCDP(rho=0.1)``, is ``str()`` of its attribute ``price`` where it has one, and of
    itself otherwise.
    """

    def describe(self) -> str:
        """Return the guarantee in one sentence part, with its (epsilon, delta) equivalent."""
        ...


class ReleaseLike(Protocol):
    """The part of a release that results print.

    Attributes
    ----------
    cost : CostLike
        What the release cost.
    neighbors : str
        "add_remove" or "replace_one".
    charge_ids : tuple of str
        The identifiers of the charges in the ledger, where there are any.
    public : bool
        True for a release simulated from public data, which protects nobody.
    """

    @property
    def cost(self) -> CostLike: ...  # noqa: D102

    @property
    def neighbors(self) -> str: ...  # noqa: D102

    @property
    def charge_ids(self) -> tuple[str, ...]: ...  # noqa: D102

    @property
    def public(self) -> bool: ...  # noqa: D102

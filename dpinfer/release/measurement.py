"""A measurement: everything that will be done to the rows, all of it public, before it is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.privacy.accounting import Cost
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release.laws import NoiseLaw
    from dpinfer.schema.rows import RowFunction

__all__ = ["Measurement"]


@dataclass(frozen=True, eq=False)
class Measurement:
    """A noisy integer sum: the row function, the bound, the noise law and the cost.

    The sum holds the upper triangle, row by row, of the cross-products of the integer features; and last,
    if the row function counts clamped rows, that count.

    Attributes
    ----------
    kind : str
        Name under which the inference is registered.
    question : mapping
        The question in words that JSON can hold: formula or terms, schema, options.
    rows : RowFunction
        Maps each row of the data to integers.
    law : NoiseLaw
        Noise of every coordinate.
    cost : Cost
        What running it costs.
    neighbors : {"add_remove", "replace_one"}
    names : tuple of str
        What each integer is.
    steps : tuple of float
        Size of one integer step of every coordinate, in units of the scaled features.
    sensitivity : str
        The bound and where it comes from, for people.
    """

    kind: str
    question: Mapping[str, Any]
    rows: RowFunction
    law: NoiseLaw
    cost: Cost
    neighbors: Neighbors
    names: tuple[str, ...]
    steps: tuple[float, ...]
    sensitivity: str

    def describe(self) -> str:
        """Say what will be measured, how it is bounded, what noise it gets and what it costs."""
        noisy = [(scale * step) for scale, step in zip(self.law.scales, self.steps, strict=True) if scale > 0]
        spread = f"{min(noisy):.6g} to {max(noisy):.6g}" if noisy else "none"
        return "\n".join(
            [
                f"measures     {len(self.names)} sums of products of {self.rows.basis.width} bounded features: "
                + ", ".join(self.rows.basis.names),
                f"reads        {', '.join(self.rows.columns)}",
                f"neighbours   {self.neighbors}",
                f"bound        {self.sensitivity}",
                f"noise        discrete {self.law.family}, scale {spread} in units of the scaled features",
                f"exact        {', '.join(self.exact) or 'nothing'}",
                f"guarantee    {self.cost.describe()}",
            ]
        )

    @property
    def exact(self) -> tuple[str, ...]:
        """Names of the sums that are public and therefore carry no noise."""
        return tuple(name for name, scale in zip(self.names, self.law.scales, strict=True) if scale == 0)

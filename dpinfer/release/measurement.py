"""A measurement: everything that will be done to the rows, all of it public, before it is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpinfer.release.laws import CHOICES
from dpinfer.schema.block_rows import BlockRows
from dpinfer.schema.cell_rows import CellRows
from dpinfer.schema.density_rows import DensityRows
from dpinfer.schema.person_rows import PersonRows
from dpinfer.schema.query_rows import QueryRows
from dpinfer.schema.tree_rows import QuantileRows, TreeRows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.privacy.accounting import Cost
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release.laws import NoiseLaw
    from dpinfer.schema.people import People
    from dpinfer.schema.replicate_rows import ReplicateRows
    from dpinfer.schema.rows import RowFunction
    from dpinfer.schema.score_rows import ScoreRows

    Rows = (
        RowFunction
        | CellRows
        | QueryRows
        | PersonRows
        | BlockRows
        | ReplicateRows
        | ScoreRows
        | TreeRows
        | QuantileRows
        | DensityRows
    )

__all__ = ["Measurement"]


@dataclass(frozen=True, eq=False)
class Measurement:
    """A noisy integer sum: the row function, the bound, the noise law and the cost.

    For a `RowFunction` the sum holds the upper triangle, row by row, of the cross-products of the integer
    features; and last, if the row function counts clamped rows, that count. For `CellRows` it holds the features'
    sums in every cell of a table, cell by cell; for `QueryRows` combinations of a table's counts; for `BlockRows`
    sums over the estimates of blocks of rows; for `ReplicateRows` sums of features, or of their products, under each
    of several sets of weights. For `ScoreRows` it is the place of the largest noisy score; for `TreeRows` the counts of
    the nodes of a tree, and for `QuantileRows` quantiles are chosen besides; for `DensityRows` counts in bins that
    earlier counts choose: names, law and steps are then those of as many counts as there may be.

    Attributes
    ----------
    kind : str
        Name under which the inference is registered.
    question : mapping
        The question in words that JSON can hold: formula or terms, schema, options.
    rows : RowFunction, CellRows, QueryRows or another row function of `dpinfer.schema`
        Maps each row of the data, or each block of rows, to integers.
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
    measures : str
        What is summed, for people.
    multiplier : int
        The exact sums are multiplied by it before the noise is added, so that the noise is fine.
    """

    kind: str
    question: Mapping[str, Any]
    rows: Rows
    law: NoiseLaw
    cost: Cost
    neighbors: Neighbors
    names: tuple[str, ...]
    steps: tuple[float, ...]
    sensitivity: str
    measures: str
    multiplier: int = 1

    @property
    def people(self) -> People | None:
        """Whose rows are protected together; None where the unit of protection is one row."""
        return self.rows.schema.people

    def describe(self) -> str:
        """Say what will be measured, how it is bounded, what noise it gets and what it costs."""
        noisy = [(scale * step) for scale, step in zip(self.law.scales, self.steps, strict=True) if scale > 0]
        spread = f"{min(noisy):.6g} to {max(noisy):.6g}" if noisy else "none"
        return "\n".join(
            [
                f"measures     {self.measures}",
                f"reads        {', '.join(self.rows.columns) or 'no column'}",
                f"neighbours   {self.neighbors}",
                *self._of_people,
                f"bound        {self.sensitivity}",
                f"noise        {self._noise}, scale {spread} in units of {self._unit}",
                f"exact        {', '.join(self.exact) or 'nothing'}",
                f"guarantee    {self.cost.describe()}",
            ]
        )

    @property
    def _of_people(self) -> list[str]:
        if self.people is None:
            return []
        most = f"at most {self.people.max_rows:,} row{'s' if self.people.max_rows > 1 else ''} each"
        return [f"unit         one person, told apart by {self.people.id!r}: {most}, chosen by a public hash"]

    @property
    def _unit(self) -> str:
        if isinstance(self.rows, BlockRows):
            return "blocks, and of the ball that holds their estimates"
        if isinstance(self.rows, PersonRows):
            return "a person with all rows at their bounds"
        if self.law.family in CHOICES:
            return "the scores"
        counts = isinstance(self.rows, QueryRows | TreeRows | QuantileRows | DensityRows) or (
            isinstance(self.rows, CellRows) and self.rows.counts_only
        )
        return "rows" if counts else "the scaled features"

    @property
    def _noise(self) -> str:
        if self.law.family == "tulap":
            return "discrete Laplace and a uniform fraction (Tulap)"
        several = f", the average of {self.law.draws} draws" if self.law.draws > 1 else ""
        if self.law.family in CHOICES:
            return f"{self.law.family}, added to scores that are not released"
        return f"discrete {self.law.family}{several}"

    @property
    def exact(self) -> tuple[str, ...]:
        """Names of the sums that are public and therefore carry no noise."""
        return tuple(name for name, scale in zip(self.names, self.law.scales, strict=True) if scale == 0)

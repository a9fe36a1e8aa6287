"""Row sums that combine the counts of cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpinfer.kernel.rows.base import Batch, RowSum

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpinfer.kernel.rows.cells import CellSum

__all__ = ["CountedSum"]


class CountedSum(RowSum):
    """Combinations of the counts of cells: rows are counted by cell, and `finish` combines the counts."""

    if TYPE_CHECKING:

        @property
        def cells(self) -> CellSum:
            """The cells, of counts only."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        return self.cells.columns

    @property
    def keeps_every_row(self) -> bool:
        """Whether declared policies make it impossible that a row is in no cell."""
        return self.cells.keeps_every_row

    @property
    def entries(self) -> int:
        """Number of cells."""
        return self.cells.size

    @property
    def most_added(self) -> int:
        """Bound on the counts of a batch."""
        return self.cells.most_added

    @property
    def batch_rows(self) -> int:
        """Most rows of a batch."""
        return self.cells.batch_rows

    def add(self, batch: Batch) -> NDArray[np.int64]:
        """Count rows by cell (sets, G)."""
        return self.cells.add(batch)

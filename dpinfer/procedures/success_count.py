"""One count of rows that meet a condition, where each row is a success or not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dpinfer.errors import NotProvedError
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.schema.axes import compile_condition
from dpinfer.schema.basis import basis_of

if TYPE_CHECKING:
    from dpinfer.schema.expressions import Expression
    from dpinfer.schema.schema import Schema

__all__ = ["SuccessCount"]


@dataclass(frozen=True, eq=False)
class SuccessCount:
    """How many rows meet a condition, compiled against a schema.

    Attributes
    ----------
    schema : Schema
    column : str
        A Boolean column, or a condition.
    """

    schema: Schema
    column: str

    @cached_property
    def condition(self) -> Expression:
        """The compiled condition."""
        return compile_condition(self.column, self.schema)

    @cached_property
    def rows(self) -> CellSum:
        """The row sum: rows that meet the condition."""
        return CellSum(Features(basis_of([], self.schema), self.condition))

    def check(self) -> None:
        """Refuse a column whose cells may drop their row: n would then not be the public number of rows.

        Raises
        ------
        NotProvedError
        """
        for name in self.condition.columns:
            if self.schema[name].may_drop:
                raise NotProvedError(
                    f'inference="exact" needs every row to count: declare missing= and impossible= constants for '
                    f'{name!r} (such as False), or use inference="score"'
                )

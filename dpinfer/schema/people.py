"""The unit of protection where people have several rows: whose rows belong together, and how many count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpinfer.errors import OptionError, SchemaError

__all__ = ["MOST_ROWS", "People"]

MOST_ROWS = 4096
"""Most rows of one person that can be kept: sums over a person and their products are then exact in 64 bits."""


@dataclass(frozen=True, slots=True)
class People:
    """Says that the rows of one person, told apart by a column that is not declared, are protected together.

    At most ``max_rows`` of them, from 1 to 4,096, are kept.
    """

    id: str
    max_rows: int

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id.strip():
            raise OptionError("id", self.id, "the name of the column that tells people apart")
        if type(self.max_rows) is not int or not 1 <= self.max_rows <= MOST_ROWS:
            raise OptionError(
                "max_rows", self.max_rows, f"the most rows of one person that are kept: a whole number to {MOST_ROWS:,}"
            )

    @property
    def unit(self) -> str:
        """The unit of protection in words."""
        return f"one person with at most {self.max_rows:,} row{'s' if self.max_rows > 1 else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Give JSON-ready values; `from_dict` reads them back."""
        return {"id": self.id, "max_rows": self.max_rows}

    @classmethod
    def from_dict(cls, values: object) -> People:
        """Read what `to_dict` wrote; `SchemaError` for anything else."""
        if not isinstance(values, Mapping) or set(values) != {"id", "max_rows"}:
            raise SchemaError("the people of a schema are described by 'id' and 'max_rows'")
        try:
            return cls(values["id"], values["max_rows"])
        except OptionError as error:
            raise SchemaError(f"the people of a schema are described wrongly: {error}") from error

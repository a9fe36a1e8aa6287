"""What a codebook says of a column, before it is a declaration: some of it may be blank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpinfer.errors import OptionError, SchemaError, UnknownColumnError, cut
from dpinfer.schema.columns import Boolean, Category, Column, Date, Integer, Real
from dpinfer.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dpinfer.schema.declared import Kind

__all__ = ["Variable", "schema_of"]

_COLUMNS: dict[str, type[Column]] = {
    "numbers": Real,
    "whole numbers": Integer,
    "truth values": Boolean,
    "text": Category,
    "dates": Date,
}
_BLANKS = {"numbers": ("lower", "upper"), "whole numbers": ("lower", "upper"), "dates": ("first", "last")}


@dataclass(frozen=True)
class Variable:
    """A column as a codebook describes it.

    Attributes
    ----------
    name : str
    kind : str or None
        What its cells are; None where that is not said.
    limits : mapping of str to object
        Arguments of the column's class that are declared: bounds, levels, codes.
    words : mapping of str to object
        ``missing_codes``, ``label``, ``unit`` and ``source``.
    unclear : tuple of str
        What is said in a way that a declaration cannot hold, in words.
    """

    name: str
    kind: Kind | None
    limits: Mapping[str, Any]
    words: Mapping[str, Any]
    unclear: tuple[str, ...] = ()

    @property
    def levels(self) -> bool:
        """Whether levels are declared."""
        return "levels" in self.limits

    @property
    def column_class(self) -> type[Column] | None:
        """The class of the declaration."""
        return Category if self.levels else _COLUMNS.get(self.kind or "")

    @property
    def blanks(self) -> tuple[str, ...]:
        """What is left to be declared."""
        if self.levels:
            return self.unclear
        wanted = ("levels",) if self.kind == "text" else _BLANKS.get(self.kind or "", ())
        wanted = wanted if self.column_class is not None else ("kind",)
        return (*(name for name in wanted if self.limits.get(name) is None), *self.unclear)

    def column(self) -> Column:
        """Return the declaration.

        Raises
        ------
        SchemaError
            If what is declared is no declaration; the message names the column.
        """
        assert self.column_class is not None
        try:
            return self.column_class(**self.limits, **self.words)
        except SchemaError as error:
            raise SchemaError(f"{self.name!r}: {error}") from None

    def filled(self, column: Column) -> Column:
        """Return another declaration of the column, with the words of this one where it has none."""
        words = {name: value for name, value in self.words.items() if value and not getattr(column, name)}
        try:
            return replace(column, **words)
        except SchemaError as error:
            raise SchemaError(f"{self.name!r}: {error}") from None


def schema_of(
    variables: Sequence[Variable],
    *,
    columns: Iterable[str] | None,
    declare: Mapping[str, Column] | None,
) -> Schema:
    """Make a schema of what a codebook says, and of what is declared beside it.

    Raises
    ------
    SchemaError
        If something is left blank, or is no declaration.
    UnknownColumnError
        If a name is not in the codebook.
    OptionError
        If an option has another type.
    """
    known = {one.name: one for one in variables}
    if len(known) < len(variables):
        raise SchemaError("the codebook describes two columns of one name")
    given = {} if declare is None else dict(Schema(declare)) if declare else {}
    if isinstance(columns, str):
        raise OptionError("columns", columns, f"a list of names, such as [{columns!r}]")
    chosen = list(known) if columns is None else list(columns)
    for name in (*chosen, *given):
        if name not in known:
            raise UnknownColumnError(name, known, "the codebook")
    left = [f"{name}: {', '.join(known[name].blanks)}" for name in chosen if name not in given and known[name].blanks]
    if left:
        raise SchemaError(
            f"the codebook leaves blank {cut('; '.join(left))}. Declare what is public knowledge, declare={{name: "
            "Real(lower, upper)}, or choose other columns=[...]"
        )
    said = (known[name] for name in chosen)
    return Schema({one.name: one.filled(given[one.name]) if one.name in given else one.column() for one in said})

"""The options of a question: how fields are declared and which values they take; conditions, groups and bins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.checks import Allowed, is_finite, is_list, is_text, is_whole, one_of, require, texts_of
from dpinfer.errors import NotProvedError, OptionError, SchemaError
from dpinfer.kernel.rows.cells import MOST_SUMS
from dpinfer.release import Release
from dpinfer.schema.columns import Category, Real
from dpinfer.schema.expressions import compile_condition, quoted
from dpinfer.statistics.arrays import floats

if TYPE_CHECKING:
    from dpinfer.kernel.stage import Data
    from dpinfer.schema.nodes import Expression
    from dpinfer.schema.schema import Schema

    Columns = str | Sequence[str]


Contrasts = Mapping[str, Mapping[str, float]] | None
"""Weights by coefficient, of quantities by name; None for the coefficients themselves."""


TARGET = one_of(("population", "data"))
REPLICATES = Allowed(lambda given: type(given) is int and given >= 99, "a whole number of at least 99")
SEED = Allowed(
    lambda given: type(given) is int and given >= 0,
    "a whole number, not negative: it is public and draws no privacy noise",
)
NUMERIC = Allowed(is_text, 'a column, or an expression such as "log(1 + income)"')


def measured(default: Any, allowed: Allowed | None = None, *, later: bool = False) -> Any:
    """Declare a field that says what is measured; one that came ``later`` is stored where it has another value."""
    return _declared(default, allowed, "measured", later=later)


def inferred(default: Any, allowed: Allowed | None = None) -> Any:
    """Declare a field of a question that only inference uses: any release of the same measured fields serves it."""
    return _declared(default, allowed, "inferred")


def unstored(default: Any, allowed: Allowed | None = None) -> Any:
    """Declare a field that only running uses, such as a number of processes: releases do not hold it."""
    return _declared(default, allowed, "unstored")


def _declared(default: Any, allowed: Allowed | None, role: str, *, later: bool = False) -> Any:
    return field(default=default, metadata={"role": role, "allowed": allowed, "later": later}, repr=role != "unstored")


def check_values(question: Any) -> None:
    """Refuse a question with an option that has no such value.

    Raises
    ------
    OptionError
    """
    for one in fields(question):
        allowed = one.metadata.get("allowed")
        if allowed is not None:
            allowed.check(one.name, getattr(question, one.name))


def refuse_simulated(inference: str) -> None:
    """Refuse to simulate for many releases at once.

    Raises
    ------
    NotProvedError
    """
    if inference == "simulated":
        raise NotProvedError('inference="simulated" has no form for many releases at once; use .infer one by one')


def compiled_where(where: str | None, schema: Schema) -> Expression | None:
    """Compile the condition, if there is one; errors as `compile_condition`."""
    return None if where is None else compile_condition(where, schema)


def kept_where(where: str | None, schema: Schema) -> Expression | None:
    """Compile what is true of the rows that meet a condition and have a value in every column; None if of all rows."""
    asked = [] if where is None else [f"({where})"]
    for name, column in schema.items():
        own, first = quoted(name), repr(column.levels[0]) if isinstance(column, Category) else ""
        if column.may_drop:  # a row without a value is dropped where it is read: these hold at all others
            asked.append(f"(({own} == {first}) | ({own} != {first}))" if first else f"({own} == {own})")
    return compiled_where(" & ".join(asked), schema) if asked else None


def told_where(where: str | None) -> str:
    """Return the part of a question's text that names the condition."""
    return f", where {where}" if where else ""


def where_notes(where: str | None) -> list[str]:
    """Return the note on the rows, if there is a condition."""
    return [f"Rows: {where}."] if where else []


def edges_of(
    column: str, bins: Any, bounds: tuple[float, float] | None = None, data: Data | Release | None = None
) -> list[float]:
    """Read the edges of bins: given, or equally spaced over bounds.

    Raises
    ------
    OptionError, SchemaError
    """
    right = "increasing edges, or a number of bins with bounds=(lower, upper)"
    if bounds is not None:
        pair = isinstance(bounds, tuple | list) and len(bounds) == 2 and all(map(is_finite, bounds))
        require(pair and bounds[0] < bounds[1], "bounds", bounds, "two finite numbers in order")
    if is_whole(bins):
        if bounds is None and data is not None and not isinstance(data, Release):
            declared = data.schema[column]
            if not isinstance(declared, Real):
                raise SchemaError(f"{column!r} is not numeric: bins need a Real or an Integer")
            bounds = (declared.lower, declared.upper)
        if bounds is None or not 1 <= bins <= MOST_SUMS:
            raise OptionError("bins", bins, right)
        lower, upper = map(float, bounds)
        return [float(edge) for edge in np.linspace(lower, upper, int(bins) + 1)]
    require(bounds is None, "bounds", bounds, "None where bins= gives the edges")
    edges = floats(bins) if is_list(bins) else None
    if edges is None or len(edges) < 2:
        raise OptionError("bins", bins, right)
    return list(edges)


def column_texts(option: str, given: Columns) -> tuple[str, ...]:
    """Return columns as a tuple; refuse anything but a text or a sequence of texts."""
    texts = texts_of(given)
    require(texts, option, given, 'a column, or a list of columns such as ["income", "age"]')
    return texts


def axes_of(by: Columns) -> tuple[Mapping[str, Any], ...]:
    """Name the axes of a table: columns, or conditions where a text holds a comparison."""
    if is_list(by) and not len(by):
        return ()
    require(is_text(by) or not isinstance(by, str), "by", by, "a column, a list of columns, or nothing: ()")
    marks = ("<", ">", "==", "!=", " in ")
    texts = column_texts("by", by)
    return tuple({"condition" if any(mark in text for mark in marks) else "column": text} for text in texts)


def axis_name(axis: Mapping[str, Any]) -> str:
    """Return what an axis is called in tables: its column, its condition, or the expression that it mirrors.

    Raises
    ------
    KeyError
        If it is damaged.
    """
    kind = next((kind for kind in ("condition", "mirrored") if kind in axis), "column")
    return str(axis[kind])


def check_bins(asked: Mapping[str, Sequence[float] | None], axes: Sequence[Mapping[str, Any]], schema: Schema) -> None:
    """Refuse counts, by axes, whose bins differ from those asked for, by column; None where no bins were given.

    Raises
    ------
    OptionError
    """
    stored = {axis_name(axis): axis.get("edges") for axis in axes}
    for name, edges in asked.items():
        theirs = stored.get(name)
        leveled = name in schema and schema[name].level_texts
        if edges is None and theirs is not None and leveled:
            raise OptionError("bins", None, f"the bins of the release, {theirs}: it has no levels")
        if edges is not None and name in stored and list(theirs or ()) != list(edges):
            raise OptionError("bins", list(edges), f"the bins of the release: {theirs}")

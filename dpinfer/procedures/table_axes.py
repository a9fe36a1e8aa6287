"""Columns, groups and bins as users write them, as the axes of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError, SchemaError
from dpinfer.kernel.rows.cells import MOST_SUMS
from dpinfer.procedures.options import FINITE, texts_of
from dpinfer.release import Release
from dpinfer.schema.columns import Real
from dpinfer.statistics.arrays import floats

if TYPE_CHECKING:
    from dpinfer.kernel.stage import Data
    from dpinfer.schema.schema import Schema

    Columns = str | Sequence[str]

__all__ = ["axes_of", "axis_name", "check_bins", "column_texts", "edges_of"]


def edges_of(
    column: str, bins: object, bounds: tuple[float, float] | None = None, data: Data | Release | None = None
) -> list[float]:
    """Read the edges of bins: given, or equally spaced over bounds.

    Raises
    ------
    OptionError, SchemaError
    """
    right = "increasing edges, or a number of bins with bounds=(lower, upper)"
    ends = _ends(bounds)
    if isinstance(bins, int | np.integer) and not isinstance(bins, bool):
        if ends is None and data is not None and not isinstance(data, Release):
            declared = data.schema[column]
            if not isinstance(declared, Real):
                raise SchemaError(f"{column!r} is not numeric: bins need a Real or an Integer")
            ends = (float(declared.lower), float(declared.upper))
        if ends is None or not 1 <= bins <= MOST_SUMS:
            raise OptionError("bins", bins, right)
        return [float(edge) for edge in np.linspace(*ends, int(bins) + 1)]
    if ends is not None:
        raise OptionError("bounds", bounds, "None where bins= gives the edges")
    edges = floats(bins) if isinstance(bins, Sequence | np.ndarray) and not isinstance(bins, str) else None
    if edges is None or len(edges) < 2:
        raise OptionError("bins", bins, right)
    return list(edges)


def _ends(bounds: object) -> tuple[float, float] | None:
    if bounds is None:
        return None
    pair = tuple(bounds) if isinstance(bounds, tuple | list) else ()
    if len(pair) != 2 or not all(map(FINITE.fits, pair)) or not pair[0] < pair[1]:
        raise OptionError("bounds", bounds, "two finite numbers in order")
    return float(pair[0]), float(pair[1])


def column_texts(option: str, given: Columns) -> tuple[str, ...]:
    """Return columns as a tuple; refuse anything but a text or a sequence of texts."""
    texts = texts_of(given)
    if not texts:
        raise OptionError(option, given, 'a column, or a list of columns such as ["income", "age"]')
    return texts


def axes_of(by: Columns) -> tuple[Mapping[str, Any], ...]:
    """Name the axes of a table: columns, or conditions where a text holds a comparison."""
    if isinstance(by, Sequence) and not isinstance(by, str) and not by:
        return ()
    if isinstance(by, str) and not by.strip():
        raise OptionError("by", by, "a column, a list of columns, or nothing: ()")
    return tuple({"condition": text} if _is_condition(text) else {"column": text} for text in column_texts("by", by))


def _is_condition(text: str) -> bool:
    return any(mark in text for mark in ("<", ">", "==", "!=", " in "))


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

"""Levels of factors as linear functions of the features: which rows count, and how many are at each level."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import MissingFromReleaseError
from dpinfer.schema.grid import UNIT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from dpinfer.schema.grid import Basis

    Array = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["in_steps", "kept_map", "level_indicators", "level_number"]

_MOST_BITS = 64
_ROW_SUM = 2**34


def level_indicators(basis: Basis, column: str) -> Array:
    """Return the functions (L, d) of the features that are 1 at one level of a factor, and 0 at the others."""
    start = 0
    for block in basis.blocks:
        if block.constant and block.factors == (column,):
            found = np.zeros((len(block.codes), basis.width))
            corners = np.column_stack([np.ones(len(block.codes)), block.codes / UNIT])
            found[:, [0, *range(start, start + block.width)]] = np.linalg.inv(corners).T
            return found
        start += block.width
    raise MissingFromReleaseError(f"{column!r} was not measured as a factor; measured: {', '.join(basis.names)}")


def level_number(basis: Basis, column: str) -> Array:
    """Return the function (d,) of the features that is the place of a factor's level, from 0.

    Cuts half way between whole numbers put each level into a bin of its own.
    """
    indicators = level_indicators(basis, column)
    return np.asarray(np.arange(len(indicators)) @ indicators)


def kept_map(basis: Basis, skipped: Iterable[tuple[str, int]], weight: Array | None = None) -> Array:
    """Return the function (d,) of the features that is a row's weight, and below 0 at levels that are to be skipped.

    ``weight`` (d,) is a survey weight in [0, 1] as such a function; without one the result is above 1 elsewhere, so
    that it is 0 or 1 once it is cut to [0, 1].
    """
    found = np.zeros(basis.width) if weight is None else np.array(weight, dtype=np.float64)
    if weight is None:
        found[0] = 1.5
    for column, level in skipped:
        found -= 2.5 * level_indicators(basis, column)[level]
    return found


def in_steps(function: Array) -> tuple[Ints, int]:
    """Round a function (d,) of the features to whole steps (d,) of ``2^-bits``, as fine as a `RoundFrame` takes."""
    size = float(np.abs(function).sum()) + 1e-9
    bits = int(np.clip(np.floor(np.log2(_ROW_SUM / 2 / size)), 0, _MOST_BITS))
    return np.rint(np.ldexp(function, bits)).astype(np.int64), bits

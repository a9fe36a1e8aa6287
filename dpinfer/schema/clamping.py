"""Values of columns within their declared bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from dpinfer.schema.cells import Coded

    Array = NDArray[np.float64]

__all__ = ["clamped_values", "limits_of"]


def clamped_values(
    schema: Mapping[str, Any], names: Iterable[str], raw: Mapping[str, NDArray[Any] | Coded], count: int
) -> tuple[dict[str, Array], NDArray[np.bool_]]:
    """Coerce and clamp cells of columns (NaN to the lower bound); and say which rows have a number in all of them."""
    values: dict[str, Array] = {}
    keep = np.ones(count, dtype=bool)
    for name in names:
        cells = schema[name].coerce(raw[name])
        keep &= np.isfinite(cells)
        lower, upper = limits_of(schema[name])
        values[name] = np.fmin(np.fmax(cells, lower), upper)
    return values, keep


def limits_of(column: object) -> tuple[float, float]:
    """Return the bounds that coerced values of a column are clamped to: declared ones, or those of level indices."""
    texts = getattr(column, "level_texts", ())
    lower = float(getattr(column, "lower", 0.0))
    return lower, float(getattr(column, "upper", lower + max(len(texts) - 1, 0)))

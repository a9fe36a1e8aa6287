"""The row function: from raw cells to integer rows, by a rule that looks at one row at a time."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpinfer.errors import NotProvedError, OptionError
from dpinfer.privacy.sensitivity import RowBounds
from dpinfer.schema.basis import UNIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpinfer.schema.basis import Basis
    from dpinfer.schema.cells import Coded
    from dpinfer.schema.expressions import Expression

    Array = NDArray[np.float64]

__all__ = ["CHUNK_ROWS", "RowClip", "RowFunction"]

CHUNK_ROWS = 32_768
"""Rows mapped at once: the cross-products of so many integer rows are exact in float64."""


@dataclass(frozen=True, slots=True)
class RowClip:
    """A bound on the norm of the regressors' row, kept by giving large rows a weight below one.

    Attributes
    ----------
    bound : float
        Largest norm, in units of the scaled features (the constant alone has norm 1).
    norm : {"l2", "l1"}
    """

    bound: float
    norm: Literal["l2", "l1"] = "l2"

    def __post_init__(self) -> None:
        if self.norm not in ("l2", "l1"):
            raise OptionError("norm", self.norm, ("l2", "l1"))
        if not (np.isfinite(self.bound) and self.bound > 0):
            raise OptionError("row_norm", self.bound, "a positive number, or None")


@dataclass(frozen=True, eq=False)
class RowFunction:
    """Maps a batch of raw cells to integer rows; public, and a function of each row alone.

    Attributes
    ----------
    basis : Basis
        The features.
    where : Expression, optional
        Rows at which it is 0 become the zero row.
    clip : RowClip, optional
        Bound on the norm of the features other than the last, which is the response.
    count_clamped : bool
        Whether to mark rows in which a value was outside its declared bounds.
    """

    basis: Basis
    where: Expression | None = None
    clip: RowClip | None = None
    count_clamped: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        return tuple(sorted({*self.basis.columns, *(self.where.columns if self.where else ())}))

    @property
    def keeps_every_row(self) -> bool:
        """Whether declared policies make a zero row impossible, so that the count of rows is the public n."""
        schema = self.basis.schema
        return self.where is None and self.clip is None and not any(schema[c].may_drop for c in self.columns)

    @property
    def bounds(self) -> RowBounds:
        """Bounds on the integer row."""
        full = self.basis.bounds
        if self.clip is None:
            return full
        response, regressors = self.basis.blocks[-1], self.basis.width - 1
        if response.width != 1:
            raise NotProvedError("row_norm= is proved for one numeric response measured last")
        limit = round(self.clip.bound * UNIT)
        if self.clip.norm == "l2":
            squared = _squared_after_rounding(limit, regressors) + UNIT * UNIT
            return RowBounds(min(squared, full.squared), full.absolute)
        absolute = limit + -(-regressors // 2)
        squared = absolute**2 + UNIT * UNIT
        return RowBounds(min(squared, full.squared), min(absolute + UNIT, full.absolute))

    def encode(self, raw: Mapping[str, NDArray[Any] | Coded]) -> tuple[Array, Array]:
        """Map a batch.

        Parameters
        ----------
        raw : mapping of str to cells, each of length m <= CHUNK_ROWS
            At least `columns`.

        Returns
        -------
        rows : ndarray (d, m)
            Whole numbers, as float64. Rows that are dropped or excluded are zero.
        clamped : ndarray (m,)
            1.0 for kept rows in which a value was clamped, else 0.0 (all zero unless asked for).

        Notes
        -----
        Cells are coerced by the schema, then missing and impossible values are settled, then values are
        clamped, then expressions evaluated, scaled and rounded to the grid. A row that would break `bounds`
        is multiplied by zero; no branch depends on a row.
        """
        schema = self.basis.schema
        size = len(next(iter(raw.values())))
        keep = np.ones(size, dtype=bool)
        outside = np.zeros(size, dtype=bool)
        values: dict[str, Array] = {}
        for name in self.columns:
            column = schema[name]
            value = np.array(column.coerce(raw[name]), dtype=np.float64)
            keep &= np.isfinite(value)
            lower, upper = _limits(column)
            if self.count_clamped:
                with np.errstate(invalid="ignore"):
                    outside |= (value < lower) | (value > upper)
            np.fmax(value, lower, out=value)
            np.fmin(value, upper, out=value)
            values[name] = value
        if self.where is not None:
            keep &= self.where.evaluate(values) > 0.5
        rows = self._features(values, size)
        if self.clip is not None:
            rows = self._clipped(rows)
        bounds = self.bounds
        squared = np.einsum("dm,dm->m", rows, rows)
        keep &= squared <= bounds.squared
        np.multiply(rows, keep, out=rows)
        return rows, (outside & keep).astype(np.float64)

    def _features(self, values: Mapping[str, Array], size: int) -> Array:
        levels = {name: self.basis.schema[name].level_index(values[name]) for name in self.basis.factors}
        rows = np.empty((self.basis.width, size))
        start = 0
        for block in self.basis.blocks:
            block.encode(values, levels, rows[start : start + block.width])
            start += block.width
        return rows

    def _clipped(self, rows: Array) -> Array:
        """Weigh every row so that the norm of its regressors keeps the bound; the same weight for the response."""
        clip = self.clip
        assert clip is not None  # noqa: S101
        regressors = rows[:-1]
        if clip.norm == "l2":
            norm = np.sqrt(np.einsum("dm,dm->m", regressors, regressors))
        else:
            norm = np.abs(regressors).sum(axis=0)
        weight = np.minimum(1.0, round(clip.bound * UNIT) / np.maximum(norm, 1.0))
        rows = np.rint(rows * weight)
        if clip.norm == "l1":
            limit = round(clip.bound * UNIT) + -(-(len(rows) - 1) // 2)
            rows = rows * (np.abs(rows[:-1]).sum(axis=0) <= limit)
        return rows


def _limits(column: object) -> tuple[float, float]:
    texts = getattr(column, "level_texts", ())
    lower = float(getattr(column, "lower", 0.0))
    return lower, float(getattr(column, "upper", lower + max(len(texts) - 1, 0)))


def _squared_after_rounding(limit: int, width: int) -> int:
    """Bound on the squared norm of ``width`` entries rounded to whole numbers, of norm at most ``limit`` before."""
    slack = isqrt(width - 1) + 1 if width > 0 else 0
    return (limit + (slack + 1) // 2 + 1) ** 2

"""What a hypothesis expects of counts, smooth in the counts, so that derivatives can be taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpinfer.inference.testing.products import LEAST

if TYPE_CHECKING:
    from dpinfer.inference.testing.count_noise import Components
    from dpinfer.numerics.arrays import Array

__all__ = ["NullParts", "one_group", "product_parts", "raised"]


class NullParts(NamedTuple):
    """Expected counts, and variances of observed less expected under the hypothesis; each real or complex (..., d)."""

    expected: Array
    sampling: Array
    noise: Array


def raised(x: Array) -> Array:
    """Return real or complex numbers, those with a real part below one row replaced by it."""
    return np.where(np.real(x) < LEAST, LEAST, x)


def product_parts(
    table: Array, by_row: Array, total: Array, noise: Components, *, rows_known: bool, size_known: bool
) -> NullParts:
    """Return the parts, each (..., r c), of the product of margins of a table (..., r, c).

    ``by_row`` (..., r) are the counts of its rows and ``total`` (...) their number, public or not.
    """
    r, c = table.shape[-2:]
    by_column = raised(table.sum(axis=-2) + ((total - table.sum(axis=(-2, -1))) / c)[..., None])
    a = (by_row / by_row.sum(axis=-1, keepdims=True))[..., :, None]
    b = (by_column / by_column.sum(axis=-1, keepdims=True))[..., None, :]
    noisy = noise.after_product(a, b, size_known=size_known, rows_known=rows_known)
    expected = total[..., None, None] * a * b
    flat = (*table.shape[:-2], r * c)
    return NullParts(expected.reshape(flat), (expected * (1 - a) * (1 - b)).reshape(flat), noisy.reshape(flat))


def one_group(values: Array, nobs: int | None) -> tuple[Array, Array]:
    """Return counts as one sample (..., 1, d), none below 0, and its size (..., 1): public, or the noisy one."""
    size = np.maximum(values.sum(axis=-1), LEAST) if nobs is None else float(nobs)
    return np.maximum(values, 0.0)[..., None, :], np.broadcast_to(size, values.shape[:-1])[..., None]

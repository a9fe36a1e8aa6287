"""What a round released, term by term."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.numerics.forms import symmetric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.kernel.rows.rounds import Term
    from dpinfer.numerics.arrays import Array
    from dpinfer.release.stage import StageRelease

__all__ = ["Released", "floored", "split_terms"]


@dataclass(frozen=True, eq=False, slots=True)
class Released:
    """A vector (k,) or a symmetric matrix (k, k) with its noise: the standard deviation of the first entry's."""

    value: Array
    scale: float

    def times(self, factor: float) -> Released:
        """Return it in another unit."""
        return Released(self.value * factor, self.scale * factor)


def split_terms(stage: StageRelease, terms: Sequence[Term], size: int) -> dict[str, Released]:
    """Read the terms of a round in ``size`` coordinates, by name."""
    found, start = {}, 0
    values, variances = stage.array, stage.noise_variances
    for term in terms:
        square = term.kind in ("matrix", "outer")
        width = size * (size + 1) // 2 if square else size if term.kind == "vector" else 1
        part = values[start : start + width]
        scale = float(np.sqrt(variances[start]))
        found[term.name] = Released(symmetric(part, size) if square else part, scale)
        start += width
    return found


def floored(matrix: Array, least: float) -> Array:
    """Return a symmetric matrix with eigenvalues of at least ``least``."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return np.asarray((vectors * np.maximum(values, least)) @ vectors.T)

"""Measurements of cross-products: the noise plan of a noisy Gram matrix."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import NotProvedError, OptionError
from dpinfer.numerics.reading import floats
from dpinfer.privacy.accounting import Law, calibrate, coordinate_scales, gaussian_cost, laplace_cost
from dpinfer.privacy.sensitivity import RowBounds, gram_sensitivity, joint_sensitivity
from dpinfer.privacy.units import PureDP
from dpinfer.release import Measurement, NoiseLaw
from dpinfer.schema.basis import UNIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.schema.rows import RowFunction

    Array = NDArray[np.float64]

__all__ = ["check_split", "gram_measurement"]

_HALF = float(np.sqrt(0.5))
"""Weight of an off-diagonal entry under Gaussian noise; this float is above the true root, the safe side."""


def gram_measurement(
    rows: RowFunction,
    *,
    privacy: Privacy,
    neighbors: Neighbors,
    question: Mapping[str, Any],
    clamped_share: float = 0.0,
    split: tuple[float, float, float] | None = None,
) -> Measurement:
    """Plan the noisy cross-products of integer rows at a price.

    Parameters
    ----------
    rows : RowFunction
    privacy : Privacy
        `PureDP` brings discrete Laplace noise, the others discrete Gaussian.
    neighbors : {"add_remove", "replace_one"}
    question : mapping
        The public question, stored in the release.
    clamped_share : float
        Share of the price spent on the noisy number of clamped rows; 0 for none.
    split : tuple of three floats, optional
        Shares of the rest for X'X, X'y and y'y, where y is the last feature; by default the whole matrix
        is priced jointly.

    Returns
    -------
    Measurement
    """
    norm: Norm = "l1" if isinstance(privacy, PureDP) else "l2"
    family: Law = "laplace" if norm == "l1" else "gaussian"
    weights, parts, words = _plan(rows, neighbors, norm, split)
    most = rows.schema.rows_per_unit
    if clamped_share > 0:
        rest = _weight_of_share(1 - clamped_share, norm)
        weights = _times_above(weights, rest)
        parts = [(bound, weight * rest) for bound, weight in parts]
        main = joint_sensitivity(parts, norm=norm)
        count_weight = most * UNIT * UNIT / float(main) / _weight_of_share(1 - clamped_share, norm)
        count_weight *= _weight_of_share(clamped_share, norm)
        parts.append((Fraction(most * UNIT * UNIT), count_weight))
        weights = np.append(weights, count_weight)
    scale = calibrate(joint_sensitivity(parts, norm=norm), privacy, family)
    noisy = np.ones(len(weights), dtype=bool)
    noisy[0] = not (neighbors == "replace_one" and rows.keeps_every_row)
    scales = np.zeros(len(weights))
    scales[noisy] = coordinate_scales(scale, weights[noisy])
    law = NoiseLaw(family, tuple(scales.tolist()))
    cost = laplace_cost(privacy) if norm == "l1" else gaussian_cost(privacy, scales=scales[noisy])
    names = rows.basis.names
    upper = np.triu_indices(rows.basis.width)
    labels = [f"{names[i]} * {names[j]}" for i, j in zip(*upper, strict=True)]
    return Measurement(
        kind="gram",
        question=question,
        rows=rows,
        law=law,
        cost=cost,
        neighbors=neighbors,
        names=tuple(labels + (["clamped rows"] if clamped_share > 0 else [])),
        steps=(float(UNIT) ** -2,) * len(weights),
        sensitivity=rows.schema.of_unit(words),
        measures=f"{len(labels)} sums of products of {len(names)} bounded features: {', '.join(names)}",
    )


def _plan(
    rows: RowFunction, neighbors: Neighbors, norm: Norm, split: tuple[float, float, float] | None
) -> tuple[Array, list[tuple[Fraction, float]], str]:
    """Weight of every entry of the upper triangle, the parts that are bounded, and the bound in words."""
    width = rows.basis.width
    row, column = np.triu_indices(width)
    off = np.where(row == column, 1.0, _HALF) if norm == "l2" else np.ones(len(row))
    bounds = rows.bounds
    kind = "Euclidean (off-diagonal entries counted twice)" if norm == "l2" else "L1"
    if split is None:
        bound = gram_sensitivity(bounds, neighbors=neighbors, norm=norm)
        words = f"{kind} norm of the change at most {float(bound) / UNIT**2:.6g} in units of the scaled features"
        return off, [(bound, 1.0)], words
    response = rows.basis.blocks[-1]
    if response.factors or response.width != 1:
        raise NotProvedError("split= is proved for one numeric response measured last")
    pieces = _split_bounds(bounds, neighbors, norm)
    shares = check_split(split)
    piece = np.where(column == width - 1, np.where(row == width - 1, 2, 1), 0)
    by_piece = [
        float(bound) * _weight_of_share(share, norm) / UNIT**2 for bound, share in zip(pieces, shares, strict=True)
    ]
    words = f"{kind} norms of the changes of X'X, X'y, y'y at most " + ", ".join(
        f"{float(bound) / UNIT**2:.6g}" for bound in pieces
    )
    return _times_above(off, np.array(by_piece)[piece]), list(zip(pieces, by_piece, strict=True)), words


def _split_bounds(bounds: RowBounds, neighbors: Neighbors, norm: Norm) -> list[Fraction]:
    """Bounds for X'X, X'y and y'y of one unit; y is one feature in [-UNIT, UNIT]."""
    regressors = RowBounds(
        bounds.squared - UNIT * UNIT,
        bounds.absolute - UNIT,
        box=max(bounds.box - 1, 0),
        side=UNIT,
        rows=bounds.rows,
    )
    products = gram_sensitivity(regressors, neighbors=neighbors, norm=norm)
    twice = 1 if neighbors == "add_remove" else 2
    if norm == "l1":
        cross = Fraction(twice * regressors.absolute * UNIT)
    else:
        squared = Fraction(2 * twice**2 * regressors.squared) * UNIT * UNIT
        cross = Fraction(isqrt(int(squared)) + 1)
    return [products, bounds.rows * cross, Fraction(bounds.rows * UNIT * UNIT)]


def _times_above(weights: Array, factor: Array | float) -> Array:
    """Multiply weights and round up: a weight below the one that a bound was divided by would not be paid."""
    product: Array = np.nextafter(weights * factor, np.inf)
    return product


def _weight_of_share(share: float, norm: Norm) -> float:
    """Factor on the noise of a part that gets this share of the price."""
    return float(1 / share if norm == "l1" else 1 / np.sqrt(share))


def check_split(split: tuple[float, float, float]) -> tuple[float, float, float]:
    """Return the shares of X'X, X'y and y'y as floats; refuse what is not three positive shares of one."""
    right = "three positive shares for X'X, X'y and y'y that sum to 1"
    shares = floats(split) or ()
    if not (len(shares) == 3 and min(shares) > 0 and abs(sum(shares) - 1) <= 1e-9):
        raise OptionError("split", split, right)
    return shares[0], shares[1], shares[2]

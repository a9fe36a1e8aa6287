"""Prices of noisy sums: how much noise the bound on their change asks for, and on how fine a grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import NotProvedError, OptionError, PrivacyUnitError
from dpinfer.kernel.priced_stage import PricedStage
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.privacy.accounting import (
    calibrate,
    coordinate_scales,
    gaussian_cost,
    laplace_cost,
    least_scale,
    too_little_noise,
)
from dpinfer.privacy.units import Privacy, PureDP
from dpinfer.release.laws import TULAP_GRID, NoiseLaw

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from dpinfer.kernel.rows.base import BoundedSum
    from dpinfer.kernel.stage import Context, Stage, Sum
    from dpinfer.privacy.accounting import Cost
    from dpinfer.privacy.sensitivity import Norm

    Array = NDArray[np.float64]

__all__ = ["fine", "noise_plan", "price_sum"]

_FINEST = 2**60
"""Steps that a row may be cut into, for noise of little width."""

_LARGEST = 1e150
"""Noise laws have smaller scales, see `NoiseLaw`."""


def price_sum(stage: Stage, amount: Privacy, context: Context, most: int | None) -> PricedStage:
    """Price noisy sums."""
    measure: Sum = stage.measure  # type: ignore[assignment]
    _check_draws(stage, amount)
    norm: Norm = "l1" if isinstance(amount, PureDP) else "l2"
    bounded = measure.rows.bounded(context.neighbors, norm, weights=measure.weights, shares=measure.shares)
    if stage.noise.tulap:
        return _price_tulap(stage, amount, bounded)
    noisy = ~bounded.public
    scales = np.zeros(noisy.size)
    scales[noisy], multiplier, cost = noise_plan(
        bounded.bound, amount, bounded.weights[noisy], draws=stage.noise.draws, total=context.privacy, most=most
    )
    if not float(scales.max(initial=0.0)) < _LARGEST:
        raise PrivacyUnitError(f"{amount} asks for more noise than can be drawn: ask for a larger share of the budget")
    rows = measure.rows
    return PricedStage(
        stage=stage,
        names=rows.names,
        law=NoiseLaw("laplace" if norm == "l1" else "gaussian", tuple(scales.tolist()), stage.noise.draws),
        steps=tuple((1.0 / (rows.units * multiplier)).tolist()),
        cost=cost,
        bound=bounded.bound,
        multiplier=multiplier,
    )


def noise_plan(
    bound: Fraction,
    amount: Privacy,
    weights: Array,
    *,
    draws: int = 1,
    total: Privacy | None = None,
    most: int | None = None,
) -> tuple[Array, int, Cost]:
    """Say how much noise a price asks for, and on how fine a grid: scales (k,), multiplier and cost.

    ``bound`` is on the norm of the change of the integer sums, each over its weight: L1 for `PureDP`, otherwise L2.
    Scales are in steps of the sums times the multiplier. ``total`` is the price of which ``amount`` is a share, and
    ``most`` the number of coordinates of all stages that share it.
    """
    if not weights.size:
        raise OptionError("neighbors", "replace_one", "add_remove: all that is asked for is public here")
    if isinstance(amount, PureDP):
        scale = calibrate(bound * draws, amount, "laplace")
        return coordinate_scales(scale, weights), draws, laplace_cost(amount)
    scale = calibrate(bound, amount, "gaussian")
    multiplier = fine(scale * float(weights.min()), least_scale(total or amount, most or weights.size), amount)
    scales = coordinate_scales(scale * multiplier, weights)  # exact: a power of two
    return scales, multiplier, gaussian_cost(amount, scales=scales)


def fine(smallest: float, least: float, amount: Privacy) -> int:
    """Power of two by which sums are multiplied until the smallest noise scale is at least ``least`` steps."""
    multiplier = 1
    while smallest * multiplier < least:
        multiplier *= 2
        if multiplier > _FINEST:
            raise too_little_noise(amount, smallest * _FINEST / least)
    return multiplier


def _check_draws(stage: Stage, amount: Privacy) -> None:
    if stage.noise.draws > 1 and not isinstance(amount, PureDP):
        raise OptionError(
            "draws", stage.noise.draws, f"1: the average of several Laplace draws needs a PureDP price, not {amount}"
        )


def _price_tulap(stage: Stage, amount: Privacy, bounded: BoundedSum) -> PricedStage:
    """Price one noisy count with Tulap noise, for exact inference."""
    if not isinstance(amount, PureDP):
        raise NotProvedError('an exact interval needs a PureDP price: its noise is Tulap; or use inference="score"')
    rows = bounded.rows
    if not (type(rows) is CellSum and rows.counts_only and rows.size == 1) or stage.noise.draws > 1:
        raise NotProvedError("Tulap noise is proved for one count of rows, drawn once")
    return PricedStage(
        stage=stage,
        names=rows.names,
        law=NoiseLaw("tulap", (calibrate(TULAP_GRID * bounded.bound, amount, "laplace"),)),
        steps=(1.0 / TULAP_GRID,),
        cost=laplace_cost(amount),
        bound=bounded.bound,
        multiplier=TULAP_GRID,
    )

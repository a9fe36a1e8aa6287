"""Prices of resampled sums: replicates of sums, each under weights of its own."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import NotProvedError
from dpinfer.kernel.price_sum import fine, noise_plan
from dpinfer.kernel.priced_stage import PricedStage
from dpinfer.privacy.accounting import coordinate_scales, discrete_gaussian_tau, least_scale
from dpinfer.privacy.exact import binary, digits_below, sqrt_above, sqrt_below
from dpinfer.privacy.resampling import DOUBLE_OR_NOTHING, LARGEST_MU, POISSON, cost_of, resampled_cost
from dpinfer.privacy.units import GDP, ZCDP, ApproxDP, Privacy, PureDP
from dpinfer.release.laws import NoiseLaw

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.kernel.rows.base import BoundedSum
    from dpinfer.kernel.rows.resampled import ReplicateSum
    from dpinfer.kernel.stage import Context, Stage
    from dpinfer.privacy.accounting import Cost

    Array = NDArray[np.float64]

__all__ = ["price_resampled"]

_LAWS = {"double_or_nothing": DOUBLE_OR_NOTHING, "poisson": POISSON}
"""Laws of weights that are independent between replicates."""

_DELTA = 1e-6
"""At which a refusal names an `ApproxDP` price."""


def price_resampled(stage: Stage, amount: Privacy, context: Context, most: int | None) -> PricedStage:
    """Price sums under public or secret weights."""
    rows: ReplicateSum = stage.measure.rows  # type: ignore[assignment]
    _refuse_resampling(rows.weights, amount, context)
    bounded = rows.bounded(context.neighbors, "l2")
    noisy = ~bounded.public
    scales = np.zeros(noisy.size)
    if rows.in_pairs:
        # Every row has weight 2 in half of the sums: squares of weights add up to twice the replicates, whatever they
        # are. Paired weights have one law on both sides, so what holds given the weights holds without them.
        total = bounded.bound * binary(sqrt_above(Fraction(2 * rows.replicates), binary))
        whole = context.privacy
        scales[noisy], multiplier, cost = noise_plan(total, amount, bounded.weights[noisy], total=whole, most=most)
    else:
        scales[noisy], multiplier, cost = _secret_plan(rows, bounded, amount, bounded.weights[noisy])
    return PricedStage(
        stage=stage,
        names=rows.names,
        law=NoiseLaw("gaussian", tuple(scales.tolist())),
        steps=tuple((1.0 / (rows.units * multiplier)).tolist()),
        cost=cost,
        bound=bounded.bound,
        multiplier=multiplier,
    )


def _secret_plan(rows: ReplicateSum, bounded: BoundedSum, amount: Privacy, weights: Array) -> tuple[Array, int, Cost]:
    """Noise of sums under secret weights, from their exact cost."""
    assert isinstance(amount, GDP | ApproxDP)
    mu, failure = resampled_cost(_LAWS[rows.weights], amount, rows.replicates)
    scale = sqrt_above(bounded.bound**2 * rows.replicates / binary(mu) ** 2, binary)
    multiplier = fine(scale * float(weights.min()), least_scale(amount, 2 * weights.size), amount)
    scales = coordinate_scales(scale * multiplier, weights)
    return scales, multiplier, cost_of(amount, tau=discrete_gaussian_tau(scales), failure=failure)


def _refuse_resampling(weights: str, amount: Privacy, context: Context) -> None:
    """Refuse what is not proved."""
    people = context.schema.people is not None
    if weights == "public" and people:
        raise NotProvedError(
            'weights="public" belong to the positions of rows, which a replaced person with other rows shifts: '
            'with id= they are not proved; use weights="paired", or weights="double_or_nothing" under add_remove'
        )
    if weights == "public" and context.neighbors != "replace_one":
        raise NotProvedError(
            'weights="public" belong to the positions of rows, which add_remove does not keep: they are proved '
            'for replace_one; for add_remove use weights="double_or_nothing", or at a price in ZCDP weights="paired"'
        )
    if weights in _LAWS and context.neighbors != "add_remove":
        raise NotProvedError(
            f"weights={weights!r} are proved for add_remove: one unit less is one set of secret weights less, "
            "while a replaced unit has none of its own; "
            + ('with id= use weights="paired"' if people else 'for replace_one use weights="public" or "paired"')
        )
    if isinstance(amount, PureDP):
        raise NotProvedError(
            f"a bootstrap carries Gaussian noise, which is never pure and has no PureDP guarantee: not {amount}; "
            "take a price in GDP, ApproxDP or ZCDP"
        )
    if weights in _LAWS and isinstance(amount, ZCDP):
        raise NotProvedError(_no_zcdp(weights, amount))


def _no_zcdp(weights: str, amount: ZCDP) -> str:
    """Say why independent weights are not sold in zCDP, and what is proved instead, with its numbers."""
    largest = len(_LAWS[weights].counts) - 1
    told = "twice costs four times as much" if largest == 2 else f"{largest} times costs {largest**2} times as much"
    said = (
        f"the exact cost of weights={weights!r} is stated in GDP or ApproxDP, not {amount}: under zCDP a unit that "
        f'may count {told}. At {amount} use weights="paired", with {math.sqrt(2):.3f} times the noise of one release'
    )
    mu = sqrt_below(2 * amount.composable[0])
    if mu > LARGEST_MU:
        return said
    mu, epsilon = (digits_below(one, 4) for one in (mu, GDP(mu).epsilon_at(_DELTA)))
    return (
        f"{said}; or pay {GDP(mu)} or {ApproxDP(epsilon, _DELTA)}, which one Gaussian "
        f"release at {amount} has, from a ledger whose budget is in that unit"
    )

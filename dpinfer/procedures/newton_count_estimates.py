"""From what the stages of a regression of counts or positive numbers released to its estimates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.newton import solve_rounds, toward
from dpinfer.inference.newton_inference import NewtonInference
from dpinfer.inference.newton_level import Level
from dpinfer.inference.newton_terms import Released, floored, split_terms
from dpinfer.numerics.count_laws import NegativeBinomial
from dpinfer.procedures.newton_count_steps import count_cut_of
from dpinfer.procedures.newton_counts import CHANCES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.inference.newton_rounds import Round
    from dpinfer.numerics.arrays import Array
    from dpinfer.procedures.newton_count_moments import CountMoments
    from dpinfer.procedures.newton_count_steps import CountPlan
    from dpinfer.procedures.newton_counts import CountCut
    from dpinfer.release.stage import StageRelease

__all__ = ["count_estimates"]

_LEAST = 0.03
"""Part of the covariance that the laws say which is added: noise may have left nothing of a released one."""

_NARROW, _BEYOND_NOISE = 0.8, 2.0
"""Mean square of residuals over that of their law below which they are narrow, and standard deviations of its noise."""


def count_estimates(
    plan: CountPlan, stages: Mapping[str, StageRelease], method: str = "auto", target: str = "population"
) -> NewtonInference:
    """Return the estimates from all stages by kind."""
    start, last = plan.begun(stages["start"]), stages["second"]
    moments = plan.predicted(stages["start"], start)
    # The first round cuts and weighs other rows than the last one, and its Hessian serves at its point alone: an
    # exponential mean bends too much for it to help. So it finds the point of the last one, and no more.
    one, cut = plan.round(last, last=True), count_cut_of(last.settings)
    terms = split_terms(last, plan.model.terms(cut, last=True), len(one.point))
    meat = _meat(plan, one, cut, terms, moments, start.size) * (target == "population")
    fit = solve_rounds([one], plan.model.response, moments.moments, meat, start=one.point, size=start.size)
    if plan.columns.intercept:
        fit = _level(one, cut, terms, moments, start.size, float(last.settings["farther"])).leveled(fit)
    public = plan.public_size
    return NewtonInference(
        plan.columns.names,
        fit,
        start.transform.T,
        np.zeros(plan.width),
        nobs=start.size if public is None else float(public),
        nobs_is_public=public is not None,
        target=target,
        total=start.size,
        total_variance=0.0 if public is not None else start.terms["rows"].scale ** 2,
        method=method,
        unknown=start.kept.unknown,
        slope_factor=plan.model.slope_factor(cut, moments.means(one.point), CHANCES),
        notes=(*plan.warnings(stages), *_narrow(cut, terms, moments, one, start.size)),
    )


def _narrow(
    cut: CountCut, terms: Mapping[str, Released], moments: CountMoments, one: Round, size: float
) -> tuple[str, ...]:
    """Warn where residuals spread less than any law that is looked at: what cutting takes is then not as expected."""
    square = terms["spread"].times(cut.low**2)
    expected = min(float(each @ CHANCES) for _, each in moments.model.squares(cut, moments.means(one.point)))
    if float(square.value[0]) + _BEYOND_NOISE * square.scale >= _NARROW * expected * size:
        return ()
    return (
        "responses spread less than their law: the intercept may be off by more than its interval tells, and a "
        "smaller alpha= of a negative binomial fits better",
    )


def _meat(
    plan: CountPlan, one: Round, cut: CountCut, terms: Mapping[str, Released], moments: CountMoments, size: float
) -> Array:
    """Return the covariance of the score, drawn to what the laws make of the sum of squares of all residuals.

    Its noise grows with the fourth power of the length of rows and of the cut. That of the sum of squares, which says
    how large it is, knows no length.
    """
    factor = plan.model.factors(cut)[0]
    released = terms["meat"].times(factor**2)
    whiten: Array = np.asarray(np.linalg.inv(one.spread))
    white = floored(whiten @ one.hessian @ whiten.T, one.hessian_scale * float(np.sqrt(len(one.point) / 2.0)))
    hessian = np.asarray(one.spread @ white @ one.spread.T)
    square = terms["spread"].times(cut.low**2)
    expected = moments.meat(cut, one.point, hessian, max(float(square.value[0]), square.scale) / size)
    drawn = toward(
        expected, np.asarray(one.spread @ released.value @ one.spread.T), whiten, released.scale, flat=one.flat
    )
    return drawn + _LEAST * expected


def _level(
    last: Round, cut: CountCut, terms: Mapping[str, Released], moments: CountMoments, size: float, farther: float
) -> Level:
    """Read the level of the last round."""
    model, means = moments.model, moments.means(last.point)
    expected = float(model.expected_level(cut, means) @ CHANCES) * size
    shares = model.expected_at(cut, means)[1]
    weights = model.law.weight(means) * CHANCES
    whole = float(weights.sum() / max(float(weights @ shares), 1e-300))
    row = last.hessian[0] * whole
    if isinstance(model.law, NegativeBinomial):  # its length is that of rows whose offsets differ
        row = moments.vector(last.point, means) * (row[0] / max(float(weights.sum()), 1e-300))
    total = terms["level"].times(cut.high)
    ends = [float(model.expected_level(replace(cut, spread=end), means) @ CHANCES) for end in (cut.least, cut.most)]
    return Level(
        Released(total.value - expected, total.scale),
        terms["square"].times(cut.high**2),
        np.asarray(row),
        last.point,
        farther + 0.5 * abs(ends[1] - ends[0]) * size,
        moments.uncertain(cut, last.point) * size,
    )

"""From what the stages of a regression released to its estimates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.newton import solve_rounds
from dpinfer.inference.newton_inference import NewtonInference
from dpinfer.inference.newton_tail import Tail
from dpinfer.inference.newton_terms import split_terms
from dpinfer.procedures.newton_count_estimates import count_estimates
from dpinfer.procedures.newton_count_steps import CountPlan
from dpinfer.procedures.newton_models import cut_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.inference.newton import NewtonFit
    from dpinfer.inference.newton_terms import Released
    from dpinfer.procedures.newton_steps import NewtonPlan
    from dpinfer.release.stage import StageRelease

__all__ = ["estimates_of"]

_CONVEX = 1.21
"""(1 + z^2)/4 at z = 1.96: what coverage loses to the squared relative error of a variance, as part of the variance."""


def estimates_of(
    plan: NewtonPlan, stages: Mapping[str, StageRelease], method: str = "auto", target: str = "population"
) -> NewtonInference:
    """Return the estimates of one regression from its stages by kind: "start", "counts", "first", "second"."""
    if isinstance(plan, CountPlan):
        return count_estimates(plan, stages, method, target)
    stages = plan.seen(stages)
    start = plan.begun(stages["start"])
    last, number = stages["second"], plan.number(start)
    rounds = [plan.round(stages["first"], last=False), plan.round(last, last=True)]
    if plan.model.local:
        rounds = rounds[1:]
    cut = cut_of(last.settings)
    terms = split_terms(last, plan.model.terms(cut, last=True), len(last.settings["point"]))
    back = rounds[-1].spread
    factor = plan.model.factors(cut)[0]
    meat, drawn = terms.get("meat"), plan.drawn and target == "population"
    sampled = np.zeros_like(back) if meat is None else plan.sampled(meat, terms["score"])
    fit = solve_rounds(
        rounds,
        plan.model.response,
        start.moments(intercept=plan.columns.intercept),
        back @ sampled @ back.T * (factor**2 * cut.meat) * (target == "population"),
        start=rounds[-1].point,
        size=plan.units(stages, float(number.value[0])),
        meat_scale=meat.scale if meat is not None and drawn else None,
    )
    if "square" in terms and target == "population":
        fit = _spreading_equally(fit, terms["square"].times(factor**2), start.size, intercept=plan.columns.intercept)
    unit, shift = 1.0, np.zeros(plan.width)
    if "side" in terms:
        seen = plan.tail_counts(stages["counts"], cut)
        side = back @ terms["side"].value
        spread = terms["side"].scale ** 2 * back @ back.T
        excess, square = (terms[one] for one in ("excess", "beyond"))
        beyond = plan.beyond(
            side,
            spread,
            terms["sides"],
            excess.times(cut.high - cut.low),
            square.times(cut.high**2 - cut.low**2),
            seen,
            cut.low,
            cut.high,
            float(last.settings["edge"]) > cut.low,
        )
        constant = np.eye(len(start.score))[0] if plan.columns.intercept else None
        fit = fit.with_tail(beyond.tail(fit.inverse, fit.hessian, fit.meat, constant, start.size))
    elif plan.columns.intercept and plan.model.response is None:
        fit = fit.with_tail(Tail.of_intercept(len(start.score), cut.intercept, cut.bias))
    if plan.model.response is None:
        unit = float(stages["counts"].settings["unit"])
        shift[0] = float(stages["start"].settings["shift"])
    return NewtonInference(
        plan.columns.names,
        fit,
        start.transform.T * unit,
        shift,
        nobs=float(number.value[0]),
        nobs_is_public=plan.public_size is not None,
        target=target,
        total=start.size,
        total_variance=number.scale**2 if plan.columns.weight is None else start.terms["rows"].scale ** 2,
        method=method,
        unknown=start.kept.unknown,
        notes=(
            *plan.model.warnings(start.size, rounds[-1].score_scale * float(np.linalg.norm(rounds[-1].spread[0]))),
            *plan.warnings(stages),
        ),
    )


def _spreading_equally(fit: NewtonFit, square: Released, size: float, *, intercept: bool) -> NewtonFit:
    """Return a fit whose score spreads as its Hessian says, with one variance from the sum of squared residuals.

    Residuals are cut, and the Hessian leaves out rows beyond: over the number of the others, which is its entry of the
    constant, it is the second moment of all rows where these are of any regressors.
    """
    width = len(fit.params)
    inside = float(np.clip(fit.hessian[0, 0], 0.5 * size, size)) if intercept else size
    total = max(float(square.value[0]), square.scale)
    variance = (total + _CONVEX * square.scale**2 / total) / inside
    small = size / (size - width) if size > 2 * width else 2.0
    return replace(fit, meat=np.asarray(small * variance * np.linalg.inv(fit.inverse)))

"""Results of the multivariate normal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import InferenceError, OptionError
from dpinfer.inference.expfam import clamped_problem
from dpinfer.inference.families.continuous import Normal
from dpinfer.inference.moment_inference import METHODS, TARGETS, MomentInference
from dpinfer.inference.multinormal import estimate_multinormal
from dpinfer.release import Release, register_inference
from dpinfer.results.descriptions import DescriptionResults
from dpinfer.results.people import alike_flags
from dpinfer.procedures.sum_plan import SumPlan
from dpinfer.schema.columns import Real
from dpinfer.schema.schema import Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.inference.moments import Estimates
    from dpinfer.release import NoiseLaw

    Array = NDArray[np.float64]

__all__ = ["infer_multinormal", "multinormal_estimates", "multinormal_names", "multinormal_units"]


def multinormal_names(question: SumPlan) -> tuple[str, ...]:
    """Names of means, standard deviations and correlations."""
    texts = [expression.text for expression in question.expressions]
    pairs = [(i, j) for i in range(len(texts)) for j in range(i + 1, len(texts))]
    return (
        *(f"mean({text})" for text in texts),
        *(f"sd({text})" for text in texts),
        *(f"corr({texts[i]}, {texts[j]})" for i, j in pairs),
    )


def multinormal_units(question: SumPlan) -> tuple[Array, Array]:
    """Shift and factor of each parameter, from scaled units to those of the columns."""
    center, half = question.scaled
    pairs = len(half) * (len(half) - 1) // 2
    shift = np.concatenate([center, np.zeros(len(half) + pairs)])
    return shift, np.concatenate([half, half, np.ones(pairs)])


def multinormal_estimates(
    question: SumPlan, values: Array, *, law: NoiseLaw, steps: Array, population: bool
) -> Estimates:
    """Estimate the parameters from R releases (R, m), in scaled units."""
    unit = Schema(u=Real(-1.0, 1.0))
    problem = clamped_problem(Normal(), "u", unit)
    sums = question.moment_sums(values, law, steps)
    return estimate_multinormal(sums, [problem] * len(question.expressions), population=population)


@register_inference("multinormal")
def infer_multinormal(
    release: Release,
    *,
    inference: str | None = None,
    target: str | None = None,
    replicates: int | None = None,
    seed: int | None = None,
) -> DescriptionResults:
    """Infer means, standard deviations and correlations of a multivariate normal.

    Parameters
    ----------
    release : Release
    inference : {"auto", "score", "wald", "simulated"}, optional
    target : {"population", "data"}, optional
    replicates, seed : int, optional
        For ``inference="simulated"``.

    Returns
    -------
    DescriptionResults

    Raises
    ------
    InferenceError
        If the release holds something else.
    OptionError
        If an option has no such value.
    """
    if release.kind != "multinormal":
        raise InferenceError(f"a release of kind {release.kind!r} holds no sums of a multivariate normal")
    question = SumPlan.from_release(release)
    given = {"inference": inference, "target": target, "replicates": replicates, "seed": seed}
    options = {**question.options, **{name: value for name, value in given.items() if value is not None}}
    method, chosen = options.get("inference", "auto"), options.get("target", "population")
    if method not in METHODS:
        raise OptionError("inference", method, METHODS)
    if chosen not in TARGETS:
        raise OptionError("target", chosen, TARGETS)
    steps = np.asarray(release.steps)
    found = multinormal_estimates(
        question, release.array[None], law=release.law, steps=steps, population=chosen == "population"
    )
    shift, factor = multinormal_units(question)
    names = multinormal_names(question)
    inferred = MomentInference(
        estimates=found,
        names=names,
        shift=shift,
        factor=factor,
        nobs=float(release.array[0]),
        nobs_is_public=release.law.scales[0] == 0,
        method="score" if method == "auto" else method,
        target=chosen,
        law=release.law,
        steps=steps,
        replicates=int(options.get("replicates", 999)),
        seed=int(options.get("seed", 0)),
        labels=("",),
        notes=alike_flags(question.schema, chosen),
    )
    bounds = ", ".join(f"{e.text} to [{e.lower:.6g}, {e.upper:.6g}]" for e in question.expressions)
    return DescriptionResults(
        inferred,
        release,
        model_name="Private multivariate normal",
        response=", ".join(question.columns),
        notes=(
            *([f"Rows: {question.where}."] if question.where else []),
            f"The statistics are of clamped values ({bounds}), and so is their expectation under the model.",
        ),
        quantity="estimate",
    )

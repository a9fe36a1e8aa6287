"""Variance of private estimates over the Cramer-Rao bound, as the number of rows grows at a fixed price."""

from __future__ import annotations

import numpy as np

import dpinfer as dpi
from dpinfer.families.distributions import as_family
from dpinfer.families.estimation import clamped_problem
from validation.common import simulated
from validation.common.outputs import scatter
from validation.common.rules import Rule
from validation.common.simulated import Case
from validation.common.study import Drawn, Study
from validation.families.expfam_coverage import LAWS, Law

SIZES = (500, 5000, 50_000)
PRICE = dpi.PureDP(1.0)
TAIL = 1e-5


def column(law: Law) -> dpi.Schema:
    """Bounds beyond which one value in 100,000 lies: clamping loses next to nothing."""
    low, high = 0.0, float(law.frozen.isf(TAIL))
    if law.family in ("normal", "lognormal", "gamma", "beta"):
        low = float(law.frozen.ppf(TAIL))
    if law.family == "bernoulli":
        return dpi.Schema(x=dpi.Boolean())
    if law.discrete:
        return dpi.Schema(x=dpi.Integer(0, 10 if law.family == "binomial" else int(high)))
    return dpi.Schema(x=dpi.Real(low, high))


def bound(law: Law, schema: dpi.Schema) -> np.ndarray:
    """Cramer-Rao bound of one row (p,): the inverse Fisher information, which the statistics carry in full."""
    family = dpi.Binomial(10) if law.family == "binomial" else as_family(law.family)
    moments = clamped_problem(family, "x", schema).moments(np.array([[value for _, value in law.truth]]))
    jacobian, covariance = moments.jacobian[0], moments.cov[0]
    return np.diag(np.linalg.inv(jacobian.T @ np.linalg.solve(covariance, jacobian)))


def cases() -> list[Case]:
    """Every family at every number of rows, with as many rows as its bound is told for."""
    return [
        Case(law.family, "next to nothing is clamped", law,
             dpi.expfam("x", family=dpi.Binomial(10) if law.family == "binomial" else law.family, inference="wald"),
             dict(law.truth), lambda _, law=law: column(law), n, (PRICE,),
             extra={"bound": tuple(bound(law, column(law)) / n)})
        for law in LAWS for n in SIZES
    ]  # fmt: skip


def summary(case: Case, drawn: Drawn) -> list[dict]:
    """Empirical variance of the estimates over the bound, with its Monte Carlo error."""
    found = []
    for (key, values), least in zip(drawn.items(), case.extra["bound"], strict=True):
        ratio = float(np.nanvar(values[:, 0], ddof=1) / least)
        error = ratio * np.sqrt(2 / (len(values) - 1))
        found.append({"parameter": key.split("|")[1], "variance / bound": ratio, "error of variance / bound": error})
    return found


STUDY = Study(
    "efficiency", cases, simulated.draw, summary,
    (Rule("largest variance over the Cramer-Rao bound", "variance / bound", "value", 1.1,
          where=lambda table: table["n"] == SIZES[-1], published="tends to 1",
          design=f"9 families, 13 parameters, n = {SIZES[-1]:,}, eps = 1"),),
    axes=lambda case: {"family": case.name, "n": case.n}, by=("parameter",), most=1000,
    figure=scatter("n", {"variance / bound": 1.0}, ["family", "parameter"]),
    notes=("The budget is PureDP(1) at every number of rows, under add_remove.",),
)  # fmt: skip

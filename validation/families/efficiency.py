"""Variance of private estimates over the Cramer-Rao bound, as the number of rows grows at a fixed price."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import dpinfer as dpi
from dpinfer.families.distributions import as_family
from dpinfer.families.estimation import clamped_problem
from validation.common.claims import Claim
from validation.common.outputs import Options, new_figure, options, write_figure, write_table
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


def measure(law: Law, arguments: Options) -> list[dict]:
    """Empirical variance of the estimates over the bound, at every number of rows."""
    schema = column(law)
    family = dpi.Binomial(10) if law.family == "binomial" else law.family
    least = bound(law, schema)
    rows = []
    for n in SIZES:
        study = dpi.coverage_study(
            law,
            dpi.expfam("x", family=family, inference="wald"),
            schema=schema,
            truth=dict(law.truth),
            n=n,
            privacy=PRICE,
            replicates=arguments.replicates,
            seed=arguments.seed,
            n_jobs=arguments.jobs if n * arguments.replicates > 10**6 else 1,
            progress=False,
        )
        for place, cell in enumerate(study.cells.to_dict("records")):
            ratio = cell["empirical SE"] ** 2 * n / least[place]
            rows.append(
                {
                    "family": law.family,
                    "parameter": cell["term"],
                    "n": n,
                    "variance / bound": ratio,
                    "error": ratio * np.sqrt(2 / (arguments.replicates - 1)),
                    "replicates": arguments.replicates,
                }
            )
    return rows


def figure_of(table: pd.DataFrame) -> Figure:
    """The ratio against the number of rows."""
    figure, axes = new_figure(7.5, 4.4)
    for (family, parameter), group in table.groupby(["family", "parameter"], sort=False):
        axes.plot(group["n"], group["variance / bound"], "o-", ms=4, lw=1, label=f"{family}: {parameter}")
    axes.axhline(1.0, color="black", lw=0.8)
    axes.set(xscale="log", yscale="log", xlabel="rows", ylabel="variance / Cramer-Rao bound")
    axes.set_title(f"Private estimates at {PRICE}")
    axes.legend(fontsize=7, frameon=False, ncols=2)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Measure every family, write the table and the figure."""
    table = pd.DataFrame([row for law in LAWS for row in measure(law, arguments)])
    write_table(table, "efficiency", arguments, ["The price is PureDP(1) at every number of rows, under add_remove."])
    write_figure(figure_of(table), "efficiency", arguments)
    last = table[table["n"] == SIZES[-1]]
    worst = last.loc[last["variance / bound"].idxmax()]
    held = bool((last["variance / bound"] - 3 * last["error"] <= 1.1).all())
    return [
        Claim(
            "largest variance over the Cramer-Rao bound",
            f"9 families, {len(last)} parameters, n = {SIZES[-1]:,}, eps = 1",
            f"{worst['variance / bound']:.3f} ({worst['family']}: {worst['parameter']})",
            held,
            published="tends to 1",
            error=f"{worst['error']:.3f}",
        )
    ]


if __name__ == "__main__":
    run(options("families.efficiency", __doc__, replicates=2000))

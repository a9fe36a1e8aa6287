"""Regressions of counts on the doctor visits of `randhie`: private coefficients against the fit on all rows."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression.question import Newton
from validation.common.outputs import Options
from validation.common.rules import Claim
from validation.common.study import Drawn, Study
from validation.regression.newton_draws import Drawer, covers, replicates

FORMULA = "mdvis ~ lncoins + idp + lpi + fmde + physlm + disea + hlthg + hlthf + hlthp"
SCHEMA = dpi.Schema(
    mdvis=dpi.Integer(0, 100),
    lncoins=dpi.Real(0, 5),
    idp=dpi.Real(0, 1),
    lpi=dpi.Real(0, 8),
    fmde=dpi.Real(0, 9),
    physlm=dpi.Real(0, 1),
    disea=dpi.Real(0, 60),
    hlthg=dpi.Real(0, 1),
    hlthf=dpi.Real(0, 1),
    hlthp=dpi.Real(0, 1),
)
ASKED = {0.5: (0.3, 1.5), 0.1: (0.8, 2.0)}
"""Largest median shift in private standard errors, and largest standard error over the robust one, by rho."""
FEWEST = 20
"""Replicates from which medians are judged."""


@cache
def rows() -> pd.DataFrame:
    """All rows."""
    return sm.datasets.randhie.load_pandas().data


@cache
def whole(model: str) -> Any:
    """The ordinary fit of all rows."""
    family = sm.families.Poisson() if model == "poisson" else sm.families.NegativeBinomial(alpha=1.0)
    return smf.glm(FORMULA, rows(), family=family).fit(cov_type="HC0")


def draw(cell: tuple[str, float], rng: np.random.Generator, count: int) -> Drawn:
    """Fit all rows many times."""
    model, rho = cell
    question = Newton(formula=FORMULA, model=model, parameter=1.0 if model == "negativebinomial" else None)
    drawer = Drawer(question, Context(SCHEMA, "add_remove", dpi.ZCDP(rho)))
    cells = {name: rows()[name].to_numpy(dtype=np.float64) for name in SCHEMA}
    truth = whole(model).params.to_numpy()
    return replicates(drawer, lambda _: (cells, {}), truth, rng, count, more=lambda fit: {
        "variance": np.diag(fit.cov_sampling + fit.cov_noise), "noise": np.diag(fit.cov_noise),
        "marked": bool(fit.flags)})  # fmt: skip


def summary(cell: tuple[str, float], drawn: Drawn) -> list[dict]:
    """Median shifts in private standard errors, and these over the robust ones of all rows, a row for each term."""
    fit, errors = whole(cell[0]), np.sqrt(drawn["variance"])
    names = [*fit.params.index]
    shift, ratio = np.median(drawn["error"] / errors, axis=0), np.median(errors, axis=0) / fit.bse.to_numpy()
    share, held = (
        np.median(drawn["noise"] / drawn["variance"], axis=0),
        covers(drawn["ends"], fit.params.to_numpy()).mean(axis=0),
    )
    most, widest = ASKED[cell[1]]
    return [
        {"term": name, "median shift": shift[j], "standard error / robust": ratio[j], "noise share": share[j],
         "interval holds all rows' fit": held[j], "flagged": drawn["marked"].mean(),
         "within": abs(shift[j]) <= most and ratio[j] <= widest}
        for j, name in enumerate(names)
    ]  # fmt: skip


def claims(table: pd.DataFrame, _: Options) -> list[Claim]:
    """State the largest shift of the Poisson regression; medians of a few fits say nothing."""
    main = table[(table["model"] == "poisson") & (table["rho"] == 0.5) & (table["replicates"] >= FEWEST)]
    return [] if main.empty else [
        Claim("largest median shift from the fit on all rows in standard errors, and largest of these over the robust "
              "ones, Poisson, rho = .5", "randhie, 20,190 rows, 9 regressors",
              f"{main['median shift'].abs().max():.2f} / {main['standard error / robust'].max():.2f}",
              main["within"].all(),
              error=f"{1.25 / np.sqrt(main['replicates'].max()):.2f}")]  # fmt: skip


STUDY = Study(
    "newton_randhie", [("poisson", 0.5), ("poisson", 0.1), ("negativebinomial", 0.5)], draw, summary, by=("term",),
    most=50,
    axes=lambda cell: dict(zip(("model", "rho"), cell, strict=True)), also=claims, quick=1,
    notes=("Replicates are fits of the same rows. Shifts are from the fit on all rows, in private standard errors. "
           "Rules: median shift at most "
           "" + ", ".join(f"{shift:g} at rho = {rho:g} with standard errors at most {wide:g}"
                                        for rho, (shift, wide) in ASKED.items()) + " times the robust ones; a row that "
                                                                                   "does not "
           "hold stands as it is. Where residuals are cut and rows far out count less, a mean that the model has wrong "
           "has another best fit: shifts are what that does.",),
)  # fmt: skip

"""What a suggested `row_norm` does to regressions on real data: error, width and coverage with it and without it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.regression.gram import GramDesign, suggested_row_norm
from validation.common import simulated
from validation.common.outputs import Options, scatter
from validation.common.rules import Claim, Rule
from validation.common.simulated import Case
from validation.common.study import Drawn, Study

PRICES = (0.05, 0.2)
CUT = 4.0
"""Largest error of a linear response, in standard deviations."""

FAIR = {
    "age": dpi.Real(17, 42),
    "yrs_married": dpi.Real(0, 23),
    "children": dpi.Real(0, 6),
    "religious": dpi.Integer(1, 4),
    "educ": dpi.Real(9, 20),
    "rate_marriage": dpi.Integer(1, 5),
}
ANES = {
    "age": dpi.Real(18, 95),
    "educ": dpi.Integer(1, 7),
    "income": dpi.Integer(1, 24),
    "selfLR": dpi.Integer(1, 7),
    "TVnews": dpi.Integer(0, 7),
    "PID": dpi.Integer(0, 6),
}
RAND = {
    "mdvis": dpi.Integer(0, 77),
    "lncoins": dpi.Real(0, 5),
    "lpi": dpi.Real(0, 8),
    "fmde": dpi.Real(0, 9),
    "disea": dpi.Real(0, 60),
}


@dataclass(frozen=True)
class Design:
    """A regression on a data set that comes with statsmodels; its rows are the population, drawn with replacement.

    Attributes
    ----------
    data, formula : str
    columns : dict of str to column
        The declared bounds, which hold all rows.
    """

    data: str
    formula: str
    columns: dict[str, dpi.Real | dpi.Integer]

    @property
    def schema(self) -> dpi.Schema:
        return dpi.Schema({name: column for name, column in self.columns.items() if name in self.formula})

    @property
    def frame(self) -> pd.DataFrame:
        """The rows."""
        return getattr(sm.datasets, self.data).load_pandas().data[list(self.schema)].astype(float)

    @property
    def bound(self) -> float:
        """What `explain` suggests, which the rows do not enter."""
        return suggested_row_norm(GramDesign(self.schema, formula=self.formula), "l2") or np.inf


DESIGNS = (
    Design("fair", "rate_marriage ~ age + religious + educ", FAIR),
    Design("fair", "rate_marriage ~ age + yrs_married + children + religious + educ", FAIR),
    Design("anes96", "PID ~ age + educ + income + selfLR + TVnews", ANES),
    Design("randhie", "mdvis ~ lncoins + lpi + fmde + disea", RAND),
)


def norms(design: Design, frame: pd.DataFrame) -> np.ndarray:
    """Norms of the scaled regressors of all rows, and the regressors as the formula names them."""
    names = design.formula.split(" ~ ")[1].split(" + ")
    scaled = [(2 * frame[name] - one.upper - one.lower) / (one.upper - one.lower)
              for name in names for one in [design.columns[name]]]  # fmt: skip
    return np.sqrt(1 + np.square(scaled).sum(axis=0))


@cache
def fitted(place: int) -> Any:
    """The ordinary fit of all rows of a design."""
    return smf.ols(DESIGNS[place].formula, DESIGNS[place].frame).fit()


def case(place: int, rho: float, *, linear: bool, bounded: bool) -> Case:
    """Return a regression with the suggested bound, or without any.

    ``linear`` puts the fitted line with normal errors of equal spread, cut at `CUT`, in place of the response.
    """
    design, whole = DESIGNS[place], fitted(place)
    schema, response = design.schema, design.formula.split(" ~ ")[0]
    line, spread = whole.fittedvalues.to_numpy(), np.sqrt(whole.scale)
    cells = {name: values.to_numpy() for name, values in design.frame.items()}
    if linear:
        ends = line.min() - CUT * spread, line.max() + CUT * spread
        schema = dpi.Schema({**dict(schema), response: dpi.Real(*map(float, ends))})

    def drawn(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        places = rng.integers(0, len(line), n)
        found = {name: values[places] for name, values in cells.items()}
        if linear:
            found[response] = line[places] + spread * np.clip(rng.normal(size=n), -CUT, CUT)
        return found

    asked = dpi.ols(design.formula, method="gram", row_norm=design.bound if bounded else None)
    truth = {name: float(whole.params[name]) for name in whole.params.index[1:]}
    return Case(design.data, "", drawn, asked, truth, lambda _: schema, len(line), (dpi.ZCDP(rho),))


def draw(cell: tuple[int, float, bool], rng: np.random.Generator, replicates: int) -> Drawn:
    """Draw the same rows with the bound and without it."""
    place, rho, linear = cell
    seed, found = int(rng.integers(2**31)), {}
    for bounded in (False, True):
        one = simulated.draw(case(place, rho, linear=linear, bounded=bounded), np.random.default_rng(seed), replicates)
        found |= {f"{bounded}|{key}": values for key, values in one.items()}
    return found


def summary(cell: tuple[int, float, bool], drawn: Drawn) -> dict:
    """Compare error, width and coverage of slopes."""
    place, rho, linear = cell
    design, whole = DESIGNS[place], fitted(place)
    slopes, tables = whole.params.index[1:], []
    for bounded in (False, True):
        mine = {key.split("|", 1)[1]: found for key, found in drawn.items() if key.startswith(f"{bounded}|")}
        rows = simulated.rows(case(place, rho, linear=linear, bounded=bounded), mine)
        tables.append(pd.DataFrame(rows).set_index("term").loc[slopes])
    plain, bounded = tables
    squared, sizes = bounded["mean squared error"] / plain["mean squared error"], norms(design, design.frame)
    weighed = smf.wls(design.formula, design.frame, weights=np.minimum(1, design.bound / sizes) ** 2).fit()
    return {
        "row_norm": design.bound, "weigh less": float((sizes > design.bound).mean()),
        "error with / without": float(np.sqrt(squared.mean())), "worst slope": float(np.sqrt(squared.max())),
        "width with / without": float((bounded["width"] / plain["width"]).mean()),
        "shift": float(((weighed.params - whole.params) / whole.bse)[slopes].abs().max()),
        "coverage without": float(plain["coverage"].min()), "coverage with": float(bounded["coverage"].min()),
        "slopes": len(slopes),
    }  # fmt: skip


def error_claim(table: pd.DataFrame, _: Options) -> list[Claim]:
    """State what the bound does to errors."""
    worst = table["error with / without"].max()
    what = "largest root mean squared error of slopes with the suggested row_norm over that without"
    return [Claim(what, TOLD, f"{worst:.3f}", worst < 1)]


def study(name: str, which: str, notes: str, *, linear: bool) -> Study:
    """Return the study of linear responses, or of the data's own."""
    return Study(
        name, [(place, rho, linear) for place in range(len(DESIGNS)) for rho in PRICES], draw, summary,
        (Rule(f"least coverage of 95% intervals of a slope with the suggested row_norm, {which}", "coverage with",
              quantities="slopes", design=TOLD),),
        axes=lambda cell: {"data": DESIGNS[cell[0]].data, "n": len(fitted(cell[0]).resid),
                           "regressors": len(fitted(cell[0]).params) - 1, "rho": cell[1]},
        figure=scatter("data", {"error with / without": 1.0, "coverage with": 0.95}, ["regressors", "rho"]),
        notes=(notes,), also=None if linear else error_claim,
    )  # fmt: skip


TOLD = f"{len(DESIGNS)} regressions on fair, anes96 and randhie, rho {PRICES[0]:g} and {PRICES[-1]:g}"
STUDY = (
    study("row_norm", "own responses of the data", linear=False, notes=(
        "Rows are drawn with replacement from the data set, as many as it has; the truth is its ordinary fit. The "
        "bound is the one that `explain` suggests from the declared bounds alone. Error: root mean squared, of each "
        "slope, over that without the bound; of all slopes, and of the worst. Shift: what the weights move the "
        "ordinary fit to all rows by, without noise, in its standard errors, the largest of the slopes: real means "
        "are not linear. Coverage: of the slope that is covered least, of the ordinary fit. Errors of these "
        "data do not spread equally either, which intervals take for granted with the bound and without it.")),
    study("row_norm_linear", "model right", linear=True, notes=(
        "The same regressors; the response is the ordinary line with normal errors of equal spread, declared "
        "from its least to its largest value: the model is right.")),
)  # fmt: skip

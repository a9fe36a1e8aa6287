"""What a suggested `row_norm` does to regressions on real data: error, width and coverage with it and without it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from matplotlib.figure import Figure
from tqdm import tqdm

import dpinfer as dpi
from dpinfer.regression.gram import GramDesign, suggested_row_norm
from validation.common.claims import RULES, Claim, least_coverage
from validation.common.outputs import Options, new_figure, write_table

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


def compare(design: Design, rho: float, arguments: Options, seed: int, *, linear: bool) -> dict:
    """Return one row of a table: the same draws of rows, with the suggested bound and without any.

    ``linear`` puts the fitted line with normal errors of equal spread, cut at `CUT`, in place of the response.
    """
    frame, bound, schema = design.frame, design.bound, design.schema
    fitted = smf.ols(design.formula, frame).fit()
    slopes = list(fitted.params.index[1:])
    cells = {name: frame[name].to_numpy() for name in frame}
    response, line, spread = design.formula.split(" ~ ")[0], fitted.fittedvalues.to_numpy(), np.sqrt(fitted.scale)
    if linear:
        ends = line.min() - CUT * spread, line.max() + CUT * spread
        schema = dpi.Schema({**dict(schema), response: dpi.Real(*map(float, ends))})

    def drawn(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        places = rng.integers(0, len(frame), n)
        found = {name: values[places] for name, values in cells.items()}
        if linear:
            found[response] = line[places] + spread * np.clip(rng.normal(size=n), -CUT, CUT)
        return found

    found = {}
    for given in (None, bound):
        study = dpi.coverage_study(
            drawn,
            dpi.ols(design.formula, method="gram", row_norm=given),
            schema=schema,
            truth={name: float(fitted.params[name]) for name in slopes},
            n=len(frame),
            privacy=dpi.ZCDP(rho),
            replicates=arguments.replicates,
            seed=seed,
            n_jobs=arguments.jobs,
            progress=False,
        )
        found[given] = study.cells.set_index("term").loc[slopes]
    plain, bounded = found[None], found[bound]
    squared = bounded["mean squared error"] / plain["mean squared error"]
    sizes = norms(design, frame)
    weighed = smf.wls(design.formula, frame, weights=np.minimum(1, bound / sizes) ** 2).fit()
    return {
        "data": design.data,
        "n": len(frame),
        "regressors": len(slopes),
        "rho": rho,
        "row_norm": bound,
        "weigh less": float((sizes > bound).mean()),
        "error with / without": float(np.sqrt(squared.mean())),
        "worst slope": float(np.sqrt(squared.max())),
        "width with / without": float((bounded["width"] / plain["width"]).mean()),
        "shift": float(((weighed.params - fitted.params) / fitted.bse)[slopes].abs().max()),
        "coverage without": float(plain["coverage"].min()),
        "coverage with": float(bounded["coverage"].min()),
        "replicates": arguments.replicates,
    }


def figure_of(table: pd.DataFrame) -> Figure:
    """Error with the bound over that without, and coverage."""
    figure, (left, right) = new_figure(9.6, 3.6, 1, 2)
    places = np.arange(len(table))
    labels = [f"{row['data']}, {row['regressors']} x, rho {row['rho']:g}" for _, row in table.iterrows()]
    left.plot(table["error with / without"], places, "o", label="root mean squared error")
    left.plot(table["width with / without"], places, "s", mfc="none", label="mean width")
    left.axvline(1, color="grey", lw=0.8)
    left.set(xlabel="with the suggested row_norm / without")
    right.plot(table["coverage without"], places, "o", color="grey", label="without")
    right.plot(table["coverage with"], places, "o", color="C0", label="with")
    right.axvline(0.95, color="grey", lw=0.8)
    right.set(xlabel="coverage of the worst slope", yticks=[])
    left.set_yticks(places, labels)
    for axes in (left, right):
        axes.invert_yaxis()
        axes.legend(frameon=False, fontsize=7)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Measure every design at every price, and write the table and the figure."""
    tasks = [(design, rho) for design in DESIGNS for rho in PRICES]
    table, lines = (
        pd.DataFrame(
            [
                compare(*task, arguments, arguments.seed + place, linear=linear)
                for place, task in enumerate(tqdm(tasks, desc="designs"))
            ]
        )
        for linear in (False, True)
    )
    least = RULES.least_coverage(arguments.replicates, 0.95)
    notes = [
        "Rows are drawn with replacement from the data set, as many as it has; the truth is its ordinary fit. The "
        "bound is the one that `explain` suggests from the declared bounds alone. Error: root mean squared, of each "
        "slope, over that without the bound; of all slopes, and of the worst. Shift: what the weights move the "
        "ordinary fit to all rows by, without noise, in its standard errors, the largest of the slopes: real means "
        "are not linear. Coverage: of the slope that is covered least, of the ordinary fit. Errors of these "
        "data do not spread equally either, which intervals take for granted with the bound and without it.",
    ]
    write_table(table, "row_norm", arguments, notes, figure_of(table))
    notes = [
        "The same regressors; the response is the ordinary line with normal errors of equal spread, declared "
        f"from its least to its largest value: the model is right. Coverage: at least {least:.4f} is asked for.",
    ]
    write_table(lines.drop(columns="shift"), "row_norm_linear", arguments, notes)
    designs = f"{len(DESIGNS)} regressions on fair, anes96 and randhie, rho {PRICES[0]:g} and {PRICES[-1]:g}"
    worst = table["error with / without"].max()
    return [
        Claim("largest root mean squared error of slopes with the suggested row_norm over that without", designs,
              f"{worst:.3f}", worst < 1),
        *(least_coverage(f"least coverage of 95% intervals of a slope with the suggested row_norm, {which}", part,
                         "coverage with", by=["data", "regressors", "rho"], held=None, design=designs)
          for which, part in (("model right", lines), ("own responses of the data", table))),
    ]  # fmt: skip

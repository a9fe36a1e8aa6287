"""Least squares by rounds on rows of a census: private coefficients against the fit on all rows.

The file is CSV with the columns income, age, educ, sex and married; it is read, and nothing of it is written.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression.question import Newton
from validation.common.outputs import OUTPUT, Options, write_table
from validation.regression.newton_draws import Drawer

LIMITS = {0.5: (0.3, 1.5), 0.1: (0.8, 2.0)}
"""Largest median shift and largest standard error over the robust one, by rho."""

FORMULA = "income ~ age + educ + sex + married"
SCHEMA = dpi.Schema(
    income=dpi.Real(-10_000, 800_000),
    age=dpi.Real(0, 100),
    educ=dpi.Real(0, 20),
    sex=dpi.Real(0, 1),
    married=dpi.Real(0, 1),
)


def compare(rows: pd.DataFrame, rho: float, fits: int, seed: int) -> pd.DataFrame:
    """Fit many times: median shifts in private standard errors, and these over the robust ones of all rows."""
    whole = smf.ols(FORMULA, rows).fit(cov_type="HC1")
    drawer = Drawer(Newton(formula=FORMULA, model="ols"), Context(SCHEMA, "add_remove", dpi.ZCDP(rho)))
    cells = {name: rows[name].to_numpy(dtype=np.float64) for name in SCHEMA}
    rng = np.random.default_rng(seed)
    found = [drawer.estimate(cells, rng) for _ in range(fits)]
    names = list(found[0].names)
    truth, robust = whole.params[names].to_numpy(), whole.bse[names].to_numpy()
    errors = np.array([np.sqrt(np.diag(one.cov_sampling + one.cov_noise)) for one in found])
    shifts = (np.array([one.params for one in found]) - truth) / errors
    ends = np.array([one.intervals(np.eye(len(names)), 0.05) for one in found])
    return pd.DataFrame(
        {
            "rho": rho,
            "median shift": np.median(shifts, axis=0),
            "standard error / robust": np.median(errors, axis=0) / robust,
            "interval holds all rows' fit": ((ends[..., 0] <= truth) & (truth <= ends[..., 1])).mean(axis=0),
            "unbounded": (~np.isfinite(ends).all(axis=2)).mean(axis=0),
        },
        index=pd.Index(names, name="term"),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m validation.regression.newton_census", description=__doc__.splitlines()[0]
    )
    parser.add_argument("file", type=Path, help="CSV file of the rows")
    parser.add_argument("--fits", type=int, default=50)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=OUTPUT, help="directory of the outputs")
    read = parser.parse_args()
    rows = pd.read_csv(read.file)
    table = pd.concat([compare(rows, rho, read.fits, read.seed) for rho in LIMITS]).reset_index()
    limits = table["rho"].map(LIMITS)
    held = (table["median shift"].abs() <= limits.str[0]) & (table["standard error / robust"] <= limits.str[1])
    command = f"python -m validation.regression.newton_census FILE --fits {read.fits} --seed {read.seed}"
    asked = "; ".join(f"rho = {rho:g}: shift {shift:g}, ratio {ratio:g}" for rho, (shift, ratio) in LIMITS.items())
    notes = [
        f"{FORMULA}; {len(rows):,} rows of a census, which are not part of this repository.",
        f"At most ({asked}); shifts are from the fit on all rows, in private standard errors.",
    ]
    write_table(table.assign(held=held), "newton_census", Options(read.fits, read.seed, 1, read.out, command), notes)

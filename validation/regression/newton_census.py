"""Least squares by rounds on rows of a census: private coefficients against the fit on all rows.

The file is CSV with the columns income, age, educ, sex and married; it is read, and nothing of it is written.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.regression.question import Newton
from validation.common.outputs import OUTPUT, Options, write_table
from validation.regression.newton_randhie import ASKED, shifts, within

FORMULA = "income ~ age + educ + sex + married"
SCHEMA = dpi.Schema(
    income=dpi.Real(-10_000, 800_000),
    age=dpi.Real(0, 100),
    educ=dpi.Real(0, 20),
    sex=dpi.Real(0, 1),
    married=dpi.Real(0, 1),
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
    whole = smf.ols(FORMULA, rows).fit(cov_type="HC1")
    asked_of = (whole, Newton(formula=FORMULA, model="ols"), SCHEMA, rows)
    found = pd.concat([shifts(*asked_of, rho, read.fits, read.seed) for rho in ASKED])
    table = found[["term", *found.columns.difference(["model", "term", "noise share", "flagged"], sort=False)]]
    command = f"python -m validation.regression.newton_census FILE --fits {read.fits} --seed {read.seed}"
    asked = "; ".join(f"rho = {rho:g}: shift {shift:g}, ratio {ratio:g}" for rho, (shift, ratio) in ASKED.items())
    notes = [
        f"{FORMULA}; {len(rows):,} rows of a census, which are not part of this repository.",
        f"At most ({asked}); shifts are from the fit on all rows, in private standard errors.",
    ]
    write_table(
        table.assign(held=within(table)), "newton_census", Options(read.fits, read.seed, 1, read.out, command), notes
    )

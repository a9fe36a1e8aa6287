"""The measured part of the page on densities."""

from __future__ import annotations

import pandas as pd

from validation.common.outputs import OUTPUT
from validation.publish.quantiles import lines_of, picture, ranged


def density() -> str:
    """Error of chosen bins, rates, and coverage."""
    parts = ("", "_slopes", "_coverage")
    errors, rates, coverage = (pd.read_csv(OUTPUT / f"density_error{part}.csv") for part in parts)
    compared = lines_of(
        ["density", "price", "n", "best number of bins", "chosen (median)", "error of the best",
         "of the chosen over it", "over the best candidate's"],
        [
            (row["design"], f"`{row['path']}`", f"{row['n']:,}", row["best bins"], row["median bins"],
             f"{row['error of the best']:.3g}", f"{row['ratio']:.2f} ({row['ratio error']:.2f})",
             f"{row['ratio to the candidates']:.2f}")
            for _, row in errors.iterrows()
        ],
    )  # fmt: skip
    fitted = lines_of(
        ["density", "price", "without noise", "best bins", "chosen bins (Monte Carlo error)"],
        [
            (row["design"], f"`{row['path']}`", f"{row['without noise']:.3f}", f"{row['best bins']:.3f}",
             f"{row['chosen bins']:.3f} ({row['its error']:.3f})")
            for _, row in rates.iterrows()
        ],
    )  # fmt: skip
    last = coverage.drop_duplicates(["bins", "design", "privacy", "n"], keep="last")
    covered = lines_of(
        ["bins", "density", "cells", "intervals", "least coverage of a bin", "mean coverage"],
        [
            (how, design, len(cells), f"{int(cells['intervals'].sum()):,}", f"{cells['least coverage'].min():.4f}",
             ranged(cells["mean coverage"], ".4f"))
            for (how, design), cells in last.groupby(["bins", "design"], sort=False)
        ],
    )  # fmt: skip
    first = int(coverage.loc[coverage["run"] == "first", "replicates"].max())
    return "\n".join(
        [
            "Expected integrated squared error of chosen bins over that of the best fixed number at the whole price "
            "(Monte Carlo error), by `python -m validation.selection.density_error`:",
            "",
            *compared,
            "",
            "Slopes of log error on log n, from n = 1,000 to 1,000,000:",
            "",
            *fitted,
            "",
            f"Coverage of pointwise 95% intervals, {first:,} replicates a cell; bins that fail are run again at ten "
            "times as many:",
            "",
            *covered,
            "",
            picture("Error of chosen and of best bins against the number of rows", "density_error"),
        ]
    )

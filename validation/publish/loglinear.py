"""Measured sections on log-linear models and on several intervals at once."""

from __future__ import annotations

import numpy as np
import pandas as pd

from validation.common.outputs import OUTPUT
from validation.common.pages import picture

__all__ = ["loglinear", "several"]


def loglinear() -> str:
    """Coverage and width by population, sizes by test, power."""
    table = pd.read_csv(OUTPUT / "loglinear_coverage.csv")
    last = table.drop_duplicates(["design", "n", "price", "neighbors", "term"], keep="last")
    lines = [
        "| population | coefficients | least coverage | not determined | least where determined | the same, Wald | "
        "largest width / oracle |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for design, group in last.groupby("design", sort=False):
        width = group["width / oracle"].max()
        cells = [
            str(design),
            str(len(group)),
            f"{group['coverage'].min():.4f}",
            f"{group['not determined'].mean():.1%}",
            f"{group['coverage where determined'].min():.4f}",
            f"{group['wald where determined'].min():.3f}",
            f"{width:.3f}" if np.isfinite(width) else "no such cell",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    sizes = pd.read_csv(OUTPUT / "loglinear_size.csv")
    lines += [
        "",
        f"{int(last['replicates'].iloc[0]):,} replicates of each cell; n from 200 to 10,000; rho of .005, .05 and .5, "
        "epsilon of 1, mu of .5; both relations. Coverage counts intervals of coefficients that are not determined; "
        "where determined, those of the others alone. In the empty cell the truth is infinite, and covered by an "
        "interval without end. Widths are judged where the smallest fitted count is five of its standard errors. Made "
        "by `python -m validation.tests.loglinear_coverage`.",
        "",
        picture("Coverage of score and Wald intervals, and widths", "loglinear_coverage"),
        "",
        "| test | cells | largest size at .05 | at .01 | smallest at .05 | cells below .04 |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for test, group in sizes.groupby("test", sort=False):
        at_05, at_01 = group["size at 0.05"], group["size at 0.01"]
        cells = [str(test), str(len(group)), f"{at_05.max():.4f}", f"{at_01.max():.4f}", f"{at_05.min():.4f}"]
        lines.append("| " + " | ".join([*cells, str(int((at_05 < 0.04).sum()))]) + " |")
    lines += [
        "",
        f"{int(sizes['replicates'].iloc[0]):,} replicates, 199 draws behind each p-value; 2 x 3 x 2 cells, even, with "
        "rare levels, and with nearly all rows in one; n from 100 to 10,000; both relations. Made by `python -m "
        "validation.tests.loglinear_size`.",
        "",
        picture("Sizes, and power beside the ordinary test", "loglinear_size"),
    ]
    return "\n".join(lines)


def several() -> str:
    """Joint coverage of simultaneous intervals."""
    table = pd.read_csv(OUTPUT / "simultaneous_coverage.csv")
    lines = [
        "| intervals | at once | cells | least joint coverage | single ones, taken together | width / single |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for quantity, group in table.groupby("quantity", sort=False):
        cells = [
            str(quantity),
            str(int(group["intervals"].iloc[0])),
            str(len(group)),
            f"{group['coverage'].min():.4f}",
            f"{group['single, together'].min():.3f} to {group['single, together'].max():.3f}",
            f"{group['width / single'].mean():.2f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(
        [
            *lines,
            "",
            f"{int(table['replicates'].iloc[0]):,} replicates of each cell: n of 500 and 5,000, rho of .05 and .5, "
            "epsilon of 1, both relations. Made by `python -m validation.tests.simultaneous_coverage`.",
            "",
            picture("Joint coverage of simultaneous intervals and of single ones", "simultaneous_coverage"),
        ]
    )

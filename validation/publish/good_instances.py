"""The measured section on less noise where rows are good."""

from __future__ import annotations

import pandas as pd

from validation.common.outputs import OUTPUT
from validation.common.pages import picture
from validation.publish.quantiles import lines_of, ranged

__all__ = ["good_instances"]


def good_instances() -> str:
    """Errors of smooth sensitivity over those of choices by rank; ranges; centres."""
    return "\n\n".join("\n".join(part) for part in (medians(), ranges(), centres()))


def medians() -> list[str]:
    """Ratios of errors, by population and price."""
    table = pd.read_csv(OUTPUT / "good_instances.csv")
    heads = ["population", "price", "rows off, choice", "rows off, smooth", "error of the value, smooth over choice"]
    rows = [
        (
            *(shape, f"`{price}`"),
            *(ranged(part[f"{how}: rank"], style) for how, style in (("choice", ".1f"), ("smooth", ",.0f"))),
            ranged(part["value, times"], ".2f"),
        )
        for (shape, price), part in table.groupby(["shape", "price"], sort=False)
    ]
    said = (
        "Medians of 101, 1,001 and 10,001 rows within tight bounds and bounds a thousand times too wide: least and "
        "largest of the six (`python -m validation.selection.good_instances`). Smooth: the best of a grid of laws and "
        "constants for each cell, as if that choice were free."
    )
    shown = picture("Error of noise scaled to smooth sensitivity over that of the choice", "good_instances")
    return [said, "", *lines_of(heads, rows), "", shown]


def ranges() -> list[str]:
    """Ranges between quartiles."""
    table = pd.read_csv(OUTPUT / "good_instances_ranges.csv")
    heads = ["population", "n", "two choices", "one choice of the range", "from a tree"]
    rows = [
        (row["shape"], f"{row['n']:,}", *(f"{row[how]:.2f}" for how in ("two choices", "one choice", "tree")))
        for _, row in table.iterrows()
    ]
    said = "The range between the quartiles at `PureDP(1)`: root mean squared error over that of the sample's range."
    return [said, "", *lines_of(heads, rows)]


def centres() -> list[str]:
    """Estimates of a centre."""
    table = pd.read_csv(OUTPUT / "good_instances_centres.csv")
    names = ["smooth trimmed mean", "chosen median", "mean, found bounds", "rlm"]
    rows = [
        (row["population"], row["bounds"], f"{row['n']:,}", *(f"{row[name]:.2f}" for name in names))
        for _, row in table.iterrows()
    ]
    said = "A centre at `PureDP(1)`: median absolute error over that of the 10% trimmed mean without privacy."
    return [said, "", *lines_of(["population", "bounds", "n", *names], rows)]

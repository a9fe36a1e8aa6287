"""The measured section on intervals for the data's own counts."""

from __future__ import annotations

import pandas as pd

from validation.common.outputs import OUTPUT
from validation.common.pages import picture
from validation.publish.quantiles import lines_of

__all__ = ["count_intervals"]

EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)


def count_intervals() -> str:
    """Exact coverage by price and number of cells."""
    table = pd.read_csv(OUTPUT / "count_intervals.csv")
    shown = table[(table["level"] == 0.95) & table["epsilon"].isin(EPSILONS) & table["cells"].isin((1, 5, 100))]
    heads = ["cells added up", "price", "rows on either side", "coverage", "with one row less", "by a continuous law"]
    rows = [
        (
            *(f"{row['cells']:.0f}", f"`PureDP({row['epsilon']:g})`", f"{row['half width']:.0f}"),
            *(f"{row[name]:.4f}" for name in ("coverage", "one step less", "continuous")),
        )
        for _, row in shown.iterrows()
    ]
    said = "Exact coverage of 95% intervals for the data's own counts (`python -m validation.tables.count_intervals`):"
    return "\n".join(
        [said, "", *lines_of(heads, rows), "", picture("Exact coverage against epsilon", "count_intervals")]
    )

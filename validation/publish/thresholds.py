"""The measured section on answers to thresholds."""

from __future__ import annotations

import pandas as pd

from validation.common.outputs import OUTPUT
from validation.common.pages import picture
from validation.publish.quantiles import lines_of

__all__ = ["thresholds"]


def thresholds() -> str:
    """Distances from which answers are right, what was measured there, and those of noisy counts."""
    table = pd.read_csv(OUTPUT / "threshold_error.csv")
    heads = ["queries", "answers", "neighbours", "one answer is right from", "wrong there", "all are right from",
             "any wrong there", "noisy counts: one", "noisy counts: all"]  # fmt: skip
    rows = [
        (
            *(f"{row['queries']:,}", row["answers"], f"`{row['neighbors']}`"),
            *(f"{row['clear from']:,}", f"{row['wrong there']:.3f}"),
            *(f"{row['all clear from']:,}", f"{row['any wrong there']:.3f}"),
            *(f"{row['counts clear from']:,}", f"{row['counts all clear from']:,}"),
        )
        for _, row in table.iterrows()
    ]
    return "\n".join(
        [
            "Distances in rows from which answers are right with 95% at `PureDP(1)`, and the share of runs in which "
            "they were wrong at that distance. Noisy counts: all k counts released with discrete Laplace noise of "
            "scale k/ε, since a row may meet every condition (`python -m validation.selection.threshold_error`):",
            "",
            *lines_of(heads, rows),
            "",
            picture("Share of wrong answers by distance from the threshold", "threshold_error"),
        ]
    )

"""The measured parts of the page on regression by rounds."""

from __future__ import annotations

import pandas as pd

from validation.common.outputs import OUTPUT
from validation.common.pages import picture
from validation.publish.quantiles import lines_of

__all__ = ["peers", "speed"]

METHODS = ("rounds", "gram", "blocks", "bootstrap", "diffprivlib")

_MANY = 2_000
"""Rows from which little of what is not determined is for want of rows."""


def peers() -> str:
    """Errors of private fits over those of the ordinary one."""
    table = pd.read_csv(OUTPUT / "newton_peers.csv")
    heads = ["data", "model", "price", "rounds", "`gram`", "`sample_aggregate`", "`bootstrap`", "diffprivlib"]
    rows = [
        (row["data"], f"`{row['model']}`", row["price"], *("-" if pd.isna(row[one]) else f"{row[one]:.3g}"
         for one in METHODS))
        for _, row in table.iterrows()
    ]  # fmt: skip
    return "\n".join(
        [
            "Root mean squared error of slopes over that of the fit that is not private, at equal price (`python -m "
            "validation.regression.newton_peers`; replicates, versions and designs are in "
            "`validation/output/newton_peers.md`). mu is that of Gaussian differential privacy.",
            "",
            *lines_of(heads, rows),
            "",
            picture("Errors of slopes by five private methods over those of ordinary fits", "newton_peers"),
        ]
    )


def speed() -> str:
    """Time over that of statsmodels, and memory."""
    table = pd.read_csv(OUTPUT / "newton_speed.csv")
    rows = [
        (row["what"], f"{row['measured']:.3g}", "" if pd.isna(row["by processor time"]) else
         f"{row['by processor time']:.3g}", row["required"])
        for _, row in table.iterrows()
    ]  # fmt: skip
    return "\n".join(
        [
            "A million rows and ten regressors in memory, medians of the ratios of neighbouring pairs of fits "
            "(`python -m validation.speed.newton_speed`; `validation/output/newton_speed.md` has the seconds):",
            "",
            *lines_of(["", "measured", "by processor time", "required"], rows),
        ]
    )

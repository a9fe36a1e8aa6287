"""The measured parts of the page on regression."""

from __future__ import annotations

import pandas as pd

from validation.common.outputs import OUTPUT
from validation.common.pages import picture
from validation.publish.quantiles import lines_of

__all__ = ["peers", "real", "speed"]

METHODS = ("rounds", "gram", "blocks", "bootstrap", "diffprivlib")

_SHORT = 0.1
"""Coverage below that without privacy by more is named."""

_MANY = 2_000
"""Rows from which little of what is not determined is for want of rows."""


def peers() -> str:
    """Errors of private fits over those of the ordinary one."""
    table = pd.read_csv(OUTPUT / "newton_peers.csv")
    heads = [
        "data",
        "model",
        "budget",
        "Newton iterations",
        "`gram`",
        "`sample_aggregate`",
        "`bootstrap`",
        "diffprivlib",
    ]
    rows = [
        (row["data"], f"`{row['model']}`", row["price"], *("-" if pd.isna(row[one]) else f"{row[one]:.3g}"
         for one in METHODS))
        for _, row in table.iterrows()
    ]  # fmt: skip
    return "\n".join(
        [
            "Root mean squared error of slopes over that of the fit without privacy, at equal budgets (`python -m "
            "validation.regression.newton_peers`; replicates, versions and designs are in "
            "`validation/output/newton_peers.md`). mu is that of Gaussian differential privacy.",
            "",
            *lines_of(heads, rows),
            "",
            picture("Errors of slopes by five private methods over those of ordinary fits", "newton_peers"),
        ]
    )


def real() -> str:
    """Coverage, width and error of slopes on real data, by price."""
    table = pd.read_csv(OUTPUT / "real_data.csv")
    slopes = table[(table["quantity"] == "slope") & (table["mode"] == "drawn")]
    short = slopes["non-private coverage"] - slopes["coverage"]
    where: dict[str, list[str]] = {}
    for name, one in slopes[short > _SHORT].groupby("regression", sort=False):
        where.setdefault(", ".join(one["privacy"].drop_duplicates()), []).append(str(name))
    named = "; ".join(f"{', '.join(names)} ({privacy})" for privacy, names in where.items())
    heads = ["budget, rows", "slopes", "coverage", "without privacy", "width", "RMSE", "unbounded intervals"]
    rows = [
        (
            f"{privacy}, {n:,}",
            len(one),
            *(f"{one[column].mean():.3f}" for column in ("coverage", "non-private coverage")),
            *(f"{one[column].median():.3g}" for column in ("width ratio", "RMSE ratio")),
            f"{one['unbounded'].mean():.1%}",
        )
        for (privacy, n), one in slopes.groupby(["privacy", "n"], sort=False)
    ]  # fmt: skip
    return "\n".join(
        [
            f"{slopes['regression'].nunique()} regressions on real data sets as populations, "
            f"{slopes['replicates'].max()} replicates (`python -m validation.regression.real_data --main`). "
            "Coverage of slopes by 95% intervals, unbounded ones included; width and root mean squared error (RMSE) "
            "over those of the robust fit without privacy, medians over slopes:",
            "",
            *lines_of(heads, rows),
            "",
            f"Slopes covered less often than without privacy, by more than {_SHORT:g}: {named}.",
        ]
    )


def speed() -> str:
    """Time over that of statsmodels, and memory."""
    table = pd.read_csv(OUTPUT / "newton_speed.csv")
    rows = [
        (row["what"].replace(" by rounds", ""), f"{row['measured']:.3g}", "" if pd.isna(row["by processor time"]) else
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

"""The measured parts of the page on regression by rounds."""

from __future__ import annotations

import pandas as pd

from validation.common.outputs import OUTPUT
from validation.common.pages import picture
from validation.publish.quantiles import lines_of

__all__ = ["limits", "peers", "speed"]

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


def limits() -> str:
    """Limits that are known by their figures: wrong binary models, flagged fits, chance, people."""
    names = ("logit_coverage", "newton_people", "newton_ols")
    logits, people, linear = (pd.read_csv(OUTPUT / f"{name}.csv") for name in names)
    far = logits[logits["kind"] == "far out"]
    covers = " and ".join(
        f"{row['slope']:.2f} with {row['n']:,} rows at rho = {row['rho']:g}" for _, row in far.iterrows()
    )
    loud = logits["fails"].astype(str).str.contains("flagged")
    flagged = "; ".join(
        f"{row['flagged slope']:.2f} with {row['n'] * row['share']:,.0f} events in {row['n']:,} rows, {row['p']} "
        f"slopes, rho = {row['rho']:g}"
        for _, row in logits[loud].iterrows()
    )
    normal = linear[(linear["kind"] == "normal") & (linear["n"] >= _MANY)]
    chance = normal["not determined"]
    bounded = people.loc[people["model"] == "ols", "bounded"]
    said = f"cover less than they should in {int(loud.sum())} of the {len(logits)} designs"
    return "\n".join(
        [
            "In figures:",
            "",
            "- **Wrong binary models with rows far out** (an exponential regressor, a curve fitted by a line): slopes "
            f"cover {covers}, and at most {far['flagged'].max():.0%} of these fits are flagged "
            f"({int(far['replicates'].min()):,} replicates, `validation/output/logit_coverage.md`).",
            f"- **Flagged logits**: their slopes {said}" + (f": {flagged}." if flagged else "."),
            f"- **Not determined by chance.** With normal errors and {_MANY:,} rows or more, some coefficient of least "
            f"squares is not determined in {chance.min():.1%} to {chance.max():.1%} of the fits "
            f"({int(normal['replicates'].min()):,} replicates, `validation/output/newton_ols.md`).",
            "- **People and least squares.** The bound on what was cut leaves some coefficient without a bounded "
            f"interval in {1 - bounded.max():.1%} to {1 - bounded.min():.1%} of the fits "
            f"({int(people['replicates'].min()):,} replicates, `validation/output/newton_people.md`).",
        ]
    )

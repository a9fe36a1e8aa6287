"""The measured part of the page on planning."""

from __future__ import annotations

import pandas as pd

from validation.common.outputs import OUTPUT
from validation.common.pages import picture
from validation.planning.plan_accuracy import MET, POWER, SLOW, WIDTH, judged
from validation.planning.plan_real import PILOT, PRICE, ROWS
from validation.publish.quantiles import lines_of

__all__ = ["planning", "real_rows"]


def planning() -> str:
    """Largest errors of widths, powers and solutions by family, and times."""
    table = pd.read_csv(OUTPUT / "plan_accuracy.csv")
    found = judged(table)
    rows = []
    for family, places in table.groupby("family", sort=False).groups.items():
        own, part = found.loc[places], table.loc[places]
        limit = (
            f"{part['seconds'].max():.1f}"
            if family not in SLOW
            else f"{part['seconds'].max():.0f}, with a progress bar"
        )
        rows.append((family, len(own), *(_largest(own[name]) for name in ("width", "power", "met")), limit))
    beyond = {name: int((found[name].abs() > found[f"{name} allowed"]).sum()) for name in ("width", "power", "met")}
    heads = ["question", "designs", "largest error of the width", "of the power", "distance from the target",
             "seconds of processor time, at most"]  # fmt: skip
    return "\n".join(
        [
            f"{len(table)} designs with {int(table['replicates'].max()):,} replicates each "
            f"({int(table['replicates'].min()):,} of regressions by rounds and medians), by `python -m "
            "validation.planning.plan_accuracy`: the predicted median width over the one that `coverage_study` "
            "measures, less one; the predicted power less the measured one; and the width (of tests the power) that is "
            "measured at the solved price or number of rows, over the target, less one.",
            "",
            *lines_of(heads, rows),
            "",
            f"Asked for: {WIDTH:g}, {POWER:g} and {MET:g}, besides three Monte Carlo errors of what is measured. "
            f"Beyond that: {beyond['width']} widths, {beyond['power']} powers, {beyond['met']} solutions.",
            "",
            picture(
                "Errors of predicted widths and powers, and distances of solutions from their targets", "plan_accuracy"
            ),
        ]
    )


def real_rows() -> str:
    """Errors of planned widths on real rows, a row for each question, by what the plan was made from."""
    table = pd.read_csv(OUTPUT / "plan_real.csv")
    pilots = {"all rows": "all rows", "few rows": f"{PILOT:,} rows", "release": f"a release of {PILOT:,} rows"}
    rows = [
        (question, *(f"{100 * group.set_index('pilot')['error'][pilot]:+.1f}%" for pilot in pilots))
        for question, group in table.groupby("question", sort=False)
    ]
    return "\n".join(
        [
            *lines_of(["question", *(f"planned from {told}" for told in pilots.values())], rows),
            "",
            f"RAND health insurance experiment, n = {ROWS:,}, {PRICE}: the planned median width of the worst term over "
            f"the measured one, less one, by {int(table['replicates'].iloc[0]):,} replicates. "
            "`python -m validation.planning.plan_real`.",
        ]
    )


def _largest(errors: pd.Series) -> str:
    known = errors.abs().dropna()
    return "" if known.empty else f"{known.max():.4f}"

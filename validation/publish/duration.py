"""Measured section on survival analysis: coverage by kind and by how clear numbers at risk are, sizes and powers."""

from __future__ import annotations

import numpy as np
import pandas as pd

from validation.common.pages import Column, grouped, output, picture, ranged, section, table, text

RISK = (0.0, 1.0, 3.0, 5.0, 10.0, np.inf)
"""Expected numbers at risk over the standard deviation of their noise, in classes."""

_CLASSES = ("below 1", "1 to 3", "3 to 5", "5 to 10", "above 10")


def _among(group: pd.DataFrame) -> float:
    """Return coverage among the releases in which survival is determined, of all cells together."""
    return float(group["covered and determined"].sum() / max(group["determined count"].sum(), 1))


@section("survival", "survival")
def survival() -> str:
    """Coverage of all intervals, of survival by number at risk, sizes of tests, and powers."""
    found, sizes, powers, fine = (output(f"survival_{one}") for one in ("coverage", "tests", "power", "fine"))
    kinds = {
        "interval": "{kind}",
        "cells and quantities": "{cells}",
        "least coverage": "{least coverage:.3f}",
        "mean coverage": "{mean coverage:.3f}",
        "least where determined": "{least coverage where determined:.3f}",
        "determined, on average": "{mean determined:.0%}",
    }
    single = found[found["kind"] == "survival"]
    over = pd.cut(single["at risk"] / single["noise sd"], RISK, labels=_CLASSES)
    clear: dict[str, Column] = {
        "number at risk / noise": "{over}",
        "cells": "{cells}",
        "mean coverage": "{mean coverage:.3f}",
        "least coverage": "{least coverage:.3f}",
        "determined, on average": "{mean determined:.0%}",
        "coverage where determined": lambda group: f"{_among(group):.3f}",
        "largest mean width / oracle": "{most width / oracle:.2f}",
    }
    tests = {
        "groups": "{groups}",
        "level": "{level:g}",
        "designs": "{cells}",
        "largest size": "{most size:.3f}",
        "mean size": "{mean size:.3f}",
        "noise hides a group, on average": "{mean hidden:.0%}",
    }
    other = {
        "flagged": "{flag}",
        "level": "{level:g}",
        "designs": "{cells}",
        'largest size, "middle"': "{most size:.3f}",
        "mean size": "{mean size:.3f}",
        'mean size, "end"': "{mean size at end:.3f}",
    }
    rows = [
        {"n": n, "price": price} | {f"ratio {one['ratio']:g}": "{private:.2f} / {no privacy:.2f}".format_map(one)
                                    for one in group.to_dict("records")}
        for (n, price), group in powers.groupby(["n", "price"], sort=False)
    ]  # fmt: skip
    shown: dict[str, Column] = {"n": "{n:,}", "budget": "`{price}`"} | {
        one: (lambda row, one=one: row[one]) for one in list(rows[0])[2:]
    }
    return text(
        f"{found['design'].nunique()} populations, two of them real rows that are resampled (`recid`, 1,445 prison "
        "releases; `heart`, 69 transplants), groups of 20 to 50,000 rows, n of 1,000, 5,000 and 50,000, ZCDP(.5), "
        f"ZCDP(.05) and PureDP(1), both relations; {ranged(found['replicates'], ',')} "
        "replicates of each cell "
        "(`python -m validation --only survival_coverage`). Coverage of 95% intervals, also of what is not determined; "
        "the last but one column is of cells of which at least half of the releases are determined:",
        grouped(found, "kind", kinds),
        f"Least of many cells: the Monte Carlo error of one is {np.sqrt(0.05 * 0.95 / found['replicates'].max()):.3f}. "
        f"Not held by the rule of [claims](claims.md): {int((~found['held']).sum())} of {len(found):,}. Intervals for "
        "survival by the expected number at risk over the standard deviation of its noise:",
        grouped(single.assign(over=over).sort_values("over", kind="stable"), "over", clear),
        picture("Coverage and width of survival intervals", "survival_coverage"),
        "Sizes of log-rank and Fleming-Harrington tests (rho and gamma of 0 and 1), groups censored apart; of three "
        "groups one has 20 rows (`python -m validation --only survival_tests`):",
        grouped(sizes, ["groups", "level"], tests),
        "The same where times are finer than intervals and groups are censored at rates of 0.1, 1.5 and 0.5: 3 made-up "
        "laws with hazards that are constant, rise or fall, and the rows of `recid`, in 6 to 28 intervals; "
        f"{ranged(fine['replicates'], ',')} replicates of each design (`python -m validation --only survival_fine`). "
        "Flagged designs are those in which at least half of the releases are: they are shown, and not judged.",
        grouped(fine.assign(flag=np.where(fine["flagged"] < 0.5, "no", "yes")), ["flag", "level"], other),
        picture("Size of log-rank tests where times are finer than intervals", "survival_fine"),
        "Power of the log-rank test at .05, two equal groups, 12 intervals, by the ratio of hazards: with privacy / "
        "without:",
        table(rows, shown),
    )  # fmt: skip

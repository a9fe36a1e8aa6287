"""Sizes and powers on the page of tests."""

from __future__ import annotations

import pandas as pd

from validation.common.outputs import OUTPUT
from validation.common.pages import picture

__all__ = ["tests"]


def tests() -> str:
    """Largest sizes of all tests, then the powers that are known."""
    table = pd.read_csv(OUTPUT / "chisquare_size.csv")
    last = table.drop_duplicates(list(table.columns[:8]), keep="last")
    lines = [
        "| test | designs | largest size at .05 | at .01 | smallest at .05 | designs below .04 |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for (test, kind), group in last.groupby(["test", "statistic"], sort=False):
        at = [group[group["level"] == level]["size"] for level in (0.05, 0.01)]
        lines.append(_sizes(f"{test}, {kind}", *at))
    for test, group in pd.read_csv(OUTPUT / "mean_tests.csv").groupby("test", sort=False):
        lines.append(_sizes(test, group["size at 0.05"], group["size at 0.01"]))
    joint = pd.read_csv(OUTPUT / "regression_tests.csv")
    lines.append(_sizes("regression, simulated null", joint["size at 0.05"], joint["size at 0.01"]))
    lines += [
        "",
        f"Tables: {int(table['replicates'].iloc[0]):,} replicates; d = 2, 4, 10, 50; 2x2, 3x4 and 5x5; uniform cells, "
        "and one of expectation 2; n from 100 to 100,000; rho from .00125 to .5 and eps of .1 and 1; both relations. "
        f"Designs run again at ten times the replicates: {int((table['run'] == 'rerun').sum()) // 4}. Means: 10,000 "
        f"replicates; regression: {int(joint['replicates'].iloc[0]):,}. 199 draws behind each p-value. Made by `python "
        "-m validation.tests.chisquare_size`, `validation.tests.mean_tests` and "
        "`validation.tests.regression_tests`; every design, with "
        "the size that would be too large, is in `validation/output/`.",
        "",
        picture("P-values under the null hypothesis against uniform quantiles", "chisquare_pvalues"),
        "",
        "| design | n | rho | projected | Pearson | without privacy |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    powers = pd.read_csv(OUTPUT / "chisquare_power.csv").rename(columns={"without privacy": "ordinary"})
    for row in powers.itertuples():
        cells = [row.design, f"{row.n:,}", f"{row.rho:g}"]
        cells += [f"{power:.3f}" for power in (row.projected, row.pearson, row.ordinary)]
        lines.append("| " + " | ".join(cells) + " |")
    covered = pd.read_csv(OUTPUT / "association.csv").groupby("quantity", sort=False)["coverage"]
    least = "; ".join(f"{name} {found.min():.4f} in {found.size} cells" for name, found in covered)
    return "\n".join(
        [
            *lines,
            "",
            "Power at .05 under replace_one with a public n: `python -m validation.tests.chisquare_power`, "
            "which also draws "
            "what earlier statistics lose.",
            "",
            picture("Power that earlier statistics lose against the projected one", "chisquare_power_lost"),
            "",
            f"Least coverage of 95% intervals (`python -m validation.tests.association`): {least}.",
            "",
            picture("Sizes and powers of the tests of means beside the ordinary ones", "mean_tests"),
        ]
    )


def _sizes(name: str, at_05: pd.Series, at_01: pd.Series) -> str:
    cells = [name, str(len(at_05)), f"{at_05.max():.4f}", f"{at_01.max():.4f}", f"{at_05.min():.4f}"]
    return "| " + " | ".join([*cells, str(int((at_05 < 0.04).sum()))]) + " |"

"""Sizes, powers and coverage on the page of rank tests."""

from __future__ import annotations

import pandas as pd

from validation.common.outputs import OUTPUT
from validation.common.pages import picture
from validation.publish.quantiles import lines_of

__all__ = ["ranks"]

_CELL = ["test", "rows", "values", "price", "neighbors"]


def ranks() -> str:
    """Largest sizes of all tests, powers beside noise on the statistic, and coverage of effects."""
    table = pd.read_csv(OUTPUT / "rank_sizes.csv")
    last = table.drop_duplicates([*_CELL, "level"], keep="last")
    rows = []
    for test, group in last.groupby("test", sort=False):
        at = [group[group["level"] == level]["size"] for level in (0.05, 0.01)]
        cells = (f"`{test}`", str(len(at[0])), f"{at[0].max():.4f}", f"{at[1].max():.4f}", f"{at[0].min():.4f}")
        rows.append((*cells, str(int((at[0] < 0.04).sum()))))
    heads = ["test", "designs", "largest size at .05", "at .01", "smallest at .05", "designs below .04"]
    powers = pd.read_csv(OUTPUT / "rank_power.csv")
    shown = [
        (f"`{row['test']}`", f"{row['epsilon']:g}", f"{row['n']:,}", *(f"{row[name]:.3f}" for name in _POWERS))
        for _, row in powers[powers["n"].isin((100, 400, 1600))].iterrows()
    ]
    covered = pd.read_csv(OUTPUT / "rank_effects.csv").groupby("effect", sort=False)["coverage"]
    least = "; ".join(f"{name} {found.min():.4f} in {found.size} cells" for name, found in covered)
    again = int((table["run"] == "rerun").sum()) // 2
    return "\n".join(
        [
            *lines_of(heads, rows),
            "",
            f"{int(table['replicates'].iloc[0]):,} replicates, 199 draws behind each p-value; n of 50, 1,000 and "
            "100,000; groups of equal sizes and of 1 to 20; even values, ties of nine rows in ten, skewed ones in "
            "loose bounds, Cauchy values; three measures, each at a loud and a quiet price; both relations. Sizes "
            f"allowed: see `validation/output/rank_sizes.md`; designs run again at ten times the replicates: {again} "
            "(`python -m validation.tests.rank_sizes`).",
            "",
            picture("Sizes of the rank tests", "rank_sizes"),
            "",
            "Power at .05 against a shift of half a standard deviation of the last group, PureDP, replace_one, n "
            "public: from counts, from noise on the statistic at the same guarantee (Couch et al. 2019; their "
            "Mann-Whitney test has a delta of 1e-6 besides), and without privacy "
            "(`python -m validation.tests.rank_power`).",
            "",
            *lines_of(["test", "epsilon", "rows", *_POWERS], shown),
            "",
            *_lost(powers),
            "",
            picture("Power of rank tests from counts and from noise on the statistic", "rank_power"),
            "",
            f"Least coverage of 95% intervals of effects: {least}.",
        ]
    )


_POWERS = ("counts", "noise on the statistic", "no privacy")


def _lost(powers: pd.DataFrame) -> list[str]:
    """Say of every test where either has more power, and the largest differences."""
    found = []
    for test, group in powers.groupby("test", sort=False):
        apart = group["counts"] - group["noise on the statistic"]
        worst, best = group.loc[apart.idxmin()], group.loc[apart.idxmax()]
        where = f"(epsilon {worst['epsilon']:g}, {worst['n']:,} rows)"
        said = f"- `{test}`: counts lose up to {-apart.min():.2f} of power {where}"
        if apart.max() > 0.05:
            said += f", and win up to {apart.max():.2f} (epsilon {best['epsilon']:g}, {best['n']:,} rows)"
        found.append(said + ".")
    return found

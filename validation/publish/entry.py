"""The measured sections of the page on first looks at rows."""

from __future__ import annotations

import numpy as np
import pandas as pd

from validation.common.outputs import OUTPUT
from validation.entry.newcomer import SCRIPT

__all__ = ["coverage", "first_minutes", "margins", "noise"]

_ASKED = {"mean": "mean", "gamma": "gamma family", "ols, gram": "`ols`, cross-products", "ols, rounds": "`ols`, rounds"}


def noise() -> str:
    """Margins of counts and of shares, predicted and measured."""
    table = pd.read_csv(OUTPUT / "quality_noise.csv")
    shown = table[table["columns"] == 20]
    sizes = sorted(shown["n"].unique())
    lines = [
        "| price, 20 columns | margin of a count, rows | measured | "
        + " | ".join(f"of a share, n = {n:,}" for n in sizes)
        + " |",
        "|" + "---|" * (len(sizes) + 3),
    ]
    for price, group in shown.groupby("price", sort=False):
        one, by_size = group.iloc[0], group.set_index("n")
        shares = " | ".join(
            f"{_points(by_size.loc[n, 'margin of a share'])} ({_points(by_size.loc[n, 'measured share'])})"
            for n in sizes
        )
        lines.append(f"| {price} | {one['margin of a count']:,.0f} | {group['measured'].mean():,.0f} | {shares} |")
    lines += [
        "",
        "Margins of shares are in percentage points. Measured are .95 quantiles of the sizes of errors, of shares in "
        "brackets.",
    ]
    picture = "![Margins of shares against the number of rows](../validation/output/quality_noise.png)"
    return "\n".join([*lines, "", picture])


def first_minutes() -> str:
    """The script of a newcomer, and the time that it took from an empty environment."""
    row = pd.read_csv(OUTPUT / "newcomer.csv").iloc[0]
    return "\n".join(
        [
            "```python",
            SCRIPT.rstrip(),
            "```",
            "",
            f"{row['lines']} lines. From an empty environment: {row['install']:.0f} seconds to install, "
            f"{row['first table']:.0f} to the table. Run again, it prints the same and pays nothing. "
            "`python -m validation.entry.newcomer`, once.",
        ]
    )


def _points(share: float) -> str:
    return "lost" if share >= 1 else f"{100 * share:.2g}"


def coverage() -> str:
    """Coverage within found bounds, beside declared ones."""
    table = _table()
    sizes = sorted(table["n"].unique())
    lines = [
        "| asked | data | " + " | ".join(f"n = {n:,}" for n in sizes) + " | width over that of declared bounds |",
        "|" + "---|" * (len(sizes) + 3),
    ]
    for (asked, law), group in table[table["margin"] == "1"].groupby(["asked", "law"], sort=False):
        by_size = group.set_index("n")
        cells = " | ".join(_cell(by_size.loc[n]) if n in by_size.index else "" for n in sizes)
        ratios = group["width / declared"].replace(np.inf, np.nan).dropna()
        ratio = f"{ratios.min():.2f} to {ratios.max():.2f}" if len(ratios) else ""
        lines.append(f"| {_ASKED[str(asked)]} | {law} | {cells} | {ratio} |")
    own = table[table["margin"] == "1"]
    least, count = own["least"].max(), int(own["replicates"].max())
    told = (
        f"{count:,} replicates a cell; at least {least:.4f} is asked for. An interval that is not determined is the "
        "whole line, and counts as covering. Where there are any, brackets hold their share, and then coverage among "
        "the intervals that are determined. Of this, too, an exact interval's least is asked for, at as many "
        f"replicates as are determined. {int((~own['held']).sum())} of {len(own)} cells have less of one or the "
        "other (bold)."
    )
    declared = table[(table["margin"] == "declared") & ~table["held"]]
    among = "; ".join(
        f"{_ASKED[one['asked']]}, {one['law']}, n = {one['n']:,}: {_cell(one)}" for _, one in declared.iterrows()
    )
    told += f" With declared bounds: {among}." if among else ""
    picture = "![Coverage within bounds that were found](../validation/output/bounds_coverage.png)"
    return "\n".join([*lines, "", told, "", picture])


def margins() -> str:
    """Coverage of means by margin."""
    table = _table()
    means = table[table["asked"] == "mean"]
    lines = ["| margin | least coverage | where | width over that of declared bounds, mean |", "|---|---|---|---|"]
    for margin, group in means.groupby("margin", sort=False):
        worst = group.loc[group["coverage"].idxmin()]
        named = "declared bounds" if margin == "declared" else f"{margin} octave{'' if margin == '1' else 's'}"
        where = f"{worst['law']}, n = {worst['n']:,}"
        lines.append(f"| {named} | {worst['coverage']:.3f} | {where} | {group['width / declared'].mean():.2f} |")
    return "\n".join(lines)


def _table() -> pd.DataFrame:
    return pd.read_csv(OUTPUT / "bounds_coverage.csv", dtype={"margin": str})


def _cell(one: pd.Series) -> str:
    found = _bold(one["coverage"], held=one["coverage"] >= one["least"])
    lost = one["not determined"]
    if lost == 0:
        return found
    if lost == 1:
        return f"{found} ({lost:.1%})"
    known = _bold(one["coverage where determined"], held=one["coverage where determined"] >= one["least determined"])
    return f"{found} ({lost:.1%}; {known})"


def _bold(share: float, *, held: bool) -> str:
    return f"{share:.3f}" if held else f"**{share:.3f}**"

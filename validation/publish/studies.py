"""Coverage and width on the pages of regression, descriptions and families."""

from __future__ import annotations

import pandas as pd

from dpinfer.studies import Rules
from validation.common.outputs import OUTPUT
from validation.regression.naive_regression import ROWS, SHOWN_AT
from validation.scripts import module_of

__all__ = ["by_design", "naive", "proportions", "published", "regression"]


def regression() -> str:
    """Coverage and width by kind of design, for the page on regression."""
    coverage = pd.read_csv(OUTPUT / "ols_coverage.csv")
    first = coverage[coverage["run"] == "first"].copy()
    first["unit"] = first["price"].str.replace(r"\(.*", "", regex=True)
    lines = [
        "| regressors | slopes | unit | cells | least coverage | least for the contrast | "
        "largest width / oracle, kappa at least 3 | cells with kappa below 3 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (regressors, slopes, unit), group in first.groupby(["regressors", "slopes", "unit"]):
        clear = group[group["kappa"] >= Rules().kappa]
        width = f"{clear['width / oracle'].max():.3f}" if len(clear) else "no such cell"
        cells = [regressors, slopes, unit, len(group), f"{group['coverage'].min():.4f}"]
        cells += [f"{group['contrast coverage'].min():.4f}", width]
        lines.append("| " + " | ".join(map(str, [*cells, len(group) - len(clear)])) + " |")
    reruns = int((coverage["run"] == "rerun").sum())
    lines += ["", f"Cells that needed the rerun at ten times the replicates: {reruns}."]
    return "\n".join(lines)


def by_design(name: str) -> str:
    """Coverage and width by design, from a table of judged cells."""
    table = pd.read_csv(OUTPUT / f"{name}.csv")
    first = table[table["run"] == "first"]
    last = table.drop_duplicates(["design", "bounds", "neighbors", "n", "privacy", "term"], keep="last")
    lines = [
        "| design | cells | least coverage | of them with kappa at least 3 | their largest width / oracle | "
        "flagged, kappa below 3 | flagged, at least 3 |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (design, bounds), group in last.groupby(["design", "bounds"], sort=False):
        clear = group[group["kappa"].fillna(float("inf")) >= Rules().kappa]
        rest = group.drop(clear.index)
        cells = [
            design if bounds == "as declared" else f"{design}, {bounds} bounds",
            len(group),
            f"{group['coverage'].min():.4f}",
            len(clear),
            f"{clear['width / oracle'].max():.3f}" if len(clear) else "no such cell",
            f"{rest['flagged'].mean():.0%}" if len(rest) else "no such cell",
            f"{clear['flagged'].mean():.0%}" if len(clear) else "no such cell",
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    again = table[table["run"] == "rerun"]
    failed = last[~last["held"]]
    lines += [
        "",
        f"{len(first)} cells and quantities at {int(first['replicates'].iloc[0]):,} replicates, made by "
        f"`python -m {module_of(name)}`. Rerun at ten times the replicates: {len(again)}; not held in the end: "
        f"{len(failed)}.",
    ]
    return "\n".join(lines)


def proportions() -> str:
    """Exact coverage and mean width of the exact interval, a row per number of rows and proportion."""
    table = pd.read_csv(OUTPUT / "proportion_exact.csv")
    prices = sorted(table["epsilon"].unique())
    lines = [
        "| n | theta | " + " | ".join(f"eps = {price:g}" for price in prices) + " |",
        "| --- | --- | " + " | ".join("---" for _ in prices) + " |",
    ]
    for (n, theta), group in table.groupby(["n", "theta"]):
        cells = group.set_index("epsilon").loc[prices]
        shown = [
            f"{row.coverage:.4f} / {row.width:.3f}"
            for row in cells.rename(columns={"mean width": "width"}).itertuples()
        ]
        lines.append(f"| {n} | {theta:g} | " + " | ".join(shown) + " |")
    return "\n".join(
        [
            *lines,
            "",
            "Exact coverage / mean width of 95% intervals; `python -m validation.descriptions.proportion_exact`.",
        ]
    )


def published() -> str:
    """Ours beside the best published intervals."""
    table = pd.read_csv(OUTPUT / "expfam_published.csv")
    table = table[~table["design"].str.contains("90%")]
    lines = [
        "| design | n | parameter | coverage | mean width | best published (coverage / width) | narrower by |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in table.rename(columns={"at most": "most"}).itertuples():
        known = str(row.published).split("/")[-1].replace("width", "").strip()
        cells = [row.design, f"{row.n:,}", row.parameter, f"{row.coverage:.4f}", f"{row.width:.3f}", row.published]
        lines.append("| " + " | ".join(map(str, [*cells, f"{1 - row.width / float(known):.1%}"])) + " |")
    return "\n".join(
        [*lines, "", "All under replace_one with a public n; `python -m validation.families.expfam_published`."]
    )


def naive() -> str:
    """Coverage of both readings of the same noisy cross-products, at the price that the figure shows."""
    table = pd.read_csv(OUTPUT / "naive_regression.csv")
    table = table[(table["price"] == f"ZCDP({SHOWN_AT:g})") & (table["term"] == "educ")].set_index("reading")
    covered, replicates = table["coverage"], table["replicates"].iloc[0]
    return (
        f"A regression on {ROWS:,} real rows, from the same noisy cross-products at ZCDP({SHOWN_AT:g}): 95% intervals "
        f"by the usual formulas cover the slope in {covered['naive']:.0%} of {replicates:,} replicates, those of "
        f"dpinfer in {covered['dpinfer']:.0%} (`python -m validation.regression.naive_regression`)."
    )

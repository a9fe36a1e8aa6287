"""The measured parts of the pages on choosing and on quantiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from validation.common.outputs import OUTPUT
from validation.common.pages import picture

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

KEYS = ["population", "bounds", "method", "ends", "n", "price", "neighbors", "q"]


def lines_of(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A table as lines of markdown."""
    shown = [heads, ["---"] * len(heads), *([str(cell) for cell in row] for row in rows)]
    return ["| " + " | ".join(row) + " |" for row in shown]


def ranged(values: pd.Series, style: str) -> str:
    """Smallest and largest of some numbers."""
    low, high = format(values.min(), style), format(values.max(), style)
    return low if low == high else f"{low}-{high}"


def selection() -> str:
    """Errors of both mechanisms, theorem 6, and attacks on the sampler."""
    lost = pd.read_csv(OUTPUT / "selection_laws_error.csv")
    bounds = pd.read_csv(OUTPUT / "selection_laws_theorem.csv")
    tests, attacks = (pd.read_csv(OUTPUT / f"selection_laws{part}.csv") for part in ("", "_attack"))
    timed = pd.read_csv(OUTPUT / "selection_speed.csv").set_index("what")["ratio"]
    heads = ["candidates", "other scores", "`PureDP`: permute-and-flip over exponential",
             "`ZCDP`, `GDP`: exponential over permute-and-flip, at most"]  # fmt: skip
    errors = [
        (
            row.candidates,
            row.scores,
            f"{row.least:.3f}-{row.largest:.4f}",
            f"{row.gaussian:.4f}",
        )
        for row in lost.rename(
            columns={
                "least ratio": "least",
                "largest ratio": "largest",
                "exponential over permute-and-flip, Gaussian price": "gaussian",
            }
        ).itertuples()
    ]
    late = bounds[bounds["t"] >= 3]
    told = ["mechanism", "candidates", "t", "theorem 6", "`accuracy`", "least that can hold", "e^(-t)",
            "worst tail of theorem 6", "of `accuracy`"]  # fmt: skip
    theorem = [
        (
            row["mechanism"],
            row["candidates"],
            f"{row['t']:g}",
            *(f"{row[name]:.2f}" for name in ("theorem 6", "accuracy(sharp)", "least possible")),
            *(f"{row[name]:.2g}" for name in ("exp(-t)", "worst tail, theorem 6", "worst tail, sharp")),
        )
        for _, row in late.iterrows()
    ]
    attacked = [
        (row["mechanism"], f"{row['noise']:g}", f"{row['log ratio, exact']:.3f}", f"{row['lower bound']:.3f}")
        for _, row in attacks.iterrows()
    ]
    return "\n".join(
        [
            "Expected error, exactly, over gaps of .02 to 40 noise scales (`python -m "
            "validation.selection.selection_laws`):",
            "",
            *lines_of(heads, errors),
            "",
            "The bound of lecture notes on what a choice may lack from the best score, 4 (ln d + t)/ε for scores that "
            "a row moves by one, at ε = 1; `accuracy`, and the least bound that can hold; and the exact probability of "
            "missing by more for the worst scores, which are one best candidate and all others just so far below:",
            "",
            *lines_of(told, theorem),
            "",
            picture("Noise against mechanism, errors, theorem 6, attacks", "selection_laws"),
            "",
            f"The sampler against exact probabilities: least chi-squared p-value of {len(tests)} vectors of scores, "
            f"{int(tests['draws'].max()):,} draws each, {tests['p-value'].min():.2g}. Attacks with neighbours that "
            f"change most, {int(attacks['draws'].max()):,} draws: lower bounds on ε where 1 is stated, by the share of "
            "the right noise.",
            "",
            *lines_of(["attacked", "noise", "exact", "lower bound"], attacked),
            "",
            f"A million rows, 20 levels (`python -m validation.speed.selection_speed`): `most_frequent` takes "
            f"{timed['most frequent whole number']:.0f} times as long as `numpy.bincount`, of labels "
            f"{timed['most frequent label']:.0f} times.",
        ]
    )


def quantiles() -> str:
    """Errors, 99 quantiles for the price of one, coverage and width, the band."""
    many, band = (pd.read_csv(OUTPUT / f"{name}.csv") for name in ("quantile_error_many", "cdf_band"))
    timed = pd.read_csv(OUTPUT / "selection_speed.csv").set_index("what")["ratio"]
    cover = pd.read_csv(OUTPUT / "quantile_coverage.csv")
    last = cover.drop_duplicates(KEYS, keep="last")
    return "\n".join(
        [
            "Error of the median over the standard deviation of the sample median; of a discrete column, of its rank "
            "(`python -m validation.selection.quantile_error`):",
            "",
            *medians(pd.read_csv(OUTPUT / "quantile_error.csv")),
            "",
            picture("Error of private medians against the number of rows, and of 99 quantiles", "quantile_error"),
            "",
            "Error in rank, in rows, of the quantiles .01, .02, ..., .99 from one tree, and by 99 releases at 1/99 of "
            "the price each:",
            "",
            *lines_of(
                ["column", "n", "price", "one tree", "99 trees", "99 choices"],
                [
                    (row["population"], f"{row['n']:,}", f"`{row['price']}`",
                     *(f"{row[name]:.1f}" for name in ("one tree", "99 trees", "99 choices")))
                    for _, row in many.iterrows()
                ],
            ),
            "",
            f"Coverage of 95% intervals for the quantiles .01, .1, .25, .5, .9, .99; 100 to 100,000 rows, four prices, "
            f"{int(cover[cover['run'] == 'first']['replicates'].max()):,} replicates of each cell, flagged "
            "intervals included (`python -m validation.selection.quantile_coverage`). Mean widths over "
            "those of an oracle who "
            "knows the distribution and both variances: where the noise in the rank varies no more than sampling.",
            "",
            *covered(last),
            "",
            picture("Coverage by population, and width over the oracle's", "quantile_coverage"),
            "",
            "The 95% band for the whole function (`python -m validation.selection.cdf_band`), its half "
            "width beside that of "
            "Dvoretzky, Kiefer and Wolfowitz without privacy:",
            "",
            *lines_of(
                ["column", "n", "price", "coverage", "half width", "without privacy"],
                [
                    (row["population"], f"{row['n']:,}", f"`{row['price']}`", f"{row['coverage']:.4f}",
                     f"{row['half width']:.4f}", f"{row['DKW']:.4f}")
                    for _, row in band.drop_duplicates(["population", "n"], keep="last").iterrows()
                ],
            ),
            "",
            picture("Coverage and width of the band", "cdf_band"),
            "",
            f"A million rows (`python -m validation.speed.selection_speed`): a private median takes "
            f"{timed['private median but for noise']:.1f} times as long as `numpy.sort` but for drawing its exact "
            f"noise. That takes the same time for any number of rows: here {timed['noise of the median']:.1f} times as "
            f"long as `numpy.sort`. Three quantiles from a tree take {timed['three private quantiles']:.1f} times as "
            "long, noise included.",
        ]
    )  # fmt: skip


def medians(table: pd.DataFrame) -> list[str]:
    """A row for each population, size and price."""
    rows = []
    for (name, bounds, n), group in table.groupby(["population", "bounds", "n"], sort=False):
        sizes = group.pivot_table("median", "price", "method", sort=False)
        cells = [f"{sizes['sample quantile'].iloc[0]:.2f}"]
        cells += [f"{row['exponential']:.2f} / {row['tree']:.2f}" for _, row in sizes.iterrows()]
        rows.append((name, bounds, f"{n:,}", *cells))
    prices = [f"`{price}`: chosen / tree" for price in dict.fromkeys(table["price"])]
    return lines_of(["column", "bounds", "n", "sample's", *prices], rows)


def covered(last: pd.DataFrame) -> list[str]:
    """A row for each population and kind of ends."""
    rows = []
    for (name, bounds, ends), group in last.groupby(["population", "bounds", "ends"], sort=False):
        loud = group["sampling / noise sd"] < 1
        clear = group[group["width / oracle"].notna() & ~loud]
        narrow = clear[clear["leaf / oracle"] <= 0.05]
        rows.append(
            (
                name,
                bounds,
                ends,
                len(group),
                f"{group['coverage'].min():.4f}",
                f"{narrow['width / oracle'].max():.3f}" if len(narrow) else "no such cell",
                f"{clear['width / oracle'].max():.2f}" if len(clear) else "no such cell",
                ranged(group["flagged"], ".0%"),
            )
        )
    heads = ["column", "bounds", "ends", "cells", "least coverage", "largest width, leaves at most 1/20 of the "
             "oracle's", "any leaves", "flagged"]  # fmt: skip
    return lines_of(heads, rows)


def split() -> str:
    """Errors of the choice and widths of the interval, by share of the price; the library's share in bold."""
    table = pd.read_csv(OUTPUT / "quantile_split.csv")
    shares = sorted(table["share"].unique())
    rows = []
    for (neighbors, price, n), part in table.groupby(["neighbors", "price", "n"], sort=False):
        told = []
        for share in shares:
            one = part[part["share"] == share].iloc[0]
            shown = f"{one['error']:.3g} ({one['half width']:.3g})" if share < 1 else f"{one['error']:.3g}"
            told.append(f"**{shown}**" if one["taken"] else shown)
        rows.append((neighbors.replace("_", " "), f"`{price}`", f"{n:,}", *told))
    heads = ["neighbours", "price", "n", *(f"{share:g}" for share in shares)]
    said = (
        "Error of a chosen median over that of the sample median, by the share of the price that the choice has (the "
        "middle one of nine populations, bounds tight to a thousand times too wide), and in brackets the half width of "
        "the interval over that without privacy. Bold: what the library does "
        "(`python -m validation.selection.quantile_split`)."
    )
    return "\n".join(
        [
            said,
            "",
            *lines_of(heads, rows),
            "",
            picture("Error against width, by the share of the choice", "quantile_split"),
        ]
    )

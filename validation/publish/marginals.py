"""The measured section on marginals: noise beside others, coverage, size of tests, time."""

from __future__ import annotations

import pandas as pd

from validation.common.outputs import OUTPUT
from validation.common.pages import picture
from validation.publish.quantiles import lines_of

__all__ = ["marginals"]


def marginals() -> str:
    """What independent marginals would cost, the lower bound, coverage and width, size, real rows, and time."""
    return "\n".join([*_noise(), "", *_coverage(), "", *_tests(), "", *_real(), "", *_time()])


def _noise() -> list[str]:
    table = pd.read_csv(OUTPUT / "marginals_error.csv")
    rows = []
    for design in dict.fromkeys(table["design"]):
        some = table[table["design"] == design].set_index(["price", "objective"])
        planned, largest, pure = (some.loc[key] for key in (("zcdp", "sum"), ("zcdp", "max"), ("pure", "sum")))
        rows.append(
            (
                design,
                f"{planned['independent marginals']:.2f}",
                f"{planned['independent, averaged']:.2f}",
                f"{1 / planned['over the lower bound']:.4f}",
                f"{largest['independent marginals']:.2f}",
                f"{pure['independent marginals']:.2f}",
                f"{pure['contrasts']:.2f}",
            )
        )
    heads = ["workload", "independent marginals", "the same, averaged", "lower bound", "largest: independent",
             "pure: independent", "pure: contrasts"]  # fmt: skip
    replaced = table[table["price"] == "zcdp"]["replace_one over add_remove"]
    return [
        "*Noise.* Sums of the variances of all cells over ours at the same price, under `add_remove`; and the largest "
        'variance over that of `objective="max"`. Independent marginals have the price split as is best for them; '
        "averaged ones share what they know of common margins. The lower bound is that of all Gaussian matrix "
        "mechanisms (`python -m validation.tables.marginals_error`):",
        "",
        *lines_of(heads, rows),
        "",
        f"Under `replace_one` variances are {replaced.min():.2f} to {replaced.max():.2f} times those under "
        "`add_remove`, and 4 times at a pure price.",
        "",
        picture("Sums of variances of others over ours, by workload", "marginals_error"),
    ]


def _coverage() -> list[str]:
    table = pd.read_csv(OUTPUT / "marginals_coverage.csv")
    rows = []
    for quantity, some in table[table["run"] == "first"].groupby("quantity", sort=False):
        width = some["width / oracle"].max()
        means = f"{some['mean coverage'].min():.3f} to {some['mean coverage'].max():.3f}"
        estimates = f"{int(some['estimates'].sum()):,}"
        rows.append((quantity, len(some), estimates, f"{some['coverage'].min():.4f}", means, f"{width:.3f}"))
    first = table[table["run"] == "first"]
    heads = ["of what", "designs", "estimates", "least coverage", "means of designs", "largest width over the oracle's"]
    return [
        f"*Coverage* of 95% intervals, {int(first['replicates'].iloc[0]):,} replicates of each of "
        f"{first.groupby(['design', 'amount', 'measure', 'neighbors', 'n']).ngroups} designs: even, rare and empty "
        "cells, strong dependence, binary columns, unequal numbers of levels, one marginal of three columns; 60 to "
        "20,000 rows; little and much budget in four measures (Laplace noise in two designs, and on the real rows "
        "below); both relations. At least .9376 is asked for in each single cell "
        "(`python -m validation.tables.marginals_coverage`):",
        "",
        *lines_of(heads, rows),
        "",
        picture("Least coverage among the cells of each design", "marginals_coverage"),
    ]  # fmt: skip


def _tests() -> list[str]:
    table = pd.read_csv(OUTPUT / "marginals_tests.csv")
    first = table[table["run"] == "first"]
    rows = [
        (test, f"{len(some)}", f"{some['size'].min():.3f}", f"{some['size'].mean():.3f}", f"{some['size'].max():.3f}")
        for test, some in first.groupby("test", sort=False)
    ]
    return [
        f"*Size* of chi-squared tests at level .05, {int(first['replicates'].iloc[0]):,} replicates of each design "
        "(`python -m validation.tables.marginals_tests`):",
        "",
        *lines_of(["test", "designs", "least", "mean", "largest"], rows),
    ]


def _real() -> list[str]:
    table = pd.read_csv(OUTPUT / "marginals_real.csv")
    rows = [
        (price, f"`{neighbors}`", f"{some['standard error'].min():.1f} to {some['standard error'].max():.1f}",
         f"{some['coverage'].min():.4f}", f"{(some['error / formula'] - 1).abs().max():.4f}")
        for (price, neighbors), some in table.groupby(["price", "neighbors"], sort=False)
    ]  # fmt: skip
    heads = [
        "price",
        "neighbours",
        "standard errors of cells",
        "least coverage of a cell",
        "error off its formula, at most",
    ]
    return [
        f"*Real rows.* All 28 pairs of eight coded columns of anes96: 944 rows, a whole table of 6.5 million cells, "
        f"{int(table['replicates'].iloc[0]):,} releases (`python -m validation.tables.marginals_real`):",
        "",
        *lines_of(heads, rows),
        "",
        picture("Share of votes by column, from one release of all pairs, and in the rows", "marginals_real"),
    ]


def _time() -> list[str]:
    table = pd.read_csv(OUTPUT / "marginals_speed.csv")
    rows = [
        (row["marginals"], f"{int(row['sums']):,}", f"{row['seconds']:.2f}", f"{row['seconds of a scan']:.2f}",
         f"{row['scans']:.2f}")
        for _, row in table.iterrows()
    ]  # fmt: skip
    return [
        f"*Time* on {int(table['rows'].iloc[0]):,} rows of Parquet, two cores, beside a bare pyarrow scan of the same "
        "columns, timed in turn; price, ledger and noise included (`python -m validation.tables.marginals_speed`). "
        "Columns are counted in blocks of several at once, and marginals are sums of the counters:",
        "",
        *lines_of(["marginals", "sums", "seconds", "seconds of a scan", "scans"], rows),
    ]

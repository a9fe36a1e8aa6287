"""What the pages of blocks and of the bootstrap show."""

from __future__ import annotations

import pandas as pd

from dpinfer.studies import Rules
from validation.common.claims import replicates_of
from validation.common.outputs import OUTPUT
from validation.common.pages import picture

__all__ = ["aggregate", "bootstrap"]


def aggregate() -> str:
    """Error, coverage and width of sample-and-aggregate, a row per design and price, and the figures."""
    table = pd.read_csv(OUTPUT / "aggregate_coverage.csv")
    keys = ["design", "n", "blocks", "price", "aggregator", "correction"]
    lines = [
        "| model | n | blocks | price | blocks bounded by | RMSE over that of blocks without noise | least coverage | "
        "mean width / oracle, signal at least 3 | flagged |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for key, group in table.groupby(keys, sort=False):
        design, n, blocks, price, bounded, correction = key
        clear = group[group["kappa"] >= Rules().kappa]["width / oracle"].dropna()
        ratio = (group["RMSE"] / group["without noise"]).to_numpy()
        cells = [
            design + ("" if correction == "half_blocks" else ", **not corrected**"),
            f"{n:,}",
            blocks,
            f"`{price}`",
            "place and spread" if bounded == "winsorized" else "the region alone",
            f"{ratio.min():.2f}-{ratio.max():.2f}",
            f"{group['coverage'].min():.4f}",
            f"{clear.max():.3f}" if len(clear) else "no such parameter",
            f"{group['flagged'].max():.0%}",
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(
        [
            *lines,
            "",
            f"{replicates_of(table):,} replicates; `python -m validation.blocks.aggregate_coverage`, which judges the "
            "corrected ones; every parameter is in `validation/output/aggregate_coverage.csv`.",
            "",
            picture("Coverage and error of sample-and-aggregate", "aggregate_coverage"),
            "",
            "Bias of a block against its rows, plain and corrected (`python -m validation.blocks.aggregate_bias`):",
            "",
            picture(
                "Bias of a block's estimate of order 1/m, and of order 1/m squared when corrected", "aggregate_bias"
            ),
            "",
            "Smith's (2008) theorem: the estimator is efficient where epsilon n^(1/4) grows without bound. Mean "
            "squared error over the Cramer-Rao bound, with the square root of n blocks and with as many as bias allows "
            "(`python -m validation.blocks.aggregate_efficiency`):",
            "",
            picture(
                "Mean squared error over the Cramer-Rao bound as n grows and epsilon shrinks", "aggregate_efficiency"
            ),
            "",
            "Time (`python -m validation.speed.aggregate_speed`):",
            "",
            picture("Seconds for 1,500 fits on a million rows", "aggregate_speed"),
        ]
    )


def bootstrap() -> str:
    """Exact cost, the source's intervals and ours, coverage by design, and the direct release beside it."""
    cost, extra = pd.read_csv(OUTPUT / "bootstrap_cost.csv"), pd.read_csv(OUTPUT / "bootstrap_cost_noise.csv")
    added = extra[(extra["mu"] == 1) & (extra["replicates"] == 200)].iloc[0]
    source = pd.read_csv(OUTPUT / "bootstrap_source.csv")
    cover, direct = (
        pd.read_csv(OUTPUT / "bootstrap_coverage.csv"),
        pd.read_csv(OUTPUT / "bootstrap_coverage_direct.csv"),
    )
    costs = [
        "| mu | B | claimed epsilon | asymptotic, 2 - 2/e | exact | ledger mu |",
        "| --- | --- | --- | --- | --- | --- |",
        *(
            f"| {mu:g} | {size:.0f} | {claimed:.3f} | {limit:.3f} | {exact:.3f} | {ledger:.4f} |"
            for mu, size, claimed, limit, exact, ledger in cost.to_numpy()
        ),
    ]
    relative = "of the conservative one's"
    intervals = [
        "| interval | coverage there | stated | mean width over the conservative one's |",
        "| --- | --- | --- | --- |",
        *(
            f"| {row['interval']} | {row['coverage']:.4f} | {_or_none(row['stated'], '.3f')} | {row[relative]:.3f} |"
            for _, row in source[source["run"] == "all"].iterrows()
        ),
    ]
    last = cover.drop_duplicates(["design", "n", "replicates B", "price"], keep="last")
    cells = [
        "| design | n | B | price | level | runs | coverage | mean width / oracle | sampling / noise of one | "
        "flagged | `ols` covers |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *(
            f"| {row['design']} | {row['n']:,} | {row['replicates B']} | `{row['price']}` | {row['level']:g} | "
            f"{row['runs']:,} | "
            f"{row['coverage']:.4f}{'' if row['held'] else ', **not held**'} | {row['width / oracle']:.3f} | "
            f"{row['sampling / noise']:.2f} | {row['flagged']:.0%} | {_or_none(row['gram covers'], '.3f')} |"
            for _, row in last.iterrows()
        ),
    ]
    beside = [
        "| estimate | n | error over that of the direct release | width over it |",
        "| --- | --- | --- | --- |",
        *(
            f"| {row['estimate']} | {row['n']:,} | {row['RMSE ratio']:.2f} | {row['width ratio']:.2f} |"
            for _, row in direct.iterrows()
        ),
    ]
    runs = int(last["runs"].max())
    return "\n".join(
        [
            "Epsilon at delta = 1e-6 of B replicates with root-B times the noise of one release of mu, double or "
            "nothing (`python -m validation.bootstrap.bootstrap_cost`, which also checks the composed delta "
            "by simulation and "
            "attacks the weights). The noise that the true price adds at mu = 1, B = 200: "
            f"{added['alone']:.2%} in standard deviation alone, {added['ledger entry']:.2%} as a ledger entry.",
            "",
            *costs,
            "",
            picture("Exact, claimed and asymptotic epsilon against the number of replicates", "bootstrap_cost"),
            "",
            "The setting of Brawner and Honaker's figures 6 to 9, on ages from a beta distribution with standard "
            f"deviation 17.58 (`python -m validation.bootstrap.bootstrap_source`, {int(source['replicates'].max()):,} "
            "replicates; their releases are not private at the stated cost):",
            "",
            *intervals,
            "",
            picture("Figures 6 to 9 of the source redrawn, with the default interval", "bootstrap_source"),
            "",
            f"Coverage of the default interval, end to end (`python -m "
            f"validation.bootstrap.bootstrap_coverage`, up to {runs:,} "
            "replicates a design; the same for one number by quadrature in the figure). `ols`, which takes errors to "
            "spread equally, is fitted to the same rows at the same price:",
            "",
            *cells,
            "",
            picture("Coverage and width of the bootstrap's intervals, and direct releases", "bootstrap_coverage"),
            "",
            "The same estimate by the direct release at the same price (mu = 1, B = 200):",
            "",
            *beside,
            "",
            "Time and memory for a million rows (`python -m validation.speed.bootstrap_speed`):",
            "",
            picture("Seconds of one pass and of 200 replicates over a million rows", "bootstrap_speed"),
        ]
    )


def _or_none(value: float, style: str) -> str:
    return "" if pd.isna(value) else format(value, style)

"""Measured sections on audits, engines and other packages."""

from __future__ import annotations

import numpy as np
import pandas as pd

from validation.common.outputs import OUTPUT
from validation.common.pages import Column, grouped, output, picture, ranged, section, table, text
from validation.peers.peer_methods import LOGIT
from validation.peers.peers import CELL, compared, errors_of
from validation.publish import speed

SEARCHES = ("DP-Sniper", "Delta-Siege")
SEARCHED = 6000
"""Runs without which a search can hardly exceed what is stated."""

HEADS = {
    "mean": "A mean",
    "median": "A median",
    "histogram": "Shares of a histogram",
    "independence": "A test of independence",
    "ols": "Slopes of least squares",
    "logit": "Slopes of a logit",
}
BEST = "best of four settings"
BESIDE = 1.2
"""Errors this many times as large count as different."""


# Audits


@section("auditing", "audits")
def audits() -> str:
    """Audits of every procedure, a row for each public function."""
    found = output("audit_table")
    failed = ~found["passed"].astype(bool)

    def at_large(group: pd.DataFrame) -> str:
        large = group["share at the large price"].dropna()
        return ranged(large, ".2f") if len(large) else "none: a choice, or not served"

    columns: dict[str, Column] = {
        "function": "`{function}`",
        "audits": "{cells}",
        "change over bound": "{range change over bound:.3f}",
        "lower bound over what is stated, your budget": "{range share reached:.2f}",
        "at mu = 3 or epsilon = 3": at_large,
        "runs on each neighbour": "{range runs:,.0f}",
        "seconds": "{range seconds:.0f}",
        "above the budget": "{total failed}",
    }
    return text(
        grouped(found.assign(failed=failed), "function", columns),
        f"{len(found)} audits, {int(failed.sum())} of which found something above the budget. Choices: exact log "
        "ratios in place of draws. Few runs bound little at a small budget: these were of at most "
        f"{int(found['runs'].max()):,}. `python -m validation --only audit_table`; every question is in "
        "`validation/output/audit_table.csv`.",
        picture("Share of the stated privacy loss that an audit of each procedure reaches", "audit_table"),
    )


@section("auditing", "bugs")
def bugs() -> str:
    """Planted bugs, a row each: who finds them. Searches are told of where they had enough runs to find anything."""
    found = output("audit_bugs")
    searches = int(found["search runs"].min()) >= SEARCHED
    told = (
        f"{int(found['search runs'].max()):,} of the searches, {int(found['false alarms of searches'].sum())} of which "
        "found something without a bug."
        if searches
        else f"the searches need {SEARCHED:,}, of which there is no run yet."
    )
    columns: dict[str, Column] = {
        "bug": "{bug}",
        "primitive": "`{primitive}`",
        "audit": "{audit} of {repeats}",
        **({f"{name}-like": f"{{{name}}} of {{repeats}}" for name in SEARCHES} if searches else {}),
        "change over bound": lambda row: f"{row['change over bound']:.3f}".replace("inf", "infinite"),
        "seconds of the audit": "{seconds:.0f}",
    }
    return text(
        table(found, columns),
        f"{int(found['runs'].max()):,} runs of the audit on each neighbour; {told} Without the bugs "
        f"{int(found['false alarms'].sum())} of {int(found['repeats'].sum())} audits failed. "
        "`python -m validation --only audit_bugs`.",
        picture("Share of repeats in which audits and searches find bugs", "audit_bugs") if searches else "",
    )


# Engines


def said(name: str) -> list[str]:
    """Return the line of an output that says how it was made, and the notes under its table."""
    lines = (OUTPUT / f"{name}.md").read_text(encoding="utf-8").splitlines()
    return [lines[2], *(line for line in lines[4:] if line and not line.startswith("|"))]


@section("engines", "engines")
def engines() -> str:
    """Speed, sources, memory, and what a cluster would take."""
    sources, memory, scale, wide = (
        output(f"engines_{part}") for part in ("speed_sources", "memory", "scale", "scale_wide")
    )
    sizes = sorted(sources["rows"].unique())

    def seconds(column: str, rows: int) -> Column:
        return lambda group: f"{group.loc[group['rows'] == rows, column].mean():.2f}"

    from_source: dict[str, Column] = {"rows come from": "{rows come from}"} | {
        f"seconds, {rows:,} rows": seconds("seconds", rows) for rows in sizes
    }
    from_source[f"over Parquet, {sizes[-1]:,} rows"] = seconds("times as long as Parquet", sizes[-1])
    by_rows: dict[str, Column] = {
        "question": "{question}",
        "rows": "{rows:,}",
        "seconds": "{seconds:.2f}",
        "processor seconds": "{processor seconds:.2f}",
        "peak MB": "{peak MB:.0f}",
        "anonymous MB": "{anonymous MB:.0f}",
        "bytes a row on disk": "{bytes a row:.0f}",
        "load": "{load:.1f}",
    }
    spilled = "; ".join(
        f"{row['rows']:,} rows in {row['seconds']:.1f} s, {row['rows'] / row['seconds'] / 1e6:.1f} million a second"
        for row in memory[memory["question"] == "people"].to_dict("records")
    )

    def timed(column: str) -> Column:
        return lambda row: "not timed" if pd.isna(row[column]) else f"{row[column]:.3g}"

    hours = [name for name in scale if name.startswith("hours")]
    cluster: dict[str, Column] = {
        "question": "{question}",
        "passes": "{passes:.0f}",
        "worker, ns a row": timed("worker ns a row"),
        "driver, ns a row": timed("driver ns a row"),
        **{name: timed(name) for name in (*hours, "GB to the driver")},
    }
    many = {name: f"{{{name}:{',.3g' if place else ',.0f'}}}" for place, name in enumerate(wide)}
    return text(
        "### Beside bare scans and DuckDB",
        "\n".join(said("ratios")),
        speed.times(speed.ratios("parquet")),
        "### From every source",
        "\n".join(said("engines_speed_sources")) + "\nSpark starts as the tests start it: compiled quickly rather than "
        "well, and 1 GB for the driver.",
        grouped(sources, "rows come from", from_source),
        picture("Seconds for the Gram matrix against rows, a line for each source", "engines_speed"),
        "### Memory, and time against rows",
        "\n".join(said("engines_memory")),
        table(memory, by_rows),
        f"People with several rows, spilled, chosen and read again: {spilled}.",
        picture("Seconds and peak memory against rows", "engines_memory"),
        "### Ten thousand million rows",
        "\n".join(said("engines_scale")),
        table(scale, cluster),
        picture("Hours against workers", "engines_scale"),
        "Wide questions: what the driver is sent, and its processor time to add it up. "
        + " ".join(said("engines_scale_wide")[1:]),
        table(wide, many),
    )


# Other packages


@section("benchmark", "benchmark")
def benchmark() -> str:
    """Errors and coverage by task, and who is nearer to the truth."""
    found = output("peers")
    made, _, *notes = said("peers")
    parts = ["\n".join([made, *notes]), picture("Errors of peers against those of dpinfer, and coverage of intervals",
                                                "peers")]  # fmt: skip
    for task, head in HEADS.items():
        mine = found[found["task"] == task]
        parts += [f"### {head}", *(tested(mine) if task == "independence" else errors(mine))]
        if task == "histogram":
            parts.append(own_counts(mine))
    return text(*parts, "### Who is nearer to the truth", *nearer(found))


KEYS: dict[str, Column] = {"rows": "{data}", "n": "{n:,}", "budget": "{price}",
                           "neighbours": lambda group: group["neighbors"].iloc[0].replace("_", " ")}  # fmt: skip


def number(value: float) -> str:
    """Write an error."""
    return f"{value:.2f}" if value < 100 else f"{value:.0e}" if value > 9999 else f"{value:.0f}"


def errors(found: pd.DataFrame) -> list[str]:
    """Errors, with coverage in brackets, a column for each method; of slopes, who is worse than zero.

    Of the settings of a logit the ones with the least error in each cell are shown, in the place of all but the first.
    """
    found = errors_of(found)
    tuned = found[found["method"].str.startswith(LOGIT)]
    if len(tuned):
        best = tuned.loc[tuned.groupby(CELL)["error"].idxmin()].assign(method=BEST)
        found = pd.concat([found[~found["method"].str.startswith(f"{LOGIT},")], best])
    columns = dict(KEYS)
    if found["task"].iloc[0] in ("ols", "logit"):
        columns["zero"] = lambda group: number(group["zero"].iloc[0])
    for name in dict.fromkeys(found["method"]):

        def entry(group: pd.DataFrame, name: str = name) -> str:
            mine = group[group["method"] == name]
            if mine.empty or pd.isna(mine["coverage"].iloc[0]):
                return "" if mine.empty else number(mine["error"].iloc[0])
            row = mine.iloc[0]
            bounded = f", {row['bounded']:.0%} bounded" if row["bounded"] < 1 else ""
            return f"{number(row['error'])} ({row['coverage']:.0%}{bounded})"

        columns[name] = entry
    shown = [grouped(found, CELL[1:], columns)]
    if "zero" in columns:
        worse = (found["error"] > found["zero"]).groupby(found["method"], sort=False)
        told = "; ".join(f"{name}: {cells.sum()} of {len(cells)}" for name, cells in worse)
        shown.append(f"Rows in which a method errs by more than zero does: {told}.")
    return shown


def tested(found: pd.DataFrame) -> list[str]:
    """Shares of tests that reject at .05."""
    columns = KEYS | {"no privacy": "{plain rejects:.0%}"}
    for name in dict.fromkeys(found["method"]):
        columns[name if name == "dpinfer" else f"{name}, by hand"] = lambda group, name=name: (
            f"{group.set_index('method').loc[name, 'rejects']:.0%}"
        )
    return [
        "Shares of tests that reject at .05. Where columns are made independent, one in twenty is right; what a test "
        "beyond that finds elsewhere says nothing.",
        grouped(found, CELL[1:], columns),
    ]


def own_counts(found: pd.DataFrame) -> str:
    """Intervals of the data's own counts: ours, and what OpenDP tells of its noise."""
    told = found[found["data coverage"].notna() & (found["price"] == "epsilon = 1")]
    each = "; ".join(
        f"{name}: {group['data coverage'].min():.0%} to {group['data coverage'].max():.0%}, mean width "
        f"{group['data width'].mean():.3g}"
        for name, group in told.groupby("method", sort=False)
    )
    return f"Coverage of the data's own counts at epsilon = 1, by 95% intervals of the noise alone: {each}."


def nearer(found: pd.DataFrame) -> list[str]:
    """Count who has the smaller error, and name where a peer has."""
    beside = compared(found)
    beside["ours nearer"], beside["theirs nearer"] = 1 / beside["ratio"] > BESIDE, beside["ratio"] > BESIDE
    beside["even"] = ~(beside["ours nearer"] | beside["theirs nearer"])
    columns: dict[str, Column] = {
        "task": "{task}",
        "peer's method": "{method}",
        "comparisons": "{cells}",
        f"dpinfer {BESIDE:g} times nearer": "{total ours nearer}",
        "neither": "{total even}",
        f"peer {BESIDE:g} times nearer": "{total theirs nearer}",
        "ratio of errors, peer over dpinfer: median": lambda group: number(float(np.median(1 / group["ratio"]))),
    }
    groups = beside.groupby(["task", "method"], sort=False)
    where = "; ".join(
        f"{one.method}: {one.data}, n = {one.n:,}, {one.price} ({number(one.error)} beside {number(one.ours)})"
        for _, group in groups
        for one in group[group["theirs nearer"]].itertuples()
    )
    told = f"Where a peer is nearer: {where}." if where else "No peer is nearer anywhere."
    return [grouped(beside, ["task", "method"], columns), told]


@section("README", "textbook")
def textbook() -> str:
    """How far the usual formulas go wrong on the noisy numbers of peers, in short."""
    found = output("peers")
    by_hand = found[(found["interval"] == "by hand") & (found["task"] == "ols")]
    true = found[(found["task"] == "independence") & found["data"].str.endswith("made independent")]
    ours, theirs = (true[(true["peer"] == "dpinfer") == mine]["rejects"].max() for mine in (True, False))
    return (
        "The textbook on noisy numbers of others: 95% intervals of slopes that cover in "
        f"{by_hand['coverage'].min():.0%} of {int(by_hand['replicates'].max())} replicates at worst, tests at .05 that "
        f"reject up to {theirs:.0%} of true hypotheses (dpinfer: at most {ours:.0%})."
    )


@section("benchmark", "times-of-peers")
def times() -> str:
    """Processor time of imports and calls."""
    heads = ("task", "method", "import, s", "first call, s", "a call, s", "times dpinfer's call")
    found = output("peers_times")
    shown = (f"{{{name}{how}}}" for name, how in zip(found, ("", "", ":.2f", ":.3g", ":.3g", ":.3g"), strict=True))
    return text(
        f"{' '.join(said('peers_times')[1:])} dpinfer's calls check and charge a ledger in memory.",
        table(found, dict(zip(heads, shown, strict=True))),
    )

"""The page of claims, the README's few, from validation/results.csv: one source of figures; and the rules."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from scipy import stats

from validation.common.code import code_of
from validation.common.outputs import OUTPUT
from validation.common.pages import Column, output, section, table, text
from validation.common.rules import SEED, TAIL, Claim, Kind
from validation.common.simulated import RULES
from validation.reasons import REASONS
from validation.scripts import SCRIPTS, TIMED, module_of

RESULTS = OUTPUT.parent / "results.csv"
FRESH = OUTPUT / "fresh_seed.csv"
JUDGED: tuple[Kind, ...] = ("coverage", "size", "width")
TITLES = {
    "coverage": "Coverage of intervals",
    "size": "Size of tests",
    "width": "Width of intervals",
    "exact": "Exact values",
    "value": "Other values",
    "time": "Times and memory",
}


def read_results(path: Path = RESULTS) -> pd.DataFrame:
    """Return a row per claim."""
    found = pd.read_csv(path, dtype={"ours": str, "error": str, "published": str}, keep_default_na=False)
    missing = {"script", *Claim.__dataclass_fields__, "minutes", "code"} - set(found.columns)
    if missing:
        raise ValueError(f"{path} lacks the columns {', '.join(sorted(missing))}: run python -m validation --full")
    return found


def _piped(name: str) -> Column:
    return lambda row: str(row[name]).replace("|", "\\|")


_FEW = 3
"""Limits that are listed; of more the range."""


def _limit(row: dict) -> str:
    """Nominal level or cap of a claim, or the range of those of its cells."""
    limits = row["threshold"].split(" or ")
    return row["threshold"] if len(limits) <= _FEW else f"{limits[0]} to {limits[-1]}, by cell"


JUDGED_COLUMNS: dict[str, Column] = {
    "cells": "{cells:,}",
    "replicates of each": "{replicates:,}",
    "nominal level, or cap": _limit,
    "worst": "{ours}",
    "Monte Carlo error": "{error}",
    "worst cell": _piped("worst"),
}


def _chance(row: dict) -> str:
    return f"{row['tail']}, {TAIL * row['cells']:.1f}" if row["kind"] != "width" else ""


def _held(row: dict) -> str:
    return "yes" if row["held"] else f"**no**, {row['failed']}" if row["kind"] in JUDGED else "**no**"


def _script(row: dict) -> str:
    return f"`{module_of(row['script'])}`"


def _judged(found: pd.DataFrame) -> str:
    named = found["what"] + found["design"].map(lambda one: f" ({one})" if one else "")
    tail = f"cells in the worst {TAIL:.0%} of chance: found, expected at most"
    columns = {"claim": _piped("named"), **JUDGED_COLUMNS, tail: _chance, "held": _held, "script": _script}
    return table(found.assign(named=named), columns)


def _listed(found: pd.DataFrame, last: str = "held") -> str:
    columns: dict[str, Column] = {
        "claim": _piped("what"),
        "design": lambda row: "; ".join(one for one in (row["design"], row["worst"]) if one).replace("|", "\\|"),
        "published": _piped("published"),
        "ours": lambda row: f"{row['ours']} ({_limit(row)})" if row["threshold"] else row["ours"],
        "Monte Carlo error": "{error}",
        "replicates": lambda row: f"{row['replicates']:,}" if row["replicates"] else "",
        last: (lambda row: REASONS[row["what"]])
        if last == "reason"
        else lambda row: "yes" if row["held"] else "**no**",
        "script": _script,
    }
    return table(found, columns)


@section("claims", "claims")
def claims() -> str:
    """Every claim: first what is not held, with the reason, then the rest by kind."""
    found = read_results()
    broken = found[~found["held"]]
    parts = [f"## Not held: {len(broken)} of {len(found)}", _listed(broken, "reason")]
    for kind, title in TITLES.items():
        part = found[found["kind"] == kind]
        parts += [f"## {title}", _judged(part) if kind in JUDGED else _listed(part)]
    return text(*parts)


@section("claims", "stale")
def stale() -> str:
    """Which tables are older than the code that they judge, and which were compared; times depend on more than code."""
    made = read_results()
    made = made[~made["script"].isin(TIMED)]
    own = made["code"] == made["script"].map({name: code_of(name) for name in made["script"].unique()})
    scripts, old = made["script"].nunique(), [f"`{name}`" for name in made.loc[~own, "script"].unique()]
    compared = made[own & (made["compared"] > 0)]
    parts = [f"All {scripts} scripts that judge more than times ran on the code as it is." if not old else
             f"{len(old)} of {scripts} scripts that judge more than times have claims of earlier code: "
             f"{', '.join(old)}."]  # fmt: skip
    if len(compared):
        parts.append(
            f"{compared['script'].nunique()} ran on earlier code that draws the same first replicates of every cell "
            f"({_ranged(compared, 'compared')} of each): "
            f"{', '.join(f'`{name}`' for name in compared['script'].unique())}."
        )
    return text(*parts)


@section("claims", "times")
def times() -> str:
    """Processor time of every script, at the replicates of its table, and at the rule's where they are fewer."""
    found = read_results().groupby("script", sort=False).agg({"replicates": "max", "minutes": "first"}).reset_index()

    def there(row: dict) -> str:
        full, ran = SCRIPTS[row["script"]].full, row["replicates"]
        return f"{row['minutes'] * full / ran:,.0f}" if 0 < ran < full else ""

    columns: dict[str, Column] = {
        "script": _script,
        "replicates": lambda row: f"{row['replicates']:,}" if row["replicates"] else "",
        "processor minutes": "{minutes:,.1f}",
        "at the rule's replicates": there,
    }
    return table(found, columns)


@section("claims", "fresh")
def fresh() -> str:
    """The judged claims with another seed: failures that chance explains, and those found."""
    found = read_results(FRESH)
    judged = found[found["kind"].isin(JUDGED[:2])]
    own = read_results().groupby("what")["held"].all()
    new = judged[~judged["held"] & judged["what"].map(own).fillna(value=True).astype(bool)]
    columns = {"claim": _piped("what"), **JUDGED_COLUMNS, "in the tail, at most": _chance, "held": _held}
    del columns["Monte Carlo error"]
    return text(
        f"With a seed of its own ({int(found['seed'].iloc[0])}; the tables have {SEED}), {len(judged)} claims on "
        f"coverage and size with {judged['cells'].sum():,} cells. In the worst {TAIL:.0%} of what chance leaves of an "
        f"exact procedure lie {judged['tail'].sum()} cells, where at most {TAIL * judged['cells'].sum():.0f} are "
        f"expected. Claims that fail: {int((~judged['held']).sum())}; of those held above: {len(new)}.",
        table(judged, columns),
    )


def _ranged(table: pd.DataFrame, what: str = "replicates") -> str:
    least, most = int(table[what].min()), int(table[what].max())
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


@section("README", "headlines")
def headlines() -> str:
    """What the README says of all this, in five lines."""
    found = read_results()
    steady = found[~found["script"].isin(TIMED)]
    covered, sizes, widths = (found[found["kind"] == kind] for kind in JUDGED)
    newton = output("newton_ols")
    normal = newton[(newton["kind"] == "normal") & (newton["n"] == 10_000) & (newton["neighbors"] == "add_remove")]
    price = normal.set_index("price")["RMSE / ordinary"]
    broken = steady[~steady["held"]]
    return "\n".join(
        [
            f"- **Intervals**: {covered['cells'].sum():,} cells in {len(covered)} tables, of {_ranged(covered)} "
            f"replicates each, {covered['cells'].sum() - covered['failed'].sum():,} of which cover as they should.",
            f"- **Tests**: {sizes['cells'].sum():,} designs of {_ranged(sizes)} replicates each, "
            f"{sizes['cells'].sum() - sizes['failed'].sum():,} of which keep their level.",
            f"- **Width**: {widths['cells'].sum() - widths['failed'].sum():,} of {widths['cells'].sum():,} cells are "
            "as narrow as is asked beside an oracle that knows the sampling variance and the noise law.",
            f"- **Error** of a regression with three slopes on 10,000 rows over that of least squares: "
            f"{price['rho = 0.5']:.2f} at ZCDP(0.5), {price['rho = 0.05']:.2f} at ZCDP(0.05).",
            f"- **Not held**: {len(broken)} of {len(steady)} claims, listed first in [docs/claims.md](docs/claims.md), "
            "with the reason.",
        ]
    )


@section("guide/does-your-interval-cover", "rules")
def rules() -> str:
    """Thresholds by the number of replicates, for the guide that states them."""
    level, designs = 0.95, 100
    rows = []
    for replicates in (500, 1000, 2000, 5000, 10_000):
        least = RULES.least_coverage(replicates, level)
        below = stats.binom.cdf(round(least * replicates) - 1, replicates, level)
        most = RULES.largest_size(replicates, level, designs)
        rows.append({"replicates": replicates, "least": least, "below": below, "most": most})
    columns = {
        "replicates of a cell": "{replicates:,}",
        "least coverage of 95% intervals": "{least:.4f}",
        "chance that an exact interval is below": "{below:.5f}",
        f"largest size of tests at .05, of {designs} designs": "{most:.4f}",
    }
    return text(
        table(rows, columns),
        f"Mean widths are at most {RULES.width_cap:.2f} times the oracle's, and at most {RULES.unbounded_cap:.1%} "
        f"of the intervals are unbounded, where kappa is at least {RULES.kappa:g}; tests that keep their level "
        f"fail with probability {RULES.size_alarm:g} in a study.",
    )

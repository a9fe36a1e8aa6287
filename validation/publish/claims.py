"""The page of claims, and the README's few, from validation/results.csv: one source of figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from validation.common.claims import TAIL, Claim
from validation.common.outputs import OUTPUT
from validation.reasons import REASONS
from validation.scripts import SCRIPTS, SEED, TIMED, module_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from validation.common.claims import Kind

__all__ = ["claims", "fresh", "headlines", "read_results", "times"]

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
    table = pd.read_csv(path, dtype={"ours": str, "error": str, "published": str}, keep_default_na=False)
    missing = {"script", *Claim.__dataclass_fields__, "minutes"} - set(table.columns)
    if missing:
        raise ValueError(f"{path} lacks the columns {', '.join(sorted(missing))}: run python -m validation --full")
    return table


def claims() -> str:
    """Every claim: first what is not held, with the reason, then the rest by kind."""
    table = read_results()
    broken = table[~table["held"]]
    parts = [f"## Not held: {len(broken)} of {len(table)}", "", *_listed(broken, reasons=True)]
    for kind, title in TITLES.items():
        part = table[table["kind"] == kind]
        parts += ["", f"## {title}", "", *(_judged(part) if kind in JUDGED else _listed(part))]
    return "\n".join(parts)


def _judged(table: pd.DataFrame) -> list[str]:
    tail = f"in the worst {TAIL:.0%} of chance"
    lines = [
        f"| claim | cells | replicates of each | asked | worst | Monte Carlo error | worst cell | cells {tail}: found, "
        "expected at most | held | script |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in table.to_dict("records"):
        chance = f"{row['tail']}, {TAIL * row['cells']:.1f}" if row["kind"] != "width" else ""
        held = "yes" if row["held"] else f"**no**, {row['failed']}"
        cells = [_what(row), f"{row['cells']:,}", f"{row['replicates']:,}", row["threshold"], row["ours"], row["error"]]
        lines.append(_row([*cells, row["worst"], chance, held, _script(row)]))
    return lines


def _listed(table: pd.DataFrame, *, reasons: bool = False) -> list[str]:
    last = "reason" if reasons else "held"
    lines = [
        f"| claim | design | published | ours | Monte Carlo error | replicates | {last} | script |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in table.to_dict("records"):
        said = REASONS[row["what"]] if reasons else "yes" if row["held"] else "**no**"
        design = "; ".join(one for one in (row["design"], row["worst"]) if one)
        ours = f"{row['ours']} ({row['threshold']})" if row["threshold"] else row["ours"]
        count = f"{row['replicates']:,}" if row["replicates"] else ""
        lines.append(_row([row["what"], design, row["published"], ours, row["error"], count, said, _script(row)]))
    return lines


def _what(row: dict) -> str:
    return f"{row['what']} ({row['design']})" if row["design"] else str(row["what"])


def _script(row: dict) -> str:
    return f"`{module_of(row['script'])}`"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def times() -> str:
    """Processor time of every script, at the replicates of its table, and at the rule's where they are fewer."""
    table = read_results()
    lines = [
        "| script | replicates | processor minutes | at the rule's replicates |",
        "| --- | --- | --- | --- |",
    ]
    for name, part in table.groupby("script", sort=False):
        script, ran = SCRIPTS[name], int(part["replicates"].max())
        minutes = float(part["minutes"].iloc[0])
        there = f"{minutes * script.full / ran:,.0f}" if 0 < ran < script.full else ""
        lines.append(_row([f"`{module_of(str(name))}`", f"{ran:,}" if ran else "", f"{minutes:,.1f}", there]))
    return "\n".join(lines)


def fresh() -> str:
    """The judged claims with another seed: failures that chance explains, and those found."""
    table = read_results(FRESH)
    judged = table[table["kind"].isin(JUDGED[:2])]
    own = read_results().groupby("what")["held"].all()
    new = judged[~judged["held"] & judged["what"].map(own).fillna(value=True).astype(bool)]
    lines = [
        f"With a seed of its own ({int(table['seed'].iloc[0])}; the tables have {SEED}), {len(judged)} claims on "
        f"coverage and size with {judged['cells'].sum():,} cells. In the worst {TAIL:.0%} of what chance leaves of an "
        f"exact procedure lie {judged['tail'].sum()} cells, where at most {TAIL * judged['cells'].sum():.0f} are "
        f"expected. Claims that fail: {int((~judged['held']).sum())}; of those held above: {len(new)}.",
        "",
        "| claim | cells | replicates of each | asked | worst | worst cell | in the tail, at most | held |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in judged.to_dict("records"):
        held = "yes" if row["held"] else f"**no**, {row['failed']}"
        cells = [row["what"], f"{row['cells']:,}", f"{row['replicates']:,}", row["threshold"], row["ours"]]
        lines.append(_row([*cells, row["worst"], f"{row['tail']}, {TAIL * row['cells']:.1f}", held]))
    return "\n".join(lines)


def _ranged(table: pd.DataFrame) -> str:
    least, most = int(table["replicates"].min()), int(table["replicates"].max())
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def headlines() -> str:
    """What the README says of all this, in five lines."""
    table = read_results()
    steady = table[~table["script"].isin(TIMED)]
    covered, sizes, widths = (table[table["kind"] == kind] for kind in JUDGED)
    newton = pd.read_csv(OUTPUT / "newton_ols.csv")
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

"""The measured part of the page on data that stay where they are."""

from __future__ import annotations

import pandas as pd

from validation.common.outputs import OUTPUT
from validation.common.pages import picture
from validation.publish.quantiles import lines_of

__all__ = ["engines"]


def engines() -> str:
    """Speed, sources, memory, and what a cluster would take."""
    return "\n\n".join("\n".join(part) for part in (speed(), sources(), memory(), scale()))


def stamp_of(name: str) -> str:
    """Return the line of an output that says which command, version and replicates made it."""
    return (OUTPUT / f"{name}.md").read_text(encoding="utf-8").splitlines()[2]


def notes_of(name: str) -> list[str]:
    """Return the notes under the table of an output."""
    text = (OUTPUT / f"{name}.md").read_text(encoding="utf-8")
    return [line for line in text.splitlines()[4:] if line and not line.startswith("|")]


def speed() -> list[str]:
    """Questions beside bare scans and DuckDB."""
    table = pd.read_csv(OUTPUT / "engines_speed.csv")
    heads = ["question", "beside", "times as long", "by processor time", "required", "held", "seconds", "theirs"]
    rows = [
        (row["what"], row["beside"], f"{row['times as long']:.2f}", f"{row['by processor time']:.2f}", row["required"],
         "yes" if row["held"] else "**no**", f"{row['seconds']:.2f}", f"{row['their seconds']:.2f}")
        for _, row in table.iterrows()
    ]  # fmt: skip
    return ["### Beside bare scans and DuckDB", "", *said("engines_speed"), "", *lines_of(heads, rows)]


def said(name: str) -> list[str]:
    """Return the stamp and notes of an output as a paragraph."""
    return [stamp_of(name), *notes_of(name)]


def sources() -> list[str]:
    """One question from every source."""
    table = pd.read_csv(OUTPUT / "engines_speed_sources.csv")
    seconds = table.pivot_table("seconds", "rows come from", "rows", sort=False)
    times = table.pivot_table("times as long as Parquet", "rows come from", "rows", sort=False)
    sizes = sorted(seconds.columns)
    heads = ["rows come from", *(f"seconds, {size:,} rows" for size in sizes), f"over Parquet, {sizes[-1]:,} rows"]
    rows = [
        (name, *(f"{seconds.loc[name, size]:.2f}" for size in sizes), f"{times.loc[name, sizes[-1]]:.2f}")
        for name in seconds.index
    ]
    shown = picture("Seconds for the Gram matrix against rows, a line for each source", "engines_speed")
    spark = "Spark starts as the tests start it: compiled quickly rather than well, and 1 GB for the driver."
    return ["### From every source", "", *said("engines_speed_sources"), spark, "", *lines_of(heads, rows), "", shown]


def memory() -> list[str]:
    """Memory and time against rows."""
    table = pd.read_csv(OUTPUT / "engines_memory.csv")
    heads = [
        "question",
        "rows",
        "seconds",
        "processor seconds",
        "peak MB",
        "anonymous MB",
        "bytes a row on disk",
        "load",
    ]
    rows = [
        (row["question"], f"{row['rows']:,}", f"{row['seconds']:.2f}", f"{row['processor seconds']:.2f}",
         f"{row['peak MB']:.0f}", f"{row['anonymous MB']:.0f}", f"{row['bytes a row']:.0f}", f"{row['load']:.1f}")
        for _, row in table.iterrows()
    ]  # fmt: skip
    shown = picture("Seconds and peak memory against rows", "engines_memory")
    spilled = people(table)
    return ["### Memory, and time against rows", "", *said("engines_memory"), "", *lines_of(heads, rows), "", *spilled,
            "", shown]  # fmt: skip


def people(table: pd.DataFrame) -> list[str]:
    """Rows of people that are spilled in a second."""
    mine = table[table["question"] == "people"]
    each = "; ".join(
        f"{row['rows']:,} rows in {row['seconds']:.1f} s, {row['rows'] / row['seconds'] / 1e6:.1f} million a second"
        for _, row in mine.iterrows()
    )
    return [f"People with several rows, spilled, chosen and read again: {each}."]


def scale() -> list[str]:
    """What many rows would take on a cluster, and what the driver would be sent."""
    table, many = (pd.read_csv(OUTPUT / f"engines_scale{part}.csv") for part in ("", "_wide"))
    hours = [name for name in table if name.startswith("hours")]
    heads = ["question", "passes", "worker, ns a row", "driver, ns a row", *hours, "GB to the driver"]
    rows = [
        (row["question"], f"{row['passes']:.0f}",
         *(shown(row[name]) for name in ("worker ns a row", "driver ns a row", *hours, "GB to the driver")))
        for _, row in table.iterrows()
    ]  # fmt: skip
    wide = [
        tuple(f"{cell:,.3g}" if place else f"{cell:,.0f}" for place, cell in enumerate(row)) for row in many.to_numpy()
    ]
    return [
        "### Ten thousand million rows", "", *said("engines_scale"), "", *lines_of(heads, rows), "",
        picture("Hours against workers", "engines_scale"), "",
        "Wide questions: what the driver is sent, and its processor time to add it up. "
        + " ".join(notes_of("engines_scale_wide")),
        "", *lines_of(list(many), wide),
    ]  # fmt: skip


def shown(number: float) -> str:
    """Write a number, or that there is none."""
    return "not timed" if pd.isna(number) else f"{number:.3g}"

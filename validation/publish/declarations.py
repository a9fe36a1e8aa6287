"""The measured sections of the page on codebooks."""

from __future__ import annotations

import pandas as pd

from validation.common.outputs import OUTPUT

__all__ = ["cells", "faults"]


def faults() -> str:
    """What wrong declarations cost in rows, beside those of the codebook."""
    table = pd.read_csv(OUTPUT / "declarations.csv")
    lines = ["| wrong declaration | rows kept | as in the codebook | `schema.check` tells it |", "|---|---|---|---|"]
    for name, *kept, told in table.itertuples(index=False):
        shares = " | ".join(f"{share:.1%}" for share in kept)
        lines.append(f"| {name} | {shares} | {told} |")
    picture = "![Rows kept under each declaration](../validation/output/declarations.png)"
    return "\n".join([*lines, "", picture])


def cells() -> str:
    """Processor time of reading a cell."""
    table = pd.read_csv(OUTPUT / "cells_speed.csv")
    rows = [f"| {name} | {time:,.0f} |" for name, time in table.itertuples(index=False)]
    return "\n".join(["| cells | nanoseconds a cell |", "|---|---|", *rows])

"""What a wrong declaration costs in rows, and whether a comparison with the codebook tells it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.schema import Column
from validation.common.outputs import Options, new_figure, write_figure, write_table
from validation.common.rules import Claim

ROWS = 6000
PRICE = dpi.ZCDP(1e4)
"""So high that the noise of a count is below a hundredth of a row."""


class Fault(NamedTuple):
    """A declaration beside that of the codebook, the possible cells, and those that are missing in truth."""

    wrong: Column
    right: Column
    cells: Sequence[object]
    missing: Sequence[object] = ()


FAULTS = {
    "truth values coded 1 and 2": Fault(dpi.Boolean(), dpi.Boolean(true=1, false=2), [1, 2]),
    "truth values coded Yes and No": Fault(dpi.Boolean(), dpi.Boolean(true="Yes", false="No"), ["Yes", "No"]),
    "a misspelt level": Fault(
        dpi.Category(["femal", "male"]), dpi.Category(["female", "male"]), ["female", "male", "male"]
    ),
    "levels for their codes": Fault(dpi.Category(["low", "high"]), dpi.Category(["low", "high"], codes=[1, 2]), [1, 2]),
    "dates as numbers": Fault(
        dpi.Real(0, 100), dpi.Date("1920-01-01", "2009-12-31"), [dt.date(year, 7, 1) for year in range(1930, 2000)]
    ),
    "a code of no answer as a number": Fault(
        dpi.Real(0, 100), dpi.Real(0, 100, missing_codes=[-9]), range(18, 90), [-9] * 18
    ),
    "decimals of a database": Fault(dpi.Real(0, 100), dpi.Real(0, 100), [Decimal(one) / 4 for one in range(400)]),
}


def rows_kept(column: Column, frame: pd.DataFrame, rng: np.random.Generator) -> float:
    """Rows that a table or a histogram counts."""
    data = dpi.PublicData(frame, dpi.Schema(x=column), rng=rng)
    question = dpi.table("x", data) if column.level_texts else dpi.histogram("x", data, bins=4)
    return float(question.fit(PRICE).params.sum())


def run(arguments: Options) -> list[Claim]:
    """Measure, write the table and the figure."""
    rng = np.random.default_rng(arguments.seed)
    rows = []
    for name, fault in FAULTS.items():
        possible = [*fault.cells, *fault.missing]
        chosen = rng.integers(0, len(possible), ROWS)
        frame = pd.DataFrame({"x": pd.Series([possible[place] for place in chosen], dtype=object)})
        answered = int((chosen < len(fault.cells)).sum())
        told = not dpi.Schema(x=fault.wrong).check(dpi.Schema(x=fault.right))
        kept = [rows_kept(column, frame, rng) / answered for column in (fault.wrong, fault.right)]
        rows.append([name, *kept, "yes" if told else "no fault" if fault.wrong == fault.right else "no"])
    table = pd.DataFrame(rows, columns=["declaration", "rows kept", "rows kept as in the codebook", "check tells it"])
    notes = [f"{ROWS:,} rows; shares of the rows with an answer. Above 1: rows without an answer count as numbers."]
    write_table(table, "declarations", arguments, notes)
    figure, axes = new_figure(7, 3)
    place = np.arange(len(table))[::-1]
    axes.barh(place + 0.2, table["rows kept as in the codebook"], 0.36, color="#4477aa", label="as in the codebook")
    axes.barh(place - 0.2, table["rows kept"], 0.36, color="#ee6677", label="wrongly declared")
    axes.set_yticks(place, table["declaration"])
    axes.set_xlabel("rows kept, of those with an answer")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper right", ncols=2, frameon=False, fontsize="small")
    write_figure(figure, "declarations", arguments)
    least = float(table["rows kept as in the codebook"].min())
    silent = int((table["check tells it"] == "no").sum())
    design = f"{len(FAULTS)} declarations, n = {ROWS:,}"
    return [
        Claim("least share of rows kept as the codebook declares them", design, f"{least:.4f}", least > 0.9999),
        Claim("wrong declarations that a comparison with the codebook does not tell", design, f"{silent}", not silent),
    ]

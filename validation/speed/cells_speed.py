"""Speed of reading cells: decimals and dates of each storage, beside floats that have codes of missing cells."""

from __future__ import annotations

import datetime as dt
import time
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa

import dpinfer as dpi
from dpinfer.kernel.sources import open_source
from dpinfer.schema import Column
from validation.common.outputs import Options, write_figure, write_table
from validation.common.rules import Claim
from validation.common.timing import bars, seconds

ROWS = 500_000


def storages() -> dict[str, tuple[Column, object]]:
    """Tables of one column, with its declaration."""
    number, day = dpi.Real(0, 1e4), dpi.Date("1990-01-01", "2030-12-31")
    whole = np.arange(ROWS)
    decimals = [Decimal(one) / 100 for one in range(ROWS)]
    moments = np.datetime64("2000-01-01", "s") + whole
    dates = pd.Series([dt.date(2000, 1, 1) + dt.timedelta(one % 5000) for one in range(ROWS)], dtype=object)
    return {
        "floats with missing codes": (dpi.Real(0, 1e4, missing_codes=[-9, -8]), pd.DataFrame({"x": whole / 100})),
        "decimals of Arrow": (number, pa.table({"x": pa.array(decimals, pa.decimal128(12, 2))})),
        "decimals as objects": (number, pd.DataFrame({"x": pd.Series(decimals, dtype=object)})),
        "times of pandas": (day, pd.DataFrame({"x": moments.astype("M8[ns]")})),
        "times of Arrow": (day, pa.table({"x": pa.array(moments)})),
        "dates as objects": (day, pd.DataFrame({"x": dates})),
        "times as texts": (day, pd.DataFrame({"x": pd.Series(np.datetime_as_string(moments)).astype("str")})),
    }


def reading(column: Column, table: object) -> float:
    """Processor time of reading all cells once."""
    source = open_source(table)
    return seconds(lambda: column.coerce(source.read(["x"], 0, source.rows)["x"]), clock=time.process_time)


def run(arguments: Options) -> list[Claim]:
    """Measure, write the table and the figure."""
    found = {
        name: float(np.median([reading(column, table) for _ in range(arguments.replicates)])) / ROWS * 1e9
        for name, (column, table) in storages().items()
    }
    table = pd.DataFrame({"cells": list(found), "nanoseconds a cell": list(found.values())})
    write_table(table, "cells_speed", arguments, [f"{ROWS:,} cells; median of {arguments.replicates} rounds."])
    figure = bars(found, "nanoseconds a cell", size=(7, 2.8), log=True)
    write_figure(figure, "cells_speed", arguments)
    arrow, design = found["decimals of Arrow"], f"{ROWS:,} cells of decimal128(12, 2)"
    ratio = found["decimals as objects"] / arrow
    return [
        Claim(
            "nanoseconds to read a decimal of Arrow (at most 100)", design, f"{arrow:.0f}", arrow <= 100, kind="time"
        ),
        Claim("times faster than decimals as objects (at least 5)", design, f"{ratio:.0f}", ratio >= 5, kind="time"),
    ]

"""Speed and memory of a private fit: ratios to peers measured in one run."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import statsmodels.api as sm

import dpinfer as dpi
from validation.common.outputs import Options, write_figure, write_table
from validation.common.rules import Claim
from validation.common.timing import REST, bars, in_turns, peak_memory

ROWS, REGRESSORS = 1_000_000, 10

MEMORY = """
    import dpinfer as dpi
    from validation.speed.ols_speed import make_data, procedure

    procedure(*make_data(1000)).fit(dpi.ZCDP(0.1))  # loads libraries
    frame, schema = make_data({rows})
    bound = procedure(frame, schema)
"""


def make_data(n: int) -> tuple[pd.DataFrame, dpi.Schema]:
    """A float64 frame with ten regressors, and its schema."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (n, REGRESSORS))
    frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(REGRESSORS)])
    frame["y"] = np.clip(x @ np.full(REGRESSORS, 0.1) + 0.3 * rng.normal(size=n), -3, 3)
    columns = {f"x{j}": dpi.Real(-1, 1) for j in range(REGRESSORS)}
    return frame, dpi.Schema({**columns, "y": dpi.Real(-3, 3)})


def procedure(frame: pd.DataFrame, schema: dpi.Schema) -> dpi.Procedure:
    """The regression, bound to the frame as private data with a budget for many fits."""
    data = dpi.PrivateData(frame, schema, dpi.Ledger.in_memory(dpi.ZCDP(1e6)))
    return dpi.ols("y ~ " + " + ".join(f"x{j}" for j in range(REGRESSORS)), data, method="gram")


def import_time(statement: str) -> float:
    """Seconds that an import takes in a fresh interpreter."""
    code = f"import time; s = time.perf_counter(); {statement}; print(time.perf_counter() - s)"
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def run(arguments: Options) -> list[Claim]:
    """Measure, write the table and the figure."""
    frame, schema = make_data(ROWS)
    bound = procedure(frame, schema)
    design = sm.add_constant(frame[[f"x{j}" for j in range(REGRESSORS)]].to_numpy())
    response = frame["y"].to_numpy()
    actions = {
        "private fit": lambda: bound.fit(dpi.ZCDP(0.1)),
        "bare X.T @ X": lambda: design.T @ design,
        "statsmodels OLS fit": lambda: sm.OLS(response, design).fit(),
    }
    middle, tight = (in_turns(actions, arguments.replicates, rest).median() for rest in (REST, 0.0))
    hurried = tight["statsmodels OLS fit"] / tight["private fit"]
    modules = {"dpinfer": [], "statsmodels.api": []}
    for _ in range(arguments.replicates):
        for name, values in modules.items():
            values.append(import_time(f"import {name}"))
    started = {name: float(np.median(values)) for name, values in modules.items()}
    memory = peak_memory(MEMORY.format(rows=ROWS), "bound.fit(dpi.ZCDP(0.1))")
    rows = [
        ("statsmodels OLS fit / private fit", middle["statsmodels OLS fit"] / middle["private fit"], "at least 8"),
        ("private fit / bare X.T @ X", middle["private fit"] / middle["bare X.T @ X"], "at most 5"),
        ("import dpinfer / import statsmodels.api", started["dpinfer"] / started["statsmodels.api"], "at most 1.6"),
        ("peak memory of a private fit above the data (MB)", memory, "at most 60"),
    ]
    table = pd.DataFrame(rows, columns=["what", "measured", "required"])
    notes = [
        f"n = {ROWS:,}, {REGRESSORS} regressors, in-memory float64 frame; "
        f"medians of {arguments.replicates} alternating rounds, each action after a rest of {REST:g} s. "
        f"Without the rest, when threads of the linear algebra library still spin, the first ratio "
        f"is {hurried:.2f}."
    ]
    write_table(table, "ols_speed", arguments, notes)
    shown = middle / middle["bare X.T @ X"]
    figure = bars(shown, "time relative to a bare X.T @ X", size=(6.4, 2.6), style="%.1f",
                  title=f"One million rows, {REGRESSORS} regressors",
                  color=["#4477aa", "#bbbbbb", "#bbbbbb"])  # fmt: skip
    write_figure(figure, "ols_speed", arguments)
    held = (rows[0][1] >= 8, rows[1][1] <= 5, rows[2][1] <= 1.6, rows[3][1] <= 60)
    design = (
        f"n = {ROWS:,}, {REGRESSORS} regressors, float64 frame in memory; each action after a rest of {REST:g} s "
        f"(first ratio without it: {hurried:.2f})"
    )
    return [
        Claim(what, design, f"{value:.2f} ({required})", ok)
        for (what, value, required), ok in zip(rows, held, strict=True)
    ]

"""Speed and memory of regressions by noisy rounds: ratios to statsmodels, pairs of fits in one run."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import special
from tqdm import tqdm

import dpinfer as dpi
from validation.common.outputs import Options, write_figure, write_table
from validation.common.rules import Claim
from validation.common.timing import REST, bars, peak_memory

ROWS, QUICK_ROWS, REGRESSORS = 1_000_000, 100_000, 10
FULL = 5
"""Replicates from which on the tables have all rows."""

PRICE = dpi.ZCDP(0.1)
NAMES = [f"x{j}" for j in range(REGRESSORS)]

MEMORY = """
    from validation.speed.newton_speed import PRICE, asked, make_data

    asked(*make_data(2000))["{name}"].fit(PRICE)  # loads libraries
    question = asked(*make_data({rows}))["{name}"]
"""


def make_data(n: int) -> tuple[pd.DataFrame, dpi.Schema]:
    """A float64 frame with ten regressors, a numeric response and one that is 0 or 1, and its schema."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (n, REGRESSORS))
    frame = pd.DataFrame(x, columns=NAMES)
    frame["y"] = np.clip(x @ np.full(REGRESSORS, 0.1) + 0.3 * rng.normal(size=n), -3, 3)
    frame["b"] = (rng.random(n) < special.expit(x @ np.full(REGRESSORS, 0.3))).astype(float)
    columns = {name: dpi.Real(-1, 1) for name in NAMES}
    return frame, dpi.Schema({**columns, "y": dpi.Real(-3, 3), "b": dpi.Integer(0, 1)})


def asked(frame: pd.DataFrame, schema: dpi.Schema) -> dict[str, dpi.Procedure]:
    """The regressions, bound to the frame as private data with a budget for many fits."""
    data = dpi.PrivateData(frame, schema, dpi.Ledger.in_memory(dpi.ZCDP(1e6)))
    right = " + ".join(NAMES)
    return {"logit": dpi.logit(f"b ~ {right}", data), "ols": dpi.ols(f"y ~ {right}", data)}


def timed(action) -> tuple[float, float]:
    """Seconds on the clock, and of processors, that an action takes."""
    time.sleep(REST)
    clock, worked = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - clock, time.process_time() - worked


def run(arguments: Options) -> list[Claim]:
    """Measure, write the table and the figure."""
    rows = ROWS if arguments.replicates >= FULL else QUICK_ROWS
    frame, schema = make_data(rows)
    questions = asked(frame, schema)
    design = sm.add_constant(frame[NAMES].to_numpy())
    response, binary = frame["y"].to_numpy(), frame["b"].to_numpy()
    actions = {
        "logit by rounds": lambda: questions["logit"].fit(PRICE),
        "sm.Logit(...).fit()": lambda: sm.Logit(binary, design).fit(disp=0),
        "ols by rounds": lambda: questions["ols"].fit(PRICE),
        'sm.OLS(...).fit(cov_type="HC1")': lambda: sm.OLS(response, design).fit(cov_type="HC1"),
    }
    for action in actions.values():
        action()
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in actions}
    for _ in tqdm(range(arguments.replicates), desc="rounds"):
        for name, action in actions.items():
            seconds[name].append(timed(action))
    logit, theirs, ols, robust = (np.array(seconds[name]) for name in actions)
    pairs = {"sm.Logit / logit by rounds": theirs / logit, "ols by rounds / sm.OLS HC1": ols / robust}
    clock = {name: float(np.median(one[:, 0])) for name, one in pairs.items()}
    work = {name: float(np.median(one[:, 1])) for name, one in pairs.items()}
    first, second = pairs
    memory = {name: peak_memory(MEMORY.format(name=name, rows=rows), "question.fit(PRICE)") for name in questions}
    listed = [
        (first, clock[first], work[first], "at least 2", clock[first] >= 2),
        (second, clock[second], work[second], "at most 2", clock[second] <= 2),
        *(
            (f"peak memory of {name} above the data (MB)", found, np.nan, "at most 80", found <= 80)
            for name, found in memory.items()
        ),
    ]
    table = pd.DataFrame(listed, columns=["what", "measured", "by processor time", "required", "held"])
    middle = {name: np.median(np.array(values), axis=0) for name, values in seconds.items()}
    notes = [
        f"n = {rows:,}, {REGRESSORS} regressors, float64 frame in memory, {PRICE}; medians of the ratios of "
        f"{arguments.replicates} pairs of neighbouring fits, each after a rest of {REST:g} s.",
        "Seconds on the clock (of processors), medians: "
        + "; ".join(f"{name} {one[0]:.2f} ({one[1]:.2f})" for name, one in middle.items())
        + ".",
    ]
    write_table(table, "newton_speed", arguments, notes)
    figure = bars({name: one[0] for name, one in middle.items()}, "seconds", size=(6.4, 2.6), style="%.2f",
                  title=f"{rows:,} rows, {REGRESSORS} regressors", color=["#4477aa", "#bbbbbb"] * 2)  # fmt: skip
    write_figure(figure, "newton_speed", arguments)
    made = f"n = {rows:,}, {REGRESSORS} regressors, pairs in one run"
    return [
        Claim(f"{what} ({required})", made, f"{measured:.2f}", held) for what, measured, _, required, held in listed
    ]

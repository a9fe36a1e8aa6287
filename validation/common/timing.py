"""Times of actions, each in turn, and their bars; memory of a call, measured in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from tqdm import tqdm

REST = 0.3
"""Seconds of rest before an action: threads of the linear algebra library spin for a while after each call, and would
run into the next one."""

_WATCHED = """
import threading, time

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

{before}
before, peak, stop = resident(), 0.0, False

def watch():
    global peak
    while not stop:
        peak = max(peak, resident())
        time.sleep(0.0005)

thread = threading.Thread(target=watch)
thread.start()
{watched}
stop = True
thread.join()
print(peak - before)
"""


def seconds(action: Callable[[], Any], rest: float = 0.0, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of one call, after a rest."""
    time.sleep(rest)
    start = clock()
    action()
    return clock() - start


def in_turns(actions: Mapping[str, Callable[[], Any]], rounds: int, rest: float = REST) -> pd.DataFrame:
    """Seconds of every action, a row for each round; before the first one all are called once."""
    for action in actions.values():
        action()
    return pd.DataFrame(
        [{name: seconds(action, rest) for name, action in actions.items()} for _ in tqdm(range(rounds), desc="rounds")]
    )


def bars(
    values: Mapping[str, float] | pd.Series,
    label: str,
    *,
    size: tuple[float, float] = (7, 2.6),
    style: str = "",
    title: str = "",
    most: float | None = None,
    log: bool = False,
    color: Any = "#4477aa",
) -> Figure:
    """Horizontal bars, the first one on top; written on as ``style`` says, with a line at the most that is allowed."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.barh(list(values.keys()), list(values.values() if isinstance(values, Mapping) else values), color=color)
    axes.invert_yaxis()
    if style:
        axes.bar_label(axes.containers[0], fmt=style, padding=3)
        axes.margins(x=0.12)
    if most is not None:
        axes.axvline(most, color="firebrick", ls="--", lw=0.9)
    axes.set(xlabel=label, title=title, xscale="log" if log else "linear")
    return figure


def peak_memory(before: str, watched: str) -> float:
    """Return the megabytes that running ``watched`` takes above what ``before`` leaves; both are Python."""
    code = _WATCHED.format(before=textwrap.dedent(before), watched=textwrap.dedent(watched))
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(found.stdout)

"""Times of actions, each in turn, and their bars; memory of a call, measured in a process of its own."""

from __future__ import annotations

import resource
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
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


Action = Callable[[], Any]

LEAST = 0.05
"""Seconds that are timed at once, at least: short calls are made several times."""


class Took(NamedTuple):
    """Seconds on the clock, and of processors in this process and in those that it started and that have ended.

    An action that measures itself returns its own.
    """

    clock: float
    processor: float


def processor_seconds() -> float:
    """Return the processor time of this process so far, and of all that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def took(action: Action, rest: float = 0.0, least: float = 0.0) -> Took:
    """Time a call after a rest, or the mean of as many as take ``least`` seconds."""
    time.sleep(rest)
    calls, clock, worked = 0, time.perf_counter(), processor_seconds()
    while True:
        found, calls = action(), calls + 1
        if isinstance(found, Took):
            return found
        if (passed := time.perf_counter() - clock) >= least:
            return Took(passed / calls, (processor_seconds() - worked) / calls)


def in_turns(
    actions: Mapping[str, Action], rounds: int, *, rest: float = REST, most: float = np.inf
) -> dict[str, np.ndarray]:
    """Time all actions in turn, again and again, after a round that is not counted.

    Returns
    -------
    dict
        `Took` of every action (rounds, 2): as many rounds as fit into ``most`` seconds, if each is as long as the one
        that is not counted. If none does, that one.
    """
    first = {name: took(action) for name, action in actions.items()}
    rounds = int(min(rounds, most / sum(one.clock + rest for one in first.values())))
    every = tqdm(range(rounds), desc="rounds")
    found = [[took(action, rest, LEAST) for action in actions.values()] for _ in every] or [[*first.values()]]
    return dict(zip(actions, np.array(found).swapaxes(0, 1), strict=True))


def bars(values: Mapping[str, float], label: str, most: float) -> Figure:
    """Horizontal bars on a scale of logarithms, the first one on top, with a line at the most that is allowed."""
    figure = Figure(figsize=(8, 0.2 * len(values) + 0.6), layout="constrained")
    axes = figure.subplots()
    axes.barh([*values], [*values.values()], color="#4477aa")
    axes.invert_yaxis()
    axes.axvline(most, color="firebrick", ls="--", lw=0.9)
    axes.margins(y=0.01)
    axes.tick_params(axis="y", labelsize=7)
    axes.set(xlabel=label, xscale="log")
    return figure


def peak_memory(before: str, watched: str) -> float:
    """Return the megabytes that running ``watched`` takes above what ``before`` leaves; both are Python."""
    code = _WATCHED.format(before=textwrap.dedent(before), watched=textwrap.dedent(watched))
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(found.stdout)

"""Time and memory of a bootstrap of noisy sums, against one pass of the kernel over the same column."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.privacy.resampling import DOUBLE_OR_NOTHING, composed, dominating_mu, noise_mu
from validation.common.outputs import Options, new_figure, write_figure, write_table
from validation.common.rules import Claim
from validation.common.timing import REST, in_turns, seconds

ROWS, REPLICATES, FEW = 1_000_000, 200, 20
SLOWEST, MOST = 60.0, 200.0
"""Passes of the kernel that a bootstrap may last, and megabytes that it may take above the data."""

SCHEMA = dpi.Schema(x=dpi.Real(0, 1))
PRICE = dpi.GDP(1.0)


def guarded(rows: int, seed: int) -> dpi.PrivateData:
    """One confidential column."""
    frame = pd.DataFrame({"x": np.random.default_rng(seed).random(rows)})
    return dpi.PrivateData(frame, SCHEMA, dpi.Ledger.in_memory(dpi.GDP(1000.0)))


def memory_of_this() -> tuple[float, float]:
    """Megabytes that this process holds, and the most that it ever held.

    The system's account of this program alone where there is one: what getrusage says starts, in a new process, at the
    memory of the one that started it.
    """
    status = Path("/proc/self/status")
    if status.exists():
        said = status.read_text(encoding="ascii")
        now, most = (float(said.split(f"{name}:")[1].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
        return now, most
    unit = 1024**2 if sys.platform == "darwin" else 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return most, most


def peaks(kind: str, rows: int, seed: int) -> tuple[float, float]:
    """Megabytes with the data in place and all code loaded, and at most until it was measured; in a new process."""
    ask(kind, guarded(1000, seed)).measure(PRICE)
    data = guarded(rows, seed)
    before, _ = memory_of_this()
    ask(kind, data).measure(PRICE)
    return before, memory_of_this()[1]


def ask(kind: str, data: dpi.PrivateData, replicates: int = REPLICATES) -> Any:
    """Return the mean, once or bootstrapped."""
    return dpi.mean("x", data) if kind == "mean" else dpi.bootstrap("x", data, replicates=replicates)


def memory(rows: int, seed: int) -> pd.DataFrame:
    """Megabytes above the data of either measurement."""
    found = []
    for kind in ("mean", "bootstrap"):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            before, after = pool.submit(peaks, kind, rows, seed).result()
        found.append({"measurement": kind, "rows": rows, "MB before": before, "MB at most": after,
                      "MB above": after - before})  # fmt: skip
    return pd.DataFrame(found)


def calibrated() -> float:
    """Seconds to find the noise of a bootstrap at a price that was not asked for before."""
    for cached in (composed, dominating_mu, noise_mu):
        cached.cache_clear()
    return seconds(lambda: noise_mu(DOUBLE_OR_NOTHING, 1.0, REPLICATES), REST)


def run(arguments: Options) -> list[Claim]:
    """Measure memory in other processes, then time every measurement in turn."""
    rounds = max(arguments.replicates, 1)
    rows = ROWS if rounds > 1 else ROWS // 5
    held = memory(rows, arguments.seed)
    search = calibrated()
    data = guarded(rows, arguments.seed)
    ways: dict[str, Callable[[], Any]] = {
        "mean": lambda: ask("mean", data).measure(PRICE),
        f"bootstrap, B = {FEW}": lambda: ask("bootstrap", data, FEW).measure(PRICE),
        f"bootstrap, B = {REPLICATES}": lambda: ask("bootstrap", data).measure(PRICE),
        f"bootstrap, B = {REPLICATES}, Poisson weights": lambda: dpi.bootstrap(
            "x", data, replicates=REPLICATES, weights="poisson"
        ).measure(PRICE),
    }
    found = in_turns(ways, rounds)
    table = pd.DataFrame({"measurement": list(found), "rows": rows, "seconds": found.median().to_numpy()})
    table["over the mean's"] = [float((found[name] / found["mean"]).median()) for name in found]
    notes = [
        f"dpi.PrivateData in memory, n = {rows:,}, one column; medians of rounds, ratios within a round. The noise of "
        f"a new price is found once, in {search:.2f} s, and is not counted.",
    ]
    write_table(table, "bootstrap_speed", arguments, notes)
    write_table(held, "bootstrap_memory", arguments, ["Each in a process of its own, after a small run of the same."])
    figure, axes = new_figure(8, 2.6)
    axes.barh(table["measurement"], table["seconds"], color=["C0", "C1", "C1", "C2"])
    for place, (took, ratio) in enumerate(zip(table["seconds"], table["over the mean's"], strict=True)):
        axes.text(took, place, f" {ratio:.1f} times", va="center", fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel(f"seconds to measure n = {rows:,} rows")
    write_figure(figure, "bootstrap_speed", arguments)
    ratio = float(table["over the mean's"].iloc[2])
    above = float(held["MB above"].iloc[1])
    design = f"n = {rows:,}, B = {REPLICATES}, one column"
    return [
        Claim("time of a bootstrap over one pass of the kernel", design, f"{ratio:.1f}", ratio < SLOWEST),
        Claim("memory of a bootstrap above the data, MB", design, f"{above:.0f}", above < MOST),
    ]

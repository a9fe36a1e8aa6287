"""Time of sample-and-aggregate against the same fits run bare, and of the library's own steps against statsmodels."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from matplotlib.figure import Figure

import dpinfer as dpi
from dpinfer.resampling.models import newton
from validation.blocks.block_designs import POPULATIONS
from validation.common.claims import Claim
from validation.common.outputs import Options, options, write_figure, write_table

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, BLOCKS = 1_000_000, 500
REST = 0.3


def timed(work: Callable[[], Any]) -> float:
    """Seconds of one call, after a rest."""
    time.sleep(REST)
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def bare(frame: pd.DataFrame, blocks: int, *, prepared: bool) -> None:
    """Fit every block and its halves with statsmodels in a loop: by formula, or from arrays made beforehand."""
    size = len(frame) // blocks
    x = np.column_stack([np.ones(len(frame)), frame[[name for name in frame if name != "y"]]])
    y = frame["y"].to_numpy(dtype=float)
    formula = "y ~ " + " + ".join(name for name in frame if name != "y")
    for block in range(blocks):
        whole = slice(block * size, (block + 1) * size)
        middle = (whole.start + whole.stop) // 2
        for mine in (whole, slice(whole.start, middle), slice(middle, whole.stop)):
            if prepared:
                sm.Logit(y[mine], x[mine]).fit(disp=0)
            else:
                smf.logit(formula, frame[mine]).fit(disp=0)


def steps(frame: pd.DataFrame, blocks: int) -> None:
    """Fit every block and its halves by the library's own steps, from arrays made beforehand."""
    size = len(frame) // blocks
    x = np.column_stack([np.ones(len(frame)), frame[[name for name in frame if name != "y"]]])
    y = frame["y"].to_numpy(dtype=float)
    for block in range(blocks):
        whole = slice(block * size, (block + 1) * size)
        middle = (whole.start + whole.stop) // 2
        for mine in (whole, slice(whole.start, middle), slice(middle, whole.stop)):
            newton(sm.Logit, y[mine], x[mine])


def run(arguments: Options) -> list[Claim]:
    """Time every way in turn, several times, and compare medians of ratios within rounds."""
    rounds = max(arguments.replicates, 1)
    rows, blocks = (ROWS, BLOCKS) if rounds > 1 else (ROWS // 20, BLOCKS // 10)
    population = POPULATIONS[0]
    rng = np.random.default_rng(arguments.seed)
    y, x = population.draw(rng, rows)
    frame = pd.DataFrame({f"x{place}": x[:, place + 1] for place in range(x.shape[1] - 1)} | {"y": y.astype(int)})
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1000.0))
    data = dpi.PrivateData(frame, population.schema, ledger)

    def ask(**extra: Any) -> Any:
        asked = {"model": smf.logit, "blocks": blocks, "bounds": population.bounds, "n_jobs": 1, **extra}
        return dpi.sample_aggregate(population.formula, data, **asked)

    own, apart = ask(), ask(fit_options={"method": "newton"})  # with an option statsmodels itself is called
    ask().measure(dpi.ZCDP(0.5))
    ways: dict[str, Callable[[], Any]] = {
        "bare, by formula": lambda: bare(frame, blocks, prepared=False),
        "bare, arrays prepared": lambda: bare(frame, blocks, prepared=True),
        "steps, arrays prepared": lambda: steps(frame, blocks),
        "sample_aggregate": lambda: own.measure(dpi.ZCDP(0.5)),
        "sample_aggregate, statsmodels in other processes": lambda: apart.measure(dpi.ZCDP(0.5)),
    }
    found = pd.DataFrame([{name: timed(work) for name, work in ways.items()} for _ in range(rounds)])
    table = pd.DataFrame({"way": list(found), "seconds": found.median().to_numpy()})
    for base in list(found)[:2]:
        table[f"over {base}"] = [float((found[name] / found[base]).median()) for name in found]
    notes = [
        f"n = {rows:,}, {blocks} blocks, logit with 4 slopes, a block and its halves fitted: {3 * blocks:,} fits. One "
        "process. Medians of rounds; ratios within a round.",
    ]
    write_table(table, "aggregate_speed", arguments, notes)
    figure = Figure(figsize=(8.5, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.barh(list(found), found.median(), color=["C0", "C0", "C1", "C2", "C2"])
    axes.invert_yaxis()
    axes.set_xlabel(f"seconds for {3 * blocks:,} fits on {rows:,} rows")
    write_figure(figure, "aggregate_speed", arguments)
    ratio = table.set_index("way")
    whole = float(ratio.loc["sample_aggregate, statsmodels in other processes", "over bare, by formula"])
    quick = float(1 / ratio.loc["steps, arrays prepared", "over bare, arrays prepared"])
    mine = float(ratio.loc["sample_aggregate", "over bare, by formula"])
    design = f"logit, {blocks} blocks, n = {rows:,}"
    return [
        Claim("time of sample_aggregate by statsmodels over the same fits bare", design, "", f"{whole:.2f}", "",
              whole <= 1.5),
        Claim("time of sample_aggregate over the same fits by formula", design, "", f"{mine:.2f}", "", mine <= 1.5),
        Claim("own steps: times faster than statsmodels block by block", design, "", f"{quick:.1f}", "", quick >= 2),
    ]  # fmt: skip


if __name__ == "__main__":
    run(options("speed.aggregate_speed", __doc__ or "", replicates=3))

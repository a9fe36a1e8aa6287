"""Time of sample-and-aggregate against the same fits run bare, and of the library's own steps against statsmodels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.resampling.models import newton
from validation.blocks.block_designs import POPULATIONS
from validation.common.outputs import Options, write_figure, write_table
from validation.common.rules import Claim
from validation.common.timing import bars, in_turns

ROWS, BLOCKS = 1_000_000, 500


def parts(frame: pd.DataFrame, blocks: int, fit: Callable[[slice], Any]) -> None:
    """Fit every block and its halves in a loop."""
    size = len(frame) // blocks
    for block in range(blocks):
        whole = slice(block * size, (block + 1) * size)
        middle = (whole.start + whole.stop) // 2
        for mine in (whole, slice(whole.start, middle), slice(middle, whole.stop)):
            fit(mine)


def prepared(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Response and regressors as arrays."""
    x = np.column_stack([np.ones(len(frame)), frame[[name for name in frame if name != "y"]]])
    return frame["y"].to_numpy(dtype=float), x


def by_formula(frame: pd.DataFrame, blocks: int) -> None:
    """Fit by formula."""
    formula = "y ~ " + " + ".join(name for name in frame if name != "y")
    parts(frame, blocks, lambda mine: smf.logit(formula, frame[mine]).fit(disp=0))


def by_arrays(frame: pd.DataFrame, blocks: int) -> None:
    """Fit from arrays made beforehand."""
    y, x = prepared(frame)
    parts(frame, blocks, lambda mine: sm.Logit(y[mine], x[mine]).fit(disp=0))


def by_steps(frame: pd.DataFrame, blocks: int) -> None:
    """Fit by the library's own steps, from arrays made beforehand."""
    y, x = prepared(frame)
    parts(frame, blocks, lambda mine: newton(sm.Logit, y[mine], x[mine]))


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
    ways: dict[str, Callable[[], Any]] = {
        "bare, by formula": lambda: by_formula(frame, blocks),
        "bare, arrays prepared": lambda: by_arrays(frame, blocks),
        "steps, arrays prepared": lambda: by_steps(frame, blocks),
        "sample_aggregate": lambda: own.measure(dpi.ZCDP(0.5)),
        "sample_aggregate, statsmodels in other processes": lambda: apart.measure(dpi.ZCDP(0.5)),
    }
    found = in_turns(ways, rounds)
    table = pd.DataFrame({"way": list(found), "seconds": found.median().to_numpy()})
    for base in list(found)[:2]:
        table[f"over {base}"] = [float((found[name] / found[base]).median()) for name in found]
    notes = [
        f"n = {rows:,}, {blocks} blocks, logit with 4 slopes, a block and its halves fitted: {3 * blocks:,} fits. One "
        "process. Medians of rounds; ratios within a round.",
    ]
    write_table(table, "aggregate_speed", arguments, notes)
    label = f"seconds for {3 * blocks:,} fits on {rows:,} rows"
    figure = bars(found.median(), label, size=(8.5, 3.2), color=["C0", "C0", "C1", "C2", "C2"])
    write_figure(figure, "aggregate_speed", arguments)
    ratio = table.set_index("way")
    whole = float(ratio.loc["sample_aggregate, statsmodels in other processes", "over bare, by formula"])
    quick = float(1 / ratio.loc["steps, arrays prepared", "over bare, arrays prepared"])
    mine = float(ratio.loc["sample_aggregate", "over bare, by formula"])
    design = f"logit, {blocks} blocks, n = {rows:,}"
    return [
        Claim("time of sample_aggregate by statsmodels over the same fits bare", design, f"{whole:.2f}", whole <= 1.5),
        Claim("time of sample_aggregate over the same fits by formula", design, f"{mine:.2f}", mine <= 1.5),
        Claim("own steps: times faster than statsmodels block by block", design, f"{quick:.1f}", quick >= 2),
    ]  # fmt: skip

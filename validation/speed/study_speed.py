"""Speed of coverage studies: ratios to a bare numpy loop and to a loop of statsmodels fits, in one run."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.studies import population
from validation.common.outputs import Options, write_figure, write_table
from validation.common.rules import Claim
from validation.common.timing import bars

ROWS = 1000
ONE = population("uniform")
ORDINARY_REPLICATES = 400


def draw(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    """Five uniform regressors and a normal response."""
    x = rng.uniform(-1.0, 1.0, (5, n))
    y = np.array([0.1, -0.1, 0.1, -0.1, 0.1]) @ x + 0.2 * rng.normal(size=n)
    return {**{f"x{j}": x[j] for j in range(5)}, "y": y}


def study(replicates: int, jobs: int) -> float:
    """Seconds of a coverage study."""
    start = time.perf_counter()
    dpi.coverage_study(
        draw,
        dpi.ols(ONE.formula, method="gram"),
        schema=ONE.schema,
        truth=ONE.truth,
        n=ROWS,
        privacy=dpi.ZCDP(1.0),
        replicates=replicates,
        seed=1,
        n_jobs=jobs,
        progress=False,
    )
    return time.perf_counter() - start


def bare(replicates: int) -> float:
    """Seconds of a loop that only draws the data and computes X.T @ X."""
    rng, one = np.random.default_rng(1), np.ones(ROWS)
    start = time.perf_counter()
    for _ in range(replicates):
        data = draw(rng, ROWS)
        x = np.column_stack([one, *(data[f"x{j}"] for j in range(5))])
        x.T @ x
    return time.perf_counter() - start


def ordinary(replicates: int) -> float:
    """Seconds of a loop of statsmodels fits, scaled up from fewer replicates."""
    rng = np.random.default_rng(1)
    start = time.perf_counter()
    for _ in range(ORDINARY_REPLICATES):
        smf.ols(ONE.formula, pd.DataFrame(draw(rng, ROWS))).fit().conf_int()
    return (time.perf_counter() - start) * replicates / ORDINARY_REPLICATES


def run(arguments: Options) -> list[Claim]:
    """Measure, write the table and the figure."""
    study(500, 1)
    study(500, 2)
    rounds = [
        (
            study(arguments.replicates, 1),
            study(arguments.replicates, 2),
            bare(arguments.replicates),
            ordinary(arguments.replicates),
        )
        for _ in range(3)
    ]
    one, two, loop, fits = np.median(np.array(rounds), axis=0)
    rows = [
        ("study / bare numpy loop", one / loop, "at most 4", one / loop <= 4),
        ("loop of smf.ols(...).fit() / study", fits / one, "at least 5", fits / one >= 5),
        ("one process / two processes", one / two, "at least 1.7", one / two >= 1.7),
    ]
    table = pd.DataFrame([row[:3] for row in rows], columns=["what", "measured", "required"])
    notes = [f"Private OLS, n = {ROWS:,}, 5 regressors, {arguments.replicates:,} replicates; medians of 3 rounds."]
    write_table(table, "study_speed", arguments, notes)
    shown = {"loop of statsmodels fits": fits / loop, "study": one / loop, "study, two processes": two / loop}
    figure = bars(shown | {"bare numpy loop": 1}, "time relative to the bare loop", size=(6.4, 2.4), style="%.1f")
    write_figure(figure, "study_speed", arguments)
    design = f"private OLS, n = {ROWS:,}, 5 regressors, {arguments.replicates:,} replicates"
    return [Claim(what, design, f"{value:.2f} ({required})", ok) for what, value, required, ok in rows]

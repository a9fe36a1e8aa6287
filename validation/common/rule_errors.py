"""Both errors of the rule by which cells are judged, by recursion over the looks: how often what is exact fails."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from validation.common.outputs import Options, new_figure, write_table
from validation.common.rules import ALARM, FAILED, GAP, HELD, LOOKS, OPEN, Claim, judge_shares

NOMINAL = (0.05, 0.01, 0.1)
"""Shares of misses: of intervals at .95, of tests at .01, of intervals at .90."""

TESTS = (1, 10, 100, 1000, 2000)
FOUND = 0.9
SETS = 20_000


def ends(share: float, nominal: float, tests: int) -> tuple[dict[int, float], float]:
    """Return the probabilities of both verdicts, and the mean replicates, of a cell that misses a share."""
    law, before, mean = np.ones(1), 0, 0.0
    found = {FAILED: 0.0, HELD: 0.0}
    for look, count in enumerate(LOOKS):
        mean += (count - before) * law.sum()
        law = np.convolve(law, stats.binom.pmf(np.arange(count - before + 1), count - before, share))
        verdict = judge_shares(np.arange(count + 1), count, nominal, tests, look, len(LOOKS))
        for one in found:
            found[one] += float(law[verdict == one].sum())
        law, before = np.where(verdict == OPEN, law, 0.0), count
    return found, mean


def alarms(nominal: float, tests: int, rng: np.random.Generator) -> float:
    """Return the share of simulated tables of exact cells with a cell that fails."""
    steps = np.diff((0, *LOOKS))
    misses = np.zeros((SETS, tests), dtype=int)
    alive, failed = np.ones_like(misses, dtype=bool), np.zeros(SETS, dtype=bool)
    for look, (step, count) in enumerate(zip(steps, LOOKS, strict=True)):
        misses += rng.binomial(step, nominal, misses.shape)
        verdict = judge_shares(misses, count, nominal, tests, look, len(LOOKS))
        failed |= (alive & (verdict == FAILED)).any(axis=1)
        alive &= verdict == OPEN
    return float(failed.mean())


def run(options: Options) -> list[Claim]:
    """Work out the table, and simulate a part of it."""
    rng, rows = np.random.default_rng(options.seed), []
    for nominal in NOMINAL:
        worse = nominal + GAP * np.sqrt(nominal * (1 - nominal))
        for tests in TESTS:
            exact, mean = ends(nominal, nominal, tests)
            short, to_find = ends(worse, nominal, tests)
            rows.append(
                {
                    "nominal": nominal,
                    "cells": tests,
                    "table of exact cells fails": -np.expm1(tests * np.log1p(-exact[FAILED])),
                    "simulated": alarms(nominal, tests, rng) if tests <= 100 else np.nan,
                    "misses of a short cell": worse,
                    "short cell is found": short[FAILED],
                    "mean replicates, exact": mean,
                    "mean replicates, short": to_find,
                }
            )
    table = pd.DataFrame(rows)
    figure, axes = new_figure(7, 4)
    shares = np.linspace(0.04, 0.08, 41)
    for tests in TESTS[1::2]:
        axes.plot(1 - shares, [ends(one, 0.05, tests)[0][FAILED] for one in shares], label=f"{tests:,} cells")
    axes.axvline(0.95, color="black", lw=0.8)
    axes.set(xlabel="coverage of 95% intervals", ylabel="probability that the cell fails")
    axes.legend(frameon=False)
    note = f"Looks after {', '.join(f'{look:,}' for look in LOOKS)} replicates; simulated: {SETS:,} tables."
    write_table(table, "rule_errors", options, [note], figure)
    alarm, found = (
        table["table of exact cells fails"].max(),
        table.loc[table["nominal"] == NOMINAL[0], "short cell is found"].min(),
    )
    design = f"{TESTS[0]} to {TESTS[-1]:,} cells"
    return [
        Claim("largest probability that a table of exact procedures fails", design, f"{alarm:.4f}", alarm <= ALARM,
              error="exact", threshold=f"at most {ALARM:g}"),
        Claim("least probability that a cell is found that covers .93 where .95 is stated", design,
              f"{found:.3f}", found >= FOUND, error="exact", threshold=f"at least {FOUND:g}"),
    ]  # fmt: skip

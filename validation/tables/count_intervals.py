"""Coverage of intervals for the data's own counts, exactly: by the probabilities of the noise, not by simulation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import dpinfer as dpi
from dpinfer.statistics.combination import measured_queries
from dpinfer.statistics.tails import critical_value
from validation.common.outputs import Options, write_table
from validation.common.rules import Claim

EPSILONS = np.round(np.arange(0.1, 5.01, 0.05), 2)
CELLS = (1, 2, 5, 20, 100)
"""Cells that are added up."""

LEVELS = (0.95, 0.99)
SLACK = 1e-12


def reached(epsilon: float, several: int) -> np.ndarray:
    """Probabilities (m,) that the sum of draws is at most 0, 1, ... from zero, by repeated convolution."""
    span = int(40 * several**0.5 / epsilon) + 30
    weights = np.exp(-epsilon * np.abs(np.arange(-span, span + 1)))
    one = weights / weights.sum()
    total = np.ones(1)
    for _ in range(several):
        total = np.convolve(total, one)
        middle = total.size // 2
        total = total[max(middle - span, 0) : middle + span + 1]
    middle = total.size // 2
    return np.cumsum(np.append(total[middle], total[middle + 1 :] + total[:middle][::-1]))


def row(epsilon: float, several: int, level: float) -> dict[str, object]:
    """Coverage of the library's interval, with one step less, and by a continuous law."""
    schema = dpi.Schema(g=dpi.Category([str(one) for one in range(several + 1)]))
    law = dpi.table("g").measurement(dpi.PureDP(epsilon), schema=schema, neighbors="add_remove").law
    names = tuple(map(str, range(several)))
    known = measured_queries(type(law)(law.family, law.scales[:several]), [1.0] * several, names)
    half = float(np.ptp(known.intervals(np.ones((1, several)), 1 - level))) / 2
    shares = np.full(several, 1 / several)
    smooth = float(critical_value(1 - level, None, shares) * np.sqrt(known.noise.variances.sum()))
    inside = reached(epsilon, several)
    return {
        "epsilon": epsilon,
        "cells": several,
        "level": level,
        "half width": half,
        "coverage": inside[int(half)],
        "one step less": inside[int(half) - 1] if half >= 1 else 0.0,
        "continuous": inside[int(np.floor(smooth))],
    }


def figure_of(table: pd.DataFrame) -> Figure:
    """Coverage against epsilon: of one cell and of five."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    for axes, several in zip(figure.subplots(1, 2, sharey=True), (1, 5), strict=True):
        part = table[(table["cells"] == several) & (table["level"] == LEVELS[0])]
        axes.plot(part["epsilon"], part["coverage"], "-", lw=1.2, label="quantile of the discrete law")
        axes.plot(part["epsilon"], part["continuous"], ":", lw=1.2, label="of a continuous law")
        axes.axhline(LEVELS[0], color="grey", lw=0.8)
        axes.set(xlabel="epsilon", title=f"{several} cell{'s' if several > 1 else ''}", ylim=(0.85, 1.002))
    figure.axes[0].set_ylabel("exact coverage of the data's count")
    figure.axes[0].legend(frameon=False, fontsize=8, loc="lower left")
    return figure


def run(arguments: Options) -> list[Claim]:
    """Compute, write the table and the figure."""
    table = pd.DataFrame([row(float(e), k, level) for k, level, e in product(CELLS, LEVELS, EPSILONS)])
    notes = [
        "Exact: sums of the probabilities of discrete Laplace noise. Continuous: ends at normal and Laplace quantiles "
        "of the same variance."
    ]
    kept = table[np.isin(table["epsilon"], (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0))]
    write_table(kept, "count_intervals", arguments, notes, figure_of(table))
    short = table["coverage"] - table["level"]
    wide = table["one step less"] - table["level"]
    design = f"{len(table)} cells: epsilon .1 to 5, sums of 1 to 100 counts, levels 95% and 99%"
    exact = {"kind": "exact", "cells": len(table)}
    return [
        Claim("least exact coverage of intervals for the data's own counts, less the level", design,
              f"{short.min():.5f}", short.min() >= -SLACK, threshold="0", **exact),
        Claim("largest coverage of these intervals with one row less on either side, less the level", design,
              f"{wide.max():.5f}", wide.max() < 0, threshold="below 0", **exact),
    ]  # fmt: skip

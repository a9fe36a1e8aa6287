"""Efficiency of sample-and-aggregate: variance over the Cramer-Rao bound as n grows and epsilon shrinks as n^-a."""

from __future__ import annotations

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from matplotlib.figure import Figure

import dpinfer as dpi
from dpinfer.resampling.blocks import block_size
from validation.blocks.block_designs import release_of
from validation.common.claims import Claim
from validation.common.outputs import Options, write_figure, write_table

SIZES = {"square root": tuple(10**place for place in range(3, 10)), "auto": tuple(10**place for place in range(3, 8))}
POWERS, FACTOR = (0.1, 0.2, 0.3), 5.0
RATE = 1.0
SCHEMA = dpi.Schema(x=dpi.Real(0, 50))


def rate(frame: pd.DataFrame) -> list[float]:
    """Maximum likelihood of an exponential rate."""
    return [1 / frame["x"].mean()]


def blocks_of(rule: str, n: int) -> int:
    """How many blocks: the square root of n, as in the source's theorem, or as many as bias allows."""
    return round(np.sqrt(n)) if rule == "square root" else int(n / block_size(n, 1, halves=True))


def replicate(rule: str, n: int, power: float, count: int, seed: int) -> np.ndarray:
    """Estimates and half-widths (R, 2) of replicates."""
    blocks, epsilon = blocks_of(rule, n), FACTOR * n**-power
    asked = dpi.sample_aggregate(["x"], model=rate, names=["rate"], bounds=(0.2, 5.0), blocks=blocks)
    measured = asked.measurement(dpi.PureDP(float(f"{epsilon:.6g}")), schema=SCHEMA)
    found = []
    for place in range(count):
        rng = np.random.default_rng([seed, n, round(100 * power), rule == "auto", place])
        held = rng.multinomial(n, np.full(2 * blocks, 0.5 / blocks)).reshape(blocks, 2).astype(float)
        with np.errstate(all="ignore"):
            sums = rng.gamma(held, 1 / RATE)
            fits = np.stack([held.sum(axis=1) / sums.sum(axis=1), *(held / sums).T], axis=1)[..., None]
        inference = release_of(asked, measured, fits, rng).infer().inference
        ends = inference.intervals(np.eye(1), 0.05)[0]
        found.append((inference.params[0], ends[0] <= RATE <= ends[1]))
    return np.array(found)


def run(arguments: Options) -> list[Claim]:
    """Measure variance over bound in every cell, and draw it."""
    quick = arguments.replicates < 200
    cells = [(rule, n, power) for rule in SIZES for power in POWERS for n in SIZES[rule] if n <= 10**7 or not quick]
    found = Parallel(n_jobs=1 if quick else arguments.jobs)(
        delayed(replicate)(*cell, arguments.replicates, arguments.seed) for cell in cells
    )
    rows = []
    for (rule, n, power), estimates in zip(cells, found, strict=True):
        error = estimates[:, 0] - RATE
        rows.append(
            {
                "blocks rule": rule,
                "a": power,
                "n": n,
                "blocks": blocks_of(rule, n),
                "epsilon": FACTOR * n**-power,
                "MSE / bound": float((error**2).mean() * n / RATE**2),
                "bias / standard error": float(error.mean() / error.std()),
                "coverage": float(estimates[:, 1].mean()),
            }
        )
    table = pd.DataFrame(rows)
    notes = [
        "Exponential rate, maximum likelihood in each block, pure epsilon-DP with epsilon = 5 n^-a. The bound is the "
        "square of the rate over n. The source's condition, epsilon n^(1/4) to infinity, holds for a < 1/4 with the "
        "square root of n blocks; with half-block correction more blocks are allowed.",
    ]
    write_table(table, "aggregate_efficiency", arguments, notes)
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    titles = {"square root": "square root of n blocks", "auto": "blocks as small as bias allows"}
    for axes, (rule, group) in zip(
        figure.subplots(1, 2, sharey=True), table.groupby("blocks rule", sort=False), strict=True
    ):
        for power, part in group.groupby("a"):
            axes.plot(part["n"], part["MSE / bound"], "o-", ms=4, label=f"epsilon = {FACTOR:g} n^-{power:g}")
        axes.axhline(1, color="black", lw=0.8)
        axes.set(xscale="log", yscale="log", xlabel="n", title=titles[str(rule)])
        axes.legend(fontsize=8, frameon=False)
    figure.axes[0].set_ylabel("mean squared error / Cramer-Rao bound")
    write_figure(figure, "aggregate_efficiency", arguments)
    return claims(table, arguments)


def claims(table: pd.DataFrame, arguments: Options) -> list[Claim]:
    """What the ratios do as n grows."""
    found = []
    for rule, power, falls in (
        ("square root", 0.1, True),
        ("square root", 0.3, False),
        ("auto", 0.1, True),
        ("auto", 0.2, True),
    ):
        part = table[(table["blocks rule"] == rule) & (table["a"] == power)]["MSE / bound"].to_numpy()
        held = part[-1] < part[0] if falls else part[-1] > 1.5
        found.append(
            Claim(f"MSE over the Cramer-Rao bound at the largest n, epsilon = {FACTOR:g} n^-{power:g}, {rule} blocks",
                  f"exponential rate, from {part[0]:.3g} at n = {SIZES[rule][0]:,}", f"{part[-1]:.3g}", held,
                  error=f"{part[-1] * np.sqrt(2 / arguments.replicates):.2g}")
        )  # fmt: skip
    return found

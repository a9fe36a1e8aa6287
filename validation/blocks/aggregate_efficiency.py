"""Efficiency of sample-and-aggregate: variance over the Cramer-Rao bound as n grows and epsilon shrinks as n^-a."""

from __future__ import annotations

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.resampling.blocks import block_size
from validation.blocks.block_designs import BlockFits, release_of
from validation.common.outputs import Options, lines
from validation.common.rules import Claim
from validation.common.study import Drawn, Study

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


def draw(cell: tuple[str, float, int], rng: np.random.Generator, count: int) -> Drawn:
    """Errors, and whether intervals hold."""
    rule, power, n = cell
    blocks, epsilon = blocks_of(rule, n), FACTOR * n**-power
    asked = dpi.sample_aggregate(["x"], model=rate, names=["rate"], bounds=(0.2, 5.0), blocks=blocks)
    measured = asked.measurement(dpi.PureDP(float(f"{epsilon:.6g}")), schema=SCHEMA)
    found = []
    for _ in range(count):
        held = rng.multinomial(n, np.full(2 * blocks, 0.5 / blocks)).reshape(blocks, 2).astype(float)
        with np.errstate(all="ignore"):
            sums = rng.gamma(held, 1 / RATE)
            fits = np.stack([held.sum(axis=1) / sums.sum(axis=1), *(held / sums).T], axis=1)[..., None]
        inference = release_of(asked, measured, BlockFits(fits, fits[:, :1]), rng).infer().inference
        ends = inference.intervals(np.eye(1), 0.05)[0]
        found.append((inference.params[0] - RATE, ends[0] <= RATE <= ends[1]))
    return {"found": np.array(found)}


def summary(cell: tuple[str, float, int], drawn: Drawn) -> dict:
    """Mean squared error over the bound."""
    (rule, power, n), (error, covered) = cell, drawn["found"].T
    return {"blocks": blocks_of(rule, n), "epsilon": FACTOR * n**-power,
            "MSE / bound": float((error**2).mean() * n / RATE**2),
            "bias / standard error": float(error.mean() / error.std()), "coverage": float(covered.mean())}  # fmt: skip


def claims(table: pd.DataFrame, _: Options) -> list[Claim]:
    """What the ratios do as n grows."""
    found = []
    for rule, power, falls in (
        ("square root", 0.1, True),
        ("square root", 0.3, False),
        ("auto", 0.1, True),
        ("auto", 0.2, True),
    ):
        part = table[(table["blocks rule"] == rule) & (table["a"] == power)]
        if len(part) > 1:
            ratio = part["MSE / bound"].to_numpy()
            found.append(
                Claim(f"MSE over the Cramer-Rao bound at the largest n, epsilon = {FACTOR:g} n^-{power:g}, {rule} "
                      f"blocks",
                      f"exponential rate, from {ratio[0]:.3g} at n = {part['n'].iloc[0]:,}", f"{ratio[-1]:.3g}",
                      ratio[-1] < ratio[0] if falls else ratio[-1] > 1.5,
                      error=f"{ratio[-1] * np.sqrt(2 / part['replicates'].iloc[0]):.2g}")
            )  # fmt: skip
    return found


STUDY = Study(
    "aggregate_efficiency", [(rule, power, n) for rule in SIZES for power in POWERS for n in SIZES[rule]], draw,
    summary,
    axes=lambda cell: dict(zip(("blocks rule", "a", "n"), cell, strict=True)), most=200, also=claims, quick=9,
    figure=lambda table: lines(table, "blocks rule", "n", {"MSE / bound": "o-"}, color="a", log=True),
    notes=("Exponential rate, maximum likelihood in each block, pure epsilon-DP with epsilon = 5 n^-a. The bound is "
           "the square of the rate over n. The source's condition, epsilon n^(1/4) to infinity, holds for a < 1/4 "
           "with the square root of n blocks; with half-block correction more blocks are allowed.",),
)  # fmt: skip

"""What absorbing the levels of a factor costs beside their dummies: numbers released, time, width."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import dpinfer as dpi
from validation.common.study import Drawn, Study
from validation.regression.absorbed import PRICES, ROWS, data_of, plain, schema_of, simulated


@dataclass(frozen=True)
class Way:
    """How many simulated levels there are, and how they are taken out."""

    levels: int
    way: str


def take(way: Way, rng: np.random.Generator, count: int) -> Drawn:
    """Fit one data set of simulated levels both ways at the same price, and time it."""
    found: dict[str, list[Any]] = {name: [] for name in ("sums", "width", "seconds")}
    for _ in range(count):
        rows = simulated(rng, ROWS[-1], way.levels)
        data = data_of(rows, schema_of("simulated", way.levels), rng, "add_remove")
        question = (
            dpi.ols("y ~ x + t", data, absorb="level")
            if way.way == "absorbed"
            else dpi.ols("y ~ x + t + C(level)", data, method="gram")
        )
        begun = time.perf_counter()
        release = question.measure(PRICES["ZCDP(0.5)"])
        ends = question.infer(release).conf_int().loc["x"]
        found["seconds"].append(time.perf_counter() - begun)
        found["sums"].append(sum(len(stage.names) for stage in release.stages))
        found["width"].append((ends[1] - ends[0]) / np.ptp(plain(rows)[1][0]))
    return {name: np.array(one) for name, one in found.items()}


STUDY = Study(
    "absorbed_cost", [Way(levels, way) for levels in (30, 100, 300) for way in ("absorbed", "dummies")], take,
    lambda way, drawn: {"sums": int(drawn["sums"][0]), "width / without privacy": np.median(drawn["width"]),  # noqa: ARG005
                        "seconds": float(f"{np.median(drawn['seconds']):.2g}")},
    most=1, quick=2,
    notes=(f"Simulated levels, n = {ROWS[-1]:,}, ZCDP(0.5); width of the slope of x, whose means differ by level. "
           "Seconds to measure and infer, on the machine that made the table.",),
)  # fmt: skip

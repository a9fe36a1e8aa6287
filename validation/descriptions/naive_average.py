"""The average age of voters: noise on the averages against noisy sum over noisy count.

The example of Kifer's talk on designing mechanisms: ages capped at 115, two averages, pure epsilon-DP.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.privacy.accounting import calibrate
from dpinfer.release import NoiseLaw
from dpinfer.studies import population
from validation.common.outputs import Options, lines
from validation.common.rules import SEED, Claim
from validation.common.study import Drawn, Study

CAP = 115
EPSILON = 1.0
SIZES = (30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)


def draw(n: int, rng: np.random.Generator, replicates: int) -> Drawn:
    """Error of the average age of one group of size n under each strategy."""
    half = dpi.PureDP(EPSILON) / 2

    def noise(bound: float, price: dpi.PureDP) -> np.ndarray:
        return NoiseLaw("laplace", (calibrate(bound, price, "laplace"),)).rvs(replicates, rng)[:, 0]

    ages = np.rint(population("age").generate(np.random.default_rng([SEED, n]), n)["age"])
    direct, counts = noise(CAP, dpi.PureDP(EPSILON)), np.maximum(n + noise(1, half), 1.0)
    ratio = (ages.sum() + noise(CAP, half)) / counts - ages.mean()
    middle = ((ages - 50).sum() + noise(65, half)) / counts + 50 - ages.mean()
    return {"noise on the average": direct, "sum over count": ratio, "centred sum over count": middle}


def summary(n: int, drawn: Drawn) -> dict:
    """Standard deviations of the errors, against the talk's figures."""
    spread, stated = {name: float(found.std()) for name, found in drawn.items()}, 2 * np.sqrt(2) * CAP / EPSILON / n
    return {**spread, "stated 163/eps": np.sqrt(2) * CAP / EPSILON, "stated 325/(eps n)": stated,
            "ratio to stated": spread["sum over count"] / stated}  # fmt: skip


def claims(table: pd.DataFrame, _: Options) -> list[Claim]:
    """Compare with the talk's figures."""
    large, slack = table[table["n"] >= 100], 3 / np.sqrt(table["replicates"].max())
    direct, ratio = large["noise on the average"].mean(), large["ratio to stated"].mean()
    expected = float(np.sqrt(1 + (population("age").truth["Intercept"] / CAP) ** 2))
    return [
        Claim("error of the average age, noise on the average (times eps)", "ages capped at 115, any n",
              f"{direct:.1f}",
              abs(direct / 162.6 - 1) < 0.01 + slack, published="163 (Kifer's talk)"),
        Claim("the same, noisy sum over noisy count, over 325 / (eps n)", "n from 100 to 100,000", f"{ratio:.3f}",
              abs(ratio / expected - 1) < 0.01 + slack, published="1 (Kifer's talk, noise of the sum alone)"),
    ]  # fmt: skip


STUDY = Study(
    "naive_average", SIZES, draw, summary, axes=lambda n: {"n": n}, also=claims, quick=8,
    figure=lambda table: lines(table.assign(all="average age under 1-DP"), "all", "n",
                               {"noise on the average": "o-", "sum over count": "s-", "centred sum over count": "^-",
                                "stated 325/(eps n)": "k--"}, log=True,
                                ylabel="standard deviation of the error (years)"),
    notes=(
        "Standard deviations of the error of the average age of a group of n voters, epsilon = 1, add or remove one. "
        "The stated 325/(eps n) counts the noise of the sum alone; the noise of the count, times the average age, "
        "comes on top, and makes the ratio to stated exceed 1: it tends to the square root of "
        "1 + (mean age / 115)^2. Centring the ages at 50 before summing removes most of it and nearly halves the cap.",
    ),
)  # fmt: skip

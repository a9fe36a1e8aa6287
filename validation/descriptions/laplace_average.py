"""The average of k Laplace draws under pure differential privacy: how soon it is normal, and its variance.

Section 4 of Honaker's paper on the bootstrap (figures 2 and 3): samples of 100 averages of k draws, each at epsilon/k.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import special, stats

import dpinfer as dpi
from dpinfer.tables.linear_queries import linear_queries
from validation.common.outputs import Options, lines
from validation.common.rules import Claim
from validation.common.study import Drawn, Study

SIZE = 100
LEVEL = 0.05
EPSILON = 0.01
DRAWS = (1, 2, 3, 5, 7, 10, 15, 20)
PUBLISHED = {"Anderson-Darling": 0.927, "Shapiro-Wilk": 0.908}
"""As measured here; the paper gives "90.8 and 92.7 respectively", the other way round."""
SCHEMA = dpi.Schema(g=dpi.Boolean())


def law_of(k: int) -> tuple[object, float]:
    """Noise law of one count released as the average of k draws, and the size of its step."""
    measured = linear_queries("g", queries=[0, 1], draws=k).measurement(dpi.PureDP(EPSILON), schema=SCHEMA)
    return measured.law, measured.steps[0]


def anderson(samples: np.ndarray) -> np.ndarray:
    """P-value of the Anderson-Darling test of normality with both moments estimated, by rows (Stephens 1986)."""
    n = samples.shape[1]
    scaled = np.sort((samples - samples.mean(1, keepdims=True)) / samples.std(1, ddof=1, keepdims=True), axis=1)
    logs = special.log_ndtr(scaled) + special.log_ndtr(-scaled[:, ::-1])
    statistic = -n - (logs * (2 * np.arange(1, n + 1) - 1)).sum(axis=1) / n
    a = statistic * (1 + 0.75 / n + 2.25 / n**2)
    return np.select(
        [a >= 0.6, a >= 0.34, a >= 0.2],
        [
            np.exp(1.2937 - 5.709 * a + 0.0186 * a**2),
            np.exp(0.9177 - 4.279 * a - 1.38 * a**2),
            1 - np.exp(-8.318 + 42.796 * a - 59.938 * a**2),
        ],
        1 - np.exp(-13.436 + 101.14 * a - 223.73 * a**2),
    )


def draw(k: int, rng: np.random.Generator, replicates: int) -> Drawn:
    """P-values of both tests, statistics beside those of normal samples, and squares; k = 0 is a normal sample."""
    if k:
        law, step = law_of(k)
        drawn = np.stack([law.rvs(SIZE, rng)[:, 0] for _ in range(replicates)]) * step
    else:
        drawn = rng.normal(scale=1 / EPSILON, size=(replicates, SIZE))
    shapiro = np.array([stats.shapiro(sample) for sample in drawn])
    baseline = np.array([stats.shapiro(sample).statistic for sample in rng.normal(size=drawn.shape)])
    return {"Anderson-Darling": anderson(drawn) > LEVEL, "Shapiro-Wilk": shapiro[:, 1] > LEVEL,
            "normal told from it": baseline > shapiro[:, 0], "squares": (drawn**2).mean(axis=1)}  # fmt: skip


def summary(k: int, drawn: Drawn) -> dict:
    """Share of samples not told from normal, and the variance."""
    variance, expected = float(drawn["squares"].mean()), (2 * k if k else 1) / EPSILON**2
    shares = {name: float(found.mean()) for name, found in drawn.items() if name != "squares"}
    return {**shares, "variance": variance, "2 k (D/eps)^2": expected, "ratio": variance / expected,
            "2 ln(1.25/1e-6) (D/eps)^2": 2 * np.log(1.25e6) / EPSILON**2}  # fmt: skip


def claims(table: pd.DataFrame, _: Options) -> list[Claim]:
    """Compare with what was published, and the variance with its formula."""
    found, rows, count = [], table.set_index("draws"), table["replicates"].max()
    for name, published in PUBLISHED.items():
        share = float(rows.loc[10, name])
        error = float(np.sqrt(share * (1 - share) / count))  # the published figures have an error that is not told
        held = abs(share - published) < 4 * error + 0.01 and abs(rows.loc[0, name] - (1 - LEVEL)) < 4 * error + 0.005
        found.append(Claim(f"{name} does not reject normality at .05", f"{SIZE} averages of 10 Laplace draws",
                           f"{share:.4f}",
                           held, published=f"{published:.3f} (Honaker, section 4, its two figures interchanged)",
                           error=f"{error:.4f}"))  # fmt: skip
    told, error = float(rows.loc[10, "normal told from it"]), 0.5 / np.sqrt(count)
    worst, chance = float((table["ratio"] - 1).abs().max()), np.sqrt(5 / (SIZE * count))
    return [
        *found,
        Claim("a normal sample can be distinguished from averages of 10 Laplace draws by the Shapiro-Wilk statistic",
              f"two samples of {SIZE}",
              f"{told:.4f}", told < 0.55 + 4 * error, published="below .55 (Honaker, figure 3)", error=f"{error:.4f}"),
        Claim("variance of the average over 2 k (D/eps)^2, worst k", f"k from {DRAWS[0]} to {DRAWS[-1]}",
              f"{1 + worst:.4f}",
              worst < 5 * chance + 0.001, published="1 (Honaker, eq. 11)", error=f"{chance:.4f}"),
    ]  # fmt: skip


STUDY = Study(
    "laplace_average", (*DRAWS, 0), draw, summary, axes=lambda k: {"draws": k}, most=3000, quick=9, also=claims,
    figure=lambda table: lines(table[table["draws"] > 0].assign(all="shares"), "all", "draws",
                               dict.fromkeys([*PUBLISHED, "normal told from it"], "o-"),
                               ylabel=f"share of samples of {SIZE}"),
    notes=(
        f"Samples of {SIZE} noisy counts, each the average of k Laplace draws at epsilon/k (epsilon = {EPSILON:g}): "
        f"the share that a test of normality at {LEVEL:g} does not reject, and how often the Shapiro-Wilk statistic of "
        "a normal sample of the same size is the larger one (1/2 where nothing is left to tell). The last row (0 "
        "draws) is a normal sample itself. The last column is the variance of the Gaussian mechanism as calibrated "
        "classically, for delta = 1e-6: below it for all k < ln(1.25/delta); calibrated exactly, as here, "
        "Gaussian noise is smaller than that. The paper's two figures at k = 10, 90.8 and 92.7% for Anderson-Darling "
        "and Shapiro-Wilk, are what is found here for the two the other way round.",
    ),
)  # fmt: skip

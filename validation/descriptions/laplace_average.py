"""The average of k Laplace draws under pure differential privacy: how soon it is normal, and its variance.

Section 4 of Honaker's paper on the bootstrap (figures 2 and 3): samples of 100 averages of k draws, each at epsilon/k.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from matplotlib.figure import Figure
from scipy import special, stats
from tqdm import tqdm

import dpinfer as dpi
from dpinfer.tables.linear_queries import linear_queries
from validation.common.claims import Claim
from validation.common.outputs import Options, new_figure, write_table

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


def row(k: int, replicates: int, seed: int) -> dict:
    """Share of samples not told from normal, and the variance, for averages of k draws (k = 0: normal draws)."""
    rng = np.random.default_rng([seed, k])
    if k:
        law, step = law_of(k)
        drawn = np.stack([law.rvs(SIZE, rng)[:, 0] for _ in range(replicates)]) * step
    else:
        drawn = rng.normal(scale=1 / EPSILON, size=(replicates, SIZE))
    other = rng.normal(size=drawn.shape)
    shapiro = np.array([stats.shapiro(sample) for sample in drawn])
    baseline = np.array([stats.shapiro(sample).statistic for sample in other])
    variance = float(drawn.var())
    expected = 2 * max(k, 1) / EPSILON**2 if k else 1 / EPSILON**2
    return {
        "draws": k,
        "Anderson-Darling": float((anderson(drawn) > LEVEL).mean()),
        "Shapiro-Wilk": float((shapiro[:, 1] > LEVEL).mean()),
        "normal told from it": float((baseline > shapiro[:, 0]).mean()),
        "variance": variance,
        "2 k (D/eps)^2": expected,
        "ratio": variance / expected,
        "2 ln(1.25/1e-6) (D/eps)^2": 2 * np.log(1.25e6) / EPSILON**2,
    }


def draw_figure(table: pd.DataFrame) -> Figure:
    """Shares by number of draws, and variances beside that of the Gaussian mechanism."""
    figure, (left, right) = new_figure(9, 3.6, 1, 2)
    shown = table[table["draws"] > 0]
    for name, mark in (("Anderson-Darling", "o-"), ("Shapiro-Wilk", "s-")):
        left.plot(shown["draws"], shown[name], mark, label=f"{name} does not reject")
        left.plot([10], [PUBLISHED[name]], "kx", label="published, k = 10" if name == "Shapiro-Wilk" else None)
    left.plot(shown["draws"], shown["normal told from it"], "^-", label="told from a normal sample")
    left.axhline(1 - LEVEL, color="grey", lw=0.8, ls=":")
    left.set(xlabel="Laplace draws in the average, k", ylabel=f"share of samples of {SIZE}", ylim=(0, 1))
    left.legend(frameon=False, fontsize=8)
    right.plot(shown["draws"], shown["variance"] * EPSILON**2, "o-", label="average of k Laplace draws (pure)")
    for delta in (1e-2, 1e-4, 1e-6, 1e-8):
        right.axhline(2 * np.log(1.25 / delta), color="grey", lw=0.8, ls="--")
        right.annotate(f"Gaussian, $\\delta$ = {delta:.0e}", (0.6, 2 * np.log(1.25 / delta) + 0.3), fontsize=7)
    right.set(xlabel="Laplace draws in the average, k", ylabel=r"variance times $(\epsilon/\Delta)^2$")
    right.legend(frameon=False, fontsize=8)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Draw the samples, test them, write the table and the figure."""
    tasks = (delayed(row)(k, arguments.replicates, arguments.seed) for k in (*DRAWS, 0))
    parallel = Parallel(n_jobs=arguments.jobs, return_as="generator")
    table = pd.DataFrame(list(tqdm(parallel(tasks), total=len(DRAWS) + 1, desc="draws")))
    notes = [
        f"Samples of {SIZE} noisy counts, each the average of k Laplace draws at epsilon/k (epsilon = {EPSILON:g}): "
        f"the share that a test of normality at {LEVEL:g} does not reject, and how often the Shapiro-Wilk statistic of "
        "a normal sample of the same size is the larger one (1/2 where nothing is left to tell). The last row (0 "
        "draws) is a normal sample itself. The last column is the variance of the Gaussian mechanism as calibrated "
        "classically, for delta = 1e-6: below it for all k < ln(1.25/delta); calibrated exactly, as here, "
        "Gaussian noise is smaller than that. The paper's two figures at k = 10, 90.8 and 92.7% for Anderson-Darling "
        "and Shapiro-Wilk, are what is found here for the two the other way round."
    ]
    write_table(table, "laplace_average", arguments, notes, draw_figure(table))
    at_ten = table.set_index("draws").loc[10]
    normal = table.set_index("draws").loc[0]
    claims = []
    for name, published in PUBLISHED.items():
        found = float(at_ten[name])
        error = float(np.sqrt(found * (1 - found) / arguments.replicates))
        allowed = 4 * error + 0.01  # of the published figures, whose error is not told
        claims.append(
            Claim(
                f"{name} does not reject normality at .05",
                f"{SIZE} averages of 10 Laplace draws",
                f"{found:.4f}",
                abs(found - published) < allowed and abs(normal[name] - (1 - LEVEL)) < 4 * error + 0.005,
                published=f"{published:.3f} (Honaker, section 4, its two figures interchanged)",
                error=f"{error:.4f}",
            )
        )
    told, error = float(at_ten["normal told from it"]), 0.5 / np.sqrt(arguments.replicates)
    claims.append(
        Claim(
            "a normal sample is told from averages of 10 Laplace draws by the Shapiro-Wilk statistic",
            f"two samples of {SIZE}",
            f"{told:.4f}",
            told < 0.55 + 4 * error,
            published="below .55 (Honaker, figure 3)",
            error=f"{error:.4f}",
        )
    )
    worst = float((table["ratio"] - 1).abs().max())
    claims.append(
        Claim(
            "variance of the average over 2 k (D/eps)^2, worst k",
            f"k from {DRAWS[0]} to {DRAWS[-1]}",
            f"{1 + worst:.4f}",
            worst < 5 * np.sqrt(5 / (SIZE * arguments.replicates)) + 0.001,
            published="1 (Honaker, eq. 11)",
            error=f"{np.sqrt(5 / (SIZE * arguments.replicates)):.4f}",
        )
    )
    return claims

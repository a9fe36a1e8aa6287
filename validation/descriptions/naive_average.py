"""The average age of voters: noise on the averages against noisy sum over noisy count.

The example of Kifer's talk on designing mechanisms: ages capped at 115, two averages, pure epsilon-DP.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from tqdm import tqdm

import dpinfer as dpi
from dpinfer.privacy.accounting import calibrate
from dpinfer.release import NoiseLaw
from dpinfer.studies import population
from validation.common.claims import Claim
from validation.common.outputs import Options, new_figure, write_figure, write_table

CAP = 115
EPSILON = 1.0
SIZES = (30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)


def errors(n: int, replicates: int, seed: int) -> pd.DataFrame:
    """Error of the average age of one group of size n under each strategy, (replicates, 2)."""
    rng = np.random.default_rng([seed, n])
    price = dpi.PureDP(EPSILON)
    average_law = NoiseLaw("laplace", (calibrate(CAP, price, "laplace"),))
    half = price / 2
    sum_law = NoiseLaw("laplace", (calibrate(CAP, half, "laplace"),))
    count_law = NoiseLaw("laplace", (calibrate(1, half, "laplace"),))
    ages = np.rint(population("age").generate(rng, n)["age"])
    direct = average_law.rvs(replicates, rng)[:, 0]
    sums = ages.sum() + sum_law.rvs(replicates, rng)[:, 0]
    counts = n + count_law.rvs(replicates, rng)[:, 0]
    ratio = sums / np.maximum(counts, 1.0) - ages.mean()
    centred = (ages - 50).sum() + NoiseLaw("laplace", (calibrate(65, half, "laplace"),)).rvs(replicates, rng)[:, 0]
    middle = centred / np.maximum(counts, 1.0) + 50 - ages.mean()
    return pd.DataFrame(
        {"n": n, "noise on the average": direct, "sum over count": ratio, "centred sum over count": middle}
    )


def row(n: int, replicates: int, seed: int) -> dict:
    """Standard deviations of the errors at one size, against the talk's figures."""
    table = errors(n, replicates, seed)
    spread = table.drop(columns="n").std()
    return {
        "n": n,
        "noise on the average": spread["noise on the average"],
        "stated 163/eps": np.sqrt(2) * CAP / EPSILON,
        "sum over count": spread["sum over count"],
        "stated 325/(eps n)": 2 * np.sqrt(2) * CAP / EPSILON / n,
        "centred sum over count": spread["centred sum over count"],
        "ratio to stated": spread["sum over count"] / (2 * np.sqrt(2) * CAP / EPSILON / n),
    }


def run(arguments: Options) -> list[Claim]:
    """Measure the errors, write the table and the figure."""
    tasks = (delayed(row)(n, arguments.replicates, arguments.seed) for n in SIZES)
    parallel = Parallel(n_jobs=arguments.jobs, return_as="generator")
    table = pd.DataFrame(list(tqdm(parallel(tasks), total=len(SIZES), desc="sizes")))
    notes = [
        "Standard deviations of the error of the average age of a group of n voters, epsilon = 1, add or remove one. "
        "The stated 325/(eps n) counts the noise of the sum alone; the noise of the count, times the average age, "
        "comes on top, and makes the ratio to stated exceed 1: it tends to the square root of "
        "1 + (mean age / 115)^2. Centring the ages at 50 before summing removes most of it and nearly halves the cap."
    ]
    write_table(table, "naive_average", arguments, notes)
    figure, axes = new_figure(6.4, 4)
    axes.loglog(table["n"], table["noise on the average"], "o-", label="noise on the average")
    axes.loglog(table["n"], table["sum over count"], "s-", label="noisy sum / noisy count")
    axes.loglog(table["n"], table["centred sum over count"], "^-", label="noisy centred sum / noisy count")
    axes.loglog(table["n"], table["stated 325/(eps n)"], "k--", lw=0.8, label="325 / n")
    axes.axhline(163, color="grey", lw=0.8, ls=":", label="163")
    axes.set(xlabel="voters in the group", ylabel="standard deviation of the error (years)")
    axes.set_title("Average age under 1-DP")
    axes.legend(frameon=False, fontsize=8)
    write_figure(figure, "naive_average", arguments)
    large = table[table["n"] >= 100]
    direct, ratio = large["noise on the average"].mean(), large["ratio to stated"].mean()
    expected = float(np.sqrt(1 + (population("age").truth["Intercept"] / CAP) ** 2))
    return [
        Claim(
            "error of the average age, noise on the average (times eps)",
            "ages capped at 115, any n",
            f"{direct:.1f}",
            abs(direct / 162.6 - 1) < 0.05,
            published="163 (Kifer's talk)",
        ),
        Claim(
            "the same, noisy sum over noisy count, over 325 / (eps n)",
            "n from 100 to 100,000",
            f"{ratio:.3f}",
            abs(ratio / expected - 1) < 0.05,
            published="1 (Kifer's talk, noise of the sum alone)",
        ),
    ]

"""P-values of chi-squared tests under the null hypothesis: noisy counts taken for exact ones, beside ours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

import dpinfer as dpi
from dpinfer.statistics.noise import CountNoise
from dpinfer.statistics.nulls import batch_pvalues
from dpinfer.tables.chi_squared_inference import STATISTICS, GoodnessOfFit, Homogeneity, Independence
from validation.common.leaves import noise_at
from validation.common.outputs import Options, lines
from validation.common.rules import Claim, Rule
from validation.common.study import Drawn, Study

DRAWS = 999
PRICE = dpi.ZCDP(0.00125)
LEVEL = 1e-4
"""Level at which uniformity is tested."""

Model = GoodnessOfFit | Independence | Homogeneity


@dataclass(frozen=True)
class Design:
    """A test whose hypothesis holds; ``counts`` are drawn with the sizes that it fixes."""

    name: str
    shape: tuple[int, ...]
    n: int

    def counts(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Exact counts (size, d) under the hypothesis."""
        if self.name == "two samples":
            return rng.multinomial(np.full((size, 2), self.n // 2), [0.4, 0.6]).reshape(size, -1)
        cells = np.full(self.shape[0], 1 / self.shape[0])
        if self.name == "independence":
            cells = np.outer([0.5, 0.5], [0.4, 0.6]).ravel()
        return rng.multinomial(self.n, cells, size=size)

    def model(self, noise: CountNoise, kind: str) -> Model:
        """Our test; the number of rows is public."""
        if self.name == "goodness of fit":
            return GoodnessOfFit(np.full(self.shape[0], 1 / self.shape[0]), noise, self.n, kind)
        if self.name == "independence":
            return Independence((2, 2), noise, self.n, kind)
        return Homogeneity((2, 2), noise, None, kind)

    def naive(self, values: np.ndarray) -> np.ndarray:
        """P-values of the textbook test that takes noisy counts for exact ones."""
        if self.name == "goodness of fit":
            expected = np.full(values.shape, self.n / self.shape[0])
        else:
            table = values.reshape(-1, 2, 2)
            expected = table.sum(axis=2, keepdims=True) * table.sum(axis=1, keepdims=True)
            expected = (expected / table.sum(axis=(1, 2), keepdims=True)).reshape(values.shape)
        statistic = ((values - expected) ** 2 / expected).sum(axis=1)
        degrees = self.shape[0] - 1 if len(self.shape) == 1 else 1
        return stats.chi2.sf(np.where(expected.min(axis=1) > 0, statistic, np.inf), degrees)


DESIGNS = (
    Design("goodness of fit", (4,), 1000),
    Design("goodness of fit", (4,), 10_000),
    Design("independence", (2, 2), 1000),
    Design("independence", (2, 2), 10_000),
    Design("two samples", (2, 2), 1000),
    Design("two samples", (2, 2), 10_000),
)


def draw(design: Design, rng: np.random.Generator, replicates: int) -> Drawn:
    """P-values (replicates,) of each method."""
    noise = noise_at(PRICE, "replace_one")
    counts = design.counts(replicates, rng)
    values = counts + noise.rvs(counts.shape, rng)
    ours = {kind: batch_pvalues(design.model(noise, kind), values, draws=DRAWS, rng=rng) for kind in STATISTICS}
    return {"naive": design.naive(values), **ours}


def summary(design: Design, drawn: Drawn) -> list[dict]:
    """Sizes, and whether p-values are uniform; Monte Carlo ones are spread evenly over their steps."""
    rows = []
    for method, pvalues in drawn.items():
        step = 0.0 if method == "naive" else 1 / (DRAWS + 1)
        spread = pvalues - step * np.random.default_rng(0).random(pvalues.size)
        rows.append({
            "test": design.name, "n": design.n, "method": method, "size at .05": np.mean(pvalues <= 0.05),
            "size at .01": np.mean(pvalues <= 0.01), "KS p-value": stats.kstest(spread, "uniform").pvalue,
            "quantiles": np.quantile(pvalues, np.linspace(0, 1, 101)),
        })  # fmt: skip
    return rows


def figure_of(table: pd.DataFrame) -> Figure:
    """Quantiles of p-values against uniform ones."""
    long = table.explode("quantiles").astype({"quantiles": float})
    long["uniform quantile"] = np.tile(np.linspace(0, 1, 101), len(table))
    return lines(long, ["test", "n"], "uniform quantile", {"quantiles": "-"}, color="method", ylabel="p-value")


def claims(table: pd.DataFrame, _: Options) -> list[Claim]:
    """State what is uniform, and what is not."""
    ours, count = table[table["method"] != "naive"], table["replicates"].iloc[0]
    fits = table["test"] == "goodness of fit"
    first = table[fits & (table["method"] == "naive") & (table["n"] == 1000)]["size at .05"].iloc[0]
    error = np.sqrt(first * (1 - first) / count)
    least = ours.loc[fits, "KS p-value"].min()
    return [
        Claim("size of the naive chi-squared test at .05; .74 expected", "goodness of fit, d = 4, n = 1000, rho = "
                                                                         ".00125",
              f"{first:.3f}", abs(first - 0.74) < 0.02 + 4 * error, error=f"{error:.3f}"),
        Claim("least p-value of the Kolmogorov-Smirnov test that p-values are uniform (not rejected at 1e-4)",
              "goodness of fit, d = 4, n = 1000 and 10,000, both statistics", f"{least:.3g}", least > LEVEL),
    ]  # fmt: skip


STUDY = Study(
    "chisquare_pvalues", DESIGNS, draw, summary,
    (Rule("largest size at .05, independence and two samples", "size at .05", "share", 0.05,
          where=lambda table: (table["test"] != "goodness of fit") & (table["method"] != "naive"),
          design="2x2, n = 1000 and 10,000, rho = .00125, both statistics"),),
    axes=lambda design: {"test": design.name, "n": design.n}, by=("method",), quick=6, early=False, figure=figure_of,
    also=claims,
    notes=(f"{PRICE}, replace_one, the number of rows public (sizes of two samples only through the noisy table); "
           f"{DRAWS} "
           "simulated releases behind each of our p-values. The Kolmogorov-Smirnov test of a Monte Carlo p-value "
           "spreads it evenly over its step of 1/1000.",),
)  # fmt: skip

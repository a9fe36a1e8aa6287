"""P-values of chi-squared tests under the null hypothesis: noisy counts taken for exact ones, beside ours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats
from tqdm import tqdm

import dpinfer as dpi
from dpinfer.release import NoiseLaw
from dpinfer.statistics.noise import CountNoise
from dpinfer.statistics.nulls import batch_pvalues
from dpinfer.tables.chi_squared_inference import GoodnessOfFit, Homogeneity, Independence
from validation.common.claims import Claim
from validation.common.outputs import Options, new_figure, write_table

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


def noise_of(shape: tuple[int, ...]) -> CountNoise:
    """The noise of the price on such a table under replace_one."""
    columns = {f"c{place}": dpi.Category([str(k) for k in range(levels)]) for place, levels in enumerate(shape)}
    measured = dpi.table(list(columns)).measurement(PRICE, schema=dpi.Schema(columns), neighbors="replace_one")
    return CountNoise(NoiseLaw(measured.law.family, measured.law.scales[:1]), measured.steps[0])


def draw(design: Design, replicates: int, seed: int) -> dict[str, np.ndarray]:
    """P-values (replicates,) of each method."""
    rng = np.random.default_rng(seed)
    noise = noise_of(design.shape)
    counts = design.counts(replicates, rng)
    values = counts + noise.rvs(counts.shape, rng)
    found = {"naive": design.naive(values)}
    for kind in ("projected", "pearson"):
        found[kind] = batch_pvalues(design.model(noise, kind), values, draws=DRAWS, rng=rng)
    return found


def figure_of(drawn: dict[Design, dict[str, np.ndarray]]) -> Figure:
    """Sorted p-values against uniform quantiles."""
    figure, panels = new_figure(11, 7, 2, 3, sharex=True, sharey=True)
    colours = {"naive": "firebrick", "projected": "#03396c", "pearson": "#f18f01"}
    ordered = sorted(drawn, key=lambda design: design.n)
    for axes, design in zip(panels.ravel(), ordered, strict=True):
        for method, pvalues in drawn[design].items():
            place = (np.arange(pvalues.size) + 0.5) / pvalues.size
            label = f"{method}, size {np.mean(pvalues <= 0.05):.3f}"
            axes.plot(place, np.sort(pvalues), color=colours[method], lw=1.6, label=label)
        axes.plot([0, 1], [0, 1], color="black", lw=0.7, ls=":")
        axes.set_title(f"{design.name}, n = {design.n:,}", fontsize=10)
        axes.legend(fontsize=8, frameon=False, loc="upper left")
    for axes in panels[-1]:
        axes.set_xlabel("uniform quantile")
    for axes in panels[:, 0]:
        axes.set_ylabel("p-value under the null")
    return figure


def run(arguments: Options) -> list[Claim]:
    """Draw every design; write the table and the figure."""
    drawn = {
        design: draw(design, arguments.replicates, arguments.seed + place)
        for place, design in enumerate(tqdm(DESIGNS, desc="p-values"))
    }
    rows = []
    for design, methods in drawn.items():
        for method, pvalues in methods.items():
            rows.append(
                {
                    "test": design.name,
                    "n": design.n,
                    "method": method,
                    "size at .05": np.mean(pvalues <= 0.05),
                    "size at .01": np.mean(pvalues <= 0.01),
                    "KS p-value": stats.kstest(_spread(pvalues, method), "uniform").pvalue,
                }
            )
    table = pd.DataFrame(rows)
    error = np.sqrt(0.05 * 0.95 / arguments.replicates)
    notes = [
        f"{PRICE}, replace_one, the number of rows public (sizes of two samples only through the noisy table); {DRAWS} "
        f"simulated releases behind each of our p-values. Monte Carlo standard error of a size near .05: {error:.4f}. "
        "The Kolmogorov-Smirnov test of a Monte Carlo p-value spreads it evenly over its step of 1/1000.",
    ]
    write_table(table, "chisquare_pvalues", arguments, notes, figure_of(drawn))
    ours, naive = table[table["method"] != "naive"], table[table["method"] == "naive"]
    fit = ours[ours["test"] == "goodness of fit"]
    others = ours[ours["test"] != "goodness of fit"]
    most = stats.binom.isf(LEVEL, arguments.replicates, 0.05) / arguments.replicates
    first = naive[(naive["test"] == "goodness of fit") & (naive["n"] == 1000)]["size at .05"].iloc[0]
    return [
        Claim(
            "size of the naive chi-squared test at .05; .74 expected",
            "goodness of fit, d = 4, n = 1000, rho = .00125",
            f"{first:.3f}",
            abs(first - 0.74) < 0.02 + 4 * error,
            error=f"{np.sqrt(first * (1 - first) / arguments.replicates):.3f}",
        ),
        Claim(
            "least p-value of the Kolmogorov-Smirnov test that p-values are uniform (not rejected at 1e-4)",
            "goodness of fit, d = 4, n = 1000 and 10,000, both statistics",
            f"{fit['KS p-value'].min():.3g}",
            (fit["KS p-value"] > LEVEL).all(),
        ),
        Claim(
            "largest size at .05, independence and two samples",
            "2x2, n = 1000 and 10,000, rho = .00125, both statistics",
            f"{others['size at .05'].max():.4f}",
            others["size at .05"].max() <= most,
            error=f"{error:.4f}",
        ),
    ]


def _spread(pvalues: np.ndarray, method: str) -> np.ndarray:
    """A Monte Carlo p-value, spread evenly over its step, so that it has a density."""
    if method == "naive":
        return pvalues
    return pvalues - np.random.default_rng(0).random(pvalues.size) / (DRAWS + 1)

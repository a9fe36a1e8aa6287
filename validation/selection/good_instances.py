"""Private medians, quartile ranges and trimmed means: choices by rank beside noise scaled to smooth sensitivity.

The peers are given every advantage: of a grid of laws and constants that keep the guarantee the one with the least
error is taken for each cell, as if that choice were free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import stats
from tqdm import tqdm

import dpinfer as dpi
from validation.common.claims import Claim
from validation.common.outputs import Options, new_figure, write_figure, write_table
from validation.common.stages import Choosing

Array = NDArray[np.float64]


SIZES = (101, 1_001, 10_001)
WIDE = {"tight": 1.0, "1,000 times too wide": 1_000.0}
PRICES = (dpi.PureDP(0.1), dpi.PureDP(1.0), dpi.ZCDP(0.1))
HALVES = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9])
"""Shares of the price that noise scaled to smooth sensitivity may give to the change of its own scale."""

SPREADS = (0.3, 0.5, 0.7, 1.0, 1.5)
"""Of the logarithm of the scale of Laplace log-normal noise."""

MOST, LEAST_GAIN = 0.9, 2.0
"""Share of cells, and middle ratio of errors, that are claimed."""

TRIM = 0.1
GRID = 2_001
"""Points at which a quartile range is chosen at once."""


@dataclass(frozen=True)
class Shape:
    """A population within (0, 1), with its median and the range between its quartiles."""

    name: str
    draw: Callable[[np.random.Generator, int], Array]
    law: Callable[[Array], Array]

    def at(self, points: Array) -> Array:
        """Return the distribution function."""
        return np.asarray(self.law(points))


def _two(rng: np.random.Generator, n: int) -> Array:
    return np.where(rng.random(n) < 0.5, 0.25, 0.75) + rng.normal(0, 0.02, n)


def _two_law(points: Array) -> Array:
    return np.asarray(0.5 * stats.norm.cdf(points, 0.25, 0.02) + 0.5 * stats.norm.cdf(points, 0.75, 0.02))


SHAPES = (
    Shape("peaked", lambda rng, n: rng.laplace(0.5, 0.01, n), stats.laplace(0.5, 0.01).cdf),
    Shape("two lumps", _two, _two_law),
    Shape("uniform", lambda rng, n: rng.uniform(0, 1, n), stats.uniform.cdf),
    Shape("heavy tails", lambda rng, n: 0.5 + 0.01 * rng.standard_t(2, n), lambda x: stats.t.cdf((x - 0.5) / 0.01, 2)),
)


# Smooth sensitivity


def gaps(values: Array, place: int, most: int, ends: tuple[float, float]) -> Array:
    """Return how far an order statistic can move when a row is replaced after k others were (most + 1,).

    ``values`` (n,) are sorted, ``place`` counts from 0. Nissim, Raskhodnikova & Smith (2007), section 3.1.
    """
    padded = np.concatenate([np.full(most + 2, ends[0]), values, np.full(most + 2, ends[1])])
    middle = place + most + 2
    return np.array(
        [(padded[middle : middle + k + 2] - padded[middle - k - 1 : middle + 1]).max() for k in range(most + 1)]
    )


def smooth(found: Array, betas: Array, range_: float) -> Array:
    """Return upper bounds on the sensitivity that change by at most a factor exp(beta), for each beta."""
    k = np.arange(len(found))
    inside = (np.exp(-betas[:, None] * k) * found).max(axis=1)
    return np.maximum(inside, np.exp(-betas * len(found)) * range_)


@dataclass(frozen=True)
class SmoothLaw:
    """Noise Z on f(x) + S(x) Z / alpha, where S changes by at most a factor exp(beta) between neighbours."""

    name: str
    alpha: float
    beta: float
    draw: Callable[[np.random.Generator], float]


def smooth_laws(price: dpi.PureDP | dpi.ZCDP) -> Iterator[SmoothLaw]:
    """Give laws that keep a price.

    Density 1/(1 + |z|^g): with h its logarithm, |h'| is at most (g - 1)^((g - 1)/g), and a change of scale by
    exp(beta) changes it by at most beta max(1, g - 1); the two add up to epsilon. Laplace log-normal noise with spread
    s: rho = (beta / s + exp(3 s^2 / 2) alpha)^2 / 2 (Bun & Steinke 2019).
    """
    if isinstance(price, dpi.PureDP):
        for power, share in product((2.0, 3.0, 4.0, 6.0), HALVES):
            beta = share * price.epsilon / max(1.0, power - 1)
            alpha = (1 - share) * price.epsilon / (power - 1) ** ((power - 1) / power)
            yield SmoothLaw(f"1/(1+|z|^{power:g})", alpha, beta, partial(_powered, power))
        return
    whole = np.sqrt(2 * price.rho)
    for spread, share in product(SPREADS, HALVES):
        alpha = (1 - share) * whole * np.exp(-1.5 * spread**2)
        yield SmoothLaw("Laplace log-normal", alpha, share * whole * spread, partial(_log_normal, spread))


def _powered(power: float, rng: np.random.Generator) -> float:
    """Draw of density proportional to 1/(1 + |z|^g): |z|^g / (1 + |z|^g) is Beta(1/g, 1 - 1/g)."""
    share = rng.beta(1 / power, 1 - 1 / power)
    size = (share / max(1 - share, 1e-300)) ** (1 / power)
    return float(size * rng.choice([-1.0, 1.0]))


def _log_normal(spread: float, rng: np.random.Generator) -> float:
    return float(rng.laplace() * np.exp(spread * rng.normal()))


# Medians


def median_errors(shape: Shape, n: int, wide: float, seeds: range, seed: int) -> pd.DataFrame:
    """Errors of private medians: in rank, and of the value, of the choice and of every smooth law."""
    ends = (0.5 - wide / 2, 0.5 + wide / 2)
    schema = dpi.Schema(x=dpi.Real(*ends, missing=0.5, impossible=0.5))
    question = dpi.quantile("x", q=0.5, method="exponential")  # a quarter of its price is for the choice
    choices = {
        price: Choosing.of(question.measurement(_times(price, 4), schema=schema, neighbors="replace_one"))
        for price in PRICES
    }
    laws = {price: list(smooth_laws(price)) for price in PRICES}
    found = []
    for number in seeds:
        rng = np.random.default_rng([seed, SHAPES.index(shape), n, round(wide), number])
        values = np.sort(np.clip(shape.draw(rng, n), *ends))
        middle, moved = values[n // 2], gaps(values, n // 2, min(n // 2, 2_000), ends)
        for price in PRICES:
            chosen = float(choices[price].values(values, rng)[0])
            found.append((number, str(price), "choice", *_errors(values, chosen, middle)))
            bounds = smooth(moved, np.array([law.beta for law in laws[price]]), wide)
            for which, (law, bound) in enumerate(zip(laws[price], bounds, strict=True)):
                guess = float(np.clip(middle + bound / law.alpha * law.draw(rng), *ends))
                found.append((number, str(price), f"{law.name} {which}", *_errors(values, guess, middle)))
    table = pd.DataFrame(found, columns=["number", "price", "how", "rank", "value"])
    return table.assign(shape=shape.name, n=n, bounds=next(name for name, one in WIDE.items() if one == wide))


def _times(price: dpi.PureDP | dpi.ZCDP, times: int) -> dpi.PureDP | dpi.ZCDP:
    return dpi.PureDP(price.epsilon * times) if isinstance(price, dpi.PureDP) else dpi.ZCDP(price.rho * times)


def _errors(values: Array, guess: float, middle: float) -> tuple[float, float]:
    """Distance from the sample's median in rows, and in value."""
    below, upto = np.searchsorted(values, guess), np.searchsorted(values, guess, side="right")
    half = len(values) / 2
    return float(max(below - half, half - upto, 0.0)), abs(guess - middle)


def medians(arguments: Options) -> pd.DataFrame:
    """Mean errors of the choice and of the best smooth law of each cell, by its error in rank and in value."""
    step = max(arguments.replicates // 10, 1)
    tasks = [
        (shape, n, wide, range(first, min(first + step, arguments.replicates)), arguments.seed)
        for shape, n, wide in product(SHAPES, SIZES, WIDE.values())
        for first in range(0, arguments.replicates, step)
    ]
    parallel = Parallel(n_jobs=arguments.jobs if arguments.replicates >= 100 else 1, return_as="generator")
    parts = list(tqdm(parallel(delayed(median_errors)(*task) for task in tasks), total=len(tasks), desc="medians"))
    keys = ["shape", "bounds", "n", "price"]
    every = pd.concat(parts).groupby([*keys, "how"], sort=False)[["rank", "value"]].mean()
    found = []
    for cell, part in every.groupby(keys, sort=False):
        ours, theirs = part.xs("choice", level="how").iloc[0], part.drop(index="choice", level="how")
        rank, value = theirs["rank"].min(), theirs["value"].min()
        law = str(theirs["value"].idxmin()[-1]).rsplit(" ", 1)[0]
        found.append((*cell, ours["rank"], rank, rank / ours["rank"], ours["value"], value, value / ours["value"], law))
    heads = ["choice: rank", "smooth: rank", "rank, times", "choice: value", "smooth: value", "value, times", "law"]
    return pd.DataFrame(found, columns=[*keys, *heads])


# The range between the quartiles, and trimmed means


def fewest_replaced(values: Array, first: int, last: int, spans: Array) -> NDArray[np.int64]:
    """Rows to replace until the order statistics ``first`` and ``last`` (from 0) are so far apart, for each span.

    Least over u of the rows below u, between u and u + span, and above it that are too many. ``values`` (n,) are
    sorted and distinct.
    """
    n, found = len(values), []
    for span in spans:
        starts = np.concatenate([values, values - span])
        below, upto = np.searchsorted(values, starts), np.searchsorted(values, starts, side="right")
        inner = np.searchsorted(values, starts + span) - upto
        above = n - np.searchsorted(values, starts + span, side="right")
        too_many = (below - first).clip(0) + (inner - (last - first - 1)).clip(0) + (above - (n - 1 - last)).clip(0)
        found.append(int(too_many.min()))
    return np.array(found)


def range_errors(shape: Shape, n: int, epsilon: float, seed: int, number: int) -> tuple[float, float, float, float]:
    """Errors of the range between quartiles, of the population's: sample, two choices, one choice, from the tree."""
    rng = np.random.default_rng([seed, 7, SHAPES.index(shape), n, number])
    values = np.sort(np.clip(shape.draw(rng, n), 0, 1))
    first, last = n // 4, n - 1 - n // 4
    grid = np.linspace(0, 1, 20_001)
    truth = float(np.subtract(*np.interp([0.75, 0.25], shape.at(grid), grid)))
    spans = np.linspace(0, 1, GRID)
    score = -0.5 * epsilon * fewest_replaced(values, first, last, spans)
    one = spans[np.argmax(score + rng.gumbel(size=GRID))]
    schema = dpi.Schema(x=dpi.Real(0, 1, missing=0.5, impossible=0.5))
    data = _rows(values, schema, rng)
    price = dpi.PureDP(epsilon)
    choices = Choosing.of(_quartiles(dpi.PureDP(4 * epsilon), schema))  # the same choices, for all of the price
    two = float(np.subtract(*choices.values(values, rng)[::-1]))
    tree = dpi.quantile("x", data, q=[0.25, 0.75], method="tree").fit(price).params
    guesses = (float(values[last] - values[first]), two, float(one), float(tree.iloc[1] - tree.iloc[0]))
    a, b, c, d = (guess - truth for guess in guesses)
    return a, b, c, d


def _quartiles(price: dpi.PureDP, schema: dpi.Schema) -> object:
    return dpi.quantile("x", q=[0.25, 0.75], method="exponential").measurement(
        price, schema=schema, neighbors="replace_one"
    )


def ranges(arguments: Options) -> pd.DataFrame:
    """Root mean squared errors of the range between the quartiles, over the sample's."""
    count = max(arguments.replicates // 5, 4)
    found = []
    for shape, n in tqdm(list(product(SHAPES, (101, 1_001))), desc="quartile ranges"):
        tasks = (delayed(range_errors)(shape, n, 1.0, arguments.seed, number) for number in range(count))
        jobs = arguments.jobs if arguments.replicates >= 100 else 1
        errors = np.sqrt(np.mean(np.square(Parallel(n_jobs=jobs)(tasks)), axis=0))
        found.append((shape.name, n, errors[0], *(errors[1:] / errors[0])))
    return pd.DataFrame(found, columns=["shape", "n", "sample", "two choices", "one choice", "tree"])


def trimmed_errors(wide: float, n: int, normal: bool, seed: int, number: int) -> Array:
    """Errors of the centre 0: trimmed mean, private ones (laws), chosen median, mean within found bounds, rlm."""
    rng = np.random.default_rng([seed, 9, n, round(wide), normal, number])
    values = rng.normal(size=n) if normal else rng.standard_t(2, n)
    ends = (-5 * wide, 5 * wide)
    values = np.sort(np.clip(values, *ends))
    cut = int(TRIM * n)
    plain = float(values[cut : n - cut].mean())
    moved = trimmed_gaps(values, cut, ends)
    laws = list(smooth_laws(PRICES[1]))
    bounds = smooth(moved, np.array([law.beta for law in laws]), 10 * wide)
    private = [
        float(np.clip(plain + s / law.alpha * law.draw(rng), *ends)) for law, s in zip(laws, bounds, strict=True)
    ]
    schema = dpi.Schema(x=dpi.Real(*ends, missing=0.0, impossible=0.0))
    question = dpi.quantile("x", q=0.5, method="exponential")
    choice = Choosing.of(question.measurement(dpi.PureDP(4.0), schema=schema, neighbors="replace_one"))
    huber = float(dpi.rlm("x ~ 1", _rows(values, schema, rng)).fit(dpi.PureDP(1.0)).params.iloc[0])
    chosen = float(choice.values(values, rng)[0])
    return np.array([plain, *private, chosen, _within_found(values, ends, rng), huber])


def _rows(values: Array, schema: dpi.Schema, rng: np.random.Generator) -> dpi.PublicData:
    return dpi.PublicData(pd.DataFrame({"x": values}), schema, rng=rng, neighbors="replace_one")


def trimmed_gaps(values: Array, cut: int, ends: tuple[float, float]) -> Array:
    """Return how far a trimmed mean can move when a row is replaced after k others were: (2 cut,).

    One replaced row moves one value across those that are kept, from the lowest that k + 1 replaced rows can bring to
    their lower end to the highest: at most that distance over their number.
    """
    n, most = len(values), 2 * cut
    padded = np.concatenate([np.full(most + 2, ends[0]), values, np.full(most + 2, ends[1])])
    low, high = cut + most + 2, n - 1 - cut + most + 2
    found = [(padded[high : high + k + 2] - padded[low - k - 1 : low + 1]).max() for k in range(most)]
    return np.array(found) / (n - 2 * cut)


def _within_found(values: Array, ends: tuple[float, float], rng: np.random.Generator) -> float:
    """Find bounds with a quarter of the price, and take the mean within them for the rest."""
    declared = dpi.Schema(x=dpi.Real(*ends, missing=0.0, impossible=0.0))
    found = dpi.bounds("x", _rows(values, declared, rng)).fit(dpi.PureDP(0.25)).bounds
    lower, upper = (float(found.loc["x", name]) for name in ("lower", "upper"))
    if not np.isfinite([lower, upper]).all():
        lower, upper = ends
    lower, upper = max(lower, ends[0]), min(upper, ends[1])
    middle = 0.5 * (lower + upper)
    schema = dpi.Schema(x=dpi.Real(lower, upper, missing=middle, impossible=middle))
    return float(dpi.mean("x", _rows(values, schema, rng)).fit(dpi.PureDP(0.75)).params.iloc[0])


def centres(arguments: Options) -> pd.DataFrame:
    """Median absolute errors of estimates of a centre, over that of the trimmed mean without privacy."""
    count = max(arguments.replicates // 5, 4)
    found = []
    cells = list(product(((True, "normal"), (False, "t, 2 degrees of freedom")), WIDE.items(), (101, 1_001, 10_001)))
    for (normal, name), (called, wide), n in tqdm(cells, desc="centres"):
        tasks = (delayed(trimmed_errors)(wide, n, normal, arguments.seed, number) for number in range(count))
        jobs = arguments.jobs if arguments.replicates >= 100 else 1
        errors = np.median(np.abs(Parallel(n_jobs=jobs)(tasks)), axis=0)
        found.append((name, called, n, errors[0], *(np.array([errors[1:-3].min(), *errors[-3:]]) / errors[0])))
    heads = ["population", "bounds", "n", "trimmed mean", "smooth trimmed mean", "chosen median",
             "mean, found bounds", "rlm"]  # fmt: skip
    return pd.DataFrame(found, columns=heads)


def drawn(table: pd.DataFrame, arguments: Options) -> None:
    """Error of smooth sensitivity over that of the choice, by population and size."""
    figure, axes = new_figure(9, 3, 1, len(PRICES), sharey=True)
    colors = dict(zip([one.name for one in SHAPES], ("#4477aa", "#ee6677", "#228833", "#ccbb44"), strict=True))
    for panel, price in zip(axes, PRICES, strict=True):
        for (shape, bounds), part in table[table["price"] == str(price)].groupby(["shape", "bounds"], sort=False):
            style = "-" if bounds == "tight" else "--"
            panel.plot(
                part["n"], part["value, times"], f"o{style}", ms=4, color=colors[shape], label=f"{shape}, {bounds}"
            )
        panel.axhline(1, color="0.6", lw=0.8)
        panel.set(title=str(price), xlabel="rows", xscale="log", yscale="log")
        panel.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("mean error, smooth sensitivity / choice")
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, fontsize="x-small", loc="outside right center")
    write_figure(figure, "good_instances", arguments)


def run(arguments: Options) -> list[Claim]:
    """Measure, write tables and the figure."""
    table, spans, found = medians(arguments), ranges(arguments), centres(arguments)
    notes = [
        "Mean distance from the sample's median, in rows and in value, where a row is replaced and n is odd. Choice: "
        "the exponential mechanism on the distance in rank, for all of the price. Smooth: noise scaled to the smooth "
        "sensitivity of the median, the best of all laws and constants of the grid for this cell and this error.",
    ]
    write_table(table, "good_instances", arguments, notes)
    few = f"{max(arguments.replicates // 5, 4)} replicates"
    write_table(spans, "good_instances_ranges", arguments, [
        f"Root mean squared error of the range between the quartiles over the sample's, PureDP(1), replace_one, {few}. "
        "Two choices: half of the price each. One choice: the inverse sensitivity mechanism of the range itself."
    ])  # fmt: skip
    write_table(found, "good_instances_centres", arguments, [
        f"Median absolute error of the centre over that of the 10% trimmed mean, PureDP(1), replace_one, {few}. "
        "Mean, found bounds: a quarter of the price for dpi.bounds, the rest for dpi.mean. rlm: Huber's, by rounds."
    ])  # fmt: skip
    drawn(table, arguments)
    runs, design = arguments.replicates, "4 populations, 101 to 10,001 rows, two bounds, three prices, replace_one"
    claims = []
    for what in ("value", "rank"):
        ratio = table[f"{what}, times"]
        better = int((ratio > 1).sum() + (ratio == 1).sum())
        told = f"{better} of {len(table)}, middle {ratio.median():.1f} times"
        claims.append(
            Claim(
                f"medians: cells in which the choice errs no more in {what} than smooth sensitivity at its best",
                design,
                told,
                better >= MOST * len(table) and ratio.median() > LEAST_GAIN,
                threshold=f"{MOST:.0%} of cells, middle above {LEAST_GAIN:g}",
                cells=len(table),
                replicates=runs,
            )
        )
    return claims

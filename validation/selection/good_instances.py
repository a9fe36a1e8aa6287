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
from numpy.typing import NDArray
from scipy import stats

import dpinfer as dpi
from validation.common.outputs import Options, lines
from validation.common.rules import Claim
from validation.common.stages import Choosing
from validation.common.study import Drawn, Study

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


def draw(cell: tuple[Shape, str, int], rng: np.random.Generator, replicates: int) -> Drawn:
    """Errors of private medians by price (R, hows, 2): in rank and of the value, of the choice and every smooth law."""
    shape, bounds, n = cell
    wide = WIDE[bounds]
    ends = (0.5 - wide / 2, 0.5 + wide / 2)
    schema = dpi.Schema(x=dpi.Real(*ends, missing=0.5, impossible=0.5))
    question = dpi.quantile("x", q=0.5, method="exponential")  # a quarter of its price is for the choice
    choices = {
        price: Choosing.of(question.measurement(_times(price, 4), schema=schema, neighbors="replace_one"))
        for price in PRICES
    }
    laws = {price: list(smooth_laws(price)) for price in PRICES}
    found: dict[str, list] = {str(price): [] for price in PRICES}
    for _ in range(replicates):
        values = np.sort(np.clip(shape.draw(rng, n), *ends))
        middle, moved = values[n // 2], gaps(values, n // 2, min(n // 2, 2_000), ends)
        for price in PRICES:
            guesses = [float(choices[price].values(values, rng)[0])]
            bounded = smooth(moved, np.array([law.beta for law in laws[price]]), wide)
            guesses += [float(np.clip(middle + bound / law.alpha * law.draw(rng), *ends))
                        for law, bound in zip(laws[price], bounded, strict=True)]  # fmt: skip
            found[str(price)].append([_errors(values, guess, middle) for guess in guesses])
    return {price: np.array(rows) for price, rows in found.items()}


def summary(_: tuple, drawn: Drawn) -> list[dict]:
    """Mean errors of the choice and of the best smooth law, by its error in rank and in value."""
    rows = []
    for price, found in drawn.items():
        (rank, value), theirs = found.mean(axis=0)[0], found.mean(axis=0)[1:]
        law = next(one for one in PRICES if str(one) == price)
        best = list(smooth_laws(law))[int(theirs[:, 1].argmin())].name
        rows.append({"price": price, "choice: rank": rank, "smooth: rank": theirs[:, 0].min(),
                     "rank, times": theirs[:, 0].min() / max(rank, 1e-300), "choice: value": value,
                     "smooth: value": theirs[:, 1].min(), "value, times": theirs[:, 1].min() / max(value, 1e-300),
                     "law": best})  # fmt: skip
    return rows


def _times(price: dpi.PureDP | dpi.ZCDP, times: int) -> dpi.PureDP | dpi.ZCDP:
    return dpi.PureDP(price.epsilon * times) if isinstance(price, dpi.PureDP) else dpi.ZCDP(price.rho * times)


def _errors(values: Array, guess: float, middle: float) -> tuple[float, float]:
    """Distance from the sample's median in rows, and in value."""
    below, upto = np.searchsorted(values, guess), np.searchsorted(values, guess, side="right")
    half = len(values) / 2
    return float(max(below - half, half - upto, 0.0)), abs(guess - middle)


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


def draw_range(cell: tuple[Shape, int], rng: np.random.Generator, replicates: int) -> Drawn:
    """Errors of the range between quartiles, of the population's: sample, two choices, one choice, from the tree."""
    (shape, n), found = cell, []
    first, last = n // 4, n - 1 - n // 4
    grid, spans = np.linspace(0, 1, 20_001), np.linspace(0, 1, GRID)
    truth = float(np.subtract(*np.interp([0.75, 0.25], shape.at(grid), grid)))
    schema = dpi.Schema(x=dpi.Real(0, 1, missing=0.5, impossible=0.5))
    both = dpi.quantile("x", q=[0.25, 0.75], method="exponential")  # the same choices, for all of the price
    choices = Choosing.of(both.measurement(dpi.PureDP(4.0), schema=schema, neighbors="replace_one"))
    for _ in range(replicates):
        values = np.sort(np.clip(shape.draw(rng, n), 0, 1))
        score = -0.5 * fewest_replaced(values, first, last, spans)
        one = spans[np.argmax(score + rng.gumbel(size=GRID))]
        two = float(np.subtract(*choices.values(values, rng)[::-1]))
        tree = dpi.quantile("x", _rows(values, schema, rng), q=[0.25, 0.75], method="tree").fit(dpi.PureDP(1.0)).params
        found.append([values[last] - values[first], two, one, tree.iloc[1] - tree.iloc[0]])
    return {"errors": np.array(found, dtype=float) - truth}


def ranges(_: tuple, drawn: Drawn) -> dict:
    """Root mean squared errors, over the sample's."""
    errors = np.sqrt((drawn["errors"] ** 2).mean(axis=0))
    names = ("sample", "two choices", "one choice", "tree")
    return dict(zip(names, [errors[0], *(errors[1:] / errors[0])], strict=True))


def draw_centre(cell: tuple[str, str, int], rng: np.random.Generator, replicates: int) -> Drawn:
    """Errors of the centre 0."""
    population, bounds, n = cell
    return {
        "errors": np.array([trimmed_errors(WIDE[bounds], n, population == "normal", rng) for _ in range(replicates)])
    }


def centres(_: tuple, drawn: Drawn) -> dict:
    """Median absolute errors, over that of the trimmed mean without privacy."""
    errors = np.median(np.abs(drawn["errors"]), axis=0)
    names = ("trimmed mean", "smooth trimmed mean", "chosen median", "mean, found bounds", "rlm")
    return dict(zip(names, [errors[0], *(np.array([errors[1:-3].min(), *errors[-3:]]) / errors[0])], strict=True))


def trimmed_errors(wide: float, n: int, normal: bool, rng: np.random.Generator) -> Array:
    """Errors of the centre 0: trimmed mean, private ones (laws), chosen median, mean within found bounds, rlm."""
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


def claims(table: pd.DataFrame, _: Options) -> list[Claim]:
    """State in how many cells the choice is no worse."""
    design = "4 populations, 101 to 10,001 rows, two bounds, three budgets, replace_one"
    found = []
    for what in ("value", "rank"):
        ratio = table[f"{what}, times"]
        better = int((ratio >= 1).sum())
        found.append(Claim(f"medians: cells in which the choice errs no more in {what} than smooth sensitivity at its "
                           f"best",
                           design, f"{better} of {len(table)}, middle {ratio.median():.1f} times",
                           better >= MOST * len(table) and ratio.median() > LEAST_GAIN,
                           threshold=f"{MOST:.0%} of cells, middle above {LEAST_GAIN:g}", cells=len(table),
                           replicates=int(table["replicates"].max())))  # fmt: skip
    return found


STUDY = (
    Study("good_instances", [*product(SHAPES, WIDE, SIZES)], draw, summary, by=("price",), most=400, also=claims,
          quick=6,
          axes=lambda cell: {"shape": cell[0].name, "bounds": cell[1], "n": cell[2]},
          figure=lambda table: lines(table, "price", "n", {"value, times": "o-"}, color="shape", log=True),
          notes=("Mean distance from the sample's median, in rows and in value, where a row is replaced and n is odd. "
                 "Choice: the exponential mechanism on the distance in rank, for all of the budget. Smooth: noise "
                 "scaled to the smooth sensitivity of the median, the best of all laws and constants of the grid for "
                 "this cell and this error.",)),
    Study("good_instances_ranges", [*product(SHAPES, (101, 1_001))], draw_range, ranges, most=80, quick=2,
          axes=lambda cell: {"shape": cell[0].name, "n": cell[1]},
          notes=("Root mean squared error of the range between the quartiles over the sample's, PureDP(1), "
                 "replace_one. Two choices: half of the budget each. One choice: the inverse sensitivity mechanism of "
                 "the range itself.",
                 )),
    Study("good_instances_centres", [*product(("normal", "t, 2 degrees of freedom"), WIDE, SIZES)], draw_centre,
          centres,
          most=80, quick=2, axes=lambda cell: dict(zip(("population", "bounds", "n"), cell, strict=True)),
          notes=("Median absolute error of the centre over that of the 10% trimmed mean, PureDP(1), replace_one. Mean, "
                 "found bounds: a quarter of the budget for dpi.bounds, the rest for dpi.mean. rlm: Huber's, by "
                 "rounds.",)),
)  # fmt: skip

"""Power of the chi-squared tests on noisy counts, and what earlier statistics lose against the projected one."""

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
from dpinfer.tables.chi_squared_inference import GoodnessOfFit, Independence
from validation.common.claims import Claim
from validation.common.outputs import Options, write_figure, write_table

LEVEL = 0.05
KNOWN_FROM = 10_000
"""Replicates that the known powers are taken to come from: they have a Monte Carlo error too."""
NULL_DRAWS = 5
"""Draws under the hypothesis for every replicate under the alternative."""
CURVE = (500, 1000, 2000, 5000, 10_000, 20_000, 40_000)

EVEN = np.full(4, 0.25)
ZIGZAG = 0.01 * np.array([1.0, -1.0, -1.0, 1.0])
STEEP = np.array([0.9, 0.05, 0.03, 0.02])
TAIL = np.array([0.6, 0.25, 0.1, 0.04, 0.01])
MANY = np.concatenate([np.full(5, 0.1), np.full(45, 0.5 / 45)])
SPREAD = np.concatenate([0.008 * np.array([1.0, -1.0, 1.0, -1.0, 0.0]), np.zeros(45)])


@dataclass(frozen=True)
class Point:
    """One known power: what is tested, where, and the value that is known or required."""

    name: str
    null: np.ndarray
    shift: np.ndarray
    n: int
    rho: float
    kind: str
    known: float
    independence: bool = False


POINTS = (
    *(
        Point("goodness of fit, uniform d = 4", EVEN, ZIGZAG, n, 0.00125, "projected", known)
        for n, known in ((1000, 0.075), (5000, 0.434), (10_000, 0.846))
    ),
    Point("goodness of fit, (.9, .05, .03, .02), largest +.01", STEEP, np.array([0.01, *[-0.01 / 3] * 3]), 10_000,
          0.005, "projected", 0.771),
    Point("goodness of fit, (.6, .25, .1, .04, .01), smallest two +-.005", TAIL,
          np.array([0, 0, 0, 0.005, -0.005]), 10_000, 0.005, "pearson", 0.899),
    Point("independence, uniform 2x2", EVEN, ZIGZAG, 1000, 0.005, "projected", 0.151, True),
    Point("independence, uniform 2x2", EVEN, ZIGZAG, 5000, 0.00125, "projected", 0.609, True),
)  # fmt: skip


def noise_of(cells: int, rho: float) -> CountNoise:
    """The noise of a price on so many cells under replace_one."""
    schema = dpi.Schema(c=dpi.Category([str(k) for k in range(cells)]))
    measured = dpi.table("c").measurement(dpi.ZCDP(rho), schema=schema, neighbors="replace_one")
    return CountNoise(NoiseLaw("gaussian", measured.law.scales[:1]), measured.steps[0])


def model_of(point: Point, kind: str) -> GoodnessOfFit | Independence:
    """The test that a point is about."""
    noise = noise_of(point.null.size, point.rho)
    return Independence((2, 2), noise, point.n, kind) if point.independence else GoodnessOfFit(
        point.null, noise, point.n, kind
    )  # fmt: skip


def tables(n: int, cells: np.ndarray, noise: CountNoise, size: int, rng: np.random.Generator) -> np.ndarray:
    """Noisy counts (size, d)."""
    return rng.multinomial(n, cells, size=size) + noise.rvs((size, cells.size), rng)


def power_of(statistic, null: np.ndarray, moved: np.ndarray) -> float:
    """Share of statistics under the alternative above the null's quantile."""
    return float(np.mean(statistic(moved) > np.quantile(statistic(null), 1 - LEVEL)))


def known_powers(arguments: Options) -> pd.DataFrame:
    """Power at every known point: with the null simulated, with its limit, and of both statistics."""
    rows = []
    for place, point in enumerate(tqdm(POINTS, desc="powers")):
        rng = np.random.default_rng(arguments.seed + place)
        noise = noise_of(point.null.size, point.rho)
        null = tables(point.n, point.null, noise, NULL_DRAWS * arguments.replicates, rng)
        moved = tables(point.n, point.null + point.shift, noise, arguments.replicates, rng)
        models = {kind: model_of(point, kind) for kind in ("projected", "pearson")}
        powers = {kind: power_of(model.statistic, null, moved) for kind, model in models.items()}
        limit = stats.chi2.isf(LEVEL, models["projected"].dof)
        exact = rng.multinomial(point.n, point.null + point.shift, size=arguments.replicates).astype(float)
        ordinary = np.mean(_ordinary(point, exact) <= LEVEL)
        rows.append(
            {
                "design": point.name,
                "n": point.n,
                "rho": point.rho,
                "projected": powers["projected"],
                "projected, asymptotic": np.mean(models["projected"].statistic(moved) > limit),
                "pearson": powers["pearson"],
                "without privacy": ordinary,
                "limit": stats.ncx2.sf(limit, models["projected"].dof, noncentrality(point, noise)),
                "known": point.known,
                "of": point.kind,
                "error": np.sqrt(point.known * (1 - point.known) * (1.2 / arguments.replicates + 1 / KNOWN_FROM)),
            }
        )
    return pd.DataFrame(rows)


def noncentrality(point: Point, noise: CountNoise) -> float:
    """Of the projected statistic's chi-squared limit: the length of the shift that the margins leave."""
    size, d = point.n, point.null.size
    cov = size * (np.diag(point.null) - np.outer(point.null, point.null)) + noise.variance * np.eye(d)
    moved = size * (point.shift - point.shift.mean())
    if point.independence:
        table = moved.reshape(2, 2)
        moved = (table - table.mean(axis=0) - table.mean(axis=1)[:, None] + table.mean()).ravel()
    return float(moved @ np.linalg.solve(cov, moved))


def _ordinary(point: Point, counts: np.ndarray) -> np.ndarray:
    if not point.independence:
        expected = point.n * point.null
        return stats.chi2.sf(((counts - expected) ** 2 / expected).sum(axis=1), point.null.size - 1)
    table = counts.reshape(-1, 2, 2)
    expected = table.sum(axis=2, keepdims=True) * table.sum(axis=1, keepdims=True) / point.n
    return stats.chi2.sf(((table - expected) ** 2 / expected).sum(axis=(1, 2)), 1)


LOSSES = (
    ("uniform, d = 4", EVEN, ZIGZAG, 0.00125),
    ("(.9, .05, .03, .02), largest +.01", STEEP, np.array([0.01, *[-0.01 / 3] * 3]), 0.005),
    ("d = 50, half in 5 cells, these +-.008", MANY, SPREAD, 0.005),
    ("(.6, .25, .1, .04, .01), smallest two +-.005", TAIL, np.array([0, 0, 0, 0.005, -0.005]), 0.005),
)


def losses(arguments: Options) -> pd.DataFrame:
    """Power of the projected statistic, and what earlier ones lose against it, by number of rows."""
    rows = []
    for place, (name, null_cells, shift, rho) in enumerate(tqdm(LOSSES, desc="losses")):
        noise = noise_of(null_cells.size, rho)
        for n in CURVE:
            rng = np.random.default_rng(arguments.seed + 100 * place + n)
            null = tables(n, null_cells, noise, NULL_DRAWS * arguments.replicates, rng)
            moved = tables(n, null_cells + shift, noise, arguments.replicates, rng)
            cov = n * (np.diag(null_cells) - np.outer(null_cells, null_cells)) + noise.variance * np.eye(
                null_cells.size
            )
            whole = np.linalg.inv(cov)

            def unprojected(values: np.ndarray, n: int = n, p: np.ndarray = null_cells, w: np.ndarray = whole):
                return np.einsum("ri,ij,rj->r", values - n * p, w, values - n * p)

            powers = {
                "projected": power_of(GoodnessOfFit(null_cells, noise, n).statistic, null, moved),
                "Pearson, simulated null": power_of(
                    GoodnessOfFit(null_cells, noise, n, "pearson").statistic, null, moved
                ),
                "unprojected": power_of(unprojected, null, moved),
            }
            rows += [
                {"design": name, "rho": rho, "n": n, "statistic": kind, "power": power,
                 "lost against projected": powers["projected"] - power}
                for kind, power in powers.items()
            ]  # fmt: skip
    return pd.DataFrame(rows)


def figure_of(table: pd.DataFrame) -> Figure:
    """Power lost against the projected statistic, by number of rows, with its own power behind."""
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    colours = {"Pearson, simulated null": "#f18f01", "unprojected": "#2a9d8f"}
    for axes, (name, group) in zip(figure.subplots(2, 2).ravel(), table.groupby("design", sort=False), strict=True):
        own = group[group["statistic"] == "projected"]
        axes.fill_between(own["n"], 0, own["power"], color="#d9e3ea", lw=0, label="power of the projected statistic")
        for kind, colour in colours.items():
            some = group[group["statistic"] == kind]
            axes.plot(some["n"], some["lost against projected"], "o-", color=colour, ms=4, label=f"lost by {kind}")
        axes.axhline(0, color="black", lw=0.7)
        axes.set(xscale="log", xlabel="rows", ylabel="power", ylim=(-0.15, 1.02))
        axes.set_title(f"{name}, rho = {group['rho'].iloc[0]:g}", fontsize=10)
    figure.axes[0].legend(fontsize=8, frameon=False, loc="upper left")
    return figure


def run(arguments: Options) -> list[Claim]:
    """Measure the known powers and the losses; write tables and the figure."""
    table = known_powers(arguments)
    write_table(table, "chisquare_power", arguments, [
        f"Level {LEVEL:g}, replace_one with public n; the null's quantile from {NULL_DRAWS} times as many draws. "
        "`error` is the Monte Carlo standard error of the difference to the known value, itself taken to be from "
        f"{KNOWN_FROM:,} replicates; `limit` is the power of the projected statistic from its noncentral limit.",
    ])  # fmt: skip
    lost = losses(arguments)
    write_table(lost, "chisquare_power_lost", arguments, [
        "Power at level .05 of three statistics with simulated nulls: unprojected weighs all d directions by the full "
        "covariance, the noisy total among them. A negative loss is a gain over the projected statistic.",
    ])  # fmt: skip
    write_figure(figure_of(lost), "chisquare_power_lost", arguments)
    return [
        Claim(
            f"power at .05 of the {row['of']} statistic; {row['known']:g} known",
            f"{row['design']}, n = {row['n']:,}, rho = {row['rho']:g}",
            f"{row[row['of']]:.4f}",
            row[row["of"]] >= row["known"] - 3 * row["error"],
            error=f"{row['error']:.4f}",
        )
        for row in table.to_dict("records")
    ]

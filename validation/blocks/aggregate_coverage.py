"""Sample-and-aggregate: error, coverage and width, with winsorised blocks, bounded blocks, and uncorrected ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import dpinfer as dpi
from dpinfer.kernel.rows.blocks import block_values
from dpinfer.resampling.inference import AggregateInference
from validation.blocks.block_designs import POPULATIONS, apart, fit_blocks, release_of
from validation.common.outputs import Options, scatter
from validation.common.rules import Claim, Rule
from validation.common.simulated import RULES
from validation.common.study import Drawn, Study, mean_ratio

KAPPA = RULES.kappa


@dataclass(frozen=True)
class Cell:
    """One question about one population."""

    population: int
    n: int
    blocks: int
    price: Any
    aggregator: str = "winsorized"
    bias_correction: str = "half_blocks"


LOGIT, COLLINEAR, RARE, POISSON, MEDIAN, MULTINOMIAL, FAIR, ANES, RANDHIE = range(9)
MAIN = Cell(LOGIT, 50_000, 200, dpi.ZCDP(0.5))
CELLS = (
    MAIN,
    Cell(LOGIT, 50_000, 200, dpi.ZCDP(0.5), "mean"),
    Cell(LOGIT, 50_000, 200, dpi.ZCDP(0.5), bias_correction="none"),
    Cell(LOGIT, 50_000, 200, dpi.ZCDP(0.1)),
    Cell(LOGIT, 50_000, 200, dpi.ZCDP(0.02)),
    Cell(LOGIT, 50_000, 200, dpi.GDP(2.0)),
    Cell(LOGIT, 50_000, 200, dpi.ApproxDP(1.0, 1e-6)),
    Cell(LOGIT, 50_000, 200, dpi.PureDP(1.0)),
    Cell(LOGIT, 50_000, 200, dpi.PureDP(8.0)),
    Cell(LOGIT, 5000, 50, dpi.ZCDP(0.5)),
    Cell(LOGIT, 5000, 50, dpi.ZCDP(2.0)),
    Cell(LOGIT, 5000, 50, dpi.ZCDP(0.5), "mean"),
    Cell(COLLINEAR, 20_000, 120, dpi.ZCDP(0.5)),
    Cell(COLLINEAR, 20_000, 120, dpi.ZCDP(0.1)),
    Cell(RARE, 20_000, 60, dpi.ZCDP(0.5)),
    Cell(RARE, 20_000, 60, dpi.ZCDP(2.0)),
    Cell(POISSON, 10_000, 100, dpi.ZCDP(0.5)),
    Cell(POISSON, 10_000, 100, dpi.ZCDP(0.05)),
    Cell(POISSON, 10_000, 100, dpi.PureDP(4.0)),
    Cell(MEDIAN, 6000, 60, dpi.ZCDP(0.5)),
    Cell(MEDIAN, 6000, 60, dpi.ZCDP(5.0)),
    Cell(MULTINOMIAL, 10_000, 60, dpi.ZCDP(0.5)),
    Cell(MULTINOMIAL, 10_000, 60, dpi.ZCDP(5.0)),
    *(
        Cell(*one, price)
        for one in ((FAIR, 10_000, 60), (ANES, 10_000, 60), (RANDHIE, 20_000, 60))
        for price in (dpi.ZCDP(0.5), dpi.ZCDP(2.0))
    ),
)
JUDGED = "half_blocks"


def question(cell: Cell) -> Any:
    """The procedure that a user would write."""
    population = POPULATIONS[cell.population]
    return dpi.sample_aggregate(
        population.formula,
        model=population.model,
        blocks=cell.blocks,
        bounds=population.bounds,
        aggregator=cell.aggregator,
        bias_correction=cell.bias_correction,
        names=population.names,
        **dict(population.options),
    )


def draw(cells: tuple[Cell, ...], rng: np.random.Generator, count: int) -> Drawn:
    """Of cells that share their blocks (R, p, 8): estimate, ends, noise, located, flagged, the blocks' own, half width.

    The blocks' own estimate is their plain corrected mean, without privacy.
    """
    population = POPULATIONS[cells[0].population]
    asked = [question(cell) for cell in cells]
    measured = [one.measurement(cell.price, schema=population.schema) for one, cell in zip(asked, cells, strict=True)]
    found: dict[str, list[np.ndarray]] = {str(place): [] for place in range(len(cells))}
    identity = np.eye(len(population.truth))
    for _ in range(count):
        fits = fit_blocks(population, rng, cells[0].n, cells[0].blocks)
        plain = block_values(fits.corrected, asked[0].units(measured[0].context).region).estimates.mean(axis=0)
        for place, one in enumerate(measured):
            results = release_of(asked[place], one, fits, rng).infer()
            inference: AggregateInference = results.inference
            ends = inference.intervals(identity, 0.05)
            found[str(place)].append(np.column_stack([
                inference.params, ends, np.diag(inference.cov_noise), inference.frame.located.astype(float),
                np.full(len(ends), float(bool(results.flags))), plain, np.asarray(inference.frame.half),
            ]))  # fmt: skip
    return {place: np.array(rows) for place, rows in found.items()}


def summary(cells: tuple[Cell, ...], drawn: Drawn) -> list[dict[str, Any]]:
    """Coverage, error and width of every parameter of every cell."""
    return [row for cell, rows in zip(cells, drawn.values(), strict=True) for row in _measures(cell, rows)]


def _measures(cell: Cell, rows: np.ndarray) -> Iterator[dict[str, Any]]:
    population = POPULATIONS[cell.population]
    measurement = question(cell).measurement(cell.price, schema=population.schema)
    for place, (name, truth) in enumerate(zip(population.names, population.truth, strict=True)):
        estimate, lower, upper, noise, located, flagged, plain, half = rows[:, place].T
        sampling = float(plain.var())
        oracle = 2 * float(stats.norm.isf(0.025)) * np.sqrt(sampling + np.median(noise))
        ratio, error = mean_ratio(upper - lower, np.nan if isinstance(cell.price, dpi.PureDP) else oracle)
        yield {
            "price": str(cell.price), "asked": cell.aggregator,
            "aggregator": cell.aggregator if len(measurement.stages) > 1 else "region alone",
            "correction": cell.bias_correction, "parameter": name, "truth": truth, "bias": estimate.mean() - truth,
            "RMSE": float(np.sqrt(((estimate - truth) ** 2).mean())),
            "without noise": float(np.sqrt(((plain - truth) ** 2).mean())),
            "coverage": float(((lower <= truth) & (truth <= upper)).mean()), "width / oracle": float(ratio),
            "error of width / oracle": float(np.hypot(error, ratio / np.sqrt(2 * len(rows)))),
            "unbounded": float(1 - np.isfinite(upper - lower).mean()),
            "kappa": float(np.median(signal(measurement, half, sampling, cell.blocks))),
            "located": float(located.mean()), "flagged": float(flagged.mean()), "cap": 0.001,
        }  # fmt: skip


def signal(measurement: Any, half: np.ndarray, sampling: float, blocks: int) -> np.ndarray:
    """Sum of squares between blocks over the standard deviation of its noise, from the population."""
    last = measurement.stages[-1]
    first = len(last.rows.region.names)  # products come after the sums
    noise = np.sqrt(last.law.variances[first]) * last.steps[first]
    return np.asarray(blocks * (sampling * blocks / half**2) / noise)


def groups() -> list[tuple[Cell, ...]]:
    """Cells that share their blocks."""
    keys = sorted({(cell.population, cell.n, cell.blocks) for cell in CELLS})
    return [tuple(cell for cell in CELLS if (cell.population, cell.n, cell.blocks) == key) for key in keys]


def claims(table: pd.DataFrame, _: Options) -> list[Claim]:
    """State the errors of the main design, and that blocks are fitted as the library does."""
    main = table[
        (table["design"] == POPULATIONS[LOGIT].name) & (table["n"] == MAIN.n) & (table["price"] == str(MAIN.price))
    ]
    corrected = main[(main["parameter"] != "Intercept") & (main["correction"] == JUDGED)]
    if corrected["aggregator"].nunique() < 2:
        return [_fitted_alike()]
    error = {kind: float(np.sqrt((part["RMSE"] ** 2).mean())) for kind, part in corrected.groupby("aggregator")}
    plain = float(np.sqrt((corrected["without noise"] ** 2).mean()))
    design, rmse = "logit, 4 slopes, n = 50,000, 200 blocks, rho = .5", error["winsorized"]
    return [
        Claim("RMSE of slopes, winsorised blocks", design, f"{rmse:.4f}", rmse <= 0.035,
              error=f"{rmse / np.sqrt(8 * main['replicates'].iloc[0]):.4f}"),
        Claim("RMSE of slopes, blocks bounded by the region alone", design, f"{error['region alone']:.4f}",
              error["region alone"] > rmse),
        Claim("RMSE of slopes, blocks without noise", design, f"{plain:.4f}", plain < rmse),
        _fitted_alike(),
    ]  # fmt: skip


def _fitted_alike() -> Claim:
    """Blocks of the study are fitted at once; the library fits them one by one."""
    rng = np.random.default_rng(1)
    sizes = {cell.population: (cell.n, cell.blocks) for cell in CELLS}
    found = max(apart(POPULATIONS[place], rng, *size) for place, size in sizes.items())
    return Claim("largest difference of blocks fitted at once from fits one by one, over the spread between blocks",
                 f"{len(sizes)} models", f"{found:.0e}", found < 1e-3, error="exact")  # fmt: skip


def corrected(table: pd.DataFrame) -> pd.Series:
    """Rows of which something is claimed."""
    return table["correction"] == JUDGED


def clear(table: pd.DataFrame) -> pd.Series:
    """Rows of these in which noise does not dominate."""
    return corrected(table) & (table["kappa"] >= KAPPA)


STUDY = Study(
    "aggregate_coverage", groups, draw, summary,
    (
        Rule("least coverage of 95% intervals: sample and aggregate", "coverage", where=corrected),
        Rule("", "unbounded", "size", "cap", where=clear),
        Rule("largest mean width over the oracle's where the signal is at least 3: sample and aggregate",
             "width / oracle",
             "width", 1.1, where=clear),
    ),
    axes=lambda cells: {"design": POPULATIONS[cells[0].population].name, "n": cells[0].n, "blocks": cells[0].blocks},
    by=("price", "asked", "correction", "parameter"), also=claims, quick=2,
    figure=scatter("kappa", {"coverage": 0.95, "RMSE": np.nan}, ["design", "aggregator", "correction"],
                   label="signal over noise of the variance between blocks"),
    notes=("Judged are cells with half-block correction; uncorrected blocks are shown for comparison. Oracle: the "
           f"sampling variance of the blocks' plain mean and the median noise; widths count where the signal is at "
           f"least {KAPPA:g}; not "
           "computed for Laplace noise.",),
)  # fmt: skip

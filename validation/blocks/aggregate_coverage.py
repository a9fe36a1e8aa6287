"""Sample-and-aggregate: error, coverage and width, with winsorised blocks, bounded blocks, and uncorrected ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from matplotlib.figure import Figure
from scipy import stats

import dpinfer as dpi
from dpinfer.kernel.rows.blocks import block_values
from dpinfer.resampling.inference import AggregateInference
from validation.blocks.block_designs import POPULATIONS, apart, fit_blocks, release_of
from validation.common.cells import kept
from validation.common.claims import RULES, Claim, largest_width, least_coverage
from validation.common.outputs import Options, new_figure, write_table

CELL = ["design", "n", "blocks", "price", "asked", "correction", "parameter"]
CHUNK, ENOUGH = 20, 100


@dataclass(frozen=True)
class Cell:
    """One question about one population."""

    population: int
    n: int
    blocks: int
    price: Any
    aggregator: str = "winsorized"
    bias_correction: str = "half_blocks"


LOGIT, COLLINEAR, RARE, POISSON, MEDIAN, MULTINOMIAL = range(6)
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


def measure(cells: tuple[Cell, ...], seeds: range, seed: int) -> dict[int, np.ndarray]:
    """Run replicates of cells that share their blocks; for each (R, p, 7): estimate, ends, variances, located, flagged.

    The last column is the estimate of the blocks without privacy, their plain corrected mean.
    """
    population = POPULATIONS[cells[0].population]
    asked = [question(cell) for cell in cells]
    measured = [one.measurement(cell.price, schema=population.schema) for one, cell in zip(asked, cells, strict=True)]
    found: dict[int, list[np.ndarray]] = {place: [] for place in range(len(cells))}
    identity = np.eye(len(population.truth))
    for replicate in seeds:
        rng = np.random.default_rng([seed, cells[0].population, cells[0].n, replicate])
        fits = fit_blocks(population, rng, cells[0].n, cells[0].blocks)
        plain = block_values(fits, asked[0].units(measured[0].context).region).estimates.mean(axis=0)
        for place, one in enumerate(measured):
            results = release_of(asked[place], one, fits, rng).infer()
            inference: AggregateInference = results.inference
            ends = inference.intervals(identity, 0.05)
            found[place].append(
                np.column_stack(
                    [
                        inference.params,
                        ends,
                        np.diag(inference.cov_noise),
                        inference.frame.located.astype(float),
                        np.full(len(ends), float(bool(results.flags))),
                        plain,
                        np.asarray(inference.frame.half),
                    ]
                )
            )
    return {place: np.array(rows) for place, rows in found.items()}


def judge(cell: Cell, rows: np.ndarray, plain: np.ndarray, *, measurement: Any) -> list[dict[str, Any]]:
    """Coverage, error and width of every parameter of a cell."""
    population = POPULATIONS[cell.population]
    table = []
    replicates = len(rows)
    for place, (name, truth) in enumerate(zip(population.names, population.truth, strict=True)):
        estimate, lower, upper, noise, located, flagged = rows[:, place, :6].T
        sampling = float(plain[:, place].var())
        oracle = 2 * float(stats.norm.isf(0.025)) * np.sqrt(sampling + np.median(noise))
        if isinstance(cell.price, dpi.PureDP):
            oracle = np.nan
        coverage = float(((lower <= truth) & (truth <= upper)).mean())
        kappa = float(np.median(signal(measurement, rows[:, place, 7], sampling, cell.blocks)))
        bounded = np.isfinite(upper - lower)
        width = float(np.mean((upper - lower)[bounded]))
        unbounded = float(1 - bounded.mean())
        covered = coverage >= RULES.least_coverage(replicates, 0.95)
        judged = replicates >= ENOUGH and kappa >= RULES.kappa  # fewer do not tell how wide an oracle would be
        narrow = not judged or not (width / oracle > RULES.width_cap or unbounded > RULES.unbounded_cap)
        table.append(
            {
                "design": population.name,
                "n": cell.n,
                "blocks": cell.blocks,
                "price": str(cell.price),
                "asked": cell.aggregator,
                "aggregator": cell.aggregator if len(measurement.stages) > 1 else "region alone",
                "correction": cell.bias_correction,
                "parameter": name,
                "truth": truth,
                "bias": float(estimate.mean() - truth),
                "RMSE": float(np.sqrt(((estimate - truth) ** 2).mean())),
                "without noise": float(np.sqrt(((plain[:, place] - truth) ** 2).mean())),
                "coverage": coverage,
                "width / oracle": width / oracle,
                "unbounded": unbounded,
                "kappa": kappa,
                "located": float(located.mean()),
                "flagged": float(flagged.mean()),
                "replicates": replicates,
                "covers": covered,
                "held": covered and narrow,
            }
        )
    return table


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


def study(cells: tuple[Cell, ...], replicates: int, seed: int, jobs: int) -> list[dict[str, Any]]:
    """Run all replicates of cells that share their blocks."""
    population = POPULATIONS[cells[0].population]
    ranges = [range(start, min(start + CHUNK, replicates)) for start in range(0, replicates, CHUNK)]
    parts = Parallel(n_jobs=jobs)(delayed(measure)(cells, seeds, seed) for seeds in ranges)
    table: list[dict[str, Any]] = []
    for place, cell in enumerate(cells):
        rows = np.concatenate([part[place] for part in parts])
        measured = question(cell).measurement(cell.price, schema=population.schema)
        table += judge(cell, rows, rows[:, :, 6], measurement=measured)
    return table


def figure_of(table: pd.DataFrame) -> Figure:
    """Coverage of every parameter, and error against that of the blocks without noise."""
    figure, (left, right) = new_figure(10.5, 4.6, 1, 2)
    table = table.assign(price=table["price"].str.replace("epsilon=", "").str.replace("rho=", ""))
    corrected = table[table["correction"] == JUDGED]
    for (design, kind), group in corrected.groupby(["design", "aggregator"], sort=False):
        mark = "o" if kind == "winsorized" else "x"
        color = f"C{list(dict.fromkeys(table['design'])).index(design)}"
        left.plot(group["kappa"], group["coverage"], mark, color=color, ms=4.5, label=f"{design}, {kind}")
        right.plot(group["without noise"], group["RMSE"], mark, color=color, ms=4.5)
    rest = table[table["correction"] != JUDGED]
    left.plot(rest["kappa"], rest["coverage"], "v", color="firebrick", ms=4.5, label="logit, 4 slopes, not corrected")
    right.plot(rest["without noise"], rest["RMSE"], "v", color="firebrick", ms=4.5)
    left.axhline(0.95, color="black", lw=0.8)
    left.set(
        xscale="log", xlabel="signal over noise of the variance between blocks", ylabel="coverage of 95% intervals"
    )
    left.legend(fontsize=6.5, frameon=False)
    ends = np.array([table["without noise"].min() * 0.8, table["without noise"].max() * 1.2])
    right.plot(ends, ends, color="black", lw=0.8)
    right.set(xscale="log", yscale="log", xlabel="RMSE of the mean of blocks without noise", ylabel="RMSE")
    return figure


def run(arguments: Options) -> list[Claim]:
    """Study every cell, write table and figure. A cell that fails is reported as failed: no rerun."""
    rows: list[dict[str, Any]] = []
    quick = arguments.replicates < 200
    for place, cells in enumerate(groups()):
        once = partial(study, cells, arguments.replicates, arguments.seed, 1 if quick else arguments.jobs)
        found = kept("aggregate_coverage", place, arguments, once)
        rows += found
        print(f"{found[0]['design']}: {found[0]['replicates']:,} replicates done", flush=True)
    table = pd.DataFrame(rows)
    judged = table[table["correction"] == JUDGED]
    notes = [
        f"Cells and quantities judged: {len(judged)}, all with half-block correction; failed: "
        f"{int((~judged['held']).sum())}. Uncorrected blocks are shown for comparison.",
        "Oracle: the sampling variance of the blocks' plain mean and the median noise; widths count where the signal "
        f"is at least {RULES.kappa:g}; not computed for Laplace noise.",
    ]
    write_table(table, "aggregate_coverage", arguments, notes, figure_of(table))
    return claims(table, judged)


def claims(first: pd.DataFrame, last: pd.DataFrame) -> list[Claim]:
    """What the table shows."""
    main = first[
        (first["design"] == POPULATIONS[LOGIT].name) & (first["n"] == MAIN.n) & (first["price"] == str(MAIN.price))
    ]
    slopes = main[main["parameter"] != "Intercept"]
    corrected = slopes[slopes["correction"] == JUDGED]
    error = {kind: float(np.sqrt((part["RMSE"] ** 2).mean())) for kind, part in corrected.groupby("aggregator")}
    plain = float(np.sqrt((corrected["without noise"] ** 2).mean()))
    replicates = int(main["replicates"].iloc[0])
    clear = last[(last["kappa"] >= RULES.kappa) & last["width / oracle"].notna()]
    design = "logit, 4 slopes, n = 50,000, 200 blocks, rho = .5"
    rmse = error["winsorized"]
    found = [
        Claim("RMSE of slopes, winsorised blocks", design, f"{rmse:.4f}", rmse <= 0.035,
              error=f"{rmse / np.sqrt(8 * replicates):.4f}"),
        Claim("RMSE of slopes, blocks bounded by the region alone", design, f"{error['region alone']:.4f}",
              error["region alone"] > rmse),
        Claim("RMSE of slopes, blocks without noise", design, f"{plain:.4f}", plain < rmse),
        least_coverage("least coverage of 95% intervals: sample and aggregate", last, by=CELL, held="covers"),
        largest_width("largest mean width over the oracle's where the signal is at least 3: sample and aggregate",
                      clear, by=CELL),
        _fitted_alike(),
    ]  # fmt: skip
    return found if replicates >= ENOUGH else [claim for claim in found if claim.kind != "width"]


def _fitted_alike() -> Claim:
    """Blocks of the study are fitted at once; the library fits them one by one."""
    rng = np.random.default_rng(1)
    sizes = {cell.population: (cell.n, cell.blocks) for cell in CELLS}
    found = max(apart(POPULATIONS[place], rng, *size) for place, size in sizes.items())
    return Claim("largest difference of blocks fitted at once from fits one by one, over the spread between blocks",
                 f"{len(sizes)} models", f"{found:.0e}", found < 1e-3, error="exact")  # fmt: skip

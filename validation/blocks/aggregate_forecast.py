"""Sample-and-aggregate: what `explain` forecasts against what is measured, and how often messages are untrue."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.kernel.rows.blocks import block_values
from dpinfer.resampling.blocks import block_size, forecast
from dpinfer.resampling.inference import AggregateInference, edge_warnings
from validation.blocks.block_designs import POPULATIONS, fit_blocks, release_of
from validation.common.outputs import Options
from validation.common.rules import Claim
from validation.common.study import Drawn, Study

LOGIT, COLLINEAR, RARE, POISSON = range(4)
NAMES = ("located", "error", "plain", "messages", "untrue")
STATED = 0.1
"""Stated error of a forecast probability."""

STATED_ERROR = 0.25
"""Stated error of a forecast error, as a share of it."""

DRAWS = 2000
"""Simulated releases of a forecast: those of explain are fewer, with more Monte Carlo error of their own."""

LEVEL, POWER, ENOUGH = 0.01, 0.5, 500
MESSAGES = ("near the bounds", "no finite estimate", "lay outside the bounds", "declare a wider one")


@dataclass(frozen=True)
class Cell:
    """One question about one population; of a clean one every block has an estimate well within the region."""

    population: int
    n: int
    price: Any
    bounds: Any = (-5, 5)
    blocks: int | None = None
    clean: bool = True
    cause: str = ""


CELLS = (
    Cell(LOGIT, 5000, dpi.ZCDP(0.5), dpi.Ball(4)),
    Cell(LOGIT, 5000, dpi.ZCDP(1.0), dpi.Ball(4)),
    Cell(LOGIT, 5000, dpi.ZCDP(2.0)),
    Cell(LOGIT, 5000, dpi.ZCDP(3.0)),
    Cell(LOGIT, 5000, dpi.PureDP(10.0), dpi.Ball(4)),
    Cell(LOGIT, 5000, dpi.ZCDP(0.02)),
    Cell(LOGIT, 20_000, dpi.ZCDP(0.25)),
    Cell(LOGIT, 20_000, dpi.ZCDP(0.5)),
    Cell(COLLINEAR, 10_000, dpi.ZCDP(0.5), dpi.Ball(8)),
    Cell(COLLINEAR, 10_000, dpi.ZCDP(0.5), (-10, 10)),
    Cell(POISSON, 5000, dpi.ZCDP(0.5), (-3, 3)),
    Cell(POISSON, 5000, dpi.ZCDP(0.5)),
    Cell(POISSON, 5000, dpi.ZCDP(1.0)),
    Cell(POISSON, 5000, dpi.PureDP(6.0)),
    Cell(POISSON, 20_000, dpi.ZCDP(0.1)),
    Cell(LOGIT, 5000, dpi.ZCDP(20.0), (-0.9, 0.9), clean=False, cause="declare a wider one"),
    Cell(LOGIT, 20_000, dpi.ZCDP(5.0), (-0.9, 0.9), clean=False, cause="declare a wider one"),
    Cell(RARE, 5000, dpi.ZCDP(5.0), (-8, 8), 200, clean=False, cause="no finite estimate"),
    Cell(RARE, 20_000, dpi.ZCDP(2.0), (-8, 8), 400, clean=False, cause="no finite estimate"),
)


def blocks_of(cell: Cell) -> int:
    """The number of blocks: as asked, or as "auto" takes."""
    size = len(POPULATIONS[cell.population].truth)
    return cell.blocks or int(cell.n / block_size(cell.n, size, halves=True))


def question(cell: Cell) -> Any:
    """The procedure that a user would write."""
    population = POPULATIONS[cell.population]
    return dpi.sample_aggregate(
        population.formula, model=population.model, blocks=blocks_of(cell), bounds=cell.bounds, names=population.names
    )


def draw(cells: tuple[Cell, ...], rng: np.random.Generator, count: int) -> Drawn:
    """Of cells that share their blocks: located, error, plain mean, messages there and untrue, beside each other."""
    population = POPULATIONS[cells[0].population]
    if cells[0].population == RARE:  # separated outcomes, by the hundred: steps that do not settle are no estimate
        population = replace(population, fit=_none)
    asked = [question(cell) for cell in cells]
    measured = [one.measurement(cell.price, schema=population.schema) for one, cell in zip(asked, cells, strict=True)]
    found: dict[str, list[np.ndarray]] = {f"{name}|{place}": [] for place in range(len(cells)) for name in NAMES}
    for _ in range(count):
        fits = fit_blocks(population, rng, cells[0].n, blocks_of(cells[0]))
        for place, one in enumerate(measured):
            region = asked[place].units(one.context).region
            values = block_values(fits.corrected, region)
            results = release_of(asked[place], one, fits, rng).infer()
            inference: AggregateInference = results.inference
            told = [flag for flag in results.flags if any(text in flag for text in MESSAGES)]
            exact = exact_messages(inference, values, region)
            untrue = [text for text in MESSAGES if any(text in flag for flag in told) and text not in exact]
            shown = [float(any(text in flag for flag in told)) for text in MESSAGES]
            parts = (inference.frame.located, inference.params - population.truth, values.estimates.mean(axis=0), shown,
                     [float(bool(untrue))])  # fmt: skip
            for name, part in zip(NAMES, parts, strict=True):
                found[f"{name}|{place}"].append(np.asarray(part, dtype=float))
    return {name: np.array(rows) for name, rows in found.items()}


def _none(y: np.ndarray, x: np.ndarray) -> np.ndarray:  # noqa: ARG001
    raise ValueError


def exact_messages(inference: AggregateInference, values: Any, region: Any) -> str:
    """Return the messages that hold without noise, in the frame of the release."""
    frame = inference.frame
    v = np.where(values.failed[:, None], 0.0, (values.estimates - frame.center) / frame.half)
    length = np.linalg.norm(v, axis=1) if not inference.blocks.laplace else np.abs(v).sum(axis=1)
    v /= np.maximum(length, 1.0)[:, None]
    moved = ~values.failed & (values.outside | (length > 1.0))
    tiny = np.full(inference.blocks.noise_product.shape, 1e-18)
    blocks = replace(
        inference.blocks,
        sums=v.sum(axis=0),
        products=v.T @ v,
        counts=np.array([values.failed.sum(), moved.sum()], dtype=float),
        noise_sum=1e-18,
        noise_product=tiny,
        noise_count=1e-18,
    )
    known = replace(inference, blocks=blocks, notes=())
    spread = np.sqrt(np.diag(blocks.covariance)) * frame.half
    near = [
        "declare a wider one"
        for places, radius in zip(region.places, region.radii, strict=True)
        if radius - np.linalg.norm(known.params[list(places)] - region.center[list(places)])
        < 2.5 * float(spread[list(places)].max())
    ]
    return " ".join((*known.flags, *edge_warnings(known, region), *near))


def _measures(cell: Cell, found: dict[str, np.ndarray]) -> dict[str, Any]:
    """Compare what was forecast with what was measured."""
    population = POPULATIONS[cell.population]
    asked = question(cell)
    measured = asked.measurement(cell.price, schema=population.schema)
    plan = asked.plan(measured.context)
    missed = found["located"] == 0
    sampling = found["plain"].std(axis=0)
    relative = found["error"] / sampling
    row: dict[str, Any] = {
        "region": str(cell.bounds),
        "price": str(cell.price),
        "located by": "place and spread" if plan.located else "the region alone",
    }
    names = ("any not located", "each not located", "error where located", "error overall")
    forecasts = measures = (np.nan,) * 4
    if plan.located:
        expected = forecast(plan, draws=DRAWS)
        ratios = plan.region.radius / (sampling * np.sqrt(plan.known))
        overall = [float(np.sqrt((relative[:, j] ** 2).mean())) for j in range(plan.size)]
        told = [expected.expected_error(float(ratio)) for ratio in ratios]
        missed_one, missed_any = expected.missed, expected.missed.any(axis=1)
        found_error = expected.error[~missed_one]
        error = float(np.sqrt((found_error**2).mean())) if found_error.size else np.nan
        forecasts = (float(missed_any.mean()), float(missed_one.mean()), error, float(np.mean(told)))
        located = relative[~missed]
        rms = float(np.sqrt((located**2).mean())) if located.size else np.nan
        measures = (float(missed.any(axis=1).mean()), float(missed.mean()), rms, float(np.mean(overall)))
    for name, one, other in zip(names, forecasts, measures, strict=True):
        row |= {f"{name}, forecast": one, f"{name}, measured": other}
    row |= {f"told: {text}": float(shown) for text, shown in zip(MESSAGES, found["messages"].mean(axis=0), strict=True)}
    row |= {
        "any message": float(found["messages"].any(axis=1).mean()),
        "untrue": float(found["untrue"].mean()),
        "clean": cell.clean,
        "cause": cell.cause,
    }
    return row


def summary(cells: tuple[Cell, ...], drawn: Drawn) -> list[dict[str, Any]]:
    """A row for each cell."""
    return [_measures(cell, {name: drawn[f"{name}|{place}"] for name in NAMES}) for place, cell in enumerate(cells)]


def groups() -> list[tuple[Cell, ...]]:
    """Cells that share their blocks."""
    keys = sorted({(cell.population, cell.n, blocks_of(cell)) for cell in CELLS})
    return [tuple(one for one in CELLS if (one.population, one.n, blocks_of(one)) == key) for key in keys]


def claims(table: pd.DataFrame, _: Options) -> list[Claim]:
    """What is claimed of forecasts and messages."""
    count = int(table["replicates"].max())
    own = table["region"].str.startswith("(")  # every parameter has a scale of its own, as forecasts assume
    located = table[table["clean"] & own & (table["located by"] == "place and spread")]
    gap = float(np.abs(located["any not located, forecast"] - located["any not located, measured"]).max())
    ratio = np.log(located["error overall, measured"] / located["error overall, forecast"])
    clean, real = table[table["clean"]], table[~table["clean"]]
    error = float(np.sqrt(LEVEL / count))
    of_cause = [float(row[f"told: {row['cause']}"]) for _, row in real.iterrows()]
    noise = float(np.sqrt(0.25 / count) + np.sqrt(0.25 / DRAWS))
    most = LEVEL + 3 * error
    found = [
        Claim("largest error of the forecast probability that any coefficient is not located",
              f"{len(located)} cells", f"{gap:.3f}", gap <= STATED + 2 * noise, error=f"{noise:.3f}"),
        Claim("largest share of clean runs with a message on blocks", f"{len(clean)} cells",
              f"{float(clean['any message'].max()):.4f}", float(clean["any message"].max()) <= most,
              error=f"{error:.4f}"),
        Claim("largest share of runs with an untrue message on blocks", f"{len(table)} cells",
              f"{float(table['untrue'].max()):.4f}", float(table["untrue"].max()) <= most, error=f"{error:.4f}"),
        Claim("least share of runs in which the cause is named where it is real", f"{len(real)} cells",
              f"{min(of_cause):.3f}", min(of_cause) >= POWER, error=f"{np.sqrt(0.25 / count):.3f}"),
    ]  # fmt: skip
    if count >= ENOUGH:  # fewer do not tell errors
        found.insert(
            1,
            Claim(
                "measured over forecast error of sample-and-aggregate, farthest from 1",
                f"{len(located)} cells",
                f"{float(np.exp(ratio.iloc[int(np.abs(ratio).to_numpy().argmax())])):.2f}",
                float(np.abs(ratio).max()) <= np.log(1 + STATED_ERROR),
            ),
        )
    return found


STUDY = Study(
    "aggregate_forecast", groups, draw, summary, by=("region", "price"), most=2000, quick=3, also=claims,
    axes=lambda cells: {"design": POPULATIONS[cells[0].population].name, "n": cells[0].n,
                        "blocks": blocks_of(cells[0])},
    notes=("Forecasts are those of explain: a probability is the mean over coefficients, or that of any of them; "
           "errors are over the sampling error, root mean square; overall with the region as wide as it is in "
           "spreads between blocks. A message is untrue where it does not hold of the blocks without noise.",),
)  # fmt: skip

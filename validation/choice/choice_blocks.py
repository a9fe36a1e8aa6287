"""Multinomial logits by iterations against statsmodels' on secret blocks, on the same rows at the same price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import statsmodels.formula.api as smf

import dpinfer as dpi
from validation.choice.choice_coverage import population
from validation.common.study import Drawn, Study
from validation.regression.newton_draws import covers

REACH = {"three choices": 4.0, "anes96, party": 12.0}
"""Radius of the ball in which coefficients are declared to lie."""

BLOCKS = {1000: 20, 5000: 60, 50_000: 200}


@dataclass(frozen=True)
class Cell:
    """A population, its number of rows and a price."""

    design: str
    n: int
    price: Any


CELLS = [
    *(Cell(design, n, dpi.ZCDP(0.5)) for design in REACH for n in (5000, 50_000)),
    *(
        Cell("three choices", n, price)
        for n, price in ((1000, dpi.ZCDP(0.5)), (5000, dpi.ZCDP(0.05)), (50_000, dpi.PureDP(1)))
    ),
]


def draw(cell: Cell, rng: np.random.Generator, replicates: int) -> Drawn:
    """Ends (R, p, 2) and errors (R, p) of slopes by both ways."""
    of = population(cell.design)
    terms = ["Intercept", *(one.strip() for one in of.question.formula.split("~")[1].split("+"))]
    names = tuple(f"{level}: {one}" for level in of.schema["y"].level_texts[1:] for one in terms)
    found = []
    for _ in range(replicates):
        frame = of.frame.iloc[rng.integers(0, len(of.frame), cell.n)].reset_index(drop=True)
        data = dpi.PublicData(frame, of.schema, rng=rng)
        by_blocks = dpi.sample_aggregate(
            of.question.formula, data, model=smf.mnlogit, blocks=BLOCKS[cell.n], bounds=dpi.Ball(REACH[cell.design]),
            names=names,
        )  # fmt: skip
        row = {}
        for name, question in (("iterations", dpi.mnlogit(of.question.formula, data)), ("blocks", by_blocks)):
            results = question.fit(cell.price)
            row[f"{name} ends"] = results.conf_int().loc[list(of.names)].to_numpy()
            row[f"{name} error"] = results.params[list(of.names)].to_numpy() - of.truth
        found.append(row)
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def summary(cell: Cell, drawn: Drawn) -> dict[str, Any]:
    """Coverage, and median widths and root mean squared errors over those without privacy, of both."""
    of, row = population(cell.design), {}
    plain = of.spread / np.sqrt(cell.n)
    for name in ("iterations", "blocks"):
        ends, error = drawn[f"{name} ends"], drawn[f"{name} error"]
        row |= {
            f"{name}, coverage": float(covers(ends, of.truth).mean()),
            f"{name}, width ratio": float(np.median(np.ptp(ends, axis=-1) / (2 * 1.959964 * plain))),
            f"{name}, RMSE ratio": float(np.median(np.sqrt((error**2).mean(axis=0)) / plain)),
        }
    return row


STUDY = Study(
    "choice_blocks", CELLS, draw, summary,
    axes=lambda cell: {"design": cell.design, "n": cell.n, "price": str(cell.price)}, quick=lambda _: True,
    notes=("The same rows and the same budget for both. Ratios: over robust intervals without privacy. Blocks: 20 of "
           "1,000 rows, 60 of 5,000, 200 of 50,000; coefficients declared to lie in a ball of radius 4 (anes96: 12).",),
)  # fmt: skip

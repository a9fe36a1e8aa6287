"""Size of the noise of `quality`: predicted margins of counts and of shares beside those of simulated releases."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import dpinfer as dpi
from dpinfer.entry.results import Quality
from dpinfer.kernel.rows.base import Batch
from dpinfer.studies.simulation import noisy
from validation.common.outputs import Options, lines
from validation.common.rules import Claim
from validation.common.study import Drawn, Study

SIZES = (1000, 10_000, 100_000, 1_000_000)
WIDTHS = (5, 20, 50)
"""Numbers K of columns."""

PRICES = {
    "rho = 0.001": dpi.ZCDP(0.001),
    "rho = 0.005": dpi.ZCDP(0.005),
    "rho = 0.01": dpi.ZCDP(0.01),
    "rho = 0.05": dpi.ZCDP(0.05),
    "epsilon = 0.1": dpi.PureDP(0.1),
    "epsilon = 0.5": dpi.PureDP(0.5),
}
SHARES = {"valid": 0.7, "clamped low": 0.05, "clamped high": 0.05, "missing": 0.15, "impossible": 0.05}
"""Of every column, columns independent of each other."""

REACH = float(stats.norm.ppf(0.975))


def predicted(price: str, columns: int) -> float:
    """Half width of the 95% interval of a count by the formula of the page: add_remove, Gaussian or Laplace noise."""
    changed = columns + 1
    if price.startswith("rho"):
        return REACH * float(np.sqrt(changed / (2 * float(Fraction(price.split("= ")[1])))))
    return changed / float(price.split("= ")[1]) * float(np.log(20.0))


def draw(cell: tuple[str, int, int], rng: np.random.Generator, replicates: int) -> Drawn:
    """Release the quality of n rows: sizes of errors of counts, and of shares of missing cells."""
    columns, (asked, exact) = cell[1], measured(cell)
    released = noisy(asked, np.tile(exact, (replicates, 1)), rng).values  # noqa: PD011
    total = released[:, :-1].sum(axis=1) / columns
    shares = released[:, 3:-1:5] / total[:, None]  # of every column the missing cells
    return {"counts": np.abs(released - exact), "shares": np.abs(shares - SHARES["missing"])}


@cache
def measured(cell: tuple[str, int, int]) -> tuple[Any, np.ndarray]:
    """What is measured, and the exact counts."""
    price, columns, n = cell
    schema = dpi.Schema({f"x{j}": dpi.Real(0, 1) for j in range(columns)})
    asked = dpi.quality().measurement(PRICES[price], schema=schema)
    counts = np.round(n * np.array(list(SHARES.values()))).astype(int)
    cells = np.repeat(np.array([0.5, -1.0, 2.0, np.nan, np.inf]), counts)[: min(n, 10_000)]
    rows = asked.rows.add(Batch(dict.fromkeys(schema, cells), cells.size))[0]
    assert rows[:-1].sum() == cells.size * columns
    return asked, np.append(np.tile(counts, columns), round(n * 0.8**columns)).astype(float)


def summary(cell: tuple[str, int, int], drawn: Drawn) -> dict:
    """Margins by the formula, and as they are measured."""
    (price, columns, _), (asked, exact) = cell, measured(cell)
    variance = float(asked.law.variances[0]) * asked.steps[0] ** 2
    quality = Quality(asked.context.schema, exact, variance, 0.0, None)
    margin = predicted(price, columns)
    return {
        "margin of a count": margin, "measured": float(np.quantile(drawn["counts"], 0.95)),
        "margin of a share": margin * float(np.sqrt(quality.share_variance(exact[3]) / variance)),
        "measured share": float(np.quantile(drawn["shares"], 0.95)),
        "four standard deviations": float(quality.share_variance(0.0) ** 0.5 * 4),
    }  # fmt: skip


def claims(table: pd.DataFrame, _: Options) -> list[Claim]:
    """State how far formulas are off; shares are judged where margins are small: others are ratios nearly lost."""
    off = float((table["measured"] / table["margin of a count"] - 1).abs().max())
    clear = table[table["margin of a share"] < 0.1]
    share = float((clear["measured share"] / clear["margin of a share"] - 1).abs().max())
    slack = 6 / np.sqrt(2 * table["replicates"].max())
    design = f"{len(table)} cells: budgets, {min(WIDTHS)} to {max(WIDTHS)} columns, n = 1,000 to 1,000,000"
    return [
        Claim("margins of counts, largest deviation from the formula", design, f"{off:.2%}", off < 0.02 + slack / 5),
        Claim("margins of shares, largest deviation from the formula", f"{len(clear)} cells with a margin below 10 "
                                                                       f"points",
              f"{share:.2%}", share < 0.03 + slack),
    ]  # fmt: skip


STUDY = Study(
    "quality_noise", [*product(PRICES, WIDTHS, SIZES)], draw, summary, most=2000, also=claims, quick=12,
    axes=lambda cell: dict(zip(("price", "columns", "n"), cell, strict=True)),
    figure=lambda table: lines(table, "columns", "n", {"margin of a share": "-", "measured share": "o"}, color="price",
                               log=True),
    notes=("Half widths of 95% intervals under add_remove: of a count, and of a share of .15, by formula beside the "
           ".95 quantile of the sizes of errors. The last column is the share that four standard deviations of the "
           "noise make.",),
)  # fmt: skip

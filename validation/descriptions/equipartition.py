"""One query for the whole budget, or k queries for a share each, averaged: what it costs in variance.

Equations 8 to 13 of Honaker's paper on the bootstrap: k times the variance under pure composition, none under
zero-concentrated differential privacy.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.procedures.combine import combine
from validation.common.outputs import Options, lines
from validation.common.rules import SEED, Claim
from validation.common.study import Drawn, Study

ROWS = 1_000
SCHEMA = dpi.Schema(x=dpi.Real(0, 1, missing=0, impossible=0))
PRICES = {"pure": dpi.PureDP(1.0), "zCDP": dpi.ZCDP(0.5), "GDP": dpi.GDP(1.0)}
PARTS = (1, 2, 4, 8, 16, 32)
DELTA = 1e-6
ASKED = dpi.total("x")


def fits(unit: str, parts: int) -> bool:
    """Whether a ledger with the whole budget grants all shares and then refuses one more."""
    share = share_of(PRICES[unit], parts)
    measured = ASKED.measurement(share, schema=SCHEMA, neighbors="add_remove")
    ledger = dpi.Ledger.in_memory(PRICES[unit])
    for _ in range(parts):
        ledger.charge(measured.cost, "share")
    try:
        ledger.charge(measured.cost, "one more")
    except dpi.errors.BudgetExceededError:
        return True
    return False


def share_of(price: object, parts: int) -> object:
    """The price of one of so many equal queries: amounts add up, of GDP their squares."""
    return price / parts


def draw(cell: tuple[str, int], rng: np.random.Generator, replicates: int) -> Drawn:
    """Errors of the average of so many queries."""
    unit, parts = cell
    measured = ASKED.measurement(share_of(PRICES[unit], parts), schema=SCHEMA, neighbors="add_remove")
    noise = measured.law.rvs(replicates * parts, rng)[:, 0] * measured.steps[0]
    return {"error": noise.reshape(replicates, parts).mean(axis=1)}


def variances(unit: str, parts: int) -> tuple[float, float]:
    """Variance of the average by the library's prices, and as results report it."""
    share, rng = share_of(PRICES[unit], parts), np.random.default_rng(SEED)
    measured = ASKED.measurement(share, schema=SCHEMA, neighbors="add_remove")
    data = dpi.PublicData(pd.DataFrame({"x": rng.random(ROWS)}), SCHEMA, rng=rng)
    together = combine([ASKED.bind(data).measure(share) for _ in range(parts)])
    return float(measured.law.variances[0]) * measured.steps[0] ** 2 / parts, float(together.bse.iloc[0] ** 2)


def summary(cell: tuple[str, int], drawn: Drawn) -> dict:
    """Variances over that of one query."""
    (unit, parts), first = cell, variances(cell[0], 1)[0]
    price, results = variances(unit, parts)
    return {
        "price of each": str(share_of(PRICES[unit], parts)), "a ledger grants k": fits(unit, parts),
        "variance by the budget": price, "variance measured": float(drawn["error"].var()),
        "variance in the results": results,
        "over one query": float(drawn["error"].var()) / first, "by the budget": price / first,
        "in the results": results / first,
        "stated": parts if unit == "pure" else 1,
    }  # fmt: skip


def claims(table: pd.DataFrame, _: Options) -> list[Claim]:
    """State the worst of each unit."""
    error, found = np.sqrt(5 / table["replicates"].max()), []
    for unit, source in (("pure", "k (Honaker, eq. 11)"), ("zCDP", "1 (Honaker, eq. 13)"), ("GDP", "1")):
        part = table[table["unit"] == unit]
        if len(part):
            ratio = part["over one query"] / part["stated"]
            known = (part[["by the budget", "in the results"]].to_numpy() / part[["stated"]].to_numpy() - 1).ravel()
            found.append(Claim(f"variance of k averaged queries that share a {unit} budget, over that of one, worst k",
                               f"k from 1 to {PARTS[-1]}, total of a bounded column",
                               f"stated x {ratio[(ratio - 1).abs().idxmax()]:.4f}",
                               (ratio - 1).abs().max() < 5 * error + 0.002 and np.abs(known).max() < 2e-3
                               and part["a ledger grants k"].all(), published=source,
                               error=f"{error:.4f}"))  # fmt: skip
    return found


STUDY = Study(
    "equipartition", [(unit, parts) for unit in PRICES for parts in PARTS], draw, summary, also=claims, quick=6,
    axes=lambda cell: dict(zip(("unit", "queries"), cell, strict=True)),
    figure=lambda table: lines(table, "unit", "queries", {"over one query": "o-", "stated": "k:"}),
    notes=("The total of a column bounded by 0 and 1, asked once for the whole budget, or k times for an equal share "
           "of it and averaged; variance of the noise in the average over that of the single query: measured, by the "
           "library's prices, and as results of combine(releases) report it. Under advanced composition the paper "
           f"states ln(1/delta) whatever k is ({np.log(1 / DELTA):.1f} for delta = {DELTA:g}); no ledger here "
           f"composes that way.",),
)  # fmt: skip

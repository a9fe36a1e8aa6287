"""One query for the whole budget, or k queries for a share each, averaged: what it costs in variance.

Equations 8 to 13 of Honaker's paper on the bootstrap: k times the variance under pure composition, none under
zero-concentrated differential privacy.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from tqdm import tqdm

import dpinfer as dpi
from dpinfer.procedures.combine import combine
from validation.common.claims import Claim
from validation.common.outputs import Options, new_figure, write_figure, write_table

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


def row(unit: str, parts: int, replicates: int, seed: int) -> dict:
    """Variance of the average of ``parts`` queries, measured and by the library's prices."""
    rng = np.random.default_rng([seed, parts, list(PRICES).index(unit)])
    share = share_of(PRICES[unit], parts)
    measured = ASKED.measurement(share, schema=SCHEMA, neighbors="add_remove")
    noise = measured.law.rvs(replicates * parts, rng)[:, 0] * measured.steps[0]
    error = noise.reshape(replicates, parts).mean(axis=1)
    values = rng.random(ROWS)
    data = dpi.PublicData(pd.DataFrame({"x": values}), SCHEMA, rng=rng)
    together = combine([ASKED.bind(data).measure(share) for _ in range(parts)])
    return {
        "unit": unit,
        "queries": parts,
        "price of each": str(share),
        "a ledger grants k": fits(unit, parts),
        "variance by the price": float(measured.law.variances[0]) * measured.steps[0] ** 2 / parts,
        "variance measured": float(error.var()),
        "variance in the results": float(together.bse.iloc[0] ** 2),
    }


def run(arguments: Options) -> list[Claim]:
    """Measure the variances, write the table and the figure."""
    cells = [(unit, parts) for unit in PRICES for parts in PARTS]
    tasks = (delayed(row)(unit, parts, arguments.replicates, arguments.seed) for unit, parts in cells)
    parallel = Parallel(n_jobs=arguments.jobs, return_as="generator")
    table = pd.DataFrame(list(tqdm(parallel(tasks), total=len(cells), desc="cells")))
    one = table[table["queries"] == 1].set_index("unit")["variance by the price"]
    first = table["unit"].map(one)
    table["over one query"] = table["variance measured"] / first
    table["by the price"] = table["variance by the price"] / first
    table["in the results"] = table["variance in the results"] / first
    stated = np.where(table["unit"] == "pure", table["queries"], 1)
    table["stated"] = stated
    notes = [
        "The total of a column bounded by 0 and 1, asked once for the whole budget, or k times for an equal share of "
        "it and averaged; variance of the noise in the average over that of the single query: measured, by the "
        "library's prices, and as results of combine(releases) report it. Under advanced composition the paper states "
        f"ln(1/delta) whatever k is ({np.log(1 / DELTA):.1f} for delta = {DELTA:g}); no ledger here composes that way."
    ]
    write_table(table, "equipartition", arguments, notes)
    figure, axes = new_figure(6, 4)
    for unit, mark in zip(PRICES, ("o", "s", "^"), strict=True):
        part = table[table["unit"] == unit]
        axes.loglog(part["queries"], part["over one query"], mark, ls="-", label=f"{unit} (measured)")
        axes.loglog(part["queries"], part["stated"], "k:", lw=0.8)
    axes.set(xlabel="queries that share the budget, k", ylabel="variance over that of one query")
    axes.set_title("Equipartition: k noisy answers, averaged")
    axes.legend(frameon=False)
    write_figure(figure, "equipartition", arguments)
    tolerance = 5 * np.sqrt(5 / arguments.replicates) + 0.002
    claims = []
    for unit, source in (("pure", "k (Honaker, eq. 11)"), ("zCDP", "1 (Honaker, eq. 13)"), ("GDP", "1")):
        part = table[table["unit"] == unit]
        ratio = part["over one query"] / part["stated"]
        known = (part[["by the price", "in the results"]].to_numpy() / part[["stated"]].to_numpy() - 1).ravel()
        exact = bool(np.abs(known).max() < 2e-3)
        claims.append(
            Claim(
                f"variance of k averaged queries that share a {unit} budget, over that of one, worst k",
                f"k from 1 to {PARTS[-1]}, total of a bounded column",
                f"stated x {ratio[(ratio - 1).abs().idxmax()]:.4f}",
                (ratio - 1).abs().max() < tolerance and exact and part["a ledger grants k"].all(),
                published=source,
                error=f"{np.sqrt(5 / arguments.replicates):.4f}",
            )
        )
    return claims

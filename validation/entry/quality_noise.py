"""Size of the noise of `quality`: predicted margins of counts and of shares beside those of simulated releases."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

import dpinfer as dpi
from dpinfer.entry.inference import Quality
from dpinfer.kernel.rows.base import Batch
from dpinfer.studies.simulation import noisy
from validation.common.claims import Claim
from validation.common.outputs import Options, new_figure, write_table

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


def measure(price: str, columns: int, n: int, replicates: int, rng: np.random.Generator) -> dict:
    """Release the quality of n rows many times, and compare."""
    schema = dpi.Schema({f"x{j}": dpi.Real(0, 1) for j in range(columns)})
    asked = dpi.quality().measurement(PRICES[price], schema=schema)
    counts = np.round(n * np.array(list(SHARES.values()))).astype(int)
    cells = np.repeat(np.array([0.5, -1.0, 2.0, np.nan, np.inf]), counts)[: min(n, 10_000)]
    rows = asked.rows.add(Batch(dict.fromkeys(schema, cells), cells.size))[0]
    assert rows[:-1].sum() == cells.size * columns
    exact = np.append(np.tile(counts, columns), round(n * 0.8**columns)).astype(float)
    released = noisy(asked, np.tile(exact, (replicates, 1)), rng).values  # noqa: PD011
    variance = float(asked.law.variances[0]) * asked.steps[0] ** 2
    errors = released - exact
    total = released[:, :-1].sum(axis=1) / columns
    shares = released[:, 3:-1:5] / total[:, None]  # of every column the missing cells
    told = Quality(schema, exact, variance, 0.0, None).share_variance(exact[3])
    return {
        "price": price,
        "columns": columns,
        "n": n,
        "margin of a count": predicted(price, columns),
        "measured": float(np.quantile(np.abs(errors), 0.95)),
        "margin of a share": predicted(price, columns) * float(np.sqrt(told / variance)),
        "measured share": float(np.quantile(np.abs(shares - SHARES["missing"]), 0.95)),
        "four standard deviations": float(Quality(schema, exact, variance, 0.0, None).share_variance(0.0) ** 0.5 * 4),
    }


def figure_of(table: pd.DataFrame) -> Figure:
    """Margins of shares against the number of rows."""
    figure, axes = new_figure(7, 3.6)
    shown = table[table["columns"] == 20]
    for place, (price, group) in enumerate(shown.groupby("price", sort=False)):
        axes.plot(group["n"], 100 * group["margin of a share"], "-", color=f"C{place}", label=price)
        axes.plot(group["n"], 100 * group["measured share"], "o", ms=4, color=f"C{place}")
    axes.axhline(1, color="0.6", lw=0.8, ls="--")
    axes.set(xscale="log", yscale="log", xlabel="rows", ylabel="half width, percentage points", title="20 columns")
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Measure every cell, write the table and the figure."""
    rng = np.random.default_rng(arguments.seed)
    rows = [measure(p, k, n, arguments.replicates, rng) for p in PRICES for k in WIDTHS for n in SIZES]
    table = pd.DataFrame(rows)
    notes = [
        "Half widths of 95% intervals under add_remove: of a count, and of a share of .15, by formula beside the .95 "
        "quantile of the sizes of errors. The last column is the share that four standard deviations of "
        "the noise make.",
    ]
    write_table(table, "quality_noise", arguments, notes, figure_of(table))
    off = float((table["measured"] / table["margin of a count"] - 1).abs().max())
    # Shares of few rows are ratios whose number of rows is nearly lost: where the margin is small they are judged.
    clear = table[table["margin of a share"] < 0.1]
    share = float((clear["measured share"] / clear["margin of a share"] - 1).abs().max())
    slack = 6 / np.sqrt(2 * arguments.replicates)
    design = f"{len(table)} cells: prices, {min(WIDTHS)} to {max(WIDTHS)} columns, n = 1,000 to 1,000,000"
    return [
        Claim("margins of counts, largest deviation from the formula", design, f"{off:.2%}", off < 0.02 + slack / 5),
        Claim(
            "margins of shares, largest deviation from the formula",
            f"{len(clear)} cells with a margin below 10 points",
            f"{share:.2%}",
            share < 0.03 + slack,
        ),
    ]

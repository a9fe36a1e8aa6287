"""Is regression true on real data that the engine was not built with? As `real_data` asks, on other data sets.

Most of them had been looked at with 40 replicates before the list was written. The engine was not changed for any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pandas as pd

from validation.common.outputs import Options, write_table
from validation.common.rules import Claim
from validation.common.study import Study
from validation.regression.real_data import PRICES, RULES, SIZES, Cell, cells_of, draw, figure_of, summary, summary_of
from validation.regression.real_populations import UNSEEN

TRUE = ("coverage of ", "size at ")
"""Beginnings of what is asked here as there: intervals and tests, not how wide they may be."""

QUICK = ("card college", "meps costly, logit")


def cells() -> Sequence[Cell]:
    """Every regression at all sizes and prices."""
    return [Cell(name, n, price, "add_remove", False) for name, n, price in product(UNSEEN, SIZES, PRICES.values())]


def claims(table: pd.DataFrame, options: Options) -> list[Claim]:
    """Write the summary, and a row for each cell."""
    write_table(summary_of(table), "unseen_summary", options, ["Rows by cell are in unseen_cells.csv."])
    write_table(cells_of(table), "unseen_cells", options, ["Rows by coefficient: run the script."])
    return []


STUDY = Study(
    "unseen", cells, draw, summary,
    tuple(replace(one, what=one.what.replace("real data", "unseen real data")) for one in RULES
          if one.what.startswith(TRUE) and "shuffled" not in one.what),
    axes=lambda _: {}, most=1000, also=claims, figure=figure_of,
    by=("regression", "mode", "neighbors", "n", "privacy", "quantity", "term"),
    quick=lambda cell: cell.name in QUICK and (cell.n, cell.price) == (2000, "ZCDP(0.5)"),
    notes=(f"{len(UNSEEN)} regressions on data sets of linearmodels, drawn and judged as those of `real_data`.",),
)  # fmt: skip

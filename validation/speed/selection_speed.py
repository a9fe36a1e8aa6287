"""Time of a private quantile and a private choice, as ratios to numpy's sorting and counting of the same rows."""

from __future__ import annotations

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.kernel.quantiles import FAN_OUT
from dpinfer.kernel.rows.tree import RANK
from dpinfer.kernel.sampling import private_choice, private_noise
from validation.common.outputs import Options, write_figure, write_table
from validation.common.rules import Claim
from validation.common.timing import bars, in_turns

ROWS, LEVELS = 1_000_000, 20
MOST = {"quantile": 8.0, "choice": 300.0}
"""Largest ratios that are taken to be in order: of a quantile to np.sort, of a choice to np.bincount.

Of the quantile without drawing its exact noise, which takes the same time for any number of rows.
"""

DRAWS = 3
"""Choices of a descent through 2^30 points."""

NOISELESS = "private median but for noise"


def run(arguments: Options) -> list[Claim]:
    """Measure in turns, write the table and the figure."""
    rng = np.random.default_rng(arguments.seed)
    real, codes = rng.normal(size=ROWS), rng.integers(0, LEVELS, ROWS)
    names = [f"level {code}" for code in range(LEVELS)]
    whole = codes.astype(np.int64)
    frame = pd.DataFrame({"real": real, "whole": whole, "named": pd.Categorical.from_codes(codes, names)})
    schema = dpi.Schema(real=dpi.Real(-5, 5), whole=dpi.Integer(0, LEVELS - 1), named=dpi.Category(names))
    data = dpi.PrivateData(frame, schema, dpi.Ledger.in_memory(dpi.PureDP(1e6)))
    median, tree = dpi.quantile("real", data, q=0.5), dpi.quantile("real", data, q=[0.1, 0.5, 0.9])
    integers, labels = dpi.most_frequent("whole", data), dpi.most_frequent("named", data)
    price = dpi.PureDP(1.0)
    law = median.measurement(price).law

    def noise() -> None:
        private_noise(law)
        for _ in range(DRAWS):
            private_choice([0] * FAN_OUT, "gumbel", float(RANK))

    works = {
        "np.sort": lambda: np.sort(real),
        "np.quantile, median": lambda: np.quantile(real, 0.5),
        "private median": lambda: median.fit(price),
        "noise of the median": noise,
        "three private quantiles": lambda: tree.fit(price),
        "np.bincount": lambda: np.bincount(whole, minlength=LEVELS),
        "most frequent whole number": lambda: integers.fit(price),
        "most frequent label": lambda: labels.fit(price),
    }
    took = in_turns(works, arguments.replicates, 0.2)
    took[NOISELESS] = took["private median"] - took["noise of the median"]
    middle = took.median()
    compared = [*["np.sort"] * 5, *["np.bincount"] * 3, "np.sort"]
    ratios = middle.to_numpy() / middle[compared].to_numpy()
    table = pd.DataFrame({"what": middle.index, "seconds": middle.to_numpy(), "over": compared, "ratio": ratios})
    notes = [
        f"{ROWS:,} rows, {LEVELS} levels; median of {arguments.replicates} rounds in one run; noise, ledger and "
        "inference included. Of the seconds only their ratios mean something on another machine. The median's noise, "
        f"on {len(law.scales):,} nodes of a tree and in {DRAWS} choices from {FAN_OUT:,} blocks, takes the same time "
        "for any number of rows."
    ]
    write_table(table, "selection_speed", arguments, notes)
    shown = dict(zip([f"{row.what} / {row.over}" for row in table.itertuples()], table["ratio"], strict=True))
    figure = bars(shown, "time over numpy's", size=(7, 2.8), log=True)
    write_figure(figure, "selection_speed", arguments)
    ratio = dict(zip(table["what"], table["ratio"], strict=True))
    found = ratio[NOISELESS]
    return [
        Claim(f"time of a private median, but for drawing noise, over np.sort (at most {MOST['quantile']:g})",
              f"{ROWS:,} rows", f"{found:.2f}; {ratio['private median']:.1f} with its noise",
              found <= MOST["quantile"]),
        Claim(f"time of a private choice over np.bincount (at most {MOST['choice']:g})",
              f"{ROWS:,} rows, {LEVELS} levels",
              f"{ratio['most frequent whole number']:.1f} of whole numbers, {ratio['most frequent label']:.1f} of "
              "labels", ratio["most frequent whole number"] <= MOST["choice"]),
    ]  # fmt: skip

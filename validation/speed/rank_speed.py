"""Time of 100,000 simulated nulls of rank tests on 100 leaves, as a ratio to drawing their multinomials alone."""

from __future__ import annotations

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.distributions.rank_statistics import (
    GivenDistribution,
    GroupRanks,
    RankAssociation,
    SignedRanks,
    TwoDistributions,
)
from dpinfer.statistics.nulls import NullModel, simulate
from validation.common.leaves import noise_at
from validation.common.outputs import Options, write_figure, write_table
from validation.common.rules import Claim
from validation.common.timing import bars, seconds

DRAWS = 100_000
LEAVES, ROWS, MOST = 100, 10_000, 5.0
PRICES = (dpi.ZCDP(0.02), dpi.PureDP(1.0))


def models(price: object) -> dict[str, tuple[NullModel, int]]:
    """The tests and the numbers of their groups."""
    noise = noise_at(price, "add_remove")
    return {
        "mannwhitneyu": (GroupRanks(noise, shape=(2, LEAVES)), 2),
        "kruskal": (GroupRanks(noise, shape=(4, LEAVES)), 4),
        "ks_2samp": (TwoDistributions(noise, shape=(2, LEAVES)), 2),
        "wilcoxon": (SignedRanks(noise), 1),
        "ks_1samp": (GivenDistribution(noise, shares=np.full(LEAVES, 1 / LEAVES)), 1),
        "spearmanr": (RankAssociation(noise, shape=(10, 10)), 1),
    }


def measure(price: object, repeats: int) -> list[dict]:
    """Best times of the engine and of the bare multinomials, taken in turns."""
    found, rng = [], np.random.default_rng(1)
    for name, (model, groups) in models(price).items():
        cells = LEAVES + (name == "wilcoxon")
        shares, sizes = np.full(cells, 1 / cells), np.full(groups, ROWS // groups)
        values = (sizes[:, None] * shares).ravel() + noise_at(price, "add_remove").rvs((groups * cells,), rng)
        bare, engine = [], []
        for _ in range(repeats):
            bare.append(seconds(lambda n=sizes, p=shares: rng.multinomial(n, p, size=(DRAWS, len(n)))))  # type: ignore[misc]
            engine.append(seconds(lambda m=model, v=values: simulate(m, v, draws=DRAWS)))  # type: ignore[misc]
        times = {"multinomials, s": min(bare), "simulated null, s": min(engine), "ratio": min(engine) / min(bare)}
        found.append({"test": name, "price": str(price), **times, "at most": MOST})
    return found


def run(arguments: Options) -> list[Claim]:
    """Time every test; replicates are repeats."""
    table = pd.DataFrame([row for price in PRICES for row in measure(price, arguments.replicates)])
    write_table(table, "rank_speed", arguments, ["Best times of so many turns in one process; the ratio counts."])
    shown = dict(zip([f"{row.test}, {row.price}" for row in table.itertuples()], table["ratio"], strict=True))
    label = f"time of {DRAWS:,} simulated nulls over that of their multinomials"
    write_figure(bars(shown, label, size=(7.5, 3.2), most=MOST, color="#03396c"), "rank_speed", arguments)
    worst = float(table["ratio"].max())
    what = f"{DRAWS:,} simulated nulls of rank tests on {LEAVES} leaves over the multinomials alone (at most {MOST:g})"
    return [Claim(what, "all six tests", f"{worst:.2f}", worst <= MOST)]

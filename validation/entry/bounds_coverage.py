"""Coverage of what is fitted within bounds that were found privately: means, gamma families, least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import dpinfer as dpi
from dpinfer.entry.results import bounded, occupied_from, octave_bounds
from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.stage import Context
from dpinfer.regression.question import Newton
from dpinfer.studies.simulation import noisy
from validation.common.outputs import scatter
from validation.common.rules import Rule
from validation.common.study import Drawn, Study
from validation.regression.newton_draws import Drawer

SIZES = (1000, 5000, 20_000, 50_000)
TOTAL, FOR_BOUNDS = 0.1, 0.01
"""Prices, rho: of everything, and what the bounds take of it."""

_VALUES = 2_000_000
"""Numbers that are drawn at once."""

LAWS = {
    "normal": (stats.norm(50, 10), (-1e12, 1e12)),
    "lognormal": (stats.lognorm(1.0, scale=np.exp(10)), (0.0, 1e12)),
    "exponential": (stats.expon(), (0.0, 1e12)),
    "t5": (stats.t(5, scale=100), (-1e12, 1e12)),
    "gamma": (stats.gamma(2.0), (0.0, 1e12)),
}
"""Of a column, with the bounds that it is declared with beforehand."""

ASKED: dict[str, Any] = {
    "mean": dpi.mean("x"),
    "gamma": dpi.expfam("x", family="gamma"),
    "ols, gram": dpi.ols("y ~ x", method="gram"),
    "ols, iterations": Newton(formula="y ~ x", model="ols"),
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
        lower = max(lower, 1e-9) if self.asked == "gamma" else lower  # whose logarithms must have bounds
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
    others += [(asked, law) for asked in ("ols, gram", "ols, iterations") for law in LAWS if law != "gamma"]
    return found + [Cell(asked, law, n, margin) for asked, law in others for n in SIZES for margin in (1, None)]


def cells() -> list[Cell]:
    """The grid, but for regressions by iterations, fitted one by one, with declared bounds or at the larger sizes."""
    slow = [one for one in grid() if one.asked == "ols, iterations" and (one.margin is None or one.n > SIZES[1])]
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
    if cell.asked == "ols, iterations":
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


def draw(cell: Cell, rng: np.random.Generator, replicates: int) -> Drawn:
    """Draw, find bounds, and fit within them: intervals (R, p, 2)."""
    parts, together = [], max(1, _VALUES // cell.n)
    for start in range(0, replicates, together):
        sets = min(together, replicates - start)
        data = cell.draw(rng, sets)
        ends = found_bounds(cell, data, sets, rng)
        block = np.tile([-np.inf, np.inf], (sets, len(cell.truth), 1))
        for one in np.unique(ends[~np.isnan(ends).any(axis=1)], axis=0):
            mine = (ends == one).all(axis=1)
            schema = cell.schema.replace(
                {name: bounded(cell.schema[name], *one[2 * j : 2 * j + 2]) for j, name in enumerate(cell.columns)}
            )
            kept = {name: values.reshape(sets, cell.n)[mine].ravel() for name, values in data.items()}
            block[mine] = fitted(cell, schema, kept, int(mine.sum()), rng)
        parts.append(block)
    return {"ends": np.concatenate(parts)}


def summary(cell: Cell, drawn: Drawn) -> dict:
    """Compare the worst coefficient with the law; an interval that is not determined is the whole line, and covers."""
    truth, (low, high) = np.array(list(cell.truth.values())), np.moveaxis(drawn["ends"], -1, 0)
    width, covered = high - low, (low <= truth) & (truth <= high)
    known, worst = np.isfinite(width), int(covered.mean(axis=0).argmin())
    among = covered[known[:, worst], worst]
    finite_mean = cell.asked == "ols, iterations" and known.any()
    typical = width[known[:, 0], 0].mean() if finite_mean else np.median(width[:, 0])
    return {
        "coverage": float(covered[:, worst].mean()), "too low": float((high[:, worst] < truth[worst]).mean()),
        "too high": float((low[:, worst] > truth[worst]).mean()), "width": float(typical),
        "not determined": float((~known).mean(axis=0).max()), "determined": len(among),
        "coverage where determined": float(among.mean()) if len(among) else np.nan,
        "quantities": 2 if cell.asked == "gamma" else 1,
    }  # fmt: skip


def claimed(what: str, *, rounds: bool) -> tuple[Rule, ...]:
    """Return what is asked within a margin of one octave: of all intervals, and of those that are determined."""

    def where(table: pd.DataFrame) -> pd.Series:
        return (table["margin"] == "1") & ((table["asked"] == "ols, iterations") == rounds)

    name = f"least coverage of 95% intervals within bounds that were found privately: {what}"
    return (Rule(name, "coverage", quantities="quantities", where=where, design=f"rho = {TOTAL:g}, {FOR_BOUNDS:g} of "
                                                                                f"it for bounds"),
            Rule("", "coverage where determined", count="determined", where=where))  # fmt: skip


STUDY = Study(
    "bounds_coverage", cells, draw, summary,
    (*claimed("means, gamma families, least squares from cross-products", rounds=False),
     *claimed("least squares by iterations", rounds=True)),
    axes=lambda cell: {"asked": cell.asked, "law": cell.law, "n": cell.n,
                       "margin": "declared" if cell.margin is None else str(cell.margin)},
    most=2000, figure=scatter("n", {"coverage": 0.95, "coverage where determined": 0.95}, ["asked", "margin"]),
    notes=(
        f"Budget rho = {TOTAL:g}, of which bounds take {FOR_BOUNDS:g}; with declared bounds all of it is for the fit. "
        "False alarm 0.001. Data sets of one size with the same bounds are fitted at once; regressions by iterations "
        "are fitted one by one, by the library's own row sums with seeded noise.",
        "An interval that is not determined is the whole line, and counts as covering; coverage among the others "
        "stands beside it, and is judged too.",
        "Widths are medians, of regressions by iterations means of all that are finite.",
        "Coverage is of the worst coefficient (of regressions the slope), of the law without bounds.",
    ),
)  # fmt: skip

"""What do the farthest neighbours pay? A search for the dearest unit of every stage of a regression by iterations.

The stages are those of fits on real data, at the settings that these released. A unit is a row, or a person of three
rows; under replace_one it is a pair of these. Cells are searched by random restarts and coordinate ascent: ends of
bounds, cells that are missing or impossible, cells of the data, and steps of any size. What is measured is the joint
norm of what a unit adds to the whole numbers of all parts, each over its priced weight. Over the bound that is priced
it is at most 1 if the proofs and the code are right; near 1 no noise is wasted on units that cannot be.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.choice.question import Choice
from dpinfer.kernel.rows.base import Batch, BoundedSum
from dpinfer.kernel.rows.iterations import RoundSum
from dpinfer.kernel.stage import Context
from dpinfer.privacy.units import NEIGHBORS, PureDP
from dpinfer.regression.question import Newton
from validation.common.outputs import Options, write_table
from validation.common.real import CODEBOOKS, rows_of
from validation.common.rules import Claim
from validation.common.study import kept
from validation.regression.newton_draws import Drawer

ROWS = 3
"""Rows of a person."""

STEPS, RESTARTS, PROPOSALS = 150, 48, 8
"""Steps of the ascent, units that climb at a time, and changes that each tries in a step."""

QUICK = 15
"""Steps up to which only `QUICK_MODELS` are searched."""

FAIR = "age + yrs_married + C(occupation)"
MODELS: dict[str, tuple[str, Newton]] = {
    "ols": ("fair", Newton(formula=f"rate_marriage ~ {FAIR}")),
    "ols, nonrobust": ("fair", Newton(formula=f"rate_marriage ~ {FAIR}", cov_type="nonrobust")),
    "ols, weights": ("fair", Newton(formula="affairs ~ age + religious", weights="yrs_married")),
    "logit": ("fair", Newton(formula=f"had_affair ~ {FAIR}", model="logit", margins=True)),
    "logit, weights": ("fair", Newton(formula="had_affair ~ age + religious", model="logit", weights="yrs_married")),
    "probit": ("fair", Newton(formula="had_affair ~ age + yrs_married + religious", model="probit")),
    "cloglog": ("fair", Newton(formula="had_affair ~ age + yrs_married + religious", model="cloglog")),
    "poisson": ("randhie", Newton(formula="mdvis ~ lncoins + idp + disea", model="poisson", margins=True)),
    "negativebinomial": ("randhie", Newton(formula="mdvis ~ lncoins + idp + disea", model="negativebinomial")),
    "gamma": ("randhie", Newton(formula="disea ~ lncoins + idp + physlm", model="gamma", offset="lpi")),
    "rlm": ("fair", Newton(formula="affairs ~ age + yrs_married + religious", model="huber")),
    "quantreg": ("fair", Newton(formula="affairs ~ age + yrs_married + religious", model="quantile", parameter=0.75)),
    "mnlogit": ("fair", Choice(formula="occupation ~ age + religious", model="mnlogit")),
    "ordered": ("anes96", Choice(formula="educ ~ age + income", model="ordered-logit")),
    "ordered probit": ("anes96", Choice(formula="educ ~ age + income", model="ordered-probit")),
}
"""By model: data set and question."""

QUICK_MODELS = ("logit",)
PRICES = {"ZCDP": dpi.ZCDP(0.5), "PureDP": dpi.PureDP(1.0)}
UNITS = ("rows", "people")
NAMED = ["model", "measure", "neighbors", "unit"]
COUNTS = ("centres", "spreads", "counts", "recounts")
ORDER = ("centres", "spreads", "start", "counts", "first", "again", "recounts", "second", "margins")


@dataclass(frozen=True, eq=False)
class Search:
    """Units of one stage, as arrays of cells (n, sides, rows, columns): numbers, and places of levels.

    Attributes
    ----------
    bounded : BoundedSum
        The stage's sums with their price.
    norm : {"l2", "l1"}
    schema : Schema
    sides : int
        1 where a unit is added or removed, 2 where it is replaced.
    data : DataFrame
        Rows of the real data.
    """

    bounded: BoundedSum
    norm: str
    schema: dpi.Schema
    sides: int
    data: Mapping[str, np.ndarray]
    each: int = field(default=1)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns that the stage reads."""
        return self.bounded.rows.columns

    # Cells

    def _levels(self, name: str) -> np.ndarray | None:
        column = self.schema[name]
        return np.array([*column.levels, None], dtype=object) if isinstance(column, dpi.Category) else None

    @cached_property
    def special(self) -> list[np.ndarray]:
        """Cells of each column that are tried by name."""
        found = []
        for name in self.names:
            column, levels = self.schema[name], self._levels(name)
            if levels is not None:
                found.append(np.arange(len(levels), dtype=float))
            elif isinstance(column, dpi.Boolean):
                found.append(np.array([0.0, 1.0, np.nan]))
            else:
                ends = [column.lower, column.upper, 0.5 * (column.lower + column.upper), 0.0]
                found.append(
                    np.array([*ends, *ends[:2], np.nan, np.inf, -np.inf, 1e308, np.nextafter(ends[0], np.inf)])
                )
        return found

    def _steps(self, place: int, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Move cells of a column (k,): to one of its special cells, to one of the data, or by a step of any size."""
        name, size = self.names[place], len(cells)
        special = rng.choice(self.special[place], size)
        if self._levels(name) is not None or isinstance(self.schema[name], dpi.Boolean):
            return special
        column = self.schema[name]
        near = cells + rng.normal(size=size) * column.width * 10 ** rng.uniform(-6, 0, size)
        near = np.clip(np.nan_to_num(near, nan=column.lower), column.lower, column.upper)
        known = rng.choice(self.data[name], size)
        kind = rng.random(size)
        return np.where(kind < 0.3, special, np.where(kind < 0.4, known, near))

    def drawn(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Draw units: cells of the data, uniform ones and special ones; persons with rows alike or not."""
        shape = (size, self.sides, self.each)
        found = np.empty((*shape, len(self.names)))
        for place, name in enumerate(self.names):
            column, levels = self.schema[name], self._levels(name)
            special = rng.choice(self.special[place], shape)
            if levels is not None or isinstance(column, dpi.Boolean):
                found[..., place] = special
                continue
            uniform = rng.uniform(column.lower, column.upper, shape)
            ends = rng.choice([column.lower, column.upper], shape)
            kind = rng.random(shape)
            known = rng.choice(self.data[name], shape)
            found[..., place] = np.where(kind < 0.35, ends, np.where(kind < 0.6, uniform, known))
            found[..., place] = np.where(kind > 0.95, special, found[..., place])
        alike = rng.random(size) < 0.6
        found[alike] = found[alike][:, :, :1]
        return found

    def batch(self, units: np.ndarray) -> Batch:
        """Return units as a batch, in which each side of each is a data set of one unit."""
        flat = units.reshape(-1, len(self.names))
        cells: dict[str, np.ndarray] = {}
        for place, name in enumerate(self.names):
            levels = self._levels(name)
            cells[name] = flat[:, place].copy() if levels is None else levels[flat[:, place].astype(int)]
        sets = len(flat) // self.each
        persons = np.repeat(np.arange(sets), self.each) if self.schema.people is not None else None
        return Batch(cells, len(flat), sets=sets, persons=persons)

    # Distances

    def added(self, units: np.ndarray) -> np.ndarray:
        """Return what each unit changes (n, m), in whole numbers: the contributions that the kernel adds up."""
        batch, rows = self.batch(units), self.bounded.rows
        found = self._fast(batch) if isinstance(rows, RoundSum) else rows.finish_sets(rows.add(batch).astype(float))
        found = found.reshape(len(units), self.sides, -1)
        return found[:, 0] - found[:, 1] if self.sides == 2 else found[:, 0]

    def _fast(self, batch: Batch) -> np.ndarray:
        """Sum the contributions of each unit by itself, all units at once: as `RoundSum.add` of one unit each."""
        rows: Any = self.bounded.rows
        encoded, _ = rows.frame.features.encode(batch.cells, persons=batch.persons)
        people = rows._whole_units and batch.persons is not None  # else rows are bounded one by one
        integers = rows.integers(encoded, batch.persons if people else None)
        upper = np.triu_indices(rows.frame.size)
        parts = []
        for term, one in zip(rows.terms, integers, strict=True):
            images = 1 if term.cut is not None else rows.frame.images  # columns of a row, one block after the other
            each = one.T.reshape(images, batch.sets, -1, len(one)).swapaxes(0, 1).reshape(batch.sets, -1, len(one))
            if term.kind in ("matrix", "outer"):
                parts.append(np.einsum("nri,nrj->nij", each, each)[:, upper[0], upper[1]])
            else:
                parts.append(each.sum(axis=1))
        return np.concatenate(parts, axis=1)

    def ratios(self, units: np.ndarray) -> np.ndarray:
        """Return the distance of each unit over the bound that is priced (n,)."""
        moved = self.added(units) / self.bounded.weights
        length = np.abs(moved).sum(axis=1) if self.norm == "l1" else np.sqrt((moved**2).sum(axis=1))
        return length / float(self.bounded.bound)

    def exact(self, unit: np.ndarray) -> Fraction:
        """Return the ratio of one unit, squared under Gaussian noise, by the kernel's own sums in exact fractions."""
        batch, rows = self.batch(unit[None]), self.bounded.rows
        sums = [rows.finish([int(one) for one in each]) for each in rows.add(batch)]
        moved = [a - b for a, b in zip(*sums, strict=True)] if self.sides == 2 else sums[0]
        over = [abs(Fraction(one)) / Fraction(w) for one, w in zip(moved, self.bounded.weights.tolist(), strict=True)]
        if self.norm == "l1":
            return sum(over, Fraction(0)) / self.bounded.bound
        return sum((one**2 for one in over), Fraction(0)) / self.bounded.bound**2

    # Ascent

    def climbed(self, steps: int, rng: np.random.Generator) -> np.ndarray:
        """Return the dearest unit (sides, rows, columns) that was found."""
        units = self._best(self.drawn(1500, rng), RESTARTS, rng)
        ratios = self.ratios(units)
        for step in range(steps):
            tried = self._proposed(np.repeat(units, PROPOSALS, axis=0), rng)
            found = self.ratios(tried).reshape(-1, PROPOSALS)
            best = found.argmax(axis=1)
            better = found.max(axis=1) > ratios
            taken = tried.reshape(len(units), PROPOSALS, *units.shape[1:])[np.arange(len(units)), best]
            units = np.where(better[:, None, None, None], taken, units)
            ratios = np.maximum(ratios, found.max(axis=1))
            if step % 20 == 19:  # those behind start anew
                last = np.argsort(ratios)[: RESTARTS // 4]
                units[last] = self._best(self.drawn(300, rng), len(last), rng)
                ratios[last] = self.ratios(units[last])
        return units[int(ratios.argmax())]

    def _best(self, units: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
        """Return the dearest units; of pairs also those whose sides are best with another one's."""
        kept = units[np.argsort(-self.ratios(units))[:size]]
        if self.sides == 1:
            return kept
        mixed = kept.copy()
        mixed[:, 1] = kept[rng.permutation(len(kept)), 1]
        both = np.concatenate([kept, mixed])
        return both[np.argsort(-self.ratios(both))[:size]]

    def _proposed(self, units: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Change one or two columns of each unit, in one row or in all rows of a side; or copy a row."""
        found, size = units.copy(), len(units)
        for turn in range(2):
            chosen = np.arange(size) if not turn else np.flatnonzero(rng.random(size) < 0.3)
            columns = rng.integers(len(self.names), size=len(chosen))
            sides, rows = rng.integers(self.sides, size=len(chosen)), rng.integers(self.each, size=len(chosen))
            for place in range(len(self.names)):
                mine = columns == place
                one, side, row = chosen[mine], sides[mine], rows[mine]
                moved = self._steps(place, found[one, side, row, place], rng)
                whole = rng.random(len(one)) < 0.5
                found[one, side, row, place] = moved
                found[one[whole], side[whole], :, place] = moved[whole][:, None]
        if self.each > 1:
            alike = rng.random(size) < 0.15
            found[alike] = found[alike][:, :, :1]
        return found


# --- one fit --------------------------------------------------------------------------------------------------------


def stages_of(
    question: Newton, context: Context, frame: pd.DataFrame, rng: np.random.Generator
) -> dict[str, tuple[Any, tuple[float, ...] | None]]:
    """Fit real data, and return the row sums of each stage with the weights of their noise."""
    drawer = Drawer(question, context)
    people = context.schema.people is not None
    persons = np.arange(len(frame)) // ROWS if people else None
    cells = {name: frame[name].to_numpy() for name in frame}
    released = drawer.stages(cells, rng, persons)
    found, before = {}, tuple(released.values())
    for place, kind in enumerate(released):
        measure = question.stage(place, context, before[:place]).measure  # type: ignore[arg-type]
        found[kind] = (measure.rows, measure.weights)
    return found


def dearest(
    model: str, measure: str, neighbors: str, unit: str, *, steps: int = STEPS, seed: int = 1, size: int = 6000
) -> list[dict[str, Any]]:
    """Search the dearest neighbour of every stage of one fit.

    Returns
    -------
    list of dict
        Of each stage the ratio of its distance over the priced bound, and whether it is at most 1 in exact fractions.
    """
    data, question = MODELS[model]
    rng = np.random.default_rng([seed, zlib.crc32(f"{model} {measure} {neighbors} {unit}".encode())])
    frame, schema = rows_of(data).iloc[:size], dpi.Schema(CODEBOOKS[data])
    schema = schema.with_people("id", ROWS) if unit == "people" else schema
    context = Context(schema, neighbors, PRICES[measure], len(frame) if neighbors == "replace_one" else None)  # type: ignore[arg-type]
    norm = "l1" if isinstance(PRICES[measure], PureDP) else "l2"
    cells = {name: frame[name].to_numpy() for name in frame}
    found = []
    for kind, (rows, weights) in stages_of(question.resolve(context), context, frame, rng).items():
        bounded = rows.bounded(neighbors, norm, weights=weights)
        each, sides = schema.rows_per_unit, 1 if neighbors == "add_remove" else 2
        search = Search(bounded, norm, schema, sides, cells, each)
        counts = not isinstance(rows, RoundSum)
        best = search.climbed(steps // 10 if counts else steps, rng)
        exact = search.exact(best)
        ratio = float(exact) if norm == "l1" else float(np.sqrt(float(exact)))
        found.append(
            {
                "model": model, "measure": measure, "neighbors": neighbors, "unit": unit, "stage": kind,
                "distance / bound": ratio, "held": exact <= 1,
            }
        )  # fmt: skip
    return found


def run(arguments: Options) -> list[Claim]:
    """Search all fits, write the tables, and claim that no neighbours are farther apart than is priced."""
    steps = arguments.replicates
    rows: list[dict[str, Any]] = []
    for model in QUICK_MODELS if steps <= QUICK else MODELS:
        for measure in PRICES:
            for neighbors in NEIGHBORS:
                for unit in UNITS:
                    if model == "ols, nonrobust" and unit == "people":
                        continue
                    search = partial(dearest, model, measure, neighbors, unit, steps=steps, seed=arguments.seed)
                    rows += kept("neighbours", f"{model} {measure} {neighbors} {unit}", arguments, search)
                    largest = max(one["distance / bound"] for one in rows)
                    print(model, measure, neighbors, unit, f"{largest:.6f}", flush=True)
    table = pd.DataFrame(rows)
    worst = table.loc[table["distance / bound"].idxmax()]
    stages = sorted(table["stage"].unique(), key=ORDER.index)
    wide = table.pivot_table("distance / bound", NAMED, "stage", sort=False)[stages].round(6).reset_index()
    summed = table[~table["stage"].isin(COUNTS)].groupby(["measure", "neighbors"])["distance / bound"]
    notes = [
        "A distance is the joint norm, over priced weights, of what a unit adds or changes; its square is a price of "
        "zCDP. What is found is a lower bound of the largest one. Empty: the model has no such stage.",
        "",
        "Largest over models and units, and least, of stages that are no counts:",
        "",
        *(f"- {' '.join(key)}: {part.max():.6f}, {part.min():.3f}" for key, part in summed),
    ]
    write_table(wide.astype(object).where(wide.notna(), ""), "neighbours", arguments, notes)
    return [
        Claim(
            "largest distance of neighbours over the bound that is charged for, stages of regressions",
            f"{len(table)} stages of {table['model'].nunique()} models on real data, by both measures, both relations, "
            "rows and people of three rows; random restarts and coordinate ascent over cells",
            f"{worst['distance / bound']:.6f}", table["held"].all(), error="exact", threshold="at most 1",
            worst=", ".join(str(worst[name]) for name in (*NAMED, "stage")), cells=len(table),
            failed=int((~table["held"]).sum()),
        )
    ]  # fmt: skip

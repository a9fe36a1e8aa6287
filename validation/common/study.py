"""The machine behind the tables: it draws replicates of frozen cells in batches, judges at every look, and writes.

A script states a `Study`: its cells, a function that draws replicates of one, what a row shows of them, and rules.
Every batch is stored as it ends, in a folder for the state of the code behind it, so that a run may be stopped and
go on.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, is_dataclass, replace
from functools import cached_property, partial
from itertools import takewhile
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from matplotlib.figure import Figure
from tqdm import tqdm

from validation.common.code import code_of
from validation.common.outputs import Options, write_table
from validation.common.rules import ALARM, FAILED, LOOKS, OPEN, UNASKED, Claim, Rule, batches_of, looks_of

ENOUGH = 1000
"""Replicates of what is shown and not judged."""

Drawn = dict[str, np.ndarray]
"""What was drawn of a cell: arrays with a row per replicate."""


def kept(name: str, part: int | str, options: Options, compute: Callable[[], Any]) -> Any:
    """Return a part of a study: what an earlier run of this code with these options left, or what is computed now."""
    folder = options.out / "parts" / f"{name}-{options.seed}-{code_of(options.script or name)}"
    folder.mkdir(parents=True, exist_ok=True)
    stored = folder / f"{options.replicates}-{part}.pickle"
    if not stored.exists():
        partial_file = stored.with_suffix(".partial")
        partial_file.write_bytes(pickle.dumps(compute()))
        partial_file.rename(stored)
    return pickle.loads(stored.read_bytes())


def in_parallel(calls: Sequence[Callable[[], Any]], options: Options, name: str) -> list[Any]:
    """Return the results of calls, in as many processes as there are jobs."""
    run = Parallel(n_jobs=options.jobs, return_as="generator")
    if options.jobs == 1:
        return [call() for call in calls]
    return list(tqdm(run(delayed(call)() for call in calls), total=len(calls), desc=name, disable=options.quick))


def kept_all(name: str, parts: Mapping[str, Callable[[], Any]], options: Options) -> list[Any]:
    """Return all parts of a study, as `kept` each."""
    return in_parallel([partial(kept, name, part, options, compute) for part, compute in parts.items()], options, name)


def measured(
    name: str, cells: Sequence[Any], measure: Callable[[Any, int, int, int], dict], options: Options
) -> pd.DataFrame:
    """Return the row that ``measure(cell, place, replicates, seed)`` gives of each cell, as `kept` each."""
    parts = {
        str(place): partial(measure, cell, place, options.replicates, options.seed) for place, cell in enumerate(cells)
    }
    return pd.DataFrame(kept_all(name, parts, options))


def mean_ratio(values: np.ndarray, against: float | np.ndarray = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of the finite values (R, ...) of each column over those of an oracle, and their errors."""
    finite = np.where(np.isfinite(values), values, np.nan)
    count = np.isfinite(values).sum(axis=0)
    with np.errstate(all="ignore"):
        mean = np.nansum(finite, axis=0) / np.where(count, count, np.nan)
        error = np.sqrt(np.nansum((finite - mean) ** 2, axis=0) / np.maximum(count - 1, 1) / np.maximum(count, 1))
    return mean / against, error / against


def rmse_ratio(ours: np.ndarray, theirs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return root mean squared errors over others' on the same rows (R, ...), and their Monte Carlo errors."""
    first, second = np.mean(ours**2, axis=0), np.mean(theirs**2, axis=0)
    away = ours**2 / first - theirs**2 / second
    ratio = np.sqrt(first / second)
    return ratio, ratio * 0.5 * away.std(axis=0) / np.sqrt(len(ours))


@dataclass(frozen=True)
class Study:
    """A table: its cells, how they are drawn, what a row shows, and what is asked of it.

    Attributes
    ----------
    name : str
        Of the table and of its files.
    cells : sequence, or callable that returns one
        Frozen dataclasses, whose fields name the cell in the table, or mappings.
    draw : callable
        ``draw(cell, rng, replicates)`` returns arrays with a row per replicate; a function of its module.
    summary : callable, optional
        ``summary(cell, drawn)`` returns a row, or rows, without the axes; by default the mean of every array.
    rules : tuple of Rule
        Without one every cell has all replicates. One without words is a part of the claim before it.
    axes : callable, optional
        Returns the columns that name a cell; by default its fields.
    by : tuple of str
        Further columns that name a row.
    quick : int or callable
        Cells of a quick run, or which of all they are.
    most : int
        Replicates of a cell, at most.
    early : bool
        Whether cells are left as soon as their answer is clear; cells that are shown alone have `ENOUGH` replicates.
    figure : callable, optional
        Draws the table.
    notes : tuple of str
    also : callable, optional
        ``also(table, options)`` returns further claims.
    """

    name: str
    cells: Sequence[Any] | Callable[[], Sequence[Any]]
    draw: Callable[[Any, np.random.Generator, int], Mapping[str, np.ndarray]]
    summary: Callable[[Any, Drawn], dict | list[dict]] | None = None
    rules: tuple[Rule, ...] = ()
    _: KW_ONLY
    axes: Callable[[Any], dict] | None = None
    by: tuple[str, ...] = ()
    quick: int | Callable[[Any], bool] = 4
    most: int = LOOKS[-1]
    early: bool = True
    figure: Callable[[pd.DataFrame], Figure] | None = None
    notes: tuple[str, ...] = ()
    also: Callable[[pd.DataFrame, Options], Iterable[Claim]] | None = None

    @cached_property
    def grid(self) -> Sequence[Any]:
        """All cells."""
        return self.cells() if callable(self.cells) else self.cells

    def run(self, options: Options) -> list[Claim]:
        """Measure the cells, write table and figure, and return the claims."""
        table, failed = self.measure(options)
        by = [*self._axes(self.grid[0]), *self.by]
        judged = [f"Cells and quantities: {len(table)}; failed: {int((~table['held']).sum())}. Judged after "
                  f"{', '.join(f'{look:,}' for look in self._looks(options))} replicates, "
                  f"left as soon as the answer is clear; exact procedures fail the table with probability {ALARM:g} "
                  "at most."] if self.rules else []  # fmt: skip
        write_table(table, self.name, options, [*judged, *self.notes], self.figure(table) if self.figure else None)
        return [*claims_of(self.rules, table, failed, by), *(self.also(table, options) if self.also else ())]

    def measure(self, options: Options) -> tuple[pd.DataFrame, list[pd.Series]]:
        """Return the rows of all cells, and for each rule which of them fail."""
        places, looks = self._places(options), self._looks(options)
        waiting, rows, verdicts = list(places), {}, {}
        batches, tests, at = batches_of(looks[-1]), 0.0, 0
        for look, reached in enumerate(looks):
            due = [partial(self._batch, place, batch, options) for place in waiting for batch in batches
                   if at <= batch[0] < reached]  # fmt: skip
            in_parallel(due, options, self.name)
            shown = [
                partial(self._rows, place, [one for one in batches if one[0] < reached], options) for place in waiting
            ]
            rows |= dict(zip(waiting, in_parallel(shown, options, self.name), strict=True))
            at, table = reached, pd.DataFrame([row for place in waiting for row in rows[place]])
            tests = tests or sum(rule.tests(table) for rule in self.rules)
            found = np.array([rule.verdicts(table, tests, look, len(looks)) for rule in self.rules])
            found = found.reshape(len(self.rules), len(table))
            if reached < ENOUGH and self.rules:
                found[:, ~np.any([rule.judged(table) for rule in self.rules], axis=0)] = OPEN
            ends = np.cumsum([len(rows[place]) for place in waiting])[:-1]
            for place, now in zip(waiting, np.split(found, ends, axis=1), strict=True):  # what is decided stays so
                before = verdicts.get(place, np.full_like(now, OPEN))
                verdicts[place] = np.where(np.isin(before, (OPEN, UNASKED)), now, before)
            waiting = [place for place in waiting if (verdicts[place] == OPEN).any()]
            if not waiting:
                break
        table = pd.DataFrame([row for place in places for row in rows[place]])
        broken = np.concatenate([verdicts[place] for place in places], axis=1) == FAILED
        table["held"] = ~broken.any(axis=0) if self.rules else True
        return table, [pd.Series(one, index=table.index) for one in broken]

    def _looks(self, options: Options) -> tuple[int, ...]:
        most = min(options.replicates, self.most)
        return looks_of(most) if self.rules and self.early else (most,)

    def _places(self, options: Options) -> list[int]:
        every = range(len(self.grid))
        if not options.quick:
            return [*every]
        return [place for place in every if self.quick(self.grid[place])] if callable(self.quick) else [
            *every][:: math.ceil(len(every) / self.quick)]  # fmt: skip

    def _axes(self, cell: Any) -> dict:
        if self.axes is not None:
            return self.axes(cell)
        fields = asdict(cell) if is_dataclass(cell) else dict(cell)
        return {name: one if isinstance(one, int | float | str) else str(one) for name, one in fields.items()}

    def _batch(self, place: int, batch: tuple[int, int], options: Options) -> None:
        """Draw a batch of a cell and store it."""
        start, count = batch
        self._stored(place, start, count, options)

    def _stored(self, place: int, start: int, count: int, options: Options) -> Drawn:
        asked = partial(_draw, self.draw, self.grid[place], [options.seed, place, start], count)
        return kept(self.name, f"{place}-{start}", replace(options, replicates=count), asked)

    def _rows(self, place: int, batches: list[tuple[int, int]], options: Options) -> list[dict]:
        """Return the rows of a cell from its stored batches."""
        parts = [self._stored(place, *batch, options) for batch in batches]
        drawn = {name: np.concatenate([one[name] for one in parts]) for name in parts[0]}
        cell, replicates = self.grid[place], sum(count for _, count in batches)
        found = self.summary(cell, drawn) if self.summary else {name: one.mean() for name, one in drawn.items()}
        several = found if isinstance(found, list) else [found]
        return [{**self._axes(cell), **row, "replicates": replicates} for row in several]


def _draw(draw: Callable, cell: Any, seed: list[int], count: int) -> Drawn:
    """Draw a batch, and refuse what has not a row per replicate."""
    found = {name: np.asarray(one) for name, one in draw(cell, np.random.default_rng(seed), count).items()}
    short = [name for name, one in found.items() if len(one) != count]
    if short:
        raise ValueError(f"{', '.join(short)}: not a row for each of {count} replicates")
    return found


def claims_of(rules: Sequence[Rule], table: pd.DataFrame, failed: Sequence[pd.Series], by: list[str]) -> list[Claim]:
    """Return the claims of rules, of each the rows that fail; a rule without words is a part of the claim before it."""
    claims = []
    for place, rule in enumerate(rules):
        if rule.what:
            silent = takewhile(lambda one: not one[0].what, zip(rules[place + 1 :], failed[place + 1 :], strict=True))
            broken = np.logical_or.reduce([failed[place], *(one for _, one in silent)])
            claims += rule.claims(table, pd.Series(broken, index=table.index), by)
    return claims


def judged_once(rules: Sequence[Rule], table: pd.DataFrame, by: list[str]) -> list[Claim]:
    """Judge a table that is looked at once, all rows and rules together."""
    tests = sum(rule.tests(table) for rule in rules)
    failed = [pd.Series(rule.verdicts(table, tests, 0, 1) == FAILED, index=table.index) for rule in rules]
    return claims_of(rules, table, failed, by)


def studied(module: Any, options: Options) -> list[Claim]:
    """Run the studies of a script, or what it runs in their place, and return its claims."""
    if not hasattr(module, "STUDY"):
        return list(module.run(options))
    studies = module.STUDY if isinstance(module.STUDY, tuple) else (module.STUDY,)
    return [claim for study in studies for claim in study.run(options)]

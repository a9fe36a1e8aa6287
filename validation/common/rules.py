"""How cells are judged: looks, thresholds and seeds of every table, and the claims that are made of them.

A cell is looked at after 250, 500, 1,000, 2,000 and 5,000 replicates, and left as soon as its answer is clear. At each
look it fails if what it misses would be as many with a probability below the part of `ALARM` that the look may spend,
divided by the number of cells of the table: all looks and all cells together, exact procedures fail a table with
probability `ALARM` at most. It holds before the last look if a procedure that misses `GAP` standard deviations more
than is nominal (coverage .93 for .95) would miss as few with a probability below the look's part of `MISSED`. What has
not failed at the last look holds. `validation.common.rule_errors` computes both errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats

SEED = 20261120
"""Of the published tables."""

LOOKS = (250, 500, 1000, 2000, 5000)
BATCH = 1000
"""Replicates that are drawn from one seed and stored together, at most."""

ALARM = 0.01
SPENT = (0.02, 0.03, 0.05, 0.15, 0.75)
MISSED = (0.003, 0.007, 0.015, 0.02, 0.0)
GAP = 0.02 / np.sqrt(0.05 * 0.95)
WIDER = 1.02
"""Ratios hold before the last look if they are clearly below this many times their cap."""

TAIL = 0.01
"""Share of the cells of exact procedures that lie in the tail that is counted, at most: expected by chance."""

Kind = Literal["coverage", "size", "width", "exact", "value", "time"]
SHARES = ("coverage", "size", "share")
OPEN, HELD, FAILED, UNASKED = 0, 1, 2, 3


def looks_of(replicates: int) -> tuple[int, ...]:
    """Return the looks of a run of so many replicates at most; a quick run looks once."""
    return tuple(look for look in LOOKS if look <= replicates) or (replicates,)


def batches_of(replicates: int) -> list[tuple[int, int]]:
    """Return first replicate and size of each batch, none of which crosses a look."""
    ends = (0, *looks_of(replicates))
    starts = [start for low, high in pairwise(ends) for start in range(low, high, BATCH)]
    return [(start, stop - start) for start, stop in zip(starts, (*starts[1:], ends[-1]), strict=True)]


def spent(look: int, looks: int) -> float:
    """Return the probability of an alarm that a look may spend; the last one has what is left."""
    return ALARM * (sum(SPENT[look:]) if look == looks - 1 else SPENT[look])


def judge_shares(misses, count, nominal, tests: float, look: int, looks: int) -> np.ndarray:
    """Judge numbers of misses (or rejections) among so many replicates, of a nominal probability each."""
    misses, count = np.asarray(misses, dtype=float), np.asarray(count, dtype=float)
    worse = nominal + GAP * np.sqrt(nominal * (1 - nominal))
    failed = stats.binom.sf(misses - 1, count, nominal) <= spent(look, looks) / tests
    clear = look == looks - 1 or stats.binom.cdf(misses, count, worse) <= MISSED[look]
    return np.where(failed, FAILED, np.where(clear, HELD, OPEN))


def judge_ratios(ratios, errors, caps, tests: float, look: int, looks: int) -> np.ndarray:
    """Judge ratios with Monte Carlo errors by caps; one without an error is judged as it stands."""
    ratios, errors = np.asarray(ratios, dtype=float), np.maximum(np.nan_to_num(errors), 1e-12)
    failed = stats.norm.sf((ratios - caps) / errors) <= spent(look, looks) / tests
    clear = look == looks - 1 or stats.norm.cdf((ratios - WIDER * caps) / errors) <= MISSED[look]
    return np.where(failed, FAILED, np.where(clear, HELD, OPEN))


@dataclass(frozen=True)
class Claim:
    """One thing that a script shows.

    Attributes
    ----------
    what, design : str
    published : str
        The best published value with its source; empty where there is none.
    ours : str
        Our value: of the worst cell where there are many.
    error : str
        Its Monte Carlo error; empty where it has none.
    held : bool
    kind : str
        "coverage", "size" and "width" are judged by the rule of this module; "exact" has no Monte Carlo error; "value"
        is any other number; "time" depends on the machine.
    threshold : str
        What is asked for.
    worst : str
        The worst cell.
    cells, failed, tail : int
        Cells, those that fail, and those that lie in the worst hundredth of chance.
    replicates : int
        Of the cells with most; 0 where there are none.
    """

    what: str
    design: str
    published: str = field(default="", kw_only=True)
    ours: str
    error: str = field(default="", kw_only=True)
    held: bool
    _: KW_ONLY
    kind: Kind = "value"
    threshold: str = ""
    worst: str = ""
    cells: int = 1
    failed: int = 0
    tail: int = 0
    replicates: int = 0

    def __post_init__(self) -> None:
        """Numbers of numpy make truth values of numpy, which JSON does not know."""
        object.__setattr__(self, "held", bool(self.held))


@dataclass(frozen=True)
class Rule:
    """What is asked of a column of a table, in every row.

    Attributes
    ----------
    what : str
        The claim; ``{part}`` in it stands for the value of ``split``. Without words it is a part of the claim before.
    column : str
        Coverage or size are shares of replicates; a width or an error is a ratio, whose Monte Carlo error may stand in
        the column of the same name with "error of " before it. A missing value is not judged.
    kind : str
        Of a claim; a "share" is judged as a size and is a claim of any other value.
    limit : float or str
        Nominal coverage, level, or cap; or a column of them.
    where : callable, optional
        Maps the table to the rows of which something is claimed.
    quantities : int or str
        Of how many the value is the worst: one number, or a column of them.
    count : str
        The column that has the number of replicates behind a share.
    split : str, optional
        A column each of whose values is a claim of its own.
    design, published : str
    """

    what: str
    column: str
    kind: Kind | Literal["share"] = "coverage"
    limit: float | str = 0.95
    _: KW_ONLY
    where: Callable[[pd.DataFrame], pd.Series] | None = None
    quantities: int | str = 1
    count: str = "replicates"
    split: str | None = None
    design: str = ""
    published: str = ""

    def judged(self, table: pd.DataFrame) -> pd.Series:
        """Whether each row is one of which this is asked."""
        found = table[self.column].notna()
        return found & self.where(table) if self.where else found

    def tests(self, table: pd.DataFrame) -> float:
        """Return the number of quantities in the rows of a table."""
        asked = table[self.quantities].sum() if isinstance(self.quantities, str) else len(table) * self.quantities
        return float(asked)

    def _limits(self, table: pd.DataFrame) -> np.ndarray:
        given = table[self.limit] if isinstance(self.limit, str) else np.full(len(table), self.limit)
        return np.asarray(given, dtype=float)

    def _shares(self, table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return misses or rejections, replicates, and their nominal share."""
        count, value, limit = np.rint(table[self.count]), table[self.column], self._limits(table)
        value, limit = (1 - value, 1 - limit) if self.kind == "coverage" else (value, limit)
        return np.rint(value * count).to_numpy(), count.to_numpy(), limit

    def verdicts(self, table: pd.DataFrame, tests: float, look: int, looks: int) -> np.ndarray:
        """Return `OPEN`, `HELD` or `FAILED` for every row, or `UNASKED` where nothing is asked of it."""
        if self.kind in SHARES:
            found = judge_shares(*self._shares(table), tests, look, looks)
        else:
            errors = table.get(f"error of {self.column}", pd.Series(np.nan, table.index))
            found = judge_ratios(table[self.column], errors, self._limits(table), tests, look, looks)
        return np.where(self.judged(table), found, UNASKED)

    def claims(self, table: pd.DataFrame, failed: pd.Series, by: list[str]) -> list[Claim]:
        """State the rows of a table that is done, whose verdicts are known, as a claim or, split, as several."""
        parts = [("", table)] if self.split is None else table.groupby(self.split, sort=False)
        return [self._claim(str(name), part[self.judged(part)], failed, by) for name, part in parts]

    def _claim(self, name: str, rows: pd.DataFrame, failed: pd.Series, by: list[str]) -> Claim:
        what, kind = self.what.replace("{part}", name), "value" if self.kind == "share" else self.kind
        if rows.empty:
            return Claim(what, self.design, "no cell", True, published=self.published, kind=kind, cells=0)
        limits, values, broken = self._limits(rows), rows[self.column].to_numpy(dtype=float), failed[rows.index]
        levels = sorted(set(limits))
        nominal = (
            " or ".join(f"{one:g}" for one in levels) if len(levels) < 4 else f"{levels[0]:.3g} to {levels[-1]:.3g}"
        )
        most = int(rows["replicates"].max()) if "replicates" in rows else 0
        if self.kind in SHARES:
            misses, count, chance = self._shares(rows)
            place = int(np.argmax(misses / count - chance))
            error = np.sqrt(chance[place] * (1 - chance[place]) / count[place])
            share = rows[self.quantities] if isinstance(self.quantities, str) else self.quantities
            tail = int((stats.binom.sf(misses - 1, count, chance) <= TAIL / share).sum())
            asked, shown, error = "least" if self.kind == "coverage" else "most", f"{values[place]:.4f}", f"{error:.4f}"
        else:
            place, tail = int(np.argmax(values / limits if np.isfinite(limits).all() else values)), 0
            asked, shown = "most", f"{values[place]:.3f}"
            spread = rows.get(f"error of {self.column}")
            error = "" if spread is None else f"{spread.iloc[place]:.3f}"
        return Claim(what, self.design, shown, not broken.any(), published=self.published, error=error, kind=kind,
                     threshold=f"at {asked} {nominal}" if nominal != "inf" else "",
                     worst=named(rows[by].astype(object).iloc[place], by), cells=len(rows), failed=int(broken.sum()),
                     tail=tail, replicates=most)  # fmt: skip


def named(row: pd.Series, by: list[str]) -> str:
    """Name a cell by its axes."""
    said = [f"{name} = {row[name]:,}" if isinstance(row[name], int | np.integer) else str(row[name]) for name in by]
    return ", ".join(one for one in said if one != "as declared")

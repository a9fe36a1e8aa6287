"""What a script shows, and the one rule by which the cells of a table are judged.

Every cell of a table has the same number of replicates. The threshold that belongs to this number, and the Monte
Carlo error, stand beside what was found. How many cells lie in the worst hundredth of what chance leaves of an exact
procedure is counted, too: many more than a hundredth of the cells would say that a shortfall is no chance, though
no cell breaks the rule.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.studies import Rules
from validation.common.rules import TAIL, Claim, Kind

RULES = Rules()

FAMILYWISE = 0.05
"""Chance that a grid of exact tests has a cell flagged."""


def least_coverage(
    what: str,
    table: pd.DataFrame,
    column: str = "coverage",
    *,
    by: Sequence[str],
    level: float = 0.95,
    held: str | None = "held",
    quantities: int | str = 1,
    design: str = "",
    published: str = "",
) -> Claim:
    """Judge the coverage of every cell of a table.

    Parameters
    ----------
    what : str
    table : DataFrame
        A row a cell; "run" tells first runs from reruns at more replicates, where there are any; missing coverage is
        that of a cell of which nothing is claimed.
    column : str
    by : sequence of str
        The columns that name a cell.
    level : float
    held : str, optional
        The column that says whether a cell holds, where more is asked of it than coverage; None where nothing else is.
    quantities : int or str
        Of how many a cell's coverage is the least: one number, or a column of them.
    design, published : str

    Raises
    ------
    ValueError
        If cells have different numbers of replicates.
    """
    first, last = _runs(table.dropna(subset=column), by)
    if first.empty:
        return _empty(what, design, published, "coverage")
    replicates = replicates_of(first)
    least = RULES.least_coverage(replicates, level)
    holds = last[held].astype(bool) if held else last[column] >= least
    place = last[column].argmin()
    value = float(last[column].iloc[place])
    chance = stats.binom.cdf(np.round(first[column] * replicates), replicates, level)
    rare = TAIL / (first[quantities] if isinstance(quantities, str) else quantities)
    return Claim(what, design, f"{value:.4f}", holds.all(), published=published,
                 error=f"{np.sqrt(level * (1 - level) / replicates):.4f}", kind="coverage",
                 threshold=f"at least {least:.4f}", worst=_named(last.iloc[place], by), cells=len(first),
                 failed=int((~holds).sum()), tail=int((chance <= rare).sum()), replicates=replicates)  # fmt: skip


def largest_size(
    what: str,
    table: pd.DataFrame,
    column: str,
    *,
    by: Sequence[str],
    level: float,
    held: str | None = None,
    design: str = "",
    published: str = "",
) -> Claim:
    """Judge the size of a test in every cell of a table, all cells together (Bonferroni); as for coverage otherwise."""
    first, last = _runs(table.dropna(subset=column), by)
    if first.empty:
        return _empty(what, design, published, "size")
    replicates = replicates_of(first)
    most = RULES.largest_size(replicates, 1 - level, len(first))
    holds = last[held].astype(bool) if held else last[column] <= most
    place = last[column].argmax()
    chance = stats.binom.sf(np.round(first[column] * replicates) - 1, replicates, level)
    return Claim(what, design, f"{last[column].iloc[place]:.4f}", holds.all(), published=published,
                 error=f"{np.sqrt(level * (1 - level) / replicates):.4f}", kind="size",
                 threshold=f"at most {most:.4f}", worst=_named(last.iloc[place], by), cells=len(first),
                 failed=int((~holds).sum()), tail=int((chance <= TAIL).sum()), replicates=replicates)  # fmt: skip


def largest_allowed(level: float, replicates: int, tests: int) -> float:
    """Size that a test of exactly this level exceeds with the chance that Bonferroni leaves to one of ``tests``."""
    return float(stats.binom.isf(FAMILYWISE / tests, replicates, level)) / replicates


def largest_width(
    what: str,
    table: pd.DataFrame,
    column: str = "width / oracle",
    *,
    by: Sequence[str],
    cap: float | str = RULES.width_cap,
    design: str = "",
    published: str = "",
) -> Claim:
    """Judge mean widths, over the oracle's, of the cells of a table; ``cap`` is one number, or a column of them."""
    first, last = _runs(table.dropna(subset=column), by)
    if first.empty:
        return _empty(what, design, published, "width")
    caps = last[cap] if isinstance(cap, str) else np.full(len(last), cap)
    holds = last[column] <= caps
    place = int((last[column] / caps).argmax())
    asked = " or ".join(f"{one:g}" for one in sorted(set(caps)))
    return Claim(what, design, f"{last[column].iloc[place]:.3f}", holds.all(), published=published, kind="width",
                 threshold=f"at most {asked}", worst=_named(last.iloc[place], by), cells=len(last),
                 failed=int((~holds).sum()), replicates=replicates_of(first))  # fmt: skip


def replicates_of(table: pd.DataFrame) -> int:
    """Return the number of replicates of every cell.

    Raises
    ------
    ValueError
        If cells have different numbers.
    """
    found = sorted({int(count) for count in table["replicates"]})
    if len(found) != 1:
        raise ValueError(f"one rule a table: its cells have {', '.join(map(str, found))} replicates")
    return found[0]


def _empty(what: str, design: str, published: str, kind: Kind) -> Claim:
    """Nothing is judged: all cells of a quick run may be without what a claim is about."""
    return Claim(what, design, "no cell", held=True, published=published, kind=kind, cells=0)


def _runs(table: pd.DataFrame, by: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return first runs, and those that decide."""
    first = table[table["run"] == "first"] if "run" in table else table
    if first.duplicated(list(by)).any():
        raise ValueError(f"{', '.join(by)} do not name the cells")
    return first, table.drop_duplicates(list(by), keep="last")


def _named(row: pd.Series, by: Sequence[str]) -> str:
    said = [f"{name} = {row[name]:,}" if isinstance(row[name], int | np.integer) else str(row[name]) for name in by]
    return ", ".join(one for one in said if one != "as declared")

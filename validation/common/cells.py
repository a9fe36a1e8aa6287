"""Cells of studies with a fixed number of replicates, each measured once and stored as it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from validation.common.outputs import Options
from validation.common.study import kept, kept_all

__all__ = ["Judged", "kept", "kept_all", "measured", "measured_again"]


def measured(
    name: str, cells: Sequence[Any], measure: Callable[[Any, int, int, int], dict], arguments: Options
) -> pd.DataFrame:
    """Return a row for each cell, as `kept` each.

    ``measure`` is given a cell, its place, the replicates and the seed.
    """
    parts = {
        str(place): partial(measure, cell, place, arguments.replicates, arguments.seed)
        for place, cell in enumerate(cells)
    }
    return pd.DataFrame(kept_all(name, parts, arguments))


class Judged(NamedTuple):
    """The rows of a grid, how many of them first runs have, and how many cells failed at first."""

    table: pd.DataFrame
    rows: int
    failed: int


def measured_again(
    name: str,
    cells: Sequence[Any],
    measure: Callable[[Any, int, int, str], list[dict]],
    fails: Callable[[dict, int], bool],
    arguments: Options,
    *,
    every: int = 1,
) -> Judged:
    """Measure every cell, and those that fail once more at ten times the replicates, with a seed fixed before.

    ``measure`` is given a cell, the replicates, the seed and the run, and returns rows; ``fails`` a row and the number
    of rows of first runs. A quick run takes one cell in ``every``.
    """
    cells = cells if arguments.replicates >= 500 else cells[::every]
    count, seeds = arguments.replicates, [arguments.seed + 1000 * place for place in range(len(cells))]
    first: Mapping = {
        str(place): partial(measure, cell, count, seed, "first")
        for place, (cell, seed) in enumerate(zip(cells, seeds, strict=True))
    }
    parts = kept_all(name, first, arguments)
    rows = sum(map(len, parts))
    failed = [place for place, part in enumerate(parts) if any(fails(row, rows) for row in part)]
    again = {f"{at}-again": partial(measure, cells[at], 10 * count, seeds[at] + 1, "rerun") for at in failed}
    found = [row for part in [*parts, *kept_all(name, again, arguments)] for row in part]
    return Judged(pd.DataFrame(found).assign(held=[not fails(row, rows) for row in found]), rows, len(failed))

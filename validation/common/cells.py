"""Cells of a study, each measured once and stored as it ends, so that a study may be stopped and go on."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from joblib import Parallel, delayed
from tqdm import tqdm

import dpinfer
from validation.common.outputs import Options

QUICK = 500
"""Replicates below which a run is a quick one."""


def kept(name: str, part: int | str, arguments: Options, compute: Callable[[], Any]) -> Any:
    """Return a part of a study: what an earlier run of this code with these options left, or what is computed now."""
    stored = parts_of(name, arguments) / f"{part}.pickle"
    if not stored.exists():
        found = compute()
        partial = stored.with_suffix(".partial")
        partial.write_bytes(pickle.dumps(found))
        partial.rename(stored)
    return pickle.loads(stored.read_bytes())


def kept_all(name: str, parts: Mapping[str, Callable[[], Any]], arguments: Options) -> list[Any]:
    """Return all parts of a study, as `kept` each, in as many processes as there are jobs."""
    run = Parallel(n_jobs=arguments.jobs, return_as="generator")
    found = run(delayed(kept)(name, part, arguments, compute) for part, compute in parts.items())
    return list(tqdm(found, total=len(parts), desc=name))


def parts_of(name: str, arguments: Options) -> Path:
    """Return the folder in which a study stores what it has finished: one for each state of the code behind it."""
    folder: Path = arguments.out / "parts" / f"{name}-{arguments.replicates}-{arguments.seed}-{code_of(name)}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@cache
def code_of(name: str) -> str:
    """Digest the library and the study, whose parts mean nothing beside those of other code."""
    studies = Path(__file__).parents[1]
    sources = [*Path(dpinfer.__file__).parent.rglob("*.py"), *studies.glob(f"*/{name}.py")]
    return sha256(b"".join(path.read_bytes() for path in sorted(sources))).hexdigest()[:8]


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
    cells = cells if arguments.replicates >= QUICK else cells[::every]
    count, seeds = arguments.replicates, [arguments.seed + 1000 * place for place in range(len(cells))]
    first = {
        str(place): partial(measure, cell, count, seed, "first")
        for place, (cell, seed) in enumerate(zip(cells, seeds, strict=True))
    }
    parts = kept_all(name, first, arguments)
    rows = sum(map(len, parts))
    failed = [place for place, part in enumerate(parts) if any(fails(row, rows) for row in part)]
    again = {f"{at}-again": partial(measure, cells[at], 10 * count, seeds[at] + 1, "rerun") for at in failed}
    found = [row for part in [*parts, *kept_all(name, again, arguments)] for row in part]
    return Judged(pd.DataFrame(found).assign(held=[not fails(row, rows) for row in found]), rows, len(failed))

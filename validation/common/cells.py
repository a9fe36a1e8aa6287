"""Cells of a study, each measured once and stored as it ends, so that a study may be stopped and go on."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

import pandas as pd
from tqdm import tqdm

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from validation.common.outputs import Options

__all__ = ["measured"]


def measured(
    name: str, cells: Sequence[Any], measure: Callable[[Any, int, int, int], dict], arguments: Options
) -> pd.DataFrame:
    """Return a row for each cell; those that no earlier run with these options has finished are measured.

    ``measure`` is given a cell, its place, the replicates and the seed.
    """
    folder = arguments.out / "parts" / f"{name}-{arguments.replicates}-{arguments.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    parts = [folder / f"{place}.json" for place in range(len(cells))]
    with ProcessPoolExecutor(arguments.jobs) as pool:
        found = {
            part: pool.submit(measure, cells[place], place, arguments.replicates, arguments.seed)
            for place, part in enumerate(parts)
            if not part.exists()
        }
        for part, future in tqdm(found.items(), desc="cells"):
            part.write_text(json.dumps(future.result()), encoding="utf-8")
    return pd.DataFrame([json.loads(part.read_text("utf-8")) for part in parts])

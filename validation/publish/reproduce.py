"""Compute some committed cells of every table anew, and say whether they come out the same.

``python -m validation.publish.reproduce --cells 3`` takes the first, the middle and the last row of each table's first
runs (of results.csv, for scripts that keep no table), with the published replicates and seed. What is done is kept in
build/reproduce, and not done again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import dpinfer as dpi
from validation.common.outputs import Options
from validation.publish.cells import ONE, WHOLE, claims_in_results, of_claim, table_of
from validation.scripts import SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

STATE = Path("build/reproduce")
SEED = 20261120
OWNER = {"ols_slope_test": "ols_coverage"}
"""Scripts of the tables that are not called like them."""

GIVEN = ("n", "q", "b", "mu", "rho", "theta", "effect", "epsilon", "level", "truth", "known", "at most")
"""Columns of numbers that a design is made of: equal whatever is computed."""


def chosen(rows: int, cells: int) -> list[int]:
    """Places of so many rows, evenly from the first to the last."""
    return sorted({round(place) for place in np.linspace(0, rows - 1, cells)})


def printed(value: Any, digits: int) -> str:
    """Return a value as tables print it."""
    if value is None or (isinstance(value, float | np.floating) and np.isnan(value)):
        return ""
    return f"{value:.{digits}g}" if isinstance(value, float | np.floating) else str(value)


def same(committed: str, value: Any, digits: int) -> bool:
    """Whether a value is printed as committed; a page writes nan where a table has nothing."""
    return committed.replace("nan", "") == printed(value, digits)


def compared(name: str, cell: Mapping[str, str], arguments: Options) -> dict[str, Any]:
    """Compute a cell, and compare all numbers that it has in common with the committed row."""
    start = time.process_time()
    if name in WHOLE:
        found, columns, digits = of_claim(name, cell, arguments), ["ours"], 6
    else:
        found = ONE[name](cell, arguments)
        columns = [key for key in cell if key not in GIVEN and isinstance(found.get(key), float | np.floating)]
        digits = 4 if name in ("efficiency", "ols_slope_test") else 6
    differ = [key for key in columns if not same(cell[key], found[key], digits)]
    return {
        "table": name,
        "cell": ", ".join(value for key, value in cell.items() if key not in columns and value)[:160],
        "numbers": len(columns),
        "committed": {key: cell[key] for key in differ or columns},
        "reproduced": {key: printed(found[key], digits) for key in differ or columns},
        "equal": not differ,
        "seconds": round(time.process_time() - start, 1),
    }


def rows_of(name: str, cells: int, seed: int) -> Iterator[dict[str, Any]]:
    """Compare the chosen cells of a table, those done before read from their file."""
    script = OWNER.get(name, name)
    arguments = Options(SCRIPTS[script].full, seed, 1, STATE / "output", "reproduce")
    table = claims_in_results(name) if name in WHOLE else table_of(name)
    for place in chosen(len(table), cells):
        path = STATE / f"{name}-{place}-{dpi.__version__}-{seed}.json"
        if not path.exists():
            found = compared(name, {str(key): str(value) for key, value in table.iloc[place].items()}, arguments)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(found), encoding="utf-8")
        yield json.loads(path.read_text(encoding="utf-8"))


def main() -> int:
    """Compare the cells of every table; return 1 if one differs."""
    parser = argparse.ArgumentParser(prog="python -m validation.publish.reproduce", description=__doc__)
    parser.add_argument("--cells", type=int, default=3, help="cells of each table (default %(default)s)")
    parser.add_argument("--only", nargs="*", choices=[*ONE, *WHOLE], help="tables; all by default")
    parser.add_argument("--seed", type=int, default=SEED, help="seed of the committed tables (default %(default)s)")
    read = parser.parse_args()
    different = 0
    for name in read.only or (*ONE, *WHOLE):
        for row in rows_of(name, read.cells, read.seed):
            different += not row["equal"]
            said = "equal" if row["equal"] else "DIFFERS"
            values = f"committed {row['committed']}, reproduced {row['reproduced']}"
            print(f"{said} {name}: {row['cell']}: {row['numbers']} numbers, {values}, {row['seconds']} s", flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())

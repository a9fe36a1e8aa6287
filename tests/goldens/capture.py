"""Write goldens.json: ``python -m tests.goldens.capture [--only TEXT]``.

With ``--only`` the records whose names hold the text are computed anew, and the others are kept.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tests.goldens.cases import CASES
from tests.goldens.record import record

FILE = Path(__file__).with_name("goldens.json")


def read() -> dict[str, Any]:
    """Return the committed records by the name of the case."""
    kept: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return kept


def main() -> None:
    """Compute the records and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="text that the names of the cases must hold")
    only = parser.parse_args().only
    kept = read() if only else {}
    found = {name: record(case) if only in name else kept[name] for name, case in CASES.items()}
    FILE.write_text(json.dumps(found, sort_keys=True, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

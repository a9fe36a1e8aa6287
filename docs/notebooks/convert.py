"""Write quickstart.ipynb from the page of the guide: ``python docs/notebooks/convert.py``."""

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE, NOTEBOOK = HERE.parent / "guide" / "quickstart.md", HERE / "quickstart.ipynb"

_FRONT = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_CELL = re.compile(r"```\{code-cell\} python\n(.*?)```", re.DOTALL)
_BESIDE = re.compile(r"\]\((?=[\w-]+\.md)")


def notebook(page: str) -> str:
    """Return a notebook (format 4.5) of a page of the guide: its text, with links that hold here, and its cells."""
    parts = _CELL.split(_FRONT.sub("", page))  # text, code, text, code, ..., text
    cells = []
    for place, part in enumerate(parts):
        source = part.strip() if place % 2 else _BESIDE.sub("](../guide/", part.strip())
        if not source:
            continue
        cell: dict[str, Any] = {"id": f"cell-{len(cells)}", "metadata": {}, "source": source.splitlines(keepends=True)}
        code = {"cell_type": "code", "execution_count": None, "outputs": []}
        cells.append(cell | (code if place % 2 else {"cell_type": "markdown"}))
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    made = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

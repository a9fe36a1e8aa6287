"""Write the table of what has to be trusted into the page on the kernel: every file that a private run imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from validation.common import pages

ROOT = pages.ROOT
RUNNING = ("dpinfer.kernel.run", "dpinfer.kernel.data")
SHOWN = ("_repr_html_", "schema_report", "rows_report")

PURPOSES = {
    "kernel": "running, prices, samplers, rows of people, processes of blocks",
    "kernel/rows": "row sums: what is forced, and its bound",
    "kernel/sources": "tables, files, streams and engines: who maps rows",
    "privacy": "units, exact arithmetic, costs, filters, the account of a ledger, its file and the releases in it",
    "release": "noise laws, what a stage releases, what is asked",
    "schema": "columns, cells, expressions, features, axes",
    "": "errors, checks of arguments, files that are written whole",
}


def closure() -> dict[str, int]:
    """Return each file that a private run imports, by its path, with its number of lines."""
    files = {_module(path): path for path in sorted((ROOT / "dpinfer").rglob("*.py"))}
    found: set[str] = set()
    waiting = list(RUNNING)
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += _imports(files[module], files)
    lines = {files[name].relative_to(ROOT).as_posix(): _lines(files[name]) for name in found}
    return dict(sorted(lines.items()))


@pages.section("kernel", "trusted")
def table() -> str:
    """Return the table: a row for each folder, with its files and lines, and the total."""
    files = closure()
    folders: dict[str, list[str]] = {}
    for path in files:
        folders.setdefault(str(Path(path).parent), []).append(path)
    rows: list[tuple[object, ...]] = []
    for folder, paths in folders.items():
        inside = folder.removeprefix("dpinfer").removeprefix("/")
        listed = ", ".join(f"`{Path(path).name}` {files[path]}" for path in paths)
        total = sum(files[path] for path in paths)
        rows.append((f"`{folder}`", PURPOSES[inside], listed, f"{total:,}"))
    shown = pages.plain(["folder", "what it does", "files, with lines", "lines"], rows, rule="---")
    return f"{shown}\n| all | | {len(files)} files | {sum(files.values()):,} |"


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _imports(path: Path, files: dict[str, Path]) -> Iterator[str]:
    """Modules of the package that a file imports, also inside functions, but not for types alone or to be shown.

    A notebook or a report calls what is in ``SHOWN``, and no run does.
    """
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        if isinstance(node, ast.FunctionDef) and node.name in SHOWN:
            continue
        if isinstance(node, ast.ImportFrom):
            wanted = [f"{node.module}.{one.name}" for one in node.names]
            yield from {name if name in files else str(node.module) for name in wanted} & files.keys()
        elif isinstance(node, ast.Import):
            yield from {one.name for one in node.names} & files.keys()
        waiting += ast.iter_child_nodes(node)

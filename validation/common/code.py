"""What a script is made of: the files of the library and of validation that it needs, and a digest of what they do.

A table stands beside the digest of the code that made it. Docstrings and comments are no part of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "dpinfer" / "__init__.py"


def module_path(name: str) -> Path | None:
    """Return the file of a module of the repository; None if there is none."""
    path = ROOT.joinpath(*name.split("."))
    return next((one for one in (path.with_suffix(".py"), path / "__init__.py") if one.exists()), None)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _left_out(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield docstrings, and what is imported for a type checker alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from node.body


@cache
def _public() -> dict[str, str]:
    """Return the module of each public name, as the package imports them."""
    nodes = ast.walk(ast.parse(PACKAGE.read_text(encoding="utf-8")))
    found = [one for one in nodes if isinstance(one, ast.ImportFrom) and one.module]
    return {alias.asname or alias.name: f"{one.module}.{alias.name}" for one in found for alias in one.names}


def _imported(path: Path) -> Iterator[str]:
    """Yield the modules, or names of modules, that a file imports; of the package the public names that it reads."""
    for_types = {*_left_out(_tree(path))}
    for node in ast.walk(_tree(path)):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name != "dpinfer")
        elif isinstance(node, ast.ImportFrom) and node.module == "dpinfer":
            yield from (_public().get(alias.name, f"dpinfer.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("dpi", "dpinfer"):
            yield _public().get(node.attr, f"dpinfer.{node.attr}")


@cache
def needs(path: Path) -> frozenset[Path]:
    """Return the files of the repository that a file imports."""
    found = set()
    for name in _imported(path):
        of, _, last = name.rpartition(".")
        found |= {module_path(name), module_path(of)} if last else {module_path(name)}
    return frozenset(one for one in found if one is not None and one != PACKAGE)


@cache
def sources_of(script: str) -> frozenset[Path]:
    """Return all files that a script is made of, tables of settings beside them among these; none if there is none."""
    waiting, found = [*(ROOT / "validation").glob(f"*/{script}.py")], set[Path]()
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += needs(path)
    return frozenset(path for one in found for path in (one, one.with_suffix(".toml")) if path.exists())


@cache
def _digest(path: Path) -> bytes:
    lines = path.read_text(encoding="utf-8").splitlines()
    if path.suffix == ".py":
        without = {line for node in _left_out(_tree(path)) for line in range(node.lineno - 1, node.end_lineno or 0)}
        lines = [one for place, one in enumerate(lines) if place not in without]
    does = "\n".join(one for one in lines if one.strip() and not one.lstrip().startswith("#"))
    return sha256(f"{path.relative_to(ROOT).as_posix()} {does}".encode()).digest()


@cache
def code_of(script: str) -> str:
    """Digest what a script is made of."""
    return sha256(b"".join(map(_digest, sorted(sources_of(script))))).hexdigest()[:8]

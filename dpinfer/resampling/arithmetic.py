"""Arithmetic of named numbers, as text: ``"income / age"``, ``"log(a) - log(b)"``."""

from __future__ import annotations

import ast
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import FormulaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.statistics.arrays import Array


_FUNCTIONS = {"log": np.log, "exp": np.exp, "sqrt": np.sqrt}
_OPERATORS: dict[type, Any] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
}
_LONGEST, _DEEPEST, _LARGEST = 500, 50, 1e100


@dataclass(frozen=True)
class Arithmetic:
    """An arithmetic expression of named numbers.

    Attributes
    ----------
    text : str
        Numbers, names, ``+ - * / **``, ``log``, ``exp`` and ``sqrt``.

    Raises
    ------
    FormulaError
        If it is anything else.

    Examples
    --------
    >>> float(Arithmetic("2 * a / b").evaluate({"a": np.array(3.0), "b": np.array(4.0)}))
    1.5
    """

    text: str

    def __post_init__(self) -> None:
        _check(self.text, self._tree, 0)

    @cached_property
    def _tree(self) -> ast.expr:
        instead = 'write arithmetic, such as "a / b"'
        if len(self.text) > _LONGEST:
            raise FormulaError(self.text[:50] + "...", f"is longer than {_LONGEST} characters", instead)
        try:
            return ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise FormulaError(self.text, "cannot be read", instead) from None

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are used, sorted."""
        return tuple(sorted({node.id for node in _named(self._tree)}))

    def of(self, function: str) -> str:
        """Write the expression with a function around every name: ``"mean(a) / mean(b)"``."""
        tree = deepcopy(self._tree)
        for node in _named(tree):
            node.id = f"{function}({node.id})"
        return ast.unparse(tree)

    def evaluate(self, values: Mapping[str, Array]) -> Array:
        """Evaluate at values of the names; NaN or infinite where it is undefined."""
        with np.errstate(all="ignore"):
            return np.asarray(_value(self._tree, values), dtype=np.float64)


def _named(tree: ast.expr) -> list[ast.Name]:
    """Return the names of numbers: those that are not called."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return [node for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called]


def _check(text: str, node: ast.expr, depth: int) -> None:
    instead = "use numbers, names, + - * / **, log, exp, sqrt"
    if depth > _DEEPEST:
        raise FormulaError(text, f"is nested more than {_DEEPEST} deep", instead)
    parts: list[ast.expr] | None = None
    if isinstance(node, ast.Name):
        parts = []
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        parts = [] if abs(node.value) < _LARGEST else None
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        parts = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        parts = [node.operand]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        parts = list(node.args) if len(node.args) == 1 and not node.keywords else None
    if parts is None:
        raise FormulaError(text, f"{ast.unparse(node)!r} is not arithmetic of means", instead)
    for part in parts:
        _check(text, part, depth + 1)


def _value(node: ast.expr, values: Mapping[str, Array]) -> Any:
    if isinstance(node, ast.Constant):
        return np.float64(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left, values), _value(node.right, values))
    if isinstance(node, ast.UnaryOp):
        value = _value(node.operand, values)
        return -value if isinstance(node.op, ast.USub) else value
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    return _FUNCTIONS[node.func.id](_value(node.args[0], values))

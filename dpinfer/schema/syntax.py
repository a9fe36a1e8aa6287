"""The text of expressions: quoted names, parsing, a normal form, and why a construct is refused."""

from __future__ import annotations

import ast
import keyword
import re
import unicodedata
from dataclasses import dataclass, field

from dpinfer.errors import FormulaError
from dpinfer.schema.nodes import FUNCTIONS

__all__ = ["Names", "function_name", "parse", "refused_call", "shortened"]

ALLOWED = ", ".join([*FUNCTIONS, "I"])

_PIECES = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|`([^`]*)`|(`)""")
_SEES_ALL_ROWS = "sees all rows, so what one row changes has no bound from the schema"

_INSTEAD = {
    "center": "subtract a public constant, such as x - 40",
    "scale": "use public constants, such as (x - 40) / 10",
    "standardize": "use public constants, such as (x - 40) / 10",
    "poly": "write the powers, such as x + I(x**2)",
    "mean": "use a public constant",
    "min": "the smaller of two values in each row is minimum(a, b)",
    "max": "the larger of two values in each row is maximum(a, b)",
    **dict.fromkeys(("bs", "cr", "cc", "cs"), "use public knots, such as x + maximum(x - 40, 0)"),
}
_WHOLE_COLUMN = {
    *_INSTEAD,
    *(
        "std",
        "var",
        "sum",
        "prod",
        "median",
        "average",
        "mode",
        "any",
        "all",
        "ptp",
        "quantile",
        "percentile",
    ),
    *("nanmean", "nanstd", "nanmedian", "cov", "corr", "corrcoef", "zscore", "nunique", "unique"),
    *("rank", "sort", "argsort", "argmin", "argmax", "value_counts", "qcut", "histogram", "hashed"),
    *("cumsum", "cumprod", "cummax", "cummin", "diff", "shift", "lag", "roll", "gradient", "convolve"),
    *("rolling", "expanding", "ewm", "groupby", "fillna", "interpolate"),
}


@dataclass
class Names:
    """Column names written in backticks, and the identifiers that stand for them while text is parsed.

    Examples
    --------
    >>> names = Names()
    >>> names.restore(names.quote("log(`hours.per.week`)"))
    'log(`hours.per.week`)'
    """

    aliases: dict[str, str] = field(default_factory=dict)
    _seen: str = field(default="", repr=False)

    def quote(self, text: str) -> str:
        """Replace every name in backticks, outside of string literals, by an identifier.

        Raises
        ------
        FormulaError
            If a backtick is not closed.
        """

        def identifier(match: re.Match[str]) -> str:
            literal, name, unclosed = match.groups()
            if unclosed:
                raise FormulaError(text, "a backtick is not closed")
            return literal if literal is not None else self._identifier(name)

        self._seen += text
        return _PIECES.sub(identifier, text)

    def _identifier(self, name: str) -> str:
        plain = name.isidentifier() and unicodedata.normalize("NFKC", name) == name
        if plain and not keyword.iskeyword(name):
            return name
        for alias, known in self.aliases.items():
            if known == name:
                return alias
        alias = f"quoted_{len(self.aliases)}_"
        while alias in self._seen:
            alias += "_"
        self.aliases[alias] = name
        return alias

    def name(self, identifier: str) -> str:
        """Tell the column name that an identifier stands for."""
        return self.aliases.get(identifier, identifier)

    def restore(self, text: str) -> str:
        """Put the names in backticks back."""
        for alias, name in self.aliases.items():
            text = re.sub(rf"\b{alias}\b", lambda _: f"`{name}`", text)  # noqa: B023
        return text

    def text(self, tree: ast.AST) -> str:
        """Write a tree as canonical text."""
        return self.restore(ast.unparse(tree).replace("\n", " "))


def parse(text: str, names: Names) -> ast.expr:
    """Parse an expression and bring it to normal form.

    The normal form has no ``I()``, no ``np.`` before an allowed function and no unary plus; ``and``, ``or``,
    ``not`` are written ``&``, ``|``, ``~``; chained comparisons are joined by ``&``; a constant stands on the
    right of a comparison.

    Parameters
    ----------
    text : str
        The expression.
    names : Names
        Takes up the quoted names.

    Returns
    -------
    ast.expr

    Raises
    ------
    FormulaError
        If the text is no expression.
    """
    quoted = names.quote(text).strip()
    if not quoted:
        raise FormulaError(repr(text), "is not a valid expression", "write one, such as log(1 + income)")
    try:
        tree = ast.parse(quoted, mode="eval").body
        normal: ast.expr = _Normal(names).visit(tree)
        return ast.parse(ast.unparse(normal), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise FormulaError(shortened(text), "is not a valid expression") from error
    except (MemoryError, RecursionError) as error:
        raise FormulaError(shortened(text), "is nested too deeply") from error


def shortened(text: str) -> str:
    """Cut a text that is long."""
    return text if len(text) <= 80 else text[:77] + "..."


def function_name(function: ast.expr) -> str:
    """Tell the dotted name of a called function, without ``np.`` or ``numpy.``; empty if it is not a name."""
    name = ast.unparse(function)
    if not re.fullmatch(r"[\w.]+", name):
        return ""
    return re.sub(r"^(np|numpy)\.", "", name)


def refused_call(call: ast.Call, names: Names) -> FormulaError:
    """Say why a function or a method is refused, and what would work."""
    text, shown = names.text(call), names.text(call.func)
    name = function_name(call.func)
    last = name.rsplit(".", 1)[-1] or getattr(call.func, "attr", "")
    if name.startswith("random."):
        return FormulaError(text, f"{shown} draws random numbers", f"allowed functions: {ALLOWED}")
    if last in _WHOLE_COLUMN:
        return FormulaError(text, f"{shown} {_SEES_ALL_ROWS}", _INSTEAD.get(last, f"allowed functions: {ALLOWED}"))
    if last in ("C", "Treatment", "Sum", "Helmert", "Diff", "Poly") or name.startswith("contr."):
        return FormulaError(
            text,
            f"{shown} marks a category and cannot be part of an expression",
            "use it as a term of its own, or compare the column with a level",
        )
    return FormulaError(text, f"{shown} is not an allowed function", f"allowed functions: {ALLOWED}")


class _Normal(ast.NodeTransformer):
    """Bring a tree to the normal form that `parse` describes."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = function_name(node.func)
        alone = len(node.args) == 1 and not node.keywords
        if name == "I" and alone:
            return node.args[0]
        if name == "Q" and alone and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
            return ast.Name(self.names.quote(f"`{node.args[0].value}`"), ast.Load())
        name = "abs" if name == "absolute" else name
        if name in FUNCTIONS:
            return ast.Call(ast.Name(name, ast.Load()), node.args, node.keywords)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.UAdd):
            return node.operand
        return ast.UnaryOp(ast.Invert(), node.operand) if isinstance(node.op, ast.Not) else node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        joined = node.values[0]
        for value in node.values[1:]:
            joined = ast.BinOp(joined, ast.BitAnd() if isinstance(node.op, ast.And) else ast.BitOr(), value)
        return joined

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        sides = [node.left, *node.comparators]
        parts = [_comparison(a, op, b) for a, op, b in zip(sides[:-1], node.ops, sides[1:], strict=True)]
        joined: ast.expr = parts[0]
        for part in parts[1:]:
            joined = ast.BinOp(joined, ast.BitAnd(), part)
        return joined


_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}


def _comparison(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> ast.expr:
    if isinstance(left, ast.Constant) and not isinstance(right, ast.Constant) and type(operator) in _MIRRORED:
        return ast.Compare(right, [_MIRRORED[type(operator)]()], [left])
    return ast.Compare(left, [operator], [right])

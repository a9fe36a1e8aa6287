"""Expressions of columns, bounded from the schema alone.

`compile_expression` walks the syntax tree of a text and allows what is on a list: arithmetic, comparisons,
logic and elementwise functions, each bounded by interval arithmetic. Everything else is refused by name.
"""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING

from dpinfer.errors import FormulaError, UnknownColumnError, shown
from dpinfer.schema import intervals, polynomials
from dpinfer.schema.algebra import (
    Expression,
    assemble,
    canonical,
    column_expression,
    constant_expression,
    either,
    literal,
    negation,
    power,
    product,
    times,
)
from dpinfer.schema.bounding import function_bounds, interval_of, quotient_bounds, real_power_bounds
from dpinfer.schema.category import Category
from dpinfer.schema.intervals import Interval
from dpinfer.schema.nodes import FUNCTIONS, Node
from dpinfer.schema.syntax import Names, function_name, parse, refused_call, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpinfer.schema.polynomials import Polynomial
    from dpinfer.schema.schema import Schema

__all__ = ["Expression", "column_expression", "compile_expression", "constant_expression", "product"]

_UNIT = Interval(0.0, 1.0)
_LARGEST_POWER = 2**20
_ARGUMENTS = {"minimum": 2, "maximum": 2, "clip": 3}
_BINARY: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_REFUSED: dict[type[ast.expr], str] = {
    ast.Attribute: "attribute access is not allowed",
    ast.Subscript: "subscripts are not allowed: they reach other rows",
    ast.Lambda: "functions cannot be defined here",
    ast.IfExp: "conditions are not allowed",
    ast.NamedExpr: "assignments are not allowed",
    ast.Await: "await is not allowed",
    ast.JoinedStr: "text is no number",
    ast.Dict: "a dictionary is no number",
    **dict.fromkeys((ast.List, ast.Tuple, ast.Set), "a list is no number"),
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), "comprehensions are not allowed"),
}


def compile_expression(text: str, schema: Schema) -> Expression:
    """Compile the text of an expression against a schema.

    Parameters
    ----------
    text : str
        Numeric constants; columns, in backticks if they are no identifiers; ``+ - * / **``; comparisons, of a
        category with its levels too; ``and or not & | ~`` of truth values; the functions log, log1p, log2,
        log10, exp, expm1, sqrt, abs, minimum, maximum and clip, with or without ``np.``; ``I()``.
    schema : Schema
        Declares the columns and their bounds.

    Returns
    -------
    Expression

    Raises
    ------
    FormulaError
        If the text is no expression, uses something that is not allowed, or is not bounded.
    UnknownColumnError
        If a name is not in the schema.

    Examples
    --------
    >>> from dpinfer.schema import Boolean, Real, Schema
    >>> schema = Schema(age=Real(0, 100), married=Boolean())
    >>> square = compile_expression("I((age - 40) ** 2)", schema)
    >>> square.text, square.lower, square.upper
    ('(age - 40) ** 2', 0.0, 3600.0)
    >>> square.polynomial[(("age", 1),)]
    -80.0
    """
    if not isinstance(text, str):
        raise FormulaError(shown(text), "is not a text", "write the expression as text, such as 'log(1 + income)'")
    names = Names()
    tree = parse(text, names)
    try:
        expression = _Compiler(schema, names).compile(tree)
    except RecursionError as error:
        raise FormulaError(shortened(text), "is nested too deeply") from error
    for leaf in {leaf for monomial in expression.polynomial for leaf, _ in monomial} - {*expression.columns}:
        if leaf in schema:
            raise FormulaError(text, f"{leaf} is also the name of a column", "rename that column")
    return expression


class _Compiler:
    """Walk a syntax tree in normal form and build the expression of every node."""

    def __init__(self, schema: Schema, names: Names) -> None:
        self.schema = schema
        self.names = names

    def compile(self, node: ast.expr) -> Expression:
        """Compile one node and what is below it."""
        readers: dict[type[ast.expr], Callable[..., Expression]] = {
            ast.Constant: self._literal,
            ast.Name: self._name,
            ast.BinOp: self._binary,
            ast.UnaryOp: self._unary,
            ast.Compare: self._comparison,
            ast.Call: self._call,
        }
        if type(node) in readers:
            return readers[type(node)](node)
        text = self.names.text(node)
        instead = f"write `{text}` in backticks" if text in self.schema else ""
        raise FormulaError(text, _REFUSED.get(type(node), "is not allowed in an expression"), instead)

    def _literal(self, node: ast.Constant) -> Expression:
        text, value = self.names.text(node), node.value
        if not isinstance(value, int | float):
            raise FormulaError(text, "is no number", "text may only be compared with a category")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise FormulaError(text, "is too large for a float")
        return literal(text, number)

    def _name(self, node: ast.Name) -> Expression:
        name = self.names.name(node.id)
        if name not in self.schema:
            raise UnknownColumnError(name, self.schema)
        return column_expression(name, self.schema)

    def _binary(self, node: ast.BinOp) -> Expression:
        if isinstance(node.op, ast.BitAnd | ast.BitOr):
            return self._logic(node)
        text = self.names.text(node)
        if isinstance(node.op, ast.BitXor):
            raise FormulaError(text, "^ is not a power here", "write ** for a power")
        if not isinstance(node.op, (*_BINARY, ast.Pow)):
            raise FormulaError(text, f"the operator {type(node.op).__name__} is not allowed", "use + - * / **")
        a, b = self.compile(node.left), self.compile(node.right)
        if isinstance(node.op, ast.Pow):
            return self._raised(text, a, b)
        symbol = _BINARY[type(node.op)]
        if symbol == "*":
            return times(text, a, b)
        tree = Node(symbol, (a.node, b.node))
        if symbol == "/":
            bounds = quotient_bounds(text, interval_of(a), b)
            quotient = None if b.constant is None else polynomials.divide(a.polynomial, b.constant)
            return assemble(text, tree, bounds, (a, b), polynomial=quotient)
        sign = 1.0 if symbol == "+" else -1.0
        expanded = polynomials.add(a.polynomial, polynomials.scale(b.polynomial, sign))
        bounds = (intervals.add if symbol == "+" else intervals.subtract)(interval_of(a), interval_of(b))
        return assemble(text, tree, bounds, (a, b), polynomial=expanded)

    def _raised(self, text: str, base: Expression, exponent: Expression) -> Expression:
        k = exponent.constant
        if k is None:
            raise FormulaError(text, "the exponent is not a constant", "write exp(b * log(a)) with a positive a")
        if not k.is_integer():
            bounds = real_power_bounds(text, base, k)
            return assemble(text, Node("**", (base.node, exponent.node)), bounds, (base,))
        if abs(k) > _LARGEST_POWER:
            raise FormulaError(text, "the exponent is too large", "use a smaller one")
        raised = power(text, base, int(abs(k))) if k else constant_expression(1.0)
        if k >= 0:
            return raised
        if 0 in interval_of(base):
            lies = f"it lies in [{base.lower:.6g}, {base.upper:.6g}]"
            raise FormulaError(text, f"the base {base.text} can be 0: {lies}", "declare bounds that exclude 0")
        one = constant_expression(1.0)
        bounds = quotient_bounds(text, interval_of(one), raised)
        return assemble(text, Node("/", (one.node, raised.node)), bounds, (raised,))

    def _unary(self, node: ast.UnaryOp) -> Expression:
        text, a = self.names.text(node), self.compile(node.operand)
        if isinstance(node.op, ast.Invert):
            return negation(text, self._truth(text, a))
        expanded = polynomials.scale(a.polynomial, -1.0)
        return assemble(text, Node("negative", (a.node,)), intervals.negate(interval_of(a)), (a,), polynomial=expanded)

    def _truth(self, text: str, a: Expression) -> Expression:
        if not a.boolean or a.constant is not None:
            raise FormulaError(text, f"{a.text} is no truth value", "compare it first, such as (age > 40)")
        return a

    def _logic(self, node: ast.BinOp) -> Expression:
        text = self.names.text(node)
        a, b = (self._truth(text, self.compile(side)) for side in (node.left, node.right))
        return times(text, a, b) if isinstance(node.op, ast.BitAnd) else either(text, a, b)

    def _call(self, node: ast.Call) -> Expression:
        name, text = function_name(node.func), self.names.text(node)
        if name not in FUNCTIONS:
            raise refused_call(node, self.names)
        expected = _ARGUMENTS.get(name, 1)
        if node.keywords or len(node.args) != expected or any(isinstance(a, ast.Starred) for a in node.args):
            example = {1: f"{name}(x)", 2: f"{name}(x, 0)", 3: f"{name}(x, 0, 100)"}[expected]
            raise FormulaError(text, f"{name} takes {expected} arguments by position", f"such as {example}")
        arguments = [self.compile(argument) for argument in node.args]
        if expected == 2 and all(a.boolean for a in arguments):
            return (times if name == "minimum" else either)(text, *arguments)
        bounds = function_bounds(name, text, arguments)
        polynomial: Polynomial | None = None
        if name == "abs" and (arguments[0].lower >= 0 or arguments[0].upper <= 0):
            polynomial = polynomials.scale(arguments[0].polynomial, 1.0 if arguments[0].lower >= 0 else -1.0)
        boolean = name == "abs" and arguments[0].boolean
        tree = Node(name, tuple(a.node for a in arguments))
        return assemble(text, tree, bounds, arguments, polynomial=polynomial, boolean=boolean)

    def _comparison(self, node: ast.Compare) -> Expression:
        text, left, operator, right = self.names.text(node), node.left, node.ops[0], node.comparators[0]
        if isinstance(operator, ast.In | ast.NotIn):
            found = self._membership(text, left, right)
            return found if isinstance(operator, ast.In) else negation(text, found)
        if type(operator) not in _COMPARISONS:
            raise FormulaError(text, "is and is not are not allowed", "compare with == or !=")
        if self._category(right) and not self._category(left):
            left, right = right, left
        symbol = _COMPARISONS[type(operator)]
        name = self._category(left)
        if name:
            if symbol not in ("==", "!="):
                raise FormulaError(text, f"{name} is a category: its levels have no order", "use == or !=")
            level = self._level(text, name, right)
            return self._indicator(name, level) if symbol == "==" else negation(text, self._indicator(name, level))
        return _compare(text, symbol, self.compile(left), self.compile(right))

    def _category(self, node: ast.expr) -> str:
        name = self.names.name(node.id) if isinstance(node, ast.Name) else ""
        return name if isinstance(self.schema.get(name), Category) else ""

    def _level(self, text: str, name: str, node: ast.expr) -> int:
        column = self.schema[name]
        levels = ", ".join(map(repr, getattr(column, "levels", ())))
        try:
            value = ast.literal_eval(node)
        except ValueError:
            raise FormulaError(
                text,
                f"{name} is a category and {self.names.text(node)} is no level",
                f"its levels are {levels}",
            ) from None
        index = column.find(value) if isinstance(column, Category) else None
        if index is None:
            raise FormulaError(text, f"{value!r} is not a level of {name}", f"its levels are {levels}")
        return index

    def _indicator(self, name: str, index: int) -> Expression:
        levels = getattr(self.schema[name], "levels", ())
        quoted = self.names.restore(self.names.quote(f"`{name}`"))
        return assemble(
            f"{quoted} == {levels[index]!r}",
            Node("level", name=name, value=float(index)),
            _UNIT,
            (),
            boolean=True,
        )

    def _membership(self, text: str, left: ast.expr, right: ast.expr) -> Expression:
        if not isinstance(right, ast.List | ast.Tuple | ast.Set) or not right.elts:
            raise FormulaError(text, "in needs a list of constants", "such as race in ['a', 'b']")
        name = self._category(left)
        if name:
            chosen = sorted({self._level(text, name, element) for element in right.elts})
            return _union(text, [self._indicator(name, index) for index in chosen])
        value = self.compile(left)
        constants = {c.constant: c for c in map(self.compile, right.elts)}
        if None in constants:
            raise FormulaError(text, "in needs a list of constants", "such as educ in [1, 2]")
        return _union(
            text,
            [_compare(canonical(f"({value.text}) == ({c.text})"), "==", value, c) for c in constants.values()],
        )


def _union(text: str, disjoint: Sequence[Expression]) -> Expression:
    """Any of several truth values of which at most one is true: their sum."""
    node, total = disjoint[0].node, dict(disjoint[0].polynomial)
    for one in disjoint[1:]:
        node, total = Node("or", (node, one.node)), polynomials.add(total, one.polynomial)
    return assemble(text, node, _UNIT, disjoint, polynomial=total, boolean=True)


def _compare(text: str, symbol: str, a: Expression, b: Expression) -> Expression:
    if a.boolean and b.constant in (0.0, 1.0) and symbol in ("==", "!="):
        if (b.constant == 1.0) != (symbol == "=="):
            return negation(text, a)
        return assemble(text, a.node, _UNIT, (a,), polynomial=dict(a.polynomial), boolean=True)
    return assemble(text, Node(symbol, (a.node, b.node)), _UNIT, (a, b), boolean=True)

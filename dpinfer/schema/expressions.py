"""Expressions of columns, bounded from the schema alone.

`compile_expression` walks the syntax tree of a text and allows what is on a list: arithmetic, comparisons,
logic and elementwise functions, each bounded by interval arithmetic. Everything else is refused by name.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.checks import of_type
from dpinfer.errors import FormulaError, shown
from dpinfer.schema.axes import Axis, BinsAxis, ConditionAxis, LevelsAxis, MirroredAxis
from dpinfer.schema.cells import number_text
from dpinfer.schema.columns import Boolean, Category
from dpinfer.schema.intervals import Interval, operation_bounds
from dpinfer.schema.nodes import ARGUMENTS, FUNCTIONS, Expression, Node, evaluate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dpinfer.schema.nodes import Monomial, Polynomial
    from dpinfer.schema.schema import Schema

_UNIT = Interval(0.0, 1.0)
_LARGEST_POWER = 2**20
_LARGEST_EXPANDED_POWER = 64
_MOST_TERMS = 256
_OPEN_DOMAIN = {"log": 0.0, "log2": 0.0, "log10": 0.0, "log1p": -1.0}

_BINARY: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_SIGNS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_COMPARISONS: dict[type[ast.cmpop], str] = dict(zip(_SIGNS, ("==", "!=", "<", "<=", ">", ">="), strict=True))
_MIRRORED = dict(zip(_SIGNS, (ast.Eq, ast.NotEq, ast.Gt, ast.GtE, ast.Lt, ast.LtE), strict=True))
_REFUSED: dict[type[ast.AST], str] = {
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

_ALLOWED = f"allowed functions: {', '.join([*FUNCTIONS, 'I'])}"
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
_OF_ALL_ROWS = (
    "std var sum prod median average mode any all ptp quantile percentile nanmean nanstd nanmedian cov corr corrcoef "
    "zscore nunique unique rank sort argsort argmin argmax value_counts qcut histogram hashed cumsum cumprod cummax "
    "cummin diff shift lag roll gradient convolve rolling expanding ewm groupby fillna interpolate"
)
_WHOLE_COLUMN = {*_INSTEAD, *_OF_ALL_ROWS.split()}
"""Functions that see all rows, so what one row changes has no bound from the schema."""


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
    return _compiled(text, schema)


@lru_cache(maxsize=512)
def _compiled(text: str, schema: Schema) -> Expression:
    """Compile a text once for all schemas that declare the same."""
    names = Names()
    tree = _parse(text, names)
    try:
        expression: Expression = _Compiler(schema, names).visit(tree)
    except RecursionError as error:
        raise FormulaError(_shortened(text), "is nested too deeply") from error
    for leaf in {leaf for monomial in expression.polynomial for leaf, _ in monomial} - {*expression.columns}:
        if leaf in schema:
            raise FormulaError(text, f"{leaf} is also the name of a column", "rename that column")
    return expression


def compile_condition(text: str, schema: Schema) -> Expression:
    """Compile a condition on declared columns.

    Raises
    ------
    OptionError
        If it is no text.
    FormulaError, UnknownColumnError
        If it is no condition, or names unknown columns.
    """
    condition = compile_expression(of_type(str, "where", text, 'a condition such as "age >= 18", or None'), schema)
    if not condition.boolean or condition.constant is not None:
        raise FormulaError(text, "is not a condition on columns", 'write a comparison, such as "age >= 18"')
    return condition


def condition_axis(text: str, schema: Schema) -> ConditionAxis:
    """Split rows by whether a condition holds; errors as of `compile_condition`."""
    return ConditionAxis(schema, text, compile_condition(text, schema))


def axis_from_dict(stored: Mapping[str, Any], schema: Schema) -> Axis:
    """Read what `Axis.to_dict` wrote.

    Raises
    ------
    KeyError, TypeError, SchemaError, OptionError
        If it is damaged.
    """
    if "condition" in stored:
        return condition_axis(stored["condition"], schema)
    if "edges" not in stored:
        return LevelsAxis(schema, stored["column"])
    if not isinstance(stored["edges"], Sequence):
        raise TypeError("edges")
    edges = tuple(float(edge) for edge in stored["edges"])
    if "mirrored" not in stored:
        return BinsAxis(schema, stored["column"], edges)
    text = stored["mirrored"]
    return MirroredAxis(schema, text, compile_expression(text, schema), edges)


# The algebra: an expression has its value, its bounds and its canonical polynomial together


def constant_expression(value: float) -> Expression:
    """Make the expression that is `value` at every row."""
    return _literal(ast.unparse(ast.Constant(int(value) if float(value).is_integer() else value)), float(value))


def column_expression(name: str, schema: Schema) -> Expression:
    """Make the expression that is a numeric column itself.

    Raises
    ------
    UnknownColumnError
        If the schema has no such column.
    FormulaError
        If the column is a category.
    """
    column, text = schema[name], quoted(name)
    if isinstance(column, Category):
        raise FormulaError(
            text,
            "is a category and has no numeric value",
            f"compare it with a level, such as {text} == {column.levels[0]!r}, or use C({text}) as a term",
        )
    boolean = isinstance(column, Boolean)
    lower, upper = column.limits
    leaves = frozenset([name]) if boolean else frozenset[str]()
    return Expression(text, (name,), lower, upper, boolean, _leaf(name), leaves, Node("column", name=name))


def product(expressions: Iterable[Expression]) -> Expression:
    """Multiply expressions; equal factors are joined into a power, the empty product is 1.

    Raises
    ------
    FormulaError
        If the product overflows.
    """
    powers = Counter(e for e in expressions if e.constant != 1.0)
    result = constant_expression(1.0)
    for e, k in powers.items():
        factor = _power(_canonical(f"({e.text}) ** {k}"), e, k) if k > 1 and not e.boolean else e
        first = result.constant == 1.0
        result = factor if first else _times(_canonical(f"({result.text}) * ({factor.text})"), result, factor)
    return result


def _assemble(
    text: str,
    node: Node,
    parts: Sequence[Expression],
    *,
    polynomial: Polynomial | None = None,
    boolean: bool = False,
) -> Expression:
    """Assemble an expression from its parts; constants are folded, no polynomial makes it a leaf.

    ``polynomial`` is the expansion in the leaves of the parts, ``boolean`` whether the value is only ever 0 or 1.
    """
    if parts and all(part.constant is not None for part in parts):
        value = float(evaluate(node, {}))
        if not np.isfinite(value):
            raise FormulaError(text, "overflows", "rescale the columns by a public constant")
        return _literal(text, value)
    bounds = _UNIT if boolean else operation_bounds(node, [_interval(part) for part in parts])
    if not bounds.finite:
        raise FormulaError(text, "overflows within the declared bounds", "rescale or clip the columns")
    leaves = frozenset[str]().union(*(part.boolean_leaves for part in parts))
    columns = {name for part in parts for name in part.columns} | ({node.name} if node.name else set())
    if polynomial is None or not all(math.isfinite(c) for c in polynomial.values()):
        polynomial, leaves = _leaf(text), frozenset([text] if boolean else [])
    return Expression(text, tuple(sorted(columns)), bounds.lower, bounds.upper, boolean, polynomial, leaves, node)


def _literal(text: str, value: float) -> Expression:
    """Make a constant, with the text it was written as."""
    value += 0.0
    polynomial: Polynomial = {(): value} if value else {}
    node = Node("constant", value=value)
    return Expression(text, (), value, value, value in (0.0, 1.0), polynomial, frozenset(), node)


def _interval(expression: Expression) -> Interval:
    return Interval(expression.lower, expression.upper)


def _times(text: str, a: Expression, b: Expression) -> Expression:
    """Multiply two expressions, which is also "and" for truth values."""
    expanded = _multiplied(a.polynomial, b.polynomial, a.boolean_leaves | b.boolean_leaves)
    return _assemble(text, Node("*", (a.node, b.node)), (a, b), polynomial=expanded, boolean=a.boolean and b.boolean)


def _power(text: str, base: Expression, exponent: int) -> Expression:
    """Raise an expression to a whole power of at least 1."""
    expanded = _raised(base.polynomial, exponent, base.boolean_leaves)
    node = Node("power", (base.node,), value=float(exponent))
    return _assemble(text, node, (base,), polynomial=expanded, boolean=base.boolean)


def _negation(text: str, a: Expression) -> Expression:
    """Subtract a truth value from 1."""
    expanded = _added({(): 1.0}, a.polynomial, -1.0)
    return _assemble(text, Node("not", (a.node,)), (a,), polynomial=expanded, boolean=True)


def _either(text: str, a: Expression, b: Expression) -> Expression:
    """Take the larger of two truth values: a + b - a b."""
    both = _multiplied(a.polynomial, b.polynomial, a.boolean_leaves | b.boolean_leaves)
    expanded = None if both is None else _added(_added(a.polynomial, b.polynomial), both, -1.0)
    return _assemble(text, Node("or", (a.node, b.node)), (a, b), polynomial=expanded, boolean=True)


def _union(text: str, disjoint: Sequence[Expression]) -> Expression:
    """Any of several truth values of which at most one is true: their sum."""
    node, total = disjoint[0].node, dict(disjoint[0].polynomial)
    for one in disjoint[1:]:
        node, total = Node("or", (node, one.node)), _added(total, one.polynomial)
    return _assemble(text, node, disjoint, polynomial=total, boolean=True)


def _compare(text: str, symbol: str, a: Expression, b: Expression) -> Expression:
    if a.boolean and b.constant in (0.0, 1.0) and symbol in ("==", "!="):
        if (b.constant == 1.0) != (symbol == "=="):
            return _negation(text, a)
        return _assemble(text, a.node, (a,), polynomial=dict(a.polynomial), boolean=True)
    return _assemble(text, Node(symbol, (a.node, b.node)), (a, b), boolean=True)


# Polynomials: the canonical form by which two expressions are seen to be the same


def _leaf(text: str) -> Polynomial:
    return {((text, 1),): 1.0}


def _added(p: Mapping[Monomial, float], q: Mapping[Monomial, float], times: float = 1.0) -> Polynomial:
    """Add a multiple of q to p; terms that cancel are left out."""
    total = dict(p)
    for monomial, coefficient in q.items():
        total[monomial] = total.get(monomial, 0.0) + times * coefficient
    return {m: c for m, c in total.items() if c}


def _multiplied(p: Mapping[Monomial, float], q: Mapping[Monomial, float], boolean: frozenset[str]) -> Polynomial | None:
    """Multiply two polynomials; None if there are more than 256 terms, or a coefficient is not finite.

    Powers of the ``boolean`` leaves, which only take 0 and 1, are reduced to 1.
    """
    if len(p) * len(q) > 16 * _MOST_TERMS:
        return None
    total: Polynomial = {}
    for m, a in p.items():
        for n, b in q.items():
            powers = Counter(dict(m)) + Counter(dict(n))
            monomial = tuple(sorted((name, 1 if name in boolean else power) for name, power in powers.items()))
            total[monomial] = total.get(monomial, 0.0) + a * b
    usable = len(total) <= _MOST_TERMS and all(math.isfinite(c) for c in total.values())
    return {m: c for m, c in total.items() if c} if usable else None


def _raised(p: Mapping[Monomial, float], power: int, boolean: frozenset[str]) -> Polynomial | None:
    """Raise a polynomial to a whole power; None if the expansion is too large (see `_multiplied`)."""
    if len(p) == 1 and set(p.values()) == {1.0}:
        (monomial,) = p
        return {tuple((name, 1 if name in boolean else k * power) for name, k in monomial if power): 1.0}
    if power > _LARGEST_EXPANDED_POWER:
        return None
    result: Polynomial | None = {(): 1.0}
    for _ in range(power):
        result = None if result is None else _multiplied(result, p, boolean)
    return result


class _Compiler(ast.NodeVisitor):
    """Walk a syntax tree in normal form and build the expression of every node; what has no method is refused."""

    def __init__(self, schema: Schema, names: Names) -> None:
        self.schema = schema
        self.names = names

    def generic_visit(self, node: ast.AST) -> Expression:
        text = self.names.text(node)
        instead = f"write `{text}` in backticks" if text in self.schema else ""
        raise FormulaError(text, _REFUSED.get(type(node), "is not allowed in an expression"), instead)

    def visit_Name(self, node: ast.Name) -> Expression:
        return column_expression(self.names.name(node.id), self.schema)

    def visit_Constant(self, node: ast.Constant) -> Expression:
        text, value = self.names.text(node), node.value
        if not isinstance(value, int | float):
            raise FormulaError(text, "is no number", "text may only be compared with a category")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise FormulaError(text, "is too large for a float")
        return _literal(text, number)

    def visit_BinOp(self, node: ast.BinOp) -> Expression:
        text = self.names.text(node)
        if isinstance(node.op, ast.BitXor):
            raise FormulaError(text, "^ is not a power here", "write ** for a power")
        if not isinstance(node.op, (*_BINARY, ast.Pow, ast.BitAnd, ast.BitOr)):
            raise FormulaError(text, f"the operator {type(node.op).__name__} is not allowed", "use + - * / **")
        a, b = self.visit(node.left), self.visit(node.right)
        if isinstance(node.op, ast.BitAnd | ast.BitOr):
            operation = _times if isinstance(node.op, ast.BitAnd) else _either
            return operation(text, self._truth(text, a), self._truth(text, b))
        if isinstance(node.op, ast.Pow):
            return self._raised(text, a, b)
        if isinstance(node.op, ast.Mult):
            return _times(text, a, b)
        tree = Node(_BINARY[type(node.op)], (a.node, b.node))
        if isinstance(node.op, ast.Div):
            _check_divisor(text, b)
            quotient = {m: c / b.constant for m, c in a.polynomial.items()} if b.constant else None
            return _assemble(text, tree, (a, b), polynomial=quotient)
        sign = 1.0 if isinstance(node.op, ast.Add) else -1.0
        return _assemble(text, tree, (a, b), polynomial=_added(a.polynomial, b.polynomial, sign))

    def _raised(self, text: str, base: Expression, exponent: Expression) -> Expression:
        k = exponent.constant
        lies = f"it lies in [{base.lower:.6g}, {base.upper:.6g}]"
        if k is None:
            raise FormulaError(text, "the exponent is not a constant", "write exp(b * log(a)) with a positive a")
        if not k.is_integer():
            if base.lower < 0 or (k < 0 and base.lower == 0):
                sign = "negative" if k > 0 else "0 or negative"
                instead = "declare a positive lower bound, or use a whole exponent of at least 0"
                raise FormulaError(text, f"the base {base.text} can be {sign}: {lies}", instead)
            return _assemble(text, Node("**", (base.node, exponent.node)), (base, exponent))
        if abs(k) > _LARGEST_POWER:
            raise FormulaError(text, "the exponent is too large", "use a smaller one")
        raised = _power(text, base, int(abs(k))) if k else constant_expression(1.0)
        if k >= 0:
            return raised
        if 0 in _interval(base):
            raise FormulaError(text, f"the base {base.text} can be 0: {lies}", "declare bounds that exclude 0")
        _check_divisor(text, raised)
        one = constant_expression(1.0)
        return _assemble(text, Node("/", (one.node, raised.node)), (one, raised))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Expression:
        text, a = self.names.text(node), self.visit(node.operand)
        if isinstance(node.op, ast.Invert):
            return _negation(text, self._truth(text, a))
        return _assemble(text, Node("negative", (a.node,)), (a,), polynomial=_added({}, a.polynomial, -1.0))

    def _truth(self, text: str, a: Expression) -> Expression:
        if not a.boolean or a.constant is not None:
            raise FormulaError(text, f"{a.text} is no truth value", "compare it first, such as (age > 40)")
        return a

    def visit_Call(self, node: ast.Call) -> Expression:
        name, text = function_name(node.func), self.names.text(node)
        if name not in FUNCTIONS:
            raise _refused_call(node, self.names)
        expected = ARGUMENTS[name]
        if node.keywords or len(node.args) != expected or any(isinstance(a, ast.Starred) for a in node.args):
            example = {1: f"{name}(x)", 2: f"{name}(x, 0)", 3: f"{name}(x, 0, 100)"}[expected]
            raise FormulaError(text, f"{name} takes {expected} arguments by position", f"such as {example}")
        arguments = [self.visit(argument) for argument in node.args]
        if expected == 2 and all(a.boolean for a in arguments):
            return (_times if name == "minimum" else _either)(text, *arguments)
        a = arguments[0]
        _check_domain(name, text, a)
        polynomial: Polynomial | None = None
        if name == "abs" and (a.lower >= 0 or a.upper <= 0):
            polynomial = _added({}, a.polynomial, 1.0 if a.lower >= 0 else -1.0)
        tree = Node(name, tuple(a.node for a in arguments))
        boolean = name == "abs" and a.boolean
        return _assemble(text, tree, arguments, polynomial=polynomial, boolean=boolean)

    def visit_Compare(self, node: ast.Compare) -> Expression:
        text, left, operator, right = self.names.text(node), node.left, node.ops[0], node.comparators[0]
        if isinstance(operator, ast.In | ast.NotIn):
            found = self._membership(text, left, right)
            return found if isinstance(operator, ast.In) else _negation(text, found)
        if type(operator) not in _COMPARISONS:
            raise FormulaError(text, "is and is not are not allowed", "compare with == or !=")
        if self._category(right) and not self._category(left):
            left, right = right, left
        symbol, name = _COMPARISONS[type(operator)], self._category(left)
        if not name:
            return _compare(text, symbol, self.visit(left), self.visit(right))
        if symbol not in ("==", "!="):
            raise FormulaError(text, f"{name} is a category: its levels have no order", "use == or !=")
        found = self._indicator(text, name, right)
        return found if symbol == "==" else _negation(text, found)

    def _category(self, node: ast.expr) -> str:
        name = self.names.name(node.id) if isinstance(node, ast.Name) else ""
        return name if isinstance(self.schema.get(name), Category) else ""

    def _indicator(self, text: str, name: str, node: ast.expr) -> Expression:
        """Whether a category is of the level that a node holds."""
        column = self.schema[name]
        assert isinstance(column, Category)
        levels = f"its levels are {', '.join(map(repr, column.levels))}"
        try:
            value = ast.literal_eval(node)
        except ValueError:
            written = self.names.text(node)
            raise FormulaError(text, f"{name} is a category and {written} is no level", levels) from None
        index = column.find(value)
        if index is None:
            raise FormulaError(text, f"{value!r} is not a level of {name}", levels)
        tree = Node("level", name=name, value=float(index))
        return _assemble(f"{quoted(name)} == {column.levels[index]!r}", tree, (), boolean=True)

    def _membership(self, text: str, left: ast.expr, right: ast.expr) -> Expression:
        if not isinstance(right, ast.List | ast.Tuple | ast.Set) or not right.elts:
            raise FormulaError(text, "in needs a list of constants", "such as race in ['a', 'b']")
        name = self._category(left)
        if name:
            found = {one.node.value: one for one in (self._indicator(text, name, each) for each in right.elts)}
            return _union(text, [found[index] for index in sorted(found)])
        value = self.visit(left)
        constants = {c.constant: c for c in map(self.visit, right.elts)}
        if None in constants:
            raise FormulaError(text, "in needs a list of constants", "such as educ in [1, 2]")
        texts = {c: _canonical(f"({value.text}) == ({c.text})") for c in constants.values()}
        return _union(text, [_compare(written, "==", value, c) for c, written in texts.items()])


def _check_divisor(text: str, divisor: Expression) -> None:
    if divisor.constant == 0:
        raise FormulaError(text, "divides by 0")
    if 0 in _interval(divisor):
        reason = f"the divisor {divisor.text} can be 0: it lies in [{divisor.lower:.6g}, {divisor.upper:.6g}]"
        raise FormulaError(text, reason, f"declare bounds that exclude 0, or divide by maximum({divisor.text}, 1)")


def _check_domain(name: str, text: str, a: Expression) -> None:
    """Refuse a function that is not defined, or not bounded, where its argument lies."""
    if name in _OPEN_DOMAIN and a.lower <= _OPEN_DOMAIN[name]:
        edge, plain = _OPEN_DOMAIN[name], "log" if name == "log1p" else name
        bound = "a positive lower bound" if edge == 0 else "a lower bound above -1"
        shifted = f"{plain}({number_text(1.0 - a.lower)} + {a.text})"
        reason = f"{name} is unbounded at {a.text} <= {number_text(edge)}"
        raise FormulaError(text, reason, f"write {shifted} or declare {bound}")
    if name == "sqrt" and a.lower < 0:
        instead = f"write sqrt(maximum({a.text}, 0)) or declare a lower bound of at least 0"
        raise FormulaError(text, f"sqrt is not defined at {a.text} < 0", instead)


# The text of expressions: quoted names, a normal form, and why a function is refused


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
        return re.sub(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|`([^`]*)`|(`)""", identifier, text)

    def _identifier(self, name: str) -> str:
        plain = name.isidentifier() and unicodedata.normalize("NFKC", name) == name
        if plain and not keyword.iskeyword(name):
            return name
        if name not in self.aliases:
            alias = f"quoted_{len(self.aliases)}_"
            while alias in self._seen:
                alias += "_"
            self.aliases[name] = alias
        return self.aliases[name]

    def name(self, identifier: str) -> str:
        """Tell the column name that an identifier stands for."""
        return next((name for name, alias in self.aliases.items() if alias == identifier), identifier)

    def restore(self, text: str) -> str:
        """Put the names in backticks back."""
        for name, alias in self.aliases.items():
            text = re.sub(rf"\b{alias}\b", lambda _: f"`{name}`", text)  # noqa: B023
        return text

    def text(self, tree: ast.AST) -> str:
        """Write a tree as canonical text."""
        return self.restore(ast.unparse(tree).replace("\n", " "))


def function_name(function: ast.expr) -> str:
    """Tell the dotted name of a called function, without ``np.`` or ``numpy.``; empty if it is not a name."""
    name = ast.unparse(function)
    return re.sub(r"^(np|numpy)\.", "", name) if re.fullmatch(r"[\w.]+", name) else ""


def _canonical(text: str) -> str:
    """Write a text with no more parentheses and spaces than needed."""
    names = Names()
    return names.text(ast.parse(names.quote(text), mode="eval"))


def quoted(name: str) -> str:
    """Write the name of a column as an expression: in backticks where it is no identifier, or a keyword."""
    names = Names()
    return names.restore(names.quote(f"`{name}`"))


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def _parse(text: str, names: Names) -> ast.expr:
    """Parse an expression and bring it to normal form; `FormulaError` if the text is none.

    The normal form has no ``I()``, no ``np.`` before an allowed function and no unary plus; ``and``, ``or``,
    ``not`` are written ``&``, ``|``, ``~``; chained comparisons are joined by ``&``; a constant stands on the
    right of a comparison.
    """
    quoted = names.quote(text).strip()
    if not quoted:
        raise FormulaError(repr(text), "is not a valid expression", "write one, such as log(1 + income)")
    try:
        tree = ast.parse(quoted, mode="eval").body
        normal: ast.expr = _Normal(names).visit(tree)
        return ast.parse(ast.unparse(normal), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise FormulaError(_shortened(text), "is not a valid expression") from error
    except (MemoryError, RecursionError) as error:
        raise FormulaError(_shortened(text), "is nested too deeply") from error


class _Normal(ast.NodeTransformer):
    """Bring a tree to the normal form that `_parse` describes."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = function_name(node.func)
        first = node.args[0] if len(node.args) == 1 and not node.keywords else None
        if name == "I" and first is not None:
            return first
        if name == "Q" and isinstance(first, ast.Constant) and isinstance(first.value, str):
            return ast.Name(self.names.quote(f"`{first.value}`"), ast.Load())
        name = "abs" if name == "absolute" else name
        return ast.Call(ast.Name(name, ast.Load()), node.args, node.keywords) if name in FUNCTIONS else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.UAdd):
            return node.operand
        return ast.UnaryOp(ast.Invert(), node.operand) if isinstance(node.op, ast.Not) else node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        sign = ast.BitAnd() if isinstance(node.op, ast.And) else ast.BitOr()
        return reduce(lambda a, b: ast.BinOp(a, sign, b), node.values)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        parts: list[ast.expr] = []
        for left, sign, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            mirrored = _MIRRORED.get(type(sign))
            if mirrored and isinstance(left, ast.Constant) and not isinstance(right, ast.Constant):
                parts.append(ast.Compare(right, [mirrored()], [left]))
            else:
                parts.append(ast.Compare(left, [sign], [right]))
        return reduce(lambda a, b: ast.BinOp(a, ast.BitAnd(), b), parts)


def _refused_call(call: ast.Call, names: Names) -> FormulaError:
    """Say why a function or a method is refused, and what would work."""
    text, written, name = names.text(call), names.text(call.func), function_name(call.func)
    last = name.rsplit(".", 1)[-1] or getattr(call.func, "attr", "")
    reason, instead = "is not an allowed function", _ALLOWED
    if name.startswith("random."):
        reason = "draws random numbers"
    elif last in _WHOLE_COLUMN:
        reason = "sees all rows, so what one row changes has no bound from the schema"
        instead = _INSTEAD.get(last, _ALLOWED)
    elif last in ("C", "Treatment", "Sum", "Helmert", "Diff", "Poly") or name.startswith("contr."):
        reason = "marks a category and cannot be part of an expression"
        instead = "use it as a term of its own, or compare the column with a level"
    return FormulaError(text, f"{written} {reason}", instead)

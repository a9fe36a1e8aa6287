"""Bounded expressions and their algebra: the value, its bounds, and its canonical polynomial together."""

from __future__ import annotations

import ast
import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import FormulaError
from dpinfer.schema import intervals, nodes, polynomials
from dpinfer.schema.bounding import interval_of
from dpinfer.schema.category import Category
from dpinfer.schema.columns import Boolean, Real
from dpinfer.schema.expression import Expression
from dpinfer.schema.intervals import Interval
from dpinfer.schema.nodes import Node
from dpinfer.schema.syntax import Names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpinfer.schema.column import Column
    from dpinfer.schema.polynomials import Polynomial
    from dpinfer.schema.schema import Schema

__all__ = [
    "Expression",
    "assemble",
    "canonical",
    "column_expression",
    "constant_expression",
    "either",
    "literal",
    "negation",
    "power",
    "product",
    "times",
]

_UNIT = Interval(0.0, 1.0)


def assemble(
    text: str,
    node: Node,
    bounds: Interval,
    parts: Sequence[Expression],
    *,
    polynomial: Polynomial | None = None,
    boolean: bool = False,
) -> Expression:
    """Assemble an expression from its parts; constants are folded, no polynomial makes it a leaf.

    Parameters
    ----------
    text : str
        Canonical text.
    node : Node
        The operation on the parts' nodes.
    bounds : Interval
        Bounds of the value.
    parts : sequence of Expression
        What the operation is applied to.
    polynomial : dict, optional
        Canonical expansion, if the expression is a polynomial in the leaves of its parts.
    boolean : bool, optional
        Whether the value is only ever 0 or 1.

    Raises
    ------
    FormulaError
        If the value, or its bounds, overflow.
    """
    if parts and all(part.constant is not None for part in parts):
        value = float(nodes.evaluate(node, {}))
        if not np.isfinite(value):
            raise FormulaError(text, "overflows", "rescale the columns by a public constant")
        return literal(text, value)
    if boolean:
        bounds = _UNIT
    if not bounds.finite:
        raise FormulaError(text, "overflows within the declared bounds", "rescale or clip the columns")
    boolean_leaves = frozenset[str]().union(*(part.boolean_leaves for part in parts))
    columns = {name for part in parts for name in part.columns} | ({node.name} if node.name else set())
    if polynomial is None or not all(math.isfinite(c) for c in polynomial.values()):
        polynomial = polynomials.leaf(text)
        boolean_leaves = frozenset([text]) if boolean else frozenset()
    return Expression(
        text, tuple(sorted(columns)), bounds.lower, bounds.upper, boolean, polynomial, boolean_leaves, node
    )


def literal(text: str, value: float) -> Expression:
    """Make a constant, with the text it was written as."""
    value += 0.0
    node = Node("constant", value=value)
    return Expression(text, (), value, value, value in (0.0, 1.0), polynomials.constant(value), frozenset(), node)


def constant_expression(value: float) -> Expression:
    """Make the expression that is `value` at every row."""
    return literal(ast.unparse(ast.Constant(int(value) if float(value).is_integer() else value)), float(value))


def column_expression(name: str, schema: Schema) -> Expression:
    """Make the expression that is a numeric column itself.

    Raises
    ------
    UnknownColumnError
        If the schema has no such column.
    FormulaError
        If the column is a category.
    """
    column: Column = schema[name]
    names = Names()
    text = names.restore(names.quote(f"`{name}`"))
    if isinstance(column, Category):
        raise FormulaError(
            text,
            "is a category and has no numeric value",
            f"compare it with a level, such as {text} == {column.levels[0]!r}, or use C({text}) as a term",
        )
    boolean = isinstance(column, Boolean)
    bounds = Interval(float(column.lower), float(column.upper)) if isinstance(column, Real) else _UNIT
    return Expression(
        text,
        (name,),
        bounds.lower,
        bounds.upper,
        boolean,
        polynomials.leaf(name),
        frozenset([name]) if boolean else frozenset(),
        Node("column", name=name),
    )


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
        factor = power(canonical(f"({e.text}) ** {k}"), e, k) if k > 1 and not e.boolean else e
        first = result.constant == 1.0
        result = factor if first else times(canonical(f"({result.text}) * ({factor.text})"), result, factor)
    return result


def canonical(text: str) -> str:
    """Write a text with no more parentheses and spaces than needed."""
    names = Names()
    return names.text(ast.parse(names.quote(text), mode="eval"))


def times(text: str, a: Expression, b: Expression) -> Expression:
    """Multiply two expressions, which is also "and" for truth values."""
    expanded = polynomials.multiply(a.polynomial, b.polynomial, boolean=a.boolean_leaves | b.boolean_leaves)
    bounds = intervals.multiply(interval_of(a), interval_of(b))
    node = Node("*", (a.node, b.node))
    return assemble(text, node, bounds, (a, b), polynomial=expanded, boolean=a.boolean and b.boolean)


def power(text: str, base: Expression, exponent: int) -> Expression:
    """Raise an expression to a whole power of at least 1."""
    expanded = polynomials.raised(base.polynomial, exponent, boolean=base.boolean_leaves)
    node = Node("power", (base.node,), value=float(exponent))
    bounds = intervals.power(interval_of(base), exponent)
    return assemble(text, node, bounds, (base,), polynomial=expanded, boolean=base.boolean)


def negation(text: str, a: Expression) -> Expression:
    """Subtract a truth value from 1."""
    expanded = polynomials.add(polynomials.constant(1.0), polynomials.scale(a.polynomial, -1.0))
    return assemble(text, Node("not", (a.node,)), _UNIT, (a,), polynomial=expanded, boolean=True)


def either(text: str, a: Expression, b: Expression) -> Expression:
    """Take the larger of two truth values: a + b - a b."""
    both = polynomials.multiply(a.polynomial, b.polynomial, boolean=a.boolean_leaves | b.boolean_leaves)
    expanded = None
    if both is not None:
        expanded = polynomials.add(polynomials.add(a.polynomial, b.polynomial), polynomials.scale(both, -1.0))
    return assemble(text, Node("or", (a.node, b.node)), _UNIT, (a, b), polynomial=expanded, boolean=True)

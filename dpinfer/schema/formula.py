"""Formulas, compiled against a schema into bounded design columns.

Formulaic parses the formula and lays out the columns - their names, order and reduction to full rank - on a
small public table. It never evaluates text: every factor is read here first, through
`dpinfer.schema.expressions` or as a category, and is handed over as ready values under its own name.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import product as cartesian
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from formulaic import Formula, SimpleFormula
from formulaic.parser.types import Factor, Term

from dpinfer.errors import FormulaError, OptionError, UnknownColumnError
from dpinfer.schema.category import Category
from dpinfer.schema.contrasts import CategoricalFactor, bare_factor, marked_factor
from dpinfer.schema.expressions import (
    Expression,
    column_expression,
    compile_expression,
    constant_expression,
    product,
)
from dpinfer.schema.operators import check_powers, refuse_comparison
from dpinfer.schema.syntax import Names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.schema.schema import Schema

__all__ = ["CompiledFormula", "DesignColumn", "compile_formula", "compile_terms", "two_sided"]


@dataclass(frozen=True)
class DesignColumn:
    """One column of a design: a bounded expression times the weights of categories.

    The value at a row is ``expression`` there, times, for each of ``codings``, the weight of the row's level.

    Attributes
    ----------
    name : str
        Formulaic's name of the column, such as ``"C(race)[T.b]:age"``.
    term : str
        The term that the column belongs to.
    expression : Expression
        The numeric part; the constant 1 if there is none.
    codings : tuple of (str, tuple of float)
        For each category involved, once: the column, and a weight per level by the level's index (see
        `Column.level_index`).
    """

    name: str
    term: str
    expression: Expression
    codings: tuple[tuple[str, tuple[float, ...]], ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Schema columns read, sorted."""
        return tuple(sorted({*self.expression.columns, *(name for name, _ in self.codings)}))


@dataclass(frozen=True)
class CompiledFormula:
    """A formula as design columns.

    Attributes
    ----------
    text : str
        The formula as given.
    response : DesignColumn or None
        The left side; None if there is none.
    design : tuple of DesignColumn
        The right side.
    columns : tuple of str
        All schema columns read, sorted.
    has_intercept : bool
        Whether the design has an intercept of its own.
    """

    text: str
    response: DesignColumn | None
    design: tuple[DesignColumn, ...]
    columns: tuple[str, ...]
    has_intercept: bool


_Factor = Expression | CategoricalFactor


def compile_formula(formula: str, schema: Schema) -> CompiledFormula:
    """Compile a formula against a schema.

    Parameters
    ----------
    formula : str
        A formula in formulaic's grammar, one- or two-sided. Factors are expressions (see
        `compile_expression`), category columns, or ``C(column, contrasts, levels=[...])`` of a column with
        levels. Arithmetic and comparisons stand inside ``I()``, as in ``I(age**2)`` and ``I(age > 30)``: outside,
        ``**`` crosses terms as in ``(a + b)**2``.
    schema : Schema
        Declares the columns.

    Returns
    -------
    CompiledFormula

    Raises
    ------
    FormulaError
        If the formula cannot be parsed, or a term is not allowed or not bounded.
    UnknownColumnError
        If a name is not in the schema.
    OptionError
        If the formula is not a text.

    Notes
    -----
    A Boolean column is a numeric column of 0 and 1. The levels of a category are those of the schema, in its
    order, whatever the rows hold.

    Examples
    --------
    >>> from dpinfer.schema import Category, Real, Schema
    >>> schema = Schema(income=Real(0, 200_000), age=Real(0, 100), race=Category(["a", "b", "c"]))
    >>> compiled = compile_formula("income ~ age + C(race)", schema)
    >>> [column.name for column in compiled.design]
    ['Intercept', 'age', 'C(race)[T.b]', 'C(race)[T.c]']
    >>> compiled.design[2].codings
    (('race', (0.0, 1.0, 0.0)),)
    """
    if not isinstance(formula, str):
        raise OptionError("formula", formula, "a text, such as 'y ~ x'")
    names = Names()
    left, right = _sides(formula, names)
    compiler = _FormulaCompiler(schema, names)
    design = compiler.columns(right)
    if not design:
        raise FormulaError(formula, "has no terms on its right side", "write at least one, such as 1")
    response = compiler.response(left, formula) if left is not None else None
    used = [*design, *([response] if response else [])]
    return CompiledFormula(
        text=formula,
        response=response,
        design=design,
        columns=tuple(sorted({name for column in used for name in column.columns})),
        has_intercept=any(column.name == "Intercept" and column.term == "1" for column in design),
    )


@lru_cache(maxsize=128)
def two_sided(formula: str, schema: Schema) -> CompiledFormula:
    """Compile a formula; refuse one without a dependent variable or regressors."""
    compiled = compile_formula(formula, schema)
    if compiled.response is None:
        raise FormulaError(formula, "has no dependent variable", 'write "y ~ x"')
    if not compiled.design:
        raise FormulaError(formula, "has no regressors", 'write at least "y ~ 1"')
    return compiled


def compile_terms(terms: Sequence[str], schema: Schema) -> CompiledFormula:
    """Compile a list of terms, without an intercept.

    Parameters
    ----------
    terms : sequence of str
        Names of columns, or terms such as ``"log(1 + income)"``, ``"I(age**2)"`` or ``"age:married"``.
    schema : Schema
        Declares the columns.

    Returns
    -------
    CompiledFormula
        With no response.

    Raises
    ------
    FormulaError, UnknownColumnError
        As `compile_formula`; also for arithmetic outside of ``I()``, for in a formula its signs join terms.
    OptionError
        If `terms` is empty or not a list of texts.

    Examples
    --------
    >>> from dpinfer.schema import Boolean, Real, Schema
    >>> schema = Schema({"hours.per.week": Real(0, 99)}, married=Boolean())
    >>> [column.name for column in compile_terms(["hours.per.week", "married"], schema).design]
    ['hours.per.week', 'married']
    """
    if isinstance(terms, str) or not all(isinstance(term, str) for term in terms) or not len(terms):
        raise OptionError("terms", terms, "a list of columns or terms, such as ['age', 'log(1 + income)']")
    return compile_formula(" + ".join(["0", *(_as_term(term, schema) for term in terms)]), schema)


def _as_term(term: str, schema: Schema) -> str:
    if term in schema:
        return f"`{term}`"
    names = Names()
    try:
        tree: ast.expr | None = ast.parse(names.quote(term).strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        tree = None
    if isinstance(tree, ast.BinOp | ast.UnaryOp | ast.Compare | ast.BoolOp):
        raise FormulaError(term, "is arithmetic outside of I()", f"write I({term})")
    if "~" in term or not term.strip():
        raise FormulaError(term, "is not a term", "write a column or an expression")
    return term


def _sides(formula: str, names: Names) -> tuple[SimpleFormula | None, SimpleFormula]:
    """Parse a formula with formulaic, quoted names replaced by identifiers."""
    quoted = names.quote(formula)
    if not formula.strip():
        raise FormulaError(repr(formula), "is empty", "write a formula such as 'y ~ x'")
    try:
        parsed = Formula(quoted)
    except Exception as error:
        reason = re.split(r"\n| \(tip", names.restore(str(error)))[0].rstrip(".")
        if "`.` operator" in reason:
            raise FormulaError(formula, ". is not allowed", "list the columns by name") from error
        if "Unknown operator" in reason:
            refuse_comparison(quoted, names)
        raise FormulaError(formula, f"is not a valid formula: {reason[:120]}") from error
    check_powers(quoted, names)
    left, right = (None, parsed) if isinstance(parsed, SimpleFormula) else (parsed.lhs, parsed.rhs)
    for side in (left, right):
        if side is not None and not isinstance(side, SimpleFormula):
            raise FormulaError(formula, "has several parts", "write one formula without |")
    return left, right


class _FormulaCompiler:
    """Read the factors of a formula, have formulaic lay out the terms, and bound every column."""

    def __init__(self, schema: Schema, names: Names) -> None:
        self.schema = schema
        self.names = names
        self.factors: dict[str, _Factor] = {}

    def response(self, side: SimpleFormula, formula: str) -> DesignColumn:
        """Compile the left side: one numeric column."""
        columns = self.columns(side)
        text = " + ".join(dict.fromkeys(column.term for column in columns)) or formula
        if any(column.codings for column in columns):
            name = columns[0].codings[0][0]
            raise FormulaError(
                text, "a category cannot be the response", f"compare it with a level, as in I({name} == ...)"
            )
        if len(columns) != 1 or columns[0].expression.constant is not None:
            raise FormulaError(text, "the response has to be one column or expression", "write I(a + b) for a sum")
        return columns[0]

    def columns(self, side: SimpleFormula) -> tuple[DesignColumn, ...]:
        """Compile one side of a formula."""
        terms = [Term([self._factor(factor) for factor in term.factors]) for term in side]
        columns = [
            column
            for structure in self._structure(terms)
            for column in self._term_columns(structure.term, structure.scoped_terms, structure.columns)
        ]
        twice = [name for name, count in Counter(column.name for column in columns).items() if count > 1]
        if twice:
            raise FormulaError(twice[0], "two columns of the design have this name", "rename a column or a level")
        return tuple(columns)

    def _factor(self, factor: Factor) -> Factor:
        """Read one factor, and make it a look-up of its own text."""
        if factor.eval_method is Factor.EvalMethod.LITERAL:
            return factor
        if factor.eval_method is Factor.EvalMethod.LOOKUP:
            text = self.names.name(factor.expr)
            if text not in self.schema:
                raise UnknownColumnError(text, self.schema)
            column = self.schema[text]
            read: _Factor = (
                bare_factor(text, column) if isinstance(column, Category) else column_expression(text, self.schema)
            )
        else:
            text = self.names.restore(factor.expr)
            read = marked_factor(text, self.schema) or compile_expression(text, self.schema)
        self.factors[text] = read
        return Factor(text, eval_method="lookup")

    def _structure(self, terms: list[Term]) -> list[Any]:
        """Let formulaic lay out the terms on a public table that holds every level."""
        categories = {t: f for t, f in self.factors.items() if isinstance(f, CategoricalFactor)}
        rows = max([len(f.levels) for f in categories.values()], default=1)
        numeric = {t: np.ones(rows) for t, f in self.factors.items() if isinstance(f, Expression)}
        context = {text: factor.public_values(rows) for text, factor in categories.items()}
        formula = SimpleFormula(terms, _ordering="none")
        matrix = formula.get_model_matrix(pd.DataFrame(numeric, index=range(rows)), context=context, na_action="ignore")
        structure: list[Any] = matrix.model_spec.structure
        return structure

    def _term_columns(self, term: Term, scoped_terms: list[Any], names: list[str]) -> list[DesignColumn]:
        text = ":".join(factor.expr for factor in term.factors)
        columns: list[DesignColumn] = []
        for scoped in scoped_terms:
            factors = [(self.factors[s.factor.expr], bool(s.reduced)) for s in scoped.factors]
            numeric = product(
                [
                    constant_expression(float(scoped.scale)),
                    *(f for f, _ in factors if isinstance(f, Expression)),
                ]
            )
            coded = [
                [(f.name, weights) for weights in f.weights(reduced=reduced)]
                for f, reduced in factors
                if isinstance(f, CategoricalFactor)
            ]
            # Formulaic lets the first factor run fastest.
            crossed = cartesian(*reversed(coded))
            columns.extend(DesignColumn("", text, numeric, _merged(codings[::-1])) for codings in crossed)
        if len(columns) != len(names):
            raise FormulaError(text, "two columns of the term have the same name", "rename a column or a level")
        return [DesignColumn(name, c.term, c.expression, c.codings) for name, c in zip(names, columns, strict=True)]


def _merged(codings: Sequence[tuple[str, tuple[float, ...]]]) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Join the weights of a category that takes part twice."""
    merged: dict[str, tuple[float, ...]] = {}
    for name, weights in codings:
        before = merged.get(name, (1.0,) * len(weights))
        merged[name] = tuple(a * b + 0.0 for a, b in zip(before, weights, strict=True))
    return tuple(merged.items())

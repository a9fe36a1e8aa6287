"""Formulas, compiled against a schema into bounded design columns; and those columns at public points.

Formulaic parses the formula and lays out the columns - their names, order and reduction to full rank - on a
small public table. It never evaluates text: every factor is read here first, through
`dpinfer.schema.expressions` or as a category, and is handed over as ready values under its own name.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product as cartesian
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from formulaic import Formula, SimpleFormula
from formulaic.parser import DefaultFormulaParser
from formulaic.parser.types import ASTNode, Factor, Term, Token
from formulaic.transforms.contrasts import (
    C,
    DiffContrasts,
    HelmertContrasts,
    PolyContrasts,
    SASContrasts,
    SumContrasts,
    TreatmentContrasts,
)

from dpinfer.errors import FormulaError, OptionError, UnknownColumnError
from dpinfer.schema.columns import DROP, Boolean, Category, Date, Real, plain_scalar
from dpinfer.schema.expressions import (
    Names,
    column_expression,
    compile_expression,
    constant_expression,
    function_name,
    product,
)
from dpinfer.schema.nodes import Expression

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dpinfer.schema.columns import Column
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["CompiledFormula", "DesignColumn", "FormulaDesign", "compile_formula", "compile_terms", "two_sided"]

_SHAPES: dict[str, tuple[type[Any], tuple[str, ...]]] = {
    "contr.treatment": (TreatmentContrasts, ("base",)),
    "contr.SAS": (SASContrasts, ("base",)),
    "contr.sum": (SumContrasts, ()),
    "contr.helmert": (HelmertContrasts, ("reverse", "scale")),
    "contr.diff": (DiffContrasts, ("backward",)),
    "contr.poly": (PolyContrasts, ("scores",)),
    "Treatment": (TreatmentContrasts, ("reference",)),
    "Sum": (SumContrasts, ()),
    "Helmert": (HelmertContrasts, ("reverse", "scale")),
    "Diff": (DiffContrasts, ("backward",)),
    "Poly": (PolyContrasts, ("scores",)),
}


@dataclass(frozen=True, eq=False)
class CategoricalFactor:
    """A column taken as a category.

    Attributes
    ----------
    name : str
        The column.
    levels : tuple of str
        Canonical text of the column's levels, in the column's order.
    order : tuple of int
        The columns' level indices in the order of the coding.
    contrasts : formulaic Contrasts
        The coding.
    """

    name: str
    levels: tuple[str, ...]
    order: tuple[int, ...]
    contrasts: Any

    @property
    def ordered_levels(self) -> list[str]:
        """Level texts in the order of the coding."""
        return [self.levels[index] for index in self.order]

    def public_values(self, rows: int) -> Any:
        """Repeat the levels in turn, marked for formulaic with the contrasts and the order of the levels."""
        levels = [self.levels[row % len(self.levels)] for row in range(rows)]
        return C(pd.Series(levels, dtype=object), self.contrasts, levels=self.ordered_levels)

    def weights(self, *, reduced: bool) -> list[tuple[float, ...]]:
        """Give the columns of the coding: for each, the weight of every level by the column's level index."""
        coding = self.contrasts.get_coding_matrix(self.ordered_levels, reduced_rank=reduced).to_numpy()
        position = {index: row for row, index in enumerate(self.order)}
        rows = [coding[position[index]] for index in range(len(self.levels))]
        return [tuple(float(row[j]) for row in rows) for j in range(coding.shape[1])]


def bare_factor(name: str, column: Column) -> CategoricalFactor:
    """Take a category column with treatment coding, its first level the reference."""
    levels = column.level_texts
    return CategoricalFactor(name, levels, tuple(range(len(levels))), TreatmentContrasts())


def marked_factor(text: str, schema: Schema) -> CategoricalFactor | None:
    """Read a factor such as ``C(race, contr.treatment("b"))``.

    Parameters
    ----------
    text : str
        The factor.
    schema : Schema
        Declares the columns.

    Returns
    -------
    CategoricalFactor or None
        None if the text is no call of ``C``.

    Raises
    ------
    FormulaError
        If the column has no levels, or the contrasts or the levels are not allowed.
    UnknownColumnError
        If the column is not in the schema.
    """
    names = Names()
    try:
        call = ast.parse(names.quote(text).strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    if not isinstance(call, ast.Call) or function_name(call.func) != "C":
        return None
    arguments = _arguments(text, call, ("data", "contrasts"), ("levels",))
    name = _column_name(text, arguments.pop("data", None), names)
    if name not in schema:
        raise UnknownColumnError(name, schema)
    column = schema[name]
    levels = column.level_texts
    if not levels:
        raise FormulaError(
            text,
            f"{name} is declared as {column!r}, which has no levels" + _too_many(column),
            f"declare it as a Category, or use ranges such as I({name} > {getattr(column, 'lower', 0):g})",
        )
    order = _order(text, arguments.get("levels"), column)
    contrasts = _contrasts(text, arguments.get("contrasts"), column)
    return CategoricalFactor(name, levels, order, contrasts)


def _too_many(column: Column) -> str:
    return " (or more than a hundred)" if column.kind == "integer" else ""


def _arguments(text: str, call: ast.Call, positional: Sequence[str], keywords: Sequence[str]) -> dict[str, ast.expr]:
    allowed = [*positional, *keywords]
    if len(call.args) > len(positional) or any(isinstance(a, ast.Starred) for a in call.args):
        raise FormulaError(text, "has too many arguments by position", f"allowed: {', '.join(allowed) or 'none'}")
    found = dict(zip(positional, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg not in allowed or keyword.arg in found:
            raise FormulaError(
                text, f"the argument {keyword.arg} is not allowed", f"allowed: {', '.join(allowed) or 'none'}"
            )
        found[keyword.arg] = keyword.value
    return found


def _column_name(text: str, node: ast.expr | None, names: Names) -> str:
    if isinstance(node, ast.Call) and function_name(node.func) == "Q" and len(node.args) == 1:
        node = ast.Name(str(_value(text, node.args[0])))
    if not isinstance(node, ast.Name):
        raise FormulaError(
            text,
            "C() takes the name of a column",
            "write an expression of columns without C(), as in I(age > 40)",
        )
    return names.name(node.id)


def _value(text: str, node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        raise FormulaError(text, f"{ast.unparse(node)} is no constant", "write the constant itself") from None


def _level_index(text: str, value: object, column: Column) -> int:
    levels = column.level_texts
    spelled = Category(levels).find(value) if isinstance(value, str | int | float) else None
    if isinstance(column, Category) and isinstance(value, str | int | float):
        spelled = column.find(value)
    if spelled is None:
        raise FormulaError(text, f"{value!r} is not a level", f"the levels are {', '.join(map(repr, levels))}")
    return spelled


def _order(text: str, node: ast.expr | None, column: Column) -> tuple[int, ...]:
    count = len(column.level_texts)
    if node is None:
        return tuple(range(count))
    values = _value(text, node)
    if not isinstance(values, list | tuple):
        raise FormulaError(text, "levels is not a list", "write levels=['a', 'b']")
    order = tuple(_level_index(text, value, column) for value in values)
    if sorted(order) != list(range(count)):
        every = ", ".join(map(repr, column.level_texts))
        raise FormulaError(text, "levels has to name every level of the column once", f"the levels are {every}")
    return order


def _contrasts(text: str, node: ast.expr | None, column: Column) -> Any:
    if node is None:
        return TreatmentContrasts()
    called = isinstance(node, ast.Call)
    name = function_name(node.func if isinstance(node, ast.Call) else node)
    if name not in _SHAPES:
        raise FormulaError(text, f"{ast.unparse(node)} is not an allowed contrast", f"allowed: {', '.join(_SHAPES)}")
    shape, parameters = _SHAPES[name]
    if not called:
        return shape()
    given = _arguments(text, node, parameters, ()) if isinstance(node, ast.Call) else {}
    options: dict[str, Any] = {}
    for key, value in given.items():
        options["base" if key == "reference" else key] = _option(text, key, _value(text, value), column)
    return shape(**options)


def _option(text: str, name: str, value: Any, column: Column) -> Any:
    if name in ("base", "reference"):
        return column.level_texts[_level_index(text, value, column)]
    if name == "scores":
        count = len(column.level_texts)
        numbers = isinstance(value, list | tuple) and all(type(v) in (int, float) for v in value)
        if not numbers or len(value) != count or len(set(value)) != count:
            raise FormulaError(text, "scores does not fit", f"write a list of {count} different numbers")
        return list(value)
    if not isinstance(value, bool):
        raise FormulaError(text, f"{name}={value!r} is not valid", "expected True or False")
    return value


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


_POWERS = ("**", "^")
_COMPARISONS = ("<", ">", "==", "!=")


def check_powers(quoted: str, names: Names) -> None:
    """Refuse a power that would leave out what it was written for.

    Parameters
    ----------
    quoted : str
        A formula that formulaic parses, its names in backticks replaced.
    names : Names
        Puts them back.

    Raises
    ------
    FormulaError
        If fewer than two terms are raised to a power above one.
    """
    for power in _powers(DefaultFormulaParser().get_ast(quoted)):
        base, exponent = (_source(part, quoted) for part in power.args)
        if exponent != "1" and _terms(power.args[0]) == 1:
            sign = power.operator.symbol
            raise FormulaError(
                names.restore(f"{base}{sign}{exponent}"),
                f"{sign} crosses the terms of a sum, and one term it leaves as it is",
                names.restore(f"write I({base}**{exponent}) for the power"),
            )


def refuse_comparison(quoted: str, names: Names) -> None:
    """Refuse a comparison outside of I(), with the right spelling; pass a formula without one.

    Raises
    ------
    FormulaError
    """
    tokens = [token for token in DefaultFormulaParser().get_tokens(quoted) if token.source_start is not None]
    signs = [place for place, token in enumerate(tokens) if _compares(token) and 0 < place < len(tokens) - 1]
    if not signs:
        return
    first = last = signs[0]
    while last + 2 in signs:  # a chain, as in 18 <= age < 65
        last += 2
    left, right = tokens[first - 1], tokens[last + 1]
    if Token.Kind.OPERATOR in (left.kind, right.kind):
        return
    if Token.Kind.CONTEXT in (left.kind, right.kind):
        raise FormulaError(names.restore(quoted), "holds a comparison outside of I()", "write I(...) around it")
    written = names.restore(quoted[left.source_start : right.source_end + 1])
    raise FormulaError(written, "is a comparison outside of I()", f"write I({written})")


def _compares(token: Token) -> bool:
    # Signs that follow each other are one token, as in x >=-3.
    return token.kind is Token.Kind.OPERATOR and str(token).startswith(_COMPARISONS)


def _powers(tree: Any) -> Iterator[ASTNode]:
    if isinstance(tree, ASTNode):
        if tree.operator.symbol in _POWERS:
            yield tree
        for part in tree.args:
            yield from _powers(part)


def _terms(base: ASTNode | Token) -> int:
    """How many terms there are beside the constant; none in a number."""
    if isinstance(base, Token):
        return int(base.kind is not Token.Kind.VALUE)
    return sum(str(term) not in ("0", "1") for term in base.to_terms())


def _source(part: ASTNode | Token, quoted: str) -> str:
    """Return what was written, in parentheses if it is more than one name or call."""
    if isinstance(part, Token):
        return str(part)
    tokens = list(_tokens(part))
    return f"({quoted[min(t.source_start for t in tokens) : max(t.source_end for t in tokens) + 1]})"


def _tokens(tree: Any) -> Iterator[Token]:
    if isinstance(tree, ASTNode):
        for part in tree.args:
            yield from _tokens(part)
    elif tree.source_start is not None:
        yield tree


_NUMBERS = Real(0, 1)
"""Reads numbers of any storage; its bounds are not applied."""


@dataclass(frozen=True, eq=False)
class FormulaDesign:
    """The right side of a formula, evaluated at public points and never at rows.

    Attributes
    ----------
    schema : Schema
        Declares levels and bounds.
    columns : tuple of DesignColumn, length p
        The compiled columns, in the order of the parameters.

    Examples
    --------
    >>> import pandas as pd
    >>> from dpinfer.schema import Category, Real, Schema, compile_formula
    >>> schema = Schema(y=Real(0, 1), age=Real(0, 100), race=Category(["a", "b"]))
    >>> design = FormulaDesign(schema, compile_formula("y ~ age + I(age**2) + race", schema).design)
    >>> design.rows(design.read(pd.DataFrame({"age": [3, 120], "race": ["a", "b"]}))).tolist()
    [[1.0, 3.0, 9.0, 0.0], [1.0, 120.0, 14400.0, 1.0]]
    """

    schema: Schema
    columns: tuple[DesignColumn, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """Schema columns read, in the order in which the design names them."""
        return tuple(dict.fromkeys(name for column in self.columns for name in column.columns))

    @cached_property
    def terms(self) -> dict[str, tuple[int, ...]]:
        """Positions of the columns of each term; the constant's term is called "Intercept"."""
        found: dict[str, tuple[int, ...]] = {}
        for place, column in enumerate(self.columns):
            term = "Intercept" if column.term == "1" else column.term
            found[term] = (*found.get(term, ()), place)
        return found

    @cached_property
    def coded(self) -> frozenset[str]:
        """Schema columns that the formula takes as factors."""
        return frozenset(name for column in self.columns for name, _ in column.codings)

    def read(self, points: pd.DataFrame) -> dict[str, Array]:
        """Read public points.

        Parameters
        ----------
        points : DataFrame (m, ...)
            Columns of the schema; those that the formula does not read are not looked at.

        Returns
        -------
        dict of str to ndarray (m,)
            Numbers by schema column; of a category the indices of levels. Values beyond declared bounds stay.

        Raises
        ------
        UnknownColumnError
            Where a column is missing.
        OptionError
            Where a value is no declared level, or no finite number.
        """
        for name in self.variables:
            if name not in points.columns:
                raise UnknownColumnError(name, points.columns, "exog")
        return {name: self._read(name, points[name]) for name in self.variables}

    def holds_cells(self, points: pd.DataFrame) -> bool:
        """Whether dates, or codes of truth values, are among the points: cells, and not numbers."""
        coded = [name for name in self.variables if isinstance(self.schema[name], Date | Boolean) and name in points]
        return any(not isinstance(points[name].dtype, np.dtype) or points[name].dtype.kind in "OMSU" for name in coded)

    def _read(self, name: str, given: pd.Series[Any]) -> Array:
        column = self.schema[name]
        if isinstance(column, Category):
            found = [column.find(value) for value in given.tolist()]
            wrong = np.array([index is None for index in found], dtype=bool)
            values = np.array([0 if index is None else index for index in found], dtype=np.float64)
            expected: str | Sequence[object] = column.levels
        else:
            plain = given.dtype.kind in "iufb" and isinstance(given.dtype, np.dtype)
            cells = given.to_numpy() if plain else given.to_numpy(dtype=object)
            values = _NUMBERS.coerce(cells)
            if isinstance(column, Date | Boolean):  # dates and codes are read as cells, numbers as what they stand for
                values = np.where(
                    np.isfinite(values), values, replace(column, missing=DROP, impossible=DROP).coerce(cells)
                )
            wrong, expected = ~np.isfinite(values), "a finite number"
            if name in self.coded:
                levels = column.level_texts
                lower = float(getattr(column, "lower", 0.0))
                with np.errstate(invalid="ignore"):
                    off = (values != np.floor(values)) | (values < lower) | (values >= lower + len(levels))
                wrong, expected = wrong | off, levels
        if wrong.any():
            value = plain_scalar(given.iloc[int(np.argmax(wrong))])
            wanted = expected if isinstance(expected, str) else "one of " + ", ".join(map(repr, expected))
            raise OptionError(f"exog[{name!r}]", value, wanted)
        return np.array(values, dtype=np.float64)

    def rows(self, values: Mapping[str, Array], size: int | None = None) -> Array:
        """Return the design (m, p) at values as `read` gives them, of ``size`` points if no column is read.

        Raises
        ------
        FormulaError
            Where a term has no finite value at a point.
        """
        count = next((len(one) for one in values.values()), 1) if size is None else size
        return np.column_stack([self._column(column, values, count) for column in self.columns])

    def _column(self, column: DesignColumn, values: Mapping[str, Array], count: int) -> Array:
        used = {name: values[name] for name in column.expression.columns}
        found = np.broadcast_to(column.expression.evaluate(used), (count,)).astype(np.float64)
        if not np.isfinite(found).all():
            place = int(np.argmin(np.isfinite(found)))
            where = ", ".join(f"{name} = {self.cell(name, used[name][place])}" for name in used)
            raise FormulaError(column.term, f"has no finite value at {where}", "give points where it is defined")
        for name, weights in column.codings:
            found = found * np.array(weights)[self.schema[name].level_index(values[name])]
        return found

    def cell(self, name: str, value: float) -> str:
        """Write a value of a column: a level as its text, a number as number."""
        column = self.schema[name]
        return column.level_texts[int(value)] if isinstance(column, Category) else f"{value:.6g}"

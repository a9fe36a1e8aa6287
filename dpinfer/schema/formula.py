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
from formulaic.transforms import contrasts as coding

from dpinfer.checks import are_texts, of_type, require
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

_CONTRASTS: dict[str, tuple[type[Any], tuple[str, ...]]] = {
    "contr.treatment": (coding.TreatmentContrasts, ("base",)),
    "contr.SAS": (coding.SASContrasts, ("base",)),
    "contr.sum": (coding.SumContrasts, ()),
    "contr.helmert": (coding.HelmertContrasts, ("reverse", "scale")),
    "contr.diff": (coding.DiffContrasts, ("backward",)),
    "contr.poly": (coding.PolyContrasts, ("scores",)),
    "Treatment": (coding.TreatmentContrasts, ("reference",)),
    "Sum": (coding.SumContrasts, ()),
    "Helmert": (coding.HelmertContrasts, ("reverse", "scale")),
    "Diff": (coding.DiffContrasts, ("backward",)),
    "Poly": (coding.PolyContrasts, ("scores",)),
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
        return coding.C(pd.Series(levels, dtype=object), self.contrasts, levels=self.ordered_levels)

    def weights(self, *, reduced: bool) -> list[tuple[float, ...]]:
        """Give the columns of the coding: for each, the weight of every level by the column's level index."""
        matrix = self.contrasts.get_coding_matrix(self.ordered_levels, reduced_rank=reduced).to_numpy()
        return [tuple(map(float, column)) for column in matrix[np.argsort(self.order)].T]


def _marked_factor(text: str, schema: Schema) -> CategoricalFactor | None:
    """Read a factor such as ``C(race, contr.treatment("b"))``; None if the text is no call of ``C``."""
    names = Names()
    call = _tree(text, names)
    if not isinstance(call, ast.Call) or function_name(call.func) != "C":
        return None
    given = _arguments(text, call, ("data", "contrasts"), ("levels",))
    node = given.get("data")
    if isinstance(node, ast.Call) and function_name(node.func) == "Q" and len(node.args) == 1:
        node = ast.Name(str(_value(text, node.args[0])))
    if not isinstance(node, ast.Name):
        instead = "write an expression of columns without C(), as in I(age > 40)"
        raise FormulaError(text, "C() takes the name of a column", instead)
    name = names.name(node.id)
    column = schema[name]
    if not column.level_texts:
        many = " (or more than a hundred)" if column.kind == "integer" else ""
        instead = f"declare it as a Category, or use ranges such as I({name} > {getattr(column, 'lower', 0):g})"
        raise FormulaError(text, f"{name} is declared as {column!r}, which has no levels{many}", instead)
    order = _order(text, given.get("levels"), column)
    return CategoricalFactor(name, column.level_texts, order, _contrasts(text, given.get("contrasts"), column))


def _tree(text: str, names: Names) -> ast.expr | None:
    """Parse a text; None where it is no expression."""
    try:
        return ast.parse(names.quote(text).strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _arguments(text: str, call: ast.Call, places: Sequence[str], words: Sequence[str] = ()) -> dict[str, ast.expr]:
    allowed = [*places, *words]
    right = f"allowed: {', '.join(allowed) or 'none'}"
    if len(call.args) > len(places) or any(isinstance(a, ast.Starred) for a in call.args):
        raise FormulaError(text, "has too many arguments by position", right)
    found = dict(zip(places, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg not in allowed or keyword.arg in found:
            raise FormulaError(text, f"the argument {keyword.arg} is not allowed", right)
        found[keyword.arg] = keyword.value
    return found


def _value(text: str, node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        raise FormulaError(text, f"{ast.unparse(node)} is no constant", "write the constant itself") from None


def _level_index(text: str, value: object, column: Column) -> int:
    levels = column.level_texts
    category = column if isinstance(column, Category) else Category(levels)
    index = category.find(value) if isinstance(value, str | int | float) else None
    if index is None:
        raise FormulaError(text, f"{value!r} is not a level", f"the levels are {', '.join(map(repr, levels))}")
    return index


def _order(text: str, node: ast.expr | None, column: Column) -> tuple[int, ...]:
    every = tuple(range(len(column.level_texts)))
    if node is None:
        return every
    values = _value(text, node)
    if not isinstance(values, list | tuple):
        raise FormulaError(text, "levels is not a list", "write levels=['a', 'b']")
    order = tuple(_level_index(text, value, column) for value in values)
    if sorted(order) != list(every):
        right = f"the levels are {', '.join(map(repr, column.level_texts))}"
        raise FormulaError(text, "levels has to name every level of the column once", right)
    return order


def _contrasts(text: str, node: ast.expr | None, column: Column) -> Any:
    if node is None:
        return coding.TreatmentContrasts()
    name = function_name(node.func if isinstance(node, ast.Call) else node)
    if name not in _CONTRASTS:
        allowed = f"allowed: {', '.join(_CONTRASTS)}"
        raise FormulaError(text, f"{ast.unparse(node)} is not an allowed contrast", allowed)
    kind, parameters = _CONTRASTS[name]
    given = _arguments(text, node, parameters) if isinstance(node, ast.Call) else {}
    options = {key: _option(text, key, _value(text, value), column) for key, value in given.items()}
    return kind(**{"base" if key == "reference" else key: option for key, option in options.items()})


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
    return _compiled(of_type(str, "formula", formula, "a text, such as 'y ~ x'"), schema)


@lru_cache(maxsize=128)
def _compiled(formula: str, schema: Schema) -> CompiledFormula:
    """Compile a formula once for all schemas that declare the same."""
    names = Names()
    left, right = _sides(formula, names)
    compiler = _FormulaCompiler(schema, names)
    design = compiler.columns(right)
    if not design:
        raise FormulaError(formula, "has no terms on its right side", "write at least one, such as 1")
    response = compiler.response(left, formula) if left is not None else None
    used = [*design, *([response] if response else [])]
    columns = tuple(sorted({name for column in used for name in column.columns}))
    intercept = any(column.name == "Intercept" and column.term == "1" for column in design)
    return CompiledFormula(formula, response, design, columns, intercept)


def two_sided(formula: str, schema: Schema) -> CompiledFormula:
    """Compile a formula; refuse one without a dependent variable."""
    compiled = compile_formula(formula, schema)
    if compiled.response is None:
        raise FormulaError(formula, "has no dependent variable", 'write "y ~ x"')
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
    right = "a list of columns or terms, such as ['age', 'log(1 + income)']"
    texts = not isinstance(terms, str) and len(terms) and are_texts(terms)
    require(texts, "terms", terms, right)
    return compile_formula(" + ".join(["0", *(_as_term(term, schema) for term in terms)]), schema)


def _as_term(term: str, schema: Schema) -> str:
    if term in schema:
        return f"`{term}`"
    if isinstance(_tree(term, Names()), ast.BinOp | ast.UnaryOp | ast.Compare | ast.BoolOp):
        raise FormulaError(term, "is arithmetic outside of I()", f"write I({term})")
    if "~" in term or not term.strip():
        raise FormulaError(term, "is not a term", "write a column or an expression")
    return term


_MARKS = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)|[()\[\]]""")


def brackets_of(formula: str) -> list[tuple[int, int]]:
    """Return where brackets outside of parentheses, quotes and other brackets open and close in a formula."""
    found: list[tuple[int, int]] = []
    opened: list[re.Match[str]] = []
    for mark in _MARKS.finditer(formula):
        if mark[0] in ("(", "["):
            opened.append(mark)
        elif mark[0] in (")", "]") and opened:
            start = opened.pop()
            if not opened and start[0] == "[":
                found.append((start.start(), mark.start()))
    return found


def _sides(formula: str, names: Names) -> tuple[SimpleFormula | None, SimpleFormula]:
    """Parse a formula with formulaic, quoted names replaced by identifiers."""
    quoted = names.quote(formula)
    if not formula.strip():
        raise FormulaError(repr(formula), "is empty", "write a formula such as 'y ~ x'")
    if brackets_of(formula):
        instead = 'write it for dpi.iv, as in dpi.iv("y ~ 1 + w + [x ~ z]", data)'
        raise FormulaError(formula, "has brackets, which name endogenous regressors and their instruments", instead)
    try:
        parsed = Formula(quoted)
    except Exception as error:
        reason = re.split(r"\n| \(tip", names.restore(str(error)))[0].rstrip(".")
        if "`.` operator" in reason:
            raise FormulaError(formula, ". is not allowed", "list the columns by name") from error
        if "Unknown operator" in reason:
            _refuse_comparison(quoted, names)
        raise FormulaError(formula, f"is not a valid formula: {reason[:120]}") from error
    _check_powers(quoted, names)
    left, right = (parsed.lhs, parsed.rhs) if hasattr(parsed, "lhs") else (None, parsed)
    for side in (left, right):
        if side is not None and not isinstance(side, SimpleFormula):
            raise FormulaError(formula, "has several parts", "write one formula without |")
    return left, right


class _FormulaCompiler:
    """Read the factors of a formula, have formulaic lay out the terms, and bound every column."""

    def __init__(self, schema: Schema, names: Names) -> None:
        self.schema = schema
        self.names = names
        self.factors: dict[str, Expression | CategoricalFactor] = {}

    def response(self, side: SimpleFormula, formula: str) -> DesignColumn:
        """Compile the left side: one numeric column."""
        columns = self.columns(side)
        text = " + ".join(dict.fromkeys(column.term for column in columns)) or formula
        if any(column.codings for column in columns):
            instead = f"compare it with a level, as in I({columns[0].codings[0][0]} == ...)"
            raise FormulaError(text, "a category cannot be the response", instead)
        if len(columns) != 1 or columns[0].expression.constant is not None:
            raise FormulaError(text, "the response has to be one column or expression", "write I(a + b) for a sum")
        return columns[0]

    def columns(self, side: SimpleFormula) -> tuple[DesignColumn, ...]:
        """Compile one side of a formula."""
        terms = [Term([self._factor(factor) for factor in term.factors]) for term in side]
        columns = [column for one in self._structure(terms) for column in self._term_columns(one)]
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
            if isinstance(column, Category):
                order, contrasts = _order(text, None, column), coding.TreatmentContrasts()
                self.factors[text] = CategoricalFactor(text, column.level_texts, order, contrasts)
            else:
                self.factors[text] = column_expression(text, self.schema)
        else:
            text = self.names.restore(factor.expr)
            self.factors[text] = _marked_factor(text, self.schema) or compile_expression(text, self.schema)
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

    def _term_columns(self, structure: Any) -> list[DesignColumn]:
        text = ":".join(factor.expr for factor in structure.term.factors)
        columns: list[tuple[Expression, Sequence[tuple[str, tuple[float, ...]]]]] = []
        for scoped in structure.scoped_terms:
            factors = [(self.factors[s.factor.expr], bool(s.reduced)) for s in scoped.factors]
            numeric = [f for f, _ in factors if isinstance(f, Expression)]
            part = product([constant_expression(float(scoped.scale)), *numeric])
            coded = [
                [(f.name, weights) for weights in f.weights(reduced=reduced)]
                for f, reduced in factors
                if isinstance(f, CategoricalFactor)
            ]
            # Formulaic lets the first factor run fastest.
            columns += [(part, crossed[::-1]) for crossed in cartesian(*reversed(coded))]
        if len(columns) != len(structure.columns):
            raise FormulaError(text, "two columns of the term have the same name", "rename a column or a level")
        pairs = zip(structure.columns, columns, strict=True)
        return [DesignColumn(name, text, part, _merged(codings)) for name, (part, codings) in pairs]


def _merged(codings: Sequence[tuple[str, tuple[float, ...]]]) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Join the weights of a category that takes part twice."""
    merged: dict[str, tuple[float, ...]] = {}
    for name, weights in codings:
        before = merged.get(name, (1.0,) * len(weights))
        merged[name] = tuple(a * b + 0.0 for a, b in zip(before, weights, strict=True))
    return tuple(merged.items())


def _check_powers(quoted: str, names: Names) -> None:
    """Refuse a power that would leave out what it was written for: fewer than two terms raised to one above one.

    In a formula ``**`` and ``^`` join terms: ``(a + b)**2`` is ``a + b + a:b``, and ``age**2`` is ``age`` alone. Who
    writes the latter means arithmetic, which stands inside ``I()``.
    """
    for power in _walk(DefaultFormulaParser().get_ast(quoted)):
        if not isinstance(power, ASTNode) or power.operator.symbol not in ("**", "^"):
            continue
        base, exponent = (_written(part, quoted) for part in power.args)
        first, sign = power.args[0], power.operator.symbol
        if isinstance(first, Token):
            terms = int(first.kind is not Token.Kind.VALUE)
        else:
            terms = sum(str(term) not in ("0", "1") for term in first.to_terms())
        if exponent != "1" and terms == 1:
            raise FormulaError(
                names.restore(f"{base}{sign}{exponent}"),
                f"{sign} crosses the terms of a sum, and one term it leaves as it is",
                names.restore(f"write I({base}**{exponent}) for the power"),
            )


def _refuse_comparison(quoted: str, names: Names) -> None:
    """Refuse a comparison outside of I(), with the right spelling; pass a formula without one."""
    tokens = [token for token in DefaultFormulaParser().get_tokens(quoted) if token.source_start is not None]
    # Signs that follow each other are one token, as in x >=-3.
    signs = [
        place
        for place, token in enumerate(tokens[:-1])
        if place and token.kind is Token.Kind.OPERATOR and str(token).startswith(("<", ">", "==", "!="))
    ]
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


def _walk(tree: Any) -> Iterator[ASTNode | Token]:
    yield tree
    for part in tree.args if isinstance(tree, ASTNode) else ():
        yield from _walk(part)


def _written(part: ASTNode | Token, quoted: str) -> str:
    """Return what was written, in parentheses if it is more than one name or call."""
    if isinstance(part, Token):
        return str(part)
    tokens = [one for one in _walk(part) if isinstance(one, Token) and one.source_start is not None]
    return f"({quoted[min(t.source_start for t in tokens) : max(t.source_end for t in tokens) + 1]})"


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
        plain = given.dtype.kind in "iufb" and isinstance(given.dtype, np.dtype)
        cells = given.to_numpy() if plain else given.to_numpy(dtype=object)
        values, expected = _NUMBERS.coerce(cells), "a finite number"
        if isinstance(column, Category | Date | Boolean):
            # Levels, dates and codes are read as cells; numbers of the latter two as what they stand for.
            known = replace(column, missing=DROP, impossible=DROP).coerce(cells)
            values = known if isinstance(column, Category) else np.where(np.isfinite(values), values, known)
        wrong = ~np.isfinite(values)
        if name in self.coded or isinstance(column, Category):
            listed: Sequence[object] = column.levels if isinstance(column, Category) else column.level_texts
            expected, lower = "one of " + ", ".join(map(repr, listed)), column.limits[0]
            with np.errstate(invalid="ignore"):
                wrong |= (values != np.floor(values)) | (values < lower) | (values >= lower + len(listed))
        if wrong.any():
            raise OptionError(f"exog[{name!r}]", plain_scalar(given.iloc[int(np.argmax(wrong))]), expected)
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

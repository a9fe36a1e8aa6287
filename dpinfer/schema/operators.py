"""Signs that are operators of formulas and look like arithmetic.

In a formula ``**`` and ``^`` join terms: ``(a + b)**2`` is ``a + b + a:b``, and ``age**2`` is ``age`` alone. Who
writes the latter means arithmetic, which stands inside ``I()``. A comparison at the top level is no operator at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formulaic.parser import DefaultFormulaParser
from formulaic.parser.types import ASTNode, Token

from dpinfer.errors import FormulaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpinfer.schema.syntax import Names

__all__ = ["check_powers", "refuse_comparison"]

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

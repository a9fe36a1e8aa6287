"""The columns of a regression, as features that are measured and as combinations of these."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from dpinfer.errors import FormulaError, NotProvedError, OptionError
from dpinfer.kernel.rows.features import Features, RowClip
from dpinfer.kernel.rows.products import GramSum
from dpinfer.kernel.stage import Stage, Sum
from dpinfer.numerics.reading import floats
from dpinfer.schema.basis import Basis, build_basis, represent
from dpinfer.schema.expressions import Expression, compile_expression
from dpinfer.schema.formula import CompiledFormula, DesignColumn, compile_formula, compile_terms

if TYPE_CHECKING:
    import numpy as np

    from dpinfer.schema.schema import Schema

__all__ = ["GramDesign", "two_sided"]


@dataclass(frozen=True, eq=False)
class GramDesign:
    """The columns of regressions, compiled against a schema: what is measured, and how coefficients are read from it.

    Attributes
    ----------
    schema : Schema
    formula : str, optional
        The regression, if one was asked for.
    terms : tuple of str
        The columns, if a Gram was asked for.
    where : str, optional
    row_norm : float, optional
    norm : str
    clamped_share : float
        Above 0, clamped rows are counted.
    """

    schema: Schema
    formula: str | None = None
    terms: tuple[str, ...] = ()
    where: str | None = None
    row_norm: float | None = None
    norm: str = "l2"
    clamped_share: float = 0.0

    @cached_property
    def compiled(self) -> CompiledFormula:
        """The columns asked for."""
        if self.formula is None:
            return compile_terms(self.terms, self.schema)
        return two_sided(self.formula, self.schema)

    @cached_property
    def columns(self) -> tuple[DesignColumn, ...]:
        """Regressors, then the response if there is one."""
        response = self.compiled.response
        return self.compiled.design if response is None else (*self.compiled.design, response)

    @cached_property
    def basis(self) -> Basis:
        """The features measured."""
        return build_basis(self.columns, self.schema)

    @cached_property
    def design(self) -> np.ndarray:
        """Regressors, then response, as combinations of the features (p + 1, d)."""
        return represent(self.basis, self.columns)

    @cached_property
    def condition(self) -> Expression | None:
        """The compiled ``where``."""
        if self.where is None:
            return None
        if not isinstance(self.where, str):
            raise OptionError("where", self.where, 'a condition such as "age >= 18", or None')
        condition = compile_expression(self.where, self.schema)
        if not condition.boolean:
            raise FormulaError(self.where, "is not a condition", 'write a comparison, such as "age >= 18"')
        return condition

    @cached_property
    def rows(self) -> Features:
        """The row function."""
        clip = None
        if self.row_norm is not None:
            clip = RowClip(self.row_norm, self.norm)  # type: ignore[arg-type]
        return Features(self.basis, self.condition, clip, self.clamped_share > 0)

    def check(self) -> None:
        """Compile everything, and so refuse what cannot be served before anything is measured."""
        rows = self.rows
        if self.formula is not None:
            represent(rows.basis, self.columns)
        if self.row_norm is not None:
            self.response_is_last()

    @property
    def has_plain_response(self) -> bool:
        """Whether the response is one numeric feature of its own."""
        response, last = self.compiled.response, self.basis.blocks[-1]
        return not (response is None or last.factors or last.expression.text != response.expression.text)

    def response_is_last(self) -> None:
        """Refuse a bound on regressors, or a split price, where the response is not one numeric feature of its own.

        Raises
        ------
        NotProvedError
        """
        if not self.has_plain_response:
            raise NotProvedError("row_norm= and split= are proved for a response that is a numeric feature of its own")

    def stage(self, split: tuple[float, float, float] | None = None) -> Stage:
        """Ask for the cross-products, priced jointly unless ``split`` gives shares of the price for X'X, X'y and y'y.

        Raises
        ------
        OptionError
            If the shares are no shares.
        """
        self.check()
        if split is not None:
            self.response_is_last()
        rows = GramSum(self.rows, split=split is not None)
        pieces = (1.0,) if split is None else _check_split(split)
        clamped = self.clamped_share
        if len(rows.parts) == 1:
            return Stage(Sum(rows))
        counted = [clamped] if clamped > 0 else []
        return Stage(Sum(rows, shares=(*(share * (1 - clamped) for share in pieces), *counted)))


@lru_cache(maxsize=128)
def two_sided(formula: str, schema: Schema) -> CompiledFormula:
    """Compile a formula; refuse one without a dependent variable or regressors."""
    compiled = compile_formula(formula, schema)
    if compiled.response is None:
        raise FormulaError(formula, "has no dependent variable", 'write "y ~ x"')
    if not compiled.design:
        raise FormulaError(formula, "has no regressors", 'write at least "y ~ 1"')
    return compiled


def _check_split(split: tuple[float, float, float]) -> tuple[float, float, float]:
    """Return the shares of X'X, X'y and y'y as floats; refuse what is not three positive shares of one."""
    shares = floats(split)
    if shares is None or len(shares) != 3 or not (min(shares) > 0 and abs(sum(shares) - 1) <= 1e-9):
        raise OptionError("split", split, "three positive shares for X'X, X'y and y'y that sum to 1")
    return shares[0], shares[1], shares[2]

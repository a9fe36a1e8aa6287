"""Bootstrapped sums, compiled against a schema: what is summed, and how statistics are read from the sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import FormulaError, MissingFromReleaseError, OptionError
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.resampled import ReplicateSum, Resampling
from dpinfer.numerics.arithmetic import Arithmetic
from dpinfer.procedures.conditions import compiled_where, quoted, told_where
from dpinfer.procedures.sum_plan import SumPlan
from dpinfer.release.laws import NoiseLaw
from dpinfer.schema.axes import compile_condition
from dpinfer.schema.basis import build_basis, represent
from dpinfer.schema.category import Category
from dpinfer.schema.columns import Boolean
from dpinfer.schema.expressions import compile_expression
from dpinfer.schema.formula import two_sided

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dpinfer.schema.basis import Basis
    from dpinfer.schema.expressions import Expression
    from dpinfer.schema.formula import CompiledFormula, DesignColumn
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]
    Statistic = Callable[[Array], Array]

__all__ = ["STATISTICS", "BootstrapPlan", "Coefficients", "PublicTotal"]

_OF_MEANS = ("mean", "total", "proportion")
_OF_PRODUCTS = {"variance": "variance", "std": "variance", "cov": "cov", "corr": "corr"}
STATISTICS = (*_OF_MEANS, *_OF_PRODUCTS)
"""Names of statistics; a formula ``"y ~ x"`` and arithmetic of columns, which stand for their means, are others."""


@dataclass(frozen=True, eq=False)
class BootstrapPlan:
    """What is summed, how often, and what the sums are for, compiled against a schema.

    Attributes
    ----------
    schema : Schema
    columns : tuple of str
        Numeric expressions; for proportions conditions or categorical columns; empty for a regression.
    statistic : str
        One of `STATISTICS`, a formula, or arithmetic of the columns' means.
    replicates : int
    weights : {"double_or_nothing", "poisson", "public", "paired"}
    seed : int
        Of public weights.
    where : str, optional
    """

    schema: Schema
    columns: tuple[str, ...]
    statistic: str = "mean"
    replicates: int = 200
    weights: Resampling = "double_or_nothing"
    seed: int = 0
    where: str | None = None

    @property
    def regression(self) -> bool:
        """Whether coefficients of a formula are asked for."""
        return "~" in self.statistic

    @cached_property
    def compiled(self) -> CompiledFormula:
        """The regression."""
        return two_sided(self.statistic, self.schema)

    @cached_property
    def regressed(self) -> tuple[DesignColumn, ...]:
        """Regressors, then the response."""
        assert self.compiled.response is not None
        return (*self.compiled.design, self.compiled.response)

    @cached_property
    def basis(self) -> Basis:
        """The features whose sums, or cross-products of a regression, are measured."""
        return build_basis(self.regressed, self.schema) if self.regression else self.moments.basis

    @cached_property
    def moments(self) -> SumPlan:
        """The sums of powers that the statistic is a function of."""
        kind = _OF_PRODUCTS.get(self.statistic, "mean")
        columns = self.columns
        if self.statistic == "proportion":
            columns = tuple(text for text, _ in self.conditions)
        question = SumPlan(kind, self.schema, columns=columns, target="data")
        if not question.expressions:
            raise OptionError("columns", list(self.columns), "at least one column")
        if kind == "corr" and len(columns) < 2:
            raise OptionError("columns", list(self.columns), "two columns or more, for correlations")
        return question

    @cached_property
    def conditions(self) -> list[tuple[str, str]]:
        """Conditions whose shares are asked for, and their names; a categorical column gives one for each level."""
        found = []
        for column in self.columns:
            declared = self.schema.get(column)
            if isinstance(declared, Category):
                found += [(f"{quoted(column)} == {level!r}", f"{column}={level}") for level in declared.levels]
            elif isinstance(declared, Boolean):
                found.append((quoted(column), column))
            else:
                found.append((compile_condition(column, self.schema).text, column))
        return found

    @cached_property
    def arithmetic(self) -> Arithmetic | None:
        """The statistic as arithmetic of means; None where it is another."""
        if self.statistic in STATISTICS or self.regression:
            return None
        right = (
            f"one of {', '.join(STATISTICS)}; a formula such as 'y ~ x'; or arithmetic of the columns, which stand for "
            "their means, such as 'income / age'. Only functions of sums over rows can be bootstrapped: a median or a "
            "maximum is none"
        )
        try:
            found = Arithmetic(self.statistic)
        except FormulaError:
            raise OptionError("statistic", self.statistic, right) from None
        unknown = sorted(set(found.names) - set(self.columns))
        if unknown or not found.names:
            raise OptionError("statistic", self.statistic, f"{right}; columns: {', '.join(self.columns)}")
        return found

    @cached_property
    def condition(self) -> Expression | None:
        """The compiled ``where``."""
        return compiled_where(self.where, self.schema)

    @cached_property
    def rows(self) -> ReplicateSum:
        """The row function."""
        _ = self.arithmetic
        features = Features(self.basis, self.condition)
        return ReplicateSum(features, self.regression, self.replicates, self.weights, self.seed)

    def check(self) -> None:
        """Compile everything, and so refuse what cannot be served before anything is measured."""
        if self.regression:
            represent(self.basis, self.regressed)
            used = {name for name in self.schema if name in self.rows.features.columns}
            missing = sorted(used - {name for text in self.columns for name in self._used_by(text)})
            if self.columns and missing:
                raise OptionError("columns", list(self.columns), f"the formula's columns too: {', '.join(missing)}")
        _ = self.rows.names, self.names

    def _used_by(self, text: str) -> tuple[str, ...]:
        return (text,) if text in self.schema else compile_expression(text, self.schema).columns

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the estimates."""
        if self.regression:
            return tuple(column.name for column in self.compiled.design)
        if self.arithmetic is not None:
            return (self.arithmetic.of("mean"),)
        if self.statistic == "proportion":
            return tuple(name for _, name in self.conditions)
        if self.statistic in ("cov", "corr"):
            return tuple(self.moments.quantities)
        bare = [one.node.operation == "column" for one in self.moments.expressions]
        named = zip(self.moments.quantities, bare, strict=True)
        return tuple(text if plain else f"{self.statistic}({text})" for text, plain in named)

    @property
    def response(self) -> str:
        """What is described, so that the mean of a ratio and the ratio of means are told apart."""
        if self.regression:
            return self.regressed[-1].name
        one_each = self.arithmetic is not None or self.statistic in ("mean", "total", "variance", "std")
        return ", ".join(self.names if one_each else self.columns)

    def statistic_of(self, asked: BootstrapPlan) -> Statistic:
        """Return the function from sums of this question's features (R, d) to the estimates of another (R, p).

        Raises
        ------
        MissingFromReleaseError
            If the sums do not hold what is asked for.
        """
        if asked.regression:
            if not self.regression:
                raise MissingFromReleaseError("the release holds no cross-products, which a regression needs")
            return Coefficients(represent(self.basis, asked.regressed), self.basis.width)
        if self.regression or asked.rows.labels != self.rows.labels:
            raise MissingFromReleaseError(
                f"the release holds the sums of {self.text}, which do not give {asked.text}: measure that"
            )
        return asked.of_moments

    @property
    def design(self) -> Array:
        """Regressors as combinations of the features (p, d)."""
        return represent(self.basis, self.regressed)[:-1]

    def of_moments(self, sums: Array) -> Array:
        """Estimates (R, p) from sums of features (R, d), the number of rows first."""
        count = sums[:, :1]
        powers = sums @ self._mixing.T / count
        center, half = self.moments.scaled
        place = {exponent: index for index, exponent in enumerate(self.moments.exponents)}
        unit = [tuple(int(i == j) for j in range(len(center))) for i in range(len(center))]
        first = powers[:, [place[(*one, 0)] for one in unit]]
        means = center + half * first
        if self.arithmetic is not None:
            named = {text: means[:, index] for index, text in enumerate(self.columns)}
            return self.arithmetic.evaluate(named)[:, None]
        if self.statistic == "total":
            return np.asarray(count * means)
        if self.statistic not in _OF_PRODUCTS:
            return np.asarray(means)
        pairs = [(i, i) for i in range(len(center))]
        if self.statistic in ("cov", "corr"):
            pairs = list(combinations_with_replacement(range(len(center)), 2))
        both = [place[(*(a + b for a, b in zip(unit[i], unit[j], strict=True)), 0)] for i, j in pairs]
        left, right = [i for i, _ in pairs], [j for _, j in pairs]
        centred = (powers[:, both] - first[:, left] * first[:, right]) * count / (count - 1)
        if self.statistic == "corr":
            at = {pair: index for index, pair in enumerate(pairs)}
            off = [pair for pair in pairs if pair[0] < pair[1]]
            own = np.sqrt(centred[:, [at[(i, i)] for i in range(len(center))]])
            found = centred[:, [at[pair] for pair in off]]
            return np.asarray(found / (own[:, [i for i, _ in off]] * own[:, [j for _, j in off]]))
        values = centred * half[left] * half[right]
        return np.asarray(np.sqrt(values) if self.statistic == "std" else values)

    @cached_property
    def _mixing(self) -> Array:
        """Monomials of the columns as combinations of the features."""
        width = self.rows.width
        return self.moments.moment_sums(
            np.zeros((1, width)), NoiseLaw("gaussian", (1.0,) * width), np.ones(width)
        ).mixing

    @property
    def text(self) -> str:
        """The question in one line."""
        said = f"regression {self.statistic}" if self.regression else f"{self.statistic} of {', '.join(self.columns)}"
        if self.arithmetic is not None:
            said = self.arithmetic.of("mean")
        return f"bootstrap of {said}{told_where(self.where)}"


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Maps upper triangles of cross-products (R, d) to least-squares coefficients (R, p).

    Attributes
    ----------
    columns : ndarray (p + 1, width)
        Regressors, then the response, as combinations of the features.
    width : int
    """

    columns: Array
    width: int

    def __call__(self, sums: Array) -> Array:
        """Return the coefficients."""
        first, second = np.triu_indices(self.width)
        full = np.zeros((len(sums), self.width, self.width))
        full[:, first, second] = full[:, second, first] = sums
        crossed = self.columns @ full @ self.columns.T
        try:
            return np.asarray(np.linalg.solve(crossed[:, :-1, :-1], crossed[:, :-1, -1:])[..., 0])
        except np.linalg.LinAlgError:
            return np.full((len(sums), len(self.columns) - 1), np.nan)


@dataclass(frozen=True, eq=False)
class PublicTotal:
    """Maps sums (R, d) to totals of a public number of rows (R, p), which another sample would have too.

    Attributes
    ----------
    means : BootstrapPlan
    nobs : float
    """

    means: BootstrapPlan
    nobs: float

    def __call__(self, sums: Array) -> Array:
        """Return the totals."""
        return np.asarray(self.nobs * self.means.of_moments(sums))

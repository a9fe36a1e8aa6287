"""Sums in the cells of a table, compiled against a schema: which monomials of columns, and how moments are read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import FormulaError, OptionError, type_of
from dpinfer.inference.moments import MomentSums
from dpinfer.kernel.rows.cells import CellSum, PersonSum
from dpinfer.kernel.rows.features import Features
from dpinfer.procedures.conditions import compiled_where, told_where
from dpinfer.release.codec import encode
from dpinfer.release.laws import NORMAL_DRAWS
from dpinfer.schema.axes import Axis, axis_from_dict
from dpinfer.schema.basis import Basis, basis_of
from dpinfer.schema.expressions import Expression, compile_expression

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpinfer.inference.released import Released
    from dpinfer.release import NoiseLaw
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]
    Exponent = tuple[int, ...]

__all__ = ["MOMENTS", "TABLES", "SumPlan", "check_summed"]

MOMENTS = ("mean", "total", "variance", "cov", "corr", "multinormal")
"""Kinds that sum monomials of columns."""

TABLES = ("count", "table", "histogram", "proportion")
"""Kinds that count rows in cells."""

_SECOND_SHARE = {"mean": 0.25, "total": 0.25, "variance": 0.35, "cov": 0.45, "corr": 0.45}
"""Share of the noise budget that goes to the sums which serve standard errors alone."""

_WEIGHTED_SHARE = 0.5
"""The same where rows carry weights: their squares vary more."""

_MOST_COLUMNS = {"mean": 20, "total": 20, "variance": 8, "cov": 5, "corr": 5, "multinormal": 10}


@dataclass(frozen=True, eq=False)
class SumPlan:
    """What is summed in which cells.

    Attributes
    ----------
    kind : str
        One of `MOMENTS` or `TABLES`.
    schema : Schema
    columns : tuple of str
        Numeric expressions whose moments are asked for; empty for counts.
    axes : tuple of mapping
        The table, as `axis_to_dict` writes it: groups first, levels of a proportion last.
    where : str, optional
        Rows at which it does not hold count as absent.
    weights : str, optional
        Column of bounded survey weights.
    target : {"population", "data"}
        For the data themselves no sums for standard errors are needed.
    """

    kind: str
    schema: Schema
    columns: tuple[str, ...] = ()
    axes: tuple[Mapping[str, Any], ...] = ()
    where: str | None = None
    weights: str | None = None
    target: str = "population"

    @cached_property
    def expressions(self) -> tuple[Expression, ...]:
        """The columns, compiled and bounded."""
        found = tuple(compile_expression(text, self.schema) for text in self.columns)
        for expression in found:
            if expression.constant is not None:
                raise FormulaError(expression.text, "is the same for every row", "ask for something that differs")
        texts = [expression.text for expression in found]
        if len(set(texts)) < len(texts):
            raise OptionError("columns", list(self.columns), "different columns")
        most = _MOST_COLUMNS.get(self.kind, 0)
        if len(found) > most:
            raise OptionError(
                "columns", list(self.columns), f"at most {most} columns; a gram serves more at less noise"
            )
        return found

    @cached_property
    def weight(self) -> Expression | None:
        """The weight, compiled; bounded and not negative."""
        if self.weights is None:
            return None
        if not isinstance(self.weights, str):
            raise OptionError("weights", self.weights, "the name of a column of weights, or None")
        found = compile_expression(self.weights, self.schema)
        if found.lower < 0 or found.constant is not None:
            raise OptionError(
                "weights", self.weights, f"a column whose lower bound is not negative, not {found.lower:g}"
            )
        return found

    @cached_property
    def cells(self) -> tuple[Axis, ...]:
        """The axes as objects."""
        found = tuple(axis_from_dict(axis, self.schema) for axis in self.axes)
        names = [axis.name for axis in found]
        if len(set(names)) < len(names):
            raise OptionError("by", names, "different columns")
        return found

    @property
    def scaled(self) -> tuple[Array, Array]:
        """Middle and half width of every column; totals are kept in the columns' own units."""
        if self.kind == "total":
            return np.zeros(len(self.columns)), np.ones(len(self.columns))
        center = np.array([0.5 * e.lower + 0.5 * e.upper for e in self.expressions])
        half = np.array([0.5 * (e.upper - e.lower) for e in self.expressions])
        return center, half

    @cached_property
    def first(self) -> tuple[Exponent, ...]:
        """Monomials that the estimates are functions of, the count (or sum of weights) first."""
        count, weighted = len(self.columns), int(self.weight is not None)
        unit = [tuple(int(i == j) for j in range(count)) for i in range(count)]
        found: list[Exponent] = [] if self.kind == "total" else [(0,) * count]
        found += unit
        if self.kind in ("variance", "cov", "corr", "multinormal"):
            pairs = combinations_with_replacement(range(count), 2)
            found += [_added(unit[i], unit[j]) for i, j in pairs if i == j or self.kind != "variance"]
        return tuple((*exponent, weighted) for exponent in found)

    @cached_property
    def exponents(self) -> tuple[Exponent, ...]:
        """All monomials that are summed: the constant 1, the others of `first`, then products for errors."""
        found = dict.fromkeys(self.first)
        if self.target == "population" and not self.by_person:
            found |= dict.fromkeys(_added(a, b) for a, b in combinations_with_replacement(self.first, 2))
        constant = (0,) * (len(self.columns) + 1)
        found.pop(constant, None)
        return (constant, *found)

    @property
    def by_person(self) -> bool:
        """Whether people are summed rather than rows: the products for errors are then of a person's sums."""
        averaged = self.kind in ("mean", "total") and bool(self.columns) and self.weights is None
        return averaged and self.target == "population" and self.schema.rows_per_unit > 1

    @cached_property
    def person_exponents(self) -> tuple[Exponent, ...]:
        """Monomials that are summed over people: those of first power in a person's weight, then their products."""
        linear = [(*exponent[:-1], 1) for exponent in self.first]
        return (*linear, *(_added(a, b) for a, b in combinations_with_replacement(linear, 2)))

    @property
    def released(self) -> tuple[Exponent, ...]:
        """Monomials whose sums are released."""
        if self.by_person:
            return self.person_exponents
        return self.exponents if self.counted else self.exponents[1:]

    @property
    def counted(self) -> bool:
        """Whether the number of rows is released."""
        return self.kind != "total" or not self.columns

    @cached_property
    def basis(self) -> Basis:
        """The features: the constant and the monomials."""
        return basis_of(
            [self._text(exponent) for exponent in self.exponents[1:]], self.schema, centred=self.kind != "total"
        )

    def _text(self, exponent: Exponent) -> str:
        center, _ = self.scaled
        parts = []
        for expression, middle, power in zip(self.expressions, center.tolist(), exponent, strict=False):
            base = f"({expression.text})" if middle == 0 else f"(({expression.text}) - ({middle!r}))"
            parts += [base if power == 1 else f"{base}**{power}"] if power else []
        if exponent[-1] and self.weight is not None:
            parts.append(f"({self.weight.text})" + (f"**{exponent[-1]}" if exponent[-1] > 1 else ""))
        return " * ".join(parts)

    @cached_property
    def condition(self) -> Expression | None:
        """The compiled ``where``."""
        return compiled_where(self.where, self.schema)

    @cached_property
    def rows(self) -> CellSum:
        """The row sum."""
        kind = PersonSum if self.by_person else CellSum
        return kind(Features(self.basis, self.condition), self.cells, counted=self.counted)

    def noise_weights(self, *, pure: bool) -> list[float]:
        """Noise scale of every released feature relative to the first ones.

        Sums that serve standard errors alone share a fixed part of the budget, however many they are.
        """
        needed = set(self.first) | {(0,) * len(self.exponents[0])}
        second = [exponent[-1] > 1 if self.by_person else exponent not in needed for exponent in self.released]
        n_first, n_second = len(second) - sum(second), sum(second)
        share = _SECOND_SHARE.get(self.kind, 1.0)
        if self.weight is not None or self.by_person:
            share = max(share, _WEIGHTED_SHARE)
        ratio = n_second / max(n_first, 1) * (1 - share) / share
        weight = max(1.0, ratio if pure else ratio**0.5)
        return [weight if extra else 1.0 for extra in second]

    def check(self) -> None:
        """Compile everything, and so refuse what cannot be served before anything is measured."""
        _ = self.weight, self.rows.names

    def moment_sums(self, values: Array, law: NoiseLaw, steps: Array) -> MomentSums:
        """Turn released sums of R releases (R, m), in units of the scaled features, into sums of monomials.

        Sums over people are in units of a person with all rows at the bound.
        """
        mixing = _with_products(self._monomials) if self.by_person else self._monomials
        width = len(mixing)
        center, half = self.scaled
        sums = values.reshape(len(values), self.rows.size, width)
        return MomentSums(
            self.released,
            sums @ mixing.T,
            mixing,
            (law.variances * steps**2)[:width],
            laplace=law.family == "laplace" and law.draws < NORMAL_DRAWS,
            people=self.by_person,
            rows_per_unit=1 if self.by_person else self.schema.rows_per_unit,
            lower=(np.array([one.lower for one in self.expressions]) - center) / half,
            upper=(np.array([one.upper for one in self.expressions]) - center) / half,
            heaviest=1.0 if self.weight is None else float(self.weight.upper),
        )

    @property
    def _monomials(self) -> Array:
        """The monomials as combinations of the features."""
        _, half = self.scaled
        found = np.zeros((len(self.exponents), len(self.exponents)))
        found[0, 0] = 1.0
        for place, (exponent, block) in enumerate(zip(self.exponents[1:], self.basis.blocks[1:], strict=True), 1):
            unit = float(np.prod(half ** np.array(exponent[:-1])))
            found[place, 0], found[place, place] = block.center / unit, block.half / unit
        return found if self.counted else found[1:, 1:]

    @property
    def text(self) -> str:
        """The question in one line."""
        axes = [axis.name for axis in self.cells]
        if self.kind in MOMENTS:
            said = f"{self.kind} of {', '.join(self.columns)}"
            said += f" by {', '.join(axes)}" if axes else ""
        else:
            said = f"{self.kind} of {', '.join(axes)}" if axes else "count of rows"
        return said + (f", weights {self.weights}" if self.weights else "") + told_where(self.where)

    @property
    def quantities(self) -> list[str]:
        """Names of the moments that are asked for in each cell."""
        texts = [expression.text for expression in self.expressions]
        pairs = list(combinations_with_replacement(texts, 2))
        if self.kind == "cov":
            return [f"cov({a}, {b})" for a, b in pairs]
        correlations = [f"corr({a}, {b})" for a, b in pairs if a != b]
        if self.kind == "corr":
            return correlations
        if self.kind == "multinormal":
            return [*(f"mean({text})" for text in texts), *(f"sd({text})" for text in texts), *correlations]
        return texts

    @property
    def clamping(self) -> str:
        """The bounds to which values are clamped."""
        return ", ".join(f"{e.text} to [{e.lower:.6g}, {e.upper:.6g}]" for e in self.expressions)

    @property
    def asked(self) -> object:
        """What is asked of the rows, without the target, in comparable form."""
        return encode([self.kind, self.columns, self.axes, self.where, self.weights])


def _with_products(linear: Array) -> Array:
    """Return the combinations of a person's sums that give monomials, and products of two of them."""
    first, second = np.triu_indices(len(linear))
    products = linear[first][:, first] * linear[second][:, second]
    crossed = linear[first][:, second] * linear[second][:, first]
    width = len(linear) + len(first)
    mixing = np.zeros((width, width))
    mixing[: len(linear), : len(linear)] = linear
    mixing[len(linear) :, len(linear) :] = products + np.where(first == second, 0.0, crossed)
    return mixing


def _added(a: Exponent, b: Exponent) -> Exponent:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def check_summed(released: Released) -> None:
    """Refuse releases that hold no sums in cells.

    Raises
    ------
    OptionError
    """
    if not isinstance(released.rows, CellSum):
        raise OptionError("released", type_of(released.rows), "releases of sums in the cells of a table")

"""The procedure behind the rank and distribution tests of noisy counts of leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from dpinfer.errors import MissingFromReleaseError, NotProvedError, OptionError
from dpinfer.inference.testing.count_noise import count_noise
from dpinfer.inference.testing.distributions import GivenDistribution, TwoDistributions
from dpinfer.inference.testing.groups import ALTERNATIVES, Alternative
from dpinfer.inference.testing.nulls import Draws, check_draws, simulate
from dpinfer.inference.testing.rank_association import RankAssociation
from dpinfer.inference.testing.ranks import ZEROS, GroupRanks, SignedRanks
from dpinfer.kernel.measurement import price_procedure
from dpinfer.procedures.conditions import told_where, where_notes
from dpinfer.procedures.described import counts_of_table
from dpinfer.procedures.explanation import first_error
from dpinfer.procedures.given_cdf import GivenCdf, leaf_shares
from dpinfer.procedures.leaves import (
    FEWEST,
    best_leaves,
    best_sides,
    equal_edges,
    mirrored_edges,
    mirrored_places,
    whole_edges,
)
from dpinfer.procedures.of_sums import OfSums
from dpinfer.procedures.options import FINITE, NUMERIC, inferred, is_text, measured, one_of, unstored
from dpinfer.procedures.sum_plan import TABLES, SumPlan
from dpinfer.procedures.table_axes import axes_of, axis_name
from dpinfer.results.people import refuse_dependent_rows
from dpinfer.results.testing.ranks import RankTestResults, rank_flags
from dpinfer.schema.axes import MirroredAxis
from dpinfer.schema.columns import Integer
from dpinfer.schema.expressions import compile_expression

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.inference.testing.count_noise import CountNoise
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.stage import Context
    from dpinfer.numerics.arrays import Array
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import Release
    from dpinfer.results.testing.ranks import RankModel
    from dpinfer.schema.axes import Axis
    from dpinfer.schema.schema import Schema

__all__ = ["RankTest"]

Test = Literal["mannwhitneyu", "kruskal", "ks_2samp", "wilcoxon", "ks_1samp", "spearmanr"]

_GROUPED = ("mannwhitneyu", "kruskal", "ks_2samp")

_FEW = 16
"""Leaves of a column before the price is known."""

_BY_VALUE = 2
"""A short Integer keeps a leaf for each value up to so many times the leaves that the price asks for."""

_TITLES = {
    "mannwhitneyu": "Private Mann-Whitney test",
    "kruskal": "Private Kruskal-Wallis test",
    "ks_2samp": "Private two-sample Kolmogorov-Smirnov test",
    "wilcoxon": "Private Wilcoxon signed-rank test",
    "ks_1samp": "Private one-sample Kolmogorov-Smirnov test",
    "spearmanr": "Private test of Spearman's rank correlation",
}


@dataclass(frozen=True, eq=False)
class RankTest(OfSums):
    """A rank or distribution test of binned values. See `mannwhitneyu`, `kruskal`, `ks_2samp` and the others.

    Attributes
    ----------
    test : str
        The function that asks it.
    column : str
    by : str, optional
        The groups, of a test of several.
    other : str, optional
        The second column of `wilcoxon` and `spearmanr`.
    center : float
        What `wilcoxon` takes off.
    bins : mapping of str to tuple of float
        Edges of the leaves by column; of `wilcoxon` those above zero, by the expression. A column of levels that has
        none keeps a leaf for each level.
    leaves : int, optional
        How many are asked for; None leaves it to schema and price. A measured question has edges instead.
    where : str, optional
    alternative : {"two-sided", "less", "greater"}
    zero_method : {"wilcox", "pratt"}
    cdf : str
        Of `ks_1samp`: a law of scipy, or "a function".
    args : tuple of float
    shares : tuple of float, optional
        What a function gave to each leaf.
    draws : "adaptive" or int
    seed : int
    function : callable, optional
        Not stored.
    """

    procedures: ClassVar[tuple[str, ...]] = tuple(_TITLES)

    test: Test = "mannwhitneyu"
    column: str = measured("x", NUMERIC)
    by: str | None = None
    other: str | None = None
    center: float = measured(0.0, FINITE)
    bins: Mapping[str, tuple[float, ...]] | None = None
    leaves: int | None = None
    where: str | None = None
    alternative: Alternative = inferred("two-sided", one_of(ALTERNATIVES))
    zero_method: str = inferred("wilcox", one_of(ZEROS))
    cdf: str = inferred("")
    args: tuple[float, ...] = inferred(())
    shares: tuple[float, ...] | None = inferred(None)
    draws: Draws = inferred("adaptive")
    seed: int = inferred(0)
    function: Callable[[Any], Any] | None = unstored(None)

    def check_options(self) -> None:
        """Refuse options that do not go together."""
        if (self.by is not None) != (self.test in _GROUPED) or (self.by is not None and not is_text(self.by)):
            raise OptionError("by", self.by, 'one column of groups, or a condition such as "age >= 18"')
        if self.test == "kruskal" and self.alternative != "two-sided":
            raise OptionError("alternative", self.alternative, '"two-sided": several groups have no sides')
        if self.other is not None and self.other.strip() == self.column.strip():
            raise OptionError("other", self.other, "another column than the first")
        check_draws(self.draws, self.seed)

    @property
    def procedure(self) -> str:
        """The function that asks it."""
        return self.test

    # What is measured

    @property
    def difference(self) -> str:
        """Of `wilcoxon`: the expression whose symmetry about zero is tested."""
        parts = [self.column.strip(), *([self.other.strip()] if self.other else [])]
        parts += [repr(float(self.center))] if self.center else []
        return parts[0] if len(parts) == 1 else " - ".join(f"({part})" for part in parts)

    @property
    def names(self) -> tuple[str, ...]:
        """Axes of the table, groups first."""
        if self.test == "wilcoxon":
            return (self.difference,)
        return tuple(name for name in (self.by, self.column, self.other) if name is not None)

    @property
    def given_bins(self) -> Mapping[str, tuple[float, ...]]:
        """Edges of the leaves, where there are any."""
        return self.bins or {}

    @property
    def cut(self) -> tuple[str, ...]:
        """Axes that are cut into leaves."""
        return self.names[1:] if self.by is not None else self.names

    def plan(self, schema: Schema) -> SumPlan:
        """Return the table, compiled against a schema; where the price decides on the leaves, with a few."""
        groups = () if self.by is None else axes_of(self.by)
        leaves = tuple(self._axis(schema, name, self.leaves or _FEW, least=self.leaves or 0) for name in self.cut)
        return SumPlan("table", schema, axes=(*groups, *leaves), where=self.where, target="data")

    def _axis(self, schema: Schema, name: str, leaves: int, least: int = 0) -> Mapping[str, Any]:
        """One axis in at most so many leaves; levels keep their own where they are few (``least``), or 0."""
        if self.test == "wilcoxon":
            edges = self.given_bins.get(name) or self._mirrored(schema, leaves)
            return {"mirrored": name, "edges": list(edges)}
        if name in self.given_bins:
            return {"column": name, "edges": list(self.given_bins[name])}
        column = schema[name]
        levels = len(column.level_texts)
        if levels and (not hasattr(column, "lower") or not least or levels <= least):
            return {"column": name}
        cut = whole_edges if isinstance(column, Integer) else equal_edges
        lower, upper = (float(getattr(column, end, 0.0)) for end in ("lower", "upper"))
        return {"column": name, "edges": list(cut(lower, upper, leaves))}

    def _mirrored(self, schema: Schema, leaves: int) -> tuple[float, ...]:
        found = compile_expression(self.difference, schema)
        texts = [text.strip() for text in (self.column, self.other) if text is not None]
        whole = all(text in schema and isinstance(schema[text], Integer) for text in texts)
        whole = whole and float(2 * self.center).is_integer()
        return mirrored_edges(max(-found.lower, found.upper), leaves, whole=whole)

    def resolve(self, context: Context) -> Self:
        """Return the same question with the edges of its leaves, which the noise of a count decides on."""
        leaves, least = self.leaves, self.leaves
        if leaves is None or least is None:
            priced = price_procedure(replace(self, leaves=FEWEST), context)
            best = best_sides if self.test == "spearmanr" else best_leaves
            leaves = best(first_error(priced) ** 2)
            least = _BY_VALUE * leaves
        axes = [self._axis(context.schema, name, leaves, least) for name in self.cut]
        bins = {axis_name(axis): tuple(axis["edges"]) for axis in axes if "edges" in axis}
        found = replace(self, bins=bins, leaves=None)
        if self.function is None:
            return found
        shares = leaf_shares(found.plan(context.schema).cells[0], self._given)
        return replace(found, shares=tuple(shares.tolist()))

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        said = " and ".join(self.cut) + (f" by {self.by}" if self.by else "")
        return f"{self.test} of {said}{told_where(self.where)}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:
        """Refuse people with several rows, and columns that the test does not fit."""
        _refuse_people(schema)
        self._check_fit(self.plan(schema).cells)
        super().check(schema, neighbors)

    def _check_fit(self, axes: Sequence[Axis]) -> None:
        """Refuse groups, leaves and a distribution that the test does not fit.

        Raises
        ------
        OptionError
        """
        for axis in axes:
            if axis.size < 2:
                raise OptionError("column", axis.name, "a column of two values or more: with one there is no test")
        if self.test in ("mannwhitneyu", "ks_2samp") and axes[0].size != 2:
            raise OptionError("by", self.by, f"exactly two levels, not {axes[0].size}; kruskal compares more")
        if self.test == "wilcoxon" and isinstance(axes[0], MirroredAxis):
            found = axes[0].expression
            if found.lower > 0 or found.upper < 0:
                raise OptionError("column", self.difference, "values on both sides of zero by the declared bounds")
        if self.test == "ks_1samp":
            if not hasattr(axes[0].schema[axes[0].name], "lower"):  # type: ignore[attr-defined]
                raise OptionError("column", self.column, "a numeric column: levels have no distribution function")
            self._given_shares(axes[0])

    @property
    def _given(self) -> GivenCdf:
        return GivenCdf(self.cdf, self.args, self.function)

    def _given_shares(self, axis: Axis) -> Array:
        """Shares of the leaves under the hypothesis of `ks_1samp`."""
        if self.function is None and self.shares is not None:
            if len(self.shares) != axis.size or min(self.shares) < 0 or not np.isclose(sum(self.shares), 1):
                raise OptionError("cdf", self.cdf, "the function again: the release has other leaves")
            return np.array(self.shares)
        return leaf_shares(axis, self._given)

    def describe(self, measured: Measurement) -> str:
        """Describe the table that would be measured, its leaves, and the noise of their counts."""
        spread = first_error(measured)
        shape = " x ".join(str(axis.size) for axis in measured.rows.axes)
        return (
            f"{measured.describe()}\nleaves       {shape}; the noise of a count has standard deviation {spread:.4g} "
            "rows. The test is of values cut into these leaves, with midranks for ties"
        )

    # What is inferred

    def reads_sums(self, held: SumPlan) -> bool:
        """Return whether sums serve: those of any table of counts of the same rows."""
        return held.kind in TABLES and held.where == self.where

    def infer(self, release: Release | None = None) -> RankTestResults:
        """Test a release of this question, or of a table that holds its columns: free, and without any row.

        Raises
        ------
        InferenceError, MissingFromReleaseError
            If the release holds no such counts, or was made with another ``where``.
        OptionError, NotProvedError
            If the table does not fit the test.
        """
        found, plan = self._release_and_sums(release)
        _refuse_people(plan.schema)
        if plan.weights is not None:
            raise NotProvedError("a rank test counts rows: a table of weighted rows has none")
        axes, counts, places = self._counts(plan, found.array[None])
        self._check_fit(axes)
        known = found.nobs if plan.rows.keeps_every_row else None
        values = counts.sum(axis=-1)
        if places is not None:
            values = np.append(values, np.zeros((1, 1)), axis=1)[:, places]
        model = self._model(axes, count_noise(found.law, found.steps, counts.shape[-1]), known or None)
        return self._results(found, axes, model, values, known)

    def _counts(self, plan: SumPlan, values: Array) -> tuple[tuple[Axis, ...], Array, list[int] | None]:
        """Axes and counts (1, cells, k) of the test; of values about a center, in which order (-1: none)."""
        names = [axis.name for axis in plan.cells]
        if self.test == "wilcoxon" and self.difference not in names and self.other is None and self.column in names:
            axes, counts = counts_of_table(plan, values, (self.column,))
            if not hasattr(plan.schema[self.column], "lower"):
                raise OptionError("column", self.column, "a numeric column: levels are not symmetric about a number")
            return axes, counts, mirrored_places(axes[0], self.center)
        axes, counts = counts_of_table(plan, values, self.names)
        for axis in axes:
            edges = getattr(axis, "edges", None)
            given = self.given_bins.get(axis.name)
            if given is not None and edges != given:
                raise OptionError("bins", list(given), f"the bins of the release: {axis.labels}")
            if self.test == "wilcoxon" and not isinstance(axis, MirroredAxis):
                raise MissingFromReleaseError(f"the table has no leaves of {axis.name} that mirror each other about 0")
        return axes, counts, None

    def _model(self, axes: Sequence[Axis], noise: CountNoise, nobs: int | None) -> RankModel:
        if self.test in ("mannwhitneyu", "kruskal"):
            return GroupRanks((axes[0].size, axes[1].size), noise, self.alternative)
        if self.test == "ks_2samp":
            return TwoDistributions(axes[1].size, noise, self.alternative)
        if self.test == "wilcoxon":
            return SignedRanks(noise, nobs, self.alternative, self.zero_method)
        if self.test == "ks_1samp":
            return GivenDistribution(self._given_shares(axes[0]), noise, nobs, self.alternative)
        return RankAssociation((axes[0].size, axes[1].size), noise, nobs, self.alternative)

    def _results(
        self, release: Release, axes: tuple[Axis, ...], model: RankModel, values: Array, known: int | None
    ) -> RankTestResults:
        null = simulate(model, values[0], draws=self.draws, seed=self.seed)
        labels = tuple(axis.labels for axis in axes)
        if isinstance(model, SignedRanks):
            labels = (("below", "zero", "above"),)
        return RankTestResults(
            title=_TITLES[self.test],
            hypothesis=self._hypothesis(axes),
            pvalue=null.pvalue,
            release=release,
            dof=float(axes[0].size - 1) if self.test == "kruskal" else None,
            alternative=self.alternative,
            distribution=null,
            nobs=float(values.sum()) if known is None else float(known),
            nobs_is_public=known is not None,
            flags=rank_flags(model, values, labels),
            notes=self._notes(axes),
            model=model,
            values=values,
            labels=labels,
            names=self.names,
            **RankTestResults.statistic_of(model, values),
        )

    def _hypothesis(self, axes: Sequence[Axis]) -> str:
        if self.by is not None:
            return f"{self.column} has the same distribution at all levels of {self.by}"
        if self.test == "wilcoxon":
            return f"{self.difference} is symmetric about 0"
        if self.test == "ks_1samp":
            told = self.cdf + (f"({', '.join(f'{one:g}' for one in self.args)})" if self.args else "")
            return f"{self.column} has the distribution {told}"
        return f"{axes[0].name} and {axes[1].name} are independent"

    def _notes(self, axes: Sequence[Axis]) -> tuple[str, ...]:
        leaves = axes if self.by is None else axes[1:]
        told = " and ".join(f"{axis.size} leaves of {axis.name}" for axis in leaves)
        notes = [f"The hypothesis is that of values cut into {told}, with midranks for ties."]
        if self.by is not None and axes[0].size == 2:
            first, second = axes[0].labels
            notes.append(f"First group: {self.by} = {first}; second: {second}.")
        if any(not hasattr(axis.schema[axis.name], "lower") for axis in leaves if not isinstance(axis, MirroredAxis)):  # type: ignore[attr-defined]
            notes.append("Levels are ranked in the order in which the schema declares them.")
        if self.test == "ks_1samp":
            notes.append("The distribution was supplied as a public fact: the guarantee does not cover it.")
        return (*notes, *where_notes(self.where))


def _refuse_people(schema: Schema) -> None:
    """Refuse to rank rows where a person may have several.

    Raises
    ------
    NotProvedError
    """
    refuse_dependent_rows(schema, "a rank test", "cdf(column, by=) has distribution functions")

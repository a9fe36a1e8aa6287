"""Rank and distribution tests of binned values, under scipy's names.

Bins, here called leaves, follow from declared bounds and the noise of a count, never from rows. More leaves lose less
to ties and more to noise. For N rows spread evenly over the part 1/B of the bounds, m leaves keep about
``(1 - (B/m)^2) / (1 + 4 m v / (B N))`` of the information on a difference between two equal groups, where v is the
noise variance of a count; this is largest near ``m = B (N / (2 v))^(1/3)``. For two columns with m leaves each, it is
about ``(1 - (B/m)^2)^2 / (1 + v (m/B)^2 / N)``, which is largest near ``m = B (2 N / v)^(1/4)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from scipy import stats

from dpinfer.checks import FINITE, is_list, is_text, is_whole, one_of, whole
from dpinfer.distributions import rank_statistics as statistics
from dpinfer.distributions.results import RankTestResults, rank_flags
from dpinfer.errors import MissingFromReleaseError, NotProvedError, OptionError
from dpinfer.kernel.measurement import Measurement, price_procedure
from dpinfer.kernel.stage import Context, Data
from dpinfer.procedures.cell_sums import TABLES, SumPlan, SumsQuestion, counts_of_table
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import (
    NUMERIC,
    axes_of,
    axis_name,
    inferred,
    measured,
    told_where,
    unstored,
    where_notes,
)
from dpinfer.procedures.procedure import first_error
from dpinfer.release import Release
from dpinfer.results.printing import refuse_dependent_rows
from dpinfer.schema.axes import Axis, BinsAxis, MirroredAxis
from dpinfer.schema.columns import Integer
from dpinfer.schema.expressions import compile_expression
from dpinfer.statistics.arrays import Array, floats
from dpinfer.statistics.noise import count_noise
from dpinfer.statistics.nulls import ALTERNATIVES, Alternative, Draws, check_draws, simulate

if TYPE_CHECKING:
    from dpinfer.privacy.units import Neighbors
    from dpinfer.schema.schema import Schema

    Bins = int | Sequence[float] | None
    Cdf = str | Callable[[Any], Any]


Test = Literal["mannwhitneyu", "kruskal", "ks_2samp", "wilcoxon", "ks_1samp", "spearmanr"]

_GROUPED = ("mannwhitneyu", "kruskal", "ks_2samp")

_SAME, _GIVEN = "{cut} has the same distribution at all levels of {by}", "{cut} has the distribution {law}"

_TESTS: dict[str, tuple[str, type[statistics.LeafTest], str]] = {
    "mannwhitneyu": ("Private Mann-Whitney test", statistics.GroupRanks, _SAME),
    "kruskal": ("Private Kruskal-Wallis test", statistics.GroupRanks, _SAME),
    "ks_2samp": ("Private two-sample Kolmogorov-Smirnov test", statistics.TwoDistributions, _SAME),
    "wilcoxon": ("Private Wilcoxon signed-rank test", statistics.SignedRanks, "{cut} is symmetric about 0"),
    "ks_1samp": ("Private one-sample Kolmogorov-Smirnov test", statistics.GivenDistribution, _GIVEN),
    "spearmanr": ("Private test of Spearman's rank correlation", statistics.RankAssociation, "{cut} are independent"),
}
"""Title, statistic and hypothesis of every test."""

_PEOPLE = "a rank test", "cdf(column, by=) has distribution functions"
"""The refusal if a person may have several rows, and the alternative."""

_EITHER = "a number of bins from 2 to 100,000, or increasing edges"

_LAW = "the name of a distribution in scipy.stats, a frozen one such as stats.norm(50, 10), or its cdf as a function"

OWN = "a function"
"""Name in a release of a distribution function that is not from scipy; only its leaf shares are stored."""

ROWS = 1000.0
"""Rows for which the number of leaves is best."""

SPREAD, BOTH_SPREAD = 8.0, 4.0
"""Times as wide as the values are the bounds taken to be, of one column and of each of two."""

FEWEST, MOST, MOST_SIDES = 8, 100, 32

_FEW = 16
"""Leaves of a column before the privacy parameters are known."""

_BY_VALUE = 2
"""A short Integer keeps a leaf per value up to this multiple of the leaves that the noise suggests."""


# Leaves


def best_leaves(variance: float) -> int:
    """Leaves of one column, for counts of this noise variance."""
    return int(np.clip(round(SPREAD * (ROWS / (2 * variance)) ** (1 / 3)), FEWEST, MOST))


def best_sides(variance: float) -> int:
    """Leaves of each of two columns."""
    return int(np.clip(round(BOTH_SPREAD * (2 * ROWS / variance) ** (1 / 4)), FEWEST // 2, MOST_SIDES))


def even_edges(lower: float, upper: float, leaves: int, *, whole: bool) -> list[float]:
    """Edges of at most this many leaves of equal width, or of equally many integers except in the last."""
    if not whole:
        return [float(edge) for edge in np.linspace(lower, upper, leaves + 1)]
    step = -(-int(upper - lower + 1) // leaves)
    return [*(float(edge) for edge in np.arange(lower, upper, step)), float(upper)]


def mirrored_edges(reach: float, leaves: int, *, whole: bool) -> list[float]:
    """Edges for absolute values on each side of zero, for about this many leaves in all.

    The first edge ends the leaf of zeros: zero alone for integers, else as wide as the others.
    """
    sides = max((leaves - 1) // 2, 1)
    if not whole:
        return [*(float(2 * reach / (2 * sides + 1) * (k + 0.5)) for k in range(sides)), float(reach)]
    step = -(-int(reach) // sides)
    return [*(float(edge) for edge in np.arange(0.5, reach + 0.5, step)), float(reach) + 0.5]


def leaf_cuts(axis: Axis) -> Array:
    """Return the ends of the leaves in increasing order (m + 1,); half-way between neighbouring integers."""
    bins = axis if isinstance(axis, BinsAxis) else None
    edges = np.array([*axis.labels, axis.labels[-1]] if bins is None else bins.edges, dtype=np.float64)
    if bins is not None and not isinstance(bins.schema[bins.name], Integer):
        return edges
    return np.append(np.ceil(edges[:-1]) - 0.5, np.floor(edges[-1]) + 0.5)


def _mirrored(values: Array, axis: Axis, center: float) -> Array:
    """Arrange counts (1, m) of the leaves of an axis about a center, with a leaf of zeros in the middle.

    Raises
    ------
    OptionError
        If the leaves do not mirror each other about the center.
    """
    points = leaf_cuts(axis) - center
    middle = 0.5 * (points[0] + points[-1])
    if abs(middle) > 1e-9 * np.abs(points).max():
        raise OptionError("center", center, f"the middle of the bins of the release, {middle + center:g}")
    if not np.allclose(points, -points[::-1], atol=1e-9 * np.abs(points).max()):
        raise OptionError("center", center, "the middle of symmetric bins: those of the release are not symmetric")
    return values if axis.size % 2 else np.insert(values, axis.size // 2, 0.0, axis=1)


# A given distribution: a law of scipy by name or frozen, or a function; as shares of leaves


def _law(name: str) -> Any:
    law = getattr(stats, name, None)
    if not isinstance(law, stats.rv_continuous | stats.rv_discrete):
        raise OptionError("cdf", name, _LAW)
    return law


def read_cdf(cdf: object, args: object) -> dict[str, Any]:
    """Read the user's ``cdf``: the name of a scipy distribution, with its ``args``, or a ``function``.

    Raises
    ------
    OptionError
    """
    numbers = tuple(args) if isinstance(args, tuple | list) else None
    if numbers is None or not all(map(FINITE.fits, numbers)):
        raise OptionError("args", args, "a tuple of finite numbers: shape parameters, location and scale, as in scipy")
    if isinstance(cdf, str):
        _law(cdf)
        return {"cdf": cdf, "args": tuple(map(float, numbers)), "function": None}
    if numbers:
        raise OptionError("args", args, "() unless cdf is the name of a distribution")
    law = getattr(cdf, "dist", None)
    if isinstance(law, stats.rv_continuous | stats.rv_discrete) and getattr(stats, law.name, None) is not None:
        shapes, location, scale = law._parse_args(*cdf.args, **cdf.kwds)  # type: ignore[attr-defined]
        found = (*shapes, location, *((scale,) if isinstance(law, stats.rv_continuous) else ()))
        if all(map(FINITE.fits, map(np.float64, found))):
            return {"cdf": law.name, "args": tuple(map(float, found)), "function": None}
    function = getattr(cdf, "cdf", cdf)
    if not callable(function):
        raise OptionError("cdf", cdf, _LAW)
    return {"cdf": OWN, "args": (), "function": function}


def leaf_shares(axis: Axis, cdf: str, args: tuple[float, ...], function: Callable[[Array], Any] | None) -> Array:
    """Probability of each leaf (m,), with values clipped to the column's bounds.

    Leaves of integers are cut half-way between them, so that discrete distributions keep their probabilities. Other
    leaves include their lower edge, with any point mass there, and exclude their upper edge, except the last. If the
    leaves do not span the bounds, they contain only the values between their outer edges.

    Raises
    ------
    OptionError
        If it is not a distribution function, or gives all leaves probability zero.
    """
    cuts = leaf_cuts(axis)
    cuts[int(axis.covers) : -1] = np.nextafter(cuts[int(axis.covers) : -1], -np.inf)
    try:
        with np.errstate(all="ignore"):
            values = np.asarray(_law(cdf).cdf(cuts, *args) if function is None else function(cuts), dtype=np.float64)
    except Exception as error:
        raise OptionError("cdf", cdf, f"a function of an array of numbers; this one fails: {error}") from None
    inside = values.shape == cuts.shape and np.isfinite(values).all()
    if not inside or (np.diff(values) < 0).any() or values[0] < 0 or values[-1] > 1:
        raise OptionError("cdf", cdf, "a distribution function: nondecreasing, from 0 to 1")
    if axis.covers:
        values[0], values[-1] = 0.0, 1.0
    found = np.diff(values)
    if not found.sum() > 0:
        raise OptionError("cdf", cdf, "a distribution with values between the edges")
    return np.asarray(found / found.sum())


@dataclass(frozen=True, eq=False)
class RankTest(SumsQuestion):
    """A rank or distribution test of binned values. See `mannwhitneyu`, `kruskal`, `ks_2samp` and others.

    Attributes
    ----------
    test : str
        The function that creates it.
    column : str
    by : str, optional
        The groups, for a test that compares groups.
    other : str, optional
        The second column of `wilcoxon` and `spearmanr`.
    center : float
        The value that `wilcoxon` subtracts.
    bins : mapping of str to tuple of float
        Edges of the leaves by column; for `wilcoxon` those above zero, by the expression. A column of levels without
        edges keeps a leaf for each level.
    leaves : int, optional
        Largest number of leaves; None derives it from the schema and the privacy parameters. A measured question has
        edges instead.
    where : str, optional
    alternative : {"two-sided", "less", "greater"}
    zero_method : {"wilcox", "pratt"}
    cdf : str
        For `ks_1samp`: a scipy distribution, or "a function".
    args : tuple of float
    shares : tuple of float, optional
        Probabilities of the leaves from a function.
    draws : "adaptive" or int
    seed : int
    function : callable, optional
        Not stored.
    """

    procedures: ClassVar[tuple[str, ...]] = tuple(_TESTS)

    test: Test = "mannwhitneyu"
    column: str = measured("x", NUMERIC)
    by: str | None = None
    other: str | None = None
    center: float = measured(0.0, FINITE)
    bins: Mapping[str, tuple[float, ...]] | None = None
    leaves: int | None = None
    where: str | None = None
    alternative: Alternative = inferred("two-sided", one_of(ALTERNATIVES))
    zero_method: str = inferred("wilcox", one_of(statistics.ZEROS))
    cdf: str = inferred("")
    args: tuple[float, ...] = inferred(())
    shares: tuple[float, ...] | None = inferred(None)
    draws: Draws = inferred("adaptive")
    seed: int = inferred(0)
    function: Callable[[Any], Any] | None = unstored(None)

    def check_options(self) -> None:
        """Refuse incompatible options."""
        if (self.by is not None) != (self.test in _GROUPED) or (self.by is not None and not is_text(self.by)):
            raise OptionError("by", self.by, 'one column of groups, or a condition such as "age >= 18"')
        if self.test == "kruskal" and self.alternative != "two-sided":
            raise OptionError("alternative", self.alternative, '"two-sided": several groups have no sides')
        if self.other is not None and self.other.strip() == self.column.strip():
            raise OptionError("other", self.other, "a column other than the first")
        check_draws(self.draws, self.seed)

    @property
    def procedure(self) -> str:
        """The function that creates it."""
        return self.test

    # What is measured

    @property
    def difference(self) -> str:
        """For `wilcoxon`: the expression whose symmetry about zero is tested."""
        parts = [self.column.strip(), *([self.other.strip()] if self.other else [])]
        parts += [repr(float(self.center))] if self.center else []
        return parts[0] if len(parts) == 1 else " - ".join(f"({part})" for part in parts)

    @property
    def cut(self) -> tuple[str, ...]:
        """Axes that are binned into leaves."""
        if self.test == "wilcoxon":
            return (self.difference,)
        return (self.column,) if self.other is None else (self.column, self.other)

    @property
    def names(self) -> tuple[str, ...]:
        """Axes of the table, groups first."""
        return self.cut if self.by is None else (self.by, *self.cut)

    def plan(self, schema: Schema) -> SumPlan:
        """Compile the table against a schema, with a few leaves if the privacy parameters decide their number."""
        groups = () if self.by is None else axes_of(self.by)
        leaves = tuple(self._axis(schema, name, self.leaves or _FEW, least=self.leaves or 0) for name in self.cut)
        return SumPlan("table", schema, axes=(*groups, *leaves), where=self.where, target="data")

    def _axis(self, schema: Schema, name: str, leaves: int, least: int) -> Mapping[str, Any]:
        """One axis in at most this many leaves; levels keep their own if they are few (``least``), or 0."""
        edges = (self.bins or {}).get(name)
        if self.test == "wilcoxon":
            if not edges:
                found = compile_expression(self.difference, schema)
                texts = [text.strip() for text in (self.column, self.other) if text is not None]
                whole = all(text in schema and isinstance(schema[text], Integer) for text in texts)
                whole = whole and float(2 * self.center).is_integer()
                edges = tuple(mirrored_edges(max(-found.lower, found.upper), leaves, whole=whole))
            return {"mirrored": name, "edges": list(edges)}
        if edges is not None:
            return {"column": name, "edges": list(edges)}
        column = schema[name]
        levels = len(column.level_texts)
        if levels and (not hasattr(column, "lower") or not least or levels <= least):
            return {"column": name}
        lower, upper = (float(getattr(column, end, 0.0)) for end in ("lower", "upper"))
        return {"column": name, "edges": even_edges(lower, upper, leaves, whole=isinstance(column, Integer))}

    def resolve(self, context: Context) -> Self:
        """Return the same question with the edges of its leaves, which depend on the noise of a count."""
        leaves = least = self.leaves or 0
        if self.leaves is None:
            best = best_sides if self.test == "spearmanr" else best_leaves
            leaves = best(first_error(price_procedure(replace(self, leaves=FEWEST), context)) ** 2)
            least = _BY_VALUE * leaves
        axes = [self._axis(context.schema, name, leaves, least) for name in self.cut]
        bins = {axis_name(axis): tuple(axis["edges"]) for axis in axes if "edges" in axis}
        found = replace(self, bins=bins, leaves=None)
        if self.function is None:
            return found
        shares = found.given_shares(found.plan(context.schema).cells[0])
        return replace(found, shares=tuple(shares.tolist()))

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Describe the question in one line."""
        return f"{self.test} of {' and '.join(self.cut)}{f' by {self.by}' if self.by else ''}{told_where(self.where)}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:
        """Refuse people with several rows, and columns that do not suit the test."""
        refuse_dependent_rows(schema, *_PEOPLE)
        self._check_fit(self.plan(schema).cells)
        super().check(schema, neighbors)

    def _check_fit(self, axes: Sequence[Axis]) -> None:
        """Refuse groups, leaves and a distribution that do not suit the test.

        Raises
        ------
        OptionError
        """
        first: Any = axes[0]
        for axis in axes:
            if axis.size < 2:
                raise OptionError("column", axis.name, "a column with at least two values")
        if self.test in ("mannwhitneyu", "ks_2samp") and first.size != 2:
            raise OptionError("by", self.by, f"exactly two levels, not {first.size}; kruskal compares more")
        if self.test == "wilcoxon" and isinstance(first, MirroredAxis):
            if first.expression.lower > 0 or first.expression.upper < 0:
                raise OptionError("column", self.difference, "values on both sides of zero by the declared bounds")
        elif self.test == "ks_1samp":
            if not hasattr(first.schema[first.name], "lower"):
                raise OptionError("column", self.column, "a numeric column: levels have no distribution function")
            self.given_shares(first)

    def given_shares(self, axis: Axis) -> Array:
        """Probabilities of the leaves (m,) under the null hypothesis of `ks_1samp`; see `leaf_shares`.

        Raises
        ------
        OptionError
        """
        if self.function is not None or self.shares is None:
            return leaf_shares(axis, self.cdf, self.args, self.function)
        if len(self.shares) != axis.size or min(self.shares) < 0 or not np.isclose(sum(self.shares), 1):
            raise OptionError("cdf", self.cdf, "the function again: the release has other bins")
        return np.array(self.shares)

    def describe(self, measured: Measurement) -> str:
        """Describe the table that would be measured, its bins, and the noise of their counts."""
        shape = " x ".join(str(axis.size) for axis in measured.rows.axes)
        return (
            f"{measured.describe()}\nbins         {shape}; the noise of a count has standard deviation "
            f"{first_error(measured):.4g} rows. The test uses values grouped into these bins, with midranks for ties"
        )

    # What is inferred

    def reads_sums(self, held: SumPlan) -> bool:
        """Return whether sums can be used: those of any table of counts of the same rows."""
        return held.kind in TABLES and held.where == self.where

    def infer(self, release: Release | None = None) -> RankTestResults:
        """Test from a stored release of this question, or of a table of its columns, at no privacy cost.

        Raises
        ------
        InferenceError, MissingFromReleaseError
            If the release lacks these counts, or was made with another ``where``.
        OptionError, NotProvedError
            If the table does not suit the test.
        """
        found, plan = self._release_and_sums(release)
        refuse_dependent_rows(plan.schema, *_PEOPLE)
        if plan.weights is not None:
            raise NotProvedError("a rank test needs counts of rows: a table of weighted rows has none")
        axes, values, together = self._counts(plan, found.array[None])
        self._check_fit(axes)
        known = found.nobs if plan.rows.keeps_every_row else None
        title, kind, hypothesis = _TESTS[self.test]
        law = self.cdf + (f"({', '.join(f'{one:g}' for one in self.args)})" if self.args else "")
        cut = " and ".join(self.cut)
        noise, shape = count_noise(found.law, found.steps, together), tuple(axis.size for axis in axes)
        more: dict[str, Any] = {"zeros": self.zero_method} if self.test == "wilcoxon" else {"shape": shape}
        more = {"shares": self.given_shares(axes[0])} if self.test == "ks_1samp" else more
        model = kind(noise, None if self.by else known or None, self.alternative, **more)
        null = simulate(model, values[0], draws=self.draws, seed=self.seed)
        signs = isinstance(model, statistics.SignedRanks)
        labels = (("below", "zero", "above"),) if signs else tuple(axis.labels for axis in axes)
        name, statistic = model.classical(values)
        return RankTestResults(
            title=title,
            hypothesis=hypothesis.format(cut=cut, by=self.by, law=law),
            statistic=statistic,
            statistic_name=name,
            pvalue=null.pvalue,
            release=found,
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
        )

    def _counts(self, plan: SumPlan, values: Array) -> tuple[tuple[Axis, ...], Array, int]:
        """Axes and counts (1, cells) of the test, and the number of released counts in each."""
        names = [axis.name for axis in plan.cells]
        about = self.test == "wilcoxon" and self.other is None and self.difference not in names and self.column in names
        axes, parts = counts_of_table(plan, values, (self.column,) if about else self.names)
        counts, together = parts.sum(axis=-1), parts.shape[-1]
        if about:  # values of one column, about a center
            if not hasattr(plan.schema[self.column], "lower"):
                raise OptionError("column", self.column, "a numeric column: levels are not symmetric about a number")
            return axes, _mirrored(counts, axes[0], self.center), together
        for axis in axes:
            given = (self.bins or {}).get(axis.name)
            if given is not None and getattr(axis, "edges", None) != given:
                raise OptionError("bins", list(given), f"the bins of the release: {axis.labels}")
            if self.test == "wilcoxon" and not isinstance(axis, MirroredAxis):
                raise MissingFromReleaseError(f"the table has no bins of {axis.name} that are symmetric about 0")
        return axes, counts, together

    def _notes(self, axes: Sequence[Axis]) -> tuple[str, ...]:
        leaves: Sequence[Any] = axes if self.by is None else axes[1:]
        cut = " and ".join(f"{axis.size} bins of {axis.name}" for axis in leaves)
        notes = [f"The test uses values grouped into {cut}, with midranks for ties."]
        if self.by is not None and axes[0].size == 2:
            notes += ["First group: {} = {}; second: {}.".format(self.by, *axes[0].labels)]
        if any(not isinstance(axis, MirroredAxis) and not hasattr(axis.schema[axis.name], "lower") for axis in leaves):
            notes += ["Levels are ranked in the order of the schema."]
        if self.test == "ks_1samp":
            notes += ["The distribution is treated as public: the privacy guarantee does not cover it."]
        return (*notes, *where_notes(self.where))


# What a user asks


def _edges(bins: object) -> tuple[float, ...]:
    edges = floats(bins) if is_list(bins) else None
    if edges is None or len(edges) < 2:
        raise OptionError("bins", bins, _EITHER)
    return edges


def _leaves(bins: object, name: str) -> dict[str, Any]:
    """Validate the number of leaves or their edges, for a column or an expression."""
    NUMERIC.check("column", name)
    if bins is None:
        return {"bins": None, "leaves": None}
    if is_whole(bins):
        whole(2, 100_000, _EITHER).check("bins", int(bins))
        return {"bins": None, "leaves": int(bins)}
    return {"bins": {name: _edges(bins)}, "leaves": None}


@suggests
def mannwhitneyu(
    column: str,
    by: str,
    data: Data | Release | None = None,
    *,
    alternative: Alternative = "two-sided",
    bins: Bins = None,
    where: str | None = None,
    draws: Draws = "adaptive",
    seed: int = 0,
) -> RankTest:
    """Test whether two groups have the same distribution, by ranks (Mann-Whitney).

    Parameters
    ----------
    column : str
        A Real or Integer column, or a Category, whose levels are ranked in their declared order.
    by : str
        The groups: a column of two levels, or a condition such as ``"age >= 18"`` (False first).
    data : PrivateData, PublicData or Release, optional
        Rows to measure; or a stored release of this question, or of a table or histogram of both columns, at no further
        privacy cost.
    alternative : {"two-sided", "less", "greater"}
        "greater": values of the first level tend to be above those of the second.
    bins : int or sequence of float, optional
        The largest number of bins of equal width over the declared bounds, or their edges. By default the number
        follows from the privacy parameters and the schema; an Integer of few values has a bin for each.
    where : str, optional
        A condition on declared columns; other rows are ignored.
    draws : "adaptive" or int
        Number of simulated releases; "adaptive" stops when the Monte Carlo error of the p-value no longer matters.
    seed : int
        Public seed of the simulation; the privacy noise has none.

    Returns
    -------
    RankTest
        Its ``fit(privacy)`` returns `RankTestResults`.

    Raises
    ------
    OptionError
        If ``by`` does not have exactly two levels, or an argument has an invalid value.
    NotProvedError
        If a person may have several rows.
    FormulaError, UnknownColumnError, SchemaError
        If a column or condition does not suit the schema, before any budget is spent.

    Notes
    -----
    The null hypothesis is that the binned values have the same distribution in both groups, as in scipy's exact test.
    If the distributions differ in spread alone, the size of the test may be above or below its nominal level. The
    statistic is U from noisy counts. The p-value ranks it over its standard error from sampling and noise, with bins
    downweighted where noise hides them.

    References
    ----------
    Mann & Whitney (1947), On a test of whether one of two random variables is stochastically larger than the other.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), married=dpi.Boolean())
    >>> rng = np.random.default_rng(1)
    >>> rows = schema.sample(2000, rng).assign(age=lambda d: 40 + 10 * d["married"] + rng.normal(0, 10, 2000))
    >>> results = dpi.mannwhitneyu("age", "married", dpi.PublicData(rows, schema, rng=rng)).fit(dpi.ZCDP(0.1))
    >>> bool(results.pvalue < 0.01 and results.effect_size().upper < 0.5)
    True
    """
    return RankTest.asking(locals(), test="mannwhitneyu", **_leaves(bins, column))


@suggests
def kruskal(
    column: str,
    by: str,
    data: Data | Release | None = None,
    *,
    bins: Bins = None,
    where: str | None = None,
    draws: Draws = "adaptive",
    seed: int = 0,
) -> RankTest:
    """Test whether several groups have the same distribution, by ranks (Kruskal-Wallis).

    Parameters
    ----------
    column, data, bins, where, draws, seed
        As in `mannwhitneyu`.
    by : str
        The groups: a column of two or more levels, or a condition.

    Returns
    -------
    RankTest
        Its ``fit(privacy)`` returns `RankTestResults`.

    Raises
    ------
    OptionError, NotProvedError, FormulaError, UnknownColumnError, SchemaError
        As in `mannwhitneyu`.

    References
    ----------
    Kruskal & Wallis (1952), Use of ranks in one-criterion variance analysis, JASA 47.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), region=dpi.Category(["north", "south", "east"]))
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(5000, rng).assign(age=lambda d: 50 + 9 * (d["region"] == "east") + rng.normal(0, 9, 5000))
    >>> test = dpi.kruskal("age", "region", dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.1))
    >>> bool(test.pvalue < 0.01)
    True
    """
    return RankTest.asking(locals(), test="kruskal", **_leaves(bins, column))


@suggests
def ks_2samp(
    column: str,
    by: str,
    data: Data | Release | None = None,
    *,
    alternative: Alternative = "two-sided",
    bins: Bins = None,
    where: str | None = None,
    draws: Draws = "adaptive",
    seed: int = 0,
) -> RankTest:
    """Test whether two groups have the same distribution, by Kolmogorov and Smirnov's distance.

    Parameters
    ----------
    column, by, data, bins, where, draws, seed
        As in `mannwhitneyu`.
    alternative : {"two-sided", "less", "greater"}
        "greater": the distribution function of the first level is above that of the second somewhere, as in scipy.

    Returns
    -------
    RankTest
        Its ``fit(privacy)`` returns `RankTestResults`, with ``statistic_location``.

    Raises
    ------
    OptionError, NotProvedError, FormulaError, UnknownColumnError, SchemaError
        As in `mannwhitneyu`.

    Notes
    -----
    If noise hides the rows of a group, there is no test: the p-value is 1, with a flag.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), married=dpi.Boolean())
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(5000, rng).assign(age=lambda d: 40 + 10 * d["married"] + rng.normal(0, 10, 5000))
    >>> test = dpi.ks_2samp("age", "married", dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.1))
    >>> bool(test.pvalue < 0.01)
    True
    """
    return RankTest.asking(locals(), test="ks_2samp", **_leaves(bins, column))


@suggests
def wilcoxon(
    column: str,
    other: str | None = None,
    data: Data | Release | None = None,
    *,
    center: float = 0.0,
    zero_method: str = "wilcox",
    alternative: Alternative = "two-sided",
    bins: Bins = None,
    where: str | None = None,
    draws: Draws = "adaptive",
    seed: int = 0,
) -> RankTest:
    """Test whether paired differences are symmetric about zero, or a column about a public value.

    Parameters
    ----------
    column, other : str
        Numeric columns, or expressions; differences are ``(column) - (other)``. Without ``other``, one column.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a stored release of this question; for one column also of a table or histogram whose bins
        are symmetric about ``center``.
    center : float
        A public number, subtracted from the values: the centre of symmetry under the null hypothesis.
    zero_method : {"wilcox", "pratt"}
        Treatment of the bin of zeros: it is dropped, or has the lowest ranks.
    alternative : {"two-sided", "less", "greater"}
        "greater": differences tend to be above zero.
    bins : int or sequence of float, optional
        The approximate number of bins; or edges above zero, which are mirrored below it. The first edge ends the bin of
        zeros.
    where, draws, seed
        As in `mannwhitneyu`.

    Returns
    -------
    RankTest
        Its ``fit(privacy)`` returns `RankTestResults`.

    Raises
    ------
    OptionError
        If the declared bounds place all differences on one side of zero, or an argument has an invalid value.
    NotProvedError, FormulaError, UnknownColumnError, SchemaError
        As in `mannwhitneyu`.

    References
    ----------
    Wilcoxon (1945), Individual comparisons by ranking methods. Pratt (1959), Remarks on zeros and ties in the Wilcoxon
    signed rank procedures, JASA 54.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(before=dpi.Real(0, 100), after=dpi.Real(0, 100))
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(5000, rng).assign(after=lambda d: (d["before"] + rng.normal(5, 10, 5000)).clip(0, 100))
    >>> test = dpi.wilcoxon("after", "before", dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.1))
    >>> bool(test.pvalue < 0.01)
    True
    """
    NUMERIC.check("column", column)
    if isinstance(other, Data | Release):
        raise OptionError("other", type(other).__name__, "a second column or None; rows as wilcoxon(column, data=...)")
    if other is not None and not is_text(other):
        raise OptionError("other", other, "a second column, or None")
    plain = RankTest.asking(locals() | {"data": None}, test="wilcoxon", bins=None, leaves=None)
    return RankTest.asking(locals(), test="wilcoxon", **_leaves(bins, plain.difference))


@suggests
def ks_1samp(
    column: str,
    cdf: Cdf,
    data: Data | Release | None = None,
    *,
    args: Sequence[float] = (),
    alternative: Alternative = "two-sided",
    bins: Bins = None,
    where: str | None = None,
    draws: Draws = "adaptive",
    seed: int = 0,
) -> RankTest:
    """Test whether a column has a given distribution, by Kolmogorov and Smirnov's distance.

    Parameters
    ----------
    column : str
        A Real or Integer column.
    cdf : str, frozen distribution of scipy, or callable
        The distribution under the null hypothesis, with ``args`` if it is a name. It must be public: the guarantee does
        not cover it. Values are clipped to the declared bounds, and so is the distribution.
    data, bins, where, draws, seed
        As in `mannwhitneyu`.
    args : sequence of float
        Shape parameters, location and scale of a distribution given by name.
    alternative : {"two-sided", "less", "greater"}
        "greater": the distribution function of the column is above the given one somewhere.

    Returns
    -------
    RankTest
        Its ``fit(privacy)`` returns `RankTestResults`, with ``statistic_location``.

    Raises
    ------
    OptionError
        If ``cdf`` is not a distribution function, or an argument has an invalid value.
    NotProvedError, FormulaError, UnknownColumnError, SchemaError
        As in `mannwhitneyu`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> from scipy import stats
    >>> schema = dpi.Schema(x=dpi.Real(0, 100))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(pd.DataFrame({"x": rng.normal(50, 10, 2000)}), schema, rng=rng)
    >>> test = dpi.ks_1samp("x", stats.norm(60, 10), data).fit(dpi.ZCDP(0.1))
    >>> bool(test.pvalue < 0.01)
    True
    """
    return RankTest.asking(locals(), test="ks_1samp", **read_cdf(cdf, args), **_leaves(bins, column))


@suggests
def spearmanr(
    x: str,
    y: str,
    data: Data | Release | None = None,
    *,
    alternative: Alternative = "two-sided",
    bins: int | Mapping[str, Sequence[float]] | None = None,
    where: str | None = None,
    draws: Draws = "adaptive",
    seed: int = 0,
) -> RankTest:
    """Test whether two columns are independent, by Spearman's rank correlation.

    Parameters
    ----------
    x, y : str
        Real or Integer columns, or ordered levels, as in `mannwhitneyu`.
    data : PrivateData, PublicData or Release, optional
        As in `mannwhitneyu`.
    alternative : {"two-sided", "less", "greater"}
        "greater": the correlation is positive.
    bins : int or mapping of str to sequence of float, optional
        The largest number of bins of each column, or edges by column.
    where, draws, seed
        As in `mannwhitneyu`.

    Returns
    -------
    RankTest
        Its ``fit(privacy)`` returns `RankTestResults`: the correlation, and ``effect_size()`` with its interval.

    Raises
    ------
    OptionError, NotProvedError, FormulaError, UnknownColumnError, SchemaError
        As in `mannwhitneyu`.

    Notes
    -----
    If noise hides the rows, or the spread of a column, there is no test: the p-value is 1, with a flag.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), income=dpi.Real(0, 200))
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(5000, rng).assign(income=lambda d: d["age"] + rng.uniform(0, 100, 5000))
    >>> test = dpi.spearmanr("age", "income", dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.1))
    >>> bool(test.pvalue < 0.01)
    True
    """
    for name, given in (("x", x), ("y", y)):
        NUMERIC.check(name, given)
    if x.strip() == y.strip():
        raise OptionError("y", y, "a column other than x")
    edges = bins if isinstance(bins, Mapping) else {}
    leaves = _leaves(None if isinstance(bins, Mapping) else bins, x)
    if leaves["bins"] or not set(edges) <= {x, y}:
        raise OptionError("bins", bins, f"a number of leaves, or a mapping from {x!r} or {y!r} to edges")
    if isinstance(bins, Mapping):
        leaves["bins"] = {name: _edges(edges[name]) for name in edges}
    return RankTest.asking(locals(), test="spearmanr", column=x, other=y, **leaves)

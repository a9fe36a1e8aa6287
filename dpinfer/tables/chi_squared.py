"""Chi-squared tests of noisy counts: goodness of fit, independence, homogeneity."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.checks import FINITE, Allowed, is_list, is_text, one_of
from dpinfer.errors import InferenceError, NotProvedError, OptionError, named
from dpinfer.privacy.units import Neighbors, PureDP
from dpinfer.procedures.cell_sums import CountsQuestion, SumPlan, counts_of_table
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import axes_of, axis_name, check_bins, edges_of, inferred, told_where, where_notes
from dpinfer.procedures.procedure import first_error
from dpinfer.results.drawing import FAINT, draw_whiskers, given_or_new, ink, restrain, titled
from dpinfer.results.printing import interval_labels, label_texts, refuse_dependent_rows
from dpinfer.results.testing import Effect, TestResults, check_alpha, checked_truth
from dpinfer.statistics.noise import CountNoise, count_noise
from dpinfer.statistics.nulls import Draws, NullDistribution, candidates, check_draws, simulate
from dpinfer.tables.chi_squared_inference import (
    STATISTICS,
    GoodnessOfFit,
    Homogeneity,
    Independence,
    cohens_w,
    cramers_v,
    residual_table,
)
from dpinfer.tables.loglinear_fit import CellTable
from dpinfer.tables.marginal_results import MarginalTables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.stage import Context, Data, Stage
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.axes import Axis
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array
    from dpinfer.tables.chi_squared_inference import CountModel, Noise
    from dpinfer.tables.marginal_inference import TableNoise

    Bins = Sequence[float]
    Numbers = tuple[tuple[Any, float], ...]


NULLS = ("simulated", "asymptotic")

_LEVELED = Allowed(is_text, 'a column, or a condition such as "age >= 18"')

_SUM = 1e-8
"""Distance from 1 that the sum of given probabilities may have."""

_RAREST = 1e-15
"""Probability that a level has at least: below, squares of counts over expected ones overflow."""

_LARGEST = 2**53
"""Rows that a sample of public size has at most."""

_PEOPLE = "a chi-squared test", "bootstrap(columns, statistic='proportion') compares shares by person"
"""The refusal if a person may have several rows, and the alternative."""


@suggests
def chisquare(
    column: str,
    data: Data | Release | None = None,
    *,
    f_exp: Sequence[float] | Mapping[Any, float] | None = None,
    p0: Sequence[float] | Mapping[Any, float] | None = None,
    bins: Bins | None = None,
    where: str | None = None,
    statistic: str = "projected",
    null: str = "simulated",
    draws: Draws = "adaptive",
    seed: int = 0,
) -> ChiSquare:
    """Test whether the levels of a column have given probabilities.

    Parameters
    ----------
    column : str
        A Category, Boolean or short Integer, a condition such as ``"age >= 18"``, or a numeric column with ``bins``.
    data : PrivateData, PublicData or Release, optional
        Rows to measure; or a stored release of this question, or of a table or marginals with the column, at no further
        privacy cost.
    f_exp : array_like, Series or mapping, optional
        Expected frequencies, in any unit; only their proportions matter.
    p0 : array_like, Series or mapping, optional
        Expected probabilities: positive, with sum 1; an array is in the order of the declared levels, a Series or
        mapping is by level. Uniform if neither is given. They must be public: the guarantee does not cover them.
    bins : sequence of float, optional
        Increasing edges within the declared bounds, for a numeric column.
    where : str, optional
        A condition on declared columns; other rows are ignored.
    statistic : {"projected", "pearson"}
        "projected" weights the counts by the covariance from sampling and noise, and is the more powerful in most
        designs; "pearson" is the usual sum of squares over expected counts.
    null : {"simulated", "asymptotic"}
        "simulated" draws releases under the null hypothesis; "asymptotic" uses the chi-squared reference distribution,
        for the projected statistic with Gaussian noise.
    draws : "adaptive" or int
        Number of simulated releases; "adaptive" stops when the Monte Carlo error of the p-value no longer matters.
    seed : int
        Public seed of the simulation; the privacy noise has none.

    Returns
    -------
    ChiSquare
        Its ``fit(privacy)`` returns `ChiSquareResults`.

    Raises
    ------
    OptionError
        If an argument has an invalid value: probabilities that are not positive, do not add up to 1 or do not match the
        levels; a column with one level; an unknown statistic.
    NotProvedError
        For ``null="asymptotic"`` with Pearson's statistic or, when measured or inferred, with Laplace noise.
    FormulaError, UnknownColumnError, SchemaError
        If the column is not declared, or is numeric without ``bins``.

    References
    ----------
    Kifer & Rogers (2017), A new class of private chi-square hypothesis tests, AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(party=dpi.Category(["a", "b", "c"]))
    >>> rng = np.random.default_rng(1)
    >>> rows = pd.DataFrame({"party": rng.choice(["a", "b", "c"], 5000, p=[0.4, 0.3, 0.3])})
    >>> data = dpi.PublicData(rows, schema, rng=rng)
    >>> test = dpi.chisquare("party", data, p0={"a": 0.4, "b": 0.3, "c": 0.3}).fit(dpi.ZCDP(0.01))
    >>> bool(0.01 < test.pvalue <= 1)
    True
    """
    if f_exp is not None and p0 is not None:
        raise OptionError("f_exp", f_exp, "None where p0= is given: both give the same probabilities")
    shares = None if p0 is None else read_shares("p0", p0)
    if f_exp is not None:
        shares = read_shares("f_exp", f_exp, scaled=True)
    _LEVELED.check("column", column)
    return ChiSquare.asking(locals(), axes=(_axis(column, bins),), p0=shares)


@suggests
def chi2_contingency(
    row: str,
    column: str,
    data: Data | Release | None = None,
    *,
    fixed: str | None = None,
    sizes: Sequence[float] | Mapping[Any, float] | None = None,
    bins: Mapping[str, Bins] | None = None,
    where: str | None = None,
    statistic: str = "projected",
    null: str = "simulated",
    draws: Draws = "adaptive",
    seed: int = 0,
) -> ChiSquare:
    """Test whether two columns are independent, or whether samples have the same distribution.

    Parameters
    ----------
    row, column : str
        Category, Boolean or short Integer columns, conditions such as ``"age >= 18"``, or numeric columns with
        ``bins``.
    data : PrivateData, PublicData or Release, optional
        As in `chisquare`.
    fixed : str, optional
        The column whose margin is fixed by design, so that its levels are samples. With two samples and a Boolean
        column this is the test of two proportions. By default no margin is fixed.
    sizes : array_like, Series or mapping, optional
        The sizes of the samples, if they are public and every row is counted; otherwise noisy sizes are used. The
        guarantee does not cover them, since neighbouring data sets have other sizes.
    bins : mapping of str to sequence of float, optional
        Increasing edges for numeric columns.
    where, statistic, null, draws, seed
        As in `chisquare`. If noise hides a margin, a simulated p-value is always that of the projected statistic
        without a known number of rows, and is flagged.

    Returns
    -------
    ChiSquare
        Its ``fit(privacy)`` returns `ChiSquareResults`.

    Raises
    ------
    OptionError, NotProvedError, FormulaError, UnknownColumnError, SchemaError
        As in `chisquare`.

    References
    ----------
    Kifer & Rogers (2017), A new class of private chi-square hypothesis tests, AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(region=dpi.Category(["north", "south"]), works=dpi.Boolean())
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(5000, rng)
    >>> frame["works"] = rng.random(5000) < np.where(frame["region"] == "north", 0.6, 0.4)
    >>> test = dpi.chi2_contingency("region", "works", dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.1))
    >>> int(test.dof), bool(test.pvalue < 0.01)
    (1, True)
    """
    _LEVELED.check("row", row)
    _LEVELED.check("column", column)
    if row == column:
        raise OptionError("column", column, f"a column other than row={named(row)}")
    edges = {} if bins is None else bins
    if not isinstance(edges, Mapping) or not set(edges) <= {row, column}:
        raise OptionError("bins", bins, f"a mapping from {row!r} or {column!r} to increasing edges")
    axes = (_axis(row, edges.get(row)), _axis(column, edges.get(column)))
    if fixed not in (None, row, column):
        raise OptionError("fixed", fixed, f"{row!r}, {column!r} or None")
    return ChiSquare.asking(locals(), axes=axes, sizes=None if sizes is None else read_sizes(sizes))


def _axis(column: str, bins: object) -> Mapping[str, Any]:
    return axes_of(column)[0] if bins is None else {"column": column, "edges": edges_of(column, bins)}


@dataclass(frozen=True, eq=False)
class ChiSquare(CountsQuestion):
    """A chi-squared test of the cells of a table. See `chisquare` and `chi2_contingency`.

    Attributes
    ----------
    axes : tuple of mapping
        One axis (goodness of fit) or two (independence: rows, columns).
    where : str, optional
    p0 : tuple of (label, float), optional
        Probability of every level under the null hypothesis, for one axis; uniform by default. Labels are None if the
        numbers were given by position.
    fixed : str, optional
        The axis whose margin is fixed by design: the other is then compared between samples.
    sizes : tuple of (label, float), optional
        Public sizes of these samples.
    statistic : {"projected", "pearson"}
    null : {"simulated", "asymptotic"}
    draws : "adaptive" or int
    seed : int
    """

    procedures: ClassVar[tuple[str, ...]] = ("chisquare", "chi2_contingency")

    axes: tuple[Mapping[str, Any], ...] = ()
    where: str | None = None
    p0: tuple[tuple[Any, float], ...] | None = inferred(None)
    fixed: str | None = inferred(None)
    sizes: tuple[tuple[Any, float], ...] | None = inferred(None)
    statistic: str = inferred("projected", one_of(STATISTICS))
    null: str = inferred("simulated", one_of(NULLS))
    draws: Draws = inferred("adaptive")
    seed: int = inferred(0)

    def check_options(self) -> None:
        """Refuse incompatible options and public numbers."""
        if len(self.axes) not in (1, 2):
            raise OptionError("axes", len(self.axes), "one column or two")
        check_draws(self.draws, self.seed)
        if self.null == "asymptotic" and self.statistic == "pearson":
            raise NotProvedError(
                "Pearson's statistic of noisy counts has no chi-squared limit: use null='simulated', or "
                "statistic='projected'"
            )
        if self.p0 is not None:
            read_shares("p0", [value for _, value in self.p0], [label for label, _ in self.p0])
            if len(self.axes) > 1:
                raise OptionError("p0", _shown(self.p0), "None for two columns: their table has no given probabilities")
        if self.fixed is not None and len(self.axes) == 1:
            raise OptionError("fixed", self.fixed, "None for one column")
        if self.fixed is not None and self.fixed not in self.columns:
            raise OptionError("fixed", self.fixed, f"one of {', '.join(self.columns)}, or None")
        if self.sizes is not None:
            read_sizes([value for _, value in self.sizes], [label for label, _ in self.sizes])
            if self.fixed is None:
                raise OptionError("sizes", _shown(self.sizes), "None unless fixed= names the samples")

    @property
    def procedure(self) -> str:
        """The function that creates it."""
        return self.procedures[len(self.axes) - 1]

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns, or conditions, in the order in which they were named."""
        return tuple(axis_name(axis) for axis in self.axes)

    def plan(self, schema: Schema) -> SumPlan:
        """Compile the table against a schema."""
        return SumPlan("table", schema, axes=self.axes, where=self.where, target="data")

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Describe the question in one line."""
        return f"{self.procedure} of {' and '.join(self.columns)}{told_where(self.where)}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:
        """Refuse people with several rows, columns without levels, and numbers that do not match the levels."""
        refuse_dependent_rows(schema, *_PEOPLE)
        plan = self.plan(schema)
        self.check_fit(plan.cells, laplace=False, keeps=plan.rows.keeps_every_row)
        super().check(schema, neighbors)

    def check_fit(self, axes: Sequence[Axis], *, laplace: bool, keeps: bool, nobs: int | None = None) -> None:
        """Refuse a table that does not suit the test.

        ``keeps`` is whether every row is in some cell, so that public sizes are those of the counts; ``nobs`` is the
        number of rows if it is public.

        Raises
        ------
        OptionError, NotProvedError
        """
        for axis in axes:
            if len(axis.labels) < 2:
                raise OptionError("column", axis.name, "a column with at least two levels")
        if laplace and self.null == "asymptotic":
            raise NotProvedError(
                "null='asymptotic' needs Gaussian noise: under PureDP the noise is Laplace, and the limit is "
                "not chi-squared; use null='simulated'"
            )
        if len(axes) == 1:
            self.probabilities(axes[0])
        elif self.sizes is not None:
            self.sample_sizes(next(axis for axis in axes if axis.name == self.fixed))
            if not keeps:
                raise NotProvedError(
                    "sizes= are those of the counts only where every row is counted: declare missing= and impossible= "
                    "constants, without where=, or omit sizes= to use the noisy sizes"
                )
            total = sum(value for _, value in self.sizes)
            if nobs is not None and total != nobs:
                right = f"sizes that add up to the {nobs:,} rows, not {total:,.0f}"
                raise OptionError("sizes", _shown(self.sizes), right)

    def probabilities(self, axis: Axis) -> Array:
        """Probability of every level (d,), in the order of the axis."""
        if self.p0 is None:
            return np.full(len(axis.labels), 1.0 / len(axis.labels))
        return _by_label("p0", self.p0, axis)

    def sample_sizes(self, axis: Axis) -> Array | None:
        """Public size of every sample (r,), in the order of the axis."""
        return None if self.sizes is None else _by_label("sizes", self.sizes, axis)

    def null_model(
        self, axes: Sequence[Axis], noise: Noise, nobs: int | None, sizes: Array | None, statistic: str
    ) -> CountModel:
        """Return the null model of noisy counts, given public numbers of rows or sizes of samples."""
        if len(axes) == 1:
            return GoodnessOfFit(self.probabilities(axes[0]), noise, nobs, statistic)
        shape = len(axes[0].labels), len(axes[1].labels)
        if self.fixed is None:
            return Independence(shape, noise, nobs, statistic)
        return Homogeneity(shape, noise, sizes, statistic)

    # What is measured

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:
        """Ask for an ordinary table."""
        stage, plan = super().stage(place, context, released), self.plan(context.schema)
        laplace, keeps = isinstance(context.privacy, PureDP), plan.rows.keeps_every_row
        self.check_fit(plan.cells, laplace=laplace, keeps=keeps, nobs=context.nobs)
        return stage

    def describe(self, measured: Measurement) -> str:
        """Describe the table that would be measured, its noise, and the counts detectable above it."""
        spread = first_error(measured)
        return (
            f"{measured.describe()}\nnoise on each of the {len(measured.law.scales)} counts: standard deviation "
            f"{spread:.4g} rows. Cells with fewer rows are uninformative; sampling error alone is as large "
            f"in a cell of {spread**2:.4g} rows."
        )

    # What is inferred

    def infer(self, release: Release | None = None) -> ChiSquareResults:
        """Test from a stored release of these columns, or of a table that includes them, at no privacy cost.

        Raises
        ------
        InferenceError, MissingFromReleaseError
            If the release lacks these counts, or was made with another ``where``.
        OptionError, NotProvedError
            If the table does not suit the test.
        """
        found, theirs = self._asked_of(release)
        tables, plan = theirs.marginal_tables(), theirs.summed()
        held = plan if tables is None else tables.plan
        assert held is not None  # `reads` refuses other releases
        refuse_dependent_rows(held.schema, *_PEOPLE)
        check_bins({axis_name(axis): axis.get("edges") for axis in self.axes}, held.axes, held.schema)
        names = self.columns
        if self.fixed is not None:
            names = (self.fixed, *(name for name in names if name != self.fixed))
        noise: CountNoise | TableNoise
        if isinstance(tables, MarginalTables):
            tables.check()
            if self.null == "asymptotic":
                raise NotProvedError("null='asymptotic' assumes independent noise on counts: use null='simulated'")
            axes, values, noise = tables.axes(names), tables.unbiased(names), tables.noise(names)
            keeps = tables.keeps_every_row
        else:
            assert plan is not None
            if plan.weights is not None:
                raise NotProvedError("a chi-squared test needs counts of rows: a table of weighted rows has none")
            axes, counts = counts_of_table(plan, found.array[None], names)
            values, noise = counts.sum(axis=-1)[0], count_noise(found.law, found.steps, counts.shape[-1])
            keeps = plan.rows.keeps_every_row
        known = found.nobs if keeps else None
        self.check_fit(axes, laplace=found.law.family == "laplace", keeps=keeps, nobs=known)
        public = known or None  # of no rows there is nothing to divide by
        model = self.null_model(axes, noise, public, self.sample_sizes(axes[0]), self.statistic)
        title, hypothesis = self._hypothesis(axes)
        statistic, distribution = float(model.statistic(values[None])[0]), None
        if self.null == "simulated":
            distribution = simulate(model, values, draws=self.draws, seed=self.seed)
            pvalue = distribution.pvalue
        else:
            pvalue = float(stats.chi2.sf(statistic, model.dof)) if np.isfinite(statistic) else 1.0
        given = [name for name in ("p0", "sizes") if getattr(self, name) is not None]
        supplied = [f"{name} was supplied as a public fact: the guarantee does not cover it." for name in given]
        return ChiSquareResults(
            title=f"Private chi-squared {title}",
            hypothesis=hypothesis,
            statistic=statistic,
            pvalue=pvalue,
            release=found,
            statistic_name="Projected chi2" if self.statistic == "projected" else "Pearson chi2",
            dof=float(model.dof),
            distribution=distribution,
            null=self.null,
            nobs=float(values.sum()) if known is None else float(known),
            nobs_is_public=known is not None,
            flags=count_flags(model, values, public, statistic, distribution),
            notes=(*where_notes(self.where), *supplied),
            model=model,
            values=values,
            index=CellTable.of(axes).index,
            transposed=len(axes) == 2 and names[0] != self.columns[0],
        )

    def _hypothesis(self, axes: Sequence[Axis]) -> tuple[str, str]:
        """Return the name of the test and its null hypothesis, in words."""
        first, last = axes[0].name, axes[-1].name
        if len(axes) == 1:
            shares = self.probabilities(axes[0])
            even = bool(np.allclose(shares, shares[0]))
            return "goodness of fit", f"{first} is {'uniform' if even else 'as p0'}"
        if self.fixed is None:
            return "test of independence", f"{first} and {last} are independent"
        return "test of homogeneity", f"{last} is the same in every {first}"

    def with_options(self, options: Mapping[str, Any]) -> Self:
        """Return the same question with other inference options; numbers by level are as in `chisquare`."""
        given = dict(options)
        if given.get("p0") is not None:
            given["p0"] = read_shares("p0", given["p0"])
        if given.get("sizes") is not None:
            given["sizes"] = read_sizes(given["sizes"])
        return super().with_options(given)


# Numbers for the levels of a column


def _shown(pairs: Numbers) -> object:
    """Numbers as given: by label, or in order."""
    return [value for _, value in pairs] if all(label is None for label, _ in pairs) else dict(pairs)


def _by_label(option: str, pairs: Numbers, axis: Axis) -> Array:
    """Numbers by level in the order of an axis; by position if no labels were given."""
    given = dict(pairs)
    ordered = all(label is None for label, _ in pairs)
    right = len(pairs) == len(axis.labels) and (ordered or given.keys() == set(axis.labels))
    if not right:
        levels = ", ".join(map(str, axis.labels))
        raise OptionError(option, _shown(pairs), f"a value for each level of {axis.name!r}: {levels}")
    return np.array([value for _, value in pairs] if ordered else [given[label] for label in axis.labels], dtype=float)


def _pairs(option: str, given: object, labels: Sequence[Any] | None, right: str) -> Numbers:
    if labels is None and isinstance(given, Mapping | pd.Series):
        labels, values = list(given.keys()), list(given.values() if isinstance(given, Mapping) else given.tolist())
    elif is_list(given):
        values = list(given)
        labels = [None] * len(values) if labels is None else labels
    else:
        raise OptionError(option, given, right)
    if len(values) < 2 or not all(map(FINITE.fits, values)) or not all(isinstance(one, Hashable) for one in labels):
        raise OptionError(option, given, right)
    plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
    return tuple((label, float(number)) for label, number in zip(plain, values, strict=True))


def read_shares(option: str, given: object, labels: Sequence[Any] | None = None, *, scaled: bool = False) -> Numbers:
    """Validate probabilities from an array (by position), or a Series or mapping (by level).

    Raises
    ------
    OptionError
        If they are not positive, one is below 1e-15, or they do not add up to 1 and are not ``scaled`` to it.
    """
    right = "positive numbers" if scaled else "positive probabilities that add up to 1"
    pairs = _pairs(option, given, labels, right + ", one for each level")
    total, least = sum(value for _, value in pairs), min(value for _, value in pairs)
    if least <= 0:
        raise OptionError(option, given, right + ": a level of probability 0 is ruled out by one row, not by a test")
    if not scaled and abs(total - 1) > _SUM:
        raise OptionError(option, given, f"{right}, not to {'more' if total > 1 else 'less'}")
    if least / total < _RAREST:
        raise OptionError(option, given, f"{right}, each a share of at least {_RAREST:g}")
    return tuple((label, value / total) for label, value in pairs)


def read_sizes(given: object, labels: Sequence[Any] | None = None) -> Numbers:
    """Validate public sizes of samples, integers from 1 to 2**53; as in `read_shares`."""
    right = f"positive whole numbers up to {_LARGEST:.3g}, one for each sample"
    pairs = _pairs("sizes", given, labels, right)
    if not all(1 <= value <= _LARGEST and value == round(value) for _, value in pairs):
        raise OptionError("sizes", given, right)
    return pairs


# Results


NOT_RESOLVED = "Privacy noise dominates a margin of the table: the interval is the whole range of the measure."
"""What is said of an effect size whose interval is the whole range."""

_SMALL = 5.0
"""Rows that an expected count has to reach."""

_FAR = 4.0
"""Standard deviations of noise beyond which a stated size of a sample is doubted."""

_DRAWN = 60
"""Cells up to which residuals are drawn with their intervals."""

_HIDDEN = (
    "privacy noise dominates a margin: the p-value is that of the projected statistic without the number of rows, the "
    "larger of two fits, and conservative"
)


@dataclass(frozen=True, eq=False, repr=False)
class ChiSquareResults(TestResults):
    """A chi-squared test on noisy counts.

    Unpacks like scipy's results: statistic and p-value, and for a table also ``dof`` and ``expected_freq``.

    Attributes
    ----------
    model : GoodnessOfFit, Independence or Homogeneity
        The statistic and its null distribution.
    values : ndarray (d,)
        Noisy counts, the last axis varying fastest.
    index : Index
        Label of every cell.
    transposed : bool
        Whether the second named column comes first in ``index``, because its margin is fixed.
    """

    _estimated_as = "chi2"

    model: CountModel = field(kw_only=True)
    values: Array = field(kw_only=True)
    index: pd.Index = field(kw_only=True)
    transposed: bool = field(default=False, kw_only=True)

    def __iter__(self) -> Iterator[Any]:
        yield from (self.statistic, self.pvalue)
        if not isinstance(self.model, GoodnessOfFit):
            yield from (self.dof, self.expected_freq)

    def _labelled(self, numbers: Array) -> pd.Series | pd.DataFrame:
        series = pd.Series(numbers, index=self.index)
        if self.index.nlevels == 1:
            return series
        table = series.unstack(sort=False)  # noqa: PD010  (of a Series)
        return table.T if self.transposed else table

    @property
    def observed_freq(self) -> pd.Series | pd.DataFrame:
        """Noisy counts by level, or as a table."""
        return self._labelled(self.values)

    @property
    def expected_freq(self) -> pd.Series | pd.DataFrame:
        """Expected counts under the null hypothesis, by level or as a table."""
        return self._labelled(self.model.expected(self.values))

    def residuals(self, alpha: float = 0.05, *, simultaneous: bool = False) -> pd.DataFrame:
        """Return the residual of each cell, with its standard error and interval.

        Parameters
        ----------
        alpha : float
            One minus the confidence level of the intervals.
        simultaneous : bool
            Whether the confidence level is simultaneous; see ``PrivateResults.conf_int``.

        Returns
        -------
        DataFrame
            A row per cell; columns "observed" (noisy), "expected", "difference", "std err" (of the difference under the
            null hypothesis, from sampling and noise), "std err (noise)", "residual" (difference over std err), and the
            endpoints of the interval of the difference.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
        """
        level, together = check_alpha(alpha), checked_truth("simultaneous", simultaneous)
        found = residual_table(self.model, self.values, alpha=level, simultaneous=together)
        names = ["observed", "expected", "difference", "std err", "std err (noise)", "residual"]
        parts = [self.values, found.expected, found.difference, found.standard_error, found.noise_error]
        parts += [found.standardised, found.lower, found.upper]
        return pd.DataFrame(dict(zip([*names, *interval_labels(alpha)], parts, strict=True)), index=self.index)

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return `residuals` without the errors of the differences."""
        return self.residuals(alpha).drop(columns=["difference", "std err", "std err (noise)"])

    def effect_size(self, alpha: float = 0.05) -> Effect:
        """Return Cramer's V of a table, or Cohen's w of one column, with its interval.

        Parameters
        ----------
        alpha : float
            One minus the confidence level.

        Returns
        -------
        Effect
        """
        model, level = self.model, check_alpha(alpha)
        if isinstance(model, GoodnessOfFit):
            name = "Cohen's w"
            found = cohens_w(self.values, model.probabilities, noise=model.noise, nobs=model.nobs, alpha=level)
        else:
            name, public = "Cramer's V", int(self.nobs) if self.nobs_is_public and self.nobs is not None else None
            found = cramers_v(self.values, model.shape, noise=model.noise, nobs=public, alpha=level)
        flag = "" if bool(np.all(found.resolved)) else NOT_RESOLVED
        return Effect(name, float(found.estimate), float(found.lower), float(found.upper), flag)

    def cramers_v(self, alpha: float = 0.05) -> Effect:
        """Return Cramer's V with its interval; see `effect_size`.

        Raises
        ------
        InferenceError
            If there is one column: use Cohen's w, ``effect_size()``.
        """
        if isinstance(self.model, GoodnessOfFit):
            raise InferenceError("Cramer's V is for two columns; for one, effect_size() gives Cohen's w")
        return self.effect_size(alpha)

    def _explain(self, alpha: float = 0.05) -> list[str]:
        size = self.effect_size(alpha)
        return [
            *super()._explain(alpha),
            f"{size.name} {size.estimate:.3f}, {100 * (1 - alpha):.6g}% interval {size.lower:.3f} to {size.upper:.3f}. "
            f"{size.flag}".rstrip(),
            "Residual is (observed - expected) divided by its standard error under the null hypothesis, which includes "
            "sampling error and noise; its interval is for the population.",
        ]

    def plot_residuals(self, ax: Axes | None = None, *, alpha: float = 0.05, color: str = "C0") -> Axes:
        """Plot the standardised residual of every cell with its interval.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes for the plot; a new figure by default.
        alpha : float
            One minus the confidence level of the intervals.
        color : str

        Returns
        -------
        matplotlib.axes.Axes
            For more than 60 cells only the residuals are drawn.
        """
        table = self.residuals(alpha)
        place, centre = np.arange(len(table))[::-1], table["residual"].to_numpy()
        ax = given_or_new(ax, 6.5, float(np.clip(0.9 + 0.28 * len(table), 2.4, 14.0)))
        limit = float(stats.norm.isf(alpha / 2))
        ax.axvspan(-limit, limit, color=FAINT, alpha=0.2, lw=0)
        ax.axvline(0.0, color=ink(), lw=0.8)
        if len(table) <= _DRAWN:
            draw_whiskers(ax, place, table.iloc[:, -2:].set_axis(["lower", "upper"], axis=1), color=color)
        ax.plot(centre, place, "o", color=color, ms=4)
        if len(table) <= _DRAWN:
            ax.set_yticks(place, label_texts(table.index))
        ax.set_xlabel(f"standardised residual (shaded: {1 - alpha:.0%} range of one cell if the hypothesis holds)")
        ax.set_ylabel(", ".join(str(name) for name in self.index.names))
        titled(ax, self.hypothesis)
        restrain(ax, left=False)
        return ax


def count_flags(
    model: CountModel, values: Array, public: int | None, statistic: float, distribution: NullDistribution | None
) -> tuple[str, ...]:
    """Return the warnings of a chi-squared test.

    Parameters
    ----------
    model : GoodnessOfFit, Independence or Homogeneity
    values : ndarray (d,)
        Noisy counts.
    public : int or None
        The number of rows if it is public.
    statistic : float
    distribution : NullDistribution or None
        None if the p-value is asymptotic.
    """
    found = []
    if not np.isfinite(statistic):
        found.append("the noise is too large for the statistic to be computed: the p-value is 1")
    spread = model.noise.variance**0.5
    few = int((model.expected(values) < max(_SMALL, spread)).sum())
    if few:
        so = (
            "those cells are uninformative"
            if distribution
            else "the limiting distribution may be inaccurate: use null='simulated'"
        )
        below = f"{few} of {values.size} expected counts are below 5 or below the noise"
        found.append(f"{below} (standard deviation {spread:.4g}): {so}")
    if values.sum() < 1 and public is None:
        found.append("the noisy number of rows is below one: it was set to one")
    elif (values < 0).any():
        found.append(f"{int((values < 0).sum())} noisy counts are below zero")
    if isinstance(model, Homogeneity) and model.sizes is not None:
        away = np.abs(values.reshape(model.shape).sum(axis=1) - model.sizes)
        if (away > _FAR * spread * model.shape[1] ** 0.5).any():
            found.append(
                "the stated sizes of samples are far from the noisy ones: are they in the order of the levels?"
            )
    if distribution is not None and len(candidates(model, values[None])) > 1:
        found.append(_HIDDEN)
    if not isinstance(model, GoodnessOfFit):
        table = values.reshape(model.shape)
        low = sum(int((table.sum(axis=axis) < 1).sum()) for axis in (0, 1))
        if low:
            found.append(f"{low} noisy margins are below one row: they were set to one")
    if distribution is not None and distribution.failed:
        found.append(f"{distribution.failed} simulated draws could not be evaluated: they count against rejection")
    return tuple(found)

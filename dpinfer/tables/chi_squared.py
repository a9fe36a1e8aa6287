"""Chi-squared tests of noisy counts: goodness of fit, independence, homogeneity."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.checks import FINITE, Allowed, is_list, is_text, one_of
from dpinfer.errors import NotProvedError, OptionError, named
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.cell_sums import CountsQuestion, SumPlan, counts_of_table
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import axes_of, axis_name, check_bins, edges_of, inferred, told_where, where_notes
from dpinfer.procedures.procedure import first_error
from dpinfer.results.printing import refuse_dependent_rows
from dpinfer.statistics.noise import CountNoise, count_noise
from dpinfer.statistics.nulls import Draws, check_draws, simulate
from dpinfer.tables.chi_squared_inference import STATISTICS, GoodnessOfFit, Homogeneity, Independence
from dpinfer.tables.chi_squared_results import ChiSquareResults, count_flags
from dpinfer.tables.loglinear_fit import CellTable
from dpinfer.tables.marginal_results import MarginalTables

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.stage import Context, Data, Stage
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.axes import Axis
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array
    from dpinfer.tables.chi_squared_inference import CountModel, Noise
    from dpinfer.tables.marginal_inference import TableNoise

    Bins = Sequence[float]
    Numbers = tuple[tuple[Any, float], ...]

__all__ = ["NULLS", "ChiSquare", "chi2_contingency", "chisquare", "read_shares", "read_sizes"]

NULLS = ("simulated", "asymptotic")

_LEVELED = Allowed(is_text, 'a column, or a condition such as "age >= 18"')

_SUM = 1e-8
"""Distance from 1 that the sum of given probabilities may have."""

_RAREST = 1e-15
"""Probability that a level has at least: below, squares of counts over expected ones overflow."""

_LARGEST = 2**53
"""Rows that a sample of public size has at most."""


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
        Rows to measure; or a release of this question, or of a table or marginals that hold the column, which costs
        nothing more.
    f_exp : array_like, Series or mapping, optional
        Expected frequencies, in any unit: only their proportions count.
    p0 : array_like, Series or mapping, optional
        Expected probabilities: positive, of sum 1; an array follows the declared levels, a Series or mapping is read
        by level. Uniform where neither is given. It must be a public fact: the guarantee does not cover it.
    bins : sequence of float, optional
        Increasing edges within the declared bounds, for a numeric column.
    where : str, optional
        A condition on declared columns; other rows are not counted.
    statistic : {"projected", "pearson"}
        "projected" weighs the counts by the covariance of sampling and noise together, and has most power in most
        designs; "pearson" is the usual sum of squares over expected counts.
    null : {"simulated", "asymptotic"}
        "simulated" draws releases under the hypothesis; "asymptotic" refers the projected statistic with Gaussian
        noise to chi-squared.
    draws : "adaptive" or int
        Simulated releases: "adaptive" stops when the Monte Carlo error of the p-value no longer matters.
    seed : int
        Public seed of the simulation; the privacy noise has none.

    Returns
    -------
    ChiSquare
        Its ``fit(privacy)`` gives `ChiSquareResults`.

    Raises
    ------
    OptionError
        If an argument has no such value: probabilities that are not positive or do not add up to 1 or do not match
        the levels, a column with one level, a statistic that does not exist.
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
        raise OptionError("f_exp", f_exp, "None where p0= is given: they say the same")
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
        One of the two, whose margin is fixed by design: samples of the sizes in which its levels were drawn. With two
        samples and a Boolean column this is the test of two proportions. By default no margin is fixed.
    sizes : array_like, Series or mapping, optional
        The sizes of the samples, where they are public and every row is counted; the noisy ones serve otherwise. The
        guarantee does not cover them: neighbouring data sets have other sizes.
    bins : mapping of str to sequence of float, optional
        Increasing edges for numeric columns.
    where, statistic, null, draws, seed
        As in `chisquare`. Where noise hides a margin, a simulated p-value is that of the projected statistic that does
        not know the number of rows, whichever was asked, and is flagged.

    Returns
    -------
    ChiSquare
        Its ``fit(privacy)`` gives `ChiSquareResults`.

    Raises
    ------
    OptionError, NotProvedError, FormulaError, UnknownColumnError, SchemaError
        As `chisquare`.

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
        raise OptionError("column", column, f"another column than row={named(row)}")
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
        Probability of every level under the hypothesis; uniform by default. For one axis. Labels are None where
        the numbers were given by position.
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
        """Refuse options, and public numbers, that do not belong together."""
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
        """The function that asks it."""
        return self.procedures[len(self.axes) - 1]

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns, or conditions, in the order in which they were named."""
        return tuple(axis_name(axis) for axis in self.axes)

    def plan(self, schema: Schema) -> SumPlan:
        """Return the table, compiled against a schema."""
        return SumPlan("table", schema, axes=self.axes, where=self.where, target="data")

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        return f"{self.procedure} of {' and '.join(self.columns)}{told_where(self.where)}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:
        """Refuse people with several rows, columns without levels, and numbers that do not match the levels."""
        _refuse_people(schema)
        plan = self.plan(schema)
        self.check_fit(plan.cells, laplace=False, keeps=plan.rows.keeps_every_row)
        super().check(schema, neighbors)

    def check_fit(self, axes: Sequence[Axis], *, laplace: bool, keeps: bool, nobs: int | None = None) -> None:
        """Refuse a table that the test does not fit.

        ``keeps`` says whether every row is in some cell, so that public sizes are those of the counts; ``nobs`` is the
        number of rows where it is public.

        Raises
        ------
        OptionError, NotProvedError
        """
        for axis in axes:
            if len(axis.labels) < 2:
                raise OptionError("column", axis.name, "a column of two levels or more: with one there is no test")
        if laplace and self.null == "asymptotic":
            raise NotProvedError(
                "null='asymptotic' needs Gaussian noise: under a PureDP price the noise is Laplace, and the limit is "
                "not chi-squared; use null='simulated'"
            )
        if len(axes) == 1:
            self.probabilities(axes[0])
        elif self.sizes is not None:
            self.sample_sizes(next(axis for axis in axes if axis.name == self.fixed))
            if not keeps:
                raise NotProvedError(
                    "sizes= are those of the counts only where every row is counted: declare missing= and impossible= "
                    "constants, without where=, or leave sizes= out and the noisy ones serve"
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
        """Return the hypothesis behind noisy counts; the number of rows or the sizes of samples if they are public."""
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
        """Describe the table that would be measured, its noise, and how large counts must be to be seen over it."""
        spread = first_error(measured)
        return (
            f"{measured.describe()}\nnoise on each of the {len(measured.law.scales)} counts: standard deviation "
            f"{spread:.4g} rows. Cells that hold fewer rows tell little; sampling alone moves a cell of "
            f"{spread**2:.4g} rows by as much."
        )

    # What is inferred

    def infer(self, release: Release | None = None) -> ChiSquareResults:
        """Test a release of these columns, or of a table that holds them among others: free, and without any row.

        Raises
        ------
        InferenceError, MissingFromReleaseError
            If the release holds no such counts, or was made with another ``where``.
        OptionError, NotProvedError
            If the table does not fit the test.
        """
        found, theirs = self._asked_of(release)
        tables, plan = theirs.marginal_tables(), theirs.summed()
        held = plan if tables is None else tables.plan
        assert held is not None  # `reads` refuses other releases
        _refuse_people(held.schema)
        check_bins({axis_name(axis): axis.get("edges") for axis in self.axes}, held.axes, held.schema)
        names = self.columns
        ordered = names if self.fixed is None else (self.fixed, *(name for name in names if name != self.fixed))
        noise: CountNoise | TableNoise
        if isinstance(tables, MarginalTables):
            tables.check()
            if self.null == "asymptotic":
                raise NotProvedError("null='asymptotic' is of independent noise on counts: use null='simulated'")
            axes, values, noise = tables.axes(ordered), tables.unbiased(ordered), tables.noise(ordered)
            keeps = tables.keeps_every_row
        else:
            assert plan is not None
            if plan.weights is not None:
                raise NotProvedError("a chi-squared test counts rows: a table of weighted rows has none")
            axes, counts = counts_of_table(plan, found.array[None], ordered)
            values, noise = counts.sum(axis=-1)[0], count_noise(found.law, found.steps, counts.shape[-1])
            keeps = plan.rows.keeps_every_row
        known = found.nobs if keeps else None
        self.check_fit(axes, laplace=found.law.family == "laplace", keeps=keeps, nobs=known)
        return self._tested(found, axes, noise, values, known)

    def with_options(self, options: Mapping[str, Any]) -> Self:
        """Return the same question with other options of the inference; numbers by level are read as in `chisquare`."""
        given = dict(options)
        if given.get("p0") is not None:
            given["p0"] = read_shares("p0", given["p0"])
        if given.get("sizes") is not None:
            given["sizes"] = read_sizes(given["sizes"])
        return super().with_options(given)

    def _tested(
        self, release: Release, axes: tuple[Axis, ...], noise: CountNoise | TableNoise, values: Array, known: int | None
    ) -> ChiSquareResults:
        public = known or None  # of no rows there is nothing to divide by
        names = [axis.name for axis in axes]
        model = self.null_model(axes, noise, public, self.sample_sizes(axes[0]), self.statistic)
        if len(axes) == 1:
            shares = self.probabilities(axes[0])
            even = bool(np.allclose(shares, shares[0]))
            title, hypothesis = "goodness of fit", f"{names[0]} is {'uniform' if even else 'as p0'}"
        elif self.fixed is None:
            title, hypothesis = "test of independence", f"{names[0]} and {names[1]} are independent"
        else:
            title, hypothesis = "test of homogeneity", f"{names[1]} is the same in every {names[0]}"
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
            release=release,
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


def _refuse_people(schema: Schema) -> None:
    """Refuse to test counts of rows where a person may have several."""
    instead = "bootstrap(columns, statistic='proportion') compares shares by person"
    refuse_dependent_rows(schema, "a chi-squared test", instead)


# Numbers for the levels of a column


def _shown(pairs: Numbers) -> object:
    """Numbers as they were given: by label, or in order."""
    return [value for _, value in pairs] if all(label is None for label, _ in pairs) else dict(pairs)


def _by_label(option: str, pairs: Numbers, axis: Axis) -> Array:
    """Numbers by level in the order of an axis; positions where no labels were given."""
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
    """Read probabilities from an array (by position), or a Series or mapping (by level).

    Raises
    ------
    OptionError
        If they are not positive, a share is below 1e-15, or they do not add up to 1 and are not to be ``scaled`` to it.
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
    """Read public sizes of samples, whole numbers from 1 to 2**53; as `read_shares`."""
    right = f"positive whole numbers up to {_LARGEST:.3g}, one for each sample"
    pairs = _pairs("sizes", given, labels, right)
    if not all(1 <= value <= _LARGEST and value == round(value) for _, value in pairs):
        raise OptionError("sizes", given, right)
    return pairs

"""The procedure behind the chi-squared tests of noisy counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy import stats

from dpinfer.errors import NotProvedError, OptionError
from dpinfer.inference.testing.nulls import Draws, NullDistribution, check_draws, simulate
from dpinfer.inference.testing.tables import STATISTICS, GoodnessOfFit, Homogeneity, Independence
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.conditions import told_where, where_notes
from dpinfer.procedures.described import counts_of_table
from dpinfer.procedures.explanation import first_error
from dpinfer.procedures.level_numbers import by_label, read_shares, read_sizes, shown
from dpinfer.procedures.noisy_cells import count_noise
from dpinfer.procedures.of_sums import OfSums
from dpinfer.procedures.options import inferred, one_of
from dpinfer.procedures.sum_plan import TABLES, SumPlan
from dpinfer.procedures.table_axes import axis_name, check_bins
from dpinfer.results.people import refuse_dependent_rows
from dpinfer.results.testing.tables import ChiSquareResults, cell_index, count_flags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpinfer.inference.testing.count_noise import CountNoise, TableNoise
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.stage import Context, Stage
    from dpinfer.privacy.units import Neighbors
    from dpinfer.procedures.procedure import Procedure
    from dpinfer.release import Release, StageRelease
    from dpinfer.results.testing.tables import CountModel
    from dpinfer.schema.axes import Axis
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["NULLS", "ChiSquare"]

NULLS = ("simulated", "asymptotic")


@dataclass(frozen=True, eq=False)
class ChiSquare(OfSums):
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
        self._check_given()

    def _check_given(self) -> None:
        if self.p0 is not None:
            read_shares("p0", [value for _, value in self.p0], [label for label, _ in self.p0])
            if len(self.axes) > 1:
                raise OptionError("p0", shown(self.p0), "None for two columns: their table has no given probabilities")
        if self.fixed is not None and len(self.axes) == 1:
            raise OptionError("fixed", self.fixed, "None for one column")
        if self.fixed is not None and self.fixed not in self.columns:
            raise OptionError("fixed", self.fixed, f"one of {', '.join(self.columns)}, or None")
        if self.sizes is not None:
            read_sizes([value for _, value in self.sizes], [label for label, _ in self.sizes])
            if self.fixed is None:
                raise OptionError("sizes", shown(self.sizes), "None unless fixed= names the samples")

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
            self._check_sizes(next(axis for axis in axes if axis.name == self.fixed), keeps=keeps, nobs=nobs)

    def _check_sizes(self, axis: Axis, *, keeps: bool, nobs: int | None) -> None:
        total = sum(value for _, value in self.sizes or ())
        self.sample_sizes(axis)
        if not keeps:
            raise NotProvedError(
                "sizes= are those of the counts only where every row is counted: declare missing= and impossible= "
                "constants, without where=, or leave sizes= out and the noisy ones serve"
            )
        if nobs is not None and total != nobs:
            raise OptionError(
                "sizes", shown(self.sizes or ()), f"sizes that add up to the {nobs:,} rows, not {total:,.0f}"
            )

    def probabilities(self, axis: Axis) -> Array:
        """Probability of every level (d,), in the order of the axis."""
        if self.p0 is None:
            return np.full(len(axis.labels), 1.0 / len(axis.labels))
        return by_label("p0", self.p0, axis)

    def sample_sizes(self, axis: Axis) -> Array | None:
        """Public size of every sample (r,), in the order of the axis."""
        return None if self.sizes is None else by_label("sizes", self.sizes, axis)

    # What is measured

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:
        """Ask for an ordinary table."""
        stage, plan = super().stage(place, context, released), self.plan(context.schema)
        laplace, keeps = isinstance(context.privacy, PureDP), plan.rows.keeps_every_row
        self.check_fit(plan.cells, laplace=laplace, keeps=keeps, nobs=context.nobs)
        return stage

    def describe(self, measured: Measurement) -> str:
        """Describe the table that would be measured, its noise, and how large counts must be to be seen over it.

        Returns
        -------
        str
        """
        spread = first_error(measured)
        cells = len(measured.law.scales)
        return (
            f"{measured.describe()}\nnoise on each of the {cells} counts: standard deviation {spread:.4g} rows. Cells "
            f"that hold fewer rows tell little; sampling alone moves a cell of {spread**2:.4g} rows by as much."
        )

    # What is inferred

    def reads_sums(self, held: SumPlan) -> bool:
        """Return whether sums serve: those of any table of counts of the same rows."""
        return held.kind in TABLES and held.where == self.where

    def reads(self, other: Procedure) -> bool:
        """Return whether a release serves: a table of counts, or marginals, of the same rows."""
        tables = other.marginal_tables()
        return super().reads(other) if tables is None else tables.plan.where == self.where

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
        tables, held = theirs.marginal_tables(), theirs.summed()
        plan = held if tables is None else tables.plan
        assert plan is not None  # `reads` refuses other releases
        _refuse_people(plan.schema)
        check_bins({axis_name(axis): axis.get("edges") for axis in self.axes}, plan)
        names = self.columns
        ordered = names if self.fixed is None else (self.fixed, *(name for name in names if name != self.fixed))
        noise: CountNoise | TableNoise
        if tables is not None:
            tables.check()
            if self.null == "asymptotic":
                raise NotProvedError("null='asymptotic' is of independent noise on counts: use null='simulated'")
            axes, values, noise = tables.axes(ordered), tables.unbiased(ordered), tables.noise(ordered)
            keeps = tables.keeps_every_row
        else:
            if plan.weights is not None:
                raise NotProvedError("a chi-squared test counts rows: a table of weighted rows has none")
            axes, counts = counts_of_table(plan, found.array[None], ordered)
            values, noise = counts.sum(axis=-1)[0], count_noise(found.law, found.steps, counts.shape[-1])
            keeps = plan.rows.keeps_every_row
        known = found.nobs if keeps else None
        self.check_fit(axes, laplace=found.law.family == "laplace", keeps=keeps, nobs=known)
        public = known or None  # of no rows there is nothing to divide by
        return self._results(found, axes, self._model(axes, noise, public), values, known)

    def with_options(self, options: Mapping[str, Any]) -> Self:
        """Return the same question with other options of the inference; numbers by level are read as in `chisquare`."""
        given = dict(options)
        if given.get("p0") is not None:
            given["p0"] = read_shares("p0", given["p0"])
        if given.get("sizes") is not None:
            given["sizes"] = read_sizes(given["sizes"])
        return super().with_options(given)

    def _results(
        self, release: Release, axes: tuple[Axis, ...], model: CountModel, values: Array, known: int | None
    ) -> ChiSquareResults:
        distribution: NullDistribution | None = None
        statistic = float(model.statistic(values[None])[0])
        if self.null == "simulated":
            distribution = simulate(model, values, draws=self.draws, seed=self.seed)
            pvalue = distribution.pvalue
        else:
            pvalue = float(stats.chi2.sf(statistic, model.dof)) if np.isfinite(statistic) else 1.0
        title, hypothesis = self._told(axes)
        return ChiSquareResults(
            title=title,
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
            flags=count_flags(model, values, known or None, statistic, distribution),
            notes=self._notes(),
            model=model,
            values=values,
            index=cell_index(axes),
            transposed=len(axes) == 2 and axes[0].name != self.columns[0],
        )

    def _model(self, axes: Sequence[Axis], noise: CountNoise | TableNoise, nobs: int | None) -> CountModel:
        if len(axes) == 1:
            return GoodnessOfFit(self.probabilities(axes[0]), noise, nobs, self.statistic)
        shape = (len(axes[0].labels), len(axes[1].labels))
        if self.fixed is None:
            return Independence(shape, noise, nobs, self.statistic)
        return Homogeneity(shape, noise, self.sample_sizes(axes[0]), self.statistic)

    def _notes(self) -> tuple[str, ...]:
        found = where_notes(self.where)
        for name, given in (("p0", self.p0), ("sizes", self.sizes)):
            if given is not None:
                found.append(f"{name} was supplied as a public fact: the guarantee does not cover it.")
        return tuple(found)

    def _told(self, axes: Sequence[Axis]) -> tuple[str, str]:
        """Title and hypothesis."""
        names = [axis.name for axis in axes]
        if len(names) == 1:
            shares = self.probabilities(axes[0])
            even = bool(np.allclose(shares, shares[0]))
            return "Private chi-squared goodness of fit", f"{names[0]} is {'uniform' if even else 'as p0'}"
        if self.fixed is None:
            return "Private chi-squared test of independence", f"{names[0]} and {names[1]} are independent"
        return "Private chi-squared test of homogeneity", f"{names[1]} is the same in every {names[0]}"


def _refuse_people(schema: Schema) -> None:
    """Refuse to test counts of rows where a person may have several.

    Raises
    ------
    NotProvedError
    """
    refuse_dependent_rows(
        schema, "a chi-squared test", "bootstrap(columns, statistic='proportion') compares shares by person"
    )

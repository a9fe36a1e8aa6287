"""Chi-squared tests on a release of counts: their public question, and their results."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.errors import DPInferError, InferenceError, NotProvedError, ReleaseFormatError
from dpinfer.inference.testing.association import cohens_w, cramers_v, residual_table, small_cells
from dpinfer.inference.testing.nulls import NullDistribution, candidates, simulate
from dpinfer.inference.testing.tables import CountNoise, GoodnessOfFit, Homogeneity, Independence
from dpinfer.procedures.sum_plan import TABLES, SumPlan
from dpinfer.release import NoiseLaw, Release, register_inference
from dpinfer.results.contrasts import check_alpha
from dpinfer.results.describe import counts_of_table
from dpinfer.results.people import refuse_dependent_rows
from dpinfer.results.testing.base import TestResults
from dpinfer.results.testing.count_question import CountTest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dpinfer.inference.testing.association import ResidualTable
    from dpinfer.schema.axes import Axis
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]
    CountModel = GoodnessOfFit | Independence | Homogeneity

__all__ = ["ChiSquareResults", "Effect", "infer_count_test", "refuse_people"]

_FAR = 4.0
"""Standard deviations of noise beyond which a stated size of a sample is doubted."""

_DRAWN = 60
"""Cells up to which residuals are drawn with their intervals."""


@dataclass(frozen=True)
class Effect:
    """An effect size of the population, with its interval.

    Attributes
    ----------
    name : str
    estimate : float
        The bias of sampling and noise taken off; at least 0.
    lower, upper : float
    flag : str
        A warning where the noise hides what the measure divides by; otherwise empty.
    """

    name: str
    estimate: float
    lower: float
    upper: float
    flag: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class ChiSquareResults(TestResults):
    """A chi-squared test on noisy counts.

    Unpacks as scipy's results do: statistic and p-value, and for a table also ``dof`` and ``expected_freq``.

    Attributes
    ----------
    model : GoodnessOfFit, Independence or Homogeneity
        The statistic and its null.
    values : ndarray (d,)
        Noisy counts, the last axis running fastest.
    index : Index
        Label of every cell.
    transposed : bool
        Whether the second column that was named comes first in ``index``, because its margin is fixed.
    """

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
        """Counts expected under the hypothesis, by level or as a table."""
        return self._labelled(self.model.expected(self.values))

    def residuals(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return what each cell says.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.

        Returns
        -------
        DataFrame
            A row per cell; columns "observed" (noisy), "expected", "difference", "std err" (of the difference under
            the hypothesis, sampling and noise), "std err (noise)", "residual" (difference over std err), and the
            ends of its interval.

        Raises
        ------
        OptionError
            Where ``alpha`` is not strictly between 0 and 1.
        """
        found: ResidualTable = residual_table(self.model, self.values, alpha=check_alpha(alpha))
        return pd.DataFrame(
            {
                "observed": self.values,
                "expected": found.expected,
                "difference": found.difference,
                "std err": found.standard_error,
                "std err (noise)": found.noise_error,
                "residual": found.standardised,
                f"[{alpha / 2:.6g}": found.lower,
                f"{1 - alpha / 2:.6g}]": found.upper,
            },
            index=self.index,
        )

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return `residuals` without the errors of the differences."""
        return self.residuals(alpha).drop(columns=["difference", "std err", "std err (noise)"])

    def effect_size(self, alpha: float = 0.05) -> Effect:
        """Return Cramer's V of a table, or Cohen's w of one column, with its interval.

        Parameters
        ----------
        alpha : float
            One minus the confidence.

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
        return Effect(name, float(found.estimate), float(found.lower), float(found.upper), found.flag)

    def cramers_v(self, alpha: float = 0.05) -> Effect:
        """Return Cramer's V with its interval; see `effect_size`.

        Raises
        ------
        InferenceError
            Where there is one column: Cohen's w, ``effect_size()``, serves there.
        """
        if isinstance(self.model, GoodnessOfFit):
            raise InferenceError("Cramer's V is of two columns; for one, effect_size() gives Cohen's w")
        return self.effect_size(alpha)

    def _explain(self, alpha: float = 0.05) -> list[str]:
        size = self.effect_size(alpha)
        return [
            *super()._explain(alpha),
            f"{size.name} {size.estimate:.3f}, {100 * (1 - alpha):.6g}% interval {size.lower:.3f} to {size.upper:.3f}. "
            f"{size.flag}".rstrip(),
            "Residual is (observed - expected) over its standard error under the null hypothesis, sampling and noise; "
            "its interval is for the population.",
        ]

    def plot_residuals(self, ax: Axes | None = None, *, alpha: float = 0.05, color: str = "#03396c") -> Axes:
        """Draw the standardised residual of every cell with its interval.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        alpha : float
            One minus the confidence of the intervals.
        color : str

        Returns
        -------
        matplotlib.axes.Axes
            Of more than 60 cells the residuals alone are drawn.
        """
        table = self.residuals(alpha)
        place, centre = np.arange(len(table))[::-1], table["residual"].to_numpy()
        if ax is None:
            height = float(np.clip(0.9 + 0.28 * len(table), 2.4, 14.0))
            ax = plt.subplots(figsize=(6.5, height), layout="constrained")[1]
        limit = float(stats.norm.isf(alpha / 2))
        ax.axvspan(-limit, limit, color="#d9e3ea", lw=0)
        ax.axvline(0.0, color="black", lw=0.8)
        if len(table) <= _DRAWN:
            lower, upper = table.iloc[:, -2].to_numpy(), table.iloc[:, -1].to_numpy()
            ax.hlines(place, lower, upper, color=color, lw=1.6)
        ax.plot(centre, place, "o", color=color, ms=4)
        labels = [", ".join(map(str, label)) if isinstance(label, tuple) else str(label) for label in table.index]
        if len(table) <= _DRAWN:
            ax.set_yticks(place, labels)
        ax.set_xlabel(f"standardised residual ({1 - alpha:.0%} of one cell in the shade if the hypothesis holds)")
        ax.set_ylabel(", ".join(str(name) for name in self.index.names))
        ax.set_title(textwrap.fill(self.hypothesis, 70), fontsize=10)
        ax.spines[["top", "right", "left"]].set_visible(False)
        return ax


def infer_count_test(release: Release, test: CountTest) -> ChiSquareResults:
    """Test counts of a release.

    Parameters
    ----------
    release : Release
        A table, histogram or proportion that holds the columns, perhaps among others.
    test : CountTest

    Returns
    -------
    ChiSquareResults

    Raises
    ------
    InferenceError, MissingFromReleaseError
        If the release holds no such counts.
    OptionError, NotProvedError
        If the table does not fit the test.
    """
    if release.kind not in TABLES:
        raise InferenceError(f"a release of kind {release.kind!r} holds no table of counts")
    question = SumPlan.from_release(release)
    refuse_people(question.schema)
    if question.weights is not None:
        raise NotProvedError("a chi-squared test counts rows: a table of weighted rows has none")
    ordered = test.columns if test.fixed is None else (test.fixed, *(n for n in test.columns if n != test.fixed))
    axes, counts = counts_of_table(question, release.array[None], ordered)
    known = release.nobs if question.rows.keeps_every_row else None
    test.check(axes, laplace=release.law.family == "laplace", keeps=question.rows.keeps_every_row, nobs=known)
    scale = release.law.scales[0]
    if scale <= 0 or len(set(release.law.scales)) > 1:
        raise ReleaseFormatError("the release is damaged: counts of a table carry noise of one scale")
    if release.law.family not in ("gaussian", "laplace") or len(set(release.steps)) > 1:
        raise ReleaseFormatError(
            "the release is damaged: counts of a table carry noise of one law, in steps of one size"
        )
    law = NoiseLaw(release.law.family, (scale,), release.law.draws)
    noise = CountNoise(law, release.steps[0], counts.shape[-1])
    public = known or None  # of no rows there is nothing to divide by
    values = counts.sum(axis=-1)[0]
    model = _model(test, axes, noise, public)
    distribution: NullDistribution | None = None
    statistic = float(model.statistic(values[None])[0])
    if test.null == "simulated":
        distribution = simulate(model, values, draws=test.draws, seed=test.seed)
        pvalue = distribution.pvalue
    else:
        pvalue = float(stats.chi2.sf(statistic, model.dof)) if np.isfinite(statistic) else 1.0
    title, hypothesis = _told(test, axes)
    return ChiSquareResults(
        title=title,
        hypothesis=hypothesis,
        statistic=statistic,
        pvalue=pvalue,
        release=release,
        statistic_name="Projected chi2" if test.statistic == "projected" else "Pearson chi2",
        dof=float(model.dof),
        distribution=distribution,
        null=test.null,
        nobs=float(values.sum()) if known is None else float(known),
        nobs_is_public=known is not None,
        flags=_flags(model, values, public, statistic, distribution),
        notes=_notes(test, question),
        model=model,
        values=values,
        index=_index(axes),
        transposed=len(axes) == 2 and axes[0].name != test.columns[0],
    )


def refuse_people(schema: Schema) -> None:
    """Refuse to test counts of rows where a person may have several.

    Raises
    ------
    NotProvedError
    """
    refuse_dependent_rows(
        schema, "a chi-squared test", "bootstrap(columns, statistic='proportion') compares shares by person"
    )


def _model(test: CountTest, axes: Sequence[Axis], noise: CountNoise, nobs: int | None) -> CountModel:
    if len(axes) == 1:
        return GoodnessOfFit(test.probabilities(axes[0]), noise, nobs, test.statistic)
    shape = (len(axes[0].labels), len(axes[1].labels))
    if test.fixed is None:
        return Independence(shape, noise, nobs, test.statistic)
    return Homogeneity(shape, noise, test.sample_sizes(axes[0]), test.statistic)


def _notes(test: CountTest, question: SumPlan) -> tuple[str, ...]:
    found = [f"Rows: {question.where}."] if question.where else []
    for name, given in (("p0", test.p0), ("sizes", test.sizes)):
        if given is not None:
            found.append(f"{name} was supplied as a public fact: the guarantee does not cover it.")
    return tuple(found)


def _told(test: CountTest, axes: Sequence[Axis]) -> tuple[str, str]:
    names = [axis.name for axis in axes]
    if len(names) == 1:
        shares = test.probabilities(axes[0])
        even = bool(np.allclose(shares, shares[0]))
        return "Private chi-squared goodness of fit", f"{names[0]} is {'uniform' if even else 'as p0'}"
    if test.fixed is None:
        return "Private chi-squared test of independence", f"{names[0]} and {names[1]} are independent"
    return "Private chi-squared test of homogeneity", f"{names[1]} is the same in every {names[0]}"


def _flags(
    model: CountModel, values: Array, public: int | None, statistic: float, distribution: NullDistribution | None
) -> tuple[str, ...]:
    found = []
    if not np.isfinite(statistic):
        found.append("the noise is too large for the statistic to be computed: the p-value is 1")
    spread = model.noise.variance**0.5
    few = int(small_cells(model.expected(values), model.noise).sum())
    if few:
        found.append(
            f"{few} of {values.size} expected counts are below 5 or below the noise (standard deviation {spread:.4g}): "
            + (
                "there is little to see in those cells"
                if distribution
                else "the limit may be far off: null='simulated'"
            )
        )
    if values.sum() < 1 and public is None:
        found.append("the noisy number of rows is below one: it was taken as one")
    elif (values < 0).any():
        found.append(f"{int((values < 0).sum())} noisy counts are below zero")
    if isinstance(model, Homogeneity) and model.sizes is not None:
        away = np.abs(values.reshape(model.shape).sum(axis=1) - model.sizes)
        if (away > _FAR * spread * model.shape[1] ** 0.5).any():
            found.append(
                "the stated sizes of samples are far from the noisy ones: are they in the order of the levels?"
            )
    if distribution is not None and len(candidates(model, values[None])) > 1:
        found.append("noise hides a margin: the p-value is the largest of several fits, and conservative")
    if not isinstance(model, GoodnessOfFit):
        table = values.reshape(model.shape)
        low = sum(int((table.sum(axis=axis) < 1).sum()) for axis in (0, 1))
        if low:
            found.append(f"{low} noisy margins are below one row: they were taken as one")
    if distribution is not None and distribution.failed:
        found.append(f"{distribution.failed} simulated draws could not be evaluated: they count against rejection")
    return tuple(found)


def _index(axes: Sequence[Axis]) -> pd.Index:
    if len(axes) == 1:
        one: pd.Index = pd.Index(list(axes[0].labels), name=axes[0].name)
        return one
    return pd.MultiIndex.from_product([list(axis.labels) for axis in axes], names=[axis.name for axis in axes])


def _stored(release: Release) -> ChiSquareResults:
    test = CountTest.from_dict(release.question.get("test"))
    try:
        return infer_count_test(release, test)
    except ReleaseFormatError:
        raise
    except DPInferError as error:
        raise ReleaseFormatError(f"the test of the release is damaged: {error}") from error


for _name in ("chisquare", "chi2_contingency"):
    register_inference(_name)(_stored)

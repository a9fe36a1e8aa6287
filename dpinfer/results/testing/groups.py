"""Tests of means on a release of sums: their public question, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from dpinfer.errors import DPInferError, InferenceError, MissingFromReleaseError, OptionError, ReleaseFormatError
from dpinfer.inference.testing.groups import ALTERNATIVES, Alternative, GroupMeans, group_means
from dpinfer.inference.testing.nulls import Draws, check_draws, simulate
from dpinfer.procedures.sum_plan import SumPlan
from dpinfer.release import NoiseLaw, Release, register_inference
from dpinfer.results.contrasts import check_alpha
from dpinfer.results.describe import infer_description
from dpinfer.results.people import refuse_dependent_rows
from dpinfer.results.testing.base import TestResults
from dpinfer.schema.expressions import compile_expression

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dpinfer.results.descriptions import DescriptionResults
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = [
    "NAMES",
    "ConfidenceInterval",
    "MeanTest",
    "MeanTestResults",
    "infer_mean_test",
    "mean_model",
    "refuse_people",
]

NAMES = ("ttest_1samp", "ttest_ind", "ttest_rel", "f_oneway")
"""The tests, by the functions that ask them."""

TestName = Literal["ttest_1samp", "ttest_ind", "ttest_rel", "f_oneway"]

_TITLES = {
    "ttest_1samp": "Private one-sample t test",
    "ttest_ind": "Private two-sample t test",
    "ttest_rel": "Private paired t test",
    "f_oneway": "Private one-way analysis of variance",
}

_FEW_ROWS = 30.0
"""Rows of a group below which its sum rests on values that are close to normal."""


_RARE = 10.0
"""Rows at the other bound that would give a mean, below which it is far from normal."""


class ConfidenceInterval(NamedTuple):
    """Ends of an interval, named as in scipy."""

    low: float
    high: float


@dataclass(frozen=True)
class MeanTest:
    """What is tested on means, free of data.

    Attributes
    ----------
    name : {"ttest_1samp", "ttest_ind", "ttest_rel", "f_oneway"}
    column : str
        A numeric column, or an expression of columns; of a paired test the difference.
    by : str, optional
        The groups: a column or a condition. None for one sample.
    popmean : float
        The mean under the hypothesis, for one sample.
    equal_var : bool
        Whether the groups share one variance.
    alternative : {"two-sided", "less", "greater"}
    draws : "adaptive" or int
    seed : int

    Raises
    ------
    OptionError
        If an option has no such value.
    """

    name: TestName
    column: str
    by: str | None = None
    popmean: float = 0.0
    equal_var: bool = True
    alternative: Alternative = "two-sided"
    draws: Draws = "adaptive"
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column.strip():
            raise OptionError("column", self.column, 'a column, or an expression such as "log(1 + income)"')
        if self.grouped and (not isinstance(self.by, str) or not self.by.strip()):
            raise OptionError("by", self.by, 'one column of groups, or a condition such as "age >= 18"')
        number = isinstance(self.popmean, int | float | np.number) and not isinstance(self.popmean, bool)
        if not number or not np.isfinite(self.popmean):
            raise OptionError("popmean", self.popmean, "a finite number")
        if not isinstance(self.equal_var, bool):
            raise OptionError("equal_var", self.equal_var, "True or False")
        if self.alternative not in ALTERNATIVES:
            raise OptionError("alternative", self.alternative, ALTERNATIVES)
        check_draws(self.draws, self.seed)

    @property
    def grouped(self) -> bool:
        """Whether groups are compared."""
        return self.name in ("ttest_ind", "f_oneway")

    @property
    def text(self) -> str:
        """The test in one line."""
        return f"{self.name} of {self.column}" + (f" by {self.by}" if self.by else "")

    def check(self, question: SumPlan) -> None:
        """Refuse groups and bounds that the test does not fit.

        Raises
        ------
        OptionError
        """
        if not self.grouped:
            self.scaled(question, 0)
            return
        labels = question.cells[0].labels
        shown = f"{len(labels)} in {self.by!r}: {', '.join(map(str, labels))}"
        if self.name == "ttest_ind" and len(labels) != 2:
            raise OptionError("by", self.by, f"exactly two levels, not {shown}; f_oneway compares more")
        if len(labels) < 2:
            raise OptionError("by", self.by, f"two levels or more, not {shown}")

    def scaled(self, question: SumPlan, place: int) -> float:
        """Mean under the hypothesis in units of the scaled column, in [-1, 1].

        Raises
        ------
        OptionError
            If it is outside the bounds of the column.
        """
        expression = question.expressions[place]
        if not expression.lower <= self.popmean <= expression.upper:
            raise OptionError(
                "popmean",
                self.popmean,
                f"a number within the bounds [{expression.lower:g}, {expression.upper:g}] of {expression.text}",
            )
        center, half = question.scaled
        return float(np.clip((self.popmean - center[place]) / half[place], -1.0, 1.0))

    def to_dict(self) -> dict[str, Any]:
        """Return the test as a JSON-ready mapping."""
        return {
            "name": self.name,
            "column": self.column,
            "by": self.by,
            "popmean": float(self.popmean),
            "equal_var": self.equal_var,
            "alternative": self.alternative,
            "draws": self.draws,
            "seed": self.seed,
        }

    @classmethod
    def from_dict(cls, stored: object) -> MeanTest:
        """Read what `to_dict` wrote.

        Raises
        ------
        ReleaseFormatError
        """
        if not isinstance(stored, Mapping) or stored.get("name") not in NAMES:
            raise ReleaseFormatError("the test of the release is damaged: it is no test of means")
        names = ("name", "column", "by", "popmean", "equal_var", "alternative", "draws", "seed")
        try:
            test = cls(**{name: stored[name] for name in names})
        except (KeyError, TypeError, ValueError, DPInferError) as error:
            raise ReleaseFormatError(f"the test of the release is damaged: {error}") from error
        if not test.grouped and test.by is not None:
            raise ReleaseFormatError("the test of the release is damaged: one sample has no groups")
        return test


@dataclass(frozen=True, eq=False, repr=False)
class MeanTestResults(TestResults):
    """A test of means on noisy sums; unpacks into statistic and p-value.

    Attributes
    ----------
    test : MeanTest
    means : DescriptionResults
        The means that the same release gives, with intervals of their own.
    place : int
        Which of their columns is tested.
    dof_resid : float
        Rows less groups (of Welch's two-sample test Satterthwaite's number), from noisy counts. ``dof`` is the same
        for a t test, and the number of groups less one for an analysis of variance.
    """

    test: MeanTest = field(kw_only=True)
    means: DescriptionResults = field(kw_only=True, repr=False)
    place: int = field(kw_only=True, default=0)
    dof_resid: float = field(kw_only=True, default=np.inf)

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the group means.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.

        Returns
        -------
        DataFrame
            A row per group; columns "count" (noisy number of rows), "mean", "std err", "std err (sampling)",
            "std err (noise)", and the ends of the interval.

        Raises
        ------
        OptionError
            Where ``alpha`` is not strictly between 0 and 1.
        """
        shown = self.means.summary_frame(alpha).drop(columns="noise share")
        shown.insert(0, "count", shown.pop("count"))
        width = len(shown) // self._groups
        return shown.iloc[self.place :: width]

    def confidence_interval(self, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return the interval for the mean, or for the first group's mean less the second's.

        Parameters
        ----------
        confidence_level : float

        Returns
        -------
        ConfidenceInterval
            With ``low`` and ``high``; of a one-sided test the other end is infinite, as in scipy.

        Raises
        ------
        InferenceError
            Of an analysis of variance, which has no single difference; ``frame`` has the means.
        OptionError
            Where the level is not strictly between 0 and 1 (between 0.5 and 1 for a one-sided test).

        Notes
        -----
        It inverts the score test of the means' own results, each group with its own variance, and not the simulated
        test: near the level the two may differ.
        """
        if self.test.name == "f_oneway":
            raise InferenceError("an analysis of variance has no single difference; .frame() gives the means")
        one_sided = self.alternative != "two-sided"
        least = 0.5 if one_sided else 0.0
        if not least < confidence_level < 1:
            raise OptionError("confidence_level", confidence_level, f"a number between {least:g} and 1")
        alpha = (2 if one_sided else 1) * (1 - confidence_level)
        low, high = self._contrast().conf_int(check_alpha(alpha))[0]
        return ConfidenceInterval(
            -np.inf if self.alternative == "less" else float(low),
            np.inf if self.alternative == "greater" else float(high),
        )

    @property
    def estimate(self) -> float:
        """The mean, or the first group's mean less the second's; NaN of an analysis of variance."""
        if self.test.name == "f_oneway":
            return float("nan")
        return float(np.ravel(self._contrast().effect)[0])

    def plot_null(self, ax: Axes | None = None, *, color: str = "#6497b1") -> Axes:
        """Draw the simulated null distribution and the observed statistic; see `TestResults.plot_null`."""
        axes = super().plot_null(ax, color=color)
        if self.test.name == "f_oneway":
            axes.set_xlabel(f"{self._groups - 1} F" if self._groups > 2 else "F")
        else:
            axes.set_xlabel({"two-sided": "squared t", "greater": "t", "less": "-t"}[self.alternative])
        return axes

    @property
    def _groups(self) -> int:
        return len(self.means.params) // len(_columns(self.release))

    def _contrast(self) -> Any:
        row = np.zeros((self._groups, len(self.means.params) // self._groups))
        row[0, self.place] = 1.0
        if self._groups == 2:
            row[1, self.place] = -1.0
        return self.means.t_test(row.reshape(1, -1))


def _columns(release: Any) -> list[str]:
    return list(release.question["columns"])


def refuse_people(schema: Schema) -> None:
    """Refuse to test means of rows where a person may have several.

    Raises
    ------
    NotProvedError
    """
    refuse_dependent_rows(schema, "a test of means", "mean(column) has intervals and p-values by person")


def mean_model(
    question: SumPlan, values: Array, test: MeanTest, *, law: NoiseLaw, steps: Array
) -> tuple[GroupMeans, Array]:
    """Give the null model of a test, and its values, for R releases of means.

    Parameters
    ----------
    question : SumPlan
        Of kind "mean".
    values : ndarray (R, m)
        Noisy sums, in units of the scaled features.
    test : MeanTest
    law : NoiseLaw
    steps : ndarray (m,)

    Returns
    -------
    model : GroupMeans
    values : ndarray (R, 3 G)

    Raises
    ------
    MissingFromReleaseError, InferenceError
        If they are not means of the column in the groups.
    OptionError
        If the groups or the mean do not fit the test.
    NotProvedError
        Where a person may have several rows.
    """
    refuse_people(question.schema)
    place = _place(question, test)
    return group_means(
        question.moment_sums(values, law, steps),
        law,
        column=place,
        mean=None if test.grouped else test.scaled(question, place),
        equal_var=test.equal_var,
        alternative=test.alternative,
    )


def _place(question: SumPlan, test: MeanTest) -> int:
    """Which column of a question about means is tested."""
    if question.kind != "mean" or question.weights is not None:
        kind = f"{question.kind}s" if question.kind != "mean" else "weighted means"
        raise InferenceError(f"the release holds {kind}; a test of means needs means without weights")
    if question.target != "population":
        raise InferenceError('the release was measured with target="data": it holds no sums of squares for a test')
    texts = [expression.text for expression in question.expressions]
    try:
        text = compile_expression(test.column, question.schema).text
    except DPInferError:  # the schema of a release has no more columns than it needs
        text = test.column
    if text not in texts:
        raise MissingFromReleaseError(f"the release has no mean of {test.column}; it has: {', '.join(texts)}")
    axes = [axis.name for axis in question.cells]
    if axes != ([test.by] if test.grouped else []):
        wanted = f"by {test.by}" if test.grouped else "of all rows together"
        raise MissingFromReleaseError(
            f"the test needs means {wanted}; the release has: {', '.join(axes) or 'no'} groups"
        )
    test.check(question)
    return texts.index(text)


def infer_mean_test(release: Release, test: MeanTest | None = None) -> MeanTestResults:
    """Test means on a release: free, and without any row.

    Parameters
    ----------
    release : Release
        Of means of the column in the groups; or one that was made for a test of means.
    test : MeanTest, optional
        By default the one that the release was made for.

    Returns
    -------
    MeanTestResults

    Raises
    ------
    InferenceError, MissingFromReleaseError, OptionError
        If the release does not hold what the test needs.
    ReleaseFormatError
        If the release, or the test in it, is damaged.
    """
    stored = test is None
    if release.kind != "mean":
        if stored:
            raise ReleaseFormatError(f"the release is damaged: it names a test of means, and is of {release.kind!r}")
        raise InferenceError(f"a release of kind {release.kind!r} holds no means to test")
    test = MeanTest.from_dict(release.question.get("test")) if test is None else test
    question = SumPlan.from_release(release)
    try:
        model, values = mean_model(
            question, release.array[None], test, law=release.law, steps=np.asarray(release.steps)
        )
    except DPInferError as error:
        if not stored:
            raise
        raise ReleaseFormatError(f"the test of the release is damaged: {error}") from error
    return _results(release, question, test, model, values)


def _results(release: Release, question: SumPlan, test: MeanTest, model: GroupMeans, values: Array) -> MeanTestResults:
    null = simulate(model, values[0], draws=test.draws, seed=test.seed)
    means = infer_description(release, inference="auto", target="population")
    several = test.name == "f_oneway"
    statistic = _f(model, values) if several else float(model.signed(values)[0])
    resid = _degrees(model, values)
    return MeanTestResults(
        title=_TITLES[test.name],
        hypothesis=_hypothesis(test, question),
        statistic=statistic,
        pvalue=null.pvalue,
        release=release,
        statistic_name="F statistic" if several else "t statistic",
        dof=float(model.groups - 1) if several else resid,
        alternative=test.alternative,
        distribution=null,
        nobs=means._inference.nobs,
        nobs_is_public=means._inference.nobs_is_public,
        flags=_flags(model, values, means),
        notes=_notes(test, question, resid),
        test=test,
        means=means,
        place=_place(question, test),
        dof_resid=resid,
    )


def _f(model: GroupMeans, values: Array) -> float:
    return float(model.statistic(values)[0]) / (model.groups - 1)


def _degrees(model: GroupMeans, values: Array) -> float:
    """Residual degrees of freedom, from noisy counts; at least 1."""
    found = model.estimates(values)
    dof, rows = found.dof[0], np.maximum(found.rows[0], 1.0)
    if model.equal_var or model.groups == 1:
        return float(dof[0])
    if model.groups > 2:
        return float(dof.sum())
    parts = found.within[0] / rows**2
    bottom = float((parts**2 / dof).sum())
    return max(float(parts.sum()) ** 2 / bottom, 1.0) if bottom > 0 else float(dof.sum())


def _hypothesis(test: MeanTest, question: SumPlan) -> str:
    if not test.grouped:
        return f"mean of {test.column} = {test.popmean:g}"
    if test.name == "ttest_ind":
        first, second = question.cells[0].labels
        return f"equal means of {test.column} at {test.by} = {first} and {second}"
    return f"equal means of {test.column} at all levels of {test.by}"


def _flags(model: GroupMeans, values: Array, means: DescriptionResults) -> tuple[str, ...]:
    found = model.estimates(values)
    flags = list(means.flags)
    if found.hidden.any():
        flags.append(
            "the variance of the values is not told from privacy noise; it is taken as large as this noise, and the "
            "test is conservative"
        )
    rare = found.rows * (1 - np.abs(np.clip(found.first / np.maximum(found.rows, 1.0), -1, 1))) / 2
    spread = found.within > 0.5 * found.rows * (1 - found.mean[..., None] ** 2)
    if ((rare < _RARE) & spread & ~found.hidden).any():
        flags.append(
            "nearly all values of a group are at one bound and the others far from it: sums so skewed make an ordinary "
            "t test exceed its level, and this one too; for a yes or no, test the proportion"
        )
    if (found.rows < _FEW_ROWS).any():
        flags.append(
            f"a group has fewer than {_FEW_ROWS:.0f} rows by the noisy counts: as for the ordinary test, the p-value "
            "rests on values that are close to normal"
        )
    return tuple(flags)


def _notes(test: MeanTest, question: SumPlan, resid: float) -> tuple[str, ...]:
    notes = []
    if test.name == "ttest_ind":
        first, second = question.cells[0].labels
        notes.append(f"The difference is the mean at {test.by} = {first} less that at {test.by} = {second}.")
    if test.name == "f_oneway":
        notes.append(f"Residual degrees of freedom, by the noisy counts: {resid:.6g}.")
    if test.grouped:
        notes.append("One variance for all groups." if test.equal_var else "A variance for every group (Welch).")
    if question.where:
        notes.append(f"Rows: {question.where}.")
    return tuple(notes)


for _name in NAMES:
    register_inference(_name)(infer_mean_test)

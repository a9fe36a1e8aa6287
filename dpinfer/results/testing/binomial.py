"""The exact binomial test of one noisy count: its public question, and its results."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pandas as pd

from dpinfer.errors import DPInferError, InferenceError, NotProvedError, OptionError, ReleaseFormatError
from dpinfer.inference.testing.binomial import (
    ALTERNATIVES,
    binomial_interval,
    binomial_pvalue,
    noisy_binomial_estimate,
)
from dpinfer.procedures.sum_plan import SumPlan
from dpinfer.release import NoiseLaw, Release, register_inference
from dpinfer.release.laws import TULAP_GRID
from dpinfer.results.exact import ExactQuestion
from dpinfer.results.testing.base import TestResults

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.inference.tulap import Alternative, ProportionEstimate
    from dpinfer.schema.schema import Schema

__all__ = ["BinomQuestion", "BinomTestResults", "ProportionInterval", "infer_binomtest"]

_NOISES = {"tulap": "Tulap", "gaussian": "discrete Gaussian"}


class ProportionInterval(NamedTuple):
    """An interval for a proportion.

    Attributes
    ----------
    low, high : float
        Ends, in [0, 1].
    """

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class BinomQuestion:
    """How many rows meet a condition, and which proportion is tested.

    Attributes
    ----------
    schema : Schema
    column : str
        A Boolean column, or a condition.
    p : float
        The tested proportion.
    alternative : {"two-sided", "greater", "less"}
    """

    schema: Schema
    column: str
    p: float = 0.5
    alternative: str = "two-sided"

    @property
    def exact(self) -> ExactQuestion:
        """The count for Tulap noise."""
        return ExactQuestion(self.schema, self.column)

    @property
    def counted(self) -> SumPlan:
        """The same count for Gaussian noise: as `count` with the condition asks for it."""
        options = {"inference": "auto", "replicates": 999, "seed": 0}
        return SumPlan("count", self.schema, where=self.column, options=options)

    def check(self) -> None:
        """Refuse a column whose cells may drop their row: n would then not be the public number of rows.

        Raises
        ------
        NotProvedError
        """
        for name in self.exact.condition.columns:
            if self.schema[name].may_drop:
                raise NotProvedError(
                    f"binomtest needs every row to count: declare missing= and impossible= constants for {name!r} "
                    '(such as False), or use proportion(..., inference="simulated") or "score"'
                )

    def to_dict(self, *, tulap: bool) -> dict[str, Any]:
        """Return the question as a JSON-ready mapping: that of the count, with the test beside it."""
        question = self.exact.to_dict() if tulap else self.counted.to_dict()
        return {
            **question,
            "text": f"binomial test of {self.column}, p = {self.p:g}",
            "asked": "binomtest",
            "test": {"p": self.p, "alternative": self.alternative},
        }


@dataclass(frozen=True, eq=False, repr=False)
class BinomTestResults(TestResults):
    """An exact test of one proportion, with scipy's members: statistic, pvalue, k, n, proportion_ci.

    Attributes
    ----------
    column : str
        The Boolean column or the condition.
    k : float
        The noisy count.
    n : int
        The public number of rows.
    p : float
        The tested proportion.
    law : NoiseLaw
        Noise of the count.
    step : float
        Size of a step of the law in counts.
    """

    column: str = ""
    k: float = 0.0
    n: int = 0
    p: float = 0.5
    law: NoiseLaw = field(default_factory=lambda: NoiseLaw("gaussian", (0.0,)), repr=False)
    step: float = 1.0

    @cached_property
    def _estimate(self) -> ProportionEstimate:
        return noisy_binomial_estimate(self.k, self.n, self.law, step=self.step)

    @property
    def proportion_estimate(self) -> float:
        """The noisy count over n, brought into [0, 1]; 1/2 where n is 0."""
        return float(self._estimate.proportion)

    @property
    def bse(self) -> float:
        """Standard error of the estimate, from sampling and noise."""
        return float(self._estimate.standard_error)

    @property
    def bse_noise(self) -> float:
        """Standard error of the estimate from privacy noise alone."""
        return float(np.sqrt(self._estimate.noise_variance))

    def proportion_ci(self, confidence_level: float = 0.95) -> ProportionInterval:
        """Exact interval of the proportion, by inversion of this test with its alternative.

        Parameters
        ----------
        confidence_level : float
            Between 0 and 1.

        Returns
        -------
        ProportionInterval
            With ``.low`` and ``.high``; for "greater" ``high`` is 1, for "less" ``low`` is 0. It covers with at least
            its level at every n and proportion. See `dpinfer.inference.testing.binomial.binomial_interval`.

        Raises
        ------
        OptionError
            If the level is not between 0 and 1.
        """
        if not (isinstance(confidence_level, int | float | np.number) and 0 < confidence_level < 1):
            raise OptionError("confidence_level", confidence_level, "a number between 0 and 1")
        return self._interval(1 - float(confidence_level))

    def _interval(self, alpha: float) -> ProportionInterval:
        alternative = cast("Alternative", self.alternative)
        ends = binomial_interval(self.k, self.n, self.law, step=self.step, alpha=alpha, alternative=alternative)
        return ProportionInterval(float(ends[0]), float(ends[1]))

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the count, the estimate and its interval as one row.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the interval.

        Returns
        -------
        DataFrame
            Indexed by the column; the interval is one-sided where the alternative is.
        """
        if not 0 < alpha < 1:
            raise OptionError("alpha", alpha, "a number between 0 and 1")
        share = alpha / 2 if self.alternative == "two-sided" else alpha
        low, high = self._interval(alpha)
        cells = {
            "noisy count": self.k,
            "n": self.n,
            "proportion": self.proportion_estimate,
            "null p": self.p,
            "std err": self.bse,
            "std err (noise)": self.bse_noise,
            f"[{'0' if self.alternative == 'less' else f'{share:.4g}'}": low,
            f"{'1' if self.alternative == 'greater' else f'{1 - share:.4g}'}]": high,
        }
        return pd.DataFrame([cells], index=pd.Index([self.column]))


@register_inference("binomtest")
def infer_binomtest(
    release: Release, *, column: str | None = None, p: float | None = None, alternative: str | None = None
) -> BinomTestResults:
    """Test a proportion from a released count with Tulap or discrete Gaussian noise.

    Parameters
    ----------
    release : Release
        Of `binomtest`, of `proportion` with ``inference="exact"``, or of ``count(where=...)`` at a price with
        Gaussian noise; under replace_one.
    column : str, optional
        The Boolean column or condition that the release must be about.
    p : float, optional
        The tested proportion; by default the one stored with the release.
    alternative : {"two-sided", "greater", "less"}, optional
        By default the one stored with the release.

    Returns
    -------
    BinomTestResults

    Raises
    ------
    InferenceError
        If the release holds something else, or a count with other noise.
    NotProvedError
        If the number of rows is not public, or rows may drop out.
    OptionError
        If an option has no such value.
    ReleaseFormatError
        If the release is damaged.
    """
    found = _counted(release, column)
    stored = _stored_test(release) if p is None or alternative is None else {}
    question = replace(
        found,
        p=float(stored["p"]) if p is None else p,
        alternative=str(stored["alternative"]) if alternative is None else alternative,
    )
    if not 0 <= question.p <= 1:
        raise OptionError("p", p, "a number in [0, 1]")
    if question.alternative not in ALTERNATIVES:
        raise OptionError("alternative", alternative, ALTERNATIVES)
    return _results(release, question)


def _results(release: Release, question: BinomQuestion) -> BinomTestResults:
    assert release.nobs is not None
    (step,), n = release.steps, release.nobs
    alternative = cast("Alternative", question.alternative)
    try:
        count = float(release.array[0])
        estimate = noisy_binomial_estimate(count, n, release.law, step=step)
        pvalue = binomial_pvalue(count, n, question.p, release.law, step=step, alternative=alternative)
    except (OptionError, OverflowError) as error:
        raise ReleaseFormatError(f"the release is damaged: {error}") from error
    return BinomTestResults(
        title="Exact binomial test",
        hypothesis=f"P({question.column}) = {question.p:g}",
        statistic=float(estimate.proportion),
        pvalue=float(pvalue),
        release=release,
        statistic_name="Proportion",
        alternative=question.alternative,
        null="exact",
        nobs=float(n),
        nobs_is_public=True,
        flags=_flags(n, clipped=bool(estimate.clipped)),
        notes=(
            f"The count has {_NOISES[release.law.family]} noise; the interval inverts the test, "
            "and covers with at least its level at every n and proportion.",
        ),
        column=question.column,
        k=count,
        n=n,
        p=question.p,
        law=release.law,
        step=step,
    )


def _flags(n: int, *, clipped: bool) -> tuple[str, ...]:
    if n == 0:
        return ("there are no rows: the release says nothing about the proportion",)
    if clipped:
        return ("the noisy count is outside 0 and the number of rows: the estimate was moved to the edge",)
    return ()


def _counted(release: Release, column: str | None) -> BinomQuestion:
    """Return what the release counts, or say why it is no count for this test."""
    asked, tulap = release.question, release.kind == "binomial"
    if release.kind not in ("binomial", "count") or (not tulap and (asked.get("axes") or asked.get("columns"))):
        raise InferenceError(
            f"the release ({asked['text']}, of kind {release.kind!r}) is no count of the rows that meet a condition; "
            "measure one with binomtest(column).measure(privacy), or count(where=column) under ZCDP, GDP or ApproxDP"
        )
    about = asked.get("column" if tulap else "where")
    if column is not None and about != column:
        raise InferenceError(
            f"the release was made for another question ({asked['text']}): it does not count {column!r}"
        )
    if not tulap and about is None:
        raise InferenceError("the release counts all rows, with no condition: there is no proportion to test")
    if not tulap and release.law.family == "laplace":
        raise InferenceError(
            "the count has discrete Laplace noise: binomtest needs Tulap noise under PureDP, which "
            "binomtest(column).measure(privacy) brings, or Gaussian noise"
        )
    if release.schema.people is not None:
        raise NotProvedError(
            "binomtest needs a public number of rows; with id= it is confidential under either relation: use "
            'proportion(..., inference="score")'
        )
    if release.neighbors != "replace_one":
        raise NotProvedError(
            'binomtest needs a public number of rows, that is neighbors="replace_one"; under add_remove use '
            'proportion(..., inference="simulated") or "score"'
        )
    return _sound(release, about, "tulap" if tulap else "gaussian")


def _sound(release: Release, about: object, family: str) -> BinomQuestion:
    """Check a count's release for damage."""
    if release.nobs is None:
        raise ReleaseFormatError("the release is damaged: the number of rows must be public")
    if release.law.family != family or len(release.values) != 1 or not isinstance(about, str):
        raise ReleaseFormatError(f"the release is damaged: it holds no single count with {_NOISES[family]} noise")
    if family == "tulap" and release.steps[0] * TULAP_GRID != 1:
        raise ReleaseFormatError("the release is damaged: its step is not that of Tulap noise")
    asked = "asked" in release.question
    try:
        question = BinomQuestion(release.schema, about)
        _ = question.exact.condition
        if family == "gaussian":
            SumPlan.from_release(release)
        question.check()
    except NotProvedError as error:
        if not asked and family == "gaussian":
            raise
        raise ReleaseFormatError(f"the question of the release is damaged: {error}") from error
    except DPInferError as error:
        raise ReleaseFormatError(f"the question of the release is damaged: {error}") from error
    return question


def _stored_test(release: Release) -> Mapping[str, Any]:
    """Return the test stored beside a question."""
    test = release.question.get("test")
    if release.question.get("asked") != "binomtest":
        raise OptionError("p", None, "the tested proportion: the release was not made for a test")
    right = (
        isinstance(test, dict)
        and type(test.get("p")) in (int, float)
        and 0 <= test["p"] <= 1
        and test.get("alternative") in ALTERNATIVES
    )
    if not right:
        raise ReleaseFormatError("the question of the release is damaged: its test is not that of a proportion")
    return cast("Mapping[str, Any]", test)

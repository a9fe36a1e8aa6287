"""Exact inference from one noisy count when the number of rows is public: a binomial test, a proportion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from dpinfer.checks import Allowed, is_number, one_of
from dpinfer.descriptions import binomial_inference
from dpinfer.descriptions.results import BinomTestResults
from dpinfer.errors import InferenceError, NotProvedError, OptionError, ReleaseFormatError
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.stage import Context, Noise, Stage, Sum
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.cell_sums import MeasuredCounts, SumPlan, counts_in
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import TARGET, inferred, measured
from dpinfer.procedures.procedure import Procedure, first_error, sizes_shown
from dpinfer.release import Release
from dpinfer.release.laws import TULAP_GRID
from dpinfer.results.descriptions import DescriptionResults
from dpinfer.schema.basis import basis_of
from dpinfer.schema.expressions import compile_condition, condition_axis
from dpinfer.statistics.nulls import ALTERNATIVES, Alternative

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.stage import Data
    from dpinfer.privacy.units import Neighbors
    from dpinfer.procedures.options import Contrasts
    from dpinfer.release import NoiseLaw, StageRelease
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array
    from dpinfer.statistics.inference import BatchEstimates, Oracle, Released

_CONDITION = Allowed(lambda given: isinstance(given, str), 'a Boolean column, or a condition such as "age >= 18"')

_SHARE = Allowed(lambda given: is_number(given) and 0 <= given <= 1, "a number in [0, 1]: the tested proportion")

_NOISES = {"tulap": "Tulap", "gaussian": "discrete Gaussian"}
"""Names of noise distributions for which a proportion can be tested."""


@dataclass(frozen=True, eq=False)
class SuccessQuestion(Procedure):
    """A question about the number of rows that meet a condition."""

    released_as = "binomial"

    called: ClassVar[str]
    """What messages call it."""

    instead: ClassVar[str]
    """The alternative method, for messages; "{}" stands for its option."""

    instead_of_dropping: ClassVar[str]
    """The alternative if rows may drop out, for messages."""

    column: str = measured("", _CONDITION)

    def check(self, schema: Schema, neighbors: Neighbors) -> None:
        """Refuse data whose number of rows is not public, and a column whose missing cells may drop rows."""
        score, simulated = (self.instead.format(f'inference="{method}"') for method in ("score", "simulated"))
        if schema.people is not None:
            raise NotProvedError(
                f"{self.called} needs a public number of rows; with id= it is confidential for both values of "
                f"neighbors=: use {score}"
            )
        if neighbors != "replace_one":
            raise NotProvedError(
                f'{self.called} needs a public number of rows, that is neighbors="replace_one"; under add_remove use '
                f'{simulated} or "score"'
            )
        for name in compile_condition(self.column, schema).columns:
            if schema[name].may_drop:
                raise NotProvedError(
                    f"{self.called} needs every row to count: declare missing= and impossible= constants for "
                    f"{name!r} (such as False), or use {self.instead_of_dropping}"
                )

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for one count, with noise that allows exact inference."""
        self.check(context.schema, context.neighbors)
        rows = CellSum(Features(basis_of((), context.schema), compile_condition(self.column, context.schema)))
        return Stage(Sum(rows), Noise(tulap=self.release_kind(context) == "binomial"))

    @property
    def holds_tulap(self) -> bool:
        """Whether its release holds a count with Tulap noise."""
        return isinstance(self.source, Release) and self.source.kind == "binomial"

    def reads(self, other: Procedure) -> bool:
        """Return whether a release can be used: any count of the same successes with Tulap noise."""
        return isinstance(other, SuccessQuestion) and other.holds_tulap and other.column == self.column

    def counted(self) -> MeasuredCounts | None:
        """Return the count that its release holds."""
        if not isinstance(self.source, Release):
            return None
        axis = condition_axis(self.column, self.source.schema)
        return MeasuredCounts((axis,), np.array([[0.0, 1.0]]), (self.column,), None, every_row=True)

    def check_release(self, release: Release) -> None:
        """Refuse a release that is not one count with suitable noise among a public number of rows."""
        super().check_release(release)
        _check_count(release)


@dataclass(frozen=True, eq=False)
class BinomTest(SuccessQuestion):
    """A test of one proportion. See `binomtest`.

    Under `PureDP` the count has Tulap noise; otherwise it is an ordinary count with discrete Gaussian noise.
    """

    procedures: ClassVar[tuple[str, ...]] = ("binomtest",)
    called = "binomtest"
    instead = "proportion(..., {})"
    instead_of_dropping = 'proportion(..., inference="simulated") or "score"'

    p: float = inferred(0.5, _SHARE)
    alternative: Alternative = inferred("two-sided", one_of(ALTERNATIVES))

    def check_options(self) -> None:
        """Store p as a float."""
        object.__setattr__(self, "p", float(self.p))

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Describe the question in one line."""
        return f"binomial test of {self.column}, p = {self.p:g}"

    def release_kind(self, context: Context) -> str:
        """Return "binomial" for a count with Tulap noise, else "count"."""
        return "binomial" if isinstance(context.privacy, PureDP) else "count"

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement, and the standard error that noise alone gives, before any budget is spent.

        Returns
        -------
        str
            The count, its bound, noise and guarantee; the test; and the standard error of the proportion from privacy
            noise alone, with the largest possible sampling standard error for comparison.
        """
        noise = first_error(measured)
        verb = {"two-sided": "differs from", "greater": "is above", "less": "is below"}[self.alternative]
        lines = [
            measured.describe(),
            f"test         exact, by the distribution of count and noise: whether P({self.column}) {verb} {self.p:g}",
            "standard error of the proportion from privacy noise alone (and from sampling at most):",
        ]
        for rows in sizes_shown(measured.context.nobs):
            units = max(rows, 1)
            lines.append(f"  n = {rows:,}: {noise / units:.4g} ({0.5 / np.sqrt(units):.4g})")
        return "\n".join(lines)

    # What is inferred

    def summed(self) -> SumPlan | None:
        """Return the ordinary count in its release; None if the count has Tulap noise."""
        if not isinstance(self.source, Release) or self.holds_tulap:
            return None
        return SumPlan("count", self.source.schema, where=self.column, target="data")

    def counted(self) -> MeasuredCounts | None:
        """Return the count that its release holds."""
        held = self.summed()
        return super().counted() if held is None else counts_in(held)

    def reads(self, other: Procedure) -> bool:
        """Return whether a release can be used: any count of the same successes."""
        held = other.summed()
        if held is None:
            return super().reads(other)
        return held.kind == "count" and not held.axes and held.where == self.column

    def infer(self, release: Release | None = None) -> BinomTestResults:
        """Test from a stored release of this count, measured for any proportion, at no privacy cost.

        Raises
        ------
        InferenceError
            If the release counts something else, or has other noise.
        NotProvedError
            If the number of rows in the release is not public, or rows may have been dropped.
        ReleaseFormatError
            If the release is damaged.
        """
        found, _ = self._asked_of(release)
        if found.kind == "count" and found.law.family == "laplace":
            raise InferenceError(
                "the count has discrete Laplace noise: binomtest needs Tulap noise under PureDP, which "
                "binomtest(column).measure(privacy) adds, or Gaussian noise"
            )
        self.check(found.schema, found.neighbors)
        _check_count(found)
        (step,), n, law = found.steps, found.nobs or 0, found.law
        try:
            count = float(found.array[0])
            estimate = binomial_inference.binomial_estimate(count, n, law, step=step)
            pvalue = binomial_inference.binomial_pvalue(count, n, self.p, law, step=step, alternative=self.alternative)
        except (OptionError, OverflowError) as error:
            raise ReleaseFormatError(f"the release is damaged: {error}") from error
        return BinomTestResults(
            title="Exact binomial test",
            hypothesis=f"P({self.column}) = {self.p:g}",
            statistic=float(estimate.proportion),
            pvalue=float(pvalue),
            release=found,
            statistic_name="Proportion",
            alternative=self.alternative,
            null="exact",
            nobs=float(n),
            nobs_is_public=True,
            flags=binomial_inference.count_flags(n, clipped=bool(estimate.clipped)),
            notes=(
                f"The count has {_NOISES[law.family]} noise; the interval inverts the test, "
                "and its coverage is at least nominal for every n and proportion.",
            ),
            column=self.column,
            k=count,
            n=n,
            p=self.p,
            law=law,
            step=step,
        )


@dataclass(frozen=True, eq=False)
class ExactProportionQuestion(SuccessQuestion):
    """One proportion with an exact interval. See `proportion` with ``inference="exact"``."""

    procedures = ("exact_proportion",)
    called = 'inference="exact"'
    instead = "{}"
    instead_of_dropping = 'inference="score"'

    target: str = inferred("population", TARGET)
    inference: str = inferred("exact", one_of(binomial_inference.EXACT_METHODS))

    def check_options(self) -> None:
        """Refuse to take the rows as the whole population."""
        if self.target == "data":
            raise NotProvedError('an exact interval is about a population; for target="data" use inference="score"')

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Describe the question in one line."""
        return f"proportion of {self.column}, exactly"

    def _inference(self, counts: Array, size: int, law: NoiseLaw) -> binomial_inference.ExactProportion:
        known: dict[str, Any] = {"method": self.inference, "nobs": float(size), "nobs_is_public": True}
        return binomial_inference.ExactProportion((self.column,), counts, size, law, 1 / TULAP_GRID, **known)

    def infer(self, release: Release | None = None) -> DescriptionResults:
        """Infer from a stored release of this question, at no further privacy cost."""
        found, _ = self._asked_of(release)
        size = found.nobs or 0
        return DescriptionResults(
            self._inference(found.array[:1], size, found.law),
            found,
            model_name="Private proportion",
            response=self.column,
            quantity="proportion",
            sizes=pd.Series([float(size)]),
        )

    def estimate(self, released: Released, *, alpha: float = 0.05, contrasts: Contrasts = None) -> BatchEstimates:
        """Infer from many releases at once; see `Procedure.estimate`."""
        if contrasts or released.nobs is None:
            raise OptionError("contrasts", contrasts, "none, where the number of rows is public")
        return self._inference(released.values[:, 0], released.nobs, released.law).batch(alpha)  # noqa: PD011

    def oracle(
        self,
        released: Released,
        *,
        sampling: Array,
        alpha: float = 0.05,
        contrasts: Contrasts = None,  # noqa: ARG002
    ) -> Oracle:
        """Return the width of an interval that knew the population; see `OLS.oracle`."""
        known = self._inference(released.values[:1, 0], released.nobs or 0, released.law)  # noqa: PD011
        return known.oracle(sampling, alpha)


@suggests
def binomtest(
    column: str, data: Data | Release | None = None, *, p: float = 0.5, alternative: Alternative = "two-sided"
) -> BinomTest:
    """Exact test that a proportion is p, from one noisy count.

    Parameters
    ----------
    column : str
        A Boolean, or a condition such as ``"income > 50000"``. The rows where it holds are the successes.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, under replace_one and with declared constants for missing and impossible cells, so that the
        number of rows is public and each row is a success or a failure. Or a stored release of this count: of another
        `binomtest`, of ``proportion(column, inference="exact")``, or of ``count(where=column)`` with Gaussian noise.
    p : float
        The proportion under the null hypothesis, in [0, 1].
    alternative : {"two-sided", "greater", "less"}
        Whether the proportion differs from, exceeds or is below p.

    Returns
    -------
    BinomTest
        ``.fit(privacy)`` returns `BinomTestResults`, with the members of scipy's result.

    Raises
    ------
    FormulaError, UnknownColumnError
        If the column is unknown, or not a condition.
    NotProvedError
        If the number of rows is not public; then use ``proportion(..., inference="simulated")`` or "score".
    OptionError
        If p or the alternative has an invalid value.

    Notes
    -----
    Under `PureDP` the count has Tulap noise (discrete Laplace noise plus a stored uniform fraction), and the one-sided
    tests are uniformly most powerful among all private tests [1]_. Under `ZCDP`, `GDP` or `ApproxDP` it has discrete
    Gaussian noise; for `ApproxDP` its scale is that of the analytic Gaussian mechanism. Truncated Tulap noise, which is
    optimal there, is not offered. p-values and intervals use the exact distribution of count plus noise, so that size
    and coverage are guaranteed for every n, p and privacy loss. Unlike scipy's, two-sided p-values are twice the
    smaller one-sided p-value, so that they agree with the equal-tailed interval.

    References
    ----------
    .. [1] Awan and Slavkovic (2018), Differentially private uniformly most powerful tests for binomial data.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(smokes=dpi.Boolean(missing=False, impossible=False))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(pd.DataFrame({"smokes": rng.random(500) < 0.2}), schema, rng=rng, neighbors="replace_one")
    >>> results = dpi.binomtest("smokes", data, p=0.3, alternative="less").fit(dpi.PureDP(1.0))
    >>> bool(results.pvalue < 0.001), results.n
    (True, 500)
    """
    return BinomTest.asking(locals())


def _check_count(release: Release) -> None:
    """Refuse a damaged release of a count.

    Raises
    ------
    ReleaseFormatError
    """
    family = "tulap" if release.kind == "binomial" else "gaussian"
    if release.nobs is None:
        raise ReleaseFormatError("the release is damaged: the number of rows must be public")
    if release.law.family != family or len(release.values) != 1:
        raise ReleaseFormatError(f"the release is damaged: it holds no single count with {_NOISES[family]} noise")
    if family == "tulap" and release.steps[0] * TULAP_GRID != 1:
        raise ReleaseFormatError("the release is damaged: its step is not that of Tulap noise")

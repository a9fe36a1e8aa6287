"""The exact binomial test of one proportion, by one noisy count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpinfer.errors import InferenceError, OptionError, ReleaseFormatError
from dpinfer.inference.testing.binomial import ALTERNATIVES, binomial_pvalue, noisy_binomial_estimate
from dpinfer.inference.tulap import Alternative
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.explanation import first_error, sizes_shown
from dpinfer.procedures.joint_table import counts_in
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import Allowed, inferred, is_number, one_of
from dpinfer.procedures.successes import OfSuccesses, check_count
from dpinfer.procedures.sum_plan import SumPlan
from dpinfer.release import Release
from dpinfer.results.testing.binomial import NOISES, BinomTestResults, count_flags

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.stage import Context, Data
    from dpinfer.procedures.joint_table import MeasuredCounts
    from dpinfer.procedures.procedure import Procedure
    from dpinfer.schema.schema import Schema

__all__ = ["BinomTest", "binomtest"]

_SHARE = Allowed(lambda given: is_number(given) and 0 <= given <= 1, "a number in [0, 1]: the tested proportion")


@dataclass(frozen=True, eq=False)
class BinomTest(OfSuccesses):
    """A test of one proportion. See `binomtest`.

    At a `PureDP` price the count has Tulap noise; at any other it is an ordinary count with discrete Gaussian noise.
    """

    procedures: ClassVar[tuple[str, ...]] = ("binomtest",)
    asked_by = "binomtest"
    instead = "proportion(..., {})"
    instead_of_dropping = 'proportion(..., inference="simulated") or "score"'

    p: float = inferred(0.5, _SHARE)
    alternative: Alternative = inferred("two-sided", one_of(ALTERNATIVES))

    def check_options(self) -> None:
        """Store p as a float."""
        object.__setattr__(self, "p", float(self.p))

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        return f"binomial test of {self.column}, p = {self.p:g}"

    def release_kind(self, context: Context) -> str:
        """Return "binomial" for a count with Tulap noise, else "count"."""
        return "binomial" if isinstance(context.privacy, PureDP) else "count"

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement, and the standard error that noise alone gives, before anything is spent.

        Returns
        -------
        str
            What is counted, its bound, noise and guarantee; the test; and the standard error of the proportion from
            privacy noise alone, beside the largest that sampling can give.
        """
        noise = first_error(measured)
        wording = {"two-sided": "differs from", "greater": "is above", "less": "is below"}[self.alternative]
        lines = [
            measured.describe(),
            f"test         exact, by the law of count and noise: whether P({self.column}) {wording} {self.p:g}",
            "standard error of the proportion from privacy noise alone (and from sampling at most):",
        ]
        for rows in sizes_shown(measured.context.nobs):
            units = max(rows, 1)
            lines.append(f"  n = {rows:,}: {noise / units:.4g} ({0.5 / np.sqrt(units):.4g})")
        return "\n".join(lines)

    # What is inferred

    def summed(self) -> SumPlan | None:
        """Return what its release holds as an ordinary count; None where the count has Tulap noise."""
        if not isinstance(self.source, Release) or self.holds_tulap:
            return None
        return SumPlan("count", self.source.schema, where=self.column, target="data")

    def counted(self) -> MeasuredCounts | None:
        """Return the count that its release holds."""
        held = self.summed()
        return super().counted() if held is None else counts_in(held)

    def reads(self, other: Procedure) -> bool:
        """Whether a release serves: any count of the same successes."""
        held = other.summed()
        if held is None:
            return super().reads(other)
        return held.kind == "count" and not held.axes and held.where == self.column

    def infer(self, release: Release | None = None) -> BinomTestResults:
        """Test from a release of this count, whatever proportion it was measured for: free, and without any row.

        Raises
        ------
        InferenceError
            If the release counts something else, or has other noise.
        NotProvedError
            If the number of rows in the release is not public, or rows may have dropped out.
        ReleaseFormatError
            If the release is damaged.
        """
        found, _ = self._asked_of(release)
        if found.kind == "count" and found.law.family == "laplace":
            raise InferenceError(
                "the count has discrete Laplace noise: binomtest needs Tulap noise under PureDP, which "
                "binomtest(column).measure(privacy) brings, or Gaussian noise"
            )
        self.check(found.schema, found.neighbors)
        check_count(found)
        return self._results(found)

    def _results(self, release: Release) -> BinomTestResults:
        (step,), n = release.steps, release.nobs or 0
        try:
            count = float(release.array[0])
            estimate = noisy_binomial_estimate(count, n, release.law, step=step)
            pvalue = binomial_pvalue(count, n, self.p, release.law, step=step, alternative=self.alternative)
        except (OptionError, OverflowError) as error:
            raise ReleaseFormatError(f"the release is damaged: {error}") from error
        return BinomTestResults(
            title="Exact binomial test",
            hypothesis=f"P({self.column}) = {self.p:g}",
            statistic=float(estimate.proportion),
            pvalue=float(pvalue),
            release=release,
            statistic_name="Proportion",
            alternative=self.alternative,
            null="exact",
            nobs=float(n),
            nobs_is_public=True,
            flags=count_flags(n, clipped=bool(estimate.clipped)),
            notes=(
                f"The count has {NOISES[release.law.family]} noise; the interval inverts the test, "
                "and covers with at least its level at every n and proportion.",
            ),
            column=self.column,
            k=count,
            n=n,
            p=self.p,
            law=release.law,
            step=step,
        )


@suggests
def binomtest(
    column: str,
    data: Data | Release | None = None,
    *,
    p: float = 0.5,
    alternative: Alternative = "two-sided",
) -> BinomTest:
    """Exact test that a proportion is p, from one noisy count.

    Parameters
    ----------
    column : str
        A Boolean, or a condition such as ``"income > 50000"``: the rows where it holds are the successes.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, under replace_one and with declared constants for missing and impossible cells, so that
        the number of rows is public and each is a success or a failure. Or a release of this count: of another
        `binomtest`, of ``proportion(column, inference="exact")``, or of ``count(where=column)`` with Gaussian noise.
    p : float
        The tested proportion, in [0, 1].
    alternative : {"two-sided", "greater", "less"}
        Whether the proportion is different from, above or below p.

    Returns
    -------
    BinomTest
        ``.fit(privacy)`` returns `BinomTestResults`, with the members of scipy's result.

    Raises
    ------
    FormulaError, UnknownColumnError
        If the column is unknown, or no condition.
    NotProvedError
        If the number of rows is not public; use ``proportion(..., inference="simulated")`` or "score" there.
    OptionError
        If p or the alternative has no such value.

    Notes
    -----
    At a `PureDP` price the count has Tulap noise, discrete Laplace noise and a stored uniform fraction: its
    one-sided tests are uniformly most powerful among all private ones [1]_. At a `ZCDP`, `GDP` or `ApproxDP`
    price it has discrete Gaussian noise; for `ApproxDP` its scale is that of the analytic Gaussian mechanism, and the
    truncated Tulap noise, which is optimal there, is not offered. p-values and intervals sum the law of count and
    noise, so that the test holds its level, and the interval covers, at every n, p and price. Two-sided
    p-values are twice the smaller one-sided one, unlike scipy's, so that the equal-tailed interval agrees.

    References
    ----------
    .. [1] Awan and Slavkovic (2018), Differentially private uniformly most powerful tests for binomial data.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> from dpinfer.procedures.binomial import binomtest
    >>> schema = dpi.Schema(smokes=dpi.Boolean(missing=False, impossible=False))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(pd.DataFrame({"smokes": rng.random(500) < 0.2}), schema, rng=rng, neighbors="replace_one")
    >>> results = binomtest("smokes", data, p=0.3, alternative="less").fit(dpi.PureDP(1.0))
    >>> bool(results.pvalue < 0.001), results.n
    (True, 500)
    """
    return BinomTest.asking(locals())

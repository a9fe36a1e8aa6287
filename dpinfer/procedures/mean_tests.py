"""Tests of means: t tests of one sample, two samples and pairs, and one-way analysis of variance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpinfer.errors import OptionError
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.mean_comparison import MeanComparison
from dpinfer.procedures.options import NUMERIC

if TYPE_CHECKING:
    from dpinfer.inference.testing.groups import Alternative
    from dpinfer.inference.testing.nulls import Draws
    from dpinfer.kernel.stage import Data
    from dpinfer.release import Release

__all__ = ["MeanComparison", "f_oneway", "ttest_1samp", "ttest_ind", "ttest_rel"]


@suggests
def ttest_1samp(
    column: str,
    data: Data | Release | None = None,
    *,
    popmean: float,
    alternative: Alternative = "two-sided",
    where: str | None = None,
    draws: Draws = "adaptive",
    seed: int = 0,
) -> MeanComparison:
    """Test whether a column has a given mean.

    Parameters
    ----------
    column : str
        A numeric column, or an expression such as ``"log(1 + income)"``. Values are clamped to their declared bounds,
        and the mean is that of clamped values.
    data : PrivateData, PublicData or Release, optional
        Rows to measure; or a release of this question, or of `mean` of the column, which costs nothing more.
    popmean : float
        The mean under the hypothesis, within the bounds.
    alternative : {"two-sided", "less", "greater"}
        "greater": the mean is above ``popmean``.
    where : str, optional
        A condition on declared columns; other rows count as absent.
    draws : "adaptive" or int
        Simulated releases: "adaptive" stops when the Monte Carlo error of the p-value no longer matters.
    seed : int
        Public seed of the simulation; the privacy noise has none.

    Returns
    -------
    MeanComparison
        Its ``fit(privacy)`` gives `MeanTestResults`.

    Raises
    ------
    OptionError
        If an option has no such value.
    FormulaError, UnknownColumnError, SchemaError
        If the column or the condition cannot be served from the schema, before anything is spent.

    Notes
    -----
    With noisy sums N, S of rows and scaled values, m the mean under the hypothesis and v the noise variance of
    ``S - m N``, the statistic is ``t = (S - m N) / sqrt(N s^2 + v)``; s^2 is the sample variance freed of the bias of
    the noise. Releases are simulated under the hypothesis with sampling and noise alike. Where noise hides the
    variance, it is taken as large as the noise in it allows, and the test is conservative.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> from dpinfer.procedures.mean_tests import ttest_1samp
    >>> schema = dpi.Schema(age=dpi.Real(0, 100))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(pd.DataFrame({"age": rng.normal(45, 15, 2000)}), schema, rng=rng)
    >>> bool(ttest_1samp("age", data, popmean=40).fit(dpi.ZCDP(0.1)).pvalue < 0.01)
    True
    """
    return MeanComparison.asking(locals(), test="ttest_1samp")


@suggests
def ttest_ind(
    column: str,
    by: str,
    data: Data | Release | None = None,
    *,
    equal_var: bool = False,
    alternative: Alternative = "two-sided",
    where: str | None = None,
    draws: Draws = "adaptive",
    seed: int = 0,
) -> MeanComparison:
    """Test whether two groups have the same mean.

    Parameters
    ----------
    column : str
        As in `ttest_1samp`.
    by : str
        The groups: a column of two levels, or a condition such as ``"age >= 18"`` (False first).
    data : PrivateData, PublicData or Release, optional
        Rows to measure; or a release of this question, or of `mean` of the column by the same groups.
    equal_var : bool
        Whether the groups share one variance. By default, unlike in scipy, each has its own (Welch): where variances
        differ, the test with one variance rejects too often or too rarely. Results with ``equal_var=True`` are flagged
        where the noisy variances differ by more than sampling and noise explain.
    alternative : {"two-sided", "less", "greater"}
        "greater": the mean of the first level is above that of the second.
    where, draws, seed
        As in `ttest_1samp`.

    Returns
    -------
    MeanComparison
        Its ``fit(privacy)`` gives `MeanTestResults`.

    Raises
    ------
    OptionError
        If ``by`` has not exactly two levels, or an option has no such value.
    FormulaError, UnknownColumnError, SchemaError
        As `ttest_1samp`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> from dpinfer.procedures.mean_tests import ttest_ind
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), married=dpi.Boolean())
    >>> rng = np.random.default_rng(1)
    >>> rows = schema.sample(2000, rng).assign(age=lambda d: 40 + 10 * d["married"] + rng.normal(0, 10, 2000))
    >>> results = ttest_ind("age", "married", dpi.PublicData(rows, schema, rng=rng)).fit(dpi.ZCDP(0.1))
    >>> bool(results.confidence_interval().high < 0)
    True
    """
    return MeanComparison.asking(locals(), test="ttest_ind")


@suggests
def ttest_rel(
    a: str,
    b: str,
    data: Data | Release | None = None,
    *,
    alternative: Alternative = "two-sided",
    where: str | None = None,
    draws: Draws = "adaptive",
    seed: int = 0,
) -> MeanComparison:
    """Test whether two columns of the same rows have the same mean.

    Parameters
    ----------
    a, b : str
        Numeric columns, or expressions. What is measured is the mean of ``(a) - (b)``, whose bounds follow from
        theirs.
    data : PrivateData, PublicData or Release, optional
        Rows to measure; or a release of this question, or of `mean` of the same difference.
    alternative : {"two-sided", "less", "greater"}
        "greater": the mean of a is above that of b.
    where, draws, seed
        As in `ttest_1samp`.

    Returns
    -------
    MeanComparison
        Its ``fit(privacy)`` gives `MeanTestResults`.

    Raises
    ------
    OptionError
        If the columns are the same, or a difference of zero is outside their bounds, or an option has no such value.
    FormulaError, UnknownColumnError, SchemaError
        As `ttest_1samp`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(before=dpi.Real(0, 100), after=dpi.Real(0, 100))
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(5000, rng).assign(after=lambda d: (d["before"] + rng.normal(5, 10, 5000)).clip(0, 100))
    >>> test = dpi.ttest_rel("after", "before", dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.1))
    >>> bool(test.confidence_interval().low > 0)
    True
    """
    for name, given in (("a", a), ("b", b)):
        NUMERIC.check(name, given)
    if a.strip() == b.strip():
        raise OptionError("b", b, "another column than a")
    return MeanComparison.asking(locals(), test="ttest_rel", column=f"({a.strip()}) - ({b.strip()})")


@suggests
def f_oneway(
    column: str,
    by: str,
    data: Data | Release | None = None,
    *,
    equal_var: bool = False,
    where: str | None = None,
    draws: Draws = "adaptive",
    seed: int = 0,
) -> MeanComparison:
    """Test whether all groups have the same mean: one-way analysis of variance.

    Parameters
    ----------
    column : str
        As in `ttest_1samp`.
    by : str
        The groups: a column of two levels or more, or a condition.
    data : PrivateData, PublicData or Release, optional
        As in `ttest_ind`.
    equal_var : bool
        Whether the groups share one variance (Fisher's test). By default, unlike in scipy, each has its own, and the
        statistic is the numerator of Welch's: his small-sample factor is left to the simulation. See `ttest_ind`.
    where, draws, seed
        As in `ttest_1samp`.

    Returns
    -------
    MeanComparison
        Its ``fit(privacy)`` gives `MeanTestResults`.

    Raises
    ------
    OptionError
        If ``by`` has one level, or an option has no such value.
    FormulaError, UnknownColumnError, SchemaError
        As `ttest_1samp`.

    Notes
    -----
    With ``r = S - m N`` of each group and V its variance, sampling and noise alike, (G - 1) F is the least
    ``sum r^2 / V`` over m, with V at the pooled mean. No noisy count is divided by.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> from dpinfer.procedures.mean_tests import f_oneway
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), race=dpi.Category(["a", "b", "c"]))
    >>> rng = np.random.default_rng(1)
    >>> results = f_oneway("age", "race", dpi.PublicData(schema.sample(500, rng), schema, rng=rng)).fit(dpi.ZCDP(0.1))
    >>> bool(0 < results.pvalue <= 1)
    True
    """
    return MeanComparison.asking(locals(), test="f_oneway")

"""Rank and distribution tests under scipy's names, from noisy counts of leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.kernel.stage import Data
from dpinfer.numerics.reading import floats
from dpinfer.procedures.given_cdf import read_cdf
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import NUMERIC, is_text, whole
from dpinfer.procedures.rank_test import RankTest
from dpinfer.release import Release

if TYPE_CHECKING:
    from dpinfer.inference.testing.groups import Alternative
    from dpinfer.inference.testing.nulls import Draws

    Bins = int | Sequence[float] | None
    Cdf = str | Callable[[Any], Any]

__all__ = ["RankTest", "kruskal", "ks_1samp", "ks_2samp", "mannwhitneyu", "spearmanr", "wilcoxon"]

_EITHER = "a number of leaves from 2 to 100,000, or increasing edges"
_LEAVES = whole(2, 100_000, _EITHER)


def _bins(bins: object, name: str) -> dict[str, Any]:
    """Read leaves: how many, or their edges."""
    if bins is None:
        return {"bins": None, "leaves": None}
    if isinstance(bins, int | np.integer) and not isinstance(bins, bool):
        _LEAVES.check("bins", int(bins))
        return {"bins": None, "leaves": int(bins)}
    return {"bins": {name: _edges(bins)}, "leaves": None}


def _edges(bins: object) -> tuple[float, ...]:
    edges = floats(bins) if isinstance(bins, Sequence | np.ndarray) and not isinstance(bins, str) else None
    if edges is None or len(edges) < 2:
        raise OptionError("bins", bins, _EITHER)
    return tuple(edges)


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
    """Test by ranks whether two groups have the same distribution.

    Parameters
    ----------
    column : str
        A Real or Integer column, or one of ordered levels: a Category is ranked as it is declared.
    by : str
        The groups: a column of two levels, or a condition such as ``"age >= 18"`` (False first).
    data : PrivateData, PublicData or Release, optional
        Rows to measure; or a release of this question, or of a table or histogram of both columns, which costs nothing
        more.
    alternative : {"two-sided", "less", "greater"}
        "greater": values of the first level tend to be above those of the second.
    bins : int or sequence of float, optional
        The leaves into which values are cut: how many of equal width over the declared bounds, at most, or their edges.
        By default as many as the price and the schema ask for; an Integer of few values keeps a leaf for each.
    where : str, optional
        A condition on declared columns; other rows are not counted.
    draws : "adaptive" or int
        Simulated releases: "adaptive" stops when the Monte Carlo error of the p-value no longer matters.
    seed : int
        Public seed of the simulation; the privacy noise has none.

    Returns
    -------
    RankTest
        Its ``fit(privacy)`` gives `RankTestResults`.

    Raises
    ------
    OptionError
        If ``by`` has not exactly two levels, or an option has no such value.
    NotProvedError
        Where a person may have several rows.
    FormulaError, UnknownColumnError, SchemaError
        If a column or condition cannot be served from the schema, before anything is spent.

    Notes
    -----
    The hypothesis is that the values, cut into leaves, have one distribution in both groups, as of scipy's exact test.
    Where distributions differ in spread alone, the test may reject more or less often than its level. The statistic is
    U from noisy counts; the p-value ranks it over its standard error, sampling and noise, with leaves weighted by how
    far noise hides them.

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
    NUMERIC.check("column", column)
    return RankTest.asking(locals(), test="mannwhitneyu", **_bins(bins, column))


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
    """Test by ranks whether several groups have the same distribution.

    Parameters
    ----------
    column, data, bins, where, draws, seed
        As in `mannwhitneyu`.
    by : str
        The groups: a column of two levels or more, or a condition.

    Returns
    -------
    RankTest
        Its ``fit(privacy)`` gives `RankTestResults`.

    Raises
    ------
    OptionError, NotProvedError, FormulaError, UnknownColumnError, SchemaError
        As `mannwhitneyu`.

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
    NUMERIC.check("column", column)
    return RankTest.asking(locals(), test="kruskal", **_bins(bins, column))


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
    """Test by their distribution functions whether two groups have the same distribution.

    Parameters
    ----------
    column, by, data, bins, where, draws, seed
        As in `mannwhitneyu`.
    alternative : {"two-sided", "less", "greater"}
        "greater": the distribution function of the first level is above that of the second somewhere, as in scipy.

    Returns
    -------
    RankTest
        Its ``fit(privacy)`` gives `RankTestResults`, with ``statistic_location``.

    Raises
    ------
    OptionError, NotProvedError, FormulaError, UnknownColumnError, SchemaError
        As `mannwhitneyu`.

    Notes
    -----
    Where noise hides the rows of a group nothing is tested: the p-value is 1, with a flag.

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
    NUMERIC.check("column", column)
    return RankTest.asking(locals(), test="ks_2samp", **_bins(bins, column))


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
    """Test by signed ranks whether differences of pairs are symmetric about zero, or a column about a public value.

    Parameters
    ----------
    column, other : str
        Numeric columns, or expressions; differences are ``(column) - (other)``. Without ``other``, one column.
    data : PrivateData, PublicData or Release, optional
        Rows to measure; or a release of this question; or, of one column, a table or histogram whose leaves mirror each
        other about ``center``.
    center : float
        What is taken off: a public number, of which the hypothesis says that values are symmetric about it.
    zero_method : {"wilcox", "pratt"}
        What becomes of the leaf of zeros: nothing, or it has the lowest ranks.
    alternative : {"two-sided", "less", "greater"}
        "greater": differences tend to be above zero.
    bins : int or sequence of float, optional
        How many leaves, about; or edges above zero, which are mirrored below it. The first ends the leaf of zeros.
    where, draws, seed
        As in `mannwhitneyu`.

    Returns
    -------
    RankTest
        Its ``fit(privacy)`` gives `RankTestResults`.

    Raises
    ------
    OptionError
        If differences are on one side of zero by the declared bounds, or an option has no such value.
    NotProvedError, FormulaError, UnknownColumnError, SchemaError
        As `mannwhitneyu`.

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
    asked = RankTest.asking(locals() | {"data": None}, test="wilcoxon", bins=None, leaves=None)
    return RankTest.asking(locals(), test="wilcoxon", **_bins(bins, asked.difference))


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
    """Test whether a column has a given distribution, by its distribution function.

    Parameters
    ----------
    column : str
        A Real or Integer column.
    cdf : str, frozen distribution of scipy, or callable
        The distribution under the hypothesis, with ``args`` if it is a name. It must be a public fact: the guarantee
        does not cover it. Values beyond the declared bounds are clamped to them, and so is it.
    data, bins, where, draws, seed
        As in `mannwhitneyu`.
    args : sequence of float
        Shape parameters, location and scale, of a distribution given by name.
    alternative : {"two-sided", "less", "greater"}
        "greater": the distribution function of the column is above the given one somewhere.

    Returns
    -------
    RankTest
        Its ``fit(privacy)`` gives `RankTestResults`, with ``statistic_location``.

    Raises
    ------
    OptionError
        If ``cdf`` is no distribution function, or an option has no such value.
    NotProvedError, FormulaError, UnknownColumnError, SchemaError
        As `mannwhitneyu`.

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
    NUMERIC.check("column", column)
    given = read_cdf(cdf, args)
    read = {"cdf": given.name, "args": given.args, "function": given.function}
    return RankTest.asking(locals(), test="ks_1samp", **read, **_bins(bins, column))


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
    """Test by Spearman's rank correlation whether two columns are independent.

    Parameters
    ----------
    x, y : str
        Real or Integer columns, or ones of ordered levels.
    data : PrivateData, PublicData or Release, optional
        As in `mannwhitneyu`.
    alternative : {"two-sided", "less", "greater"}
        "greater": the columns rise together.
    bins : int or mapping of str to sequence of float, optional
        How many leaves each column is cut into, at most, or edges by column.
    where, draws, seed
        As in `mannwhitneyu`.

    Returns
    -------
    RankTest
        Its ``fit(privacy)`` gives `RankTestResults`: the correlation, and ``effect_size()`` with its interval.

    Raises
    ------
    OptionError, NotProvedError, FormulaError, UnknownColumnError, SchemaError
        As `mannwhitneyu`.

    Notes
    -----
    Where noise hides the rows, or how a column is spread, nothing is tested: the p-value is 1, with a flag.

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
        raise OptionError("y", y, "another column than x")
    if isinstance(bins, Mapping):
        if not set(bins) <= {x, y}:
            raise OptionError("bins", bins, f"a number of leaves, or a mapping from {x!r} or {y!r} to edges")
        leaves: dict[str, Any] = {"bins": {name: _edges(edges) for name, edges in bins.items()}, "leaves": None}
    else:
        leaves = _bins(bins, x)
        if leaves["bins"]:
            raise OptionError("bins", bins, f"a number of leaves, or a mapping from {x!r} or {y!r} to edges")
    return RankTest.asking(locals(), test="spearmanr", column=x, other=y, **leaves)

"""Chi-squared tests of noisy counts: goodness of fit, independence, homogeneity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpinfer.errors import OptionError, named
from dpinfer.procedures.count_test import ChiSquare
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.level_numbers import read_shares, read_sizes
from dpinfer.procedures.options import Allowed, is_text
from dpinfer.procedures.table_axes import axes_of, edges_of

if TYPE_CHECKING:
    from dpinfer.inference.testing.nulls import Draws
    from dpinfer.kernel.stage import Data
    from dpinfer.release import Release

    Bins = Sequence[float]

__all__ = ["ChiSquare", "chi2_contingency", "chisquare"]


_LEVELED = Allowed(is_text, 'a column, or a condition such as "age >= 18"')


def _axis(column: str, bins: object) -> Mapping[str, Any]:
    if bins is None:
        return axes_of(column)[0]
    return {"column": column, "edges": edges_of(column, bins)}


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
    shares = None
    if f_exp is not None:
        shares = read_shares("f_exp", f_exp, scaled=True)
    elif p0 is not None:
        shares = read_shares("p0", p0)
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

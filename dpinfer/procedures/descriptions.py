"""Descriptions: means, totals, variances, covariances, correlations, shares, counts, tables, histograms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpinfer.errors import OptionError
from dpinfer.procedures.description import Description
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.table_axes import axes_of, column_texts, edges_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpinfer.kernel.stage import Data
    from dpinfer.procedures.description import Kind
    from dpinfer.release import Release

    Columns = str | Sequence[str]

__all__ = ["axes_of", "corr", "count", "cov", "edges_of", "histogram", "mean", "table", "total", "variance"]


@suggests
def mean(
    columns: Columns,
    data: Data | Release | None = None,
    *,
    by: Columns = (),
    where: str | None = None,
    weights: str | None = None,
    target: str = "population",
    inference: str = "auto",
    replicates: int = 999,
    seed: int = 0,
) -> Description:
    """Means of columns, by group.

    Parameters
    ----------
    columns : str or sequence of str
        Numeric columns, or expressions of them such as ``"log(1 + income)"``.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    by : str or sequence of str
        Groups: Category, Boolean or short Integer columns, or conditions such as ``"age >= 18"``.
    where : str, optional
        A condition on declared columns; other rows count as absent.
    weights : str, optional
        A column of bounded survey weights, not negative: the mean is sum w x over sum w.
    target : {"population", "data"}
        For "data" the rows are the whole population: only the noise counts as error, and the sums that sampling
        errors need are not bought.
    inference : {"auto", "score", "wald", "simulated"}
        Method of intervals, p-values and tests alike. "auto" is "score": every value that is not rejected when
        the variance is evaluated there, which for a ratio of noisy sums is Fieller's interval.
    replicates, seed : int
        Number of simulated releases and their public seed, for ``inference="simulated"``.

    Returns
    -------
    Description
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    FormulaError, UnknownColumnError, SchemaError
        If a column, group or condition cannot be served from the schema, before anything is spent.
    OptionError
        If an option has no such value.

    Notes
    -----
    The noisy sum of centred values over the noisy count, released jointly with the noisy sum of squares that the
    sampling error needs. Values are clamped to their declared bounds, and the mean is that of clamped values.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), married=dpi.Boolean())
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)
    >>> results = dpi.mean("age", data, by="married").fit(dpi.ZCDP(0.1))
    >>> bool(np.allclose(results.estimates, 50, atol=4))
    True
    """
    return _described("mean", locals())


@suggests
def total(
    columns: Columns,
    data: Data | Release | None = None,
    *,
    by: Columns = (),
    where: str | None = None,
    weights: str | None = None,
    target: str = "data",
    inference: str = "auto",
    draws: int = 1,
) -> Description:
    """Totals of columns, by group; with weights, estimates of population totals.

    Parameters
    ----------
    columns, data, by, where, weights, inference
        As in `mean`.
    target : {"data", "population"}
        For "population" the sampling error counts too: of a sample of random size under add_remove (the sum of
        squares of w x), of the same public size under replace_one.
    draws : int
        Release the average of so many Laplace draws, each at its share of a `PureDP` price: near normal from 10 on.

    Returns
    -------
    Description

    Raises
    ------
    FormulaError, UnknownColumnError, SchemaError, OptionError
        As `mean`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(income=dpi.Real(0, 200))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)
    >>> results = dpi.total("income", data).fit(dpi.ZCDP(0.1))
    >>> bool(abs(results.params.iloc[0] / 500_000 - 1) < 0.1)
    True
    """
    return _described("total", locals())


@suggests
def variance(
    columns: Columns,
    data: Data | Release | None = None,
    *,
    by: Columns = (),
    where: str | None = None,
    weights: str | None = None,
    target: str = "population",
    inference: str = "auto",
    replicates: int = 999,
    seed: int = 0,
) -> Description:
    """Variances of columns, by group.

    Parameters
    ----------
    columns, data, by, where, weights, target, inference, replicates, seed
        As in `mean`; at most 8 columns.

    Returns
    -------
    Description

    Raises
    ------
    FormulaError, UnknownColumnError, SchemaError, OptionError
        As `mean`.

    Notes
    -----
    From noisy sums of first and second powers; fourth powers give the sampling error, of any distribution.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)
    >>> results = dpi.variance("age", data).fit(dpi.ZCDP(0.1))
    >>> bool(abs(results.params.iloc[0] / (100**2 / 12) - 1) < 0.2)
    True
    """
    return _described("variance", locals())


@suggests
def cov(
    columns: Sequence[str],
    data: Data | Release | None = None,
    *,
    by: Columns = (),
    where: str | None = None,
    weights: str | None = None,
    target: str = "population",
    inference: str = "auto",
    replicates: int = 999,
    seed: int = 0,
) -> Description:
    """Covariances of all pairs of columns, by group.

    Parameters
    ----------
    columns, data, by, where, weights, target, inference, replicates, seed
        As in `mean`; at most 5 columns (`gram` serves more).

    Returns
    -------
    Description

    Raises
    ------
    FormulaError, UnknownColumnError, SchemaError, OptionError
        As `mean`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), income=dpi.Real(0, 200))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)
    >>> list(dpi.cov(["age", "income"], data).fit(dpi.ZCDP(0.1)).params.index)
    ['cov(age, age)', 'cov(age, income)', 'cov(income, income)']
    """
    return _described("cov", locals())


@suggests
def corr(
    columns: Sequence[str],
    data: Data | Release | None = None,
    *,
    by: Columns = (),
    where: str | None = None,
    weights: str | None = None,
    target: str = "population",
    inference: str = "auto",
    replicates: int = 999,
    seed: int = 0,
) -> Description:
    """Correlations of all pairs of columns, by group.

    Parameters
    ----------
    columns, data, by, where, weights, target, inference, replicates, seed
        As in `mean`; two to 5 columns.

    Returns
    -------
    Description

    Raises
    ------
    FormulaError, UnknownColumnError, SchemaError, OptionError
        As `mean`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), income=dpi.Real(0, 200))
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(5000, rng).assign(income=lambda d: d["age"] + rng.uniform(0, 100, 5000))
    >>> results = dpi.corr(["age", "income"], dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.1))
    >>> bool(abs(results.params.iloc[0] - 0.5**0.5) < 0.1)
    True
    """
    if len(column_texts("columns", columns)) < 2:
        raise OptionError("columns", columns, "two or more columns")
    return _described("corr", locals())


@suggests
def count(
    data: Data | Release | None = None,
    *,
    by: Columns = (),
    where: str | None = None,
    weights: str | None = None,
    target: str = "data",
    inference: str = "auto",
    draws: int = 1,
) -> Description:
    """Count rows, by group.

    Parameters
    ----------
    data, by, where, inference
        As in `mean`.
    weights : str, optional
        Sum this bounded column instead of counting rows: the same as `total` of it.
    target, draws
        As in `total`.

    Returns
    -------
    Description

    Raises
    ------
    OptionError
        On measuring, where the number of rows is all that is asked for and it is public (replace_one).
    FormulaError, UnknownColumnError, SchemaError
        As `mean`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), married=dpi.Boolean())
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)
    >>> results = dpi.count(data, where="age >= 50").fit(dpi.ZCDP(0.1))
    >>> bool(abs(results.params.iloc[0] - 2500) < 250)
    True
    """
    return _counting("count", locals(), axes_of(by))


@suggests
def table(
    columns: Columns,
    data: Data | Release | None = None,
    *,
    where: str | None = None,
    weights: str | None = None,
    target: str = "data",
    inference: str = "auto",
    draws: int = 1,
) -> Description:
    """Cross-tabulate columns: one release serves counts, margins, shares and tests.

    Parameters
    ----------
    columns : str or sequence of str
        Category, Boolean or short Integer columns, or conditions such as ``"age >= 18"``.
    data, where, inference
        As in `mean`.
    weights, target, draws
        As in `count`; with weights the results are totals in every cell.

    Returns
    -------
    Description
        Its results have ``.frame()``, ``.margin(...)`` and ``.proportions(...)``, where rows are counted.

    Raises
    ------
    FormulaError, UnknownColumnError, SchemaError, OptionError
        As `mean`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(region=dpi.Category(["north", "south"]), married=dpi.Boolean())
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)
    >>> results = dpi.table(["region", "married"], data).fit(dpi.ZCDP(0.1))
    >>> results.frame().shape
    (2, 2)
    """
    axes = axes_of(columns)
    if not axes:
        raise OptionError("columns", columns, "one or more columns")
    return _counting("table", locals(), axes)


@suggests
def histogram(
    column: str,
    data: Data | Release | None = None,
    *,
    bins: int | Sequence[float] | None = None,
    bounds: tuple[float, float] | None = None,
    by: Columns = (),
    where: str | None = None,
    target: str = "data",
    inference: str = "auto",
    draws: int = 1,
) -> Description:
    """Count rows in the bins of a numeric column.

    Parameters
    ----------
    column : str
        A Real or Integer column.
    data, where, inference
        As in `mean`.
    bins : sequence of float, or int with ``bounds``
        Increasing edges within the declared bounds; or a number of bins of equal width over ``bounds``. As in numpy a
        bin holds its lower edge, the last its upper edge too. Values are clamped to the declared bounds first.
    bounds : (float, float), optional
        Ends of equal bins where ``bins`` is a number.
    by : str or sequence of str
        Groups.
    target, draws
        As in `count`.

    Returns
    -------
    Description

    Raises
    ------
    OptionError
        If the bins are no increasing edges within the declared bounds.
    UnknownColumnError, SchemaError
        If the column is not declared, or not numeric.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)
    >>> results = dpi.histogram("age", data, bins=[0, 25, 50, 75, 100]).fit(dpi.ZCDP(0.1))
    >>> bool(np.allclose(results.params, 1250, atol=200))
    True
    """
    if not isinstance(column, str):
        raise OptionError("column", column, "the name of a numeric column")
    edges = edges_of(column, bins, bounds, data)
    return _counting("histogram", locals(), (*axes_of(by), {"column": column, "edges": edges}))


def _described(kind: Kind, given: Mapping[str, Any]) -> Description:
    columns, axes = column_texts("columns", given["columns"]), axes_of(given["by"])
    return Description.asking(given, kind=kind, columns=columns, axes=axes)


def _counting(kind: Kind, given: Mapping[str, Any], axes: tuple[Mapping[str, Any], ...]) -> Description:
    """Count rows in cells, or sum a column of weights in them."""
    weights = given.get("weights")
    if weights is None:
        return Description.asking(given, kind=kind, columns=(), axes=axes)
    columns = column_texts("weights", weights)
    return Description.asking(given, kind="total", columns=columns, axes=axes, weights=None)

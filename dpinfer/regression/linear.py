"""Linear regression by noisy cross-products: `ols` and `gram`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from dpinfer.errors import OptionError
from dpinfer.procedures.keywords import INSTEAD, suggests
from dpinfer.procedures.options import texts_of
from dpinfer.procedures.regression import OLS, Gram
from dpinfer.regression.question import COVARIANCES, Newton
from dpinfer.release import Release

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.kernel.stage import Data

__all__ = ["gram", "ols"]

_OF_GRAM: dict[str, Any] = {
    "row_norm": None,
    "norm": "l2",
    "split": None,
    "clamped_share": 0.0,
    "replicates": 999,
    "seed": 0,
}
"""Options that only a Gram has, with their defaults."""


@suggests
def ols(
    formula: str,
    data: Data | Release | Gram | None = None,
    *,
    method: Literal["newton", "gram"] | None = None,
    cov_type: Literal["HC1", "nonrobust"] | None = None,
    weights: str | None = None,
    where: str | None = None,
    ranges: bool = True,
    row_norm: float | None = None,
    norm: Literal["l2", "l1"] = "l2",
    split: tuple[float, float, float] | None = None,
    clamped_share: float = 0.0,
    inference: str = "auto",
    target: str = "population",
    replicates: int = 999,
    seed: int = 0,
) -> OLS | Newton:
    """Linear regression by ordinary least squares under differential privacy.

    Parameters
    ----------
    formula : str
        Such as ``"income ~ age + C(race)"``, in the grammar of statsmodels formulas. Transforms of a row are
        allowed (``log(1 + income)``, ``I(age**2)``, ``I(age > 30)``); functions of a whole column are refused.
        Outside of ``I()`` the signs ``+ - * : / **`` join terms, as in ``(age + educ)**2``.
    data : PrivateData, PublicData, Release or Gram, optional
        Rows to measure, or a release that spans the columns. Nothing is read or spent here.
    method : {"newton", "gram"}, optional
        "newton" releases rounds of Newton's method for this one regression, with robust standard errors: the default
        for rows. "gram" releases cross-products, whose noise grows with the declared bounds, and reads the regression
        from them under the model of equal error variance: the default for a release, which serves many regressions.
    cov_type : {"HC1", "nonrobust"}, optional
        For "newton" decided before the rows are read: "HC1", the default, releases what robust standard errors are made
        of. "nonrobust" spends that share of the price on the estimate, and takes errors as spreading equally and the
        model as right. A "gram" knows "nonrobust" alone, its default.
    weights : str, optional
        For "newton": a bounded column of survey weights, not negative, or an expression of such. Estimates solve
        sum w x (y - x'b) = 0, with the robust standard errors of statsmodels' WLS. See `logit`.
    where : str, optional
        A condition on declared columns, such as ``"age >= 18"``; other rows count as absent.
    ranges : bool
        For "newton": whether to spend a share of the price on where most values of the numeric columns lie.
    row_norm : float, optional
        For "gram", as are ``norm``, ``split``, ``clamped_share``, ``replicates`` and ``seed``.
        Bound on the norm of the scaled regressors' row, the constant included. Rows above it get a weight
        below one, which depends on regressors alone and so leaves a linear model consistent. Less noise.
    norm : {"l2", "l1"}
        Norm of ``row_norm``; ``"l1"`` with `PureDP` is the classical form with bounds C1 on the regressors'
        absolute sum and C2 (the response's declared bound).
    split : tuple of three floats, optional
        Shares of the price for X'X, X'y and y'y; by default they are priced jointly, which costs less.
    clamped_share : float
        Share of the price, below one half, spent on a noisy count of rows with a value outside its bounds.
    inference : {"auto", "wald", "score", "simulated"}
        Method of intervals, p-values and tests alike; "auto" is "score". Free to change: `with_inference`.
    target : {"population", "data"}
        For "data" the rows are the whole population and only the noise counts as error.
    replicates, seed : int
        Number of simulated releases and their public seed, for ``inference="simulated"``.

    Returns
    -------
    OLS
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    FormulaError, UnknownColumnError, CollinearDesignError
        If the formula cannot be bounded from the schema, before anything is spent.
    MissingFromReleaseError
        On ``infer``, if a release lacks a column.
    OptionError
        If an option has no such value.
    NotProvedError
        For ``cov_type="nonrobust"`` with ``weights``, or where a person may have several rows.

    Notes
    -----
    The noisy cross-products of bounded features are released with discrete Gaussian noise (discrete Laplace
    under `PureDP`); the estimate solves the noisy normal equations, and its covariance is
    ``s^2 S^-1 + S^-1 Cov(E a) S^-1`` with ``a = (-b, 1)`` (Vu & Slavkovic 2009; Sheffet 2017).

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(x=dpi.Real(-1, 1), y=dpi.Real(-2, 2))
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(2000, rng)
    >>> frame["y"] = 0.5 * frame["x"] + rng.uniform(-0.5, 0.5, 2000)
    >>> results = dpi.ols("y ~ x", dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.5))
    >>> bool(abs(results.params["x"] - 0.5) < 5 * results.bse["x"])
    True
    """
    source = data.release if isinstance(data, Gram) else data
    if method not in (None, "newton", "gram"):
        raise OptionError("method", method, ("newton", "gram"))
    if method == "gram" or (method is None and _holds_products(source)):
        if ranges is not True:
            raise OptionError("ranges", ranges, 'nothing: it is an option of method="newton"')
        if weights is not None:
            raise OptionError("weights", weights, f'nothing: it is an option of method="newton"; {INSTEAD["weights"]}')
        if cov_type not in (None, "nonrobust"):
            told = f'"nonrobust": cross-products do not tell where errors spread; {INSTEAD["cov_type"]}'
            raise OptionError("cov_type", cov_type, told)
        return OLS.asking(locals(), source=source)
    if cov_type not in (None, *COVARIANCES):
        raise OptionError("cov_type", cov_type, COVARIANCES)
    for name, default in _OF_GRAM.items():
        if locals()[name] != default:
            raise OptionError(name, locals()[name], f'{default!r}: it is an option of method="gram"')
    return Newton.asking(locals(), source=source, model="ols", cov_type=cov_type or "HC1")


def _holds_products(source: object) -> bool:
    """Whether a release was made for another question than rounds of Newton's method."""
    return isinstance(source, Release) and source.question.get("procedure") != "newton"


@suggests
def gram(
    columns: Sequence[str],
    data: Data | Release | None = None,
    *,
    where: str | None = None,
    clamped_share: float = 0.0,
) -> Gram:
    """Measure the cross-products of columns once, and fit every regression among them from it.

    Parameters
    ----------
    columns : sequence of str
        Columns, or terms such as ``"I(age**2)"`` or ``"age:married"``.
    data : PrivateData, PublicData or Release, optional
    where : str, optional
        As in `ols`.
    clamped_share : float
        As in `ols`.

    Returns
    -------
    Gram
        After ``.fit(privacy)`` its ``.release`` serves ``dpi.ols(formula, release).infer()`` without new cost.

    Raises
    ------
    OptionError
        If ``columns`` is not a sequence of names.
    FormulaError, UnknownColumnError, CollinearDesignError
        If a column cannot be bounded from the schema.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), educ=dpi.Integer(0, 20), income=dpi.Real(0, 200))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)
    >>> release = dpi.gram(["income", "age", "educ"], data).fit(dpi.ZCDP(0.5)).release  # paid once
    >>> list(dpi.ols("income ~ age + educ", release).infer().params.index)
    ['Intercept', 'age', 'educ']
    >>> list(dpi.ols("educ ~ age", release).infer().params.index)
    ['Intercept', 'age']
    """
    terms = texts_of(columns)
    if isinstance(columns, str) or not terms:
        raise OptionError("columns", columns, 'a list of columns, such as ["income", "age"]')
    return Gram.asking(locals())

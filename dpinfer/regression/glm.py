"""Regressions by noisy Newton iterations: `logit`, `probit`, `poisson`, `glm`, `rlm`, `quantreg`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statsmodels.genmod import families
from statsmodels.genmod.families import links

from dpinfer.checks import is_number, require
from dpinfer.errors import NotProvedError, OptionError, type_of
from dpinfer.procedures.keywords import suggests
from dpinfer.regression.question import Newton

if TYPE_CHECKING:
    from dpinfer.kernel.stage import Data
    from dpinfer.release import Release

__all__ = ["glm", "logit", "poisson", "probit", "quantreg", "rlm"]

_FAMILIES = (
    "sm.families.Binomial() with link Logit, Probit or CLogLog, Poisson(), NegativeBinomial(alpha=), "
    "Gamma(link=Log()) or Gaussian()"
)

_MODELS: dict[tuple[type, type], str] = {
    (families.Binomial, links.Logit): "logit",
    (families.Binomial, links.Probit): "probit",
    (families.Binomial, links.CLogLog): "cloglog",
    (families.Poisson, links.Log): "poisson",
    (families.NegativeBinomial, links.Log): "negativebinomial",
    (families.Gamma, links.Log): "gamma",
    (families.Gaussian, links.Identity): "ols",
}


def _covariance(groups: str | None) -> str:
    return "HC1" if groups is None else "cluster"


@suggests
def logit(
    formula: str,
    data: Data | Release | None = None,
    *,
    weights: str | None = None,
    where: str | None = None,
    ranges: bool | None = None,
    margins: bool = False,
    groups: str | None = None,
    inference: str = "auto",
    target: str = "population",
) -> Newton:
    """Logistic regression under differential privacy, with robust standard errors.

    Parameters
    ----------
    formula : str
        Such as ``"affair ~ age + C(religious)"``, as in `ols`. The response is Boolean, ``Integer(0, 1)``, a condition
        in ``I()``, or a Category of two levels, of which the second counts as 1.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    weights : str, optional
        A bounded, nonnegative column of survey weights, or an expression of such columns: estimates solve sum w x (y -
        mean) = 0, with the robust standard errors of statsmodels' ``var_weights``. The noise is proportional to the
        ratio of the declared upper bound to a typical weight.
    where : str, optional
        A condition on declared columns, such as ``"age >= 18"``; other rows are ignored.
    ranges : bool, optional
        Whether to spend a small share of the privacy budget on the ranges in which most values of the numeric columns
        lie, as by default. ``False`` saves it if the declared bounds are tight.
    margins : bool
        Whether to spend 5% of the privacy budget on sums from which ``get_margeff`` computes average marginal effects
        of dummy variables and factors (``dummy=True``) and of integers (``count=True``).
    groups : str, optional
        Column whose levels are clusters, as in `ols`. By default standard errors are HC1, or clustered by person.
    inference : {"auto", "wald", "score"}
        Method of intervals, p-values and tests; "auto" is "wald", and "score" where privacy noise dominates.
    target : {"population", "data"}
        "data" treats the rows as the whole population: standard errors include privacy noise only.

    Returns
    -------
    Newton
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    FormulaError, UnknownColumnError, CollinearDesignError
        If the formula cannot be bounded from the schema, or the response is not binary, before any budget is spent.
    OptionError
        If an argument has an invalid value.

    Notes
    -----
    Scales, starting values and noisy Newton iterations are released. Standard errors include sampling error, by the
    robust covariance, and privacy noise; intervals also allow for clipping bias. How to read the results is in
    `docs/regression.md`, the method with its proofs in `docs/regression-method.md`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(x=dpi.Real(-1, 1), y=dpi.Boolean())
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(5000, rng)
    >>> frame["y"] = rng.random(5000) < 1 / (1 + np.exp(-2 * frame["x"]))
    >>> results = dpi.logit("y ~ x", dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.5))
    >>> bool(abs(results.params["x"] - 2) < 5 * results.bse["x"])
    True
    """
    return Newton.asking(locals(), cov_type=_covariance(groups), model="logit")


@suggests
def probit(
    formula: str,
    data: Data | Release | None = None,
    *,
    weights: str | None = None,
    where: str | None = None,
    ranges: bool | None = None,
    margins: bool = False,
    groups: str | None = None,
    inference: str = "auto",
    target: str = "population",
) -> Newton:
    """Probit regression under differential privacy, with robust standard errors.

    Parameters, returned object and errors are those of `logit`.

    Notes
    -----
    The score is that of the likelihood, with linear predictors of at most 6 in size; scores are clipped by length.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), works=dpi.Boolean())
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(5000, rng).assign(works=lambda d: rng.normal(0, 1, 5000) < (d["age"] - 50) / 25)
    >>> results = dpi.probit("works ~ age", dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.5))
    >>> bool(abs(results.params["age"] - 0.04) < 5 * results.bse["age"])
    True
    """
    return Newton.asking(locals(), cov_type=_covariance(groups), model="probit")


@suggests
def poisson(
    formula: str,
    data: Data | Release | None = None,
    *,
    offset: str | None = None,
    exposure: str | None = None,
    where: str | None = None,
    ranges: bool | None = None,
    margins: bool = False,
    groups: str | None = None,
    inference: str = "auto",
    target: str = "population",
) -> Newton:
    """Poisson regression of counts under differential privacy, with robust standard errors.

    Parameters
    ----------
    formula, data, where, ranges, margins, groups, inference, target
        As in `logit`. The declared bounds of the response must be nonnegative.
    offset : str, optional
        A bounded expression of declared columns that is added to the linear predictor.
    exposure : str, optional
        A positive bounded expression, whose logarithm is added.

    Returns
    -------
    Newton
        As in `logit`.

    Raises
    ------
    FormulaError, UnknownColumnError, CollinearDesignError, OptionError
        As in `logit`; also for an offset that is not bounded, and an exposure that may be 0.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), visits=dpi.Integer(0, 30))
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(5000, rng).assign(visits=lambda d: rng.poisson(np.exp(0.02 * d["age"])))
    >>> results = dpi.poisson("visits ~ age", dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.5))
    >>> bool(abs(results.params["age"] - 0.02) < 5 * results.bse["age"])
    True
    """
    return Newton.asking(locals(), cov_type=_covariance(groups), model="poisson")


@suggests
def glm(
    formula: str,
    data: Data | Release | None = None,
    *,
    family: Any = None,
    weights: str | None = None,
    offset: str | None = None,
    exposure: str | None = None,
    where: str | None = None,
    ranges: bool | None = None,
    margins: bool = False,
    groups: str | None = None,
    inference: str = "auto",
    target: str = "population",
) -> Newton:
    """Fit a generalized linear model under differential privacy, with robust standard errors.

    Parameters
    ----------
    formula, data, weights, where, ranges, margins, groups, inference, target
        As in `logit`; weights are available for binary responses and ``Gaussian()``. Average effects of a negative
        binomial and a Gamma regression all need ``margins=True``, and those of ``Gaussian()`` are its coefficients.
    family : statsmodels family
        ``sm.families.Binomial()`` (links Logit, Probit, CLogLog), ``Poisson()``, ``NegativeBinomial(alpha=)``,
        ``Gamma(link=sm.families.links.Log())`` or ``Gaussian()``; the last is the default, as in statsmodels.
    offset, exposure : str, optional
        As in `poisson`, for families with a logarithmic link.

    Returns
    -------
    Newton
        As in `logit`.

    Raises
    ------
    NotProvedError
        For another family or link, and for weights with a family that does not support them.
    FormulaError, UnknownColumnError, CollinearDesignError, OptionError
        As in `logit`.

    Examples
    --------
    >>> import numpy as np
    >>> import statsmodels.api as sm
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), visits=dpi.Integer(0, 30))
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(5000, rng).assign(visits=lambda d: rng.poisson(np.exp(0.02 * d["age"])))
    >>> model = dpi.glm("visits ~ age", dpi.PublicData(frame, schema, rng=rng), family=sm.families.Poisson())
    >>> bool(abs(model.fit(dpi.ZCDP(0.5)).params["age"] - 0.02) < 0.01)
    True
    """
    model, parameter = _read_family(families.Gaussian() if family is None else family)
    return Newton.asking(locals(), cov_type=_covariance(groups), model=model, parameter=parameter)


@suggests
def rlm(
    formula: str,
    data: Data | Release | None = None,
    *,
    where: str | None = None,
    ranges: bool = True,
    inference: str = "auto",
    target: str = "population",
) -> Newton:
    """Robust linear regression by Huber's M-estimator under differential privacy.

    Parameters, returned object and errors are those of `logit`; the response is numeric.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(x=dpi.Real(-1, 1), y=dpi.Real(-50, 50))
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(5000, rng).assign(y=lambda d: 2 * d["x"] + rng.standard_t(3, 5000))
    >>> results = dpi.rlm("y ~ x", dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.5))
    >>> bool(abs(results.params["x"] - 2) < 5 * results.bse["x"])
    True
    """
    return Newton.asking(locals(), model="huber")


@suggests
def quantreg(
    formula: str,
    data: Data | Release | None = None,
    *,
    q: float = 0.5,
    where: str | None = None,
    ranges: bool = True,
    inference: str = "auto",
    target: str = "population",
) -> Newton:
    """Quantile regression under differential privacy, by a smoothed check function.

    Parameters
    ----------
    formula, data, where, ranges, inference, target
        As in `logit`; the response is numeric.
    q : float
        The quantile, between 0 and 1.

    Returns
    -------
    Newton
        As in `logit`.

    Raises
    ------
    FormulaError, UnknownColumnError, CollinearDesignError, OptionError
        As in `logit`; also if ``q`` is not between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(x=dpi.Real(-1, 1), y=dpi.Real(-50, 50))
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(5000, rng).assign(y=lambda d: 2 * d["x"] + rng.standard_t(3, 5000))
    >>> results = dpi.quantreg("y ~ x", dpi.PublicData(frame, schema, rng=rng), q=0.5).fit(dpi.ZCDP(0.5))
    >>> bool(abs(results.params["x"] - 2) < 5 * results.bse["x"])
    True
    """
    require(is_number(q) and 0 < q < 1, "q", q, "a number between 0 and 1")
    return Newton.asking(locals(), model="quantile", parameter=float(q))


def _read_family(family: object) -> tuple[str, float | None]:
    """Return the name of the model of a statsmodels family, and its parameter."""
    link = getattr(family, "link", None)
    model = _MODELS.get((type(family), type(link)))
    if model is None:
        if not isinstance(family, families.Family):
            raise OptionError("family", _given(family), f"an instance of a family of statsmodels: {_FAMILIES}")
        raise NotProvedError(
            f"family={type(family).__name__}() with link {type(link).__name__} is not served; served are {_FAMILIES}"
        )
    return model, float(family.alpha) if isinstance(family, families.NegativeBinomial) else None


def _given(family: object) -> object:
    """Describe an argument that is not a family."""
    return family if isinstance(family, str | type) else type_of(family)

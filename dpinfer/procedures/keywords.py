"""Keywords of statsmodels, scipy and pandas that have another name or place here."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import wraps
from numbers import Number
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from dpinfer.errors import OptionError, type_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["INSTEAD", "suggests"]

_NO_DATA: tuple[Any, ...] = (str, bytes, Number, Sequence, Mapping, np.ndarray)
"""What stands in the place of the data by mistake."""

_P = ParamSpec("_P")
_R = TypeVar("_R")

_SCHEMA = "the schema declares what becomes of missing cells: Real(0, 100, missing=0)"
_ROBUST = (
    "regressions by rounds (dpi.ols, logit, poisson, glm) have robust standard errors; those that are read from a gram "
    'have not, and dpi.bootstrap("y ~ x", data) costs more'
)
_WEIGHTED = (
    "a column of weights goes to weights= of dpi.ols, logit and probit, and of dpi.mean, total, count and proportion; "
    'of another model to dpi.sample_aggregate("y ~ x", data, model=sm.WLS, model_options={"weights": "w"})'
)
_GROUPS = 'groups are given as by="column", where the question takes them'
_PRICE = "the price goes to fit: .fit(dpi.ZCDP(0.1)), .fit(dpi.PureDP(1.0))"
_KEPT = 'where to keep a release is said to fit: .fit(dpi.ZCDP(0.1), save="income.json")'
_LEVEL = "the level is chosen afterwards, at no cost: results.conf_int(alpha=0.05)"
_NO_STEPS = "noisy sums are solved at once, without iterations or starting values"
_RANDOM = "the privacy noise of PrivateData has no seed; dpi.PublicData(..., rng=) has"
_PEOPLE = 'dpi.PrivateData(frame, schema, ledger, id="person", max_rows=3) protects people'
_BOUNDS = "bounds are declared in the schema, as in Real(0, 100), and values beyond them are clamped"

INSTEAD: dict[str, str] = {
    **dict.fromkeys(("cov_type", "cov_kwds", "use_t", "robust", "vcov", "cov"), _ROBUST),
    **dict.fromkeys(("weights", "freq_weights", "var_weights", "sample_weight"), _WEIGHTED),
    **dict.fromkeys(("offset", "exposure"), "offset= and exposure= are those of dpi.poisson and dpi.glm"),
    **dict.fromkeys(("missing", "nan_policy", "dropna", "skipna"), _SCHEMA),
    **dict.fromkeys(("groups", "groupby", "group", "by"), _GROUPS),
    **dict.fromkeys(("epsilon", "delta", "rho", "mu", "eps", "price", "budget", "privacy"), _PRICE),
    **dict.fromkeys(("save", "reuse", "keep", "path", "filename"), _KEPT),
    **dict.fromkeys(("alpha", "confidence_level", "level", "conf_level"), _LEVEL),
    **dict.fromkeys(("start_params", "maxiter", "disp", "tol", "full_output", "method"), _NO_STEPS),
    **dict.fromkeys(("rng", "random_state", "seed"), _RANDOM),
    **dict.fromkeys(("id", "max_rows", "cluster", "clusters"), _PEOPLE),
    **dict.fromkeys(("bounds", "clip", "lower", "upper"), _BOUNDS),
    **dict.fromkeys(("hasconst", "intercept", "add_constant"), 'a formula with "0 +" has no intercept: "y ~ 0 + x"'),
    **dict.fromkeys(("subset", "query", "mask"), 'a condition on rows is where="age >= 18"'),
    **dict.fromkeys(("n_resamples", "n_boot", "reps"), "the number of replicates is replicates="),
    **dict.fromkeys(("quantiles", "percentiles", "probs"), "probabilities are q=, as in q=[0.25, 0.5]"),
    **dict.fromkeys(("correction", "lambda_"), "the statistic is statistic= and its null distribution null="),
    **dict.fromkeys(("target", "inference", "where", "replicates"), "options stand in the question, as dpi.ols(...)"),
    "W": "the weights of linear_queries are queries=",
    "margins": "margins=True is an option of dpi.logit, probit, poisson and glm; effects of lines are coefficients",
    "neighbors": 'the relation is that of the ledger: dpi.Ledger(..., neighbors="replace_one")',
    "family": (
        "families of regressions are those of dpi.glm, of distributions those of dpi.expfam; any model runs in "
        "dpi.sample_aggregate(..., model=)"
    ),
    "range": "the ends of equal bins are bounds=(lower, upper), as the schema declares them by default",
    "M": "dpi.rlm has Huber's norm, with residuals cut at 1.345 of their scale; others run in dpi.sample_aggregate",
    "axis": "columns are given by name, and rows are never an axis",
    "ddof": "variances have the divisor n - 1",
}


def suggests(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Refuse a keyword that the function does not take, with what to use instead, if `INSTEAD` tells.

    Where the data follow what is asked, anything else in their place is refused too.

    Raises
    ------
    OptionError
        By the function returned. Any other unknown keyword stays a TypeError.
    """
    taken = inspect.signature(function).parameters
    positional = [name for name, one in taken.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    place = positional.index("data") if "data" in positional else None

    @wraps(function)
    def checked(*args: _P.args, **keywords: _P.kwargs) -> _R:
        for name, given in keywords.items():
            if name not in taken and name in INSTEAD:
                raise OptionError(name, given, f"nothing: {function.__name__} has no such option; {INSTEAD[name]}")
        if place is not None and len(args) > place and keywords.keys() <= taken.keys():
            extra = len(args) > len(positional) or "data" in keywords
            if extra or isinstance(args[place], _NO_DATA):
                raise OptionError("data", type_of(args[place]), _spelling(function.__name__, taken, positional))
        return function(*args, **keywords)

    return checked


def _spelling(name: str, taken: Mapping[str, inspect.Parameter], positional: Sequence[str]) -> str:
    """Show a call with everything in its place."""
    named = [one for one, parameter in taken.items() if parameter.kind is parameter.KEYWORD_ONLY]
    shown = ", ".join([*positional, *(f"{one}=..." for one in named[:1])])
    return f"data after what is asked, and all else by keyword: {name}({shown})"

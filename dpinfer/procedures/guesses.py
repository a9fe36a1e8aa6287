"""Names of statsmodels and R that a user may look for in `dpinfer`, and what serves instead."""

from __future__ import annotations

__all__ = ["instead_of"]

_OLS = 'dpi.ols("y ~ x", data)'
_LOGIT = 'dpi.logit("y ~ x", data)'
_GLM = 'dpi.glm("y ~ x", data, family=sm.families.'
_MEDIAN = 'dpi.quantreg("y ~ x", data, q=0.5)'
_AGGREGATED = 'dpi.sample_aggregate("y ~ x", data, model=..., bounds=...), which runs any estimator on secret blocks'
_WEIGHTED = 'dpi.ols("y ~ x", data, weights="w")'
_FORMULAS = "dpi.ols, logit, probit, poisson, glm, rlm and quantreg, which take formulas"

_INSTEAD: dict[str, str] = {
    **dict.fromkeys(("OLS", "lm", "regress", "reg", "linear_regression", "LinearRegression", "feols"), _OLS),
    **dict.fromkeys(("WLS", "wls", "GLS", "gls"), _WEIGHTED),
    **dict.fromkeys(("Logit", "logistic", "logistic_regression", "LogisticRegression"), _LOGIT),
    "Probit": 'dpi.probit("y ~ x", data)',
    "Poisson": 'dpi.poisson("y ~ x", data)',
    **dict.fromkeys(("GLM", "families"), f"{_GLM}Binomial())"),
    **dict.fromkeys(("cloglog", "binomial"), f"{_GLM}Binomial(link=...))"),
    **dict.fromkeys(("NegativeBinomial", "negativebinomial", "nb", "negbin"), f"{_GLM}NegativeBinomial(alpha=1.0))"),
    **dict.fromkeys(("Gamma", "gamma"), f"{_GLM}Gamma(link=sm.families.links.Log()))"),
    **dict.fromkeys(("RLM", "huber", "Huber"), 'dpi.rlm("y ~ x", data)'),
    **dict.fromkeys(("loglin", "loglm", "log_linear"), 'dpi.loglinear("a * b + b * c", data)'),
    "robust": "dpi.rlm for a robust regression; standard errors of dpi.ols, logit and glm are robust anyway",
    **dict.fromkeys(("QuantReg", "quantile_regression", "lad", "rq"), _MEDIAN),
    **dict.fromkeys(("smf", "formula", "api", "sm"), _FORMULAS),
    **dict.fromkeys(("MNLogit", "mnlogit", "OrderedModel", "ordinal", "PHReg", "phreg"), _AGGREGATED),
    **dict.fromkeys(("GEE", "gee", "MixedLM", "mixedlm", "ZeroInflatedPoisson", "zip"), _AGGREGATED),
    **dict.fromkeys(("anova_lm", "anova"), "results.wald_test_terms(), or dpi.f_oneway"),
    **dict.fromkeys(("margins", "get_margeff", "predict"), "a method of the results of dpi.logit, poisson and glm"),
    "std": 'dpi.variance("x", data)',
    "sum": 'dpi.total("x", data)',
    "var": 'dpi.variance("x", data)',
}


def instead_of(name: str) -> str:
    """Return what to use instead of a name that is not there, as the end of a message; empty if nobody guesses it."""
    return f"; use {_INSTEAD[name]}" if name in _INSTEAD else ""

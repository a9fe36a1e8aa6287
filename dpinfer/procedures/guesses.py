"""Names of statsmodels, scipy, pandas and R that a user may look for in `dpinfer`, and what serves instead."""

from __future__ import annotations

__all__ = ["instead_of"]

_OLS = 'dpi.ols("y ~ x", data)'
_LOGIT = 'dpi.logit("y ~ x", data)'
_GLM = 'dpi.glm("y ~ x", data, family=sm.families.'
_MEDIAN = 'dpi.quantreg("y ~ x", data, q=0.5)'
_AGGREGATED = 'dpi.sample_aggregate("y ~ x", data, model=..., bounds=...), which runs any estimator on secret blocks'
_WEIGHTED = 'dpi.ols("y ~ x", data, weights="w")'
_FORMULAS = "dpi.ols, logit, probit, poisson, glm, rlm and quantreg, which take formulas"

_DESCRIBED = "dpi.mean, quantile, variance, proportion and table, or dpi.quality(data) for a first look"
_DRAWN = "a question at a price, such as dpi.mean(...).fit(dpi.ZCDP(0.1)): the kernel alone draws noise"

_INSTEAD: dict[str, str] = {
    **dict.fromkeys(("OLS", "lm", "regress", "reg", "linear_regression", "LinearRegression", "feols"), _OLS),
    **dict.fromkeys(("linregress", "regression", "Ridge", "Lasso"), _OLS),
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
    **dict.fromkeys(("std", "var"), 'dpi.variance("x", data)'),
    "sum": 'dpi.total("x", data)',
    **dict.fromkeys(("avg", "average", "nanmean"), 'dpi.mean("x", data)'),
    **dict.fromkeys(("describe", "summarize", "summary", "DescrStatsW"), _DESCRIBED),
    **dict.fromkeys(
        ("groupby", "group_by", "by", "aggregate", "agg"), 'by="group" in dpi.mean, count, quantile and the like'
    ),
    **dict.fromkeys(("size", "len", "nrow", "n", "nobs"), "dpi.count(data=data)"),
    **dict.fromkeys(
        ("crosstab", "value_counts", "tabulate", "freq", "xtabs", "pivot_table"), 'dpi.table(["a", "b"], data)'
    ),
    **dict.fromkeys(("hist", "bar", "boxplot", "distplot"), 'dpi.histogram("x", data, bins=10)'),
    **dict.fromkeys(("percentile", "quantiles", "nanquantile", "iqr"), 'dpi.quantile("x", data, q=[0.25, 0.75])'),
    **dict.fromkeys(("mode", "top", "argmax", "nlargest"), 'dpi.most_frequent("x", data)'),
    **dict.fromkeys(("ecdf", "ECDF"), 'dpi.cdf("x", data)'),
    **dict.fromkeys(("kde", "gaussian_kde", "KDEUnivariate"), 'dpi.density("x", data)'),
    **dict.fromkeys(("pearsonr", "corrcoef", "correlation"), 'dpi.corr(["x", "y"], data)'),
    "covariance": 'dpi.cov(["x", "y"], data)',
    **dict.fromkeys(("ttest", "t_test", "ttest_onesamp"), "dpi.ttest_1samp, ttest_ind or ttest_rel"),
    **dict.fromkeys(("chi2", "chisq_test", "chi2_test", "fisher_exact"), 'dpi.chi2_contingency("a", "b", data)'),
    **dict.fromkeys(("binom_test", "proportions_ztest", "prop_test"), 'dpi.binomtest("x", data, p=0.5)'),
    **dict.fromkeys(
        ("min", "max", "minmax", "range"), 'dpi.bounds("x", data), or dpi.quantile("x", data, q=[0.01, 0.99])'
    ),
    **dict.fromkeys(("laplace", "laplace_mechanism", "gaussian_mechanism", "make_laplace"), _DRAWN),
    **dict.fromkeys(
        ("epsilon", "Epsilon", "Budget", "BudgetAccountant"),
        "dpi.PureDP(1.0), ZCDP, GDP or ApproxDP; dpi.Ledger keeps them",
    ),
    **dict.fromkeys(("read_csv", "read_parquet", "read_sql"), 'dpi.PrivateData("rows.parquet", schema, ledger)'),
    "truncation": "dpinfer.studies.truncation(rows_per_person, max_rows)",
    **dict.fromkeys(("to_html", "export", "publish", "etable", "save_html"), 'dpi.report(results, "study.html")'),
    **dict.fromkeys(("wilcox_test", "ranksums"), 'dpi.mannwhitneyu("x", "group", data)'),
}


def instead_of(name: str) -> str:
    """Return what to use instead of a name that is not there, as the end of a message; empty if nobody guesses it."""
    return f"; use {_INSTEAD[name]}" if name in _INSTEAD else ""

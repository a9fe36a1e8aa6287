"""Names and keywords of statsmodels, scipy, pandas and R that have another name or place here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from functools import wraps
from numbers import Number
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from dpinfer.errors import OptionError, type_of

if TYPE_CHECKING:
    from collections.abc import Callable


_NO_DATA: tuple[Any, ...] = (str, bytes, Number, Sequence, Mapping, np.ndarray)
"""What stands in the place of the data by mistake."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _glossary(text: str) -> dict[str, str]:
    """Read a text of ``names: what serves instead``, each from the start of a line, by name."""
    entries = [" ".join(entry.split()).split(": ", 1) for entry in re.split(r"\n(?! )", text.strip())]
    return {name: right for names, right in entries for name in names.split()}


INSTEAD = _glossary("""
cov_type cov_kwds use_t robust vcov cov: dpi.ols, logit, poisson and glm have robust standard errors by default; those
    from a gram are nonrobust, and dpi.bootstrap("y ~ x", data) spends more
weights freq_weights var_weights sample_weight: a column of weights goes to weights= of dpi.ols, logit and probit, and
    of dpi.mean, total, count and proportion; of another model to dpi.sample_aggregate("y ~ x", data, model=sm.WLS,
    model_options={"weights": "w"})
offset exposure: offset= and exposure= are those of dpi.poisson and dpi.glm
missing nan_policy dropna skipna: the schema declares how missing cells are handled: Real(0, 100, missing=0)
groups groupby group by: groups are given as by="column", where the question takes them
epsilon delta rho mu eps price budget privacy: privacy parameters go to fit: .fit(dpi.ZCDP(0.1)), .fit(dpi.PureDP(1.0))
save reuse keep path filename: the file of a release goes to fit: .fit(dpi.ZCDP(0.1), save="income.json")
alpha confidence_level level conf_level: the level is chosen afterwards, for free: results.conf_int(alpha=0.05)
start_params maxiter disp tol full_output method: noisy sums are solved at once, without iterations or starting values
rng random_state seed: the privacy noise of PrivateData has no seed; dpi.PublicData(..., rng=) has
id max_rows cluster clusters: dpi.PrivateData(frame, schema, ledger, id="person", max_rows=3) protects people
bounds clip lower upper: bounds are declared in the schema, as in Real(0, 100), and values beyond them are clamped
hasconst intercept add_constant: a formula with "0 +" has no intercept: "y ~ 0 + x"
subset query mask: a condition on rows is where="age >= 18"
n_resamples n_boot reps: the number of replicates is replicates=
quantiles percentiles probs: probabilities are q=, as in q=[0.25, 0.5]
correction lambda_: the statistic is statistic= and its null distribution null=
target inference where replicates: options belong to the question, as in dpi.ols(...)
W: the weights of linear_queries are queries=
margins: margins=True is an option of dpi.logit, probit, poisson and glm; effects of lines are coefficients
neighbors: the ledger sets which data sets are neighbours: dpi.Ledger(..., neighbors="replace_one")
family: families of regressions are those of dpi.glm, of distributions those of dpi.expfam; any model runs in
    dpi.sample_aggregate(..., model=)
range: the ends of equal bins are bounds=(lower, upper), as the schema declares them by default
M: dpi.rlm has Huber's norm, with residuals clipped at 1.345 times their scale; others run in dpi.sample_aggregate
axis: columns are given by name, and rows are never an axis
ddof: variances have the divisor n - 1
""")
"""Keywords that a user may try, and what serves instead."""


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
                raise OptionError(name, given, f"no argument of this name in {function.__name__}(); {INSTEAD[name]}")
        if place is not None and len(args) > place and keywords.keys() <= taken.keys():
            extra = len(args) > len(positional) or "data" in keywords
            if extra or isinstance(args[place], _NO_DATA):
                named = [one for one, parameter in taken.items() if parameter.kind is parameter.KEYWORD_ONLY]
                shown = f"{function.__name__}({', '.join([*positional, *(f'{one}=...' for one in named[:1])])})"
                right = f"the arguments in this order, and options by keyword: {shown}"
                raise OptionError("data", type_of(args[place]), right)
        return function(*args, **keywords)

    return checked


FUNCTIONS = _glossary("""
OLS lm regress reg linear_regression LinearRegression feols linregress regression Ridge Lasso: dpi.ols("y ~ x", data)
WLS wls GLS gls: dpi.ols("y ~ x", data, weights="w")
Logit logistic logistic_regression LogisticRegression: dpi.logit("y ~ x", data)
Probit: dpi.probit("y ~ x", data)
Poisson: dpi.poisson("y ~ x", data)
GLM families: dpi.glm("y ~ x", data, family=sm.families.Binomial())
cloglog binomial: dpi.glm("y ~ x", data, family=sm.families.Binomial(link=...))
NegativeBinomial negativebinomial nb negbin: dpi.glm("y ~ x", data, family=sm.families.NegativeBinomial(alpha=1.0))
Gamma gamma: dpi.glm("y ~ x", data, family=sm.families.Gamma(link=sm.families.links.Log()))
IV2SLS IVLIML ivreg ivregress tsls: dpi.iv("y ~ 1 + w + [x ~ z]", data)
RLM huber Huber: dpi.rlm("y ~ x", data)
loglin loglm log_linear: dpi.loglinear("a * b + b * c", data)
robust: dpi.rlm for a robust regression; standard errors of dpi.ols, logit and glm are robust anyway
QuantReg quantile_regression lad rq: dpi.quantreg("y ~ x", data, q=0.5)
smf formula api sm: dpi.ols, logit, probit, poisson, glm, rlm and quantreg, which take formulas
MNLogit multinom multinomial mlogit: dpi.mnlogit("y ~ x", data)
OrderedModel ordinal polr ologit oprobit: dpi.ordered("y ~ x", data, distr="logit")
PHReg phreg ZeroInflatedPoisson zip:
    dpi.sample_aggregate("y ~ x", data, model=..., bounds=...), which runs any estimator on secret blocks
GEE gee MixedLM mixedlm:
    dpi.ols or logit on data with id= and max_rows=, whose errors are clustered by person; EntityEffects for intercepts
anova_lm anova: results.wald_test_terms(), or dpi.f_oneway
margins get_margeff predict: a method of the results of dpi.logit, poisson and glm
std var: dpi.variance("x", data)
sum: dpi.total("x", data)
avg average nanmean: dpi.mean("x", data)
describe summarize summary DescrStatsW: dpi.mean, quantile, variance, proportion and table, or dpi.quality(data) for a
    first look
groupby group_by by aggregate agg: by="group" in dpi.mean, count, quantile and the like
size len nrow n nobs: dpi.count(data=data)
crosstab value_counts tabulate freq xtabs pivot_table: dpi.table(["a", "b"], data)
hist bar boxplot distplot: dpi.histogram("x", data, bins=10)
percentile quantiles nanquantile iqr: dpi.quantile("x", data, q=[0.25, 0.75])
mode top argmax nlargest: dpi.most_frequent("x", data)
ecdf ECDF: dpi.cdf("x", data)
SurvfuncRight survfit Surv survdiff kaplan_meier KaplanMeier KaplanMeierFitter NelsonAalenFitter logrank logrank_test:
    dpi.survival("time", "event", data, times=[...], by="group"), whose results have logrank()
kde gaussian_kde KDEUnivariate: dpi.density("x", data)
pearsonr corrcoef correlation: dpi.corr(["x", "y"], data)
covariance: dpi.cov(["x", "y"], data)
ttest t_test ttest_onesamp: dpi.ttest_1samp, ttest_ind or ttest_rel
lm_lin difference_in_means TreatmentEffect treatment_effect ate rct AB ab_test: dpi.experiment("y", "treated", data)
chi2 chisq_test chi2_test fisher_exact: dpi.chi2_contingency("a", "b", data)
binom_test proportions_ztest prop_test: dpi.binomtest("x", data, p=0.5)
min max minmax range: dpi.bounds("x", data), or dpi.quantile("x", data, q=[0.01, 0.99])
laplace laplace_mechanism gaussian_mechanism make_laplace: a question at a price, such as
    dpi.mean(...).fit(dpi.ZCDP(0.1)): the kernel alone draws noise
epsilon Epsilon Budget BudgetAccountant: dpi.PureDP(1.0), ZCDP, GDP or ApproxDP; dpi.Ledger keeps them
read_csv read_parquet read_sql: dpi.PrivateData("rows.parquet", schema, ledger)
truncation: dpinfer.studies.truncation(rows_per_person, max_rows)
to_html export publish etable save_html: dpi.report(results, "study.html")
svydesign svymean svytotal svyratio svyglm svyby TaylorEstimator survey:
    dpi.SurveyDesign("unit", strata="s", weights="w"), whose methods mean, total, proportion, ratio and ols ask
wilcox_test ranksums: dpi.mannwhitneyu("x", "group", data)
""")
"""Names that a user may look for in `dpinfer`, and what serves instead."""


def instead_of(name: str) -> str:
    """Return what to use instead of a name that is not there, as the end of a message; empty if nobody guesses it."""
    return f"; use {FUNCTIONS[name]}" if name in FUNCTIONS else ""

"""Statistical inference under differential privacy, on statsmodels.

Typical use is ``import dpinfer as dpi``: declare a `Schema`, open a `Ledger`, wrap the rows in `PrivateData`,
ask a question such as `ols`, and ``fit`` it with privacy parameters such as ``ZCDP(0.1)``.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from dpinfer._version import __version__

if TYPE_CHECKING:  # a type checker reads the names here; Python imports each from `_HOMES` when it is first used
    from dpinfer import errors
    from dpinfer.choice.question import mnlogit, ordered
    from dpinfer.descriptions.binomial import binomtest
    from dpinfer.descriptions.mean_tests import f_oneway, ttest_1samp, ttest_ind, ttest_rel
    from dpinfer.descriptions.question import corr, count, cov, histogram, mean, proportion, table, total, variance
    from dpinfer.display.progress import show_progress
    from dpinfer.distributions.density import density
    from dpinfer.distributions.quantiles import cdf, median, quantile
    from dpinfer.distributions.ranks import kruskal, ks_1samp, ks_2samp, mannwhitneyu, spearmanr, wilcoxon
    from dpinfer.duration.question import survival
    from dpinfer.entry.codebooks import read_codebook, write_codebook
    from dpinfer.entry.question import bounds, quality
    from dpinfer.experiments.experiment import experiment
    from dpinfer.families.distributions import Binomial, Family
    from dpinfer.families.question import expfam
    from dpinfer.kernel.data import PrivateData, PublicData
    from dpinfer.privacy import GDP, ZCDP, ApproxDP, Ledger, PureDP
    from dpinfer.procedures import Procedure
    from dpinfer.procedures.combine import combine
    from dpinfer.regression.glm import glm, logit, poisson, probit, quantreg, rlm
    from dpinfer.regression.iv import iv
    from dpinfer.regression.linear import first_difference, gram, ols
    from dpinfer.release import Release, read_release
    from dpinfer.reporting.report import report
    from dpinfer.reporting.summary_table import summary_table
    from dpinfer.resampling.aggregate import sample_aggregate
    from dpinfer.resampling.bootstrap import bootstrap
    from dpinfer.results import PrivateResults
    from dpinfer.results.multiple_tests import multipletests
    from dpinfer.schema import Ball, Boolean, Category, Date, Integer, Real, Schema
    from dpinfer.selection.question import above_threshold, exponential_mechanism, most_frequent
    from dpinfer.studies.audit import audit
    from dpinfer.studies.costs import privacy_cost
    from dpinfer.studies.coverage import coverage_study
    from dpinfer.studies.plan import plan
    from dpinfer.studies.power import power
    from dpinfer.survey.question import SurveyDesign
    from dpinfer.tables.chi_squared import chi2_contingency, chisquare
    from dpinfer.tables.linear_queries import linear_queries
    from dpinfer.tables.loglinear import loglinear
    from dpinfer.tables.marginals import marginals, workload

__all__ = [
    "GDP",
    "ZCDP",
    "ApproxDP",
    "Ball",
    "Binomial",
    "Boolean",
    "Category",
    "Date",
    "Family",
    "Integer",
    "Ledger",
    "PrivateData",
    "PrivateResults",
    "Procedure",
    "PublicData",
    "PureDP",
    "Real",
    "Release",
    "Schema",
    "SurveyDesign",
    "__version__",
    "above_threshold",
    "audit",
    "binomtest",
    "bootstrap",
    "bounds",
    "cdf",
    "chi2_contingency",
    "chisquare",
    "combine",
    "corr",
    "count",
    "cov",
    "coverage_study",
    "density",
    "errors",
    "experiment",
    "expfam",
    "exponential_mechanism",
    "f_oneway",
    "first_difference",
    "glm",
    "gram",
    "histogram",
    "iv",
    "kruskal",
    "ks_1samp",
    "ks_2samp",
    "linear_queries",
    "logit",
    "loglinear",
    "mannwhitneyu",
    "marginals",
    "mean",
    "median",
    "mnlogit",
    "most_frequent",
    "multipletests",
    "ols",
    "ordered",
    "plan",
    "poisson",
    "power",
    "privacy_cost",
    "probit",
    "proportion",
    "quality",
    "quantile",
    "quantreg",
    "read_codebook",
    "read_release",
    "report",
    "rlm",
    "sample_aggregate",
    "show_progress",
    "spearmanr",
    "summary_table",
    "survival",
    "table",
    "total",
    "ttest_1samp",
    "ttest_ind",
    "ttest_rel",
    "variance",
    "wilcoxon",
    "workload",
    "write_codebook",
]

_HOMES = {
    "choice.question": "mnlogit ordered",
    "descriptions.binomial": "binomtest",
    "descriptions.mean_tests": "f_oneway ttest_1samp ttest_ind ttest_rel",
    "descriptions.question": "corr count cov histogram mean proportion table total variance",
    "display.progress": "show_progress",
    "distributions.density": "density",
    "distributions.quantiles": "cdf median quantile",
    "distributions.ranks": "kruskal ks_1samp ks_2samp mannwhitneyu spearmanr wilcoxon",
    "duration.question": "survival",
    "entry.codebooks": "read_codebook write_codebook",
    "entry.question": "bounds quality",
    "experiments.experiment": "experiment",
    "families.distributions": "Binomial Family",
    "families.question": "expfam",
    "kernel.data": "PrivateData PublicData",
    "privacy": "GDP ZCDP ApproxDP Ledger PureDP",
    "procedures": "Procedure",
    "procedures.combine": "combine",
    "regression.glm": "glm logit poisson probit quantreg rlm",
    "regression.iv": "iv",
    "regression.linear": "first_difference gram ols",
    "release": "Release read_release",
    "reporting.report": "report",
    "reporting.summary_table": "summary_table",
    "resampling.aggregate": "sample_aggregate",
    "resampling.bootstrap": "bootstrap",
    "results": "PrivateResults",
    "results.multiple_tests": "multipletests",
    "schema": "Ball Boolean Category Date Integer Real Schema",
    "selection.question": "above_threshold exponential_mechanism most_frequent",
    "studies.audit": "audit",
    "studies.costs": "privacy_cost",
    "studies.coverage": "coverage_study",
    "studies.plan": "plan",
    "studies.power": "power",
    "survey.question": "SurveyDesign",
    "tables.chi_squared": "chi2_contingency chisquare",
    "tables.linear_queries": "linear_queries",
    "tables.loglinear": "loglinear",
    "tables.marginals": "marginals workload",
}
"""Public names by the module that defines them, so that a question loads its own topic and the package none."""

_PLACES = {name: f"dpinfer.{module}" for module, names in _HOMES.items() for name in names.split()}

if not TYPE_CHECKING:  # a type checker would take any name for one that is there

    def __getattr__(name: str) -> object:
        """Import what defines a public name, or a module of the package; refuse others with what to use instead."""
        if name in _PLACES:
            found = globals()[name] = getattr(import_module(_PLACES[name]), name)
            return found
        if not name.startswith("_") and find_spec(f"dpinfer.{name}") is not None:
            return import_module(f"dpinfer.{name}")
        from dpinfer.procedures.keywords import instead_of  # noqa: PLC0415  (loads what no other name needs)

        message = f"module {__name__!r} has no attribute {name!r}{instead_of(name)}"
        raise AttributeError(message, name=name, obj=import_module(__name__))

    def __dir__() -> list[str]:
        """List the public names."""
        return list(__all__)

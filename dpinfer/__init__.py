"""Statistical inference under differential privacy, on statsmodels.

Typical use is ``import dpinfer as dpi``: declare a `Schema`, open a `Ledger`, wrap the rows in `PrivateData`,
ask a question such as `ols`, and ``fit`` it at a price.
"""

import sys
from typing import TYPE_CHECKING

from dpinfer import errors
from dpinfer._version import __version__
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
from dpinfer.families.distributions import Binomial, Family
from dpinfer.families.question import expfam
from dpinfer.kernel.data import PrivateData, PublicData
from dpinfer.privacy import GDP, ZCDP, ApproxDP, Ledger, PureDP
from dpinfer.procedures import Procedure
from dpinfer.procedures.combine import combine
from dpinfer.procedures.keywords import instead_of as _instead_of
from dpinfer.regression.glm import glm, logit, poisson, probit, quantreg, rlm
from dpinfer.regression.linear import gram, ols
from dpinfer.release import Release, read_release
from dpinfer.reporting.report import report
from dpinfer.reporting.summary_table import summary_table
from dpinfer.resampling.aggregate import sample_aggregate
from dpinfer.resampling.bootstrap import bootstrap
from dpinfer.results import PrivateResults
from dpinfer.results.multiple_tests import multipletests
from dpinfer.schema import Ball, Boolean, Category, Date, Integer, Real, Schema
from dpinfer.selection.question import above_threshold, exponential_mechanism, most_frequent
from dpinfer.studies import audit, coverage_study, plan, power, privacy_cost
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
    "expfam",
    "exponential_mechanism",
    "f_oneway",
    "glm",
    "gram",
    "histogram",
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
    "most_frequent",
    "multipletests",
    "ols",
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

if not TYPE_CHECKING:  # a type checker would take any name for one that is there

    def __getattr__(name: str) -> object:
        """Refuse a name that is not there, with what to use instead."""
        message = f"module {__name__!r} has no attribute {name!r}{_instead_of(name)}"
        raise AttributeError(message, name=name, obj=sys.modules[__name__])

    def __dir__() -> list[str]:
        """List the public names."""
        return list(__all__)

"""Statistical inference under differential privacy, on statsmodels.

Typical use is ``import dpinfer as dpi``: declare a `Schema`, open a `Ledger`, wrap the rows in `PrivateData`,
ask a question such as `ols`, and ``fit`` it at a price.
"""

from dpinfer import errors
from dpinfer._version import __version__
from dpinfer.inference.families import Binomial, Family
from dpinfer.kernel.data import PrivateData
from dpinfer.kernel.simulated import PublicData
from dpinfer.privacy import GDP, ZCDP, ApproxDP, Ledger, PureDP
from dpinfer.procedures import (
    Procedure,
    binomtest,
    bootstrap,
    cdf,
    chi2_contingency,
    chisquare,
    combine,
    corr,
    count,
    cov,
    density,
    expfam,
    exponential_mechanism,
    f_oneway,
    gram,
    histogram,
    linear_queries,
    mean,
    median,
    most_frequent,
    ols,
    proportion,
    quantile,
    sample_aggregate,
    table,
    total,
    ttest_1samp,
    ttest_ind,
    ttest_rel,
    variance,
)
from dpinfer.release import Release, read_release
from dpinfer.results import PrivateResults
from dpinfer.results.side_by_side import summary_table
from dpinfer.results.testing.several import multipletests
from dpinfer.schema import Ball, Boolean, Category, Integer, Real, Schema
from dpinfer.studies import coverage_study, power, privacy_cost, truncation

__all__ = [
    "GDP",
    "ZCDP",
    "ApproxDP",
    "Ball",
    "Binomial",
    "Boolean",
    "Category",
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
    "binomtest",
    "bootstrap",
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
    "gram",
    "histogram",
    "linear_queries",
    "mean",
    "median",
    "most_frequent",
    "multipletests",
    "ols",
    "power",
    "privacy_cost",
    "proportion",
    "quantile",
    "read_release",
    "sample_aggregate",
    "summary_table",
    "table",
    "total",
    "truncation",
    "ttest_1samp",
    "ttest_ind",
    "ttest_rel",
    "variance",
]

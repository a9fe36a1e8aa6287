"""Procedures: questions that become measurements, and inferences."""

from dpinfer.procedures.aggregate import SampleAggregate, sample_aggregate
from dpinfer.procedures.binomial import BinomTest, binomtest
from dpinfer.procedures.bootstrap import Bootstrap, bootstrap
from dpinfer.procedures.chisquare import ChiSquare, chi2_contingency, chisquare
from dpinfer.procedures.combine import combine
from dpinfer.procedures.density import Density, density
from dpinfer.procedures.description import Description
from dpinfer.procedures.descriptions import corr, count, cov, histogram, mean, table, total, variance
from dpinfer.procedures.distribution import CDF, cdf
from dpinfer.procedures.expfam import ExpFam, expfam
from dpinfer.procedures.linear import gram, ols
from dpinfer.procedures.mean_tests import MeanComparison, f_oneway, ttest_1samp, ttest_ind, ttest_rel
from dpinfer.procedures.procedure import Procedure
from dpinfer.procedures.proportions import proportion
from dpinfer.procedures.quantiles import Quantile, median, quantile
from dpinfer.procedures.queries import LinearQueries, linear_queries
from dpinfer.procedures.regression import OLS, Gram
from dpinfer.procedures.selection import ExponentialMechanism, MostFrequent, exponential_mechanism, most_frequent

__all__ = [
    "CDF",
    "OLS",
    "BinomTest",
    "Bootstrap",
    "ChiSquare",
    "Density",
    "Description",
    "ExpFam",
    "ExponentialMechanism",
    "Gram",
    "LinearQueries",
    "MeanComparison",
    "MostFrequent",
    "Procedure",
    "Quantile",
    "SampleAggregate",
    "binomtest",
    "bootstrap",
    "cdf",
    "chi2_contingency",
    "chisquare",
    "combine",
    "corr",
    "count",
    "cov",
    "density",
    "expfam",
    "exponential_mechanism",
    "f_oneway",
    "gram",
    "histogram",
    "linear_queries",
    "mean",
    "median",
    "most_frequent",
    "ols",
    "proportion",
    "quantile",
    "sample_aggregate",
    "table",
    "total",
    "ttest_1samp",
    "ttest_ind",
    "ttest_rel",
    "variance",
]

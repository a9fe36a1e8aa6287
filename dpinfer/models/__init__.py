"""Procedures: questions that become measurements, and inferences."""

from dpinfer.models.aggregate import SampleAggregate, sample_aggregate
from dpinfer.models.binomial import BinomTest, binomtest
from dpinfer.models.bootstrap import Bootstrap, bootstrap
from dpinfer.models.chisquare import ChiSquare, chi2_contingency, chisquare
from dpinfer.models.density import Density, density
from dpinfer.models.description import Description
from dpinfer.models.descriptions import corr, count, cov, histogram, mean, table, total, variance
from dpinfer.models.expfam import ExpFam, expfam
from dpinfer.models.linear import OLS, Gram, gram, ols
from dpinfer.models.mean_tests import MeanComparison, f_oneway, ttest_1samp, ttest_ind, ttest_rel
from dpinfer.models.procedure import Procedure
from dpinfer.models.proportions import proportion
from dpinfer.models.quantiles import Quantile, cdf, quantile
from dpinfer.models.queries import linear_queries
from dpinfer.models.selection import Selection, exponential_mechanism, most_frequent

__all__ = [
    "OLS",
    "BinomTest",
    "Bootstrap",
    "ChiSquare",
    "Density",
    "Description",
    "ExpFam",
    "Gram",
    "MeanComparison",
    "Procedure",
    "Quantile",
    "SampleAggregate",
    "Selection",
    "binomtest",
    "bootstrap",
    "cdf",
    "chi2_contingency",
    "chisquare",
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

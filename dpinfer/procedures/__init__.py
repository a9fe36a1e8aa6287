"""Procedures: questions that become measurements, and inferences."""

from dpinfer.procedures.density import Density, density
from dpinfer.procedures.distribution import CDF, cdf
from dpinfer.procedures.linear import OLS, Gram, gram, ols
from dpinfer.procedures.procedure import Procedure
from dpinfer.procedures.quantiles import Quantile, median, quantile
from dpinfer.procedures.queries import LinearQueries, linear_queries
from dpinfer.procedures.selection import ExponentialMechanism, MostFrequent, exponential_mechanism, most_frequent

__all__ = [
    "CDF", "OLS", "Density", "ExponentialMechanism", "Gram", "LinearQueries", "MostFrequent", "Procedure", "Quantile",
    "cdf", "density", "exponential_mechanism", "gram", "linear_queries", "median", "most_frequent", "ols", "quantile",
]

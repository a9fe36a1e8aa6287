"""Procedures: questions that become measurements, and inferences."""

from dpinfer.procedures.description import Description
from dpinfer.procedures.descriptions import corr, count, cov, histogram, mean, table, total, variance
from dpinfer.procedures.expfam import ExpFam, expfam
from dpinfer.procedures.linear import OLS, Gram, gram, ols
from dpinfer.procedures.procedure import Procedure
from dpinfer.procedures.proportions import proportion

__all__ = [
    "Description",
    "ExpFam",
    "Gram",
    "OLS",
    "Procedure",
    "corr",
    "count",
    "cov",
    "expfam",
    "gram",
    "histogram",
    "mean",
    "ols",
    "proportion",
    "table",
    "total",
    "variance",
]

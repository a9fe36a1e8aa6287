"""Procedures: questions that become measurements, and inferences."""

from dpinfer.procedures.aggregate import SampleAggregate, sample_aggregate
from dpinfer.procedures.bootstrap import Bootstrap, bootstrap
from dpinfer.procedures.linear import OLS, Gram, gram, ols
from dpinfer.procedures.procedure import Procedure

__all__ = ["OLS", "Bootstrap", "Gram", "Procedure", "SampleAggregate", "bootstrap", "gram", "ols", "sample_aggregate"]

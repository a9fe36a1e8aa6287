"""Procedures: questions that become measurements, and inferences."""

from dpinfer.models.linear import OLS, Gram, gram, ols
from dpinfer.models.procedure import Procedure

__all__ = ["OLS", "Gram", "Procedure", "gram", "ols"]

"""Procedures: questions, their measurement and their inference. The classes; the functions are in `dpinfer`."""

from dpinfer.procedures.binomial import BinomTest
from dpinfer.procedures.description import Description
from dpinfer.procedures.mean_comparison import MeanComparison
from dpinfer.procedures.procedure import Procedure

__all__ = [
    "BinomTest",
    "Description",
    "MeanComparison",
    "Procedure",
]

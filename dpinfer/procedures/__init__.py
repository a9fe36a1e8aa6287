"""Procedures: questions, their measurement and their inference. The classes; the functions are in `dpinfer`."""

from dpinfer.procedures.aggregate import SampleAggregate
from dpinfer.procedures.binomial import BinomTest
from dpinfer.procedures.bootstrap import Bootstrap
from dpinfer.procedures.bounds import Bounds
from dpinfer.procedures.count_test import ChiSquare
from dpinfer.procedures.description import Description
from dpinfer.procedures.expfam import ExpFam
from dpinfer.procedures.loglinear import LogLinear
from dpinfer.procedures.marginals import Marginals
from dpinfer.procedures.mean_comparison import MeanComparison
from dpinfer.procedures.procedure import Procedure
from dpinfer.procedures.quality import DataQuality
from dpinfer.procedures.queries import LinearQueries
from dpinfer.procedures.selection import ExponentialMechanism, MostFrequent
from dpinfer.procedures.threshold import AboveThreshold

__all__ = [
    "AboveThreshold",
    "BinomTest",
    "Bootstrap",
    "Bounds",
    "ChiSquare",
    "DataQuality",
    "Description",
    "ExpFam",
    "ExponentialMechanism",
    "LinearQueries",
    "LogLinear",
    "Marginals",
    "MeanComparison",
    "MostFrequent",
    "Procedure",
    "SampleAggregate",
]

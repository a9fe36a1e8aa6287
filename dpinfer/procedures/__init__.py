"""Procedures: questions, their measurement and their inference. The classes; the functions are in `dpinfer`."""

from dpinfer.procedures.binomial import BinomTest
from dpinfer.procedures.bounds import Bounds
from dpinfer.procedures.density import Density
from dpinfer.procedures.description import Description
from dpinfer.procedures.distribution import CDF
from dpinfer.procedures.expfam import ExpFam
from dpinfer.procedures.mean_comparison import MeanComparison
from dpinfer.procedures.procedure import Procedure
from dpinfer.procedures.quality import DataQuality
from dpinfer.procedures.quantiles import Quantile
from dpinfer.procedures.rank_test import RankTest

__all__ = [
    "CDF",
    "BinomTest",
    "Bounds",
    "DataQuality",
    "Density",
    "Description",
    "ExpFam",
    "MeanComparison",
    "Procedure",
    "Quantile",
    "RankTest",
]

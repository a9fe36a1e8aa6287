"""Results on statsmodels: tables, tests, intervals and plots from released quantities only."""

from dpinfer.results.density import DensityResults
from dpinfer.results.descriptions import DescriptionResults
from dpinfer.results.distribution import CDFResults
from dpinfer.results.prediction import MeanPrediction
from dpinfer.results.regression import PrivateResults
from dpinfer.results.selection import SelectionResults
from dpinfer.results.testing.base import TestResults

__all__ = [
    "CDFResults",
    "DensityResults",
    "DescriptionResults",
    "MeanPrediction",
    "PrivateResults",
    "SelectionResults",
    "TestResults",
]

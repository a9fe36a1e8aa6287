"""Results in the style of statsmodels: tables, tests, intervals and plots from released quantities only."""

from dpinfer.results.base import PrivateResults
from dpinfer.results.descriptions import CombinedResults, DescriptionResults, ProportionResults, TableResults
from dpinfer.results.margins import MarginalEffects
from dpinfer.results.prediction import MeanPrediction
from dpinfer.results.testing import TestResults

__all__ = [
    "CombinedResults",
    "DescriptionResults",
    "MarginalEffects",
    "MeanPrediction",
    "PrivateResults",
    "ProportionResults",
    "TableResults",
    "TestResults",
]

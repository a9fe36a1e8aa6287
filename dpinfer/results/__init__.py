"""Results on statsmodels: tables, tests, intervals and plots from released quantities only."""

from dpinfer.results.base import PrivateResults
from dpinfer.results.combined import CombinedResults
from dpinfer.results.descriptions import DescriptionResults, ProportionResults, TableResults
from dpinfer.results.families import FamilyResults
from dpinfer.results.loglinear import LogLinearResults, LogLinearTestResults
from dpinfer.results.margins import MarginalEffects
from dpinfer.results.prediction import MeanPrediction
from dpinfer.results.selection import SelectionResults
from dpinfer.results.testing.base import TestResults
from dpinfer.results.testing.binomial import BinomTestResults
from dpinfer.results.testing.tables import ChiSquareResults
from dpinfer.results.threshold import ThresholdResults

__all__ = [
    "BinomTestResults",
    "ChiSquareResults",
    "CombinedResults",
    "DescriptionResults",
    "FamilyResults",
    "LogLinearResults",
    "LogLinearTestResults",
    "MarginalEffects",
    "MeanPrediction",
    "PrivateResults",
    "ProportionResults",
    "SelectionResults",
    "TableResults",
    "TestResults",
    "ThresholdResults",
]

"""Results on statsmodels: tables, tests, intervals and plots from released quantities only."""

from dpinfer.results.descriptions import DescriptionResults, ProportionResults, TableResults
from dpinfer.results.families import FamilyResults
from dpinfer.results.prediction import MeanPrediction
from dpinfer.results.regression import PrivateResults
from dpinfer.results.testing.base import TestResults

__all__ = [
    "DescriptionResults",
    "FamilyResults",
    "MeanPrediction",
    "PrivateResults",
    "ProportionResults",
    "TableResults",
    "TestResults",
]

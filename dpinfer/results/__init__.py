"""Results on statsmodels: tables, tests, intervals and plots from released quantities only."""

from dpinfer.results.prediction import MeanPrediction
from dpinfer.results.regression import PrivateResults

__all__ = ["MeanPrediction", "PrivateResults"]

"""Studies of procedures: does the interval cover, what can the test see, and at what price."""

from dpinfer.studies.bootstrap_cost import PrivacyCost, privacy_cost
from dpinfer.studies.coverage import coverage_study
from dpinfer.studies.populations import POPULATIONS, Population, population
from dpinfer.studies.power_study import PowerStudy, power
from dpinfer.studies.results import StudyResults
from dpinfer.studies.rules import Rules
from dpinfer.studies.truncation import Truncation, truncation

__all__ = [
    "POPULATIONS",
    "Population",
    "PowerStudy",
    "PrivacyCost",
    "Rules",
    "StudyResults",
    "Truncation",
    "coverage_study",
    "population",
    "power",
    "privacy_cost",
    "truncation",
]

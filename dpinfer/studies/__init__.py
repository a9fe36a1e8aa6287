"""Studies of procedures: does the interval cover, and at what price."""

from dpinfer.studies.coverage import coverage_study
from dpinfer.studies.populations import POPULATIONS, Population, population
from dpinfer.studies.results import StudyResults
from dpinfer.studies.rules import Rules

__all__ = ["POPULATIONS", "Population", "Rules", "StudyResults", "coverage_study", "population"]

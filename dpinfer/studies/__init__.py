"""Studies of procedures: does the interval cover, what can the test see, and at what price."""

from dpinfer.studies.auditing import Audit, audit
from dpinfer.studies.bootstrap_cost import PrivacyCost, privacy_cost
from dpinfer.studies.coverage import coverage_study
from dpinfer.studies.planning import Plan, SharedPlan, plan
from dpinfer.studies.populations import POPULATIONS, Population, population
from dpinfer.studies.power_study import PowerStudy, power
from dpinfer.studies.results import StudyResults
from dpinfer.studies.rules import Rules
from dpinfer.studies.truncation import Truncation, truncation

__all__ = [
    "POPULATIONS",
    "Audit",
    "Plan",
    "Population",
    "PowerStudy",
    "PrivacyCost",
    "Rules",
    "SharedPlan",
    "StudyResults",
    "Truncation",
    "audit",
    "coverage_study",
    "plan",
    "population",
    "power",
    "privacy_cost",
    "truncation",
]

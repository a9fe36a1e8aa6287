"""Studies of procedures: does the interval cover, what can the test see, at what price, and is the price true."""

from dpinfer.studies.audit import Audit, Finding, audit
from dpinfer.studies.costs import PrivacyCost, Truncation, privacy_cost, truncation
from dpinfer.studies.coverage import Rules, StudyResults, coverage_study
from dpinfer.studies.plan import Plan, SharedPlan, plan
from dpinfer.studies.populations import POPULATIONS, Population, population
from dpinfer.studies.power import PowerStudy, power

__all__ = [
    "POPULATIONS", "Audit", "Finding", "Plan", "Population", "PowerStudy", "PrivacyCost", "Rules", "SharedPlan",
    "StudyResults", "Truncation", "audit", "coverage_study", "plan", "population", "power", "privacy_cost",
    "truncation",
]  # fmt: skip

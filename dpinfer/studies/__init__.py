"""Studies of procedures: coverage, power, planning, the cost of privacy, and audits of the guarantee."""

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

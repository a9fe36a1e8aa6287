"""Planning: the price or the rows that a question needs, before anything is spent."""

from dpinfer.studies.planning.answer import Plan
from dpinfer.studies.planning.plans import plan
from dpinfer.studies.planning.shared import SharedPlan

__all__ = ["Plan", "SharedPlan", "plan"]

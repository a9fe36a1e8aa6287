"""Studies of procedures: does the interval cover, what can the test see, and at what price."""

from dpinfer.studies.bootstrap_cost import PrivacyCost, privacy_cost
from dpinfer.studies.truncation import Truncation, truncation

__all__ = ["PrivacyCost", "Truncation", "privacy_cost", "truncation"]

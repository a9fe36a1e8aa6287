"""What privacy costs: units, accounting, and the ledger that keeps the budget."""

from dpinfer.privacy.accounting import Cost
from dpinfer.privacy.ledger import Ledger
from dpinfer.privacy.units import GDP, NEIGHBORS, ZCDP, ApproxDP, Neighbors, Privacy, PureDP

__all__ = ["GDP", "NEIGHBORS", "ZCDP", "ApproxDP", "Cost", "Ledger", "Neighbors", "Privacy", "PureDP"]

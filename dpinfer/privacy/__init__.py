"""What privacy costs: units, accounting, and the ledger that keeps the budget."""

from dpinfer.privacy.accounting import (
    Cost,
    calibrate,
    coordinate_scales,
    discrete_gaussian_tau,
    gaussian_amount,
    gaussian_cost,
    laplace_cost,
    least_scale,
)
from dpinfer.privacy.ledger import Ledger
from dpinfer.privacy.units import GDP, NEIGHBORS, ZCDP, ApproxDP, Neighbors, Privacy, PureDP, privacy_from_dict

__all__ = [
    "GDP",
    "NEIGHBORS",
    "ZCDP",
    "ApproxDP",
    "Cost",
    "Ledger",
    "Neighbors",
    "Privacy",
    "PureDP",
    "calibrate",
    "coordinate_scales",
    "discrete_gaussian_tau",
    "gaussian_amount",
    "gaussian_cost",
    "laplace_cost",
    "least_scale",
    "privacy_from_dict",
]

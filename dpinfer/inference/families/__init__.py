"""Exponential families: parameters, statistics of clamped values, and their moments."""

from __future__ import annotations

from dpinfer.errors import OptionError
from dpinfer.inference.families.base import OWN, READERS, ExponentialFamily, Moments, Parameter
from dpinfer.inference.families.continuous import Beta, Exponential, Gamma, Lognormal, Normal
from dpinfer.inference.families.custom import MOST_VALUES, Family
from dpinfer.inference.families.discrete import Bernoulli, Binomial, Geometric, Poisson

__all__ = [
    "FAMILIES",
    "MOST_VALUES",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Exponential",
    "ExponentialFamily",
    "Family",
    "Gamma",
    "Geometric",
    "Lognormal",
    "Moments",
    "Normal",
    "Parameter",
    "Poisson",
    "as_family",
]

FAMILIES: dict[str, type[ExponentialFamily]] = {
    "bernoulli": Bernoulli,
    "beta": Beta,
    "binomial": Binomial,
    "exponential": Exponential,
    "gamma": Gamma,
    "geometric": Geometric,
    "lognormal": Lognormal,
    "normal": Normal,
    "poisson": Poisson,
}
"""The families that come with the library, by name."""

READERS.update({**FAMILIES, OWN: Family})


def as_family(family: str | ExponentialFamily) -> ExponentialFamily:
    """Return a family, or the one of that name.

    Parameters
    ----------
    family : str or ExponentialFamily
        A name serves for every family that needs no further number (all but the binomial one).

    Raises
    ------
    OptionError
        If there is no such family.

    Examples
    --------
    >>> as_family("normal").names
    ('mean', 'sd')
    """
    if isinstance(family, ExponentialFamily):
        return family
    if family == "binomial":
        raise OptionError("family", family, "Binomial(trials) with the known number of trials")
    if not isinstance(family, str) or family not in FAMILIES:
        raise OptionError("family", family, [*sorted(FAMILIES), "a Family of your own"])
    return FAMILIES[family]()

"""Exponential families: parameters, statistics of clamped values, and their moments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpinfer.errors import InferenceError, OptionError, shown
from dpinfer.inference.families.base import ExponentialFamily, Moments, Parameter
from dpinfer.inference.families.continuous import Beta, Exponential, Gamma, Lognormal, Normal
from dpinfer.inference.families.custom import MOST_VALUES, Family
from dpinfer.inference.families.discrete import Bernoulli, Binomial, Geometric, Poisson

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    "family_from_dict",
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


def family_from_dict(stored: Mapping[str, Any], family: ExponentialFamily | None = None) -> ExponentialFamily:
    """Read back what `ExponentialFamily.to_dict` wrote.

    Parameters
    ----------
    stored : mapping
    family : ExponentialFamily, optional
        Needed for a family of one's own, whose log-density is not in a file; it must be the one described.

    Raises
    ------
    InferenceError
        If a family of one's own is needed and not given, or another one is given.
    OptionError
        If there is no such family.
    """
    if stored.get("own"):
        if family is None:
            raise InferenceError(
                f"the release was made for the family {stored.get('name')!r} of its author, whose log-density is not "
                "in the file: pass family=Family(...) to infer from it"
            )
        if family.to_dict() != dict(stored):
            raise InferenceError(
                f"family={shown(family)} is not the family {stored.get('name')!r} that the release was made for"
            )
        return family
    found = Binomial(stored["trials"]) if stored.get("name") == "binomial" else as_family(str(stored.get("name")))
    if family is not None and family != found:
        raise InferenceError(f"family={shown(family)} is not {found!r}, which the release was made for")
    return found

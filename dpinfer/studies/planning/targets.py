"""What is asked of a study: widths, powers and errors, and how far a forecast is from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from dpinfer.errors import OptionError, names_of, type_of
from dpinfer.studies.power_truth import is_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.statistics.arrays import Array
    from dpinfer.studies.planning.forecasts import Forecast

__all__ = ["Targets", "read_targets"]

_LIMITS = ("width", "rmse", "relative")
"""Targets that are numbers above zero, by term or one for all."""


@dataclass(frozen=True, eq=False)
class Targets:
    """What is asked, by term.

    Attributes
    ----------
    width, rmse, relative : mapping of str to float
        Most that is allowed.
    power : mapping of str to (effect or None, power)
        Least that is asked, for a true value; of None the population's own.
    assurance : float
        Probability with which a width is to be reached.
    """

    width: Mapping[str, float] = field(default_factory=dict)
    rmse: Mapping[str, float] = field(default_factory=dict)
    relative: Mapping[str, float] = field(default_factory=dict)
    power: Mapping[str, tuple[float | None, float]] = field(default_factory=dict)
    assurance: float = 0.5

    def __bool__(self) -> bool:
        return bool(self.width or self.rmse or self.relative or any(least > 0 for _, least in self.power.values()))

    def effects(self, forecast: Forecast) -> Array:
        """Return the true values at which power is asked for (p,); the population's own by default."""
        given = {name: effect for name, (effect, _) in self.power.items() if effect is not None}
        return np.array([given.get(name, own) for name, own in zip(forecast.names, forecast.center, strict=True)])

    def shortfall(self, forecast: Forecast, alone: Forecast | None) -> float:
        """How far a forecast is from the target that it is farthest from: 0 or less where all are met.

        Widths and errors count on the logarithm, powers as probits. ``alone`` is the forecast without noise.
        """
        return max([-np.inf, *self._gaps(forecast, alone).values()])

    def failing(self, forecast: Forecast, alone: Forecast | None) -> tuple[str, str]:
        """Name the target, and its term, that a forecast is farthest from."""
        gaps = self._gaps(forecast, alone)
        return max(gaps, key=lambda key: gaps[key])

    def _gaps(self, forecast: Forecast, alone: Forecast | None) -> dict[tuple[str, str], float]:
        places = {name: place for place, name in enumerate(forecast.names)}
        out: dict[tuple[str, str], float] = {}
        values = {"width": forecast.width(self.assurance), "rmse": forecast.rmse}
        if alone is not None and self.relative:
            values["relative"] = values["width"] / alone.width()
        for name, value in values.items():
            for term, most in getattr(self, name).items():
                at = float(value[places[term]])
                out[name, term] = np.inf if np.isnan(at) else float(np.log(max(at, 1e-300) / most))
        reached = [(term, least) for term, (_, least) in self.power.items() if least > 0]
        if reached:
            powers = np.clip(forecast.power(self.effects(forecast)), 1e-9, 1 - 1e-9)
            for term, least in reached:
                out["power", term] = float(stats.norm.ppf(least) - stats.norm.ppf(powers[places[term]]))
        return out


def read_targets(names: Sequence[str], given: Mapping[str, Any], *, alpha: float, assurance: float) -> Targets:
    """Read what was asked for: each a number for all terms, or a mapping by term.

    Parameters
    ----------
    names : sequence of str
        The terms of the question.
    given : mapping
        Of "width", "rmse", "relative" and "power" what was given, or None.
    alpha, assurance : float

    Raises
    ------
    OptionError
        If a term is unknown, or a number is none that can be asked for.
    """
    limits = {name: _limits(name, given.get(name), names) for name in _LIMITS}
    return Targets(**limits, power=_powers(given.get("power"), names, alpha), assurance=assurance)


def _limits(option: str, given: Any, names: Sequence[str]) -> dict[str, float]:
    least = 1.0 if option == "relative" else 0.0
    out = _by_term(option, given, names)
    for value in out.values():
        if not (is_number(value) and value > least):
            raise OptionError(option, type_of(given) if isinstance(given, Mapping) else given, _right(option, least))
    return {name: float(value) for name, value in out.items()}


def _right(option: str, least: float) -> str:
    return f'a number above {least:g} for all terms, or such numbers by term, as in {option}={{"age": ...}}'


def _by_term(option: str, given: Any, names: Sequence[str]) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        return dict.fromkeys(names, given)
    unknown = [name for name in given if name not in names]
    if unknown or not given:
        raise OptionError(option, names_of(unknown), f"terms among {', '.join(names[:20])}")
    return dict(given)


def _powers(given: Any, names: Sequence[str], alpha: float) -> dict[str, tuple[float | None, float]]:
    right = (
        f'a power between {alpha:g} and 1, by term with the true value, as in power={{"age": (0.02, 0.8)}}; '
        "without the value it is the population's own"
    )
    out: dict[str, tuple[float | None, float]] = {}
    for name, value in _by_term("power", given, names).items():
        pair = value if isinstance(value, tuple | list) else (None, value)
        fits = len(pair) == 2 and (pair[0] is None or is_number(pair[0])) and is_number(pair[1])
        if not (fits and alpha < pair[1] < 1 and pair[0] != 0):
            raise OptionError("power", given if is_number(given) else type_of(given), right)
        out[name] = (None if pair[0] is None else float(pair[0]), float(pair[1]))
    return out

"""Plans of tests: their power, by the same study that `dpinfer.power` makes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.errors import NotProvedError, OptionError, type_of
from dpinfer.kernel.data import PublicData, plain_cells
from dpinfer.procedures.binomial import BinomTest
from dpinfer.procedures.mean_tests import MeanComparison
from dpinfer.procedures.proportions import proportion
from dpinfer.studies.engine import ALL_BUT_FREE
from dpinfer.studies.planning.forecasts import Forecast
from dpinfer.studies.planning.pilots import Rows, Told, read_pilot
from dpinfer.studies.power_study import power
from dpinfer.tables.chi_squared import ChiSquare

if TYPE_CHECKING:
    from dpinfer.privacy.units import Privacy
    from dpinfer.studies.planning.forecasts import Asked, Depth
    from dpinfer.studies.planning.pilots import Pilot
    from dpinfer.studies.power_study import PowerStudy

__all__ = ["TESTS", "PowerForecast", "Tested", "tested"]

TESTS = (ChiSquare, BinomTest, MeanComparison)
"""Questions whose answer is a p-value."""

_TERM = "test"
_START = 1000
"""Rows from which a search starts."""


@dataclass(frozen=True, eq=False)
class PowerForecast(Forecast):
    """The power of a test, which has no interval.

    Attributes
    ----------
    found : float
    """

    found: float = field(default=np.nan)

    def power(self, effects: Any) -> Any:  # noqa: ARG002  (the population says what is true)
        """Return the power (1,)."""
        return np.array([self.found])


@dataclass(frozen=True, eq=False)
class Tested:
    """Forecasts of the power of a test against a population.

    Attributes
    ----------
    asked : Asked
    truth : object
        As `dpinfer.power` takes it.
    """

    asked: Asked
    truth: Any
    slow: bool = False
    least: int = 1
    most: int = 10**9

    def at(self, n: int, price: Privacy, *, depth: Depth = "width") -> Forecast:  # noqa: ARG002
        """Look at a number of rows and a price; see `Outlook.at`."""
        return self._forecast(self._one.at(n, price))

    def alone(self, n: int) -> Forecast:
        """Look at the ordinary test; see `Outlook.alone`."""
        return self._forecast(self._one.at(n, None))

    def rows(self, price: Privacy, least: float) -> int | None:
        """Smallest number of rows that gives a power at a price, as `PowerStudy.sample_size` finds it."""
        found = self._study(_START, price).sample_size(least)["n"].iloc[0]
        return None if pd.isna(found) else int(found)

    def price(self, n: int, kind: Privacy, least: float) -> Privacy | None:
        """Smallest price of a unit that gives a power at a number of rows, as `PowerStudy.budget` finds it."""
        found: Privacy | None = self._study(n, kind).budget(least)["privacy"].iloc[0]
        return found

    @cached_property
    def _one(self) -> PowerStudy:
        return self._study(_START, self.asked.known)

    def _study(self, n: int, price: Privacy) -> PowerStudy:
        asked = self.asked
        try:
            return power(
                asked.procedure,  # type: ignore[arg-type]
                self.truth,
                n=n,
                privacy=price,
                schema=asked.schema,
                neighbors=asked.neighbors,
                alpha=asked.alpha,
                seed=asked.seed,
            )
        except OptionError as error:
            if error.option != "truth":
                raise
            raise OptionError("pilot", type_of(self.truth), error.expected) from None

    def _forecast(self, found: float) -> PowerForecast:
        nothing = np.full((1, 1), np.nan)
        ends = np.full((1, 1, 2), np.nan)
        return PowerForecast((_TERM,), nothing[0], nothing, nothing, ends, False, self.asked.alpha, found)


def tested(asked: Asked, pilot: Any) -> tuple[Tested, str]:
    """Return the forecasts of a test, and what its population is.

    ``pilot`` is what other plans take, or the truth as `dpinfer.power` takes it.
    """
    if _is_truth(pilot, asked):
        return Tested(asked, pilot), "as given: what is true, in the terms of dpinfer.power"
    if pilot is None:
        right = "for a test what is true, public rows or a function: hypotheses may hold in the uniform population"
        raise OptionError("pilot", None, right)
    population = read_pilot(pilot, asked.schema, asked.procedure)
    return Tested(asked, _truth(asked, population)), population.about


def _is_truth(pilot: Any, asked: Asked) -> bool:
    if pilot is None or isinstance(pilot, PublicData) or callable(pilot):
        return False
    if isinstance(pilot, pd.DataFrame):
        return not all(name in pilot.columns for name in _columns(asked))
    return not hasattr(pilot, "stages") and not hasattr(pilot, "columns")


def _columns(asked: Asked) -> tuple[str, ...]:
    return asked.measured(100, asked.known).columns


def _truth(asked: Asked, pilot: Pilot) -> Any:
    test: Any = asked.procedure
    if isinstance(test, ChiSquare):
        return _cells(asked, pilot)
    means = test.described if isinstance(test, MeanComparison) else proportion(test.column)
    told = _inferred(asked, means, pilot)
    if isinstance(test, BinomTest):
        return float(np.clip(told.params.iloc[0], 0, 1))
    spread = np.sqrt(_inferred(asked, replace(test.described, kind="variance"), pilot).params.to_numpy())
    if not test.grouped:
        return {"mean": float(told.params.iloc[0]), "sd": float(spread[0])}
    labels = test.plan(asked.schema).cells[0].labels
    sizes = np.asarray(told.sizes, dtype=np.float64)
    parts = zip(labels, sizes / sizes.sum(), told.params.to_numpy(), spread, strict=True)
    return {label: (float(share), float(mean), float(sd)) for label, share, mean, sd in parts}


def _cells(asked: Asked, pilot: Pilot) -> Any:
    """Probabilities of the cells of a table."""
    measured = asked.measured(100, asked.known)
    if isinstance(pilot, Told) and not pilot.holds(measured):
        raise OptionError("pilot", type_of(pilot.release), "a release of the same table")
    counts = np.maximum(pilot.expected(measured, 10**6) / measured.rows.units, 0.0)
    shape = [len(axis.labels) for axis in asked.procedure.plan(asked.schema).cells]  # type: ignore[attr-defined]
    return (counts / counts.sum()).reshape(shape)


def _inferred(asked: Asked, question: Any, pilot: Pilot) -> Any:
    """Infer what a test is about from a population: as good as without noise from rows, else from the release."""
    if isinstance(pilot, Told):
        return question.infer(pilot.release)
    if not isinstance(pilot, Rows):
        raise NotProvedError("this test is planned from rows, a function or a release")
    frame = pd.DataFrame({name: plain_cells(pilot.pool[name]) for name in asked.schema})
    data = PublicData(frame, asked.schema, rng=np.random.default_rng(0), neighbors=asked.neighbors)
    return question.bind(data).fit(ALL_BUT_FREE)

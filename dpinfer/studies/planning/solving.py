"""What is missing of a question, its rows, its price and its targets: looked for in forecasts."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import DPInferError, OptionError, cut, names_of, type_of
from dpinfer.studies.planning.answer import Plan
from dpinfer.studies.planning.forecasts import outlook_of
from dpinfer.studies.planning.pilots import Told, read_pilot
from dpinfer.studies.planning.shared import NOTHING
from dpinfer.studies.planning.targets import Targets, read_targets
from dpinfer.studies.planning.tested import TESTS, Tested, tested
from dpinfer.studies.power_search import amount_of, amounted, crossing, price_bounds, three_digits_up, unit_of
from dpinfer.studies.power_truth import is_number, is_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dpinfer.privacy.units import Privacy
    from dpinfer.studies.planning.forecasts import Asked, Depth, Forecast, Outlook

__all__ = ["START", "TARGETS", "Work"]

START = 1000
"""Rows from which a search starts."""

TARGETS = ("width", "power", "rmse", "relative")
"""What may be asked for."""

_ROUGHLY, _NEAR = 0.008, 1.1
"""Shortfall that is near enough for a first search, and the stride of the second one."""


def _listed(targets: Mapping[str, Any]) -> str:
    """Write targets by term for a message."""
    return cut(", ".join(f"{term}: {most[1] if isinstance(most, tuple) else most:g}" for term, most in targets.items()))


class Work:
    """One question, its population and what is sought."""

    def __init__(self, asked: Asked, nobs: int | None, pilot: Any, assurance: float) -> None:
        self.asked, self._nobs, self._assurance = asked, nobs, float(assurance)
        self.text = asked.procedure.text(asked.schema)
        self._told: float | None = None
        self.outlook: Outlook
        if isinstance(asked.procedure, TESTS):
            self.outlook, self.about = tested(asked, pilot)
            return
        found = read_pilot(pilot, asked.schema, asked.procedure)
        self.about = found.about
        self._told = found.nobs if isinstance(found, Told) else None
        self.outlook = outlook_of(asked, found)

    def answered(self, n: Any, privacy: Any, given: dict[str, Any]) -> Plan:
        """Solve what is missing."""
        wanted = any(value is not None for value in given.values())
        missing = [name for name, known in (("n", n is not None), ("privacy", privacy is not None)) if not known]
        if wanted and not missing and not isinstance(self.outlook, Tested):
            pair = given["power"] is not None and all(given[name] is None for name in TARGETS if name != "power")
            if not (pair and not is_number(given["power"])):
                raise OptionError("n", n, "None: with n, privacy and a target nothing is missing to solve")
        if "n" in missing and (len(missing) > 1 or not wanted):
            n, missing = self.rows(None), [one for one in missing if one != "n"]
        if len(missing) == 1 and not wanted:
            raise OptionError("privacy", None, "a price, or a target such as width={...}: two of the three are needed")
        if n is not None:
            n = self.rows(n)
        targets = self._targets(given, n or self._start, privacy or self.asked.known)
        if n is None:
            n = self._solved_rows(privacy, targets)
        elif privacy is None:
            privacy = self._solved_price(n, targets)
        return Plan.of(
            self.outlook, targets, n, privacy,
            solved=missing[0] if missing else None, text=self.text, about=self.about, neighbors=self.asked.neighbors,
        )  # fmt: skip

    def rows(self, n: Any) -> int:
        """Read a number of rows, or take the public or released one."""
        if n is None:
            n = self._nobs if self._nobs is not None else self._told
            if n is None:
                raise OptionError("n", None, "a number of rows, a price or a target: only one of the three is solved")
            n = max(round(n), 1)
        if not (is_whole(n) and self.outlook.least <= n <= self.outlook.most):
            raise OptionError("n", n, f"a whole number from {self.outlook.least} to {self.outlook.most:,}")
        return int(n)

    @property
    def _start(self) -> int:
        return int(min(max(self._told or START, self.outlook.least), self.outlook.most))

    def _targets(self, given: dict[str, Any], n: int, price: Privacy) -> Targets:
        if isinstance(self.outlook, Tested):
            for name in TARGETS:
                if name != "power" and given[name] is not None:
                    raise OptionError(name, type_of(given[name]), "None: a test has power alone")
        known = all(value is None for value in given.values())
        names = () if known else self._looked(n, price).names
        found = read_targets(names, given, alpha=self.asked.alpha, assurance=self._assurance)
        self._check_relative(found, n)
        return found

    def _check_relative(self, targets: Targets, n: int) -> None:
        """Refuse widths relative to none: those of what has no sampling error."""
        if not targets.relative:
            return
        alone, priced = self.outlook.alone(n), self._looked(n, self.asked.known)
        widths = zip(alone.names, alone.width() > NOTHING * priced.width(), strict=True)
        without = [name for name, sampled in widths if name in targets.relative and not sampled]
        if without:
            right = "terms with a sampling error: of the others ask for a width"
            raise OptionError("relative", names_of(without), right)

    def _looked(self, n: int, price: Privacy) -> Forecast:
        return self.outlook.at(n, price)

    def _alone(self, n: int, targets: Targets) -> Forecast | None:
        """Look at sampling alone where a target is relative to it."""
        return self.outlook.alone(n) if targets.relative else None

    def _solved_rows(self, price: Privacy, targets: Targets) -> int:
        if isinstance(self.outlook, Tested):
            rows: float | None = self.outlook.rows(price, next(iter(targets.power.values()))[1])
        else:
            within = float(self.outlook.least), float(self.outlook.most)

            def shortfall(n: float, depth: Depth) -> float:
                found = self.outlook.at(int(n), price, depth=depth)
                return targets.shortfall(found, self._alone(int(n), targets))

            rows = self._crossing(shortfall, float(self._start), within, whole=True)
        if rows is None:
            most = self.outlook.most
            failing = next(name for name in TARGETS if getattr(targets, name))
            raise OptionError(
                failing,
                _listed(getattr(targets, failing)),
                f"a target that {most:,} rows reach at {price}: pay more, or ask for less",
            )
        return int(rows)

    def _solved_price(self, n: int, targets: Targets) -> Privacy:
        alone = None
        with suppress(DPInferError):
            alone = self.outlook.alone(n)
        if alone is not None and not targets.relative and targets.shortfall(alone, None) > 0:
            raise self._no_price(n, targets, alone)
        kind = self.asked.known
        if isinstance(self.outlook, Tested):
            price = self.outlook.price(n, kind, next(iter(targets.power.values()))[1])
        else:
            start = amount_of(kind)
            bounds = price_bounds(self._measurable(n), kind, [start])

            def shortfall(amount: float, depth: Depth) -> float:
                return targets.shortfall(self.outlook.at(n, amounted(kind, amount), depth=depth), alone)

            found = self._crossing(shortfall, start, bounds, whole=False)
            price = None if found is None else amounted(kind, three_digits_up(found))
        if price is None:
            failing = next(name for name in TARGETS if getattr(targets, name))
            right = f"a target that some price in {unit_of(kind)} reaches at n = {n:,}: take more rows, or ask for less"
            raise OptionError(failing, _listed(getattr(targets, failing)), right)
        return price

    def _crossing(
        self, shortfall: Callable[[float, Depth], float], start: float, within: tuple[float, float], *, whole: bool
    ) -> float | None:
        """Find where a target is met: roughly at first, and near it with more releases where these cost little."""
        found = crossing(lambda x: shortfall(x, "width"), start, within, whole=whole, met=_ROUGHLY)
        if found is None or self.outlook.slow:
            return found
        return crossing(lambda x: shortfall(x, "share"), found, within, whole=whole, stride=_NEAR)

    def _measurable(self, n: int) -> Any:
        def measurable(price: Privacy) -> bool:
            with suppress(DPInferError):
                self.asked.measured(n, price)
                return True
            return False

        return measurable

    def _no_price(self, n: int, targets: Targets, alone: Forecast) -> OptionError:
        """Say what sampling alone gives, and about how many rows would do."""
        name, term = targets.failing(alone, None)
        place = alone.names.index(term)
        most = {term: getattr(targets, name)[term]}
        if name == "power":
            value = alone.power(targets.effects(alone))[place]
        else:
            value = (alone.width(targets.assurance) if name == "width" else alone.rmse)[place]
        least = self._rows_alone(n, targets)
        told = "no number of rows that can be planned" if least is None else f"at least {least:,} rows"
        return OptionError(
            name,
            _listed(most),
            f"a target that sampling allows: no price helps, because n = {n:,} is too small. Without any noise "
            f"{name} is {float(value):.4g}; {told} would do",
        )

    def _rows_alone(self, n: int, targets: Targets) -> int | None:
        """Rows that a target needs without noise, rounded up to three digits."""

        def shortfall(rows: float) -> float:
            return targets.shortfall(self.outlook.alone(int(rows)), None)

        found = crossing(shortfall, float(n), (float(n), float(self.outlook.most)), whole=True)
        return None if found is None else int(np.ceil(three_digits_up(found)))

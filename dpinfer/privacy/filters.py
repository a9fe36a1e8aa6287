"""Privacy filters: what a ledger adds up, and when one more charge fits.

Every filter adds exact fractions and stays valid when charges are chosen adaptively, each after seeing what
earlier ones released. A charge enters as an `Entry` of two numbers that add: an amount and a reserve.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from dpinfer.errors import LedgerError, NotProvedError, OptionError
from dpinfer.privacy.accounting import RESERVED, gaussian_amount, tau_allowance
from dpinfer.privacy.exact import float_above, float_below, sqrt_above, sqrt_below
from dpinfer.privacy.units import GDP, OUTWARD, ZCDP, ApproxDP, Privacy, PureDP, gaussian_epsilon

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dpinfer.privacy.accounting import Cost

__all__ = ["Entry", "Filter", "filter_for"]


_ROUNDING = Fraction(1, 10**9)
"""More than the relative rounding of `tau_allowance`."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What one charge, or all charges together, use up.

    The amount is in the currency of the ledger: epsilon, rho or mu squared. The reserve is in the second currency,
    where there is one: total variation, or delta.
    """

    amount: Fraction = Fraction(0)
    reserve: Fraction = Fraction(0)

    def __add__(self, other: Entry) -> Entry:
        return Entry(self.amount + other.amount, self.reserve + other.reserve)


class Filter(ABC):
    """The rule by which a ledger of one unit and currency accepts charges.

    Amounts may sum to the ``limit``, reserves to the ``reserve_limit``; where that is None they are only recorded.
    """

    currency: ClassVar[str]
    takes: ClassVar[str]

    def __init__(self, budget: Privacy, limit: Fraction, reserve_limit: Fraction | None) -> None:
        self.budget, self.limit, self.reserve_limit = budget, limit, reserve_limit

    @abstractmethod
    def _entry(self, cost: Cost) -> Entry | None:
        """Return what a cost uses up, or None if nothing is proved for it in this currency."""

    @abstractmethod
    def spent(self, total: Entry) -> Privacy:
        """Return the sum of all charges in the unit of the budget, rounded up."""

    @abstractmethod
    def remaining(self, total: Entry) -> Privacy:
        """Return what can still be asked for in the unit of the budget, rounded down."""

    def entry(self, cost: Cost) -> Entry:
        """Return what a cost uses up; `NotProvedError` if it has no guarantee in this currency."""
        entry = self._entry(cost)
        if entry is None:
            raise NotProvedError(
                f"a ledger with the budget {self.budget}, in the currency {self.currency!r}, takes "
                f"{self.takes}; "
                f"asked {cost.price}, for which is proved: {cost.describe()}"
            )
        return entry

    def total(self, charges: Iterable[tuple[Cost, Entry]]) -> Entry:
        """Add up what was stored, each charge compared with its cost.

        `LedgerError` if an amount or a reserve is not that of its cost, or all together exceed the budget.
        """
        total = Entry()
        for number, (cost, stored) in enumerate(charges, 1):
            right = self._entry(cost)
            if right is None or stored.amount != right.amount:
                raise LedgerError(f"the ledger is damaged: charge {number} has an amount that is not that of its cost")
            # A reserve in total variation rests on an exponential, whose last digits differ between machines.
            if abs(stored.reserve - right.reserve) > _ROUNDING * right.reserve:
                raise LedgerError(f"the ledger is damaged: charge {number} has a reserve that is not that of its cost")
            total = total + stored
        if total.amount > self.limit * (1 + _ROUNDING):
            raise LedgerError("the ledger is damaged: the amounts of its charges are more than its budget")
        return Entry(min(total.amount, self.limit), total.reserve)

    def excess(self, total: Entry, entry: Entry) -> str | None:
        """Say why a charge does not fit beside the sum of all so far, or return None if it does."""
        after = total + entry
        if after.amount > self.limit:
            left = float(self.limit - total.amount)
            return f"currency {self.currency!r}: asks {float(entry.amount):.9g}, left {left:.9g}"
        if self.reserve_limit is not None and after.reserve > self.reserve_limit:
            left = float(self.reserve_limit - total.reserve)
            return (
                f"currency {self.currency!r}, reserve: asks {float(entry.reserve):.3g}, left {left:.3g}; {self._advice}"
            )
        return None

    _advice: ClassVar[str] = "a finer grid needs less, and so does a bootstrap that is priced in the unit of the budget"


class _Pure(Filter):
    """Sum of epsilon (Rogers, Roth, Ullman & Vadhan 2016, basic composition filter)."""

    currency = "epsilon"
    takes = "mechanisms that are pure DP (Laplace noise, selection)"

    def __init__(self, budget: PureDP) -> None:
        super().__init__(budget, budget.composable[0], None)

    def _entry(self, cost: Cost) -> Entry | None:
        return None if cost.pure_epsilon is None else Entry(cost.pure_epsilon)

    def spent(self, total: Entry) -> PureDP:
        return PureDP(float_above(total.amount))

    def remaining(self, total: Entry) -> PureDP:
        return PureDP(float_below(self.limit - total.amount))


class _ZCDP(Filter):
    """Sum of rho (Feldman & Zrnic 2021; Whitehouse, Ramdas, Rogers & Wu 2023)."""

    currency = "rho"
    takes = "mechanisms that are zCDP (Gaussian and Laplace noise, selection; bootstraps with weights in pairs)"

    def __init__(self, budget: ZCDP) -> None:
        super().__init__(budget, budget.composable[0], None)

    def _entry(self, cost: Cost) -> Entry | None:
        return None if cost.rho is None else Entry(cost.rho)

    def spent(self, total: Entry) -> ZCDP:
        return ZCDP(float_above(total.amount))

    def remaining(self, total: Entry) -> ZCDP:
        return ZCDP(float_below(self.limit - total.amount))


class _GDP(Filter):
    """Sum of mu squared (Smith & Thakurta 2022); total variation is summed and shown, not limited."""

    currency = "mu_squared"
    takes = "mechanisms that are GDP (Gaussian noise on a fine grid, Laplace noise)"

    def __init__(self, budget: GDP) -> None:
        super().__init__(budget, budget.composable[0], None)

    def _entry(self, cost: Cost) -> Entry | None:
        return None if cost.mu_squared is None else Entry(cost.mu_squared, cost.tau + cost.delta0)

    def spent(self, total: Entry) -> GDP:
        return GDP(sqrt_above(total.amount))

    def remaining(self, total: Entry) -> GDP:
        return GDP(sqrt_below(self.limit - total.amount))


class _ApproxGDP(Filter):
    """Sum of mu squared; total variation, and probabilities of failure, within the reserved share of delta.

    The reserve is counted as total variation tau, of which delta pays (1 + e^epsilon) tau; a failure probability delta0
    is paid once, and so counts as delta0 / (1 + e^epsilon).
    """

    currency = "gdp"
    takes = "mechanisms that are GDP (Gaussian noise on a fine grid, Laplace noise)"

    def __init__(self, budget: ApproxDP) -> None:
        super().__init__(budget, gaussian_amount(budget).composable[0], tau_allowance(budget))
        self._delta = budget.delta
        self._epsilon = budget.epsilon
        self._paid_once = tau_allowance(budget) / (RESERVED * budget.composable[1]) * (1 + _ROUNDING)

    def _entry(self, cost: Cost) -> Entry | None:
        if cost.mu_squared is None:
            return None
        return Entry(cost.mu_squared, cost.tau + cost.delta0 * self._paid_once)

    def spent(self, total: Entry) -> ApproxDP:
        if total.amount == self.limit:
            return ApproxDP(self._epsilon, self._delta)
        epsilon = gaussian_epsilon(sqrt_above(total.amount), self._delta * float(1 - RESERVED))
        return ApproxDP(min(epsilon, self._epsilon), self._delta)

    def remaining(self, total: Entry) -> ApproxDP:
        left = self.limit - total.amount
        epsilon = self._epsilon
        if total.amount > 0:
            epsilon = min(epsilon, gaussian_epsilon(sqrt_below(left), self._delta * float(1 - RESERVED)))
        step = OUTWARD
        while gaussian_amount(ApproxDP(epsilon, self._delta)).composable[0] > left:
            epsilon = max(0.0, epsilon * (1 - step))
            step = min(2 * step, 1.0)
        return ApproxDP(epsilon, self._delta)


class _Basic(Filter):
    """Sums of epsilon and of delta (Rogers, Roth, Ullman & Vadhan 2016)."""

    currency = "basic"
    takes = "mechanisms priced in PureDP or, if Gaussian on a fine grid, in ApproxDP"
    _advice = "that is the delta of the budget"

    def __init__(self, budget: ApproxDP) -> None:
        super().__init__(budget, *budget.composable)

    def _entry(self, cost: Cost) -> Entry | None:
        if cost.pure_epsilon is not None:
            return Entry(cost.pure_epsilon)
        return None if cost.approx is None else Entry(*cost.approx.composable)

    def spent(self, total: Entry) -> ApproxDP | PureDP:
        epsilon = float_above(total.amount)
        return ApproxDP(epsilon, float_above(total.reserve)) if total.reserve > 0 else PureDP(epsilon)

    def remaining(self, total: Entry) -> ApproxDP | PureDP:
        epsilon = float_below(self.limit - total.amount)
        delta = float_below(self.budget.composable[1] - total.reserve)
        return ApproxDP(epsilon, delta) if delta > 0 else PureDP(epsilon)


def filter_for(budget: Privacy, currency: str | None = None) -> Filter:
    """Return the filter of a budget.

    `ApproxDP` has the currencies "gdp" (default), which adds mu squared and suits Gaussian noise, and "basic", which
    adds epsilon and delta and suits mostly pure mechanisms; the other units have one each. `OptionError` for any other.
    """
    makers: dict[type[Privacy], dict[str, Callable[[Any], Filter]]] = {
        PureDP: {"epsilon": _Pure},
        ZCDP: {"rho": _ZCDP},
        GDP: {"mu_squared": _GDP},
        ApproxDP: {"gdp": _ApproxGDP, "basic": _Basic},
    }
    if type(budget) not in makers:
        raise OptionError("budget", budget, "PureDP, ZCDP, GDP or ApproxDP")
    named = makers[type(budget)]
    chosen = next(iter(named)) if currency is None else currency
    if chosen not in named:
        raise OptionError("currency", currency, named)
    return named[chosen](budget)

"""Privacy filters: what a ledger adds up, and when one more charge fits.

Every filter adds exact fractions and stays valid when charges are chosen adaptively, each after seeing what
earlier ones released. A charge enters as an `Entry` of two numbers that add: an amount and a reserve.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from dpinfer.errors import LedgerError, NotProvedError, OptionError
from dpinfer.privacy.accounting import RESERVED, Cost, gaussian_amount, tau_allowance
from dpinfer.privacy.exact import float_above, float_below, sqrt_above, sqrt_below
from dpinfer.privacy.units import GDP, OUTWARD, ZCDP, ApproxDP, Privacy, PureDP, gaussian_epsilon

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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


class Filter:
    """The rule by which a ledger of one unit and currency accepts charges.

    Amounts may sum to the ``limit``, reserves to the ``reserve_limit``; where that is None they are only recorded.
    A budget of `PureDP` sums epsilon (Rogers, Roth, Ullman & Vadhan 2016, basic composition filter), one of `ZCDP` rho
    (Feldman & Zrnic 2021; Whitehouse, Ramdas, Rogers & Wu 2023), and one of `GDP` mu squared (Smith & Thakurta 2022);
    its total variation is summed and shown, not limited.
    """

    reserve_limit: Fraction | None = None
    _advice: ClassVar[str] = "a finer grid needs less, and so does a bootstrap that is priced in the unit of the budget"

    def __init__(self, budget: Privacy, currency: str) -> None:
        self.budget, self.currency, self.limit = budget, currency, budget.composable[0]

    def _entry(self, cost: Cost) -> Entry | None:
        """Return what a cost uses up, or None if nothing is proved for it in this currency."""
        amount = cost.pure_epsilon if self.currency == "epsilon" else getattr(cost, self.currency)
        if amount is None:
            return None
        return Entry(amount, cost.tau + cost.delta0 if self.currency == "mu_squared" else Fraction(0))

    def spent(self, total: Entry) -> Privacy:
        """Return the sum of all charges in the unit of the budget, rounded up."""
        return self.budget.rounded((total.amount,), up=True)

    def remaining(self, total: Entry) -> Privacy:
        """Return what can still be asked for in the unit of the budget, rounded down."""
        return self.budget.rounded((self.limit - total.amount,), up=False)

    def entry(self, cost: Cost) -> Entry:
        """Return what a cost uses up; `NotProvedError` if it has no guarantee in this currency."""
        entry = self._entry(cost)
        if entry is None:
            raise NotProvedError(
                f"a ledger with the budget {self.budget}, in the currency {self.currency!r}, takes "
                f"{_TAKES[self.currency]}; "
                f"asked {cost.price}, for which is proved: {cost.describe()}"
            )
        return entry

    def total(self, charges: Iterable[tuple[Sequence[int], Cost, Entry]]) -> Entry:
        """Add up what was stored: for charges that are alike their numbers, the cost, and what was stored for each.

        `LedgerError` if an amount or a reserve is not that of its cost, or all together exceed the budget.
        """
        amount, reserve = Fraction(0), Fraction(0)
        for numbers, cost, stored in charges:
            right = self._entry(cost)
            if right is None or stored.amount != right.amount:
                raise LedgerError(
                    f"the ledger is damaged: charge {numbers[0]} has an amount that is not that of its cost"
                )
            # A reserve in total variation rests on an exponential, whose last digits differ between machines.
            if abs(stored.reserve - right.reserve) > _ROUNDING * right.reserve:
                raise LedgerError(
                    f"the ledger is damaged: charge {numbers[0]} has a reserve that is not that of its cost"
                )
            amount += len(numbers) * stored.amount
            reserve += len(numbers) * stored.reserve
        if amount > self.limit * (1 + _ROUNDING):
            raise LedgerError("the ledger is damaged: the amounts of its charges are more than its budget")
        return Entry(min(amount, self.limit), reserve)

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


class _ApproxGDP(Filter):
    """Sum of mu squared; total variation, and probabilities of failure, within the reserved share of delta.

    The reserve is counted as total variation tau, of which delta pays (1 + e^epsilon) tau; a failure probability delta0
    is paid once, and so counts as delta0 / (1 + e^epsilon).
    """

    def __init__(self, budget: ApproxDP, currency: str) -> None:
        super().__init__(budget, currency)
        self.limit, self.reserve_limit = gaussian_amount(budget).composable[0], tau_allowance(budget)
        self._epsilon, self._delta = budget.epsilon, budget.delta
        self._paid_once = self.reserve_limit / (RESERVED * budget.composable[1]) * (1 + _ROUNDING)

    def _entry(self, cost: Cost) -> Entry | None:
        if cost.mu_squared is None:
            return None
        return Entry(cost.mu_squared, cost.tau + cost.delta0 * self._paid_once)

    def spent(self, total: Entry) -> ApproxDP:
        if total.amount == self.limit:
            return ApproxDP(self._epsilon, self._delta)
        return ApproxDP(min(self._implied(sqrt_above(total.amount)), self._epsilon), self._delta)

    def remaining(self, total: Entry) -> ApproxDP:
        left = self.limit - total.amount
        epsilon = self._epsilon
        if total.amount > 0:
            epsilon = min(epsilon, self._implied(sqrt_below(left)))
        step = OUTWARD
        while gaussian_amount(ApproxDP(epsilon, self._delta)).composable[0] > left:
            epsilon = max(0.0, epsilon * (1 - step))
            step = min(2 * step, 1.0)
        return ApproxDP(epsilon, self._delta)

    def _implied(self, mu: float) -> float:
        return gaussian_epsilon(mu, self._delta * float(1 - RESERVED))


class _Basic(Filter):
    """Sums of epsilon and of delta (Rogers, Roth, Ullman & Vadhan 2016)."""

    _advice = "that is the delta of the budget"

    def __init__(self, budget: ApproxDP, currency: str) -> None:
        super().__init__(budget, currency)
        self.reserve_limit = budget.composable[1]

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


_GAUSSIAN = "mechanisms that are GDP (Gaussian noise on a fine grid, Laplace noise)"
_TAKES = {
    "epsilon": "mechanisms that are pure DP (Laplace noise, selection)",
    "rho": "mechanisms that are zCDP (Gaussian and Laplace noise, selection; bootstraps with weights in pairs)",
    "mu_squared": _GAUSSIAN,
    "gdp": _GAUSSIAN,
    "basic": "mechanisms priced in PureDP or, if Gaussian on a fine grid, in ApproxDP",
}
_CURRENCIES = {PureDP: ("epsilon",), ZCDP: ("rho",), GDP: ("mu_squared",), ApproxDP: ("gdp", "basic")}


def filter_for(budget: Privacy, currency: str | None = None) -> Filter:
    """Return the filter of a budget.

    `ApproxDP` has the currencies "gdp" (default), which adds mu squared and suits Gaussian noise, and "basic", which
    adds epsilon and delta and suits mostly pure mechanisms; the other units have one each. `OptionError` for any other.
    """
    if type(budget) not in _CURRENCIES:
        raise OptionError("budget", budget, "PureDP, ZCDP, GDP or ApproxDP")
    named = _CURRENCIES[type(budget)]
    chosen = named[0] if currency is None else currency
    if chosen not in named:
        raise OptionError("currency", currency, named)
    if isinstance(budget, ApproxDP):
        return (_ApproxGDP if chosen == "gdp" else _Basic)(budget, chosen)
    return Filter(budget, chosen)

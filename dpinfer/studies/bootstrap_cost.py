"""What a bootstrap costs: claimed, in the limit, and exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dpinfer.display.report import Report, Reported, Table
from dpinfer.errors import OptionError
from dpinfer.privacy.resampling import (
    ASYMPTOTIC,
    DOUBLE_OR_NOTHING,
    LARGEST_MU,
    POISSON,
    composed_epsilon,
    dominating_mu,
)
from dpinfer.privacy.units import OUTWARD, gaussian_epsilon
from dpinfer.results.style import given_or_new, legend, restrain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PrivacyCost", "privacy_cost"]

_LAWS = {"double_or_nothing": DOUBLE_OR_NOTHING, "poisson": POISSON}
_PAIRS = ("public", "paired")
_MOST = 10_000


@dataclass(frozen=True, eq=False, repr=False)
class PrivacyCost(Reported):
    """Costs of bootstraps that carry the noise of one release, B times.

    Attributes
    ----------
    frame : DataFrame
        A row for each mu and number of replicates; see `privacy_cost`.
    weights : str
    delta : float
    """

    frame: pd.DataFrame
    weights: str
    delta: float

    def summary_frame(self) -> pd.DataFrame:
        """Return the table, a copy."""
        return self.frame.copy()

    def _report(self) -> Report:
        title = f"Cost of a bootstrap with weights {self.weights!r}, epsilon at delta = {self.delta:g}"
        return Report(title, (), (Table.of(self.frame, index=False),))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot epsilon against the number of replicates: exact, claimed, and in the limit.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        matplotlib.axes.Axes
        """
        ax = given_or_new(ax, 6, 4)
        for place, (mu, part) in enumerate(self.frame.groupby("mu")):
            color = f"C{place}"
            ax.plot(part["replicates"], part["exact epsilon"], "o-", ms=4, color=color, label=f"mu = {mu:g}, exact")
            ax.plot(part["replicates"], part["claimed epsilon"], ":", color=color, label="claimed")
            ax.plot(part["replicates"], part["asymptotic epsilon"], "--", lw=0.9, color=color, label="asymptotic")
        ax.set(xscale="log", yscale="log", xlabel="replicates", ylabel=f"epsilon at delta = {self.delta:g}")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("{x:g}" if axis is ax.yaxis else "")
        restrain(ax)
        legend(ax)
        return ax


def privacy_cost(
    replicates: int | Sequence[int] = (10, 50, 200, 1000),
    mu: float | Sequence[float] = 1.0,
    *,
    weights: str = "double_or_nothing",
    delta: float = 1e-6,
) -> PrivacyCost:
    """Compute what the release of B bootstrap replicates costs in privacy: more than is often claimed.

    Parameters
    ----------
    replicates : int or sequence of int
        Numbers B of sums.
    mu : float or sequence of float
        Sensitivity over noise scale of the one release: it is mu-GDP, and (mu^2/2)-zCDP. Each of the B sums has noise
        of root-B times its scale.
    weights : {"double_or_nothing", "poisson", "public", "paired"}
    delta : float
        At which epsilon is given.

    Returns
    -------
    PrivacyCost
        With columns "mu", "replicates", "claimed epsilon" (that of one release: Brawner & Honaker 2018),
        "asymptotic epsilon" (mu times the root of 2 - 2/e: Wang, Cheng & Awan 2022), "exact epsilon", and "ledger mu":
        the GDP amount at which the bootstrap enters a ledger.

    Raises
    ------
    OptionError
        If an argument has no such value.

    Examples
    --------
    >>> cost = privacy_cost(50, 0.5).summary_frame()
    >>> bool(cost["exact epsilon"].iloc[0] > cost["claimed epsilon"].iloc[0])
    True
    """
    sizes = [replicates] if isinstance(replicates, int) else replicates
    amounts = [mu] if isinstance(mu, int | float) else mu
    if (
        not isinstance(sizes, Sequence)
        or not sizes
        or not all(type(size) is int and 2 <= size <= _MOST for size in sizes)
    ):
        raise OptionError("replicates", replicates, f"whole numbers from 2 to {_MOST:,}")
    if not (isinstance(amounts, Sequence) and amounts) or not all(
        type(one) in (int, float) and 0 < one <= LARGEST_MU for one in amounts
    ):
        raise OptionError("mu", mu, f"numbers above 0 and up to {LARGEST_MU:g}")
    if weights not in (*_LAWS, *_PAIRS):
        raise OptionError("weights", weights, (*_LAWS, *_PAIRS))
    if not (isinstance(delta, float) and 1e-12 <= delta < 1):
        raise OptionError("delta", delta, "a probability from 1e-12 to below 1")
    rows = [_row(float(one), size, weights, delta) for one in amounts for size in sizes]
    return PrivacyCost(pd.DataFrame(rows), weights, delta)


def _row(mu: float, replicates: int, weights: str, delta: float) -> dict[str, float]:
    if weights in _PAIRS:
        ledger = mu * float(np.sqrt(2)) * (1 + OUTWARD)
        exact = gaussian_epsilon(ledger, delta)
    else:
        exact = composed_epsilon(_LAWS[weights], mu, replicates, delta)
        ledger = dominating_mu(_LAWS[weights], mu, replicates)
    return {
        "mu": mu,
        "replicates": replicates,
        "claimed epsilon": gaussian_epsilon(mu, delta),
        "asymptotic epsilon": gaussian_epsilon(ASYMPTOTIC * mu, delta),
        "exact epsilon": exact,
        "ledger mu": ledger,
    }

"""The cost of privacy, from public numbers alone: rows kept per person, and bootstraps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dpinfer.checks import is_finite, is_whole
from dpinfer.display.report import Report, Reported, Table
from dpinfer.errors import OptionError, type_of
from dpinfer.privacy.resampling import (
    ASYMPTOTIC,
    DOUBLE_OR_NOTHING,
    LARGEST_MU,
    POISSON,
    composed_epsilon,
    dominating_mu,
)
from dpinfer.privacy.units import OUTWARD, gaussian_epsilon
from dpinfer.results.drawing import given_or_new, legend, restrain
from dpinfer.schema.schema import MOST_ROWS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PrivacyCost", "Truncation", "privacy_cost", "truncation"]

_LAWS = {"double_or_nothing": DOUBLE_OR_NOTHING, "poisson": POISSON}
_WEIGHTS = (*_LAWS, "public", "paired")
_MOST_REPLICATES = 10_000


# How many rows of a person to keep


@dataclass(frozen=True, eq=False, repr=False)
class Truncation(Reported):
    """Rows kept and noise added for each value of `max_rows`.

    Attributes
    ----------
    frame : DataFrame
        A row for each ``max_rows``; see `truncation`.
    """

    frame: pd.DataFrame

    def summary_frame(self) -> pd.DataFrame:
        """Return a copy of the table."""
        return self.frame.copy()

    def _report(self) -> Report:
        return Report("Rows kept, and noise, by the limit on rows per person", (), (Table.of(self.frame),))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the share of rows lost, and of people who lose rows, against the noise.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        matplotlib.axes.Axes
        """
        ax = given_or_new(ax, 6, 4)
        noise = self.frame["relative noise"].to_numpy()
        ax.plot(noise, 1 - self.frame["rows kept"].to_numpy(), "o-", ms=4, label="share of rows lost")
        ax.plot(noise, self.frame["people cut"].to_numpy(), "s--", ms=4, label="share of people with rows lost")
        ax.set(xlabel="max_rows, and noise relative to max_rows = 1", ylabel="share", ylim=(-0.02, 1.0))
        restrain(ax)
        legend(ax)
        return ax


def truncation(
    rows_per_person: Mapping[int, float] | Sequence[int], max_rows: int | Sequence[int] | None = None
) -> Truncation:
    """Compare limits on the rows per person: rows lost, and noise added.

    Parameters
    ----------
    rows_per_person : mapping of int to float, or sequence of int
        A **public** distribution of the number of rows per person: a mapping from number of rows to share (or number)
        of people, or the number of rows of each person in a sample. Take it from a codebook, an earlier release or a
        guess; counting it in the confidential rows would break the guarantee.
    max_rows : int or sequence of int, optional
        Values to compare, from 1 to 4,096; by default 1, 2, 3, 5, 10, 20, ... up to the largest number of rows that a
        person has, or 4,096 if that is less.

    Returns
    -------
    Truncation
        Its ``frame`` is indexed by "max_rows", with columns "rows kept" and "people cut" (shares), "relative noise"
        (the noise of sums relative to ``max_rows=1``) and "noise per row kept" (that over the share of rows kept,
        relative to ``max_rows=1``: the noise of a mean).

    Raises
    ------
    OptionError
        If an argument is invalid.

    Notes
    -----
    The noise of every sum is proportional to ``max_rows``. Rows that are not kept are excluded from the estimand, so
    people with many rows get less weight.

    Examples
    --------
    >>> found = truncation({1: 0.5, 2: 0.3, 10: 0.2}, [1, 2, 10])
    >>> found.frame["rows kept"].round(3).tolist()
    [0.323, 0.484, 1.0]
    >>> found.frame["people cut"].round(3).tolist()
    [0.5, 0.2, 0.0]
    """
    right = "a mapping from numbers of rows, 1 or more, to shares of people, or a list of numbers of rows"
    given = rows_per_person.to_dict() if isinstance(rows_per_person, pd.Series) else rows_per_person
    if isinstance(given, str) or not isinstance(given, Mapping | Sequence | np.ndarray):
        raise OptionError("rows_per_person", type_of(given), right)
    shares = list(given.values()) if isinstance(given, Mapping) else [1.0] * len(given)
    whole = all(is_whole(one) and one >= 1 for one in given)
    known = all(is_finite(one) and one >= 0 for one in shares)
    if not (shares and whole and known and sum(shares) > 0):
        raise OptionError("rows_per_person", given, right)
    numbers, people = (np.array([float(one) for one in values]) for values in (given, shares))
    people = people / people.sum()
    if max_rows is None:
        steps = [step * 10**power for power in range(4) for step in (1, 2, 3, 5)]
        largest = min(int(numbers.max()), MOST_ROWS)
        chosen = [*(step for step in steps if step < largest), largest]
    else:
        chosen = [max_rows] if isinstance(max_rows, int) else list(max_rows) if isinstance(max_rows, Sequence) else []
        if not chosen or not all(type(one) is int and 1 <= one <= MOST_ROWS for one in chosen):
            raise OptionError("max_rows", max_rows, f"whole numbers from 1 to {MOST_ROWS:,}")
    total = float(numbers @ people)
    remaining = np.array([float(np.minimum(numbers, most) @ people) / total for most in chosen])
    noise = np.array(chosen, dtype=np.float64)
    first = float(np.minimum(numbers, 1) @ people) / total
    columns = {
        "rows kept": remaining,
        "people cut": [float(people[numbers > most].sum()) for most in chosen],
        "relative noise": noise,
        "noise per row kept": noise * first / remaining,
    }
    return Truncation(pd.DataFrame(columns, index=pd.Index(chosen, name="max_rows")))


# Bootstraps


@dataclass(frozen=True, eq=False, repr=False)
class PrivacyCost(Reported):
    """Privacy loss of bootstraps with B replicates that share the noise of one release.

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
        """Return a copy of the table."""
        return self.frame.copy()

    def _report(self) -> Report:
        title = f"Cost of a bootstrap with weights {self.weights!r}, epsilon at delta = {self.delta:g}"
        return Report(title, (), (Table.of(self.frame, index=False),))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot exact, claimed and asymptotic epsilon against the number of replicates.

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
    """Compute the privacy loss of releasing B bootstrap replicates, which is often understated.

    Parameters
    ----------
    replicates : int or sequence of int
        Numbers B of bootstrap replicates.
    mu : float or sequence of float
        Sensitivity over noise scale of the single release, which is mu-GDP and (mu^2/2)-zCDP. Each of the B sums has
        sqrt(B) times its noise scale.
    weights : {"double_or_nothing", "poisson", "public", "paired"}
    delta : float
        The delta at which epsilon is reported.

    Returns
    -------
    PrivacyCost
        With columns "mu", "replicates", "claimed epsilon" (that of one release: Brawner & Honaker 2018), "asymptotic
        epsilon" (for mu times sqrt(2 - 2/e): Wang, Cheng & Awan 2022), "exact epsilon", and "ledger mu", the GDP amount
        that a ledger charges for the bootstrap.

    Raises
    ------
    OptionError
        If an argument is invalid.

    Examples
    --------
    >>> cost = privacy_cost(50, 0.5).summary_frame()
    >>> bool(cost["exact epsilon"].iloc[0] > cost["claimed epsilon"].iloc[0])
    True
    """
    sizes = [replicates] if isinstance(replicates, int) else replicates
    amounts = [mu] if isinstance(mu, int | float) else mu
    whole = isinstance(sizes, Sequence) and all(type(size) is int and 2 <= size <= _MOST_REPLICATES for size in sizes)
    if not (whole and sizes):
        raise OptionError("replicates", replicates, f"whole numbers from 2 to {_MOST_REPLICATES:,}")
    inside = isinstance(amounts, Sequence) and all(type(x) in (int, float) and 0 < x <= LARGEST_MU for x in amounts)
    if not (inside and amounts):
        raise OptionError("mu", mu, f"numbers above 0 and up to {LARGEST_MU:g}")
    if weights not in _WEIGHTS:
        raise OptionError("weights", weights, _WEIGHTS)
    if not (isinstance(delta, float) and 1e-12 <= delta < 1):
        raise OptionError("delta", delta, "a probability from 1e-12 to below 1")
    rows = []
    for one in map(float, amounts):
        for size in sizes:
            if weights in _LAWS:
                exact = composed_epsilon(_LAWS[weights], one, size, delta)
                ledger = dominating_mu(_LAWS[weights], one, size)
            else:
                ledger = one * float(np.sqrt(2)) * (1 + OUTWARD)
                exact = gaussian_epsilon(ledger, delta)
            claimed, asymptotic = gaussian_epsilon(one, delta), gaussian_epsilon(ASYMPTOTIC * one, delta)
            rows.append((one, size, claimed, asymptotic, exact, ledger))
    names = ["mu", "replicates", "claimed epsilon", "asymptotic epsilon", "exact epsilon", "ledger mu"]
    return PrivacyCost(pd.DataFrame(rows, columns=names), weights, delta)

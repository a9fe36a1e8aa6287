"""How many rows of a person to keep: what is lost, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.display.report import Report, Reported, Table
from dpinfer.errors import OptionError, type_of
from dpinfer.results.style import given_or_new, legend, restrain
from dpinfer.schema.schema import MOST_ROWS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpinfer.numerics.arrays import Array

__all__ = ["Truncation", "truncation"]


@dataclass(frozen=True, eq=False, repr=False)
class Truncation(Reported):
    """What each `max_rows` keeps, and how much noise it brings.

    Attributes
    ----------
    frame : DataFrame
        A row for each ``max_rows``; see `truncation`.
    """

    frame: pd.DataFrame

    def summary_frame(self) -> pd.DataFrame:
        """Return the table, a copy."""
        return self.frame.copy()

    def _report(self) -> Report:
        return Report("What each number of rows of a person keeps, and its noise", (), (Table.of(self.frame),))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the share of rows that is lost, and of people that is cut, against the noise.

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
    """Say what keeping at most so many rows of each person loses, and what it costs.

    Parameters
    ----------
    rows_per_person : mapping of int to float, or sequence of int
        A **public** distribution of the number of rows per person: from number of rows to share of people (or number of
        people), or a number of rows for each of a sample of people. From a codebook, an earlier release or a guess;
        counted in the confidential rows it would break the guarantee.
    max_rows : int or sequence of int, optional
        Values to compare, from 1 to 4,096; by default 1, 2, 3, 5, 10, 20, ... as far as anybody has rows.

    Returns
    -------
    Truncation
        Its ``frame`` is indexed by "max_rows", with columns "rows kept" and "people cut" (shares), "relative noise"
        (the noise of sums over that at ``max_rows=1``) and "noise per row kept" (the same over the share of rows kept,
        which is the noise of a mean).

    Raises
    ------
    OptionError
        If an argument has no such value.

    Notes
    -----
    The noise of every sum is in proportion to ``max_rows``. Rows that are not kept are missing from what is estimated:
    people with many rows then count less.

    Examples
    --------
    >>> found = truncation({1: 0.5, 2: 0.3, 10: 0.2}, [1, 2, 10])
    >>> found.frame["rows kept"].round(3).tolist()
    [0.323, 0.484, 1.0]
    >>> found.frame["people cut"].round(3).tolist()
    [0.5, 0.2, 0.0]
    """
    numbers, people = _distribution(rows_per_person)
    chosen = _choices(max_rows, int(numbers.max()))
    total = float(numbers @ people)
    kept = np.array([float(np.minimum(numbers, most) @ people) / total for most in chosen])
    cut = np.array([float(people[numbers > most].sum()) for most in chosen])
    noise = np.array(chosen, dtype=np.float64)
    first = float(np.minimum(numbers, 1) @ people) / total
    frame = pd.DataFrame(
        {"rows kept": kept, "people cut": cut, "relative noise": noise, "noise per row kept": noise * first / kept},
        index=pd.Index(chosen, name="max_rows"),
    )
    return Truncation(frame)


def _distribution(given: Any) -> tuple[Array, Array]:
    """Numbers of rows, and the share of people with each."""
    right = "a mapping from numbers of rows, 1 or more, to shares of people, or a list of numbers of rows"
    if isinstance(given, pd.Series):
        given = given.to_dict()
    if isinstance(given, Mapping):
        numbers, shares = list(given), list(given.values())
    elif isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
        numbers = list(given)
        shares = [1.0] * len(numbers)
    else:
        raise OptionError("rows_per_person", type_of(given), right)
    whole = all(isinstance(one, int | np.integer) and not isinstance(one, bool) and one >= 1 for one in numbers)
    known = all(isinstance(one, int | float | np.number) and np.isfinite(one) and one >= 0 for one in shares)
    if not (numbers and whole and known and sum(shares) > 0):
        raise OptionError("rows_per_person", given, right)
    people = np.array([float(share) for share in shares])
    return np.array([float(number) for number in numbers]), people / people.sum()


def _choices(given: Any, largest: int) -> list[int]:
    if given is None:
        steps = [step * 10**power for power in range(4) for step in (1, 2, 3, 5)]
        listed = [step for step in steps if step < largest]
        return [*listed, min(largest, MOST_ROWS)]
    listed = [given] if isinstance(given, int) else list(given) if isinstance(given, Sequence) else []
    if not listed or not all(type(one) is int and 1 <= one <= MOST_ROWS for one in listed):
        raise OptionError("max_rows", given, f"whole numbers from 1 to {MOST_ROWS:,}")
    return listed

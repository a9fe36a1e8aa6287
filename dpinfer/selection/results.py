"""Results of choices from candidates and of comparisons with thresholds."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dpinfer.checks import TRUTH, is_number, require
from dpinfer.display.report import count, number
from dpinfer.errors import OptionError
from dpinfer.results.drawing import MARKED, given_or_new, grouped, legend, restrain, titled
from dpinfer.results.printing import (
    Exported,
    PrivateSummary,
    Shown,
    cell_table,
    column_notes,
    guarantee_facts,
    guarantee_note,
    summary_of,
    title_guarantee,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpinfer.release import Release
    from dpinfer.release.laws import NoiseLaw


Label = str | int | float | bool

_SHARES = (0.5, 0.95, 0.99)
"""Probabilities with which a summary says how good the choice is."""


@dataclass(frozen=True, eq=False)
class SelectionResults(Shown):
    """The candidate that was chosen, and how far from the best its score may be.

    Attributes
    ----------
    selected : str, int, float or bool
        The candidate.
    candidates : tuple
        What it was chosen from.
    scale : float
        Scale of the noise, in the unit of the scores.
    release : Release
    response : str
        What was chosen, in words.
    """

    cite = Exported.cite

    selected: Label
    candidates: tuple[Label, ...]
    scale: float
    release: Release = field(repr=False)
    response: str

    @property
    def method(self) -> str:
        """The mechanism: "exponential mechanism" or "permute-and-flip"."""
        return {"gumbel": "exponential mechanism", "exponential": "permute-and-flip"}[self.release.law.family]

    def accuracy(self, beta: float = 0.05, *, bound: str = "sharp") -> float:
        """Say by how much, at most, the chosen candidate's score misses the best one, but for a probability.

        Parameters
        ----------
        beta : float
            Probability, over the noise, that the bound fails; between 0 and 1.
        bound : {"sharp", "theorem6"}
            With s the noise scale and d candidates: the exponential mechanism misses by ``s log((d - 1) / beta)`` or
            more with probability beta at most, permute-and-flip by half that probability; "theorem6" is the looser
            ``2 s log(d / beta)`` of lecture notes.

        Returns
        -------
        float
            In the unit of the scores, for any data whatever; 0 where the worst candidate is within the bound. Scores
            are those of rows rounded to steps (`release.steps`): half a step for each row.

        Raises
        ------
        OptionError
            If an argument has no such value.

        Notes
        -----
        McSherry & Talwar (2007); Smith (2017), theorem 6; McKenna & Sheldon (2020). Proofs in `docs/selection.md`.
        """
        return accuracy(len(self.candidates), self.scale, self.release.law.family, beta, bound)

    def accuracy_frame(self) -> pd.DataFrame:
        """Return by how much the score of the choice may miss the largest one: "miss", and "probability" of more."""
        miss = np.linspace(0.0, 1.2 * max(self.accuracy(0.005), self.scale), 201)
        halved = 2 if self.release.law.family == "exponential" else 1
        chance = (len(self.candidates) - 1) / halved * np.exp(-miss / self.scale)
        return pd.DataFrame({"miss": miss, "probability": np.minimum(chance, 1.0)})

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the probability, at most, that the score of the choice misses the largest one by more.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
        """
        near = self.accuracy(0.05)
        title = f"{self.response}: {self.selected} of {count(len(self.candidates))}, {title_guarantee(self.release)}"
        ax = _draw_errors(ax, self.accuracy_frame(), near, f"within {number(near)} with probability 95%", title)
        ax.set(xlabel="score below the largest by more than", ylabel="probability, at most", ylim=(0, 1.03))
        return ax

    def summary(self) -> PrivateSummary:
        """Return the choice as a table, with its guarantee and accuracy."""
        near, size = f"{self.accuracy(0.05):.4g}", f"{len(self.candidates):,}"
        left = [("Selected:", str(self.selected)), ("Candidates:", size), ("Mechanism:", self.method)]
        notes = [
            guarantee_note(self.release),
            f"With probability 95% the score of the selected candidate is within {near} of the largest one, whatever "
            "the data are. Nothing else about the scores is released, nor the margin of the choice.",
            *column_notes(self.release),
        ]
        rows = [(share, self.accuracy(1 - share), self.accuracy(1 - share, bound="theorem6")) for share in _SHARES]
        cells = [[f"{sharp:.4g}", f"{textbook:.4g}", f"{1 - share:.0%}"] for share, sharp, textbook in rows]
        heads = ["score within", "textbook bound", "may fail"]
        table = cell_table(cells, heads, [f"{share:.0%}" for share in _SHARES])
        right = [*guarantee_facts(self.release), ("Error (95%):", near)]
        return summary_of(f"Private selection: {self.response}", left, right, table, notes)

    def __repr__(self) -> str:
        chosen = f"{self.selected!r} of {len(self.candidates):,} candidates, {self.method}"
        return f"<{type(self).__name__}: {chosen}, {title_guarantee(self.release)}>"


@dataclass(frozen=True, eq=False)
class ThresholdResults(Shown):
    """Which queries are at least their thresholds, and how far from these an answer is sure.

    Attributes
    ----------
    labels : tuple, length k
        What the queries are called.
    thresholds : tuple of float, length k
    answers : tuple of str, length k
        "above" (or equal), "below", or "not reached".
    most : int
        After so many answers "above" no query is answered.
    release : Release
    response : str
        What was asked, in words.
    """

    cite = Exported.cite

    labels: tuple[Label, ...]
    thresholds: tuple[int | float, ...]
    answers: tuple[str, ...]
    most: int
    release: Release = field(repr=False)
    response: str

    @property
    def above(self) -> tuple[Label, ...]:
        """Labels of the queries that were found to be above."""
        return tuple(label for label, answer in zip(self.labels, self.answers, strict=True) if answer == "above")

    @property
    def reached(self) -> int:
        """Number of queries that have an answer."""
        return len(self.answers) - self.answers.count("not reached")

    def accuracy(self, beta: float = 0.05, *, joint: bool = False) -> float:
        """Say how far from its threshold a query must be for its answer to be right, but for a probability.

        Parameters
        ----------
        beta : float
            Probability, over the noise, of a wrong answer; between 0 and 1.
        joint : bool
            Whether it is that of any wrong answer among all queries, if all are so far from their thresholds: each is
            then given an equal part of it (Bonferroni).

        Returns
        -------
        float
            In the unit of the sums, for any data whatever. Sums are those of rows rounded to steps (`release.steps`):
            half a step for each row; counts are exact.

        Raises
        ------
        OptionError
            If an argument has no such value.

        Notes
        -----
        The answer to a query at a distance of m steps is wrong only if the noise of threshold and query together is at
        least m: its law is that of the sum of two discrete Laplace variables, whose tail is known exactly
        (`docs/selection.md`). Lyu, Su & Li (2017) for the mechanism.
        """
        TRUTH.check("joint", joint)
        _check_probability(beta)
        return clear_distance(self.release.law, self.release.steps[0], beta / (len(self.labels) if joint else 1))

    def accuracy_frame(self) -> pd.DataFrame:
        """Return the probability of a wrong answer, at most, by the "distance" of a query from its threshold."""
        law, step = self.release.law, self.release.steps[0]
        last = pair_quantile(0.002, law.shared, law.scales[0])
        steps = np.unique(np.linspace(1, last, 201).round().astype(np.int64))
        chance = [pair_tail(int(one), law.shared, law.scales[0]) for one in steps]
        return pd.DataFrame({"distance": steps * step, "probability": chance})

    def summary_frame(self) -> pd.DataFrame:
        """Return a row for each label: "threshold", "answer", and "clear from": the distance of `accuracy`, 95%."""
        columns = {"threshold": list(self.thresholds), "answer": list(self.answers), "clear from": self.accuracy()}
        return pd.DataFrame(columns, pd.Index(self.labels, name="query", dtype=object))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the probability of a wrong answer, at most, by the distance of a query from its threshold.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
        """
        near, title = self.accuracy(0.05), f"{self._outcome}, {title_guarantee(self.release)}"
        ax = _draw_errors(ax, self.accuracy_frame(), near, f"right with probability 95% from {number(near)} on", title)
        ylabel = "probability of a wrong answer, at most"
        ax.set(xlabel="distance of a query from its threshold", ylabel=ylabel, ylim=(0, 0.53))
        return ax

    @property
    def _outcome(self) -> str:
        return f"{count(len(self.above))} of {count(len(self.labels))} above their thresholds"

    def summary(self) -> PrivateSummary:
        """Return the answers as a table, with their guarantee and accuracy."""
        near, joint = number(self.accuracy(0.05)), number(self.accuracy(0.05, joint=True))
        above = f"{count(len(self.above))} (at most {count(self.most)})"
        left = [("Queries:", count(len(self.labels))), ("Reached:", count(self.reached)), ("Above:", above)]
        notes = [
            guarantee_note(self.release),
            f"A query at a distance of {near} or more from its threshold gets a wrong answer with probability at most "
            f"5%, whatever the data are; if all are at {joint} or more, all answers are right with probability at "
            "least 95%. Closer ones may well be wrong. All share the noise of the threshold, so their errors are "
            "correlated.",
            "Nothing else about the sums is released, such as their distances from the thresholds. There is no "
            "p-value.",
        ]
        if self.reached < len(self.labels):
            last = ("first", "second", "third")[self.most - 1] if self.most <= 3 else f"{self.most:,}th"
            paid = "One answer was" if self.most == 1 else f"All {count(self.most)} answers were"
            notes.append(f"Queries after the {last} above have no answer. {paid} charged in advance.")
        notes += column_notes(self.release)
        cells = [[number(one), answer, near] for one, answer in zip(self.thresholds, self.answers, strict=True)]
        table = cell_table(cells, ["threshold", "answer", "clear from"], list(map(str, self.labels)))
        right = [*guarantee_facts(self.release), ("Clear from (95%):", near)]
        return summary_of("Private comparison with thresholds", left, right, table, notes)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._outcome}, {title_guarantee(self.release)}>"


def accuracy(candidates: int, scale: float, family: str, beta: float, bound: str = "sharp") -> float:
    """Bound on the score that is missed with probability beta at most; see `SelectionResults.accuracy`."""
    if bound not in ("sharp", "theorem6"):
        raise OptionError("bound", bound, ("sharp", "theorem6"))
    _check_probability(beta)
    if bound == "theorem6":
        return 2 * scale * math.log(candidates / beta)
    halved = 2 if family == "exponential" else 1
    return max(scale * math.log((candidates - 1) / (halved * beta)), 0.0)


def _check_probability(beta: object) -> None:
    require(is_number(beta) and 0 < beta < 1, "beta", beta, "a probability, between 0 and 1")


def clear_distance(law: NoiseLaw, step: float, beta: float) -> float:
    """Distance from its threshold from which a query's answer is wrong with this probability, at most."""
    return pair_quantile(beta, law.shared, law.scales[0]) * step


def _draw_errors(ax: Axes | None, frame: pd.DataFrame, near: float, label: str, title: str) -> Axes:
    """Draw a probability, the second column, against the size of an error, the first, and mark one size."""
    ax = given_or_new(ax, 6.4, 3.6)
    sizes, chances = (frame.iloc[:, place] for place in (0, 1))
    ax.plot(sizes, chances, color="C0", lw=1.6)
    ax.fill_between(sizes, chances, color="C0", alpha=0.25, lw=0)
    ax.axvline(near, color=MARKED, lw=2, label=label)
    ax.set_xlim(0, float(sizes.iloc[-1]))
    restrain(ax)
    grouped(ax.xaxis)
    legend(ax)
    titled(ax, title)
    return ax


def pair_tail(least: int, first: float, second: float) -> float:
    """Probability that X + Y is at least a whole number above 0, for independent discrete Laplace X and Y.

    Parameters
    ----------
    least : int
        At least 1.
    first, second : float
        Scales: equal, or clearly different. P(X = k) is proportional to ``exp(-abs(k) / first)``.

    Notes
    -----
    With p = exp(-1/first) and r = exp(-1/second) partial fractions of the generating functions give
    ``((1-r)^2 p^(m+1) / (1+p) - (1-p)^2 r^(m+1) / (1+r)) / ((p-r) (1-pr))``; and for p = r
    ``(1-p) / (1+p)^2 p^m (m + (1+p^2) / (1-p^2) + p / (1-p))``.

    Examples
    --------
    >>> round(pair_tail(1, 1.0, 2.0), 6), round(pair_tail(1, 2.0, 2.0), 6)
    (0.410902, 0.435097)
    """
    p, r = math.exp(-1 / first), math.exp(-1 / second)
    up, down = -math.expm1(-1 / first), -math.expm1(-1 / second)  # 1 - p and 1 - r
    if math.isclose(first, second, rel_tol=1e-9):
        return up / (1 + p) ** 2 * p**least * (least + (1 + p * p) / (up * (1 + p)) + p / up)
    apart = r * math.expm1(1 / second - 1 / first)  # p - r
    both = -math.expm1(-1 / first - 1 / second)
    return (down**2 * p ** (least + 1) / (1 + p) - up**2 * r ** (least + 1) / (1 + r)) / (apart * both)


def pair_quantile(tail: float, first: float, second: float) -> int:
    """Smallest whole number m, at least 1, with ``pair_tail(m, first, second) <= tail``; ``tail`` is in (0, 1)."""
    high = 1
    while pair_tail(high, first, second) > tail:
        high *= 2
    return 1 + bisect_left(range(1, high), True, key=lambda least: pair_tail(least, first, second) <= tail)

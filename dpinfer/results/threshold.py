"""Results of private comparisons with thresholds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dpinfer.display.numbers import count, number
from dpinfer.errors import OptionError
from dpinfer.numerics.laplace import pair_quantile, pair_tail
from dpinfer.release.laws import ABOVE, BELOW, NOT_REACHED
from dpinfer.results.drawing import error_curve
from dpinfer.results.printing import PrivateSummary, Shown, cell_table, summary_of
from dpinfer.results.style import titled
from dpinfer.results.wording import charge_notes, column_notes, guarantee, guarantee_facts, title_guarantee

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpinfer.release import Release
    from dpinfer.release.laws import NoiseLaw
    from dpinfer.results.selection import Label

__all__ = ["ThresholdResults", "clear_distance"]

_WORDS = {ABOVE: "above", BELOW: "below", NOT_REACHED: "not reached"}


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

    labels: tuple[Label, ...]
    thresholds: tuple[int | float, ...]
    answers: tuple[str, ...]
    most: int
    release: Release = field(repr=False)
    response: str = ""

    @property
    def above(self) -> tuple[Label, ...]:
        """Labels of the queries that were found to be above."""
        return tuple(label for label, told in zip(self.labels, self.answers, strict=True) if told == "above")

    @property
    def reached(self) -> int:
        """Number of queries that have an answer."""
        return sum(told != "not reached" for told in self.answers)

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
        if not isinstance(joint, bool):
            raise OptionError("joint", joint, (True, False))
        real = isinstance(beta, int | float) and not isinstance(beta, bool)
        if not (real and 0 < beta < 1):
            raise OptionError("beta", beta, "a probability, between 0 and 1")
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
        index = pd.Index(self.labels, name="query", dtype=object)
        columns = {"threshold": list(self.thresholds), "answer": list(self.answers), "clear from": self.accuracy()}
        return pd.DataFrame(columns, index)

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
        near = self.accuracy(0.05)
        ax = error_curve(ax, self.accuracy_frame(), near, f"right with probability 95% from {number(near)} on")
        ax.set(xlabel="distance of a query from its threshold", ylabel="probability of a wrong answer, at most")
        ax.set_ylim(0, 0.53)
        titled(ax, f"{self._told()}, {title_guarantee(self.release)}")
        return ax

    def _told(self) -> str:
        return f"{count(len(self.above))} of {count(len(self.labels))} above their thresholds"

    def summary(self) -> PrivateSummary:
        """Return the answers as a table, with their guarantee and accuracy."""
        near, joint = self.accuracy(0.05), self.accuracy(0.05, joint=True)
        left = [
            ("Queries:", count(len(self.labels))),
            ("Reached:", count(self.reached)),
            ("Above:", f"{count(len(self.above))} (at most {count(self.most)})"),
        ]
        right = [*guarantee_facts(self.release), ("Clear from (95%):", number(near))]
        notes = [
            guarantee(self.release),
            f"A query whose distance from its threshold is {number(near)} or more gets a wrong answer with probability "
            f"5% at most, whatever the data are; if all are {number(joint)} or more away, all answers are right with "
            "probability 95% at least. Nearer ones may well be wrong. The noise of the threshold is the same for all: "
            "answers err together.",
            "Nothing else is told of the sums: not how far from their thresholds they are. There is no p-value.",
        ]
        if self.reached < len(self.labels):
            paid = "One answer was" if self.most == 1 else f"All {count(self.most)} answers were"
            notes.append(f"Queries after the {_nth(self.most)} above have no answer. {paid} paid for in advance.")
        notes += [*column_notes(self.release), *charge_notes(self.release)]
        frame = self.summary_frame()
        cells = [[number(threshold), told, number(clear)] for threshold, told, clear in frame.itertuples(index=False)]
        table = cell_table(cells, ["threshold", "answer", "clear from"], [str(label) for label in self.labels])
        return summary_of("Private comparison with thresholds", left, right, table, notes)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._told()}, {title_guarantee(self.release)}>"


def _nth(place: int) -> str:
    return "first" if place == 1 else f"{place:,}th" if place > 3 else ("second", "third")[place - 2]


def clear_distance(law: NoiseLaw, step: float, beta: float) -> float:
    """Distance from its threshold from which a query's answer is wrong with this probability, at most."""
    return pair_quantile(beta, law.shared, law.scales[0]) * step

"""Results of private choices."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dpinfer.display.numbers import count, number
from dpinfer.errors import OptionError
from dpinfer.results.drawing import error_curve
from dpinfer.results.printing import PrivateSummary, Shown, cell_table, summary_of
from dpinfer.results.style import titled
from dpinfer.results.wording import charge_notes, column_notes, guarantee, guarantee_facts, title_guarantee

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpinfer.release import Release

__all__ = ["Label", "SelectionResults", "accuracy"]

Label = str | int | float | bool
BOUNDS = ("sharp", "theorem6")

_SHARES = (0.5, 0.95, 0.99)
"""Probabilities with which a summary says how good the choice is."""

_METHODS = {"gumbel": "exponential mechanism", "exponential": "permute-and-flip"}


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

    selected: Label
    candidates: tuple[Label, ...]
    scale: float
    release: Release = field(repr=False)
    response: str = ""

    @property
    def method(self) -> str:
        """The mechanism: "exponential mechanism" or "permute-and-flip"."""
        return _METHODS[self.release.law.family]

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
        ax = error_curve(ax, self.accuracy_frame(), near, f"within {number(near)} with probability 95%")
        ax.set(xlabel="score below the largest by more than", ylabel="probability, at most", ylim=(0, 1.03))
        asked = f"{self.response}: " if self.response else ""
        titled(ax, f"{asked}{self.selected} of {count(len(self.candidates))}, {title_guarantee(self.release)}")
        return ax

    def summary(self) -> PrivateSummary:
        """Return the choice as a table, with its guarantee and accuracy."""
        title = f"Private selection: {self.response}" if self.response else "Private selection"
        left = [
            ("Selected:", str(self.selected)),
            ("Candidates:", f"{len(self.candidates):,}"),
            ("Mechanism:", self.method),
        ]
        right = [
            *guarantee_facts(self.release),
            ("Error (95%):", f"{self.accuracy(0.05):.4g}"),
        ]
        notes = [
            guarantee(self.release),
            f"With probability 95% the score of the selected candidate is within {self.accuracy(0.05):.4g} of the "
            "largest one, whatever the data are. Nothing else is told of the scores, nor how clear the choice was.",
        ]
        notes += [*column_notes(self.release), *charge_notes(self.release)]
        cells = [
            [f"{self.accuracy(beta):.4g}", f"{self.accuracy(beta, bound='theorem6'):.4g}", f"{beta:.0%}"]
            for beta in (1 - share for share in _SHARES)
        ]
        stubs = [f"{share:.0%}" for share in _SHARES]
        table = cell_table(cells, ["score within", "textbook bound", "may fail"], stubs)
        return summary_of(title, left, right, table, notes)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {self.selected!r} of {len(self.candidates):,} candidates, {self.method}, "
            f"{title_guarantee(self.release)}>"
        )


def accuracy(candidates: int, scale: float, family: str, beta: float, bound: str = "sharp") -> float:
    """Bound on the score that is missed with probability beta at most; see `SelectionResults.accuracy`."""
    if bound not in BOUNDS:
        raise OptionError("bound", bound, BOUNDS)
    number = isinstance(beta, int | float) and not isinstance(beta, bool)
    if not (number and 0 < beta < 1):
        raise OptionError("beta", beta, "a probability, between 0 and 1")
    if bound == "theorem6":
        return 2 * scale * math.log(candidates / beta)
    halved = 2 if family == "exponential" else 1
    return max(scale * math.log((candidates - 1) / (halved * beta)), 0.0)

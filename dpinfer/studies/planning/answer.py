"""The answer of a plan: rows, price, widths and powers, as a table and as curves."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from dpinfer.display.report import Report, Reported, Table
from dpinfer.errors import DPInferError, OptionError, kind_of, names_of
from dpinfer.results.style import FAINT, legend, restrain
from dpinfer.studies.planning.forecasts import Fitted, Summed
from dpinfer.studies.planning.pilots import Told
from dpinfer.studies.planning.tested import Tested
from dpinfer.studies.power_search import PRICES, amount_of, amounted, unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.statistics.arrays import Array
    from dpinfer.studies.planning.forecasts import Forecast, Outlook
    from dpinfer.studies.planning.targets import Targets

__all__ = ["CHARGED_NOTHING", "Plan"]

CHARGED_NOTHING = "Plan: nothing is charged yet"

_POINTS, _SLOW_POINTS, _REACH = 9, 5, 10.0
"""Points of a curve, of one that rows are fitted for, and how far it goes to either side."""

_MISSED = 0.05
"""Shortfall, of a logarithm or a probit, from which an answer says that it misses its target."""

_FEW_SHOWN = 4
"""Terms that a figure shows unless others are named."""


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Reported):
    """What a study needs, or gives; made by `plan`.

    Attributes
    ----------
    n : int
        Number of rows.
    privacy : Privacy
        The price.
    solved : {"n", "privacy", None}
        Which of them was sought; None where both were given.
    frame : DataFrame
        A row for each term: "true value" (that power is for), "width" (full width, reached with the assurance asked
        for), "without noise" (the width that sampling alone gives), "relative" (their ratio), "rmse", and "power" of
        the two-sided test of zero.
    alpha, assurance : float
    population : str
        What the study was planned for, in words.
    notes : tuple of str
    """

    n: int
    privacy: Privacy
    solved: Literal["n", "privacy"] | None
    frame: pd.DataFrame = field(repr=False)
    alpha: float
    assurance: float
    neighbors: Neighbors
    population: str
    text: str
    notes: tuple[str, ...]
    _outlook: Outlook = field(repr=False)
    _targets: Targets = field(repr=False)

    @classmethod
    def of(
        cls,
        outlook: Outlook,
        targets: Targets,
        n: int,
        privacy: Privacy,
        *,
        solved: Any,
        text: str,
        about: str,
        neighbors: Neighbors,
    ) -> Plan:
        """Look at the rows and the price that were given or found."""
        found, alone = outlook.at(n, privacy, depth="answer"), _alone(outlook, n)
        frame = _frame(found, alone, targets)
        return cls(
            n, privacy, solved, frame, found.alpha, targets.assurance, neighbors, about, text,
            (*_notes(outlook, found, about), *_asked(found, alone, targets), *_ends(solved, n, privacy, outlook)),
            outlook, targets,
        )  # fmt: skip

    @property
    def width(self) -> pd.Series:
        """Full width of the interval of each term; empty for a test."""
        return self.frame["width"] if "width" in self.frame else pd.Series(dtype=float, name="width")

    @property
    def power(self) -> pd.Series:
        """Power of the two-sided test of each term, or of the test that was planned."""
        return self.frame["power"]

    def summary_frame(self) -> pd.DataFrame:
        """Return the table, a copy."""
        return self.frame.copy()

    def curve(self, against: Literal["privacy", "n"], terms: Sequence[str] | None = None) -> pd.DataFrame:
        """Look at other prices, or other numbers of rows.

        Parameters
        ----------
        against : {"privacy", "n"}
            What changes; the other stays as planned.
        terms : sequence of str, optional
            By default the first four.

        Returns
        -------
        DataFrame
            A row for each amount and term: columns "n", "amount", "term", "width", "without noise", "power".

        Raises
        ------
        OptionError
            If a term is unknown, or ``against`` is neither.
        """
        if against not in ("privacy", "n"):
            raise OptionError("against", against, ("privacy", "n"))
        shown = self._shown(terms)
        count = _SLOW_POINTS if self._outlook.slow else _POINTS
        planned = amount_of(self.privacy) if against == "privacy" else float(self.n)
        rows: list[pd.DataFrame] = []
        kept = _alone(self._outlook, self.n) if against == "privacy" else None
        for at in planned * np.geomspace(1 / _REACH, _REACH, count):
            n = self.n if against == "privacy" else int(np.clip(round(at), self._outlook.least, self._outlook.most))
            price = amounted(self.privacy, float(at)) if against == "privacy" else self.privacy
            with suppress(DPInferError):  # beyond what can be measured
                found = self._outlook.at(n, price)
                part = _frame(found, kept or _alone(self._outlook, n), self._targets).loc[shown].reset_index()
                rows.append(part.rename(columns={"index": "term"}).assign(n=n, amount=amount_of(price)))
        names = ["n", "amount", "term", "width", "without noise", "power"]
        return pd.concat(rows, ignore_index=True).reindex(columns=names)

    def plot(self, terms: Sequence[str] | None = None, axes: Any = None) -> Array:
        """Plot width and power against the price and against the number of rows.

        Dashed lines are sampling alone; the dotted line is the plan. A test has powers only.

        Parameters
        ----------
        terms : sequence of str, optional
            By default the first four.
        axes : ndarray of matplotlib.axes.Axes (2, 2), of a test (1, 2), optional
            Where to draw; a new figure by default.

        Returns
        -------
        ndarray of matplotlib.axes.Axes

        Raises
        ------
        OptionError
            If a term is unknown, or ``axes`` has another shape.
        """
        measures = ["power"] if isinstance(self._outlook, Tested) else ["width", "power"]
        if axes is None:
            from matplotlib import pyplot as plt  # noqa: PLC0415  (imported when first needed)

            size = (9.0, 3.4 * len(measures))
            axes = plt.subplots(len(measures), 2, figsize=size, layout="constrained", squeeze=False)[1]
        found = np.asarray(axes, dtype=object)
        if found.shape != (len(measures), 2):
            raise OptionError("axes", kind_of(axes), f"an array of Axes of shape ({len(measures)}, 2)")
        for column, against in enumerate(("privacy", "n")):
            curve = self.curve("privacy" if column == 0 else "n", terms)
            place, planned = ("amount", amount_of(self.privacy)) if column == 0 else ("n", float(self.n))
            for row, measure in enumerate(measures):
                _draw(found[row, column], curve, place, measure)
                found[row, column].axvline(planned, color=FAINT, lw=0.8, ls=":")
                label = unit_of(self.privacy) if against == "privacy" else "rows"
                found[row, column].set(xlabel=label, ylabel=measure)
        legend(found[0, 0])
        found[0, 0].figure.suptitle(self.text, fontsize="medium")
        return found

    def _shown(self, terms: Sequence[str] | None) -> list[str]:
        known = list(self.frame.index)
        if terms is None:
            return known[:_FEW_SHOWN]
        unknown = [name for name in terms if name not in known]
        if unknown or isinstance(terms, str):
            raise OptionError("terms", names_of(unknown or [terms]), f"a list of terms among {', '.join(known[:20])}")
        return list(terms)

    def _report(self) -> Report:
        marks = {
            "n": " (solved)" if self.solved == "n" else "",
            "privacy": " (solved)" if self.solved == "privacy" else "",
        }
        facts = {
            "question": self.text,
            "rows": f"{self.n:,}{marks['n']}",
            "price": f"{self.privacy}{marks['privacy']}: {self.privacy.describe()}",
            "neighbours": self.neighbors,
            "population": self.population,
        }
        return Report(CHARGED_NOTHING, tuple(facts.items()), (Table.of(self.frame),), self.notes)


def _alone(outlook: Outlook, n: int) -> Forecast | None:
    """Look at sampling alone; None where nothing can be said of it."""
    try:
        return outlook.alone(n)
    except DPInferError:
        return None


def _frame(found: Forecast, alone: Forecast | None, targets: Targets) -> pd.DataFrame:
    effects = targets.effects(found)
    powers = found.power(effects)
    if np.isnan(found.center).all():
        ordinary = np.full(1, np.nan) if alone is None else alone.power(effects)
        return pd.DataFrame({"power": powers, "ordinary power": ordinary}, index=list(found.names))
    width = found.width(targets.assurance)
    quiet = np.full(len(width), np.nan) if alone is None else alone.width()
    with np.errstate(all="ignore"):
        columns = {
            "true value": effects,
            "width": width,
            "without noise": quiet,
            "relative": width / quiet,
            "rmse": found.rmse,
            "power": powers,
        }
    return pd.DataFrame(columns, index=list(found.names))


def _notes(outlook: Outlook, found: Forecast, about: str) -> tuple[str, ...]:
    notes = []
    if about.startswith("uniform"):
        notes.append("No pilot: real columns are seldom uniform, and seldom independent. Give pilot= what is known.")
    if isinstance(outlook, Tested):
        return (*notes, "Power against the population, by the same study as dpinfer.power.")
    if isinstance(outlook, Summed | Fitted):
        how = "sums of data sets" if isinstance(outlook, Summed) else "fits of data sets"
        notes.append(f"Simulated: {len(found.params):,} {how}, with noise of the kernel's scale.")
    if not found.counted:
        notes.append("Errors and powers are by the standard errors that the inference states.")
    if isinstance(getattr(outlook, "pilot", None), Told):
        notes.append("The noise of the pilot release is in what it says of the population.")
    unbounded = [name for name, width in zip(found.names, found.width(), strict=True) if not np.isfinite(width)]
    if unbounded:
        notes.append(f"Unbounded intervals in most releases: {', '.join(unbounded[:5])}.")
    return tuple(notes)


def _asked(found: Forecast, alone: Forecast | None, targets: Targets) -> tuple[str, ...]:
    """Say which of what was asked for these releases do not tell, or miss."""
    notes = []
    if targets.assurance != 0.5 and not found.sampled and not np.isnan(found.center).all():
        notes.append("A release as pilot has no samples to draw: assurance is of its noise at most, not of sampling.")
    gap = targets.shortfall(found, alone) if targets else -np.inf
    if gap > _MISSED:
        name, term = targets.failing(found, alone)
        notes.append(f"The {name} of {term} is not quite what was asked for: so many releases cannot tell it closer.")
    return tuple(notes)


def _ends(solved: Any, n: int, privacy: Privacy, outlook: Outlook) -> tuple[str, ...]:
    """Say where the least that is looked at already suffices."""
    if (solved == "privacy" and amount_of(privacy) <= PRICES[0]) or (solved == "n" and n <= outlook.least):
        return ("This is the least that is looked at: less may do.",)
    return ()


def _draw(ax: Axes, curve: pd.DataFrame, place: str, measure: str) -> None:
    """Draw a measure of each term, and what sampling alone gives."""
    for number, (term, part) in enumerate(curve.groupby("term", sort=False)):
        kept = part[np.isfinite(part[measure])]
        ax.plot(kept[place], kept[measure], "o-", ms=3, color=f"C{number}", label=str(term))
        if measure == "width":
            ax.plot(part[place], part["without noise"], "--", lw=0.9, color=f"C{number}")
    ax.set(xscale="log")
    if measure == "width":
        ax.set(yscale="log")
    else:
        ax.set(ylim=(0, 1.03))
    restrain(ax)

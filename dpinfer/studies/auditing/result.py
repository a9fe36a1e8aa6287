"""What an audit found, and its report, as text and as HTML."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from dpinfer.display.report import Report, Reported, Table, count, number
from dpinfer.results.style import FAINT, MARKED, given_or_new, legend, restrain, titled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from dpinfer.privacy.units import Privacy
    from dpinfer.studies.auditing.stated import Stated
    from dpinfer.studies.auditing.units import Pair

__all__ = ["Audit", "Finding", "closing_words", "pair_text"]

_WIDTH = 100
_PAIR = 600
_PARTS = ("exact", "statistical", "events")

Part = Literal["exact", "statistical", "events"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One check.

    Attributes
    ----------
    part : {"exact", "statistical", "events"}
    check : str
        What was looked at.
    price : str
        At which price; empty where it depends on none.
    found : float
        Ratio, lower bound or p-value.
    limit : float
        What it may be at most; of a p-value at least.
    passed : bool
    detail : str
        What was tried, or what was seen where it failed.
    """

    part: Part
    check: str
    price: str
    found: float
    limit: float
    passed: bool
    detail: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Reported):
    """What an audit tried and found; made by `dpinfer.audit`.

    Attributes
    ----------
    text : str
        The question.
    privacy : Privacy
        The stated price.
    neighbors : {"add_remove", "replace_one"}
    unit : str
        Who is protected.
    stated : Stated
        What the price states, in epsilon or mu.
    epsilon, mu : float
        Lower bounds on the privacy loss at the stated price, each wrong with probability below the familywise error.
        Of a choice they are exact, from probabilities of outcomes; under zCDP mu is then sqrt(2 rho).
    ratio : float
        Largest change between neighbours over what its noise may hide at the stated price, 1 at most if the price is
        true; found in exact arithmetic.
    pair : str
        The neighbours that reached it.
    findings : tuple of Finding
    curve : DataFrame or None
        Error rates of tests between the two neighbours, beside those that the price allows.
    runs : int
        Draws on each data set, at most.
    tests : int
        Statistical tests, which share the familywise error.
    error : float
        Familywise error: the probability that an audit of a true price fails by chance is at most this.
    seconds : float
    notes : tuple of str
        What could not be tried.
    """

    text: str
    privacy: Privacy
    neighbors: str
    unit: str
    stated: Stated
    epsilon: float
    mu: float
    ratio: float
    pair: str
    findings: tuple[Finding, ...]
    curve: pd.DataFrame | None
    runs: int
    tests: int
    error: float
    seconds: float
    notes: tuple[str, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(one.passed for one in self.findings)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Checks that failed."""
        return tuple(one for one in self.findings if not one.passed)

    @property
    def reached(self) -> float:
        """Share of the stated epsilon or mu that the lower bound reaches."""
        return (self.epsilon if self.stated.kind == "epsilon" else self.mu) / self.stated.level

    def summary_frame(self) -> pd.DataFrame:
        """Return a row for each check: part, check, price, found, limit, passed, detail."""
        columns = ["part", "check", "price", "found", "limit", "passed", "detail"]
        return pd.DataFrame([[getattr(one, name) for name in columns] for one in self.findings], columns=columns)

    def summary(self) -> str:
        """Return the report as text."""
        return self._report().text(_WIDTH)

    def __repr__(self) -> str:
        return self.summary()

    def _report(self) -> Report:
        notes = (*closing_words(self), *(f"Note: {note}" for note in self.notes))
        return Report("Audit of differential privacy", _heads(self), (_table(self.findings),), notes)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the trade-off curve that was measured beside the stated one.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        matplotlib.axes.Axes
            False alarms against missed detections of tests that tell the two neighbours apart. A curve below the
            stated one, by more than its error, is a privacy loss above the price.
        """
        axes = given_or_new(ax, 5.2, 4.6)
        options: dict[str, Any] = {"lw": 1.6}
        if self.curve is not None:
            axes.plot(self.curve["false alarm"], self.curve["missed"], color="C0", label="measured", **options)
            stated = self.curve.sort_values("false alarm")
            axes.plot(stated["false alarm"], stated["missed, stated"], color=MARKED, ls="--",
                      label=f"stated: {self.privacy}", **options)  # fmt: skip
        axes.plot([0, 1], [1, 0], color=FAINT, lw=0.8, label="nothing to be told apart")
        axes.set(xlabel="false alarms", ylabel="missed", xlim=(0, 1), ylim=(0, 1))
        titled(axes, self.text)
        restrain(axes)
        legend(axes)
        return axes


# The report


def pair_text(pair: Pair | None, name: str) -> str:
    """Say which neighbours were the worst."""
    if pair is None:
        return f"one block whose fit is anything, in {name}"
    told = str(pair)
    return f"{told if len(told) < _PAIR else told[:_PAIR] + ' ...'}, in {name}"


def _heads(audit: Audit) -> tuple[tuple[str, str], ...]:
    kind = audit.stated.kind
    bound = audit.epsilon if kind == "epsilon" else audit.mu
    return (
        ("question", audit.text),
        ("price", f"{audit.privacy}, which states {kind} = {audit.stated.level:.6g}"),
        ("neighbours", f"{audit.neighbors}, of {audit.unit}"),
        ("largest change", f"{audit.ratio:.6g} times its bound, between {audit.pair}"),
        ("lower bound", f"{kind} is at least {bound:.4g} ({audit.reached:.0%} of what is stated)"),
        ("verdict", "no check failed" if audit.passed else f"{len(audit.failures)} checks FAILED"),
    )


def closing_words(audit: Audit) -> tuple[str, ...]:
    """Say what was tried, what would have been caught, and how often a true price fails."""
    tried = sum(one.part == "exact" for one in audit.findings)
    events = sum(one.part == "events" for one in audit.findings)
    large = any(one.price not in ("", str(audit.privacy)) for one in audit.findings)
    caught = (
        "Caught would have been: a change of an integer sum between the neighbours tried that is larger than its noise "
        "pays for, by however little; a sum released without noise; a sampler whose spread, shape or remainders are "
        f"off by more than {count(audit.runs)} draws can hide; and whatever of types, names, lengths, warnings, logs, "
        "charges and errors differed between the neighbours tried."
    )
    missed = (
        "Not caught is what none of these neighbours shows, what takes more runs to see, and what is told by time or "
        "memory. A lower bound is no proof: that is on the page of the kernel."
    )
    error = (
        f"The familywise error is at most {audit.error:g}: so often, at most, an audit of a true price fails by "
        f"chance, half of it shared equally by {audit.tests} statistical tests (Bonferroni); exact checks never fail "
        "by chance, and those of equality with a probability below 1e-9."
    )
    tried_words = (
        f"Tried: {tried} exact checks, by hill climbing over neighbours made of the schema's bounds, missing, "
        f"impossible and extreme cells; up to {count(audit.runs)} real draws on each of two neighbours, at the stated "
        f"price{' and at a large one' if large else ''}; {events} kinds of events."
    )
    return tried_words, caught, missed, error


def _table(findings: Sequence[Finding]) -> Table:
    """Return a row for each check, the parts one after the other."""
    rows = [
        (
            "ok" if one.passed else "FAIL",
            one.part,
            f"{one.check}: {one.detail}" if one.detail and not one.passed else one.check,
            one.price,
            number(one.found),
            f"{'at least' if one.check.startswith('draws:') else 'at most'} {number(one.limit)}",
        )
        for part in _PARTS
        for one in findings
        if one.part == part
    ]
    return Table(("", "part", "check", "price", "found", "limit"), tuple(rows), frozenset({1, 2, 3}))

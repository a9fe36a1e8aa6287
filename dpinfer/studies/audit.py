"""An audit: exactly, statistically, and by events, at the stated price and at one where few runs tell much."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from dpinfer.checks import is_whole
from dpinfer.display.progress import check_progress, watched
from dpinfer.display.report import Report, Reported, Table, count, number
from dpinfer.errors import OptionError
from dpinfer.kernel.rows.products import ReplicateSum
from dpinfer.results.drawing import FAINT, MARKED, given_or_new, legend, restrain, titled
from dpinfer.studies.audit_draws import replay_all, tests_of_laws
from dpinfer.studies.audit_events import event_findings, label_tests
from dpinfer.studies.audit_exact import Finding, exact_findings, worst_of
from dpinfer.studies.audit_pairs import Units, served, setting_of, strong

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.procedures.procedure import Procedure
    from dpinfer.schema.schema import Schema
    from dpinfer.studies.audit_draws import Bounded, LawTest
    from dpinfer.studies.audit_pairs import Stated

__all__ = ["FAMILYWISE", "Audit", "Finding", "audit"]

FAMILYWISE = 1e-4
"""Probability, at most, that an audit of a true price fails by chance."""

_JUDGED = 0.5
"""Of the familywise error, shared by all tests; the rest is a margin for rounding and for equality by chance."""

_LEAST_RUNS = 200
_WIDTH = 100
_PAIR = 600


def audit(
    procedure: Procedure,
    schema: Schema | None,
    privacy: Privacy,
    *,
    neighbors: Neighbors | None = None,
    rows: pd.DataFrame | None = None,
    runs: int | Literal["auto"] = "auto",
    seed: int = 0,
    progress: bool | None = None,
) -> Audit:
    """Try by experiment to show that a procedure tells more about a row than its price states.

    Three parts. *Exactly*: neighbouring data sets made of the schema's bounds, of missing, impossible and extreme cells
    and of the rows given, improved by hill climbing on the change of the integer sums over what their noise pays for, a
    quotient that is derived by no code of the kernel's pricing and compared as a fraction; every sampler against its
    probability mass function; choices by the exact probabilities of their outcomes. *Statistically*: the sums of the
    worst pair are computed once and the real draw repeated; thresholds of the likelihood ratio are chosen on one half
    of the runs and tested on the other, at the stated price and at mu = 3 or epsilon = 3. *Events*: types, names,
    lengths, warnings, logs, output and errors between neighbours, labels of secret blocks, forked and new processes,
    the charge.

    Parameters
    ----------
    procedure : Procedure
        A question, your own included. It is asked of made-up rows: what it is bound to is not read.
    schema : Schema or None
        Of the rows; None takes that of the data the procedure is bound to.
    privacy : PureDP, ZCDP, GDP or ApproxDP
        The price whose truth is tried.
    neighbors : {"add_remove", "replace_one"}, optional
        By default those of the data that the procedure is bound to, else "add_remove".
    rows : DataFrame, optional
        Public rows, of which the first 60 are shared by the neighbours and give cells to try. By default rows spread
        evenly over the schema. Never confidential ones: the report shows cells.
    runs : int or "auto"
        Draws on each of two neighbours; at least 200. "auto" takes 20,000, fewer where many numbers are released.
    seed : int
        Chooses pairs and labels that are tried, and nothing else: the noise is the kernel's own and has no seed.
    progress : bool, optional
        Whether a progress bar is shown; by default as `dpinfer.show_progress` says.

    Returns
    -------
    Audit
        With ``.passed``, ``.epsilon`` and ``.mu`` (lower bounds at the stated price), ``.ratio``, ``.plot()``,
        ``.summary_frame()``; it prints as a report.

    Raises
    ------
    OptionError
        If an argument has no such value, or the procedure is bound to confidential rows and no public ``rows`` are
        given.
    DPInferError
        If the question is not served at this price.

    Notes
    -----
    Privacy that passes is not proved: the proof is on the page of the kernel. A price that fails is wrong but for the
    familywise error, at most 1e-4, half of which all statistical tests share (Bonferroni); p-values are exactly
    binomial. Lower bounds from error rates are those of Kairouz, Oh & Viswanath (2015) for epsilon and of Dong, Roth &
    Su (2022) for mu, with the limits of Clopper & Pearson (1934).

    Examples
    --------
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(income=dpi.Real(0, 200))
    >>> found = dpi.audit(dpi.mean("income"), schema, dpi.ZCDP(0.5), runs=2000)
    >>> found.passed, 0.9 < found.ratio <= 1
    (True, True)
    """
    started = time.perf_counter()
    check_progress(progress)
    if runs != "auto" and not (is_whole(runs) and _LEAST_RUNS <= runs <= 10**7):
        raise OptionError("runs", runs, f'"auto", or a whole number from {_LEAST_RUNS} to 10,000,000')
    if not (is_whole(seed) and seed >= 0):
        raise OptionError("seed", seed, "a whole number, 0 or above: it chooses pairs, never noise")
    draws = None if runs == "auto" else int(runs)
    rng = np.random.default_rng(seed)
    setting = setting_of(procedure, schema, privacy, neighbors, rows, rng)
    prices, notes = [setting], []
    large = served(setting, strong(privacy))
    if isinstance(large, str):
        notes.append(large)
    elif strong(privacy) != privacy:
        prices.append(large)
    exact: list[Finding] = []
    found, laws = [], []
    for at in watched(prices, "prices audited", total=len(prices), progress=progress):
        run = at.audited_run()
        worst = worst_of(run, at, Units(at.schema, at.neighbors, rng, rows))
        found.append((run, worst, replay_all(worst, at, draws)))
        laws += [(str(at.privacy), test) for test in tests_of_laws(worst, at, draws)]
        exact += exact_findings(run, worst, at)
    run, worst, own = found[0]
    events = list(event_findings(run, worst, setting, Units(setting.schema, setting.neighbors, rng, rows)))
    whole = all(replays.whole for _, _, replays in found)
    check = "repeated draws are whole numbers"
    events.append(Finding("events", check, "", 0.0 if whole else 1.0, 0.0, whole, "every run"))
    if run.plan.blocks is not None or any(isinstance(one.stage.rows, ReplicateSum) for one in worst):
        laws += [("", test) for test in label_tests(draws)]
    bounded = [one for _, _, replays in found for one in replays.bounded]
    tests = len(laws) + len(bounded) + (own.other is not None)
    level = _JUDGED * FAMILYWISE / max(tests, 1)
    statistical = _judged(bounded, laws, level)
    # Lower bounds at the stated price: of draws from events, of choices exact.
    bounds = {"epsilon": 0.0, "mu": 0.0}
    if own.bounded and own.other is not None:
        for kind in ("epsilon", "mu"):
            event = own.bounded[0].event if kind == setting.stated.kind else own.other
            bounds[kind] = event.lower(kind, level)
    for epsilon, mu in (one.odds for one in worst if one.odds is not None):
        bounds = {"epsilon": max(bounds["epsilon"], epsilon), "mu": max(bounds["mu"], mu)}
    most = max(worst, key=lambda one: one.share.ratio(one.amount))
    total = sum((one.amount for one in worst), Fraction(0))
    pair = "one block whose fit is anything" if most.worst.pair is None else str(most.worst.pair)
    pair = f"{pair if len(pair) < _PAIR else pair[:_PAIR] + ' ...'}, in {most.name}"
    ratio = max(most.share.ratio(most.amount), setting.stated.ratio(total))
    most_runs = max(one.runs for _, _, one in found)
    return Audit(
        run.plan.text, setting.privacy, setting.neighbors, setting.schema.unit, setting.stated,
        bounds["epsilon"], bounds["mu"], ratio, pair, (*exact, *statistical, *events), own.curve, most_runs, tests,
        FAMILYWISE, time.perf_counter() - started, tuple(notes),
    )  # fmt: skip


def _judged(bounded: list[Bounded], laws: list[tuple[str, LawTest]], level: float) -> list[Finding]:
    """Judge all statistical tests at their part of the familywise error."""
    found = []
    for one in bounded:
        event, kind, limit = one.event, one.stated.kind, one.stated.level
        lower = event.lower(kind, level)
        detail = f"event met in {event.met:,} of {event.of:,} runs, and {event.other_met:,} on the neighbour"
        check = f"lower bound on {kind}, {one.name}"
        found.append(Finding("statistical", check, one.price, lower, limit, lower <= limit, detail))
    for price, test in laws:
        passed = test.pvalue >= level
        found.append(Finding("statistical", f"draws: {test.what}", price, test.pvalue, level, passed, "p-value"))
    return found


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
        kind = self.stated.kind
        bound = self.epsilon if kind == "epsilon" else self.mu
        facts = (
            ("question", self.text),
            ("price", f"{self.privacy}, which states {kind} = {self.stated.level:.6g}"),
            ("neighbours", f"{self.neighbors}, of {self.unit}"),
            ("largest change", f"{self.ratio:.6g} times its bound, between {self.pair}"),
            ("lower bound", f"{kind} is at least {bound:.4g} ({self.reached:.0%} of what is stated)"),
            ("verdict", "no check failed" if self.passed else f"{len(self.failures)} checks FAILED"),
        )
        rows = [
            (
                "ok" if one.passed else "FAIL",
                one.part,
                f"{one.check}: {one.detail}" if one.detail and not one.passed else one.check,
                one.price,
                number(one.found),
                f"{'at least' if one.check.startswith('draws:') else 'at most'} {number(one.limit)}",
            )
            for one in sorted(self.findings, key=lambda one: ("exact", "statistical", "events").index(one.part))
        ]
        table = Table(("", "part", "check", "price", "found", "limit"), tuple(rows), frozenset({1, 2, 3}))
        notes = (*self._closing_words, *(f"Note: {note}" for note in self.notes))
        return Report("Audit of differential privacy", facts, (table,), notes)

    @property
    def _closing_words(self) -> tuple[str, ...]:
        """Say what was tried, what would have been caught, and how often a true price fails."""
        parts = [one.part for one in self.findings]
        large = any(one.price not in ("", str(self.privacy)) for one in self.findings)
        exact, events = parts.count("exact"), parts.count("events")
        return (
            f"Tried: {exact} exact checks, by hill climbing over neighbours made of the schema's bounds, missing, "
            f"impossible and extreme cells; up to {count(self.runs)} real draws on each of two neighbours, at the "
            f"stated price{' and at a large one' if large else ''}; {events} kinds of events.",
            "Caught would have been: a change of an integer sum between the neighbours tried that is larger than its "
            "noise pays for, by however little; a sum released without noise; a sampler whose spread, shape or "
            f"remainders are off by more than {count(self.runs)} draws can hide; and whatever of types, names, "
            "lengths, warnings, logs, charges and errors differed between the neighbours tried.",
            "Not caught is what none of these neighbours shows, what takes more runs to see, and what is told by time "
            "or memory. A lower bound is no proof: that is on the page of the kernel.",
            f"The familywise error is at most {self.error:g}: so often, at most, an audit of a true price fails by "
            f"chance, half of it shared equally by {self.tests} statistical tests (Bonferroni); exact checks never "
            "fail by chance, and those of equality with a probability below 1e-9.",
        )

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

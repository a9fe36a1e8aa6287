"""An audit: exact, statistical and event checks, at the stated privacy parameters and at large ones."""

from __future__ import annotations

import io
import json
import logging
import os
import select
import signal
import subprocess
import sys
import time
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from dpinfer.checks import is_whole
from dpinfer.display.progress import check_progress, watched
from dpinfer.display.report import Report, Reported, Table, count, number
from dpinfer.errors import DPInferError, OptionError
from dpinfer.kernel.blocks import block_fits
from dpinfer.kernel.rows.blocks import BlockSum
from dpinfer.kernel.rows.products import ReplicateSum
from dpinfer.kernel.sampling import PrivateDraws
from dpinfer.kernel.stage import Resampled, Sum
from dpinfer.release.laws import NoiseLaw
from dpinfer.results.drawing import FAINT, MARKED, given_or_new, legend, restrain, titled
from dpinfer.studies.audit_draws import LawTest, replay_all, shares_pvalue, tests_of_laws
from dpinfer.studies.audit_exact import Finding, exact_findings, worst_of
from dpinfer.studies.audit_pairs import ODD, Units, frame_of, served, setting_of, source_of, strong, sums_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes

    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.procedures.procedure import Procedure
    from dpinfer.schema.schema import Schema
    from dpinfer.studies.audit_draws import Bounded
    from dpinfer.studies.audit_exact import StageWorst
    from dpinfer.studies.audit_pairs import AuditedRun, Setting, Stated, Unit

__all__ = ["FAMILYWISE", "Audit", "Finding", "audit", "event_findings", "label_tests", "labels_finding"]

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
    """Test by experiment whether a procedure reveals more about a row than its privacy parameters allow.

    The audit has three parts. *Exact*: it builds neighbouring data sets from the schema's bounds, from missing,
    impossible and extreme cells, and from the rows given. Hill climbing then maximizes the change of the integer sums
    relative to the change that their noise protects. This ratio is derived without the kernel's own cost code, and
    compared as a fraction. Every sampler is compared with its probability mass function, and choices by the exact
    probabilities of their outcomes. *Statistical*: the sums of the worst pair are computed once and the real noise is
    drawn many times. Thresholds of the likelihood ratio are chosen on one half of the runs and tested on the other, at
    the stated privacy parameters and at mu = 3 or epsilon = 3. *Events*: it compares types, names, lengths, warnings,
    logs, output and errors between neighbours, and checks labels of secret blocks, forked and new processes, and the
    charge.

    Parameters
    ----------
    procedure : Procedure
        A question, which may be one of your own. The audit asks it of made-up rows and never reads the data it is bound
        to.
    schema : Schema or None
        The schema of the rows; None takes that of the data to which the procedure is bound.
    privacy : PureDP, ZCDP, GDP or ApproxDP
        The privacy parameters to audit.
    neighbors : {"add_remove", "replace_one"}, optional
        By default that of the data to which the procedure is bound, else "add_remove".
    rows : DataFrame, optional
        Public rows. The neighbours share the first 60, and the search takes cells from them. By default rows spread
        evenly over the schema. Never pass confidential rows: the report shows cells.
    runs : int or "auto"
        Draws on each of the two neighbours, at least 200. "auto" takes 20,000, or fewer if many numbers are released.
    seed : int
        Chooses the pairs and labels to try, and nothing else: the noise is the kernel's own and has no seed.
    progress : bool, optional
        Whether to show a progress bar; by default the setting of `dpinfer.show_progress`.

    Returns
    -------
    Audit
        With ``.passed``, ``.epsilon`` and ``.mu`` (lower bounds at the stated privacy parameters), ``.ratio``,
        ``.plot()`` and ``.summary_frame()``; it prints as a report.

    Raises
    ------
    OptionError
        If an argument is invalid, or the procedure is bound to confidential rows and no public ``rows`` are given.
    DPInferError
        If the question cannot be measured with these privacy parameters.

    Notes
    -----
    Passing an audit is no proof of privacy; the proof is on the page of the kernel. An audit of a correct guarantee
    fails with probability at most 1e-4, the familywise error rate. All statistical tests share half of it (Bonferroni),
    and their p-values are exact binomial ones. Lower bounds from error rates follow Kairouz, Oh & Viswanath (2015) for
    epsilon and Dong, Roth & Su (2022) for mu, with the limits of Clopper & Pearson (1934).

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
    for at in watched(prices, "privacy parameters audited", total=len(prices), progress=progress):
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
    pair = "one block with an arbitrary fit" if most.worst.pair is None else str(most.worst.pair)
    pair = f"{pair if len(pair) < _PAIR else pair[:_PAIR] + ' ...'}, in {most.name}"
    ratio = max(most.share.ratio(most.amount), setting.stated.ratio(total))
    most_runs = max(one.runs for _, _, one in found)
    return Audit(
        run.plan.text, setting.privacy, setting.neighbors, setting.schema.unit, setting.stated,
        bounds["epsilon"], bounds["mu"], ratio, pair, (*exact, *statistical, *events), own.curve, most_runs, tests,
        FAMILYWISE, time.perf_counter() - started, tuple(notes),
    )  # fmt: skip


def _judged(bounded: list[Bounded], laws: list[tuple[str, LawTest]], level: float) -> list[Finding]:
    """Judge each statistical test at its share of the familywise error rate."""
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
    """The checks and findings of an audit, as `dpinfer.audit` returns them.

    Attributes
    ----------
    text : str
        The question.
    privacy : Privacy
        The stated privacy parameters.
    neighbors : {"add_remove", "replace_one"}
    unit : str
        The unit of protection.
    stated : Stated
        The stated guarantee, as an epsilon or a mu.
    epsilon, mu : float
        Lower bounds on the privacy loss at the stated privacy parameters, each wrong with probability below the
        familywise error rate. For a choice they are exact, from probabilities of outcomes; under zCDP mu is then sqrt(2
        rho).
    ratio : float
        Largest change between neighbours relative to the change that the noise protects at the stated privacy
        parameters. It is at most 1 if the guarantee is correct, and computed in exact arithmetic.
    pair : str
        The neighbours that attain it.
    findings : tuple of Finding
    curve : DataFrame or None
        Error rates of tests that distinguish the two neighbours, and the error rates that the guarantee allows.
    runs : int
        Largest number of draws on each data set.
    tests : int
        Number of statistical tests, which share the familywise error rate.
    error : float
        Familywise error rate: an upper bound on the probability that an audit of a correct guarantee fails by chance.
    seconds : float
    notes : tuple of str
        Checks that could not be made.
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
        """Whether every check passed."""
        return all(one.passed for one in self.findings)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The checks that failed."""
        return tuple(one for one in self.findings if not one.passed)

    @property
    def reached(self) -> float:
        """Lower bound as a share of the stated epsilon or mu."""
        return (self.epsilon if self.stated.kind == "epsilon" else self.mu) / self.stated.level

    def summary_frame(self) -> pd.DataFrame:
        """Return a table of checks with columns part, check, price, found, limit, passed and detail."""
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
            ("privacy", f"{self.privacy}, which states {kind} = {self.stated.level:.6g}"),
            ("neighbours", f"{self.neighbors}, of {self.unit}"),
            ("largest change", f"{self.ratio:.6g} times its bound, between {self.pair}"),
            ("lower bound", f"{kind} is at least {bound:.4g} ({self.reached:.0%} of the stated value)"),
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
        """Say what was tried, what would have been detected, and how often a correct guarantee fails."""
        parts = [one.part for one in self.findings]
        large = any(one.price not in ("", str(self.privacy)) for one in self.findings)
        exact, events = parts.count("exact"), parts.count("events")
        return (
            f"Tried: {exact} exact checks, by hill climbing over neighbouring data sets made of the schema's bounds, "
            f"missing, impossible and extreme cells; up to {count(self.runs)} real draws on each of two neighbours, "
            f"with the stated privacy parameters{' and with large ones' if large else ''}; {events} kinds of events.",
            "This would detect: an integer sum that changes between these neighbours by more than its noise allows, "
            "however little; a sum released without noise; a sampler whose scale, shape or remainders deviate by more "
            f"than the error of {count(self.runs)} draws; and any difference between these neighbours in types, names, "
            "lengths, warnings, logs, charges and errors.",
            "This cannot detect: what differs only between other neighbours, what takes more runs to see, and leaks "
            "through running time or memory. A lower bound is not a proof; the proof is on the page of the kernel.",
            f"The familywise error rate is at most {self.error:g}: the probability that an audit of a correct "
            f"guarantee fails by chance. Half of it is shared equally by {self.tests} statistical tests (Bonferroni); "
            "exact checks never fail by chance, and those of equality with a probability below 1e-9.",
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the measured trade-off curve together with the stated one.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        matplotlib.axes.Axes
            False alarms against missed detections, for tests that distinguish the two neighbours. A curve that lies
            below the stated one by more than its error shows a privacy loss above the stated one.
        """
        axes = given_or_new(ax, 5.2, 4.6)
        options: dict[str, Any] = {"lw": 1.6}
        if self.curve is not None:
            axes.plot(self.curve["false alarm"], self.curve["missed"], color="C0", label="measured", **options)
            stated = self.curve.sort_values("false alarm")
            axes.plot(stated["false alarm"], stated["missed, stated"], color=MARKED, ls="--",
                      label=f"stated: {self.privacy}", **options)  # fmt: skip
        axes.plot([0, 1], [1, 0], color=FAINT, lw=0.8, label="indistinguishable")
        axes.set(xlabel="false alarms", ylabel="missed", xlim=(0, 1), ylim=(0, 1))
        titled(axes, self.text)
        restrain(axes)
        legend(axes)
        return axes


_LONGEST = 30.0
"""Seconds that another process may take."""

_CHANCE = 1e-9
"""Probability of equality by chance from which two equal draws tell nothing."""

_WIDE = (2.0**40,) * 12
"""Scales of noise of which two draws are equal by no chance."""


def event_findings(audited: AuditedRun, worst: list[StageWorst], setting: Setting, units: Units) -> Iterator[Finding]:
    """Check everything that is not a distribution."""
    yield from _released_numbers(audited, setting)
    yield from _seen_of_neighbours(worst, setting, units)
    yield _charged_once(setting)
    yield from _processes()
    if audited.plan.blocks is not None:
        yield labels_finding(setting, audited)
        yield _other_blocks(setting, audited, units)


def _finding(check: str, failed: list[str], detail: str) -> Finding:
    return Finding("events", check, "", float(len(failed)), 0.0, not failed, "; ".join(failed[:4]) or detail)


def _released_numbers(audited: AuditedRun, setting: Setting) -> Iterator[Finding]:
    """Check that all released numbers are whole, in steps fixed by the privacy parameters alone.

    Each is the exact sum plus fresh noise from the stated distribution.
    """
    wrong, failed = [], []
    draws = iter(zip(audited.draws.laws, audited.draws.drawn, strict=True))
    for place, (stage, priced) in enumerate(zip(audited.release.stages, audited.stages, strict=True), 1):
        measure = priced.stage.measure
        kinds = {type(value).__name__ for value in stage.values}  # noqa: PD011  (no pandas object)
        if kinds - {"int"}:
            wrong.append(f"stage {place} released {', '.join(sorted(kinds))}")
        if (stage.law, stage.steps, stage.names) != (priced.law, priced.steps, priced.names):
            wrong.append(f"stage {place} has a distribution, steps or names other than those set for it")
        if not isinstance(measure, Sum | Resampled):
            continue
        law, noise = next(draws, (None, []))
        if law != stage.law:
            failed.append(f"stage {place} did not draw noise from its stated distribution")
        elif isinstance(measure, Sum) and not isinstance(priced.rows, BlockSum):
            exact = sums_of(priced.rows, setting.base, setting.schema)
            rest = [value - total * priced.multiplier for value, total in zip(stage.values, exact, strict=True)]
            if rest != noise:
                failed.append(f"stage {place} released a number other than the sum plus its noise")
    first, second = (PrivateDraws().noise(NoiseLaw("gaussian", _WIDE)) for _ in range(2))
    if first == second:
        failed.append("two draws are the same")
    check = "released numbers are whole, on the grid set by the privacy parameters"
    yield _finding(check, wrong, "types, steps, distributions, names")
    check = "released numbers are the exact sums plus the noise that was drawn, once"
    yield _finding(check, failed, "every noisy sum of a run")


# What is seen of a run


def _seen_of_neighbours(worst: list[StageWorst], setting: Setting, units: Units) -> Iterator[Finding]:
    """Compare everything a run shows between data sets that differ in one unit."""
    place, schema, corners = len(setting.base), setting.schema, units.corners()
    ordinary = None if setting.neighbors == "add_remove" else corners[0]
    pairs = [one.worst.pair for one in worst if one.worst.pair is not None][:2]
    tried: list[Unit | None] = [corners[1], *(pair.first for pair in pairs), *(pair.second for pair in pairs)]
    blocks = setting.resolved().units(setting.context)
    if blocks is None or blocks.trusted:  # a run that starts no processes of its own
        tried += corners[2:]
    base = _seen(setting, frame_of(setting.base, ordinary, schema, place))
    failed: dict[str, list[str]] = {"output": [], "shape": [], "error": []}
    shown = [unit for unit in tried if unit is not None]
    for unit in shown:
        seen = _seen(setting, frame_of(setting.base, unit, schema, place))
        cells = ", ".join(f"{name}={values[0]!r}" for name, values in list(unit.items())[:3])
        for part, differing in failed.items():
            if seen[part] != base[part]:
                differing.append(f"{cells}: {str(seen[part])[:120]} in place of {str(base[part])[:60]}")
    detail = f"{len(shown)} neighbours, among them {', '.join(map(repr, ODD[:6]))} in every column"
    yield _finding("warnings, logs and output are the same between neighbours", failed["output"], detail)
    yield _finding("types, names, lengths and distributions are the same between neighbours", failed["shape"], detail)
    yield _finding("no neighbour raises an error", failed["error"], detail)


def _seen(setting: Setting, frame: pd.DataFrame) -> dict[str, Any]:
    """Everything visible in a run except the noisy numbers, from which later stages are built."""
    heard: list[str] = []
    handler = logging.Handler(logging.DEBUG)
    handler.emit = lambda record: heard.append(f"{record.levelname}: {record.getMessage()}")  # type: ignore[method-assign]
    out, err, root = io.StringIO(), io.StringIO(), logging.getLogger()
    level, error, shape = root.level, "", None
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with warnings.catch_warnings(record=True) as caught, redirect_stdout(out), redirect_stderr(err):
            warnings.simplefilter("always")
            try:
                shape = _shape_of(setting.bound(frame).measure(setting.privacy))
            except DPInferError as met:
                error = f"{type(met).__name__}: {met}"
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    warned = [f"{one.category.__name__}: {one.message}" for one in caught]
    if shape is not None and setting.neighbors == "replace_one" and setting.schema.people is None:
        shape = (*shape, len(frame))
    return {"output": (warned, heard, out.getvalue(), err.getvalue()), "shape": shape, "error": error}


def _shape_of(release: Any) -> tuple[Any, ...]:
    stages = release.stages[: 1 if len(release.stages) > 1 else None]
    return (
        [(stage.names, stage.law, stage.steps, len(stage.values)) for stage in stages],
        sorted({type(value).__name__ for stage in stages for value in stage.values}),  # noqa: PD011
        json.dumps(release.question, sort_keys=True, default=str),
        release.cost.to_dict(),
        len(release.stages),
        release.nobs,
    )


def _charged_once(setting: Setting) -> Finding:
    """Ask twice of a ledger whose budget covers one run: it must grant the first and refuse the second."""
    question = setting.bound(setting.base)
    ledger: Any = question.source.ledger  # type: ignore[union-attr]
    failed = []
    for granted in (True, False):
        try:
            question.measure(setting.privacy)
            if not granted:
                failed.append("a second run was granted")
        except DPInferError as error:
            if granted:
                failed.append(f"the budget does not cover the run: {type(error).__name__}")
    if len(ledger.charges()) != 1:
        failed.append(f"{len(ledger.charges())} charges for one run")
    return _finding("a run is charged, and a second one refused", failed, "a ledger with the budget for one run")


# Processes


def _sample() -> dict[str, Any]:
    """Draws of every kind, which must not recur in another process."""
    draws = PrivateDraws()
    return {
        "gaussian": draws.noise(NoiseLaw("gaussian", _WIDE)),
        "laplace": draws.noise(NoiseLaw("laplace", _WIDE)),
        "labels": draws.labels(64, 2**20).tolist(),
        "bytes": list(draws.bytes()(0, 32)),
    }


def _repeated(samples: list[dict[str, Any]]) -> list[str]:
    failed = []
    for name in ("gaussian", "laplace", "labels", "bytes"):
        seen = [tuple(one[name]) for one in samples if name in one]
        if len(set(seen)) < len(seen):
            failed.append(f"{name} draws were repeated")
    return failed


def _processes() -> Iterator[Finding]:
    """Let forked and new processes draw: their noise must differ from this process's and from each other's.

    A copy of this process must draw none for an earlier charge.
    """
    check = "a forked process repeats no noise, and draws nothing for an earlier charge"
    if hasattr(os, "fork"):
        _sample()  # so that what is loaded once is loaded
        before = PrivateDraws()
        samples = [_in_fork(before) for _ in range(2)]
        failed = [f"{one['granted']} drawn after a fork for an earlier charge" for one in samples if one.get("granted")]
        failed += ["a forked process did not answer" for one in samples if not one]
        failed += _repeated([*samples, _sample()])
        yield _finding(check, failed, "two forks and their parent")
    else:
        yield _finding(check, [], "this system has no fork")
    others = _new_processes()
    failed = ["a new process did not answer"] * (2 - len(others))
    failed += _repeated([_sample(), *others])
    yield _finding("a new process repeats no noise", failed, "two new processes and this one")


def _in_fork(before: PrivateDraws) -> dict[str, Any]:
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks of a process with threads
        child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            found = _sample()
            try:
                before.noise(NoiseLaw("laplace", (1.0,)))
                found["granted"] = "noise"
            except DPInferError:
                found["granted"] = ""
            os.write(writer, json.dumps(found).encode())
        finally:
            os._exit(0)
    os.close(writer)
    try:
        answered = select.select([reader], [], [], _LONGEST)[0]
        text = b"".join(iter(lambda: os.read(reader, 65536), b"")) if answered else b""
    finally:
        os.close(reader)
        if not answered:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return dict(json.loads(text)) if text else {}


@cache
def _new_processes() -> list[dict[str, Any]]:
    """Draws of two new processes, started once; they have no access to what is audited."""
    folder = str(Path(__file__).parents[2])
    path = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    options["env"] = {**os.environ, "PYTHONPATH": path}
    script = f"import json; from {__name__} import _sample; print(json.dumps(_sample()))"
    started = [subprocess.Popen([sys.executable, "-c", script], **options) for _ in range(2)]
    texts = [one.communicate()[0] for one in started]
    return [json.loads(text) for one, text in zip(started, texts, strict=True) if not one.returncode]


# Labels of blocks


def labels_finding(setting: Setting, audited: AuditedRun) -> Finding:
    """Check that every run assigns each unit to a block anew, and once."""
    _, again = setting.recorded()
    runs = (audited.draws, again)
    failed = [f"labels were drawn {len(one.dealt)} times in a run" for one in runs if len(one.dealt) != 1]
    seen = [tuple(one.dealt[0].tolist()) for one in runs if one.dealt]
    first, second = (PrivateDraws().labels(64, 2**20).tolist() for _ in range(2))
    chance = float(len(set(seen[0]))) ** -len(seen[0]) if seen and seen[0] else 1.0
    if (len(seen) == 2 and seen[0] == seen[1] and chance < _CHANCE) or first == second:
        failed.append("two runs assigned rows to the same blocks")
    return _finding("secret labels are drawn once in a run, and anew in each", failed, "two runs")


def _other_blocks(setting: Setting, audited: AuditedRun, units: Units) -> Finding:
    """Check that, for given labels, adding or replacing a unit changes the fit of one block only."""
    plan = audited.plan
    assert plan.blocks is not None
    counted = plan.dealt(setting.bound(setting.base), audited.release.stages)
    blocks = replace(counted, count=4)
    corners, schema = units.corners(), setting.schema
    fits, labels = [], units.rng.integers(0, 8, len(setting.base) + schema.rows_per_unit)
    for unit in corners[:2]:
        source = source_of(frame_of(setting.base, unit, schema), schema)
        persons = getattr(source, "persons", None)
        mine = labels[: source.rows] if persons is None else labels[persons]
        fits.append(block_fits(blocks, source, mine, private=True))
    changed = [b for b in range(4) if not np.array_equal(fits[0][b], fits[1][b], equal_nan=True)]
    failed = [f"{len(changed)} blocks changed with one unit"] if len(changed) > 1 else []
    return _finding("a unit changes one block alone", failed, "four blocks, one unit replaced")


def label_tests(runs: int | None) -> list[LawTest]:
    """Test labels and the bytes of weights for equal shares, and for independence of the previous draw."""
    count = 20_000 if runs is None else max(runs, 2000)
    first, second = (PrivateDraws().labels(count, 8) for _ in range(2))
    drawn = np.frombuffer(PrivateDraws().bytes()(0, count), dtype=np.uint8)
    counted = {
        "secret labels: shares": (first, 8),
        "secret labels: jointly with those of another run": (first * 8 + second, 64),
        "bytes of weights: shares": (drawn >> 2, 64),
    }
    return [
        LawTest(what, shares_pvalue(np.bincount(values, minlength=kinds), np.full(kinds, 1 / kinds)))
        for what, (values, kinds) in counted.items()
    ]

"""An audit: exactly, statistically, and by events, at the stated price and at one where few runs tell much."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpinfer.display.progress import check_progress, watched
from dpinfer.errors import OptionError
from dpinfer.kernel.rows.products import ReplicateSum
from dpinfer.studies.auditing.events import event_findings, label_tests
from dpinfer.studies.auditing.exact import exact_findings, worst_of
from dpinfer.studies.auditing.result import Audit, Finding, pair_text
from dpinfer.studies.auditing.setting import served, setting_of
from dpinfer.studies.auditing.stated import strong
from dpinfer.studies.auditing.statistical import law_findings, replay_all
from dpinfer.studies.auditing.units import Units
from dpinfer.studies.power_truth import is_whole

if TYPE_CHECKING:
    import pandas as pd

    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.procedures.procedure import Procedure
    from dpinfer.schema.schema import Schema
    from dpinfer.studies.auditing.exact import StageWorst
    from dpinfer.studies.auditing.laws import LawTest
    from dpinfer.studies.auditing.setting import Asked, Setting
    from dpinfer.studies.auditing.statistical import Replays

__all__ = ["FAMILYWISE", "audit"]

FAMILYWISE = 1e-4
"""Probability, at most, that an audit of a true price fails by chance."""

_JUDGED = 0.5
"""Of the familywise error, shared by all tests; the rest is a margin for rounding and for equality by chance."""

_LEAST_RUNS = 200


@dataclass(frozen=True, eq=False, slots=True)
class _AtPrice:
    """What was found at one price."""

    setting: Setting
    asked: Asked
    worst: list[StageWorst]
    replays: Replays
    laws: list[LawTest]


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
    count = _checked_runs(runs)
    if not (is_whole(seed) and seed >= 0):
        raise OptionError("seed", seed, "a whole number, 0 or above: it chooses pairs, never noise")
    rng = np.random.default_rng(seed)
    setting = setting_of(procedure, schema, privacy, neighbors, rows, rng)
    notes: list[str] = []
    prices = [setting]
    large = served(setting, strong(privacy))
    if isinstance(large, str):
        notes.append(large)
    elif strong(privacy) != privacy:
        prices.append(large)
    parts = watched(prices, "prices audited", total=len(prices), progress=progress)
    found = [_at_price(one, rng, rows, count) for one in parts]
    own = found[0]
    exact = [finding for one in found for finding in exact_findings(one.asked, one.worst, one.setting)]
    units = Units(setting.schema, setting.neighbors, rng, rows)
    events = list(event_findings(own.asked, own.worst, setting, units))
    events.append(_whole(found))
    labels = label_tests(count) if _secret(own) else []
    return _audited(setting, found, exact, events, labels, notes, started)


def _checked_runs(runs: Any) -> int | None:
    if runs == "auto":
        return None
    if not (is_whole(runs) and _LEAST_RUNS <= runs <= 10**7):
        raise OptionError("runs", runs, f'"auto", or a whole number from {_LEAST_RUNS} to 10,000,000')
    return int(runs)


def _at_price(setting: Setting, rng: np.random.Generator, rows: pd.DataFrame | None, runs: int | None) -> _AtPrice:
    asked = setting.asked(setting.base)
    worst = worst_of(asked, setting, Units(setting.schema, setting.neighbors, rng, rows))
    return _AtPrice(setting, asked, worst, replay_all(worst, setting, runs), law_findings(worst, setting, runs))


def _secret(own: _AtPrice) -> bool:
    """Whether blocks or weights are drawn in secret."""
    return own.asked.plan.blocks is not None or any(isinstance(one.stage.rows, ReplicateSum) for one in own.worst)


def _whole(found: list[_AtPrice]) -> Finding:
    whole = all(one.replays.whole for one in found)
    return Finding("events", "repeated draws are whole numbers", "", 0.0 if whole else 1.0, 0.0, whole, "every run")


def _audited(
    setting: Setting,
    found: list[_AtPrice],
    exact: list[Finding],
    events: list[Finding],
    labels: list[LawTest],
    notes: list[str],
    started: float,
) -> Audit:
    """Judge all tests at their part of the familywise error, and put the findings together."""
    own = found[0]
    laws = [(str(one.setting.privacy), test) for one in found for test in one.laws]
    laws += [("", test) for test in labels]
    bounded = [one for at in found for one in at.replays.bounded]
    tests = len(laws) + len(bounded) + (own.replays.other is not None)
    level = _JUDGED * FAMILYWISE / max(tests, 1)
    statistical = []
    for one in bounded:
        lower = one.event.lower(one.stated.kind, level)
        told = f"event met in {one.event.met:,} of {one.event.of:,} runs, and {one.event.other_met:,} on the neighbour"
        statistical.append(
            Finding(
                "statistical",
                f"lower bound on {one.stated.kind}, {one.name}",
                one.price,
                lower,
                one.stated.level,
                lower <= one.stated.level,
                told,
            )
        )
    statistical += [
        Finding("statistical", f"draws: {test.what}", price, test.pvalue, level, test.pvalue >= level, "p-value")
        for price, test in laws
    ]
    epsilon, mu = _lower(own, level)
    worst = max(own.worst, key=lambda one: one.share.ratio(one.amount))
    total = sum((one.amount for one in own.worst), Fraction(0))
    ratio = max(worst.share.ratio(worst.amount), setting.stated.ratio(total))
    return Audit(
        text=own.asked.plan.text,
        privacy=setting.privacy,
        neighbors=setting.neighbors,
        unit=setting.schema.unit,
        stated=setting.stated,
        epsilon=epsilon,
        mu=mu,
        ratio=ratio,
        pair=pair_text(worst.worst.pair, worst.name),
        findings=(*exact, *statistical, *events),
        curve=own.replays.curve,
        runs=max(at.replays.runs for at in found),
        tests=tests,
        error=FAMILYWISE,
        seconds=time.perf_counter() - started,
        notes=tuple(notes),
    )


def _lower(own: _AtPrice, level: float) -> tuple[float, float]:
    """Lower bounds on epsilon and mu at the stated price: of draws from events, of choices exact."""
    bounds = {"epsilon": 0.0, "mu": 0.0}
    kind = own.setting.stated.kind
    if own.replays.bounded and own.replays.other is not None:
        bounds[kind] = own.replays.bounded[0].event.lower(kind, level)
        other = "mu" if kind == "epsilon" else "epsilon"
        bounds[other] = own.replays.other.lower(other, level)  # type: ignore[arg-type]
    for one in own.worst:
        if one.odds is not None:
            bounds["epsilon"] = max(bounds["epsilon"], one.odds.epsilon)
            bounds["mu"] = max(bounds["mu"], one.odds.mu)
    return bounds["epsilon"], bounds["mu"]

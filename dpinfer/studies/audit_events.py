"""What a data set could tell beside its noisy numbers: types, lengths, warnings, logs, labels, forks."""

from __future__ import annotations

import io
import json
import logging
import os
import select
import signal
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import DPInferError
from dpinfer.kernel.blocks import block_fits
from dpinfer.kernel.rows.blocks import BlockSum
from dpinfer.kernel.sampling import PrivateDraws
from dpinfer.kernel.stage import Resampled, Sum
from dpinfer.release.laws import NoiseLaw
from dpinfer.studies.audit_draws import LawTest, shares_pvalue
from dpinfer.studies.audit_exact import Finding
from dpinfer.studies.audit_pairs import ODD, frame_of, source_of, sums_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from dpinfer.studies.audit_exact import StageWorst
    from dpinfer.studies.audit_pairs import AuditedRun, Setting, Unit, Units

__all__ = ["event_findings", "label_tests", "labels_finding"]

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
    """Everything released is a whole number, in steps that were fixed by the price alone.

    Each is the exact sum plus what was drawn, under the law that is stated; and drawn anew.
    """
    wrong, failed = [], []
    draws = iter(zip(audited.draws.laws, audited.draws.drawn, strict=True))
    for place, (stage, priced) in enumerate(zip(audited.release.stages, audited.stages, strict=True), 1):
        measure = priced.stage.measure
        kinds = {type(value).__name__ for value in stage.values}  # noqa: PD011  (no pandas object)
        if kinds - {"int"}:
            wrong.append(f"stage {place} released {', '.join(sorted(kinds))}")
        if (stage.law, stage.steps, stage.names) != (priced.law, priced.steps, priced.names):
            wrong.append(f"stage {place} has another law, other steps or names than its price")
        if not isinstance(measure, Sum | Resampled):
            continue
        law, noise = next(draws, (None, []))
        if law != stage.law:
            failed.append(f"stage {place} drew no noise of the law that it tells")
        elif isinstance(measure, Sum) and not isinstance(priced.rows, BlockSum):
            exact = sums_of(priced.rows, setting.base, setting.schema)
            rest = [value - total * priced.multiplier for value, total in zip(stage.values, exact, strict=True)]
            if rest != noise:
                failed.append(f"stage {place} released another number than the sum and its noise")
    first, second = (PrivateDraws().noise(NoiseLaw("gaussian", _WIDE)) for _ in range(2))
    if first == second:
        failed.append("two draws are the same")
    yield _finding("released numbers are whole, on the grid that the price sets", wrong, "types, steps, laws, names")
    check = "released is the exact sum and the noise that was drawn, once"
    yield _finding(check, failed, "every noisy sum of a run")


# What is seen of a run


def _seen_of_neighbours(worst: list[StageWorst], setting: Setting, units: Units) -> Iterator[Finding]:
    """Compare all that a run shows between data sets that differ in one unit."""
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
    yield _finding("types, names, lengths and laws are the same between neighbours", failed["shape"], detail)
    yield _finding("no neighbour raises an error", failed["error"], detail)


def _seen(setting: Setting, frame: pd.DataFrame) -> dict[str, Any]:
    """Everything that a person sees of a run but the noisy numbers; later stages are built from these."""
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
    """Ask twice of a ledger that holds just the price: it pays for one run and refuses another."""
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
                failed.append(f"the price does not pay for the run: {type(error).__name__}")
    if len(ledger.charges()) != 1:
        failed.append(f"{len(ledger.charges())} charges for one run")
    return _finding("a run is charged, and a second one refused", failed, "a ledger that holds just the price")


# Processes


def _sample() -> dict[str, Any]:
    """Draws of every kind, which no other process may repeat."""
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
    """Let forks and new processes draw: other noise than this one and than each other.

    A copy of this process draws none for an earlier charge.
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
    """Draws of two new processes, started once: they know nothing of what is audited."""
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
    """Every run deals all units anew, once."""
    _, again = setting.recorded()
    runs = (audited.draws, again)
    failed = [f"labels were drawn {len(one.dealt)} times in a run" for one in runs if len(one.dealt) != 1]
    seen = [tuple(one.dealt[0].tolist()) for one in runs if one.dealt]
    first, second = (PrivateDraws().labels(64, 2**20).tolist() for _ in range(2))
    chance = float(len(set(seen[0]))) ** -len(seen[0]) if seen and seen[0] else 1.0
    if (len(seen) == 2 and seen[0] == seen[1] and chance < _CHANCE) or first == second:
        failed.append("two runs dealt rows alike")
    return _finding("secret labels are drawn once in a run, and anew in each", failed, "two runs")


def _other_blocks(setting: Setting, audited: AuditedRun, units: Units) -> Finding:
    """With the same labels a unit more, or another one, changes the fit of one block alone."""
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
    """Test labels and the bytes of weights for even shares, and for independence of the draw before."""
    count = 20_000 if runs is None else max(runs, 2000)
    first, second = (PrivateDraws().labels(count, 8) for _ in range(2))
    drawn = np.frombuffer(PrivateDraws().bytes()(0, count), dtype=np.uint8)
    counted = {
        "secret labels: shares": (first, 8),
        "secret labels: beside those of another run": (first * 8 + second, 64),
        "bytes of weights: shares": (drawn >> 2, 64),
    }
    return [
        LawTest(what, shares_pvalue(np.bincount(values, minlength=kinds), np.full(kinds, 1 / kinds)))
        for what, (values, kinds) in counted.items()
    ]

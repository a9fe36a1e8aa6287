"""Run every validation script and write one report: ``python -m validation --quick | --full | --fresh``.

A run that is stopped goes on where it was. ``--fresh --seed 7`` judges the same claims on other random numbers, at
fewer replicates, and writes to build; what it finds is kept in validation/output/fresh_seed.csv.
"""

from __future__ import annotations

import argparse
import base64
import csv
import html
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor

import dpinfer as dpi
from validation.common.code import code_of
from validation.common.outputs import OUTPUT, Options
from validation.common.rules import SEED, Claim
from validation.common.study import studied
from validation.common.timing import processor_seconds
from validation.reasons import REASONS
from validation.scripts import SCRIPTS, TIMED, module_of


class Ran(NamedTuple):
    """What a script showed, the processor time that it took, and the digest of the code that did."""

    claims: list[Claim]
    minutes: float
    code: str = ""


def run_script(name: str, arguments: Options) -> Ran:
    """Run a script, or read what an earlier run of the same code with the same options left."""
    state = arguments.out / "state" / f"{name}.json"
    key = f"{code_of(name)} {arguments.replicates} {arguments.seed}"
    if state.exists():
        stored = json.loads(state.read_text(encoding="utf-8"))
        if stored.pop("key") == key:
            print(f"{name}: done before")
            return Ran([Claim(**claim) for claim in stored["claims"]], stored["minutes"], code_of(name))
    print(f"{name}: {arguments.replicates:,} replicates")
    before = processor_minutes(ended=arguments.jobs > 1)
    claims = [
        completed(claim, name, arguments.replicates) for claim in studied(import_module(module_of(name)), arguments)
    ]
    ran = Ran(claims, round(processor_minutes(ended=arguments.jobs > 1) - before, 2), code_of(name))
    state.parent.mkdir(parents=True, exist_ok=True)
    stored = {"key": key, "claims": [asdict(claim) for claim in claims], "minutes": ran.minutes}
    state.write_text(json.dumps(stored), encoding="utf-8")
    return ran


def completed(claim: Claim, name: str, replicates: int) -> Claim:
    """Say of a claim that does not say so itself that it is of times, or exact, or has the replicates of the run."""
    if claim.kind != "value":
        return claim
    if name in TIMED:
        return replace(claim, kind="time")
    if claim.error == "exact":
        return replace(claim, kind="exact")
    return claim if claim.replicates else replace(claim, replicates=replicates)


def processor_minutes(*, ended: bool) -> float:
    """Return the processor time of this process and of all that it started and that have ended."""
    if ended:
        get_reusable_executor().shutdown(wait=True)
    return processor_seconds() / 60


def write_results(ran: Mapping[str, Ran], path: Path) -> None:
    """Write a row per claim, in the order of the scripts; rows of scripts that did not run are kept."""
    rows: dict[str, list[list[object]]] = {name: [] for name in SCRIPTS}
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            for name, *cells in [*csv.reader(file)][1:]:
                if name in rows and name not in ran:
                    rows[name].append([*cells])
    for name, found in ran.items():
        rows[name] = [[*asdict(claim).values(), found.minutes, found.code, 0] for claim in found.claims]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["script", *Claim.__dataclass_fields__, "minutes", "code", "compared"])
        writer.writerows([name, *cells] for name, found in rows.items() for cells in found)


def write_fresh(path: Path, seed: int) -> None:
    """Put what was found with a fresh seed beside the committed tables."""
    with path.open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    with (OUTPUT / "fresh_seed.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["seed", *head], *([seed, *row] for row in rows)])


def report(ran: Mapping[str, Ran], out: Path) -> str:
    """Return the report as one HTML page."""
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in (name, *asdict(claim).values())) + "</tr>"
        for name, found in ran.items()
        for claim in found.claims
    )
    heads = "".join(f"<th>{head}</th>" for head in ("script", *Claim.__dataclass_fields__))
    parts = [f"<h1>Validation of dpinfer {dpi.__version__}</h1><table><tr>{heads}</tr>{rows}</table>"]
    for name in ran:
        parts.append(f"<h2>{name}</h2>")
        for picture in sorted(out.glob(f"{name}*.png")):
            data = base64.b64encode(picture.read_bytes()).decode()
            parts.append(f'<img alt="{picture.stem}" src="data:image/png;base64,{data}">')
        parts.extend(
            f"<pre>{html.escape(page.read_text(encoding='utf-8'))}</pre>" for page in sorted(out.glob(f"{name}*.md"))
        )
    style = "body{font:15px system-ui;margin:2em auto;max-width:75em}table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.3em .6em;text-align:left}img{max-width:100%}pre{overflow-x:auto;background:#f5f6f8;padding:1em}"  # noqa: E501
    return f'<!doctype html><meta charset="utf-8"><title>dpinfer validation</title><style>{style}</style>' + "".join(
        parts
    )


def unexpected(name: str, claim: Claim) -> bool:
    """Whether a claim fails that neither depends on the machine nor is known, with its reason, not to hold."""
    return not claim.held and name not in TIMED and claim.kind != "time" and claim.what not in REASONS


def main() -> int:
    """Run the scripts; return 1 if a claim fails that is neither of times nor known not to hold."""
    parser = argparse.ArgumentParser(prog="python -m validation", description=(__doc__ or "").splitlines()[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--quick", action="store_true", help="few replicates, a few minutes; writes to build/validation")
    which.add_argument("--fresh", action="store_true", help="other random numbers, so that --seed is given, too")
    which.add_argument("--full", action="store_true", help="the published replicates; writes to validation/output")
    parser.add_argument("--only", choices=list(SCRIPTS), help="run one script, and leave the rest for another time")
    parser.add_argument(
        "--replicates", type=int, help="of a cell at most: a first look, which a longer run goes on from"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=SEED)
    read = parser.parse_args()
    if not (read.quick or read.fresh or read.full or read.only):
        parser.error("one of --quick, --fresh, --full, or --only, which is a full run of one script")
    if (read.seed == SEED) == read.fresh:
        parser.error(f"--fresh takes a --seed other than {SEED}, and nothing else does")
    mode = "quick" if read.quick else "fresh" if read.fresh else "full"
    out = {"quick": Path("build/validation"), "fresh": Path(f"build/seed-{read.seed}"), "full": OUTPUT}[mode]
    out.mkdir(parents=True, exist_ok=True)
    asked = {name: getattr(script, mode) for name, script in SCRIPTS.items() if read.only in (None, name)}
    command = f"python -m validation --{mode}"
    if read.replicates:
        asked = {name: min(count, read.replicates) for name, count in asked.items()}
        command += f" --replicates {read.replicates}"
    settings = {
        name: Options(count, read.seed, 1 if read.quick else read.jobs, out, command, name)
        for name, count in asked.items() if count
    }  # fmt: skip
    ran: dict[str, Ran] = {}
    if read.quick:  # one process a script: starting others would take longer than they save; times are not judged
        found = Parallel(n_jobs=read.jobs)(delayed(run_script)(name, given) for name, given in settings.items())
        ran |= dict(zip(settings, found, strict=True))
    for name, given in settings.items():
        if name not in ran:
            ran[name] = run_script(name, given)
            write_results(ran, (OUTPUT.parent if out == OUTPUT else out) / "results.csv")
    write_results(ran, (OUTPUT.parent if out == OUTPUT else out) / "results.csv")
    if read.fresh:
        write_fresh(out / "results.csv", read.seed)
    if read.only is None:
        (out / "report.html").write_text(report(ran, out), encoding="utf-8")
    listed = [(name, claim) for name, found in ran.items() for claim in found.claims]
    for name, claim in listed:
        print(f"{'held  ' if claim.held else 'FAILED'} {name}: {claim.what}: {claim.ours}")
    print(f"{sum(claim.held for _, claim in listed)} of {len(listed)} claims held; tables and figures in {out}")
    return 1 if any(unexpected(name, claim) for name, claim in listed) else 0


if __name__ == "__main__":
    sys.exit(main())

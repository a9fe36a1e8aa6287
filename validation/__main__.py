"""Run every validation script and write one report: ``python -m validation --quick | --full``."""

from __future__ import annotations

import argparse
import base64
import csv
import html
import json
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

import dpinfer as dpi
from validation.common.outputs import OUTPUT, Claim, Options
from validation.scripts import SCRIPTS, TIMED, module_of


def run_script(name: str, arguments: Options) -> list[Claim]:
    """Run a script, or read what an earlier run with the same options left."""
    state = arguments.out / "state" / f"{name}.json"
    key = f"{dpi.__version__} {arguments.replicates} {arguments.seed}"
    if state.exists():
        stored = json.loads(state.read_text(encoding="utf-8"))
        if stored["key"] == key:
            print(f"{name}: done before")
            return [Claim(**claim) for claim in stored["claims"]]
    print(f"{name}: {arguments.replicates:,} replicates")
    claims = import_module(module_of(name)).run(arguments)
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_text(json.dumps({"key": key, "claims": [asdict(claim) for claim in claims]}), encoding="utf-8")
    return claims


def write_results(claims: list[tuple[str, Claim]], path: Path) -> None:
    """Write a row per claim, in the order of the scripts; rows of scripts that did not run are kept."""
    rows: dict[str, list[list[object]]] = {name: [] for name in SCRIPTS}
    ran = {name for name, _ in claims}
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            for name, *cells in [*csv.reader(file)][1:]:
                if name in rows and name not in ran:
                    rows[name].append([*cells])
    for name, claim in claims:
        rows[name].append([*asdict(claim).values()])
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["script", *Claim.__dataclass_fields__])
        writer.writerows([name, *cells] for name, found in rows.items() for cells in found)


def report(claims: list[tuple[str, Claim]], out: Path) -> str:
    """Return the report as one HTML page."""
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in (name, *asdict(claim).values())) + "</tr>"
        for name, claim in claims
    )
    heads = "".join(f"<th>{head}</th>" for head in ("script", *Claim.__dataclass_fields__))
    parts = [f"<h1>Validation of dpinfer {dpi.__version__}</h1><table><tr>{heads}</tr>{rows}</table>"]
    for name in dict(claims):
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


def main() -> int:
    """Run the scripts; return 1 if a claim that does not depend on the machine failed."""
    parser = argparse.ArgumentParser(prog="python -m validation", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--quick", action="store_true", help="few replicates, a few minutes; writes to build/validation")
    which.add_argument("--full", action="store_true", help="the published replicates; writes to validation/output")
    parser.add_argument("--only", choices=list(SCRIPTS), help="run one script, and leave the rest for another time")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=20261120)
    read = parser.parse_args()
    out = Path("build/validation") if read.quick else OUTPUT
    out.mkdir(parents=True, exist_ok=True)
    claims = []
    for name, script in SCRIPTS.items():
        if read.only not in (None, name):
            continue
        command = f"python -m validation {'--quick' if read.quick else '--full'}"
        arguments = Options(script.quick if read.quick else script.full, read.seed, read.jobs, out, command)
        claims += [(name, claim) for claim in run_script(name, arguments)]
    write_results(claims, (out if read.quick else OUTPUT.parent) / "results.csv")
    if read.only is None:
        (out / "report.html").write_text(report(claims, out), encoding="utf-8")
    failed = [claim for name, claim in claims if not claim.held and name not in TIMED]
    for name, claim in claims:
        print(f"{'held  ' if claim.held else 'FAILED'} {name}: {claim.what}: {claim.ours}")
    print(f"{sum(claim.held for _, claim in claims)} of {len(claims)} claims held; tables and figures in {out}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

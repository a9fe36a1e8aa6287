"""A newcomer's path, timed: an empty environment, a CSV with a codebook, and a first table with standard errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import statsmodels.api as sm

from validation.common.outputs import Options, write_table
from validation.common.rules import Claim

ROOT = Path(__file__).parents[2]
MOST_SECONDS, MOST_LINES = 180, 15

CODEBOOK = {
    "fields": [
        {"name": "occrate", "type": "integer", "title": "Rating of the marriage",
         "constraints": {"minimum": 1, "maximum": 5}},
        {"name": "age", "type": "number", "title": "Age", "unit": "years",
         "constraints": {"minimum": 17.5, "maximum": 42}},
        {"name": "yrs_married", "type": "number", "title": "Years married", "unit": "years",
         "constraints": {"minimum": 0.5, "maximum": 23}},
        {"name": "religious", "type": "integer", "categories": [
            {"value": 1, "label": "not"}, {"value": 2, "label": "mildly"},
            {"value": 3, "label": "fairly"}, {"value": 4, "label": "strongly"}]},
    ]
}  # fmt: skip
"""What a survey would publish of its columns, as a Table Schema."""

SCRIPT = """\
import pandas as pd
import dpinfer as dpi

schema = dpi.read_codebook("survey.json", source="codebook of the survey")
ledger = dpi.Ledger("survey.db", dataset="survey", budget=dpi.ZCDP(1.0), neighbors="add_remove")
data = dpi.PrivateData(pd.read_csv("survey.csv"), schema, ledger)

print(dpi.quality(data).fit(dpi.ZCDP(0.01), save="quality.json"))
model = dpi.ols("occrate ~ age + yrs_married + C(religious)", data)
print(model.explain(dpi.ZCDP(0.2)))
print(model.fit(dpi.ZCDP(0.2), save="rating.json").summary())
"""
"""What the newcomer writes; run twice, it pays once."""


def lines() -> int:
    """Lines of the script that are not blank."""
    return sum(bool(line.strip()) for line in SCRIPT.splitlines())


def survey() -> pd.DataFrame:
    """The survey of Fair (1978), of 6,366 women, that statsmodels ships."""
    rows = sm.datasets.fair.load_pandas().data.rename(columns={"rate_marriage": "occrate"})
    return rows[["occrate", "age", "yrs_married", "religious"]].astype({"occrate": int, "religious": int})


def walk(folder: Path) -> dict[str, float | bool]:
    """Go the whole way in an empty folder; return seconds of each step, and whether the second run paid nothing."""
    survey().to_csv(folder / "survey.csv", index=False)
    (folder / "survey.json").write_text(json.dumps(CODEBOOK), encoding="utf-8")
    (folder / "first.py").write_text(SCRIPT, encoding="utf-8")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    started = time.perf_counter()
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    _call([python, "-m", "pip", "install", "--quiet", ROOT], folder, clean)
    installed = time.perf_counter()
    first = _call([python, "first.py"], folder, clean)
    ended = time.perf_counter()
    again = _call([python, "first.py"], folder, clean)
    return {
        "install": installed - started,
        "first table": ended - installed,
        "table": "yrs_married" in first,
        "same when run twice": first == again,
    }


def _call(command: list[object], folder: Path, environment: dict[str, str]) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stderr)
        done.check_returncode()
    return done.stdout


def run(arguments: Options) -> list[Claim]:
    """Walk the path once."""
    with TemporaryDirectory() as folder:
        steps = walk(Path(folder))
    table = pd.DataFrame([{"lines": lines(), **steps}])
    write_table(table, "newcomer", arguments, ["Seconds, with the package registry at hand."])
    return claims(table)


def claims(table: pd.DataFrame) -> list[Claim]:
    """Judge time, lines, and that a second run gives what was there."""
    row = table.iloc[0]
    seconds = float(row["install"] + row["first table"])
    return [
        Claim("seconds from an empty environment to a first table of one's own",
              "CSV with a codebook, quality included", f"{seconds:.0f}", row["table"] and seconds < MOST_SECONDS,
              kind="time", threshold=f"below {MOST_SECONDS}"),
        Claim("lines of a newcomer's script", "schema, ledger, quality, explanation, regression", f"{row['lines']}",
              row["lines"] <= MOST_LINES, error="exact", threshold=f"at most {MOST_LINES}"),
        Claim("a script that runs twice gives the same and pays once", "`fit(save=)`",
              "yes" if row["same when run twice"] else "no", row["same when run twice"], error="exact",
              threshold="yes"),
    ]  # fmt: skip

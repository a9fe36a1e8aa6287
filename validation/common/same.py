"""Whether scripts draw what they drew at an earlier commit: ``python -m validation.common.same COMMIT --replicates 5``.

A change that moves no number (of speed, of memory, of names) makes the tables older than the code all the same. Here
both states draw the first replicates of every cell of a script from the same seeds. Where all agree the table is one of
today's code, too: its rows are given today's digest, and beside it the replicates that were compared.
"""

from __future__ import annotations

import argparse
import pickle
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib import import_module
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from validation.common.code import code_of  # these are of the tree on the path, which may be an earlier one
from validation.common.rules import SEED
from validation.scripts import module_of

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "validation" / "results.csv"
NEAR = 1e-6
"""Relative difference that order of summation may make, through iterations that end by a tolerance."""

Arrays = dict[tuple[str, int, str], np.ndarray]


def drawn(script: str, replicates: int) -> Arrays | None:
    """Draw of every cell as the code on the path does, by study, place and array; None where a script has no cells."""
    found = getattr(import_module(module_of(script)), "STUDY", None)
    if found is None:
        return None
    return {
        (study.name, place, name): np.asarray(one)
        for study in (found if isinstance(found, tuple) else (found,))
        for place, cell in enumerate(study.grid)
        for name, one in study.draw(cell, np.random.default_rng([SEED, place, 0]), replicates).items()
    }


def _asked(tree: Path, *of: str) -> Any:
    """Return what a call of this file says under the code of a tree."""
    environment = {"PYTHONPATH": str(tree), "OPENBLAS_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    call = [sys.executable, "-P", __file__, "--answer", *of]
    return pickle.loads(subprocess.run(call, cwd=tree, env=environment, stdout=subprocess.PIPE, check=True).stdout)


def codes(scripts: list[str]) -> dict[str, str]:
    """Return the digests of scripts, of the code on the path."""
    return {name: code_of(name) for name in scripts}


def differing(before: Arrays, after: Arrays, apart: str = "") -> Iterator[str]:
    """Yield what was drawn by one state alone, or otherwise, but for arrays whose names have ``apart`` in them."""
    for key in {**before, **after}:
        if not (apart and apart in key[2]) and not _agree(before.get(key), after.get(key)):
            yield " ".join(map(str, key))


def _agree(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None or one.shape != other.shape:
        return False
    if one.dtype.kind in "fc":
        return np.allclose(one, other, rtol=NEAR, atol=0, equal_nan=True)
    return bool((one == other).all())


def carried(results: pd.DataFrame, script: str, code: str, replicates: int, apart: str = "") -> pd.DataFrame:
    """Return results, cells as text, with a digest in the rows of a script, but for claims that speak of ``apart``."""
    rows = results["script"] == script
    if apart:
        rows &= ~results["what"].str.contains(apart, regex=False)
    before = results.loc[rows, "compared"].astype(int)
    found = results.copy()
    found.loc[rows, "compared"] = before.where((before > 0) & (before < replicates), replicates).astype(str)
    found.loc[rows, "code"] = code
    return found


def compare(before: Path, scripts: list[str], replicates: int, apart: str) -> None:
    """Ask an earlier tree and this one, and give today's digest to the rows of scripts that draw the same."""
    results = pd.read_csv(RESULTS, dtype=str, keep_default_na=False)
    then, now = (_asked(tree, "codes", *scripts) for tree in (before, ROOT))
    made = results.groupby("script")["code"].agg(set)
    for name in scripts:
        if then[name] not in made[name] or made[name] == {now[name]}:
            continue
        calls = [delayed(_asked)(tree, "drawn", name, str(replicates)) for tree in (before, ROOT)]
        first, second = Parallel(n_jobs=2, prefer="threads")(calls)
        if first is None or second is None:
            print(f"{name}: has no cells to compare")
            continue
        away = [*differing(first, second, apart)]
        print(f"{name}: {len(away)} of {len(second):,} arrays differ", *away[:8], sep="; ", flush=True)
        if not away:
            results = pd.read_csv(RESULTS, dtype=str, keep_default_na=False)  # which may have been written to since
            results = carried(results, name, now[name], replicates, apart)
            results.to_csv(RESULTS, index=False, lineterminator="\r\n")


def main() -> None:
    """Compare the scripts whose tables a commit made."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.common.same", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("commit")
    parser.add_argument("--replicates", type=int, default=3, help="of every cell")
    parser.add_argument("--only", nargs="*", help="scripts; by default all whose tables are of that commit's code")
    parser.add_argument("--apart", default="", help="a word: what has it is not compared, nor carried")
    read = parser.parse_args()
    files = ["git", "archive", read.commit, "dpinfer", "validation", "pyproject.toml"]
    with TemporaryDirectory() as folder:
        archive = BytesIO(subprocess.run(files, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
        with tarfile.open(fileobj=archive) as held:
            held.extractall(folder, filter="data")
        scripts = read.only or [*pd.read_csv(RESULTS)["script"].unique()]
        compare(Path(folder), scripts, read.replicates, read.apart)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--answer"]:
        what, *of = sys.argv[2:]
        answer = codes(of) if what == "codes" else drawn(of[0], int(of[1]))
        sys.stdout.buffer.write(pickle.dumps(answer))
    else:
        main()

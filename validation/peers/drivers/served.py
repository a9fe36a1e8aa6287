"""A driver reads a job, asks its package once for each data set, and writes the answers.

Drivers run in the environment of the package that they serve: this file imports numpy and the standard library alone.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np


def rows_of(population, n, seed, replicate, independent=False):
    """Draw n rows with replacement from (N, k) rows; independent columns make independence true."""
    rng = np.random.default_rng([seed, replicate])
    if not independent:
        return population[rng.integers(len(population), size=n)]
    return np.column_stack([column[rng.integers(len(population), size=n)] for column in population.T])


def answers(ask, population, job):
    """Ask once for each data set; what was raised is kept in words, and counted by whoever asked."""
    found = []
    for replicate in range(job["replicates"]):
        rows = rows_of(population, job["n"], job["seed"], replicate, job["independent"])
        began, wall = time.process_time(), time.perf_counter()
        try:
            answer = {key: np.asarray(value, dtype=float).tolist() for key, value in ask(rows, job).items()}
        except Exception as error:
            answer = {"failed": f"{type(error).__name__}: {error}"[:300]}
        answer["seconds"] = time.process_time() - began
        answer["wall"] = time.perf_counter() - wall
        answer["sum"] = float(rows.sum())
        found.append(answer)
    return found


def serve(methods, packages, ready=None):
    """Read the job, ask one of the methods, and write what it answers.

    ``methods`` are functions of rows and job that return a mapping of names to numbers. Loading is the processor time
    of this process until it was ready: Python, numpy and the package.
    """
    loading = time.process_time() if ready is None else ready
    job_file, answer_file = (Path(name) for name in sys.argv[1:3])
    job = json.loads(job_file.read_text(encoding="utf-8"))
    warnings.simplefilter("ignore")
    found = answers(methods[job["method"]], np.load(job["population"]), job)
    told = {"answers": found, "loading": loading, "versions": {name: version(name) for name in packages}}
    answer_file.write_text(json.dumps(told), encoding="utf-8")

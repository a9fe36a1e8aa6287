"""Forked processes never repeat each other's noise, and share a budget or are refused."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

SCRIPT = """
import json, os, sys, warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", message=".*use of fork", category=DeprecationWarning)
import numpy as np
import dpinfer as dpi
from dpinfer.mechanisms import samplers

schema = dpi.Schema(x=dpi.Real(0, 1), y=dpi.Real(0, 1))
frame = schema.sample(500, np.random.default_rng(0))
budget = dpi.ZCDP(1.0)
if sys.argv[1] == "memory":
    ledger = dpi.Ledger.in_memory(budget)
else:
    ledger = dpi.Ledger(sys.argv[1], dataset="forked", budget=budget)
data = dpi.PrivateData(frame, schema, ledger)
question = dpi.ols("y ~ x", data)
drawn = [0]
true_noise = samplers.private_noise

def counted(law):
    drawn[0] += 1
    return true_noise(law)

from dpinfer.mechanisms import kernel
kernel.private_noise = counted
before = question.measure(dpi.ZCDP(0.1)).values  # loads the samplers and starts threads before the fork
drawn[0] = 0

def child():
    try:
        return {"values": question.fit(dpi.ZCDP(0.1)).release.values}
    except dpi.errors.DPInferError as error:
        return {"error": type(error).__name__, "drawn": drawn[0]}

answers = []
for _ in range(3):
    reader, writer = os.pipe()
    identifier = os.fork()
    if identifier == 0:
        os.write(writer, json.dumps(child()).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answers.append(json.loads(pipe.read()))
    os.waitpid(identifier, 0)
print(json.dumps({"parent": before, "children": answers, "spent": ledger.spent.rho, "after": child()}))
"""


def run(where):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(where)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return json.loads(done.stdout)


def test_forked_processes_draw_different_noise(tmp_path):
    """Every sum differs; two draws at these scales agree with probability below 1e-10."""
    answer = run(tmp_path / "study.db")
    releases = [answer["parent"], answer["after"]["values"], *(child["values"] for child in answer["children"])]
    for place in range(len(releases[0])):
        assert len({release[place] for release in releases}) == len(releases)
    assert answer["spent"] == 0.4


def test_a_ledger_in_memory_is_refused_in_a_fork_and_nothing_is_drawn():
    answer = run("memory")
    assert answer["children"] == [{"error": "LedgerError", "drawn": 0}] * 3
    assert answer["spent"] == 0.1
    assert "values" in answer["after"]

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
from dpinfer.kernel import sampling

schema = dpi.Schema(x=dpi.Real(0, 1), y=dpi.Real(0, 1))
frame = schema.sample(500, np.random.default_rng(0))
budget = dpi.ZCDP(1.0)
drawn = [0]
true_noise = sampling.private_noise

def counted(law):
    drawn[0] += 1
    return true_noise(law)

from tests.linear import gram_ols
sampling.private_noise = counted


def child(question):
    try:
        return {"values": question.fit(dpi.ZCDP(0.1)).release.values}
    except dpi.errors.DPInferError as error:
        return {"error": type(error).__name__, "drawn": drawn[0]}


def forked(ledger):
    question = gram_ols("y ~ x", dpi.PrivateData(frame, schema, ledger))
    before = child(question)  # loads the samplers and starts threads before the fork
    drawn[0] = 0
    answers = []
    for _ in range(3):
        reader, writer = os.pipe()
        identifier = os.fork()
        if identifier == 0:
            os.write(writer, json.dumps(child(question)).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            answers.append(json.loads(pipe.read()))
        os.waitpid(identifier, 0)
    return {"before": before, "children": answers, "spent": ledger.spent.rho, "after": child(question)}


ledger = dpi.Ledger(sys.argv[1], dataset="forked", budget=budget)
print(json.dumps({"file": forked(ledger), "memory": forked(dpi.Ledger.in_memory(budget))}))
"""


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    """Three children forked one after the other, for a ledger in a file and for one in memory."""
    where = tmp_path_factory.mktemp("forked") / "study.db"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(where)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_forked_processes_draw_different_noise(answer):
    """Every sum differs; two draws at these scales agree with probability below 1e-10."""
    found = answer["file"]
    releases = [each["values"] for each in (found["before"], found["after"], *found["children"])]
    for place in range(len(releases[0])):
        assert len({release[place] for release in releases}) == len(releases)
    assert found["spent"] == 0.4


def test_a_ledger_in_memory_is_refused_in_a_fork_and_nothing_is_drawn(answer):
    found = answer["memory"]
    assert found["children"] == [{"error": "LedgerError", "drawn": 0}] * 3
    assert found["spent"] == 0.1
    assert "values" in found["after"]

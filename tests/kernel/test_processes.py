"""Forked processes never repeat each other's noise, and share a budget or are refused."""

import json

import pytest

from tests.processes import needs_fork, start

pytestmark = needs_fork

SCRIPT = """
import json, os, random, sys, warnings
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

from dpinfer.kernel.sources import open_source
from dpinfer.kernel.sums import replicate_sums
from dpinfer.resampling.bootstrap import BootstrapPlan
from tests.linear import gram_ols
sampling.private_noise = counted
rows = BootstrapPlan(schema, ("x",), replicates=4).rows


def child(question):
    try:
        found = {"values": question.fit(dpi.ZCDP(0.1)).release.values}
        for _ in range(2):
            np.random.seed(1)
            random.seed(1)
            found["labels"] = [*found.get("labels", []), sampling.PrivateDraws().labels(40, 1000).tolist()]
            found["weights"] = replicate_sums(rows, open_source(frame), sampling.PrivateDraws())[1::2]
        return found
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
    output, told = (process := start(SCRIPT, where)).communicate(timeout=120)
    assert (process.returncode, told) == (0, "")
    return json.loads(output)


def test_forked_processes_draw_different_noise_labels_and_weights(answer):
    """Whatever the seeds are. Each list of draws agrees with another with probability below 1e-10."""
    found = answer["file"]
    drawn = [found["before"], found["after"], *found["children"]]
    assert {len(set(column)) for column in zip(*(each["values"] for each in drawn), strict=True)} == {5}
    assert len({tuple(labels) for each in drawn for labels in each["labels"]}) == 10
    assert len({tuple(each["weights"]) for each in drawn}) == 5
    assert found["spent"] == 0.4


def test_a_ledger_in_memory_is_refused_in_a_fork_and_nothing_is_drawn(answer):
    found = answer["memory"]
    assert found["children"] == [{"error": "LedgerError", "drawn": 0}] * 3
    assert found["spent"] == 0.1
    assert "values" in found["after"]

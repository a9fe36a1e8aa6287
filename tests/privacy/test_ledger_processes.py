"""The ledger over processes: races, kills at random instants, forks.

``DPINFER_KILLS=200`` runs the long version of the killing test.
"""

import json
import os

from dpinfer.privacy.accounting import laplace_cost
from dpinfer.privacy.ledger import Ledger
from dpinfer.privacy.units import PureDP
from tests.processes import needs_fork, start

KILLS = int(os.environ.get("DPINFER_KILLS", "25"))

COMMON = """
import json, os, random, signal, sys, time, warnings
warnings.simplefilter("error")
from dpinfer.errors import BudgetExceededError, LedgerError
from dpinfer.privacy.accounting import laplace_cost
from dpinfer.privacy.ledger import Ledger
from dpinfer.privacy.units import PureDP
cost = laplace_cost(PureDP(0.1))
"""

RACER = (
    COMMON
    + """
path, go = sys.argv[1:]
children = 0
while children < 4 and os.fork():  # the interpreter itself only waits
    children += 1
if children == 4:
    print("ready", flush=True)
    sys.exit(max(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(4)))
while not os.path.exists(go):
    time.sleep(0.001)
ledger = Ledger(path, dataset="d", budget=PureDP(4.0))  # eight processes create it together
granted = []
try:
    while True:
        granted.append(ledger.charge(cost, "race"))
        time.sleep(0.003)  # lets others in
except BudgetExceededError:
    os.write(1, (json.dumps(granted) + "\\n").encode())
    os._exit(0)
"""
)

KILLER = (
    COMMON
    + """
path, kills = sys.argv[1], int(sys.argv[2])
chance = random.Random(20240)
acknowledged, started = [], 0
children, patience = 0, 0.06  # seconds: a machine under load takes longer to the first charge
while started < kills and children < 20 * kills:
    children += 1
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        ledger = Ledger(path, dataset="d", budget=PureDP(1e6))  # the first children may die creating it
        while True:
            os.write(writer, (ledger.charge(cost, "x") + "\\n").encode())
    os.close(writer)
    time.sleep(chance.uniform(0.0, patience))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        lines = pipe.read().split()
    started += bool(lines)
    patience = patience if lines else min(1.1 * patience, 2.0)
    acknowledged += lines
print(json.dumps([acknowledged, started, children]))
"""
)

FORKER = (
    COMMON
    + """
memory, file = Ledger.in_memory(PureDP(1.0)), Ledger(sys.argv[1], dataset="d", budget=PureDP(1.0))
for ledger in (memory, file):
    ledger.charge(cost, "parent")
refused = 0
child = os.fork()
if child == 0:
    attempts = (
        lambda: memory.charge(cost, "child"),
        lambda: memory.can_afford(cost),
        lambda: memory.remaining,
        memory.charges,
    )
    for attempt in attempts:
        try:
            attempt()
        except LedgerError as error:
            refused += "another process" in str(error)
    file.charge(cost, "child")
    os._exit(refused)
status = os.waitpid(child, 0)[1]
for ledger in (memory, file):
    ledger.charge(cost, "parent")
print(json.dumps([os.waitstatus_to_exitcode(status), len(memory.charges()), len(file.charges())]))
"""
)


def answer(process, timeout=120):
    output, told = process.communicate(timeout=timeout)
    assert process.returncode == 0, told
    return json.loads(output.splitlines()[-1])


@needs_fork
def test_eight_processes_spend_all_and_no_more(tmp_path):
    """Two interpreters of four processes each."""
    path, go = tmp_path / "race.db", tmp_path / "go"
    racers = [start(RACER, path, go) for _ in range(2)]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    go.touch()
    outputs = [racer.communicate(timeout=120)[0].splitlines() for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    assert [len(lines) for lines in outputs] == [4, 4]
    shares = [json.loads(line) for lines in outputs for line in lines]
    assert sum(bool(share) for share in shares) > 1, "one process took all: the test proves little"
    granted = [identifier for share in shares for identifier in share]
    ledger = Ledger.open(path)
    assert len(granted) == len(set(granted)) == 40
    assert set(granted) == set(ledger.charges()["id"])
    assert ledger.spent == PureDP(4.0)
    assert ledger.remaining == PureDP(0.0)


@needs_fork
def test_a_killed_process_never_gives_budget_back(tmp_path):
    path = tmp_path / "killed.db"
    acknowledged, started, children = answer(start(KILLER, path, KILLS), timeout=300)
    assert started == KILLS, "too few children were killed after their first charge: the test proves little"
    ledger = Ledger(path, dataset="d", budget=PureDP(1e6))
    stored = list(ledger.charges()["id"])
    assert set(acknowledged) <= set(stored)
    assert len(acknowledged) <= len(stored) <= len(acknowledged) + children
    before = ledger.spent
    ledger.charge(laplace_cost(PureDP(0.1)), "still usable")
    assert ledger.spent == before + PureDP(0.1)


@needs_fork
def test_a_fork_shares_a_ledger_in_a_file_and_is_refused_one_in_memory(tmp_path):
    assert answer(start(FORKER, tmp_path / "fork.db")) == [4, 2, 3]

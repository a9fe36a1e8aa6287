"""Kept fits over processes: a script that is run twice, kills at every step, processes at once, a full disk.

Every process is real, and so is every kill: SIGKILL from within, at the step that is named.
"""

import json
import os
import signal
import time

import pytest

import dpinfer as dpi
from tests.processes import needs_fork, start

STUDY = """
import json, os, resource, signal, sys, time
import numpy as np
import dpinfer as dpi
from dpinfer.errors import DPInferError
from dpinfer.kernel import run
from dpinfer.privacy.store import Account
from dpinfer.release import saving

schema = dpi.Schema(x=dpi.Real(0, 10), g=dpi.Category(["a", "b"]))
frame = schema.sample(200, np.random.default_rng(1))
kept = len(sys.argv) > 1 and sys.argv[1] == "kept"
ledger = dpi.Ledger("study.db", dataset="survey", budget=dpi.ZCDP(1.0), keep=kept)
data = dpi.PrivateData(frame, schema, ledger)

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def tell(found):
    print(json.dumps(found), flush=True)
"""

SCRIPT = STUDY + 'tell(dpi.mean("x", data).fit(dpi.ZCDP(0.1), save="mean.json").params.tolist())\n'

STEPS = {
    "before the charge": "Account.charge = die",
    "between the charge and the draw": "run._measure = die",
    "between the draw and the file": "saving.SavedRelease.write = die",
    "while the file is written": "from pathlib import Path; Path.replace = die",
    "between the file and the end of the reservation": "saving.ReservedFile.remove = die",
}
PAID = {"between the charge and the draw", "between the draw and the file", "while the file is written"}


def ended(process, timeout=120):
    output, told = process.communicate(timeout=timeout)
    return process.returncode, output.splitlines(), told


def charges(folder):
    return len(dpi.Ledger.open(folder / "study.db").charges())


def names(folder):
    return sorted(one.name for one in folder.iterdir() if not one.name.startswith("study.db"))


@pytest.mark.sweep(2)
@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_every_step(step, tmp_path):
    """What was paid stays paid, and the next run says so; what was not paid is forgotten."""
    code, *_ = ended(start(SCRIPT.replace("def tell", STEPS[step] + "\n\ndef tell"), folder=tmp_path))
    assert code == -9
    assert "mean.json.reserved" in names(tmp_path)
    assert charges(tmp_path) == (step != "before the charge")
    code, output, told = ended(start(SCRIPT, folder=tmp_path))
    if step not in PAID:
        assert code == 0, told
        assert names(tmp_path) == ["mean.json"]
    else:
        identifier = dpi.Ledger.open(tmp_path / "study.db").charges()["id"][0]
        assert code == 1
        stands = f"ReleaseLostError: an earlier run was charged for mean of x at ZCDP(rho=0.1), charge {identifier}"
        assert stands in told
        (tmp_path / "mean.json.reserved").unlink()
        code, output, told = ended(start(SCRIPT, folder=tmp_path))
        assert code == 0, told
    assert charges(tmp_path) == 1 + (step in PAID)
    assert json.loads(output[-1]) == dpi.read_release(tmp_path / "mean.json").infer().params.tolist()


def test_a_kill_between_a_ledger_that_keeps_and_the_file(tmp_path):
    """Nothing is lost: the next run takes the release from the ledger, and a run after it from the file."""
    attack = STEPS["between the draw and the file"]
    code, *_ = ended(start(SCRIPT.replace("def tell", attack + "\n\ndef tell"), "kept", folder=tmp_path))
    assert code == -9
    assert names(tmp_path) == ["mean.json.reserved"]
    answers = [ended(start(SCRIPT, folder=tmp_path)) for _ in range(2)]
    assert [code for code, *_ in answers] == [0, 0], answers
    assert answers[0][1] == answers[1][1]
    assert charges(tmp_path) == 1
    assert names(tmp_path) == ["mean.json"]


RACER = (
    STUDY
    + """
slow = run._measure
def measured(*given):
    time.sleep(0.3)  # so that the others come while it measures
    slow(*given)
run._measure = measured
children, many = 0, int(sys.argv[3])
while children < many and os.fork():  # the interpreter itself only waits
    children += 1
if children == many:
    print("ready", flush=True)
    sys.exit(max(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(many)))
while not os.path.exists("go"):
    time.sleep(0.001)
options = {"save": "mean.json"} if sys.argv[2] == "save" else {"reuse": True}
try:
    found = dpi.mean("x", data).measure(dpi.ZCDP(0.1), **options).values
except DPInferError as error:
    found = type(error).__name__
os.write(1, (json.dumps(found) + "\\n").encode())
os._exit(0)
"""
)


def race(folder, kept, how, interpreters):
    """Let six processes ask at once, and return what each of them got."""
    racers = [start(RACER, kept, how, 6 // interpreters, folder=folder) for _ in range(interpreters)]
    assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * interpreters
    (folder / "go").touch()
    outputs = [ended(racer) for racer in racers]
    assert {code for code, *_ in outputs} == {0}
    assert charges(folder) == 1
    found = [json.loads(line) for _, lines, _ in outputs for line in lines]
    assert len(found) == 6
    return found


@needs_fork
@pytest.mark.parametrize(("kept", "interpreters"), [("", 2), ("kept", 1)])
def test_processes_at_once_pay_once(kept, interpreters, tmp_path):
    """One pays, the others wait and read the same numbers."""
    found = race(tmp_path, kept, "save", interpreters)
    assert found == [list(dpi.read_release(tmp_path / "mean.json").values)] * 6
    assert names(tmp_path) == ["go", "mean.json"]


@needs_fork
def test_processes_that_reuse_at_once_pay_once(tmp_path):
    """One pays; the others read what it stored, or are refused while it measures."""
    numbers = [one for one in race(tmp_path, "kept", "reuse", 1) if one != "ReleaseLostError"]
    assert numbers
    assert all(one == numbers[0] for one in numbers)


KILLER = (
    STUDY
    + """
import random
chance, kills, lost, patience = random.Random(20240), 0, 0, 0.1

def child(file):
    found = os.fork()
    if not found:
        try:
            dpi.mean("x", data).measure(dpi.ZCDP(1e-3), save=file)
        except dpi.errors.ReleaseLostError:
            os.unlink(file + ".reserved")
            os._exit(3)
        except BaseException:
            os._exit(1)
        os._exit(0)
    return found

for place in range(int(sys.argv[2])):
    file = f"{place}.json"
    killed = child(file)
    time.sleep(chance.uniform(0.0, patience))
    os.kill(killed, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(killed, 0)[1])
    assert code in (0, -9), code
    kills += code == -9
    patience *= 1.1 if code == -9 and not os.path.exists(file) else 0.9  # around the time that a fit takes
    again = os.waitstatus_to_exitcode(os.waitpid(child(file), 0)[1])
    assert again in (0, 3), again
    lost += again == 3
tell([kills, lost])
"""
)
KILLS = int(os.environ.get("DPINFER_KILLS", "25"))


@needs_fork
@pytest.mark.slow
@pytest.mark.sweep(2)
def test_kills_at_random_instants(tmp_path):
    """Every charge has its release in a file, or was reported as lost, once: none is hidden and none made twice."""
    code, output, told = ended(start(KILLER, "", str(KILLS), folder=tmp_path), timeout=600)
    assert code == 0, told
    kills, lost = json.loads(output[-1])
    assert kills > KILLS / 4, "too few were killed: the test proves little"
    files = [name for name in names(tmp_path) if name.endswith(".json")]
    assert charges(tmp_path) == len(files) + lost
    assert not [name for name in names(tmp_path) if name.endswith(".reserved")]


FORKER = SCRIPT.replace(
    "def tell",
    """def forks(*_):
    if os.fork():
        die()
    os.close(1), os.close(2)
    with open("go", "w") as file:
        file.write(str(os.getpid()))
    time.sleep(300)
    os._exit(0)

run._measure = forks

def tell""",
)


@needs_fork
def test_a_forked_process_does_not_hold_the_lock_of_a_dead_one(tmp_path):
    """Workers may outlive the process that was killed; the next run does not wait for them."""
    code, *_ = ended(start(FORKER, folder=tmp_path))
    assert code == -9
    try:
        code, _, told = ended(start(SCRIPT, folder=tmp_path), timeout=100)
        assert "ReleaseLostError" in told
    finally:
        for _ in range(100):
            if (tmp_path / "go").exists() and (tmp_path / "go").read_text():
                break
            time.sleep(0.1)
        os.kill(int((tmp_path / "go").read_text()), signal.SIGKILL)


FULL = (
    STUDY
    + """
question = dpi.histogram("x", data, bins=2000, bounds=(0, 10))
resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, 65_536))  # room for ledger and reservation
try:
    question.fit(dpi.ZCDP(0.1), save=sys.argv[2] or None)
except DPInferError as error:
    tell([type(error).__name__, str(error), error.release.values])
"""
)


@pytest.mark.slow
@pytest.mark.parametrize(("kept", "save"), [("", "table.json"), ("kept", ""), ("kept", "table.json")])
def test_a_full_disk_loses_nothing(kept, save, tmp_path):
    code, output, told = ended(start(FULL, kept, save, folder=tmp_path))
    assert code == 0, told
    kind, message, values = json.loads(output[-1])
    assert kind == "ReleaseNotSavedError"
    assert "error.release.save(path)" in message
    assert len(values) == 2000
    assert charges(tmp_path) == 1
    assert names(tmp_path) == (["table.json.reserved"] if save else [])

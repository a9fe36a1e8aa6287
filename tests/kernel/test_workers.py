"""A user's code on blocks of rows: whatever it does, only numbers come back, and from its own block alone."""

import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpinfer.errors import OptionError
from dpinfer.kernel import workers
from dpinfer.kernel.workers import fit_apart, fit_here
from dpinfer.resampling.models import check_picklable

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="a process for every block needs Linux")

VALUES = ["good", "prints", "warns", "logs", "series", "list", "masked", "integers", "draws", "remembers", "spawns"]
PARTLY = ["nan", "inf"]
RAISES = ["raises", "nasty", "interrupts", "exits", "out_of_memory"]
WRONG = [
    *("none", "text", "number_texts", "ragged", "long", "scalar"),
    *("column", "complex", "objects", "dates", "calls_back"),
]
CRASHES = ["leaves", "leaves_well", "kills", "aborts"]

SEEN = []


def frames_of(kinds):
    """Make one block per kind; the rows of a place are the same whatever the kind."""

    def frame(place):
        rng = np.random.default_rng(place)
        return pd.DataFrame({"x": rng.normal(size=9), "kind": kinds[place]})

    return frame


def remembered(values):
    """Keep a count wherever a count can be kept, and return it with the values."""
    np.dpinfer_calls = getattr(np, "dpinfer_calls", 0) + 1
    os.environ["DPINFER_CALLS"] = os.environ.get("DPINFER_CALLS", "") + "1"
    SEEN.append(1)
    return np.add(values, [len(SEEN) - 1, len(os.environ["DPINFER_CALLS"]) + np.dpinfer_calls - 2])


def noisy(values, kind):
    """Return the values with much ado."""
    if kind == "prints":
        print("a secret", values)  # noqa: T201
        sys.stderr.write("a secret")
        os.write(1, b"a secret")
        os.write(2, b"a secret")
        assert sys.stdin.read() == ""
    elif kind == "warns":
        warnings.resetwarnings()
        warnings.simplefilter("always")
        warnings.warn(f"a secret {values}", stacklevel=1)
        np.log(np.zeros(1) - 1)
    elif kind == "logs":
        log = logging.getLogger("secrets")
        log.addHandler(logging.StreamHandler(sys.stdout))
        logging.disable(logging.NOTSET)
        log.critical("a secret %s", values)
    elif kind == "spawns":
        threading.Thread(target=time.sleep, args=(60,)).start()
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", "60"])
    return values


class NastyError(Exception):
    """Does harm when it is shown or sent."""

    def __str__(self):
        raise SystemExit

    def __reduce__(self):
        return os.write, (1, b"a secret")


class Nasty:
    """Runs code when it becomes an array."""

    def __array__(self, dtype=None, copy=None):
        print("a secret")  # noqa: T201
        raise NastyError


def raising(values, kind):
    raise {
        "raises": ValueError(f"a secret {values}"),
        "nasty": NastyError("a secret"),
        "interrupts": KeyboardInterrupt(),
        "exits": SystemExit(f"a secret {values}"),
        "out_of_memory": MemoryError(),
    }[kind]


def wrong(values, kind):
    return {
        "none": None,
        "text": "a secret",
        "number_texts": ["1", "2"],
        "ragged": [[1.0], [1.0, 2.0]],
        "long": np.append(values, 0.0),
        "scalar": values[0],
        "column": values[:, None],
        "complex": values + 0j,
        "objects": values.astype(object),
        "dates": np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[D]"),
        "calls_back": Nasty(),
    }[kind]


def shaped(values, kind):
    if kind == "draws":
        return values + np.random.normal()  # noqa: NPY002
    return {
        "good": values,
        "series": pd.Series(values, index=["a", "b"]),
        "list": list(values),
        "masked": np.ma.masked_array(values, mask=[False, False]),
        "integers": [int(values[0]), 7],
        "nan": [values[0], np.nan],
        "inf": pd.Series([values[0], -np.inf]),
    }[kind]


def crashing(values, kind):
    if kind in ("leaves", "leaves_well"):
        os._exit(0 if kind == "leaves_well" else 3)
    elif kind == "kills":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "kills_parent":
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    os.abort()


def make_estimator(limit=2.0):
    """Return a closure that behaves as the block says."""
    ways = {
        **dict.fromkeys(["prints", "warns", "logs", "spawns"], noisy),
        **dict.fromkeys(RAISES, raising),
        **dict.fromkeys(WRONG, wrong),
        **dict.fromkeys([*CRASHES, "kills_parent"], crashing),
        "remembers": lambda values, kind: remembered(values),
    }

    def estimator(frame):
        kind = frame["kind"].iloc[0]
        values = np.clip([frame["x"].mean(), frame["x"].std()], -limit, limit)
        return ways.get(kind, shaped)(values, kind)

    return estimator


def expected(kinds):
    """Give what each block should be, computed here."""
    found = np.full((len(kinds), 2), np.nan)
    for place, kind in enumerate(kinds):
        x = frames_of(kinds)(place)["x"]
        values = np.array([x.mean(), x.std()])
        if kind in PARTLY:
            found[place, 0] = values[0]
        elif kind in VALUES:
            draw = np.random.RandomState(0).normal() if kind == "draws" else 0.0
            found[place] = [int(values[0]), 7] if kind == "integers" else values + draw
    return found


def runs(pid):
    """Tell whether a process exists and is more than an entry that nobody collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def check_silence(capfd, caplog, recwarn):
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
    assert not recwarn.list


@pytest.mark.slow
@LINUX
@pytest.mark.parametrize("n_jobs", [2, 1])
def test_nothing_a_block_does_is_seen_or_moves_another(n_jobs, capfd, caplog, recwarn):
    kinds = ["remembers", *VALUES, *RAISES, *WRONG, *PARTLY, "remembers", *CRASHES, "draws", "good"]
    if n_jobs == 1:
        kinds = ["good", "draws", "prints", *CRASHES, "remembers", "remembers"]
    hooks = sys.excepthook, signal.getsignal(signal.SIGINT), list(warnings.filters), logging.root.manager.disable
    environment = dict(os.environ)
    found = fit_apart(make_estimator(), frames_of(kinds), count=len(kinds), width=2, n_jobs=n_jobs)
    check_silence(capfd, caplog, recwarn)
    np.testing.assert_array_equal(found, expected(kinds))
    assert found.dtype == np.float64
    assert found.flags.writeable
    assert not hasattr(np, "dpinfer_calls")
    assert environment == dict(os.environ)
    assert hooks == (
        sys.excepthook,
        signal.getsignal(signal.SIGINT),
        list(warnings.filters),
        logging.root.manager.disable,
    )


@pytest.mark.slow
def test_without_forks(monkeypatch, capfd, caplog, recwarn):
    monkeypatch.setattr(workers, "_FORKS", False)
    kinds = ["draws", "prints", "exits", "draws", "logs", "interrupts", "leaves", "warns", "nasty", "good", "draws"]
    found = fit_apart(make_estimator(), frames_of(kinds), count=len(kinds), width=2, n_jobs=1)
    check_silence(capfd, caplog, recwarn)
    np.testing.assert_array_equal(found, expected(kinds))


@pytest.mark.slow
@LINUX
def test_a_block_that_ends_its_worker_takes_no_other_with_it_and_moves_no_bar(capfd, caplog, recwarn):
    kinds = ["good", "kills_parent", "draws", "raises", "good"]

    def fit(estimator, frame):
        return np.outer([1.0, 2.0, 3.0], estimator(frame))

    found = fit_apart(partial(fit, make_estimator()), frames_of(kinds), count=5, width=(3, 2), n_jobs=1, progress=True)
    np.testing.assert_array_equal(found, [np.outer([1.0, 2.0, 3.0], values) for values in expected(kinds)])
    assert np.isnan(found[1]).all()
    out, err = capfd.readouterr()
    assert out == ""
    lines = [line for line in re.split(r"[\r\n]+", err) if line]
    steps = [re.fullmatch(r"block fits: +\d+%\|.*\| (\d)/5 \[.*\]", line) for line in lines]
    assert all(steps)
    assert [step[1] for step in (steps[0], steps[-1])] == ["0", "5"]
    assert not caplog.records
    assert not recwarn.list


@pytest.mark.slow
@LINUX
def test_no_process_outlives_a_caller_that_is_killed(tmp_path):
    code = f"""
import os, pathlib, time, pandas as pd
from dpinfer.kernel.workers import fit_apart
def estimator(frame):
    pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch()
    time.sleep(600)
fit_apart(estimator, lambda place: pd.DataFrame({{"x": [0.0]}}), count=9, width=1, n_jobs=1)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ) as caller:
        try:
            wait_until(lambda: list(tmp_path.iterdir()))
        finally:
            caller.kill()
    (mark,) = tmp_path.iterdir()
    wait_until(lambda: not runs(int(mark.name)))
    assert not runs(int(mark.name))


@pytest.mark.slow
@LINUX
def test_interrupting_ends_all_processes(tmp_path):
    def estimator(frame):
        (tmp_path / str(os.getpid())).write_text("")
        time.sleep(600)

    def interrupt():
        try:
            wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            fit_apart(estimator, lambda place: pd.DataFrame({"x": [place]}), count=50, width=1, n_jobs=2)
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    pids = [int(path.name) for path in tmp_path.iterdir()]
    assert len(pids) == 2
    wait_until(lambda: not any(runs(pid) for pid in pids))


class LoadsNowhere:
    """Can be pickled, and not be loaded."""

    def __reduce__(self):
        return os.stat, ("/no/such/file/anywhere",)

    def __call__(self, frame):
        return [0.0]


@pytest.mark.slow
def test_what_cannot_be_loaded_is_refused_before_rows_are_read(capfd):
    def frames(place):
        raise AssertionError

    with pytest.raises(OptionError, match=r"model='LoadsNowhere'.*FileNotFoundError"):
        fit_apart(LoadsNowhere(), frames, count=3, width=1, n_jobs=1)
    assert capfd.readouterr() == ("", "")


def test_what_cannot_be_pickled_is_refused():
    lock = threading.Lock()

    def holds_lock(frame):
        return [lock is None]

    with pytest.raises(OptionError, match=r"model='holds_lock'.*TypeError"):
        check_picklable(holds_lock)
    with pytest.raises(OptionError, match="holds_lock"):
        fit_apart(holds_lock, frames_of(["good"]), count=1, width=1)
    check_picklable(lambda frame: frame["x"].mean())
    check_picklable(make_estimator())


@pytest.mark.parametrize("n_jobs", [0, 1.0, "2", None, True])
def test_number_of_processes(n_jobs):
    with pytest.raises(OptionError, match="n_jobs"):
        fit_apart(len, frames_of(["good"]), count=1, width=1, n_jobs=n_jobs)


def test_number_of_processes_counts_from_all_cores(monkeypatch):
    monkeypatch.setattr(workers, "cpu_count", lambda: 8)
    assert [workers._processes(n_jobs) for n_jobs in (3, -1, -2, -8, -20)] == [3, 8, 7, 1, 1]
    assert fit_apart(len, frames_of([]), count=0, width=(3, 2)).shape == (0, 3, 2)


def test_here(capfd, recwarn):
    kinds = ["good", "warns", "series", "list", "masked", "integers", *WRONG, *PARTLY, "raises", "exits", "nasty"]
    frames = frames_of(kinds)
    found = [fit_here(make_estimator(), frames(place), width=2) for place in range(len(kinds))]
    np.testing.assert_array_equal(found, expected(kinds))
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list
    assert fit_here(lambda frame: [warnings.warn("a secret", stacklevel=1) or 1.0], frames(0), width=1) == [1.0]
    assert np.isnan(fit_here(lambda frame: 1 / 0, frames(0), width=(2, 3))).all()
    with pytest.raises(KeyboardInterrupt):
        fit_here(make_estimator(), frames_of(["interrupts"])(0), width=2)


def test_missing_values_of_results():
    results = {
        "nullable": pd.Series([1, None], dtype="Int64"),
        "masked": np.ma.masked_array([1.0, 5.0], mask=[False, True]),
        "wide": np.array([1.0, 1e4000], dtype=np.longdouble),
    }
    for result in results.values():
        np.testing.assert_array_equal(fit_here(lambda frame, r=result: r, pd.DataFrame(), width=2), [1.0, np.nan])
    table = pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4]})
    np.testing.assert_array_equal(fit_here(lambda frame: table, table, width=(2, 2)), [[1.0, 3.0], [2.0, 4.0]])
    for wrong in (table.astype(str), table.astype(complex), table["a"].astype("category"), table["a"].astype(object)):
        width = wrong.shape
        assert np.isnan(fit_here(lambda frame, w=wrong: w, table, width=width)).all()

"""The benchmark against other packages: the way to ask them, what is missing, and how answers are judged."""

import shutil
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from validation.common.outputs import Options, read_table
from validation.peers import environments, peers
from validation.peers.drivers.served import answers, rows_of
from validation.peers.environments import PEERS, PeerFailedError, ask, pythons
from validation.peers.peer_designs import Column, Design, chi2_pvalue, designs, logit_slopes
from validation.peers.peer_errors import Plain, judged, shares
from validation.peers.peer_methods import METHODS, OURS, Method, Price, answered, job_of

MEAN = Design("mean", "toy", (Column("x", 0, 1),), np.linspace(0, 1, 21)[:, None])
EPSILON = Price("epsilon", 1.0)
DRIVER = """
import sys
import numpy as np
from served import serve
def mean(rows, job):
    print("a package may print")
    return {"estimate": [rows[:, 0].mean()], "low": job["bounds"][0][0]}
def sometimes(rows, job):
    if rows[0, 0] > 0.5:
        raise ZeroDivisionError("no luck")
    return {"estimate": rows[0]}
def crash(rows, job):
    sys.exit("gone")
if __name__ == "__main__":
    serve({"mean": mean, "sometimes": sometimes, "crash": crash}, ("numpy",))
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A driver of numpy, run by the Python of the tests."""
    shutil.copy(environments.DRIVERS / "served.py", tmp_path)
    (tmp_path / "with_toy.py").write_text(DRIVER, encoding="utf-8")
    monkeypatch.setattr(environments, "DRIVERS", tmp_path)
    return tmp_path


def job(method, **changes):
    return {**job_of(Method("toy", "toy", method), MEAN, 50, EPSILON, 3, 7), **changes}


def test_a_driver_answers_about_the_same_rows(toy):
    found = ask(sys.executable, "with_toy", MEAN.population, job("mean"))
    expected = [rows_of(MEAN.population, 50, 7, one) for one in range(3)]
    np.testing.assert_array_equal([one["estimate"][0] for one in found["answers"]], [rows.mean() for rows in expected])
    np.testing.assert_allclose([one["sum"] for one in found["answers"]], [rows.sum() for rows in expected])
    assert found["answers"][0]["low"] == 0
    assert found["versions"] == {"numpy": np.__version__}
    assert found["loading"] > 0
    assert all(one["seconds"] >= 0 for one in found["answers"])


def test_what_is_raised_is_kept_in_words(toy):
    found = ask(sys.executable, "with_toy", MEAN.population, job("sometimes", replicates=40))["answers"]
    failed = [rows_of(MEAN.population, 50, 7, one)[0, 0] > 0.5 for one in range(40)]
    assert ["failed" in one for one in found] == failed
    assert {one["failed"] for one in found if "failed" in one} == {"ZeroDivisionError: no luck"}


def test_a_driver_that_ends_without_an_answer_is_an_error(toy):
    with pytest.raises(PeerFailedError, match="with_toy ended with 1: gone"):
        ask(sys.executable, "with_toy", MEAN.population, job("crash"))


def test_a_peer_that_drew_other_rows_is_an_error(toy):
    served = toy / "served.py"
    served.write_text(served.read_text(encoding="utf-8").replace("[seed, replicate]", "[seed, 0]"), encoding="utf-8")
    with pytest.raises(PeerFailedError, match="drew other rows"):
        answered(Method("toy", "toy", "mean"), MEAN, 50, EPSILON, 3, 7, sys.executable)


def test_drivers_see_no_path_of_ours_and_one_thread(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    assert "PYTHONPATH" not in environments._environment()
    assert environments._environment()["OMP_NUM_THREADS"] == "1"


def test_a_peer_is_there_in_the_version_that_is_measured_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("DPINFER_PEERS", str(tmp_path))
    assert pythons(install=False) == {}
    for name, version in (("opendp", PEERS["opendp"].version), ("smartnoise", "0.0.1")):
        python = tmp_path / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f"#!/bin/sh\necho {version}\n", encoding="utf-8")
        python.chmod(0o755)
    assert list(pythons(install=False)) == ["opendp"]


def test_an_environment_that_cannot_be_made_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DPINFER_PEERS", str(tmp_path))
    monkeypatch.setattr(environments.sys, "executable", shutil.which("false"))
    assert pythons(install=True) == {}
    assert capsys.readouterr().out.count("not installed, so nothing is measured of it") == len(PEERS)


def test_without_peers_nothing_is_claimed_of_them(tmp_path, monkeypatch):
    monkeypatch.setenv("DPINFER_PEERS", str(tmp_path / "none"))
    few = [cell for cell in peers.cells_of(quick=True) if cell.design.data in ("fair: age", "fair: occupation")]
    few += [cell for cell in peers.cells_of(quick=True) if cell.design.independent][:1]
    monkeypatch.setattr(peers, "cells_of", lambda **_: few)
    monkeypatch.setattr(peers, "times", lambda *_: pd.DataFrame({"task": ["mean"], "method": ["dpinfer"]}))
    claims = peers.run(Options(3, 5, 1, tmp_path, "python -m validation --quick"))
    table = read_table(tmp_path / "peers.csv")
    assert set(table["method"]) == {"dpinfer"}
    assert not [claim.what for claim in claims if "peer" in claim.what]
    note = "Not installed, so not measured: diffprivlib 0.6.6, opendp 0.16.0, smartnoise-sql 1.0.10."
    assert note in (tmp_path / "peers.md").read_text(encoding="utf-8")


def test_answers_are_judged_in_units_of_the_fit_without_privacy():
    plain = Plain(MEAN, 50, 200, 3)
    np.testing.assert_allclose(plain.truth, 0.5)
    unit = plain.spread[0]
    told = [{"estimate": [0.5 + 2 * unit], "lower": [0.4], "upper": [0.6]}] * 100
    told += [{"estimate": [0.5 - 4 * unit], "lower": [0.55], "upper": [0.6]}] * 60
    told += [{"estimate": [0.5 - 4 * unit], "lower": [np.nan], "upper": [np.nan]}] * 40
    found = judged(MEAN, plain, told)
    assert found["rmse"] == pytest.approx(np.sqrt((4 + 16) / 2))
    assert found["typical"] == pytest.approx(3)
    assert found["coverage"] == pytest.approx(100 / 160)
    assert found["told"] == found["bounded"] == pytest.approx(0.8)
    assert found["width"] == pytest.approx(0.2 / (2 * 1.959964 * unit))
    assert found["zero"] == pytest.approx(0.5 / unit)


def test_answers_that_failed_are_counted_and_all_of_them_are_an_error():
    plain = Plain(MEAN, 50, 4, 3)
    found = judged(MEAN, plain, [{"estimate": [0.5]}] * 3 + [{"failed": "ValueError: one class"}])
    assert found["failed"] == pytest.approx(0.25)
    assert found["rmse"] == 0
    with pytest.raises(ValueError, match="no answer: ValueError: one class"):
        judged(MEAN, plain, [{"failed": "ValueError: one class"}] * 4)


def test_intervals_without_end_cover_and_are_not_bounded():
    plain = Plain(MEAN, 50, 4, 3)
    found = judged(MEAN, plain, [{"estimate": [0.5], "lower": [-np.inf], "upper": [np.inf]}] * 4)
    assert (found["coverage"], found["bounded"], found["width"]) == (1, 0, np.inf)


def test_noisy_counts_become_shares_with_the_textbooks_interval():
    told = shares({"counts": [-2.0, 30.0, 70.0], "accuracy": 3.0})
    np.testing.assert_allclose(told["estimate"], [0, 0.3, 0.7])
    np.testing.assert_allclose(told["upper"] - told["estimate"], 1.959964 * np.sqrt(np.array([0, 0.21, 0.21]) / 100))
    np.testing.assert_allclose(told["count_upper"] - told["count_lower"], 6)


def test_the_textbook_test_leaves_out_what_noise_emptied():
    table = np.array([[30.0, 20.0], [15.0, 35.0]])
    expected = stats.chi2_contingency(table, correction=False).pvalue
    assert chi2_pvalue(np.vstack([table, [-3.0, -1.0]]).ravel(), (3, 2)) == pytest.approx(expected)
    assert chi2_pvalue(np.array([5.0, -1.0, 3.0, -2.0]), (2, 2)) == 1


def test_columns_drawn_apart_are_independent():
    design = next(one for one in designs() if one.independent)
    rows = rows_of(design.population, 400_000, 1, 0, independent=True)
    counts = design.counts(rows).reshape(design.levels)
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    assert np.abs(counts - expected).max() < 6 * np.sqrt(expected.max())


def test_slopes_without_privacy_are_those_of_maximum_likelihood():
    design = next(one for one in designs() if (one.task, one.data) == ("logit", "anes96"))
    y, x = design.population[:, -1], np.column_stack([np.ones(len(design.population)), design.population[:, :-1]])
    import statsmodels.api as sm

    np.testing.assert_allclose(logit_slopes(x, y), sm.Logit(y, x).fit(disp=0).params[1:], rtol=1e-6)


def test_every_task_is_asked_of_us_between_the_neighbours_of_each_peer():
    for cell in peers.cells_of(quick=False):
        chosen = peers.methods_of(cell, dict.fromkeys(PEERS, "python"))
        ours = {one.neighbors for one in chosen if one.told == "dpinfer"}
        assert ours == {one.neighbors for one in chosen if one.peer != "dpinfer"}, cell.name
        assert all(one.peer == "dpinfer" or one in METHODS[cell.design.task] for one in chosen)


def test_our_own_failures_are_not_counted_but_raised():
    told = answers(lambda *_: 1 / 0, MEAN.population, job("ours"))
    assert {one["failed"] for one in told} == {"ZeroDivisionError: division by zero"}
    with pytest.raises(ValueError, match="no answer"):
        judged(MEAN, Plain(MEAN, 50, 3, 7), told)
    assert OURS["replace_one"].serves(MEAN, EPSILON)

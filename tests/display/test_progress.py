"""Bars of long public work, and the log."""

import logging

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.display import progress
from dpinfer.errors import OptionError


@pytest.fixture(autouse=True)
def usual():
    yield
    dpi.show_progress()


def test_a_bar_is_shown_as_asked_for_else_as_chosen(capsys):
    assert list(progress.watched([1, 2], "work", total=2, progress=True)) == [1, 2]
    assert "work" in capsys.readouterr().err
    dpi.show_progress(True)
    list(progress.watched([1], "work"))
    assert "work" in capsys.readouterr().err
    list(progress.watched([1], "work", progress=False))
    dpi.show_progress(False)
    list(progress.watched([1], "work"))
    assert capsys.readouterr().err == ""


def test_nothing_is_shown_where_nobody_looks_on(capsys, monkeypatch):
    assert not progress.progress_shown(None)
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    assert progress.progress_shown(None)
    list(progress.watched([1], "work"))
    assert capsys.readouterr().err == ""  # only after two seconds


def test_a_wrong_switch_is_refused():
    with pytest.raises(OptionError, match="shown=<int>"):
        dpi.show_progress(1)


def test_the_log_is_silent_until_it_is_asked_for():
    assert progress.LOG.name == "dpinfer"
    assert any(isinstance(one, logging.NullHandler) for one in progress.LOG.handlers)


ROWS = np.random.default_rng(1).uniform(0, 1, (400, 3))
SCHEMA = dpi.Schema(x=dpi.Real(0, 1), z=dpi.Real(0, 1), y=dpi.Real(0, 1), g=dpi.Boolean())


def fitted(question):
    frame = pd.DataFrame({"x": ROWS[:, 0], "z": ROWS[:, 1], "y": ROWS[:, 2], "g": ROWS[:, 0] < 0.5})
    return question.bind(dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(2))).fit(dpi.ZCDP(50.0))


def joint_test(results):
    return results.wald_test("x = 0, z = 0")


LONG = {
    "simulated releases": (dpi.ols("y ~ x", method="gram", inference="simulated"), lambda one: one.conf_int(), "999"),
    "joint p-value": (dpi.bootstrap("y ~ x + z", replicates=40, weights="paired"), joint_test, "9999"),
    "CDF band": (dpi.cdf("x", by="g", resolution=8, replicates=99), lambda one: one.frame(), "198"),
}


@pytest.mark.parametrize("what", LONG)
def test_long_public_work_shows_a_bar(what, capsys):
    question, work, total = LONG[what]
    results = fitted(question)
    dpi.show_progress(True)
    capsys.readouterr()
    work(results)
    said = capsys.readouterr().err
    assert what in said
    assert f"/{total} " in said
    dpi.show_progress(False)
    work(fitted(question))
    assert capsys.readouterr().err == ""

"""Bars of long public work, and the log."""

import logging

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

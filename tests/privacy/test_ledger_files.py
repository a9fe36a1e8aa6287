"""Ledger files that vanish, are emptied or edited: none becomes a fresh budget, and none is believed."""

import errno
import os
import sqlite3
from fractions import Fraction
from unittest import mock

import pytest

from dpinfer.errors import LedgerError, LedgerMismatchError, OptionError
from dpinfer.privacy import store
from dpinfer.privacy.accounting import gaussian_cost, laplace_cost
from dpinfer.privacy.ledger import Ledger
from dpinfer.privacy.units import GDP, ZCDP, ApproxDP, PureDP


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.db"


def opened(path, budget=None, **options):
    return Ledger(path, dataset="d", budget=budget or PureDP(1), **options)


def spent(path, budget=None):
    ledger = opened(path, budget)
    ledger.charge(laplace_cost(PureDP(0.25)), "first")
    ledger.charge(laplace_cost(PureDP(0.5)), "second")
    return ledger


def edit(path, statement, *values):
    with sqlite3.connect(path) as connection:
        connection.execute(statement, values)
    connection.close()


# The first opening and later ones


def test_a_script_runs_twice_and_sees_which_run_made_the_ledger(path):
    first = opened(path)
    first.charge(laplace_cost(PureDP(0.5)), "x")
    second = opened(path)
    assert (first.created, second.created) == (True, False)
    assert "study.db, new" in repr(first)
    assert ", new" not in repr(second)
    assert second.remaining == PureDP(0.5)
    assert not Ledger.open(path).created
    assert Ledger.in_memory(PureDP(1)).created


def test_create_says_what_is_expected(path):
    with pytest.raises(LedgerError, match="no ledger at"):
        opened(path, create=False)
    assert not path.exists()
    assert opened(path, create=True).created
    with pytest.raises(LedgerError, match="already exists"):
        opened(path, create=True)
    assert not opened(path, create=False).created
    with pytest.raises(LedgerMismatchError):
        opened(path, PureDP(2), create=False)
    for wrong in (1, 0, "yes"):
        with pytest.raises(OptionError, match="create"):
            opened(path, create=wrong)


@pytest.mark.parametrize("create", [None, True, False])
def test_a_ledger_that_was_deleted_is_not_made_anew(path, create):
    spent(path)
    path.unlink()
    with pytest.raises(LedgerError, match=r"gone|no ledger at"):
        opened(path, create=create)
    assert not path.exists()


def test_where_the_file_and_its_marker_are_deleted_only_the_strict_opening_notices(path):
    spent(path)
    for file in path.parent.iterdir():
        file.unlink()
    with pytest.raises(LedgerError, match="no ledger at"):
        opened(path, create=False)
    assert opened(path).created


def test_a_journal_that_was_left_shows_that_a_ledger_was_there(path):
    path.with_name("study.db-journal").touch()
    with pytest.raises(LedgerError, match=r"study\.db-journal shows that it was there"):
        opened(path)


@pytest.mark.parametrize("create", [None, True, False])
@pytest.mark.parametrize("marked", [True, False])
def test_a_ledger_that_was_emptied_is_refused(path, create, marked):
    spent(path)
    os.truncate(path, 0)
    if not marked:
        path.with_name("study.db.marker").unlink()
    with pytest.raises(LedgerError, match=r"empty|already exists"):
        opened(path, create=create)
    with pytest.raises(LedgerError, match="empty"):
        Ledger.open(path)
    assert path.stat().st_size == 0


@pytest.mark.parametrize("left", [1, 100, 4096, 5000])
def test_a_ledger_that_was_cut_short_is_refused(path, left):
    ledger = spent(path)
    os.truncate(path, left)
    for attempt in (lambda: opened(path).remaining, lambda: Ledger.open(path).remaining, lambda: ledger.remaining):
        with pytest.raises(LedgerError):
            attempt()


def test_a_ledger_without_its_tables_is_refused(path):
    ledger = spent(path)
    edit(path, "DROP TABLE charge")
    for attempt in (lambda: ledger.spent, lambda: ledger.charge(laplace_cost(PureDP(0.1)), "x")):
        with pytest.raises(LedgerError, match="no such table"):
            attempt()
    edit(path, "DROP TABLE header")
    with pytest.raises(LedgerError, match="no such table"):
        opened(path)


def test_a_ledger_without_its_marker_gets_one_back(path):
    spent(path)
    path.with_name("study.db.marker").unlink()
    assert opened(path).remaining == PureDP(0.25)
    path.unlink()
    with pytest.raises(LedgerError, match="gone"):
        opened(path)


def test_a_folder_that_cannot_hold_a_ledger_is_refused_and_left_clean(path, monkeypatch):
    def fail(*arguments):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(LedgerError, match=r"no ledger can be made at .*not permitted"):
        opened(path)
    assert list(path.parent.iterdir()) == []


# What is stored


DAMAGES = {
    "amount": ["-1/4", "-0.25", "0", "0/1", "1/3", "1/0", "nan", "1e99999999", " 1/4", "", b"1/4", "9" * 5000],
    "reserve": ["1/1000", "-1/1000", "x", b"0"],
    "cost": ["", "{}", "[]", "null", "3", "not JSON", b"{}", "[" * 100_000],
    "time": ["yesterday", "2026-01-01T00:00:00", "", b"x"],
    "description": ["", b"x"],
    "id": ["", b"x"],
}


@pytest.mark.parametrize("field", DAMAGES)
def test_every_damaged_field_of_a_charge_is_refused_by_name(path, field):
    ledger, cost = spent(path), laplace_cost(PureDP(0.01))
    whole = path.read_bytes()
    attempts = [lambda: ledger.spent, lambda: ledger.remaining, ledger.charges]
    attempts += [lambda: ledger.can_afford(cost), lambda: ledger.charge(cost, "x")]
    for wrong in DAMAGES[field]:
        path.write_bytes(whole)
        edit(path, f"UPDATE charge SET {field} = ? WHERE number = 2", wrong)
        for attempt in attempts:
            with pytest.raises(LedgerError, match=f"charge 2 has an? {field} that is not"):
                attempt()
        assert f"charge 2 has a {field}" in repr(ledger).replace(" an ", " a ")
    path.write_bytes(whole)
    assert ledger.remaining == PureDP(0.25)


@pytest.mark.parametrize("budget", [PureDP(1), ZCDP(1), GDP(2), ApproxDP(4, 1e-6)], ids=str)
def test_an_amount_that_is_not_that_of_its_cost_is_refused_in_every_currency(path, budget):
    ledger = spent(path, budget)
    before = ledger.spent
    edit(path, "UPDATE charge SET amount = '1/1000000' WHERE number = 1")
    with pytest.raises(LedgerError, match="charge 1 has an amount"):
        _ = ledger.remaining
    assert before.composable[0] > Fraction(1, 10**6)


def test_a_cost_that_the_ledger_could_not_have_taken_is_refused(path):
    ledger = spent(path)
    edit(path, "UPDATE charge SET cost = ? WHERE number = 1", gaussian_cost(ZCDP(0.1), scales=2.0).to_json())
    with pytest.raises(LedgerError, match="charge 1 has an amount"):
        _ = ledger.spent


def test_more_charges_than_the_budget_are_refused(path):
    ledger = spent(path)
    cost = laplace_cost(PureDP(0.5))
    edit(
        path,
        "INSERT INTO charge (id, time, description, cost, amount, reserve) SELECT 'x', time, 'x', ?, '1/2', '0' "
        "FROM charge WHERE number = 1",
        cost.to_json(),
    )
    with pytest.raises(LedgerError, match="more than its budget"):
        _ = ledger.remaining


@pytest.mark.parametrize("which", ["number = 1", "number = 2", "1 = 1"])
def test_charges_that_were_deleted_are_missed(path, which):
    ledger = spent(path)
    edit(path, f"DELETE FROM charge WHERE {which}")
    for attempt in (lambda: ledger.remaining, ledger.charges, lambda: opened(path).remaining):
        with pytest.raises(LedgerError, match="of 2 charges that were made it holds"):
            attempt()


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("budget", "{}"),
        ("budget", "[1]"),
        ("budget", "ZCDP(1)"),
        ("budget", '{"unit": "PureDP", "epsilon": -1}'),
        ("budget", '{"unit": ["PureDP"], "epsilon": 1}'),
        ("neighbors", "both"),
        ("currency", "rho"),
        ("dataset", b"d"),
    ],
)
def test_a_damaged_header_is_refused_by_name(path, field, wrong):
    spent(path)
    edit(path, f"UPDATE header SET {field} = ?", wrong)
    for attempt in (lambda: Ledger.open(path), lambda: opened(path)):
        with pytest.raises(LedgerError, match=field if isinstance(wrong, str) else "damaged"):
            attempt()


def test_a_damaged_unit_is_refused(path):
    ledger = opened(path)
    ledger.charge(laplace_cost(PureDP(0.1)), "x", unit="rows")
    edit(path, "UPDATE unit SET name = ?", b"rows")
    with pytest.raises(LedgerError, match="whom it protects"):
        ledger.charge(laplace_cost(PureDP(0.1)), "x", unit="rows")


def test_a_reading_that_failed_for_want_of_frames_is_read_again(path):
    ledger = spent(path)
    right = ledger.charges()
    store._charge.cache_clear()
    with mock.patch.object(store, "_time", side_effect=RecursionError), pytest.raises(LedgerError, match="charge 1"):
        ledger.charges()
    assert ledger.charges().equals(right)

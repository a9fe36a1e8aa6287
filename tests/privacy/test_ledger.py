"""The ledger in one process: filters, exact sums, whole budgets, mismatches, copies, threads."""

import copy
import gc
import pickle
import sqlite3
import threading
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpinfer.errors import BudgetExceededError, LedgerError, LedgerMismatchError, NotProvedError, OptionError
from dpinfer.privacy import store as store_module
from dpinfer.privacy.accounting import (
    Cost,
    discrete_gaussian_tau,
    gaussian_amount,
    gaussian_cost,
    laplace_cost,
    least_scale,
)
from dpinfer.privacy.ledger import Ledger
from dpinfer.privacy.resampling import DOUBLE_OR_NOTHING, cost_of, resampled_cost
from dpinfer.privacy.units import GDP, ZCDP, ApproxDP, PureDP

FINE = 2.0**40


def price_cost(price, total=None):
    """Cost of one sum at a price, on a grid that is fine enough for a total."""
    if isinstance(price, PureDP):
        return laplace_cost(price)
    return gaussian_cost(price, scales=max(FINE, least_scale(total or price, 1)))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.db"


@pytest.mark.parametrize(
    "budget",
    [PureDP(1), PureDP(0.1), ZCDP(0.1), ZCDP(1 / 3), GDP(1), GDP(0.7), GDP(2**0.5)]
    + [ApproxDP(e, d) for e in (0.01, 0.5, 1.0, 3.0, 10.0) for d in (1e-12, 1e-6, 1e-3, 0.1)],
    ids=str,
)
def test_a_request_of_exactly_the_whole_budget_is_granted_once(budget):
    currencies = [None, "basic"] if isinstance(budget, ApproxDP) else [None]
    for currency in currencies:
        ledger = Ledger.in_memory(budget, currency=currency)
        assert ledger.remaining == budget
        assert ledger.spent.composable[0] == 0
        cost = price_cost(budget)
        ledger.can_afford(cost)
        ledger.charge(cost, "all")
        assert ledger.remaining.is_zero
        assert ledger.spent == budget
        with pytest.raises(BudgetExceededError):
            ledger.charge(cost, "again")
        assert len(ledger.charges()) == 1


def test_three_tenths_are_three_times_one_tenth():
    for unit in (PureDP, ZCDP):
        ledger = Ledger.in_memory(unit(0.3))
        for _ in range(3):
            ledger.charge(price_cost(unit(0.1)), "a tenth")
        assert ledger.spent == unit(0.3)
        assert ledger.remaining == unit(0)
        with pytest.raises(BudgetExceededError) as caught:
            ledger.charge(price_cost(unit(1e-15)), "a crumb")
        assert caught.value.requested == unit(1e-15)
        assert caught.value.remaining == unit(0)
    ledger = Ledger.in_memory(GDP(1))
    for _ in range(4):
        ledger.charge(price_cost(GDP(0.5)), "a quarter")
    assert ledger.remaining == GDP(0)


@given(
    st.sampled_from([PureDP(1), ZCDP(0.7), GDP(1.3), ApproxDP(1, 1e-6), ApproxDP(4, 1e-9)]),
    st.lists(st.floats(0.001, 0.6), min_size=1, max_size=4),
)
def test_what_remains_can_be_asked_for(budget, shares):
    ledger = Ledger.in_memory(budget)
    whole = budget if isinstance(budget, PureDP) else gaussian_amount(budget)
    for share in shares:
        cost = price_cost(whole * share, budget)
        try:
            ledger.charge(cost, "some")
        except BudgetExceededError:
            continue
    rest = ledger.remaining
    if not rest.is_zero:
        ledger.charge(price_cost(rest, budget), "the rest")
    crumb = whole * 1e-3
    with pytest.raises(BudgetExceededError):
        ledger.charge(price_cost(crumb, budget), "too much")


def test_shares_of_a_budget_fit():
    for budget in (PureDP(1), ZCDP(1), GDP(1), ApproxDP(1, 1e-6)):
        ledger = Ledger.in_memory(budget)
        for _ in range(7):
            ledger.charge(price_cost(budget / 7, budget), "a seventh")
    ledger = Ledger.in_memory(ApproxDP(1, 1e-6))
    for _ in range(7):
        ledger.charge(price_cost(gaussian_amount(ledger.budget) / 7, ledger.budget), "a seventh of mu squared")
    with pytest.raises(BudgetExceededError, match="gdp"):
        ledger.charge(price_cost(GDP(0.001), ledger.budget), "one more")


def test_currencies_without_proof_are_refused():
    gaussian = gaussian_cost(ZCDP(0.01), scales=FINE)
    coarse = gaussian_cost(ZCDP(0.01), scales=10.0)
    with pytest.raises(NotProvedError, match="pure DP"):
        Ledger.in_memory(PureDP(1)).charge(gaussian, "x")
    with pytest.raises(NotProvedError, match="basic"):
        Ledger.in_memory(ApproxDP(1, 1e-6), currency="basic").can_afford(gaussian)
    for budget in (GDP(1), ApproxDP(1, 1e-6)):
        ledger = Ledger.in_memory(budget)
        with pytest.raises(NotProvedError, match="fine grid"):
            ledger.charge(coarse, "x")
        ledger.charge(gaussian, "x")
    Ledger.in_memory(ZCDP(1)).charge(coarse, "x")
    with pytest.raises(NotProvedError, match="zCDP"):
        Ledger.in_memory(ZCDP(1)).charge(Cost(GDP(1), mu_squared=Fraction(1)), "x")


def test_other_units_enter_by_what_is_proved():
    ledger = Ledger.in_memory(ZCDP(1))
    ledger.charge(laplace_cost(PureDP(1)), "Laplace")
    ledger.charge(gaussian_cost(GDP(0.5), scales=3.0), "Gaussian")
    assert ledger.spent == ZCDP(0.625)
    ledger = Ledger.in_memory(GDP(1))
    ledger.charge(gaussian_cost(ZCDP(0.125), scales=FINE), "Gaussian")
    assert ledger.spent == GDP(0.5)


def test_total_variation_is_summed_and_limited_for_approximate_dp():
    tau = Fraction(1, 10**10)
    cost = Cost(GDP(0.01), mu_squared=Fraction(1, 10**4), tau=tau)
    ledger = Ledger.in_memory(GDP(1))
    ledger.charge(cost, "x")
    ledger.charge(cost, "x")
    assert ledger.tau == 2e-10
    assert "total variation 2e-10" in repr(ledger)
    ledger = Ledger.in_memory(ApproxDP(1, 1e-6))  # allows 1e-9/(1 + e) = 2.69e-10
    ledger.charge(cost, "x")
    ledger.charge(cost, "x")
    with pytest.raises(BudgetExceededError, match=r"reserve.*finer grid"):
        ledger.charge(cost, "x")
    assert Ledger.in_memory(ZCDP(1)).tau == 0


def test_probabilities_of_failure_are_summed_and_paid_once_by_delta():
    """Total variation tau takes (1 + e^epsilon) tau of delta, a probability of failure takes itself."""
    cost = Cost(GDP(0.01), mu_squared=Fraction(1, 10**4), delta0=Fraction(4, 10**10))
    ledger = Ledger.in_memory(GDP(1))
    ledger.charge(cost, "x")
    ledger.charge(Cost(GDP(0.01), mu_squared=Fraction(1, 10**4), tau=Fraction(1, 10**10)), "x")
    assert ledger.tau == 5e-10
    ledger = Ledger.in_memory(ApproxDP(1, 1e-6))  # sets 1e-9 aside
    ledger.charge(cost, "x")
    ledger.charge(cost, "x")
    for more in (cost, Cost(GDP(0.01), mu_squared=Fraction(1, 10**4), tau=Fraction(1, 10**10))):
        with pytest.raises(BudgetExceededError, match="reserve"):
            ledger.charge(more, "x")
    ledger.charge(Cost(GDP(0.01), mu_squared=Fraction(1, 10**4), delta0=Fraction(1999, 10**13)), "the rest")
    with pytest.raises(BudgetExceededError, match="reserve"):
        ledger.charge(Cost(GDP(0.01), mu_squared=Fraction(1, 10**4), delta0=Fraction(1, 10**12)), "x")
    assert ledger.tau == pytest.approx(1e-9 / (1 + np.e), rel=1e-3)
    for other in (ZCDP(1), PureDP(1)):
        with pytest.raises(NotProvedError):
            Ledger.in_memory(other).charge(cost, "x")


def test_resampled_sums_fit_into_the_whole_budget_that_they_were_priced_at():
    for budget in (GDP(0.5), ApproxDP(1.0, 1e-6)):
        _, failure = resampled_cost(DOUBLE_OR_NOTHING, budget, 50)
        cost = cost_of(budget, tau=discrete_gaussian_tau([FINE] * 100), failure=failure)
        ledger = Ledger.in_memory(budget)
        ledger.charge(cost, "all")
        assert ledger.remaining.is_zero
        with pytest.raises(BudgetExceededError):
            ledger.charge(cost, "again")


def test_basic_currency_sums_epsilon_and_delta():
    ledger = Ledger.in_memory(ApproxDP(1, 1e-6), currency="basic")
    assert ledger.spent == PureDP(0)
    ledger.charge(laplace_cost(PureDP(0.4)), "pure")
    assert ledger.spent == PureDP(0.4)
    assert ledger.remaining == ApproxDP(0.6, 1e-6)
    ledger.charge(gaussian_cost(ApproxDP(0.1, 1e-6), scales=FINE), "Gaussian")
    assert ledger.spent == ApproxDP(0.5, 1e-6)
    assert ledger.remaining == PureDP(0.5)
    with pytest.raises(BudgetExceededError, match="delta of the budget"):
        ledger.charge(gaussian_cost(ApproxDP(0.1, 1e-9), scales=FINE), "no delta is left")
    ledger.charge(laplace_cost(ledger.remaining), "the rest")


def test_currency_choice_matters_for_pure_mechanisms():
    """PureDP(.19) costs all of ApproxDP(1, 1e-6) in mu squared, and a fifth of it in epsilon."""
    ledger = Ledger.in_memory(ApproxDP(1, 1e-6))
    with pytest.raises(BudgetExceededError, match="'gdp'"):
        ledger.charge(laplace_cost(PureDP(0.19)), "x")
    ledger.charge(laplace_cost(PureDP(0.188)), "x")
    basic = Ledger.in_memory(ApproxDP(1, 1e-6), currency="basic")
    for _ in range(5):
        basic.charge(laplace_cost(PureDP(0.19)), "x")


def test_refused_charge_stores_nothing(path):
    ledger = Ledger(path, dataset="d", budget=PureDP(1))
    with pytest.raises(BudgetExceededError, match=r"requested PureDP.*remaining PureDP"):
        ledger.charge(laplace_cost(PureDP(2)), "x")
    with pytest.raises(BudgetExceededError):
        ledger.can_afford(laplace_cost(PureDP(2)))
    ledger.can_afford(laplace_cost(PureDP(1)))
    assert ledger.spent == PureDP(0)
    assert len(ledger.charges()) == 0


def test_list_of_charges(path):
    ledger = Ledger(path, dataset="d", budget=ZCDP(1))
    empty = ledger.charges()
    ids = [ledger.charge(gaussian_cost(ZCDP(0.1), scales=2.0), "first"), ledger.charge(laplace_cost(PureDP(1)), "2")]
    frame = ledger.charges()
    assert list(frame.columns) == ["id", "time", "description", "price", "amount", "reserve"]
    assert list(frame.dtypes) == list(empty.dtypes)
    assert list(frame["id"]) == ids
    assert len(set(ids)) == 2
    assert list(frame["price"]) == [ZCDP(0.1), PureDP(1.0)]
    np.testing.assert_array_equal(frame["amount"], [0.1, 0.5])
    assert frame["time"].dt.tz is not None
    assert (pd.Timestamp.now(tz="UTC") - frame["time"]).abs().max() < pd.Timedelta("1h")


def test_representation(path):
    ledger = Ledger(path, dataset="survey", budget=ZCDP(1))
    ledger.charge(gaussian_cost(ZCDP(0.1), scales=2.0), "x")
    text = repr(ledger)
    for part in ("survey", "add_remove", "ZCDP(rho=1.0)", "ZCDP(rho=0.1) in 1 charges", "ZCDP(rho=0.9)", "rho"):
        assert part in text
    path.unlink()
    assert "there is no ledger" in repr(ledger)


def test_properties_survive_reopening(path):
    Ledger(path, dataset="d", budget=ApproxDP(1, 1e-6), neighbors="replace_one", currency="basic").charge(
        laplace_cost(PureDP(0.25)), "x"
    )
    for ledger in (
        Ledger.open(path),
        Ledger(str(path), dataset="d", budget=ApproxDP(1, 1e-6), neighbors="replace_one", currency="basic"),
    ):
        assert ledger.budget == ApproxDP(1, 1e-6)
        assert (ledger.dataset, ledger.neighbors, ledger.currency) == ("d", "replace_one", "basic")
        assert ledger.spent == PureDP(0.25)
        assert ledger.path == str(path.resolve())


@pytest.mark.parametrize(
    ("change", "there", "here"),
    [
        ({"dataset": "e"}, "'d'", "'e'"),
        ({"budget": ApproxDP(2, 1e-6)}, "ApproxDP(epsilon=1.0, delta=1e-06)", "ApproxDP(epsilon=2.0, delta=1e-06)"),
        ({"budget": ZCDP(1)}, "ApproxDP(epsilon=1.0, delta=1e-06)", "ZCDP(rho=1.0)"),
        ({"neighbors": "replace_one"}, "add_remove", "replace_one"),
        ({"currency": "basic"}, "gdp", "basic"),
    ],
)
def test_mismatch_names_both(path, change, there, here):
    right = {"dataset": "d", "budget": ApproxDP(1, 1e-6), "neighbors": "add_remove", "currency": "gdp"}
    Ledger(path, **right)
    if "budget" in change:
        right["currency"] = None
    with pytest.raises(LedgerMismatchError) as caught:
        Ledger(path, **(right | change))
    assert there in str(caught.value)
    assert here in str(caught.value)
    assert Ledger.open(path).budget == ApproxDP(1, 1e-6)


def test_bad_arguments(path):
    for bad in ("rows", None, "replace_special"):
        with pytest.raises(OptionError, match=r"neighbors=.*'add_remove', 'replace_one'"):
            Ledger(path, dataset="d", budget=ZCDP(1), neighbors=bad)
    with pytest.raises(OptionError, match="currency='rho'"):
        Ledger.in_memory(ApproxDP(1, 1e-6), currency="rho")
    with pytest.raises(OptionError, match="budget=1"):
        Ledger.in_memory(1)
    with pytest.raises(OptionError, match="dataset"):
        Ledger(path, dataset="", budget=ZCDP(1))
    assert not path.exists()
    ledger = Ledger.in_memory(PureDP(1))
    with pytest.raises(OptionError, match="cost"):
        ledger.charge(PureDP(1), "x")
    with pytest.raises(OptionError, match="description"):
        ledger.charge(laplace_cost(PureDP(1)), "")


def test_what_is_no_ledger_is_refused_and_left_alone(tmp_path):
    text, other, empty = tmp_path / "notes.txt", tmp_path / "other.db", tmp_path / "empty.db"
    text.write_text("These are not the charges you are looking for. " * 50)
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    empty.touch()
    for file in (text, other):
        before = file.read_bytes()
        for attempt in (lambda f: Ledger(f, dataset="d", budget=ZCDP(1)), Ledger.open):
            with pytest.raises(LedgerError, match="not a ledger"):
                attempt(file)
        assert file.read_bytes() == before
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger.open(empty)
    with pytest.raises(LedgerError, match="no ledger at"):
        Ledger.open(tmp_path / "absent.db")
    assert not (tmp_path / "absent.db").exists()
    with pytest.raises(LedgerError, match="directory"):
        Ledger(tmp_path, dataset="d", budget=ZCDP(1))
    with pytest.raises(LedgerError, match="folder"):
        Ledger(tmp_path / "absent" / "x.db", dataset="d", budget=ZCDP(1))
    for bad in (":memory:", "", None, 3):
        with pytest.raises(LedgerError, match="in_memory"):
            Ledger(bad, dataset="d", budget=ZCDP(1))


def test_a_ledger_in_memory_that_dies_in_a_reference_cycle_closes_its_connection():
    # Python 3.13 warns of every connection that is collected while it is open.
    def cycles():
        kept = []
        for _ in range(10):
            ledger = Ledger.in_memory(ZCDP(1))
            kept.append([ledger.account.store._connection, ledger, kept])
        return kept

    kept = cycles()
    gc.collect()  # the order in which garbage is finalized is another for what has survived
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del kept
        gc.collect()
    assert caught == []


def test_newer_version_is_refused(path):
    Ledger(path, dataset="d", budget=ZCDP(1))
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(LedgerError, match="version 99"):
        Ledger.open(path)


def test_creation_is_all_or_nothing(path, monkeypatch):
    def fail(*arguments):
        raise RuntimeError("interrupted")

    for step in ("_write_header", "_connected"):
        with monkeypatch.context() as patch:
            patch.setattr(store_module, step, fail)
            with pytest.raises(RuntimeError):
                Ledger(path, dataset="d", budget=ZCDP(1))
        assert list(path.parent.iterdir()) == []
    with pytest.raises(LedgerError, match="no ledger at"):
        Ledger.open(path)
    assert Ledger(path, dataset="e", budget=ZCDP(2)).remaining == ZCDP(2)


def test_file_that_disappears_or_is_replaced_is_noticed(path, tmp_path):
    ledger = Ledger(path, dataset="d", budget=ZCDP(1))
    path.unlink()
    with pytest.raises(LedgerError, match="no ledger at"):
        ledger.charge(laplace_cost(PureDP(0.1)), "x")
    assert not path.exists()
    Ledger(tmp_path / "other.db", dataset="d", budget=ZCDP(1))
    (tmp_path / "other.db").rename(path)
    with pytest.raises(LedgerMismatchError, match="replaced"):
        ledger.charge(laplace_cost(PureDP(0.1)), "x")


def test_busy_ledger_gives_up_without_charging(path, monkeypatch):
    monkeypatch.setattr(store_module, "BUSY_SECONDS", 0.05)
    ledger = Ledger(path, dataset="d", budget=ZCDP(1))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match="busy"):
        ledger.charge(laplace_cost(PureDP(0.1)), "x")
    other.execute("ROLLBACK")
    other.close()
    ledger.charge(laplace_cost(PureDP(0.1)), "x")
    assert len(ledger.charges()) == 1


def test_charges_are_written_with_full_synchronisation(path):
    ledger = Ledger(path, dataset="d", budget=ZCDP(1))
    with ledger.account.store.transaction(write=True) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 3
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete"


def test_path_does_not_follow_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("odd ?name#%41.db", dataset="d", budget=PureDP(1))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    ledger.charge(laplace_cost(PureDP(1)), "x")
    assert (tmp_path / "odd ?name#%41.db").is_file()


def test_copies_of_a_file_ledger_share_its_budget(path):
    ledger = Ledger(path, dataset="d", budget=PureDP(1))
    for twin in (copy.copy(ledger), copy.deepcopy(ledger), pickle.loads(pickle.dumps(ledger))):
        twin.charge(laplace_cost(PureDP(0.25)), "x")
    assert ledger.remaining == PureDP(0.25)


def test_ledger_in_memory_cannot_be_copied():
    ledger = Ledger.in_memory(PureDP(1))
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(LedgerError, match="copied or pickled"):
            duplicate(ledger)
    assert ledger.path is None
    assert ledger.dataset == "in memory"
    assert ledger.neighbors == "add_remove"


@pytest.mark.parametrize("where", ["file", "memory"])
def test_threads_spend_all_and_no_more(path, where):
    budget = ZCDP(2)
    ledger = Ledger.in_memory(budget) if where == "memory" else Ledger(path, dataset="d", budget=budget)
    cost, granted, refused = gaussian_cost(ZCDP(0.1), scales=2.0), [], []
    start = threading.Barrier(6)

    def spend():
        start.wait()
        for _ in range(5):
            try:
                granted.append(ledger.charge(cost, "x"))
            except BudgetExceededError:
                refused.append(1)

    threads = [threading.Thread(target=spend) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(granted)) == 20
    assert len(refused) == 10
    assert ledger.spent == budget

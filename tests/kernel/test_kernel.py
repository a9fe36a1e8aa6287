"""Check, charge, sum, draw: in this order, and nothing is drawn where the charge is refused."""

import logging
import re

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import (
    BudgetExceededError,
    LedgerError,
    NotProvedError,
    OptionError,
    PrivacyUnitError,
)
from dpinfer.kernel import run as run_module
from dpinfer.kernel import sampling
from dpinfer.kernel.sums import exact_sums
from dpinfer.privacy.store import Account
from dpinfer.privacy.units import NEIGHBORS
from tests.linear import gram_ols
from tests.logs import charged

SCHEMA = dpi.Schema(x=dpi.Real(0, 1), g=dpi.Category(["a", "b", "c"]), y=dpi.Real(0, 1))
FRAME = SCHEMA.sample(300, np.random.default_rng(0))
BUDGETS = [dpi.PureDP(0.7), dpi.ZCDP(0.3), dpi.GDP(0.9), dpi.ApproxDP(1.0, 1e-6)]


class Watch:
    """Notes the order of what the kernel does."""

    def __init__(self, monkeypatch):
        self.events = []
        watched = {"exact_sums": run_module, "private_noise": sampling, "simulated_noise": sampling}
        for name, owner in watched.items():
            monkeypatch.setattr(owner, name, self._watched(name, getattr(owner, name)))
        monkeypatch.setattr(Account, "charge", self._watched("charge", Account.charge))

    def _watched(self, name, function):
        def watched(*arguments, **options):
            self.events.append(name)
            return function(*arguments, **options)

        return watched


@pytest.fixture
def watch(monkeypatch):
    return Watch(monkeypatch)


def guarded(budget, neighbors="add_remove", frame=FRAME, **options):
    return dpi.PrivateData(frame, SCHEMA, dpi.Ledger.in_memory(budget, neighbors=neighbors, **options))


def test_the_charge_comes_before_the_rows_and_the_noise(watch, caplog):
    """It is logged; a charge that is refused is not."""
    caplog.set_level(logging.DEBUG)
    data = guarded(dpi.ZCDP(1.0), dataset="survey")
    release = gram_ols("y ~ x", data).measure(dpi.ZCDP(0.25))
    with pytest.raises(BudgetExceededError):
        gram_ols("y ~ x", data).measure(dpi.ZCDP(1.0))
    assert charged(caplog) == [("dpinfer", "INFO", "charged ZCDP(rho=0.25) to 'survey' for gram: y ~ x")]
    assert watch.events.pop() == "charge"
    assert watch.events == ["charge", "exact_sums", "private_noise"]
    charges = data.ledger.charges()
    assert charges["id"].tolist() == list(release.charge_ids)
    assert charges["description"].tolist() == ["gram: y ~ x"]
    assert charges["price"].tolist() == [dpi.ZCDP(0.25)]
    assert not release.public


def test_public_data_are_charged_to_nobody(watch):
    data = dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(1))
    release = gram_ols("y ~ x", data).measure(dpi.ZCDP(0.25))
    assert watch.events == ["exact_sums", "simulated_noise"]
    assert release.public
    assert release.charge_ids == ()


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_a_fit_beyond_the_budget_draws_nothing(budget, neighbors, watch):
    data = guarded(budget, neighbors)
    share = budget / 2
    dpi.gram(["x", "y"], data).fit(share)
    before, remaining = data.ledger.charges(), data.ledger.remaining
    watch.events.clear()
    with pytest.raises(BudgetExceededError, match="budget is too small"):
        gram_ols("y ~ x", data).fit(budget)
    assert watch.events == ["charge"]
    assert data.ledger.remaining == remaining
    pd.testing.assert_frame_equal(data.ledger.charges(), before)


@pytest.mark.parametrize(
    ("budget", "price"),
    [(dpi.PureDP(1.0), dpi.ZCDP(0.01)), (dpi.PureDP(1.0), dpi.ApproxDP(0.1, 1e-9)), (dpi.PureDP(2.0), dpi.GDP(0.1))],
    ids=str,
)
def test_a_price_without_proof_in_the_ledgers_currency_draws_nothing(budget, price, watch):
    data = guarded(budget)
    with pytest.raises(NotProvedError):
        gram_ols("y ~ x", data).fit(price)
    assert watch.events == ["charge"]
    assert data.ledger.spent == dpi.PureDP(0)


@pytest.mark.parametrize("price", [dpi.PureDP(1e-12), dpi.ZCDP(1e-30), dpi.GDP(1e-9), dpi.PureDP(5e-324)], ids=str)
def test_a_price_too_small_for_the_sampler_is_refused_before_the_charge(price, watch):
    budgets = {dpi.PureDP: dpi.PureDP(1), dpi.ZCDP: dpi.ZCDP(1), dpi.GDP: dpi.GDP(1)}
    data = guarded(budgets[type(price)])
    with pytest.raises(PrivacyUnitError):
        gram_ols("y ~ x", data).fit(price)
    assert watch.events == []
    assert data.ledger.charges().empty


@pytest.mark.parametrize("price", [dpi.PureDP(0), dpi.ZCDP(0), dpi.GDP(0), dpi.ApproxDP(0, 1e-6)], ids=str)
def test_a_price_of_nothing_is_refused_before_the_charge(price, watch):
    data = guarded(dpi.ApproxDP(1.0, 1e-6))
    with pytest.raises(PrivacyUnitError, match="above zero"):
        gram_ols("y ~ x", data).fit(price)
    assert watch.events == []


@pytest.mark.parametrize("price", [0.1, "0.1", None, dpi.ZCDP, {"rho": 0.1}, np.float64(1)])
def test_a_price_of_no_unit_is_refused_before_the_charge(price, watch):
    data = guarded(dpi.ZCDP(1.0))
    for procedure in (gram_ols("y ~ x", data), dpi.gram(["x"], data)):
        with pytest.raises(OptionError, match="privacy"):
            procedure.fit(price)
    assert watch.events == []


def test_a_plan_is_not_run_and_rows_are_measured_under_their_own_relation(watch):
    data = guarded(dpi.ZCDP(1.0), "replace_one")
    wrong = gram_ols("y ~ x").measurement(dpi.ZCDP(0.1), schema=SCHEMA, neighbors="add_remove")
    for given in (wrong, dpi.mean, "ols", None):
        with pytest.raises(OptionError, match=f"procedure.*{type(given).__name__}.*a question"):
            data.run(given, dpi.ZCDP(0.1))
    assert watch.events == []
    release = data.run(gram_ols("y ~ x"), dpi.ZCDP(0.1))
    assert release.neighbors == "replace_one"
    assert release.law == gram_ols("y ~ x", data).measurement(dpi.ZCDP(0.1)).law != wrong.law


def test_a_ledger_that_cannot_be_written_means_no_draw(tmp_path, watch):
    ledger = dpi.Ledger(tmp_path / "study.db", dataset="d", budget=dpi.ZCDP(1.0))
    data = dpi.PrivateData(FRAME, SCHEMA, ledger)
    (tmp_path / "study.db").unlink()
    with pytest.raises(LedgerError):
        gram_ols("y ~ x", data).fit(dpi.ZCDP(0.1))
    assert watch.events == ["charge"]


@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_a_release_is_the_sums_plus_the_noise_and_shows_no_other_number(neighbors, monkeypatch):
    drawn = []

    def noise(law):
        drawn[:] = [7 * place for place in range(1, len(law.scales) + 1)]
        return list(drawn)

    monkeypatch.setattr(sampling, "private_noise", noise)
    data = guarded(dpi.ZCDP(1.0), neighbors)
    model = gram_ols("y ~ x", data)
    release = model.measure(dpi.ZCDP(0.5))
    exact = exact_sums(model.measurement(dpi.ZCDP(0.5)).rows, data._source)
    assert release.values == tuple(total + extra for total, extra in zip(exact, drawn, strict=True))  # noqa: PD011
    assert release.nobs == (300 if neighbors == "replace_one" else None)
    number = re.search(r"\b300\b", release.to_json())  # a charge's name may hold the digits among others
    assert number is None if neighbors == "add_remove" else '"nobs": 300' in release.to_json()
    assert {type(value) for value in release.values} == {int}  # noqa: PD011


def test_two_fits_of_the_same_question_differ_in_every_noisy_sum():
    data = guarded(dpi.ZCDP(1.0))
    model = gram_ols("y ~ x + g", data)
    first, second = model.measure(dpi.ZCDP(0.1)), model.measure(dpi.ZCDP(0.1))
    assert all(one != two for one, two in zip(first.values, second.values, strict=True))
    assert first.charge_ids != second.charge_ids

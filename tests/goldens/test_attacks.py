"""Attacks on the kernel: each must be refused, or be impossible, before anything is charged or read.

Strict expected failures against a kernel that believes the scales, costs and row functions that it is handed. Whoever
mends the kernel rewrites them against its new interface, and removes the marks: what must hold stands above each test.
"""

import importlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import statsmodels.formula.api as smf
from dpinfer.procedures.cell_sums import noise_plan, sums_measurement
from dpinfer.procedures.crossproducts import gram_measurement

import dpinfer as dpi
from dpinfer.kernel import run
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.privacy.sharing import shared
from dpinfer.release.laws import NoiseLaw

density, quantiles = (importlib.import_module(f"dpinfer.procedures.{name}") for name in ("density", "quantiles"))

SCHEMA = dpi.Schema(
    x=dpi.Real(0, 1),
    y=dpi.Real(0, 1, missing=0.5, impossible=0.5),
    g=dpi.Category(["a", "b"]),
    b=dpi.Boolean(missing=False, impossible=False),
)
FRAME = SCHEMA.sample(200, np.random.default_rng(0))
CHEAP = dpi.ZCDP(1e-6)


class Leak(AssertionError):
    """The attack was served, or was charged before it was refused."""


believed = pytest.mark.xfail(strict=True, raises=Leak, reason="the kernel believes what it is handed")


def guarded(neighbors="add_remove", budget=dpi.ZCDP(100)):  # noqa: B008
    return dpi.PrivateData(FRAME, SCHEMA, dpi.Ledger.in_memory(budget, neighbors=neighbors))


def must_refuse(attack, data):
    """Run an attack; raise `Leak` unless it is refused before the charge."""
    try:
        attack(data)
    except Exception as error:
        if len(data.ledger.charges()):
            raise Leak(f"charged before it was refused: {type(error).__name__}") from error
    else:
        raise Leak("served")


QUESTIONS = {
    "gram": lambda: dpi.gram(["x", "y"]),
    "ols split": lambda: dpi.ols("y ~ x", split=(0.5, 0.3, 0.2)),
    "total": lambda: dpi.total("x", by="g"),
    "variance": lambda: dpi.variance("x"),
    "count": lambda: dpi.count(by="g"),
    "linear queries": lambda: dpi.linear_queries(queries=[[1, 2]], columns="g"),
    "expfam": lambda: dpi.expfam(column="x", family="normal"),
    "cdf": lambda: dpi.cdf("x", resolution=16),
    "quantile": lambda: dpi.quantile(column="x", q=0.5),
    "density": lambda: dpi.density("x"),
    "choice": lambda: dpi.most_frequent("g"),
    "chi2": lambda: dpi.chi2_contingency("g", "b"),
    "ttest": lambda: dpi.ttest_ind("x", "g"),
    "blocks": lambda: dpi.sample_aggregate("y ~ x", model=smf.ols, blocks=8, bounds=dpi.Ball(2)),
    "bootstrap": lambda: dpi.bootstrap("x", replicates=4),
}
every_question = pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)


def planned(question, *, dear=False):
    """Plan a question at a small price, or a large one: of a bootstrap in GDP, which is all that it takes."""
    if isinstance(question(), type(dpi.bootstrap("x"))):
        price = dpi.GDP(1.0) if dear else dpi.GDP(0.01)
    else:
        price = dpi.ZCDP(1.0) if dear else CHEAP
    return question().measurement(price, schema=SCHEMA, neighbors="add_remove")


def attacked(measurement, neighbors="add_remove"):
    """Try to run a measurement that was tampered with."""
    budget = dpi.GDP(10) if measurement.kind == "bootstrap" else dpi.ZCDP(100)
    must_refuse(lambda data: run(measurement, data), guarded(neighbors, budget))


def with_scales(measurement, factor):
    law = measurement.law
    return replace(measurement, law=NoiseLaw(law.family, tuple(factor * scale for scale in law.scales), law.draws))


# Nobody but the kernel says how much noise there is: none cannot be asked for at the price of some.
@believed
@every_question
def test_no_noise(question):
    attacked(with_scales(planned(question), 0.0))


# What a leak means: the exact total for rho = 1e-6.
@believed
def test_the_exact_total_is_not_for_sale():
    data = guarded()
    measurement = with_scales(dpi.total("x").measurement(CHEAP, schema=SCHEMA, neighbors="add_remove"), 0.0)
    release = run(measurement, data)
    exact = sum(round(value * 2**19) for value in FRAME["x"]) / 2**19
    if release.values[-1] * release.steps[-1] == exact and data.ledger.spent == CHEAP:
        raise Leak("the exact total was released for rho = 1e-6")


# The noise is what the price asks for, not a part of it.
@believed
@every_question
def test_half_noise(question):
    attacked(with_scales(planned(question), 0.5))


# The cost that is charged is that of the noise that is drawn.
@believed
@every_question
def test_understated_cost(question):
    attacked(replace(planned(question, dear=True), cost=planned(question).cost))


# The sums are not multiplied by more than the noise was planned for.
@believed
@every_question
def test_raised_multiplier(question):
    measurement = planned(question)
    if measurement.kind == "selection":
        measurement = with_scales(measurement, 1e-9)  # a choice has no multiplier: its scale stands for it
    attacked(replace(measurement, multiplier=measurement.multiplier * 2**10))


# What was priced for one neighbour relation is not run under the other.
@believed
@every_question
def test_relabelled_neighbours(question):
    attacked(replace(planned(question), neighbors="replace_one"), "replace_one")


# The rows that are summed are those that were priced.
@believed
def test_rows_of_another_question():
    priced = dpi.linear_queries(queries=[[1, 0]], columns="g").measurement(CHEAP, schema=SCHEMA)
    summed = dpi.linear_queries(queries=[[2**19, 0]], columns="g").measurement(CHEAP, schema=SCHEMA)
    attacked(replace(priced, rows=summed.rows))


# A stage has no more coordinates than were priced, and that is known before the charge.
@believed
@pytest.mark.parametrize("times", [0, 2])
def test_another_number_of_coordinates(times):
    measurement = planned(QUESTIONS["total"])
    law = NoiseLaw(measurement.law.family, measurement.law.scales * times)
    attacked(replace(measurement, law=law))


def total_rows():
    return dpi.total("x", by="g").measurement(CHEAP, schema=SCHEMA).rows


class Larger(CellSum):
    """A row function that adds a thousand times what it is priced for."""

    def encode(self, raw, count):
        cells, rows = super().encode(raw, count)
        return cells, 1000 * rows


class Telling(CellSum):
    """A row function that tells a cell by its exception."""

    def encode(self, raw, count):
        raise ValueError(str(raw["x"][0]))


# Row functions are the kernel's own types: a subclass is refused, planned honestly or not.
@believed
@pytest.mark.parametrize("kind", [Larger, Telling])
def test_subclassed_rows(kind):
    rows = total_rows()
    forged = kind(rows.features, rows.axes, rows.counted)
    question = {"text": "total"}
    must_refuse(
        lambda data: run(
            sums_measurement(forged, kind="total", privacy=CHEAP, neighbors="add_remove", question=question), data
        ),
        guarded(),
    )


# Nor does anything pass that only looks like a row function.
@believed
def test_duck_typed_rows():
    measurement = planned(QUESTIONS["total"])

    def encode(raw, out):
        return 1000.0 * np.ones((2, len(raw["x"]))), np.zeros(len(raw["x"]))

    basis = SimpleNamespace(width=2)
    duck = SimpleNamespace(columns=("x",), schema=SCHEMA, basis=basis, encode=encode)
    shorter = replace(
        measurement, rows=duck, names=("a", "b", "c"), steps=(1.0,) * 3, law=NoiseLaw("gaussian", (1e-9,) * 3)
    )
    attacked(shorter)


# What was priced cannot be changed between the price and the rows: neither arrays nor caches.
@believed
def test_weights_changed_after_the_price():
    measurement = planned(QUESTIONS["linear queries"])

    def attack(data):
        measurement.rows.matrix[:] *= 1000
        run(measurement, data)

    must_refuse(attack, guarded())


@believed
def test_cache_changed_after_the_price():
    measurement = dpi.exponential_mechanism({"one": "x", "two": "y"}).measurement(CHEAP, schema=SCHEMA)

    def attack(data):
        rows = measurement.rows
        wide = tuple(1e6 * limit for limit in rows.limits)
        rows.__dict__["limits"], rows.__dict__["step"] = wide, rows.step / 1e6
        run(measurement, data)

    must_refuse(attack, guarded())


# Code that is not the library's own never sees rows in this process, whatever it is declared to be.
@believed
def test_estimator_declared_trusted():
    seen = []

    def keep(block):
        seen.append(block)
        return [0.0, 0.0]

    measurement = dpi.sample_aggregate(
        ["x", "y"], model=keep, names=["a", "b"], blocks=8, bounds=dpi.Ball(2)
    ).measurement(CHEAP, schema=SCHEMA)
    attacked(replace(measurement, rows=replace(measurement.rows, trusted=True)))


# Weights of parts are positive finite numbers.
@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_weights_that_are_none(weight):
    def attack(data):
        measurement = sums_measurement(
            total_rows(),
            kind="total",
            privacy=CHEAP,
            neighbors="add_remove",
            question={"text": "total"},
            weights=[weight] * total_rows().width,
        )
        run(measurement, data)

    must_refuse(attack, guarded())


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_one_weight_that_is_none(weight):
    must_refuse(lambda data: noise_plan(2**19, CHEAP, np.array([1.0, weight])), guarded())


# Shares of a price are positive and no more than one together.
@pytest.mark.parametrize("share", [1.0, 1.5, float("inf")])
def test_shares_of_a_gram_above_one(share):
    rows = dpi.gram(["x", "y"]).measurement(CHEAP, schema=SCHEMA).rows

    def attack(data):
        measurement = gram_measurement(
            rows, privacy=CHEAP, neighbors="add_remove", question={"text": "gram"}, clamped_share=share
        )
        run(measurement, data)

    must_refuse(attack, guarded())


@pytest.mark.parametrize("split", [(2, 2, 2), (0.5, 0.5, 0.5), (1.2, -0.1, -0.1), (float("nan"), 0.5, 0.5)])
def test_split_above_one(split):
    rows = dpi.ols("y ~ x").measurement(CHEAP, schema=SCHEMA).rows

    def attack(data):
        measurement = gram_measurement(
            rows, privacy=CHEAP, neighbors="add_remove", question={"text": "gram"}, split=split
        )
        run(measurement, data)

    must_refuse(attack, guarded())


@pytest.mark.parametrize("share", [1.5, -0.5, float("nan")])
def test_share_of_a_quantile_above_one(share, monkeypatch):
    monkeypatch.setattr(quantiles, "_CHOICE_SHARE", share)
    must_refuse(lambda data: dpi.quantile(column="x", q=0.5).bind(data).measure(CHEAP), guarded())


@pytest.mark.parametrize("price", [CHEAP, dpi.PureDP(1e-3)], ids=str)
@pytest.mark.parametrize("share", [1.5, -0.5, float("nan")])
def test_shares_of_a_density_above_one(share, price, monkeypatch):
    monkeypatch.setattr(density, "_SHARES", {"rows": 0.02, "fine": share})
    must_refuse(lambda data: dpi.density("x").bind(data).measure(price), guarded(budget=type(price)(10)))


# What is measured one after the other pays for each: shares above one overspend nothing.
def test_parts_of_a_price_are_charged_as_they_are():
    data = guarded()
    for part in shared(CHEAP, [0.9, 0.9]):
        run(dpi.total("x").measurement(part, schema=SCHEMA), data)
    assert data.ledger.spent.rho == pytest.approx(1.8e-6)


# Ledger, relation and schema of confidential rows are fixed when these are wrapped.
@believed
@pytest.mark.parametrize("name", ["ledger", "neighbors", "schema"])
def test_data_do_not_change_their_protection(name):
    others = {
        "ledger": dpi.Ledger.in_memory(dpi.ZCDP(1000)),
        "neighbors": "replace_one",
        "schema": dpi.Schema(x=dpi.Real(0, 1e6)),
    }
    must_refuse(lambda data: setattr(data, name, others[name]), guarded())

# ruff: noqa: PD011  (the values of a release are no pandas values)
"""A procedure of six stages, built from each other: priced whole, charged once before the first read, never undone."""

import traceback
from dataclasses import dataclass, field
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import BudgetExceededError, DPInferError, MeasurementFailedError
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.scores import ScoreSum
from dpinfer.kernel.rows.tree import PointRows, TreeSum
from dpinfer.kernel.sources import Table, open_source
from dpinfer.kernel.stage import Largest, Place, Resampled, Slot, Stage, Sum
from dpinfer.procedures.procedure import Procedure
from dpinfer.release import Release
from dpinfer.resampling.bootstrap import BootstrapPlan
from dpinfer.schema.axes import BinsAxis
from dpinfer.schema.basis import basis_of
from dpinfer.schema.expressions import compile_expression

SCHEMA = dpi.Schema(a=dpi.Real(0, 1), b=dpi.Real(0, 8))
COLUMNS = ("a", "b")
RNG = np.random.default_rng(3)
FRAME = pd.DataFrame({"a": RNG.uniform(0, 0.1, 2000), "b": RNG.uniform(6, 8, 2000)})
PRICES = {
    "pure": dpi.PureDP(2.0),
    "zcdp": dpi.ZCDP(0.5),
    "gdp": dpi.GDP(1.0),
    "approximate": dpi.ApproxDP(1.0, 1e-6),
}
SECRET = "Ada Lovelace 0.123456789"
HALF = (Fraction(1, 2),)


def counts(name, edges):
    """Rows in bins of a column."""
    return CellSum(Features(basis_of((), SCHEMA)), (BinsAxis(SCHEMA, name, tuple(edges)),))


def total():
    return CellSum(Features(basis_of((), SCHEMA)))


def scores():
    return ScoreSum(SCHEMA, tuple(compile_expression(text, SCHEMA) for text in ("a", "b / 8")))


def points(name):
    return PointRows(TreeSum(SCHEMA, name, 2))


@dataclass(frozen=True, eq=False)
class Staged(Procedure):
    """Count; choose a column; halve it; quarter its fuller half; choose its median; and resample, or count again."""

    procedures = ("staged",)

    resampled: bool = False
    seen: list = field(default_factory=list, metadata={"role": "unstored"})

    def text(self, schema):
        return "six stages"

    def columns_read(self, context):
        return COLUMNS

    def slots(self, context):
        last = Slot(Fraction(1, 4), 8) if self.resampled else Slot(Fraction(1, 4), 8, adaptive=True)
        return (
            Slot(Fraction(1, 20), 1),
            Slot(Fraction(1, 5), 1),
            Slot(Fraction(1, 5), 2, adaptive=True),
            Slot(Fraction(1, 5), 4, adaptive=True),
            Slot(Fraction(1, 10), 1, adaptive=True),
            last,
        )

    def stage(self, place, context, released):
        self.seen.append((place, len(released)))
        return (self._count, self._column, self._halves, self._quarters, self._median, self._last)[place](released)

    def _count(self, released):
        return Stage(Sum(total()))

    def _column(self, released):
        return Stage(Largest(scores(), "gumbel"))

    def _halves(self, released):
        name = COLUMNS[released[1].values[0]]
        upper = SCHEMA[name].upper
        return Stage(
            Sum(counts(name, (0, upper / 2, upper))), settings={"column": name, "edges": [0, upper / 2, upper]}
        )

    def _quarters(self, released):
        settings = released[2].settings
        fuller = int(np.argmax(released[2].array))
        edges = np.linspace(*settings["edges"][fuller : fuller + 2], 5)  # numbers of numpy are numbers
        told = {"column": settings["column"], "edges": edges.tolist()}
        return Stage(Sum(counts(settings["column"], edges)), settings=told)

    def _median(self, released):
        return Stage(Place(points(released[2].settings["column"]), HALF))

    def _last(self, released):
        if self.resampled:
            return Stage(Resampled(BootstrapPlan(SCHEMA, ("a",), replicates=4).rows))
        rows = max(round(float(released[0].array[0])), 1)
        edges = released[3].settings["edges"]
        return Stage(Sum(counts(released[3].settings["column"], edges[:3])), settings={"rows": rows})

    def infer(self, release=None):
        return self._asked_of(release)[0]


class Recording(Table):
    """Notes what the ledger had charged when rows were read; and fails at one of the reads."""

    def __init__(self, ledger, fails=None, error=ValueError):
        self._inner, self._ledger, self.spent = open_source(FRAME), ledger, []
        self._fails, self._error = fails, error
        self.columns, self.rows = self._inner.columns, self._inner.rows

    def read(self, names, start, stop):
        self.spent.append(self._ledger.spent)
        if len(self.spent) - 1 == self._fails:
            raise self._error(SECRET) from KeyError(SECRET)
        return self._inner.read(names, start, stop)


class Panic(BaseException):
    """As compiled code raises it: no Exception."""


def guarded(price, **options):
    """Private rows whose reads are recorded: every stage of these few reads them once."""
    data = dpi.PrivateData(FRAME, SCHEMA, dpi.Ledger.in_memory(price))
    data._source = Recording(data.ledger, **options)
    return data


def refused_before_the_charge(procedure, price=PRICES["zcdp"], match=None):
    data = guarded(price)
    with pytest.raises(DPInferError, match=match) as caught:
        procedure.bind(data).measure(price)
    assert not isinstance(caught.value, MeasurementFailedError)
    assert data.ledger.charges().empty
    assert data._source.spent == []


def failed_after_the_charge(procedure, price, stages, **options):
    """Measure, and check the one error that there is: it says nothing of why, and carries what was released."""
    data = guarded(price, **options)
    with pytest.raises(MeasurementFailedError) as caught:
        procedure.bind(data).measure(price)
    error = caught.value
    assert data.ledger.spent == price
    assert len(data.ledger.charges()) == 1
    assert error.__cause__ is None
    assert error.__context__ is None
    assert SECRET not in "".join(traceback.format_exception(error))
    assert SECRET not in str(error) + repr(error) + repr(error.args)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for local in (value for frame in frames for value in frame.f_locals.values()):
        assert not isinstance(local, BaseException) or local is error
        assert not (isinstance(local, str) and SECRET in local)
    assert not any(frame.f_code.co_name in ("read", "_measure", "exact_sums") for frame in frames)
    partial = error.partial
    assert isinstance(partial, Release)
    assert len(partial.stages) == stages
    assert partial.charge_ids == tuple(data.ledger.charges()["id"])
    return partial


AMOUNTS = ("pure_epsilon", "rho", "mu_squared", "tau", "delta0")
CASES = [("pure", False), ("zcdp", False), ("gdp", False), ("gdp", True), ("approximate", False)]


@pytest.fixture(scope="module", params=CASES, ids=str)
def staged(request):
    """A procedure that was measured once, and what it is made of."""
    unit, resampled = request.param
    data = guarded(PRICES[unit])
    procedure = Staged(resampled=resampled, source=data)
    release = procedure.measure(PRICES[unit])
    return SimpleNamespace(
        price=PRICES[unit], resampled=resampled, data=data, procedure=procedure, release=release, seen=[*procedure.seen]
    )


def test_the_whole_price_is_charged_once_before_the_first_read(staged):
    data = staged.data
    assert data._source.spent == [data.ledger.spent] * 6
    assert data.ledger.spent == staged.price or isinstance(staged.price, dpi.ApproxDP)
    charges = data.ledger.charges()
    assert charges["price"].tolist() == [staged.price]
    assert charges["id"].tolist() == list(staged.release.charge_ids)
    assert [len(stage.names) for stage in staged.release.stages] == [1, 1, 2, 4, 1, 8 if staged.resampled else 2]
    with pytest.raises(BudgetExceededError):
        staged.procedure.measure(staged.price)
    assert len(data._source.spent) == 6


def test_stages_are_built_from_what_was_released_and_from_that_alone(staged):
    """Rehearsed first, then run. Stages that are not adaptive are shown nothing, and are asked for once.

    Column b leads by 1,600, its upper half holds all rows: wrong choices have probability below 1e-12.
    """
    shown = [(0, 0), (1, 0), (2, 2), (3, 3), (4, 4), (5, 0 if staged.resampled else 5)]
    assert staged.seen == [*shown, *(one for one in shown if one[1])]
    stages = staged.release.stages
    assert stages[1].values == (1,)
    assert stages[2].settings["column"] == stages[3].settings["column"] == "b"
    assert stages[3].settings["edges"] == [4.0, 5.0, 6.0, 7.0, 8.0]
    for place, exact in ((0, [2000]), (2, [0, 2000]), (3, [0, 0, *np.histogram(FRAME["b"], [6, 7, 8])[0]])):
        found = stages[place]
        assert np.abs(found.array - exact).max() < 12 * np.sqrt(found.noise_variances.max()) + 1


def test_a_release_of_six_stages_is_stored_and_read_back(staged, tmp_path):
    staged.release.save(tmp_path / "staged.json")
    read = dpi.read_release(tmp_path / "staged.json")
    assert read == staged.release
    assert read.to_json() == staged.release.to_json()
    assert Staged(resampled=staged.resampled, source=read).infer() == staged.release


def test_it_is_simulated_with_the_laws_that_it_is_measured_with(staged):
    private = staged.release
    public = [
        Staged(resampled=staged.resampled, source=dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(seed)))
        for seed in (1, 1, 2)
    ]
    public = [one.measure(staged.price) for one in public]
    assert public[0] == public[1] != public[2]
    assert public[0].public
    assert public[0].charge_ids == ()
    assert [stage.law for stage in private.stages] == [stage.law for stage in public[0].stages]
    assert private.cost == public[0].cost
    again = private.simulate(np.random.default_rng(5))
    for before, after in zip(private.stages, again.stages, strict=True):
        assert (before.values == after.values) == (len(before.names) == 1 and before.law.family == "gumbel")
        assert before.settings == after.settings


def test_the_charge_covers_what_the_stages_cost_in_every_currency(staged):
    """A choice at a zCDP price costs more GDP than noise does; secret weights may fail and are not zCDP."""
    measured = Staged(resampled=staged.resampled).measurement(staged.price, schema=SCHEMA)
    assert measured.cost.price == staged.price
    assert (measured.cost.rho is None) == staged.resampled
    for name in AMOUNTS:
        parts = [getattr(stage.cost, name) for stage in measured.stages]
        charged = getattr(measured.cost, name)
        assert charged is None or (None not in parts and charged >= sum(parts))
    if isinstance(staged.price, dpi.ApproxDP):
        assert measured.cost.approx == staged.price
    assert "stage 6" in measured.describe()


# Failures after the charge


@pytest.mark.parametrize("error", [ValueError, MemoryError, Panic])
@pytest.mark.parametrize("place", range(6))
def test_a_failure_in_any_stage_leaves_the_charge_and_says_nothing(place, error):
    for resampled in (False, True):
        partial = failed_after_the_charge(Staged(resampled=resampled), PRICES["gdp"], place, fails=place, error=error)
        assert not partial.public
        if place:
            assert Release.from_json(partial.to_json()) == partial


def test_public_rows_tell_why_they_failed():
    data = dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(1))
    data._source = Recording(dpi.Ledger.in_memory(dpi.ZCDP(1.0)), fails=2)
    with pytest.raises(ValueError, match=SECRET):
        Staged(source=data).measure(PRICES["zcdp"])


@pytest.mark.parametrize("joined", ["+", " or "])
def test_an_expression_of_too_many_parts_is_refused_before_the_charge(joined):
    part = {"+": "x", " or ": "(x > 0.5)"}[joined]
    text = joined.join([part] * 300) + (" > 3" if joined == "+" else "")
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1.0))
    data = dpi.PrivateData(pd.DataFrame({"x": [0.5]}), dpi.Schema(x=dpi.Real(0, 1)), ledger)
    with pytest.raises(DPInferError, match=r"too many parts|too deeply"):
        dpi.mean("x", data, where=text).measure(dpi.ZCDP(0.1))
    assert ledger.charges().empty

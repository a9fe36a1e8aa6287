# ruff: noqa: PD011  (the values of a release are no pandas values)
"""A procedure of six stages, built from each other: priced whole, charged once before the first read, never undone."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import BudgetExceededError, DPInferError, MeasurementFailedError, OptionError
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.scores import ScoreSum
from dpinfer.kernel.rows.tree import PointRows, TreeSum
from dpinfer.kernel.sources import Table, open_source
from dpinfer.kernel.stage import Largest, Noise, Place, Resampled, Slot, Stage, Sum
from dpinfer.procedures.procedure import Procedure, unstored
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
    return CellSum(Features(basis_of([], SCHEMA)), (BinsAxis(SCHEMA, name, tuple(edges)),))


def total():
    return CellSum(Features(basis_of([], SCHEMA)))


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
        edges = np.linspace(*settings["edges"][fuller : fuller + 2], 5).tolist()
        return Stage(Sum(counts(settings["column"], edges)), settings={"column": settings["column"], "edges": edges})

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


@dataclass(frozen=True, eq=False)
class Asked(Procedure):
    """Whatever a test wants to ask."""

    procedures = ("asked",)

    given: tuple[Slot, ...] = unstored((Slot(),))
    ask: Callable = unstored(None)
    blocks: object = unstored(None)

    def text(self, schema):
        return "asked"

    def question(self, context):
        return {"text": self.text(context.schema), "schema": context.schema.to_dict()}

    def slots(self, context):
        return self.given

    def units(self, context):
        return self.blocks

    def stage(self, place, context, released):
        return self.ask(place, released)

    def infer(self, release=None):
        return self._release(release)


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


def asked(ask, *slots, blocks=None):
    return Asked(ask=ask, given=slots or (Slot(),), blocks=blocks)


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


CASES = [("pure", False), ("zcdp", False), ("gdp", False), ("gdp", True), ("approximate", False)]
ALL = pytest.mark.parametrize(("unit", "resampled"), CASES)


@pytest.mark.slow
@ALL
def test_the_whole_price_is_charged_once_before_the_first_read(unit, resampled):
    price = PRICES[unit]
    data = guarded(price)
    procedure = Staged(resampled=resampled, source=data)
    release = procedure.measure(price)
    assert data._source.spent == [data.ledger.spent] * 6
    assert data.ledger.spent == price or unit == "approximate"
    charges = data.ledger.charges()
    assert charges["price"].tolist() == [price]
    assert charges["id"].tolist() == list(release.charge_ids)
    assert [len(stage.names) for stage in release.stages] == [1, 1, 2, 4, 1, 8 if resampled else 2]
    with pytest.raises(BudgetExceededError):
        procedure.measure(price)
    assert len(data._source.spent) == 6


@ALL
def test_stages_are_built_from_what_was_released_and_from_that_alone(unit, resampled):
    """Rehearsed first, then run. Stages that are not adaptive are shown nothing, and are asked for once."""
    price = PRICES[unit]
    procedure = Staged(resampled=resampled, source=guarded(price))
    release = procedure.measure(price)
    shown = [(0, 0), (1, 0), (2, 2), (3, 3), (4, 4), (5, 0 if resampled else 5)]
    assert procedure.seen == [*shown, *(one for one in shown if one[1])]
    name = COLUMNS[release.stages[1].values[0]]
    assert release.stages[2].settings["column"] == release.stages[3].settings["column"] == name
    low, high = release.stages[3].settings["edges"][0], release.stages[3].settings["edges"][-1]
    assert (low, high) in ((0, SCHEMA[name].upper / 2), (SCHEMA[name].upper / 2, SCHEMA[name].upper))


@ALL
def test_the_clear_answer_is_found(unit, resampled):
    """Column b leads by 1,600, its upper half holds all rows: wrong choices have probability below 1e-12."""
    price = PRICES[unit]
    release = Staged(resampled=resampled, source=guarded(price)).measure(price)
    assert release.stages[1].values == (1,)
    assert release.stages[3].settings["edges"] == [4.0, 5.0, 6.0, 7.0, 8.0]
    for stage, exact in ((0, [2000]), (2, [0, 2000]), (3, [0, 0, *np.histogram(FRAME["b"], [6, 7, 8])[0]])):
        found = release.stages[stage]
        assert np.abs(found.array - exact).max() < 12 * np.sqrt(found.noise_variances.max()) + 1


@ALL
def test_a_release_of_six_stages_is_stored_and_read_back(unit, resampled, tmp_path):
    release = Staged(resampled=resampled, source=guarded(PRICES[unit])).measure(PRICES[unit])
    release.save(tmp_path / "staged.json")
    read = dpi.read_release(tmp_path / "staged.json")
    assert read == release
    assert read.to_json() == release.to_json()
    assert Staged(resampled=resampled, source=read).infer() == release


@ALL
def test_it_is_simulated_with_the_laws_that_it_is_measured_with(unit, resampled):
    price = PRICES[unit]
    public = [
        Staged(resampled=resampled, source=dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(seed))).measure(
            price
        )
        for seed in (1, 1, 2)
    ]
    assert public[0] == public[1] != public[2]
    assert public[0].public
    assert public[0].charge_ids == ()
    private = Staged(resampled=resampled, source=guarded(price)).measure(price)
    assert [stage.law for stage in private.stages] == [stage.law for stage in public[0].stages]
    assert private.cost == public[0].cost
    again = private.simulate(np.random.default_rng(5))
    for before, after in zip(private.stages, again.stages, strict=True):
        assert (before.values == after.values) == (len(before.names) == 1 and before.law.family == "gumbel")
        assert before.settings == after.settings


AMOUNTS = ("pure_epsilon", "rho", "mu_squared", "tau", "delta0")


@ALL
def test_the_charge_covers_what_the_stages_cost_in_every_currency(unit, resampled):
    """A choice at a zCDP price costs more GDP than noise does; secret weights may fail and are not zCDP."""
    procedure = Staged(resampled=resampled)
    measured = procedure.measurement(PRICES[unit], schema=SCHEMA)
    assert measured.cost.price == PRICES[unit]
    assert (measured.cost.rho is None) == resampled
    for name in AMOUNTS:
        parts = [getattr(stage.cost, name) for stage in measured.stages]
        charged = getattr(measured.cost, name)
        assert charged is None or (None not in parts and charged >= sum(parts))
    if unit == "approximate":
        assert measured.cost.approx == PRICES[unit]
    assert "stage 6" in measured.describe()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["choice", "place", "resampled"])
def test_an_adaptive_stage_is_charged_for_the_kind_that_it_is(kind):
    """In the currencies in which noisy sums of the same share would cost less."""
    measures = {
        "choice": Largest(scores(), "gumbel"),
        "place": Place(points("a"), HALF),
        "resampled": Resampled(BootstrapPlan(SCHEMA, ("a",), replicates=4).rows),
    }
    price = PRICES["gdp" if kind == "resampled" else "zcdp"]
    slots = (Slot(Fraction(1, 2), 1), Slot(Fraction(1, 2), 8, adaptive=True))
    procedure = asked(lambda place, _: Stage(measures[kind] if place else Sum(total())), *slots)
    measured = procedure.measurement(price, schema=SCHEMA)
    for name in AMOUNTS:
        parts, charged = [getattr(stage.cost, name) for stage in measured.stages], getattr(measured.cost, name)
        assert charged is None or (None not in parts and charged >= sum(parts))
    if kind == "resampled":
        assert measured.cost.delta0 > 0
        assert measured.cost.rho is None
    else:
        assert measured.cost.mu_squared > 2 * measured.cost.rho
    assert procedure.bind(guarded(price)).measure(price).cost == measured.cost


def test_an_adaptive_stage_that_turns_out_costlier_than_its_charge_is_one_error():
    """Rehearsed, on 256 rows, as sums; asked of 2,000 rows as a choice, or as sums under secret weights."""
    slots = (Slot(Fraction(1, 2), 1), Slot(Fraction(1, 2), 8, adaptive=True))
    kinds = {
        "zcdp": Largest(scores(), "gumbel"),
        "gdp": Resampled(BootstrapPlan(SCHEMA, ("a",), replicates=4).rows),
    }
    for unit, costlier in kinds.items():

        def ask(place, released, costlier=costlier):
            return Stage(costlier if place and released[0].array[0] > 1000 else Sum(total()))

        partial = failed_after_the_charge(asked(ask, *slots), PRICES[unit], 1)
        assert len(partial.stages) == 1


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


def bins(limit, many):
    """Count in 2 bins; in more where more rows were counted than a limit."""

    def ask(place, released):
        if place == 0:
            return Stage(Sum(total()))
        number = many if released[0].array[0] > limit else 2
        return Stage(Sum(counts("a", np.linspace(0, 1, number + 1))))

    return asked(ask, Slot(Fraction(1, 2), 1), Slot(Fraction(1, 2), 4, adaptive=True))


def test_more_numbers_than_the_slot_are_refused_before_the_charge_or_are_one_error_after_it():
    """The rehearsal is on 256 rows and the noise of a count below 30: either side of 1,000 is sure to 1e-12."""
    refused_before_the_charge(bins(-1000, 5), match="at most 4 numbers")
    failed_after_the_charge(bins(1000, 5), PRICES["zcdp"], 1)
    assert len(bins(1000, 4).bind(guarded(PRICES["zcdp"])).measure(PRICES["zcdp"]).stages[1].names) == 4


# Slots and stages that are refused


class Sly(Fraction):
    """A share that is one thing when checked and another when used."""


class Wider(Slot):
    """No slot of the kernel's."""


@pytest.mark.parametrize(
    "share", [Fraction(3, 2), 2, 0, Fraction(0), Fraction(-1, 2), 0.5, 1.0, float("nan"), True, "1", None, Sly(1, 2)]
)
def test_wrong_shares_are_refused(share):
    with pytest.raises(OptionError, match="share"):
        Slot(share)


@pytest.mark.parametrize("most", [0, -1, 2.0, True, None, float("nan")])
def test_wrong_numbers_of_coordinates_are_refused(most):
    with pytest.raises(OptionError, match="most"):
        Slot(Fraction(1, 2), most)


@pytest.mark.parametrize("adaptive", [1, None, "yes"])
def test_slots_are_adaptive_or_not(adaptive):
    with pytest.raises(OptionError, match="adaptive"):
        Slot(Fraction(1, 2), 3, adaptive)


@pytest.mark.parametrize(
    "slots",
    [
        (),
        (Slot(Fraction(2, 3)), Slot(Fraction(2, 3))),
        (Slot(), Slot(Fraction(1, 10**12))),
        (Slot(Fraction(1, 2), adaptive=True), Slot(Fraction(1, 2))),
        (Slot(adaptive=True),),
        (Wider(),),
        (Slot(Fraction(1, 2)), None),
        (Fraction(1, 2),),
        None,
        Slot(),
    ],
    ids=[
        "none",
        "above one",
        "hardly above one",
        "adaptive first",
        "adaptive alone",
        "subclass",
        "nothing",
        "share",
        "no tuple",
        "a slot",
    ],
)
def test_slots_that_lie_are_refused_before_the_charge(slots):
    refused_before_the_charge(replace(asked(lambda *_: Stage(Sum(total()))), given=slots))


class OwnStage(Stage):
    """A stage of another type."""


class OwnSum(Sum):
    """A measure of another type."""


class OwnCells(CellSum):
    """A row sum that says that no row moves it."""

    def change(self, weights, neighbors, norm):
        return Fraction(1, 10**6)


class OwnFeatures(Features):
    """Features of another type."""


class OwnTree(TreeSum):
    """A tree of another type."""


class OwnNoise(Noise):
    """Noise of another type."""


class Duck:
    """Has every attribute that the kernel reads of a row sum, a measure or a stage."""

    def __init__(self, **attributes):
        self.__dict__ |= attributes

    def __getattr__(self, name):
        return getattr(total(), name)


LIES = {
    "a subclass of Stage": lambda: OwnStage(Sum(total())),
    "a duck for a stage": lambda: Duck(measure=Sum(total()), noise=Noise(), settings={}),
    "a subclass of Sum": lambda: Stage(OwnSum(total())),
    "a duck for a sum": lambda: Stage(Duck(rows=total(), weights=None, shares=None)),
    "a subclass of a row sum": lambda: Stage(Sum(OwnCells(Features(basis_of([], SCHEMA))))),
    "a duck for a row sum": lambda: Stage(Sum(Duck())),
    "a row sum of other features": lambda: Stage(Sum(CellSum(OwnFeatures(basis_of([], SCHEMA))))),
    "points of another tree": lambda: Stage(Place(PointRows(OwnTree(SCHEMA, "a", 2)), HALF)),
    "a row sum for another measure": lambda: Stage(Largest(total(), "gumbel")),
    "scores that are summed": lambda: Stage(Sum(scores())),
    "a subclass of Noise": lambda: Stage(Sum(total()), OwnNoise()),
    "a duck for noise": lambda: Stage(Sum(total()), Duck(draws=1, tulap=False)),
    "probabilities that run out": lambda: Stage(Place(points("a"), iter(HALF))),
    "a sly probability": lambda: Stage(Place(points("a"), (Sly(1, 2),))),
    "another unit of protection": lambda: Stage(Sum(CellSum(Features(basis_of([], SCHEMA.with_people("id", 2)))))),
    "settings that JSON does not keep": lambda: Stage(Sum(total()), settings={"edges": (0, 1)}),
    "settings that JSON does not hold": lambda: Stage(Sum(total()), settings={"edges": np.float32(1)}),
    "a setting that is no number": lambda: Stage(Sum(total()), settings={"edge": float("nan")}),
    "nothing": lambda: None,
}


@pytest.mark.parametrize("lie", LIES)
def test_stages_that_are_not_the_kernels_own_are_refused_before_the_charge(lie):
    refused_before_the_charge(asked(lambda *_: LIES[lie]()))
    slots = (Slot(Fraction(1, 2), 1), Slot(Fraction(1, 2), 1, adaptive=True))
    refused_before_the_charge(asked(lambda place, _: LIES[lie]() if place else Stage(Sum(total())), *slots))


def test_blocks_that_are_not_the_kernels_own_are_refused_before_the_charge():
    refused_before_the_charge(asked(lambda *_: Stage(Sum(total())), blocks=Duck()), match="units")


@pytest.mark.parametrize("joined", ["+", " or "])
def test_an_expression_of_too_many_parts_is_refused_before_the_charge(joined):
    part = {"+": "x", " or ": "(x > 0.5)"}[joined]
    text = joined.join([part] * 300) + (" > 3" if joined == "+" else "")
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1.0))
    data = dpi.PrivateData(pd.DataFrame({"x": [0.5]}), dpi.Schema(x=dpi.Real(0, 1)), ledger)
    with pytest.raises(DPInferError, match=r"too many parts|too deeply"):
        dpi.mean("x", data, where=text).measure(dpi.ZCDP(0.1))
    assert ledger.charges().empty

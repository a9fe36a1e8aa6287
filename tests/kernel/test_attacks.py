"""Attacks on the kernel: each is refused before the charge, or changes nothing; what must hold stands above it."""

import importlib
import warnings
from dataclasses import fields, replace
from fractions import Fraction
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.errors import MeasurementFailedError
from dpinfer.kernel import run as running
from dpinfer.kernel.measurement import price_procedure
from dpinfer.kernel.price import price_stage
from dpinfer.kernel.rows.blocks import BlockMoments, Blocks, OctaveCounts, OwnEstimator
from dpinfer.kernel.rows.cells import CellSum, QuerySum
from dpinfer.kernel.rows.features import Features, RowClip
from dpinfer.kernel.rows.iterations import Bins, Interpolant, RoundCounts, RoundFrame, RoundSum, Term
from dpinfer.kernel.rows.marginals import MarginalSum
from dpinfer.kernel.rows.products import GramSum, ReplicateSum
from dpinfer.kernel.rows.scores import ScoreSum
from dpinfer.kernel.rows.tree import PointRows, TreeSum
from dpinfer.kernel.stage import Context, Largest, Noise, Place, Resampled, Slot, Stage, Sum
from dpinfer.privacy.accounting import joint_cost
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.resampling.models import NewtonEstimator
from dpinfer.schema.axes import LevelsAxis
from dpinfer.schema.basis import basis_of
from dpinfer.schema.expressions import compile_expression
from dpinfer.schema.grid import UNIT, Basis
from dpinfer.schema.region import Region
from tests.kernel.asked import Asked, ask
from tests.linear import gram_ols

density, quantiles = (importlib.import_module(f"dpinfer.distributions.{name}") for name in ("density", "quantiles"))

SCHEMA = dpi.Schema(
    x=dpi.Real(0, 1, missing=0.5, impossible=0.5),
    y=dpi.Real(0, 1, missing=0.5, impossible=0.5),
    g=dpi.Category(["a", "b"]),
    b=dpi.Boolean(missing=False, impossible=False),
)
FRAME = SCHEMA.sample(200, np.random.default_rng(0)).assign(secret=np.arange(200.0))
CHEAP, DEAR = dpi.ZCDP(1e-6), dpi.ZCDP(1.0)
TWO = (Slot(Fraction(1, 2), 64), Slot(Fraction(1, 2), 64, adaptive=True))
REGION = Region(("a",), ((0,),), (2.0,), np.zeros(1))


def guarded(neighbors="add_remove", budget=dpi.ZCDP(100)):  # noqa: B008
    return dpi.PrivateData(FRAME, SCHEMA, dpi.Ledger.in_memory(budget, neighbors=neighbors))


def refused(procedure, price=CHEAP, neighbors="add_remove", budget=None):
    """Run an attack: it is refused, and nothing is charged."""
    data = guarded(neighbors, budget or type(price)(100))
    with pytest.raises(Exception) as caught:  # noqa: PT011  (of whatever type, but before the charge)
        data.run(procedure, price)
    assert not isinstance(caught.value, MeasurementFailedError)
    assert data.ledger.charges().empty
    return caught.value


def counts(schema=SCHEMA, by="g"):
    return CellSum(Features(basis_of((), schema)), (LevelsAxis(schema, by),) if by else ())


def totals(schema=SCHEMA, texts=("x",)):
    return CellSum(Features(basis_of(tuple(texts), schema, centred=False)))


QUESTIONS = {
    "gram": lambda: dpi.gram(["x", "y"]),
    "ols split": lambda: gram_ols("y ~ x", split=(0.5, 0.3, 0.2)),
    "total": lambda: dpi.total("x", by="g"),
    "variance": lambda: dpi.variance("x"),
    "count": lambda: dpi.count(by="g"),
    "linear queries": lambda: dpi.linear_queries("g", queries=[[1, 2]]),
    "expfam": lambda: dpi.expfam(column="x", family="normal"),
    "cdf": lambda: dpi.cdf("x", resolution=16),
    "quantile": lambda: dpi.quantile(column="x", q=0.5, resolution=16),
    "density": lambda: dpi.density("x"),
    "choice": lambda: dpi.most_frequent("g"),
    "chi2": lambda: dpi.chi2_contingency("g", "b"),
    "ttest": lambda: dpi.ttest_ind("x", "g"),
    "blocks": lambda: dpi.sample_aggregate("y ~ x", model=smf.ols, blocks=8, bounds=dpi.Ball(2)),
    "bootstrap": lambda: dpi.bootstrap("x", replicates=4),
}
every_question = pytest.mark.parametrize("name", QUESTIONS)


def price_of(name):
    return {"bootstrap": dpi.GDP(0.01), "density": DEAR}.get(name, CHEAP)


def overriding(name, tamper):
    """The question of a subclass that hands out another measurement than the kernel's."""
    question = QUESTIONS[name]()

    class Tampered(type(question)):
        def measurement(self, privacy, **options):
            return tamper(super().measurement(privacy, **options))

    return Tampered(**{one.name: getattr(question, one.name) for one in fields(question)})


def same_noise(name, procedure, neighbors="add_remove"):
    """What is drawn and charged is what the kernel prices, whatever a procedure's own measurement says."""
    price = price_of(name)
    data = guarded(neighbors, type(price)(10))
    right = price_procedure(QUESTIONS[name]().resolve(data.context(price)), data.context(price))
    release = data.run(procedure, price)
    first = release.stages[0].law
    assert first == right.stages[0].law
    assert all(scale > 0 for scale in first.scales) or neighbors == "replace_one"
    assert release.cost == right.cost
    assert data.ledger.spent == price
    assert release.neighbors == neighbors


def scaled(measured, factor):
    stages = [
        replace(one, law=replace(one.law, scales=tuple(factor * scale for scale in one.law.scales)))
        for one in measured.stages
    ]
    return replace(measured, stages=tuple(stages))


TAMPERED = {
    "no noise": lambda measured: scaled(measured, 0.0),
    "half noise": lambda measured: scaled(measured, 0.5),
    "understated cost": lambda measured: replace(measured, cost=replace(measured.cost, rho=Fraction(1, 10**12))),
    "raised multiplier": lambda measured: replace(
        measured, stages=tuple(replace(one, multiplier=2**10 * one.multiplier) for one in measured.stages)
    ),
}


# Nobody but the kernel says how much noise there is, what it costs, and by how much sums are multiplied.
@pytest.mark.parametrize("attack", TAMPERED)
@every_question
def test_a_measurement_of_ones_own_is_not_run(name, attack):
    same_noise(name, overriding(name, TAMPERED[attack]))


# What is priced and charged is the relation of the ledger.
@pytest.mark.parametrize("name", [name for name in QUESTIONS if name != "bootstrap"])
def test_relabelled_neighbours(name):
    tampered = overriding(
        name, lambda measured: replace(measured, context=replace(measured.context, neighbors="add_remove"))
    )
    same_noise(name, tampered, "replace_one")


def test_secret_weights_are_not_relabelled():
    refused(QUESTIONS["bootstrap"](), dpi.GDP(0.01), "replace_one")


# What a leak means: the exact total for rho = 1e-6.
def test_the_exact_total_is_not_for_sale():
    exact = sum(round(value * UNIT) for value in FRAME["x"]) / UNIT
    for name in ("no noise", "half noise", "raised multiplier"):
        data = guarded()
        release = overriding("total", TAMPERED[name]).bind(data).measure(CHEAP)
        noise = np.sqrt(release.noise_variances)
        assert (noise > 300).all()  # rows: more than there are
        assert not np.isclose(release.array.sum(), exact, atol=1e-9)  # fails by chance less than once in 10^10 runs


# Nothing but a Stage of the kernel's own measures and row sums is a stage.
class Larger(CellSum):
    def encode(self, raw, count):
        cells, rows = super().encode(raw, count)
        return cells, 1000 * rows


class Telling(CellSum):
    def add(self, batch):
        raise ValueError(str(batch.cells["x"][0]))


class Understated(CellSum):
    def change(self, weights, neighbors, norm):
        return Fraction(1, 10**9)


class LongStage(Stage):
    pass


class LoudSum(Sum):
    pass


class NoNoise(Noise):
    pass


class FewFeatures(Features):
    @property
    def bounds(self):
        return replace(super().bounds, squared=1)


class FewBasis(Basis):
    @property
    def width(self):
        return 1


class OwnTree(TreeSum):
    pass


class AnyAxis(LevelsAxis):
    def place(self, values):
        return np.zeros(3)


DUCK = SimpleNamespace(columns=("x",), schema=SCHEMA, names=("a",), add=lambda batch: np.ones((1, 1), dtype=np.int64))
PLAIN = Features(basis_of(("x",), SCHEMA))

FORGED = {
    "larger": lambda: Stage(Sum(Larger(PLAIN))),
    "telling": lambda: Stage(Sum(Telling(PLAIN))),
    "understated": lambda: Stage(Sum(Understated(PLAIN))),
    "duck": lambda: Stage(Sum(DUCK)),
    "duck of a stage": lambda: SimpleNamespace(measure=Sum(totals()), noise=Noise(), settings={}),
    "a priced stage": lambda: dpi.total("x").measurement(CHEAP, schema=SCHEMA).stages[0],
    "a measurement": lambda: dpi.total("x").measurement(CHEAP, schema=SCHEMA),
    "subclassed stage": lambda: LongStage(Sum(totals())),
    "subclassed measure": lambda: Stage(LoudSum(totals())),
    "subclassed noise": lambda: Stage(Sum(totals()), NoNoise()),
    "features": lambda: Stage(Sum(GramSum(FewFeatures(PLAIN.basis)))),
    "features of a duck": lambda: Stage(Sum(CellSum(SimpleNamespace(basis=PLAIN.basis, schema=SCHEMA)))),
    "basis": lambda: Stage(Sum(GramSum(Features(FewBasis(SCHEMA, PLAIN.basis.blocks))))),
    "axis": lambda: Stage(Sum(CellSum(PLAIN, (AnyAxis(SCHEMA, "g"),)))),
    "scores among sums": lambda: Stage(Sum(ScoreSum(SCHEMA, (compile_expression("x", SCHEMA),) * 2))),
    "replicates among sums": lambda: Stage(Sum(ReplicateSum(PLAIN, False, 4, "public"))),
    "sums among choices": lambda: Stage(Largest(totals(), "gumbel")),
    "bare blocks": lambda: Stage(Sum(OctaveCounts(SCHEMA, REGION))),
    "duck of a sum": lambda: Stage(SimpleNamespace(rows=totals(), weights=None, shares=None)),
    "duck of noise": lambda: Stage(Sum(totals()), SimpleNamespace(draws=1, tulap=False)),
    "points of another tree": lambda: Stage(Place(PointRows(OwnTree(SCHEMA, "x", 2)), (Fraction(1, 2),))),
    "probabilities that run out": lambda: Stage(Place(PointRows(TreeSum(SCHEMA, "x", 2)), iter((Fraction(1, 2),)))),
    "another unit": lambda: Stage(Sum(totals(SCHEMA.with_people("id", 2)))),
    "settings that JSON does not keep": lambda: Stage(Sum(totals()), settings={"edges": (0, 1)}),
    "settings that JSON does not hold": lambda: Stage(Sum(totals()), settings={"edges": np.float32(1)}),
    "a setting that is no number": lambda: Stage(Sum(totals()), settings={"edge": float("nan")}),
    "nothing": lambda: None,
}


HALFWAY = Interpolant(-1.0, 1.0, np.array([0.0, 1.0]), 0.0, 1.0)
ROUND = RoundSum(
    RoundFrame(Features(basis_of(("x", "b"), SCHEMA)), np.array([[1, 1, 0], [0, 1, 0], [1, 0, 1]]), (1, 0, 1), HALFWAY),
    (Term("score", "vector", 1.0), Term("hessian", "matrix", 11.0, HALFWAY, "linear")),
)


def in_frame(**changed):
    return replace(ROUND, frame=replace(ROUND.frame, **changed))


def in_table(**changed):
    return in_frame(mean=replace(HALFWAY, **changed))


def in_term(**changed):
    return replace(ROUND, terms=(replace(ROUND.terms[0], **changed), ROUND.terms[1]))


class UnderstatedRound(RoundSum):
    def change(self, weights, neighbors, norm):
        return Fraction(1, 10**9)


class LargeFrame(RoundFrame):
    def look(self, rows):
        return replace(super().look(rows), z=1000 * rows)


class CheapTerm(Term):
    @property
    def price(self):
        return 1e-9


class AnyTable(Interpolant):
    def __call__(self, numbers):
        return 1e9 * numbers


class LyingArray(np.ndarray):
    def astype(self, *args, **options):
        return 1000 * np.asarray(self, dtype=float)


class Long(float):
    pass


FORGED_ROUNDS = {
    "row sum": lambda: UnderstatedRound(ROUND.frame, ROUND.terms),
    "frame": lambda: replace(ROUND, frame=LargeFrame(ROUND.frame.features, ROUND.frame.maps, ROUND.frame.bits)),
    "features": lambda: in_frame(features=FewFeatures(ROUND.frame.features.basis)),
    "term": lambda: replace(ROUND, terms=(object.__new__(CheapTerm), ROUND.terms[1])),
    "table": lambda: in_frame(mean=AnyTable(-1.0, 1.0, np.zeros(2), 0.0, 0.0)),
    "function": lambda: in_frame(mean=np.tanh),
    "maps": lambda: in_frame(maps=ROUND.frame.maps.view(LyingArray)),
    "values": lambda: in_table(values=HALFWAY.values.view(LyingArray)),
    "price": lambda: in_term(price=Long(1.0)),
    "cut": lambda: in_term(cut=Long(1.0)),
    "person": lambda: RoundCounts(ROUND.frame, (Bins("p", "person", np.zeros(1), term=object.__new__(CheapTerm)),)),
}
FORGED |= {f"round, {name}": lambda make=make: Stage(Sum(make())) for name, make in FORGED_ROUNDS.items()}


@pytest.mark.parametrize("name", FORGED)
def test_forged_parts(name):
    refused(ask(FORGED[name]()))
    refused(ask(Stage(Sum(counts())), FORGED[name](), slots=TWO))


# The rows that are summed are those that were priced: every bound holds for what `add` forces.
def coded(codes, factors=()):
    first = PLAIN.basis.blocks[0]
    return Basis(SCHEMA, (first, replace(first, factors=factors, codes=codes, shape=(2,) * len(factors))))


EXPRESSION = compile_expression("x", SCHEMA)
ANOTHER = {
    "features as queries": QuerySum(totals(), np.ones((1, 2), dtype=np.int64), 1.0, ("q",)),
    "groups as queries": QuerySum(
        CellSum(PLAIN, (LevelsAxis(SCHEMA, "g"),)), np.ones((1, 2), dtype=np.int64), 1.0, ("q",)
    ),
    "weights that overflow": QuerySum(counts(), np.array([[2**40, 0]]), 1.0, ("q",)),
    "weights of floats": QuerySum(counts(), np.array([[0.5, 0.0]]), 1.0, ("q",)),
    "weights of objects": QuerySum(counts(), np.array([[1, 2**80]], dtype=object), 1.0, ("q",)),
    "weights of other cells": QuerySum(counts(), np.ones((1, 3), dtype=np.int64), 1.0, ("q",)),
    "features as marginals": MarginalSum(totals().features, (LevelsAxis(SCHEMA, "g"),), ((0,),)),
    "a column twice": MarginalSum(counts().features, (LevelsAxis(SCHEMA, "g"),) * 2, ((0, 1),)),
    "places that are none": MarginalSum(counts().features, (LevelsAxis(SCHEMA, "g"),), ((1,),)),
    "places of floats": MarginalSum(counts().features, (LevelsAxis(SCHEMA, "g"),), ((0.0,),)),
    "no marginal": MarginalSum(counts().features, (LevelsAxis(SCHEMA, "g"),), ()),
    "contrasts or not": MarginalSum(counts().features, (LevelsAxis(SCHEMA, "g"),), ((0,),), 1),
    "no constant, squared": GramSum(Features(Basis(SCHEMA, PLAIN.basis.blocks[1:]))),
    "no constant": CellSum(Features(Basis(SCHEMA, PLAIN.basis.blocks[1:]))),
    "nothing": GramSum(Features(Basis(SCHEMA, ()))),
    "factors in cells": CellSum(dpi.gram(["x", "g"]).measurement(DEAR, schema=SCHEMA).rows.features),
    "clipped in cells": CellSum(Features(PLAIN.basis, clip=RowClip(0.5))),
    "small codes": GramSum(Features(coded(np.array([[1]])))),
    "large codes": GramSum(Features(coded(np.full((2, 1), 2**30), ("g",)))),
    "leaves": TreeSum(SCHEMA, "x", 6),
    "half a leaf": TreeSum(SCHEMA, "x", 4.0),
}


NAN, INF = float("nan"), float("inf")
ROUNDS = {
    "no constant": in_frame(features=Features(Basis(SCHEMA, ROUND.frame.features.basis.blocks[1:])), maps=np.eye(2)),
    "clipped": in_frame(features=replace(ROUND.frame.features, clip=RowClip(0.5))),
    "marks": in_frame(features=replace(ROUND.frame.features, count_clamped=True)),
    "maps of floats": in_frame(maps=ROUND.frame.maps * 1.0),
    "maps of objects": in_frame(maps=ROUND.frame.maps.astype(object)),
    "maps of bytes": in_frame(maps=ROUND.frame.maps.astype(np.int8)),
    "maps of other features": in_frame(maps=ROUND.frame.maps[:, :2]),
    "no coordinates": in_frame(maps=ROUND.frame.maps[:2], bits=(0, 0)),
    "too many coordinates": in_frame(maps=np.zeros((600, 3), dtype=np.int64), bits=(0,) * 600),
    "maps of one row": in_frame(maps=ROUND.frame.maps[0]),
    "maps that round": in_frame(maps=np.full((3, 3), 2**33)),
    "maps that overflow": in_frame(maps=np.full((3, 3), -(2**63))),
    "bits of other maps": in_frame(bits=(1, 1)),
    "bits below zero": in_frame(bits=(-2000, 0, 0)),
    "bits that underflow": in_frame(bits=(2000, 0, 0)),
    "bits of floats": in_frame(bits=(1.0, 0.5, 0.0)),
    "bits of truths": in_frame(bits=(True, False, True)),
    **{f"cut {cut}": in_term(cut=cut) for cut in (0.0, -1.0, NAN, INF, 1, "1", True)},
    "weighted by a number": in_frame(weighted=1),
    "weight that is a coordinate": in_frame(weighted=True),
    "labels that are coordinates": in_frame(labels=1),
    "labels below zero": in_frame(labels=-1),
    "labels of a truth": in_frame(labels=False),
    "another norm": in_frame(norm="max"),
    "no norm": in_frame(norm=None),
    "the other norm": in_frame(norm="l1"),
    **{f"ratio {ratio}": in_frame(norm="l1", ratio=ratio) for ratio in (0.0, -1.0, NAN, INF, "1", None, 1)},
    "table of NaN": in_table(values=np.array([0.0, NAN])),
    "table without end": in_table(values=np.array([0.0, INF])),
    "large table": in_table(values=np.array([0.0, 1e300])),
    "table of whole numbers": in_table(values=np.array([0, 1])),
    "table of complex numbers": in_table(values=np.array([0, 1j])),
    "square table": in_table(values=np.zeros((2, 2))),
    "table of one": in_table(values=np.zeros(1)),
    "huge table": in_table(values=np.zeros(2**17)),
    "table of a list": in_table(values=[0.0, 1.0]),
    "table from NaN": in_table(low=NAN),
    "table without width": in_table(low=1.0),
    "reversed table": in_table(low=2.0),
    "table to infinity": in_table(high=INF),
    "table below": in_table(below=NAN),
    "table above": in_table(above=-INF),
    "table of texts": in_table(above="1"),
    **{f"price {price}": in_term(price=price) for price in (0.0, -1.0, NAN, INF, 1e-200, Fraction(1), True, None, "1")},
    "another kind": in_term(kind="vectors"),
    "kind of a list": in_term(kind=["vector"]),
    "of what": in_term(of="rows"),
    "of an attribute": in_term(of="__class__"),
    "of a label that is none": in_term(of="label"),
    **{f"place {place}": in_term(place=place) for place in (-1, 2**40, 0.0, True, None)},
    "center of a matrix": replace(ROUND, terms=(replace(ROUND.terms[1], center=HALFWAY),)),
    "power": in_term(power=3),
    "power of a float": in_term(power=1.0),
    "table that is none": in_term(curve=lambda numbers: 1e9 * numbers),
    **{f"cut {cut}": in_term(kind="vector", cut=cut) for cut in (0.0, -1.0, NAN, INF, 2.0**-40, 2.0**16, 1, True, "1")},
    **{f"cut {kind}": in_term(kind=kind, cut=1.0) for kind in ("matrix", "number", "mass")},
    "weighed without a cut": in_term(kind="vector", weighed=True),
    **{f"weighed {one!r}": in_term(kind="vector", cut=1.0, weighed=one) for one in (1, None, "yes")},
    "no terms": replace(ROUND, terms=()),
    "terms of a text": replace(ROUND, terms="ab"),
    "twice the same": replace(ROUND, terms=ROUND.terms * 2),
    "too many": replace(ROUND, terms=tuple(Term(f"{place}", "vector", 1.0) for place in range(65))),
    "no name": in_term(name=""),
    "no frame": replace(ROUND, frame=ROUND.frame.features),
}
ANOTHER |= {f"round: {name}": rows for name, rows in ROUNDS.items()}


@pytest.mark.parametrize("name", ANOTHER)
def test_rows_of_another_question(name):
    for neighbors in NEIGHBORS:
        refused(ask(Stage(Sum(ANOTHER[name]))), neighbors=neighbors)


SQUARE = basis_of(("x", "x**2"), SCHEMA)
CURVE = SQUARE.curves[0]
BOXES = {
    "the constant moves with x": {"places": (0, 1)},
    "a feature twice": {"places": (1, 1)},
    "a feature that is none": {"places": (1, 3)},
    "places that are no numbers": {"places": (1, 2.0)},
    "another column": {"column": "g"},
    "a column that is secret": {"column": "secret"},
    "no column": {"column": None},
    "reversed": {"lower": CURVE.upper, "upper": CURVE.lower},
    "too wide": {"upper": 2 * np.ones_like(CURVE.upper)},
    "no numbers": {"lower": np.full_like(CURVE.lower, np.nan)},
    "parts of a step": {"lower": CURVE.lower - 2.0**-30},
    "of other pieces": {"edges": CURVE.edges[1:]},
    "of pieces in no order": {"edges": CURVE.edges[::-1]},
    "of pieces without ends": {"edges": np.full_like(CURVE.edges, np.nan)},
    "of pieces whose ends are rounded": {"edges": CURVE.edges.astype(np.float32)},
    "of unsigned pieces in no order": {"edges": np.array([1, 0, *range(2, len(CURVE.edges))], dtype=np.uint8)},
    "in too short floats": {"lower": CURVE.lower.astype(np.float16)},
    "of no piece": {"edges": CURVE.edges[:1], "lower": CURVE.lower[:, :0], "upper": CURVE.upper[:, :0]},
}


def boxed(**changed):
    return Features(replace(SQUARE, curves=(replace(CURVE, **changed),)))


@pytest.mark.parametrize("name", BOXES)
def test_boxes_that_are_none(name):
    for neighbors in NEIGHBORS:
        refused(ask(Stage(Sum(CellSum(boxed(**BOXES[name]))))), neighbors=neighbors)


def test_the_price_is_that_of_the_boxes_whoever_made_them():
    """Smaller boxes have less noise, and rows are forced into them; without boxes each feature has its own bounds."""
    context = guarded().context(CHEAP)
    values = np.linspace(0, 1, 101)
    ends = {"lower": np.zeros_like(CURVE.lower), "upper": np.full_like(CURVE.upper, 0.25)}
    scales, tight = [], boxed(**ends)
    for features in (tight, Features(SQUARE), Features(replace(SQUARE, curves=()))):
        rows = price_procedure(ask(Stage(Sum(CellSum(features)))), context).stages[0]
        scales.append(rows.law.scales[0] * rows.steps[0])
        found = rows.rows.encode({"x": values}, values.size)[1] / 2**19
        assert np.linalg.norm(found, axis=0).max() <= rows.rows.boxes.reach([1.0] * 3, "l2").length
        assert features is not tight or (found[1:].min() >= 0 and found[1:].max() <= 0.25)
    assert scales[0] < scales[1] <= scales[2]


@pytest.mark.parametrize(
    "rows",
    [
        ReplicateSum(PLAIN, False, 3, "public"),
        ReplicateSum(PLAIN, False, 0, "public"),
        ReplicateSum(PLAIN, False, 4, "thrice"),
        ReplicateSum(Features(PLAIN.basis, clip=RowClip(0.5)), False, 4, "public"),
        ReplicateSum(Features(PLAIN.basis), False, np.array([4]), "public"),
    ],
)
def test_replicates_that_are_not_proved(rows):
    refused(ask(Stage(Resampled(rows))), dpi.GDP(0.1), "replace_one")


# Public weights are those of the position and the seed: another seed costs and reveals the same.
def test_another_seed_costs_the_same():
    data = guarded("replace_one", dpi.GDP(10))
    laws = {data.run(ask(Stage(Resampled(ReplicateSum(PLAIN, False, 4, "public", s)))), dpi.GDP(1)).law for s in (0, 7)}
    assert len(laws) == 1
    assert data.ledger.spent.mu == pytest.approx(2**0.5)


# A stage has no more coordinates than its slot, and that is known before the charge.
@pytest.mark.parametrize("stage", [Stage(Sum(counts())), Stage(Resampled(ReplicateSum(PLAIN, False, 4, "public")))])
def test_more_coordinates_than_the_slot(stage):
    refused(ask(stage, slots=(Slot(1, most=1),)), neighbors="replace_one")


# What was priced cannot be changed between the price and the rows: neither arrays nor caches, lists nor places.


def test_weights_changed_after_the_price():
    matrix = np.array([[1, 0], [0, 1]])
    rows = QuerySum(counts(), matrix, 1.0, ("p", "q"))

    def change(call, released):
        matrix[:] *= 1000
        rows.matrix.setflags(write=True)
        return Stage(Sum(QuerySum(counts(), np.eye(2, dtype=np.int64), 1.0, ("p", "q"))))

    data = guarded()
    release = data.run(ask(Stage(Sum(rows)), change, slots=TWO), dpi.ZCDP(50))
    found, true = release.stages[0].array, FRAME["g"].value_counts().loc[["a", "b"]].to_numpy()
    assert np.abs(found - true).max() < 20  # 100 standard deviations
    fresh = QuerySum(counts(), np.eye(2, dtype=np.int64), 1.0, ("p", "q"))
    assert not price_procedure(ask(Stage(Sum(fresh))), data.context(CHEAP)).rows.matrix.flags.writeable


def test_a_round_changed_after_the_price():
    maps, values = ROUND.frame.maps.copy(), HALFWAY.values.copy()
    rows = in_frame(maps=maps, mean=replace(HALFWAY, values=values))

    def change(call, released):
        maps[:] *= 2**20
        values[:] = 1e20
        for one in (rows.frame.maps, rows.frame.mean.values):
            one.setflags(write=True)
        rows.__dict__["_upper"] = rows.frame.__dict__["_exact"] = rows.frame.mean.__dict__["_rises"] = None
        object.__setattr__(rows, "terms", ROUND.terms[:1])
        return Stage(Sum(counts()))

    data = guarded()
    found = data.run(ask(Stage(Sum(rows)), change, slots=TWO), dpi.ZCDP(50)).stages[0]
    x = np.rint((2 * FRAME["x"].to_numpy() - 1) * UNIT) / UNIT
    mean, y = (1 + x) / 2, FRAME["b"].to_numpy()  # of one coordinate, which is the mean here, too
    kept = mean**2 * (y - mean) ** 2 + 11 * mean**6 <= 1
    true = [(mean * (y - mean))[kept].sum(), (mean**3)[kept].sum()]
    assert np.abs(found.array - true).max() < 3  # 20 standard deviations
    sealed = price_procedure(ask(Stage(Sum(ROUND))), data.context(CHEAP)).rows
    assert not sealed.frame.maps.flags.writeable
    assert not sealed.frame.mean.values.flags.writeable


def test_a_round_of_people_pays_for_all_their_rows():
    data = dpi.PrivateData(FRAME, SCHEMA, dpi.Ledger.in_memory(DEAR), id="secret", max_rows=2)
    people = SCHEMA.with_people("secret", 2)
    rows = in_frame(features=Features(basis_of(("x", "b"), people)))
    one_by_one, together = (
        price_procedure(ask(Stage(Sum(one))), data.context(CHEAP)).stages[0]
        for one in (rows, replace(rows, terms=(replace(rows.terms[0], cut=1.0), rows.terms[1])))
    )
    assert one_by_one.bound == 2 * together.bound == 2 * ROUND.bounded("add_remove", "l2").bound
    with pytest.raises(dpi.errors.OptionError, match="that of the data"):
        data.run(ask(Stage(Sum(ROUND))), CHEAP)
    assert data.ledger.charges().empty


@pytest.mark.parametrize("when", ["before the price", "after the price"])
def test_caches_that_were_changed_count_for_nothing(when):
    scores = ScoreSum(SCHEMA, tuple(compile_expression(text, SCHEMA) for text in ("x", "y")))
    cells = totals(texts=("x", "x**2"))
    right = [price_procedure(ask(Stage(one)), guarded().context(DEAR)).stages[0].law for one in (
        Largest(scores, "gumbel"), Sum(cells))]  # fmt: skip

    spread = np.sqrt(guarded().run(ask(Stage(Sum(cells))), DEAR).noise_variances[0])

    def spoil():
        scores.__dict__["limits"] = tuple(1e-6 * limit for limit in scores.limits)
        scores.__dict__["step"] = scores.step / 1e6
        cells.__dict__["boxes"] = SimpleNamespace(reach=lambda *_: SimpleNamespace(length=1e-9, spread=0), binding=())
        cells.features.basis.__dict__["bounds"] = None
        for curve in cells.features.basis.blocks:
            curve.codes[:] = UNIT

    if when == "before the price":
        spoil()
    first = ask(Stage(Largest(scores, "gumbel")))
    data = guarded()
    assert data.run(first, DEAR).choices[0].law == right[0]

    def changing(call, released):
        spoil()
        return Stage(Sum(counts()))

    both = data.run(ask(Stage(Sum(cells)), changing, slots=TWO), dpi.ZCDP(50))
    assert np.sqrt(both.stages[0].noise_variances[0]) == pytest.approx(spread / 5, rel=1e-6)
    true = [200, FRAME["x"].sum(), (FRAME["x"] ** 2).sum()]
    assert np.abs(both.stages[0].array - true).max() < 20


def test_probabilities_added_after_the_charge():
    wanted = [Fraction(1, 2)]
    points = PointRows(TreeSum(SCHEMA, "x", 16, (LevelsAxis(SCHEMA, "g"),)))

    def units(call):
        if call > 1:
            wanted.append(Fraction(1, 4))

    asked = ask(Stage(Place(points, wanted)), units=units)
    release = guarded().run(asked, dpi.ZCDP(10))
    assert len(release.choices[0].values) == 2
    assert asked.calls["units"] == 1


# Code that is not the library's own never sees rows in this process, whatever it is declared to be.
SEEN = []


def keep(block):
    SEEN.append(block)
    return [0.0]


@pytest.mark.slow
def test_nobody_elses_estimator_is_trusted():
    with pytest.raises(TypeError, match="library's own"):
        type("Mine", (OwnEstimator,), {})
    with pytest.raises(TypeError):
        Blocks(SCHEMA, REGION, 8, keep, trusted=True)
    assert not Blocks(SCHEMA, REGION, 8, keep).trusted
    pretender = mock.Mock(spec=NewtonEstimator, side_effect=lambda _: [0.0])  # says that it is of this class
    assert not Blocks(SCHEMA, REGION, 8, pretender).trusted
    first = Blocks(SCHEMA.select(["x"]), REGION, 4, keep, halves=False, workers=1)
    data = guarded()
    data.run(ask(Stage(Sum(BlockMoments(SCHEMA.select(["x"]), REGION, (0.0,), (2.0,)))), units=first), CHEAP)
    assert SEEN == []


def test_an_estimator_of_the_library_has_no_parts_of_others():

    duck = SimpleNamespace(design=(), response=None)
    with pytest.raises(dpi.errors.OptionError):
        NewtonEstimator(model=object, formula="y ~ x", schema=SCHEMA, compiled=duck)


def test_columns_ledgers_and_schemas_of_others_guard_nothing():
    class Watching(dpi.Real):
        def coerce(self, raw):
            SEEN.append(raw)
            return super().coerce(raw)

    class Free(dpi.Ledger):
        def charge(self, cost, description, *, unit=None):
            return "paid"

    class Wide(dpi.Schema):
        rows_per_unit = 0

    ledger = dpi.Ledger.in_memory(DEAR)
    for schema, paying in [
        (dpi.Schema(x=Watching(0, 1)), ledger),
        (SCHEMA, Free.in_memory(DEAR)),
        (Wide(x=dpi.Real(0, 1)), ledger),
    ]:
        with pytest.raises(dpi.errors.OptionError):
            dpi.PrivateData(FRAME, schema, paying)
    assert SEEN == []


# The blocks that are fitted are those that were checked.
def test_units_are_asked_once_and_belong_to_the_data():
    blocks = Blocks(SCHEMA.select(["x"]), REGION, 4, keep, halves=False)
    stage = Stage(Sum(BlockMoments(SCHEMA.select(["x"]), REGION, (0.0,), (2.0,))))
    refused(ask(stage, units=replace(blocks, count=0)))
    refused(ask(stage, units=SimpleNamespace(**blocks.__dict__)))
    refused(ask(stage, units=replace(blocks, schema=dpi.Schema(secret=dpi.Real(0, 200)))))
    refused(ask(Stage(Sum(BlockMoments(SCHEMA, REGION, (0.0,), (2.0,), "l1"))), units=blocks))


# Weights of parts are positive finite numbers, and one part alone has none.
@pytest.mark.parametrize("option", ["weights", "shares"])
@pytest.mark.parametrize("rows", [totals(), counts(), GramSum(PLAIN, split=True)], ids=["total", "count", "gram"])
def test_weights_that_are_none(rows, option):
    for weight in (0.0, -1.0, NAN, INF, 1e-170, 1e170, None, [1.0]):
        for given in [(weight,) * len(rows.parts), (1.0,) * (len(rows.parts) - 1) + (weight,)]:
            refused(ask(Stage(Sum(rows, **{option: given}))))


ALONE = {
    "counts": (Stage(Sum(counts())), CHEAP, "add_remove"),
    "count": (Stage(Sum(counts(by=None))), CHEAP, "add_remove"),
    "exact count": (Stage(Sum(counts(by=None)), Noise(tulap=True)), dpi.PureDP(0.01), "add_remove"),
    "queries": (Stage(Sum(QuerySum(counts(), np.eye(2, dtype=np.int64), 1.0, ("p", "q")))), CHEAP, "add_remove"),
    "tree": (Stage(Sum(TreeSum(SCHEMA, "x", 16))), CHEAP, "replace_one"),
    "gram": (Stage(Sum(GramSum(PLAIN))), CHEAP, "replace_one"),
}


@pytest.mark.parametrize("name", ALONE)
def test_a_part_alone_has_no_weight_that_takes_noise_away(name):
    stage, price, neighbors = ALONE[name]
    budget = type(price)(10)
    right = guarded(neighbors, budget).run(ask(stage), price).law
    for weight in (1e-9, 1e9):
        light = replace(stage, measure=Sum(stage.measure.rows, weights=(weight,)))
        assert guarded(neighbors, budget).run(ask(light), price).law == right
    small = replace(stage, measure=Sum(stage.measure.rows, shares=(0.5,)))
    assert guarded(neighbors, budget).run(ask(small), price).law == right


# Parts of several pay for what their weights take away: the joint cost of all is the price.
@pytest.mark.parametrize("weights", [(1e-9, 1.0), (1.0, 1e9), (3.0, 0.1)])
def test_weights_of_several_parts_are_paid_for(weights):
    release = guarded().run(ask(Stage(Sum(totals(), weights=weights))), dpi.ZCDP(0.5))
    multiplied = np.array([UNIT, UNIT]) / (np.array(release.law.scales) * np.array(release.steps) * UNIT)
    assert (multiplied**2).sum() / 2 <= 0.5 * (1 + 1e-12)


# Shares of a price are positive and no more than one together.
@pytest.mark.parametrize("shares", [(2, 2, 2), (0.5, 0.5, 0.5), (1.2, -0.1, -0.1), (float("nan"), 0.5, 0.5)])
def test_split_above_one(shares):
    refused(ask(Stage(Sum(GramSum(PLAIN, split=True), shares=shares))))


@pytest.mark.parametrize("share", [1.0, 1.5, float("inf")])
def test_shares_of_a_gram_above_one(share):
    rows = GramSum(Features(PLAIN.basis, count_clamped=True))
    refused(ask(Stage(Sum(rows, shares=(1 - share, share)))))


class LongFraction(Fraction):
    def __float__(self):
        return 1000.0


WRONG_SLOTS = {
    "share": [0, -1, 2, Fraction(3, 2), 0.5, 1.0, True, float("nan"), np.float64(0.5), LongFraction(1, 2), "1", None],
    "most": [0, -1, 2.0, True, None, float("nan"), Fraction(3, 2), LongFraction(1, 2)],
    "adaptive": [1, None, "yes"],
}


@pytest.mark.parametrize("option", WRONG_SLOTS)
def test_shares_numbers_and_places_of_slots_are_exact(option):
    for given in WRONG_SLOTS[option]:
        with pytest.raises(dpi.errors.OptionError, match=option):
            Slot(**{"share": Fraction(1, 2), option: given})


class WideSlot(Slot):
    pass


@pytest.mark.parametrize(
    "slots",
    [
        (),
        (Slot(), Slot()),
        (Slot(Fraction(2, 3)), Slot(Fraction(2, 3))),
        (Slot(), Slot(Fraction(1, 10**12))),
        (Slot(adaptive=True),),
        (Slot(Fraction(1, 2), adaptive=True), Slot(Fraction(1, 2))),
        (WideSlot(),),
        (SimpleNamespace(share=Fraction(1), most=5, adaptive=False),),
        *((Slot(Fraction(1, 2)), None), (Fraction(1, 2),), Slot()),
    ],
)
def test_slots_that_are_more_than_the_price(slots):
    refused(ask(*[Stage(Sum(totals()))] * 2, slots=slots))
    refused(Asked(stages=(Stage(Sum(totals())),), given=None))


# Shares are exact: those that a float rounds up cost no more than the price together.
@pytest.mark.parametrize("parts", [3, 6, 7, 49])
@pytest.mark.parametrize("price", [dpi.ZCDP(0.1), dpi.PureDP(0.3), dpi.GDP(0.7), dpi.ApproxDP(1.0, 1e-6)], ids=str)
def test_shares_that_a_float_rounds_up(price, parts):
    slots = tuple(Slot(Fraction(one, parts), 8) for one in (1, parts - 1))
    data = guarded(budget=price)
    release = data.run(ask(*[Stage(Sum(counts()))] * 2, slots=slots), price)
    assert data.ledger.spent <= price
    assert release.cost.approx == (price if isinstance(price, dpi.ApproxDP) else None)


@pytest.mark.parametrize("share", [Fraction(3, 2), Fraction(-1, 2), float("nan")])
def test_share_of_a_quantile_above_one(share, monkeypatch):
    monkeypatch.setattr(quantiles, "_CHOICE_SHARE", share)
    refused(dpi.quantile(column="x", q=0.5))


@pytest.mark.parametrize("price", [CHEAP, dpi.PureDP(1e-3)], ids=str)
@pytest.mark.parametrize("share", [Fraction(3, 2), Fraction(-1, 2), float("nan")])
def test_shares_of_a_density_above_one(share, price, monkeypatch):
    monkeypatch.setattr(density, "_SHARES", {"rows": Fraction(1, 50), "fine": share})
    refused(dpi.density("x"), price)


# What is measured one after the other pays for each: shares above one overspend nothing.
def test_parts_of_a_price_are_charged_as_they_are():
    data = guarded()
    for part in (CHEAP * 0.9, CHEAP * 0.9):
        dpi.total("x").bind(data).measure(part)
    assert data.ledger.spent.rho == pytest.approx(1.8e-6)


# A price is an amount of the library's own: a subclass could be one when noise is drawn, another when it is charged.
def test_a_price_of_two_values():
    class TwoFaced(dpi.ZCDP):
        pass

    with pytest.raises(dpi.errors.OptionError):
        Context(SCHEMA, "add_remove", TwoFaced(0.1))
    refused(ask(Stage(Sum(totals()))), TwoFaced(0.1), budget=DEAR)


# What a procedure says twice counts as it was first said; only an adaptive stage is asked again, within its slot.
def test_a_stage_that_differs_at_the_second_call():
    def second(call, released):
        return Stage(Sum(totals())) if call == 1 else Stage(Sum(GramSum(Features(basis_of(("x", "y"), SCHEMA)))))

    asked = ask(second)
    assert len(guarded().run(asked, CHEAP).names) == 2
    assert asked.calls == {"slots": 1, 0: 1, "units": 1}


def test_slots_that_differ_between_calls():
    def slots(call):
        return (Slot(),) if call == 1 else (Slot(), Slot(), Slot())

    asked = ask(*[Stage(Sum(totals()))] * 3, slots=slots)
    data = guarded()
    assert len(data.run(asked, CHEAP).stages) == 1
    assert data.ledger.spent == CHEAP


def test_a_procedure_that_resolves_to_another_is_the_other():
    class Resolves(Asked):
        def resolve(self, context):
            return dpi.total("x")

    data = guarded()
    assert (
        data.run(Resolves(stages=(Stage(Sum(counts())),)), CHEAP).kind == dpi.total("x").bind(data).measure(CHEAP).kind
    )
    refused(SimpleNamespace(resolve=lambda context: None))


@pytest.mark.parametrize(
    "late",
    [
        lambda: Stage(Sum(totals(texts=[f"x**{k}" for k in range(1, 9)]))),
        lambda: Stage(Sum(Larger(PLAIN))),
        lambda: Stage(Sum(ANOTHER["weights that overflow"])),
        lambda: Stage(Sum(ANOTHER["round: maps that round"])),
        lambda: Stage(Sum(UnderstatedRound(ROUND.frame, ROUND.terms))),
        lambda: None,
        lambda: 1 / 0,
    ],
)
def test_an_adaptive_stage_that_asks_for_more_only_then(late):
    def second(call, released):
        return Stage(Sum(counts())) if call == 1 else late()

    data = guarded()
    slots = (Slot(Fraction(1, 2), 2), Slot(Fraction(1, 2), 2, adaptive=True))
    with pytest.raises(MeasurementFailedError) as caught:
        data.run(ask(Stage(Sum(totals())), second, slots=slots), CHEAP)
    assert len(caught.value.partial.stages) == 1
    assert data.ledger.spent == CHEAP
    assert caught.value.__cause__ is caught.value.__context__ is None


# An adaptive stage is charged as noisy sums and as it was rehearsed, whichever is more in each currency.
CHOICE = Largest(ScoreSum(SCHEMA, (EXPRESSION, compile_expression("y", SCHEMA))), "gumbel")
COSTLY = {
    "choice in rho": (Stage(CHOICE), dpi.ZCDP(0.1)),
    "choice in mu": (Stage(CHOICE), dpi.GDP(20.0)),
    "place": (Stage(Place(PointRows(TreeSum(SCHEMA, "x", 16)), (Fraction(1, 2),))), dpi.ZCDP(0.5)),
    "secret weights": (Stage(Resampled(ReplicateSum(PLAIN, False, 8, "double_or_nothing"))), dpi.GDP(0.5)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COSTLY)
def test_an_adaptive_stage_that_costs_more_than_noisy_sums_is_charged_for_it(name):
    stage, price = COSTLY[name]
    asked, context = ask(Stage(Sum(counts())), stage, slots=TWO), Context(SCHEMA, "add_remove", price)
    measured = price_procedure(asked, context)
    spent = measured.stages[0].cost + measured.stages[1].cost
    for currency in ("rho", "mu_squared", "pure_epsilon"):
        charged, cost = getattr(measured.cost, currency), getattr(spent, currency)
        assert charged is None or (cost is not None and charged >= cost)
    assert measured.cost.delta0 >= spent.delta0
    assert measured.cost.tau >= spent.tau
    if name == "secret weights":
        assert measured.cost.delta0 > 0
        assert measured.cost.rho is None
    elif isinstance(price, dpi.ZCDP):
        assert measured.cost.mu_squared > 2 * measured.cost.rho
    assert guarded(budget=type(price)(100)).run(asked, price).cost == measured.cost


@pytest.mark.parametrize("name", [name for name in COSTLY if name != "place"])
def test_an_adaptive_stage_that_costs_more_only_at_run_time_is_refused(name):
    stage, price = COSTLY[name]

    def second(call, released):
        return Stage(Sum(counts())) if call == 1 else stage

    data = guarded(budget=type(price)(100))
    with pytest.raises(MeasurementFailedError) as caught:
        data.run(ask(Stage(Sum(counts())), second, slots=TWO), price)
    assert len(caught.value.partial.stages) == 1


COUNTS = RoundCounts(ROUND.frame, (Bins("size", "size", np.arange(1.0, 8.0), 2), Bins("x", "coordinate", np.ones(1))))


def with_part(rows, parts, **changed):
    """Return rows with the first of the terms or bins changed."""
    first, *others = getattr(rows, parts)
    return replace(rows, **{parts: (replace(first, **changed), *others)})


REPRICED = {
    "price": with_part(ROUND, "terms", price=2.0),
    "cut": with_part(ROUND, "terms", cut=3.0),
    "another cut": with_part(ROUND, "terms", cut=5.0),
    "kind of a term": with_part(ROUND, "terms", kind="matrix"),
    "name of a term": with_part(ROUND, "terms", name="other"),
    "one term": replace(ROUND, terms=ROUND.terms[:1]),
    "curve": with_part(ROUND, "terms", curve=HALFWAY),
    "maps": in_frame(maps=np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1]])),
    "size": in_frame(maps=np.array([[1, 1, 0], [1, 0, 1], [0, 1, 0], [1, 0, 1]]), bits=(1, 1, 0, 1)),
    "groups": with_part(
        in_frame(maps=np.array([[1, 1, 0], [0, 1, 0], [1, 0, 1], [1, 0, 0]]), bits=(1, 0, 1, 0), labels=1),
        "terms",
        groups=2,
    ),
    "bins": with_part(COUNTS, "places", cuts=np.arange(1.0, 4.0)),
    "ends of bins": with_part(COUNTS, "places", cuts=np.arange(2.0, 9.0)),
    "levels": with_part(COUNTS, "places", levels=3),
    "halves": with_part(COUNTS, "places", halved=True),
    "name of bins": with_part(COUNTS, "places", name="other"),
    "people": with_part(COUNTS, "places", of="person", term=Term("score", "vector", 1.0, cut=3.0)),
}


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize(
    ("name", "people"), [(one, some) for one in REPRICED for some in (0, 3) if not some or one != "groups"]
)
def test_a_price_is_kept_only_where_nothing_that_it_depends_on_differs(name, people, neighbors):
    """A stage that was priced before, of which something differs, is priced as if none had been."""
    schema = SCHEMA.with_people("id", people) if people else SCHEMA
    features, context = Features(basis_of(("x", "b"), schema)), Context(schema, neighbors, DEAR)
    one, two, other = (
        replace(rows, frame=replace(rows.frame, features=features)) for rows in (ROUND, COUNTS, REPRICED[name])
    )
    sums = Sum(one), Sum(two), Sum(other), Sum(one, weights=(1.0, 2.0)), Sum(two, shares=(0.5, 0.5))
    for first in sums:
        before = price_stage(Stage(first), DEAR, context, most=100)
        for measure in sums:
            kept, anew = (price_stage(Stage(measure), DEAR, context, most=100, before=one) for one in (before, None))
            for fact in ("names", "law", "steps", "cost", "bound", "multiplier"):
                assert getattr(kept, fact) == getattr(anew, fact)
            assert kept.rows is not before.rows


def test_an_adaptive_choice_at_a_pure_price_is_within_its_reserve():
    stage = Stage(replace(CHOICE, law="exponential"))
    data = guarded(budget=dpi.PureDP(1))
    assert len(data.run(ask(Stage(Sum(counts())), stage, slots=TWO), dpi.PureDP(1)).stages) == 2
    assert data.ledger.spent == dpi.PureDP(1)


# (epsilon, delta) is claimed only where delta pays for total variation and failure probabilities together.
@pytest.mark.slow
def test_failure_probabilities_are_paid_from_delta():
    slots = (Slot(Fraction(1, 2), 64), Slot(Fraction(1, 2), 64))
    stages = Stage(Sum(counts())), Stage(Resampled(ReplicateSum(PLAIN, False, 8, "double_or_nothing")))
    costs = {
        delta: price_procedure(ask(*stages, slots=slots), Context(SCHEMA, "add_remove", dpi.ApproxDP(1.0, delta))).cost
        for delta in (1e-3, 1e-9)
    }
    assert costs[1e-9].delta0 == costs[1e-3].delta0 == Fraction(1e-10)
    assert costs[1e-9].approx is None  # a thousandth of delta, 1e-12, does not pay for 1e-10
    price = dpi.ApproxDP(1.0, 1e-9)
    assert joint_cost(price, [costs[1e-3], costs[1e-3]]).approx is None


# The columns of a row sum are those of the data, as these declare them.
OTHERS = {
    "wider": dpi.Schema(x=dpi.Real(0, 1e6, missing=0.5, impossible=0.5)),
    "narrower": dpi.Schema(x=dpi.Real(0.4, 0.5, missing=0.5, impossible=0.5)),
    "another policy": dpi.Schema(x=dpi.Real(0, 1)),
    "other people": SCHEMA.with_people("secret", 3),
    "undeclared": dpi.Schema(x=SCHEMA["x"], secret=dpi.Real(0, 200)),
}
READING = {
    "cells": lambda schema, name: Stage(Sum(CellSum(Features(basis_of((name,), schema))))),
    "gram": lambda schema, name: Stage(Sum(GramSum(Features(basis_of((name,), schema))))),
    "tree": lambda schema, name: Stage(Sum(TreeSum(schema, name, 16))),
    "place": lambda schema, name: Stage(Place(PointRows(TreeSum(schema, name, 16)), (Fraction(1, 2),))),
    "scores": lambda schema, name: Stage(
        Largest(
            ScoreSum(schema, (compile_expression(name, schema), compile_expression(f"1 - {name}", schema))), "gumbel"
        )
    ),
}


@pytest.mark.parametrize("reading", READING)
@pytest.mark.parametrize("other", OTHERS)
def test_a_schema_that_is_not_the_datas(other, reading):
    schema = OTHERS[other]
    name = "secret" if "secret" in schema else "x"
    refused(ask(READING[reading](schema, name)))


def test_the_id_column_is_not_read():
    people = SCHEMA.with_people("secret", 2)
    data = dpi.PrivateData(FRAME, SCHEMA, dpi.Ledger.in_memory(DEAR), id="secret", max_rows=2)
    wide = dpi.Schema({**SCHEMA, "secret": dpi.Real(0, 200)})
    for stage in (READING["cells"](wide, "secret"), READING["cells"](SCHEMA, "x")):
        with pytest.raises(dpi.errors.DPInferError):
            data.run(ask(stage), CHEAP)
    assert data.ledger.charges().empty
    assert len(data.run(ask(READING["cells"](people, "x")), CHEAP).names) == 2


# Places are multiples of 2^-20, each paid for; groups are halved where a row may change them.
@pytest.mark.parametrize(
    "probabilities",
    [(), (Fraction(1, 3),), (Fraction(3, 2),), (0.5,), (Fraction(-1, 2),), (LongFraction(1, 2),), None, ("0.5",)],
    ids=str,
)
def test_probabilities_that_break_the_proof(probabilities):
    refused(ask(Stage(Place(PointRows(TreeSum(SCHEMA, "x", 16)), probabilities))))


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("by", [(), ("g",)])
def test_places_cost_what_their_scales_bring(neighbors, by):
    axes = tuple(LevelsAxis(SCHEMA, name) for name in by)
    probabilities = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
    rows = PointRows(TreeSum(SCHEMA, "x", 16, axes))
    context = Context(SCHEMA, neighbors, dpi.PureDP(1.0), 200 if neighbors == "replace_one" else None)
    priced = price_procedure(ask(Stage(Place(rows, probabilities))), context).stages[0]
    replaced = neighbors == "replace_one"
    spreads = [2 * (1.0 if replaced else float(max(p, 1 - p))) for p in probabilities]
    scales = np.array(priced.law.scales[: len(probabilities)]) * priced.steps[0]
    spent = (np.array(spreads) / scales).sum() * (2 if replaced and by else 1)
    assert 0.99 < spent <= 1


# Noise of one count is not that of several, and no other measure takes draws.
@pytest.mark.parametrize(
    ("stage", "price"),
    [
        (Stage(Sum(counts()), Noise(tulap=True)), dpi.PureDP(0.1)),
        (Stage(Sum(totals()), Noise(tulap=True)), dpi.PureDP(0.1)),
        (Stage(Sum(counts(by=None)), Noise(tulap=True, draws=2)), dpi.PureDP(0.1)),
        (Stage(Sum(counts(by=None)), Noise(tulap=True)), CHEAP),
        (Stage(Sum(counts()), Noise(draws=2)), CHEAP),
        (Stage(Place(PointRows(TreeSum(SCHEMA, "x", 16)), (Fraction(1, 2),)), Noise(draws=2)), dpi.PureDP(0.1)),
    ],
)
def test_noise_that_is_not_proved(stage, price):
    refused(ask(stage), price)


@pytest.mark.parametrize("draws", [0, -1, 0.5, True, 10**9, float("nan")])
def test_draws_are_a_whole_number(draws):
    with pytest.raises(dpi.errors.OptionError):
        Noise(draws=draws)
    with pytest.raises(dpi.errors.OptionError):
        Noise(tulap=1)


# What is public of a run is all that a procedure is handed.
def test_a_procedure_meets_no_rows():
    met = []

    class Curious(Asked):
        def stage(self, place, context, released):
            met.append((context, released))
            return super().stage(place, context, released)

    data = guarded()
    stages = Stage(Sum(totals())), Stage(Sum(counts()))
    data.run(Curious(stages=stages, given=TWO), CHEAP)
    assert len(met) == 3
    assert {type(one) for one, _ in met} == {Context}
    assert all(one.nobs is None and not one.public for one, _ in met)
    assert [len(released) for _, released in met] == [0, 1, 1]
    rehearsed, measured = met[1][1][0], met[2][1][0]
    assert rehearsed.law == measured.law
    other = dpi.PrivateData(FRAME.iloc[:3], SCHEMA, dpi.Ledger.in_memory(DEAR))
    other.run(Curious(stages=stages, given=TWO), CHEAP)
    assert met[4][1][0] == rehearsed  # rehearsed on what no row changes


# What fails after the charge says nothing of rows: no message, cause, context or warning; an interrupt passes bare.
class Bad(BaseException):
    pass


@pytest.mark.parametrize("kind", [ValueError, MemoryError, SystemExit, Bad, KeyboardInterrupt, RuntimeWarning])
def test_failures_after_the_charge_are_silent(kind, monkeypatch):
    def fail(rows, source):
        try:
            raise ValueError("Ada")
        finally:
            raise kind("Ada 0.987")

    monkeypatch.setattr(running, "exact_sums", fail)
    data = guarded()
    expected = KeyboardInterrupt if kind is KeyboardInterrupt else MeasurementFailedError
    with pytest.raises(expected) as caught:
        data.run(ask(Stage(Sum(totals()))), CHEAP)
    assert "Ada" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert data.ledger.spent == CHEAP


def test_warnings_of_a_pass_are_not_given(monkeypatch, capfd):
    def warn(rows, source):
        warnings.warn("a cell is 0.987", stacklevel=1)
        np.array([0.0]) / np.array([0.0])
        return [0, 0]

    monkeypatch.setattr(running, "exact_sums", warn)
    before = list(warnings.filters)
    with np.errstate(all="raise"):
        guarded().run(ask(Stage(Sum(totals()))), CHEAP)
    assert list(warnings.filters) == before
    assert capfd.readouterr() == ("", "")


def test_quiet_passes_that_overlap_leave_the_filters_as_they_were():
    from dpinfer.kernel.sources.base import no_warnings

    before = list(warnings.filters)
    first, second = no_warnings(), no_warnings()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    warnings.warn("not given", stacklevel=1)
    second.__exit__(None, None, None)
    assert list(warnings.filters) == before
    with pytest.raises(UserWarning, match="given"):
        warnings.warn("given", stacklevel=1)


# No thread keeps a row: the room that products are made in is wiped.
def test_no_row_stays_in_the_room_of_a_thread():
    from dpinfer.kernel.rows import products
    from dpinfer.kernel.rows.base import Batch

    rows = GramSum(PLAIN)
    assert rows.add(Batch({"x": FRAME["x"].to_numpy()}, 200))[0, 0] == 200 * UNIT**2
    assert not products._scratch.rows[: 2 * 200].any()
    with pytest.raises(KeyError):
        rows.add(Batch({"y": np.ones(200)}, 200))
    assert not products._scratch.rows[: 2 * 200].any()

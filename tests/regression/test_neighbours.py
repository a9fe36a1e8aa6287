"""The farthest neighbours that a search over cells finds, of rows and of people: within the bound that is priced."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.kernel.rows.iterations import RoundSum
from dpinfer.kernel.stage import Context
from dpinfer.privacy.units import NEIGHBORS, PureDP
from dpinfer.procedures.procedure import context_of
from validation.regression.neighbours import CODEBOOKS, MODELS, PRICES, ROWS, Search, dearest, rows_of, stages_of

ASKED = [("ols", "ZCDP"), ("logit", "PureDP"), ("poisson", "ZCDP"), ("quantreg", "PureDP"), ("mnlogit", "ZCDP")]
ASKED += [("ordered", "PureDP"), ("ordered probit", "ZCDP")]


@pytest.mark.sweep(4)
@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize(("model", "measure"), ASKED)
def test_no_person_is_farther_than_is_priced_and_the_search_comes_near(model, measure, neighbors):
    found = dearest(model, measure, neighbors, "people", steps=12, size=900)
    assert all(one["held"] for one in found)
    ratios = {one["stage"]: one["distance / bound"] for one in found}
    assert ratios["recounts"] == pytest.approx(1, abs=1e-6)
    assert min(ratios.values()) > 0.35


def search_of(model, unit, neighbors="add_remove", kind="second"):
    data, question = MODELS[model]
    frame, schema = rows_of(data).iloc[:600], dpi.Schema(CODEBOOKS[data])
    schema = schema.with_people("id", ROWS) if unit == "people" else schema
    context = Context(schema, neighbors, PRICES["ZCDP"])
    rows, weights = stages_of(question.resolve(context), context, frame, np.random.default_rng(1))[kind]
    bounded, cells = rows.bounded(neighbors, "l2", weights=weights), {one: frame[one].to_numpy() for one in frame}
    return Search(bounded, "l2", schema, 1 if neighbors == "add_remove" else 2, cells, schema.rows_per_unit)


@pytest.mark.parametrize("unit", ["rows", "people"])
@pytest.mark.parametrize("kind", ["start", "second"])
@pytest.mark.parametrize("model", ["logit", "mnlogit"])
def test_all_units_at_once_add_what_the_kernel_adds_for_each(model, kind, unit):
    search = search_of(model, unit, kind=kind)
    assert isinstance(search.bounded.rows, RoundSum)
    units = search.drawn(40, np.random.default_rng(2))
    kernel = [search.bounded.rows.add(search.batch(one[None]))[0] for one in units]
    np.testing.assert_array_equal(search.added(units), kernel)
    ratios = search.ratios(units)
    np.testing.assert_allclose([float(search.exact(one)) for one in units], ratios**2, rtol=1e-9)


@pytest.mark.parametrize("unit", ["rows", "people"])
def test_the_search_finds_a_bound_that_is_a_tenth_too_small(unit):
    search = search_of("ols", unit)
    short = replace(search, bounded=replace(search.bounded, bound=search.bounded.bound * Fraction(9, 10)))
    assert short.exact(short.climbed(60, np.random.default_rng(3))) > 1


STAGED = {
    "levels absorbed": lambda data: dpi.ols("affairs ~ age + yrs_married:had_affair", data, absorb="occupation"),
    "levels absorbed where": lambda data: dpi.ols("affairs ~ age", data, absorb="occupation", where="religious > 1"),
    "doubly robust": lambda data: dpi.experiment("affairs", "had_affair", data, covariates=["age"], method="aipw"),
}


@pytest.mark.sweep(2)
@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("measure", PRICES)
@pytest.mark.parametrize("asked", STAGED)
def test_no_stage_of_absorbed_levels_and_doubly_robust_effects_has_farther_neighbours(asked, measure, neighbors):
    frame, several = rows_of("fair").iloc[:900], asked != "doubly robust"
    people = {"id": "person", "max_rows": ROWS} if several else {}
    given = frame.assign(person=np.arange(len(frame)) // ROWS)
    schema = dpi.Schema(CODEBOOKS["fair"])
    data = dpi.PublicData(given, schema, rng=np.random.default_rng(1), neighbors=neighbors, **people)
    question, price = STAGED[asked](data), PRICES[measure]
    release = question.measure(price)
    context, norm = context_of(release), "l1" if isinstance(price, PureDP) else "l2"
    cells = {name: frame[name].to_numpy() for name in frame}
    for place in range(len(release.stages)):
        measured = question.stage(place, context, release.stages[:place]).measure
        bounded = measured.rows.bounded(neighbors, norm, weights=measured.weights)
        sides = 1 if neighbors == "add_remove" else 2
        search = Search(bounded, norm, context.schema, sides, cells, context.schema.rows_per_unit)
        found = search.exact(search.climbed(5, np.random.default_rng(place)))
        assert 0.05 < found <= 1

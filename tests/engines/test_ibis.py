"""Ibis: the release of the same rows in memory, from a database that Ibis queries."""

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.errors import DataError, MeasurementFailedError
from tests.engines.asked import HOMES, PEOPLE, SECRET, private_mean, questions_served, released
from tests.goldens.frame import SCHEMA
from tests.kernel.sources.kinds import rows, table

ibis = pytest.importorskip("ibis")
duckdb = pytest.importorskip("duckdb")

pytestmark = pytest.mark.filterwarnings("ignore:fetch_.* is deprecated:DeprecationWarning")  # Ibis's own calls

READS = hasattr(duckdb.DuckDBPyConnection, "fetch_record_batch")
"""Whether Ibis reads batches from this version of DuckDB."""

reads = pytest.mark.skipif(not READS, reason="Ibis does not read from this version of DuckDB")


@pytest.fixture
def stored():
    connection = ibis.duckdb.connect()
    connection.con.register("answers", table())
    return connection.table("answers")


@reads
@pytest.mark.parametrize("questions", [HOMES, PEOPLE], ids=["rows", "people"])
def test_a_database_releases_what_pandas_does(stored, questions):
    served = questions_served(questions, rows())
    assert len(served) >= 45
    for question, expected in served:
        assert released(question, stored) == expected, question


@reads
def test_queries(stored):
    kept = rows()[rows()["kids"] >= 2]
    for question in HOMES[:3]:
        assert released(question, stored.filter(stored.kids >= 2)) == released(question, kept), question
    nothing = stored.filter(stored.kids < 0)
    assert released(HOMES[0], nothing) == released(HOMES[0], rows().iloc[:0])


@reads
def test_a_query_that_fails_tells_of_no_cell(stored, capfd):
    text = ibis.literal(SECRET) + stored.kids.cast("string")
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1))
    with pytest.raises(MeasurementFailedError) as caught:
        private_mean(stored.mutate(age=text.cast("float64")), ledger).fit(dpi.ZCDP(0.25))
    assert ledger.spent == dpi.ZCDP(0.25)
    assert SECRET not in str(caught.value) + "".join(capfd.readouterr())
    assert caught.value.__context__ is None


@pytest.mark.skipif(READS, reason="Ibis reads from this version of DuckDB")
def test_a_database_that_ibis_cannot_read_is_refused(stored):
    with pytest.raises(DataError, match="duckdb<2"):
        dpi.PublicData(stored, SCHEMA, rng=np.random.default_rng(1))


def test_tables_of_no_database():
    nowhere = ibis.table({"age": "float64"}, name="nowhere")
    with pytest.raises(DataError, match="without a backend"):
        dpi.PublicData(nowhere, SCHEMA, rng=np.random.default_rng(1))

"""The release for a fixed seed is the same, whatever the rows come in: every procedure, relation and unit."""

from itertools import pairwise

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.errors import DataError, DPInferError
from tests.contract.questions import EVERY, HOME
from tests.goldens.frame import SCHEMA
from tests.kernel.sources.kinds import ONCE, kinds, rows


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    return kinds(tmp_path_factory.mktemp("sources"))


def _released(question, source):
    try:
        return question.public(source).measure(question.privacy).to_json()
    except DPInferError as error:
        return f"{type(error).__name__}: {error}"


def _drawn(question):
    """Whether weights are drawn for the rows of each batch: batches differ, so that only the law is the same."""
    return question.ask.function == "bootstrap"


AT_HOME = [one for one in HOME if not _drawn(one.values[0])]
FAST = {str(one.values[0]) for one in AT_HOME if not one.marks}


def _cases():
    for question in EVERY:
        if not _drawn(question):
            yield pytest.param(question, id=str(question), marks=[] if str(question) in FAST else [pytest.mark.slow])


@pytest.mark.sweep(12)
@pytest.mark.parametrize("question", [*_cases()])
def test_every_procedure_releases_the_same_from_every_source(question, sources):
    """A stream that is read once serves one stage, and of people several: their rows are read once.

    People's rows wait on disk unless they come in memory, which takes long.
    """
    expected = _released(question, rows())
    assert len(sources) == 12
    for name in sources:
        found = _released(question, sources[name]())
        if found.startswith("DataError"):
            assert question.unit == "row" or not expected.startswith("{"), name
            assert name == ONCE or "public weights go by the position" in found, (name, found)
        else:
            assert found == expected, name


ORDERLESS = [
    one for one in AT_HOME if "blocks" not in str(one.values[0]) and "aggregate" not in one.values[0].ask.function
]


@pytest.mark.sweep(3)
@pytest.mark.parametrize("question", ORDERLESS)
def test_the_order_of_rows_makes_no_difference(question, sources, tmp_path):
    shuffled = rows().sample(frac=1, random_state=3)
    shuffled.assign(income=[None if cell is None else str(cell) for cell in shuffled["income"]]).to_parquet(
        tmp_path / "shuffled.parquet", row_group_size=23
    )
    one = question
    assert _released(one, tmp_path / "shuffled.parquet") == _released(one, rows())


def test_bytes_behind_weights_have_addresses_of_their_own(sources):
    """Seeded weights of two batches are not the same: each batch has another address."""
    for name in ("a folder of 7", "LazyFrame", "a relation", "CSV", "a dataset"):
        data = dpi.PublicData(sources[name](), SCHEMA, rng=np.random.default_rng(0))
        with data._open() as source:
            starts = [(part.start, part.rows) for part in source.batches(["age"], 11)]
        ends = sorted(starts)
        assert sum(rows for _, rows in starts) == len(rows())
        assert all(start + size <= after for (start, size), (after, _) in pairwise(ends))


@pytest.mark.parametrize("name", ["a folder of 7", "LazyFrame", "CSV", "a relation", "a dataset"])
def test_public_weights_are_refused_before_the_charge(name, sources):
    ledger = dpi.Ledger.in_memory(dpi.GDP(1), neighbors="replace_one")
    data = dpi.PrivateData(sources[name](), SCHEMA, ledger)
    asked = dpi.bootstrap("age", data, weights="public", replicates=4)
    with pytest.raises(DataError, match="public weights go by the position of a row"):
        asked.measure(dpi.GDP(0.5))
    assert ledger.charges().empty

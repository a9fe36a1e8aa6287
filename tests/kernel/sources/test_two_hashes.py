"""People whose rows wait on disk are told apart by two hashes, whatever their ids are stored in."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import dpinfer as dpi
from dpinfer.kernel.people import person_codes, second_words
from dpinfer.schema.cells import distinct_texts

SCHEMA = dpi.Schema(g=dpi.Category(["a", "b"]))


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
    data = dpi.PublicData(table.to_reader(), SCHEMA, rng=np.random.default_rng(0), id="id", max_rows=1)
    assert dpi.count(data, by="g").fit(dpi.ZCDP(1e8)).summary_frame()["count"].round().tolist() == [3, 3]

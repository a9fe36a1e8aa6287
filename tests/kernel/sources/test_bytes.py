"""Bytes of a CSV file that are no UTF-8: a row of them is a row like any other, or none if it has too many fields."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.kernel.sources import open_source, reader

BYTES = st.lists(st.sampled_from([b"a", b"\n", b",", b"\xff", b"\xc3", b"\xa9", "é".encode(), b"\xf4\x8f\xbf\xbd"]))


def spelled(content):
    """Return what the parser is given, and in pieces of two bytes."""
    stream = reader._ValidText(io.BytesIO(content))
    return b"".join(iter(lambda: stream.read(2), b""))


def texts(cells):
    return [cells.values[place] for place in cells.positions]


@given(BYTES, BYTES)
def test_bytes_are_spelled_out_one_to_one(one, other):
    one, other = b"".join(one), b"".join(other)
    spelled(one).decode("utf-8")
    assert (spelled(one) == spelled(other)) == (one == other)
    if one.isascii():
        assert spelled(one) == one


@given(BYTES, BYTES, st.integers(1, 5))
def test_lines_are_spelled_by_themselves_wherever_blocks_end(one, other, block):
    one, other = b"".join(one) + b"\n", b"".join(other) + b"\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_BLOCK", block)
        both = spelled(one + other)
    assert both == spelled(one) + spelled(other)


@pytest.mark.parametrize("line", [b"secret\xff,1,2", b"1,\xff\xfe,2,3", b"0.5,1,2"])
def test_a_line_of_too_many_fields_is_no_row_whatever_its_bytes(line, tmp_path, capfd):
    schema = dpi.Schema(x=dpi.Real(0, 1), y=dpi.Real(0, 1))
    cells = []
    for name, lines in (("with", [b"x,y", b"0.5,1", line, b"0.25,1"]), ("without", [b"x,y", b"0.5,1", b"0.25,1"])):
        path = tmp_path / f"{name}.csv"
        path.write_bytes(b"\n".join(lines) + b"\n")
        source = open_source(path)
        cells.append([cell for batch in source.batches(["x"], 10) for cell in texts(batch.read()["x"])])
        data = dpi.PrivateData(path, schema, dpi.Ledger.in_memory(dpi.ZCDP(1.0)))
        dpi.mean("x", data=data).measure(dpi.ZCDP(0.5))
    assert cells[0] == cells[1] == ["0.5", "0.25"]
    assert capfd.readouterr().err == ""


def test_persons_whose_names_are_other_bytes_are_others(tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes(b"id,x\n\xff,1\n\xfe,1\n\xff,0\n\xc3\xbf,1\n")
    source = open_source(path)
    (batch,) = source.batches(["id"], 10)
    assert len(set(texts(batch.read()["id"]))) == 3

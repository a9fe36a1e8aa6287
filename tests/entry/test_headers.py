"""Headers of Stata and SPSS files: labels and codes, and no row."""

import math

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.entry.codebooks import described_columns, draft
from dpinfer.errors import SchemaError
from dpinfer.schema import Category, Date, Real

pyreadstat = pytest.importorskip("pyreadstat")

FRAME = pd.DataFrame(
    {
        "sex": [1.0, 2.0],
        "income": [3.5, -9.0],
        "region": ["a", "b"],
        "day": pd.to_datetime(["2024-01-01", "2024-01-02"]),
        "wave": [1.0, 2.0],
    }
)
LABELS = {
    "sex": {1: "male", 2: "female", 9: "refused"},
    "region": {"a": "north", "b": "south"},
    "wave": {1: "x", 2: "x"},
}


def saved(folder, name, frame=FRAME, **options):
    write = pyreadstat.write_dta if name.endswith("dta") else pyreadstat.write_sav
    labels = {k: v for k, v in LABELS.items() if not (name.endswith("dta") and k == "region")}
    write(frame, folder / name, column_labels={"sex": "Sex of person"}, variable_value_labels=labels, **options)
    return folder / name


def test_headers_of_spss_are_read(tmp_path):
    path = saved(
        tmp_path, "x.sav", missing_ranges={"sex": [9], "income": [{"lo": -99, "hi": -1}], "wave": [{"lo": 7, "hi": 9}]},
        variable_format={"wave": "F2.0"},
    )  # fmt: skip
    book = dpi.read_codebook(
        path, source="codebook", declare={"income": Real(0, 9), "day": Date("2024-01-01", "2024-12-31")}
    )
    assert book["sex"] == Category(
        ["male", "female"], codes=[1, 2], missing_codes=[9], label="Sex of person", source="codebook"
    )
    assert book["region"].levels == ("north", "south")
    assert (book["wave"].levels, book["wave"].missing_codes) == ((1, 2), (7, 8, 9))
    assert isinstance(book["day"], Date)
    with pytest.raises(
        SchemaError, match=r"income: lower, upper, missing_codes \(a range of codes\); day: first, last"
    ):
        dpi.read_codebook(path)


def test_headers_of_stata_are_read(tmp_path):
    path = saved(tmp_path, "x.dta")
    book = dpi.read_codebook(path, columns=["sex"])
    assert book["sex"] == Category(["male", "female", "refused"], codes=[1, 2, 9], label="Sex of person")
    with pytest.raises(SchemaError, match="income: lower, upper; region: levels; day: first, last"):
        dpi.read_codebook(path)


def test_a_column_coded_by_a_header_is_measured(tmp_path):
    book = dpi.read_codebook(saved(tmp_path, "x.dta"), columns=["sex"])
    rows = pd.DataFrame({"sex": [1.0, 2.0, 2.0, 9.0] * 50})
    released = dpi.table("sex", dpi.PublicData(rows, book, rng=np.random.default_rng(1))).fit(dpi.ZCDP(1e6))
    np.testing.assert_allclose(released.params, [50, 100, 50], atol=1)
    assert math.isfinite(released.params.sum())


@pytest.mark.parametrize("name", ["x.dta", "x.sav", "x.zsav"])
def test_no_row_of_a_header_is_told(name, tmp_path):
    """Two files that differ in one cell give the same schema, draft and refusal."""
    other = FRAME.assign(income=[4.25, 7.0], region=["b", "c"], sex=[2.0, 9.0])
    told = []
    for number, frame in enumerate((FRAME, other)):
        (tmp_path / str(number)).mkdir()
        path = saved(tmp_path / str(number), name.replace("zsav", "sav"), frame).rename(tmp_path / str(number) / name)
        with pytest.raises(SchemaError) as caught:
            dpi.read_codebook(path)
        told.append((draft(path), str(caught.value), repr(described_columns(path, trusted=False))))
    assert told[0] == told[1]


@pytest.mark.parametrize("name", ["x.dta", "x.sav"])
def test_a_header_that_is_none(name, tmp_path):
    (tmp_path / name).write_bytes(b"zanzibar" * 100)
    with pytest.raises(SchemaError) as caught:
        dpi.read_codebook(tmp_path / name)
    assert str(caught.value) == f"the header of {name!r} cannot be read: expected a file of Stata or SPSS"
    assert caught.value.__context__ is None

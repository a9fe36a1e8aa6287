"""Rows of the goldens: a committed table of text, and a frame of mixed storage made from it.

``python -m tests.goldens.frame`` wrote rows.csv once. The file is what counts: later versions of numpy may draw others.
"""

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

import dpinfer as dpi

FILE = Path(__file__).with_name("rows.csv")
ROWS = 300
PERSON = {"id": "person", "max_rows": 3}

SCHEMA = dpi.Schema(
    age=dpi.Real(0, 100),
    income=dpi.Real(0, 200),
    educ=dpi.Integer(1, 16),
    kids=dpi.Integer(0, 6),
    married=dpi.Boolean(),
    smokes=dpi.Boolean(missing=False, impossible=False),
    vote=dpi.Boolean(missing=False, impossible=True),
    race=dpi.Category(["a", "b", "c"]),
    region=dpi.Category(["north", "south", "west"], missing="north", impossible="west"),
    wait=dpi.Real(0.1, 30),
    share=dpi.Real(0.01, 0.99, missing=0.5, impossible=0.5),
    weight=dpi.Real(0, 4),
)


@cache
def frame() -> pd.DataFrame:
    """Return the rows, every column in another storage."""
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    texts = {name: [row[name] for row in rows] for name in rows[0]}
    return pd.DataFrame(
        {
            "age": np.array([float(text or "nan") for text in texts["age"]]),
            "income": pd.Series([_mixed(text) for text in texts["income"]], dtype=object),
            "educ": pd.array([int(text) if text else None for text in texts["educ"]], dtype="Int64"),
            "kids": np.array([int(text) for text in texts["kids"]]),
            "married": pd.Series([text or None for text in texts["married"]], dtype=object),
            "smokes": np.array([text == "True" for text in texts["smokes"]]),
            "vote": pd.Series([text or None for text in texts["vote"]], dtype=pd.ArrowDtype(pa.string())),
            "race": pd.Categorical(texts["race"], categories=["z", "c", "b", "a"]),
            "region": pd.array([text or None for text in texts["region"]], dtype="string"),
            "wait": np.array([text or "nan" for text in texts["wait"]]).astype(np.float32),
            "share": pd.array([float(text) if text else None for text in texts["share"]], dtype="Float64"),
            "weight": np.array([float(text) for text in texts["weight"]]),
            "person": pd.Series([text or None for text in texts["person"]], dtype=object),
        }
    )


def _mixed(text: str) -> object:
    """Return a number, a text that spells none, or None."""
    try:
        return float(text) if text else None
    except ValueError:
        return text


def drawn() -> dict[str, list[str]]:
    """Draw the table: missing cells are empty; some numbers are out of bounds and some levels unknown."""
    rng = np.random.default_rng(0)
    age = rng.normal(45, 20, ROWS)
    educ = rng.integers(1, 17, ROWS)
    married = rng.random(ROWS) < 0.3 + 0.004 * np.clip(age, 0, 100)
    race = rng.choice(["a", "b", "c", "z"], ROWS, p=[0.5, 0.3, 0.17, 0.03])
    income = 20 + 0.8 * age + 4 * educ + 10 * married + rng.normal(0, 25, ROWS)
    columns = {
        "age": _numbers(age, 2),
        "income": _numbers(income, 1),
        "educ": _numbers(np.where(rng.random(ROWS) < 0.03, 99, educ), 0),
        "kids": _numbers(rng.poisson(1.5, ROWS) + 7 * (rng.random(ROWS) < 0.02), 0),
        "married": [str(value) for value in married],
        "smokes": [str(value) for value in rng.random(ROWS) < 0.25],
        "vote": [
            ("yes", "1", "true", "0", "False")[place] for place in rng.choice(5, ROWS, p=[0.02, 0.3, 0.2, 0.3, 0.18])
        ],
        "race": race.tolist(),
        "region": rng.choice(["north", "south", "west", "mars"], ROWS, p=[0.4, 0.35, 0.22, 0.03]).tolist(),
        "wait": _numbers(rng.gamma(2, 4, ROWS), 3),
        "share": _numbers(rng.beta(2, 5, ROWS), 4),
        "weight": _numbers(rng.uniform(0.5, 3, ROWS), 2),
        "person": [f"p{place}" for place in rng.integers(0, 140, ROWS)],
    }
    for name in ("age", "income", "educ", "married", "vote", "region", "wait", "share", "person"):
        for place in rng.choice(ROWS, 6, replace=False):
            columns[name][place] = ""
    columns["income"][3], columns["income"][8], columns["income"][21] = "n/a", "inf", "-1e300"
    columns["age"][5], columns["age"][17] = "inf", "-0.0"
    return columns


def _numbers(values: np.ndarray, digits: int) -> list[str]:
    return [f"{value:.{digits}f}" for value in values]


def main() -> None:
    """Write rows.csv."""
    columns = drawn()
    with FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


if __name__ == "__main__":
    main()

"""Rows of people who have several each, and their guard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statsmodels.datasets import randhie

import dpinfer as dpi

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

__all__ = ["CONDITIONS", "MOST_ROWS", "SAME", "VISITS_BUDGET", "VISITS_LEDGER", "patients", "visits_of"]

VISITS_LEDGER = "visits-ledger.db"
VISITS_BUDGET, MOST_ROWS = dpi.GDP(2.5), 5
SAME = ["lncoins", "idp", "lpi", "fmde", "physlm", "disea"]
CONDITIONS = ["hlthg", "hlthf", "hlthp"]


def patients() -> pd.DataFrame:
    """Return yearly rows of the RAND health insurance experiment, with a column that tells people apart."""
    rows: pd.DataFrame = randhie.load_pandas().data
    return rows.assign(person=rows[SAME].ne(rows[SAME].shift()).any(axis=1).cumsum())


def visits_of(rows: pd.DataFrame, folder: Path) -> dpi.PrivateData:
    """Guard these rows: all rows of a person are protected together."""
    schema = dpi.Schema(
        mdvis=dpi.Integer(0, 30),
        lncoins=dpi.Real(0, 5),
        physlm=dpi.Real(0, 1),
        disea=dpi.Real(0, 60),
        **{name: dpi.Boolean() for name in CONDITIONS},
    )
    ledger = dpi.Ledger(folder / VISITS_LEDGER, dataset="randhie", budget=VISITS_BUDGET)
    return dpi.PrivateData(rows, schema, ledger, id="person", max_rows=MOST_ROWS)

"""What tests of questions share: refusals that cost nothing, rows that hurt, and all that is seen of a fit."""

import warnings
from itertools import cycle

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import DPInferError
from tests.odd_cells import with_cells


def check_refused(data, ask, asked, options, error, match):
    """What is asked is refused by name, also where data come later, and costs nothing."""
    with pytest.raises(error, match=match):
        ask(asked, data, **options)
    with pytest.raises(DPInferError):
        ask(asked, **options).bind(data).fit(dpi.ZCDP(0.1))
    assert data.ledger.charges().empty


def hurting(schema, plain):
    """Rows to make, by name, of which no fit may show more than noisy numbers; ``plain(n)`` gives rows as they are."""
    names = list(schema)
    numbers = [name for name in names if hasattr(schema[name], "lower")]
    odd = [object(), [1], b"x", pd.Timestamp("2020-01-01"), 10**400, {}, (), "9" * 5000, 1j, int]
    return {
        "NaN": lambda: with_cells(plain(), **dict.fromkeys(names, np.nan)),
        "None": lambda: with_cells(plain(), **dict.fromkeys(names)),
        "infinity": lambda: with_cells(plain(), **dict(zip(names, cycle([np.inf, -np.inf]), strict=False))),
        "text": lambda: with_cells(plain(), **dict.fromkeys(names, "oops")),
        "objects": lambda: with_cells(plain(), **dict(zip(names, cycle(odd), strict=False))),
        "other objects": lambda: with_cells(plain(), **dict(zip(names, cycle(odd[5:]), strict=False))),
        "no rows": lambda: plain(0),
        "no rows, objects": lambda: plain(0).astype(object),
        "one row": lambda: plain(1),
        "two rows": lambda: plain(2),
        "everything clamped from above": lambda: plain().assign(**dict.fromkeys(numbers, 1e300)),
        "everything clamped from below": lambda: plain().assign(**dict.fromkeys(numbers, -1e300)),
        "half at either bound": lambda: plain().assign(
            **dict.fromkeys(numbers, np.where(np.arange(len(plain())) % 2, 1e300, -1e300))
        ),
        "everything constant": lambda: plain().iloc[[7] * len(plain())].reset_index(drop=True),
        "everything missing": lambda: pd.DataFrame(np.nan, index=plain().index, columns=names),
        "everything impossible": lambda: pd.DataFrame("zebra", index=plain().index, columns=names),
        "texts": lambda: plain().astype(str),
    }


def seen(question, price):
    """Fit a question on confidential rows; return the results, and all that is seen of them but noisy numbers."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        results = question.fit(price)
        assert str(results.summary())
        table = results.summary_frame() if hasattr(results, "summary_frame") else pd.DataFrame()
    release = results.release
    return results, {
        "index": list(table.index),
        "columns": list(table.columns),
        "dtypes": [str(kind) for kind in table.dtypes],
        "names": release.names,
        "steps": release.steps,
        "law": release.law,
        "cost": release.cost,
        "question": {**release.question},
        "spent": question.source.ledger.spent,
        "warned": [str(one.message) for one in warned],
    }

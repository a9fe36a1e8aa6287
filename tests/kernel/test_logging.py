"""What is logged is public: frames that differ in a row log the same."""

import logging

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi

SCHEMA = dpi.Schema(
    income=dpi.Real(0, 200), age=dpi.Integer(0, 100), group=dpi.Category(["a", "b"]), smokes=dpi.Boolean()
)
ROWS = SCHEMA.sample(300, np.random.default_rng(1))
CHANGED = {
    "missing": ("income", None),
    "impossible": ("group", "zanzibar"),
    "text": ("income", "zanzibar"),
    "large": ("age", 90210.5),
    "other": ("smokes", "maybe"),
}
QUESTIONS = [
    dpi.mean("income", by="group"),
    dpi.ols("income ~ age"),
    dpi.median("age"),
    dpi.chi2_contingency("group", "smokes"),
    dpi.most_frequent("group"),
]


def records(frame, caplog, question):
    data = dpi.PrivateData(frame, SCHEMA, dpi.Ledger.in_memory(dpi.PureDP(2.0), dataset="survey"))
    caplog.clear()
    with caplog.at_level(logging.DEBUG):
        question.bind(data).measure(dpi.PureDP(1.0))
    return [(one.name, one.levelname, one.getMessage()) for one in caplog.records]


@pytest.mark.parametrize("kind", CHANGED)
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: type(one).__name__)
def test_a_cell_changes_no_record(kind, question, caplog):
    column, value = CHANGED[kind]
    other = ROWS.astype({column: object})
    other.loc[7, column] = value
    logged = records(ROWS, caplog, question)
    assert logged == records(other, caplog, question) == records(ROWS.iloc[1:], caplog, question)
    assert [(name, level) for name, level, _ in logged] == [("dpinfer", "INFO")]
    assert "PureDP(epsilon=1.0) to 'survey'" in logged[0][2]
    assert "90210" not in logged[0][2]
    assert isinstance(ROWS, pd.DataFrame)


def test_a_charge_that_is_refused_is_not_logged(caplog):
    data = dpi.PrivateData(ROWS, SCHEMA, dpi.Ledger.in_memory(dpi.PureDP(0.5)))
    with caplog.at_level(logging.DEBUG), pytest.raises(dpi.errors.BudgetExceededError):
        dpi.count(data).measure(dpi.PureDP(1.0))
    assert not caplog.records

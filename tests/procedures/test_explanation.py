"""What `explain` returns."""

import copy
import pickle

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.procedures.procedure import Explanation

SCHEMA = dpi.Schema(
    income=dpi.Real(0, 2e5), age=dpi.Integer(0, 100), b=dpi.Boolean(), group=dpi.Category(["<a>", "b & c"])
)
PRICE = dpi.ZCDP(0.1)


def test_it_is_the_text_and_nothing_less():
    told = dpi.mean("income", by="group").explain(PRICE, schema=SCHEMA)
    assert isinstance(told, Explanation)
    assert told == "".join(told)
    assert (
        told.splitlines()[0] == "measures     3 sums in each of 2 cells: 1, income - 100000.0, (income - 100000.0) ** 2"
    )
    assert repr(told) == str(told) == f"{told}"
    assert type(pickle.loads(pickle.dumps(told))) is str
    assert copy.deepcopy(told) == told


def test_frames_say_what_the_text_says():
    told = dpi.ols("income ~ age").explain(PRICE, schema=SCHEMA)
    assert told.question == "ols: income ~ age"
    assert told.neighbors == "add_remove"
    assert told.columns == ("age", "income")
    assert told.stages["share"].sum() == pytest.approx(1)
    assert not told.stages["adaptive"].iloc[0]
    for line in told.stages["noise"]:
        assert f"noise        {line}" in told
    for line in told.stages["bound"]:
        assert f"bound        {line}" in told
    variances = np.concatenate(
        [stage.law.variances * np.asarray(stage.steps) ** 2 for stage in told.measurement.stages]
    )
    np.testing.assert_allclose(told.noise["std dev"] ** 2, variances)


def test_the_noise_of_a_choice_has_no_spread():
    told = dpi.most_frequent("group").explain(dpi.PureDP(1.0), schema=SCHEMA)
    assert told.noise["std dev"].isna().all()
    assert told.noise["scale"].tolist() == [1.0]


@pytest.mark.parametrize(
    ("question", "price", "heads", "notes"),
    [
        (dpi.mean("income"), PRICE, ["n = 1,000", "n = 10,000", "n = 100,000"], 0),
        (dpi.ols("income ~ age", method="gram"), PRICE, ["Intercept", "age"], 2),
        (dpi.logit("b ~ age"), PRICE, [], 1),
        (dpi.most_frequent("group"), dpi.PureDP(1.0), [], 1),
        (dpi.density("income"), dpi.PureDP(1.0), [], 2),
    ],
    ids=str,
)
def test_what_is_expected_is_shown(question, price, heads, notes):
    found = question.explain(price, schema=SCHEMA)._report()
    assert [row[0] for table in found.tables[1:] for row in table.rows] == heads
    assert len(found.notes) == notes


def test_names_are_escaped():
    page = dpi.count(by="group").explain(PRICE, schema=SCHEMA)._repr_html_()
    assert "<a>" not in page

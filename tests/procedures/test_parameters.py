"""scikit-learn's clone and joblib on procedures: validated, one ledger, and no row is pickled."""

import pickle
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

import dpinfer as dpi
from dpinfer.errors import BudgetExceededError, DataError, OptionError
from dpinfer.privacy import ZCDP

SCHEMA = dpi.Schema(y=dpi.Real(0, 1), x=dpi.Real(0, 1), g=dpi.Category(["a", "b"]))
QUESTIONS = {
    "ols": lambda data: dpi.ols("y ~ x + g", data),
    "gram": lambda data: dpi.gram(["x", "y"], data),
    "quantreg": lambda data: dpi.quantreg("y ~ x", data, q=0.7),
    "mean": lambda data: dpi.mean("x", data, by="g"),
    "table": lambda data: dpi.table(["g"], data),
    "quantile": lambda data: dpi.quantile("x", data, q=[0.1, 0.9]),
    "chi2_contingency": lambda data: dpi.chi2_contingency("g", "x > 0.5", data),
    "binomtest": lambda data: dpi.binomtest("x > 0.5", p=0.3),
    "bootstrap": lambda data: dpi.bootstrap("x", data, statistic="mean"),
    "quality": lambda data: dpi.quality(data),
}


@pytest.fixture
def data():
    frame = SCHEMA.sample(500, np.random.default_rng(1))
    return dpi.PrivateData(frame, SCHEMA, dpi.Ledger.in_memory(ZCDP(1.0)))


@pytest.mark.parametrize("name", QUESTIONS)
def test_parameters_are_the_fields_and_make_an_equal_question_about_the_same_rows(data, name):
    asked = QUESTIONS[name](data)
    again = clone(asked)
    assert again is not asked
    assert type(again) is type(asked)
    assert again.source is asked.source
    params = asked.get_params(deep=True)
    assert set(params) == {one.name for one in fields(asked) if one.init}
    assert params["source"] is asked.source
    assert again.to_dict() == type(asked)(**params).to_dict() == asked.to_dict()


def test_set_params_gives_a_new_question_and_leaves_the_old_one():
    asked = dpi.binomtest("x > 0.5", p=0.3)
    found = [asked.set_params(**params).p for params in ParameterGrid({"p": [0.2, 0.6]})]
    assert found == [0.2, 0.6]
    assert asked.p == 0.3
    with pytest.raises(FrozenInstanceError):
        asked.p = 0.5


@pytest.mark.parametrize(
    ("params", "message"),
    [({"p": 1.5}, "p=1.5"), ({"alternative": "up"}, "alternative='up'"), ({"source": [1, 2]}, "data=<list>")],
)
def test_set_params_checks_values_as_a_new_question_does(params, message):
    asked = dpi.binomtest("x > 0.5", p=0.3)
    with pytest.raises(OptionError, match=message):
        asked.set_params(**params)
    with pytest.raises(OptionError, match=message):
        type(asked)(**asked.get_params() | params)


@pytest.mark.parametrize("name", ["epsilon", "_source", "procedures", "fit", "p__x"])
def test_set_params_takes_no_other_name(name):
    with pytest.raises(OptionError, match=f"{name}=.*source, column, p, alternative"):
        dpi.binomtest("x > 0.5", p=0.3).set_params(**{name: 1})


def test_threads_share_the_ledger_of_the_rows(data):
    asked = dpi.mean("x", data)
    found = Parallel(n_jobs=2, prefer="threads")(delayed(clone(asked).fit)(ZCDP(0.25)) for _ in range(4))
    assert len({one.release.charge_ids for one in found}) == 4
    assert data.ledger.remaining == ZCDP(0.0)
    with pytest.raises(BudgetExceededError):
        asked.fit(ZCDP(0.25))


def test_rows_are_not_sent_to_processes(data):
    asked = dpi.mean("x", data)
    with pytest.raises(DataError, match="with the same ledger file, or use threads"):
        pickle.dumps(asked)
    with pytest.raises(Exception, match="pickle") as caught:
        Parallel(n_jobs=2)(delayed(asked.fit)(ZCDP(0.1)) for _ in range(2))
    assert "carry the rows away" in str(caught.value.__cause__)
    assert data.ledger.remaining == ZCDP(1.0)


def test_questions_and_a_ledger_file_go_to_processes(tmp_path):
    path = str(tmp_path / "rows.parquet")
    SCHEMA.sample(500, np.random.default_rng(1)).to_parquet(path)
    ledger = dpi.Ledger(tmp_path / "study.db", dataset="rows", budget=ZCDP(1.0), neighbors="add_remove")
    question, schema = dpi.mean("x"), SCHEMA

    def fitted(question, path, ledger):
        return question.bind(dpi.PrivateData(path, schema, ledger)).fit(ZCDP(0.1))

    found = Parallel(n_jobs=2)(delayed(fitted)(question, path, ledger) for _ in range(3))
    assert len({one.release.charge_ids for one in found}) == 3
    assert ledger.remaining == ZCDP(0.7)


def test_inference_from_a_release_goes_to_processes(data):
    gram = dpi.gram(["x", "y"], data).measure(ZCDP(0.5))
    questions = [dpi.ols("y ~ x", gram), dpi.ols("x ~ y", gram)]
    found = Parallel(n_jobs=2)(delayed(clone(one).infer)() for one in questions)
    assert [one.response for one in found] == ["y", "x"]
    for one, question in zip(found, questions, strict=True):
        assert one.params.equals(question.infer().params)

"""Labels and units of columns, in tables and on axes."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.results.printing import column_labels

SCHEMA = dpi.Schema(
    income=dpi.Real(0, 2e5, label="Net income", unit="EUR"),
    age=dpi.Integer(0, 100, label="Age", unit="years"),
    race=dpi.Category(["a", "b", "age"], label="Ethnic group"),
    smokes=dpi.Boolean(label="Smokes"),
    plain=dpi.Real(0, 1),
)
PRICE = dpi.ZCDP(1.0)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    return dpi.PublicData(SCHEMA.sample(20_000, rng), SCHEMA, rng=rng)


@pytest.fixture(scope="module")
def model(data):
    return dpi.ols("income ~ age + C(race) + plain", data).fit(PRICE)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


LABELS = {
    "age": "Age (years)",
    "Intercept": "Intercept",
    "C(race)[T.b]": "Ethnic group[b]",
    "C(race)[T.age]": "Ethnic group[age]",
    "C(sex)[T.a]": "C(sex)[T.a]",
    "age:race[T.age]": "Age:Ethnic group[age]",
    "log(age)": "log(Age)",
    "income[race=age, q=0.5]": "income[Ethnic group=age, q=0.5]",
    "race=age": "Ethnic group=age",
    "cov(income, age)": "cov(income, Age)",
    "pages": "pages",
}


def test_labels_stand_for_names_of_columns_alone(data):
    schema = dpi.Schema({"log": dpi.Real(0, 1, label="Log"), "age": SCHEMA["age"], "race": SCHEMA["race"]})
    rng = np.random.default_rng(1)
    rows = dpi.PublicData(schema.sample(100, rng), schema, rng=rng)
    labelled, plain = dpi.mean(["age", "log"], rows, by="race").measure(PRICE), dpi.mean("plain", data).measure(PRICE)
    assert column_labels(labelled, LABELS) == list(LABELS.values())
    assert column_labels(plain, LABELS) == list(LABELS)


def test_tables_show_labels_and_params_keep_names(data, model):
    assert list(model.params.index) == ["Intercept", "age", "C(race)[T.b]", "C(race)[T.age]", "plain"]
    for text in (str(model.summary()), model.to_html(), model.to_markdown().replace("\\", "")):
        assert "Age (years)" in text
        assert "Ethnic group[b]" in text
    assert "two" in str(model.summary(xname=["one", "two", "three", "four", "five"]))
    side = dpi.summary_table([model, dpi.mean("income", data).fit(PRICE)])
    assert ("age", "coef") in side.frame.index
    for text in (side.as_text(), side.as_html(), side.as_markdown().replace("\\", "")):
        assert "Age (years)" in text
        assert "Net income (EUR)" in text


def test_axes_are_called_by_labels(data, model):
    ax = model.plot()
    assert [text.get_text() for text in ax.get_yticklabels()] == [
        "Age (years)", "Ethnic group[b]", "Ethnic group[age]", "plain"
    ]  # fmt: skip
    ax = dpi.histogram("income", data, bins=8).fit(PRICE).plot()
    assert ax.get_xlabel() == "Net income (EUR)"
    ax = dpi.mean("income", data, by=["race", "smokes"]).fit(PRICE).plot()
    assert ax.get_xlabel() == "mean of Net income (EUR)"
    assert ax.get_yticklabels()[0].get_text() == "Ethnic group: a, Smokes: no"
    ax = model.plot_margins("age", {"race": ["a", "b"], "plain": 0.5})
    assert ax.get_xlabel() == "Age (years)"
    assert "Net income (EUR)" in ax.get_ylabel()


def test_large_numbers_are_grouped(data, model):
    assert f"{model.params['Intercept']:,.0f}" in str(model.summary())
    ax = model.plot()
    ax.figure.canvas.draw()
    total = dpi.total("income", data).fit(PRICE)
    assert f"{total.params.iloc[0]:,.0f}" in str(total.summary())
    ax = total.plot()
    ax.figure.canvas.draw()
    assert any("," in text.get_text() for text in ax.get_xticklabels())

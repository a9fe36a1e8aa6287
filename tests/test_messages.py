"""No message of an error, a cause or a warning prints the cells of an argument.

Every parameter of every public function and class takes, in turn, everything that rows may come in, with one number
and one text that appear nowhere else. What is built is then priced, measured and inferred from.
"""

from __future__ import annotations

import inspect
import pickle
import traceback
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import statsmodels.api as sm

import dpinfer as dpi
from dpinfer.errors import FormulaError, OptionError, UnknownColumnError, shown
from tests.linear import gram_ols

if TYPE_CHECKING:
    from collections.abc import Callable

NUMBER = 90210.3141592
SECRETS = ("90210", "zanzibar")
TAKES_TEXTS = {("exponential_mechanism", "candidates")}  # which are named in messages, as columns are
PRICE = dpi.ZCDP(1.0)
SCHEMA = dpi.Schema(
    x=dpi.Real(0, 10),
    y=dpi.Real(0, 10),
    b=dpi.Boolean(missing=False, impossible=False),
    g=dpi.Category(["a", "b"]),
    k=dpi.Category(["a", "b", "c"]),
)
ROWS = SCHEMA.sample(60, np.random.default_rng(1))


PEOPLE = {"id": "who", "max_rows": 3}


def public(neighbors: str = "add_remove", **people: object) -> dpi.PublicData:
    rows = ROWS.assign(who=np.arange(60) // 3)
    return dpi.PublicData(rows, SCHEMA, rng=np.random.default_rng(1), neighbors=neighbors, **people)


def private(neighbors: str = "add_remove", **people: object) -> dpi.PrivateData:
    rows, ledger = ROWS.assign(who=np.arange(60) // 3), dpi.Ledger.in_memory(dpi.GDP(1e4), neighbors=neighbors)
    return dpi.PrivateData(rows, SCHEMA, ledger, **people)


MEAN = dpi.mean("x", public()).measure(PRICE)
TEST = dpi.ttest_1samp("x", public(), popmean=5, draws=1000).fit(PRICE)
OLS = gram_ols("y ~ x", public()).fit(PRICE)

VALID = {
    "above_threshold": {"queries": ["x > 5", "b"], "threshold": 20},
    "GDP": {"mu": 1.0},
    "ZCDP": {"rho": 1.0},
    "ApproxDP": {"epsilon": 1.0, "delta": 1e-6},
    "PureDP": {"epsilon": 1.0},
    "Ball": {"radius": 1.0},
    "Binomial": {"trials": 3},
    "Boolean": {},
    "Category": {"levels": ["a", "b"]},
    "Date": {"first": "2024-01-01", "last": "2024-12-31"},
    "Family": {"name": "f", "parameters": {"m": (0, 1)}, "statistics": ("x",), "log_density": lambda x, m: -m * x},
    "Integer": {"lower": 0, "upper": 5},
    "show_progress": {"shown": None},
    "Ledger": {"path": "ledger.db", "dataset": "d", "budget": PRICE},
    "PrivateData": {"source": ROWS, "schema": SCHEMA, "ledger": dpi.Ledger.in_memory(PRICE)},
    "PublicData": {"source": ROWS, "schema": SCHEMA, "rng": np.random.default_rng(1)},
    "Real": {"lower": 0, "upper": 5},
    "Release": {name: getattr(MEAN, name) for name in inspect.signature(dpi.Release).parameters},
    "SurveyDesign": {"cluster": "g"},
    "Schema": {"mapping": {"w": dpi.Real(0, 1)}, "columns": dpi.Real(0, 1)},
    "audit": {"procedure": dpi.mean("x"), "schema": SCHEMA, "privacy": PRICE, "runs": 200},
    "binomtest": {"column": "b"},
    "bootstrap": {"columns": "x", "replicates": 20},
    "cdf": {"column": "x", "resolution": 8},
    "bounds": {"columns": "x"},
    "chi2_contingency": {"row": "b", "column": "g", "draws": 1000},
    "chisquare": {"column": "g", "draws": 1000},
    "combine": {"releases": [MEAN]},
    "corr": {"columns": ["x", "y"]},
    "count": {},
    "cov": {"columns": ["x", "y"]},
    "coverage_study": {
        "generate": lambda rng, n: SCHEMA.sample(n, rng),
        "procedure": dpi.mean("x"),
        "schema": SCHEMA,
        "truth": {"x": 5.0},
        "n": 50,
        "privacy": PRICE,
        "replicates": 2,
        "progress": False,
    },
    "density": {"column": "x", "bins": 4},
    "expfam": {"column": "x"},
    "exponential_mechanism": {"score": "candidate * (x >= candidate)", "candidates": [1, 2]},
    "f_oneway": {"column": "x", "by": "g", "draws": 1000},
    "first_difference": {"formula": "y ~ x", "time": "x"},
    "glm": {"formula": "y ~ x"},
    "gram": {"columns": ["x", "y"]},
    "histogram": {"column": "x", "bins": 4, "bounds": (0, 10)},
    "iv": {"formula": "y ~ 1 + [x ~ b]"},
    "kruskal": {"column": "x", "by": "g", "draws": 1000},
    "ks_1samp": {"column": "x", "cdf": "uniform", "args": (0, 10), "draws": 1000},
    "ks_2samp": {"column": "x", "by": "g", "draws": 1000},
    "linear_queries": {"columns": "g", "queries": [[1, 0], [1, 1]]},
    "logit": {"formula": "b ~ x"},
    "marginals": {"workload": [["g", "b"]]},
    "loglinear": {"formula": "b + g"},
    "mannwhitneyu": {"column": "x", "by": "g", "draws": 1000},
    "mean": {"columns": "x"},
    "median": {"column": "x"},
    "mnlogit": {"formula": "k ~ x"},
    "most_frequent": {"columns": "g"},
    "multipletests": {"tests": [TEST]},
    "ols": {"formula": "y ~ x"},
    "ordered": {"formula": "k ~ x"},
    "plan": {"procedure": dpi.mean("x"), "schema": SCHEMA, "n": 50, "privacy": PRICE},
    "poisson": {"formula": "x ~ y"},
    "power": {
        "test": dpi.ttest_1samp("x", popmean=5),
        "truth": {"mean": 5, "sd": 1},
        "n": 50,
        "privacy": PRICE,
        "schema": SCHEMA,
        "replicates": 100,
    },
    "privacy_cost": {"replicates": 5},
    "probit": {"formula": "b ~ x"},
    "proportion": {"column": "b"},
    "quality": {},
    "quantile": {"column": "x"},
    "quantreg": {"formula": "y ~ x"},
    "read_codebook": {"path": "book.json"},
    "read_release": {"path": "mean.json"},
    "report": {"results": MEAN, "path": "study.html"},
    "rlm": {"formula": "y ~ x"},
    "spearmanr": {"x": "x", "y": "y", "draws": 1000},
    "sample_aggregate": {"formula": "y ~ x", "model": sm.OLS, "blocks": 8, "bounds": (-9, 9), "n_jobs": 1},
    "summary_table": {"results": [OLS]},
    "experiment": {"outcome": "x", "treatment": "b"},
    "survival": {"time": "x", "event": "b", "times": [2.0, 5.0]},
    "table": {"columns": "g"},
    "total": {"columns": "x"},
    "ttest_1samp": {"column": "x", "popmean": 5, "draws": 1000},
    "ttest_ind": {"column": "x", "by": "g", "draws": 1000},
    "ttest_rel": {"a": "x", "b": "y", "draws": 1000},
    "variance": {"columns": "x"},
    "workload": {"columns": ["g", "b"]},
    "wilcoxon": {"column": "x", "other": "y", "draws": 1000},
    "write_codebook": {"schema": dpi.Schema(x=dpi.Real(0, 10)), "path": "written.json"},
}
NOT_CALLED = {"errors", "__version__", "Procedure", "PrivateResults"}  # no constructors of users

NUMBERS = [NUMBER, 2.0, NUMBER]
TEXTS = ["zanzibar", "b", "c"]
FRAME = pd.DataFrame({"x": NUMBERS, "t": TEXTS})
ROWS_GIVEN = {
    "Series": FRAME["x"],
    "Series of texts": FRAME["t"],
    "Series by cell": pd.Series([1.0, 2.0, 3.0], index=NUMBERS),
    "DataFrame": FRAME,
    "array": np.array(NUMBERS),
    "array of objects": np.array([NUMBER, *TEXTS], dtype=object),
    "matrix": np.array([NUMBERS, NUMBERS]),
    "list": NUMBERS,
    "tuple": tuple(NUMBERS),
    "whole numbers": [90210, 90211],
    "set": {*NUMBERS},
    "mapping": {"x": NUMBERS, "y": FRAME["x"]},
    "mapping by cell": dict.fromkeys(NUMBERS, "x"),
    "nested": [[NUMBERS], {"x": (FRAME["x"], np.array(NUMBERS))}],
    "polars": pl.Series("x", NUMBERS),
    "arrow": pa.table({"x": NUMBERS}),
    "rows": [(NUMBER, "zanzibar")],
    "index": pd.Index(NUMBERS),
    "categorical": pd.Categorical(TEXTS),
    "nullable": pd.array([90210, None], dtype="Int64"),
}


def parameters() -> list[tuple[str, str]]:
    return [
        (name, parameter)
        for name in dpi.__all__
        if name not in NOT_CALLED
        for parameter in inspect.signature(getattr(dpi, name)).parameters
    ]


def told(error: BaseException) -> str:
    """All that a person or a log may see of an exception: its texts, its fields and the chain before it."""
    written = traceback.format_exception(error)
    chain: list[BaseException] = [error]
    for one in chain:
        written += [str(one), repr(one), repr(one.args), repr(vars(one)), *getattr(one, "__notes__", [])]
        chain += [before for before in (one.__cause__, one.__context__) if before is not None]
    return "\n".join(written)


def use(name: str, given: dict[str, object]) -> None:
    """Build, price, measure and infer."""
    if name == "Schema":
        dpi.Schema(given["mapping"], v=given["columns"])
        return
    made = getattr(dpi, name)(**given)
    if isinstance(made, dpi.Procedure):
        price = dpi.GDP(1.0) if name == "bootstrap" else PRICE
        neighbors = "replace_one" if name == "binomtest" else "add_remove"
        for source in (public, private):
            people = PEOPLE if name == "first_difference" else {}
            bound = made if "data" in given else made.bind(source(neighbors, **people))
            bound.explain(price)
            bound.fit(price)
    if isinstance(made, dpi.Release):
        dpi.Release.from_json(made.to_json()).infer()


def seen(act: Callable[[], object]) -> tuple[str, list[str]]:
    """What an error tells, empty if there is none, and what warnings tell."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            act()
        except Exception as error:
            refusal = told(error)
        else:
            refusal = ""
    return refusal, [str(warning.message) for warning in caught]


@pytest.mark.sweep(3)
@pytest.mark.parametrize(("name", "parameter"), parameters())
def test_no_argument_is_printed(name: str, parameter: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    secrets = SECRETS[: 1 if (name, parameter) in TAKES_TEXTS else 2]
    refusals = []
    for kind, rows in ROWS_GIVEN.items():
        refusal, warned = seen(lambda: use(name, {**VALID[name], parameter: rows}))  # noqa: B023
        assert not [text for text in (refusal, *warned) if any(secret in text for secret in secrets)], kind
        refusals.append(refusal)
    assert any(refusals)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", sorted(set(dpi.__all__) - NOT_CALLED))
def test_the_arguments_that_are_replaced_are_otherwise_right(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    MEAN.save("mean.json")
    dpi.write_codebook(dpi.Schema(x=dpi.Real(0, 10)), "book.json")
    use(name, VALID[name])
    assert {*VALID[name]} <= set(inspect.signature(getattr(dpi, name)).parameters)


ASKED = [name for name in VALID if "data" in inspect.signature(getattr(dpi, name)).parameters]


@pytest.mark.parametrize("name", ASKED)
def test_rows_in_the_place_of_data_are_refused_by_every_question(name: str) -> None:
    with pytest.raises(OptionError, match="data="):
        getattr(dpi, name)(**VALID[name], data=ROWS)


RESULTS = {"ols": OLS, "test": TEST, "table": dpi.table("g", public()).fit(PRICE)}


def questions_of_results() -> list[tuple[str, str]]:
    """Public methods with an argument, of dpinfer's own classes."""
    return [
        (kind, name)
        for kind, result in RESULTS.items()
        for name, method in inspect.getmembers(type(result), inspect.isfunction)
        if method.__module__.startswith("dpinfer") and not name.startswith("_")
        if not name.startswith(("save", "plot", "cov_params")) and len(inspect.signature(method).parameters) > 1
    ]


@pytest.mark.parametrize(("kind", "name"), questions_of_results())
def test_results_print_no_argument(kind: str, name: str) -> None:
    method = getattr(RESULTS[kind], name)
    parameters = inspect.signature(method).parameters.values()
    for parameter in parameters:
        for what, rows in ROWS_GIVEN.items():
            if parameter.kind is parameter.VAR_KEYWORD or parameter.name == "cols":  # places, read by statsmodels
                continue
            positional = parameter.kind is not parameter.KEYWORD_ONLY and parameter is next(iter(parameters))
            refusal, warned = seen(lambda: method(rows) if positional else method(**{parameter.name: rows}))  # noqa: B023
            assert not [t for t in (refusal, *warned) if SECRETS[0] in t], (parameter.name, what)


def test_scalars_and_texts_are_shown_and_nothing_else() -> None:
    assert [shown(given) for given in (None, True, 0.5, np.float64(2), "income")] == [
        "None", "True", "0.5", "np.float64(2.0)", "'income'",
    ]  # fmt: skip
    assert shown(FRAME["x"]) == "<Series of shape (3,)>"
    assert shown([NUMBER]) == "<list of length 1>"
    assert shown(dpi.ZCDP) == "<class ZCDP>"
    assert shown(10**5000) == "<int>"
    assert len(shown("x" * 10_000)) < 300


def test_errors_keep_no_rows() -> None:
    assert OptionError("q", FRAME["x"], "a number").given == "<Series of shape (3,)>"
    assert OptionError("q", 3, "a number").given == 3
    assert UnknownColumnError(NUMBER, ["x"]).name == "<float>"
    assert len(str(FormulaError("x + " * 1000, "is too long"))) < 300


@pytest.mark.parametrize(
    "ask",
    [
        lambda data: dpi.mean(FRAME["x"], data),
        lambda data: dpi.ttest_ind(FRAME["x"], FRAME["t"], data),
        lambda data: dpi.quantile(FRAME["x"], data=data),
    ],
)
def test_a_column_passed_as_a_series_is_refused_by_its_type(ask) -> None:
    with pytest.raises(OptionError, match=r"<Series of shape \(3,\)> is not valid: expected "):
        ask(public())


ERRORS = [
    OptionError("data", FRAME, "PrivateData"),
    UnknownColumnError("x", ["y"]),
    FormulaError("x ** 2", "is none"),
    dpi.errors.BudgetExceededError(dpi.ZCDP(1), dpi.ZCDP(0.5)),
    dpi.errors.MeasurementFailedError(MEAN),
    dpi.errors.SchemaError("a text"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_travel_between_processes(error) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.args) == (type(error), str(error), error.args)
    assert repr(vars(again)) == repr(vars(error))

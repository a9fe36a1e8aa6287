"""What a fit does never depends on what rows hold: only the released numbers differ."""

import logging
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.errors import (
    CollinearDesignError,
    DPInferError,
    FormulaError,
    MissingFromReleaseError,
    NotProvedError,
    OptionError,
    UnknownColumnError,
)
from dpinfer.privacy.units import NEIGHBORS
from tests.linear import gram_ols
from tests.logs import charged

SCHEMA = dpi.Schema(
    x=dpi.Real(0, 10), k=dpi.Integer(0, 16), b=dpi.Boolean(), g=dpi.Category(["a", "b", "c"]), y=dpi.Real(0, 50)
)
FORMULA = "y ~ x + k + b + C(g, contr.sum) + log(1 + x):b"


class Raises:
    """An object all of whose methods fail, so that code which calls one is caught."""

    def _fail(self, *_):
        raise RuntimeError("a method of a cell was called")

    __float__ = __int__ = __index__ = __bool__ = __eq__ = __ne__ = __lt__ = __gt__ = __hash__ = _fail
    __str__ = __repr__ = __len__ = __iter__ = __array__ = __getitem__ = __contains__ = __complex__ = _fail
    __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __truediv__ = __format__ = __neg__ = _fail


class LyingText(str):  # noqa: PLW1641  (it has one, which fails)
    """A text that fails when it is compared."""

    __slots__ = ()

    def __eq__(self, other):
        raise RuntimeError("a method of a cell was called")

    __hash__ = __str__ = strip = lower = __eq__


def plain(rows=60):
    rng = np.random.default_rng(8)
    frame = SCHEMA.sample(rows, rng)
    frame["y"] = np.clip(20 + 2 * frame["x"] + rng.normal(0, 4, rows), 0, 50)
    return frame


def with_cell(name, cell, row=3):
    frame = plain().astype(object)
    cells = frame[name].to_numpy(dtype=object, copy=True)
    cells[row] = cell
    frame[name] = pd.Series(cells, dtype=object)
    return frame


CELLS = {
    "NaN": np.nan,
    "infinity": np.inf,
    "None": None,
    "NA": pd.NA,
    "text": "oops",
    "long text": "9" * 5000,
    "huge": 10**400,
    "raising": Raises(),
    "lying": LyingText("3"),
    "list": [1, 2],
    "array": np.ones((2, 2)),
    "bytes": b"\xff",
    "complex": 1j,
    "time": pd.Timestamp("2020-01-01"),
    "type": int,
    "frame": pd.DataFrame({"a": [1]}),
    "unknown level": "zebra",
}
FRAMES = {f"{kind} in x": (lambda cell=cell: with_cell("x", cell)) for kind, cell in CELLS.items()}
FRAMES |= {
    f"{kind} in g": (lambda cell=CELLS[kind]: with_cell("g", cell))
    for kind in ("None", "infinity", "huge", "raising", "lying", "array", "unknown level")
}
FRAMES |= {
    "objects": lambda: plain().astype(object),
    "one row": lambda: plain(1),
    "no rows": lambda: plain(0),
    "no rows, objects": lambda: plain(0).astype(object),
    "two rows": lambda: plain(2),
    "a constant column": lambda: plain().assign(x=5.0),
    "all columns constant": lambda: plain().assign(x=5.0, k=3, b=True, g="a", y=1.0),
    "everything missing": lambda: pd.DataFrame(np.nan, index=range(60), columns=list(SCHEMA)),
    "everything None": lambda: pd.DataFrame(None, index=range(60), columns=list(SCHEMA), dtype=object),
    "everything infinite": lambda: pd.DataFrame(-np.inf, index=range(60), columns=list(SCHEMA)),
    "one level": lambda: plain().assign(g="b"),
    "no known level": lambda: plain().assign(g="zebra"),
    "collinear rows": lambda: plain().assign(k=lambda f: f["x"].round()),
    "texts": lambda: plain().astype(str),
    "categories": lambda: plain().astype("category"),
    "a wild index": lambda: plain().set_index(pd.Index([np.nan] * 60)),
    "dates": lambda: plain().assign(x=pd.Timestamp("2020-01-01")),
    "integers": lambda: plain().assign(x=np.arange(60, dtype=np.uint8)),
    "far outside": lambda: plain().assign(x=1e300, y=-1e300),
    "arrow": lambda: pa.Table.from_pandas(plain()),
    "arrow, all missing": lambda: pa.table({name: pa.nulls(60) for name in SCHEMA}),
    "polars": lambda: pl.from_pandas(plain()),
}


def traced(frame, neighbors, price=None, **options):
    """Fit, and collect everything that can be seen apart from the released numbers."""
    price = dpi.ZCDP(0.5) if price is None else price
    data = dpi.PrivateData(frame, SCHEMA, dpi.Ledger.in_memory(price, neighbors=neighbors))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        results = gram_ols(FORMULA, data, **options).fit(price)
        table = results.summary_frame()
    release = results.release
    stored = {**release.question}
    trace = {
        "index": list(table.index),
        "columns": list(table.columns),
        "dtypes": [str(kind) for kind in table.dtypes],
        "params": (list(results.params.index), str(results.params.dtype)),
        "names": release.names,
        "steps": release.steps,
        "law": release.law,
        "cost": release.cost,
        "question": stored,
        "spent": data.ledger.spent,
        "warned": [str(one.message) for one in warned],
    }
    return trace, results


OPTIONS = [
    {},
    {"where": "x > 1", "clamped_share": 0.1},
    {"row_norm": 1.5, "inference": "wald"},
    {"split": (0.4, 0.4, 0.2), "target": "data"},
]


@pytest.fixture(scope="module")
def usual():
    return {
        (neighbors, place): traced(plain(), neighbors, **options)[0]
        for neighbors in NEIGHBORS
        for place, options in enumerate(OPTIONS)
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", FRAMES)
def test_only_the_released_numbers_depend_on_the_rows(name, usual, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    logging.captureWarnings(capture=False)
    place = sorted(FRAMES).index(name)
    for neighbors, choice in [(NEIGHBORS[0], 0), (NEIGHBORS[1], 0), (NEIGHBORS[place % 2], 1 + place % 3)]:
        trace, results = traced(FRAMES[name](), neighbors, **OPTIONS[choice])
        assert trace == usual[neighbors, choice]
        assert trace["warned"] == []
        assert np.isfinite(results.params).all()
    assert charged(caplog)
    assert tuple(capfd.readouterr()) == ("", "")


@pytest.mark.parametrize("price", [dpi.PureDP(1.0), dpi.GDP(0.3), dpi.ApproxDP(0.5, 1e-6), dpi.ZCDP(1e-6)], ids=str)
@pytest.mark.parametrize("name", ["no rows", "one row", "everything missing", "raising in x", "all columns constant"])
def test_noise_dominated_fits_are_results_and_not_errors(name, price):
    """The numbers are random; whether there is an answer is not."""
    for inference in ("score", "wald"):
        for _ in range(2):
            _, results = traced(FRAMES[name](), "add_remove", price, inference=inference)
            assert np.isfinite(results.params).all()
            assert (results.bse > 0).all()
            assert not results.conf_int().isna().any(axis=None)
            assert results.pvalues.between(0, 1).all()


CELL = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=3),
    st.sampled_from(["a", "b", "c", "1", " 2 ", "true", "1e3"]),
    st.builds(Raises),
)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(st.tuples(CELL, CELL, CELL, CELL, CELL), max_size=4))
def test_no_cells_can_make_a_measurement_fail(rows):
    cells = np.empty((len(rows), 5), dtype=object)
    for place, row in enumerate(rows):
        for column, cell in enumerate(row):
            cells[place, column] = cell
    frame = pd.DataFrame(cells, columns=list(SCHEMA), dtype=object)
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(0))
    release = gram_ols(FORMULA, data, where="k >= 2", clamped_share=0.1).measure(dpi.ZCDP(0.5))
    assert len(release.values) == len(release.names) == 8 * 9 // 2 + 1


BAD = [
    (lambda data: gram_ols("y ~ z", data), UnknownColumnError),
    (lambda data: gram_ols("z ~ x", data), UnknownColumnError),
    (lambda data: gram_ols("y ~ x", data, where="z > 1"), UnknownColumnError),
    (lambda data: dpi.gram(["x", "z"], data), UnknownColumnError),
    (lambda data: gram_ols("y ~ center(x)", data), FormulaError),
    (lambda data: gram_ols("y ~ scale(x)", data), FormulaError),
    (lambda data: gram_ols("y ~ bs(x, df=4)", data), FormulaError),
    (lambda data: gram_ols("y ~ poly(x, 2)", data), FormulaError),
    (lambda data: gram_ols("y ~ I(x - np.mean(x))", data), FormulaError),
    (lambda data: gram_ols("y ~ x.rank()", data), FormulaError),
    (lambda data: gram_ols("y ~ lag(x)", data), FormulaError),
    (lambda data: gram_ols("y ~ print(x)", data), FormulaError),
    (lambda data: gram_ols("y ~ __import__('os').getcwd()", data), FormulaError),
    (lambda data: gram_ols("y ~ log(x)", data), FormulaError),
    (lambda data: gram_ols("y ~ I(1 / x)", data), FormulaError),
    (lambda data: gram_ols("~ x", data), FormulaError),
    (lambda data: gram_ols("y ~ 0", data), FormulaError),
    (lambda data: gram_ols("g ~ x", data), FormulaError),
    (lambda data: gram_ols("y ~ x", data, where="x + 1"), FormulaError),
    (lambda data: gram_ols("y ~ x", data, where="x > np.mean(x)"), FormulaError),
    (lambda data: gram_ols("y ~ x", data, where=3), DPInferError),
    (lambda data: gram_ols("y ~ x + I(2 * x)", data), CollinearDesignError),
    (lambda data: gram_ols("y ~ x + y", data), CollinearDesignError),
    (lambda data: gram_ols("y ~ g:y + x", data), CollinearDesignError),
    (lambda data: gram_ols(None, data), OptionError),
    (lambda data: gram_ols("y ~ x", data, row_norm=-1.0), OptionError),
    (lambda data: gram_ols("y ~ x", data, row_norm="2"), OptionError),
    (lambda data: gram_ols("y ~ x", data, row_norm=np.nan), OptionError),
    (lambda data: gram_ols("y ~ x", data, norm="linf"), OptionError),
    (lambda data: gram_ols("y ~ x", data, row_norm=1.0, norm="linf"), OptionError),
    (lambda data: gram_ols("y ~ x", data, split=(0.5, 0.5)), OptionError),
    (lambda data: gram_ols("y ~ x", data, split=(0.5, 0.6, -0.1)), OptionError),
    (lambda data: gram_ols("y ~ x", data, split=(np.nan,) * 3), OptionError),
    (lambda data: gram_ols("y ~ x", data, split="abc"), OptionError),
    (lambda data: gram_ols("y ~ x", data, split=0.5), OptionError),
    (lambda data: gram_ols("y ~ x", data, clamped_share=0.5), OptionError),
    (lambda data: gram_ols("y ~ x", data, clamped_share=-0.1), OptionError),
    (lambda data: gram_ols("y ~ x", data, clamped_share=np.nan), OptionError),
    (lambda data: gram_ols("y ~ x", data, clamped_share="some"), OptionError),
    (lambda data: gram_ols("y ~ x", data, inference="bayes"), OptionError),
    (lambda data: gram_ols("y ~ x", data, target="me"), OptionError),
    (lambda data: gram_ols("y ~ x", data, replicates=5), OptionError),
    (lambda data: gram_ols("y ~ x", data, seed=-1), OptionError),
    (lambda data: dpi.gram("x", data), OptionError),
    (lambda data: dpi.gram([], data), OptionError),
    (lambda data: dpi.gram(["x", 3], data), DPInferError),
    (lambda data: dpi.gram(["x"], data, clamped_share=2), OptionError),
    (lambda data: dpi.gram(["center(x)"], data), FormulaError),
    (lambda _: gram_ols("y ~ x"), OptionError),
    (lambda _: gram_ols("y ~ x", plain()), OptionError),
]


@pytest.mark.parametrize("place", range(len(BAD)))
def test_bad_questions_are_refused_by_name_and_cost_nothing(place):
    make, error = BAD[place]
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1.0))
    data = dpi.PrivateData(plain(), SCHEMA, ledger)
    with pytest.raises(error):
        make(data).fit(dpi.ZCDP(0.5))
    assert ledger.charges().empty


def test_messages_hold_no_cell():
    data = dpi.PrivateData(plain().assign(g="secret level", x=7.123456), SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(1.0)))
    for make, _ in BAD[:-2]:
        with pytest.raises(DPInferError) as refused:
            make(data).fit(dpi.ZCDP(0.5))
        assert "secret" not in str(refused.value)
        assert "7.123456" not in str(refused.value)


def test_a_release_answers_only_what_it_holds():
    data = dpi.PrivateData(plain(), SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(1.0)))
    release = dpi.gram(["x", "y"], data).fit(dpi.ZCDP(0.5)).release
    assert list(gram_ols("y ~ x", release).infer().params.index) == ["Intercept", "x"]
    for formula in ("y ~ k", "y ~ I(x**2)"):
        with pytest.raises(MissingFromReleaseError):
            gram_ols(formula, release).infer()
    with pytest.raises(OptionError, match="a release only infers"):
        gram_ols("y ~ x", release).fit(dpi.ZCDP(0.1))
    for options in ({"where": "x > 1"}, {"row_norm": 1.0}, {"split": (0.2, 0.3, 0.5)}):
        with pytest.raises(OptionError, match="already measured"):
            gram_ols("y ~ x", release, **options)


def test_a_clip_with_a_response_that_is_no_feature_of_its_own_is_refused():
    data = dpi.PrivateData(plain(), SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(1.0)))
    for options in ({"row_norm": 1.5}, {"split": (0.2, 0.3, 0.5)}):
        for formula in ("y ~ g:y", "y ~ y * g - y", "y ~ x + y"):
            with pytest.raises((CollinearDesignError, NotProvedError)):
                gram_ols(formula, data, **options).fit(dpi.ZCDP(0.5))
    assert data.ledger.charges().empty

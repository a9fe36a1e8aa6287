"""What a fit does never depends on what rows hold: only the released numbers differ."""

import numpy as np
import pandas as pd
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
from tests.linear import gram_ols
from tests.odd_cells import with_cells

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


def plain(rows=60):
    rng = np.random.default_rng(8)
    frame = SCHEMA.sample(rows, rng)
    frame["y"] = np.clip(20 + 2 * frame["x"] + rng.normal(0, 4, rows), 0, 50)
    return frame


FRAMES = {
    "no rows": lambda: plain(0),
    "one row": lambda: plain(1),
    "everything missing": lambda: pd.DataFrame(np.nan, index=range(60), columns=list(SCHEMA)),
    "raising in x": lambda: with_cells(plain(), x=Raises()),
    "everything constant": lambda: plain().iloc[[7] * 60].reset_index(drop=True),
}


@pytest.mark.parametrize("price", [dpi.PureDP(1.0), dpi.GDP(0.3), dpi.ApproxDP(0.5, 1e-6), dpi.ZCDP(1e-6)], ids=str)
@pytest.mark.parametrize("name", FRAMES)
def test_noise_dominated_fits_are_results_and_not_errors(name, price):
    """The numbers are random; whether there is an answer is not."""
    data = dpi.PrivateData(FRAMES[name](), SCHEMA, dpi.Ledger.in_memory(price * 2))
    for inference in ("score", "wald"):
        results = gram_ols(FORMULA, data, inference=inference).fit(price)
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


FORMULAS = {
    UnknownColumnError: ["y ~ z", "z ~ x"],
    FormulaError: [
        *("y ~ center(x)", "y ~ scale(x)", "y ~ bs(x, df=4)", "y ~ poly(x, 2)", "y ~ I(x - np.mean(x))", "y ~ lag(x)"),
        *("y ~ x.rank()", "y ~ print(x)", "y ~ __import__('os').getcwd()", "y ~ log(x)", "y ~ I(1 / x)", "~ x"),
        *("y ~ 0", "g ~ x"),
    ],
    CollinearDesignError: ["y ~ x + I(2 * x)", "y ~ x + y", "y ~ g:y + x"],
    OptionError: [None],
}
OPTIONED = {
    UnknownColumnError: [{"where": "z > 1"}],
    FormulaError: [{"where": "x + 1"}, {"where": "x > np.mean(x)"}],
    OptionError: [
        *({"where": 3}, {"row_norm": -1.0}, {"row_norm": "2"}, {"row_norm": np.nan}, {"norm": "linf"}),
        *({"row_norm": 1.0, "norm": "linf"}, {"inference": "bayes"}, {"target": "me"}, {"replicates": 5}, {"seed": -1}),
        *({"split": one} for one in ((0.5, 0.5), (0.5, 0.6, -0.1), (np.nan,) * 3, "abc", 0.5)),
        *({"clamped_share": one} for one in (0.5, -0.1, np.nan, "some")),
    ],
}
BAD = [(gram_ols, one, {}, error) for error, given in FORMULAS.items() for one in given]
BAD += [(gram_ols, "y ~ x", one, error) for error, given in OPTIONED.items() for one in given]
BAD += [(dpi.gram, one, {}, OptionError) for one in ("x", [])]
BAD += [(dpi.gram, ["x"], {"clamped_share": 2}, OptionError), (dpi.gram, ["x", 3], {}, DPInferError)]
BAD += [(dpi.gram, ["x", "z"], {}, UnknownColumnError), (dpi.gram, ["center(x)"], {}, FormulaError)]


@pytest.mark.parametrize(("ask", "asked", "options", "error"), BAD)
def test_bad_questions_are_refused_cost_nothing_and_are_told_without_cells(ask, asked, options, error):
    rows = plain().assign(g="secret level", x=7.123456)
    data = dpi.PrivateData(rows, SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(1.0)))
    with pytest.raises(error) as refused:
        ask(asked, data, **options).fit(dpi.ZCDP(0.5))
    assert "secret" not in str(refused.value)
    assert "7.123456" not in str(refused.value)
    assert data.ledger.charges().empty


def test_a_question_without_data_is_not_fitted():
    with pytest.raises(OptionError):
        gram_ols("y ~ x").fit(dpi.ZCDP(0.5))


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

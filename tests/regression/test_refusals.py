"""What regressions by iterations refuse: by name, before anything is charged, and whatever the rows are."""

import json
import re
import warnings
from functools import cache

import numpy as np
import pytest
import statsmodels.api as sm

import dpinfer as dpi
from dpinfer.errors import (
    CollinearDesignError,
    DPInferError,
    FormulaError,
    NotProvedError,
    OptionError,
    PrivacyUnitError,
    ReleaseFormatError,
)
from dpinfer.procedures.keywords import FUNCTIONS

SCHEMA = dpi.Schema(
    x=dpi.Real(-1, 1),
    u=dpi.Real(0, 5),
    n=dpi.Integer(0, 10),
    neg=dpi.Integer(-2, 10),
    b=dpi.Boolean(),
    g=dpi.Category(["a", "b", "c"]),
    y=dpi.Real(-5, 5),
    big=dpi.Real(-1e6, 1e6),
)
PRICE = dpi.ZCDP(0.5)
FITS = {"ols": "y", "logit": "b", "probit": "b", "poisson": "n", "glm": "y", "rlm": "y", "quantreg": "y"}
FAMILIES = sm.families


@pytest.fixture
def study():
    frame = SCHEMA.sample(300, np.random.default_rng(1))
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(10.0))
    return dpi.PrivateData(frame, SCHEMA, ledger), ledger


def refused(study, error, ask, *words, price=PRICE):
    """Nothing is charged, and the message has these words."""
    data, ledger = study
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(error) as caught:
            ask(data).fit(price)
    assert isinstance(caught.value, DPInferError)
    assert len(ledger.charges()) == 0
    for word in words:
        assert word in str(caught.value)


FORMULAS = [
    ("x + I(2 * x)", CollinearDesignError, ("I(2 * x)", "leave out one of")),
    ("I(x > 0) + I(x <= 0)", CollinearDesignError, ("I(x <= 0)", "Intercept, I(x > 0)")),
    ("C(g) + I(g == 'a')", CollinearDesignError, ("I(g == 'a')", "C(g)[T.b]")),
    ("minimum(x, 0) + maximum(x, 0) + x", CollinearDesignError, ("minimum(x, 0), maximum(x, 0), x",)),
    ("age", DPInferError, ("'age'", "it has: x, u")),
    ("log(u)", FormulaError, ("log(u)", "unbounded")),
    ("x**2", FormulaError, ("I(x**2)",)),
    ("x + (u", FormulaError, ("is not a valid formula",)),
]
OPTIONS = [
    ({"ranges": "yes"}, ("ranges='yes'", "True or False")),
    ({"inference": "exact"}, ("inference='exact'", "'score'")),
    ({"target": "sample"}, ("target='sample'", "'data'")),
    ({"where": "x"}, ("comparison",)),
]


@pytest.mark.parametrize("name", FITS)
def test_formulas_options_and_prices(study, name):
    """Noise without a spread once ended in an error of linear algebra, or a warning of a division by zero."""

    def ask(right="x", **options):
        return lambda data: getattr(dpi, name)(f"{FITS[name]} ~ {right}", data, **options)

    for right, error, words in FORMULAS:
        refused(study, error, ask(right), *words)
    for options, words in OPTIONS:
        refused(study, DPInferError, ask(**options), *words)
    for price in (dpi.ZCDP(1e-300), dpi.ZCDP(1e-12), dpi.GDP(1e-200)):
        ledger = dpi.Ledger.in_memory(type(price)(1.0))
        rows = dpi.PrivateData(SCHEMA.sample(10, np.random.default_rng(1)), SCHEMA, ledger)
        refused((rows, ledger), PrivacyUnitError, ask(), "use a larger privacy budget", price=price)
    refused(study, PrivacyUnitError, ask(), "less noise than can be drawn", price=dpi.PureDP(1e5))


@pytest.mark.parametrize(
    "right",
    [
        "I(big > 0) + I(big > 1) + I(big > 2)",
        "I(x > 0.999999) + x",
        "C(g) * x + I(x**2) + I(x**3) + I(x**4) + I(x**5)",
        "I(n == 1) + I(n == 2) + n",
        "I(x > 0):u + I(x > 0)",
        "1",
    ],
)
def test_what_some_rows_tell_apart_is_served(right):
    rng = np.random.default_rng(1)
    asked = dpi.ols(f"y ~ {right}", dpi.PublicData(SCHEMA.sample(5, rng), SCHEMA, rng=rng))
    assert right.split(" + ")[0] in asked.text(SCHEMA) or right == "1"


ALPHA = [
    ({"family": FAMILIES.NegativeBinomial(alpha=alpha)}, OptionError, (f"alpha={alpha}",))
    for alpha in (-1.0, 0.0, float("nan"))
]
NO_LOG = [{"family": None, "offset": "u"}, {"family": FAMILIES.Binomial(), "exposure": "I(u + 1)"}]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"family": "binomial"}, OptionError, ("family='binomial'", "sm.families.Binomial()")),
        ({"family": FAMILIES.Binomial}, OptionError, ("<class Binomial>", "an instance")),
        ({"family": FAMILIES.Tweedie()}, NotProvedError, ("Tweedie() with link Log",)),
        ({"family": FAMILIES.Gaussian(FAMILIES.links.Log())}, NotProvedError, ("Gaussian() with link Log",)),
        ({"family": FAMILIES.NegativeBinomial(alpha=1e9)}, OptionError, ("alpha", "between 1e-06 and 100")),
        *ALPHA,
        *((options, NotProvedError, ("log link",)) for options in NO_LOG),
    ],
)
def test_families(study, options, error, words):
    refused(study, error, lambda data: dpi.glm(f"{'b' if options in NO_LOG[1:] else 'n'} ~ x", data, **options), *words)


def test_weights_of_other_models_point_to_those_that_take_them(study):
    refused(study, OptionError, lambda data: dpi.poisson("n ~ x", data, weights="u"), "weights= of dpi.ols, logit")
    refused(study, OptionError, lambda data: dpi.rlm("y ~ x", data, M="huber"), "dpi.rlm has Huber's norm")


@pytest.mark.parametrize(
    ("name", "instead"),
    [("GLM", "dpi.glm"), ("Logit", "dpi.logit"), ("negativebinomial", "NegativeBinomial(alpha="), ("robust", "dpi.rlm"),
     ("smf", "which take formulas"), ("MNLogit", "dpi.mnlogit"), ("MixedLM", "clustered by person"),
     ("wls", "weights="),
     ("regress", "dpi.ols"), ("describe", "dpi.quality(data)"), ("ttest", "ttest_ind"), ("crosstab", "dpi.table"),
     ("pearsonr", "dpi.corr"), ("groupby", "by="), ("percentile", "dpi.quantile"), ("read_csv", "dpi.PrivateData")],
)  # fmt: skip
def test_names_that_are_not_there_say_what_is(name, instead):
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'; use .*") as caught:
        getattr(dpi, name)
    assert instead in str(caught.value)
    assert not hasattr(dpi, name)


def test_every_function_that_is_named_instead_is_there():
    named = {name for advice in FUNCTIONS.values() for name in re.findall(r"dpi\.(\w+)", advice)}
    assert named - set(dpi.__all__) == set()
    assert not set(FUNCTIONS) & set(dpi.__all__)
    assert dir(dpi) == sorted(dpi.__all__)


def test_names_that_nobody_guesses_are_just_not_there():
    with pytest.raises(AttributeError, match=r"has no attribute 'zzz'$"):
        getattr(dpi, "zzz")  # noqa: B009


# Stored releases


@cache
def stored(name):
    frame = SCHEMA.sample(1500, np.random.default_rng(1))
    question = getattr(dpi, name)(f"{FITS[name]} ~ x + g", dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(2)))
    return question.fit(dpi.ZCDP(2.0)).release.to_json()


VALUES = (1e308, -1e200, float("nan"), float("inf"), 2**1000, 0.0, "x", None, [1.0], True)


@pytest.mark.parametrize("name", ["ols", "logit", "poisson", "quantreg"])
def test_forged_settings_are_refused_or_harmless(name, tmp_path):
    rng = np.random.default_rng(12)
    path = tmp_path / "forged.json"
    for _ in range(20):
        forged = json.loads(stored(name))
        settings = forged["stages"][rng.integers(len(forged["stages"]))]["settings"]
        if not settings:
            continue
        _forge(settings, sorted(settings)[rng.integers(len(settings))], VALUES[rng.integers(len(VALUES))], rng)
        path.write_text(json.dumps(forged))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                found = dpi.read_release(path).infer()
            except ReleaseFormatError:
                continue
            assert np.isfinite(found.params).all()
            assert not np.isnan(found.conf_int().to_numpy()).any()


def _forge(settings, name, value, rng):
    inside = settings[name]
    if not isinstance(inside, list):
        settings[name] = value
        return
    while isinstance(inside[0], list):
        inside = inside[int(rng.integers(len(inside)))]
    inside[int(rng.integers(len(inside)))] = value

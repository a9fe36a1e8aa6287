"""The bootstrap from question to results: ordinary estimates at a huge price, and what is refused unpaid."""

import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import dpinfer as dpi
from dpinfer.errors import (
    BudgetExceededError,
    CollinearDesignError,
    FormulaError,
    InferenceError,
    MissingFromReleaseError,
    NotProvedError,
    OptionError,
    PrivacyUnitError,
    UnknownColumnError,
    shown,
)
from dpinfer.privacy.resampling import DOUBLE_OR_NOTHING, dominating_mu, noise_mu
from dpinfer.resampling.bootstrap import Bootstrap, bootstrap
from tests.linear import gram_ols

ROWS = 1500
SCHEMA = dpi.Schema(
    x=dpi.Real(0, 10),
    k=dpi.Integer(0, 16),
    b=dpi.Boolean(),
    g=dpi.Category(["u", "v", "w"]),
    y=dpi.Real(-50, 100),
)
QUIET = dpi.ZCDP(1e8)
PRICE, BASIC = dpi.GDP(1.0), dpi.ApproxDP(1.0, 1e-6)
SECRET = ("double_or_nothing", "poisson")


def people(rows=ROWS, seed=5):
    """Rows whose errors spread the more, the larger x is."""
    rng = np.random.default_rng(seed)
    frame = SCHEMA.sample(rows, rng)
    eta = 10 + 2 * frame["x"] + 3 * (frame["g"] == "v") + frame["b"].astype(float)
    frame["y"] = eta + frame["x"] * rng.normal(size=rows)
    return frame


FRAME = people()


def public(frame=None, neighbors="replace_one", seed=3):
    frame = FRAME if frame is None else frame
    return dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(seed), neighbors=neighbors)


def private(budget=PRICE, frame=None, **options):
    return dpi.PrivateData(FRAME if frame is None else frame, SCHEMA, dpi.Ledger.in_memory(budget, **options))


def in_pairs(columns, data=None, replicates=40, **options):
    """Public weights at a huge price: every row counts once on average, exactly."""
    return bootstrap(columns, public() if data is None else data, replicates=replicates, weights="public", **options)


@pytest.fixture
def no_noise(monkeypatch):
    """A price that buys secret weights all but without noise."""
    monkeypatch.setattr("dpinfer.kernel.price.resampled_cost", lambda *_: (1e5, 1e-10))


# Estimates and their sampling errors, against plain formulas


def described(frame):
    """Ask for every statistic: the question, the estimates, and what every row adds to their error (n, p)."""
    x, y, n = frame["x"].to_numpy(), frame["y"].to_numpy(), len(frame)
    both = np.column_stack([x, y])
    centred, mean, size = both - both.mean(axis=0), both.mean(axis=0), [(0, 0), (0, 1), (1, 1)]
    shares = np.column_stack([frame["b"], x > 5, *(frame["g"] == level for level in "uvw")]).astype(float)
    products = np.column_stack([centred[:, i] * centred[:, j] for i, j in size])
    cov = np.cov(both.T)
    variance, deviation, r = np.diag(cov), np.sqrt(np.diag(cov)), np.corrcoef(both.T)[0, 1]
    unit = centred / deviation
    apart = centred**2 - variance
    related = unit[:, 0] * unit[:, 1] - r / 2 * (unit**2).sum(axis=1)
    logs = both / mean
    return {
        "mean": (["x", "y"], mean, centred / n),
        "total": (["x", "y"], both.sum(axis=0), both),
        "proportion": (["b", "x > 5", "g"], shares.mean(axis=0), (shares - shares.mean(axis=0)) / n),
        "variance": (["x", "y"], variance, apart / n),
        "std": (["x", "y"], deviation, apart / (2 * deviation * n)),
        "cov": (["x", "y"], [cov[i, j] for i, j in size], (products - [cov[i, j] for i, j in size]) / n),
        "corr": (["x", "y"], [r], related[:, None] / n),
        "y / x": (["x", "y"], [mean[1] / mean[0]], (y - mean[1] / mean[0] * x)[:, None] / (n * mean[0])),
        "log(y) - log(x)": (["y", "x"], [np.log(mean[1] / mean[0])], (logs[:, 1] - logs[:, 0])[:, None] / n),
        "2 * x": (["x"], [2 * mean[0]], 2 * centred[:, :1] / n),
    }


NAMES = {
    "proportion": ["b", "x > 5", "g=u", "g=v", "g=w"],
    "cov": ["cov(x, x)", "cov(x, y)", "cov(y, y)"],
    "corr": ["corr(x, y)"],
    "y / x": ["mean(y) / mean(x)"],
    "log(y) - log(x)": ["log(mean(y)) - log(mean(x))"],
    "2 * x": ["2 * mean(x)"],
}


def agrees(results, influence, df):
    """Compare released sampling errors at four standard errors: 1 in 16,000 each, and none with these seeds."""
    exact = influence.T @ influence
    found = results.cov_sampling.to_numpy()
    np.testing.assert_allclose(np.diag(found), np.diag(exact), rtol=4 * np.sqrt(2 / df))
    root = np.sqrt(np.diag(exact))
    np.testing.assert_allclose(found / np.outer(root, root), exact / np.outer(root, root), atol=5.7 / np.sqrt(df))


@pytest.mark.parametrize("statistic", described(FRAME))
def test_every_statistic_is_the_ordinary_one_with_the_ordinary_error(statistic):
    columns, estimates, influence = described(FRAME)[statistic]
    results = in_pairs(columns, statistic=statistic, replicates=800).fit(QUIET)
    np.testing.assert_allclose(results.params, estimates, rtol=2e-5)
    assert list(results.params.index) == NAMES.get(statistic, columns)
    agrees(results, influence, 400)
    assert (results.noise_share < 1e-4).all()
    assert results.flags == ()
    assert (results.nobs, results.df_resid) == (pytest.approx(ROWS), 400)


@pytest.mark.parametrize("weights", SECRET)
@pytest.mark.parametrize("statistic", ["mean", "proportion", "cov", "y / x"])
@pytest.mark.usefixtures("no_noise")
def test_secret_weights_give_the_same_up_to_their_own_chance(statistic, weights):
    columns, estimates, influence = described(FRAME)[statistic]
    data = public(neighbors="add_remove")
    results = bootstrap(columns, data, statistic=statistic, replicates=400, weights=weights).fit(PRICE)
    agrees(results, influence, 399)
    own = np.sqrt((influence**2).sum(axis=0) / 400)
    assert (np.abs(results.params - estimates) < 4.5 * own).all()  # 1 in 100,000
    np.testing.assert_allclose(results.bse_noise, own, rtol=0.15)
    assert not results.inference.nobs_is_public
    assert results.nobs == pytest.approx(ROWS, abs=4.5 * np.sqrt(ROWS / 400))


@pytest.mark.parametrize("statistic", ["mean", "proportion", "cov", "y / x"])
def test_paired_weights_give_the_same_without_chance_of_their_own(statistic):
    columns, estimates, influence = described(FRAME)[statistic]
    data = public(neighbors="add_remove")
    results = bootstrap(columns, data, statistic=statistic, replicates=800, weights="paired").fit(QUIET)
    np.testing.assert_allclose(results.params, estimates, rtol=2e-5)
    agrees(results, influence, 400)
    assert (results.noise_share < 1e-4).all()
    assert not results.inference.nobs_is_public
    assert (results.nobs, results.df_resid) == (pytest.approx(ROWS), 400)


def test_a_mean_of_ratios_and_a_ratio_of_means_are_told_apart_wherever_they_are_shown():
    of_ratios = in_pairs("y / (1 + x)").fit(QUIET)
    of_means = in_pairs(["y", "x"], statistic="y / (1 + x)").fit(QUIET)
    names = "mean(y / (1 + x))", "mean(y) / (1 + mean(x))"
    assert abs(of_ratios.params.iloc[0] / of_means.params.iloc[0] - 1) > 0.2
    for results, name, other in zip((of_ratios, of_means), names, names[::-1], strict=True):
        assert list(results.params.index) == list(results.replicates.columns) == [name]
        assert list(results.summary_frame().index) == list(results.conf_int().index) == [name]
        for shown_as in (repr(results), str(results.summary()), str(results.summary2()), results.response):
            assert name in shown_as
            assert other not in shown_as
        assert [label.get_text() for label in results.plot_coefficients().get_yticklabels()] == [name]
        assert float(results.t_test(f"{name} = 0").effect[0]) == pytest.approx(results.params.iloc[0])
        assert list(results.release.infer().params.index) == [name]
    table = str(dpi.summary_table([of_ratios, of_means]))
    assert all(name in table for name in names)
    assert of_ratios.release.question["text"] != of_means.release.question["text"]
    totals = in_pairs(["y", "y / (1 + x)"], statistic="total").fit(QUIET)
    assert list(totals.params.index) == ["y", "total(y / (1 + x))"]


def regressed(results, frame):
    """Fit the ordinary regression with robust errors."""
    columns = {
        "Intercept": np.ones(len(frame)),
        "x": frame["x"],
        "C(g)[T.v]": frame["g"] == "v",
        "C(g)[T.w]": frame["g"] == "w",
        "log(1 + k)": np.log1p(frame["k"].astype(float)),
        "b": frame["b"],
    }
    assert sorted(results.params.index) == sorted(columns)
    design = np.column_stack([np.asarray(columns[name], dtype=float) for name in results.params.index])
    return sm.OLS(frame["y"].to_numpy(), design).fit(cov_type="HC0")


FORMULA = "y ~ x + C(g) + log(1 + k) + b"


def test_a_regression_has_the_sandwich_errors():
    results = in_pairs(FORMULA, replicates=800).fit(QUIET)
    ordinary = regressed(results, FRAME)
    np.testing.assert_allclose(results.params, ordinary.params, rtol=1e-3, atol=1e-4)
    design = ordinary.model.exog
    agrees(results, (np.linalg.inv(design.T @ design) @ (design * ordinary.resid[:, None]).T).T, 400)
    # The errors that rely on an equal spread are others: this population tells the two apart.
    plain = sm.OLS(ordinary.model.endog, design).fit().bse
    assert (np.abs(ordinary.bse / plain - 1) > 0.1).any()


@pytest.mark.parametrize("weights", SECRET)
@pytest.mark.usefixtures("no_noise")
def test_a_regression_under_secret_weights_has_them_too(weights):
    results = bootstrap(FORMULA, public(neighbors="add_remove"), replicates=400, weights=weights).fit(PRICE)
    ordinary = regressed(results, FRAME)
    np.testing.assert_allclose(results.bse_sampling, ordinary.HC0_se, rtol=4 * np.sqrt(0.5 / 399) + 0.02)
    assert (np.abs(results.params - ordinary.params) < 4.5 * ordinary.HC0_se / np.sqrt(400)).all()


@pytest.mark.usefixtures("no_noise")
def test_one_row_counts_twice_or_not_at_all():
    frame = FRAME[:1].assign(x=7.0)
    question = in_pairs("x", public(frame), statistic="total")
    coins = bootstrap("x", public(frame, "add_remove"), statistic="total", replicates=40).fit(PRICE)
    for results in (question.fit(QUIET), coins):
        sums = results.inference.sums.values  # noqa: PD011
        assert set(np.round(sums[:, 0], 1) + 0.0) == {0.0, 2.0}
        np.testing.assert_allclose(results.replicates["x"], 7 * np.round(sums[:, 0]), atol=0.1)
    pairs = question.fit(QUIET).replicates["x"].to_numpy()
    np.testing.assert_allclose(pairs[0::2] + pairs[1::2], 14, atol=0.1)


@pytest.mark.parametrize("weights", ["public", "double_or_nothing"])
@pytest.mark.usefixtures("no_noise")
def test_a_condition_leaves_rows_out(weights):
    kept = FRAME[(FRAME["g"] == "u") & (FRAME["x"] > 2)]
    data, price = (public(), QUIET) if weights == "public" else (public(neighbors="add_remove"), PRICE)
    options = {"where": "(g == 'u') & (x > 2)", "weights": weights, "replicates": 200}
    results = bootstrap(["y"], data, **options).fit(price)
    assert results.params["y"] == pytest.approx(kept["y"].mean(), abs=5 * results.bse_noise["y"] + 1e-3)
    assert results.nobs == pytest.approx(len(kept), abs=1e-3 if weights == "public" else 10)
    assert not results.inference.nobs_is_public
    assert "Rows: (g == 'u') & (x > 2)." in results.notes
    slopes = bootstrap("y ~ x", data, **options).fit(price)
    exact = np.polyfit(kept["x"], kept["y"], 1)
    np.testing.assert_allclose(slopes.params, exact[::-1], atol=5 * slopes.bse_noise.max() + 2e-3)


def test_a_total_over_a_known_number_of_rows_varies_like_the_mean():
    """Where no row can drop out n is public, and another sample has it too; 400 pairs: four errors of 3.5%."""
    kept = dpi.Schema(x=dpi.Real(0, 10, missing=0.0, impossible=0.0))
    data = dpi.PublicData(FRAME[["x"]], kept, rng=np.random.default_rng(3), neighbors="replace_one")
    results = in_pairs("x", data, statistic="total", replicates=800).fit(QUIET)
    assert results.params["x"] == pytest.approx(FRAME["x"].sum(), rel=1e-4)
    assert results.bse["x"] == pytest.approx(np.sqrt(ROWS) * FRAME["x"].std(), rel=0.14)
    assert results.inference.nobs_is_public


def test_odd_names_of_columns_and_levels_are_served():
    schema = dpi.Schema({"h.p w": dpi.Real(0, 9), "c c": dpi.Category(["a'b", 'q"r', "é"]), "t f": dpi.Boolean()})
    frame = schema.sample(500, np.random.default_rng(4))
    data = dpi.PublicData(frame, schema, rng=np.random.default_rng(3), neighbors="replace_one")
    results = in_pairs(["c c", "t f", "`h.p w` > 4"], data, statistic="proportion").fit(QUIET)
    shares = [*((frame["c c"] == level).mean() for level in schema["c c"].levels), frame["t f"].mean()]
    np.testing.assert_allclose(results.params, [*shares, (frame["h.p w"] > 4).mean()], rtol=1e-4)
    assert list(results.params.index[:4]) == ["c c=a'b", 'c c=q"r', "c c=é", "t f"]
    assert results.release.infer().params.equals(results.params)


def test_public_weights_follow_their_seed():
    first, same, other = (in_pairs("x", seed=seed).fit(QUIET).replicates["x"] for seed in (1, 1, 2))
    np.testing.assert_allclose(first, same, atol=1e-3)
    assert np.abs(first - other).max() > 0.01


def test_the_population_is_found_again():
    """A standard deviation from 1,000 pairs has a relative error of 2.2%; four of them."""
    results = in_pairs(["x", "y"], replicates=2000).fit(dpi.ZCDP(1e4))
    np.testing.assert_allclose(results.population_std, FRAME[["x", "y"]].std(), rtol=0.09)


# Price and ledger


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "options", "weights", "price"),
    [
        (BASIC, {"currency": "basic"}, "double_or_nothing", BASIC),
        (BASIC, {"neighbors": "replace_one", "currency": "basic"}, "public", BASIC),
        (dpi.ZCDP(0.5), {}, "paired", dpi.GDP(1.0)),
        (BASIC, {}, "paired", BASIC),
    ],
    ids=str,
)
def test_the_whole_budget_is_granted_once(budget, options, weights, price):
    data = private(budget, **options)
    question = bootstrap("x", data, replicates=20, weights=weights)
    results = question.fit(price)
    assert data.ledger.spent == budget
    assert len(data.ledger.charges()) == 1
    assert results.release.charge_ids[0] in data.ledger.charges().to_string()
    assert not results.release.public
    with pytest.raises(BudgetExceededError):
        question.fit(price)
    assert len(data.ledger.charges()) == 1
    assert abs(results.params["x"] - FRAME["x"].mean()) < 8 * results.bse["x"]


def test_a_charge_fits_ledgers_in_which_it_is_proved():
    question = bootstrap("x", replicates=20)
    data = private(dpi.ApproxDP(6.0, 1e-6))
    question.bind(data).fit(PRICE)
    assert data.ledger.spent.epsilon == pytest.approx(4.887, abs=1e-3)
    data = private(PRICE)
    question.bind(data).fit(BASIC)
    assert data.ledger.spent.mu == pytest.approx(0.2367, abs=1e-4)


def test_noise_is_calibrated_to_the_composed_cost():
    measured = bootstrap("x", public(neighbors="add_remove"), replicates=20).measurement(PRICE)
    mu = noise_mu(DOUBLE_OR_NOTHING, 1.0, 20)
    assert 0.99 < dominating_mu(DOUBLE_OR_NOTHING, mu, 20) <= 1.0
    np.testing.assert_allclose(np.multiply(measured.law.scales, measured.steps), np.sqrt(2 * 20) / mu, rtol=1e-5)
    assert measured.cost.delta0 > 0
    assert measured.cost.rho is None
    # Pairs: every row twice in half of the sums; two values in [-1, 1], and a row may drop out.
    measured = in_pairs(["x", "y"]).measurement(PRICE)
    np.testing.assert_allclose(np.multiply(measured.law.scales, measured.steps), np.sqrt(2 * 40 * 8), rtol=1e-5)
    kept = dpi.Schema(x=dpi.Real(0, 10, missing=0.0, impossible=0.0))
    measured = bootstrap("x", weights="public", replicates=2).measurement(
        dpi.ZCDP(0.5), schema=kept, neighbors="replace_one"
    )
    found = np.multiply(measured.law.scales, measured.steps)
    np.testing.assert_allclose(found, [0, 4, 0, 4], rtol=1e-5)
    assert measured.exact == ("1 | replicate 1", "1 | replicate 2")


def nothing_is_drawn(*_, **__):
    raise AssertionError("rows were read or noise was drawn")


def refused(error, *messages, data=None, price=PRICE, option=None, **asked):
    """Refused before anything is spent or drawn; the message names argument, value and what would be right."""
    data = private() if data is None else data
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpinfer.kernel.run.replicate_sums", nothing_is_drawn)
        patch.setattr("dpinfer.kernel.sampling.private_noise", nothing_is_drawn)
        with pytest.raises(error) as caught:
            bootstrap(**{"columns": "x", "data": data, "replicates": 20, **asked}).fit(price)
    for message in messages:
        assert message in str(caught.value)
    if option is not None:
        assert caught.value.option == option
        assert f"{option}={shown(asked.get(option, price))}" in str(caught.value)
    assert len(data.ledger.charges()) == 0


REPLACED = {"neighbors": "replace_one"}


@pytest.mark.parametrize(
    ("data", "price", "weights", "messages"),
    [
        ((dpi.ZCDP(1.0), {}), dpi.ZCDP(0.1), "double_or_nothing", ("GDP or ApproxDP, not ZCDP(rho=0.1)", "four times")),
        ((dpi.ZCDP(1.0), {}), dpi.ZCDP(0.1), "poisson", ("GDP or ApproxDP, not ZCDP(rho=0.1)",)),
        ((dpi.PureDP(1.0), {}), dpi.PureDP(0.5), "double_or_nothing", ("not PureDP(epsilon=0.5)", "no PureDP")),
        ((dpi.PureDP(1.0), REPLACED), dpi.PureDP(0.5), "public", ("no PureDP", "PureDP(epsilon=0.5)")),
        ((dpi.ZCDP(1.0), {}), dpi.ZCDP(0.1), "public", ("replace_one", 'use weights="double_or_nothing"')),
        ((PRICE, {}), PRICE, "public", ("replace_one", 'use weights="double_or_nothing"')),
        ((dpi.ZCDP(1.0), {}), dpi.ZCDP(0.1), "double_or_nothing", ('use weights="paired"', "1.414 times the noise")),
        ((dpi.ZCDP(1.0), {}), dpi.ZCDP(0.1), "double_or_nothing", ("GDP(mu=0.4472) or ApproxDP(epsilon=1.994,",)),
        ((dpi.ZCDP(1.0), {}), dpi.ZCDP(0.1), "poisson", ("6 times costs 36 times as much",)),
        ((dpi.ZCDP(1.0), {}), dpi.ZCDP(0.1), "public", ('weights="paired" under ZCDP',)),
        ((dpi.ZCDP(9.0), {}), PRICE, "double_or_nothing", ("bootstraps with weights in pairs",)),
        ((dpi.PureDP(1.0), {}), dpi.PureDP(0.5), "paired", ("no PureDP", "PureDP(epsilon=0.5)")),
        ((PRICE, REPLACED), PRICE, "double_or_nothing", ("proved for add_remove", 'use weights="public"')),
        ((PRICE, REPLACED), PRICE, "poisson", ("weights='poisson'", "add_remove", 'use weights="public"')),
        ((dpi.ZCDP(9.0), {}), PRICE, "double_or_nothing", ("ZCDP(rho=9.0)", "asked GDP(mu=1.0)")),
        ((dpi.PureDP(9.0), {}), PRICE, "double_or_nothing", ("PureDP(epsilon=9.0)", "asked GDP(mu=1.0)")),
        ((dpi.ApproxDP(9.0, 1e-6), {"currency": "basic"}), PRICE, "double_or_nothing", ("'basic'", "GDP(mu=1.0)")),
    ],
)
def test_weights_neighbours_and_prices_that_do_not_fit_are_refused(data, price, weights, messages):
    budget, options = data
    refused(NotProvedError, *messages, data=private(budget, **options), price=price, weights=weights)


@pytest.mark.parametrize(
    ("price", "error", "messages"),
    [
        (dpi.GDP(0.0), PrivacyUnitError, ("GDP(mu=0.0)", "above zero")),
        (dpi.GDP(9.0), PrivacyUnitError, ("mu=9", "up to mu=5")),
        (dpi.ApproxDP(90.0, 1e-6), PrivacyUnitError, ("too large", "up to mu=5")),
        (dpi.ApproxDP(1.0, 1e-11), PrivacyUnitError, ("delta of at least", "1e-11")),
        (1.0, OptionError, ("privacy=1.0", "GDP(0.5)")),
        (None, OptionError, ("privacy=None",)),
    ],
    ids=str,
)
def test_prices_that_are_none_are_refused(price, error, messages):
    refused(error, *messages, price=price, data=private(dpi.ApproxDP(99.0, 1e-6)))


@pytest.mark.slow
def test_too_few_and_too_many_replicates_are_refused():
    refused(OptionError, "more", "1.75 times the mu", "1.124", option="replicates", replicates=2)
    refused(
        OptionError, "at most 104,857", option="replicates", replicates=200_000, columns=list("xyk"), statistic="cov"
    )


KNOWN = ("mean, total, proportion, variance, std, cov, corr", "a median or a maximum is not one")
COUNT = "a whole number, at least 2"
NUMBER = "whole number from 0 to 2^63 - 1"
SHARE = "a probability between 0 and 1"


OPTIONS = [
    ("columns", ("at least one column",), [[]]),
    ("columns", ("a list of columns",), [None, 3, ["x", 3], {"x"}]),
    ("columns", ("different columns",), [["x", "x"]]),
    ("statistic", KNOWN, ["median", "max", "max(x)", "x +", "2", ""]),
    ("statistic", (*KNOWN, "columns: x"), ["x / y"]),
    ("statistic", ("arithmetic of means",), [None, b"mean"]),
    ("replicates", (COUNT,), [1, 20.0, True, None, "20"]),
    ("weights", ("'double_or_nothing', 'poisson', 'public'",), ["multinomial", None]),
    ("where", ("a condition",), [3]),
    ("target", ("'population', 'data'",), ["me"]),
    ("inference", ("'fiducial', 'unbiased', 'conservative', 'most_conservative'",), ["score", None]),
    ("conservative", (SHARE,), [0, 1.0, np.nan, "a", True]),
    ("seed", (NUMBER,), [-1, 2**63, 1.0, True]),
]


@pytest.mark.parametrize(("option", "messages", "values"), OPTIONS)
def test_bad_options_are_refused_by_name(option, messages, values):
    for value in values:
        refused(OptionError, *messages, option=option, **{option: value})


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"columns": ["x"], "statistic": "corr"}, "two columns or more"),
        ({"columns": ["x"], "statistic": "y ~ x"}, "the formula's columns too: y"),
        ({"columns": ["y", "k"], "statistic": "y ~ x + C(g)"}, "g, x"),
        ({"statistic": "variance", "columns": "y ~ x"}, "is the statistic"),
        ({"replicates": 21, "weights": "public"}, "an even number"),
        ({"replicates": 21, "weights": "paired"}, "pairs"),
    ],
    ids=str,
)
def test_options_that_do_not_fit_together_are_refused(asked, message):
    refused(OptionError, message, **asked)


UNKNOWN = "'z' is not in the schema; it has: x, k, b, g, y"


@pytest.mark.parametrize(
    ("error", "message", "asked"),
    [
        (UnknownColumnError, UNKNOWN, [{"columns": columns} for columns in ("z", ["x", "z"], "y ~ z")]),
        (UnknownColumnError, UNKNOWN, [{"columns": ["y", "x", "z"], "statistic": "y ~ x"}, {"where": "z > 1"}]),
        (UnknownColumnError, UNKNOWN, [{"columns": "z > 1", "statistic": "proportion"}]),
        (FormulaError, "not a valid expression", [{"columns": ""}, {"columns": ["y ~ x"]}, {"where": "x >"}]),
        (FormulaError, "the same for every row", [{"columns": "1"}]),
        (FormulaError, "is a category", [{"columns": "g"}]),
        (FormulaError, "unbounded", [{"columns": "log(x)"}]),
        (FormulaError, "sees all rows", [{"columns": "np.mean(x)"}, {"where": "x > np.mean(x)"}]),
        (FormulaError, "dependent variable", [{"columns": "~ x"}]),
        (CollinearDesignError, "linear combination", [{"columns": "y ~ x + y"}]),
        (FormulaError, "is not a condition", [{"columns": ["x"], "statistic": "proportion"}, {"where": "x"}]),
    ],
)
def test_columns_that_cannot_be_bounded_are_refused(error, message, asked):
    for one in asked:
        refused(error, message, **one)


# Questions, data and releases


def test_it_is_explained_before_it_costs():
    data = private()
    text = bootstrap(["x", "y"], data, replicates=20).explain(PRICE)
    for words in ("3 sums of features, 20 times", "add_remove", "adding one unit", "reads        x, y", "1-GDP"):
        assert words in text
    found = re.search(r"replicates +20: noise of one ([\d.]+), of their mean ([\d.]+), which is ([\d.]+) times", text)
    one, mean, times = map(float, found.groups())
    mu = noise_mu(DOUBLE_OR_NOTHING, 1.0, 20)
    assert (mean, times) == (pytest.approx(one / np.sqrt(20), rel=1e-4), pytest.approx(1 / mu, rel=1e-3))
    assert one == pytest.approx(np.sqrt(3 * 20) / mu, rel=1e-4)
    assert f"{3 * one**2:,.0f} rows" in text.replace("\n", " ") or "rows on" in text
    assert len(data.ledger.charges()) == 0
    again = bootstrap(["x", "y"], replicates=20).explain(PRICE, schema=SCHEMA, neighbors="add_remove")
    assert again == text
    assert "replacing one unit at weight 1" in in_pairs("y ~ x").explain(dpi.ZCDP(0.1))


def test_columns_may_be_listed_beside_a_formula():
    listed = in_pairs(["y", "x", "k"], statistic="y ~ x").fit(QUIET)
    np.testing.assert_allclose(listed.params, in_pairs("y ~ x").fit(QUIET).params, atol=1e-4)
    assert isinstance(bootstrap("x"), Bootstrap)
    assert dpi.bootstrap is bootstrap


def test_a_release_answers_its_question_without_rows():
    question = in_pairs(["x", "y"])
    release = question.measure(dpi.ZCDP(1.0))
    pd.testing.assert_frame_equal(question.bind(release).infer().summary_frame(), release.infer().summary_frame())
    pd.testing.assert_frame_equal(question.infer(release).summary_frame(), release.infer().summary_frame())
    ratio = bootstrap(["x", "y"], release, statistic="y / x", weights="public", replicates=40).infer()
    assert list(ratio.params.index) == ["mean(y) / mean(x)"]
    with pytest.raises(OptionError, match="a release only infers"):
        question.bind(release).fit(QUIET)
    with pytest.raises(InferenceError, match="another question"):
        in_pairs(["x", "y"], release, where="x > 1").infer()
    with pytest.raises(InferenceError, match="another question"):
        bootstrap("y ~ x", gram_ols("y ~ x", public()).measure(dpi.ZCDP(1.0))).infer()
    with pytest.raises(OptionError, match="data"):
        bootstrap("x", FRAME)


@pytest.mark.parametrize("columns", [["x"], ["k", "y"], ["y", "x"]])
def test_a_release_of_other_columns_is_not_taken_for_these(columns):
    release = in_pairs(["x", "y"]).measure(QUIET)
    try:
        results = in_pairs(columns, release).infer()
    except (InferenceError, MissingFromReleaseError):
        return
    assert list(results.params.index) == columns
    np.testing.assert_allclose(results.params, FRAME[columns].mean(), rtol=1e-4)


# Rows that noise hides


@pytest.mark.parametrize("statistic", ["std", "corr", "exp(y * x)"])
def test_functions_of_sums_that_are_noise_are_results_without_warnings(statistic):
    """Of means: `test_huge_noise_gives_valid_results` in `results/test_promises.py`."""
    for rows, seed in [(0, seed) for seed in range(5, 15)] + [(20, seed) for seed in range(5, 15)]:
        data = public(FRAME[:rows], "add_remove", seed)
        results = bootstrap(["x", "y"], data, statistic=statistic, replicates=20).fit(PRICE)
        assert not results.summary_frame().isna().any(axis=None)
        assert np.isfinite(results.params).all()
        assert 0 <= float(results.wald_test(np.eye(len(results.params)), scalar=True).pvalue) <= 1
        assert (results.bse > 0).all()


@pytest.mark.parametrize("statistic", ["mean", "corr", "y ~ x"])
def test_an_empty_table_has_unbounded_intervals(statistic):
    columns = "y ~ x" if "~" in statistic else ["x", "y"]
    options = {} if "~" in statistic else {"statistic": statistic}
    results = in_pairs(columns, public(FRAME[:0]), where="x > 1", **options).fit(dpi.ZCDP(0.5))
    assert np.isinf(results.conf_int()).all(axis=None)
    assert (results.pvalues == 1).all()
    assert "may be near zero: intervals are unbounded, p-values 1" in results.flags[0]
    assert float(results.wald_test(np.eye(len(results.params)), scalar=True).pvalue) == 1.0
    assert "inf" in str(results.summary())

"""Chi-squared tests as procedures: refusals that cost nothing, what is measured, one answer on every way to it."""

import json
import logging
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import (
    BudgetExceededError,
    DPInferError,
    FormulaError,
    InferenceError,
    MissingFromReleaseError,
    NotProvedError,
    OptionError,
    ReleaseFormatError,
    SchemaError,
    UnknownColumnError,
)
from dpinfer.tables.chi_squared import ChiSquare, chi2_contingency, chisquare
from tests.logs import charged

SCHEMA = dpi.Schema(
    g=dpi.Category(["a", "b", "c"]),
    h=dpi.Category(["x", "y"]),
    kids=dpi.Integer(0, 3),
    age=dpi.Real(0, 80),
    s=dpi.Boolean(),
    kept=dpi.Category(["u", "v"], missing="u", impossible="u"),
)
PRICE = dpi.ZCDP(0.05)
SHARES = {"a": 0.5, "b": 0.3, "c": 0.2}


def plain(rows=900):
    return SCHEMA.sample(rows, np.random.default_rng(1))


def guarded(frame=None, neighbors="add_remove", budget=PRICE):
    source = plain() if frame is None else frame
    return dpi.PrivateData(source, SCHEMA, dpi.Ledger.in_memory(budget, neighbors=neighbors))


def simulated(neighbors="add_remove", frame=None, seed=2):
    source = plain() if frame is None else frame
    return dpi.PublicData(source, SCHEMA, rng=np.random.default_rng(seed), neighbors=neighbors)


def unspent(data):
    return data.ledger.remaining == data.ledger.budget and data.ledger.charges().empty


REFUSED = {
    "a sum that is not one": (lambda d: chisquare("g", d, p0=[0.5, 0.3, 0.3]), OptionError, "^p0=.*not to more"),
    "a zero": (lambda d: chisquare("g", d, p0=[0.5, 0.5, 0.0]), OptionError, "^p0=.*ruled out by one row"),
    "a negative share": (lambda d: chisquare("g", d, p0=[0.9, 0.3, -0.2]), OptionError, "^p0=.*positive"),
    "a share that is next to nothing": (lambda d: chisquare("g", d, p0=[1e-300, 0.5, 0.5]), OptionError, "^p0="),
    "NaN": (lambda d: chisquare("g", d, p0=[0.5, 0.5, np.nan]), OptionError, "^p0="),
    "a text for shares": (lambda d: chisquare("g", d, p0="abc"), OptionError, "^p0="),
    "shares too few": (lambda d: chisquare("g", d, p0=[0.5, 0.5]), OptionError, "^p0=.*each level of 'g': a, b, c"),
    "another level": (lambda d: chisquare("g", d, p0={"a": 0.5, "b": 0.3, "z": 0.2}), OptionError, "^p0="),
    "a level too few": (lambda d: chisquare("g", d, p0={"a": 0.5, "b": 0.5}), OptionError, "^p0="),
    "a level too many": (lambda d: chisquare("g", d, p0=SHARES | {"z": 1e-9}), OptionError, "^p0="),
    "positions for levels": (lambda d: chisquare("g", d, p0=pd.Series([0.5, 0.3, 0.2])), OptionError, "^p0="),
    "p0 and f_exp": (
        lambda d: chisquare("g", d, f_exp=[1, 1, 1], p0=[0.5, 0.3, 0.2]),
        OptionError,
        "^f_exp=.*the same",
    ),
    "a zero frequency": (lambda d: chisquare("g", d, f_exp=[10, 20, 0]), OptionError, "^f_exp="),
    "infinite frequencies": (lambda d: chisquare("g", d, f_exp=[1e308, 1e308, 1e308]), OptionError, "^f_exp="),
    "one bin": (lambda d: chisquare("age", d, bins=[0, 80]), OptionError, "'age'.*two levels or more"),
    "no bins": (lambda d: chisquare("age", d), SchemaError, "'age' has no levels.*bins="),
    "bins out of bounds": (lambda d: chisquare("age", d, bins=[0, 40, 90]), OptionError, r"^bins=.*\[0, 80\]"),
    "bins that fall": (lambda d: chisquare("age", d, bins=[0, 40, 30]), OptionError, "^bins="),
    "bins of a category": (lambda d: chisquare("g", d, bins=[0, 1, 2]), SchemaError, "'g' is not numeric"),
    "an unknown column": (lambda d: chisquare("gg", d), UnknownColumnError, "'gg'"),
    "a number of a column": (lambda d: chisquare("age + 1", d), UnknownColumnError, "'age \\+ 1' is not in"),
    "a list": (lambda d: chisquare(["g"], d), OptionError, "^column="),
    "a misspelt statistic": (lambda d: chisquare("g", d, statistic="person"), OptionError, "^statistic=.*'projected'"),
    "a misspelt null": (lambda d: chisquare("g", d, null="exact"), OptionError, "^null=.*'simulated'"),
    "Pearson's limit": (
        lambda d: chisquare("g", d, statistic="pearson", null="asymptotic"),
        NotProvedError,
        "no chi-squared limit",
    ),
    "few draws": (lambda d: chisquare("g", d, draws=10), OptionError, "^draws=10"),
    "a negative seed": (lambda d: chisquare("g", d, seed=-1), OptionError, "^seed=-1"),
    "a wrong condition": (lambda d: chisquare("g", d, where="age"), FormulaError, "is not a condition"),
    "no condition": (lambda d: chisquare("g", d, where=18), OptionError, "^where=18"),
    "row and column the same": (lambda d: chi2_contingency("g", "g", d), OptionError, "^column='g'.*another column"),
    "tables for columns": (lambda d: chi2_contingency(np.eye(2), np.eye(2), d), OptionError, "^row="),
    "lists for columns": (lambda d: chi2_contingency("g", ["h"], d), OptionError, "^column=<list of length 1>"),
    "one row": (
        lambda d: chi2_contingency("age", "g", d, bins={"age": [0, 80]}),
        OptionError,
        "'age'.*two levels or more",
    ),
    "bins as a list": (lambda d: chi2_contingency("g", "age", d, bins=[0, 40, 80]), OptionError, "^bins=.*mapping"),
    "bins of a third": (lambda d: chi2_contingency("g", "h", d, bins={"age": [0, 40]}), OptionError, "^bins="),
    "a third margin": (lambda d: chi2_contingency("g", "h", d, fixed="s"), OptionError, "^fixed='s'"),
    "sizes of nothing": (lambda d: chi2_contingency("g", "h", d, sizes=[300, 600]), OptionError, "^sizes="),
    "sizes too few": (
        lambda d: chi2_contingency("g", "h", d, fixed="g", sizes=[9, 9]),
        OptionError,
        "^sizes=.*a, b, c",
    ),
    "half a row": (lambda d: chi2_contingency("g", "h", d, fixed="h", sizes=[1.5, 9]), OptionError, "^sizes="),
    "an empty sample": (lambda d: chi2_contingency("g", "h", d, fixed="h", sizes=[0, 9]), OptionError, "^sizes="),
    "too many rows": (lambda d: chi2_contingency("g", "h", d, fixed="h", sizes=[1e19, 9]), OptionError, "^sizes="),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_tested_is_refused_by_name_and_costs_nothing(name):
    ask, error, match = REFUSED[name]
    data = guarded()
    with pytest.raises(error, match=match):
        ask(data)
    with pytest.raises(DPInferError):
        ask(None).bind(data).fit(PRICE)
    with pytest.raises(DPInferError):
        ask(None).measurement(PRICE, schema=SCHEMA)
    assert unspent(data)


def test_laplace_noise_has_no_chi_squared_limit():
    data = guarded(budget=dpi.PureDP(1.0))
    for test in (chisquare("g", data, null="asymptotic"), chi2_contingency("g", "h", data, null="asymptotic")):
        with pytest.raises(NotProvedError, match="Laplace"):
            test.fit(dpi.PureDP(1.0))
        with pytest.raises(NotProvedError, match="Laplace"):
            test.explain(dpi.PureDP(1.0))
    assert unspent(data)
    table = dpi.table("g", simulated()).fit(dpi.PureDP(1.0)).release
    with pytest.raises(NotProvedError, match="Laplace"):
        chisquare("g", table, null="asymptotic").infer()


def test_a_frame_is_no_data_and_a_number_no_price():
    with pytest.raises(OptionError, match=r"^data="):
        chisquare("g", plain())
    with pytest.raises(OptionError, match=r"^data=None"):
        chisquare("g").fit(PRICE)
    data = guarded()
    with pytest.raises(OptionError, match=r"^privacy="):
        chisquare("g", data).fit(0.05)
    assert unspent(data)


@pytest.mark.parametrize("price", [PRICE, dpi.PureDP(0.5), dpi.GDP(0.5), dpi.ApproxDP(1.0, 1e-6)], ids=str)
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_the_price_is_charged_once_and_tests_are_free(price, neighbors):
    data = guarded(neighbors=neighbors, budget=price)
    test = chi2_contingency("g", "h", data, where="age > 20")
    text = test.explain(price)
    assert "noise on each of the 6 counts" in text
    assert "age > 20" in text
    assert unspent(data)
    results = test.fit(price)
    chisquare("h", results.release, where="age > 20").infer()
    results.release.infer()
    assert data.ledger.spent == price
    assert data.ledger.charges()["description"].item().endswith("chi2_contingency of g and h, where age > 20")
    with pytest.raises(BudgetExceededError):
        test.fit(price)


@pytest.mark.parametrize(("neighbors", "sensitivity"), [("add_remove", 1.0), ("replace_one", 2**0.5)])
def test_an_ordinary_table_is_measured(neighbors, sensitivity):
    measured = chi2_contingency("g", "s", bins=None).measurement(PRICE, schema=SCHEMA, neighbors=neighbors)
    table = dpi.table(["g", "s"]).measurement(PRICE, schema=SCHEMA, neighbors=neighbors)
    assert measured.kind == table.kind == "table"
    assert (measured.names, measured.law, measured.steps) == (table.names, table.law, table.steps)
    assert measured.cost == table.cost
    assert measured.law.scales[0] * measured.steps[0] == pytest.approx(sensitivity / np.sqrt(2 * 0.05), rel=1e-6)
    assert json.loads(json.dumps(measured.question)) == measured.question
    assert measured.question["procedure"] == "chi2_contingency"


ORDERS = {
    "array": np.array([0.5, 0.3, 0.2]),
    "list": [0.5, 0.3, 0.2],
    "dict": SHARES,
    "reordered dict": {"c": 0.2, "a": 0.5, "b": 0.3},
    "Series": pd.Series(SHARES),
    "reordered Series": pd.Series({"b": 0.3, "c": 0.2, "a": 0.5}),
}


def test_expected_shares_may_come_in_any_form():
    release = dpi.table("g", simulated()).fit(PRICE).release
    found = [chisquare("g", release, p0=p0).infer() for p0 in ORDERS.values()]
    found += [chisquare("g", release, f_exp=pd.Series({"c": 40, "a": 100, "b": 60})).infer()]
    found += [
        chisquare("g", release, f_exp=[5, 3, 2]).infer(),
        chisquare("g", release, f_exp=(450.0, 270.0, 180.0)).infer(),
    ]
    assert len({(one.statistic, one.pvalue) for one in found}) == 1
    assert found[0].expected_freq.index.tolist() == ["a", "b", "c"]
    assert found[0].expected_freq.to_numpy() == pytest.approx(np.array([0.5, 0.3, 0.2]) * found[0].expected_freq.sum())
    even = chisquare("g", release).infer()
    assert even.statistic != found[0].statistic
    assert even.statistic == chisquare("g", release, p0=[1 / 3] * 3).infer().statistic


def test_levels_of_every_kind_of_column_can_be_named():
    data = simulated()
    for column, shares in (
        ("kids", {3: 0.1, 2: 0.2, 1: 0.3, 0: 0.4}),
        ("s", {True: 0.3, False: 0.7}),
        ("age >= 18", pd.Series([0.3, 0.7], index=[True, False])),
    ):
        results = chisquare(column, data, p0=shares).fit(PRICE)
        again = dpi.Release.from_json(results.release.to_json()).infer()
        assert again.pvalue == results.pvalue
        expected = results.expected_freq / results.expected_freq.sum()
        assert dict(expected) == pytest.approx(dict(shares))


def test_with_hardly_any_noise_the_tests_are_those_of_scipy():
    data, frame, price = simulated(), plain(), dpi.ZCDP(1e6)
    found = chisquare("g", data, p0=SHARES, statistic="pearson").fit(price)
    counts = frame["g"].value_counts()[["a", "b", "c"]]
    right = stats.chisquare(counts, 900 * np.array([0.5, 0.3, 0.2]))
    assert found.statistic == pytest.approx(right.statistic, rel=0.01)
    assert found.pvalue == pytest.approx(right.pvalue, abs=0.02)
    table = pd.crosstab(frame["g"], frame["h"])
    exact = stats.chi2_contingency(table, correction=False)
    for options in ({}, {"fixed": "g"}, {"null": "asymptotic"}):
        statistic, pvalue, dof, expected = chi2_contingency("g", "h", data, **options).fit(price)
        assert statistic == pytest.approx(exact.statistic, rel=0.02)
        assert pvalue == pytest.approx(exact.pvalue, abs=0.03)
        assert dof == exact.dof
        assert expected.loc[table.index, table.columns].to_numpy() == pytest.approx(exact.expected_freq, rel=0.01)


def test_bins_and_conditions_choose_the_rows():
    data, frame, price = simulated(), plain(), dpi.ZCDP(1e6)
    found = chisquare("age", data, bins=[0, 20, 60], where="s").fit(price)
    chosen = frame.loc[frame["s"].astype(bool), "age"]
    assert found.observed_freq.index.tolist() == ["[0, 20)", "[20, 60]"]
    assert found.observed_freq.to_numpy() == pytest.approx([(chosen < 20).sum(), chosen.between(20, 60).sum()], abs=0.1)
    assert not found.nobs_is_public
    assert "s" in str(found.summary())
    table = chi2_contingency("age", "h", data, bins={"age": [0, 40, 80]}).fit(price).observed_freq
    assert table.shape == (2, 2)
    assert table.loc["[0, 40)", "x"] == pytest.approx(((frame["age"] < 40) & (frame["h"] == "x")).sum(), abs=0.1)


def test_a_number_of_rows_is_public_only_where_no_row_can_drop_out():
    data = simulated("replace_one")
    assert chisquare("kept", data).fit(PRICE).nobs == 900
    assert chisquare("kept", data).fit(PRICE).nobs_is_public
    for test in (
        chisquare("kept", data, where="(kept == 'u') | s"),
        chisquare("g", data),
        chi2_contingency("kept", "g", data),
        chisquare("kept", simulated()),
    ):
        assert not test.fit(PRICE).nobs_is_public


def by_design():
    """900 rows of two samples, each of them counted."""
    schema = dpi.Schema(
        g=dpi.Category(["a", "b", "c"], missing="a", impossible="a"),
        h=dpi.Category(["x", "y"], missing="x", impossible="x"),
    )
    rng = np.random.default_rng(11)
    rows = pd.DataFrame({"g": rng.choice(["a", "b", "c"], 900), "h": np.repeat(["x", "y"], [500, 400])})
    return dpi.PublicData(rows, schema, rng=rng, neighbors="replace_one")


def test_sizes_need_every_row_and_add_up_to_the_public_number():
    with pytest.raises(NotProvedError, match="every row is counted"):
        chi2_contingency("g", "h", simulated(), fixed="h", sizes=[500, 400])
    with pytest.raises(OptionError, match=r"^sizes=.*add up to the 900 rows"):
        chi2_contingency("g", "h", by_design(), fixed="h", sizes=[500, 500]).fit(PRICE)


def test_sizes_by_design_go_with_their_samples():
    data = by_design()
    release = dpi.table(["g", "h"], data).fit(PRICE).release
    by_name = chi2_contingency("g", "h", release, fixed="h", sizes={"y": 400, "x": 500}).infer()
    in_order = chi2_contingency("g", "h", release, fixed="h", sizes=[500, 400]).infer()
    swapped = chi2_contingency("g", "h", release, fixed="h", sizes=[400, 500]).infer()
    noisy = chi2_contingency("h", "g", release, fixed="h").infer()
    assert by_name.pvalue == in_order.pvalue
    assert len({by_name.statistic, swapped.statistic, noisy.statistic}) == 3
    assert by_name.expected_freq["x"].sum() == pytest.approx(500)
    assert "the same in every h" in by_name.hypothesis
    measured = chi2_contingency("g", "h", data, fixed="h", sizes={"y": 400, "x": 500}).fit(PRICE)
    again = dpi.Release.from_json(measured.release.to_json()).infer()
    assert again.expected_freq["y"].sum() == pytest.approx(400)
    assert again.pvalue == measured.pvalue


@pytest.mark.parametrize("price", [PRICE, dpi.PureDP(0.5)], ids=str)
def test_a_release_answers_again_on_another_machine(price):
    tests = [
        chisquare("g", p0=SHARES, draws=999, seed=7),
        chisquare("age", bins=[0, 20, 40, 80], where="s", statistic="pearson"),
        chi2_contingency("g", "h", fixed="g"),
        chi2_contingency("kids", "age", bins={"age": [0, 30, 80]}, statistic="pearson", draws=500),
    ]
    for test in tests:
        results = test.bind(guarded(budget=price)).fit(price)
        again = dpi.Release.from_json(results.release.to_json()).infer()
        assert type(again) is type(results)
        assert tuple(again)[:2] == tuple(results)[:2]
        assert (again.hypothesis, again.flags, again.null) == (results.hypothesis, results.flags, results.null)
        assert test.infer(results.release).pvalue == results.pvalue
        if test.draws != "adaptive":
            assert again.distribution.draws == test.draws


@pytest.mark.parametrize("price", [PRICE, dpi.PureDP(0.5)], ids=str)
def test_margins_of_a_larger_table_carry_the_noise_of_several_counts(price):
    release = dpi.table(["g", "h", "kids"], simulated()).fit(price).release
    whole = release.array.reshape(3, 2, 4)
    one = chisquare("g", release).infer()
    assert one.observed_freq.to_numpy() == pytest.approx(whole.sum(axis=(1, 2)))
    assert one.model.noise.together == 8
    assert one.model.noise.variance == pytest.approx(8 * release.noise_variances[0])
    two = chi2_contingency("kids", "g", release).infer()
    assert two.observed_freq.to_numpy() == pytest.approx(whole.sum(axis=1).T)
    assert two.model.noise.together == 2
    assert two.expected_freq.shape == (4, 3)
    fixed = chi2_contingency("kids", "g", release, fixed="g").infer()
    assert fixed.observed_freq.to_numpy() == pytest.approx(whole.sum(axis=1).T)


def test_the_release_of_one_test_serves_another():
    release = chi2_contingency("g", "h", guarded(), statistic="pearson").fit(PRICE).release
    one = chisquare("h", release, p0=[0.5, 0.5]).infer()
    assert one.model.noise.together == 3
    assert one.statistic_name == "Projected chi2"
    table = dpi.table(["g", "h"], release).infer()
    assert table.summary_frame().shape[0] == 6
    with pytest.raises(MissingFromReleaseError, match="no 's'"):
        chisquare("s", release).infer()
    with pytest.raises(InferenceError, match=r"another question .chi2_contingency of g and h"):
        chisquare("g", release, where="s").infer()
    with pytest.raises(InferenceError, match=r"another question .mean of age"):
        chisquare("g", dpi.mean("age", simulated()).fit(PRICE).release).infer()


def test_bins_of_a_release_are_kept():
    release = chisquare("age", simulated(), bins=[0, 20, 80]).fit(PRICE).release
    again = chisquare("age", release, bins=[0, 20, 80], p0=[0.25, 0.75]).infer()
    assert again.expected_freq.index.tolist() == ["[0, 20)", "[20, 80]"]
    with pytest.raises(OptionError, match=r"^bins=.*the bins of the release"):
        chisquare("age", release, bins=[0, 30, 80]).infer()


DEGENERATE = {
    "no rows": lambda: plain(0),
    "one row": lambda: plain(1),
    "one level": lambda: plain(40).assign(g="a", h="y"),
    "one margin": lambda: plain(40).assign(g="b"),
}


@pytest.mark.parametrize("price", [dpi.ZCDP(1e-5), dpi.ZCDP(50.0), dpi.PureDP(0.01)], ids=str)
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_tables_give_a_valid_pvalue_and_a_flag(name, neighbors, price):
    data = simulated(neighbors, DEGENERATE[name]())
    tests = [chisquare("g"), chisquare("g", statistic="pearson"), chi2_contingency("g", "h", draws=199)]
    tests += [chi2_contingency("g", "h", fixed="g", draws=199), chi2_contingency("g", "h", statistic="pearson")]
    tests += [chi2_contingency("g", "h", fixed="h", draws=199), chisquare("kept", draws=199)]
    tests += [] if isinstance(price, dpi.PureDP) else [chi2_contingency("g", "h", null="asymptotic")]
    for test in tests:
        results = test.bind(data).fit(price)
        assert 0 < results.pvalue <= 1 or (results.null == "asymptotic" and results.pvalue >= 0)
        assert np.isfinite(results.frame().to_numpy()).all()
        if price != dpi.ZCDP(50.0) or name in ("no rows", "one row"):
            assert any("little to see" in flag or "limit may be far off" in flag for flag in results.flags)


def test_negative_counts_and_totals_are_flagged():
    release = dpi.table(["g", "h"], simulated()).fit(PRICE).release
    step = release.steps[0]

    def counted(*counts):
        stored = json.loads(release.to_json())
        for place, count in zip(stored["stages"][0]["sums"], counts, strict=True):
            place["value"] = round(count / step)
        return dpi.Release.from_json(json.dumps(stored))

    few = chi2_contingency("g", "h", counted(300, 200, -4, 250, 90, 60)).infer()
    assert any("1 noisy counts are below zero" in flag for flag in few.flags)
    margin = chi2_contingency("g", "h", counted(300, 200, -4, 2, 90, 60)).infer()
    assert any("1 noisy margins are below one row" in flag for flag in margin.flags)
    below = chi2_contingency("g", "h", counted(-300, 20, -4, 2, 9, 6)).infer()
    assert any("noisy number of rows is below one" in flag for flag in below.flags)
    for one in (few, margin, below):
        assert 0 < one.pvalue <= 1
        assert " ".join(one.flags[-1].split()) in " ".join(str(one.summary()).split())


def test_noise_beyond_all_numbers_never_rejects():
    for null in ("simulated", "asymptotic"):
        results = chi2_contingency("g", "h", simulated(), null=null).fit(dpi.ZCDP(1e-30))
        if not np.isfinite(results.statistic):
            assert results.pvalue == 1
            assert any("too large" in flag for flag in results.flags)
        assert 0 < results.pvalue <= 1


ODD = {
    "NaN": {"g": np.nan, "age": np.nan, "h": None, "kids": np.nan, "s": np.nan},
    "extremes": {"g": "", "age": 1e300, "h": "x" * 1000, "kids": -(10**30), "s": "maybe"},
    "objects": {"g": object(), "age": "old", "h": 5, "kids": np.inf, "s": [1]},
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_one_odd_row_shows_in_nothing_but_the_counts(name, neighbors, caplog):
    caplog.set_level(logging.DEBUG)
    frame = plain(60).astype(object)
    odd = pd.concat([frame, pd.DataFrame([ODD[name] | {"kept": "u"}]).astype(object)], ignore_index=True)
    if neighbors == "replace_one":
        odd = odd.iloc[1:]
    tests = [chisquare("g"), chisquare("age", bins=[0, 30, 80]), chi2_contingency("kids", "s", where="age > 10")]
    tests += [chi2_contingency("h", "age > 40", fixed="h"), chisquare("kept", where="g == 'a'")]
    for test in tests:
        seen = []
        for one in (frame, odd):
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                results = test.bind(guarded(one, neighbors)).fit(PRICE)
                shown = results.residuals()
            release = results.release
            measured = (release.names, release.steps, release.law, release.cost, dict(release.question), release.nobs)
            told = (results.title, results.hypothesis, results.dof, results.null, results.nobs_is_public)
            form = (shown.index.tolist(), shown.dtypes.tolist(), list(shown.columns), type(results.observed_freq))
            seen.append((warned, measured, told, form, charged(caplog)))
        assert seen[0] == seen[1]
        assert seen[0][0] == []
        assert len(seen[0][-1]) == 1


@pytest.mark.parametrize(
    ("test", "neighbors"),
    [
        (chisquare("g", p0=SHARES, draws=199), "replace_one"),
        (chi2_contingency("g", "h", draws=199), "add_remove"),
        (chi2_contingency("g", "h", fixed="h", draws=199), "add_remove"),
    ],
    ids=["goodness of fit", "independence", "homogeneity"],
)
def test_the_whole_procedure_keeps_its_level(test, neighbors):
    """150 fits of 300 rows: more than 4.5 standard deviations off the level have a chance of 1e-4."""
    rng, level, rejected = np.random.default_rng(3), 0.1, 0
    for _ in range(150):
        frame = pd.DataFrame({"g": rng.choice(list("abc"), 300, p=[0.5, 0.3, 0.2]), "h": rng.choice(list("xy"), 300)})
        data = dpi.PublicData(frame, SCHEMA.select(["g", "h"]), rng=rng, neighbors=neighbors)
        rejected += test.bind(data).fit(PRICE).pvalue <= level
    assert rejected / 150 == pytest.approx(level, abs=4.5 * np.sqrt(level * (1 - level) / 150))


FAIR = dpi.Schema(
    rate_marriage=dpi.Integer(1, 5),
    religious=dpi.Integer(1, 4),
    age=dpi.Real(17.5, 42),
    affairs=dpi.Real(0, 60),
)


def test_marriages_of_the_fair_survey():
    """Noise of standard deviation 3.2 hides nothing of these 6,366 rows."""
    frame = sm.datasets.fair.load_pandas().data[list(FAIR)]
    data = dpi.PrivateData(frame, FAIR, dpi.Ledger.in_memory(dpi.ZCDP(0.1)))
    test = chi2_contingency("rate_marriage", "affairs > 0", data)
    results = test.fit(dpi.ZCDP(0.05))
    exact = stats.chi2_contingency(pd.crosstab(frame["rate_marriage"], frame["affairs"] > 0), correction=False)
    assert results.pvalue == pytest.approx(1 / 100_001)
    assert results.statistic == pytest.approx(exact.statistic, rel=0.3)
    assert results.dof == exact.dof == 4
    assert results.expected_freq.to_numpy() == pytest.approx(exact.expected_freq, rel=0.5)
    assert results.observed_freq.index.tolist() == [1, 2, 3, 4, 5]
    assert results.observed_freq.columns.tolist() == [False, True]
    assert 0.15 < results.cramers_v().estimate < 0.45
    old = chi2_contingency("religious", "age", data, bins={"age": [17.5, 25, 32, 42]}).fit(dpi.ZCDP(0.05))
    assert old.dof == 6
    assert data.ledger.spent == dpi.ZCDP(0.1)


def test_a_procedure_is_frozen_and_rebinds():
    test = chisquare("g", p0=SHARES)
    assert isinstance(test, ChiSquare)
    with pytest.raises(AttributeError):
        test.where = "s"
    bound = test.bind(simulated())
    assert bound.p0 is test.p0
    assert test.source is None


def test_sizes_far_from_the_noisy_ones_are_flagged():
    data = by_design()
    release = dpi.table(["g", "h"], data).fit(dpi.ZCDP(1.0)).release
    right = chi2_contingency("g", "h", release, fixed="h", sizes=[500, 400], draws=199).infer()
    wrong = chi2_contingency("g", "h", release, fixed="h", sizes=[400, 500], draws=199).infer()
    assert not any("stated sizes" in flag for flag in right.flags)
    assert any("stated sizes" in flag for flag in wrong.flags)
    assert any("sizes was supplied as a public fact" in note for note in right.notes)


def test_a_hidden_margin_is_flagged_and_the_statistic_is_still_the_one_asked_for():
    data = simulated(frame=plain(400).assign(g="a", h="y"))
    for statistic in ("projected", "pearson"):
        test = chi2_contingency("g", "h", data, statistic=statistic, draws=499).fit(dpi.ZCDP(0.002))
        assert any("noise hides a margin" in flag for flag in test.flags)
        assert test.statistic == pytest.approx(float(test.model.statistic(test.values)))
        assert test.model.kind == statistic


@pytest.mark.parametrize("damage", [{"family": "tulap"}, {"nobs": 10**30}, {"nobs": None}, {"step": 2.0}])
def test_a_table_with_a_damaged_law_or_number_of_rows_is_refused(damage):
    stored = json.loads(chisquare("g", by_design()).fit(PRICE).release.to_json())
    if "family" in damage:
        stored["stages"][0]["law"]["family"] = damage["family"]
    elif "step" in damage:
        stored["stages"][0]["sums"][0]["step"] = damage["step"]
    else:
        stored |= damage
    with pytest.raises(ReleaseFormatError):
        dpi.Release.from_json(json.dumps(stored)).infer()

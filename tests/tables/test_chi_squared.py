"""Chi-squared tests: refusals that cost nothing, what is measured, results, and releases that are damaged."""

import json
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import (
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
from dpinfer.tables.chi_squared import chi2_contingency, chisquare, read_shares, read_sizes
from tests.asking import assert_damage_is_refused, assert_refused, damaged, each, unspent

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


G_, GH = partial(each, chisquare, "g"), partial(each, chi2_contingency, "g", "h")
REFUSED = [
    (OptionError, "^p0=.*not to more", G_(p0=[[0.5, 0.3, 0.3]])),
    (OptionError, "^p0=.*ruled out by one row", G_(p0=[[0.5, 0.5, 0.0]])),
    (OptionError, "^p0=.*positive", G_(p0=[[0.9, 0.3, -0.2]])),
    (OptionError, "^p0=.*each level of 'g': a, b, c", G_(p0=[[0.5, 0.5]])),
    (OptionError, "^p0=", G_(p0=[[1e-300, 0.5, 0.5], [0.5, 0.5, np.nan], "abc", pd.Series([0.5, 0.3, 0.2])])),
    (OptionError, "^p0=", G_(p0=[{"a": 0.5, "b": 0.3, "z": 0.2}, {"a": 0.5, "b": 0.5}, SHARES | {"z": 1e-9}])),
    (OptionError, "^f_exp=.*the same", G_(p0=[0.5, 0.3, 0.2], f_exp=[[1, 1, 1]])),
    (OptionError, "^f_exp=", G_(f_exp=[[10, 20, 0], [1e308, 1e308, 1e308]])),
    (OptionError, "'age'.*at least two levels", each(chisquare, "age", bins=[[0, 80]])),
    (OptionError, "'age'.*at least two levels", each(chi2_contingency, "age", "g", bins=[{"age": [0, 80]}])),
    (SchemaError, "'age' has no levels.*bins=", each(chisquare, column=["age"])),
    (OptionError, r"^bins=.*\[0, 80\]", each(chisquare, "age", bins=[[0, 40, 90]])),
    (OptionError, "^bins=", each(chisquare, "age", bins=[[0, 40, 30]]) + GH(bins=[{"age": [0, 40]}])),
    (SchemaError, "'g' is not numeric", G_(bins=[[0, 1, 2]])),
    (UnknownColumnError, "'gg'", each(chisquare, column=["gg"])),
    (UnknownColumnError, "'age \\+ 1' is not in", each(chisquare, column=["age + 1"])),
    (OptionError, "^column=", each(chisquare, column=[["g"]])),
    (OptionError, "^statistic=.*'projected'", G_(statistic=["person"])),
    (OptionError, "^null=.*'simulated'", G_(null=["exact"])),
    (NotProvedError, "no chi-squared limit", G_(statistic="pearson", null=["asymptotic"])),
    (OptionError, "^draws=10", G_(draws=[10])),
    (OptionError, "^seed=-1", G_(seed=[-1])),
    (FormulaError, "is not a condition", G_(where=["age"])),
    (OptionError, "^where=18", G_(where=[18])),
    (OptionError, "^column='g'.*a column other than", each(chi2_contingency, "g", column=["g"])),
    (OptionError, "^row=", each(chi2_contingency, column=np.eye(2), row=[np.eye(2)])),
    (OptionError, "^column=<list of length 1>", each(chi2_contingency, "g", column=[["h"]])),
    (OptionError, "^bins=.*mapping", each(chi2_contingency, "g", "age", bins=[[0, 40, 80]])),
    (OptionError, "^fixed='s'", GH(fixed=["s"])),
    (OptionError, "^sizes=", GH(sizes=[[300, 600]]) + GH(fixed="h", sizes=[[1.5, 9], [0, 9], [1e19, 9]])),
    (OptionError, "^sizes=.*a, b, c", GH(fixed="g", sizes=[[9, 9]])),
]


@pytest.mark.parametrize(("error", "match", "questions"), REFUSED)
def test_what_cannot_be_tested_is_refused_by_name_and_costs_nothing(error, match, questions):
    assert_refused(questions, error, match, guarded(), PRICE)
    for ask in questions:
        with pytest.raises(DPInferError):
            ask(None).measurement(PRICE, schema=SCHEMA)


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


def test_the_explanation_names_the_test_its_noise_and_its_rows():
    data = guarded()
    test = chi2_contingency("g", "h", data, where="age > 20")
    text = test.explain(PRICE)
    assert "noise on each of the 6 counts" in text
    assert "age > 20" in text
    test.fit(PRICE)
    assert data.ledger.charges()["description"].item().endswith("chi2_contingency of g and h, where age > 20")


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
    frequencies = (pd.Series({"c": 40, "a": 100, "b": 60}), [5, 3, 2], (450.0, 270.0, 180.0))
    found += [chisquare("g", release, f_exp=f_exp).infer() for f_exp in frequencies]
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


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_tables_give_a_valid_pvalue_and_a_flag(name, neighbors):
    data = simulated(neighbors, DEGENERATE[name]())
    tests = [chisquare("g"), chisquare("g", statistic="pearson"), chisquare("kept", draws=199)]
    tests += [chi2_contingency("g", "h", fixed=fixed, draws=199) for fixed in (None, "g", "h")]
    tests += [chi2_contingency("g", "h", statistic="pearson"), chi2_contingency("g", "h", null="asymptotic")]
    for price in (dpi.ZCDP(1e-5), dpi.ZCDP(50.0), dpi.PureDP(0.01)):
        for test in tests[: -1 if isinstance(price, dpi.PureDP) else None]:
            results = test.bind(data).fit(price)
            assert 0 < results.pvalue <= 1 or (results.null == "asymptotic" and results.pvalue >= 0)
            assert np.isfinite(results.frame().to_numpy()).all()
            if price != dpi.ZCDP(50.0) or name in ("no rows", "one row"):
                assert any("uninformative" in flag or "may be inaccurate" in flag for flag in results.flags)


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


FAIR = dpi.Schema(
    rate_marriage=dpi.Integer(1, 5), religious=dpi.Integer(1, 4), age=dpi.Real(17.5, 42), affairs=dpi.Real(0, 60)
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
        assert any("noise dominates a margin" in flag for flag in test.flags)
        assert test.statistic == pytest.approx(float(test.model.statistic(test.values)))
        assert test.model.kind == statistic


# Results

SURE = dpi.Schema(
    g=dpi.Category(["a", "b", "c"], missing="a", impossible="a"), h=dpi.Category(["x", "y"]), age=dpi.Real(0, 80)
)
TESTS = {
    "one column": chisquare("g", p0=[0.5, 0.3, 0.2]),
    "a table": chi2_contingency("g", "h", statistic="pearson", where="age > 5"),
    "samples": chi2_contingency("g", "h", fixed="h", draws=999, seed=5),
    "a limit": chi2_contingency("g", "h", null="asymptotic"),
}


@pytest.fixture(scope="module")
def found():
    rows = SURE.sample(500, np.random.default_rng(1))
    data = dpi.PublicData(rows, SURE, rng=np.random.default_rng(2), neighbors="replace_one")
    return {name: test.bind(data).fit(dpi.ZCDP(0.05)) for name, test in TESTS.items()}


@pytest.fixture(params=TESTS)
def results(request, found):
    return found[request.param]


@pytest.fixture(autouse=True)
def _figures_are_closed():
    yield
    plt.close("all")


def words(text):
    return " ".join(text.split())


def test_it_unpacks_as_scipy_does(found):
    statistic, pvalue = found["one column"]
    assert (statistic, pvalue) == (found["one column"].statistic, found["one column"].pvalue)
    right = stats.chi2_contingency([[5, 6], [7, 9]])
    for name in ("a table", "samples", "a limit"):
        statistic, pvalue, dof, expected = found[name]
        assert len(tuple(found[name])) == len(tuple(right))
        assert (statistic, pvalue, dof) == (found[name].statistic, found[name].pvalue, found[name].dof)
        pd.testing.assert_frame_equal(expected, found[name].expected_freq)
        assert {"statistic", "pvalue", "dof", "expected_freq"} <= set(dir(right)) & set(dir(found[name]))


def test_members(results):
    assert 0 < results.pvalue <= 1
    assert results.dof == results.df == results.model.dof == 2
    observed, expected = (
        freq.T if results.transposed else freq for freq in (results.observed_freq, results.expected_freq)
    )
    assert observed.to_numpy().ravel() == pytest.approx(results.values)
    assert results.model.expected(results.values) == pytest.approx(expected.to_numpy().ravel())
    assert results.statistic == pytest.approx(float(results.model.statistic(results.values)))
    assert results.title in repr(results)
    if results.null == "simulated":
        assert results.pvalue_error == results.distribution.error > 0
        assert results.statistic == results.distribution.statistic
    else:
        assert results.pvalue_error == 0
        assert results.pvalue == pytest.approx(stats.chi2.sf(results.statistic, 2))


def test_the_row_that_was_named_first_is_down_the_table(found):
    for name in ("a table", "samples", "a limit"):
        table = found[name].observed_freq
        assert (table.index.name, table.columns.name) == ("g", "h")
    assert found["samples"].transposed
    assert found["one column"].observed_freq.index.name == "g"
    assert found["a table"].statistic_name == "Pearson chi2"
    assert found["a limit"].statistic_name == "Projected chi2"
    assert (found["one column"].nobs, found["one column"].nobs_is_public) == (500.0, True)
    assert not found["a table"].nobs_is_public


def test_frames(results):
    whole, short = results.residuals(), results.frame()
    errors = ["difference", "std err", "std err (noise)"]
    assert list(whole) == ["observed", "expected", *errors, "residual", "[0.025", "0.975]"]
    assert list(short) == ["observed", "expected", "residual", "[0.025", "0.975]"]
    pd.testing.assert_frame_equal(short, whole[list(short)])
    assert len(whole) == results.index.size
    assert whole["difference"].to_numpy() == pytest.approx(whole["observed"] - whole["expected"])
    assert whole["residual"].to_numpy() == pytest.approx(whole["difference"] / whole["std err"])
    assert (whole["std err (noise)"] < whole["std err"]).all()
    wide = results.frame(0.01)
    assert list(wide)[-2:] == ["[0.005", "0.995]"]
    assert (wide["[0.005"] < short["[0.025"]).all()
    for alpha in (0, 1, 95, np.nan):
        with pytest.raises(OptionError, match=r"^alpha="):
            results.frame(alpha)


def test_every_format_of_the_summary_holds_the_facts(results):
    facts = [results.hypothesis, f"{results.statistic:.6g}", results.statistic_name, results.null, "public data"]
    facts += ["residual", "replace_one"]
    for text in (
        str(results.summary()),
        results.summary().as_text(),
        results.to_html(),
        results._repr_html_(),
        results.to_latex().replace(r"\_", "_"),
        results.to_markdown().replace(r"\_", "_"),
    ):
        for fact in facts:
            assert fact in words(text), fact
    text = words(str(results.summary()))
    assert f"{results.pvalue:.4g}" in text
    effect = results.effect_size()
    assert f"{effect.name} {effect.estimate:.3f}, 95% interval {effect.lower:.3f} to {effect.upper:.3f}" in text
    if results.null == "simulated":
        assert f"{results.distribution.draws:,}" in text
        assert f"public seed {results.distribution.seed}" in text
        assert "Simulated draws" in text
    else:
        assert "limiting distribution" in text
        assert "Simulated draws" not in text
    for flag in results.flags:
        assert flag in text


def test_a_condition_and_a_charge_are_told(found):
    assert "Rows: age > 5." in words(str(found["a table"].summary()))
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(0.05))
    data = dpi.PrivateData(SCHEMA.sample(50, np.random.default_rng(1)), SCHEMA, ledger)
    text = words(str(chisquare("g", data).fit(dpi.ZCDP(0.05)).summary()))
    assert "Ledger charge: " in text
    assert "rho=0.05" in text
    assert "g is uniform" in text


def test_plots_draw_on_the_axes_they_are_given(results):
    axes = plt.figure().subplots(1, 2)
    assert results.plot_residuals(axes[0]) is axes[0]
    if results.null == "simulated":
        assert results.plot_null(axes[1]) is axes[1]
        assert len(axes[1].patches) == 60
        assert axes[1].lines[0].get_xdata()[0] == results.statistic
        assert "observed" in axes[1].get_legend_handles_labels()[1][-1]
        assert results.plot_null() is not axes[1]
    else:
        with pytest.raises(InferenceError, match="nothing was simulated"):
            results.plot_null(axes[1])
    drawn = axes[0].lines[-1]
    assert drawn.get_xdata() == pytest.approx(results.residuals()["residual"].to_numpy())
    assert len(axes[0].get_yticklabels()) == results.index.size
    assert results.plot_residuals(alpha=0.1).get_xlabel().startswith("standardised residual (shaded: 90%")


def test_a_long_column_is_drawn_without_intervals():
    schema = dpi.Schema(n=dpi.Integer(0, 79))
    data = dpi.PublicData(schema.sample(2000, np.random.default_rng(1)), schema, rng=np.random.default_rng(2))
    axes = chisquare("n", data, draws=199).fit(dpi.ZCDP(1.0)).plot_residuals()
    assert len(axes.collections) == 0
    assert axes.lines[-1].get_xdata().size == 80


def test_cramers_v_is_of_two_columns(found):
    with pytest.raises(InferenceError, match="effect_size"):
        found["one column"].cramers_v()
    assert found["one column"].effect_size().name == "Cohen's w"
    for name in ("a table", "samples", "a limit"):
        effect = found[name].cramers_v(0.1)
        assert effect.name == "Cramer's V"
        assert 0 <= effect.lower <= effect.estimate <= effect.upper <= 1
        assert effect == found[name].effect_size(0.1)
        with pytest.raises(OptionError, match=r"^alpha=2"):
            found[name].cramers_v(2)


def test_an_effect_that_noise_hides_has_the_whole_range_and_says_so():
    schema = dpi.Schema(g=dpi.Category(["a", "b"]), b=dpi.Boolean())
    data = dpi.PublicData(schema.sample(50, np.random.default_rng(1)), schema, rng=np.random.default_rng(2))
    test = chi2_contingency("g", "b", data, draws=199).fit(dpi.ZCDP(0.0001))
    effect = test.effect_size()
    assert (effect.lower, effect.upper) == (0.0, 1.0)
    assert effect.flag.startswith("Privacy noise dominates a margin")
    assert words(effect.flag) in words(str(test.summary()))
    for alpha in (0.0, 1.0):
        with pytest.raises(OptionError, match=r"^alpha="):
            test.effect_size(alpha)


@pytest.mark.parametrize("rho", [2.0, 0.02])
def test_expected_counts_below_five_or_below_the_noise_are_flagged(rho):
    shares = np.array([0.03, 0.049, 0.051, 0.87])
    schema = dpi.Schema(g=dpi.Category(["a", "b", "c", "d"], missing="a", impossible="a"))
    rows = schema.sample(100, np.random.default_rng(1))
    data = dpi.PublicData(rows, schema, rng=np.random.default_rng(2), neighbors="replace_one")
    test = chisquare("g", data, p0=shares, draws=199).fit(dpi.ZCDP(rho))
    spread = test.model.noise.variance**0.5
    assert (spread < 4) == (rho > 1)
    few = 2 if rho > 1 else 3
    assert any(flag.startswith(f"{few} of 4 expected counts are below 5 or below") for flag in test.flags)


# Releases that are damaged

G, UNKNOWN = {"column": "g"}, {"column": "zz"}
WORSE = {
    "axes": [None, 1, 1.5, True, "x", [], {}, [1], [[1]], [UNKNOWN], [UNKNOWN, G], [G, G], [G, G, G], [{}]],
    "p0": [1, "x", [], [[1]], [["a", 1.0]], [["a", 0.5], ["b", 0.5]], [[["a"], 0.5], ["b", 0.3], ["c", 0.2]]],
    "fixed": [1, "x", [], {}, "g "],
    "sizes": [1, "x", [[1]], [["x", 1e300], ["y", 3.0]], [[{}, 5.0], ["y", 3.0]], [["x", 2.5], ["y", 3.0]]],
    "statistic": [None, 1, "x", [], {}],
    "null": [None, 1, "exact", [], {}],
    "draws": [None, 1, "x", [], 1e4, -5, True],
    "seed": [None, -1, 0.5, "x", [], True],
}


def test_a_damaged_test_or_table_is_named_and_nothing_else(found):
    for name in ("one column", "samples"):
        assert_damage_is_refused(found[name].release, WORSE, "damaged")
    release = chisquare("g", by_design()).fit(PRICE).release
    assert_damage_is_refused(release, {"/stages.0.law.family": ["tulap"], "/stages.0.sums.0.step": [2.0]})
    assert_damage_is_refused(release, {"/nobs": [10**30, None]})


def test_a_release_whose_table_is_damaged_says_so_to_procedures_too(found):
    for axes in (None, 1, "x", [1], ["g"], [{}], [{"column": "zz"}], [{"column": "g", "edges": 3}]):
        release = dpi.Release.from_json(damaged(found["one column"].release, ("question", "axes"), axes))
        for ask in (release.infer, chisquare("g", release).infer, chisquare("age", release, bins=[0, 40, 80]).infer):
            with pytest.raises(ReleaseFormatError, match="damaged"):
                ask()


def test_counts_of_several_scales_are_no_table(found):
    stored = json.loads(found["one column"].release.to_json())
    law = stored["stages"][0]["law"]
    scale = law["scales"][0][0]
    for scales in ([[scale, 2], [2 * scale, 1]], [[0.0, 3]]):
        law["scales"] = scales
        release = dpi.Release.from_json(json.dumps(stored))
        with pytest.raises(ReleaseFormatError, match="noise of one scale"):
            release.infer()
        with pytest.raises(ReleaseFormatError, match="noise of one scale"):
            chisquare("g", release).infer()


def test_another_hypothesis_of_the_same_release_is_free(found):
    release = found["one column"].release
    options = {"p0": {"a": 0.2, "b": 0.3, "c": 0.5}, "statistic": "pearson", "draws": 199}
    again = release.infer(**options)
    assert again.pvalue == chisquare("g", release, **options).infer().pvalue
    assert again.statistic_name == "Pearson chi2"
    with pytest.raises(OptionError, match=r"^p0="):
        release.infer(p0=[0.5, 0.5])
    with pytest.raises(OptionError, match=r"where=.*an option of the inference: p0, fixed"):
        release.infer(where="age > 5")
    samples = found["samples"].release
    assert samples.infer(fixed="g", draws=199).model.shape == (3, 2)


def test_shares_keep_labels_and_become_plain_numbers():
    shares = read_shares("f_exp", pd.Series([3, 1], index=np.array([True, False])), scaled=True)
    assert shares == ((True, 0.75), (False, 0.25))
    assert type(shares[0][0]) is bool
    assert read_shares("p0", np.array([0.25, 0.75])) == ((None, 0.25), (None, 0.75))
    with pytest.raises(OptionError, match=r"^p0=.*not to less"):
        read_shares("p0", [0.25, 0.74])
    with pytest.raises(OptionError, match="share of at least 1e-15"):
        read_shares("f_exp", [1e-300, 1.0], scaled=True)
    with pytest.raises(OptionError, match=r"^sizes="):
        read_sizes([2.0**54, 1.0])

"""One share, exactly: the binomial test and the exact proportion, from refusals that cost nothing to their results."""

import dataclasses
from functools import cache, partial

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.descriptions.binomial_inference import binomial_interval, binomial_pvalue
from dpinfer.errors import (
    FormulaError,
    InferenceError,
    NotProvedError,
    OptionError,
    ReleaseFormatError,
    UnknownColumnError,
)
from dpinfer.release.laws import TULAP_GRID, NoiseLaw
from dpinfer.statistics.inference import Released
from tests.asking import assert_damage_is_refused, assert_refused, each, unspent

SCHEMA = dpi.Schema(
    s=dpi.Boolean(missing=False, impossible=False),
    x=dpi.Real(0, 10, missing=0, impossible=0),
    g=dpi.Category(["a", "b"], missing="a", impossible="a"),
    w=dpi.Real(0, 2, missing=1, impossible=1),
    loose=dpi.Boolean(),
    half=dpi.Boolean(missing=False),
)
PURE, ZCDP = dpi.PureDP(1.0), dpi.ZCDP(0.1)
PRICES = (PURE, ZCDP, dpi.GDP(0.5), dpi.ApproxDP(1.0, 1e-6))
each_price = pytest.mark.parametrize("price", PRICES, ids=str)
binomtest, exact = dpi.binomtest, partial(dpi.proportion, inference="exact")


def plain(rows=100):
    rng = np.random.default_rng(1)
    return SCHEMA.sample(rows, rng).assign(s=np.arange(rows) < 0.2 * rows)


def simulated(frame=None, neighbors="replace_one"):
    source = plain() if frame is None else frame
    return dpi.PublicData(source, SCHEMA, rng=np.random.default_rng(2), neighbors=neighbors)


def guarded(budget=PURE, neighbors="replace_one", frame=None):
    source = plain() if frame is None else frame
    return dpi.PrivateData(source, SCHEMA, dpi.Ledger.in_memory(budget, neighbors=neighbors))


# Refusals cost nothing

REFUSED = [
    (NotProvedError, "missing= and impossible=.*'loose'", each(binomtest, column=["loose"])),
    (NotProvedError, "'loose'.*inference=\"score\"", each(exact, column=["loose"])),
    (NotProvedError, "'half'.*proportion", each(binomtest, column=["half"])),
    (NotProvedError, "impossible= constants for 'half'", each(exact, column=["half"])),
    (FormulaError, "^g: .*g == 'a'", each(exact, column=["g"])),
    (FormulaError, "^g: ", each(binomtest, column=["g"])),
    (OptionError, "^p=1.01", each(binomtest, "s", p=[1.01])),
    (OptionError, "^p=nan", each(binomtest, "s", p=[float("nan")])),
    (OptionError, "^p=True", each(binomtest, "s", p=[True])),
    (OptionError, "^p=", each(binomtest, "s", p=[-1e-9, "0.5"])),
    (OptionError, "^alternative=.*'greater'", each(binomtest, "s", alternative=["more"])),
    (NotProvedError, "^by=", each(exact, "s", by=["g"])),
    (NotProvedError, "^where=", each(exact, "s", where=["x > 2"])),
    (NotProvedError, "^weights=", each(exact, "s", weights=["w"])),
    (NotProvedError, 'target="data"', each(exact, "s", target=["data"])),
    (OptionError, "target='sample'", each(exact, "s", target=["sample"])),
    (OptionError, "inference=.*'exact'", each(dpi.proportion, "s", inference=["bayes"])),
]
for error, match, column in (
    (NotProvedError, "'loose'", "s & loose"),
    (FormulaError, "^x: is not a condition", "x"),
    (FormulaError, "^1 < 2: is not a condition", "1 < 2"),
    (UnknownColumnError, "'smokes'", "smokes"),
    (OptionError, "^column=", ["s", "g"]),
):
    REFUSED.append((error, match, each(binomtest, column=[column]) + each(exact, column=[column])))


@pytest.mark.parametrize(("error", "match", "questions"), REFUSED)
def test_what_has_no_exact_answer_is_refused_by_name_and_costs_nothing(error, match, questions):
    assert_refused(questions, error, match, guarded(), PURE)


def test_a_private_number_of_rows_is_refused_with_what_to_do():
    data = guarded(neighbors="add_remove")
    with pytest.raises(NotProvedError, match=r'neighbors="replace_one".*inference="simulated"\) or "score"'):
        binomtest("s", data)
    with pytest.raises(NotProvedError, match=r'neighbors="replace_one".*inference="simulated"'):
        exact("s", data)
    for price in PRICES:
        for ask in (binomtest, exact):
            with pytest.raises(NotProvedError, match="replace_one" if price == PURE or ask is binomtest else None):
                ask("s").measurement(price, schema=SCHEMA)
    assert unspent(data)


# What is measured


@each_price
def test_the_explanation_names_the_test_and_its_noise(price):
    data = guarded(price)
    told = binomtest("s", data, p=0.3).explain(price)
    for part in ("P(s) differs from 0.3", "standard error", "n = 100: ", "replace_one"):
        assert part in told
    assert ("Tulap" if price == PURE else "discrete Gaussian") in told
    binomtest("s", data, p=0.3).fit(price)
    assert data.ledger.charges()["description"].item().endswith("binomial test of s, p = 0.3")
    if price == PURE:
        assert "Tulap" in exact("s", data).explain(PURE)
    else:
        with pytest.raises(NotProvedError, match="PureDP"):
            exact("s", guarded(price)).fit(price)


@each_price
def test_one_count_is_measured_with_sensitivity_one(price):
    measured = binomtest("x > 5", p=np.int64(1)).measurement(price, schema=SCHEMA, neighbors="replace_one")
    assert len(measured.law.scales) == len(measured.names) == 1
    assert measured.exact == ()
    assert measured.rows.columns == ("x",)
    asked = {"procedure": "binomtest", "column": "x > 5", "p": 1.0, "alternative": "two-sided"}
    assert asked.items() <= measured.question.items()
    assert type(measured.question["p"]) is float
    scale = measured.law.scales[0] * measured.steps[0]
    right = {"PureDP": 1.0, "ZCDP": 5**0.5, "GDP": 2.0}
    assert scale == pytest.approx(right.get(type(price).__name__, 4.22488), rel=1e-4)
    pure = price == PURE
    assert (measured.kind, measured.law.family) == (("binomial", "tulap") if pure else ("count", "gaussian"))
    told = "changes the count by at most 1\n" if pure else "L2 sensitivity of all sums at most 1 in units of rows\n"
    assert told in measured.describe()
    assert "n = 10,000: " in binomtest("s").explain(price, schema=SCHEMA, neighbors="replace_one")


@pytest.mark.parametrize("price", [dpi.PureDP(60.0), dpi.ZCDP(1e4)], ids=str)
def test_with_hardly_any_noise_the_count_is_that_of_the_rows(price):
    frame = plain().astype(object)
    frame.loc[:4, "s"] = "maybe"  # impossible cells are declared failures
    found = binomtest("s", simulated(frame), p=0.3).fit(price)
    assert found.k == pytest.approx(15, abs=0.51)
    assert found.proportion_ci().low < 0.15 < found.proportion_ci().high
    if isinstance(price, dpi.PureDP):
        assert exact("s", simulated(frame)).fit(price).params["s"] == pytest.approx(0.15, abs=0.0051)


def test_a_study_finds_the_coverage_that_is_promised():
    """1,500 replicates: 95% less at most four standard deviations (false alarm 3e-5)."""
    n, theta, epsilon = 200, 0.7, 3.0
    study = dpi.coverage_study(
        lambda rng, rows: {"s": rng.random(rows) < theta},
        exact("s"),
        schema=SCHEMA.select(["s"]),
        truth={"s": theta},
        n=n,
        privacy=dpi.PureDP(epsilon),
        neighbors="replace_one",
        replicates=1500,
        seed=9,
        progress=False,
    )
    cell = study.cells.set_index("term").loc["s"]
    assert (cell["failures"], cell["unbounded"]) == (0, 0)
    slack = 4 * np.sqrt(0.95 * 0.05 / 1500)
    assert 0.95 - slack < cell["coverage"] < 0.95 + slack
    assert cell["model SE"] == pytest.approx(cell["empirical SE"], rel=0.15)


# Results of the test


@cache
def fitted(price=PURE):
    return binomtest("s", simulated(), p=0.3).fit(price)


@pytest.fixture(params=[PURE, ZCDP], ids=["tulap", "gaussian"])
def results(request):
    return fitted(request.param)


def staged(release, **changes):
    return dataclasses.replace(release, stages=(dataclasses.replace(release.stages[0], **changes),))


def test_members_are_those_of_scipy(results):
    statistic, pvalue = results
    release = results.release
    assert results.k == release.array[0]
    assert (results.n, results.nobs, results.nobs_is_public, results.null) == (100, 100.0, True, "exact")
    assert statistic == results.statistic == results.proportion_estimate == pytest.approx(results.k / 100)
    assert pvalue == pytest.approx(float(binomial_pvalue(results.k, 100, 0.3, release.law, step=release.steps[0])))
    low, high = results.proportion_ci()
    assert tuple(results.proportion_ci(confidence_level=0.95)) == pytest.approx((low, high), abs=1e-12)
    inverted = binomial_interval(results.k, 100, release.law, step=release.steps[0])
    assert [low, high] == pytest.approx(inverted.tolist(), abs=1e-12)
    inner = results.proportion_ci(0.5)
    assert 0 < low < inner.low < statistic < inner.high < high < 1
    assert (results.pvalue_error, results.alternative) == (0, "two-sided")
    for level in (0, 1, 95, np.nan, "95%"):
        with pytest.raises(OptionError, match="confidence_level="):
            results.proportion_ci(level)


def test_the_frame_is_one_row(results):
    frame = results.frame()
    assert frame.index.tolist() == ["s"]
    names = ["noisy count", "n", "proportion", "null p", "std err", "std err (noise)", "[0.025", "0.975]"]
    assert frame.columns.tolist() == names
    row = frame.iloc[0]
    assert tuple(row[-2:]) == pytest.approx(tuple(results.proportion_ci()), abs=1e-12)
    noise = np.sqrt(results.release.noise_variances[0]) / 100
    assert row["std err (noise)"] == results.bse_noise == pytest.approx(noise)
    share = results.statistic
    assert results.bse == row["std err"] == pytest.approx(np.sqrt(share * (1 - share) / 100 + noise**2))
    assert tuple(results.frame(alpha=0.2).iloc[0, -2:]) == pytest.approx(results.proportion_ci(0.8))
    with pytest.raises(OptionError, match="alpha="):
        results.frame(alpha=2)


@pytest.mark.parametrize(
    ("alternative", "heads", "free"), [("greater", ["[0.05", "1]"], 1), ("less", ["[0", "0.95]"], 0)]
)
def test_one_sided_intervals_have_one_end(results, alternative, heads, free):
    found = results.release.infer(p=0.3, alternative=alternative)
    frame = found.frame()
    assert frame.columns.tolist()[-2:] == heads
    assert frame.iloc[0, -1 if free else -2] == free
    end = found.proportion_ci()[1 - free]
    at = binomtest("s", results.release, p=end, alternative=alternative).infer()
    assert at.pvalue == results.release.infer(p=end, alternative=alternative).pvalue == pytest.approx(0.05, rel=1e-6)
    for option in ({"p": 2}, {"alternative": "more"}):
        with pytest.raises(OptionError, match=next(iter(option))):
            results.release.infer(**option)


def test_impossible_counts_are_flagged_and_every_interval_holds_what_its_test_keeps(results):
    for count in (-1e6, -30.0, 0.0, 60.0, 100.0, 130.0, 1e6):
        release = staged(results.release, values=(round(count / results.release.steps[0]),))
        for alternative in ("two-sided", "greater", "less"):
            for p in (0.0, 0.3, 1.0):
                found = binomtest("s", release, p=p, alternative=alternative).infer()
                assert 0 <= found.pvalue <= 1
                low, high = found.proportion_ci()
                assert 0 <= low <= found.statistic <= high <= 1
                assert low < high or alternative != "two-sided"
                assert bool(found.flags) == (not 0 <= count <= 100)
            assert str(found.summary())
    low, high = results.proportion_ci(0.9)
    for p, kept in ((low - 1e-6, False), (low + 1e-6, True), (high - 1e-6, True), (high + 1e-6, False)):
        assert (results.release.infer(p=p).pvalue > 0.1) == kept


def test_summaries_say_what_was_tested_and_how(results):
    text = str(results.summary())
    noise = "Tulap" if results.law.family == "tulap" else "discrete Gaussian"
    for part in ("P(s) = 0.3", "two-sided", "exact", "100 (public)", "replace_one", f"{noise} noise", "[0.025"):
        assert part in text
    assert "Exact binomial test" in repr(results)
    assert "tabular" in results.to_latex()
    assert "0.3" in results.to_markdown()
    with pytest.raises(InferenceError, match="exact"):
        results.plot_null()
    plt.close("all")


def test_no_rows_say_nothing():
    for price in (PURE, ZCDP):
        found = binomtest("s", simulated(plain(0)), p=0.3).fit(price)
        assert found.proportion_ci() == (0, 1)
        assert found.pvalue > 0.3
        assert "no rows" in found.flags[0]


# Results of the exact proportion


@cache
def shared():
    return exact("s", simulated(plain().assign(s=np.random.default_rng(1).random(100) < 0.2))).fit(PURE)


@pytest.mark.parametrize("method", ["exact", "wald"])
def test_the_interval_holds_what_the_test_does_not_reject(method):
    found = shared().with_inference(method)
    for alpha in (0.01, 0.05, 0.3):
        low, high = found.conf_int(alpha).loc["s"]
        assert 0 < low < found.params["s"] < high < 1
        for value in (low, high):
            assert found.t_test(f"s = {value:.12f}").pvalue == pytest.approx(alpha, rel=1e-4)
        for value, kept in ((low - 0.005, False), (low + 0.005, True), (high - 0.005, True), (high + 0.005, False)):
            assert (found.t_test(f"s = {value}").pvalue > alpha) == kept
            assert found.wald_test(f"s = {value}").pvalue == pytest.approx(found.t_test(f"s = {value}").pvalue)


def test_inference_by_a_normal_distribution_and_what_there_is_none_of():
    results = shared()
    wald = results.release.infer(inference="wald")
    ends = results.params["s"] + stats.norm.ppf([0.025, 0.975]) * results.bse["s"]
    np.testing.assert_allclose(wald.conf_int().loc["s"], ends, rtol=1e-12)
    assert wald.with_inference("exact").conf_int().equals(results.conf_int())
    for method in ("score", "simulated", "auto", "bayes"):
        with pytest.raises(OptionError, match="'exact', 'wald'"):
            results.with_inference(method)
    with pytest.raises(NotProvedError, match="target"):
        results.release.infer(target="data")
    with pytest.raises(OptionError, match="inference='score'"):
        results.release.infer(inference="score")
    unbound = exact("s").measurement(PURE, schema=SCHEMA, neighbors="replace_one")
    with pytest.raises(OptionError, match="number of rows is public"):
        exact("s", simulated()).estimate(Released.of_study(unbound, np.zeros((2, 1))))


def test_standard_errors_are_those_of_a_share_and_of_tulap_noise():
    results, b = shared(), np.exp(-1.0)
    share, n = results.params["s"], 100
    np.testing.assert_allclose(results.bse_noise["s"], np.sqrt(2 * b / (1 - b) ** 2 + 1 / 12) / n, rtol=1e-5)
    np.testing.assert_allclose(results.bse_sampling["s"], np.sqrt(share * (1 - share) / n), rtol=0.03)
    assert results.bse["s"] ** 2 == pytest.approx(results.bse_noise["s"] ** 2 + results.bse_sampling["s"] ** 2)
    assert results.nobs == 100
    assert results.summary_frame()["count"].tolist() == [100.0]


def test_a_multiple_of_the_share_is_tested_as_the_share():
    results = shared()
    alone, twice = results.t_test("s = 0.3"), results.t_test("2 * s = 0.6")
    assert twice.pvalue == pytest.approx(alone.pvalue)
    np.testing.assert_allclose(twice.conf_int(), 2 * alone.conf_int())
    np.testing.assert_allclose(results.t_test("-1 * s = -0.3").conf_int(), -alone.conf_int()[:, ::-1])


def test_any_share_can_be_tested():
    for share, same in ((5e-324, 0.0), (1e-308, 0.0), (1e-280, 0.0), (1 - 1e-16, 1.0), (-3.0, 0.0), (7.0, 1.0)):
        found, expected = (shared().t_test((np.eye(1), [value])).pvalue.item() for value in (share, same))
        assert 0 <= found <= 1
        assert found == pytest.approx(expected, rel=1e-9)


def test_impossible_counts_are_flagged_and_have_an_interval():
    for count in (-1000, -3, 0, 60, 100, 103, 2000):
        found = staged(shared().release, values=(count * TULAP_GRID,)).infer()
        low, high = found.conf_int().loc["s"]
        assert 0 <= low <= found.params["s"] <= high <= 1
        assert low < high
        assert bool(found.flags) == (not 0 <= count <= 100)
        assert low == 0 if count <= 0 else low > 0.4
        assert high == 1 if count >= 100 else high < 0.8


# Releases that are damaged or hold something else

COLUMNS = {"column": [None, "unheard", "x", "s +"], "schema": [dpi.Schema(s=dpi.Boolean()).to_dict()]}


@pytest.mark.parametrize("ask", [partial(fitted, PURE), partial(fitted, ZCDP), shared])
def test_a_damaged_release_is_refused(ask):
    whole = ask().release
    (stage,) = whole.stages
    two = {"values": (1, 2), "steps": stage.steps * 2, "names": ("a", "b")}
    if ask is shared:
        worse, changes = COLUMNS, [{"kind": "count"}]
        stages = [two, {"law": NoiseLaw("laplace", (1.0,))}]
    else:
        worse = COLUMNS | {"p": [1.2, float("nan"), "0.5", True], "alternative": ["more", ["less"]]}
        changes = [{"nobs": 2**60}, {"stages": whole.stages * 2}]
        other = NoiseLaw("gaussian" if stage.law.family == "tulap" else "tulap", stage.law.scales)
        stages = [two, {"values": (10**400,)}, {"steps": (0.3,)}, {"law": other}]
    assert_damage_is_refused(whole, worse, "damaged|missing")
    changes += [{"nobs": None}, *({"stages": (dataclasses.replace(stage, **one),)} for one in stages)]
    for change in changes:
        with pytest.raises(ReleaseFormatError, match="damaged"):
            dataclasses.replace(whole, **change).infer()


def test_exact_proportions_can_be_tested_and_tests_read_as_proportions():
    release = exact("s", simulated()).measure(PURE)
    found = binomtest("s", release, p=0.3).infer()
    assert found.pvalue == pytest.approx(float(release.infer().t_test("s = 0.3").pvalue), rel=1e-8)
    assert found.proportion_ci() == pytest.approx(tuple(release.infer().conf_int().loc["s"]), abs=1e-8)
    assert exact("s", fitted().release).infer().params["s"] == fitted().statistic
    with pytest.raises(OptionError, match="p="):
        release.infer(p=0.3)


def test_gaussian_counts_can_be_tested_and_tests_read_as_counts():
    release = dpi.count(where="s").bind(simulated()).measure(ZCDP)
    assert binomtest("s", release, p=0.3).infer().k == release.array[0]
    assert dpi.count(where="s").infer(fitted(ZCDP).release).params.iloc[0] == pytest.approx(fitted(ZCDP).k)


OTHERS = [
    (dpi.table("s"), ZCDP, "replace_one", InferenceError, r"another question .table of s"),
    (dpi.mean("x"), ZCDP, "replace_one", InferenceError, r"another question .mean of x"),
    (dpi.count(where="x > 5"), ZCDP, "replace_one", InferenceError, r"another question .count of rows, where x > 5"),
    (dpi.count(), ZCDP, "add_remove", InferenceError, r"another question .count of rows"),
    (dpi.count(where="s"), PURE, "replace_one", InferenceError, "discrete Laplace"),
    (dpi.count(where="s"), ZCDP, "add_remove", NotProvedError, 'neighbors="replace_one"'),
]


@pytest.mark.parametrize(("other", "price", "neighbors", "error", "match"), OTHERS)
def test_releases_of_something_else_are_refused_by_name(other, price, neighbors, error, match):
    with pytest.raises(error, match=match):
        binomtest("s", other.bind(simulated(neighbors=neighbors)).measure(price), p=0.3).infer()


def test_rows_that_may_drop_out_and_other_questions_have_no_exact_answer():
    release = dpi.count(where="loose").bind(simulated()).measure(ZCDP)
    with pytest.raises(NotProvedError, match="'loose'"):
        binomtest("loose", release).infer()
    counts = dpi.table(["s", "g"], simulated()).measure(PURE)
    for ask, held in (
        (exact("s"), counts),
        (exact("x > 5"), shared().release),
        (dpi.proportion("s"), shared().release),
    ):
        with pytest.raises(InferenceError, match="another question"):
            ask.infer(held)
    assert dpi.proportion("s", counts).infer().params.index.tolist() == ["s"]

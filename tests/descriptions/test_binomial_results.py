"""Results of the binomial test: members, tables, and releases that are damaged or hold something else."""

import dataclasses
import pickle

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.descriptions.binomial import binomtest
from dpinfer.descriptions.binomial_inference import binomial_interval, binomial_pvalue
from dpinfer.descriptions.results import BinomTestResults
from dpinfer.errors import InferenceError, NotProvedError, OptionError, ReleaseFormatError
from dpinfer.release.laws import NoiseLaw

SCHEMA = dpi.Schema(
    s=dpi.Boolean(missing=False, impossible=False),
    x=dpi.Real(0, 10, missing=0, impossible=0),
    loose=dpi.Boolean(),
)
PRICES = {"tulap": dpi.PureDP(1.0), "gaussian": dpi.ZCDP(0.1)}


def simulated(neighbors="replace_one", rows=100):
    rng = np.random.default_rng(1)
    frame = SCHEMA.sample(rows, rng).assign(s=np.arange(rows) < 0.2 * rows)
    return dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(2), neighbors=neighbors)


@pytest.fixture(scope="module", params=PRICES)
def results(request):
    return binomtest("s", simulated(), p=0.3).fit(PRICES[request.param])


def changed(release, **changes):
    return dataclasses.replace(release, **changes)


def restaged(release, **changes):
    return changed(release, stages=(dataclasses.replace(release.stages[0], **changes),))


def counted(release, count):
    return restaged(release, values=(round(count / release.steps[0]),))


def test_members_are_those_of_scipy(results):
    assert isinstance(results, BinomTestResults)
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
    assert results.pvalue_error == 0
    assert results.alternative == "two-sided"
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
    found = binomtest("s", results.release, p=0.3, alternative=alternative).infer()
    frame = found.frame()
    assert frame.columns.tolist()[-2:] == heads
    assert frame.iloc[0, -1 if free else -2] == free
    end = found.proportion_ci()[1 - free]
    at = binomtest("s", results.release, p=end, alternative=alternative).infer()
    assert at.pvalue == pytest.approx(0.05, rel=1e-6)


def test_the_interval_and_the_pvalue_agree(results):
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
    assert results.to_html().startswith("<")
    assert "0.3" in results.to_markdown()
    with pytest.raises(InferenceError, match="exact"):
        results.plot_null()
    plt.close("all")
    back = pickle.loads(pickle.dumps(results))
    pd.testing.assert_frame_equal(back.frame(), results.frame())


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize("count", [-1e6, -30.0, 0.0, 60.0, 100.0, 130.0, 1e6])
def test_impossible_counts_are_flagged_and_have_valid_answers(results, count, alternative):
    release = counted(results.release, count)
    for p in (0.0, 0.3, 1.0):
        found = binomtest("s", release, p=p, alternative=alternative).infer()
        assert 0 <= found.pvalue <= 1
        assert 0 <= found.statistic <= 1
        low, high = found.proportion_ci()
        assert 0 <= low <= found.statistic <= high <= 1
        assert low < high or alternative != "two-sided"
        assert bool(found.flags) == (not 0 <= count <= 100)
        assert str(found.summary())


def test_no_rows_say_nothing():
    for price in PRICES.values():
        found = binomtest("s", simulated(rows=0), p=0.3).fit(price)
        assert found.proportion_ci() == (0, 1)
        assert found.pvalue > 0.3
        assert "no rows" in found.flags[0]


# Releases


def test_a_saved_release_gives_the_same_test(results, tmp_path):
    results.release.save(tmp_path / "test.json")
    read = dpi.read_release(tmp_path / "test.json")
    for found in (read.infer(), binomtest("s", read, p=0.3).infer(), binomtest("s", p=0.3).infer(read)):
        assert (found.statistic, found.pvalue, found.hypothesis) == (results.statistic, results.pvalue, "P(s) = 0.3")
        pd.testing.assert_frame_equal(found.frame(), results.frame())
    other = read.infer(p=0.1, alternative="greater")
    assert other.pvalue == binomtest("s", read, p=0.1, alternative="greater").infer().pvalue
    for option in ({"p": 2}, {"alternative": "more"}):
        with pytest.raises(OptionError, match=next(iter(option))):
            read.infer(**option)


def damaged(**changes):
    return lambda whole: {"question": {**whole.question, **changes}}


def staged(change):
    return lambda whole: {"stages": (dataclasses.replace(whole.stages[0], **change(whole.stages[0])),)}


DAMAGE = {
    "p": damaged(p=1.2),
    "p NaN": damaged(p=float("nan")),
    "p text": damaged(p="0.5"),
    "p Boolean": damaged(p=True),
    "alternative": damaged(alternative="more"),
    "alternative list": damaged(alternative=["less"]),
    "no p": lambda whole: {"question": {name: one for name, one in whole.question.items() if name != "p"}},
    "column": damaged(column=None),
    "unheard": damaged(column="unheard"),
    "no condition": damaged(column="x"),
    "syntax": damaged(column="s +"),
    "schema": damaged(schema=dpi.Schema(s=dpi.Boolean()).to_dict()),
    "nobs": lambda whole: {"nobs": None},
    "huge nobs": lambda whole: {"nobs": 2**60},
    "two sums": staged(lambda one: {"values": (1, 2), "steps": one.steps * 2, "names": ("a", "b")}),
    "a step": staged(lambda _: {"steps": (0.3,)}),
    "a huge value": staged(lambda _: {"values": (10**400,)}),
    "another law": staged(
        lambda one: {"law": NoiseLaw("gaussian" if one.law.family == "tulap" else "tulap", one.law.scales)}
    ),
    "two stages": lambda whole: {"stages": whole.stages * 2},
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_release_is_refused(results, name):
    with pytest.raises(ReleaseFormatError, match="damaged"):
        changed(results.release, **DAMAGE[name](results.release)).infer()


def test_exact_proportions_can_be_tested_and_tests_read_as_proportions():
    release = dpi.proportion("s", simulated(), inference="exact").measure(PRICES["tulap"])
    found = binomtest("s", release, p=0.3).infer()
    assert found.pvalue == pytest.approx(float(release.infer().t_test("s = 0.3").pvalue), rel=1e-8)
    assert found.proportion_ci() == pytest.approx(tuple(release.infer().conf_int().loc["s"]), abs=1e-8)
    tested = binomtest("s", simulated(), p=0.3).measure(PRICES["tulap"])
    assert dpi.proportion("s", tested, inference="exact").infer().params["s"] == tested.infer().statistic
    with pytest.raises(OptionError, match="p="):
        release.infer(p=0.3)


def test_gaussian_counts_can_be_tested_and_tests_read_as_counts():
    release = dpi.count(where="s").bind(simulated()).measure(PRICES["gaussian"])
    assert binomtest("s", release, p=0.3).infer().k == release.array[0]
    tested = binomtest("s", simulated(), p=0.3).measure(PRICES["gaussian"])
    assert dpi.count(where="s").infer(tested).params.iloc[0] == pytest.approx(tested.array[0])


OTHERS = {
    "a table": (
        lambda: dpi.table("s", simulated()).measure(dpi.ZCDP(0.1)),
        InferenceError,
        r"another question .table of s",
    ),
    "a mean": (
        lambda: dpi.mean("x", simulated()).measure(dpi.ZCDP(0.1)),
        InferenceError,
        r"another question .mean of x",
    ),
    "another count": (
        lambda: dpi.count(where="x > 5").bind(simulated()).measure(dpi.ZCDP(0.1)),
        InferenceError,
        r"another question .count of rows, where x > 5",
    ),
    "a Laplace count": (
        lambda: dpi.count(where="s").bind(simulated()).measure(dpi.PureDP(1.0)),
        InferenceError,
        "discrete Laplace",
    ),
    "a private size": (
        lambda: dpi.count(where="s").bind(simulated("add_remove")).measure(dpi.ZCDP(0.1)),
        NotProvedError,
        'neighbors="replace_one"',
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_releases_of_something_else_are_refused_by_name(name):
    measure, error, match = OTHERS[name]
    with pytest.raises(error, match=match):
        binomtest("s", measure(), p=0.3).infer()


def test_rows_that_may_drop_out_are_refused_and_all_rows_have_no_proportion():
    release = dpi.count(where="loose").bind(simulated()).measure(dpi.ZCDP(0.1))
    with pytest.raises(NotProvedError, match="'loose'"):
        binomtest("loose", release).infer()
    everything = dpi.count().bind(simulated("add_remove")).measure(dpi.ZCDP(0.1))
    with pytest.raises(InferenceError, match=r"another question .count of rows"):
        binomtest("s", everything).infer()

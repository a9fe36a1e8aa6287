"""Results of chi-squared tests: members, tables, plots, and releases that are damaged."""

import json
import pickle

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import InferenceError, OptionError, ReleaseFormatError
from dpinfer.tables.chi_squared import chi2_contingency, chisquare, read_shares, read_sizes
from dpinfer.tables.chi_squared_results import ChiSquareResults

SCHEMA = dpi.Schema(
    g=dpi.Category(["a", "b", "c"], missing="a", impossible="a"),
    h=dpi.Category(["x", "y"]),
    age=dpi.Real(0, 80),
)
TESTS = {
    "one column": chisquare("g", p0=[0.5, 0.3, 0.2]),
    "a table": chi2_contingency("g", "h", statistic="pearson", where="age > 5"),
    "samples": chi2_contingency("g", "h", fixed="h", draws=999, seed=5),
    "a limit": chi2_contingency("g", "h", null="asymptotic"),
}


def simulated(neighbors="replace_one", rows=500):
    frame = SCHEMA.sample(rows, np.random.default_rng(1))
    return dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(2), neighbors=neighbors)


@pytest.fixture(scope="module")
def found():
    return {name: test.bind(simulated()).fit(dpi.ZCDP(0.05)) for name, test in TESTS.items()}


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
    assert isinstance(results, ChiSquareResults)
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
    assert list(whole) == [
        "observed",
        "expected",
        "difference",
        "std err",
        "std err (noise)",
        "residual",
        "[0.025",
        "0.975]",
    ]
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


def test_pickle_keeps_everything_and_no_rows(results):
    stored = pickle.dumps(results)
    assert len(stored) < 250_000
    again = pickle.loads(stored)
    assert tuple(again)[:2] == tuple(results)[:2]
    assert str(again.summary()) == str(results.summary())
    pd.testing.assert_frame_equal(again.residuals(), results.residuals())


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
    assert results.plot_residuals(alpha=0.1).get_xlabel().startswith("standardised residual (90%")


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
    assert effect.flag.startswith("The privacy noise hides a margin")
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


G, UNKNOWN = {"column": "g"}, {"column": "zz"}
WRONG = {
    "axes": [None, 1, 1.5, True, "x", [], {}, [1], [[1]], [UNKNOWN], [UNKNOWN, G], [G, G], [G, G, G], [{}], "missing"],
    "p0": [
        1,
        "x",
        [],
        [[1]],
        [["a", 1.0]],
        [["a", 0.5], ["b", 0.5]],
        [[["a"], 0.5], ["b", 0.3], ["c", 0.2]],
        "missing",
    ],
    "fixed": [1, "x", [], {}, "g ", "missing"],
    "sizes": [1, "x", [[1]], [["x", 1e300], ["y", 3.0]], [[{}, 5.0], ["y", 3.0]], [["x", 2.5], ["y", 3.0]], "missing"],
    "statistic": [None, 1, "x", [], {}, "missing"],
    "null": [None, 1, "exact", [], {}, "missing"],
    "draws": [None, 1, "x", [], 1e4, -5, True, "missing"],
    "seed": [None, -1, 0.5, "x", [], True, "missing"],
}


def damaged(release, **changes):
    stored = json.loads(release.to_json())
    for key, value in changes.items():
        if value == "missing":
            del stored["question"][key]
        else:
            stored["question"][key] = value
    return dpi.Release.from_json(json.dumps(stored))


@pytest.mark.parametrize("key", WRONG)
@pytest.mark.parametrize("name", ["one column", "samples"])
def test_a_damaged_test_is_named_and_nothing_else(found, name, key):
    for value in WRONG[key]:
        with pytest.raises(ReleaseFormatError, match="damaged"):
            damaged(found[name].release, **{key: value}).infer()


@pytest.mark.parametrize("axes", [None, 1, "x", [1], ["g"], [{}], [{"column": "zz"}], [{"column": "g", "edges": 3}]])
def test_a_release_whose_table_is_damaged_says_so_to_procedures_too(found, axes):
    stored = json.loads(found["one column"].release.to_json())
    stored["question"]["axes"] = axes
    release = dpi.Release.from_json(json.dumps(stored))
    with pytest.raises(ReleaseFormatError, match="damaged"):
        release.infer()
    with pytest.raises(ReleaseFormatError, match="damaged"):
        chisquare("g", release).infer()
    with pytest.raises(ReleaseFormatError, match="damaged"):
        chisquare("age", release, bins=[0, 40, 80]).infer()


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


def test_a_test_is_read_as_it_was_written():
    for test in (
        chisquare("g", p0={"a": 0.5, "b": 0.3, "c": 0.2}, draws=999, seed=3),
        chi2_contingency("g", "h", fixed="h", sizes=pd.Series({"x": 3, "y": 4}), statistic="pearson"),
        chisquare("kids", p0={0: 0.25, 1: 0.75}, null="asymptotic"),
        chisquare("age", bins=[0, 40, 80], where="h == 'x'"),
    ):
        again = type(test).from_dict(json.loads(json.dumps(test.to_dict())))
        assert again.to_dict() == test.to_dict()
        assert (again.p0, again.sizes, again.procedure) == (test.p0, test.sizes, test.procedure)
        assert test.procedure == ("chisquare" if len(test.columns) == 1 else "chi2_contingency")


def test_another_hypothesis_of_the_same_release_is_free(found):
    release = found["one column"].release
    again = release.infer(p0={"a": 0.2, "b": 0.3, "c": 0.5}, statistic="pearson", draws=199)
    assert (
        again.pvalue
        == chisquare("g", release, p0={"a": 0.2, "b": 0.3, "c": 0.5}, statistic="pearson", draws=199).infer().pvalue
    )
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

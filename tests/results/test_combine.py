"""Combined releases: generalised least squares, exact constraints, consistency, and what is refused."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import InferenceError, OptionError, ReleaseFormatError
from dpinfer.procedures.combine import combine
from dpinfer.release import NoiseLaw
from dpinfer.statistics.combination import CombinedNoise, Consistency, LinearNoise, least_squares, weighted_means
from dpinfer.tables.linear_queries import linear_queries

SURE = {"missing": "a", "impossible": "a"}
SCHEMA = dpi.Schema(
    g=dpi.Category(["a", "b", "c"], **SURE),
    b=dpi.Boolean(missing=False, impossible=False),
    k=dpi.Integer(0, 9, missing=0, impossible=0),
    x=dpi.Real(0, 10, missing=0, impossible=0),
)
ROWS = 1200
FRAME = SCHEMA.sample(ROWS, np.random.default_rng(1))


def data(seed=2, neighbors="add_remove", schema=SCHEMA, frame=FRAME):
    return dpi.PublicData(frame, schema, rng=np.random.default_rng(seed), neighbors=neighbors)


def measure(procedure, price=0.1, seed=2, **options):
    price = dpi.ZCDP(price) if isinstance(price, float) else price
    return procedure.bind(data(seed, **options)).measure(price)


# Generalised least squares


@pytest.mark.parametrize("total", [None, 7.0])
def test_least_squares_equals_the_textbook(total):
    rng = np.random.default_rng(3)
    cells, count = 4, 9
    design, variances = rng.integers(0, 3, size=(count, cells)).astype(float), rng.uniform(1, 5, count)
    values = rng.normal(size=count)
    precision = design.T @ np.diag(1 / variances)
    if total is None:
        cov = np.linalg.inv(precision @ design)
        expected = cov @ precision @ values
    else:
        ones = np.ones((cells, 1))
        system = np.linalg.inv(np.block([[precision @ design, ones], [ones.T, np.zeros((1, 1))]]))
        expected, cov = (system @ np.append(precision @ values, total))[:cells], system[:cells, :cells]
    fit = least_squares(values, design, variances, total=total)
    assert fit.full
    assert fit.free == cells - (total is not None)
    assert fit.estimate == pytest.approx(expected)
    assert (fit.mixing * variances) @ fit.mixing.T == pytest.approx(cov, abs=1e-12)
    assert fit.basis.T @ fit.basis == pytest.approx(np.eye(fit.free), abs=1e-12)


def test_least_squares_without_full_rank_fits_what_is_determined():
    design = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1.0]])
    values = np.array([10.0, 20, 12, 17])
    fit = least_squares(values, design, np.ones(4))
    assert not fit.full
    assert fit.free == 3
    assert design @ fit.estimate == pytest.approx(design @ np.linalg.pinv(design) @ values)
    fixed = least_squares(values, design, np.ones(4), total=30.0)
    assert fixed.free == 2
    assert design @ fixed.estimate == pytest.approx([10, 20, 12.5, 17.5])


def test_inverse_variance_weights():
    values, variances = np.array([[1.0, 5], [3, 8]]), np.array([[1.0, 2], [3, 2]])
    estimate, variance, basis = weighted_means(values, variances)
    assert estimate == pytest.approx([1.5, 6.5])
    assert variance == pytest.approx([0.75, 1.0])
    assert (basis.T @ basis).toarray() == pytest.approx(np.eye(2))


# Counts


def test_repeated_releases_are_weighted_by_precision():
    first, second = measure(dpi.table("g"), 0.1), measure(dpi.table("g"), 0.4, seed=3)
    both = combine([first, second])
    assert both.params.to_numpy() == pytest.approx(0.2 * first.array + 0.8 * second.array)
    assert both.bse.to_numpy() ** 2 == pytest.approx(1 / (1 / first.noise_variances + 1 / second.noise_variances))
    assert list(both.params.index) == ["count[g=a]", "count[g=b]", "count[g=c]"]
    assert list(both.estimates.index) == ["a", "b", "c"]
    assert both.inference.target == "data"
    assert both.consistency_test().df == 3


def test_margins_sharpen_cells_and_sums_of_cells():
    cells, margin = measure(dpi.table(["g", "b"]), 0.1), measure(dpi.table("b"), 0.9, seed=3)
    both = combine([cells, margin])
    design = np.vstack([np.eye(6), np.tile(np.eye(2), 3)])
    variances = np.concatenate([cells.noise_variances, margin.noise_variances])
    cov = np.linalg.inv(design.T @ np.diag(1 / variances) @ design)
    assert both.cov_params().to_numpy() == pytest.approx(cov)
    values = np.concatenate([cells.array, margin.array])
    assert both.params.to_numpy() == pytest.approx(cov @ design.T @ np.diag(1 / variances) @ values)
    assert both.estimates.index.names == ["g", "b"]
    yes = both.t_test([0, 1, 0, 1, 0, 1])
    assert yes.sd.item() < np.sqrt(margin.noise_variances[0])
    assert float(both.nobs) == pytest.approx(both.params.sum())


def test_sum_and_difference_give_each_count_at_half_the_variance():
    schema = dpi.Schema(hispanic=dpi.Boolean(), adult=dpi.Boolean())
    frame = schema.sample(800, np.random.default_rng(4))
    sum_of = {(True, True): 2, (True, False): 1, (False, True): 1}
    difference = {(True, False): 1, (False, True): -1}
    price = dpi.PureDP(0.1)
    both = measure(
        linear_queries(["hispanic", "adult"], queries={"S": sum_of, "D": difference}), price, schema=schema, frame=frame
    )
    results = combine([both])
    assert list(results.params.index) == ["1: S", "1: D"]  # no cell is determined
    counts = results.t_test(np.array([[0.5, 0.5], [0.5, -0.5]]))
    assert counts.sd**2 == pytest.approx([4 / 0.1**2] * 2, rel=1e-3)
    overlapping = {"X": {(True, True): 1, (True, False): 1}, "Y": {(True, True): 1, (False, True): 1}}
    direct = measure(linear_queries(["hispanic", "adult"], queries=overlapping), price, schema=schema, frame=frame)
    assert direct.noise_variances == pytest.approx([8 / 0.1**2] * 2, rel=1e-3)


def test_what_is_not_determined_is_shown_as_measured():
    by_g, by_b = measure(dpi.table("g"), 0.1), measure(dpi.table("b"), 0.4, seed=3)
    again = measure(dpi.table("g"), 0.1, seed=4)
    both = combine([by_g, by_b, again])
    assert list(both.params.index) == [
        "1: count[g=a]",
        "1: count[g=b]",
        "1: count[g=c]",
        "2: count[b=False]",
        "2: count[b=True]",
    ]
    totals = both.t_test(np.array([[1, 1, 1, 0, 0], [0, 0, 0, 1, 1]]))
    assert totals.effect[0] == pytest.approx(totals.effect[1])
    assert totals.sd[0] == pytest.approx(totals.sd[1], rel=1e-6)
    assert both.consistency_test().df == 4
    assert "do not determine every cell" in both.summary().as_text().replace("\n", " ")
    with pytest.raises(InferenceError, match="linearly dependent"):
        both.wald_test(np.eye(5))
    assert both.wald_test(np.eye(5)[:4]).df_denom == 4


def test_a_public_number_of_rows_is_an_exact_constraint():
    releases = [
        measure(dpi.table("g"), 0.02, neighbors="replace_one"),
        measure(dpi.table("b"), 0.1, 3, neighbors="replace_one"),
    ]
    both = combine(releases[:1])
    values, variance = releases[0].array, releases[0].noise_variances[0]
    assert both.params.sum() == pytest.approx(ROWS)
    assert both.params.to_numpy() == pytest.approx(values - (values.sum() - ROWS) / 3)
    assert both.bse.to_numpy() ** 2 == pytest.approx([variance * 2 / 3] * 3)
    assert both.consistency_test().df == 1
    total = both.t_test([1, 1, 1])
    assert total.sd.item() < 1e-3 * both.bse.iloc[0]
    assert "public" in both.summary().as_text()
    pair = combine(releases)
    assert pair.params.iloc[:3].sum() == pytest.approx(ROWS)
    assert pair.params.iloc[3:].sum() == pytest.approx(ROWS)


def test_rows_outside_an_axis_are_cells_of_their_own():
    schema = dpi.Schema(g=dpi.Category(["a", "b"], missing="a", impossible="a"), k=dpi.Boolean())
    frame = pd.DataFrame({"g": ["a"] * 60 + ["b"] * 40, "k": pd.Series([True, None] * 50, dtype=object)})
    tiny = 1e6  # hardly any noise
    by_g = measure(dpi.table("g"), tiny, schema=schema, frame=frame)
    joint = measure(dpi.table(["g", "k"]), tiny, seed=3, schema=schema, frame=frame)
    both = combine([by_g, joint])
    assert both.estimates.to_dict() == pytest.approx(
        {("a", False): 0, ("a", True): 30, ("a", "(none)"): 30, ("b", False): 0, ("b", True): 20, ("b", "(none)"): 20},
        abs=0.1,
    )
    assert both.consistency_test().df == 0
    everyone = combine([by_g, joint, measure(dpi.count(), tiny, seed=4, schema=schema, frame=frame)])
    assert everyone.params.sum() == pytest.approx(100, abs=0.1)
    assert everyone.consistency_test().df == 1


@pytest.mark.parametrize(
    ("first", "second", "cells"),
    [
        (dpi.histogram("x", bins=[0, 5, 10]), dpi.histogram("x", bins=[0, 2, 5, 10]), 3),
        (dpi.histogram("x", bins=[0, 5]), dpi.histogram("x", bins=[0, 5, 10]), 3),  # a value of exactly 5 is told apart
        (dpi.table("k"), dpi.table("k >= 5"), 10),
        (dpi.table("k"), dpi.histogram("k", bins=[0, 3, 9]), 10),
        (dpi.histogram("k", bins=[0, 3, 9]), dpi.table("k >= 5"), 3),
        (dpi.table("x >= 5"), dpi.table(["x >= 5", "b"]), 4),
    ],
)
def test_different_cuts_of_a_column_are_refined(first, second, cells):
    frame = FRAME.copy()
    frame.loc[:99, "x"] = 5.0
    releases = [measure(one, 1e6, seed, frame=frame) for seed, one in enumerate((first, second))]
    both = combine(releases)
    assert len(both.params) == cells
    fitted = both.measured_frame()
    assert fitted["fitted"].to_numpy() == pytest.approx(fitted["measured"].to_numpy(), abs=0.1)
    exact = np.concatenate([one.array for one in releases])
    assert fitted["measured"].to_numpy() == pytest.approx(np.rint(exact), abs=0.1)
    assert both.consistency_test().pvalue > 1e-4


def test_exact_proportions_take_part():
    exact = measure(dpi.proportion("b", inference="exact"), dpi.PureDP(1.0), neighbors="replace_one")
    table = measure(dpi.table("b"), dpi.PureDP(1.0), seed=3, neighbors="replace_one")
    both = combine([exact, table])
    assert both.params["count[b=True]"] == pytest.approx(FRAME["b"].sum(), abs=12)
    assert both.params.sum() == pytest.approx(ROWS)
    assert both.consistency_test().method == "simulated"


@pytest.mark.parametrize("draws", [1, 3])
def test_intervals_of_laplace_noise_cover(draws):
    releases = [
        measure(dpi.table(["g", "b"], draws=draws), dpi.PureDP(0.3)),
        measure(dpi.table("g", draws=draws), dpi.PureDP(0.5), seed=3),
    ]
    results = combine(releases)
    truth = FRAME.groupby(["g", "b"]).size().to_numpy()
    inference = results.inference
    drawn = inference.noise.rvs(40_000, np.random.default_rng(5)) @ inference.mixing.T
    contrasts = np.vstack([np.eye(6), np.ones(6), [1, -1, 0, 0, 0, 0]])
    steps = np.concatenate([sizes for _, sizes in inference.noise.parts])
    largest = np.abs(contrasts @ inference.mixing * steps).max(axis=1)
    for alpha in (0.1, 0.01):
        half = np.diff(inference.intervals(contrasts, alpha), axis=1)[:, 0] / 2
        away, error = np.abs(drawn @ contrasts.T), 6 * np.sqrt(alpha * (1 - alpha) / 40_000)  # false alarm below 1e-7
        assert (away > half * (1 + 1e-9)).mean(axis=0).max() < alpha + error
        assert (away > half - largest).mean(axis=0).min() > alpha - error  # one step less is too little
        pvalues = inference.contrast_pvalues(contrasts, contrasts @ inference.params + half)
        assert (pvalues >= alpha * 0.999).all()
        beyond = inference.contrast_pvalues(contrasts, contrasts @ inference.params + half + largest)
        assert (beyond <= alpha).all()
    assert np.abs(results.params.to_numpy() - truth).max() < 100


# Other questions


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("asked", [dpi.mean("x", by="b"), dpi.variance("x"), dpi.total("x"), dpi.mean(["x", "k"])])
def test_the_same_question_twice_is_as_good_as_the_whole_price(asked, neighbors):
    half = [measure(asked, 0.25, seed, neighbors=neighbors) for seed in (2, 3)]
    whole = measure(asked, 0.5, seed=4, neighbors=neighbors).infer()
    both = combine(half)
    assert both.bse_noise.to_numpy() == pytest.approx(whole.bse_noise.to_numpy(), rel=0.05)
    assert list(both.params.index) == list(whole.params.index)
    middle = np.mean([release.array for release in half], axis=0)
    assert both.measured_frame()["fitted"].to_numpy()[: (half[0].noise_variances > 0).sum()] == pytest.approx(
        middle[half[0].noise_variances > 0]
    )
    noisy = sum(scale > 0 for scale in half[0].law.scales)
    assert both.consistency_test().df == noisy
    assert both.consistency_test().pvalue > 1e-5
    assert both.with_inference("wald").conf_int().shape == (len(both.params), 2)
    assert "2 combined releases" in both.summary().as_text()


def test_a_test_of_means_and_the_means_are_one_question():
    half = [measure(dpi.ttest_ind("x", "b"), 0.25, 2), measure(dpi.mean("x", by="b"), 0.25, 3)]
    means = [measure(dpi.mean("x", by="b"), 0.25, seed) for seed in (2, 3)]
    pd.testing.assert_frame_equal(combine(half).conf_int(), combine(means).conf_int())
    pd.testing.assert_frame_equal(combine(half[::-1]).conf_int(), combine(means[::-1]).conf_int())


def test_exact_and_ordinary_counts_of_successes_are_combined_with_tables():
    sure = dpi.Schema(
        g=dpi.Category(["a", "b"], missing="a", impossible="a"), s=dpi.Boolean(missing=False, impossible=False)
    )
    frame = sure.sample(400, np.random.default_rng(4))
    options = {"schema": sure, "frame": frame, "neighbors": "replace_one"}
    exact = measure(dpi.binomtest("s"), dpi.PureDP(1.0), 2, **options)
    table = measure(dpi.table(["g", "s"]), dpi.PureDP(1.0), 3, **options)
    both = combine([exact, table])
    assert set(both.index.names) == {"g", "s"}
    assert (both.bse.to_numpy() < table.infer().bse.to_numpy()).all()
    ordinary = [
        measure(asked, 0.1, seed, **options) for seed, asked in enumerate((dpi.binomtest("s"), dpi.count(where="s")))
    ]
    assert combine(ordinary).bse.iloc[0] == pytest.approx((ordinary[0].noise_variances[0] / 2) ** 0.5)


def test_heavy_tails_stay_heavy_until_ten_draws():
    few = [measure(dpi.total("x"), dpi.PureDP(0.2), seed) for seed in (2, 3)]
    many = [measure(dpi.total("x", draws=5), dpi.PureDP(0.2), seed) for seed in (2, 3)]
    wide = [float(np.diff(combine(one).conf_int().to_numpy())[0, 0] / combine(one).bse.iloc[0]) for one in (few, many)]
    assert wide[0] == pytest.approx(2 * -np.log(0.05) / np.sqrt(2), rel=1e-3)
    assert wide[1] == pytest.approx(2 * stats.norm.isf(0.025), rel=1e-3)


def test_one_release_is_as_it_is():
    release = measure(dpi.mean("x", by="b"), 0.3)
    assert combine([release]).conf_int().equals(release.infer().conf_int())
    table = measure(dpi.table("g"), 0.3)
    assert combine([table]).params.to_numpy() == pytest.approx(table.array)


# Consistency


def test_pvalues_of_consistent_releases_are_uniform():
    rng = np.random.default_rng(6)
    design = np.vstack([np.eye(4), np.kron(np.eye(2), np.ones((1, 2))), np.ones((1, 4))])
    for family in ("gaussian", "laplace"):
        law = NoiseLaw(family, (50.0,) * 4 + (30.0,) * 2 + (80.0,))
        noise = CombinedNoise(((law, np.ones(7)),))
        found = []
        for _ in range(100 if family == "laplace" else 300):
            values = design @ [100, 200, 300, 400.0] + noise.rvs(1, rng)[0]
            fit = least_squares(values, design, noise.variances)
            found.append(Consistency(values, design @ fit.estimate, fit.basis, noise).test.pvalue)
        assert stats.kstest(found, "uniform").pvalue > 1e-5


@pytest.mark.parametrize("price", [dpi.ZCDP(0.5), dpi.PureDP(1.0)])
def test_releases_that_contradict_each_other_are_flagged(price):
    first = measure(dpi.table("g"), price)
    other = measure(dpi.table("g"), price, seed=3, frame=FRAME.iloc[:700])
    agreeing = combine([first, measure(dpi.table("g"), price, seed=4)])
    assert agreeing.flags == ()
    assert agreeing.consistency_test().pvalue > 1e-3
    both = combine([first, other])
    assert both.consistency_test().pvalue < 1e-3
    assert "differ by more" in both.flags[0]
    assert "differ by more" in both.summary().as_text()
    assert np.abs(both.measured_frame()["residual"]).max() > 3
    means = combine([measure(dpi.mean("x"), price), measure(dpi.mean("x"), price, 3, frame=FRAME.iloc[:700])])
    assert "differ by more" in " ".join(means.flags)


# What is shown


def private(ledger):
    return dpi.PrivateData(FRAME, SCHEMA, ledger)


def test_costs_add_up_and_charges_are_named():
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1.0))
    releases = [
        dpi.table("g", private(ledger)).measure(dpi.ZCDP(0.1)),
        dpi.table("b", private(ledger)).measure(dpi.ZCDP(0.2)),
    ]
    both = combine(releases)
    assert both.release.cost.price == dpi.ZCDP(0.1) + dpi.ZCDP(0.2)
    text = " ".join(both.summary().as_text().split())
    assert "ZCDP(rho=0.3)" in text
    assert both.release.charge_ids == releases[0].charge_ids + releases[1].charge_ids
    assert f"Ledger charges: {', '.join(both.release.charge_ids)}." in text
    assert "1: table of g (ZCDP(rho=0.1)); 2: table of b (ZCDP(rho=0.2))" in text
    mixed = combine([releases[0], dpi.table("g", private(ledger)).measure(dpi.PureDP(0.5))])
    assert "ZCDP(rho=0.1) and PureDP(epsilon=0.5)" in " ".join(mixed.summary().as_text().split())


def test_results_pickle_print_and_plot():
    both = combine([measure(dpi.table(["g", "b"])), measure(dpi.table("g"), 0.2, 3)])
    again = pickle.loads(pickle.dumps(both))
    assert again.params.equals(both.params)
    assert again.consistency_test() == both.consistency_test()
    assert "Agreement of the releases (chi-squared" in " ".join(both.summary().as_text().split())
    assert len(both.summary_frame()) == 6
    assert both.with_inference("wald").bse.equals(both.bse)
    with pytest.raises(OptionError):
        both.with_inference("simulated")
    assert both.plot() is not None
    assert both.measured_frame().shape == (9, 4)


def test_a_thousand_cells():
    schema = dpi.Schema(k=dpi.Integer(0, 99, missing=0, impossible=0), j=dpi.Integer(0, 9, missing=0, impossible=0))
    frame = schema.sample(20_000, np.random.default_rng(7))
    releases = [
        measure(dpi.table(names), 0.3, seed, schema=schema, frame=frame)
        for seed, names in enumerate((["k", "j"], "k", "j"))
    ]
    both = combine(releases)
    truth = frame.groupby(["k", "j"]).size().reindex(both.estimates.index, fill_value=0)
    assert np.abs((both.estimates - truth) / both.bse.to_numpy()).max() < 5.5
    assert both.consistency_test().df == 110


# Bad input


def test_what_cannot_be_combined_is_refused_by_name():
    table, other = measure(dpi.table("g")), measure(dpi.table("b"), seed=3)
    mean, replaced = measure(dpi.mean("x")), measure(dpi.table("b"), neighbors="replace_one")
    fewer = measure(dpi.table("g"), neighbors="replace_one", frame=FRAME.iloc[:50])
    charged = [replace(table, charge_ids=("a", "b")), replace(other, charge_ids=("b", "c"))]
    for error, match, releases in (
        (OptionError, "list", table),
        (OptionError, "list", []),
        (OptionError, "read_release", [table, table.infer()]),
        (InferenceError, "releases 1 and 2 are the same one", [table, table]),
        (InferenceError, "data set: 'census' and 'None'", [replace(table, dataset="census"), other]),
        (InferenceError, "neighbours: 'add_remove' and 'replace_one'", [table, replaced]),
        (
            InferenceError,
            "rows: 'public, with simulated noise' and 'confidential'",
            [table, replace(other, public=False)],
        ),
        (InferenceError, r"charge b\).*not independent", charged),
        (InferenceError, "where: None and", [table, measure(dpi.table("b", where="x > 5"))]),
        (InferenceError, "kinds table, mean", [table, mean]),
        (InferenceError, r"kind 'gram'.*these can: count", [table, measure(dpi.gram(["x", "k"]))]),
        (InferenceError, "different questions: mean of x and mean of k", [mean, measure(dpi.mean("k"))]),
        (InferenceError, "where", [mean, measure(dpi.mean("x", where="k > 2"))]),
        (InferenceError, "number of rows: 1200 and 50", [replaced, fewer]),
    ):
        with pytest.raises(error, match=match):
            combine(releases)
    with pytest.raises(OptionError, match="inference"):
        combine([table, other], inference="score")


def test_columns_declared_differently_are_refused():
    wider = dpi.Schema({**SCHEMA, "g": dpi.Category(["a", "b", "c", "d"])})
    with pytest.raises(InferenceError, match="declare the column 'g' differently"):
        combine([measure(dpi.table("g")), measure(dpi.table(["g", "b"]), schema=wider)])


def test_the_same_condition_in_another_spelling_is_the_same():
    releases = [measure(dpi.table("g", where="k>2")), measure(dpi.table("b", where="k > 2"), seed=3)]
    assert "Rows: k > 2" in " ".join(combine(releases).summary().as_text().split())


def test_a_joint_table_that_is_too_large_is_refused():
    schema = dpi.Schema({f"k{place}": dpi.Integer(0, 20, missing=0, impossible=0) for place in range(3)})
    frame = schema.sample(10, np.random.default_rng(8))
    releases = [measure(dpi.table(name), seed=seed, schema=schema, frame=frame) for seed, name in enumerate(schema)]
    with pytest.raises(InferenceError, match="9,261 cells"):
        combine(releases)


def test_a_damaged_release_is_refused():
    release = dpi.Release.from_json(measure(dpi.table("g")).to_json())
    release.question["axes"] = [{"column": "nothing"}]
    with pytest.raises(ReleaseFormatError):
        combine([measure(dpi.table("b"), seed=3), release])
    release.question["schema"] = {"g": 5}
    with pytest.raises(ReleaseFormatError, match="release 2"):
        combine([measure(dpi.table("b"), seed=3), release])


def test_noise_that_counts_as_normal_needs_no_simulation():
    law = NoiseLaw("laplace", (9.0, 9.0), 30)
    assert CombinedNoise(((law, np.ones(2)),)).normal
    inference = LinearNoise(("u", "v"), np.zeros(2), np.eye(2), CombinedNoise(((law, np.ones(2)),)))
    assert inference.wald(np.eye(2), np.zeros(2)) == (0.0, 2.0, 1.0)

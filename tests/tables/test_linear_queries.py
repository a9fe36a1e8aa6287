"""Linear queries: exact sums, exact sensitivities, noise as priced, and inference from the release alone."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.errors import DPInferError, FormulaError, InferenceError, OptionError, SchemaError
from dpinfer.kernel.rows.cells import LARGEST_WEIGHT, query_change
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.sums import exact_sums
from dpinfer.statistics.inference import Released
from dpinfer.tables.linear_queries import linear_queries, whole_weights
from tests.asking import assert_damage_is_refused

SCHEMA = dpi.Schema(g=dpi.Category(["a", "b", "c"]), b=dpi.Boolean(), x=dpi.Real(0, 10))
SURE = dpi.Schema(g=dpi.Category(["a", "b", "c"], missing="a", impossible="a"))
OVERLAP = dpi.Schema(hispanic=dpi.Boolean(), age=dpi.Integer(0, 115))
SUM_AND_DIFFERENCE = {
    "S": {(True, True): 2, (True, False): 1, (False, True): 1},
    "D": {(True, False): 1, (False, True): -1},
}
COUNTS = {"X": {(True, True): 1, (True, False): 1}, "Y": {(True, True): 1, (False, True): 1}}


def frame(rows=400, seed=1):
    return SCHEMA.sample(rows, np.random.default_rng(seed))


def public(schema=SCHEMA, seed=2, neighbors="add_remove", data=None):
    return dpi.PublicData(
        frame() if data is None else data, schema, rng=np.random.default_rng(seed), neighbors=neighbors
    )


def sums(procedure, data):
    measured = procedure.measurement(dpi.ZCDP(1.0), schema=SCHEMA)
    return exact_sums(measured.rows, open_source(data)), measured


# What is measured


def test_the_sums_are_the_combinations_of_counts_exactly():
    data = frame()
    weights = np.arange(-6, 6).reshape(2, 6)
    found, measured = sums(linear_queries(["g", "b"], queries=weights), data)
    counts = data.groupby(["g", "b"], observed=False).size().to_numpy()
    assert found == (weights @ counts).tolist()
    assert measured.rows.step == 1
    assert measured.names == ("q0", "q1")


def test_real_weights_are_measured_on_a_grid_that_the_question_keeps():
    data = frame()
    weights = np.random.default_rng(3).normal(size=(3, 3))
    found, measured = sums(linear_queries("g", queries=weights), data)
    rows = measured.rows
    assert np.abs(rows.matrix).max() == LARGEST_WEIGHT
    assert np.abs(rows.weights - weights).max() <= rows.step / 2
    counts = data["g"].value_counts().reindex(["a", "b", "c"]).to_numpy()
    assert np.array(found) * rows.step == pytest.approx(rows.weights @ counts, rel=1e-12)


def test_rows_in_no_cell_count_nowhere():
    data = frame().astype({"g": object})
    data.loc[:99, "g"] = "unknown"
    everything, _ = sums(linear_queries("g", queries=[1, 1, 1]), data)
    assert everything == [300]
    old, _ = sums(linear_queries("x >= 5", queries=[0, 1], where="b"), data)
    assert old == [int(((data["x"] >= 5) & data["b"]).sum())]


@pytest.mark.parametrize(
    "weights",
    [
        pd.DataFrame([[0, 1, 2], [1, 0, -1]], index=["up", "down"], columns=["c", "b", "a"]),
        {"up": {"b": 1, "a": 2}, "down": {"c": 1, "a": -1}},
        {"up": [2, 1, 0], "down": pd.Series({"a": -1, "c": 1})},
    ],
)
def test_weights_by_label(weights):
    found, measured = sums(linear_queries("g", queries=weights), frame())
    assert measured.rows.matrix.tolist() == [[2, 1, 0], [-1, 0, 1]]
    assert measured.names == ("up", "down")
    assert len(found) == 2


# Sensitivity


def brute(matrix, neighbors, norm, every_row):
    columns = [matrix[:, g] for g in range(matrix.shape[1])]
    pairs = [a - b for a, b in combinations(columns, 2)] if neighbors == "replace_one" else []
    alone = [] if neighbors == "replace_one" and every_row else columns
    changes = [*pairs, *alone] or [np.zeros(1, dtype=int)]
    size = (lambda d: int(np.abs(d).sum())) if norm == "l1" else (lambda d: sum(int(v) ** 2 for v in d))
    return max(size(change) for change in changes)


matrices = st.tuples(st.integers(1, 5), st.integers(1, 7)).flatmap(
    lambda shape: st.lists(
        st.lists(st.integers(-LARGEST_WEIGHT, LARGEST_WEIGHT), min_size=shape[1], max_size=shape[1]),
        min_size=shape[0],
        max_size=shape[0],
    )
)


@given(matrices, st.sampled_from(["add_remove", "replace_one"]), st.sampled_from(["l1", "l2"]), st.booleans())
def test_the_sensitivity_is_that_of_the_worst_neighbours(given_rows, neighbors, norm, every_row):
    matrix = np.array(given_rows)
    found = query_change(matrix, neighbors=neighbors, norm=norm, every_row=every_row)
    exact = brute(matrix, neighbors, norm, every_row)
    if norm == "l1":
        assert found == exact
    else:
        assert exact <= found**2 <= exact * (1 + Fraction(1, 10**14))


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_sensitivity_of_many_cells(norm):
    matrix = np.random.default_rng(4).integers(-9, 10, size=(40, 700))
    gaps = np.abs(matrix[:, :, None] - matrix[:, None, :])
    widest = gaps.sum(axis=0).max() if norm == "l1" else (gaps**2).sum(axis=0).max()
    found = query_change(matrix, neighbors="replace_one", norm=norm, every_row=True)
    assert float(found) == pytest.approx(widest if norm == "l1" else np.sqrt(widest), rel=1e-12)


def test_prefix_counts_move_by_the_distance_of_two_cells():
    matrix = np.tril(np.ones((600, 600), dtype=np.int64))
    assert query_change(matrix, neighbors="replace_one", norm="l1", every_row=True) == 599
    assert query_change(matrix, neighbors="add_remove", norm="l1", every_row=True) == 600


@given(st.data())
def test_no_pair_of_neighbouring_data_sets_exceeds_the_bound(data):
    neighbors = data.draw(st.sampled_from(["add_remove", "replace_one"]))
    rows = data.draw(st.lists(st.sampled_from(["a", "b", "c", "?"]), min_size=1, max_size=5))
    other = rows[:-1] + ([] if neighbors == "add_remove" else [data.draw(st.sampled_from(["a", "b", "c", "?"]))])
    weights = data.draw(st.lists(st.lists(st.integers(-5, 5), min_size=3, max_size=3), min_size=1, max_size=3))
    if not np.array(weights).any(axis=1).all():
        return
    measured = linear_queries("g", queries=weights).measurement(dpi.PureDP(1.0), schema=SCHEMA, neighbors=neighbors)
    one, two = (
        exact_sums(measured.rows, open_source(pd.DataFrame({"g": np.array(cells, dtype=object)})))
        if cells
        else [0] * len(weights)
        for cells in (rows, other)
    )
    change = sum(abs(a - b) for a, b in zip(one, two, strict=True))
    assert change <= measured.law.scales[0]  # epsilon = 1


@pytest.mark.parametrize("privacy", [dpi.ZCDP(0.1), dpi.GDP(0.5), dpi.ApproxDP(1.0, 1e-6), dpi.PureDP(0.7)])
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_the_noise_is_the_price_s(privacy, neighbors):
    weights = [[1, 0, 2], [0, 1, 1]]
    measured = linear_queries("g", queries=weights).measurement(privacy, schema=SURE, neighbors=neighbors)
    pure = isinstance(privacy, dpi.PureDP)
    change = brute(np.array(weights), neighbors, "l1" if pure else "l2", True)
    scale = measured.law.scales[0] * measured.steps[0]
    if pure:
        assert scale == pytest.approx(change / privacy.epsilon)
    else:
        assert change / scale**2 == pytest.approx(2 * float(measured.cost.rho), rel=1e-9)
        assert measured.law.scales[0] >= 2**24


def test_sum_and_difference_of_overlapping_counts_halve_the_variance():
    columns, epsilon = ["hispanic", "age >= 18"], 0.1
    price = dpi.PureDP(epsilon)
    data = public(OVERLAP, data=OVERLAP.sample(500, np.random.default_rng(5)))
    each = linear_queries(columns, data, queries=COUNTS).fit(price)
    both = linear_queries(columns, data, queries=SUM_AND_DIFFERENCE).fit(price)
    assert each.bse.to_numpy() ** 2 == pytest.approx([8 / epsilon**2] * 2, rel=1e-3)
    recovered = both.t_test(["0.5 * S + 0.5 * D", "0.5 * S - 0.5 * D"])
    assert recovered.sd**2 == pytest.approx([4 / epsilon**2] * 2, rel=1e-3)
    for results in (each, both):
        assert results.release.law.scales == (2 / epsilon,) * 2


def test_what_follows_from_a_public_number_of_rows_is_refused():
    asked = linear_queries("g", queries=[[2, 2, 2], [-1, -1, -1]])
    with pytest.raises(OptionError, match="public number of rows"):
        asked.measurement(dpi.ZCDP(1.0), schema=SURE, neighbors="replace_one")
    assert asked.measurement(dpi.PureDP(1.0), schema=SURE).law.scales == (3.0, 3.0)
    with_drops = asked.measurement(dpi.PureDP(1.0), schema=SCHEMA, neighbors="replace_one")
    assert with_drops.law.scales == (3.0, 3.0)  # a replaced row may be in no cell


def test_averages_of_laplace_draws():
    asked = linear_queries("g", queries=[1, 2, 3], draws=10)
    measured = asked.measurement(dpi.PureDP(0.5), schema=SCHEMA)
    variance = measured.law.variances[0] * measured.steps[0] ** 2
    assert variance == pytest.approx(2 * 10 * (3 / 0.5) ** 2, rel=1e-3)
    with pytest.raises(OptionError, match="PureDP"):
        asked.measurement(dpi.ZCDP(0.5), schema=SCHEMA)


# Inference


def test_intervals_of_simulated_noise_cover():
    weights = [[1, 0, 0], [1, 1, 0], [0.5, 0.25, -1]]
    data = frame()
    for draws, price in ((1, dpi.PureDP(1.0)), (4, dpi.PureDP(1.0)), (1, dpi.ZCDP(0.5))):
        asked = linear_queries("g", queries=weights, draws=draws)
        measured = asked.measurement(price, schema=SCHEMA)
        exact = np.array(exact_sums(measured.rows, open_source(data)), dtype=float)
        noise = measured.law.rvs(20_000, np.random.default_rng(6))
        values = (exact * measured.multiplier + noise) * np.asarray(measured.steps)
        found = asked.estimate(Released.of_study(measured, values), alpha=0.1)
        truth = exact * measured.rows.step
        covered = ((found.intervals[..., 0] <= truth) & (truth <= found.intervals[..., 1])).mean(axis=0)
        assert np.abs(covered - 0.9).max() < 0.0105  # five standard errors; the grid is fine
        assert found.params.std(axis=0) == pytest.approx(found.bse[0], rel=0.03)


def test_batches_equal_single_releases():
    contrasts = {"gap": {"up": 1.0, "down": -1.0}}
    asked = linear_queries("g", queries={"up": [2, 1, 0], "down": [0, 1.5, 1]})
    for price in (dpi.ZCDP(0.2), dpi.PureDP(0.5)):
        results = asked.bind(public()).fit(price)
        measured = asked.measurement(price, schema=SCHEMA)
        released = Released.of_study(measured, results.release.array[None])
        batch = asked.estimate(released, alpha=0.1, contrasts=contrasts)
        test = results.t_test("up - down")
        assert batch.names == ("up", "down", "gap")
        assert batch.intervals[0, :2] == pytest.approx(results.conf_int(0.1).to_numpy())
        assert batch.intervals[0, 2] == pytest.approx(test.conf_int(0.1)[0])
        assert batch.pvalues[0] == pytest.approx([*results.pvalues, float(test.pvalue)], abs=1e-12)
        half = np.diff(results.conf_int(0.1).to_numpy())[:, 0] / 2
        assert asked.oracle(released, sampling=np.zeros(2), alpha=0.1).halfwidth == pytest.approx(half)
        assert (asked.oracle(released, sampling=np.ones(2), alpha=0.1).halfwidth > half).all()


def test_joint_tests_of_laplace_noise_are_simulated():
    results = linear_queries("g", public(), queries=np.eye(3)).fit(dpi.PureDP(0.5))
    truth = frame()["g"].value_counts().reindex(["a", "b", "c"]).to_numpy(dtype=float)
    assert results.wald_test((np.eye(3), truth)).pvalue > 1e-3
    assert results.wald_test((np.eye(3), truth + 60)).pvalue == pytest.approx(1 / 2000)


def test_results_are_labelled_and_print():
    results = linear_queries("g", public(), queries={"up": [1, 1, 0], "down": [0.3, 0, 1]}, where="b").fit(
        dpi.ZCDP(0.5)
    )
    text = results.summary().as_text()
    assert "Private linear queries of g" in text
    assert "public grid" in text
    assert "Rows: b" in text
    assert list(results.summary_frame().index) == ["up", "down"]
    assert (results.bse_sampling == 0).all()
    with pytest.raises(OptionError):
        results.with_inference("score")


LINES = (["1 2", "3 4"], ["1 2 x", "3 4 5"], ["1 2 3", "4 5"], ["1 2 3"], ["1 2 999999999", "3 4 5"], [], 3)
WORSE = {
    "weights": [*({"step": 1.0, "lines": lines} for lines in LINES), {"step": 1.0}, ["1 2 3", "3 4 5"], 3],
    "weights.step": [0, "1"],
    "names": [["up"], ["up", "sideways"], ["up", "up"]],
    "target": ["population"],
    "inference": ["bayes"],
    "draws": [0],
    "axes": [[{"column": "h"}], []],
    "where": [5, "x +"],
}


def test_a_damaged_question_is_refused():
    release = linear_queries("g", public(), queries={"up": [2, 1, 0], "down": [0, 1, 1]}).measure(dpi.ZCDP(0.2))
    assert_damage_is_refused(release, WORSE)
    assert release.infer(inference="wald", target="data").bse.equals(release.infer().bse)
    with pytest.raises(OptionError):
        release.infer(target="population")


def test_a_release_answers_its_own_queries_alone():
    release = linear_queries("g", public(), queries={"up": [2, 1, 0]}).measure(dpi.ZCDP(0.2))
    assert linear_queries("g", queries={"up": {"a": 2, "b": 1}}).infer(release).params.index.tolist() == ["up"]
    for other in (
        linear_queries("g", queries={"up": [2, 1, 1]}),
        linear_queries("g", queries={"down": [2, 1, 0]}),
        linear_queries("g", queries={"up": [2, 1, 0]}, where="b"),
        linear_queries("x > 2", queries={"up": [2, 1]}),
    ):
        with pytest.raises(InferenceError, match="another question"):
            other.infer(release)


def test_explain_shows_the_noise_and_reads_no_row():
    asked = linear_queries(["hispanic", "age >= 18"], queries=SUM_AND_DIFFERENCE)
    text = asked.explain(dpi.PureDP(0.5), schema=OVERLAP)
    assert "L1 sensitivity of all queries at most 2" in text
    assert "5.64" in text  # 2 sqrt 2 / .5, less the grid
    assert "S, D" in text


def test_studies_take_queries():
    cells = np.array(["a", "b", "c", "c"])

    def generate(rng, n):
        return {"g": np.resize(cells, n), "b": np.zeros(n, dtype=bool), "x": rng.uniform(0, 10, n)}

    study = dpi.coverage_study(
        generate,
        linear_queries("g", queries={"ends": [1, 0, 0.5], "all": [1, 1, 1]}),
        schema=SCHEMA,
        truth={"ends": 200.0, "all": 400.0},
        n=400,
        privacy=[dpi.ZCDP(0.1), dpi.PureDP(0.3)],
        replicates=300,
        seed=7,
        progress=False,
    )
    coverage = study.cells["coverage"].to_numpy()
    assert np.abs(coverage - 0.95).max() < 0.063  # five standard errors; above, 20,000 draws judge the intervals


# Bad input


BAD = [
    ([1, 2], np.ones((2, 2, 2)), [], [[1, 2, 3], [4, 5]], "abc", [1, np.nan, 2], [1, np.inf, 2], [0, 0, 0]),
    ([[1e9, 0, 0], [1, 0, 0]], {"up": {"d": 1}}, {"up": ["x", "y", "z"]}, {1: [1, 2, 3]}),
    (pd.DataFrame([[1, 2, 3]], columns=["a", "b", "b"]),),
]


def test_bad_questions_are_refused_before_anything_is_measured():
    for columns, error, weights in (
        *(("g", OptionError, some) for some in BAD),
        ("x", SchemaError, ([1, 2],)),
        ("x + ", DPInferError, ([1, 2],)),
        (["g", "g"], OptionError, ([1] * 9,)),
        ([], OptionError, ([1, 2, 3],)),
    ):
        for queries in weights:
            with pytest.raises(error):
                pytest.fail(f"{queries} was taken: {linear_queries(columns, public(), queries=queries)}")


def test_bad_options():
    for options in ({"inference": "score"}, {"draws": 0}, {"names": ["one", "two"]}, {"names": [""]}, {"names": "q"}):
        with pytest.raises(OptionError):
            linear_queries("g", queries=[1, 2, 3], **options)
    with pytest.raises(FormulaError):
        linear_queries("g", public(), queries=[1, 2, 3], where="x + 1")
    with pytest.raises(OptionError, match="at most"):
        whole_weights(np.ones((1, 5000)))

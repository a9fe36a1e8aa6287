"""Power studies: known powers, agreement with the whole tests, sizes and budgets, refusals that cost nothing.

Simulated powers are judged at four standard errors: a false alarm once in 16,000 comparisons, and none at these seeds.
"""

import pickle
from functools import lru_cache

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.descriptions.binomial import binomtest
from dpinfer.descriptions.binomial_inference import binomial_power
from dpinfer.descriptions.mean_tests import f_oneway, ttest_1samp, ttest_ind, ttest_rel
from dpinfer.errors import DPInferError, NotProvedError, OptionError
from dpinfer.release import NoiseLaw
from dpinfer.statistics.inference import Released
from dpinfer.statistics.noise import CountNoise
from dpinfer.statistics.nulls import batch_pvalues
from dpinfer.studies import PowerStudy, power
from dpinfer.tables.chi_squared import chi2_contingency, chisquare
from dpinfer.tables.chi_squared_inference import GoodnessOfFit, Independence
from tests.linear import gram_ols

OPEN = dpi.Schema(
    p=dpi.Category(list("abcd")),
    r=dpi.Category(["x", "y"]),
    c=dpi.Category(["u", "v", "w"]),
    b=dpi.Boolean(),
    v=dpi.Real(0, 10),
    w=dpi.Real(0, 10),
)
FULL = dpi.Schema(
    p=dpi.Category(list("abcd"), missing="a", impossible="a"),
    r=dpi.Category(["x", "y"], missing="x", impossible="x"),
    s=dpi.Category(["u", "v"], missing="u", impossible="u"),
    b=dpi.Boolean(missing=False, impossible=False),
)
ZIGZAG = 0.01 * np.array([1.0, -1.0, -1.0, 1.0])
PRICE, LOW = dpi.ZCDP(0.01), (dpi.ZCDP(0.00125),)
TABLE = pd.DataFrame([[0.2, 0.1, 0.2], [0.1, 0.3, 0.1]], index=["x", "y"], columns=["u", "v", "w"])


def close(found, known, error, false_alarm=4.0):
    assert abs(found - known) <= false_alarm * np.hypot(error, 0.0005), (found, known, error)


@lru_cache
def uniform(n=(1000, 5000, 10_000), prices=LOW, neighbors="replace_one", replicates=4000):
    return power(
        chisquare("p"), 0.25 + ZIGZAG, n=n, privacy=prices, schema=FULL, neighbors=neighbors, replicates=replicates
    )


# Known powers


@pytest.mark.parametrize(("place", "known"), [(0, 0.073), (1, 0.434), (2, 0.846)])
def test_goodness_of_fit_has_its_known_power(place, known):
    row = uniform().frame.iloc[place]
    close(row["power"], known, row["std err"])


@pytest.mark.parametrize(("place", "known"), [(0, 0.165), (1, 0.654), (2, 0.933)])
def test_the_ordinary_test_has_its_known_power(place, known):
    row = uniform().frame.iloc[place]
    size = uniform().n[place] * float((ZIGZAG**2 / 0.25).sum())
    assert stats.ncx2.sf(stats.chi2.isf(0.05, 3), 3, size) == pytest.approx(known, abs=0.02)
    close(row["ordinary power"], known, 0.009)


def test_independence_has_its_known_power():
    study = power(
        chi2_contingency("r", "s"),
        (0.25 + ZIGZAG).reshape(2, 2),
        n=1000,
        privacy=dpi.ZCDP(0.005),
        schema=FULL,
        neighbors="replace_one",
    )
    row = study.frame.iloc[0]
    close(row["power"], 0.151, row["std err"])


@pytest.mark.parametrize(
    ("truth", "n", "epsilon", "known"), [(0.9, 30, 0.5, 0.175), (0.9, 30, 1, 0.304), (0.9, 30, 2, 0.402)]
)
def test_the_binomial_test_has_its_known_power(truth, n, epsilon, known):
    test = binomtest("b", p=0.8, alternative="greater")
    study = power(test, truth, n=n, privacy=dpi.PureDP(epsilon), schema=FULL, neighbors="replace_one")
    assert study.frame["power"].iloc[0] == pytest.approx(known, abs=6e-4)
    assert study.frame["std err"].iloc[0] == 0
    critical = stats.binom.isf(0.05, n, 0.8) + 1
    assert study.frame["ordinary power"].iloc[0] == pytest.approx(stats.binom.sf(critical - 1, n, truth), abs=1e-9)


def t_power(freedom, size):
    """Power of a two-sided t test at level .05."""
    limit = stats.t.isf(0.025, freedom)
    return stats.nct.sf(limit, freedom, size) + stats.nct.cdf(-limit, freedom, size)


PAIRED = ttest_rel("v", "w", alternative="greater")
PAIRED_POWER = stats.nct.sf(stats.t.isf(0.05, 199), 199, 0.2 / 1.5 * np.sqrt(200))
TWO_GROUPS = {"y": (0.5, 5.4, 2.0), "x": {"share": 0.5, "mean": 5.0, "sd": 2.0}}
THREE_GROUPS = pd.DataFrame({"mean": [5.0, 5.3, 5.0], "sd": 1.5, "share": 1 / 3}, index=["u", "v", "w"]).iloc[::-1]
F_POWER = stats.ncf.sf(stats.f.isf(0.05, 2, 597), 2, 597, 200 * 0.06 / 1.5**2)  # squares of .1, .2, .1
ORDINARY = [
    (ttest_1samp("v", popmean=5.0), {"mean": 5.2, "sd": 1.5}, 400, t_power(399, 0.2 / 1.5 * np.sqrt(400))),
    (PAIRED, {"mean": 0.2, "sd": 1.5}, 200, PAIRED_POWER),
    (ttest_ind("v", "r", equal_var=True), TWO_GROUPS, 600, t_power(598, 0.4 / 2 * np.sqrt(150))),
    (f_oneway("v", "r"), TWO_GROUPS, 600, t_power(598, 0.4 / 2 * np.sqrt(150))),
    (ttest_ind("v", "r"), TWO_GROUPS, 600, t_power(598, 0.4 / 2 * np.sqrt(150))),
    (f_oneway("v", "c"), THREE_GROUPS, 600, F_POWER),
]


@pytest.mark.parametrize(("test", "truth", "n", "known"), ORDINARY)
def test_without_much_noise_means_have_the_power_of_the_ordinary_test(test, truth, n, known):
    row = power(test, truth, n=n, privacy=dpi.ZCDP(1000), schema=OPEN).frame.iloc[0]
    close(row["ordinary power"], known, row["std err"])
    close(row["power"], known, row["std err"])


# The whole test, which refits the hypothesis to every release


UNEVEN = np.outer([0.9, 0.1], [0.85, 0.15]) + 3 * ZIGZAG.reshape(2, 2)


HIDDEN = np.array([[0.45, 0.05], [0.05, 0.45]])
"""Of 100 rows and noise of standard deviation 28 every margin is hidden, which the whole test pays for."""
WHOLE = [
    ((0.25 + 2 * ZIGZAG).reshape(2, 2), 1500, 0.005, "projected", (0.2, 0.9)),
    (UNEVEN, 800, 0.005, "projected", (0.2, 0.9)),
    (HIDDEN, 100, 0.00125, "projected", (0, 1)),
    (HIDDEN, 100, 0.00125, "pearson", (0, 1)),
]


@pytest.mark.parametrize(("cells", "n", "rho", "kind", "within"), WHOLE)
def test_power_is_that_of_the_whole_test_of_independence(cells, n, rho, kind, within):
    price, test = dpi.ZCDP(rho), chi2_contingency("r", "s", statistic=kind, draws=199)
    row = power(test, cells, n=n, privacy=price, schema=FULL, neighbors="replace_one").frame.iloc[0]
    measured = test.measurement(price, schema=FULL, neighbors="replace_one")
    noise = CountNoise(NoiseLaw("gaussian", measured.law.scales[:1]), measured.steps[0])
    rng = np.random.default_rng(1)
    values = rng.multinomial(n, cells.ravel(), size=3000) + noise.rvs((3000, 4), rng)
    whole = float((batch_pvalues(Independence((2, 2), noise, n, kind), values, draws=199, rng=rng) <= 0.05).mean())
    assert within[0] < whole < within[1]
    close(row["power"], whole, np.hypot(row["std err"], np.sqrt(whole * (1 - whole) / 3000)))
    if cells is HIDDEN and kind == "projected":
        assert row["lost"] > 0.05


def test_power_is_that_of_the_whole_test_of_a_mean_on_rows():
    test = ttest_1samp("v", popmean=5.0, draws=199)
    row = power(test, {"mean": 5.25, "sd": 1.0}, n=500, privacy=dpi.ZCDP(0.02), schema=OPEN).frame.iloc[0]
    measured = test.measurement(dpi.ZCDP(0.02), schema=OPEN, neighbors="add_remove")
    rng = np.random.default_rng(2)
    u = np.clip((rng.normal(5.25, 1.0, (1500, 500)) - 5) / 5, -1, 1)
    raw = measured.rows.features.basis.blocks
    assert len(raw) == 3
    square = (u**2 - raw[2].center / 25) / (raw[2].half / 25)
    sums = np.stack([np.full(1500, 500.0), u.sum(axis=1), square.sum(axis=1)], axis=1)
    values = sums + measured.law.rvs(1500, rng) * np.asarray(measured.steps)
    whole = float((test.batch_pvalues(Released.of_study(measured, values), draws=199, rng=rng) <= 0.05).mean())
    assert 0.2 < whole < 0.95
    close(row["power"], whole, np.hypot(row["std err"], np.sqrt(whole * (1 - whole) / 1500)))


def test_power_counts_what_is_lost_where_noise_hides_a_variance():
    test, truth = ttest_ind("v", "r", draws=199), {"x": (0.5, 2.0, 0.3), "y": (0.5, 3.0, 0.3)}
    frame = power(test, truth, n=[200, 20_000], privacy=dpi.ZCDP(0.05), schema=OPEN).frame
    assert frame["lost"].iloc[0] > 3 * frame["std err"].iloc[0]
    assert frame["lost"].iloc[1] == 0


# Invariants


def test_under_the_hypothesis_power_is_the_level():
    truth = {"b": 0.2, "a": 0.1, "c": 0.3, "d": 0.4}
    for neighbors in ("add_remove", "replace_one"):
        study = power(
            chisquare("p", p0=truth), truth, n=[50, 500], privacy=[PRICE, dpi.PureDP(0.5)], schema=FULL,
            neighbors=neighbors, alpha=0.1,
        )  # fmt: skip
        for row in study.frame.itertuples():
            close(row.power, 0.1, 0.008)
            close(row[5], 0.1, 0.008)
        assert study.sample_size()["n"].isna().all()
        assert study.sample_size()["power"].isna().all()


def test_more_rows_and_more_budget_give_more_power_and_privacy_costs_some():
    frame = uniform(
        n=(2000, 8000), prices=(dpi.ZCDP(0.0005), dpi.ZCDP(0.005), dpi.ZCDP(0.05)), neighbors="add_remove"
    ).frame
    table = frame.pivot_table(index="n", columns="privacy", values="power")[list(frame["privacy"].unique())].to_numpy()
    assert (np.diff(table, axis=0) > 0).all()
    assert (np.diff(table, axis=1) > 0).all()
    assert (frame["power"] <= frame["ordinary power"] + 0.03).all()


def test_a_point_does_not_depend_on_the_others_and_seeds_are_public():
    one = uniform(n=(5000,), replicates=1000).frame["power"].iloc[0]
    assert uniform(n=(1000, 5000), replicates=1000).frame["power"].iloc[1] == one
    other = power(
        chisquare("p"), 0.25 + ZIGZAG, n=5000, privacy=dpi.ZCDP(0.00125), schema=FULL, neighbors="replace_one",
        replicates=1000, seed=1,
    )  # fmt: skip
    assert other.frame["power"].iloc[0] != one


def test_the_standard_error_holds_over_seeds():
    found = [
        power(chisquare("p"), 0.25 + ZIGZAG, n=5000, privacy=PRICE, schema=FULL, replicates=500, seed=seed).frame
        for seed in range(60)
    ]
    powers, errors = (np.array([frame[name].iloc[0] for frame in found]) for name in ("power", "std err"))
    assert 0.65 < powers.std(ddof=1) / np.sqrt((errors**2).mean()) < 1.45  # 5 standard errors of a deviation of 60


def test_few_draws_and_tests_by_their_limit_have_their_own_power():
    def at(**options):
        return (
            power(chisquare("p", **options), 0.25 + ZIGZAG, n=6000, privacy=PRICE, schema=FULL).frame["power"].iloc[0]
        )

    assert at(draws=99) < at(draws=100_000) + 0.01
    assert at(null="asymptotic") == pytest.approx(at(), abs=0.05)
    frame = power(
        chisquare("p", draws=99), 0.25 + ZIGZAG, n=10**6, privacy=PRICE, schema=FULL, alpha=0.005, replicates=200
    ).frame
    assert frame["power"].iloc[0] == 0  # the least p-value is 1 / 100
    assert frame["ordinary power"].iloc[0] == 1


def test_homogeneity_of_two_samples_nears_the_test_of_two_proportions():
    truth = pd.DataFrame([[0.30, 0.20], [0.25, 0.25]], index=["x", "y"], columns=["u", "v"])
    study = power(
        chi2_contingency("r", "s", fixed="r"), truth, n=400, privacy=dpi.ZCDP(1000), schema=FULL,
        neighbors="replace_one",
    )  # fmt: skip
    spread = np.sqrt(0.6 * 0.4 / 200 + 0.5 * 0.5 / 200)
    known = stats.norm.sf(1.96 - 0.1 / spread)
    row = study.frame.iloc[0]
    close(row["ordinary power"], known, 0.009 + 0.01)
    close(row["power"], row["ordinary power"], 0.015)


def test_public_sizes_of_samples_are_scaled_to_n():
    truth = np.array([[0.30, 0.20], [0.25, 0.25]])
    even, as_large, uneven = (
        power(
            chi2_contingency("r", "s", fixed="r", sizes=sizes), truth, n=400, privacy=PRICE, schema=FULL,
            neighbors="replace_one",
        )
        for sizes in ([100, 100], [200, 200], [190, 10])
    )  # fmt: skip
    assert even.frame.equals(as_large.frame)
    assert uneven.frame["power"].iloc[0] < even.frame["power"].iloc[0] - 0.1


# How the truth is read


def test_truth_is_read_by_label_whatever_its_order():
    joint = TABLE.stack()  # noqa: PD013
    forms = [
        TABLE,
        TABLE.iloc[::-1, ::-1],
        TABLE.to_numpy(),
        joint,
        joint.swaplevel().rename_axis(["c", "r"]),
        joint.to_dict(),
    ]
    studies = [
        power(chi2_contingency("r", "c"), form, n=500, privacy=PRICE, schema=OPEN, replicates=200) for form in forms
    ]
    assert len({study.frame["power"].iloc[0] for study in studies}) == 1
    fixed = [
        power(chi2_contingency("r", "c", fixed="c"), form, n=500, privacy=PRICE, schema=OPEN, replicates=200)
        for form in forms
    ]
    assert len({study.frame["power"].iloc[0] for study in fixed}) == 1


@pytest.mark.parametrize(
    ("column", "labelled", "listed"),
    [
        ("p", pd.Series([0.1, 0.4, 0.2, 0.3], index=list("dcba")), [0.3, 0.2, 0.4, 0.1]),
        ("v >= 5", {True: 0.7, False: 0.3}, [0.3, 0.7]),
    ],
)
def test_levels_and_conditions_are_read_by_label(column, labelled, listed):
    test = chisquare(column, p0=listed)
    found, own, other = (
        power(test, truth, n=500, privacy=PRICE, schema=OPEN, replicates=400).frame
        for truth in (labelled, listed, listed[::-1])
    )
    assert found.equals(own)
    assert other["power"].iloc[0] > 0.9 > own["power"].iloc[0]


def test_a_level_that_never_occurs_and_a_single_row_do_no_harm():
    study = power(
        chi2_contingency("r", "c"), [[0.5, 0.5, 0], [0, 0, 0]], n=[1, 20], privacy=[PRICE, dpi.PureDP(1)],
        schema=OPEN, replicates=200,
    )  # fmt: skip
    assert np.isfinite(study.frame[["power", "std err", "ordinary power"]].to_numpy()).all()
    study = power(f_oneway("v", "r"), {"x": (0.99, 2, 1), "y": (0.01, 9, 1)}, n=4, privacy=PRICE, schema=OPEN)
    assert study.frame["power"].between(0, 1).all()


# Rows and budgets


def test_the_sample_size_has_its_power_and_a_little_less_does_not():
    found = uniform().sample_size(0.8)
    row = found.loc["ZCDP(rho=0.00125)"]
    assert found["n"].dtype == "Int64"
    close(row["power"], 0.8, row["std err"])
    assert 8500 < row["n"] < 10_000
    assert uniform().sample_size(0.4)["n"].iloc[0] < 5500


def test_the_sample_size_of_the_exact_test_is_exact():
    test = binomtest("b", p=0.8, alternative="greater")
    study = power(test, 0.9, n=30, privacy=[dpi.PureDP(1), dpi.PureDP(1e-3)], schema=FULL, neighbors="replace_one")
    found = study.sample_size(0.8)
    measured = test.measurement(dpi.PureDP(1), schema=FULL, neighbors="replace_one")

    def at(n):
        return binomial_power(n, 0.8, 0.9, measured.law, step=measured.steps[0], alternative="greater")

    n = int(found["n"].iloc[0])
    assert at(n) >= 0.8 > at(n - 1)
    assert found["power"].iloc[0] == at(n)
    assert found["n"].iloc[1] > 10_000


def test_sizes_beyond_a_billion_rows_are_missing_and_easy_ones_are_one():
    test = binomtest("b", p=0.5)
    prices = {"privacy": dpi.PureDP(1), "schema": FULL, "neighbors": "replace_one"}
    assert power(test, 0.5 + 1e-7, n=100, **prices).sample_size()["n"].isna().all()
    assert power(binomtest("b", p=0), 1.0, n=100, privacy=dpi.PureDP(50), schema=FULL, neighbors="replace_one"
                 ).sample_size()["n"].tolist() == [1]  # fmt: skip


def test_the_budget_has_its_power_in_its_own_unit():
    prices = (dpi.ZCDP(0.01), dpi.ZCDP(0.001), dpi.ApproxDP(0.3, 1e-6))
    found = uniform(n=(8000, 3000), prices=prices).budget(0.8)
    assert found["n"].tolist() == [8000, 8000, 3000, 3000]
    assert found["unit"].tolist() == ["ZCDP", "ApproxDP, delta=1e-06"] * 2
    zcdp, approx, none, also = found["privacy"]
    assert isinstance(zcdp, dpi.ZCDP)
    assert 0.0012 < zcdp.rho < 0.0035
    assert isinstance(approx, dpi.ApproxDP)
    assert approx.delta == 1e-6
    assert none is None
    assert also is None
    for row in found.iloc[:2].itertuples():
        close(row.power, 0.8, row[5])


def test_the_budget_of_the_exact_test_is_rounded_up():
    test = binomtest("b", p=0.8, alternative="greater")
    study = power(test, 0.9, n=150, privacy=dpi.PureDP(1), schema=FULL, neighbors="replace_one")
    row = study.budget(0.8).iloc[0]
    assert row["power"] >= 0.8
    less = power(test, 0.9, n=150, privacy=row["privacy"] * 0.99, schema=FULL, neighbors="replace_one")
    assert less.frame["power"].iloc[0] < 0.8
    assert float(f"{row['privacy'].epsilon:.3g}") == row["privacy"].epsilon


def test_budgets_are_sought_only_where_the_test_takes_the_price():
    study = power(
        binomtest("b", p=0.3), 0.4, n=[20, 500], privacy=dpi.ApproxDP(1.0, 1e-6), schema=FULL, neighbors="replace_one"
    )
    none, some = study.budget(0.8)["privacy"]
    assert none is None
    assert 0.1 < some.epsilon < 1


def test_a_level_that_no_simulated_pvalue_reaches_has_no_power():
    row = power(**{**SAMPLE, "truth": [0.7, 0.1, 0.1, 0.1], "alpha": 1e-6, "replicates": 100}).frame.iloc[0]
    assert row["power"] == 0
    assert np.isnan(row["ordinary power"])


@pytest.mark.parametrize("target", [0.05, 1.0, 0, "0.8", None, True, float("nan")])
def test_a_target_that_is_no_power_is_refused(target):
    with pytest.raises(OptionError, match=r"power=.*between the level 0.05 and 1"):
        uniform().sample_size(target)
    with pytest.raises(OptionError, match="power="):
        uniform().budget(target)


# Nothing is spent, nothing is kept


def test_bound_data_are_neither_read_nor_charged_nor_kept():
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1.0), neighbors="add_remove")
    rows = OPEN.sample(60, np.random.default_rng(1))
    data = dpi.PrivateData(rows, OPEN, ledger)
    study = power(chisquare("p", data), 0.25 + ZIGZAG, n=500, privacy=PRICE, replicates=200)
    study.sample_size(0.5)
    assert ledger.spent.is_zero
    assert study.test.source is None
    assert study.neighbors == "add_remove"
    assert study.schema == OPEN
    free = power(chisquare("p"), 0.25 + ZIGZAG, n=500, privacy=PRICE, schema=OPEN, replicates=200)
    assert free.frame.equals(study.frame)
    public = dpi.PublicData(rows, OPEN, rng=np.random.default_rng(1), neighbors="replace_one")
    assert power(chisquare("p", public), 0.25 + ZIGZAG, n=500, privacy=PRICE, replicates=200).neighbors == "replace_one"


def test_a_study_is_frozen_pickles_and_says_what_it_is():
    study = uniform()
    assert isinstance(study, PowerStudy)
    with pytest.raises(AttributeError):
        study.alpha = 0.1
    assert repr(study) == (
        "<PowerStudy: chisquare of p, 3 sizes x 1 privacy parameters, alpha 0.05, replace_one, 4,000 replicates>"
    )
    for fact in ("neighbours", "computed", "from 4,000 replicates"):
        assert f">{fact}<" in study._repr_html_()
    assert pickle.loads(pickle.dumps(study)).frame.equals(study.frame)
    assert list(study.frame) == ["n", "privacy", "power", "std err", "ordinary power", "lost"]
    exact = power(binomtest("b", p=0.2), 0.3, n=30, privacy=dpi.PureDP(1), schema=FULL, neighbors="replace_one")
    told = "binomial test of b, p = 0.2, 1 sizes x 1 privacy parameters, alpha 0.05, replace_one, exact"
    assert repr(exact) == f"<PowerStudy: {told}>"


def test_the_plot_has_a_curve_for_every_price_and_the_ordinary_test_dashed():
    study = uniform(n=(5000, 1000), prices=(dpi.ZCDP(0.01), dpi.ZCDP(0.001)), replicates=200)
    axes = study.plot()
    labels = axes.get_legend_handles_labels()[1]
    assert sorted(labels) == ["ZCDP(rho=0.001)", "ZCDP(rho=0.01)", "ordinary test, no privacy"]
    dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert dashed[0].get_xdata().tolist() == [1000, 5000]
    given = plt.subplots()[1]
    assert study.plot(given) is given
    plt.close("all")


# Refusals

T_TEST = ttest_1samp("v", popmean=5)
SAMPLE = {"test": chisquare("p"), "truth": np.full(4, 0.25), "n": 100, "privacy": PRICE, "schema": OPEN}
MEANS = {"u": (0.3, 5, 1), "v": (0.3, 5, 1), "w": (0.4, 5, 1)}
REFUSED = {
    "too few probabilities": ({"truth": [0.5, 0.5]}, r"truth=.*'p' \(a, b, c, d\)"),
    "probabilities of another sum": ({"truth": [0.25, 0.25, 0.25, 0.26]}, "truth=.*not to more"),
    "a negative probability": ({"truth": [0.5, 0.5, 0.5, -0.5]}, "truth=.*not negative"),
    "another level": ({"truth": dict.fromkeys("abcx", 0.25)}, "truth="),
    "a level twice": ({"truth": pd.Series([0.25] * 4, index=list("aabc"))}, "truth="),
    "text": ({"truth": "uniform"}, "truth="),
    "no truth": ({"truth": None}, "truth="),
    "not a number": ({"truth": [0.5, 0.5, np.nan, 0]}, "truth="),
    "a flat table": ({"test": chi2_contingency("r", "c"), "truth": np.full(6, 1 / 6)}, r"truth=.*'r' .* by 'c'"),
    "a table of other labels": (
        {"test": chi2_contingency("r", "c"), "truth": TABLE.rename(columns={"u": "q"})}, "truth=",
    ),
    "a table turned round": ({"test": chi2_contingency("r", "c"), "truth": TABLE.T.to_numpy()}, "truth="),
    "a sample of no rows": (
        {"test": chi2_contingency("r", "c", fixed="r"), "truth": [[0.5, 0.3, 0.2], [0, 0, 0]]}, "truth=.*sample of 'r'",
    ),
    "a proportion above one": (
        {"test": binomtest("b"), "truth": 1.5, "schema": FULL, "neighbors": "replace_one"}, r"truth=1.5.*\[0, 1\]",
    ),
    "no mean": ({"test": T_TEST, "truth": 5.1}, "truth=5.1.*mean"),
    "a mean without sd": ({"test": T_TEST, "truth": {"mean": 5}}, "truth="),
    "a mean beyond the bounds": ({"test": T_TEST, "truth": {"mean": 11, "sd": 1}}, r"truth=.*\[0, 10\]"),
    "an sd beyond the bounds": ({"test": T_TEST, "truth": {"mean": 1, "sd": 4}}, r"truth=.*\[0, 10\]"),
    "an sd of zero": ({"test": T_TEST, "truth": {"mean": 1, "sd": 0}}, "truth=.*positive sd"),
    "groups without shares": ({"test": f_oneway("v", "c"), "truth": dict.fromkeys("uvw", (5, 1))}, "truth=.*share"),
    "a group too many": ({"test": f_oneway("v", "c"), "truth": {**MEANS, "q": (0.1, 5, 1)}}, "truth=.*u, v, w"),
    "shares of another sum": (
        {"test": f_oneway("v", "c"), "truth": dict.fromkeys("uvw", (0.5, 5, 1))}, "truth=.*shares that add up to 1",
    ),
    "other columns": ({"test": f_oneway("v", "c"), "truth": pd.DataFrame(MEANS).T}, "truth=.*share"),
    "too few rows for groups": ({"test": f_oneway("v", "c"), "truth": MEANS, "n": [100, 5]}, "n=5.*at least 6"),
    "no rows": ({"n": 0}, "n=0"),
    "part of a row": ({"n": [10, 10.5]}, "n="),
    "rows as text": ({"n": "100"}, "n="),
    "no sizes": ({"n": []}, "n="),
    "a size that is true": ({"n": True}, "n=True"),
    "too many rows": ({"n": 10**10}, "n=.*1,000,000,000"),
    "a price as a number": ({"privacy": 0.1}, "privacy=0.1.*ZCDP"),
    "no price": ({"privacy": []}, "privacy="),
    "a wrong price among right ones": ({"privacy": [PRICE, 1.0]}, "privacy="),
    "a level of zero": ({"alpha": 0}, "alpha=0"),
    "a level of one": ({"alpha": 1.0}, "alpha=1.0"),
    "a level as text": ({"alpha": "0.05"}, "alpha="),
    "few replicates": ({"replicates": 10}, "replicates=10"),
    "a negative seed": ({"seed": -1}, "seed=-1"),
    "no schema": ({"schema": None}, "schema=None"),
    "other neighbours": ({"neighbors": "both"}, "neighbors='both'"),
    "no test": ({"test": gram_ols("v ~ w")}, "test=.*chisquare"),
}  # fmt: skip


@pytest.mark.parametrize("case", list(REFUSED))
def test_wrong_arguments_are_refused(case):
    given, message = REFUSED[case]
    with pytest.raises(OptionError, match=f"(?s){message}"):
        power(**{**SAMPLE, **given})


def test_a_price_that_the_test_does_not_take_is_refused_as_by_the_test():
    with pytest.raises(NotProvedError, match="asymptotic"):
        power(**{**SAMPLE, "test": chisquare("p", null="asymptotic"), "privacy": [PRICE, dpi.PureDP(1.0)]})
    with pytest.raises(NotProvedError, match="replace_one"):
        power(**{**SAMPLE, "test": binomtest("b"), "truth": 0.5})
    for price in (dpi.ZCDP(0), dpi.ApproxDP(200, 1e-6)):
        with pytest.raises(DPInferError):
            power(**{**SAMPLE, "privacy": price})


def test_n_is_public_only_where_the_test_has_it_so():
    def model(schema, neighbors):
        return power(
            **{**SAMPLE, "schema": schema, "neighbors": neighbors, "replicates": 100}
        )._population.model(100, PRICE)  # fmt: skip

    assert isinstance(model(FULL, "replace_one"), GoodnessOfFit)
    assert model(FULL, "replace_one").nobs == 100
    assert model(OPEN, "replace_one").nobs is None
    assert model(FULL, "add_remove").nobs is None

"""Rank tests as questions: leaves from schema and price, releases of others, refusals."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.distributions.ranks import best_leaves, best_sides, even_edges, leaf_shares, mirrored_edges, read_cdf
from dpinfer.errors import InferenceError, MissingFromReleaseError, NotProvedError, OptionError, SchemaError
from dpinfer.schema.axes import MirroredAxis
from dpinfer.schema.expressions import axis_from_dict, compile_expression
from tests.asking import assert_refused, each

SCHEMA = dpi.Schema(
    age=dpi.Real(0, 100),
    kids=dpi.Integer(0, 8),
    before=dpi.Integer(0, 60),
    after=dpi.Integer(0, 60),
    married=dpi.Boolean(),
    race=dpi.Category(["a", "b", "c"]),
)
N = 2000
PRICE = dpi.ZCDP(0.2)


def rows():
    rng = np.random.default_rng(1)
    married = rng.random(N) < 0.3
    before = rng.integers(10, 50, N)
    return pd.DataFrame(
        {
            "age": np.clip(45 + 8 * married + rng.normal(0, 12, N), 0, 100),
            "kids": rng.poisson(2, N).clip(0, 8),
            "before": before,
            "after": before + rng.integers(-3, 5, N),
            "married": married,
            "race": rng.choice(list("abc"), N),
        }
    )


def data(neighbors="add_remove"):
    return dpi.PublicData(rows(), SCHEMA, rng=np.random.default_rng(2), neighbors=neighbors)


ASKED = {
    "mannwhitneyu": lambda d: dpi.mannwhitneyu("age", "married", d, draws=499),
    "kruskal": lambda d: dpi.kruskal("kids", "race", d, draws=499),
    "ks_2samp": lambda d: dpi.ks_2samp("age", "married", d, draws=499),
    "wilcoxon": lambda d: dpi.wilcoxon("after", "before", d, draws=499),
    "wilcoxon of one": lambda d: dpi.wilcoxon("age", data=d, center=47, draws=499),
    "ks_1samp": lambda d: dpi.ks_1samp("kids", stats.poisson(2), d, draws=499),
    "ks_1samp own": lambda d: dpi.ks_1samp("age", lambda x: stats.norm.cdf(x, 47, 13), d, draws=499),
    "spearmanr": lambda d: dpi.spearmanr("before", "after", d, draws=499),
}
FOUND = {"mannwhitneyu", "ks_2samp", "wilcoxon", "spearmanr"}


@pytest.mark.parametrize("name", ASKED)
def test_each_finds_what_is_there(name):
    results = ASKED[name](data()).fit(PRICE)
    assert (results.pvalue < 0.01) == (name in FOUND)
    assert "grouped into" in str(results.summary())
    assert len(results.frame()) >= 1


@pytest.mark.parametrize("price", [dpi.PureDP(1), dpi.ZCDP(0.1), dpi.GDP(0.5), dpi.ApproxDP(1, 1e-6)], ids=str)
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_the_price_is_that_of_a_table(price, neighbors):
    asked = dpi.mannwhitneyu("kids", "married", data(neighbors)).measurement(price)
    table = dpi.table(["married", "kids"], data(neighbors)).measurement(price)
    assert asked.cost == table.cost
    assert asked.law == table.law


def test_leaves_follow_from_schema_and_price_alone():
    asked = dpi.mannwhitneyu("age", "married", data())
    few, many = (asked.measurement(dpi.ZCDP(rho)).rows.axes[1].size for rho in (0.001, 1.0))
    assert (few, many) == (best_leaves(500.0), best_leaves(0.5))
    bare = dpi.mannwhitneyu("age", "married").measurement(dpi.ZCDP(1.0), schema=SCHEMA, neighbors="add_remove")
    assert bare.rows.axes[1].edges == asked.measurement(dpi.ZCDP(1.0)).rows.axes[1].edges
    assert dpi.kruskal("kids", "race", data()).measurement(PRICE).rows.axes[1].labels == tuple(range(9))
    sides = dpi.spearmanr("age", "before", data()).measurement(dpi.ZCDP(0.01)).rows.shape
    assert sides[0] == best_sides(50.0)
    given = dpi.ks_2samp("age", "married", data(), bins=[0, 30, 100]).measurement(PRICE)
    assert given.rows.axes[1].edges == (0.0, 30.0, 100.0)


def test_edges_of_whole_numbers_and_mirrored_ones():
    assert even_edges(0, 60, 20, whole=True) == [*(float(k) for k in range(0, 60, 4)), 60.0]
    assert mirrored_edges(3, 7, whole=True) == [0.5, 1.5, 2.5, 3.5]
    edges = mirrored_edges(10, 7, whole=False)
    assert edges[-1] == 10
    assert np.diff(edges) == pytest.approx(np.full(3, 2 * edges[0]))


def test_a_mirrored_axis_puts_a_value_and_its_negative_as_far_from_the_middle():
    schema = dpi.Schema(a=dpi.Real(0, 3), b=dpi.Real(0, 3))
    axis = MirroredAxis(schema, "a - b", compile_expression("a - b", schema), (0.5, 1.0, 3.0))
    values = np.array([0.0, 0.4, 0.5, 0.9, 1.0, 3.0])
    zero = np.zeros(6)
    assert axis.place({"a": values, "b": zero}).tolist() == [2, 2, 3, 3, 4, 4]
    assert axis.place({"a": zero, "b": values}).tolist() == [2, 2, 1, 1, 0, 0]
    assert axis.labels == ("[-3, -1]", "(-1, -0.5]", "(-0.5, 0.5)", "[0.5, 1)", "[1, 3]")
    assert axis.covers
    assert axis_from_dict(axis.to_dict(), schema).to_dict() == axis.to_dict()
    assert axis.place({"a": np.array([3.0]), "b": np.array([-0.1])}).tolist() == [-1]
    for edges in ((0.5,), (0.0, 1.0), (1.0, 0.5)):
        with pytest.raises(OptionError, match="increasing edges above zero"):
            MirroredAxis(schema, "a - b", compile_expression("a - b", schema), edges)


def test_a_table_or_histogram_serves():
    table = dpi.table(["race", "kids", "married"], data()).measure(PRICE)
    assert dpi.mannwhitneyu("kids", "married", table, draws=499).infer().pvalue > 1e-3
    assert dpi.kruskal("kids", "race", table, draws=499).infer().dof == 2
    assert dpi.ks_1samp("kids", "poisson", table, args=(2,), draws=499).infer().statistic < 0.1
    assert dpi.spearmanr("kids", "married", table, draws=499).infer().effect_size().lower < 0.1
    assert dpi.wilcoxon("kids", data=table, center=4, draws=499).infer().pvalue < 0.01
    histogram = dpi.histogram("age", data(), bins=20, bounds=(0, 100), by="married").measure(PRICE)
    assert dpi.ks_2samp("age", "married", histogram, draws=499).infer().pvalue < 0.01
    assert dpi.wilcoxon("age", data=histogram, center=50, draws=499).infer().pvalue < 0.01
    with pytest.raises(OptionError, match="the middle of the bins"):
        dpi.wilcoxon("age", data=histogram, center=40, draws=499).infer()
    with pytest.raises(OptionError, match="the bins of the release"):
        dpi.ks_2samp("age", "married", histogram, bins=[0, 50, 100]).infer()
    with pytest.raises(MissingFromReleaseError):
        dpi.mannwhitneyu("age", "race == 'a'", histogram, draws=499).infer()
    with pytest.raises(InferenceError):
        dpi.mannwhitneyu("age", "married", dpi.mean("age", data()).measure(PRICE)).infer()


def test_lumps_of_a_given_distribution_are_in_the_leaf_that_they_start():
    schema = dpi.Schema(v=dpi.Real(0, 8))
    law = stats.binom(8, 0.4)
    for edges in ([0, 2, 3, 8], [1, 3, 7]):
        axis = dpi.ks_1samp("v", law, bins=edges).plan(schema).cells[0]
        place = axis.place({"v": np.arange(9.0)})
        known = np.array([law.pmf(np.arange(9))[place == k].sum() for k in range(axis.size)])
        assert leaf_shares(axis, **read_cdf(law, ())) == pytest.approx(known / known.sum())


def test_bins_of_whole_numbers_that_do_not_mirror_each_other_are_refused():
    """Those of 40 to 49 and 50 to 59 mirror each other about 49.5, whatever the edges."""
    schema = dpi.Schema(v=dpi.Integer(0, 100))
    rows = dpi.PublicData(schema.sample(100, np.random.default_rng(1)), schema, rng=np.random.default_rng(2))
    for bins, center in ((range(0, 101, 10), 50), (range(40, 61, 10), 50)):
        held = dpi.ks_1samp("v", "norm", rows, args=(50, 10), bins=list(bins), draws=99).fit(PRICE).release
        with pytest.raises(OptionError, match="center"):
            dpi.wilcoxon("v", data=held, center=center, draws=99).infer()
    held = dpi.ks_1samp("v", "norm", rows, args=(50, 10), bins=[40, 45, 50, 54.5], draws=99).fit(PRICE).release
    assert dpi.wilcoxon("v", data=held, center=47, draws=99).infer().nobs > 0


def test_shares_of_a_given_distribution_are_those_of_clamped_values():
    asked = dpi.ks_1samp("age", stats.norm(90, 20), data(), bins=[0, 50, 100])
    assert asked.cdf == "norm"
    assert asked.args == (90.0, 20.0)
    below = stats.norm.cdf(50, 90, 20)
    axis = asked.plan(SCHEMA).cells[0]
    assert asked.given_shares(axis) == pytest.approx([below, 1 - below])
    whole = dpi.ks_1samp("kids", stats.poisson(2), data())
    law = stats.poisson.pmf(np.arange(9), 2)
    law[-1] += stats.poisson.sf(8, 2)
    assert whole.given_shares(whole.plan(SCHEMA).cells[0]) == pytest.approx(law)


U, NORMAL = partial(each, dpi.mannwhitneyu, "age", "married"), partial(each, dpi.ks_1samp)
REFUSED = [
    (OptionError, "exactly two levels", each(dpi.mannwhitneyu, "age", by=["race"])),
    (OptionError, "scipy.stats", NORMAL("age", cdf=["nothing"])),
    (OptionError, "nondecreasing", NORMAL("age", cdf=[lambda x: -x])),
    (OptionError, "numeric column", NORMAL("race", cdf=["norm"])),
    (OptionError, "a column other than x", each(dpi.spearmanr, "age", y=["age"])),
    (OptionError, "mapping", each(dpi.spearmanr, "age", "kids", bins=[[1, 2]])),
    (OptionError, "other", [lambda d: dpi.wilcoxon("age", d or data())]),
    (OptionError, "both sides of zero", each(dpi.wilcoxon, "age", center=[200])),
    (OptionError, "pratt", each(dpi.wilcoxon, "after", "before", zero_method=["zsplit"])),
    (OptionError, "number of bins", U(bins=[1])),
    (OptionError, "alternative", U(alternative=["up"])),
    (SchemaError, "not numeric", each(dpi.mannwhitneyu, "race", "married", bins=[[0, 1]])),
    (OptionError, "by", each(dpi.kruskal, "age", by=[None])),
]


@pytest.mark.parametrize(("error", "match", "questions"), REFUSED)
def test_what_cannot_be_asked_is_refused(error, match, questions):
    assert_refused(questions, error, match, dpi.PrivateData(rows(), SCHEMA, dpi.Ledger.in_memory(PRICE)), PRICE)


def test_people_with_several_rows_are_refused():
    frame = rows().assign(person=np.arange(N) // 2)
    several = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(1), id="person", max_rows=2)
    for ask in ASKED.values():
        with pytest.raises(NotProvedError, match="assumes independent rows"):
            ask(several)


def test_results_are_named_as_in_scipy():
    test = dpi.mannwhitneyu("age", "married", data(), draws=99).fit(dpi.ZCDP(1000.0))
    frame = rows()
    low, high = (frame["age"][frame["married"] == truth] for truth in (False, True))
    assert test.statistic == pytest.approx(stats.mannwhitneyu(low, high).statistic, rel=0.01)
    assert test.bse_noise < test.bse
    found = test.effect_size()
    assert found.lower < found.estimate < found.upper < 0.5
    distance = dpi.ks_2samp("age", "married", data(), draws=99).fit(dpi.ZCDP(1000.0))
    assert distance.statistic == pytest.approx(stats.ks_2samp(low, high).statistic, abs=0.02)
    assert distance.statistic_location in distance.frame().index
    with pytest.raises(InferenceError, match="effect sizes are for two groups"):
        distance.effect_size()
    with pytest.raises(InferenceError, match="ks_1samp and ks_2samp"):
        _ = test.statistic_location
    several = dpi.kruskal("age", "race", data(), draws=99).fit(dpi.ZCDP(1000.0))
    expected = stats.kruskal(*(frame["age"][frame["race"] == one] for one in "abc")).statistic
    assert several.statistic == pytest.approx(expected, rel=0.05)
    assert several.df == 2
    assert several.zstatistic == several.statistic
    signs = dpi.wilcoxon("after", "before", data(), bins=200, draws=99).fit(dpi.ZCDP(1000.0))
    paired = stats.wilcoxon(frame["after"], frame["before"], method="asymptotic")
    assert signs.statistic == pytest.approx(paired.statistic, rel=0.01)
    both = dpi.spearmanr("before", "after", data(), draws=99).fit(dpi.ZCDP(1000.0))
    assert both.statistic == pytest.approx(stats.spearmanr(frame["before"], frame["after"]).statistic, abs=0.01)
    for one in (test, distance, several, signs, both):
        assert one.plot().get_title()


def test_hidden_groups_are_flagged():
    few = dpi.PublicData(rows().iloc[:20], SCHEMA, rng=np.random.default_rng(3))
    test = dpi.ks_2samp("age", "married", few).fit(dpi.ZCDP(0.0005))
    assert test.pvalue == 1
    assert "not determined" in test.flags[0]
    ranks = dpi.mannwhitneyu("age", "married", few).fit(dpi.ZCDP(0.0005))
    assert any("not determined" in flag for flag in ranks.flags)

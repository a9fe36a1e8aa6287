"""Results of marginals: errors of cells, margins, shares and ratios together; display; simultaneous intervals."""

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import MissingFromReleaseError, OptionError

SCHEMA = dpi.Schema(a=dpi.Boolean(), b=dpi.Category(["x", "y", "z"]), c=dpi.Integer(1, 4))
PRICES = {"pure": dpi.PureDP(1.0), "zcdp": dpi.ZCDP(0.1)}


@pytest.fixture(params=PRICES)
def results(request):
    rng = np.random.default_rng(1)
    data = dpi.PublicData(SCHEMA.sample(2000, rng), SCHEMA, rng=rng)
    return dpi.marginals(dpi.workload(["a", "b", "c"]), data).fit(PRICES[request.param])


def test_margins_of_all_marginals_agree_and_are_unbiased(results):
    margins = [
        results.marginal("b"),
        results.marginal(["a", "b"]).margin("b"),
        results.marginal(["b", "c"]).margin("b"),
    ]
    for one in margins[1:]:
        np.testing.assert_allclose(one.params, margins[0].params)
        np.testing.assert_allclose(one.bse, margins[0].bse)
    table = results.table(["a", "b"])
    assert table.shape == (2, 3)
    np.testing.assert_allclose(table.sum(axis=0), margins[0].params)
    pd.testing.assert_frame_equal(results.table(["b", "a"]), table.T)


def test_a_sum_of_cells_has_the_error_of_the_margin(results):
    pair, margin = results.marginal(["a", "b"]), results.marginal("b")
    test = pair.t_test("count[a=False, b=x] + count[a=True, b=x] = 0")
    assert test.effect.item() == pytest.approx(margin.params.iloc[0])
    assert test.sd.item() == pytest.approx(margin.bse.iloc[0], rel=1e-6)
    ends = test.conf_int()[0]
    np.testing.assert_allclose(ends, margin.conf_int().iloc[0], rtol=2e-3)
    assert pair.wald_test("count[a=False, b=x] = count[a=True, b=x]", scalar=True).pvalue > 0


def test_shares_add_up_and_their_errors_are_related(results):
    shares = results.proportions("b", by="a")
    np.testing.assert_allclose(shares.params.to_numpy().reshape(2, 3).sum(axis=1), 1.0, atol=0.01)
    names = list(shares.params.index)
    apart = shares.t_test(f"{names[0]} = {names[3]}")
    covariance = shares.cov_params().to_numpy()
    both = covariance[0, 0] + covariance[3, 3] - 2 * covariance[0, 3]
    assert apart.sd.item() == pytest.approx(both**0.5)
    assert covariance[0, 3] != 0
    assert results.proportions("a").params.index.tolist() == ["a"]
    narrow = results.proportions("b", target="data")
    assert (narrow.bse < results.proportions("b").bse).all()


def test_a_ratio_whose_denominator_noise_hides_is_infinite_and_so_are_its_errors():
    rows = pd.DataFrame({"a": ["x"] * 30 + ["y"] * 20, "b": [0, 1] * 25})
    schema, seen = dpi.Schema(a=dpi.Category(["x", "y"]), b=dpi.Integer(0, 1)), set()
    for seed in range(20):
        data = dpi.PublicData(rows, schema, rng=np.random.default_rng(seed))
        found = dpi.marginals([["a", "b"]], data).fit(dpi.ZCDP(1e-4)).ratio({"a": "x"}, {"a": "y"})
        assert np.isinf(found["0.975]"]) or np.isfinite(found["ratio"])
        assert np.isinf(found["ratio"]) == np.isinf(found["std err"]) == np.isinf(found["std err (noise)"])
        assert not found.isna().any()
        seen.add(bool(np.isinf(found["ratio"])))
    assert seen == {True, False}


def test_ratios_are_odds_of_shares(results):
    found = results.ratio({"b": "x"}, {"b": "y"})
    counts = results.marginal("b").params
    assert found["ratio"] == pytest.approx(counts.iloc[0] / counts.iloc[1])
    assert found["[0.025"] < found["ratio"] < found["0.975]"]
    assert found["std err"] ** 2 == pytest.approx(found["std err (sampling)"] ** 2 + found["std err (noise)"] ** 2)
    other = results.ratio({"b": "y"}, {"b": "x"})
    assert other["0.975]"] == pytest.approx(1 / found["[0.025"], rel=1e-4)
    wide = results.ratio({"b": "x", "a": True}, {"b": "y"}, alpha=0.01, target="data")
    assert wide["std err (sampling)"] == 0
    with pytest.raises(OptionError, match="a level of b"):
        results.ratio({"b": "w"}, {"b": "y"})
    with pytest.raises(OptionError, match="cells other than"):
        results.ratio({"b": "x"}, {"a": True})
    with pytest.raises(MissingFromReleaseError):
        results.ratio({"b": "x"}, {"d": 1})


def test_a_ratio_whose_denominator_noise_hides_is_unbounded():
    rng = np.random.default_rng(1)
    data = dpi.PublicData(SCHEMA.sample(20, rng), SCHEMA, rng=rng)
    found = dpi.marginals([["a", "b"]], data).fit(dpi.ZCDP(0.0001)).ratio({"b": "x"}, {"b": "y"})
    assert found["0.975]"] == np.inf
    assert found["[0.025"] == 0


def test_the_frame_has_every_cell_of_every_marginal(results):
    frame = results.summary_frame()
    assert len(frame) == 2 * 3 + 2 * 4 + 3 * 4
    assert frame.index.names == ["marginal", "cell"]
    pair = results.marginal(["b", "c"])
    np.testing.assert_allclose(frame.loc["b x c", "count"], pair.params)
    np.testing.assert_allclose(frame.loc["b x c", "std err"], pair.bse, rtol=1e-6)
    np.testing.assert_allclose(frame.loc["b x c", "0.975]"], pair.conf_int()[1], rtol=1e-6)
    assert (frame["noise share"] == 1).all()
    assert list(results.conf_int().columns) == [0, 1]


def test_simultaneous_intervals_are_wider_and_hold_together():
    rng = np.random.default_rng(3)
    frame = SCHEMA.sample(2000, rng)
    exact = pd.crosstab(frame["a"], frame["b"]).to_numpy().ravel()
    missed = 0
    for _ in range(60):
        data = dpi.PublicData(frame, SCHEMA, rng=rng)
        found = dpi.marginals([["a", "b"]], data).fit(dpi.ZCDP(0.05))
        ends = found.conf_int(simultaneous=True)
        plain = found.conf_int()
        assert (ends[1] - ends[0] >= plain[1] - plain[0]).all()
        inside = (ends[0].to_numpy() <= exact) & (exact <= ends[1].to_numpy())
        missed += not inside.all()
    assert missed <= 14  # of 60 at 5%: more with a probability of 1e-6
    wide = found.summary_frame(simultaneous=True)
    other = dpi.marginals([["a", "b"]], found.release, target="population").infer().summary_frame(simultaneous=True)
    assert (other["0.975]"] > wide["0.975]"]).all()
    with pytest.raises(OptionError, match="simultaneous"):
        found.summary_frame(simultaneous="yes")


def test_display_is_not_negative_and_inference_is_unbiased():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(SCHEMA.sample(30, rng))
    frame["b"] = "x"
    found = dpi.marginals([["a", "b"], ["b", "c"]], dpi.PublicData(frame, SCHEMA, rng=rng)).fit(dpi.ZCDP(0.01))
    raw, shown = found.table(["b", "c"]), found.table(["b", "c"], non_negative=True)
    assert (raw.to_numpy() < 0).any()
    assert (shown.to_numpy() >= 0).all()
    np.testing.assert_allclose(shown.sum(axis=1), found.table(["a", "b"], non_negative=True).sum(axis=0), atol=0.05)
    pair = found.marginal(["b", "c"])
    np.testing.assert_allclose(pair.params, raw.to_numpy().ravel())
    assert (pair.conf_int().to_numpy() >= 0).all()
    assert any("boundary of the parameter space" in flag for flag in pair.flags)
    with pytest.raises(OptionError, match="non_negative"):
        found.table("b", non_negative=1)


def test_it_is_shown(results):
    text = str(results.summary())
    assert "Marginals:" in text
    assert "a x b: False, x" in text
    assert "noise" in text
    assert results.plot().get_yticklabels()[0].get_text() == "a x b"
    assert results.plot(["a", "b"]).get_title()
    assert "3 marginals" in repr(results)
    again = dpi.Release.from_json(results.release.to_json()).infer(target="population")
    assert again.target == "population"
    assert again.plot().get_legend() is not None


def test_too_many_cells_have_no_matrix_of_covariances():
    schema = dpi.Schema({f"c{i}": dpi.Integer(0, 15) for i in range(3)})
    rng = np.random.default_rng(1)
    found = dpi.marginals([list(schema)], dpi.PublicData(schema.sample(500, rng), schema, rng=rng)).fit(dpi.ZCDP(1.0))
    with pytest.raises(OptionError, match=r"at most 4,000 cells.*summary_frame"):
        found.marginal(list(schema))
    assert len(found.summary_frame()) == 16**3
    assert len(found.marginal(["c0", "c1"]).params) == 256

"""Least squares by iterations: what it estimates, and that nothing released can break it."""

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression.question import Newton
from validation.regression.newton_draws import Drawer

LEVELS = ["a", "b", "c", "d"]
SCHEMA = dpi.Schema(x=dpi.Real(-1, 1), k=dpi.Integer(0, 50), g=dpi.Category(LEVELS), y=dpi.Real(-8, 8))


def drawer(formula="y ~ x", price=None, neighbors="add_remove", schema=SCHEMA, model="ols"):
    return Drawer(Newton(formula=formula, model=model), Context(schema, neighbors, price or dpi.ZCDP(0.5)))


def rows(n=4000, seed=1, few=None, rare="d"):
    rng = np.random.default_rng(seed)
    g = np.array(LEVELS, dtype=object)[rng.integers(0, 4, n)]
    if few is not None:
        others = np.array([one for one in LEVELS if one != rare], dtype=object)
        g = np.where(np.arange(n) < few, rare, others[rng.integers(0, 3, n)])
    x = rng.uniform(-1, 1, n)
    mean = 0.5 + x + 0.3 * (g == "b")
    return {"x": x, "k": rng.poisson(2, n), "g": g, "y": np.clip(mean + rng.normal(size=n), -8, 8)}, rng


def checked(found):
    """Ends of all intervals; nothing may be NaN, and estimates are finite."""
    eye = np.eye(len(found.names))
    ends = found.intervals(eye, 0.05)
    assert np.isfinite(found.params).all()
    assert not np.isnan(ends).any()
    assert (ends[:, 0] < ends[:, 1]).all()
    assert not np.isnan(found.contrast_pvalues(eye, np.zeros(len(eye)))).any()
    return ends


@pytest.mark.parametrize("price", [dpi.ZCDP(0.5), dpi.GDP(1.0), dpi.ApproxDP(2.0, 1e-6), dpi.PureDP(4.0)], ids=str)
def test_estimates_are_near_the_truth_at_every_price(price):
    cells, rng = rows()
    found = drawer("y ~ x", price).estimate(cells, rng)
    ends = checked(found)
    assert ((ends[:, 0] - 0.05 < [0.575, 1.0]) & (ends[:, 1] + 0.05 > [0.575, 1.0])).all()
    assert (ends[:, 1] - ends[:, 0] < 0.6).all()


def test_a_regressor_squared_costs_no_more_than_one_in_public_coordinates():
    schema = dpi.Schema(x=dpi.Real(0, 60), y=dpi.Real(-8, 8))
    shares = []
    for formula in ("y ~ x + I(x**2)", "y ~ I((x - 30) / 30) + I(((x - 30) / 30)**2)"):
        asked, mine = drawer(formula, schema=schema), []
        for seed in range(20):
            rng = np.random.default_rng(seed)
            x = rng.uniform(0, 60, 4000)
            found = asked.estimate({"x": x, "y": np.sin(x / 20) + rng.normal(size=4000)}, rng)
            mine.append(found.cov_noise[2, 2] / (found.cov_noise + found.cov_sampling)[2, 2])
        shares.append(np.median(mine))
    assert shares[0] == pytest.approx(shares[1], rel=0.05)


@pytest.mark.parametrize("model", ["ols", "logit"])
@pytest.mark.parametrize("few", [0, 3])
def test_a_rare_level_leaves_the_other_coefficients_as_they_are(model, few):
    cells, rng = rows(few=few)
    if model == "logit":
        cells["y"] = (cells["y"] > 0.5).astype(float)
        schema = dpi.Schema(**{name: SCHEMA[name] for name in ("x", "g")}, y=dpi.Boolean())
        cells = {name: cells[name] for name in ("x", "g", "y")}
    else:
        schema = SCHEMA
    others = dpi.Schema(**{name: schema[name] for name in schema if name != "g"}, g=dpi.Category(LEVELS[:3]))
    common = {name: values[few:] for name, values in cells.items()}
    ratios = []
    for _ in range(7):
        found = drawer("y ~ x + C(g)", schema=schema, model=model).estimate(cells, rng)
        without = drawer("y ~ x + C(g)", schema=others, model=model).estimate(common, rng)
        widths, usual = np.ptp(checked(found), axis=1), np.ptp(checked(without), axis=1)
        assert widths[found.names.index("C(g)[T.d]")] > 5 * usual.max()
        ratios.append([widths[found.names.index(name)] / usual[place] for place, name in enumerate(without.names)])
    assert (np.median(ratios, axis=0) < 1.3).all()


def test_without_rows_at_the_reference_differences_of_the_others_have_intervals():
    cells, rng = rows(few=0, rare="a")
    found = drawer("y ~ x + C(g)").estimate(cells, rng)
    widths = np.ptp(checked(found), axis=1)
    contrasts = np.array([[0, 0, 1, -1, 0], [1, 0, 1, 0, 0.0]])  # b less c, and the mean at b
    ends = found.intervals(contrasts, 0.05)
    assert (np.ptp(ends, axis=1) < 0.5).all()
    assert widths[1] < 0.5
    assert (widths[[0, 2, 3, 4]] > 2).all()
    assert ((ends[:, 0] - 0.1 < [0.3, 0.8]) & (ends[:, 1] + 0.1 > [0.3, 0.8])).all()


def test_interactions_with_an_empty_level_are_wide_with_it():
    cells, rng = rows(few=0)
    found = drawer("y ~ x * C(g)").estimate(cells, rng)
    widths = dict(zip(found.names, np.ptp(checked(found), axis=1), strict=True))
    assert max(width for name, width in widths.items() if "T.d" not in name) < 1
    assert min(width for name, width in widths.items() if "T.d" in name) > 2


def test_a_rare_treatment_blows_up_nothing():
    schema = dpi.Schema(d=dpi.Real(-1, 1), y=dpi.Real(-10, 10))
    rng = np.random.default_rng(3)
    asked, found = drawer("y ~ d", dpi.ZCDP(0.1), schema=schema), []
    for _ in range(25):
        d = np.where(rng.random(10_000) < 0.1, 1.0, -1.0)
        found.append(asked.estimate({"d": d, "y": (rng.random(10_000) < 0.3 + 0.1 * d).astype(float)}, rng))
    assert max(np.abs(one.params[1] - 0.1) for one in found) < 0.05


def test_results_go_back_to_the_inference_of_their_own_choice():
    frame = SCHEMA.sample(500, np.random.default_rng(2))
    results = dpi.ols("y ~ x", dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(3))).fit(dpi.ZCDP(0.5))
    back = results.with_inference("score").with_inference("auto")
    assert back.conf_int().equals(results.conf_int())
    assert back.inference.method == results.inference.method

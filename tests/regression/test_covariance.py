"""Least squares by iterations with errors that spread equally: what it releases instead, pays, and assumes."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import dpinfer as dpi
from dpinfer.errors import NotProvedError, OptionError, ReleaseFormatError
from dpinfer.kernel.stage import Context
from dpinfer.regression import inference
from dpinfer.regression.question import Newton
from dpinfer.studies import Rules
from validation.regression.newton_draws import Drawer

SCHEMA = dpi.Schema(a=dpi.Real(-4, 4), c=dpi.Boolean(), y=dpi.Real(-12, 12))
TRUTH = np.array([0.5, 1.0, 0.3])


def rows(rng, n):
    a, c = rng.normal(size=n).clip(-4, 4), rng.random(n) < 0.4
    return {"a": a, "c": c, "y": np.clip(TRUTH[0] + TRUTH[1] * a + TRUTH[2] * c + rng.normal(size=n), -12, 12)}


def public(n=20_000, schema=SCHEMA, **options):
    rng = np.random.default_rng(1)
    return dpi.PublicData(pd.DataFrame(rows(rng, n)), schema, rng=rng, **options)


def test_with_little_noise_standard_errors_are_those_of_least_squares():
    data = public()
    found = dpi.ols("y ~ a + c", data, cov_type="nonrobust").fit(dpi.ZCDP(1e6))
    frame = pd.DataFrame(rows(np.random.default_rng(1), 20_000))
    ordinary = sm.OLS(frame["y"], sm.add_constant(frame[["a", "c"]].astype(float))).fit()
    np.testing.assert_allclose(found.params, ordinary.params, atol=2e-3)
    np.testing.assert_allclose(found.bse, ordinary.bse, rtol=0.01)


def test_the_kind_of_covariance_is_stored_and_decides_what_a_release_serves():
    release = dpi.ols("y ~ a", public(2000), cov_type="nonrobust").measure(dpi.ZCDP(0.5))
    again = dpi.Release.from_json(release.to_json())
    assert again.question["cov_type"] == "nonrobust"
    pd.testing.assert_series_equal(again.infer().bse, release.infer().bse)
    with pytest.raises(dpi.errors.InferenceError):
        dpi.ols("y ~ a", release).infer()
    damaged = release.to_json().replace('"cov_type": "nonrobust"', '"cov_type": "HC1"')
    assert damaged != release.to_json()
    with pytest.raises(ReleaseFormatError):
        dpi.Release.from_json(damaged).infer()


def test_where_it_makes_no_sense_it_is_refused_by_name():
    with pytest.raises(OptionError, match="cov_type"):
        dpi.ols("y ~ a", cov_type="HC3")
    with pytest.raises(OptionError, match="cross-products"):
        dpi.ols("y ~ a", method="gram", cov_type="HC1")
    dpi.ols("y ~ a", method="gram", cov_type="nonrobust")
    with pytest.raises(NotProvedError, match="weights="):
        dpi.ols("y ~ a", weights="c", cov_type="nonrobust")
    with pytest.raises(NotProvedError, match="logit"):
        Newton(formula="c ~ a", model="logit", cov_type="nonrobust")
    frame = pd.DataFrame(rows(np.random.default_rng(1), 100))
    people = dpi.PublicData(
        frame.assign(id=np.arange(100) // 2), SCHEMA, rng=np.random.default_rng(1), id="id", max_rows=2
    )
    with pytest.raises(NotProvedError, match="clusters by person"):
        dpi.ols("y ~ a", people, cov_type="nonrobust")


@pytest.mark.slow
@pytest.mark.parametrize(("n", "price"), [(2000, dpi.ZCDP(0.5)), (2000, dpi.ZCDP(0.05))], ids=str)
def test_intervals_cover_with_normal_errors(n, price):
    """Each coefficient by itself falls below the rule's least coverage with a chance of 1e-4 if it covers 95%."""
    question = Newton(formula="y ~ a + c", model="ols", cov_type="nonrobust")
    drawer, rng, replicates = Drawer(question, Context(SCHEMA, "add_remove", price)), np.random.default_rng(7), 400
    ends = np.array([drawer.estimate(rows(rng, n), rng).intervals(np.eye(3), 0.05) for _ in range(replicates)])
    covered = ((ends[..., 0] <= TRUTH) & (ends[..., 1] >= TRUTH)).mean(axis=0)
    assert (covered >= Rules().least_coverage(replicates, 0.95)).all()


def test_what_clipping_takes_in_the_direction_of_a_rare_level_is_restored_there():
    """Exponential errors, a reference level of 1% of rows; without that .80. The median of 30 varies by .03."""
    schema = dpi.Schema(x=dpi.Real(-4, 4), g=dpi.Category(["a", "b", "c"]), y=dpi.Real(-10, 20))
    rng, ratios = np.random.default_rng(7), []
    question = dpi.ols("y ~ x + C(g)", dpi.PublicData(schema.sample(10, rng), schema, rng=rng))
    context = Context(schema, "add_remove", dpi.ZCDP(0.5), public=True)
    drawer = Drawer(question.resolve(context), context)
    for _ in range(30):
        x = rng.normal(size=20_000).clip(-4, 4)
        level = rng.choice(3, size=20_000, p=[0.01, 0.5, 0.49])
        y = np.clip(x + 0.3 * level + rng.exponential(size=20_000), -10, 20)
        found = drawer.estimate({"x": x, "g": np.array(["a", "b", "c"])[level], "y": y}, rng)
        plain = sm.OLS(y, np.column_stack([np.ones_like(x), x, level == 1, level == 2])).fit(cov_type="HC1")
        ratios.append(np.sqrt(found.cov_sampling[0, 0]) / plain.bse[0])
    assert 0.88 < np.median(ratios) < 1.15


def test_products_of_people_are_not_filled(monkeypatch):
    """Rows of a person are alike: within people products fall short of the Hessian's without any clipping."""
    seen = []
    monkeypatch.setattr(inference, "_filled", lambda products, even, clipped, noise: seen.append(clipped) or products)
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(rows(rng, 5000)).assign(person=np.arange(5000) // 5)
    dpi.ols("y ~ a", dpi.PublicData(frame[["a", "c", "y"]], SCHEMA, rng=rng)).fit(dpi.ZCDP(0.5))
    dpi.ols("y ~ a", dpi.PublicData(frame, SCHEMA, rng=rng, id="person", max_rows=5)).fit(dpi.ZCDP(0.5))
    assert [one > 0 for one in seen] == [True, False]


@pytest.mark.parametrize("clipped", [0.0, 3.0, 100.0])
def test_products_are_filled_up_to_what_was_clipped_where_noise_does_not_explain_it(clipped):
    products, even = np.diag([2.0, 9.0, 10.0, 11.0]), np.eye(4)
    noise = 1.0
    found = inference._filled(products, even, clipped, noise)
    added = found - products
    equal = np.trace(products) / 4
    assert np.linalg.eigvalsh(added).min() >= 0
    assert np.trace(added) == pytest.approx(min(clipped, equal - 2.0))
    np.testing.assert_allclose(np.diag(added)[1:], 0.0)
    np.testing.assert_allclose(inference._filled(products, even, clipped, 2 * noise), products)

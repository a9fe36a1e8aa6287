"""Results of exponential families: maximum likelihood without noise, natural parameters, storage, what is shown."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import dpinfer as dpi
from dpinfer.errors import InferenceError, OptionError, ReleaseFormatError
from dpinfer.privacy.units import NEIGHBORS
from tests.asking import assert_damage_is_refused

CONSTANT = {"missing": 1, "impossible": 1}
SCHEMA = dpi.Schema(
    truth=dpi.Boolean(missing=False, impossible=False),
    successes=dpi.Integer(0, 12, **CONSTANT),
    count=dpi.Integer(0, 60, **CONSTANT),
    wait=dpi.Real(0, 400, **CONSTANT),
    size=dpi.Real(1e-3, 200, **CONSTANT),
    x=dpi.Real(-20, 20, **CONSTANT),
    y=dpi.Real(-20, 20, **CONSTANT),
    share=dpi.Real(1e-4, 1 - 1e-4, missing=0.5, impossible=0.5),
    g=dpi.Category(["a", "b", "c"], missing="a", impossible="a"),
)
QUIET = dpi.ZCDP(1e12)
"""A price at which noise is hardly there; what remains is the grid."""
NOISY = dpi.ZCDP(0.5)
OWN_ARGUMENTS = {
    "name": "mine",
    "parameters": {"shape": (0, np.inf), "scale": (0, np.inf)},
    "statistics": ("x", "log(x)"),
    "log_density": lambda x, shape, scale: (shape - 1) * np.log(x) - x / scale,
    "support": (0, np.inf),
}
OWN = dpi.Family(**OWN_ARGUMENTS)


def with_values(release, values):
    (stage,) = release.stages
    return dataclasses.replace(release, stages=(dataclasses.replace(stage, values=values),))


def sample(rows=600, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.normal(1, 2, rows)
    return pd.DataFrame(
        {
            "truth": rng.random(rows) < 0.3,
            "successes": rng.binomial(12, 0.4, rows),
            "count": rng.poisson(4, rows),
            "wait": rng.exponential(9, rows),
            "size": rng.gamma(2.5, 3, rows),
            "x": x,
            "y": 2 - 0.5 * x + rng.normal(0, 1.5, rows),
            "share": rng.beta(2, 3, rows),
            "g": rng.choice(["a", "b", "c"], rows, p=[0.5, 0.3, 0.2]),
        }
    )


FRAME = sample()


def fit(model, price=NOISY, frame=FRAME, neighbors="add_remove", seed=2):
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(seed), neighbors=neighbors)
    return model.bind(data).fit(price)


# Without noise


def gamma_fit(x):
    shape, _, scale = stats.gamma.fit(x, floc=0)
    return shape, scale


LIKELIHOOD = {
    "bernoulli": (dpi.expfam("truth", family="bernoulli"), lambda f: (f["truth"].mean(),)),
    "binomial": (dpi.expfam("successes", family=dpi.Binomial(12)), lambda f: (f["successes"].mean() / 12,)),
    "poisson": (dpi.expfam("count", family="poisson"), lambda f: (f["count"].mean(),)),
    "geometric": (dpi.expfam("count", family="geometric"), lambda f: (1 / (1 + f["count"].mean()),)),
    "exponential": (dpi.expfam("wait", family="exponential"), lambda f: (f["wait"].mean(),)),
    "gamma": (dpi.expfam("size", family="gamma"), lambda f: gamma_fit(f["size"])),
    "own": (dpi.expfam("size", family=OWN), lambda f: gamma_fit(f["size"])),
    "normal": (dpi.expfam("x", family="normal"), lambda f: (f["x"].mean(), f["x"].std(ddof=0))),
    "lognormal": (dpi.expfam("size", family="lognormal"), lambda f: stats.norm.fit(np.log(f["size"]))),
    "beta": (dpi.expfam("share", family="beta"), lambda f: stats.beta.fit(f["share"], floc=0, fscale=1)[:2]),
    "categorical": (
        dpi.expfam("g", family="categorical"),
        lambda f: f["g"].value_counts(normalize=True)[["a", "b", "c"]],
    ),
    "normals": (
        dpi.expfam(["x", "y"]),
        lambda f: (*f[["x", "y"]].mean(), *f[["x", "y"]].std(ddof=0), f["x"].corr(f["y"])),
    ),
}


@pytest.mark.parametrize("kind", LIKELIHOOD)
def test_without_noise_and_clamping_estimates_are_maximum_likelihood(kind):
    model, likelihood = LIKELIHOOD[kind]
    neighbors = NEIGHBORS[list(LIKELIHOOD).index(kind) % 2]
    results = fit(model, QUIET, neighbors=neighbors)
    np.testing.assert_allclose(results.params, likelihood(FRAME), rtol=1e-3, atol=1e-4)
    assert results.flags == ()
    assert results.nobs == pytest.approx(600, abs=1e-3)
    assert (results.noise_share < 1e-3).all()


def test_standard_errors_are_those_of_fishers_information():
    results = fit(LIKELIHOOD["gamma"][0], QUIET)
    shape, scale = results.params
    information = np.array([[special.polygamma(1, shape), 1 / scale], [1 / scale, shape / scale**2]]) * 600
    np.testing.assert_allclose(results.cov_params(), np.linalg.inv(information), rtol=5e-3)
    normal = fit(LIKELIHOOD["normal"][0], QUIET)
    sd = normal.params["sd"]
    np.testing.assert_allclose(normal.bse, [sd / 600**0.5, sd / 1200**0.5], rtol=5e-3)
    rate = fit(LIKELIHOOD["poisson"][0], QUIET)
    np.testing.assert_allclose(rate.bse, np.sqrt(rate.params / 600), rtol=5e-3)
    ordinary = stats.t.interval(0.95, 599, normal.params["mean"], normal.bse["mean"])
    np.testing.assert_allclose(normal.conf_int().loc["mean"], ordinary, rtol=2e-3)


@pytest.mark.parametrize("price", [QUIET, dpi.ZCDP(0.1), dpi.PureDP(1.0)], ids=str)
@pytest.mark.parametrize(
    ("model", "bounds", "truth", "draw"),
    [
        (dpi.expfam("v", family="normal"), (-0.5, 2.0), (1.0, 1.2), lambda rng, n: rng.normal(1.0, 1.2, n)),
        (dpi.expfam("v", family="exponential"), (0, 6), (5.0,), lambda rng, n: rng.exponential(5.0, n)),
        (dpi.expfam("v", family="gamma"), (1, 6), (2.0, 2.0), lambda rng, n: rng.gamma(2.0, 2.0, n)),
        (dpi.expfam("v", family="beta"), (0.2, 0.7), (2.0, 2.0), lambda rng, n: rng.beta(2.0, 2.0, n)),
        (dpi.expfam("v", family=OWN), (1, 6), (2.0, 2.0), lambda rng, n: rng.gamma(2.0, 2.0, n)),
    ],
)
def test_bounds_that_clamp_a_third_cost_no_bias(model, bounds, truth, draw, price):
    """Estimates within five standard errors of the truth: false alarm below 2e-6 a case."""
    values, truth = draw(np.random.default_rng(5), 60_000), np.array(truth)
    assert 0.2 < ((values < bounds[0]) | (values > bounds[1])).mean() < 0.45
    schema = dpi.Schema(v=dpi.Real(*bounds))
    data = dpi.PublicData(pd.DataFrame({"v": values}), schema, rng=np.random.default_rng(3))
    results = model.bind(data).fit(price)
    assert ((results.params - truth).abs() < 5 * results.bse).all()
    assert (results.bse < 0.1 * truth).all()
    assert (results.params - truth).abs().max() < 0.3
    clamped = np.clip(values, *bounds)
    if model.family.name == "normal":
        assert abs(clamped.std() - truth[1]) > 0.3
    assert results.flags == ()


def test_a_condition_keeps_some_rows_and_is_told():
    results = fit(dpi.expfam("x", family="normal", where="count >= 4 and truth"), QUIET)
    kept = FRAME[(FRAME["count"] >= 4) & FRAME["truth"]]
    np.testing.assert_allclose(results.params, (kept["x"].mean(), kept["x"].std(ddof=0)), rtol=1e-3)
    assert results.nobs == pytest.approx(len(kept), abs=1e-3)
    assert "Rows: count >= 4 and truth." in results.notes
    several = fit(dpi.expfam(["x", "y"], where="truth"), QUIET)
    np.testing.assert_allclose(several.params[:2], FRAME.loc[FRAME["truth"], ["x", "y"]].mean(), rtol=1e-3, atol=1e-3)
    assert "Rows: truth." in several.notes


def test_the_target_data_has_no_sampling_error():
    for model in (dpi.expfam("x", family="normal", target="data"), dpi.expfam(["x", "y"], target="data")):
        results = fit(model)
        assert (results.bse_sampling == 0).all()
        assert (results.bse < fit(dataclasses.replace(model, target="population")).bse).all()
        np.testing.assert_allclose(results.noise_share, 1)


# Natural parameters


@pytest.mark.parametrize(
    ("kind", "natural", "slope"),
    [
        ("bernoulli", lambda p: [np.log(p / (1 - p))], lambda p: [[1 / (p * (1 - p))]]),
        ("binomial", lambda p: [np.log(p / (1 - p))], lambda p: [[1 / (p * (1 - p))]]),
        ("poisson", lambda rate: [np.log(rate)], lambda rate: [[1 / rate]]),
        ("geometric", lambda p: [np.log(1 - p)], lambda p: [[-1 / (1 - p)]]),
        ("exponential", lambda mean: [-1 / mean], lambda mean: [[mean**-2]]),
        ("gamma", lambda a, s: [-1 / s, a - 1], lambda a, s: [[0, s**-2], [1, 0]]),
        ("normal", lambda m, s: [m / s**2, -0.5 / s**2], lambda m, s: [[s**-2, -2 * m / s**3], [0, s**-3]]),
        ("lognormal", lambda m, s: [m / s**2, -0.5 / s**2], lambda m, s: [[s**-2, -2 * m / s**3], [0, s**-3]]),
        ("beta", lambda a, b: [a - 1, b - 1], lambda a, b: [[1, 0], [0, 1]]),
        (
            "categorical",
            lambda a, b, c: [np.log(b / a), np.log(c / a)],
            lambda a, b, c: [[-1 / a, 1 / b, 0], [-1 / a, 0, 1 / c]],
        ),
    ],
)
def test_natural_parameters_have_their_closed_form_and_delta_method(kind, natural, slope):
    results = fit(LIKELIHOOD[kind][0])
    found, theta = results.natural_params(), results.params.to_numpy()
    jacobian = np.array(slope(*theta), dtype=float)
    error = np.sqrt(np.diag(jacobian @ results.cov_params().to_numpy() @ jacobian.T))
    np.testing.assert_allclose(found["estimate"], natural(*theta), rtol=1e-9)
    np.testing.assert_allclose(found["std err"], error, rtol=1e-5)
    assert found.columns.tolist() == ["estimate", "std err"]
    assert found.index.is_unique


def test_natural_parameters_that_are_not_known_are_refused():
    with pytest.raises(InferenceError, match="mine"):
        fit(LIKELIHOOD["own"][0]).natural_params()
    alone = fit(LIKELIHOOD["categorical"][0], QUIET, frame=FRAME.assign(g="a"))
    with pytest.raises(InferenceError, match="0 or 1"):
        with_values(
            alone.release, tuple(-abs(v) if place else v for place, v in enumerate(alone.release.values))
        ).infer().natural_params()


# Inference


def test_at_the_edge_every_interval_holds_the_estimate_and_is_open():
    frame = FRAME.assign(size=200.0)
    for seed in range(4):
        results = fit(LIKELIHOOD["gamma"][0], NOISY, frame, seed=seed)
        if not any("boundary" in flag for flag in results.flags):
            continue
        for method in ("score", "simulated", "wald"):
            ends = results.with_inference(method).conf_int()
            found = results.inference.fit.params[0]  # also of what the results call not determined
            assert (ends[0] <= found * (1 + 1e-9)).all()
            assert (found * (1 - 1e-9) <= ends[1]).all()
        missing = results.params.isna()
        assert missing.any() == any("not determined" in flag for flag in results.flags)
        simulated = results.with_inference("simulated")
        assert simulated.conf_int().equals(results.conf_int())
        assert simulated.pvalues.equals(results.pvalues)
        return
    pytest.fail("no seed led to the edge")


# Storage


def test_a_family_of_ones_own_is_needed_again_after_a_file():
    results = fit(LIKELIHOOD["own"][0])
    read = dpi.Release.from_json(results.release.to_json())
    with pytest.raises(InferenceError, match=r"'mine'.*family=Family"):
        read.infer()
    with pytest.raises(InferenceError, match=r"another question .mine family of size"):
        read.infer(family=dpi.Family(**OWN_ARGUMENTS | {"statistics": ("log(x)", "x")}))
    for again in (read.infer(family=dpi.Family(**OWN_ARGUMENTS)), LIKELIHOOD["own"][0].infer(read)):
        pd.testing.assert_frame_equal(again.summary_frame(), results.summary_frame())
    built_in = fit(LIKELIHOOD["gamma"][0], QUIET)
    np.testing.assert_allclose(fit(LIKELIHOOD["own"][0], QUIET).bse, built_in.bse, rtol=1e-3)


def test_a_built_in_family_may_be_given_again_but_not_another():
    release = fit(LIKELIHOOD["gamma"][0]).release
    family = LIKELIHOOD["gamma"][0].family
    assert release.infer(family=family).params.equals(release.infer().params)
    for other in ("normal", "lognormal"):
        with pytest.raises(InferenceError, match=r"another question .gamma family of size"):
            release.infer(family=dpi.expfam("size", family=other).family)


@pytest.fixture(scope="module")
def whole():
    return fit(LIKELIHOOD["gamma"][0]).release


@pytest.fixture(scope="module")
def several():
    return fit(LIKELIHOOD["normals"][0]).release


OTHER_FAMILIES = [{"name": name} for name in ("normal", "poisson", "cauchy", "binomial")]
OTHER_FAMILIES += [{"name": "binomial", "trials": "many"}, {"name": "mine", "own": True}]
OTHER_FAMILIES += [{"name": "mine", "own": True, "parameters": [1]}, {}, "gamma"]
WORSE = {"column": ["x", "nope", ["size"]], "family": OTHER_FAMILIES, "where": [3, "x >", "1 == 1", "nope > 1"]}
WORSE |= {"replicates": ["many", 3], "seed": [-1], "inference": ["bayes"], "target": [7]}


def test_a_damaged_question_is_refused(whole, several):
    assert_damage_is_refused(whole, WORSE, "release")
    worse = {"columns": [["x"], ["y", "x"], ["x", "nope"]], "inference": [], "replicates": [98]}
    assert_damage_is_refused(several, worse, "release")


def test_a_release_of_something_else_is_refused(whole, several):
    for model, release in (
        (dpi.expfam("size", family="gamma"), several),
        (dpi.expfam("x", family="gamma"), whole),
        (dpi.expfam("size", family="gamma", where="x > 0"), whole),
        (dpi.expfam(["x", "y"]), whole),
        (dpi.expfam(["y", "x"]), several),
    ):
        with pytest.raises(InferenceError, match="another question"):
            model.infer(release)
    with pytest.raises(InferenceError, match="gamma family of size"):
        dpi.expfam("size", family="lognormal").infer(whole)
    for release in (whole, several):
        for option in ("target", "inference"):
            with pytest.raises(OptionError, match=option):
                release.infer(**{option: "bayes"})


def test_a_release_of_too_few_sums_is_refused(whole):
    (stage,) = whole.stages
    law = dataclasses.replace(stage.law, scales=stage.law.scales[:2])
    fewer = {name: getattr(stage, name)[:2] for name in ("names", "values", "steps")}
    short = dataclasses.replace(whole, stages=(dataclasses.replace(stage, law=law, **fewer),))
    for infer in (short.infer, lambda: LIKELIHOOD["gamma"][0].infer(short)):
        with pytest.raises(ReleaseFormatError, match="not those that its question asks for"):
            infer()


# What is shown


def test_tables_and_figures_show_the_estimates():
    results = fit(LIKELIHOOD["lognormal"][0], dpi.PureDP(1.0))
    text = str(results.summary())
    for said in ("Private lognormal family of size", "meanlog", "sdlog", "1-DP", "add_remove"):
        assert said in text
    assert "clamped to [0.001, 200]" in text
    assert "meanlog" in results.summary().as_html()
    assert repr(results) == "<FamilyResults: Private lognormal family of size, 2 estimates>"
    frame = results.summary_frame(alpha=0.1)
    assert frame.columns.tolist()[:1] == ["estimate"]
    np.testing.assert_allclose(frame["std err"] ** 2, frame["std err (sampling)"] ** 2 + frame["std err (noise)"] ** 2)
    assert results.plot().get_xlabel() == "estimate of size"
    assert 0 <= results.wald_test("meanlog = 1.5, sdlog = 1").pvalue <= 1
    several = fit(LIKELIHOOD["normals"][0])
    assert several.params.index.tolist() == ["mean(x)", "mean(y)", "sd(x)", "sd(y)", "corr(x, y)"]
    assert "Private multivariate normal of x, y" in str(several.summary())
    assert "x to [-20, 20]" in several.notes[0]


def test_noise_that_dominates_is_said_and_leaves_open_intervals():
    for kind in ("normal", "exponential", "normals"):
        results = fit(LIKELIHOOD[kind][0], dpi.ZCDP(1e-6))
        assert results.flags
        assert results.flags[0].split()[0] in str(results.summary())
        ends = results.conf_int()
        assert np.isinf(ends.to_numpy()).any()
        truth = np.array(LIKELIHOOD[kind][1](FRAME))
        assert ((ends[0] <= truth) & (truth <= ends[1])).all()

import json

import numpy as np
import pytest
from scipy import stats

from dpinfer.errors import InferenceError, OptionError, SchemaError
from dpinfer.families.distributions import (
    FAMILIES,
    Bernoulli,
    Beta,
    Binomial,
    Exponential,
    ExponentialFamily,
    Family,
    Gamma,
    Geometric,
    Lognormal,
    Normal,
    Parameter,
    Poisson,
    as_family,
)
from dpinfer.families.estimation import clamped_problem
from dpinfer.schema import Boolean, Integer, Real, Schema
from dpinfer.statistics.numerical import composite_nodes

CONTINUOUS = [
    (Normal(), (1.0, 1.0), (0.0, 3.0), stats.norm(1, 1)),
    (Normal(), (1.0, 1.0), (-1000.0, 1000.0), stats.norm(1, 1)),
    (Normal(), (1.0, 0.001), (0.0, 3.0), stats.norm(1, 0.001)),
    (Normal(), (5.0, 0.5), (0.0, 3.0), stats.norm(5, 0.5)),
    (Lognormal(), (1.0, 0.5), (0.3, 20.0), stats.lognorm(0.5, scale=np.e)),
    (Exponential(), (10.0,), (0.0, 20.0), stats.expon(scale=10)),
    (Exponential(), (10.0,), (2.0, 5000.0), stats.expon(scale=10)),
    (Gamma(), (2.0, 3.0), (0.1, 20.0), stats.gamma(2, scale=3)),
    (Gamma(), (0.1, 3.0), (1e-10, 20.0), stats.gamma(0.1, scale=3)),
    (Gamma(), (200.0, 3.0), (1.0, 2000.0), stats.gamma(200, scale=3)),
    (Beta(), (2.0, 3.0), (0.1, 0.9), stats.beta(2, 3)),
    (Beta(), (0.2, 0.1), (1e-6, 1 - 1e-6), stats.beta(0.2, 0.1)),
    (Beta(), (200.0, 300.0), (0.001, 0.999), stats.beta(200, 300)),
]
DISCRETE = [
    (Bernoulli(), (0.3,), (0, 1), stats.binom(1, 0.3)),
    (Binomial(10), (0.3,), (1, 5), stats.binom(10, 0.3)),
    (Binomial(2), (0.7,), (0, 2), stats.binom(2, 0.7)),
    (Poisson(), (3.0,), (2, 9), stats.poisson(3)),
    (Poisson(), (3.0,), (0, 5000), stats.poisson(3)),
    (Geometric(), (0.3,), (2, 8), stats.geom(0.3, loc=-1)),
    (Geometric(), (0.01,), (0, 5000), stats.geom(0.01, loc=-1)),
]


def problem(family, bounds):
    whole = isinstance(family, Bernoulli | Binomial | Poisson | Geometric)
    return clamped_problem(family, "x y", Schema({"x y": (Integer if whole else Real)(*bounds)}))


def brute_force(posed, law, bounds):
    """Mean and covariance by many small panels between the quantiles of the law."""
    cuts = np.concatenate([law.ppf(np.r_[1e-14, np.geomspace(1e-10, 0.5, 80)]), law.isf(np.geomspace(0.5, 1e-16, 90))])
    graded = np.geomspace(1e-7, 0.5, 150) * (bounds[1] - bounds[0])
    breaks = np.concatenate([cuts, bounds[0] + graded, bounds[1] - graded, np.linspace(*bounds, 200), bounds])
    breaks = np.unique(np.clip(breaks, *bounds))
    nodes, weights = composite_nodes(breaks[None], order=24)
    values = np.concatenate([nodes[0], bounds])
    mass = np.concatenate([weights[0] * law.pdf(nodes[0]), [law.cdf(bounds[0]), law.sf(bounds[1])]])
    return moments_of(posed, values, mass)


def moments_of(posed, values, mass):
    at = posed.features(values)
    mean = mass @ at
    return mean, (at - mean).T @ ((at - mean) * mass[:, None])


def check_moments(posed, theta, mean, cov, tolerance):
    found = posed.moments(np.array([theta]))
    spread = np.sqrt(np.diag(cov))
    assert np.all(np.abs(found.mean[0] - mean) <= tolerance * spread)
    assert np.all(np.abs(found.cov[0] - cov) <= tolerance * np.outer(spread, spread))
    for index, parameter in enumerate(posed.family.parameters):
        step = 1e-5 * (1.0 if parameter.link == "identity" else theta[index])
        moved = np.array([theta, theta])
        moved[:, index] += [step, -step]
        change = posed.moments(moved).mean
        expected = (change[0] - change[1]) / (2 * step)
        scale = np.abs(found.jacobian[0]).max()
        np.testing.assert_allclose(found.jacobian[0, :, index], expected, rtol=2e-5, atol=2e-5 * scale)


@pytest.mark.parametrize(("family", "theta", "bounds", "law"), CONTINUOUS)
def test_moments_of_clamped_values_agree_with_brute_force(family, theta, bounds, law):
    posed = problem(family, bounds)
    check_moments(posed, theta, *brute_force(posed, law, bounds), tolerance=2e-8)


@pytest.mark.parametrize(("family", "theta", "bounds", "law"), DISCRETE)
def test_moments_of_clamped_counts_agree_with_sums(family, theta, bounds, law):
    posed = problem(family, bounds)
    values = np.arange(bounds[0], bounds[1] + 1.0)
    mass = law.pmf(values)
    mass[0], mass[-1] = law.cdf(bounds[0]), law.sf(bounds[1] - 1)
    check_moments(posed, theta, *moments_of(posed, values, mass), tolerance=1e-8)


@pytest.mark.parametrize(("family", "theta", "bounds", "law"), CONTINUOUS + DISCRETE)
def test_samples_follow_the_law(family, theta, bounds, law):
    posed, rng = problem(family, bounds), np.random.default_rng(7)
    drawn = posed.features(posed.sample(np.array(theta), (40_000,), rng))
    found = posed.moments(np.array([theta]))
    error = np.sqrt(np.diag(found.cov[0]) / len(drawn))
    assert np.all(np.abs(drawn.mean(axis=0) - found.mean[0]) <= 5 * error + 1e-12)  # false alarm 6e-7 a statistic


def test_moments_stay_finite_all_over_the_box():
    for family, _, bounds, _ in CONTINUOUS + DISCRETE:
        posed = problem(family, bounds)
        ends = np.stack(np.meshgrid(*posed.box, indexing="ij"), axis=-1).reshape(-1, len(posed.box))
        found = posed.link_moments(ends)
        assert all(np.isfinite(part).all() for part in found)
        assert np.all(np.abs(found.mean) <= 1 + 1e-9)


@pytest.mark.parametrize("low_high", [(-np.inf, np.inf), (0.0, np.inf), (2.0, 5.0)])
def test_links_are_inverse_and_differentiable(low_high):
    parameter, eta = Parameter("k", *low_high), np.linspace(-3, 3, 7)
    theta = parameter.from_link(eta)
    assert np.all((theta > low_high[0]) & (theta < low_high[1]))
    np.testing.assert_allclose(parameter.to_link(theta), eta, atol=1e-12)
    change = (parameter.from_link(eta + 1e-6) - parameter.from_link(eta - 1e-6)) / 2e-6
    np.testing.assert_allclose(parameter.slope(eta), change, rtol=1e-8)


@pytest.mark.parametrize("family", [Poisson(), Geometric()])
def test_counts_below_zero_are_refused_by_name(family):
    with pytest.raises(SchemaError, match=r"income.*lower >= 0"):
        clamped_problem(family, "income", Schema(income=Integer(-1, 5)))


def test_a_truth_value_is_a_bernoulli_column():
    posed = clamped_problem(Bernoulli(), "b", Schema(b=Boolean()))
    np.testing.assert_allclose(posed.moments(np.array([[0.3]])).mean, [[-0.4]])


def test_families_are_read_back_from_json():
    for name in FAMILIES:
        family = Binomial(7) if name == "binomial" else as_family(name)
        assert ExponentialFamily.from_dict(json.loads(json.dumps(family.to_dict()))) == family
    with pytest.raises(OptionError, match="weibull"):
        as_family("weibull")
    with pytest.raises(OptionError, match="trials"):
        as_family("binomial")
    with pytest.raises(OptionError, match="trials"):
        Binomial(0)
    for unknown in ({"name": "cauchy"}, {}):
        with pytest.raises(KeyError):
            ExponentialFamily.from_dict(unknown)


def test_natural_parameters_are_those_of_the_log_density():
    at = np.array([0.3, 1.2])
    for family, theta, law, statistics in [
        (Normal(), (0.4, 1.3), stats.norm(0.4, 1.3), (at, at**2)),
        (Exponential(), (2.5,), stats.expon(scale=2.5), (at,)),
        (Gamma(), (2.0, 0.7), stats.gamma(2, scale=0.7), (at, np.log(at))),
    ]:
        natural = family.natural(np.array([theta]))[0]
        assert len(natural) == len(family.natural_names)
        linear = sum(weight * statistic for weight, statistic in zip(natural, statistics, strict=True))
        assert linear[1] - linear[0] == pytest.approx(law.logpdf(at[1]) - law.logpdf(at[0]))
    for family, theta, law in [(Poisson(), 2.5, stats.poisson(2.5)), (Geometric(), 0.3, stats.geom(0.3, loc=-1))]:
        slope = family.natural(np.array([[theta]]))[0, 0]
        base = np.log(6.0) if family.name == "poisson" else 0.0
        assert slope * 3 == pytest.approx(law.logpmf(3) - law.logpmf(0) + base)


OWN = {
    "gamma": (
        Family(
            "own_gamma",
            parameters={"shape": (0, np.inf), "scale": (0, np.inf)},
            statistics=("x", "log(x)"),
            log_density=lambda x, shape, scale: (shape - 1) * np.log(x) - x / scale,
            support=(0, np.inf),
        ),
        Gamma(),
        (2.0, 3.0),
        (0.1, 20.0),
    ),
    "normal": (
        Family(
            "own_normal",
            parameters={"mean": (-np.inf, np.inf), "sd": (0, np.inf)},
            statistics=("x", "(x - 1.5)**2"),
            log_density=lambda x, mean, sd: -0.5 * ((x - mean) / sd) ** 2,
        ),
        Normal(),
        (1.0, 0.01),
        (0.0, 3.0),
    ),
    "beta": (
        Family(
            "own_beta",
            parameters={"a": (0, np.inf), "b": (0, np.inf)},
            statistics=("log(x)", "log(1 - x)"),
            log_density=lambda x, a, b: (a - 1) * np.log(x) + (b - 1) * np.log1p(-x),
            support=(0, 1),
        ),
        Beta(),
        (2.0, 3.0),
        (0.05, 0.9),
    ),
    "geometric": (
        Family(
            "own_geometric",
            parameters={"p": (0, 1)},
            statistics=("x",),
            log_density=lambda x, p: x * np.log1p(-p),
            support=(0, np.inf),
            discrete=True,
        ),
        Geometric(),
        (0.3,),
        (2, 8),
    ),
}


@pytest.mark.parametrize("name", OWN)
def test_a_family_of_ones_own_has_the_moments_of_the_built_in_one(name):
    own, built, theta, bounds = OWN[name]
    column = (Integer if own.discrete else Real)(*bounds)
    mine, theirs = (clamped_problem(family, "x y", Schema({"x y": column})) for family in (own, built))
    found, expected = mine.moments(np.array([theta])), theirs.moments(np.array([theta]))
    spread = np.sqrt(np.diagonal(expected.cov[0]))
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-7 * spread.min())
    np.testing.assert_allclose(found.cov, expected.cov, rtol=1e-6)
    np.testing.assert_allclose(found.jacobian, expected.jacobian, rtol=1e-5, atol=1e-8)
    drawn = mine.features(mine.sample(np.array(theta), (40_000,), np.random.default_rng(3)))
    assert np.all(np.abs(drawn.mean(axis=0) - expected.mean[0]) <= 5 * spread / 200 + 1e-3 * spread)


def test_a_family_of_ones_own_is_needed_again_after_a_file():
    own = OWN["gamma"][0]
    stored = json.loads(json.dumps(own.to_dict()))
    read = ExponentialFamily.from_dict(stored)
    assert read.to_dict() == stored
    assert read.statistics("wait", 1.0, 2.0) == own.statistics("wait", 1.0, 2.0)
    with pytest.raises(InferenceError, match="own_gamma"):
        read.require_density()
    with pytest.raises(InferenceError, match="own_gamma"):
        read.clamped(np.array([[1.0, 1.0]]), 0.5, 2.0, lambda x: x[..., None])
    assert own.require_density() is None
    with pytest.raises(InferenceError, match="natural"):
        own.natural(np.array([[1.0, 1.0]]))


@pytest.mark.parametrize(
    ("change", "option"),
    [
        ({"name": "two words"}, "name"),
        ({"statistics": ("x", "x**2")}, "statistics"),
        ({"statistics": ("y",)}, "statistics"),
        ({"log_density": "x"}, "log_density"),
        ({"support": (1, 0)}, "support"),
        ({"support": (-np.inf, 0)}, "support"),
        ({"parameters": {"k": (-np.inf, 0)}}, "parameters"),
        ({"search": {"q": (0, 1)}}, "search"),
    ],
)
def test_a_wrong_argument_is_named(change, option):
    right = {"name": "own", "parameters": {"k": (0, 1)}, "statistics": ("x",), "log_density": np.add}
    with pytest.raises(OptionError, match=option):
        Family(**(right | change))

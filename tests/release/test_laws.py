"""Noise laws against direct summation."""

import numpy as np
import pytest
from scipy import stats

from dpinfer.errors import NotProvedError, OptionError, ReleaseFormatError
from dpinfer.release import NoiseLaw
from dpinfer.release.laws import TULAP_GRID

FAMILIES = ["gaussian", "laplace"]
SMALL = [0.02, 0.1, 0.3, 0.5, 0.9, 1.0, 2.7, 9.9, 10.1, 63.0, 65.0, 500.0]


def masses(family, scale):
    """Probabilities of whole numbers by direct summation."""
    reach = int(45 * scale) + 3
    support = np.arange(-reach, reach + 1)
    weights = np.exp(-0.5 * (support / scale) ** 2) if family == "gaussian" else np.exp(-np.abs(support) / scale)
    return support, weights / weights.sum()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", SMALL)
def test_variance_is_that_of_the_sum(family, scale):
    support, mass = masses(family, scale)
    expected = (mass * support**2).sum()
    law = NoiseLaw(family, (scale, 0.0, scale))
    assert np.allclose(law.variances, [expected, 0, expected], rtol=1e-9, atol=1e-300)
    assert np.array_equal(law.cov, np.diag(law.variances))


@pytest.mark.parametrize("scale", [1e-3, 1e-2, 2.0**24, 2.0**50, 1e100])
def test_variance_of_very_small_and_large_scales(scale):
    gaussian, laplace = (NoiseLaw(family, (scale,)).variances[0] for family in FAMILIES)
    if scale < 1:
        assert 0 <= gaussian < 1e-40
        assert 0 <= laplace < 1e-40
    else:
        assert gaussian == pytest.approx(scale**2, rel=1e-12)
        assert laplace == pytest.approx(2 * scale**2, rel=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", [0.3, 0.9, 2.7, 65.0, 500.0])
@pytest.mark.parametrize("probability", [1e-6, 0.025, 0.3, 0.5, 0.7, 0.975, 0.9999])
def test_quantile_is_the_smallest_number_that_reaches_the_probability(family, scale, probability):
    support, mass = masses(family, scale)
    below = np.cumsum(mass)
    found = NoiseLaw(family, (scale,)).quantile(probability)[0]
    place = int(np.searchsorted(support, found))
    assert below[place] >= probability - 1e-12
    assert place == 0 or below[place - 1] < probability + 1e-12


@pytest.mark.parametrize("family", FAMILIES)
def test_quantiles_of_large_scales_are_those_of_the_continuous_law(family):
    law = stats.norm if family == "gaussian" else stats.laplace
    for scale in (9_999.0, 10_001.0, 2.0**40):
        found = NoiseLaw(family, (scale, 0.0)).quantile(0.975)
        assert found[0] == pytest.approx(law.ppf(0.975, scale=scale), abs=1.0, rel=1e-12)
        assert found[0] == int(found[0])
        assert found[1] == 0


@pytest.mark.parametrize("probability", [0, 1, -0.5, 2, np.nan])
def test_quantiles_need_a_probability(probability):
    with pytest.raises(OptionError, match="probability"):
        NoiseLaw("gaussian", (1.0,)).quantile(probability)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", [0.3, 0.9, 5.0, 63.0, 65.0, 2.0**33])
def test_draws_have_the_variance_and_are_whole(family, scale):
    """Six standard errors: a false alarm has probability 2e-9 a case."""
    law = NoiseLaw(family, (scale, 0.0, 3.0 * scale))
    draws = law.rvs(40_000, np.random.default_rng(3))
    assert draws.shape == (40_000, 3)
    assert np.array_equal(draws, np.rint(draws))
    assert not draws[:, 1].any()
    for column in (0, 2):
        squares = draws[:, column] ** 2
        error = squares.std() / np.sqrt(len(squares))
        assert abs(squares.mean() - law.variances[column]) < 6 * error
        assert abs(draws[:, column].mean()) < 6 * np.sqrt(law.variances[column] / len(draws))


def test_draws_are_seeded_and_leave_the_law_alone():
    law = NoiseLaw("laplace", (5.0, 7.0))
    first, second = (law.rvs(3, np.random.default_rng(1)) for _ in range(2))
    assert np.array_equal(first, second)
    assert NoiseLaw("laplace", ()).rvs(2, np.random.default_rng(1)).shape == (2, 0)


@pytest.mark.parametrize("scales", [(-1.0,), (np.nan,), (np.inf,), (1.0, -1e-9), (1e200,)])
def test_wrong_scales(scales):
    with pytest.raises(OptionError, match="scales"):
        NoiseLaw("gaussian", scales)


def test_wrong_family():
    with pytest.raises(OptionError, match=r"family='cauchy'.*'gaussian', 'laplace'"):
        NoiseLaw("cauchy", (1.0,))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_law_survives_as_json_ready_mapping(family):
    scales = (0.0, 0.1, 0.1, 2.0**40 + 1, 1 / 3, 1 / 3, 0.1)
    law = NoiseLaw(family, scales)
    assert NoiseLaw.from_dict(law.to_dict()) == law
    assert law.to_dict()["scales"][1] == [0.1, 2]


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"family": "discrete gaussian"},
        {"family": "discrete gaussian", "scales": 3},
        {"family": "discrete gaussian", "scales": [1.0, 2.0]},
        {"family": "discrete gaussian", "scales": [["a", 1]]},
        {"family": "discrete gaussian", "scales": [[-1.0, 1]]},
        {"family": "discrete gaussian", "scales": [[1.0, 0]]},
        {"family": "discrete gaussian", "scales": [[1.0, 1.5]]},
        {"family": "discrete gaussian", "scales": [[1.0, True]]},
        {"family": "discrete gaussian", "scales": [[1.0, 10**30]]},
        {"family": "discrete gaussian", "scales": [[1.0, 2**23]] * 3},
        {"family": "discrete cauchy", "scales": [[1.0, 1]]},
    ],
)
def test_damaged_laws_are_refused(stored):
    with pytest.raises(ReleaseFormatError, match="noise law"):
        NoiseLaw.from_dict(stored)


# Averages of Laplace draws, and Tulap noise


@pytest.mark.parametrize("draws", [1, 2, 3, 10, 50])
@pytest.mark.parametrize("scale", [0.5, 7.0, 2.0**30])
def test_the_variance_of_several_draws_is_their_sum(draws, scale):
    one, several = NoiseLaw("laplace", (scale, 0.0)), NoiseLaw("laplace", (scale, 0.0), draws)
    assert np.allclose(several.variances, draws * one.variances, rtol=1e-12)
    assert several.variances[1] == 0


@pytest.mark.parametrize("draws", [2, 10])
@pytest.mark.parametrize("scale", [0.5, 7.0, 2.0**30])
def test_several_draws_are_simulated(draws, scale):
    """Variance and fourth moment within six standard errors: a false alarm has probability 4e-9 a case."""
    law = NoiseLaw("laplace", (scale, 0.0), draws)
    drawn = law.rvs(60_000, np.random.default_rng(3))
    assert np.array_equal(drawn, np.rint(drawn))
    assert not drawn[:, 1].any()
    unit = drawn[:, 0] / np.sqrt(law.variances[0])
    support, mass = masses("laplace", min(scale, 500.0))
    single = (mass * support**4).sum() / (mass * support**2).sum() ** 2
    fourth = (single - 3) / draws + 3
    for power, expected in ((2, 1.0), (4, fourth)):
        values = unit**power
        assert abs(values.mean() - expected) < 6 * values.std() / np.sqrt(values.size)


@pytest.mark.parametrize("scale", [0.2, 0.5, 2.0, 30.0])
def test_tulap_is_a_discrete_laplace_draw_and_a_uniform_fraction(scale):
    """Kolmogorov-Smirnov against the distribution function of Awan & Slavkovic; false alarm 1e-6 a case."""
    law = NoiseLaw("tulap", (scale * TULAP_GRID, 0.0))
    support, mass = masses("laplace", scale)
    variance = (mass * support**2).sum() + 1 / 12
    assert law.variances[0] == pytest.approx(TULAP_GRID**2 * variance, rel=1e-9)
    assert law.variances[1] == 0
    drawn = law.rvs(50_000, np.random.default_rng(7))
    assert np.array_equal(drawn, np.rint(drawn))
    assert not drawn[:, 1].any()

    def below(value):
        whole = np.rint(value)
        before = np.concatenate([[0.0], np.cumsum(mass)])[np.searchsorted(support, whole)]
        return before + mass[np.searchsorted(support, whole)] * (value - whole + 0.5)

    assert stats.kstest(drawn[:, 0] / TULAP_GRID, below).pvalue > 1e-6


@pytest.mark.parametrize(
    "law",
    [
        NoiseLaw("laplace", (3.0, 3.0, 0.0, 1 / 3), 10),
        NoiseLaw("laplace", (3.0,), 1),
        NoiseLaw("tulap", (0.3 * TULAP_GRID, 2.0**33 + 1)),
        NoiseLaw("tulap", ()),
    ],
)
def test_new_laws_survive_as_json_ready_mappings(law):
    stored = law.to_dict()
    assert NoiseLaw.from_dict(stored) == law
    assert ("draws" in stored) == (law.draws > 1)


@pytest.mark.parametrize(
    ("family", "draws"),
    [("gaussian", 2), ("tulap", 2), ("laplace", 0), ("laplace", -1), ("laplace", 1.0), ("laplace", True)],
)
def test_wrong_draws(family, draws):
    with pytest.raises(OptionError, match="draws"):
        NoiseLaw(family, (1.0,), draws)


@pytest.mark.parametrize("draws", [0, 1.5, "2", True, None])
def test_damaged_draws(draws):
    with pytest.raises(ReleaseFormatError, match="noise law"):
        NoiseLaw.from_dict({"family": "discrete laplace", "scales": [[1.0, 1]], "draws": draws})
    with pytest.raises(ReleaseFormatError, match="noise law"):
        NoiseLaw.from_dict({"family": "discrete gaussian", "scales": [[1.0, 1]], "draws": 2})


@pytest.mark.parametrize("law", [NoiseLaw("tulap", (1.0,)), NoiseLaw("laplace", (1.0,), 2)])
def test_quantiles_of_other_laws_are_refused(law):
    with pytest.raises(NotProvedError, match="single draw"):
        law.quantile(0.5)

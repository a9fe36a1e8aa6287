"""Choices of the largest noisy score: drawn with exact probabilities, whatever the scores are."""

import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import dpinfer as dpi
from dpinfer.errors import BudgetExceededError, NotProvedError, OptionError, PrivacyUnitError
from dpinfer.kernel.sampling import private_choice, simulated_choice
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.sums import exact_sums
from dpinfer.privacy.units import NEIGHBORS

LAWS = ("gumbel", "exponential")
DRAWS = 20_000
MANY, FEW = 10_000, 1000
FALSE_ALARM = 1e-6
"""Probability that a test fails a sampler that is right."""


def exact_law(scores, law, scale):
    """Probabilities of the exponential mechanism; of permute-and-flip by its definition: all orders, with coins."""
    top = max(scores)
    weights = [math.exp((score - top) / scale) for score in scores]
    if law == "gumbel":
        return np.array(weights) / sum(weights)
    found = np.zeros(len(scores))
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        reached = 1.0
        for place in order:
            found[place] += reached * weights[place] / len(orders)
            reached *= 1 - weights[place]
    return found


def fits(draws, expected):
    """P-value of a chi-squared test; places that are hardly expected are pooled."""
    counts = np.bincount(draws, minlength=len(expected))
    often = expected * len(draws) >= 10
    pooled = [*counts[often], counts[~often].sum()], [*expected[often], expected[~often].sum()]
    seen, share = (np.array(one, dtype=float) for one in pooled)
    kept = share > 0
    assert seen[~kept].sum() == 0
    seen, share = seen[kept], share[kept] * len(draws)
    return stats.chi2.sf(((seen - share) ** 2 / share).sum(), max(len(seen) - 1, 1))


SCORES = {
    "apart": ([0, 3, 7, 4, 9], 3.0),
    "equal": ([5, 5, 5, 5], 0.5),
    "ties below the best": ([10, 8, 8, 8, 0], 4.0),
    "beyond 64 bits": ([10**30, 10**30 + 3, 10**30 - 2], 2.5),
    "below 64 bits": ([-(10**25), -(10**25) - 1], 1.0),
    "one far below": ([0, -(10**40), -1], 1.0),
    "a huge scale": ([0, 2**50, -(2**50)], 2.0**50),
    "hardly any noise": ([1, 2, 0], 1e-3),
}


def test_permute_and_flip_is_exponential_noise():
    """The two definitions agree: the law by orders and coins is that of the largest score plus exponential noise."""
    scores, scale = SCORES["apart"]

    def density(x, place):
        gaps = [(scores[place] - other) / scale for j, other in enumerate(scores) if j != place]
        return math.exp(-x) * math.prod(max(-math.expm1(-(x + gap)), 0.0) if x + gap > 0 else 0.0 for gap in gaps)

    kinks = sorted({max(0.0, (max(scores) - score) / scale) for score in scores})
    found = [
        sum(integrate.quad(density, a, b, args=(place,))[0] for a, b in itertools.pairwise([*kinks, 60.0]))
        for place in range(len(scores))
    ]
    assert found == pytest.approx(exact_law(scores, "exponential", scale), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCORES)
def test_private_choices_have_exact_probabilities(name):
    """A chi-squared test that fails a right sampler with probability 1e-6."""
    scores, scale = SCORES[name]
    for law in LAWS:
        draws = [private_choice(scores, law, scale) for _ in range(MANY if name == "apart" else FEW)]
        assert {type(one) for one in draws} == {int}
        assert fits(np.array(draws), exact_law(scores, law, scale)) > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_simulated_choices_have_the_same_law(law):
    rng = np.random.default_rng(5)
    for scores, scale in SCORES.values():
        draws = np.array([simulated_choice(scores, law, scale, rng) for _ in range(DRAWS)])
        assert fits(draws, exact_law(scores, law, scale)) > FALSE_ALARM


def test_scores_are_summed_without_rounding():
    schema = dpi.Schema(x=dpi.Real(-1, 1e6), g=dpi.Category(["a", "b"]))
    frame = schema.sample(5000, np.random.default_rng(1))
    question = dpi.exponential_mechanism({"x": "x", "minus": "-x", "a": "1e6 * (g == 'a')"})
    rows = question.measurement(dpi.PureDP(1.0), schema=schema).rows
    whole = exact_sums(rows, open_source(frame))
    assert whole[0] == -whole[1] == sum(int(one) for one in np.rint(frame["x"] / rows.step))
    assert whole[2] == (frame["g"] == "a").sum() * int(1e6 / rows.step)


# The kernel

SCHEMA = dpi.Schema(g=dpi.Category(["a", "b", "c", "d"]), x=dpi.Real(0, 1))
FRAME = pd.DataFrame({"g": [*"b" * 300, *"a" * 20, *"d" * 5], "x": np.linspace(0, 1, 325)})


@pytest.mark.parametrize("price", [dpi.PureDP(1.0), dpi.ZCDP(0.1), dpi.GDP(0.5), dpi.ApproxDP(1.0, 1e-6)], ids=str)
def test_a_clear_choice_is_made_and_charged(price):
    """280 votes ahead at a scale of at most 11: another choice has probability below 1e-10."""
    for neighbors, method in itertools.product(NEIGHBORS, ("auto", "exponential", "permute_and_flip")):
        data = dpi.PrivateData(FRAME, SCHEMA, dpi.Ledger.in_memory(price, neighbors=neighbors))
        release = dpi.most_frequent("g", data, method=method).measure(price)
        assert release.values == (1,)  # noqa: PD011
        assert (release.kind, release.names, release.steps) == ("selection", ("selected",), (1.0,))
        assert release.law.scales[0] < 11
        assert release.nobs == (325 if neighbors == "replace_one" else None)
        assert data.ledger.spent == price
        assert data.ledger.charges()["description"].tolist() == ["selection: most frequent g"]
        with pytest.raises(BudgetExceededError):
            dpi.most_frequent("g", data, method=method).measure(price)


def test_of_noisy_scores_nothing_but_the_place_is_kept():
    data = dpi.PrivateData(FRAME, SCHEMA, dpi.Ledger.in_memory(dpi.PureDP(1.0)))
    release = dpi.most_frequent("g", data).measure(dpi.PureDP(1.0))
    assert len(release.values) == 1
    assert release.noise_variances.tolist() == [0.0]
    stages = json.loads(release.to_json())["stages"]
    sums = [{"name": "selected", "value": release.values[0], "step": 1.0}]  # noqa: PD011
    assert [one["sums"] for one in stages] == [sums]
    assert "300" not in json.dumps(stages) + json.dumps(json.loads(release.to_json())["question"])
    for ask in (lambda: release.simulate(np.random.default_rng(0)), lambda: release.law.quantile(0.5)):
        with pytest.raises(NotProvedError):
            ask()


def test_vanishing_prices_and_plans_for_other_neighbours_cost_nothing():
    data = dpi.PrivateData(FRAME, SCHEMA, dpi.Ledger.in_memory(dpi.PureDP(1.0)))
    question = dpi.most_frequent("g", data)
    with pytest.raises(PrivacyUnitError, match=r"larger (privacy )?budget"):
        question.measure(dpi.PureDP(1e-18))
    with pytest.raises(OptionError, match=r"procedure.*a question"):
        data.run(question.measurement(dpi.PureDP(0.1), neighbors="replace_one"), dpi.PureDP(0.1))
    assert data.ledger.charges().empty


def test_simulated_choices_repeat_with_their_seed():
    def chosen(seed):
        data = dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(seed))
        return [dpi.most_frequent("g", data).fit(dpi.PureDP(1e-3)).selected for _ in range(40)]

    assert chosen(3) == chosen(3)
    assert chosen(3) != chosen(4)
    assert len(set(chosen(3))) > 1

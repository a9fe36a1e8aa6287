"""Results of choices: accuracy that holds, tables, and releases that are read back or refused."""

import dataclasses
import math

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.errors import InferenceError, NotProvedError, OptionError
from dpinfer.kernel.sampling import simulated_choice
from dpinfer.selection.results import SelectionResults, accuracy
from tests.asking import assert_damage_is_refused

SCHEMA = dpi.Schema(x=dpi.Real(0, 10), g=dpi.Category(["a", "b"]), b=dpi.Boolean())
CANDIDATES = [1, 2.5, "a_b <&> | $", True]
SCORES = [f"x > {bound}" for bound in (1, 4, 2, 3)]


def data_of(rows=200, neighbors="add_remove"):
    rng = np.random.default_rng(1)
    return dpi.PublicData(SCHEMA.sample(rows, rng), SCHEMA, rng=rng, neighbors=neighbors)


def private(budget):
    frame = SCHEMA.sample(200, np.random.default_rng(1))
    return dpi.PrivateData(frame, SCHEMA, dpi.Ledger.in_memory(budget))


RELEASES = {
    "mapping": lambda: dpi.exponential_mechanism(
        dict(zip(CANDIDATES, SCORES, strict=True)), data_of(), where="b"
    ).measure(dpi.ZCDP(0.1)),
    "votes": lambda: dpi.most_frequent("g", data_of(neighbors="replace_one")).measure(dpi.PureDP(1.0)),
    "private": lambda: dpi.exponential_mechanism("x * candidate", private(dpi.GDP(0.5)), candidates=[1, 2]).measure(
        dpi.GDP(0.5)
    ),
}


# Reading


def test_options_other_kinds_and_simulation_are_refused():
    release = RELEASES["votes"]()
    for options in ({"inference": "wald"}, {"target": "data"}, {"alpha": 0.1}):
        with pytest.raises(OptionError, match="it has none"):
            release.infer(**options)
    with pytest.raises(InferenceError, match="another question"):
        dpi.most_frequent("g").infer(dpi.gram(["x"], data_of()).measure(dpi.ZCDP(0.1)))
    with pytest.raises(NotProvedError, match="not simulated"):
        release.simulate(np.random.default_rng(0))


DAMAGE = {
    "candidates": [None, 3, [], [1], [1, 1], [[1], [2]], [None, "a"], {"a": 1}],
    "score": [None, 3, "", [], ["x"], [1, 2], ["x", "z"], ["1", "2"], ["log(x)", "x"], ["x >", "x"], "z", "x >"],
    "where": [3, [], "x +", "z > 1", "x + 1"],
    "method": [None, 3, "laplace"],
    "schema": [None, {}, [], "x"],
}


LAWS = [{"family": name, "scales": [[1.0, 1]]} for name in ("discrete gaussian", "discrete laplace", "tulap", "cauchy")]
LAWS += [{"family": "gumbel", "scales": scales} for scales in ([[1.0, 2]], [], [[-1.0, 1]], [["nan", 1]])]
LAWS += [{"family": "gumbel", "scales": [[1.0, 1]], "draws": 2}]
PLACES = {"value": [-1, 2, 1.0, True, "1", None], "step": [0, -1, "1", None]}


def test_damaged_questions_places_and_laws_are_refused():
    release = RELEASES["private"]()
    assert_damage_is_refused(release, DAMAGE | {"/stages.0.law": LAWS})
    assert_damage_is_refused(release, {f"/stages.0.sums.0.{name}": values for name, values in PLACES.items()})
    several = RELEASES["mapping"]()
    held = list(several.question["candidates"])
    assert_damage_is_refused(several, {"candidates": [held[:-1], [*held, 7]]})


# Accuracy


def results_of(count, scale, family):
    release = RELEASES["private"]()
    stage = dataclasses.replace(release.stages[0], law=type(release.law)(family, (scale,)))
    return SelectionResults(0, tuple(range(count)), scale, dataclasses.replace(release, stages=(stage,)), "one")


def test_accuracy_in_closed_form():
    gumbel, flipped = results_of(11, 2.0, "gumbel"), results_of(11, 2.0, "exponential")
    assert gumbel.accuracy(0.05) == pytest.approx(2 * math.log(10 / 0.05))
    assert flipped.accuracy(0.05) == pytest.approx(2 * math.log(10 / 0.1))
    for one in (gumbel, flipped):
        assert one.accuracy(0.05, bound="theorem6") == pytest.approx(4 * math.log(11 / 0.05))
        assert one.accuracy() == one.accuracy(0.05)
        assert one.accuracy(0.01) > one.accuracy(0.5)
    assert results_of(2, 1.0, "exponential").accuracy(0.9) == 0.0
    assert results_of(2, 1.0, "gumbel").accuracy(0.9) == pytest.approx(-math.log(0.9))


@pytest.mark.parametrize("family", ["gumbel", "exponential"])
def test_accuracy_holds_and_is_sharp(family):
    """One best score, all others so far below as the bound says: 20,000 draws, five standard errors."""
    rng, count, scale, beta = np.random.default_rng(3), 5, 3.0, 0.2
    bound = accuracy(count, scale, family, beta)
    worst = [0, *[-int(1e6 * bound)] * (count - 1)]
    missed = np.mean([simulated_choice(worst, family, 1e6 * scale, rng) > 0 for _ in range(20_000)])
    assert missed <= beta + 5 * math.sqrt(beta * 0.8 / 20_000)
    assert missed >= 0.75 * beta


def test_the_scale_is_in_the_unit_of_the_scores():
    release = dpi.exponential_mechanism("1000 * x", data_of(), candidates=[1, 2], method="exponential").measure(
        dpi.PureDP(2.0)
    )
    results = release.infer()
    assert results.scale == pytest.approx(10_000 / 2.0, rel=1e-5)
    assert results.scale >= release.law.scales[0] * release.steps[0]
    assert dpi.most_frequent("g", data_of()).fit(dpi.PureDP(2.0)).scale == 0.5


def test_bad_probabilities_and_bounds_are_refused():
    results = RELEASES["votes"]().infer()
    for beta in (0, 1, -0.1, 1.5, math.nan, "0.05", True, None):
        with pytest.raises(OptionError, match="beta="):
            results.accuracy(beta)
    with pytest.raises(OptionError, match="theorem6"):
        results.accuracy(0.05, bound="loose")


# Tables


def test_the_summary_says_what_was_chosen_how_and_at_what_price():
    results = RELEASES["private"]().infer()
    text = str(results.summary())
    for told in (
        f"Selected:                                  {results.selected}",
        "exponential mechanism",
        "GDP(mu=0.5)",
        "add_remove",
        "the best of 2 candidates (1, 2)",
        f"{results.accuracy(0.05):.4g}",
        f"{results.accuracy(0.01):.4g}",
        "Nothing else about the scores is released",
        f"Ledger charge: {results.release.charge_ids[0]}",
    ):
        assert " ".join(told.split()) in " ".join(text.split())
    assert "none (public data)" in str(RELEASES["votes"]().infer().summary())
    assert repr(results).startswith(f"<SelectionResults: {results.selected!r} of 2 candidates, exponential mechanism")


def test_tables_of_every_format_escape_what_candidates_are_called():
    release = RELEASES["mapping"]()
    place = CANDIDATES.index("a_b <&> | $")
    stage = dataclasses.replace(release.stages[0], values=(place,))
    summary = dataclasses.replace(release, stages=(stage,)).infer().summary()
    assert "a_b <&> | $" in str(summary)
    assert "a_b &lt;&amp;&gt; | $" in summary.as_html()
    assert "a_b <&> | $" not in summary.as_html()
    assert "a\\_b" in summary.as_markdown()
    for text in (str(summary), summary.as_html(), summary.as_markdown()):
        assert "exponential mechanism" in text
        assert "Guarantee" in text
        assert "nan" not in text.lower()

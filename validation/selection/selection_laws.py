"""Private choices: the sampler against exact probabilities, what mechanisms lose, a theorem's bound, and attacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

import dpinfer as dpi
from dpinfer.kernel.quantiles import chosen_points
from dpinfer.kernel.sampling import SimulatedDraws, private_choice
from dpinfer.kernel.sources import open_source
from dpinfer.privacy.accounting import choice_scale
from validation.common.outputs import Options, new_figure, write_figure, write_table
from validation.common.rules import Claim
from validation.selection.selection_exact import (
    CANDIDATES,
    EXACT,
    GAPS,
    NAMES,
    VOTES,
    flipped,
    loss_table,
    losses,
    noise_against_mechanism,
    softmax,
    theorem,
)

Array = NDArray[np.float64]


SMITH = "Smith (2017)"

BATCH = 1000
"""Draws that one composed mechanism makes."""

EXPECTED = 20.0
"""Draws that a class of the chi-squared test expects at least."""

LEAST = 1e-4
"""Least p-value."""

ERROR, SHORT = 1e-4, 0.8
"""Chance that one lower bound on epsilon is too high; the noise, in shares of what is right, that is to be caught."""

EPSILON = 1.0

ENOUGH = 200_000
"""Draws from which too little noise is sure to be caught."""

WHOLE = 5000
"""Medians that are drawn by whole descents."""

TOP, BLOCK, LOW, HIGH = 1055, 1024, 7, 6
"""The quantile's attack: an Integer from 0 to TOP, whose first BLOCK points are whole blocks of the descent; LOW rows
at BLOCK and HIGH at TOP. One more at TOP makes a median below BLOCK less likely, by nearly as much as epsilon."""


# The sampler itself


class Choosing(SimulatedDraws):
    """Draws that choose as they are told.

    Parameters
    ----------
    choose : callable
        ``choose(scores, scale)`` returns a place.
    """

    def __init__(self, choose: Callable[[Sequence[int], float], int]) -> None:
        super().__init__(np.random.default_rng(0))
        self._choose = choose

    def place(self, scores: Sequence[int], law: str, scale: float) -> int:  # noqa: ARG002  (always the Gumbel law)
        """Choose a place."""
        return self._choose(scores, scale)


class Sampler:
    """Many draws of the library's `private_choice`: the mechanism that it builds, composed with itself.

    A single draw spends nine tenths of its time on building the mechanism and on converting numbers. So what
    `private_choice` builds and what it gives to that are caught, and drawn from in batches. Draws for the same scores
    wait in a pool until they are asked for.
    """

    def __init__(self, law: str) -> None:
        self.law = law
        self.pools: dict[tuple[Any, ...], list[int]] = {}
        self.composed: dict[tuple[Any, ...], tuple[Any, list[int]]] = {}

    def one(self, scores: Sequence[int], scale: float) -> int:
        """Draw once."""
        key = (scale, *scores)
        pool = self.pools.setdefault(key, [])
        if not pool:
            mechanism, given = self._mechanism(key, scores, scale)
            pool.extend(int(draw) for draw in mechanism(given))
        return pool.pop()

    def counts(self, scores: Sequence[int], scale: float, size: int) -> NDArray[np.int64]:
        """How often each candidate wins in ``size`` draws."""
        found = np.zeros(len(scores), dtype=np.int64)
        mechanism, given = self._mechanism((scale, *scores), scores, scale)
        for done in range(0, size, BATCH):
            draws = [int(draw) for draw in mechanism(given)]
            found += np.bincount(draws[: size - done], minlength=len(scores))
        return found

    def _mechanism(self, key: tuple[Any, ...], scores: Sequence[int], scale: float) -> tuple[Any, list[int]]:
        from opendp import prelude as opendp  # noqa: PLC0415  (imported when first needed: it is slow to load)

        if key not in self.composed:
            build, caught = opendp.m.make_noisy_max, []

            def caught_build(*arguments: Any, **named: Any) -> Any:
                mechanism = build(*arguments, **named)

                def draw(given: list[int]) -> int:
                    caught.append((mechanism, given))
                    return int(mechanism(given))

                return draw

            with mock.patch.object(opendp.m, "make_noisy_max", caught_build):
                private_choice(scores, self.law, scale)  # type: ignore[arg-type]
            mechanism, given = caught[0]
            self.composed[key] = opendp.c.make_composition([mechanism] * BATCH), given
        return self.composed[key]


def pvalue(counts: NDArray[np.int64], probabilities: Array) -> tuple[float, int]:
    """Chi-squared p-value and number of classes; rare candidates are one class together."""
    size = int(counts.sum())
    common = probabilities * size >= EXPECTED
    seen, right = list(counts[common]), list(probabilities[common])
    if not common.all():
        seen.append(counts[~common].sum())
        right.append(probabilities[~common].sum())
    if right[-1] * size < EXPECTED and len(right) > 1:
        seen[-2:], right[-2:] = [sum(seen[-2:])], [sum(right[-2:])]
    expected = np.array(right) / sum(right) * size
    return float(stats.chisquare(seen, expected).pvalue), len(seen)


def vectors() -> dict[str, tuple[list[int], float]]:
    """Scores and noise scales, in steps."""
    rng = np.random.default_rng(11)
    return {
        "10 scores, two tied, 6 scales apart": ([0, -50, -50, -100, -170, -200, -260, -350, -470, -600], 100.0),
        "40 scores near 2^40, random": ([2**40 - int(gap) for gap in rng.integers(0, 4000, 40)], 1234.5),
    }


def worlds(law: str) -> tuple[list[int], list[int]]:
    """Votes of two neighbours between which the less likely choice changes by nearly as much as epsilon."""
    return ([0, -3], [0, -4]) if law == "gumbel" else ([0, 0], [0, -1])


def sampled(law: str, count: int) -> tuple[list[dict], list[dict]]:
    """Test the sampler against exact probabilities; attack it with the right noise and with too little."""
    sampler, exact = Sampler(law), EXACT[law]
    right = choice_scale(1, dpi.PureDP(EPSILON), law)  # type: ignore[arg-type]
    tested, attacked = [], []
    for name, (scores, scale) in vectors().items():
        counts = sampler.counts(scores, scale, count)
        found, classes = pvalue(counts, exact(max(scores) - np.array(scores, dtype=float), scale))
        tested.append({"law": law, "scores": name, "draws": count, "classes": classes, "p-value": found})
    for share in (1.0, SHORT):
        hits = []
        for votes in worlds(law):
            counts = sampler.counts(votes, share * right, count)
            hits.append(counts[1])
            gaps = max(votes) - np.array(votes, dtype=float)
            found, classes = pvalue(counts, exact(gaps, share * right))
            name = f"votes {votes[0]} and {votes[1]}, noise {share:g}"
            tested.append({"law": law, "scores": name, "draws": count, "classes": classes, "p-value": found})
        true = [exact(max(votes) - np.array(votes, dtype=float), share * right)[1] for votes in worlds(law)]
        attacked.append(attack(f"{NAMES[law]}, two candidates", share, hits, true, count))
    return tested, attacked


def attack(what: str, share: float, hits: Sequence[int], true: Sequence[float], count: int) -> dict:
    """Lower confidence bound on epsilon from how often one event happened in two neighbouring worlds."""
    first, second = hits
    least = stats.beta.ppf(ERROR / 2, first, count - first + 1) if first else 0.0
    most = stats.beta.isf(ERROR / 2, second + 1, count - second) if second < count else 1.0
    bound = float(np.log(max(least / most, 1e-300)))
    return {
        "mechanism": what,
        "noise": share,
        "stated epsilon": EPSILON,
        "log ratio, exact": float(np.log(true[0] / true[1])),
        "lower bound": bound,
        "draws": count,
        "exceeded": bound > EPSILON,
    }


def attacked(share: float, *, more: bool) -> tuple[Any, Fraction, float, Any]:
    """What chooses the median: its grid, probability, and a share of its noise; and the rows."""
    question = dpi.quantile("x", q=0.5, method="exponential")
    schema = dpi.Schema(x=dpi.Integer(0, TOP))
    first = question.measurement(dpi.PureDP(4 * EPSILON), schema=schema, neighbors="add_remove").stages[0]
    source = open_source(pd.DataFrame({"x": [BLOCK] * LOW + [TOP] * (HIGH + more)}))
    (probability,) = first.stage.measure.probabilities  # type: ignore[union-attr]
    return first.rows, probability, share * first.law.scales[0], source


def chosen(size: int, share: float, sampler: Sampler, *, more: bool) -> NDArray[np.int64]:
    """How often each point is chosen, by as many descents."""
    rows, probability, scale, source = attacked(share, more=more)
    found = chosen_points(rows, [probability] * size, [scale] * size, source, Choosing(sampler.one))
    return np.bincount(found, minlength=TOP + 1)


def medians(size: int, share: float, sampler: Sampler, *, more: bool) -> NDArray[np.int64]:
    """How often each point is chosen, in a time that does not depend on the descent's own arithmetic.

    A descent first chooses a block, then a point of it. What it chooses from is written down for every block, and drawn
    from: of the points of a block as often as the block was chosen.
    """
    rows, probability, scale, source = attacked(share, more=more)

    def descended_into(block: int) -> tuple[int, list[tuple[Sequence[int], float]]]:
        heard: list[tuple[Sequence[int], float]] = []

        def draw(scores: Sequence[int], scale: float) -> int:
            heard.append((scores, scale))
            return block if len(heard) == 1 else 0

        (start,) = chosen_points(rows, [probability], [scale], source, Choosing(draw))
        return start, heard

    found = np.zeros(TOP + 1, dtype=np.int64)
    for block, times in enumerate(sampler.counts(*descended_into(0)[1][0], size).tolist()):
        start, (_, within) = descended_into(block)
        found[start : start + len(within[0])] += sampler.counts(*within, times)
    assert found.sum() == size  # every draw ends at a point
    return found


def median_law(share: float, *, more: bool) -> Array:
    """Exact probability of every point, from the definition of the score."""
    values = np.array([BLOCK] * LOW + [TOP] * (HIGH + more))
    points = np.arange(TOP + 1)
    upto, under = np.searchsorted(values, points, side="right"), np.searchsorted(values, points)
    middle = 0.5 * len(values)
    gaps = np.maximum(np.maximum(middle - upto, under - middle), 0)
    return softmax(gaps, share / EPSILON)


def descended(share: float, count: int) -> tuple[list[dict], list[dict]]:
    """Test and attack the choice of a median by descent through blocks, as `sampled` does."""
    sampler, tested, hits, true = Sampler("gumbel"), [], [], []
    for more in (False, True):
        counts, law = medians(count, share, sampler, more=more), median_law(share, more=more)
        found, classes = pvalue(counts, law)
        name = f"median of {LOW + HIGH + more} rows, noise {share:g}"
        tested.append({"law": "descent", "scores": name, "draws": int(counts.sum()), "classes": classes,
                       "p-value": found})  # fmt: skip
        if share == 1:
            counts_too = chosen(WHOLE, share, sampler, more=more)
            found, classes = pvalue(counts_too, law)
            tested.append({"law": "descent", "scores": f"{name}, each draw a descent", "draws": WHOLE,
                           "classes": classes, "p-value": found})  # fmt: skip
        hits.append(int(counts[:BLOCK].sum()))
        true.append(float(law[:BLOCK].sum()))
    return tested, [attack(f"median of {LOW + HIGH} rows by descent", share, hits, true, count)]


# Reports


def figure_of(every: pd.DataFrame, bounds: pd.DataFrame, attacks: pd.DataFrame) -> Figure:
    """Noise against mechanism, errors, theorem 6, and attacks."""
    figure, ((first, second), (third, fourth)) = new_figure(11, 7.4, 2, 2)
    two = np.stack([np.zeros(len(GAPS)), GAPS], axis=1)
    first.plot(GAPS, softmax(two)[:, 1], label="Gumbel noise = exponential mechanism")
    first.plot(GAPS, flipped(two)[:, 1], "--", label="exponential noise = permute-and-flip")
    first.set(xscale="log", xlabel="gap of two scores, in noise scales", ylabel="probability of the worse one")
    first.legend(frameon=False, fontsize=8)
    for place, candidates in enumerate(CANDIDATES):
        part = every[(every["candidates"] == candidates) & (every["exponential"] > 1e-12)]
        kind = "-" if candidates == 2 else "."
        second.plot(part["gap"], part["flip"] / part["exponential"], kind, ms=2.5, color=f"C{place}",
                    label=f"{candidates} candidates")  # fmt: skip
    second.axhline(1, color="black", lw=0.8)
    second.set(xscale="log", xlabel="largest gap, in noise scales",
               ylabel="expected error over the exponential mechanism's", title="permute-and-flip, PureDP")  # fmt: skip
    second.legend(frameon=False, fontsize=8)
    part = bounds[bounds["mechanism"] == NAMES["gumbel"]]
    for place, candidates in enumerate(CANDIDATES):
        mine = part[part["candidates"] == candidates]
        third.plot(mine["t"], mine["worst tail, theorem 6"], "o-", ms=4, color=f"C{place}",
                   label=f"{candidates} candidates")  # fmt: skip
    third.plot(mine["t"], mine["exp(-t)"], "k--", label="stated: exp(-t)")
    third.set(yscale="log", xlabel="t", ylabel="probability of an error beyond theorem 6")
    third.legend(frameon=False, fontsize=8)
    place = np.arange(len(attacks))[::-1]
    colors = np.where(attacks["noise"] == 1, "#4477aa", "#cc6677")
    fourth.barh(place, attacks["lower bound"], color=colors)
    fourth.plot(attacks["log ratio, exact"], place, "k|", ms=14)
    fourth.axvline(EPSILON, color="black", lw=0.9, ls="--")
    said = [f"{row['mechanism']},\nnoise {row['noise']:g}" for _, row in attacks.iterrows()]
    fourth.set_yticks(place, said, fontsize=7)
    fourth.set(xlabel="lower bound on epsilon (bar), exact (mark), stated (dashed)")
    return figure


def run(arguments: Options) -> list[Claim]:
    """Compare exactly, then draw, test and attack."""
    count = arguments.replicates
    every = losses()
    lost, bounds, noise = loss_table(every), theorem(), noise_against_mechanism()
    notes = [
        "Expected error of permute-and-flip over the exponential mechanism's at one epsilon, exactly, over gaps of "
        f"{GAPS[0]:g} to {GAPS[-1]:g} noise scales; then, at a budget in ZCDP or GDP, where the exponential mechanism "
        "needs half the noise, its error over permute-and-flip's."
    ]
    write_table(lost, "selection_laws_error", arguments, notes)
    notes = [
        "Sensitivity 1, epsilon 1, noise of scale 2. Worst scores: one candidate is the best, all others just so far "
        f"below. Votes: {VOTES} rows in shares 1, 1/2, 1/3, ... Bounds are in votes, tails are probabilities."
    ]
    write_table(bounds, "selection_laws_theorem", arguments, notes)
    tasks = [delayed(sampled)(law, count) for law in EXACT] + [delayed(descended)(share, count) for share in (1, SHORT)]
    parts = list(Parallel(n_jobs=1 if count < ENOUGH else arguments.jobs)(tasks))
    tests = pd.DataFrame([row for tested, _ in parts for row in tested])
    attacks = pd.DataFrame([row for _, attacked in parts for row in attacked])
    write_table(tests, "selection_laws", arguments, ["The library's own sampler against exact probabilities."])
    notes = [
        f"Clopper-Pearson, wrong with probability {ERROR:g}; noise in shares of what epsilon = {EPSILON:g} asks for. "
        "Neighbours: 0 and 3 votes against 0 and 4 (exponential mechanism), 0 and 0 against 0 and 1 "
        f"(permute-and-flip), {LOW + HIGH} rows against one more (median)."
    ]
    write_table(attacks, "selection_laws_attack", arguments, notes)
    write_figure(figure_of(every, bounds, attacks), "selection_laws", arguments)
    return claims(lost, bounds, noise, tests, attacks)


def claims(
    lost: pd.DataFrame,
    bounds: pd.DataFrame,
    noise: tuple[float, float, float],
    tests: pd.DataFrame,
    attacks: pd.DataFrame,
) -> list[Claim]:
    """What the tables show."""
    excess = float(lost["largest excess of permute-and-flip"].max())
    gaussian = float(lost["exponential over permute-and-flip, Gaussian price"].max())
    tail = float((bounds["worst tail, theorem 6"] / bounds["exp(-t)"]).max())
    sharp = float((bounds["worst tail, sharp"] / bounds["exp(-t)"]).max())
    late = bounds[bounds["t"] >= 3]
    shorter = late["accuracy(sharp)"] / late["theorem 6"]
    over = float((late["accuracy(sharp)"] / late["least possible"]).max())
    difference, at, gumbel = noise
    least = float(tests["p-value"].min())
    right, short = attacks[attacks["noise"] == 1], attacks[attacks["noise"] < 1]
    vectors = f"{int(lost['vectors'].sum()):,} vectors of 2 to 100 scores"
    designs = f"{len(bounds)} values of d and t, both mechanisms"
    found = [
        Claim("noisy max with exponential noise against the exponential mechanism: largest difference", vectors,
              f"{difference:.3f} (largest gap {at:.2g} scales)", difference > 0.01,
              published=f"0 ({SMITH}, exercise 2)"),
        Claim("the same with Gumbel noise", "18 vectors of 2 to 10 scores, by quadrature", f"{gumbel:.1e}",
              gumbel < 1e-9, published="0"),
        Claim("largest excess of permute-and-flip's expected error, PureDP", vectors,
              f"{excess:.1e}; at best {lost['least ratio'].min():.2f} times", excess <= 1e-12,
              published="never worse (McKenna & Sheldon)"),
        Claim("largest error of the exponential mechanism over permute-and-flip's, ZCDP or GDP", vectors,
              f"{gaussian:.4f}", gaussian <= 1),
        Claim("largest exact probability of an error beyond theorem 6 over exp(-t)", designs, f"{tail:.3f}",
              tail <= 1, published=f"at most 1 ({SMITH})"),
        Claim("the same of accuracy(), and its length over theorem 6's for t of 3 and more", designs,
              f"{sharp:.3f}; {shorter.min():.2f} to {shorter.max():.2f}", sharp <= 1 + 1e-9),
        Claim("accuracy() over the least bound that can hold, t of 3 and more", designs, f"{over:.4f}", over <= 1.05),
        Claim("least chi-squared p-value of the sampler against exact probabilities",
              f"{len(tests)} vectors, {int(tests['draws'].max()):,} draws each", f"{least:.2g}", least >= LEAST),
        Claim("choices attacked: largest lower bound over the stated epsilon", "both laws and the quantile's descent",
              f"{right['lower bound'].max() / EPSILON:.3f}", not right["exceeded"].any()),
    ]  # fmt: skip
    if attacks["draws"].min() >= ENOUGH:
        caught = f"{int(short['exceeded'].sum())} of {len(short)}"
        design = "both laws and the quantile's descent"
        found.append(Claim("20% too little noise in choices is caught", design, caught, short["exceeded"].all()))
    return found

"""Exact noise: floating point decides as exact arithmetic does, and the distribution is OpenDP's."""

import os
from decimal import Decimal, Inexact, Rounded, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpinfer.kernel import noise
from dpinfer.kernel.noise import LARGEST_SCALE, exact_noise


@pytest.fixture
def seeded(monkeypatch):
    """Let the operating system's bits be those of a seed, so that nothing here fails by chance."""

    def seed(number):
        rng = np.random.default_rng(number)
        monkeypatch.setattr(noise.os, "urandom", rng.bytes)

    yield seed
    monkeypatch.undo()


GRID = np.concatenate([np.geomspace(2.0**-8, LARGEST_SCALE, 150), [0.5, 1.0, 2.0, 3.0, 2.0**52, 2.0**53 + 2]])


@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_margin_decides_nothing(gaussian, seed, seeded):
    """All comparisons in exact arithmetic give the draws that floating point gives, bit by bit."""
    scales = GRID[GRID >= 2.0**-4] if gaussian else GRID
    seeded(seed)
    quick = exact_noise(scales, gaussian)
    seeded(seed)
    assert exact_noise(scales, gaussian, margin=2.0) == quick


def threshold(exponent):
    """Return 2^64 exp(-exponent) to 120 digits."""
    with localcontext(prec=120):
        return Fraction((-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()) * 2**64


def near(edge, reach=(0, 1, -1, 2**12, -(2**12), 2**20, -(2**20), 2**25, -(2**25))):
    return [word for word in (int(edge) + distance for distance in reach) if 0 < word < 2**64]


@pytest.mark.parametrize("gaussian", [True, False])
def test_words_at_a_threshold_are_told_apart(gaussian, monkeypatch):
    """For scales up to 2^56 the proposal is -(K t + V), and accepted exactly below its probability."""
    rng = np.random.default_rng(0)
    for scale in np.concatenate([2.0 ** rng.uniform(-4, 56, 60), [0.5, 1.0, 2.0**52, 2.0**53, 2.0**56]]):
        exact, width = Fraction(float(scale)), int(max(np.floor(scale) + 1, np.nextafter(scale, np.inf)))
        for steps in (0, 1, 2, 36):
            for within in {0, width - 1, int(rng.integers(width)), int(rng.integers(width)) // 10**5}:
                place = steps * width + within
                exponent = place / exact - steps
                if gaussian:
                    exponent = (place / exact) ** 2 / 2 + max(0, 1 - (width / exact) ** 2 / 2) - steps
                if not 0 < exponent < 30:
                    continue
                words = near(threshold(exponent))
                count, depth = len(words), int(np.exp(-steps - 0.5) * 2.0**64)
                first, second = [depth] * count, [within | (place > 0) << 63] * count
                bits = np.array([first, second, words], dtype=np.uint64).tobytes()
                more = {24 * count: bits}
                monkeypatch.setattr(noise.os, "urandom", lambda size, more=more: more.get(size, b"\xff" * size))
                drawn, accepted = noise._propose(np.full(count, scale), gaussian, noise.MARGIN)
                assert set(drawn.tolist()) == {-place}
                assert accepted.tolist() == [word + 1 <= threshold(exponent) for word in words]


def test_steps_are_told_apart_at_their_thresholds(monkeypatch):
    monkeypatch.setattr(noise.os, "urandom", lambda size: b"\xff" * size)
    for steps in range(1, 44):
        edge = threshold(Fraction(steps))
        words = near(edge)
        found = noise._geometric(np.array(words, dtype=np.uint64), noise.MARGIN)
        assert (found >= steps).tolist() == [word + 1 <= edge for word in words]


def test_what_the_caller_has_set_for_decimals_changes_nothing():
    with localcontext() as context:
        context.traps[Inexact] = context.traps[Rounded] = True
        context.prec, context.Emax = 5, 3
        assert noise._geometric(np.array([2**64 - 1], dtype=np.uint64), noise.MARGIN).tolist() == [0]


def mass(support, scale, gaussian):
    found = np.exp(-(support**2) / (2 * scale**2)) if gaussian else np.exp(-np.abs(support) / scale)
    return found / found.sum()


@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("scale", [0.3, 0.99, 1.0, 1.01, 2.5, 17.0])
def test_draws_have_the_distribution(gaussian, scale, seeded):
    seeded(7)
    size = 100_000
    drawn = np.array(exact_noise(np.full(size, scale), gaussian))
    reach = int(60 * scale) + 3
    support = np.arange(-reach, reach + 1)
    expected = size * mass(support, scale, gaussian)
    often = expected > 20
    counts = np.array([(drawn == value).sum() for value in support[often]])
    rare = size - counts.sum(), size - expected[often].sum()
    distance = ((counts - expected[often]) ** 2 / expected[often]).sum() + (rare[0] - rare[1]) ** 2 / max(rare[1], 1.0)
    assert stats.chi2.sf(distance, often.sum()) > 1e-4
    wrong = size * mass(support, 1.05 * scale, gaussian)[often]
    assert stats.chi2.sf(((counts - wrong) ** 2 / wrong).sum(), often.sum()) < 1e-4


def test_the_distribution_is_that_of_the_reference():
    """OpenDP's samplers draw no other law; fails a right sampler with probability 1e-6 a case."""
    from opendp import prelude as opendp

    opendp.enable_features("contrib")
    domain = opendp.vector_domain(opendp.atom_domain(T="i64"), size=20_000)
    for make, metric, gaussian in (
        (opendp.m.make_gaussian, opendp.l2_distance, True),
        (opendp.m.make_laplace, opendp.l1_distance, False),
    ):
        for scale in (1.7, 1e6):
            theirs = make(domain, metric(T="f64"), scale=scale)([0] * 20_000)
            ours = exact_noise(np.full(20_000, scale), gaussian)
            if scale < 10:
                ends = np.arange(-4, 5)
                table = [np.bincount(np.searchsorted(ends, one), minlength=10) for one in (ours, theirs)]
                assert stats.chi2_contingency(table).pvalue > 1e-6
            else:
                assert stats.ks_2samp(ours, theirs).pvalue > 1e-6


@given(st.integers(0, 2**64 - 1), st.fractions(0, 60, max_denominator=10**6))
def test_a_uniform_number_is_compared_exactly(word, exponent):
    found = noise._Uniform(word).below(exponent)
    with localcontext(prec=200):
        threshold = (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp() * 2**64
    if word + 1 <= threshold:
        assert found
    elif word >= threshold:
        assert not found


def test_more_bits_are_drawn_where_64_do_not_tell(monkeypatch):
    exponent = Fraction(1, 3)
    with localcontext(prec=200):
        threshold = (-Decimal(1) / Decimal(3)).exp() * 2**64
    word, rest = int(threshold), threshold - int(threshold)
    following = int(rest * 2**64)
    for change, below in ((-1, True), (1, False)):
        monkeypatch.setattr(noise.os, "urandom", lambda size, more=following + change: more.to_bytes(size))
        assert noise._Uniform(word).below(exponent) is below
    assert noise._Uniform(2**64 - 1).below(Fraction(0))


def test_a_word_of_zeros_is_a_deep_step(monkeypatch):
    """The 64 bits of e^-44.4 and less are alike: more bits say how deep."""
    monkeypatch.setattr(noise.os, "urandom", lambda size: b"\xff" * size)
    assert noise._geometric(np.zeros(1, dtype=np.uint64), noise.MARGIN).tolist() == [44]


def test_draws_of_many_blocks_are_all_made(monkeypatch):
    monkeypatch.setattr(noise, "_BLOCK", 3)
    drawn = exact_noise(np.array([0.0, *[2.0**40] * 9, 0.0]), gaussian=True)
    assert drawn[0] == drawn[-1] == 0
    assert len(set(drawn)) == 10
    assert all(type(one) is int for one in drawn)
    assert exact_noise(np.array([]), gaussian=True) == []


def test_bits_are_the_operating_systems(monkeypatch):
    asked = []
    urandom = os.urandom
    monkeypatch.setattr(noise.os, "urandom", lambda size: asked.append(size) or urandom(size))
    exact_noise(np.full(100, 1e3), gaussian=True)
    assert asked[0] == 24 * 100 * noise._TRIES

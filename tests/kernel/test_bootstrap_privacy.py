"""The stated bounds and costs of the bootstrap: on noise-free integers, and by an audit that tries to break them.

One row of any cells is taken away, or replaced by another; the weights of the others stay. Sums are integers without
noise, and the arithmetic is exact.
"""

from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

import dpinfer as dpi
from dpinfer.errors import OptionError
from dpinfer.kernel.price import amounts, price_stage
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.products import GramSum, ReplicateSum
from dpinfer.kernel.sampling import PrivateDraws, private_noise
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.stage import Context, Resampled, Slot, Stage, Sum
from dpinfer.kernel.sums import replicate_sums
from dpinfer.privacy.accounting import joint_cost
from dpinfer.privacy.exact import decimal
from dpinfer.privacy.resampling import DOUBLE_OR_NOTHING, FAILURE, POISSON, composed_epsilon, noise_mu, resampled_cost
from dpinfer.privacy.units import gaussian_epsilon
from dpinfer.release import NoiseLaw
from dpinfer.schema.basis import basis_of
from dpinfer.schema.expressions import compile_condition
from tests.kernel.weights import from_table

SCHEMA = dpi.Schema(
    x=dpi.Real(-3, 11),
    y=dpi.Real(0, 50),
    k=dpi.Integer(0, 16),
    b=dpi.Boolean(),
    g=dpi.Category(["a", "b", "c"]),
    u=dpi.Real(0, 1, missing=0.5, impossible=0),
    v=dpi.Integer(-2, 2, missing=0, impossible=2),
)
CASES = {
    "mean": {"columns": "x"},
    "means": {"columns": ["x", "y", "k"]},
    "expressions": {"columns": ["x * y", "log(1 + y)"]},
    "levels": {"columns": "g", "statistic": "proportion"},
    "conditions": {"columns": ["x > 4", "b"], "statistic": "proportion"},
    "variance": {"columns": "x", "statistic": "variance"},
    "covariances": {"columns": ["x", "y", "k"], "statistic": "cov"},
    "arithmetic": {"columns": ["x", "y"], "statistic": "x / y"},
    "where": {"columns": "x", "where": "k > 3"},
    "kept": {"columns": ["u", "v"]},
    "regression": {"columns": "y ~ x + k"},
    "factors": {"columns": "y ~ g * x + b"},
    "regression where": {"columns": "y ~ log(4 + x)", "where": "b"},
    "regression kept": {"columns": "u ~ v"},
}
SECRET = {"double_or_nothing": (dpi.GDP(1.0), 10), "poisson": (dpi.GDP(0.5), 50)}
LAWS = {"double_or_nothing": DOUBLE_OR_NOTHING, "poisson": POISSON}
PUBLIC = [dpi.ZCDP(0.5), dpi.GDP(0.3), dpi.ApproxDP(1.0, 1e-6)]

CELLS = {
    "x": st.sampled_from([-3, 11, 4.0, np.nan, np.inf, -np.inf, 1e300, 5e-324, None, "?", -1e9]) | st.floats(-3, 11),
    "y": st.sampled_from([0, 50, -1, 51.5, np.nan, None, "50"]) | st.floats(0, 50),
    "k": st.sampled_from([0, 16, 4, 3, 2.5, 10**20, -1, None, True]),
    "b": st.sampled_from([True, False, None, "maybe", 0, 1.0]),
    "g": st.sampled_from(["a", "b", "c", "z", None, 3]),
    "u": st.sampled_from([0, 1, None, "?", np.nan, 7]) | st.floats(0, 1),
    "v": st.sampled_from([-2, 2, 0, 1.5, None, "?", -(10**9)]),
}
CORNER = {"x": 11, "y": 50, "k": 16, "b": True, "g": "a", "u": 1, "v": 2}
OPPOSITE = {"x": -3, "y": 0, "k": 0, "b": False, "g": "b", "u": 0, "v": -2}


@cache
def measured(name, weights, price, replicates, neighbors="add_remove"):
    question = dpi.bootstrap(**CASES[name], weights=weights, replicates=replicates, seed=3)
    return question.measurement(price, schema=SCHEMA, neighbors=neighbors)


def table_of(cells):
    return pd.DataFrame({name: pd.Series([row[name] for row in cells], dtype=object) for name in SCHEMA})


def sums_of(rows, frame, draw):
    """Integer sums (B, d) without noise."""
    found = replicate_sums(rows, open_source(frame), draw, threads=1)
    return np.array(found, dtype=object).reshape(rows.replicates, rows.width)


def integers_of(rows, frame):
    source = open_source(frame)
    found = rows.encode(source.read(rows.columns, 0, len(frame)))
    return found.T.astype(np.int64).astype(object)


def loss(measurement, moved):
    """Exact sum of (change / scale)^2; sums without noise must not change."""
    total = Fraction(0)
    for change, scale in zip(moved, measurement.law.scales, strict=True):
        if scale == 0:
            assert change == 0
        elif change:
            total += (Fraction(int(change)) * measurement.multiplier / Fraction(scale)) ** 2
    return total


frames = st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=5)


# Secret weights: a row more or less


@pytest.mark.slow
@pytest.mark.parametrize("weights", SECRET)
@settings(max_examples=120)
@given(data=st.data(), name=st.sampled_from(list(CASES)), cells=frames)
def test_taking_a_row_away_moves_every_sum_by_its_weight_times_a_bounded_vector(weights, data, name, cells):
    price, replicates = SECRET[weights]
    measurement = measured(name, weights, price, replicates)
    rows, law = measurement.rows, LAWS[weights]
    place = data.draw(st.integers(0, len(cells) - 1))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    kind, top = (np.uint16, 2**16) if weights == "poisson" else (np.uint8, 2)
    table = rng.integers(0, top, (replicates, len(cells)), dtype=kind)
    frame = table_of(cells)
    fewer = frame.drop(index=place)
    moved = sums_of(rows, frame, from_table(table)) - sums_of(rows, fewer, from_table(np.delete(table, place, axis=1)))
    row = integers_of(rows, frame.iloc[[place]])[0]
    own = np.searchsorted(np.cumsum(law.counts) * (top // law.total), table[:, place], side="right")
    assert set(own) <= ({0, 2} if weights == "double_or_nothing" else set(range(7)))
    np.testing.assert_array_equal(moved, np.outer(own, row))
    mu = Fraction(noise_mu(law, price.mu, replicates))
    once = np.concatenate([row, np.zeros((replicates - 1) * rows.width, dtype=object)])
    assert loss(measurement, once) <= mu**2 / replicates


@pytest.mark.parametrize("name", CASES)
def test_the_bound_of_one_row_is_attained(name):
    price, replicates = SECRET["double_or_nothing"]
    measurement = measured(name, "double_or_nothing", price, replicates)
    rows = measurement.rows
    row = integers_of(rows, table_of([CORNER]))[0]
    used = loss(measurement, np.tile(row, replicates))
    assert 0.9999 < used / Fraction(noise_mu(DOUBLE_OR_NOTHING, price.mu, replicates)) ** 2 <= 1


@pytest.mark.parametrize("weights", SECRET)
def test_the_cost_is_the_price_with_what_was_set_aside(weights):
    price, replicates = SECRET[weights]
    for name in ("mean", "factors"):
        measurement = measured(name, weights, price, replicates)
        assert measurement.cost.mu_squared == decimal(price.mu) ** 2
        assert measurement.cost.delta0 == Fraction(FAILURE)
        assert 0 < measurement.cost.tau < 1e-9
        assert measurement.cost.rho is measurement.cost.approx is measurement.cost.pure_epsilon is None
        assert min(measurement.law.scales) >= 2.0**24
        assert len(measurement.law.scales) == replicates * measurement.rows.width


# Weights in pairs: public ones, a row replaced; secret ones, a row more or less too; whatever they are


def allowed(measurement, price):
    """Largest squared norm of the change over the noise that a price allows."""
    return {dpi.ZCDP: 2 * decimal(0.5), dpi.GDP: decimal(0.3) ** 2}.get(type(price), 2 * measurement.cost.rho)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_paired_weights_cost_in_every_unit_but_the_pure_one(neighbors):
    for price in PUBLIC:
        cost = measured("means", "paired", price, 10, neighbors).cost
        assert cost.rho is not None
        assert cost.mu_squared is not None
        assert cost.delta0 == 0
    assert measured("means", "paired", dpi.ZCDP(0.5), 10, neighbors).cost.rho == Fraction(1, 2)
    assert measured("means", "paired", dpi.GDP(1.0), 10, neighbors).cost.rho == Fraction(1, 2)


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["public", "paired"])
@settings(max_examples=120)
@given(
    data=st.data(),
    name=st.sampled_from(list(CASES)),
    cells=frames,
    other=st.fixed_dictionaries(CELLS) | st.none(),
    price=st.sampled_from(PUBLIC),
    replicates=st.sampled_from([2, 10, 36]),
)
def test_weights_in_pairs_move_one_sum_of_two_and_all_within_the_price(
    weights, data, name, cells, other, price, replicates
):
    if weights == "public" and other is None:
        other = OPPOSITE
    measurement = measured(name, weights, price, replicates, "add_remove" if other is None else "replace_one")
    rows, place = measurement.rows, data.draw(st.integers(0, len(cells) - 1))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    table = rng.integers(0, 2, (replicates // 2, len(cells)), dtype=np.uint8)
    kept = [one for one in (*cells[:place], other, *cells[place + 1 :]) if one is not None]
    fewer = np.delete(table, place, axis=1) if other is None else table
    drawn = [PrivateDraws()] * 2 if weights == "public" else [from_table(table), from_table(fewer)]
    first, second = (sums_of(rows, table_of(one), draw) for one, draw in zip((cells, kept), drawn, strict=True))
    for sums, one in ((first, cells), (second, kept)):
        once = integers_of(rows, table_of(one)).sum(axis=0) if one else np.zeros(rows.width, dtype=object)
        np.testing.assert_array_equal(sums[0::2] + sums[1::2], [2 * once] * (replicates // 2))
    once = integers_of(rows, table_of([cells[place]]))[0]
    if other is not None:
        once = once - integers_of(rows, table_of([other]))[0]
    moved = first - second
    for pair in moved.reshape(-1, 2, rows.width).tolist():
        assert pair in ([(2 * once).tolist(), (0 * once).tolist()], [(0 * once).tolist(), (2 * once).tolist()])
    used = loss(measurement, moved.ravel())
    assert used == 2 * loss(measurement, np.tile(once, replicates))
    assert used <= allowed(measurement, price)


@pytest.mark.parametrize("price", PUBLIC, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_the_bound_of_weights_in_pairs_is_attained(name, price):
    """By a row more or less; and by a row replaced, where no policy keeps rows closer together."""
    row = integers_of(measured(name, "paired", price, 10).rows, table_of([CORNER]))[0]
    measurement = measured(name, "paired", price, 10)
    assert 0.9999 < 2 * loss(measurement, np.tile(row, 10)) / allowed(measurement, price) <= 1
    if name in ("mean", "means", "conditions", "kept", "regression kept"):
        measurement = measured(name, "public", price, 10, "replace_one")
        pairs = [(CORNER, OPPOSITE), (CORNER, {**CORNER, "v": 0, "u": 0}), ({**CORNER, "v": 0}, {**CORNER, "u": 0})]
        apart = [np.subtract(*integers_of(measurement.rows, table_of(pair))) for pair in pairs]
        found = [2 * loss(measurement, np.tile(one, 10)) / (2 * measurement.cost.rho) for one in apart]
        assert (0.6 if name == "regression kept" else 0.9999) < max(found) <= 1


def renyi(order, shift, replicates):
    """Divergence of a whole order of B sums with the unit, under weights 0 or 2 each, from B sums without."""
    counts = np.arange(order + 1)
    terms = special.gammaln(order + 1) - special.gammaln(counts + 1) - special.gammaln(order - counts + 1)
    terms += counts * (counts - 1) * (2 * shift) ** 2 / 2 - order * np.log(2)
    return replicates * special.logsumexp(terms) / (order - 1)


def test_independent_weights_cost_four_times_under_zcdp_and_no_more():
    """Over all orders the divergence rises to the square of the largest weight, 4 times that of weights of 1."""
    for mu, replicates in ((1.0, 10), (1.0, 200), (0.3, 50)):
        shift = mu / np.sqrt(replicates)
        claimed = mu**2 / 2
        ratios = [renyi(order, shift, replicates) / (order * claimed) for order in (2, 100, 10_000, 1_000_000)]
        assert ratios == sorted(ratios)
        assert ratios[0] > 1
        assert 3.98 < ratios[-1] <= 4
    # Pairs have one square sum of weights, 2 for each sum, whatever they are.
    noise = {}
    for weights in ("double_or_nothing", "paired"):
        found = measured("means", weights, dpi.GDP(1.0), 10)
        noise[weights] = found.law.scales[0] * found.steps[0]
    assert 1.05 < noise["paired"] / noise["double_or_nothing"] < np.sqrt(2)


def test_the_number_of_rows_is_exact_only_where_policies_keep_every_row():
    for name in CASES:
        for replicates in (2, 10):
            measurement = measured(name, "public", dpi.GDP(0.3), replicates, "replace_one")
            scales = np.array(measurement.law.scales).reshape(replicates, -1)
            assert (scales[:, 1:] > 0).all()
            assert ((scales[:, 0] == 0) == (name in ("kept", "regression kept"))).all()
        secret = measured(name, "double_or_nothing", *SECRET["double_or_nothing"])
        assert min(secret.law.scales) > 0


# Rows that are only counted: their steps are those of the grid, and so is their bound


def counted(weights, price, replicates=10, *, neighbors="add_remove", most=1):
    """Price the number of rows that meet a condition, which no relation makes public; and what one unit adds to it."""
    schema = SCHEMA if most == 1 else SCHEMA.with_people("id", most)
    rows = ReplicateSum(Features(basis_of((), schema), compile_condition("k > 3", schema)), False, replicates, weights)
    unit = most * integers_of(rows, table_of([CORNER]))[0]
    assert unit.tolist() == [most * rows.unit]
    return price_stage(Stage(Resampled(rows)), price, Context(schema, neighbors, price)), np.tile(unit, replicates)


@pytest.mark.parametrize("price", PUBLIC, ids=str)
@pytest.mark.parametrize(
    ("weights", "neighbors", "most"),
    [
        ("public", "replace_one", 1),
        *(("paired", neighbors, most) for neighbors in ("add_remove", "replace_one") for most in (1, 3)),
    ],
)
def test_the_bound_of_a_counted_unit_in_pairs_is_attained(weights, neighbors, most, price):
    priced, moved = counted(weights, price, neighbors=neighbors, most=most)
    assert 0.9999 < 2 * loss(priced, moved) / allowed(priced, price) <= 1


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("weights", SECRET)
def test_the_bound_of_a_counted_unit_under_independent_weights_is_attained(weights, most):
    price, replicates = SECRET[weights]
    priced, moved = counted(weights, price, replicates, most=most)
    assert 0.9999 < loss(priced, moved) / Fraction(noise_mu(LAWS[weights], price.mu, replicates)) ** 2 <= 1


def test_a_public_number_of_rows_alone_is_not_asked_for():
    features = Features(basis_of((), SCHEMA))
    measures = [Resampled(ReplicateSum(features, products, 10, "paired")) for products in (False, True)]
    for measure in (*measures, Sum(GramSum(features))):
        with pytest.raises(OptionError, match="is public here"):
            price_stage(Stage(measure), dpi.GDP(0.3), Context(SCHEMA, "replace_one", dpi.GDP(0.3)))


def test_a_share_of_a_price_has_a_grid_that_is_fine_enough_for_the_whole():
    """Else the total variation of all stages' noise is more than the price sets aside for it."""
    price = dpi.ApproxDP(1.0, 1e-12)
    features, context = Features(basis_of(("x",), SCHEMA)), Context(SCHEMA, "add_remove", price)
    measures = (Sum(CellSum(features)), Resampled(ReplicateSum(features, False, 200, "paired")))
    shares = amounts(price, (Slot(Fraction(1, 2), 2), Slot(Fraction(1, 2), 400)))
    priced = [price_stage(Stage(one), share, context, most=402) for one, share in zip(measures, shares, strict=True)]
    assert joint_cost(price, [stage.cost for stage in priced]).approx == price


# An audit: whether sums reveal more than is said about the row that can be revealed most

LEVEL = 1e-7
"""Probability with which a bound on a rate is wrong."""

DELTA = 0.1
DRAWS = {1: 150_000, 10: 40_000, 50: 20_000}
"""Runs by number of replicates: as many weights as one pass over a single row holds."""


def ratios(weights, noise, sums):
    """Log-likelihood ratio of the row being there, of runs of sums (N, B) in multiples of what the row adds."""
    masses = [(weight, mass) for weight, mass in enumerate(LAWS[weights].probabilities) if mass]
    terms = [np.log(mass) + (weight * sums - 0.5 * weight**2) / noise**2 for weight, mass in masses]
    return np.logaddexp.reduce(terms, axis=0).sum(axis=1)


def epsilon_shown(there, absent, delta, threshold):
    """Epsilon that runs with and without the row prove, but for a probability of 2 `LEVEL` (Clopper-Pearson)."""
    found = []
    for first, second in ((there, absent), (-absent, -there)):
        hits, alarms = int((first > threshold).sum()), int((second > threshold).sum())
        least = stats.beta.ppf(LEVEL, hits, len(first) - hits + 1) if hits else 0.0
        most = stats.beta.isf(LEVEL, alarms + 1, len(second) - alarms)
        found.append(np.log(max(least - delta, 1e-300) / most))
    return max(found)


@cache
def secret_draws(weights, replicates, runs):
    """Weights of the kernel (N, B): one row, weighed anew in every one of N B sums."""
    schema = dpi.Schema(x=dpi.Real(0, 1))
    frame = pd.DataFrame({"x": [1.0]})
    question = dpi.bootstrap("x", replicates=replicates + (replicates == 1), weights=weights)
    rows = replace(question.plan(schema).rows, replicates=runs * replicates)
    sums = replicate_sums(rows, open_source(frame), PrivateDraws(), threads=1)
    return np.array(sums[1::2], dtype=float).reshape(runs, replicates) / rows.unit


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weights", "replicates"),
    [("double_or_nothing", 1), ("double_or_nothing", 10), ("double_or_nothing", 50), ("poisson", 50)],
)
def test_the_exact_cost_survives_an_audit_that_catches_a_fifth_too_little_noise(weights, replicates):
    """A right mechanism fails with probability 4e-7; one with too little noise passes with less than 1e-4."""
    runs = DRAWS[replicates]
    stated = composed_epsilon(LAWS[weights], 1.0, replicates, DELTA)
    counted = secret_draws(weights, replicates, runs)
    law = NoiseLaw("gaussian", (2.0**40 * np.sqrt(replicates),) * replicates)
    rng = np.random.default_rng(41)
    noise = [law.rvs(runs, rng) / 2.0**40 for _ in range(2)]
    shown = {
        share: epsilon_shown(
            *(
                ratios(weights, share * np.sqrt(replicates), share * one + row)
                for one, row in zip(noise, (counted, 0), strict=True)
            ),
            DELTA,
            stated,
        )
        for share in (1.0, 0.8)
    }
    assert 0.5 * stated < shown[1.0] <= stated
    assert shown[0.8] > stated


@pytest.mark.slow
def test_releases_of_the_kernel_survive_the_audit():
    """Weights, sums and noise as they are released; false alarm 4e-7, and a claim of two fifths of mu is refuted."""
    runs, replicates, price = 3000, 10, dpi.GDP(1.0)
    schema = dpi.Schema(x=dpi.Real(0, 1))
    measurement = dpi.bootstrap("x", replicates=replicates).measurement(price, schema=schema, neighbors="add_remove")
    rows = replace(measurement.rows, replicates=runs * replicates)  # as many runs at once
    law, steps = NoiseLaw("gaussian", measurement.law.scales * runs), np.array(measurement.steps * runs)
    found = []
    for cells in ([1.0], []):
        source = open_source(pd.DataFrame({"x": cells}, dtype=float))
        exact, noise = replicate_sums(rows, source, PrivateDraws()), private_noise(law)
        noisy = np.array(exact, dtype=object) * measurement.multiplier + np.array(noise, dtype=object)
        found.append((noisy.astype(float) * steps).reshape(runs, replicates, 2).mean(axis=2))
    mu, _ = resampled_cost(DOUBLE_OR_NOTHING, price, replicates)
    assert found[1].std() * np.sqrt(2) == pytest.approx(np.sqrt(2 * replicates) / mu, rel=0.03)
    assert found[0].mean() == pytest.approx(1.0, abs=6 * found[0].std() / np.sqrt(found[0].size))
    there, absent = (ratios("double_or_nothing", np.sqrt(replicates) / mu, sums) for sums in found)
    stated, less = (composed_epsilon(DOUBLE_OR_NOTHING, share * mu, replicates, DELTA) for share in (1, 0.4))
    assert stated < gaussian_epsilon(1.0, DELTA)
    assert epsilon_shown(there, absent, DELTA, stated) <= stated
    assert epsilon_shown(there, absent, DELTA, less) > less

"""Privacy of the stages of a density: what rows may move, what the stages cost, and what later stages depend on."""

from dataclasses import replace
from fractions import Fraction
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.distributions.density import BinGrid, density
from dpinfer.kernel import sampling
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.stage import Context
from dpinfer.kernel.sums import exact_sums
from dpinfer.privacy.exact import binary, decimal
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.schema.expressions import compile_condition
from tests.asking import assert_refused, each

NAN = float("nan")
SCHEMA = dpi.Schema(x=dpi.Real(0, 1), k=dpi.Integer(-3, 40), full=dpi.Real(0, 1, missing=0.5, impossible=0.5))
UNITS = dpi.PureDP(0.7), dpi.ZCDP(0.1), dpi.GDP(0.6), dpi.ApproxDP(1.0, 1e-6)
PRICES = dict(zip(("pure", "zcdp", "gdp", "approximate"), UNITS, strict=True))
CELLS = st.sampled_from(
    [0.0, 1.0, 0.5, 0.25, np.nextafter(0.25, 0), 1e300, -1e300, NAN, np.inf, -np.inf, 3, 40, -3, 2.5]
)


@cache
def stages(column, where=None):
    """The row functions of all that may be counted in one release: rows, fine bins, bins."""
    rows = BinGrid(SCHEMA, column, where=None if where is None else compile_condition(where, SCHEMA))
    return rows, [rows.stage(width) for width in (rows.size, 320, 4, 1)]


def counts_of(rows, frame):
    return np.array(exact_sums(rows, open_source(frame)))


def frame_of(cells):
    return pd.DataFrame({name: np.array(cells, dtype=float) for name in SCHEMA})


@pytest.mark.slow
@given(st.lists(CELLS, max_size=6), CELLS, CELLS)
@pytest.mark.parametrize("column", ["x", "k", "full"])
@pytest.mark.parametrize("where", [None, "x > 0.3"])
def test_a_row_moves_the_counts_of_any_stage_by_no_more_than_the_bound(column, where, others, first, second):
    for rows in stages(column, where)[1]:
        with_first = counts_of(rows, frame_of([*others, first]))
        moved = {
            "add_remove": with_first - counts_of(rows, frame_of(others)),
            "replace_one": with_first - counts_of(rows, frame_of([*others, second])),
        }
        for neighbors, change in moved.items():
            if rows.keeps_every_row and len(rows.names) == 1 and neighbors == "replace_one":  # a public number
                assert not change.any()
                continue
            for norm, size in (("l1", np.abs(change).sum()), ("l2", Fraction(int((change**2).sum())))):
                bound = rows.bounded(neighbors, norm).bound
                assert size <= (bound if norm == "l1" else bound**2)


@pytest.mark.parametrize("column", ["x", "k", "full"])
def test_every_stage_counts_what_the_grid_does(column):
    rng = np.random.default_rng(3)
    cells = np.concatenate([rng.normal(0.4, 0.4, 300), rng.integers(-9, 60, 300), [NAN, np.inf, -np.inf]])
    rows, _ = stages(column)
    exact = counts_of(rows.stage(1), frame_of(cells))
    for width in (1, 3, 4, 16, 160, rows.size):
        merged = np.add.reduceat(exact, np.arange(0, rows.size, width))
        assert merged.tolist() == counts_of(rows.stage(width), frame_of(cells)).tolist()


@pytest.mark.parametrize("unit", PRICES)
@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("column", ["x", "full"])
def test_the_costs_of_the_stages_add_up_to_the_price(unit, neighbors, column):
    price = PRICES[unit]
    measured = density(column).measurement(price, schema=SCHEMA, neighbors=neighbors)
    pure, counted = unit == "pure", not (column == "full" and neighbors == "replace_one")
    one = 1 if neighbors == "add_remove" else 2
    assert len(measured.stages) == 2 + counted
    spent = Fraction(0)
    for place, stage in enumerate(measured.stages):
        (scale,) = set(stage.law.scales)
        squared = Fraction(1) if counted and place == 0 else Fraction(one)  # both L1 and squared L2
        scaled = binary(scale) / stage.multiplier
        spent += squared / scaled if pure else squared / scaled**2
    allowed = decimal(price.epsilon) if pure else 2 * measured.cost.rho
    if pure:
        assert spent <= measured.cost.pure_epsilon <= allowed
    else:
        assert measured.cost.mu_squared in (None, allowed)
    assert spent <= allowed
    assert spent >= allowed * (1 - Fraction(1, 10**9))


def released(column="x", unit="zcdp", seed=1, frame=None):
    frame = frame_of(np.random.default_rng(seed).beta(2, 5, 3000)) if frame is None else frame
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(seed))
    return density(column, data).measure(PRICES[unit])


@cache
def example(column, unit):
    return released(column, unit)


def context_of(unit):
    return Context(SCHEMA, "add_remove", PRICES[unit])


each_law = pytest.mark.parametrize("unit", ["pure", "zcdp"])


class TestAdaptivity:
    """Later stages are a function of earlier noisy counts alone."""

    @pytest.mark.slow
    @settings(max_examples=20)
    @given(st.integers(0, 2**32), st.integers(1, 10**6), st.sampled_from(list(PRICES)), st.sampled_from(["x", "k"]))
    def test_noisy_counts_choose_the_same_bins_whatever_the_rows_were(self, seed, n, unit, column):
        """A new question, which has seen no row and no other release, asks for the same bins."""
        rng = np.random.default_rng(seed)
        context, first = context_of(unit), example(column, unit)
        counts = rng.multinomial(n, rng.dirichlet(np.full(len(first.stages[1].names), 0.1)))
        steps = [round(1 / stage.steps[0]) for stage in first.stages]
        rows = replace(first.stages[0], values=(int(n) * steps[0],))
        fine = replace(first.stages[1], values=tuple(int(one) * steps[1] for one in counts))
        asked = [density(column).stage(place, context, (rows, fine)[:place]) for place in (1, 2) for _ in range(2)]
        assert dict(asked[0].settings) == dict(asked[1].settings)
        assert dict(asked[2].settings) == dict(asked[3].settings)
        assert asked[0].measure.names == asked[1].measure.names
        assert asked[2].measure.names == asked[3].measure.names

    @each_law
    @pytest.mark.parametrize("column", ["x", "k"])
    def test_the_bins_of_a_release_are_those_that_its_numbers_choose(self, column, unit):
        for seed in range(3):
            release = released(column, unit, seed)
            for place in (1, 2):
                again = density(column).stage(place, context_of(unit), release.stages[:place])
                assert dict(again.settings) == dict(release.stages[place].settings)
                assert again.measure.names == release.stages[place].names

    @each_law
    def test_noise_of_the_chosen_bins_has_no_say_in_choosing_them(self, unit, monkeypatch):
        first = released(unit=unit)
        simulated, drawn = sampling.simulated_noise, []

        def other(law, rng):
            drawn.append(simulated(law, rng))
            return [10**9 - one for one in drawn[-1]] if len(drawn) == 3 else drawn[-1]

        monkeypatch.setattr(sampling, "simulated_noise", other)
        second = released(unit=unit)
        assert second.stages[:2] == first.stages[:2]
        assert second.stages[2].settings == first.stages[2].settings
        assert second.stages[2].names == first.stages[2].names
        assert (second.stages[2].array != first.stages[2].array).any()

    @each_law
    def test_no_noise_is_used_twice(self, unit, monkeypatch):
        """Each stage draws once for itself, as many numbers as it releases."""
        simulated, drawn = sampling.simulated_noise, []

        def counted(law, rng):
            drawn.append(simulated(law, rng))
            return drawn[-1]

        monkeypatch.setattr(sampling, "simulated_noise", counted)
        release = released(unit=unit)
        assert [len(noise) for noise in drawn] == [len(stage.names) for stage in release.stages]
        assert len(release.stages) == 3

    @pytest.mark.parametrize("column", ["x", "k"])
    @each_law
    def test_what_is_settled_describes_the_counts(self, column, unit, monkeypatch):
        """Without noise the released counts are those of the bins that the release names."""
        monkeypatch.setattr(sampling, "simulated_noise", lambda law, _: [0] * len(law.scales))
        frame = frame_of(np.random.default_rng(3).beta(2, 5, 3000) * (1 if column == "x" else 40))
        release, (rows, _) = released(column, unit, frame=frame), stages(column)
        fine, width = release.stages[1].settings["fine"], release.stages[2].settings["width"]
        for stage, cells in zip(release.stages, (rows.size, fine, width), strict=True):
            assert stage.names == rows.stage(cells).names
            assert len(stage.values) == len(stage.names) == len(stage.steps) == len(stage.law.scales)
            assert stage.array.tolist() == counts_of(rows.stage(cells), frame).tolist()
        assert release.names == tuple(name for cells in (rows.size, fine, width) for name in rows.stage(cells).names)
        assert release.cost == density(column).measurement(PRICES[unit], schema=SCHEMA, neighbors="add_remove").cost


X, K = partial(each, density, "x"), partial(each, density, "k")
BAD = [
    (dpi.errors.OptionError, X(bins=["fine", 0, [0, 2], [0.5, 0.2], [0, NAN, 1]]) + K(bins=[45, [0, 0.25, 0.5, 9]])),
    (dpi.errors.FormulaError, X(where=["x + 1"])),
    (dpi.errors.UnknownColumnError, each(density, column=["z"])),
    (dpi.errors.OptionError, X(target=["people"])),
]


@pytest.mark.parametrize(("error", "questions"), BAD)
def test_bad_input_is_refused_before_anything_is_spent(error, questions):
    data = dpi.PrivateData(frame_of([0.5]), SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(1.0)))
    assert_refused(questions, error, None, data, dpi.ZCDP(0.1))


@pytest.mark.parametrize("price", [dpi.PureDP(1e-18), dpi.ZCDP(1e-40), dpi.ZCDP(0.0)])
def test_noise_that_cannot_be_drawn_is_refused_before_anything_is_spent(price):
    ledger = dpi.Ledger.in_memory(type(price)(1.0))
    data = dpi.PrivateData(frame_of([0.5]), SCHEMA, ledger)
    with pytest.raises(dpi.errors.PrivacyUnitError):
        density("x", data).fit(price)
    assert ledger.spent == type(price)(0.0)

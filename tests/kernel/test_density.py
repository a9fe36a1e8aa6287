"""Privacy of the stages of a density: what rows may move, what the stages cost, and what later stages depend on."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from dpinfer.kernel.density import noisy_histograms, noisy_stages
from dpinfer.procedures.cell_sums import sums_bound
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.errors import BudgetExceededError, OptionError
from dpinfer.kernel.run import run
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.sums import cell_sums
from dpinfer.privacy.exact import binary, decimal
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.procedures.density import density
from dpinfer.procedures.fine_grid import FineGrid
from dpinfer.schema.axes import compile_condition

NAN = float("nan")
SCHEMA = dpi.Schema(x=dpi.Real(0, 1), k=dpi.Integer(-3, 40), full=dpi.Real(0, 1, missing=0.5, impossible=0.5))
PRICES = {
    "pure": dpi.PureDP(0.7),
    "zcdp": dpi.ZCDP(0.1),
    "gdp": dpi.GDP(0.6),
    "approximate": dpi.ApproxDP(1.0, 1e-6),
}
CELLS = st.sampled_from(
    [0.0, 1.0, 0.5, 0.25, np.nextafter(0.25, 0), 1e300, -1e300, NAN, np.inf, -np.inf, 3, 40, -3, 2.5]
)


def stages(column, where=None):
    """The row functions of all that may be counted in one release: rows, fine bins, bins."""
    rows = FineGrid(SCHEMA, column, None if where is None else compile_condition(where, SCHEMA))
    return rows, [rows.stage(width) for width in (rows.size, 320, 4, 1)]


def counts_of(rows, frame):
    return np.array(cell_sums(rows, open_source(frame), threads=1))


def frame_of(cells):
    return pd.DataFrame({name: np.array(cells, dtype=float) for name in SCHEMA})


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
            for norm, size in (("l1", np.abs(change).sum()), ("l2", Fraction(int((change**2).sum())))):
                bound = sums_bound(rows, np.ones(1), neighbors, norm)
                assert size <= (bound if norm == "l1" else bound**2)


@pytest.mark.parametrize("column", ["x", "k", "full"])
def test_every_stage_counts_what_the_grid_does(column):
    rng = np.random.default_rng(3)
    cells = np.concatenate([rng.normal(0.4, 0.4, 300), rng.integers(-9, 60, 300), [NAN, np.inf, -np.inf]])
    rows, _ = stages(column)
    exact = cell_sums(rows.cells, open_source(frame_of(cells)), threads=1)
    for width in (1, 3, 4, 16, 160, rows.size):
        assert rows.merge(exact, width) == counts_of(rows.stage(width), frame_of(cells)).tolist()


@pytest.mark.parametrize("unit", PRICES)
@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("column", ["x", "full"])
def test_the_costs_of_the_stages_add_up_to_the_price(unit, neighbors, column):
    price = PRICES[unit]
    measured = density(column).measurement(price, schema=SCHEMA, neighbors=neighbors)
    pure, counted = unit == "pure", not (column == "full" and neighbors == "replace_one")
    one = 1 if neighbors == "add_remove" else 2
    spent = Fraction(0)
    for name, part in measured.rows.parts.items():
        scales = set(measured.law.scales[part])
        if name == "rows" and not counted:
            assert not scales
            continue
        (scale,) = scales
        squared = Fraction(1) if name == "rows" else Fraction(one)  # both L1 and squared L2
        scaled = binary(scale) / measured.multiplier
        spent += squared / scaled if pure else squared / scaled**2
    allowed = decimal(price.epsilon) if pure else 2 * measured.cost.rho
    if not pure:
        assert measured.cost.mu_squared in (None, allowed)
    assert spent <= allowed
    assert spent >= allowed * (1 - Fraction(1, 10**9))


@pytest.mark.parametrize("unit", PRICES)
@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_a_whole_budget_is_granted_once(unit, neighbors):
    price = PRICES[unit]
    frame = frame_of(np.linspace(0, 1, 200))
    for bins in ("auto", 7):
        data = dpi.PrivateData(frame, SCHEMA, dpi.Ledger.in_memory(price, neighbors=neighbors))
        density("x", data, bins=bins).fit(price)
        with pytest.raises(BudgetExceededError):
            density("x", data, bins=bins).fit(price)
        assert len(data.ledger.charges()) == 1


class TestAdaptivity:
    """Later stages are a function of earlier noisy counts alone."""

    @staticmethod
    def measured(price="zcdp", neighbors="add_remove", column="x"):
        return density(column).measurement(PRICES[price], schema=SCHEMA, neighbors=neighbors)

    @given(st.integers(0, 2**32), st.integers(1, 10**6), st.sampled_from(["pure", "zcdp"]))
    def test_rows_that_give_the_same_noisy_counts_choose_the_same_bins(self, seed, n, price):
        rng = np.random.default_rng(seed)
        measured = self.measured(price)
        rows, multiplier = measured.rows, measured.multiplier
        before = rng.multinomial(n, rng.dirichlet(np.full(rows.size, 0.01)))
        after = rng.permutation(before)
        noise = [int(one) for one in measured.law.rvs(1, rng)[0]]
        found = noisy_stages(measured, before.tolist(), noise, None)
        part = rows.parts["fine"]
        gaps = np.array(rows.merge(before.tolist(), found.fine)) - rows.merge(after.tolist(), found.fine)
        shifted = list(noise)
        for place, gap in enumerate(gaps.tolist()):
            shifted[part.start + place] += gap * multiplier
        again = noisy_stages(measured, after.tolist(), shifted, None)
        first = 1 + len(gaps)
        assert again.counts[:first] == found.counts[:first]
        assert (again.fine, again.width, again.places) == (found.fine, found.width, found.places)

    def test_noise_of_the_chosen_bins_has_no_say_in_choosing_them(self):
        measured = self.measured()
        cells = np.random.default_rng(1).multinomial(5000, np.full(measured.rows.size, 1 / measured.rows.size)).tolist()
        noise = [int(one) for one in measured.law.rvs(1, np.random.default_rng(2))[0]]
        part = measured.rows.parts["bins"]
        other = [*noise[: part.start], *(10**9 - one for one in noise[part])]
        assert noisy_stages(measured, cells, noise, None).width == noisy_stages(measured, cells, other, None).width

    def test_no_noise_is_used_twice(self):
        measured = self.measured("pure")
        found = noisy_stages(measured, [7] * measured.rows.size, [0] * len(measured.law.scales), None)
        assert len(set(found.places)) == len(found.places) == len(found.counts)
        stage = {place: name for name, part in measured.rows.parts.items() for place in range(part.start, part.stop)}
        assert [stage[place] for place in found.places] == sorted(
            (stage[place] for place in found.places), key=["rows", "fine", "bins"].index
        )

    @pytest.mark.parametrize("column", ["x", "k"])
    def test_what_is_settled_describes_the_counts(self, column):
        measured = self.measured(column=column)
        cells = list(range(measured.rows.size))
        values, settled = noisy_histograms(measured, cells, [0] * len(measured.law.scales), None)
        assert len(values) == len(settled.names) == len(settled.steps) == len(settled.law.scales)
        rows, chosen = measured.rows, settled.question["settled"]
        exact = [sum(cells), *rows.merge(cells, chosen["fine"]), *rows.merge(cells, chosen["width"])]
        assert values == tuple(one * measured.multiplier for one in exact)
        assert settled.cost == measured.cost


BAD = {
    "a text column": ("x", {"bins": "fine"}),
    "no bins": ("x", {"bins": 0}),
    "too many whole numbers": ("k", {"bins": 45}),
    "edges beyond the bounds": ("x", {"bins": [0, 2]}),
    "edges that fall": ("x", {"bins": [0.5, 0.2]}),
    "an empty bin of whole numbers": ("k", {"bins": [0, 0.25, 0.5, 9]}),
    "NaN as an edge": ("x", {"bins": [0, NAN, 1]}),
    "no condition": ("x", {"where": "x + 1"}),
    "an unknown column": ("z", {}),
    "a target": ("x", {"target": "people"}),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_before_anything_is_spent(case):
    column, options = BAD[case]
    data = dpi.PrivateData(frame_of([0.5]), SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(1.0)))
    with pytest.raises(dpi.errors.DPInferError):
        density(column, data, **options)
    with pytest.raises(dpi.errors.DPInferError):
        density(column, **options).bind(data).fit(dpi.ZCDP(0.1))
    assert data.ledger.spent == dpi.ZCDP(0.0)


@pytest.mark.parametrize("price", [dpi.PureDP(1e-18), dpi.ZCDP(1e-40), dpi.ZCDP(0.0)])
def test_noise_that_cannot_be_drawn_is_refused_before_anything_is_spent(price):
    ledger = dpi.Ledger.in_memory(type(price)(1.0))
    data = dpi.PrivateData(frame_of([0.5]), SCHEMA, ledger)
    with pytest.raises(dpi.errors.PrivacyUnitError):
        density("x", data).fit(price)
    assert ledger.spent == type(price)(0.0)


def test_a_measurement_is_refused_for_other_neighbours():
    measured = density("x").measurement(dpi.ZCDP(0.1), schema=SCHEMA, neighbors="replace_one")
    with pytest.raises(OptionError):
        run(measured, dpi.PublicData(frame_of([0.5]), SCHEMA, rng=np.random.default_rng(1)))

"""The rows that are counted are those that are dealt into blocks, whatever their cells hold and columns are called."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.kernel.blocks import block_fits, typed_rows
from dpinfer.kernel.rows.blocks import block_values
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.sums import exact_sums
from dpinfer.resampling.aggregate import sample_aggregate
from tests.kernel.test_bootstrap_privacy import CELLS, SCHEMA, table_of

PRICE = dpi.ZCDP(0.5)


def middle(rows):
    return [0.5]


def planned(columns, where, schema=SCHEMA):
    question = sample_aggregate(columns, model=middle, bounds={"m": (0, 1)}, where=where, n_jobs=1)
    return question.measurement(PRICE, schema=schema, neighbors="add_remove")


def counted_and_dealt(plan, frame):
    rows, source = plan.stages[0].rows, open_source(frame)
    assert type(rows) is CellSum
    return exact_sums(rows, source, threads=1), int(typed_rows(plan.blocks, source)[1].sum())


PLANS = [
    planned(columns, where)
    for columns in (list(SCHEMA), ["x"], ["g", "b"], ["u", "v"])
    for where in (None, "x > 4", "b", "(x < 5) | (u > 0.2)", "(g == 'a') & (k >= 3)", "x / (k + 1) > 0.5")
]


@given(
    plan=st.sampled_from(PLANS), cells=st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=8), data=st.data()
)
def test_a_row_counts_where_it_is_dealt_and_for_one(plan, cells, data):
    (count,), dealt = counted_and_dealt(plan, table_of(cells))
    assert count == dealt
    place = data.draw(st.integers(0, len(cells) - 1))
    (fewer,), _ = counted_and_dealt(plan, table_of(cells[:place] + cells[place + 1 :]))
    assert 0 <= count - fewer <= 1


@pytest.mark.parametrize("name", ["class", "in", "None", "True", "\N{FULLWIDTH LATIN CAPITAL LETTER A}", "h.p w"])
def test_columns_of_odd_names_are_counted(name):
    for column, cells in (
        (dpi.Real(0, 1), [0.5, None, 7, "?"]),
        (dpi.Boolean(), [True, None, False, "maybe"]),
        (dpi.Category(["a'b", 'q"r']), ["a'b", None, 'q"r', "z"]),
    ):
        plan = planned([name], None, dpi.Schema({name: column}))
        frame = pd.DataFrame({name: pd.Series(cells, dtype=object)})
        assert counted_and_dealt(plan, frame) == ([2], 2)


@pytest.mark.parametrize("most", [1, 3])
def test_the_count_has_the_noise_of_its_fiftieth_of_the_price(most):
    """A row moves it by 1; a person, more or less or replaced, by as many rows as are kept."""
    schema = SCHEMA if most == 1 else SCHEMA.with_people("id", most)
    for neighbors in ("add_remove",) if most == 1 else ("add_remove", "replace_one"):
        question = sample_aggregate(["x"], model=middle, bounds={"m": (0, 1)})
        stage = question.measurement(PRICE, schema=schema, neighbors=neighbors).stages[0]
        assert stage.bound == most
        assert stage.law.scales[0] * stage.steps[0] == pytest.approx(most / np.sqrt(2 * PRICE.rho / 50), rel=1e-6)


def sign(rows):
    return [1.0 if rows["x"].max() > 0 else -1.0]


@pytest.mark.parametrize("aggregator", ["mean", "winsorized"])
@pytest.mark.parametrize("price", [PRICE, dpi.PureDP(1.0)], ids=str)
def test_count_and_blocks_together_keep_the_price_whatever_the_number_of_blocks(price, aggregator):
    """A row that moves the count by 1 and a block from one end of the region to the other; all other labels stay."""
    question = sample_aggregate(
        ["x"], model=sign, bounds={"m": (-1, 1)}, aggregator=aggregator, bias_correction="none", n_jobs=1
    )
    plan = question.measurement(price, schema=dpi.Schema(x=dpi.Real(-1, 1)), neighbors="add_remove")
    pure = isinstance(price, dpi.PureDP)
    allowed = Fraction(1)  # epsilon, or twice rho
    used = []
    for blocks in (1, 8, 9, 200):
        dealt = replace(plan.blocks, count=blocks)
        for cells in ([1.0], [-1.0, 1.0], [-1.0, -1.0, 1.0], [np.nan]):
            frame = pd.DataFrame({"x": cells})
            first, second = (all_sums(plan, dealt, one) for one in (frame, frame.iloc[:-1]))
            moved = [
                abs(Fraction(one - other) * stage.multiplier / Fraction(scale))
                for stage, ones, others in zip(plan.stages, first, second, strict=True)
                for one, other, scale in zip(ones, others, stage.law.scales, strict=True)
            ]
            used.append(sum(moved) if pure else sum(one**2 for one in moved))
    assert max(used) <= allowed
    assert max(used) > Fraction(9, 10) * allowed or aggregator == "winsorized"


def all_sums(plan, blocks, frame):
    """Return what every stage sums, without noise, all rows being in the first block."""
    source = open_source(frame)
    labels = np.zeros(len(frame), dtype=np.intp)
    values = block_values(block_fits(blocks, source, labels, private=False), blocks.region)
    summed = [stage.rows.add(values)[0].tolist() for stage in plan.stages[1:]]
    return [exact_sums(plan.stages[0].rows, source, threads=1), *summed]

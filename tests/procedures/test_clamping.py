"""Values outside their bounds are clamped before anything is summed, whatever a feature is measured from."""

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.sums import exact_sums

OUTSIDE = [-100.0, 1000.0, -np.inf, np.inf]


@pytest.mark.parametrize("bounds", [(0.0, 10.0), (5.0, 10.0), (-3.0, 10.0), (-10.0, 0.0), (1e9, 1e9 + 1)])
@pytest.mark.parametrize("target", ["data", "population"])
def test_totals_sum_clamped_values(bounds, target):
    schema = dpi.Schema(x=dpi.Real(*bounds, missing=bounds[0], impossible=bounds[0]))
    rows = dpi.total("x", target=target).measurement(dpi.ZCDP(1.0), schema=schema, neighbors="replace_one").rows
    for value in OUTSIDE[:2]:
        outside = exact_sums(rows, open_source(pd.DataFrame({"x": [value]})))
        inside = exact_sums(rows, open_source(pd.DataFrame({"x": [float(np.clip(value, *bounds))]})))
        assert outside == inside


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_a_total_of_rows_below_their_bounds_is_that_of_the_bounds(neighbors):
    schema = dpi.Schema(x=dpi.Real(0, 10, missing=0, impossible=0), w=dpi.Real(0, 3, missing=0, impossible=0))
    frame = pd.DataFrame({"x": [-50.0] * 100, "w": [-2.0] * 100})
    data = dpi.PublicData(frame, schema, rng=np.random.default_rng(1), neighbors=neighbors)
    assert abs(dpi.total("x", data).fit(dpi.ZCDP(1e6)).params["x"]) < 1
    assert abs(dpi.count(data, weights="w").fit(dpi.ZCDP(1e6)).params["w"]) < 1


def test_neighbors_of_adjacent_bounds_stay_within_the_bound():
    top = float(np.nextafter(1.0, 2.0))
    schema = dpi.Schema(x=dpi.Real(1.0, top, missing=1.0, impossible=1.0))
    rows = dpi.mean("x").measurement(dpi.ZCDP(1.0), schema=schema, neighbors="replace_one").rows
    found = [exact_sums(rows, open_source(pd.DataFrame({"x": [value]}))) for value in (-5.0, 1.0, top, 7.0)]
    assert found[0] == found[1]
    assert found[2] == found[3]


def test_bins_too_narrow_to_divide_are_found_by_search():
    schema = dpi.Schema(x=dpi.Real(0, 1))
    asked = dpi.histogram("x", bins=[0, 1e-310]).measurement(dpi.ZCDP(1.0), schema=schema, neighbors="add_remove")
    for values, counted in (([0.0, 0.5], 1), ([0.5], 0)):
        assert exact_sums(asked.rows, open_source(pd.DataFrame({"x": values}))) == [counted]


def test_a_text_is_read_by_its_own_characters_whatever_the_other_rows_hold():
    level = "'\\ud800'"
    column = dpi.Category([level, "b"])
    cells = np.array(["\ud800", level, level])
    assert column.coerce(cells)[1:].tolist() == [0.0, 0.0]
    assert column.coerce(cells[::-1])[:2].tolist() == [0.0, 0.0]

"""Levels as linear functions of features: exact on the codes, in whole steps that a round takes."""

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.errors import MissingFromReleaseError
from dpinfer.kernel.rows.features import Features
from dpinfer.regression.gram import GramDesign
from dpinfer.schema.grid import UNIT
from dpinfer.schema.level_maps import in_steps, kept_map, level_indicators, level_number


def basis_with(levels):
    names = [f"l{place:04}" for place in range(levels)]
    schema = dpi.Schema(y=dpi.Real(0, 1), x=dpi.Real(0, 4), g=dpi.Category(names), h=dpi.Category(["a", "b", "c"]))
    return names, GramDesign(schema, formula="y ~ x + g * h").basis


def encoded(basis, names, size=500):
    rng = np.random.default_rng(levels := len(names))
    places = {"g": rng.integers(0, levels, size), "h": rng.integers(0, 3, size)}
    cells = {"g": np.array(names, dtype=object)[places["g"]], "h": np.array(list("abc"), dtype=object)[places["h"]]}
    cells |= {"x": rng.uniform(0, 4, size), "y": rng.uniform(0, 1, size)}
    return Features(basis).encode(cells)[0], places


@pytest.mark.parametrize("levels", [2, 3, 12, 120])
def test_functions_in_whole_steps_tell_levels(levels):
    names, basis = basis_with(levels)
    rows, places = encoded(basis, names)
    for column in ("g", "h"):
        for level, one in enumerate(level_indicators(basis, column)):
            steps, bits = in_steps(one)
            assert np.abs(steps).sum() <= 2**34
            np.testing.assert_allclose(steps @ rows / UNIT / 2**bits, places[column] == level, atol=1e-6)
        steps, bits = in_steps(level_number(basis, column))
        np.testing.assert_allclose(steps @ rows / UNIT / 2**bits, places[column], atol=1e-3)


@pytest.mark.parametrize("levels", [2, 12, 120])
def test_skipped_levels_have_weight_zero_and_others_keep_theirs(levels):
    names, basis = basis_with(levels)
    rows, places = encoded(basis, names)
    out = (places["g"] == 1) | (places["g"] == levels - 1) | (places["h"] == 2)
    skipped = [("g", 1), ("g", levels - 1), ("h", 2)]
    x = basis.names.index("x")
    survey = np.zeros(basis.width)
    survey[[0, x]] = 0.5
    for weight, right in ((None, np.ones(rows.shape[1])), (survey, (rows[x] / UNIT + 1) / 2)):
        steps, bits = in_steps(kept_map(basis, skipped, weight))
        found = np.clip(steps @ rows / UNIT / 2**bits, 0, 1)
        assert not found[out].any()
        np.testing.assert_allclose(found[~out], right[~out], rtol=0, atol=0 if weight is None else 1e-6)


def test_a_column_that_is_no_factor_is_refused():
    with pytest.raises(MissingFromReleaseError, match="'x' was not measured as a factor"):
        level_indicators(basis_with(3)[1], "x")

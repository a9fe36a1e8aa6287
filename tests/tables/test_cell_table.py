"""Formulas in the factors of a table: the cells as rows of a design."""

import numpy as np
import pytest

from dpinfer.errors import CollinearDesignError, FormulaError, OptionError, UnknownColumnError
from dpinfer.tables.loglinear_fit import CellTable

TABLE = CellTable(("kids", "age >= 18", "race"), ((0, 1, 2), (False, True), ("a", "b")))


def test_the_last_factor_runs_fastest():
    assert TABLE.size == 12
    assert TABLE.values["kids"].tolist() == [0.0] * 4 + [1.0] * 4 + [2.0] * 4
    assert TABLE.values["race"].tolist() == [0.0, 1.0] * 6
    assert TABLE.values["age >= 18"].tolist() == [0.0, 0.0, 1.0, 1.0] * 3


def test_whole_numbers_are_numbers_or_factors():
    names, rows = TABLE.design("kids + race")
    assert names.names == ("Intercept", "kids", "race[T.b]")
    assert rows[:, 1].tolist() == TABLE.values["kids"].tolist()
    assert TABLE.design("C(kids)")[0].names == ("Intercept", "C(kids)[T.1]", "C(kids)[T.2]")
    assert TABLE.design("kids:`age >= 18`")[1].shape == (12, 2)


def test_numbers_with_gaps_are_levels():
    table = CellTable(("k",), ((1, 3, 9),))
    assert table.design("k")[0].names == ("Intercept", "k[T.3]", "k[T.9]")


def test_cells_that_cannot_be_are_left_out():
    _, rows = TABLE.design("race", "(kids == 0) & (race == 'b')")
    assert len(rows) == 10
    assert TABLE.excluded(None).sum() == 0


@pytest.mark.parametrize(
    ("formula", "exclude", "error", "match"),
    [
        ("kids + I(2 * kids)", None, CollinearDesignError, "depend on each other in the 12 cells"),
        ("race", "race == 'b'", CollinearDesignError, "exclude fewer"),
        ("y ~ race", None, UnknownColumnError, "'y' is not in"),
        ("kids ~ race", None, FormulaError, "has a left side"),
        ("1", None, FormulaError, "names no factor"),
        ("sex", None, UnknownColumnError, "'sex' is not in"),
        (" ", None, OptionError, "^formula="),
        (3, None, OptionError, "^formula=3"),
        ("race", 3, OptionError, "^exclude=3"),
        ("race", "kids >= 0", OptionError, "leaves cells"),
        ("race", "kids", FormulaError, "is not a condition"),
    ],
)
def test_what_is_no_design_is_refused(formula, exclude, error, match):
    with pytest.raises(error, match=match):
        TABLE.design(formula, exclude)


def test_large_designs_are_refused():
    wide = CellTable(("a", "b"), (tuple(range(100)), tuple(range(100))))
    with pytest.raises(OptionError, match=r"10,000 cells.*4,096 cells"):
        wide.design("a + b")
    with pytest.raises(OptionError, match="at most 200 coefficients"):
        CellTable(("a", "b"), (tuple(range(60)), tuple(range(60)))).design("C(a) * C(b)")


def test_values_are_those_of_levels():
    np.testing.assert_array_equal(CellTable(("t",), (("x", "y"),)).values["t"], [0.0, 1.0])

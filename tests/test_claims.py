"""The rule by which tables of the validation scripts are judged."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from validation.__main__ import completed
from validation.common.claims import RULES, Claim, largest_size, largest_width, least_coverage

N = 5000


def table(**columns):
    cells = len(next(iter(columns.values())))
    return pd.DataFrame({"n": np.arange(cells), "replicates": N, "run": "first", **columns})


def test_the_threshold_is_that_of_the_replicates():
    for count, least in ((5000, "0.9376"), (1000, f"{stats.binom.ppf(5e-5, 1000, 0.95) / 1000:.4f}")):
        claim = least_coverage("c", table(coverage=[0.95, 0.96]).assign(replicates=count), by=["n"], held=None)
        assert claim.threshold == f"at least {least}"
        assert claim.replicates == count
        assert claim.error == f"{np.sqrt(0.0475 / count):.4f}"


@pytest.mark.parametrize(("worst", "held"), [(0.9376, True), (0.9374, False)])
def test_one_cell_below_the_threshold_breaks_the_claim_and_is_named(worst, held):
    claim = least_coverage("c", table(coverage=[0.95, worst, 0.96]), by=["n"], held=None)
    assert claim.held is held
    assert claim.failed == (0 if held else 1)
    assert claim.worst == "n = 1"
    assert claim.ours == f"{worst:.4f}"


def test_a_table_of_unequal_replicates_is_refused():
    uneven = table(coverage=[0.95, 0.95]).assign(replicates=[5000, 2500])
    with pytest.raises(ValueError, match="one rule a table: its cells have 2500, 5000 replicates"):
        least_coverage("c", uneven, by=["n"], held=None)
    with pytest.raises(ValueError, match="one rule a table"):
        largest_size("c", uneven, "coverage", by=["n"], level=0.05)
    with pytest.raises(ValueError, match="one rule a table"):
        largest_width("c", uneven, "coverage", by=["n"])


def test_columns_that_do_not_name_the_cells_are_refused():
    with pytest.raises(ValueError, match="kind do not name the cells"):
        least_coverage("c", table(coverage=[0.95, 0.95], kind=["a", "a"]), by=["kind"], held=None)


def test_the_rerun_decides_and_may_have_more_replicates():
    runs = pd.concat(
        [table(coverage=[0.95, 0.93]), table(coverage=[0.95, 0.944])[1:].assign(run="rerun", replicates=10 * N)]
    )
    claim = least_coverage("c", runs, by=["n"], held=None)
    assert claim.held
    assert claim.cells == 2
    assert claim.ours == "0.9440"
    assert claim.tail == 1  # of the first runs


def test_a_column_may_ask_for_more_than_coverage():
    claim = least_coverage("c", table(coverage=[0.95, 0.95], held=[True, False]), by=["n"])
    assert not claim.held
    assert claim.failed == 1


def test_cells_without_coverage_are_left_out_and_none_is_no_failure():
    assert least_coverage("c", table(coverage=[0.95, np.nan]), by=["n"], held=None).cells == 1
    nothing = least_coverage("c", table(coverage=[np.nan, np.nan]), by=["n"], held=None)
    assert (nothing.cells, nothing.ours) == (0, "no cell")


def test_the_tail_counts_what_chance_leaves_in_a_hundredth_of_the_cells():
    rng = np.random.default_rng(5)
    exact = rng.binomial(N, 0.95, 4000) / N
    short = rng.binomial(N, 0.945, 4000) / N
    found = [least_coverage("c", table(coverage=one), by=["n"], held=None).tail for one in (exact, short)]
    assert 15 < found[0] < 60  # 40 are expected
    assert found[1] > 400
    quantities = least_coverage("c", table(coverage=exact), by=["n"], held=None, quantities=10).tail
    assert quantities < found[0]


def test_size_is_judged_over_all_cells_together():
    one = largest_size("c", table(size=[0.06]), "size", by=["n"], level=0.05)
    many = largest_size("c", table(size=[0.06, *[0.05] * 999]), "size", by=["n"], level=0.05)
    assert not one.held
    assert many.threshold == f"at most {RULES.largest_size(N, 0.95, 1000):.4f}"
    assert many.held == (RULES.largest_size(N, 0.95, 1000) >= 0.06)
    assert one.worst == "n = 0"


def test_width_is_judged_by_the_cap_of_each_cell():
    cells = table(ratio=[1.2, 1.12], cap=[1.25, 1.1])
    claim = largest_width("c", cells, "ratio", by=["n"], cap="cap")
    assert not claim.held
    assert (claim.worst, claim.ours, claim.threshold) == ("n = 1", "1.120", "at most 1.1 or 1.25")


def test_what_a_claim_does_not_say_is_completed():
    plain = Claim("w", "d", "", "1", "", held=True)
    assert completed(plain, "newton_peers", 40).replicates == 40
    assert completed(plain, "ols_speed", 15).kind == "time"
    exact = completed(Claim("w", "d", "", "1", "exact", held=True), "proportion_exact", 1)
    assert (exact.kind, exact.replicates) == ("exact", 0)

"""The rule by which tables of the validation scripts are judged."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from validation.__main__ import Ran, completed, write_results
from validation.common.cells import kept
from validation.common.claims import RULES, Claim, largest_size, largest_width, least_coverage
from validation.common.outputs import OUTPUT, Options
from validation.entry.bounds_coverage import determined, judged
from validation.publish.claims import read_results
from validation.scripts import SCRIPTS, TIMED

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


def intervals(coverage, lost):
    """Cells of the study of bounds: (m,) coverage and shares of intervals that are not determined."""
    cells = {"asked": "ols", "law": "t", "n": np.arange(len(lost)), "margin": 1, "width": 1.0, "replicates": 2000}
    return pd.DataFrame({**cells, "coverage": coverage, "not determined": lost})


def test_coverage_within_found_bounds_is_judged_among_determined_intervals_too():
    found = judged(intervals([0.9805, 0.95, 0.929, 1.0, 0.996], [0.896, 0.0, 0.0, 1.0, 0.9]))
    np.testing.assert_allclose(found["coverage where determined"], [39 * 13 / 624, 0.95, 0.929, np.nan, 0.96])
    assert found["determined"].tolist() == [208, 2000, 2000, 0, 200]
    assert found["least determined"].tolist()[0] == stats.binom.ppf(5e-5, 208, 0.95) / 208
    assert found["held"].tolist() == [False, True, False, True, True]
    assert found["verdict"][0].startswith("coverage where determined below")
    assert found["verdict"][2].startswith("coverage below")


def test_the_committed_study_of_bounds_is_as_its_script_judges_it():
    stored = pd.read_csv(OUTPUT / "bounds_coverage.csv", dtype={"margin": str})
    numbers = stored.assign(margin=[-1 if one == "declared" else int(one) for one in stored["margin"]])
    again = judged(numbers.drop(columns=["determined", "coverage where determined", "least determined", "held"]))
    for name in determined(numbers).columns.difference(["margin", "width / declared"]):
        pd.testing.assert_series_equal(again[name], stored[name], check_dtype=False, rtol=1e-4)


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
    plain = Claim("w", "d", "1", held=True)
    assert completed(plain, "newton_peers", 40).replicates == 40
    assert completed(plain, "ols_speed", 15).kind == "time"
    exact = completed(Claim("w", "d", "1", held=True, error="exact"), "proportion_exact", 1)
    assert (exact.kind, exact.replicates) == ("exact", 0)


OPTIONS = {"replicates": 3, "seed": 1, "jobs": 1, "command": "python -m validation --quick"}


def test_a_study_that_was_stopped_goes_on_where_it_was(tmp_path):
    measured = []

    def measure(part):
        if len(measured) == 2:
            raise KeyboardInterrupt
        measured.append(part)
        return {"part": part}

    options = Options(out=tmp_path, **OPTIONS)
    with pytest.raises(KeyboardInterrupt):
        [kept("study", part, options, partial(measure, part)) for part in range(4)]
    before = measured[:]
    measured.clear()
    found = [kept("study", part, options, partial(measure, part)) for part in range(4)]
    assert before == [0, 1]
    assert measured == [2, 3]
    assert found == [{"part": part} for part in range(4)]


def test_other_options_are_another_study(tmp_path):
    first = kept("study", 0, Options(out=tmp_path, **OPTIONS), lambda: "first")
    second = kept("study", 0, Options(out=tmp_path, **{**OPTIONS, "replicates": 4}), lambda: "second")
    assert (first, second) == ("first", "second")


def test_results_keep_the_rows_of_scripts_that_did_not_run(tmp_path):
    path = tmp_path / "results.csv"
    claim = Claim("w", "d", "1", held=True)
    write_results({"ols_coverage": Ran([claim], 1.5), "cdf_band": Ran([claim, claim], 2.0)}, path)
    write_results({"cdf_band": Ran([replace(claim, ours="2")], 3.0)}, path)
    table = read_results(path)
    assert list(table["script"]) == ["ols_coverage", "cdf_band"]
    assert list(table["ours"]) == ["1", "2"]
    assert list(table["minutes"]) == [1.5, 3.0]


def test_results_without_a_column_are_refused(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("script,what\nols_coverage,w\n", encoding="utf-8")
    with pytest.raises(ValueError, match="lacks the columns"):
        read_results(path)


def test_every_script_judges_at_least_as_much_in_full_as_with_a_fresh_seed_and_quickly():
    for name, script in SCRIPTS.items():
        assert script.full >= script.quick > 0, name
        assert script.full >= script.fresh, name
        assert not (script.fresh and name in TIMED), name

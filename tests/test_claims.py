"""The rule by which tables of the validation scripts are judged, and the machine that draws, judges and stores."""

import os
import re
import shutil
import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from validation.__main__ import Ran, completed, write_results
from validation.common import code
from validation.common.code import sources_of
from validation.common.outputs import Options, read_table, store_table
from validation.common.rule_errors import ends
from validation.common.rules import (
    ALARM,
    FAILED,
    GAP,
    HELD,
    LOOKS,
    MISSED,
    OPEN,
    SPENT,
    Claim,
    Rule,
    batches_of,
    judge_ratios,
    judge_shares,
    looks_of,
)
from validation.common.same import RESULTS, ROOT, _asked, carried, differing
from validation.common.study import Study, judged_once, kept
from validation.common.timing import Took, in_turns
from validation.publish.claims import read_results
from validation.scripts import SCRIPTS, TIMED, module_of
from validation.speed.growth import confine

LAST = len(LOOKS) - 1
OPTIONS = {"seed": 1, "jobs": 1, "command": "python -m validation --quick"}


def test_looks_spend_the_alarm_and_what_is_missed_leaves_the_power():
    assert sum(SPENT) == pytest.approx(1)
    assert sum(MISSED) < 0.1
    assert len(SPENT) == len(MISSED) == len(LOOKS)
    assert looks_of(5000) == LOOKS
    assert looks_of(700) == (250, 500)
    assert looks_of(60) == (60,)


def test_batches_make_up_the_looks():
    starts = np.array(batches_of(5000))
    assert starts[:, 1].sum() == 5000
    assert {0, *LOOKS} <= {*starts[:, 0], 5000}
    np.testing.assert_array_equal(starts[1:, 0], starts[:-1].sum(axis=1))


@pytest.mark.parametrize("tests", [1, 100, 1000])
def test_tables_of_exact_procedures_fail_rarely_and_short_coverage_is_found(tests):
    exact, mean = ends(0.05, 0.05, tests)
    short, _ = ends(0.07, 0.05, tests)
    assert tests * exact[FAILED] <= ALARM
    assert short[FAILED] >= 0.9
    assert mean < 1500


def test_the_errors_of_the_rule_are_those_of_simulated_cells():
    rng, short = np.random.default_rng(3), np.zeros(4000, dtype=int)
    misses, alive = np.zeros(4000, dtype=int), np.ones(4000, dtype=bool)
    for look, step in enumerate(np.diff((0, *LOOKS))):
        misses += rng.binomial(step, 0.07, 4000)
        verdict = judge_shares(misses, LOOKS[look], 0.05, 10, look, len(LOOKS))
        short[alive & (verdict == FAILED)] = 1
        alive &= verdict == OPEN
    assert short.mean() == pytest.approx(ends(0.07, 0.05, 10)[0][FAILED], abs=0.02)


def test_a_quick_run_can_fail():
    assert judge_shares(40, 60, 0.05, 1000, 0, 1) == FAILED
    assert judge_shares(3, 60, 0.05, 1000, 0, 1) == HELD
    assert judge_ratios(1.5, 0.05, 1.1, 100, 0, 1) == FAILED


def test_ratios_are_refuted_or_clear_and_open_between():
    assert judge_ratios([1.3, 1.0, 1.1], [0.01] * 3, 1.1, 10, 0, len(LOOKS)).tolist() == [FAILED, HELD, OPEN]
    assert judge_ratios([1.11], [0.01], 1.1, 10, LAST, len(LOOKS)).tolist() == [HELD]


def table(**columns):
    cells = len(next(iter(columns.values())))
    return pd.DataFrame({"n": np.arange(cells), "replicates": 5000, **columns})


def claim(found, **rule):
    return judged_once((Rule("c", **rule),), found, ["n"])[0]


def test_one_cell_that_is_short_breaks_the_claim_and_is_named():
    short = claim(table(coverage=[0.95, 0.93, 0.96]), column="coverage")
    assert (short.held, short.failed, short.worst, short.ours) == (False, 1, "n = 1", "0.9300")
    assert claim(table(coverage=[0.95, 0.945, 0.96]), column="coverage").held


def test_sizes_and_caps_may_differ_by_row_and_missing_values_are_not_judged():
    sizes = claim(table(size=[0.05, 0.2, np.nan], level=[0.05, 0.05, 0.01]), column="size", kind="size", limit="level")
    assert (sizes.cells, sizes.failed, sizes.threshold) == (2, 1, "at most 0.05")
    wide = table(ratio=[1.2, 1.2], cap=[1.25, 1.1], **{"error of ratio": [0.001, 0.001]})
    assert claim(wide, column="ratio", kind="width", limit="cap").worst == "n = 1"
    assert claim(table(coverage=[np.nan]), column="coverage").ours == "no cell"


def test_quantities_share_the_alarm():
    least = stats.binom.ppf(0.003, 5000, 0.95) / 5000
    one, many = (claim(table(coverage=[least]), column="coverage", quantities=count) for count in (1, 1000))
    assert not one.held
    assert many.held


def test_a_rule_without_words_is_part_of_the_claim_before():
    rules = (Rule("a", "coverage"), Rule("", "other"), Rule("b", "coverage"))
    first, second = judged_once(rules, table(coverage=[0.95, 0.95], other=[0.95, 0.8]), ["n"])
    assert (first.held, first.failed, second.held) == (False, 1, True)


def test_split_claims_are_of_their_own_rows():
    found = judged_once((Rule("of {part}", "c", split="kind"),), table(c=[0.95, 0.8], kind=["x", "y"]), ["n"])
    assert [(one.what, one.held) for one in found] == [("of x", True), ("of y", False)]


@dataclass(frozen=True)
class Cell:
    coverage: float


def covered(cell, rng, replicates):
    return {"coverage": rng.random(replicates) < cell.coverage}


def study(cells, **options):
    return Study("made", [Cell(one) for one in cells], covered, rules=(Rule("c", "coverage"),), **options)


def test_cells_are_left_as_soon_as_their_answer_is_clear(tmp_path):
    found, (failed,) = study([0.98, 0.7, 0.945]).measure(Options(5000, out=tmp_path, **OPTIONS))
    assert found["replicates"].tolist()[:2] == [250, 250]
    assert found["replicates"][2] > 250
    assert failed.tolist() == [False, True, False]
    assert found["held"].tolist() == [True, False, True]


def test_a_run_goes_on_from_stored_batches_and_writes_its_table(tmp_path):
    drawn = []

    def counting(cell, rng, replicates):
        drawn.append(replicates)
        return covered(cell, rng, replicates)

    once = replace(study([0.95]), draw=counting)
    first = once.run(Options(500, out=tmp_path, **OPTIONS))
    assert once.run(Options(500, out=tmp_path, **OPTIONS)) == first
    assert sum(drawn) <= 500
    assert pd.read_csv(tmp_path / "made.csv")["coverage"].between(0.8, 1).all()


def test_a_quick_run_takes_few_cells_and_draws_need_a_row_for_each_replicate(tmp_path):
    options = Options(20, out=tmp_path, **OPTIONS)
    assert len(study([0.95] * 100, quick=4).measure(options)[0]) == 4
    with pytest.raises(ValueError, match="coverage: not a row for each of 20 replicates"):
        replace(study([0.95]), name="short", draw=lambda cell, rng, count: {"coverage": np.ones(3)}).measure(options)


def test_stored_tables_are_read_as_they_were(tmp_path):
    words = ["add_remove"] * 4 + ["replace_one"]
    made = pd.DataFrame({"relation": words, "n": [100_000] * 5, "x": [1234567.0, 0.123456789, np.nan, np.inf, 2.5],
                         "held": [True, True, True, True, False], "free": ["a", "b", "a", "b", "a"]})  # fmt: skip
    store_table(made, tmp_path / "made.csv")
    assert (tmp_path / "made.csv").read_text(encoding="utf-8").splitlines()[2] == "^,^,0.123457,^,b"
    pd.testing.assert_frame_equal(read_table(tmp_path / "made.csv"), made, rtol=1e-5)


def test_a_study_that_was_stopped_goes_on_where_it_was(tmp_path):
    measured = []

    def measure(part):
        if len(measured) == 2:
            raise KeyboardInterrupt
        measured.append(part)
        return {"part": part}

    options = Options(3, out=tmp_path, **OPTIONS)
    with pytest.raises(KeyboardInterrupt):
        [kept("study", part, options, partial(measure, part)) for part in range(4)]
    before = measured[:]
    measured.clear()
    found = [kept("study", part, options, partial(measure, part)) for part in range(4)]
    assert (before, measured) == ([0, 1], [2, 3])
    assert found == [{"part": part} for part in range(4)]


def test_the_state_of_the_code_is_that_of_all_that_a_script_is_made_of():
    names = {path.name for path in sources_of("real_data")}
    assert {"real_data.py", "real_populations.py", "real_populations.toml", "newton_draws.py", "rules.py"} <= names
    assert {"real.py", "real.toml"} <= names
    assert "mean_tests.py" not in names


def test_a_digest_is_of_what_a_script_needs_and_of_what_it_does(monkeypatch, tmp_path):
    names = {path.relative_to(code.ROOT).as_posix() for path in sources_of("cdf_band")}
    assert {"dpinfer/distributions/quantiles.py", "dpinfer/kernel/price.py", "validation/common/study.py"} <= names
    assert not any(name.startswith(("dpinfer/regression/", "dpinfer/resampling/")) for name in names)
    path, found = tmp_path / "a.py", []
    monkeypatch.setattr(code, "ROOT", tmp_path)
    for text in (
        "def f():\n    return 1\n",
        'def f():\n    """Say."""\n\n    # one\n    return 1\n',
        "def f():\n    return 2\n",
    ):
        path.write_text(text, encoding="utf-8")
        code._tree.cache_clear()
        found.append(code._digest.__wrapped__(path))
    assert found[0] == found[1] != found[2]
    code._tree.cache_clear()


def test_what_a_claim_does_not_say_is_completed():
    plain = Claim("w", "d", "1", held=True)
    assert completed(plain, "newton_peers", 40).replicates == 40
    assert completed(plain, "ratios", 15).kind == "time"
    exact = completed(Claim("w", "d", "1", held=True, error="exact"), "proportion_exact", 1)
    assert (exact.kind, exact.replicates) == ("exact", 0)


def test_results_keep_the_rows_of_scripts_that_did_not_run(tmp_path):
    path = tmp_path / "results.csv"
    one = Claim("w", "d", "1", held=True)
    write_results({"ols_coverage": Ran([one], 1.5), "cdf_band": Ran([one, one], 2.0)}, path)
    write_results({"cdf_band": Ran([replace(one, ours="2")], 3.0)}, path)
    stored = read_results(path)
    assert list(stored["script"]) == ["ols_coverage", "cdf_band"]
    assert list(stored["ours"]) == ["1", "2"]
    assert list(stored["minutes"]) == [1.5, 3.0]


def test_results_without_a_column_are_refused(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("script,what\nols_coverage,w\n", encoding="utf-8")
    with pytest.raises(ValueError, match="lacks the columns"):
        read_results(path)


def test_every_script_is_there_and_judges_at_least_as_much_in_full_as_with_a_fresh_seed_and_quickly():
    for name, script in SCRIPTS.items():
        assert script.full >= script.quick > 0, name
        assert script.full >= script.fresh, name
        assert not (script.fresh and name in TIMED), name
        assert sources_of(name), name


def test_a_full_run_measures_every_cell(tmp_path):
    """A run of fewer replicates than the first look takes a few cells: tables of a full one were cut so."""
    for name, script in SCRIPTS.items():
        found = getattr(import_module(module_of(name)), "STUDY", ())
        for study in found if isinstance(found, tuple) else (found,):
            short = Options(**OPTIONS, replicates=script.full, out=tmp_path).quick
            assert not short or (callable(study.quick) and all(map(study.quick, study.grid))), name


def test_the_gap_is_that_of_coverage_93_for_95():
    assert 0.05 + GAP * np.sqrt(0.05 * 0.95) == pytest.approx(0.07)


def test_actions_are_timed_in_turn_as_often_as_time_allows_and_one_may_time_itself():
    called = []

    def waits():
        called.append("waits")
        time.sleep(0.06)

    def tells():
        called.append("tells")
        return Took(3.0, 2.0)

    found = in_turns({"waits": waits, "tells": tells}, 2, rest=0.0)
    assert called == ["waits", "tells"] * 3
    assert found["waits"].shape == (2, 2)
    assert found["waits"][:, 0].min() >= 0.06
    np.testing.assert_array_equal(found["tells"], [[3, 2]] * 2)
    assert len(in_turns({"waits": waits, "tells": tells}, 9, rest=0.0, most=7.0)["tells"]) == 2
    assert len(in_turns({"tells": tells}, 9, most=1.0)["tells"]) == 1


def test_results_of_a_script_that_draws_the_same_are_of_todays_code():
    results = pd.read_csv(RESULTS, dtype=str, keep_default_na=False)
    name = results["script"].iloc[-1]
    once = carried(results, name, "abc", 5)
    twice = carried(once, name, "abd", 20, apart=results["what"].iloc[-1])
    mine = results["script"] == name
    assert set(once.loc[mine, "compared"]) == {"5"}
    assert twice["code"].iloc[-1] == "abc"
    assert set(twice.loc[mine, "compared"]) == {"5"}  # the least of all comparisons
    pd.testing.assert_frame_equal(once[~mine], results[~mine])


def test_arrays_that_differ_are_named_whatever_their_kind():
    one = {("s", 0, "ends"): np.array([1.0, np.nan, np.inf]), ("s", 0, "joint"): np.array([True])}
    assert not [*differing(one, {**one, ("s", 0, "ends"): np.array([1.0 + 1e-9, np.nan, np.inf])})]
    assert [*differing(one, {**one, ("s", 0, "ends"): np.array([1.001, np.nan, np.inf])})] == ["s 0 ends"]
    assert [*differing(one, {("s", 0, "ends"): one["s", 0, "ends"]})] == ["s 0 joint"]
    assert not [*differing(one, {**one, ("s", 0, "joint"): np.array([False])}, apart="joint")]


@pytest.mark.slow
def test_another_state_of_the_code_is_asked_and_a_change_of_what_it_draws_is_seen(tmp_path):
    for part in ("dpinfer", "validation"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("output", "__pycache__"))
    here = _asked(ROOT, "drawn", "naive_average", "3")
    assert here
    assert not [*differing(_asked(tmp_path, "drawn", "naive_average", "3"), here)]
    rules = tmp_path / "validation" / "common" / "rules.py"
    changed = re.sub(r"^SEED = (\d+)", r"SEED = 1\1", rules.read_text(encoding="utf-8"), flags=re.MULTILINE)
    rules.write_text(changed, encoding="utf-8")
    assert [*differing(_asked(tmp_path, "drawn", "naive_average", "3"), here)]
    assert _asked(tmp_path, "codes", "naive_average") != _asked(ROOT, "codes", "naive_average")


def test_that_threads_which_end_while_cores_are_set_do_no_harm():
    ended = threading.Event()

    def come_and_go():
        while not ended.is_set():
            others = [threading.Thread(target=time.sleep, args=(1e-4,)) for _ in range(20)]
            for other in others:
                other.start()
            for other in others:
                other.join()

    coming, cores = threading.Thread(target=come_and_go), os.sched_getaffinity(0)
    coming.start()
    try:
        for _ in range(400):
            confine(cores)
    finally:
        ended.set()
        coming.join()
    assert os.sched_getaffinity(0) == cores

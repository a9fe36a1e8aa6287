"""Bounds from noisy counts in octaves: what is found, what is not determined, and what is told."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.entry.results import occupied_from, octave_bounds
from dpinfer.errors import InferenceError, OptionError, ReleaseFormatError, UnknownColumnError
from dpinfer.release.laws import NoiseLaw

LOOSE = dpi.Real(-1e12, 1e12)
SURE = dpi.ZCDP(1e4)


def public(cells, column=LOOSE, seed=1, **more):
    schema = dpi.Schema(x=column, g=dpi.Category(["a", "b"]))
    frame = pd.DataFrame({"x": cells, "g": "a"})
    return dpi.PublicData(frame, schema, rng=np.random.default_rng(seed), **more)


CASES = {
    "positive": (LOOSE, [5.0, 90.0], (2, 256)),
    "both signs": (LOOSE, [-5.0, 90.0], (-16, 256)),
    "far from zero": (dpi.Real(0, 1e12), [1950.0, 2020.0], (512, 4096)),
    "negative": (LOOSE, [-90.0, -5.0], (-256, -2)),
    "ends of octaves": (LOOSE, [4.0, 64.0], (2, 256)),
    "zero": (LOOSE, [0.0, 3.0], (-(2.0**-29), 8)),
    "zero of what is not negative": (dpi.Real(0, 1e12), [0.0, 3.0], (0, 8)),
    "whole numbers": (dpi.Integer(-1000, 10**9), [-3, 40], (-8, 128)),
    "beyond declared bounds": (dpi.Real(0, 100), [-50.0, 1e9], (0, 100)),
    "constant of a policy": (dpi.Real(0, 1e12, missing=1.0), [50.0, 90.0], (1, 256)),
}


@pytest.mark.parametrize("case", CASES)
def test_outermost_octaves_with_rows_and_one_more(case):
    column, cells, ends = CASES[case]
    results = dpi.bounds("x", public(cells * 500, column)).fit(SURE)
    found = results.schema["x"]
    assert (found.lower, found.upper) == ends
    assert type(found) is type(column)
    assert found.missing == column.missing
    assert list(results.schema) == ["x", "g"]
    assert results.flags == ()


def test_advice_on_columns_that_are_not_counted_is_not_cited(tmp_path):
    frame = pd.DataFrame({"x": [5.0, 90.0, 7.0] * 500, "g": "c", "b": "yes"})
    schema = dpi.Schema(x=LOOSE, g=dpi.Category(["a", "b"]), b=dpi.Boolean())
    data = dpi.PublicData(frame, schema, rng=np.random.default_rng(1))
    advice = [one.text for one in dpi.quality(data).measure(SURE).advice]
    assert [text.split(" are ")[0] for text in advice[:2]] == ["All cells of g", "All cells of b"]
    release = dpi.bounds("x", data).measure(SURE)
    assert (release.notes, release.columns_read) == ((), ("x",))
    assert list(release.infer().schema) == ["x", "g", "b"]
    release.save(tmp_path / "bounds.json")
    assert dpi.read_release(tmp_path / "bounds.json").columns_read == ("x",)
    with pytest.raises(ReleaseFormatError, match="read is of a wrong type"):
        dpi.Release.from_json(release.to_json().replace('"read": [', '"read": [3, '))


def test_a_release_of_columns_that_were_all_read_says_nothing_more_of_them():
    data = dpi.PublicData(
        pd.DataFrame({"x": [1.0], "y": [2.0]}), dpi.Schema(x=LOOSE, y=LOOSE), rng=np.random.default_rng(1)
    )
    release = dpi.bounds(["y", "x"], data).measure(SURE)
    assert "read" not in release.question
    assert release.columns_read == ("x", "y")


def test_margins_and_false_alarms_are_chosen_again_for_nothing():
    release = dpi.bounds("x", public([5.0, 90.0] * 500)).measure(SURE)
    assert release.infer(margin=0).bounds.loc["x", ["lower", "upper"]].tolist() == [4, 128]
    assert release.infer(margin=3).bounds.loc["x", ["lower", "upper"]].tolist() == [0.5, 1024]
    assert release.infer(false_alarm=0.1).threshold < release.infer().threshold


def test_what_is_lost_in_noise_is_not_determined():
    results = dpi.bounds("x", public([5.0, 90.0])).fit(dpi.ZCDP(0.001))
    assert results.bounds[["lower", "upper"]].isna().all(axis=None)
    assert len(results.flags) == 1
    assert "not determined" in str(results)
    with pytest.raises(InferenceError, match="bounds of x are not determined"):
        _ = results.schema


def test_a_cell_without_rows_is_seldom_taken_to_hold_some():
    """Of 2,000 releases of no rows 2 are expected above the limit, and more than 20 with probability below 1e-12."""
    for family in ("gaussian", "laplace"):
        law = NoiseLaw(family, (7.0,) * 150)
        noise = law.rvs(2000, np.random.default_rng(3))
        assert (noise > occupied_from(law, 0.001)).any(axis=1).sum() <= 20


def test_many_releases_are_read_as_one_by_one():
    rng = np.random.default_rng(2)
    ends, counts = np.arange(9.0), rng.normal(0, 3, (200, 8))
    together = octave_bounds(counts, ends, 4.0, 1)
    for one, line in zip(counts, together, strict=True):
        places = np.flatnonzero(one > 4)
        right = [ends[max(places[0] - 1, 0)], ends[min(places[-1] + 2, 8)]] if places.size else [np.nan] * 2
        np.testing.assert_array_equal(line, right)


def test_the_next_step_charges_the_same_ledger():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"income": rng.lognormal(10, 0.5, 20_000), "id": np.arange(20_000) % 9000})
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(10))
    data = dpi.PrivateData(frame, dpi.Schema(income=dpi.Real(0, 1e12)), ledger, id="id", max_rows=2)
    found = dpi.bounds("income", data).fit(dpi.ZCDP(1))
    within = dpi.PrivateData(frame, found.schema, ledger)
    assert within.schema.people == data.schema.people
    results = dpi.mean("income", within).fit(dpi.ZCDP(9))
    assert len(ledger.charges()) == 2
    assert results.bse.iloc[0] < 1000
    with pytest.raises(dpi.errors.BudgetExceededError):
        dpi.mean("income", within).fit(dpi.ZCDP(1))


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"columns": "g"}, OptionError),
        ({"columns": "z"}, UnknownColumnError),
        ({"columns": ["x", "x"]}, OptionError),
        ({"columns": 3}, OptionError),
        ({"columns": "x", "octaves": (3, 3)}, OptionError),
        ({"columns": "x", "octaves": (0.5, 3)}, OptionError),
        ({"columns": "x", "octaves": 7}, OptionError),
        ({"columns": "x", "margin": -1}, OptionError),
        ({"columns": "x", "margin": 1.5}, OptionError),
        ({"columns": "x", "false_alarm": 0}, OptionError),
        ({"columns": "x", "false_alarm": "much"}, OptionError),
    ],
)
def test_what_cannot_be_asked_is_refused(asked, error):
    with pytest.raises(error):
        dpi.bounds(data=public([1.0]), **asked)


def test_too_many_octaves_are_refused():
    schema = dpi.Schema({f"x{j}": LOOSE for j in range(40)})
    with pytest.raises(OptionError, match="fewer columns"):
        dpi.bounds(list(schema)).explain(dpi.ZCDP(1), schema=schema)


def test_dates_are_refused():
    schema = dpi.Schema(d=dpi.Date("2020-01-01", "2021-01-01"))
    with pytest.raises(OptionError, match="Real or Integer"):
        dpi.bounds("d").explain(dpi.ZCDP(1), schema=schema)


def test_tables_tell_nothing_but_the_release():
    """The same numbers in releases of other rows print the same."""
    texts = []
    for cells in ([5.0, 90.0] * 50, [-1e9, 3.0] * 50):
        release = dpi.bounds("x", public(cells)).measure(dpi.ZCDP(0.1))
        stage = replace(release.stages[0], values=tuple(10**9 * k for k in range(len(release.values))))
        results = replace(release, stages=(stage,)).infer()
        texts.append((str(results), results._repr_html_(), repr(results), repr(results.schema)))
    assert texts[0] == texts[1]


def test_damaged_exponents_are_refused():
    release = dpi.bounds("x", public([1.0])).measure(dpi.ZCDP(1))
    with pytest.raises(ReleaseFormatError):
        dpi.Release.from_json(release.to_json().replace("-30", "60")).infer()

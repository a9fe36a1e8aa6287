"""What docs/coming-from/r.md computes of a release's JSON without the package."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import dpinfer as dpi

PAGE = Path(__file__).parents[2] / "docs" / "coming-from" / "r.md"
SCHEMA = dpi.Schema(other=dpi.Boolean(), age=dpi.Real(17.5, 42))


def lines_of_r():
    (code,) = re.findall(r"```r\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return re.sub(r"#.*", "", code)


def keys(thing):
    """All names of fields in nested JSON."""
    if isinstance(thing, dict):
        return set(thing) | {key for one in thing.values() for key in keys(one)}
    return {key for one in thing for key in keys(one)} if isinstance(thing, list) else set()


def computed(release):
    """The arithmetic of the lines of R, on the fields that they name."""
    column = release["question"]["schema"]["columns"][0]
    middle, half = (column["upper"] + column["lower"]) / 2, (column["upper"] - column["lower"]) / 2
    stage = release["stages"][0]
    sums = [one["value"] * one["step"] for one in stage["sums"]]
    n, z = sums[0], sums[1] / sums[0]
    sampling = ((sums[2] / n + 1) / 2 - z**2) / (n - 1)
    noise = (stage["law"]["scales"][0][0] * stage["sums"][1]["step"]) ** 2 * (1 + z**2) / n**2
    error = np.sqrt(sampling + noise)
    arm = stats.t.ppf(0.975, n - 1) * error
    return middle + half * z, half * error, middle + half * (z - arm), middle + half * (z + arm)


@pytest.mark.parametrize("price", [dpi.ZCDP(1e-4), dpi.ZCDP(0.1), dpi.GDP(0.05)], ids=str)
def test_the_arithmetic_gives_our_estimate_and_its_wald_interval(price, tmp_path):
    rows = SCHEMA.sample(6000, np.random.default_rng(1))
    data = dpi.PrivateData(rows, SCHEMA, dpi.Ledger.in_memory(price, dataset="ages"))
    results = dpi.mean("age", data).fit(price)
    results.release.save(tmp_path / "age.json")
    release = json.loads((tmp_path / "age.json").read_text(encoding="utf-8"))
    assert release["stages"][0]["law"]["family"] == "discrete gaussian"
    frame = results.with_inference("wald").to_frame()
    ours = frame[["estimate", "std.error", "conf.low", "conf.high"]].to_numpy()[0]
    theirs = np.array(computed(release))
    np.testing.assert_allclose(theirs[:2], ours[:2], rtol=1e-7)
    np.testing.assert_allclose(theirs[2:], ours[2:], rtol=0, atol=1e-3 * (ours[3] - ours[2]))


def test_the_lines_name_fields_that_a_release_has():
    named = set(re.findall(r"\$(\w+)", lines_of_r()))
    assert named == {
        "question",
        "schema",
        "columns",
        "upper",
        "lower",
        "stages",
        "sums",
        "value",
        "step",
        "law",
        "scales",
    }
    rng = np.random.default_rng(1)
    data = dpi.PublicData(SCHEMA.sample(50, rng), SCHEMA, rng=rng)
    assert named <= keys(json.loads(dpi.mean("age", data).fit(dpi.ZCDP(1)).release.to_json()))


def test_the_lines_need_base_r_and_jsonlite_alone():
    assert re.findall(r"(\w+)::", lines_of_r()) == ["jsonlite"]
    assert "library" not in lines_of_r()

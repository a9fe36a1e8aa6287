"""A release as a value: lossless as JSON, refused when damaged, saved whole or not at all."""

import json
import os
import stat
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.errors import DPInferError, InferenceError, ReleaseError, ReleaseFormatError, ReleaseVersionError
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.release.release import FORMAT_VERSION, Release, read_release
from tests.linear import gram_ols

SCHEMA = dpi.Schema(
    {"hours per week": dpi.Real(0, 99)}, x=dpi.Real(0, 1), g=dpi.Category(["a", "é", "c"]), y=dpi.Real(0, 1)
)


def frame():
    rng = np.random.default_rng(4)
    sample = SCHEMA.sample(800, rng)
    sample["y"] = np.clip(0.5 * sample["x"] + 0.2 + rng.normal(0, 0.1, 800), 0, 1)
    return sample


FRAME = frame()
QUESTIONS = {
    "gaussian": (gram_ols("y ~ x + C(g, contr.sum) + `hours per week`"), dpi.ZCDP(0.5), "add_remove"),
    "laplace": (gram_ols("y ~ x", inference="wald"), dpi.PureDP(2.0), "replace_one"),
}


@cache
def measure(name):
    procedure, price, neighbors = QUESTIONS[name]
    ledger = dpi.Ledger.in_memory(price, neighbors=neighbors)
    return procedure.bind(dpi.PrivateData(FRAME, SCHEMA, ledger)).measure(price)


@pytest.fixture(scope="module")
def plain():
    return measure("gaussian")


def test_the_text_is_readable_and_says_what_was_paid(plain):
    stored = json.loads(plain.to_json())
    assert stored["format"] == "dpinfer release"
    assert stored["version"] == FORMAT_VERSION
    assert stored["guarantee"].startswith("0.5-zCDP")
    assert len(stored["stages"]) == 1
    assert stored["stages"][0]["law"]["family"] == "discrete gaussian"
    assert stored["stages"][0]["sums"][0]["name"] == "1 * 1"
    assert stored["stages"][0]["settings"] == {}
    assert stored["question"]["text"] == "y ~ x + C(g, contr.sum) + `hours per week`"
    assert stored["charge_ids"] == list(plain.charge_ids)
    assert len(plain.charge_ids) == 1


NAMED = [
    (["stages", 0, "settings"], [], "settings is of a wrong type"),
    (["stages", 0, "sums"], [], "0 sums but"),
    (["stages", 0, "sums", 0, "value"], 1.5, "value: a noisy sum is not a whole number"),
    (["stages", 0, "sums", 0, "step"], 0, "step: not a positive number"),
    (["stages", 0, "sums", 0, "name"], 7, "name is of a wrong type"),
    (["stages", 0, "law", "family"], "discrete cauchy", "noise law"),
    (["stages"], [], "stages is of a wrong type"),
]


@pytest.mark.parametrize(("path", "value", "words"), NAMED, ids=str)
def test_damage_to_a_stage_is_named_by_its_field(plain, path, value, words):
    with pytest.raises(ReleaseFormatError, match=words):
        Release.from_json(changed(plain, path, value))


def test_large_integers_survive(plain):
    (only,) = plain.stages
    huge = replace(plain, stages=(replace(only, values=(2**80 + 1, *only.values[1:])),))
    assert Release.from_json(huge.to_json()).values[0] == 2**80 + 1


def test_text_cut_short_is_refused_at_every_length(plain):
    text = plain.to_json()
    for length in [*range(0, len(text) - 1, 97), len(text) - 2, len(text) - 1]:
        with pytest.raises(ReleaseFormatError):
            Release.from_json(text[:length])


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "3", '"dpinfer release"', "{}", '{"format": "other"}', "<html>", "\x00", "[" * 100_000]
)
def test_what_is_no_release_is_refused(text, tmp_path):
    with pytest.raises(ReleaseFormatError):
        Release.from_json(text)
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(ReleaseFormatError):
        read_release(path)


def test_files_that_cannot_be_read_or_written(plain, tmp_path):
    with pytest.raises(FileNotFoundError, match=f"no such folder: '{tmp_path / 'missing'}'"):
        plain.save(tmp_path / "missing" / "income.json")
    with pytest.raises(ReleaseFormatError, match="cannot be read"):
        read_release(tmp_path / "none.json")
    with pytest.raises(ReleaseFormatError, match="cannot be read"):
        read_release(tmp_path)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ReleaseFormatError, match="cannot be read"):
        read_release(binary)


def changed(release, path, value):
    stored = json.loads(release.to_json())
    target = stored
    for step in path[:-1]:
        target = target[step]
    if value is KeyError:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    return json.dumps(stored)


def test_another_version_is_told_apart_from_damage(plain):
    for version in (FORMAT_VERSION + 1, 10**9):
        with pytest.raises(ReleaseVersionError, match="update dpinfer"):
            Release.from_json(changed(plain, ["version"], version))
    for version in range(1, FORMAT_VERSION):
        with pytest.raises(ReleaseVersionError, match=f"format version {version}.*version of dpinfer that wrote it"):
            Release.from_json(changed(plain, ["version"], version))
    for version in (0, -1, "2", None, True, 1.5, KeyError):
        with pytest.raises(ReleaseFormatError, match="version"):
            Release.from_json(changed(plain, ["version"], version))
    assert issubclass(ReleaseVersionError, ReleaseError)


def places(value, path=()):
    """Every place in a JSON value; of lists the first two entries."""
    if path:
        yield list(path)
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for step, part in items:
        yield from places(part, (*path, step))


STAGE = ("stages", 0)
WRONG = {
    ("format",): [KeyError],
    ("kind",): [KeyError, 3],
    ("neighbors",): [KeyError, "both"],
    ("nobs",): [KeyError, -1, 2.5, "800", True],
    ("charge_ids",): [KeyError, 7, None, "a, b", {"a": 1}, [None], [""]],
    ("public",): [KeyError, "no", None],
    ("stages",): [KeyError, [], {}, None],
    STAGE: [3],
    (*STAGE, "settings"): [KeyError, [], None],
    (*STAGE, "sums"): [KeyError, [], {}],
    (*STAGE, "sums", 0): [3],
    (*STAGE, "sums", 0, "value"): [1.5, True, "1"],
    (*STAGE, "sums", 0, "step"): [0, -1.0, float("nan"), float("inf")],
    (*STAGE, "sums", 0, "name"): [None],
    (*STAGE, "law"): [KeyError],
    (*STAGE, "law", "scales"): [[[1.0, 3]]],
    (*STAGE, "law", "scales", 0, 1): [10**30],
    (*STAGE, "law", "family"): ["discrete cauchy"],
    ("cost",): [KeyError, None],
    ("cost", "rho"): ["1/0", float("inf")],
    ("cost", "price", "unit"): ["epsilons"],
    ("question",): [KeyError, []],
    ("question", "schema"): [{}],
    ("question", "schema", "columns", 0, "kind"): ["text"],
    ("question", "schema", "columns", 0, "lower"): [1e9],
}


@pytest.mark.parametrize("path", WRONG, ids=str)
def test_fields_that_are_wrong_or_missing_are_refused_on_reading(plain, path):
    for value in WRONG[path]:
        with pytest.raises(ReleaseFormatError, match=path[-1] if value is KeyError and len(path) == 3 else None):
            Release.from_json(changed(plain, path, value))


@pytest.mark.parametrize("value", [KeyError, None, -1, "abc", [], {}, True, [1], float("nan"), 1e300], ids=str)
def test_damage_anywhere_is_a_named_error_or_harmless(plain, value):
    """Never a bare Python error, a warning or a result that is no number."""
    for path in places(json.loads(plain.to_json())):
        text = changed(plain, path, value)
        try:
            results = Release.from_json(text).infer()
        except DPInferError:
            continue
        assert np.isfinite(results.params).all(), path
        assert len(results.params) >= 1


def test_sums_that_the_question_does_not_ask_for_are_refused(plain):
    for path, value in [
        (["question", "formula"], "y ~ x"),
        (["question", "where"], 7),
        (["question", "where"], "z > 0"),
        (["question", "norm"], "l7"),
        (["question", "replicates"], "many"),
        (["question", "colour"], "red"),
        (["stages", 0, "sums", 1, "name"], "x * x"),
    ]:
        with pytest.raises(ReleaseFormatError):
            Release.from_json(changed(plain, path, value)).infer()


def test_an_unknown_procedure_or_kind_has_no_inference(plain):
    with pytest.raises(InferenceError, match=r"procedure 'nonsense'.*gram"):
        replace(plain, question={**plain.question, "procedure": "nonsense"}).infer()
    with pytest.raises(ReleaseFormatError, match="kind"):
        replace(plain, kind="nonsense").infer()


def test_a_file_that_cannot_be_written_leaves_the_old_one(plain, tmp_path):
    path = tmp_path / "income.json"
    plain.save(path)
    before = path.read_bytes()
    with pytest.raises(dpi.errors.ReleaseFormatError, match="cannot be stored"):
        replace(plain, question={**plain.question, "text": object()}).save(path)
    loop = dict(plain.question)
    loop["loop"] = loop
    endless = replace(plain, question=loop)
    with pytest.raises(dpi.errors.ReleaseFormatError, match="cannot be stored"):
        endless.save(path)
    assert path.read_bytes() == before
    assert [child.name for child in tmp_path.iterdir()] == ["income.json"]


def test_an_interrupted_write_leaves_the_old_file(plain, tmp_path, monkeypatch):
    path = tmp_path / "income.json"
    plain.save(path)
    before = path.read_bytes()

    def stop(handle):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        replace(plain, nobs=5).save(path)
    assert path.read_bytes() == before
    assert [child.name for child in tmp_path.iterdir()] == ["income.json"]


def test_saving_replaces_a_file_and_others_may_read_it(plain, tmp_path):
    path = tmp_path / "income.json"
    plain.save(path)
    other = replace(plain, nobs=5, neighbors="replace_one")
    other.save(path)
    assert read_release(path) == other
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.parametrize("name", QUESTIONS)
def test_array_and_variances_are_in_units_of_the_features(name):
    release = measure(name)
    steps = np.array(release.steps)
    assert np.array_equal(release.array, [float(v * s) for v, s in zip(release.values, release.steps, strict=True)])
    assert np.array_equal(release.noise_variances, release.law.variances * steps**2)
    exact = [Fraction(v) * Fraction(s) for v, s in zip(release.values, release.steps, strict=True)]
    assert np.allclose(release.array, [float(one) for one in exact], rtol=1e-15)


@pytest.mark.parametrize("name", QUESTIONS)
def test_simulated_releases_have_the_noise_of_the_law(name):
    """Mean and variance within six standard errors: a false alarm has probability below 1e-7."""
    release = measure(name)
    rng = np.random.default_rng(6)
    size = 3000
    draws = np.array([release.simulate(rng).array for _ in range(size)]) - release.array
    ratio = draws.var(axis=0) / np.where(release.noise_variances > 0, release.noise_variances, 1)
    noisy = release.noise_variances > 0
    kurtosis = 3 if name == "gaussian" else 6
    assert np.abs(ratio[noisy] - 1).max() < 6 * np.sqrt((kurtosis - 1) / size)
    assert not draws[:, ~noisy].any()
    assert np.abs(draws.mean(axis=0))[noisy].max() < 6 * np.sqrt(release.noise_variances.max() / size)


def test_a_simulated_release_claims_no_charge(plain):
    simulated = plain.simulate(np.random.default_rng(1))
    assert simulated.public
    assert simulated.charge_ids == ()
    assert simulated.question == plain.question
    assert simulated.values != plain.values
    assert simulated == plain.simulate(np.random.default_rng(1))
    assert plain.charge_ids


def test_a_release_is_frozen_and_prints_no_sum(plain):
    with pytest.raises(AttributeError):
        plain.values = ()
    assert str(plain.values[0]) not in repr(plain)
    assert plain.schema == SCHEMA


# A measurement says all that will be done before it is done


PLAIN = dpi.Schema(x=dpi.Real(0, 1, missing=0, impossible=0), y=dpi.Real(0, 1, missing=0, impossible=0))


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("price", [dpi.ZCDP(0.1), dpi.PureDP(0.5), dpi.GDP(0.5), dpi.ApproxDP(1, 1e-6)], ids=str)
def test_every_sum_has_a_name_a_step_and_a_scale(neighbors, price):
    measurement = gram_ols("y ~ x", clamped_share=0.1).measurement(price, schema=PLAIN, neighbors=neighbors)
    assert measurement.names == ("1 * 1", "1 * x", "1 * y", "x * x", "x * y", "y * y", "clamped rows")
    assert len(measurement.steps) == len(measurement.law.scales) == 7
    assert measurement.law.family == ("laplace" if isinstance(price, dpi.PureDP) else "gaussian")
    assert measurement.cost.price == price
    assert measurement.exact == (("1 * 1",) if neighbors == "replace_one" else ())


def test_the_description_names_everything_that_is_public():
    measurement = gram_ols("y ~ x").measurement(dpi.ZCDP(0.125), schema=PLAIN, neighbors="replace_one")
    text = measurement.describe()
    for words in (
        "6 sums of products of 3 bounded features: 1, x, y",
        "reads        x, y",
        "neighbours   replace_one",
        "L2 sensitivity",
        "discrete Gaussian",
        "exact        1 * 1",
        "0.125-zCDP",
    ):
        assert words in text
    free = gram_ols("y ~ x").measurement(dpi.ZCDP(0.125), schema=PLAIN, neighbors="add_remove")
    assert "exact        nothing" in free.describe()


def test_off_diagonal_sums_get_half_the_variance():
    measurement = dpi.gram(["x", "y"]).measurement(dpi.ZCDP(0.125), schema=PLAIN, neighbors="add_remove")
    variances = measurement.law.variances
    assert variances[1] == pytest.approx(variances[0] / 2, rel=1e-12)
    assert variances[3] == variances[0]


def test_a_measurement_is_a_function_of_public_things_alone():
    one, two = (gram_ols("y ~ x").measurement(dpi.GDP(0.3), schema=PLAIN, neighbors="replace_one") for _ in range(2))
    assert (one.law, one.cost, one.names, one.question) == (two.law, two.cost, two.names, two.question)

"""A fit that is kept is paid for once: read back where nothing differs, refused with the difference elsewhere."""

import fcntl
import json
import logging
import os
import pickle
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.robust.norms import TukeyBiweight

import dpinfer as dpi
from dpinfer.errors import (
    BudgetExceededError,
    DPInferError,
    MeasurementFailedError,
    OptionError,
    ReleaseFormatError,
    ReleaseLostError,
    ReleaseMismatchError,
    ReleaseNotSavedError,
    ReleaseVersionError,
)
from dpinfer.kernel import data as kernel_data
from dpinfer.privacy import store
from dpinfer.procedures.procedure import stored_fields
from dpinfer.release.saving import SavedRelease
from tests.contract.questions import HOME

PRICE = dpi.ZCDP(0.1)
SCHEMA = dpi.Schema(x=dpi.Real(0, 10), y=dpi.Real(0, 10), b=dpi.Boolean(), g=dpi.Category(["a", "b"]))
ROWS = SCHEMA.sample(300, np.random.default_rng(1)).assign(id=np.arange(300) // 2)


def ledger_of(neighbors="add_remove", dataset="survey", budget=5.0, keep=False):
    return dpi.Ledger.in_memory(dpi.ZCDP(budget), neighbors=neighbors, dataset=dataset, keep=keep)


def private(ledger=None, schema=SCHEMA, rows=ROWS, **options):
    return dpi.PrivateData(rows, schema, ledger or ledger_of(), **options)


def charges(data):
    return len(data.ledger.charges())


@pytest.fixture
def file(tmp_path):
    return tmp_path / "mean.json"


# What is asked twice is paid once


def test_a_release_of_quality_that_is_read_back_is_cited_as_when_it_was_made(tmp_path):
    """A script prints the same when it is run again. Here 150 rows are missing, and the noise has an error below 2."""
    rows = ROWS.assign(x=np.where(np.arange(300) % 2, np.nan, ROWS["x"]))
    ledger = ledger_of()
    for run in ("first", "again"):
        data = private(ledger, rows=rows)
        advice = dpi.quality(data, columns=["x"]).fit(dpi.ZCDP(1.0), save=tmp_path / "quality.json").advice
        assert advice, run
        assert dpi.mean("x", data).fit(PRICE, save=tmp_path / f"{run}.json").release.notes == advice, run
    assert len(ledger.charges()) == 3


def test_a_second_fit_reads_the_first_and_pays_nothing(file):
    """Fails on a library that cannot keep: the second fit pays, and gives other numbers (equal with chance below 1e-6
    on integers of a scale of millions)."""
    data = private()
    first = dpi.mean("x", data, by="g").fit(PRICE, save=file)
    again = dpi.mean("x", data, by="g").fit(PRICE, save=str(file))
    assert charges(data) == 1
    assert again.params.equals(first.params)
    assert again.bse.equals(first.bse)
    assert [one.name for one in file.parent.iterdir()] == ["mean.json"]
    assert dpi.read_release(file) == first.release == again.release
    elsewhere = private(ledger_of())
    assert dpi.mean("x", elsewhere, by="g").fit(PRICE, save=file).params.equals(first.params)
    assert charges(elsewhere) == 0


def test_without_save_a_second_fit_pays_for_new_noise():
    data = private(ledger_of(keep=True))
    first, again = (dpi.mean("x", data).measure(PRICE) for _ in range(2))
    assert charges(data) == 2
    assert first.charge_ids != again.charge_ids


RANKS = ("kruskal", "ks_1samp", "ks_2samp", "mannwhitneyu", "spearmanr", "wilcoxon")


@pytest.mark.sweep(3)
@pytest.mark.parametrize("question", HOME, ids=str)
def test_every_procedure_is_kept(question, file):
    """In a file and in a ledger: the same release, at one charge."""
    ledger = question.private().source.ledger
    kept = type(ledger).in_memory(ledger.budget, neighbors=ledger.neighbors, keep=True)
    if question.private(ledger=kept).unidentified:
        with pytest.raises(OptionError, match="it stores only the name"):
            question.private(ledger=kept).measure(question.privacy, save=file)
        assert kept.charges().empty
        return
    first = question.private(ledger=kept).measure(question.privacy, save=file)
    assert question.private(ledger=kept).measure(question.privacy, save=file) == first
    assert question.private(ledger=kept).measure(question.privacy, reuse=True) == first
    assert len(kept.charges()) == 1
    restored = dpi.Release.from_json(file.read_text())
    assert restored == first
    assert np.array_equal(restored.array, first.array)
    assert restored.law == first.law
    assert restored.to_json() == first.to_json()
    with pytest.raises(ReleaseMismatchError) as caught:
        question.private(ledger=kept).measure(question.privacy * 0.5, save=file)
    told = [name for name, *_ in caught.value.differences]
    leaves = "bins" in first.question and question.ask.function in RANKS  # as many as the price asks for
    assert told == ["price"] or (leaves and told == ["price", "question, bins"])


@pytest.mark.parametrize(
    "question", [dpi.mean("x", by="g"), dpi.ols("y ~ x"), dpi.count()], ids=["mean", "ols", "count"]
)
def test_releases_that_protect_people(question, file):
    data = private(ledger_of(keep=True), id="id", max_rows=2)
    first = question.bind(data).measure(PRICE, save=file)
    assert question.bind(data).measure(PRICE, save=file) == first
    assert question.bind(data).measure(PRICE, reuse=True) == first
    assert charges(data) == 1


# What is no difference: how it is inferred, what is written beside axes, how the file came to be


def test_inference_labels_and_unread_columns_are_free_to_change(file):
    data = private()
    dpi.mean("x", data).fit(PRICE, save=file)
    told = SCHEMA.replace(x=dpi.Real(0, 10, label="Income", unit="EUR", source="codebook"), y=dpi.Real(0, 99))
    wald = dpi.mean("x", private(data.ledger, told), inference="wald").fit(PRICE, save=file)
    assert wald.params.equals(dpi.read_release(file).infer(inference="wald").params)
    assert charges(data) == 1


def test_a_question_that_reads_no_column(file):
    data = private()
    first = dpi.count(data).measure(PRICE, save=file)
    other = dpi.Schema(new=dpi.Real(0, 1)) | SCHEMA
    rows = ROWS.assign(new=0.5)
    assert dpi.count(private(data.ledger, other, rows)).measure(PRICE, save=file) == first


def test_a_release_saved_by_hand_is_read(file):
    data = private()
    dpi.mean("x", data).measure(PRICE).save(file)
    dpi.mean("x", data).fit(PRICE, save=file)
    assert charges(data) == 1


# What differs is named, with what is stored and what is asked


DIFFERENCES = {
    "question": (dpi.total("x"), {}, PRICE, "mean of x", "total of x"),
    "question, columns": (dpi.mean("y"), {}, PRICE, '["x"]', '["y"]'),
    "question, where": (dpi.mean("x", where="y > 5"), {}, PRICE, "null", '"y > 5"'),
    "price": (dpi.mean("x"), {}, dpi.ZCDP(0.2), "ZCDP(rho=0.1)", "ZCDP(rho=0.2)"),
    "data set": (dpi.mean("x"), {"ledger": ledger_of(dataset="census")}, PRICE, "survey", "census"),
    "version of the data": (dpi.mean("x"), {"version": "2026-03"}, PRICE, "none declared", "2026-03"),
    "neighbours": (dpi.mean("x"), {"ledger": ledger_of("replace_one")}, PRICE, "add_remove", "replace_one"),
    "unit of protection": (
        dpi.mean("x"),
        {"id": "id", "max_rows": 2},
        PRICE,
        "one row",
        "one person with at most 2 rows, told apart by 'id'",
    ),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_difference_is_refused_by_its_name(name, file):
    dpi.mean("x", private()).measure(PRICE, save=file)
    before = file.read_bytes()
    question, options, price, stored, asked = DIFFERENCES[name]
    data = private(**options)
    with pytest.raises(ReleaseMismatchError) as caught:
        question.bind(data).fit(price, save=file)
    assert (name, stored, asked) in caught.value.differences
    assert [one for one, *_ in caught.value.differences] == [name]
    assert all(part in str(caught.value) for part in (name, stored, asked, str(file)))
    assert charges(data) == 0
    assert file.read_bytes() == before
    assert pickle.loads(pickle.dumps(caught.value)).differences == caught.value.differences


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (dpi.Real(0, 11), ("schema, x, upper", "10.0", "11.0")),
        (dpi.Real(0, 10, missing=0), ("schema, x, missing", '"drop"', "0.0")),
        (dpi.Real(0, 10, missing_codes=[-9]), ("schema, x, missing_codes", "none", "[-9]")),
        (dpi.Integer(0, 10), ("schema, x, kind", '"real"', '"integer"')),
    ],
    ids=["upper", "missing", "codes", "kind"],
)
def test_a_column_that_is_declared_otherwise(column, told, file):
    dpi.mean("x", private()).measure(PRICE, save=file)
    changed = dpi.Schema({name: column if name == "x" else SCHEMA[name] for name in SCHEMA})
    with pytest.raises(ReleaseMismatchError) as caught:
        dpi.mean("x", private(schema=changed)).measure(PRICE, save=file)
    assert caught.value.differences == (told,)


def test_long_declarations_are_told_from_where_they_differ(file):
    levels = [f"level {place}" for place in range(300)]
    before, after = (dpi.Schema(g=dpi.Category([*levels[:-1], last])) for last in ("one", "other"))
    dpi.table("g", private(schema=before)).measure(PRICE, save=file)
    with pytest.raises(ReleaseMismatchError, match=r'level 298", "one"\].*level 298", "other"\]') as caught:
        dpi.table("g", private(schema=after)).measure(PRICE, save=file)
    assert len(str(caught.value)) < 1000


def test_of_many_differences_the_first_are_told(file):
    names = [f"c{place}" for place in range(20)]
    rows = pd.DataFrame(0.5, index=range(9), columns=names)
    before, after = (dpi.Schema({name: dpi.Real(0, upper) for name in names}) for upper in (1, 2))
    dpi.gram(names, private(schema=before, rows=rows)).measure(PRICE, save=file)
    with pytest.raises(ReleaseMismatchError, match=r"and 14 more in \.differences") as caught:
        dpi.gram(names, private(schema=after, rows=rows)).measure(PRICE, save=file)
    assert len(caught.value.differences) == 20


def test_a_release_of_public_rows_is_none_of_confidential_ones(file):
    dpi.mean("x", dpi.PublicData(ROWS, SCHEMA, rng=np.random.default_rng(1))).measure(PRICE).save(file)
    with pytest.raises(ReleaseMismatchError, match="rows: stored public, with simulated noise, asked confidential"):
        dpi.mean("x", private()).measure(PRICE, save=file)


def test_every_measured_option_counts(file):
    """A field that a release stores, and that is no option of the inference, is compared."""
    dpi.histogram("x", private(), bins=4).measure(PRICE, save=file)
    stored = json.loads(file.read_text())
    for one in stored_fields(type(dpi.histogram("x", private(), bins=4))):
        if one.metadata.get("role") == "inferred":
            continue
        changed = json.loads(json.dumps(stored))
        changed["question"][one.name] = "something else"
        file.write_text(json.dumps(changed))
        with pytest.raises(ReleaseMismatchError, match=f"question, {one.name}: stored"):
            dpi.histogram("x", private(), bins=4).measure(PRICE, save=file)


# Files that cannot be read or written are refused before the charge


def refused(data, save, error, match):
    with pytest.raises(error, match=match):
        dpi.mean("x", data).fit(PRICE, save=save)
    assert charges(data) == 0


@pytest.mark.parametrize("content", [b"", b"x,y\n90210.31,2\n", b"\xff\xfe90210", b"[]", b'{"format": "90210"}'])
def test_a_file_that_is_no_release(content, file):
    file.write_bytes(content)
    data = private()
    refused(data, file, ReleaseFormatError, "is not a readable release; no budget was spent: it is something")
    assert file.read_bytes() == content
    with pytest.raises(ReleaseFormatError) as caught:
        dpi.mean("x", data).fit(PRICE, save=file)
    assert "90210" not in str(caught.value)


def test_a_release_of_a_newer_format_or_a_damaged_one(file):
    dpi.mean("x", private()).measure(PRICE, save=file)
    stored = json.loads(file.read_text())
    file.write_text(json.dumps(stored | {"version": 99}))
    refused(private(), file, ReleaseVersionError, r"format version 99.*update dpinfer")
    file.write_text(json.dumps({name: one for name, one in stored.items() if name != "cost"}))
    refused(private(), file, ReleaseFormatError, r"damaged.*cost")
    changed = {**stored, "question": {**stored["question"], "inference": "nonsense"}}
    file.write_text(json.dumps(changed))
    refused(private(), file, ReleaseFormatError, "question of the release is damaged")


def test_places_that_take_no_file(tmp_path):
    data = private()
    refused(data, tmp_path, OptionError, "something else of this name")
    refused(data, tmp_path / "none" / "mean.json", OptionError, "folder that exists")
    refused(data, "/proc/mean.json", OptionError, "can be written and locked")
    refused(data, tmp_path / ("a" * 250), OptionError, "can be written and locked")
    refused(data, "a\0b", OptionError, "the name of a file")
    refused(data, "", OptionError, "the name of a file")
    refused(data, "/", OptionError, "something else of this name")
    os.mkfifo(tmp_path / "pipe")
    refused(data, tmp_path / "pipe", OptionError, "something else of this name")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    refused(data, loop, OptionError, "save=")
    for wrong in (5, True, b"mean.json", ROWS["x"], ["90210"]):
        with pytest.raises(OptionError) as caught:
            dpi.mean("x", data).fit(PRICE, save=wrong)
        assert f"save=<{type(wrong).__name__}>" in str(caught.value)
    assert [one.name for one in tmp_path.iterdir() if one.name not in ("pipe", "loop")] == []


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "mean.json"
    link.symlink_to(tmp_path / "real" / "kept.json")
    data = private()
    dpi.mean("x", data).measure(PRICE, save=link)
    assert link.is_symlink()
    assert (tmp_path / "real" / "kept.json").is_file()
    dpi.mean("x", data).measure(PRICE, save=link)
    assert charges(data) == 1


def test_what_fails_before_the_charge_leaves_nothing(file):
    data = private(ledger_of(budget=0.05))
    with pytest.raises(BudgetExceededError):
        dpi.mean("x", data).fit(PRICE, save=file)
    with pytest.raises(OptionError):
        dpi.mean("x").fit(PRICE, save=file)
    with pytest.raises(DPInferError):
        dpi.mean("x", data).fit(0.1, save=file)
    assert list(file.parent.iterdir()) == []
    assert charges(data) == 0


def test_keywords_of_the_fit_are_not_the_questions():
    with pytest.raises(OptionError, match=r"goes to fit: \.fit\(dpi\.ZCDP\(0\.1\), save="):
        dpi.mean("x", private(), save="mean.json")


# Public rows: nothing is paid, and nothing is written


def test_public_rows_are_measured_anew(file):
    data = dpi.PublicData(ROWS, SCHEMA, rng=np.random.default_rng(1))
    first, again = (dpi.mean("x", data).measure(PRICE, save=file, reuse=True) for _ in range(2))
    assert not np.array_equal(first.array, again.array)  # seeded
    assert not file.exists()
    with pytest.raises(OptionError, match="save="):
        dpi.mean("x", data).fit(PRICE, save=5)


# What was paid and is lost


def test_a_failure_after_the_charge_stays_paid_and_says_so(file, monkeypatch):
    data = private()
    with monkeypatch.context() as patched:
        patched.setattr("dpinfer.kernel.run._measure", lambda *_: 1 / 0)
        with pytest.raises(MeasurementFailedError):
            dpi.mean("x", data).fit(PRICE, save=file)
    identifier = data.ledger.charges()["id"][0]
    for _ in range(2):
        with pytest.raises(ReleaseLostError) as caught:
            dpi.mean("x", data).fit(PRICE, save=file)
        assert caught.value.charge_id == identifier
        assert f"an earlier run was charged for mean of x at ZCDP(rho=0.1), charge {identifier}" in str(caught.value)
        assert f"Delete '{file}.reserved' to measure and spend again" in str(caught.value)
    assert charges(data) == 1
    (file.parent / "mean.json.reserved").unlink()
    dpi.mean("x", data).fit(PRICE, save=file)
    assert charges(data) == 2
    assert [one.name for one in file.parent.iterdir()] == ["mean.json"]


def test_a_reservation_under_another_ledger(file, monkeypatch):
    """Whether its price was paid cannot be known: nothing is paid, and the reader is told where to look."""
    with monkeypatch.context() as patched:
        patched.setattr("dpinfer.kernel.run._measure", lambda *_: 1 / 0)
        with pytest.raises(MeasurementFailedError):
            dpi.mean("x", private()).fit(PRICE, save=file)
    refused(private(), file, ReleaseLostError, r"another ledger than this one.*No budget was spent now. Delete")


@pytest.mark.parametrize("content", ["{}", "90210", '{"format": "dpinfer reservation", "version": 9}', "\udcff"])
def test_a_file_in_the_place_of_the_reservation(content, file):
    sidecar = file.parent / "mean.json.reserved"
    sidecar.write_bytes(content.encode("utf-8", "surrogateescape"))
    refused(private(), file, ReleaseFormatError, "stands where a reservation belongs")
    assert sidecar.read_bytes() == content.encode("utf-8", "surrogateescape")


def test_an_empty_reservation_is_none(file):
    (file.parent / "mean.json.reserved").touch()
    dpi.mean("x", private()).fit(PRICE, save=file)
    assert [one.name for one in file.parent.iterdir()] == ["mean.json"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), MemoryError()])
def test_a_release_that_cannot_be_written_is_in_the_error(error, file, monkeypatch):
    data = private()

    def fails(*_):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr("dpinfer.release.saving.write_whole", fails)
        with pytest.raises(ReleaseNotSavedError) as caught:
            dpi.mean("x", data).fit(PRICE, save=file)
    with pytest.raises(ReleaseLostError):
        dpi.mean("x", data).fit(PRICE, save=file)
    caught.value.release.save(file)
    found = dpi.mean("x", data).fit(PRICE, save=file)
    assert found.release == caught.value.release
    assert charges(data) == 1
    assert [one.name for one in file.parent.iterdir()] == ["mean.json"]  # its reservation went with the next reading


# Releases in the ledger


def test_a_ledger_keeps_what_was_released():
    data = private(ledger_of(keep=True), version="2026-03")
    first = dpi.mean("x", data).measure(PRICE)
    second = dpi.table("g", data).fit(dpi.ZCDP(0.2)).release
    listed = data.ledger.releases()
    assert list(listed) == ["id", "time", "description", "price", "dataset", "version", "stored"]
    assert list(listed["id"]) == [*first.charge_ids, *second.charge_ids]
    assert list(listed["price"]) == [PRICE, dpi.ZCDP(0.2)]
    assert list(listed["version"]) == ["2026-03"] * 2
    assert list(listed["dataset"]) == ["survey"] * 2
    assert listed["stored"].all()
    assert data.ledger.release(first.charge_ids[0]) == first
    with pytest.raises(OptionError, match="releases"):
        data.ledger.release("none")


def test_a_ledger_keeps_nothing_by_default():
    data = private()
    release = dpi.mean("x", data).measure(PRICE)
    assert not data.ledger.keeps
    assert data.ledger.releases().empty
    with pytest.raises(OptionError, match="id"):
        data.ledger.release(release.charge_ids[0])
    with pytest.raises(OptionError, match="keep=True"):
        dpi.mean("x", data).measure(PRICE, reuse=True)
    assert charges(data) == 1


def test_a_ledger_file_keeps_for_whoever_opens_it(tmp_path):
    named = {"dataset": "survey", "budget": dpi.ZCDP(5.0)}
    before = dpi.Ledger(tmp_path / "a.db", **named)
    dpi.mean("x", private(before)).measure(PRICE)
    opened = dpi.Ledger(tmp_path / "a.db", **named, keep=True)
    assert opened.releases().empty
    first = dpi.mean("x", private(before)).measure(PRICE)  # also through the object that was there
    for ledger in (dpi.Ledger.open(tmp_path / "a.db"), dpi.Ledger(tmp_path / "a.db", **named)):
        assert ledger.keeps
        assert dpi.mean("x", private(ledger)).measure(PRICE, reuse=True) == first
    assert len(before.charges()) == 2
    with pytest.raises(OptionError, match="keep"):
        dpi.Ledger(tmp_path / "b.db", **named, keep="yes")
    assert not (tmp_path / "b.db").exists()


@pytest.mark.parametrize("name", [name for name in DIFFERENCES if name not in ("data set", "neighbours")])
def test_a_release_of_another_question_is_not_reused(name):
    ledger = ledger_of(keep=True)
    first = dpi.mean("x", private(ledger)).measure(PRICE)
    question, options, price, *_ = DIFFERENCES[name]
    if name == "unit of protection":  # which a ledger has one of
        ledger = ledger_of(keep=True)
    data = private(ledger, **options)
    assert question.bind(data).measure(price, reuse=True) != first


def test_the_last_of_several_is_reused():
    data = private(ledger_of(keep=True))
    releases = [dpi.mean("x", data).measure(PRICE) for _ in range(3)]
    assert dpi.mean("x", data).fit(PRICE, reuse=True).release == releases[-1]
    assert charges(data) == 3


def test_a_release_that_the_ledger_lost(monkeypatch):
    data = private(ledger_of(keep=True))
    with monkeypatch.context() as patched:
        patched.setattr("dpinfer.kernel.run._measure", lambda *_: 1 / 0)
        with pytest.raises(MeasurementFailedError):
            dpi.mean("x", data).measure(PRICE)
    assert list(data.ledger.releases()["stored"]) == [False]
    with pytest.raises(ReleaseLostError, match=r"was charged for this question.*without reuse=True"):
        dpi.mean("x", data).measure(PRICE, reuse=True)
    with pytest.raises(ReleaseLostError, match="is not in the ledger"):
        data.ledger.release(data.ledger.charges()["id"][0])
    assert charges(data) == 1
    first = dpi.mean("x", data).measure(PRICE)
    assert dpi.mean("x", data).measure(PRICE, reuse=True) == first


def test_a_release_that_the_ledger_cannot_store(monkeypatch, file):
    """It is in the error, and where a file was named, in the file."""
    data = private(ledger_of(keep=True))

    def fails(*_):
        raise dpi.errors.LedgerError("the ledger cannot be used: disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("dpinfer.privacy.store.Account.keep", fails)
        with pytest.raises(ReleaseNotSavedError, match="disk is full") as caught:
            dpi.mean("x", data).fit(PRICE, save=file)
    assert dpi.read_release(file) == caught.value.release
    assert dpi.mean("x", data).measure(PRICE, save=file) == caught.value.release
    assert charges(data) == 1


def test_save_and_reuse_together(file):
    data = private(ledger_of(keep=True))
    first = dpi.mean("x", data).measure(PRICE)
    assert dpi.mean("x", data).measure(PRICE, save=file, reuse=True) == first
    assert dpi.read_release(file) == first
    assert charges(data) == 1


def test_a_crash_between_ledger_and_file_is_made_good(file, monkeypatch):
    data = private(ledger_of(keep=True))
    with monkeypatch.context() as patched:
        patched.setattr("dpinfer.release.saving.write_whole", lambda *_: 1 / 0)
        with pytest.raises(ReleaseNotSavedError) as caught:
            dpi.mean("x", data).measure(PRICE, save=file)
    with pytest.raises(ReleaseLostError, match=r"ledger.release\('[0-9a-f]{32}'\) returns it"):
        dpi.mean("y", data).measure(PRICE, save=file)
    assert dpi.mean("x", data).measure(PRICE, save=file) == caught.value.release == dpi.read_release(file)
    assert charges(data) == 1


@pytest.mark.parametrize("given", ["yes", 1, None, ROWS["x"]])
def test_reuse_is_true_or_false(given):
    with pytest.raises(OptionError, match=r"reuse=.*True or False"):
        dpi.mean("x", private(ledger_of(keep=True))).measure(PRICE, reuse=given)


# Versions


def test_a_version_is_recorded(file):
    data = private(version="2026-03")
    release = dpi.mean("x", data).measure(PRICE, save=file)
    assert release.dataset_version == dpi.read_release(file).dataset_version == data.version == "2026-03"
    assert data.ledger.charges()["description"][0] == "mean of x (version of the data: 2026-03)"
    assert "dataset_version" not in json.loads(dpi.mean("x", private()).measure(PRICE).to_json())


def test_releases_of_two_versions_are_not_combined():
    ledger = ledger_of()
    releases = [dpi.count(private(ledger, version=one)).measure(PRICE) for one in ("1", "2")]
    with pytest.raises(dpi.errors.InferenceError, match="version of the data"):
        dpi.combine(releases)


@pytest.mark.parametrize("given", ["", " ", "a\nb", "a" * 101, 3, ROWS["x"], ["a"]])
def test_a_version_that_is_none(given):
    with pytest.raises(OptionError, match=r"version=.*names this state of the rows") as caught:
        private(version=given)
    assert str(ROWS["x"][0]) not in str(caught.value)


# Attacks


def test_nothing_but_noise_tells_of_a_cell(tmp_path, monkeypatch):
    """Two frames that differ in one cell: the same names, texts and types, and sizes up to the noisy digits."""
    seen = []
    for place, cell in enumerate((0.5, 9.75, np.nan, 1e300)):
        folder = tmp_path / str(place)
        folder.mkdir()
        data = private(ledger_of(keep=True), rows=ROWS.assign(x=ROWS["x"].where(ROWS.index > 0, cell)))
        question, file = dpi.mean("x", data, by="g"), folder / "mean.json"
        stored = json.loads(question.measure(PRICE, save=file).to_json())
        noisy = [one.pop("value") for stage in stored["stages"] for one in stage["sums"]]
        ids = stored.pop("charge_ids")
        size = file.stat().st_size - len("".join(map(str, noisy)))
        told = []
        for price, other in ((dpi.ZCDP(0.2), question), (PRICE, dpi.mean("y", data))):
            with pytest.raises(ReleaseMismatchError) as caught:
                other.measure(price, save=file)
            told.append(str(caught.value).replace(str(folder), ""))
        with monkeypatch.context() as patched:
            patched.setattr("dpinfer.release.saving.write_whole", lambda *_: 1 / 0)
            with pytest.raises(ReleaseNotSavedError) as unsaved:
                question.measure(PRICE, save=folder / "other.json")
        told.append(str(unsaved.value).replace(str(folder), ""))
        reserved = json.loads((folder / "other.json.reserved").read_text())
        [reserved.pop(one) for one in ("ledger", "charge_id")]
        names = sorted(one.name for one in folder.iterdir())
        kept = data.ledger.releases().drop(columns=["id", "time"]).to_dict()
        seen.append((stored, len(ids[0]), size, told, reserved, names, kept))
    assert all(one == seen[0] for one in seen[1:])


def test_rows_are_not_looked_at(file):
    """A release is read back whatever the rows are: they are never compared."""
    first = dpi.mean("x", private()).measure(PRICE, save=file)
    other = pd.DataFrame({name: ["text"] * 3 for name in ROWS})
    assert dpi.mean("x", private(rows=other)).measure(PRICE, save=file) == first


def test_a_charge_is_made_once_under_one_id():
    data = private()
    dpi.mean("x", data)
    data.run(dpi.mean("x"), PRICE, charge_id="0" * 32)
    with pytest.raises(dpi.errors.LedgerError):
        data.run(dpi.mean("x"), PRICE, charge_id="0" * 32)
    for wrong in ("", "0" * 31, "g" * 32, 5, ROWS["x"]):
        with pytest.raises(OptionError, match="charge_id"):
            data.run(dpi.mean("x"), PRICE, charge_id=wrong)
    assert charges(data) == 1


def test_the_kernel_keeps_what_it_released(monkeypatch):
    """The release is stored after the draw, and what is asked with the charge."""
    data = private(ledger_of(keep=True))
    run = kernel_data.run

    def watched(*args, **options):
        made = run(*args, **options)
        assert list(data.ledger.releases()["stored"]) == [False]
        return made

    monkeypatch.setattr(kernel_data, "run", watched)
    dpi.mean("x", data).measure(PRICE)
    assert list(data.ledger.releases()["stored"]) == [True]


def test_threads_at_once_pay_once(file):
    data = private()
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: dpi.mean("x", data).measure(PRICE, save=file), range(6)))
    assert all(one == found[0] for one in found)
    assert charges(data) == 1


def test_a_system_or_folder_without_locks(file, monkeypatch):
    def unlocked(*_):
        raise OSError(37, "No locks available")

    with monkeypatch.context() as patched:
        patched.setattr("fcntl.flock", unlocked)
        refused(private(), file, OptionError, r"can be written and locked \(No locks available\)")
    with monkeypatch.context() as patched:
        patched.setattr("dpinfer.release.saving.fcntl", None)
        refused(private(), file, OptionError, "POSIX file locks")


@pytest.mark.parametrize("options", [{"save": True}, {"reuse": True}, {}], ids=["save", "reuse", "neither"])
def test_a_question_that_cannot_be_stored_is_refused_before_the_charge(options, file, monkeypatch):
    question = dpi.mean("x", private(ledger_of(keep=True)))
    stored = type(question).question
    monkeypatch.setattr(type(question), "question", lambda *given: stored(*given) | {"own": object()})
    if "save" in options:
        options = {"save": file}
    with pytest.raises(ReleaseFormatError, match="question cannot be stored"):
        question.measure(PRICE, **options)
    assert charges(question.source) == 0


def test_a_kept_release_that_is_damaged(tmp_path):
    named = {"dataset": "survey", "budget": dpi.ZCDP(5.0), "keep": True}
    data = private(dpi.Ledger(tmp_path / "a.db", **named))
    identifier = dpi.mean("x", data).measure(PRICE).charge_ids[0]
    for statement, error in (
        ("UPDATE kept SET release = '{}'", ReleaseFormatError),
        ("UPDATE kept SET asked = '{}'", ReleaseFormatError),
        ("UPDATE kept SET asked = x'00'", dpi.errors.LedgerError),
    ):
        with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as connection:
            connection.execute(statement)
        with pytest.raises(error):
            dpi.mean("x", data).measure(PRICE, reuse=True)
    with pytest.raises(dpi.errors.LedgerError, match="is damaged"):
        data.ledger.release(identifier)
    assert charges(data) == 1


def test_a_saved_release_has_a_name():
    assert str(SavedRelease("mean.json")).endswith("mean.json'")


# What a release does not tell apart is not read back

OTHERS = [
    (dpi.mean("x", target="data"), dpi.mean("x", target="population"), "question, target"),
    (dpi.quantile("x", q=0.5), dpi.quantile("x", q=0.9), "question, probabilities"),
    (
        dpi.bootstrap(["x", "y"], statistic="mean", replicates=50, weights="paired"),
        dpi.bootstrap(["x", "y"], statistic="corr", replicates=50, weights="paired"),
        "question, statistic",
    ),
]


@pytest.mark.parametrize(("first", "second", "name"), OTHERS)
def test_options_that_change_what_is_measured_are_compared(first, second, name, file):
    data = private(ledger_of(keep=True, budget=50.0))
    first.bind(data).fit(dpi.ZCDP(1.0), save=file)
    with pytest.raises(ReleaseMismatchError) as caught:
        second.bind(data).fit(dpi.ZCDP(1.0), save=file)
    assert name in [one for one, *_ in caught.value.differences]
    assert charges(data) == 1
    second.bind(data).fit(dpi.ZCDP(1.0), reuse=True)
    assert charges(data) == 2


@pytest.mark.parametrize("options", [{"save": "kept.json"}, {"reuse": True}])
def test_models_that_a_release_only_names_are_not_kept(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = private(ledger_of(keep=True))
    asked = dpi.sample_aggregate("x", data, model=lambda frame: [frame["x"].mean()], bounds={"m": (0, 10)}, blocks=20)
    with pytest.raises(OptionError, match="it stores only the name of the model <lambda>"):
        asked.fit(PRICE, **options)
    objects = {"M": TukeyBiweight()}
    told = dpi.sample_aggregate("y ~ x", data, model=smf.rlm, bounds=dpi.Ball(10), blocks=20, model_options=objects)
    assert told.unidentified == "the objects M"
    assert charges(data) == 0
    assert not list(tmp_path.iterdir())


def test_a_log_handler_that_fails_loses_nothing():
    class Failing(logging.Filter):
        def filter(self, record):
            raise RuntimeError

    data, log, failing = private(), logging.getLogger("dpinfer"), Failing()
    log.addFilter(failing)
    level = log.level
    log.setLevel(logging.INFO)
    try:
        results = dpi.mean("x", data).fit(PRICE)
    finally:
        log.removeFilter(failing)
        log.setLevel(level)
    assert np.isfinite(results.params).all()
    assert charges(data) == 1


class Answering(logging.Handler):
    """Does something at the first record of a wait, in the thread that would go on to wait."""

    def __init__(self, then):
        super().__init__()
        self.then, self.told = then, []

    def emit(self, record):
        if "waiting" in record.getMessage():
            self.told.append((record.levelname, record.getMessage()))
            self.then()


@contextmanager
def answering(then):
    log, handler = logging.getLogger("dpinfer"), Answering(then)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield handler.told
    finally:
        log.setLevel(level)
        log.removeHandler(handler)


@pytest.mark.parametrize("fails", [False, True])
def test_a_wait_for_a_reservation_is_logged_once(fails, file):
    def let_go():
        os.close(held)
        if fails:
            raise RuntimeError

    data = private()
    held = os.open(f"{file}.reserved", os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    with answering(let_go) as told:
        dpi.mean("x", data).fit(PRICE, save=file)
        dpi.mean("y", data).fit(PRICE, save=file.with_name("other.json"))
    assert told == [("INFO", "waiting for another process that measures what goes to 'mean.json'")]
    assert charges(data) == 2


def test_a_wait_for_a_ledger_is_logged_once(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_LOGGED_AFTER_SECONDS", 0.05)
    ledger = dpi.Ledger(tmp_path / "study.db", dataset="survey", budget=dpi.ZCDP(1.0))
    data = private(ledger)
    with closing(sqlite3.connect(tmp_path / "study.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with answering(lambda: other.execute("ROLLBACK")) as told:
            dpi.mean("x", data).fit(PRICE)
            dpi.mean("x", data).fit(PRICE)
    assert told == [("INFO", "waiting for other processes that write to the ledger 'study.db'")]
    assert charges(data) == 2

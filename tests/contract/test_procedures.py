"""What every procedure keeps: prices, releases, refusals, storages; and nothing but noise tells of rows."""

from __future__ import annotations

import json
import logging
import warnings
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpinfer as dpi
from dpinfer.errors import ReleaseFormatError
from dpinfer.kernel.rows.blocks import BlockSum
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.stage import Above, Largest, Sum
from dpinfer.kernel.sums import exact_sums
from tests.contract.questions import BUDGETS, EVERY, HOME, Question
from tests.goldens.frame import SCHEMA, frame

SLOW = ("sample_aggregate", "bootstrap")


def _fitted(question: Question, asked: Any) -> Any:
    return asked.measure(question.privacy)


@pytest.mark.parametrize("question", HOME)
def test_it_explains_for_nothing_and_then_costs_its_price_once(question):
    ledger = dpi.Ledger.in_memory(BUDGETS[question.price], neighbors=question.neighbors)
    asked = question.private(ledger=ledger)
    told = asked.explain(question.privacy)
    assert "guarantee" in told
    assert ledger.spent.is_zero
    release = asked.measure(question.privacy)
    assert len(ledger.charges()) == 1
    assert release.charge_ids == tuple(ledger.charges().index[:1]) or len(release.charge_ids) == 1
    assert release.cost.to_dict() == asked.measurement(question.privacy).cost.to_dict()
    with pytest.raises(dpi.errors.BudgetExceededError):
        asked.measure(question.privacy)


@pytest.mark.parametrize("question", HOME)
def test_a_release_is_read_back_whole_and_infers_the_same(question, tmp_path):
    asked = question.public()
    release = asked.measure(question.privacy)
    release.save(tmp_path / "release.json")
    again = dpi.read_release(tmp_path / "release.json")
    assert again == release
    assert again.to_json() == release.to_json()
    options = {"formula": question.ask.formulas[0]} if question.ask.formulas else {}
    own = asked.infer(release, **options)
    given = {"family": question.ask.options["family"]} if question.ask.name == "expfam own" else {}  # stored by name
    assert _shown(again.infer(**options, **given)) == _shown(own)


def _shown(results: Any) -> str:
    return str(results.summary()) if hasattr(results, "summary") else repr(results)


@pytest.mark.parametrize("question", HOME)
def test_damage_is_refused_by_the_name_of_the_field(question):
    stored = json.loads(question.public().measure(question.privacy).to_json())
    fields = [name for name in stored["question"] if name not in ("schema", "text", "procedure")]
    for name in fields:
        damaged = json.loads(json.dumps(stored))
        damaged["question"][name] = {"nothing": ["of", {"this": None}]}
        with pytest.raises(ReleaseFormatError, match=name):
            dpi.Release.from_json(json.dumps(damaged)).infer()
        del damaged["question"][name]
        with pytest.raises(ReleaseFormatError, match=name):
            dpi.Release.from_json(json.dumps(damaged)).infer()


@pytest.mark.parametrize("question", HOME)
@pytest.mark.parametrize("field", ["name", "value", "step", "law", "stages"])
def test_damaged_sums_are_refused(question, field):
    stored = json.loads(question.public().measure(question.privacy).to_json())
    last = stored["stages"][-1]
    if field == "law":
        last["law"] = {"family": "normal"}
    elif field == "stages":
        stored["stages"] = []
    else:
        last["sums"][-1][field] = {"name": 3, "value": 1.5, "step": 0}[field]
    with pytest.raises(ReleaseFormatError):
        dpi.Release.from_json(json.dumps(stored)).infer()


# Rows that hurt: what is seen of a fit must be the same for all of them


def _hurting() -> dict[str, pd.DataFrame]:
    base = frame().astype(object)
    missing, impossible, extreme = base.copy(), base.copy(), base.copy()
    for name in SCHEMA:
        missing[name], impossible[name], extreme[name] = None, "oops", 1e308
    constant = pd.concat([base.iloc[[7]]] * len(base), ignore_index=True)
    constant["person"] = base["person"].to_numpy()
    return {"as they are": base, "missing": missing, "impossible": impossible, "extreme": extreme, "constant": constant}


HURTING = _hurting()


def _seen(question: Question, rows: pd.DataFrame, capfd: Any, caplog: Any) -> dict[str, Any]:
    """Everything that a person sees of a fit but the noisy numbers."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.DEBUG):
        warnings.simplefilter("always")
        release = question.private(rows).measure(question.privacy)
        stages = release.stages[: 1 if len(release.stages) > 1 else None]  # later ones are built from released numbers
        told = [f"{one.category.__name__}: {one.message}" for one in caught]
    out = capfd.readouterr()
    return {
        "names": [stage.names for stage in stages],
        "laws": [stage.law for stage in stages],
        "steps": [stage.steps for stage in stages],
        "question": release.question,
        "types": {type(value).__name__ for stage in stages for value in stage.values},  # noqa: PD011
        "told": told,
        "printed": (out.out, out.err),
        "logged": [record.getMessage() for record in caplog.records],
    }


@pytest.mark.parametrize("question", HOME)
def test_nothing_but_noise_tells_of_the_rows(question, capfd, caplog):
    base = _seen(question, HURTING["as they are"], capfd, caplog)
    others = ["missing"] if question.ask.function in SLOW else [name for name in HURTING if name != "as they are"]
    for name in others:
        caplog.clear()
        assert _seen(question, HURTING[name], capfd, caplog) == base, name


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("question", HOME)
def test_no_row_and_one_row_are_measured(question, rows):
    release = question.private(frame().iloc[:rows]).measure(question.privacy)
    assert len(release.stages) >= 1
    assert all(type(value) is int for value in release.values)  # noqa: PD011


# Storages


def _storages() -> dict[str, Any]:
    plain = SCHEMA.sample(60, np.random.default_rng(2))
    plain["person"] = [f"p{place % 25}" for place in range(60)]
    table = pa.Table.from_pandas(plain, preserve_index=False)
    coded = [c.dictionary_encode() if pa.types.is_string(c.type) else c for c in table.columns]
    chunked = pa.concat_tables([table.slice(0, 7), table.slice(7, 0), table.slice(7)])
    return {
        "pandas": plain,
        "objects": plain.astype(object),
        "arrow": table,
        "chunks": chunked,
        "dictionaries": pa.table(coded, names=table.column_names),
        "polars": pl.from_arrow(table),
        "text": pd.DataFrame({name: plain[name].astype(str) for name in plain}),
    }


STORAGES = _storages()


@pytest.mark.parametrize("question", HOME)
def test_every_storage_gives_the_same_integers(question):
    measured = question.public().measurement(question.privacy)
    rows = [stage.rows for stage in measured.stages if isinstance(stage.stage.measure, Sum | Largest | Above)]
    rows = [one for one in rows if not isinstance(one, BlockSum)]
    blocks = question.public().units(measured.context)
    if blocks is not None:
        from dpinfer.kernel.blocks import typed_rows

        found = [typed_rows(blocks, open_source(table)) for table in STORAGES.values()]
        for values, keep in found[1:]:
            assert (keep == found[0][1]).all()
            assert all((values[name] == found[0][0][name]).all() for name in values)
    for one in rows:
        sums = [exact_sums(one, open_source(table)) for table in STORAGES.values()]
        assert all(total == sums[0] for total in sums)
    assert rows or blocks or question.ask.function == "bootstrap"


def test_every_public_procedure_keeps_the_contract():
    functions = {name: getattr(dpi, name) for name in dpi.__all__ if hasattr(getattr(dpi, name), "__wrapped__")}
    questions = {name for name, one in functions.items() if name.islower() and "data" in signature(one).parameters}
    assert len(questions) >= 25
    assert questions <= {one.ask.function for one in EVERY}

"""What every procedure keeps: prices, releases, refusals, storages; and nothing but noise tells of rows."""

from __future__ import annotations

import copy
import json
import logging
import pickle
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


@pytest.mark.sweep(3)
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


@pytest.mark.sweep(3)
@pytest.mark.parametrize("question", HOME)
def test_a_release_is_read_back_whole_and_infers_the_same(question, tmp_path):
    asked, release = question.public(), question.released
    release.save(tmp_path / "release.json")
    again = dpi.read_release(tmp_path / "release.json")
    assert again == release
    assert again.to_json() == release.to_json()
    options = {"formula": question.ask.formulas[0]} if question.ask.formulas else {}
    own = asked.infer(release, **options)
    stored_by_name = question.ask.name == "expfam own"
    given = {"family": question.ask.options["family"]} if stored_by_name else {}
    assert _shown(again.infer(**options, **given)) == _shown(own)
    if not stored_by_name:  # a function of one's own is pickled by its name too
        for copied in (pickle.loads(pickle.dumps(own)), copy.deepcopy(own)):
            assert type(copied) is type(own)
            assert copied.release == release
            assert _shown(copied) == _shown(own)


def _shown(results: Any) -> tuple[str, ...]:
    """What is shown of results, with the numbers of their frame to the last digit."""
    frames = [pd.DataFrame(getattr(results, name)()) for name in ("summary_frame", "frame") if hasattr(results, name)]
    told = str(results.summary()) if hasattr(results, "summary") else repr(results)
    return told, *(frame.map(repr).to_string() for frame in frames)


def _refused(stored: Any, match: str | None = None) -> None:
    with pytest.raises(ReleaseFormatError, match=match):
        dpi.Release.from_json(json.dumps(stored)).infer()


@pytest.mark.sweep(3)
@pytest.mark.parametrize("question", HOME)
def test_damage_is_refused_and_by_the_name_of_the_field(question):
    text = question.released.to_json()
    for name in json.loads(text)["question"].keys() - {"schema", "text", "procedure"}:
        damaged = json.loads(text)
        damaged["question"][name] = {"nothing": ["of", {"this": None}]}
        _refused(damaged, name)
        del damaged["question"][name]
        _refused(damaged, name)
    for name, value in {"name": 3, "value": 1.5, "step": 0}.items():
        damaged = json.loads(text)
        damaged["stages"][-1]["sums"][-1][name] = value
        _refused(damaged)
    damaged = json.loads(text)
    damaged["stages"][-1]["law"] = {"family": "normal"}
    _refused(damaged)
    _refused(damaged | {"stages": []})


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


def _seen(question: Question, rows: Any, capfd: Any, caplog: Any) -> tuple[dpi.Release, dict[str, Any]]:
    """Return a release, and everything that a person sees of the measurement but the noisy numbers."""
    caplog.clear()
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.DEBUG):
        warnings.simplefilter("always")
        release = question.private(rows).measure(question.privacy)
    stages = release.stages[: 1 if len(release.stages) > 1 else None]  # later ones are built from released numbers
    return release, {
        "names": [stage.names for stage in stages],
        "laws": [stage.law for stage in stages],
        "steps": [stage.steps for stage in stages],
        "question": release.question,
        "types": {type(value).__name__ for stage in stages for value in stage.values},  # noqa: PD011
        "told": [f"{one.category.__name__}: {one.message}" for one in caught],
        "printed": tuple(capfd.readouterr()),
        "logged": [record.getMessage() for record in caplog.records],
    }


AT_ONCE = [one for one in HOME if not one.marks]
"""Of the others the same is asked by `test_any_rows_give_results_of_one_form`."""


@pytest.mark.parametrize("question", AT_ONCE)
def test_nothing_but_noise_tells_of_the_rows(question, capfd, caplog):
    _, base = _seen(question, HURTING["as they are"], capfd, caplog)
    others = ["missing"] if question.ask.function in SLOW else [name for name in HURTING if name != "as they are"]
    for name in others:
        assert _seen(question, HURTING[name], capfd, caplog)[1] == base, name


class Raises:
    """A cell all of whose methods fail."""

    def _fail(self, *_: Any) -> Any:
        raise RuntimeError("a method of a cell was called")

    __float__ = __int__ = __index__ = __bool__ = __eq__ = __ne__ = __lt__ = __gt__ = __hash__ = _fail
    __str__ = __repr__ = __len__ = __iter__ = __array__ = __getitem__ = __contains__ = __complex__ = _fail
    __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __truediv__ = __format__ = __neg__ = _fail


class LyingText(str):  # noqa: PLW1641  (it has one, which fails)
    """A text that fails when it is compared."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("a method of a cell was called")

    __hash__ = __str__ = strip = lower = __eq__  # type: ignore[assignment]


CELLS = [
    Raises(),
    [1],
    LyingText("3"),
    np.ones((2, 2)),
    b"\xff",
    pd.DataFrame({"a": [1]}),
    "zebra",
    10**400,
    None,
    pd.NA,
]
CELLS += [pd.NA, np.inf, -np.inf, "oops", "9" * 5000, {}, (), 1j, int, object(), pd.Timestamp("2020-01-01")]


def _odd() -> dict[str, Any]:
    base = frame().astype(object)
    raising = base.copy()
    for name in SCHEMA:
        cells = base[name].to_numpy(dtype=object, copy=True)
        for place, cell in enumerate(CELLS):
            cells[5 + place] = cell
        raising[name] = pd.Series(cells, dtype=object)
    return HURTING | {
        "texts": base.astype(str),
        "raising": raising,
        "arrow": pa.table({name: pa.nulls(len(base)) for name in SCHEMA}),
        "polars": pl.from_pandas(SCHEMA.sample(len(base), np.random.default_rng(2))),
        "no rows": base.iloc[:0],
        "one row": base.iloc[:1],
        "two rows": base.iloc[:2],
        "a wild index": base.set_index(pd.Index([np.nan] * len(base))),
        "categories": base.astype("category"),
    }


ODD = _odd()
FEW = ("as they are", "raising", "no rows", "one row")


def _form(results: Any, release: dpi.Release) -> Any:
    """What is seen of results but numbers; labels only where no stage chooses them."""
    frames = [pd.DataFrame(getattr(results, name)()) for name in ("summary_frame", "frame") if hasattr(results, name)]
    labels = [one.index.tolist() for one in frames] if len(release.stages) == 1 else []
    return type(results), labels, [(list(one.columns), [str(kind) for kind in one.dtypes]) for one in frames]


def _sound(results: Any, *, held: bool) -> None:
    """P-values are probabilities, intervals hold the estimates (if held), no number is missing that is determined."""
    if isinstance(results, dpi.PrivateResults):
        params, ends = results.params.to_numpy(), results.conf_int().to_numpy()
        known = ~np.isnan(params)
        assert np.isfinite(params[known]).all()
        assert known.all() or any("not determined" in flag for flag in results.flags)
        assert not np.isnan(ends).any()
        slack = 1e-9 * (1 + np.abs(params[known]))
        inside = (ends[known, 0] <= params[known] + slack) & (params[known] <= ends[known, 1] + slack)
        assert inside.all() or not held
        assert ((results.bse >= 0) | ~known).all()
        assert results.pvalues.between(0, 1).all()
    elif hasattr(results, "pvalue"):
        assert 0 <= results.pvalue <= 1
    assert str(results.summary() if hasattr(results, "summary") else results)


@pytest.mark.sweep(12)
@pytest.mark.slow
@pytest.mark.parametrize("question", HOME)
def test_any_rows_give_results_of_one_form(question, capfd, caplog):
    """Labels, columns, types, warnings and what is printed and logged are those of any rows."""
    options = {"formula": question.ask.formulas[0]} if question.ask.formulas else {}
    options |= {"family": question.ask.options["family"]} if question.ask.name == "expfam own" else {}
    seen = {}
    for name in FEW if question.ask.function in SLOW else ODD:
        release, told = _seen(question, ODD[name], capfd, caplog)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results = release.infer(**options)
            # A score interval of a regression need not hold what noise has moved.
            _sound(results, held=not question.ask.formulas and question.ask.function != "ols")
            seen[name] = told, _form(results, release)
        assert [str(one.message) for one in caught] == told["told"] == [], name
        assert told["printed"] == ("", "")
    usual, usual_form = seen["as they are"]
    for name, (told, form) in seen.items():
        sized = question.neighbors == "replace_one" and "row" in name  # whose public number may set what is measured
        assert told == usual or (sized and told["logged"] == usual["logged"]), name
        assert form == usual_form, name
    assert tuple(capfd.readouterr()) == ("", "")


@pytest.mark.parametrize("question", AT_ONCE)
def test_no_row_and_one_row_are_measured(question):
    for rows in (0, 1):
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


@pytest.mark.sweep(2)
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

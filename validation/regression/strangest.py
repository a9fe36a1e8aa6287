"""Does a regression by iterations ever break? The strangest fits: random models, prices, options and rows.

Each fit is drawn from its seed and its place alone. It runs with warnings as errors, and goes on to everything that
results have: table, intervals, p-values, tests, predictions, average effects. It may end in numbers, or in an error
that is documented, is raised before anything is charged, and is raised for other rows, too: one of public facts.
Anything else is a failure: another error, a warning, a NaN, an interval whose ends are not in order, a minute without
an end.
"""

from __future__ import annotations

import re
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm

import dpinfer as dpi
from dpinfer.errors import DPInferError, FormulaError, NotProvedError, OptionError, PrivacyUnitError, ReleaseError
from dpinfer.regression.inference import Fit
from dpinfer.results.base import PrivateResults
from validation.common.outputs import Options, write_table
from validation.common.rules import Claim
from validation.common.study import kept

COUNT, CHUNK = 10_000, 100
PRIVATE = 0.3
"""Part of the fits that the kernel makes of `PrivateData`, with its own discrete noise."""

LONGEST = 60
"""Seconds of the processor that a fit may take with all that follows."""

REFUSALS = (FormulaError, NotProvedError, OptionError, PrivacyUnitError)
"""Errors that public facts may raise, before anything is charged."""

BOUNDS = ((-1.0, 1.0), (-1.0, 1.0), (0.0, 5.0), (-1e6, 1e6), (0.0, 1e-9), (1e5, 1e5 + 1), (-1e12, 1e12), (0.99, 1.0))
RESPONSES = ((-5.0, 5.0), (-5.0, 5.0), (-1e6, 1e6), (0.0, 1e-6), (1e4, 1e4 + 10), (-1e12, 1.0))
COUNTS = ((0, 10), (0, 60), (0, 1), (0, 10_000_000), (3, 9))
AMOUNTS = ((0.0, 1e-9), (0.0, 400.0), (0.0, 1e9), (5.0, 6.0))
SIZES = (0, 1, 2, 3, 7, 20, 60, 200, 600, 2000, 2000)
SPANS = ((-4.0, 4.0), (0.0, 4.0))
"""Powers of ten that amounts of privacy lie between."""

LARGEST_EPSILON = 20.0
"""Of most `ApproxDP` prices: from about 30 the accountant refuses, at some values of delta."""

TERMS = (
    "x", "u", "n", "b", "C(g)", "C(k)", "x:u", "I(x**2)", "I(u > 2)", "x * C(g)", "minimum(x, 0)", "log(u + 1)",
    "I(n == 3)", "C(g):u", "C(g) * C(k)", "I(u / 1000000)", "I(x > 0):u", "I(n > 9)",
)  # fmt: skip
ODD = (np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0, "", "oops", None, "1e400", True)


@dataclass(frozen=True)
class Strange:
    """One fit before it is made.

    Attributes
    ----------
    place : int
        With the seed, what it is drawn from.
    model, price, neighbors, unit, rows, size, storage, data : str
        The classes that it is in.
    formula : str
    options : dict
    privacy : privacy parameters
    schema : Schema
    frame : DataFrame
    seed : int
        Of the noise of public data.
    """

    place: int
    model: str
    price: str
    neighbors: str
    unit: str
    rows: str
    size: str
    storage: str
    data: str
    formula: str
    options: dict[str, Any]
    privacy: Any
    schema: dpi.Schema
    frame: pd.DataFrame
    seed: int
    ids: dict[str, Any] = field(default_factory=dict)

    @property
    def classes(self) -> dict[str, str]:
        """The classes by what divides them."""
        names = ("model", "price", "neighbors", "unit", "rows", "size", "storage", "data")
        return {name: getattr(self, name) for name in names}

    def data_of(self, frame: pd.DataFrame, *, private: bool) -> tuple[Any, dpi.Ledger]:
        """Return rows, and a ledger that has just enough for them."""
        more = {"currency": "basic"} if isinstance(self.privacy, dpi.ApproxDP) else {}
        ledger = dpi.Ledger.in_memory(self.privacy, neighbors=self.neighbors, **more)  # type: ignore[arg-type]
        if private:
            return dpi.PrivateData(frame, self.schema, ledger, **self.ids), ledger
        rng = np.random.default_rng(self.seed)
        return dpi.PublicData(frame, self.schema, rng=rng, neighbors=self.neighbors, **self.ids), ledger  # type: ignore[arg-type]

    def asked_of(self, data: Any) -> Any:
        """Ask the question."""
        given = dict(self.options)
        alpha = given.pop("alpha", 1.0)
        families = {
            "cloglog": lambda: sm.families.Binomial(sm.families.links.CLogLog()),
            "negativebinomial": lambda: sm.families.NegativeBinomial(alpha=alpha),
            "gamma": lambda: sm.families.Gamma(sm.families.links.Log()),
            "gaussian": sm.families.Gaussian,
        }
        if self.model in families:
            return dpi.glm(self.formula, data, family=families[self.model](), **given)
        return getattr(dpi, self.model)(self.formula, data, **given)


# --- what is drawn --------------------------------------------------------------------------------------------------

MODELS = {
    "ols": "y", "gaussian": "y", "rlm": "y", "quantreg": "y", "logit": "e", "probit": "e", "cloglog": "e",
    "poisson": "c", "negativebinomial": "c", "gamma": "p",
}  # fmt: skip
PRICES: dict[str, Callable[[float, float], Any]] = {
    "ZCDP": lambda amount, _: dpi.ZCDP(amount),
    "PureDP": lambda amount, _: dpi.PureDP(amount),
    "GDP": lambda amount, _: dpi.GDP(amount),
    "ApproxDP": dpi.ApproxDP,
}


def drawn(seed: int, place: int) -> Strange:
    """Draw a fit."""
    rng = np.random.default_rng([seed, place])
    model, price = str(rng.choice([*MODELS])), str(rng.choice([*PRICES]))
    people = bool(rng.random() < 0.3)
    schema = _schema(rng)
    size = int(rng.choice(SIZES))
    kind = str(rng.choice([*ROWS]))
    storage = str(rng.choice([*STORAGES]))
    frame = ROWS[kind](_rows(schema, size, rng), schema, rng)
    frame, ids = _people(frame, rng) if people else (frame, {})
    amount = float(10 ** rng.uniform(*SPANS[rng.integers(len(SPANS))]))
    if price == "ApproxDP" and rng.random() < 0.9:
        amount = min(amount, LARGEST_EPSILON)
    return Strange(
        place,
        model,
        price,
        neighbors=str(rng.choice(["add_remove", "replace_one"])),
        unit="people" if people else "rows",
        rows=kind,
        size=_size_class(len(frame)),
        storage=storage,
        data="private" if rng.random() < PRIVATE else "public",
        formula=_formula(model, rng),
        options=_options(model, rng),
        privacy=PRICES[price](amount, float(10 ** rng.uniform(-12, -1))),
        schema=schema,
        frame=STORAGES[storage](frame),
        seed=int(rng.integers(2**32)),
        ids=ids,
    )


def _size_class(size: int) -> str:
    if size <= 2:
        return ("no row", "one row", "two rows")[size]
    return "to 20 rows" if size <= 20 else "to 200 rows" if size <= 200 else "more rows"


def _schema(rng: np.random.Generator) -> dpi.Schema:
    """Draw bounds and policies."""

    def one(column: Any, bounds: tuple[tuple[float, float], ...]) -> Any:
        lower, upper = bounds[rng.integers(len(bounds))]
        if rng.random() < 0.7:
            return column(lower, upper)
        return column(lower, upper, missing=lower, impossible=upper)

    return dpi.Schema(
        x=one(dpi.Real, BOUNDS),
        u=one(dpi.Real, ((0.0, 5.0), (0.0, 5.0), (0.0, 1e6))),
        n=one(dpi.Integer, ((0, 10), (0, 10), (-3, 1000))),
        b=dpi.Boolean() if rng.random() < 0.7 else dpi.Boolean(missing=False, impossible=True),
        g=dpi.Category(["a", "b", "c"]) if rng.random() < 0.7 else dpi.Category(["a", "b", "c", "d"], missing="a"),
        k=dpi.Integer(1, 4),
        w=dpi.Real(0, 4),
        t=dpi.Real(0.5, 20),
        y=one(dpi.Real, RESPONSES),
        e=dpi.Boolean()
        if rng.random() < 0.6
        else dpi.Integer(0, 1)
        if rng.random() < 0.5
        else dpi.Category(["f", "m"]),
        c=one(dpi.Integer, COUNTS),
        p=one(dpi.Real, AMOUNTS),
    )


def _formula(model: str, rng: np.random.Generator) -> str:
    terms = [
        str(one) for one in rng.choice(TERMS, size=int(rng.choice([0, 1, 2, 3, 5], p=[0.05, 0.3, 0.3, 0.25, 0.1])))
    ]
    right = " + ".join(dict.fromkeys(terms)) or "1"
    left = MODELS[model]
    if left == "e" and rng.random() < 0.15:
        left = "I(n > 3)"
    return f"{left} ~ {'0 + ' if terms and rng.random() < 0.15 else ''}{right}"


def _options(model: str, rng: np.random.Generator) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def sometimes(name: str, share: float, *values: Any) -> None:
        if rng.random() < share:
            found[name] = values[rng.integers(len(values))]

    sometimes("inference", 0.3, "wald", "score")
    sometimes("target", 0.15, "data")
    sometimes("ranges", 0.2, False)
    sometimes("where", 0.2, "x > 0", "n <= 5", "g == 'a'", "b", "u > 1e9", "x >= -1e300")
    binary, counts = model in ("logit", "probit", "cloglog"), model in ("poisson", "negativebinomial", "gamma")
    if binary or model in ("ols", "gaussian"):
        sometimes("weights", 0.3, "w", "t", "u", "I(w > 3)")
    if counts:
        sometimes("exposure" if rng.random() < 0.5 else "offset", 0.4, "t", "t", "w")
    if binary or counts:
        sometimes("margins", 0.4, True)
    if model == "ols":
        sometimes("cov_type", 0.3, "nonrobust")
    if model == "quantreg":
        found["q"] = float(rng.choice([0.5, 0.1, 0.9, 0.01, 0.999, 1e-6]))
    if model == "negativebinomial":
        found["alpha"] = float(rng.choice([1.0, 0.5, 1e-5, 99.0]))
    return found


def _rows(schema: dpi.Schema, size: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw rows of which most cells lie in a part of the bounds, and responses that depend on one regressor."""
    frame = schema.sample(size, rng)
    narrow = 10 ** rng.uniform(-4, 0)
    for name in ("x", "u", "y", "p"):
        middle = schema[name].lower + rng.random() * schema[name].width
        frame[name] = middle + (frame[name] - middle) * narrow
    unit = (frame["x"] - schema["x"].lower) / schema["x"].width
    if rng.random() < 0.5:
        chance = 1 / (1 + np.exp(-8 * (unit.to_numpy() - 0.5)))
        frame["e"] = _events(schema, rng.random(size) < chance)
        frame["y"] = schema["y"].lower + schema["y"].width * np.clip(0.7 * unit + 0.1 * rng.standard_t(2, size), 0, 1)
        frame["c"] = np.clip(rng.poisson(np.exp(2 * unit)), schema["c"].lower, schema["c"].upper).astype(np.int64)
    return frame


def _events(schema: dpi.Schema, happened: np.ndarray) -> np.ndarray:
    column = schema["e"]
    if isinstance(column, dpi.Category):
        return np.where(happened, "m", "f")
    return happened if isinstance(column, dpi.Boolean) else happened.astype(np.int64)


def _people(frame: pd.DataFrame, rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Say whose each row is: a few rows each, all one person's, each its own, or nobody's in part."""
    size, most = len(frame), int(rng.choice([1, 2, 3, 8]))
    kind, owner = rng.integers(4), np.arange(size)
    if kind == 0:
        owner = rng.integers(0, size // 2 + 1, size)
    elif kind == 1:
        owner = np.zeros(size, dtype=np.int64)
    mine = owner.astype(object)
    if kind == 3:
        mine[rng.random(size) < 0.3] = None
    return frame.assign(id=pd.Series(mine, dtype=object, index=frame.index)), {"id": "id", "max_rows": most}


# --- rows -----------------------------------------------------------------------------------------------------------

NUMBERS = ("x", "u", "n", "k", "w", "t", "y", "c", "p")


def _alike(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    return frame.assign(**{name: [frame[name].iloc[0]] * len(frame) for name in columns} if len(frame) else {})


def _one_level(frame: pd.DataFrame, schema: dpi.Schema, rng: np.random.Generator) -> pd.DataFrame:  # noqa: ARG001
    return frame.assign(g=str(rng.choice(["a", "b", "c"])), k=int(rng.integers(1, 5)), b=bool(rng.random() < 0.5))


def _rare_level(frame: pd.DataFrame, schema: dpi.Schema, rng: np.random.Generator) -> pd.DataFrame:  # noqa: ARG001
    level = np.full(len(frame), "a", dtype=object)
    level[: int(rng.integers(2))] = "b"
    return frame.assign(g=level, k=np.where(np.arange(len(frame)) == 0, 4, 1), b=np.arange(len(frame)) == 0)


def _separated(frame: pd.DataFrame, schema: dpi.Schema, rng: np.random.Generator) -> pd.DataFrame:  # noqa: ARG001
    above = (frame["x"] > frame["x"].median()).to_numpy()
    ends = {name: np.where(above, schema[name].upper, schema[name].lower) for name in ("y", "p")}
    whole = np.where(above, int(schema["c"].upper), int(schema["c"].lower))
    return frame.assign(e=_events(schema, above), c=whole, **ends)


def _events_of(happened: bool, frame: pd.DataFrame, schema: dpi.Schema, rng: np.random.Generator) -> pd.DataFrame:  # noqa: ARG001
    ends = {name: schema[name].upper if happened else schema[name].lower for name in ("y", "p", "c")}
    ends["c"] = int(ends["c"])
    return frame.assign(e=_events(schema, np.full(len(frame), happened)), n=10 if happened else 0, **ends)


def _missing(frame: pd.DataFrame, schema: dpi.Schema, rng: np.random.Generator) -> pd.DataFrame:
    columns = [*schema] if rng.random() < 0.5 else [str(rng.choice([*schema]))]
    return frame.astype(object).assign(**dict.fromkeys(columns, None if rng.random() < 0.5 else np.nan))


def _odd(frame: pd.DataFrame, schema: dpi.Schema, rng: np.random.Generator) -> pd.DataFrame:
    frame = frame.astype(object)
    for name in schema:
        cells = frame[name].to_numpy(dtype=object, copy=True)
        for place in np.flatnonzero(rng.random(len(cells)) < 0.3):
            cells[place] = ODD[rng.integers(len(ODD))]
        frame[name] = pd.Series(cells, dtype=object, index=frame.index)
    return frame


def _beyond(frame: pd.DataFrame, schema: dpi.Schema, rng: np.random.Generator) -> pd.DataFrame:  # noqa: ARG001
    far = rng.choice([-1e300, 1e300, -1e9, 1e9], size=(len(frame), 4))
    return frame.assign(**{name: far[:, place] for place, name in enumerate(("x", "u", "y", "p"))})


def _at_bounds(frame: pd.DataFrame, schema: dpi.Schema, rng: np.random.Generator) -> pd.DataFrame:
    ends = {}
    for name in NUMBERS:
        kind = int if isinstance(schema[name], dpi.Integer) else float
        lower, upper = kind(schema[name].lower), kind(schema[name].upper)
        upper_ones = rng.random(len(frame)) < 0.5 if rng.random() < 0.5 else np.full(len(frame), rng.random() < 0.5)
        ends[name] = np.where(upper_ones, upper, lower)
    return frame.assign(**ends)


def _placed(frame: pd.DataFrame, schema: dpi.Schema, name: str, like: str, noise: np.ndarray | float) -> pd.DataFrame:
    part = (frame[like].to_numpy(dtype=float) - schema[like].lower) / schema[like].width
    return frame.assign(**{name: schema[name].lower + schema[name].width * np.clip(part + noise, 0, 1)})


def _copies(noise: float, frame: pd.DataFrame, schema: dpi.Schema, rng: np.random.Generator) -> pd.DataFrame:
    moved = noise * rng.normal(size=len(frame)) if noise else 0.0
    frame = _placed(frame, schema, "u", "x", moved)
    return _placed(frame, schema, "y", "x", moved) if rng.random() < 0.5 else frame


def _collinear(frame: pd.DataFrame, schema: dpi.Schema, rng: np.random.Generator) -> pd.DataFrame:
    """Columns that are nearly constant, and beside these nearly one column."""
    tiny = 1e-6 * rng.normal(size=len(frame))
    frame = frame.assign(x=schema["x"].lower + schema["x"].width * np.clip(0.5 + tiny, 0, 1))
    return _placed(frame, schema, "u", "x", 1e-9 * rng.normal(size=len(frame)))


def _outlier(frame: pd.DataFrame, schema: dpi.Schema, rng: np.random.Generator) -> pd.DataFrame:
    for name in ("x", "u", "y", "p"):
        cells = np.full(len(frame), schema[name].lower) + 1e-7 * schema[name].width * rng.random(len(frame))
        cells[: int(rng.integers(3))] = schema[name].upper
        frame = frame.assign(**{name: cells})
    return frame.assign(c=np.where(np.arange(len(frame)) == 0, int(schema["c"].upper), int(schema["c"].lower)))


def _heavy(frame: pd.DataFrame, schema: dpi.Schema, rng: np.random.Generator) -> pd.DataFrame:
    for name in ("x", "y", "p"):
        middle = schema[name].lower + 0.5 * schema[name].width
        frame = frame.assign(**{name: middle + 0.01 * schema[name].width * rng.standard_cauchy(len(frame))})
    return frame


ROWS: dict[str, Any] = {
    "plain": lambda frame, schema, rng: frame,  # noqa: ARG005
    "constant columns": lambda frame, schema, rng: _alike(frame, ["x", "u", "n", "b", "k"]),  # noqa: ARG005
    "rows all alike": lambda frame, schema, rng: _alike(frame, [*schema]),  # noqa: ARG005
    "constant response": lambda frame, schema, rng: _alike(frame, ["y", "e", "c", "p"]),  # noqa: ARG005
    "perfect separation": _separated,
    "no events": partial(_events_of, False),
    "all events": partial(_events_of, True),
    "missing cells": _missing,
    "odd cells": _odd,
    "beyond bounds": _beyond,
    "at the bounds": _at_bounds,
    "equal columns": partial(_copies, 0.0),
    "nearly equal columns": partial(_copies, 1e-6),
    "collinear": _collinear,
    "one level": _one_level,
    "a level of a row": _rare_level,
    "an outlier": _outlier,
    "heavy tails": _heavy,
}


def _texts(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {name: pd.Series([None if one is None else str(one) for one in frame[name]], dtype=object) for name in frame}
    )


def _decimals(frame: pd.DataFrame) -> pd.DataFrame:
    def one(cell: Any) -> Any:
        return Decimal(repr(float(cell))) if isinstance(cell, int | float | np.number) else cell

    return pd.DataFrame({name: pd.Series([one(cell) for cell in frame[name]], dtype=object) for name in frame})


def _categories(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({name: _texts(frame[[name]])[name].astype("category") for name in frame})


STORAGES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "as it is": lambda frame: frame,
    "objects": lambda frame: frame.astype(object),
    "texts": _texts,
    "decimals": _decimals,
    "categories": _categories,
}


# --- one fit --------------------------------------------------------------------------------------------------------


class Broken(Exception):
    """A result that is none."""


@contextmanager
def _limited() -> Iterator[None]:
    """Turn warnings into errors, and end what takes too long."""

    def ended(*_: object) -> None:
        raise Broken(f"more than {LONGEST} seconds")

    before = signal.signal(signal.SIGVTALRM, ended)
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def _remembered() -> Iterator[None]:
    """Compute each score interval of a fit once: tables, tests and effects ask for the same ones."""
    known: dict[Any, Any] = {}
    methods = {name: getattr(Fit, name) for name in ("score_interval", "score_tail")}

    def once(name: str, fit: Fit, one: np.ndarray, other: Any) -> Any:
        key = (name, id(fit), one.tobytes(), np.asarray(other).tobytes())
        if key not in known:
            known[key] = (fit, methods[name](fit, one, other))  # with the fit, whose place in memory stays its own
        return known[key][1]

    try:
        for name in methods:
            setattr(Fit, name, lambda fit, one, other, name=name: once(name, fit, one, other))
        yield
    finally:
        for name, method in methods.items():
            setattr(Fit, name, method)


def outcome(asked: Strange) -> dict[str, Any]:
    """Make a fit; return its classes, "fitted", "refused" or "failed", and what it failed of."""
    start = time.perf_counter()
    found: dict[str, Any] = {"place": asked.place, **asked.classes, "formula": asked.formula}
    try:
        with _limited(), _remembered():
            data, ledger = asked.data_of(asked.frame, private=asked.data == "private")
            try:
                results = asked.asked_of(data).fit(asked.privacy)
            except REFUSALS as error:
                _check_refusal(asked, error, ledger)
                found |= {"outcome": "refused", "kind": type(error).__name__, "said": str(error)}
            else:
                found["unbounded"] = _check(results, asked)
                found |= {"outcome": "fitted", "kind": "", "said": ""}
    except Exception as error:  # whatever it is, it is what is looked for
        found |= {"outcome": "failed", "kind": _named(error), "said": str(error)}
    return found | {"seconds": time.perf_counter() - start}


def _named(error: Exception) -> str:
    """Name a failure by what was raised, and where in the library."""
    if isinstance(error, Broken):
        return str(error)
    frames = [one for one in traceback.extract_tb(error.__traceback__) if "/dpinfer/" in one.filename]
    where = f" in {frames[-1].filename.rpartition('/dpinfer/')[2]}: {frames[-1].name}" if frames else ""
    return f"{type(error).__name__}{where}"


def _check_refusal(asked: Strange, error: DPInferError, ledger: dpi.Ledger) -> None:
    """Refusals are of public facts: nothing is charged, and other rows are refused in the same words."""
    if len(ledger.charges()):
        raise Broken("refused after the charge") from error
    if asked.neighbors == "replace_one" and asked.unit == "rows":
        other = asked.schema.sample(len(asked.frame), np.random.default_rng(1))  # whose number is public
    else:
        other = asked.schema.sample(5, np.random.default_rng(1))
    other = other.assign(id=np.arange(len(other)))
    data, books = asked.data_of(other, private=True)
    try:
        asked.asked_of(data).fit(asked.privacy)
    except REFUSALS as again:
        if (type(again), str(again)) != (type(error), str(error)) or len(books.charges()):
            raise Broken("refused in other words for other rows") from error
    else:
        raise Broken("refused for these rows alone") from error


def _check(results: PrivateResults, asked: Strange) -> bool:
    """Ask results for all that they have; return whether an interval has no end."""
    width = len(results.params)
    every = np.eye(width)
    _numbers("params", results.params)
    _numbers("bse", results.bse)
    _numbers("pvalues", results.pvalues, 0.0, 1.0)
    ends = results.conf_int().to_numpy()
    _intervals("conf_int", ends)
    text = results.summary().as_text()
    if re.search(r"\bnan\b", text):
        raise Broken("nan in the summary")
    contrast = np.random.default_rng(asked.place).choice([-1.0, 0.0, 1.0, 1e3], width)
    contrast[0] = 1.0
    tested = results.t_test(contrast[None])
    _numbers("pvalues of t_test", np.atleast_1d(tested.pvalue), 0.0, 1.0)
    _intervals("conf_int of t_test", np.atleast_2d(tested.conf_int()))
    joint = results.wald_test(every[1:] if width > 1 else every)
    _numbers("pvalue of wald_test", np.atleast_1d(joint.pvalue), 0.0, 1.0)
    _numbers("statistic of wald_test", np.atleast_1d(joint.statistic))
    if asked.place % 4 == 0:
        _numbers("pvalues of terms", results.wald_test_terms().table["pvalue"].astype(float), 0.0, 1.0)
        points = asked.schema.sample(3, np.random.default_rng(asked.place))
        predicted = results.get_prediction(points)
        _numbers("predicted mean", predicted.predicted_mean, infinite=True)
        _intervals("conf_int of predictions", np.asarray(predicted.conf_int()))
        again = results.release.infer()
        if not np.array_equal(again.params, results.params):
            raise Broken("another estimate from the release")
    if hasattr(results, "get_margeff") and asked.place % 2 == 0:
        _check_effects(results)
    return bool(np.isinf(ends).any())


def _check_effects(results: Any) -> None:
    """Ask for average effects: those that the release does not hold are refused by name."""
    _numbers("exponentiated", results.exponentiated().to_numpy(), infinite=True)
    for options in ({}, {"dummy": True, "count": True}):
        try:
            effects = results.get_margeff(**options)
        except (ReleaseError, *REFUSALS):
            continue
        _numbers("margeff", effects.margeff, infinite=True)
        _numbers("pvalues of margeff", effects.pvalues, 0.0, 1.0)
        _intervals("conf_int of margeff", np.asarray(effects.conf_int()))
        effects.summary().as_text()


def _numbers(name: str, given: Any, low: float = -np.inf, high: float = np.inf, *, infinite: bool = False) -> None:
    values = np.asarray(given, dtype=np.float64)
    if np.isnan(values).any():
        raise Broken(f"nan: {name}")
    if not (infinite or np.isfinite(values).all()):
        raise Broken(f"infinite: {name}")
    if not ((values >= low) & (values <= high)).all():
        raise Broken(f"out of range: {name}")


def _intervals(name: str, ends: np.ndarray) -> None:
    _numbers(name, ends, infinite=True)
    if not (ends[:, 0] <= ends[:, 1]).all():
        raise Broken(f"ends out of order: {name}")


# --- all of them ----------------------------------------------------------------------------------------------------


def chunk(seed: int, start: int, stop: int) -> list[dict[str, Any]]:
    """Make the fits of some places."""
    return [outcome(drawn(seed, place)) for place in range(start, stop)]


def counted(fits: pd.DataFrame) -> pd.DataFrame:
    """Count outcomes by class."""
    parts = []
    for name in Strange.__dataclass_fields__:
        if name not in fits or name in ("place", "formula"):
            continue
        counts = pd.crosstab(fits[name], fits["outcome"]).reindex(columns=["fitted", "refused", "failed"], fill_value=0)
        shares = fits[fits["outcome"] == "fitted"].groupby(name)["unbounded"].mean().rename("share unbounded")
        part = counts.join(shares.astype(float)).reset_index(names="class")
        parts.append(part.assign(divided_by=name))
    return pd.concat(parts)[["divided_by", "class", "fitted", "refused", "failed", "share unbounded"]]


def run(arguments: Options) -> list[Claim]:
    """Make the fits, write the tables, and claim that none failed."""
    count, seed = arguments.replicates, arguments.seed
    rows: list[dict[str, Any]] = []
    for start in range(0, count, CHUNK):
        stop = min(start + CHUNK, count)
        rows += kept("strangest", start, arguments, partial(chunk, seed, start, stop))
        print(f"{stop:,} fits, {sum(one['outcome'] == 'failed' for one in rows)} failed", flush=True)
    fits = pd.DataFrame(rows).assign(unbounded=lambda d: d.get("unbounded", pd.Series(False, d.index)))
    fits["unbounded"] = fits["unbounded"].fillna(False).astype(bool)
    failed, refused = fits[fits["outcome"] == "failed"], fits[fits["outcome"] == "refused"]
    notes = ["## Failures by kind", ""]
    notes += [f"- {kind}: {len(part)}, such as {_listed(part)}" for kind, part in failed.groupby("kind")] or ["- none"]
    notes += ["", "## Refusals by kind, all before a charge", ""]
    notes += [f"- {kind}: {len(part)}" for kind, part in refused.groupby("kind")] or ["- none"]
    longest = fits.loc[fits["seconds"].idxmax()]
    notes += ["", f"Longest fit: {longest['seconds']:.1f} s (place {longest['place']}, {longest['model']}); "
              f"median {fits['seconds'].median():.2f} s. "
              "`drawn(seed, place)` draws one again."]  # fmt: skip
    write_table(counted(fits), "strangest", arguments, notes)
    private = int((fits["data"] == "private").sum())
    return [
        Claim(
            "strange fits of regressions that fail",
            f"{count:,} random fits, {private:,} of private data: {len(fits) - len(failed) - len(refused):,} end in "
            f"numbers, {len(refused):,} are refused from public facts",
            str(len(failed)), failed.empty, error="exact", threshold="0", cells=count, failed=len(failed),
        )
    ]  # fmt: skip


def _listed(part: pd.DataFrame) -> str:
    return "; ".join(
        f"place {one.place} ({one.model}, {one.price}, {one.rows}, {one.size}): {one.said[:160]}"
        for one in part.head(3).itertuples()
    )

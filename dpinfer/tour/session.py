"""What the chapters share: the rows, their guards, and what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import statsmodels.formula.api as smf
from statsmodels.datasets import fair
from statsmodels.miscmodels.ordinal_model import OrderedModel

import dpinfer as dpi
from dpinfer.results import TableResults
from dpinfer.tour.people_rows import patients, visits_of

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

LEDGER, GRAM = "tour-ledger.db", "gram.json"
FIRST_SHARE, GRAM_SHARE, DESCRIBED_SHARE, BLOCKS_SHARE = 0.2, 0.3, 0.05, 0.25
FORMULA = "rate_marriage ~ age + yrs_married + children + religious + educ"
ORDERED_FORMULA = "religious ~ 0 + I((age - 30) / 10)"
SECOND_FORMULA = "children ~ age + yrs_married + religious + educ"
SINGLE_TEST, JOINT_TEST = "religious = 0", "age = 0, yrs_married = 0"
"""Hypotheses of the chapters."""


@dataclass(frozen=True)
class Tour:
    """What the chapters share; each measurement is made, and paid for, once, where it is first asked for.

    Attributes
    ----------
    budget : ZCDP
        The whole budget.
    folder : Path
        Where files are being made.
    """

    budget: dpi.ZCDP
    folder: Path

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The rows, which the tour treats as confidential."""
        rows: pd.DataFrame = fair.load_pandas().data
        return rows

    @cached_property
    def schema(self) -> dpi.Schema:
        """The public bounds, from the questionnaire."""
        return dpi.Schema(
            rate_marriage=dpi.Integer(1, 5),
            age=dpi.Real(17.5, 42),
            yrs_married=dpi.Real(0.5, 23),
            children=dpi.Real(0, 5.5),
            religious=dpi.Integer(1, 4),
            educ=dpi.Real(9, 20),
        )

    @cached_property
    def ledger(self) -> dpi.Ledger:
        """The ledger file of this run."""
        return dpi.Ledger(self.folder / LEDGER, dataset="fair-1978", budget=self.budget)

    @cached_property
    def data(self) -> dpi.PrivateData:
        """The rows with their guard."""
        return dpi.PrivateData(self.frame, self.schema, self.ledger)

    @cached_property
    def first(self) -> dpi.PrivateResults:
        """The first regression."""
        results: dpi.PrivateResults = dpi.ols(FORMULA, self.data).fit(self.budget * FIRST_SHARE)
        return results

    @cached_property
    def ordinary(self) -> Any:
        """The same regression without privacy, which is allowed on public rows only."""
        return smf.ols(FORMULA, self.frame).fit()

    @cached_property
    def means(self) -> dpi.PrivateResults:
        """Mean age by group."""
        results: dpi.PrivateResults = dpi.mean("age", self.data, by="religious").fit(self.budget * DESCRIBED_SHARE)
        return results

    @cached_property
    def counts(self) -> TableResults:
        """A table of two columns."""
        results = dpi.table(["religious", "rate_marriage"], self.data).fit(self.budget * DESCRIBED_SHARE)
        assert isinstance(results, TableResults)
        return results

    @cached_property
    def ordered(self) -> dpi.Procedure:
        """The ordered logit of how religious, which is fitted to blocks of rows."""
        return dpi.sample_aggregate(
            ORDERED_FORMULA,
            self.data,
            model=OrderedModel,
            model_options={"distr": "logit"},
            bounds=dpi.Ball(2, center=(0, -1.5, 0.5, 0.5)),
            nobs=self.first.nobs,
        )

    @cached_property
    def patients(self) -> pd.DataFrame:
        """Other rows: years of people, several for each."""
        return patients()

    @cached_property
    def visits(self) -> dpi.PrivateData:
        """These rows with their guard, which protects all rows of a person together."""
        return visits_of(self.patients, self.folder)

    @cached_property
    def gram(self) -> dpi.Release:
        """The cross-products of all columns."""
        return dpi.gram(list(self.schema), self.data).fit(self.budget * GRAM_SHARE).release

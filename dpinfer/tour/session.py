"""What the chapters share: the scripts that they show are those that they run."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.reporting.page import Code

if TYPE_CHECKING:
    from dpinfer.privacy import ZCDP, Privacy

LEDGER, VISITS_LEDGER, GRAM = "tour-ledger.db", "visits-ledger.db", "gram.json"
QUALITY_SHARE, TABLES_SHARE = 0.01, 0.04
FIRST_SHARE, LOGIT_SHARE, GRAM_SHARE, DESCRIBED_SHARE, BLOCKS_SHARE = 0.2, 0.1, 0.2, 0.05, 0.25
FORMULA = "rate_marriage ~ age + yrs_married + children + religious + educ"
LOGIT_FORMULA = "affair ~ rate_marriage + age + yrs_married + religious"
SECOND_FORMULA = "children ~ age + yrs_married + religious + educ"
SINGLE_TEST, JOINT_TEST = "religious = 0", "age = 0, yrs_married = 0"
"""Hypotheses of the chapters."""


def scalar(value: Any) -> float:
    """Return the one number of an array."""
    return float(np.squeeze(value))


@dataclass(frozen=True)
class Tour:
    """A run of the tour, in the current folder; the script of a chapter goes on where the last one ended.

    Attributes
    ----------
    budget : ZCDP
        The whole budget.
    names : dict
        What the scripts have named so far.
    """

    budget: ZCDP
    names: dict[str, Any] = field(default_factory=dict)

    def run(self, script: str) -> Code:
        """Run a script, without what it prints, and return it as it is shown."""
        with redirect_stdout(io.StringIO()):
            exec(script, self.names)
        return Code(script, python=True)

    def __getitem__(self, name: str) -> Any:
        """Return what a script gave this name."""
        return self.names[name]

    @property
    def spent(self) -> Privacy:
        """What the ledger of the first data set says is spent."""
        spent: Privacy = self["ledger"].spent
        return spent

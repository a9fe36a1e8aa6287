"""Rows and questions for engines: the contract's questions, on rows that every engine stores alike."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.errors import DPInferError
from tests.contract.questions import EVERY, HOME
from tests.goldens.frame import SCHEMA, frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.questions import Question

SECRET = "cell-of-one-person"
"""A text that nothing may show."""

HOMES = [one.values[0] for one in HOME]  # noqa: PD011
ONE_EACH = [one.values[0] for one in HOME if not one.marks]  # noqa: PD011
"""A question of each function."""

PEOPLE = [one for one in EVERY if one.unit == "person" and one.ask in [home.ask for home in ONE_EACH]]


def typed() -> pd.DataFrame:
    """Return the rows of the goldens with one type a column, as Spark stores them."""
    rows = frame().copy()
    rows["income"] = pd.Series([None if cell is None else str(cell) for cell in rows["income"]], dtype=object)
    return rows


def released(question: Question, rows: Any) -> str:
    """Measure on public rows with a fixed seed."""
    text: str = question.public(rows).measure(question.privacy).to_json()
    return text


def has_secret_weights(question: Question) -> bool:
    """Whether the release depends on weights that are drawn by the address of a row."""
    return question.ask.function == "bootstrap"


def questions_served(questions: list[Question], rows: pd.DataFrame) -> list[tuple[Question, str]]:
    """Return questions and their releases from pandas, where the relation and unit are served at all."""
    found = []
    for one in questions:
        if has_secret_weights(one):
            continue
        try:
            found.append((one, released(one, rows)))
        except DPInferError:
            continue
    return found


def private_mean(rows: Any, ledger: dpi.Ledger, column: str = "age") -> Any:
    """Bind the mean of a column to confidential rows."""
    return dpi.mean(column, dpi.PrivateData(rows, SCHEMA, ledger))


class KillOnce:
    """Ends the worker's process, the first time that it is called with rows; afterwards returns them."""

    def __init__(self, folder: Path) -> None:
        self._mark = str(folder / "killed")

    def __call__(self, rows: Any) -> Any:
        try:
            os.close(os.open(self._mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return rows
        os.kill(os.getpid(), 9)
        raise AssertionError

    @property
    def killed(self) -> bool:
        """Whether a process was ended."""
        return Path(self._mark).exists()


class KillInPass:
    """Counts rows; ends the worker's process once."""

    def __init__(self, kill: Callable[[Any], Any]) -> None:
        self._kill = kill

    def __call__(self, cells: Any, part: Any) -> int:
        self._kill(cells)
        return int(part.rows)


def weighed_rows(source: Any, draws: Any, replicates: int) -> np.ndarray[Any, Any]:
    """Return the weights of all rows added up, in each replicate of the bootstrap (B,), in units of the grid."""
    from dpinfer.kernel.sums import replicate_sums
    from dpinfer.resampling.bootstrap import BootstrapPlan

    rows = BootstrapPlan(SCHEMA, ("kids",), "mean", replicates, "double_or_nothing").rows
    return np.array(replicate_sums(rows, source, draws), dtype=float).reshape(replicates, -1)[:, 0]

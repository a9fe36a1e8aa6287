"""The last chapter: what the ledger says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

import dpinfer as dpi
from dpinfer.errors import BudgetExceededError
from dpinfer.reporting.page import Block, Code, Picture, Tables, Text
from dpinfer.tour.figures import account_figure
from dpinfer.tour.session import GRAM_SHARE, VISITS_LEDGER

if TYPE_CHECKING:
    from dpinfer.tour.session import Tour

__all__ = ["account_chapter"]


def account_chapter(tour: Tour) -> list[Block]:
    """List the charges, and ask for too much."""
    script = tour.run("print(ledger.charges())\nprint(ledger.spent.describe(), ledger.remaining)")
    ledger, others, price = tour["ledger"], tour["visits_ledger"], tour.budget * GRAM_SHARE
    charges = ledger.charges()
    answer = _answer(dpi.gram(list(tour["schema"]), tour["data"]), price)
    made = {
        "time (UTC)": charges["time"].dt.strftime("%Y-%m-%d %H:%M:%S"),
        "what": charges["description"],
        "price": charges["price"].map(str),
        "id": charges["id"].str[:8],
    }
    return [
        script,
        Tables.framed(pd.DataFrame(made).set_axis(range(1, len(charges) + 1)), "What has been charged"),
        Text(f"Spent in all: {ledger.spent.describe()}. Remaining: {ledger.remaining}."),
        Picture("account.png", lambda: account_figure(ledger), "What each charge took, and what is left."),
        Text(f"""A question that asks for more than is left is refused. Asked for another {price}, the ledger
            answers:"""),
        Code(answer),
        Text(f"""Charges before: {len(charges)}; after: {len(ledger.charges())}. A refusal draws nothing and
            costs nothing. The remaining {ledger.remaining} can still be spent. When it is gone, nothing more can be
            measured from these rows, but every release made so far still answers questions."""),
        Text(f"""The people with several rows have a ledger of their own, `{VISITS_LEDGER}`. Of its
            {others.budget}, {others.spent.describe()} is spent."""),
    ]


def _answer(question: dpi.Procedure, price: dpi.ZCDP) -> str:
    """Ask, and return in one line what comes back."""
    try:
        question.measure(price)
    except BudgetExceededError as error:
        return f"{type(error).__name__}: {error}"
    return "granted"

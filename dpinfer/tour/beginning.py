"""Chapters on the schema, the ledger, and the price of a question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpinfer.display.report import Report
from dpinfer.reporting.page import Block, Note, Tables, Text
from dpinfer.schema.schema import schema_report
from dpinfer.tour.session import FIRST_SHARE, FORMULA, LEDGER, QUALITY_SHARE

if TYPE_CHECKING:
    from dpinfer.tour.session import Tour

__all__ = ["ledger_chapter", "price_chapter", "quality_chapter", "schema_chapter"]


def schema_chapter(tour: Tour) -> list[Block]:
    """Say what is public about the columns."""
    script = tour.run("""\
import dpinfer as dpi

schema = dpi.Schema(
    rate_marriage=dpi.Integer(1, 5),
    age=dpi.Real(17.5, 42.0),
    yrs_married=dpi.Real(0.5, 23.0),
    children=dpi.Real(0.0, 5.5),
    religious=dpi.Integer(1, 4),
    educ=dpi.Real(9.0, 20.0),
    affair=dpi.Boolean(),
)""")
    declared = schema_report(tour["schema"], "What is declared, and therefore public")
    return [
        Text("""The rows are those of Fair (1978): married women who answered a magazine's questionnaire, with
            their rating of the marriage (1 very poor to 5 very good), age, years married, children, how
            religious they are, years of education, and whether they had an affair. The file is
            public; the tour treats it as confidential."""),
        Text("""Differential privacy needs the bounds of every column before a row is read. They come from the
            questionnaire, never from the rows: bounds looked up in the rows would disclose them. Values
            outside are moved to the nearest bound. The wider the bounds, the larger the noise."""),
        script,
        Tables(declared, repr(tour["schema"])),
        Text("""A column that is not declared cannot be used. A cell that is missing, or that cannot be such a
            value, is handled as declared here: `drop` leaves the row out."""),
    ]


def ledger_chapter(tour: Tour) -> list[Block]:
    """Open the ledger and say what the budget means."""
    script = tour.run(f"""\
from statsmodels.datasets import fair

frame = fair.load_pandas().data
frame["affair"] = frame.affairs > 0
ledger = dpi.Ledger("{LEDGER}", dataset="fair-1978", budget=dpi.{tour.budget!r})
data = dpi.PrivateData(frame, schema, ledger)""")
    ledger = tour["ledger"]
    facts = {
        "data": ledger.dataset,
        "budget": ledger.budget.describe(),
        "neighbours": f"{ledger.neighbors}: one row more or less",
        "spent": str(ledger.spent),
        "remaining": str(ledger.remaining),
    }
    width = max(map(len, facts))
    listed = "\n".join(f"{name:{width}}  {fact}" for name, fact in facts.items())
    return [
        Text("""The budget limits what all releases together can tell about any one person: whether a row is
            in the data or not changes the probability of anything that is published only as far as the
            budget allows. So the number of rows is confidential too. The unit here is zCDP; the smaller rho,
            the stricter."""),
        script,
        Tables(Report("The ledger before the first question", tuple(facts.items())), listed),
        Text(f"""The ledger is one file (`{LEDGER}`). A charge is written to it before any noise is drawn, and
            two processes that share the file cannot overspend together."""),
        Note(
            "Only in a tour",
            """Each run of this tour begins a new ledger and replaces its own old one. With confidential rows
            a data set has one ledger for good: a new one would not know what was spent before.""",
        ),
    ]


def quality_chapter(tour: Tour) -> list[Block]:
    """Count what becomes of the cells of every column."""
    price = tour.budget * QUALITY_SHARE
    script = tour.run(f"quality = dpi.quality(data).fit(dpi.{price!r})\nprint(quality)")
    quality = tour["quality"]
    advice = " ".join(quality.advice) or "Nothing that matters is beyond noise: the declarations fit the rows."
    return [
        Text(f"""A wrong declaration, such as a code that nobody declared, would leave rows out without a word. So the
            first charge, a small one of {price}, counts with noise what becomes of the cells of all columns."""),
        script,
        Tables.of(quality, "Shares of cells by class, noisy"),
        Text(f"{advice} Where something is wrong, later fits on the same columns say so in their notes, at no cost."),
    ]


def price_chapter(tour: Tour) -> list[Block]:
    """Say what a fit would cost, and its noise, before it is bought."""
    price, before = tour.budget * FIRST_SHARE, tour.spent
    script = tour.run(f'model = dpi.ols("{FORMULA}", data)\nprint(model.explain(dpi.{price!r}))')
    return [
        Text(f"""We want `{FORMULA}` for {price}. Before anything is spent, `explain` says what will be
            measured, the bound on what one row can change, the noise, the guarantee, and how much wider noise
            would make the intervals."""),
        script,
        Tables.of(tour["model"].explain(price)),
        Text("""The regression is measured in rounds. The first ones find where the values lie and where the
            coefficients are, roughly; the last two measure at that place what one step of Newton's method needs,
            with noise that is as small as the residuals there. The last lines are a guess, because only bounds are
            public so far. The fitted table says how much noise it is."""),
        Text(f"Spent before this question: {before}. Spent after it: {tour.spent}."),
    ]

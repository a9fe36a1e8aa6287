"""The chapter that plans, before an answer is bought."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpinfer.reporting.page import Block, Picture, Tables, Text
from dpinfer.tour.figures import planned_figure

if TYPE_CHECKING:
    from dpinfer.tour.session import Tour

__all__ = ["plan_chapter"]


def plan_chapter(tour: Tour) -> list[Block]:
    """Say what prices the questions to come would need, and how they would share a budget."""
    before = tour.spent
    script = tour.run("""\
def guess(rng, n):
    rows = dict(schema.sample(n, rng))  # uniform between the bounds
    rows["rate_marriage"] = rng.choice([1, 2, 3, 4, 5], n, p=[0.05, 0.1, 0.2, 0.3, 0.35])
    return rows

rating = dpi.mean("rate_marriage", data, by="religious")
plan = dpi.plan(rating, n=6000, width=0.2, pilot=guess)
print(plan)""")
    shared = tour.run(f"""\
line = dpi.ols("rate_marriage ~ age", data, method="gram")
questions = [rating, dpi.proportion("affair", data), line]
shares = dpi.plan(questions, n=6000, budget=dpi.{tour.budget!r}, pilot=guess)
print(shares)""")
    return [
        Text("""How much does an answer cost? Before it is bought, `plan` takes two of three things, the number of
            rows, the price and the precision, and solves the third. It reads no row and charges nothing. What the
            population is like must be public, too: an earlier release, a similar public file, or, as here, a guess.
            The number of rows is one that the magazine printed, about."""),
        script,
        Tables.of(tour["plan"]),
        Picture(
            "plan.png",
            lambda: planned_figure(tour["plan"]),
            "Width and power against price and number of rows; dashed, what sampling alone gives.",
        ),
        Text("""Several questions can share a budget so that the widest interval, relative to sampling, is as narrow as
            can be:"""),
        shared,
        Tables.of(tour["shares"]),
        Text(f"Spent before this chapter: {before}. Spent after it: {tour.spent}."),
    ]

"""A chapter on many tables at once, log-linear models of released tables, and ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpinfer.reporting.page import Block, Picture, Tables, Text
from dpinfer.tour.figures import drawn_figure
from dpinfer.tour.session import TABLES_SHARE, scalar

if TYPE_CHECKING:
    from dpinfer.tour.session import Tour

__all__ = ["tables_chapter"]


def tables_chapter(tour: Tour) -> list[Block]:
    """Release all pairs of some columns at once, fit a log-linear model to a table that was paid for, compare ranks."""
    price, before = tour.budget * TABLES_SHARE, tour.spent
    pairs = tour.run(f"""\
workload = dpi.workload(["rate_marriage", "religious", "affair", "age"])  # all six pairs
pairs = dpi.marginals(workload, data, bins={{"age": [17.5, 25, 30, 35, 42]}}).fit(dpi.{price!r})
pairs.summary_frame(simultaneous=True)  # intervals that hold together
by_rating = pairs.proportions("affair", by="rate_marriage")
odds = pairs.ratio({{"affair": True, "rate_marriage": 1}}, {{"affair": True, "rate_marriage": 5}})""")
    paid = tour.spent
    fitted = tour.run("""\
model = dpi.loglinear("C(religious) + C(rate_marriage) + religious:rate_marriage", counts.release).infer()
print(model.summary())""")
    free = tour.spent
    ranked = tour.run(f"""\
older = dpi.mannwhitneyu("age", "affair", data).fit(dpi.{price!r})
print(older.summary())""")
    effect = tour["older"].effect_size()
    shares = tour["by_rating"]
    return [
        Text(f"""Six tables of two columns each, for {price}: what they share is measured once, and every cell, margin,
            share and ratio has its interval. The table of all four columns is never made."""),
        pairs,
        Picture(
            "pairs.png", lambda: drawn_figure(shares.plot, 4.0), "Who had an affair, by rating of the marriage, 95%."
        ),
        Text(f"""Spent before: {before}; after: {paid}. A log-linear model asks whether ratings rise with religiousness,
            of the table of the chapter before, which is paid for: after it {free} is spent."""),
        fitted,
        Tables.of(tour["model"]),
        Text("""Ranks ask for no mean. Ages are counted in leaves of equal width, and the p-value redraws counts and
            noise under equal distributions."""),
        ranked,
        Tables.of(tour["older"]),
        Text(f"""{effect.name}, those without an affair first: {scalar(effect.estimate):.2f}, 95% interval
            {scalar(effect.lower):.2f} to {scalar(effect.upper):.2f}."""),
    ]

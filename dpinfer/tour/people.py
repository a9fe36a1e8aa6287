"""Chapters on people who have several rows: means, choices, quantiles and a density."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dpinfer as dpi
from dpinfer.reporting.page import Block, Picture, Tables, Text
from dpinfer.studies import truncation
from dpinfer.tour.figures import drawn_figure
from dpinfer.tour.session import VISITS_LEDGER

if TYPE_CHECKING:
    from dpinfer.tour.session import Tour

__all__ = ["people_chapter", "shape_chapter"]

SMALL, SMALLER = dpi.GDP(0.5), dpi.GDP(0.25)
MOST_ROWS = 5


def people_chapter(tour: Tour) -> list[Block]:
    """Protect people who have several rows, and say what keeping fewer of them would cost."""
    script = tour.run(f"""\
from statsmodels.datasets import randhie

people = randhie.load_pandas().data
same = ["lncoins", "idp", "lpi", "fmde", "physlm", "disea"]  # alike in a person's years
people["person"] = people[same].ne(people[same].shift()).any(axis=1).cumsum()
visits_schema = dpi.Schema(
    mdvis=dpi.Integer(0, 30),  # visits to a doctor in a year
    lncoins=dpi.Real(0, 5),
    physlm=dpi.Real(0, 1),
    disea=dpi.Real(0, 60),  # an index of chronic diseases
    hlthg=dpi.Boolean(),  # good health
    hlthf=dpi.Boolean(),  # fair health
    hlthp=dpi.Boolean(),  # poor health
)
visits_ledger = dpi.Ledger("{VISITS_LEDGER}", dataset="randhie", budget=dpi.GDP(mu=2.5))
visits = dpi.PrivateData(people, visits_schema, visits_ledger, id="person", max_rows={MOST_ROWS})
question = dpi.mean("mdvis", visits)
print(question.explain(dpi.{SMALL!r}))
yearly = question.fit(dpi.{SMALL!r})
print(yearly.summary())""")
    means = tour["yearly"]
    shares = {1: 0.04, 2: 0.04, 3: 0.6, 4: 0.02, 5: 0.25, 10: 0.05}
    kept = truncation(shares, [1, 3, 5, 10])
    return [
        Text(f"""The rows so far were one for each person. In the RAND health insurance experiment a person has a row a
            year. These are other people, and their data set has a ledger of its own. With `id=` all rows of a person
            are protected together. A public rule keeps at most {MOST_ROWS} of them, and every bound counts that many.
            The file has no column that identifies a person, but a person's rows follow each other and agree in the
            columns that do not change."""),
        script,
        Tables.of(tour["question"].explain(SMALL)),
        Tables.of(means, "Visits to a doctor in a year, 95% interval"),
        Text("""The years of one person are alike, so these rows tell less than those of as many people would. The
            standard error counts that: it comes from noisy sums, over people, of their squared totals."""),
        Tables.of(kept, "What keeping fewer rows would do, if people had 1 to 10 rows in publicly known shares"),
    ]


def shape_chapter(tour: Tour) -> list[Block]:
    """Choose, and tell the shape of a distribution: quantiles, a distribution function, a density."""
    script = tour.run(f"""\
common = dpi.most_frequent(["hlthg", "hlthf", "hlthp"], visits).fit(dpi.{SMALLER!r})
print(common.summary())
rare = {{"in poor health": "hlthp", "ten visits or more": "mdvis >= 10", "many diseases": "disea > 40"}}
enough = dpi.above_threshold(rare, visits, threshold=500).fit(dpi.{SMALLER!r})
print(enough.summary())
distribution = dpi.cdf("disea", visits).fit(dpi.{SMALL!r})
quartiles = distribution.quantile([0.25, 0.5, 0.75, 0.9])
print(quartiles.summary())
shape = dpi.density("mdvis", visits).fit(dpi.{SMALL!r})""")
    quartiles = tour["quartiles"]
    return [
        Text("""Sometimes the answer is no number: which of several conditions is the most common? Noise cannot be
            added to a name. It is added to the counts instead, and only the name of the largest is released, at the
            price of one count, however many conditions there are."""),
        script,
        Tables.of(tour["common"]),
        Text("""Or which groups have at least so many rows: the answers are yes, no, and not asked any more, and what
            is paid is one answer, however many groups are asked of before it."""),
        Tables.of(tour["enough"]),
        Text("""All quantiles are read from one noisy distribution function, and further ones cost nothing. Their
            intervals need no density, and hold where many rows have the same value."""),
        Tables.of(quartiles, "Quantiles of the index of diseases"),
        Picture(
            "distribution.png",
            lambda: drawn_figure(tour["distribution"].plot, 3.6),
            "Distribution function of the index of chronic diseases, with a 95% band for all of it.",
        ),
        Picture(
            "density.png",
            lambda: drawn_figure(tour["shape"].plot, 3.6),
            "Density of the number of visits: its bins were chosen privately, for a small share of the price.",
        ),
    ]

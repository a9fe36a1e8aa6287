"""Chapters on means, tables and families, and on tests of what they released."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

import dpinfer as dpi
from dpinfer.reporting.page import Block, Picture, Tables, Text
from dpinfer.tour.figures import described_figure, drawn_figure
from dpinfer.tour.session import DESCRIBED_SHARE, JOINT_TEST, scalar

if TYPE_CHECKING:
    from dpinfer.tour.session import Tour

__all__ = ["description_chapter", "test_chapter"]

PLANNED = dpi.ZCDP(0.05)
GROUP_TEST = "age[religious=1] = age[religious=4]"


def description_chapter(tour: Tour) -> list[Block]:
    """Describe the rows: means by group, a table with its margins and shares, and a family."""
    price = tour.budget * DESCRIBED_SHARE
    described = tour.run(f"""\
means = dpi.mean("age", data, by="religious").fit(dpi.{price!r})
means.t_test("{GROUP_TEST}")  # the least religious against the most

counts = dpi.table(["religious", "rate_marriage"], data).fit(dpi.{price!r})
counts.frame(), counts.margin("religious")
shares = counts.proportions("rate_marriage")""")
    spent = tour.spent
    fitted = tour.run(f"""\
family = dpi.expfam("educ", data, family="normal").fit(dpi.{price!r})
family.params, family.natural_params()""")
    means, counts, shares, family = (tour[name] for name in ("means", "counts", "shares", "family"))
    test = means.t_test(GROUP_TEST)
    whole = pd.DataFrame(counts.frame()).round(0).astype(int)
    return [
        Text(f"""The first things published are often means and tables. Means by group, a cross-table and
            the parameters of a family each cost {price} here, and each carries its noise in its standard errors."""),
        described,
        Tables.of(means, "Mean age by how religious, 95% intervals"),
        Picture("means.png", lambda: described_figure(means), "Mean age by how religious, 95% intervals."),
        Text(f"""Groups are compared like coefficients: the difference between the least and the most religious is
            {scalar(test.effect):.2f} years (standard error {scalar(test.sd):.2f}). The size of a
            group is a noisy count, because a person's group is confidential too."""),
        Tables.framed(whole, "Noisy counts: how religious (rows) by rating (columns)"),
        Tables.of(shares, "Shares of the ratings, from the same table"),
        Picture("shares.png", lambda: described_figure(shares), "Shares of the ratings, 95% intervals."),
        Text(f"""The shares, and every margin, come from the one table: spent after it {spent}, and after them too.
            Separately released noisy counts do not add up exactly, and small ones may be negative."""),
        fitted,
        Tables.of(family, "Years of education as a normal family"),
        Text("""Clamping moves years of education beyond the bounds to them. The estimator takes expectations of clamped
            values under the family, so clamping causes no bias. The intervals invert a test that counts the noise."""),
    ]


def test_chapter(tour: Tour) -> list[Block]:
    """Test hypotheses on what was released already: nothing more is paid."""
    before = tour.spent
    tested = tour.run(f"""\
independent = dpi.chi2_contingency("religious", "rate_marriage", counts.release).infer()
print(independent.summary())
even = dpi.chisquare("religious", counts.release).infer()  # as many in every group?
equal = dpi.f_oneway("age", "religious", means.release).infer()  # of the same mean age?
joint = again.f_test("{JOINT_TEST}", null="simulated")  # of the regression read from the file
tests = {{"independence": independent, "even shares": even, "equal means": equal, "regression": joint}}
corrected = dpi.multipletests(tests)""")
    planned = tour.run(f"""\
import numpy as np

question = dpi.chi2_contingency("religious", "rate_marriage")
truth = np.full((4, 5), 1 / 20)  # religious by rating
truth[-1] *= [0.8, 1.2, 0.8, 1.2, 1.0]  # the most religious differ a little
prices = [dpi.{PLANNED!r}, dpi.{PLANNED * 0.1!r}]
sizes = [500, 1000, 2000, 5000, 10_000]
curve = dpi.power(question, truth, n=sizes, privacy=prices, schema=schema, replicates=2000)""")
    independent = tour["independent"]
    effect = independent.effect_size()
    return [
        Text("""A chi-squared test that takes noisy counts for exact ones finds differences that are only noise. These
            p-values count the noise: the releases of the last chapter are compared with what the same question would
            release if the hypothesis were true, sampling and privacy noise alike."""),
        tested,
        Tables.of(independent, "Are rating and religiousness independent?"),
        Picture(
            "null.png",
            lambda: drawn_figure(independent.plot_null, 3.6),
            "The statistic, and its distribution if rating and religiousness were independent.",
        ),
        Picture(
            "residuals.png",
            lambda: drawn_figure(independent.plot_residuals, 5.6),
            "Where they are not: standardised residuals with 95% intervals.",
        ),
        Text(f"""{effect.name} measures how strong the dependence is: {effect.estimate:.3f}, 95% interval
            {effect.lower:.3f} to {effect.upper:.3f}, corrected for the bias from sampling and noise."""),
        Tables.framed(tour["corrected"], "Four tests from three releases, corrected by Holm's method"),
        Text(f"""Spent before these tests: {before}; after them: {tour.spent}. How many rows and how large a
            budget a test needs can be asked before anything is spent:"""),
        planned,
        Picture(
            "power.png",
            lambda: drawn_figure(tour["curve"].plot, 3.6),
            """Power at .05 to find a slight dependence (ratings of the most religious a fifth more or less likely), by
            number of rows and price; dashed without privacy.""",
        ),
    ]

"""Chapters on regressions: one bought by itself, a logit, and many from one purchase."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.reporting.page import Block, Note, Picture, Tables, Text
from dpinfer.tour.figures import budget_figure, coefficient_figure, comparison_figure, drawn_figure
from dpinfer.tour.session import (
    FIRST_SHARE,
    FORMULA,
    GRAM,
    GRAM_SHARE,
    JOINT_TEST,
    LOGIT_FORMULA,
    LOGIT_SHARE,
    SECOND_FORMULA,
    SINGLE_TEST,
    scalar,
)

if TYPE_CHECKING:
    from dpinfer.tour.session import Tour

__all__ = ["gram_chapter", "logit_chapter", "regression_chapter"]

MOSTLY_NOISE = 0.5
"""Share of noise in the variance of a slope beyond which a fit is not called calm, also where no flag is raised."""


def regression_chapter(tour: Tour) -> list[Block]:
    """Fit the first regression, and compare it with the ordinary one."""
    price = tour.budget * FIRST_SHARE
    script = tour.run(f"results = model.fit(dpi.{price!r})\nprint(results.summary())")
    results = tour["results"]
    share = results.noise_share.drop("Intercept")
    calm: list[Block] = [Text("The inference raised no warning: in no direction does noise drown the data.")]
    return [
        Text("The fit charges the ledger, measures noisy sums once, and infers from them alone."),
        script,
        Tables.of(results, "How the marriage is rated: private regression"),
        *([] if results.flags or share.max() > MOSTLY_NOISE else calm),
        Text(f"""Read it as any regression table. The standard error counts both sampling and privacy noise;
            the last column says which share of the variance is noise: among the slopes from
            {share.min():.0%} ({share.idxmin()}) to {share.max():.0%} ({share.idxmax()})."""),
        Picture(
            "coefficients.png",
            lambda: coefficient_figure(results),
            """Private coefficients with 95% intervals. The thick part is the interval from sampling alone,
            the rest of the line is what privacy noise adds.""",
        ),
        *_comparison(tour),
        Picture(
            "budget.png",
            lambda: budget_figure(results, price),
            """Standard error at other prices, as a multiple of the standard error without privacy noise; the
            dashed line is the price paid. Scaled from this release, so it costs nothing: the variance of the
            noise goes as 1 / rho. Only a rough guide where noise dominates.""",
        ),
        Text("""The noise does not depend on the number of rows. With ten times as many rows it weighs a tenth
            in every coefficient, so large data sets can do with far smaller budgets."""),
    ]


def logit_chapter(tour: Tour) -> list[Block]:
    """Fit a logit, and read it in probabilities."""
    price = tour.budget * LOGIT_SHARE
    script = tour.run(f"""\
affairs = dpi.logit("{LOGIT_FORMULA}", data).fit(dpi.{price!r})
print(affairs.summary())
margins = affairs.get_margeff()
print(margins.summary())
points = {{"rate_marriage": [1, 5], "age": 30, "yrs_married": 8, "religious": 2}}
print(affairs.predict(points))""")
    results, margins = tour["affairs"], tour["margins"]
    ordinary = smf.logit(LOGIT_FORMULA, tour["frame"].astype({"affair": float})).fit(disp=0)
    both = dpi.summary_table([results, ordinary], names=["private", "ordinary"])
    low, high = results.predict(tour["points"])
    others = {name: value for name, value in tour["points"].items() if name != "rate_marriage"}
    return [
        Text(f"""Whether there was an affair is yes or no, and a logit tells how its odds go with the rest. It is
            measured as the regression before, and costs {price}."""),
        script,
        Tables.of(results, "Whether there was an affair: private logit"),
        Tables.of(margins, "Average marginal effects on the probability"),
        Text(f"""Of a woman of 30, eight years married, the model expects an affair with probability {low:.2f} where the
            marriage is rated 1, and {high:.2f} where it is rated 5. Marginal effects and predictions cost nothing:
            they are computed from what was released."""),
        Picture(
            "margins.png",
            lambda: drawn_figure(lambda axes: results.plot_margins("rate_marriage", others, ax=axes), 3.8),
            "Predicted probability of an affair by how the marriage is rated, with 95% intervals.",
        ),
        Note("Only on public data", "The ordinary fit is shown because these rows are in truth public."),
        Tables.of(both, "Private and ordinary logit, standard errors in parentheses"),
    ]


def gram_chapter(tour: Tour) -> list[Block]:
    """Buy the cross-products once, and infer from the file as a reader would."""
    price = tour.budget * GRAM_SHARE
    purchase = tour.run(f"""\
gram = dpi.gram(list(schema), data).fit(dpi.{price!r}).release
gram.save("{GRAM}")""")
    spent = tour.spent
    use = tour.run(f"""\
release = dpi.read_release("{GRAM}")  # from here on no data, no ledger
second = dpi.ols("{SECOND_FORMULA}", release).infer()
print(second.summary(), second.t_test("{SINGLE_TEST}"))
again = dpi.ols(
    "{FORMULA}", release
).infer()
print(again.wald_test("{JOINT_TEST}"))""")
    release, second, again = tour["release"], tour["second"], tour["again"]
    return [
        Text(f"""One purchase can serve many questions. For {price} the noisy cross-products of all
            {len(tour["schema"])} columns are released: {len(release.values)} numbers, which give every
            regression among them. They are saved as readable JSON together with the law of their noise, and
            may be published."""),
        purchase,
        use,
        Text(f"""`{GRAM}` read back equals what was saved: {"yes" if release == tour["gram"] else "no"}. Spent
            when it was saved: {spent}; after two regressions and their tests: {tour.spent}."""),
        Tables.of(second, "Number of children: private regression from the saved file"),
        Picture("second.png", lambda: coefficient_figure(second), "The second regression, 95% intervals."),
        Tables.framed(_test_frame(second, again), "Tests of single coefficients and of two together, from the file"),
        Text("""Age and years married move together. Each may then be unclear by itself while both together
            are not, with or without privacy, and the joint test is the one to report. These are not the numbers of
            the last chapter: another release has other noise."""),
        Text("""Had the cross-products been bought first, the regression of the last chapter would have been
            free: where several questions are to come, buy the sums that serve them all."""),
    ]


def _comparison(tour: Tour) -> list[Block]:
    """Set the ordinary fit beside the private one."""
    results, ordinary = tour["results"], smf.ols(FORMULA, tour["frame"]).fit()
    ends = results.conf_int()
    covered = int(((ends[0] <= ordinary.params) & (ordinary.params <= ends[1])).sum())
    both = dpi.summary_table([results, ordinary], names=["private", "ordinary"])
    return [
        Note(
            "Only on public data",
            """The ordinary fit is shown because these rows are in truth public. With confidential rows it
            must not be published: it has no guarantee, and neither has a comparison with it.""",
        ),
        Tables.of(both, "Private and ordinary fit, standard errors in parentheses"),
        Picture(
            "comparison.png",
            lambda: comparison_figure(results, ordinary),
            "95% intervals of the private and of the ordinary fit.",
        ),
        Text(f"""The private intervals hold {covered} of the {len(ends)} ordinary estimates. A private one
            counts the noise besides the sampling, and is as a rule the wider of the two."""),
    ]


def _test_frame(second: dpi.PrivateResults, again: dpi.PrivateResults) -> pd.DataFrame:
    single, joint = second.t_test(SINGLE_TEST), again.wald_test(JOINT_TEST)
    rows = {SINGLE_TEST: (second.response, "t", single.tvalue, single.pvalue)}
    for name in ("age", "yrs_married"):
        rows[f"{name} = 0"] = (again.response, "t", again.tvalues[name], again.pvalues[name])
    rows[JOINT_TEST] = (again.response, "F", joint.fvalue, joint.pvalue)
    shown = {
        hypothesis: (response, kind, scalar(value), scalar(p))
        for hypothesis, (response, kind, value, p) in rows.items()
    }
    columns = ["response", "kind", "statistic", "p-value"]
    return pd.DataFrame.from_dict(shown, orient="index", columns=columns)

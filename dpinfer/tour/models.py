"""Chapters on any model, block by block, and on the bootstrap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import statsmodels.formula.api as smf
from statsmodels.miscmodels.ordinal_model import OrderedModel

import dpinfer as dpi
from dpinfer.reporting.page import Block, Note, Picture, Tables, Text
from dpinfer.tour.figures import coefficient_figure, drawn_figure
from dpinfer.tour.session import BLOCKS_SHARE

if TYPE_CHECKING:
    from dpinfer.tour.session import Tour

__all__ = ["blocks_chapter", "bootstrap_chapter"]

VISITS_FORMULA, VISITS_PRICE, REPLICATES = "mdvis ~ lncoins + physlm", dpi.GDP(2.0), 100


def blocks_chapter(tour: Tour) -> list[Block]:
    """Fit a model that has no private estimator of its own to blocks of rows."""
    price, before = tour.budget * BLOCKS_SHARE, tour.spent
    script = tour.run(f"""\
from statsmodels.miscmodels.ordinal_model import OrderedModel

question = dpi.sample_aggregate(
    "religious ~ 0 + I((age - 30) / 10)",
    data,
    model=OrderedModel,
    model_options={{"distr": "logit"}},
    bounds=dpi.Ball(2, center=(0, -1.5, 0.5, 0.5)),  # slope, threshold, logs of steps
    nobs=results.nobs,  # for the number of blocks: the noisy count of the first release
)
print(question.explain(dpi.{price!r}))
ordered = question.fit(dpi.{price!r})
print(ordered.summary())""")
    results, rows = tour["ordered"], tour["frame"]
    exog = pd.DataFrame({results.params.index[0]: (rows["age"] - 30) / 10})
    levels = pd.Series(pd.Categorical(rows["religious"].astype(int), ordered=True), name="religious")
    ordinary = OrderedModel(levels, exog, distr="logit").fit(method="bfgs", disp=0)
    both = dpi.summary_table([results, ordinary], names=["private", "ordinary"])
    return [
        Text("""The column `religious` has four ordered levels, which an ordered logit suits. No sums determine it as
            cross-products determine a linear regression. Any model of statsmodels can be fitted all the same: the rows
            are dealt into secret blocks, each block is fitted by itself, and a noisy average of the fits is released.
            One person is in one block, and can change no other block's estimate."""),
        script,
        Tables.of(tour["question"].explain(price)),
        Tables.of(results, "How religious by decades of age: private ordered logit"),
        Picture("ordered.png", lambda: coefficient_figure(results), "The ordered logit, 95% intervals."),
        Note("Only on public data", "The ordinary fit is shown because these rows are in truth public."),
        Tables.of(both, "Private and ordinary ordered logit, standard errors in parentheses"),
        Text(f"""Spent before: {before}; after: {tour.spent}. With so few rows the noise is most of the variance:
            such models need tens of thousands of rows. The standard errors come from the differences between blocks,
            and do not rely on the model. This release holds no count of rows: `nobs` came from the first one."""),
    ]


def bootstrap_chapter(tour: Tour) -> list[Block]:
    """Bootstrap a regression whose errors are not equally spread, with weights by person."""
    script = tour.run(f"""\
question = dpi.bootstrap("{VISITS_FORMULA}", visits, replicates={REPLICATES})
print(question.explain(dpi.{VISITS_PRICE!r}))
resampled = question.fit(dpi.{VISITS_PRICE!r})
print(resampled.summary())
cost = dpi.privacy_cost([10, 30, {REPLICATES}, 300], {VISITS_PRICE.mu})
print(cost)""")
    results, rows, cost = tour["resampled"], tour["people"], tour["cost"]
    cut = rows.assign(mdvis=rows["mdvis"].clip(0, 30))
    ordinary = smf.ols(VISITS_FORMULA, cut)
    fits = [ordinary.fit(), ordinary.fit(cov_type="cluster", cov_kwds={"groups": rows["person"]})]
    both = dpi.summary_table([results, *fits], names=["private", "ordinary", "ordinary, by person"])
    return [
        Text("""The variance of visits to a doctor grows with their mean, and the years of one person are alike. The
            standard errors of a regression from cross-products rely on equal variances and on independent rows. Those
            of the bootstrap do not. It releases the cross-products many times, and a secret coin decides each time
            whether a person counts twice or not at all. The spread of the replicates gives the standard errors."""),
        script,
        Tables.of(tour["question"].explain(VISITS_PRICE)),
        Tables.of(results, f"Visits to a doctor, from {REPLICATES} noisy replicates"),
        Note("Only on public data", "The ordinary fits are shown because these rows are in truth public."),
        Tables.of(both, "Private and ordinary fits, standard errors in parentheses"),
        Text("""The price is not what is often claimed. B replicates with root-B times the noise of one release cost
            more than that one release, and the excess is largest for few replicates, as the table shows. The fit above
            has as much more noise as the price of 2-GDP needs."""),
        Tables.of(cost, "Exact cost by number of replicates"),
        Picture("bootstrap.png", lambda: drawn_figure(cost.plot, 3.6), "Claimed, asymptotic and exact cost."),
    ]

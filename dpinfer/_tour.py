"""The chapters of the guided tour: each measures or infers, and says what came out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from statsmodels.datasets import fair
from statsmodels.iolib.summary2 import summary_col
from statsmodels.miscmodels.ordinal_model import OrderedModel

import dpinfer as dpi
from dpinfer import _report as report
from dpinfer._report import Block, Code, Note, Picture, Table, Text
from dpinfer._tour_people import patients, people_chapter, shape_chapter, visits_of
from dpinfer.errors import BudgetExceededError
from dpinfer.results import TableResults

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from dpinfer.results import ChiSquareResults

LEDGER, GRAM = "tour-ledger.db", "gram.json"
FIRST_SHARE, GRAM_SHARE, DESCRIBED_SHARE, BLOCKS_SHARE = 0.2, 0.3, 0.05, 0.25
PLANNED = dpi.ZCDP(0.05)
FORMULA = "rate_marriage ~ age + yrs_married + children + religious + educ"
ORDERED_FORMULA = "religious ~ 0 + I((age - 30) / 10)"
VISITS_FORMULA, VISITS_PRICE, REPLICATES = "mdvis ~ lncoins + physlm", dpi.GDP(2.0), 100
SECOND_FORMULA = "children ~ age + yrs_married + religious + educ"
GROUP_TEST = "age[religious=1] = age[religious=4]"
SINGLE_TEST, JOINT_TEST = "religious = 0", "age = 0, yrs_married = 0"
"""Hypotheses of the chapters."""


@dataclass(frozen=True)
class Tour:
    """What the chapters share; each measurement is made, and paid for, once, where it is first asked for.

    Attributes
    ----------
    budget : ZCDP
        The whole budget.
    folder : Path
        Where files are being made.
    """

    budget: dpi.ZCDP
    folder: Path

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The rows, which the tour treats as confidential."""
        rows: pd.DataFrame = fair.load_pandas().data
        return rows

    @cached_property
    def schema(self) -> dpi.Schema:
        """The public bounds, from the questionnaire."""
        return dpi.Schema(
            rate_marriage=dpi.Integer(1, 5),
            age=dpi.Real(17.5, 42),
            yrs_married=dpi.Real(0.5, 23),
            children=dpi.Real(0, 5.5),
            religious=dpi.Integer(1, 4),
            educ=dpi.Real(9, 20),
        )

    @cached_property
    def ledger(self) -> dpi.Ledger:
        """The ledger file of this run."""
        return dpi.Ledger(self.folder / LEDGER, dataset="fair-1978", budget=self.budget)

    @cached_property
    def data(self) -> dpi.PrivateData:
        """The rows with their guard."""
        return dpi.PrivateData(self.frame, self.schema, self.ledger)

    @cached_property
    def first(self) -> dpi.PrivateResults:
        """The first regression."""
        results: dpi.PrivateResults = dpi.ols(FORMULA, self.data).fit(self.budget * FIRST_SHARE)
        return results

    @cached_property
    def ordinary(self) -> Any:
        """The same regression without privacy, which is allowed on public rows only."""
        return smf.ols(FORMULA, self.frame).fit()

    @cached_property
    def means(self) -> dpi.PrivateResults:
        """Mean age by group."""
        results: dpi.PrivateResults = dpi.mean("age", self.data, by="religious").fit(self.budget * DESCRIBED_SHARE)
        return results

    @cached_property
    def counts(self) -> TableResults:
        """A table of two columns."""
        results = dpi.table(["religious", "rate_marriage"], self.data).fit(self.budget * DESCRIBED_SHARE)
        assert isinstance(results, TableResults)
        return results

    @cached_property
    def ordered(self) -> dpi.Procedure:
        """The ordered logit of how religious, which is fitted to blocks of rows."""
        return dpi.sample_aggregate(
            ORDERED_FORMULA,
            self.data,
            model=OrderedModel,
            model_options={"distr": "logit"},
            bounds=dpi.Ball(2, center=(0, -1.5, 0.5, 0.5)),
            nobs=self.first.nobs,
        )

    @cached_property
    def patients(self) -> pd.DataFrame:
        """Other rows: years of people, several for each."""
        return patients()

    @cached_property
    def visits(self) -> dpi.PrivateData:
        """These rows with their guard, which protects all rows of a person together."""
        return visits_of(self.patients, self.folder)

    @cached_property
    def gram(self) -> dpi.Release:
        """The cross-products of all columns."""
        return dpi.gram(list(self.schema), self.data).fit(self.budget * GRAM_SHARE).release


def schema_chapter(tour: Tour) -> list[Block]:
    """Say what is public about the columns."""
    columns = tour.schema.items()
    declared = ",\n    ".join(f"{name}=dpi.{column!r}" for name, column in columns)
    cells = {n: [type(c).__name__, c.describe(), str(c.missing), str(c.impossible)] for n, c in columns}
    names = ["type", "values", "missing", "impossible"]
    frame = pd.DataFrame.from_dict(cells, orient="index", columns=names)
    return [
        Text("""The rows are those of Fair (1978): married women who answered a magazine's questionnaire, with
            their rating of the marriage (1 very poor to 5 very good), age, years married, children, how
            religious they are, and years of education. The file is public; the tour treats it as
            confidential."""),
        Text("""Differential privacy needs the bounds of every column before a row is read. They come from the
            questionnaire, never from the rows: bounds looked up in the rows would give rows away. Values
            outside are moved to the nearest bound, and wide bounds cost noise."""),
        Code(f"import dpinfer as dpi\n\nschema = dpi.Schema(\n    {declared},\n)", python=True),
        Table(frame, "What is declared, and therefore public", text=repr(tour.schema)),
        Text("""A column that is not declared cannot be used. A cell that is missing, or that cannot be such a
            value, is handled as declared here: `drop` leaves the row out."""),
    ]


def ledger_chapter(tour: Tour) -> list[Block]:
    """Open the ledger and say what the budget means."""
    ledger = tour.ledger
    facts = {
        "data": ledger.dataset,
        "budget": ledger.budget.describe(),
        "neighbours": f"{ledger.neighbors}: one row more or less",
        "spent": str(ledger.spent),
        "remaining": str(ledger.remaining),
    }
    width = max(map(len, facts))
    listed = "\n".join(f"{name:{width}}  {fact}" for name, fact in facts.items())
    script = (
        f'ledger = dpi.Ledger("{LEDGER}", dataset="{ledger.dataset}", budget=dpi.{tour.budget!r})\n'
        "data = dpi.PrivateData(frame, schema, ledger)"
    )
    return [
        Text("""The budget limits what all releases together can tell about any one person: whether a row is
            in the data or not changes the probability of anything that is published only as far as the
            budget allows. So the number of rows is confidential too. The unit here is zCDP; the smaller rho,
            the stricter."""),
        Code(script, python=True),
        Table(pd.DataFrame({"": facts}), "The ledger before the first question", text=listed),
        Text(f"""The ledger is one file (`{LEDGER}`). A charge is written to it before any noise is drawn, and
            two processes that share the file cannot overspend together."""),
        Note(
            "Only in a tour",
            """Each run of this tour begins a new ledger and replaces its own old one. With confidential rows
            there is one ledger for a data set, for good: to begin again would be to forget what was
            spent.""",
        ),
    ]


def price_chapter(tour: Tour) -> list[Block]:
    """Say what a fit would cost, and its noise, before it is bought."""
    price, before = tour.budget * FIRST_SHARE, tour.ledger.spent
    explained = dpi.ols(FORMULA, tour.data).explain(price)
    return [
        Text(f"""We want `{FORMULA}` for {price}. Before anything is spent, `explain` says what will be
            measured, the bound on what one row can change, the noise, the guarantee, and the standard error
            that noise alone would give each coefficient."""),
        Code(f'model = dpi.ols("{FORMULA}", data)\nprint(model.explain(dpi.{price!r}))', python=True),
        Code(explained),
        Text("""The last table supposes rows spread evenly and independently over the declared bounds, because
            that is all that is public. Real rows that lie close together, or columns that move together as
            age and years married do, make the noise weigh more. What it is in the end, the fitted table
            says."""),
        Text(f"Spent before this question: {before}. Spent after it: {tour.ledger.spent}."),
    ]


def regression_chapter(tour: Tour) -> list[Block]:
    """Fit the first regression, and compare it with the ordinary one."""
    results, price = tour.first, tour.budget * FIRST_SHARE
    share = results.noise_share.drop("Intercept")
    calm: list[Block] = [Text("The inference raised no warning: in no direction does noise drown the data.")]
    return [
        Text("The fit charges the ledger, measures noisy sums once, and infers from them alone."),
        Code(f"results = model.fit(dpi.{price!r})\nprint(results.summary())", python=True),
        _summary_table(results, "How the marriage is rated: private regression"),
        *(report.warning_notes(results) or calm),
        Text(f"""Read it as any regression table. The standard error counts both sampling and privacy noise;
            the last column says which share of the variance is noise: among the slopes from
            {share.min():.0%} ({share.idxmin()}) to {share.max():.0%} ({share.idxmax()})."""),
        Picture(
            "coefficients.png",
            report.coefficient_figure(results),
            """Private coefficients with 95% intervals. The thick part is what sampling alone accounts for,
            the rest of the line is what privacy noise adds.""",
        ),
        *_comparison(tour),
        Picture(
            "budget.png",
            report.budget_figure(results, price),
            """Standard error at other prices, as a multiple of the standard error without privacy noise; the
            dashed line is the price paid. Scaled from this release, so it costs nothing: the variance of the
            noise goes as 1 / rho. Only a rough guide where noise dominates.""",
        ),
        Text("""The noise does not depend on the number of rows. With ten times as many rows it weighs a tenth
            in every coefficient, so large data sets can do with far smaller budgets."""),
    ]


def gram_chapter(tour: Tour) -> list[Block]:
    """Buy the cross-products once, and infer from the file as a reader would."""
    price, path = tour.budget * GRAM_SHARE, tour.folder / GRAM
    tour.gram.save(path)
    spent, release = tour.ledger.spent, dpi.read_release(path)
    second, again = dpi.ols(SECOND_FORMULA, release).infer(), dpi.ols(FORMULA, release).infer()
    script = f"""\
gram = dpi.gram(list(schema), data).fit(dpi.{price!r}).release
gram.save("{GRAM}")

release = dpi.read_release("{GRAM}")  # from here on no data, no ledger
second = dpi.ols("{SECOND_FORMULA}", release).infer()
print(second.summary(), second.t_test("{SINGLE_TEST}"))
again = dpi.ols("{FORMULA}", release).infer()
print(again.wald_test("{JOINT_TEST}"))"""
    return [
        Text(f"""One purchase can serve many questions. For {price} the noisy cross-products of all
            {len(tour.schema)} columns are released: {len(release.values)} numbers, which give every
            regression among them. They are saved as readable JSON together with the law of their noise, and
            may be published."""),
        Code(script, python=True),
        Text(f"""`{GRAM}` read back equals what was saved: {"yes" if release == tour.gram else "no"}. Spent
            when it was saved: {spent}; after two regressions and their tests: {tour.ledger.spent}."""),
        _summary_table(second, "Number of children: private regression from the saved file"),
        *report.warning_notes(second),
        Picture("second.png", report.coefficient_figure(second), "The second regression, 95% intervals."),
        Table(_test_frame(second, again), "Tests of single coefficients and of two together, from the file"),
        *report.warning_notes(again),
        Text("""Age and years married move together. Each may then be unclear by itself while both together
            are not, with or without privacy, and the joint test is the one to report."""),
        Text("""Had the cross-products been bought first, the regression of the last chapter would have been
            free: where several questions are to come, buy the sums that serve them all."""),
    ]


def description_chapter(tour: Tour) -> list[Block]:
    """Describe the rows: means by group, a table with its margins and shares, and a family."""
    price, data = tour.budget * DESCRIBED_SHARE, tour.data
    means, counts, spent = tour.means, tour.counts, tour.ledger.spent
    shares = counts.proportions("rate_marriage")
    family = dpi.expfam("educ", data, family="normal").fit(price)
    script = f"""\
means = dpi.mean("age", data, by="religious").fit(dpi.{price!r})
means.t_test("{GROUP_TEST}")  # the least religious against the most

counts = dpi.table(["religious", "rate_marriage"], data).fit(dpi.{price!r})
counts.frame(), counts.margin("religious")
shares = counts.proportions("rate_marriage")

family = dpi.expfam("educ", data, family="normal").fit(dpi.{price!r})
family.params, family.natural_params()"""
    test = means.t_test(GROUP_TEST)
    whole = pd.DataFrame(counts.frame()).round(0).astype(int)
    return [
        Text(f"""What is published first is rarely a regression. Means by group, a cross-table and the parameters of a
            family each cost {price} here, and each carries its noise in its standard errors."""),
        Code(script, python=True),
        Table(report.described_frame(means), "Mean age by how religious, 95% intervals", str(means.summary())),
        *report.warning_notes(means),
        Picture("means.png", report.described_figure(means), "Mean age by how religious, 95% intervals."),
        Text(f"""Groups are compared like coefficients: the difference between the least and the most religious is
            {_scalar(test.effect):.2f} years (standard error {_scalar(test.sd):.2f}). A group's noisy size is measured
            with it, because which group a person is in is confidential too."""),
        Table(whole, "Noisy counts: how religious (rows) by rating (columns)"),
        Table(report.described_frame(shares), "Shares of the ratings, from the same table", str(shares.summary())),
        Picture("shares.png", report.described_figure(shares), "Shares of the ratings, 95% intervals."),
        Text(f"""The shares, and every margin, come from the one table: spent after it {spent}, and after them too.
            Noisy counts do not quite add up to other noisy counts, and small ones may be negative: results say
            so."""),
        Table(report.described_frame(family), "Years of education as a normal family", str(family.summary())),
        Text("""The bounds of education cut off tails that the family knows of: its expectations are those of clamped
            values, so the clamping costs no bias. The interval is a test inversion that counts the noise."""),
    ]


def test_chapter(tour: Tour) -> list[Block]:
    """Test hypotheses on what was released already: nothing more is paid."""
    before, table, means = tour.ledger.spent, tour.counts.release, tour.means.release
    assert isinstance(table, dpi.Release)
    assert isinstance(means, dpi.Release)
    independent = dpi.chi2_contingency("religious", "rate_marriage", table).infer()
    even = dpi.chisquare("religious", table).infer()
    equal = dpi.f_oneway("age", "religious", means).infer()
    joint = tour.first.f_test(JOINT_TEST, null="simulated")
    tests = {"independence": independent, "even shares": even, "equal means": equal, "regression": joint}
    corrected = dpi.multipletests(tests)
    script = f"""\
independent = dpi.chi2_contingency("religious", "rate_marriage", counts.release).infer()
print(independent.summary())
even = dpi.chisquare("religious", counts.release).infer()  # as many in every group?
equal = dpi.f_oneway("age", "religious", means.release).infer()  # of the same mean age?
joint = results.f_test("{JOINT_TEST}", null="simulated")
dpi.multipletests({{"independence": independent, "even shares": even, "equal means": equal, "regression": joint}})

import numpy as np

question = dpi.chi2_contingency("religious", "rate_marriage")
truth = np.full((4, 5), 1 / 20)  # religious by rating
truth[-1] *= [0.8, 1.2, 0.8, 1.2, 1.0]  # the most religious differ a little
prices = [dpi.{PLANNED!r}, dpi.{PLANNED * 0.1!r}]
dpi.power(question, truth, n=[500, 1000, 2000, 5000, 10_000], privacy=prices, schema=schema)"""
    effect = independent.effect_size()
    curve = dpi.power(
        dpi.chi2_contingency("religious", "rate_marriage"),
        _slight_dependence(),
        n=[500, 1000, 2000, 5000, 10_000],
        privacy=[PLANNED, PLANNED * 0.1],
        schema=tour.schema,
        replicates=2000,
    )
    return [
        Text("""A chi-squared test that takes noisy counts for exact ones finds differences that are only noise. These
            p-values count the noise: the releases of the last chapter are compared with what the same question would
            release if the hypothesis were true, sampling and privacy noise alike."""),
        Code(script, python=True),
        Table(_cell_frame(independent), "Are rating and religiousness independent?", str(independent.summary())),
        *[Note("Warning", f"{flag[:1].upper()}{flag[1:]}.") for flag in independent.flags],
        Picture(
            "null.png",
            report.drawn_figure(independent.plot_null, 3.6),
            "The statistic, and its distribution if rating and religiousness were independent.",
        ),
        Picture(
            "residuals.png",
            report.drawn_figure(independent.plot_residuals, 5.6),
            "Where they are not: standardised residuals with 95% intervals.",
        ),
        Text(f"""How strongly, says {effect.name}: {effect.estimate:.3f}, 95% interval {effect.lower:.3f} to
            {effect.upper:.3f}, with the bias of sampling and noise taken off."""),
        Table(_corrected_frame(corrected), "Four tests from three releases, corrected by Holm's method"),
        Text(f"""Spent before these tests: {before}; after them: {tour.ledger.spent}. How many rows and how large a
            budget a test needs can be asked before anything is spent:"""),
        Picture(
            "power.png",
            report.drawn_figure(curve.plot, 3.6),
            """Power at .05 to find a slight dependence (ratings of the most religious a fifth more or less likely), by
            number of rows and price; dashed without privacy.""",
        ),
    ]


def blocks_chapter(tour: Tour) -> list[Block]:
    """Fit a model that has no private estimator of its own to blocks of rows."""
    price, question = tour.budget * BLOCKS_SHARE, tour.ordered
    explained, before = question.explain(price), tour.ledger.spent
    results = question.fit(price)
    rows = tour.frame.assign(religious=tour.frame["religious"].astype(int))
    exog = pd.DataFrame({results.params.index[0]: (rows["age"] - 30) / 10})
    levels = pd.Series(pd.Categorical(rows["religious"], ordered=True), name="religious")
    ordinary = OrderedModel(levels, exog, distr="logit").fit(method="bfgs", disp=0)
    both = dpi.summary_table([results, ordinary], names=["private", "ordinary"])
    script = f"""\
from statsmodels.miscmodels.ordinal_model import OrderedModel

question = dpi.sample_aggregate(
    "{ORDERED_FORMULA}",
    data,
    model=OrderedModel,
    model_options={{"distr": "logit"}},
    bounds=dpi.Ball(2, center=(0, -1.5, 0.5, 0.5)),  # the slope, the first threshold, and how the next ones follow
    nobs=results.nobs,  # released with the first regression
)
print(question.explain(dpi.{price!r}))
ordered = question.fit(dpi.{price!r})
print(ordered.summary())"""
    return [
        Text("""How religious has four ordered answers; an ordered logit suits it, and has no sums that would serve as
            cross-products serve a regression. Any model of statsmodels can be fitted all the same: the rows are dealt
            into secret blocks, each block is fitted by itself, and a noisy average of the fits is released. One person
            is in one block, and can move no more than its estimate."""),
        Code(script, python=True),
        Code(explained),
        _summary_table(results, "How religious by decades of age: private ordered logit", rows=False),
        *report.warning_notes(results),
        Picture("ordered.png", report.coefficient_figure(results), "The ordered logit, 95% intervals."),
        Note("Only on public data", "The ordinary fit is shown because these rows are in truth public."),
        Table(both.frame.droplevel(1), "Private and ordinary ordered logit, standard errors in parentheses", str(both)),
        Text(f"""Spent before: {before}; after: {tour.ledger.spent}. With so few rows the noise weighs much: such models
            want tens of thousands. The standard errors come from how much blocks differ, and do not rely on the
            model."""),
    ]


def bootstrap_chapter(tour: Tour) -> list[Block]:
    """Bootstrap a regression whose errors are not equally spread, with weights by person."""
    rows, question = tour.patients, dpi.bootstrap(VISITS_FORMULA, tour.visits, replicates=REPLICATES)
    explained, results = question.explain(VISITS_PRICE), question.fit(VISITS_PRICE)
    cut = rows.assign(mdvis=rows["mdvis"].clip(0, 30))
    groups = {"groups": rows["person"]}
    fits = [smf.ols(VISITS_FORMULA, cut).fit(), smf.ols(VISITS_FORMULA, cut).fit(cov_type="cluster", cov_kwds=groups)]
    both = dpi.summary_table([results, *fits], names=["private", "ordinary", "ordinary, by person"])
    cost = dpi.privacy_cost((10, 30, REPLICATES, 300), VISITS_PRICE.mu)
    script = f"""\
question = dpi.bootstrap("{VISITS_FORMULA}", visits, replicates={REPLICATES})
print(question.explain(dpi.{VISITS_PRICE!r}))
resampled = question.fit(dpi.{VISITS_PRICE!r})
print(resampled.summary())
print(dpi.privacy_cost([10, 30, {REPLICATES}, 300], {VISITS_PRICE.mu}))"""
    return [
        Text("""Visits to a doctor vary the more, the more there are, and the years of one person are alike, while the
            standard errors of a regression from cross-products rely on an equal spread and on independent rows. The
            bootstrap does not: the cross-products are released many times, each time with every person counting
            twice or not at all by a secret coin, and what the replicates differ by is the standard error."""),
        Code(script, python=True),
        Code(explained),
        _summary_table(results, f"Visits to a doctor, from {REPLICATES} noisy replicates", rows=False),
        *report.warning_notes(results),
        Note("Only on public data", "The ordinary fits are shown because these rows are in truth public."),
        Table(both.frame.droplevel(1), "Private and ordinary fits, standard errors in parentheses", str(both)),
        Text("""The price is not what is often claimed. B replicates with root-B times the noise of one release cost
            more than that one release, the more the fewer they are; the noise here is calibrated to the exact
            cost."""),
        Table(cost.frame.set_index("replicates").round(3).astype(str), "Exact cost by number of replicates", str(cost)),
        Picture("bootstrap.png", report.drawn_figure(cost.plot, 3.6), "Claimed, asymptotic and exact cost."),
    ]


def _slight_dependence() -> NDArray[np.float64]:
    """Joint shares of religiousness (rows) and rating: even, but for the most religious."""
    shares = np.full((4, 5), 1 / 20)
    shares[-1] *= [0.8, 1.2, 0.8, 1.2, 1.0]
    return shares


def _cell_frame(test: ChiSquareResults) -> pd.DataFrame:
    frame = test.frame().copy()
    frame.index = pd.Index([", ".join(map(str, label)) for label in frame.index], name="religious, rating")
    for name in frame.columns:
        style = "{:,.0f}" if name in ("observed", "expected") else "{:.2f}"
        frame[name] = [style.format(value) for value in frame[name]]
    return frame


def _corrected_frame(corrected: pd.DataFrame) -> pd.DataFrame:
    shown = pd.DataFrame(index=corrected.index)
    shown["statistic"] = [report.format_number(value) for value in corrected["statistic"]]
    for name in ("pvalue", "corrected"):
        shown[name] = [report.format_pvalue(value) for value in corrected[name]]
    shown["reject at .05"] = ["yes" if reject else "no" for reject in corrected["reject"]]
    return shown


def account_chapter(tour: Tour) -> list[Block]:
    """List the charges, and ask for too much."""
    ledger, price = tour.ledger, tour.budget * GRAM_SHARE
    charges = ledger.charges()
    answer = _answer(dpi.gram(list(tour.schema), tour.data), price)
    made = {
        "time (UTC)": charges["time"].dt.strftime("%Y-%m-%d %H:%M:%S"),
        "what": charges["description"],
        "price": charges["price"].map(str),
        "id": charges["id"].str[:8],
    }
    return [
        Code("print(ledger.charges())\nprint(ledger.spent.describe(), ledger.remaining)", python=True),
        Table(pd.DataFrame(made).set_axis(range(1, len(charges) + 1)), "What has been charged"),
        Text(f"Spent in all: {ledger.spent.describe()}. Remaining: {ledger.remaining}."),
        Picture("account.png", report.account_figure(ledger), "What each charge took, and what is left."),
        Text(f"""A question that asks for more than is left is refused. Asked for another {price}, the ledger
            answers:"""),
        Code(answer),
        Text(f"""Charges before: {len(charges)}; after: {len(ledger.charges())}. A refusal draws nothing and
            costs nothing. The remaining {ledger.remaining} can still be spent; when it is gone, these rows
            answer nothing more, but every release made so far still does."""),
    ]


CHAPTERS: tuple[tuple[str, Callable[[Tour], list[Block]]], ...] = (
    ("The public schema", schema_chapter),
    ("The budget and its ledger", ledger_chapter),
    ("The price of a question", price_chapter),
    ("A first private regression", regression_chapter),
    ("One purchase, many regressions", gram_chapter),
    ("Means, tables and families", description_chapter),
    ("Tests that keep their level", test_chapter),
    ("Any model, block by block", blocks_chapter),
    ("People with several rows", people_chapter),
    ("Choices, quantiles and a density", shape_chapter),
    ("Replicates at their true price", bootstrap_chapter),
    ("What the ledger says", account_chapter),
)
"""Title and content of every chapter, in order; a further capability adds a line here."""


def _summary_table(results: dpi.PrivateResults, caption: str, *, rows: bool = True) -> Table:
    summary = results.summary()
    notes = (*([f"Rows: {results.nobs:,.0f}, as released."] if rows else []), *summary.notes)
    return Table(report.regression_frame(results), caption, str(summary), notes)


def _comparison(tour: Tour) -> list[Block]:
    """Set the ordinary fit beside the private one."""
    results, ordinary = tour.first, tour.ordinary
    ends = results.conf_int()
    covered = int(((ends[0] <= ordinary.params) & (ordinary.params <= ends[1])).sum())
    facts = {"N": lambda fit: f"{fit.nobs:,.0f}"}
    both = summary_col([results, ordinary], model_names=["private", "ordinary"], info_dict=facts)
    return [
        Note(
            "Only on public data",
            """The ordinary fit is shown because these rows are in truth public. With confidential rows it
            must not be published: it has no guarantee, and neither has a comparison with it.""",
        ),
        Table(both.tables[0], "Private and ordinary fit, standard errors in parentheses"),
        Picture(
            "comparison.png",
            report.comparison_figure(results, ordinary),
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
        hypothesis: (response, kind, report.format_number(_scalar(value)), report.format_pvalue(_scalar(p)))
        for hypothesis, (response, kind, value, p) in rows.items()
    }
    columns = ["response", "kind", "statistic", "p-value"]
    return pd.DataFrame.from_dict(shown, orient="index", columns=columns)


def _scalar(value: Any) -> float:
    return float(np.squeeze(value))


def _answer(question: dpi.Procedure, price: dpi.ZCDP) -> str:
    """Ask, and return in one line what comes back."""
    try:
        question.measure(price)
    except BudgetExceededError as error:
        return f"{type(error).__name__}: {error}"
    return "granted"

"""Tables of other packages: numbers, stars, N and the guarantee arrive as they are; what is not there stays out."""

from html.parser import HTMLParser

import maketables
import numpy as np
import pandas as pd
import pytest
from great_tables import GT
from stargazer.stargazer import Stargazer
from statsmodels.iolib.summary2 import summary_col

import dpinfer as dpi
from dpinfer.reporting.summary_table import summary_table
from dpinfer.results import PrivateResults
from tests.reporting.test_summary_table import paid
from tests.results.conftest import UnboundedStub

SHOWN = ["N", "Guarantee", "Neighbours"]
NEVER = ("Log-Likelihood", "log-likelihood", "AIC", "BIC", "nan", "None", "Residual Std")


class Cells(HTMLParser):
    """The rows of an HTML table, as texts."""

    def __init__(self, html):
        super().__init__()
        self.rows, self._open = [], False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"} and self.rows:
            self.rows[-1].append("")
        self._open = tag not in {"style", "script"}

    def handle_data(self, data):
        if self._open and self.rows and self.rows[-1]:
            self.rows[-1][-1] += data

    def row(self, label):
        found = [[" ".join(cell.split()) for cell in row] for row in self.rows if row and row[0].strip() == label]
        assert len(found) == 1, (label, found)
        return found[0][1:]


@pytest.fixture(scope="module")
def several(case):
    """A noisy N with R squared, and neither: the last one has other p-values, and infinite ends."""
    noisy = case.noisy(release=paid("a"), nobs=398.7, nobs_is_public=False)
    hidden = UnboundedStub(**{**case.inference.__dict__, "nobs": None, "rsquared": None, "method": "score"})
    return [noisy, PrivateResults(hidden, paid("b"), response="hours")]


def stars(result, term):
    return "*" * sum(result.pvalues[term] < level for level in (0.1, 0.05, 0.01))


def with_facts(results):
    table, side = Stargazer(results), summary_table(results, stars=True)
    table.show_n = False
    for fact in SHOWN:
        table.add_line(fact, list(side.facts.loc[fact]))
    table.add_custom_notes(list(side.notes))
    return table


def test_stargazer_shows_our_numbers_and_ours_alone(several):
    html = with_facts(several).render_html()
    cells = Cells(html)
    for term in several[0].params.index:
        assert cells.row(term) == [f"{one.params[term]:.3f}{stars(one, term)}" for one in several]
    assert f"({several[0].bse['age']:.3f})" in html
    assert cells.row("N") == ["399 (noisy)", "not released"]
    assert cells.row("Guarantee") == ["ZCDP(rho=0.1)"] * 2
    assert cells.row("Neighbours")[:2] == ["add_remove"] * 2  # stargazer's rule stands in the last line's row
    assert cells.row("R2") == [f"{several[0].rsquared:.3f}", ""]
    assert "0.1-zCDP, which implies (" in html
    assert not [word for word in NEVER if word in html]


def test_stars_are_those_of_the_inference(several):
    wald, score = several[0].with_inference("wald"), several[0].with_inference("score")
    cells = Cells(Stargazer([wald, score]).render_html())
    for term in wald.params.index:
        assert [cell.count("*") for cell in cells.row(term)] == [len(stars(one, term)) for one in (wald, score)]
    table = pd.DataFrame({"wald": wald.pvalues, "score": score.pvalues})
    assert (table["wald"] < table["score"]).all()


def test_stargazer_as_latex(several):
    text = with_facts(several).render_latex(escape=True)
    assert "N & 399 (noisy) & not released" in text
    assert r"(add\_remove)" in text
    assert not [word for word in NEVER if word in text]


def test_maketables_shows_our_numbers_and_ours_alone(several):
    side = summary_table(several, stars=True)
    facts = side.facts.loc[SHOWN].T.to_dict("list")
    table = maketables.ETable(several, custom_model_stats=facts, stats_order="c", notes=" ".join(side.notes))
    html = table.make(type="html")
    cells = Cells(html)
    for term in ("age", "educ"):
        cell = [f"{one.params[term]:.3f}{stars(one, term)}({one.bse[term]:.3f})" for one in several]
        assert [text.replace(" ", "") for text in cells.row(term)] == cell
    assert cells.row("N") == ["399 (noisy)", "not released"]
    assert cells.row("Guarantee") == ["ZCDP(rho=0.1)"] * 2
    assert "0.1-zCDP, which implies (" in html
    assert not [word for word in NEVER if word in html]


@pytest.mark.parametrize("statistic", ["ll", "llnull", "aic", "bic", "pseudo_r2", "deviance", "null_deviance"])
def test_maketables_finds_nothing_that_does_not_exist(several, statistic):
    extractor = maketables.extractors.get_extractor(several[0])
    assert extractor.stat(several[0], statistic) is None
    assert extractor.stat(several[1], "N") is None
    assert extractor.stat(several[1], "r2") is None


def test_maketables_reads_intervals_of_the_inference(several):
    frame = maketables.extractors.get_extractor(several[1]).coef_table(several[1])
    np.testing.assert_array_equal(frame[["ci95l", "ci95u"]].to_numpy(), several[1].conf_int().to_numpy())
    assert np.isneginf(frame["ci95l"]).any()


def test_great_tables_draws_the_table_as_it_is_shown(several):
    side = summary_table(several, title="Income <b>", names=["a & b", "second"])
    table = GT(side.as_frame(), rowname_col="").tab_header(side.title)
    for note in side.notes:
        table = table.tab_source_note(note)
    html = table.as_raw_html()
    assert "Income &lt;b&gt;" in html
    cells = Cells(html)
    assert cells.row("age") == [f"{one.params['age']:.4f}" for one in several]
    assert cells.row("N") == ["399 (noisy)", "not released"]
    assert "0.1-zCDP, which implies (" in html
    assert r"a \& b" in table.as_latex()


def test_frames_hold_every_line_of_the_table_once(several):
    side = summary_table(several)
    shown = side.as_frame()
    assert list(shown.columns) == ["", *side.frame.columns]
    assert len(shown) == len(side.frame)
    labels = [label for label in shown[""] if label]
    assert len(set(labels)) == len(labels)  # the line of standard errors has no label of its own
    assert labels[-len(side.facts) :] == list(side.facts.index)
    assert side.facts.columns.equals(side.frame.columns)


def test_labels_stand_once_in_html(several):
    cells = Cells(summary_table(several).as_html())
    labels = [row[0] for row in cells.rows[1:] if row[0]]
    assert len(set(labels)) == len(labels)
    assert cells.row("age") == [f"{one.params['age']:.4f}" for one in several]


def test_summary_col_says_where_n_comes_from(several):
    text = str(summary_col(several, stars=True))
    found = {line[:15].strip(): " ".join(line[15:].split()) for line in text.splitlines()}
    assert found["N"] == "399 (noisy) not released"
    assert found["Guarantee"] == "ZCDP(rho=0.1) ZCDP(rho=0.1)"
    assert found["Neighbours"] == "add_remove add_remove"
    assert not [word for word in NEVER if word in text]


def test_results_of_every_model_go_into_every_table():
    schema = dpi.Schema(y=dpi.Integer(0, 9), x=dpi.Real(0, 1), g=dpi.Category(["a", "b"]))
    rng = np.random.default_rng(4)
    data = dpi.PublicData(schema.sample(4000, rng), schema, rng=rng)
    price = dpi.ZCDP(2)
    results = [
        dpi.ols("y ~ x + g", data).fit(price),
        dpi.ols("y ~ x", data, method="gram").fit(price),
        dpi.logit("I(y > 4) ~ x + g", data).fit(price),
        dpi.poisson("y ~ x", data).fit(price),
        dpi.quantreg("y ~ x", data).fit(price),
        dpi.mean("x", data, by="g").fit(price),
    ]
    side = summary_table(results)
    stargazed = Cells(with_facts(results).render_html())
    made = maketables.ETable(results, custom_model_stats=side.facts.T.to_dict("list"), stats_order="c")
    drawn = Cells(GT(side.as_frame(), rowname_col="").as_raw_html())
    for cells in (stargazed, Cells(made.make(type="html")), drawn):
        assert cells.row("N") == list(side.facts.loc["N"])
        assert cells.row("Guarantee") == ["none (public data)"] * len(results)
    assert stargazed.row("Intercept")[:5] == [
        f"{one.params.iloc[0]:.3f}{stars(one, 'Intercept')}" for one in results[:5]
    ]

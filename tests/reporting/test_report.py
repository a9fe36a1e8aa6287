"""The page that is published: what it holds, and what it refuses."""

from __future__ import annotations

import base64
import gzip
import os
import re
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import pytest
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.errors import OptionError
from dpinfer.regression.linear import Gram
from dpinfer.reporting import page as pages
from dpinfer.reporting import report
from tests.contract.questions import HOME
from tests.reporting.test_page import Tags

if TYPE_CHECKING:
    import pandas as pd

NASTY = "<script>alert('x') & \"y\"</script>"
SCHEMA = dpi.Schema(
    age=dpi.Real(0, 100, unit="years"),
    income=dpi.Real(0, 200),
    group=dpi.Category(["a", "b", NASTY], label="Group <of people>"),
)


@pytest.fixture(autouse=True)
def _coarse(monkeypatch):
    """Draw few pixels."""
    monkeypatch.setattr(pages, "_DPI", 30)


def rows(size: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = SCHEMA.sample(size, rng)
    return frame.assign(income=50 + 0.5 * frame["age"] + rng.normal(0, 10, size))


@pytest.fixture(scope="module")
def ledger() -> dpi.Ledger:
    return dpi.Ledger.in_memory(dpi.ZCDP(5), dataset="a survey")


@pytest.fixture(scope="module")
def data(ledger) -> dpi.PrivateData:
    return dpi.PrivateData(rows(), SCHEMA, ledger)


@pytest.fixture(scope="module")
def fit(data) -> dpi.PrivateResults:
    return dpi.ols("income ~ age", data, method="gram").fit(dpi.ZCDP(0.5))


def written(folder, *args, **options) -> str:
    path = dpi.report(*args, folder / "page.html", **options)
    assert path == folder / "page.html"
    page = path.read_text(encoding="utf-8")
    found = Tags(page)
    links = [one.get(name) for _, one in found.seen for name in ("src", "href", "srcset") if one.get(name)]
    assert all(link.startswith(("data:", "#")) for link in links)
    assert not re.search(r"<script|url\(|@import|https?://", re.sub(r"base64,[\w+/=]*", "", page))
    assert {link[1:] for link in links if link[0] == "#"} <= {one["id"] for _, one in found.seen if "id" in one}
    assert all(one["alt"].strip() for one in found.of("img"))
    assert all(one["scope"] in ("row", "col") for one in found.of("th"))
    return page


def saved(page: str, folder) -> list[dpi.Release]:
    """Save the attached files as a browser does, and read them."""
    releases = []
    for link in Tags(page).of("a"):
        if "download" in link:
            kind, content = re.fullmatch(r"data:application/(\w+);base64,([\w+/=]+)", link["href"]).groups()
            path = folder / link["download"]
            path.write_bytes(base64.b64decode(content))
            assert (kind == "gzip") == link["download"].endswith(".gz")
            releases.append(dpi.read_release(path))
    return releases


OF_THEIR_OWN = ("expfam own", "expfam multinormal", "density bins", "proportion exact", "blocks own", "loglinear bins")
"""Options with sentences or tables of their own; others of a function differ in numbers alone."""
ON_PAGES = [one for one in HOME if not one.marks or one.values[0].ask.name in OF_THEIR_OWN]  # noqa: PD011


@pytest.mark.sweep(4)
@pytest.mark.parametrize("question", ON_PAGES)
def test_every_result_and_its_release_are_on_the_page(question, tmp_path):
    found = question.public().fit(question.privacy)
    page = written(tmp_path, {"The heading": found})
    (release,) = saved(page, tmp_path)
    assert release == found.release
    if isinstance(found, Gram):  # no result: it answers regressions
        assert "Release: gram" in page
        return
    for table in found._report().tables:
        assert all(escape(cell) in page for row in table.rows for cell in row)
    for sentence in (*found._report().notes, *found._report().warnings):
        assert escape(sentence) in page
    if question.ask.name != "expfam own":  # a family of one's own is given anew
        assert release.infer()._report() == found._report()
    methods = page[page.index("Methods</h2>") : page.index("Data availability</h2>")]
    assert "simulated from data declared as public" in methods
    estimate = methods[methods.index("Release 1") :]
    assert estimate.count("<p>") >= 2  # how it was estimated, and by what


def test_a_study(data, ledger, fit, tmp_path):
    table = dpi.table("group", data).fit(dpi.ZCDP(0.1))
    test = dpi.chisquare("group", table.release).infer()
    results = {
        "Income by age": fit,
        "Groups": table,
        "Equal?": test,
        "Both": dpi.summary_table([fit, fit], names=["a", "b"]),
        "All": dpi.multipletests({"groups": test, "slope": fit.wald_test("age = 0")}),
        "At 40": fit.get_prediction({"age": [40]}),
        "Slope": fit.t_test("age = 0.5"),
    }
    audit = dpi.audit(dpi.mean("age"), SCHEMA, dpi.ZCDP(0.1), runs=200)
    page = written(
        tmp_path, results, title=NASTY, authors=["A <B>", "C"], abstract="One.\n\nTwo.", ledger=ledger, audit=audit
    )
    for heading in (*results, "Privacy loss", "Public settings", "Methods", "Ledger", "Audit", "Data availability"):
        assert re.search(rf"<h2 [^>]*>\d+\. {re.escape(heading)}", page)
    assert f"<h1>{escape(NASTY)}</h1>" in page
    assert "A &lt;B&gt; and C" in page
    assert [release.kind for release in saved(page, tmp_path)] == ["gram", "table"]
    assert "Group &lt;of people&gt;" in page
    assert "The rows of a survey are held as confidential" in page
    paid = page[page.index("Total privacy loss") : page.index("What it means")]
    assert "0.6-zCDP" in paid  # each release once
    charges = page[page.index("Every charge was written") :]
    assert all(id[:8] in charges for id in ledger.charges()["id"])
    assert "For “Income by age”, coefficients of linear models were computed" in page
    assert "Kifer &amp; Rogers, 2017" in page
    assert "Kifer, D. &amp; Rogers, R. (2017)." in page
    assert "Wilcoxon" not in page  # nothing that was not used
    assert audit._report().facts[-1][1] in page


def test_what_a_price_means_is_said(fit, tmp_path):
    page = written(tmp_path, fit)
    assert "has a power of at most 26%" in page  # Phi(Phi^-1(.05) + 1): mu of rho = .5 is 1
    assert "A test at the 5% level of whether one row is in the data" in page


def test_people_and_replacement_are_named(tmp_path):
    frame = rows().assign(person=np.arange(3000) // 2)
    ledger = dpi.Ledger.in_memory(dpi.GDP(1), dataset="people", neighbors="replace_one")
    data = dpi.PrivateData(frame, SCHEMA, ledger, id="person", max_rows=2)
    page = written(tmp_path, dpi.mean("age", data).fit(dpi.GDP(0.5)), ledger=ledger)
    assert "which of two possible values one person has" in page
    assert "they differ in one person" in page
    assert "all rows of a person have the same value of &#x27;person&#x27;" in page
    assert "Gaussian differential privacy (Dong et al., 2022)" in page


def test_combined_releases_are_attached_with_their_parts(data, tmp_path):
    parts = [dpi.table("group", data).measure(dpi.ZCDP(0.1)) for _ in range(2)]
    page = written(tmp_path, dpi.combine(parts))
    assert saved(page, tmp_path) == parts
    assert "Aitken, A. C. (1935)" in page
    assert "0.2-zCDP" in page


def test_a_release_is_inferred_again(fit, tmp_path):
    assert "Private OLS" in written(tmp_path, [fit.release, fit])
    assert [one["id"] for one in Tags((tmp_path / "page.html").read_text()).of("li") if "id" in one] == ["release-1"]


def test_long_releases_are_compressed(tmp_path):
    data = dpi.PublicData(rows(), SCHEMA, rng=np.random.default_rng(1))
    found = dpi.cdf("age", data, resolution=4096).fit(dpi.ZCDP(0.5))
    page = written(tmp_path, found)
    assert saved(page, tmp_path) == [found.release]
    assert (tmp_path / "release-1-cdf.json.gz").stat().st_size < len(found.release.to_json()) / 5
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(b"{}" * 100)[:-9])
    with pytest.raises(dpi.errors.ReleaseFormatError, match="cannot be read"):
        dpi.read_release(tmp_path / "cut.json.gz")


def test_simulated_results_are_called_that(tmp_path):
    data = dpi.PublicData(rows(), SCHEMA, rng=np.random.default_rng(1))
    page = written(tmp_path, dpi.mean("age", data).fit(dpi.ZCDP(0.5)))
    assert "they carry no guarantee" in page
    assert "The rows are declared as public." in page


def test_nothing_of_rows_is_on_the_page(ledger, tmp_path):
    """Two data sets with the same releases give the same page; the rows are not asked for."""
    made = []
    for size in (50, 70):
        public = dpi.PublicData(rows(size), SCHEMA, rng=np.random.default_rng(1))
        release = dpi.mean("age", public).measure(dpi.ZCDP(0.5))
        made.append(release)
        fixed = dpi.Release.from_json(made[0].to_json())
        page = written(tmp_path, fixed)
        assert "row was read" in page
    first, second = made
    assert first != second
    assert written(tmp_path, first) == written(tmp_path, dpi.Release.from_json(first.to_json()))


def test_the_same_releases_give_the_same_page(fit, tmp_path):
    assert written(tmp_path, fit) == written(tmp_path, fit)


def test_another_statement_on_the_data(fit, tmp_path):
    page = written(tmp_path, fit, availability="Ask <us>.")
    assert "<p>Ask &lt;us&gt;.</p>" in page
    assert "held as confidential" not in page
    assert 'download="release-1-ols.json"' in page


FRAME = rows(20)
ORDINARY = smf.ols("income ~ age", FRAME).fit()


def test_what_no_program_can_know_is_said_to_be_assumed(fit, ledger, tmp_path):
    page = written(tmp_path, fit, ledger=ledger)
    assert page.count("assumes that they") == 2  # in the settings and in the methods
    assert "other releases about these data" in page
    assert "The ledger does not know what was released without it." in page
    assert not re.search("(?:were|was) fixed|before any row|cannot be shared", page)


@pytest.mark.parametrize("times", [1, 2])
def test_columns_without_a_guarantee_are_named(times, fit, tmp_path):
    names = ["private", "plain <b>", "other"][: times + 1]
    page = written(tmp_path, dpi.summary_table([fit, *[ORDINARY] * times], names=names))
    told = {
        1: "The column “plain &lt;b&gt;” shows an ordinary result",
        2: "The columns “plain &lt;b&gt;” and “other” show ordinary results",
    }[times]
    assert page.count(f"{told}, which no guarantee covers.") == 2  # at a glance and in the methods
    assert "which no guarantee covers" not in written(tmp_path, dpi.summary_table([fit]))


@pytest.mark.parametrize(
    ("results", "named", "advice"),
    [
        ([], "results", "one or more"),
        ({}, "results", "one or more"),
        ("a text", "results", "results of dpinfer"),
        (FRAME, "results", "a frame may hold confidential rows"),
        (FRAME["age"], "results", "a frame may hold confidential rows"),
        ([ORDINARY], r"results\[0\]", "no guarantee"),
        ({"fit": 3}, r"results\['fit'\]", "results of dpinfer"),
        ({3: 3}, "results", "headings"),
        (dpi.mean("age"), "results", "results of dpinfer"),
    ],
)
def test_what_is_no_result_is_refused(results, named, advice, tmp_path):
    with pytest.raises(OptionError, match=rf"^{named}=.*{advice}"):
        dpi.report(results, tmp_path / "page.html")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"title": ""}, "title"),
        ({"title": 3}, "title"),
        ({"abstract": None}, "abstract"),
        ({"availability": 3}, "availability"),
        ({"authors": 3}, "authors"),
        ({"authors": [""]}, "authors"),
        ({"ledger": "study.db"}, "ledger"),
        ({"ledger": dpi.Ledger.in_memory(dpi.ZCDP(1))}, "ledger"),
        ({"audit": True}, "audit"),
        ({"audit": FRAME}, "audit"),
    ],
)
def test_options_that_are_wrong_are_refused_by_name(options, named, fit, tmp_path):
    with pytest.raises(OptionError, match=f"^{named}="):
        dpi.report(fit, tmp_path / "page.html", **options)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("path", ["page.txt", "page", "missing/page.html", "folder.html", 3])
def test_paths_that_cannot_be_are_refused(path, fit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(OptionError, match=r"^path="):
        dpi.report(fit, path)
    assert os.listdir(tmp_path) == ["folder.html"]


def test_a_page_is_written_whole_or_not_at_all(fit, tmp_path, monkeypatch):
    (tmp_path / "page.html").write_text("before")

    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr(report, "page_html", fail)
    with pytest.raises(MemoryError):
        dpi.report(fit, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == "before"
    assert os.listdir(tmp_path) == ["page.html"]


def test_headings_that_repeat_are_numbered(fit, tmp_path):
    page = written(tmp_path, [fit, fit])
    assert "2. Private OLS: income (1)" in page
    assert "3. Private OLS: income (2)" in page

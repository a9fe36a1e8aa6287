"""What the methods section says, and what it cites."""

import re
from pathlib import Path

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.results import citing
from dpinfer.results.citing import REFERENCES, Citations


def test_every_reference_is_whole_and_every_citation_has_one():
    for key, (short, whole) in REFERENCES.items():
        year = re.search(r"\d{4}", key)[0]
        assert year in short
        assert f"({year}" in whole
        assert whole.endswith(".")
        assert whole.startswith(short.split(" et al.")[0].split(" & ")[0].split(",")[0])
    sentences = [*citing._ESTIMATED.values(), *citing.TEXTS["inferred"].values()]
    cited = {key for one in sentences for key in re.findall(r"{(\w+)}", one)}
    assert cited - {"counts"} <= set(REFERENCES)


def test_citations_are_listed_once_in_alphabetical_order():
    cite = Citations()
    assert cite("white1980", "huber1967") == "White, 1980; Huber, 1967"
    cite("white1980")
    assert [one.split(",")[0] for one in cite.listed] == ["Huber", "White"]


@pytest.mark.parametrize(
    ("question", "told"),
    [
        (lambda data: dpi.ols("y ~ x", data), "robust to heteroskedasticity and misspecification (HC1; Huber, 1967;"),
        (
            lambda data: dpi.ols("y ~ x", data, cov_type="nonrobust"),
            "assume homoskedastic errors and a correctly specified model",
        ),
        (lambda data: dpi.logit("b ~ x", data), "Coefficients of a logit model (b ~ x) were fitted in"),
        (lambda data: dpi.mnlogit("c ~ x", data), "Coefficients of a multinomial logit model (c ~ x) were fitted in"),
        (lambda data: dpi.ordered("c ~ x", data), "Coefficients of a proportional odds model (c ~ x) were fitted in"),
        (lambda data: dpi.mean("x", data, target="data"), "includes privacy noise only, as they are for these data"),
        (lambda data: dpi.mean("x", data, inference="simulated"), "Ferrando et al., 2022"),
        (
            lambda data: dpi.quantile("x", data),
            "the outcome of a choice by the exponential mechanism (McSherry &amp; Tal",
        ),
    ],
)
def test_what_was_used_is_told(question, told, tmp_path):
    schema = dpi.Schema(x=dpi.Real(0, 1), y=dpi.Real(0, 1), b=dpi.Boolean(), c=dpi.Category(["l", "m", "h"]))
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(2))
    data = dpi.PrivateData(schema.sample(3000, np.random.default_rng(1)), schema, ledger)
    page = dpi.report(question(data).fit(dpi.ZCDP(1)), tmp_path / "page.html").read_text(encoding="utf-8")
    methods = page[page.index("Methods</h2>") : page.index("References</h2>")]
    assert told in methods


def test_the_size_of_the_noise_is_that_of_the_release(tmp_path):
    schema = dpi.Schema(x=dpi.Real(0, 1))
    data = dpi.PublicData(schema.sample(100, np.random.default_rng(1)), schema, rng=np.random.default_rng(2))
    found = dpi.count(data).fit(dpi.ZCDP(0.02))
    page = dpi.report(found, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "holds 1 noisy number, with discrete Gaussian noise (Canonne et al., 2020), of standard deviation 5." in page


def entries(text):
    """Keys and fields of BibTeX entries."""
    found = {}
    for one in text.split("\n\n"):
        kind, key = re.match(r"@(\w+){(\w+),\n", one).groups()
        found[key] = {"kind": kind, **dict(re.findall(r"^  (\w+) = {(.*)},$", one, re.MULTILINE))}
    return found


def test_every_reference_has_the_fields_of_its_kind():
    needed = {"article": ("journal", "volume", "pages"), "inproceedings": ("booktitle",), "book": ("publisher",)}
    for key in REFERENCES:
        (one,) = entries(citing._reference(key)).values()
        for name in ("author", "title", "year", *needed.get(one["kind"], ("note",))):
            assert one[name], (key, name)
        assert one["year"] in key
        assert all("," in author for author in one["author"].split(" and ")), key
        assert all(author.endswith(".") for author in one["author"].split(" and ")), key


ROOT = Path(__file__).parents[2]
SCHEMA = dpi.Schema(x=dpi.Real(0, 1), y=dpi.Real(0, 1), b=dpi.Boolean(), c=dpi.Boolean())
CITED = [
    (lambda data: dpi.ols("y ~ x", data).fit(dpi.ZCDP(1)), {"bun2016", "canonne2020", "white1980", "avella2023"}),
    (lambda data: dpi.ols("y ~ x", data, method="gram").fit(dpi.PureDP(1)), {"ghosh2012", "sheffet2017", "rao1948"}),
    (lambda data: dpi.logit("b ~ x", data).fit(dpi.GDP(1)).get_margeff(), {"dong2022", "avella2023", "dwork2006"}),
    (lambda data: dpi.chi2_contingency("b", "c", data).fit(dpi.ZCDP(1)), {"kifer2017", "besag1991"}),
    (lambda data: dpi.most_frequent("b", data).fit(dpi.PureDP(1)), {"mcsherry2007"}),
    (
        lambda data: dpi.combine([dpi.table(["b"], data).measure(dpi.ZCDP(0.1)) for _ in range(2)]),
        {"aitken1935", "bun2016"},
    ),
]


@pytest.mark.parametrize(("ask", "keys"), CITED, ids=range(len(CITED)))
def test_results_cite_the_package_and_their_methods(ask, keys):
    data = dpi.PublicData(SCHEMA.sample(3000, np.random.default_rng(1)), SCHEMA, rng=np.random.default_rng(2))
    found = entries(ask(data).cite())
    assert found["dpinfer"]["kind"] == "software"
    assert found["dpinfer"]["version"] == dpi.__version__
    assert keys | {"seabold2010"} <= set(found) <= {"dpinfer", *REFERENCES}


def test_the_paper_cites_what_its_bibliography_holds():
    paper, listed = ((ROOT / "docs" / f"paper.{end}").read_text(encoding="utf-8") for end in ("md", "bib"))
    cited = {key for group in re.findall(r"\[(@[^\]]+)\]", paper) for key in re.findall(r"@(\w+)", group)}
    found = entries(listed.strip())
    assert set(found) == cited
    for key in cited & set(REFERENCES):  # one list of works
        assert citing._reference(key) in listed

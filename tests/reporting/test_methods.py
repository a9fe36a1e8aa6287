"""What the methods section says, and what it cites."""

import re

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.reporting import methods
from dpinfer.reporting.methods import REFERENCES, Citations


def test_every_reference_is_whole_and_every_citation_has_one():
    for key, (short, whole) in REFERENCES.items():
        year = re.search(r"\d{4}", key)[0]
        assert year in short
        assert f"({year}" in whole
        assert whole.endswith(".")
        assert whole.startswith(short.split(" et al.")[0].split(" & ")[0].split(",")[0])
    sentences = [*methods._ESTIMATED.values(), *methods._TEXTS["inferred"].values()]
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
        (lambda data: dpi.ols("y ~ x", data), "robust to unequal spread and to a wrong model (HC1; Huber, 1967;"),
        (lambda data: dpi.ols("y ~ x", data, cov_type="nonrobust"), "assume errors of equal spread and a right model"),
        (lambda data: dpi.logit("b ~ x", data), "Coefficients of a logit model (b ~ x) were fitted in"),
        (lambda data: dpi.mnlogit("c ~ x", data), "Coefficients of a multinomial logit model (c ~ x) were fitted in"),
        (lambda data: dpi.ordered("c ~ x", data), "Coefficients of a proportional odds model (c ~ x) were fitted in"),
        (lambda data: dpi.mean("x", data, target="data"), "counts the noise alone, as they are about these data"),
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

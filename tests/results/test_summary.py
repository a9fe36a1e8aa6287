"""Tables: one frame behind every format, infinite ends, escapes, the sentences they must carry."""

import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from dpinfer.errors import OptionError

SHOWN = ["coef", "std err", "t", "P>|t|", "[0.025", "0.975]", "noise share"]


class _Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.rows, self.open = [], []

    def handle_starttag(self, tag, _attrs):
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")
        if tag not in {"br"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in {"td", "th"}:
            self.rows[-1][-1] += data.strip()


def _html_rows(text):
    parser = _Cells()
    parser.feed(text.replace("<br/>", ""))
    assert not parser.open
    return parser.rows


def _numbers(row):
    return [float(cell.rstrip("%")) for cell in row]


def test_summary_frame_columns_and_values(case):
    results = case.noisy()
    frame = results.summary_frame(alpha=0.1)
    assert list(frame.columns) == [
        "coef",
        "std err",
        "std err (sampling)",
        "std err (noise)",
        "t",
        "P>|t|",
        "[0.05",
        "0.95]",
        "noise share",
    ]
    expected = pd.concat(
        [
            results.params,
            results.bse,
            results.bse_sampling,
            results.bse_noise,
            results.tvalues,
            results.pvalues,
            results.conf_int(0.1),
            results.noise_share,
        ],
        axis=1,
    )
    np.testing.assert_array_equal(frame, expected)


@pytest.mark.parametrize("unbounded", [False, True])
def test_every_format_shows_the_frame(case, unbounded):
    results = case.noisy().with_inference("score" if unbounded else "wald")
    frame = results.summary_frame().drop(columns=["std err (sampling)", "std err (noise)"])
    expected = frame.assign(**{"noise share": 100 * frame["noise share"]}).to_numpy()
    text = str(results.summary()).splitlines()
    markdown = [line.replace("\\", "") for line in results.to_markdown().splitlines()]
    latex = results.to_latex().splitlines()
    for row, name in enumerate(case.inference.names):
        (plain,) = (line for line in text if line.startswith(name))
        (marked,) = (line for line in markdown if line.startswith(f"| {name} |"))
        (html,) = (cells for cells in _html_rows(results.to_html()) if cells[0] == name)
        (tex,) = (line for line in latex if line.startswith(rf"\textbf{{{name}}}"))
        found = [
            _numbers(plain[len(name) :].split()),
            _numbers(cell.strip() for cell in marked.strip("| ").split("|")[1:]),
            _numbers(html[1:]),
            _numbers(cell.strip().removesuffix(r"\\").strip().rstrip("%\\") for cell in tex.split("&")[1:]),
        ]
        for numbers in found:
            np.testing.assert_allclose(numbers, expected[row], atol=6e-2 if numbers[-1] > 1 else 6e-4)
            np.testing.assert_allclose(numbers[:-1], expected[row][:-1], atol=6e-4)
    assert "nan" not in "\n".join([*text, *markdown, *latex, results.to_html()]).lower()


def test_headers(case):
    results = case.noisy()
    text = str(results.summary())
    assert re.search(r"\s+".join(map(re.escape, SHOWN)), text)
    assert ["", *SHOWN] in _html_rows(results.to_html())
    assert "P>\\|t\\|" in results.to_markdown()
    assert "P$> |$t$|$" in results.to_latex()


def test_header_facts(case):
    text = str(case.noisy(nobs=1234.4, nobs_is_public=False).summary())
    for label, value in {
        "Model:": "Private OLS",
        "Dep. Variable:": "income",
        "Guarantee:": "ZCDP(rho=0.1)",
        "Neighbours:": "add_remove",
        "No. Observations:": "1,234 (noisy)",
        "Inference:": "wald",
        "Df Residuals:": "396",
        "R-squared:": f"{case.ols.rsquared:.3f}",
        "Scale:": f"{case.ols.scale:.5g}",
    }.items():
        assert re.search(re.escape(label) + r"\s+" + re.escape(value), text), label
    assert re.search(r"No. Observations:\s+400 \(public\)", str(case.noisy().summary()))
    assert not re.search(r"Date|Time|20\d\d", text)


def test_tables_line_up(case):
    rules = {len(line) for line in str(case.noisy().summary()).splitlines() if set(line) in ({"="}, {"-"})}
    assert len(rules) == 1
    assert max(map(len, str(case.noisy().summary()).splitlines())) == rules.pop()


def test_notes_carry_guarantee_neighbours_target_flags_and_charge(case):
    results = case.noisy(flags=("Noise dominates age.",), notes=("Clamped at 100.",), target="data")
    for text in (str(results.summary()), str(results.summary2()), results.to_html(), results.to_markdown()):
        flat = " ".join(text.replace("\\", "").split())
        assert "(epsilon=2.23, delta=1e-06)" in flat
        assert "adding or removing one row" in flat
        assert "for these rows" in flat
        assert "Warning: Noise dominates age." in flat
        assert "Ledger charge: c-12." in flat
        assert "Clamped at 100." in flat
    assert results.flags == ("Noise dominates age.",)


def test_a_simulated_release_does_not_claim_a_guarantee(case):
    release = type(case.results().release)(public=True, charge_ids=(), neighbors="replace_one")
    results = case.results(release)
    text = " ".join(str(results.summary()).split())
    assert "none (public data)" in text
    assert "not a private release" in text
    assert "Ledger" not in text
    assert "public data, no privacy" in repr(results)


def test_the_test_column_says_whose_pvalue_it_is(case):
    score = case.noisy(df_resid=np.inf).with_inference("score")
    assert {"z", "P (score)"} <= set(score.summary_frame().columns)
    assert "the z column (coef / std err)" in " ".join(str(score.summary()).split())
    normal = case.noisy(df_resid=np.inf)
    assert {"z", "P>|z|"} <= set(normal.summary_frame().columns)
    assert re.search(r"Reference:\s+normal", str(normal.summary()))


def test_infinite_ends_are_explained_only_where_there_are_some(case):
    results = case.noisy()
    assert "infinite limit" not in str(results.summary())
    unbounded = str(results.with_inference("score").summary())
    assert "infinite limit" in unbounded
    assert "-inf" in unbounded


def test_names_and_notes_are_escaped(case):
    names = ("Intercept", "a<b & c_d", "x^2 {50%}", "z")
    results = case.noisy(names=names, notes=("5% of a_b & <i>",))
    assert [row[0] for row in _html_rows(results.to_html())[-3:]] == ["a<b & c_d", "x^2 {50%}", "z"]
    assert "<i>" not in results.to_html()
    latex = results.to_latex()
    assert r"\textbf{a\textless b \& c\_d}" in latex
    assert r"\textbf{x\textasciicircum 2 \{50\%\}}" in latex
    assert r"5\% of a\_b \& \textless i\textgreater " in latex
    assert "a\\<b & c\\_d" in results.to_markdown()
    assert "a<b & c_d" in str(results.summary())


def test_latex_braces_and_environments_balance(case):
    latex = case.noisy().with_inference("score").to_latex()
    assert latex.count("{") == latex.count("}")
    for name in ("tabular", "center"):
        assert latex.count(rf"\begin{{{name}}}") == latex.count(rf"\end{{{name}}}") > 0


def test_names_and_title_can_be_changed(case):
    results = case.noisy()
    text = str(results.summary(yname="pay", xname=["one", "two", "three", "four"], title="Table 1"))
    assert text.lstrip().startswith("Table 1")
    assert re.search(r"Dep. Variable:\s+pay", text)
    assert "three" in text
    assert "educ" not in text
    with pytest.raises(OptionError, match="4 names"):
        results.summary(xname=["one"])


def test_summary2_prints_the_same_numbers(case):
    results = case.noisy()
    text = str(results.summary2(float_format="%.6f"))
    line = next(line for line in text.splitlines() if line.startswith("age"))
    shown = results.summary_frame().drop(columns=["std err (sampling)", "std err (noise)"])
    np.testing.assert_allclose(_numbers(line.split()[1:]), shown.loc["age"], atol=1e-6)
    assert "<table" in results.summary2().as_html()
    assert r"\begin{tabular}" in results.summary2().as_latex()


def test_a_model_without_constant_and_one_coefficient(case):
    results = case.results(
        names=("x",), params=np.array([2.0]), cov_sampling=np.array([[1.0]]), cov_noise=np.array([[3.0]]), nobs=None
    )
    assert results.df_model == 1
    assert results.bse["x"] == 2.0
    assert "x" in str(results.summary())
    assert results.predict([1.0, 2.0]).tolist() == [2.0, 4.0]


def test_notebook_views(case):
    summary = case.noisy().summary()
    assert summary._repr_html_() == summary.as_html()
    assert summary._repr_markdown_() == summary.as_markdown()
    assert "noise share" in summary.as_csv()


def test_the_short_guarantee_is_the_price(case):
    cost = SimpleNamespace(price="GDP(mu=0.5)", describe=lambda: "0.5-GDP")
    release = SimpleNamespace(cost=cost, neighbors="add_remove", charge_ids=(), public=False, unit="one row")
    text = str(case.noisy(release=release).summary())
    assert re.search(r"Guarantee:\s+GDP\(mu=0.5\)", text)
    assert "Guarantee: 0.5-GDP. Neighbouring data sets" in text

"""Numbers and tables as text and as HTML."""

import math
import re

import numpy as np
import pandas as pd
import pytest

from dpinfer.display.report import Report, Table, cell, count, number
from tests.reporting.test_page import Tags


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (9999.4, "9999"),
        (9999.6, "10,000"),
        (12345.678, "12,346"),
        (-2e6, "-2,000,000"),
        (1e10, "1e+10"),
        (0.000123456, "0.0001235"),
        (math.inf, "inf"),
    ],
)
def test_large_numbers_are_grouped_and_others_have_four_digits(value, text):
    assert number(value) == text


def test_counts_are_whole():
    assert [count(value) for value in (7, 1234.4, 1e6)] == ["7", "1,234", "1,000,000"]
    assert count(math.nan) == "nan"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (np.nan, ""),
        (pd.NA, ""),
        (pd.NaT, ""),
        (True, "yes"),
        (np.False_, "no"),
        (np.int64(12345), "12,345"),
        (2000, "2000"),
        (np.float64(0.25), "0.25"),
        ("a < b", "a < b"),
    ],
)
def test_cells(value, text):
    assert cell(value) == text


NASTY = "<script>alert('x') & \"y\"</script>"


REPORT = Report(
    NASTY,
    ((NASTY, NASTY), ("rows", "12,345")),
    (Table(("", NASTY, "n"), ((NASTY, NASTY, "1"), ("b", "c", "22")), frozenset({1}), 1, NASTY),),
    (NASTY, "A note."),
    (NASTY,),
)


def test_everything_is_escaped():
    html = REPORT.html()
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 11
    assert {tag for tag, _ in Tags(html).seen} == {
        "div", "style", "table", "caption", "thead", "tbody", "tr", "th", "td", "ul", "li", "p"
    }  # fmt: skip


def test_heads_have_a_scope_and_tables_a_caption():
    seen = Tags(REPORT.html()).seen
    scopes = [attributes.get("scope") for tag, attributes in seen if tag == "th"]
    assert set(scopes) == {"row", "col"}
    assert [tag for tag, _ in seen].count("table") == 2
    assert [tag for tag, _ in seen].count("caption") == 2


def test_captions_are_as_wide_as_they_need_to_be():
    html = Report("A title that is longer than its facts", (("level", "0.05"),)).html()
    assert "<caption><div>A title that is longer than its facts</div></caption>" in html
    assert "div.dpinfer caption>div{width:max-content" in html


def test_long_facts_stand_below_one_another():
    short = tuple((f"fact {place}", "few words") for place in range(6))
    long = (*short[:5], ("fact 5", "many words, " * 8))
    rows = [Report("A title", facts).html().count("<tr>") for facts in (short, long, short[:5])]
    assert rows == [3, 6, 5]


def test_colours_are_those_of_the_page():
    style = re.search(r"<style>(.*?)</style>", REPORT.html(), re.DOTALL)[1]
    colors = set(re.findall(r"(?:^|[;{])(?:color|background):([^;}]+)", style))
    assert colors == {"inherit", "transparent"}
    assert not re.search(r"url\(|@import|src=", REPORT.html())


def test_text_is_aligned_and_wrapped():
    frame = pd.DataFrame({"x": [1.5, 123456.0], "told": ["short", "a longer text " * 8]}, index=["a", "bb"])
    table = Table.of(frame)
    lines = table.text().splitlines()
    assert lines[0].split() == ["x", "told"]
    assert lines[1].startswith("a       1.5  short")
    assert "bb  123,456  a longer" in lines[2]
    assert max(map(len, table.text(60).splitlines())) <= 60
    text = Report("Title", (("n", "7"), ("longer", "8")), (table,), ("One.",), ("Two.",)).text(60)
    assert text.startswith("Title\nn       7\nlonger  8\n\n")
    assert text.endswith("\n\n- One.\nWarning: Two.")


@pytest.mark.parametrize("index", [True, False])
def test_frames_of_any_index(index):
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.MultiIndex.from_tuples([("x", 1), ("y", 2)], names=["k", "m"]))
    table = Table.of(frame, index=index)
    assert table.columns == (("k", "m", "a") if index else ("a",))
    assert table.rows[1] == (("y", "2", "2") if index else ("2",))
    assert Table.of(frame.iloc[:0], index=index).rows == ()
    assert Table.of(pd.DataFrame({"a": [3]}, index=pd.Index(["r"], name="name"))).columns == ("name", "a")


def test_a_table_without_heads_has_none():
    table = Table(("", ""), (("a", "b"),))
    assert table.text() == "a  b"
    assert "<thead" not in table.html()

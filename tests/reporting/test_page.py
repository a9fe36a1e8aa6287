"""Parts of pages: text for a terminal, HTML for a page."""

import io
from base64 import b64decode
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from dpinfer.reporting.page import (
    MARKER,
    Picture,
    Section,
    framed,
    listing,
    note,
    page_html,
    paragraph,
    printed,
    script,
    section_text,
)

VOID = {"meta", "img", "source"}


class Tags(HTMLParser):
    """Tags with their attributes; every one that is opened has to be closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def of(self, tag):
        return [attributes for name, attributes in self.seen if name == tag]


def drawn():
    figure = Figure(figsize=(3, 2))
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1])
    axes.set(title="<A line>", xlabel="years")
    return figure


def test_texts_are_escaped_in_html_and_wrapped_on_a_terminal():
    assert paragraph("`code` & <b>").html == "<p><code>code</code> &amp; &lt;b&gt;</p>"
    assert max(map(len, paragraph("word " * 100).text.splitlines())) <= 92
    assert note("Mind", "a\n    b").text == "| Mind: a b"
    assert note("Mind", "a\n    b").html == '<aside class="note"><strong>Mind.</strong> a b</aside>'
    assert listing(["a < b", "c"]).html == "<ul><li>a &lt; b</li><li>c</li></ul>"
    assert listing(["a < b", "c"]).text == "- a < b\n- c"


def test_scripts_have_the_prompts_of_python():
    shown = script("f(\n    1,\n)\n\ng()")
    assert shown.text == ">>> f(\n...     1,\n... )\n>>> g()"
    assert printed("a\nb").text == "    a\n    b"
    assert printed("a < b").html == '<pre class="output">a &lt; b</pre>'


def test_frames_keep_their_names_and_numbers():
    frame = pd.DataFrame({"a<b": ["x & y", "z"], "n": [12345.6, 2.0]}, index=pd.Index(["<i>", "row"], name="kept"))
    table = framed(frame, "Numbers")
    shown = table.html
    assert '<th scope="col">kept</th>' in shown
    assert '<th scope="row">&lt;i&gt;</th><td data-label="a&lt;b" class="words">x &amp; y</td>' in shown
    assert '<td data-label="n">12,346</td>' in shown
    assert "<style>" not in shown
    assert "12,346" in table.text


def test_a_picture_is_drawn_for_either_ground():
    picture = Picture("line.png", drawn, 'A "line".')
    html = Tags(picture.html)
    (source,), (image,) = html.of("source"), html.of("img")
    assert "prefers-color-scheme: dark" in source["media"]
    assert source["srcset"] != image["src"]
    assert image["alt"] == 'A "line". <A line>, horizontal: years'
    assert (image["width"], image["height"]) == ("300", "200")
    stored = [b64decode(one.removeprefix("data:image/png;base64,")) for one in (image["src"], source["srcset"])]
    light, dark = (imread(io.BytesIO(one))[..., :3] for one in stored)
    assert light.mean() > 0.8
    assert dark.mean() < 0.3
    assert np.all(light[0, 0] == 1.0)
    assert picture.png == stored[0]


def test_a_figure_is_closed_where_it_cannot_be_saved(monkeypatch):
    from matplotlib import pyplot as plt

    def refuse(*_, **__):
        raise MemoryError

    monkeypatch.setattr(Figure, "savefig", refuse)
    before = plt.get_fignums()
    with pytest.raises(MemoryError):
        str(Picture("", lambda: plt.figure(), "").html)
    assert plt.get_fignums() == before


def test_a_page_is_whole():
    sections = [Section("One & two", [paragraph("a")]), Section("<three>", [note("b", "c")])]
    page = page_html("A <title>", [paragraph("lead")], sections, "footer `x`")
    found = Tags(page)
    assert page.startswith("<!DOCTYPE html>")
    assert found.of("html") == [{"lang": "en"}]
    assert MARKER in page
    assert "<h1>A &lt;title&gt;</h1>" in page
    assert [one["href"] for one in found.of("a")] == ["#section-1", "#section-2"]
    assert [one["id"] for one in found.of("section")] == ["section-1", "section-2"]
    assert section_text(sections[0]) == "a"
    assert "@media print" in page
    assert "prefers-color-scheme: dark" in page

"""The check of the built site finds what is wrong with a page, and nothing where all is right."""

import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("links", Path(__file__).parent.parent / ".ci" / "links.py")
LINKS = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(LINKS)

GOOD = """<h1 id="top-of">A</h1><img src="_static/a.svg"><a href="b.html#there">b</a><a href="#top-of">up</a>
<a href="https://example.org/x">out</a><pre>$$</pre>
<div class="cell_input docutils container">1 + 1</div><div class="cell_output docutils container">2</div>"""


@pytest.fixture
def site(tmp_path):
    """Return a folder with two pages and a picture."""
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "a.svg").write_text("<svg/>", encoding="utf-8")
    (tmp_path / "a.html").write_text(GOOD, encoding="utf-8")
    (tmp_path / "b.html").write_text('<h2 id="there">B</h2>', encoding="utf-8")
    return tmp_path


def test_a_good_site_has_no_faults(site):
    assert LINKS.problems(site) == []


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ('<a href="c.html">c</a>', "c.html, which is not there"),
        ('<a href="b.html#nowhere">b</a>', "no such place"),
        ('<a href="#nowhere">b</a>', "no such place"),
        ('<a href="https://nohost/x y">b</a>', "no address"),
        ('<a href="ftp:x">b</a>', "no address"),
        ('<img src="c.png">', "c.png, which is not there"),
        ('<script src="https://cdn.example.org/m.js"></script>', "loads https://cdn.example.org/m.js"),
        ('<link rel="stylesheet" href="//cdn.example.org/m.css">', "loads //cdn.example.org/m.css"),
        ("<p>$$x^2$$</p>", "formulas as they were typed"),
    ],
)
def test_a_fault_is_found(site, added, said):
    (site / "a.html").write_text(GOOD + added, encoding="utf-8")
    (found,) = LINKS.problems(site)
    assert found.startswith("a.html ")
    assert said in found


def test_a_page_that_shows_no_output_is_a_fault(site):
    (site / "b.html").write_text('<h2 id="there">B</h2><div class="cell_input docutils container">1</div>')
    assert LINKS.problems(site) == ["b.html shows what came out of none of its examples"]


def test_an_empty_folder_is_a_fault(tmp_path):
    assert LINKS.problems(tmp_path) == [f"{tmp_path} has no page"]

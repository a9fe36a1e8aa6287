"""Every number on a page comes from a committed output, or is listed as given: one source of figures."""

import re
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from validation.common.pages import ROOT, block
from validation.publish import ordinary_path, trusted
from validation.publish.__main__ import SECTIONS
from validation.publish.claims import RESULTS
from validation.reasons import REASONS

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GIVEN = tomllib.loads((Path(__file__).parent / "given_numbers.toml").read_text(encoding="utf-8"))
"""Constants of design that prose may state, by page, with what they are; those of "every page" first."""

OTHERS = {(ROOT / "README.md", "table")}
"""The README's example, whose noise is drawn anew."""

_SECTION = r"<!-- ([\w-]+): made by .*?<!-- end of \1 -->"
_NOT_PROSE = (
    r"\A---\n.*?\n---\n",  # settings of the page
    _SECTION,
    r"^( *)```.*?^\1```",
    r"^ {4,}(?![ *\-\d]).*?$|^\t.*?$",  # formulas, indented as code
    r"\$\$.*?\$\$",
    r"`[^`\n]*`",
    r"\$[^$\n]+\$",
    r"\]\([^)]*\)",  # targets of links
)
_PLACE = re.compile(  # where in a document, and versions
    r"\b(?:sections?|eqs?\.|figures?|theorems?|lemmas?|python|version)\s+[\d.]+\d(?:(?:\s*(?:,|to|and|-)\s*)[\d.]+\d)*",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.])(?:\d[\d,]*)?\.\d+(?!\.?\d)%?|(?<![\w.])\d[\d,]*%")


def prose(text):
    """What stands on a page in its own words, by line."""
    for pattern in _NOT_PROSE:
        text = re.sub(pattern, lambda found: "\n" * found.group().count("\n"), text, flags=re.DOTALL | re.MULTILINE)
    return [_PLACE.sub("", line) for line in text.splitlines()]


def value(number):
    """A number as it is, however it is written: .50 is 0.5, and 5% is not .05."""
    return float(number.rstrip("%").replace(",", "")), number.endswith("%")


def given(page):
    """Numbers that a page may state."""
    listed = GIVEN["every page"] | GIVEN.get(page.relative_to(ROOT).as_posix(), {})
    return {value(number) for number in listed}


def found(page):
    """Numbers that the prose of a page states, each with its line."""
    lines = enumerate(prose(page.read_text(encoding="utf-8")), 1)
    return [(number, place) for place, line in lines for number in _NUMBER.findall(line)]


@pytest.mark.parametrize(("page", "name"), SECTIONS, ids=lambda part: part if isinstance(part, str) else part.stem)
def test_sections_are_what_the_committed_outputs_say(page, name):
    assert block(page, name).read() == SECTIONS[page, name]().strip(), "run python -m validation.publish"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_sections_are_registered(page):
    marked = re.findall(r"<!-- ([\w-]+): made by", page.read_text(encoding="utf-8"))
    assert {(page, name) for name in marked} <= SECTIONS.keys() | OTHERS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_prose_states_no_measured_number(page):
    unknown = [f"line {place}: {number}" for number, place in found(page) if value(number) not in given(page)]
    assert not unknown, (
        f"{', '.join(unknown)}: state measured numbers in a generated section (validation/publish); "
        "a constant of design belongs into tests/given_numbers.toml, with what it is"
    )


@pytest.mark.parametrize("page", [name for name in GIVEN if name != "every page"])
def test_given_numbers_are_stated(page):
    stated = {value(number) for number, _ in found(ROOT / page)}
    assert not [number for number in GIVEN[page] if value(number) not in stated]
    assert all(GIVEN[page].values())


def test_measured_numbers_are_found_wherever_they_stand():
    page = (
        "---\nx: 1.1\n---\n# A\n\nIt covers .936 to .938 (93.6%), `1.2`, $1.3$, [4](x1.4), 0.6.6, 2.83.\n\n"
        "```\n1.5\n```\n\n    a = 1.6\n\n<!-- b: made by c -->\n\n1.7\n\n<!-- end of b -->\n\n"
        "| section 2.1 | 0.5, -0.25 and 1,000.5 |\n"
    )
    numbers = [number for line in prose(page) for number in _NUMBER.findall(line)]
    assert numbers == [".936", ".938", "93.6%", "2.83", "0.5", "0.25", "1,000.5"]


def test_the_readme_is_short():
    assert (ROOT / "README.md").stat().st_size <= 9_000


def test_what_is_not_held_has_a_reason_and_nothing_else_has():
    table = pd.read_csv(RESULTS, usecols=["what", "held"])
    assert set(REASONS) == set(table.loc[~table["held"].astype(bool), "what"])


# The page on the kernel lists every file that a private run imports, and no other


def _page(name):
    return block(ROOT / "docs" / "kernel.md", name).read()


def test_the_page_lists_the_files_that_a_private_run_imports():
    rows = re.findall(r"\| `(dpinfer[\w/]*)` \|[^|]*\|([^|]*)\|", _page("trusted"))
    listed = {f"{folder}/{name}" for folder, files in rows for name in re.findall(r"`([\w.]+\.py)`", files)}
    assert listed == set(trusted.closure())


def test_the_page_tells_their_lines():
    assert _page("trusted") == trusted.table(), "run python -m validation.publish --only trusted"


def test_questions_inference_and_the_reader_of_texts_are_not_among_them():
    files = set(trusted.closure())
    assert {path.split("/")[1] for path in files}.isdisjoint({"procedures", "inference", "results", "studies"})
    texts = ("formula", "expressions", "basis", "intervals")
    assert files.isdisjoint({f"dpinfer/schema/{name}.py" for name in texts})


def test_what_is_for_people_is_not_among_them():
    others = ("kernel/measurement", "privacy/ledger")
    files = set(trusted.closure())
    assert files.isdisjoint({f"dpinfer/{name}.py" for name in (*others, "release/release")})


def test_imports_within_functions_count():
    assert {"dpinfer/kernel/run.py", "dpinfer/privacy/store.py"} <= set(trusted.closure())


def test_the_page_tells_how_much_an_ordinary_question_runs():
    found = [ordinary_path.total(ask) for ask in ordinary_path.QUESTIONS.values()]
    told = _page("ordinary")
    assert all(f" of {run:,}" in told for run in found), "run python -m validation.publish --only ordinary"

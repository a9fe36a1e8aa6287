"""Examples in docstrings and documents run."""

import contextlib
import doctest
import importlib
import inspect
import io
import json
import pkgutil
import re
import runpy
import subprocess
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import statsmodels.api as sm

import dpinfer

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ENGINES = ["dpinfer.kernel.sources.engines"]  # import what is not always installed
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(dpinfer.__path__, "dpinfer.")
    if not module.name.endswith("__main__") and module.name not in ENGINES
)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


@pytest.mark.parametrize("name", ENGINES)
def test_engines_have_no_docstring_examples_that_nothing_runs(name):
    assert ">>>" not in Path(*[ROOT, *name.split(".")]).with_suffix(".py").read_text(encoding="utf-8")


def test_there_are_docstring_examples_to_run():
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(found) >= 20


EXAMPLES = ["README.md", "docs/index.md", "docs/descriptions.md", "docs/regression.md", "docs/tables.md"]
GUIDE = [
    "quickstart",
    "reading-a-table",
    "choosing-bounds-and-budget",
    "choosing-a-budget",
    "source-examples",
    "teaching",
]
CASES = [
    "wage-regression",
    "returns-to-schooling",
    "wages-of-a-panel",
    "two-survival-curves",
    "logit-with-margins",
    "party-choice",
    "table-for-readers",
    "survey-table",
    "health-insurance-trial",
]
METHODS = [
    "exponential-families",
    "tests",
    "loglinear",
    "choice",
    "instruments",
    "survival",
    "surveys",
    "experiments",
    "sample-aggregate",
    "bootstrap",
    "selection",
    "quantiles",
]
TASKS = ["density", "extending", "auditing", "planning", "where-to-look", "codebooks", "running-twice", "entry"]
EXECUTED = [f"docs/{page}.md" for page in [*METHODS, *TASKS, "ecosystem", "report", "people"]]
EXECUTED += [f"docs/guide/{page}.md" for page in GUIDE] + [f"docs/cases/{page}.md" for page in CASES]
EXECUTED += [f"docs/coming-from/{page}.md" for page in ("statsmodels", "r", "stata", "linearmodels", "opendp")]
PRINTED = [
    "Private OLS Results",
    "noise share",
    "gini of income",
    "Plan: nothing is charged yet",
    "Private OLS, bootstrap Results",
    "Private Poisson Results",
    "Private Logit Results",
    "Private MNLogit Results",
    "Private IV-2SLS Results",
    "Private quantiles of",
    "Private survival of",
    "Private survey mean of",
    "Private adjusted effect",
    "Private selection: most frequent",
    "Private chi-squared test",
    "Private two-sample t",
    "Private log-linear model Results",
    "standard error from privacy noise",
    "standard deviation of the noise",
    "Audit of differential privacy",
    "Private data quality",
    "a private result has no likelihood",
]


def _blocks(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    fence = r"```\{code-cell\} python\n(?::tags:[^\n]*\n\n)?" if "{code-cell}" in text else r"```python\n"
    return re.findall(fence + r"(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("document", EXAMPLES)
def test_document_examples(document, tmp_path, monkeypatch):
    blocks = _blocks(document)
    assert blocks
    monkeypatch.chdir(tmp_path)
    names = {"frame": sm.datasets.fair.load_pandas().data}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in blocks:
            exec(compile(block, document, "exec"), names)
    plt.close("all")
    assert any(phrase in printed.getvalue() for phrase in PRINTED)


@pytest.mark.parametrize("document", EXECUTED)
def test_examples_of_other_pages_run_when_the_site_is_built(document):
    """The gate builds it, which fails on an exception; `.ci/links.py` asks for an output."""
    assert "```{code-cell} python" in (ROOT / document).read_text(encoding="utf-8")
    for block in _blocks(document):
        compile(block, document, "exec")


NOTEBOOKS = ROOT / "docs" / "notebooks"
CONVERT = runpy.run_path(str(NOTEBOOKS / "convert.py"))


def test_the_notebook_is_the_quickstart():
    page = CONVERT["PAGE"].read_text(encoding="utf-8")
    written = (NOTEBOOKS / "quickstart.ipynb").read_text(encoding="utf-8")
    assert written == CONVERT["notebook"](page), "run python docs/notebooks/convert.py"
    cells = json.loads(written)["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert code == [block.strip() for block in re.findall(r"```\{code-cell\} python\n(.*?)```", page, re.DOTALL)]
    text = "".join(line for cell in cells if cell["cell_type"] == "markdown" for line in cell["source"])
    assert "{code-cell}" not in text
    assert "file_format" not in text
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (NOTEBOOKS / target).is_file(), target
    assert len({cell["id"] for cell in cells}) == len(cells)


@pytest.mark.slow
def test_the_notebook_runs_as_it_is_and_again(tmp_path, monkeypatch):
    cells = json.loads((NOTEBOOKS / "quickstart.ipynb").read_text(encoding="utf-8"))["cells"]
    monkeypatch.chdir(tmp_path)
    tables = []
    for _ in range(2):
        names, printed = {}, io.StringIO()
        with contextlib.redirect_stdout(printed):
            for cell in cells:
                if cell["cell_type"] == "code":
                    exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
        plt.close("all")
        assert "the privacy budget is too small" in printed.getvalue()
        tables.append(str(names["results"].summary()))
    assert tables[0] == tables[1]  # read back: a second run pays for the look at the quality alone
    assert len(names["ledger"].charges()) == 3


def test_documents_link_to_files_that_exist_and_are_committed():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    committed = {ROOT / name for name in listed.stdout.split("\0")}  # outputs are ignored unless they are added
    for path in PAGES:
        for target in re.findall(r"\]\(([^)#:]+\.(?:md|png))(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            linked = (path.parent / target).resolve()
            assert linked.is_file(), f"{path.name} links to {target}"
            assert listed.returncode or linked in committed, f"{path.name} links to {target}, which is not committed"


def test_every_page_of_the_site_is_in_a_table_of_contents():
    docs = ROOT / "docs"
    listed = [docs / "index.md"]
    for path in PAGES:
        for toctree in re.findall(r"```\{toctree\}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
            entries = re.findall(r"^(?!:)(?:.*<)?([\w/-]+)>?$", toctree, re.MULTILINE)
            listed += [docs / f"{path.parent.relative_to(docs) / entry}.md".lstrip("/") for entry in entries]
    assert sorted(listed) == sorted(path for path in PAGES if path.is_relative_to(docs))


def test_one_version_is_stated_everywhere():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    newest, date = re.search(r"^## \[(\d[\w.]*)\] - ([\d-]+)$", changes, re.MULTILINE).groups()
    assert f"\nversion: {newest}\n" in cited
    assert f"\ndate-released: {date}\n" in cited
    assert dpinfer.__version__.startswith(newest)


API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
BY_HAND = {"errors": "dpinfer.errors", "__version__": "dpinfer._version"}
"""Public names that are no functions or classes: the module whose docstring is their page."""


@pytest.mark.parametrize("name", dpinfer.__all__)
def test_every_public_name_has_one_page_one_sentence_and_an_example(name):
    pages = re.findall(rf"^   (?:api/)?{name.strip('_')}$", API, re.MULTILINE)
    pages += re.findall(rf"^(?:api/){name.strip('_')}$", API, re.MULTILINE)
    assert len(pages) == 1
    if name in BY_HAND:
        page = (ROOT / "docs" / "api" / f"{name.strip('_')}.md").read_text(encoding="utf-8")
        assert f".. automodule:: {BY_HAND[name]}\n" in page
    thing = importlib.import_module(BY_HAND[name]) if name in BY_HAND else getattr(dpinfer, name)
    text = inspect.getdoc(thing)
    sentence = text.split("\n\n")[0]
    assert re.fullmatch(r"[^\n]+[^\n.]\.", sentence)
    assert ". " not in sentence
    assert ">>> " in text or set(re.findall(r"`(docs/[\w/-]+\.md)`", text)) & set(EXAMPLES + EXECUTED)

"""Examples in docstrings and documents run."""

import contextlib
import doctest
import importlib
import io
import pkgutil
import re
from pathlib import Path

import pytest
import statsmodels.api as sm

import dpinfer

ROOT = Path(__file__).parent.parent
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(dpinfer.__path__, "dpinfer.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_there_are_docstring_examples_to_run():
    found = sum(doctest.testmod(importlib.import_module(name)).attempted for name in MODULES)
    assert found >= 20


@pytest.mark.parametrize("document", ["README.md", "docs/regression.md"])
def test_document_examples(document, tmp_path, monkeypatch):
    text = (ROOT / document).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    names = {"frame": sm.datasets.fair.load_pandas().data}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in blocks:
            exec(compile(block, document, "exec"), names)
    assert "Private OLS Results" in printed.getvalue()


def test_documents_link_to_files_that_exist():
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+\.md)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).is_file(), f"{path.name} links to {target}"

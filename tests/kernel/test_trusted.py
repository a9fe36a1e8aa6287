"""The page on the kernel lists every file that a private run imports, and no other."""

import re

from validation.common.pages import ROOT, block
from validation.publish import ordinary_path, trusted

PAGE = ROOT / "docs" / "kernel.md"
WRITTEN = block(PAGE, "trusted").read()


def test_the_page_lists_the_files_that_a_private_run_imports():
    rows = re.findall(r"\| `(dpinfer[\w/]*)` \|[^|]*\|([^|]*)\|", WRITTEN)
    listed = {f"{folder}/{name}" for folder, files in rows for name in re.findall(r"`([\w.]+\.py)`", files)}
    assert listed == set(trusted.closure())


def test_the_page_tells_their_lines():
    assert trusted.table() == WRITTEN, "run python -m validation.publish --only trusted"


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
    told = block(PAGE, "ordinary").read()
    assert all(f" of {run:,}" in told for run in found), "run python -m validation.publish --only ordinary"

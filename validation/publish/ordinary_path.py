"""The code that an ordinary question runs in the kernel, from `run` to the release: functions entered, and their lines.

Counted are the functions of the package that the kernel enters on confidential rows, each whole, without docstrings,
comments and blank lines. What a procedure does when it is asked for its question and its stages is not the kernel's:
frames of procedures, and of what they call, are left out.
"""

from __future__ import annotations

import ast
import io
import sys
import threading
import tokenize
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.kernel import run
from dpinfer.privacy import exact
from dpinfer.privacy.accounting import reserved_cost
from validation.common.pages import ROOT, section

PACKAGE = ROOT / "dpinfer"
TOPICS = ("descriptions", "tables", "distributions", "families", "regression", "resampling", "selection", "entry")
OUTSIDE = tuple(str(PACKAGE / folder) for folder in ("procedures", "results", "statistics", "studies", *TOPICS))
QUESTIONS: dict[str, Callable[[dpi.PrivateData], Any]] = {
    'mean("income", data)': lambda data: dpi.mean("income", data),
    'ols("income ~ age", data)': lambda data: dpi.ols("income ~ age", data, method="gram"),
}


def entered(ask: Callable[[dpi.PrivateData], Any]) -> set[CodeType]:
    """Return the code of the package that the kernel enters in one run on confidential rows."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"income": rng.uniform(0, 100, 1000), "age": rng.uniform(0, 90, 1000)})

    def asked() -> Any:
        # a schema of its own, as a second question of a person has: what is kept is then found by equality, each time
        schema = dpi.Schema(income=dpi.Real(0, 100), age=dpi.Real(0, 90))
        return ask(dpi.PrivateData(frame, schema, dpi.Ledger.in_memory(dpi.ZCDP(1.0))))

    asked().measure(dpi.ZCDP(0.1))  # fills caches once
    for kept in (exact._nearest, reserved_cost):  # a first question works out its noise, which is a part to be trusted
        kept.cache_clear()
    question = asked()
    found: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG001
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)) and _of_kernel(frame):
            found.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        question.measure(dpi.ZCDP(0.1))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return found


def _of_kernel(frame: FrameType) -> bool:
    """Whether a frame is within `run`, or in a thread of its own, and no procedure stands between."""
    here: FrameType | None = frame
    while here is not None and here.f_code is not run.run.__code__:
        if here.f_code.co_filename.startswith(OUTSIDE):
            return False
        here = here.f_back
    return here is not None or threading.current_thread() is not threading.main_thread()


def lines(codes: set[CodeType]) -> dict[str, tuple[list[str], int]]:
    """Return by file which functions were entered, and their lines of code."""
    by_file: dict[str, set[int]] = {}
    for code in codes:
        by_file.setdefault(code.co_filename, set()).add(code.co_firstlineno)
    return {Path(path).relative_to(ROOT).as_posix(): _lines(Path(path), firsts) for path, firsts in by_file.items()}


def _lines(path: Path, firsts: set[int]) -> tuple[list[str], int]:
    text = path.read_text(encoding="utf-8")
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    code = _code_lines(text)
    names: set[str] = set()
    counted: set[int] = set()
    for first in firsts:
        around = [node for node in functions if _start(node) <= first <= int(node.end_lineno or 0)]
        if around:
            inner = max(around, key=_start)
            names.add(inner.name)
            counted |= code & set(range(_start(inner), int(inner.end_lineno or 0) + 1))
    return sorted(names), len(counted)


def _start(node: ast.FunctionDef) -> int:
    return min([node.lineno, *(one.lineno for one in node.decorator_list)])


def _code_lines(text: str) -> set[int]:
    """Return the lines that hold code: no blank ones, comments or docstrings."""
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in layout:
            found |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found -= set(range(node.lineno, int(node.end_lineno or 0) + 1))
    return found


def total(ask: Callable[[dpi.PrivateData], Any]) -> int:
    """Return the lines of code that a question runs in the kernel."""
    return sum(count for _, count in lines(entered(ask)).values())


@section("kernel", "ordinary")
def ordinary() -> str:
    """Return what the page on the kernel says of it."""
    mean, ols = (total(ask) for ask in QUESTIONS.values())
    return (
        f"An ordinary question runs a part of them: between `run` and the release `mean` enters functions of {mean:,} "
        f'lines of code, and `ols(method="gram")` of {ols:,}, without docstrings, comments and blank lines, and with '
        "the rehearsal and the charge."
    )

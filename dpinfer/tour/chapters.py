"""The chapters of the tour: those of `tour.md`, whose scripts run as they are shown, one after the other.

A chapter of that file is a heading and its parts, with an empty line between them:

- a script in a fence, where ``${0.2}`` stands for that share of the budget;
- statements of the tour's own in a comment, which the reader of a report does not see;
- ``[title](=expression)``: a table, of results or of a frame;
- ``![caption](name.png=expression)``: a figure;
- ``> label: text``: a note;
- a paragraph, where the value of an expression stands in place of it and its braces, in a format after a colon.

All scripts and statements of a chapter run before its text is written. Where an option is refused, as a budget that is
too small to be shared, the message stands below the script, and what needs a result of the script is left out.
"""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pandas as pd

from dpinfer.errors import OptionError
from dpinfer.reporting.page import Picture, Reportable, framed, note, paragraph, printed, results, script

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.reporting.page import Block

__all__ = ["CHAPTERS"]

_PART = re.compile(r"^```python\n(.+?)\n```$|^<!--\s(.+?)\s-->$|^(\S.*?)(?=\n\n|\n*\Z)", re.DOTALL | re.MULTILINE)
_SHOWN = re.compile(r"!?\[(?P<title>.*?)\]\((?P<name>[\w.]*)=(?P<expression>.+)\)", re.DOTALL)
_SHARE, _FIELD = re.compile(r"\${([\d.]+)}"), re.compile(r"{([^{}:]+):?([^{}]*)}")
_WORD, _ASSIGNED = re.compile(r"\w+"), re.compile(r"^(\w+) = ", re.MULTILINE)


def _written(text: str, names: dict[str, Any]) -> list[Block | Picture]:
    """Run the scripts of a chapter, which go on where the last one ended, and return what the report shows."""
    parts: list[Block | str] = []
    refused: set[str] = set()
    for shown, hidden, words in _PART.findall(text):
        if words:
            parts.append(words)
            continue
        code = _SHARE.sub(lambda share: f"dpi.{names['budget'] * float(share[1])!r}", shown or hidden)
        if shown:
            parts.append(script(code))
        elif refused.intersection(_WORD.findall(code)):
            refused.update(_ASSIGNED.findall(code))
            continue
        try:
            with redirect_stdout(io.StringIO()):
                exec(code, names)
        except OptionError as error:
            parts.append(printed(f"{type(error).__name__}: {error}"))
            refused.update(_ASSIGNED.findall(code))
    blocks = (_block(part, names, refused) if isinstance(part, str) else part for part in parts)
    return [block for block in blocks if block is not None]


def _block(words: str, names: dict[str, Any], refused: set[str]) -> Block | Picture | None:
    """Return a paragraph, a note, a table or a figure; None where it is empty, or needs what was refused."""
    shown = _SHOWN.fullmatch(words)
    expressions = [shown["expression"]] if shown else [expression for expression, _ in _FIELD.findall(words)]
    if refused.intersection(_WORD.findall(" ".join(expressions))):
        return None
    if shown is None:
        filled = _FIELD.sub(lambda one: format(eval(one[1], names), one[2]), words)
        label, _, text = filled.replace("\n>", "\n").removeprefix("> ").partition(":")
        boxed = filled.startswith("> ")
        return note(label, text) if boxed else paragraph(filled) if filled.strip() else None
    title, name, expression = shown.groups()
    if name:  # drawn later, of what has these names now
        return Picture(name, partial(eval, expression, dict(names)), title)
    value = eval(expression, names)
    if isinstance(value, Reportable):
        return results(value, title)
    return framed(value, title) if isinstance(value, pd.DataFrame) else value


def _read_chapters() -> tuple[tuple[str, Callable[[dict[str, Any]], list[Block | Picture]]], ...]:
    text = files("dpinfer.tour").joinpath("tour.md").read_text(encoding="utf-8")
    _, *parts = re.split(r"^# (.+)\n", text, flags=re.MULTILINE)
    return tuple((title, partial(_written, chapter)) for title, chapter in zip(parts[::2], parts[1::2], strict=True))


CHAPTERS = _read_chapters()
"""Title and content of every chapter, in order. The content is a function of the names that scripts may use."""

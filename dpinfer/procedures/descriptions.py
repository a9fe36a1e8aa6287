"""Temporary: the axes alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpinfer.errors import OptionError

Columns = str | Sequence[str]


def _texts(option: str, given: Columns) -> tuple[str, ...]:
    texts = (given,) if isinstance(given, str) else given
    if not isinstance(texts, Sequence) or not texts or not all(isinstance(text, str) for text in texts):
        raise OptionError(option, given, 'a column, or a list of columns such as ["income", "age"]')
    return tuple(texts)


def axes_of(by: Columns) -> tuple[Mapping[str, Any], ...]:
    """Name the axes of a table: a column, or a condition where the text is no plain name."""
    if isinstance(by, Sequence) and not isinstance(by, str) and not by:
        return ()
    if isinstance(by, str) and not by.strip():
        raise OptionError("by", by, "a column, a list of columns, or nothing: ()")
    return tuple({"condition": text} if _is_condition(text) else {"column": text} for text in _texts("by", by))


def _is_condition(text: str) -> bool:
    return any(mark in text for mark in ("<", ">", "==", "!=", " in "))

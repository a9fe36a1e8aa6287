"""Measured sections of pages: a table is columns and what each shows of a row or a group, a section is paragraphs.

A section is a function that returns text, registered under its page and name by `section`. Columns of a table are
templates: ``"`{price}`"`` shows a cell, ``"{least coverage:.4f}"`` the least of a group's; what no template says is a
function of the row or group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from validation.common.outputs import OUTPUT, read_table

ROOT = Path(__file__).parents[2]

SECTIONS: dict[tuple[Path, str], Callable[[], str]] = {}
"""Sections by page and name, with what makes them of the committed outputs: a test compares them."""

Column = str | Callable[[Any], object]
"""What a column shows: a template of a row or group, or a function of it."""


@dataclass(frozen=True)
class Block:
    """What stands on a page between two marks."""

    page: Path
    start: str
    end: str

    def read(self) -> str:
        """Return it."""
        return self.page.read_text(encoding="utf-8").split(self.start)[1].split(self.end)[0].strip()

    def write(self, text: str) -> None:
        """Put another text in its place."""
        before, rest = self.page.read_text(encoding="utf-8").split(self.start)
        after = rest.split(self.end)[1]
        self.page.write_text(f"{before}{self.start}\n\n{text}\n\n{self.end}{after}", encoding="utf-8")


def block(page: Path, name: str) -> Block:
    """Return a section of a page."""
    return Block(page, f"<!-- {name}: made by python -m validation.publish -->", f"<!-- end of {name} -->")


def section(page: str, name: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    """Register what makes a section of a page; pages of the docs are named by their stem."""

    def register(body: Callable[[], str]) -> Callable[[], str]:
        SECTIONS[ROOT / ("README.md" if page == "README" else f"docs/{page}.md"), name] = body
        return body

    return register


def output(name: str, by: Sequence[str] | None = None, **options: Any) -> pd.DataFrame:
    """Return a committed table, of cells named ``by`` columns the run that decides."""
    found = read_table(OUTPUT / f"{name}.csv", **options)
    return found if by is None else found.drop_duplicates([*by], keep="last")


def first_run(found: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a table but for reruns, which tables of before the sequential rule have."""
    return found[found["run"] == "first"] if "run" in found else found


def replicates(found: pd.DataFrame) -> str:
    """Say how many replicates the cells of a table have."""
    return f"{ranged(first_run(found)['replicates'].dropna().astype(int), ',')} replicates"


def text(*parts: str) -> str:
    """Join paragraphs, tables and pictures; empty ones are left out."""
    return "\n\n".join(part for part in parts if part)


def picture(words: str, name: str) -> str:
    """Return a figure of the committed outputs, for a page of the docs."""
    return f"![{words}](../validation/output/{name}.png)"


class _Number(float):
    """A number that is written as ``none`` where it is missing."""

    none = ""

    def __format__(self, style: str) -> str:
        return self.none if np.isnan(self) else super().__format__(style)


class _Absent(_Number):
    none = "no such cell"


class _Range:
    def __init__(self, values: pd.Series) -> None:
        self.values = values

    def __format__(self, style: str) -> str:
        return ranged(self.values, style)


def ranged(values: pd.Series, style: str) -> str:
    """Smallest and largest of some numbers."""
    low, high = format(values.min(), style), format(values.max(), style)
    return low if low == high else f"{low}-{high}"


_HOW: dict[str, Callable[[pd.Series], Any]] = {
    "least": lambda values: _number(values.min()),
    "most": lambda values: _number(values.max()),
    "mean": lambda values: _Absent(values.mean()),
    "median": lambda values: _Absent(values.median()),
    "total": lambda values: int(values.sum()),
    "range": _Range,
}


def _number(value: Any) -> Any:
    return _Absent(value) if isinstance(value, float) else value


class _Group(dict[str, Any]):
    """Cells of a group: its first row's, and what is found of all; "cells" is their number."""

    def __init__(self, group: pd.DataFrame) -> None:
        super().__init__(cells=len(group))
        self.group = group

    def __missing__(self, name: str) -> Any:
        how, _, column = name.partition(" ")
        return self.group[name].iloc[0] if name in self.group else _HOW[how](self.group[column])


def table(rows: pd.DataFrame | Sequence[Mapping[str, Any]], columns: Mapping[str, Column], rule: str = " --- ") -> str:
    """Return rows as a table of markdown."""
    records = rows.to_dict("records") if isinstance(rows, pd.DataFrame) else rows
    cells = ({k: _Number(v) if isinstance(v, float) else v for k, v in row.items()} for row in records)
    return _drawn(((row, row) for row in cells), columns, rule)


def grouped(rows: pd.DataFrame, by: str | list[str], columns: Mapping[str, Column], rule: str = " --- ") -> str:
    """Return a table of markdown with a row for each group, in the order in which they come."""
    groups = (group for _, group in rows.groupby(by, sort=False))
    return _drawn(((group, _Group(group)) for group in groups), columns, rule)


def _drawn(rows: Iterator[tuple[Any, Mapping[str, Any]]], columns: Mapping[str, Column], rule: str) -> str:
    shown = columns.values()
    lines = ([one.format_map(cells) if isinstance(one, str) else one(row) for one in shown] for row, cells in rows)
    return plain([*columns], lines, rule)


def plain(heads: Sequence[str], rows: Iterable[Sequence[object]], rule: str = " --- ") -> str:
    """Return rows of cells as a table of markdown."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in (heads, *rows)]
    return "\n".join([lines[0], "|" + "|".join([rule] * len(heads)) + "|", *lines[1:]])

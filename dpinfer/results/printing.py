"""The tables that results print: a header of facts, numbers, notes; as text, HTML, LaTeX and markdown."""

from __future__ import annotations

import copy
import math
import textwrap
from typing import TYPE_CHECKING, Any, Protocol

from statsmodels.iolib.summary import Summary, forg
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_2cols, fmt_params

from dpinfer.display.report import Report, Table, count, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    Facts = list[tuple[str, str]]

__all__ = [
    "Exported",
    "PrivateSummary",
    "Shown",
    "cell_table",
    "escape_markdown",
    "estimate_table",
    "figure",
    "interval_labels",
    "label_texts",
    "summary_of",
    "table_width",
    "without_parts",
]

_BEYOND_STATSMODELS = {
    "\\": r"\textbackslash ",
    "{": r"\{",
    "}": r"\}",
    "^": r"\textasciicircum ",
    "~": r"\textasciitilde ",
}
_SPECIAL = {character: "\\" + character for character in "#$%&_"} | {
    "<": r"\textless ",
    ">": r"\textgreater ",
    "|": r"\textbar ",
}
_LATEX_CELL = str.maketrans({**_BEYOND_STATSMODELS, "<": r"\textless "})
LATEX_TEXT = str.maketrans({**_BEYOND_STATSMODELS, **_SPECIAL})


_GROUPED, _LARGEST = 1e4, 1e10
"""Between which numbers are written out, with their digits grouped, rather than with an exponent."""


def interval_labels(alpha: float) -> tuple[str, str]:
    """Return the names of the two columns of an interval, as statsmodels writes them."""
    return f"[{alpha / 2:.6g}", f"{1 - alpha / 2:.6g}]"


class PrivateSummary(Summary):  # type: ignore[misc]
    """A statsmodels ``Summary`` whose formats escape what they must, with markdown besides.

    Parameters
    ----------
    title : str
        The title.
    header : SimpleTable
        The facts above the coefficients, two columns of labels and values.
    coefficients : SimpleTable
        The coefficients.
    notes, warnings : sequence of str
        Sentences below the tables.

    Attributes
    ----------
    tables : list of SimpleTable
        Header and coefficients.
    extra_txt : str
        Notes and warnings as text.
    """

    def __init__(
        self,
        title: str,
        header: SimpleTable,
        coefficients: SimpleTable,
        notes: Sequence[str],
        warnings: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.title, self.notes, self.warnings = title, tuple(notes), tuple(warnings)
        self.tables = [header, coefficients]
        width = max(map(table_width, self.tables))
        self.extra_txt = "\n".join(["Notes:", *self._lines(width)])

    def _lines(self, width: int | None = None) -> list[str]:
        """Return numbered notes, then warnings, wrapped to ``width`` characters."""
        lines = []
        for place, note in enumerate(self.notes, 1):
            lines.append((f"[{place}] ", note))
        lines += [("Warning: ", warning) for warning in self.warnings]
        if width is None:
            return [mark + sentence for mark, sentence in lines]
        return [textwrap.fill(mark + sentence, width, subsequent_indent=" " * len(mark)) for mark, sentence in lines]

    def _escaped(self, table: dict[int, str]) -> PrivateSummary:
        other = copy.deepcopy(self)
        for cell in (cell for part in other.tables for row in part for cell in row):
            cell.data = str(cell.data).translate(table)
        for part in other.tables:
            part.title = str(part.title).translate(table) if part.title else part.title
        return other

    def _report(self) -> Report:
        header, body = ([[str(cell.data).strip() for cell in row] for row in table] for table in self.tables)
        pairs = [pair for place in (0, 2) for pair in (tuple(row[place : place + 2]) for row in header) if any(pair)]
        facts = tuple((label.rstrip(":"), told) for label, told in pairs)
        shown = Table(tuple(body[0]), tuple(tuple(row) for row in body[1:]))
        return Report(self.title, facts, (shown,), self.notes, self.warnings, numbered=True)

    def as_html(self) -> str:
        """Return the summary as HTML, with names and notes escaped."""
        return self._report().html()

    def as_latex(self) -> str:
        """Return the summary as LaTeX, with names and notes escaped; it needs the booktabs package."""
        part = self._escaped(_LATEX_CELL)
        for table in part.tables:
            table.title = None  # statsmodels would write it as a comment, half escaped
        joined = part.tables[0]
        joined.extend(part.tables[1])
        notes = [line.translate(LATEX_TEXT) for line in self._lines()]
        title = self.title.translate(LATEX_TEXT)
        tabular = joined.as_latex_tabular()
        return f"\\textbf{{{title}}}\n\n{tabular}\n\n" + " \\newline\n".join(["Notes:", *notes])

    def as_markdown(self) -> str:
        """Return the summary as markdown: a list of facts, a table of coefficients, and notes."""
        header, coefficients = self.tables
        facts = [str(cell.data).strip() for row in header for cell in row]
        pairs = [(label, value) for label, value in zip(facts[::2], facts[1::2], strict=True) if label]
        rows = [[escape_markdown(str(cell.data).strip()) for cell in row] for row in coefficients]
        rule = [":---", *["---:"] * (len(rows[0]) - 1)]
        lines = [f"**{self.title}**", ""]
        lines += [f"- {label} {escape_markdown(value)}" for label, value in pairs]
        lines += [
            "",
            *("| " + " | ".join(row) + " |" for row in [rows[0], rule, *rows[1:]]),
            "",
            "Notes:",
            "",
        ]
        return "\n".join(lines + [f"- {escape_markdown(line)}" for line in self._lines()]) + "\n"

    def _repr_markdown_(self) -> str:
        """Show as markdown where a notebook prefers it."""
        return self.as_markdown()


def escape_markdown(text: str) -> str:
    """Escape what markdown would read as markup."""
    for character in "\\|*_<[`":
        text = text.replace(character, "\\" + character)
    return text


def table_width(table: SimpleTable) -> int:
    """Return the number of characters of the longest line."""
    return max(len(line) for line in table.as_text().splitlines())


def without_parts(frame: pd.DataFrame) -> pd.DataFrame:
    """Leave out the parts of standard errors and bounds on biases, which only frames have."""
    return frame.drop(columns=["std err (sampling)", "std err (noise)", "bias bound"], errors="ignore")


def label_texts(index: pd.Index) -> list[str]:
    """Write the labels of rows, those of several levels separated by commas."""
    return [", ".join(map(str, label)) if isinstance(label, tuple) else str(label) for label in index]


def cell_table(
    cells: Sequence[Sequence[str]], headers: Sequence[str], stubs: Sequence[str], formats: Sequence[str] = ()
) -> SimpleTable:
    """Build a table of cells that are texts already, laid out as statsmodels lays out coefficients."""
    layout = copy.deepcopy(fmt_params) | {"data_fmts": list(formats) or ["%s"] * len(headers)}
    return SimpleTable(cells, headers=list(headers), stubs=list(stubs), txt_fmt=layout)


def estimate_table(frame: pd.DataFrame, names: Sequence[str]) -> SimpleTable:
    """Build a table of the ``summary_frame`` of descriptions, its rows called by these names."""
    shown = without_parts(frame)
    styles = {"noise share": "{:.1%}".format, "count": count}
    columns = [
        [styles.get(name, _four_digits)(value) if not math.isnan(value) else _gap(name, shown) for value in shown[name]]
        for name in shown.columns
    ]
    return cell_table(list(zip(*columns, strict=True)), list(shown.columns), names)


def _gap(name: str, frame: pd.DataFrame) -> str:
    """Write a missing number: words for the estimate, which comes first, nothing for what belongs to it."""
    return "not determined" if name == frame.columns[0] else ""


def figure(value: float, digits: int = 3) -> str:
    """Write a number as statsmodels does, but for large ones: written out, their digits grouped."""
    large = _GROUPED <= abs(value) < _LARGEST
    return number(value, digits) if large else str(forg(float(value), prec=digits))


def _four_digits(value: float) -> str:
    return figure(value, 4)


def summary_of(
    title: str, left: Facts, right: Facts, table: SimpleTable, notes: Sequence[str], warnings: Sequence[str] = ()
) -> PrivateSummary:
    """Put a header of facts, in two halves, above a table and as wide as it where there is room to grow."""
    rows = max(len(left), len(right))
    left, right = (half + [("", "")] * (rows - len(half)) for half in (left, right))
    return PrivateSummary(title, header_table(left, right, title, table_width(table)), table, notes, warnings)


class _Summarised(Protocol):
    def summary(self, *, alpha: float = 0.05) -> PrivateSummary: ...


class Shown:
    """Results whose summary a notebook shows."""

    def _report(self: Any) -> Report:
        """Return what is shown: the summary."""
        report: Report = self.summary()._report()
        return report

    def _repr_html_(self) -> str:
        """Show the summary as HTML in a notebook."""
        return self._report().html()


class Exported(Shown):
    """Results whose summary is written in other formats."""

    def to_latex(self: _Summarised, alpha: float = 0.05) -> str:
        """Return ``summary(alpha=alpha)`` as LaTeX (needs booktabs)."""
        return self.summary(alpha=alpha).as_latex()

    def to_html(self: _Summarised, alpha: float = 0.05) -> str:
        """Return ``summary(alpha=alpha)`` as HTML."""
        return self.summary(alpha=alpha).as_html()

    def to_markdown(self: _Summarised, alpha: float = 0.05) -> str:
        """Return ``summary(alpha=alpha)`` as markdown."""
        return self.summary(alpha=alpha).as_markdown()


def header_table(left: Facts, right: Facts, title: str, width: int) -> SimpleTable:
    """Write label-value pairs in two halves of equal length, at least ``width`` characters wide where there is room."""

    def build(extra: int) -> SimpleTable:
        halves = []
        for half, stub in ((left, 0), (right, 21 + extra % 2)):
            wide = max(fmt_2cols["colwidths"], *(len(value) for _, value in half)) + extra // 2
            labels = [f"{'  ' * bool(stub and label)}{label}".ljust(stub) for label, _ in half]
            values = [[value.rjust(wide)] for _, value in half]
            halves.append(SimpleTable(values, stubs=labels, txt_fmt=copy.deepcopy(fmt_2cols)))
        halves[0].title = title
        halves[0].extend_right(halves[1])
        return halves[0]

    return build(max(0, width - table_width(build(0))))

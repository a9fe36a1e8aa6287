"""Several results side by side, private and ordinary ones, with what all of them cost together."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
from statsmodels.iolib.table import SimpleTable

from dpinfer.display.report import Report, Table, number
from dpinfer.errors import OptionError
from dpinfer.results.contrasts import check_alpha
from dpinfer.results.printing import LATEX_TEXT, escape_markdown, table_width
from dpinfer.results.side_columns import KINDS, Column, one_line, read_column
from dpinfer.results.total_cost import charges_of, total_notes
from dpinfer.results.wording import charge_notes, column_labels, guarantee

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.release.release import AnyRelease
    from dpinfer.results.estimates import PrivateEstimates

    Array = NDArray[np.float64]
    Block = tuple[str, list[list[str]]]

__all__ = ["SummaryTable", "summary_table"]

SHOWN = ("std err", "conf_int")
"""What may stand below an estimate."""

_FACTS = ("Model", "N", "Guarantee", "Neighbours", "Noise share", "Inference", "R-squared")
_STARS = (0.1, 0.05, 0.01)
_NAME_WIDTH, _TERM_WIDTH, _FACT_WIDTH, _NOTE_WIDTH = 20, 36, 24, 72
_LATEX = {"replacements": {}, "header": "%s", "stub": "%s", "data_aligns": "r", "header_align": "r"}
_TEXT = {"table_dec_below": "=", "header_align": "r", "colsep": "  "}


@dataclass(frozen=True, eq=False, repr=False)
class SummaryTable:
    """Results side by side, in the formats that statsmodels' summaries have.

    It holds text and releases only: not the results and, of ordinary ones, no row.

    Parameters
    ----------
    title : str
        The title.
    frame : DataFrame of str
        The table as shown, a column per result. Index levels "term" and "line": two lines a term, "coef" and "std err"
        (or "conf_int"), then one line a fact, such as ("N", "").
    notes : tuple of str
        Sentences below the table: how to read it, every guarantee, and what all cost together.
    warnings : tuple of str
        Sentences that warn the reader.
    labels : mapping of str to str
        What terms are called where the table is shown, with the labels of their columns.
    releases : tuple of Release or CombinedRelease
        Behind its private columns, in their order.
    ordinary : tuple of str
        Names of the columns that are ordinary results, which no guarantee covers.
    """

    title: str
    frame: pd.DataFrame
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    releases: tuple[AnyRelease, ...] = ()
    ordinary: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return f"<SummaryTable: {self.title}, {self.frame.shape[1]} columns>"

    def _report(self) -> Report:
        above, below = ([tuple(row) for block in blocks for row in _rows(block)] for blocks in self._blocks())
        table = Table(("", *self._names()), (*above, *below), rule=len(above))
        return Report(self.title, (), (table,), self.notes, self.warnings, numbered=True)

    def _repr_html_(self) -> str:
        """Show as HTML in a notebook."""
        return self.as_html()

    @property
    def facts(self) -> pd.DataFrame:
        """DataFrame of str: "Model", "N", "Guarantee" and so on in rows, for tables of other packages."""
        below = self.frame.index.get_level_values("line") == ""
        return self.frame[below].droplevel("line").rename_axis(index=None)

    def as_frame(self) -> pd.DataFrame:
        """Return the table line by line as it is shown, for packages that draw frames, such as great_tables.

        Returns
        -------
        DataFrame of str
            A column named "" with labels of terms and facts, empty on further lines of a term; then one per result.
        """
        rows = [row for blocks in self._blocks() for block in blocks for row in _rows(block)]
        return pd.DataFrame(rows, columns=["", *self._names()])

    def _names(self) -> list[str]:
        return [str(name) for name in self.frame.columns]

    def _blocks(self) -> tuple[list[Block], list[Block]]:
        """Return terms and facts: a label, and the lines of each column."""
        terms: list[Block] = []
        facts: list[Block] = []
        for (label, line), *cells in self.frame.itertuples(name=None):
            if line in {"", "coef"}:
                called = one_line(label) if line == "" else self.labels.get(label, one_line(label))
                (facts if line == "" else terms).append((called, [[cell] for cell in cells]))
            else:
                for lines, cell in zip(terms[-1][1], cells, strict=True):
                    lines.append(cell)
        return terms, facts

    def _sentences(self) -> list[tuple[str, str]]:
        """Return notes and warnings, each with its mark."""
        marked = [(f"[{number}] ", note) for number, note in enumerate(self.notes, 1)]
        return marked + [("Warning: ", warning) for warning in self.warnings]

    def _table(self, escapes: dict[int, str]) -> SimpleTable:
        """Build the table with nothing wrapped."""
        above, below = (
            [[cell.translate(escapes) for cell in row] for block in blocks for row in _rows(block)]
            for blocks in self._blocks()
        )
        return _ruled([name.translate(escapes) for name in self._names()], above, below)

    def as_text(self) -> str:
        """Return the table as text: ruled and aligned, long names and notes wrapped."""
        terms, facts = self._blocks()
        wrapped = [(label, [textwrap.wrap(cell, _FACT_WIDTH) for (cell,) in cells]) for label, cells in facts]
        above, below = ([row for block in blocks for row in _rows(block)] for blocks in (_padded(terms), wrapped))
        heads = [textwrap.wrap(name, _NAME_WIDTH) for name in self._names()]
        height = max(map(len, heads))
        table = _ruled(["\n" * (height - len(lines)) + "\n".join(lines) for lines in heads], above, below)
        width = table_width(table)
        title = [line.center(width).rstrip() for line in textwrap.wrap(self.title, width)]
        wide = max(width, _NOTE_WIDTH)
        notes = [
            textwrap.fill(mark + text, wide, subsequent_indent=" " * len(mark)) for mark, text in self._sentences()
        ]
        return "\n".join([*title, table.as_text(), "Notes:", *notes])

    def as_html(self) -> str:
        """Return the table as HTML, with names and notes escaped; MathJax leaves it alone."""
        return self._report().html()

    def as_latex(self) -> str:
        """Return the table as LaTeX, with names and notes escaped; it needs the booktabs package."""
        lines = self._table(LATEX_TEXT).as_latex_tabular().split("\n")
        lines = ["{}" + line if line[:1] in {"[", "*"} else line for line in lines]  # no argument of the \\ before
        notes = [(mark + text).translate(LATEX_TEXT) for mark, text in self._sentences()]
        title, tabular = self.title.translate(LATEX_TEXT), "\n".join(lines)
        return f"\\textbf{{{title}}}\n\n{tabular}\n\n" + " \\newline\n".join(["Notes:", *notes])

    def as_markdown(self) -> str:
        """Return the table as markdown, with names and notes escaped."""
        rows = [["", *self._names()], *(row for blocks in self._blocks() for block in blocks for row in _rows(block))]
        lines = ["| " + " | ".join(map(_marked, row)) + " |" for row in rows]
        lines.insert(1, "| :--- |" + " ---: |" * self.frame.shape[1])
        notes = [f"- {_marked(mark + text)}" for mark, text in self._sentences()]
        return "\n".join([f"**{_marked(self.title)}**", "", *lines, "", "Notes:", "", *notes]) + "\n"


def summary_table(
    results: Sequence[object],
    *,
    names: Sequence[str] | None = None,
    show: Literal["std err", "conf_int"] = "std err",
    alpha: float = 0.05,
    stars: bool = False,
    float_format: str | None = None,
    title: str | None = None,
) -> SummaryTable:
    """Put results side by side, private and ordinary ones, with what all of them cost together.

    Parameters
    ----------
    results : sequence
        Results of dpinfer that have ``params`` and ``bse`` (regressions, descriptions, families, combinations), and
        fitted results of statsmodels, in any order. Of models with several equations (``MNLogit``, ``VAR``) terms are
        called "equation: term".
    names : sequence of str, optional
        What to call the columns, all different; by default the responses, numbered where they repeat.
    show : {"std err", "conf_int"}
        What stands below an estimate: its standard error in parentheses, or its interval in brackets.
    alpha : float
        One minus the confidence of the intervals.
    stars : bool
        Mark estimates by their p-values: ``*`` below .1, ``**`` below .05, ``***`` below .01.
    float_format : str, optional
        How to write numbers, such as "%.3f"; by default four decimals, fewer for large and more for small numbers.
    title : str, optional
        Another title.

    Returns
    -------
    SummaryTable
        ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()``; ``frame``, ``notes`` and ``warnings``.

    Raises
    ------
    OptionError
        If there are no results, one is of another kind or lacks what is to be shown, or an option has no such value.

    Notes
    -----
    The total budget is the sum of the costs of the distinct releases behind the columns: a release that several columns
    share, known by its ledger charge, is paid for once (sequential composition). Costs are summed for one data set
    and one neighbouring relation at a time, and within one unit. Simulated releases are not counted, nor are
    releases that are not shown: the ledger counts those.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> from dpinfer.results.side_by_side import summary_table
    >>> schema = dpi.Schema(x=dpi.Real(0, 1), y=dpi.Real(0, 1))
    >>> rng = np.random.default_rng(1)
    >>> ledger = dpi.Ledger.in_memory(dpi.ZCDP(1), dataset="survey")
    >>> data = dpi.PrivateData(schema.sample(2000, rng), schema, ledger)
    >>> gram = dpi.gram(["x", "y"], data).fit(dpi.ZCDP(0.1)).release
    >>> table = summary_table([dpi.ols("y ~ x", gram).infer(), dpi.ols("x ~ y", gram).infer()])
    >>> table.frame.loc[("Guarantee", "")].tolist()
    ['ZCDP(rho=0.1)', 'ZCDP(rho=0.1)']
    >>> [note for note in table.notes if note.startswith("Total")][0][:78]
    "Total spent by these results on data set 'survey' (add_remove), 1 release: 0.1"
    """
    given = _checked(results)
    check_alpha(alpha)
    _check_options(show, float_format, title)
    columns = [read_column(one, f"results[{place}]", show, alpha, stars) for place, one in enumerate(given)]
    shown = _checked_names(names, len(columns)) or _distinct([column.label for column in columns])
    private = [(name, column.private) for name, column in zip(shown, columns, strict=True) if column.private]
    ordinary = [name for name, column in zip(shown, columns, strict=True) if not column.private]
    unbounded = any(column.private and np.isinf(column.below).any() for column in columns)
    releases = tuple(result.release for _, result in private)
    notes = [*_reading(show, alpha, stars, unbounded, private), *_guarantees(private), *total_notes(releases)]
    return SummaryTable(
        one_line(title or "Results side by side"),
        _frame(shown, columns, show, float_format),
        tuple(map(one_line, notes)),
        tuple(map(one_line, _warnings(private, ordinary))),
        _labels(private),
        releases,
        tuple(ordinary),
    )


def _labels(private: list[tuple[str, PrivateEstimates]]) -> dict[str, str]:
    """Return the labels of terms, where all results that have a term call it the same."""
    found: dict[str, set[str]] = {}
    for _, result in private:
        names = list(result.params.index)
        for name, label in zip(names, column_labels(result.release, names), strict=True):
            found.setdefault(str(name), set()).add(one_line(label))
    return {name: labels.pop() for name, labels in found.items() if len(labels) == 1}


# Options


def _checked(results: object) -> tuple[object, ...]:
    if isinstance(results, str) or not isinstance(results, Sequence) or not results:
        raise OptionError("results", results, f"a list of one or more {KINDS}")
    return tuple(results)


def _check_options(show: object, float_format: object, title: object) -> None:
    if show not in SHOWN:
        raise OptionError("show", show, SHOWN)
    if title is not None and not isinstance(title, str):
        raise OptionError("title", title, "a text")
    if float_format is None:
        return
    try:
        right = isinstance(float_format, str) and bool(float_format % 1.5)
    except (TypeError, ValueError, OverflowError):
        right = False
    if not right:
        raise OptionError("float_format", float_format, 'a format of one number, such as "%.3f"')


def _checked_names(names: object, size: int) -> list[str] | None:
    if names is None:
        return None
    right = isinstance(names, Sequence) and not isinstance(names, str) and len(names) == size
    if right and all(isinstance(name, str) and name.strip() for name in names):  # type: ignore[attr-defined]
        found = [one_line(name) for name in names]  # type: ignore[attr-defined]
        if len(set(found)) == size:
            return found
    raise OptionError("names", names, f"{size} texts, all different" if size > 1 else "a list of one text")


def _distinct(labels: list[str]) -> list[str]:
    """Return the labels, numbered where they repeat."""
    counts, taken, found = Counter(labels), set(labels), []
    for place, label in enumerate(labels):
        number, name = labels[:place].count(label) + 1, label
        while counts[label] > 1 and name in taken:
            name, number = f"{label} ({number})", number + 1
        taken.add(name)
        found.append(name)
    return found


# Cells


def _frame(names: list[str], columns: list[Column], show: str, float_format: str | None) -> pd.DataFrame:
    """Arrange all columns as text."""
    terms = list(dict.fromkeys(term for column in columns for term in column.terms))
    facts = [fact for fact in _FACTS if any(column.facts.get(fact) for column in columns)]
    index = [(term, line) for term in terms for line in ("coef", show)] + [(fact, "") for fact in facts]
    cells: dict[str, list[str]] = {}
    for name, column in zip(names, columns, strict=True):
        found: dict[tuple[str, str], str] = {(fact, ""): one_line(text) for fact, text in column.facts.items()}
        for place, term in enumerate(column.terms):
            marks = "*" * sum(column.pvalues[place] < level for level in _STARS)
            found[term, "coef"] = _number(column.estimates[place], float_format) + marks
            ends = ", ".join(_number(value, float_format) for value in np.atleast_1d(column.below[place]))
            found[term, show] = f"[{ends}]" if show == "conf_int" else f"({ends})"
        cells[name] = [found.get(entry, "") for entry in index]
    return pd.DataFrame(cells, index=pd.MultiIndex.from_tuples(index, names=["term", "line"]))


def _number(value: float, float_format: str | None) -> str:
    value = float(value) + 0.0  # -0.0 becomes 0.0
    size = abs(value)
    if not np.isfinite(value):
        return str(value)
    if float_format is None:
        if size >= 1e4:
            return number(value)
        float_format = "%.4f" if size == 0 or size >= 1e-3 else "%.4g"
    return (float_format % value).strip()


def _marked(text: str) -> str:
    return escape_markdown(text).replace("$", "\\$").replace("&", "\\&")


def _rows(block: Block) -> list[list[str]]:
    """Return the lines of a block, its label on the first ones."""
    label, cells = block
    return [list(row) for row in zip_longest(label.split("\n"), *cells, fillvalue="")]


def _padded(terms: list[Block]) -> list[Block]:
    """Wrap labels, and pad cells so that last digits stand below each other when aligned right."""
    longest = max(_tail(line) for _, cells in terms for lines in cells for line in lines)
    return [
        (
            "\n".join(textwrap.wrap(label, _TERM_WIDTH)),
            [[line + " " * (longest - _tail(line)) for line in lines] for lines in cells],
        )
        for label, cells in terms
    ]


def _tail(cell: str) -> int:
    """Count what follows the last digit."""
    return len(cell) - len(cell.rstrip("*)]"))


def _ruled(headers: list[str], above: list[list[str]], below: list[list[str]]) -> SimpleTable:
    """Build a table of rows that begin with their label, with a rule between the two parts."""
    rows = [*above, *below]
    cells, stubs = [row[1:] for row in rows], [row[0] for row in rows]
    table = SimpleTable(cells, headers=headers, stubs=stubs, txt_fmt=dict(_TEXT), ltx_fmt=dict(_LATEX))
    table[len(table) - len(below) - 1].dec_below = "header_dec_below"
    return table


# Notes


def _reading(
    show: str, alpha: float, stars: bool, unbounded: bool, private: list[tuple[str, PrivateEstimates]]
) -> list[str]:
    """Say how to read the cells."""
    level = f"{100 * (1 - alpha):.6g}% confidence intervals in brackets"
    what = "Standard errors in parentheses" if show == "std err" else level
    notes = [f"{what}; those of private results count the privacy noise." if private else f"{what}."]
    if unbounded:
        notes.append("An infinite end means that the release does not bound that side.")
    if stars:
        notes.append("* p < .1, ** p < .05, *** p < .01, by the p-values of each result's own inference.")
    if private:
        notes.append("Noise share is the part of an estimate's variance that is privacy noise: least and greatest.")
    about = [name for name, result in private if result.inference.target == "data"]
    if about:
        notes.append(f"{', '.join(about)}: about these data, not a wider population; only privacy noise counts.")
    return notes


def _guarantees(private: list[tuple[str, PrivateEstimates]]) -> list[str]:
    """State the guarantee of every release, once."""
    together: dict[frozenset[str], tuple[AnyRelease, list[str]]] = {}
    for name, result in private:
        together.setdefault(charges_of(result.release), (result.release, []))[1].append(name)
    notes = []
    for release, names in together.values():
        shared = f"{', '.join(names)}{' (one release)' if len(names) > 1 else ''}"
        notes.append(" ".join([f"{shared}: {guarantee(release)}", *charge_notes(release)]))
    return notes


def _warnings(private: list[tuple[str, PrivateEstimates]], ordinary: list[str]) -> list[str]:
    warnings = []
    if ordinary and any(not result.release.public for _, result in private):
        several = len(ordinary) > 1
        warnings.append(
            f"{', '.join(ordinary)}: {'ordinary results' if several else 'an ordinary result'}, without any guarantee. "
            f"Published from confidential rows, {'they' if several else 'it'} would void the guarantees of the other "
            "columns about the same rows."
        )
    return warnings + [f"{name}: {flag}" for name, result in private for flag in result.flags]

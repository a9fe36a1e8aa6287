"""Several results side by side, private and ordinary, with their total privacy cost."""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from statsmodels.base.model import LikelihoodModelResults
from statsmodels.base.wrapper import ResultsWrapper
from statsmodels.iolib.table import SimpleTable

from dpinfer.checks import is_list, is_text
from dpinfer.display.report import Report, Table, number
from dpinfer.errors import OptionError, type_of
from dpinfer.reporting.methods import charges_of, total_notes
from dpinfer.reporting.office import excel_file, word_file
from dpinfer.results.estimates import DataFreeResults, PrivateEstimates
from dpinfer.results.printing import (
    LATEX_TEXT,
    charge_notes,
    column_labels,
    escape_markdown,
    format_nobs,
    guarantee,
    short_guarantee,
    table_width,
)
from dpinfer.results.testing import check_alpha
from dpinfer.writing import checked_target, write_whole

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from dpinfer.release.release import AnyRelease
    from dpinfer.statistics.arrays import Array

__all__ = ["SummaryTable", "summary_table"]

_KINDS = "results of dpinfer or of statsmodels, with params and bse"
"""What may stand in a table."""

_SHOWN = ("std err", "conf_int")
"""What may stand below an estimate."""

_FACTS = ("Model", "N", "Guarantee", "Neighbours", "Noise share", "Inference", "R-squared")
_STARS = (0.1, 0.05, 0.01)
_NAME_WIDTH, _TERM_WIDTH, _FACT_WIDTH, _NOTE_WIDTH = 20, 36, 24, 72
_LATEX = {"replacements": {}, "header": "%s", "stub": "%s", "data_aligns": "r", "header_align": "r"}
_TEXT = {"table_dec_below": "=", "header_align": "r", "colsep": "  "}


@dataclass(frozen=True, eq=False, repr=False)
class SummaryTable:
    """Results side by side, in the formats of statsmodels' summaries.

    It holds text and releases only, neither the results nor any row behind ordinary ones.

    Parameters
    ----------
    title : str
        The title.
    frame : DataFrame of str
        The table as shown, a column per result. Index levels are "term" and "line": two lines per term, "coef" and "std
        err" (or "conf_int"), then one line per fact, such as ("N", "").
    notes : tuple of str
        Sentences below the table: how to read it, every guarantee, and the total privacy cost.
    warnings : tuple of str
        Warnings, as sentences.
    labels : mapping of str to str
        Display names of the terms, with the labels of their columns.
    releases : tuple of Release or CombinedRelease
        The releases behind its private columns, in order.
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
        rows = tuple(map(tuple, self._lines()))
        table = Table(("", *map(str, self.frame.columns)), rows, rule=len(rows) - len(self.facts))
        return Report(self.title, (), (table,), self.notes, self.warnings, numbered=True)

    def _repr_html_(self) -> str:
        """Show as HTML in a notebook."""
        return self.as_html()

    @property
    def facts(self) -> pd.DataFrame:
        """DataFrame of str: "Model", "N", "Guarantee" and so on as rows, for tables of other packages."""
        below = self.frame.index.get_level_values("line") == ""
        return self.frame[below].droplevel("line").rename_axis(index=None)

    def as_frame(self) -> pd.DataFrame:
        """Return the displayed table line by line, for packages that format frames, such as great_tables.

        Returns
        -------
        DataFrame of str
            A column named "" with labels of terms and facts, empty on further lines of a term; then one column per
            result.
        """
        return pd.DataFrame(self._lines(), columns=["", *map(str, self.frame.columns)])

    def _lines(self) -> list[list[str]]:
        """Return the table line by line: a label, empty on further lines of a term, and a cell per column."""
        found = []
        for (name, line), *cells in self.frame.itertuples(name=None):
            label = _one_line(name) if line == "" else self.labels.get(name, _one_line(name))
            found.append([label if line in ("", "coef") else "", *cells])
        return found

    def _sentences(self) -> list[tuple[str, str]]:
        """Return notes and warnings, each with its mark."""
        marked = [(f"[{place}] ", note) for place, note in enumerate(self.notes, 1)]
        return marked + [("Warning: ", warning) for warning in self.warnings]

    def as_text(self) -> str:
        """Return the table as ruled and aligned text, with long names and notes wrapped."""
        lines = self._lines()
        terms, facts = lines[: len(lines) - len(self.facts)], lines[len(lines) - len(self.facts) :]
        tails = [[len(cell) - len(cell.rstrip("*)]")) for cell in line] for line in terms]  # after the last digit
        longest = max(tail for line in tails for tail in line[1:])
        padded = [
            [cell + " " * (longest - tail) for cell, tail in zip(line, ends, strict=True)]
            for line, ends in zip(terms, tails, strict=True)
        ]
        above: list[tuple[str, ...]] = []
        for place in range(0, len(terms), 2):  # an estimate, and what stands below it
            columns = zip(*(line[1:] for line in padded[place : place + 2]), strict=True)
            above += zip_longest(textwrap.wrap(terms[place][0], _TERM_WIDTH), *columns, fillvalue="")
        below: list[tuple[str, ...]] = []
        for label, *cells in facts:
            below += zip_longest([label], *(textwrap.wrap(cell, _FACT_WIDTH) for cell in cells), fillvalue="")
        heads = [textwrap.wrap(str(name), _NAME_WIDTH) for name in self.frame.columns]
        height = max(map(len, heads))
        table = _ruled(["\n" * (height - len(head)) + "\n".join(head) for head in heads], [*above, *below], len(below))
        width = table_width(table)
        title = [line.center(width).rstrip() for line in textwrap.wrap(self.title, width)]
        notes = [
            textwrap.fill(mark + text, max(width, _NOTE_WIDTH), subsequent_indent=" " * len(mark))
            for mark, text in self._sentences()
        ]
        return "\n".join([*title, table.as_text(), "Notes:", *notes])

    def as_html(self) -> str:
        """Return the table as HTML, with names and notes escaped, and ignored by MathJax."""
        return self._report().html()

    def as_latex(self) -> str:
        """Return the table as LaTeX, with names and notes escaped; it needs the booktabs package."""
        rows = [[cell.translate(LATEX_TEXT) for cell in row] for row in self._lines()]
        heads = [str(name).translate(LATEX_TEXT) for name in self.frame.columns]
        table = _ruled(heads, rows, len(self.facts))
        lines = table.as_latex_tabular().split("\n")
        lines = ["{}" + line if line[:1] in {"[", "*"} else line for line in lines]  # no argument of the \\ before
        notes = [(mark + text).translate(LATEX_TEXT) for mark, text in self._sentences()]
        title, tabular = self.title.translate(LATEX_TEXT), "\n".join(lines)
        return f"\\textbf{{{title}}}\n\n{tabular}\n\n" + " \\newline\n".join(["Notes:", *notes])

    def as_markdown(self) -> str:
        """Return the table as markdown, with names and notes escaped."""
        rows = [["", *map(str, self.frame.columns)], *self._lines()]
        lines = ["| " + " | ".join(map(_marked, row)) + " |" for row in rows]
        lines.insert(1, "| :--- |" + " ---: |" * self.frame.shape[1])
        notes = [f"- {_marked(mark + text)}" for mark, text in self._sentences()]
        return "\n".join([f"**{_marked(self.title)}**", "", *lines, "", "Notes:", "", *notes]) + "\n"

    def to_word(self, path: str | os.PathLike[str]) -> Path:
        """Write the table as a Word document with its notes, guarantees first; needs ``dpinfer[word]``.

        Parameters
        ----------
        path : path-like
            A file that ends in .docx; an existing file is replaced.

        Returns
        -------
        pathlib.Path
            The path of the file.

        Raises
        ------
        OptionError
            If ``path`` is not such a path.
        ModuleNotFoundError
            If python-docx is not installed.
        """
        target = checked_target(path, ".docx")
        write_whole(target, word_file(self))
        return target

    def to_excel(self, path: str | os.PathLike[str]) -> Path:
        """Write the table as an Excel workbook with its notes, guarantees first; needs ``dpinfer[excel]``.

        Numbers are stored as numbers, rounded as in the table, with formats that show stars and parentheses.

        Parameters
        ----------
        path : path-like
            A file that ends in .xlsx; an existing file is replaced.

        Returns
        -------
        pathlib.Path
            The path of the file.

        Raises
        ------
        OptionError
            If ``path`` is not such a path.
        ModuleNotFoundError
            If openpyxl is not installed.
        """
        target = checked_target(path, ".xlsx")
        write_whole(target, excel_file(self))
        return target


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
    """Compare private and ordinary results side by side, with their total privacy cost.

    Parameters
    ----------
    results : sequence
        Results of dpinfer that have ``params`` and ``bse`` (regressions, descriptions, families, combinations), and
        fitted results of statsmodels, in any order. Terms of models with several equations (``MNLogit``, ``VAR``) are
        named "equation: term".
    names : sequence of str, optional
        Distinct names of the columns; by default the responses, numbered if they repeat.
    show : {"std err", "conf_int"}
        What to show below an estimate: its standard error in parentheses, or its interval in brackets.
    alpha : float
        One minus the confidence of the intervals.
    stars : bool
        Whether to mark p-values: ``*`` below .1, ``**`` below .05, ``***`` below .01.
    float_format : str, optional
        Number format, such as "%.3f"; by default four decimals, fewer for large and more for small numbers.
    title : str, optional
        Another title.

    Returns
    -------
    SummaryTable
        ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()``, ``to_word()``, ``to_excel()``; ``frame``,
        ``notes`` and ``warnings``.

    Raises
    ------
    OptionError
        If there are no results, one has another type or lacks what is to be shown, or an argument is invalid.

    Notes
    -----
    The total privacy cost is the sum over the distinct releases behind the columns (sequential composition): a release
    that several columns share, identified by its ledger charge, is counted once. Costs are summed separately by data
    set, definition of neighbours and unit. Simulated releases are not counted, nor are releases that are not shown,
    which the ledger counts.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(x=dpi.Real(0, 1), y=dpi.Real(0, 1))
    >>> rng = np.random.default_rng(1)
    >>> ledger = dpi.Ledger.in_memory(dpi.ZCDP(1), dataset="survey")
    >>> data = dpi.PrivateData(schema.sample(2000, rng), schema, ledger)
    >>> gram = dpi.gram(["x", "y"], data).fit(dpi.ZCDP(0.1)).release
    >>> table = dpi.summary_table([dpi.ols("y ~ x", gram).infer(), dpi.ols("x ~ y", gram).infer()])
    >>> table.frame.loc[("Guarantee", "")].tolist()
    ['ZCDP(rho=0.1)', 'ZCDP(rho=0.1)']
    >>> [note for note in table.notes if note.startswith("Total")][0][:78]
    "Total spent by these results on data set 'survey' (add_remove), 1 release: 0.1"
    """
    if not is_list(results) or not len(results):
        raise OptionError("results", results, f"a list of one or more {_KINDS}")
    check_alpha(alpha)
    if show not in _SHOWN:
        raise OptionError("show", show, _SHOWN)
    if title is not None and not isinstance(title, str):
        raise OptionError("title", title, "a text")
    try:
        right = float_format is None or (isinstance(float_format, str) and bool(float_format % 1.5))
    except (TypeError, ValueError, OverflowError):
        right = False
    if not right:
        raise OptionError("float_format", float_format, 'a format of one number, such as "%.3f"')
    columns = [
        _read_column(one, f"results[{place}]", show, alpha, stars, float_format) for place, one in enumerate(results)
    ]
    shown = _names([column.label for column in columns], names)
    private = [(name, column.private) for name, column in zip(shown, columns, strict=True) if column.private]
    ordinary = [name for name, column in zip(shown, columns, strict=True) if not column.private]
    unbounded = any(column.private and column.unbounded for column in columns)
    releases = tuple(result.release for _, result in private)
    notes = [*_notes(show, alpha, stars, unbounded, private), *total_notes(releases)]
    keys = [key for key in dict.fromkeys(key for column in columns for key in column.cells) if key[1]]
    keys += [(fact, "") for fact in _FACTS if any(column.cells.get((fact, "")) for column in columns)]
    cells = {name: [column.cells.get(key, "") for key in keys] for name, column in zip(shown, columns, strict=True)}
    labels: dict[str, set[str]] = {}
    for _, result in private:
        terms = list(result.params.index)
        for term, label in zip(terms, column_labels(result.release, terms), strict=True):
            labels.setdefault(str(term), set()).add(_one_line(label))
    return SummaryTable(
        _one_line(title or "Results side by side"),
        pd.DataFrame(cells, index=pd.MultiIndex.from_tuples(keys, names=["term", "line"])),
        tuple(map(_one_line, notes)),
        tuple(map(_one_line, _warnings(private, ordinary))),
        {term: called.pop() for term, called in labels.items() if len(called) == 1},  # where all results call it so
        releases,
        tuple(ordinary),
    )


def _names(labels: list[str], names: object) -> list[str]:
    """Return the column names: as given, or those of the results, numbered if they repeat."""
    if names is not None:
        size, found = len(labels), []
        if is_list(names):
            found = [_one_line(name) for name in names if is_text(name)]
        if len(set(found)) != size or len(found) != len(names):  # type: ignore[arg-type]
            raise OptionError("names", names, f"{size} texts, all different" if size > 1 else "a list of one text")
        return found
    counts, taken, found = Counter(labels), set(labels), []
    for place, label in enumerate(labels):
        number, name = labels[:place].count(label) + 1, label
        while counts[label] > 1 and name in taken:
            name, number = f"{label} ({number})", number + 1
        taken.add(name)
        found.append(name)
    return found


def _one_line(text: object) -> str:
    return " ".join(str(text).split())


def _marked(text: str) -> str:
    return escape_markdown(text).replace("$", "\\$").replace("&", "\\&")


def _ruled(headers: list[str], rows: Sequence[Sequence[str]], below: int) -> SimpleTable:
    """Build a table of labelled rows, with a rule above the last ones."""
    stubs, cells = zip(*((label, row) for label, *row in rows), strict=True)
    table = SimpleTable(cells, headers=headers, stubs=stubs, txt_fmt=dict(_TEXT), ltx_fmt=dict(_LATEX))
    table[len(table) - below - 1].dec_below = "header_dec_below"
    return table


# Columns


@dataclass(frozen=True, slots=True)
class _Column:
    """One result: its cells as text, by term or fact and line; whether an end is infinite; the result if private."""

    label: str
    cells: dict[tuple[str, str], str]
    unbounded: bool
    private: PrivateEstimates | None


def _read_column(one: object, place: str, show: str, alpha: float, stars: bool, float_format: str | None) -> _Column:
    """Read a result; refuse anything else, and results that lack what is to be shown."""
    right = isinstance(one, (ResultsWrapper, LikelihoodModelResults)) and not isinstance(one, DataFreeResults)
    if not right or any(getattr(one, name, None) is None for name in ("params", "bse")):
        raise OptionError(place, type_of(one), _KINDS)
    result: Any = one
    try:
        below = result.bse if show == "std err" else result.conf_int(alpha)
        pvalues = result.pvalues if stars else None
    except (AttributeError, NotImplementedError) as error:
        wanted = "results with standard errors, with intervals to show them and with p-values for stars"
        raise OptionError(place, type_of(one), wanted) from error
    private = one if isinstance(one, PrivateEstimates) else None
    terms = private.inference.names if private else _ordinary_terms(result)
    estimates, size = _by_equation(result.params), len(terms)
    limits = np.asarray(below, dtype=np.float64).reshape(-1, 2) if show == "conf_int" else _by_equation(below)[:, None]
    chances = np.full(size, np.nan) if pvalues is None else _by_equation(pvalues)
    if len(set(terms)) != size or not len(estimates) == len(limits) == len(chances) == size:
        raise OptionError(place, type_of(one), "results with a number for every term, and no term twice")
    cells: dict[tuple[str, str], str] = {}
    for term, estimate, limit, chance in zip(terms, estimates, limits, chances, strict=True):
        cells[term, "coef"] = _number(estimate, float_format) + "*" * sum(chance < level for level in _STARS)
        ends = ", ".join(_number(value, float_format) for value in limit)
        cells[term, show] = f"[{ends}]" if show == "conf_int" else f"({ends})"
    label, facts = _facts(result, private)
    cells |= {(fact, ""): _one_line(text) for fact, text in facts.items()}
    return _Column(_one_line(label) or "y", cells, bool(np.isinf(limits).any()), private)


def _facts(result: Any, private: PrivateEstimates | None) -> tuple[str, dict[str, str]]:
    """Return the name of a result, and the facts below its estimates."""
    inference = private.inference if private else result
    nobs, rsquared = getattr(inference, "nobs", None), getattr(inference, "rsquared", None)
    if private:
        shares = private.noise_share
        ends = dict.fromkeys(_percent(float(share)) for share in (shares.min(), shares.max()))
        facts = {
            "Model": private.model_name,
            "N": format_nobs(inference),
            "Guarantee": short_guarantee(private.release),
            "Neighbours": str(private.release.neighbors),
            "Noise share": ("-" if all(end[0].isdigit() for end in ends) else " to ").join(ends),
            "Inference": inference.method,
        }
    else:
        count = "" if nobs is None else f"{nobs:,.0f}"
        facts = {"Model": type(result.model).__name__, "N": count, "Guarantee": "none (ordinary)", "Inference": "wald"}
    facts["R-squared"] = "" if rsquared is None else f"{rsquared:.3f}"
    names = (private.response or private.model_name) if private else getattr(result.model, "endog_names", "")
    return names if isinstance(names, str) else ", ".join(map(str, names)), facts


def _by_equation(values: object) -> Array:
    """Return numbers (p,); those of several equations (terms, equations) equation by equation."""
    return np.asarray(values, dtype=np.float64).ravel(order="F")


def _ordinary_terms(result: Any) -> tuple[str, ...]:
    params, model = result.params, result.model
    if isinstance(params, pd.Series):
        return tuple(map(str, params.index))
    data = getattr(model, "data", None)
    terms = list(params.index) if isinstance(params, pd.DataFrame) else list(getattr(data, "param_names", ()))
    if np.ndim(params) < 2:
        return tuple(map(str, terms))
    equations = list(params.columns) if isinstance(params, pd.DataFrame) else list(range(np.shape(params)[1]))
    outcomes = getattr(model, "_ynames_map", None)
    if outcomes:  # MNLogit: the first outcome is the base
        equations = [outcomes[place + 1] for place in range(len(equations))]
    return tuple(f"{equation}: {term}" for equation in equations for term in terms)


def _percent(share: float) -> str:
    """Write a share as a whole percentage, "0%" only for 0 and "100%" only for 1."""
    if 0 < share < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= share < 1 - 1e-12 else f"{share:.0%}"


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


# Notes


def _notes(
    show: str, alpha: float, stars: bool, unbounded: bool, private: list[tuple[str, PrivateEstimates]]
) -> list[str]:
    """Return notes on how to read the cells, and on the guarantee of every distinct release."""
    level = f"{100 * (1 - alpha):.6g}% confidence intervals in brackets"
    what = "Standard errors in parentheses" if show == "std err" else level
    notes = [f"{what}; those of private results include privacy noise." if private else f"{what}."]
    if unbounded:
        notes.append("An infinite limit means that the release does not bound the interval on that side.")
    if stars:
        notes.append("* p < .1, ** p < .05, *** p < .01, by the p-values of each result.")
    if private:
        notes.append(
            "Noise share is the fraction of an estimate's variance due to privacy noise (smallest and largest)."
        )
    about = [name for name, result in private if result.inference.target == "data"]
    if about:
        notes.append(
            f"{', '.join(about)}: for these rows, not a wider population: standard errors include privacy noise only."
        )
    together: dict[frozenset[str], tuple[AnyRelease, list[str]]] = {}
    for name, result in private:
        together.setdefault(charges_of(result.release), (result.release, []))[1].append(name)
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

"""Printing of results: tables as text, HTML, LaTeX and markdown, and the sentences in them."""

from __future__ import annotations

import copy
import math
import re
import textwrap
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from statsmodels.iolib.summary import Summary, forg
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_2cols, fmt_params

from dpinfer.display.report import Report, Table, count, number
from dpinfer.errors import NotProvedError
from dpinfer.release.release import Release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pandas as pd

    from dpinfer.release.release import AnyRelease
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.inference import Inference

    Facts = list[tuple[str, str]]


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
    """A statsmodels ``Summary`` with escaped text in every format, and markdown.

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
        lines = [(f"[{place}] ", note) for place, note in enumerate(self.notes, 1)]
        lines += [("Warning: ", warning) for warning in self.warnings]
        if width is None:
            return [mark + sentence for mark, sentence in lines]
        return [textwrap.fill(mark + sentence, width, subsequent_indent=" " * len(mark)) for mark, sentence in lines]

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
        joined, coefficients = copy.deepcopy(self.tables)
        for table in (joined, coefficients):
            table.title = None  # statsmodels would write it as a comment, half escaped
            for cell in (cell for row in table for cell in row):
                cell.data = str(cell.data).translate(_LATEX_CELL)
        joined.extend(coefficients)
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
        lines += ["", *("| " + " | ".join(row) + " |" for row in [rows[0], rule, *rows[1:]]), "", "Notes:", ""]
        return "\n".join(lines + [f"- {escape_markdown(line)}" for line in self._lines()]) + "\n"

    def _repr_markdown_(self) -> str:
        """Show as markdown if a notebook prefers it."""
        return self.as_markdown()


def escape_markdown(text: str) -> str:
    """Escape characters that are markup in markdown."""
    for character in "\\|*_<[`":
        text = text.replace(character, "\\" + character)
    return text


def table_width(table: SimpleTable) -> int:
    """Return the length of the longest line."""
    return max(len(line) for line in table.as_text().splitlines())


def without_parts(frame: pd.DataFrame) -> pd.DataFrame:
    """Drop the parts of standard errors and the bias bounds, which only frames have."""
    return frame.drop(columns=["std err (sampling)", "std err (noise)", "bias bound"], errors="ignore")


def label_texts(index: pd.Index) -> list[str]:
    """Format the labels of rows, with several levels separated by commas."""
    return [", ".join(map(str, label)) if isinstance(label, tuple) else str(label) for label in index]


def cell_table(
    cells: Sequence[Sequence[str]], headers: Sequence[str], stubs: Sequence[str], formats: Sequence[str] = ()
) -> SimpleTable:
    """Build a table of formatted cells in statsmodels' layout for coefficients."""
    layout = copy.deepcopy(fmt_params) | {"data_fmts": list(formats) or ["%s"] * len(headers)}
    return SimpleTable(cells, headers=list(headers), stubs=list(stubs), txt_fmt=layout)


def coefficient_table(frame: pd.DataFrame, names: Sequence[str]) -> SimpleTable:
    """Build a table of the ``summary_frame`` of coefficients or effects, with these row names."""
    shown = without_parts(frame)
    first: Callable[[Any], str] = partial(figure, digits=4)
    styles = [first, figure, figure, "{:#6.3f}".format, figure, figure, "{:.1%}".format]
    formats = ["%s", "%s", "%8s", "%s", "%11s", "%11s", "%s"][: len(shown.columns)]
    columns = [
        _column(shown[name], write, first=not place)
        for place, (name, write) in enumerate(zip(shown, styles, strict=False))
    ]
    return cell_table(list(zip(*columns, strict=True)), list(shown.columns), names, formats)


def estimate_table(frame: pd.DataFrame, names: Sequence[str]) -> SimpleTable:
    """Build a table of the ``summary_frame`` of descriptions, with these row names."""
    shown = without_parts(frame)
    styles = {"noise share": "{:.1%}".format, "count": count}
    other: Callable[[Any], str] = partial(figure, digits=4)
    columns = [_column(shown[name], styles.get(str(name), other), first=not place) for place, name in enumerate(shown)]
    return cell_table(list(zip(*columns, strict=True)), list(shown.columns), names)


def _column(values: pd.Series, write: Callable[[Any], str], *, first: bool) -> list[str]:
    """Format a column: words for a missing estimate, in the first column, and blanks in the others."""
    gap = "not determined" if first else ""
    return [gap if math.isnan(value) else write(value) for value in values]


def figure(value: float, digits: int = 3) -> str:
    """Format a number as statsmodels does, except that large ones are written out with grouped digits."""
    large = _GROUPED <= abs(value) < _LARGEST
    return number(value, digits) if large else str(forg(float(value), prec=digits))


def summary_of(
    title: str, left: Facts, right: Facts, table: SimpleTable, notes: Sequence[str], warnings: Sequence[str] = ()
) -> PrivateSummary:
    """Put a header of facts, in two halves, above a table, widened to the table if possible."""
    rows = max(len(left), len(right))
    left, right = (half + [("", "")] * (rows - len(half)) for half in (left, right))

    def header(extra: int) -> SimpleTable:
        halves = []
        for half, stub in ((left, 0), (right, 21 + extra % 2)):
            wide = max(fmt_2cols["colwidths"], *(len(value) for _, value in half)) + extra // 2
            labels = [f"{'  ' * bool(stub and label)}{label}".ljust(stub) for label, _ in half]
            values = [[value.rjust(wide)] for _, value in half]
            halves.append(SimpleTable(values, stubs=labels, txt_fmt=copy.deepcopy(fmt_2cols)))
        halves[0].title = title
        halves[0].extend_right(halves[1])
        return halves[0]

    room = max(0, table_width(table) - table_width(header(0)))
    return PrivateSummary(title, header(room), table, notes, warnings)


class _Summarised(Protocol):
    def summary(self, *, alpha: float = 0.05) -> PrivateSummary: ...


class Shown:
    """Results whose summary a notebook shows."""

    _estimated_as: ClassVar[str] = ""
    """How `dpinfer.results.citing` knows their estimates, where the question of the release does not say it."""

    def _report(self: Any) -> Report:
        """Return the report to show: the summary."""
        report: Report = self.summary()._report()
        return report

    def _repr_html_(self) -> str:
        """Show the summary as HTML in a notebook."""
        return self._report().html()


class Exported(Shown):
    """Results whose summary can be exported to other formats."""

    def to_latex(self: _Summarised, alpha: float = 0.05) -> str:
        """Return ``summary(alpha=alpha)`` as LaTeX, which needs the booktabs package."""
        return self.summary(alpha=alpha).as_latex()

    def to_html(self: _Summarised, alpha: float = 0.05) -> str:
        """Return ``summary(alpha=alpha)`` as HTML."""
        return self.summary(alpha=alpha).as_html()

    def to_markdown(self: _Summarised, alpha: float = 0.05) -> str:
        """Return ``summary(alpha=alpha)`` as markdown."""
        return self.summary(alpha=alpha).as_markdown()

    def cite(self: Any) -> str:
        """Return BibTeX entries for the package and for the methods behind these results.

        Returns
        -------
        str
            The package first, then, by key, the privacy measure, the noise, the estimate and the inference.
            `dpinfer.report` cites the same works in a methods section.

        Examples
        --------
        >>> import numpy as np
        >>> import dpinfer as dpi
        >>> schema = dpi.Schema(age=dpi.Real(0, 100))
        >>> rng = np.random.default_rng(1)
        >>> results = dpi.mean("age", dpi.PublicData(schema.sample(100, rng), schema, rng=rng)).fit(dpi.ZCDP(1))
        >>> [line for line in results.cite().splitlines() if line.startswith("@")][:3]
        ['@software{dpinfer,', '@inproceedings{bun2016,', '@inproceedings{canonne2020,']
        """
        from dpinfer.results.citing import bibtex  # noqa: PLC0415  (it reads a file)

        return bibtex(self)


_WORD = re.compile(r"(?<![\w.])[^\W\d]\w*(?![\w.(])")
_FACTOR = re.compile(r"\bC\((\w+)[^()\[\]]*\)\[T\.([^\[\]]*)\]|\b(\w+)\[T\.([^\[\]]*)\]")
_LEVELS = re.compile(r"(?<=[=\[])[^\[\],=]*(?=[\],]|$)")
"""A name in a term, but for that of a function; a level of a factor; one in the name of a coefficient or a group."""

_NEIGHBORS = {
    "add_remove": "Neighbouring data sets differ by adding or removing {one} (add_remove)",
    "replace_one": "Neighbouring data sets differ by replacing {one} with another (replace_one)",
}


def measured_in(release: AnyRelease, name: str) -> str:
    """Return the unit of measurement of a column; empty if none is declared."""
    schema = release.schema if isinstance(release, Release) else {}
    return schema[name].measured_in if name in schema else ""


def column_caption(release: AnyRelease, name: str) -> str:
    """Return the name of a column for axes and tables: its label, if it has one, with its unit."""
    schema = release.schema if isinstance(release, Release) else {}
    return schema[name].caption(name) if name in schema else name


def column_labels(release: AnyRelease, names: Iterable[object]) -> list[str]:
    """Return the names of coefficients and estimates for tables, with column labels in place of names.

    Without labels and units the names are unchanged.
    """
    schema = release.schema if isinstance(release, Release) else {}
    told = {name: (one.label or name, one.caption(name)) for name, one in schema.items() if one.caption(name) != name}
    return [_labelled(str(name), told) for name in names]


def _labelled(name: str, told: Mapping[str, tuple[str, str]]) -> str:
    """Replace column names by labels, with the unit only if the name is a single column."""
    if not told:
        return name
    if name in told:
        return told[name][1]
    name = _FACTOR.sub(lambda found: f"{found[1] or found[3]}[{found[2] or found[4]}]" if
                       (found[1] or found[3]) in told else found.group(), name)  # fmt: skip
    levels, found, start = _LEVELS.finditer(name), [], 0
    for level in levels:  # what is in brackets after a factor is the name of a level
        found += [_columns(name[start : level.start()], told), level.group()]
        start = level.end()
    return "".join([*found, _columns(name[start:], told)])


def _columns(text: str, told: Mapping[str, tuple[str, str]]) -> str:
    return _WORD.sub(lambda found: told.get(found.group(), (found.group(),))[0], text)


def column_notes(release: AnyRelease) -> list[str]:
    """Describe columns that have a label or a unit, with advice from an earlier quality release."""
    if not isinstance(release, Release):
        return []
    told = [f"{name} is {one.caption(name)}" for name, one in release.schema.items() if one.caption(name) != name]
    said = [f"Columns: {'; '.join(told)}."] if told else []
    return [*said, *(f"Data quality, as released before: {note}" for note in release.notes)]


def charge_notes(release: AnyRelease) -> list[str]:
    """Name the charges of a release in the ledger: one sentence, or none for a simulated release."""
    if not release.charge_ids:
        return []
    return [f"Ledger charge{'s' if len(release.charge_ids) > 1 else ''}: {', '.join(release.charge_ids)}."]


def short_guarantee(release: AnyRelease) -> str:
    """Return the privacy parameters in short form, or that there is no guarantee.

    Parameters
    ----------
    release : Release or CombinedRelease
        The release.

    Returns
    -------
    str
        The privacy parameters requested, or "none (public data)".
    """
    return "none (public data)" if release.public else str(release.cost.price)


def title_guarantee(release: AnyRelease) -> str:
    """Return the privacy parameters, or that there is no privacy, as the end of a title."""
    return "public data, no privacy" if release.public else str(release.cost.price)


def guarantee_facts(release: AnyRelease) -> Facts:
    """Return the header lines on privacy parameters and neighbours."""
    return [("Guarantee:", short_guarantee(release)), ("Neighbours:", str(release.neighbors))]


def format_nobs(inference: Inference) -> str:
    """Return the number of rows and its source.

    Parameters
    ----------
    inference : Inference
        The inference.

    Returns
    -------
    str
        Such as "1,234 (noisy)", "1,234 (public)" or "not released".
    """
    return format_count(inference.nobs, public=inference.nobs_is_public)


def format_count(nobs: float | None, *, public: bool) -> str:
    """Format a number of rows and whether it is public or noisy."""
    if nobs is None:
        return "not released"
    return f"{count(nobs)} ({'public' if public else 'noisy'})"


def guarantee(release: AnyRelease) -> str:
    """Return the whole guarantee in two sentences, or that there is none."""
    one = "one row" if release.unit == "one row" else "one person"
    neighbors = _NEIGHBORS[release.neighbors].format(one=one)
    if release.unit != one:
        neighbors += (
            f"; the privacy unit is {release.unit} (further rows of a person were dropped; estimates describe the "
            "rows that were kept)"
        )
    if release.public:
        return (
            "Simulated from public data with the noise of "
            f"{release.cost.describe()}: this is not a private release. {neighbors}."
        )
    return f"Guarantee: {release.cost.describe()}. {neighbors}."


def guarantee_note(release: AnyRelease) -> str:
    """Return the full guarantee and the ledger charges of the release, as the first note of a table."""
    return " ".join([guarantee(release), *charge_notes(release)])


def alike_flags(schema: Schema, target: str) -> tuple[str, ...]:
    """Return a warning that sampling variances treat all rows of a person as alike.

    Parameters
    ----------
    schema : Schema
    target : {"population", "data"}

    Returns
    -------
    tuple of str
        Empty if rows are the unit, or if only noise is an error.
    """
    if schema.rows_per_unit == 1 or target != "population":
        return ()
    most = f"{schema.rows_per_unit:,}"
    return (
        f"a person may have {most} rows, and the correlation among them was not measured: sampling variances are "
        f"multiplied by {most}, which is valid for any within-person correlation and often conservative (for a "
        "regression it assumes homoskedastic errors, as with independent rows); under add_remove, bootstrap() "
        "resamples whole people: it does not assume homoskedasticity, and is more precise where sampling error exceeds "
        "the noise",
    )


def separate_flags(schema: Schema, groups: int, target: str) -> tuple[str, ...]:
    """Return a warning that errors of groups that may share a person are not independent.

    Parameters
    ----------
    schema : Schema
    groups : int
    target : {"population", "data"}

    Returns
    -------
    tuple of str
        Empty if rows are the unit, there is one group, or only noise is an error.
    """
    if schema.rows_per_unit == 1 or groups == 1 or target != "population":
        return ()
    return (
        "a person may have rows in several groups, whose sampling errors are then correlated; the correlation was not "
        "measured: the interval of each group is valid, a comparison of groups may not be",
    )


def refuse_dependent_rows(schema: Schema, what: str, instead: str) -> None:
    """Refuse an inference that assumes independent rows if a person may have several.

    Parameters
    ----------
    schema : Schema
    what : str
        The requested inference.
    instead : str
        A valid alternative.

    Raises
    ------
    NotProvedError
    """
    if schema.rows_per_unit > 1:
        raise NotProvedError(
            f"{what} assumes independent rows, and a person may have {schema.rows_per_unit:,} of them; {instead}, or "
            "max_rows=1"
        )

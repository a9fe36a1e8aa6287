"""Summary tables of regression results; every format comes from ``summary_frame``."""

from __future__ import annotations

import copy
import textwrap
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from statsmodels.iolib.summary import Summary, forg
from statsmodels.iolib.summary2 import Summary as Summary2
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_2cols, fmt_params

from dpinfer.errors import OptionError
from dpinfer.results.contrasts import check_alpha
from dpinfer.results.wording import explain, format_nobs, short_guarantee

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.results.regression import PrivateResults

    Facts = list[tuple[str, str]]

__all__ = [
    "PrivateSummary",
    "build_header",
    "build_summary",
    "build_summary2",
    "header_table",
    "interval_labels",
    "short_guarantee",
    "summary_frame",
    "table_width",
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
HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def statistic_labels(results: PrivateResults) -> tuple[str, str]:
    """Return what the columns of statistic and p-value are called: statsmodels' names where they are true."""
    letter = "t" if results.use_t else "z"
    method = results.inference.method
    return letter, f"P>|{letter}|" if method == "wald" else f"P ({method})"


def interval_labels(alpha: float) -> tuple[str, str]:
    """Return the names of the two columns of an interval, as statsmodels writes them."""
    return f"[{alpha / 2:.6g}", f"{1 - alpha / 2:.6g}]"


def summary_frame(results: PrivateResults, alpha: float = 0.05) -> pd.DataFrame:
    """Return the one table behind every format.

    Parameters
    ----------
    results : PrivateResults
        The results.
    alpha : float
        One minus the confidence of the intervals.

    Returns
    -------
    DataFrame
        As ``PrivateResults.summary_frame`` describes.

    Raises
    ------
    OptionError
        Where ``alpha`` is not strictly between 0 and 1.
    """
    ends = results.conf_int(check_alpha(alpha))
    statistic, pvalue = statistic_labels(results)
    lower, upper = interval_labels(alpha)
    return pd.DataFrame(
        {
            "coef": results.params,
            "std err": results.bse,
            "std err (sampling)": results.bse_sampling,
            "std err (noise)": results.bse_noise,
            statistic: results.tvalues,
            pvalue: results.pvalues,
            lower: ends[0],
            upper: ends[1],
            "noise share": results.noise_share,
        }
    )


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
        for number, note in enumerate(self.notes, 1):
            lines.append((f"[{number}] ", note))
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

    def as_html(self) -> str:
        """Return the summary as HTML, with names and notes escaped."""
        part = self._escaped(HTML)
        tables = "\n".join(table.as_html() for table in part.tables)
        return tables + "<br/><br/>" + "<br/>\n".join(line.translate(HTML) for line in self._lines())

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


def _cells(frame: pd.DataFrame) -> list[list[str]]:
    """Write a coefficient frame as statsmodels writes numbers; noise shares as percentages."""
    columns = [name for name in frame.columns if name not in {"std err (sampling)", "std err (noise)"}]
    rows = []
    for values in frame[columns].to_numpy(dtype=np.float64):
        coef, *middle, pvalue, lower, upper, share = values
        numbers = [forg(coef, prec=4), *(forg(value) for value in middle), f"{pvalue:#6.3f}"]
        rows.append([*numbers, forg(lower), forg(upper), f"{share:.1%}"])
    return rows


def _coefficient_table(frame: pd.DataFrame) -> SimpleTable:
    headers = [name for name in frame.columns if name not in {"std err (sampling)", "std err (noise)"}]
    text_format = copy.deepcopy(fmt_params)
    text_format["data_fmts"] = ["%s", "%s", "%8s", "%s", "%11s", "%11s", "%s"]
    return SimpleTable(_cells(frame), headers=headers, stubs=[str(name) for name in frame.index], txt_fmt=text_format)


def _facts(results: PrivateResults, response: str) -> tuple[Facts, Facts]:
    """Return the label-value pairs of the left and the right half of the header."""
    inference = results.inference
    reference = ("Df Residuals:", f"{inference.df_resid:.6g}") if results.use_t else ("Reference:", "normal")
    rsquared = "" if inference.rsquared is None else f"{inference.rsquared:.3f}"
    scale = "" if inference.scale is None else f"{inference.scale:.5g}"
    left = [
        ("Model:", results.model_name),
        ("Dep. Variable:", response),
        ("Guarantee:", short_guarantee(results.release)),
        ("Neighbours:", str(results.release.neighbors)),
        ("Inference:", inference.method),
    ]
    right = [
        ("No. Observations:", format_nobs(inference)),
        reference,
        ("Df Model:", f"{results.df_model:.0f}"),
        *([("R-squared:", rsquared)] if rsquared else []),
        *([("Scale:", scale)] if scale else []),
    ]
    return left, right + [("", "")] * (len(left) - len(right))


def table_width(table: SimpleTable) -> int:
    """Return the number of characters of the longest line."""
    return max(len(line) for line in table.as_text().splitlines())


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


def build_header(results: PrivateResults, response: str, title: str, table: SimpleTable) -> SimpleTable:
    """Build the facts above a table of estimates, at least as wide as it where there is room to grow."""
    return header_table(*_facts(results, response), title, table_width(table))


def _renamed(results: PrivateResults, xname: Sequence[str] | None, alpha: float) -> pd.DataFrame:
    frame = summary_frame(results, alpha)
    if xname is None:
        return frame
    if len(xname) != len(frame):
        raise OptionError("xname", list(xname), f"{len(frame)} names")
    return frame.set_axis(list(xname), axis=0)


def build_summary(
    results: PrivateResults,
    *,
    yname: str | None = None,
    xname: Sequence[str] | None = None,
    title: str | None = None,
    alpha: float = 0.05,
) -> PrivateSummary:
    """Build the summary; parameters, returns and errors as ``PrivateResults.summary``."""
    frame = _renamed(results, xname, alpha)
    title = title or f"{results.model_name} Results"
    coefficients = _coefficient_table(frame)
    header = build_header(results, yname or results.response, title, coefficients)
    return PrivateSummary(title, header, coefficients, explain(results, frame), results.flags)


def build_summary2(
    results: PrivateResults,
    *,
    yname: str | None = None,
    xname: Sequence[str] | None = None,
    title: str | None = None,
    alpha: float = 0.05,
    float_format: str = "%.4f",
) -> Summary2:
    """Build the second layout; parameters, returns and errors as ``PrivateResults.summary2``."""
    frame = _renamed(results, xname, alpha)
    left, right = _facts(results, yname or results.response)
    table = Summary2()
    table.add_dict(dict(left) | {label: value for label, value in right if label})
    shown = frame.drop(columns=["std err (sampling)", "std err (noise)"])
    table.add_df(shown, float_format=float_format)
    table.settings[0]["float_format"] = float_format  # statsmodels takes the first table's for all
    table.add_title(title or f"Results: {results.model_name}")
    for note in [*explain(results, frame), *(f"Warning: {warning}" for warning in results.flags)]:
        table.add_text(note)
    return table

"""Several results side by side, private and ordinary ones, with what all of them cost together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from dpinfer.errors import OptionError
from dpinfer.results.contrasts import check_alpha
from dpinfer.results.summary_table import SummaryTable, one_line
from dpinfer.results.table_columns import KINDS, Column, read_column
from dpinfer.results.total_cost import charges_of, total_notes
from dpinfer.results.wording import charge_notes, guarantee

if TYPE_CHECKING:
    from dpinfer.release.combined import AnyRelease
    from dpinfer.results.estimates import PrivateEstimates

__all__ = ["summary_table"]

SHOWN = ("std err", "conf_int")
"""What may stand below an estimate."""

_FACTS = ("Model", "N", "Guarantee", "Neighbours", "Noise share", "Inference", "R-squared")
_STARS = (0.1, 0.05, 0.01)


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
    >>> [note for note in table.notes if note.startswith("Total")][0][:62]
    "Total budget of data set 'survey' (add_remove), 1 release: 0.1"
    """
    given = _checked(results)
    check_alpha(alpha)
    _check_options(show, float_format, title)
    columns = [read_column(one, f"results[{place}]", show, alpha, stars) for place, one in enumerate(given)]
    shown = _checked_names(names, len(columns)) or _distinct([column.label for column in columns])
    private = [(name, column.private) for name, column in zip(shown, columns, strict=True) if column.private]
    ordinary = [name for name, column in zip(shown, columns, strict=True) if not column.private]
    unbounded = any(column.private and np.isinf(column.below).any() for column in columns)
    notes = [*_reading(show, alpha, stars, unbounded, private), *_guarantees(private), *total_notes(private)]
    return SummaryTable(
        one_line(title or "Results side by side"),
        _frame(shown, columns, show, float_format),
        tuple(map(one_line, notes)),
        tuple(map(one_line, _warnings(private, ordinary))),
    )


# Options


def _checked(results: object) -> tuple[object, ...]:
    if isinstance(results, str) or not isinstance(results, Sequence) or not results:
        told = "nothing" if isinstance(results, Sequence) and not results else type(results).__name__
        raise OptionError("results", told, f"a list of one or more {KINDS}")
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
        usual = "%.4f" if size == 0 or 1e-3 <= size < 1e4 else "%.4g"
        float_format = "%.1f" if 1e4 <= size < 1e7 else usual
    return (float_format % value).strip()


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

"""Choosing from candidates, where adding noise makes no sense."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError, SchemaError
from dpinfer.kernel.rows.scores import MOST_CANDIDATES
from dpinfer.kernel.stage import Context, Data, Largest, Stage
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.procedure import Procedure
from dpinfer.results.selection import Label, SelectionQuestion, accuracy, infer_selection
from dpinfer.schema.category import Category
from dpinfer.schema.columns import Boolean

if TYPE_CHECKING:
    from dpinfer.privacy.selection import ChoiceLaw
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.release import Release, StageRelease
    from dpinfer.results.selection import SelectionResults
    from dpinfer.schema.schema import Schema

__all__ = ["METHODS", "Selection", "exponential_mechanism", "most_frequent"]

METHODS = ("auto", "exponential", "permute_and_flip")

_CANDIDATE = re.compile(r"""('[^']*'|"[^"]*"|`[^`]*`)|(?<![\w.])candidate(?![\w(])""")


@dataclass(frozen=True, eq=False)
class Selection(Procedure):
    """A choice from candidates. See `exponential_mechanism` and `most_frequent`."""

    candidates: tuple[Label, ...] | None = None
    scores: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    where: str | None = None
    method: str = "auto"
    replaced: bool = False

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise OptionError("method", self.method, METHODS)
        super().__post_init__()
        if isinstance(self.source, Data):
            _ = self._question(self.source.schema).rows

    def _question(self, schema: Schema) -> SelectionQuestion:
        if self.columns:
            candidates, scores = _votes(self.columns, schema)
            asked = f"most frequent {'of ' if len(self.columns) > 1 else ''}{', '.join(self.columns)}"
        else:
            assert self.candidates is not None
            candidates, scores = self.candidates, self.scores
            shown = ", ".join(map(str, candidates[:3])) + (", ..." if len(candidates) > 3 else "")
            asked = f"the best of {len(candidates):,} candidates ({shown})"
            if self.replaced and "candidate" in schema:
                raise OptionError("score", "candidate", "another name for that column: in a score it is the candidate")
        return SelectionQuestion(schema, candidates, scores, self.where, asked)

    def _law(self, privacy: Privacy) -> ChoiceLaw:
        if self.method == "auto":
            return "exponential" if isinstance(privacy, PureDP) else "gumbel"
        return "gumbel" if self.method == "exponential" else "exponential"

    def release_kind(self, context: Context) -> str:  # noqa: ARG002
        """Return "selection"."""
        return "selection"

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the candidate with the largest noisy score."""
        return Stage(Largest(self._question(context.schema).rows, self._law(context.privacy)))

    def question(self, context: Context) -> dict[str, Any]:
        """Return what a release stores of the question."""
        return self._question(context.schema).to_dict()

    def explain(self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None) -> str:
        """Describe the choice, and how far from the best it may be, before anything is spent."""
        measured = self.measurement(privacy, schema=schema, neighbors=neighbors)
        scale = measured.law.scales[0] * measured.steps[0]
        count = len(self._question(measured.context.schema).candidates)
        bounds = ", ".join(
            f"{accuracy(count, scale, measured.law.family, beta):.4g} ({1 - beta:.0%})" for beta in (0.5, 0.05)
        )
        return f"{measured.describe()}\nerror        the score of the choice is within {bounds} of the largest one"

    def infer(self, release: Release | None = None) -> SelectionResults:
        """Read the choice from a release: free, and without any row."""
        found = self._release(release)
        asked: dict[str, Any] = {"where": self.where}
        if not self.columns:
            asked |= {"candidates": list(self.candidates or ()), "scores": list(self.scores)}
        elif found.kind == "selection" and all(name in found.schema for name in self.columns):
            asked |= {"scores": list(_votes(self.columns, found.schema)[1])}
        else:
            asked |= {"columns": list(self.columns)}  # which no choice has: another question
        results: SelectionResults = infer_selection(self._asked(found, "selection", **asked))
        return results


@suggests
def exponential_mechanism(
    score: str | Sequence[str] | Mapping[Any, str],
    candidates: Sequence[Any] | None = None,
    data: Data | Release | None = None,
    *,
    where: str | None = None,
    method: str = "auto",
) -> Selection:
    """Choose privately the candidate with the largest score, a sum over rows.

    Parameters
    ----------
    score : str, sequence of str, or mapping of candidate to str
        What a row adds to a candidate's score: an expression of declared columns, bounded from the schema, in which
        ``candidate`` stands for the candidate; or an expression for each.
    candidates : sequence of numbers, texts or truth values
        What to choose from: 2 to 65,536 of them, public. None where ``score`` is a mapping.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    where : str, optional
        A condition on declared columns; other rows add nothing.
    method : {"auto", "exponential", "permute_and_flip"}
        "auto" is permute-and-flip at a `PureDP` price, where it is never worse, and otherwise the exponential
        mechanism, whose noise is then half as large.

    Returns
    -------
    Selection
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    OptionError
        If there are fewer than two candidates, one twice, or scores do not depend on columns.
    FormulaError, UnknownColumnError
        If a score cannot be bounded from the schema, before anything is spent.

    Notes
    -----
    Scores are summed exactly, noise is added, and the place of the largest is all that is released. Gumbel noise gives
    the exponential mechanism (McSherry & Talwar 2007), exponential noise permute-and-flip (McKenna & Sheldon 2020).

    Examples
    --------
    >>> import pandas as pd
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> rng = np.random.default_rng(1)
    >>> frame = pd.DataFrame({"worth": rng.beta(2, 5, 10_000)})
    >>> data = dpi.PublicData(frame, dpi.Schema(worth=dpi.Real(0, 1)), rng=rng)
    >>> prices = [0.01 * cents for cents in range(1, 100)]
    >>> question = dpi.exponential_mechanism("candidate * (worth >= candidate)", prices, data)
    >>> 0.1 < question.fit(dpi.PureDP(1.0)).selected < 0.3
    True
    """
    labels, given = _read(score, candidates)
    scores = tuple(_with(label, one) for label, one in zip(labels, given, strict=True))
    return Selection(
        source=data, candidates=labels, scores=scores, where=where, method=method, replaced=scores != tuple(given)
    )


@suggests
def most_frequent(
    columns: str | Sequence[str],
    data: Data | Release | None = None,
    *,
    where: str | None = None,
    method: str = "auto",
) -> Selection:
    """Choose privately the most frequent level of a column, or the yes/no column that most often says yes.

    Parameters
    ----------
    columns : str or sequence of str
        One Category, Boolean or short Integer column; or several Boolean columns, of which a row may have any number.
    data, where, method
        As in `exponential_mechanism`.

    Returns
    -------
    Selection

    Raises
    ------
    SchemaError
        If the column has no levels, or several columns are not all Boolean.
    UnknownColumnError, OptionError
        As `exponential_mechanism`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(asthma=dpi.Boolean(), gout=dpi.Boolean(), flu=dpi.Boolean())
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(1000, rng).assign(flu=True)
    >>> data = dpi.PublicData(frame, schema, rng=rng)
    >>> dpi.most_frequent(["asthma", "gout", "flu"], data).fit(dpi.PureDP(0.5)).selected
    'flu'
    """
    listed = (columns,) if isinstance(columns, str) else tuple(columns) if isinstance(columns, Sequence) else ()
    if not listed or not all(isinstance(name, str) and name for name in listed) or len(set(listed)) < len(listed):
        raise OptionError("columns", columns, "a column, or several different Boolean columns")
    return Selection(source=data, columns=listed, where=where, method=method)


def _read(score: Any, candidates: Any) -> tuple[tuple[Label, ...], tuple[str, ...]]:
    """Return candidates and the score of each, as given."""
    if isinstance(score, Mapping):
        if candidates is not None:
            raise OptionError("candidates", candidates, "None where score= names the candidates")
        labels, scores = _labels(list(score)), list(score.values())
    else:
        listed = list(candidates) if isinstance(candidates, Sequence | np.ndarray) else None
        if listed is None or isinstance(candidates, str):
            raise OptionError("candidates", candidates, "a list of two or more candidates")
        labels = _labels(listed)
        scores = [score] * len(labels) if isinstance(score, str) else list(score) if isinstance(score, Sequence) else []
    if len(scores) != len(labels) or not all(isinstance(one, str) and one.strip() for one in scores):
        raise OptionError(
            "score", score, 'an expression such as "candidate * (worth >= candidate)", or one for each candidate'
        )
    return labels, tuple(scores)


def _with(label: Label, score: str) -> str:
    """Put a candidate into a score; texts in quotes and names in backticks stay as they are."""
    return _CANDIDATE.sub(lambda found: found[0] if found[1] else f"({label!r})", score)


def _labels(given: list[Any]) -> tuple[Label, ...]:
    labels = tuple(one.item() if isinstance(one, np.generic) else one for one in given)
    if not 2 <= len(labels) <= MOST_CANDIDATES or len(set(map(repr, labels))) < len(labels):
        raise OptionError("candidates", given[:10], f"two to {MOST_CANDIDATES:,} different candidates")
    finite = all(isinstance(one, str | bool | int) or (isinstance(one, float) and np.isfinite(one)) for one in labels)
    if not finite:
        raise OptionError("candidates", given[:10], "finite numbers, texts or truth values")
    return labels


def _votes(columns: tuple[str, ...], schema: Schema) -> tuple[tuple[Label, ...], tuple[str, ...]]:
    """Candidates and scores of the most frequent level, or yes/no column."""
    if len(columns) > 1:
        for name in columns:
            if not isinstance(schema[name], Boolean):
                raise SchemaError(f"{name!r} is not Boolean: several columns are yes/no answers, each Boolean")
        return columns, tuple(_quoted(name) for name in columns)
    (name,) = columns
    column = schema[name]
    if not column.level_texts:
        raise SchemaError(
            f"{name!r} has no levels: the most frequent needs a Category, a Boolean or an Integer of at most a hundred "
            "values; for a Real give exponential_mechanism() conditions"
        )
    if isinstance(column, Boolean):
        return (False, True), (f"not {_quoted(name)}", _quoted(name))
    levels: tuple[Any, ...] = column.levels if isinstance(column, Category) else tuple(map(int, column.level_texts))
    return levels, tuple(f"{_quoted(name)} == {level!r}" for level in levels)


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"

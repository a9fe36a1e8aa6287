"""Private choice from candidates."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dpinfer.errors import OptionError, ReleaseFormatError, SchemaError
from dpinfer.kernel.rows.scores import MOST_CANDIDATES, ScoreSum
from dpinfer.kernel.stage import Context, Data, Largest, Stage
from dpinfer.privacy.exact import binary, float_above
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.conditions import compiled_where, quoted, told_where
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import is_text, measured, one_of
from dpinfer.procedures.procedure import Procedure
from dpinfer.release.laws import CHOICES
from dpinfer.results.selection import Label, SelectionResults, accuracy
from dpinfer.schema.axes import LevelsAxis
from dpinfer.schema.columns import Boolean
from dpinfer.schema.expressions import compile_expression

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.schema import Schema

__all__ = ["METHODS", "ExponentialMechanism", "MostFrequent", "exponential_mechanism", "most_frequent", "score_sum"]

METHODS = ("auto", "exponential", "permute_and_flip")

_CANDIDATE = re.compile(r"""('[^']*'|"[^"]*"|`[^`]*`)|(?<![\w.])candidate(?![\w(])""")


@dataclass(frozen=True, eq=False)
class Selection(Procedure):
    """A choice of the candidate with the largest noisy score, a sum over rows."""

    released_as = "selection"

    where: str | None = None
    method: str = measured("auto", one_of(METHODS))

    @abstractmethod
    def scored(self, schema: Schema) -> tuple[tuple[Label, ...], tuple[str, ...]]:
        """Return the candidates, and the expression of what a row adds to the score of each."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The choice in words."""

    def rows(self, schema: Schema) -> ScoreSum:
        """Return the row sum.

        Raises
        ------
        OptionError, FormulaError, UnknownColumnError, SchemaError
            If scores cannot be bounded, or depend on no column.
        """
        return score_sum(schema, self.scored(schema)[1], self.where)

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        return self.words + told_where(self.where)

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse scores that the schema cannot bound."""
        _ = self.rows(schema)

    def resolve(self, context: Context) -> Self:
        """Return the same question with the method that the price gets."""
        if self.method != "auto":
            return self
        return replace(self, method="permute_and_flip" if isinstance(context.privacy, PureDP) else "exponential")

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the candidate with the largest noisy score."""
        gumbel = self.resolve(context).method == "exponential"
        return Stage(Largest(self.rows(context.schema), "gumbel" if gumbel else "exponential"))

    def describe(self, measured: Measurement) -> str:
        """Describe the choice, and how far from the best it may be, before anything is spent."""
        scale = measured.law.scales[0] * measured.steps[0]
        count = measured.rows.entries
        bounds = ", ".join(
            f"{accuracy(count, scale, measured.law.family, beta):.4g} ({1 - beta:.0%})" for beta in (0.5, 0.05)
        )
        return (
            f"question     {measured.text}\n{measured.describe()}\n"
            f"error        the score of the choice is within {bounds} of the largest one"
        )

    def check_release(self, release: Release) -> None:
        """Refuse a release that holds no choice from the candidates."""
        super().check_release(release)
        (chosen,) = release.stages
        count = self.rows(release.schema).entries
        place, law = chosen.values[0], chosen.law
        if not (0 <= place < count and law.family in CHOICES and law.scales[0] > 0):
            raise ReleaseFormatError("what was chosen is none of the candidates")

    def infer(self, release: Release | None = None) -> SelectionResults:
        """Read the choice from a release: free, and without any row."""
        found, _ = self._asked_of(release)
        candidates, _ = self.scored(found.schema)
        return SelectionResults(
            selected=candidates[found.stages[0].values[0]],
            candidates=candidates,
            scale=float_above(binary(found.law.scales[0]) * binary(found.steps[0])),
            release=found,
            response=self.words,
        )


@dataclass(frozen=True, eq=False)
class ExponentialMechanism(Selection):
    """A choice from candidates with scores of any kind. See `exponential_mechanism`."""

    procedures = ("exponential_mechanism",)

    score: str | tuple[str, ...] = ""
    candidates: tuple[str | bool | int | float, ...] = ()

    def check_options(self) -> None:
        """Refuse invalid candidates, and scores that do not fit them."""
        _check_labels(self.candidates)
        fits = isinstance(self.score, str) or len(self.score) == len(self.candidates)
        if not fits or not all(map(is_text, self._given)):
            raise OptionError(
                "score",
                self.score,
                'an expression such as "candidate * (worth >= candidate)", or one for each candidate',
            )

    @cached_property
    def scores(self) -> tuple[str, ...]:
        """Expression of what a row adds to the score of each candidate."""
        given = (self.score,) * len(self.candidates) if isinstance(self.score, str) else self.score
        return tuple(_with(label, score) for label, score in zip(self.candidates, given, strict=True))

    @property
    def words(self) -> str:
        """The choice in words."""
        shown = ", ".join(map(str, self.candidates[:3])) + (", ..." if len(self.candidates) > 3 else "")
        return f"the best of {len(self.candidates):,} candidates ({shown})"

    def scored(self, schema: Schema) -> tuple[tuple[Label, ...], tuple[str, ...]]:
        """Return the candidates, and the expression of what a row adds to the score of each."""
        if "candidate" in schema and any(map(_names_candidate, self._given)):
            raise OptionError("score", "candidate", "another name for that column: in a score it is the candidate")
        return self.candidates, self.scores

    @property
    def _given(self) -> tuple[str, ...]:
        return (self.score,) if isinstance(self.score, str) else self.score

    @property
    def about(self) -> object:
        """The candidates, their scores and the rows; the method does not matter."""
        return type(self), tuple(map(repr, self.candidates)), self.scores, self.where


@dataclass(frozen=True, eq=False)
class MostFrequent(Selection):
    """The most frequent level of a column, or yes/no column. See `most_frequent`."""

    procedures = ("most_frequent",)

    columns: tuple[str, ...] = ()

    def check_options(self) -> None:
        """Refuse invalid columns."""
        columns = self.columns
        if not columns or not all(map(is_text, columns)) or len(set(columns)) < len(columns):
            raise OptionError("columns", list(columns), "a column, or several different Boolean columns")

    @property
    def words(self) -> str:
        """The choice in words."""
        return f"most frequent {'of ' if len(self.columns) > 1 else ''}{', '.join(self.columns)}"

    def scored(self, schema: Schema) -> tuple[tuple[Label, ...], tuple[str, ...]]:
        """Return the levels or columns, and the expression of what a row adds to the score of each."""
        return _votes(self.columns, schema)

    @property
    def about(self) -> object:
        """The levels or columns, and the rows; the method does not matter."""
        return type(self), self.columns, self.where


@suggests
def exponential_mechanism(
    score: str | Sequence[str] | Mapping[Any, str],
    data: Data | Release | None = None,
    *,
    candidates: Sequence[Any] | None = None,
    where: str | None = None,
    method: str = "auto",
) -> ExponentialMechanism:
    """Choose among public candidates one whose score, a sum over rows, is about the largest.

    Parameters
    ----------
    score : str, sequence of str, or mapping of candidate to str
        What a row adds to a candidate's score: an expression of declared columns, bounded from the schema, in which
        ``candidate`` stands for the candidate; or an expression for each.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    candidates : sequence of numbers, texts or truth values
        What to choose from: 2 to 65,536 of them, public. None where ``score`` is a mapping.
    where : str, optional
        A condition on declared columns; other rows add nothing.
    method : {"auto", "exponential", "permute_and_flip"}
        "auto" is permute-and-flip at a `PureDP` price, where it is never worse, and otherwise the exponential
        mechanism, whose noise is then half as large.

    Returns
    -------
    ExponentialMechanism
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
    >>> question = dpi.exponential_mechanism("candidate * (worth >= candidate)", data, candidates=prices)
    >>> 0.1 < question.fit(dpi.PureDP(1.0)).selected < 0.3
    True
    """
    given, labels = _read(score, candidates)
    return ExponentialMechanism.asking(locals(), score=given, candidates=labels)


@suggests
def most_frequent(
    columns: str | Sequence[str],
    data: Data | Release | None = None,
    *,
    where: str | None = None,
    method: str = "auto",
) -> MostFrequent:
    """Choose the most frequent level of a column, or the yes/no column that most often says yes.

    Parameters
    ----------
    columns : str or sequence of str
        One Category, Boolean or short Integer column; or several Boolean columns, of which a row may have any number.
    data, where, method
        As in `exponential_mechanism`.

    Returns
    -------
    MostFrequent

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
    return MostFrequent.asking(locals(), columns=listed)


def _read(score: Any, candidates: Any) -> tuple[str | tuple[str, ...], tuple[Label, ...]]:
    """Return scores and candidates as given."""
    if isinstance(score, Mapping):
        if candidates is not None:
            raise OptionError("candidates", candidates, "None where score= names the candidates")
        return tuple(score.values()), _labels(list(score))
    listed = list(candidates) if isinstance(candidates, Sequence | np.ndarray) else None
    if listed is None or isinstance(candidates, str):
        raise OptionError("candidates", candidates, "a list of two or more candidates")
    labels = _labels(listed)
    if isinstance(score, str):
        return score, labels
    return tuple(score) if isinstance(score, Sequence) else (), labels


def _with(label: Label, score: str) -> str:
    """Put a candidate into a score; texts in quotes and names in backticks stay as they are."""
    return _CANDIDATE.sub(lambda found: found[0] if found[1] else f"({label!r})", score)


def _names_candidate(score: str) -> bool:
    """Whether the word ``candidate`` of a score stands for the candidate somewhere."""
    return any(found[1] is None for found in _CANDIDATE.finditer(score))


def _labels(given: list[Any]) -> tuple[Label, ...]:
    """Read candidates: numbers of numpy become plain ones."""
    return tuple(one.item() if isinstance(one, np.generic) else one for one in given)


def _check_labels(labels: tuple[Label, ...]) -> None:
    if not 2 <= len(labels) <= MOST_CANDIDATES or len(set(map(repr, labels))) < len(labels):
        raise OptionError("candidates", list(labels[:10]), f"two to {MOST_CANDIDATES:,} different candidates")
    finite = all(isinstance(one, str | bool | int) or (isinstance(one, float) and np.isfinite(one)) for one in labels)
    if not finite:
        raise OptionError("candidates", list(labels[:10]), "finite numbers, texts or truth values")


@lru_cache(maxsize=4)
def score_sum(schema: Schema, scores: tuple[str, ...], where: str | None, least: int = 2) -> ScoreSum:
    """Return the row sum of at least so many scores.

    Raises
    ------
    OptionError, FormulaError, UnknownColumnError
        If scores cannot be bounded, or depend on no column.
    """
    compiled = tuple(compile_expression(score, schema) for score in scores)
    found = ScoreSum(schema, compiled, compiled_where(where, schema))
    found.check(least)
    return found


def _votes(columns: tuple[str, ...], schema: Schema) -> tuple[tuple[Label, ...], tuple[str, ...]]:
    """Candidates and scores of the most frequent level, or yes/no column."""
    if len(columns) > 1:
        for name in columns:
            if not isinstance(schema[name], Boolean):
                raise SchemaError(f"{name!r} is not Boolean: several columns are yes/no answers, each Boolean")
        return columns, tuple(quoted(name) for name in columns)
    (name,) = columns
    column = schema[name]
    if not column.level_texts:
        raise SchemaError(
            f"{name!r} has no levels: the most frequent needs a Category, a Boolean or an Integer of at most a hundred "
            "values; for a Real give exponential_mechanism() conditions"
        )
    if isinstance(column, Boolean):
        return (False, True), (f"not {quoted(name)}", quoted(name))
    levels = LevelsAxis(schema, name).labels
    return levels, tuple(f"{quoted(name)} == {level!r}" for level in levels)

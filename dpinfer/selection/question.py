"""Questions that choose among candidates, or compare sums with thresholds, by noisy sums over rows."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dpinfer.checks import is_finite, is_list, is_number, is_text, items_of, one_of, require
from dpinfer.errors import OptionError, ReleaseFormatError, SchemaError, type_of
from dpinfer.kernel.rows.scores import MOST_CANDIDATES, ScoreSum
from dpinfer.kernel.stage import Above, Context, Data, Largest, Stage
from dpinfer.privacy.exact import binary, float_above
from dpinfer.privacy.units import Neighbors, PureDP
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import compiled_where, inferred, measured, told_where
from dpinfer.procedures.procedure import Procedure
from dpinfer.release.laws import ABOVE, BELOW, CHOICES, NOT_REACHED
from dpinfer.schema.axes import LevelsAxis
from dpinfer.schema.columns import Boolean
from dpinfer.schema.expressions import compile_expression, quoted
from dpinfer.selection.results import Label, SelectionResults, ThresholdResults, accuracy, clear_distance

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.schema import Schema


_CANDIDATE = re.compile(r"""('[^']*'|"[^"]*"|`[^`]*`)|(?<![\w.])candidate(?![\w(])""")

_LARGEST = 1e150
"""Bound on thresholds."""

_ANSWERS = {ABOVE: "above", BELOW: "below", NOT_REACHED: "not reached"}


@dataclass(frozen=True, eq=False)
class Selection(Procedure):
    """A choice of the candidate with the largest noisy score, which is a sum over rows."""

    released_as = "selection"

    where: str | None = None
    method: str = measured("auto", one_of(("auto", "exponential", "permute_and_flip")))

    @abstractmethod
    def scored(self, schema: Schema) -> tuple[tuple[Label, ...], tuple[str, ...]]:
        """Return the candidates, and the expression for a row's contribution to each score."""

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
        self.rows(schema)

    def resolve(self, context: Context) -> Self:
        """Return the same question with the method that suits the privacy parameters."""
        if self.method != "auto":
            return self
        return replace(self, method="permute_and_flip" if isinstance(context.privacy, PureDP) else "exponential")

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Return the measurement of the candidate with the largest noisy score."""
        gumbel = self.resolve(context).method == "exponential"
        return Stage(Largest(self.rows(context.schema), "gumbel" if gumbel else "exponential"))

    def describe(self, measured: Measurement) -> str:
        """Describe the choice, and how far from the best it may be, before any budget is spent."""
        law, count = measured.law, measured.rows.entries
        half, most = (accuracy(count, law.scales[0] * measured.steps[0], law.family, beta) for beta in (0.5, 0.05))
        return (
            f"question     {measured.text}\n{measured.describe()}\n"
            f"error        the score of the choice is within {half:.4g} (50%), {most:.4g} (95%) of the largest one"
        )

    def check_release(self, release: Release) -> None:
        """Refuse a release that does not hold a choice from the candidates."""
        super().check_release(release)
        place, law = release.stages[0].values[0], release.law
        if not (0 <= place < self.rows(release.schema).entries and law.family in CHOICES and law.scales[0] > 0):
            raise ReleaseFormatError("the released choice is not a candidate")

    def infer(self, release: Release | None = None) -> SelectionResults:
        """Read the choice from a release, at no privacy cost and without reading a row."""
        found, _ = self._asked_of(release)
        candidates, _ = self.scored(found.schema)
        scale = float_above(binary(found.law.scales[0]) * binary(found.steps[0]))
        return SelectionResults(candidates[found.stages[0].values[0]], candidates, scale, found, self.words)


@dataclass(frozen=True, eq=False)
class ExponentialMechanism(Selection):
    """A choice from candidates with scores of any kind; see `exponential_mechanism`."""

    procedures = ("exponential_mechanism",)

    score: str | tuple[str, ...] = ""
    candidates: tuple[str | bool | int | float, ...] = ()

    def check_options(self) -> None:
        """Refuse invalid candidates, and scores that do not match them."""
        labels, first = self.candidates, list(self.candidates[:10])
        if not 2 <= len(labels) <= MOST_CANDIDATES or len(set(map(repr, labels))) < len(labels):
            raise OptionError("candidates", first, f"two to {MOST_CANDIDATES:,} different candidates")
        plain = all(isinstance(one, str | bool) or is_finite(one) for one in labels)
        require(plain, "candidates", first, "finite numbers, texts or truth values")
        if not all(map(is_text, self._given)) or len(self._given) != len(labels):
            right = 'an expression such as "candidate * (worth >= candidate)", or one for each candidate'
            raise OptionError("score", self.score, right)

    @property
    def _given(self) -> tuple[str, ...]:
        """The score of each candidate, as given."""
        return (self.score,) * len(self.candidates) if isinstance(self.score, str) else self.score

    @cached_property
    def scores(self) -> tuple[str, ...]:
        """Expressions for a row's contribution to the score of each candidate."""
        return tuple(map(_with, self.candidates, self._given))

    @property
    def words(self) -> str:
        """The choice in words."""
        return f"the best of {len(self.candidates):,} candidates ({_first_of(self.candidates)})"

    def scored(self, schema: Schema) -> tuple[tuple[Label, ...], tuple[str, ...]]:
        """Return the candidates, and the expression for a row's contribution to each score."""
        if "candidate" in schema and self.scores != self._given:
            raise OptionError("score", "candidate", "another name for that column: in a score it is the candidate")
        return self.candidates, self.scores

    @property
    def about(self) -> object:
        """Return the candidates, their scores and the rows; the method does not matter."""
        return type(self), tuple(map(repr, self.candidates)), self.scores, self.where


@dataclass(frozen=True, eq=False)
class MostFrequent(Selection):
    """The most frequent level of a column, or yes/no column; see `most_frequent`."""

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
        """Return the levels or columns, and the expression for a row's contribution to each score."""
        if len(self.columns) > 1:
            for name in self.columns:
                if not isinstance(schema[name], Boolean):
                    raise SchemaError(f"{name!r} is not Boolean: several columns are yes/no answers, each Boolean")
            return self.columns, tuple(map(quoted, self.columns))
        (name,) = self.columns
        if not schema[name].level_texts:
            raise SchemaError(
                f"{name!r} has no levels: the most frequent needs a Category, a Boolean or an Integer of at most a "
                "hundred values; for a Real give exponential_mechanism() conditions"
            )
        if isinstance(schema[name], Boolean):
            return (False, True), (f"not {quoted(name)}", quoted(name))
        levels = LevelsAxis(schema, name).labels
        return levels, tuple(f"{quoted(name)} == {level!r}" for level in levels)

    @property
    def about(self) -> object:
        """Return the levels or columns, and the rows; the method does not matter."""
        return type(self), self.columns, self.where


@dataclass(frozen=True, eq=False)
class AboveThreshold(Procedure):
    """A comparison of several sums over rows with thresholds; see `above_threshold`."""

    procedures = ("above_threshold",)

    queries: tuple[str, ...] = ()
    threshold: tuple[int | float, ...] = ()
    answers: int = 1
    where: str | None = None
    labels: tuple[str | bool | int | float, ...] = inferred(())

    def check_options(self) -> None:
        """Refuse invalid queries, thresholds that do not match them, and a wrong number of answers."""
        size, first = len(self.queries), list(self.labels[:10])
        if not 1 <= size <= MOST_CANDIDATES or not all(map(is_text, self.queries)):
            right = f'1 to {MOST_CANDIDATES:,} conditions or expressions such as ["age > 60", "smokes"]'
            raise OptionError("queries", list(self.queries[:10]), right)
        if len(self.labels) != size or len(set(map(repr, self.labels))) < size:
            raise OptionError("queries", first, "a different label for each query: give a mapping")
        plain = all(isinstance(one, str | int | float) for one in self.labels)
        require(plain, "queries", first, "texts, numbers or truth values as labels")
        if len(self.threshold) != size or not all(is_number(one) and abs(one) <= _LARGEST for one in self.threshold):
            right = f"one finite number, or one for each of {size:,} queries"
            raise OptionError("threshold", list(self.threshold[:10]), right)
        if type(self.answers) is not int or not 1 <= self.answers <= size:
            raise OptionError("answers", self.answers, f"a whole number from 1 to the number of queries, {size:,}")

    def rows(self, schema: Schema) -> ScoreSum:
        """Return the row sum.

        Raises
        ------
        OptionError, FormulaError, UnknownColumnError, SchemaError
            If queries cannot be bounded, or depend on no column.
        """
        return score_sum(schema, self.queries, self.where, 1)

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        size = len(self.queries)
        threshold = f"{self.threshold[0]:g}" if len(set(self.threshold)) == 1 else "their thresholds"
        first = "the first of" if self.answers == 1 else f"the first {self.answers:,} of"
        queries = f"{size:,} quer{'y' if size == 1 else 'ies'} ({_first_of(self.labels)})"
        return f"{first} {queries} to be at least {threshold}{told_where(self.where)}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse queries that the schema cannot bound."""
        self.rows(schema)

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Return the measurement of which sums reach their thresholds, each in whole steps."""
        rows = self.rows(context.schema)
        step = Fraction(rows.step)
        return Stage(Above(rows, tuple(math.ceil(Fraction(one) / step) for one in self.threshold), self.answers))

    def describe(self, measured: Measurement) -> str:
        """Describe the comparison, and the distance at which answers are clear, before any budget is spent."""
        law, step, size = measured.law, measured.steps[0], len(self.queries)
        one, all_of_them = (clear_distance(law, step, 0.05 / parts) for parts in (1, size))
        joint = f"; all are right with 95% if all are {all_of_them:.6g} away" if size > 1 else ""
        return (
            f"question     {measured.text}\n{measured.describe()}\n"
            f"error        the answer to a query {one:.6g} from its threshold is right with probability 95%{joint}"
        )

    def check_release(self, release: Release) -> None:
        """Refuse a release that does not hold answers to the queries."""
        super().check_release(release)
        values, law = release.stages[0].values, release.law
        ends = [place for place, one in enumerate(values) if one == ABOVE][self.answers - 1 :]
        reached = ends[0] + 1 if ends else len(values)
        right = len(values) == len(self.queries) and law.family == "above" and min(*law.scales, law.shared) > 0
        right = right and all(one in (ABOVE, BELOW) for one in values[:reached])
        if not right or any(one != NOT_REACHED for one in values[reached:]):
            raise ReleaseFormatError("the release does not hold answers to the queries")

    def infer(self, release: Release | None = None) -> ThresholdResults:
        """Read the answers from a release, at no privacy cost and without reading a row."""
        found, _ = self._asked_of(release)
        answers = tuple(_ANSWERS[one] for one in found.stages[0].values)
        return ThresholdResults(self.labels, self.threshold, answers, self.answers, found, self.text(found.schema))


@suggests
def exponential_mechanism(
    score: str | Sequence[str] | Mapping[Any, str],
    data: Data | Release | None = None,
    *,
    candidates: Sequence[Any] | None = None,
    where: str | None = None,
    method: str = "auto",
) -> ExponentialMechanism:
    """Choose a public candidate whose score, a sum over rows, is nearly the largest.

    Parameters
    ----------
    score : str, sequence of str, or mapping of candidate to str
        A row's contribution to a candidate's score: an expression in declared columns, bounded by the schema, in which
        ``candidate`` stands for the candidate; or an expression for each.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    candidates : sequence of numbers, texts or truth values
        The 2 to 65,536 public candidates. None if ``score`` is a mapping.
    where : str, optional
        A condition on declared columns; rows that do not meet it contribute nothing.
    method : {"auto", "exponential", "permute_and_flip"}
        "auto" is permute-and-flip under `PureDP`, where it is never worse, and otherwise the exponential mechanism,
        whose noise is then half as large.

    Returns
    -------
    ExponentialMechanism
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    OptionError
        If there are fewer than two candidates, one is repeated, or scores do not depend on columns.
    FormulaError, UnknownColumnError
        If the schema does not bound a score; raised before any budget is spent.

    Notes
    -----
    Scores are summed exactly, noise is added, and only the index of the largest is released. Gumbel noise gives the
    exponential mechanism (McSherry & Talwar 2007), exponential noise permute-and-flip (McKenna & Sheldon 2020).

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
    if isinstance(score, Mapping):
        if candidates is not None:
            raise OptionError("candidates", candidates, "None where score= names the candidates")
        return ExponentialMechanism.asking(locals(), score=tuple(score.values()), candidates=_plain(score))
    if not is_list(candidates):
        raise OptionError("candidates", candidates, "a list of two or more candidates")
    given = score if isinstance(score, str) else tuple(score) if isinstance(score, Sequence) else ()
    return ExponentialMechanism.asking(locals(), score=given, candidates=_plain(candidates))


@suggests
def most_frequent(
    columns: str | Sequence[str], data: Data | Release | None = None, *, where: str | None = None, method: str = "auto"
) -> MostFrequent:
    """Choose the most frequent level of a column, or the yes/no column with the most yes answers.

    Parameters
    ----------
    columns : str or sequence of str
        One Category, Boolean or short Integer column; or several Boolean columns, any number of which may be true in a
        row.
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
    return MostFrequent.asking(locals(), columns=items_of(columns))


@suggests
def above_threshold(
    queries: str | Sequence[str] | Mapping[Any, str],
    data: Data | Release | None = None,
    *,
    threshold: float | Sequence[float] | Mapping[Any, float],
    answers: int = 1,
    where: str | None = None,
) -> AboveThreshold:
    """Find which of many sums over rows reach a threshold, stopping after the first few.

    Parameters
    ----------
    queries : str, sequence of k str, or mapping of label to str
        Conditions on declared columns such as ``"age > 60"``, which count the rows that meet them; or expressions,
        bounded by the schema, to be summed. They are answered in this order. A mapping names them.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    threshold : number, sequence of k numbers, or mapping of label to number
        Public thresholds.
    answers : int
        Number of answers "above" after which no further query is answered. The privacy cost covers all of them, whether
        they occur or not; answers "below" add no cost.
    where : str, optional
        A condition on declared columns; rows that do not meet it contribute nothing.

    Returns
    -------
    AboveThreshold
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    OptionError
        If there are no queries, two have the same label, thresholds do not match the queries, or ``answers`` is not a
        whole number from 1 to k.
    FormulaError, UnknownColumnError
        If the schema does not bound a query; raised before any budget is spent.

    Notes
    -----
    The sparse vector technique, as in algorithms 1 and 7 of Lyu, Su & Li (2017), on exact integers with discrete
    Laplace noise. Only "above", "below" or "not reached" is released for each of the k queries. `docs/selection.md` has
    the proof.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> import numpy as np
    >>> schema = dpi.Schema(age=dpi.Integer(0, 100), smokes=dpi.Boolean())
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(10_000, rng), schema, rng=rng)
    >>> queries = {"old": "age > 95", "smokers": "smokes", "young": "age < 20"}
    >>> found = dpi.above_threshold(queries, data, threshold=1000).fit(dpi.PureDP(0.5))
    >>> found.answers
    ('below', 'above', 'not reached')
    """
    if isinstance(queries, Mapping):
        labels, texts = _plain(queries), tuple(queries.values())
    else:
        texts = items_of(queries)
        if not texts or not all(map(is_text, texts)):
            given = type_of(queries) if not texts else list(texts[:10])
            right = 'conditions or expressions such as ["age > 60", "smokes"], or a mapping'
            raise OptionError("queries", given, right)
        labels = texts  # a query without a label is called by its text
    if isinstance(threshold, Mapping):
        named = dict(zip(map(repr, _plain(threshold)), _plain(threshold.values()), strict=True))
        if named.keys() != set(map(repr, labels)):
            raise OptionError("threshold", list(threshold)[:10], "a threshold for each label of the queries")
        thresholds = tuple(named[repr(label)] for label in labels)
    elif is_list(threshold):
        thresholds = _plain(threshold)
    elif is_number(threshold):
        thresholds = _plain([threshold]) * len(labels)
    else:
        raise OptionError("threshold", threshold, "a number, or one for each query")
    return AboveThreshold.asking(locals(), labels=labels, queries=texts, threshold=thresholds)


@lru_cache(maxsize=4)
def score_sum(schema: Schema, scores: tuple[str, ...], where: str | None, least: int = 2) -> ScoreSum:
    """Return the row sum of at least a given number of scores.

    Raises
    ------
    OptionError, FormulaError, UnknownColumnError
        If scores cannot be bounded, or depend on no column.
    """
    compiled = tuple(compile_expression(score, schema) for score in scores)
    found = ScoreSum(schema, compiled, compiled_where(where, schema))
    found.check(least)
    return found


def _with(label: Label, score: str) -> str:
    """Substitute a candidate into a score; quoted texts and names in backticks are unchanged."""
    return _CANDIDATE.sub(lambda found: found[0] if found[1] else f"({label!r})", score)


def _plain(given: Iterable[Any]) -> tuple[Any, ...]:
    """Return labels or numbers, with numpy scalars as plain ones."""
    return tuple(one.item() if isinstance(one, np.generic) else one for one in given)


def _first_of(labels: tuple[Label, ...]) -> str:
    return ", ".join(map(str, labels[:3])) + (", ..." if len(labels) > 3 else "")

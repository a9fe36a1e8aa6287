"""Which sums over rows are above a threshold: the sparse vector technique."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError, ReleaseFormatError, type_of
from dpinfer.kernel.rows.scores import MOST_CANDIDATES
from dpinfer.kernel.stage import Above, Context, Data, Stage
from dpinfer.procedures.conditions import told_where
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import is_number, is_text
from dpinfer.procedures.procedure import Procedure, inferred
from dpinfer.procedures.selection import score_sum
from dpinfer.release.laws import ABOVE, BELOW, NOT_REACHED
from dpinfer.results.threshold import ThresholdResults, clear_distance

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.rows.scores import ScoreSum
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import Release, StageRelease
    from dpinfer.results.selection import Label
    from dpinfer.schema.schema import Schema

__all__ = ["AboveThreshold", "above_threshold"]

_LARGEST = 1e150
"""Bound on thresholds."""

_TOLD = {ABOVE: "above", BELOW: "below", NOT_REACHED: "not reached"}


@dataclass(frozen=True, eq=False)
class AboveThreshold(Procedure):
    """Which of several sums over rows are at least their thresholds. See `above_threshold`."""

    procedures = ("above_threshold",)

    queries: tuple[str, ...] = ()
    threshold: tuple[int | float, ...] = ()
    answers: int = 1
    where: str | None = None
    labels: tuple[str | bool | int | float, ...] = inferred(())

    def check_options(self) -> None:
        """Refuse what is no query, thresholds that do not fit the queries, and a wrong number of answers."""
        size = len(self.queries)
        if not 1 <= size <= MOST_CANDIDATES or not all(map(is_text, self.queries)):
            raise OptionError(
                "queries",
                list(self.queries[:10]),
                f'1 to {MOST_CANDIDATES:,} conditions or expressions such as ["age > 60", "smokes"]',
            )
        if len(self.labels) != size or len(set(map(repr, self.labels))) < size:
            raise OptionError("queries", list(self.labels[:10]), "a different label for each query: give a mapping")
        if not all(isinstance(one, str | bool | int | float) for one in self.labels):
            raise OptionError("queries", list(self.labels[:10]), "texts, numbers or truth values as labels")
        right = len(self.threshold) == size and all(is_number(one) and _is_finite(one) for one in self.threshold)
        if not right:
            raise OptionError(
                "threshold", list(self.threshold[:10]), f"one finite number, or one for each of {size:,} queries"
            )
        if type(self.answers) is not int or not 1 <= self.answers <= size:
            raise OptionError("answers", self.answers, f"a whole number from 1 to that of the queries, {size:,}")

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
        shown = ", ".join(map(str, self.labels[:3])) + (", ..." if len(self.labels) > 3 else "")
        same = len(set(self.threshold)) == 1
        threshold = f"{self.threshold[0]:g}" if same else "their thresholds"
        first = "the first of" if self.answers == 1 else f"the first {self.answers:,} of"
        size = len(self.queries)
        return (
            f"{first} {size:,} quer{'y' if size == 1 else 'ies'} ({shown}) to be at least {threshold}"
            f"{told_where(self.where)}"
        )

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse queries that the schema cannot bound."""
        _ = self.rows(schema)

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask which sums are at least their thresholds, each in whole steps."""
        rows = self.rows(context.schema)
        step = Fraction(rows.step)
        return Stage(Above(rows, tuple(math.ceil(Fraction(one) / step) for one in self.threshold), self.answers))

    def describe(self, measured: Measurement) -> str:
        """Describe the comparison, and from which distance its answers are clear, before anything is spent."""
        law, step, size = measured.law, measured.steps[0], len(self.queries)
        one, all_of_them = (clear_distance(law, step, 0.05 / parts) for parts in (1, size))
        joint = f"; all are right with 95% if all are {all_of_them:.6g} away" if size > 1 else ""
        return (
            f"question     {measured.text}\n{measured.describe()}\n"
            f"error        the answer to a query {one:.6g} from its threshold is right with probability 95%{joint}"
        )

    def check_release(self, release: Release) -> None:
        """Refuse a release that holds no answers to the queries."""
        super().check_release(release)
        (told,) = release.stages
        values = told.values
        ends = [place for place, one in enumerate(values) if one == ABOVE][self.answers - 1 :]
        reached = ends[0] + 1 if ends else len(values)
        right = (
            len(values) == len(self.queries)
            and told.law.family == "above"
            and min(*told.law.scales, told.law.shared) > 0
        )
        right = right and all(one in (ABOVE, BELOW) for one in values[:reached])
        if not right or any(one != NOT_REACHED for one in values[reached:]):
            raise ReleaseFormatError("what was released are no answers to the queries")

    def infer(self, release: Release | None = None) -> ThresholdResults:
        """Read the answers from a release: free, and without any row."""
        found, _ = self._asked_of(release)
        return ThresholdResults(
            labels=self.labels,
            thresholds=self.threshold,
            answers=tuple(_TOLD[one] for one in found.stages[0].values),
            most=self.answers,
            release=found,
            response=self.text(found.schema),
        )


@suggests
def above_threshold(
    queries: str | Sequence[str] | Mapping[Any, str],
    data: Data | Release | None = None,
    *,
    threshold: float | Sequence[float] | Mapping[Any, float],
    answers: int = 1,
    where: str | None = None,
) -> AboveThreshold:
    """Say which of many sums over rows reach a threshold, and stop after the first few that do.

    Parameters
    ----------
    queries : str, sequence of k str, or mapping of label to str
        Conditions on declared columns such as ``"age > 60"``, of which the rows that meet them are counted; or
        expressions, bounded from the schema, that are summed. They are answered in this order. A mapping names them.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    threshold : number, sequence of k numbers, or mapping of label to number
        Public.
    answers : int
        After so many answers "above" no further query is answered. The price is for all of them, whether they are given
        or not; answers "below" cost nothing besides.
    where : str, optional
        A condition on declared columns; other rows add nothing.

    Returns
    -------
    AboveThreshold
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    OptionError
        If there is no query, two have one label, thresholds do not fit the queries, or ``answers`` is not a whole
        number from 1 to k.
    FormulaError, UnknownColumnError
        If a query cannot be bounded from the schema, before anything is spent.

    Notes
    -----
    The sparse vector technique as in algorithms 1 and 7 of Lyu, Su & Li (2017), on exact integers with discrete Laplace
    noise. Only "above", "below" or "not reached" is released, for each of the k queries. Proof in `docs/selection.md`.

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
    labels, listed = _read(queries)
    return AboveThreshold.asking(locals(), labels=labels, queries=listed, threshold=_thresholds(threshold, labels))


def _read(queries: Any) -> tuple[tuple[Label, ...], tuple[str, ...]]:
    """Return labels and queries as given; a query without a label is called by its text."""
    if isinstance(queries, Mapping):
        return tuple(_plain(one) for one in queries), tuple(queries.values())
    listed = (queries,) if isinstance(queries, str) else tuple(queries) if isinstance(queries, Sequence) else ()
    if not listed or not all(map(is_text, listed)):
        given = type_of(queries) if not listed else list(listed[:10])
        raise OptionError("queries", given, 'conditions or expressions such as ["age > 60", "smokes"], or a mapping')
    return listed, listed


def _thresholds(given: Any, labels: tuple[Label, ...]) -> tuple[int | float, ...]:
    """Return a threshold for each query, as plain numbers where they are numbers."""
    if isinstance(given, Mapping):
        if set(map(repr, map(_plain, given))) != set(map(repr, labels)):
            raise OptionError("threshold", list(given)[:10], "a threshold for each label of the queries")
        named = {repr(_plain(label)): one for label, one in given.items()}
        return tuple(_plain(named[repr(label)]) for label in labels)
    if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
        return tuple(_plain(one) for one in given)
    if not is_number(given):
        raise OptionError("threshold", given, "a number, or one for each query")
    return (_plain(given),) * len(labels)


def _plain(one: Any) -> Any:
    return one.item() if isinstance(one, np.generic) else one


def _is_finite(one: Any) -> bool:
    return bool(abs(one) <= _LARGEST)

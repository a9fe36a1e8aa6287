"""Linear queries: chosen combinations of table counts, measured without releasing the counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd

from dpinfer.checks import is_text, one_of, texts_of
from dpinfer.errors import OptionError, ReleaseFormatError, names_of, type_of
from dpinfer.kernel.rows.cells import LARGEST_WEIGHT, MOST_CELLS, MOST_QUERIES, CellSum, QuerySum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.stage import Context, Data, Noise, Stage, Sum
from dpinfer.procedures.cell_sums import MeasuredCounts
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import Contrasts, axes_of, compiled_where, inferred, told_where, where_notes
from dpinfer.procedures.procedure import Procedure, first_error
from dpinfer.release import Release, StageRelease
from dpinfer.results.descriptions import DescriptionResults
from dpinfer.schema.basis import basis_of
from dpinfer.schema.expressions import axis_from_dict
from dpinfer.statistics.arrays import Array, floats
from dpinfer.statistics.combination import METHODS, measured_queries

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.inference import BatchEstimates, Oracle, Released


_MOST_WEIGHTS = 2**22


@suggests
def linear_queries(
    columns: str | Sequence[str],
    data: Data | Release | None = None,
    *,
    queries: ArrayLike | pd.DataFrame | Mapping[str, Any],
    names: Sequence[str] | None = None,
    where: str | None = None,
    inference: str = "auto",
    draws: int = 1,
) -> LinearQueries:
    """Measure chosen combinations W x of the counts x of a table, without releasing x.

    Parameters
    ----------
    columns : str or sequence of str
        As in `table`: Category, Boolean or short Integer columns, or conditions such as ``"age >= 18"``.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    queries : array_like (q, G), DataFrame, or mapping of name to weights
        The weights W of the cells in each query. An array has the cells in the order of `table`, the last column
        varying fastest. A DataFrame has a row per query and a column per cell label (tuples of labels for several
        columns). A mapping gives for each name a list of G weights, or a mapping of cell label to weight, where unnamed
        cells have weight 0.
    names : sequence of str, length q, optional
        Names of the queries; by default those of ``queries``, or q0, q1, ...
    where : str, optional
        A condition on declared columns; other rows are ignored.
    inference : {"auto", "wald"}
        Intervals and tests use the exact distribution of the noise.
    draws : int
        Release the average of this many Laplace draws, each with its share of a `PureDP` budget. The noise is nearly
        normal from 10 draws on.

    Returns
    -------
    LinearQueries
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    OptionError
        If the weights do not match the cells or are not finite, or a query has only zeros; on measuring, if all queries
        are public.
    FormulaError, UnknownColumnError, SchemaError
        If a column or condition does not suit the schema, before any budget is spent.

    Notes
    -----
    Weights that are not integers (of at most 2^19) are rounded to steps of max abs(W) / 2^19; the rounded weights are
    measured and stored. The sensitivity is exact: the largest norm of a column of W, or of a difference of two columns
    under replace_one. Queries that each row changes in few ways can need little noise: the sum and the difference of
    two overlapping counts give each count with half the variance of measuring both (source 001).

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(hispanic=dpi.Boolean(), adult=dpi.Boolean())
    >>> rng = np.random.default_rng(3)
    >>> data = dpi.PublicData(schema.sample(1000, rng), schema, rng=rng)
    >>> W = {
    ...     "sum": {(True, True): 2, (True, False): 1, (False, True): 1},
    ...     "difference": {(True, False): 1, (False, True): -1},
    ... }
    >>> results = dpi.linear_queries(["hispanic", "adult"], data, queries=W).fit(dpi.PureDP(1.0))
    >>> results.t_test("0.5 * sum + 0.5 * difference").sd.round(1).item()
    2.0
    """
    axes = texts_of(columns)
    if not axes or not all(map(is_text, axes)):
        raise OptionError("columns", columns, "a column, or a list of columns")
    found = _queries(queries)
    called = tuple(name for name, _ in found) if names is None else names
    if isinstance(called, str) or len(called) != len(found):
        raise OptionError("names", names, f"{len(found)} names")
    weights = Weights(tuple(weights for _, weights in found))
    return LinearQueries.asking(locals(), names=tuple(called), axes=axes_of(axes))


def _queries(given: Any) -> tuple[tuple[str, Any], ...]:
    """Return queries as pairs of name and weights: numbers in order, or a mapping by cell."""
    if isinstance(given, pd.DataFrame):
        labels, rows = list(given.columns), given.to_numpy(dtype=object).tolist()
        if len(set(labels)) < len(labels):
            raise OptionError("queries", labels[:10], "a column for each cell, without duplicates")
        by_cell = [dict(zip(labels, row, strict=True)) for row in rows]
        listed: list[tuple[str, Any]] = list(zip(map(str, given.index), by_cell, strict=True))
    elif isinstance(given, Mapping):
        listed = [(name, dict(one.items()) if isinstance(one, pd.Series) else one) for name, one in given.items()]
    else:
        try:
            array = np.atleast_2d(np.asarray(given, dtype=np.float64))
        except (TypeError, ValueError):
            array = np.zeros(0)
        if array.ndim != 2 or not array.size:
            right = "an array (q, G), a DataFrame, or a mapping of name to weights"
            raise OptionError("queries", type_of(given), right)
        listed = [(f"q{place}", row) for place, row in enumerate(array.tolist())]
    return tuple(
        (name, dict(zip(one, _numbers(one.values()), strict=True)) if isinstance(one, Mapping) else _numbers(one))
        for name, one in listed
    )


def _numbers(given: Any) -> tuple[float, ...]:
    weights = floats(given)
    if weights is None:
        raise OptionError("queries", given, "numbers")
    return weights


@dataclass(frozen=True, eq=False)
class Weights:
    """The weights of a table's cells in each query: as given, or as measured on a public grid.

    Attributes
    ----------
    given : tuple, length q
        For each query a tuple of numbers in the order of the cells, or a mapping of cell label to weight.
    matrix : ndarray of int (q, G) or None
        As measured: the weights are ``step * matrix``.
    step : float
    """

    given: tuple[Any, ...] = ()
    matrix: NDArray[np.int64] | None = None
    step: float = 1.0

    def on_grid(self, names: tuple[str, ...], labels: list[Any]) -> tuple[NDArray[np.int64], float]:
        """Return integer weights (q, G) of the cells with these labels (G,), and their step.

        Raises
        ------
        OptionError
            If the weights do not match the cells.
        """
        if self.matrix is None:
            lines = [_by_cell(name, one, labels) for name, one in zip(names, self.given, strict=True)]
            return whole_weights(np.array(lines))
        if self.matrix.shape != (len(names), len(labels)):
            raise OptionError("queries", f"weights {self.matrix.shape}", f"{len(labels)} weights for each query")
        return self.matrix, self.step

    def to_dict(self) -> dict[str, Any]:
        """Return the step, and the weights of each query as a line of integers."""
        if self.matrix is None:
            raise TypeError("weights are stored when the cells are known")
        return {"step": self.step, "lines": [" ".join(map(str, line)) for line in self.matrix.tolist()]}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote.

        Raises
        ------
        ReleaseFormatError
        """
        step, rows = stored["step"], [[int(number) for number in str.split(line)] for line in stored["lines"]]
        if type(step) not in (int, float) or not 0 < step < np.inf:
            raise ReleaseFormatError("step is not a positive number")
        lengths = {len(row) for row in rows}
        if len(lengths) != 1 or 0 in lengths or max(abs(one) for row in rows for one in row) > LARGEST_WEIGHT:
            raise ReleaseFormatError(f"weights are not lines with equally many integers, at most {LARGEST_WEIGHT:,}")
        return cls(matrix=np.array(rows, dtype=np.int64), step=float(step))


def _by_cell(name: str, given: Any, labels: list[Any]) -> list[float]:
    """Weights of one query in the order of the cells."""
    shown = ", ".join(map(repr, labels[:6])) + (", ..." if len(labels) > 6 else "")
    if isinstance(given, Mapping):
        known = set(labels)
        unknown = [label for label in given if label not in known]
        if unknown:
            given_text, right = f"{name}: weights of {names_of(unknown)}", f"weights by cell; the cells are {shown}"
            raise OptionError("queries", given_text, right)
        return [float(given.get(label, 0.0)) for label in labels]
    if len(given) != len(labels):
        right = f"{len(labels)} weights, one for each cell: {shown}"
        raise OptionError("queries", f"{name}: {len(given)} weights", right)
    return list(given)


def whole_weights(weights: Array) -> tuple[NDArray[np.int64], float]:
    """Round weights to a public grid.

    Parameters
    ----------
    weights : ndarray (q, G)

    Returns
    -------
    matrix : ndarray of int (q, G)
        Integers of at most `LARGEST_WEIGHT`.
    step : float
        Weights are ``step * matrix``; 1 if they already are integers, otherwise the largest over `LARGEST_WEIGHT`.

    Raises
    ------
    OptionError
        If weights are not finite, there are too many, or a query is zero on the grid.
    """
    most = f"at most {MOST_QUERIES:,} queries of {MOST_CELLS:,} cells and {_MOST_WEIGHTS:,} weights"
    queries, cells = weights.shape
    if not (0 < queries <= MOST_QUERIES and 0 < cells <= MOST_CELLS and weights.size <= _MOST_WEIGHTS):
        raise OptionError("queries", f"{queries:,} queries of {cells:,} cells", f"one query or more, {most}")
    if not np.isfinite(weights).all():
        raise OptionError("queries", "weights that are not finite", "finite weights")
    largest = float(np.abs(weights).max())
    step = 1.0
    if largest > LARGEST_WEIGHT or (weights != np.rint(weights)).any():
        step = max(largest / LARGEST_WEIGHT, float(np.finfo(np.float64).tiny))
    matrix = np.rint(weights / step).astype(np.int64)
    if not matrix.any(axis=1).all():
        which = np.flatnonzero(~matrix.any(axis=1)).tolist()
        right = f"queries with a weight of at least {step:.3g}, a step of the common grid"
        raise OptionError("queries", f"only zeros in {which[:5]}", right)
    return matrix, step


@dataclass(frozen=True, eq=False)
class LinearQueries(Procedure):
    """Chosen combinations of the counts of a table's cells. See `linear_queries`."""

    procedures = ("linear_queries",)
    released_as = "linear"

    names: tuple[str, ...] = ()
    weights: Weights = Weights()
    axes: tuple[Mapping[str, Any], ...] = ()
    where: str | None = None
    draws: int = 1
    inference: str = inferred("auto", one_of(METHODS))
    target: Literal["data"] = inferred("data", one_of(("data",)))

    def check_options(self) -> None:
        """Refuse invalid names and an invalid number of draws."""
        if not all(isinstance(name, str) and name for name in self.names) or len(set(self.names)) < len(self.names):
            raise OptionError("names", list(self.names[:10]), "different texts")
        _ = Noise(draws=self.draws)

    def rows(self, schema: Schema) -> QuerySum:
        """Return the row sum.

        Raises
        ------
        OptionError, SchemaError, FormulaError, UnknownColumnError
            If the weights do not match the cells, or the columns cannot be tabulated.
        """
        axes = tuple(axis_from_dict(axis, schema) for axis in self.axes)
        condition, names = compiled_where(self.where, schema), [axis.name for axis in axes]
        if not names or len(set(names)) < len(names):
            raise OptionError("columns", names, "one or more different columns")
        cells = CellSum(Features(basis_of((), schema), condition), axes)
        labels = [cell[0] if len(cell) == 1 else cell for cell in cells.cells]
        return QuerySum(cells, *self.weights.on_grid(self.names, labels), self.names)

    def text(self, schema: Schema) -> str:
        """Describe the question in one line."""
        axes = ", ".join(axis.name for axis in self.rows(schema).cells.axes)
        listed = ", ".join(self.names[:5]) + (f", ... ({len(self.names)} in all)" if len(self.names) > 5 else "")
        return f"linear queries of {axes}: {listed}{told_where(self.where)}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse columns that cannot be tabulated, and weights that do not match the cells."""
        self.rows(schema)

    def resolve(self, context: Context) -> Self:
        """Return the same queries with their weights rounded to the grid."""
        rows = self.rows(context.schema)
        return replace(self, weights=Weights(matrix=rows.matrix, step=rows.step))

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the queries."""
        return Stage(Sum(self.rows(context.schema)), Noise(draws=self.draws))

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement and the common noise of all queries, before any budget is spent."""
        names = measured.names
        listed = ", ".join(names[:10]) + (f", ... ({len(names):,} in all)" if len(names) > 10 else "")
        error = f"standard error from privacy noise, whatever the rows are: {first_error(measured):.4g} ({listed})"
        return f"{measured.describe()}\n{error}"

    def reads(self, other: Procedure) -> bool:
        """Whether the same queries of the same table were measured."""
        if not isinstance(other, LinearQueries) or not isinstance(other.source, Release):
            return False
        questions = [([dict(axis) for axis in one.axes], one.where, one.names) for one in (self, other)]
        if questions[0] != questions[1]:
            return False
        mine, theirs = self.rows(other.source.schema), other.rows(other.source.schema)
        return mine.step == theirs.step and np.array_equal(mine.matrix, theirs.matrix)

    def counted(self) -> MeasuredCounts | None:
        """Return the combinations of counts in its release."""
        if not isinstance(self.source, Release):
            return None
        rows = self.rows(self.source.schema)
        condition = rows.cells.features.where
        where = None if condition is None else condition.text
        return MeasuredCounts(rows.cells.axes, rows.weights, rows.names, where, rows.keeps_every_row)

    def infer(self, release: Release | None = None) -> DescriptionResults:
        """Infer from a stored release of this question, at no further privacy cost."""
        found, _ = self._asked_of(release)
        rows, notes = self.rows(found.schema), where_notes(self.where)
        if rows.step != 1:
            notes.append(f"Weights are those on the public grid of steps of {rows.step:.3g}.")
        return DescriptionResults(
            measured_queries(found.law, found.steps, self.names, found.array),
            found,
            model_name="Private linear queries",
            response=" x ".join(axis.name for axis in rows.cells.axes),
            notes=notes,
            quantity="estimate",
            index=pd.Index(list(self.names), name="query"),
        )

    def estimate(self, released: Released, *, alpha: float = 0.05, contrasts: Contrasts = None) -> BatchEstimates:
        """Infer from many releases at once; see `Procedure.estimate`."""
        return measured_queries(released.law, released.steps, released.names, released.values).batch(alpha, contrasts)

    def oracle(
        self, released: Released, *, sampling: Array, alpha: float = 0.05, contrasts: Contrasts = None
    ) -> Oracle:
        """Return the width of an interval, from the noise alone since the table is fixed; see `OLS.oracle`."""
        return measured_queries(released.law, released.steps, released.names).oracle(sampling, alpha, contrasts)

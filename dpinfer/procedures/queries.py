"""Linear queries: chosen combinations of the counts of a table, measured without releasing the counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.errors import OptionError
from dpinfer.inference.linear_noise import METHODS, batch_queries, query_oracle
from dpinfer.kernel.stage import Context, Data, Noise, Stage, Sum
from dpinfer.numerics.reading import floats
from dpinfer.procedures.descriptions import table
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.procedure import Procedure
from dpinfer.results.queries import LinearQuestion, infer_linear

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from dpinfer.inference.batch import BatchEstimates, Oracle
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.release import Release, StageRelease
    from dpinfer.results.descriptions import DescriptionResults
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["LinearQueries", "linear_queries"]


@dataclass(frozen=True, eq=False)
class LinearQueries(Procedure):
    """Chosen combinations of the counts of a table's cells. See `linear_queries`."""

    queries: tuple[tuple[str, Any], ...] = ()
    axes: tuple[Mapping[str, Any], ...] = ()
    where: str | None = None
    inference: str = "auto"
    draws: int = 1

    def __post_init__(self) -> None:
        if self.inference not in METHODS:
            raise OptionError("inference", self.inference, METHODS)
        _ = Noise(draws=self.draws)
        super().__post_init__()
        if isinstance(self.source, Data):
            self._question(self.source.schema)

    def _question(self, schema: Schema) -> LinearQuestion:
        return LinearQuestion.of(schema, axes=self.axes, queries=self.queries, where=self.where)

    def release_kind(self, context: Context) -> str:  # noqa: ARG002
        """Return "linear"."""
        return "linear"

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the queries."""
        return Stage(Sum(self._question(context.schema).rows), Noise(draws=self.draws))

    def question(self, context: Context) -> dict[str, Any]:
        """Return what a release stores of the question."""
        return self._question(context.schema).to_dict()

    def explain(self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None) -> str:
        """Describe the measurement and the noise of every query, before anything is spent.

        Returns
        -------
        str
            What is measured, its bound, noise and guarantee, and the standard error of the queries: they have one in
            common, whatever the rows are.
        """
        measured = self.measurement(privacy, schema=schema, neighbors=neighbors)
        error = float(np.sqrt(measured.law.variances[0])) * measured.steps[0]
        names = measured.names
        listed = ", ".join(names[:10]) + (f", ... ({len(names):,} in all)" if len(names) > 10 else "")
        return "\n".join(
            [measured.describe(), f"standard error from privacy noise, whatever the rows are: {error:.4g} ({listed})"]
        )

    def infer(self, release: Release | None = None) -> DescriptionResults:
        """Infer from a release of this question: free, and without any row."""
        results: DescriptionResults = infer_linear(self._release(release), inference=self.inference)
        return results

    def infer_batch(
        self,
        measurement: Measurement,
        values: Array,
        *,
        alpha: float = 0.05,
        contrasts: Mapping[str, Mapping[str, float]] | None = None,
    ) -> BatchEstimates:
        """Infer from many releases at once; equal to `infer` one by one.

        Parameters
        ----------
        measurement : Measurement
        values : ndarray (R, q)
            Noisy queries of every release.
        alpha : float
        contrasts : mapping, optional
            Combinations of queries, inferred after them.
        """
        law, steps, names = measurement.law, measurement.steps, measurement.names
        return batch_queries(values, law=law, steps=steps, names=names, alpha=alpha, contrasts=contrasts)

    def oracle(
        self,
        measurement: Measurement,
        sums: Array,  # noqa: ARG002  (the law of the noise is all that matters)
        *,
        alpha: float = 0.05,
        contrasts: Mapping[str, Mapping[str, float]] | None = None,
    ) -> Oracle:
        """Say how wide an interval must be; for studies."""
        law, steps, names = measurement.law, measurement.steps, measurement.names
        return query_oracle(law=law, steps=steps, names=names, alpha=alpha, contrasts=contrasts)


@suggests
def linear_queries(
    W: ArrayLike | pd.DataFrame | Mapping[str, Any],
    columns: str | Sequence[str],
    data: Data | Release | None = None,
    *,
    names: Sequence[str] | None = None,
    where: str | None = None,
    inference: str = "auto",
    draws: int = 1,
) -> LinearQueries:
    """Measure chosen combinations W x of the counts x of a table, without releasing x.

    Parameters
    ----------
    W : array_like (q, G), DataFrame, or mapping of name to weights
        The weights of the cells in each query. An array has the cells in the order of `table`, the last column running
        fastest; a DataFrame has a row per query and its columns labelled by cell (tuples of labels where there are
        several columns); a mapping has for each name a list of G weights, or a mapping of cell label to weight. Cells
        that are not named have weight 0.
    columns : str or sequence of str
        As in `table`: Category, Boolean or short Integer columns, or conditions such as ``"age >= 18"``.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    names : sequence of str, length q, optional
        What the queries are called; by default those of W, or q0, q1, ...
    where : str, optional
        A condition on declared columns; other rows count as absent.
    inference : {"auto", "wald"}
        Intervals and tests come from the exact law of the noise.
    draws : int
        Release the average of so many Laplace draws, each at its share of a `PureDP` price: near normal from 10 on.

    Returns
    -------
    LinearQueries
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    OptionError
        If W does not fit the cells, is not finite, or has a query of zeros; on measuring, where all queries are public.
    FormulaError, UnknownColumnError, SchemaError
        If a column or condition cannot be served from the schema, before anything is spent.

    Notes
    -----
    Weights that are not whole numbers (of at most 2^19) are rounded to steps of max abs(W) / 2^19; the rounded ones
    are measured and stored. The sensitivity is exact: the largest norm of a column of W, and under replace_one of a
    difference of two. Queries that each row changes in few ways can be cheap: the sum and the difference of two
    overlapping counts give each count with half the variance of measuring both (source 001).

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> from dpinfer.procedures.queries import linear_queries
    >>> schema = dpi.Schema(hispanic=dpi.Boolean(), adult=dpi.Boolean())
    >>> rng = np.random.default_rng(3)
    >>> data = dpi.PublicData(schema.sample(1000, rng), schema, rng=rng)
    >>> W = {
    ...     "sum": {(True, True): 2, (True, False): 1, (False, True): 1},
    ...     "difference": {(True, False): 1, (False, True): -1},
    ... }
    >>> results = linear_queries(W, ["hispanic", "adult"], data).fit(dpi.PureDP(1.0))
    >>> results.t_test("0.5 * sum + 0.5 * difference").sd.round(1).item()
    2.0
    """
    axes = table(columns).axes
    found = _queries(W)
    if names is not None:
        if isinstance(names, str) or len(names) != len(found):
            raise OptionError("names", names, f"{len(found)} names")
        found = tuple((name, weights) for name, (_, weights) in zip(names, found, strict=True))
    called = [name for name, _ in found]
    if not all(isinstance(name, str) and name for name in called) or len(set(called)) < len(called):
        raise OptionError("names", called[:10], "different texts")
    return LinearQueries(source=data, queries=found, axes=axes, where=where, inference=inference, draws=draws)


def _queries(given: Any) -> tuple[tuple[str, Any], ...]:
    """Read W as pairs of name and weights: numbers in order, or a mapping by cell."""
    if isinstance(given, pd.DataFrame):
        labels = list(given.columns)
        rows = [_weights(row) for row in given.to_numpy(dtype=object).tolist()]
        if len(set(labels)) < len(labels):
            raise OptionError("W", labels[:10], "a column for each cell, none twice")
        return tuple(
            (str(name), dict(zip(labels, row, strict=True))) for name, row in zip(given.index, rows, strict=True)
        )
    if isinstance(given, Mapping):
        return tuple((name, _named(weights)) for name, weights in given.items())
    try:
        array = np.atleast_2d(np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError):
        array = np.zeros(0)
    if array.ndim != 2 or not array.size:
        raise OptionError("W", type(given).__name__, "an array (q, G), a DataFrame, or a mapping of name to weights")
    return tuple((f"q{place}", tuple(row)) for place, row in enumerate(array.tolist()))


def _named(weights: Any) -> Any:
    if isinstance(weights, pd.Series):
        weights = dict(zip(weights.index, weights, strict=True))
    if isinstance(weights, Mapping):
        return dict(zip(weights, _weights(list(weights.values())), strict=True))
    return _weights(weights)


def _weights(given: Any) -> tuple[float, ...]:
    weights = floats(given)
    if weights is None:
        raise OptionError("W", given, "numbers")
    return weights

"""How good data are: noisy counts of cells by class, of every column in one release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pandas as pd

from dpinfer.errors import OptionError, ReleaseFormatError, type_of
from dpinfer.inference.linear_noise import METHODS, batch_queries, measured_queries
from dpinfer.kernel.rows.marginals import ClassCounts
from dpinfer.kernel.stage import Context, Data, Stage, Sum
from dpinfer.procedures.described import MOST_ESTIMATES
from dpinfer.procedures.explanation import first_error
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import inferred, one_of, texts_of
from dpinfer.procedures.procedure import Procedure
from dpinfer.release.quality import QUALITY, Quality
from dpinfer.results.quality import QualityResults

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.inference.batch import BatchEstimates
    from dpinfer.inference.released import Released
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors
    from dpinfer.procedures.options import Contrasts
    from dpinfer.release import StageRelease
    from dpinfer.release.release import Release
    from dpinfer.schema.schema import Schema

__all__ = ["DataQuality", "quality"]


@dataclass(frozen=True, eq=False)
class DataQuality(Procedure):
    """Counts of valid, clamped, missing, impossible and unknown cells, and of rows kept. See `quality`."""

    procedures = (QUALITY,)

    columns: tuple[str, ...] = ()
    inference: str = inferred("auto", one_of(METHODS))
    target: Literal["data"] = inferred("data", one_of(("data",)))

    def rows(self, schema: Schema) -> ClassCounts:
        """Return the row sum: of the columns that are named, or of all.

        Raises
        ------
        UnknownColumnError, OptionError
        """
        if len(set(self.columns)) < len(self.columns):
            raise OptionError("columns", list(self.columns), "different columns")
        named = schema.select(self.columns or list(schema))
        found = ClassCounts(schema.select([name for name in schema if name in named]))
        if not len(found.schema) or len(found.names) > MOST_ESTIMATES:
            right = f"columns of together at most {MOST_ESTIMATES:,} counts, five for a number"
            raise OptionError("columns", f"{len(found.schema):,} columns", right)
        return found

    def text(self, schema: Schema) -> str:
        """Return the question in one line."""
        named = self.columns or tuple(schema)
        listed = ", ".join(named[:5]) + (f", ... ({len(named)} in all)" if len(named) > 5 else "")
        return f"quality of {listed}: valid, clamped, missing and impossible cells, and rows kept"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse columns that are not declared, or too many."""
        self.rows(schema)

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the counts."""
        return Stage(Sum(self.rows(context.schema)))

    def describe(self, measured: Measurement) -> str:
        """Say what is measured, its bound, noise and guarantee, and the standard error of every count."""
        error = f"{first_error(measured):.4g} rows for every count"
        return f"{measured.describe()}\nstandard error from privacy noise, whatever the rows are: {error}"

    def infer(self, release: Release | None = None) -> QualityResults:
        """Infer from a release of this question: free, and without any row."""
        found, _ = self._asked_of(release)
        read = Quality.read(found)
        if read is None:
            raise ReleaseFormatError("stages: not the counts that the question asks for")
        schema, names = read.schema, found.names
        pairs = [*read.places, ("", names[-1])]
        return QualityResults(
            measured_queries(found.law, found.steps, names, found.array),
            found,
            quality=read,
            model_name="Private data quality",
            response=", ".join(schema),
            quantity="count",
            index=pd.MultiIndex.from_tuples(pairs, names=["column", "class"]),
        )

    def estimate(self, released: Released, *, alpha: float = 0.05, contrasts: Contrasts = None) -> BatchEstimates:
        """Infer from many releases at once; see `Procedure.estimate`."""
        return batch_queries(released, alpha=alpha, contrasts=contrasts)


@suggests
def quality(
    data: Data | Release | None = None,
    *,
    columns: str | Sequence[str] | None = None,
    inference: str = "auto",
) -> DataQuality:
    """Count missing, impossible and clamped cells of all columns at once, as a first look at confidential rows.

    Parameters
    ----------
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    columns : str or sequence of str, optional
        By default all columns of the schema.
    inference : {"auto", "wald"}
        Intervals and tests of the counts come from the exact law of the noise.

    Returns
    -------
    DataQuality
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``. Its results have
        ``frame()``, ``advice`` and ``plot()``.

    Raises
    ------
    UnknownColumnError
        If a column is not declared.
    OptionError
        If columns are named twice, or are too many.

    Notes
    -----
    Each cell is of one class: valid; clamped low or high, for a number or a date beyond its bounds; missing, codes of
    missing cells included; impossible, if it cannot be read as its column is declared; or, in a Category, an unknown
    level. One more count is of the rows that a model of all columns keeps. Cells are read by the code that all fits
    read them with. With K columns a row that is added changes K + 1 counts by 1, one that is replaced 2 K + 1: this is
    the sensitivity in L1, and its root in L2.

    Fits on the same data after this one cite in their notes what is advised on the columns that they read: a function
    of the release, at no cost.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> rng = np.random.default_rng(1)
    >>> frame = pd.DataFrame({"smoker": rng.integers(1, 3, 5000), "age": rng.uniform(18, 90, 5000)})
    >>> schema = dpi.Schema(smoker=dpi.Boolean(), age=dpi.Real(0, 100))
    >>> results = dpi.quality(dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.01))
    >>> print(results.advice[0][:58])
    About 50% of the cells of smoker are impossible for a colu
    """
    named = () if columns is None else texts_of(columns)
    if columns is not None and not named:
        raise OptionError("columns", type_of(columns), "columns, or None for all of the schema")
    return DataQuality.asking(locals(), columns=named)

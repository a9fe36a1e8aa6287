"""Questions for a first look, by noisy counts of cells: data quality, and unknown bounds."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from dpinfer.checks import Allowed, is_number, one_of, texts_of, whole
from dpinfer.entry.results import QUALITY, BoundsResults, Quality, QualityResults, occupied_from, octave_bounds
from dpinfer.errors import OptionError, ReleaseFormatError, type_of
from dpinfer.kernel.rows.marginals import ClassCounts, ColumnCounts, OctaveRows
from dpinfer.kernel.stage import Context, Data, Stage, Sum
from dpinfer.procedures.cell_sums import MOST_ESTIMATES
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import Contrasts, inferred, measured
from dpinfer.procedures.procedure import Procedure, first_error
from dpinfer.statistics.combination import METHODS, measured_queries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.inference import BatchEstimates, Released

__all__ = ["Bounds", "CellCounts", "DataQuality", "bounds", "quality"]


@dataclass(frozen=True, eq=False)
class CellCounts(Procedure):
    """Counts of the cells of each column by mutually exclusive classes."""

    _text: ClassVar[str] = "{}"
    """The question in one line, but for the columns."""

    columns: tuple[str, ...] = ()

    @abstractmethod
    def rows(self, schema: Schema) -> ColumnCounts:
        """Return the row sum.

        Raises
        ------
        UnknownColumnError, OptionError
        """

    def _chosen(self, schema: Schema) -> Schema:
        """Return the declarations of the columns, in the order of the schema."""
        if len(set(self.columns)) < len(self.columns):
            raise OptionError("columns", list(self.columns), "different columns")
        named = schema.select(self.columns)
        return schema.select([name for name in schema if name in named])

    def text(self, schema: Schema) -> str:
        """Return the question in one line."""
        named = self.columns or tuple(schema)
        listed = ", ".join(named[:5]) + (f", ... ({len(named)} in all)" if len(named) > 5 else "")
        return self._text.format(listed)

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse columns that are undeclared or cannot be counted."""
        self.rows(schema)

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Return the measurement of the counts."""
        return Stage(Sum(self.rows(context.schema)))

    def estimate(self, released: Released, *, alpha: float = 0.05, contrasts: Contrasts = None) -> BatchEstimates:
        """Infer the counts of many releases at once; see `Procedure.estimate`."""
        return measured_queries(released.law, released.steps, released.names, released.values).batch(alpha, contrasts)


_MARGIN = whole(0, 20, "a whole number of octaves from 0 to 20")
_FALSE_ALARM = Allowed(
    lambda given: is_number(given) and 1e-9 <= given <= 0.5, "a probability from 1e-9 to 0.5, such as 0.001"
)
_OCTAVES = Allowed(
    lambda given: isinstance(given, tuple) and len(given) == 2 and all(type(one) is int for one in given),
    "exponents of 2, two whole numbers in order, such as (-30, 60)",
)


@dataclass(frozen=True, eq=False)
class Bounds(CellCounts):
    """Counts of numeric columns in signed octaves; see `bounds`."""

    procedures = ("bounds",)
    _text = "bounds of {}, from counts in signed octaves"

    octaves: tuple[int, ...] = measured((-30, 60), _OCTAVES)
    margin: int = inferred(1, _MARGIN)
    false_alarm: float = inferred(0.001, _FALSE_ALARM)
    inference: str = inferred("auto", one_of(METHODS))
    target: Literal["data"] = inferred("data", one_of(("data",)))

    def rows(self, schema: Schema) -> OctaveRows:
        """Return the row sum.

        Raises
        ------
        UnknownColumnError, OptionError
        """
        found = OctaveRows(self._chosen(schema), *self.octaves)
        found.check()
        if len(found.names) > MOST_ESTIMATES:
            right = f"columns of together at most {MOST_ESTIMATES:,} octaves: fewer columns, or fewer octaves="
            raise OptionError("columns", f"{len(found.names):,} octaves", right)
        return found

    def columns_stored(self, context: Context) -> tuple[str, ...]:
        """Return all columns: a release holds the whole schema, which results return with new bounds."""
        return tuple(context.schema)

    def check_release(self, release: Release) -> None:
        """Refuse a release that states that other columns were read."""
        super().check_release(release)
        if set(release.columns_read) != set(self.columns):
            raise ReleaseFormatError("read: not the columns that the question asks for")

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement, its bound, noise and guarantee, and the threshold for noisy counts."""
        limit = occupied_from(measured.law, self.false_alarm) * measured.steps[0]
        return f"{measured.describe()}\nan octave counts as occupied if its noisy count exceeds {limit:,.4g} rows"

    def infer(self, release: Release | None = None) -> BoundsResults:
        """Infer from a release of this question, at no privacy cost and without reading a row."""
        chosen, _ = self._asked_of(release)
        threshold = occupied_from(chosen.law, self.false_alarm) * chosen.steps[0]
        rows = self.rows(chosen.schema)
        apart = zip(rows.schema, np.split(chosen.array, np.cumsum(rows.sizes)[:-1]), strict=True)
        ends = {name: octave_bounds(counts[None], rows.ends(name), threshold, self.margin)[0] for name, counts in apart}
        return BoundsResults(
            measured_queries(chosen.law, chosen.steps, chosen.names, chosen.array),
            chosen,
            found={name: (float(lower), float(upper)) for name, (lower, upper) in ends.items()},
            threshold=threshold,
            margin=self.margin,
        )


@suggests
def bounds(
    columns: str | Sequence[str],
    data: Data | Release | None = None,
    *,
    octaves: tuple[int, int] = (-30, 60),
    margin: int = 1,
    false_alarm: float = 0.001,
    inference: str = "auto",
) -> Bounds:
    """Find unknown bounds of numeric columns from noisy counts on a public grid.

    Parameters
    ----------
    columns : str or sequence of str
        Columns declared as Real or Integer, with very loose bounds: ``Real(-1e12, 1e12)``, or ``Real(0, 1e12)`` for a
        variable that cannot be negative. The bounds found lie within them.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    octaves : (int, int)
        Exponents of the grid: its points are plus and minus 2^k for all whole k between these, in the columns' units.
    margin : int
        Octaves to add beyond the outermost occupied ones.
    false_alarm : float
        Largest probability that any empty octave is classified as occupied.
    inference : {"auto", "wald"}
        Inference for the counts.

    Returns
    -------
    Bounds
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``. Its results have
        ``bounds``, a table, and ``schema``, the data's schema with these bounds.

    Raises
    ------
    UnknownColumnError
        If a column is not declared.
    OptionError
        If a column is not declared as Real or Integer, or an argument is invalid.

    Notes
    -----
    With K columns, adding a row changes K counts by 1, and replacing one changes 2 K: this is the L1 sensitivity, and
    its square root the L2 sensitivity. An octave is occupied if its noisy count exceeds the threshold that the noise of
    any empty octave exceeds with probability at most ``false_alarm`` (Bonferroni over all octaves of all columns). If
    no octave is occupied, the bounds are not determined.

    Later fits clamp rows outside the bounds, which are too few to be detected here; `docs/entry.md` has the measured
    coverage. Regressions by noisy iterations (`ols`, `logit`, `poisson`, `glm`) need only loose bounds.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> rng = np.random.default_rng(1)
    >>> frame = pd.DataFrame({"income": rng.lognormal(10, 0.5, 20_000)})
    >>> data = dpi.PublicData(frame, dpi.Schema(income=dpi.Real(0, 1e12)), rng=rng)
    >>> found = dpi.bounds("income", data).fit(dpi.ZCDP(0.01))
    >>> found.schema["income"]
    Real(2048.0, 262144.0)
    """
    named = texts_of(columns)
    if not named:
        raise OptionError("columns", columns, "a column, or a list of columns")
    return Bounds.asking(locals(), columns=named)


@dataclass(frozen=True, eq=False)
class DataQuality(CellCounts):
    """Counts of valid, clamped, missing, impossible and unknown cells, and of rows kept; see `quality`."""

    procedures = (QUALITY,)
    _text = "quality of {}: valid, clamped, missing and impossible cells, and rows kept"

    inference: str = inferred("auto", one_of(METHODS))
    target: Literal["data"] = inferred("data", one_of(("data",)))

    def rows(self, schema: Schema) -> ClassCounts:
        """Return the row sum, over the named columns or all.

        Raises
        ------
        UnknownColumnError, OptionError
        """
        found = ClassCounts(self._chosen(schema) if self.columns else schema)
        if len(found.names) > MOST_ESTIMATES:
            right = f"columns of together at most {MOST_ESTIMATES:,} counts, five for a number"
            raise OptionError("columns", f"{len(found.schema):,} columns", right)
        return found

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement, its bound, noise and guarantee, and the standard error of every count."""
        error = f"{first_error(measured):.4g} rows for every count"
        return f"{measured.describe()}\nstandard error from privacy noise, whatever the rows are: {error}"

    def infer(self, release: Release | None = None) -> QualityResults:
        """Infer from a release of this question, at no privacy cost and without reading a row."""
        found, _ = self._asked_of(release)
        read = Quality.read(found)
        if read is None:
            raise ReleaseFormatError("stages: not the counts that the question asks for")
        counts = measured_queries(found.law, found.steps, found.names, found.array)
        return QualityResults(counts, found, quality=read)


@suggests
def quality(
    data: Data | Release | None = None,
    *,
    columns: str | Sequence[str] | None = None,
    inference: str = "auto",
) -> DataQuality:
    """Count missing, impossible and clamped cells of all columns, for a first look at confidential rows.

    Parameters
    ----------
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    columns : str or sequence of str, optional
        By default all columns of the schema.
    inference : {"auto", "wald"}
        Intervals and tests of the counts use the exact distribution of the noise.

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
        If a column is named twice, or there are too many columns.

    Notes
    -----
    Each cell has one class: valid; clamped low or high, for a number or a date outside its bounds; missing, including
    codes of missing cells; impossible, if it cannot be read as its column is declared; or, in a Category, an unknown
    level. A further count is of the rows that a model of all columns keeps. Cells are read by the same code as in all
    fits. With K columns, adding a row changes K + 1 counts by 1, and replacing one changes 2 K + 1: this is the L1
    sensitivity, and its square root the L2 sensitivity.

    Later fits on the same data cite in their notes the advice on the columns that they read. It is a function of the
    release, at no privacy cost.

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

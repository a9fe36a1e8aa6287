"""Questions asked first: how good data are, and bounds that nobody knows, by noisy counts of cells."""

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
    """Counts of the cells of columns, of each by classes that exclude each other."""

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
        """Refuse columns that are not declared, or cannot be counted."""
        self.rows(schema)

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the counts."""
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
    """Counts of numeric columns in signed octaves. See `bounds`."""

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
        """Return all columns, so that a release holds the whole schema, which results return with other bounds."""
        return tuple(context.schema)

    def check_release(self, release: Release) -> None:
        """Refuse a release that says that other columns were read."""
        super().check_release(release)
        if set(release.columns_read) != set(self.columns):
            raise ReleaseFormatError("read: not the columns that the question asks for")

    def describe(self, measured: Measurement) -> str:
        """Say what is measured, its bound, noise and guarantee, and the limit that a noisy count has to exceed."""
        limit = occupied_from(measured.law, self.false_alarm) * measured.steps[0]
        return f"{measured.describe()}\nan octave counts as occupied if its noisy count exceeds {limit:,.4g} rows"

    def infer(self, release: Release | None = None) -> BoundsResults:
        """Infer from a release of this question: free, and without any row."""
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
    """Find bounds of numeric columns that nobody knows, from noisy counts on a public grid.

    Parameters
    ----------
    columns : str or sequence of str
        Columns that are declared as Real or Integer, with bounds as loose as can be: ``Real(-1e12, 1e12)``, or
        ``Real(0, 1e12)`` for what cannot be negative. What is found lies within them.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    octaves : (int, int)
        Exponents of the grid: its ends are plus and minus 2^k for all whole k between these, in the columns' units.
    margin : int
        Octaves that are added beyond the outermost ones whose count is beyond noise.
    false_alarm : float
        Probability, at most, that any octave without rows is taken to hold some.
    inference : {"auto", "wald"}
        Of the counts.

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
        If a column is declared as something else than Real or Integer, or an argument has an invalid value.

    Notes
    -----
    With K columns a row that is added changes K counts by 1, one that is replaced 2 K: this is the sensitivity in L1,
    and its root in L2. An octave counts as occupied if its noisy count exceeds what the noise of some empty one exceeds
    with probability ``false_alarm`` (Bonferroni over all octaves of all columns). Where none does, the bounds are not
    determined.

    Rows beyond the bounds are clamped in what is fitted next. They are too few to be seen here; `docs/entry.md` has the
    measured coverage. Regressions by rounds (`ols`, `logit`, `poisson`, `glm`) need no more than loose bounds.

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
    """Counts of valid, clamped, missing, impossible and unknown cells, and of rows kept. See `quality`."""

    procedures = (QUALITY,)
    _text = "quality of {}: valid, clamped, missing and impossible cells, and rows kept"

    inference: str = inferred("auto", one_of(METHODS))
    target: Literal["data"] = inferred("data", one_of(("data",)))

    def rows(self, schema: Schema) -> ClassCounts:
        """Return the row sum: of the columns that are named, or of all.

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
        """Say what is measured, its bound, noise and guarantee, and the standard error of every count."""
        error = f"{first_error(measured):.4g} rows for every count"
        return f"{measured.describe()}\nstandard error from privacy noise, whatever the rows are: {error}"

    def infer(self, release: Release | None = None) -> QualityResults:
        """Infer from a release of this question: free, and without any row."""
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

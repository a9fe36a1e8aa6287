"""Bounds that nobody knows, from noisy counts in signed octaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pandas as pd

from dpinfer.errors import OptionError, ReleaseFormatError
from dpinfer.inference.linear_noise import METHODS, batch_queries, measured_queries
from dpinfer.inference.octaves import occupied_from, octave_bounds
from dpinfer.kernel.rows.marginals import OctaveRows
from dpinfer.kernel.stage import Context, Data, Stage, Sum
from dpinfer.procedures.described import MOST_ESTIMATES
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import Allowed, inferred, is_number, measured, one_of, texts_of, whole
from dpinfer.procedures.procedure import Procedure
from dpinfer.results.bounds import BoundsResults

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

__all__ = ["Bounds", "bounds"]

_MARGIN = whole(0, 20, "a whole number of octaves from 0 to 20")
_FALSE_ALARM = Allowed(
    lambda given: is_number(given) and 1e-9 <= given <= 0.5, "a probability from 1e-9 to 0.5, such as 0.001"
)
_OCTAVES = Allowed(
    lambda given: isinstance(given, tuple) and len(given) == 2 and all(type(one) is int for one in given),
    "exponents of 2, two whole numbers in order, such as (-30, 60)",
)


@dataclass(frozen=True, eq=False)
class Bounds(Procedure):
    """Counts of numeric columns in signed octaves. See `bounds`."""

    procedures = ("bounds",)

    columns: tuple[str, ...] = ()
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
        if len(set(self.columns)) < len(self.columns):
            raise OptionError("columns", list(self.columns), "different columns")
        named = schema.select(self.columns)
        found = OctaveRows(schema.select([name for name in schema if name in named]), *self.octaves)
        found.check()
        if len(found.names) > MOST_ESTIMATES:
            right = f"columns of together at most {MOST_ESTIMATES:,} octaves: fewer columns, or fewer octaves="
            raise OptionError("columns", f"{len(found.names):,} octaves", right)
        return found

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        listed = ", ".join(self.columns[:5]) + (f", ... ({len(self.columns)} in all)" if len(self.columns) > 5 else "")
        return f"bounds of {listed}, from counts in signed octaves"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse columns that are not declared, or not as numbers."""
        self.rows(schema)

    def columns_stored(self, context: Context) -> tuple[str, ...]:
        """Return all columns, so that a release holds the whole schema, which results return with other bounds."""
        return tuple(context.schema)

    def check_release(self, release: Release) -> None:
        """Refuse a release that says that other columns were read."""
        super().check_release(release)
        if set(release.columns_read) != set(self.columns):
            raise ReleaseFormatError("read: not the columns that the question asks for")

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the counts."""
        return Stage(Sum(self.rows(context.schema)))

    def describe(self, measured: Measurement) -> str:
        """Say what is measured, its bound, noise and guarantee, and the limit that a noisy count has to exceed."""
        limit = occupied_from(measured.law, self.false_alarm) * measured.steps[0]
        told = f"an octave counts as occupied if its noisy count exceeds {limit:,.4g} rows"
        return f"{measured.describe()}\n{told}"

    def infer(self, release: Release | None = None) -> BoundsResults:
        """Infer from a release of this question: free, and without any row."""
        chosen, _ = self._asked_of(release)
        rows, counts = self.rows(chosen.schema), chosen.array
        threshold = occupied_from(chosen.law, self.false_alarm) * chosen.steps[0]
        found, pairs, start = {}, [], 0
        for name, size in zip(rows.schema, rows.sizes, strict=True):
            ends = octave_bounds(counts[None, start : start + size], rows.ends(name), threshold, self.margin)[0]
            found[name] = float(ends[0]), float(ends[1])
            pairs += [(name, one) for one in rows.classes(name)]
            start += size
        return BoundsResults(
            measured_queries(chosen.law, chosen.steps, chosen.names, counts),
            chosen,
            found=found,
            threshold=threshold,
            margin=self.margin,
            model_name="Private bounds",
            response=", ".join(self.columns),
            quantity="count",
            index=pd.MultiIndex.from_tuples(pairs, names=["column", "octave"]),
        )

    def estimate(self, released: Released, *, alpha: float = 0.05, contrasts: Contrasts = None) -> BatchEstimates:
        """Infer the counts of many releases at once; see `Procedure.estimate`."""
        return batch_queries(released, alpha=alpha, contrasts=contrasts)


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
        If a column is declared as something else than Real or Integer, or an option has no such value.

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
